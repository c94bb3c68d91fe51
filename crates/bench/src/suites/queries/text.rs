//! Short texts by their words.
//!
//! Words are made of syllables and end in a way that no stemmer changes; between them stand words
//! that every list of English stop words has. So all servers index the same words. Scores are
//! MongoDB's, and compared between servers of its protocol only.

use std::sync::Arc;

use bson::{Document, doc};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::part::{Contents, Index, Table};
use crate::encode::{copy_field, copy_row, document, int32, string};
use crate::questions::answer::{Answer, Column, Kind, Row, column};
use crate::questions::{BATCH_SIZE, OWN, Question, Sql, aggregate};
use crate::seeded::{RandomByNumber, Size};

/// Texts at full size.
const TEXTS: u32 = 1_000_000;
/// Words that texts are made of, from common to rare.
const WORDS: u32 = 20_000;
/// Words of a text, stop words not counted.
const LENGTH: std::ops::RangeInclusive<usize> = 6..=18;
const STOP_WORDS: [&str; 6] = ["the", "of", "and", "in", "with", "for"];
const FIRST_CONSONANTS: &[u8] = b"bcdfghjklmnprtvz";
const FIRST_VOWELS: &[u8] = b"aeiou";
const LAST_VOWELS: &[u8] = b"aou";
const LAST_CONSONANTS: &[u8] = b"bgkmpx";
/// What syllables give: 16 × 5 × 16 × 3 × 6.
const SPELLINGS: u32 = 23_040;
/// Texts that the ranked question returns.
const BEST: i64 = 20;
/// Ranks of the words asked for.
const RARE: u32 = 1_000;
const ANY: [u32; 3] = [10, 100, 1_000];
const BOTH: [u32; 2] = [5, 20];
const RANKED: [u32; 3] = [30, 100, 300];
const IDS: &[Column] = &[column("_id", Kind::Whole)];
const NUMBER: &[Column] = &[column("n", Kind::Whole)];
const SCORES: &[Column] = &[column("score", Kind::Rounded)];

/// The part.
pub fn contents(size: Size) -> Contents {
    let texts = Texts {
        total: size.of(TEXTS, 1_000),
        random: size.random("texts"),
    };
    let answers = texts.answers();
    Contents {
        questions: answers.questions(),
        tables: vec![texts.table()],
    }
}

/// The word of a rank: 0 is the most common.
fn word(rank: u32) -> String {
    // A permutation, as 7919 is prime: neighbours in rank are spelled differently.
    let mut number = (rank * 7_919 % SPELLINGS) as usize;
    let letters = [
        FIRST_CONSONANTS,
        FIRST_VOWELS,
        FIRST_CONSONANTS,
        LAST_VOWELS,
        LAST_CONSONANTS,
    ];
    let spell = |letters: &[u8]| {
        let letter = letters[number % letters.len()];
        number /= letters.len();
        char::from(letter)
    };
    letters.into_iter().map(spell).collect()
}

/// The texts of one size and seed.
#[derive(Clone)]
struct Texts {
    total: u32,
    random: RandomByNumber,
}

impl Texts {
    /// The ranks of a text's words, in order.
    fn ranks(&self, number: u32) -> (Vec<u32>, ChaCha8Rng) {
        let mut random = self.random.of(number);
        let length = random.random_range(LENGTH);
        let draw = |_| (random.random::<f64>().powi(3) * f64::from(WORDS)) as u32;
        let ranks = (0..length).map(draw).collect();
        (ranks, random)
    }

    fn text(&self, number: u32) -> String {
        let (ranks, mut random) = self.ranks(number);
        let mut text = String::with_capacity(ranks.len() * 8);
        for rank in ranks {
            if random.random_bool(0.3) {
                text += STOP_WORDS[random.random_range(0..STOP_WORDS.len())];
                text.push(' ');
            }
            text += &word(rank);
            text.push(' ');
        }
        text.pop();
        text
    }

    fn answers(&self) -> Answers {
        let mut answers = Answers::default();
        for number in 0..self.total {
            answers.add(number, &self.ranks(number).0);
        }
        answers
    }

    fn table(self) -> Table {
        let for_rows = self.clone();
        Table {
            name: "texts",
            count: self.total,
            document_bytes: 130,
            document: Arc::new(move |number, out| {
                document(out, |out| {
                    int32(b"\x10_id\0", *number as i32, out);
                    string(b"\x02text\0", &self.text(*number), out);
                });
            }),
            row: Arc::new(move |number, out| {
                copy_row(2, out);
                copy_field(&number.to_be_bytes(), out);
                copy_field(for_rows.text(*number).as_bytes(), out);
            }),
            columns: "(id integer PRIMARY KEY, text text NOT NULL, \
                      words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED)"
                .into(),
            loaded: "(id, text)",
            index: Some(Index {
                key: doc! { "text": "text" },
                unique: false,
                sql: "USING gin (words)",
            }),
        }
    }
}

/// What matches each question.
#[derive(Default)]
struct Answers {
    rare: Vec<u32>,
    any: i64,
    both: i64,
    scores: Vec<f64>,
}

impl Answers {
    fn add(&mut self, number: u32, ranks: &[u32]) {
        if ranks.contains(&RARE) {
            self.rare.push(number);
        }
        self.any += i64::from(ANY.iter().any(|rank| ranks.contains(rank)));
        self.both += i64::from(BOTH.iter().all(|rank| ranks.contains(rank)));
        let score = score(ranks, &RANKED);
        if score > 0.0 {
            self.scores.push(score);
        }
    }

