//! The fields of an index definition, one by one and in combination.

use super::wildcard::WildcardScope;
use super::{FIELDS_MAX, ID_INDEX_NAME, IndexField, IndexSpec, SPHERE_VERSION};
use super::{cannot_create, in_specification, include, key_pattern, partial};
use crate::geo::PlaneGrid;
use crate::index::storage_engine;
use crate::query::Filter;
use crate::storage::Compression;
use crate::text::{document_text, element, text};
use crate::textsearch::{SCORE_FIELD, TextIndexDefinition, TextIndexSpec};
use crate::types::type_name;
use crate::{Code, Error, Result};
use bson::raw::{CStr, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, RawBson, cstr};
use meridian_value::Collation;
use meridian_value::number::Number;
use meridian_value::with_raw;
use std::sync::Arc;

/// The largest accepted `expireAfterSeconds`.
const EXPIRE_AFTER_SECONDS_MAX: i64 = i32::MAX as i64;

/// The seconds that an `expireAfterSeconds` means, which may be out of range: rounded towards zero; NaN is
/// the largest that is accepted, as in mongod.
fn expiry_seconds(number: Number) -> i64 {
    let out_of_range = || match number.to_f64() {
        seconds if seconds.is_nan() => EXPIRE_AFTER_SECONDS_MAX,
        seconds if seconds < 0.0 => i64::MIN,
        _ => i64::MAX,
    };
    number.to_i64_truncated().unwrap_or_else(out_of_range)
}

/// The coarsest and the finest level of cells of a sphere, where an index does not say: MongoDB's, of cells that are about
/// 2,000 km and 100 m wide.
const SPHERE_LEVELS: (i64, i64) = (2, 16);

/// Options that change nothing here but are listed again, in the order of `listIndexes`.
const LISTED_NUMBERS: [&CStr; 5] = [
    cstr!("finestIndexedLevel"),
    cstr!("coarsestIndexedLevel"),
    cstr!("bits"),
    cstr!("min"),
    cstr!("max"),
];

/// What has been read of a definition.
#[derive(Default)]
pub(super) struct Options {
    version: i32,
    /// The names of the options, as they were written.
    written: Vec<Box<str>>,
    pattern: RawDocumentBuf,
    key: Vec<(String, IndexField)>,
    name: String,
    background: Option<bool>,
    unique: bool,
    prepare_unique: bool,
    hidden: bool,
    sparse: Option<bool>,
    partial: Option<(RawDocumentBuf, Filter)>,
    written_collation: Option<RawDocumentBuf>,
    collation: Option<Collation>,
    expire_after: Option<Bson>,
    sphere_version: Option<Bson>,
    weights: Option<Bson>,
    default_language: Option<String>,
    language_override: Option<String>,
    text_version: Option<Bson>,
    text: Option<TextIndexSpec>,
    storage_engine: Option<Bson>,
    compression: Option<Compression>,
    numbers: Vec<(&'static CStr, Bson)>,
    clustering: bool,
    include: Vec<String>,
    /// Of an index of buckets: what the user of the time series has written.
    original_spec: Option<RawDocumentBuf>,
    wildcard_projection: Option<Bson>,
    wildcard: Option<WildcardScope>,
}

impl Options {
    /// Reads and checks each field on its own.
    pub(super) fn parse(document: &RawDocument) -> Result<Options> {
        let mut options = Options {
            version: parse_version(document)?,
            ..Options::default()
        };
        let (mut has_key, mut has_name) = (false, false);
        for (field, value) in document.iter().flatten() {
            options.written.push(field.as_str().into());
            has_key |= field.as_str() == "key";
            has_name |= field.as_str() == "name";
            options.parse_field(document, field.as_str(), value)?;
        }
        let required = |field| {
            let message =
                format!("The '{field}' field is a required property of an index specification");
            Err(Error::failed_to_parse(message))
        };
        match (has_key, has_name) {
            (false, _) => required("key"),
            (_, false) => required("name"),
            _ if options.weights.is_some() && !options.is_text() => {
                Err(of_text_indexes(document, "weights"))
            }
            _ if options.unique && options.prepare_unique => Err(cannot_create(format!(
                "Invalid index specification {}; cannot create an index with the 'unique' option and the 'prepareUnique' option",
                document_text(document)
            ))),
            _ => {
                options.read_wildcard()?;
                Ok(options)
            }
        }
    }

