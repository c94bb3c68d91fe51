//! The window of one function as it moves through a partition.
//!
//! In: what the function needs of each document, in order, whenever one arrives. Out: the function's value for each
//! document, in the same order, as soon as the documents of its window are there.

use super::bounds::{RangeEnd, RangeKey, RangeWindow, Window};
use super::function::WindowFunction;
use super::state::{Input, State};
use crate::error::Result;
use bson::RawBson;
use std::collections::VecDeque;

/// A window at one document of a partition. Positions count from the partition's first document.
pub(super) struct WindowFrame {
    state: State,
    /// The `n` of a function that has one.
    count: Option<usize>,
    /// What has arrived and is not in the window yet; the first is at `end`.
    waiting: VecDeque<Input>,
    /// Where documents lie in a range, from `start` on.
    keys: VecDeque<RangeKey>,
    /// Of the first document in the window.
    start: u64,
    /// Behind the last one.
    end: u64,
    arrived: u64,
    /// Of the document whose value comes next.
    current: u64,
    /// The last value, as long as the window is the same.
    value: Option<Option<RawBson>>,
    bytes: usize,
}

impl WindowFrame {
    /// A window in a partition of which no document has arrived.
    pub fn new(function: &WindowFunction, count: Option<usize>) -> Self {
        Self {
            state: State::new(function, function.slides(), count),
            count,
            waiting: VecDeque::new(),
            keys: VecDeque::new(),
            start: 0,
            end: 0,
            arrived: 0,
            current: 0,
            value: None,
            bytes: 0,
        }
    }

    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one more document; `key` is where it lies, for a window by range.
    ///
    /// # Errors
    /// Those of the function.
    pub fn push(
        &mut self,
        function: &WindowFunction,
        input: Input,
        key: Option<RangeKey>,
    ) -> Result<()> {
        self.arrived += 1;
        if let Some(key) = key {
            self.bytes += size_of::<RangeKey>();
            self.keys.push_back(key);
        }
        if !ends(&function.window) {
            self.end += 1;
            self.value = None;
            self.bytes += self.state.add(function, input)?;
            return Ok(());
        }
        self.bytes += input.size_bytes();
        self.waiting.push_back(input);
        Ok(())
    }

    /// Whether the window of the document at hand is there. `all` says that the partition's last document has arrived.
    ///
    /// # Errors
    /// Those of ranges.
    pub fn is_ready(&self, function: &WindowFunction, all: bool) -> Result<bool> {
        if all {
            return Ok(true);
        }
        match &function.window {
            Window::Documents { upper, .. } => {
                Ok(upper.is_some_and(|upper| self.at(upper) < i128::from(self.arrived)))
            }
            Window::Range(range) => {
                let upper = match (self.keys.back(), range.upper) {
                    (Some(_), Some(RangeEnd::Current)) => return Ok(true),
                    (Some(last), Some(RangeEnd::At(distance))) => {
                        let upper = range.end(self.key_at_hand(), distance)?;
                        last.compare(upper).is_gt()
                    }
                    _ => false,
                };
                Ok(upper)
            }
        }
    }

    /// The function's value for the document at hand; the next one is at hand then.
    ///
    /// # Errors
    /// Those of the function.
    pub fn next(&mut self, function: &WindowFunction) -> Result<Option<RawBson>> {
        let (start, end) = self.window(function)?;
        self.move_to(function, start, end)?;
        self.current += 1;
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        let value = self.state.value(function, self.count)?;
        self.value = Some(value.clone());
        Ok(value)
    }

    /// The position so far from the document at hand.
    fn at(&self, distance: i64) -> i128 {
        i128::from(self.current) + i128::from(distance)
    }

    /// Where the document at hand lies.
    fn key_at_hand(&self) -> RangeKey {
        self.keys[self.place(self.current)]
    }

    /// The place of a position among the keys.
    fn place(&self, position: u64) -> usize {
        let first = self.arrived - self.keys.len() as u64;
        usize::try_from(position - first).unwrap_or(usize::MAX)
    }

    /// The window of the document at hand, as far as documents have arrived: its first position, and the one behind it.
    fn window(&self, function: &WindowFunction) -> Result<(u64, u64)> {
        let arrived = i128::from(self.arrived);
        match &function.window {
            Window::Documents { lower, upper } => {
                let position =
                    |position: i128| u64::try_from(position.clamp(0, arrived)).unwrap_or(u64::MAX);
                let start = lower.map_or(0, |lower| position(self.at(lower)));
                let end = upper.map_or(self.arrived, |upper| position(self.at(upper) + 1));
                Ok((start, end))
            }
            Window::Range(range) => self.range(range),
        }
    }

    fn range(&self, range: &RangeWindow) -> Result<(u64, u64)> {
        let key = self.key_at_hand();
        let (mut start, mut end) = (self.start, self.end);
        if let Some(RangeEnd::Current) = range.lower {
            start = self.current;
        }
        if let Some(RangeEnd::Current) = range.upper {
            end = self.current + 1;
        }
        if let Some(RangeEnd::At(lower)) = range.lower {
            let lower = range.end(key, lower)?;
            while start < self.arrived && self.keys[self.place(start)].compare(lower).is_lt() {
                start += 1;
            }
        }
        if let Some(RangeEnd::At(upper)) = range.upper {
            let upper = range.end(key, upper)?;
            while end < self.arrived && self.keys[self.place(end)].compare(upper).is_le() {
                end += 1;
            }
        }
        Ok((start, end.max(start)))
    }

    /// Has the window hold the documents from `start` to before `end`, neither of which moves back.
    fn move_to(&mut self, function: &WindowFunction, start: u64, end: u64) -> Result<()> {
        let held_until = self.end;
        while self.end < end.max(start) {
            let Some(input) = self.waiting.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(input.size_bytes());
            // What the window leaps over was never in it.
            if self.end >= start {
                self.value = None;
                self.bytes += self.state.add(function, input)?;
            }
            self.end += 1;
        }
        if function.slides() {
            for _ in self.start..start.min(held_until) {
                self.value = None;
                self.bytes = self.bytes.saturating_sub(self.state.remove());
            }
            self.start = self.start.max(start);
        }
        self.forget_keys();
        Ok(())
    }

    /// Drops the keys of documents that are behind both the window and the document at hand.
    fn forget_keys(&mut self) {
        let needed = match self.keys.is_empty() {
            true => return,
            false => self.start.min(self.end).min(self.current),
        };
        let dropped = self.place(needed).min(self.keys.len());
        self.keys.drain(..dropped);
        self.bytes = self.bytes.saturating_sub(dropped * size_of::<RangeKey>());
    }
}

/// Whether the window ends before the partition does.
fn ends(window: &Window) -> bool {
    match window {
        Window::Documents { upper, .. } => upper.is_some(),
        Window::Range(range) => range.upper.is_some(),
    }
}
