//! The texts of a document that an index of it holds, each with its weight and language.

use super::{Language, TextIndexSpec};
use crate::error::malformed;
use crate::{Error, Result};
use bson::raw::{RawBsonRef, RawDocument};
use std::ops::Bound;

/// The weight of a field that the definition does not name.
const WEIGHT_DEFAULT: f64 = 1.0;

/// One text of a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldText<'a> {
    /// What is written.
    pub text: &'a str,
    /// How much its words count.
    pub weight: f64,
    /// In which language it is.
    pub language: Language,
}

/// A document or an array of documents on the way down.
struct TextPlace<'a> {
    path: &'a str,
    is_array: bool,
    language: Language,
}

impl TextIndexSpec {
    /// The texts of a document that the index holds, in mongod's order.
    ///
    /// # Errors
    /// 17261 and 17262 for a language override that is not a text or not a language.
    pub fn texts<'a>(&self, document: &'a RawDocument) -> Result<Vec<FieldText<'a>>> {
        let mut texts = Vec::new();
        let place = TextPlace {
            path: "",
            is_array: false,
            language: self.default_language,
        };
        self.visit(document, &place, &mut texts)?;
        Ok(texts)
    }

    fn visit<'a>(
        &self,
        document: &'a RawDocument,
        place: &TextPlace<'_>,
        texts: &mut Vec<FieldText<'a>>,
    ) -> Result<()> {
        let language = self.language_of(document, place.language)?;
        for element in document {
            let (name, value) = element.map_err(malformed)?;
            let name = name.as_str();
            if self.is_wildcard && name == self.language_override {
                continue;
            }
            let path = match place {
                TextPlace { path: "", .. } => name.to_owned(),
                TextPlace { is_array: true, .. } => place.path.to_owned(),
                _ => format!("{}.{name}", place.path),
            };
            let inner = |is_array| TextPlace {
                path: &path,
                is_array,
                language,
            };
            let weight = self.weights.get(&path).copied();
            let is_included = self.is_wildcard || weight.is_some();
            match value {
                RawBsonRef::String(text) if is_included => texts.push(FieldText {
                    text: up_to_nul(text),
                    weight: weight.unwrap_or(WEIGHT_DEFAULT),
                    language,
                }),
                RawBsonRef::Document(inside)
                    if self.is_wildcard || self.has_below(&path, &format!("{path}.")) =>
                {
                    self.visit(inside, &inner(false), texts)?;
                }
                RawBsonRef::Array(array)
                    if self.is_wildcard
                        || !place.is_array && (is_included || self.has_below(&path, &path)) =>
                {
                    let array = RawDocument::from_bytes(array.as_bytes()).map_err(malformed)?;
                    self.visit(array, &inner(true), texts)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True when the first path of the definition that is not before `from` is inside of this one.
    ///
    /// mongod looks for an array from its own path on, and so does not find `a.b` when there is `a-b` too: it
    /// comes first. For documents it looks from `a.` on.
    fn has_below(&self, path: &str, from: &str) -> bool {
        let mut paths = self
            .weights
            .range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let first = paths.next().and_then(|(first, _)| first.strip_prefix(path));
        first.is_some_and(|rest| rest.starts_with('.'))
    }

    /// The language that a document says it has, or that of what it is in.
    fn language_of(&self, document: &RawDocument, outer: Language) -> Result<Language> {
        let value = document.get(&self.language_override).map_err(malformed)?;
        let name = match value {
            None => return Ok(outer),
            Some(RawBsonRef::String(name)) => name,
            Some(_) => {
                return Err(Error::location(
                    17261,
                    "found language override field in document with non-string type",
                ));
            }
        };
        Language::parse(up_to_nul(name))
            .map_err(|_| Error::location(17262, format!("language override unsupported: {name}")))
    }
}

/// mongod reads the texts of documents as C strings.
fn up_to_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}
