//! Groups that count documents by one field: each stretch of the field's values is counted at once.
//!
//! The field's index leads from one group to the next that has entries, so empty stretches cost nothing,
//! and its summary tells how many entries a long one has; of short ones every entry is stepped over, which
//! is all that is done where there are about as many groups as entries. All is counted as of one
//! moment, and writers go on meanwhile: the part of the summary that is asked is copied.

use super::Context;
use super::stretches::{FieldEntries, Known, Walk};
use crate::aggregate::{CountingGroup, Groups, Limits};
use crate::catalog::{Collection, Moment, Tree};
use crate::error::Result;
use crate::expression::Variables;
use crate::index::summary::Summary;
use crate::plan::Access;
use crate::storage::Snapshot;
use bson::Bson;
use bson::raw::RawDocumentBuf;
use meridian_value::key::ABOVE_ALL;

/// The entries that are to be grouped, as of a moment.
pub struct GroupEntries {
    entries: FieldEntries,
    tree: Tree,
    summary: Summary,
}

/// The groups, and how they were counted.
pub struct CountedGroups {
    /// The documents of the groups, in the order of the field.
    pub documents: Vec<RawDocumentBuf>,
    /// Entries of all groups.
    pub entries: u64,
    /// Of these, entries that the summary told and nobody read.
    pub told: u64,
    /// Stretches of the field's values that were counted one by one.
    pub stretches: u64,
}

impl GroupEntries {
    /// Takes the entries of an access path by a field; `None` when they do not lie in its order, or the
    /// summary does not know them.
    pub fn take(
        access: &Access,
        path: &str,
        collection: &Collection,
        moment: &Moment<'_>,
    ) -> Option<Self> {
        let entries = FieldEntries::new(access, path, collection)?;
        let summary = entries.known(moment)?;
        let tree = entries.tree();
        Some(Self {
            entries,
            tree,
            summary,
        })
    }

    /// Counts the groups on the moment's snapshot; `None` when a key cannot be computed: whoever reads the
    /// documents in their order meets the right error.
    ///
    /// # Errors
    /// Storage failures, time limits.
    pub fn count(
        &self,
        group: &CountingGroup,
        snapshot: &Snapshot,
        limits: &Limits,
        context: &Context,
    ) -> Result<Option<CountedGroups>> {
        let known = Known {
            tree: self.tree,
            summary: &self.summary,
        };
        let stretches = group.stretches(self.entries.direction());
        let variables = Variables::default();
        let mut groups = Groups::new(group.group.clone(), limits);
        let mut walk = Walk::new(&self.entries, snapshot, context);
        let (mut entries, mut told, mut count) = (0, 0, 0);
        let mut limit = Vec::new();
        while walk.find_entry()? {
            let (key, value) = walk.entry();
            let field = self.entries.field(key, value)?;
            limit.clear();
            limit.extend_from_slice(&key[..field.bytes.start]);
            stretches.end(&key[field.bytes.clone()], field.value.as_ref(), &mut limit);
            if limit.len() == field.bytes.start {
                // All values behind belong to the same group, under the same leading fields.
                limit.push(ABOVE_ALL);
            }
            let is_null = matches!(field.value, None | Some(Bson::Null));
            let is_alone = match is_null.then(|| group.tells_missing_from_null(&variables)) {
                None => false,
                Some(Ok(tells)) => tells,
                Some(Err(_)) => return Ok(None),
            };
            let (passed, not_read) = if is_alone {
                walk.step()?;
                (1, 0)
            } else {
                walk.clamp(&mut limit);
                walk.count_to(&limit, &known)?
            };
            let document = group.document(field.value.as_ref());
            if groups.push_times(&document, passed, &variables).is_err() {
                return Ok(None);
            }
            entries += passed;
            told += not_read;
            count += 1;
        }
        let documents: Result<Vec<RawDocumentBuf>> = groups.into_documents()?.collect();
        Ok(Some(CountedGroups {
            documents: documents?,
            entries,
            told,
            stretches: count,
        }))
    }
}
