//! Why a value does not conform: the `details` of error 121.
//!
//! Shape, order and wording are those of `doc_validation_error.cpp` of MongoDB 6.0. This runs
//! only for documents that failed, so it builds documents freely.

use super::table::{Property, any_at_path};
use super::{
    Additional, Allowed, Demand, Label, Schema, SchemaCheck, SchemaRule, has_property, unordered,
};
use crate::types::{TypeSet, type_name};
use bson::raw::{CString, RawBsonRef};
use bson::spec::ElementType;
use bson::{RawArray, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use meridian_value::field;

impl Schema {
    /// The details of a document that does not conform: `{ operatorName: "$jsonSchema", .. }`.
    pub fn explain_failure(&self, document: &RawDocument) -> RawDocumentBuf {
        if self.never {
            return self.never_holds();
        }
        let mut details = SchemaDetails::of("$jsonSchema");
        details.label(&self.label);
        let mut rules = self.failed_object_rules(document);
        rules.extend(failed(&self.logical, RawBsonRef::Document(document)));
        details
            .with("schemaRulesNotSatisfied", array(rules))
            .build()
    }

    fn never_holds(&self) -> RawDocumentBuf {
        let mut specified = RawDocumentBuf::new();
        push(
            &mut specified,
            "$jsonSchema",
            RawBson::Document(self.source().to_owned()),
        );
        SchemaDetails::of("$jsonSchema")
            .with("specifiedAs", specified)
            .with("reason", "expression always evaluates to false")
            .build()
    }

    /// What a report holds under `details` for a value that breaks this schema.
    fn details(&self, value: RawBsonRef<'_>) -> RawBson {
        if self.never {
            self.never_holds().into()
        } else {
            array(self.failures(value))
        }
    }

    /// One entry for every rule the value breaks.
    fn failures(&self, value: RawBsonRef<'_>) -> Vec<RawDocumentBuf> {
        // MongoDB drops a rule on a type that `type` rules out by naming one other.
        let stated = self.types.as_ref().map(|rule| rule.types);
        let stated = stated.filter(|types| types.single().is_some() || *types == TypeSet::NUMBER);
        let is_dropped = |rule: &SchemaRule| match (stated, rule.applies_to()) {
            (Some(stated), Some(applies)) => !stated.intersects(applies),
            _ => false,
        };
        let mut entries: Vec<RawDocumentBuf> = self
            .scalars
            .iter()
            .filter(|rule| !is_dropped(rule) && !rule.holds(value))
            .map(|rule| rule.failure(value))
            .collect();
        let may_be_document =
            stated.is_none_or(|stated| stated.contains(ElementType::EmbeddedDocument));
        if let RawBsonRef::Document(document) = value
            && may_be_document
        {
            entries.extend(self.failed_object_rules(document));
        }
        entries.extend(failed(&self.logical, value));
        if let Some(rule) = &self.types
            && !rule.types.contains(value.element_type())
        {
            let considered_type = type_name(value.element_type());
            entries.push(
                SchemaDetails::of(keyword(&rule.specified))
                    .with("specifiedAs", rule.specified.clone())
                    .with("reason", "type did not match")
                    .with("consideredValue", RawBson::from(value))
                    .with("consideredType", considered_type)
                    .build(),
            );
        }
        entries
    }

    fn failed_object_rules(&self, document: &RawDocument) -> Vec<RawDocumentBuf> {
        let object = &self.object;
        let mut entries = Vec::new();
        let unsatisfied: Vec<RawDocumentBuf> = object
            .table
            .all()
            .filter_map(|property| failed_property(property, document))
            .collect();
        if !unsatisfied.is_empty() {
            entries.push(
                SchemaDetails::of("properties")
                    .with("propertiesNotSatisfied", array(unsatisfied))
                    .build(),
            );
        }
        if let Some(allowed) = &object.allowed {
            let is_listed = |name: &str| object.table.names(name);
            entries.extend(allowed.failed_additional(document, &is_listed));
            entries.extend(allowed.failed_patterns(document));
        }
        if let Some(specified) = &object.required {
            entries.extend(failed_required(specified, document));
        }
        for rule in object.sizes.iter().filter(|rule| !rule.holds(document)) {
            entries.push(
                SchemaDetails::of(rule.keyword)
                    .with("specifiedAs", rule.specified.clone())
                    .with("reason", "specified number of properties was not satisfied")
                    .with("numberOfProperties", field::fields(document).count() as i32)
                    .build(),
            );
        }
        entries.extend(self.failed_dependencies(document));
        entries
    }

    fn failed_dependencies(&self, document: &RawDocument) -> Option<RawDocumentBuf> {
        let broken = self
            .object
            .dependencies
            .iter()
            .filter(|rule| !rule.holds(document));
        let failing: Vec<RawDocumentBuf> = broken
            .map(|dependency| {
                let mut entry = SchemaDetails::default();
                entry.set("conditionalProperty", dependency.property.as_str());
                match &dependency.demand {
                    Demand::Properties(names) => {
                        let missing = names.iter().filter(|name| !has_property(document, name));
                        entry.set("missingProperties", strings(missing.map(String::as_str)));
                    }
                    Demand::Schema(schema) => {
                        entry.set("details", schema.details(RawBsonRef::Document(document)));
                    }
                }
                entry.build()
            })
            .collect();
        (!failing.is_empty()).then(|| {
            SchemaDetails::of("dependencies")
                .with("failingDependencies", array(failing))
                .build()
        })
    }
}

fn failed_property(property: &Property, document: &RawDocument) -> Option<RawDocumentBuf> {
    let schema = property.schema.as_ref()?;
    let mut failures = Vec::new();
    let mut conforms = !has_property(document, &property.name);
    any_at_path(document, &property.name, &mut |value| {
        conforms |= schema.conforms(value);
        if failures.is_empty() {
            failures = schema.failures(value);
        }
        conforms
    });
    if conforms || failures.is_empty() {
        return None;
    }
    let mut entry = SchemaDetails::default();
    entry.set("propertyName", &*property.name);
    entry.label(&schema.label);
    Some(entry.with("details", array(failures)).build())
}

fn failed_required(specified: &RawDocument, document: &RawDocument) -> Option<RawDocumentBuf> {
    let Ok(Some(RawBsonRef::Array(names))) = specified.get("required") else {
        return None;
    };
    let mut missing: Vec<&str> = names
        .into_iter()
        .flatten()
        .filter_map(RawBsonRef::as_str)
        .filter(|name| !has_property(document, name))
        .collect();
    missing.sort_unstable();
    (!missing.is_empty()).then(|| {
        SchemaDetails::of("required")
            .with("specifiedAs", specified.to_owned())
            .with("missingProperties", strings(missing.into_iter()))
            .build()
    })
}

impl Allowed {
    fn failed_additional(
        &self,
        document: &RawDocument,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Option<RawDocumentBuf> {
        let mut additional = document.iter().flatten().filter(|(name, _)| {
            let name = name.as_str();
            !is_listed(name)
                && !self
                    .patterns
                    .iter()
                    .any(|(pattern, _)| pattern.is_match(name))
        });
        match &self.additional {
            Additional::Allowed => None,
            Additional::Refused => {
                let names: Vec<&str> = additional.map(|(name, _)| name.as_str()).collect();
                let mut specified = RawDocumentBuf::new();
                push(
                    &mut specified,
                    "additionalProperties",
                    RawBson::Boolean(false),
                );
                (!names.is_empty()).then(|| {
                    SchemaDetails::of("additionalProperties")
                        .with("specifiedAs", specified)
                        .with("additionalProperties", strings(names.into_iter()))
                        .build()
                })
            }
            Additional::Schema(schema) => {
                let (name, value) = additional.find(|(_, value)| !schema.conforms(*value))?;
                let mut entry = SchemaDetails::of("additionalProperties");
                entry.label(&schema.label);
                Some(
                    entry
                        .with(
                            "reason",
                            "at least one additional property did not match the subschema",
                        )
                        .with("failingProperty", name.as_str())
                        .with("details", schema.details(value))
                        .build(),
                )
            }
        }
    }

    fn failed_patterns(&self, document: &RawDocument) -> Option<RawDocumentBuf> {
        let mut entries = Vec::new();
        for (pattern, schema) in &self.patterns {
            // MongoDB names the first failing property of each pattern.
            let failing = document
                .iter()
                .flatten()
                .find(|(name, value)| pattern.is_match(name.as_str()) && !schema.conforms(*value));
            let Some((name, value)) = failing else {
                continue;
            };
            let mut entry = SchemaDetails::default();
            entry.set("propertyName", name.as_str());
            entry.label(&schema.label);
            entry.set("regexMatched", pattern.source());
            entries.push(entry.with("details", schema.details(value)).build());
        }
        (!entries.is_empty()).then(|| {
            SchemaDetails::of("patternProperties")
                .with("details", array(entries))
                .build()
        })
    }
}

fn failed(rules: &[SchemaRule], value: RawBsonRef<'_>) -> Vec<RawDocumentBuf> {
    rules
        .iter()
        .filter(|rule| !rule.holds(value))
        .map(|rule| rule.failure(value))
        .collect()
}

impl SchemaRule {
    /// Why the value breaks this rule.
    fn failure(&self, value: RawBsonRef<'_>) -> RawDocumentBuf {
        let name = keyword(&self.specified);
        if let SchemaCheck::Never = self.check {
            return SchemaDetails::of(name)
                .with("specifiedAs", self.specified.clone())
                .with("reason", "expression always evaluates to false")
                .build();
        }
        match &self.check {
            SchemaCheck::Items(schema) => {
                let (index, item) = first_failing(value, 0, schema);
                failed_item(
                    name,
                    "At least one item did not match the sub-schema",
                    schema,
                    index,
                    item,
                )
            }
            SchemaCheck::AdditionalItems(start, Additional::Schema(schema)) => {
                let (index, item) = first_failing(value, *start, schema);
                let reason = "At least one additional item did not match the sub-schema";
                failed_item(name, reason, schema, index, item)
            }
            SchemaCheck::ItemList(schemas) => {
                let entries = items(value)
                    .zip(schemas)
                    .enumerate()
                    .filter(|(_, (item, schema))| !schema.conforms(*item))
                    .map(|(index, (item, schema))| {
                        SchemaDetails::default()
                            .with("itemIndex", index as i64)
                            .with("details", schema.details(item))
                            .build()
                    });
                SchemaDetails::of(name)
                    .with("details", array(entries.collect()))
                    .build()
            }
            SchemaCheck::AllOf(schemas) | SchemaCheck::AnyOf(schemas) => SchemaDetails::of(name)
                .with("schemasNotSatisfied", unsatisfied(schemas, value))
                .build(),
            SchemaCheck::OneOf(schemas) => {
                let matching: Vec<i32> = (0..)
                    .zip(schemas)
                    .filter(|(_, schema)| schema.conforms(value))
                    .map(|(index, _)| index)
                    .collect();
                if matching.is_empty() {
                    return SchemaDetails::of(name)
                        .with("schemasNotSatisfied", unsatisfied(schemas, value))
                        .build();
                }
                SchemaDetails::of(name)
                    .with("reason", "more than one subschema matched")
                    .with(
                        "matchingSchemaIndexes",
                        RawBson::Array(matching.into_iter().collect()),
                    )
                    .build()
            }
            SchemaCheck::Not(_) => SchemaDetails::of(name)
                .with("reason", "child expression matched")
                .build(),
            _ => self.scalar_failure(name, value),
        }
    }

    fn scalar_failure(&self, name: &str, value: RawBsonRef<'_>) -> RawDocumentBuf {
        let reason = match &self.check {
            SchemaCheck::Pattern(_) => "regular expression did not match",
            SchemaCheck::MaxLength(_) | SchemaCheck::MinLength(_) => {
                "specified string length was not satisfied"
            }
            SchemaCheck::MultipleOf(_) => {
                "considered value is not a multiple of the specified value"
            }
            SchemaCheck::MinItems(_) | SchemaCheck::MaxItems(_) => {
                "array did not match specified length"
            }
            SchemaCheck::UniqueItems => "found a duplicate item",
            SchemaCheck::Enum(_) => "value was not found in enum",
            SchemaCheck::AdditionalItems(..) => "found additional items",
            _ => "comparison failed",
        };
        let entry = SchemaDetails::of(name)
            .with("specifiedAs", self.specified.clone())
            .with("reason", reason);
        if let SchemaCheck::AdditionalItems(start, _) = &self.check {
            let extra: RawArrayBuf = items(value).skip(*start).map(RawBson::from).collect();
            return entry.with("additionalItems", RawBson::Array(extra)).build();
        }
        let entry = entry.with("consideredValue", RawBson::from(value));
        match (&self.check, value) {
            (SchemaCheck::MinItems(_) | SchemaCheck::MaxItems(_), _) => entry
                .with("numberOfItems", items(value).count() as i32)
                .build(),
            (SchemaCheck::UniqueItems, RawBsonRef::Array(array)) => {
                match unordered::first_duplicate(array) {
                    Some(duplicate) => entry
                        .with("duplicatedValue", RawBson::from(duplicate))
                        .build(),
                    None => entry.build(),
                }
            }
            _ => entry.build(),
        }
    }
}

fn failed_item(
    name: &str,
    reason: &str,
    schema: &Schema,
    index: usize,
    item: RawBsonRef<'_>,
) -> RawDocumentBuf {
    let mut entry = SchemaDetails::of(name);
    entry.label(&schema.label);
    entry
        .with("reason", reason)
        .with("itemIndex", index as i32)
        .with("details", schema.details(item))
        .build()
}

fn first_failing<'a>(
    value: RawBsonRef<'a>,
    start: usize,
    schema: &Schema,
) -> (usize, RawBsonRef<'a>) {
    items(value)
        .enumerate()
        .skip(start)
        .find(|(_, item)| !schema.conforms(*item))
        .expect("the rule failed, so some item does not conform")
}

fn unsatisfied(schemas: &[Schema], value: RawBsonRef<'_>) -> RawBson {
    let entries = schemas
        .iter()
        .enumerate()
        .filter(|(_, schema)| !schema.conforms(value))
        .map(|(index, schema)| {
            let mut entry = SchemaDetails::default();
            entry.set("index", index as i32);
            if !schema.never {
                entry.label(&schema.label);
            }
            entry.with("details", schema.details(value)).build()
        });
    array(entries.collect())
}

fn items<'a>(value: RawBsonRef<'a>) -> impl Iterator<Item = RawBsonRef<'a>> {
    let array: Option<&'a RawArray> = value.as_array();
    array
        .into_iter()
        .flat_map(|array| array.into_iter().flatten())
}

