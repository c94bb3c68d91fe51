//! The definition of a text index: read, checked and completed as mongod's `FTSSpec::fixSpec` does.

use super::Language;
use crate::{Code, Error, Result};
use bson::cstr;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::number::Number;
use std::collections::BTreeMap;

/// The field whose value is `text` in the key of a text index, and the one after it.
pub const TERM_FIELD: &str = "_fts";
/// See [`TERM_FIELD`].
pub const SCORE_FIELD: &str = "_ftsx";
/// The path that stands for all texts of a document.
const WILDCARD: &str = "$**";
/// Weights are less than this.
const WEIGHT_END: i32 = 100_000;
const DEFAULT_LANGUAGE: &str = "english";
const LANGUAGE_OVERRIDE: &str = "language";
/// The only version that Meridian has.
const VERSION: i32 = 3;

/// The fields of a definition that concern text, as the client wrote them.
#[derive(Debug, Clone, Copy)]
pub struct TextIndexDefinition<'a> {
    /// The key pattern: a text field at least.
    pub key: &'a RawDocument,
    /// A document, an array or a text: others are of the wrong type.
    pub weights: Option<RawBsonRef<'a>>,
    /// `default_language`
    pub default_language: Option<&'a str>,
    /// `language_override`
    pub language_override: Option<&'a str>,
    /// `textIndexVersion`
    pub version: Option<Number>,
}

/// What a text index holds of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct TextIndexSpec {
    /// The weight of each path.
    pub(super) weights: BTreeMap<String, f64>,
    /// Whether all texts are in the index, also those without a weight.
    pub(super) is_wildcard: bool,
    /// The language of documents that do not say one.
    pub default_language: Language,
    /// The field by which documents say their language.
    pub language_override: String,
    /// The key pattern as listed: `{a: 1, _fts: "text", _ftsx: 1, b: -1}`.
    pub key: RawDocumentBuf,
    /// The paths before the text, whose values a search has to give, and those after it.
    pub prefix: Vec<String>,
    /// See `prefix`.
    pub suffix: Vec<String>,
    /// The options as listed, in their order: `weights`, `default_language`, `language_override`,
    /// `textIndexVersion`.
    pub listing: RawDocumentBuf,
}

impl TextIndexDefinition<'_> {
    /// Checks and completes the definition.
    ///
    /// # Errors
    /// `CannotCreateIndex` with mongod's message, before "Error in specification …" is put in front of it;
    /// `NotImplemented` for versions 1 and 2.
    pub fn read(&self) -> Result<TextIndexSpec> {
        let (key, mut weights) = self.read_key()?;
        let (prefix, suffix) = self.read_order()?;
        self.read_weights(&mut weights)?;
        let is_wildcard = weights.contains_key(WILDCARD);
        let listed_language = self.default_language.unwrap_or(DEFAULT_LANGUAGE);
        let version = self.version.map_or(VERSION, to_i32);
        if matches!(version, 1 | 2) {
            return Err(Error::not_implemented(format!(
                "textIndexVersion {version}"
            )));
        }
        let default_language = Language::parse(listed_language)
            .ok()
            .filter(|_| !listed_language.is_empty())
            .ok_or_else(|| cannot_create("default_language is not valid"))?;
        let language_override = self.language_override.unwrap_or(LANGUAGE_OVERRIDE);
        let is_path = language_override.contains('.') || language_override.starts_with('$');
        if language_override.is_empty() || is_path {
            return Err(cannot_create("language_override is not valid"));
        }
        if version != VERSION {
            return Err(cannot_create(format!("bad textIndexVersion: {version}")));
        }
        let mut listing = RawDocumentBuf::new();
        listing.append(cstr!("weights"), list_weights(&weights)?);
        listing.append(cstr!("default_language"), listed_language);
        listing.append(cstr!("language_override"), language_override);
        listing.append(cstr!("textIndexVersion"), VERSION);
        weights.remove(WILDCARD); // What it says is not used: other texts have a weight of 1.
        Ok(TextIndexSpec {
            weights: weights
                .into_iter()
                .map(|(path, weight)| (path, f64::from(weight)))
                .collect(),
            is_wildcard,
            default_language,
            language_override: language_override.to_owned(),
            key,
            prefix,
            suffix,
            listing,
        })
    }

    /// The key with one pair of fields for all texts, and the paths of those.
    fn read_key(&self) -> Result<(RawDocumentBuf, BTreeMap<String, i32>)> {
        let mut key = RawDocumentBuf::new();
        let mut weights = BTreeMap::new();
        let mut has_term = false;
        for (path, kind) in self.key.iter().flatten() {
            match path.as_str() {
                TERM_FIELD if !is_text(kind) => {
                    return Err(cannot_create("expecting _fts:\"text\""));
                }
                TERM_FIELD => {
                    has_term = true;
                    key.append(path, kind);
                }
                SCORE_FIELD if integer(kind) != 1 => {
                    return Err(cannot_create("expecting _ftsx:1"));
                }
                text if is_text(kind) => {
                    if !has_term {
                        key.append(cstr!("_fts"), "text");
                        key.append(cstr!("_ftsx"), 1);
                        has_term = true;
                    }
                    weights.insert(text.to_owned(), 1);
                }
                _ if !matches!(integer(kind), 1 | -1) => {
                    return Err(cannot_create(
                        "expected value 1 or -1 for non-text key in compound index",
                    ));
                }
                _ => key.append(path, kind),
            }
        }
        Ok((key, weights))
    }

    /// The paths before and after the texts, which are next to each other.
    fn read_order(&self) -> Result<(Vec<String>, Vec<String>)> {
        let fields = self.key.iter().flatten();
        let mut fields = fields
            .map(|(path, kind)| (path.as_str(), is_text(kind)))
            .peekable();
        let mut others = [Vec::new(), Vec::new()];
        while let Some((path, _)) = fields.next_if(|(_, is_text)| !is_text) {
            others[0].push(not_reserved(path)?.to_owned());
        }
        if fields.next_if(|(path, _)| *path == TERM_FIELD).is_some() {
            if fields.next_if(|(path, _)| *path == SCORE_FIELD).is_none() {
                return Err(cannot_create("expected _ftsx after _fts"));
            }
        } else {
            while let Some((path, _)) = fields.next_if(|(_, is_text)| *is_text) {
                not_reserved(path)?;
            }
        }
        for (path, is_text) in fields {
            if is_text {
                return Err(cannot_create("'text' fields in index must all be adjacent"));
            }
            others[1].push(not_reserved(path)?.to_owned());
        }
        Ok(others.into())
    }

    /// Adds the weights that the client wrote, and checks all of them.
    fn read_weights(&self, weights: &mut BTreeMap<String, i32>) -> Result<()> {
        match self.weights {
            None => {}
            Some(RawBsonRef::Document(given)) => {
                for (path, weight) in given.iter().flatten() {
                    let number = Number::from_raw(weight)
                        .ok_or_else(|| cannot_create("weight for text index needs numeric type"))?;
                    weights.insert(path.as_str().to_owned(), to_i32(number));
                }
            }
            Some(RawBsonRef::String(WILDCARD)) => {
                weights.insert(WILDCARD.to_owned(), 1);
            }
            Some(_) => {
                return Err(cannot_create(
                    "text index option 'weights' must be an object",
                ));
            }
        }
        if weights.is_empty() {
            return Err(cannot_create(
                "text index option 'weights' must specify fields or the wildcard",
            ));
        }
        weights
            .iter()
            .try_for_each(|(path, &weight)| check_weight(path, weight))
    }
}

