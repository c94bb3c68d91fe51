//! `$inc` and `$mul`.

use super::{Outcome, Value};
use crate::error::{Error, Result};
use crate::text;
use crate::types::type_name;
use crate::update::apply::{Existing, Place};
use bson::raw::RawBsonRef;
use meridian_value::number::Number;

/// `$inc` or `$mul` with its operand.
#[derive(Debug)]
pub(in crate::update) struct Arithmetic {
    operation: Operation,
    operand: Number,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::update) enum Operation {
    Increment,
    Multiply,
}

impl Arithmetic {
    /// `$inc`.
    ///
    /// # Errors
    /// `TypeMismatch` when the operand is not a number.
    pub fn increment(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        Self::parse(Operation::Increment, field, operand)
    }

    /// `$mul`.
    ///
    /// # Errors
    /// `TypeMismatch` when the operand is not a number.
    pub fn multiply(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        Self::parse(Operation::Multiply, field, operand)
    }

    fn parse(operation: Operation, field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        let verb = match operation {
            Operation::Increment => "increment",
            Operation::Multiply => "multiply",
        };
        let number = Number::from_raw(operand).ok_or_else(|| {
            Error::type_mismatch(format!(
                "Cannot {verb} with non-numeric argument: {{{}}}",
                text::element(field, operand)
            ))
        })?;
        Ok(Self {
            operation,
            operand: number,
            value: Value::new(operand),
        })
    }

    fn name(&self) -> &'static str {
        match self.operation {
            Operation::Increment => "$inc",
            Operation::Multiply => "$mul",
        }
    }

    /// The result where there is a value.
    pub fn update(&self, existing: &Existing<'_>, place: &Place<'_>) -> Result<Outcome> {
        let current = Number::from_raw(existing.value).ok_or_else(|| {
            Error::type_mismatch(format!(
                "Cannot apply {} to a value of non-numeric type. {{{}}} has the field '{}' of non-numeric type {}",
                self.name(),
                place.document_id(),
                existing.name,
                type_name(existing.value.element_type())
            ))
        })?;
        let result = match self.operation {
            Operation::Increment => current.checked_add(self.operand),
            Operation::Multiply => current.checked_multiply(self.operand),
        };
        let result = result.ok_or_else(|| {
            Error::bad_value(format!(
                "Failed to apply {} operations to current value ((NumberLong){}) for document {{{}}}",
                self.name(),
                text::text(existing.value),
                place.document_id()
            ))
        })?;
        let value = to_value(result);
        // Equal as numbers of one type, so that 0.0 is -0.0, 5.0 is 5.00, and NaN is nothing.
        let same =
            value.kind() == existing.kind && !result.is_nan() && result.compare(current).is_eq();
        Ok(if same {
            Outcome::Unchanged
        } else {
            Outcome::Set(value)
        })
    }

    /// The result where there is no value: the operand, or a zero of its type.
    pub fn create(&self) -> Value {
        match self.operation {
            Operation::Increment => self.value.clone(),
            Operation::Multiply => to_value(Number::Int32(0).multiply(self.operand)),
        }
    }
}

fn to_value(number: Number) -> Value {
    match number {
        Number::Int32(value) => Value::new(value),
        Number::Int64(value) => Value::new(value),
        Number::Double(value) => Value::new(value),
        Number::Decimal(value) => Value::new(value.to_bson()),
    }
}
