//! `$unwind`: one document for each item of an array.

use crate::error::{Error, Result};
use crate::expression::parse_field_path;
use crate::expression::value::{corrupt, field_name};
use crate::types::type_name;
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::DocumentBuilder;
use meridian_value::field::{self, Field};
use std::ops::ControlFlow;

/// A parsed `$unwind`.
#[derive(Debug, Clone)]
pub struct Unwind {
    path: Box<[Box<str>]>,
    index: Option<Box<[Box<str>]>>,
    preserve: bool,
}

impl Unwind {
    /// Parses the operand of `$unwind`.
    ///
    /// # Errors
    /// 15981 and 28808 to 28822, and those of field paths.
    pub fn parse(raw: RawBsonRef<'_>) -> Result<Self> {
        let (path, index, preserve) = match raw {
            RawBsonRef::String(text) => (text, None, false),
            RawBsonRef::Document(document) => options(document)?,
            other => {
                return Err(Error::location(
                    15981,
                    format!(
                        "expected either a string or an object as specification for $unwind stage, \
                         got {}",
                        type_name(other.element_type())
                    ),
                ));
            }
        };
        if path.is_empty() {
            return Err(Error::location(28812, "no path specified to $unwind stage"));
        }
        let Some(path) = path.strip_prefix('$') else {
            return Err(Error::location(
                28818,
                format!("path option to $unwind stage should be prefixed with a '$': {path}"),
            ));
        };
        if let Some(index) = index.filter(|index| index.starts_with('$')) {
            return Err(Error::location(
                28822,
                format!(
                    "includeArrayIndex option to $unwind stage should not be prefixed with a '$': \
                     {index}"
                ),
            ));
        }
        let index = index.map(parse_field_path).transpose()?;
        Ok(Self {
            path: parse_field_path(path)?,
            index,
            preserve,
        })
    }

    /// Gives `emit` one document for each item.
    ///
    /// # Errors
    /// Those of `emit`, which stops the walk.
    pub fn apply(
        &self,
        document: &RawDocument,
        emit: &mut dyn FnMut(RawDocumentBuf) -> Result<()>,
    ) -> Result<()> {
        let value = value_at(document, &self.path)?;
        if let Some(RawBsonRef::Array(array)) = value {
            if !array.is_empty() {
                for (index, item) in array.into_iter().enumerate() {
                    let item = item.map_err(corrupt)?;
                    let changed = set_at(document, &self.path, Some(item))?;
                    emit(self.with_index(changed, RawBsonRef::Int64(index as i64))?)?;
                }
                return Ok(());
            }
            if !self.preserve {
                return Ok(());
            }
            let changed = set_at(document, &self.path, None)?;
            return emit(self.with_index(changed, RawBsonRef::Null)?);
        }
        let nothing = matches!(
            value,
            None | Some(RawBsonRef::Null) | Some(RawBsonRef::Undefined)
        );
        if nothing && !self.preserve {
            return Ok(());
        }
        emit(self.with_index(document.to_owned(), RawBsonRef::Null)?)
    }

    /// Where the array lies.
    pub(super) fn path(&self) -> &[Box<str>] {
        &self.path
    }

