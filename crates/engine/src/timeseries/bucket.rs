//! Buckets: measurements with equal metadata, by columns, with the least and the greatest value of each.
//!
//! ```text
//! { _id: ObjectId of its start,
//!   control: { version: 1, min: { at: start, value: 3 }, max: { at: .., value: 7 } },
//!   meta: "sensor 5",
//!   data: { at: { "0": .., "1": .. }, value: { "0": 3, "1": 7 } } }
//! ```
//!
//! This is MongoDB's layout of buckets that are not compressed. The start is the first measurement's time, rounded
//! down. Of documents and arrays the extremes are those of their parts.

use super::Timeseries;
use super::columns::compressed_times;
use super::compress::version_of;
use super::summary::Control;
use super::unpack::TimeRange;
use crate::error::{Error, Result, malformed};
use ahash::AHashMap;
use bson::oid::ObjectId;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use bson::{DateTime, rawdoc};
use meridian_value::field::{self, Field};
use meridian_value::{DocumentBuilder, canonical_type, compare};
use smallvec::SmallVec;
use std::sync::Arc;

/// Measurements of a bucket, at most: MongoDB's `timeseriesBucketMaxCount`.
pub const BUCKET_ROWS_MAX: usize = 1_000;
/// A bucket of this many bytes takes no further measurement (`timeseriesBucketMaxSize`), ...
pub const BUCKET_BYTES_MAX: usize = 125 * 1024;
/// ... unless it has fewer than this many (`timeseriesBucketMinCount`) ...
const LARGE_ROWS_MIN: usize = 10;
/// ... and less than this, as it is stored.
const LARGE_BYTES_MAX: usize = 12 * 1024 * 1024;

/// What a value takes in a column beside its own bytes: its type, the number of the row and a zero.
const ROW_BYTES: usize = 5;
/// What a column takes beside names and values: what frames it, in three places.
const COLUMN_BYTES: usize = 16;

/// A document on its way into a bucket.
#[derive(Debug, Clone)]
pub struct Measurement<'d> {
    document: &'d RawDocument,
    /// Milliseconds since 1970.
    time: i64,
    /// The metadata as it is stored: the type's byte and the value, fields of documents sorted. Empty for none.
    meta: Arc<[u8]>,
}

/// Reads documents into measurements. Many of a statement have the same metadata, which is sorted once.
pub struct MeasurementReader<'t, 'd> {
    timeseries: &'t Timeseries,
    /// By type and bytes as they stand in documents.
    metas: AHashMap<(u8, &'d [u8]), Arc<[u8]>>,
}

impl Measurement<'_> {
    /// What tells its series from others: its metadata's bytes.
    pub fn series(&self) -> &[u8] {
        &self.meta
    }

    /// Its document.
    pub fn document(&self) -> &RawDocument {
        self.document
    }

    /// Bytes of its document.
    pub fn size_bytes(&self) -> usize {
        self.document.as_bytes().len()
    }
}

/// A bucket in memory.
#[derive(Debug)]
pub struct MeasurementBucket<'t> {
    timeseries: &'t Timeseries,
    id: ObjectId,
    meta: Vec<u8>,
    start: i64,
    rows: usize,
    columns: Vec<BucketColumn>,
    by_name: AHashMap<Box<[u8]>, usize>,
    bytes: usize,
}

/// The values of one field.
#[derive(Debug)]
struct BucketColumn {
    name: Box<[u8]>,
    /// `{"row": value}`
    values: DocumentBuilder,
    /// One more than the last row that was pushed.
    rows: usize,
    extremes: Extremes,
}

/// The least and the greatest of values of one type.
#[derive(Debug)]
enum Extremes {
    Scalar(RawBson, RawBson),
    Document(DocumentExtremes),
    Array(Vec<Extremes>),
}

#[derive(Debug, Default)]
struct DocumentExtremes {
    fields: Vec<FieldExtremes>,
    by_name: AHashMap<Box<[u8]>, usize>,
    /// Documents so far.
    documents: usize,
}

#[derive(Debug)]
struct FieldExtremes {
    name: Box<[u8]>,
    extremes: Extremes,
    /// Which document was the last that had it.
    document: usize,
}

/// Which end is asked for.
#[derive(Clone, Copy)]
enum Extreme {
    Least,
    Greatest,
}

