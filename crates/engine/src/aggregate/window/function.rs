//! Window functions: one computed field of a `$setWindowFields`, parsed.

use super::super::accumulator::{Accumulator, AccumulatorKind};
use super::bounds::Window;
use super::state::{CurvePoint, Input, is_nullish};
use crate::error::{Error, Result};
use crate::expression::time::Unit;
use crate::expression::value::{Value, corrupt};
use crate::expression::{
    EvaluationContext, Expression, FieldSet, Node, VariableScope, named_unit, number,
};
use crate::operation::NameCounts;
use crate::text;
use crate::types::type_name;
use bson::{RawBson, RawBsonRef, RawDocument};
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits};
use meridian_value::number::{Decimal, Number};

/// A window function, what it is computed of, and over which documents.
#[derive(Debug, Clone)]
pub(super) struct WindowFunction {
    pub name: &'static str,
    pub kind: FunctionKind,
    pub window: Window,
    input: Node,
    collation: Collation,
}

/// Which window function.
#[derive(Debug, Clone)]
pub(super) enum FunctionKind {
    Accumulator(Box<Accumulator>),
    Covariance {
        sample: bool,
    },
    Derivative {
        unit: Option<Unit>,
    },
    Integral {
        unit: Option<Unit>,
    },
    /// The weights of the newest value and of those before it.
    MovingAverage {
        weights: [Decimal; 2],
    },
    Rank,
    DenseRank,
    DocumentNumber,
    Shift {
        default: Option<RawBson>,
    },
    LinearFill,
    /// `$locf`: the last one that is known.
    LastKnown,
}

/// How often each window function was written.
pub static FUNCTIONS_USED: NameCounts = NameCounts::of(|| {
    let mut names = ACCUMULATORS.to_vec();
    names.extend([
        "$count",
        "$covariancePop",
        "$covarianceSamp",
        "$denseRank",
        "$derivative",
        "$documentNumber",
        "$expMovingAvg",
        "$integral",
        "$linearFill",
        "$locf",
        "$rank",
        "$shift",
    ]);
    names
});

/// The functions that are accumulators too.
const ACCUMULATORS: [&str; 18] = [
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$first",
    "$last",
    "$push",
    "$addToSet",
    "$stdDevPop",
    "$stdDevSamp",
    "$firstN",
    "$lastN",
    "$minN",
    "$maxN",
    "$top",
    "$bottom",
    "$topN",
    "$bottomN",
];

fn refused(message: impl Into<String>) -> Error {
    Error::failed_to_parse(message.into())
}

/// What the stage says beside the function.
pub(super) struct FunctionContext<'s> {
    /// Its `sortBy`.
    pub sort: Option<&'s RawDocument>,
    pub scope: &'s VariableScope,
}

impl FunctionContext<'_> {
    fn sort_fields(&self) -> usize {
        self.sort.map_or(0, |sort| sort.iter().count())
    }

    fn node(&self, raw: RawBsonRef<'_>) -> Result<Node> {
        Ok(Expression::parse(raw, self.scope)?.node)
    }

    fn window(&self, raw: Option<RawBsonRef<'_>>) -> Result<Window> {
        match raw {
            None => Ok(Window::ALL),
            Some(raw) => Window::parse(raw, self.sort, self.scope),
        }
    }

    fn made(
        &self,
        name: &'static str,
        kind: FunctionKind,
        window: Window,
        input: Node,
    ) -> WindowFunction {
        WindowFunction {
            name,
            kind,
            window,
            input,
            collation: self.scope.collation().clone(),
        }
    }
}

/// The function of a specification, and what else it has.
struct Specification<'a> {
    name: &'a str,
    operand: RawBsonRef<'a>,
    window: Option<RawBsonRef<'a>>,
    /// The first of the fields that are neither.
    other: Option<&'a str>,
}

