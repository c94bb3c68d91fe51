//! Applies a parsed projection to a raw document.

use super::Projection;
use super::tree::{FieldAction, FieldTree, Rest};
use crate::error::malformed;
use crate::error::{Error, Result};
use crate::expression::{
    DocumentMetadata, DocumentOrigin, EvaluationContext, Variables, within_levels,
};
use crate::pattern::take_failure;
use crate::query::filter::Predicate;
use bson::raw::RawBsonRef;
use bson::{RawArray, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use meridian_value::{DocumentBuilder, field};
use std::borrow::Cow;
use std::sync::Arc;

/// Room for what is left when most of a document is dropped.
const DROPPED_BYTES: usize = 256;

/// How the fields below one document are treated.
#[derive(Clone, Copy)]
struct Mode {
    rest: Rest,
    /// `$slice` looks through one array, not through arrays of arrays.
    slices: bool,
}

impl Projection {
    /// The projected document. `position` is the filter's array position, needed when
    /// [`Projection::is_positional`].
    ///
    /// # Errors
    /// 51246 and 51247 when a positional projection finds no element, and what expressions raise.
    pub fn apply(&self, document: &RawDocument, position: Option<usize>) -> Result<RawDocumentBuf> {
        self.apply_from(document, position, None)
    }

    /// As [`Projection::apply`], of a document that comes from there, where the projection [`Projection::asks_origin`].
    ///
    /// # Errors
    /// As [`Projection::apply`].
    pub fn apply_from(
        &self,
        document: &RawDocument,
        position: Option<usize>,
        origin: Option<DocumentOrigin>,
    ) -> Result<RawDocumentBuf> {
        let mut variables = Cow::Borrowed(&self.variables);
        if self.measure.is_some() || self.sort.is_some() || origin.is_some() {
            let measure = self.measure.as_ref();
            let sort_key = self.sort.as_ref().map(|sort| sort.values(document));
            let known = DocumentMetadata {
                search: measure.and_then(|measure| measure.metadata(document)),
                sort_key: sort_key.transpose()?,
                origin,
                random: None,
            };
            variables = Cow::Owned(variables.knowing(Some(Arc::new(known))));
        }
        let projected = self.tree.apply(self.rest, document, &variables)?;
        match &self.positional {
            None => Ok(projected),
            Some(path) => narrow(&projected, path.parts(), position),
        }
    }
}

impl FieldTree {
    /// The document that the tree makes of a document.
    ///
    /// # Errors
    /// Those of the expressions; `Overflow` for a document of too many levels.
    pub fn apply<'a>(
        &'a self,
        rest: Rest,
        document: &'a RawDocument,
        variables: &'a Variables,
    ) -> Result<RawDocumentBuf> {
        // Expressions see the whole document.
        self.apply_in(rest, &mut EvaluationContext::new(document, variables))
    }

    /// The same for the document of a context, which may have variables of its own.
    ///
    /// # Errors
    /// As [`FieldTree::apply`].
    pub fn apply_in<'a>(
        &'a self,
        rest: Rest,
        context: &mut EvaluationContext<'a>,
    ) -> Result<RawDocumentBuf> {
        let slices = true;
        let made = self.build(context.document, Mode { rest, slices }, context)?;
        // Only what is computed can be deeper than what was there.
        match self.has_computed() {
            true => within_levels(made.finish()),
            false => Ok(made.finish()),
        }
    }

    fn build<'a>(
        &'a self,
        document: &RawDocument,
        mode: Mode,
        context: &mut EvaluationContext<'a>,
    ) -> Result<DocumentBuilder> {
        let mut out = DocumentBuilder::with_capacity(match mode.rest {
            Rest::Keep => document.as_bytes().len(),
            Rest::Drop => document.as_bytes().len().min(DROPPED_BYTES),
        });
        let fields = self.fields.entries();
        let mut missing = fields.len();
        // What the document has of each field, for those that follow.
        let mut found = match self.appends(mode.rest) {
            true => vec![None; fields.len()],
            false => Vec::new(),
        };
        for entry in field::fields(document) {
            match self.fields.place(entry.name()) {
                Some(place) => {
                    let (name, action) = &fields[place];
                    if let Some(found) = found.get_mut(place) {
                        found.get_or_insert(entry);
                    }
                    action.append(name, &entry, mode, context, &mut out)?;
                    missing = missing.saturating_sub(1);
                    if missing == 0 && mode.rest == Rest::Drop {
                        break;
                    }
                }
                None if mode.rest == Rest::Keep => out.copy(&entry),
                None => {}
            }
        }
        self.append_computed(&found, mode, context, &mut out)?;
        Ok(out)
    }

    /// Whether any field follows what was kept.
    fn appends(&self, rest: Rest) -> bool {
        let mut actions = self.fields.entries().iter().map(|(_, action)| action);
        actions.any(|action| match action {
            FieldAction::Compute(_) => true,
            FieldAction::FirstMatch(_) => rest == Rest::Drop,
            FieldAction::Below(below) => below.has_computed(),
            FieldAction::Keep | FieldAction::Drop | FieldAction::Slice(_) => false,
        })
    }

    /// Computed fields follow what was kept, in the order of the projection; `found` is what the document has of each
    /// field, if any follows.
    fn append_computed<'a>(
        &'a self,
        found: &[Option<field::Field<'_>>],
        mode: Mode,
        context: &mut EvaluationContext<'a>,
        out: &mut DocumentBuilder,
    ) -> Result<()> {
        for ((name, action), found) in self.fields.entries().iter().zip(found) {
            match action {
                // Where fields are kept, what is computed has taken the place of its namesake.
                FieldAction::Compute(_) if mode.rest == Rest::Keep && found.is_some() => {}
                FieldAction::Compute(expression) => {
                    let value = expression.node.evaluate(context)?;
                    out.append_with(|out| value.append_to(name, out))?;
                }
                FieldAction::FirstMatch(predicate) if mode.rest == Rest::Drop => {
                    let value = found.and_then(|entry| entry.value());
                    if let Some(value) = value
                        && let Some(first) = first_match(predicate, value)?
                    {
                        append(out, name, RawBson::Array(first));
                    }
                }
                FieldAction::Below(below) if below.has_computed() && found.is_none() => {
                    let built = below.build(&RawDocumentBuf::new(), mode, context)?;
                    out.document(name.as_bytes(), built);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The tree over a value: documents are projected, arrays element by element; anything else is kept or dropped
    /// with the rest, or gives way to what is computed below it.
    fn value<'a>(
        &'a self,
        value: RawBsonRef<'_>,
        mode: Mode,
        context: &mut EvaluationContext<'a>,
    ) -> Result<Option<RawBson>> {
        Ok(match value {
            RawBsonRef::Document(document) => {
                let built = self.build(document, mode, context)?;
                Some(RawBson::Document(built.finish()))
            }
            RawBsonRef::Array(array) => Some(RawBson::Array(self.array(array, mode, context)?)),
            _ if self.has_computed() => {
                let built = self.build(&RawDocumentBuf::new(), mode, context)?;
                Some(RawBson::Document(built.finish()))
            }
            other if mode.rest == Rest::Keep => Some(RawBson::from(other)),
            _ => None,
        })
    }

    fn array<'a>(
        &'a self,
        array: &RawArray,
        mode: Mode,
        context: &mut EvaluationContext<'a>,
    ) -> Result<RawArrayBuf> {
        let mut out = RawArrayBuf::new();
        for item in array {
            let item = item.map_err(malformed)?;
            let slices = mode.slices && !matches!(item, RawBsonRef::Array(_));
            if let Some(item) = self.value(item, Mode { slices, ..mode }, context)? {
                out.push(item);
            }
        }
        Ok(out)
    }
}

impl FieldAction {
    /// Appends what becomes of a field that the document has.
    fn append<'a>(
        &'a self,
        name: &str,
        entry: &field::Field<'_>,
        mode: Mode,
        context: &mut EvaluationContext<'a>,
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
            (Self::Slice(slice), RawBsonRef::Array(array)) if mode.slices => {
                append(out, name, RawBson::Array(slice.of(array)));
            }
            (Self::Keep | Self::Slice(_), _) => out.copy(entry),
            (Self::Below(below), RawBsonRef::Document(inner)) => {
                out.document(entry.name(), below.build(inner, mode, context)?);
            }
            (Self::Below(below), value) => {
                if let Some(value) = below.value(value, mode, context)? {
                    append(out, name, value);
                }
            }
            (Self::FirstMatch(predicate), value) if mode.rest == Rest::Keep => {
                if let Some(found) = first_match(predicate, value)? {
                    append(out, name, RawBson::Array(found));
                }
            }
            (Self::Compute(expression), _) if mode.rest == Rest::Keep => {
                let value = expression.node.evaluate(context)?;
                out.append_with(|out| value.append_to(name, out))?;
            }
            (Self::Drop | Self::Compute(_) | Self::FirstMatch(_), _) => {}
        }
        Ok(())
    }
}

fn append(out: &mut DocumentBuilder, name: &str, value: RawBson) {
    out.append_with(|out| crate::query::append(out, name, value));
}

fn first_match(predicate: &Predicate, value: RawBsonRef<'_>) -> Result<Option<RawArrayBuf>> {
    let RawBsonRef::Array(array) = value else {
        return Ok(None);
    };
    let mut position = None;
    let matches = predicate.matches_value(Some(value), &mut position);
    take_failure()?;
    let (true, Some(position)) = (matches, position) else {
        return Ok(None);
    };
    let element = array.get(position).map_err(malformed)?;
    Ok(element.map(|element| {
        let mut found = RawArrayBuf::new();
        found.push(element);
        found
    }))
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
