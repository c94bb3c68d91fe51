//! From a schema document to a [`Schema`].
//!
//! The order of checks and every message follow `json_schema_parser.cpp` of MongoDB 6.0.

use super::table::PropertyTable;
use super::{
    Additional, Allowed, Demand, Dependency, Label, ObjectRules, Schema, SchemaCheck, SchemaRule,
    SizeRule, TypeRule, unordered,
};
use crate::error::{Error, Result};
use crate::pattern::Pattern;
use crate::query::filter::Comparison;
use crate::query::parse::{IntegerError, elements, integer, is_number};
use crate::types::{TypeSet, type_name};
use bson::raw::{CString, RawBsonRef};
use bson::spec::ElementType;
use bson::{RawArray, RawBson, RawDocument, RawDocumentBuf};
use meridian_value::number::Number;

/// Keywords that MongoDB knows of and does not support.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

const KEYWORDS: [&str; 31] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "bsonType",
    "dependencies",
    "description",
    "encrypt",
    "encryptMetadata",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

impl Schema {
    /// Compiles the operand of `$jsonSchema`.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch` and `BadValue` with MongoDB's messages; `NotImplemented`
    /// for `encrypt` and `encryptMetadata`.
    pub fn parse(schema: &RawDocument) -> Result<Self> {
        parse(schema, Level::Document)
    }
}

/// Whether the schema describes the whole document or a value in it. Keywords on scalars are
/// checked but without effect at the top.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Document,
    Value,
}

struct Keywords<'a>(Vec<(&'a str, RawBsonRef<'a>)>);

