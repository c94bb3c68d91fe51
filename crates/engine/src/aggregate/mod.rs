//! Pipelines and their accumulators: parsed once, run over raw BSON.
//!
//! In: the BSON of a pipeline, and raw documents. Out: documents. What stages compute is in [`crate::expression`].
//! Nothing here reads storage: `$out`, `$merge` and the stages that make their own documents are parsed here and
//! done by the engine, which also runs pipelines on other collections for the stages that join.
//!
//! - [`Pipeline`] is a list of [`Stage`]s;
//! - [`Executor`] runs them: the engine *pushes* borrowed documents as its scan meets them
//!   (so that `$match`, `$group`, `$count` copy nothing) and *pulls* what is ready, a batch
//!   at a time; [`run`] does both for an iterator.

mod accumulator;
mod bucket;
mod collection_stats;
mod counting;
mod densify;
mod executor;
#[cfg(test)]
mod expression_tests;
mod geo_near;
mod group;
mod group_buckets;
mod group_key;
mod join;
mod keeping;
mod output;
mod own_documents;
mod pipeline;
mod preferred_numbers;
mod redact;
mod refused;
mod replace_root;
mod script;
mod stage;
mod stage_options;
#[cfg(test)]
mod tests;
mod transform;
mod unwind;
mod window;

pub use crate::sorter::{Limits, STAGE_BYTES_MAX};
pub use accumulator::{ACCUMULATORS_USED, Accumulator, AccumulatorKind};
pub use bucket::BucketAuto;
pub use collection_stats::CollectionStatsOptions;
pub use counting::{CountingGroup, KeyRunEnds};
pub use densify::Densify;
pub use executor::{Executor, RUNNING, StageContext, at_run_time, facet_document, run};
pub use geo_near::{AddDistance, GeoNear};
pub use group::{Group, Groups};
pub use join::{Foreign, ForeignDocuments};
pub use output::{Merge, Out, WhenMatched, WhenNotMatched};
pub use own_documents::OwnDocuments;
pub use pipeline::{Pipeline, STAGES_MAX, dependencies};
pub use replace_root::ReplaceRoot;
pub use stage::{STAGES_USED, Stage};
pub use stage_options::refuse_doubled_fields;
pub use transform::Transform;
pub use unwind::Unwind;
pub use window::{FUNCTIONS_USED, SetWindowFields};
