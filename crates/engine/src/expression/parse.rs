//! From BSON to [`Node`]s.

use super::node::{Constant, EvaluationContext, Node};
use super::table::{self, Arity, Arrangement, NameEntry, Named, Operator};
use super::{FieldSet, Value, Variables, date_math, folding_error, regex, set};
use crate::error::{Code, Error, Result};
use crate::expression::metadata::MetadataScope;
use crate::expression::value::corrupt;
use crate::javascript::Globals;
use crate::operation::NameCounts;
use crate::types::type_name;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::{ByName, Collation};

/// The parts of a path: MongoDB's `BSONDepth::getMaxAllowableDepth`, since a part more could lead to nothing.
const PATH_PARTS_MAX: usize = 200;

/// The variables an expression may name besides the built-in ones: those of the
/// command's `let`, whose values are known when the expression is parsed. And by what it compares texts, and
/// whether it may ask for metadata (`$meta`).
#[derive(Debug, Clone, Default)]
pub struct VariableScope {
    constants: Vec<(String, Constant)>,
    collation: Collation,
    metadata: MetadataScope,
    defers_faults: bool,
    /// In how many pipelines within others the expression stands.
    depth: usize,
    /// Whether operators are counted: those that a client wrote, when they are parsed first.
    counts: bool,
    /// The globals of clients' functions.
    globals: Globals,
}

/// Variables that MongoDB sets for each command.
const INTERNAL_CONSTANTS: [&str; 4] = ["NOW", "CLUSTER_TIME", "JS_SCOPE", "IS_MR"];

/// These, and the others that no client may set.
pub const BUILTIN_VARIABLES: [&str; 8] = [
    "CLUSTER_TIME",
    "IS_MR",
    "JS_SCOPE",
    "NOW",
    "REMOVE",
    "ROOT",
    "SEARCH_META",
    "USER_ROLES",
];

impl VariableScope {
    /// The scope of a command without variables that compares texts by this collation.
    pub fn new(collation: Collation) -> Self {
        Self {
            collation,
            ..Self::default()
        }
    }

    /// By what texts are compared.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The same, where operators are counted or not.
    #[must_use]
    pub(crate) fn counting(self, counts: bool) -> Self {
        Self { counts, ..self }
    }

    /// Counts an operator or stage, if this is the time.
    pub(crate) fn count(&self, counts: &NameCounts, name: &str) {
        if self.counts {
            counts.add(name);
        }
    }

    /// What the expressions see when they are evaluated, if this is the time.
    pub fn variables(&self, now: bson::DateTime) -> Variables {
        Variables::new(now).with_collation(self.collation.clone())
    }

    /// The variables of a command's `let`: constant expressions, which may use the ones
    /// before them.
    ///
    /// # Errors
    /// `FailedToParse` for a name that is none; whatever an expression answers.
    pub fn from_let(variables: &RawDocument, collation: Collation) -> Result<Self> {
        let mut scope = Self::new(collation).deferring_faults();
        for entry in variables.iter() {
            let (name, raw) = entry.map_err(corrupt)?;
            let expression = super::Expression::parse(raw, &scope)?;
            if !matches!(&expression.dependencies(), FieldSet::Paths(read) if read.is_empty()) {
                return Err(Error::location(
                    4_890_500,
                    "Command let Expression tried to access a field, but this is not allowed because Command let \
                     Expressions run before the query examines any documents.",
                ));
            }
            let document = RawDocumentBuf::new();
            let variables = scope.variables(bson::DateTime::now());
            let value = expression.evaluate_value(&document, &variables)?;
            let constant = Constant::new(&value)?;
            if INTERNAL_CONSTANTS.contains(&name.as_str()) {
                let message = format!("Attempt to set internal constant: {}", name.as_str());
                return Err(Error::location(4_738_901, message));
            }
            check_user_name(name.as_str())
                .map_err(|error| error.within("Invalid 'let' parameter"))?;
            scope.constants.push((name.as_str().to_owned(), constant));
        }
        scope.defers_faults = false;
        Ok(scope)
    }

