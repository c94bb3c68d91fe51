//! A command's own fields: found in one pass, then taken out by type, with MongoDB's messages.

use bson::raw::{RawArray, RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Result};
use meridian_value::Collation;
use meridian_value::field::fields;
use meridian_value::number::{Decimal, Number};

/// The known fields that a document has.
///
/// A field that is null counts as absent, as it does for MongoDB.
#[derive(Debug)]
pub struct Arguments<'a> {
    scope: &'static str,
    found: Vec<(&'a str, RawBsonRef<'a>)>,
}

/// The types that an integer may have, as messages name them.
pub const INTEGERS: &[&str] = &["long", "int", "decimal", "double"];
const BOOLEANS: &[&str] = &["bool", "long", "int", "decimal", "double"];

impl<'a> Arguments<'a> {
    /// Collects the fields of `elements`, all of which must be in `known`.
    ///
    /// # Errors
    /// `Location40415` for an unknown field, `Location40413` for one given twice. `scope` is
    /// what MongoDB calls the structure: `FindCommandRequest`, `update.updates`.
    pub fn collect(
        scope: &'static str,
        elements: impl Iterator<Item = (&'a str, RawBsonRef<'a>)>,
        known: &[&str],
    ) -> Result<Self> {
        let mut found: Vec<(&str, RawBsonRef<'_>)> = Vec::with_capacity(known.len().min(8));
        for (name, value) in elements {
            if !known.contains(&name) {
                return Err(unknown_field(scope, name));
            }
            if found.iter().any(|(other, _)| *other == name) {
                let message = format!("BSON field '{scope}.{name}' is a duplicate field");
                return Err(Error::location(40413, message));
            }
            found.push((name, value));
        }
        Ok(Self { scope, found })
    }

    /// The fields of a nested structure.
    pub fn parse(scope: &'static str, document: &'a RawDocument, known: &[&str]) -> Result<Self> {
        Self::collect(scope, elements(document), known)
    }

    /// The value of a field, unless it is absent or null.
    pub fn get(&self, name: &str) -> Option<RawBsonRef<'a>> {
        self.get_even_null(name).and_then(present)
    }

    /// The value of a field, for the few where MongoDB refuses a null.
    pub fn get_even_null(&self, name: &str) -> Option<RawBsonRef<'a>> {
        let found = self.found.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| *value)
    }

    /// A document.
    pub fn document(&self, name: &str) -> Result<Option<&'a RawDocument>> {
        self.typed(name, &["object"], |value| value.as_document())
    }

    /// An array, which may be absent and not null.
    pub fn array(&self, name: &str) -> Result<Option<&'a RawArray>> {
        if self.get_even_null(name) == Some(RawBsonRef::Null) {
            let message = format!("invalid parameter: expected an object ({name})");
            return Err(Error::location(10065, message));
        }
        self.typed(name, &["array"], |value| value.as_array())
    }

    /// An array of documents.
    pub fn documents(&self, name: &str) -> Result<Option<Vec<&'a RawDocument>>> {
        let Some(array) = self.array(name)? else {
            return Ok(None);
        };
        let mut documents = Vec::new();
        for (index, value) in array_values(array).enumerate() {
            // A null is no element, as in mongod.
            if value == RawBsonRef::Null {
                continue;
            }
            let Some(document) = value.as_document() else {
                let name = format!("{name}.{index}");
                return Err(self.wrong_type(&name, value, &["object"]));
            };
            documents.push(document);
        }
        Ok(Some(documents))
    }

    /// A string.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>> {
        self.typed(name, &["string"], |value| value.as_str())
    }

    /// A boolean and nothing else; absent means `default`.
    pub fn boolean_or(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self
            .typed(name, &["bool"], |value| value.as_bool())?
            .unwrap_or(default))
    }

    /// A boolean, or a number that is true unless it is 0; absent means false.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.typed(name, BOOLEANS, truth)?.unwrap_or(false))
    }

    /// An integer of any numeric type, as [`integer`] has it.
    pub fn integer(&self, name: &str) -> Result<Option<i64>> {
        self.typed(name, INTEGERS, integer)
    }

    /// An integer of any numeric type that must not be negative.
    pub fn natural(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.integer(name)? else {
            return Ok(None);
        };
        match u64::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(below_minimum(name, value)),
        }
    }

    /// The error for a required field that is absent.
    pub fn missing(&self, name: &str) -> Error {
        let message = format!(
            "BSON field '{}.{name}' is missing but a required field",
            self.scope
        );
        Error::location(40414, message)
    }

    /// The error for a field of another type.
    pub fn wrong_type(&self, name: &str, value: RawBsonRef<'_>, expected: &[&str]) -> Error {
        wrong_type(&format!("{}.{name}", self.scope), value, expected)
    }

    /// Refuses by name an option that is on and that Meridian does not have.
    pub fn refuse_flags(&self, names: &[&str]) -> Result<()> {
        for name in names {
            if self.flag(name)? {
                return Err(Error::not_implemented(format_args!(
                    "{}.{name}",
                    self.scope
                )));
            }
        }
        Ok(())
    }

    /// Refuses by name a field that is present and that Meridian does not have.
    pub fn refuse_fields(&self, names: &[&str]) -> Result<()> {
        match names.iter().find(|name| self.get(name).is_some()) {
            Some(name) => Err(Error::not_implemented(format_args!(
                "{}.{name}",
                self.scope
            ))),
            None => Ok(()),
        }
    }

    /// By what texts are compared, if it is said.
    pub fn collation(&self) -> Result<Option<Collation>> {
        let said = self.written_collation()?;
        said.map(|written| meridian_engine::collation::parse("collation", written))
            .transpose()
    }

    /// The same as it was written; an empty one says nothing.
    pub fn written_collation(&self) -> Result<Option<&'a RawDocument>> {
        let written = self.document("collation")?;
        Ok(written.filter(|written| !written.is_empty()))
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &[&str],
        read: impl Fn(RawBsonRef<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.wrong_type(name, value, expected)),
            },
        }
    }
}

