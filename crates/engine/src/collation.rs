//! Collations as clients write them, and as the server lists them.

use crate::error::{Code, Error, Result};
use crate::text::document_text;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_value::number::Number;
use meridian_value::{CaseFirst, Collation, CollationOptions, NoCollation};

/// The version of the rules that clients are told: that of MongoDB's ICU, which they send back.
const VERSION: &str = "57.1";
/// ICU's limit on the name of a locale.
const LOCALE_BYTES_MAX: usize = 156;

/// What a client said of a collation, each field of the right type.
#[derive(Default)]
struct Said<'a> {
    /// As it was written, where messages show that.
    source: Option<&'a RawDocument>,
    locale: &'a str,
    case_level: bool,
    case_first: CaseFirst,
    strength: Option<u8>,
    numeric_ordering: bool,
    shifted: bool,
    only_spaces: bool,
    normalization: bool,
    backwards: Option<bool>,
    version: Option<&'a str>,
}

/// The collation that a client asks for in the field `place` (such as `collation`).
///
/// # Errors
/// MongoDB's for wrong types, unknown fields, values and locales; `NotImplemented` where the rules of a locale
/// are not at hand.
pub fn parse(place: &str, document: &RawDocument) -> Result<Collation> {
    let mut said = Said::read(place, document)?;
    // Of `create` MongoDB shows what it has read, of all others what was written.
    said.source = (place != "create.collation").then_some(document);
    if said.locale == "simple" {
        return Ok(Collation::SIMPLE);
    }
    said.check_name()?;
    let made = Collation::new(said.options());
    if let Err(unknown @ NoCollation::UnknownLocale(_)) = made {
        return Err(said.refused(unknown));
    }
    said.check_options()?;
    made.map_err(|refusal| said.refused(refusal))
}

/// A collation with all that it is made of, as MongoDB lists it; nothing for the simple one.
pub fn listing(collation: &Collation) -> Option<RawDocumentBuf> {
    collation.options().map(|options| {
        rawdoc! {
            "locale": &*options.locale,
            "caseLevel": options.case_level,
            "caseFirst": case_first_name(options.case_first),
            "strength": i32::from(options.strength),
            "numericOrdering": options.numeric_ordering,
            "alternate": alternate_name(options.shifted),
            "maxVariable": max_variable_name(options.only_spaces),
            "normalization": options.normalization,
            "backwards": options.backwards,
            "version": VERSION,
        }
    })
}

fn case_first_name(case_first: CaseFirst) -> &'static str {
    match case_first {
        CaseFirst::Off => "off",
        CaseFirst::Upper => "upper",
        CaseFirst::Lower => "lower",
    }
}

fn alternate_name(shifted: bool) -> &'static str {
    if shifted { "shifted" } else { "non-ignorable" }
}

fn max_variable_name(only_spaces: bool) -> &'static str {
    if only_spaces { "space" } else { "punct" }
}

/// What may be null.
const SAID_BY_NOTHING: [&str; 9] = [
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "version",
];

impl<'a> Said<'a> {
    fn read(place: &str, document: &'a RawDocument) -> Result<Self> {
        let mut said = Self::default();
        let mut locale = None;
        for entry in document {
            let (name, value) = entry.map_err(crate::error::malformed)?;
            let field = WrittenField {
                place,
                name: name.as_str(),
                value,
            };
            match name.as_str() {
                // A null is as good as nothing, but for this one.
                name if SAID_BY_NOTHING.contains(&name) && value == RawBsonRef::Null => {}
                "locale" => locale = Some(field.text()?),
                "caseLevel" => said.case_level = field.flag()?,
                "caseFirst" => {
                    said.case_first = field.one_of(&[
                        ("upper", CaseFirst::Upper),
                        ("lower", CaseFirst::Lower),
                        ("off", CaseFirst::Off),
                    ])?;
                }
                "strength" => said.strength = Some(field.strength()?),
                "numericOrdering" => said.numeric_ordering = field.flag()?,
                "alternate" => {
                    said.shifted = field.one_of(&[("non-ignorable", false), ("shifted", true)])?;
                }
                "maxVariable" => {
                    said.only_spaces = field.one_of(&[("punct", false), ("space", true)])?;
                }
                "normalization" => said.normalization = field.flag()?,
                "backwards" => match value {
                    RawBsonRef::Boolean(backwards) => said.backwards = Some(backwards),
                    other => {
                        return Err(Error::type_mismatch(format!(
                            "Field 'backwards' should be a boolean value, but found: {}",
                            type_name(other.element_type())
                        )));
                    }
                },
                "version" => said.version = Some(field.text()?),
                unknown => {
                    return Err(Error::location(
                        40415,
                        format!("BSON field '{place}.{unknown}' is an unknown field."),
                    ));
                }
            }
        }
        said.locale = locale.ok_or_else(|| {
            let message = format!("BSON field '{place}.locale' is missing but a required field");
            Error::location(40414, message)
        })?;
        Ok(said)
    }

