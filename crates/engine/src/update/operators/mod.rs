//! What each update operator does to one value.
//!
//! In: an operator with its operand, parsed, and the value it meets (or that there is none).
//! Out: whether the value stays, goes or changes. The walk to the value is the tree's.

mod arithmetic;
mod arrays;
mod bits;
mod dates;
mod pull;
mod push;
mod rename;

pub(super) use arithmetic::Arithmetic;
pub(super) use arrays::{AddToSet, ArrayEnd};
pub(super) use bits::Bits;
pub(super) use dates::CurrentDate;
pub use dates::next_timestamp;
pub(super) use pull::{Pull, refuse_contextual};
pub(super) use push::Push;
pub(super) use rename::{check_paths as check_rename, parse_paths as parse_rename};

use super::apply::{ExistingValue, OperatorPosition, ValueOutcome};
use super::path::UpdatePath;
use super::raw::{OwnedValue, depth};
use crate::error::{Error, Result};
use bson::raw::RawBsonRef;
use meridian_value::Collation;
use std::cmp::Ordering;

/// An operator with its operand.
#[derive(Debug)]
pub(super) enum UpdateOperator {
    /// `$set`.
    Set(OwnedValue),
    /// `$setOnInsert`.
    SetOnInsert(OwnedValue),
    /// `$unset`.
    Unset,
    /// `$inc` and `$mul`.
    Arithmetic(Arithmetic),
    /// `$min`: the value when it is less.
    Minimum(OwnedValue, Collation),
    /// `$max`: the value when it is greater.
    Maximum(OwnedValue, Collation),
    /// `$currentDate`.
    CurrentDate(CurrentDate),
    /// `$push`.
    Push(Push),
    /// `$addToSet`.
    AddToSet(AddToSet),
    /// `$pop`.
    Pop(ArrayEnd),
    /// `$pull` and `$pullAll`.
    Pull(Pull),
    /// `$bit`.
    Bits(Bits),
    /// `$rename`, at the new name: takes the value at this path.
    RenameFrom(UpdatePath),
    /// `$rename`, at the old name.
    RenameAway,
}

/// What an operator does where its path cannot be walked to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It would have created the path: an error.
    CannotCreate,
    /// It would have looked there: an error of another wording.
    CannotTraverse,
    /// Nothing.
    Ignored,
}

impl UpdateOperator {
    /// What the operator makes of a value that is there.
    pub fn update(
        &self,
        existing: &ExistingValue<'_>,
        place: &OperatorPosition<'_>,
    ) -> Result<ValueOutcome> {
        match self {
            Self::Set(value) => Ok(set(value, existing)),
            Self::SetOnInsert(value) if place.is_insert() => Ok(set(value, existing)),
            Self::SetOnInsert(_) => Ok(ValueOutcome::Unchanged),
            Self::Unset | Self::RenameAway => Ok(ValueOutcome::Removed),
            Self::Arithmetic(arithmetic) => arithmetic.update(existing, place),
            Self::Minimum(value, by) => Ok(set_if(Ordering::Less, value, existing, by)),
            Self::Maximum(value, by) => Ok(set_if(Ordering::Greater, value, existing, by)),
            Self::CurrentDate(kind) => Ok(set(&kind.now(), existing)),
            Self::Push(push) => push.update(existing, place),
            Self::AddToSet(set) => set.update(existing),
            Self::Pop(end) => end.pop(existing, place),
            Self::Pull(pull) => pull.update(existing),
            Self::Bits(bits) => bits.update(existing, place),
            Self::RenameFrom(source) => {
                let value = rename::source_value(source, place)?;
                // A modification even where the values are equal.
                Ok(value.map_or(ValueOutcome::Unchanged, ValueOutcome::Set))
            }
        }
    }

    /// The value the operator makes where there is none.
    pub fn create(&self, place: &OperatorPosition<'_>) -> Result<Option<OwnedValue>> {
        Ok(match self {
            Self::Set(value) | Self::Minimum(value, _) | Self::Maximum(value, _) => {
                Some(value.clone())
            }
            Self::SetOnInsert(value) => place.is_insert().then(|| value.clone()),
            Self::Unset | Self::Pop(_) | Self::Pull(_) | Self::RenameAway => None,
            Self::Arithmetic(arithmetic) => Some(arithmetic.create()),
            Self::CurrentDate(kind) => Some(kind.now()),
            Self::Push(push) => Some(push.create()),
            Self::AddToSet(set) => Some(set.create()),
            Self::Bits(bits) => Some(bits.create()),
            Self::RenameFrom(source) => rename::source_value(source, place)?,
        })
    }

    /// How many levels below itself a value that the operator made can have, as far as its
    /// operand decides: what a document already holds was checked before.
    pub fn depth(&self, made: &OwnedValue) -> usize {
        let deepest = |values: &[OwnedValue]| {
            values
                .iter()
                .map(|value| 1 + depth(value.get()))
                .max()
                .unwrap_or(0)
        };
        match self {
            Self::Push(push) => deepest(push.values()),
            Self::AddToSet(set) => deepest(set.values()),
            Self::Pop(_) | Self::Pull(_) => 0,
            _ => depth(made.get()),
        }
    }

    /// What the operator does where its path is blocked by a value that has no such field.
    pub fn when_blocked(&self, place: &OperatorPosition<'_>) -> Result<Blocked> {
        Ok(match self {
            Self::Unset | Self::RenameAway => Blocked::Ignored,
            Self::SetOnInsert(_) if !place.is_insert() => Blocked::Ignored,
            Self::RenameFrom(source) if rename::source_value(source, place)?.is_none() => {
                Blocked::Ignored
            }
            Self::Pop(_) | Self::Pull(_) => Blocked::CannotTraverse,
            _ => Blocked::CannotCreate,
        })
    }
}

fn set(value: &OwnedValue, existing: &ExistingValue<'_>) -> ValueOutcome {
    let same = value.kind() == existing.kind && value.payload() == existing.payload;
    if same {
        ValueOutcome::Unchanged
    } else {
        ValueOutcome::Set(value.clone())
    }
}

fn set_if(
    wanted: Ordering,
    value: &OwnedValue,
    existing: &ExistingValue<'_>,
    collation: &Collation,
) -> ValueOutcome {
    if collation.compare(value.get(), existing.value) == wanted {
        ValueOutcome::Set(value.clone())
    } else {
        ValueOutcome::Unchanged
    }
}

/// A whole number from a client's number: what `$slice`, `$position` and `$pop` take.
fn whole_number(value: RawBsonRef<'_>) -> Option<i64> {
    meridian_value::number::Number::from_raw(value)?.to_i64_exact()
}

/// The array an array operator works on.
fn array_bytes<'a>(
    existing: &ExistingValue<'a>,
    error: impl FnOnce(&'static str) -> Error,
) -> Result<&'a bson::RawDocument> {
    match existing.value {
        RawBsonRef::Array(_) => super::raw::as_document(existing.payload),
        other => Err(error(crate::types::type_name(other.element_type()))),
    }
}
