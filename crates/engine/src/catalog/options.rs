//! The options of `create`, parsed and checked.

use super::capped::{Capped, CappedParts, whole};
use crate::error::{Code, Error, Result};
use crate::index::storage_engine;
use crate::query::Filter;
use crate::storage::Compression;
use crate::timeseries::Timeseries;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::number::Number;
use std::sync::Arc;

/// How strictly a validator is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationLevel {
    /// Not at all.
    Off,
    /// To inserts and to all updates.
    Strict,
    /// To inserts and to updates of documents that were valid before.
    Moderate,
}

/// What happens to a document that fails validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationAction {
    /// The write is refused with error 121.
    Error,
    /// The write goes through and the log says so.
    Warn,
}

/// A validator with its settings.
#[derive(Debug, Clone)]
pub struct Validator {
    /// As the user wrote it.
    pub source: RawDocumentBuf,
    /// Parsed.
    pub filter: Arc<Filter>,
    /// How strictly it is applied.
    pub level: ValidationLevel,
    /// What a failure does.
    pub action: ValidationAction,
}

/// Everything `create` may say about a collection.
#[derive(Debug, Clone, Default)]
pub struct CollectionOptions {
    /// By what texts are compared where a statement or an index does not say it, and by what documents with
    /// the same `_id` are told.
    pub collation: Collation,
    /// The validator, if any.
    pub validator: Option<Validator>,
    /// `clusteredIndex` as listed: `{v: 2, key: {_id: 1}, name, unique: true}`.
    pub clustered_index: Option<RawDocumentBuf>,
    /// TTL of a clustered collection, in seconds of its `_id`.
    pub expire_after_seconds: Option<i64>,
    /// What makes the documents buckets of a time series.
    pub timeseries: Option<Arc<Timeseries>>,
    /// Documents lie in the order in which they came, and the oldest go when there are too many.
    pub capped: Option<Capped>,
    /// How the documents are compressed.
    pub compression: Compression,
    /// How indexes are compressed that do not say it themselves.
    pub index_compression: Compression,
    /// The options as `listCollections` shows them.
    pub original: RawDocumentBuf,
}

impl CollectionOptions {
    /// Parses the options of a `create` command, without its name and its generic fields.
    ///
    /// # Errors
    /// MongoDB's for wrong types and unknown fields; `NotImplemented` for views, by name.
    pub fn parse(document: &RawDocument) -> Result<Self> {
        let mut parts = OptionParts::default();
        let mut original = RawDocumentBuf::new();
        for element in document {
            let (key, value) =
                element.map_err(|error| Error::new(Code::InvalidBSON, error.to_string()))?;
            if parts.take(key.as_str(), value)? {
                original.append(key, value);
            }
        }
        parts.finish(original)
    }

    /// The options of the collection of buckets of a time-series collection with these.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_buckets(&self, timeseries: &Timeseries) -> Result<Self> {
        let mut options =
            bson::rawdoc! { "validator": timeseries.bucket_validator(), "clusteredIndex": true };
        for (name, value) in self.original.iter().flatten() {
            options.append(name, value);
        }
        Self::parse(&options)
    }

    /// The options of a time-series collection, of whose buckets these are.
    pub fn of_series(&self) -> RawDocumentBuf {
        let mut options = RawDocumentBuf::new();
        for (name, value) in self.original.iter().flatten() {
            if !matches!(name.as_str(), "validator" | "clusteredIndex") {
                options.append(name, value);
            }
        }
        options
    }

    /// Checks that the expiry is one that mongod accepts. Apart from parsing, since earlier releases stored
    /// any, and their directories are to open.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn check_expiry(&self) -> Result<()> {
        let problem = match self.expire_after_seconds {
            Some(..0) => "cannot be less than 0",
            Some(seconds) if seconds > i32::MAX.into() => {
                "must be within an acceptable range, try a lower number"
            }
            _ => return Ok(()),
        };
        Err(Error::new(
            Code::InvalidOptions,
            format!("TTL index 'expireAfterSeconds' option {problem}"),
        ))
    }
}

/// Options that count as absent when they are null.
const ABSENT_BY_NULL: [&str; 16] = [
    "autoIndexId",
    "capped",
    "changeStreamPreAndPostImages",
    "collation",
    "expireAfterSeconds",
    "flags",
    "indexOptionDefaults",
    "max",
    "recordPreImages",
    "size",
    "storageEngine",
    "temp",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
];

