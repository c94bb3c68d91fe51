//! The value an expression computes: a scalar or a piece of the document without a
//! copy, and owned only where an operator made something new.
//!
//! In: raw BSON borrowed from a document or from the expression's own constants. Out:
//! raw BSON again ([`Value::to_raw`]), or `Bson` for callers that want it. There is one
//! state BSON has not: [`Value::Missing`], the field that is not there.

use crate::error::{Code, Error, Result};
use crate::operation;
use crate::operation::memory::{self, Charged};
use crate::types::type_name;
use bson::raw::CStr;
use bson::{Bson, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// The fields of a document an operator built.
pub type Fields<'a> = Vec<(Cow<'a, str>, Value<'a>)>;
/// The levels of documents and arrays that a document may have, itself counted: MongoDB's
/// `BSONDepth::kDefaultMaxAllowableDepth`.
pub const LEVELS_MAX: usize = 200;
/// The levels that a value may have while an expression is computed. What walks through a value or drops it
/// recurses once a level, and an expression (which nests at most [`LEVELS_MAX`] deep itself) adds at most two
/// levels for each of its own to what its variables hold.
pub const VALUE_LEVELS_MAX: u32 = 500;

/// The bytes that a value may have as BSON while an expression is computed. Values share their parts, so a loop that
/// puts one into an array twice makes 2^n of them in the memory of n, and what walks through them would not come to
/// an end. (MongoDB has no such bound; it cannot store such values either, and comparing them takes it for ever.)
const VALUE_BSON_BYTES_MAX: u64 = 256 << 20;
/// The bytes of an element beside its name and its value.
const ELEMENT_BYTES: u64 = 2;
/// The bytes of a document beside its elements.
const DOCUMENT_BYTES: u64 = 5;

/// What an operator built, its memory counted as long as it lives, and how many levels of such values it has,
/// itself counted. (What is borrowed from a document is no level here: it has at most [`LEVELS_MAX`].)
#[derive(Debug)]
pub struct Built<T> {
    content: Charged<T>,
    levels: u32,
    /// What it takes as BSON at least; more than fits is the most that fits.
    bson_bytes: u32,
}

impl<T> Deref for Built<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

/// The items of an array.
pub type Items<'a> = Arc<Built<Vec<Value<'a>>>>;

/// What an expression evaluates to.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// The field is not there: not the same as null.
    Missing,
    /// A scalar, or something borrowed from the document or the expression.
    Raw(RawBsonRef<'a>),
    /// A scalar an operator made: a string, binary data, a regular expression and the like.
    Owned(Arc<Charged<RawBson>>),
    /// An array an operator built or took apart.
    Array(Items<'a>),
    /// A document an operator built or took apart.
    Document(Arc<Built<Fields<'a>>>),
}

impl<'a> Value<'a> {
    /// BSON null.
    pub const NULL: Value<'static> = Value::Raw(RawBsonRef::Null);

    /// A boolean.
    pub fn boolean(value: bool) -> Self {
        Value::Raw(RawBsonRef::Boolean(value))
    }

    /// A 32-bit integer.
    pub fn int32(value: i32) -> Self {
        Value::Raw(RawBsonRef::Int32(value))
    }

    /// A 64-bit integer.
    pub fn int64(value: i64) -> Self {
        Value::Raw(RawBsonRef::Int64(value))
    }

    /// A 32-bit integer where the value fits one, else a 64-bit one.
    pub fn int_or_long(value: i64) -> Self {
        i32::try_from(value).map_or(Value::int64(value), Value::int32)
    }

    /// A double.
    pub fn double(value: f64) -> Self {
        Value::Raw(RawBsonRef::Double(value))
    }

    /// A date from milliseconds since 1970.
    pub fn date(millis: i64) -> Self {
        Value::Raw(RawBsonRef::DateTime(bson::DateTime::from_millis(millis)))
    }

    /// An owned string.
    pub fn string(text: impl Into<Box<str>>) -> Self {
        Value::owned(RawBson::String(String::from(text.into())))
    }

    /// A scalar that owns its bytes; one of a fixed size is taken out. (An array or a document is built with
    /// [`Value::array`] and [`Value::document`], which count its levels.)
    pub fn owned(scalar: RawBson) -> Self {
        let raw = scalar.as_raw_bson_ref();
        match fixed_size(raw) {
            Some(raw) => Value::Raw(raw),
            None => {
                let bytes = VALUE_BYTES + size_of::<RawBson>() + raw_bson_bytes(raw);
                Value::Owned(Arc::new(Charged::new(scalar, bytes)))
            }
        }
    }

    /// The BSON of a value that has it ready: all but what is missing, and arrays and documents an operator built.
    #[inline]
    pub fn raw(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Value::Raw(raw) => Some(*raw),
            Value::Owned(raw) => Some(raw.as_raw_bson_ref()),
            Value::Missing | Value::Array(_) | Value::Document(_) => None,
        }
    }

    /// An owned array.
    pub fn array(items: Vec<Value<'a>>) -> Self {
        Value::Array(built_array(items))
    }

    /// An owned document.
    pub fn document(fields: Fields<'a>) -> Self {
        Value::Document(built_document(fields))
    }

    /// How much there is for an operator to go through, in items or words, roughly.
    #[inline]
    pub fn work(&self) -> usize {
        match self {
            Value::Missing => 1,
            Value::Raw(raw) => raw_work(*raw),
            Value::Owned(raw) => raw_work(raw.as_raw_bson_ref()),
            Value::Array(items) => 1 + items.len().max(items.bson_bytes as usize / WORD),
            Value::Document(fields) => 1 + fields.len().max(fields.bson_bytes as usize / WORD),
        }
    }

    /// The bytes of the value as BSON, or a few less.
    fn bson_bytes(&self) -> u64 {
        let bytes = match self {
            Value::Missing => 0,
            Value::Raw(raw) => raw_bson_bytes(*raw),
            Value::Owned(raw) => raw_bson_bytes(raw.as_raw_bson_ref()),
            Value::Array(items) => items.bson_bytes as usize,
            Value::Document(fields) => fields.bson_bytes as usize,
        };
        bytes as u64
    }

    /// How many levels of documents and arrays an operator built here.
    fn levels(&self) -> u32 {
        match self {
            Value::Array(items) => items.levels,
            Value::Document(fields) => fields.levels,
            Value::Missing | Value::Raw(_) | Value::Owned(_) => 0,
        }
    }

    /// Refuses a value of too many levels or bytes to go on with: loops and variables could make it grow without end.
    ///
    /// # Errors
    /// `Overflow` past `VALUE_LEVELS_MAX`, `ExceededMemoryLimit` past `VALUE_BSON_BYTES_MAX`.
    pub fn check_extent(&self) -> Result<()> {
        if self.levels() > VALUE_LEVELS_MAX {
            return Err(too_deep());
        }
        check_bson_bytes(self.bson_bytes())
    }

    /// Refuses a value that no document can hold.
    ///
    /// # Errors
    /// `Overflow` past `LEVELS_MAX`; 13548 past `BUFFER_BYTES_MAX`.
    pub fn check_for_document(&self) -> Result<()> {
        if self.levels() as usize > LEVELS_MAX {
            return Err(too_deep());
        }
        check_buffer(usize::try_from(self.bson_bytes()).unwrap_or(usize::MAX))
    }

    /// Whether the value is null, undefined or missing.
    pub fn is_nullish(&self) -> bool {
        matches!(
            self,
            Value::Missing | Value::Raw(RawBsonRef::Null | RawBsonRef::Undefined)
        )
    }

    /// Whether there is no value.
    pub fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }

    /// Whether the value is an array.
    pub fn is_array(&self) -> bool {
        matches!(self, Value::Array(_) | Value::Raw(RawBsonRef::Array(_)))
    }

    /// Whether the value is a document.
    pub fn is_document(&self) -> bool {
        matches!(
            self,
            Value::Document(_) | Value::Raw(RawBsonRef::Document(_))
        )
    }

    /// Whether the value is one of the four numeric types.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Value::Raw(
                RawBsonRef::Int32(_)
                    | RawBsonRef::Int64(_)
                    | RawBsonRef::Double(_)
                    | RawBsonRef::Decimal128(_)
            )
        )
    }

    /// The text, where the value is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self.raw() {
            Some(RawBsonRef::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Truth as MongoDB's expressions see it: null, missing, undefined, false and zero
    /// are false; everything else is true.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Missing => false,
            Value::Raw(raw) => match raw {
                RawBsonRef::Null | RawBsonRef::Undefined => false,
                RawBsonRef::Boolean(value) => *value,
                RawBsonRef::Int32(value) => *value != 0,
                RawBsonRef::Int64(value) => *value != 0,
                RawBsonRef::Double(value) => *value != 0.0,
                RawBsonRef::Decimal128(_) => {
                    meridian_value::compare(*raw, RawBsonRef::Int32(0)) != Ordering::Equal
                }
                _ => true,
            },
            Value::Owned(_) | Value::Array(_) | Value::Document(_) => true,
        }
    }

    /// The items of an array, or nothing where the value is not one.
    pub fn items(&self) -> Result<Option<Items<'a>>> {
        match self {
            Value::Array(items) => Ok(Some(Arc::clone(items))),
            Value::Raw(RawBsonRef::Array(array)) => Ok(Some(built_array(raw_items(array)?))),
            _ => Ok(None),
        }
    }

    /// The fields of a document, or nothing where the value is not one.
    pub fn fields(&self) -> Result<Option<Arc<Built<Fields<'a>>>>> {
        match self {
            Value::Document(fields) => Ok(Some(Arc::clone(fields))),
            Value::Raw(RawBsonRef::Document(document)) => {
                Ok(Some(built_document(raw_fields(document)?)))
            }
            _ => Ok(None),
        }
    }

    /// One field of a document; missing where there is none.
    pub fn field(&self, name: &str) -> Result<Value<'a>> {
        match self {
            Value::Raw(RawBsonRef::Document(document)) => raw_field(document, name),
            Value::Document(fields) => Ok(fields
                .iter()
                .find(|(key, _)| key == name)
                .map_or(Value::Missing, |(_, value)| value.clone())),
            _ => Ok(Value::Missing),
        }
    }

    /// MongoDB's name of the value's type (`"missing"` for none), as `$type` gives it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Missing => "missing",
            Value::Raw(raw) => type_name(raw.element_type()),
            Value::Owned(raw) => type_name(raw.element_type()),
            Value::Array(_) => "array",
            Value::Document(_) => "object",
        }
    }

    /// The value as raw BSON that owns its bytes; none where it is missing.
    pub fn to_raw(&self) -> Result<Option<RawBson>> {
        self.check_for_document()?;
        Ok(Some(match self {
            Value::Missing => return Ok(None),
            Value::Raw(raw) => RawBson::from(*raw),
            Value::Owned(raw) => RawBson::clone(raw),
            Value::Array(items) => RawBson::Array(build_array(items)?),
            Value::Document(fields) => RawBson::Document(build_document(fields)?),
        }))
    }

    /// The value as a `Bson` tree; none where it is missing.
    pub fn to_bson(&self) -> Result<Option<Bson>> {
        self.to_raw()?
            .map(|raw| Bson::try_from(raw).map_err(corrupt))
            .transpose()
    }

    /// Appends the value under a key; a missing value appends nothing.
    pub fn append_to(&self, key: &str, out: &mut RawDocumentBuf) -> Result<()> {
        let key = field_name(key)?;
        self.check_for_document()?;
        match self {
            Value::Missing => {}
            Value::Raw(raw) => out.append(key, *raw),
            Value::Owned(raw) => out.append(key, raw.as_raw_bson_ref()),
            Value::Array(items) => out.append(key, build_array(items)?),
            Value::Document(fields) => out.append(key, build_document(fields)?),
        }
        check_built(out.as_bytes().len())
    }

    /// Bytes the value takes in memory, roughly: what memory limits count.
    pub fn size_bytes(&self) -> usize {
        match self {
            Value::Missing => 0,
            Value::Raw(raw) => raw_size_bytes(*raw),
            Value::Owned(raw) => raw_size_bytes(raw.as_raw_bson_ref()),
            Value::Array(items) => {
                16 + items
                    .iter()
                    .map(|item| 16 + item.size_bytes())
                    .sum::<usize>()
            }
            Value::Document(fields) => {
                16 + fields
                    .iter()
                    .map(|(key, value)| 32 + key.len() + value.size_bytes())
                    .sum::<usize>()
            }
        }
    }
}