    fn questions(mut self) -> Vec<Question> {
        let one = |number: i64| [Row::new().whole(number)].into_iter().collect::<Answer>();
        let id = |number: u32| Row::new().whole(number.into());
        self.scores.sort_by(|one, other| other.total_cmp(one));
        let best = self.scores.into_iter().take(BEST as usize);
        let quoted = BOTH.map(|rank| format!("\"{}\"", word(rank))).join(" ");
        vec![
            Question {
                label: "texts with a rare word",
                command: find(&word(RARE), doc! { "projection": { "_id": 1 } }),
                sql: Sql {
                    settings: OWN,
                    select: format!(
                        "SELECT id FROM {{schema}}.texts WHERE {}",
                        matching(&[RARE], "|")
                    ),
                    cells: "id::bigint",
                },
                columns: IDS,
                expected: self.rare.into_iter().map(id).collect(),
            },
            count(
                "any of three words, counted",
                &all_of(&ANY),
                matching(&ANY, "|"),
                one(self.any),
            ),
            count(
                "two words together, counted",
                &quoted,
                matching(&BOTH, "&"),
                one(self.both),
            ),
            Question {
                label: "best 20 of any of three words",
                command: find(&all_of(&RANKED), best_first()),
                sql: Sql {
                    settings: OWN,
                    select: format!(
                        "SELECT id FROM {{schema}}.texts WHERE {} ORDER BY ts_rank(words, {}) DESC LIMIT {BEST}",
                        matching(&RANKED, "|"),
                        query(&RANKED, "|")
                    ),
                    cells: "",
                },
                columns: SCORES,
                expected: best.map(|score| Row::new().rounded(score)).collect(),
            },
        ]
    }
}

/// MongoDB's score of a text for some words (its source: `FTSSpec::_scoreStringV2`): a word's first place
/// counts 1, its second a half, its third a quarter and so on, more in texts of which it is a larger share.
fn score(ranks: &[u32], wanted: &[u32]) -> f64 {
    let of_word = |wanted: &u32| {
        let places = ranks.iter().filter(|rank| *rank == wanted).count();
        let weight: f64 = (0..places).map(|place| 0.5f64.powi(place as i32)).sum();
        weight * (0.5 * places as f64 / ranks.len() as f64 + 0.5)
    };
    wanted.iter().map(of_word).sum()
}

fn all_of(ranks: &[u32]) -> String {
    let words: Vec<String> = ranks.iter().map(|rank| word(*rank)).collect();
    words.join(" ")
}

fn query(ranks: &[u32], operator: &str) -> String {
    let words: Vec<String> = ranks.iter().map(|rank| word(*rank)).collect();
    format!(
        "to_tsquery('english', '{}')",
        words.join(&format!(" {operator} "))
    )
}

fn matching(ranks: &[u32], operator: &str) -> String {
    format!("words @@ {}", query(ranks, operator))
}

fn find(search: &str, further: Document) -> Document {
    let mut find = doc! {
        "find": "texts", "filter": { "$text": { "$search": search } }, "batchSize": BATCH_SIZE,
    };
    find.extend(further);
    find
}

fn best_first() -> Document {
    let score = doc! { "score": { "$meta": "textScore" } };
    doc! { "projection": score.clone(), "sort": score, "limit": BEST }
}

/// As drivers count.
fn count(label: &'static str, search: &str, condition: String, expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$match": { "$text": { "$search": search } } },
        doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } },
    ];
    Question {
        label,
        command: aggregate("texts", pipeline),
        sql: Sql {
            settings: OWN,
            select: format!("SELECT count(*) FROM {{schema}}.texts WHERE {condition}"),
            cells: "count",
        },
        columns: NUMBER,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_differ_and_are_no_stop_words() {
        let words: HashSet<String> = (0..WORDS).map(word).collect();
        assert_eq!(words.len(), WORDS as usize);
        assert!(words.iter().all(|word| word.len() == 5));
    }

    #[test]
    fn a_text_has_its_words_in_order() {
        let random = Size {
            seed: 1,
            scale: 1.0,
        }
        .random("texts");
        let texts = Texts { total: 10, random };
        for number in 0..10 {
            let text = texts.text(number);
            let without_stop_words = text.split(' ').filter(|word| !STOP_WORDS.contains(word));
            let expected: Vec<String> = texts.ranks(number).0.into_iter().map(word).collect();
            assert!(without_stop_words.eq(&expected));
        }
    }

    #[test]
    fn repeated_words_count_ever_less() {
        assert_eq!(score(&[1, 2, 3, 4], &[9]), 0.0);
        assert_eq!(score(&[1, 2, 3, 4], &[1]), 0.625);
        assert_eq!(score(&[1, 1, 3, 4], &[1]), 1.5 * 0.75);
        assert_eq!(score(&[1, 2, 3, 4], &[1, 2]), 1.25);
    }

    #[test]
    fn each_question_has_matches_in_a_small_run_too() {
        for asked in contents(Size {
            seed: 1,
            scale: 0.02,
        })
        .questions
        {
            assert!(asked.expected.rows > 0, "{}", asked.label);
        }
    }
}