/// Whether changes are to be recorded with the documents before and after them.
fn post_images(options: &RawDocument) -> Result<bool> {
    const PATH: &str = "create.changeStreamPreAndPostImages";
    let mut enabled = None;
    for (name, value) in options.iter().flatten() {
        let is_known = name.as_str() == "enabled";
        match value {
            RawBsonRef::Boolean(value) if is_known => enabled = Some(value),
            other if is_known => {
                let found = crate::types::type_name(other.element_type());
                return Err(Error::type_mismatch(format!(
                    "BSON field '{PATH}.enabled' is the wrong type '{found}', expected type 'bool'"
                )));
            }
            _ => {
                let message = format!("BSON field '{PATH}.{name}' is an unknown field.");
                return Err(Error::location(40415, message));
            }
        }
    }
    enabled.ok_or_else(|| {
        let message = format!("BSON field '{PATH}.enabled' is missing but a required field");
        Error::location(40414, message)
    })
}

#[derive(Default)]
struct OptionParts {
    collation: Collation,
    validator: Option<RawDocumentBuf>,
    level: Option<ValidationLevel>,
    action: Option<ValidationAction>,
    clustered_index: Option<RawDocumentBuf>,
    /// What MongoDB lists, and heeds no longer.
    auto_index_id: bool,
    /// For change streams, which a standalone refuses: listed.
    pre_images: bool,
    post_images: bool,
    /// `clusteredIndex: true`, which only collections of buckets may have.
    clustered_legacy: bool,
    timeseries: Option<Arc<Timeseries>>,
    capped: CappedParts,
    expire_after_seconds: Option<i64>,
    compression: Option<Compression>,
    index_compression: Option<Compression>,
}

impl OptionParts {
    /// Takes one option; false when it is not to be listed.
    fn take(&mut self, key: &str, value: RawBsonRef<'_>) -> Result<bool> {
        let is_null = matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
        match is_null && ABSENT_BY_NULL.contains(&key) {
            true => Ok(false),
            false => self.take_present(key, value),
        }
    }

    fn take_present(&mut self, key: &str, value: RawBsonRef<'_>) -> Result<bool> {
        match key {
            "validator" => self.validator = Some(document(key, value)?.to_owned()),
            "validationLevel" => self.level = Some(validation_level(string(key, value)?)?),
            "validationAction" => self.action = Some(validation_action(string(key, value)?)?),
            "clusteredIndex" if value == RawBsonRef::Boolean(true) => {
                self.clustered_legacy = true;
                return Ok(false);
            }
            "timeseries" => {
                self.timeseries = Some(Arc::new(Timeseries::parse(value)?));
                return Ok(false);
            }
            "clusteredIndex" => {
                self.clustered_index = parse_clustered_index(value)?;
                return Ok(false);
            }
            "expireAfterSeconds" => {
                self.expire_after_seconds = Some(number(key, value)?);
                return Ok(false);
            }
            "capped" | "size" | "max" => {
                self.capped.take(key, value)?;
                return Ok(false);
            }
            "collation" => {
                self.collation =
                    crate::collation::parse("create.collation", document(key, value)?)?;
                return Ok(false);
            }
            "temp" => return Err(invalid("the 'temp' field is an invalid option")),
            // As good as absent, in mongod too.
            "flags" if Number::from_raw(value).is_some() => return Ok(false),
            "autoIndexId" if is_truth(value) => {
                self.auto_index_id = truthy(value);
                return Ok(false);
            }
            "autoIndexId" => {
                return Err(wrong_types(key, value, "bool, long, int, decimal, double"));
            }
            "flags" => return Err(wrong_types(key, value, "long, int, decimal, double")),
            "storageEngine" => {
                let engines = document(key, value)?;
                self.compression = storage_engine::parse(engines)?;
                return Ok(!engines.is_empty());
            }
            "indexOptionDefaults" => {
                let defaults = document(key, value)?;
                self.index_compression = index_defaults(defaults)?;
                return Ok(!defaults.is_empty());
            }
            "changeStreamPreAndPostImages" | "recordPreImages" => {
                return self.take_images(key, value).map(|()| false);
            }
            "viewOn" | "pipeline" | "encryptedFields" => {
                return Err(Error::not_implemented(format!(
                    "the option '{key}' of create"
                )));
            }
            _ => {
                return Err(Error::location(
                    40415,
                    format!("BSON field 'create.{key}' is an unknown field."),
                ));
            }
        }
        Ok(true)
    }

