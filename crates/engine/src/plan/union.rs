//! Plans `$or`: each branch by an access path of its own, chosen as for a query that asks for the branch
//! alone. Where the branches' indexes all give the order that is asked for, they may be merged instead of
//! sorted. The same goes for one index whose leading fields have several values.
//!
//! In: a query. Out: its candidates, and for each `$or` among its conjuncts a union, where every branch has a
//! candidate. Deliberately absent: the other conjuncts are no bounds of the branches, they are tested on
//! the rows.

use super::QuerySpec;
use super::access::{Access, Branch, IndexAccess, UnionAccess};
use super::candidate::{Candidate, candidates, index_order, residual};
use super::choose::{Sizes, cheapest_roughly, choose};
use super::{text, wildcard};
use crate::catalog::Collection;
use crate::error::Result;
use crate::index::bounds::{FieldBounds, Interval};
use crate::query::{Filter, Sort};
use crate::storage::Order;
use std::sync::Arc;

/// Branches of a query whose candidates are compared by their exact numbers of entries, each of which takes
/// a search in an index; of those behind them only what is known without reading is compared.
const EXACT_BRANCHES_MAX: usize = 32;
/// Scans that one scan becomes at most: MongoDB's `internalQueryMaxScansToExplode`.
const SCANS_MAX: usize = 200;
/// Intervals of a scan that becomes several, which all have those of its later fields.
const INTERVALS_MAX: usize = 1_000;

/// All candidates but the collection scan, unions among them.
///
/// # Errors
/// Storage failures while sizes are asked for.
pub(super) fn with_unions(
    collection: &Collection,
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Result<Vec<Candidate>> {
    let mut unions = Unions {
        collection,
        sizes,
        exact_left: EXACT_BRANCHES_MAX,
    };
    unions.candidates(query)
}

struct Unions<'a> {
    collection: &'a Collection,
    sizes: &'a dyn Sizes,
    /// Branches that may still be compared exactly.
    exact_left: usize,
}

impl Unions<'_> {
    fn candidates(&mut self, query: &QuerySpec) -> Result<Vec<Candidate>> {
        if let Some(search) = text::candidate(self.collection, query, self.sizes)? {
            return Ok(vec![search]);
        }
        let mut found = candidates(self.collection, query);
        found.extend(wildcard::candidates(self.collection, query, self.sizes)?);
        // Nothing is cheaper than one document.
        if found.iter().any(Candidate::is_identifier) {
            return Ok(found);
        }
        let sort = query.sort.as_ref().filter(|sort| !sort.is_empty());
        if let Some(sort) = sort {
            let exploded = found
                .iter()
                .filter_map(|candidate| exploded(candidate, sort));
            found.extend(exploded.collect::<Vec<_>>());
        }
        for (position, part) in query.filter.conjuncts().iter().enumerate() {
            if let Filter::Or(alternatives) = part {
                found.extend(self.union(query, position, alternatives, None)?);
                if sort.is_some() {
                    found.extend(self.union(query, position, alternatives, sort)?);
                }
            }
        }
        Ok(found)
    }

    /// The union of the `$or` at this position among the conjuncts, merged by `merged_by` if it is given;
    /// `None` when a branch has no candidate, or none that gives the order.
    fn union(
        &mut self,
        query: &QuerySpec,
        position: usize,
        alternatives: &[Filter],
        merged_by: Option<&Arc<Sort>>,
    ) -> Result<Option<Candidate>> {
        let mut proven = vec![false; query.filter.conjuncts().len()];
        proven[position] = true;
        let residual = residual(&query.filter, &proven);
        let own = branch_query(query, residual.as_deref(), merged_by);
        let mut branches = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            let own = QuerySpec {
                filter: Arc::new(alternative.clone()),
                ..own.clone()
            };
            let Some(branch) = self.branch(&own)? else {
                return Ok(None);
            };
            branches.push(branch);
        }
        Ok(Some(Candidate {
            access: Access::Union(UnionAccess {
                branches,
                merged_by: merged_by.cloned(),
            }),
            residual,
            is_selective: true,
        }))
    }

    fn branch(&mut self, query: &QuerySpec) -> Result<Option<Branch>> {
        let mut found = self.candidates(query)?;
        found.retain(|candidate| candidate.is_selective && candidate.access.sorts(query));
        let best = match found.len() {
            0 => None,
            1 => Some(0),
            _ if self.exact_left > 0 => {
                self.exact_left -= 1;
                choose(&found, query, self.sizes)?
            }
            _ => cheapest_roughly(&found, query, self.sizes),
        };
        Ok(best.map(|best| {
            let Candidate {
                access, residual, ..
            } = found.swap_remove(best);
            Branch { access, residual }
        }))
    }
}

/// A scan of an index whose leading fields have several single values, as one scan for each of their combinations,
/// if these give an order that the whole does not (`explodeForSort` of MongoDB).
fn exploded(candidate: &Candidate, sort: &Arc<Sort>) -> Option<Candidate> {
    let Access::Index(access) = &candidate.access else {
        return None;
    };
    let intervals = |bounds: &FieldBounds| bounds.intervals().len();
    if !access.bounds.first().is_some_and(FieldBounds::is_points) {
        return None;
    }
    let is_long = access.bounds.iter().map(intervals).sum::<usize>() > INTERVALS_MAX;
    if is_long || index_order(access, sort).is_some() {
        return None;
    }
    let mut scans = vec![access.clone()];
    for (position, own) in access.bounds.iter().enumerate() {
        if !own.is_points() || own.is_empty() || scans.len() * intervals(own) > SCANS_MAX {
            return None;
        }
        let of_value = |scan: &IndexAccess, interval: &Interval| {
            let mut scan = scan.clone();
            scan.bounds[position] = FieldBounds::new(vec![interval.clone()], own.tightness());
            scan
        };
        let values = own.intervals();
        scans = scans
            .iter()
            .flat_map(|scan| values.iter().map(|value| of_value(scan, value)))
            .collect();
        if let Some(order) = index_order(&scans[0], sort) {
            return Some(merged(scans, order, candidate, sort));
        }
    }
    None
}

fn merged(
    scans: Vec<IndexAccess>,
    order: Order,
    candidate: &Candidate,
    sort: &Arc<Sort>,
) -> Candidate {
    let branch = |scan| Branch {
        access: Access::Index(IndexAccess { order, ..scan }),
        residual: candidate.residual.clone(),
    };
    Candidate {
        access: Access::Union(UnionAccess {
            branches: scans.into_iter().map(branch).collect(),
            merged_by: Some(sort.clone()),
        }),
        residual: None,
        is_selective: true,
    }
}

/// What is asked of every branch, but for its filter: rows with all that is read of them, in the order that
/// they are merged by.
fn branch_query(
    query: &QuerySpec,
    residual: Option<&Filter>,
    merged_by: Option<&Arc<Sort>>,
) -> QuerySpec {
    let mut needs = query.needs.clone();
    if let Some(residual) = residual {
        needs.merge(residual.needs());
    }
    for field in query.sort.iter().flat_map(|sort| sort.fields()) {
        needs.add(field.path.as_str());
    }
    // More rows than are wanted are read where some of them are rejected, or all of them sorted.
    let limit = query
        .limit
        .filter(|_| residual.is_none() && (query.sort.is_none() || merged_by.is_some()));
    QuerySpec {
        sort: merged_by.cloned(),
        limit,
        needs,
        ..query.clone()
    }
}
