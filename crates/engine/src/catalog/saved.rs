//! Summaries on disk, so that a start need not read every tree.
//!
//! ```text
//! 'n' tree (4 bytes, big-endian)                 -> sequence (u64 LE), head of the summary
//! 'n' tree (4 bytes, big-endian) block (u32 BE)  -> a block of the summary
//! 'm'                                            -> round (u64 LE), own (u64 LE)
//! ```
//!
//! A saved summary holds all commits up to `sequence`, or up to the sequence `round` at which the last
//! round of saving began, whichever is later: trees that had not changed are not saved again. `own` is the
//! sequence that the record itself was to get: when nothing but the round came before it, and nothing
//! after it, nothing is missing. Otherwise the commits since `round` are applied from the write-ahead
//! log; only when that is gone are trees learnt anew.

use super::persist::statistics_puts;
use super::{Collection, DocumentPuts, Tree};
use crate::error::Result;
use crate::index::summary::Summary;
use crate::storage::{Family, Logged, Order, Store};
use std::collections::HashMap;
use std::sync::Arc;

const SUMMARY: u8 = b'n';
const ROUND: &[u8] = b"m";

/// Where the summaries came from when the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummariesAtStart {
    /// As they were saved.
    Saved,
    /// As they were saved, with the commits since then from the write-ahead log.
    CaughtUp,
    /// Nowhere: they are learnt in the background by reading the trees.
    Learnt,
}

impl SummariesAtStart {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::CaughtUp => "caughtUp",
            Self::Learnt => "learnt",
        }
    }
}

/// Saves every complete summary that has changed since it was saved.
///
/// # Errors
/// Storage failures.
pub(super) fn save(store: &Store, collections: &[Arc<Collection>]) -> Result<()> {
    let round = store.latest_sequence();
    let mut operations = 0;
    for collection in collections {
        let counted = collection.state.counted();
        if !counted.take_changed() {
            continue;
        }
        let mut batch = store.batch();
        {
            // No commit of this collection is under way: its summaries hold all up to `sequence`.
            let _writing = collection.state.lock();
            let sequence = store.latest_sequence();
            counted.each(&mut |tree, summary| {
                let Some((head, blocks)) = summary.encode() else {
                    batch.delete(Family::Catalog, &head_key(tree));
                    return;
                };
                let head = [&sequence.to_le_bytes()[..], &head].concat();
                batch.put(Family::Catalog, &head_key(tree), &head);
                for (number, block) in (0_u32..).zip(&blocks) {
                    batch.put(Family::Catalog, &block_key(tree, number), block);
                }
            });
        }
        operations += batch.len();
        if let Err(error) = store.write(batch) {
            counted.note_changed();
            return Err(error.into());
        }
    }
    let own = store.latest_sequence() + 1;
    // Commits of others in between: the log has them, this record must not hide them.
    let own = if own == round + operations as u64 + 1 {
        own
    } else {
        0
    };
    let mut batch = store.batch();
    let record = [round.to_le_bytes(), own.to_le_bytes()].concat();
    batch.put(Family::Catalog, ROUND, &record);
    store.write(batch)?;
    store.forget_log_before(round);
    Ok(())
}

/// Gives collections that were just read their saved summaries, brought up to date. Those of other
/// trees stay unknown.
///
/// # Errors
/// Storage failures.
pub(super) fn load<'c>(
    store: &Store,
    collections: impl Iterator<Item = &'c Arc<Collection>>,
) -> Result<SummariesAtStart> {
    let Some((round, own)) = store.get(Family::Catalog, ROUND, decode_round)?.flatten() else {
        return Ok(SummariesAtStart::Learnt);
    };
    let mut trees = HashMap::new();
    for collection in collections {
        for (family, tree) in collection.counted_trees() {
            if let Some((sequence, summary)) = load_summary(store, tree)? {
                collection.state.counted().insert(family, tree, summary);
                let holds = sequence.max(round);
                trees.insert(tree.prefix(), (collection, family, holds));
            }
        }
    }
    if store.latest_sequence() == own {
        for (collection, ..) in trees.values() {
            collection.state.counted().take_changed();
        }
        return Ok(SummariesAtStart::Saved);
    }
    if catch_up(store, round, &trees)? {
        return Ok(SummariesAtStart::CaughtUp);
    }
    tracing::warn!(
        "the write-ahead log does not reach back to the saved summaries; they are learnt anew in the background"
    );
    for (prefix, (collection, family, _)) in trees {
        let tree = Tree(u32::from_be_bytes(prefix));
        collection
            .state
            .counted()
            .insert(family, tree, Summary::unknown());
    }
    Ok(SummariesAtStart::Learnt)
}