/// Refuses to go through so many words, as [`Value::work`] counts them.
///
/// # Errors
/// `ExceededMemoryLimit` past `VALUE_BSON_BYTES_MAX`.
pub fn check_work(work: usize) -> Result<()> {
    check_bson_bytes((work as u64).saturating_mul(WORD as u64))
}

fn check_bson_bytes(bytes: u64) -> Result<()> {
    if bytes <= VALUE_BSON_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        Code::ExceededMemoryLimit,
        format!(
            "a value of an expression would take {bytes} bytes or more as BSON; its limit is {VALUE_BSON_BYTES_MAX} bytes"
        ),
    ))
}

/// What an operator goes through at once, in bytes.
const WORD: usize = 8;

fn raw_work(raw: RawBsonRef<'_>) -> usize {
    let bytes = match raw {
        RawBsonRef::String(text) => text.len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Binary(binary) => binary.bytes.len(),
        _ => 0,
    };
    1 + bytes / WORD
}

/// The value, where it has no bytes of its own that it would have to borrow.
pub fn fixed_size(raw: RawBsonRef<'_>) -> Option<RawBsonRef<'static>> {
    Some(match raw {
        RawBsonRef::Double(value) => RawBsonRef::Double(value),
        RawBsonRef::Int32(value) => RawBsonRef::Int32(value),
        RawBsonRef::Int64(value) => RawBsonRef::Int64(value),
        RawBsonRef::Boolean(value) => RawBsonRef::Boolean(value),
        RawBsonRef::DateTime(value) => RawBsonRef::DateTime(value),
        RawBsonRef::Timestamp(value) => RawBsonRef::Timestamp(value),
        RawBsonRef::Decimal128(value) => RawBsonRef::Decimal128(value),
        RawBsonRef::ObjectId(value) => RawBsonRef::ObjectId(value),
        RawBsonRef::Null => RawBsonRef::Null,
        RawBsonRef::Undefined => RawBsonRef::Undefined,
        RawBsonRef::MinKey => RawBsonRef::MinKey,
        RawBsonRef::MaxKey => RawBsonRef::MaxKey,
        _ => return None,
    })
}

/// The bytes of a raw value, without its type and name.
fn raw_bson_bytes(raw: RawBsonRef<'_>) -> usize {
    match raw {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            DOCUMENT_BYTES as usize + text.len()
        }
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::Binary(binary) => DOCUMENT_BYTES as usize + binary.bytes.len(),
        RawBsonRef::RegularExpression(regex) => regex.pattern.len() + regex.options.len(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len(),
        RawBsonRef::Int32(_) => 4,
        RawBsonRef::Double(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Timestamp(_) => 8,
        RawBsonRef::ObjectId(_) => 12,
        RawBsonRef::Decimal128(_) => 16,
        RawBsonRef::Boolean(_) => 1,
        _ => 0,
    }
}

impl<'a> From<RawBsonRef<'a>> for Value<'a> {
    fn from(raw: RawBsonRef<'a>) -> Self {
        Value::Raw(raw)
    }
}

/// Bytes a raw value takes in memory, roughly.
pub fn raw_size_bytes(raw: RawBsonRef<'_>) -> usize {
    16 + match raw {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            text.len()
        }
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::Binary(binary) => binary.bytes.len(),
        RawBsonRef::RegularExpression(regex) => regex.pattern.len() + regex.options.len(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len(),
        _ => 8,
    }
}

/// MongoDB's order of two values; missing sorts with undefined, before null.
pub fn compare(left: &Value<'_>, right: &Value<'_>, collation: &Collation) -> Ordering {
    if let (Some(left), Some(right)) = (left.raw(), right.raw()) {
        return match (left, right) {
            (RawBsonRef::Int32(a), RawBsonRef::Int32(b)) => a.cmp(&b),
            (RawBsonRef::DateTime(a), RawBsonRef::DateTime(b)) => a.cmp(&b),
            (RawBsonRef::String(a), RawBsonRef::String(b)) => collation.compare_text(a, b),
            (RawBsonRef::Double(a), RawBsonRef::Double(b)) if !a.is_nan() && !b.is_nan() => {
                a.partial_cmp(&b).unwrap_or(Ordering::Equal)
            }
            _ => collation.compare(left, right),
        };
    }
    bracket(left)
        .cmp(&bracket(right))
        .then_with(|| compare_same_bracket(left, right, collation))
}

fn compare_same_bracket(left: &Value<'_>, right: &Value<'_>, collation: &Collation) -> Ordering {
    match (left, right) {
        (Value::Array(a), Value::Array(b)) if Arc::ptr_eq(a, b) => return Ordering::Equal,
        (Value::Document(a), Value::Document(b)) if Arc::ptr_eq(a, b) => return Ordering::Equal,
        _ => {}
    }
    // Taking apart what was read once already cannot fail; if it does, the bytes are
    // corrupt and the order does not matter.
    if let (Ok(Some(a)), Ok(Some(b))) = (left.items(), right.items()) {
        return compare_items(&a, &b, collation);
    }
    if let (Ok(Some(a)), Ok(Some(b))) = (left.fields(), right.fields()) {
        return compare_fields(&a, &b, collation);
    }
    Ordering::Equal
}

fn compare_items(left: &[Value<'_>], right: &[Value<'_>], collation: &Collation) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(a, b)| compare(a, b, collation))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_fields(left: &Fields<'_>, right: &Fields<'_>, collation: &Collation) -> Ordering {
    let present = |fields: &Fields<'_>| {
        fields
            .iter()
            .filter(|(_, value)| !value.is_missing())
            .count()
    };
    let left_fields = left.iter().filter(|(_, value)| !value.is_missing());
    let right_fields = right.iter().filter(|(_, value)| !value.is_missing());
    for ((left_key, left_value), (right_key, right_value)) in left_fields.zip(right_fields) {
        let order = bracket(left_value)
            .cmp(&bracket(right_value))
            .then_with(|| left_key.cmp(right_key))
            .then_with(|| compare(left_value, right_value, collation));
        if order.is_ne() {
            return order;
        }
    }
    present(left).cmp(&present(right))
}

