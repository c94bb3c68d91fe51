//! `$bit`: bitwise and, or and exclusive or on integers.

use super::{OwnedValue, ValueOutcome};
use crate::error::{Error, Result};
use crate::text;
use crate::types::type_name;
use crate::update::apply::{ExistingValue, OperatorPosition};
use bson::raw::RawBsonRef;

/// The operations of one `$bit`, in the order in which they apply.
#[derive(Debug)]
pub(in crate::update) struct Bits(Vec<(BitOperation, SizedInteger)>);

#[derive(Debug, Clone, Copy)]
enum BitOperation {
    And,
    Or,
    Xor,
}

/// An integer that remembers its width.
#[derive(Debug, Clone, Copy)]
enum SizedInteger {
    Int32(i32),
    Int64(i64),
}

impl SizedInteger {
    fn from_raw(value: RawBsonRef<'_>) -> Option<Self> {
        match value {
            RawBsonRef::Int32(value) => Some(Self::Int32(value)),
            RawBsonRef::Int64(value) => Some(Self::Int64(value)),
            _ => None,
        }
    }

    fn widened(self) -> i64 {
        match self {
            Self::Int32(value) => i64::from(value),
            Self::Int64(value) => value,
        }
    }

    fn to_value(self) -> OwnedValue {
        match self {
            Self::Int32(value) => OwnedValue::new(value),
            Self::Int64(value) => OwnedValue::new(value),
        }
    }
}

impl BitOperation {
    fn apply(self, left: SizedInteger, right: SizedInteger) -> SizedInteger {
        let bits = match self {
            Self::And => left.widened() & right.widened(),
            Self::Or => left.widened() | right.widened(),
            Self::Xor => left.widened() ^ right.widened(),
        };
        match (left, right) {
            // Bitwise operations on two sign-extended 32-bit numbers stay within 32 bits.
            (SizedInteger::Int32(_), SizedInteger::Int32(_)) => SizedInteger::Int32(bits as i32),
            _ => SizedInteger::Int64(bits),
        }
    }
}

impl Bits {
    /// Parses `{and: 1, or: 2, xor: 3}`.
    ///
    /// # Errors
    /// `BadValue` for another shape, operation or operand.
    pub fn parse(operand: RawBsonRef<'_>) -> Result<Self> {
        let RawBsonRef::Document(document) = operand else {
            return Err(Error::bad_value(format!(
                "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
                type_name(operand.element_type())
            )));
        };
        let mut operations = Vec::new();
        for element in document.iter() {
            let (name, value) = element.map_err(crate::error::malformed)?;
            let operation = match name.as_str() {
                "and" => BitOperation::And,
                "or" => BitOperation::Or,
                "xor" => BitOperation::Xor,
                other => {
                    return Err(Error::bad_value(format!(
                        "The $bit modifier only supports 'and', 'or', and 'xor', not '{other}' which is an unknown operator: {{{}}}",
                        text::element(other, value)
                    )));
                }
            };
            let integer = SizedInteger::from_raw(value).ok_or_else(|| {
                Error::bad_value(format!(
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}}}",
                    type_name(value.element_type()),
                    text::element(name.as_str(), value)
                ))
            })?;
            operations.push((operation, integer));
        }
        if operations.is_empty() {
            return Err(Error::bad_value(
                "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
            ));
        }
        Ok(Self(operations))
    }

    /// The result where there is a value.
    pub fn update(
        &self,
        existing: &ExistingValue<'_>,
        place: &OperatorPosition<'_>,
    ) -> Result<ValueOutcome> {
        let current = SizedInteger::from_raw(existing.value).ok_or_else(|| {
            Error::bad_value(format!(
                "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
                place.document_id(),
                existing.name,
                type_name(existing.value.element_type())
            ))
        })?;
        let value = self.apply(current).to_value();
        let same = value.kind() == existing.kind && value.payload() == existing.payload;
        Ok(if same {
            ValueOutcome::Unchanged
        } else {
            ValueOutcome::Set(value)
        })
    }

    /// The result where there is no value: the operations on an int32 zero.
    pub fn create(&self) -> OwnedValue {
        self.apply(SizedInteger::Int32(0)).to_value()
    }

    fn apply(&self, start: SizedInteger) -> SizedInteger {
        self.0.iter().fold(start, |value, (operation, operand)| {
            operation.apply(value, *operand)
        })
    }
}
