//! Sums, averages and deviations of numbers of any type.
//!
//! Sums of doubles carry their rounding error along (Neumaier), as MongoDB's do, and sums
//! of integers are exact until they no longer fit.

use meridian_value::number::{Decimal, Number};

/// A running sum of numbers of any type.
///
/// Small, since there is one for each group; what few sums have lies apart.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    integers: i64,
    double: f64,
    /// What rounding took from `double`.
    error: f64,
    rare: Option<Box<RareSums>>,
    kind: Widest,
    count: u64,
}

/// What sums seldom have.
#[derive(Debug, Clone, Default)]
struct RareSums {
    /// Of integers, what no longer fitted into the other sum.
    integers: i128,
    /// Of infinities and NaNs.
    special: Option<f64>,
    decimal: Option<Decimal>,
}

/// The widest type a sum has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Widest {
    #[default]
    Int,
    Long,
    Double,
    Decimal,
}

impl Sum {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: Number) {
        self.count += 1;
        match number {
            Number::Int32(value) => self.add_integer(value.into()),
            Number::Int64(value) => {
                self.add_integer(value);
                self.kind = self.kind.max(Widest::Long);
            }
            Number::Double(value) => {
                self.kind = self.kind.max(Widest::Double);
                self.add_double(value);
            }
            Number::Decimal(value) => {
                self.kind = Widest::Decimal;
                let sum = self.rare().decimal.get_or_insert(Decimal::ZERO);
                *sum = sum.add(value);
            }
        }
    }

    /// Adds a whole number so many times; exact for doubles as long as the product is.
    pub fn add_times(&mut self, number: Number, times: u64) {
        if times == 0 {
            return;
        }
        self.add(number);
        let more = times - 1;
        self.count += more;
        match number {
            Number::Int32(value) => self.add_integers(i128::from(value) * i128::from(more)),
            Number::Int64(value) => self.add_integers(i128::from(value) * i128::from(more)),
            #[allow(clippy::cast_precision_loss)]
            Number::Double(value) => self.add_double(value * more as f64),
            Number::Decimal(_) => unreachable!("decimals are added one by one"),
        }
    }

    /// Adds what another sum has added.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.kind = self.kind.max(other.kind);
        self.add_integers(other.integers());
        self.add_double(other.double);
        self.error += other.error;
        let Some(other) = other.rare else { return };
        let rare = self.rare();
        if let Some(special) = other.special {
            *rare.special.get_or_insert(0.0) += special;
        }
        if let Some(decimal) = other.decimal {
            rare.decimal = Some(rare.decimal.map_or(decimal, |sum| sum.add(decimal)));
        }
    }

    fn rare(&mut self) -> &mut RareSums {
        self.rare.get_or_insert_default()
    }

    fn special(&self) -> Option<f64> {
        self.rare.as_ref().and_then(|rare| rare.special)
    }

    fn decimal(&self) -> Option<Decimal> {
        self.rare.as_ref().and_then(|rare| rare.decimal)
    }

    fn integers(&self) -> i128 {
        let rare = self.rare.as_ref().map_or(0, |rare| rare.integers);
        i128::from(self.integers) + rare
    }

    #[inline]
    fn add_integer(&mut self, value: i64) {
        match self.integers.checked_add(value) {
            Some(sum) => self.integers = sum,
            None => self.rare().integers += i128::from(value),
        }
    }

    fn add_integers(&mut self, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.add_integer(value),
            Err(_) => self.rare().integers += value,
        }
    }

    /// Appends the bytes by which it is spilled: integers (i128), double, error, whether there is a special, special,
    /// whether there is a decimal, decimal (16 bytes), kind, count (u64); numbers little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.integers().to_le_bytes());
        out.extend_from_slice(&self.double.to_le_bytes());
        out.extend_from_slice(&self.error.to_le_bytes());
        out.push(u8::from(self.special().is_some()));
        out.extend_from_slice(&self.special().unwrap_or(0.0).to_le_bytes());
        out.push(u8::from(self.decimal().is_some()));
        let decimal = self.decimal().unwrap_or(Decimal::ZERO);
        out.extend_from_slice(&decimal.to_bson().bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.count.to_le_bytes());
    }

    /// What [`Self::encode`] wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (integers, rest) = bytes.split_first_chunk()?;
        let (double, rest) = rest.split_first_chunk()?;
        let (error, rest) = rest.split_first_chunk()?;
        let (has_special, rest) = rest.split_first()?;
        let (special, rest) = rest.split_first_chunk()?;
        let (has_decimal, rest) = rest.split_first()?;
        let (decimal, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let decimal = Decimal::from_bson(bson::Decimal128::from_bytes(*decimal));
        let integers = i128::from_le_bytes(*integers);
        let special = (*has_special == 1).then_some(f64::from_le_bytes(*special));
        let decimal = (*has_decimal == 1).then_some(decimal);
        let small = i64::try_from(integers);
        let is_rare = small.is_err() || special.is_some() || decimal.is_some();
        Some(Self {
            integers: small.unwrap_or(0),
            double: f64::from_le_bytes(*double),
            error: f64::from_le_bytes(*error),
            rare: is_rare.then(|| {
                Box::new(RareSums {
                    integers: small.map_or(integers, |_| 0),
                    special,
                    decimal,
                })
            }),
            kind: match kind {
                0 => Widest::Int,
                1 => Widest::Long,
                2 => Widest::Double,
                _ => Widest::Decimal,
            },
            count: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }

    #[inline]
    fn add_double(&mut self, value: f64) {
        if !value.is_finite() {
            *self.rare().special.get_or_insert(0.0) += value;
            return;
        }
        let sum = self.double + value;
        let part = sum - self.double;
        self.error += (self.double - (sum - part)) + (value - part);
        self.double = sum;
    }

    fn as_double(&self) -> f64 {
        if let Some(special) = self.special() {
            return special;
        }
        // An integer beyond 2^53 is added as two doubles, so that the sum is rounded once.
        let integers = self.integers();
        let high = integers as f64;
        let mut sum = Self {
            double: self.double,
            error: self.error,
            ..Self::default()
        };
        if integers != 0 {
            sum.add_double(high);
            sum.add_double((integers - high as i128) as f64);
        }
        if sum.double.is_finite() {
            sum.double + sum.error
        } else {
            sum.double
        }
    }

    fn as_decimal(&self) -> Decimal {
        let mut total = self.decimal().unwrap_or(Decimal::ZERO);
        let (special, integers) = (self.special(), self.integers());
        if self.double != 0.0 || special.is_some() {
            let doubles = special.unwrap_or(self.double);
            total = total.add(Decimal::from_f64_exact(doubles));
            if special.is_none() && self.error != 0.0 {
                total = total.add(Decimal::from_f64_exact(self.error));
            }
        }
        if integers != 0 {
            total = total.add(exact_decimal(integers));
        }
        total
    }

    /// The sum, in the widest type met; integers that no longer fit become a double.
    pub fn total(&self) -> Number {
        match (self.kind, i64::try_from(self.integers())) {
            (Widest::Decimal, _) => Number::Decimal(self.as_decimal()),
            (Widest::Int, Ok(total)) => {
                i32::try_from(total).map_or(Number::Int64(total), Number::Int32)
            }
            (Widest::Long, Ok(total)) => Number::Int64(total),
            _ => Number::Double(self.as_double()),
        }
    }

    /// The sum by the count; none where nothing was added.
    pub fn average(&self) -> Option<Number> {
        if self.count == 0 {
            return None;
        }
        Some(if self.kind == Widest::Decimal {
            let count = Decimal::from_i64(i64::try_from(self.count).unwrap_or(i64::MAX));
            Number::Decimal(self.as_decimal().divide(count))
        } else {
            Number::Double(self.as_double() / self.count as f64)
        })
    }
}

/// A sum of numbers that have an order: the arguments of an operator, the items of an array. It is rounded as MongoDB
/// rounds it, which depends on the order: what rounding took is added to the next number, and what that takes is not in the result.
/// (A [`Sum`] may be put together of parts, and must not depend on how it was cut.)
#[derive(Debug, Default)]
pub struct OrderedSum {
    sum: Sum,
    rounded: RoundedSum,
}

impl OrderedSum {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        self.sum.add(number);
        self.rounded.add(number);
    }

    /// The sum, in the widest type met.
    pub fn total(&self) -> Number {
        self.rounded(self.sum.total(), self.rounded.double())
    }

    /// The sum by the count; none where nothing was added.
    pub fn average(&self) -> Option<Number> {
        let average = self.sum.average()?;
        Some(self.rounded(average, self.rounded.double() / self.sum.count as f64))
    }

    fn rounded(&self, exact: Number, double: f64) -> Number {
        match exact {
            Number::Double(exact) if exact.is_finite() && double.is_finite() => {
                Number::Double(double)
            }
            exact => exact,
        }
    }
}

