//! Dotted paths into raw documents.
//!
//! [`get`] follows a path through documents only. [`visit`] yields what MongoDB's matcher
//! looks at: it descends into arrays on the way, both by position (`a.0.b`) and into each
//! document of the array (`a.b`). Source of the rules: `ElementPath` and
//! `BSONElementIterator` of MongoDB 6.0.

use crate::field::{fields, find};
use bson::raw::RawArray;
use bson::{RawBsonRef, RawDocument};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A parsed dotted path; cheap to clone.
#[derive(Debug, Clone)]
pub struct Path(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    text: Box<str>,
    parts: SmallVec<[Box<str>; 2]>,
    /// The array position that each part means, if it can mean one.
    positions: SmallVec<[Option<usize>; 2]>,
}

impl Path {
    /// Splits at dots. Every text is a path; the empty text has one empty part.
    pub fn parse(text: &str) -> Path {
        let parts: SmallVec<[Box<str>; 2]> = text.split('.').map(Box::from).collect();
        let positions = parts.iter().map(|part| array_position(part)).collect();
        Path(Arc::new(Parsed {
            text: text.into(),
            parts,
            positions,
        }))
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The names between the dots; at least one.
    pub fn parts(&self) -> &[Box<str>] {
        &self.0.parts
    }

    /// For each part, the array position it means if it is a number without leading zeros.
    pub fn positions(&self) -> &[Option<usize>] {
        &self.0.positions
    }

    /// The part before the first dot.
    pub fn first(&self) -> &str {
        &self.0.parts[0]
    }

    /// True when `self` is `other` or leads to something within it.
    pub fn starts_with(&self, other: &Path) -> bool {
        self.0.parts.starts_with(&other.0.parts)
    }

    fn steps(&self) -> Steps<'_> {
        Steps {
            parts: &self.0.parts,
            positions: &self.0.positions,
        }
    }
}

/// The position that a part means: digits as an array's own names are written.
fn array_position(part: &str) -> Option<usize> {
    let canonical = part == "0" || !part.starts_with('0');
    let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits {
        part.parse().ok()
    } else {
        None
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Path {}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.text.cmp(&other.0.text)
    }
}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.text)
    }
}

/// The value at the path, going through documents only; `None` if a part is missing or lies
/// within an array.
pub fn get<'a>(document: &'a RawDocument, path: &Path) -> Option<RawBsonRef<'a>> {
    let (last, way) = path.0.parts.split_last()?;
    let mut current = document;
    for part in way {
        match find(current, part.as_bytes())?.value()? {
            RawBsonRef::Document(inner) => current = inner,
            _ => return None,
        }
    }
    find(current, last.as_bytes())?.value()
}

/// What to do with an array at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafArrays {
    /// Visit each element, then the array itself.
    Traverse,
    /// Visit the array only.
    Keep,
}

/// One thing found at a path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Visited<'a> {
    /// The value; `None` when the path is missing there.
    pub value: Option<RawBsonRef<'a>>,
    /// The position in the outermost array that was traversed implicitly, which is what a
    /// positional `$` stands for.
    pub array_index: Option<usize>,
}

type Visitor<'f, 'a> = &'f mut dyn FnMut(Visited<'a>) -> ControlFlow<()>;

/// Calls `visitor` with everything that the matcher would look at for this path, until it breaks.
///
/// A missing path is one visit without a value, but an array on the way yields only what
/// its documents and positions yield: nothing at all for `a.b` in `{a: [1]}`.
pub fn visit<'a>(
    document: &'a RawDocument,
    path: &Path,
    leaf: LeafArrays,
    visitor: &mut dyn FnMut(Visited<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_document(document, path.steps(), leaf, visitor)
}

/// What is left of a path.
#[derive(Clone, Copy)]
struct Steps<'p> {
    parts: &'p [Box<str>],
    positions: &'p [Option<usize>],
}

impl Steps<'_> {
    fn rest(self) -> Self {
        Steps {
            parts: &self.parts[1..],
            positions: &self.positions[1..],
        }
    }

    fn is_last(self) -> bool {
        self.parts.len() == 1
    }

    fn ends_in_dot(self) -> bool {
        matches!(self.parts, [_, last] if last.is_empty())
    }
}

