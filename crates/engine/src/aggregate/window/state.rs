//! What a window function keeps of the documents in its window.
//!
//! In: what it needs of each document, in order. Documents leave a window in the order in which they came, so a
//! state slides: it takes out what it has put in first. Out: the function's value over what is in it.

use super::super::accumulator::{
    Accumulator, AccumulatorKind, AccumulatorState, array, as_value, item_bytes, raw_number,
};
use super::function::{FunctionKind, WindowFunction};
use crate::error::{Error, Result};
use crate::expression::Value;
use crate::expression::arithmetic;
use crate::expression::sum::RoundedSum;
use crate::expression::time::Unit;
use bson::{RawBson, RawBsonRef};
use meridian_value::number::{Decimal, Number};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// What a window function needs of a document.
#[derive(Debug)]
pub(super) enum Input {
    /// The value of its expression; none where it is missing.
    Value(Option<RawBson>),
    /// The value with the bytes that it is ordered by: `$min`, `$top` and their like, `$addToSet`. No bytes where it
    /// does not count.
    Ordered(Option<(Box<[u8]>, RawBson)>),
    /// A number, for sums; none for anything else.
    Number(Option<Number>),
    /// Two numbers, for covariances.
    Pair(Option<(Number, Number)>),
    /// A point of a curve: what documents are sorted by, and the value.
    Point(CurvePoint),
}

/// A point of a curve, whatever its coordinates are.
#[derive(Debug)]
pub(super) struct CurvePoint {
    pub x: Option<RawBson>,
    pub y: Option<RawBson>,
}

impl Input {
    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        let own = size_of::<Self>();
        own + match self {
            Self::Value(value) => value.iter().map(item_bytes).sum(),
            Self::Ordered(value) => {
                let bytes =
                    |(key, value): &(Box<[u8]>, RawBson)| 2 * key.len() + item_bytes(value) + 64;
                value.iter().map(bytes).sum()
            }
            Self::Point(CurvePoint { x, y }) => x.iter().chain(y).map(item_bytes).sum(),
            Self::Number(_) | Self::Pair(_) => 0,
        }
    }
}

/// What a window function has gathered.
pub(super) enum State {
    /// An accumulator over all documents so far, as `$group` has it.
    Growing(AccumulatorState),
    /// `$sum`, `$avg`.
    Sum(Box<SlidingSum>),
    /// `$count`.
    Count(i64),
    /// `$stdDevPop`, `$stdDevSamp`.
    Deviation(SlidingDeviation),
    /// `$covariancePop`, `$covarianceSamp`.
    Covariance(Box<SlidingCovariance>),
    /// `$min`, `$max`, `$minN`, `$maxN`, `$addToSet`, `$top` and its like.
    Ordered(Ordered),
    /// `$push`, `$first`, `$last`, `$firstN`, `$lastN`, `$shift`.
    Values(VecDeque<Option<RawBson>>),
    /// `$first` over all documents so far.
    First(Option<Option<RawBson>>),
    /// `$last` over all documents so far.
    Last(Option<Option<RawBson>>),
    /// `$derivative`.
    Derivative(Ends),
    /// `$integral`.
    Integral(Box<Integral>),
    /// `$expMovingAvg`.
    MovingAverage(MovingAverage),
    /// `$rank`, `$denseRank`, `$documentNumber`.
    Rank(Rank),
    /// `$locf`.
    LastKnown(Option<RawBson>),
}

