//! MongoDB's comparison order over all BSON values.
//!
//! Values of different type brackets order by bracket, values of one bracket by value.
//! Source: `BSONElement::compareElements` and `canonicalizeBSONType` of MongoDB 6.0.
//! Malformed BSON ends a document early; it never panics.

use crate::number::{Number, compare_doubles};
use bson::raw::{RawArray, RawElement, cstr};
use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use std::cmp::Ordering;

/// The type bracket: values of one bracket are compared by value, others by this number.
pub fn canonical_type(value: RawBsonRef<'_>) -> u8 {
    match value {
        RawBsonRef::MinKey => 0,
        RawBsonRef::Undefined => 3,
        RawBsonRef::Null => 5,
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_) => 10,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => 15,
        RawBsonRef::Document(_) => 20,
        RawBsonRef::Array(_) => 25,
        RawBsonRef::Binary(_) => 30,
        RawBsonRef::ObjectId(_) => 35,
        RawBsonRef::Boolean(_) => 40,
        RawBsonRef::DateTime(_) => 45,
        RawBsonRef::Timestamp(_) => 47,
        RawBsonRef::RegularExpression(_) => 50,
        RawBsonRef::DbPointer(_) => 55,
        RawBsonRef::JavaScriptCode(_) => 60,
        RawBsonRef::JavaScriptCodeWithScope(_) => 65,
        RawBsonRef::MaxKey => 127,
    }
}

/// The order of two values.
///
/// ```
/// use bson::RawBsonRef;
/// use std::cmp::Ordering;
/// let order = meridian_value::compare(RawBsonRef::Int32(1), RawBsonRef::Double(1.0));
/// assert_eq!(order, Ordering::Equal);
/// ```
pub fn compare(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    compare_with(a, b, &by_bytes)
}

fn by_bytes(a: &str, b: &str) -> Ordering {
    a.as_bytes().cmp(b.as_bytes())
}

/// The order of two values whose texts are compared by `texts`.
#[inline]
pub(crate) fn compare_with(
    a: RawBsonRef<'_>,
    b: RawBsonRef<'_>,
    texts: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    use RawBsonRef as R;
    match (a, b) {
        (R::Int32(a), R::Int32(b)) => a.cmp(&b),
        (R::Double(a), R::Double(b)) => compare_doubles(a, b),
        (R::DateTime(a), R::DateTime(b)) => a.cmp(&b),
        (R::String(a) | R::Symbol(a), R::String(b) | R::Symbol(b)) => texts(a, b),
        (R::ObjectId(a), R::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (R::Boolean(a), R::Boolean(b)) => a.cmp(&b),
        (R::Document(a), R::Document(b)) => compare_documents_with(a, b, texts),
        (R::Array(a), R::Array(b)) => compare_arrays(a, b, texts),
        (R::Timestamp(a), R::Timestamp(b)) => a.cmp(&b),
        (R::Binary(a), R::Binary(b)) => binary_rank(&a).cmp(&binary_rank(&b)),
        (R::RegularExpression(a), R::RegularExpression(b)) => {
            (a.pattern.as_str(), a.options.as_str()).cmp(&(b.pattern.as_str(), b.options.as_str()))
        }
        (R::JavaScriptCode(a), R::JavaScriptCode(b)) => a.as_bytes().cmp(b.as_bytes()),
        (R::JavaScriptCodeWithScope(a), R::JavaScriptCodeWithScope(b)) => {
            let by_code = a.code.as_bytes().cmp(b.code.as_bytes());
            by_code.then_with(|| compare_documents(a.scope, b.scope))
        }
        (R::DbPointer(_), R::DbPointer(_)) => {
            let (a, b) = (value_bytes(a), value_bytes(b));
            a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
        }
        _ => match (Number::from_raw(a), Number::from_raw(b)) {
            (Some(a), Some(b)) => a.compare(b),
            _ => canonical_type(a).cmp(&canonical_type(b)),
        },
    }
}

/// Binary data order by length, then subtype, then bytes. The old subtype 2 counts the
/// length field it carries inside.
fn binary_rank<'a>(binary: &bson::raw::RawBinaryRef<'a>) -> (usize, u8, &'a [u8]) {
    let subtype = u8::from(binary.subtype);
    (
        binary.bytes.len() + if subtype == 2 { 4 } else { 0 },
        subtype,
        binary.bytes,
    )
}

