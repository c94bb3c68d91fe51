//! Which documents a window holds: parsed from the `window` of a window function.

use crate::error::{Error, Result};
use crate::expression::time::{Unit, Zone, add as add_to_date};
use crate::expression::value::corrupt;
use crate::expression::{Expression, Value, VariableScope, display, named_unit, number};
use crate::text;
use bson::{RawBson, RawBsonRef, RawDocument};
use meridian_value::number::Number;
use std::cmp::Ordering;

/// The documents of a window, relative to the document at hand, both ends included; none is unbounded.
#[derive(Debug, Clone)]
pub(super) enum Window {
    /// By position.
    Documents {
        lower: Option<i64>,
        upper: Option<i64>,
    },
    /// By the field that documents are sorted by.
    Range(RangeWindow),
}

/// By the distance of the field that documents are sorted by.
#[derive(Debug, Clone)]
pub(super) struct RangeWindow {
    pub lower: Option<RangeEnd>,
    pub upper: Option<RangeEnd>,
    /// What dates are counted in; without it the field holds numbers.
    pub unit: Option<Unit>,
}

/// An end of a window by range.
#[derive(Debug, Clone, Copy)]
pub(super) enum RangeEnd {
    /// The document at hand, without others that lie where it does.
    Current,
    /// So far from it.
    At(Number),
}

/// Where a document lies in a range.
#[derive(Debug, Clone, Copy)]
pub(super) enum RangeKey {
    Number(Number),
    /// Milliseconds since 1970.
    Date(i64),
}

impl RangeKey {
    /// The order of the keys of one window, which are all of one kind.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.compare(other),
            (Self::Date(one), Self::Date(other)) => one.cmp(&other),
            (Self::Number(_), Self::Date(_)) => Ordering::Less,
            (Self::Date(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::failed_to_parse(message.into())
}

impl Window {
    /// All documents of the partition.
    pub const ALL: Self = Self::Documents {
        lower: None,
        upper: None,
    };

    /// From the partition's beginning to the document at hand.
    pub const SO_FAR: Self = Self::Documents {
        lower: None,
        upper: Some(0),
    };

    /// Parses the operand of `window`; `sort` is the stage's `sortBy`.
    ///
    /// # Errors
    /// `FailedToParse` for its shape, 5339900 for bounds in the wrong order, 5339901 and 5339902 without the order
    /// that the bounds need.
    pub fn parse(
        raw: RawBsonRef<'_>,
        sort: Option<&RawDocument>,
        scope: &VariableScope,
    ) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(refused("'window' field must be an object"));
        };
        let (mut documents, mut range, mut unit, mut others) = (None, None, None, false);
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match key.as_str() {
                "documents" => documents = Some(raw),
                "range" => range = Some(raw),
                "unit" => unit = Some(raw),
                _ => others = true,
            }
        }
        match (documents, range, unit) {
            (Some(_), Some(_), _) => Err(refused(
                "Window bounds can specify either 'documents' or 'unit', not both.",
            )),
            (_, None, Some(_)) => Err(refused(
                "Window bounds can only specify 'unit' with range-based bounds.",
            )),
            (Some(_), ..) if others => Err(refused(
                "'window' field that specifies documents cannot have other fields",
            )),
            (Some(bounds), ..) => Self::by_documents(bounds, sort, scope),
            (_, Some(_), _) if others => Err(refused(
                "'window' field that specifies range cannot have other fields besides 'unit'",
            )),
            (_, Some(bounds), unit) => Self::by_range(bounds, unit, sort, scope),
            _ if others => Err(refused(
                "'window' field can only contain 'documents' as the only argument or 'range' with an optional \
                 'unit' field",
            )),
            _ => Ok(Self::ALL),
        }
    }

    fn by_documents(
        raw: RawBsonRef<'_>,
        sort: Option<&RawDocument>,
        scope: &VariableScope,
    ) -> Result<Self> {
        let whole = |value: &Value<'_>| {
            let number = number(value).and_then(Number::to_i64_exact);
            number
                .filter(|bound| i32::try_from(*bound).is_ok())
                .ok_or_else(|| refused("Numeric document-based bounds must be an integer"))
        };
        let [lower, upper] = bounds("documents", raw, scope, 0, whole)?;
        if let (Some(lower), Some(upper)) = (lower, upper)
            && lower > upper
        {
            return Err(wrong_order(&lower, &upper));
        }
        let needs_order = lower.is_some() || upper.is_some();
        if needs_order && sort.is_none() {
            return Err(Error::location(
                5_339_901,
                "Document-based bounds require a sortBy",
            ));
        }
        Ok(Self::Documents { lower, upper })
    }

    fn by_range(
        raw: RawBsonRef<'_>,
        unit: Option<RawBsonRef<'_>>,
        sort: Option<&RawDocument>,
        scope: &VariableScope,
    ) -> Result<Self> {
        let unit = match unit {
            None => None,
            Some(RawBsonRef::String(text)) => Some(named_unit(text)?),
            Some(_) => return Err(refused("'unit' must be a string")),
        };
        let bound = |value: &Value<'_>| {
            let number = number(value);
            if unit.is_none() {
                return number
                    .ok_or_else(|| refused("Range-based bounds expression must be a number"));
            }
            let whole = number.and_then(Number::to_i64_exact);
            whole
                .and_then(|bound| i32::try_from(bound).ok())
                .map(Number::Int32)
                .ok_or_else(|| refused("With 'unit', range-based bounds must be an integer"))
        };
        let at = |value: &Value<'_>| bound(value).map(RangeEnd::At);
        let [lower, upper] = bounds("range", raw, scope, RangeEnd::Current, at)?;
        let distance = |end: Option<RangeEnd>| {
            end.map(|end| match end {
                RangeEnd::Current => Number::Int32(0),
                RangeEnd::At(distance) => distance,
            })
        };
        if let (Some(lower), Some(upper)) = (distance(lower), distance(upper))
            && lower.compare(upper).is_gt()
        {
            let shown = |number: Number| {
                display(&Value::Raw(
                    RawBson::try_from(number.to_bson())
                        .unwrap_or(RawBson::Null)
                        .as_raw_bson_ref(),
                ))
            };
            return Err(wrong_order(&shown(lower), &shown(upper)));
        }
        if sort.is_none_or(|sort| sort.iter().count() != 1) {
            return Err(Error::location(
                5_339_902,
                "Range-based bounds require sortBy a single field",
            ));
        }
        Ok(Self::Range(RangeWindow { lower, upper, unit }))
    }
}