fn bracket(value: &Value<'_>) -> u8 {
    match value {
        Value::Missing => meridian_value::canonical_type(RawBsonRef::Undefined),
        Value::Raw(raw) => meridian_value::canonical_type(*raw),
        Value::Owned(raw) => meridian_value::canonical_type(raw.as_raw_bson_ref()),
        Value::Array(_) => meridian_value::canonical_type(RawBsonRef::Array(empty_array())),
        Value::Document(_) => {
            meridian_value::canonical_type(RawBsonRef::Document(empty_document()))
        }
    }
}

/// One field of a raw document; missing where there is none.
///
/// # Errors
/// Those of a statement that has to end; that of a value its type does not allow.
#[inline]
pub fn raw_field<'a>(document: &'a RawDocument, name: &str) -> Result<Value<'a>> {
    operation::check_walk(document)?;
    match meridian_value::field::find(document, name.as_bytes()) {
        None => Ok(Value::Missing),
        Some(field) => raw_value(&field),
    }
}

/// The value of a field found by a walk.
#[inline]
pub fn raw_value<'a>(field: &meridian_value::field::Field<'a>) -> Result<Value<'a>> {
    field
        .value()
        .map(Value::Raw)
        .ok_or_else(|| corrupt("a value its type does not allow"))
}