impl State {
    /// The state of no document. `slides` tells whether documents will be taken out again; `count` is the `n` of a
    /// function that has one.
    pub fn new(function: &WindowFunction, slides: bool, count: Option<usize>) -> Self {
        use AccumulatorKind as Kind;
        let accumulator = match &function.kind {
            FunctionKind::Accumulator(accumulator) => accumulator,
            FunctionKind::Covariance { .. } => {
                let slides = Slides(slides);
                return Self::Covariance(Box::new(SlidingCovariance {
                    slides,
                    ..SlidingCovariance::default()
                }));
            }
            FunctionKind::Derivative { .. } => return Self::Derivative(Ends::new(slides)),
            FunctionKind::Integral { .. } => {
                let slides = Slides(slides);
                return Self::Integral(Box::new(Integral {
                    slides,
                    ..Integral::default()
                }));
            }
            FunctionKind::MovingAverage { .. } => {
                return Self::MovingAverage(MovingAverage::default());
            }
            FunctionKind::Rank | FunctionKind::DenseRank | FunctionKind::DocumentNumber => {
                return Self::Rank(Rank::default());
            }
            FunctionKind::Shift { .. } => return Self::Values(VecDeque::new()),
            FunctionKind::LastKnown => return Self::LastKnown(None),
            FunctionKind::LinearFill => unreachable!("it has no window"),
        };
        match accumulator.kind {
            Kind::First if !slides => Self::First(None),
            Kind::Last if !slides => Self::Last(None),
            Kind::Count => Self::Count(0),
            _ if !slides => Self::Growing(accumulator.begin(count)),
            Kind::Sum | Kind::Average => Self::Sum(Box::default()),
            Kind::DeviationPopulation | Kind::DeviationSample => {
                Self::Deviation(SlidingDeviation::default())
            }
            Kind::Push | Kind::First | Kind::Last | Kind::FirstN | Kind::LastN => {
                Self::Values(VecDeque::new())
            }
            _ => Self::Ordered(Ordered::default()),
        }
    }

    /// Takes what there is of one more document; by how many bytes it grew.
    ///
    /// # Errors
    /// Those of the function.
    pub fn add(&mut self, function: &WindowFunction, input: Input) -> Result<usize> {
        let bytes = input.size_bytes();
        match (self, input) {
            (Self::Growing(state), input) => {
                let FunctionKind::Accumulator(accumulator) = &function.kind else {
                    unreachable!("only accumulators grow")
                };
                return add_growing(state, accumulator, input);
            }
            (Self::Sum(sum), Input::Number(number)) => sum.add(number),
            (Self::Count(count), _) => {
                *count += 1;
                return Ok(0);
            }
            (Self::Deviation(deviation), Input::Number(number)) => deviation.add(number),
            (Self::Covariance(covariance), Input::Pair(pair)) => {
                covariance.add(pair);
                return Ok(covariance.slides.bytes(bytes));
            }
            (Self::Ordered(ordered), Input::Ordered(entry)) => ordered.add(entry),
            (Self::Values(values), Input::Value(value)) => values.push_back(value),
            (Self::First(first @ None), Input::Value(value)) => *first = Some(value),
            (Self::Last(last), Input::Value(value)) => {
                let replaced = last.replace(value).map(Input::Value);
                let freed = replaced.as_ref().map_or(0, Input::size_bytes);
                return Ok(bytes.saturating_sub(freed));
            }
            (Self::Derivative(ends), Input::Point(point)) => return Ok(ends.add(point)),
            (Self::Integral(integral), Input::Point(point)) => {
                integral.add(function, point)?;
                return Ok(integral.slides.bytes(Input::Number(None).size_bytes()));
            }
            (Self::MovingAverage(average), Input::Number(number)) => {
                let FunctionKind::MovingAverage { weights } = function.kind else {
                    unreachable!("a moving average has weights")
                };
                average.add(number, weights);
                return Ok(0);
            }
            (Self::Rank(rank), Input::Ordered(entry)) => {
                rank.add(entry);
                return Ok(0);
            }
            (Self::LastKnown(known), Input::Value(value)) => {
                if let Some(value) = value.filter(|value| !is_nullish(value)) {
                    let replaced = known.replace(value).map(|old| Input::Value(Some(old)));
                    let freed = replaced.as_ref().map_or(0, Input::size_bytes);
                    return Ok(bytes.saturating_sub(freed));
                }
                return Ok(0);
            }
            _ => return Ok(0),
        }
        Ok(bytes)
    }

