//! Applies a parsed projection to a raw document.

use super::{Action, Projection, Rest, Slice, Tree};
use crate::aggregate::Variables;
use crate::error::{Error, Result};
use crate::query::malformed;
use bson::raw::{CStr, RawBsonRef};
use bson::{RawArray, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

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
        let source = Source {
            rest: self.rest,
            slices: true,
            document,
            variables: &self.variables,
        };
        let projected = self.tree.apply(document, &source)?;
        match &self.positional {
            None => Ok(projected),
            Some(path) => narrow(&projected, path.parts(), position),
        }
    }
}

impl Tree {
    fn apply(&self, document: &RawDocument, source: &Source<'_>) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for entry in document.iter() {
            let (name, value) = entry.map_err(malformed)?;
            match self.get(name.as_str()) {
                Some(action) => action.apply(name, value, source, &mut out)?,
                None if source.rest == Rest::Keep => out.append(name, value),
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
        out: &mut RawDocumentBuf,
    ) -> Result<()> {
        for (name, action) in &self.fields {
            match action {
                Action::Compute(expression) => {
                    let value = expression.evaluate_raw(source.document, source.variables)?;
                    if let Some(value) = value {
                        crate::query::append(out, name, value);
                    }
                }
                Action::FirstMatch(predicate) if source.rest == Rest::Drop => {
                    if let Ok(Some(value)) = document.get(&**name)
                        && let Some(found) = first_match(predicate, value)
                    {
                        crate::query::append(out, name, found);
                    }
                }
                Action::Below(below)
                    if below.has_computed()
                        && document.get(&**name).is_ok_and(|value| value.is_none()) =>
                {
                    let empty = RawDocumentBuf::new();
                    crate::query::append(out, name, below.apply(&empty, source)?);
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
                Some(RawBson::Document(self.apply(document, source)?))
            }
            RawBsonRef::Array(array) => Some(RawBson::Array(self.apply_array(array, source)?)),
            _ if self.has_computed() => Some(RawBson::Document(
                self.apply(&RawDocumentBuf::new(), source)?,
            )),
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
        name: &CStr,
        value: RawBsonRef<'_>,
        source: &Source<'_>,
        out: &mut RawDocumentBuf,
    ) -> Result<()> {
        match (self, value) {
            (Self::Keep, value) => out.append(name, value),
            (Self::Slice(slice), RawBsonRef::Array(array)) if source.slices => {
                out.append(name, slice.of(array));
            }
            (Self::Slice(_), value) => out.append(name, value),
            (Self::Below(below), value) => {
                if let Some(value) = below.apply_value(value, source)? {
                    out.append(name, value);
                }
            }
            (Self::FirstMatch(predicate), value) if source.rest == Rest::Keep => {
                if let Some(found) = first_match(predicate, value) {
                    out.append(name, found);
                }
            }
            (Self::Drop | Self::Compute(_) | Self::FirstMatch(_), _) => {}
        }
        Ok(())
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
