//! Tells from an encoded `_id` alone that a document cannot match, before anything of it is read.
//!
//! In: a filter that asks for fields within `_id` to be equal to texts, ObjectIds or dates. Out: whether an
//! encoded `_id` can belong to a match. It cannot where the bytes of such a value do not occur in it:
//! whatever else it holds, and however deep the field lies, a value is encoded as the same bytes behind
//! its type. What is let through must still be tested.

use crate::query::{Comparison, Filter, Predicate};
use bson::{RawBson, RawBsonRef};
use memchr::memmem::Finder;
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits, encode};

/// The values that the `_id`s of all matches contain.
#[derive(Debug, Clone)]
pub(super) struct Prefilter(Vec<Finder<'static>>);

impl Prefilter {
    /// What `filter` asks of `_id`, in whose order by `ids` the documents of a collection lie, if they do; `None` for
    /// nothing that bytes can tell.
    pub fn new(filter: &Filter, ids: Option<&Collation>) -> Option<Self> {
        let ids = ids?;
        let contained = |condition: &Filter| contained(condition, ids);
        let mut values: Vec<Vec<u8>> = filter.conjuncts().iter().filter_map(contained).collect();
        // The longest occurs by chance least often.
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        let finders = values.iter().map(|value| Finder::new(value).into_owned());
        (!values.is_empty()).then(|| Self(finders.collect()))
    }

    /// Whether no match has this `_id`; `encoded` may have more before or behind it.
    #[inline]
    pub fn excludes(&self, encoded: &[u8]) -> bool {
        self.0.iter().any(|value| value.find(encoded).is_none())
    }
}

/// What must occur in the `_id` of who satisfies the condition.
fn contained(condition: &Filter, ids: &Collation) -> Option<Vec<u8>> {
    let Filter::Field { path, predicate } = condition else {
        return None;
    };
    let (Predicate::Compare(Comparison::Eq, value), [first, _, ..]) = (predicate, path.parts())
    else {
        return None;
    };
    let is_told = match **value {
        RawBson::String(_) | RawBson::Symbol(_) => ids.is_simple() && value.collation().is_simple(),
        RawBson::ObjectId(_) | RawBson::DateTime(_) => true,
        _ => false,
    };
    (&**first == "_id" && is_told).then(|| behind_type(value.value()))
}

/// A value's encoding without its type, which in a document stands before the field's name.
fn behind_type(value: RawBsonRef<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(
        value,
        Direction::Ascending,
        &mut bytes,
        &mut TypeBits::new(),
    );
    bytes.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, RawDocumentBuf, bson, doc, oid::ObjectId};
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn prefilter(filter: bson::Document) -> (Filter, Option<Prefilter>) {
        let raw = RawDocumentBuf::try_from(&filter).expect("it can be written");
        let filter = Filter::parse(&raw).expect("a filter");
        let prefilter = Prefilter::new(&filter, Some(&Collation::SIMPLE));
        (filter, prefilter)
    }

    fn encoded(id: &Bson) -> Vec<u8> {
        let mut bytes = Vec::new();
        let raw = RawBson::try_from(id.clone()).expect("it can be written");
        let types = &mut TypeBits::new();
        encode(
            raw.as_raw_bson_ref(),
            Direction::Ascending,
            &mut bytes,
            types,
        );
        bytes
    }

    fn value(random: &mut ChaCha8Rng, depth: u32) -> Bson {
        let scalars = [
            bson!("a"),
            bson!("ab"),
            bson!("a\0b\u{1}"),
            bson!(""),
            bson!(7),
            Bson::Null,
            Bson::Symbol("ab".into()),
            Bson::ObjectId(ObjectId::from_bytes([1; 12])),
            Bson::DateTime(bson::DateTime::from_millis(1_000)),
        ];
        match random.random_range(0..if depth == 0 { 1 } else { 3 }) {
            0 => scalars.choose(random).expect("there are some").clone(),
            1 => (0..random.random_range(0..3))
                .map(|_| value(random, depth - 1))
                .collect::<Vec<_>>()
                .into(),
            _ => document(random, depth - 1).into(),
        }
    }

    fn document(random: &mut ChaCha8Rng, depth: u32) -> bson::Document {
        let names = ["a", "b", "0"];
        let fields = names.iter().filter(|_| random.random_bool(0.6));
        let fields: Vec<_> = fields.collect();
        let field = |name: &&&str| ((**name).to_owned(), value(random, depth));
        fields.iter().map(field).collect()
    }

    /// Whatever matches is let through, and a good part of the rest is not.
    #[test]
    fn only_what_cannot_match_is_excluded() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut matches, mut excluded) = (0, 0);
        for _ in 0..20_000 {
            let path = ["_id.a", "_id.b", "_id.a.b", "_id.a.0", "_id.b.a.0"];
            let path = *path.choose(&mut random).expect("there are some");
            let wanted = value(&mut random, 0);
            let (filter, prefilter) = prefilter(doc! { path: wanted.clone() });
            let id = Bson::from(document(&mut random, 2));
            let stored = RawDocumentBuf::try_from(&doc! { "_id": id.clone() }).expect("a document");
            let is_match = filter.matches(&stored).expect("it can be tested");
            let is_excluded = prefilter.is_some_and(|one| one.excludes(&encoded(&id)));
            assert!(!(is_match && is_excluded), "{path}: {wanted} in {id}");
            matches += u32::from(is_match);
            excluded += u32::from(is_excluded);
        }
        assert!(matches > 500 && excluded > 5_000, "{matches} {excluded}");
    }

    #[test]
    fn what_bytes_cannot_tell_is_not_asked() {
        for filter in [
            doc! {},
            doc! { "_id": "x" },
            doc! { "_id.a": 1 },
            doc! { "_id.a": Bson::Null },
            doc! { "_id.a": { "$gt": "x" } },
            doc! { "_id.a": { "$ne": "x" } },
            doc! { "a._id": "x" },
            doc! { "$or": [{ "_id.a": "x" }, { "b": 1 }] },
        ] {
            assert!(prefilter(filter.clone()).1.is_none(), "{filter}");
        }
        let (_, both) = prefilter(doc! { "_id.a": "x", "_id.b": "long", "c": 1 });
        let both = both.expect("two values");
        let id = |a: &str, b: &str| encoded(&doc! { "a": a, "b": b }.into());
        assert!(!both.excludes(&id("x", "long")));
        assert!(both.excludes(&id("x", "longer")));
        assert!(both.excludes(&id("y", "long")));
    }
}