    /// Takes out what came first; by how many bytes it shrank.
    pub fn remove(&mut self) -> usize {
        match self {
            Self::Sum(sum) => sum.remove(),
            Self::Count(count) => {
                *count -= 1;
                0
            }
            Self::Deviation(deviation) => deviation.remove(),
            Self::Covariance(covariance) => covariance.remove(),
            Self::Ordered(ordered) => ordered.remove(),
            Self::Values(values) => {
                let removed = values.pop_front().flatten();
                Input::Value(removed).size_bytes()
            }
            Self::Derivative(ends) => ends.remove(),
            Self::Integral(integral) => integral.remove(),
            _ => unreachable!("what is taken out again is kept in a state that slides"),
        }
    }

    /// The function's value; none where it is missing.
    ///
    /// # Errors
    /// Those of the function.
    pub fn value(
        &self,
        function: &WindowFunction,
        count: Option<usize>,
    ) -> Result<Option<RawBson>> {
        let accumulator = match &function.kind {
            FunctionKind::Accumulator(accumulator) => Some(accumulator.kind),
            _ => None,
        };
        Ok(Some(match self {
            Self::Growing(state) => state
                .clone()
                .finish(accumulator.unwrap_or(AccumulatorKind::Sum))?,
            Self::Sum(sum) if accumulator == Some(AccumulatorKind::Sum) => raw_number(sum.total()),
            Self::Sum(sum) => sum.average().map_or(RawBson::Null, raw_number),
            Self::Count(count) => counted(*count),
            Self::Deviation(deviation) => {
                deviation.value(accumulator == Some(AccumulatorKind::DeviationSample))
            }
            Self::Covariance(covariance) => {
                let sample = matches!(function.kind, FunctionKind::Covariance { sample: true });
                covariance.value(sample).map_or(RawBson::Null, raw_number)
            }
            Self::Ordered(ordered) => ordered.value(accumulator, count.unwrap_or(1)),
            Self::Values(values) => return Ok(Self::of_values(values, function, count)),
            Self::First(edge) | Self::Last(edge) => {
                return Ok(edge.clone().unwrap_or(Some(RawBson::Null)));
            }
            Self::Derivative(ends) => ends.value(function)?,
            Self::Integral(integral) => integral.value(),
            Self::MovingAverage(average) => average.value(),
            Self::Rank(rank) => counted(rank.value(&function.kind)),
            Self::LastKnown(known) => known.clone().unwrap_or(RawBson::Null),
        }))
    }

    /// The value of a function over the values in its window.
    fn of_values(
        values: &VecDeque<Option<RawBson>>,
        function: &WindowFunction,
        count: Option<usize>,
    ) -> Option<RawBson> {
        let null = |value: &Option<RawBson>| value.clone().unwrap_or(RawBson::Null);
        let count = count.unwrap_or(1);
        let kind = match &function.kind {
            FunctionKind::Shift { default } => {
                return match values.front() {
                    Some(value) => value.clone(),
                    None => default.clone(),
                };
            }
            FunctionKind::Accumulator(accumulator) => accumulator.kind,
            _ => return None,
        };
        match kind {
            AccumulatorKind::First => values.front().map_or(Some(RawBson::Null), Clone::clone),
            AccumulatorKind::Last => values.back().map_or(Some(RawBson::Null), Clone::clone),
            AccumulatorKind::FirstN => Some(array(values.iter().take(count).map(null))),
            AccumulatorKind::LastN => {
                let skipped = values.len().saturating_sub(count);
                Some(array(values.iter().skip(skipped).map(null)))
            }
            _ => Some(array(values.iter().flatten().cloned())),
        }
    }
}

/// Whether what is put in is taken out again, and kept until then.
#[derive(Clone, Copy, Default)]
struct Slides(bool);

impl Slides {
    /// What keeping so many bytes takes.
    fn bytes(self, bytes: usize) -> usize {
        if self.0 { bytes } else { 0 }
    }
}

fn counted(count: i64) -> RawBson {
    i32::try_from(count).map_or(RawBson::Int64(count), RawBson::Int32)
}

pub(super) fn is_nullish(value: &RawBson) -> bool {
    matches!(value, RawBson::Null | RawBson::Undefined)
}

