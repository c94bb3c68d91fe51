//! `$_internalUnpackBucket`: the measurements of a bucket as documents.

use super::Timeseries;
use super::columns::{CompressedColumn, CompressedTimes};
use super::compress::{compressed_column, version_of};
use crate::error::{Code, Error, Result, malformed};
use crate::operation;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use meridian_column::ColumnValue;
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field, Fields};
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::{ControlFlow, Range};

/// The stage.
#[derive(Debug, Clone)]
pub struct UnpackBucket {
    /// The field of the time.
    pub time_field: String,
    /// The field of the metadata.
    pub meta_field: Option<String>,
    /// Milliseconds from the start of a bucket to what cannot be in it.
    pub span_millis: i64,
    /// The fields that are wanted; `None` for all.
    pub wanted: Option<BTreeSet<String>>,
    /// Whether no measurement but the newest of a bucket is wanted.
    pub latest_only: bool,
    /// The times that are wanted.
    pub times: TimeRange,
}

/// Times from one to another, both wanted, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The earliest.
    pub from: i64,
    /// The latest.
    pub until: i64,
}

impl TimeRange {
    /// All there are.
    pub const ALL: Self = Self {
        from: i64::MIN,
        until: i64::MAX,
    };

    /// The times that are in both; none where `from` is later than `until`.
    pub fn and(self, other: Self) -> Self {
        Self {
            from: self.from.max(other.from),
            until: self.until.min(other.until),
        }
    }

    /// Whether a time is wanted.
    pub fn holds(self, millis: i64) -> bool {
        (self.from..=self.until).contains(&millis)
    }
}

/// The values of a field that are still to come.
struct Column<'b> {
    name: &'b [u8],
    values: Peekable<Fields<'b>>,
}

/// A measurement as a document. The next one is written over it where its values have the same types and lengths.
#[derive(Default)]
pub(super) struct RowDocument {
    bytes: Vec<u8>,
    /// Where its time is, if it is wanted.
    time: Option<usize>,
    /// Where the value of each column is, if it has one.
    values: Vec<Option<ValuePlace>>,
    is_built: bool,
}

struct ValuePlace {
    kind: u8,
    range: Range<usize>,
}

/// Bytes before a document's first field, and around a field's name.
const LENGTH_BYTES: usize = 4;
const AROUND_NAME: usize = 2;

impl RowDocument {
    /// Writes another measurement over this one; false where that has other fields, types or lengths.
    fn write_over(&mut self, millis: i64, values: &[Option<ColumnValue<'_>>]) -> bool {
        if !self.is_built {
            return false;
        }
        for (place, value) in self.values.iter().zip(values) {
            match (place, value) {
                (None, None) => {}
                (Some(place), Some(value))
                    if place.kind == value.kind() && place.range.len() == value.bytes().len() =>
                {
                    self.bytes[place.range.clone()].copy_from_slice(value.bytes());
                }
                _ => return false,
            }
        }
        if let Some(start) = self.time {
            self.bytes[start..start + size_of::<i64>()].copy_from_slice(&millis.to_le_bytes());
        }
        true
    }

    /// Builds it anew: the time under its name, if that is wanted, what `put_meta` puts, and values by name.
    pub(super) fn build<'n>(
        &mut self,
        time: Option<&[u8]>,
        millis: i64,
        put_meta: impl FnOnce(&mut DocumentBuilder) -> Result<()>,
        values: impl Iterator<Item = (&'n [u8], &'n Option<ColumnValue<'n>>)>,
    ) -> Result<()> {
        self.is_built = false;
        self.values.clear();
        let mut out = DocumentBuilder::reusing(std::mem::take(&mut self.bytes));
        if let Some(name) = time {
            out.field(ElementType::DateTime, name, &millis.to_le_bytes());
        }
        self.time = time.map(|name| LENGTH_BYTES + AROUND_NAME + name.len());
        put_meta(&mut out)?;
        for (name, value) in values {
            let Some(value) = value else {
                self.values.push(None);
                continue;
            };
            let kind = value.kind();
            let known = ElementType::from(kind).ok_or_else(|| no_bucket("a value has no type"))?;
            let start = out.len() + AROUND_NAME + name.len();
            out.field(known, name, value.bytes());
            let range = start..start + value.bytes().len();
            self.values.push(Some(ValuePlace { kind, range }));
        }
        self.bytes = out.finish().into_bytes();
        self.is_built = true;
        Ok(())
    }

    pub(super) fn document(&self) -> Result<&RawDocument> {
        RawDocument::from_bytes(&self.bytes).map_err(malformed)
    }
}

impl UnpackBucket {
    /// Reads the stage as a view has it.
    ///
    /// # Errors
    /// Missing options and wrong types.
    pub fn parse(value: RawBsonRef<'_>) -> Result<Self> {
        let wrong = || {
            Error::location(
                5_346_500,
                "$_internalUnpackBucket specification must be an object",
            )
        };
        let options = value.as_document().ok_or_else(wrong)?;
        let (mut time, mut meta, mut span) = (None, None, None);
        for element in options {
            let (key, value) = element.map_err(malformed)?;
            match (key.as_str(), value) {
                ("timeField", RawBsonRef::String(name)) => time = Some(name.to_owned()),
                ("metaField", RawBsonRef::String(name)) => meta = Some(name.to_owned()),
                ("bucketMaxSpanSeconds", RawBsonRef::Int32(seconds)) => {
                    span = Some(i64::from(seconds) * 1_000);
                }
                (other, _) => {
                    return Err(Error::location(
                        5_346_506,
                        format!("unrecognized parameter to $_internalUnpackBucket: {other}"),
                    ));
                }
            }
        }
        let missing = |name| {
            let message = format!("The $_internalUnpackBucket stage requires a {name} parameter");
            Error::location(5_346_508, message)
        };
        Ok(Self {
            time_field: time.ok_or_else(|| missing("timeField"))?,
            meta_field: meta,
            span_millis: span.ok_or_else(|| missing("bucketMaxSpanSeconds"))?,
            wanted: None,
            latest_only: false,
            times: TimeRange::ALL,
        })
    }

