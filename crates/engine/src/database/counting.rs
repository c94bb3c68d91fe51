//! Pipelines that are answered by counting entries: groups, buckets, and facets of them.
//!
//! In: what the planner may use of a pipeline, and its first stages. Out: a [`Counting`], if they are a
//! `$group` that counts by one field of an index, or a `$facet` of such pipelines and of `$count`s. All
//! parts of a `$facet` are counted in one read view. Where an index or its rank index cannot serve,
//! the caller runs the pipeline over documents as any other.

use super::Engine;
use super::aggregate::{executor, run};
use super::read::Opened;
use crate::aggregate::{CountingGroup, Limits, Stage, facet_document};
use crate::catalog::Collection;
use crate::cursor::Query;
use crate::error::Result;
use crate::exec::{Context, GroupEntries, Total};
use crate::plan::{Access, QuerySpec, grouped};
use crate::query::Filter;
use crate::rank::ReadView;
use crate::storage::Snapshot;
use bson::raw::{CString, RawDocumentBuf};
use std::sync::Arc;

/// A pipeline whose first stage counts entries.
pub(super) struct Counting {
    pub parts: Vec<Part>,
    /// Whether the parts are those of a `$facet`.
    pub is_facet: bool,
}

/// One thing that is counted.
pub(super) struct Part {
    /// The name of its facet.
    pub name: String,
    pub access: Access,
    pub what: What,
    /// The stages that follow.
    rest: Vec<Stage>,
}

pub(super) enum What {
    /// Everything, under this name.
    Total(String),
    /// By groups.
    Groups(CountingGroup),
}

/// What one part found.
pub(super) struct Found {
    documents: Vec<RawDocumentBuf>,
    pub figures: Figures,
}

/// How a part was counted.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Figures {
    /// Documents of the answer before the stages that follow.
    pub groups: u64,
    /// Key runs of the field.
    pub key_runs: u64,
    /// Entries counted.
    pub entries: u64,
    /// Of these, entries that the rank index counted.
    pub not_scanned: u64,
}

/// A part's entries in a view.
enum Taken {
    Total(Total),
    Groups(GroupEntries),
}

impl Engine {
    /// Answers a pipeline by counting entries, if it can be.
    pub(super) fn count_groups(
        &self,
        opened: &Opened,
        spec: &QuerySpec,
        stages: &[Stage],
        limits: &Limits,
    ) -> Result<Option<Query>> {
        let Some(counting) = opened.counting(spec, stages)? else {
            return Ok(None);
        };
        let Some(found) = counting.count(opened, limits, &self.work.context())? else {
            return Ok(None);
        };
        for part in &counting.parts {
            match part.what {
                What::Groups(_) => self.work.add_grouped(&part.access, &opened.collection),
                What::Total(_) => self.work.add_total(&part.access, &opened.collection),
            }
        }
        let rest = &stages[1..];
        if !counting.is_facet {
            let documents = found.into_iter().flat_map(|one| one.documents).collect();
            return run(documents, rest, limits).map(Some);
        }
        let mut executors = Vec::with_capacity(found.len());
        for (part, one) in counting.parts.iter().zip(found) {
            let mut stages = executor(&part.rest, limits)?;
            for document in &one.documents {
                if stages.push(document)?.is_break() {
                    break;
                }
            }
            executors.push(stages);
        }
        let names = counting.parts.into_iter().map(|part| part.name).collect();
        // What is wrong here is met again, and told in MongoDB's words, by the plain way.
        let Ok(document) = facet_document(names, executors) else {
            return Ok(None);
        };
        run(vec![document], rest, limits).map(Some)
    }
}

impl Opened {
    /// What a pipeline counts; `None` for others.
    pub(super) fn counting(&self, spec: &QuerySpec, stages: &[Stage]) -> Result<Option<Counting>> {
        if spec.sort.is_some() || spec.limit.is_some() || spec.skip > 0 {
            return Ok(None);
        }
        let part = |name: &str, stages: &[Stage]| self.part(spec, name, stages);
        let (parts, is_facet) = match stages.first() {
            Some(Stage::Group(_)) => (part("", &stages[..1])?.into_iter().collect(), false),
            Some(Stage::Facet(facets)) => {
                let mut parts = Vec::with_capacity(facets.len());
                for (name, pipeline) in facets {
                    let Some(part) = part(name, &pipeline.stages)? else {
                        return Ok(None);
                    };
                    parts.push(part);
                }
                (parts, true)
            }
            _ => (Vec::new(), false),
        };
        Ok((!parts.is_empty()).then_some(Counting { parts, is_facet }))
    }