/// Gives an accumulator as `$group` has it what there is of one more document.
fn add_growing(
    state: &mut AccumulatorState,
    accumulator: &Accumulator,
    input: Input,
) -> Result<usize> {
    let mut of = |value: Option<RawBson>| state.add_value(accumulator, &as_value(value.as_ref()));
    match input {
        Input::Value(value) => of(value),
        Input::Number(number) => of(number.map(raw_number)),
        Input::Ordered(Some((key, value))) if accumulator.sort.is_some() => {
            state.add_with_key(accumulator, key.into_vec(), value)
        }
        Input::Ordered(entry) => of(entry.map(|(_, value)| value)),
        Input::Pair(_) | Input::Point(_) => Ok(0),
    }
}

/// A sum from which numbers are taken again. What is infinite or not a number is counted, not added: it could not be
/// taken out. Rounded as MongoDB rounds it, see [`RoundedSum`].
#[derive(Default)]
pub(super) struct SlidingSum {
    numbers: VecDeque<Option<Number>>,
    /// All finite numbers but decimals.
    rounded: RoundedSum,
    integers: i128,
    decimal: Decimal,
    count: u64,
    doubles: u64,
    decimals: u64,
    not_numbers: u64,
    /// Positive and negative infinities.
    infinities: [u64; 2],
}

impl SlidingSum {
    fn add(&mut self, number: Option<Number>) {
        self.numbers.push_back(number);
        if let Some(number) = number {
            self.change(number, true);
        }
    }

    fn remove(&mut self) -> usize {
        if let Some(Some(number)) = self.numbers.pop_front() {
            self.change(number, false);
        }
        Input::Number(None).size_bytes()
    }

    fn change(&mut self, number: Number, comes: bool) {
        let step =
            |counter: &mut u64| *counter = counter.wrapping_add(if comes { 1 } else { u64::MAX });
        step(&mut self.count);
        match number {
            Number::Int32(_) | Number::Int64(_) => {}
            Number::Double(_) => step(&mut self.doubles),
            Number::Decimal(_) => step(&mut self.decimals),
        }
        if number.is_nan() {
            step(&mut self.not_numbers);
            return;
        }
        if number.is_infinite() {
            step(&mut self.infinities[usize::from(number.is_negative())]);
            return;
        }
        let sign: i32 = if comes { 1 } else { -1 };
        match number {
            Number::Int32(value) => {
                self.integers += i128::from(value) * i128::from(sign);
                self.rounded.add_double(f64::from(value) * f64::from(sign));
            }
            Number::Int64(value) => {
                self.integers += i128::from(value) * i128::from(sign);
                self.rounded.add(match value.checked_mul(i64::from(sign)) {
                    Some(value) => Number::Int64(value),
                    None => Number::Double(-(value as f64)),
                });
            }
            Number::Double(value) => self.rounded.add_double(value * f64::from(sign)),
            Number::Decimal(value) => {
                let signed = if comes {
                    value
                } else {
                    Decimal::ZERO.subtract(value)
                };
                self.decimal = self.decimal.add(signed);
            }
        }
    }

