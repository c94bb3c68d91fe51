//! Chooses how a statement finds its documents, as a value that can be printed.
//!
//! In: a collection's indexes, a parsed query and what is wanted of it. Out: a [`Plan`]: one access path, what must
//! still be tested on documents, what follows (sort, skip, limit, projection), and how the answer is made of it
//! ([`Method`]); of a pipeline a [`PipelinePlan`]. Candidates come from the filter's conjuncts; where several compete,
//! their entries are counted, up to a bound, and the fewest win. Deliberately absent: running the plan (see `exec`),
//! caching plans.

mod access;
mod buckets;
mod candidate;
mod choose;
mod entry_use;
mod explain;
mod first;
mod grouped;
mod key_bounds;
mod measured_near;
mod method;
mod near;
mod partial;
mod pipeline;
mod ranges;
mod scans;
mod shape;
mod text;
mod union;
mod wildcard;

pub use access::{
    Access, Branch, GeoAccess, IndexAccess, NearAccess, PrimaryAccess, RankedAccess, TextScan,
    UnionAccess, Used,
};
pub use buckets::bucket_partial_filter;
pub use choose::Sizes;
pub use entry_use::{EntryFilter, EntryUse, RowSource};
pub use explain::{
    Amount, Amounts, above, access_document, count_document, counted_document, plan_document,
};
pub use grouped::FieldRanges;
pub use key_bounds::KeyBounds;
pub use method::{CountBy, Goal, Method, SampleSize, plan};
pub use pipeline::{
    Answer, CountShape, FacetPlan, PipelinePlan, PipelineSource, Split, plan_pipeline,
};
pub use ranges::{Countable, TreeRanges, walked_ranges};
pub use scans::scans_are_forbidden;
pub use text::{refuse_without_collection, resolve_text};

use crate::catalog::Collection;
use crate::error::{Code, Error, Result};
use crate::expression::{AskedMetadata, FieldSet};
use crate::query::{Filter, Nearest, Projection, Sort};
use crate::storage::Order;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What a statement asks for, parsed.
#[derive(Clone)]
pub struct QuerySpec {
    /// What must match.
    pub filter: Arc<Filter>,
    /// The `$near` among it: rows come nearest first.
    pub nearest: Option<Nearest>,
    /// The order of the rows.
    pub sort: Option<Arc<Sort>>,
    /// Rows to leave out at the beginning.
    pub skip: u64,
    /// Rows to return at most.
    pub limit: Option<u64>,
    /// The shape of the rows.
    pub projection: Option<Arc<Projection>>,
    /// The projection as the client wrote it.
    pub projection_source: Option<RawDocumentBuf>,
    /// By what texts are compared.
    pub collation: Collation,
    /// By what the documents lie in the order of their `_id`s, if they do; known when the query is planned.
    pub ids: Option<Collation>,
    /// All documents as they came, and those that come later.
    pub tailable: bool,
    /// Which keys of the hinted index.
    pub key_bounds: Option<KeyBounds>,
    /// Rows are the entries by which documents are found.
    pub return_key: bool,
    /// Rows tell what their documents lie under.
    pub show_record_id: bool,
    /// What the client wants used.
    pub hint: Option<Hint>,
    /// The path whose values are asked for, of a `distinct`.
    pub distinct: Option<String>,
    /// What is read of the rows, by the projection or whatever else comes behind filter and sort.
    pub needs: FieldSet,
    /// What stages behind it ask for beside fields.
    pub asked: AskedMetadata,
    /// Whether a sort that outgrows its memory may spill to disk.
    pub allow_disk_use: bool,
    /// Whether all documents may be gone through whatever `notablescan` says.
    pub may_scan: bool,
}

impl QuerySpec {
    /// The same, about a collection.
    fn on(self, collection: &Collection) -> Self {
        Self {
            ids: collection.id_order().cloned(),
            ..self
        }
    }

    /// Asks for all documents, as they are.
    pub fn everything() -> Self {
        Self {
            filter: Arc::new(Filter::Always),
            nearest: None,
            sort: None,
            skip: 0,
            limit: None,
            projection: None,
            projection_source: None,
            collation: Collation::SIMPLE,
            ids: Some(Collation::SIMPLE),
            tailable: false,
            key_bounds: None,
            return_key: false,
            show_record_id: false,
            hint: None,
            distinct: None,
            needs: FieldSet::All,
            asked: AskedMetadata::default(),
            allow_disk_use: false,
            may_scan: false,
        }
    }
}