    /// The scope for expressions that MongoDB does not optimize before it runs them (those of an
    /// update or a `let`): a constant part whose value is an error is one only where it is reached.
    #[must_use]
    pub fn deferring_faults(mut self) -> Self {
        self.defers_faults = true;
        self
    }

    /// The scope with one more variable.
    ///
    /// # Errors
    /// `BadValue` where the value cannot be kept (a null byte in a field name).
    pub fn with(mut self, name: &str, value: &Value<'_>) -> Result<Self> {
        self.constants
            .push((name.to_owned(), Constant::new(value)?));
        Ok(self)
    }

    /// The scope with one more variable, whose value is not known yet: what is computed of it here is not used.
    #[must_use]
    pub fn with_unknown(mut self, name: &str) -> Self {
        let unknown = Constant::Scalar(Value::Missing);
        self.constants.push((name.to_owned(), unknown));
        self.deferring_faults()
    }

    /// The scope with the variables of another one.
    #[must_use]
    pub fn with_values(&self, values: Self) -> Self {
        let mut scope = self.clone();
        scope.defers_faults = values.defers_faults;
        scope.counts = false;
        scope.constants.extend(values.constants);
        scope
    }

    /// The scope of a pipeline within the one at hand: it has no metadata.
    #[must_use]
    pub fn within_pipeline(&self) -> Self {
        Self {
            depth: self.depth + 1,
            metadata: MetadataScope::default(),
            ..self.clone()
        }
    }

    /// The globals of clients' functions: one statement's share them.
    pub fn globals(&self) -> &Globals {
        &self.globals
    }

    /// In how many pipelines within others the expression stands.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The scope where there is this metadata.
    pub fn with_metadata(&self, metadata: MetadataScope) -> Self {
        Self {
            metadata,
            ..self.clone()
        }
    }

    /// What `$meta` may ask for.
    pub fn metadata(&self) -> MetadataScope {
        self.metadata
    }

    fn find(&self, name: &str) -> Option<&Constant> {
        self.constants
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }
}

/// Turns one expression into nodes; holds the variables in scope on the way down.
pub struct ExpressionParser<'s> {
    scope: &'s VariableScope,
    /// Names by slot.
    names: Vec<String>,
    /// Whether a constant part whose value is an error waits until it is reached.
    defers_faults: bool,
}

