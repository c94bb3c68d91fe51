//! What makes a document out of a document: `$project`, `$set`, `$unset`.
//!
//! In: a specification, as a tree of fields to keep, to drop or to compute. Out: the new
//! document, built in one pass over the old one's bytes: a kept field is copied as it
//! stands. Order is MongoDB's: kept fields where they stood, new ones at the end, in the
//! order of the specification.

use crate::error::{Code, Error, Result};
use crate::expression::FieldSet;
use crate::expression::UNAVAILABLE;
use crate::expression::value::{Value, corrupt, within_levels};
use crate::expression::{Context, Expression, Node, VariableScope, Variables};
use crate::types::type_name;
use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::ByName;

/// What becomes of the fields that the specification does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Keep,
    Drop,
}

#[derive(Debug, Clone)]
enum Action {
    Keep,
    Drop,
    Compute(Node),
    Below(Tree),
}

#[derive(Debug, Clone, Default)]
struct Tree {
    /// In the order of the specification.
    fields: ByName<Box<str>, Action>,
}

/// A `$project`, `$set` (`$addFields`) or `$unset`.
#[derive(Debug, Clone)]
pub struct Transform {
    tree: Tree,
    rest: Rest,
    specification: RawDocumentBuf,
}

impl Transform {
    /// Parses the operand of `$project`.
    ///
    /// # Errors
    /// MongoDB's, with `Invalid $project :: caused by :: ` before them.
    pub fn project(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                15969,
                "$project specification must be an object",
            ));
        };
        ProjectParser::new(scope)
            .parse(document)
            .map_err(|error| invalid("$project", error))
    }

    /// Parses the operand of `$set` and `$addFields`.
    ///
    /// # Errors
    /// MongoDB's, with `Invalid $set :: caused by :: ` before them.
    pub fn set(name: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                40272,
                format!(
                    "{name} specification stage must be an object, got {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        let mut tree = Tree::default();
        parse_set(document, scope, &mut tree).map_err(|error| invalid(name, error))?;
        Ok(Self {
            tree,
            rest: Rest::Keep,
            specification: document.to_owned(),
        })
    }

    /// Parses the operand of `$unset`.
    ///
    /// # Errors
    /// 31002, 31119, 31120, and those of field paths.
    pub fn unset(raw: RawBsonRef<'_>) -> Result<Self> {
        let mut names = Vec::new();
        match raw {
            RawBsonRef::String(name) => names.push(name),
            RawBsonRef::Array(array) => {
                for item in array {
                    match item.map_err(corrupt)? {
                        RawBsonRef::String(name) => names.push(name),
                        _ => {
                            return Err(Error::location(
                                31120,
                                "$unset specification must be a string or an array containing only \
                                 string values",
                            ));
                        }
                    }
                }
                if names.is_empty() {
                    return Err(Error::location(
                        31119,
                        "$unset specification must be a string or an array with at least one field",
                    ));
                }
            }
            _ => {
                return Err(Error::location(
                    31002,
                    "$unset specification must be a string or an array",
                ));
            }
        }
        let mut tree = Tree::default();
        let mut specification = RawDocumentBuf::new();
        for name in names {
            let path = crate::expression::parse_field_path(name)
                .map_err(|error| invalid("$unset", error))?;
            tree.insert(&path, Action::Drop)
                .map_err(|error| invalid("$unset", error))?;
            specification.append(crate::expression::value::field_name(name)?, false);
        }
        Ok(Self {
            tree,
            rest: Rest::Keep,
            specification,
        })
    }

    /// The specification as a document (`$unset` as exclusions).
    pub fn specification(&self) -> &RawDocument {
        &self.specification
    }

    /// The new document.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        let mut context = Context::new(document, variables);
        let changed = self.tree.apply(self.rest, document, &mut context)?;
        // Only what is computed can be deeper than what was there.
        match self.tree.has_computed() {
            true => within_levels(changed),
            false => Ok(changed),
        }
    }

    /// The fields read to make the new document.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        match self.rest {
            Rest::Keep => set.add_all(),
            Rest::Drop => self.tree.add_dependencies("", &mut set),
        }
        set
    }

    /// Whether fields that are not named are dropped.
    pub fn is_inclusion(&self) -> bool {
        self.rest == Rest::Drop
    }
}