    fn parse_field(
        &mut self,
        whole: &RawDocument,
        field: &str,
        value: RawBsonRef<'_>,
    ) -> Result<()> {
        match field {
            "key" => {
                let pattern = object(field, value)?;
                self.key = key_pattern::parse(pattern)?;
                self.pattern = pattern.to_owned();
            }
            "name" => self.name = string(field, value)?.to_owned(),
            "v" => {}
            "background" => self.background = Some(boolean(field, value)?),
            "unique" => self.unique = boolean(field, value)?,
            "sparse" => self.sparse = Some(boolean(field, value)?),
            "hidden" => match value {
                RawBsonRef::Boolean(hidden) => self.hidden = hidden,
                // mongod names the wrong field here.
                other => return Err(mismatch("name", "a bool", other)),
            },
            "partialFilterExpression" => {
                let filter = object(field, value)?;
                partial::check_allowed_here(filter)?;
                self.partial = Some((filter.to_owned(), Filter::parse(filter)?));
            }
            "expireAfterSeconds" => self.expire_after = Some(owned(value)?),
            "2dsphereIndexVersion" => {
                number(field, value)?;
                self.sphere_version = Some(owned(value)?);
            }
            "collation" => {
                self.written_collation = Some(filled_object(field, value)?.to_owned());
            }
            "wildcardProjection" => self.wildcard_projection = Some(owned(value)?),
            "weights" | "default_language" | "language_override" | "textIndexVersion" => {
                self.parse_text_field(field, value)?;
            }
            "storageEngine" => self.storage_engine = Some(owned(value)?),
            // mongod reads these levels as truth values, and lists them as they were.
            "finestIndexedLevel" | "coarsestIndexedLevel" => {
                boolean(field, value)?;
                return self.parse_number(whole, field, value);
            }
            "prepareUnique" => self.prepare_unique = boolean(field, value)?,
            "clustered" => check_clustered(whole, boolean(field, value)?)?,
            "clustering" => self.clustering = boolean(field, value)?,
            "include" => self.include = include::parse(value)?,
            "originalSpec" => {
                let spec = filled_object(field, value)?;
                Options::parse(spec)?;
                self.original_spec = Some(spec.to_owned());
            }
            "dropDups" => {
                boolean(field, value)?;
            }
            // Accepted and dropped, as mongod does.
            "ns" | "_id" => {}
            _ => return self.parse_number(whole, field, value),
        }
        Ok(())
    }

    /// An option of text indexes.
    fn parse_text_field(&mut self, field: &str, value: RawBsonRef<'_>) -> Result<()> {
        match (field, value) {
            ("weights", RawBsonRef::Document(_) | RawBsonRef::Array(_) | RawBsonRef::String(_)) => {
                self.weights = Some(owned(value)?)
            }
            ("weights", other) => return Err(mismatch(field, "an object", other)),
            ("default_language", _) => {
                self.default_language = Some(string(field, value)?.to_owned());
            }
            ("language_override", _) => {
                self.language_override = Some(string(field, value)?.to_owned());
            }
            _ => {
                number(field, value)?;
                self.text_version = Some(owned(value)?);
            }
        }
        Ok(())
    }

    fn parse_number(
        &mut self,
        whole: &RawDocument,
        field: &str,
        value: RawBsonRef<'_>,
    ) -> Result<()> {
        let Some(name) = LISTED_NUMBERS.iter().find(|name| name.as_str() == field) else {
            return Err(Error::new(
                Code::InvalidIndexSpecificationOption,
                format!(
                    "The field '{field}' is not valid for an index specification. Specification: {}",
                    document_text(whole)
                ),
            ));
        };
        number(field, value)?;
        self.numbers.push((name, owned(value)?));
        Ok(())
    }

