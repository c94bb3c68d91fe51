//! `$text`: a search in the texts of a document.
//!
//! In: the operand, and later the collection's text index, which says where the texts are and in which language. Out:
//! whether a document matches, and how well.

use super::filter::Filter;
use super::parse::elements;
use crate::error::{Code, Error, Result};
use crate::operation::memory::Reservation;
use crate::textsearch::{Language, Sensitivity, TextIndexSpec, TextQuery, any_of, index_terms};
use crate::types::type_name;
use bson::raw::RawBsonRef;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use std::sync::{Arc, OnceLock};

/// A search, of which the text index tells the rest.
#[derive(Debug, Clone)]
pub struct TextCondition {
    search: String,
    /// As given; empty where it is not.
    language: String,
    sensitivity: Sensitivity,
    /// Whether it is asked only of documents that have one of the terms: those that the index finds.
    is_found: bool,
    /// Set when the statement is planned; the copies of a statement's filter share it.
    resolved: Arc<OnceLock<ResolvedText>>,
}

#[derive(Debug)]
struct ResolvedText {
    index: Arc<TextIndexSpec>,
    query: TextQuery,
    /// Of a long search.
    _memory: Reservation,
}

impl TextCondition {
    /// Reads the operand.
    ///
    /// # Errors
    /// MongoDB's: `NoSuchKey` without `$search`, `TypeMismatch`, `BadValue` for other fields.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self> {
        let RawBsonRef::Document(operand) = operand else {
            return Err(Error::bad_value("$text expects an object"));
        };
        let given = |name| operand.get(name).ok().flatten();
        let Some(search) = given("$search") else {
            return Err(Error::new(
                Code::NoSuchKey,
                "Missing expected field \"$search\"",
            ));
        };
        let search = text("$search", search)?;
        let language = given("$language").map_or(Ok(""), |value| text("$language", value))?;
        let flag = |name| given(name).map_or(Ok(false), |value| boolean(name, value));
        let sensitivity = Sensitivity {
            case: flag("$caseSensitive")?,
            diacritics: flag("$diacriticSensitive")?,
        };
        let is_known = |name: &str| {
            matches!(
                name,
                "$search" | "$language" | "$caseSensitive" | "$diacriticSensitive"
            )
        };
        if !elements(operand)?.iter().all(|(name, _)| is_known(name)) {
            return Err(Error::bad_value("extra fields in $text"));
        }
        Ok(Self {
            search: search.to_owned(),
            language: language.to_owned(),
            sensitivity,
            is_found: false,
            resolved: Arc::default(),
        })
    }

    /// The same, asked of documents that the index has found by a term.
    #[must_use]
    pub fn of_found(&self) -> Self {
        Self {
            is_found: true,
            ..self.clone()
        }
    }

    /// The search by what an index says.
    ///
    /// # Errors
    /// `BadValue` for a language that there is not; `ExceededMemoryLimit` for too long a search; `QueryPlanKilled` when the statement was planned with another
    /// index before.
    pub fn resolve(&self, index: &Arc<TextIndexSpec>) -> Result<&TextQuery> {
        let language = match self.language.as_str() {
            "" => index.default_language,
            name => Language::parse(name)?,
        };
        if self.resolved.get().is_none() {
            let query = TextQuery::parse(&self.search, language, self.sensitivity);
            let mut memory = Reservation::default();
            memory.grow(query.size_bytes())?;
            let resolved = ResolvedText {
                index: index.clone(),
                query,
                _memory: memory,
            };
            // Where two resolve it at once, both say the same.
            let _ = self.resolved.set(resolved);
        }
        let resolved = self.resolved()?;
        if resolved.index != *index {
            return Err(Error::new(
                Code::QueryPlanKilled,
                "the text index was replaced while the statement ran",
            ));
        }
        Ok(&resolved.query)
    }

    /// What is searched for, once it is known.
    pub fn query(&self) -> Option<&TextQuery> {
        self.resolved.get().map(|resolved| &resolved.query)
    }

    /// Whether the document has what is searched for.
    ///
    /// # Errors
    /// `InternalError` before the search is resolved.
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        let ResolvedText { index, query, .. } = self.resolved()?;
        let Ok(texts) = index.texts(document) else {
            // A text index takes no such document.
            return Ok(false);
        };
        if self.is_found {
            return query.matches(&texts);
        }
        for field in &texts {
            let words = index_terms(field.text, field.language);
            if any_of(words, |term| Ok(query.index_terms.contains(term)))? {
                return query.matches(&texts);
            }
        }
        Ok(false)
    }

    /// How well the document answers the search; none where it has none of its terms.
    pub fn score(&self, document: &RawDocument) -> Option<f64> {
        let ResolvedText { index, query, .. } = self.resolved().ok()?;
        let scores = index.scores(document).ok()?;
        let own = query.index_terms.iter().filter_map(|term| scores.get(term));
        // In ascending order of the terms, as MongoDB adds them: floating point.
        own.copied().reduce(|sum, score| sum + score)
    }

    fn resolved(&self) -> Result<&ResolvedText> {
        let unresolved = || Error::internal("a search was asked before it was planned");
        self.resolved.get().ok_or_else(unresolved)
    }

    /// The operand as `explain` shows it.
    pub(super) fn to_document(&self) -> RawDocumentBuf {
        let language = match (self.language.as_str(), self.query()) {
            ("", Some(query)) => query.language.name(),
            (given, _) => given,
        };
        rawdoc! {
            "$search": self.search.as_str(),
            "$language": language,
            "$caseSensitive": self.sensitivity.case,
            "$diacriticSensitive": self.sensitivity.diacritics,
        }
    }
}

impl Filter {
    /// The `$text` in the filter, wherever it stands.
    pub fn text(&self) -> Option<&TextCondition> {
        match self {
            Self::Text(condition) => Some(condition),
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().find_map(Self::text)
            }
            _ => None,
        }
    }

    /// Refuses a filter with more than one `$text`, or with one where it may not stand.
    ///
    /// # Errors
    /// `BadValue` with MongoDB's messages.
    pub fn check_text(&self) -> Result<()> {
        if self.count_text() > 1 {
            return Err(Error::bad_value("Too many text expressions"));
        }
        if self.negates_text() {
            return Err(Error::bad_value("text expression not allowed in nor"));
        }
        Ok(())
    }

    fn count_text(&self) -> usize {
        match self {
            Self::Text(_) => 1,
            Self::And(children) | Self::Or(children) | Self::Nor(children) => {
                children.iter().map(Self::count_text).sum()
            }
            _ => 0,
        }
    }

    fn negates_text(&self) -> bool {
        match self {
            Self::Nor(_) => self.text().is_some(),
            Self::And(children) | Self::Or(children) => children.iter().any(Self::negates_text),
            _ => false,
        }
    }
}

fn text<'a>(name: &str, value: RawBsonRef<'a>) -> Result<&'a str> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(name, "string", value))
}

fn boolean(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value
        .as_bool()
        .ok_or_else(|| wrong_type(name, "bool", value))
}

fn wrong_type(name: &str, expected: &str, value: RawBsonRef<'_>) -> Error {
    let found = type_name(value.element_type());
    Error::type_mismatch(format!(
        "\"{name}\" had the wrong type. Expected {expected}, found {found}"
    ))
}
