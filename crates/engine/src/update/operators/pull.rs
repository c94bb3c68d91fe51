//! `$pull` and `$pullAll`: elements taken out by value or by condition.

use super::{OwnedValue, ValueOutcome, array_bytes};
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::query::Filter;
use crate::types::type_name;
use crate::update::apply::ExistingValue;
use crate::update::raw::{Field, as_document, fields, write_document, write_element};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use meridian_value::Collation;

/// Which elements go.
#[derive(Debug)]
pub(in crate::update) enum Pull {
    /// Those equal to one of the values, which are in MongoDB's order.
    Values(Vec<OwnedValue>, Collation),
    /// Documents that match a filter.
    Documents(Box<Filter>),
    /// Any element that matches a filter on the field `""`, which holds it.
    Elements(Box<Filter>),
}

impl Pull {
    /// Parses the operand of `$pull`: a condition on the element, a filter on documents, or
    /// a value.
    ///
    /// # Errors
    /// What the filter is refused with; `$expr`, `$where`, `$text` and `$jsonSchema` always.
    pub fn parse(operand: RawBsonRef<'_>, collation: &Collation) -> Result<Self> {
        match operand {
            RawBsonRef::Document(condition) => {
                let first = condition.iter().next().transpose().map_err(malformed)?;
                if first.is_some_and(|(name, _)| is_field_operator(name.as_str())) {
                    return Self::elements(operand, collation);
                }
                refuse_contextual(condition)?;
                Ok(Self::Documents(Box::new(Filter::parse_by(
                    condition, collation,
                )?)))
            }
            RawBsonRef::RegularExpression(_) => Self::elements(operand, collation),
            value => Ok(Self::Values(
                vec![OwnedValue::new(value)],
                collation.clone(),
            )),
        }
    }

    /// Parses the operand of `$pullAll`.
    ///
    /// # Errors
    /// `BadValue` when it is not an array.
    pub fn parse_all(operand: RawBsonRef<'_>, collation: &Collation) -> Result<Self> {
        let RawBsonRef::Array(array) = operand else {
            return Err(Error::bad_value(format!(
                "$pullAll requires an array argument but was given a {}",
                type_name(operand.element_type())
            )));
        };
        let mut values = array
            .into_iter()
            .map(|value| Ok(OwnedValue::new(value.map_err(malformed)?)))
            .collect::<Result<Vec<_>>>()?;
        values.sort_by(|a, b| collation.compare(a.get(), b.get()));
        Ok(Self::Values(values, collation.clone()))
    }

    fn elements(condition: RawBsonRef<'_>, collation: &Collation) -> Result<Self> {
        let mut wrapped = RawDocumentBuf::new();
        wrapped.append(cstr!(""), condition);
        Ok(Self::Elements(Box::new(Filter::parse_by(
            &wrapped, collation,
        )?)))
    }

    /// The array without the elements that match.
    pub fn update(&self, existing: &ExistingValue<'_>) -> Result<ValueOutcome> {
        let array = array_bytes(existing, |_| {
            Error::bad_value("Cannot apply $pull to a non-array value")
        })?;
        let mut scratch = Vec::new();
        let mut kept = Vec::new();
        let mut removed = false;
        for field in fields(array) {
            let field = field?;
            if self.matches(&field, &mut scratch)? {
                removed = true;
            } else {
                kept.push((field.kind(), field.payload()));
            }
        }
        Ok(if removed {
            ValueOutcome::Set(OwnedValue::array(kept))
        } else {
            ValueOutcome::Unchanged
        })
    }

    fn matches(&self, field: &Field<'_>, scratch: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Values(values, collation) => {
                let value = field.value()?;
                let found =
                    values.binary_search_by(|candidate| collation.compare(candidate.get(), value));
                Ok(found.is_ok())
            }
            Self::Documents(filter) => match field.value()? {
                RawBsonRef::Document(document) => filter.matches(document),
                _ => Ok(false),
            },
            Self::Elements(filter) => {
                scratch.clear();
                write_document(scratch, |out| {
                    write_element(out, "", field.kind(), field.payload());
                });
                filter.matches(as_document(scratch)?)
            }
        }
    }
}

/// Whether a condition that begins with this name is one on the element itself.
fn is_field_operator(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "$all",
        "$bitsAllClear",
        "$bitsAllSet",
        "$bitsAnyClear",
        "$bitsAnySet",
        "$elemMatch",
        "$eq",
        "$exists",
        "$geoIntersects",
        "$geoNear",
        "$geoWithin",
        "$gt",
        "$gte",
        "$in",
        "$lt",
        "$lte",
        "$mod",
        "$ne",
        "$near",
        "$nearSphere",
        "$nin",
        "$options",
        "$regex",
        "$size",
        "$type",
        "$within",
    ];
    NAMES.binary_search(&name).is_ok()
}

/// Refuses what only a query of whole documents may ask.
///
/// # Errors
/// `QueryFeatureNotAllowed` or `BadValue` that names it.
pub(in crate::update) fn refuse_contextual(condition: &RawDocument) -> Result<()> {
    for element in condition.iter() {
        let (name, value) = element.map_err(malformed)?;
        let message = || format!("{} is not allowed in this context", name.as_str());
        match (name.as_str(), value) {
            ("$expr" | "$jsonSchema", _) => {
                return Err(Error::new(Code::QueryFeatureNotAllowed, message()));
            }
            ("$where" | "$text", _) => return Err(Error::bad_value(message())),
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                for branch in branches.into_iter().flatten() {
                    if let RawBsonRef::Document(branch) = branch {
                        refuse_contextual(branch)?;
                    }
                }
            }
            _ => (),
        }
    }
    Ok(())
}