impl<'t, 'd> MeasurementReader<'t, 'd> {
    /// Of a time series.
    pub fn new(timeseries: &'t Timeseries) -> Self {
        Self {
            timeseries,
            metas: AHashMap::new(),
        }
    }

    /// Reads a document that is to be inserted.
    ///
    /// # Errors
    /// `BadValue` where there is no time; malformed documents.
    pub fn read(&mut self, document: &'d RawDocument) -> Result<Measurement<'d>> {
        let time_field = self.timeseries.time_field.as_str();
        let time = field::find(document, time_field.as_bytes());
        let Some(RawBsonRef::DateTime(time)) = time.and_then(|time| time.value()) else {
            return Err(Error::bad_value(format!(
                "'{time_field}' must be present and contain a valid BSON UTC datetime value"
            )));
        };
        let meta = self.timeseries.meta_field.as_ref();
        let meta = meta.and_then(|name| field::find(document, name.as_bytes()));
        Ok(Measurement {
            document,
            time: time.timestamp_millis(),
            meta: meta.map_or_else(Arc::default, |meta| self.normalised(&meta)),
        })
    }

    fn normalised(&mut self, meta: &Field<'d>) -> Arc<[u8]> {
        let known = self.metas.entry((meta.kind(), meta.bytes()));
        known
            .or_insert_with(|| normalised_value(meta).into())
            .clone()
    }
}

impl Timeseries {
    /// A name for a bucket of this start that no other has: an `ObjectId` of that second.
    fn new_id(start: i64) -> ObjectId {
        let mut bytes = ObjectId::new().bytes();
        bytes[..4].copy_from_slice(&id_seconds(start));
        ObjectId::from_bytes(bytes)
    }

    /// Checks what readers rely on: that a bucket's name says when it starts, that it lasts no longer than the span, and that a
    /// compressed one says how many measurements it has, in the order of their times, and between which they lie.
    ///
    /// Returns for how many milliseconds it lasts, rounded up, as it is noted of a collection.
    ///
    /// # Errors
    /// `BadValue`.
    pub fn check_bucket(&self, bucket: &RawDocument) -> Result<u64> {
        if version_of(bucket) == Some(2) && !self.is_as_summarised(bucket)? {
            return Err(Error::bad_value(format!(
                "a compressed bucket of a time series must have 'control.count' measurements, in the order of their times, \
                 from 'control.min.{0}' to 'control.max.{0}'",
                self.time_field
            )));
        }
        let times = Control::of(bucket, &self.time_field).and_then(|control| control.times);
        if times.is_some_and(|times| lasts(times) > self.span_millis()) {
            return Err(Error::bad_value(format!(
                "a bucket of a time series must not last longer than 'bucketMaxSpanSeconds', from 'control.min.{0}' to \
                 'control.max.{0}'",
                self.time_field
            )));
        }
        let part = (self.span_millis() / SPAN_PARTS).max(1).cast_unsigned();
        match (bucket.get_object_id("_id"), times) {
            (Ok(id), Some(times)) if id.bytes()[..4] == id_seconds(times.from) => {
                let lasts = lasts(times).max(0).cast_unsigned();
                Ok(lasts.next_multiple_of(part))
            }
            _ => Err(Error::bad_value(format!(
                "the '_id' of a bucket of a time series must be an ObjectId of the second of 'control.min.{}', or of the \
                 nearest that an ObjectId can have",
                self.time_field
            ))),
        }
    }
}

/// Spans of buckets are told apart in so many parts of the greatest span that inserts give one: what is noted of them is
/// written this often at most.
const SPAN_PARTS: i64 = 64;

impl Timeseries {
    /// Milliseconds from its start to its last measurement; none where it does not say.
    pub fn lasts(&self, bucket: &RawDocument) -> Option<i64> {
        Control::of(bucket, &self.time_field)?.times.map(lasts)
    }