    fn special(&self) -> Option<f64> {
        match (self.not_numbers, self.infinities) {
            (0, [0, 0]) => None,
            (0, [_, 0]) => Some(f64::INFINITY),
            (0, [0, _]) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }

    fn as_decimal(&self) -> Decimal {
        if self.rounded.double() == 0.0 {
            return self.decimal;
        }
        self.decimal.add(self.rounded.as_decimal())
    }

    fn mean(&self, count: i64) -> f64 {
        match count {
            0 => 0.0,
            count => self.total().to_f64() / count as f64,
        }
    }

    /// In the widest type that is there; integers as 32 bits hold them, unlike in a `$group`, as in MongoDB.
    fn total(&self) -> Number {
        if let Some(special) = self.special() {
            return match self.decimals {
                0 => Number::Double(special),
                _ => Number::Decimal(Decimal::from_f64(special)),
            };
        }
        if self.decimals > 0 {
            return Number::Decimal(self.as_decimal());
        }
        match i64::try_from(self.integers) {
            Ok(total) if self.doubles == 0 => {
                i32::try_from(total).map_or(Number::Int64(total), Number::Int32)
            }
            _ => Number::Double(self.rounded.double()),
        }
    }

    fn average(&self) -> Option<Number> {
        if self.count == 0 {
            return None;
        }
        Some(match self.total() {
            Number::Decimal(total) => {
                let count = i64::try_from(self.count).unwrap_or(i64::MAX);
                Number::Decimal(total.divide(Decimal::from_i64(count)))
            }
            total => Number::Double(total.to_f64() / self.count as f64),
        })
    }
}

/// What is left of a sum of squares when it has lost too many of its digits and is summed anew: of the most that it
/// was since, at most this share. Each time a value has left that was much larger than those that stay.
const CANCELLED: f64 = 1e-3;

/// A standard deviation from which numbers are taken again: the sum of the squared differences from the mean, moved
/// along (Welford, written with the sum instead of the mean).
#[derive(Default)]
pub(super) struct SlidingDeviation {
    numbers: VecDeque<Option<Number>>,
    moments: Moments,
}

#[derive(Default)]
struct Moments {
    count: i64,
    infinite: u64,
    sum: RoundedSum,
    squares: RoundedSum,
    /// The most that `squares` was.
    peak: f64,
}

impl SlidingDeviation {
    fn add(&mut self, number: Option<Number>) {
        self.numbers.push_back(number);
        self.moments.add(number);
    }

    fn remove(&mut self) -> usize {
        if let Some(Some(number)) = self.numbers.pop_front() {
            self.moments.remove(number.to_f64());
            if self.moments.squares.double() < self.moments.peak * CANCELLED {
                self.moments = Moments::default();
                let numbers = self.numbers.iter();
                numbers.for_each(|number| self.moments.add(*number));
            }
        }
        Input::Number(None).size_bytes()
    }

    fn value(&self, sample: bool) -> RawBson {
        let moments = &self.moments;
        let count = moments.count - i64::from(sample);
        if moments.infinite > 0 || count == 0 {
            return RawBson::Null;
        }
        let squares = moments.squares.double();
        // Rounding can make them less than nothing.
        if squares < 0.0 || (!sample && count == 1) {
            return RawBson::Int32(0);
        }
        RawBson::Double((squares / count as f64).sqrt())
    }
}

impl Moments {
    fn add(&mut self, number: Option<Number>) {
        let Some(value) = number.map(Number::to_f64) else {
            return;
        };
        if !value.is_finite() {
            self.infinite += 1;
        } else if self.count == 0 {
            self.count = 1;
            self.sum.add_double(value);
        } else {
            self.change(value, 1);
            self.peak = self.peak.max(self.squares.double());
        }
    }

    fn remove(&mut self, value: f64) {
        if !value.is_finite() {
            self.infinite -= 1;
        } else if self.count == 1 {
            let infinite = self.infinite;
            *self = Self {
                infinite,
                ..Self::default()
            };
        } else {
            self.change(value, -1);
        }
    }

    fn change(&mut self, value: f64, step: i64) {
        let difference = self.count as f64 * value - self.sum.double();
        self.count += step;
        let signed = step as f64;
        self.sum.add_double(value * signed);
        let squared = difference * difference * signed / (self.count * (self.count - step)) as f64;
        self.squares.add_double(squared);
    }
}

/// A covariance from which pairs are taken again (Welford).
#[derive(Default)]
pub(super) struct SlidingCovariance {
    slides: Slides,
    pairs: VecDeque<Option<CovariancePair>>,
    x: SlidingSum,
    y: SlidingSum,
    /// The sum of the products of the differences from the means, but for those that are infinite or no number.
    products: RoundedSum,
    special: SlidingSum,
    decimals: u64,
    count: i64,
}

struct CovariancePair {
    x: Number,
    y: Number,
    /// Its product, where that is infinite or not a number.
    special: Option<f64>,
}

impl CovariancePair {
    fn decimals(&self) -> u64 {
        let decimal = |number| matches!(number, Number::Decimal(_));
        u64::from(decimal(self.x) || decimal(self.y))
    }
}

impl SlidingCovariance {
    fn add(&mut self, pair: Option<(Number, Number)>) {
        let pair = pair.map(|(x, y)| {
            let (before, count) = (self.x.mean(self.count), self.count + 1);
            self.count = count;
            self.x.change(x, true);
            self.y.change(y, true);
            let product = (x.to_f64() - before) * (y.to_f64() - self.y.mean(count));
            let special = (!product.is_finite()).then_some(product);
            match special {
                None => self.products.add_double(product),
                Some(special) => self.special.change(Number::Double(special), true),
            }
            CovariancePair { x, y, special }
        });
        self.decimals += pair.as_ref().map_or(0, CovariancePair::decimals);
        if self.slides.0 {
            self.pairs.push_back(pair);
        }
    }