    /// As [`Self::apply`], for items that are not in the document.
    pub(super) fn apply_items(
        &self,
        document: &RawDocument,
        items: impl Iterator<Item = Result<RawDocumentBuf>>,
        emit: &mut dyn FnMut(RawDocumentBuf) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut count = 0;
        for item in items {
            let item = item?;
            let item = RawBsonRef::Document(&item);
            let changed = set_at(document, &self.path, Some(item))?;
            if emit(self.with_index(changed, RawBsonRef::Int64(count))?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
        }
        if count > 0 || !self.preserve {
            return Ok(ControlFlow::Continue(()));
        }
        let changed = set_at(document, &self.path, None)?;
        emit(self.with_index(changed, RawBsonRef::Null)?)
    }

    fn with_index(
        &self,
        document: RawDocumentBuf,
        index: RawBsonRef<'_>,
    ) -> Result<RawDocumentBuf> {
        match &self.index {
            None => Ok(document),
            Some(path) => set_at(&document, path, Some(index)),
        }
    }
}

/// The path, the field for the index, and whether documents without items are kept.
fn options(document: &RawDocument) -> Result<(&str, Option<&str>, bool)> {
    let (mut path, mut index, mut preserve) = ("", None, false);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match (key.as_str(), raw) {
            ("path", RawBsonRef::String(text)) => path = text,
            ("path", other) => {
                return Err(expected(28808, "a string as the path for", other));
            }
            ("preserveNullAndEmptyArrays", RawBsonRef::Boolean(value)) => preserve = value,
            ("preserveNullAndEmptyArrays", other) => {
                let what = "a boolean for the preserveNullAndEmptyArrays option to";
                return Err(expected(28809, what, other));
            }
            ("includeArrayIndex", RawBsonRef::String(text)) if !text.is_empty() => {
                index = Some(text);
            }
            ("includeArrayIndex", other) => {
                let what = "a non-empty string for the includeArrayIndex  option to";
                return Err(expected(28810, what, other));
            }
            (other, _) => {
                return Err(Error::location(
                    28811,
                    format!("unrecognized option to $unwind stage: {other}"),
                ));
            }
        }
    }
    Ok((path, index, preserve))
}

fn expected(code: i32, what: &str, found: RawBsonRef<'_>) -> Error {
    let found = type_name(found.element_type());
    Error::location(code, format!("expected {what} $unwind stage, got {found}"))
}

/// The value at a path of documents; arrays on the way end it.
fn value_at<'d>(document: &'d RawDocument, path: &[Box<str>]) -> Result<Option<RawBsonRef<'d>>> {
    let (first, rest) = path.split_first().expect("a path has a part");
    let value = document.get(first).map_err(corrupt)?;
    match (value, rest.is_empty()) {
        (value, true) => Ok(value),
        (Some(RawBsonRef::Document(below)), false) => value_at(below, rest),
        _ => Ok(None),
    }
}

/// The document with the value at a path set, or taken out. What stands in the way of the
/// path gives way to a document.
pub(super) fn set_at(
    document: &RawDocument,
    path: &[Box<str>],
    value: Option<RawBsonRef<'_>>,
) -> Result<RawDocumentBuf> {
    let (first, rest) = path.split_first().expect("a path has a part");
    if field::find(document, first.as_bytes()).is_none() {
        let mut out = DocumentBuilder::extending(document);
        put_at(&mut out, first, rest, None, value)?;
        return Ok(out.finish());
    }
    let mut out = DocumentBuilder::with_capacity(document.as_bytes().len() + 64);
    for old in field::fields(document) {
        match old.name() == first.as_bytes() {
            true => put_at(&mut out, first, rest, Some(&old), value)?,
            false => out.copy(&old),
        }
    }
    Ok(out.finish())
}

/// Appends the field that a path begins with, as it is once the value is set, or taken out.
fn put_at(
    out: &mut DocumentBuilder,
    name: &str,
    rest: &[Box<str>],
    old: Option<&Field<'_>>,
    value: Option<RawBsonRef<'_>>,
) -> Result<()> {
    if rest.is_empty() {
        let Some(value) = value else { return Ok(()) };
        let name = field_name(name)?;
        out.append_with(|out| out.append(name, value));
        return Ok(());
    }
    let below = match old.and_then(Field::value) {
        Some(RawBsonRef::Document(below)) => set_at(below, rest, value)?,
        _ => set_at(&RawDocumentBuf::new(), rest, value)?,
    };
    out.field(
        ElementType::EmbeddedDocument,
        name.as_bytes(),
        below.as_bytes(),
    );
    Ok(())
}
