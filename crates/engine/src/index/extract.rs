//! Key combinations of documents with arrays, by the rules of mongod's b-tree indexes.
//!
//! In: a document and the paths of an index. Out: one combination of values for each
//! element of the one array that the paths go through. A missing field is null, an empty
//! array undefined; two different arrays under one index are refused. Source:
//! `BtreeKeyGenerator` of MongoDB 6.0. Documents without arrays never come here.

use super::Multikey;
use crate::{Code, Error, Result};
use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::field::{Field, fields, find};
use meridian_value::path::Path;
use smallvec::SmallVec;

/// The values of one key, field by field; `None` is null for want of a value.
pub(super) type Combination<'a> = SmallVec<[Option<RawBsonRef<'a>>; 4]>;

/// Receives every combination; those of one document may repeat.
pub(super) type Emit<'e, 'a> = &'e mut dyn FnMut(&Combination<'a>);

/// Calls `emit` with every combination of values that `document` has at `paths`.
///
/// # Errors
/// `CannotIndexParallelArrays` (171), and 16746 for a position that is also a name.
pub(super) fn combinations<'a>(
    document: &'a RawDocument,
    paths: &[&Path],
    sparse: bool,
    emit: Emit<'_, 'a>,
) -> Result<Multikey> {
    let mut expansion = Expansion {
        sparse,
        multikey: Multikey::NONE,
        emit,
    };
    let state = PathState {
        rest: paths.iter().map(|path| path.parts()).collect(),
        values: SmallVec::from_elem(None, paths.len()),
        missing: 0,
    };
    let positions: Positions = SmallVec::from_elem(ArrayPosition::default(), paths.len());
    expansion.expand(Some(document), state, &positions)?;
    Ok(expansion.multikey)
}

struct Expansion<'e, 'a> {
    sparse: bool,
    multikey: Multikey,
    emit: Emit<'e, 'a>,
}

/// How far each path has been followed.
#[derive(Clone)]
struct PathState<'a, 'p> {
    /// The parts still to follow; empty when the value is known.
    rest: SmallVec<[&'p [Box<str>]; 4]>,
    values: Combination<'a>,
    missing: usize,
}

type Positions<'a, 'p> = SmallVec<[ArrayPosition<'a, 'p>; 4]>;

/// What a path that names an array position (`a.0.b`) finds there.
#[derive(Clone, Copy, Default)]
struct ArrayPosition<'a, 'p> {
    /// The array and its element, if the path names one.
    named: Option<(&'a RawDocument, Field<'a>)>,
    /// Where the path leads from the element.
    found: Option<Field<'a>>,
    /// What is left of the path behind that.
    rest: &'p [Box<str>],
}

/// The array that is expanded, and the fields whose paths lead to it.
struct Array<'a> {
    field: Field<'a>,
    document: &'a RawDocument,
    reached_by: SmallVec<[usize; 4]>,
}

impl<'a> Expansion<'_, 'a> {
    fn expand<'p>(
        &mut self,
        document: Option<&'a RawDocument>,
        mut state: PathState<'a, 'p>,
        positions: &[ArrayPosition<'a, 'p>],
    ) -> Result<()> {
        let mut array: Option<Array<'a>> = None;
        let mut expands_leaves = true;
        for (index, position) in positions.iter().enumerate() {
            if state.rest[index].is_empty() {
                continue;
            }
            let (found, nested) = next_value(document, position, &mut state.rest[index])?;
            match found.and_then(|field| field.value().map(|value| (field, value))) {
                None => {
                    state.values[index] = None;
                    state.rest[index] = &[];
                    state.missing += 1;
                }
                Some((field, RawBsonRef::Array(elements))) => {
                    expands_leaves &= !nested;
                    join(&mut array, index, field, elements.as_bytes())?;
                }
                Some((_, value)) => state.values[index] = Some(value),
            }
        }
        match array {
            None if self.sparse && state.missing == state.rest.len() => Ok(()),
            None => {
                (self.emit)(&state.values);
                Ok(())
            }
            Some(array) => self.expand_array(&array, &state, expands_leaves),
        }
    }

    fn expand_array<'p>(
        &mut self,
        array: &Array<'a>,
        state: &PathState<'a, 'p>,
        expands_leaves: bool,
    ) -> Result<()> {
        let positions = positions_in(array.document, &state.rest);
        for &index in &array.reached_by {
            // An array that is kept whole, or left by a named position, is one value.
            let expands = expands_leaves || !state.rest[index].is_empty();
            if expands && positions[index].named.is_none() {
                self.multikey.set_field(index);
            }
        }
        let mut elements = fields(array.document).peekable();
        if elements.peek().is_none() {
            return self.expand_element(array, RawBsonRef::Undefined, state, &positions, true);
        }
        for element in elements {
            let Some(value) = element.value() else { break };
            self.expand_element(array, value, state, &positions, expands_leaves)?;
        }
        Ok(())
    }

    fn expand_element<'p>(
        &mut self,
        array: &Array<'a>,
        element: RawBsonRef<'a>,
        state: &PathState<'a, 'p>,
        positions: &[ArrayPosition<'a, 'p>],
        expands_leaves: bool,
    ) -> Result<()> {
        let mut state = state.clone();
        for &index in &array.reached_by {
            if state.rest[index].is_empty() {
                state.values[index] = if expands_leaves {
                    Some(element)
                } else {
                    array.field.value()
                };
            }
        }
        self.expand(element.as_document(), state, positions)
    }
}

