//! Rank indexes on disk, so that a start need not scan every tree.
//!
//! ```text
//! 'N' tree (u32 BE)                                 -> sequence (u64 LE), head of the rank index
//! 'N' tree (u32 BE) sequence (u64 BE) leaf (u32 BE) -> a leaf of the rank index
//! 'M'                                               -> format (u8), round (u64 LE), own (u64 LE)
//! ```
//!
//! Leaves are written first, under a sequence that is not used yet, then the head that makes them valid and the deletion of
//! the former ones, in one batch. Many leaves go straight into files, past log and memtables. Only a copy of the rank
//! index, which shares its leaves, is taken under a lock.
//!
//! A saved rank index holds all commits up to `sequence`, or up to `round`, whichever is later: trees that had not
//! changed are not saved again. `round` is the sequence at which the last round of saving began, or the lowest one up to
//! which it had to copy a rank index because a commit was under way. `own` is the
//! sequence that the record itself was to get: when nothing but the round came before it, and nothing
//! after it, nothing is missing. Otherwise the commits since `round` are applied from the write-ahead
//! log; only when that is gone are rank indexes built anew.
//!
//! The format is that of the log as well: in the first (whose record had no number) changes did not say for
//! themselves whether they count, and rank indexes could be wrong after a kill. What an unknown format saved is
//! not used: the trees are scanned.

use super::collection::CollectionRanks;
use super::index::RankIndex;
use crate::error::Result;
use crate::storage::{Family, Logged, LoggedChange, Order, Store, StoreError, TreeKey};
use std::collections::HashMap;
use std::sync::Arc;

const RANK_INDEX: u8 = b'N';
const ROUND: &[u8] = b"M";
const FORMAT: u8 = 2;

/// A larger rank index is not written through the log.
const LOADED_BYTES_MIN: usize = 1024 * 1024;

/// Where the rank indexes came from when the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RanksAtStart {
    /// As they were saved.
    Saved,
    /// As they were saved, with the commits since then from the write-ahead log.
    CaughtUp,
    /// Nowhere: they are built in the background by scanning the trees.
    Built,
}

impl RanksAtStart {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::CaughtUp => "caughtUp",
            Self::Built => "built",
        }
    }
}

