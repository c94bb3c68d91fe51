//! Expressions: parsed once from BSON, folded, evaluated over raw documents. They are what `$expr`, `$project`,
//! `$group` and update pipelines compute: below filters and pipelines, neither of which they know.
//!
//! In: the BSON of an expression (`"$a.b"`, `{$add: [..]}`, a literal) and the variables
//! that are in scope. Out: a tree of nodes with every constant part already computed,
//! that evaluates a `&RawDocument` to a [`Value`] without decoding the document into a
//! tree. Operators live beside their like (`arithmetic`, `string`, `array`, ...), each in
//! a table of name, arity and function; operators that must not evaluate all of their
//! arguments are nodes of their own (`control`).

pub(crate) mod arithmetic;
mod array;
mod control;
mod convert;
mod date;
mod date_math;
mod dependencies;
mod evaluate;
mod hash;
mod metadata;
mod node;
mod object;
mod parse;
mod regex;
mod script;
mod set;
mod special;
mod string;
pub(crate) mod sum;
mod table;
pub(crate) mod time;
mod trigonometry;
pub(crate) mod value;

pub(crate) use array::several_count;
pub(crate) use control::number;
pub(crate) use convert::display;
pub(crate) use date_math::{TruncatePlan, named_unit};
pub use dependencies::FieldSet;
pub(crate) use evaluate::descend;
pub use hash::hash_value;
pub use metadata::{
    AskedMetadata, DocumentMetadata, DocumentOrigin, MetadataPart, MetadataScope, SearchKind,
    SearchMetadata, UNAVAILABLE, mentions_metadata, mentions_text,
};
pub(crate) use node::{ComparisonOperator, EvaluationContext, Node, prefetch};
pub(crate) use parse::check_path_length;
pub use parse::{BUILTIN_VARIABLES, VariableScope, check_user_name, parse_field_path};

pub(crate) use script::{
    check_enabled as check_script_enabled, folded_function_text, function_text,
};
pub use table::USED as OPERATORS_USED;
pub(crate) use table::is_operator;
pub use value::Value;
pub(crate) use value::within_levels;

use crate::error::{Error, Result};
use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use std::sync::Arc;
use value::corrupt;

/// What expressions see besides the document: the time the command began (`$$NOW`), by what texts are compared, and
/// what a search knows of the document that it found (`$meta`). Variables of the command's `let` are part of the parsed expression.
#[derive(Debug, Clone)]
pub struct Variables {
    now: bson::DateTime,
    collation: Collation,
    metadata: Option<Arc<DocumentMetadata>>,
}

impl Default for Variables {
    fn default() -> Self {
        Self::new(bson::DateTime::now())
    }
}

impl Variables {
    /// Variables with this `$$NOW`; texts are compared by their bytes.
    pub fn new(now: bson::DateTime) -> Self {
        Self {
            now,
            collation: Collation::SIMPLE,
            metadata: None,
        }
    }

    /// The same where texts are compared by a collation.
    #[must_use]
    pub fn with_collation(self, collation: Collation) -> Self {
        Self { collation, ..self }
    }

    /// By what texts are compared.
    #[inline]
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The value of `$$NOW`.
    pub fn now(&self) -> bson::DateTime {
        self.now
    }

    /// The same for a document of which so much is known.
    #[must_use]
    pub fn knowing(&self, metadata: Option<Arc<DocumentMetadata>>) -> Self {
        Self {
            metadata,
            ..self.clone()
        }
    }

    /// The same for a document of which a search knows so much.
    #[must_use]
    pub fn with_search(&self, search: Option<SearchMetadata>) -> Self {
        let known = self.metadata.as_deref().cloned().unwrap_or_default();
        self.knowing(Some(Arc::new(DocumentMetadata { search, ..known })))
    }

    /// What is known of the document beside its fields.
    pub fn metadata(&self) -> Option<&Arc<DocumentMetadata>> {
        self.metadata.as_ref()
    }

    /// A part of it.
    fn metadata_part(&self, part: MetadataPart) -> Option<RawBsonRef<'_>> {
        self.metadata.as_deref()?.part(part)
    }

    /// What the search that found the document knows of it.
    pub fn search(&self) -> Option<&SearchMetadata> {
        self.metadata.as_deref()?.search.as_ref()
    }
}

