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
pub(crate) struct FieldTree {
    pub(super) fields: ByName<Box<str>, FieldAction>,
}

/// What becomes of one field.
#[derive(Debug, Clone)]
pub(crate) enum FieldAction {
    Keep,
    Drop,
    Slice(Slice),
    /// The first element that satisfies the predicate, as an array of one.
    FirstMatch(Box<Predicate>),
    Compute(Box<Expression>),
    Below(FieldTree),
}

impl FieldTree {
    /// Says what becomes of a path of fields.
    ///
    /// # Errors
    /// 31249 and 31250 where the path, or a part of it, is named already.
    pub fn insert(&mut self, path: &[Box<str>], action: FieldAction) -> Result<()> {
        self.insert_below(path, 0, &path.join("."), action)
    }

    /// As [`Self::insert`]; errors call the path as it is `shown`.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_named(
        &mut self,
        path: &[Box<str>],
        shown: &str,
        action: FieldAction,
    ) -> Result<()> {
        self.insert_below(path, 0, shown, action)
    }

    fn insert_below(
        &mut self,
        path: &[Box<str>],
        depth: usize,
        shown: &str,
        action: FieldAction,
    ) -> Result<()> {
        let name = &path[depth];
        let is_last = depth + 1 == path.len();
        let collision = |code, rest: String| {
            let message = format!("Path collision at {shown}{rest}");
            Err(Error::location(code, message))
        };
        match self.fields.get_mut(name.as_bytes()) {
            None if is_last => self.fields.push(name.clone(), action),
            None => {
                let mut below = Self::default();
                below.insert_below(path, depth + 1, shown, action)?;
                self.fields.push(name.clone(), FieldAction::Below(below));
            }
            Some(FieldAction::Below(below)) if !is_last => {
                return below.insert_below(path, depth + 1, shown, action);
            }
            Some(_) if is_last => return collision(31250, String::new()),
            Some(_) => {
                return collision(31249, {
                    // MongoDB leaves out the first name, wherever the two paths part.
                    let (_, rest) = shown.split_once('.').unwrap_or_default();
                    format!(" remaining portion {rest}")
                });
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
                FieldAction::Keep | FieldAction::Slice(_) | FieldAction::FirstMatch(_) => {
                    set.add(path)
                }
                FieldAction::Drop => {}
                FieldAction::Compute(expression) => {
                    expression.node.add_dependencies(set);
                    // What is computed below an array goes into each of its elements.
                    if !prefix.is_empty() {
                        set.add(prefix);
                    }
                }
                FieldAction::Below(below) => below.add_dependencies(&path, set),
            }
        }
    }

    /// The fields of the document that are computed or dropped.
    pub fn made_fields(&self) -> Vec<String> {
        let made =
            |action: &FieldAction| matches!(action, FieldAction::Compute(_) | FieldAction::Drop);
        let entries = self.fields.entries().iter();
        let names = entries.filter(|(_, action)| made(action));
        names.map(|(name, _)| name.to_string()).collect()
    }

    /// Whether a field is computed, here or below.
    pub(super) fn has_computed(&self) -> bool {
        self.fields
            .entries()
            .iter()
            .any(|(_, action)| match action {
                FieldAction::Compute(_) => true,
                FieldAction::Below(below) => below.has_computed(),
                _ => false,
            })
    }
}