/// Puts the stage's name before an error of parsing; those of computing constants have
/// their own prefix.
fn invalid(stage: &str, mut error: Error) -> Error {
    let own = error.message.starts_with(crate::expression::FOLDING_PREFIX)
        || matches!(
            error.code,
            Code::NotImplemented | Code::Location(UNAVAILABLE)
        );
    if !own {
        error
            .message
            .insert_str(0, &format!("Invalid {stage} :: caused by :: "));
    }
    error
}

impl Tree {
    fn insert(&mut self, path: &[Box<str>], action: Action) -> Result<()> {
        self.insert_below(path, 0, action)
    }

    fn insert_below(&mut self, path: &[Box<str>], depth: usize, action: Action) -> Result<()> {
        let name = &path[depth];
        let last = depth + 1 == path.len();
        match self.fields.get_mut(name.as_bytes()) {
            None if last => self.fields.push(name.clone(), action),
            None => {
                let mut below = Tree::default();
                below.insert_below(path, depth + 1, action)?;
                self.fields.push(name.clone(), Action::Below(below));
            }
            Some(Action::Below(below)) if !last => {
                below.insert_below(path, depth + 1, action)?;
            }
            Some(_) if last => {
                return Err(Error::location(
                    31250,
                    format!("Path collision at {}", path.join(".")),
                ));
            }
            Some(_) => {
                return Err(Error::location(
                    31249,
                    format!(
                        "Path collision at {} remaining portion {}",
                        path.join("."),
                        path[depth + 1..].join(".")
                    ),
                ));
            }
        }
        Ok(())
    }

    fn has_computed(&self) -> bool {
        self.fields
            .entries()
            .iter()
            .any(|(_, action)| match action {
                Action::Compute(_) => true,
                Action::Below(below) => below.has_computed(),
                _ => false,
            })
    }

    fn add_dependencies(&self, prefix: &str, set: &mut FieldSet) {
        for (name, action) in self.fields.entries() {
            let path = if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}.{name}")
            };
            match action {
                Action::Keep => set.add(path),
                Action::Drop => {}
                Action::Compute(node) => {
                    node.add_dependencies(set);
                    // What is computed below an array goes into each of its elements.
                    if !prefix.is_empty() {
                        set.add(prefix);
                    }
                }
                Action::Below(below) => below.add_dependencies(&path, set),
            }
        }
    }

    fn apply<'a>(
        &'a self,
        rest: Rest,
        document: &RawDocument,
        context: &mut Context<'a>,
    ) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        let fields = self.fields.entries();
        let mut done = vec![false; fields.len()];
        for entry in document.iter() {
            let (key, value) = entry.map_err(corrupt)?;
            let Some(place) = self.fields.place(key.as_str().as_bytes()) else {
                if rest == Rest::Keep {
                    out.append(key, value);
                }
                continue;
            };
            match &fields[place].1 {
                Action::Keep => out.append(key, value),
                Action::Drop => {}
                // A computed field of an inclusion is new and goes to the end.
                Action::Compute(_) if rest == Rest::Drop => continue,
                Action::Compute(node) => {
                    node.evaluate(context)?.append_to(key.as_str(), &mut out)?;
                }
                Action::Below(below) => below.apply_value(rest, key, value, &mut out, context)?,
            }
            done[place] = true;
        }
        for ((name, action), done) in fields.iter().zip(done) {
            if done {
                continue;
            }
            match action {
                Action::Compute(node) => node.evaluate(context)?.append_to(name, &mut out)?,
                Action::Below(below) if below.has_computed() => {
                    let empty = RawDocumentBuf::new();
                    let built = below.apply(rest, &empty, context)?;
                    out.append(crate::expression::value::field_name(name)?, built);
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// The tree below a field: documents are transformed, arrays item by item; anything else
    /// is kept or dropped with the rest, or gives way to what is computed below it.
    fn apply_value<'a>(
        &'a self,
        rest: Rest,
        key: &CStr,
        value: RawBsonRef<'_>,
        out: &mut RawDocumentBuf,
        context: &mut Context<'a>,
    ) -> Result<()> {
        match value {
            RawBsonRef::Document(document) => {
                out.append(key, self.apply(rest, document, context)?);
            }
            RawBsonRef::Array(array) => out.append(key, self.apply_array(rest, array, context)?),
            _ if self.has_computed() => {
                let empty = RawDocumentBuf::new();
                out.append(key, self.apply(rest, &empty, context)?);
            }
            other if rest == Rest::Keep => out.append(key, other),
            _ => {}
        }
        Ok(())
    }

    fn apply_array<'a>(
        &'a self,
        rest: Rest,
        array: &RawArray,
        context: &mut Context<'a>,
    ) -> Result<RawArrayBuf> {
        let mut out = RawArrayBuf::new();
        for item in array {
            match item.map_err(corrupt)? {
                RawBsonRef::Document(document) => out.push(self.apply(rest, document, context)?),
                RawBsonRef::Array(array) => out.push(self.apply_array(rest, array, context)?),
                _ if self.has_computed() => {
                    let empty = RawDocumentBuf::new();
                    out.push(self.apply(rest, &empty, context)?);
                }
                other if rest == Rest::Keep => out.push(other),
                _ => {}
            }
        }
        Ok(out)
    }
}

