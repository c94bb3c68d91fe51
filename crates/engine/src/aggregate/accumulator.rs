//! What `$group` keeps for each group and field.
//!
//! In: values of an expression, one a document. Out: one value a group.

use super::group_key;
use super::script::ScriptAccumulator;
use crate::error::{Code, Error, Result};
use crate::expression::sum::{Deviation, Sum};
use crate::expression::value::{Value, build_document, compare, corrupt, raw_size_bytes};
use crate::expression::{
    EvaluationContext, Expression, FieldSet, Node, VariableScope, Variables, descend, several_count,
};
use crate::operation::NameCounts;
use crate::operation::memory::BUDGET_BYTES;
use crate::query::Sort;
use ahash::AHashSet;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::key::TypeBits;
use meridian_value::number::Number;
use meridian_value::{ByName, Collation};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AccumulatorKind {
    Sum,
    Average,
    Min,
    Max,
    First,
    Last,
    Push,
    AddToSet,
    Count,
    DeviationPopulation,
    DeviationSample,
    MergeObjects,
    FirstN,
    LastN,
    MinN,
    MaxN,
    Top,
    Bottom,
    TopN,
    BottomN,
    /// `$accumulator`.
    Script,
    /// `$_internalJsReduce`.
    Reduce,
}

/// By name.
const ACCUMULATORS: [(&str, AccumulatorKind); 22] = [
    ("$sum", AccumulatorKind::Sum),
    ("$avg", AccumulatorKind::Average),
    ("$min", AccumulatorKind::Min),
    ("$max", AccumulatorKind::Max),
    ("$first", AccumulatorKind::First),
    ("$last", AccumulatorKind::Last),
    ("$push", AccumulatorKind::Push),
    ("$addToSet", AccumulatorKind::AddToSet),
    ("$count", AccumulatorKind::Count),
    ("$stdDevPop", AccumulatorKind::DeviationPopulation),
    ("$stdDevSamp", AccumulatorKind::DeviationSample),
    ("$mergeObjects", AccumulatorKind::MergeObjects),
    ("$firstN", AccumulatorKind::FirstN),
    ("$lastN", AccumulatorKind::LastN),
    ("$minN", AccumulatorKind::MinN),
    ("$maxN", AccumulatorKind::MaxN),
    ("$top", AccumulatorKind::Top),
    ("$bottom", AccumulatorKind::Bottom),
    ("$topN", AccumulatorKind::TopN),
    ("$bottomN", AccumulatorKind::BottomN),
    ("$accumulator", AccumulatorKind::Script),
    ("$_internalJsReduce", AccumulatorKind::Reduce),
];

/// How often each accumulator of `$group` and its like was written.
pub static ACCUMULATORS_USED: NameCounts =
    NameCounts::of(|| ACCUMULATORS.map(|(name, _)| name).to_vec());

impl AccumulatorKind {
    fn parse(name: &str) -> Option<Self> {
        let found = ACCUMULATORS.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }
}

impl AccumulatorKind {
    /// `$firstN` and its like.
    fn is_counted(self) -> bool {
        matches!(self, Self::FirstN | Self::LastN | Self::MinN | Self::MaxN)
    }

    /// Whether the first in the order are kept.
    fn is_top(self) -> bool {
        matches!(self, Self::Top | Self::TopN)
    }

    /// `$top` and its like.
    fn is_ranked(self) -> bool {
        matches!(self, Self::Top | Self::Bottom | Self::TopN | Self::BottomN)
    }

    /// Parses the argument: what is accumulated, how many of it, in which order.
    fn arguments(
        self,
        name: &str,
        argument: RawBsonRef<'_>,
        scope: &VariableScope,
    ) -> Result<(Node, Option<Node>, Option<Sort>)> {
        if self.is_counted() {
            let (argument, count) = several(name, argument, scope)?;
            return Ok((argument, Some(count), None));
        }
        if self.is_ranked() {
            let (argument, count, sort) = ranked(name, argument, scope)?;
            return Ok((argument, count, Some(sort)));
        }
        if self != Self::Count {
            return Ok((Expression::parse(argument, scope)?.node, None, None));
        }
        match argument {
            RawBsonRef::Document(empty) if empty.is_empty() => {
                Ok((Node::known(&Value::Missing)?, None, None))
            }
            _ => Err(Error::type_mismatch(
                "$count takes no arguments, i.e. $count:{}",
            )),
        }
    }
}

/// One computed field of a `$group`.
#[derive(Debug, Clone)]
pub struct Accumulator {
    /// The field's name.
    pub field: Box<str>,
    /// What it computes.
    pub kind: AccumulatorKind,
    /// Of what.
    pub(crate) argument: Node,
    /// How many, for the `N` accumulators: computed once a group, from its key.
    pub(crate) count: Option<Node>,
    /// In which order, for `$top` and its like.
    pub(crate) sort: Option<Sort>,
    /// A client's functions, for `$accumulator` and its like.
    script: Option<Arc<ScriptAccumulator>>,
    /// By what values are compared.
    collation: Collation,
}

