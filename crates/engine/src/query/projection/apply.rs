//! Applies a parsed projection to a raw document.

use super::{Action, Projection, Rest, Slice, Tree};
use crate::error::malformed;
use crate::error::{Error, Result};
use crate::expression::{Variables, within_levels};
use bson::raw::RawBsonRef;
use bson::{RawArray, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use meridian_value::{DocumentBuilder, field};
use std::sync::Arc;

/// Room for what is left when most of a document is dropped.
const DROPPED_BYTES: usize = 256;

/// What everything below one document shares.
#[derive(Clone, Copy)]
struct Source<'a> {
    rest: Rest,
    /// `$slice` looks through one array, not through arrays of arrays.
    slices: bool,
    /// Expressions see the whole document.
    document: &'a RawDocument,
    variables: &'a Variables,
}

impl Projection {
    /// The projected document. `position` is the filter's array position, needed when
    /// [`Projection::is_positional`].
    ///
    /// # Errors
    /// 51246 and 51247 when a positional projection finds no element, and what expressions raise.
    pub fn apply(&self, document: &RawDocument, position: Option<usize>) -> Result<RawDocumentBuf> {
        let measured;
        let variables = match &self.nearest {
            None => &self.variables,
            Some(nearest) => {
                let near = nearest.metadata(document).map(Arc::new);
                measured = self.variables.with_near(near);
                &measured
            }
        };
        let source = Source {
            rest: self.rest,
            slices: true,
            document,
            variables,
        };
        let projected = self.tree.apply(document, &source)?.finish();
        // Only what is computed can be deeper than what was there.
        let projected = match self.tree.has_computed() {
            true => within_levels(projected)?,
            false => projected,
        };
        match &self.positional {
            None => Ok(projected),
            Some(path) => narrow(&projected, path.parts(), position),
        }
    }
}

impl Tree {
    fn apply(&self, document: &RawDocument, source: &Source<'_>) -> Result<DocumentBuilder> {
        let mut out = DocumentBuilder::with_capacity(match source.rest {
            Rest::Keep => document.as_bytes().len(),
            Rest::Drop => document.as_bytes().len().min(DROPPED_BYTES),
        });
        let mut missing = self.fields.entries().len();
        for entry in field::fields(document) {
            match self.fields.get(entry.name()) {
                Some(action) => {
                    action.apply(&entry, source, &mut out)?;
                    missing = missing.saturating_sub(1);
                    if missing == 0 && source.rest == Rest::Drop {
                        break;
                    }
                }
                None if source.rest == Rest::Keep => out.copy(&entry),
                None => {}
            }
        }
        self.append_computed(document, source, &mut out)?;
        Ok(out)
    }