impl<'a> Keywords<'a> {
    fn collect(schema: &'a RawDocument) -> Result<Self> {
        let mut found: Vec<(&str, RawBsonRef<'_>)> = Vec::new();
        for (name, value) in elements(schema)? {
            if UNSUPPORTED.contains(&name) {
                return Err(Error::failed_to_parse(format!(
                    "$jsonSchema keyword '{name}' is not currently supported"
                )));
            }
            if !KEYWORDS.contains(&name) {
                return Err(Error::failed_to_parse(format!(
                    "Unknown $jsonSchema keyword: {name}"
                )));
            }
            if found.iter().any(|(known, _)| *known == name) {
                return Err(Error::failed_to_parse(format!(
                    "Duplicate $jsonSchema keyword: {name}"
                )));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    fn get(&self, keyword: &str) -> Option<RawBsonRef<'a>> {
        self.0
            .iter()
            .find(|(name, _)| *name == keyword)
            .map(|(_, value)| *value)
    }

    fn text(&self, keyword: &str) -> Result<Option<String>> {
        match self.get(keyword) {
            None => Ok(None),
            Some(RawBsonRef::String(text)) => Ok(Some(text.to_owned())),
            Some(_) => Err(mismatch(keyword, "must be of type string")),
        }
    }
}

fn mismatch(keyword: &str, rest: &str) -> Error {
    Error::type_mismatch(format!("$jsonSchema keyword '{keyword}' {rest}"))
}

fn refused(keyword: &str, rest: &str) -> Error {
    Error::failed_to_parse(format!("$jsonSchema keyword '{keyword}' {rest}"))
}

fn kind(value: RawBsonRef<'_>) -> &'static str {
    type_name(value.element_type())
}

/// `{ keyword: operand }`, as error details repeat it.
fn specified(keyword: &str, operand: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    append(&mut document, keyword, operand);
    document
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    let name = CString::try_from(name).expect("a BSON name has no NUL");
    document.append(name, value);
}

fn parse(schema: &RawDocument, level: Level) -> Result<Schema> {
    let keywords = Keywords::collect(schema)?;
    let label = Label {
        title: keywords.text("title")?,
        description: keywords.text("description")?,
    };
    let types = types(&keywords)?;
    let mut scalars = scalars(&keywords, level)?;
    scalars.extend(arrays(&keywords)?);
    if level == Level::Document {
        scalars.clear();
    }
    for keyword in ["encryptMetadata", "encrypt"] {
        if keywords.get(keyword).is_some() {
            return Err(Error::not_implemented(format!(
                "$jsonSchema keyword '{keyword}'"
            )));
        }
    }
    let object = object(&keywords, level)?;
    let logical = logical(&keywords, level)?;
    let is_never = |rule: &TypeRule| !rule.types.contains(ElementType::EmbeddedDocument);
    let never = level == Level::Document && types.as_ref().is_some_and(is_never);
    let source = (level == Level::Document).then(|| schema.to_owned());
    Ok(Schema {
        label,
        source,
        never,
        types,
        scalars,
        object,
        logical,
    })
}

fn nested(value: RawBsonRef<'_>, error: impl FnOnce() -> Error) -> Result<Schema> {
    nested_at(Level::Value, value, error)
}

fn nested_at(level: Level, value: RawBsonRef<'_>, error: impl FnOnce() -> Error) -> Result<Schema> {
    match value {
        RawBsonRef::Document(schema) => parse(schema, level),
        _ => Err(error()),
    }
}

fn types(keywords: &Keywords<'_>) -> Result<Option<TypeRule>> {
    let (keyword, operand) = match (keywords.get("type"), keywords.get("bsonType")) {
        (Some(_), Some(_)) => {
            return Err(Error::failed_to_parse(
                "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
            ));
        }
        (Some(operand), None) => ("type", operand),
        (None, Some(operand)) => ("bsonType", operand),
        (None, None) => return Ok(None),
    };
    let types = match operand {
        RawBsonRef::String(alias) => type_alias(keyword, alias)?,
        RawBsonRef::Array(array) => type_aliases(keyword, array)?,
        _ => {
            return Err(mismatch(
                keyword,
                "must be either a string or an array of strings",
            ));
        }
    };
    Ok(Some(TypeRule {
        types,
        specified: specified(keyword, operand),
    }))
}

fn type_aliases(keyword: &str, array: &RawArray) -> Result<TypeSet> {
    let mut aliases: Vec<&str> = Vec::new();
    for entry in array {
        let RawBsonRef::String(alias) = entry.map_err(crate::error::malformed)? else {
            return Err(mismatch(keyword, "array elements must be strings"));
        };
        if aliases.contains(&alias) {
            return Err(refused(keyword, &format!("has duplicate value: {alias}")));
        }
        aliases.push(alias);
    }
    if aliases.is_empty() {
        return Err(refused(keyword, "must name at least one type"));
    }
    aliases
        .into_iter()
        .try_fold(TypeSet::default(), |set, alias| {
            Ok(set.union(type_alias(keyword, alias)?))
        })
}

/// `type` has JSON's names, `bsonType` those of `$type`.
fn type_alias(keyword: &str, alias: &str) -> Result<TypeSet> {
    if keyword == "bsonType" && alias != "integer" {
        return TypeSet::from_alias(alias);
    }
    Ok(match alias {
        "array" => TypeSet::of(ElementType::Array),
        "boolean" => TypeSet::of(ElementType::Boolean),
        "null" => TypeSet::of(ElementType::Null),
        "number" => TypeSet::NUMBER,
        "object" => TypeSet::of(ElementType::EmbeddedDocument),
        "string" => TypeSet::of(ElementType::String),
        "integer" => {
            return Err(Error::failed_to_parse(
                "$jsonSchema type 'integer' is not currently supported.",
            ));
        }
        _ => {
            return Err(Error::bad_value(format!(
                "Unknown type name alias: {alias}"
            )));
        }
    })
}

fn scalars(keywords: &Keywords<'_>, level: Level) -> Result<Vec<SchemaRule>> {
    let mut rules = Vec::new();
    if let Some(operand) = keywords.get("pattern") {
        let RawBsonRef::String(source) = operand else {
            return Err(mismatch("pattern", "must be a string"));
        };
        if level == Level::Value {
            let check = SchemaCheck::Pattern(Pattern::new(source, "")?);
            rules.push(SchemaRule {
                specified: specified("pattern", operand),
                check,
            });
        }
    }
    rules.extend(limit(keywords, "maxLength", SchemaCheck::MaxLength)?);
    rules.extend(limit(keywords, "minLength", SchemaCheck::MinLength)?);
    if let Some(operand) = keywords.get("multipleOf") {
        let Some(number) = Number::from_raw(operand) else {
            return Err(mismatch("multipleOf", "must be a number"));
        };
        if number.is_zero() || number.is_negative() {
            return Err(refused("multipleOf", "must have a positive value"));
        }
        if level == Level::Value && number.is_nan() {
            return Err(Error::bad_value("divisor cannot be NaN"));
        }
        if level == Level::Value && number.is_infinite() {
            return Err(Error::bad_value("divisor cannot be infinite"));
        }
        let check = SchemaCheck::MultipleOf(number);
        rules.push(SchemaRule {
            specified: specified("multipleOf", operand),
            check,
        });
    }
    rules.extend(bound(keywords, "maximum", "exclusiveMaximum")?);
    rules.extend(bound(keywords, "minimum", "exclusiveMinimum")?);
    Ok(rules)
}

/// A keyword whose operand is a count.
fn limit(
    keywords: &Keywords<'_>,
    keyword: &'static str,
    check: fn(i64) -> SchemaCheck,
) -> Result<Option<SchemaRule>> {
    let Some(operand) = keywords.get(keyword) else {
        return Ok(None);
    };
    let check = check(count(keyword, operand)?);
    Ok(Some(SchemaRule {
        specified: specified(keyword, operand),
        check,
    }))
}

fn count(keyword: &str, operand: RawBsonRef<'_>) -> Result<i64> {
    integer(keyword, operand)
        .and_then(|number| number.non_negative(keyword, operand))
        .map_err(|IntegerError(message)| Error::failed_to_parse(message))
}

fn bound(
    keywords: &Keywords<'_>,
    keyword: &'static str,
    exclusive_keyword: &'static str,
) -> Result<Option<SchemaRule>> {
    let exclusive = keywords.get(exclusive_keyword);
    let Some(operand) = keywords.get(keyword) else {
        return match exclusive {
            None => Ok(None),
            Some(_) => Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{keyword}' must be a present if {exclusive_keyword} is present"
            ))),
        };
    };
    if !is_number(operand) {
        return Err(mismatch(keyword, "must be a number"));
    }
    let is_exclusive = match exclusive {
        None => false,
        Some(RawBsonRef::Boolean(flag)) => flag,
        Some(_) => return Err(mismatch(exclusive_keyword, "must be a boolean")),
    };
    let comparison = match (keyword, is_exclusive) {
        ("maximum", false) => Comparison::Lte,
        ("maximum", true) => Comparison::Lt,
        (_, false) => Comparison::Gte,
        (_, true) => Comparison::Gt,
    };
    let mut specified = specified(keyword, operand);
    if is_exclusive {
        append(&mut specified, exclusive_keyword, RawBsonRef::Boolean(true));
    }
    Ok(Some(SchemaRule {
        specified,
        check: SchemaCheck::Bound(comparison, RawBson::from(operand)),
    }))
}

fn arrays(keywords: &Keywords<'_>) -> Result<Vec<SchemaRule>> {
    let mut rules = Vec::new();
    rules.extend(limit(keywords, "minItems", SchemaCheck::MinItems)?);
    rules.extend(limit(keywords, "maxItems", SchemaCheck::MaxItems)?);
    match keywords.get("uniqueItems") {
        None | Some(RawBsonRef::Boolean(false)) => {}
        Some(operand @ RawBsonRef::Boolean(true)) => rules.push(SchemaRule {
            specified: specified("uniqueItems", operand),
            check: SchemaCheck::UniqueItems,
        }),
        Some(_) => return Err(mismatch("uniqueItems", "must be a boolean")),
    }
    let additional_from = match keywords.get("items") {
        None => None,
        Some(operand @ RawBsonRef::Document(schema)) => {
            let check = SchemaCheck::Items(Box::new(parse(schema, Level::Value)?));
            rules.push(SchemaRule {
                specified: specified("items", operand),
                check,
            });
            None
        }
        Some(operand @ RawBsonRef::Array(array)) => {
            let mut schemas = Vec::new();
            for entry in array {
                let entry = entry.map_err(crate::error::malformed)?;
                schemas.push(nested(entry, || {
                    mismatch(
                        "items",
                        &format!(
                            "requires that each element of the array is an object, but found a {}",
                            kind(entry)
                        ),
                    )
                })?);
            }
            let start = schemas.len();
            let check = SchemaCheck::ItemList(schemas);
            rules.push(SchemaRule {
                specified: specified("items", operand),
                check,
            });
            Some(start)
        }
        Some(operand) => {
            let rest = format!("must be an array or an object, not {}", kind(operand));
            return Err(mismatch("items", &rest));
        }
    };
    if let Some(operand) = keywords.get("additionalItems") {
        let additional = additional(operand, || {
            mismatch(
                "additionalItems",
                &format!(
                    "must be either an object or a boolean, but got a {}",
                    kind(operand)
                ),
            )
        })?;
        // Only a list of `items` leaves elements over.
        if let Some(start) = additional_from {
            let check = SchemaCheck::AdditionalItems(start, additional);
            rules.push(SchemaRule {
                specified: specified("additionalItems", operand),
                check,
            });
        }
    }
    Ok(rules)
}

fn additional(operand: RawBsonRef<'_>, error: impl FnOnce() -> Error) -> Result<Additional> {
    Ok(match operand {
        RawBsonRef::Boolean(true) => Additional::Allowed,
        RawBsonRef::Boolean(false) => Additional::Refused,
        other => Additional::Schema(Box::new(nested(other, error)?)),
    })
}

fn object(keywords: &Keywords<'_>, level: Level) -> Result<ObjectRules> {
    let required_operand = keywords.get("required");
    let required = required_operand
        .map(required_names)
        .transpose()?
        .unwrap_or_default();
    let listed = keywords
        .get("properties")
        .map(properties)
        .transpose()?
        .unwrap_or_default();
    let allowed = allowed(keywords)?;
    let mut sizes = Vec::new();
    for (keyword, comparison) in [
        ("minProperties", Comparison::Gte),
        ("maxProperties", Comparison::Lte),
    ] {
        if let Some(operand) = keywords.get(keyword) {
            let limit = count(keyword, operand)?;
            sizes.push(SizeRule {
                keyword,
                comparison,
                limit,
                specified: specified(keyword, operand),
            });
        }
    }
    let dependencies = keywords
        .get("dependencies")
        .map(|operand| dependencies(operand, level))
        .transpose()?
        .unwrap_or_default();
    Ok(ObjectRules {
        table: PropertyTable::new(listed, &required),
        required: required_operand.map(|operand| specified("required", operand)),
        allowed,
        sizes,
        dependencies,
    })
}

fn required_names(operand: RawBsonRef<'_>) -> Result<Vec<String>> {
    let RawBsonRef::Array(array) = operand else {
        let rest = format!(
            "must be an array, but found an element of type {}",
            kind(operand)
        );
        return Err(mismatch("required", &rest));
    };
    let mut names: Vec<String> = Vec::new();
    for entry in array {
        let entry = entry.map_err(crate::error::malformed)?;
        let RawBsonRef::String(name) = entry else {
            let rest = format!(
                "must be an array of strings, but found an element of type: {}",
                kind(entry)
            );
            return Err(mismatch("required", &rest));
        };
        if names.iter().any(|known| known == name) {
            return Err(refused("required", "array cannot contain duplicate values"));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return Err(refused("required", "cannot be an empty array"));
    }
    Ok(names)
}

fn properties(operand: RawBsonRef<'_>) -> Result<Vec<(String, Schema)>> {
    let RawBsonRef::Document(document) = operand else {
        return Err(mismatch("properties", "must be an object"));
    };
    let mut listed = Vec::new();
    for (name, value) in elements(document)? {
        let schema = nested(value, || {
            Error::type_mismatch(format!(
                "Nested schema for $jsonSchema property '{name}' must be an object"
            ))
        })?;
        listed.push((name.to_owned(), schema));
    }
    Ok(listed)
}

fn allowed(keywords: &Keywords<'_>) -> Result<Option<Allowed>> {
    let pattern_operand = keywords.get("patternProperties");
    let additional_operand = keywords.get("additionalProperties");
    if pattern_operand.is_none() && additional_operand.is_none() {
        return Ok(None);
    }
    let mut patterns = Vec::new();
    if let Some(operand) = pattern_operand {
        let RawBsonRef::Document(document) = operand else {
            return Err(mismatch("patternProperties", "must be an object"));
        };
        for (source, value) in elements(document)? {
            let schema = nested(value, || {
                mismatch(
                    "patternProperties",
                    &format!("has property '{source}' which is not an object"),
                )
            })?;
            let pattern = Pattern::new(source, "").map_err(|error| {
                match error.message.strip_prefix("Regular expression is invalid") {
                    Some(reason) => Error::bad_value(format!("Invalid regular expression{reason}")),
                    None => error,
                }
            })?;
            patterns.push((pattern, schema));
        }
    }
    let additional = match additional_operand {
        None => Additional::Allowed,
        Some(operand) => additional(operand, || {
            mismatch("additionalProperties", "must be an object or a boolean")
        })?,
    };
    Ok(Some(Allowed {
        patterns,
        additional,
    }))
}

fn dependencies(operand: RawBsonRef<'_>, level: Level) -> Result<Vec<Dependency>> {
    let RawBsonRef::Document(document) = operand else {
        return Err(mismatch("dependencies", "must be an object"));
    };
    let mut dependencies = Vec::new();
    for (property, value) in elements(document)? {
        let demand = match value {
            RawBsonRef::Document(schema) => Demand::Schema(Box::new(parse(schema, level)?)),
            RawBsonRef::Array(array) => Demand::Properties(dependent_names(property, array)?),
            _ => {
                return Err(Error::type_mismatch(format!(
                    "property '{property}' in $jsonSchema keyword 'dependencies' must be either an \
                     object or an array"
                )));
            }
        };
        dependencies.push(Dependency {
            property: property.to_owned(),
            demand,
        });
    }
    Ok(dependencies)
}

fn dependent_names(property: &str, array: &RawArray) -> Result<Vec<String>> {
    let place = format!("array '{property}' in $jsonSchema keyword 'dependencies'");
    let mut names: Vec<String> = Vec::new();
    for entry in array {
        let entry = entry.map_err(crate::error::malformed)?;
        let RawBsonRef::String(name) = entry else {
            return Err(Error::type_mismatch(format!(
                "{place} can only contain strings, but found element of type: {}",
                kind(entry)
            )));
        };
        if names.iter().any(|known| known == name) {
            return Err(Error::failed_to_parse(format!(
                "{place} contains duplicate element: {name}"
            )));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "property '{property}' in $jsonSchema keyword 'dependencies' cannot be an empty array"
        )));
    }
    Ok(names)
}

