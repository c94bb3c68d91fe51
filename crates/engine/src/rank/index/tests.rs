//! A rank index against an ordered set that it must agree with.

use super::*;
use crate::rank::range_cache::{Cacheable, RangeCache};
use crate::storage::Store;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

type Keys = BTreeSet<Vec<u8>>;

/// A rank index and what its tree holds, with one walk possibly under way.
struct Model {
    ranks: RankIndex,
    keys: Keys,
    walk: Option<(UnbuiltSpan, Keys)>,
    rebuilt: usize,
}

impl Model {
    fn new(ranks: RankIndex, keys: Keys) -> Self {
        Self {
            ranks,
            keys,
            walk: None,
            rebuilt: 0,
        }
    }

    fn add(&mut self, keys: Keys) {
        let new: Vec<&[u8]> = keys
            .iter()
            .filter(|key| !self.keys.contains(*key))
            .map(Vec::as_slice)
            .collect();
        self.ranks.add(new);
        self.keys.extend(keys);
    }

    fn remove(&mut self, keys: &[Vec<u8>]) {
        let kept = self.ranks.remove(keys.iter().map(Vec::as_slice));
        self.rebuilt += usize::from(!kept);
        keys.iter().for_each(|key| {
            self.keys.remove(key);
        });
    }

    fn begin(&mut self) {
        if let Some(span) = self.ranks.begin_rebuild() {
            self.walk = Some((span, self.keys.clone()));
        }
    }

    fn finish(&mut self, entries_max: usize) {
        let Some((span, keys)) = self.walk.take() else {
            return;
        };
        let mut walked = ScannedSpan::new(&span);
        let inside = keys
            .range(span.start.clone()..)
            .take_while(|key| span.end.as_ref().is_none_or(|end| *key < end));
        for key in inside {
            if walked.entries() == entries_max {
                walked.stop_before(key);
                break;
            }
            walked.push(key);
        }
        let plausible = self.ranks.finish_rebuild(walked);
        self.rebuilt += usize::from(!plausible);
    }

    fn count(&self, start: &[u8], end: Option<&[u8]>) -> Option<u64> {
        self.count_by(&self.ranks, start, end)
    }

    fn count_by(&self, ranks: &RankIndex, start: &[u8], end: Option<&[u8]>) -> Option<u64> {
        let mut walked = 0;
        let whole = ranks.count(start, end, &mut |partial| {
            let inside = self
                .keys
                .range(partial.start.to_vec()..)
                .take_while(|key| partial.end.is_none_or(|end| key.as_slice() < end))
                .count();
            assert!(inside <= partial.bucket.entries() as usize);
            walked += inside as u64;
        });
        whole.map(|whole| whole + walked)
    }

    fn check(&self, random: &mut ChaCha8Rng) {
        for _ in 0..20 {
            let (start, end) = (key(random), random.random_bool(0.8).then(|| key(random)));
            let expected = self
                .keys
                .range(start.clone()..)
                .take_while(|key| end.as_ref().is_none_or(|end| *key < end))
                .count();
            if let Some(found) = self.count(&start, end.as_deref()) {
                assert_eq!(found, expected as u64, "[{start:?}, {end:?})");
            } else {
                assert!(!self.ranks.is_complete());
            }
        }
        if self.ranks.is_complete() {
            self.check_ranks();
        }
    }

