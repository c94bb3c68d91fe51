//! The one check that every received document passes: lengths, nesting, terminators,
//! element types, and UTF-8 of keys and strings. After it, raw BSON iteration cannot fail.
//!
//! It costs one pass without allocation. MongoDB itself checks the same things except for
//! UTF-8, which it leaves to whoever reads the string; here a string is a `str` everywhere,
//! so a document with other strings is rewritten first ([`crate::text`]).

use crate::error::{InvalidDocument, InvalidKind};
use bson::raw::RawDocument;

/// Documents and arrays may be nested this many levels below the outermost document.
/// MongoDB's `BSONDepth::kDefaultMaxAllowableDepth`.
pub const NESTING_LEVELS_MAX: usize = 200;

/// Paths in error messages stop growing here.
const PATH_BYTES_MAX: usize = 1024;

type Checked<T> = Result<T, InvalidDocument>;

/// Returns the bytes as a document whose every element is well-formed.
///
/// # Errors
/// [`InvalidKind::Malformed`] where a length, type, terminator or string is wrong;
/// [`InvalidKind::TooDeep`] past [`NESTING_LEVELS_MAX`].
pub fn check_document(bytes: &[u8]) -> Checked<&RawDocument> {
    if check_structure(bytes)? == Text::Other {
        return Err(malformed("a string is not valid UTF-8"));
    }
    as_document(bytes)
}

/// A document that was checked.
pub(crate) fn as_document(bytes: &[u8]) -> Checked<&RawDocument> {
    RawDocument::from_bytes(bytes).map_err(|error| malformed(error.to_string()))
}

/// What the strings and names of a document are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Text {
    /// All valid UTF-8.
    Utf8,
    /// At least one is not.
    Other,
}

/// As [`check_document`], but for the strings: the answer says what they are.
pub(crate) fn check_structure(bytes: &[u8]) -> Checked<Text> {
    let mut text = Text::Utf8;
    check_elements(bytes, 0, &mut text)?;
    Ok(text)
}

/// The document at the start of `bytes`, by its own length, unchecked inside.
pub(crate) fn split_document(bytes: &[u8]) -> Checked<(&[u8], &[u8])> {
    let length = document_length(bytes)?;
    Ok(bytes.split_at(length))
}

fn document_length(bytes: &[u8]) -> Checked<usize> {
    let Some(prefix) = bytes.first_chunk::<4>() else {
        return Err(malformed("not enough bytes for a document's length"));
    };
    match usize::try_from(i32::from_le_bytes(*prefix)) {
        Ok(length) if length >= 5 && length <= bytes.len() => Ok(length),
        _ => Err(malformed("BSON size is larger than buffer size")),
    }
}

fn check_elements(bytes: &[u8], level: usize, text: &mut Text) -> Checked<()> {
    if level > NESTING_LEVELS_MAX {
        let (kind, path) = (InvalidKind::TooDeep, String::new());
        let reason = "BSONObj exceeds maximum nested object depth".to_owned();
        return Err(InvalidDocument { kind, reason, path });
    }
    if document_length(bytes)? != bytes.len() {
        return Err(malformed(
            "a document's length does not match its container",
        ));
    }
    let mut rest = &bytes[4..];
    while let Some((&kind, after_kind)) = rest.split_first() {
        if kind == 0 {
            return match after_kind.len() {
                0 => Ok(()),
                _ => Err(malformed("a document ends before its length says")),
            };
        }
        let (key, value) = split_cstring(after_kind, text)?;
        let size =
            check_value(kind, value, level, text).map_err(|error| name_element(error, key))?;
        rest = &value[size..];
    }
    Err(malformed("a document lacks its terminating zero"))
}

