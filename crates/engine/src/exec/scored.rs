//! Entries of a text index, the best document first.
//!
//! In: the entries of several terms, in ascending order of the terms. Out: one entry for each document, by the sum of its
//! scores; equal ones by `_id`. Their documents are not read for it.

use super::{Entries, Entry, IndexEntries, corrupt_entry};
use crate::error::Result;
use crate::operation::memory::Reservation;
use crate::plan::IndexAccess;
use meridian_value::key::{Direction, TypeBitsReader, decode, skip};
use meridian_value::number::Number;
use std::collections::HashMap;

/// What a document takes beside its `_id` until it is sorted, roughly.
const DOCUMENT_BYTES: usize = 96;
/// After so many documents their memory is counted.
const DOCUMENTS_COUNTED: usize = 1 << 12;

/// One entry a document, the best first.
pub struct ScoredEntries {
    /// Before the first is asked for.
    input: Option<IndexEntries>,
    /// The fields before the score.
    before: Vec<Direction>,
    /// The `_id`s that are left, the next one last.
    sorted: Vec<Vec<u8>>,
    current: Vec<u8>,
    wanted: Option<u64>,
    memory: Reservation,
}

impl ScoredEntries {
    /// The documents of the entries that `access` asks for; so many are `wanted`.
    pub fn new(entries: IndexEntries, access: &IndexAccess, wanted: Option<u64>) -> Self {
        let index = &access.index;
        let fields = index.spec.text.as_ref().map_or(0, |text| text.prefix.len()) + 1;
        Self {
            input: Some(entries),
            before: index.layout.directions().take(fields).collect(),
            sorted: Vec::new(),
            current: Vec::new(),
            wanted,
            memory: Reservation::none(),
        }
    }

    fn sort(&mut self, mut entries: IndexEntries) -> Result<()> {
        let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
        let mut bytes = 0;
        while entries.advance()? {
            let entry = entries.entry();
            let score = self.score(entry.key)?;
            let id = entry.id()?;
            match scores.get_mut(id) {
                Some(sum) => *sum += score,
                None => {
                    bytes += id.len() + DOCUMENT_BYTES;
                    scores.insert(id.to_vec(), score);
                    if scores.len().is_multiple_of(DOCUMENTS_COUNTED) {
                        self.memory.grow(bytes)?;
                    }
                }
            }
        }
        let mut sorted: Vec<(f64, Vec<u8>)> =
            scores.into_iter().map(|(id, score)| (score, id)).collect();
        let best_first = |(one, id): &(f64, Vec<u8>), (other, other_id): &(f64, Vec<u8>)| {
            other.total_cmp(one).then_with(|| id.cmp(other_id))
        };
        let wanted = usize::try_from(self.wanted.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        if wanted < sorted.len() {
            sorted.select_nth_unstable_by(wanted, best_first);
            sorted.truncate(wanted);
        }
        sorted.sort_unstable_by(best_first);
        self.sorted = sorted.into_iter().rev().map(|(_, id)| id).collect();
        Ok(())
    }

    fn score(&self, key: &[u8]) -> Result<f64> {
        let mut at = 0;
        for direction in &self.before {
            at += skip(&key[at..], *direction).ok_or_else(corrupt_entry)?;
        }
        let types = &mut TypeBitsReader::from_bytes(&[]);
        let (score, _) =
            decode(&key[at..], Direction::Ascending, types).map_err(|_| corrupt_entry())?;
        let score = Number::from_bson(&score).ok_or_else(corrupt_entry)?;
        Ok(score.to_f64())
    }
}

impl Entries for ScoredEntries {
    fn advance(&mut self) -> Result<bool> {
        if let Some(entries) = self.input.take() {
            self.sort(entries)?;
        }
        match self.sorted.pop() {
            Some(id) => {
                self.current = id;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The `_id` alone.
    fn entry(&self) -> Entry<'_> {
        Entry {
            key: &self.current,
            value: &[],
            layout: None,
        }
    }

    fn suspend(&mut self) {}
}
