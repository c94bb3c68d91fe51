//! `$linearFill`: what is not known between two known values, by a straight line between them.

use super::super::accumulator::as_value;
use super::state::{CurvePoint, Input, is_nullish};
use crate::error::{Error, Result};
use crate::expression::Value;
use crate::expression::arithmetic;
use crate::expression::value::compare;
use bson::RawBson;
use meridian_value::Collation;
use std::collections::VecDeque;

const NAME: &str = "$linearFill";

/// The values of a partition, as far as they wait for the next one that is known.
#[derive(Default)]
pub(super) struct LinearFill {
    /// The document at hand, and those behind it that have arrived.
    points: VecDeque<CurvePoint>,
    /// So many of them are not known, from the first on.
    unknown: usize,
    /// The last one that was known.
    left: Option<CurvePoint>,
    /// Where the last one lay.
    last: Option<RawBson>,
    bytes: usize,
}

impl LinearFill {
    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one more document.
    pub fn push(&mut self, input: Input) {
        self.bytes += input.size_bytes();
        if let Input::Point(point) = input {
            self.points.push_back(point);
        }
    }

    /// Whether the value of the document at hand can be told.
    pub fn is_ready(&mut self, all: bool) -> bool {
        while self
            .points
            .get(self.unknown)
            .is_some_and(|point| known(point).is_none())
        {
            self.unknown += 1;
        }
        all || self.unknown < self.points.len()
    }

    /// The value for the document at hand; the next one is at hand then.
    ///
    /// # Errors
    /// `TypeMismatch` for values and positions that are no numbers, 6050106 for a position that is there twice.
    pub fn next(&mut self) -> Result<Option<RawBson>> {
        let right = self.points.get(self.unknown);
        let Some(point) = self.points.front() else {
            return Ok(None);
        };
        self.check(point)?;
        let value = match (known(point), &self.left, right) {
            (Some(value), ..) => value.clone(),
            (None, Some(left), Some(right)) => interpolated(left, right, point)?,
            _ => RawBson::Null,
        };
        let Some(point) = self.points.pop_front() else {
            return Ok(None);
        };
        self.last = point.x.clone();
        self.unknown = self.unknown.saturating_sub(1);
        if known(&point).is_some() {
            self.left = Some(point);
        } else {
            self.bytes = self.bytes.saturating_sub(Input::Point(point).size_bytes());
        }
        Ok(Some(value))
    }

    fn check(&self, point: &CurvePoint) -> Result<()> {
        let value = as_value(point.y.as_ref());
        if !value.is_nullish() && !value.is_number() {
            return Err(Error::type_mismatch(format!(
                "Value to be filled must be numeric or nullish, but found {}",
                value.type_name()
            )));
        }
        let position = as_value(point.x.as_ref());
        if !is_number_or_date(&position) {
            return Err(Error::type_mismatch(format!(
                "Value of the sortBy field must be numeric or a date, but found {}",
                position.type_name()
            )));
        }
        if let Some(last) = &self.last {
            let last = Value::Raw(last.as_raw_bson_ref());
            if compare(&last, &position, &Collation::SIMPLE).is_eq() {
                return Err(Error::location(
                    6_050_106,
                    "There can be no repeated values in the sort field",
                ));
            }
        }
        Ok(())
    }
}

fn known(point: &CurvePoint) -> Option<&RawBson> {
    point.y.as_ref().filter(|value| !is_nullish(value))
}

fn is_number_or_date(value: &Value<'_>) -> bool {
    value.is_number() || matches!(value, Value::Raw(bson::RawBsonRef::DateTime(_)))
}

/// The value at a point between two others.
fn interpolated(left: &CurvePoint, right: &CurvePoint, at: &CurvePoint) -> Result<RawBson> {
    let minus = |one: &Option<RawBson>, other: &Option<RawBson>| {
        let mut pair = [as_value(one.as_ref()), as_value(other.as_ref())];
        let difference = arithmetic::subtract(NAME, &mut pair)?;
        difference.to_raw()
    };
    let rise = minus(&right.y, &left.y)?;
    let run = minus(&right.x, &left.x)?;
    let distance = minus(&at.x, &left.x)?;
    let slope = arithmetic::divide(NAME, &mut [as_value(rise.as_ref()), as_value(run.as_ref())])?;
    let moved = arithmetic::multiply(NAME, &mut [slope, as_value(distance.as_ref())])?;
    let value = arithmetic::add(NAME, &mut [as_value(left.y.as_ref()), moved])?;
    Ok(value.to_raw()?.unwrap_or(RawBson::Null))
}
