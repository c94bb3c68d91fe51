//! The iterator over a column's rows.

use crate::decode::Stream;
use crate::error::{ColumnError, Result};
use crate::rebuild::Interleaved;
use crate::value::ColumnValue;

/// The rows of a column, in order: `None` where a row has no value.
///
/// It trusts nothing. Memory is bounded by the column's size, but a few bytes may claim any number of rows, and each
/// row of documents may be as long as the column: the caller stops at the count of rows it expects, and adds up the
/// bytes where that matters. After an error it ends.
///
/// ```
/// use meridian_column::{ColumnDecoder, ColumnEncoder};
/// let mut encoder = ColumnEncoder::default();
/// encoder.push(0x10, &7_i32.to_le_bytes())?;
/// encoder.skip();
/// let column = encoder.finish();
/// let rows: Vec<_> = ColumnDecoder::new(&column).collect::<Result<_, _>>()?;
/// assert_eq!(rows[0].as_ref().unwrap().bytes(), 7_i32.to_le_bytes());
/// assert_eq!(rows[1], None);
/// assert_eq!(rows.len(), 2);
/// # Ok::<(), meridian_column::ColumnError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ColumnDecoder<'a> {
    column: &'a [u8],
    /// The next literal, block or reference document.
    at: usize,
    stream: Stream<'a>,
    interleaved: Option<Box<Interleaved<'a>>>,
    is_over: bool,
}

impl<'a> ColumnDecoder<'a> {
    /// Decodes the bytes of the binary, without its subtype.
    pub fn new(column: &'a [u8]) -> Self {
        Self {
            column,
            at: 0,
            stream: Stream::default(),
            interleaved: None,
            is_over: false,
        }
    }

    /// Bytes that it holds in memory beside itself: some hundred for each field of documents that are interleaved, none for
    /// other values.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.interleaved
            .as_ref()
            .map_or(0, |interleaved| interleaved.memory_bytes())
    }

    /// Passes over rows without making their values, and returns how many there were. Where few bytes may claim many rows,
    /// ask for few at once.
    ///
    /// # Errors
    /// As of the rows themselves.
    pub fn skip_rows(&mut self, rows: usize) -> Result<usize> {
        let mut passed = 0;
        while passed < rows {
            let skipped = self.stream.skip_in_block(rows - passed);
            let skipped = skipped.inspect_err(|_| self.end())?;
            passed += skipped;
            if skipped > 0 {
                continue;
            }
            match self.next().transpose()? {
                None => break,
                Some(_) => passed += 1,
            }
        }
        Ok(passed)
    }

    /// Appends the doubles of the rows that come, of so many rows at most, as long as they are in a block of doubles; returns
    /// of how many rows, of which those without a value add nothing. 0 says nothing of the row that comes: ask for that by
    /// itself. Where few bytes may claim many rows, ask for few at once.
    ///
    /// # Errors
    /// As of the rows themselves.
    pub fn next_doubles(&mut self, rows: usize, out: &mut Vec<f64>) -> Result<usize> {
        if self.interleaved.is_some() || !self.stream.is_of_doubles() {
            return Ok(0);
        }
        let passed = self.stream.doubles_in_block(rows, out);
        passed.inspect_err(|_| self.end())
    }

    /// Appends the next rows of a column of dates, so many at most, in milliseconds since 1970. Fewer are no sign of its end:
    /// none are.
    ///
    /// # Errors
    /// As of the rows themselves, values that are no dates, and rows without one.
    pub fn next_dates(&mut self, rows: usize, out: &mut Vec<i64>) -> Result<()> {
        let before = out.len();
        if self.interleaved.is_none() && self.stream.is_of_dates() {
            let are_all = self.stream.dates_in_block(rows, out);
            if !are_all.inspect_err(|_| self.end())? {
                return Err(self.without_date());
            }
        }
        if out.len() == before
            && let Some(row) = self.next().transpose()?
        {
            let value = row.ok_or_else(|| self.without_date())?;
            out.push(self.date_of(&value)?);
        }
        Ok(())
    }

    fn without_date(&self) -> ColumnError {
        ColumnError::new("a row without a date", self.at)
    }

    fn date_of(&self, value: &ColumnValue<'_>) -> Result<i64> {
        let bytes = value.bytes().try_into().ok();
        let bytes = bytes.filter(|_| value.kind() == 0x09);
        let millis = bytes.map(i64::from_le_bytes);
        millis.ok_or_else(|| ColumnError::new("a value that is no date", self.at))
    }

    #[cold]
    fn end(&mut self) {
        self.is_over = true;
        self.stream = Stream::default();
    }

    /// The next row, wherever it is.
    #[inline(never)]
    fn row(&mut self) -> Result<Option<Option<ColumnValue<'a>>>> {
        if self.is_over {
            return Ok(None);
        }
        if let Some(row) = self.stream.next()? {
            return Ok(Some(row));
        }
        loop {
            if let Some(interleaved) = &mut self.interleaved {
                if let Some(row) = interleaved.next(self.column, &mut self.at)? {
                    return Ok(Some(row));
                }
                self.interleaved = None;
            }
            let control = self.column.get(self.at).copied();
            match control.ok_or_else(|| ColumnError::new("a column without its end", self.at))? {
                0 if self.at + 1 == self.column.len() => return Ok(None),
                0 => {
                    return Err(ColumnError::new(
                        "bytes after the end of the column",
                        self.at + 1,
                    ));
                }
                0xF0..=0xF2 => {
                    let (interleaved, after) = Interleaved::begin(self.column, self.at)?;
                    self.interleaved = Some(Box::new(interleaved));
                    self.stream = Stream::default();
                    self.at = after;
                }
                1..0x20 => {
                    self.at = self.stream.load(self.column, self.at)?;
                    return Ok(Some(Some(self.stream.last())));
                }
                _ => {
                    self.at = self.stream.load(self.column, self.at)?;
                    if let Some(row) = self.stream.next()? {
                        return Ok(Some(row));
                    }
                }
            }
        }
    }
}

impl<'a> Iterator for ColumnDecoder<'a> {
    type Item = Result<Option<ColumnValue<'a>>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.stream.is_in_word() {
            let row = self.stream.next_in_word();
            if row.is_err() {
                self.end();
            }
            return Some(row);
        }
        let row = self.row().transpose();
        if !matches!(row, Some(Ok(_))) {
            self.end();
        }
        row
    }
}

impl std::iter::FusedIterator for ColumnDecoder<'_> {}