impl<'s> ExpressionParser<'s> {
    /// What may be referred to.
    pub fn scope(&self) -> &'s VariableScope {
        self.scope
    }

    /// A parser with no variable of its own.
    pub fn new(scope: &'s VariableScope) -> Self {
        Self {
            scope,
            names: Vec::new(),
            defers_faults: scope.defers_faults,
        }
    }

    /// What `$meta` may ask for.
    pub fn metadata(&self) -> MetadataScope {
        self.scope.metadata()
    }

    /// Any expression.
    pub fn operand(&mut self, raw: RawBsonRef<'_>) -> Result<Node> {
        match raw {
            RawBsonRef::String(text) if text.starts_with('$') => self.path(text),
            RawBsonRef::Document(document) => self.document(document),
            RawBsonRef::Array(array) => {
                let mut items = Vec::new();
                for item in array {
                    items.push(self.operand(item.map_err(corrupt)?)?);
                }
                self.fold(Node::Array(items.into()))
            }
            other => Node::known(&Value::Raw(other)),
        }
    }

    fn document(&mut self, document: &RawDocument) -> Result<Node> {
        let mut fields: ByName<Box<str>, Node> = ByName::default();
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            if key.starts_with('$') && fields.entries().is_empty() {
                if document.iter().count() != 1 {
                    return Err(Error::location(
                        15983,
                        format!(
                            "An object representing an expression must have exactly one field: {}",
                            crate::text::document_text(document)
                        ),
                    ));
                }
                return self.operator(key, raw);
            }
            check_plain_name(key)?;
            if fields.place(key.as_bytes()).is_some() {
                return Err(Error::location(
                    16406,
                    format!("duplicate field name specified in object literal: {key}"),
                ));
            }
            fields.push(key.into(), self.operand(raw)?);
        }
        self.fold(Node::Object(fields.into_entries().into()))
    }

    fn operator(&mut self, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        self.scope.count(&table::USED, name);
        match table::find(name) {
            Some(NameEntry::Call(operator)) => self.call(operator, raw),
            Some(NameEntry::Named(operator)) => self.named(operator, raw),
            Some(NameEntry::Special(parse)) => {
                let node = parse(self, name, raw)?;
                self.fold(node)
            }
            Some(NameEntry::Absent) => {
                Err(Error::not_implemented(format!("the expression {name}")))
            }
            None => Err(Error::new(
                Code::InvalidPipelineOperator,
                format!("Unrecognized expression '{name}'"),
            )),
        }
    }

    /// The arguments of an operator: an array's items, or the one operand.
    pub fn arguments(&mut self, raw: RawBsonRef<'_>) -> Result<Vec<Node>> {
        match raw {
            RawBsonRef::Array(array) => array
                .into_iter()
                .map(|item| self.operand(item.map_err(corrupt)?))
                .collect(),
            other => Ok(vec![self.operand(other)?]),
        }
    }

    fn call(&mut self, operator: &'static Operator, raw: RawBsonRef<'_>) -> Result<Node> {
        let mut arguments = self.arguments(raw)?;
        operator.arity.check(operator.name, arguments.len())?;
        if operator.name == "$indexOfArray" {
            // What is searched for is evaluated last.
            arguments[1..].rotate_left(1);
        }
        let arguments = match table::arrangement(operator.name) {
            Some(arrangement) if !self.defers_faults => {
                self.arranged(operator, arrangement, arguments)?
            }
            _ => arguments,
        };
        set::check_known(operator.name, &arguments).or_else(|error| self.unless_needed(error))?;
        self.fold(Node::Call {
            operator,
            arguments: arguments.into(),
        })
    }

    /// The arguments as MongoDB's optimizer arranges them, which shows in rounding and in which fault comes first: those
    /// of an argument that is the same operation take its place, and known ones become one.
    fn arranged(
        &self,
        operator: &'static Operator,
        arrangement: Arrangement,
        arguments: Vec<Node>,
    ) -> Result<Vec<Node>> {
        // A lone argument may be an array that stands for its items.
        if arguments.len() == 1 || arguments.iter().all(Node::is_known_part) {
            return Ok(arguments);
        }
        let (mut arranged, mut known) = (Vec::new(), Vec::new());
        for argument in arguments
            .into_iter()
            .flat_map(|node| spliced(operator, node))
        {
            if argument.is_known_part() {
                known.push(argument);
                continue;
            }
            if arrangement == Arrangement::Neighbours {
                self.join(operator, &mut known, &mut arranged)?;
            }
            arranged.push(argument);
        }
        self.join(operator, &mut known, &mut arranged)?;
        Ok(arranged)
    }

    fn join(
        &self,
        operator: &'static Operator,
        known: &mut Vec<Node>,
        arranged: &mut Vec<Node>,
    ) -> Result<()> {
        match known.len() {
            0 | 1 => arranged.append(known),
            _ => {
                let arguments = std::mem::take(known).into();
                arranged.push(self.fold(Node::Call {
                    operator,
                    arguments,
                })?);
            }
        }
        Ok(())
    }

    fn named(&mut self, operator: &'static Named, raw: RawBsonRef<'_>) -> Result<Node> {
        let RawBsonRef::Document(document) = raw else {
            let shown = crate::text::element(operator.name, raw);
            let found = type_name(raw.element_type());
            return Err(operator.not_object.error(operator.name, &shown, found));
        };
        let mut arguments: Vec<Option<Node>> = operator.parameters.iter().map(|_| None).collect();
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            let place = operator
                .parameters
                .iter()
                .position(|parameter| parameter.name == key);
            let Some(place) = place else {
                return Err(operator.unknown.error(operator.name, key, ""));
            };
            arguments[place] = Some(self.operand(raw)?);
        }
        for (argument, parameter) in arguments.iter().zip(operator.parameters) {
            if let (None, Some(complaint)) = (argument, &parameter.missing) {
                return Err(complaint.error(operator.name, parameter.name, ""));
            }
        }
        self.compile(operator, arguments)
    }

    /// Whether a constant part whose value is an error waits until it is reached.
    pub fn defers_faults(&self) -> bool {
        self.defers_faults
    }

    /// Parses a part that can never be reached: only its shape can be at fault.
    pub fn unreachable(&mut self, raw: RawBsonRef<'_>) -> Result<Node> {
        let before = std::mem::replace(&mut self.defers_faults, true);
        let node = self.operand(raw);
        self.defers_faults = before;
        node
    }

    /// Computes a node whose parts are all known.
    fn fold(&self, node: Node) -> Result<Node> {
        let known = self.unless_deferred(folded(&node, self.scope))?;
        Ok(known.unwrap_or(node))
    }

    /// A fault that was found ahead, unless it is deferred.
    fn unless_needed(&self, error: Error) -> Result<()> {
        match self.defers_faults {
            true => Ok(()),
            false => Err(folding_error(error)),
        }
    }

    /// What was computed ahead; nothing where that failed and the fault is deferred.
    fn unless_deferred<T>(&self, computed: Result<Option<T>>) -> Result<Option<T>> {
        match computed {
            Err(_) if self.defers_faults => Ok(None),
            computed => computed,
        }
    }

    /// Makes the most of arguments that are known: a pattern is compiled, a unit is read.
    fn compile(&self, operator: &'static Named, mut arguments: Vec<Option<Node>>) -> Result<Node> {
        let known = |node: &Option<Node>| node.as_ref().is_none_or(Node::is_known_part);
        let rest_known = arguments.iter().skip(1).all(known);
        let planned = |arguments: &[Option<Node>]| {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in &arguments[1..] {
                values.push(argument.as_ref().and_then(Node::constant));
            }
            plan(operator, &values)
        };
        // A pattern is compiled now; MongoDB matches it only at run time, even with a known input.
        let is_regex = regex::RegexOperator::of(operator.name).is_some();
        if rest_known
            && (is_regex || !known(&arguments[0]))
            && let Some(planned) = self.unless_deferred(planned(&arguments))?
        {
            let first = arguments[0].take().expect("a required argument");
            return Ok(planned.with(Box::new(first)));
        }
        self.fold(Node::Named {
            operator,
            arguments: arguments.into(),
        })
    }

    fn path(&mut self, text: &str) -> Result<Node> {
        let Some(variable) = text.strip_prefix("$$") else {
            let path = &text[1..];
            if path.is_empty() {
                return Err(Error::location(
                    16872,
                    "'$' by itself is not a valid FieldPath",
                ));
            }
            let path = parse_path_of_variable(path)?;
            return Ok(match self.slot("CURRENT") {
                Some(slot) => Node::Slot { slot, path },
                None => Node::Field {
                    path,
                    prefetched: None,
                },
            });
        };
        let (name, rest) = match variable.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (variable, None),
        };
        check_name(name)?;
        let path = rest.map(parse_path_of_variable).transpose()?;
        if let Some(slot) = self.slot(name) {
            return Ok(Node::Slot {
                slot,
                path: path.unwrap_or_default(),
            });
        }
        match (name, path) {
            ("ROOT" | "CURRENT", None) => Ok(Node::Root),
            ("ROOT" | "CURRENT", Some(path)) => Ok(Node::Field {
                path,
                prefetched: None,
            }),
            ("NOW", None) => Ok(Node::Now),
            ("CLUSTER_TIME", _) => Ok(Node::ClusterTime),
            ("NOW" | "REMOVE", _) => Node::known(&Value::Missing),
            (_, path) => match self.scope.find(name) {
                Some(constant) => {
                    let value = constant.value()?;
                    Node::known(&super::evaluate::descend(value, &path.unwrap_or_default())?)
                }
                None => Err(Error::location(
                    17276,
                    format!("Use of undefined variable: {name}"),
                )),
            },
        }
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().rposition(|known| known == name)
    }

    /// Puts variables into scope for the time of `body`.
    pub fn with_names<T>(
        &mut self,
        names: &[&str],
        body: impl FnOnce(&mut Self, usize) -> Result<T>,
    ) -> Result<T> {
        let first = self.names.len();
        self.names
            .extend(names.iter().map(|name| (*name).to_owned()));
        let result = body(self, first);
        self.names.truncate(first);
        result
    }
}

