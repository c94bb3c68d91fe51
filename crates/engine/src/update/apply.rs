//! Walks the tree beside one raw document and collects the edits.
//!
//! In: the tree and a document. Out: the document's new bytes, or that nothing changes. Bytes
//! of unchanged fields are copied, never decoded. Children are visited in the tree's order,
//! which decides the order of new fields and which of several errors is reported.

use super::array_filters::ArrayFilters;
use super::operators::{Blocked, UpdateOperator};
use super::path::array_index;
use super::raw::{
    ARRAY, DOCUMENT, Edit, Field, NULL, OwnedValue, as_document, fields, splice, write_document,
    write_element, write_indexed,
};
use super::tree::{
    Children, Conflict, ElementsNode, FieldsNode, Name, UpdateNode, merge_child, push_part,
};
use super::{ApplyMode, DEPTH_MAX};
use crate::error::{Code, Error, Result};
use crate::text;
use bson::raw::{RawBsonRef, RawDocument};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;

/// So few names are compared one by one.
const SCANNED_MAX: usize = 16;
/// How many nulls an update may put between an array's end and a new element.
const BACKFILL_MAX: usize = 1_500_000;

/// A value that an operator meets.
pub(super) struct ExistingValue<'a> {
    /// Its field's name, or its index.
    pub name: &'a str,
    /// The value.
    pub value: RawBsonRef<'a>,
    /// Its element type.
    pub kind: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What becomes of a value.
#[derive(Debug)]
pub(super) enum ValueOutcome {
    /// It stays as it is.
    Unchanged,
    /// Its field goes; an array element becomes null.
    Removed,
    /// It becomes this, which may be the same bytes where MongoDB counts a modification.
    Set(OwnedValue),
}

/// Where an operator stands.
pub(super) struct OperatorPosition<'a> {
    /// The path to the value, with array indexes filled in.
    pub path: &'a str,
    /// The whole document, as it was.
    pub document: &'a RawDocument,
    mode: ApplyMode,
}

impl OperatorPosition<'_> {
    /// Whether the document is about to be inserted by an upsert.
    pub fn is_insert(&self) -> bool {
        self.mode == ApplyMode::InsertOnUpsert
    }

    /// `_id: 1`, for messages.
    pub fn document_id(&self) -> String {
        match self.document.get("_id") {
            Ok(Some(id)) => text::element("_id", id),
            _ => "no id".into(),
        }
    }
}

/// Applies a tree of operators; `None` when nothing changes.
pub(super) fn apply(
    tree: &FieldsNode,
    filters: &ArrayFilters,
    document: &RawDocument,
    array_position: Option<usize>,
    mode: ApplyMode,
) -> Result<Option<Vec<u8>>> {
    let mut walk = UpdateWalk {
        document,
        filters,
        array_position,
        mode,
        path: String::new(),
        depth: 0,
        is_immutable: false,
    };
    let mut changes = walk.edit_document(tree, document)?;
    if changes.is_empty() {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(document.as_bytes().len() + 64);
    changes.write(document, &mut out);
    Ok(Some(out))
}

/// The edits of one document, and the fields that are new at its end.
#[derive(Default)]
struct Changes<'a> {
    edits: SmallVec<[Edit<'a>; 2]>,
    appended: SmallVec<[(Box<str>, OwnedValue); 2]>,
}

impl Changes<'_> {
    fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.appended.is_empty()
    }

    fn write(&mut self, document: &RawDocument, out: &mut Vec<u8>) {
        splice(document.as_bytes(), &mut self.edits, out, |out| {
            for (name, value) in &self.appended {
                write_element(out, name, value.kind(), value.payload());
            }
        });
    }
}

struct UpdateWalk<'a> {
    document: &'a RawDocument,
    filters: &'a ArrayFilters,
    array_position: Option<usize>,
    mode: ApplyMode,
    /// The path to where the walk stands.
    path: String,
    /// How many parts the path has.
    depth: usize,
    /// Whether the walk is inside the `_id` of the document.
    is_immutable: bool,
}

