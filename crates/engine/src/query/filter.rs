//! The typed filter: what `find`, `$match`, partial indexes and validators share.
//!
//! A [`Filter`] is a tree over whole documents; a [`Predicate`] is asked of the values that one
//! path reaches. Parsing is in `parse`, evaluation in `matches`.

use super::bits::BitTest;
use super::schema::Schema;
use super::text::TextCondition;
use crate::error::{Error, Result};
use crate::expression::{Expression, FieldSet, SearchKind, SearchMetadata, Variables};
use crate::geo;
use crate::javascript::Script;
use crate::operation::memory::Reservation;
use crate::pattern::Pattern;
use crate::types::TypeSet;
use bson::raw::RawBsonRef;
use bson::{RawBson, RawDocument};
use meridian_value::Collation;
use meridian_value::path::Path;
use std::sync::Arc;

/// A condition on a document.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Every child matches. Never nested directly in another `And` after parsing.
    And(Vec<Filter>),
    /// At least one child matches.
    Or(Vec<Filter>),
    /// No child matches.
    Nor(Vec<Filter>),
    /// The values at a path satisfy a predicate.
    Field {
        /// Where to look.
        path: Path,
        /// What to ask.
        predicate: Predicate,
    },
    /// `$expr`.
    Expr(Box<ExprCondition>),
    /// `$where`: what a function says of the document.
    Where(Box<WhereCondition>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
    /// `$text`.
    Text(Box<TextCondition>),
    /// Matches every document.
    Always,
    /// Matches no document.
    Never,
}

/// An expression as a condition on the whole document.
#[derive(Debug, Clone)]
pub struct ExprCondition {
    expression: Expression,
    variables: ConditionVariables,
}

/// A function of a client as a condition on the whole document.
#[derive(Debug, Clone)]
pub struct WhereCondition {
    script: Script,
}

/// What the expression of a condition sees besides the document.
#[derive(Debug, Clone)]
pub enum ConditionVariables {
    /// Fixed for the command.
    Fixed(Variables),
    /// The time of each evaluation, for filters that outlive a command; texts are compared by this collation.
    Clock(Collation),
}

/// The five order comparisons; `$ne` is `Not(Compare(Eq, ..))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

/// A question about the values at a path.
///
/// Over a path a predicate holds when it holds for any value that the path reaches; `Not` and
/// `Exists(false)` negate that whole answer.
#[derive(Debug, Clone)]
pub enum Predicate {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`: type-bracketed, but for MinKey and MaxKey.
    Compare(Comparison, Operand),
    /// `$in`.
    In(InList),
    /// `$exists`.
    Exists(bool),
    /// `$type`.
    Type(TypeSet),
    /// `$mod`.
    Mod(Divisor),
    /// `$regex`, and a regular expression as a value.
    Regex(Pattern),
    /// `$size`.
    Size(i64),
    /// `$elemMatch` over the elements as documents.
    ElemMatchObject(Box<Filter>),
    /// `$elemMatch` over the elements as values: all must hold for one element.
    ElemMatchValue(Vec<Predicate>),
    /// `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
    Bits(BitTest),
    /// `$geoWithin`, `$within`.
    GeoWithin(Arc<geo::Region>),
    /// `$geoIntersects`.
    GeoIntersects(Arc<geo::Region>),
    /// Of a bucket of a time series: whether it may have a measurement with a point in a region. Nothing but an index tells
    /// more than that it has such a field.
    BucketGeo(Arc<BucketRegion>),
    /// `$near`, `$nearSphere`: a geometry at the path is at a wanted distance. The order by distance is
    /// the plan's.
    Near(Arc<geo::Near>),
    /// All hold, each for some value of the path (the body of a `$not`).
    And(Vec<Predicate>),
    /// `$not`, `$ne`, `$nin`.
    Not(Box<Predicate>),
}

/// A region that measurements of a bucket are asked for.
#[derive(Debug)]
pub struct BucketRegion {
    /// The region.
    pub region: Arc<geo::Region>,
    /// The path of the points in a bucket, as an index names it: `data.` and their path in a measurement.
    pub path: Path,
}

/// What a value is compared with, and by which collation.
#[derive(Debug, Clone)]
pub struct Operand {
    value: RawBson,
    collation: Collation,
}

/// The operand of `$in`: values in MongoDB's order without duplicates, and patterns.
#[derive(Debug, Clone)]
pub struct InList {
    values: Vec<RawBson>,
    collation: Collation,
    patterns: Vec<Pattern>,
    has_null: bool,
    /// Of a long list.
    _memory: Arc<Reservation>,
}

/// The operand of `$mod`, truncated to integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisor {
    /// What to divide by; never 0.
    pub divisor: i64,
    /// What must remain.
    pub remainder: i64,
}

impl ExprCondition {
    /// The condition that the expression is true.
    pub fn new(expression: Expression, variables: ConditionVariables) -> Self {
        Self {
            expression,
            variables,
        }
    }

