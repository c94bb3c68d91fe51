//! The codec against columns that mongod 6.0.5 wrote, and against bytes that nobody should.
//!
//! `data/mongod-6.0.5.jsonl` has a column a line: `count` rows, `values` (a document with their numbers as names) and
//! `column`, both in base64.
#![allow(clippy::unwrap_used)]

use base64::prelude::*;
use meridian_column::{ColumnDecoder, ColumnEncoder, ColumnError, ColumnValue};

type Row = Option<(u8, Vec<u8>)>;

/// Rows that a test reads of a column, at most.
const ROWS_MAX: usize = 5_000;

struct Case {
    name: String,
    rows: Vec<Row>,
    column: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("data/mongod-6.0.5.jsonl").lines();
    lines.map(case).collect()
}

fn case(line: &str) -> Case {
    let case: serde_json::Value = serde_json::from_str(line).unwrap();
    let bytes = |key: &str| BASE64_STANDARD.decode(case[key].as_str().unwrap()).unwrap();
    let mut rows = vec![None; case["count"].as_u64().unwrap() as usize];
    let values = bytes("values");
    let mut rest = &values[4..values.len() - 1];
    while let Some((&kind, after_kind)) = rest.split_first() {
        let name = after_kind.split(|byte| *byte == 0).next().unwrap();
        let value = &after_kind[name.len() + 1..];
        let (value, after) = value.split_at(length(kind, value));
        let row: usize = std::str::from_utf8(name).unwrap().parse().unwrap();
        rows[row] = Some((kind, value.to_vec()));
        rest = after;
    }
    Case {
        name: case["name"].as_str().unwrap().to_owned(),
        rows,
        column: bytes("column"),
    }
}

/// How long the value is that starts here.
fn length(kind: u8, bytes: &[u8]) -> usize {
    let prefix = || u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let text = |from: usize| from + bytes[from..].iter().position(|byte| *byte == 0).unwrap() + 1;
    match kind {
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x02 | 0x0D | 0x0E => prefix() + 4,
        0x03 | 0x04 | 0x0F => prefix(),
        0x05 => prefix() + 5,
        0x07 => 12,
        0x08 => 1,
        0x0B => text(text(0)),
        0x0C => prefix() + 16,
        0x13 => 16,
        _ => 0,
    }
}

fn own(value: ColumnValue<'_>) -> (u8, Vec<u8>) {
    (value.kind(), value.bytes().to_vec())
}

fn decode(column: &[u8]) -> Result<Vec<Row>, ColumnError> {
    let rows = ColumnDecoder::new(column).take(ROWS_MAX);
    rows.map(|row| Ok(row?.map(own))).collect()
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut encoder = ColumnEncoder::default();
    for row in rows {
        match row {
            Some((kind, value)) => encoder.push(*kind, value).unwrap(),
            None => encoder.skip(),
        }
    }
    encoder.finish()
}

/// Xorshift: the same numbers every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }
}

#[test]
fn mongods_columns_are_read() {
    for case in cases() {
        assert_eq!(
            decode(&case.column).as_ref(),
            Ok(&case.rows),
            "{}",
            case.name
        );
    }
}

#[test]
fn columns_are_the_same_as_mongods() {
    for case in cases() {
        let own = encode(&case.rows);
        assert!(
            own == case.column,
            "{}: {own:02x?}, but {:02x?} of mongod",
            case.name,
            case.column
        );
    }
}

#[test]
fn values_of_any_types_in_any_order_come_back() {
    let mut values: Vec<Row> = cases()
        .into_iter()
        .flat_map(|case| case.rows.into_iter().take(20))
        .collect();
    values.push(None);
    let mut numbers = Numbers(7);
    for _ in 0..300 {
        let mut rows = Vec::new();
        while rows.len() < 200 {
            let value = &values[numbers.below(values.len())];
            let repeated = [1, 1, 1, 2, 5, 130][numbers.below(6)];
            rows.extend(std::iter::repeat_n(value.clone(), repeated));
        }
        assert!(decode(&encode(&rows)).as_ref() == Ok(&rows));
    }
}

#[test]
fn numbers_of_changing_scales_come_back() {
    let mut numbers = Numbers(11);
    for round in 0..2_000 {
        let scales = [1.0, 10.0, 100.0, 1e4, 1e8, 3.0, 0.0];
        let (mut x, mut scale) = (numbers.below(1_000) as i64, 0);
        let row = |x: f64| Some((0x01, x.to_le_bytes().to_vec()));
        let rows: Vec<Row> = (0..numbers.below(600))
            .map(|_| {
                if numbers.below(20) == 0 {
                    scale = numbers.below(scales.len());
                }
                x += [0, 1, 1, 7, -3, 1 << (round % 50)][numbers.below(6)];
                let x = if round % 3 == 0 { x / 100 } else { x };
                (numbers.below(9) > 0)
                    .then(|| row(x as f64 / scales[scale]))
                    .flatten()
            })
            .collect();
        assert!(decode(&encode(&rows)).as_ref() == Ok(&rows), "{rows:?}");
    }
}