    /// Whether what a compressed bucket says of the times of its measurements is true.
    pub(super) fn is_as_summarised(&self, bucket: &RawDocument) -> Result<bool> {
        let Some(control) = Control::of(bucket, &self.time_field) else {
            return Ok(false);
        };
        let Some((rows, times)) = control.rows.zip(control.times) else {
            return Ok(false);
        };
        let (mut count, mut last) = (0, times.from);
        let mut stored = compressed_times(bucket, &self.time_field)?;
        while let Some(time) = stored.next()? {
            count += 1;
            if time < last || count > rows {
                return Ok(false);
            }
            last = time;
        }
        Ok(count == rows && last <= times.until)
    }
}

/// Milliseconds from the first to the last of these times.
fn lasts(times: TimeRange) -> i64 {
    times.until.saturating_sub(times.from)
}

/// The least or the greatest name that a bucket of this start can have.
pub fn bucket_id(start: i64, greatest: bool) -> ObjectId {
    let mut bytes = [if greatest { 0xff } else { 0 }; 12];
    bytes[..4].copy_from_slice(&id_seconds(start));
    ObjectId::from_bytes(bytes)
}

/// The seconds of a bucket's name. Times that an `ObjectId` cannot have (before 1970, from 2106 on) are those at its ends,
/// so that names are in the order of starts; in MongoDB they wrap around.
fn id_seconds(start: i64) -> [u8; 4] {
    let seconds = start.div_euclid(1_000).clamp(0, u32::MAX.into());
    u32::try_from(seconds).unwrap_or(u32::MAX).to_be_bytes()
}

/// A value's type and bytes, the fields of its documents sorted by name.
fn normalised_value(value: &Field<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + value.bytes().len());
    out.push(value.kind());
    put_normalised(value, &mut out);
    out
}

/// The same without the type.
fn put_normalised(value: &Field<'_>, out: &mut Vec<u8>) {
    const DOCUMENT: u8 = ElementType::EmbeddedDocument as u8;
    const ARRAY: u8 = ElementType::Array as u8;
    let bytes = value.bytes();
    match (value.kind(), RawDocument::from_bytes(bytes)) {
        (DOCUMENT, Ok(document)) => put_normalised_fields(document, true, out),
        (ARRAY, Ok(items)) => put_normalised_fields(items, false, out),
        _ => out.extend_from_slice(bytes),
    }
}

