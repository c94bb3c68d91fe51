//! Groups that count documents by one field: each key run of the field is counted at once.
//!
//! The field's index leads from one group to the next that has entries, so values without entries cost nothing. Entries
//! of a short key run are stepped over; those of a long one are counted by the rank index, without scanning. Both are those
//! of the statement's read view, and commits go on meanwhile.

use super::Context;
use super::key_runs::{EntryWalk, FieldEntries, Known};
use crate::aggregate::{CountingGroup, Groups, Limits};
use crate::error::Result;
use crate::expression::Variables;
use crate::plan::FieldRanges;
use crate::rank::{RankIndex, ReadView};
use crate::storage::{Snapshot, TreeKey};
use bson::Bson;
use bson::raw::RawDocumentBuf;
use meridian_value::key::ABOVE_ALL;
use std::sync::Arc;

/// The entries that are to be grouped, as of a view.
pub struct GroupEntries {
    entries: FieldEntries,
    tree: TreeKey,
    ranks: Arc<RankIndex>,
}

/// The groups, and how they were counted.
pub struct CountedGroups {
    /// The documents of the groups, in the order of the field.
    pub documents: Vec<RawDocumentBuf>,
    /// Entries of all groups.
    pub entries: u64,
    /// Of these, entries that the rank index counted and nobody read.
    pub not_scanned: u64,
    /// Key runs of the field's values that were counted one by one.
    pub key_runs: u64,
}

impl GroupEntries {
    /// Takes the entries that are to be grouped; `None` when the rank index is not built.
    pub fn take(field: &FieldRanges, view: &ReadView) -> Option<Self> {
        let tree = field.ranges.tree;
        Some(Self {
            entries: FieldEntries::new(field),
            tree,
            ranks: view.ranks(tree)?,
        })
    }

    /// Counts the groups on the view's snapshot.
    ///
    /// # Errors
    /// Storage failures, time limits, those of the key's expressions.
    pub fn count(
        &self,
        group: &CountingGroup,
        snapshot: &Snapshot,
        limits: &Limits,
        context: &Context,
    ) -> Result<CountedGroups> {
        let known = Known {
            tree: self.tree,
            ranks: &self.ranks,
        };
        let key_runs = group.key_runs(self.entries.direction());
        let variables = Variables::default();
        let mut groups = Groups::new(group.group.clone(), limits);
        let mut walk = EntryWalk::new(&self.entries, snapshot, context);
        let (mut entries, mut not_scanned, mut count) = (0, 0, 0);
        let mut limit = Vec::new();
        while walk.find_entry()? {
            let (key, value) = walk.entry();
            let field = self.entries.field(key, value)?;
            limit.clear();
            limit.extend_from_slice(&key[..field.bytes.start]);
            key_runs.end(&key[field.bytes.clone()], field.value.as_ref(), &mut limit);
            if limit.len() == field.bytes.start {
                // All values behind belong to the same group, under the same leading fields.
                limit.push(ABOVE_ALL);
            }
            let is_null = matches!(field.value, None | Some(Bson::Null));
            let is_alone = is_null && group.tells_missing_from_null(&variables)?;
            let (passed, not_read) = if is_alone {
                walk.step()?;
                (1, 0)
            } else {
                walk.clamp(&mut limit);
                walk.count_to(&limit, &known)?
            };
            let document = group.document(field.value.as_ref());
            groups.push_times(&document, passed, &variables)?;
            entries += passed;
            not_scanned += not_read;
            count += 1;
        }
        let documents: Result<Vec<RawDocumentBuf>> = groups.into_documents()?.collect();
        Ok(CountedGroups {
            documents: documents?,
            entries,
            not_scanned,
            key_runs: count,
        })
    }
}