fn wrong_order(lower: &impl std::fmt::Display, upper: &impl std::fmt::Display) -> Error {
    Error::location(
        5_339_900,
        format!("Lower bound must not exceed upper bound: [{lower}, {upper}]"),
    )
}

/// The two ends of a window: `"unbounded"`, `"current"`, or a constant that `bound` takes.
fn bounds<T: Copy>(
    name: &str,
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    current: T,
    bound: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<[Option<T>; 2]> {
    let pair = match raw {
        RawBsonRef::Array(array) => {
            let items: std::result::Result<Vec<_>, _> = array.into_iter().take(3).collect();
            <[RawBsonRef<'_>; 2]>::try_from(items.map_err(corrupt)?).ok()
        }
        _ => None,
    };
    let Some([lower, upper]) = pair else {
        let shown = text::element(name, raw);
        return Err(refused(format!(
            "Window bounds must be a 2-element array: {shown}"
        )));
    };
    let end = |raw: RawBsonRef<'_>| match raw {
        RawBsonRef::String("unbounded") => Ok(None),
        RawBsonRef::String("current") => Ok(Some(current)),
        RawBsonRef::String(_) => Err(not_a_bound()),
        raw => match Expression::parse(raw, scope)?.constant() {
            Some(value) => bound(&value).map(Some),
            None => Err(not_a_bound()),
        },
    };
    Ok([end(lower)?, end(upper)?])
}

fn not_a_bound() -> Error {
    refused("Window bounds must be 'unbounded', 'current', or a number.")
}

impl RangeWindow {
    /// Where a document lies by the value of the field that it is sorted by.
    ///
    /// # Errors
    /// 5429413, 5429414 and 5429513 for a value that is not of the kind that the window needs.
    pub fn key(&self, value: &Value<'_>) -> Result<RangeKey> {
        let date = match value {
            Value::Raw(RawBsonRef::DateTime(date)) => Some(date.timestamp_millis()),
            _ => None,
        };
        match (self.unit, date, number(value)) {
            (Some(_), Some(date), _) => Ok(RangeKey::Date(date)),
            (None, _, Some(number)) => Ok(RangeKey::Number(number)),
            (Some(_), ..) => Err(Error::location(
                5_429_513,
                format!(
                    "Invalid range: Expected the sortBy field to be a Date, but it was {}",
                    value.type_name()
                ),
            )),
            (None, Some(_), _) => Err(Error::location(
                5_429_413,
                "Invalid range: For windows that involve date or time ranges, a unit must be provided.",
            )),
            (None, None, None) => Err(Error::location(
                5_429_414,
                format!(
                    "Invalid range: Expected the sortBy field to be a number, but it was {}",
                    value.type_name()
                ),
            )),
        }
    }

    /// An end of the window of a document.
    ///
    /// # Errors
    /// `Overflow` for a date that there is not.
    pub fn end(&self, key: RangeKey, distance: Number) -> Result<RangeKey> {
        match (key, self.unit) {
            (RangeKey::Number(number), _) => Ok(RangeKey::Number(number.add(distance))),
            (RangeKey::Date(date), unit) => {
                let amount = distance.to_i64_truncated().unwrap_or(0);
                let moved =
                    add_to_date(date, unit.unwrap_or(Unit::Millisecond), amount, &Zone::Utc);
                moved.map(RangeKey::Date).ok_or_else(|| {
                    Error::location(5_976_500, "date overflow in the bounds of a window")
                })
            }
        }
    }
}
