//! Properties of the encoding over all BSON types, and its drawn format.

use super::*;
use crate::{compare_bson, with_raw};
use bson::raw::{RawDocumentBuf, cstr};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, Timestamp, doc, oid::ObjectId};
use proptest::prelude::*;
use std::cmp::Ordering;

fn encoded(value: &Bson, direction: Direction) -> (Vec<u8>, TypeBits) {
    let (mut bytes, mut types) = (Vec::new(), TypeBits::new());
    with_raw(value, |raw| encode(raw, direction, &mut bytes, &mut types));
    (bytes, types)
}

fn ascending(value: impl Into<Bson>) -> Vec<u8> {
    encoded(&value.into(), Direction::Ascending).0
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

fn binary(subtype: u8, bytes: Vec<u8>) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::from(subtype),
        bytes,
    })
}

fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(bson::Regex {
        pattern: pattern.try_into().unwrap(),
        options: options.try_into().unwrap(),
    })
}

/// A deprecated type that `bson` can only read.
fn db_pointer(namespace: &str, id: u8) -> Bson {
    let mut value = (namespace.len() as u32 + 1).to_le_bytes().to_vec();
    value.extend_from_slice(namespace.as_bytes());
    value.push(0);
    value.extend_from_slice(&[id; 12]);
    let mut bytes = (value.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0x0C, 0]);
    bytes.extend_from_slice(&value);
    bytes.push(0);
    let document = RawDocument::from_bytes(&bytes).unwrap();
    document.get("").unwrap().unwrap().try_into().unwrap()
}

