//! Expressions, accumulators and pipelines: parsed once, evaluated over raw BSON.
//!
//! In: the BSON of an expression or of a pipeline, and raw documents. Out: values, and
//! documents. Nothing here reads storage: `$out`, `$merge` and the stages that make their
//! own documents are parsed here and done by the engine.
//!
//! - [`Expression`] is what `$expr`, `$project`, `$group` and update pipelines evaluate;
//! - [`Pipeline`] is a list of [`Stage`]s;
//! - [`Executor`] runs them: the engine *pushes* borrowed documents as its scan meets them
//!   (so that `$match`, `$group`, `$count` copy nothing) and *pulls* what is ready, a batch
//!   at a time; [`run`] does both for an iterator.

mod accumulator;
mod bucket;
mod counting;
mod dependencies;
mod executor;
mod expression;
mod geo_near;
mod group;
mod group_key;
mod keeping;
mod metadata;
mod output;
mod pipeline;
mod replace_root;
mod stage;
mod sum;
#[cfg(test)]
mod tests;
mod time;
mod time_abbreviations;
mod time_bins;
mod time_parse;
mod time_scan;
mod time_steps;
mod time_text;
mod time_tokens;
mod transform;
mod unwind;
mod value;

pub use accumulator::{Accumulator, Kind as AccumulatorKind};
pub use bucket::BucketAuto;
pub use counting::{CountingGroup, Stretches};
pub use dependencies::FieldSet;
pub use executor::{Executor, Limits, facet_document, run};
pub(crate) use expression::check_path_length;
pub use expression::{Expression, VariableScope, Variables};
pub use geo_near::{AddDistance, GeoNear};
pub use group::{Group, Groups};
pub use metadata::{MetadataScope, NearMetadata, mentions_metadata};
pub use output::{Merge, Out, WhenMatched, WhenNotMatched};
pub use pipeline::{Pipeline, dependencies};
pub use replace_root::ReplaceRoot;
pub use stage::Stage;
pub use transform::Transform;
pub use unwind::Unwind;
pub use value::Value;
pub(crate) use value::within_levels;