impl<'a> Specification<'a> {
    fn of(document: &'a RawDocument) -> Result<Self> {
        let (mut function, mut window, mut other, mut first) = (None, None, None, None);
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            first.get_or_insert(key);
            match key {
                "window" => window = Some(raw),
                _ if key.starts_with('$') && function.is_none() => function = Some((key, raw)),
                _ => {
                    other.get_or_insert(key);
                }
            }
        }
        let Some((name, operand)) = function else {
            let shown = first.map_or_else(String::new, |first| format!(", {first}"));
            return Err(refused(format!(
                "Expected a $-prefixed window function{shown}"
            )));
        };
        Ok(Self {
            name,
            operand,
            window,
            other,
        })
    }

    /// Refuses fields beside the function and its window.
    fn only(&self, several: &str) -> Result<()> {
        match self.other {
            None => Ok(()),
            Some(other) if other.starts_with('$') => Err(refused(format!(
                "Cannot specify {several} functions in window function spec"
            ))),
            Some(other) => Err(refused(format!(
                "Window function found an unknown argument: {other}"
            ))),
        }
    }

    /// The same in the words of the functions that say which argument they did not expect.
    fn only_expected(&self) -> Result<()> {
        match self.other {
            None => Ok(()),
            Some(other) => Err(refused(format!(
                "{} got unexpected argument: {other}",
                self.name
            ))),
        }
    }
}

impl WindowFunction {
    /// Parses `{$function: argument, window: {...}}`.
    ///
    /// # Errors
    /// MongoDB's: `FailedToParse` for most, 5371601 to 5371603 for ranks, those of windows and of accumulators.
    pub fn parse(document: &RawDocument, context: &FunctionContext<'_>) -> Result<Self> {
        let parts = Specification::of(document)?;
        context.scope.count(&FUNCTIONS_USED, parts.name);
        match parts.name {
            "$rank" => rank("$rank", FunctionKind::Rank, &parts, context),
            "$denseRank" => rank("$denseRank", FunctionKind::DenseRank, &parts, context),
            "$documentNumber" => rank(
                "$documentNumber",
                FunctionKind::DocumentNumber,
                &parts,
                context,
            ),
            "$shift" => shift(&parts, context),
            "$derivative" => curve("$derivative", &parts, context),
            "$integral" => curve("$integral", &parts, context),
            "$expMovingAvg" => moving_average(&parts, context),
            "$linearFill" => linear_fill(&parts, context),
            "$locf" => {
                fills("$locf", &parts)?;
                let input = context.node(parts.operand)?;
                Ok(context.made("$locf", FunctionKind::LastKnown, Window::SO_FAR, input))
            }
            "$covariancePop" => covariance("$covariancePop", false, &parts, context),
            "$covarianceSamp" => covariance("$covarianceSamp", true, &parts, context),
            "$count" => count(&parts, context),
            name => match ACCUMULATORS.iter().find(|known| **known == name) {
                Some(known) => accumulator(known, &parts, context),
                None => Err(refused(format!("Unrecognized window function, {name}"))),
            },
        }
    }

    /// Whether documents leave the window.
    pub fn slides(&self) -> bool {
        match &self.window {
            Window::Documents { lower, .. } => lower.is_some(),
            Window::Range(range) => range.lower.is_some(),
        }
    }

