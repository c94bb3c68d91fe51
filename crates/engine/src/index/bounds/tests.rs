//! Bounds against the documents that match, and against what a walk over all keys finds.

use super::*;
use crate::index::{IndexField, IndexSpec, KeyGenerator, KeySink};
use crate::query::{Filter, Predicate};
use bson::{Bson, Document, RawDocumentBuf, doc};
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits, encode};
use proptest::prelude::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn any_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        4 => (-2i32..4).prop_map(Bson::Int32),
        1 => prop::sample::select(vec![
            Bson::Double(0.5), Bson::Double(f64::NAN), Bson::Double(f64::INFINITY), Bson::Int64(2), Bson::Double(-0.0),
            Bson::Null, Bson::Undefined, Bson::Boolean(true), Bson::Boolean(false), Bson::MinKey, Bson::MaxKey,
            Bson::DateTime(bson::DateTime::from_millis(5)), Bson::Decimal128("1.10".parse().unwrap()),
            Bson::RegularExpression(bson::Regex { pattern: "^a".try_into().unwrap(), options: "".try_into().unwrap() }),
            Bson::Document(doc! {}), Bson::Document(doc! {"x": 1}), Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }),
        ]),
        2 => "[ab\u{1}]{0,3}".prop_map(Bson::String),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Bson::Array)
    })
}

fn any_condition() -> impl Strategy<Value = Document> {
    let operand = || {
        any_value().prop_filter("operators take no regular expression", |value| {
            !matches!(value, Bson::RegularExpression(_) | Bson::Undefined)
        })
    };
    let comparison = (
        prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]),
        operand(),
    )
        .prop_map(|(operator, value)| doc! {operator: value});
    let list = (
        prop::sample::select(vec!["$in", "$nin"]),
        prop::collection::vec(operand(), 0..4),
    )
        .prop_map(|(operator, values)| doc! {operator: values});
    let plain = prop_oneof![
        4 => comparison,
        2 => list,
        1 => any::<bool>().prop_map(|exists| doc! {"$exists": exists}),
        1 => prop::sample::select(vec!["string", "number", "int", "null", "array", "object", "bool", "date", "undefined",
            "minKey", "timestamp", "regex"]).prop_map(|name| doc! {"$type": name}),
        1 => prop::sample::select(vec!["^a", "^ab", "b", "^a.b", "^a|b", "^ab*"]).prop_map(|pattern| doc! {"$regex": pattern}),
        1 => (0i64..3).prop_map(|size| doc! {"$size": size}),
        1 => Just(doc! {"$mod": [2, 0]}),
    ];
    plain.prop_flat_map(|condition| {
        prop_oneof![
            4 => Just(condition.clone()),
            1 => Just(doc! {"$not": condition.clone()}),
            1 => Just(doc! {"$elemMatch": condition}),
        ]
    })
}

fn keys(document: &Document, kind: i32, sparse: bool) -> (Vec<Vec<u8>>, bool) {
    let definition = doc! {"key": {"a": kind}, "name": "i", "sparse": sparse};
    let generator = KeyGenerator::new(&IndexSpec::parse(&raw(&definition)).unwrap()).unwrap();
    let mut sink = KeySink::new();
    let multikey = generator.generate(&raw(document), &mut sink).unwrap();
    (
        sink.iter().map(|(fields, _)| fields.to_vec()).collect(),
        multikey.is_multikey(),
    )
}