impl Accumulator {
    /// Parses `{field: {$operator: argument}}`.
    ///
    /// # Errors
    /// MongoDB's codes: 40234 to 40238 for the shape, 15952 for an unknown operator.
    pub fn parse(field: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let (name, argument) = only_operator(field, raw)?;
        scope.count(&ACCUMULATORS_USED, name);
        let Some(kind) = AccumulatorKind::parse(name) else {
            return Err(Error::location(
                15952,
                format!("unknown group operator '{name}'"),
            ));
        };
        let unary = !kind.is_counted() && !kind.is_ranked() && kind != AccumulatorKind::Count;
        if unary && matches!(argument, RawBsonRef::Array(_)) {
            return Err(Error::location(
                40237,
                format!("The {name} accumulator is a unary operator"),
            ));
        }
        let (argument, script) = match kind {
            AccumulatorKind::Script => ScriptAccumulator::parse(argument, scope)?,
            AccumulatorKind::Reduce => ScriptAccumulator::parse_reduce(argument, scope)?,
            _ => {
                let arguments = kind.arguments(name, argument, scope)?;
                return Ok(Self::new(field, kind, arguments, scope));
            }
        };
        Ok(Self {
            script: Some(script),
            ..Self::new(field, kind, (argument, None, None), scope)
        })
    }

    fn new(
        field: &str,
        kind: AccumulatorKind,
        (argument, count, sort): (Node, Option<Node>, Option<Sort>),
        scope: &VariableScope,
    ) -> Self {
        Self {
            field: field.into(),
            kind,
            argument,
            count,
            sort,
            script: None,
            collation: scope.collation().clone(),
        }
    }

    /// An accumulator as a window function, whose argument may be an array.
    ///
    /// # Errors
    /// Those of its argument.
    pub(super) fn of_window(
        name: &str,
        argument: RawBsonRef<'_>,
        scope: &VariableScope,
    ) -> Result<Self> {
        let kind = AccumulatorKind::parse(name)
            .ok_or_else(|| Error::internal("a window function that is no accumulator"))?;
        let arguments = kind.arguments(name, argument, scope)?;
        Ok(Self::new(name, kind, arguments, scope))
    }

    /// Whether what a group begins with depends on its key, by a client's function.
    pub(super) fn reads_key(&self) -> bool {
        self.script
            .as_ref()
            .is_some_and(|script| script.reads_key())
    }

    /// The client's functions, where it is made of them.
    fn script(&self) -> Result<&ScriptAccumulator> {
        self.script
            .as_deref()
            .ok_or_else(|| Error::internal("an accumulator of functions has them"))
    }

    /// What a group with this key begins with.
    ///
    /// # Errors
    /// Those of [`Self::count_in`], and what a client's function throws.
    pub(super) fn begin_group(
        &self,
        id: &RawBson,
        variables: &Variables,
    ) -> Result<AccumulatorState> {
        if self.kind == AccumulatorKind::Script {
            let state = self.script()?.begin(id, variables)?;
            return Ok(AccumulatorState::One(Some(Some(state))));
        }
        let count = match self.count {
            None => None,
            Some(_) => {
                let document = key_document(id);
                self.count_in(&mut EvaluationContext::new(&document, variables))?
            }
        };
        Ok(self.begin(count))
    }