/// The size of a value in bytes, once it is known to be well-formed and inside `bytes`.
fn check_value(kind: u8, bytes: &[u8], level: usize, text: &mut Text) -> Checked<usize> {
    match kind {
        0x01 | 0x09 | 0x11 | 0x12 => fixed(bytes, 8),
        0x02 | 0x0d | 0x0e => check_string(bytes, text),
        0x03 | 0x04 => {
            let length = document_length(bytes)?;
            check_elements(&bytes[..length], level + 1, text)?;
            Ok(length)
        }
        0x05 => check_binary(bytes),
        0x06 | 0x0a | 0x7f | 0xff => Ok(0),
        0x07 => fixed(bytes, 12),
        0x08 => match bytes.first() {
            Some(0 | 1) => Ok(1),
            _ => Err(malformed("a boolean is neither 0 nor 1")),
        },
        0x0b => {
            let (pattern, rest) = split_cstring(bytes, text)?;
            let (options, _) = split_cstring(rest, text)?;
            Ok(pattern.len() + options.len() + 2)
        }
        0x0c => {
            let namespace = check_string(bytes, text)?;
            fixed(&bytes[namespace..], 12)?;
            Ok(namespace + 12)
        }
        0x0f => check_code_with_scope(bytes, level, text),
        0x10 => fixed(bytes, 4),
        0x13 => fixed(bytes, 16),
        _ => Err(malformed(format!("Unrecognized BSON type {kind}"))),
    }
}

fn fixed(bytes: &[u8], size: usize) -> Checked<usize> {
    if bytes.len() < size {
        return Err(malformed("an element reaches past its document"));
    }
    Ok(size)
}

fn check_string(bytes: &[u8], text: &mut Text) -> Checked<usize> {
    let length = prefix_length(bytes)?;
    let Some(content) = bytes.get(4..4 + length) else {
        return Err(malformed("a string reaches past its document"));
    };
    match content.split_last() {
        Some((0, content)) => {
            note_text(content, text);
            Ok(4 + length)
        }
        _ => Err(malformed("a string lacks its terminating zero")),
    }
}

fn check_binary(bytes: &[u8]) -> Checked<usize> {
    let length = prefix_length(bytes)?;
    let Some((&subtype, rest)) = bytes[4..].split_first() else {
        return Err(malformed("binary data lacks its subtype"));
    };
    fixed(rest, length)?;
    // Subtype 2 repeats its length inside, four bytes shorter.
    if subtype == 2 && (length < 4 || prefix_length(rest)? + 4 != length) {
        return Err(malformed("old binary data has a wrong inner length"));
    }
    Ok(5 + length)
}

fn check_code_with_scope(bytes: &[u8], level: usize, text: &mut Text) -> Checked<usize> {
    let total = prefix_length(bytes)?;
    if total < 14 || total > bytes.len() {
        return Err(malformed("code with scope reaches past its document"));
    }
    let inner = &bytes[4..total];
    let code = check_string(inner, text)?;
    check_elements(&inner[code..], level + 1, text)?;
    Ok(total)
}

fn prefix_length(bytes: &[u8]) -> Checked<usize> {
    let Some(prefix) = bytes.first_chunk::<4>() else {
        return Err(malformed("an element reaches past its document"));
    };
    usize::try_from(i32::from_le_bytes(*prefix)).map_err(|_| malformed("a length is negative"))
}

