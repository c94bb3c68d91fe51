//! The plane of a 2d index and its square cells.
//!
//! In: pairs of numbers. Out: cells of 30 levels, numbered along a Z-order curve in the form of S2 cell
//! ids on one face, so that a cell is one range of ids and all arithmetic on ids serves both. The index
//! option `bits` is checked and listed; cells are always this fine, since entries hold exact numbers.

use super::parse::{elements, number};
use super::text::{document_text, stream_number};
use crate::{Error, Result};
use bson::{RawBsonRef, RawDocument};
use s2rst::s2::CellId;

const LEVELS: u32 = 30;
/// Cells along each side.
const CELLS: f64 = (1_u64 << LEVELS) as f64;

/// The square that the pairs of an index lie in; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaneGrid {
    /// The least coordinate.
    pub min: f64,
    /// The greatest coordinate.
    pub max: f64,
}

impl Default for PlaneGrid {
    fn default() -> Self {
        Self {
            min: -180.0,
            max: 180.0,
        }
    }
}

impl PlaneGrid {
    /// `bits` of an index that does not say.
    pub const BITS: f64 = 26.0;

    /// Whether a pair lies in the plane.
    pub fn holds(&self, x: f64, y: f64) -> bool {
        let within = |number: f64| number >= self.min && number <= self.max;
        within(x) && within(y)
    }

    /// What mongod says of a pair that does not.
    pub(super) fn outside(&self, shown: &str) -> Error {
        let (min, max) = (stream_number(self.min), stream_number(self.max));
        Error::location(
            13027,
            format!("point not in interval of [ {min}, {max} ] :: caused by :: {shown}"),
        )
    }

    /// The finest cell of a pair; one outside lies in the nearest at the boundary.
    pub fn cell(&self, x: f64, y: f64) -> u64 {
        let (x, y) = (self.place(x), self.place(y));
        ((spread(x) << 1 | spread(y)) << 1) | 1
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn place(&self, coordinate: f64) -> u64 {
        let share = (coordinate - self.min) / (self.max - self.min);
        (share * CELLS).clamp(0.0, CELLS - 1.0) as u64
    }

    /// Least and greatest x, then y, of a cell, widened by more than any rounding.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn bounds(&self, cell: CellId) -> [[f64; 2]; 2] {
        let level = u32::from(cell.level().as_u8());
        let path = if level == 0 {
            0
        } else {
            cell.id() >> (61 - 2 * level)
        };
        let side = (self.max - self.min) / (1_u64 << level) as f64;
        let slack = 1e-14 * (self.max - self.min + self.min.abs().max(self.max.abs()));
        [path >> 1, path].map(|bits| {
            let least = self.min + gather(bits) as f64 * side;
            [least - slack, least + side + slack]
        })
    }

    /// The pairs of a document's value: itself, or the elements of an array. Source: `get2DKeys` and
    /// `GeoHashConverter::hash` of MongoDB 6.0.
    ///
    /// # Errors
    /// 13026, 13027, 13068 and 16804 for what is no pair in the plane.
    pub fn pairs(&self, document: &RawDocument, value: RawBsonRef<'_>) -> Result<Vec<(f64, f64)>> {
        let members = elements(value).unwrap_or_default();
        match members.first() {
            None => Ok(Vec::new()),
            Some(first) if number(*first).is_some() => Ok(vec![self.pair(document, &members)?]),
            Some(_) => {
                let mut pairs = Vec::with_capacity(members.len());
                for member in members {
                    let pair = elements(member).ok_or_else(|| {
                        Error::location(
                            16804,
                            "location object expected, location array not in correct format",
                        )
                    })?;
                    if !pair.is_empty() {
                        pairs.push(self.pair(document, &pair)?);
                    }
                }
                // MongoDB indexes pairs below a document's names, but no query finds them.
                pairs.truncate(if value.as_document().is_some() {
                    0
                } else {
                    pairs.len()
                });
                Ok(pairs)
            }
        }
    }

    fn pair(&self, document: &RawDocument, members: &[RawBsonRef<'_>]) -> Result<(f64, f64)> {
        let refuse = |code: i32, reason: &str| {
            let shown = document_text(document);
            Error::location(code, format!("{reason} :: caused by :: {shown}"))
        };
        let [x, y, ..] = members else {
            return Err(refuse(13068, "geo field only has 1 element"));
        };
        let (Some(x), Some(y)) = (number(*x), number(*y)) else {
            return Err(refuse(
                13026,
                "geo values must be 'legacy coordinate pairs' for 2d indexes",
            ));
        };
        if self.holds(x, y) {
            Ok((x, y))
        } else {
            Err(self.outside(&document_text(document)))
        }
    }
}

/// The low 30 bits with a zero before each.
fn spread(bits: u64) -> u64 {
    let mut spread = bits & 0x3FFF_FFFF;
    spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF;
    spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF;
    spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    spread = (spread | spread << 2) & 0x3333_3333_3333_3333;
    (spread | spread << 1) & 0x5555_5555_5555_5555
}

/// Every second bit, from the lowest on.
fn gather(bits: u64) -> u64 {
    let mut gathered = bits & 0x5555_5555_5555_5555;
    gathered = (gathered | gathered >> 1) & 0x3333_3333_3333_3333;
    gathered = (gathered | gathered >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    gathered = (gathered | gathered >> 4) & 0x00FF_00FF_00FF_00FF;
    gathered = (gathered | gathered >> 8) & 0x0000_FFFF_0000_FFFF;
    (gathered | gathered >> 16) & 0x0000_0000_FFFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair lies within the bounds of its cell on every level, and these are halved from level to level.
    #[test]
    fn cells_hold_their_pairs() {
        let grid = PlaneGrid {
            min: -3.5,
            max: 17.0,
        };
        for number in 0..2_000_u32 {
            let unit = |factor: f64| (f64::from(number) * factor).fract();
            let (x, y) = (
                grid.min + 20.5 * unit(0.618_034),
                grid.min + 20.5 * unit(0.414_214),
            );
            let mut cell = CellId(grid.cell(x, y));
            assert!(cell.is_leaf());
            loop {
                let [[west, east], [south, north]] = grid.bounds(cell);
                assert!(
                    west <= x && x <= east && south <= y && y <= north,
                    "{x} {y} {cell:?}"
                );
                if cell.level().as_u8() == 0 {
                    break;
                }
                assert!(cell.parent().children().contains(&cell));
                cell = cell.parent();
            }
            assert_eq!(cell.id(), 1 << 60);
        }
    }
}
