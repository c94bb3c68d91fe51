//! Access paths whose entries lie in the order of one field: for counting groups and finding distinct
//! values by it.
//!
//! Such a path proves the whole filter by its bounds, has each document once, and fixes the fields before
//! the wanted one. It reads no more entries than match, and may leap over most of them, so no other
//! path is cheaper and no amounts are asked for.

use super::access::{Access, IndexAccess};
use super::candidate::{Candidate, candidates, whole_index};
use super::ranges::TreeRanges;
use super::{Hint, QuerySpec};
use crate::catalog::{Collection, Index};
use crate::query::Filter;
use crate::storage::Order;
use std::sync::Arc;

/// Entries that lie in the order of one field.
#[derive(Clone)]
pub struct FieldRanges {
    /// Where they are.
    pub ranges: TreeRanges,
    /// The field's position in the key.
    pub position: usize,
}

/// The access path for a query, without sort, skip and limit, by the field at `path`; `None` where there
/// is none, or the client's hint asks for another.
pub(super) fn grouped(
    collection: &Collection,
    query: &QuerySpec,
    path: &str,
) -> Option<(Access, FieldRanges)> {
    // What a collation finds equal may be several values, and cannot be read from entries.
    let is_told_by_id = query.ids.as_ref().is_none_or(|ids| ids.is_simple());
    if !query.collation.is_simple() || !is_told_by_id {
        return None;
    }
    let everything = matches!(*query.filter, Filter::Always);
    let found = candidates(collection, query)
        .into_iter()
        .filter(Candidate::is_exact);
    let mut found: Vec<Access> = found.map(|candidate| candidate.access).collect();
    if everything {
        found.push(Access::Collection(Order::Forward));
        let whole = collection.ready_indexes().filter(|index| holds_all(index));
        found.extend(whole.map(|index| whole_index(index, query).access));
    }
    found.retain(|access| {
        is_wanted(access, query) && grouped_position(access, path, query).is_some()
    });
    // Entries of fewer fields are shorter.
    let fields = |access: &Access| access.index().map_or(0, |index| index.spec.key.len());
    let access = found.into_iter().min_by_key(fields)?;
    let position = grouped_position(&access, path, query)?;
    let ranges = TreeRanges::of(&access, collection)?;
    Some((access, FieldRanges { ranges, position }))
}

/// The position in the key of the field at `path`, when the entries of an access path lie in its order: all
/// fields before it have single values, and none comes from an array.
fn grouped_position(access: &Access, path: &str, query: &QuerySpec) -> Option<usize> {
    match access {
        Access::Index(access) => position_in(access, path),
        Access::Collection(_) | Access::Primary(_) => {
            (path == "_id" && query.ids.is_some()).then_some(0)
        }
        Access::Nothing
        | Access::Geo(_)
        | Access::Near(_)
        | Access::Ranked(_)
        | Access::Union(_) => None,
    }
}

pub(super) fn position_in(access: &IndexAccess, path: &str) -> Option<usize> {
    let index = &access.index;
    let position = index.spec.key.iter().position(|(own, _)| own == path)?;
    // A number may be a position in an array for the index, and never is for expressions.
    let has_number = path
        .split('.')
        .any(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_plain =
        index.spec.key[position].1.is_by_value() && index.spec.collation.is_simple() && !has_number;
    let is_fixed = access.bounds[..position]
        .iter()
        .all(|bounds| bounds.is_points());
    (is_plain && is_fixed && !index.multikey().is_multikey()).then_some(position)
}

/// Whether every document has an entry in an index that queries may use.
pub(super) fn holds_all(index: &Arc<Index>) -> bool {
    let spec = &index.spec;
    let is_complete = !spec.hidden && !spec.sparse && spec.partial_filter.is_none();
    is_complete && spec.key.iter().all(|(_, field)| field.is_by_value())
}

pub(super) fn is_wanted(access: &Access, query: &QuerySpec) -> bool {
    let is_id = match access {
        Access::Primary(_) | Access::Collection(_) => query.ids.is_some(),
        _ => access.index().is_some_and(|index| index.spec.is_id_index()),
    };
    match query.hint.as_ref() {
        None => true,
        Some(Hint::Natural(_)) => false,
        Some(Hint::Name(name)) if name == "_id_" => is_id,
        Some(Hint::Name(name)) => access.index().is_some_and(|index| index.spec.name == *name),
        Some(Hint::Key(key)) => access.index().map_or_else(
            || is_id && meridian_value::compare_documents(key, &bson::rawdoc! { "_id": 1 }).is_eq(),
            |index| meridian_value::compare_documents(index.spec.key_pattern(), key).is_eq(),
        ),
    }
}
