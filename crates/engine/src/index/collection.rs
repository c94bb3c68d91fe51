//! The keys of all indexes of a collection in one pass over a document's fields.

use super::{KeyGenerator, KeySink, Multikey};
use crate::Result;
use bson::raw::RawDocument;
use meridian_value::field::{Field, fields, find};
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
    /// The top-level fields on which entries depend, each with the indexes that have such entries.
    read: Vec<(Box<[u8]>, IndexSet)>,
    /// The indexes whose entries depend on the whole document.
    read_all: IndexSet,
}

/// Some of a collection's indexes, by position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexSet(u64);

impl IndexSet {
    /// All of them.
    pub const ALL: Self = IndexSet(u64::MAX);

    fn add(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    fn has(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }

    fn union(self, other: Self) -> Self {
        IndexSet(self.0 | other.0)
    }
}

#[derive(Debug, Clone)]
struct CompiledIndex {
    position: usize,
    generator: Arc<KeyGenerator>,
    /// For each field of the index, the position of its first part in `names`.
    slots: SmallVec<[u16; 4]>,
}

type FoundIndex<'a> = SmallVec<[Option<Field<'a>>; INLINE_FIELDS]>;

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
            compiled.note_reads(position, &generator);
            compiled.indexes.push(CompiledIndex {
                position,
                generator,
                slots,
            });
        }
        compiled
    }

    /// Notes which fields the entries of the index depend on.
    fn note_reads(&mut self, position: usize, generator: &KeyGenerator) {
        let Some(names) = generator.reads() else {
            self.read_all.add(position);
            return;
        };
        for name in names {
            let known = self.read.iter().position(|(known, _)| **known == *name);
            let at = known.unwrap_or_else(|| {
                self.read.push((name, IndexSet::default()));
                self.read.len() - 1
            });
            self.read[at].1.add(position);
        }
    }

    /// The indexes in which a document may have other entries than one that it replaces.
    pub fn changed(&self, before: &RawDocument, after: &RawDocument) -> IndexSet {
        // Its position too: carried fields stand in the document's order.
        let read = |document, name| {
            find(document, name).map(|field| (field.position(), field.kind(), field.bytes()))
        };
        let differing = self.read.iter().filter(|(name, _)| {
            let (before, after) = (read(before, name), read(after, name));
            before != after
        });
        differing.fold(self.read_all, |all, (_, indexes)| all.union(*indexes))
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

    /// Emits the entries of a document in these indexes, read with [`KeySink::iter_indexed`], and
    /// tells `multikey` of each for which the document has several.
    ///
    /// # Errors
    /// As [`KeyGenerator::generate`]; the sink may then hold entries of some indexes and must
    /// be cleared.
    pub fn generate(
        &self,
        document: &RawDocument,
        indexes: IndexSet,
        sink: &mut KeySink,
        multikey: &mut dyn FnMut(usize, Multikey),
    ) -> Result<()> {
        let located = self.locate(document);
        sink.set_document(document);
        let wanted = self.indexes.iter();
        for index in wanted.filter(|index| indexes.has(index.position)) {
            sink.set_index(index.position);
            let top = |field: usize| located[usize::from(index.slots[field])];
            let met = index.generator.generate_from(document, top, sink)?;
            if met.is_multikey() {
                multikey(index.position, met);
            }
        }
        Ok(())
    }

    fn locate<'a>(&self, document: &'a RawDocument) -> FoundIndex<'a> {
        let mut located: FoundIndex<'a> = SmallVec::from_elem(None, self.names.len());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexSpec;
    use bson::{Bson, Document, RawDocumentBuf, bson, doc};
    use rand::seq::{IndexedRandom, SliceRandom};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn keys(specs: &[Document]) -> CollectionKeys {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).expect("a document");
        let generators = specs.iter().map(|spec| {
            let spec = IndexSpec::parse(&raw(spec)).expect("an index");
            Arc::new(KeyGenerator::new(&spec).expect("its keys"))
        });
        CollectionKeys::new(generators)
    }

    type Entries = Vec<(usize, Vec<u8>, Vec<u8>)>;

    fn entries(keys: &CollectionKeys, document: &RawDocument, indexes: IndexSet) -> Entries {
        let mut sink = KeySink::default();
        let generated = keys.generate(document, indexes, &mut sink, &mut |_, _| {});
        generated.expect("no index refuses it");
        let entry = |(position, key, value): (usize, &[u8], &[u8])| {
            (position, key.to_vec(), value.to_vec())
        };
        sink.iter_indexed().map(entry).collect()
    }

    /// Indexes that are not named have the same entries before and after, whatever was changed; and those
    /// of which nothing was changed are not named.
    #[test]
    fn what_is_not_named_has_not_changed() {
        let specs = [
            doc! { "key": { "a": 1 }, "name": "0" },
            doc! { "key": { "b.x": 1, "c": -1 }, "name": "1" },
            doc! { "key": { "c": 1 }, "name": "2", "include": ["a", "d"] },
            doc! { "key": { "d": 1 }, "name": "3", "partialFilterExpression": { "b.x": { "$gt": 1 } } },
            doc! { "key": { "a": 1, "d": 1 }, "name": "4", "clustering": true },
            doc! { "key": { "e": "hashed" }, "name": "5" },
        ];
        let keys = keys(&specs);
        let seed = 5;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut unnamed = [0; 6];
        for _ in 0..20_000 {
            let before = document(&mut random);
            let after = changed(&before, &mut random);
            let [before, after] =
                [&before, &after].map(|one| RawDocumentBuf::try_from(one).expect("a document"));
            let named = keys.changed(&before, &after);
            let all = [&before, &after].map(|one| entries(&keys, one, IndexSet::ALL));
            let few = [&before, &after].map(|one| entries(&keys, one, named));
            for (all, few) in all.iter().zip(&few) {
                let wanted = all.iter().filter(|(position, ..)| named.has(*position));
                assert!(few.iter().eq(wanted), "{before:?} {after:?}");
            }
            let rest = all.map(|mut entries| {
                entries.retain(|(position, ..)| !named.has(*position));
                entries
            });
            assert_eq!(rest[0], rest[1], "{before:?} {after:?}");
            for (position, count) in unnamed.iter_mut().enumerate() {
                *count += u32::from(!named.has(position));
            }
        }
        assert_eq!(unnamed[4], 0, "a clustering index always changes");
        for position in [0, 1, 2, 3, 5] {
            assert!(unnamed[position] > 1_000, "{unnamed:?}");
        }
    }

    fn value(random: &mut ChaCha8Rng) -> Bson {
        let number = random.random_range(0..4);
        match random.random_range(0..5) {
            0 => doc! { "x": number, "y": 1 }.into(),
            1 => doc! { "x": f64::from(number) }.into(),
            2 => bson!("text"),
            _ => number.into(),
        }
    }

    fn document(random: &mut ChaCha8Rng) -> Document {
        let mut names = ["a", "b", "c", "d", "e", "f", "g"];
        names.shuffle(random);
        let count = random.random_range(0..=names.len());
        let fields = names.iter().take(count);
        fields
            .map(|name| ((*name).to_owned(), value(random)))
            .collect()
    }

    fn changed(document: &Document, random: &mut ChaCha8Rng) -> Document {
        let mut changed = document.clone();
        let name = *["a", "b", "c", "d", "e", "f", "g"]
            .choose(random)
            .expect("there are some");
        match random.random_range(0..5) {
            0 => {
                changed.remove(name);
            }
            1 => {
                // In another order.
                let mut fields: Vec<_> = changed.into_iter().collect();
                fields.shuffle(random);
                changed = fields.into_iter().collect();
            }
            _ => {
                changed.insert(name, value(random));
            }
        }
        changed
    }
}
