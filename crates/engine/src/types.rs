//! Sets of BSON types, as `$type`, `bsonType` and `type` name them.
//!
//! In: numbers, aliases and arrays of them. Out: a bit set that answers for an element type
//! without allocating, and the aliases MongoDB prints.

use crate::error::{Code, Error, Result};
use bson::raw::RawBsonRef;
use bson::spec::ElementType;

/// A set of BSON types. `number` is remembered as such, for printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet {
    bits: u32,
    number: bool,
}

/// Numeric code, alias and element type of every BSON type.
const TYPES: [(i32, &str, ElementType); 21] = [
    (1, "double", ElementType::Double),
    (2, "string", ElementType::String),
    (3, "object", ElementType::EmbeddedDocument),
    (4, "array", ElementType::Array),
    (5, "binData", ElementType::Binary),
    (6, "undefined", ElementType::Undefined),
    (7, "objectId", ElementType::ObjectId),
    (8, "bool", ElementType::Boolean),
    (9, "date", ElementType::DateTime),
    (10, "null", ElementType::Null),
    (11, "regex", ElementType::RegularExpression),
    (12, "dbPointer", ElementType::DbPointer),
    (13, "javascript", ElementType::JavaScriptCode),
    (14, "symbol", ElementType::Symbol),
    (
        15,
        "javascriptWithScope",
        ElementType::JavaScriptCodeWithScope,
    ),
    (16, "int", ElementType::Int32),
    (17, "timestamp", ElementType::Timestamp),
    (18, "long", ElementType::Int64),
    (19, "decimal", ElementType::Decimal128),
    (-1, "minKey", ElementType::MinKey),
    (127, "maxKey", ElementType::MaxKey),
];

/// The alias of a type: `int`, `string`, `objectId`, ...
pub fn type_name(kind: ElementType) -> &'static str {
    TYPES
        .iter()
        .find(|(_, _, candidate)| *candidate == kind)
        .map(|(_, name, _)| *name)
        .expect("the table lists every element type")
}

/// The numeric code of a type, as `$type` takes it.
pub fn type_code(kind: ElementType) -> i32 {
    TYPES
        .iter()
        .find(|(_, _, candidate)| *candidate == kind)
        .map(|(code, _, _)| *code)
        .expect("the table lists every element type")
}

/// The bit of an element type, from its byte on the wire.
const fn bit(kind: ElementType) -> u32 {
    // 0x01..=0x13 as they are; MinKey 0xFF and MaxKey 0x7F fold to 31 and 30.
    match kind {
        ElementType::MinKey => 1 << 31,
        ElementType::MaxKey => 1 << 30,
        other => 1 << (other as u32),
    }
}

impl TypeSet {
    /// Every numeric type: the alias `number`.
    pub const NUMBER: Self = Self {
        bits: bit(ElementType::Double)
            | bit(ElementType::Int32)
            | bit(ElementType::Int64)
            | bit(ElementType::Decimal128),
        number: true,
    };

    /// The set of one type.
    pub const fn of(kind: ElementType) -> Self {
        Self {
            bits: bit(kind),
            number: false,
        }
    }

    /// Whether the set has the type.
    #[inline]
    pub fn contains(self, kind: ElementType) -> bool {
        self.bits & bit(kind) != 0
    }

    /// Whether the set has the type with this byte on the wire.
    #[inline]
    pub(crate) fn contains_byte(self, kind: u8) -> bool {
        let shift = match kind {
            0xFF => 31,
            0x7F => 30,
            other => u32::from(other),
        };
        self.bits & (1 << (shift & 31)) != 0
    }