impl Arity {
    /// Refuses a number of arguments that is not this one.
    pub fn check(self, name: &str, given: usize) -> Result<()> {
        let (code, text) = match self {
            Arity::Any => return Ok(()),
            Arity::Exactly(count) if given != count => (
                16020,
                format!(
                    "Expression {} takes exactly {count} arguments. {given} were passed in.",
                    if name == "$substr" {
                        "$substrBytes"
                    } else {
                        name
                    }
                ),
            ),
            Arity::Between(least, most) if !(least..=most).contains(&given) => (
                28667,
                format!(
                    "Expression {name} takes at least {least} arguments, and at most {most}, but \
                     {given} were passed in."
                ),
            ),
            Arity::Conversion if given != 1 => (
                50723,
                format!("{name} requires a single argument, got {given}"),
            ),
            Arity::Date if given != 1 => (
                40536,
                format!(
                    "{name} accepts exactly one argument if given an array, but was given {given}"
                ),
            ),
            Arity::SetEquality if given < 2 => (
                17045,
                format!("{name} needs at least two arguments had: {given}"),
            ),
            _ => return Ok(()),
        };
        Err(Error::location(code, text))
    }
}

/// The arguments of a node that is the same operation, or the node.
fn spliced(operator: &'static Operator, node: Node) -> Vec<Node> {
    match node {
        Node::Call {
            operator: inner,
            arguments,
        } if inner.name == operator.name && arguments.len() != 1 => arguments.into_vec(),
        node => vec![node],
    }
}