fn empty_document() -> &'static RawDocument {
    RawDocument::from_bytes(&[5, 0, 0, 0, 0]).expect("the five bytes of an empty document")
}

fn empty_array() -> &'static RawArray {
    static EMPTY: std::sync::OnceLock<RawArrayBuf> = std::sync::OnceLock::new();
    EMPTY.get_or_init(RawArrayBuf::new)
}

fn raw_items<'a>(array: &'a RawArray) -> Result<Vec<Value<'a>>> {
    array
        .into_iter()
        .map(|item| item.map(Value::Raw).map_err(corrupt))
        .collect()
}

fn raw_fields<'a>(document: &'a RawDocument) -> Result<Fields<'a>> {
    document
        .iter()
        .map(|entry| {
            let (key, value) = entry.map_err(corrupt)?;
            Ok((Cow::Borrowed(key.as_str()), Value::Raw(value)))
        })
        .collect()
}

/// What an item, or the allocation behind a value, takes beside its content.
const VALUE_BYTES: usize = 48;

/// The memory of so many items.
pub const fn items_bytes(items: usize) -> usize {
    VALUE_BYTES + items.saturating_mul(size_of::<Value<'static>>())
}

fn built_array(items: Vec<Value<'_>>) -> Items<'_> {
    let (mut below, mut bson_bytes) = (0, DOCUMENT_BYTES);
    for item in &items {
        below = below.max(item.levels());
        // A name has a digit at least.
        bson_bytes += ELEMENT_BYTES + 1 + item.bson_bytes();
    }
    let bytes = items_bytes(items.capacity());
    Arc::new(Built {
        content: Charged::new(items, bytes),
        levels: below.saturating_add(1),
        bson_bytes: u32::try_from(bson_bytes).unwrap_or(u32::MAX),
    })
}

fn built_document(fields: Fields<'_>) -> Arc<Built<Fields<'_>>> {
    let (mut below, mut bson_bytes) = (0, DOCUMENT_BYTES);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_missing()) {
        below = below.max(value.levels());
        bson_bytes += ELEMENT_BYTES + name.len() as u64 + value.bson_bytes();
    }
    let bytes = VALUE_BYTES + fields.capacity() * size_of::<(Cow<'static, str>, Value<'static>)>();
    Arc::new(Built {
        content: Charged::new(fields, bytes),
        levels: below.saturating_add(1),
        bson_bytes: u32::try_from(bson_bytes).unwrap_or(u32::MAX),
    })
}

/// The document, if it is not too deep for BSON.
///
/// # Errors
/// `Overflow` past [`LEVELS_MAX`].
pub fn within_levels(document: RawDocumentBuf) -> Result<RawDocumentBuf> {
    if meridian_value::is_deeper(&document, LEVELS_MAX) {
        return Err(too_deep());
    }
    Ok(document)
}

fn too_deep() -> Error {
    Error::new(
        Code::Overflow,
        format!(
            "cannot convert document to BSON because it exceeds the limit of {LEVELS_MAX} levels of nesting"
        ),
    )
}

/// What MongoDB's buffers may grow to.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;
/// Built bytes are counted against the memory of expressions from here on.
const BUILT_BYTES_COUNTED: usize = 1 << 20;

/// Refuses to build more bytes than [`BUFFER_BYTES_MAX`], or than there is memory for. Values share their parts, so
/// that a small one can stand for any number of bytes.
///
/// # Errors
/// 13548 and `ExceededMemoryLimit`.
#[inline]
pub fn check_built(bytes: usize) -> Result<()> {
    if bytes <= BUILT_BYTES_COUNTED {
        return Ok(());
    }
    check_buffer(bytes)?;
    memory::expect_values(bytes)
}

/// Refuses a buffer of more than [`BUFFER_BYTES_MAX`].
///
/// # Errors
/// 13548 with MongoDB's message.
pub fn check_buffer(bytes: usize) -> Result<()> {
    if bytes <= BUFFER_BYTES_MAX {
        return Ok(());
    }
    Err(Error::location(
        13548,
        format!("BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit."),
    ))
}

/// The bytes of an array; a missing item becomes null, as in MongoDB.
pub fn build_array(items: &[Value<'_>]) -> Result<RawArrayBuf> {
    let mut out = RawArrayBuf::new();
    for item in items {
        match item {
            Value::Missing => out.push(RawBsonRef::Null),
            Value::Raw(raw) => out.push(*raw),
            Value::Owned(raw) => out.push(raw.as_raw_bson_ref()),
            Value::Array(items) => out.push(build_array(items)?),
            Value::Document(fields) => out.push(build_document(fields)?),
        }
        check_built(out.as_bytes().len())?;
    }
    Ok(out)
}

/// The bytes of a document; missing fields are left out.
pub fn build_document(fields: &Fields<'_>) -> Result<RawDocumentBuf> {
    let mut out = RawDocumentBuf::new();
    for (key, value) in fields {
        value.append_to(key, &mut out)?;
    }
    Ok(out)
}

/// A key as BSON wants it.
///
/// # Errors
/// `BadValue` where it holds a null byte.
pub fn field_name(key: &str) -> Result<&CStr> {
    key.try_into()
        .map_err(|_| Error::bad_value("a field name cannot contain a null byte"))
}

/// The error for bytes that are no BSON: they passed validation on the way in.
pub fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::new(Code::InvalidBSON, format!("corrupt BSON: {error}"))
}