/// A sum of doubles as an [`OrderedSum`] rounds it: two doubles hold it. Numbers may be taken out of it by adding
/// their negatives.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundedSum {
    double: f64,
    /// What rounding took from `double`.
    rest: f64,
}

impl RoundedSum {
    /// Adds a number that is no decimal.
    #[inline]
    pub fn add(&mut self, number: Number) {
        match number {
            Number::Int32(value) => self.add_double(f64::from(value)),
            Number::Int64(value) => {
                // As two doubles, since one does not hold every long.
                let high = value as f64;
                self.add_double(high);
                self.add_double((i128::from(value) - high as i128) as f64);
            }
            Number::Double(value) => self.add_double(value),
            Number::Decimal(_) => {}
        }
    }

    /// Adds a double.
    #[inline]
    pub fn add_double(&mut self, value: f64) {
        let (value, rest) = two_sum(value, self.rest);
        let (double, more) = two_sum(self.double, value);
        self.double = double;
        self.rest = rest + more;
    }

    /// The sum, rounded.
    pub fn double(&self) -> f64 {
        self.double
    }

    /// The sum, with what rounding took from it.
    pub fn as_decimal(&self) -> Decimal {
        let rest = Decimal::from_f64_exact(self.rest);
        Decimal::from_f64_exact(self.double).add(rest)
    }
}

