//! From a filter document to a [`Filter`].
//!
//! In: the document a client sent. Out: the typed filter, simplified, or MongoDB's error for it.
//! The order of checks follows `expression_parser.cpp` of MongoDB 6.0, so that of two mistakes
//! the same one is reported.

use super::bits::{BitMask, BitTest};
use super::filter::{
    Comparison, ConditionVariables, Divisor, ExprCondition, Filter, InList, Operand, Predicate,
    WhereCondition,
};
use super::schema::Schema;
use super::text::TextCondition;
use crate::error::{Error, Result};
use crate::expression::{Expression, VariableScope, Variables};
use crate::geo;
use crate::javascript;
use crate::operation::NameCounts;
use crate::operation::memory::Reservation;
use crate::pattern::Pattern;
use crate::text::{document_text, element};
use crate::types::TypeSet;
use bson::raw::RawBsonRef;
use bson::{RawArray, RawBson, RawDocument};
use meridian_value::Collation;
use meridian_value::number::Number;
use meridian_value::path::Path;
use std::sync::Arc;

/// How deep `$and`, `$or`, `$nor`, `$not` and `$elemMatch` may nest.
const TREE_DEPTH_MAX: usize = 100;

/// How many parts a path may have: the levels of a stored document.
const PATH_PARTS_MAX: usize = 180;

fn check_path_length(path: &str) -> Result<()> {
    if path.bytes().filter(|byte| *byte == b'.').count() >= PATH_PARTS_MAX {
        return Err(Error::location(5_729_100, "FieldPath is too long"));
    }
    Ok(())
}

/// What a filter may refer to besides the document.
#[derive(Debug, Clone, Default)]
pub struct ParseContext {
    /// The variables of the command's `let`.
    pub scope: VariableScope,
    /// `$$NOW`, fixed for the command. A filter that outlives a command leaves it out and reads
    /// the clock for each document.
    pub variables: Option<Variables>,
    /// Whether `$near` may stand in the filter: where rows have an order that it can give.
    pub allows_near: bool,
    /// Whether `$where` may stand in the filter.
    pub allows_where: bool,
    /// Whether `$text` may: where a plan finds the documents.
    pub allows_text: bool,
}

impl ParseContext {
    /// By what texts are compared.
    pub fn collation(&self) -> &Collation {
        self.scope.collation()
    }

    fn condition_variables(&self) -> ConditionVariables {
        match &self.variables {
            Some(variables) => ConditionVariables::Fixed(variables.clone()),
            None => ConditionVariables::Clock(self.collation().clone()),
        }
    }
}

impl Filter {
    /// Parses a filter document.
    ///
    /// # Errors
    /// MongoDB's code and message for what it refuses.
    ///
    /// ```
    /// use meridian_engine::query::Filter;
    /// let filter = Filter::parse(&bson::rawdoc! { "a": { "$gt": 5 } }).unwrap();
    /// assert!(filter.matches(&bson::rawdoc! { "a": [1, 7] }).unwrap());
    /// ```
    pub fn parse(document: &RawDocument) -> Result<Self> {
        Self::parse_with(document, &ParseContext::default())
    }

    /// Parses a filter document that compares texts by a collation, for a filter that outlives a command.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse_by(document: &RawDocument, collation: &Collation) -> Result<Self> {
        let context = ParseContext {
            scope: VariableScope::new(collation.clone()),
            ..ParseContext::default()
        };
        Self::parse_with(document, &context)
    }

    /// Parses a filter document that may use variables of the context.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse_with(document: &RawDocument, context: &ParseContext) -> Result<Self> {
        let parser = FilterParser { context };
        Ok(parser
            .document(
                document,
                FilterPosition {
                    depth: 0,
                    in_element: false,
                },
            )?
            .simplify())
    }
}

/// Where in the filter the parser is.
#[derive(Clone, Copy)]
struct FilterPosition {
    depth: usize,
    /// Below `$elemMatch`: operators of the whole document are refused.
    in_element: bool,
}

