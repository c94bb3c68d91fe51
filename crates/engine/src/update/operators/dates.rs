//! `$currentDate`, and the server's timestamps.

use super::OwnedValue;
use crate::error::{Error, Result};
use crate::types::type_name;
use bson::raw::RawBsonRef;
use bson::{DateTime, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};

/// Which clock `$currentDate` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::update) enum CurrentDate {
    /// Milliseconds, as a date.
    Date,
    /// Seconds and an ordinal, as a timestamp.
    Timestamp,
}

impl CurrentDate {
    /// Parses `true`, `false`, `{$type: "date"}` or `{$type: "timestamp"}`.
    ///
    /// # Errors
    /// `BadValue` for anything else.
    pub fn parse(operand: RawBsonRef<'_>) -> Result<Self> {
        let document = match operand {
            RawBsonRef::Boolean(_) => return Ok(Self::Date),
            RawBsonRef::Document(document) => document,
            other => {
                return Err(Error::bad_value(format!(
                    "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
                    type_name(other.element_type())
                )));
            }
        };
        let mut kind = None;
        for element in document.iter() {
            let (name, value) = element.map_err(crate::error::malformed)?;
            match (name.as_str(), value) {
                ("$type", RawBsonRef::String("date")) => kind = Some(Self::Date),
                ("$type", RawBsonRef::String("timestamp")) => kind = Some(Self::Timestamp),
                ("$type", _) => return Err(wrong_type()),
                (other, _) => {
                    return Err(Error::bad_value(format!(
                        "Unrecognized $currentDate option: {other}"
                    )));
                }
            }
        }
        kind.ok_or_else(wrong_type)
    }

    /// The time now.
    pub fn now(self) -> OwnedValue {
        match self {
            Self::Date => OwnedValue::new(DateTime::now()),
            Self::Timestamp => OwnedValue::new(next_timestamp()),
        }
    }
}

fn wrong_type() -> Error {
    Error::bad_value(
        "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
    )
}

/// A timestamp that no earlier call of this process returned, and greater than all of them:
/// the second now, and an ordinal from 1.
pub fn next_timestamp() -> Timestamp {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let second = (DateTime::now().timestamp_millis() / 1000) as u64;
    let first_of_second = (second << 32) | 1;
    let next = |last: u64| (last + 1).max(first_of_second);
    let last = LAST
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(next(last))
        })
        .expect("the closure always returns a value");
    let stamp = next(last);
    Timestamp {
        time: (stamp >> 32) as u32,
        increment: stamp as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_only_grow() {
        let mut last = next_timestamp();
        for _ in 0..100 {
            let next = next_timestamp();
            assert!(next > last);
            last = next;
        }
    }
}
