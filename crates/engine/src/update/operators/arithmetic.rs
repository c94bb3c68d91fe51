//! `$inc` and `$mul`.

use super::{OwnedValue, ValueOutcome};
use crate::error::{Error, Result};
use crate::text;
use crate::types::type_name;
use crate::update::apply::{ExistingValue, OperatorPosition};
use bson::raw::RawBsonRef;
use meridian_value::number::Number;

/// `$inc` or `$mul` with its operand.
#[derive(Debug)]
pub(in crate::update) struct Arithmetic {
    operation: ArithmeticOperation,
    operand: Number,
    value: OwnedValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::update) enum ArithmeticOperation {
    Increment,
    Multiply,
}

impl Arithmetic {
    /// `$inc`.
    ///
    /// # Errors
    /// `TypeMismatch` when the operand is not a number.
    pub fn increment(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        Self::parse(ArithmeticOperation::Increment, field, operand)
    }

    /// `$mul`.
    ///
    /// # Errors
    /// `TypeMismatch` when the operand is not a number.
    pub fn multiply(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        Self::parse(ArithmeticOperation::Multiply, field, operand)
    }

    fn parse(operation: ArithmeticOperation, field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        let verb = match operation {
            ArithmeticOperation::Increment => "increment",
            ArithmeticOperation::Multiply => "multiply",
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
            value: OwnedValue::new(operand),
        })
    }

    fn name(&self) -> &'static str {
        match self.operation {
            ArithmeticOperation::Increment => "$inc",
            ArithmeticOperation::Multiply => "$mul",
        }
    }

    /// The result where there is a value.
    pub fn update(
        &self,
        existing: &ExistingValue<'_>,
        place: &OperatorPosition<'_>,
    ) -> Result<ValueOutcome> {
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
            ArithmeticOperation::Increment => current.checked_add(self.operand),
            ArithmeticOperation::Multiply => current.checked_multiply(self.operand),
        };
        let result = result.ok_or_else(|| {
            Error::bad_value(format!(
                "Failed to apply {} operations to current value (({}){}) for document {{{}}}",
                self.name(),
                match current {
                    Number::Int32(_) => "NumberInt",
                    _ => "NumberLong",
                },
                text::text(existing.value),
                place.document_id()
            ))
        })?;
        let value = to_value(result);
        // Equal as numbers of one type, so that 0.0 is -0.0, 5.0 is 5.00, and NaN is nothing.
        let same =
            value.kind() == existing.kind && !result.is_nan() && result.compare(current).is_eq();
        Ok(if same {
            ValueOutcome::Unchanged
        } else {
            ValueOutcome::Set(value)
        })
    }

    /// The result where there is no value: the operand, or a zero of its type.
    pub fn create(&self) -> OwnedValue {
        match self.operation {
            ArithmeticOperation::Increment => self.value.clone(),
            ArithmeticOperation::Multiply => to_value(Number::Int32(0).multiply(self.operand)),
        }
    }
}

fn to_value(number: Number) -> OwnedValue {
    match number {
        Number::Int32(value) => OwnedValue::new(value),
        Number::Int64(value) => OwnedValue::new(value),
        Number::Double(value) => OwnedValue::new(value),
        Number::Decimal(value) => OwnedValue::new(value.to_bson()),
    }
}
