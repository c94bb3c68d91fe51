//! Statements and indexes of a time-series collection, told in the words of its buckets, and back.
//!
//! | users say | buckets say |
//! |---|---|
//! | `m`, `m.a` (the metadata) | `meta`, `meta.a` |
//! | index on `at: 1` (the time) | `control.min.at: 1, control.max.at: 1` |
//! | index on `at: -1` | `control.max.at: -1, control.min.at: -1` |
//! | index on `v: 1` (another field) | `control.min.v: 1, control.max.v: 1` |

use super::Timeseries;
use crate::error::{Code, Error, Result, malformed};
use crate::text::{document_text, text};
use bson::cstr;
use bson::raw::{CStr, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field};
use meridian_value::number::Number;

impl Timeseries {
    /// A path below the metadata as buckets say it; `None` where it is another path.
    pub fn meta_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.meta_field.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }

    /// The filter of an update or delete, which may only ask for the metadata.
    ///
    /// # Errors
    /// `InvalidOptions` for another field; malformed documents.
    pub fn bucket_filter(&self, filter: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for element in filter {
            let (key, value) = element.map_err(malformed)?;
            match (key.as_str(), value) {
                ("$and" | "$or" | "$nor", RawBsonRef::Array(parts)) => {
                    let mut all = RawArrayBuf::new();
                    for part in parts {
                        match part.map_err(malformed)? {
                            RawBsonRef::Document(part) => all.push(self.bucket_filter(part)?),
                            other => all.push(other),
                        }
                    }
                    out.append(key, all);
                }
                (name @ ("$expr" | "$where"), _) => {
                    return Err(Error::new(
                        Code::InvalidOptions,
                        format!(
                            "Cannot use {name} when performing an update or delete on a time-series collection"
                        ),
                    ));
                }
                ("$jsonSchema", _) => {
                    return Err(Error::not_implemented(
                        "$jsonSchema in an update or delete of a time-series collection",
                    ));
                }
                (name, value) if name.starts_with('$') => out.append(key, value),
                (name, value) => out.append(name_of(&self.queried(name)?)?, value),
            }
        }
        Ok(out)
    }

    fn queried(&self, path: &str) -> Result<String> {
        self.meta_path(path).ok_or_else(|| {
            let message = match &self.meta_field {
                Some(meta) => format!(
                    "Cannot perform an update or delete on a time-series collection when querying on a field that is \
                     not the metaField '{meta}'"
                ),
                None => "Cannot perform a delete with a non-empty query on a time-series collection that does not \
                         have a metaField"
                    .to_owned(),
            };
            Error::new(Code::InvalidOptions, message)
        })
    }

    /// Refuses all updates of a series without metadata.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn check_updatable(&self) -> Result<()> {
        match self.meta_field {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Code::InvalidOptions,
                "Cannot perform an update on a time-series collection that does not have a metaField",
            )),
        }
    }

    /// An update, which may only change the metadata.
    ///
    /// # Errors
    /// `InvalidOptions` for another field, replacements and pipelines; malformed documents.
    pub fn bucket_update(&self, update: RawBsonRef<'_>) -> Result<RawDocumentBuf> {
        let using = |what: &str| {
            let message =
                format!("Cannot perform an update on a time-series collection using a {what}");
            Err(Error::new(Code::InvalidOptions, message))
        };
        let RawBsonRef::Document(update) = update else {
            return using("pipeline update");
        };
        let first = field::fields(update).next();
        if first.is_none_or(|first| !first.name().starts_with(b"$")) {
            return using("replacement document");
        }
        let mut out = RawDocumentBuf::new();
        for element in update {
            let (operator, changes) = element.map_err(malformed)?;
            let RawBsonRef::Document(changes) = changes else {
                out.append(operator, changes);
                continue;
            };
            let mut own = RawDocumentBuf::new();
            for change in changes {
                let (path, value) = change.map_err(malformed)?;
                let path = self.changed(path.as_str())?;
                match (operator.as_str(), value) {
                    ("$rename", RawBsonRef::String(to)) => {
                        own.append(name_of(&path)?, self.changed(to)?)
                    }
                    ("$rename", _) => return Err(self.changed("").expect_err("no name is a path")),
                    (_, value) => own.append(name_of(&path)?, value),
                }
            }
            out.append(operator, own);
        }
        Ok(out)
    }

    fn changed(&self, path: &str) -> Result<String> {
        self.meta_path(path).ok_or_else(|| {
            let message = format!(
                "Cannot perform an update on a time-series collection which updates a field that is not the metaField \
                 '{}'",
                self.meta_field.as_deref().unwrap_or_default()
            );
            Error::new(Code::InvalidOptions, message)
        })
    }

    /// The key pattern of an index.
    ///
    /// # Errors
    /// `BadValue` for kinds that fields of measurements cannot have.
    pub fn bucket_key(&self, key: &RawDocument) -> Result<RawDocumentBuf> {
        if key.is_empty() {
            let message = "BadValue: Empty object is not a valid index spec";
            return Err(Error::new(Code::CannotCreateIndex, message));
        }
        let mut out = DocumentBuilder::default();
        for field in field::fields(key) {
            let name = String::from_utf8_lossy(field.name()).into_owned();
            if let Some(path) = self.meta_path(&name) {
                put(&mut out, &path, &field);
                continue;
            }
            let value = field.value().unwrap_or(RawBsonRef::Null);
            let is_time = name == self.time_field;
            match direction(value) {
                Some(direction) => {
                    let (min, max) = (format!("control.min.{name}"), format!("control.max.{name}"));
                    let paths = if direction < 0.0 {
                        [max, min]
                    } else {
                        [min, max]
                    };
                    paths.iter().for_each(|path| put(&mut out, path, &field));
                }
                None if value.as_str() == Some("2dsphere") && !is_time => {
                    let path = format!("data.{name}");
                    let path = name_of(&path)?;
                    out.append_with(|out| out.append(path, BUCKETS_OF_POINTS));
                }
                None => return Err(unusual_key(key, &name, value, is_time)),
            }
        }
        Ok(out.finish())
    }

    /// The key pattern of buckets' index as users say it; `None` where none of theirs becomes it.
    pub fn user_key(&self, key: &RawDocument) -> Option<RawDocumentBuf> {
        let mut out = DocumentBuilder::default();
        let mut fields = field::fields(key);
        while let Some(field) = fields.next() {
            let name = std::str::from_utf8(field.name()).ok()?;
            if let Some(rest) = name
                .strip_prefix("meta")
                .filter(|rest| rest.is_empty() || rest.starts_with('.'))
            {
                put(
                    &mut out,
                    &format!("{}{rest}", self.meta_field.as_deref()?),
                    &field,
                );
                continue;
            }
            let is_of_points =
                field.value().and_then(|kind| kind.as_str()) == Some(BUCKETS_OF_POINTS);
            if let Some(path) = name.strip_prefix("data.").filter(|_| is_of_points) {
                out.append_with(|out| {
                    if let Ok(path) = name_of(path) {
                        out.append(path, "2dsphere");
                    }
                });
                continue;
            }
            let (first, second) = ("control.min.", "control.max.");
            let ascending = name.strip_prefix(first).map(|path| (path, second));
            let (path, other) = ascending.or_else(|| Some((name.strip_prefix(second)?, first)))?;
            let next = fields.next()?;
            if next.name() != format!("{other}{path}").as_bytes() || next.bytes() != field.bytes() {
                return None;
            }
            put(&mut out, path, &field);
        }
        Some(out.finish())
    }

    /// The specification of an index. What a partial index asks of other fields than the metadata is said of buckets by
    /// `bucket_partial_filter`; the user's own definition is kept beside it, as MongoDB does.
    ///
    /// # Errors
    /// `InvalidOptions` and `CannotCreateIndex` for what such collections cannot have; those of the filter.
    pub fn bucket_index(
        &self,
        spec: &RawDocument,
        bucket_partial_filter: &dyn Fn(&RawDocument) -> Result<RawDocumentBuf>,
    ) -> Result<RawDocumentBuf> {
        let unsupported = |what: &str| {
            let message = format!("{what} not supported on time-series collections");
            Err(Error::new(Code::InvalidOptions, message))
        };
        let (mut out, mut is_said_otherwise) = (RawDocumentBuf::new(), false);
        for element in spec {
            let (name, value) = element.map_err(malformed)?;
            match (name.as_str(), value) {
                ("key", value) if value.as_document().is_none() => {
                    let message = "invalid parameter: expected an object (key)";
                    return Err(Error::location(10065, message));
                }
                ("key", RawBsonRef::Document(key)) => {
                    let mut kinds = field::fields(key).filter_map(|field| field.value());
                    if kinds.any(|kind| kind.as_str() == Some("text")) {
                        return unsupported("Text indexes are");
                    }
                    out.append(name, self.bucket_key(key)?);
                }
                ("unique", value) if is_true(value) => return unsupported("Unique indexes are"),
                ("expireAfterSeconds", _) => return unsupported("TTL indexes are"),
                ("sparse", value) if is_true(value) => {
                    let key = spec.get_document("key").map_err(malformed)?;
                    let mut paths = field::fields(key)
                        .map(|field| String::from_utf8_lossy(field.name()).into_owned());
                    if paths.any(|path| path != self.time_field && self.meta_path(&path).is_none())
                    {
                        return Err(Error::new(
                            Code::InvalidOptions,
                            "Sparse indexes are not supported on time-series measurements",
                        ));
                    }
                    out.append(name, value);
                }
                ("partialFilterExpression", RawBsonRef::Document(filter)) => {
                    let own = match self.bucket_filter(filter) {
                        Ok(own) => own,
                        Err(_) => {
                            is_said_otherwise = true;
                            bucket_partial_filter(filter)?
                        }
                    };
                    out.append(name, own);
                }
                _ => out.append(name, value),
            }
        }
        if is_said_otherwise {
            let mut written = spec.to_owned();
            if spec.get("v").map_err(malformed)?.is_none() {
                written.append(cstr!("v"), 2);
            }
            out.append(ORIGINAL_SPEC, written);
        }
        Ok(out)
    }

    /// The specification of buckets' index as users say it; `None` where none of theirs becomes it.
    pub fn user_index(&self, spec: &RawDocument) -> Option<RawDocumentBuf> {
        let key = spec.get_document("key").ok()?;
        let mut kinds = field::fields(key).filter_map(|field| field.value());
        let is_of_points = kinds.any(|kind| kind.as_str() == Some(BUCKETS_OF_POINTS));
        let written = spec.get_document(ORIGINAL_SPEC);
        let written = written.and_then(|spec| spec.get_document("partialFilterExpression"));
        let mut out = RawDocumentBuf::new();
        for (name, value) in spec.iter().flatten() {
            match (name.as_str(), value) {
                (name, _) if name == ORIGINAL_SPEC.as_str() => {}
                // Shown is what the user wrote, without it.
                ("2dsphereIndexVersion", _) if is_of_points => {}
                ("key", RawBsonRef::Document(key)) => out.append(name, self.user_key(key)?),
                ("partialFilterExpression", RawBsonRef::Document(filter)) => match written {
                    Ok(written) => out.append(name, written),
                    Err(_) => out.append(name, self.user_filter(filter)?),
                },
                _ => out.append(name, value),
            }
        }
        Some(out)
    }

    fn user_filter(&self, filter: &RawDocument) -> Option<RawDocumentBuf> {
        let buckets = Self {
            meta_field: Some("meta".to_owned()),
            ..self.clone()
        };
        let mut out = RawDocumentBuf::new();
        for (name, value) in filter.iter().flatten() {
            match value {
                RawBsonRef::Array(parts) if name.as_str().starts_with('$') => {
                    let mut all = RawArrayBuf::new();
                    for part in parts.into_iter().flatten() {
                        all.push(self.user_filter(part.as_document()?)?);
                    }
                    out.append(name, all);
                }
                value => {
                    buckets.meta_path(name.as_str())?;
                    let rest = &name.as_str()["meta".len()..];
                    let own = format!("{}{rest}", self.meta_field.as_deref()?);
                    out.append(name_of(&own).ok()?, value);
                }
            }
        }
        Some(out)
    }
}