    fn take_images(&mut self, key: &str, value: RawBsonRef<'_>) -> Result<()> {
        match key {
            "recordPreImages" if is_truth(value) => self.pre_images = truthy(value),
            "recordPreImages" => {
                return Err(wrong_types(key, value, "bool, long, int, decimal, double"));
            }
            _ => self.post_images = post_images(document(key, value)?)?,
        }
        Ok(())
    }

    fn finish(self, listed: RawDocumentBuf) -> Result<CollectionOptions> {
        if self.clustered_index.is_some() {
            self.capped.refuse_for_clustered()?;
        }
        let capped = self.capped.finish()?;
        if self.pre_images && self.post_images {
            return Err(invalid(
                "'recordPreImages' and 'changeStreamPreAndPostImages.enabled' can not be set to true simultaneously",
            ));
        }
        let mut original = capped.map_or_else(RawDocumentBuf::new, Capped::listing);
        if self.pre_images {
            original.append(bson::cstr!("recordPreImages"), true);
        }
        if self.post_images {
            let enabled = bson::rawdoc! { "enabled": true };
            original.append(bson::cstr!("changeStreamPreAndPostImages"), enabled);
        }
        if self.auto_index_id {
            original.append(bson::cstr!("autoIndexId"), true);
        }
        for (name, value) in listed.iter().flatten() {
            original.append(name, value);
        }
        if let Some(listed) = crate::collation::listing(&self.collation) {
            original.append(bson::cstr!("collation"), listed);
        }
        let mut clustered_index = self.clustered_index.clone();
        if capped.is_some() && clustered_index.is_some() {
            let message = "Clustered capped collection only available with 'enableTestCommands' server parameter";
            return Err(Error::location(6_127_800, message));
        }
        if self.clustered_legacy {
            if self.timeseries.is_none() {
                return Err(Error::new(
                    Code::Location(5_979_703),
                    "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for specific internal \
                     collections and vice versa",
                ));
            }
            clustered_index = Some(clustered_by_id("_id_"));
            original.append(bson::cstr!("clusteredIndex"), true);
        } else if let Some(clustered) = &clustered_index {
            original.append(bson::cstr!("clusteredIndex"), clustered.clone());
        } else if self.timeseries.is_none() && self.expire_after_seconds.is_some() {
            return Err(Error::new(
                Code::InvalidOptions,
                "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified",
            ));
        }
        if let Some(seconds) = self.expire_after_seconds {
            original.append(bson::cstr!("expireAfterSeconds"), seconds);
        }
        if let Some(timeseries) = &self.timeseries {
            original.append(bson::cstr!("timeseries"), timeseries.listing());
        }
        let validator = self.validator()?;
        Ok(CollectionOptions {
            collation: self.collation,
            validator,
            clustered_index,
            timeseries: self.timeseries,
            capped,
            expire_after_seconds: self.expire_after_seconds,
            compression: self.compression.unwrap_or_default(),
            index_compression: self.index_compression.unwrap_or_default(),
            original,
        })
    }

    fn validator(&self) -> Result<Option<Validator>> {
        let Some(source) = &self.validator else {
            return Ok(None);
        };
        let filter = Filter::parse_by(source, &self.collation)?;
        filter.refuse_script()?;
        if filter.is_random() {
            return Err(Error::location(
                3_040_500,
                "$rand not allowed inside collection validators",
            ));
        }
        Ok(Some(Validator {
            source: source.clone(),
            filter: Arc::new(filter),
            level: self.level.unwrap_or(ValidationLevel::Strict),
            action: self.action.unwrap_or(ValidationAction::Error),
        }))
    }
}

/// `indexOptionDefaults`, which knows one field.
fn index_defaults(defaults: &RawDocument) -> Result<Option<Compression>> {
    let mut compression = None;
    for (key, value) in defaults.iter().flatten() {
        let path = format!("indexOptionDefaults.{key}");
        if key != "storageEngine" {
            return Err(Error::location(
                40415,
                format!("BSON field 'create.{path}' is an unknown field."),
            ));
        }
        compression = storage_engine::parse(document(&path, value)?)?;
    }
    Ok(compression)
}