    fn check_ranks(&self) {
        let ranks: Vec<u64> = (0..self.keys.len() as u64 + 2).step_by(7).collect();
        let mut found = Vec::new();
        self.ranks.select(&ranks, &mut |selected| {
            let key = self
                .keys
                .range(selected.bucket.start().to_vec()..)
                .nth(selected.offset as usize);
            found.push(key.expect("the bucket holds the entry").clone());
        });
        let expected: Vec<Vec<u8>> = self.keys.iter().step_by(7).cloned().collect();
        assert_eq!(found, expected);
        let mut hint = SearchHint::default();
        for key in expected.iter().step_by(11) {
            let mut in_partial = 0;
            let mut partial = |bucket: PartialBucket<'_>| {
                in_partial += self
                    .keys
                    .range(bucket.start.to_vec()..)
                    .take_while(|key| bucket.end.is_none_or(|end| key.as_slice() < end))
                    .count();
            };
            let run = self
                .ranks
                .interval_from(&mut hint, key, None, &mut partial)
                .unwrap();
            let before = self.keys.range(..key.clone()).count();
            assert_eq!(run.first_rank as usize, before + in_partial);
        }
    }
}

/// Keys of one to four bytes, many of them prefixes of one another.
fn key(random: &mut ChaCha8Rng) -> Vec<u8> {
    let length = random.random_range(1..=4);
    (0..length).map(|_| random.random_range(0..24)).collect()
}

fn some_keys(random: &mut ChaCha8Rng, number: usize) -> Keys {
    (0..number).map(|_| key(random)).collect()
}

#[test]
fn counts_and_ranks_are_those_of_an_ordered_set() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut model = match seed % 3 {
            0 => Model::new(RankIndex::empty(), Keys::new()),
            1 => Model::new(RankIndex::unbuilt(), some_keys(&mut random, 5_000)),
            _ => Model::new(RankIndex::unbuilt(), Keys::new()),
        };
        for round in 0..400 {
            if round % 40 == 0 {
                // Much is written for a while, then little.
                model.ranks.set_busy(round % 80 == 0);
            }
            match random.random_range(0..10) {
                0..4 => model.add(some_keys(&mut random, 300)),
                4..6 => {
                    let all: Vec<Vec<u8>> = model.keys.iter().cloned().collect();
                    let number = if round % 50 == 0 { all.len() } else { 200 };
                    let doomed: Vec<_> =
                        all.choose_multiple(&mut random, number).cloned().collect();
                    model.remove(&doomed);
                }
                6..8 => model.begin(),
                _ => model.finish(random.random_range(1..2_000)),
            }
            model.check(&mut random);
        }
        assert_eq!(model.rebuilt, 0);
        model.ranks.set_busy(false);
        while model.walk.is_some() || model.ranks.wants_rebuild() {
            model.finish(1_000);
            model.begin();
        }
        assert!(model.ranks.is_complete());
        assert_eq!(model.ranks.entries(), model.keys.len() as u64);
        assert!(longest_range(&model.ranks) <= ENTRIES_MAX);
        model.check(&mut random);
    }
}

fn longest_range(ranks: &RankIndex) -> u32 {
    let mut place = BucketPosition::FIRST;
    let mut longest = 0;
    while place.leaf < ranks.leaves.len() {
        longest = longest.max(ranks.count_at(place));
        place = ranks.next(place);
    }
    longest
}

fn random_keys(random: &mut ChaCha8Rng, number: usize) -> Keys {
    let key = |_| random.random::<[u8; 24]>().to_vec();
    (0..number).map(key).collect()
}

/// While writes are heavy buckets may grow, but not without end; after it they are as fine as ever, and a
/// byte of memory an entry is enough for both.
#[test]
fn ranges_are_coarse_while_much_is_written_and_fine_after_it() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let mut model = Model::new(RankIndex::empty(), Keys::new());
    let mut walks = [0, 0];
    for busy in [true, false] {
        model.ranks.set_busy(busy);
        for _ in 0..60 {
            model.add(random_keys(&mut random, 500));
            while model.ranks.wants_rebuild() {
                model.begin();
                model.finish(usize::MAX);
                walks[usize::from(busy)] += 1;
            }
        }
        let most = if busy { ENTRIES_MAX_BUSY } else { ENTRIES_MAX };
        let longest = longest_range(&model.ranks);
        assert!((most / 2..=most).contains(&longest), "{longest}, {busy}");
        let (bytes, entries) = (model.ranks.bytes(), model.ranks.entries());
        assert!(bytes as u64 <= entries, "{bytes} bytes, {entries} entries");
    }
    assert!(walks[1] * 3 < walks[0], "{walks:?}");
}