impl FilterPosition {
    fn below(self, document: &RawDocument) -> Result<Self> {
        if self.depth + 1 > TREE_DEPTH_MAX {
            return Err(Error::bad_value(format!(
                "exceeded maximum query tree depth of {TREE_DEPTH_MAX} at {}",
                document_text(document)
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

struct FilterParser<'c> {
    context: &'c ParseContext,
}

/// The elements of a document with their names.
pub(super) fn elements(document: &RawDocument) -> Result<Vec<(&str, RawBsonRef<'_>)>> {
    document
        .iter()
        .map(|entry| {
            entry
                .map(|(key, value)| (key.as_str(), value))
                .map_err(crate::error::malformed)
        })
        .collect()
}

fn values(array: &RawArray) -> Result<Vec<RawBsonRef<'_>>> {
    array
        .into_iter()
        .map(|entry| entry.map_err(crate::error::malformed))
        .collect()
}

/// How often each operator of filters was written.
pub static OPERATORS_USED: NameCounts = NameCounts::of(|| {
    vec![
        "$all",
        "$alwaysFalse",
        "$alwaysTrue",
        "$and",
        "$bitsAllClear",
        "$bitsAllSet",
        "$bitsAnyClear",
        "$bitsAnySet",
        "$comment",
        "$elemMatch",
        "$eq",
        "$exists",
        "$expr",
        "$geoIntersects",
        "$geoWithin",
        "$gt",
        "$gte",
        "$in",
        "$jsonSchema",
        "$lt",
        "$lte",
        "$mod",
        "$ne",
        "$near",
        "$nearSphere",
        "$nin",
        "$nor",
        "$not",
        "$or",
        "$regex",
        "$sampleRate",
        "$size",
        "$text",
        "$type",
        "$where",
    ]
});

/// The operators that stand in place of a field name.
fn is_top_level_operator(name: &str) -> bool {
    matches!(
        name,
        "$and"
            | "$or"
            | "$nor"
            | "$expr"
            | "$jsonSchema"
            | "$comment"
            | "$where"
            | "$text"
            | "$alwaysTrue"
            | "$alwaysFalse"
            | "$sampleRate"
            | "$ref"
            | "$id"
            | "$db"
    )
}

/// Whether a value is a document of operators: its first name starts with `$` and it is no DBRef.
fn is_operator_document(value: RawBsonRef<'_>, refuse_partial_reference: bool) -> bool {
    let RawBsonRef::Document(document) = value else {
        return false;
    };
    let Some(Ok((first, _))) = document.iter().next() else {
        return false;
    };
    first.as_str().starts_with('$') && !is_reference(document, refuse_partial_reference)
}

/// Whether a document is a DBRef: `$ref` and `$id` (or, when partial, any of `$ref`, `$id`, `$db`).
fn is_reference(document: &RawDocument, partial: bool) -> bool {
    let has = |name: &str| {
        document
            .iter()
            .flatten()
            .any(|(key, _)| key.as_str() == name)
    };
    if partial {
        has("$ref") || has("$id") || has("$db")
    } else {
        has("$ref") && has("$id")
    }
}

impl FilterParser<'_> {
    fn comparison(
        &self,
        kind: Comparison,
        field: &str,
        value: RawBsonRef<'_>,
    ) -> Result<Predicate> {
        compared(kind, field, value, self.context.collation())
    }

    fn document(&self, document: &RawDocument, place: FilterPosition) -> Result<Filter> {
        let mut conjuncts = Vec::new();
        for (name, value) in elements(document)? {
            check_path_length(name)?;
            if name.starts_with('$') {
                conjuncts.extend(self.top_level_operator(name, value, place)?);
            } else if is_operator_document(value, false) {
                let RawBsonRef::Document(operators) = value else {
                    continue;
                };
                let path = Path::parse(name);
                for predicate in self.operators(name, operators, place)? {
                    conjuncts.push(Filter::Field {
                        path: path.clone(),
                        predicate,
                    });
                }
            } else if let RawBsonRef::RegularExpression(regex) = value {
                self.context.scope.count(&OPERATORS_USED, "$regex");
                let pattern = Pattern::new(regex.pattern.as_str(), regex.options.as_str())?;
                conjuncts.push(Filter::field(name, Predicate::Regex(pattern)));
            } else {
                self.context.scope.count(&OPERATORS_USED, "$eq");
                conjuncts.push(Filter::field(
                    name,
                    self.comparison(Comparison::Eq, name, value)?,
                ));
            }
        }
        Ok(Filter::And(conjuncts))
    }

    /// `None` for `$comment`, which asks nothing.
    fn top_level_operator(
        &self,
        name: &str,
        value: RawBsonRef<'_>,
        place: FilterPosition,
    ) -> Result<Option<Filter>> {
        self.context.scope.count(&OPERATORS_USED, name);
        Ok(Some(match name {
            "$and" => Filter::And(self.branches(name, value, place)?),
            "$or" => Filter::Or(self.branches(name, value, place)?),
            "$nor" => Filter::Nor(self.branches(name, value, place)?),
            "$comment" => return Ok(None),
            "$alwaysTrue" => constant(name, value, Filter::Always)?,
            "$alwaysFalse" => constant(name, value, Filter::Never)?,
            "$ref" | "$id" | "$db" => {
                Filter::field(name, self.comparison(Comparison::Eq, name, value)?)
            }
            "$expr" | "$where" | "$text" | "$sampleRate" if place.in_element => {
                return Err(Error::bad_value(format!(
                    "{name} can only be applied to the top-level document"
                )));
            }
            "$expr" => {
                let expression =
                    Expression::parse(value, &self.context.scope).map_err(folding_error)?;
                Filter::Expr(Box::new(ExprCondition::new(
                    expression,
                    self.context.condition_variables(),
                )))
            }
            "$jsonSchema" => {
                let RawBsonRef::Document(schema) = value else {
                    return Err(Error::type_mismatch("$jsonSchema must be an object"));
                };
                Filter::Schema(Box::new(Schema::parse(schema)?))
            }
            "$where" => self.where_condition(value)?,
            "$text" if !self.context.allows_text => {
                return Err(Error::bad_value("$text is not allowed in this context"));
            }
            "$text" => Filter::Text(Box::new(TextCondition::parse(value)?)),
            "$sampleRate" => self.sample_rate(value)?,
            "$not" => {
                return Err(Error::bad_value(
                    "unknown top level operator: $not. If you are trying to negate an entire \
                     expression, use $nor.",
                ));
            }
            _ => {
                return Err(Error::bad_value(format!(
                    "unknown top level operator: {name}. If you have a field name that starts with \
                     a '$' symbol, consider using $getField or $setField."
                )));
            }
        }))
    }

    fn where_condition(&self, value: RawBsonRef<'_>) -> Result<Filter> {
        if !self.context.allows_where {
            return Err(Error::bad_value("$where is not allowed in this context"));
        }
        let text = match value {
            RawBsonRef::String(text) | RawBsonRef::JavaScriptCode(text) => text,
            RawBsonRef::JavaScriptCodeWithScope(_) => {
                return Err(Error::location(
                    4_649_201,
                    "$where no longer supports deprecated BSON type CodeWScope",
                ));
            }
            _ => return Err(Error::bad_value("$where got bad type")),
        };
        if text.is_empty() {
            return Err(Error::bad_value("code for $where cannot be empty"));
        }
        if !javascript::is_enabled() {
            return Err(Error::location(
                6_108_304,
                "no globalScriptEngine in $where parsing",
            ));
        }
        let condition = WhereCondition::new(text);
        condition.compile()?;
        Ok(Filter::Where(Box::new(condition)))
    }

    fn branches(
        &self,
        name: &str,
        value: RawBsonRef<'_>,
        place: FilterPosition,
    ) -> Result<Vec<Filter>> {
        let RawBsonRef::Array(array) = value else {
            return Err(Error::bad_value(format!("{name} must be an array")));
        };
        if array.is_empty() {
            return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
        }
        values(array)?
            .into_iter()
            .map(|entry| match entry {
                RawBsonRef::Document(branch) => self.document(branch, place.below(branch)?),
                _ => Err(Error::bad_value(
                    "$or/$and/$nor entries need to be full objects",
                )),
            })
            .collect()
    }

    /// The predicates of `{ $gt: 1, $lt: 5 }` over the path `field`.
    fn operators(
        &self,
        field: &str,
        operators: &RawDocument,
        place: FilterPosition,
    ) -> Result<Vec<Predicate>> {
        let entries = elements(operators)?;
        if let Some((first, operand)) = entries.first()
            && is_near(first)
            && matches!(operand, RawBsonRef::Document(_) | RawBsonRef::Array(_))
        {
            self.context.scope.count(&OPERATORS_USED, first);
            return self.near(operators).map(|near| vec![near]);
        }
        let mut predicates = Vec::new();
        for (name, value) in &entries {
            predicates.extend(self.operator(field, name, *value, operators, place)?);
        }
        Ok(predicates)
    }

    fn near(&self, operators: &RawDocument) -> Result<Predicate> {
        if !self.context.allows_near {
            return Err(Error::location(
                5_626_500,
                "$geoNear, $near, and $nearSphere are not allowed in this context",
            ));
        }
        geo::Near::parse(operators).map(|near| Predicate::Near(Arc::new(near)))
    }

    fn operator(
        &self,
        field: &str,
        name: &str,
        value: RawBsonRef<'_>,
        siblings: &RawDocument,
        place: FilterPosition,
    ) -> Result<Option<Predicate>> {
        self.context.scope.count(&OPERATORS_USED, name);
        Ok(Some(match name {
            "$eq" => self.comparison(Comparison::Eq, field, value)?,
            "$lt" => self.comparison(Comparison::Lt, field, value)?,
            "$lte" => self.comparison(Comparison::Lte, field, value)?,
            "$gt" => self.comparison(Comparison::Gt, field, value)?,
            "$gte" => self.comparison(Comparison::Gte, field, value)?,
            "$ne" if value.as_regex().is_some() => {
                return Err(Error::bad_value("Can't have regex as arg to $ne."));
            }
            "$ne" => Predicate::Not(Box::new(self.comparison(Comparison::Eq, field, value)?)),
            "$in" => Predicate::In(in_list(name, value, self.context.collation())?),
            "$nin" => Predicate::Not(Box::new(Predicate::In(in_list(
                name,
                value,
                self.context.collation(),
            )?))),
            "$exists" => Predicate::Exists(truthy(value)),
            "$type" => Predicate::Type(TypeSet::parse(field, value)?),
            "$mod" => Predicate::Mod(Divisor::parse(value)?),
            "$size" => Predicate::Size(size(value)?),
            "$regex" => Predicate::Regex(regex(siblings)?),
            "$options" => {
                if elements(siblings)?
                    .iter()
                    .all(|(name, _)| *name != "$regex")
                {
                    return Err(Error::bad_value("$options needs a $regex"));
                }
                return Ok(None);
            }
            "$not" => Predicate::Not(Box::new(self.not(field, value, place)?)),
            "$all" => self.all(field, value, place)?,
            "$elemMatch" => self.element_match(value, place)?,
            "$bitsAllSet" => Predicate::Bits(BitTest::parse(BitMask::AllSet, field, value)?),
            "$bitsAllClear" => Predicate::Bits(BitTest::parse(BitMask::AllClear, field, value)?),
            "$bitsAnySet" => Predicate::Bits(BitTest::parse(BitMask::AnySet, field, value)?),
            "$bitsAnyClear" => Predicate::Bits(BitTest::parse(BitMask::AnyClear, field, value)?),
            "$geoWithin" | "$within" => {
                stands_alone(siblings)?;
                Predicate::GeoWithin(Arc::new(geo::Region::parse_within(value)?))
            }
            "$geoIntersects" => {
                stands_alone(siblings)?;
                Predicate::GeoIntersects(Arc::new(geo::Region::parse_intersects(value)?))
            }
            _ if is_near(name) => {
                return Err(Error::bad_value(format!(
                    "near must be first in: {}",
                    document_text(siblings)
                )));
            }
            "$where" => return Err(Error::bad_value("$where cannot be applied to a field")),
            _ => return Err(Error::bad_value(format!("unknown operator: {name}"))),
        }))
    }

    fn not(&self, field: &str, value: RawBsonRef<'_>, place: FilterPosition) -> Result<Predicate> {
        match value {
            RawBsonRef::RegularExpression(regex) => {
                Pattern::new(regex.pattern.as_str(), regex.options.as_str()).map(Predicate::Regex)
            }
            RawBsonRef::Document(document) if document.is_empty() => {
                Err(Error::bad_value("$not cannot be empty"))
            }
            RawBsonRef::Document(document) => {
                let place = place.below(document)?;
                Ok(conjunction(self.operators(field, document, place)?))
            }
            _ => Err(Error::bad_value("$not needs a regex or a document")),
        }
    }

    fn all(&self, field: &str, value: RawBsonRef<'_>, place: FilterPosition) -> Result<Predicate> {
        let RawBsonRef::Array(array) = value else {
            return Err(Error::bad_value("$all needs an array"));
        };
        let entries = values(array)?;
        // An empty $all matches nothing.
        if entries.is_empty() {
            return Ok(Predicate::In(InList::new(
                Vec::new(),
                Collation::SIMPLE,
                Vec::new(),
            )));
        }
        if first_operator(entries[0]) == Some("$elemMatch") {
            let inconsistent = || Error::bad_value("$all/$elemMatch has to be consistent");
            let parse = |entry: RawBsonRef<'_>| match entry {
                RawBsonRef::Document(operators) => match operators.iter().next() {
                    Some(Ok((name, operand))) if name.as_str() == "$elemMatch" => {
                        self.element_match(operand, place)
                    }
                    _ => Err(inconsistent()),
                },
                _ => Err(inconsistent()),
            };
            return Ok(conjunction(
                entries.into_iter().map(parse).collect::<Result<_>>()?,
            ));
        }
        entries
            .into_iter()
            .map(|entry| all_entry(field, entry, self.context.collation()))
            .collect::<Result<_>>()
            .map(conjunction)
    }

    fn element_match(&self, value: RawBsonRef<'_>, place: FilterPosition) -> Result<Predicate> {
        let RawBsonRef::Document(document) = value else {
            return Err(Error::bad_value("$elemMatch needs an Object"));
        };
        let place = FilterPosition {
            in_element: true,
            ..place.below(document)?
        };
        let first = document.iter().next().and_then(|entry| entry.ok());
        let on_values = is_operator_document(value, true)
            && first.is_some_and(|(name, _)| !is_top_level_operator(name.as_str()));
        if on_values {
            return self
                .operators("", document, place)
                .map(Predicate::ElemMatchValue);
        }
        let filter = self.document(document, place)?.simplify();
        Ok(Predicate::ElemMatchObject(Box::new(filter)))
    }
}

impl FilterParser<'_> {
    /// `$sampleRate`, as MongoDB rewrites it: each document passes with this probability.
    fn sample_rate(&self, value: RawBsonRef<'_>) -> Result<Filter> {
        let rate = Number::from_raw(value)
            .ok_or_else(|| Error::bad_value("argument to $sampleRate must be a numeric type"))?
            .to_f64();
        if !(0.0..=1.0).contains(&rate) {
            return Err(Error::bad_value(
                "numeric argument to $sampleRate must be in [0, 1]",
            ));
        }
        if rate == 0.0 || rate == 1.0 {
            let (never, always) = (Filter::Never, Filter::Always);
            return Ok(if rate == 0.0 { never } else { always });
        }
        let passes = bson::rawdoc! { "$lt": [{ "$rand": {} }, { "$const": rate }] };
        let expression =
            Expression::parse(RawBsonRef::Document(&passes), &VariableScope::default())?;
        let condition = ExprCondition::new(expression, self.context.condition_variables());
        Ok(Filter::Expr(Box::new(condition)))
    }
}

/// The first name of a document.
fn first_operator(value: RawBsonRef<'_>) -> Option<&str> {
    let RawBsonRef::Document(document) = value else {
        return None;
    };
    document.iter().next()?.ok().map(|(name, _)| name.as_str())
}

/// In a query, what computing a constant part raises is introduced by other words.
fn folding_error(mut error: Error) -> Error {
    if let Some(own) = error
        .message
        .strip_prefix(crate::expression::FOLDING_PREFIX)
    {
        error.message = format!("Failed to optimize expression :: caused by :: {own}");
    }
    error
}

/// Refuses other operators beside that of an area.
fn stands_alone(siblings: &RawDocument) -> Result<()> {
    match elements(siblings)?.get(1) {
        None => Ok(()),
        Some((name, value)) => Err(Error::bad_value(format!(
            "can't parse extra field: {}",
            element(name, *value)
        ))),
    }
}

fn is_near(name: &str) -> bool {
    matches!(name, "$near" | "$nearSphere" | "$geoNear")
}

/// One predicate that asks all of these.
fn conjunction(mut predicates: Vec<Predicate>) -> Predicate {
    if predicates.len() == 1 {
        predicates.remove(0)
    } else {
        Predicate::And(predicates)
    }
}

fn all_entry(field: &str, entry: RawBsonRef<'_>, collation: &Collation) -> Result<Predicate> {
    match entry {
        RawBsonRef::RegularExpression(regex) => {
            Pattern::new(regex.pattern.as_str(), regex.options.as_str()).map(Predicate::Regex)
        }
        entry if first_operator(entry).is_some_and(is_path_operator) => {
            Err(Error::bad_value("no $ expressions in $all"))
        }
        other => compared(Comparison::Eq, field, other, collation),
    }
}

/// The operators that `$all` refuses; an unknown `$name` is a field there.
fn is_path_operator(name: &str) -> bool {
    matches!(
        name,
        "$eq"
            | "$ne"
            | "$lt"
            | "$lte"
            | "$gt"
            | "$gte"
            | "$in"
            | "$nin"
            | "$exists"
            | "$type"
            | "$mod"
            | "$size"
            | "$regex"
            | "$options"
            | "$all"
            | "$elemMatch"
            | "$geoWithin"
            | "$within"
            | "$geoIntersects"
            | "$near"
            | "$nearSphere"
            | "$geoNear"
            | "$bitsAllSet"
            | "$bitsAllClear"
            | "$bitsAnySet"
            | "$bitsAnyClear"
    )
}

fn compared(
    kind: Comparison,
    field: &str,
    value: RawBsonRef<'_>,
    collation: &Collation,
) -> Result<Predicate> {
    match value {
        RawBsonRef::RegularExpression(_) if kind != Comparison::Eq => Err(Error::bad_value(
            format!("Can't have RegEx as arg to predicate over field '{field}'."),
        )),
        RawBsonRef::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        other => {
            let operand = Operand::new(RawBson::from(other), collation.clone());
            Ok(Predicate::Compare(kind, operand))
        }
    }
}

/// Lists of more values than this take memory from the budget, ...
const LIST_VALUES_FREE: usize = 10_000;
/// ... for each so many bytes: its values, the room to sort them, and the source that the plan keeps.
const LIST_VALUE_BYTES: usize = 100;

fn in_list(name: &str, value: RawBsonRef<'_>, collation: &Collation) -> Result<InList> {
    let RawBsonRef::Array(array) = value else {
        return Err(Error::bad_value(format!("{name} needs an array")));
    };
    let mut patterns = Vec::new();
    let mut memory = Reservation::none();
    let length = array.into_iter().count();
    if length > LIST_VALUES_FREE {
        memory.admit(length * LIST_VALUE_BYTES)?;
    }
    let mut operands = Vec::with_capacity(length);
    for entry in array {
        match entry.map_err(crate::error::malformed)? {
            RawBsonRef::RegularExpression(regex) => {
                patterns.push(Pattern::new(
                    regex.pattern.as_str(),
                    regex.options.as_str(),
                )?);
            }
            RawBsonRef::Undefined => {
                return Err(Error::bad_value(
                    "InMatchExpression equality cannot be undefined",
                ));
            }
            entry if is_operator_document(entry, false) => {
                return Err(Error::bad_value("cannot nest $ under $in"));
            }
            entry => operands.push(RawBson::from(entry)),
        }
    }
    Ok(InList::new(operands, collation.clone(), patterns).holding(memory))
}

/// `{ $regex: "a", $options: "i" }`, in either order.
fn regex(operators: &RawDocument) -> Result<Pattern> {
    let mut source = None;
    let mut options: Option<String> = None;
    const BOTH_SET: &str = "options set in both $regex and $options";
    let mut own_options = false;
    for (name, value) in elements(operators)? {
        match (name, value) {
            ("$regex", RawBsonRef::String(text)) => source = Some(text.to_owned()),
            ("$regex", RawBsonRef::RegularExpression(regex)) => {
                source = Some(regex.pattern.as_str().to_owned());
                if !regex.options.is_empty() {
                    if options.is_some_and(|options| !options.is_empty()) {
                        return Err(Error::location(51074, BOTH_SET));
                    }
                    own_options = true;
                    options = Some(regex.options.as_str().to_owned());
                }
            }
            ("$regex", _) => return Err(Error::bad_value("$regex has to be a string")),
            ("$options", RawBsonRef::String(text)) => {
                if own_options {
                    return Err(Error::location(51075, BOTH_SET));
                }
                options = Some(text.to_owned());
            }
            ("$options", _) => return Err(Error::bad_value("$options has to be a string")),
            _ => {}
        }
    }
    Pattern::new(&source.unwrap_or_default(), &options.unwrap_or_default())
}

fn size(value: RawBsonRef<'_>) -> Result<i64> {
    let within_int = |size: i64| match i32::try_from(size) {
        Ok(_) => Ok(size),
        Err(_) => Err(IntegerError(format!(
            "Cannot represent {} in an int",
            element("$size", value)
        ))),
    };
    integer("$size", value)
        .and_then(|number| number.non_negative("$size", value))
        .and_then(within_int)
        .map_err(|IntegerError(message)| {
            Error::bad_value(format!("Failed to parse $size. {message}"))
        })
}

fn constant(name: &str, value: RawBsonRef<'_>, filter: Filter) -> Result<Filter> {
    let number =
        integer(name, value).map_err(|IntegerError(message)| Error::failed_to_parse(message))?;
    if number.0 != 1 {
        return Err(Error::failed_to_parse(format!(
            "{name} must be an integer value of 1"
        )));
    }
    Ok(filter)
}

impl Divisor {
    fn parse(value: RawBsonRef<'_>) -> Result<Self> {
        let fail = |message: &str| Error::bad_value(format!("malformed mod, {message}"));
        let RawBsonRef::Array(array) = value else {
            return Err(fail("needs to be an array"));
        };
        let operands = values(array)?;
        let Some(&divisor) = operands.first() else {
            return Err(fail("not enough elements"));
        };
        if !is_number(divisor) {
            return Err(fail("divisor not a number"));
        }
        let Some(&remainder) = operands.get(1) else {
            return Err(fail("not enough elements"));
        };
        if !is_number(remainder) {
            return Err(fail("remainder not a number"));
        }
        if operands.len() > 2 {
            return Err(fail("too many elements"));
        }
        let coerce = |name: &str, operand| {
            truncated(operand).map_err(|reason| {
                fail(&format!("{name} value is invalid :: caused by :: {reason}"))
            })
        };
        let divisor = coerce("divisor", divisor)?;
        let remainder = coerce("remainder", remainder)?;
        if divisor == 0 {
            return Err(Error::bad_value("divisor cannot be 0"));
        }
        Ok(Self { divisor, remainder })
    }
}

pub(super) fn is_number(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
    )
}

