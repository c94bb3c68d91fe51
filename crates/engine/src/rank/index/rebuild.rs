//! Learns what a tree holds by walking a part of it while writers go on.
//!
//! A part is begun at a point in time and walked on a snapshot of that time. What is committed
//! meanwhile is applied to the summary as ever and also logged here, and applied once more to what
//! the walk found when that is installed.

use super::{
    ENTRIES_FRESH, ENTRIES_MAX, ENTRIES_SETTLED, ENTRIES_SWEPT, Place, Summary, separator,
};

/// A part of a tree to walk, from `start` up to but not including `end` (`None`: to the end of the tree).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Option<Vec<u8>>,
    /// Into ranges of how many entries it is to be cut.
    pub entries_a_range: u32,
}

/// A part that is being walked.
#[derive(Debug, Clone)]
pub(super) struct Recount {
    pub span: Span,
    /// Keys that came (true) and went (false) since the snapshot.
    pub log: Vec<(Vec<u8>, bool)>,
}

impl Recount {
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

/// What a walk over a part found.
#[derive(Debug, Default)]
pub struct Walked {
    pub(super) ranges: Vec<(Vec<u8>, u32)>,
    pub(super) last: Vec<u8>,
    /// The first key that was not walked; `None` when the walk came to the end of its span.
    pub(super) stopped_before: Option<Vec<u8>>,
    entries: usize,
    entries_a_range: u32,
}

impl Walked {
    /// A walk over `span` that has seen nothing yet.
    pub fn new(span: &Span) -> Self {
        Self {
            ranges: vec![(span.start.clone(), 0)],
            last: span.start.clone(),
            entries_a_range: span.entries_a_range,
            ..Self::default()
        }
    }

    /// Notes the next key, in ascending order.
    pub fn push(&mut self, key: &[u8]) {
        let range = self.ranges.last_mut().expect("there is always a range");
        if range.1 < self.entries_a_range {
            range.1 += 1;
        } else {
            self.ranges.push((separator(&self.last, key).to_vec(), 1));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
    }

    /// Number of keys seen.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the walk before `key`, short of the end of its span.
    pub fn stop_before(&mut self, key: &[u8]) {
        self.stopped_before = Some(key.to_vec());
    }
}

impl Summary {
    /// The next part to walk, if there is one: first what is not known yet, then crowded ranges. The
    /// caller takes its snapshot at the same point in time.
    pub fn begin_recount(&mut self) -> Option<Span> {
        if self.recount.is_some() {
            return None;
        }
        let span = match &self.unknown_from {
            Some(start) => Span {
                start: start.clone(),
                end: None,
                entries_a_range: ENTRIES_FRESH,
            },
            None => self.next_crowded()?,
        };
        self.recount = Some(Recount {
            span: span.clone(),
            log: Vec::new(),
        });
        Some(span)
    }

    fn next_crowded(&mut self) -> Option<Span> {
        while let Some(start) = self.crowded.pop() {
            let place = self.find(Place::FIRST, &start);
            let entries = self.count_at(place);
            if *self.start(place) != *start || entries <= ENTRIES_MAX {
                continue;
            }
            if entries > self.entries_max() {
                return Some(self.span(place, ENTRIES_FRESH));
            }
            self.unswept_from = Some(Vec::new());
        }
        if self.busy { None } else { self.sweep() }
    }

    /// The next crowded range that nobody has listed, with its neighbours of the kind.
    fn sweep(&mut self) -> Option<Span> {
        let from = self.unswept_from.take()?;
        let mut place = self.find(Place::FIRST, &from);
        while self.count_at(place) <= ENTRIES_MAX {
            place = self.next(place);
            if place.block == self.blocks.len() {
                return None;
            }
        }
        self.join_crowded(place);
        let span = self.span(place, ENTRIES_SETTLED);
        self.unswept_from.clone_from(&span.end);
        Some(span)
    }

    /// Joins a crowded range with those behind it in its block that are crowded too.
    fn join_crowded(&mut self, place: Place) {
        let next = place.range + 1;
        let block = self.block_mut(place.block);
        while next < block.ranges()
            && block.count(next) > ENTRIES_MAX
            && block.count(place.range) + block.count(next) <= ENTRIES_SWEPT
        {
            block.join_with_previous(next);
        }
        self.note_change(place.block);
    }

    fn span(&self, place: Place, entries_a_range: u32) -> Span {
        Span {
            start: self.start(place).to_vec(),
            end: self.end(place).map(|end| end.to_vec()),
            entries_a_range,
        }
    }

    /// Gives a walk up; what it was to learn stays to be done.
    pub fn abandon_recount(&mut self) {
        if let Some(recount) = self.recount.take()
            && self.unknown_from.is_none()
        {
            self.crowded.push(recount.span.start);
        }
    }

    /// Installs what the walk found. False when it contradicts the summary, which then forgets
    /// everything and is to be learnt anew.
    pub fn finish_recount(&mut self, walked: Walked) -> bool {
        let Some(recount) = self.recount.take() else {
            return true;
        };
        if self.unknown_from.is_some() {
            self.extend(walked, recount);
            return true;
        }
        self.replace(walked, recount)
    }

    /// Appends ranges behind what is known.
    fn extend(&mut self, walked: Walked, recount: Recount) {
        let mut ranges = walked.ranges.into_iter();
        if self.unknown_from.as_ref().is_some_and(Vec::is_empty) {
            // The very first range is there already: it begins before all keys.
            let first = ranges.next().map_or(0, |(_, count)| count);
            self.change(Place::FIRST, i64::from(first));
        }
        for (start, count) in ranges {
            self.append_range(&start, count);
        }
        if walked.last > self.greatest {
            self.greatest = walked.last;
        }
        self.unknown_from = walked.stopped_before;
        self.replay(recount.log);
    }

    /// Puts several ranges in the place of a crowded one.
    fn replace(&mut self, walked: Walked, recount: Recount) -> bool {
        let place = self.find(Place::FIRST, &recount.span.start);
        let before = self.count_at(place);
        let logged = |(key, came): &(Vec<u8>, bool)| {
            let walked_over = walked.stopped_before.as_ref().is_none_or(|stop| key < stop);
            i64::from(walked_over) * if *came { 1 } else { -1 }
        };
        let log: i64 = recount.log.iter().map(logged).sum();
        let found: i64 = walked
            .ranges
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
        let mut ranges = walked.ranges;
        let mut log = recount.log;
        if let Some(stop) = walked.stopped_before {
            log.retain(|(key, _)| *key < stop);
            let rest = u32::try_from(rest).unwrap_or(u32::MAX);
            if rest > ENTRIES_MAX {
                self.crowded.push(stop.clone());
            }
            ranges.push((stop, rest));
        }
        let first = ranges[0].1;
        self.change(place, i64::from(first) - i64::from(before));
        self.insert_ranges(place, &ranges[1..]);
        self.replay(log);
        true
    }

    fn replay(&mut self, mut log: Vec<(Vec<u8>, bool)>) {
        log.retain(|(key, _)| !self.is_unknown(key));
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