/// Values of every type that lie close together or at the edges of the format.
fn edges() -> Vec<Bson> {
    let two_53 = 1i64 << 53;
    let mut values = vec![
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Undefined,
        Bson::Null,
        false.into(),
        true.into(),
        Bson::Double(f64::NAN),
        Bson::Double(-f64::NAN),
        decimal("NaN"),
        decimal("Infinity"),
        decimal("-Infinity"),
        decimal("0"),
        decimal("-0"),
        decimal("0E+3"),
        decimal("1.1"),
        decimal("1.10"),
        decimal("1.5"),
        decimal("1E+2"),
        decimal("100"),
        decimal("1E-400"),
        decimal("-1E-400"),
        decimal("1E+400"),
        decimal("1E+401"),
        decimal("9007199254740992.5"),
        decimal("9007199254740993.5"),
        decimal("4503599627370496.75"),
        decimal("9223372036854775807.5"),
        decimal("9223372036854775808"),
        decimal("9223372036854775808.1"),
        decimal("0.1"),
        decimal("0.10000000000000000555"),
        decimal("0.1000000000000000055511151231257827"),
        decimal("123.456"),
        decimal("123.4561"),
        decimal("123.45"),
        decimal("-123.45"),
        decimal("-123.4501"),
        decimal("9.999999999999999999999999999999999E+6144"),
        decimal("1E-6176"),
        decimal("-1E-6176"),
        decimal("4.940656458412465441765687928682214E-324"),
        decimal("5E-324"),
    ];
    for double in [
        0.0,
        1.0,
        0.1,
        1.1,
        2.5,
        123.456,
        123.45,
        127.5,
        128.5,
        255.0,
        256.0,
        1e15 + 0.5,
        1e17,
        1e18,
        1e19,
        1e300,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::INFINITY,
        4503599627370495.5,
        4503599627370496.5,
        9007199254740991.0,
        9007199254740992.0,
        9007199254740994.0,
        9223372036854774784.0,
        9223372036854775808.0,
        9223372036854777856.0,
        1f64.next_down(),
        1f64.next_up(),
    ] {
        values.extend([Bson::Double(double), Bson::Double(-double)]);
    }
    for integer in [
        0,
        1,
        2,
        63,
        64,
        127,
        128,
        255,
        256,
        16383,
        16384,
        32767,
        32768,
        (1 << 31) - 1,
        1 << 31,
        two_53 - 1,
        two_53,
        two_53 + 1,
        two_53 + 2,
        (1 << 55) - 1,
        1 << 55,
        (1 << 62) - 1,
        1 << 62,
        i64::MAX - 1,
        i64::MAX,
    ] {
        values.extend([
            Bson::Int64(integer),
            Bson::Int64(-integer),
            Bson::Int64(!integer),
        ]);
        if let Ok(small) = i32::try_from(integer) {
            values.extend([Bson::Int32(small), Bson::Int32(-small), Bson::Int32(!small)]);
        }
    }
    for text in [
        "",
        "\0",
        "\0\0",
        "\u{1}",
        "\u{1}\0",
        "\u{2}",
        "a",
        "a\0",
        "a\0b",
        "a\u{1}",
        "a\u{1}b",
        "a\u{2}",
        "ab",
        "b",
        "é",
        "\u{10FFFF}",
    ] {
        values.extend([
            Bson::String(text.into()),
            Bson::Symbol(text.into()),
            Bson::JavaScriptCode(text.into()),
        ]);
        values.push(Bson::Array(vec![text.into()]));
        values.push(Bson::Array(vec![text.into(), 1.into()]));
        values.push(doc! {"a": text}.into());
        values.push(Bson::JavaScriptCodeWithScope(
            bson::JavaScriptCodeWithScope {
                code: text.into(),
                scope: doc! {"x": 1},
            },
        ));
    }
    values.extend([
        doc! {}.into(),
        doc! {"": 1}.into(),
        doc! {"a": 1}.into(),
        doc! {"a": 1i64, "b": 2}.into(),
        doc! {"a": 1.0, "b": true}.into(),
        doc! {"a": false}.into(),
        doc! {"b": 1}.into(),
        doc! {"ab": 1}.into(),
        doc! {"a": "x"}.into(),
        doc! {"a": {}}.into(),
        doc! {"a": {"b": {}}}.into(),
        doc! {"a": []}.into(),
        doc! {"a": {"b": []}, "c": Bson::Null}.into(),
        doc! {"a": Bson::MaxKey}.into(),
        doc! {"a": Bson::MinKey}.into(),
        Bson::Array(vec![]),
        Bson::Array(vec![Bson::Array(vec![])]),
        Bson::Array(vec![1.into()]),
        Bson::Array(vec![1.into(), 2.into()]),
        Bson::Array(vec![doc! {"a": 1}.into()]),
        Bson::Array(vec![Bson::MinKey]),
        binary(0, vec![]),
        binary(0, vec![0]),
        binary(0, vec![255]),
        binary(4, vec![0]),
        binary(2, vec![1; 2]),
        binary(2, vec![]),
        binary(0, vec![1; 4]),
        binary(0, vec![1; 6]),
        binary(128, vec![9; 254]),
        binary(0, vec![9; 255]),
        binary(0, vec![8; 256]),
        binary(5, vec![9; 1000]),
        regex("", ""),
        regex("a", ""),
        regex("a", "i"),
        regex("a", "im"),
        regex("ab", ""),
        regex("^a\u{1}", "x"),
        db_pointer("", 1),
        db_pointer("a.b", 1),
        db_pointer("a.b", 2),
        db_pointer("b", 9),
    ]);
    for millis in [0, 1, -1, 1_512_086_400_000, i64::MIN, i64::MAX] {
        values.push(Bson::DateTime(DateTime::from_millis(millis)));
    }
    for (time, increment) in [(0, 0), (0, 1), (1, 0), (u32::MAX, u32::MAX)] {
        values.push(Bson::Timestamp(Timestamp { time, increment }));
    }
    for byte in [0, 1, 127, 255] {
        values.push(Bson::ObjectId(ObjectId::from_bytes([byte; 12])));
    }
    values
}

/// The same value to the last bit, which `==` on doubles does not say.
fn identical(a: &Bson, b: &Bson) -> bool {
    let bytes = |value: &Bson| {
        let wrapped = RawDocumentBuf::try_from(&doc! {"": value.clone()}).unwrap();
        wrapped.into_bytes()
    };
    bytes(a) == bytes(b)
}

