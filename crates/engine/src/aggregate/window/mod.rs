//! `$setWindowFields`: fields computed of the documents around each one; and `$fill`, which is made of it.
//!
//! In: a specification. Out: the stages that it stands for: a `$sort` by partition and order, which an index may supply,
//! and a [`SetWindowFields`], which takes documents in that order.
//!
//! - [`function`] and [`bounds`]: what is asked for, parsed;
//! - [`run`]: partitions and the documents that wait in them;
//! - [`frame`]: the window of one function as it moves, [`state`]: what it keeps of the documents in it; both slide, and
//!   compute nothing anew; [`linear_fill`], which has no window.

mod bounds;
mod fill;
mod frame;
mod function;
mod linear_fill;
mod run;
mod state;
#[cfg(test)]
mod tests;

use super::stage::Stage;
use super::stage_options::StageOptions;
use super::transform::Transform;
use crate::error::{Error, Result};
use crate::expression::value::{corrupt, field_name};
use crate::expression::{Expression, FieldSet, Node, VariableScope, parse_field_path};
use crate::query::Sort;
use crate::query::projection::{FieldAction, FieldTree};
use ahash::AHashSet;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use function::{FunctionContext, WindowFunction};
use std::sync::Arc;

pub(super) use fill::parse_fill;
pub use function::FUNCTIONS_USED;
pub use run::Windows;

/// A parsed `$setWindowFields`, for documents that come partition by partition, each in its order.
#[derive(Debug)]
pub struct SetWindowFields {
    /// By what documents are parted; none where they are one partition.
    partition_by: Option<Node>,
    /// Their order within a partition.
    sort: Option<Sort>,
    /// What they are sorted by, where that is one field.
    position: Option<Node>,
    /// The fields that all of these read in one pass, see [`Node::bind_fields`].
    fields: Vec<Box<str>>,
    functions: Vec<WindowFunction>,
    /// Where the values go: the one of the n-th function is the variable of slot n.
    tree: FieldTree,
    /// The fields of the document that they are; none where some lie deeper.
    names: Option<Vec<Box<str>>>,
}

/// The stages of a `$setWindowFields`.
///
/// # Errors
/// MongoDB's: 40414, 40415 and `TypeMismatch` for its shape, 6307900 for two outputs of which one lies below the other,
/// and those of expressions, orders, windows and functions.
pub(super) fn parse_set_window_fields(
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    let options = StageOptions {
        stage: "$setWindowFields",
        names: &[
            ("partitionBy", &[]),
            ("sortBy", &["object"]),
            ("output", &["object"]),
        ],
        required: &["output"],
    };
    let fields = options.parse(raw)?;
    let sort = fields[1].and_then(RawBsonRef::as_document);
    let output = fields[2].and_then(RawBsonRef::as_document);
    let empty = RawDocumentBuf::new();
    push_stages(fields[0], sort, output.unwrap_or(&empty), scope, out)
}

/// The stages that compute window functions.
fn push_stages(
    partition_by: Option<RawBsonRef<'_>>,
    sort_by: Option<&RawDocument>,
    output: &RawDocument,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    let partition = match partition_by {
        None => None,
        Some(raw) => PartitionBy::parse(raw, scope)?,
    };
    let sort = match sort_by {
        None => None,
        Some(order) => Some(sort_of(order, scope)?),
    };
    let context = FunctionContext {
        sort: sort_by,
        scope,
    };
    let outputs = parse_outputs(output, &context)?;
    let path = partition.as_ref().map(|partition| &*partition.path);
    let computed = partition
        .as_ref()
        .and_then(|partition| partition.computed.as_ref());
    let mut unset = None;
    if let (Some(path), Some(expression)) = (path, computed) {
        let mut field = RawDocumentBuf::new();
        field.append(field_name(path)?, expression.source());
        let set = Transform::set("$addFields", RawBsonRef::Document(&field), scope)?;
        out.push(Stage::Set(set));
        unset = Some(Transform::unset(RawBsonRef::String(path))?);
    }
    let order = order_of(path, sort_by)?;
    if !order.is_empty() {
        out.push(Stage::Sort {
            order: Sort::parse_with(&order, scope)?,
            limit: None,
        });
    }
    let windows = SetWindowFields::new(path, sort, outputs)?;
    out.push(Stage::SetWindowFields(Arc::new(windows)));
    out.extend(unset.map(Stage::Unset));
    Ok(())
}

/// The order in which documents are taken: the partition first, in the direction that the order gives it.
fn order_of(partition: Option<&str>, sort_by: Option<&RawDocument>) -> Result<RawDocumentBuf> {
    let entries = sort_by.into_iter().flatten();
    let entries: std::result::Result<Vec<_>, _> = entries.collect();
    let mut entries = entries.map_err(corrupt)?;
    let mut order = RawDocumentBuf::new();
    if let Some(path) = partition {
        let place = entries.iter().position(|(name, _)| name.as_str() == path);
        let direction = place.map(|place| entries.remove(place).1);
        order.append(field_name(path)?, direction.unwrap_or(RawBsonRef::Int32(1)));
    }
    for (name, direction) in entries {
        order.append(name, direction);
    }
    Ok(order)
}