    /// Checks the expiry, which mongod does outside of its other checks.
    pub(super) fn check_ttl(&self, document: &RawDocument) -> Result<()> {
        let Some(value) = &self.expire_after else {
            return Ok(());
        };
        if key_pattern::is_id(&self.pattern) {
            return Ok(()); // `check_names` refuses the option.
        }
        let refuse = |reason: String| {
            Err(cannot_create(format!(
                "{reason}. Index spec: {}",
                document_text(document)
            )))
        };
        let Some(number) = Number::from_bson(value) else {
            let kind = type_name(value.element_type());
            return refuse(format!(
                "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{kind}'"
            ));
        };
        let seconds = expiry_seconds(number);
        if seconds < 0 {
            return refuse("TTL index 'expireAfterSeconds' option cannot be less than 0".into());
        }
        if seconds > EXPIRE_AFTER_SECONDS_MAX {
            return refuse(
                "TTL index 'expireAfterSeconds' option must be within an acceptable range, \
                 try a lower number"
                    .into(),
            );
        }
        // A text index has two fields for all its texts.
        let fields = self.key.iter().filter(|(path, _)| path != SCORE_FIELD);
        if fields.count() > 1 {
            return refuse(
                "TTL indexes are single-field indexes, compound indexes do not support TTL".into(),
            );
        }
        Ok(())
    }

    /// Checks names that are reserved, and the index on `_id`.
    pub(super) fn check_names(&self, versioned: &RawDocument) -> Result<()> {
        if key_pattern::is_id(&self.pattern) {
            return check_id_options(versioned);
        }
        if self.name == "*" {
            return Err(Error::bad_value("The index name '*' is not valid."));
        }
        let pattern = document_text(&self.pattern);
        let of_id = self.pattern.get("_id").ok().flatten();
        let is_minus_one = of_id
            .and_then(Number::from_raw)
            .is_some_and(|number| number.compare(Number::Int32(-1)).is_eq());
        if self.pattern.iter().flatten().count() == 1 && is_minus_one {
            return Err(Error::bad_value(format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {pattern}"
            )));
        }
        if self.name == ID_INDEX_NAME {
            return Err(Error::bad_value(format!(
                "The index name '{ID_INDEX_NAME}' is reserved for the _id index, which must have \
                 key pattern {{_id: 1}}, found key: {pattern}"
            )));
        }
        Ok(())
    }

    /// Checks what must or must not come together.
    pub(super) fn check_combination(&mut self) -> Result<()> {
        if self.name.is_empty() {
            return Err(cannot_create("index name cannot be empty"));
        }
        if self.name.contains('\0') {
            return Err(cannot_create("index name cannot contain NUL bytes"));
        }
        if let Some(value) = &self.storage_engine {
            self.compression = parse_storage_engine(value)?;
        }
        self.check_wildcard()?;
        if let Some((_, filter)) = &self.partial {
            if self.sparse == Some(true) {
                return Err(cannot_create(
                    "cannot mix \"partialFilterExpression\" and \"sparse\" options",
                ));
            }
            partial::check(filter)?;
        }
        if self.has(IndexField::Sphere2d) || self.has(IndexField::SphereBucket) {
            self.check_sphere_version()?;
        }
        include::check(&self.include, &self.key, self.clustering)
    }

    /// Reads what a wildcard index covers.
    fn read_wildcard(&mut self) -> Result<()> {
        let (pattern, IndexField::Wildcard) = &self.key[0] else {
            return match self.wildcard_projection {
                None => Ok(()),
                Some(_) => Err(Error::bad_value(
                    "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
                )),
            };
        };
        let scope = match &self.wildcard_projection {
            None => WildcardScope::parse(pattern, None)?,
            Some(projection) => {
                with_raw(projection, |raw| WildcardScope::parse(pattern, Some(raw)))?
            }
        };
        self.wildcard = Some(scope);
        Ok(())
    }