    /// The union with another set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            number: self.number || other.number,
        }
    }

    /// Whether the sets have a type in common.
    pub fn intersects(self, other: Self) -> bool {
        self.bits & other.bits != 0
    }

    /// Whether the set names no type at all.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The only type of the set, if it is one.
    pub fn single(self) -> Option<ElementType> {
        let mut kinds = self.kinds();
        let first = kinds.next()?;
        kinds.next().is_none().then_some(first)
    }

    /// Every type of the set, by ascending code.
    pub fn kinds(self) -> impl Iterator<Item = ElementType> {
        TYPES
            .iter()
            .map(|(_, _, kind)| *kind)
            .filter(move |kind| self.contains(*kind))
    }

    /// The aliases that describe the set as the client gave it: `number` stays `number`.
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = if self.number {
            vec!["number"]
        } else {
            Vec::new()
        };
        names.extend(
            self.kinds()
                .filter(|kind| !(self.number && Self::NUMBER.contains(*kind)))
                .map(type_name),
        );
        names
    }

    /// Whether the alias `number` was used.
    pub fn is_number(self) -> bool {
        self.number
    }

    /// Parses the operand of `$type`: a code, an alias, or an array of them.
    ///
    /// # Errors
    /// `BadValue` for an unknown code or alias, `TypeMismatch` for another type of operand,
    /// `FailedToParse` for an empty array.
    pub fn parse(field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        let RawBsonRef::Array(array) = operand else {
            return Self::parse_one(operand);
        };
        let mut set = Self::default();
        for entry in array {
            set = set.union(Self::parse_one(entry.map_err(crate::error::malformed)?)?);
        }
        if set.is_empty() {
            return Err(Error::failed_to_parse(format!(
                "{field} must match at least one type"
            )));
        }
        Ok(set)
    }

    fn parse_one(operand: RawBsonRef<'_>) -> Result<Self> {
        let code = match operand {
            RawBsonRef::String(alias) => return Self::from_alias(alias),
            RawBsonRef::Int32(code) => f64::from(code),
            RawBsonRef::Int64(code) => code as f64,
            RawBsonRef::Double(code) => code,
            RawBsonRef::Decimal128(code) => code.to_string().parse().unwrap_or(f64::NAN),
            _ => {
                return Err(Error::new(
                    Code::TypeMismatch,
                    "type must be represented as a number or a string",
                ));
            }
        };
        if code == 0.0 {
            return Err(Error::bad_value(
                "Invalid numerical type code: 0. Instead use {$exists:false}.",
            ));
        }
        TYPES
            .iter()
            .find(|(known, _, _)| f64::from(*known) == code)
            .map(|(_, _, kind)| Self::of(*kind))
            .ok_or_else(|| Error::bad_value(format!("Invalid numerical type code: {code}")))
    }

    /// The set an alias names.
    ///
    /// # Errors
    /// `BadValue` for an unknown alias.
    pub fn from_alias(alias: &str) -> Result<Self> {
        match alias {
            "number" => Ok(Self::NUMBER),
            "missing" => Err(Error::bad_value(
                "'missing' is not a legal type name. To query for non-existence of a field, use {$exists:false}.",
            )),
            _ => TYPES
                .iter()
                .find(|(_, name, _)| *name == alias)
                .map(|(_, _, kind)| Self::of(*kind))
                .ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {alias}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn parse(doc: &bson::RawDocument) -> Result<TypeSet> {
        TypeSet::parse("a", doc.get("t").unwrap().unwrap())
    }

    #[test]
    fn codes_aliases_and_arrays() {
        let set = parse(&rawdoc! { "t": ["number", 2, "minKey"] }).unwrap();
        assert!(set.contains(ElementType::Decimal128) && set.contains(ElementType::String));
        assert!(set.contains(ElementType::MinKey) && !set.contains(ElementType::MaxKey));
        assert_eq!(set.names(), ["number", "string", "minKey"]);
        assert_eq!(
            parse(&rawdoc! { "t": 127.0 }).unwrap().single(),
            Some(ElementType::MaxKey)
        );
    }

    #[test]
    fn wire_bytes_agree_with_element_types() {
        for (_, _, kind) in TYPES {
            let set = TypeSet::of(kind);
            assert!(set.contains_byte(kind as u8) && set.contains(kind));
            assert_eq!(set.kinds().count(), 1);
        }
    }

    #[test]
    fn bad_operands_have_mongodbs_messages() {
        for (doc, code, message) in [
            (rawdoc! { "t": "foo" }, 2, "Unknown type name alias: foo"),
            (rawdoc! { "t": 99 }, 2, "Invalid numerical type code: 99"),
            (rawdoc! { "t": 1.5 }, 2, "Invalid numerical type code: 1.5"),
            (rawdoc! { "t": [] }, 9, "a must match at least one type"),
            (
                rawdoc! { "t": [[]] },
                14,
                "type must be represented as a number or a string",
            ),
        ] {
            let error = parse(&doc).unwrap_err();
            assert_eq!(
                (error.code.number(), error.message.as_str()),
                (code, message)
            );
        }
    }
}
