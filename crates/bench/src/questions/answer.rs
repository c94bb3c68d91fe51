//! Answers of millions of rows, compared without being kept: how many rows, and a fingerprint of
//! them in any order.

use std::fmt;

/// What a column of an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of 32 or 64 bits.
    Whole,
    /// A double.
    Number,
    /// A text.
    Text,
    /// A time, compared in milliseconds.
    Time,
    /// A double, compared to six decimals: servers may add its parts in any order.
    Rounded,
}

/// A column that is compared.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Where it is in a document, with dots; a number is a place in an array.
    pub path: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// A column of a kind at a path.
pub const fn column(path: &'static str, kind: Kind) -> Column {
    Column { path, kind }
}

/// Where rounding goes up. At a half the last bit would decide on averages of round numbers, which lie there often.
const OFF_CENTRE: f64 = 0.618_034;

/// One row as it is compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row(u64);

impl Row {
    /// A row without columns; they are appended in their order.
    pub fn new() -> Self {
        Self(0)
    }

    /// Appends a whole number, or a time in milliseconds.
    pub fn whole(self, value: i64) -> Self {
        Self(scatter(self.0 ^ value as u64))
    }

    /// Appends a double, all bits of which count.
    pub fn number(self, value: f64) -> Self {
        Self(scatter(self.0 ^ value.to_bits()))
    }

    /// Appends a text.
    pub fn text(self, value: &str) -> Self {
        let bytes = value.bytes();
        let row = bytes.fold(self, |row, byte| row.whole(byte.into()));
        row.whole(value.len() as i64)
    }

    /// Appends a double to six decimals.
    pub fn rounded(self, value: f64) -> Self {
        self.whole((value * 1e6 + OFF_CENTRE).floor() as i64)
    }
}

/// The finaliser of SplitMix64 after a step of its sequence.
fn scatter(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Rows in it.
    pub rows: u64,
    /// Of all rows, in whatever order; none where only their number can be compared.
    pub fingerprint: Option<u64>,
}

impl Default for Answer {
    /// Of no rows.
    fn default() -> Self {
        Self {
            rows: 0,
            fingerprint: Some(0),
        }
    }
}

impl Answer {
    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.rows += 1;
        self.fingerprint = self.fingerprint.map(|sum| sum.wrapping_add(row.0));
    }

    /// The same number of rows without a fingerprint.
    pub fn only_rows(self) -> Self {
        Self {
            fingerprint: None,
            ..self
        }
    }

    /// Whether both have as many rows and, where both have a fingerprint, the same ones.
    pub fn agrees_with(self, other: Self) -> bool {
        let fingerprints = self.fingerprint.zip(other.fingerprint);
        self.rows == other.rows && fingerprints.is_none_or(|(one, other)| one == other)
    }
}

impl FromIterator<Row> for Answer {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        let mut answer = Self::default();
        rows.into_iter().for_each(|row| answer.add(row));
        answer
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} rows", self.rows)?;
        self.fingerprint
            .map_or(Ok(()), |sum| write!(out, " with fingerprint {sum:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_in_any_order_and_columns_in_theirs() {
        let row = |whole, text: &str| Row::new().whole(whole).text(text).number(0.5);
        let answer: Answer = [row(1, "a"), row(2, "b")].into_iter().collect();
        let turned: Answer = [row(2, "b"), row(1, "a")].into_iter().collect();
        assert!(answer.agrees_with(turned));
        for wrong in [
            [row(1, "a"), row(2, "a")],
            [row(1, "b"), row(2, "a")],
            [Row::new().text("a").whole(1).number(0.5), row(2, "b")],
            [Row::new().whole(1).text("a").number(0.5000001), row(2, "b")],
        ] {
            let wrong: Answer = wrong.into_iter().collect();
            assert!(!answer.agrees_with(wrong));
            assert!(answer.agrees_with(wrong.only_rows()));
        }
        let shorter: Answer = [row(1, "a")].into_iter().collect();
        assert!(!answer.agrees_with(shorter.only_rows()));
    }

    #[test]
    fn texts_end_where_they_end_and_doubles_are_rounded() {
        let rows = [
            Row::new().text("a").text("bc"),
            Row::new().text("ab").text("c"),
        ];
        assert_ne!(rows[0].0, rows[1].0);
        assert_eq!(
            Row::new().rounded(0.75 + 1e-12).0,
            Row::new().rounded(0.75 - 1e-12).0
        );
        assert_eq!(
            Row::new().rounded(0.000_000_5 + 1e-12).0,
            Row::new().rounded(0.000_000_5 - 1e-12).0
        );
        assert_ne!(Row::new().rounded(0.75).0, Row::new().rounded(0.751).0);
    }
}
