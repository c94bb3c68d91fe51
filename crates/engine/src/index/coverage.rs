//! Rows from index entries alone.
//!
//! In: an index ([`HeldFields`]) and the fields that a query reads. Out: a [`Coverage`], if every such field can be had
//! from an entry; then, entry by entry, a document that holds at least those fields exactly as the
//! stored document does. `_id` comes first unless it is in the key, then the key's fields in the order
//! of the key (as in mongod's covered queries), then what the entry carries.
//!
//! Some entries cannot tell: a dotted path that leads nowhere does not say how far it leads, a 2dsphere
//! entry may stand for a line or for a point with more to it. Their documents must be read.
//! Deliberately absent: fields that are reached through arrays, which entries hold in pieces.

use super::entry::{EntryLayout, FieldValue, Located, corrupt};
use super::{IndexField, IndexSpec, Multikey};
use crate::Result;
use crate::expression::FieldSet;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::rawdoc;
use bson::spec::ElementType;
use meridian_value::field::{self, Field};
use meridian_value::{Collation, DocumentBuilder};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::sync::Arc;

/// How to make rows of the entries of one index.
#[derive(Debug, Clone)]
pub struct Coverage {
    layout: Arc<EntryLayout>,
    rows: CoveredShape,
}

#[derive(Debug, Clone)]
enum CoveredShape {
    /// The entry carries the document.
    Carried,
    Rebuilt(Recipe),
}

#[derive(Debug, Clone, Default)]
struct Recipe {
    fields: Vec<RebuiltField>,
    /// Bit `n` is set when field `n` of the key is needed.
    from_key: u64,
    needs_id: bool,
    paths: Vec<String>,
}

/// A field of a rebuilt document.
#[derive(Debug, Clone)]
struct RebuiltField {
    name: Box<str>,
    from: From,
}

/// Where a field's value is.
#[derive(Debug, Clone)]
enum From {
    /// Field of the key by position; `nested` when documents must exist on the way to it.
    Key {
        position: usize,
        nested: bool,
    },
    /// The point of the 2dsphere field with this ordinal among such fields.
    Point(usize),
    Id,
    Carried,
    Below(Vec<RebuiltField>),
}

/// The fields that the entries of one index hold, as far as rows can be made of them.
pub struct HeldFields<'s> {
    spec: &'s IndexSpec,
    layout: &'s Arc<EntryLayout>,
    multikey: Multikey,
    ids: Option<&'s Collation>,
    /// Listed when they are asked for.
    fields: OnceCell<Vec<HeldField<'s>>>,
}

/// A field that entries hold.
struct HeldField<'s> {
    path: &'s str,
    from: From,
}

/// Memory for the rows of one walk, used again for each.
#[derive(Default)]
pub struct RowBuffer {
    /// Values from the key, as BSON has them.
    values: Vec<u8>,
    /// A document's bytes, once there is a row.
    row: Vec<u8>,
    id_at: usize,
}

impl RowBuffer {
    /// The row that was written last.
    ///
    /// # Panics
    /// When none was.
    pub fn row(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.row).expect("a row was written")
    }

    /// Where the `_id` begins in the key of its entry.
    pub fn id_at(&self) -> usize {
        self.id_at
    }

    /// Puts another document in the row's place.
    pub fn replace(&mut self, row: RawDocumentBuf) {
        self.row = row.into_bytes();
    }
}

/// What was read of one entry.
struct EntryParts<'e> {
    /// The values' bytes.
    values: &'e [u8],
    key: SmallVec<[Option<FieldValue>; 4]>,
    id_at: usize,
    id: Option<FieldValue>,
    points: SmallVec<[Located; 1]>,
    carried: Option<&'e RawDocument>,
}

impl<'s> HeldFields<'s> {
    /// Of the entries of an index of a collection whose documents lie in the order of `_id`s by `ids`, if they do.
    pub fn new(
        spec: &'s IndexSpec,
        layout: &'s Arc<EntryLayout>,
        multikey: Multikey,
        ids: Option<&'s Collation>,
    ) -> Self {
        Self {
            ids,
            spec,
            layout,
            multikey,
            fields: OnceCell::new(),
        }
    }

    fn fields(&self) -> &[HeldField<'s>] {
        self.fields
            .get_or_init(|| held(self.spec, self.multikey, self.ids))
    }

    /// Whether rows with the `needed` fields can be made of entries: whether there is a [`Self::coverage`].
    pub fn hold(&self, needed: &FieldSet) -> bool {
        let is_held = |path: &String| holder(self.fields(), path).is_some();
        self.spec.clustering
            || needed
                .paths()
                .is_some_and(|paths| paths.iter().all(is_held))
    }

    /// How entries give rows with the `needed` fields; `None` when they do not.
    pub fn coverage(&self, needed: &FieldSet) -> Option<Coverage> {
        let rows = if self.spec.clustering {
            CoveredShape::Carried
        } else {
            // Asked first: where all fields are needed, what is held does not matter.
            needed.paths()?;
            CoveredShape::Rebuilt(Recipe::new(self.fields(), needed)?)
        };
        Some(Coverage {
            layout: self.layout.clone(),
            rows,
        })
    }
}

