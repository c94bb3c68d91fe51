//! What every part of the suite consists of: tables with seeded contents, and questions with their answers.
//!
//! Each document is made from its number alone, so that loads, rows and right answers are made
//! one after the other without keeping them.

use std::sync::Arc;

use bson::Document;
use clap::ValueEnum;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::answer::{Answer, Column};
use super::{group, lookup, text, window};

/// A part of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Trips with their medallions, by $lookup
    Lookup,
    /// Moving averages of sensors, by $setWindowFields
    Window,
    /// Orders grouped without an index, by $group
    Group,
    /// Short texts by their words, by $text
    Text,
}

impl Part {
    /// Its tables and questions at a size.
    pub fn contents(self, size: Size) -> Contents {
        match self {
            Self::Lookup => lookup::contents(size),
            Self::Window => window::contents(size),
            Self::Group => group::contents(size),
            Self::Text => text::contents(size),
        }
    }

    /// The group of its rows in reports.
    pub fn group(self) -> &'static str {
        match self {
            Self::Lookup => "Lookup: trips with their medallions",
            Self::Window => "Window: averages over the hour before each reading",
            Self::Group => "Group: orders without an index",
            Self::Text => "Text: short texts by their words",
        }
    }
}

/// How large a run is, and of which seed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Of the data.
    pub seed: u64,
    /// Of the full size.
    pub scale: f64,
}

impl Size {
    /// So many of `full`, at least `least`.
    pub fn of(self, full: u32, least: u32) -> u32 {
        ((f64::from(full) * self.scale).round() as u32).max(least)
    }

    /// Random numbers for the things of one kind.
    pub fn random(self, kind: &str) -> RandomByNumber {
        let salt = kind
            .bytes()
            .fold(0, |salt, byte| salt * 31 + u64::from(byte));
        RandomByNumber(ChaCha8Rng::seed_from_u64(self.seed ^ (salt << 16)))
    }
}

/// Random numbers that each thing has of its own.
#[derive(Debug, Clone)]
pub struct RandomByNumber(ChaCha8Rng);

impl RandomByNumber {
    /// Those of the thing with that number.
    pub fn of(&self, number: u32) -> ChaCha8Rng {
        let mut random = self.0.clone();
        random.set_stream(number.into());
        random.set_word_pos(0);
        random
    }
}

/// Appends the thing with that number, as a document or as a row of a binary COPY.
pub type Write = Arc<dyn Fn(&u32, &mut Vec<u8>) + Send + Sync>;

/// A collection or table.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Documents in it.
    pub count: u32,
    /// About what one takes.
    pub document_bytes: usize,
    /// Appends a document.
    pub document: Write,
    /// Appends a row.
    pub row: Write,
    /// How SQL declares the columns.
    pub columns: String,
    /// The columns that a row has, where others are computed of them; empty for all.
    pub loaded: &'static str,
    /// The index that it has beside its key's own.
    pub index: Option<Index>,
}

/// An index, in both languages.
pub struct Index {
    /// Its key.
    pub key: Document,
    /// Whether it is unique.
    pub unique: bool,
    /// What `CREATE INDEX ON table` ends with.
    pub sql: &'static str,
}

/// A question, in both languages, with the right answer.
pub struct Question {
    /// Its name in reports.
    pub label: &'static str,
    /// A command that opens a cursor.
    pub command: Document,
    /// The same as SQL.
    pub sql: Sql,
    /// What is compared of each document.
    pub columns: &'static [Column],
    /// The right answer.
    pub expected: Answer,
}

/// A question to PostgreSQL. `{schema}` stands for the schema.
pub struct Sql {
    /// What is set for it.
    pub settings: &'static str,
    /// The query.
    pub select: String,
    /// What is compared of each row; empty where only the number of rows can be compared.
    pub cells: &'static str,
}

/// Settings that leave the choice to the planner.
pub const OWN: &str = "";

/// Tables and questions of a part.
pub struct Contents {
    /// Made and loaded in this order.
    pub tables: Vec<Table>,
    /// Asked in this order.
    pub questions: Vec<Question>,
}

/// An `aggregate` command that returns its documents in batches as large as a reply may be.
pub fn aggregate(collection: &str, pipeline: Vec<Document>) -> Document {
    bson::doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": BATCH_SIZE } }
}

/// More documents than fit into a reply.
pub const BATCH_SIZE: i32 = 10_000_000;
