//! `$jsonSchema`: MongoDB's dialect of JSON Schema draft 4.
//!
//! In: a schema document, compiled once. Out: whether a document conforms, and for one that does
//! not, the `details` that MongoDB 6.0 puts into error 121. A document's fields are checked in a
//! single pass over its bytes without allocating; this is on the path of every insert.
//! `encrypt` and `encryptMetadata` belong to client-side encryption and are refused by name.

mod explain;
mod parse;
mod table;
mod unordered;

use super::filter::Comparison;
use crate::pattern::Pattern;
use crate::types::TypeSet;
use bson::raw::RawBsonRef;
use bson::spec::ElementType;
use bson::{RawBson, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::field;
use meridian_value::number::Number;
use table::PropertyTable;

/// A compiled schema.
#[derive(Debug, Clone)]
pub struct Schema {
    label: Label,
    /// The schema as the client gave it; kept where it describes whole documents.
    source: Option<RawDocumentBuf>,
    /// The schema describes whole documents and its `type` excludes them.
    never: bool,
    types: Option<TypeRule>,
    /// Rules on strings, numbers and arrays, in the order MongoDB reports them.
    scalars: Vec<SchemaRule>,
    object: ObjectRules,
    /// `allOf`, `anyOf`, `oneOf`, `not`, `enum`.
    logical: Vec<SchemaRule>,
}

/// `title` and `description`, repeated in error details.
#[derive(Debug, Clone, Default)]
struct Label {
    title: Option<String>,
    description: Option<String>,
}

/// `type` or `bsonType`.
#[derive(Debug, Clone)]
struct TypeRule {
    types: TypeSet,
    specified: RawDocumentBuf,
}

/// A rule and the keyword document that error details repeat.
#[derive(Debug, Clone)]
struct SchemaRule {
    specified: RawDocumentBuf,
    check: SchemaCheck,
}

#[derive(Debug, Clone)]
enum SchemaCheck {
    Pattern(Pattern),
    MaxLength(i64),
    MinLength(i64),
    MultipleOf(Number),
    /// `minimum` and `maximum`, exclusive or not.
    Bound(Comparison, RawBson),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Items(Box<Schema>),
    /// `items: [..]`: the i-th schema for the i-th element.
    ItemList(Vec<Schema>),
    /// `additionalItems` for the elements from this index on.
    AdditionalItems(usize, Additional),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
    Enum(Vec<RawBson>),
    /// An `enum` without documents, asked of a whole document.
    Never,
}

/// `additionalItems` and `additionalProperties`.
#[derive(Debug, Clone)]
enum Additional {
    Allowed,
    Refused,
    Schema(Box<Schema>),
}

/// Rules on documents.
#[derive(Debug, Clone, Default)]
struct ObjectRules {
    /// `properties` and `required` in one.
    table: PropertyTable,
    /// The names of `required` in the order given, for error details.
    required: Option<RawDocumentBuf>,
    allowed: Option<Allowed>,
    sizes: Vec<SizeRule>,
    dependencies: Vec<Dependency>,
}

/// `patternProperties` and `additionalProperties`.
#[derive(Debug, Clone)]
struct Allowed {
    patterns: Vec<(Pattern, Schema)>,
    additional: Additional,
}

/// `minProperties` and `maxProperties`.
#[derive(Debug, Clone)]
struct SizeRule {
    keyword: &'static str,
    comparison: Comparison,
    limit: i64,
    specified: RawDocumentBuf,
}

/// What the presence of a property asks for.
#[derive(Debug, Clone)]
struct Dependency {
    property: String,
    demand: Demand,
}

#[derive(Debug, Clone)]
enum Demand {
    Properties(Vec<String>),
    Schema(Box<Schema>),
}

impl Schema {
    /// Whether the document conforms.
    #[inline]
    pub fn matches(&self, document: &RawDocument) -> bool {
        !self.never
            && self.object.conforms(document)
            && self
                .logical
                .iter()
                .all(|rule| rule.holds(RawBsonRef::Document(document)))
    }

    /// The schema document.
    pub fn source(&self) -> &RawDocument {
        self.source
            .as_deref()
            .expect("a schema parsed at the top level keeps its source")
    }

    /// Whether a value conforms; rules on other types than the value's own do not apply.
    fn conforms(&self, value: RawBsonRef<'_>) -> bool {
        if let Some(rule) = &self.types
            && !rule.types.contains(value.element_type())
        {
            return false;
        }
        if !self.scalars.iter().all(|rule| rule.holds(value)) {
            return false;
        }
        if let RawBsonRef::Document(document) = value
            && !self.object.conforms(document)
        {
            return false;
        }
        self.logical.iter().all(|rule| rule.holds(value))
    }

    /// The types that alone decide, when nothing but `type` or `bsonType` is asked.
    fn only_types(&self) -> Option<TypeSet> {
        let nothing_else = self.scalars.is_empty()
            && self.logical.is_empty()
            && self.object.is_empty()
            && !self.never;
        match &self.types {
            Some(rule) if nothing_else => Some(rule.types),
            _ => None,
        }
    }

    /// Whether every value conforms.
    fn is_trivial(&self) -> bool {
        self.types.is_none()
            && self.scalars.is_empty()
            && self.logical.is_empty()
            && self.object.is_empty()
    }
}

impl ObjectRules {
    fn is_empty(&self) -> bool {
        self.table.is_empty()
            && self.allowed.is_none()
            && self.sizes.is_empty()
            && self.dependencies.is_empty()
    }

    #[inline]
    fn conforms(&self, document: &RawDocument) -> bool {
        self.table.conforms(document)
            && self.sizes.iter().all(|rule| rule.holds(document))
            && self
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.conforms(document, &self.table))
            && self
                .dependencies
                .iter()
                .all(|dependency| dependency.holds(document))
    }
}