    /// How many values it keeps, where it says.
    ///
    /// # Errors
    /// Those of [`several_count`].
    pub(super) fn count_in<'a>(
        &'a self,
        context: &mut EvaluationContext<'a>,
    ) -> Result<Option<usize>> {
        let count = self.count.as_ref().map(|count| count.evaluate(context));
        count
            .transpose()?
            .map(|count| several_count(&count))
            .transpose()
    }

    /// The bytes by which `$top` and its like order a document; none for others.
    ///
    /// # Errors
    /// As [`ranked_key`].
    pub(super) fn key_of(&self, document: &RawDocument) -> Result<Option<Vec<u8>>> {
        let sort = self.sort.as_ref();
        sort.map(|sort| ranked_key(sort, document)).transpose()
    }

    /// Adds the fields that are read.
    pub(super) fn add_dependencies(&self, set: &mut FieldSet) {
        self.argument.add_dependencies(set);
        for field in self.sort.iter().flat_map(Sort::fields) {
            set.add(field.path.as_str());
        }
    }

    /// Whether the field only counts documents: `$count`, or `$sum` of a whole number.
    pub(super) fn counts(&self) -> bool {
        match self.kind {
            AccumulatorKind::Count => true,
            AccumulatorKind::Sum => match self.argument.constant() {
                Some(Value::Raw(RawBsonRef::Int32(_) | RawBsonRef::Int64(_))) => true,
                // Shells send 1 as a double; a product of small whole numbers is exact.
                Some(Value::Raw(RawBsonRef::Double(value))) => {
                    value.fract() == 0.0 && value.abs() <= 1000.0
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether states over parts of the input can be merged into one that is the same as over all of it,
    /// see [`AccumulatorState::merge`]. They take no memory beyond their own size.
    pub(super) fn merges(&self) -> bool {
        matches!(
            self.kind,
            AccumulatorKind::Sum
                | AccumulatorKind::Average
                | AccumulatorKind::Count
                | AccumulatorKind::Min
                | AccumulatorKind::Max
                | AccumulatorKind::First
                | AccumulatorKind::Last
        )
    }

    /// What a new group begins with. The context's document is the group's key as `_id`.
    pub fn begin(&self, count: Option<usize>) -> AccumulatorState {
        match self.kind {
            AccumulatorKind::Sum | AccumulatorKind::Average => {
                AccumulatorState::Sum(Sum::default())
            }
            AccumulatorKind::Min
            | AccumulatorKind::Max
            | AccumulatorKind::First
            | AccumulatorKind::Last
            | AccumulatorKind::Script => AccumulatorState::One(None),
            AccumulatorKind::Push | AccumulatorKind::Reduce => AccumulatorState::Items {
                items: VecDeque::new(),
                bytes: 0,
            },
            AccumulatorKind::AddToSet => AccumulatorState::Set {
                seen: Box::default(),
                items: Vec::new(),
                bytes: 0,
            },
            AccumulatorKind::Count => AccumulatorState::Count(0),
            AccumulatorKind::DeviationPopulation | AccumulatorKind::DeviationSample => {
                AccumulatorState::Deviation(Deviation::default())
            }
            AccumulatorKind::MergeObjects => AccumulatorState::Merged(Box::default()),
            AccumulatorKind::FirstN
            | AccumulatorKind::LastN
            | AccumulatorKind::MinN
            | AccumulatorKind::MaxN => AccumulatorState::Several {
                count: count.unwrap_or(1),
                items: VecDeque::new(),
            },
            AccumulatorKind::Top
            | AccumulatorKind::Bottom
            | AccumulatorKind::TopN
            | AccumulatorKind::BottomN => AccumulatorState::Ranked {
                count: count.unwrap_or(1),
                entries: Vec::new(),
            },
        }
    }
}

/// The name and the argument of `{$operator: argument}`.
fn only_operator<'a>(field: &str, raw: RawBsonRef<'a>) -> Result<(&'a str, RawBsonRef<'a>)> {
    let fail = |code, text: String| Err(Error::location(code, text));
    let first = match raw {
        RawBsonRef::Document(document) => document.iter().flatten().next(),
        _ => None,
    };
    let first = first.filter(|(name, _)| name.as_str().starts_with('$'));
    let (RawBsonRef::Document(document), Some((name, argument))) = (raw, first) else {
        return fail(
            40234,
            format!("The field '{field}' must be an accumulator object"),
        );
    };
    if field.contains('.') {
        return fail(
            40235,
            format!("The field name '{field}' cannot contain '.'"),
        );
    }
    if field.starts_with('$') {
        return fail(
            40236,
            format!("The field name '{field}' cannot be an operator name"),
        );
    }
    if document.iter().count() != 1 {
        return fail(
            40238,
            format!("The field '{field}' must specify one accumulator"),
        );
    }
    Ok((name.as_str(), argument))
}

/// `{n, input}` of the accumulators that keep several.
fn several(name: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<(Node, Node)> {
    let RawBsonRef::Document(document) = raw else {
        let code = match name {
            "$minN" | "$maxN" => 5_787_900,
            _ => 5_787_801,
        };
        return Err(Error::location(
            code,
            format!(
                "specification must be an object; found {}",
                crate::text::element(name, raw)
            ),
        ));
    };
    let (mut count, mut input) = (None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match key.as_str() {
            "n" => count = Some(Expression::parse(raw, scope)?.node),
            "input" => input = Some(Expression::parse(raw, scope)?.node),
            other => {
                return Err(Error::location(
                    5_787_901,
                    format!("Unknown argument for 'n' operator: {other}"),
                ));
            }
        }
    }
    let count = count.ok_or_else(|| Error::location(5_787_906, "Missing value for 'n'"))?;
    let input = input.ok_or_else(|| Error::location(5_787_907, "Missing value for 'input'"))?;
    Ok((input, count))
}

/// `{n, sortBy, output}` of `$top` and its like.
fn ranked(
    name: &str,
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
) -> Result<(Node, Option<Node>, Sort)> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            5_788_001,
            format!(
                "specification must be an object; found {}",
                crate::text::element(name, raw)
            ),
        ));
    };
    let many = name.ends_with('N');
    let plain = VariableScope::new(scope.collation().clone());
    let (mut count, mut sort, mut output) = (None, None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match (key.as_str(), raw) {
            ("n", raw) if many => count = Some(Expression::parse(raw, scope)?.node),
            ("sortBy", RawBsonRef::Document(order)) => {
                sort = Some(Sort::parse_with(order, &plain)?)
            }
            ("sortBy", _) => {
                return Err(Error::location(
                    10065,
                    "invalid parameter: expected an object (sortBy)",
                ));
            }
            ("output", raw) => output = Some(Expression::parse(raw, scope)?.node),
            (other, _) => {
                return Err(Error::location(
                    5_788_002,
                    format!("Unknown argument to {name} '{other}'"),
                ));
            }
        }
    }
    if many && count.is_none() {
        return Err(Error::location(5_788_003, "Missing value for 'n'"));
    }
    let output = output.ok_or_else(|| Error::location(5_788_004, "Missing value for 'output'"))?;
    let sort = sort.ok_or_else(|| Error::location(5_788_005, "Missing value for 'sortBy'"))?;
    Ok((output, count, sort))
}

