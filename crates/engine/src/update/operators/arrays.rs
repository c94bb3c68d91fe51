//! `$addToSet` and `$pop`.

use super::{OwnedValue, ValueOutcome, array_bytes, whole_number};
use crate::error::malformed;
use crate::error::{Error, Result};
use crate::text;
use crate::types::type_name;
use crate::update::apply::{ExistingValue, OperatorPosition};
use crate::update::raw::{ARRAY, Edit, fields, splice, write_indexed};
use bson::raw::RawBsonRef;
use meridian_value::Collation;

/// `$addToSet` with the values it adds.
#[derive(Debug)]
pub(in crate::update) struct AddToSet {
    /// The values, each once, in the client's order.
    values: Vec<OwnedValue>,
    /// Their positions in MongoDB's order of values.
    sorted: Vec<usize>,
    collation: Collation,
}

impl AddToSet {
    /// Parses a value or `{$each: [...]}`.
    ///
    /// # Errors
    /// `TypeMismatch` when `$each` is not an array, `BadValue` for fields after it.
    pub fn parse(operand: RawBsonRef<'_>, collation: &Collation) -> Result<Self> {
        let values = match operand {
            RawBsonRef::Document(document) => {
                match document.iter().next().transpose().map_err(malformed)? {
                    Some((name, each)) if name.as_str() == "$each" => {
                        let RawBsonRef::Array(array) = each else {
                            return Err(Error::type_mismatch(format!(
                                "The argument to $each in $addToSet must be an array but it was of type {}",
                                type_name(each.element_type())
                            )));
                        };
                        if document.iter().count() > 1 {
                            return Err(Error::bad_value(format!(
                                "Found unexpected fields after $each in $addToSet: {}",
                                text::document_text(document)
                            )));
                        }
                        array
                            .into_iter()
                            .map(|value| Ok(OwnedValue::new(value.map_err(malformed)?)))
                            .collect::<Result<Vec<_>>>()?
                    }
                    _ => vec![OwnedValue::new(operand)],
                }
            }
            _ => vec![OwnedValue::new(operand)],
        };
        Ok(Self::of(values, collation))
    }

    fn of(values: Vec<OwnedValue>, collation: &Collation) -> Self {
        let compare = |a: &OwnedValue, b: &OwnedValue| collation.compare(a.get(), b.get());
        let mut sorted: Vec<usize> = (0..values.len()).collect();
        // Stable, so that of equal values the client's first one stays.
        sorted.sort_by(|a, b| compare(&values[*a], &values[*b]));
        sorted.dedup_by(|later, earlier| compare(&values[*later], &values[*earlier]).is_eq());
        let mut kept = sorted.clone();
        kept.sort_unstable();
        let values: Vec<OwnedValue> = kept.iter().map(|index| values[*index].clone()).collect();
        let mut sorted: Vec<usize> = (0..values.len()).collect();
        sorted.sort_by(|a, b| compare(&values[*a], &values[*b]));
        Self {
            values,
            sorted,
            collation: collation.clone(),
        }
    }

    /// The array with the values that it lacked at its end.
    pub fn update(&self, existing: &ExistingValue<'_>) -> Result<ValueOutcome> {
        let array = array_bytes(existing, |kind| {
            Error::bad_value(format!(
                "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {kind}",
                existing.name
            ))
        })?;
        let mut present = vec![false; self.values.len()];
        let mut length = 0;
        for field in fields(array) {
            let value = field?.value()?;
            let compare = |index: &usize| self.collation.compare(self.values[*index].get(), value);
            let found = self.sorted.binary_search_by(compare);
            if let Ok(at) = found {
                present[self.sorted[at]] = true;
            }
            length += 1;
        }
        let missing = || {
            self.values
                .iter()
                .zip(&present)
                .filter(|(_, present)| !**present)
        };
        if missing().next().is_none() {
            return Ok(ValueOutcome::Unchanged);
        }
        Ok(ValueOutcome::Set(OwnedValue::build(ARRAY, |out| {
            splice(array.as_bytes(), &mut [], out, |out| {
                for (offset, (value, _)) in missing().enumerate() {
                    write_indexed(out, length + offset, value.kind(), value.payload());
                }
            });
        })))
    }

    /// The values that the operator can add.
    pub fn values(&self) -> &[OwnedValue] {
        &self.values
    }

    /// The array where there is none.
    pub fn create(&self) -> OwnedValue {
        OwnedValue::array(
            self.values
                .iter()
                .map(|value| (value.kind(), value.payload())),
        )
    }
}

/// The end of an array that `$pop` shortens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::update) enum ArrayEnd {
    /// `-1`.
    First,
    /// `1`.
    Last,
}

impl ArrayEnd {
    /// Parses 1 or -1.
    ///
    /// # Errors
    /// `FailedToParse` for anything else.
    pub fn parse(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        let shown = || text::element(field, operand);
        if meridian_value::number::Number::from_raw(operand).is_none() {
            return Err(Error::failed_to_parse(format!(
                "Expected a number in: {}",
                shown()
            )));
        }
        match whole_number(operand) {
            Some(1) => Ok(Self::Last),
            Some(-1) => Ok(Self::First),
            Some(other) => Err(Error::failed_to_parse(format!(
                "$pop expects 1 or -1, found: {other}"
            ))),
            None => Err(Error::failed_to_parse(format!(
                "Expected an integer: {}",
                shown()
            ))),
        }
    }

    /// The array without its first or last element.
    pub fn pop(
        self,
        existing: &ExistingValue<'_>,
        place: &OperatorPosition<'_>,
    ) -> Result<ValueOutcome> {
        let array = array_bytes(existing, |kind| {
            Error::type_mismatch(format!(
                "Path '{}' contains an element of non-array type '{kind}'",
                place.path
            ))
        })?;
        let elements = fields(array).collect::<Result<Vec<_>>>()?;
        let Some(last) = elements.last() else {
            return Ok(ValueOutcome::Unchanged);
        };
        Ok(ValueOutcome::Set(match self {
            Self::Last => OwnedValue::build(ARRAY, |out| {
                let mut edits = [Edit {
                    range: last.range.clone(),
                    name: "",
                    value: None,
                }];
                splice(array.as_bytes(), &mut edits, out, |_| ());
            }),
            Self::First => OwnedValue::array(
                elements[1..]
                    .iter()
                    .map(|field| (field.kind(), field.payload())),
            ),
        }))
    }
}
