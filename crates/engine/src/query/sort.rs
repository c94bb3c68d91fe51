//! The order of `sort`, `$sort` and of every other place that orders documents.
//!
//! In: `{ a: 1, "b.c": -1 }`. Out: for a document, bytes whose `memcmp` order is MongoDB's. An
//! array stands for its least element where the order ascends and its greatest where it
//! descends; fields below one array are taken from the same element (`SortKeyGenerator` of
//! MongoDB 6.0, which sorts by the best of the keys an index would hold).

use super::filter::Measure;
use super::parse::elements;
use crate::error::{Code, Error, Result};
use crate::expression::{MetadataScope, VariableScope};
use crate::text::{document_text, element};
use bson::raw::RawBsonRef;
use bson::{RawArray, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use meridian_value::Collation;
use meridian_value::field;
use meridian_value::key::{Direction, TypeBits};
use meridian_value::number::Number;
use meridian_value::path::Path;

/// MongoDB's limit on the fields of a sort.
const FIELDS_MAX: usize = 32;

/// A sort order.
#[derive(Debug, Clone)]
pub struct Sort {
    fields: Vec<SortField>,
    natural: Option<Direction>,
    /// By what texts are ordered.
    collation: Collation,
    /// What a `find` measures distances by.
    measure: Option<Measure>,
}

/// One path of a sort order.
#[derive(Debug, Clone)]
pub struct SortField {
    /// What to order by.
    pub path: Path,
    /// Which way.
    pub direction: Direction,
    /// Whether it is the distance that orders (`$meta`), farthest first; the path is just a name then.
    pub by_metadata: bool,
}

impl Sort {
    /// Parses a sort document. An empty one sorts nothing.
    ///
    /// # Errors
    /// 15974 and 15975 for what is no direction, 13103 past 32 fields, the errors of field
    /// paths, and those of `$meta`, which is refused here.
    ///
    /// ```
    /// use meridian_engine::query::Sort;
    /// let sort = Sort::parse(&bson::rawdoc! { "a": -1 }).unwrap();
    /// let (one, two) = (bson::rawdoc! { "a": 1 }, bson::rawdoc! { "a": [0, 2] });
    /// assert!(sort.key(&two).unwrap() < sort.key(&one).unwrap());
    /// ```
    pub fn parse(order: &RawDocument) -> Result<Self> {
        Self::parse_with(order, &VariableScope::default())
    }

    /// Parses the sort document of a query with its metadata and its collation.
    ///
    /// # Errors
    /// As [`Sort::parse`]; 40218 where `$meta` asks for what the query does not have.
    pub fn parse_with(order: &RawDocument, scope: &VariableScope) -> Result<Self> {
        let entries = elements(order)?;
        let mut sort = Self {
            fields: Vec::with_capacity(entries.len()),
            natural: None,
            collation: scope.collation().clone(),
            measure: None,
        };
        for (name, value) in &entries {
            if *name == "$natural" {
                if entries.len() > 1 {
                    return Err(Error::bad_value(format!(
                        "Cannot include '$natural' in compound sort: {}",
                        document_text(order)
                    )));
                }
                sort.natural = Some(natural_direction(*value)?);
                return Ok(sort);
            }
            if is_random(*value) && scope.metadata().is_of_query() {
                // All documents of a find are without it, and so equal.
                continue;
            }
            let by_metadata = matches!(value, RawBsonRef::Document(_));
            let direction = match value {
                RawBsonRef::Document(operand) => meta(operand, scope.metadata())?,
                _ => direction(name, *value)?,
            };
            if !by_metadata {
                crate::expression::parse_field_path(name)?;
            }
            sort.fields.push(SortField {
                path: Path::parse(name),
                direction,
                by_metadata,
            });
        }
        if sort.fields.len() > FIELDS_MAX {
            return Err(Error::location(13103, "too many compound keys"));
        }
        Ok(sort)
    }

    /// The paths and directions; empty for `$natural` and for no order at all.
    pub fn fields(&self) -> &[SortField] {
        &self.fields
    }

    /// By what texts are ordered.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The direction of `{ $natural: 1 }`.
    pub fn natural(&self) -> Option<Direction> {
        self.natural
    }

    /// Whether the distance has a say.
    pub fn is_by_metadata(&self) -> bool {
        self.fields.iter().any(|field| field.by_metadata)
    }

    /// Whether it is the order of the scores of a `$text` and nothing else.
    pub fn is_by_score(&self) -> bool {
        let by_text = matches!(self.measure, Some(Measure::Text(_)));
        by_text
            && matches!(
                self.fields[..],
                [SortField {
                    by_metadata: true,
                    ..
                }]
            )
    }

    /// The same order, told how far documents are, or how well they match.
    #[must_use]
    pub fn measured_by(mut self, measure: Option<&Measure>) -> Self {
        self.measure = measure.filter(|_| self.is_by_metadata()).cloned();
        self
    }

    /// Whether no order is asked for.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.natural.is_none()
    }

    /// The order as a document, for `explain`.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        let sign = |direction| {
            if direction == Direction::Ascending {
                1
            } else {
                -1
            }
        };
        if let Some(direction) = self.natural {
            document.append(bson::raw::cstr!("$natural"), sign(direction));
        }
        for field in &self.fields {
            let name = field.path.as_str();
            if field.by_metadata {
                let part = match &self.measure {
                    Some(Measure::Text(_)) => "textScore",
                    _ => "geoNearDistance",
                };
                super::append(&mut document, name, rawdoc! { "$meta": part });
            } else {
                super::append(&mut document, name, sign(field.direction));
            }
        }
        document
    }

    /// The bytes that order a document.
    ///
    /// # Errors
    /// `BadValue` when two paths lead through different arrays.
    pub fn key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        let rank = self.measure.as_ref().map(|measure| measure.rank(document));
        self.key_at(document, rank.flatten())
    }

    /// The bytes that order a document at a distance, or of a score.
    ///
    /// # Errors
    /// As [`Sort::key`].
    pub fn key_at(&self, document: &RawDocument, rank: Option<f64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(16 * self.fields.len());
        let mut types = TypeBits::new();
        let rank = rank.map_or(RawBsonRef::Null, RawBsonRef::Double);
        for field in &self.fields {
            let value = if field.by_metadata {
                Some(rank)
            } else {
                scalar(document, &field.path)
            };
            match value {
                Some(value) => {
                    self.collation
                        .encode(value, field.direction, &mut bytes, &mut types)
                }
                None => return self.array_key(document, rank),
            }
            types.clear();
        }
        Ok(bytes)
    }

    /// Where each field is looked for. As in MongoDB, `_id` alone is compared whole, as if it could not be an array.
    fn slots<'d>(
        &'d self,
        document: &'d RawDocument,
        rank: RawBsonRef<'d>,
    ) -> impl Iterator<Item = PathSlot<'d>> {
        let is_by_id = matches!(&self.fields[..], [only] if only.path.as_str() == "_id");
        self.fields
            .iter()
            .map(move |field| match field.by_metadata {
                true => PathSlot::Value(rank),
                false if is_by_id => {
                    let id = field::find(document, b"_id").and_then(|entry| entry.value());
                    PathSlot::Value(id.unwrap_or(RawBsonRef::Null))
                }
                false => PathSlot::Open(document, field.path.parts()),
            })
    }

    /// The least of the keys that the arrays on the way give rise to.
    fn array_key(&self, document: &RawDocument, rank: RawBsonRef<'_>) -> Result<Vec<u8>> {
        let slots = self.slots(document, rank);
        let mut best = BestKey::default();
        self.expand(slots.collect(), &mut best)?;
        Ok(best.bytes.expect("an expansion ends in at least one key"))
    }

    /// The values by which a document is sorted, one for each field: what `$meta: "sortKey"` is.
    ///
    /// # Errors
    /// As [`Sort::key`]; `NotImplemented` by a collation, whose keys MongoDB shows in place of texts.
    pub fn values(&self, document: &RawDocument) -> Result<RawArrayBuf> {
        if !self.collation.is_simple() {
            return Err(Error::not_implemented(
                "{ $meta: \"sortKey\" } with a collation",
            ));
        }
        let rank = self.measure.as_ref().and_then(|own| own.rank(document));
        let rank = rank.map_or(RawBsonRef::Null, RawBsonRef::Double);
        let slots = self.slots(document, rank);
        let mut best = BestKey {
            values: Some(RawArrayBuf::new()),
            ..BestKey::default()
        };
        self.expand(slots.collect(), &mut best)?;
        Ok(best.values.unwrap_or_default())
    }

    fn expand(&self, mut slots: Vec<PathSlot<'_>>, best: &mut BestKey) -> Result<()> {
        for slot in &mut slots {
            slot.advance()?;
        }
        let arrays: Vec<&RawArray> = slots.iter().filter_map(PathSlot::array).collect();
        let Some(&shared) = arrays.first() else {
            self.offer(&slots, best);
            return Ok(());
        };
        if arrays
            .iter()
            .any(|array| !std::ptr::eq(array.as_bytes(), shared.as_bytes()))
        {
            return Err(Error::bad_value(
                "cannot sort with keys that are parallel arrays",
            ));
        }
        let mut is_empty = true;
        for item in shared.into_iter().flatten() {
            is_empty = false;
            self.expand(
                slots.iter().map(|slot| slot.with_item(item)).collect(),
                best,
            )?;
        }
        if is_empty {
            // An empty array sorts as undefined: before null.
            let item = RawBsonRef::Undefined;
            self.expand(
                slots.iter().map(|slot| slot.with_item(item)).collect(),
                best,
            )?;
        }
        Ok(())
    }

    fn offer(&self, slots: &[PathSlot<'_>], best: &mut BestKey) {
        let mut bytes = Vec::new();
        let mut types = TypeBits::new();
        for (slot, field) in slots.iter().zip(&self.fields) {
            self.collation
                .encode(slot.value(), field.direction, &mut bytes, &mut types);
        }
        if best.bytes.as_ref().is_none_or(|known| bytes < *known) {
            best.bytes = Some(bytes);
            if let Some(values) = &mut best.values {
                *values = slots.iter().map(PathSlot::value).collect();
            }
        }
    }
}

