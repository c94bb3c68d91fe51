//! Parquet files for tests, in the schemas of the city's.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// 2023-01-01T00:00:00, in milliseconds since 1970.
pub const YEAR_2023_MS: i64 = 1_672_531_200_000;
/// Milliseconds of a minute.
pub const MINUTE_MS: i64 = 60_000;

/// The values of a column, `None` where there is none.
#[derive(Clone)]
pub enum Cells {
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Int96(Vec<Option<Int96>>),
    Double(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Cells {
    /// Texts, none missing.
    pub fn text(texts: &[&str]) -> Self {
        Self::Text(texts.iter().map(|text| Some((*text).to_owned())).collect())
    }

    /// Some of them.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        match self {
            Self::Int32(cells) => Self::Int32(cells[rows].to_vec()),
            Self::Int64(cells) => Self::Int64(cells[rows].to_vec()),
            Self::Int96(cells) => Self::Int96(cells[rows].to_vec()),
            Self::Double(cells) => Self::Double(cells[rows].to_vec()),
            Self::Text(cells) => Self::Text(cells[rows].to_vec()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Int32(cells) => cells.len(),
            Self::Int64(cells) => cells.len(),
            Self::Int96(cells) => cells.len(),
            Self::Double(cells) => cells.len(),
            Self::Text(cells) => cells.len(),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) {
        match self {
            Self::Int32(cells) => write_cells::<Int32Type>(column, cells.clone()),
            Self::Int64(cells) => write_cells::<Int64Type>(column, cells.clone()),
            Self::Int96(cells) => write_cells::<Int96Type>(column, cells.clone()),
            Self::Double(cells) => write_cells::<DoubleType>(column, cells.clone()),
            Self::Text(cells) => {
                let bytes = cells.iter().cloned();
                let bytes = bytes.map(|text| text.map(|text| ByteArray::from(text.into_bytes())));
                write_cells::<ByteArrayType>(column, bytes.collect());
            }
        }
    }
}

fn write_cells<D: DataType>(column: &mut SerializedColumnWriter<'_>, cells: Vec<Option<D::T>>) {
    let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
    let values: Vec<D::T> = cells.into_iter().flatten().collect();
    let written = column
        .typed::<D>()
        .write_batch(&values, Some(&levels), None);
    written.expect("the column is written");
}

/// A column: its type and name as Parquet's text form has them, and its values.
pub type TextColumn = (&'static str, Cells);

/// Writes a file with so many rows in a group.
pub fn write(path: &Path, columns: &[TextColumn], compression: Compression, group_rows: usize) {
    let declared = columns.iter().map(|(column, _)| {
        let (name, annotation) = column.split_once('/').unwrap_or((column, ""));
        format!("OPTIONAL {name} {annotation};")
    });
    let schema = format!("message trips {{ {} }}", declared.collect::<String>());
    let schema = parse_message_type(&schema).expect("a schema");
    let properties = WriterProperties::builder().set_compression(compression);
    let file = File::create(path).expect("a file");
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
            .expect("a writer");
    let rows = columns[0].1.len();
    for start in (0..rows).step_by(group_rows) {
        let mut group = writer.next_row_group().expect("a row group");
        for (_, cells) in columns {
            let mut column = group.next_column().expect("a column").expect("one more");
            let end = rows.min(start + group_rows);
            cells.part(start..end).write(&mut column);
            column.close().expect("the column ends");
        }
        group.close().expect("the row group ends");
    }
    writer.close().expect("the file ends");
}

/// Yellow trips of today's schema: `rows` of them, an hour apart.
pub fn yellow(rows: i64) -> Vec<TextColumn> {
    let every =
        |cell: &dyn Fn(i64) -> f64| Cells::Double((0..rows).map(|n| Some(cell(n))).collect());
    let time = |minutes: i64| {
        let micros = |n| (YEAR_2023_MS + (n * 60 + minutes) * MINUTE_MS) * 1000;
        Cells::Int64((0..rows).map(|n| Some(micros(n))).collect())
    };
    let passengers = (0..rows).map(|n| (n % 4 > 0).then_some((n % 4) as f64));
    vec![
        (
            "INT64 VendorID/",
            Cells::Int64(vec![Some(2); rows as usize]),
        ),
        (
            "INT64 tpep_pickup_datetime/(TIMESTAMP(MICROS,false))",
            time(0),
        ),
        (
            "INT64 tpep_dropoff_datetime/(TIMESTAMP(MICROS,false))",
            time(7),
        ),
        (
            "DOUBLE passenger_count/",
            Cells::Double(passengers.collect()),
        ),
        ("DOUBLE trip_distance/", every(&|n| n as f64 / 10.0)),
        (
            "BYTE_ARRAY store_and_fwd_flag/(STRING)",
            Cells::Text(vec![Some("N".into()); rows as usize]),
        ),
        (
            "INT64 PULocationID/",
            Cells::Int64((0..rows).map(|n| Some(n % 263 + 1)).collect()),
        ),
        (
            "INT64 DOLocationID/",
            Cells::Int64((0..rows).map(|n| Some(n % 200 + 1)).collect()),
        ),
        ("DOUBLE fare_amount/", every(&|n| n as f64 / 4.0 + 3.0)),
        ("DOUBLE extra/", every(&|_| 1.0)),
        ("DOUBLE tip_amount/", every(&|n| (n % 5) as f64)),
        ("DOUBLE tolls_amount/", every(&|_| 0.0)),
        ("DOUBLE total_amount/", every(&|n| n as f64 / 4.0 + 5.5)),
        (
            "DOUBLE Airport_fee/",
            Cells::Double(vec![None; rows as usize]),
        ),
    ]
}

/// The least columns that make a file of trips, with other ones for some of them.
pub fn least(others: &[TextColumn]) -> Vec<TextColumn> {
    let at = |time: &str| Cells::text(&[time, time]);
    let mut columns = vec![
        (
            "BYTE_ARRAY Trip_Pickup_DateTime/",
            at("2009-01-04 02:52:00"),
        ),
        (
            "BYTE_ARRAY Trip_Dropoff_DateTime/",
            at("2009-01-04 03:02:30"),
        ),
        (
            "DOUBLE Trip_Distance/",
            Cells::Double(vec![Some(2.6), Some(0.5)]),
        ),
    ];
    for (column, cells) in others {
        let name = |column: &str| column.split(['/', ' ']).nth(1).map(str::to_owned);
        match columns
            .iter_mut()
            .find(|(known, _)| name(known) == name(column))
        {
            Some(known) => *known = (*column, cells.clone()),
            None => columns.push((*column, cells.clone())),
        }
    }
    columns
}