    /// Refuses what a wildcard index cannot be.
    fn check_wildcard(&self) -> Result<()> {
        if self.wildcard.is_none() {
            return Ok(());
        }
        if self.version < 2 {
            return Err(cannot_create(format!(
                "bad index key pattern {}: 'wildcard' index plugin is not allowed with index version v:{}",
                document_text(&self.pattern),
                self.version
            )));
        }
        let refused = [
            ("sparse", self.sparse == Some(true)),
            ("unique", self.unique),
            // mongod lets a wildcard index become what none may be made as, and ends when it does.
            ("prepareUnique", self.prepare_unique),
        ];
        if let Some((option, _)) = refused.iter().find(|(_, is_given)| *is_given) {
            return Err(cannot_create(format!(
                "Index type 'wildcard' does not support the {option} option"
            )));
        }
        if self.expire_after.is_some() {
            return Err(cannot_create("Index type 'wildcard' cannot be a TTL index"));
        }
        Ok(())
    }

    fn check_sphere_version(&self) -> Result<()> {
        let Some(version) = &self.sphere_version else {
            return Ok(());
        };
        match Number::from_bson(version).and_then(Number::to_i64_exact) {
            Some(3) => Ok(()),
            Some(2) if self.has(IndexField::Sphere2d) => Ok(()),
            Some(1) if self.has(IndexField::Sphere2d) => {
                Err(Error::not_implemented("2dsphereIndexVersion 1"))
            }
            None => Ok(()), // `check_plugin` refuses it.
            _ => {
                let known = match self.has(IndexField::Sphere2d) {
                    true => "1,2,3",
                    false => "3",
                };
                Err(cannot_create(format!(
                    "unsupported geo index version {{ 2dsphereIndexVersion : \
                     2dsphereIndexVersion: {version} }}, only versions: [{known}] are supported"
                )))
            }
        }
    }