/// The value, unless it is null: such a field counts as absent.
pub fn present(value: RawBsonRef<'_>) -> Option<RawBsonRef<'_>> {
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined => None,
        value => Some(value),
    }
}

/// The elements of a document that the wire layer has checked.
pub fn elements<'a>(
    document: &'a RawDocument,
) -> impl Iterator<Item = (&'a str, RawBsonRef<'a>)> + 'a {
    fields(document).map_while(|field| {
        let name = std::str::from_utf8(field.name()).ok()?;
        Some((name, field.value()?))
    })
}

/// The value of a field of a document.
pub fn field<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    let found = elements(document).find(|(own, _)| *own == name);
    found.map(|(_, value)| value)
}

/// The values of an array that the wire layer has checked.
pub fn array_values<'a>(array: &'a RawArray) -> impl Iterator<Item = RawBsonRef<'a>> + 'a {
    array.into_iter().map_while(|value| value.ok())
}

/// MongoDB's error for a field that a structure does not have.
pub fn unknown_field(scope: &str, name: &str) -> Error {
    Error::location(
        40415,
        format!("BSON field '{scope}.{name}' is an unknown field."),
    )
}

/// MongoDB's error for a field of another type than expected. `path` is the full path.
pub fn wrong_type(path: &str, value: RawBsonRef<'_>, expected: &[&str]) -> Error {
    let found = type_name(value);
    // The quote and the bracket are the wrong way round in MongoDB's message; clients match it.
    let expected = match expected {
        [one] => format!("expected type '{one}'"),
        many => format!("expected types '[{}']", many.join(", ")),
    };
    Error::type_mismatch(format!(
        "BSON field '{path}' is the wrong type '{found}', {expected}"
    ))
}

/// MongoDB's error for a number below 0.
pub fn below_minimum(name: &str, value: i64) -> Error {
    let message = format!("BSON field '{name}' value must be >= 0, actual value '{value}'");
    Error::location(51024, message)
}

/// Truth of a boolean or a number.
pub fn truth(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Boolean(value) => Some(value),
        RawBsonRef::Double(value) => Some(value != 0.0),
        RawBsonRef::Decimal128(_) => Number::from_raw(value).map(|number| !number.is_zero()),
        value => integer(value).map(|number| number != 0),
    }
}

/// A number as an integer, clamped to 64 bits: doubles truncated towards zero, decimals rounded, halves to even.
#[expect(
    clippy::cast_possible_truncation,
    reason = "clamping is MongoDB's rule for these fields"
)]
pub fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Double(value) => Some(value as i64),
        RawBsonRef::Decimal128(value) => {
            let rounded = Decimal::from_bson(value).round(0);
            Some(rounded.to_i64_exact().unwrap_or(rounded.to_f64() as i64))
        }
        _ => None,
    }
}

/// MongoDB's name of a value's type.
pub fn type_name(value: RawBsonRef<'_>) -> &'static str {
    meridian_engine::types::type_name(value.element_type())
}

/// The code that goes with MongoDB's "collection name has invalid type" message; it differs
/// between commands.
pub fn collection_name(value: RawBsonRef<'_>, code: Code) -> Result<&str> {
    value.as_str().ok_or_else(|| {
        Error::new(
            code,
            format!("collection name has invalid type {}", type_name(value)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn messages_are_mongods() {
        let document = rawdoc! { "limit": "x", "filter": 1, "skip": -1, "none": null };
        let known = ["limit", "filter", "skip", "none"];
        let arguments = Arguments::parse("count", &document, &known).expect("all known");
        assert_eq!(
            arguments.integer("limit").expect_err("a string").message,
            "BSON field 'count.limit' is the wrong type 'string', expected types \
             '[long, int, decimal, double']"
        );
        assert_eq!(
            arguments.document("filter").expect_err("an int").message,
            "BSON field 'count.filter' is the wrong type 'int', expected type 'object'"
        );
        assert_eq!(
            arguments.natural("skip").expect_err("negative").message,
            "BSON field 'skip' value must be >= 0, actual value '-1'"
        );
        assert_eq!(arguments.string("none").expect("null is absent"), None);
        let error = Arguments::parse("count", &document, &known[..2]).expect_err("skip");
        assert_eq!(
            (error.code.number(), error.message.as_str()),
            (40415, "BSON field 'count.skip' is an unknown field.")
        );
    }
}