fn visit_document<'a>(
    document: &'a RawDocument,
    mut steps: Steps<'_>,
    leaf: LeafArrays,
    visitor: Visitor<'_, 'a>,
) -> ControlFlow<()> {
    let mut current = document;
    loop {
        let found = find(current, steps.parts[0].as_bytes()).and_then(|field| field.value());
        match found {
            // (`a.` means what `a` means when it is an array, and nothing otherwise.)
            Some(RawBsonRef::Array(array)) if steps.is_last() || steps.ends_in_dot() => {
                return visit_leaf_array(array, leaf, visitor);
            }
            Some(RawBsonRef::Array(array)) => {
                return visit_array(array, steps.rest(), leaf, visitor);
            }
            Some(RawBsonRef::Document(inner)) if !steps.is_last() => {
                current = inner;
                steps = steps.rest();
            }
            _ => {
                let value = found.filter(|_| steps.is_last());
                return visitor(Visited {
                    value,
                    array_index: None,
                });
            }
        }
    }
}

fn visit_leaf_array<'a>(
    array: &'a RawArray,
    leaf: LeafArrays,
    visitor: Visitor<'_, 'a>,
) -> ControlFlow<()> {
    if leaf == LeafArrays::Traverse {
        for (index, value) in elements(array) {
            visitor(Visited {
                value: Some(value),
                array_index: Some(index),
            })?;
        }
    }
    visitor(Visited {
        value: Some(RawBsonRef::Array(array)),
        array_index: None,
    })
}