/// What a group has gathered.
#[derive(Debug, Clone)]
pub enum AccumulatorState {
    /// `$sum`, `$avg`.
    Sum(Sum),
    /// `$min`, `$max`, `$first`, `$last`; the inner none is a missing value.
    One(Option<Option<RawBson>>),
    /// `$push`.
    Items {
        items: VecDeque<RawBson>,
        bytes: usize,
    },
    /// `$addToSet`.
    Set {
        seen: Box<AHashSet<Box<[u8]>>>,
        items: Vec<RawBson>,
        bytes: usize,
    },
    /// `$count`.
    Count(i64),
    /// `$stdDevPop`, `$stdDevSamp`.
    Deviation(Deviation),
    /// `$mergeObjects`.
    Merged(Box<ByName<Box<str>, RawBson>>),
    /// `$firstN`, `$lastN`, `$minN`, `$maxN`.
    Several {
        count: usize,
        items: VecDeque<RawBson>,
    },
    /// `$top` and its like: sort keys and outputs, in order.
    Ranked {
        count: usize,
        entries: Vec<(Vec<u8>, RawBson)>,
    },
}

/// What `$push` and `$addToSet` may hold for one group: as in MongoDB, where there is so much memory. The group's
/// document is made beside it, which takes as much again, twice.
const ITEMS_BYTES_MAX: usize = if BUDGET_BYTES / 4 < 100 << 20 {
    BUDGET_BYTES / 4
} else {
    100 << 20
};

impl AccumulatorState {
    /// Takes the value for one more document, and says how many bytes the group grew.
    #[inline]
    pub fn add(
        &mut self,
        accumulator: &Accumulator,
        value: &Value<'_>,
        document: &RawDocument,
    ) -> Result<usize> {
        if let Some(key) = accumulator.key_of(document)? {
            let output = value.to_raw()?.unwrap_or(RawBson::Null);
            return self.add_with_key(accumulator, key, output);
        }
        self.add_value(accumulator, value)
    }

    /// Whether a value would take the place of what is kept; true of states that keep more than one of the values.
    pub(super) fn is_replaced(&self, accumulator: &Accumulator, value: &Value<'_>) -> bool {
        match self {
            AccumulatorState::One(kept) => replaces(kept.as_ref(), accumulator, value),
            _ => true,
        }
    }

    /// The same for an accumulator that has no order of its own.
    #[inline]
    pub(super) fn add_value(
        &mut self,
        accumulator: &Accumulator,
        value: &Value<'_>,
    ) -> Result<usize> {
        match self {
            AccumulatorState::Sum(sum) => {
                if let Value::Raw(raw) = value
                    && let Some(number) = Number::from_raw(*raw)
                {
                    sum.add(number);
                }
                Ok(0)
            }
            AccumulatorState::Count(count) => {
                *count += 1;
                Ok(0)
            }
            AccumulatorState::Deviation(deviation) => {
                if let Value::Raw(raw) = value
                    && let Some(number) = Number::from_raw(*raw)
                {
                    deviation.add(number.to_f64());
                }
                Ok(0)
            }
            AccumulatorState::One(kept) if accumulator.kind == AccumulatorKind::Script => {
                let state = kept.take().flatten().unwrap_or(RawBson::Null);
                let before = item_bytes(&state);
                let state = accumulator.script()?.add(state, value)?;
                let grown = item_bytes(&state).saturating_sub(before);
                *kept = Some(Some(state));
                Ok(grown)
            }
            AccumulatorState::One(kept) => add_one(kept, accumulator, value),
            AccumulatorState::Items { items, bytes } => {
                let Some(raw) = value.to_raw()? else {
                    return Ok(0);
                };
                let grown = item_bytes(&raw);
                add_items(items, bytes, [raw].into(), grown)?;
                Ok(grown)
            }
            AccumulatorState::Set { seen, items, bytes } => {
                add_to_set(seen, items, bytes, value, &accumulator.collation)
            }
            AccumulatorState::Merged(fields) => add_merged(fields, value),
            AccumulatorState::Several { count, items } => {
                add_several(items, *count, accumulator, value)
            }
            AccumulatorState::Ranked { .. } => Err(Error::internal("a ranked value has a key")),
        }
    }

