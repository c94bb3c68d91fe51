//! `notablescan`: whether statements may go through all documents of a collection to find some.
//!
//! As in MongoDB it is for the whole process, and not for statements that ask for all documents, for collections of the
//! system and of its databases, nor for the documents that a stage reads of another collection.

use super::QuerySpec;
use crate::catalog::Collection;
use crate::error::{Code, Error, Result};
use crate::query::Filter;
use std::sync::atomic::{AtomicBool, Ordering};

static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// `notablescan`.
pub fn scans_are_forbidden() -> &'static AtomicBool {
    &FORBIDDEN
}

/// Whether a query must find its documents by an index.
pub(super) fn needs_index(collection: &Collection, query: &QuerySpec) -> bool {
    let namespace = &collection.namespace;
    let is_internal = matches!(namespace.database.as_str(), "admin" | "local" | "config");
    FORBIDDEN.load(Ordering::Relaxed)
        && !query.may_scan
        && !matches!(*query.filter, Filter::Always)
        && !is_internal
        && !namespace.is_system()
}

/// Refuses a scan where the query must not make one.
///
/// # Errors
/// `NoQueryExecutionPlans`, for this reason.
pub(super) fn check_scan(collection: &Collection, query: &QuerySpec, why: &str) -> Result<()> {
    match needs_index(collection, query) {
        false => Ok(()),
        true => Err(Error::new(
            Code::NoQueryExecutionPlans,
            format!("error processing query: planner returned error :: caused by :: {why}"),
        )),
    }
}