fn put_normalised_fields(document: &RawDocument, sorts: bool, out: &mut Vec<u8>) {
    let mut fields: SmallVec<[Field<'_>; 8]> = field::fields(document).collect();
    if sorts {
        fields.sort_by(|one, other| one.name().cmp(other.name()));
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for field in &fields {
        out.push(field.kind());
        out.extend_from_slice(field.name());
        out.push(0);
        put_normalised(field, out);
    }
    out.push(0);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

impl<'t> MeasurementBucket<'t> {
    /// A bucket for a measurement, not in it yet.
    pub fn new(timeseries: &'t Timeseries, first: &Measurement<'_>) -> Self {
        let start = timeseries.start_millis(first.time);
        let mut bucket = Self {
            timeseries,
            id: Timeseries::new_id(start),
            meta: first.meta.to_vec(),
            start,
            rows: 0,
            columns: Vec::new(),
            by_name: AHashMap::new(),
            bytes: first.meta.len(),
        };
        let at = RawBsonRef::DateTime(DateTime::from_millis(start));
        bucket.column(timeseries.time_field.as_bytes(), at);
        bucket
    }

    /// Reads a stored bucket; `None` where it is none that could take more.
    ///
    /// # Errors
    /// Malformed documents.
    pub fn decode(timeseries: &'t Timeseries, stored: &RawDocument) -> Result<Option<Self>> {
        let Some(control) = document_in(stored, "control")? else {
            return Ok(None);
        };
        let ends = (document_in(control, "min")?, document_in(control, "max")?);
        let (Some(min), Some(max)) = ends else {
            return Ok(None);
        };
        let Some(data) = document_in(stored, "data")? else {
            return Ok(None);
        };
        let time = timeseries.time_field.as_str();
        let id = stored.get("_id").map_err(malformed)?;
        let start = min.get(time).map_err(malformed)?;
        let (Some(RawBsonRef::ObjectId(id)), Some(RawBsonRef::DateTime(start))) = (id, start)
        else {
            return Ok(None);
        };
        let is_closed = control.get_bool("closed").unwrap_or(false);
        if is_closed || !matches!(control.get("version"), Ok(Some(RawBsonRef::Int32(1)))) {
            return Ok(None);
        }
        let meta = field::find(stored, b"meta");
        let mut bucket = Self {
            timeseries,
            id,
            meta: meta.map_or_else(Vec::new, |meta| [&[meta.kind()], meta.bytes()].concat()),
            start: start.timestamp_millis(),
            rows: 0,
            columns: Vec::new(),
            by_name: AHashMap::new(),
            bytes: stored.as_bytes().len(),
        };
        let mut rows_seen = 0;
        let (mut least, mut greatest) = (field::fields(min), field::fields(max));
        for column in field::fields(data) {
            // We write all three in one order; in another order they were written by somebody else.
            let ends = [least.next(), greatest.next()];
            let of_column = ends
                .iter()
                .flatten()
                .filter(|end| end.name() == column.name());
            let of_column: Vec<RawBsonRef<'_>> = of_column.filter_map(|end| end.value()).collect();
            let values = column.value().and_then(|values| values.as_document());
            let (Some(values), &[min, max]) = (values, of_column.as_slice()) else {
                return Ok(None);
            };
            let Some(rows) = rows_before(values) else {
                return Ok(None);
            };
            if column.name() == time.as_bytes() {
                bucket.rows = field::fields(values).count();
            }
            rows_seen = rows_seen.max(rows);
            let number = bucket.column(column.name(), min);
            let own = &mut bucket.columns[number];
            if !own.extremes.takes(max) || compare(max, min).is_lt() {
                return Ok(None);
            }
            own.extremes.include(max);
            own.values = DocumentBuilder::extending(values);
        }
        // What was changed by hand may lack rows, or have some that no measurement has.
        Ok((rows_seen == bucket.rows).then_some(bucket))
    }

    /// Whether the metadata is that of a measurement.
    pub fn is_of(&self, measurement: &Measurement<'_>) -> bool {
        self.meta == *measurement.meta
    }

    /// Its `_id`.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Another `_id`, where the first is taken.
    pub fn rename(&mut self) {
        self.id = Timeseries::new_id(self.start);
    }

    /// Whether a measurement with the same metadata may go into it.
    pub fn takes(&self, measurement: &Measurement<'_>) -> bool {
        let bytes = self.bytes + self.growth_bytes(measurement);
        let (start, end) = (
            self.start,
            self.start.saturating_add(self.timeseries.span_millis()),
        );
        let has_room =
            bytes <= BUCKET_BYTES_MAX || (self.rows < LARGE_ROWS_MIN && bytes <= LARGE_BYTES_MAX);
        (start..end).contains(&measurement.time)
            && self.rows < BUCKET_ROWS_MAX
            && (has_room || self.rows == 0)
            && self.values_of(measurement).all(|value| {
                let column = self
                    .by_name
                    .get(value.name())
                    .map(|number| &self.columns[*number]);
                let value = value.value().unwrap_or(RawBsonRef::Null);
                column.is_none_or(|column| column.extremes.takes(value))
            })
    }

    fn values_of<'d>(
        &self,
        measurement: &Measurement<'d>,
    ) -> impl Iterator<Item = Field<'d>> + use<'d, 't> {
        let meta = self.timeseries.meta_field.as_deref();
        let fields = field::fields(measurement.document);
        fields.filter(move |field| meta.is_none_or(|meta| meta.as_bytes() != field.name()))
    }

    /// By how many bytes a measurement makes it larger, about: a value is kept once, in a new column also as the least and
    /// the greatest.
    fn growth_bytes(&self, measurement: &Measurement<'_>) -> usize {
        let values = self.values_of(measurement);
        let bytes = values.map(|value| match self.by_name.contains_key(value.name()) {
            true => value.bytes().len() + ROW_BYTES,
            false => 3 * (value.bytes().len() + value.name().len()) + COLUMN_BYTES,
        });
        bytes.sum()
    }

    /// Adds a measurement that it takes.
    pub fn push(&mut self, measurement: &Measurement<'_>) {
        self.bytes += self.growth_bytes(measurement);
        let row = RowCounter::at(self.rows);
        for field in self.values_of(measurement) {
            let Some(value) = field.value() else { continue };
            let number = self.column(field.name(), value);
            let column = &mut self.columns[number];
            // A document may have a field twice: the first counts, as in MongoDB.
            if std::mem::replace(&mut column.rows, self.rows + 1) > self.rows {
                continue;
            }
            column.extremes.include(value);
            column
                .values
                .field(value.element_type(), row.name(), field.bytes());
        }
        self.rows += 1;
    }

    /// The number of the column of a field, which is made for this value where it is new.
    fn column(&mut self, name: &[u8], value: RawBsonRef<'_>) -> usize {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        self.by_name.insert(name.into(), self.columns.len());
        self.columns.push(BucketColumn {
            name: name.into(),
            values: DocumentBuilder::default(),
            rows: 0,
            extremes: Extremes::of(value),
        });
        self.columns.len() - 1
    }

    /// As it is stored.
    pub fn encode(self) -> RawDocumentBuf {
        let mut ends = [Extreme::Least, Extreme::Greatest].map(|end| {
            let mut out = DocumentBuilder::default();
            for column in &self.columns {
                column.extremes.write(&column.name, end, &mut out);
            }
            out.finish()
        });
        let [min, max] = ends.each_mut().map(std::mem::take);
        let control = rawdoc! { "version": 1, "min": min, "max": max };
        let mut out = DocumentBuilder::with_capacity(self.bytes * 2);
        out.field(ElementType::ObjectId, b"_id", &self.id.bytes());
        out.field(
            ElementType::EmbeddedDocument,
            b"control",
            control.as_bytes(),
        );
        if let Some((kind, value)) = self.meta.split_first() {
            let kind = ElementType::from(*kind).expect("it was read as one");
            out.field(kind, b"meta", value);
        }
        let mut data = DocumentBuilder::with_capacity(self.bytes);
        for column in self.columns {
            data.document(&column.name, column.values);
        }
        out.document(b"data", data);
        out.finish()
    }
}

pub(super) fn document_in<'d>(
    document: &'d RawDocument,
    name: &str,
) -> Result<Option<&'d RawDocument>> {
    let found = document.get(name).map_err(malformed)?;
    Ok(found.and_then(|found| found.as_document()))
}

