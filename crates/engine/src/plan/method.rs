//! How the answer is made of what an access path finds: the last decision of a plan.
//!
//! In: what a statement wants to know ([`Goal`]). Out: the [`Method`] of its plan: rows are read, or counted, drawn and grouped
//! by rank indexes where these tell. `exec` carries a method out, `explain` prints it; neither asks again.

use super::access::Access;
use super::choose::{Sizes, find};
use super::grouped::{FieldRanges, grouped};
use super::ranges::Countable;
use super::{Plan, QuerySpec, text};
use crate::aggregate::CountingGroup;
use crate::catalog::Collection;
use crate::error::Result;
use crate::query::Filter;
use crate::storage::Order;

/// What a statement wants to know of the documents that match.
#[derive(Clone)]
pub enum Goal {
    /// The documents.
    Rows,
    /// Their number, now.
    Count,
    /// Their number in the statement's read view, which something else is read from as well.
    CountInView,
    /// The values at a path, each once.
    Distinct(String),
    /// Some of them, by chance.
    Sample(SampleSize),
    /// How many are in each group.
    Groups(CountingGroup),
}

/// What a `$sample` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleSize {
    /// Documents wanted.
    pub size: u64,
    /// Determines the draw; without it every draw differs.
    pub seed: Option<u64>,
}

/// How the answer is made.
#[derive(Clone)]
pub enum Method {
    /// Every row is read.
    Rows,
    /// Rows are counted.
    Count(CountBy),
    /// Ranks are drawn, and the entries with these ranks are read.
    SampleByRank(SampleSize, Countable),
    /// From each value of a field straight to the next in an index.
    SkipScan(FieldRanges),
    /// Key runs of a field are counted: short ones by a scan, long ones by the rank index.
    CountGroups(CountingGroup, FieldRanges),
}

/// What counts.
#[derive(Clone)]
pub enum CountBy {
    /// The collection's own number of documents.
    Metadata,
    /// A rank index.
    RankIndex(Countable),
    /// A scan of entries, each of which proves a match.
    Entries,
    /// Rows are read and tested.
    Rows,
}

/// The plan of a statement on a collection.
///
/// # Errors
/// `BadValue` for a hint that names no usable index; storage failures while sizes are asked for.
pub fn plan(
    collection: &Collection,
    query: QuerySpec,
    goal: &Goal,
    sizes: &dyn Sizes,
) -> Result<Plan> {
    let mut query = query.on(collection);
    let collection = &*query.allowed(collection);
    text::resolve(collection, &query)?;
    match goal {
        Goal::Count if matches!(*query.filter, Filter::Always) && query.hint.is_none() => {
            let method = Method::Count(CountBy::Metadata);
            let access = Access::Collection(Order::Forward);
            return Ok(Plan::of_entries(access, query, method));
        }
        Goal::Distinct(path) => {
            if let Some((access, field)) = grouped(collection, &query, path) {
                return Ok(Plan::of_entries(access, query, Method::SkipScan(field)));
            }
        }
        Goal::Groups(group) => return count_groups(collection, query, group, sizes),
        _ => {}
    }
    let mut plan = find(collection, query, sizes)?;
    match goal {
        Goal::Count | Goal::CountInView => {
            plan.method = Method::Count(count_by(&mut plan, collection, sizes));
        }
        Goal::Sample(size) => {
            if let Some(countable) = countable(&mut plan, collection, sizes) {
                plan.method = Method::SampleByRank(*size, countable);
            }
        }
        Goal::Rows | Goal::Distinct(_) | Goal::Groups(_) => {}
    }
    Ok(plan)
}

fn count_groups(
    collection: &Collection,
    query: QuerySpec,
    group: &CountingGroup,
    sizes: &dyn Sizes,
) -> Result<Plan> {
    let Some((access, field)) = grouped(collection, &query, group.path()) else {
        return find(collection, query, sizes);
    };
    if field.ranges.are_built(sizes) {
        let method = Method::CountGroups(group.clone(), field);
        return Ok(Plan::of_entries(access, query, method));
    }
    let plan = find(collection, query, sizes)?;
    Ok(Plan {
        waits_for_rank_index: true,
        ..plan
    })
}

fn count_by(plan: &mut Plan, collection: &Collection, sizes: &dyn Sizes) -> CountBy {
    if !plan.counts_by_entries() {
        return CountBy::Rows;
    }
    if let Some(countable) = countable(plan, collection, sizes) {
        return CountBy::RankIndex(countable);
    }
    match plan.access {
        Access::Nothing | Access::Index(_) | Access::Geo(_) | Access::Near(_) => CountBy::Entries,
        Access::Collection(_) | Access::Primary(_) | Access::Ranked(_) | Access::Union(_) => {
            CountBy::Rows
        }
    }
}

/// What a rank index counts of the access path; `None` where none does, or not yet.
fn countable(plan: &mut Plan, collection: &Collection, sizes: &dyn Sizes) -> Option<Countable> {
    let countable = Countable::of(&plan.access, collection)?;
    plan.waits_for_rank_index = !countable.is_built(sizes);
    (!plan.waits_for_rank_index).then_some(countable)
}