    /// How many values the function gives, where it says.
    ///
    /// # Errors
    /// 5787902, 5787903 and 5787908 for what is no such number.
    pub fn count<'a>(&'a self, context: &mut EvaluationContext<'a>) -> Result<Option<usize>> {
        let FunctionKind::Accumulator(accumulator) = &self.kind else {
            return Ok(None);
        };
        accumulator.count_in(context)
    }

    /// See [`Node::bind_fields`].
    pub fn bind_fields(&mut self, names: &mut Vec<Box<str>>) {
        self.input.bind_fields(names);
    }

    /// The fields that are read.
    pub fn add_dependencies(&self, set: &mut FieldSet) {
        self.input.add_dependencies(set);
        if let FunctionKind::Accumulator(accumulator) = &self.kind {
            accumulator.add_dependencies(set);
        }
    }

    /// What the function needs of a document; `position` is what documents are sorted by.
    ///
    /// # Errors
    /// Those of expressions.
    pub fn input<'a>(
        &'a self,
        context: &mut EvaluationContext<'a>,
        position: &Value<'_>,
    ) -> Result<Input> {
        let accumulator = match &self.kind {
            FunctionKind::Accumulator(accumulator) => accumulator,
            FunctionKind::Rank | FunctionKind::DenseRank => return self.rank_input(position),
            FunctionKind::DocumentNumber => return Ok(Input::Ordered(None)),
            FunctionKind::Covariance { .. } => {
                return Ok(Input::Pair(pair(&self.input.evaluate(context)?)?));
            }
            FunctionKind::MovingAverage { .. } => {
                return Ok(Input::Number(number(&self.input.evaluate(context)?)));
            }
            FunctionKind::Derivative { .. }
            | FunctionKind::Integral { .. }
            | FunctionKind::LinearFill => {
                let y = self.input.evaluate(context)?.to_raw()?;
                let x = position.to_raw()?;
                return Ok(Input::Point(CurvePoint { x, y }));
            }
            FunctionKind::Shift { .. } | FunctionKind::LastKnown => {
                return Ok(Input::Value(self.input.evaluate(context)?.to_raw()?));
            }
        };
        use AccumulatorKind as Kind;
        if let Kind::Count = accumulator.kind {
            return Ok(Input::Value(None));
        }
        let value = self.input.evaluate(context)?;
        if let Some(key) = accumulator.key_of(context.document)? {
            let output = value.to_raw()?.unwrap_or(RawBson::Null);
            return Ok(Input::Ordered(Some((key.into_boxed_slice(), output))));
        }
        let slides = self.slides();
        Ok(match accumulator.kind {
            Kind::Sum | Kind::Average | Kind::DeviationPopulation | Kind::DeviationSample => {
                Input::Number(number(&value))
            }
            Kind::Min | Kind::Max | Kind::MinN | Kind::MaxN if slides => {
                let raw = value.to_raw()?.filter(|raw| !is_nullish(raw));
                Input::Ordered(raw.map(|raw| (self.order_of(&raw), raw)))
            }
            Kind::AddToSet if slides => {
                let raw = value.to_raw()?;
                Input::Ordered(raw.map(|raw| (self.order_of(&raw), raw)))
            }
            _ => Input::Value(value.to_raw()?),
        })
    }

    /// The bytes that a value is ordered by.
    fn order_of(&self, value: &RawBson) -> Box<[u8]> {
        let mut key = Vec::new();
        let ascending = Direction::Ascending;
        self.collation.encode(
            value.as_raw_bson_ref(),
            ascending,
            &mut key,
            &mut TypeBits::new(),
        );
        key.into_boxed_slice()
    }

    /// A missing value is another rank than null.
    fn rank_input(&self, position: &Value<'_>) -> Result<Input> {
        let raw = position.to_raw()?;
        Ok(Input::Ordered(
            raw.map(|raw| (self.order_of(&raw), RawBson::Null)),
        ))
    }
}

/// The two numbers of a covariance's argument.
fn pair(value: &Value<'_>) -> Result<Option<(Number, Number)>> {
    let items = value.items()?;
    Ok(items.and_then(|items| match &items[..] {
        [x, y] => Some((number(x)?, number(y)?)),
        _ => None,
    }))
}

fn rank(
    name: &'static str,
    kind: FunctionKind,
    parts: &Specification<'_>,
    context: &FunctionContext<'_>,
) -> Result<WindowFunction> {
    if parts.window.is_some() || parts.other.is_some() {
        return Err(Error::location(
            5_371_601,
            "Rank style window functions take no other arguments",
        ));
    }
    match parts.operand {
        RawBsonRef::Document(empty) if empty.is_empty() => {}
        _ => {
            return Err(Error::location(
                5_371_603,
                "(None) must be specified with '{}' as the value",
            ));
        }
    }
    if context.sort_fields() != 1 {
        return Err(Error::location(
            5_371_602,
            format!(
                "{name} must be specified with a top level sortBy expression with exactly one element"
            ),
        ));
    }
    let nothing = Node::known(&Value::Missing)?;
    Ok(context.made(name, kind, Window::SO_FAR, nothing))
}