/// What is left to be split when the store is idle is scanned in few scans.
#[test]
fn oversized_neighbours_are_cut_in_one_walk() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut model = Model::new(RankIndex::empty(), Keys::new());
    model.ranks.set_busy(true);
    for _ in 0..100 {
        model.add(random_keys(&mut random, 500));
        while model.ranks.wants_rebuild() {
            model.begin();
            model.finish(usize::MAX);
        }
    }
    model.ranks.set_busy(false);
    let mut walked = Vec::new();
    while model.ranks.wants_rebuild() {
        model.begin();
        walked.extend(model.walk.iter().map(|(span, _)| {
            let inside = |key: &&Vec<u8>| span.end.as_ref().is_none_or(|end| *key < end);
            let keys = model.keys.range(span.start.clone()..);
            keys.take_while(inside).count()
        }));
        model.check(&mut random);
        model.finish(usize::MAX);
    }
    let most = walked.iter().max().copied().unwrap_or_default();
    assert!(
        most > 4 * ENTRIES_MAX as usize && most <= ENTRIES_SPLIT_TOGETHER as usize,
        "{walked:?}"
    );
    assert!(longest_range(&model.ranks) <= ENTRIES_MAX);
}

/// Which buckets are oversized is not saved: it is found out again.
#[test]
fn a_decoded_rank_index_is_cut_where_it_is_oversized() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let mut model = Model::new(RankIndex::empty(), Keys::new());
    model.add(random_keys(&mut random, 5_000));
    let (head, leaves) = model.ranks.encode().unwrap();
    let leaves: Vec<Vec<u8>> = leaves.collect();
    model.ranks = RankIndex::decode(&head, leaves.iter().map(Vec::as_slice)).unwrap();
    while model.ranks.wants_rebuild() {
        model.begin();
        model.finish(usize::MAX);
    }
    assert!(longest_range(&model.ranks) <= ENTRIES_MAX);
    model.check(&mut random);
}

#[test]
fn ascending_keys_need_no_walk() {
    let mut ranks = RankIndex::empty();
    for first in (0_u32..100_000).step_by(1_000) {
        let keys: Vec<[u8; 4]> = (first..first + 1_000).map(u32::to_be_bytes).collect();
        ranks.add(keys.iter().map(|key| &key[..]));
    }
    assert!(!ranks.wants_rebuild());
    let mut partial = 0;
    let whole = ranks.count(
        &500_u32.to_be_bytes(),
        Some(&90_500_u32.to_be_bytes()),
        &mut |bucket| {
            partial += 1;
            assert!(bucket.bucket.entries() <= ENTRIES_MAX);
        },
    );
    assert!(whole.unwrap() > 89_500 && partial <= 2);
}

#[test]
fn random_keys_take_a_byte_of_memory_at_most() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut model = Model::new(RankIndex::empty(), Keys::new());
    for _ in 0..60 {
        let keys = (0..1_000).map(|_| {
            let mut key = vec![20];
            key.extend_from_slice(&random.random::<[u8; 24]>());
            key
        });
        model.add(keys.collect());
        for _ in 0..50 {
            model.begin();
            model.finish(usize::MAX);
        }
    }
    let (bytes, entries) = (model.ranks.bytes(), model.ranks.entries());
    assert!(
        bytes as u64 <= entries,
        "{bytes} bytes for {entries} entries"
    );
    let mut longest = 0;
    model.count(b"\x14\x50", Some(b"\x14\x90")).unwrap();
    model
        .ranks
        .count(b"\x14\x50", Some(b"\x14\x90"), &mut |partial| {
            longest = longest.max(partial.bucket.entries());
        });
    assert!(longest > 0 && longest <= ENTRIES_MAX);
}

