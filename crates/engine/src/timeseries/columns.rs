//! Buckets, read by columns.
//!
//! In: a bucket, and the names of fields. Out: runs of measurements that follow one another in time, and for each run the
//! values of a field together, without a document for each measurement.

use super::bucket::RowCounter;
use super::compress::{bad_column, compressed_column, version_of, with_value};
use super::unpack::{RowDocument, TimeRange, UnpackBucket, data_of, left_over, no_bucket};
use crate::error::Result;
use crate::operation;
use crate::operation::memory::Reservation;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_column::{ColumnDecoder, ColumnValue};
use meridian_value::field::{self, Field, Fields};

/// Rows that are walked between two questions whether the statement is to end: few bytes may claim many.
const ROWS_UNCHECKED: usize = 4_096;

/// The values of a field that are still to come.
pub(super) struct CompressedColumn<'b> {
    name: &'b [u8],
    values: ColumnDecoder<'b>,
    memory: Reservation,
}

impl<'b> CompressedColumn<'b> {
    pub fn new(name: &'b [u8], values: ColumnDecoder<'b>) -> Self {
        Self {
            name,
            values,
            memory: Reservation::none(),
        }
    }

    /// The field's name.
    pub fn name(&self) -> &'b [u8] {
        self.name
    }

    /// The value of the next row, if that has one.
    ///
    /// # Errors
    /// Columns that are malformed, or have no such row.
    #[inline]
    pub fn next(&mut self) -> Result<Option<ColumnValue<'b>>> {
        let value = self.values.next().transpose();
        let value = value.map_err(|error| bad_column(self.name, &error))?;
        self.hold_memory()?;
        value.ok_or_else(|| no_bucket("a column ends before all measurements have their values"))
    }

    /// Appends the doubles of the rows that come, as long as there is nothing else, of so many rows at most, which are few;
    /// returns of how many rows.
    ///
    /// # Errors
    /// Columns that are malformed.
    pub fn next_doubles(&mut self, rows: usize, out: &mut Vec<f64>) -> Result<usize> {
        let passed = self.values.next_doubles(rows, out);
        passed.map_err(|error| bad_column(self.name, &error))
    }

    /// Passes over the values of measurements that are not wanted.
    pub fn skip(&mut self, rows: usize) -> Result<()> {
        let mut left = rows;
        while left > 0 {
            operation::check()?;
            let skipped = self.values.skip_rows(left.min(ROWS_UNCHECKED));
            let skipped = skipped.map_err(|error| bad_column(self.name, &error))?;
            self.hold_memory()?;
            if skipped == 0 {
                break;
            }
            left -= skipped;
        }
        Ok(())
    }

    /// Documents of many fields take some thirty times as much as their column.
    fn hold_memory(&mut self) -> Result<()> {
        match self.values.memory_bytes() {
            0 => Ok(()),
            bytes => self.memory.grow(bytes),
        }
    }
}

/// The times of a compressed bucket, row by row.
#[derive(Clone)]
pub(super) struct CompressedTimes<'b> {
    name: &'b [u8],
    values: ColumnDecoder<'b>,
    /// Some that were decoded together, in milliseconds, ...
    decoded: Vec<i64>,
    /// ... and how many of them were handed out.
    taken: usize,
    ascend: bool,
}

impl<'b> CompressedTimes<'b> {
    pub fn new(name: &'b [u8], values: ColumnDecoder<'b>) -> Self {
        Self {
            name,
            values,
            decoded: Vec::new(),
            taken: 0,
            ascend: true,
        }
    }

    /// Times that are known.
    fn decoded(name: &'b [u8], decoded: Vec<i64>) -> Self {
        let nothing_more = ColumnDecoder::new(&[0]);
        Self {
            decoded,
            ascend: false,
            ..Self::new(name, nothing_more)
        }
    }

    /// The next one, in milliseconds; none at the end.
    ///
    /// # Errors
    /// Columns that are malformed, and measurements without a time.
    #[inline]
    pub fn next(&mut self) -> Result<Option<i64>> {
        if self.taken == self.decoded.len() {
            self.decode()?;
        }
        let time = self.decoded.get(self.taken).copied();
        self.taken += usize::from(time.is_some());
        Ok(time)
    }

