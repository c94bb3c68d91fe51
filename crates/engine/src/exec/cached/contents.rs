//! What is cached of buckets, and how it is made of their entries.

use super::Decode;
use crate::error::Result;
use crate::exec::corrupt_entry;
use crate::geo::{Cut, FlatPlaces, SpherePoint};
use crate::index::entry::{EntryLayout, Located};
use crate::rank::{CACHED_BYTES_MAX, Cacheable};
use meridian_value::key::{Direction, decode_cell};
use std::ops::Range;

/// Bytes of an identifier, about.
const ID_BYTES: usize = 16;

/// The point of an entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its leaf cell.
    pub cell: u64,
    /// Degrees of longitude, exactly as stored.
    pub lon: f64,
    /// Degrees of latitude, exactly as stored.
    pub lat: f64,
}

/// The points of a bucket of a 2dsphere index, in the order of their cells, for counts of areas. What is looked at of
/// nearly every one lies side by side.
#[derive(Debug)]
pub struct Points {
    cells: Box<[u64]>,
    flat: FlatPlaces,
    /// Longitude and latitude.
    exact: Box<[[f64; 2]]>,
}

impl Cacheable for Points {
    fn bytes(&self) -> usize {
        self.cells.len() * (size_of::<Point>() + 2 * size_of::<f32>()) + size_of::<Self>()
    }
}

impl Points {
    /// Points in the order of their cells.
    pub fn new(points: &[Point]) -> Self {
        let cells: Box<[u64]> = points.iter().map(|point| point.cell).collect();
        Self {
            flat: FlatPlaces::of(&cells),
            cells,
            exact: points.iter().map(|point| [point.lon, point.lat]).collect(),
        }
    }

    /// Which of them lie in cells `first` to `last`.
    pub fn within(&self, first: u64, last: u64) -> Range<usize> {
        cells_within(&self.cells, first, last)
    }

    /// How many of some of them match by the line that cuts their cell; `None` when one is too close to it.
    pub fn count_matches(&self, of: Range<usize>, cut: &Cut) -> Option<usize> {
        self.flat.count_matches(of, cut)
    }

    /// Some of them.
    pub fn points(&self, of: Range<usize>) -> impl Iterator<Item = Point> {
        let cells = self.cells[of.clone()].iter();
        let all = cells.zip(&self.exact[of]);
        all.map(|(cell, [lon, lat])| Point {
            cell: *cell,
            lon: *lon,
            lat: *lat,
        })
    }
}

/// Which of ascending cells are `first` to `last`.
fn cells_within(cells: &[u64], first: u64, last: u64) -> Range<usize> {
    let from = cells.partition_point(|cell| *cell < first);
    from..from + cells[from..].partition_point(|cell| *cell <= last)
}

/// Makes [`Points`], however many: a count needs all of them.
pub struct ReadPoints<'b> {
    layout: &'b EntryLayout,
    /// Those of the bucket, in memory that is used again for the next.
    points: &'b mut Vec<Point>,
}

impl<'b> ReadPoints<'b> {
    pub fn new(layout: &'b EntryLayout, points: &'b mut Vec<Point>) -> Self {
        points.clear();
        Self { layout, points }
    }
}

impl Decode for ReadPoints<'_> {
    type Contents = Points;

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let cell = decode_cell(key, Direction::Ascending);
        let located = self.layout.located(value);
        if let (Some(cell), Some(Located::Point { lon, lat, .. })) = (cell, located) {
            self.points.push(Point { cell, lon, lat });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }

    fn finish(self) -> Points {
        Points::new(self.points)
    }
}

/// Keys and values, one behind the other: documents by their encoded `_id`s.
#[derive(Debug, Default)]
pub struct PackedEntries {
    /// Where each entry's key and value end in `keys` and `values`.
    ends: Vec<(u32, u32)>,
    /// Apart from the values: who looks for a key comes to few of them.
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Cacheable for PackedEntries {
    fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.values.capacity()
            + self.ends.capacity() * size_of::<(u32, u32)>()
            + size_of::<Self>()
    }
}

impl PackedEntries {
    /// Room for so many entries with identifiers for keys and values of so many bytes about.
    fn with_capacity(entries: usize, value_bytes: usize) -> Self {
        let mut packed = Self::default();
        packed.ends.reserve_exact(entries);
        packed.keys.reserve(entries * ID_BYTES);
        packed
            .values
            .reserve((entries * value_bytes).min(CACHED_BYTES_MAX));
        packed
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        let offset = |bytes: &[u8]| u32::try_from(bytes.len()).expect("what is cached is small");
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.ends.push((offset(&self.keys), offset(&self.values)));
    }