/// The value of a node whose parts are all known, as a node.
fn folded(node: &Node, scope: &VariableScope) -> Result<Option<Node>> {
    let mut known = true;
    node.for_each_child(&mut |child| known &= child.is_known_part());
    let has_none = matches!(
        node,
        Node::Random
            | Node::Metadata(_)
            | Node::Script(_)
            | Node::Now
            | Node::ClusterTime
            | Node::Root
            | Node::Field { .. }
            | Node::Slot { .. }
            | Node::Constant(_)
    );
    if !known || has_none || is_left_for_documents(node) {
        return Ok(None);
    }
    let document = RawDocumentBuf::new();
    let variables = scope.variables(bson::DateTime::from_millis(0));
    let value = node
        .evaluate(&mut EvaluationContext::new(&document, &variables))
        .map_err(folding_error)?;
    if is_large(&value) {
        return Ok(None);
    }
    let constant = Constant::new(&value);
    drop(value);
    match constant {
        Ok(Constant::Held(held)) if held.as_bytes().len() > FOLDED_BYTES_MAX => Ok(None),
        Ok(constant) => Ok(Some(Node::Constant(constant))),
        // Too large or too deep to be kept: an operator around it may still make something small of it.
        Err(_) => Ok(None),
    }
}

/// Whether a value is certainly too large to be kept, without building it.
fn is_large(value: &Value<'_>) -> bool {
    match value {
        Value::Owned(_) => value.size_bytes() > FOLDED_BYTES_MAX,
        // An item takes three bytes at least.
        Value::Array(items) => items.len() > FOLDED_BYTES_MAX / 3,
        _ => false,
    }
}

