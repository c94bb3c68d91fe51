//! What is asked after a load, and the right answers by brute force over the generator.
//!
//! Every secondary index has a range to count, and the URI index the 1,000
//! documents from a place on: an index that lost or invented an entry under load
//! shows here.

use std::collections::BinaryHeap;

use super::generator::{CREATION_SPAN_MS, FIRST_CREATION_MS, Generator, Starts};

/// Documents that a range query reads.
pub const PAGE: usize = 1000;

/// A range to count on one index: lower end included, upper end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// A text field between two texts.
    Text(&'static str, &'static str, &'static str),
    /// `creation` between two times in milliseconds.
    Creation(i64, i64),
}

/// One range on each secondary index.
pub const RANGES: [Range; 4] = [
    Range::Text("URI", "http://c", "http://e"),
    Range::Text("name", "f", "i"),
    Range::Text("origin", "t", "u"),
    Range::Creation(
        FIRST_CREATION_MS + CREATION_SPAN_MS / 2,
        FIRST_CREATION_MS + CREATION_SPAN_MS / 5 * 3,
    ),
];

/// The right answers of one data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Matches of [`RANGES`], in order.
    pub counts: [u64; 4],
    /// Where the checked range query starts.
    pub start: String,
    /// The URIs of the documents from there on, ascending, at most [`PAGE`].
    pub page: Vec<String>,
}

impl Answers {
    /// Works them out.
    pub fn of(total: u32, seed: u64) -> Self {
        let start = Starts::new(seed ^ 1).draw();
        let mut counts = [0; 4];
        let mut page: BinaryHeap<String> = BinaryHeap::with_capacity(PAGE + 1);
        for item in Generator::new(total, seed) {
            for (range, count) in RANGES.iter().zip(&mut counts) {
                let within = match range {
                    Range::Text("URI", low, high) => *low <= &*item.uri && &*item.uri < *high,
                    Range::Text("name", low, high) => *low <= &*item.name && &*item.name < *high,
                    Range::Text(_, low, high) => *low <= &*item.origin && &*item.origin < *high,
                    Range::Creation(low, high) => (*low..*high).contains(&item.creation_ms),
                };
                *count += u64::from(within);
            }
            let full = page.len() == PAGE;
            if item.uri >= start && !(full && page.peek().is_some_and(|last| item.uri > *last)) {
                page.push(item.uri);
                if full {
                    page.pop();
                }
            }
        }
        Self {
            counts,
            start,
            page: page.into_sorted_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_sorting_everything_gives() {
        let answers = Answers::of(5000, 3);
        let mut uris: Vec<String> = Generator::new(5000, 3)
            .map(|item| item.uri)
            .filter(|uri| *uri >= answers.start)
            .collect();
        uris.sort();
        uris.truncate(PAGE);
        assert_eq!(answers.page, uris);
        assert!(answers.counts.iter().all(|count| *count > 0));
    }
}
