//! Time series: measurements of what has the same metadata, kept in buckets of columns.
//!
//! As in MongoDB a time-series collection `readings` is a view of the collection `system.buckets.readings`, whose
//! documents are buckets (`bucket`): at most a thousand measurements with equal metadata, of some span of time.
//! Readers unpack them (`unpack`, `columns`, `summary`); updates, deletes and indexes are told in the words of buckets (`words`).
//!
//! In: options, documents and statements as users write them. Out: the same for the collection of buckets. Pure: the
//! writing is `write/timeseries.rs`, what readers may skip is `plan/buckets.rs`.

mod bucket;
mod columns;
mod compress;
mod summary;
mod unpack;
mod words;

#[cfg(test)]
mod tests;

pub use bucket::{
    BUCKET_BYTES_MAX, BUCKET_ROWS_MAX, Measurement, MeasurementBucket, MeasurementReader, bucket_id,
};
pub use columns::{BucketColumns, MeasuredValues};
pub use compress::for_each_measured;
pub use summary::BucketSummary;
pub use unpack::{TimeRange, UnpackBucket};

use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::number::Number;

/// What the names of collections of buckets begin with.
pub const BUCKETS_PREFIX: &str = "system.buckets.";

/// How far apart measurements are, about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Granularity {
    const ALL: [Self; 3] = [Self::Seconds, Self::Minutes, Self::Hours];

    /// As `create` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
        }
    }

    /// Seconds from the start of a bucket to what no longer goes into it.
    pub fn span_seconds(self) -> i32 {
        match self {
            Self::Seconds => 3_600,
            Self::Minutes => 86_400,
            Self::Hours => 2_592_000,
        }
    }

    /// Starts of buckets are multiples of so many seconds.
    fn rounding_seconds(self) -> i64 {
        match self {
            Self::Seconds => 60,
            Self::Minutes => 3_600,
            Self::Hours => 86_400,
        }
    }

    /// Reads one, in this field of a command.
    ///
    /// # Errors
    /// `TypeMismatch`, `BadValue`.
    pub fn parse(field: &str, value: RawBsonRef<'_>) -> Result<Self> {
        let name = text(field, value)?;
        let mut all = Self::ALL.into_iter();
        all.find(|own| own.name() == name).ok_or_else(|| {
            Error::bad_value(format!(
                "Enumeration value '{name}' for field '{field}' is not a valid value."
            ))
        })
    }
}

/// What makes a collection a time series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeseries {
    /// The field that holds the time, at the top of documents.
    pub time_field: String,
    /// The field that holds what tells series apart.
    pub meta_field: Option<String>,
    /// How far apart measurements are.
    pub granularity: Granularity,
}

impl Timeseries {
    /// Reads the option `timeseries` of `create`.
    ///
    /// # Errors
    /// MongoDB's.
    pub fn parse(value: RawBsonRef<'_>) -> Result<Self> {
        let Some(options) = value.as_document() else {
            return Err(wrong_type("create.timeseries", value, "object"));
        };
        let (mut time, mut meta, mut granularity, mut span) = (None, None, None, None);
        for element in options {
            let (key, value) = element.map_err(crate::error::malformed)?;
            let field = format!("create.timeseries.{}", key.as_str());
            match key.as_str() {
                "timeField" | "metaField" | "granularity" | "bucketMaxSpanSeconds"
                    if value == RawBsonRef::Null => {}
                "timeField" => time = Some(text(&field, value)?.to_owned()),
                "metaField" => meta = Some(text(&field, value)?.to_owned()),
                "granularity" => granularity = Some(Granularity::parse(&field, value)?),
                "bucketMaxSpanSeconds" => span = Some(span_seconds(&field, value)?),
                _ => return Err(unknown_field(&field)),
            }
        }
        let Some(time_field) = time else {
            return Err(Error::location(
                40414,
                "BSON field 'create.timeseries.timeField' is missing but a required field",
            ));
        };
        let granularity = granularity.unwrap_or(Granularity::Seconds);
        let own = granularity.span_seconds();
        if span.is_some_and(|asked| asked != i64::from(own)) {
            return Err(Error::location(
                5_510_500,
                format!(
                    "Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than the default of {own} \
                     for the provided granularity"
                ),
            ));
        }
        Ok(Self {
            time_field,
            meta_field: meta,
            granularity,
        })
    }

