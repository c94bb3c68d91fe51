//! The update as a tree: one node for each step of the paths, an operator at each leaf.
//!
//! In: paths and operators, one by one. Out: a tree whose children stand in the order in which
//! MongoDB creates missing fields, with every conflict between paths found. The tree is walked
//! beside each document once.

use super::operators::UpdateOperator;
use super::path::{PathPart, UpdatePath};
use crate::error::{Code, Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Deref;
use std::sync::Arc;

/// Nodes under their names, in the order of [`compare_names`], or under their identifiers.
pub(super) type Children = BTreeMap<Name, UpdateNode>;

/// The name of a field, an index, or an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub Box<str>);

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_names(&self.0, &other.0)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A step of the tree.
#[derive(Debug, Clone)]
pub(super) enum UpdateNode {
    /// Fields of a document, or elements of an array by index.
    Fields(FieldsNode),
    /// Elements of an array, all or those that a filter matches.
    Elements(ElementsNode),
    /// What to do with the value at this path.
    Leaf(Arc<UpdateOperator>),
}

/// The children of a path whose next part is a name, an index or `$`.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldsNode {
    /// Children by name.
    pub children: Children,
    /// The child under `$`.
    pub matched: Option<Box<UpdateNode>>,
}

/// The children of a path whose next part is `$[]` or `$[identifier]`.
#[derive(Debug, Clone, Default)]
pub(super) struct ElementsNode {
    /// Children by identifier; the empty identifier is `$[]`.
    pub children: Children,
}

/// MongoDB's order of new fields: names that begin with a digit go by their length without
/// leading zeros, so that numbers come in numeric order; the rest goes by bytes.
pub fn compare_names(left: &str, right: &str) -> Ordering {
    let is_number = |name: &str| name.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if is_number(left) && is_number(right) {
        let (short_left, short_right) =
            (left.trim_start_matches('0'), right.trim_start_matches('0'));
        let by_size = short_left.len().cmp(&short_right.len());
        return by_size
            .then_with(|| short_left.cmp(short_right))
            .then_with(|| left.cmp(right));
    }
    left.cmp(right)
}

/// Two operators meet: the path at which they do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict(pub String);

impl FieldsNode {
    /// Puts an operator at a path.
    ///
    /// # Errors
    /// `ConflictingUpdateOperators` when the path is, or lies above or below, one already there.
    pub fn insert(&mut self, path: &UpdatePath, operator: Arc<UpdateOperator>) -> Result<()> {
        let branch = branch(&path.parts, operator);
        self.merge(branch, &mut String::new())
            .map_err(|Conflict(at)| {
                Error::new(
                    Code::ConflictingUpdateOperators,
                    format!(
                        "Updating the path '{}' would create a conflict at '{at}'",
                        path.text
                    ),
                )
            })
    }

    fn merge(&mut self, other: FieldsNode, path: &mut String) -> std::result::Result<(), Conflict> {
        for (name, child) in other.children {
            merge_child(&mut self.children, name, child, path, |name| name.into())?;
        }
        match (&mut self.matched, other.matched) {
            (Some(mine), Some(theirs)) => below(path, "$", |path| mine.merge(*theirs, path)),
            (mine @ None, theirs) => {
                *mine = theirs;
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }
}

impl UpdateNode {
    /// Takes the operators of another node at the same place. `path` is that place.
    ///
    /// # Errors
    /// The path at which an operator would meet another.
    pub fn merge(
        &mut self,
        other: UpdateNode,
        path: &mut String,
    ) -> std::result::Result<(), Conflict> {
        match (self, other) {
            (UpdateNode::Fields(mine), UpdateNode::Fields(theirs)) => mine.merge(theirs, path),
            (UpdateNode::Elements(mine), UpdateNode::Elements(theirs)) => {
                for (identifier, child) in theirs.children {
                    merge_child(&mut mine.children, identifier, child, path, |identifier| {
                        format!("$[{identifier}]")
                    })?;
                }
                Ok(())
            }
            _ => Err(Conflict(path.clone())),
        }
    }
}

/// Puts a child among its siblings, or merges it into the one of its name.
pub(super) fn merge_child(
    children: &mut Children,
    name: Name,
    child: UpdateNode,
    path: &mut String,
    shown: impl FnOnce(&str) -> String,
) -> std::result::Result<(), Conflict> {
    match children.entry(name) {
        Entry::Occupied(mut known) => {
            let part = shown(known.key());
            below(path, &part, |path| known.get_mut().merge(child, path))
        }
        Entry::Vacant(place) => {
            place.insert(child);
            Ok(())
        }
    }
}

/// Runs `visit` with `part` at the end of the path.
fn below<T>(path: &mut String, part: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    push_part(path, part);
    let result = visit(path);
    path.truncate(length);
    result
}

/// Appends a part to a dotted path.
pub(super) fn push_part(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(part);
}

/// The tree of a single path.
fn branch(parts: &[PathPart], operator: Arc<UpdateOperator>) -> FieldsNode {
    let mut node = UpdateNode::Leaf(operator);
    for part in parts.iter().rev() {
        node = match part {
            PathPart::Field(name) => UpdateNode::Fields(FieldsNode {
                children: Children::from([(Name(name.clone()), node)]),
                matched: None,
            }),
            PathPart::Matched => UpdateNode::Fields(FieldsNode {
                children: Children::new(),
                matched: Some(Box::new(node)),
            }),
            PathPart::Elements(identifier) => UpdateNode::Elements(ElementsNode {
                children: Children::from([(Name(identifier.clone()), node)]),
            }),
        };
    }
    match node {
        UpdateNode::Fields(fields) => fields,
        _ => unreachable!("a path has a first part, which is not an array part"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(paths: &[&str]) -> Option<String> {
        let mut root = FieldsNode::default();
        paths.iter().find_map(|path| {
            let path = UpdatePath::parse(path).unwrap();
            root.insert(&path, Arc::new(UpdateOperator::Unset))
                .err()
                .map(|error| error.message)
        })
    }

    #[test]
    fn conflicts_are_found_at_the_shared_path() {
        let at = |path: &str, at: &str| {
            Some(format!(
                "Updating the path '{path}' would create a conflict at '{at}'"
            ))
        };
        assert_eq!(conflict(&["a", "a.b"]), at("a.b", "a"));
        assert_eq!(conflict(&["a.b.c", "a"]), at("a", "a"));
        assert_eq!(conflict(&["g.$[].x", "g.0.w"]), at("g.0.w", "g"));
        assert_eq!(conflict(&["g.$[].x", "g.$[].x"]), at("g.$[].x", "g.$[].x"));
        assert_eq!(conflict(&["a.b", "a.c", "ab", "a.$.d", "a.0"]), None);
    }

    #[test]
    fn names_stand_in_the_order_of_creation() {
        let mut names = [
            "10", "2", "1a", "a10", "a2", "02", "a", "A", "é", "~", "a-b", "10a", "9a", "0", "00",
        ];
        names.sort_by(|left, right| compare_names(left, right));
        let answered = [
            "0", "00", "02", "2", "10", "1a", "9a", "10a", "A", "a", "a-b", "a10", "a2", "~", "é",
        ];
        assert_eq!(names, answered);
    }
}