impl Coverage {
    /// Whether rows are whole documents.
    pub fn is_whole(&self) -> bool {
        matches!(self.rows, CoveredShape::Carried)
    }

    /// Whether rows have `_id` and then several fields in the order of the key, where the document may
    /// have them in another. mongod reads the document there, since its entries do not hold `_id`.
    pub fn reorders(&self) -> bool {
        let from_key = |member: &&RebuiltField| !matches!(member.from, From::Id | From::Carried);
        match &self.rows {
            CoveredShape::Carried => false,
            CoveredShape::Rebuilt(recipe) => {
                recipe.needs_id && recipe.fields.iter().filter(from_key).count() > 1
            }
        }
    }

    /// The paths that rebuilt rows hold at most; none for whole documents.
    pub fn paths(&self) -> &[String] {
        match &self.rows {
            CoveredShape::Carried => &[],
            CoveredShape::Rebuilt(recipe) => &recipe.paths,
        }
    }

    /// Whether rebuilt rows hold just these fields of the document, and no parts of fields.
    pub fn holds_just(&self, names: &[&str]) -> bool {
        let paths = self.paths();
        let is_among = |path: &String| !path.contains('.') && names.contains(&path.as_str());
        !self.is_whole() && paths.len() == names.len() && paths.iter().all(is_among)
    }

    /// The row of an entry, lent from it or written to `buffer`; `None` when the entry cannot tell.
    /// `key` is without its tree prefix.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn row<'a>(
        &self,
        key: &[u8],
        value: &'a [u8],
        buffer: &'a mut RowBuffer,
    ) -> Result<Option<&'a RawDocument>> {
        let recipe = match &self.rows {
            CoveredShape::Carried => return self.carried(value).map(Some),
            CoveredShape::Rebuilt(recipe) => recipe,
        };
        buffer.values.clear();
        let parts = recipe.read(&self.layout, key, value, &mut buffer.values)?;
        buffer.id_at = parts.id_at;
        let mut row = DocumentBuilder::reusing(std::mem::take(&mut buffer.row));
        let told = append_all(&recipe.fields, &parts, parts.carried, &mut row);
        buffer.row = row.finish().into_bytes();
        Ok(told.then_some(buffer.row()))
    }

    /// The document that an entry of a clustering index carries.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn carried<'v>(&self, value: &'v [u8]) -> Result<&'v RawDocument> {
        self.layout.split(value)?.carried.ok_or_else(corrupt)
    }
}

/// The fields that entries hold, in the order of rebuilt documents.
/// A text cannot be read back from what a collation makes of it, and neither can what lies behind it.
fn held<'s>(
    spec: &'s IndexSpec,
    multikey: Multikey,
    ids: Option<&Collation>,
) -> Vec<HeldField<'s>> {
    let mut found = Vec::new();
    if ids.is_some_and(Collation::is_simple) && spec.collation.is_simple() {
        found.push(HeldField {
            path: "_id",
            from: From::Id,
        });
    }
    let mut sphere_fields = 0;
    for (position, (path, kind)) in spec.key.iter().enumerate() {
        let ordinal = sphere_fields;
        sphere_fields += usize::from(kind.is_located());
        // A number in a path may be a position in an array, which does not make the field multikey.
        if multikey.field(position) || has_number(path) {
            continue;
        }
        let from = match kind {
            IndexField::Ascending | IndexField::Descending if !spec.collation.is_simple() => {
                continue;
            }
            IndexField::Ascending | IndexField::Descending => From::Key {
                position,
                nested: path.contains('.'),
            },
            IndexField::Sphere2d if !multikey.holds_shapes() => From::Point(ordinal),
            _ => continue,
        };
        if path == "_id" {
            found.retain(|held| held.path != "_id");
        }
        found.push(HeldField { path, from });
    }
    found.extend(spec.include.iter().map(|path| HeldField {
        path,
        from: From::Carried,
    }));
    found
}