fn sort_of(order: &RawDocument, scope: &VariableScope) -> Result<Sort> {
    let sort = Sort::parse_with(order, scope)?;
    if sort.natural().is_some() {
        // In the words for any other field.
        parse_field_path("$natural")?;
    }
    Ok(sort)
}

/// By what documents are parted.
struct PartitionBy {
    /// The field that holds it.
    path: Box<str>,
    /// What is put there first, where it is not a field that documents have.
    computed: Option<Expression>,
}

impl PartitionBy {
    /// `None` where all documents have the same.
    fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Option<Self>> {
        let expression = Expression::parse(raw, scope).map_err(|mut error| {
            let folded = error
                .message
                .strip_prefix(crate::expression::FOLDING_PREFIX);
            if let Some(rest) = folded {
                error.message =
                    format!("Failed to optimize partitionBy expression :: caused by :: {rest}");
            }
            error
        })?;
        if let Some(value) = expression.constant() {
            return match value.is_array() {
                true => Err(partition_is_array()),
                false => Ok(None),
            };
        }
        let field = match &expression.node {
            Node::Field { path, .. } => Some(path.join(".")),
            Node::Root => {
                return Err(Error::location(
                    16409,
                    "FieldPath::tail() called on single element path",
                ));
            }
            _ => None,
        };
        Ok(Some(match field {
            Some(path) => Self {
                path: path.into(),
                computed: None,
            },
            None => Self {
                path: format!("__partition_{:032x}", rand::random::<u128>()).into(),
                computed: Some(expression),
            },
        }))
    }
}

fn partition_is_array() -> Error {
    Error::type_mismatch("An expression used to partition cannot evaluate to value of type array")
}

/// The functions, and where their values go.
struct Outputs {
    functions: Vec<WindowFunction>,
    tree: FieldTree,
    names: Option<Vec<Box<str>>>,
}

fn parse_outputs(output: &RawDocument, context: &FunctionContext<'_>) -> Result<Outputs> {
    let (mut functions, mut tree) = (Vec::new(), FieldTree::default());
    let mut names = Some(Vec::new());
    let (mut paths, mut above) = (AHashSet::new(), AHashSet::new());
    for entry in output.iter() {
        let (name, raw) = entry.map_err(corrupt)?;
        let name = name.as_str();
        let mut parents = name.match_indices('.').map(|(end, _)| &name[..end]);
        let conflicts =
            above.contains(name) || parents.clone().any(|parent| paths.contains(parent));
        if !paths.insert(name) || conflicts {
            return Err(Error::location(
                6_307_900,
                "$setWindowFields 'output' specification contains two conflicting paths",
            ));
        }
        above.extend(&mut parents);
        match name.contains('.') {
            true => names = None,
            false => names.iter_mut().for_each(|names| names.push(name.into())),
        }
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::failed_to_parse(format!(
                "The field '{name}' must be an object"
            )));
        };
        let slot = functions.len();
        functions.push(WindowFunction::parse(document, context)?);
        let action = FieldAction::Compute(Box::new(Expression::variable(slot)));
        tree.insert(&parse_field_path(name)?, action)?;
    }
    Ok(Outputs {
        functions,
        tree,
        names,
    })
}

impl SetWindowFields {
    fn new(partition: Option<&str>, sort: Option<Sort>, outputs: Outputs) -> Result<Self> {
        let Outputs {
            mut functions,
            tree,
            names,
        } = outputs;
        let field = |path: &str| parse_field_path(path).map(Node::field);
        let mut partition_by = partition.map(field).transpose()?;
        let mut position = match sort.as_ref().map(Sort::fields) {
            Some([one]) if !one.by_metadata => Some(field(one.path.as_str())?),
            _ => None,
        };
        let mut fields = Vec::new();
        let nodes = partition_by.iter_mut().chain(&mut position);
        nodes.for_each(|node| node.bind_fields(&mut fields));
        for function in &mut functions {
            function.bind_fields(&mut fields);
        }
        Ok(Self {
            partition_by,
            sort,
            position,
            fields,
            functions,
            tree,
            names,
        })
    }

    /// The fields of the document that are computed.
    pub fn made_fields(&self) -> Vec<String> {
        self.tree.made_fields()
    }

    /// The fields that are read to compute the new ones.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        for function in &self.functions {
            function.add_dependencies(&mut set);
        }
        if let Some(partition_by) = &self.partition_by {
            partition_by.add_dependencies(&mut set);
        }
        for field in self.sort.iter().flat_map(Sort::fields) {
            set.add(field.path.as_str());
        }
        set
    }
}
