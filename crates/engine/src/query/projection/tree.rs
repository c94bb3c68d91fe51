//! The fields that a projection names, as a tree.

use super::slice::Slice;
use crate::error::{Error, Result};
use crate::expression::{Expression, FieldSet};
use crate::query::filter::Predicate;
use meridian_value::ByName;

/// What becomes of fields that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Keep,
    Drop,
}

/// Fields by name, in the order of the projection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(super) fields: ByName<Box<str>, Action>,
}

/// What becomes of one field.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Keep,
    Drop,
    Slice(Slice),
    /// The first element that satisfies the predicate, as an array of one.
    FirstMatch(Box<Predicate>),
    Compute(Box<Expression>),
    Below(Tree),
}

impl Tree {
    /// Says what becomes of a path of fields.
    ///
    /// # Errors
    /// 31249 and 31250 where the path, or a part of it, is named already.
    pub fn insert(&mut self, path: &[Box<str>], action: Action) -> Result<()> {
        self.insert_below(path, 0, action)
    }

    fn insert_below(&mut self, path: &[Box<str>], depth: usize, action: Action) -> Result<()> {
        let name = &path[depth];
        let is_last = depth + 1 == path.len();
        let collision = |code, rest: String| {
            let message = format!("Path collision at {}{rest}", path.join("."));
            Err(Error::location(code, message))
        };
        match self.fields.get_mut(name.as_bytes()) {
            None if is_last => self.fields.push(name.clone(), action),
            None => {
                let mut below = Self::default();
                below.insert_below(path, depth + 1, action)?;
                self.fields.push(name.clone(), Action::Below(below));
            }
            Some(Action::Below(below)) if !is_last => {
                return below.insert_below(path, depth + 1, action);
            }
            Some(_) if is_last => return collision(31250, String::new()),
            Some(_) => {
                return collision(31249, format!(" remaining portion {}", path[1..].join(".")));
            }
        }
        Ok(())
    }

    /// Adds the fields that are read; the tree is that of the field `prefix`.
    pub fn add_dependencies(&self, prefix: &str, set: &mut FieldSet) {
        for (name, action) in self.fields.entries() {
            let path = if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}.{name}")
            };
            match action {
                Action::Keep | Action::Slice(_) | Action::FirstMatch(_) => set.add(path),
                Action::Drop => {}
                Action::Compute(expression) => {
                    expression.node.add_dependencies(set);
                    // What is computed below an array goes into each of its elements.
                    if !prefix.is_empty() {
                        set.add(prefix);
                    }
                }
                Action::Below(below) => below.add_dependencies(&path, set),
            }
        }
    }

    /// Whether a field is computed, here or below.
    pub(super) fn has_computed(&self) -> bool {
        self.fields
            .entries()
            .iter()
            .any(|(_, action)| match action {
                Action::Compute(_) => true,
                Action::Below(below) => below.has_computed(),
                _ => false,
            })
    }
}