type Loaded<'c> = HashMap<[u8; 4], (&'c Arc<Collection>, Family, u64)>;

/// Applies what was committed since `round`; false when the log does not have all of it.
fn catch_up(store: &Store, round: u64, trees: &Loaded<'_>) -> Result<bool> {
    let (mut next, mut has_gap) = (round + 1, false);
    let read = store.replay(round, &mut |sequence, operations, logged| {
        has_gap |= sequence > next;
        next = next.max(sequence + operations);
        if !has_gap {
            apply(sequence, logged, trees);
        }
    })?;
    Ok(read && !has_gap && next == store.latest_sequence() + 1)
}

fn apply(sequence: u64, logged: &[Logged], trees: &Loaded<'_>) {
    let puts = logged
        .iter()
        .find_map(|one| statistics_puts(one.family, &one.key, one.put.as_deref()?));
    for one in logged {
        let Some((prefix, key)) = one.key.split_first_chunk::<4>() else {
            continue;
        };
        let Some((collection, family, holds)) = trees.get(prefix) else {
            continue;
        };
        let replaces = one.family == Family::Documents && puts == Some(DocumentPuts::Replacing);
        if one.family != *family || sequence <= *holds || (one.put.is_some() && replaces) {
            continue;
        }
        let tree = Tree(u32::from_be_bytes(*prefix));
        collection
            .state
            .counted()
            .end_commit(|summaries| match one.put {
                Some(_) => summaries.add(tree, [key]),
                None => summaries.remove(tree, [key]),
            });
    }
}

fn load_summary(store: &Store, tree: Tree) -> Result<Option<(u64, Summary)>> {
    let head = store.get(Family::Catalog, &head_key(tree), <[u8]>::to_vec)?;
    let Some((sequence, head)) = head.as_ref().and_then(|head| head.split_first_chunk()) else {
        return Ok(None);
    };
    let mut blocks = Vec::new();
    let wanted = Summary::encoded_blocks(head).unwrap_or(0);
    let snapshot = store.snapshot();
    let (start, end) = (block_key(tree, 0), block_key(tree, wanted));
    let mut scan = snapshot.scan(Family::Catalog, &start, &end, Order::Forward);
    while scan.advance()? {
        blocks.push(scan.entry().1.to_vec());
    }
    let summary = Summary::decode(head, blocks.iter().map(Vec::as_slice));
    Ok(summary.map(|summary| (u64::from_le_bytes(*sequence), summary)))
}

fn decode_round(record: &[u8]) -> Option<(u64, u64)> {
    let (round, own) = record.split_first_chunk()?;
    let own = own.try_into().ok()?;
    Some((u64::from_le_bytes(*round), u64::from_le_bytes(own)))
}

/// The keys of everything saved of a tree: from the first up to but not including the second.
pub(super) fn saved_range(tree: Tree) -> (Vec<u8>, Vec<u8>) {
    (head_key(tree), head_key(Tree(tree.0 + 1)))
}

fn head_key(tree: Tree) -> Vec<u8> {
    [&[SUMMARY][..], &tree.prefix()].concat()
}

fn block_key(tree: Tree, block: u32) -> Vec<u8> {
    [&head_key(tree)[..], &block.to_be_bytes()].concat()
}
