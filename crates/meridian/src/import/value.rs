//! One column's text as a BSON value.

use std::str::FromStr;

use bson::{Bson, Decimal128};
use meridian_bench::encode::point;

use super::time::{self, Layout};

/// What a column's text becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnType {
    /// An int32 or int64 where it fits, else a double, else a string; dates and points too.
    Auto,
    /// An int32.
    Int32,
    /// An int32, or an int64 where that is too small.
    Integer,
    /// An int64.
    Int64,
    /// A double.
    Double,
    /// A decimal128.
    Decimal,
    /// A boolean: true, false, t, f, 1, 0.
    Boolean,
    /// Text.
    String,
    /// A date in one of the usual forms.
    Date,
    /// A date in a layout.
    DateLayout(Layout),
    /// A GeoJSON point of `POINT(lon lat)`.
    Point,
    /// Bytes.
    Binary(BinaryText),
}

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryText {
    /// Base 64.
    Base64,
    /// Two digits a byte.
    Hexadecimal,
}

impl ColumnType {
    /// The type's name in messages.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Int32 => "int32",
            Self::Integer => "integer",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Decimal => "decimal",
            Self::Boolean => "boolean",
            Self::String => "string in UTF-8",
            Self::Date | Self::DateLayout(_) => "date",
            Self::Point => "point (POINT(longitude latitude), within ±180 and ±90)",
            Self::Binary(_) => "binary",
        }
    }

    /// Appends the element `type byte, name, value`; `head` is a spare byte for the type, the name and its end.
    /// Nothing useful is in `out` when it fails.
    pub fn write(&self, head: &[u8], text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Auto => guess(text).write(head, text, out),
            Self::Int32 => element(
                0x10,
                head,
                &i32::try_from(integer(text)?).ok()?.to_le_bytes(),
                out,
            ),
            Self::Integer => {
                let value = integer(text)?;
                match i32::try_from(value) {
                    Ok(small) => element(0x10, head, &small.to_le_bytes(), out),
                    Err(_) => element(0x12, head, &value.to_le_bytes(), out),
                }
            }
            Self::Int64 => element(0x12, head, &integer(text)?.to_le_bytes(), out),
            Self::Double => element(0x01, head, &double(text)?.to_le_bytes(), out),
            Self::Decimal => {
                let value = Decimal128::from_str(std::str::from_utf8(text).ok()?).ok()?;
                element(0x13, head, &value.bytes(), out)
            }
            Self::Boolean => element(0x08, head, &[u8::from(boolean(text)?)], out),
            Self::String => string(head, text, out),
            Self::Date => element(0x09, head, &time::parse(text)?.to_le_bytes(), out),
            Self::DateLayout(layout) => {
                element(0x09, head, &layout.parse(text)?.to_le_bytes(), out)
            }
            Self::Point => {
                let (longitude, latitude) = well_known_point(text)?;
                let at = out.len();
                point(head, longitude, latitude, out);
                out[at] = 0x03;
                Some(())
            }
            Self::Binary(written) => {
                let bytes = written.decode(text)?;
                element(0x05, head, &(bytes.len() as i32).to_le_bytes(), out)?;
                out.push(0);
                out.extend_from_slice(&bytes);
                Some(())
            }
        }
    }
}

impl BinaryText {
    fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(text).ok()?;
        match self {
            Self::Hexadecimal => (text.len() % 2 == 0)
                .then(|| {
                    (0..text.len())
                        .step_by(2)
                        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
                        .collect()
                })
                .flatten(),
            Self::Base64 => {
                // Extended JSON has a decoder for just this.
                let json = serde_json::json!({ "$binary": { "base64": text, "subType": "00" } });
                match Bson::try_from(json) {
                    Ok(Bson::Binary(binary)) => Some(binary.bytes),
                    _ => None,
                }
            }
        }
    }
}

/// Appends an empty string, which is what mongoimport makes of a blank.
pub fn write_blank(head: &[u8], out: &mut Vec<u8>) {
    out.push(0x02);
    out.extend_from_slice(&head[1..]);
    out.extend_from_slice(&[1, 0, 0, 0, 0]);
}

fn element(kind: u8, head: &[u8], value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let at = out.len();
    out.extend_from_slice(head);
    out[at] = kind;
    out.extend_from_slice(value);
    Some(())
}

fn string(head: &[u8], text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    element(0x02, head, &(text.len() as i32 + 1).to_le_bytes(), out)?;
    out.extend_from_slice(text);
    out.push(0);
    Some(())
}

/// A whole number in decimal digits.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    // Counted downwards, since the least number has no positive twin.
    let value = digits.iter().try_fold(0i64, |so_far, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        so_far.checked_mul(10)?.checked_sub(digit)
    })?;
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// A number, as Rust and Go write it.
pub fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" => Some(true),
        b"0" | b"f" | b"F" => Some(false),
        _ if text.eq_ignore_ascii_case(b"true") => Some(true),
        _ if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Longitude and latitude of `POINT(lon lat)`, upper or lower case, with spaces, perhaps after `SRID=4326;`.
