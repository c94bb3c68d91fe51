//! The tree an expression is parsed into, and what it is evaluated in.

use super::table::{Named, Operator};
use super::{Value, Variables, corrupt, date_math, regex};
use crate::error::Result;
use crate::expression::dependencies::FieldSet;
use crate::expression::metadata::MetadataPart;
use crate::expression::script::ScriptCall;
use crate::expression::value::{check_work, fixed_size, raw_value, within_levels};
use crate::operation;
use bson::{RawDocument, RawDocumentBuf};
use smallvec::SmallVec;

/// One document and everything an evaluation needs beside it.
pub struct EvaluationContext<'a> {
    /// The document.
    pub document: &'a RawDocument,
    /// What `$$NOW` is.
    pub variables: &'a Variables,
    /// The values of `$let`, `$map`, `$filter` and `$reduce` variables by slot.
    pub slots: Vec<Value<'a>>,
    /// Top-level fields read in one pass over the document ([`Node::bind_fields`]).
    pub prefetched: SmallVec<[Value<'a>; 6]>,
    /// The work done since the statement was last asked whether it may go on.
    work: usize,
}

/// So many fields are read in one pass.
const PREFETCHED_MAX: usize = 64;

/// After so many items or words that operators have gone through, the statement is asked whether it may go on.
const WORK_MAX: usize = 1 << 14;

impl<'a> EvaluationContext<'a> {
    /// A context with no variable set.
    pub fn new(document: &'a RawDocument, variables: &'a Variables) -> Self {
        Self {
            document,
            variables,
            slots: Vec::new(),
            prefetched: SmallVec::new(),
            work: 0,
        }
    }

    /// Counts the work of an operator, about an item or a word each: one document may keep an expression busy
    /// for hours.
    ///
    /// # Errors
    /// `Interrupted` and `MaxTimeMSExpired`, each now and then, when the statement has to end;
    /// `ExceededMemoryLimit` for more work than an operator may have at once.
    #[inline]
    pub fn count_work(&mut self, work: usize) -> Result<()> {
        self.work += work;
        if self.work < WORK_MAX {
            return Ok(());
        }
        self.work = 0;
        check_work(work)?;
        operation::check()
    }

    /// Sets the variable of a slot.
    ///
    /// # Errors
    /// `Overflow` for a value of too many levels, `ExceededMemoryLimit` for one of too many bytes.
    pub fn set(&mut self, slot: usize, value: Value<'a>) -> Result<()> {
        value.check_extent()?;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Value::Missing);
        }
        self.slots[slot] = value;
        Ok(())
    }
}

/// A value known when the expression was parsed.
#[derive(Debug, Clone)]
pub enum Constant {
    /// A value that borrows nothing.
    Scalar(Value<'static>),
    /// Anything else, held as the only field of a document.
    Held(RawDocumentBuf),
}

impl Constant {
    /// Keeps a value.
    pub fn new(value: &Value<'_>) -> Result<Self> {
        if let Some(scalar) = scalar(value) {
            return Ok(Constant::Scalar(scalar));
        }
        let mut holder = RawDocumentBuf::new();
        value.append_to("", &mut holder)?;
        Ok(Constant::Held(within_levels(holder)?))
    }

    /// The value.
    pub fn value(&self) -> Result<Value<'_>> {
        match self {
            Constant::Scalar(value) => Ok(value.clone()),
            Constant::Held(holder) => match holder.iter().next() {
                Some(entry) => Ok(Value::Raw(entry.map_err(corrupt)?.1)),
                None => Ok(Value::Missing),
            },
        }
    }
}