    fn remove(&mut self) -> usize {
        let bytes = Input::Pair(None).size_bytes();
        let Some(pair) = self.pairs.pop_front().flatten() else {
            return bytes;
        };
        if self.count == 1 {
            let (slides, pairs) = (self.slides, std::mem::take(&mut self.pairs));
            *self = Self {
                slides,
                pairs,
                ..Self::default()
            };
            return bytes;
        }
        self.decimals -= pair.decimals();
        let mean_of_y = self.y.mean(self.count);
        self.count -= 1;
        self.x.change(pair.x, false);
        self.y.change(pair.y, false);
        match pair.special {
            Some(special) => self.special.change(Number::Double(special), false),
            // One pair differs from the means by nothing.
            None if self.count == 1 => self.products = RoundedSum::default(),
            None => {
                let differences = [
                    pair.x.to_f64() - self.x.mean(self.count),
                    pair.y.to_f64() - mean_of_y,
                ];
                let product = differences[0] * differences[1];
                if product.is_finite() {
                    self.products.add_double(-product);
                }
            }
        }
        bytes
    }

    fn value(&self, sample: bool) -> Option<Number> {
        let count = self.count - i64::from(sample);
        if count <= 0 {
            return None;
        }
        let products = self
            .special
            .special()
            .unwrap_or_else(|| self.products.double() + 0.0);
        let covariance = Number::Double(products / count as f64);
        Some(match self.decimals {
            0 => covariance,
            _ => Number::Decimal(covariance.to_decimal()),
        })
    }
}

/// Values in an order, from which they are taken out as they came.
#[derive(Default)]
pub(super) struct Ordered {
    /// By key, those of equal keys as they came.
    entries: BTreeMap<(Box<[u8]>, u64), RawBson>,
    /// The keys as they came; none for a value that does not count.
    keys: VecDeque<Option<Box<[u8]>>>,
    removed: u64,
}

impl Ordered {
    fn add(&mut self, entry: Option<(Box<[u8]>, RawBson)>) {
        let arrival = self.removed + self.keys.len() as u64;
        self.keys
            .push_back(entry.as_ref().map(|(key, _)| key.clone()));
        if let Some((key, value)) = entry {
            self.entries.insert((key, arrival), value);
        }
    }

    fn remove(&mut self) -> usize {
        let arrival = self.removed;
        self.removed += 1;
        let entry = self.keys.pop_front().flatten().and_then(|key| {
            let value = self.entries.remove(&(key.clone(), arrival))?;
            Some((key, value))
        });
        Input::Ordered(entry).size_bytes()
    }