    /// Checks what earlier releases took.
    pub(super) fn check_new(&self, versioned: &RawDocument) -> Result<()> {
        if let Some((filter, _)) = &self.partial {
            partial::check_constants(filter).map_err(|error| in_specification(versioned, error))?;
        }
        let mut fields = self.pattern.iter().flatten();
        // What is one when it is cut is taken for the index on `_id`, which it is not.
        let is_nearly_one = |value| {
            Number::from_raw(value).is_some_and(|number| {
                number.to_i64_truncated().is_some_and(|cut| cut.abs() == 1)
                    && number.compare(Number::Int32(1)).is_ne()
            })
        };
        if let (Some((name, value)), None) = (fields.next(), fields.next())
            && name == "_id"
            && is_nearly_one(value)
        {
            let pattern = document_text(&self.pattern);
            return Err(Error::bad_value(format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {pattern}"
            )));
        }
        match self.has(IndexField::Sphere2d) {
            true => self.check_levels(),
            false => Ok(()),
        }
    }

    /// Checks between which levels cells of a sphere are to lie. (Here they lie where they lie best.)
    fn check_levels(&self) -> Result<()> {
        let level = |wanted: &'static CStr, default: i64| {
            let mut numbers = self.numbers.iter();
            let Some((_, value)) = numbers.find(|(name, _)| *name == wanted) else {
                return Ok(default);
            };
            let level = Number::from_bson(value).and_then(Number::to_i64_exact);
            level.ok_or_else(|| {
                let wanted = wanted.as_str();
                Error::bad_value(format!(
                    "Expected field \"{wanted}\" to have a value exactly representable as a 64-bit integer, but found \
                     {wanted}: {value}"
                ))
            })
        };
        let coarsest = level(cstr!("coarsestIndexedLevel"), SPHERE_LEVELS.0)?;
        let finest = level(cstr!("finestIndexedLevel"), SPHERE_LEVELS.1)?;
        let refused = |code, why| Err(Error::location(code, why));
        match (coarsest, finest) {
            (..0, _) => refused(16747, "coarsestIndexedLevel must be >= 0"),
            (_, 31..) => refused(16748, "finestIndexedLevel must be <= 30"),
            _ if finest < coarsest => {
                refused(16749, "finestIndexedLevel must be >= coarsestIndexedLevel")
            }
            _ => Ok(()),
        }
    }

    /// Checks what mongod finds out only when it builds the index.
    pub(super) fn check_plugin(&self) -> Result<()> {
        if let Some(version @ Bson::Double(number)) = &self.sphere_version
            && self.has(IndexField::Sphere2d)
            && number.fract() != 0.0
        {
            return Err(Error::bad_value(format!(
                "Expected field \"2dsphereIndexVersion\" to have a value exactly representable as \
                 a 64-bit integer, but found 2dsphereIndexVersion: {version}"
            )));
        }
        if self.has(IndexField::Plane2d) {
            self.check_plane()?;
        }
        let hashed = self
            .key
            .iter()
            .filter(|(_, kind)| *kind == IndexField::Hashed)
            .count();
        if hashed > 0 && self.unique {
            return Err(Error::location(
                16764,
                "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
            ));
        }
        if hashed > 1 {
            return Err(Error::location(
                31303,
                format!(
                    "A maximum of one index field is allowed to be hashed but found {hashed} \
                     for 'key' {}",
                    document_text(&self.pattern)
                ),
            ));
        }
        Ok(())
    }

    /// Whether it is a text index.
    pub(super) fn is_text(&self) -> bool {
        self.has(IndexField::Text)
    }

    /// Completes the definition of a text index.
    ///
    /// # Errors
    /// Those of [`TextIndexDefinition::read`].
    pub(super) fn read_text(&mut self) -> Result<()> {
        if !self.is_text() {
            return Ok(());
        }
        let weights = self.weights.take().map(raw_weights).transpose()?;
        let definition = TextIndexDefinition {
            key: &self.pattern,
            weights: weights.as_ref().map(RawBson::as_raw_bson_ref),
            default_language: self.default_language.as_deref(),
            language_override: self.language_override.as_deref(),
            version: self.text_version.as_ref().and_then(Number::from_bson),
        };
        let text = definition.read()?;
        self.pattern.clone_from(&text.key);
        self.key = key_pattern::parse(&text.key)?;
        for (path, kind) in &mut self.key {
            if path == SCORE_FIELD {
                *kind = IndexField::Text;
            }
        }
        self.text = Some(text);
        Ok(())
    }

    /// Refuses more fields than an index may have.
    pub(super) fn check_length(&self) -> Result<()> {
        if self.key.len() > FIELDS_MAX {
            return Err(Error::location(13103, "too many compound keys"));
        }
        Ok(())
    }

    /// Checks what a 2d index needs, in the words of mongod's `GeoHashConverter` and `ExpressionParams`.
    fn check_plane(&self) -> Result<()> {
        let bits = match self.option("bits") {
            None => PlaneGrid::BITS,
            Some(bits) => bits.clamp(f64::from(i32::MIN), f64::from(i32::MAX)).trunc(),
        };
        if !(1.0..=32.0).contains(&bits) {
            return Err(Error::new(
                Code::InvalidOptions,
                format!("bits for hash must be > 0 and <= 32, but {bits} bits were specified"),
            ));
        }
        let PlaneGrid { min, max } = self.grid();
        if !min.is_finite() || !max.is_finite() || min >= max {
            return Err(Error::new(
                Code::InvalidOptions,
                format!(
                    "region for hash must be valid and have positive area, but [{min}, {max}] was specified"
                )
                .replace("NaN", "nan"),
            ));
        }
        let planes = self
            .key
            .iter()
            .filter(|(_, kind)| *kind == IndexField::Plane2d);
        if planes.count() > 1 {
            return Err(Error::location(16800, "can't have 2 geo fields"));
        }
        if self
            .key
            .first()
            .is_some_and(|(_, kind)| *kind != IndexField::Plane2d)
        {
            return Err(Error::location(16801, "2d has to be first in index"));
        }
        Ok(())
    }

    fn option(&self, wanted: &str) -> Option<f64> {
        let found = self
            .numbers
            .iter()
            .find(|(name, _)| name.as_str() == wanted)?;
        Number::from_bson(&found.1).map(Number::to_f64)
    }

    fn grid(&self) -> PlaneGrid {
        let PlaneGrid { min, max } = PlaneGrid::default();
        PlaneGrid {
            min: self.option("min").unwrap_or(min),
            max: self.option("max").unwrap_or(max),
        }
    }

    fn has(&self, kind: IndexField) -> bool {
        self.key.iter().any(|(_, field)| *field == kind)
    }

    /// The options as `listIndexes` shows them.
    fn listing(
        &self,
        name: &str,
        expire_after_seconds: Option<i64>,
        sphere_version: Option<i32>,
    ) -> RawDocumentBuf {
        let mut original = RawDocumentBuf::new();
        original.append(cstr!("v"), self.version);
        original.append(cstr!("key"), &self.pattern);
        original.append(cstr!("name"), name);
        let mut flag = |field: &'static CStr, value: Option<bool>| {
            if let Some(value) = value {
                original.append(field, value);
            }
        };
        flag(cstr!("background"), self.background);
        flag(cstr!("unique"), self.unique.then_some(true));
        flag(cstr!("hidden"), self.hidden.then_some(true));
        if let Some((filter, _)) = &self.partial {
            original.append(cstr!("partialFilterExpression"), filter);
        }
        if let Some(sparse) = self.sparse {
            original.append(cstr!("sparse"), sparse);
        }
        if let Some(seconds) = expire_after_seconds {
            original.append(cstr!("expireAfterSeconds"), seconds as i32);
        }
        if let Some(engine) = &self.storage_engine {
            with_raw(engine, |raw| original.append(cstr!("storageEngine"), raw));
        }
        if self.prepare_unique {
            original.append(cstr!("prepareUnique"), true);
        }
        match &self.text {
            Some(text) => {
                for (name, value) in text.listing.iter().flatten() {
                    original.append(name, value);
                }
            }
            None => self.list_text_options(&mut original),
        }
        if let Some(version) = sphere_version {
            original.append(cstr!("2dsphereIndexVersion"), version);
        }
        for listed in LISTED_NUMBERS {
            for (name, value) in self.numbers.iter().filter(|(name, _)| *name == listed) {
                append_number(&mut original, name, value);
            }
        }
        if let Some(listed) = self.collation.as_ref().and_then(crate::collation::listing) {
            original.append(cstr!("collation"), listed);
        }
        if let Some(projection) = &self.wildcard_projection {
            with_raw(projection, |raw| {
                original.append(cstr!("wildcardProjection"), raw)
            });
        }
        if !self.include.is_empty() {
            let list: RawArrayBuf = self.include.iter().map(String::as_str).collect();
            original.append(cstr!("include"), list);
        }
        if self.clustering {
            original.append(cstr!("clustering"), true);
        }
        if let Some(spec) = &self.original_spec {
            original.append(cstr!("originalSpec"), spec);
        }
        original
    }

    /// The options of text indexes, which others may have too.
    fn list_text_options(&self, original: &mut RawDocumentBuf) {
        if let Some(language) = &self.default_language {
            original.append(cstr!("default_language"), language.as_str());
        }
        if let Some(field) = &self.language_override {
            original.append(cstr!("language_override"), field.as_str());
        }
        if let Some(version) = &self.text_version {
            with_raw(version, |raw| {
                original.append(cstr!("textIndexVersion"), raw)
            });
        }
    }

    /// Reads the collation, once all else is known to be right.
    pub(super) fn read_collation(&mut self, versioned: &RawDocument) -> Result<()> {
        let Some(written) = &self.written_collation else {
            return Ok(());
        };
        if self.version < 2 {
            return Err(in_specification(
                versioned,
                cannot_create(format!(
                    "Invalid index specification {}; cannot create an index with the 'collation' option and v=1",
                    document_text(versioned)
                )),
            ));
        }
        let within = format!(
            "failed to add collation information to index spec for index creation: {}",
            document_text(versioned)
        );
        let collation = crate::collation::parse("collation", written);
        let collation = collation.map_err(|error| error.within(&within))?;
        let without = match () {
            () if self.has(IndexField::Plane2d) => Some("2d"),
            () if self.is_text() => Some("text"),
            () => None,
        };
        if let Some(kind) = without
            && let Some(listed) = crate::collation::listing(&collation)
        {
            let mut completed = RawDocumentBuf::new();
            for (name, value) in versioned.iter().flatten() {
                if name.as_str() != "collation" {
                    completed.append(name, value);
                }
            }
            completed.append(cstr!("collation"), listed.clone());
            return Err(in_specification(
                &completed,
                cannot_create(format!(
                    "Index type '{kind}' does not support collation: {}",
                    document_text(&listed)
                )),
            ));
        }
        self.collation = Some(collation);
        Ok(())
    }

    /// The definition with its listing. Only for options that passed all checks.
    pub(super) fn into_spec(self) -> IndexSpec {
        let expire_after_seconds = self
            .expire_after
            .as_ref()
            .map(|value| expiry_seconds(Number::from_bson(value).expect("check_ttl passed")));
        let sphere_version = match &self.sphere_version {
            Some(version) => Number::from_bson(version)
                .and_then(Number::to_i64_truncated)
                .map(|v| v as i32),
            None if self.has(IndexField::Sphere2d) || self.has(IndexField::SphereBucket) => {
                Some(SPHERE_VERSION)
            }
            None => None,
        };
        let grid = self.grid();
        let is_id = key_pattern::is_id(&self.pattern);
        let name = if is_id {
            ID_INDEX_NAME.into()
        } else {
            self.name.clone()
        };
        let original = self.listing(&name, expire_after_seconds, sphere_version);
        IndexSpec {
            name,
            written: self.written.into(),
            include: self.include,
            clustering: self.clustering,
            compression: self.compression,
            key: self.key,
            inherits_collation: self.collation.is_none(),
            collation: self.collation.unwrap_or_default(),
            unique: self.unique || is_id,
            prepare_unique: self.prepare_unique,
            sparse: self.sparse == Some(true),
            hidden: self.hidden,
            partial_filter: self.partial.map(|(filter, _)| filter),
            expire_after_seconds,
            sphere_version,
            grid,
            wildcard: self.wildcard.map(Arc::new),
            text: self.text.map(Arc::new),
            original,
        }
    }
}