/// The least of several keys.
#[derive(Default)]
struct BestKey {
    bytes: Option<Vec<u8>>,
    /// What it is made of, where that is asked for.
    values: Option<RawArrayBuf>,
}

/// How far one path has been followed.
#[derive(Clone, Copy)]
enum PathSlot<'a> {
    /// These parts are still to be followed from this document.
    Open(&'a RawDocument, &'a [Box<str>]),
    /// The path met an array with these parts left.
    Array(&'a RawArray, &'a [Box<str>]),
    /// The path ended.
    Value(RawBsonRef<'a>),
}

impl<'a> PathSlot<'a> {
    fn advance(&mut self) -> Result<()> {
        while let PathSlot::Open(document, parts) = *self {
            let (part, rest) = parts.split_first().expect("an open slot has parts left");
            let found = field::find(document, part.as_bytes()).and_then(|entry| entry.value());
            *self = Self::at(found, rest)?;
        }
        Ok(())
    }

    fn at(found: Option<RawBsonRef<'a>>, rest: &'a [Box<str>]) -> Result<Self> {
        Ok(match found {
            Some(RawBsonRef::Array(array)) => match positional(array, rest)? {
                Some((item, rest)) => Self::at(Some(item), rest)?,
                None => PathSlot::Array(array, rest),
            },
            Some(value) if rest.is_empty() => PathSlot::Value(value),
            Some(RawBsonRef::Document(document)) => PathSlot::Open(document, rest),
            _ => PathSlot::Value(RawBsonRef::Null),
        })
    }