    /// Gives back what it does not use of its memory.
    fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    fn bytes_used(&self) -> usize {
        self.keys.len() + self.values.len() + self.ends.len() * size_of::<(u32, u32)>()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key of an entry.
    pub fn key(&self, number: usize) -> &[u8] {
        &self.keys[self.start(number).0..self.ends[number].0 as usize]
    }

    /// Key and value of an entry.
    pub fn entry(&self, number: usize) -> (&[u8], &[u8]) {
        let value = self.start(number).1..self.ends[number].1 as usize;
        (self.key(number), &self.values[value])
    }

    /// The number of the entry with this key, which is looked for from a number on.
    pub fn find(&self, from: usize, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Where an entry's key and value begin.
    fn start(&self, number: usize) -> (usize, usize) {
        let before = number.checked_sub(1).map(|before| self.ends[before]);
        before.map_or((0, 0), |(key, value)| (key as usize, value as usize))
    }
}

/// The entries of a bucket of a 2dsphere index that have a point, for searches for the nearest.
#[derive(Debug)]
pub struct LocatedEntries {
    cells: Vec<u64>,
    points: Vec<SpherePoint>,
    entries: PackedEntries,
}

impl Cacheable for LocatedEntries {
    fn bytes(&self) -> usize {
        self.entries.bytes()
            + self.cells.capacity() * size_of::<u64>()
            + self.points.capacity() * size_of::<SpherePoint>()
            + size_of::<Self>()
            - size_of::<PackedEntries>()
    }
}

impl LocatedEntries {
    /// The entries in cells `first` to `last`.
    pub fn within(&self, first: u64, last: u64) -> Range<usize> {
        cells_within(&self.cells, first, last)
    }

    /// The points of all entries.
    pub fn points(&self) -> &[SpherePoint] {
        &self.points
    }

    /// Key (without the tree's prefix) and value of an entry.
    pub fn entry(&self, number: usize) -> (&[u8], &[u8]) {
        self.entries.entry(number)
    }
}

/// Makes [`LocatedEntries`].
pub struct ReadLocated<'b> {
    layout: &'b EntryLayout,
    located: LocatedEntries,
}

impl<'b> ReadLocated<'b> {
    pub fn new(layout: &'b EntryLayout) -> Self {
        let located = LocatedEntries {
            cells: Vec::new(),
            points: Vec::new(),
            entries: PackedEntries::default(),
        };
        Self { layout, located }
    }
}

impl Decode for ReadLocated<'_> {
    type Contents = LocatedEntries;

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let located = self.layout.located(value).ok_or_else(corrupt_entry)?;
        // Who has no place on the sphere is not found by a search.
        if let Located::Point { lon, lat, .. } = located
            && let Some(point) = SpherePoint::from_degrees(lon, lat)
        {
            let cell = decode_cell(key, Direction::Ascending).ok_or_else(corrupt_entry)?;
            self.located.cells.push(cell);
            self.located.points.push(point);
            self.located.entries.push(key, value);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let point = size_of::<u64>() + size_of::<SpherePoint>();
        self.located.entries.bytes_used() + self.located.cells.len() * point
    }

    fn finish(self) -> LocatedEntries {
        self.located
    }
}

/// Makes of the documents of a collection's bucket [`PackedEntries`].
pub struct ReadDocuments(PackedEntries);

impl ReadDocuments {
    /// Of about so many documents of so many bytes.
    pub fn new(documents: u32, mean_bytes: usize) -> Self {
        Self(PackedEntries::with_capacity(documents as usize, mean_bytes))
    }
}

impl Decode for ReadDocuments {
    type Contents = PackedEntries;

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.push(key, value);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.bytes_used()
    }

    fn finish(mut self) -> PackedEntries {
        self.0.shrink();
        self.0
    }
}

/// Makes of the entries of an index's bucket [`PackedEntries`] with their encoded `_id`s for keys, and empty values.
pub struct ReadIdentifiers<'b> {
    layout: &'b EntryLayout,
    identifiers: PackedEntries,
}

impl<'b> ReadIdentifiers<'b> {
    pub fn new(layout: &'b EntryLayout) -> Self {
        Self {
            layout,
            identifiers: PackedEntries::default(),
        }
    }
}

impl Decode for ReadIdentifiers<'_> {
    type Contents = PackedEntries;

    fn push(&mut self, key: &[u8], _value: &[u8]) -> Result<()> {
        let id = self.layout.fields_length(key).ok_or_else(corrupt_entry)?;
        self.identifiers.push(&key[id..], &[]);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.identifiers.bytes_used()
    }

    fn finish(mut self) -> PackedEntries {
        self.identifiers.shrink();
        self.identifiers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_and_entries_come_back() {
        let points: Vec<Point> = (0..5)
            .map(|number| Point {
                cell: 10 * number,
                lon: 1.0,
                lat: 2.0,
            })
            .collect();
        let cached = Points::new(&points);
        assert_eq!(cached.within(0, u64::MAX), 0..5);
        assert_eq!(cached.within(10, 30), 1..4);
        assert_eq!(cached.within(11, 29), 2..3);
        assert_eq!(cached.within(41, u64::MAX), 5..5);
        assert_eq!(cached.points(2..3).collect::<Vec<_>>(), points[2..3]);

        let mut packed = PackedEntries::default();
        for number in 0..5_u8 {
            packed.push(&[number, number], &vec![number; number as usize]);
        }
        for number in 0..5_u8 {
            let expected = (&[number, number][..], &vec![number; number as usize][..]);
            assert_eq!(packed.entry(number.into()), expected);
            assert_eq!(packed.find(0, expected.0), Some(number.into()));
        }
        assert_eq!(packed.find(0, &[2]), None);
        assert_eq!(packed.find(3, &[2, 2]), None);
    }
}
