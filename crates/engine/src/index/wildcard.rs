//! The keys of wildcard indexes: one for each path and value of a document.
//!
//! ```text
//! fields of an entry:   path (a string) | value
//!                       1 (an integer)  | path, which holds an array in this document
//! ```
//!
//! The first kind answers conditions on the path, as an index `{$_path: 1, path: 1}` would. The second tells the planner
//! whether values at a path may come from arrays. A document whose fields are not all under keys of their own (names with
//! dots, what the projection leaves out) is the value `{"": null}`, so that whoever asks whether the path exists finds it.

use super::KeySink;
use super::spec::{InScope, WildcardScope};
use bson::RawBsonRef;
use bson::raw::{RawArray, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::field::{Field, fields};
use meridian_value::key::Direction;
use std::collections::HashSet;

/// What the first field of an entry is that names an array.
pub const ARRAY_MARK: i32 = 1;

/// Documents with more fields than this have their doubled names found by hash.
const FIELDS_COMPARED: usize = 16;

/// Emits every entry of a document, each once.
pub(super) fn generate(
    document: &RawDocument,
    scope: &WildcardScope,
    collation: &Collation,
    sink: &mut KeySink,
) {
    let first = sink.len();
    let mut walk = Walk {
        scope,
        collation,
        sink,
        path: String::new(),
        first,
        emitted: 0,
    };
    for field in first_fields(document) {
        let Some(name) = plain_name(&field) else {
            continue;
        };
        let in_scope = scope.field(name);
        walk.field(name, &field, in_scope);
    }
    sink.deduplicate(first);
}

struct Walk<'w> {
    scope: &'w WildcardScope,
    collation: &'w Collation,
    sink: &'w mut KeySink,
    path: String,
    /// The document's first entry.
    first: usize,
    /// Entries so far, those too that came before.
    emitted: usize,
}

impl Walk<'_> {
    /// The entries of a field; whether it has any.
    fn field(&mut self, name: &str, field: &Field<'_>, in_scope: InScope<'_>) -> bool {
        let (InScope::Whole | InScope::Within(_), Some(value)) = (in_scope, field.value()) else {
            return false;
        };
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let emitted = self.emitted;
        self.value(value, in_scope);
        self.path.truncate(before);
        self.emitted > emitted
    }

    fn value(&mut self, value: RawBsonRef<'_>, in_scope: InScope<'_>) {
        match value {
            RawBsonRef::Document(document) => self.document(document, in_scope),
            RawBsonRef::Array(array) => self.array(array, in_scope),
            value if self.keeps(in_scope) => self.emit(value),
            _ => {}
        }
    }

    fn document(&mut self, document: &RawDocument, in_scope: InScope<'_>) {
        let mut is_whole = true;
        let mut has_entries = false;
        for field in first_fields(document) {
            let Some(name) = plain_name(&field) else {
                is_whole = false;
                continue;
            };
            let within = match in_scope {
                InScope::Within(tree) => self.scope.within(tree, name),
                other => other,
            };
            // Names that begin with nothing would look like the path above.
            has_entries |= self.field(name, &field, within);
        }
        if document.is_empty() || (!has_entries && !self.keeps(in_scope)) {
            self.emit(RawBsonRef::Document(&RawDocumentBuf::new()));
        } else if !is_whole || !has_entries {
            self.emit(RawBsonRef::Document(&bson::rawdoc! { "": null }));
        }
    }

    fn array(&mut self, array: &RawArray, in_scope: InScope<'_>) {
        self.mark();
        let emitted = self.emitted;
        for element in array.into_iter().flatten() {
            match element {
                RawBsonRef::Document(document) => self.document(document, in_scope),
                element if self.keeps(in_scope) => self.emit(element),
                _ => {}
            }
        }
        if self.emitted == emitted {
            self.emit(RawBsonRef::Undefined);
        }
    }

    fn keeps(&self, in_scope: InScope<'_>) -> bool {
        matches!(in_scope, InScope::Whole) || self.scope.keeps_scalars()
    }

    /// An entry of the path with a value.
    fn emit(&mut self, value: RawBsonRef<'_>) {
        let path = RawBsonRef::String(&self.path);
        push(self.sink, self.first, path, value, self.collation);
        self.emitted += 1;
    }

    /// The entry that names the path as one of an array.
    fn mark(&mut self) {
        let (mark, path) = (
            RawBsonRef::Int32(ARRAY_MARK),
            RawBsonRef::String(&self.path),
        );
        push(self.sink, self.first, mark, path, &Collation::SIMPLE);
        self.emitted += 1;
    }
}

/// Adds an entry, if it is not that before it, which is of the same document from `first` on.
fn push(
    sink: &mut KeySink,
    first: usize,
    path: RawBsonRef<'_>,
    value: RawBsonRef<'_>,
    collation: &Collation,
) {
    let pending = sink.begin();
    sink.push_field(Some(path), Direction::Ascending, &Collation::SIMPLE);
    sink.push_field(Some(value), Direction::Ascending, collation);
    sink.finish(pending, &[]);
    sink.drop_repeated(first);
}

/// The fields of a document, of those that have one name the first.
fn first_fields(document: &RawDocument) -> impl Iterator<Item = Field<'_>> {
    let mut few: Vec<&[u8]> = Vec::new();
    let mut many: HashSet<&[u8]> = HashSet::new();
    fields(document).filter(move |field| {
        let name = field.name();
        if few.len() < FIELDS_COMPARED {
            let is_new = !few.contains(&name);
            if is_new {
                few.push(name);
            }
            return is_new;
        }
        !few.contains(&name) && many.insert(name)
    })
}

/// A name that can be part of a path.
fn plain_name<'a>(field: &Field<'a>) -> Option<&'a str> {
    let name = std::str::from_utf8(field.name()).ok()?;
    (!name.contains('.')).then_some(name)
}

/// The definition's key pattern as that of one path.
pub(super) fn pattern_of_path(number: RawBsonRef<'_>, path: &str) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    pattern.append(bson::cstr!("$_path"), number);
    if let Ok(path) = bson::raw::CString::try_from(path.to_owned()) {
        pattern.append(path, number);
    }
    pattern
}