fn check_pair(a: &Bson, b: &Bson) -> Result<(), TestCaseError> {
    let expected = compare_bson(a, b);
    prop_assert_eq!(
        expected,
        compare_bson(b, a).reverse(),
        "compare {:?} {:?}",
        a,
        b
    );
    let up = encoded(a, Direction::Ascending)
        .0
        .cmp(&encoded(b, Direction::Ascending).0);
    prop_assert_eq!(up, expected, "ascending {:?} {:?}", a, b);
    let down = encoded(a, Direction::Descending)
        .0
        .cmp(&encoded(b, Direction::Descending).0);
    prop_assert_eq!(down, expected.reverse(), "descending {:?} {:?}", a, b);
    Ok(())
}

fn check_round_trip(value: &Bson, tail: &[u8]) -> Result<(), TestCaseError> {
    for direction in [Direction::Ascending, Direction::Descending] {
        let (mut bytes, types) = encoded(value, direction);
        let length = bytes.len();
        prop_assert!((0x08..=0xF7).contains(&bytes[0]));
        bytes.extend_from_slice(tail);
        prop_assert_eq!(skip(&bytes, direction), Some(length), "{:?}", value);
        let mut reader = TypeBitsReader::from_bytes(types.as_bytes());
        let (decoded, taken) = decode(&bytes, direction, &mut reader).unwrap();
        prop_assert_eq!(taken, length);
        prop_assert!(identical(&decoded, value), "{:?} {:?}", decoded, value);
        check_transcode(value, &bytes, direction, &types)?;
        for cut in 0..length.min(40) {
            prop_assert_eq!(skip(&bytes[..cut], direction), None);
        }
    }
    Ok(())
}

/// What [`transcode`] writes is what a document has.
fn check_transcode(
    value: &Bson,
    bytes: &[u8],
    direction: Direction,
    types: &TypeBits,
) -> Result<(), TestCaseError> {
    let mut document = RawDocumentBuf::new();
    with_raw(value, |raw| document.append(cstr!("f"), raw));
    let expected = document.as_bytes();
    let mut types = types.clone();
    types.push_bit(true);
    let mut reader = TypeBitsReader::from_bytes(types.as_bytes());
    let mut out = b"before".to_vec();
    let (kind, taken) = transcode(bytes, direction, &mut reader, &mut out).unwrap();
    prop_assert_eq!(Some(taken), skip(bytes, direction));
    prop_assert_eq!(kind as u8, expected[4], "{:?}", value);
    prop_assert_eq!(&out[6..], &expected[7..expected.len() - 1], "{:?}", value);
    prop_assert!(
        reader.read_bit(),
        "{:?}: other bits were read than written",
        value
    );
    Ok(())
}

#[test]
fn edges_order_and_come_back() {
    let values = edges();
    for a in &values {
        check_round_trip(a, &[]).unwrap();
        check_round_trip(a, &[0x08]).unwrap();
        check_round_trip(a, &[0xF7, 0xFF]).unwrap();
        for b in &values {
            check_pair(a, b).unwrap();
        }
    }
}

#[test]
fn no_encoding_is_a_prefix_of_another() {
    let values = edges();
    for direction in [Direction::Ascending, Direction::Descending] {
        let all: Vec<Vec<u8>> = values
            .iter()
            .map(|value| encoded(value, direction).0)
            .collect();
        for a in &all {
            for b in &all {
                assert!(a == b || !b.starts_with(a), "{a:02x?} {b:02x?}");
            }
        }
    }
}

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        -1e6..1e6f64,
        near_powers().prop_map(|x| x as f64)
    ]
}

fn near_powers() -> impl Strategy<Value = i64> {
    (0u32..64, -3i64..=3).prop_map(|(power, offset)| 1i64.wrapping_shl(power).wrapping_add(offset))
}