fn scalar(value: &Value<'_>) -> Option<Value<'static>> {
    let Value::Raw(raw) = value else {
        return value.is_missing().then_some(Value::Missing);
    };
    fixed_size(*raw).map(Value::Raw)
}

/// The six comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOperator {
    /// `$eq`
    Equal,
    /// `$ne`
    NotEqual,
    /// `$lt`
    Less,
    /// `$lte`
    LessOrEqual,
    /// `$gt`
    Greater,
    /// `$gte`
    GreaterOrEqual,
    /// `$cmp`
    Order,
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub enum Node {
    /// Known already.
    Constant(Constant),
    /// A field of the document; `prefetched` is where one pass has put the first part.
    Field {
        path: Box<[Box<str>]>,
        prefetched: Option<usize>,
    },
    /// A variable, and a path below it.
    Slot { slot: usize, path: Box<[Box<str>]> },
    /// `$$ROOT` and `$$CURRENT`.
    Root,
    /// `$$NOW`.
    Now,
    /// `$$CLUSTER_TIME`: an error on a server that is no replica set.
    ClusterTime,
    /// `$rand`.
    Random,
    /// `$meta`; missing where a document has none.
    Metadata(MetadataPart),
    /// A document whose fields are expressions.
    Object(Box<[(Box<str>, Node)]>),
    /// An array whose items are expressions.
    Array(Box<[Node]>),
    /// An operator that evaluates all of its arguments.
    Call {
        operator: &'static Operator,
        arguments: Box<[Node]>,
    },
    /// An operator with named arguments, all of which it evaluates.
    Named {
        operator: &'static Named,
        arguments: Box<[Option<Node>]>,
    },
    /// A comparison.
    Compare {
        comparison: ComparisonOperator,
        operands: Box<[Node; 2]>,
    },
    /// `$and`.
    And(Box<[Node]>),
    /// `$or`.
    Or(Box<[Node]>),
    /// `$cond`: if, then, else.
    Condition(Box<[Node; 3]>),
    /// `$ifNull`.
    IfNull(Box<[Node]>),
    /// `$switch`.
    Switch {
        branches: Box<[(Node, Node)]>,
        default: Option<Box<Node>>,
    },
    /// `$let`.
    Let {
        variables: Box<[(usize, Node)]>,
        body: Box<Node>,
    },
    /// `$map`.
    Map {
        input: Box<Node>,
        slot: usize,
        body: Box<Node>,
    },
    /// `$filter`.
    Filter {
        input: Box<Node>,
        slot: usize,
        condition: Box<Node>,
        limit: Option<Box<Node>>,
    },
    /// `$reduce`: input, initial value, body; `$$this` is the slot after `$$value`.
    Reduce {
        parts: Box<[Node; 3]>,
        value_slot: usize,
    },
    /// `$zip`.
    Zip {
        inputs: Box<[Node]>,
        defaults: Box<[Node]>,
        longest: bool,
    },
    /// `$dateTrunc` with everything but the date known.
    DateTruncate {
        date: Box<Node>,
        plan: date_math::TruncatePlan,
    },
    /// `$function`, `$_internalJsEmit`.
    Script(Box<ScriptCall>),
    /// `$regexMatch`, `$regexFind`, `$regexFindAll` with a known pattern.
    Regex {
        kind: regex::RegexOperator,
        input: Box<Node>,
        pattern: regex::Compiled,
    },
}

impl Node {
    /// See [`super::Expression::for_each_equality`].
    pub fn for_each_equality(&self, visit: &mut dyn FnMut(&[Box<str>], bson::RawBson)) {
        match self {
            Node::And(parts) => parts.iter().for_each(|part| part.for_each_equality(visit)),
            Node::Compare {
                comparison: ComparisonOperator::Equal,
                operands,
            } => {
                let (path, other) = match &**operands {
                    [Node::Field { path, .. }, other] | [other, Node::Field { path, .. }] => {
                        (path, other)
                    }
                    _ => return,
                };
                if let Some(Ok(Some(value))) = other.constant().map(|value| value.to_raw()) {
                    visit(path, value);
                }
            }
            _ => {}
        }
    }

    /// A field of the document.
    pub fn field(path: Box<[Box<str>]>) -> Self {
        Node::Field {
            path,
            prefetched: None,
        }
    }

    /// A known value.
    pub fn known(value: &Value<'_>) -> Result<Self> {
        Constant::new(value).map(Node::Constant)
    }

    /// The value, where it is known.
    pub fn constant(&self) -> Option<Value<'_>> {
        match self {
            Node::Constant(constant) => constant.value().ok(),
            _ => None,
        }
    }

    /// Visits the parts one level below.
    pub fn for_each_child<'n>(&'n self, visit: &mut dyn FnMut(&'n Node)) {
        match self {
            Node::Constant(_)
            | Node::Field { .. }
            | Node::Slot { .. }
            | Node::Root
            | Node::Now
            | Node::ClusterTime
            | Node::Random
            | Node::Metadata(_) => {}
            Node::Script(call) => visit(call.operand()),
            Node::Object(fields) => fields.iter().for_each(|(_, node)| visit(node)),
            Node::Array(nodes) | Node::And(nodes) | Node::Or(nodes) | Node::IfNull(nodes) => {
                nodes.iter().for_each(visit);
            }
            Node::Call { arguments, .. } => arguments.iter().for_each(visit),
            Node::Named { arguments, .. } => arguments.iter().flatten().for_each(visit),
            Node::Compare { operands, .. } => operands.iter().for_each(visit),
            Node::Condition(parts) | Node::Reduce { parts, .. } => parts.iter().for_each(visit),
            Node::Switch { branches, default } => {
                for (case, then) in branches {
                    visit(case);
                    visit(then);
                }
                default.iter().for_each(|node| visit(node));
            }
            Node::Let { variables, body } => {
                variables.iter().for_each(|(_, node)| visit(node));
                visit(body);
            }
            Node::Map { input, body, .. } => {
                visit(input);
                visit(body);
            }
            Node::Filter {
                input,
                condition,
                limit,
                ..
            } => {
                visit(input);
                visit(condition);
                limit.iter().for_each(|node| visit(node));
            }
            Node::Zip {
                inputs, defaults, ..
            } => {
                inputs.iter().for_each(&mut *visit);
                defaults.iter().for_each(visit);
            }
            Node::DateTruncate { date, .. } => visit(date),
            Node::Regex { input, .. } => visit(input),
        }
    }

    /// Adds the fields read.
    pub fn add_dependencies(&self, set: &mut FieldSet) {
        match self {
            Node::Field { path, .. } => set.add(path.join(".")),
            Node::Root => set.add_all(),
            _ => self.for_each_child(&mut |child| child.add_dependencies(set)),
        }
    }

    /// Whether the value can differ between two evaluations of the same document.
    pub fn is_known_part(&self) -> bool {
        matches!(self, Node::Constant(_))
    }

    /// Gives every field outside of variable bodies a place in `names`, so that one pass
    /// over a document reads them all ([`prefetch`]).
    pub fn bind_fields(&mut self, names: &mut Vec<Box<str>>) {
        match self {
            Node::Field { path, prefetched } => {
                let known = names.iter().position(|name| *name == path[0]);
                *prefetched = known.or_else(|| {
                    // Each field of a document is compared with all names; what is left reads its own.
                    (names.len() < PREFETCHED_MAX).then(|| {
                        names.push(path[0].clone());
                        names.len() - 1
                    })
                });
            }
            Node::Object(fields) => fields
                .iter_mut()
                .for_each(|(_, node)| node.bind_fields(names)),
            Node::Array(nodes) | Node::And(nodes) | Node::Or(nodes) | Node::IfNull(nodes) => {
                nodes.iter_mut().for_each(|node| node.bind_fields(names));
            }
            Node::Call { arguments, .. } => {
                arguments
                    .iter_mut()
                    .for_each(|node| node.bind_fields(names));
            }
            Node::Named { arguments, .. } => {
                arguments
                    .iter_mut()
                    .flatten()
                    .for_each(|node| node.bind_fields(names));
            }
            Node::Compare { operands, .. } => {
                operands.iter_mut().for_each(|node| node.bind_fields(names));
            }
            Node::Condition(parts) => parts.iter_mut().for_each(|node| node.bind_fields(names)),
            Node::DateTruncate { date, .. } => date.bind_fields(names),
            Node::Regex { input, .. } => input.bind_fields(names),
            Node::Script(call) => call.operand_mut().bind_fields(names),
            // The rest reads its fields itself: rarely in a hot path, and always right.
            _ => {}
        }
    }
}

/// Reads the named top-level fields in one pass over the context's document.
pub fn prefetch(names: &[Box<str>], context: &mut EvaluationContext<'_>) -> Result<()> {
    context.prefetched.clear();
    // (`resize` would clone a value that is not known to be small.)
    let missing = std::iter::repeat_with(|| Value::Missing);
    context.prefetched.extend(missing.take(names.len()));
    let mut found = 0;
    for field in meridian_value::field::fields(context.document) {
        if let Some(place) = names
            .iter()
            .position(|name| name.as_bytes() == field.name())
        {
            context.prefetched[place] = raw_value(&field)?;
            found += 1;
            if found == names.len() {
                break;
            }
        }
    }
    Ok(())
}