/// Splits after the first zero byte.
fn split_cstring<'a>(bytes: &'a [u8], text: &mut Text) -> Checked<(&'a [u8], &'a [u8])> {
    let Some(end) = bytes.iter().position(|&byte| byte == 0) else {
        return Err(malformed("a name lacks its terminating zero"));
    };
    note_text(&bytes[..end], text);
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn note_text(content: &[u8], text: &mut Text) {
    if std::str::from_utf8(content).is_err() {
        *text = Text::Other;
    }
}

/// Puts an element's name before the path, while the path has a readable length.
fn name_element(mut error: InvalidDocument, key: &[u8]) -> InvalidDocument {
    let key = String::from_utf8_lossy(key);
    if error.path.is_empty() {
        error.path = key.into_owned();
    } else if error.path.len() + key.len() < PATH_BYTES_MAX {
        error.path = format!("{key}.{}", error.path);
    }
    error
}

fn malformed(reason: impl Into<String>) -> InvalidDocument {
    InvalidDocument {
        kind: InvalidKind::Malformed,
        reason: reason.into(),
        path: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::raw::{RawDocumentBuf, cstr};
    use bson::{Bson, doc, rawdoc};
    use proptest::prelude::*;

    fn regex() -> bson::Regex {
        bson::Regex {
            pattern: cstr!("a").into(),
            options: cstr!("i").into(),
        }
    }

    fn every_type() -> RawDocumentBuf {
        let old = bson::Binary {
            subtype: bson::spec::BinarySubtype::BinaryOld,
            bytes: vec![1, 2],
        };
        let document = doc! {
            "double": 1.5, "string": "text", "document": { "a": [1, { "b": 2 }] },
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] },
            "old": old, "undefined": Bson::Undefined, "id": bson::oid::ObjectId::new(),
            "bool": true, "date": bson::DateTime::now(), "null": Bson::Null,
            "regex": regex(),
            "code": Bson::JavaScriptCode("f()".into()), "symbol": Bson::Symbol("s".into()),
            "scope": bson::JavaScriptCodeWithScope { code: "g()".into(), scope: doc! { "x": 1 } },
            "int": 1, "timestamp": bson::Timestamp { time: 1, increment: 2 }, "long": 2_i64,
            "min": Bson::MinKey, "max": Bson::MaxKey,
            "decimal": "1.5".parse::<bson::Decimal128>().expect("a decimal"),
        };
        RawDocumentBuf::try_from(&document).expect("a valid document")
    }

    #[test]
    fn every_type_passes() {
        let document = every_type();
        check_document(document.as_bytes()).expect("well-formed");
    }

    #[test]
    fn nesting_is_allowed_to_the_limit_and_not_past_it() {
        let nested = |levels: usize| {
            (0..levels).fold(rawdoc! { "leaf": 1 }, |inner, _| rawdoc! { "a": inner })
        };
        check_document(nested(NESTING_LEVELS_MAX).as_bytes()).expect("at the limit");
        let error = check_document(nested(NESTING_LEVELS_MAX + 1).as_bytes()).expect_err("past it");
        assert_eq!(error.kind, InvalidKind::TooDeep);
        assert!(error.path.ends_with("a.a.a"), "{error}");
    }

    #[test]
    fn errors_give_the_path_of_the_element() {
        let mut bytes = rawdoc! { "outer": { "inner": "text" } }.into_bytes();
        let text = bytes
            .windows(4)
            .position(|window| window == b"text")
            .expect("present");
        bytes[text + 4] = 1;
        let error = check_document(&bytes).expect_err("a wrong end");
        assert_eq!(
            error.to_string(),
            "a string lacks its terminating zero in element with field name 'outer.inner' in object with \
             unknown _id"
        );
    }

    proptest! {
        /// Whatever passes the check can be read to the end by the raw iterator.
        #[test]
        fn a_document_that_passes_can_be_read(
            position in 0_usize..400, value: u8, cut in 0_usize..400,
        ) {
            let mut bytes = every_type().into_bytes();
            let position = position % bytes.len();
            bytes[position] = value;
            if cut % 4 == 0 {
                bytes.truncate(cut);
            }
            if let Ok(document) = check_document(&bytes) {
                read_everything(document);
            }
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(document) = check_document(&bytes) {
                read_everything(document);
            }
        }
    }

    fn read_everything(document: &RawDocument) {
        for element in document {
            let (_, value) = element.expect("checked");
            match value {
                bson::RawBsonRef::Document(inner) => read_everything(inner),
                bson::RawBsonRef::Array(inner) => {
                    assert!(inner.into_iter().all(|value| value.is_ok()));
                }
                _ => {}
            }
        }
    }
}