/// Lists an option as mongod keeps it: the bounds of a plane as doubles, its bits as an integer.
fn append_number(listing: &mut RawDocumentBuf, name: &CStr, value: &Bson) {
    let number = Number::from_bson(value);
    match (name.as_str(), number) {
        // Only a 2d index has use for them; of others mongod lists what is no number as 0.
        ("min" | "max", Some(number)) if number.is_nan() => listing.append(name, 0.0),
        ("min" | "max", Some(number)) => listing.append(name, number.to_f64()),
        #[allow(clippy::cast_possible_truncation)]
        ("bits", Some(number)) => listing.append(name, number.to_f64() as i32),
        _ => with_raw(value, |raw| listing.append(name, raw)),
    }
}

/// `v`, which decides how the key pattern is read, wherever it stands.
fn parse_version(document: &RawDocument) -> Result<i32> {
    let Ok(Some(value)) = document.get("v") else {
        return Ok(2);
    };
    let number = number("v", value)?;
    let version = number
        .to_i64_exact()
        .and_then(|version| i32::try_from(version).ok());
    match version {
        Some(version @ 1..=2) => Ok(version),
        Some(version) => Err(cannot_create(format!(
            "Invalid index specification {}; cannot create an index with v={version}",
            document_text(document)
        ))),
        None => Err(Error::bad_value(format!(
            "Index version must be representable as a 32-bit integer, but got {}",
            text(value)
        ))),
    }
}