impl UpdateWalk<'_> {
    /// Runs `visit` one step further down.
    fn enter<T>(&mut self, part: &str, visit: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let length = self.path.len();
        push_part(&mut self.path, part);
        self.depth += 1;
        let result = visit(self);
        self.depth -= 1;
        self.path.truncate(length);
        result
    }

    fn place(&self) -> OperatorPosition<'_> {
        OperatorPosition {
            path: &self.path,
            document: self.document,
            mode: self.mode,
        }
    }

    /// The children of a node by name, with the one under `$` at the matched index.
    fn children<'n>(&self, node: &'n FieldsNode) -> Result<Cow<'n, Children>> {
        let Some(matched) = &node.matched else {
            return Ok(Cow::Borrowed(&node.children));
        };
        let index = self.array_position.ok_or_else(|| {
            Error::bad_value(
                "The positional operator did not find the match needed from the query.",
            )
        })?;
        let mut children = node.children.clone();
        let mut path = self.path.clone();
        let name = Name(index.to_string().into());
        merge_child(
            &mut children,
            name,
            (**matched).clone(),
            &mut path,
            |name| name.into(),
        )
        .map_err(created_conflict)?;
        Ok(Cow::Owned(children))
    }

    fn edit_document<'d>(
        &mut self,
        node: &FieldsNode,
        document: &'d RawDocument,
    ) -> Result<Changes<'d>> {
        let children = self.children(node)?;
        let found = find_fields(&children, document)?;
        let mut changes = Changes::default();
        for ((name, child), field) in children.iter().zip(found) {
            let is_root = self.depth == 0;
            if is_root {
                self.is_immutable = field.is_some() && *name.0 == *"_id";
            }
            match field {
                Some(field) => {
                    let outcome = self.enter(name, |walk| walk.update(child, &field))?;
                    let is_set = matches!(
                        (child, &outcome),
                        (UpdateNode::Leaf(_), ValueOutcome::Set(_))
                    );
                    if is_root && is_set {
                        self.check_root_name(name)?;
                    }
                    let edit = |value| Edit {
                        range: field.range.clone(),
                        name: field.name(),
                        value,
                    };
                    match outcome {
                        ValueOutcome::Unchanged => (),
                        ValueOutcome::Removed => changes.edits.push(edit(None)),
                        ValueOutcome::Set(value) => changes.edits.push(edit(Some(value))),
                    }
                }
                None => {
                    if let Some(value) = self.enter(name, |walk| walk.create(child))? {
                        if is_root {
                            self.check_root_name(name)?;
                        }
                        changes.appended.push((name.0.clone(), value));
                    }
                }
            }
        }
        Ok(changes)
    }

    /// Refuses an update to a top-level field whose name begins with a dollar sign.
    fn check_root_name(&self, name: &str) -> Result<()> {
        if name.starts_with('$') && self.mode == ApplyMode::Update {
            return Err(super::dollar_field(name));
        }
        Ok(())
    }

    /// What the node makes of a value that is there.
    fn update(&mut self, node: &UpdateNode, field: &Field<'_>) -> Result<ValueOutcome> {
        match node {
            UpdateNode::Leaf(operator) => self.update_leaf(operator, field),
            UpdateNode::Fields(node) => match field.kind() {
                DOCUMENT => self.update_document(node, field),
                ARRAY => self.update_indexes(node, field),
                _ => {
                    let children = self.children(node)?;
                    for (name, child) in children.iter() {
                        self.enter(name, |walk| walk.block(child, name, field))?;
                    }
                    Ok(ValueOutcome::Unchanged)
                }
            },
            UpdateNode::Elements(node) => match field.kind() {
                ARRAY => self.update_elements(node, field),
                _ => Err(Error::bad_value(format!(
                    "Cannot apply array updates to non-array element {}",
                    text::element(field.name(), field.value()?)
                ))),
            },
        }
    }

    fn update_leaf(
        &mut self,
        operator: &UpdateOperator,
        field: &Field<'_>,
    ) -> Result<ValueOutcome> {
        let existing = ExistingValue {
            name: field.name(),
            value: field.value()?,
            kind: field.kind(),
            payload: field.payload(),
        };
        let outcome = operator.update(&existing, &self.place())?;
        if matches!(outcome, ValueOutcome::Unchanged) {
            return Ok(outcome);
        }
        if self.is_immutable {
            return Err(Error::new(
                Code::ImmutableField,
                format!(
                    "Performing an update on the path '{}' would modify the immutable field '_id'",
                    self.path
                ),
            ));
        }
        if let ValueOutcome::Set(value) = &outcome {
            self.check_depth(operator, value)?;
        }
        Ok(outcome)
    }

    fn update_document(&mut self, node: &FieldsNode, field: &Field<'_>) -> Result<ValueOutcome> {
        let document = as_document(field.payload())?;
        let mut changes = self.edit_document(node, document)?;
        if changes.is_empty() {
            return Ok(ValueOutcome::Unchanged);
        }
        let value = OwnedValue::build(DOCUMENT, |out| changes.write(document, out));
        if self.is_immutable {
            // Changes below were refused, so that fields were added.
            return Err(Error::new(
                Code::ImmutableField,
                format!(
                    "Updating the path '{}' to {} would modify the immutable field '_id'",
                    self.path,
                    text::element(field.name(), value.get())
                ),
            ));
        }
        Ok(ValueOutcome::Set(value))
    }

    /// Updates elements of an array by index, and puts new ones at its end.
    fn update_indexes(&mut self, node: &FieldsNode, field: &Field<'_>) -> Result<ValueOutcome> {
        let array = as_document(field.payload())?;
        let children = self.children(node)?;
        let elements = fields(array).collect::<Result<Vec<_>>>()?;
        let mut edits = Vec::new();
        let mut appended: Vec<Option<OwnedValue>> = Vec::new();
        let mut last = None;
        for (name, child) in children.iter() {
            let Some(index) = array_index(name) else {
                self.enter(name, |walk| walk.block(child, name, field))?;
                continue;
            };
            if last == Some(index) {
                return Err(created_conflict(Conflict(format!("{}.{index}", self.path))));
            }
            last = Some(index);
            if let Some(element) = elements.get(index) {
                let outcome = self.enter(name, |walk| walk.update(child, element))?;
                edits.extend(element_edit(outcome, element));
            } else if let Some(value) = self.enter(name, |walk| walk.create(child))? {
                let offset = index - elements.len();
                if offset - appended.len() > BACKFILL_MAX {
                    return Err(Error::new(
                        Code::CannotBackfillArray,
                        format!("can't backfill more than {BACKFILL_MAX} elements"),
                    ));
                }
                appended.resize(offset, None);
                appended.push(Some(value));
            }
        }
        if edits.is_empty() && appended.is_empty() {
            return Ok(ValueOutcome::Unchanged);
        }
        Ok(ValueOutcome::Set(OwnedValue::build(ARRAY, |out| {
            splice(array.as_bytes(), &mut edits, out, |out| {
                for (index, value) in (elements.len()..).zip(&appended) {
                    match value {
                        Some(value) => write_indexed(out, index, value.kind(), value.payload()),
                        None => write_indexed(out, index, NULL, &[]),
                    }
                }
            });
        })))
    }

    /// Updates the elements of an array that the filters match.
    fn update_elements(&mut self, node: &ElementsNode, field: &Field<'_>) -> Result<ValueOutcome> {
        let array = as_document(field.payload())?;
        let mut edits = Vec::new();
        let mut scratch = Vec::new();
        for (index, element) in fields(array).enumerate() {
            let element = element?;
            let mut matching: SmallVec<[&UpdateNode; 2]> = SmallVec::new();
            for (identifier, child) in &node.children {
                if self.filters.matches(identifier, &element, &mut scratch)? {
                    matching.push(child);
                }
            }
            let Some(first) = matching.first() else {
                continue;
            };
            let outcome = self.enter(&index.to_string(), |walk| {
                if matching.len() == 1 {
                    return walk.update(first, &element);
                }
                let mut merged = (*first).clone();
                let mut path = walk.path.clone();
                for other in &matching[1..] {
                    merged
                        .merge((*other).clone(), &mut path)
                        .map_err(created_conflict)?;
                }
                walk.update(&merged, &element)
            })?;
            edits.extend(element_edit(outcome, &element));
        }
        if edits.is_empty() {
            return Ok(ValueOutcome::Unchanged);
        }
        Ok(ValueOutcome::Set(OwnedValue::build(ARRAY, |out| {
            splice(array.as_bytes(), &mut edits, out, |_| ());
        })))
    }

    /// What the node makes where there is no value: documents down to what its operators create.
    fn create(&mut self, node: &UpdateNode) -> Result<Option<OwnedValue>> {
        match node {
            UpdateNode::Leaf(operator) => {
                let value = operator.create(&self.place())?;
                if let Some(value) = &value {
                    self.check_depth(operator, value)?;
                }
                Ok(value)
            }
            UpdateNode::Fields(node) => {
                let children = self.children(node)?;
                let mut created: SmallVec<[(&str, OwnedValue); 2]> = SmallVec::new();
                for (name, child) in children.iter() {
                    if let Some(value) = self.enter(name, |walk| walk.create(child))? {
                        created.push((name, value));
                    }
                }
                if created.is_empty() {
                    return Ok(None);
                }
                Ok(Some(OwnedValue::build(DOCUMENT, |out| {
                    write_document(out, |out| {
                        for (name, value) in &created {
                            write_element(out, name, value.kind(), value.payload());
                        }
                    });
                })))
            }
            UpdateNode::Elements(_) => Err(self.missing_array()),
        }
    }

    /// Where `holder`, a value without such fields, blocks the way at `part`.
    fn block(&mut self, node: &UpdateNode, part: &str, holder: &Field<'_>) -> Result<()> {
        match node {
            UpdateNode::Leaf(operator) => {
                let element = || Ok::<_, Error>(text::element(holder.name(), holder.value()?));
                let message = match operator.when_blocked(&self.place())? {
                    Blocked::Ignored => return Ok(()),
                    Blocked::CannotCreate => {
                        format!("Cannot create field '{part}' in element {{{}}}", element()?)
                    }
                    Blocked::CannotTraverse => format!(
                        "Cannot use the part ({part}) of ({}) to traverse the element ({{{}}})",
                        self.path,
                        element()?
                    ),
                };
                Err(Error::new(Code::PathNotViable, message))
            }
            UpdateNode::Fields(node) => {
                for (name, child) in self.children(node)?.iter() {
                    self.enter(name, |walk| walk.block(child, part, holder))?;
                }
                Ok(())
            }
            UpdateNode::Elements(_) => Err(self.missing_array()),
        }
    }

    fn missing_array(&self) -> Error {
        Error::bad_value(format!(
            "The path '{}' must exist in the document in order to apply array updates.",
            self.path
        ))
    }

    fn check_depth(&self, operator: &UpdateOperator, value: &OwnedValue) -> Result<()> {
        if self.depth + operator.depth(value) > DEPTH_MAX {
            return Err(super::too_deep());
        }
        Ok(())
    }
}