impl TextIndexSpec {
    /// The names of the top-level fields on which a document's terms and keys depend; none for all.
    pub fn roots(&self) -> Option<Vec<&str>> {
        if self.is_wildcard {
            return None;
        }
        let mut roots = vec![self.language_override.as_str()];
        for path in self.weights.keys() {
            // A field of a document may have a name with dots.
            let ends = path.match_indices('.').map(|(at, _)| at);
            roots.extend(ends.chain([path.len()]).map(|end| &path[..end]));
        }
        let others = self.prefix.iter().chain(&self.suffix);
        roots.extend(others.filter_map(|path| path.split('.').next()));
        Some(roots)
    }

    /// The weights by path, for `explain` and tests; a wildcard is not one of them.
    pub fn weights(&self) -> impl Iterator<Item = (&str, f64)> {
        self.weights
            .iter()
            .map(|(path, weight)| (path.as_str(), *weight))
    }
}

fn check_weight(path: &str, weight: i32) -> Result<()> {
    if !(1..WEIGHT_END).contains(&weight) {
        return Err(cannot_create(format!(
            "text index weight must be in the exclusive interval (0,{WEIGHT_END}) but found: {weight}"
        )));
    }
    if path.is_empty() {
        return Err(cannot_create("weight cannot be on an empty field"));
    }
    if path == WILDCARD {
        return Ok(());
    }
    for part in path.split('.') {
        if part.is_empty() {
            return Err(cannot_create("weight cannot have empty path component"));
        }
        if part.starts_with('$') {
            return Err(cannot_create(
                "weight cannot have path component with $ prefix",
            ));
        }
    }
    Ok(())
}

fn list_weights(weights: &BTreeMap<String, i32>) -> Result<RawDocumentBuf> {
    let mut listed = RawDocumentBuf::new();
    for (path, weight) in weights {
        let path = bson::raw::CString::try_from(path.as_str()).map_err(crate::error::malformed)?;
        listed.append(&path, *weight);
    }
    Ok(listed)
}

fn not_reserved(path: &str) -> Result<&str> {
    match path {
        TERM_FIELD | SCORE_FIELD => Err(cannot_create(
            "text index with reserved fields _fts/_ftsx not allowed",
        )),
        _ => Ok(path),
    }
}

fn is_text(kind: RawBsonRef<'_>) -> bool {
    matches!(kind, RawBsonRef::String("text"))
}

/// A number as mongod's `numberInt` reads it; 0 for what is none.
fn integer(value: RawBsonRef<'_>) -> i32 {
    Number::from_raw(value).map_or(0, to_i32)
}

fn cannot_create(message: impl Into<String>) -> Error {
    Error::new(Code::CannotCreateIndex, message)
}

/// mongod's `numberInt`: doubles are cut, decimals rounded; what is too large is the nearest.
#[allow(clippy::cast_possible_truncation)]
fn to_i32(number: Number) -> i32 {
    match number {
        Number::Int32(value) => value,
        Number::Int64(value) => value.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
        Number::Double(value) => value as i32,
        Number::Decimal(value) => value.round(0).to_f64() as i32,
    }
}
