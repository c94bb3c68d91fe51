use super::*;
use bson::rawdoc;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

fn collation(change: impl FnOnce(&mut CollationOptions)) -> Collation {
    let mut options = CollationOptions::of_locale("en");
    change(&mut options);
    Collation::new(options).unwrap()
}

fn key_of(collation: &Collation, value: RawBsonRef<'_>, direction: Direction) -> Vec<u8> {
    let mut key = Vec::new();
    collation.encode(value, direction, &mut key, &mut TypeBits::new());
    key
}

/// Collations of all kinds of options.
fn some_collations() -> Vec<Collation> {
    let mut some = vec![Collation::SIMPLE];
    some.extend((1..=5).map(|strength| collation(|options| options.strength = strength)));
    some.push(collation(|options| options.numeric_ordering = true));
    some.push(collation(|options| options.shifted = true));
    some.push(collation(|options| {
        (options.shifted, options.only_spaces, options.strength) = (true, true, 4);
    }));
    some.push(collation(|options| {
        (options.case_level, options.strength) = (true, 1);
    }));
    some.push(collation(|options| options.case_first = CaseFirst::Upper));
    some.push(collation(|options| options.case_first = CaseFirst::Lower));
    some.push(collation(|options| options.backwards = true));
    for locale in ["de@collation=phonebook", "sv", "zh", "ja", "ko", "th", "tr"] {
        some.push(Collation::new(CollationOptions::of_locale(locale)).unwrap());
    }
    some
}

const WORDS: [&str; 40] = [
    "", "a", "A", "á", "Á", "a\u{301}", "ab", "aB", "a b", "a-b", "a\0", "a\u{1}", "\0", "\u{1}b",
    "b", "côte", "coté", "cote", "1", "2", "10", "010", "a10", "a9", "ä", "ö", "z", "Z", "ß", "ss",
    "İ", "i", "I", "ı", "中", "文", "한", "か", "カ", "👍🏽",
];

#[test]
fn keys_are_in_the_order_of_comparisons() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut text = || {
        let words = random.random_range(0..4);
        let text: String = (0..words)
            .map(|_| *WORDS.choose(&mut random).unwrap())
            .collect();
        text
    };
    for collation in some_collations() {
        for _ in 0..2_000 {
            let (a, b) = (text(), text());
            let order = collation.compare_text(&a, &b);
            let documents = (rawdoc! { "a": [&*a, 1] }, rawdoc! { "a": [&*b, 1] });
            let values = [
                (RawBsonRef::String(&a), RawBsonRef::String(&b)),
                (
                    RawBsonRef::Document(&documents.0),
                    RawBsonRef::Document(&documents.1),
                ),
            ];
            for (one, other) in values {
                assert_eq!(
                    collation.compare(one, other),
                    order,
                    "{a:?} {b:?} {collation:?}"
                );
                for direction in [Direction::Ascending, Direction::Descending] {
                    let (one, other) = (
                        key_of(&collation, one, direction),
                        key_of(&collation, other, direction),
                    );
                    let wanted = match direction {
                        Direction::Ascending => order,
                        Direction::Descending => order.reverse(),
                    };
                    assert_eq!(one.cmp(&other), wanted, "{a:?} {b:?} {collation:?}");
                    assert_eq!(key::skip(&one, direction), Some(one.len()));
                }
            }
        }
    }
}

#[test]
fn texts_lie_between_numbers_and_documents() {
    let collation = collation(|options| options.strength = 1);
    let (first, last) = key::bracket_range(order::canonical_type(RawBsonRef::String(""))).unwrap();
    let document = rawdoc! {};
    let ascending = |value| key_of(&collation, value, Direction::Ascending);
    assert!(ascending(RawBsonRef::Double(f64::INFINITY)) < vec![first]);
    assert!(ascending(RawBsonRef::String("")) >= vec![first]);
    assert!(ascending(RawBsonRef::String("zz")) < vec![last + 1]);
    assert!(ascending(RawBsonRef::Document(&document)) >= vec![last + 1]);
}

#[test]
fn a_text_by_a_collation_cannot_be_read_back() {
    let collation = collation(|_| {});
    let mut types = TypeBits::new();
    for value in [
        rawdoc! { "v": "a" },
        rawdoc! { "v": ["a"] },
        rawdoc! { "v": { "b": "a" } },
    ] {
        let mut key = Vec::new();
        let value = value.get("v").unwrap().unwrap();
        collation.encode(value, Direction::Ascending, &mut key, &mut types);
        let bytes = types.to_bytes();
        let mut reader = key::TypeBitsReader::from_bytes(&bytes);
        assert!(key::decode(&key, Direction::Ascending, &mut reader).is_err());
        assert!(key::transcode(&key, Direction::Ascending, &mut reader, &mut Vec::new()).is_err());
    }
}

#[test]
fn all_locales_have_rules() {
    for name in locales::names() {
        let options = CollationOptions::of_locale(name);
        let collation = Collation::new(options.clone());
        let collation = collation.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        assert_eq!(collation.options(), Some(&options));
    }
}

#[test]
fn unknown_locales_are_told_from_those_without_rules() {
    let refused = |name: &str| Collation::new(CollationOptions::of_locale(name)).unwrap_err();
    assert_eq!(refused("xx"), NoCollation::UnknownLocale(None));
    assert_eq!(refused("en-us"), NoCollation::UnknownLocale(Some("en_US")));
    assert_eq!(
        refused("sr_Latn_BA"),
        NoCollation::UnknownLocale(Some("sr_Latn"))
    );
    assert_eq!(
        refused("en@foo=bar"),
        NoCollation::UnknownLocale(Some("en"))
    );
    assert_eq!(refused("ko@collation=search"), NoCollation::NoRules);
    let backwards = CollationOptions {
        backwards: true,
        ..CollationOptions::of_locale("es")
    };
    assert_eq!(Collation::new(backwards).unwrap_err(), NoCollation::NoRules);
}

/// Indexes keep sort keys. Where this fails, keys on disk no longer agree with new ones: the format of the
/// store has to be a new one, so that indexes with a collation are built anew.
#[test]
fn sort_keys_are_those_on_disk() {
    let mut all = Vec::new();
    for collation in some_collations() {
        for word in WORDS {
            all.extend(key_of(
                &collation,
                RawBsonRef::String(word),
                Direction::Ascending,
            ));
        }
    }
    // FNV-1a.
    let hash = all.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    assert_eq!(hash, 11_518_976_941_790_655_384);
}