    fn value(&self, kind: Option<AccumulatorKind>, count: usize) -> RawBson {
        use AccumulatorKind as Kind;
        let mut values = self.entries.values();
        let first = |value: Option<&RawBson>| value.cloned().unwrap_or(RawBson::Null);
        let Some(kind) = kind else {
            return RawBson::Null;
        };
        match kind {
            Kind::Min | Kind::Top => first(values.next()),
            Kind::Max | Kind::Bottom => first(values.next_back()),
            Kind::MinN | Kind::TopN => array(values.take(count).cloned()),
            Kind::MaxN => array(values.rev().take(count).cloned()),
            Kind::BottomN => {
                let mut last: Vec<RawBson> = values.rev().take(count).cloned().collect();
                last.reverse();
                array(last)
            }
            // `$addToSet`: the first of each key, and on to the next key.
            _ => {
                let mut entry = self.entries.first_key_value();
                array(std::iter::from_fn(|| {
                    let ((key, _), value) = entry?;
                    let behind = (Bound::Excluded((key.clone(), u64::MAX)), Bound::Unbounded);
                    entry = self.entries.range(behind).next();
                    Some(value.clone())
                }))
            }
        }
    }
}

/// The first and the last point of a window.
pub(super) struct Ends {
    points: VecDeque<CurvePoint>,
    slides: bool,
}

impl Ends {
    fn new(slides: bool) -> Self {
        Self {
            points: VecDeque::new(),
            slides,
        }
    }

    fn add(&mut self, point: CurvePoint) -> usize {
        let mut freed = 0;
        if !self.slides && self.points.len() == 2 {
            freed = self.points.pop_back().map_or(0, point_bytes);
        }
        self.points.push_back(point);
        let grown = self.points.back().map_or(0, |point| {
            let values = point.x.iter().chain(&point.y);
            size_of::<Input>() + values.map(item_bytes).sum::<usize>()
        });
        grown.saturating_sub(freed)
    }

    fn remove(&mut self) -> usize {
        self.points.pop_front().map_or(0, point_bytes)
    }

    /// The change of the value by the change of what documents are sorted by.
    fn value(&self, function: &WindowFunction) -> Result<RawBson> {
        let FunctionKind::Derivative { unit } = function.kind else {
            return Ok(RawBson::Null);
        };
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else {
            return Ok(RawBson::Null);
        };
        let unit_ms = unit.map(Unit::millis);
        let run = |point: &CurvePoint| run_of(point, unit.is_some(), function.name);
        let (from, to) = (run(first)?, run(last)?);
        let (Some(low), Some(high)) = (known(first), known(last)) else {
            return Err(Error::location(
                5_624_903,
                "$derivative input must not be null or missing",
            ));
        };
        let mut rise = [Value::Raw(high), Value::Raw(low)];
        let rise = arithmetic::subtract(function.name, &mut rise)?;
        let distance = to.subtract(from);
        if distance.is_zero() {
            return Ok(RawBson::Null);
        }
        let mut quotient = [rise, arithmetic::from_number(distance)];
        let slope = arithmetic::divide(function.name, &mut quotient)?;
        let slope = match unit_ms {
            None => slope,
            Some(unit_ms) => {
                let mut factors = [slope, Value::int64(unit_ms)];
                arithmetic::multiply(function.name, &mut factors)?
            }
        };
        Ok(slope.to_raw()?.unwrap_or(RawBson::Null))
    }
}

fn point_bytes(point: CurvePoint) -> usize {
    Input::Point(point).size_bytes()
}

fn known(point: &CurvePoint) -> Option<RawBsonRef<'_>> {
    let value = point.y.as_ref().filter(|value| !is_nullish(value))?;
    Some(value.as_raw_bson_ref())
}

/// Where a point lies by what documents are sorted by: a number, or milliseconds.
fn run_of(point: &CurvePoint, dates: bool, name: &str) -> Result<Number> {
    match &point.x {
        Some(RawBson::DateTime(date)) if dates => Ok(Number::Int64(date.timestamp_millis())),
        Some(RawBson::DateTime(_)) => Err(Error::location(
            5_624_901,
            format!("{name} where the sortBy is a Date requires an 'unit'"),
        )),
        _ if dates => Err(Error::location(
            5_624_900,
            format!("{name} with 'unit' expects the sortBy field to be a Date"),
        )),
        other => {
            let number = other.as_ref().map(RawBson::as_raw_bson_ref);
            number.and_then(Number::from_raw).ok_or_else(|| {
                Error::location(
                    5_624_902,
                    format!("{name} (with no 'unit') expects the sortBy field to be numeric"),
                )
            })
        }
    }
}

/// The area below the curve of a window, by trapezoids.
#[derive(Default)]
pub(super) struct Integral {
    slides: Slides,
    points: VecDeque<(Number, Number)>,
    area: SlidingSum,
    unit_ms: Option<i64>,
}

