//! Summaries on disk, so that a start need not read every tree.
//!
//! ```text
//! 'N' tree (u32 BE)                                  -> sequence (u64 LE), head of the summary
//! 'N' tree (u32 BE) sequence (u64 BE) block (u32 BE) -> a block of the summary
//! 'M'                                                -> format (u8), round (u64 LE), own (u64 LE)
//! ```
//!
//! Blocks come first, under a sequence that is not used yet, then the head that makes them count and takes
//! the ones before away, in one batch. Many blocks go straight into files, past log and memtables, while
//! writers go on: only the copy of the summary, which shares its blocks, is taken under their lock.
//!
//! A saved summary holds all commits up to `sequence`, or up to the sequence `round` at which the last
//! round of saving began, whichever is later: trees that had not changed are not saved again. `own` is the
//! sequence that the record itself was to get: when nothing but the round came before it, and nothing
//! after it, nothing is missing. Otherwise the commits since `round` are applied from the write-ahead
//! log; only when that is gone are trees learnt anew.
//!
//! The format is that of the log as well: in the first (whose record had no number) changes did not say for
//! themselves whether they count, and summaries could be wrong after a kill. What an unknown format saved is
//! not used: the trees are read.

use super::{Collection, Tree};
use crate::error::Result;
use crate::index::summary::Summary;
use crate::storage::{Family, Logged, LoggedChange, Order, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

const SUMMARY: u8 = b'N';
const ROUND: &[u8] = b"M";
const FORMAT: u8 = 2;

/// A larger summary is not written through the log.
const LOADED_BYTES_MIN: usize = 1024 * 1024;

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
        let (sequence, summaries) = {
            // No commit of this collection is under way: its summaries hold all up to `sequence`.
            let _writing = collection.state.lock();
            (store.latest_sequence(), counted.copies())
        };
        match save_at(store, sequence, &summaries, LOADED_BYTES_MIN) {
            Ok(written) => operations += written,
            Err(error) => {
                counted.note_changed();
                return Err(error.into());
            }
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
    batch.put(Family::Catalog, ROUND, &encode_round(round, own));
    store.write(batch)?;
    store.forget_log_before(round);
    Ok(())
}

/// Saves summaries as they were at `sequence`, those of so many bytes past the log; the number of operations
/// that the log has of it.
fn save_at(
    store: &Store,
    sequence: u64,
    summaries: &[(Tree, Summary)],
    loaded_min: usize,
) -> std::result::Result<usize, StoreError> {
    let mut batch = store.batch();
    let mut loaded = Vec::new();
    for (tree, summary) in summaries {
        let Some((head, blocks)) = summary.encode() else {
            batch.delete(Family::Catalog, &head_key(*tree));
            continue;
        };
        let key = |number| block_key(*tree, sequence, number);
        let blocks = (0_u32..).zip(blocks);
        if summary.bytes() < loaded_min {
            blocks.for_each(|(number, block)| batch.put(Family::Catalog, &key(number), &block));
        } else {
            loaded.push((*tree, blocks));
        }
        let first = block_key(*tree, 0, 0);
        batch.delete_range(Family::Catalog, &first, &key(0));
        let head = [&sequence.to_le_bytes()[..], &head].concat();
        batch.put(Family::Catalog, &head_key(*tree), &head);
    }
    if !loaded.is_empty() {
        loaded.sort_by_key(|(tree, _)| tree.0);
        // All at once: writers wait while files are taken over.
        store.load(Family::Catalog, |add| {
            loaded.into_iter().try_for_each(|(tree, mut blocks)| {
                blocks
                    .try_for_each(|(number, block)| add(&block_key(tree, sequence, number), &block))
            })
        })?;
    }
    let operations = batch.len();
    store.write(batch)?;
    Ok(operations)
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
    match catch_up(store, round, &trees) {
        Ok(true) => return Ok(SummariesAtStart::CaughtUp),
        Ok(false) => tracing::warn!(
            "the write-ahead log does not reach back to the saved counts: the trees are counted anew in the background"
        ),
        Err(error) => tracing::warn!(
            %error,
            "the write-ahead log cannot be read for counts: the trees are counted anew in the background"
        ),
    }
    for (prefix, (collection, family, _)) in trees {
        let tree = Tree(u32::from_be_bytes(prefix));
        collection
            .state
            .counted()
            .insert(family, tree, Summary::unknown());
    }
    Ok(SummariesAtStart::Learnt)
}

/// Makes the next start count all trees anew, as if nothing had been saved.
///
/// # Errors
/// Storage failures.
pub fn forget(store: &Store) -> Result<()> {
    let mut batch = store.batch();
    batch.delete(Family::Catalog, ROUND);
    Ok(store.write(batch)?)
}

type Loaded<'c> = HashMap<[u8; 4], (&'c Arc<Collection>, Family, u64)>;

/// Applies what was committed since `round`; false when the log does not have all of it.
fn catch_up(
    store: &Store,
    round: u64,
    trees: &Loaded<'_>,
) -> std::result::Result<bool, StoreError> {
    let (mut next, mut has_gap) = (round + 1, false);
    let read = store.replay(round, &mut |sequence, operations, logged| {
        has_gap |= sequence > next;
        next = next.max(sequence + operations);
        if !has_gap {
            logged.iter().for_each(|one| apply(one, trees));
        }
    })?;
    Ok(read && !has_gap && next == store.latest_sequence() + 1)
}