    /// Refuses what cannot be the name of a locale.
    fn check_name(&self) -> Result<()> {
        if self.locale.contains('\0') {
            return Err(Error::bad_value(format!(
                "Field 'locale' cannot contain null byte. Collation spec: {}",
                self.text()
            )));
        }
        let refused = |what: &str| Err(Error::bad_value(format!("{what} in: {}", self.text())));
        if self.locale.is_empty() {
            return refused("Field 'locale' cannot be the empty string");
        }
        if self.locale.len() > LOCALE_BYTES_MAX {
            return refused("Field 'locale' is not valid");
        }
        Ok(())
    }

    /// Refuses what a locale that is known cannot be asked for.
    fn check_options(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::bad_value(format!("{what} in: {}", self.text())));
        if let Some(version) = self.version.filter(|version| *version != VERSION) {
            return Err(Error::new(
                Code::IncompatibleCollationVersion,
                format!(
                    "Requested collation version {version} but the only available collator version was {VERSION}. \
                     Requested collation spec: {}",
                    self.text()
                ),
            ));
        }
        let options = self.options();
        if options.backwards && options.strength == 1 {
            return refused("'backwards' is invalid with 'strength' of 1");
        }
        let counts_case = options.case_level || options.strength > 2;
        if options.case_first != CaseFirst::Off && !counts_case {
            return refused(
                "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2",
            );
        }
        Ok(())
    }

    fn options(&self) -> CollationOptions {
        let defaults = CollationOptions::of_locale(self.locale);
        CollationOptions {
            case_level: self.case_level,
            case_first: self.case_first,
            strength: self.strength.unwrap_or(defaults.strength),
            numeric_ordering: self.numeric_ordering,
            shifted: self.shifted,
            only_spaces: self.only_spaces,
            normalization: self.normalization,
            backwards: self.backwards.unwrap_or(defaults.backwards),
            ..defaults
        }
    }

    fn refused(&self, refusal: NoCollation) -> Error {
        match refusal {
            NoCollation::UnknownLocale(meant) => {
                let mut message = format!("Field 'locale' is invalid in: {}", self.text());
                if let Some(meant) = meant {
                    message.push_str(&format!(". Did you mean '{meant}'?"));
                }
                Error::bad_value(message)
            }
            NoCollation::NoRules if self.backwards == Some(true) => {
                Error::not_implemented(format!(
                    "the collation option 'backwards' of the locale '{}'",
                    self.locale
                ))
            }
            NoCollation::NoRules => {
                Error::not_implemented(format!("the collation locale '{}'", self.locale))
            }
        }
    }

    /// What was said with MongoDB's defaults, as its messages show it.
    fn text(&self) -> String {
        if let Some(source) = self.source {
            return document_text(source);
        }
        let mut document = rawdoc! {
            "locale": self.locale,
            "caseLevel": self.case_level,
            "caseFirst": case_first_name(self.case_first),
            "strength": i32::from(self.strength.unwrap_or(3)),
            "numericOrdering": self.numeric_ordering,
            "alternate": alternate_name(self.shifted),
            "maxVariable": max_variable_name(self.only_spaces),
            "normalization": self.normalization,
        };
        if let Some(backwards) = self.backwards {
            document.append(bson::cstr!("backwards"), backwards);
        }
        if let Some(version) = self.version {
            document.append(bson::cstr!("version"), version);
        }
        document_text(&document)
    }
}

/// One field of a collation as the client wrote it.
struct WrittenField<'p, 'a> {
    place: &'p str,
    name: &'p str,
    value: RawBsonRef<'a>,
}

impl<'a> WrittenField<'_, 'a> {
    fn text(&self) -> Result<&'a str> {
        match self.value {
            RawBsonRef::String(text) => Ok(text),
            _ => Err(self.mismatch("type 'string'")),
        }
    }

    fn flag(&self) -> Result<bool> {
        match self.value {
            RawBsonRef::Boolean(flag) => Ok(flag),
            _ => Err(self.mismatch("type 'bool'")),
        }
    }

    fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        let found = values.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            Error::bad_value(format!(
                "Enumeration value '{text}' for field '{}.{}' is not a valid value.",
                self.place, self.name
            ))
        })
    }

    fn strength(&self) -> Result<u8> {
        let Some(number) = Number::from_raw(self.value) else {
            return Err(self.mismatch("types '[long, int, decimal, double']"));
        };
        let whole = number.to_i64_truncated().unwrap_or(0);
        let whole = whole.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        let beyond = |sign: &str, limit: i32| {
            Err(Error::location(
                51024,
                format!(
                    "BSON field 'strength' value must be {sign} {limit}, actual value '{whole}'"
                ),
            ))
        };
        match whole {
            ..0 => beyond(">=", 0),
            0 => Err(Error::bad_value(
                "Enumeration value '0' for field 'collation.strength' is not a valid value.",
            )),
            6.. => beyond("<=", 5),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            strength => Ok(strength as u8),
        }
    }

    fn mismatch(&self, expected: &str) -> Error {
        Error::type_mismatch(format!(
            "BSON field '{}.{}' is the wrong type '{}', expected {expected}",
            self.place,
            self.name,
            type_name(self.value.element_type())
        ))
    }
}