/// Visits an array in the middle of a path; `steps` are those behind the array.
fn visit_array<'a>(
    array: &'a RawArray,
    steps: Steps<'_>,
    leaf: LeafArrays,
    visitor: Visitor<'_, 'a>,
) -> ControlFlow<()> {
    for (index, value) in elements(array) {
        if let RawBsonRef::Document(document) = value {
            // The outermost array decides where a positional `$` points.
            let mut outermost = |inner: Visited<'a>| {
                visitor(Visited {
                    array_index: Some(index),
                    ..inner
                })
            };
            visit_document(document, steps, leaf, &mut outermost)?;
        }
        if steps.positions[0] != Some(index) {
            continue;
        }
        // The position is named in the path: not an implicit traversal.
        match value {
            _ if steps.is_last() => {
                visitor(Visited {
                    value: Some(value),
                    array_index: None,
                })?;
            }
            RawBsonRef::Document(document) => {
                visit_document(document, steps.rest(), leaf, visitor)?;
            }
            RawBsonRef::Array(inner) => visit_array(inner, steps.rest(), leaf, visitor)?,
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

/// The elements of an array with their positions; a malformed one ends them.
pub fn elements(array: &RawArray) -> impl Iterator<Item = (usize, RawBsonRef<'_>)> {
    let document = RawDocument::from_bytes(array.as_bytes()).ok();
    let values = document
        .into_iter()
        .flat_map(fields)
        .map_while(|field| field.value());
    values.enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, Document, RawDocumentBuf, doc};

    fn visits(
        document: &Document,
        path: &str,
        leaf: LeafArrays,
    ) -> Vec<(Option<Bson>, Option<usize>)> {
        let raw = RawDocumentBuf::try_from(document).unwrap();
        let mut seen = Vec::new();
        let flow = visit(&raw, &Path::parse(path), leaf, &mut |visited| {
            let value = visited.value.map(|value| Bson::try_from(value).unwrap());
            seen.push((value, visited.array_index));
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        seen
    }

    fn traversed(document: Document, path: &str) -> Vec<Option<Bson>> {
        visits(&document, path, LeafArrays::Traverse)
            .into_iter()
            .map(|(value, _)| value)
            .collect()
    }

    fn some(value: impl Into<Bson>) -> Option<Bson> {
        Some(value.into())
    }

    #[test]
    fn parts_and_positions() {
        let path = Path::parse("a.0.01.b");
        assert_eq!(
            path.parts().iter().map(|part| &**part).collect::<Vec<_>>(),
            ["a", "0", "01", "b"]
        );
        assert_eq!(path.positions(), [None, Some(0), None, None]);
        assert_eq!(path.to_string(), "a.0.01.b");
        assert!(path.starts_with(&Path::parse("a.0")));
        assert!(!Path::parse("ab").starts_with(&Path::parse("a")));
    }

    #[test]
    fn get_goes_through_documents_only() {
        let raw = RawDocumentBuf::try_from(&doc! {"a": {"b": 1}, "c": [{"b": 2}]}).unwrap();
        assert_eq!(get(&raw, &Path::parse("a.b")), Some(RawBsonRef::Int32(1)));
        assert_eq!(get(&raw, &Path::parse("c.b")), None);
        assert_eq!(get(&raw, &Path::parse("a.x")), None);
    }

    #[test]
    fn scalars_and_missing() {
        assert_eq!(traversed(doc! {"a": 5}, "a"), [some(5)]);
        assert_eq!(traversed(doc! {"a": 5}, "b"), [None]);
        assert_eq!(traversed(doc! {"a": 5}, "a.b"), [None]);
        assert_eq!(traversed(doc! {"a": {"b": 5}}, "a.b"), [some(5)]);
        assert_eq!(traversed(doc! {"a": {}}, "a.b"), [None]);
    }

    #[test]
    fn leaf_arrays() {
        let array = Bson::Array(vec![1.into(), 2.into()]);
        assert_eq!(
            traversed(doc! {"a": [1, 2]}, "a"),
            [some(1), some(2), Some(array.clone())]
        );
        let kept = visits(&doc! {"a": [1, 2]}, "a", LeafArrays::Keep);
        assert_eq!(kept, [(Some(array), None)]);
    }

    #[test]
    fn arrays_on_the_way() {
        assert_eq!(
            traversed(doc! {"a": [{"b": 1}, 3, {}, {"b": 2}]}, "a.b"),
            [some(1), None, some(2)]
        );
        assert!(traversed(doc! {"a": [1]}, "a.b").is_empty());
        assert!(traversed(doc! {"a": []}, "a.b").is_empty());
        assert!(traversed(doc! {"a": [[{"b": 1}]]}, "a.b").is_empty());
    }

    #[test]
    fn a_dot_at_the_end_looks_into_arrays_only() {
        let array = some(vec![Bson::from(1), 2.into()]);
        assert_eq!(
            traversed(doc! {"a": [1, 2]}, "a."),
            [some(1), some(2), array]
        );
        assert_eq!(traversed(doc! {"a": 1}, "a."), [None]);
        assert!(traversed(doc! {"a": [1, 2]}, "a..").is_empty());
    }

    #[test]
    fn positions_in_paths() {
        assert_eq!(
            traversed(doc! {"a": [5, [2, 4]]}, "a.1"),
            [some(vec![Bson::from(2), 4.into()])]
        );
        assert_eq!(
            traversed(doc! {"a": [5, {"1": 4}]}, "a.1"),
            [some(4), some(doc! {"1": 4})]
        );
        assert_eq!(
            traversed(doc! {"a": [5, {"b": 4}]}, "a.1.b"),
            [None, some(4)]
        );
        assert_eq!(traversed(doc! {"a": [5, [{"b": 4}]]}, "a.1.b"), [some(4)]);
        assert_eq!(traversed(doc! {"a": [5, [7, 8]]}, "a.1.0"), [some(7)]);
        assert_eq!(
            traversed(doc! {"a": [5]}, "a.00"),
            Vec::<Option<Bson>>::new()
        );
    }

    #[test]
    fn the_outermost_array_gives_the_index() {
        let indexes = |document, path| {
            let all = visits(&document, path, LeafArrays::Traverse);
            all.into_iter().map(|(_, index)| index).collect::<Vec<_>>()
        };
        assert_eq!(
            indexes(doc! {"a": [{"b": 1}, {"b": [2, 3]}]}, "a.b"),
            [Some(0), Some(1), Some(1), Some(1)]
        );
        assert_eq!(
            indexes(doc! {"a": {"b": [2, 3]}}, "a.b"),
            [Some(0), Some(1), None]
        );
    }
}