    /// The number of the newest of those that come; of equals the first.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn latest(mut self) -> Result<usize> {
        let (mut latest, mut number, mut passed) = (i64::MIN, 0, 0);
        while let Some(time) = self.next()? {
            if time > latest {
                (latest, number) = (time, passed);
            }
            passed += 1;
        }
        Ok(number)
    }

    /// Passes over times that are not wanted, and returns how many there were and the one that is, if there is one. Those
    /// of compressed buckets ascend: behind the last that is wanted none is read.
    ///
    /// # Errors
    /// As [`Self::next`].
    #[inline]
    pub fn find(&mut self, wanted: TimeRange) -> Result<(usize, Option<i64>)> {
        let mut passed = 0;
        loop {
            let ahead = &self.decoded[self.taken..];
            if let Some(place) = ahead.iter().position(|time| wanted.holds(*time)) {
                let found = ahead[place];
                self.taken += place + 1;
                return Ok((passed + place, Some(found)));
            }
            passed += ahead.len();
            if self.ascend && ahead.last().is_some_and(|last| *last > wanted.until) {
                return Ok((passed, None));
            }
            self.decode()?;
            if self.decoded.is_empty() {
                return Ok((passed, None));
            }
        }
    }

    /// Appends the times that come, as long as they are in a range, until there are so many.
    fn take_within(&mut self, range: TimeRange, most: usize, out: &mut Vec<i64>) -> Result<()> {
        while out.len() < most {
            if self.taken == self.decoded.len() {
                self.decode()?;
            }
            let ahead = &self.decoded[self.taken..];
            let ahead = &ahead[..ahead.len().min(most - out.len())];
            let outside = ahead.iter().position(|time| !range.holds(*time));
            let within = outside.unwrap_or(ahead.len());
            out.extend_from_slice(&ahead[..within]);
            self.taken += within;
            if outside.is_some() || ahead.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<()> {
        operation::check()?;
        self.decoded.clear();
        self.taken = 0;
        let decoded = self.values.next_dates(ROWS_UNCHECKED, &mut self.decoded);
        decoded.map_err(|error| bad_column(self.name, &error))
    }
}

/// The values of a field in a bucket that is not compressed.
struct PlainColumn<'b> {
    values: Fields<'b>,
    rows: RowCounter,
    /// The next value, and its row.
    ahead: Option<(usize, Field<'b>)>,
    /// The row that comes.
    row: usize,
}

impl<'b> PlainColumn<'b> {
    fn new(values: &'b RawDocument) -> Result<Self> {
        let mut own = Self {
            values: field::fields(values),
            rows: RowCounter::default(),
            ahead: None,
            row: 0,
        };
        own.advance()?;
        Ok(own)
    }

    fn advance(&mut self) -> Result<()> {
        self.ahead = match self.values.next() {
            None => None,
            Some(value) => {
                let row = self.rows.pass(&value);
                let row = row.ok_or_else(|| no_bucket("a column's rows do not ascend"))?;
                Some((row, value))
            }
        };
        Ok(())
    }

    /// The value of the next row, if that has one.
    fn next(&mut self) -> Result<Option<Field<'b>>> {
        let row = self.row;
        self.row += 1;
        match self.ahead.filter(|(own, _)| *own == row) {
            None => Ok(None),
            Some((_, value)) => {
                self.advance()?;
                Ok(Some(value))
            }
        }
    }

    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        while self.ahead.is_some_and(|(row, _)| row < self.row) {
            self.advance()?;
        }
        Ok(())
    }
}