fn any_decimal() -> impl Strategy<Value = Bson> {
    let parts = prop_oneof![
        (any::<bool>(), 0u64..100_000, -8i32..8)
            .prop_map(|(n, c, e)| format!("{}{c}E{e}", if n { "-" } else { "" })),
        (any::<bool>(), any::<u64>(), -40i32..20)
            .prop_map(|(n, c, e)| format!("{}{c}E{e}", if n { "-" } else { "" })),
        (any::<bool>(), any::<u64>(), any::<u32>(), -400i32..340)
            .prop_map(|(n, a, b, e)| format!("{}{a}{b}E{e}", if n { "-" } else { "" })),
        any_double().prop_map(|double| crate::number::Decimal::from_f64_exact(double).to_string()),
    ];
    prop_oneof![
        parts.prop_map(|text| Bson::Decimal128(
            text.parse::<crate::number::Decimal>().unwrap().to_bson()
        )),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(bson::Decimal128::from_bytes(bytes))),
    ]
}

fn any_number() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        (-300i32..300).prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        near_powers().prop_map(Bson::Int64),
        any_double().prop_map(Bson::Double),
        any_decimal(),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[\u{0}\u{1}\u{2}ab]{0,4}", any::<String>()]
}

fn any_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        4 => any_number(),
        2 => any_text().prop_map(Bson::String),
        1 => any_text().prop_map(Bson::Symbol),
        1 => any_text().prop_map(Bson::JavaScriptCode),
        1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(subtype, bytes)| binary(subtype, bytes)),
        1 => any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        1 => any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        1 => any::<(u32, u32)>().prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        1 => ("[a-c^]{0,3}", "[imsx]{0,1}").prop_map(|(pattern, options)| regex(&pattern, &options)),
        1 => prop::sample::select(edges()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::vec(("[ab\u{1}]{0,2}", inner.clone()), 0..4);
        let document = fields.prop_map(|fields| fields.into_iter().collect::<Document>());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Bson::Array),
            document.clone().prop_map(Bson::Document),
            (any_text(), document).prop_map(|(code, scope)| {
                Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code, scope })
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_order_as_compared(a in any_number(), b in any_number()) {
        check_pair(&a, &b)?;
    }

    #[test]
    fn values_order_as_compared(a in any_value(), b in any_value()) {
        check_pair(&a, &b)?;
    }

    #[test]
    fn neighbours_order_as_compared(a in any_double(), up in any::<bool>(), exponent in -36i32..3) {
        let decimal = Bson::Decimal128(crate::number::Decimal::from_f64_exact(a).to_bson());
        let neighbour = Bson::Double(if up { a.next_up() } else { a.next_down() });
        check_pair(&Bson::Double(a), &decimal)?;
        check_pair(&neighbour, &decimal)?;
        let nudge: crate::number::Decimal = format!("1E{exponent}").parse().unwrap();
        let nudged = crate::number::Decimal::from_f64_exact(a).add(nudge);
        check_pair(&Bson::Decimal128(nudged.to_bson()), &decimal)?;
        check_pair(&Bson::Decimal128(nudged.to_bson()), &neighbour)?;
    }

    #[test]
    fn values_come_back(value in any_value(), tail in prop::collection::vec(any::<u8>(), 0..3)) {
        check_round_trip(&value, &tail)?;
    }

    #[test]
    fn compound_keys_order_field_by_field(
        a in prop::collection::vec(any_value(), 3),
        b in prop::collection::vec(any_value(), 3),
        descending in any::<[bool; 3]>(),
        same in 0usize..3,
    ) {
        let directions = descending.map(|down| if down { Direction::Descending } else { Direction::Ascending });
        let b: Vec<Bson> = (0..3).map(|i| if i < same { a[i].clone() } else { b[i].clone() }).collect();
        let key = |values: &[Bson]| {
            let (mut bytes, mut types) = (Vec::new(), TypeBits::new());
            for (value, direction) in values.iter().zip(directions) {
                with_raw(value, |raw| encode(raw, direction, &mut bytes, &mut types));
            }
            (bytes, types)
        };
        let expected = (0..3).fold(Ordering::Equal, |order, i| order.then_with(|| {
            let field = compare_bson(&a[i], &b[i]);
            if descending[i] { field.reverse() } else { field }
        }));
        let (bytes, types) = key(&a);
        prop_assert_eq!(bytes.cmp(&key(&b).0), expected);
        let (mut at, mut reader) = (0, TypeBitsReader::from_bytes(types.as_bytes()));
        for (value, direction) in a.iter().zip(directions) {
            let (decoded, length) = decode(&bytes[at..], direction, &mut reader).unwrap();
            prop_assert!(identical(&decoded, value));
            at += length;
        }
        prop_assert_eq!(at, bytes.len());
    }

    #[test]
    fn any_bytes_are_refused_or_stepped_over(bytes in prop::collection::vec(any::<u8>(), 0..40), types in any::<[u8; 4]>()) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let length = skip(&bytes, direction);
            prop_assert!(length.unwrap_or(0) <= bytes.len());
            let mut reader = TypeBitsReader::from_bytes(&types);
            let decoded = decode(&bytes, direction, &mut reader).ok().map(|(_, taken)| taken);
            prop_assert!(decoded.is_none() || decoded == length);
            let mut reader = TypeBitsReader::from_bytes(&types);
            let transcoded = transcode(&bytes, direction, &mut reader, &mut Vec::new());
            let transcoded = transcoded.ok().map(|(_, taken)| taken);
            prop_assert!(transcoded.is_none() || transcoded == length);
            // Texts are copied as they stand; only `decode` looks whether they are UTF-8.
            prop_assert!(decoded.is_none() || transcoded.is_some());
        }
    }
}

