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
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits};

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

    /// How many documents a collection has, and whether an index begins with the field, by which values are
    /// found as the collation compares them.
    fn size(&self, collection: &str, field: &str, collation: &Collation) -> (u64, bool);
}

/// The same for values that compare as equal, and for null and undefined.
fn encoded(value: RawBsonRef<'_>, collation: &Collation) -> Vec<u8> {
    let value = match value {
        RawBsonRef::Undefined => RawBsonRef::Null,
        other => other,
    };
    let (mut bytes, mut types) = (Vec::new(), TypeBits::default());
    collation.encode(value, Direction::Ascending, &mut bytes, &mut types);
    bytes
}

/// Hands the values at a path to `visit`, as MongoDB's `visitAllValuesAtPath` finds them: of an array its elements, of
/// arrays on the way what their documents have; a number is a position where there is an array.
fn for_each_value<'d>(
    document: &'d RawDocument,
    path: &[Box<str>],
    visit: &mut dyn FnMut(RawBsonRef<'d>),
) {
    let Some((first, mut rest)) = path.split_first() else {
        return;
    };
    let Ok(Some(mut value)) = document.get(first) else {
        return;
    };
    while let (RawBsonRef::Array(items), Some((name, behind))) = (value, rest.split_first()) {
        let Some(position) = position(name) else {
            break;
        };
        let Some(Ok(item)) = items.into_iter().nth(position) else {
            return;
        };
        (value, rest) = (item, behind);
    }
    match value {
        RawBsonRef::Array(items) if rest.is_empty() => items.into_iter().flatten().for_each(visit),
        value if rest.is_empty() => visit(value),
        RawBsonRef::Array(items) => {
            for item in items.into_iter().flatten() {
                if let RawBsonRef::Document(inner) = item {
                    for_each_value(inner, rest, visit);
                }
            }
        }
        RawBsonRef::Document(inner) => for_each_value(inner, rest, visit),
        _ => {}
    }
}

fn position(name: &str) -> Option<usize> {
    let is_plain = name == "0" || !name.starts_with('0');
    let is_digits = name.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && is_digits).then(|| name.parse().ok()).flatten()
}
