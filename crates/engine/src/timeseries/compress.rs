//! Buckets that take no further measurement, compressed as MongoDB does it.
//!
//! `control.version` is 2 then, each column a BSON column (`meridian_column`), the rows in the order of their times, and
//! `control.count` says how many there are. Metadata and extremes stay as they were.

use super::Timeseries;
use super::bucket::{RowCounter, document_in};
use crate::error::{Error, Result};
use crate::expression::value::field_name;
use crate::operation;
use bson::raw::{RawBinaryRef, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::{BinarySubtype, ElementType};
use meridian_column::{ColumnDecoder, ColumnEncoder, ColumnError, ColumnValue};
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field};
use meridian_value::number::Number;

/// The bytes of a column in a compressed bucket.
pub(super) fn compressed_column<'b>(column: &Field<'b>) -> Option<ColumnDecoder<'b>> {
    match column.value() {
        Some(RawBsonRef::Binary(binary)) if binary.subtype == BinarySubtype::Column => {
            Some(ColumnDecoder::new(binary.bytes))
        }
        _ => None,
    }
}

/// Hands out each value that a bucket has of a field of its measurements, with the number of its row.
///
/// # Errors
/// Columns that are malformed; those of `each`.
pub fn for_each_measured(
    bucket: &RawDocument,
    name: &str,
    each: &mut dyn FnMut(&str, RawBsonRef<'_>) -> Result<()>,
) -> Result<()> {
    let data = field::find(bucket, b"data").and_then(|data| data.value());
    let data = data.and_then(|data| data.as_document());
    let Some(column) = data.and_then(|data| field::find(data, name.as_bytes())) else {
        return Ok(());
    };
    if let Some(values) = compressed_column(&column) {
        for (row, value) in values.enumerate() {
            operation::check()?;
            let value = value.map_err(|error| bad_column(name.as_bytes(), &error))?;
            if let Some(value) = value {
                with_value(&value, &mut |value| each(&row.to_string(), value))?;
            }
        }
        return Ok(());
    }
    if let Some(RawBsonRef::Document(values)) = column.value() {
        for (row, value) in values.iter().flatten() {
            each(row.as_str(), value)?;
        }
    }
    Ok(())
}

/// Hands out a value of a column.
pub(super) fn with_value(
    value: &ColumnValue<'_>,
    each: &mut dyn FnMut(RawBsonRef<'_>) -> Result<()>,
) -> Result<()> {
    if let Some(value) = field::value_of(value.kind(), value.bytes()) {
        return each(value);
    }
    let mut one = DocumentBuilder::default();
    if let Some(kind) = ElementType::from(value.kind()) {
        one.field(kind, b"", value.bytes());
    }
    let one = one.finish();
    one.iter().flatten().try_for_each(|(_, value)| each(value))
}

/// What a bucket says of its version.
pub(super) fn version_of(bucket: &RawDocument) -> Option<i64> {
    let control = field::find(bucket, b"control")?.value()?.as_document()?;
    let version = field::find(control, b"version")?.value()?;
    Number::from_raw(version)?.to_i64_truncated()
}

/// The error of a column that is malformed.
pub(super) fn bad_column(name: &[u8], error: &ColumnError) -> Error {
    Error::bad_value(format!(
        "cannot decompress the column '{}' of a bucket: it has {error}",
        String::from_utf8_lossy(name)
    ))
}

impl Timeseries {
    /// A bucket with compressed columns; `None` where it is compressed already, would not become smaller, or has what
    /// columns cannot hold, as MongoDB leaves them, and where it was changed by hand and does not tell its times truly.
    ///
    /// # Errors
    /// Malformed documents.
    pub fn compressed(&self, bucket: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if version_of(bucket) != Some(1) {
            return Ok(None);
        }
        let Some(data) = document_in(bucket, "data")? else {
            return Ok(None);
        };
        let Some(order) = self.row_order(data)? else {
            return Ok(None);
        };
        let Some(columns) = self.compressed_columns(data, &order)? else {
            return Ok(None);
        };
        let Some(control) = document_in(bucket, "control")? else {
            return Ok(None);
        };
        let mut out = DocumentBuilder::with_capacity(bucket.as_bytes().len());
        for own in field::fields(bucket) {
            match own.name() {
                b"control" => out.document(b"control", compressed_control(control, order.len())),
                b"data" => out.field(ElementType::EmbeddedDocument, b"data", columns.as_bytes()),
                _ => out.copy(&own),
            }
        }
        let out = out.finish();
        let is_smaller = out.as_bytes().len() < bucket.as_bytes().len();
        Ok((is_smaller && self.is_as_summarised(&out)?).then_some(out))
    }

    /// The numbers of the rows in the order of their times; `None` where the rows are not as we number them.
    fn row_order(&self, data: &RawDocument) -> Result<Option<Vec<usize>>> {
        let Some(times) = document_in(data, &self.time_field)? else {
            return Ok(None);
        };
        let (mut rows, mut counter) = (Vec::new(), RowCounter::default());
        for (row, time) in field::fields(times).enumerate() {
            let Some(RawBsonRef::DateTime(millis)) = time.value() else {
                return Ok(None);
            };
            if counter.pass(&time) != Some(row) {
                return Ok(None);
            }
            rows.push((millis.timestamp_millis(), row));
        }
        rows.sort_by_key(|(millis, _)| *millis);
        Ok(Some(rows.into_iter().map(|(_, row)| row).collect()))
    }

    /// The columns, compressed, that of the times first.
    fn compressed_columns(
        &self,
        data: &RawDocument,
        order: &[usize],
    ) -> Result<Option<RawDocumentBuf>> {
        let mut out = DocumentBuilder::with_capacity(data.as_bytes().len() / 4);
        let is_time = |column: &Field<'_>| column.name() == self.time_field.as_bytes();
        let times = field::fields(data).filter(is_time);
        let others = field::fields(data).filter(|column| !is_time(column));
        for column in times.chain(others) {
            let values = column.value().and_then(|values| values.as_document());
            let Some(column_bytes) = values.and_then(|values| compressed_values(values, order))
            else {
                return Ok(None);
            };
            let binary = RawBinaryRef {
                subtype: BinarySubtype::Column,
                bytes: &column_bytes,
            };
            let Ok(name) = std::str::from_utf8(column.name()) else {
                return Ok(None);
            };
            let name = field_name(name)?;
            out.append_with(|out| out.append(name, binary));
        }
        Ok(Some(out.finish()))
    }
}

/// The values of a column in this order of its rows; `None` where they are not as we number them, or are of a type that
/// columns cannot hold.
fn compressed_values(values: &RawDocument, order: &[usize]) -> Option<Vec<u8>> {
    let mut by_row: Vec<Option<Field<'_>>> = vec![None; order.len()];
    let mut rows = RowCounter::default();
    for value in field::fields(values) {
        *by_row.get_mut(rows.pass(&value)?)? = Some(value);
    }
    let mut encoder = ColumnEncoder::default();
    for row in order {
        match by_row[*row] {
            Some(value) => encoder.push(value.kind(), value.bytes()).ok()?,
            None => encoder.skip(),
        }
    }
    Some(encoder.finish())
}

fn compressed_control(control: &RawDocument, rows: usize) -> DocumentBuilder {
    let mut out = DocumentBuilder::with_capacity(control.as_bytes().len() + 16);
    for own in field::fields(control) {
        match own.name() {
            b"version" => out.field(ElementType::Int32, b"version", &2_i32.to_le_bytes()),
            b"count" => {}
            _ => out.copy(&own),
        }
    }
    let rows = i32::try_from(rows).unwrap_or(i32::MAX);
    out.field(ElementType::Int32, b"count", &rows.to_le_bytes());
    out
}
