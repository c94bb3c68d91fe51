//! Questions in MongoDB's language and in SQL, with the answers that a generator knows.
//!
//! [`answer`] compares whole answers without keeping them; [`document`] and [`postgres`] fetch them;
//! [`measure`] checks a question's answer and times it.

pub mod answer;
pub mod document;
pub mod measure;
pub mod postgres;

use std::time::Duration;

use bson::Document;

use self::answer::{Answer, Column};
use crate::targets::Target;

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

/// An `aggregate` command that returns its documents in batches as large as a reply may be.
pub fn aggregate(collection: &str, pipeline: Vec<Document>) -> Document {
    bson::doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": BATCH_SIZE } }
}

/// More documents than fit into a reply.
pub const BATCH_SIZE: i32 = 10_000_000;

/// A server that is asked questions about a database, which is a schema in PostgreSQL.
pub trait QuestionTarget: Target {
    /// Fetches the whole answer raw and throws it away: how long it took.
    ///
    /// # Errors
    /// The server's.
    fn fetch(&mut self, database: &str, question: &Question) -> anyhow::Result<Duration>;

    /// Fetches the answer and looks at every row.
    ///
    /// # Errors
    /// The server's, and when a row lacks what is compared.
    fn look(&mut self, database: &str, question: &Question) -> anyhow::Result<Answer>;
}