    fn array(&self) -> Option<&'a RawArray> {
        match self {
            PathSlot::Array(array, _) => Some(array),
            _ => None,
        }
    }

    /// The slot with one element in place of the array; an array within the array stays whole.
    fn with_item(&self, item: RawBsonRef<'a>) -> Self {
        match *self {
            PathSlot::Array(_, []) => PathSlot::Value(item),
            PathSlot::Array(_, rest) => match item {
                RawBsonRef::Document(document) => PathSlot::Open(document, rest),
                _ => PathSlot::Value(RawBsonRef::Null),
            },
            other => other,
        }
    }

    fn value(&self) -> RawBsonRef<'a> {
        match self {
            PathSlot::Value(value) => *value,
            _ => RawBsonRef::Null,
        }
    }
}

/// An element that a path names by its position, and the parts of the path behind it.
type Positioned<'a> = (RawBsonRef<'a>, &'a [Box<str>]);

/// `a.0.b` over an array `a`: the element at that position.
///
/// # Errors
/// 16746 when a document in the array has a field of that name too.
fn positional<'a>(array: &'a RawArray, rest: &'a [Box<str>]) -> Result<Option<Positioned<'a>>> {
    let Some((first, rest)) = rest.split_first() else {
        return Ok(None);
    };
    let digits = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let position = if digits { first.parse().ok() } else { None };
    let item = position.and_then(|position| array.get(position).ok().flatten());
    let Some(item) = item else { return Ok(None) };
    let is_field_too = array.into_iter().flatten().any(|item| match item {
        RawBsonRef::Document(document) => field::find(document, first.as_bytes()).is_some(),
        _ => false,
    });
    if is_field_too {
        let shown = RawDocument::from_bytes(array.as_bytes())
            .map(document_text)
            .unwrap_or_default();
        return Err(Error::location(
            16746,
            format!(
                "Ambiguous field name found in array (do not use numeric field names in embedded \
                 elements in an array), field: '{first}' for array: {shown}"
            ),
        ));
    }
    Ok(Some((item, rest)))
}