fn parse_clustered_index(value: RawBsonRef<'_>) -> Result<Option<RawDocumentBuf>> {
    if value == RawBsonRef::Boolean(false) {
        return Ok(None);
    }
    let spec = document("clusteredIndex", value)?;
    let mut name = "_id_".to_owned();
    let (mut unique, mut key_is_id, mut v) = (None, false, 2);
    for element in spec {
        let (key, value) =
            element.map_err(|error| Error::new(Code::InvalidBSON, error.to_string()))?;
        match key.as_str() {
            "key" => {
                let pattern = document("create.clusteredIndex.key", value)?;
                let only = pattern.iter().count() == 1;
                key_is_id = only && pattern.get("_id").ok().flatten().is_some_and(is_one);
            }
            "name" | "unique" | "v" if value == RawBsonRef::Null => {}
            "name" => name = string("create.clusteredIndex.name", value)?.to_owned(),
            "unique" if !is_truth(value) => {
                let expected = "bool, long, int, decimal, double";
                return Err(wrong_types("unique", value, expected));
            }
            "unique" => unique = Some(truthy(value)),
            "v" => match Number::from_raw(value).map(whole) {
                None => {
                    let expected = "long, int, decimal, double";
                    return Err(wrong_types("v", value, expected));
                }
                Some(version) => v = version,
            },
            other => {
                return Err(Error::location(
                    40415,
                    format!("BSON field 'create.{other}' is an unknown field."),
                ));
            }
        }
    }
    if unique.is_none() {
        return Err(Error::location(
            40414,
            "BSON field 'create.unique' is missing but a required field",
        ));
    }
    if unique == Some(false) {
        return Err(Error::location(
            5_979_700,
            "The clusteredIndex option requires unique: true to be specified",
        ));
    }
    if !key_is_id {
        return Err(Error::new(
            Code::InvalidIndexSpecificationOption,
            "The clusteredIndex option is only supported for key: {_id: 1}",
        ));
    }
    if v != 2 {
        let message = format!(
            "Invalid clusteredIndex specification {{ v: {v}, key: {{ _id: 1 }}, name: \"{name}\", unique: true }}; cannot \
             create a clusteredIndex with v={v}"
        );
        return Err(Error::location(5_979_704, message));
    }
    Ok(Some(clustered_by_id(&name)))
}

fn clustered_by_id(name: &str) -> RawDocumentBuf {
    bson::rawdoc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true }
}

fn is_one(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Int32(1) | RawBsonRef::Int64(1)) || value.as_f64() == Some(1.0)
}

fn validation_level(level: &str) -> Result<ValidationLevel> {
    match level {
        "off" => Ok(ValidationLevel::Off),
        "strict" => Ok(ValidationLevel::Strict),
        "moderate" => Ok(ValidationLevel::Moderate),
        _ => Err(Error::bad_value(format!(
            "Enumeration value '{level}' for field 'create.validationLevel' is not a valid value."
        ))),
    }
}

fn validation_action(action: &str) -> Result<ValidationAction> {
    match action {
        "error" => Ok(ValidationAction::Error),
        "warn" => Ok(ValidationAction::Warn),
        _ => Err(Error::bad_value(format!(
            "Enumeration value '{action}' for field 'create.validationAction' is not a valid value."
        ))),
    }
}

pub(super) fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidOptions, message)
}

fn wrong_type(key: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = crate::types::type_name(value.element_type());
    Error::type_mismatch(format!(
        "BSON field 'create.{key}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

fn document<'a>(key: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    value
        .as_document()
        .ok_or_else(|| wrong_type(key, value, "object"))
}

fn string<'a>(key: &str, value: RawBsonRef<'a>) -> Result<&'a str> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(key, value, "string"))
}

fn number(key: &str, value: RawBsonRef<'_>) -> Result<i64> {
    match Number::from_raw(value) {
        // As 0 it would let everything expire, which is what mongod does with it.
        Some(number) if number.is_nan() => Err(Error::bad_value(format!("'{key}' cannot be NaN"))),
        Some(number) => Ok(whole(number)),
        None => Err(wrong_types(key, value, "long, int, decimal, double")),
    }
}

/// A value that may be of several types; the quote and the bracket are the wrong way round in MongoDB's message.
pub(super) fn wrong_types(key: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = crate::types::type_name(value.element_type());
    Error::type_mismatch(format!(
        "BSON field 'create.{key}' is the wrong type '{found}', expected types '[{expected}']"
    ))
}

/// Whether it stands for true or false.
pub(super) fn is_truth(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Boolean(_)) || Number::from_raw(value).is_some()
}

pub(super) fn truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(flag) => flag,
        other => Number::from_raw(other).is_some_and(|number| !number.is_zero()),
    }
}