/// Saves every complete rank index that has changed since it was saved. Of two calls at once, one could say that all
/// is saved up to a sequence number while the other has copied a collection and not written it yet: the caller
/// prevents it.
///
/// # Errors
/// Storage failures.
pub(super) fn save(store: &Store, all: impl Iterator<Item = Arc<CollectionRanks>>) -> Result<()> {
    let begun = store.latest_sequence();
    let (mut round, mut operations) = (begun, 0);
    for ranks in all {
        if !ranks.take_changed() {
            continue;
        }
        let (sequence, indexes) = ranks.copies(store);
        // Of a commit that is under way nothing is in the copy, though the storage may have it by now.
        round = round.min(sequence);
        match save_at(store, sequence, &indexes, LOADED_BYTES_MIN) {
            Ok(written) => operations += written,
            Err(error) => {
                ranks.note_changed();
                return Err(error.into());
            }
        }
    }
    let own = store.latest_sequence() + 1;
    // Commits of others in between: the log has them, this record must not hide them.
    let own = if own == begun + operations as u64 + 1 && round == begun {
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

/// Saves rank indexes as they were at `sequence`, those of so many bytes past the log; the number of operations
/// that the log has of it.
fn save_at(
    store: &Store,
    sequence: u64,
    indexes: &[(TreeKey, Arc<RankIndex>)],
    loaded_min: usize,
) -> std::result::Result<usize, StoreError> {
    let mut batch = store.batch();
    let mut loaded = Vec::new();
    for (tree, index) in indexes {
        let Some((head, blocks)) = index.encode() else {
            batch.delete(Family::Catalog, &head_key(*tree));
            continue;
        };
        let key = |number| block_key(*tree, sequence, number);
        let blocks = (0_u32..).zip(blocks);
        if index.bytes() < loaded_min {
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

/// Gives collections that were just read their saved rank indexes, brought up to date. Those of other
/// trees stay to be built.
///
/// # Errors
/// Storage failures.
pub fn load_saved(store: &Store, all: &[Arc<CollectionRanks>]) -> Result<RanksAtStart> {
    let Some((round, own)) = store.get(Family::Catalog, ROUND, decode_round)?.flatten() else {
        return Ok(RanksAtStart::Built);
    };
    let mut loaded = HashMap::new();
    for ranks in all {
        for (family, tree) in ranks.trees() {
            if let Some((sequence, index)) = load_rank_index(store, tree)? {
                ranks.insert(family, tree, index);
                loaded.insert(tree, (ranks, family, sequence.max(round)));
            }
        }
    }
    if store.latest_sequence() == own {
        for (ranks, ..) in loaded.values() {
            ranks.take_changed();
        }
        return Ok(RanksAtStart::Saved);
    }
    match catch_up(store, round, &loaded) {
        Ok(true) => return Ok(RanksAtStart::CaughtUp),
        Ok(false) => tracing::warn!(
            "the write-ahead log does not reach back to the saved counts: the trees are counted anew in the background"
        ),
        Err(error) => tracing::warn!(
            %error,
            "the write-ahead log cannot be read for counts: the trees are counted anew in the background"
        ),
    }
    for (tree, (ranks, family, _)) in loaded {
        ranks.insert(family, tree, RankIndex::unbuilt());
    }
    Ok(RanksAtStart::Built)
}

/// Makes the next start count all trees anew, as if nothing had been saved.
///
/// # Errors
/// Storage failures.
pub fn forget_saved(store: &Store) -> Result<()> {
    let mut batch = store.batch();
    batch.delete(Family::Catalog, ROUND);
    Ok(store.write(batch)?)
}

/// Those that were loaded, with the sequence up to which they hold all commits.
type Loaded<'r> = HashMap<TreeKey, (&'r Arc<CollectionRanks>, Family, u64)>;

/// Applies what was committed since `round`; false when the log does not have all of it.
fn catch_up(
    store: &Store,
    round: u64,
    loaded: &Loaded<'_>,
) -> std::result::Result<bool, StoreError> {
    let (mut next, mut has_gap) = (round + 1, false);
    let read = store.replay(round, &mut |sequence, operations, logged| {
        has_gap |= sequence > next;
        next = next.max(sequence + operations);
        if !has_gap {
            logged.iter().for_each(|one| apply(one, loaded));
        }
    })?;
    Ok(read && !has_gap && next == store.latest_sequence() + 1)
}

/// Applies one change, if the rank index of its tree does not hold it yet.
fn apply(logged: &Logged, loaded: &Loaded<'_>) {
    if let LoggedChange::RangeRemoved(end) = &logged.change {
        return forget_range(logged, end, loaded);
    }
    let Some((prefix, key)) = logged.key.split_first_chunk() else {
        return;
    };
    let tree = TreeKey::from_prefix(*prefix);
    let Some((ranks, family, holds)) = loaded.get(&tree) else {
        return;
    };
    if logged.family != *family || logged.sequence <= *holds {
        return;
    }
    ranks.end_commit(|indexes| match &logged.change {
        LoggedChange::Added => indexes.add(tree, [key]),
        LoggedChange::Removed => indexes.remove(tree, [key]),
        LoggedChange::Replaced | LoggedChange::RangeRemoved(_) => {}
    });
}

/// A removed range is that of a whole tree, which is gone with it. Should some of a tree that is still
/// there be removed so, then what it holds is to be found out by scanning it.
fn forget_range(logged: &Logged, end: &[u8], loaded: &Loaded<'_>) {
    for (tree, (ranks, family, holds)) in loaded {
        let (first, behind) = tree.range();
        let overlaps = logged.key.as_slice() < &behind[..] && &first[..] < end;
        if overlaps && logged.family == *family && logged.sequence > *holds {
            ranks.insert(*family, *tree, RankIndex::unbuilt());
        }
    }
}

fn load_rank_index(store: &Store, tree: TreeKey) -> Result<Option<(u64, RankIndex)>> {
    let head = store.get(Family::Catalog, &head_key(tree), <[u8]>::to_vec)?;
    let Some((sequence, head)) = head.as_ref().and_then(|head| head.split_first_chunk()) else {
        return Ok(None);
    };
    let mut blocks = Vec::new();
    let wanted = RankIndex::encoded_leaves(head).unwrap_or(0);
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
    let ranks = RankIndex::decode(head, blocks.iter().map(Vec::as_slice));
    Ok(ranks.map(|ranks| (sequence, ranks)))
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
pub(super) fn saved_range(tree: TreeKey) -> (Vec<u8>, Vec<u8>) {
    (head_key(tree), head_key(TreeKey(tree.0 + 1)))
}

fn head_key(tree: TreeKey) -> Vec<u8> {
    [&[RANK_INDEX][..], &tree.prefix()].concat()
}

fn block_key(tree: TreeKey, sequence: u64, block: u32) -> Vec<u8> {
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

    fn ranks(keys: u32) -> Arc<RankIndex> {
        let mut ranks = RankIndex::empty();
        let keys: Vec<[u8; 4]> = (0..keys).map(u32::to_be_bytes).collect();
        ranks.add(keys.iter().map(|key| &key[..]));
        Arc::new(ranks)
    }

    /// Keys that are saved of a tree.
    fn saved_keys(store: &Store, tree: TreeKey) -> usize {
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
        let (tree, other) = (TreeKey(7), TreeKey(8));
        let ways = [(40_000, 0), (20_000, usize::MAX), (60_000, 0), (30_000, 0)];
        for (round, (keys, loaded_min)) in ways.into_iter().enumerate() {
            let sequence = 10 + round as u64;
            let ranks = [(tree, ranks(keys)), (other, ranks(5))];
            save_at(&store, sequence, &ranks, loaded_min).unwrap();
            let (holds, loaded) = load_rank_index(&store, tree).unwrap().unwrap();
            assert_eq!((holds, loaded.entries()), (sequence, u64::from(keys)));
            let blocks = ranks[0].1.encode().unwrap().1.count();
            assert_eq!(saved_keys(&store, tree), blocks + 1, "round {round}");
        }
        // Blocks without a head, as a kill leaves them, do not count, and go with the next.
        let unfinished = ranks(50_000);
        let numbered = (0_u32..).zip(unfinished.encode().unwrap().1);
        let mut batch = store.batch();
        for (number, block) in numbered {
            batch.put(Family::Catalog, &block_key(tree, 20, number), &block);
        }
        store.write(batch).unwrap();
        let (holds, loaded) = load_rank_index(&store, tree).unwrap().unwrap();
        assert_eq!((holds, loaded.entries()), (13, 30_000));
        save_at(&store, 21, &[(tree, ranks(100))], usize::MAX).unwrap();
        let (holds, loaded) = load_rank_index(&store, tree).unwrap().unwrap();
        assert_eq!((holds, loaded.entries()), (21, 100));
        let blocks = ranks(100).encode().unwrap().1.count();
        assert_eq!(saved_keys(&store, tree), blocks + 1);
    }
}