/// The `_id` index takes hardly any option.
fn check_id_options(versioned: &RawDocument) -> Result<()> {
    for (field, _) in versioned.iter().flatten() {
        if !matches!(
            field.as_str(),
            "key" | "name" | "ns" | "v" | "collation" | "_id"
        ) {
            return Err(Error::new(
                Code::InvalidIndexSpecificationOption,
                format!(
                    "The field '{}' is not valid for an _id index specification. Specification: {}",
                    field.as_str(),
                    document_text(versioned)
                ),
            ));
        }
    }
    Ok(())
}

fn parse_storage_engine(value: &Bson) -> Result<Option<Compression>> {
    with_raw(value, |raw| match raw {
        RawBsonRef::Document(options) if options.is_empty() => Err(cannot_create(
            "Empty \"storageEngine\" options are invalid. Please remove the field or include valid options.",
        )),
        RawBsonRef::Document(options) => storage_engine::parse(options),
        _ => Err(cannot_create(
            "\"storageEngine\" options must be a document if present",
        )),
    })
}

fn raw_weights(weights: Bson) -> Result<RawBson> {
    RawBson::try_from(weights).map_err(|error| Error::new(Code::InvalidBSON, error.to_string()))
}

fn filled_object<'a>(field: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    let found = object(field, value)?;
    if found.is_empty() {
        let message = format!("The field '{field}' cannot be an empty object.");
        return Err(Error::bad_value(message));
    }
    Ok(found)
}