fn logical(keywords: &Keywords<'_>, level: Level) -> Result<Vec<SchemaRule>> {
    let mut rules = Vec::new();
    for (keyword, check) in [
        (
            "allOf",
            SchemaCheck::AllOf as fn(Vec<Schema>) -> SchemaCheck,
        ),
        ("anyOf", SchemaCheck::AnyOf),
        ("oneOf", SchemaCheck::OneOf),
    ] {
        if let Some(operand) = keywords.get(keyword) {
            let check = check(branches(keyword, operand, level)?);
            rules.push(SchemaRule {
                specified: specified(keyword, operand),
                check,
            });
        }
    }
    if let Some(operand) = keywords.get("not") {
        let schema = nested_at(level, operand, || {
            let rest = format!(
                "must be an object, but found an element of type {}",
                kind(operand)
            );
            mismatch("not", &rest)
        })?;
        let check = SchemaCheck::Not(Box::new(schema));
        rules.push(SchemaRule {
            specified: specified("not", operand),
            check,
        });
    }
    if let Some(operand) = keywords.get("enum") {
        let values = enumeration(operand)?;
        let has_document = values
            .iter()
            .any(|value| matches!(value, RawBson::Document(_)));
        let check = match level {
            Level::Document if !has_document => SchemaCheck::Never,
            _ => SchemaCheck::Enum(values),
        };
        rules.push(SchemaRule {
            specified: specified("enum", operand),
            check,
        });
    }
    Ok(rules)
}