pub fn well_known_point(text: &[u8]) -> Option<(f64, f64)> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_prefix("SRID=4326;").unwrap_or(text);
    let (word, rest) = text.split_at_checked(5)?;
    if !word.eq_ignore_ascii_case("POINT") {
        return None;
    }
    let inner = rest
        .trim_start()
        .strip_prefix('(')?
        .strip_suffix(')')?
        .trim();
    let (longitude, latitude) = inner.split_once([' ', '\t'])?;
    let (longitude, latitude): (f64, f64) =
        (longitude.parse().ok()?, latitude.trim_start().parse().ok()?);
    ((-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude))
        .then_some((longitude, latitude))
}

/// Whether digits would be lost if the text were read as a number: `007` and `+5` are names, not numbers.
pub fn is_plain_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0', second, ..] => !second.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit() || (*first == b'.' && digits.len() > 1),
        [] => false,
    }
}

/// The narrowest type that takes the text.
pub fn guess(text: &[u8]) -> ColumnType {
    if is_plain_number(text) {
        if integer(text).is_some() {
            return ColumnType::Integer;
        }
        if double(text).is_some() {
            return ColumnType::Double;
        }
    }
    if time::parse(text).is_some() {
        return ColumnType::Date;
    }
    if well_known_point(text).is_some() {
        return ColumnType::Point;
    }
    ColumnType::String
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, doc};

    fn read(kind: &ColumnType, text: &str) -> Option<Bson> {
        let mut bytes = vec![0; 4];
        kind.write(b"\0a\0", text.as_bytes(), &mut bytes)?;
        bytes.push(0);
        let length = bytes.len() as i32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let document = RawDocumentBuf::from_bytes(bytes).expect("well-formed");
        let document: bson::Document = (&document).try_into().expect("valid");
        document.get("a").cloned()
    }

    #[test]
    fn text_becomes_the_declared_type() {
        assert_eq!(read(&ColumnType::Int32, "-42"), Some(Bson::Int32(-42)));
        assert_eq!(read(&ColumnType::Int32, "3000000000"), None);
        assert_eq!(
            read(&ColumnType::Int64, "-9223372036854775808"),
            Some(Bson::Int64(i64::MIN))
        );
        assert_eq!(read(&ColumnType::Int64, "9223372036854775808"), None);
        assert_eq!(read(&ColumnType::Double, "7"), Some(Bson::Double(7.0)));
        assert_eq!(
            read(&ColumnType::Boolean, "TRUE"),
            Some(Bson::Boolean(true))
        );
        assert_eq!(read(&ColumnType::Boolean, "yes"), None);
        assert_eq!(
            read(&ColumnType::String, "7"),
            Some(Bson::String("7".into()))
        );
        assert_eq!(
            read(&ColumnType::Point, "POINT (2.5 -45.9)"),
            Some(Bson::Document(
                doc! { "type": "Point", "coordinates": [2.5, -45.9] }
            ))
        );
        assert_eq!(read(&ColumnType::Point, "POINT(181 0)"), None);
        assert_eq!(
            read(&ColumnType::Date, "1970-01-01 00:00:01"),
            Some(Bson::DateTime(bson::DateTime::from_millis(1000)))
        );
        let bytes = |text| match read(
            &ColumnType::Binary(text),
            if text == BinaryText::Base64 {
                "AQI="
            } else {
                "0102"
            },
        ) {
            Some(Bson::Binary(binary)) => binary.bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes(BinaryText::Base64), [1, 2]);
        assert_eq!(bytes(BinaryText::Hexadecimal), [1, 2]);
        assert!(
            matches!(read(&ColumnType::Decimal, "1.10"), Some(Bson::Decimal128(value)) if value.to_string() == "1.10")
        );
    }

    #[test]
    fn auto_takes_the_narrowest_type_and_keeps_names_made_of_digits() {
        assert_eq!(read(&ColumnType::Auto, "7"), Some(Bson::Int32(7)));
        assert_eq!(
            read(&ColumnType::Auto, "3000000000"),
            Some(Bson::Int64(3_000_000_000))
        );
        assert_eq!(read(&ColumnType::Auto, "7.5"), Some(Bson::Double(7.5)));
        assert_eq!(
            read(&ColumnType::Auto, "007"),
            Some(Bson::String("007".into()))
        );
        assert_eq!(
            read(&ColumnType::Auto, "+7"),
            Some(Bson::String("+7".into()))
        );
        assert_eq!(
            read(&ColumnType::Auto, "infinity"),
            Some(Bson::String("infinity".into()))
        );
    }
}
