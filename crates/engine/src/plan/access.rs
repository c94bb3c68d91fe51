//! Access paths: where documents can come from.

use super::QuerySpec;
use super::entry_use::{EntryUse, RowSource};
use crate::catalog::Index;
use crate::geo::{CoverLimits, CoveredRange, Region, cover, cover_plane};
use crate::index::IndexField;
use crate::index::bounds::{ByteRange, FieldBounds};
use crate::query::{Filter, Nearest, Sort, TextCondition};
use crate::storage::Order;
use smallvec::SmallVec;
use std::sync::Arc;

/// Where the documents of a plan come from.
#[derive(Clone)]
pub enum Access {
    /// Nothing can match.
    Nothing,
    /// All documents, in `_id` order.
    Collection(Order),
    /// Documents by `_id`: they are stored in its order.
    Primary(PrimaryAccess),
    /// Entries of an index within bounds.
    Index(IndexAccess),
    /// Entries of a geo index in an area.
    Geo(GeoAccess),
    /// Entries of a geo index, nearest first.
    Near(NearAccess),
    /// The documents of another access path, all of them, sorted by distance.
    Ranked(RankedAccess),
    /// The documents of several access paths, each once.
    Union(UnionAccess),
}

/// Documents whose `_id` is within bounds.
#[derive(Clone)]
pub struct PrimaryAccess {
    /// The bounds.
    pub bounds: FieldBounds,
    /// The direction of the walk.
    pub order: Order,
}

/// Entries of an index within bounds.
#[derive(Clone)]
pub struct IndexAccess {
    /// The index.
    pub index: Arc<Index>,
    /// One for each field of the key.
    pub bounds: Vec<FieldBounds>,
    /// Bounds of whole keys, where the client gave them.
    pub within: Option<ByteRange>,
    /// The direction of the walk.
    pub order: Order,
    /// What is done with the entries.
    pub entries: EntryUse,
    /// The search that the bounds of a text index come from.
    pub text: Option<Arc<TextScan>>,
    /// The field of the key of each of whose values the first entry is enough. The order is forward then.
    pub first_of: Option<usize>,
}

/// How a search goes through a text index.
#[derive(Debug)]
pub struct TextScan {
    /// What is searched for.
    pub condition: TextCondition,
    /// Whether the best documents come first, by the scores in the entries.
    pub best_first: bool,
}

/// Entries of a geo index in an area.
#[derive(Clone)]
pub struct GeoAccess {
    /// The index.
    pub index: Arc<Index>,
    /// The area.
    pub region: Arc<Region>,
    /// The geo condition alone: asked of documents whose entry does not hold a point.
    pub condition: Arc<Filter>,
    /// The location's position in the key.
    pub position: usize,
    /// Encoded values of the fields before the location, one for each combination asked for.
    pub prefixes: Vec<Vec<u8>>,
    /// Bounds of the fields before the location, for `explain`.
    pub bounds: Vec<FieldBounds>,
    /// What is done with the entries.
    pub entries: EntryUse,
}

/// Entries of a geo index, nearest first.
#[derive(Clone)]
pub struct NearAccess {
    /// The index.
    pub index: Arc<Index>,
    /// The path of the location, and what is asked of it.
    pub nearest: Nearest,
    /// The location's position in the key.
    pub position: usize,
    /// Encoded values of the fields before the location, one for each combination asked for; ascending.
    pub prefixes: Vec<Vec<u8>>,
    /// Bounds of the fields before the location, for `explain`.
    pub bounds: Vec<FieldBounds>,
    /// What is done with the entries.
    pub entries: EntryUse,
}

/// The documents of another access path, sorted by distance.
#[derive(Clone)]
pub struct RankedAccess {
    /// The path of the location, and what is asked of it.
    pub nearest: Nearest,
    /// Where the documents come from.
    pub branch: Box<Branch>,
}

/// The documents of several access paths, each once.
#[derive(Clone)]
pub struct UnionAccess {
    /// The access paths, with what must be tested on their documents.
    pub branches: Vec<Branch>,
    /// The order that every branch gives, where they are merged by it; else one comes after the other.
    pub merged_by: Option<Arc<Sort>>,
}

/// One branch of a union: a plan of its own without sort, skip, limit and projection.
#[derive(Clone)]
pub struct Branch {
    /// Where its documents come from.
    pub access: Access,
    /// What must be tested on them.
    pub residual: Option<Arc<Filter>>,
}

impl Branch {
    /// Whether every entry within the bounds is a row.
    pub(super) fn is_exact(&self) -> bool {
        self.residual.is_none() && self.access.is_exact()
    }
}

impl IndexAccess {
    /// Whether documents of several terms are to be put in the order of their scores.
    pub fn sums_scores(&self) -> bool {
        self.is_best_first() && self.repeats()
    }

    /// Whether documents come in the order of their scores.
    pub fn is_best_first(&self) -> bool {
        self.text.as_ref().is_some_and(|text| text.best_first)
    }

    /// Whether there is one document at most, by its `_id`.
    pub fn is_identifier(&self) -> bool {
        self.index.spec.is_id_index() && self.bounds[0].is_single_point()
    }

