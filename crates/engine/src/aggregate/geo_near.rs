//! `$geoNear`: documents nearest first, each with its distance.
//!
//! In: the stage's options. Out: a filter with `$near`, which the planner answers, and what is added to
//! each document ([`AddDistance`]). The order of checks and the words are MongoDB 6.0's.

use crate::error::{Error, Result};
use crate::expression::FieldSet;
use crate::expression::SearchMetadata;
use crate::expression::value::{corrupt, field_name};
use crate::expression::{Expression, VariableScope, parse_field_path};
use crate::query::Nearest;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{RawBson, cstr};
use meridian_value::number::Number;

type FieldPath = Box<[Box<str>]>;

/// The stage, parsed.
#[derive(Debug, Clone)]
pub struct GeoNear {
    /// The path to measure at; where it is not given, that of the only geo index.
    pub key: Option<String>,
    operators: RawDocumentBuf,
    query: RawDocumentBuf,
    distance_field: FieldPath,
    location_field: Option<FieldPath>,
    multiplier: f64,
}

/// Adds the distance, and the location it was measured to, to a document.
#[derive(Debug, Clone)]
pub struct AddDistance {
    nearest: Nearest,
    distance_field: FieldPath,
    location_field: Option<FieldPath>,
    multiplier: f64,
    /// Whether a stage behind asks for metadata.
    keeps_metadata: bool,
    /// Whether the documents are measurements of a time series.
    of_measurements: bool,
}

impl GeoNear {
    /// Parses the options.
    ///
    /// # Errors
    /// 10065 when they are no object, 16606, 16607, 5860400 to 5860402, 50856 to 50858, `TypeMismatch` and
    /// `BadValue` for single options.
    pub(super) fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(options) = raw else {
            return Err(Error::location(
                10065,
                "invalid parameter: expected an object ($geoNear)",
            ));
        };
        let mut parsed = Self {
            key: None,
            operators: RawDocumentBuf::new(),
            query: RawDocumentBuf::new(),
            distance_field: Box::default(),
            location_field: None,
            multiplier: 1.0,
        };
        let mut point = None;
        let mut spherical = false;
        let mut limits = RawDocumentBuf::new();
        for entry in options.iter() {
            let (name, value) = entry.map_err(corrupt)?;
            match name.as_str() {
                "near" => point = Some(constant_point(value, scope)?),
                "spherical" => spherical = is_true(value),
                "minDistance" => {
                    limits.append(cstr!("$minDistance"), not_negative("minDistance", value)?)
                }
                "maxDistance" => {
                    limits.append(cstr!("$maxDistance"), not_negative("maxDistance", value)?)
                }
                other => parsed.parse_option(other, value)?,
            }
        }
        let point = point
            .ok_or_else(|| Error::location(5_860_400, "$geoNear requires a 'near' argument"))?;
        if parsed.distance_field.is_empty() {
            return Err(Error::location(
                16606,
                "$geoNear requires a 'distanceField' option as a String",
            ));
        }
        let operator = if spherical {
            cstr!("$nearSphere")
        } else {
            cstr!("$near")
        };
        parsed.operators.append(operator, point);
        for (name, value) in limits.iter().flatten() {
            parsed.operators.append(name, value);
        }
        Ok(parsed)
    }

    /// An option that stands for itself.
    fn parse_option(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        match name {
            "distanceField" => {
                let path = text(
                    value,
                    16606,
                    "$geoNear requires a 'distanceField' option as a String",
                )?;
                self.distance_field = parse_field_path(path)?;
            }
            "includeLocs" => {
                let path = text(
                    value,
                    16607,
                    "$geoNear requires that 'includeLocs' option is a String",
                )?;
                self.location_field = Some(parse_field_path(path)?);
            }
            "distanceMultiplier" => self.multiplier = not_negative("distanceMultiplier", value)?,
            "query" => match value {
                RawBsonRef::Document(query) => self.query = query.to_owned(),
                _ => return Err(Error::type_mismatch("query must be an object")),
            },
            "key" => self.key = Some(key(value)?),
            "num" | "limit" => return Err(no_longer(name)),
            "start" => {
                return Err(Error::location(
                    50856,
                    "$geoNear no longer supports the 'start' argument.",
                ));
            }
            // MongoDB takes anything else without a word.
            _ => {}
        }
        Ok(())
    }

    /// The filter that the planner answers; `key` must be known.
    pub fn filter(&self) -> RawDocumentBuf {
        let mut filter = self.query.clone();
        let path = self.key.as_deref().unwrap_or_default();
        if let Ok(name) = field_name(path) {
            filter.append(name, self.operators.clone());
        }
        filter
    }

    /// Whether it has conditions of its own.
    pub fn has_query(&self) -> bool {
        !self.query.is_empty()
    }

    /// Whether it tells the locations, too.
    pub fn has_location_field(&self) -> bool {
        self.location_field.is_some()
    }

    /// The path of the distance.
    pub fn distance_path(&self) -> String {
        self.distance_field.join(".")
    }

    /// What the stage does behind the plan; `keeps_metadata` tells whether a stage behind it asks for what
    /// was measured.
    pub fn add_distance(&self, nearest: Nearest, keeps_metadata: bool) -> AddDistance {
        AddDistance {
            nearest,
            distance_field: self.distance_field.clone(),
            location_field: self.location_field.clone(),
            multiplier: self.multiplier,
            keeps_metadata,
            of_measurements: false,
        }
    }
}

