//! Builds parts of a rank index by scanning the tree while writers go on.
//!
//! A part is begun at a point in time and scanned on a snapshot of that time. What is committed
//! meanwhile is applied to the rank index as always and also logged here. The log is applied to the result of the scan
//! when that is installed.

use super::{
    BucketPosition, ENTRIES_FRESH, ENTRIES_MAX, ENTRIES_SETTLED, ENTRIES_SPLIT_TOGETHER, RankIndex,
    separator,
};

/// A part of a tree to scan, from `start` up to but not including `end` (`None`: to the end of the tree).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnbuiltSpan {
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Option<Vec<u8>>,
    /// Into buckets of how many entries it is to be split.
    pub entries_a_bucket: u32,
}

/// A part that is being scanned.
#[derive(Debug, Clone)]
pub(super) struct Rebuild {
    pub span: UnbuiltSpan,
    /// Keys that came (true) and went (false) since the snapshot.
    pub log: Vec<(Vec<u8>, bool)>,
}

impl Rebuild {
    pub fn note(&mut self, key: &[u8], came: bool) {
        let inside = self.span.start.as_slice() <= key
            && self
                .span
                .end
                .as_ref()
                .is_none_or(|end| key < end.as_slice());
        if inside {
            self.log.push((key.to_vec(), came));
        }
    }
}

/// What a scan over a part found.
#[derive(Debug, Default)]
pub struct ScannedSpan {
    pub(super) buckets: Vec<(Vec<u8>, u32)>,
    pub(super) last: Vec<u8>,
    /// The first key that was not scanned; `None` when the scan came to the end of its span.
    pub(super) stopped_before: Option<Vec<u8>>,
    entries: usize,
    entries_a_bucket: u32,
}

impl ScannedSpan {
    /// A scan over `span` that has seen nothing yet.
    pub fn new(span: &UnbuiltSpan) -> Self {
        Self {
            buckets: vec![(span.start.clone(), 0)],
            last: span.start.clone(),
            entries_a_bucket: span.entries_a_bucket,
            ..Self::default()
        }
    }

    /// Notes the next key, in ascending order.
    pub fn push(&mut self, key: &[u8]) {
        let bucket = self.buckets.last_mut().expect("there is always a bucket");
        if bucket.1 < self.entries_a_bucket {
            bucket.1 += 1;
        } else {
            self.buckets.push((separator(&self.last, key).to_vec(), 1));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
    }

    /// Number of keys seen.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the scan before `key`, short of the end of its span.
    pub fn stop_before(&mut self, key: &[u8]) {
        self.stopped_before = Some(key.to_vec());
    }
}

impl RankIndex {
    /// The next part to scan, if there is one: first what is not built yet, then oversized buckets. The
    /// caller takes its snapshot at the same point in time.
    pub fn begin_rebuild(&mut self) -> Option<UnbuiltSpan> {
        if self.rebuild.is_some() {
            return None;
        }
        let span = match &self.unbuilt_from {
            Some(start) => UnbuiltSpan {
                start: start.clone(),
                end: None,
                entries_a_bucket: ENTRIES_FRESH,
            },
            None => self.next_oversized()?,
        };
        self.rebuild = Some(Rebuild {
            span: span.clone(),
            log: Vec::new(),
        });
        Some(span)
    }

    fn next_oversized(&mut self) -> Option<UnbuiltSpan> {
        while let Some(start) = self.oversized.pop() {
            let place = self.find(BucketPosition::FIRST, &start);
            let entries = self.count_at(place);
            if *self.start(place) != *start || entries <= ENTRIES_MAX {
                continue;
            }
            if entries > self.entries_max() {
                return Some(self.span(place, ENTRIES_FRESH));
            }
            self.unsplit_from = Some(Vec::new());
        }
        if self.busy {
            None
        } else {
            self.next_deferred_split()
        }
    }

    /// The next oversized bucket that nobody has listed, with its neighbours of the kind.
    fn next_deferred_split(&mut self) -> Option<UnbuiltSpan> {
        let from = self.unsplit_from.take()?;
        let mut place = self.find(BucketPosition::FIRST, &from);
        while self.count_at(place) <= ENTRIES_MAX {
            place = self.next(place);
            if place.leaf == self.leaves.len() {
                return None;
            }
        }
        self.join_oversized(place);
        let span = self.span(place, ENTRIES_SETTLED);
        self.unsplit_from.clone_from(&span.end);
        Some(span)
    }