fn parse_set(document: &RawDocument, scope: &VariableScope, tree: &mut Tree) -> Result<()> {
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        let path = crate::expression::parse_field_path(key.as_str())?;
        let action = set_action(key.as_str(), raw, scope)?;
        let collision = |error: Error| match error.code {
            Code::Location(31249 | 31250) => conflict(document, key.as_str()),
            _ => error,
        };
        tree.insert(&path, action).map_err(collision)?;
    }
    Ok(())
}

/// The words of `$set` for two paths of which one lies below the other.
fn conflict(document: &RawDocument, path: &str) -> Error {
    let other = document
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .find(|other| {
            let (short, long) = if other.len() < path.len() {
                (*other, path)
            } else {
                (path, *other)
            };
            *other != path
                && long
                    .strip_prefix(short)
                    .is_some_and(|rest| rest.starts_with('.'))
        });
    Error::location(
        40176,
        format!(
            "specification contains two conflicting paths. Cannot specify both '{path}' and '{}': {}",
            other.unwrap_or(path),
            crate::text::document_text(document)
        ),
    )
}

fn set_action(path: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Action> {
    let RawBsonRef::Document(document) = raw else {
        return Ok(Action::Compute(Expression::parse(raw, scope)?.node));
    };
    let Some((first, _)) = document.iter().flatten().next() else {
        return Err(Error::location(
            40180,
            format!("an empty object is not a valid value. Found empty object at path {path}"),
        ));
    };
    let count = document.iter().count();
    let operator = document
        .iter()
        .flatten()
        .any(|(key, _)| key.as_str().starts_with('$'));
    if operator && count > 1 {
        return Err(Error::location(
            40181,
            format!(
                "an expression specification must contain exactly one field, the name of the \
                 expression. Found {count} fields in {}, while parsing object {{ {} }}",
                crate::text::document_text(document),
                crate::text::element(path, raw)
            ),
        ));
    }
    if first.as_str().starts_with('$') {
        return Ok(Action::Compute(Expression::parse(raw, scope)?.node));
    }
    let mut below = Tree::default();
    for entry in document.iter() {
        let (key, value) = entry.map_err(corrupt)?;
        let key = key.as_str();
        if key.contains('.') {
            return Err(Error::location(
                40183,
                format!(
                    "cannot use dotted field name '{key}' in a sub object: {{ {} }}",
                    crate::text::element(path, raw)
                ),
            ));
        }
        let name = crate::expression::parse_field_path(key)?;
        below.insert(&name, set_action(&format!("{path}.{key}"), value, scope)?)?;
    }
    Ok(Action::Below(below))
}

struct ProjectParser<'s> {
    scope: &'s VariableScope,
    tree: Tree,
    /// Set by the first field that says so; `_id` does not.
    rest: Option<Rest>,
    /// Whether `_id` is kept; none where nothing is said.
    id: Option<bool>,
    has_metadata: bool,
}

impl<'s> ProjectParser<'s> {
    fn new(scope: &'s VariableScope) -> Self {
        Self {
            scope,
            tree: Tree::default(),
            rest: None,
            id: None,
            has_metadata: false,
        }
    }