/// The values of a field in a bucket of either kind.
enum MeasuredColumn<'b> {
    Compressed(CompressedColumn<'b>),
    Plain(PlainColumn<'b>),
}

impl MeasuredColumn<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        match self {
            Self::Compressed(column) => column.skip(rows),
            Self::Plain(column) => column.skip(rows),
        }
    }

    /// As [`CompressedColumn::next_doubles`].
    fn next_doubles(&mut self, rows: usize, out: &mut Vec<f64>) -> Result<usize> {
        let column = match self {
            Self::Compressed(column) => return column.next_doubles(rows, out),
            Self::Plain(column) => column,
        };
        let mut passed = 0;
        while passed < rows
            && let Some((row, value)) = column.ahead
            && let (0x01, Ok(bytes)) = (value.kind(), value.bytes().try_into())
        {
            // (Those before it have none.)
            if row > column.row {
                let gap = (row - column.row).min(rows - passed);
                column.row += gap;
                passed += gap;
                continue;
            }
            out.push(f64::from_le_bytes(bytes));
            column.row += 1;
            passed += 1;
            column.advance()?;
        }
        Ok(passed)
    }

    /// Hands out the value of the next row, if that has one.
    fn next(&mut self, each: &mut dyn FnMut(MeasuredValues<'_>) -> Result<()>) -> Result<()> {
        let mut one = |value: RawBsonRef<'_>| each(MeasuredValues::One(value));
        match self {
            Self::Compressed(column) => match column.next()? {
                Some(value) => with_value(&value, &mut one),
                None => each(MeasuredValues::Missing(1)),
            },
            Self::Plain(column) => match column.next()? {
                Some(value) => one(value
                    .value()
                    .ok_or_else(|| no_bucket("a value is malformed"))?),
                None => each(MeasuredValues::Missing(1)),
            },
        }
    }
}

/// The measurements of a bucket, run by run.
pub struct BucketColumns<'b> {
    unpack: &'b UnpackBucket,
    meta: Option<Field<'b>>,
    times: CompressedTimes<'b>,
    /// In the order of the names; none where the bucket has no such field.
    columns: Vec<Option<MeasuredColumn<'b>>>,
    /// Times of the last run.
    run: Vec<i64>,
    /// Time and metadata of its first measurement.
    first: RowDocument,
    doubles: Vec<f64>,
}

/// Values of one field that follow one another.
pub enum MeasuredValues<'v> {
    /// Doubles, of some rows; others of these rows have no value.
    Doubles(&'v [f64]),
    /// Of one row.
    One(RawBsonRef<'v>),
    /// None, in so many rows.
    Missing(usize),
}

impl UnpackBucket {
    /// The columns of these fields, which are neither the time nor the metadata; none where the bucket is not as we write
    /// them, or only its newest measurement is wanted.
    ///
    /// # Errors
    /// A document that is no bucket.
    pub fn columns<'b>(
        &'b self,
        bucket: &'b RawDocument,
        names: impl Iterator<Item = &'b str>,
    ) -> Result<Option<BucketColumns<'b>>> {
        let version = version_of(bucket).filter(|_| !self.latest_only);
        let is_compressed = match version {
            Some(version @ (1 | 2)) => version == 2,
            _ => return Ok(None),
        };
        let data = data_of(bucket)?;
        let time = self.time_field.as_bytes();
        let times = field::find(data, time);
        let times = times.ok_or_else(|| no_bucket("it has no column of times"))?;
        let times = match is_compressed {
            true => Some(CompressedTimes::new(time, compressed_values(&times)?)),
            false => plain_times(&times).map(|decoded| CompressedTimes::decoded(time, decoded)),
        };
        let Some(times) = times else {
            return Ok(None);
        };
        let column = |name: &'b str| {
            let Some(column) = field::find(data, name.as_bytes()) else {
                return Ok(None);
            };
            let values = || column.value().and_then(|values| values.as_document());
            Ok(Some(match is_compressed {
                true => MeasuredColumn::Compressed(CompressedColumn::new(
                    name.as_bytes(),
                    compressed_values(&column)?,
                )),
                false => MeasuredColumn::Plain(PlainColumn::new(
                    values().ok_or_else(|| no_bucket("a column is no object"))?,
                )?),
            }))
        };
        Ok(Some(BucketColumns {
            unpack: self,
            meta: self.meta_of(bucket),
            times,
            columns: names.map(column).collect::<Result<_>>()?,
            run: Vec::new(),
            first: RowDocument::default(),
            doubles: Vec::new(),
        }))
    }
}

