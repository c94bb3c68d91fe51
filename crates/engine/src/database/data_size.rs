//! `dataSize`: how large the documents of a collection are together, or those of a range of an index's keys.

use super::Engine;
use super::requests::FindRequest;
use crate::catalog::Collection;
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::text::document_text;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::compare_documents;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataSizeRequest<'a> {
    /// The first fields of an index; those of the bounds where it is empty.
    pub key: Option<&'a RawDocument>,
    /// The first key, ...
    pub min: Option<&'a RawDocument>,
    /// ... and the first one behind those that are wanted.
    pub max: Option<&'a RawDocument>,
    /// Enough bytes.
    pub bytes_max: Option<i64>,
    /// Enough documents.
    pub documents_max: Option<i64>,
    /// Whether each document counts as large as they are on average.
    pub is_estimate: bool,
}

/// What was found.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataSize {
    /// Bytes.
    pub bytes: i64,
    /// Documents.
    pub documents: i64,
    /// Whether there was more than enough.
    pub is_reached: bool,
}

impl Engine {
    /// Adds up documents.
    ///
    /// # Errors
    /// 2 and 16634 for bounds that do not go together, an error without code where no index has the keys; storage failures.
    pub fn data_size(
        &self,
        namespace: &Namespace,
        request: &DataSizeRequest<'_>,
    ) -> Result<DataSize> {
        let whole = self.whole_size(namespace)?;
        let Some(collection) = self.catalog.get(namespace) else {
            return Ok(whole);
        };
        let bounds = match (given(request.min), given(request.max)) {
            (Some(min), Some(max)) => Some(self.range(&collection, request, min, max)?),
            _ => None,
        };
        let is_bounded = !request.is_estimate
            && (request.bytes_max.is_some() || request.documents_max.is_some());
        if bounds.is_none() && !is_bounded {
            return Ok(whole);
        }
        let mut size = DataSize::default();
        let empty = RawDocumentBuf::new();
        let mut find = FindRequest::new(&empty);
        if let Some((key, min, max)) = &bounds {
            if compare_documents(min, max).is_ge() {
                return Ok(size);
            }
            find.hint = Some(RawBsonRef::Document(key));
            find.min = Some(&**min);
            find.max = Some(&**max);
        }
        let average = whole.bytes / whole.documents.max(1);
        let mut found = self.find(namespace, &find)?;
        while let Some(document) = found.next_document()? {
            size.documents += 1;
            size.bytes += match request.is_estimate {
                true => average,
                false => i64::try_from(document.as_bytes().len()).unwrap_or(i64::MAX),
            };
            let is_beyond = |sum: i64, most: Option<i64>| most.is_some_and(|most| sum > most);
            if is_beyond(size.bytes, request.bytes_max)
                || is_beyond(size.documents, request.documents_max)
            {
                size.is_reached = true;
                break;
            }
        }
        Ok(size)
    }

    fn whole_size(&self, namespace: &Namespace) -> Result<DataSize> {
        match self.collection_stats(namespace) {
            Err(error) if error.code == Code::NamespaceNotFound => Ok(DataSize::default()),
            stats => stats.map(|stats| DataSize {
                bytes: stats.size,
                documents: stats.count,
                is_reached: false,
            }),
        }
    }

    /// The key pattern of the index of a range, and whole keys at its ends.
    fn range(
        &self,
        collection: &Collection,
        request: &DataSizeRequest<'_>,
        min: &RawDocument,
        max: &RawDocument,
    ) -> Result<(RawDocumentBuf, RawDocumentBuf, RawDocumentBuf)> {
        let pattern = match given(request.key) {
            Some(key) => key.to_owned(),
            None => ascending(min),
        };
        for bound in [min, max] {
            if !has_names(bound, &pattern) {
                let message = format!(
                    "field names of bound {} do not match those of keyPattern {}",
                    document_text(bound),
                    document_text(&pattern)
                );
                return Err(Error::location(16_634, message));
            }
        }
        let id = bson::rawdoc! { "_id": 1 };
        if compare_documents(&pattern, &id).is_eq() {
            return Ok((id, min.to_owned(), max.to_owned()));
        }
        let mut indexes = collection.ready_indexes();
        let index = indexes.find(|index| {
            let spec = &index.spec;
            let is_plain = spec.collation == collection.options.collation
                && spec.key.iter().all(|(_, field)| field.is_by_value())
                && !spec.hidden
                && !spec.sparse
                && spec.partial_filter.is_none();
            is_plain && !index.multikey().is_multikey() && begins_with(spec.key_pattern(), &pattern)
        });
        let Some(index) = index else {
            let message = "couldn't find valid index containing key pattern";
            return Err(Error::without_code(message));
        };
        let key = index.spec.key_pattern();
        Ok((key.to_owned(), padded(min, key), padded(max, key)))
    }
}

fn given(document: Option<&RawDocument>) -> Option<&RawDocument> {
    document.filter(|document| !document.is_empty())
}

fn ascending(bound: &RawDocument) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    for (name, _) in bound.iter().flatten() {
        pattern.append(name, 1);
    }
    pattern
}

fn has_names(bound: &RawDocument, pattern: &RawDocument) -> bool {
    let names = |document: &RawDocument| -> Vec<String> {
        let fields = document.iter().flatten();
        fields.map(|(name, _)| name.to_string()).collect()
    };
    names(bound) == names(pattern)
}

/// Whether a key pattern has the fields of another one first.
fn begins_with(key: &RawDocument, pattern: &RawDocument) -> bool {
    let mut own = key.iter().flatten();
    pattern.iter().flatten().all(|(name, direction)| {
        own.next().is_some_and(|(own, value)| {
            own == name && meridian_value::compare(value, direction).is_eq()
        })
    })
}

/// A bound with the least value for each further field of the key.
fn padded(bound: &RawDocument, key: &RawDocument) -> RawDocumentBuf {
    let mut whole = bound.to_owned();
    let given = bound.iter().count();
    for (name, direction) in key.iter().flatten().skip(given) {
        let is_descending = meridian_value::number::Number::from_raw(direction)
            .is_some_and(meridian_value::number::Number::is_negative);
        match is_descending {
            true => whole.append(name, RawBsonRef::MaxKey),
            false => whole.append(name, RawBsonRef::MinKey),
        }
    }
    whole
}