    /// Whether one document is looked up by its `_id`: IDHACK in mongod.
    pub fn is_id_look_up(&self) -> bool {
        let reads_documents = self.entries.reading() == RowSource::Documents;
        self.is_identifier() && reads_documents && self.entries.filter.is_none()
    }

    /// Whether a document may have several entries within the bounds: one with an array in a field that has
    /// no single value here, or with a geometry of several cells.
    pub fn repeats(&self) -> bool {
        let multikey = self.index.multikey();
        // Below a path of a wildcard index a document has an entry for each field.
        let is_below = self.index.spec.wildcard.is_some() && !self.bounds[0].is_single_point();
        if multikey.holds_cells() || is_below {
            return true;
        }
        let mut bounds = self.bounds.iter().enumerate();
        bounds.any(|(position, own)| multikey.field(position) && !own.is_single_point())
    }
}

impl GeoAccess {
    /// Whether the location's cells are the squares of a 2d index.
    pub fn is_plane(&self) -> bool {
        self.index.spec.key[self.position].1 == IndexField::Plane2d
    }

    /// Whether every entry is one point, and every document has one.
    pub fn holds_single_points(&self) -> bool {
        let multikey = self.index.multikey();
        !multikey.is_multikey() && !multikey.holds_shapes()
    }

    /// Ranges of the index's cells that hold every point of the area.
    pub fn cover(&self, limits: CoverLimits<'_>) -> Vec<CoveredRange> {
        if self.is_plane() {
            cover_plane(&self.region, self.index.spec.grid, limits)
        } else {
            cover(&self.region, limits)
        }
    }
}

/// What a plan uses to find documents.
#[derive(Clone, Copy)]
pub enum Used<'a> {
    /// Their order by `_id`.
    Id,
    /// An index.
    Index(&'a Arc<Index>),
}

impl Used<'_> {
    /// Whether both are the same.
    fn is(self, other: Used<'_>) -> bool {
        match (self, other) {
            (Used::Id, Used::Id) => true,
            (Used::Index(one), Used::Index(other)) => one.tree == other.tree,
            _ => false,
        }
    }
}

impl Access {
    /// What is used, each index once however many branches use it. Nothing where all documents are read.
    pub fn used(&self) -> SmallVec<[Used<'_>; 1]> {
        let mut used = SmallVec::new();
        self.add_used(&mut used);
        used
    }

    fn add_used<'a>(&'a self, used: &mut SmallVec<[Used<'a>; 1]>) {
        let own = match self {
            Access::Nothing | Access::Collection(_) => return,
            Access::Ranked(access) => return access.branch.access.add_used(used),
            Access::Union(union) => {
                return union
                    .branches
                    .iter()
                    .for_each(|branch| branch.access.add_used(used));
            }
            Access::Primary(_) => Used::Id,
            Access::Index(IndexAccess { index, .. })
            | Access::Geo(GeoAccess { index, .. })
            | Access::Near(NearAccess { index, .. }) => Used::Index(index),
        };
        if !used.iter().any(|other| own.is(*other)) {
            used.push(own);
        }
    }

    /// The index used, if one is.
    pub fn index(&self) -> Option<&Arc<Index>> {
        match self {
            Access::Index(access) => Some(&access.index),
            Access::Geo(access) => Some(&access.index),
            Access::Near(access) => Some(&access.index),
            _ => None,
        }
    }

    /// What is done with the entries, where an index is used.
    pub fn entry_use(&self) -> Option<&EntryUse> {
        match self {
            Access::Index(access) => Some(&access.entries),
            Access::Geo(access) => Some(&access.entries),
            Access::Near(access) => Some(&access.entries),
            _ => None,
        }
    }

    /// Whether conditions are tested on entries, beside the bounds.
    pub fn tests_entries(&self) -> bool {
        self.entry_use()
            .is_some_and(|entries| entries.filter.is_some())
    }

    /// Whether every entry within the bounds is a row.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Access::Union(union) => union.branches.iter().all(Branch::is_exact),
            access => !access.tests_entries(),
        }
    }

    /// Where rows come from, where an index is used.
    pub fn reading(&self) -> Option<RowSource> {
        self.entry_use().map(EntryUse::reading)
    }

    /// Whether documents come out in the order of the query's sort.
    pub(super) fn sorts(&self, query: &QuerySpec) -> bool {
        let Some(sort) = &query.sort else { return true };
        match self {
            Access::Nothing => true,
            Access::Primary(access) => {
                let order = super::candidate::primary_order(query);
                access.bounds.is_single_point() || order == Some(access.order)
            }
            Access::Collection(order) => {
                sort.natural().is_some() || super::candidate::primary_order(query) == Some(*order)
            }
            Access::Index(access) => {
                let by_score = access.is_best_first() && sort.is_by_score();
                by_score || super::candidate::index_order(access, sort) == Some(access.order)
            }
            // The planner merges by the sort of the query and by no other.
            Access::Union(union) => union.merged_by.is_some(),
            Access::Geo(_) | Access::Near(_) | Access::Ranked(_) => false,
        }
    }
}