fn compressed_values<'b>(column: &Field<'b>) -> Result<ColumnDecoder<'b>> {
    compressed_column(column).ok_or_else(|| no_bucket("a column is not compressed"))
}

/// The times of a compressed bucket.
///
/// # Errors
/// A document that is no bucket.
pub(super) fn compressed_times<'b>(
    bucket: &'b RawDocument,
    time_field: &'b str,
) -> Result<CompressedTimes<'b>> {
    let name = time_field.as_bytes();
    let times = field::find(data_of(bucket)?, name);
    let times = times.ok_or_else(|| no_bucket("it has no column of times"))?;
    Ok(CompressedTimes::new(name, compressed_values(&times)?))
}

/// The times of a bucket that is not compressed; none where they are not as we write them, or very many.
fn plain_times(times: &Field<'_>) -> Option<Vec<i64>> {
    let times = times.value()?.as_document()?;
    let (mut rows, mut decoded) = (RowCounter::default(), Vec::new());
    for time in field::fields(times) {
        let is_next = rows.pass(&time) == Some(decoded.len());
        if !is_next || decoded.len() == ROWS_UNCHECKED {
            return None;
        }
        decoded.push(time.value()?.as_datetime()?.timestamp_millis());
    }
    Some(decoded)
}

impl BucketColumns<'_> {
    /// Goes to the next measurements of wanted times that follow one another, and whose times are in the range that `around`
    /// gives for the first of them; false where there are none. Of the run before, every column was read.
    ///
    /// # Errors
    /// Columns that are malformed.
    pub fn next_run(&mut self, around: impl Fn(i64) -> Option<TimeRange>) -> Result<bool> {
        self.run.clear();
        let wanted = self.unpack.times;
        let (passed, first) = self.times.find(wanted)?;
        let Some(first) = first else {
            return self.check_end(passed).map(|()| false);
        };
        for column in self.columns.iter_mut().flatten() {
            column.skip(passed)?;
        }
        let range = around(first).map(|range| range.and(wanted));
        let range = range.filter(|range| range.holds(first));
        let alone = TimeRange {
            from: first,
            until: first,
        };
        let range = range.unwrap_or(alone);
        self.run.push(first);
        self.times
            .take_within(range, ROWS_UNCHECKED, &mut self.run)?;
        Ok(true)
    }

    /// At the end, so many rows behind the last run, checks that no value is left over.
    fn check_end(&mut self, passed: usize) -> Result<()> {
        for column in self.columns.iter_mut().flatten() {
            if let MeasuredColumn::Plain(column) = column {
                column.skip(passed)?;
                if column.ahead.is_some() {
                    return Err(left_over());
                }
            }
        }
        Ok(())
    }

    /// The times of the run, in milliseconds since 1970.
    pub fn times(&self) -> &[i64] {
        &self.run
    }

    /// The time and the metadata of the run's first measurement.
    ///
    /// # Errors
    /// Metadata that is malformed.
    pub fn first(&mut self) -> Result<&RawDocument> {
        let (unpack, meta) = (self.unpack, self.meta.as_ref());
        self.first.build(
            Some(unpack.time_field.as_bytes()),
            self.run.first().copied().unwrap_or_default(),
            |out| unpack.put_meta(out, meta),
            std::iter::empty(),
        )?;
        self.first.document()
    }

    /// Hands out the values of a column for all measurements of the run. Unless they are needed, measurements without a
    /// value may be left out.
    ///
    /// # Errors
    /// Columns that are malformed; those of `each`.
    pub fn read(
        &mut self,
        column: usize,
        needs_missing: bool,
        each: &mut dyn FnMut(MeasuredValues<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut left = self.run.len();
        let Some(column) = &mut self.columns[column] else {
            return each(MeasuredValues::Missing(left));
        };
        while left > 0 {
            self.doubles.clear();
            let passed = match needs_missing {
                true => 0,
                false => column.next_doubles(left, &mut self.doubles)?,
            };
            if passed > 0 {
                left -= passed;
                each(MeasuredValues::Doubles(&self.doubles))?;
                continue;
            }
            left -= 1;
            column.next(each)?;
        }
        Ok(())
    }
}