/// Applies one change, if the summary of its tree does not hold it yet.
fn apply(logged: &Logged, trees: &Loaded<'_>) {
    if let LoggedChange::RangeRemoved(end) = &logged.change {
        return forget_range(logged, end, trees);
    }
    let Some((prefix, key)) = logged.key.split_first_chunk::<4>() else {
        return;
    };
    let Some((collection, family, holds)) = trees.get(prefix) else {
        return;
    };
    if logged.family != *family || logged.sequence <= *holds {
        return;
    }
    let tree = Tree(u32::from_be_bytes(*prefix));
    let counted = collection.state.counted();
    counted.end_commit(|summaries| match &logged.change {
        LoggedChange::Added => summaries.add(tree, [key]),
        LoggedChange::Removed => summaries.remove(tree, [key]),
        LoggedChange::Replaced | LoggedChange::RangeRemoved(_) => {}
    });
}

/// A removed range is that of a whole tree, which is gone with it. Should some of a tree that is still
/// there be removed so, then what it holds is to be found out by reading it.
fn forget_range(logged: &Logged, end: &[u8], trees: &Loaded<'_>) {
    for (prefix, (collection, family, holds)) in trees {
        let tree = Tree(u32::from_be_bytes(*prefix));
        let (first, behind) = tree.range();
        let overlaps = logged.key.as_slice() < &behind[..] && &first[..] < end;
        if overlaps && logged.family == *family && logged.sequence > *holds {
            let counted = collection.state.counted();
            counted.insert(*family, tree, Summary::unknown());
        }
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
    let sequence = u64::from_le_bytes(*sequence);
    let (start, end) = (
        block_key(tree, sequence, 0),
        block_key(tree, sequence, wanted),
    );
    let mut scan = snapshot.scan(Family::Catalog, &start, &end, Order::Forward);
    while scan.advance()? {
        blocks.push(scan.entry().1.to_vec());
    }
    let summary = Summary::decode(head, blocks.iter().map(Vec::as_slice));
    Ok(summary.map(|summary| (sequence, summary)))
}

fn encode_round(round: u64, own: u64) -> Vec<u8> {
    [&[FORMAT][..], &round.to_le_bytes(), &own.to_le_bytes()].concat()
}

fn decode_round(record: &[u8]) -> Option<(u64, u64)> {
    let record = record.strip_prefix(&[FORMAT])?;
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

fn block_key(tree: Tree, sequence: u64, block: u32) -> Vec<u8> {
    [
        &head_key(tree)[..],
        &sequence.to_be_bytes(),
        &block.to_be_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StoreOptions;

    fn summary(keys: u32) -> Summary {
        let mut summary = Summary::empty();
        let keys: Vec<[u8; 4]> = (0..keys).map(u32::to_be_bytes).collect();
        summary.add(keys.iter().map(|key| &key[..]));
        summary
    }

    /// Keys that are saved of a tree.
    fn saved_keys(store: &Store, tree: Tree) -> usize {
        let (start, end) = saved_range(tree);
        let snapshot = store.snapshot();
        let mut scan = snapshot.scan(Family::Catalog, &start, &end, Order::Forward);
        let mut keys = 0;
        while scan.advance().unwrap() {
            keys += 1;
        }
        keys
    }

    #[test]
    fn what_was_saved_last_counts_whichever_way_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let (tree, other) = (Tree(7), Tree(8));
        let ways = [(40_000, 0), (20_000, usize::MAX), (60_000, 0), (30_000, 0)];
        for (round, (keys, loaded_min)) in ways.into_iter().enumerate() {
            let sequence = 10 + round as u64;
            let summaries = [(tree, summary(keys)), (other, summary(5))];
            save_at(&store, sequence, &summaries, loaded_min).unwrap();
            let (holds, loaded) = load_summary(&store, tree).unwrap().unwrap();
            assert_eq!((holds, loaded.entries()), (sequence, u64::from(keys)));
            let blocks = summaries[0].1.encode().unwrap().1.count();
            assert_eq!(saved_keys(&store, tree), blocks + 1, "round {round}");
        }
        // Blocks without a head, as a kill leaves them, do not count, and go with the next.
        let unfinished = summary(50_000);
        let numbered = (0_u32..).zip(unfinished.encode().unwrap().1);
        let mut batch = store.batch();
        for (number, block) in numbered {
            batch.put(Family::Catalog, &block_key(tree, 20, number), &block);
        }
        store.write(batch).unwrap();
        let (holds, loaded) = load_summary(&store, tree).unwrap().unwrap();
        assert_eq!((holds, loaded.entries()), (13, 30_000));
        save_at(&store, 21, &[(tree, summary(100))], usize::MAX).unwrap();
        let (holds, loaded) = load_summary(&store, tree).unwrap().unwrap();
        assert_eq!((holds, loaded.entries()), (21, 100));
        let blocks = summary(100).encode().unwrap().1.count();
        assert_eq!(saved_keys(&store, tree), blocks + 1);
    }
}