fn predicate(filter: &Filter) -> Option<&Predicate> {
    match filter {
        Filter::Field { predicate, .. } => Some(predicate),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_matches_has_a_key_within_and_exact_bounds_prove_it(
        value in prop::option::of(any_value()),
        condition in any_condition(),
        descending in any::<bool>(),
        also_multikey in any::<bool>(),
        sparse in any::<bool>(),
    ) {
        let mut document = doc! {"_id": 1};
        if let Some(value) = value { document.insert("a", value); }
        let Ok(filter) = Filter::parse(&raw(&doc! {"a": condition})) else { return Ok(()) };
        let Some(predicate) = predicate(&filter) else { return Ok(()) };
        let (keys, is_multikey) = keys(&document, if descending { -1 } else { 1 }, sparse);
        let field = if descending { IndexField::Descending } else { IndexField::Ascending };
        let context = FieldContext { field, multikey: is_multikey || also_multikey, sparse, collation: &Collation::SIMPLE };
        let Some(bounds) = FieldBounds::from_predicate(predicate, context) else { return Ok(()) };
        let ranges = bounds.ranges(field.direction());
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", ranges);
        let within = keys.iter().any(|key| ranges.iter().any(|range| range.contains(key)));
        let matches = filter.matches(&raw(&document)).unwrap();
        prop_assert!(!matches || within || keys.is_empty(), "{document} matches {filter:?} outside {:?}", bounds.texts(false));
        if bounds.is_exact() {
            prop_assert!(!within || matches, "{document} does not match {filter:?} within {:?}", bounds.texts(false));
        }
    }

    #[test]
    fn a_skipping_walk_finds_what_a_full_walk_finds(
        documents in prop::collection::vec((0i32..6, 0i32..6, 0i32..6), 0..60),
        conditions in prop::collection::vec(prop::option::of((0i32..6, 0i32..6, any::<bool>())), 3),
        descending in any::<[bool; 3]>(),
        limit in 1usize..20,
    ) {
        let directions = descending.map(|down| if down { Direction::Descending } else { Direction::Ascending });
        let bounds: Vec<FieldBounds> = conditions.iter().map(|condition| match condition {
            None => FieldBounds::all(),
            Some((a, b, true)) => FieldBounds::new(
                vec![Interval::point(Bson::Int32(*a), &Collation::SIMPLE), Interval::point(Bson::Int32(*b), &Collation::SIMPLE)], Tightness::Exact),
            Some((a, b, false)) => FieldBounds::new(
                vec![Interval::new(End::new(Bson::Int32(*a), *a % 2 == 0, &Collation::SIMPLE), End::new(Bson::Int32(*b), *b % 2 == 1, &Collation::SIMPLE))],
                Tightness::Exact),
        }).collect();
        let key = |values: [i32; 3]| {
            let mut key = Vec::new();
            for (value, direction) in values.into_iter().zip(directions) {
                encode(bson::RawBsonRef::Int32(value), direction, &mut key, &mut TypeBits::new());
            }
            key.extend_from_slice(b"\x60identifier__");
            key
        };
        let mut all: Vec<(Vec<u8>, [i32; 3])> =
            documents.iter().map(|(a, b, c)| (key([*a, *b, *c]), [*a, *b, *c])).collect();
        all.sort();
        let inside = |values: &[i32; 3]| values.iter().zip(&bounds)
            .all(|(value, bounds)| bounds.contains(bson::RawBsonRef::Int32(*value)));
        let expected: Vec<usize> = (0..all.len()).filter(|index| inside(&all[*index].1)).collect();

        let mut checker = BoundsChecker::new(&directions, &bounds);
        let (mut found, mut at) = (Vec::new(), 0);
        while at < all.len() {
            match checker.check_forward(&all[at].0) {
                KeyCheck::Match => { found.push(at); at += 1; }
                KeyCheck::Seek => {
                    let next = all.partition_point(|(key, _)| key.as_slice() < checker.target());
                    prop_assert!(next > at);
                    at = next;
                }
                KeyCheck::Done => break,
                KeyCheck::Corrupt => prop_assert!(false),
            }
        }
        prop_assert_eq!(&found, &expected);

        let (mut found, mut before) = (Vec::new(), all.len());
        while before > 0 {
            match checker.check_backward(&all[before - 1].0) {
                KeyCheck::Match => { found.push(before - 1); before -= 1; }
                KeyCheck::Seek => {
                    let next = all.partition_point(|(key, _)| key.as_slice() < checker.target());
                    prop_assert!(next < before);
                    before = next;
                }
                KeyCheck::Done => break,
                KeyCheck::Corrupt => prop_assert!(false),
            }
        }
        found.reverse();
        prop_assert_eq!(&found, &expected);

        let ranges = byte_ranges(&directions, &bounds, limit);
        prop_assert!(ranges.ranges.len() <= limit.max(1));
        let within = |key: &[u8]| ranges.ranges.iter().any(|range| range.contains(key));
        for (index, (key, values)) in all.iter().enumerate() {
            let settled = values[..ranges.settled].iter().zip(&bounds)
                .all(|(value, bounds)| bounds.contains(bson::RawBsonRef::Int32(*value)));
            prop_assert_eq!(within(key), settled, "{:?} {}", values, index);
        }
    }

    #[test]
    fn set_operations_agree_with_membership(
        a in prop::collection::vec((any_value(), any_value(), any::<[bool; 2]>()), 0..4),
        b in prop::collection::vec((any_value(), any_value(), any::<[bool; 2]>()), 0..4),
        probe in any_value(),
    ) {
        let bounds = |ends: &[(Bson, Bson, [bool; 2])]| FieldBounds::new(
            ends.iter().map(|(low, high, [i, j])| Interval::new(End::new(low.clone(), *i, &Collation::SIMPLE), End::new(high.clone(), *j, &Collation::SIMPLE))).collect(),
            Tightness::Exact,
        );
        let (a, b) = (bounds(&a), bounds(&b));
        let has = |bounds: &FieldBounds| meridian_value::with_raw(&probe, |raw| bounds.contains(raw));
        prop_assert_eq!(has(&a.intersect(&b)), has(&a) && has(&b));
        prop_assert_eq!(has(&a.clone().union(b.clone())), has(&a) || has(&b));
        prop_assert_eq!(has(&a.negate()), !has(&a));
    }
}