/// A document with so many numbers.
fn wide(fields: usize, value: i32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for field in 0..fields {
        bytes.push(0x10);
        bytes.extend_from_slice(format!("{field}\0").as_bytes());
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.push(0);
    let length = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

#[test]
fn documents_with_very_many_fields_come_back() {
    for fields in [9_999, 10_000, 10_001, 200_000] {
        let rows: Vec<Row> = (0..4).map(|row| Some((0x03, wide(fields, row)))).collect();
        let column = encode(&rows);
        // Interleaved up to ten thousand, literals beyond.
        assert_eq!(column[0] == 0xF1, fields <= 10_000, "{fields}");
        assert!(decode(&column).as_ref() == Ok(&rows), "{fields}");
    }
}

#[test]
fn an_empty_column_has_no_rows() {
    assert_eq!(encode(&[]), [0]);
    assert_eq!(decode(&[0]), Ok(vec![]));
}

#[test]
fn mutated_columns_are_errors_or_values() {
    let cases = cases();
    let mut numbers = Numbers(1);
    for _ in 0..20_000 {
        let mut column = cases[numbers.below(cases.len())].column.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(column.len());
            match numbers.below(4) {
                0 => column[at] = numbers.next() as u8,
                1 => column[at] ^= 1 << numbers.below(8),
                2 => column.insert(at, numbers.next() as u8),
                _ if column.len() > 1 => column.truncate(at.max(1)),
                _ => {}
            }
        }
        read_all(&column);
    }
}

#[test]
fn random_bytes_are_errors_or_values() {
    let mut numbers = Numbers(2);
    let controls = [
        0x01, 0x02, 0x05, 0x07, 0x09, 0x10, 0x13, 0x80, 0x81, 0x90, 0xA3, 0xD0, 0xF0, 0xF1, 0xF2,
    ];
    for _ in 0..50_000 {
        let length = numbers.below(80);
        let mut column: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        column.insert(0, controls[numbers.below(controls.len())]);
        column.push(0);
        read_all(&column);
    }
}

#[test]
fn rows_that_are_skipped_change_nothing() {
    for case in cases() {
        skip_some(&case.column, &case.rows);
    }
}

/// Skips every other few rows, and reads dates as numbers.
fn skip_some(column: &[u8], rows: &[Row]) {
    let mut some = ColumnDecoder::new(column);
    let (mut at, mut step) = (0, 1);
    while at < rows.len() {
        let skipped = some.skip_rows(step.min(rows.len() - at));
        assert_eq!(skipped, Ok(step.min(rows.len() - at)), "{column:02x?}");
        at += step;
        step = step * 5 % 97;
        if let Some(row) = rows.get(at) {
            assert_eq!(
                some.next().map(|row| row.map(|value| value.map(own))),
                Some(Ok(row.clone()))
            );
            at += 1;
        }
    }
    read_dates(column, rows);
    read_doubles(column, rows);
}

/// Dates in parts, until the first row that is none.
fn read_dates(column: &[u8], rows: &[Row]) {
    let expected: Vec<i64> = rows
        .iter()
        .map_while(|row| match row {
            Some((0x09, bytes)) => Some(i64::from_le_bytes(bytes[..].try_into().unwrap())),
            _ => None,
        })
        .collect();
    let (mut dates, mut found) = (ColumnDecoder::new(column), Vec::new());
    let mut most = 1;
    while found.len() < expected.len() {
        let before = found.len();
        let part = dates.next_dates(most.min(expected.len() - before), &mut found);
        if part.is_err() {
            // It is told with the first row that has none, of those that are asked for.
            assert!(expected.len() < rows.len(), "{column:02x?}");
            return;
        }
        assert!(found.len() > before && found.len() - before <= most);
        most = most * 5 % 97;
    }
    assert_eq!(found, expected, "{column:02x?}");
    if expected.len() < rows.len() {
        assert!(dates.next_dates(1, &mut found).is_err(), "{column:02x?}");
    }
}

/// Doubles in parts, and other rows one by one.
fn read_doubles(column: &[u8], rows: &[Row]) {
    let (mut doubles, mut at, mut most) = (ColumnDecoder::new(column), 0, 1);
    while at < rows.len() {
        let mut found = Vec::new();
        let passed = doubles.next_doubles(most.min(rows.len() - at), &mut found);
        let passed = passed.unwrap();
        let expected: Vec<_> = rows[at..at + passed].iter().flatten().cloned().collect();
        let found = found
            .iter()
            .map(|value| (0x01, value.to_le_bytes().to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{column:02x?}");
        at += passed;
        if passed == 0 {
            let row = doubles.next().map(|row| row.map(|value| value.map(own)));
            assert_eq!(row, Some(Ok(rows[at].clone())), "{column:02x?}");
            at += 1;
        }
        most = most * 5 % 97;
    }
}

/// Reads a column; what is read must be encodable and come back.
fn read_all(column: &[u8]) {
    let rows: Vec<Row> = ColumnDecoder::new(column)
        .take(ROWS_MAX)
        .map_while(|row| Some(row.ok()?.map(own)))
        .collect();
    skip_some(column, &rows);
    let mut encoder = ColumnEncoder::default();
    for row in &rows {
        match row {
            Some((kind, value)) if encoder.push(*kind, value).is_err() => return,
            Some(_) => {}
            None => encoder.skip(),
        }
    }
    assert!(decode(&encoder.finish()).as_ref() == Ok(&rows));
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let error = |column: &[u8]| decode(column).unwrap_err().to_string();
    assert_eq!(error(&[]), "a column without its end at byte 0");
    assert_eq!(
        error(&[0, 0]),
        "bytes after the end of the column at byte 1"
    );
    assert_eq!(
        error(&[0x10, 0, 1, 0, 0, 0]),
        "a column without its end at byte 6"
    );
    assert_eq!(error(&[0x40]), "an unknown control byte at byte 0");
    assert_eq!(error(&[0x80, 0, 0]), "a block that is cut off at byte 0");
    assert_eq!(
        error(&[0x0A, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        "a Simple-8b word with an unknown selector at byte 3"
    );
    assert_eq!(
        error(&[0x10, b'a', 0, 1, 0, 0, 0, 0]),
        "a literal that has a name at byte 0"
    );
    let mut encoder = ColumnEncoder::default();
    assert!(encoder.push(0xFF, &[]).is_err() && encoder.push(0x10, &[1]).is_err());
    assert_eq!(encoder.finish(), [0]);
}