    /// Takes the value of `$top` and its like for one more document, by the bytes that order it.
    pub(super) fn add_with_key(
        &mut self,
        accumulator: &Accumulator,
        key: Vec<u8>,
        output: RawBson,
    ) -> Result<usize> {
        let top = accumulator.kind.is_top();
        match self {
            AccumulatorState::Ranked { count, entries } => {
                add_ranked(entries, *count, top, key, output)
            }
            _ => Err(Error::internal("only ranked values have a key")),
        }
    }

    /// Takes one value for so many documents; for accumulators that only count.
    pub(super) fn add_times(&mut self, value: &Value<'_>, times: u64) {
        match self {
            AccumulatorState::Count(count) => *count += i64::try_from(times).unwrap_or(i64::MAX),
            AccumulatorState::Sum(sum) => {
                if let Value::Raw(raw) = value
                    && let Some(number) = Number::from_raw(*raw)
                {
                    sum.add_times(number, times);
                }
            }
            _ => unreachable!("only accumulators that count are asked"),
        }
    }

    /// Takes what `later` has gathered from documents that come behind this state's, and says how many bytes
    /// the group grew.
    pub(super) fn merge(&mut self, accumulator: &Accumulator, later: Self) -> Result<usize> {
        match (self, later) {
            (AccumulatorState::Sum(sum), AccumulatorState::Sum(more)) => sum.merge(more),
            (AccumulatorState::Count(count), AccumulatorState::Count(more)) => *count += more,
            (AccumulatorState::Deviation(deviation), AccumulatorState::Deviation(more)) => {
                deviation.merge(&more)
            }
            (AccumulatorState::One(kept), AccumulatorState::One(Some(Some(later))))
                if accumulator.kind == AccumulatorKind::Script =>
            {
                let state = kept.take().flatten().unwrap_or(RawBson::Null);
                *kept = Some(Some(accumulator.script()?.merge(state, later)?));
            }
            (AccumulatorState::One(kept), AccumulatorState::One(Some(value))) => {
                add_one(kept, accumulator, &as_value(value.as_ref()))?;
            }
            (AccumulatorState::One(_), AccumulatorState::One(None)) => {}
            (
                AccumulatorState::Items { items, bytes },
                AccumulatorState::Items {
                    items: more,
                    bytes: grown,
                },
            ) => {
                add_items(items, bytes, more, grown)?;
                return Ok(grown);
            }
            (
                AccumulatorState::Set { seen, items, bytes },
                AccumulatorState::Set { items: more, .. },
            ) => {
                let mut grown = 0;
                for item in more {
                    let value = Value::Raw(item.as_raw_bson_ref());
                    grown += add_to_set(seen, items, bytes, &value, &accumulator.collation)?;
                }
                return Ok(grown);
            }
            (AccumulatorState::Merged(fields), AccumulatorState::Merged(more)) => {
                let more = merged_document(&more)?;
                let value = Value::Raw(RawBsonRef::Document(&more));
                return add_merged(fields, &value);
            }
            (
                AccumulatorState::Several { count, items },
                AccumulatorState::Several { items: more, .. },
            ) => {
                let mut grown = 0;
                for item in &more {
                    let value = Value::Raw(item.as_raw_bson_ref());
                    grown += add_several(items, *count, accumulator, &value)?;
                }
                return Ok(grown);
            }
            (
                AccumulatorState::Ranked { count, entries },
                AccumulatorState::Ranked { entries: more, .. },
            ) => {
                let top = accumulator.kind.is_top();
                let mut grown = 0;
                for (key, output) in more {
                    grown += add_ranked(entries, *count, top, key, output)?;
                }
                return Ok(grown);
            }
            _ => unreachable!("states of one accumulator are merged"),
        }
        Ok(0)
    }