fn object<'a>(field: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    value
        .as_document()
        .ok_or_else(|| mismatch(field, "an object", value))
}

fn string<'a>(field: &str, value: RawBsonRef<'a>) -> Result<&'a str> {
    value
        .as_str()
        .ok_or_else(|| mismatch(field, "a string", value))
}

fn number(field: &str, value: RawBsonRef<'_>) -> Result<Number> {
    Number::from_raw(value).ok_or_else(|| mismatch(field, "a number", value))
}

/// An option of text indexes.
fn of_text_indexes(whole: &RawDocument, field: &str) -> Error {
    cannot_create(format!(
        "Invalid index specification {}; the field '{field}' can only be specified with text indexes",
        document_text(whole)
    ))
}

/// `clustered` is an option of `create`, which lists the index of the cluster key with it.
fn check_clustered(whole: &RawDocument, is_clustered: bool) -> Result<()> {
    if !is_clustered {
        return Err(Error::location(
            6_492_800,
            "Value 'false' for field 'clustered' is invalid",
        ));
    }
    match whole.get("unique") {
        Ok(Some(_)) => Err(Error::not_implemented("the index option 'clustered'")),
        _ => Err(cannot_create(
            "The 'unique' field is required when 'clustered' is specified",
        )),
    }
}

fn boolean(field: &str, value: RawBsonRef<'_>) -> Result<bool> {
    match (value, Number::from_raw(value)) {
        (RawBsonRef::Boolean(value), _) => Ok(value),
        (_, Some(number)) => Ok(!number.is_zero()),
        _ => Err(Error::type_mismatch(format!(
            "The field '{field} has value {}, which is not convertible to bool",
            element(field, value)
        ))),
    }
}

fn mismatch(field: &str, expected: &str, value: RawBsonRef<'_>) -> Error {
    let kind = type_name(value.element_type());
    Error::type_mismatch(format!(
        "The field '{field}' must be {expected}, but got {kind}"
    ))
}

fn owned(value: RawBsonRef<'_>) -> Result<Bson> {
    Bson::try_from(value).map_err(|error| Error::new(Code::InvalidBSON, error.to_string()))
}
