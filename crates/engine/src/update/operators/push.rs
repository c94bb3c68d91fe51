//! `$push` with `$each`, `$position`, `$sort` and `$slice`.

use super::{OwnedValue, ValueOutcome, array_bytes, whole_number};
use crate::error::malformed;
use crate::error::{Error, Result};
use crate::types::type_name;
use crate::update::apply::{ExistingValue, OperatorPosition};
use crate::update::path::array_index;
use crate::update::raw::{ARRAY, fields, splice, write_indexed};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::Collation;
use std::cmp::Ordering;

/// `$push` with its clauses.
#[derive(Debug, Default)]
pub(in crate::update) struct Push {
    values: Vec<OwnedValue>,
    /// Where the values go in; at the end when absent, counted from the end when negative.
    position: Option<i64>,
    sort: Option<(PushOrder, Collation)>,
    /// How many elements stay: the first ones, or the last ones when negative.
    slice: Option<i64>,
}

/// What `$sort` compares.
#[derive(Debug)]
enum PushOrder {
    Values(Direction),
    Fields(Vec<(Box<str>, Direction)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// An element on its way into the new array.
type Element<'a> = (u8, &'a [u8], RawBsonRef<'a>);

impl Push {
    /// Parses a value or `{$each: [...], ...}`.
    ///
    /// # Errors
    /// `BadValue` for a wrong or unknown clause.
    pub fn parse(operand: RawBsonRef<'_>, collation: &Collation) -> Result<Self> {
        let clauses = operand.as_document().filter(|document| {
            document
                .iter()
                .flatten()
                .any(|(name, _)| name.as_str() == "$each")
        });
        let Some(clauses) = clauses else {
            return Ok(Self {
                values: vec![OwnedValue::new(operand)],
                ..Self::default()
            });
        };
        let mut push = Self::default();
        for element in clauses.iter() {
            let (name, value) = element.map_err(malformed)?;
            match name.as_str() {
                "$each" => push.values = parse_each(value)?,
                "$slice" => push.slice = Some(parse_slice(value)?),
                "$sort" => push.sort = Some((PushOrder::parse(value)?, collation.clone())),
                "$position" => push.position = Some(parse_position(value)?),
                other => {
                    return Err(Error::bad_value(format!(
                        "Unrecognized clause in $push: {other}"
                    )));
                }
            }
        }
        Ok(push)
    }

    /// The values that the operator can add.
    pub fn values(&self) -> &[OwnedValue] {
        &self.values
    }

    /// The array with the values in it.
    pub fn update(
        &self,
        existing: &ExistingValue<'_>,
        place: &OperatorPosition<'_>,
    ) -> Result<ValueOutcome> {
        let array = array_bytes(existing, |kind| {
            Error::bad_value(format!(
                "The field '{}' must be an array but is of type {kind} in document {{{}}}",
                place.path,
                place.document_id()
            ))
        })?;
        if self.position.is_none() && self.sort.is_none() && self.slice.is_none() {
            return self.append(array);
        }
        let mut elements: Vec<Element<'_>> = fields(array)
            .map(|field| {
                field.and_then(|field| Ok((field.kind(), field.payload(), field.value()?)))
            })
            .collect::<Result<_>>()?;
        let length = elements.len();
        let cut = self.arrange(&mut elements);
        if self.values.is_empty() && self.sort.is_none() && cut == length {
            return Ok(ValueOutcome::Unchanged);
        }
        Ok(ValueOutcome::Set(OwnedValue::array(
            elements
                .into_iter()
                .map(|(kind, payload, _)| (kind, payload)),
        )))
    }

    /// The array where there is none.
    pub fn create(&self) -> OwnedValue {
        let mut elements = Vec::new();
        self.arrange(&mut elements);
        OwnedValue::array(
            elements
                .into_iter()
                .map(|(kind, payload, _)| (kind, payload)),
        )
    }

    /// The commonest case: the old elements' bytes are copied as they are.
    fn append(&self, array: &RawDocument) -> Result<ValueOutcome> {
        if self.values.is_empty() {
            return Ok(ValueOutcome::Unchanged);
        }
        let mut length = 0;
        for field in fields(array) {
            field?;
            length += 1;
        }
        Ok(ValueOutcome::Set(OwnedValue::build(ARRAY, |out| {
            splice(array.as_bytes(), &mut [], out, |out| {
                for (offset, value) in self.values.iter().enumerate() {
                    write_indexed(out, length + offset, value.kind(), value.payload());
                }
            });
        })))
    }

    /// Puts the values in, sorts, cuts; returns how many elements are left.
    fn arrange<'a>(&'a self, elements: &mut Vec<Element<'a>>) -> usize {
        let at = insertion_index(elements.len(), self.position);
        let new = self
            .values
            .iter()
            .map(|value| (value.kind(), value.payload(), value.get()));
        elements.splice(at..at, new);
        if let Some((order, collation)) = &self.sort {
            elements.sort_by(|left, right| order.compare(left.2, right.2, collation));
        }
        match self.slice {
            Some(count) if count < 0 => {
                let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
                elements.drain(..elements.len().saturating_sub(kept));
            }
            Some(count) => elements.truncate(usize::try_from(count).unwrap_or(usize::MAX)),
            None => (),
        }
        elements.len()
    }
}

fn insertion_index(length: usize, position: Option<i64>) -> usize {
    match position {
        None => length,
        Some(position) => {
            let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
            if position < 0 {
                length.saturating_sub(distance)
            } else {
                length.min(distance)
            }
        }
    }
}

fn parse_each(value: RawBsonRef<'_>) -> Result<Vec<OwnedValue>> {
    let RawBsonRef::Array(array) = value else {
        return Err(Error::bad_value(format!(
            "The argument to $each in $push must be an array but it was of type: {}",
            type_name(value.element_type())
        )));
    };
    array
        .into_iter()
        .map(|value| Ok(OwnedValue::new(value.map_err(malformed)?)))
        .collect()
}

fn parse_slice(value: RawBsonRef<'_>) -> Result<i64> {
    whole_number(value).ok_or_else(|| {
        Error::bad_value(format!(
            "The value for $slice must be an integer value but was given type: {}",
            type_name(value.element_type())
        ))
    })
}

fn parse_position(value: RawBsonRef<'_>) -> Result<i64> {
    whole_number(value).ok_or_else(|| {
        Error::bad_value(format!(
            "The value for $position must be an integer value, not of type: {}",
            type_name(value.element_type())
        ))
    })
}

impl PushOrder {
    fn parse(value: RawBsonRef<'_>) -> Result<Self> {
        if meridian_value::number::Number::from_raw(value).is_some() {
            let direction = Direction::parse(value).ok_or_else(|| {
                Error::bad_value("The $sort element value must be either 1 or -1")
            })?;
            return Ok(Self::Values(direction));
        }
        let RawBsonRef::Document(document) = value else {
            return Err(Error::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
            ));
        };
        let fields = document.iter().map(|element| {
            let (name, value) = element.map_err(malformed)?;
            let direction = Direction::parse(value)
                .ok_or_else(|| Error::bad_value("The sort element value must be either 1 or -1"))?;
            check_sort_field(name.as_str())?;
            Ok((name.as_str().into(), direction))
        });
        let fields: Vec<(Box<str>, Direction)> = fields.collect::<Result<_>>()?;
        if fields.is_empty() {
            return Err(Error::bad_value(
                "The sort pattern is empty when it should be a set of fields.",
            ));
        }
        Ok(Self::Fields(fields))
    }

