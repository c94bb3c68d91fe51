//! Runs what a pipeline's plan counts: groups, the parts of a `$facet`, a whole count.
//!
//! In: the answers that a plan asks for, all in one read view. Out: the documents of the stages that they stand for. Rank
//! indexes are asked for all of them first; then the view's counts end, so that commits go on, and its snapshot is read.

use super::Engine;
use super::aggregate::{Running, executor, run};
use super::read::Opened;
use crate::aggregate::{Groups, Limits, Stage, at_run_time, facet_document};
use crate::cursor::Query;
use crate::error::{Error, Result};
use crate::exec::{Context, GroupEntries, Total, as_planned};
use crate::expression::Variables;
use crate::plan::{Answer, CountBy, CountShape, FacetPlan, Method};
use bson::raw::{CString, RawDocumentBuf};

/// What one answer is.
pub(super) struct Counted {
    pub documents: Vec<RawDocumentBuf>,
    pub figures: Figures,
}

/// How it was counted.
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

/// What rank indexes know of an answer.
enum RankAnswer {
    Total(Total),
    Groups(GroupEntries),
}

impl Engine {
    /// Answers a pipeline that begins with a `$facet` whose parts are counted.
    pub(super) fn count_facets(
        &self,
        opened: &Opened,
        facets: &[FacetPlan],
        stages: &[Stage],
        running: &Running<'_>,
    ) -> Result<Query> {
        let answers: Vec<&Answer> = facets.iter().map(|facet| &facet.answer).collect();
        for answer in &answers {
            self.work.add_plan(&answer.plan, &opened.collection);
        }
        let limits = &running.context.limits;
        let counted = count(&answers, opened, limits, &self.work.context())?;
        let mut executors = Vec::with_capacity(facets.len());
        for (facet, counted) in facets.iter().zip(counted) {
            let mut behind = executor(&facet.stages, running)?;
            for document in &counted.documents {
                if behind.push(document)?.is_break() {
                    break;
                }
            }
            executors.push(behind);
        }
        let names = facets.iter().map(|facet| facet.name.clone()).collect();
        let document = facet_document(names, executors)?;
        run(vec![document], stages, running)
    }
}

/// Counts what answers ask for that are counted by rank indexes.
pub(super) fn count(
    answers: &[&Answer],
    opened: &Opened,
    limits: &Limits,
    context: &Context,
) -> Result<Vec<Counted>> {
    let take = |answer: &&Answer| RankAnswer::of(answer, opened);
    let taken = answers.iter().map(take).collect::<Result<Vec<_>>>()?;
    opened.view.end_counts();
    let pairs = answers.iter().zip(&taken);
    pairs
        .map(|(answer, taken)| {
            let counted = taken.count(answer, opened, limits, context);
            counted.map_err(at_run_time)
        })
        .collect()
}

impl RankAnswer {
    fn of(answer: &Answer, Opened { collection, view }: &Opened) -> Result<Self> {
        match &answer.plan.method {
            Method::CountGroups(_, field) => {
                Ok(Self::Groups(as_planned(GroupEntries::take(field, view))?))
            }
            Method::Count(CountBy::RankIndex(countable)) => {
                let total = Total::take(countable, collection, view);
                Ok(Self::Total(as_planned(total)?))
            }
            _ => Err(Error::internal("a plan was taken for one that counts")),
        }
    }

    fn count(
        &self,
        answer: &Answer,
        opened: &Opened,
        limits: &Limits,
        context: &Context,
    ) -> Result<Counted> {
        let snapshot = opened.view.snapshot();
        match (self, &answer.plan.method) {
            (Self::Groups(entries), Method::CountGroups(group, _)) => {
                let counted = entries.count(group, snapshot, limits, context)?;
                let figures = Figures {
                    groups: counted.documents.len() as u64,
                    key_runs: counted.key_runs,
                    entries: counted.entries,
                    not_scanned: counted.not_scanned,
                };
                Ok(Counted {
                    documents: counted.documents,
                    figures,
                })
            }
            (Self::Total(total), _) => {
                let entries = total.count(snapshot, context)?;
                let documents = count_documents(answer.shape.as_ref(), entries, limits)?;
                let figures = Figures {
                    groups: documents.len() as u64,
                    key_runs: 1,
                    entries,
                    not_scanned: total.not_scanned(),
                };
                Ok(Counted { documents, figures })
            }
            (Self::Groups(_), _) => Err(Error::internal("a plan was taken for one that groups")),
        }
    }
}

/// What the stage that a count answers gives: nothing at all for nothing.
pub(super) fn count_documents(
    shape: Option<&CountShape>,
    count: u64,
    limits: &Limits,
) -> Result<Vec<RawDocumentBuf>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match shape {
        Some(CountShape::Group(group)) => {
            let mut groups = Groups::new(group.clone(), limits);
            groups.push_times(&RawDocumentBuf::new(), count, &Variables::default())?;
            groups.into_documents()?.collect()
        }
        Some(CountShape::Count(name)) => {
            let name = CString::try_from(name.as_str())
                .map_err(|_| Error::bad_value("a field's name may not hold a null byte"))?;
            let mut document = RawDocumentBuf::new();
            match i32::try_from(count) {
                Ok(count) => document.append(&*name, count),
                Err(_) => document.append(&*name, i64::try_from(count).unwrap_or(i64::MAX)),
            }
            Ok(vec![document])
        }
        None => Ok(Vec::new()),
    }
}