/// The order of two documents: field by field by type bracket, then name, then value; a
/// prefix is below what it is a prefix of.
pub fn compare_documents(a: &RawDocument, b: &RawDocument) -> Ordering {
    compare_documents_with(a, b, &by_bytes)
}

fn compare_documents_with(
    a: &RawDocument,
    b: &RawDocument,
    texts: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    let names = |a: &RawElement<'_>, b: &RawElement<'_>| a.key().as_str().cmp(b.key().as_str());
    compare_elements(a.iter_elements(), b.iter_elements(), names, texts)
}

fn compare_arrays(a: &RawArray, b: &RawArray, texts: &impl Fn(&str, &str) -> Ordering) -> Ordering {
    let names = |_: &RawElement<'_>, _: &RawElement<'_>| Ordering::Equal;
    compare_elements(a.iter_elements(), b.iter_elements(), names, texts)
}

fn compare_elements<'a>(
    mut a: bson::raw::RawIter<'a>,
    mut b: bson::raw::RawIter<'a>,
    by_name: impl Fn(&RawElement<'a>, &RawElement<'a>) -> Ordering,
    texts: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    loop {
        match (next_element(&mut a), next_element(&mut b)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((a, left)), Some((b, right))) => {
                let order = canonical_type(left)
                    .cmp(&canonical_type(right))
                    .then_with(|| by_name(&a, &b))
                    .then_with(|| compare_with(left, right, texts));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

fn next_element<'a>(
    elements: &mut bson::raw::RawIter<'a>,
) -> Option<(RawElement<'a>, RawBsonRef<'a>)> {
    let element = elements.next()?.ok()?;
    let value = element.value().ok()?;
    Some((element, value))
}

/// The order of two owned values.
pub fn compare_bson(a: &Bson, b: &Bson) -> Ordering {
    with_raw(a, |a| with_raw(b, |b| compare(a, b)))
}

/// Calls `action` with the raw form of an owned value; only documents, arrays and the rare
/// types are serialised for it.
///
/// # Panics
/// When a document or a regular expression holds a name with a NUL byte, which BSON cannot.
pub fn with_raw<T>(value: &Bson, action: impl FnOnce(RawBsonRef<'_>) -> T) -> T {
    let scalar = match value {
        Bson::Double(value) => RawBsonRef::Double(*value),
        Bson::String(value) => RawBsonRef::String(value),
        Bson::Symbol(value) => RawBsonRef::Symbol(value),
        Bson::Boolean(value) => RawBsonRef::Boolean(*value),
        Bson::Null => RawBsonRef::Null,
        Bson::Int32(value) => RawBsonRef::Int32(*value),
        Bson::Int64(value) => RawBsonRef::Int64(*value),
        Bson::Timestamp(value) => RawBsonRef::Timestamp(*value),
        Bson::Binary(value) => RawBsonRef::from(value),
        Bson::ObjectId(value) => RawBsonRef::ObjectId(*value),
        Bson::DateTime(value) => RawBsonRef::DateTime(*value),
        Bson::Decimal128(value) => RawBsonRef::Decimal128(*value),
        Bson::JavaScriptCode(value) => RawBsonRef::JavaScriptCode(value),
        Bson::Undefined => RawBsonRef::Undefined,
        Bson::MinKey => RawBsonRef::MinKey,
        Bson::MaxKey => RawBsonRef::MaxKey,
        Bson::Document(value) => {
            let raw = RawDocumentBuf::try_from(value).expect("an owned document is valid BSON");
            return action(RawBsonRef::Document(&raw));
        }
        other => {
            let raw = bson::RawBson::try_from(other.clone()).expect("an owned value is valid BSON");
            return action(RawBsonRef::from(&raw));
        }
    };
    action(scalar)
}

/// The bytes of a value as they stand in a document, without type and name.
pub(crate) fn value_bytes(value: RawBsonRef<'_>) -> Vec<u8> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), value);
    let bytes = document.into_bytes();
    // Length (4), type, the name's terminator; the document's terminator.
    bytes[6..bytes.len() - 1].to_vec()
}