/// What the path reaches when no array lies on it or at its end; null when it is missing.
#[inline]
fn scalar<'a>(document: &'a RawDocument, path: &Path) -> Option<RawBsonRef<'a>> {
    let mut document = document;
    let mut parts = path.parts().iter();
    let mut part = parts.next()?;
    loop {
        let found = field::find(document, part.as_bytes()).and_then(|entry| entry.value());
        match (found, parts.next()) {
            (Some(RawBsonRef::Array(_)), _) => return None,
            (value, None) => return Some(value.unwrap_or(RawBsonRef::Null)),
            (Some(RawBsonRef::Document(inner)), Some(next)) => {
                document = inner;
                part = next;
            }
            (_, Some(_)) => return Some(RawBsonRef::Null),
        }
    }
}

fn direction(name: &str, value: RawBsonRef<'_>) -> Result<Direction> {
    let Some(number) = Number::from_raw(value) else {
        return Err(Error::location(
            15974,
            format!(
                "Illegal key in $sort specification: {}",
                element(name, value)
            ),
        ));
    };
    match number.to_i64_rounded() {
        Some(1) => Ok(Direction::Ascending),
        Some(-1) => Ok(Direction::Descending),
        _ => Err(Error::location(
            15975,
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )),
    }
}

/// Whether it is `{$meta: "randVal"}`.
fn is_random(value: RawBsonRef<'_>) -> bool {
    let RawBsonRef::Document(operand) = value else {
        return false;
    };
    meridian_value::compare_documents(operand, &rawdoc! { "$meta": "randVal" }).is_eq()
}

