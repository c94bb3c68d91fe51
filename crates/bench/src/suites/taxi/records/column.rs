//! One column of a file, whose values are read into records.
//!
//! The city changed the types over the years: times are timestamps of three
//! units, or text; numbers of passengers and zones are integers or doubles.
//! What a column may hold is decided when a file is opened, so that reading
//! meets only values that are wrong, not types.

use anyhow::{Context, anyhow, bail, ensure};
use chrono::NaiveDateTime;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::schema::types::ColumnDescriptor;

use super::record::{Column, Place, Record, Target};
use crate::suites::taxi::trip::{Name, name};

/// Times within the years 1 to 9999, which every target can store.
const TIMES_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;
const TEXT_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.f";

/// A column that a file has.
pub struct LocatedColumn {
    /// Its place in the file.
    pub index: usize,
    /// Its name in the file.
    pub name: String,
    column: &'static Column,
    /// The definition level of a value that is there.
    level: i16,
    /// Of times that are integers.
    ticks_a_ms: i64,
}

impl LocatedColumn {
    /// The column at that place of a file.
    ///
    /// # Errors
    /// When it holds something else than it should.
    pub fn new(
        index: usize,
        column: &'static Column,
        descriptor: &ColumnDescriptor,
    ) -> anyhow::Result<Self> {
        let readable = descriptor.max_rep_level() == 0 && is_readable(column.target, descriptor);
        ensure!(
            readable,
            "column {}: {} is not {} that can be read",
            descriptor.name(),
            type_name(descriptor),
            match column.target {
                Target::Time(_) => "a time",
                Target::Integer(_) | Target::Number(_) => "a number",
                Target::Name(_) => "a text",
            }
        );
        Ok(Self {
            index,
            name: descriptor.name().to_owned(),
            column,
            level: descriptor.max_def_level(),
            ticks_a_ms: ticks_a_ms(descriptor).unwrap_or(1),
        })
    }

    /// Whether it is the column of that name.
    pub fn is(&self, name: &str) -> bool {
        self.column.names.contains(&name)
    }

    /// Reads as many values as there are records, after `rows_before` of the file.
    ///
    /// # Errors
    /// Which row is wrong, or why the file cannot be read.
    pub fn read(
        &self,
        reader: &mut ColumnReader,
        rows_before: u64,
        records: &mut [Record],
    ) -> anyhow::Result<()> {
        let batch = Batch {
            level: self.level,
            rows_before,
            records,
        };
        match self.column.target {
            Target::Time(place) => self.read_times(reader, batch, place),
            Target::Integer(place) => read_integers(reader, batch, place),
            Target::Number(place) => read_numbers(reader, batch, place),
            Target::Name(place) => read_names(reader, batch, place),
        }
    }

    fn read_times(
        &self,
        reader: &mut ColumnReader,
        batch: Batch<'_>,
        place: Place<i64>,
    ) -> anyhow::Result<()> {
        let ticks = |ticks: &i64| check_time(ticks.div_euclid(self.ticks_a_ms));
        match reader {
            ColumnReader::Int64ColumnReader(reader) => batch.read(reader, place, ticks),
            ColumnReader::Int96ColumnReader(reader) => {
                batch.read(reader, place, |time| check_time(time.to_millis()))
            }
            ColumnReader::ByteArrayColumnReader(reader) => batch.read(reader, place, parse_time),
            _ => bail!("the type changed within the file"),
        }
    }
}

fn is_readable(target: Target, descriptor: &ColumnDescriptor) -> bool {
    let is_text = descriptor.physical_type() == Type::BYTE_ARRAY
        && matches!(
            descriptor.logical_type_ref(),
            None | Some(LogicalType::String)
        )
        && matches!(
            descriptor.converted_type(),
            ConvertedType::NONE | ConvertedType::UTF8
        );
    let is_number = is_plain_number(descriptor);
    let is_integer = is_number && matches!(descriptor.physical_type(), Type::INT32 | Type::INT64);
    match target {
        Target::Time(_) => {
            is_text || descriptor.physical_type() == Type::INT96 || ticks_a_ms(descriptor).is_some()
        }
        Target::Integer(_) | Target::Number(_) => is_number,
        Target::Name(_) => is_text || is_integer,
    }
}

/// Not a decimal, a date or another thing that is stored as a number.
fn is_plain_number(descriptor: &ColumnDescriptor) -> bool {
    let is_number = matches!(
        descriptor.physical_type(),
        Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE
    );
    is_number
        && match descriptor.logical_type_ref() {
            Some(LogicalType::Integer(integer)) => integer.is_signed,
            Some(_) => false,
            None => matches!(
                descriptor.converted_type(),
                ConvertedType::NONE
                    | ConvertedType::INT_8
                    | ConvertedType::INT_16
                    | ConvertedType::INT_32
                    | ConvertedType::INT_64
            ),
        }
}