/// Follows one path from a document, or from the array position that it names.
fn next_value<'a, 'p>(
    document: Option<&'a RawDocument>,
    position: &ArrayPosition<'a, 'p>,
    rest: &mut &'p [Box<str>],
) -> Result<(Option<Field<'a>>, bool)> {
    let has_field = document.is_some_and(|document| find(document, rest[0].as_bytes()).is_some());
    match (position.named, document) {
        (Some((array, element)), _) if has_field => Err(ambiguous(array, element)),
        (_, Some(document)) if has_field => Ok((follow(document, rest), false)),
        (Some((_, element)), _) => {
            *rest = position.rest;
            Ok((position.found, element.kind() == ARRAY_KIND))
        }
        _ => Ok((None, false)),
    }
}

/// BSON's type byte of an array.
const ARRAY_KIND: u8 = 0x04;

/// Follows a path to its end or to the first array, whichever comes first.
pub(super) fn follow<'a>(document: &'a RawDocument, rest: &mut &[Box<str>]) -> Option<Field<'a>> {
    let mut current = document;
    loop {
        let (first, others) = rest.split_first()?;
        let field = find(current, first.as_bytes())?;
        *rest = others;
        if others.is_empty() || field.kind() == ARRAY_KIND {
            return Some(field);
        }
        current = field.value()?.as_document()?;
    }
}

/// Notes that a field's path leads to this array; all must lead to the same.
fn join<'a>(
    array: &mut Option<Array<'a>>,
    index: usize,
    field: Field<'a>,
    bytes: &'a [u8],
) -> Result<()> {
    match array {
        Some(known) if known.document.as_bytes().as_ptr() == bytes.as_ptr() => {
            known.reached_by.push(index);
            Ok(())
        }
        Some(known) => Err(parallel_arrays(field, known.field)),
        None => {
            let Ok(document) = RawDocument::from_bytes(bytes) else {
                return Ok(());
            };
            *array = Some(Array {
                field,
                document,
                reached_by: SmallVec::from_elem(index, 1),
            });
            Ok(())
        }
    }
}

/// What the paths that continue behind an array find at the positions they name.
fn positions_in<'a, 'p>(array: &'a RawDocument, rests: &[&'p [Box<str>]]) -> Positions<'a, 'p> {
    let position = |rest: &&'p [Box<str>]| {
        let named = rest.first().and_then(|part| find(array, part.as_bytes()));
        let Some(element) = named else {
            return ArrayPosition::default();
        };
        let mut behind = *rest;
        let found = follow(array, &mut behind);
        ArrayPosition {
            named: Some((array, element)),
            found,
            rest: behind,
        }
    };
    rests.iter().map(position).collect()
}

fn parallel_arrays(first: Field<'_>, second: Field<'_>) -> Error {
    let name = |field: Field<'_>| String::from_utf8_lossy(field.name()).into_owned();
    Error::new(
        Code::CannotIndexParallelArrays,
        format!(
            "cannot index parallel arrays [{}] [{}]",
            name(first),
            name(second)
        ),
    )
}

fn ambiguous(array: &RawDocument, element: Field<'_>) -> Error {
    // mongod prints the array as the document that its bytes are.
    let array = crate::text::document_text(array);
    let name = String::from_utf8_lossy(element.name()).into_owned();
    Error::location(
        16746,
        format!(
            "Ambiguous field name found in array (do not use numeric field names in embedded \
             elements in an array), field: '{name}' for array: {array}"
        ),
    )
}