#[test]
fn the_format_as_drawn() {
    assert_eq!(ascending(0), [0x23]);
    assert_eq!(ascending(1), [0x25, 0x02]);
    assert_eq!(ascending(1.0), [0x25, 0x02]);
    assert_eq!(ascending(-1), [0x21, 0xFD]);
    assert_eq!(ascending(127), [0x25, 0xFE]);
    assert_eq!(ascending(128), [0x26, 0x01, 0x00]);
    assert_eq!(ascending(1.5), [0x25, 0x03, 0x80, 0, 0, 0, 0, 0, 0]);
    assert_eq!(ascending(0.5), [0x24, 0xFF, 0x80, 0, 0, 0, 0, 0, 0]);
    assert_eq!(ascending(1e300).len(), 9);
    assert_eq!(ascending(decimal("19.99")).len(), 13);
    assert_eq!(ascending("a\0"), [0x40, b'a', 1, 1, 0]);
    assert_eq!(
        ascending(DateTime::from_millis(0)),
        [0x70, 0x80, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(ascending(ObjectId::from_bytes([7; 12])).len(), 13);
    assert_eq!(ascending(true), [0x69]);
    assert_eq!(
        ascending(doc! {"a": 1, "b": "x"}),
        [0x48, 0x17, b'a', 0, 0x25, 2, 0x40, b'b', 0, b'x', 0, 0]
    );
    assert_eq!(ascending(vec![Bson::Int32(1)]), [0x50, 0x25, 2, 0]);
    assert_eq!(encoded(&1.into(), Direction::Descending).0, [!0x25, !0x02]);
}

#[test]
fn the_common_types_need_no_type_bits() {
    for value in [
        Bson::Int32(0),
        5.into(),
        Bson::Int64(1 << 40),
        2.5.into(),
        "text".into(),
        true.into(),
    ] {
        assert!(
            encoded(&value, Direction::Ascending).1.is_empty(),
            "{value}"
        );
    }
    assert_eq!(
        encoded(&Bson::Double(2.0), Direction::Ascending)
            .1
            .as_bytes()
            .len(),
        1
    );
}

#[test]
fn cells_order_as_numbers() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let cell = |id| {
            let mut out = Vec::new();
            encode_cell(id, direction, &mut out);
            out
        };
        let order = cell(1).cmp(&cell(u64::MAX));
        assert_eq!(
            order,
            if direction == Direction::Ascending {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        );
        assert_eq!(decode_cell(&cell(77), direction), Some(77));
        assert_eq!(skip(&cell(77), direction), Some(9));
    }
}

#[test]
fn brackets_hold_their_values() {
    for value in edges() {
        let bytes = ascending(value.clone());
        let bracket = with_raw(&value, crate::canonical_type);
        let (first, last) = bracket_range(bracket).unwrap();
        assert!((first..=last).contains(&bytes[0]), "{value}");
    }
}