/// The field of each child, in the children's order.
fn find_fields<'d>(
    children: &Children,
    document: &'d RawDocument,
) -> Result<SmallVec<[Option<Field<'d>>; 4]>> {
    let mut found: SmallVec<[Option<Field<'d>>; 4]> = SmallVec::new();
    found.resize_with(children.len(), || None);
    let mut left = children.len();
    let places = match left > SCANNED_MAX {
        true => (0..)
            .zip(children.keys())
            .map(|(place, name)| (&*name.0, place))
            .collect(),
        false => HashMap::new(),
    };
    for field in fields(document) {
        if left == 0 {
            break;
        }
        let field = field?;
        let child = match children.len() > SCANNED_MAX {
            true => places.get(field.name()).copied(),
            false => children.keys().position(|name| *name.0 == *field.name()),
        };
        if let Some(child) = child.filter(|child| found[*child].is_none()) {
            found[child] = Some(field);
            left -= 1;
        }
    }
    Ok(found)
}

fn element_edit<'d>(outcome: ValueOutcome, element: &Field<'d>) -> Option<Edit<'d>> {
    let value = match outcome {
        ValueOutcome::Unchanged => return None,
        ValueOutcome::Removed => OwnedValue::new(RawBsonRef::Null),
        ValueOutcome::Set(value) => value,
    };
    Some(Edit {
        range: element.range.clone(),
        name: element.name(),
        value: Some(value),
    })
}

fn created_conflict(Conflict(path): Conflict) -> Error {
    Error::new(
        Code::ConflictingUpdateOperators,
        format!("Update created a conflict at '{path}'"),
    )
}
