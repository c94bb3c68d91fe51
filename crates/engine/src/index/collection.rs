//! The keys of all indexes of a collection in one pass over a document's fields.

use super::{KeyGenerator, KeySink, Multikey};
use crate::Result;
use bson::raw::RawDocument;
use meridian_value::field::{Field, fields};
use smallvec::SmallVec;
use std::sync::Arc;

/// Top-level fields that fit the stack while a document is walked.
const INLINE_FIELDS: usize = 16;

/// The compiled indexes of a collection. Each top-level field of a document is looked up
/// once, however many indexes begin with it.
#[derive(Debug, Clone, Default)]
pub struct CollectionKeys {
    indexes: Vec<CompiledIndex>,
    /// The distinct first parts of all paths.
    names: Vec<Box<[u8]>>,
    /// Bit `length % 64` is set when a name of such a length is looked for: most fields of
    /// most documents are passed over by it.
    lengths: u64,
}

#[derive(Debug, Clone)]
struct CompiledIndex {
    position: usize,
    generator: Arc<KeyGenerator>,
    /// For each field of the index, the position of its first part in `names`.
    slots: SmallVec<[u16; 4]>,
}

type Located<'a> = SmallVec<[Option<Field<'a>>; INLINE_FIELDS]>;

impl CollectionKeys {
    /// Compiles a collection's indexes; their order gives the positions in the sink.
    pub fn new(generators: impl IntoIterator<Item = Arc<KeyGenerator>>) -> Self {
        Self::numbered(generators.into_iter().enumerate())
    }

    /// Compiles some of a collection's indexes, each with its position in the sink, ascending.
    pub fn numbered(generators: impl IntoIterator<Item = (usize, Arc<KeyGenerator>)>) -> Self {
        let mut compiled = Self::default();
        for (position, generator) in generators {
            let slots = generator
                .fields
                .iter()
                .map(|field| compiled.slot(field.path.first()))
                .collect();
            compiled.indexes.push(CompiledIndex {
                position,
                generator,
                slots,
            });
        }
        compiled
    }

    fn slot(&mut self, name: &str) -> u16 {
        let name = name.as_bytes();
        self.lengths |= 1 << (name.len() % 64);
        let known = self.names.iter().position(|known| **known == *name);
        let slot = known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        u16::try_from(slot).expect("a collection has at most 64 indexes of 32 fields")
    }

    /// The number of indexes.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// True without indexes.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Emits the entries of a document in all indexes, read with [`KeySink::iter_indexed`], and
    /// tells `multikey` of every index for which the document has several.
    ///
    /// # Errors
    /// As [`KeyGenerator::generate`]; the sink may then hold entries of some indexes and must
    /// be cleared.
    pub fn generate(
        &self,
        document: &RawDocument,
        sink: &mut KeySink,
        multikey: &mut dyn FnMut(usize, Multikey),
    ) -> Result<()> {
        let located = self.locate(document);
        sink.set_document(document);
        for index in &self.indexes {
            sink.set_index(index.position);
            let top = |field: usize| located[usize::from(index.slots[field])];
            let met = index.generator.generate_from(document, top, sink)?;
            if met.is_multikey() {
                multikey(index.position, met);
            }
        }
        Ok(())
    }

    fn locate<'a>(&self, document: &'a RawDocument) -> Located<'a> {
        let mut located: Located<'a> = SmallVec::from_elem(None, self.names.len());
        let mut wanted = self.names.len();
        for field in fields(document) {
            if self.lengths >> (field.name().len() % 64) & 1 == 0 {
                continue;
            }
            let slot = self.names.iter().position(|name| **name == *field.name());
            // The first field of a name counts, as everywhere in MongoDB.
            if let Some(slot) = slot.filter(|slot| located[*slot].is_none()) {
                located[slot] = Some(field);
                wanted -= 1;
                if wanted == 0 {
                    break;
                }
            }
        }
        located
    }
}