    /// What one pipeline counts: behind `$match`es of its own a `$group` or `$count`.
    fn part(&self, spec: &QuerySpec, name: &str, stages: &[Stage]) -> Result<Option<Part>> {
        let is_match = |stage: &&Stage| matches!(stage, Stage::Match(_));
        let matches = stages.iter().take_while(is_match).count();
        let spec = narrowed(spec, &stages[..matches]);
        let found = match stages.get(matches) {
            Some(Stage::Group(group)) => CountingGroup::new(group).and_then(|group| {
                let access = grouped(&self.collection, &spec, group.path())?;
                Some((access, What::Groups(group)))
            }),
            Some(Stage::Count(field)) => {
                let plan = self.plan(spec)?;
                plan.counts_by_entries()
                    .then_some((plan.access, What::Total(field.clone())))
            }
            _ => None,
        };
        Ok(found.map(|(access, what)| Part {
            name: name.to_owned(),
            access,
            what,
            rest: stages[matches + 1..].to_vec(),
        }))
    }
}

impl Counting {
    /// Counts all parts as of the view; `None` when a rank index cannot tell, or a key cannot be computed.
    pub(super) fn count(
        &self,
        opened: &Opened,
        limits: &Limits,
        context: &Context,
    ) -> Result<Option<Vec<Found>>> {
        let Some(taken) = self.take(opened) else {
            return Ok(None);
        };
        opened.view.end_counts();
        let mut found = Vec::with_capacity(taken.len());
        for (part, taken) in self.parts.iter().zip(taken) {
            match part.count(&taken, opened.view.snapshot(), limits, context)? {
                Some(one) => found.push(one),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// Whether the rank indexes that a pipeline is counted by know enough now.
    pub(super) fn can_count(&self, opened: &Opened) -> bool {
        self.take(opened).is_some()
    }

    fn take(&self, Opened { collection, view }: &Opened) -> Option<Vec<Taken>> {
        if self.parts.len() > 1 {
            // Each part unpins the view: all trees that may be asked about come first.
            view.unpin_with_all();
        }
        let take = |part: &Part| part.take(collection, view);
        self.parts.iter().map(take).collect()
    }
}

impl Part {
    fn take(&self, collection: &Collection, view: &ReadView) -> Option<Taken> {
        match &self.what {
            What::Total(_) => Total::take(&self.access, collection, view).map(Taken::Total),
            What::Groups(group) => {
                GroupEntries::take(&self.access, group.path(), collection, view).map(Taken::Groups)
            }
        }
    }

    fn count(
        &self,
        taken: &Taken,
        snapshot: &Snapshot,
        limits: &Limits,
        context: &Context,
    ) -> Result<Option<Found>> {
        match (taken, &self.what) {
            (Taken::Groups(entries), What::Groups(group)) => {
                let counted = entries.count(group, snapshot, limits, context)?;
                Ok(counted.map(|counted| Found {
                    figures: Figures {
                        groups: counted.documents.len() as u64,
                        key_runs: counted.key_runs,
                        entries: counted.entries,
                        not_scanned: counted.not_scanned,
                    },
                    documents: counted.documents,
                }))
            }
            (Taken::Total(total), What::Total(name)) => {
                let entries = total.count(snapshot, context)?;
                let documents = total_document(name, entries);
                Ok(documents.map(|documents| Found {
                    figures: Figures {
                        groups: documents.len() as u64,
                        key_runs: 1,
                        entries,
                        not_scanned: total.not_scanned(),
                    },
                    documents,
                }))
            }
            _ => unreachable!("a part's entries are taken as it counts"),
        }
    }
}

/// As `$count` answers: nothing at all for nothing.
fn total_document(name: &str, entries: u64) -> Option<Vec<RawDocumentBuf>> {
    if entries == 0 {
        return Some(Vec::new());
    }
    let name = CString::try_from(name).ok()?;
    let mut document = RawDocumentBuf::new();
    match i32::try_from(entries) {
        Ok(entries) => document.append(&*name, entries),
        Err(_) => document.append(&*name, i64::try_from(entries).ok()?),
    }
    Some(vec![document])
}

/// A query with the conditions of `$match` stages added.
fn narrowed(spec: &QuerySpec, matches: &[Stage]) -> QuerySpec {
    let mut conditions = vec![(*spec.filter).clone()];
    for stage in matches {
        if let Stage::Match(filter) = stage {
            conditions.push(filter.clone());
        }
    }
    let filter = match conditions.len() {
        1 => spec.filter.clone(),
        _ => Arc::new(Filter::And(conditions).simplify()),
    };
    QuerySpec {
        filter,
        ..spec.clone()
    }
}
