//! What every part of the suite consists of: tables with seeded contents, and questions with their answers.

use std::sync::Arc;

use bson::Document;
use clap::ValueEnum;

use super::{group, lookup, text, window};
use crate::questions::Question;
use crate::seeded::Size;

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

/// Tables and questions of a part.
pub struct Contents {
    /// Made and loaded in this order.
    pub tables: Vec<Table>,
    /// Asked in this order.
    pub questions: Vec<Question>,
}