/// `near` may be an expression without fields: a variable, or `$literal`.
fn constant_point(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<RawBson> {
    let expression = Expression::parse(raw, scope)?;
    let Some(value) = expression.constant() else {
        return Err(Error::location(
            5_860_402,
            "$geoNear requires a constant near argument",
        ));
    };
    match value.to_raw()? {
        Some(point @ (RawBson::Document(_) | RawBson::Array(_))) => Ok(point),
        _ => Err(Error::location(
            5_860_401,
            "$geoNear requires near argument to be a GeoJSON object or a legacy point(array)",
        )),
    }
}

fn text<'v>(value: RawBsonRef<'v>, code: i32, message: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| Error::location(code, message))
}

fn not_negative(name: &str, value: RawBsonRef<'_>) -> Result<f64> {
    let number = Number::from_raw(value)
        .ok_or_else(|| Error::type_mismatch(format!("{name} must be a number")))?
        .to_f64();
    if number >= 0.0 {
        return Ok(number);
    }
    Err(Error::bad_value(format!("{name} must be nonnegative")))
}

fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(flag) => flag,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        other => Number::from_raw(other).is_none_or(|number| !number.is_zero()),
    }
}

fn key(value: RawBsonRef<'_>) -> Result<String> {
    match value {
        RawBsonRef::String("") => Err(Error::bad_value(
            "$geoNear parameter 'key' cannot be the empty string",
        )),
        RawBsonRef::String(path) => parse_field_path(path).map(|_| path.to_owned()),
        other => Err(Error::type_mismatch(format!(
            "$geoNear parameter 'key' must be of type string but found type: {}",
            type_name(other.element_type())
        ))),
    }
}

fn no_longer(name: &str) -> Error {
    let code = if name == "num" { 50857 } else { 50858 };
    Error::location(
        code,
        format!("$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."),
    )
}

impl AddDistance {
    /// The same for measurements of a time series.
    #[must_use]
    pub fn of_measurements(self) -> Self {
        Self {
            of_measurements: true,
            ..self
        }
    }

    /// The fields it reads.
    pub(super) fn needs(&self) -> FieldSet {
        let mut needs = FieldSet::none();
        needs.add(self.nearest.path.as_str());
        needs
    }

    /// The document with its distance, and its metadata if that is kept.
    pub(super) fn apply(&self, document: &RawDocument) -> Result<MeasuredDocument> {
        let Nearest { path, near } = &self.nearest;
        let Some(measured) = near.measure(document, path.parts()) else {
            return Ok((document.to_owned(), None));
        };
        let reported = near.reported(measured.distance);
        let distance = match self.of_measurements {
            // MongoDB makes one factor of unit and multiplier there.
            true => measured.distance * (self.multiplier * near.unit()),
            false => reported * self.multiplier,
        };
        let distance = RawBsonRef::Double(distance);
        let mut changed = with(document, &self.distance_field, distance)?;
        if let Some(path) = &self.location_field {
            changed = with(&changed, path, measured.location)?;
        }
        let metadata = self
            .keeps_metadata
            .then(|| SearchMetadata::near(reported, measured.location));
        Ok((changed, metadata))
    }
}

/// A document and its metadata.
type MeasuredDocument = (RawDocumentBuf, Option<SearchMetadata>);

/// The document with a value at a path; what is no document on the way is replaced by one.
fn with(
    document: &RawDocument,
    path: &[Box<str>],
    value: RawBsonRef<'_>,
) -> Result<RawDocumentBuf> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(document.to_owned());
    };
    let below = |old: Option<&RawDocument>| -> Result<RawBson> {
        if rest.is_empty() {
            return Ok(RawBson::from(value));
        }
        let empty = RawDocumentBuf::new();
        with(old.unwrap_or(&empty), rest, value).map(RawBson::Document)
    };
    let mut changed = RawDocumentBuf::new();
    let mut found = false;
    for entry in document.iter() {
        let (name, old) = entry.map_err(corrupt)?;
        if name.as_str() == &**first && !found {
            found = true;
            changed.append(name, below(old.as_document())?);
        } else {
            changed.append(name, old);
        }
    }
    if !found {
        changed.append(field_name(first)?, below(None)?);
    }
    Ok(changed)
}
