//! Groups that keep nothing but the first document of each value of a field: the last reading of each sensor.
//!
//! In: a query with an order, and a `$group` by a field with nothing but `$first`. Out: an access path whose entries lie
//! in the order of the field, and within each of its values in that of the query, and which gives only the first entry of
//! each value. The `$group` runs on what it gives, so that it does not matter when it gives more.
//!
//! Of a time series the newest measurement of each value of the metadata is in the bucket with the greatest
//! `control.max`: the same is asked of its buckets.

use super::candidate::{Candidate, candidates, whole_index};
use super::grouped::{holds_all, is_wanted, position_in};
use super::{Access, IndexAccess, Plan, QuerySpec};
use crate::aggregate::Stage;
use crate::catalog::Collection;
use crate::query::{Filter, Sort};
use crate::storage::Order;
use crate::timeseries::{TimeRange, UnpackBucket};
use meridian_value::key::Direction;
use std::collections::VecDeque;

/// The order of entries that gives the first of each group.
struct FirstOfGroups {
    /// The field that is grouped by.
    path: String,
    /// What the index has behind it.
    within: Vec<(String, Direction)>,
}

/// The plan that gives the first documents of the groups that the stages begin with; `None` where they are no such
/// groups, or no index has the order.
pub(super) fn first_of_groups(
    collection: &Collection,
    query: &QuerySpec,
    stages: &mut VecDeque<Stage>,
) -> Option<Plan> {
    let is_all = query.limit.is_none() && query.skip == 0 && query.nearest.is_none();
    if !is_all || !query.collation.is_simple() {
        return None;
    }
    let wanted = match (stages.front()?, query.sort.as_deref()) {
        (Stage::Group(group), Some(sort)) => FirstOfGroups::of(&group.first_of()?, sort)?,
        (Stage::UnpackBucket(unpack), None) => FirstOfGroups::of_buckets(unpack, stages)?,
        _ => return None,
    };
    let access = wanted.access(collection, query)?;
    if let Some(Stage::UnpackBucket(unpack)) = stages.front_mut() {
        unpack.latest_only = true;
        // Measurements come in the order of their buckets, which is the one that is asked for.
        if !query.asked.sort_key {
            stages.remove(1);
        }
    }
    let method = super::Method::Rows;
    Some(Plan::of_entries(
        Access::Index(access),
        query.clone(),
        method,
    ))
}

impl FirstOfGroups {
    /// The order of a query, which may begin with the field that is grouped by.
    fn of(path: &str, sort: &Sort) -> Option<Self> {
        if sort.is_by_metadata() || sort.fields().is_empty() || !sort.collation().is_simple() {
            return None;
        }
        let fields = sort.fields().iter();
        let all: Vec<_> = fields
            .map(|field| (field.path.as_str().to_owned(), field.direction))
            .collect();
        let within = match all.split_first() {
            Some(((first, _), rest)) if first == path => rest.to_vec(),
            _ => all,
        };
        Some(Self {
            path: path.to_owned(),
            within,
        })
    }

    /// What it comes to on buckets, where the newest measurement is the first.
    fn of_buckets(unpack: &UnpackBucket, stages: &VecDeque<Stage>) -> Option<Self> {
        let (Some(Stage::Sort { order, limit: None }), Some(Stage::Group(group))) =
            (stages.get(1), stages.get(2))
        else {
            return None;
        };
        let asked = Self::of(&group.first_of()?, order)?;
        let meta = unpack.meta_field.as_deref()?;
        let below = asked.path.strip_prefix(meta)?;
        let is_newest = match asked.within.as_slice() {
            [(path, Direction::Descending)] => *path == unpack.time_field,
            _ => false,
        };
        let newest = format!("control.max.{}", unpack.time_field);
        let is_all = unpack.times == TimeRange::ALL;
        (is_newest && is_all && (below.is_empty() || below.starts_with('.'))).then(|| Self {
            path: format!("meta{below}"),
            within: vec![(newest, Direction::Descending)],
        })
    }

    /// The entries in that order, of those that match each once.
    fn access(&self, collection: &Collection, query: &QuerySpec) -> Option<IndexAccess> {
        let mut found = match *query.filter {
            Filter::Always => {
                let whole = collection.ready_indexes().filter(|index| holds_all(index));
                whole.map(|index| whole_index(index, query)).collect()
            }
            _ => candidates(collection, query),
        };
        found.retain(Candidate::is_exact);
        found.into_iter().find_map(|candidate| {
            let wanted = is_wanted(&candidate.access, query);
            let Access::Index(access) = candidate.access else {
                return None;
            };
            let position = position_in(&access, &self.path).filter(|_| wanted)?;
            let mut behind = access.index.spec.key[position + 1..].iter();
            let lies_so = self.within.iter().all(|(path, direction)| {
                let next = behind.next();
                next.is_some_and(|(own, field)| {
                    own == path && field.is_by_value() && field.direction() == *direction
                })
            });
            let is_plain = access.text.is_none() && access.within.is_none();
            (lies_so && is_plain).then(|| IndexAccess {
                order: Order::Forward,
                first_of: Some(position),
                ..access
            })
        })
    }
}