    /// By what it compares texts.
    pub fn collation(&self) -> &Collation {
        match &self.variables {
            ConditionVariables::Fixed(variables) => variables.collation(),
            ConditionVariables::Clock(collation) => collation,
        }
    }

    /// The expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether the expression is true for the document.
    ///
    /// # Errors
    /// What the expression raises.
    pub fn holds(&self, document: &RawDocument) -> Result<bool> {
        match &self.variables {
            ConditionVariables::Fixed(variables) => self.expression.is_true(document, variables),
            ConditionVariables::Clock(collation) => {
                let variables = Variables::default().with_collation(collation.clone());
                self.expression.is_true(document, &variables)
            }
        }
    }
}

impl WhereCondition {
    /// The condition that the function of this text returns something that is true in JavaScript's sense.
    pub fn new(text: &str) -> Self {
        Self {
            script: Script::condition(text.into()),
        }
    }

    /// The function's text.
    pub fn source(&self) -> RawBson {
        RawBson::JavaScriptCode(self.script.sources()[0].to_string())
    }

    /// What the function says of the document, which is its `this`.
    ///
    /// # Errors
    /// Those of [`Script::holds`].
    pub fn holds(&self, document: &RawDocument) -> Result<bool> {
        self.script.holds(0, document)
    }

    /// Compiles the function.
    ///
    /// # Errors
    /// Those of [`Script::compile`].
    pub fn compile(&self) -> Result<()> {
        self.script.compile()
    }
}

impl Filter {
    /// Whether the answer for a document is a matter of chance (`$rand`).
    pub fn is_random(&self) -> bool {
        match self {
            Self::Expr(condition) => condition.expression.is_random(),
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().any(Self::is_random)
            }
            _ => false,
        }
    }

    /// Refuses a validator that calls a function of a client (`$function`).
    ///
    /// # Errors
    /// 4660800.
    pub fn refuse_script(&self) -> Result<()> {
        match self {
            Self::Expr(condition) if condition.expression.has_script() => Err(Error::location(
                4_660_800,
                "$function cannot be used inside a validator.",
            )),
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().try_for_each(Self::refuse_script)
            }
            _ => Ok(()),
        }
    }
}

impl Predicate {
    fn count_near(&self) -> usize {
        match self {
            Self::Near(_) => 1,
            Self::Not(inner) => inner.count_near(),
            Self::And(all) | Self::ElemMatchValue(all) => all.iter().map(Self::count_near).sum(),
            Self::ElemMatchObject(filter) => filter.count_near(),
            _ => 0,
        }
    }
}

impl Operand {
    /// A value that is compared by a collation.
    pub fn new(value: RawBson, collation: Collation) -> Self {
        Self { value, collation }
    }

    /// The value.
    pub fn value(&self) -> RawBsonRef<'_> {
        self.value.as_raw_bson_ref()
    }

    /// By what values are compared with it.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }
}

impl std::ops::Deref for Operand {
    type Target = RawBson;

    fn deref(&self) -> &RawBson {
        &self.value
    }
}

impl InList {
    /// A list of these values and patterns.
    pub fn new(mut values: Vec<RawBson>, collation: Collation, patterns: Vec<Pattern>) -> Self {
        let compare =
            |a: &RawBson, b: &RawBson| collation.compare(a.as_raw_bson_ref(), b.as_raw_bson_ref());
        values.sort_by(compare);
        values.dedup_by(|a, b| compare(a, b).is_eq());
        let has_null = values.iter().any(|value| matches!(value, RawBson::Null));
        Self {
            values,
            collation,
            patterns,
            has_null,
            _memory: Arc::default(),
        }
    }

    /// The list, which takes this memory.
    #[must_use]
    pub fn holding(self, memory: Reservation) -> Self {
        Self {
            _memory: Arc::new(memory),
            ..self
        }
    }

    /// By what the values are compared.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// One of the values as the operand of a comparison.
    pub fn operand(&self, value: RawBson) -> Operand {
        Operand::new(value, self.collation.clone())
    }

    /// The values, ascending in MongoDB's order.
    pub fn values(&self) -> &[RawBson] {
        &self.values
    }

    /// The regular expressions among the operands.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether null is among the values, so that a missing field matches.
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    /// Whether one of the values equals this one.
    pub(super) fn contains(&self, value: RawBsonRef<'_>) -> bool {
        self.values
            .binary_search_by(|candidate| {
                self.collation.compare(candidate.as_raw_bson_ref(), value)
            })
            .is_ok()
    }
}

/// A `$near` and the path it stands at.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// The path of the location.
    pub path: Path,
    /// What is asked of it.
    pub near: Arc<geo::Near>,
}

/// A search of a filter that knows more of documents than their fields say.
#[derive(Debug, Clone)]
pub enum Measure {
    /// How far they are.
    Near(Nearest),
    /// How well they answer a `$text`.
    Text(Box<TextMeasure>),
}