fn ticks_a_ms(descriptor: &ColumnDescriptor) -> Option<i64> {
    if descriptor.physical_type() != Type::INT64 {
        return None;
    }
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Timestamp(timestamp)), _) => Some(match timestamp.unit {
            TimeUnit::MILLIS => 1,
            TimeUnit::MICROS => 1000,
            TimeUnit::NANOS => 1_000_000,
        }),
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some(1),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some(1000),
        _ => None,
    }
}

fn type_name(descriptor: &ColumnDescriptor) -> String {
    let physical = descriptor.physical_type();
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(logical), _) => format!("{physical} ({logical:?})"),
        (None, ConvertedType::NONE) => physical.to_string(),
        (None, converted) => format!("{physical} ({converted})"),
    }
}

fn read_integers(
    reader: &mut ColumnReader,
    batch: Batch<'_>,
    place: Place<i32>,
) -> anyhow::Result<()> {
    match reader {
        ColumnReader::Int32ColumnReader(reader) => batch.read(reader, place, |n| Ok(Some(*n))),
        ColumnReader::Int64ColumnReader(reader) => batch.read(reader, place, |n| {
            let small = i32::try_from(*n);
            Ok(Some(small.map_err(|_| anyhow!("{n} is too large"))?))
        }),
        ColumnReader::FloatColumnReader(reader) => {
            batch.read(reader, place, |n| whole(f64::from(*n)))
        }
        ColumnReader::DoubleColumnReader(reader) => batch.read(reader, place, |n| whole(*n)),
        _ => bail!("the type changed within the file"),
    }
}

fn read_numbers(
    reader: &mut ColumnReader,
    batch: Batch<'_>,
    place: Place<f64>,
) -> anyhow::Result<()> {
    let known = |number: f64| Ok((!number.is_nan()).then_some(number));
    match reader {
        ColumnReader::Int32ColumnReader(reader) => {
            batch.read(reader, place, |n| Ok(Some(f64::from(*n))))
        }
        ColumnReader::Int64ColumnReader(reader) => {
            batch.read(reader, place, |n| Ok(Some(*n as f64)))
        }
        ColumnReader::FloatColumnReader(reader) => {
            batch.read(reader, place, |n| known(f64::from(*n)))
        }
        ColumnReader::DoubleColumnReader(reader) => batch.read(reader, place, |n| known(*n)),
        _ => bail!("the type changed within the file"),
    }
}

fn read_names(
    reader: &mut ColumnReader,
    batch: Batch<'_>,
    place: Place<Name>,
) -> anyhow::Result<()> {
    match reader {
        ColumnReader::Int32ColumnReader(reader) => {
            batch.read(reader, place, |n| name(&n.to_string()).map(Some))
        }
        ColumnReader::Int64ColumnReader(reader) => {
            batch.read(reader, place, |n| name(&n.to_string()).map(Some))
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            batch.read(reader, place, |bytes| name(text(bytes)?).map(Some))
        }
        _ => bail!("the type changed within the file"),
    }
}

/// Records whose next value is read.
struct Batch<'a> {
    /// The definition level of a value that is there.
    level: i16,
    rows_before: u64,
    records: &'a mut [Record],
}

impl Batch<'_> {
    /// Reads a value for each record where there is one; `convert` may find that it is none.
    fn read<D: DataType, T>(
        self,
        reader: &mut ColumnReaderImpl<D>,
        place: Place<T>,
        convert: impl Fn(&D::T) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<()> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (rows, ..) =
            reader.read_records(self.records.len(), Some(&mut levels), None, &mut values)?;
        ensure!(
            rows == self.records.len(),
            "the file ends after row {}",
            self.rows_before + rows as u64
        );
        let mut values = values.iter();
        for (row, record) in self.records.iter_mut().enumerate() {
            if self.level > 0 && levels[row] < self.level {
                continue;
            }
            let value = values.next().context("fewer values than rows")?;
            *place(record) = convert(value)
                .with_context(|| format!("row {}", self.rows_before + row as u64 + 1))?;
        }
        Ok(())
    }
}

fn check_time(unix_ms: i64) -> anyhow::Result<Option<i64>> {
    ensure!(
        TIMES_MS.contains(&unix_ms),
        "a time beyond the years 1 to 9999"
    );
    Ok(Some(unix_ms))
}

fn text(bytes: &ByteArray) -> anyhow::Result<&str> {
    std::str::from_utf8(bytes.data()).context("not UTF-8")
}

fn parse_time(bytes: &ByteArray) -> anyhow::Result<Option<i64>> {
    let text = text(bytes)?;
    let time = NaiveDateTime::parse_from_str(text, TEXT_FORMAT)
        .map_err(|_| anyhow!("{text:?} is not a time like 2009-01-04 02:52:00"))?;
    check_time(time.and_utc().timestamp_millis())
}

/// The number as an integer; NaN stands for one that is missing.
fn whole(number: f64) -> anyhow::Result<Option<i32>> {
    if number.is_nan() {
        return Ok(None);
    }
    let integer = number as i32;
    ensure!(
        f64::from(integer) == number,
        "{number} is not a whole number, or too large"
    );
    Ok(Some(integer))
}
