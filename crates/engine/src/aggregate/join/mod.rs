//! Stages that read other collections: `$lookup`, `$graphLookup`, `$unionWith`.
//!
//! They know nothing of storage: [`Foreign`] runs pipelines on other collections for them. A pipeline that depends on
//! the document at hand is parsed anew for each, with the values of its variables: so the planner sees constants, and
//! uses indexes for them.

mod graph_lookup;
mod hashed;
mod lookup;
mod sub_pipeline;
mod union_with;

pub use graph_lookup::GraphLookup;
pub use lookup::{Lookup, LookupRun};
pub use union_with::UnionWith;

pub(super) use sub_pipeline::SubPipeline;

use super::pipeline::Pipeline;
use crate::error::Result;
use crate::expression::Variables;
use bson::raw::RawDocumentBuf;

/// Documents of another collection.
pub type ForeignDocuments = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// The other collections of a database, for the time of a statement.
pub trait Foreign: Send + Sync {
    /// Runs a pipeline on a collection; without one on nothing, for a pipeline that brings its own documents.
    ///
    /// # Errors
    /// Those of planning, of the stages and of the storage.
    fn run(
        &self,
        collection: Option<&str>,
        pipeline: Pipeline,
        variables: &Variables,
    ) -> Result<ForeignDocuments>;

    /// How many documents a collection has, and whether an index begins with the field.
    fn size(&self, collection: &str, field: &str) -> (u64, bool);
}