fn has_number(path: &str) -> bool {
    path.split('.')
        .any(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether `path` is `other` or leads to something within it.
fn lies_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The number of the field that `path` leads to or into: the shortest, so that no field is used beside one
/// within it.
fn holder(held: &[HeldField<'_>], path: &str) -> Option<usize> {
    (0..held.len())
        .filter(|number| lies_within(path, held[*number].path))
        .min_by_key(|number| held[*number].path.len())
}

impl Recipe {
    fn new(held: &[HeldField<'_>], needed: &FieldSet) -> Option<Self> {
        let mut used = vec![false; held.len()];
        for path in needed.paths()? {
            used[holder(held, path)?] = true;
        }
        let mut recipe = Recipe::default();
        for (HeldField { path, from }, _) in held.iter().zip(used).filter(|(_, used)| *used) {
            match from {
                From::Key { position, .. } => recipe.from_key |= 1 << position,
                From::Id => recipe.needs_id = true,
                _ => {}
            }
            recipe.paths.push((*path).to_owned());
            insert(
                &mut recipe.fields,
                &path.split('.').collect::<Vec<_>>(),
                from,
            )?;
        }
        Some(recipe)
    }

    /// Reads an entry; the values in its key are written to `values`.
    fn read<'e>(
        &self,
        layout: &EntryLayout,
        key: &[u8],
        value: &'e [u8],
        values: &'e mut Vec<u8>,
    ) -> Result<EntryParts<'e>> {
        let mut value = layout.split(value)?;
        let mut fields = SmallVec::new();
        let mut at = 0;
        for position in 0..layout.fields() {
            let wanted = self.from_key >> position & 1 == 1;
            // Bits of fields in between must be read to get past them, unless all are zero, or none is wanted behind.
            let is_last = self.from_key >> position == 0 && !self.needs_id;
            if !wanted && (is_last || value.types.is_spent()) {
                at += layout.field_length(position, &key[at..])?;
                fields.push(None);
                continue;
            }
            let (field, length) =
                layout.transcode_field(position, &key[at..], &mut value.types, values)?;
            fields.push(field);
            at += length;
        }
        let id = match self.needs_id {
            true => Some(layout.transcode_id(&key[at..], &mut value.types, values)?),
            false => None,
        };
        Ok(EntryParts {
            values,
            key: fields,
            id_at: at,
            id,
            points: value.points,
            carried: value.carried,
        })
    }
}

/// Puts a field at its path; `None` for a path that is in the way of another.
fn insert(fields: &mut Vec<RebuiltField>, path: &[&str], from: &From) -> Option<()> {
    let (first, rest) = path.split_first()?;
    let known = fields.iter().position(|member| *member.name == **first);
    if rest.is_empty() {
        fields.push(RebuiltField {
            name: (*first).into(),
            from: from.clone(),
        });
        return known.is_none().then_some(());
    }
    let place = match known {
        Some(place) => place,
        None => {
            fields.push(RebuiltField {
                name: (*first).into(),
                from: From::Below(Vec::new()),
            });
            fields.len() - 1
        }
    };
    match &mut fields[place].from {
        From::Below(inner) => insert(inner, rest, from),
        _ => None,
    }
}

/// Appends the members that the document has; false when the entry cannot tell.
fn append_all(
    members: &[RebuiltField],
    parts: &EntryParts<'_>,
    carried: Option<&RawDocument>,
    out: &mut DocumentBuilder,
) -> bool {
    members
        .iter()
        .all(|member| append(member, parts, carried, out))
}

fn append(
    member: &RebuiltField,
    parts: &EntryParts<'_>,
    carried: Option<&RawDocument>,
    out: &mut DocumentBuilder,
) -> bool {
    let name = member.name.as_bytes();
    let mut append_value =
        |value: FieldValue| out.field(value.kind, name, &parts.values[value.start..value.end]);
    match &member.from {
        From::Key { position, nested } => match parts.key[*position] {
            Some(value) => append_value(value),
            None => return !nested,
        },
        From::Point(ordinal) => match parts.points.get(*ordinal) {
            Some(Located::Point {
                lon,
                lat,
                plain: true,
            }) => {
                let point = rawdoc! { "type": "Point", "coordinates": [*lon, *lat] };
                out.field(ElementType::EmbeddedDocument, name, point.as_bytes());
            }
            _ => return false,
        },
        From::Id => match parts.id {
            Some(id) => append_value(id),
            None => return false,
        },
        From::Carried => {
            if let Some(field) = find(carried, name) {
                out.copy(&field);
            }
        }
        From::Below(inner) => return append_below(name, inner, parts, find(carried, name), out),
    }
    true
}

fn find<'e>(carried: Option<&'e RawDocument>, name: &[u8]) -> Option<Field<'e>> {
    carried.and_then(|document| field::find(document, name))
}

/// A document within the row. Where nothing but carried fields lie below, what is carried is all there
/// is to know; else the key's fields prove that the document has it.
fn append_below(
    name: &[u8],
    inner: &[RebuiltField],
    parts: &EntryParts<'_>,
    carried: Option<Field<'_>>,
    out: &mut DocumentBuilder,
) -> bool {
    if only_carried(inner) {
        if let Some(field) = carried {
            out.copy(&field);
        }
        return true;
    }
    let mut below = DocumentBuilder::default();
    let carried = carried.and_then(|field| field.value()?.as_document());
    let told = append_all(inner, parts, carried, &mut below);
    out.document(name, below);
    told
}

fn only_carried(members: &[RebuiltField]) -> bool {
    members.iter().all(|member| match &member.from {
        From::Carried => true,
        From::Below(inner) => only_carried(inner),
        _ => false,
    })
}
