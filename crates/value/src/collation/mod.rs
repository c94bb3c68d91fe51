//! Collations: the rules by which texts of a language are compared, where bytes would not do.
//!
//! In: a locale and the options of MongoDB's manual. Out: a [`Collation`] that compares values, and writes
//! their order-preserving keys, as [`crate::compare`] and [`crate::key::encode`] do for the simple one, which
//! compares bytes. Every text within a value counts; field names, code and what code is given do not, as in MongoDB.
//!
//! The rules are those of the CLDR, by ICU4X. Keys on disk come of them: a new version of its data needs
//! the indexes with a collation to be built anew, which a test of this module tells.

mod locales;

use crate::key::{self, Direction, TypeBits};
use crate::order;
use bson::{RawBsonRef, RawDocument};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// How texts are compared. The simple collation compares their bytes.
#[derive(Clone, Default)]
pub struct Collation(Option<Arc<Rules>>);

struct Rules {
    options: CollationOptions,
    collator: CollatorBorrowed<'static>,
}

/// Which letter of two that differ in case only is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum CaseFirst {
    #[default]
    Off,
    Upper,
    Lower,
}

/// What a collation is made of: the options of MongoDB's manual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollationOptions {
    /// ICU's name of the locale, such as `de@collation=phonebook`.
    pub locale: String,
    /// Whether case is a level of its own, behind the second.
    pub case_level: bool,
    /// Which case is first.
    pub case_first: CaseFirst,
    /// How many levels of difference count, 1 to 5.
    pub strength: u8,
    /// Whether digits are compared as numbers.
    pub numeric_ordering: bool,
    /// Whether spaces and punctuation count at the fourth level only (`alternate: "shifted"`).
    pub shifted: bool,
    /// Whether `shifted` is of spaces only (`maxVariable: "space"`).
    pub only_spaces: bool,
    /// Kept as it was asked for; texts are compared in normal form in either case.
    pub normalization: bool,
    /// Whether accents are weighed from the last letter to the first.
    pub backwards: bool,
}

/// Why there is no such collation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCollation {
    /// MongoDB knows no such locale; perhaps this one was meant.
    UnknownLocale(Option<&'static str>),
    /// MongoDB has it, but the library that knows the rules has not.
    NoRules,
}

impl CollationOptions {
    /// The options of a locale with nothing else said.
    pub fn of_locale(locale: &str) -> Self {
        Self {
            locale: locale.to_owned(),
            case_level: false,
            case_first: CaseFirst::Off,
            strength: 3,
            numeric_ordering: false,
            shifted: false,
            only_spaces: false,
            normalization: false,
            backwards: locale == "fr_CA",
        }
    }

