//! Documents sorted by their distance: the plain way, for few documents.
//!
//! In: rows in any order. Out: those at a wanted distance, nearest first, equal distances by `_id`.

use super::sort::HeldRow;
use super::{Row, Rows};
use crate::error::Result;
use crate::query::Nearest;
use crate::sorter::{InOrder, Limits, TopSorter};
use bson::raw::RawBsonRef;
use meridian_value::key::{Direction, TypeBits, encode};

/// The input's rows, nearest first.
pub struct RankedRows {
    nearest: Nearest,
    /// Before the first row is asked for.
    input: Option<(Box<dyn Rows>, TopSorter<HeldRow>)>,
    sorted: Option<InOrder<HeldRow>>,
    current: Option<HeldRow>,
}

impl RankedRows {
    /// Sorts `input`; only the first `keep` rows are needed when given.
    pub fn new(input: Box<dyn Rows>, nearest: Nearest, keep: Option<u64>) -> Self {
        let sorter = TopSorter::new(keep, &Limits::default(), too_much);
        Self {
            nearest,
            input: Some((input, sorter)),
            sorted: None,
            current: None,
        }
    }

    fn sort(
        &self,
        mut input: Box<dyn Rows>,
        mut sorter: TopSorter<HeldRow>,
    ) -> Result<InOrder<HeldRow>> {
        let Nearest { path, near } = &self.nearest;
        while input.advance()? {
            let row = input.row();
            let Some(measured) = near.measure(row.document, path.parts()) else {
                continue;
            };
            if near.wants(measured.distance) {
                let distance = RawBsonRef::Double(measured.distance);
                let mut key = Vec::new();
                encode(
                    distance,
                    Direction::Ascending,
                    &mut key,
                    &mut TypeBits::new(),
                );
                key.extend_from_slice(row.id);
                sorter.push(key, || HeldRow::from(row))?;
            }
        }
        sorter.finish()
    }
}

/// A nearest-first query would hold more than it may.
pub(super) fn too_much(limit: usize) -> String {
    format!("a nearest-first query holds more than {limit} bytes; give a limit or a $maxDistance")
}

impl Rows for RankedRows {
    fn advance(&mut self) -> Result<bool> {
        if let Some((input, sorter)) = self.input.take() {
            self.sorted = Some(self.sort(input, sorter)?);
        }
        self.current = self.sorted.as_mut().and_then(Iterator::next).transpose()?;
        Ok(self.current.is_some())
    }

    fn row(&self) -> Row<'_> {
        let held = self.current.as_ref();
        held.expect("row is read after advance returned true").row()
    }
}