    /// That of a time-series collection.
    pub fn of(timeseries: &Timeseries) -> Self {
        Self {
            time_field: timeseries.time_field.clone(),
            meta_field: timeseries.meta_field.clone(),
            span_millis: timeseries.span_millis(),
            wanted: None,
            latest_only: false,
            times: TimeRange::ALL,
        }
    }

    /// Whether a field is that of the metadata.
    pub fn is_metadata(&self, name: &str) -> bool {
        self.meta_field.as_deref() == Some(name)
    }

    fn wants(&self, name: &[u8]) -> bool {
        let Some(wanted) = &self.wanted else {
            return true;
        };
        std::str::from_utf8(name).is_ok_and(|name| wanted.contains(name))
    }

    /// Gives `emit` one document for each measurement.
    ///
    /// # Errors
    /// A document that is no bucket, and columns that are malformed; those of `emit`.
    pub fn apply(
        &self,
        bucket: &RawDocument,
        emit: &mut dyn FnMut(&RawDocument) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        match version_of(bucket) {
            Some(1) => self.apply_plain(bucket, data_of(bucket)?, emit),
            Some(2) => self.apply_compressed(bucket, data_of(bucket)?, emit),
            _ => Err(no_bucket("'control.version' is not 1 or 2")),
        }
    }

    /// Whether nothing of the measurements is read.
    pub fn is_counted(&self) -> bool {
        self.wanted.as_ref().is_some_and(BTreeSet::is_empty) && !self.latest_only
    }