/// A number cut towards zero to an int64.
pub(super) fn truncated(value: RawBsonRef<'_>) -> std::result::Result<i64, &'static str> {
    let number = Number::from_raw(value).unwrap_or(Number::Double(f64::NAN));
    if number.is_nan() || number.is_infinite() {
        return Err("Unable to coerce NaN/Inf to integral type");
    }
    number
        .to_i64_truncated()
        .ok_or("Out of bounds coercing to integral value")
}

/// An operand that has to be an integer, as `MatchExpressionParser::parseIntegerElementToLong`.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerOperand(pub(super) i64);

/// Why it is not one: MongoDB's sentence.
#[derive(Debug)]
pub(super) struct IntegerError(pub(super) String);

impl IntegerOperand {
    pub(super) fn non_negative(
        self,
        name: &str,
        operand: RawBsonRef<'_>,
    ) -> std::result::Result<i64, IntegerError> {
        if self.0 < 0 {
            return Err(IntegerError(format!(
                "Expected a non-negative number in: {}",
                element(name, operand)
            )));
        }
        Ok(self.0)
    }
}

/// A number as an exact integer.
///
/// # Errors
/// `FailedToParse` in MongoDB's words.
pub fn exact_integer(name: &str, value: RawBsonRef<'_>) -> Result<i64> {
    match integer(name, value) {
        Ok(IntegerOperand(whole)) => Ok(whole),
        Err(IntegerError(message)) => Err(Error::failed_to_parse(message)),
    }
}

/// The operand as an exact integer.
pub(super) fn integer(
    name: &str,
    operand: RawBsonRef<'_>,
) -> std::result::Result<IntegerOperand, IntegerError> {
    let fail = |text: &str| Err(IntegerError(format!("{text}: {}", element(name, operand))));
    let Some(number) = Number::from_raw(operand) else {
        return fail("Expected a number in");
    };
    if matches!(number, Number::Double(double) if double.is_nan()) {
        return fail("Expected an integer, but found NaN in");
    }
    match (number.to_i64_exact(), number) {
        (Some(whole), _) => Ok(IntegerOperand(whole)),
        (None, Number::Double(_)) if number.to_i64_truncated().is_some() => {
            fail("Expected an integer")
        }
        (None, _) => fail("Cannot represent as a 64-bit integer"),
    }
}

/// MongoDB's `trueValue`: what `$exists` and other switches read.
pub(super) fn truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(flag) => flag,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        other => Number::from_raw(other).is_none_or(|number| !number.is_zero()),
    }
}
