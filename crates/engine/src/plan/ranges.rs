//! The ranges of keys that an access path stands for.
//!
//! In: an access path. Out: [`TreeRanges`], where its entries are ranges of one tree, and [`Countable`], where nothing
//! has to be tested on entries within the bounds, so that a rank index can count them and tell the k-th.

use super::access::{Access, Branch, GeoAccess, IndexAccess};
use super::choose::Sizes;
use crate::catalog::{Collection, Index};
use crate::index::bounds::{ByteRange, ByteRanges, FieldBounds, byte_ranges};
use crate::storage::{Family, TreeKey};
use meridian_value::key::Direction;
use std::sync::Arc;

/// Combinations of leading values that are walked as ranges of their own; beyond, fields are checked.
const RANGES_MAX: usize = 10_000;

/// Ranges of one tree, ascending and disjoint, whose every entry counts.
#[derive(Clone)]
pub struct TreeRanges {
    /// The family of the tree.
    pub family: Family,
    /// The tree.
    pub tree: TreeKey,
    /// The index that the tree belongs to; `None` for the documents.
    pub index: Option<Arc<Index>>,
    /// The ranges, without the tree's prefix.
    pub ranges: Vec<ByteRange>,
}

/// Entries that each prove a match, so that a rank index counts them and tells the k-th.
#[derive(Clone)]
pub enum Countable {
    /// All entries in ranges.
    Ranges(TreeRanges),
    /// The points in an area.
    Area(GeoAccess),
}

impl Countable {
    /// What can be counted of an access path; `None` when its entries must be tested or de-duplicated.
    pub fn of(access: &Access, collection: &Collection) -> Option<Self> {
        match access {
            Access::Geo(access) => access
                .holds_single_points()
                .then(|| Self::Area(access.clone())),
            access => TreeRanges::of(access, collection).map(Self::Ranges),
        }
    }

    /// Whether the rank index knows all of it.
    pub(super) fn is_built(&self, sizes: &dyn Sizes) -> bool {
        match self {
            Self::Ranges(ranges) => ranges.are_built(sizes),
            Self::Area(access) => sizes.is_built(access.index.tree, None),
        }
    }
}

impl TreeRanges {
    /// The ranges of an access path; `None` when its entries must be tested or de-duplicated.
    pub fn of(access: &Access, collection: &Collection) -> Option<Self> {
        match access {
            Access::Index(access) => {
                let ranges = settled_ranges(access)?;
                (!access.repeats()).then(|| Self::in_index(access, ranges))
            }
            Access::Primary(access) => {
                let ranges = access.bounds.ranges(Direction::Ascending);
                Some(Self::in_documents(collection, ranges))
            }
            Access::Collection(_) => {
                let ranges = vec![ByteRange::prefixed(Vec::new())];
                Some(Self::in_documents(collection, ranges))
            }
            Access::Union(union) => Self::union(&union.branches, collection),
            Access::Nothing | Access::Geo(_) | Access::Near(_) | Access::Ranked(_) => None,
        }
    }

    /// The ranges that an access path on an index walks, whether or not every entry in them matches.
    pub fn walked(access: &IndexAccess) -> Self {
        Self::in_index(access, walked_ranges(access).ranges)
    }

    fn in_index(access: &IndexAccess, ranges: Vec<ByteRange>) -> Self {
        Self {
            family: Family::Indexes,
            tree: access.index.tree,
            index: Some(access.index.clone()),
            ranges,
        }
    }

    fn in_documents(collection: &Collection, ranges: Vec<ByteRange>) -> Self {
        Self {
            family: Family::Documents,
            tree: collection.documents,
            index: None,
            ranges,
        }
    }

    /// The path that they are about, in a wildcard index: a document has entries of others, too.
    fn path(&self) -> Option<&str> {
        let spec = &self.index.as_ref()?.spec;
        let (path, _) = spec.key.last().filter(|_| spec.wildcard.is_some())?;
        Some(path)
    }

    /// Whether the rank index knows all of the ranges.
    pub(super) fn are_built(&self, sizes: &dyn Sizes) -> bool {
        let end = self.ranges.last().map(|last| last.end.as_slice());
        sizes.is_built(self.tree, Some(end.unwrap_or_default()))
    }

    /// The ranges of all branches together, when they are ranges of the same tree.
    fn union(branches: &[Branch], collection: &Collection) -> Option<Self> {
        let is_proven = branches
            .iter()
            .all(|branch| branch.residual.is_none() && !branch.access.tests_entries());
        let mut parts = branches
            .iter()
            .map(|branch| Self::of(&branch.access, collection));
        let mut all = parts.next().filter(|_| is_proven)??;
        for part in parts {
            let part = part.filter(|part| part.tree == all.tree && part.path() == all.path())?;
            all.ranges.extend(part.ranges);
        }
        all.ranges = merged(all.ranges);
        Some(all)
    }
}

/// The byte ranges of an access path when they alone settle its bounds; `None` when keys within them
/// must be checked one by one.
fn settled_ranges(access: &IndexAccess) -> Option<Vec<ByteRange>> {
    let found = walked_ranges(access);
    let unsettled = &access.bounds[found.settled..];
    let is_settled = unsettled.iter().all(FieldBounds::is_all);
    is_settled.then_some(found.ranges)
}

/// The byte ranges that an access path walks, and how many leading fields they settle.
pub fn walked_ranges(access: &IndexAccess) -> ByteRanges {
    if let Some(within) = &access.within {
        return ByteRanges {
            ranges: vec![within.clone()],
            settled: access.bounds.len(),
        };
    }
    let directions: Vec<Direction> = access.index.layout.directions().collect();
    byte_ranges(&directions, &access.bounds, RANGES_MAX)
}

/// Sorted, with overlapping ranges joined.
fn merged(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => {
                if range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_and_touching_ranges_are_joined() {
        let range = |start: &[u8], end: &[u8]| ByteRange {
            start: start.to_vec(),
            end: end.to_vec(),
        };
        let all = vec![
            range(b"e", b"f"),
            range(b"a", b"c"),
            range(b"b", b"b\xff"),
            range(b"c", b"d"),
        ];
        assert_eq!(merged(all), [range(b"a", b"d"), range(b"e", b"f")]);
    }
}