/// What a client's `hint` asks for.
#[derive(Debug, Clone)]
pub enum Hint {
    /// The collection itself, in this direction (`{$natural: 1}`).
    Natural(Order),
    /// The index with this name.
    Name(String),
    /// The index with this key pattern.
    Key(RawDocumentBuf),
}

impl Hint {
    /// Parses a `hint`; an empty document is none.
    ///
    /// # Errors
    /// `FailedToParse` for other types.
    pub fn parse(hint: Option<RawBsonRef<'_>>) -> Result<Option<Self>> {
        match hint {
            None => Ok(None),
            Some(RawBsonRef::String(name)) => Ok(Some(Self::Name(name.to_owned()))),
            Some(RawBsonRef::Document(key)) if key.is_empty() => Ok(None),
            Some(RawBsonRef::Document(key)) => Self::parse_key(key).map(Some),
            Some(_) => Err(Error::new(
                Code::FailedToParse,
                "Hint must be a string or an object",
            )),
        }
    }

    /// Whether it asks for the order of `_id`.
    pub(super) fn is_id(&self) -> bool {
        match self {
            Self::Natural(_) => false,
            Self::Name(name) => name == "_id_",
            Self::Key(key) => {
                meridian_value::compare_documents(key, &bson::rawdoc! { "_id": 1 }).is_eq()
            }
        }
    }

    fn parse_key(key: &RawDocument) -> Result<Self> {
        let Ok(Some(natural)) = key.get("$natural") else {
            return Ok(Self::Key(key.to_owned()));
        };
        if key.iter().nth(1).is_some() {
            let shown = crate::text::document_text(key);
            return Err(Error::bad_value(format!(
                "Cannot include '$natural' in compound hint: {shown}"
            )));
        }
        // Whatever it is: as mongod takes it.
        let is_backward = meridian_value::number::Number::from_raw(natural)
            .is_some_and(meridian_value::number::Number::is_negative);
        Ok(Self::Natural(match is_backward {
            true => Order::Backward,
            false => Order::Forward,
        }))
    }
}

/// How a statement is carried out.
#[derive(Clone)]
pub struct Plan {
    /// Where the documents come from.
    pub access: Access,
    /// What the access path does not prove: tested on documents.
    pub residual: Option<Arc<Filter>>,
    /// A sort that the access path does not give.
    pub sort: Option<Arc<Sort>>,
    /// What the client asked for.
    pub query: QuerySpec,
    /// Candidates that were not chosen, for `explain`.
    pub rejected: Vec<Access>,
    /// How the answer is made.
    pub method: Method,
    /// Whether a rank index would answer, were it built.
    pub waits_for_rank_index: bool,
}

impl Plan {
    /// A plan that needs the entries of an access path, and nothing behind them.
    fn of_entries(access: Access, query: QuerySpec, method: Method) -> Self {
        Self {
            access,
            residual: None,
            sort: None,
            query,
            rejected: Vec::new(),
            method,
            waits_for_rank_index: false,
        }
    }

    /// Whether counting the access path's entries answers a count: nothing is left to test.
    pub fn counts_by_entries(&self) -> bool {
        self.residual.is_none() && !self.access.tests_entries()
    }

    /// What is used to find documents. A walk over all of them uses the order of `_id` where that was asked for, by a
    /// sort or a hint.
    pub fn used(&self) -> SmallVec<[Used<'_>; 1]> {
        match self.walks_by_id() {
            true => smallvec![Used::Id],
            false => self.access.used(),
        }
    }

    /// Whether all documents are read, in the order of `_id`.
    pub fn walks_by_id(&self) -> bool {
        let sort = self.query.sort.as_ref();
        let is_sorted = sort.is_some_and(|sort| sort.natural().is_none()) && self.sort.is_none();
        let is_hinted = self.query.hint.as_ref().is_some_and(Hint::is_id);
        let is_by_id = self.query.ids.is_some();
        is_by_id && matches!(self.access, Access::Collection(_)) && (is_sorted || is_hinted)
    }

    /// What the bounds do not prove, whether it is tested on entries or on documents: for whoever reads
    /// documents without testing entries.
    pub fn unproven(&self) -> Option<Arc<Filter>> {
        let on_entries = self
            .access
            .entry_use()
            .and_then(|entries| entries.filter.as_ref())
            .map(|tested| &tested.filter);
        let parts = on_entries.into_iter().chain(&self.residual);
        entry_use::joined(
            parts
                .flat_map(|filter| filter.conjuncts())
                .cloned()
                .collect(),
        )
    }
}
