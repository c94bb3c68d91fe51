//! The shape of a statement, and what index filters make of a collection for statements of one shape.
//!
//! In: a query. Out: a text that is equal for queries which differ in the values of their conditions only, and what
//! MongoDB makes of it: `queryHash` is its hash, and `planCacheKey` the hash of it and of which indexes the conditions
//! could use. The text is that of MongoDB 6.0 (its `CanonicalQueryEncoder`), so the hashes are the same.

use super::partial::implies;
use super::{Hint, QuerySpec};
use crate::catalog::{Collection, Index, ShapeHashes};
use crate::expression::FieldSet;
use crate::query::{Comparison, Filter, Predicate, ShapeNode, push_escaped};
use bson::{RawBson, RawBsonRef, RawDocumentBuf, cstr};
use meridian_value::{CaseFirst, Collation};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What a statement's text ends with: that of statements which are not bound to one engine of MongoDB's two.
const ENGINE: &str = "@t";

impl QuerySpec {
    /// The shape of the query, by its filter, order, projection and collation.
    pub fn shape(&self, collection: &Collection) -> String {
        let mut shape = String::new();
        self.filter.shape().encode(&mut shape);
        self.encode_order(&mut shape);
        self.encode_fields(collection, &mut shape);
        encode_collation(&self.collation, &mut shape);
        shape.push_str(ENGINE);
        shape
    }

    /// Whether MongoDB looks for a plan in its cache: not for all documents in any order, nor where the client says how.
    pub fn is_cacheable(&self) -> bool {
        let is_forced = self.hint.is_some() || self.key_bounds.is_some() || self.tailable;
        let is_all = matches!(*self.filter, Filter::Always) && self.sort.is_none();
        !is_forced && !is_all
    }

    /// The hash of the shape: eight hexadecimal digits.
    pub fn query_hash(&self, collection: &Collection) -> String {
        hash(&self.shape(collection))
    }

    /// The hash of the shape and of what the collection's indexes can do for its conditions.
    pub fn plan_cache_key(&self, collection: &Collection) -> String {
        self.hashes(collection).plan_cache_key
    }

    /// Both.
    pub fn hashes(&self, collection: &Collection) -> ShapeHashes {
        let mut shape = self.shape(collection);
        let query_hash = hash(&shape);
        encode_indexes(&self.filter, collection, &mut shape);
        ShapeHashes {
            query_hash,
            plan_cache_key: hash(&shape),
        }
    }

    /// A statement of this shape: `query`, `sort`, `projection` and, where there is one, `collation`. The projection is
    /// of the fields that a pipeline reads.
    pub fn written(&self, collection: &Collection) -> RawDocumentBuf {
        let mut statement = RawDocumentBuf::new();
        statement.append(cstr!("query"), self.filter.to_written());
        let order = self.sort.as_ref().map(|sort| sort.to_document());
        statement.append(cstr!("sort"), order.unwrap_or_default());
        let fields = match (&self.projection_source, &self.needs) {
            (Some(source), _) => source.clone(),
            (None, FieldSet::Paths(paths)) if !self.reads_whole(collection, paths) => {
                inclusion(paths)
            }
            _ => RawDocumentBuf::new(),
        };
        statement.append(cstr!("projection"), fields);
        if let Some(collation) = crate::collation::listing(&self.collation) {
            statement.append(cstr!("collation"), collation);
        }
        statement
    }

    fn encode_order(&self, out: &mut String) {
        let order = self.sort.as_ref().map(|sort| sort.to_document());
        let order =
            order.filter(|order| order.get("$natural").is_ok_and(|natural| natural.is_none()));
        for (number, (name, direction)) in order.iter().flatten().flatten().enumerate() {
            out.push(if number == 0 { '~' } else { ',' });
            out.push(match direction {
                RawBsonRef::Document(_) => 't',
                RawBsonRef::Int32(1) => 'a',
                RawBsonRef::Double(1.0) | RawBsonRef::Int64(1) => 'a',
                _ => 'd',
            });
            push_escaped(out, name.as_str());
        }
    }