/// The first name of `{ keyword: operand }`.
fn keyword(specified: &RawDocument) -> &str {
    specified
        .iter()
        .flatten()
        .next()
        .map_or("", |(name, _)| name.as_str())
}

fn array(entries: Vec<RawDocumentBuf>) -> RawBson {
    RawBson::Array(entries.into_iter().map(RawBson::Document).collect())
}

fn strings<'a>(names: impl Iterator<Item = &'a str>) -> RawBson {
    RawBson::Array(names.map(|name| RawBson::String(name.to_owned())).collect())
}

fn push(document: &mut RawDocumentBuf, name: &str, value: RawBson) {
    let name = CString::try_from(name).expect("names in error details have no NUL");
    document.append(name, value);
}

/// Builds one entry of error details.
#[derive(Default)]
struct SchemaDetails(RawDocumentBuf);

impl SchemaDetails {
    fn of(operator: &str) -> Self {
        Self::default().with("operatorName", operator)
    }

    fn set(&mut self, name: &str, value: impl Into<RawBson>) {
        push(&mut self.0, name, value.into());
    }

    fn with(mut self, name: &str, value: impl Into<RawBson>) -> Self {
        self.set(name, value);
        self
    }

    fn label(&mut self, label: &Label) {
        if let Some(title) = &label.title {
            self.set("title", title.as_str());
        }
        if let Some(description) = &label.description {
            self.set("description", description.as_str());
        }
    }

    fn build(self) -> RawDocumentBuf {
        self.0
    }
}
