//! A batch as lines, decoded: which tree, which key, which value.
//!
//! ```text
//! batch
//!   put document c 1 = {"_id":1,"a":5}
//!   put index c.a_1 (5) -> 1
//!   put totals c: 1 documents, 21 bytes
//! ```
//!
//! Trees are known by number on disk; their names are learned from the catalogue entries that the same
//! store was given, so that a script sees only what a restart would see.

use crate::plans::json;
use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_engine::index::{EntryLayout, IndexSpec};
use meridian_engine::storage::{BatchOperation, Family};
use meridian_value::key::{Direction, TypeBitsReader, decode};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The trees that the catalogue names.
#[derive(Default)]
pub struct Trees {
    collections: BTreeMap<u32, String>,
    indexes: BTreeMap<u32, (String, EntryLayout)>,
}

impl Trees {
    /// The operations of one batch, a line each.
    pub fn show(&mut self, batch: &[BatchOperation]) -> String {
        let mut shown = "batch\n".to_owned();
        for operation in batch {
            let line = match operation {
                BatchOperation::Put(Family::Catalog, key, value) => self.put_catalog(key, value),
                BatchOperation::Put(Family::Documents, key, value) => {
                    let document = RawDocument::from_bytes(value).unwrap();
                    format!("put {} = {}", self.document(key), json(document))
                }
                BatchOperation::Put(Family::Indexes, key, value) => {
                    format!("put {}", self.entry_and_value(key, value))
                }
                BatchOperation::Delete(Family::Catalog, key) => {
                    format!("delete {}", self.catalog(key))
                }
                BatchOperation::Delete(Family::Documents, key) => {
                    format!("delete {}", self.document(key))
                }
                BatchOperation::Delete(Family::Indexes, key) => {
                    format!(
                        "delete {}",
                        self.entry(key, TypeBitsReader::from_bytes(&[]))
                    )
                }
                BatchOperation::DeleteRange(family, start, end) => {
                    self.delete_range(*family, start, end)
                }
            };
            writeln!(shown, "  {line}").unwrap();
        }
        shown
    }

    fn put_catalog(&mut self, key: &[u8], value: &[u8]) -> String {
        let name = self.catalog(key);
        match key[0] {
            b'c' => {
                let entry = RawDocument::from_bytes(value).unwrap();
                format!("put {name}: {}", self.learn(&name, entry))
            }
            b's' => {
                let number = |at: usize| i64::from_le_bytes(value[at..at + 8].try_into().unwrap());
                format!("put {name}: {} documents, {} bytes", number(0), number(8))
            }
            _ => {
                let next = u32::from_le_bytes(value.try_into().unwrap());
                format!("put {name}: {next}")
            }
        }
    }

    /// Takes a collection's trees in; what there is to say of them.
    fn learn(&mut self, name: &str, entry: &RawDocument) -> String {
        let collection = name.rsplit('.').next().unwrap().to_owned();
        let tree =
            |document: &RawDocument| u32::try_from(document.get_i64("tree").unwrap()).unwrap();
        let mut shown = format!("tree {}", tree(entry));
        self.collections.insert(tree(entry), collection.clone());
        for index in entry.get_array("indexes").unwrap() {
            let index = index.unwrap().as_document().unwrap();
            let spec = IndexSpec::parse(index.get_document("spec").unwrap()).unwrap();
            let ready = if index.get_bool("ready").unwrap() {
                ""
            } else {
                " building"
            };
            let multikey = match index.get_i64("multikey").unwrap() {
                0 => String::new(),
                bits => format!(" multikey {bits:#x}"),
            };
            write!(
                shown,
                ", {} tree {}{ready}{multikey}",
                spec.name,
                tree(index)
            )
            .unwrap();
            let named = format!("{collection}.{}", spec.name);
            self.indexes
                .insert(tree(index), (named, EntryLayout::new(&spec)));
        }
        shown
    }

    fn catalog(&self, key: &[u8]) -> String {
        match key.split_first().unwrap() {
            (b'c', name) => format!("collection {}", String::from_utf8_lossy(name)),
            (b's', tree) => format!("totals {}", self.collections[&number(tree)]),
            (b't', []) => "next tree".to_owned(),
            _ => format!("catalogue {}", hex(key)),
        }
    }

    fn document(&self, key: &[u8]) -> String {
        let (tree, id) = key.split_at(4);
        format!(
            "document {} {}",
            self.collections[&number(tree)],
            identifier(id)
        )
    }

    fn entry_and_value(&self, key: &[u8], value: &[u8]) -> String {
        let (_, layout) = &self.indexes[&number(key)];
        let value = layout.split(value).unwrap();
        let mut shown = self.entry(key, value.types);
        for located in value.points {
            write!(shown, " {located:?}").unwrap();
        }
        if let Some(carried) = value.carried {
            let carried = bson::Document::try_from(carried).unwrap();
            write!(
                shown,
                " carries {}",
                Bson::from(carried).into_relaxed_extjson()
            )
            .unwrap();
        }
        shown
    }

    /// An entry. Without its value (a delete), numbers have lost their type.
    fn entry(&self, key: &[u8], mut types: TypeBitsReader<'_>) -> String {
        let (tree, rest) = key.split_at(4);
        let (name, layout) = &self.indexes[&number(tree)];
        let (fields, id) = rest.split_at(layout.fields_length(rest).unwrap());
        let mut shown = format!("index {name} (");
        let mut at = 0;
        for position in 0..layout.fields() {
            let separator = if position == 0 { "" } else { ", " };
            let field = layout.decode_field(position, &fields[at..], &mut types);
            let (value, length) = field.unwrap();
            let shown_value = |value: Bson| value.into_relaxed_extjson().to_string();
            let value = value.map_or("missing".to_owned(), shown_value);
            write!(shown, "{separator}{value}").unwrap();
            at += length;
        }
        write!(shown, ") -> {}", identifier(id)).unwrap();
        shown
    }

    fn delete_range(&self, family: Family, start: &[u8], end: &[u8]) -> String {
        if let (Family::Catalog, [b'N', tree @ ..]) = (family, start) {
            return format!("delete the saved rank index of tree {}", number(tree));
        }
        let tree = number(start);
        if start.len() == 4 && end == (tree + 1).to_be_bytes() {
            let name = match family {
                Family::Indexes => self.indexes.get(&tree).map(|(name, _)| name),
                _ => self.collections.get(&tree),
            };
            return format!(
                "delete all of {}",
                name.map_or("an unknown tree", String::as_str)
            );
        }
        format!("delete from {} to {}", hex(start), hex(end))
    }
}

fn number(tree: &[u8]) -> u32 {
    u32::from_be_bytes(tree[..4].try_into().unwrap())
}

/// An `_id` as it is encoded in keys; numbers have lost their type there.
fn identifier(id: &[u8]) -> String {
    let (value, length) = decode(
        id,
        Direction::Ascending,
        &mut TypeBitsReader::from_bytes(&[]),
    )
    .unwrap();
    assert_eq!(length, id.len(), "an _id and nothing behind it");
    let mut document = RawDocumentBuf::new();
    meridian_value::with_raw(&value, |raw| document.append(bson::cstr!("_id"), raw));
    match value {
        Bson::Document(_) => json(&document),
        other => other.into_relaxed_extjson().to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