/// A parsed expression.
///
/// ```
/// use bson::{Bson, rawdoc};
/// use meridian_engine::expression::{Expression, VariableScope, Variables};
///
/// let spec = rawdoc! { "e": { "$add": ["$a", 1] } };
/// let raw = spec.get("e").unwrap().unwrap();
/// let expression = Expression::parse(raw, &VariableScope::default()).unwrap();
/// let result = expression.evaluate(&rawdoc! { "a": 2 }, &Variables::default()).unwrap();
/// assert_eq!(result, Some(Bson::Int32(3)));
/// ```
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) node: Node,
    source: RawDocumentBuf,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Expression {
    /// Parses an expression and computes its constant parts.
    ///
    /// # Errors
    /// MongoDB's codes: unknown operators (168), wrong arity (16020), undefined variables
    /// (17276), and whatever computing a constant part answers.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let node = parse::ExpressionParser::new(scope).operand(raw)?;
        Ok(Self {
            node,
            source: wrap(raw),
        })
    }

    /// The variable of a slot, which whoever evaluates the expression sets.
    pub(crate) fn variable(slot: usize) -> Self {
        let path = Box::default();
        Self {
            node: Node::Slot { slot, path },
            source: RawDocumentBuf::new(),
        }
    }

    /// The expression as it was given.
    pub fn source(&self) -> RawBsonRef<'_> {
        self.source
            .iter()
            .next()
            .and_then(|entry| entry.ok())
            .map_or(RawBsonRef::Null, |(_, value)| value)
    }

    /// The expression's value for a document; none where it is missing.
    ///
    /// # Errors
    /// The operator's, with MongoDB's code and message.
    pub fn evaluate(&self, document: &RawDocument, variables: &Variables) -> Result<Option<Bson>> {
        self.evaluate_value(document, variables)?.to_bson()
    }

    /// The expression's value for a document as raw BSON; none where it is missing.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_raw(
        &self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<RawBson>> {
        self.evaluate_value(document, variables)?.to_raw()
    }

    /// The expression's value for a document, borrowed from it where possible.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_value<'a>(
        &'a self,
        document: &'a RawDocument,
        variables: &'a Variables,
    ) -> Result<Value<'a>> {
        self.node
            .evaluate(&mut EvaluationContext::new(document, variables))
    }

    /// Whether the expression is true for a document (`$expr`).
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn is_true(&self, document: &RawDocument, variables: &Variables) -> Result<bool> {
        Ok(self.evaluate_value(document, variables)?.truthy())
    }

    /// The value, where it does not depend on the document.
    pub fn constant(&self) -> Option<Value<'_>> {
        self.node.constant()
    }

    /// Whether the value is a matter of chance (`$rand`).
    pub fn is_random(&self) -> bool {
        is_random(&self.node)
    }

    /// Whether it calls a function of a client (`$function`).
    pub fn has_script(&self) -> bool {
        has_script(&self.node)
    }

    /// The fields the expression reads.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        self.node.add_dependencies(&mut set);
        set
    }

    /// Hands fields to `visit` with the values that they must be equal to wherever the expression is true.
    pub(crate) fn for_each_equality(&self, visit: &mut dyn FnMut(&[Box<str>], RawBson)) {
        self.node.for_each_equality(visit);
    }
}

/// An expression about a document within another: its field paths begin at the inner one, `$$ROOT` is the outer one.
#[derive(Debug, Clone)]
pub struct LevelExpression {
    node: Node,
}

impl LevelExpression {
    /// Parses an expression and computes its constant parts.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let mut parser = parse::ExpressionParser::new(scope);
        let node = parser.with_names(&["CURRENT"], |parser, _| parser.operand(raw))?;
        Ok(Self { node })
    }

    /// The expression's value for a document within `root`.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_value<'a>(
        &'a self,
        root: &'a RawDocument,
        current: &'a RawDocument,
        variables: &'a Variables,
    ) -> Result<Value<'a>> {
        let mut context = EvaluationContext::new(root, variables);
        context.set(0, Value::Raw(RawBsonRef::Document(current)))?;
        self.node.evaluate(&mut context)
    }
}

fn is_random(node: &node::Node) -> bool {
    let mut random = matches!(node, node::Node::Random);
    node.for_each_child(&mut |child| random |= is_random(child));
    random
}

fn has_script(node: &node::Node) -> bool {
    let mut found = matches!(node, node::Node::Script(_));
    node.for_each_child(&mut |child| found |= has_script(child));
    found
}

fn wrap(raw: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!("e"), raw);
    document
}

/// The prefix MongoDB puts before an error that computing a constant part met.
pub(crate) const FOLDING_PREFIX: &str = "Failed to optimize pipeline :: caused by :: ";

fn folding_error(mut error: Error) -> Error {
    if !error.message.starts_with(FOLDING_PREFIX) {
        error.message.insert_str(0, FOLDING_PREFIX);
    }
    error
}