    /// Checks the names of fields, for a collection of this name.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn check(&self, namespace: &Namespace) -> Result<()> {
        let invalid = |message: String| Err(Error::new(Code::InvalidOptions, message));
        let (time, meta) = (self.time_field.as_str(), self.meta_field.as_deref());
        for (option, name) in [("timeField", Some(time)), ("metaField", meta)] {
            if name.is_some_and(|name| name.contains('.')) {
                return invalid(format!(
                    "{namespace}: '{option}' must be a top-level field and not contain a '.'"
                ));
            }
        }
        if meta == Some("_id") {
            return invalid("'metaField' cannot be \"_id\"".to_owned());
        }
        if meta == Some(time) {
            return invalid("'metaField' cannot be the same as 'timeField'".to_owned());
        }
        let names = [Some(time), meta].into_iter().flatten();
        for name in names {
            // mongod takes both, and cannot find the fields afterwards.
            if name.is_empty() || name.starts_with('$') || name.contains('\0') {
                return invalid(format!(
                    "{namespace}: the names of time and metadata must not be empty, begin with a '$', or hold a \
                     zero byte: '{}'",
                    name.escape_default()
                ));
            }
        }
        Ok(())
    }

    /// As `listCollections` shows it.
    pub fn listing(&self) -> RawDocumentBuf {
        let mut listed = rawdoc! { "timeField": self.time_field.as_str() };
        if let Some(meta) = &self.meta_field {
            listed.append(cstr!("metaField"), meta.as_str());
        }
        listed.append(cstr!("granularity"), self.granularity.name());
        let span = self.granularity.span_seconds();
        listed.append(cstr!("bucketMaxSpanSeconds"), span);
        listed
    }

    /// What the documents of the collection of buckets must look like.
    pub fn bucket_validator(&self) -> RawDocumentBuf {
        let extremes = || {
            let mut times = RawDocumentBuf::new();
            let mut required = bson::RawArrayBuf::new();
            required.push(self.time_field.as_str());
            // `check` refuses names with zero bytes.
            if let Ok(name) = bson::raw::CString::try_from(self.time_field.as_str()) {
                times.append(&*name, rawdoc! { "bsonType": "date" });
            }
            rawdoc! { "bsonType": "object", "required": required, "properties": times }
        };
        rawdoc! { "$jsonSchema": {
            "bsonType": "object",
            "required": ["_id", "control", "data"],
            "properties": {
                "_id": { "bsonType": "objectId" },
                "control": {
                    "bsonType": "object",
                    "required": ["version", "min", "max"],
                    "properties": {
                        "version": { "bsonType": "number" },
                        "min": extremes(),
                        "max": extremes(),
                        "closed": { "bsonType": "bool" },
                    },
                },
                "data": { "bsonType": "object" },
                "meta": {},
            },
            "additionalProperties": false,
        } }
    }

    /// The stage that readers begin with.
    pub fn unpack_stage(&self) -> RawDocumentBuf {
        let mut options = rawdoc! { "timeField": self.time_field.as_str() };
        if let Some(meta) = &self.meta_field {
            options.append(cstr!("metaField"), meta.as_str());
        }
        let span = self.granularity.span_seconds();
        options.append(cstr!("bucketMaxSpanSeconds"), span);
        rawdoc! { "$_internalUnpackBucket": options }
    }

    /// Milliseconds from the start of a bucket to what no longer goes into it.
    pub fn span_millis(&self) -> i64 {
        i64::from(self.granularity.span_seconds()) * 1_000
    }

    /// Where the bucket starts that a measurement of this time begins, in milliseconds.
    fn start_millis(&self, time: i64) -> i64 {
        let rounding = self.granularity.rounding_seconds() * 1_000;
        time.saturating_sub(time.rem_euclid(rounding))
    }
}

/// The collection of buckets of a time-series collection.
pub fn buckets_of(namespace: &Namespace) -> Namespace {
    Namespace {
        database: namespace.database.clone(),
        collection: format!("{BUCKETS_PREFIX}{}", namespace.collection),
    }
}

/// The time-series collection whose buckets lie in this collection, if its name is one of those.
pub fn series_of(namespace: &Namespace) -> Option<Namespace> {
    let name = namespace.collection.strip_prefix(BUCKETS_PREFIX)?;
    Some(Namespace {
        database: namespace.database.clone(),
        collection: name.to_owned(),
    })
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = type_name(value.element_type());
    Error::type_mismatch(format!(
        "BSON field '{field}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

fn unknown_field(field: &str) -> Error {
    Error::location(40415, format!("BSON field '{field}' is an unknown field."))
}

fn text<'a>(field: &str, value: RawBsonRef<'a>) -> Result<&'a str> {
    let text = value.as_str();
    text.ok_or_else(|| wrong_type(field, value, "string"))
}

fn span_seconds(field: &str, value: RawBsonRef<'_>) -> Result<i64> {
    let number = Number::from_raw(value);
    let number = number.ok_or_else(|| {
        let found = type_name(value.element_type());
        Error::type_mismatch(format!(
            "BSON field '{field}' is the wrong type '{found}', expected types '[long, int, decimal, double']"
        ))
    })?;
    let seconds = number.to_i64_truncated().unwrap_or(i64::MAX);
    if seconds < 1 {
        return Err(Error::location(
            51024,
            format!(
                "BSON field 'bucketMaxSpanSeconds' value must be >= 1, actual value '{seconds}'"
            ),
        ));
    }
    Ok(seconds)
}

/// Reads the option `timeseries` of `collMod`: the granularity that it asks for.
///
/// # Errors
/// MongoDB's.
pub fn parse_change(options: &RawDocument) -> Result<Option<Granularity>> {
    let mut granularity = None;
    for element in options {
        let (key, value) = element.map_err(crate::error::malformed)?;
        let field = format!("collMod.timeseries.{}", key.as_str());
        match key.as_str() {
            "granularity" => granularity = Some(Granularity::parse(&field, value)?),
            _ => return Err(unknown_field(&field)),
        }
    }
    Ok(granularity)
}

impl Timeseries {
    /// The same with another granularity, which is not finer.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn with_granularity(&self, granularity: Granularity) -> Result<Self> {
        if granularity < self.granularity {
            return Err(Error::new(
                Code::InvalidOptions,
                "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' or \
                 'minutes' to 'hours'.",
            ));
        }
        Ok(Self {
            granularity,
            ..self.clone()
        })
    }
}