fn shift(parts: &Specification<'_>, context: &FunctionContext<'_>) -> Result<WindowFunction> {
    if parts.window.is_some() {
        return Err(refused("$shift does not accept a 'window' field"));
    }
    parts.only("multiple")?;
    let RawBsonRef::Document(document) = parts.operand else {
        return Err(refused("Argument to $shift must be an object"));
    };
    let (mut output, mut by, mut default) = (None, None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match key.as_str() {
            "output" => output = Some(context.node(raw)?),
            "by" => {
                let whole = Number::from_raw(raw).and_then(Number::to_i64_exact);
                let whole = whole.filter(|whole| i32::try_from(*whole).is_ok());
                by = Some(whole.ok_or_else(|| {
                    refused(format!(
                        "'$shift:by' field must be an integer, but found  {}",
                        text::element("by", raw)
                    ))
                })?);
            }
            "default" => {
                let expression = Expression::parse(raw, context.scope)?;
                let value = expression.constant().ok_or_else(|| {
                    refused("'$shift:default' expression must yield a constant value.")
                })?;
                default = Some(value.to_raw()?);
            }
            _ => return Err(refused("Unknown argument in $shift")),
        }
    }
    let output = output.ok_or_else(|| refused("$shift requires an 'output' expression."))?;
    let by = by.ok_or_else(|| refused("$shift requires 'by' as an integer value."))?;
    if context.sort.is_none() {
        return Err(refused("'$shift' requires a sortBy"));
    }
    let window = Window::Documents {
        lower: Some(by),
        upper: Some(by),
    };
    let default = default.unwrap_or(Some(RawBson::Null));
    Ok(context.made("$shift", FunctionKind::Shift { default }, window, output))
}

/// `$derivative` and `$integral`.
fn curve(
    name: &'static str,
    parts: &Specification<'_>,
    context: &FunctionContext<'_>,
) -> Result<WindowFunction> {
    if context.sort.is_none() {
        return Err(refused(format!("{name} requires a sortBy")));
    }
    if context.sort_fields() != 1 {
        return Err(refused(format!("{name} requires a non-compound sortBy")));
    }
    let RawBsonRef::Document(document) = parts.operand else {
        return Err(refused(format!(
            "{name} expects an object, but got a {}: {}",
            type_name(parts.operand.element_type()),
            text::element(name, parts.operand)
        )));
    };
    parts.only_expected()?;
    let (mut input, mut unit) = (None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match (key.as_str(), raw) {
            ("input", raw) => input = Some(context.node(raw)?),
            ("unit", RawBsonRef::String(name)) => {
                let parsed = named_unit(name)?;
                if parsed.months().is_some() {
                    return Err(Error::location(5_490_710, "unit must be 'week' or smaller"));
                }
                unit = Some(parsed);
            }
            ("unit", other) => {
                return Err(refused(format!(
                    "unit' must be a string, but got {}",
                    type_name(other.element_type())
                )));
            }
            (other, _) => {
                return Err(refused(format!("{name} got unexpected argument: {other}")));
            }
        }
    }
    let input = input.ok_or_else(|| refused(format!("{name} requires an 'input' expression")))?;
    let kind = match name {
        "$integral" => FunctionKind::Integral { unit },
        _ if parts.window.is_none() => {
            return Err(refused(format!("{name} requires explicit window bounds")));
        }
        _ => FunctionKind::Derivative { unit },
    };
    Ok(context.made(name, kind, context.window(parts.window)?, input))
}

fn moving_average(
    parts: &Specification<'_>,
    context: &FunctionContext<'_>,
) -> Result<WindowFunction> {
    const FIELDS: &str = "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' \
                          field or an 'alpha' field";
    let document = match parts.operand {
        RawBsonRef::Document(document) if parts.window.is_none() && parts.other.is_none() => {
            document
        }
        _ => {
            return Err(refused(
                "$expMovingAvg must have exactly one argument that is an object",
            ));
        }
    };
    if document.iter().count() != 2 {
        return Err(refused(FIELDS));
    }
    if context.sort.is_none() {
        return Err(refused("$expMovingAvg requires an explicit 'sortBy'"));
    }
    let (mut input, mut alpha) = (None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match key.as_str() {
            "input" => input = Some(context.node(raw)?),
            "N" => alpha = Some(alpha_of_count(raw)?),
            "alpha" => alpha = Some(parse_alpha(raw)?),
            _ => {
                return Err(refused(format!(
                    "Got unrecognized field in $expMovingAvg{FIELDS}"
                )));
            }
        }
    }
    let (Some(input), Some(alpha)) = (input, alpha) else {
        return Err(refused(FIELDS));
    };
    let weights = [alpha, Decimal::from_i64(1).subtract(alpha)];
    let kind = FunctionKind::MovingAverage { weights };
    Ok(context.made("$expMovingAvg", kind, Window::SO_FAR, input))
}