    /// The value by which a state is spilled. Numbers and sums are binary data, lists are arrays; `$top` and
    /// its like alternate keys and outputs, behind their number.
    pub(super) fn encode(self) -> Result<RawBson> {
        let binary = |bytes| {
            RawBson::Binary(bson::Binary {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes,
            })
        };
        let mut bytes = Vec::new();
        Ok(match self {
            AccumulatorState::Sum(sum) => {
                sum.encode(&mut bytes);
                binary(bytes)
            }
            AccumulatorState::Deviation(deviation) => {
                deviation.encode(&mut bytes);
                binary(bytes)
            }
            AccumulatorState::Count(count) => RawBson::Int64(count),
            AccumulatorState::One(None) => RawBson::Null,
            AccumulatorState::One(Some(kept)) => array(kept),
            AccumulatorState::Items { items, .. } => array(items),
            AccumulatorState::Set { items, .. } => array(items),
            AccumulatorState::Merged(fields) => RawBson::Document(merged_document(&fields)?),
            AccumulatorState::Several { count, items } => {
                array([whole(count)].into_iter().chain(items))
            }
            AccumulatorState::Ranked { count, entries } => {
                let entries = entries.into_iter();
                let pairs = entries.flat_map(|(key, output)| [binary(key), output]);
                array([whole(count)].into_iter().chain(pairs))
            }
        })
    }

    /// What [`Self::encode`] made of a state of this accumulator.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    pub(super) fn decode(accumulator: &Accumulator, spilled: RawBsonRef<'_>) -> Result<Self> {
        let broken = || corrupt("a spilled group is not what was written");
        let state = accumulator.begin(None);
        let mut items = match spilled {
            RawBsonRef::Array(array) => array
                .into_iter()
                .map(|item| item.map(RawBson::from).map_err(corrupt))
                .collect::<Result<VecDeque<RawBson>>>()?,
            _ => VecDeque::new(),
        };
        let bytes = match spilled {
            RawBsonRef::Binary(binary) => binary.bytes,
            _ => &[],
        };
        Ok(match state {
            AccumulatorState::Sum(_) => {
                AccumulatorState::Sum(Sum::decode(bytes).ok_or_else(broken)?)
            }
            AccumulatorState::Deviation(_) => {
                AccumulatorState::Deviation(Deviation::decode(bytes).ok_or_else(broken)?)
            }
            AccumulatorState::Count(_) => {
                AccumulatorState::Count(spilled.as_i64().ok_or_else(broken)?)
            }
            AccumulatorState::One(_) if spilled == RawBsonRef::Null => AccumulatorState::One(None),
            AccumulatorState::One(_) => AccumulatorState::One(Some(items.pop_front())),
            AccumulatorState::Items { .. } => {
                let bytes = items.iter().map(item_bytes).sum();
                AccumulatorState::Items { items, bytes }
            }
            AccumulatorState::Set {
                mut seen,
                items: mut kept,
                mut bytes,
            } => {
                for item in &items {
                    let value = Value::Raw(item.as_raw_bson_ref());
                    add_to_set(
                        &mut seen,
                        &mut kept,
                        &mut bytes,
                        &value,
                        &accumulator.collation,
                    )?;
                }
                AccumulatorState::Set {
                    seen,
                    items: kept,
                    bytes,
                }
            }
            AccumulatorState::Merged(mut fields) => {
                add_merged(&mut fields, &Value::Raw(spilled))?;
                AccumulatorState::Merged(fields)
            }
            AccumulatorState::Several { .. } => AccumulatorState::Several {
                count: spilled_count(items.pop_front()).ok_or_else(broken)?,
                items,
            },
            AccumulatorState::Ranked { mut entries, .. } => {
                let count = spilled_count(items.pop_front()).ok_or_else(broken)?;
                while let (Some(RawBson::Binary(key)), Some(output)) =
                    (items.pop_front(), items.pop_front())
                {
                    entries.push((key.bytes, output));
                }
                AccumulatorState::Ranked { count, entries }
            }
        })
    }

    /// Bytes beside its own size.
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            AccumulatorState::Sum(_)
            | AccumulatorState::Count(_)
            | AccumulatorState::Deviation(_) => 0,
            AccumulatorState::One(kept) => kept.iter().flatten().map(item_bytes).sum(),
            AccumulatorState::Items { bytes, .. } | AccumulatorState::Set { bytes, .. } => *bytes,
            AccumulatorState::Merged(fields) => {
                let items = fields.entries().iter();
                items.map(|(_, item)| item_bytes(item)).sum()
            }
            AccumulatorState::Several { items, .. } => items.iter().map(item_bytes).sum(),
            AccumulatorState::Ranked { entries, .. } => entries
                .iter()
                .map(|(key, output)| key.len() + item_bytes(output))
                .sum(),
        }
    }

    /// The group's value.
    ///
    /// # Errors
    /// What a client's function throws.
    pub(super) fn finish_group(self, accumulator: &Accumulator) -> Result<RawBson> {
        match (self, accumulator.kind) {
            (AccumulatorState::One(kept), AccumulatorKind::Script) => {
                let state = kept.flatten().unwrap_or(RawBson::Null);
                accumulator.script()?.finish(state)
            }
            (AccumulatorState::Items { items, .. }, AccumulatorKind::Reduce) => {
                accumulator.script()?.reduce(items)
            }
            (state, kind) => state.finish(kind),
        }
    }

    /// The value of an accumulator that is no client's function.
    pub fn finish(self, kind: AccumulatorKind) -> Result<RawBson> {
        Ok(match self {
            AccumulatorState::Sum(sum) if kind == AccumulatorKind::Sum => raw_number(sum.total()),
            AccumulatorState::Sum(sum) => sum.average().map_or(RawBson::Null, raw_number),
            AccumulatorState::Count(count) => {
                i32::try_from(count).map_or(RawBson::Int64(count), RawBson::Int32)
            }
            AccumulatorState::Deviation(deviation) => {
                let result = if kind == AccumulatorKind::DeviationPopulation {
                    deviation.population()
                } else {
                    deviation.sample()
                };
                result.map_or(RawBson::Null, RawBson::Double)
            }
            AccumulatorState::One(kept) => kept.flatten().unwrap_or(RawBson::Null),
            AccumulatorState::Items { items, .. } | AccumulatorState::Several { items, .. } => {
                array(items)
            }
            AccumulatorState::Set { items, .. } => array(items),
            AccumulatorState::Merged(fields) => RawBson::Document(merged_document(&fields)?),
            AccumulatorState::Ranked { entries, .. } => {
                let mut outputs = entries.into_iter().map(|(_, output)| output);
                match kind {
                    AccumulatorKind::Top | AccumulatorKind::Bottom => {
                        outputs.next().unwrap_or(RawBson::Null)
                    }
                    _ => array(outputs),
                }
            }
        })
    }
}

