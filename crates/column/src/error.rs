//! What is wrong with a column or with a value.

use std::fmt;

/// What is wrong, and at which byte of the column (of the value, when encoding).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnError {
    what: &'static str,
    at: usize,
}

/// A result of this crate.
pub(crate) type Result<T> = std::result::Result<T, ColumnError>;

impl ColumnError {
    pub(crate) fn new(what: &'static str, at: usize) -> Self {
        Self { what, at }
    }

    /// What is wrong.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The byte where the part that is wrong starts.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl fmt::Display for ColumnError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for ColumnError {}