/// One more than the last row of a column, whose rows ascend; `None` where they do not.
fn rows_before(values: &RawDocument) -> Option<usize> {
    let mut rows = RowCounter::default();
    for value in field::fields(values) {
        rows.pass(&value)?;
    }
    Some(rows.next)
}

/// Counts the rows of a column, whose values have them as their names.
#[derive(Debug)]
pub(super) struct RowCounter {
    next: usize,
    /// Its digits, at the end.
    digits: [u8; 20],
    start: usize,
}

impl Default for RowCounter {
    fn default() -> Self {
        Self::at(0)
    }
}

impl RowCounter {
    fn at(next: usize) -> Self {
        let (mut digits, mut start, mut left) = ([b'0'; 20], 19, next);
        digits[start] += (left % 10) as u8;
        while left >= 10 {
            left /= 10;
            start -= 1;
            digits[start] += (left % 10) as u8;
        }
        Self {
            next,
            digits,
            start,
        }
    }

    /// The name of the next row.
    fn name(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    fn advance(&mut self) {
        self.next += 1;
        for digit in self.digits[self.start..].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        *self = Self::at(self.next);
    }

    /// The row of a value, which is the next one or a later one; `None` where it is not.
    pub fn pass(&mut self, value: &Field<'_>) -> Option<usize> {
        if value.name() != self.name() {
            let row = row_of(value).filter(|row| *row >= self.next)?;
            *self = Self::at(row);
        }
        let row = self.next;
        self.advance();
        Some(row)
    }
}

/// The row that a value of a column is of, which is its name.
fn row_of(value: &Field<'_>) -> Option<usize> {
    let name = std::str::from_utf8(value.name()).ok()?;
    let is_plain = name.len() == 1 || name.starts_with(|digit: char| ('1'..='9').contains(&digit));
    let row = is_plain.then(|| name.parse::<u32>().ok()).flatten()?;
    usize::try_from(row).ok()
}

/// Measurements of a bucket with these columns.
fn row_count(data: &RawDocument, time: &str) -> usize {
    let times = data.get_document(time);
    times.map_or(0, |times| field::fields(times).count())
}

impl Timeseries {
    /// How many measurements a stored bucket holds.
    pub fn measurements_of(&self, stored: &RawDocument) -> usize {
        let control = stored.get_document("control");
        let count = control.and_then(|control| control.get_i32("count"));
        if let (Some(2), Ok(count)) = (version_of(stored), count) {
            return usize::try_from(count).unwrap_or(0);
        }
        let data = stored.get_document("data");
        data.map_or(0, |data| row_count(data, &self.time_field))
    }
}

impl Extremes {
    fn of(value: RawBsonRef<'_>) -> Self {
        match value {
            RawBsonRef::Document(document) => {
                let mut own = DocumentExtremes::default();
                own.include(document);
                Self::Document(own)
            }
            RawBsonRef::Array(array) => {
                let items = array.into_iter().flatten();
                Self::Array(items.map(Self::of).collect())
            }
            scalar => {
                let scalar = RawBson::from(scalar);
                Self::Scalar(scalar.clone(), scalar)
            }
        }
    }