impl Integral {
    fn add(&mut self, function: &WindowFunction, point: CurvePoint) -> Result<()> {
        let FunctionKind::Integral { unit } = function.kind else {
            return Ok(());
        };
        self.unit_ms = unit.map(Unit::millis);
        let number = |value: &Option<RawBson>| {
            let raw = value.as_ref().map(RawBson::as_raw_bson_ref);
            raw.and_then(Number::from_raw)
        };
        let date = match &point.x {
            Some(RawBson::DateTime(date)) => Some(Number::Int64(date.timestamp_millis())),
            _ => None,
        };
        let (Some(x), Some(y)) = (date.or(number(&point.x)), number(&point.y)) else {
            return Err(Error::location(
                5_423_900,
                "The input value of $integral window function must be a vector of 2 value, the first value must be \
                 numeric or date type and the second must be numeric.",
            ));
        };
        if date.is_none() && unit.is_some() {
            return Err(Error::location(
                5_423_901,
                "$integral with 'unit' expects the sortBy field to be a Date",
            ));
        }
        if date.is_some() && unit.is_none() {
            return Err(Error::location(
                5_423_902,
                "$integral (with no 'unit') expects the sortBy field to be numeric",
            ));
        }
        if let Some(last) = self.points.back() {
            let area = trapezoid(*last, (x, y));
            match self.slides.0 {
                true => self.area.add(Some(area)),
                false => {
                    self.area.change(area, true);
                    self.points.clear();
                }
            }
        }
        self.points.push_back((x, y));
        Ok(())
    }

    fn remove(&mut self) -> usize {
        self.points.pop_front();
        self.area.remove();
        Input::Number(None).size_bytes()
    }

    fn value(&self) -> RawBson {
        if self.points.is_empty() {
            return RawBson::Null;
        }
        let area = self.area.total();
        match self.unit_ms {
            None => raw_number(area),
            Some(unit_ms) => {
                let unit = Number::Double(unit_ms as f64);
                area.divide(unit).map_or(RawBson::Null, raw_number)
            }
        }
    }
}

/// The area between two points.
fn trapezoid((x, y): (Number, Number), (to_x, to_y): (Number, Number)) -> Number {
    let area = to_x.subtract(x).multiply(y.add(to_y));
    area.divide(Number::Int32(2)).unwrap_or(area)
}

/// An exponential moving average: computed in decimals, as MongoDB does.
#[derive(Default)]
pub(super) struct MovingAverage {
    average: Option<Decimal>,
    /// Whether a decimal was among the numbers.
    is_decimal: bool,
}

impl MovingAverage {
    fn add(&mut self, number: Option<Number>, [alpha, rest]: [Decimal; 2]) {
        let Some(number) = number else {
            return;
        };
        self.is_decimal |= matches!(number, Number::Decimal(_));
        let newest = number.to_decimal();
        self.average = Some(match self.average {
            None => newest,
            Some(average) => newest.multiply(alpha).add(average.multiply(rest)),
        });
    }

    fn value(&self) -> RawBson {
        match self.average {
            None => RawBson::Null,
            Some(average) if self.is_decimal => raw_number(Number::Decimal(average)),
            Some(average) => RawBson::Double(average.to_f64()),
        }
    }
}

/// Where the document at hand stands among those before it.
#[derive(Default)]
pub(super) struct Rank {
    last: Option<Box<[u8]>>,
    documents: i64,
    rank: i64,
    dense: i64,
}

impl Rank {
    fn add(&mut self, entry: Option<(Box<[u8]>, RawBson)>) {
        let key = entry.map(|(key, _)| key);
        self.documents += 1;
        if self.documents == 1 || key != self.last {
            (self.rank, self.last) = (self.documents, key);
            self.dense += 1;
        }
    }

    fn value(&self, kind: &FunctionKind) -> i64 {
        match kind {
            FunctionKind::Rank => self.rank,
            FunctionKind::DenseRank => self.dense,
            _ => self.documents,
        }
    }
}