    fn compare(
        &self,
        left: RawBsonRef<'_>,
        right: RawBsonRef<'_>,
        collation: &Collation,
    ) -> Ordering {
        match self {
            Self::Values(direction) => direction.apply(collation.compare(left, right)),
            Self::Fields(fields) => fields
                .iter()
                .map(|(path, direction)| {
                    direction.apply(collation.compare(at(left, path), at(right, path)))
                })
                .find(|ordering| ordering.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

impl Direction {
    fn parse(value: RawBsonRef<'_>) -> Option<Self> {
        match whole_number(value) {
            Some(1) => Some(Self::Ascending),
            Some(-1) => Some(Self::Descending),
            _ => None,
        }
    }

    fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

fn check_sort_field(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::bad_value("The sort field cannot be empty"));
    }
    if name.split('.').any(str::is_empty) {
        return Err(Error::bad_value(format!(
            "The sort field is a dotted field but has an empty part: {name}"
        )));
    }
    Ok(())
}

/// The value at a dotted path of an element; null when there is none. Arrays on the way are
/// entered by index only.
fn at<'a>(element: RawBsonRef<'a>, path: &str) -> RawBsonRef<'a> {
    let RawBsonRef::Document(_) = element else {
        return RawBsonRef::Null;
    };
    let mut value = element;
    for part in path.split('.') {
        let child = match value {
            RawBsonRef::Document(document) => document.get(part).ok().flatten(),
            RawBsonRef::Array(array) => {
                array_index(part).and_then(|index| array.get(index).ok().flatten())
            }
            _ => None,
        };
        match child {
            Some(child) => value = child,
            None => return RawBsonRef::Null,
        }
    }
    value
}