    /// The fields that are read, where it is not the whole document.
    fn encode_fields(&self, collection: &Collection, out: &mut String) {
        let FieldSet::Paths(paths) = &self.needs else {
            return;
        };
        if self.reads_whole(collection, paths) {
            return;
        }
        out.push('|');
        for (number, path) in paths.iter().enumerate() {
            if number > 0 {
                out.push('-');
            }
            push_escaped(out, path);
        }
    }

    /// Whether MongoDB would read whole documents for these fields.
    fn reads_whole(&self, collection: &Collection, paths: &BTreeSet<String>) -> bool {
        match (&self.projection, &self.distinct) {
            (Some(projection), _) => !projection.is_inclusion() || self.takes_parts_of_arrays(),
            // It leaves the rest of the documents out where an index has the field.
            (None, Some(path)) => !collection.ready_indexes().any(|index| index.has_path(path)),
            (None, None) => paths.is_empty(),
        }
    }

    /// Whether the projection has `$elemMatch` or `$slice`, for which MongoDB reads whole documents.
    fn takes_parts_of_arrays(&self) -> bool {
        let is_part = |value: RawBsonRef<'_>| {
            let operators = value.as_document()?;
            let (name, _) = operators.iter().flatten().next()?;
            Some(matches!(name.as_str(), "$elemMatch" | "$slice"))
        };
        let fields = self.projection_source.iter().flatten().flatten();
        fields
            .filter_map(|(_, value)| is_part(value))
            .any(|is_part| is_part)
    }

    /// The collection as the planner may see it for this query, whose hint names no index where an index
    /// filter has a say.
    pub(super) fn allowed<'c>(&mut self, collection: &'c Collection) -> Cow<'c, Collection> {
        let filters = collection.state.index_filters();
        let filter = (!filters.is_empty()).then(|| filters.of(&self.shape(collection)));
        let Some(filter) = filter.flatten() else {
            return Cow::Borrowed(collection);
        };
        if !matches!(self.hint, Some(Hint::Natural(_))) {
            self.hint = None;
        }
        let mut allowed = collection.clone();
        allowed.indexes.retain(|index| {
            let key = index.spec.original.get_document("key");
            key.is_ok_and(|key| filter.allows(&index.spec.name, key))
        });
        Cow::Owned(allowed)
    }

    /// Whether an index filter has a say.
    pub fn is_filtered(&self, collection: &Collection) -> bool {
        let filters = collection.state.index_filters();
        !filters.is_empty() && filters.of(&self.shape(collection)).is_some()
    }
}

/// The projection that keeps these paths and no other.
fn inclusion(paths: &BTreeSet<String>) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for path in paths {
        crate::query::append(&mut fields, path, 1);
    }
    if !paths.contains("_id") {
        fields.append(cstr!("_id"), 0);
    }
    fields
}

/// MongoDB's hash of a shape: the low half of the first half of MurmurHash3, x64, 128 bits.
fn hash(text: &str) -> String {
    let hash = murmur3::murmur3_x64_128(&mut text.as_bytes(), 0).unwrap_or_default();
    format!("{:08X}", hash as u32)
}

fn encode_collation(collation: &Collation, out: &mut String) {
    let Some(options) = collation.options() else {
        return;
    };
    let case_first = match options.case_first {
        CaseFirst::Upper => 0,
        CaseFirst::Lower => 1,
        CaseFirst::Off => 2,
    };
    let flags = [
        u8::from(options.case_level),
        case_first,
        options.strength,
        u8::from(options.numeric_ordering),
        u8::from(options.shifted),
        u8::from(options.only_spaces),
        u8::from(options.normalization),
        u8::from(options.backwards),
    ];
    out.push('#');
    out.push_str(&options.locale);
    out.extend(flags.iter().map(|flag| char::from(b'0' + flag)));
}

