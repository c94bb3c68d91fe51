//! What a compressed bucket says of all its measurements together.
//!
//! The count and the times are true of what is stored: [`Timeseries::check_bucket`](super::Timeseries::check_bucket) holds it.
//! Extremes are those of MongoDB, which also asks them for least and greatest values: of numbers that are equal and of
//! different types they are the first that came.

use super::compress::version_of;
use super::unpack::{TimeRange, UnpackBucket};
use crate::error::Result;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field};
use meridian_value::number::Number;

/// Of the measurements of a bucket that are wanted.
pub struct BucketSummary<'b> {
    /// How many there are, where all are wanted and it is known.
    pub rows: Option<u64>,
    /// From before the first of them to the last one.
    pub times: TimeRange,
    least: &'b RawDocument,
    greatest: &'b RawDocument,
    unpack: &'b UnpackBucket,
    meta: Option<Field<'b>>,
}

/// The count, the extremes of the times, and the extremes, as a compressed bucket says them.
pub(super) struct Control<'b> {
    pub rows: Option<u64>,
    pub times: Option<TimeRange>,
    least: &'b RawDocument,
    greatest: &'b RawDocument,
}

impl<'b> Control<'b> {
    /// Of a bucket; none where it has no extremes.
    pub fn of(bucket: &'b RawDocument, time_field: &str) -> Option<Self> {
        let document = |of: &'b RawDocument, name: &str| {
            let found = field::find(of, name.as_bytes())?.value()?;
            found.as_document()
        };
        let control = document(bucket, "control")?;
        let (least, greatest) = (document(control, "min")?, document(control, "max")?);
        let time = |of: &'b RawDocument| {
            let time = field::find(of, time_field.as_bytes())?.value()?;
            Some(time.as_datetime()?.timestamp_millis())
        };
        let count =
            field::find(control, b"count").and_then(|count| Number::from_raw(count.value()?));
        let count = count.and_then(|count| u64::try_from(count.to_i64_truncated()?).ok());
        let times = time(least).zip(time(greatest));
        Some(Self {
            rows: count,
            times: times.map(|(from, until)| TimeRange { from, until }),
            least,
            greatest,
        })
    }
}

impl UnpackBucket {
    /// The summary; the count is known of a compressed bucket alone.
    pub fn summary<'b>(&'b self, bucket: &'b RawDocument) -> Option<BucketSummary<'b>> {
        let version = version_of(bucket).filter(|_| !self.latest_only)?;
        let control = Control::of(bucket, &self.time_field)?;
        let all = control.times?;
        let times = self.times.and(all);
        Some(BucketSummary {
            rows: control.rows.filter(|_| version == 2 && times == all),
            times,
            least: control.least,
            greatest: control.greatest,
            unpack: self,
            meta: self.meta_of(bucket),
        })
    }
}

impl<'b> BucketSummary<'b> {
    /// The least value of a field, which is neither the time nor the metadata, of all measurements of the bucket, wanted or
    /// not; none where none of them has it.
    pub fn least(&self, name: &str) -> Option<RawBsonRef<'b>> {
        field::find(self.least, name.as_bytes())?.value()
    }

    /// The greatest one.
    pub fn greatest(&self, name: &str) -> Option<RawBsonRef<'b>> {
        field::find(self.greatest, name.as_bytes())?.value()
    }

    /// A time that is not behind the first one, and the metadata, as of a measurement.
    ///
    /// # Errors
    /// Metadata that is malformed.
    pub fn first(&self) -> Result<RawDocumentBuf> {
        let mut out = DocumentBuilder::default();
        let (time, from) = (self.unpack.time_field.as_bytes(), self.times.from);
        out.field(ElementType::DateTime, time, &from.to_le_bytes());
        self.unpack.put_meta(&mut out, self.meta.as_ref())?;
        Ok(out.finish())
    }
}