pub(super) fn array(items: impl IntoIterator<Item = RawBson>) -> RawBson {
    let mut array = bson::RawArrayBuf::new();
    items.into_iter().for_each(|item| array.push(item));
    RawBson::Array(array)
}

pub(super) fn raw_number(number: Number) -> RawBson {
    match number {
        Number::Int32(value) => RawBson::Int32(value),
        Number::Int64(value) => RawBson::Int64(value),
        Number::Double(value) => RawBson::Double(value),
        Number::Decimal(value) => RawBson::Decimal128(value.to_bson()),
    }
}

fn whole(count: usize) -> RawBson {
    RawBson::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn spilled_count(count: Option<RawBson>) -> Option<usize> {
    usize::try_from(count?.as_i64()?).ok()
}

pub(super) fn as_value(kept: Option<&RawBson>) -> Value<'_> {
    kept.map_or(Value::Missing, |raw| Value::Raw(raw.as_raw_bson_ref()))
}

fn merged_document(fields: &ByName<Box<str>, RawBson>) -> Result<RawDocumentBuf> {
    let fields = fields.entries().iter();
    let fields =
        fields.map(|(key, value)| (Cow::Borrowed(&**key), Value::Raw(value.as_raw_bson_ref())));
    build_document(&fields.collect())
}

/// The memory of one value that a group keeps.
pub(super) fn item_bytes(item: &RawBson) -> usize {
    size_of::<RawBson>() + raw_size_bytes(item.as_raw_bson_ref())
}

/// `$push` of values of so many bytes together.
fn add_items(
    items: &mut VecDeque<RawBson>,
    bytes: &mut usize,
    more: VecDeque<RawBson>,
    grown: usize,
) -> Result<()> {
    if *bytes + grown > ITEMS_BYTES_MAX {
        return Err(Error::new(
            Code::ExceededMemoryLimit,
            format!(
                "Used too much memory for a single array. Memory limit: {ITEMS_BYTES_MAX} bytes. The \
                 array contains {} elements and is of size {bytes} bytes. The element being added has \
                 size {grown} bytes.",
                items.len()
            ),
        ));
    }
    *bytes += grown;
    items.extend(more);
    Ok(())
}

/// `$addToSet`; returns by how many bytes the set grew.
fn add_to_set(
    seen: &mut AHashSet<Box<[u8]>>,
    items: &mut Vec<RawBson>,
    bytes: &mut usize,
    value: &Value<'_>,
    collation: &Collation,
) -> Result<usize> {
    let Some(raw) = value.to_raw()? else {
        return Ok(0);
    };
    let mut key = Vec::new();
    group_key::encode(value, collation, &mut key)?;
    if seen.contains(&key[..]) {
        return Ok(0);
    }
    let grown = key.len() + 2 * size_of::<Box<[u8]>>() + item_bytes(&raw);
    if *bytes + grown > ITEMS_BYTES_MAX {
        return Err(Error::new(
            Code::ExceededMemoryLimit,
            format!(
                "$addToSet used too much memory and cannot spill to disk. Memory limit: \
                 {ITEMS_BYTES_MAX} bytes"
            ),
        ));
    }
    *bytes += grown;
    seen.insert(key.into_boxed_slice());
    items.push(raw);
    Ok(grown)
}