    /// Computed fields follow what was kept, in the order of the projection.
    fn append_computed(
        &self,
        document: &RawDocument,
        source: &Source<'_>,
        out: &mut DocumentBuilder,
    ) -> Result<()> {
        for (name, action) in self.fields.entries() {
            match action {
                // Where fields are kept, what is computed has taken the place of its namesake.
                Action::Compute(_)
                    if source.rest == Rest::Keep
                        && field::find(document, name.as_bytes()).is_some() => {}
                Action::Compute(expression) => {
                    let value = expression.evaluate_raw(source.document, source.variables)?;
                    if let Some(value) = value {
                        append(out, name, value);
                    }
                }
                Action::FirstMatch(predicate) if source.rest == Rest::Drop => {
                    let value = field::find(document, name.as_bytes());
                    if let Some(value) = value.and_then(|entry| entry.value())
                        && let Some(found) = first_match(predicate, value)
                    {
                        append(out, name, RawBson::Array(found));
                    }
                }
                Action::Below(below)
                    if below.has_computed() && field::find(document, name.as_bytes()).is_none() =>
                {
                    let built = below.apply(&RawDocumentBuf::new(), source)?;
                    out.document(name.as_bytes(), built);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The tree over a value: documents are projected, arrays element by element.
    fn apply_value(&self, value: RawBsonRef<'_>, source: &Source<'_>) -> Result<Option<RawBson>> {
        Ok(match value {
            RawBsonRef::Document(document) => {
                Some(RawBson::Document(self.apply(document, source)?.finish()))
            }
            RawBsonRef::Array(array) => Some(RawBson::Array(self.apply_array(array, source)?)),
            _ if self.has_computed() => {
                let built = self.apply(&RawDocumentBuf::new(), source)?;
                Some(RawBson::Document(built.finish()))
            }
            other if source.rest == Rest::Keep => Some(RawBson::from(other)),
            _ => None,
        })
    }

    fn apply_array(&self, array: &RawArray, source: &Source<'_>) -> Result<RawArrayBuf> {
        let mut out = RawArrayBuf::new();
        for item in array {
            let item = item.map_err(malformed)?;
            let source = match item {
                RawBsonRef::Array(_) => Source {
                    slices: false,
                    ..*source
                },
                _ => *source,
            };
            if let Some(item) = self.apply_value(item, &source)? {
                out.push(item);
            }
        }
        Ok(out)
    }
}

impl Action {
    /// Appends what becomes of a field that the document has.
    fn apply(
        &self,
        entry: &field::Field<'_>,
        source: &Source<'_>,
        out: &mut DocumentBuilder,
    ) -> Result<()> {
        if let Self::Keep = self {
            out.copy(entry);
            return Ok(());
        }
        let Some(value) = entry.value() else {
            return Ok(());
        };
        match (self, value) {
            (Self::Slice(slice), RawBsonRef::Array(array)) if source.slices => {
                append(out, &name_of(entry), RawBson::Array(slice.of(array)));
            }
            (Self::Keep | Self::Slice(_), _) => out.copy(entry),
            (Self::Below(below), RawBsonRef::Document(inner)) => {
                out.document(entry.name(), below.apply(inner, source)?);
            }
            (Self::Below(below), value) => {
                if let Some(value) = below.apply_value(value, source)? {
                    append(out, &name_of(entry), value);
                }
            }
            (Self::FirstMatch(predicate), value) if source.rest == Rest::Keep => {
                if let Some(found) = first_match(predicate, value) {
                    append(out, &name_of(entry), RawBson::Array(found));
                }
            }
            (Self::Compute(expression), _) if source.rest == Rest::Keep => {
                let value = expression.evaluate_raw(source.document, source.variables)?;
                if let Some(value) = value {
                    append(out, &name_of(entry), value);
                }
            }
            (Self::Drop | Self::Compute(_) | Self::FirstMatch(_), _) => {}
        }
        Ok(())
    }
}

fn name_of(entry: &field::Field<'_>) -> String {
    String::from_utf8_lossy(entry.name()).into_owned()
}

fn append(out: &mut DocumentBuilder, name: &str, value: RawBson) {
    let mut one = RawDocumentBuf::new();
    crate::query::append(&mut one, name, value);
    for field in field::fields(&one) {
        out.copy(&field);
    }
}

fn first_match(
    predicate: &crate::query::filter::Predicate,
    value: RawBsonRef<'_>,
) -> Option<RawArrayBuf> {
    let RawBsonRef::Array(array) = value else {
        return None;
    };
    let mut position = None;
    if !predicate.matches_value(Some(value), &mut position) {
        return None;
    }
    let mut found = RawArrayBuf::new();
    found.push(array.get(position?).ok()??);
    Some(found)
}

impl Slice {
    fn of(self, array: &RawArray) -> RawArrayBuf {
        let count = array.into_iter().count() as i64;
        let start = if self.skip < 0 {
            (count + self.skip).max(0)
        } else {
            self.skip.min(count)
        };
        let mut out = RawArrayBuf::new();
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        for item in array.into_iter().flatten().skip(start as usize).take(limit) {
            out.push(item);
        }
        out
    }
}

/// Narrows the first array on the path to the element at the position.
fn narrow(
    document: &RawDocument,
    parts: &[Box<str>],
    position: Option<usize>,
) -> Result<RawDocumentBuf> {
    let mut out = RawDocumentBuf::new();
    let Some((first, rest)) = parts.split_first() else {
        return Ok(document.to_owned());
    };
    for entry in document.iter() {
        let (name, value) = entry.map_err(malformed)?;
        match value {
            _ if *name.as_str() != **first => out.append(name, value),
            RawBsonRef::Array(array) => out.append(name, element(array, position)?),
            RawBsonRef::Document(inner) => out.append(name, narrow(inner, rest, position)?),
            other => out.append(name, other),
        }
    }
    Ok(out)
}

fn element(array: &RawArray, position: Option<usize>) -> Result<RawArrayBuf> {
    let Some(position) = position else {
        return Err(Error::location(
            51246,
            "positional operator '.$' couldn't find a matching element in the array",
        ));
    };
    let item = array
        .get(position)
        .map_err(malformed)?
        .ok_or_else(|| Error::location(51247, "positional operator '.$' element mismatch"))?;
    let mut out = RawArrayBuf::new();
    out.push(item);
    Ok(out)
}