/// The weight of the newest value where `n` of them have most of it: 2 / (n + 1).
fn alpha_of_count(raw: RawBsonRef<'_>) -> Result<Decimal> {
    let number = Number::from_raw(raw).ok_or_else(|| {
        refused(format!(
            "'N' field must be an integer, but found type {}",
            type_name(raw.element_type())
        ))
    })?;
    let count = number.to_i64_exact().ok_or_else(|| {
        refused(format!(
            "'N' field must be an integer, but found  {}. To use a non-integer, use the 'alpha' argument instead",
            text::element("N", raw)
        ))
    })?;
    if count <= 0 {
        return Err(refused(format!(
            "'N' must be greater than zero. Got {count}"
        )));
    }
    let count = Number::Int64(count).to_decimal();
    let one = Number::Int32(1).to_decimal();
    Ok(Number::Int32(2).to_decimal().divide(count.add(one)))
}

fn parse_alpha(raw: RawBsonRef<'_>) -> Result<Decimal> {
    let number = Number::from_raw(raw).ok_or_else(|| refused("'alpha' must be a number"))?;
    let value = number.to_f64();
    if !(value > 0.0 && value < 1.0) {
        return Err(refused(format!(
            "'alpha' must be between 0 and 1 (exclusive), found {}",
            text::element("alpha", raw)
        )));
    }
    Ok(number.to_decimal())
}

/// Refuses what `$linearFill` and `$locf` do not take beside their expression.
fn fills(name: &str, parts: &Specification<'_>) -> Result<()> {
    if parts.window.is_some() {
        return Err(refused(format!("'window' field is not allowed in {name}")));
    }
    parts.only("two")
}

fn linear_fill(parts: &Specification<'_>, context: &FunctionContext<'_>) -> Result<WindowFunction> {
    fills("$linearFill", parts)?;
    if context.sort_fields() != 1 {
        return Err(Error::location(
            605_001,
            "$linearFill must be specified with a top level sortBy expression with exactly one element",
        ));
    }
    let input = context.node(parts.operand)?;
    Ok(context.made(
        "$linearFill",
        FunctionKind::LinearFill,
        Window::SO_FAR,
        input,
    ))
}

fn covariance(
    name: &'static str,
    sample: bool,
    parts: &Specification<'_>,
    context: &FunctionContext<'_>,
) -> Result<WindowFunction> {
    parts.only("two")?;
    let input = context.node(parts.operand)?;
    let window = context.window(parts.window)?;
    Ok(context.made(name, FunctionKind::Covariance { sample }, window, input))
}

fn count(parts: &Specification<'_>, context: &FunctionContext<'_>) -> Result<WindowFunction> {
    parts.only("multiple")?;
    match parts.operand {
        RawBsonRef::Document(empty) if empty.is_empty() => {}
        _ => return Err(refused("$count only accepts an empty object as input")),
    }
    let accumulator = Accumulator::of_window("$count", parts.operand, context.scope)?;
    let window = context.window(parts.window)?;
    let input = Node::known(&Value::Missing)?;
    let kind = FunctionKind::Accumulator(Box::new(accumulator));
    Ok(context.made("$count", kind, window, input))
}

fn accumulator(
    name: &'static str,
    parts: &Specification<'_>,
    context: &FunctionContext<'_>,
) -> Result<WindowFunction> {
    let several = name.ends_with('N') || matches!(name, "$top" | "$bottom");
    match several {
        true => parts.only_expected()?,
        false => parts.only("two")?,
    }
    let accumulator = Accumulator::of_window(name, parts.operand, context.scope)?;
    let window = context.window(parts.window)?;
    let input = accumulator.argument.clone();
    let kind = FunctionKind::Accumulator(Box::new(accumulator));
    Ok(context.made(name, kind, window, input))
}