fn branches(keyword: &str, operand: RawBsonRef<'_>, level: Level) -> Result<Vec<Schema>> {
    let RawBsonRef::Array(array) = operand else {
        return Err(mismatch(keyword, "must be an array"));
    };
    if array.is_empty() {
        return Err(Error::bad_value(format!(
            "$jsonSchema keyword '{keyword}' must be a non-empty array"
        )));
    }
    let mut schemas = Vec::new();
    for entry in array {
        let entry = entry.map_err(crate::error::malformed)?;
        schemas.push(nested_at(level, entry, || {
            let rest = format!(
                "must be an array of objects, but found an element of type {}",
                kind(entry)
            );
            mismatch(keyword, &rest)
        })?);
    }
    Ok(schemas)
}

fn enumeration(operand: RawBsonRef<'_>) -> Result<Vec<RawBson>> {
    let RawBsonRef::Array(array) = operand else {
        let rest = format!(
            "must be an array, but found an element of type {}",
            kind(operand)
        );
        return Err(mismatch("enum", &rest));
    };
    if array.is_empty() {
        return Err(refused("enum", "cannot be an empty array"));
    }
    if unordered::first_duplicate(array).is_some() {
        return Err(refused("enum", "array cannot contain duplicate values."));
    }
    array
        .into_iter()
        .map(|entry| entry.map(RawBson::from).map_err(crate::error::malformed))
        .collect()
}