/// The rounded sum, and what rounding took from it (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// A running standard deviation (Welford).
#[derive(Debug, Clone, Default)]
pub struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        if delta != 0.0 {
            self.mean += delta / self.count as f64;
            self.squares += delta * (value - self.mean);
        }
    }

    /// Adds what another deviation has added (Chan, Golub and LeVeque).
    pub fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if other.count == 0 {
            return;
        }
        let delta = other.mean - self.mean;
        let share = other.count as f64 / count as f64;
        self.squares += other.squares + delta * delta * self.count as f64 * share;
        self.mean += delta * share;
        self.count = count;
    }

    /// Appends the bytes by which it is spilled: count, mean, squares, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.mean.to_le_bytes());
        out.extend_from_slice(&self.squares.to_le_bytes());
    }

    /// What [`Self::encode`] wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk()?;
        let (mean, rest) = rest.split_first_chunk()?;
        Some(Self {
            count: u64::from_le_bytes(*count),
            mean: f64::from_le_bytes(*mean),
            squares: f64::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// The deviation of a whole population; none of nothing.
    pub fn population(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// The deviation of a sample; none of fewer than two.
    pub fn sample(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

/// An integer of 128 bits, of which 34 digits stay.
fn exact_decimal(value: i128) -> Decimal {
    i64::try_from(value).map_or_else(
        |_| value.to_string().parse().unwrap_or(Decimal::ZERO),
        Decimal::from_i64,
    )
}