/// The keys of documents: ObjectIds of one process.
#[test]
fn keys_that_come_in_order_take_a_byte_of_memory_at_most() {
    let mut ranks = RankIndex::empty();
    for number in 0..300_000_u32 {
        let time = (1_700_000_000 + number / 1_000).to_be_bytes();
        let counter = (5_000_000 + number).to_be_bytes();
        ranks.append(&[&[60][..], &time, b"mchn1", &counter[1..]].concat());
    }
    assert_eq!(ranks.entries(), 300_000);
    let bytes = ranks.bytes();
    assert!(bytes <= 300_000, "{bytes} bytes");
}

#[test]
fn removing_what_was_never_there_is_noticed() {
    let mut ranks = RankIndex::empty();
    assert!(!ranks.remove([&b"a"[..]]));
    assert!(!ranks.is_complete() && ranks.wants_rebuild());
}

#[test]
fn summaries_survive_encoding() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut model = Model::new(RankIndex::unbuilt(), some_keys(&mut random, 30_000));
    assert!(model.ranks.encode().is_none());
    model.begin();
    model.finish(usize::MAX);
    let (head, leaves) = model.ranks.encode().unwrap();
    let leaves: Vec<Vec<u8>> = leaves.collect();
    assert!(leaves.len() > 1);
    let slices = || leaves.iter().map(Vec::as_slice);
    let decoded = RankIndex::decode(&head, slices()).unwrap();
    assert_eq!(decoded.entries(), model.ranks.entries());
    model.ranks = decoded;
    model.check(&mut random);
    assert!(RankIndex::decode(&head, slices().skip(1)).is_none());
    assert!(RankIndex::decode(&head, slices().map(|leaf| &leaf[..leaf.len() - 1])).is_none());
}

#[test]
fn a_copy_stays_as_it_was() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut ranks = RankIndex::empty();
    let keys: Vec<[u8; 8]> = (0..20_000).map(|_| random.random()).collect();
    ranks.add(keys[..10_000].iter().map(|key| &key[..]));
    let copy = ranks.clone();
    let before: Vec<Vec<u8>> = copy.encode().unwrap().1.collect();
    ranks.add(keys[10_000..].iter().map(|key| &key[..]));
    assert!(ranks.remove(keys[..5_000].iter().map(|key| &key[..])));
    assert_eq!((copy.entries(), ranks.entries()), (10_000, 15_000));
    assert!(copy.encode().unwrap().1.eq(before));
}

/// Keys of 0 to 20 bytes in common, behind which they differ in one byte or in several.
#[test]
fn a_key_is_found_whatever_keys_have_in_common() {
    for (shared, own) in (0..=20).flat_map(|shared| [(shared, 1), (shared, 2), (shared, 8)]) {
        let mut random = ChaCha8Rng::seed_from_u64(1_000 * shared + own);
        let mut key = || {
            let mut key = vec![7; shared as usize];
            let length = random.random_range(1..=own);
            key.extend((0..length).map(|_| random.random::<u8>()));
            key
        };
        let starts: Keys = (0..2_000).map(|_| key()).collect();
        let mut ranks = RankIndex::empty();
        for start in &starts {
            ranks.append_bucket(start, 1);
        }
        let wanted: Vec<Vec<u8>> = (0..2_000).map(|_| key()).chain(starts).collect();
        let mut places = Vec::new();
        let mut place = Some(BucketPosition::FIRST);
        while let Some(one) = place {
            places.push(one);
            place = Some(ranks.next(one)).filter(|next| next.leaf < ranks.leaves.len());
        }
        for key in &wanted {
            let number = places.partition_point(|place| *ranks.start(*place) <= key[..]) - 1;
            for from in [0, number / 2, number] {
                let found = ranks.find(places[from], key);
                assert_eq!(
                    found, places[number],
                    "{shared} shared, {key:?} from {from}"
                );
            }
        }
    }
}

