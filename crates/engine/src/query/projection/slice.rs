//! `$slice` of a `find`.

use bson::RawArray;
use bson::raw::{RawArrayBuf, RawBsonRef};
use meridian_value::number::Number;

/// `$slice: n` and `$slice: [skip, limit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// From the end when negative.
    skip: i64,
    limit: u64,
}

impl Slice {
    /// The elements.
    pub fn of(self, array: &RawArray) -> RawArrayBuf {
        let count = array.into_iter().count() as i64;
        let start = if self.skip < 0 {
            (count + self.skip).max(0)
        } else {
            self.skip.min(count)
        };
        let mut out = RawArrayBuf::new();
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        for item in array.into_iter().flatten().skip(start as usize).take(limit) {
            out.push(item);
        }
        out
    }

    /// Parses the operand of a `find`'s `$slice`; `None` where only the aggregation expression can be meant.
    ///
    /// # Errors
    /// What is wrong with it, to be put into a message.
    pub fn parse(operand: RawBsonRef<'_>) -> std::result::Result<Option<Self>, String> {
        let whole = |value| Number::from_raw(value).map(clamp_to_int32);
        if let Some(count) = whole(operand) {
            return Ok(Some(match count {
                0.. => Self {
                    skip: 0,
                    limit: count.unsigned_abs(),
                },
                _ => Self {
                    skip: count,
                    limit: u64::MAX,
                },
            }));
        }
        let RawBsonRef::Array(array) = operand else {
            return Err(
                "Location31273: $slice only supports numbers and [skip, limit] arrays".into(),
            );
        };
        let items: Vec<RawBsonRef<'_>> = array.into_iter().flatten().collect();
        match items[..] {
            [skip, limit] => Ok(match (whole(skip), whole(limit)) {
                (Some(skip), Some(limit @ 1..)) => Some(Self {
                    skip,
                    limit: limit.unsigned_abs(),
                }),
                _ => None,
            }),
            [_, _, _] => Ok(None),
            _ => Err("Location31272: $slice array argument should be of form [skip, limit]".into()),
        }
    }
}

/// MongoDB reads these operands as int32, cut off at its ends; NaN is 0.
fn clamp_to_int32(number: Number) -> i64 {
    if number.is_nan() {
        return 0;
    }
    let bound = if number.is_negative() {
        i64::from(i32::MIN)
    } else {
        i64::from(i32::MAX)
    };
    let whole = number.to_i64_truncated().unwrap_or(bound);
    whole.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
}