    fn parse(mut self, document: &RawDocument) -> Result<Transform> {
        if document.is_empty() {
            return Err(Error::location(
                51272,
                "projection specification must have at least one field",
            ));
        }
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            if key.as_str().ends_with(".$") || key.as_str().contains(".$.") {
                return Err(Error::location(
                    31324,
                    "Cannot use positional projection in aggregation projection",
                ));
            }
            let path = crate::expression::parse_field_path(key.as_str())?;
            self.field(&path, raw)?;
        }
        // `{_id: 0}` alone excludes, `{_id: 1}` and metadata alone include.
        let excludes = self.id == Some(false) && !self.has_metadata;
        let rest = self
            .rest
            .unwrap_or(if excludes { Rest::Keep } else { Rest::Drop });
        let mut tree = self.tree;
        match (rest, self.id) {
            (Rest::Drop, None | Some(true)) if tree.fields.place(b"_id").is_none() => {
                tree.fields.push_front("_id".into(), Action::Keep);
            }
            (Rest::Keep, Some(false)) => tree.fields.push_front("_id".into(), Action::Drop),
            _ => {}
        }
        Ok(Transform {
            tree,
            rest,
            specification: document.to_owned(),
        })
    }

    fn field(&mut self, path: &[Box<str>], raw: RawBsonRef<'_>) -> Result<()> {
        let flag = match raw {
            RawBsonRef::Boolean(value) => Some(value),
            RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => Some(Value::Raw(raw).truthy()),
            _ => None,
        };
        if let Some(keep) = flag {
            if path.len() == 1 && &*path[0] == "_id" {
                self.id = Some(keep);
                return Ok(());
            }
            return self.keep_or_drop(path, keep);
        }
        if let RawBsonRef::Document(document) = raw {
            let Some((first, _)) = document.iter().flatten().next() else {
                return Err(Error::location(
                    51270,
                    "An empty sub-projection is not a valid value. Found empty object at path",
                ));
            };
            // With other fields beside it, an operator is taken for a field and refused as one.
            if !first.as_str().starts_with('$') || document.iter().count() != 1 {
                return self.below(path, document);
            }
            if matches!(first.as_str(), "$elemMatch") {
                return Err(Error::new(
                    Code::InvalidPipelineOperator,
                    format!("Cannot use {} in this context", first.as_str()),
                ));
            }
        }
        self.compute(path, raw)
    }

    fn below(&mut self, path: &[Box<str>], document: &RawDocument) -> Result<()> {
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let mut whole = path.to_vec();
            whole.extend(crate::expression::parse_field_path(key.as_str())?);
            crate::expression::check_path_length(whole.len())?;
            self.field(&whole, raw)?;
        }
        Ok(())
    }

    fn keep_or_drop(&mut self, path: &[Box<str>], keep: bool) -> Result<()> {
        let (rest, action) = if keep {
            (Rest::Drop, Action::Keep)
        } else {
            (Rest::Keep, Action::Drop)
        };
        match self.rest {
            Some(Rest::Keep) if keep => Err(Error::location(
                31253,
                format!(
                    "Cannot do inclusion on field {} in exclusion projection",
                    path.join(".")
                ),
            )),
            Some(Rest::Drop) if !keep => Err(Error::location(
                31254,
                format!(
                    "Cannot do exclusion on field {} in inclusion projection",
                    path.join(".")
                ),
            )),
            _ => {
                self.rest = Some(rest);
                self.tree.insert(path, action)
            }
        }
    }

    fn compute(&mut self, path: &[Box<str>], raw: RawBsonRef<'_>) -> Result<()> {
        // Metadata goes with an inclusion and with an exclusion.
        let is_metadata = raw
            .as_document()
            .is_some_and(|operator| matches!(operator.get("$meta"), Ok(Some(_))));
        if self.rest == Some(Rest::Keep) && !is_metadata {
            return Err(Error::location(
                31252,
                "Cannot use expression other than $meta in exclusion projection",
            ));
        }
        let expression = Expression::parse(raw, self.scope).map_err(|error| {
            match (
                &error.code,
                error.message.strip_prefix("Unrecognized expression '"),
            ) {
                (Code::InvalidPipelineOperator, Some(rest)) => Error::location(
                    31325,
                    format!("Unknown expression {}", rest.trim_end_matches('\'')),
                ),
                _ => error,
            }
        })?;
        if is_metadata {
            self.has_metadata = true;
        } else {
            self.rest = Some(Rest::Drop);
        }
        self.tree.insert(path, Action::Compute(expression.node))
    }
}