/// A `$text`, and the alternative of an `$or` that it stands in.
#[derive(Debug, Clone)]
pub struct TextMeasure {
    condition: TextCondition,
    /// What a document has to match to have been found by the search.
    alternative: Option<Filter>,
}

impl TextMeasure {
    fn of(filter: &Filter) -> Option<Self> {
        let mut alternative = None;
        let mut rest = filter.conjuncts();
        loop {
            match rest.iter().find(|part| part.text().is_some())? {
                Filter::Or(branches) => {
                    let branch = branches.iter().find(|branch| branch.text().is_some())?;
                    alternative = Some(branch.clone());
                    rest = branch.conjuncts();
                }
                Filter::Text(condition) => {
                    return Some(Self {
                        condition: (**condition).clone(),
                        alternative,
                    });
                }
                _ => return None,
            }
        }
    }

    /// How well the document answers the search, if it was found by it.
    fn score(&self, document: &RawDocument) -> Option<f64> {
        match &self.alternative {
            Some(filter) if !filter.matches(document).unwrap_or(false) => None,
            _ => self.condition.score(document),
        }
    }
}

impl Measure {
    /// The measure of a filter with this `$near`, if it has one.
    pub fn of(filter: &Filter, nearest: Option<&Nearest>) -> Option<Self> {
        let text = || TextMeasure::of(filter).map(|text| Self::Text(Box::new(text)));
        nearest.cloned().map(Self::Near).or_else(text)
    }

    /// Its kind.
    pub fn search(&self) -> SearchKind {
        match self {
            Self::Near(_) => SearchKind::Near,
            Self::Text(_) => SearchKind::Text,
        }
    }

    /// What is known of a document; `None` when it has no place to measure to, or none of the terms.
    pub fn metadata(&self, document: &RawDocument) -> Option<SearchMetadata> {
        match self {
            Self::Near(Nearest { path, near }) => {
                let measured = near.measure(document, path.parts())?;
                let distance = near.reported(measured.distance);
                Some(SearchMetadata::near(distance, measured.location))
            }
            Self::Text(text) => {
                let score = text.score(document)?;
                Some(SearchMetadata::Text { score })
            }
        }
    }

    /// The number by which documents are sorted.
    pub fn rank(&self, document: &RawDocument) -> Option<f64> {
        match self {
            Self::Near(Nearest { path, near }) => {
                let measured = near.measure(document, path.parts())?;
                Some(measured.distance)
            }
            Self::Text(text) => text.score(document),
        }
    }

    /// Adds the fields that it reads.
    pub fn add_needs(&self, needs: &mut FieldSet) {
        match self {
            Self::Near(nearest) => needs.add(nearest.path.as_str()),
            Self::Text(_) => needs.add_all(),
        }
    }
}

impl Filter {
    /// The `$near` that gives the order of the rows, if there is one.
    ///
    /// # Errors
    /// `BadValue` when there are several, or one that is not a condition of the whole filter.
    pub fn nearest(&self) -> Result<Option<Nearest>> {
        match self.count_near() {
            0 => return Ok(None),
            1 => {}
            _ => return Err(Error::bad_value("Too many geoNear expressions")),
        }
        let at_top = self.conjuncts().iter().find_map(|part| match part {
            Self::Field {
                path,
                predicate: Predicate::Near(near),
            } => Some(Nearest {
                path: path.clone(),
                near: near.clone(),
            }),
            _ => None,
        });
        match at_top {
            Some(nearest) => Ok(Some(nearest)),
            None => Err(Error::bad_value("geo $near must be top-level expr")),
        }
    }

    fn count_near(&self) -> usize {
        match self {
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().map(Self::count_near).sum()
            }
            Self::Field { predicate, .. } => predicate.count_near(),
            _ => 0,
        }
    }

    /// A filter on one path.
    pub fn field(path: &str, predicate: Predicate) -> Self {
        Self::Field {
            path: Path::parse(path),
            predicate,
        }
    }

    /// Whether `$expr` occurs anywhere in the filter.
    pub fn has_expression(&self) -> bool {
        match self {
            Self::Expr(_) => true,
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().any(Self::has_expression)
            }
            _ => false,
        }
    }

    /// The fields the filter reads.
    pub fn needs(&self) -> FieldSet {
        let mut needed = FieldSet::none();
        match self {
            Self::Always | Self::Never => {}
            Self::Schema(_) | Self::Where(_) | Self::Text(_) => needed.add_all(),
            Self::Expr(condition) => needed.merge(condition.expression().dependencies()),
            Self::Field { path, .. } => needed.add(path.as_str()),
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                for child in children {
                    needed.merge(child.needs());
                }
            }
        }
        needed
    }

    /// The conjuncts: the children of an `And`, or the filter itself.
    pub fn conjuncts(&self) -> &[Filter] {
        match self {
            Self::And(children) => children,
            Self::Always => &[],
            other => std::slice::from_ref(other),
        }
    }
}
