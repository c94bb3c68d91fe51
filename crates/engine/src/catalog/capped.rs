//! Capped collections: how much they hold (the options `capped`, `size` and `max` of `create`, and what `collMod` makes of
//! them), what their documents lie under, and who waits for further ones.

use super::options::{invalid, is_truth, truthy, wrong_types};
use crate::error::{Code, Error, Result};
use bson::raw::{RawBsonRef, RawDocumentBuf};
use meridian_value::number::Number;
use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// What a capped collection holds: before there is more, the oldest documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capped {
    /// Bytes of documents.
    pub size: i64,
    /// Documents.
    pub max: Option<i64>,
}

/// Which document of a capped collection it is, from 1: what it lies under, big-endian. Later documents have greater ones.
pub type RecordNumber = u64;

/// The record number that a document lies under.
///
/// # Errors
/// `InternalError` when the key is none.
pub fn record_number(key: &[u8]) -> Result<RecordNumber> {
    let bytes = key.try_into().map_err(|_| {
        Error::new(
            Code::InternalError,
            "a document's key is no record number; run `meridian check` on the data directory",
        )
    })?;
    Ok(RecordNumber::from_be_bytes(bytes))
}

/// Tells those who wait for documents that some have come.
#[derive(Default)]
pub struct Arrivals {
    commits: Mutex<u64>,
    told: Condvar,
}

impl Arrivals {
    /// Some have been committed.
    pub fn tell(&self) {
        *self.commits.lock() += 1;
        self.told.notify_all();
    }

    /// How often some have come until now.
    pub fn commits(&self) -> u64 {
        *self.commits.lock()
    }

    /// Waits until there are other `commits` than those `seen`, or until then.
    pub fn wait(&self, seen: u64, until: Instant) {
        let mut commits = self.commits.lock();
        while *commits == seen && !self.told.wait_until(&mut commits, until).timed_out() {}
    }
}

/// The largest `size`, as MongoDB's.
const SIZE_MAX: i64 = 1 << 50;
/// A `size` is rounded up to a multiple of this.
const SIZE_STEP: i64 = 256;
/// The first `max` that MongoDB refuses. One that is not positive stands for the last that it accepts.
const MAX_END: i64 = 1 << 31;

impl Capped {
    /// So many bytes, rounded up as MongoDB does.
    ///
    /// # Errors
    /// 51024, in which the field is called `name`.
    pub fn with_size(name: &str, size: i64) -> Result<Self> {
        let out_of_range = |bound: &str| {
            Err(Error::location(
                51024,
                format!("BSON field '{name}' value must be {bound}, actual value '{size}'"),
            ))
        };
        match size {
            ..=0 => out_of_range(">= 1"),
            1..=SIZE_MAX => Ok(Self::holding(size)),
            _ => out_of_range(&format!("<= {SIZE_MAX}")),
        }
    }

    /// So many bytes, which are in range.
    pub fn holding(size: i64) -> Self {
        Self {
            size: (size + SIZE_STEP - 1) / SIZE_STEP * SIZE_STEP,
            max: None,
        }
    }

    /// The same with another `max`.
    ///
    /// # Errors
    /// 51024, in which the field is called `name`.
    pub fn with_max(self, name: &str, max: i64) -> Result<Self> {
        let max = match max {
            ..=0 => MAX_END - 1,
            1..MAX_END => max,
            _ => {
                let message =
                    format!("BSON field '{name}' value must be < {MAX_END}, actual value '{max}'");
                return Err(Error::location(51024, message));
            }
        };
        Ok(Self {
            max: Some(max),
            ..self
        })
    }

    /// Whether so many documents of so many bytes are too many.
    pub fn is_exceeded(self, documents: i64, bytes: i64) -> bool {
        bytes > self.size || self.max.is_some_and(|max| documents > max)
    }

    /// As `listCollections` shows it.
    pub fn listing(self) -> RawDocumentBuf {
        let mut listed = bson::rawdoc! { "capped": true, "size": shortest(self.size) };
        if let Some(max) = self.max {
            listed.append(bson::cstr!("max"), shortest(max));
        }
        listed
    }
}

/// As MongoDB writes a number that it knows to be whole: in 32 bits where it fits.
fn shortest(number: i64) -> bson::RawBson {
    i32::try_from(number).map_or(bson::RawBson::Int64(number), bson::RawBson::Int32)
}

/// The options as they are met in the command, in any order.
#[derive(Debug, Default)]
pub(super) struct CappedParts {
    is_capped: bool,
    size: Option<Capped>,
    max: Option<i64>,
}

impl CappedParts {
    /// Takes one of the three options.
    pub fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        if value == RawBsonRef::Null {
            return Ok(());
        }
        match (name, Number::from_raw(value)) {
            ("capped", _) if is_truth(value) => self.is_capped = truthy(value),
            ("capped", _) => {
                return Err(wrong_types(name, value, "bool, long, int, decimal, double"));
            }
            (_, None) => return Err(wrong_types(name, value, "long, int, decimal, double")),
            ("size", Some(size)) => self.size = Some(Capped::with_size(name, whole(size))?),
            (_, Some(max)) => {
                Capped::holding(1).with_max(name, whole(max))?;
                self.max = Some(whole(max));
            }
        }
        Ok(())
    }

    /// Refuses all of them, for a clustered collection.
    ///
    /// # Errors
    /// 6127800, 6049200 and 6049204.
    pub fn refuse_for_clustered(&self) -> Result<()> {
        let field = |code, name| {
            Err(Error::location(
                code,
                format!(
                    "'{name}' field for capped collections is not allowed on clustered collections. Did you mean \
                     'capped: true' with 'expireAfterSeconds'?"
                ),
            ))
        };
        match (self.is_capped, self.size, self.max) {
            (true, ..) => Err(Error::location(
                6_127_800,
                "Clustered capped collection only available with 'enableTestCommands' server parameter",
            )),
            (false, Some(_), _) => field(6_049_200, "size"),
            (false, None, Some(_)) => field(6_049_204, "max"),
            (false, None, None) => Ok(()),
        }
    }

    /// All together.
    pub fn finish(&self) -> Result<Option<Capped>> {
        match (self.is_capped, self.size, self.max) {
            (true, Some(capped), Some(max)) => capped.with_max("max", max).map(Some),
            (true, Some(capped), None) => Ok(Some(capped)),
            (true, None, _) => Err(invalid(
                "the 'size' field is required when 'capped' is true",
            )),
            (false, None, None) => Ok(None),
            (false, ..) => Err(invalid(
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
            )),
        }
    }
}

/// A number of a command as a whole one: cut, or rounded where it is a decimal, and 0 where it is none.
pub fn whole(number: Number) -> i64 {
    let cut = || match number.to_f64() {
        number if number.is_nan() => 0,
        number if number < 0.0 => i64::MIN,
        _ => i64::MAX,
    };
    number.to_i64_rounded().unwrap_or_else(cut)
}