    fn collator(&self) -> CollatorOptions {
        let mut options = CollatorOptions::default();
        options.strength = Some(match self.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        // What is not asked for is as the locale has it, as in MongoDB.
        options.alternate_handling = self.shifted.then_some(AlternateHandling::Shifted);
        options.max_variable = Some(match self.only_spaces {
            true => MaxVariable::Space,
            false => MaxVariable::Punctuation,
        });
        options.case_level = Some(match self.case_level {
            true => CaseLevel::On,
            false => CaseLevel::Off,
        });
        options
    }

    fn preferences(&self, tag: &str) -> Option<CollatorPreferences> {
        let locale: icu_locale_core::Locale = tag.parse().ok()?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.case_first = match self.case_first {
            // Danish and Maltese have capitals first.
            CaseFirst::Off => None,
            CaseFirst::Upper => Some(CollationCaseFirst::Upper),
            CaseFirst::Lower => Some(CollationCaseFirst::Lower),
        };
        preferences.numeric_ordering = Some(match self.numeric_ordering {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        Some(preferences)
    }
}

impl Collation {
    /// The collation that compares bytes.
    pub const SIMPLE: Self = Self(None);

    /// The collation with these options.
    ///
    /// # Errors
    /// [`NoCollation`] where there are no rules for them.
    ///
    /// ```
    /// use meridian_value::{Collation, CollationOptions};
    /// let options = CollationOptions { strength: 1, ..CollationOptions::of_locale("fr") };
    /// assert!(Collation::new(options).unwrap().compare_text("Été", "ete").is_eq());
    /// ```
    pub fn new(options: CollationOptions) -> Result<Self, NoCollation> {
        let Some(locale) = locales::find(&options.locale) else {
            return Err(match locales::is_without_rules(&options.locale) {
                true => NoCollation::NoRules,
                false => NoCollation::UnknownLocale(meant(&options.locale)),
            });
        };
        let tag = locale.tag(options.backwards).ok_or(NoCollation::NoRules)?;
        let preferences = options.preferences(tag).ok_or(NoCollation::NoRules)?;
        let collator = CollatorBorrowed::try_new(preferences, options.collator())
            .map_err(|_| NoCollation::NoRules)?;
        Ok(Self(Some(Arc::new(Rules { options, collator }))))
    }

    /// Whether texts are compared by their bytes.
    pub fn is_simple(&self) -> bool {
        self.0.is_none()
    }

    /// What it is made of; nothing for the simple one.
    pub fn options(&self) -> Option<&CollationOptions> {
        self.0.as_deref().map(|rules| &rules.options)
    }

    /// The order of two texts.
    #[inline]
    pub fn compare_text(&self, a: &str, b: &str) -> Ordering {
        match &self.0 {
            None => a.as_bytes().cmp(b.as_bytes()),
            Some(rules) => rules.collator.compare(a, b),
        }
    }

    /// The order of two values.
    #[inline]
    pub fn compare(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
        match &self.0 {
            None => order::compare(a, b),
            Some(rules) => order::compare_with(a, b, &|a, b| rules.collator.compare(a, b)),
        }
    }

    /// The order of two documents.
    pub fn compare_documents(&self, a: &RawDocument, b: &RawDocument) -> Ordering {
        self.compare(RawBsonRef::Document(a), RawBsonRef::Document(b))
    }

    /// Bytes that are equal, and in the order, of texts that are; of the simple collation the text's own.
    pub fn sort_key<'t>(&self, text: &'t str) -> Cow<'t, [u8]> {
        match &self.0 {
            None => Cow::Borrowed(text.as_bytes()),
            Some(rules) => {
                let mut key = Vec::with_capacity(text.len() + 16);
                let Ok(()) = rules.collator.write_sort_key_to(text, &mut key);
                Cow::Owned(key)
            }
        }
    }

    /// Appends the encoding of a value to `out`, as [`key::encode`] does. Texts that compare equal have equal
    /// bytes: they cannot be read back.
    #[inline]
    pub fn encode(
        &self,
        value: RawBsonRef<'_>,
        direction: Direction,
        out: &mut Vec<u8>,
        types: &mut TypeBits,
    ) {
        let collator = self.0.as_deref().map(|rules| &rules.collator);
        key::encode_with(value, direction, collator, out, types);
    }

    /// Whether two values that differ may compare equal, or in another order than by their bytes: where there is
    /// a text in the value.
    pub fn concerns(&self, value: RawBsonRef<'_>) -> bool {
        !self.is_simple() && holds_text(value)
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        self.options() == other.options()
    }
}

impl Eq for Collation {}

impl std::fmt::Debug for Collation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Collation").field(&self.options()).finish()
    }
}

/// Whether there is a text in a value: only then does it matter which collation compares it.
pub fn holds_text(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => true,
        RawBsonRef::Document(document) => {
            let mut values = document.iter().flatten();
            values.any(|(_, value)| holds_text(value))
        }
        RawBsonRef::Array(array) => array.into_iter().flatten().any(holds_text),
        _ => false,
    }
}

/// The locale that a name which is none may have been meant for: without regard to case, `_` and `-`, and
/// without what stands behind the language or the script.
fn meant(name: &str) -> Option<&'static str> {
    let plain = name.split('@').next().unwrap_or_default().replace('-', "_");
    let mut wanted = plain.as_str();
    loop {
        let known = locales::names().find(|known| known.eq_ignore_ascii_case(wanted));
        match (known, wanted.rsplit_once('_')) {
            (Some(known), _) => return Some(known),
            (None, Some((shorter, _))) => wanted = shorter,
            (None, None) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