/// Appends, of partial indexes whether the whole filter stays within them, and of each condition whether the indexes on
/// its path could serve it.
fn encode_indexes(filter: &Filter, collection: &Collection, out: &mut String) {
    let partial = collection
        .ready_indexes()
        .filter_map(|index| index.keys.partial_filter());
    let partial: String = partial
        .map(|partial| digit(implies(filter, partial)))
        .collect();
    if !partial.is_empty() {
        out.push('(');
        out.push_str(&partial);
        out.push(')');
    }
    encode_node(&filter.shape(), collection, out);
}

fn encode_node(node: &ShapeNode<'_>, collection: &Collection, out: &mut String) {
    let able = match node.path {
        // What is negated could be served by some index.
        "" if node.is_negation() => digit(true).to_string(),
        "" => String::new(),
        path => of_path(path, node.predicate, collection),
    };
    if !able.is_empty() {
        out.push('<');
        out.push_str(&able);
        out.push('>');
    }
    for child in &node.children {
        encode_node(child, collection, out);
    }
}

/// For each index that has the path, whether it could serve a condition on it.
fn of_path(path: &str, predicate: Option<&Predicate>, collection: &Collection) -> String {
    let own = match collection.id_order() {
        Some(ids) if path == "_id" && collection.options.clustered_index.is_none() => {
            Some(digit(agrees(predicate, ids)))
        }
        _ => None,
    };
    let of_index = |index: &std::sync::Arc<Index>| {
        let is_able = agrees(predicate, &index.spec.collation)
            && !(index.spec.sparse && asks_for_null(predicate));
        digit(is_able)
    };
    let of_wildcard = |index: &std::sync::Arc<Index>| {
        let scope = index
            .spec
            .wildcard
            .as_ref()
            .filter(|scope| scope.holds(path));
        scope.map(|_| {
            digit(
                agrees(predicate, &index.spec.collation)
                    && !asks_for_null(predicate)
                    && !asks_for_container(predicate),
            )
        })
    };
    let plain = collection
        .ready_indexes()
        .filter(|index| index.has_path(path))
        .map(of_index);
    let wildcard = collection.ready_indexes().filter_map(of_wildcard);
    own.into_iter().chain(plain).chain(wildcard).collect()
}

fn digit(is_able: bool) -> char {
    if is_able { '1' } else { '0' }
}

/// The values that a condition compares with.
fn operands(predicate: Option<&Predicate>) -> (&[RawBson], Option<&Collation>) {
    match predicate {
        Some(Predicate::Compare(_, operand)) => {
            (std::slice::from_ref(&**operand), Some(operand.collation()))
        }
        Some(Predicate::In(list)) => (list.values(), Some(list.collation())),
        _ => (&[], None),
    }
}

/// Whether an index of this collation has the order of what a condition compares with.
fn agrees(predicate: Option<&Predicate>, collation: &Collation) -> bool {
    let (values, own) = operands(predicate);
    own.is_none_or(|own| own == collation) || !values.iter().any(holds_texts)
}

/// Whether a value is a text, or may have texts within.
fn holds_texts(value: &RawBson) -> bool {
    matches!(
        value,
        RawBson::String(_) | RawBson::Symbol(_) | RawBson::Document(_) | RawBson::Array(_)
    )
}

fn asks_for_null(predicate: Option<&Predicate>) -> bool {
    match predicate {
        Some(Predicate::Compare(Comparison::Eq, operand)) => matches!(**operand, RawBson::Null),
        Some(Predicate::In(list)) => list.has_null(),
        _ => false,
    }
}

fn asks_for_container(predicate: Option<&Predicate>) -> bool {
    let (values, _) = operands(predicate);
    values.iter().any(|value| match value {
        RawBson::Document(own) => !own.is_empty(),
        RawBson::Array(own) => !own.is_empty(),
        _ => false,
    })
}