#[test]
fn the_last_number_that_holds_is_found_from_anywhere() {
    for end in 1..20 {
        for last in 0..end {
            for from in 0..=last {
                let holds = |number| number <= last;
                assert_eq!(last_where(from, end, holds), last);
                for guess in from..=end {
                    assert_eq!(last_where_near(guess, from, end, holds), last);
                }
            }
        }
    }
}

/// Something that is cached of a bucket.
#[derive(Debug, PartialEq)]
struct Contents(u32);

/// Something else.
struct Others;

impl Cacheable for Contents {
    fn bytes(&self) -> usize {
        4
    }
}

impl Cacheable for Others {
    fn bytes(&self) -> usize {
        4
    }
}

#[test]
fn what_is_cached_stays_until_its_bucket_changes() {
    let cache = RangeCache::new(Store::in_memory().cache_budget());
    let mut ranks = RankIndex::empty();
    let keys: Vec<[u8; 4]> = (0..10_000_u32).map(u32::to_be_bytes).collect();
    ranks.add(keys.iter().map(|key| &key[..]));
    let cached = |ranks: &RankIndex, changes: u64| {
        let mut found = Vec::new();
        let (start, end) = (100_u32.to_be_bytes(), 200_u32.to_be_bytes());
        let mut see = |bucket: BucketRef<'_>| {
            let contents = bucket.cached_at::<Contents>(changes);
            let borrowed = bucket.borrow_cached::<Contents>();
            let is_borrowed = bucket.cached::<Contents>().is_some();
            assert_eq!(borrowed.is_some(), is_borrowed);
            found.push((contents, bucket.bounds()));
        };
        ranks
            .buckets_from(&mut SearchHint::default(), &start, &end, &mut see)
            .unwrap();
        found
    };
    let read = |changes: u64, entries: u32| {
        let found = cached(&ranks, 0).into_iter();
        let add = |(_, bounds): (_, BucketBounds)| {
            let bounds = BucketBounds {
                entries: bounds.entries + entries,
                ..bounds
            };
            let contents = Arc::new(Contents(bounds.entries));
            let range = cache.add(contents, changes).expect("there is room");
            (bounds, range)
        };
        found.map(add).collect::<Vec<_>>()
    };
    let missing = |ranks: &RankIndex, changes: u64| {
        let found = cached(ranks, changes).into_iter();
        found.filter(|(contents, _)| contents.is_none()).count()
    };
    let before = ranks.changes();
    let (first, second, wrong) = (read(before, 0), read(before, 0), read(before, 1));
    let all = first.len();
    assert!(all > 4 && missing(&ranks, before) == all);
    // What has another number of entries than is counted was read of another state.
    ranks.cache(wrong, before);
    assert_eq!(missing(&ranks, before), all);
    ranks.cache(first, before);
    assert_eq!(missing(&ranks, before), 0);
    for (contents, bounds) in cached(&ranks, before) {
        assert_eq!(contents.as_deref(), Some(&Contents(bounds.entries)));
    }
    // Another kind has its own place, and neither is found for the other.
    let bounds = cached(&ranks, before)[0].1.clone();
    let others = cache.add(Arc::new(Others), before).expect("there is room");
    ranks.cache(vec![(bounds, others)], before);
    assert_eq!(missing(&ranks, before), 0);

    let gone = 150_u32.to_be_bytes();
    assert!(ranks.remove([&gone[..]]));
    let after = ranks.changes();
    assert_eq!(missing(&ranks, after), 1);
    // What was scanned before the change must not come back.
    assert!(ranks.clone().changes() > before);
    ranks.cache(second, before);
    assert_eq!(missing(&ranks, after), 1);
    // For a snapshot from before anything was read, nobody can say what the buckets held.
    assert_eq!(missing(&ranks, 0), all);
}