    /// How many measurements of the wanted times a bucket has.
    ///
    /// # Errors
    /// A document that is no bucket, and times that are malformed.
    pub fn count(&self, bucket: &RawDocument) -> Result<u64> {
        if let Some(rows) = self.summary(bucket).and_then(|summary| summary.rows) {
            return Ok(rows);
        }
        let mut count = 0;
        if let Some(mut columns) = self.columns(bucket, std::iter::empty())? {
            while columns.next_run(|_| Some(TimeRange::ALL))? {
                operation::check()?;
                count += columns.times().len() as u64;
            }
            return Ok(count);
        }
        // What is wrong with other buckets is told by the stage itself.
        let _ = self.apply(bucket, &mut |_| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// The times of a compressed bucket, and the other columns that are wanted.
    fn compressed_columns<'b>(
        &'b self,
        data: &'b RawDocument,
    ) -> Result<(CompressedTimes<'b>, Vec<CompressedColumn<'b>>)> {
        let time = self.time_field.as_bytes();
        let (mut times, mut columns) = (None, Vec::new());
        for column in field::fields(data) {
            let name = column.name();
            if name != time && !self.wants(name) {
                continue;
            }
            let values = compressed_column(&column);
            let values = values.ok_or_else(|| no_bucket("a column is not compressed"))?;
            match name == time {
                true => times = Some(values),
                false => columns.push(CompressedColumn::new(name, values)),
            }
        }
        let times = times.ok_or_else(|| no_bucket("it has no column of times"))?;
        Ok((CompressedTimes::new(time, times), columns))
    }

    fn apply_compressed(
        &self,
        bucket: &RawDocument,
        data: &RawDocument,
        emit: &mut dyn FnMut(&RawDocument) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let time = self.time_field.as_bytes();
        let (mut times, mut columns) = self.compressed_columns(data)?;
        let meta = self.meta_of(bucket);
        let wants_time = self.wants(time);
        let (mut row, mut values) = (RowDocument::default(), Vec::with_capacity(columns.len()));
        // Rows that are not wanted, since the last one that was.
        let mut passed = 0;
        if self.latest_only {
            let latest = times.clone().latest()?;
            for _ in 0..latest {
                times.next()?;
            }
            passed = latest;
        }
        while let (behind, Some(millis)) = times.find(self.times)? {
            passed += behind;
            values.clear();
            for column in &mut columns {
                column.skip(passed)?;
                values.push(column.next()?);
            }
            passed = 0;
            if !row.write_over(millis, &values) {
                let names = columns.iter().map(CompressedColumn::name);
                let time = wants_time.then_some(time);
                row.build(
                    time,
                    millis,
                    |out| self.put_meta(out, meta.as_ref()),
                    names.zip(&values),
                )?;
            }
            if emit(row.document()?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if self.latest_only {
                break;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether a measurement of this time is wanted.
    fn takes(&self, kind: u8, time: &[u8]) -> bool {
        let millis = || time.try_into().map(i64::from_le_bytes);
        self.times == TimeRange::ALL
            || kind == ElementType::DateTime as u8
                && millis().is_ok_and(|millis| self.times.holds(millis))
    }

    /// The metadata, where it is wanted.
    pub(super) fn meta_of<'b>(&self, bucket: &'b RawDocument) -> Option<Field<'b>> {
        let name = self.meta_field.as_ref()?;
        let meta = || field::find(bucket, b"meta");
        self.wants(name.as_bytes()).then(meta).flatten()
    }

    pub(super) fn put_meta(
        &self,
        out: &mut DocumentBuilder,
        meta: Option<&Field<'_>>,
    ) -> Result<()> {
        match (meta, &self.meta_field) {
            (Some(meta), Some(name)) => put(out, name.as_bytes(), meta),
            _ => Ok(()),
        }
    }

    fn apply_plain(
        &self,
        bucket: &RawDocument,
        data: &RawDocument,
        emit: &mut dyn FnMut(&RawDocument) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let time = self.time_field.as_bytes();
        let times = field::find(data, time).and_then(|times| times.value());
        let Some(RawBsonRef::Document(times)) = times else {
            return Err(no_bucket("it has no column of times"));
        };
        let mut columns = Vec::new();
        for column in field::fields(data).filter(|column| column.name() != time) {
            let Some(RawBsonRef::Document(values)) = column.value() else {
                return Err(no_bucket("a column is no object"));
            };
            if self.wants(column.name()) {
                columns.push(Column {
                    name: column.name(),
                    values: field::fields(values).peekable(),
                });
            }
        }
        let meta = self.meta_of(bucket);
        let wants_time = self.wants(time);
        if self.latest_only {
            return self.emit_latest(times, meta.as_ref(), columns, emit);
        }
        for row in field::fields(times) {
            if !self.takes(row.kind(), row.bytes()) {
                for column in &mut columns {
                    let is_of_row = |value: &Field<'_>| value.name() == row.name();
                    while column.values.next_if(is_of_row).is_some() {}
                }
                continue;
            }
            let document = self.row(&row, wants_time, meta.as_ref(), &mut columns)?;
            if emit(&document)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match columns
            .iter_mut()
            .all(|column| column.values.peek().is_none())
        {
            true => Ok(ControlFlow::Continue(())),
            false => Err(left_over()),
        }
    }

    /// Gives `emit` the newest measurement.
    fn emit_latest(
        &self,
        times: &RawDocument,
        meta: Option<&Field<'_>>,
        mut columns: Vec<Column<'_>>,
        emit: &mut dyn FnMut(&RawDocument) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let millis = |time: &Field<'_>| time.bytes().try_into().ok().map(i64::from_le_bytes);
        // (Of equals the first.)
        let mut rows = field::fields(times);
        let Some(mut row) = rows.next() else {
            return Ok(ControlFlow::Continue(()));
        };
        for other in rows {
            if millis(&other) > millis(&row) {
                row = other;
            }
        }
        for column in &mut columns {
            let is_other = |value: &Field<'_>| value.name() != row.name();
            while column.values.next_if(is_other).is_some() {}
        }
        let wants_time = self.wants(self.time_field.as_bytes());
        emit(&self.row(&row, wants_time, meta, &mut columns)?)
    }

    fn row(
        &self,
        row: &Field<'_>,
        wants_time: bool,
        meta: Option<&Field<'_>>,
        columns: &mut [Column<'_>],
    ) -> Result<RawDocumentBuf> {
        let mut out = DocumentBuilder::default();
        if wants_time {
            put(&mut out, self.time_field.as_bytes(), row)?;
        }
        self.put_meta(&mut out, meta)?;
        for column in columns {
            while let Some(value) = column.values.next_if(|value| value.name() == row.name()) {
                put(&mut out, column.name, &value)?;
            }
        }
        Ok(out.finish())
    }
}

pub(super) fn data_of(bucket: &RawDocument) -> Result<&RawDocument> {
    let data = field::find(bucket, b"data").and_then(|data| data.value());
    let data = data.and_then(|data| data.as_document());
    data.ok_or_else(|| no_bucket("it has no 'data'"))
}

fn put(out: &mut DocumentBuilder, name: &[u8], value: &Field<'_>) -> Result<()> {
    let kind = ElementType::from(value.kind()).ok_or_else(|| no_bucket("a value has no type"))?;
    out.field(kind, name, value.bytes());
    Ok(())
}

/// The error of a column with a value too many.
pub(super) fn left_over() -> Error {
    no_bucket("a column holds a value of a measurement that is not there")
}

pub(super) fn no_bucket(why: &str) -> Error {
    let message =
        format!("cannot unpack a document that is not a bucket of a time-series collection: {why}");
    Error::new(Code::BadValue, message)
}
