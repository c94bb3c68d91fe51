//! The data of one run, what is asked of it, and the right answers.

use bson::{RawDocument, RawDocumentBuf};

use super::encode::{self, Key};
use super::generator::{DAY_MS, Event, FIRST_DAY_MS, Generator};
use super::rectangle::{EVENTS_PUBLISHED, Rectangle};
use crate::load::{Batch, Encoded, copy_pieces, insert_messages};

/// Documents in a page.
pub const PAGE: u64 = 5000;
/// About what one event takes as BSON.
const EVENT_BYTES: usize = 275;
/// About what one event takes as a row of a binary COPY.
const ROW_BYTES: usize = 190;

/// Which events, and how their key is made.
#[derive(Debug, Clone, Copy)]
pub struct Dataset {
    /// How many.
    pub events: u64,
    /// Which.
    pub seed: u64,
    /// What `_id` is.
    pub key: Key,
}

/// A range with both ends excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// Excluded lower end.
    pub above: i64,
    /// Excluded upper end.
    pub below: i64,
}

impl Between {
    fn contains(self, value: i64) -> bool {
        self.above < value && value < self.below
    }
}

/// The counts that are asked, with the dates in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Questions {
    /// `startdatetime` strictly between 2017-12-23 and 2017-12-25.
    pub date: Between,
    /// `indexnum` strictly between 10 and 20.
    pub number: Between,
    /// `indexnum` in about 9 % of the events.
    pub number_wide: Between,
    /// Areas at zooms 1 to 4.
    pub zooms: [Rectangle; 4],
}

/// The right answers, by brute force over the generator's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Answers {
    /// Events in the date range.
    pub date: u64,
    /// Events in the narrow number range.
    pub number: u64,
    /// Events in the wide number range.
    pub number_wide: u64,
    /// Events in the areas.
    pub zooms: [u64; 4],
    /// Bytes of all documents.
    pub bson_bytes: u64,
}

impl Dataset {
    /// The events.
    pub fn generate(&self) -> Generator {
        Generator::new(self.events, self.seed)
    }

    /// What is asked of this many events.
    pub fn questions(&self) -> Questions {
        let scaled = |number: u64| (number * self.events / EVENTS_PUBLISHED) as i64;
        Questions {
            date: Between {
                above: FIRST_DAY_MS + 22 * DAY_MS,
                below: FIRST_DAY_MS + 24 * DAY_MS,
            },
            number: Between {
                above: 10,
                below: 20,
            },
            number_wide: Between {
                above: scaled(100_000),
                below: scaled(253_293),
            },
            zooms: Rectangle::zooms(),
        }
    }

    /// The right answers.
    pub fn answers(&self) -> Answers {
        let questions = self.questions();
        let mut answers = Answers::default();
        let mut bytes = Vec::with_capacity(2 * EVENT_BYTES);
        for event in self.generate() {
            answers.date += u64::from(questions.date.contains(event.start_ms));
            answers.number += u64::from(questions.number.contains(event.indexnum.into()));
            answers.number_wide += u64::from(questions.number_wide.contains(event.indexnum.into()));
            for (zoom, count) in questions.zooms.iter().zip(&mut answers.zooms) {
                *count += u64::from(zoom.contains(event.longitude, event.latitude));
            }
            bytes.clear();
            encode::bson(&event, self.key, &mut bytes);
            answers.bson_bytes += bytes.len() as u64;
        }
        answers
    }

    /// The whole load as ready-made `insert` messages.
    pub fn messages(&self, body: &RawDocument) -> Encoded {
        let key = self.key;
        Encoded::collect(messages(self.generate(), body, move |event, out| {
            encode::bson(event, key, out)
        }))
    }

    /// The whole load as raw documents, for the official driver.
    pub fn documents(&self) -> Vec<RawDocumentBuf> {
        self.generate()
            .map(|event| {
                let mut bytes = Vec::with_capacity(EVENT_BYTES);
                encode::bson(&event, self.key, &mut bytes);
                RawDocumentBuf::from_bytes(bytes).expect("the encoder writes well-formed documents")
            })
            .collect()
    }

    /// The whole load as rows of a binary COPY.
    pub fn copy_pieces(&self) -> Encoded {
        Encoded::collect(copy_pieces(self.generate(), ROW_BYTES, encode::copy_row))
    }
}

/// Ready-made `insert` messages.
pub fn messages(
    events: impl Iterator<Item = Event>,
    body: &RawDocument,
    encode: impl Fn(&Event, &mut Vec<u8>),
) -> impl Iterator<Item = Batch> {
    insert_messages(events, body.to_owned(), EVENT_BYTES, encode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_follow_from_the_published_shares() {
        let dataset = Dataset {
            events: 20_000,
            seed: 1,
            key: Key::ObjectId,
        };
        let answers = dataset.answers();
        assert_eq!(answers.number, 9);
        assert_eq!(answers.zooms, [10_022, 3_365, 838, 54]);
        assert!(answers.date.abs_diff(1000) <= 1, "{answers:?}");
    }
}
