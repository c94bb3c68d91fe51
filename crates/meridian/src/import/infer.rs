//! Types of columns that declare none: the narrowest that takes every value of the first rows.

use super::columns::Column;
use super::value::{ColumnType, guess};

/// Rows that are looked at.
pub const SAMPLE_ROWS: usize = 10_000;

/// Gives each column without a type the narrowest one that takes all its sampled values.
/// A column without any value is left to be read value by value.
pub fn infer(columns: &mut [Column], sample: &[csv::ByteRecord]) {
    for (number, column) in columns.iter_mut().enumerate() {
        if column.kind.is_none() {
            let values = sample
                .iter()
                .filter_map(|row| row.get(number))
                .filter(|text| !text.is_empty());
            let kinds = values.map(guess);
            column.kind = Some(kinds.reduce(widen).unwrap_or(ColumnType::Auto));
        }
    }
}

fn widen(one: ColumnType, other: ColumnType) -> ColumnType {
    match (one, other) {
        (one, other) if one == other => one,
        (ColumnType::Integer, ColumnType::Double) | (ColumnType::Double, ColumnType::Integer) => {
            ColumnType::Double
        }
        _ => ColumnType::String,
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::untyped;
    use super::*;

    #[test]
    fn a_row_of_the_weather_evaluation_is_recognised_as_it_stands() {
        let names = "indexnum,startdatetime,location,name,reading,empty,code";
        let rows = [
            [
                "1",
                "2017-12-01 10:20:30",
                "POINT(2.551103 45.88168)",
                "Hurricane Approaching",
                "50",
                "",
                "7",
            ],
            [
                "2",
                "2017-12-01 10:20:31",
                "POINT(2.6 45.9)",
                "",
                "50.25",
                "",
                "x7",
            ],
        ];
        let sample: Vec<csv::ByteRecord> = rows
            .iter()
            .map(|row| csv::ByteRecord::from(row.to_vec()))
            .collect();
        let mut columns = untyped(names.split(','));
        infer(&mut columns, &sample);
        let kinds: Vec<ColumnType> = columns
            .into_iter()
            .filter_map(|column| column.kind)
            .collect();
        assert_eq!(
            kinds,
            [
                ColumnType::Integer,
                ColumnType::Date,
                ColumnType::Point,
                ColumnType::String,
                ColumnType::Double,
                ColumnType::Auto,
                ColumnType::String,
            ]
        );
    }
}