    /// Joins an oversized bucket with those behind it in its leaf that are oversized too.
    fn join_oversized(&mut self, place: BucketPosition) {
        let next = place.bucket + 1;
        let leaf = self.leaf_mut(place.leaf);
        while next < leaf.buckets()
            && leaf.count(next) > ENTRIES_MAX
            && leaf.count(place.bucket) + leaf.count(next) <= ENTRIES_SPLIT_TOGETHER
        {
            leaf.join_with_previous(next);
        }
        self.note_change(place.leaf);
    }

    fn span(&self, place: BucketPosition, entries_a_bucket: u32) -> UnbuiltSpan {
        UnbuiltSpan {
            start: self.start(place).to_vec(),
            end: self.end(place).map(|end| end.to_vec()),
            entries_a_bucket,
        }
    }

    /// Gives a scan up; what it was to learn stays to be done.
    pub fn abandon_rebuild(&mut self) {
        if let Some(rebuild) = self.rebuild.take()
            && self.unbuilt_from.is_none()
        {
            self.oversized.push(rebuild.span.start);
        }
    }

    /// Installs what the scan found. False when it contradicts the rank index, which then forgets
    /// everything and is to be built anew.
    pub fn finish_rebuild(&mut self, walked: ScannedSpan) -> bool {
        let Some(rebuild) = self.rebuild.take() else {
            return true;
        };
        if self.unbuilt_from.is_some() {
            self.extend(walked, rebuild);
            return true;
        }
        self.replace(walked, rebuild)
    }

    /// Appends buckets behind what is known.
    fn extend(&mut self, walked: ScannedSpan, rebuild: Rebuild) {
        let mut buckets = walked.buckets.into_iter();
        if self.unbuilt_from.as_ref().is_some_and(Vec::is_empty) {
            // The very first bucket is there already: it begins before all keys.
            let first = buckets.next().map_or(0, |(_, count)| count);
            self.change(BucketPosition::FIRST, i64::from(first));
        }
        for (start, count) in buckets {
            self.append_bucket(&start, count);
        }
        if walked.last > self.greatest {
            self.greatest = walked.last;
        }
        self.unbuilt_from = walked.stopped_before;
        self.replay(rebuild.log);
    }

    /// Puts several buckets in the place of an oversized one.
    fn replace(&mut self, walked: ScannedSpan, rebuild: Rebuild) -> bool {
        let place = self.find(BucketPosition::FIRST, &rebuild.span.start);
        let before = self.count_at(place);
        let logged = |(key, came): &(Vec<u8>, bool)| {
            let walked_over = walked.stopped_before.as_ref().is_none_or(|stop| key < stop);
            i64::from(walked_over) * if *came { 1 } else { -1 }
        };
        let log: i64 = rebuild.log.iter().map(logged).sum();
        let found: i64 = walked
            .buckets
            .iter()
            .map(|(_, count)| i64::from(*count))
            .sum();
        let rest = i64::from(before) - found - log;
        let is_plausible = match walked.stopped_before {
            None => rest == 0,
            Some(_) => rest >= 0,
        };
        if !is_plausible {
            self.forget();
            return false;
        }
        let mut buckets = walked.buckets;
        let mut log = rebuild.log;
        if let Some(stop) = walked.stopped_before {
            log.retain(|(key, _)| *key < stop);
            let rest = u32::try_from(rest).unwrap_or(u32::MAX);
            if rest > ENTRIES_MAX {
                self.oversized.push(stop.clone());
            }
            buckets.push((stop, rest));
        }
        let first = buckets[0].1;
        self.change(place, i64::from(first) - i64::from(before));
        self.insert_buckets(place, &buckets[1..]);
        self.replay(log);
        true
    }

    fn replay(&mut self, mut log: Vec<(Vec<u8>, bool)>) {
        log.retain(|(key, _)| !self.is_unbuilt(key));
        let keys = |came: bool| {
            let mut keys: Vec<&[u8]> = log
                .iter()
                .filter(|change| change.1 == came)
                .map(|change| change.0.as_slice())
                .collect();
            keys.sort_unstable();
            keys
        };
        let (came, went) = (keys(true), keys(false));
        // What came first: a key that came and went must not be missed when it goes.
        self.add(came);
        self.remove(went);
    }
}
