//! The keys of text indexes: one for each term of a document.
//!
//! ```text
//! fields of an entry:   values before the texts | term (a string) | score (a double) | values behind the texts
//! ```
//!
//! A document without terms has no entry.

use super::generator::{PathTarget, resolve};
use super::{IndexField, IndexSpec, KeySink, Multikey};
use crate::text::document_text;
use crate::textsearch::{TextIndexSpec, index_key};
use crate::{Code, Error, Result};
use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::Collation;
use meridian_value::field::find;
use meridian_value::key::Direction;
use meridian_value::path::Path;
use std::sync::Arc;

/// A compiled definition of a text index.
#[derive(Debug)]
pub(super) struct TextKeys {
    spec: Arc<TextIndexSpec>,
    /// The fields before the term, and those behind the score.
    prefix: Vec<PlainField>,
    suffix: Vec<PlainField>,
}

#[derive(Debug)]
struct PlainField {
    path: Path,
    direction: Direction,
}

impl TextKeys {
    /// `None` for an index of another kind.
    pub(super) fn of(spec: &IndexSpec) -> Option<Self> {
        let text = spec.text.clone()?;
        let plain = |(path, kind): &(String, IndexField)| PlainField {
            path: Path::parse(path),
            direction: kind.direction(),
        };
        let (prefix, rest) = spec.key.split_at(text.prefix.len());
        Some(Self {
            spec: text,
            prefix: prefix.iter().map(plain).collect(),
            suffix: rest[2..].iter().map(plain).collect(),
        })
    }

    /// See [`TextIndexSpec::roots`].
    pub(super) fn roots(&self) -> Option<Vec<&str>> {
        self.spec.roots()
    }

    /// Emits every entry of a document, each once.
    ///
    /// # Errors
    /// `CannotBuildIndexKeys` for an array in or before a field beside the texts, 17261 and 17262 for languages.
    pub(super) fn generate(&self, document: &RawDocument, sink: &mut KeySink) -> Result<Multikey> {
        let values = |fields: &[PlainField]| -> Result<Vec<_>> {
            fields.iter().map(|field| value(document, field)).collect()
        };
        let (prefix, suffix) = (values(&self.prefix)?, values(&self.suffix)?);
        let first = sink.len();
        for (term, score) in self.spec.scores(document)? {
            let pending = sink.begin();
            let push = |sink: &mut KeySink, value, direction| {
                sink.push_field(value, direction, &Collation::SIMPLE);
            };
            for (value, field) in prefix.iter().zip(&self.prefix) {
                push(sink, *value, field.direction);
            }
            let term = index_key(&term);
            push(sink, Some(RawBsonRef::String(&term)), Direction::Ascending);
            push(sink, Some(RawBsonRef::Double(score)), Direction::Ascending);
            for (value, field) in suffix.iter().zip(&self.suffix) {
                push(sink, *value, field.direction);
            }
            sink.finish(pending, &[]);
        }
        sink.deduplicate(first);
        let mut multikey = Multikey::NONE;
        if sink.len() > first + 1 {
            multikey.set_field(self.prefix.len());
        }
        Ok(multikey)
    }
}

fn value<'a>(document: &'a RawDocument, field: &PlainField) -> Result<Option<RawBsonRef<'a>>> {
    let top = find(document, field.path.first().as_bytes());
    match resolve(top, &field.path) {
        PathTarget::Value(value) => Ok(Some(value)),
        PathTarget::Missing => Ok(None),
        PathTarget::Array => Err(Error::new(
            Code::CannotBuildIndexKeys,
            format!(
                "Field '{}' of text index contains an array in document: {}",
                field.path.as_str(),
                document_text(document)
            ),
        )),
    }
}