#[inline]
fn add_one(
    kept: &mut Option<Option<RawBson>>,
    accumulator: &Accumulator,
    value: &Value<'_>,
) -> Result<usize> {
    if !replaces(kept.as_ref(), accumulator, value) {
        return Ok(0);
    }
    let raw = value.to_raw()?;
    let old = kept.iter().flatten().map(item_bytes).sum();
    let new = raw.iter().map(item_bytes).sum::<usize>();
    *kept = Some(raw);
    Ok(new.saturating_sub(old))
}

/// Whether a value takes the place of the one that is kept.
#[inline]
fn replaces(kept: Option<&Option<RawBson>>, accumulator: &Accumulator, value: &Value<'_>) -> bool {
    let kind = accumulator.kind;
    match kind {
        AccumulatorKind::First => kept.is_none(),
        AccumulatorKind::Last => true,
        _ if value.is_nullish() => false,
        _ => match kept {
            Some(Some(best)) => {
                let best = Value::Raw(best.as_raw_bson_ref());
                let order = compare(value, &best, &accumulator.collation);
                if kind == AccumulatorKind::Min {
                    order.is_lt()
                } else {
                    order.is_gt()
                }
            }
            _ => true,
        },
    }
}

fn add_merged(fields: &mut ByName<Box<str>, RawBson>, value: &Value<'_>) -> Result<usize> {
    if value.is_nullish() {
        return Ok(0);
    }
    let Some(merged) = value.fields()? else {
        return Err(Error::location(
            5_911_200,
            "$mergeObjects only supports objects",
        ));
    };
    for (key, value) in merged.iter() {
        let Some(raw) = value.to_raw()? else { continue };
        fields.set(key.as_ref().into(), raw);
    }
    Ok(value.size_bytes())
}

fn add_several(
    items: &mut VecDeque<RawBson>,
    count: usize,
    accumulator: &Accumulator,
    value: &Value<'_>,
) -> Result<usize> {
    let raw = || value.to_raw().map(|raw| raw.unwrap_or(RawBson::Null));
    let kind = accumulator.kind;
    match kind {
        AccumulatorKind::FirstN => {
            if items.len() == count {
                return Ok(0);
            }
            items.push_back(raw()?);
        }
        AccumulatorKind::LastN => {
            if items.len() == count {
                items.pop_front();
            }
            items.push_back(raw()?);
        }
        _ => {
            if value.is_nullish() {
                return Ok(0);
            }
            let place = items.partition_point(|item| {
                let item = Value::Raw(item.as_raw_bson_ref());
                let order = compare(&item, value, &accumulator.collation);
                if kind == AccumulatorKind::MinN {
                    order.is_le()
                } else {
                    order.is_ge()
                }
            });
            if place == count {
                return Ok(0);
            }
            items.insert(place, raw()?);
            items.truncate(count);
        }
    }
    Ok(value.size_bytes())
}

/// The bytes that `$top` and its like order a document by. Unlike a `$sort`, they take an
/// array as it is, but for an empty one.
///
/// # Errors
/// `BadValue` where two paths lead to arrays.
fn ranked_key(sort: &Sort, document: &RawDocument) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 * sort.fields().len());
    let mut types = TypeBits::new();
    let mut arrays = 0;
    for field in sort.fields() {
        let root = Value::Raw(RawBsonRef::Document(document));
        let value = descend(root, field.path.parts())?;
        let empty = value.items()?.map(|items| items.is_empty());
        arrays += usize::from(empty.is_some());
        if arrays > 1 {
            return Err(Error::bad_value(
                "cannot sort with keys that are parallel arrays",
            ));
        }
        let kept = value.to_raw()?;
        let raw = match (&kept, empty) {
            (_, Some(true)) => RawBsonRef::Undefined,
            (Some(raw), _) => raw.as_raw_bson_ref(),
            (None, _) => RawBsonRef::Null,
        };
        sort.collation()
            .encode(raw, field.direction, &mut bytes, &mut types);
    }
    Ok(bytes)
}

/// Keeps the first (or the last) `count` entries by key. Of equals that are too many the
/// ones that came first stay.
fn add_ranked(
    entries: &mut Vec<(Vec<u8>, RawBson)>,
    count: usize,
    top: bool,
    key: Vec<u8>,
    output: RawBson,
) -> Result<usize> {
    let grown = key.len() + 64 + item_bytes(&output);
    let full = entries.len() == count;
    if full && !top && entries.first().is_some_and(|(least, _)| key <= *least) {
        return Ok(0);
    }
    let place = entries.partition_point(|(known, _)| *known <= key);
    if full && top && place == count {
        return Ok(0);
    }
    entries.insert(place, (key, output));
    if full {
        entries.remove(if top { count } else { 0 });
    }
    Ok(grown)
}

/// What the `n` of an accumulator is computed from: the group's key where it is a document,
/// else nothing.
pub fn key_document(id: &RawBson) -> RawDocumentBuf {
    match id {
        RawBson::Document(document) => document.clone(),
        _ => RawDocumentBuf::new(),
    }
}