    /// Whether a value is of their type, and its parts of the types of theirs.
    fn takes(&self, value: RawBsonRef<'_>) -> bool {
        match (self, value) {
            (Self::Document(own), RawBsonRef::Document(document)) => {
                field::fields(document).all(|field| {
                    let own = own
                        .by_name
                        .get(field.name())
                        .map(|number| &own.fields[*number].extremes);
                    let value = field.value().unwrap_or(RawBsonRef::Null);
                    own.is_none_or(|own| own.takes(value))
                })
            }
            (Self::Array(own), RawBsonRef::Array(array)) => {
                let mut both = own.iter().zip(array.into_iter().flatten());
                both.all(|(own, item)| own.takes(item))
            }
            (Self::Scalar(own, _), value) => {
                let is_scalar = !matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_));
                is_scalar && canonical_type(own.as_raw_bson_ref()) == canonical_type(value)
            }
            _ => false,
        }
    }

    /// Widens them by a value that they take.
    fn include(&mut self, value: RawBsonRef<'_>) {
        match (self, value) {
            (Self::Document(own), RawBsonRef::Document(document)) => own.include(document),
            (Self::Array(own), RawBsonRef::Array(array)) => {
                for (number, item) in array.into_iter().flatten().enumerate() {
                    match own.get_mut(number) {
                        Some(own) => own.include(item),
                        None => own.push(Self::of(item)),
                    }
                }
            }
            (Self::Scalar(least, greatest), value) => {
                if compare(value, least.as_raw_bson_ref()).is_lt() {
                    *least = RawBson::from(value);
                }
                if compare(value, greatest.as_raw_bson_ref()).is_gt() {
                    *greatest = RawBson::from(value);
                }
            }
            _ => {}
        }
    }

    fn write(&self, name: &[u8], end: Extreme, out: &mut DocumentBuilder) {
        match self {
            Self::Scalar(least, greatest) => {
                let value = match end {
                    Extreme::Least => least,
                    Extreme::Greatest => greatest,
                };
                let mut one = RawDocumentBuf::new();
                one.append(bson::cstr!("v"), value.clone());
                for field in field::fields(&one) {
                    let kind = value.as_raw_bson_ref().element_type();
                    out.field(kind, name, field.bytes());
                }
            }
            Self::Document(own) => {
                let mut inner = DocumentBuilder::default();
                for field in &own.fields {
                    field.extremes.write(&field.name, end, &mut inner);
                }
                out.document(name, inner);
            }
            Self::Array(own) => {
                let mut inner = DocumentBuilder::default();
                for (number, extremes) in own.iter().enumerate() {
                    extremes.write(number.to_string().as_bytes(), end, &mut inner);
                }
                out.field(ElementType::Array, name, inner.finish().as_bytes());
            }
        }
    }
}

impl DocumentExtremes {
    fn include(&mut self, document: &RawDocument) {
        self.documents += 1;
        let document_number = self.documents;
        for field in field::fields(document) {
            let value = field.value().unwrap_or(RawBsonRef::Null);
            let Some(number) = self.by_name.get(field.name()) else {
                self.by_name.insert(field.name().into(), self.fields.len());
                self.fields.push(FieldExtremes {
                    name: field.name().into(),
                    extremes: Extremes::of(value),
                    document: document_number,
                });
                continue;
            };
            let own = &mut self.fields[*number];
            // What a document has twice is what it has first.
            if std::mem::replace(&mut own.document, document_number) != document_number {
                own.extremes.include(value);
            }
        }
    }
}