/// Where an index of buckets keeps the user's definition.
const ORIGINAL_SPEC: &CStr = cstr!("originalSpec");

/// The kind of index by the points of the measurements in a bucket.
const BUCKETS_OF_POINTS: &str = "2dsphere_bucket";

fn name_of(path: &str) -> Result<bson::raw::CString> {
    bson::raw::CString::try_from(path).map_err(malformed)
}

fn put(out: &mut DocumentBuilder, name: &str, field: &Field<'_>) {
    let kind = bson::spec::ElementType::from(field.kind()).expect("it was read as one");
    out.field(kind, name.as_bytes(), field.bytes());
}

/// The direction of a field of a key pattern, if it is a number.
fn direction(value: RawBsonRef<'_>) -> Option<f64> {
    Number::from_raw(value).map(Number::to_f64)
}

fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(flag) => flag,
        other => direction(other).is_some_and(|number| number != 0.0),
    }
}

fn unusual_key(key: &RawDocument, name: &str, value: RawBsonRef<'_>, is_time: bool) -> Error {
    let what = match is_time {
        true => "Indexes on the time field must be ascending or descending (numbers only)",
        false => {
            "Indexes on measurement fields must be ascending or descending (numbers only), or '2dsphere'"
        }
    };
    Error::new(
        Code::CannotCreateIndex,
        format!(
            "BadValue: Invalid index spec for time-series collection: {}. {what}: {name}: {}",
            document_text(key),
            text(value)
        ),
    )
}
