//! `$_internalUnpackBucket`: the measurements of a bucket as documents.

use super::Timeseries;
use crate::error::{Code, Error, Result, malformed};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field, Fields};
use meridian_value::number::Number;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::ControlFlow;

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
}

/// The values of a field that are still to come.
struct Column<'b> {
    name: &'b [u8],
    values: Peekable<Fields<'b>>,
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
        })
    }

    /// That of a time-series collection.
    pub fn of(timeseries: &Timeseries) -> Self {
        Self {
            time_field: timeseries.time_field.clone(),
            meta_field: timeseries.meta_field.clone(),
            span_millis: timeseries.span_millis(),
            wanted: None,
        }
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
    /// A document that is no bucket, and one that is compressed as MongoDB does it; those of `emit`.
    pub fn apply(
        &self,
        bucket: &RawDocument,
        emit: &mut dyn FnMut(RawDocumentBuf) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let data = columns_of(bucket)?;
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
        let meta = match &self.meta_field {
            Some(name) if self.wants(name.as_bytes()) => field::find(bucket, b"meta"),
            _ => None,
        };
        let wants_time = self.wants(time);
        for row in field::fields(times) {
            let document = self.row(&row, wants_time, meta.as_ref(), &mut columns)?;
            if emit(document)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match columns
            .iter_mut()
            .all(|column| column.values.peek().is_none())
        {
            true => Ok(ControlFlow::Continue(())),
            false => Err(no_bucket(
                "a column holds a value of a measurement that is not there",
            )),
        }
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
        if let (Some(meta), Some(name)) = (meta, &self.meta_field) {
            put(&mut out, name.as_bytes(), meta)?;
        }
        for column in columns {
            while let Some(value) = column.values.next_if(|value| value.name() == row.name()) {
                put(&mut out, column.name, &value)?;
            }
        }
        Ok(out.finish())
    }
}

fn put(out: &mut DocumentBuilder, name: &[u8], value: &Field<'_>) -> Result<()> {
    let kind = ElementType::from(value.kind()).ok_or_else(|| no_bucket("a value has no type"))?;
    out.field(kind, name, value.bytes());
    Ok(())
}

fn columns_of(bucket: &RawDocument) -> Result<&RawDocument> {
    let control = field::find(bucket, b"control").and_then(|control| control.value());
    let version = control.and_then(|control| control.as_document());
    let version = version.map(|control| control.get("version").map_err(malformed));
    let version = version.transpose()?.flatten();
    match version
        .and_then(Number::from_raw)
        .and_then(Number::to_i64_truncated)
    {
        Some(1) => {}
        Some(2) => {
            return Err(Error::not_implemented(
                "buckets of 'control.version' 2, whose columns are compressed,",
            ));
        }
        _ => return Err(no_bucket("'control.version' is not 1")),
    }
    let data = field::find(bucket, b"data").and_then(|data| data.value());
    let data = data.and_then(|data| data.as_document());
    data.ok_or_else(|| no_bucket("it has no 'data'"))
}

fn no_bucket(why: &str) -> Error {
    let message =
        format!("cannot unpack a document that is not a bucket of a time-series collection: {why}");
    Error::new(Code::BadValue, message)
}
