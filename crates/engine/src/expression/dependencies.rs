//! Which fields of a document something reads.

use std::collections::BTreeSet;

/// The fields something reads: all of them, or these dotted paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldSet {
    /// The whole document.
    All,
    /// Only these dotted paths (a path stands for everything below it).
    Paths(BTreeSet<String>),
}

impl Default for FieldSet {
    fn default() -> Self {
        Self::none()
    }
}

impl FieldSet {
    /// No field at all.
    pub fn none() -> Self {
        FieldSet::Paths(BTreeSet::new())
    }

    /// Adds one dotted path.
    pub fn add(&mut self, path: impl Into<String>) {
        if let FieldSet::Paths(paths) = self {
            paths.insert(path.into());
        }
    }

    /// Adds the whole document.
    pub fn add_all(&mut self) {
        *self = FieldSet::All;
    }

    /// Adds what another set reads.
    pub fn merge(&mut self, other: FieldSet) {
        match other {
            FieldSet::All => self.add_all(),
            FieldSet::Paths(paths) => paths.into_iter().for_each(|path| self.add(path)),
        }
    }

    /// Adds what another set reads, but for these fields and what lies below them.
    pub fn merge_without(&mut self, other: FieldSet, fields: &BTreeSet<String>) {
        match other {
            FieldSet::All => self.add_all(),
            FieldSet::Paths(paths) => {
                let first = |path: &str| path.split('.').next().map(str::to_owned);
                let read = paths.into_iter();
                read.filter(|path| first(path).is_none_or(|name| !fields.contains(&name)))
                    .for_each(|path| self.add(path));
            }
        }
    }

    /// The paths, where not the whole document is read.
    pub fn paths(&self) -> Option<&BTreeSet<String>> {
        match self {
            FieldSet::All => None,
            FieldSet::Paths(paths) => Some(paths),
        }
    }
}