/// The direction of `{$meta: "geoNearDistance"}`, the only metadata that orders.
fn meta(operand: &RawDocument, metadata: MetadataScope) -> Result<Direction> {
    let Ok(Some(part)) = operand.get("$meta") else {
        return Err(Error::location(
            17312,
            "$meta is the only expression supported by $sort right now",
        ));
    };
    if operand.iter().count() > 1 {
        return Err(Error::new(
            Code::FailedToParse,
            "Cannot have additional keys in a $meta sort specification",
        ));
    }
    match part {
        RawBsonRef::String(name @ ("searchScore" | "searchHighlights")) => {
            let code = if name == "searchScore" { 31218 } else { 31219 };
            let message = format!("$meta sort by '{name}' metadata is not supported");
            Err(Error::location(code, message))
        }
        RawBsonRef::String("geoNearDistance" | "textScore" | "randVal") => {
            metadata.part(part).map(|_| Direction::Descending)
        }
        other => Err(Error::location(
            31138,
            format!("Illegal $meta sort: {}", element("$meta", other)),
        )),
    }
}

fn natural_direction(value: RawBsonRef<'_>) -> Result<Direction> {
    match Number::from_raw(value) {
        Some(number) if number.is_negative() => Ok(Direction::Descending),
        Some(_) => Ok(Direction::Ascending),
        None => Err(Error::location(
            15974,
            format!(
                "Illegal key in $sort specification: {}",
                element("$natural", value)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(order: RawDocumentBuf, documents: Vec<RawDocumentBuf>) -> Vec<i32> {
        let sort = Sort::parse(&order).unwrap();
        let mut keyed: Vec<_> = documents
            .iter()
            .map(|document| {
                (
                    sort.key(document).unwrap(),
                    document.get_i32("_id").unwrap(),
                )
            })
            .collect();
        keyed.sort();
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn arrays_sort_by_their_best_element() {
        let documents = vec![
            rawdoc! { "_id": 1, "a": [3, 9] },
            rawdoc! { "_id": 2, "a": 5 },
            rawdoc! { "_id": 3, "a": [] },
            rawdoc! { "_id": 4 },
            rawdoc! { "_id": 5, "a": "x" },
        ];
        assert_eq!(
            sorted(rawdoc! { "a": 1 }, documents.clone()),
            [3, 4, 1, 2, 5]
        );
        assert_eq!(sorted(rawdoc! { "a": -1 }, documents), [5, 1, 2, 4, 3]);
    }

    #[test]
    fn fields_below_one_array_come_from_one_element() {
        let documents = vec![
            rawdoc! { "_id": 1, "a": [{ "b": 1, "c": 9 }, { "b": 2, "c": 1 }] },
            rawdoc! { "_id": 2, "a": [{ "b": 1, "c": 5 }] },
        ];
        assert_eq!(sorted(rawdoc! { "a.b": 1, "a.c": 1 }, documents), [2, 1]);
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let sort = Sort::parse(&rawdoc! { "a": 1, "b": 1 }).unwrap();
        let error = sort.key(&rawdoc! { "a": [1], "b": [1] }).unwrap_err();
        assert!(
            error
                .message
                .ends_with("cannot sort with keys that are parallel arrays")
        );
    }

    #[test]
    fn bad_orders_have_mongodbs_codes() {
        for (order, code) in [
            (rawdoc! { "a": 2 }, 15975),
            (rawdoc! { "a": "x" }, 15974),
            (rawdoc! { "a": { "$meta": "foo" } }, 31138),
            (rawdoc! { "a": {} }, 17312),
            (rawdoc! { "": 1 }, 40352),
            (rawdoc! { "a.": 1 }, 40353),
            (rawdoc! { "a..b": 1 }, 15998),
            (rawdoc! { "$a": 1 }, 16410),
            (rawdoc! { "$natural": 1, "a": 1 }, 2),
        ] {
            assert_eq!(
                Sort::parse(&order).unwrap_err().code.number(),
                code,
                "{order:?}"
            );
        }
    }
}