impl Allowed {
    fn conforms(&self, document: &RawDocument, table: &PropertyTable) -> bool {
        if self.patterns.is_empty() && matches!(self.additional, Additional::Allowed) {
            return true;
        }
        field::fields(document).all(|entry| {
            let Some(value) = entry.value() else {
                return false;
            };
            let name = String::from_utf8_lossy(entry.name());
            let mut is_additional = !table.names(&name);
            for (pattern, schema) in &self.patterns {
                if pattern.is_match(&name) {
                    is_additional = false;
                    if !schema.conforms(value) {
                        return false;
                    }
                }
            }
            !is_additional || self.additional.admits(value)
        })
    }
}

impl Additional {
    fn admits(&self, value: RawBsonRef<'_>) -> bool {
        match self {
            Self::Allowed => true,
            Self::Refused => false,
            Self::Schema(schema) => schema.conforms(value),
        }
    }
}

impl SizeRule {
    fn holds(&self, document: &RawDocument) -> bool {
        let count = field::fields(document).count() as i64;
        match self.comparison {
            Comparison::Gte => count >= self.limit,
            _ => count <= self.limit,
        }
    }
}

impl Dependency {
    fn holds(&self, document: &RawDocument) -> bool {
        !has_property(document, &self.property)
            || match &self.demand {
                Demand::Properties(names) => names.iter().all(|name| has_property(document, name)),
                Demand::Schema(schema) => schema.conforms(RawBsonRef::Document(document)),
            }
    }
}

/// MongoDB reads a dotted name as a path, here as in a query.
fn has_property(document: &RawDocument, name: &str) -> bool {
    if !name.contains('.') {
        return field::find(document, name.as_bytes()).is_some();
    }
    table::any_at_path(document, name, &mut |_| true)
}

impl SchemaRule {
    /// Whether the rule holds or does not apply to the value's type.
    fn holds(&self, value: RawBsonRef<'_>) -> bool {
        match (&self.check, value) {
            (SchemaCheck::Pattern(pattern), RawBsonRef::String(text)) => pattern.is_match(text),
            (SchemaCheck::MaxLength(limit), RawBsonRef::String(text)) => {
                text.chars().count() as i64 <= *limit
            }
            (SchemaCheck::MinLength(limit), RawBsonRef::String(text)) => {
                text.chars().count() as i64 >= *limit
            }
            (SchemaCheck::MultipleOf(divisor), value) => {
                Number::from_raw(value).is_none_or(|number| is_multiple(number, *divisor))
            }
            (SchemaCheck::Bound(comparison, limit), value) => {
                !super::parse::is_number(value)
                    || comparison.holds(Some(value), limit.as_raw_bson_ref(), &Collation::SIMPLE)
            }
            (SchemaCheck::MinItems(limit), RawBsonRef::Array(array)) => {
                array.into_iter().count() as i64 >= *limit
            }
            (SchemaCheck::MaxItems(limit), RawBsonRef::Array(array)) => {
                array.into_iter().count() as i64 <= *limit
            }
            (SchemaCheck::UniqueItems, RawBsonRef::Array(array)) => {
                unordered::first_duplicate(array).is_none()
            }
            (SchemaCheck::Items(schema), RawBsonRef::Array(array)) => array
                .into_iter()
                .flatten()
                .all(|item| schema.conforms(item)),
            (SchemaCheck::ItemList(schemas), RawBsonRef::Array(array)) => array
                .into_iter()
                .flatten()
                .zip(schemas)
                .all(|(item, schema)| schema.conforms(item)),
            (SchemaCheck::AdditionalItems(start, additional), RawBsonRef::Array(array)) => array
                .into_iter()
                .flatten()
                .skip(*start)
                .all(|item| additional.admits(item)),
            (SchemaCheck::AllOf(schemas), value) => {
                schemas.iter().all(|schema| schema.conforms(value))
            }
            (SchemaCheck::AnyOf(schemas), value) => {
                schemas.iter().any(|schema| schema.conforms(value))
            }
            (SchemaCheck::OneOf(schemas), value) => {
                schemas
                    .iter()
                    .filter(|schema| schema.conforms(value))
                    .take(2)
                    .count()
                    == 1
            }
            (SchemaCheck::Not(schema), value) => !schema.conforms(value),
            (SchemaCheck::Enum(values), value) => values
                .iter()
                .any(|candidate| unordered::equal(candidate.as_raw_bson_ref(), value)),
            (SchemaCheck::Never, _) => false,
            _ => true,
        }
    }

    /// The types that the rule says something about; `None` for those that concern every type.
    fn applies_to(&self) -> Option<TypeSet> {
        match self.check {
            SchemaCheck::Pattern(_) | SchemaCheck::MaxLength(_) | SchemaCheck::MinLength(_) => {
                Some(TypeSet::of(ElementType::String))
            }
            SchemaCheck::MultipleOf(_) | SchemaCheck::Bound(..) => Some(TypeSet::NUMBER),
            SchemaCheck::MinItems(_)
            | SchemaCheck::MaxItems(_)
            | SchemaCheck::UniqueItems
            | SchemaCheck::Items(_)
            | SchemaCheck::ItemList(_)
            | SchemaCheck::AdditionalItems(..) => Some(TypeSet::of(ElementType::Array)),
            _ => None,
        }
    }
}

/// MongoDB divides as decimals, so that 0.3 is a multiple of 0.1.
fn is_multiple(number: Number, divisor: Number) -> bool {
    number
        .to_decimal()
        .remainder(divisor.to_decimal())
        .is_zero()
}