/// Larger values are computed for each document rather than kept: an expression may have many of them, each larger than
/// the request that it came in.
const FOLDED_BYTES_MAX: usize = 64 * 1024;

/// The operators that MongoDB does not compute ahead, which shows in the words of their errors.
fn is_left_for_documents(node: &Node) -> bool {
    match node {
        Node::Zip { .. } => true,
        Node::Named { operator, .. } => matches!(
            operator.name,
            "$firstN" | "$lastN" | "$minN" | "$maxN" | "$replaceOne" | "$replaceAll"
        ),
        _ => false,
    }
}

/// What the arguments behind the first one are worth once they are known.
enum Planned {
    Truncation(date_math::TruncatePlan),
    Regex(regex::RegexOperator, regex::Compiled),
}

impl Planned {
    fn with(self, first: Box<Node>) -> Node {
        match self {
            Planned::Truncation(plan) => Node::DateTruncate { date: first, plan },
            Planned::Regex(kind, pattern) => Node::Regex {
                kind,
                input: first,
                pattern,
            },
        }
    }
}

fn plan(operator: &Named, values: &[Option<Value<'_>>]) -> Result<Option<Planned>> {
    if operator.name == "$dateTrunc" {
        return Ok(date_math::plan_truncation(values).map(Planned::Truncation));
    }
    let Some(kind) = regex::RegexOperator::of(operator.name) else {
        return Ok(None);
    };
    let pattern = regex::compile(operator.name, values).map_err(folding_error)?;
    Ok(pattern.map(|pattern| Planned::Regex(kind, pattern)))
}

/// A dotted path of field names, as after the `$` of a field path.
///
/// # Errors
/// MongoDB's: 40352 empty, 40353 ends with a dot, 15998 empty part, 16410 part that starts
/// with `$`, 16411 null byte.
pub fn parse_field_path(path: &str) -> Result<Box<[Box<str>]>> {
    if path.is_empty() {
        return Err(Error::location(
            40352,
            "FieldPath cannot be constructed with empty string",
        ));
    }
    if path.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    let parts: Box<[Box<str>]> = path
        .split('.')
        .map(|part| check_plain_name(part).map(|()| part.into()))
        .collect::<Result<_>>()?;
    check_path_length(parts.len())?;
    Ok(parts)
}

/// Refuses a path of more parts than a document can have levels.
///
/// # Errors
/// `Overflow`, with MongoDB's words.
pub fn check_path_length(parts: usize) -> Result<()> {
    if parts > PATH_PARTS_MAX {
        return Err(path_too_long());
    }
    Ok(())
}

fn path_too_long() -> Error {
    Error::new(Code::Overflow, "FieldPath is too long")
}

/// A path in an expression: the variable that it begins at, `CURRENT` where none is written, is a part too.
fn parse_path_of_variable(path: &str) -> Result<Box<[Box<str>]>> {
    let parts = parse_field_path(path)?;
    check_path_length(parts.len() + 1)?;
    Ok(parts)
}

fn check_plain_name(name: &str) -> Result<()> {
    let (code, text) = if name.is_empty() {
        (15998, "FieldPath field names may not be empty strings.")
    } else if name.starts_with('$') && !matches!(name, "$id" | "$ref" | "$db") {
        // The fields of a DBRef may be named.
        (
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        )
    } else if name.contains('\0') {
        (16411, "FieldPath field names may not contain '\0'.")
    } else if name.contains('.') {
        (
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        )
    } else {
        return Ok(());
    };
    Err(Error::location(code, text))
}

fn check_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if !first.is_ascii_alphabetic() && first.is_ascii() {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a variable name"
        )));
    }
    check_name_characters(name)
}

fn check_name_characters(name: &str) -> Result<()> {
    let bad = name
        .chars()
        .find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    match bad {
        Some(bad) => Err(Error::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{bad}'"
        ))),
        None => Ok(()),
    }
}

/// Refuses names a user may not give a variable.
pub fn check_user_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    check_name_characters(name)
}
