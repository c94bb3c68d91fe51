//! Which access paths could answer a query, and what each leaves to be tested.

use super::access::{Access, GeoAccess, IndexAccess, PrimaryAccess};
use super::entry_use::{EntryUse, entry_use, joined};
use super::{QuerySpec, buckets, partial};
use crate::catalog::{Collection, Index};
use crate::geo::Region;
use crate::index::IndexField;
use crate::index::bounds::{ByteRange, End, FieldBounds, FieldContext};
use crate::query::{Filter, Predicate, Sort};
use crate::storage::Order;
use meridian_value::key::Direction;
use std::borrow::Cow;
use std::sync::Arc;

/// Combinations of values before a location that a geo scan walks one by one.
const PREFIXES_MAX: usize = 1_000;

/// An access path with what it does not prove.
#[derive(Clone)]
pub(super) struct Candidate {
    pub access: Access,
    pub residual: Option<Arc<Filter>>,
    /// Whether it narrows anything down; a walk over a whole index only gives an order.
    pub is_selective: bool,
}

impl Candidate {
    /// Whether every entry within the bounds is a row.
    pub(super) fn is_exact(&self) -> bool {
        self.residual.is_none() && self.access.is_exact()
    }

    /// Whether there is one document at most, by its `_id`.
    pub(super) fn is_identifier(&self) -> bool {
        match &self.access {
            Access::Primary(access) => access.bounds.is_single_point(),
            Access::Index(access) => access.is_identifier(),
            _ => false,
        }
    }
}

/// All candidates but the collection scan and the unions of several, for which see `union`.
pub(super) fn candidates(collection: &Collection, query: &QuerySpec) -> Vec<Candidate> {
    let mut found = Vec::new();
    let conditions = conditions(&query.filter);
    found.extend(primary(collection, query, &conditions));
    for index in collection.ready_indexes() {
        // Without a condition on its first field an index only gives an order.
        let (first, _) = &index.spec.key[0];
        let is_idle = query.sort.is_none()
            && index.spec.key.iter().all(|(_, field)| field.is_by_value())
            && !conditions.iter().any(|condition| condition.path == *first);
        if !is_idle {
            found.extend(for_index(index, query, &conditions));
        }
    }
    found
}

/// The candidate that one index offers; `conditions` are those of the query's filter.
pub(super) fn for_index(
    index: &Arc<Index>,
    query: &QuerySpec,
    conditions: &[IndexableCondition<'_>],
) -> Option<Candidate> {
    let spec = &index.spec;
    let is_by_value_or_place = spec.wildcard.is_none() && spec.text.is_none();
    if spec.hidden || !is_by_value_or_place || !covers_query(index, &query.filter) {
        return None;
    }
    if index.spec.key.iter().any(|(_, field)| field.is_located()) {
        // Documents without the location have no entry, so only a condition on it may use the index.
        return geo(index, query, conditions);
    }
    by_bounds(index, query, conditions)
}

/// Whether every document that the query matches has an entry in the index.
pub(super) fn covers_query(index: &Index, filter: &Filter) -> bool {
    match index.spec.filter() {
        Ok(None) => true,
        Ok(Some(wanted)) => partial::implies(filter, &wanted),
        Err(_) => false,
    }
}

/// Conditions on a path that an index can use, with the number of the conjunct they come from.
/// `within` tells that the condition stands inside an `$elemMatch`, which bounds alone do not prove.
pub(super) struct IndexableCondition<'f> {
    conjunct: usize,
    path: Cow<'f, str>,
    predicate: &'f Predicate,
    within: bool,
}

impl<'f> IndexableCondition<'f> {
    /// The path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What is asked of its values.
    pub(super) fn predicate(&self) -> &'f Predicate {
        self.predicate
    }

    /// Whether it stands inside an `$elemMatch`.
    pub(super) fn is_within(&self) -> bool {
        self.within
    }

    /// Notes in the list of conjuncts whether bounds answer it completely.
    pub(super) fn note_proven(&self, proven: &mut [bool], certain: bool) {
        proven[self.conjunct] |= certain;
    }
}

pub(super) fn conditions(filter: &Filter) -> Vec<IndexableCondition<'_>> {
    let mut found = Vec::new();
    for (conjunct, part) in filter.conjuncts().iter().enumerate() {
        if let Filter::Field { path, predicate } = part {
            let path = Cow::Borrowed(path.as_str());
            collect(conjunct, path, predicate, false, &mut found);
        }
    }
    found
}

fn collect<'f>(
    conjunct: usize,
    path: Cow<'f, str>,
    predicate: &'f Predicate,
    within: bool,
    found: &mut Vec<IndexableCondition<'f>>,
) {
    found.push(IndexableCondition {
        conjunct,
        path: path.clone(),
        predicate,
        within,
    });
    if let Predicate::ElemMatchObject(inner) = predicate {
        for part in inner.conjuncts() {
            if let Filter::Field {
                path: rest,
                predicate,
            } = part
            {
                let path = Cow::Owned(format!("{path}.{rest}"));
                collect(conjunct, path, predicate, true, found);
            }
        }
    }
}

/// Documents by `_id`, where they lie in its order.
fn primary(
    collection: &Collection,
    query: &QuerySpec,
    conditions: &[IndexableCondition<'_>],
) -> Option<Candidate> {
    let filter = &*query.filter;
    let mut bounds = FieldBounds::all();
    let mut proven = vec![false; filter.conjuncts().len()];
    let context = FieldContext {
        collation: query.ids.as_ref()?,
        ..FieldContext::from(IndexField::Ascending)
    };
    for condition in conditions
        .iter()
        .filter(|condition| condition.path == "_id" && !condition.within)
    {
        if let Some(own) = FieldBounds::from_predicate(condition.predicate, context) {
            // An `_id` is never an array, so conditions on it meet in one value.
            bounds = bounds.intersect(&own);
            proven[condition.conjunct] = own.is_exact();
        }
    }
    let whole = conditions.iter().filter(|condition| !condition.within);
    for own in buckets::starts(collection, whole) {
        bounds = bounds.intersect(&own);
    }
    let is_selective = !bounds.is_all();
    let order = primary_order(query);
    if !is_selective && order.is_none() {
        return None;
    }
    let access = Access::Primary(PrimaryAccess {
        bounds,
        order: order.unwrap_or(Order::Forward),
    });
    Some(Candidate {
        access,
        residual: residual(filter, &proven),
        is_selective,
    })
}

/// The direction in which documents by `_id` come in the order that the query asks for.
pub(super) fn primary_order(query: &QuerySpec) -> Option<Order> {
    let sort = query.sort.as_deref()?;
    let [field] = sort.fields() else { return None };
    let ids = query.ids.as_ref()?;
    (field.path.as_str() == "_id" && !field.by_metadata && sort.collation() == ids)
        .then(|| order_of(field.direction == Direction::Ascending))
}

fn order_of(ascending: bool) -> Order {
    if ascending {
        Order::Forward
    } else {
        Order::Backward
    }
}

fn by_bounds(
    index: &Arc<Index>,
    query: &QuerySpec,
    conditions: &[IndexableCondition<'_>],
) -> Option<Candidate> {
    let filter = &query.filter;
    let mut proven = vec![false; filter.conjuncts().len()];
    let bounds = field_bounds(index, conditions, &mut proven);
    let is_selective = bounds.first().is_some_and(|first| !first.is_all());
    if !is_selective && !bounds.iter().all(FieldBounds::is_all) {
        // Bounds on later fields alone do not narrow the walk, but the walk can still give an order.
        proven.fill(false);
    }
    let mut access = IndexAccess {
        index: index.clone(),
        bounds,
        within: None,
        order: Order::Forward,
        entries: EntryUse::default(),
        text: None,
        first_of: None,
    };
    if !is_selective {
        access.bounds = vec![FieldBounds::all(); index.spec.key.len()];
    }
    let order = query
        .sort
        .as_deref()
        .and_then(|sort| index_order(&access, sort));
    let holds_all = !index.spec.sparse
        && index.spec.partial_filter.is_none()
        && index.spec.key.iter().all(|(_, field)| field.is_by_value());
    if !is_selective && (order.is_none() || !holds_all) {
        return None;
    }
    if is_selective && skips_missing(index) && matches_missing(&access.bounds) {
        return None;
    }
    access.order = order.unwrap_or(Order::Forward);
    let (entries, residual) = entry_use(index, query, residual(filter, &proven));
    access.entries = entries;
    Some(Candidate {
        access: Access::Index(access),
        residual,
        is_selective,
    })
}

/// Whether documents without the fields have no entry.
fn skips_missing(index: &Index) -> bool {
    index.spec.sparse || index.spec.key.iter().any(|(_, field)| field.is_located())
}

/// Whether a missing field lies within the bounds of every field.
fn matches_missing(bounds: &[FieldBounds]) -> bool {
    bounds.iter().all(FieldBounds::contains_null)
}

/// The bounds of each field of the key. `proven` is set for conjuncts that they answer completely.
pub(super) fn field_bounds(
    index: &Index,
    conditions: &[IndexableCondition<'_>],
    proven: &mut [bool],
) -> Vec<FieldBounds> {
    let multikey = index.multikey();
    let mut bounds: Vec<FieldBounds> = Vec::with_capacity(index.spec.key.len());
    let mut arrays_bounded: Vec<&str> = Vec::new();
    for (position, (path, field)) in index.spec.key.iter().enumerate() {
        let root = path.split('.').next().unwrap_or(path);
        // Under one array, two conditions may hold for different elements, while an entry holds
        // values of one element: only the first may be a bound.
        let shared = multikey.field(position) && arrays_bounded.contains(&root);
        let mut own: Option<FieldBounds> = None;
        for condition in conditions
            .iter()
            .filter(|condition| condition.path == *path)
        {
            let is_first = own.as_ref().is_none_or(FieldBounds::is_all);
            let usable = !shared && (!multikey.field(position) || is_first);
            let context = FieldContext {
                field: *field,
                multikey: multikey.field(position),
                sparse: index.spec.sparse && index.spec.key.len() == 1,
                collation: &index.spec.collation,
            };
            let found =
                FieldBounds::from_predicate(condition.predicate, context).filter(|_| usable);
            if let Some(found) = found {
                let negated = matches!(condition.predicate, Predicate::Not(_));
                let certain =
                    found.is_exact() && !condition.within && !(negated && multikey.field(position));
                proven[condition.conjunct] |= certain;
                own = Some(match own {
                    Some(own) => own.intersect(&found),
                    None => found,
                });
            }
        }
        let own = own.unwrap_or_else(FieldBounds::all);
        if multikey.field(position) && !own.is_all() {
            arrays_bounded.push(root);
        }
        bounds.push(own);
    }
    bounds
}

/// The direction in which an index within bounds gives the order of `sort`.
pub(super) fn index_order(access: &IndexAccess, sort: &Sort) -> Option<Order> {
    let index = &access.index;
    let multikey = index.multikey();
    let position = |path: &str| index.spec.key.iter().position(|(own, _)| own == path);
    // A document with an array sorts by its least or greatest element, which need not be the entry
    // that the bounds let through. Arrays in other fields only repeat it with the same sort key.
    let by_element = |path: &str| position(path).is_some_and(|at| multikey.field(at));
    let mut paths = sort.fields().iter().map(|field| field.path.as_str());
    if sort.fields().is_empty() || sort.is_by_metadata() || paths.any(by_element) {
        return None;
    }
    let is_fixed =
        |path: &str| position(path).is_some_and(|at| access.bounds[at].is_single_point());
    let is_other_order = index.spec.collation != *sort.collation();
    let mut forward = None;
    let mut keys = index.spec.key.iter().zip(&access.bounds);
    for field in sort
        .fields()
        .iter()
        .filter(|field| !is_fixed(field.path.as_str()))
    {
        let (kind, bounds) = loop {
            let ((path, kind), bounds) = keys.next()?;
            if path == field.path.as_str() {
                break (kind, bounds);
            }
            if !bounds.is_single_point() {
                return None;
            }
        };
        if !kind.is_by_value() || (is_other_order && bounds.may_hold_text()) {
            return None;
        }
        let same = kind.direction() == field.direction;
        if *forward.get_or_insert(same) != same {
            return None;
        }
    }
    Some(order_of(forward.unwrap_or(true)))
}

/// A scan of the area that a geo condition asks for.
fn geo(
    index: &Arc<Index>,
    query: &QuerySpec,
    conditions: &[IndexableCondition<'_>],
) -> Option<Candidate> {
    let filter = &query.filter;
    let position = index
        .spec
        .key
        .iter()
        .position(|(_, field)| field.is_located())?;
    let (conjunct, region, condition) = geo_condition(filter, &index.spec.key[position])?;
    let mut proven = vec![false; filter.conjuncts().len()];
    let bounds: Vec<FieldBounds> = field_bounds(index, conditions, &mut proven)
        .into_iter()
        .take(position)
        .collect();
    let prefixes = prefixes(index, &bounds)?;
    // Only the conditions on leading fields are bounds of this scan.
    for (number, part) in filter.conjuncts().iter().enumerate() {
        let leading = matches!(part, Filter::Field { path, .. }
            if index.spec.key[..position].iter().any(|(own, _)| own == path.as_str()));
        proven[number] &= leading;
    }
    proven[conjunct] = true;
    let (entries, residual) = entry_use(index, query, residual(filter, &proven));
    let access = GeoAccess {
        index: index.clone(),
        region,
        condition: Arc::new(condition),
        position,
        prefixes,
        bounds,
        entries,
    };
    Some(Candidate {
        access: Access::Geo(access),
        residual,
        is_selective: true,
    })
}

/// The first condition on a location that its index answers, with its place in the filter.
fn geo_condition(
    filter: &Filter,
    (wanted, kind): &(String, IndexField),
) -> Option<(usize, Arc<Region>, Filter)> {
    let suits = |region: &Region| *kind != IndexField::Plane2d || region.suits_plane();
    filter
        .conjuncts()
        .iter()
        .enumerate()
        .find_map(|(number, part)| match part {
            Filter::Field {
                path,
                predicate: Predicate::GeoWithin(region) | Predicate::GeoIntersects(region),
            } if path.as_str() == wanted && suits(region) && *kind != IndexField::SphereBucket => {
                Some((number, region.clone(), part.clone()))
            }
            Filter::Field {
                predicate: Predicate::BucketGeo(own),
                ..
            } if *kind == IndexField::SphereBucket && own.path.as_str() == wanted => {
                Some((number, own.region.clone(), part.clone()))
            }
            _ => None,
        })
}

/// The encodings of all combinations of the leading fields' values; `None` when one is not fixed.
pub(super) fn prefixes(index: &Index, bounds: &[FieldBounds]) -> Option<Vec<Vec<u8>>> {
    let mut prefixes = vec![Vec::new()];
    for (bounds, (_, field)) in bounds.iter().zip(&index.spec.key) {
        let values = bounds.points()?;
        if prefixes.len() * values.len() > PREFIXES_MAX {
            return None;
        }
        let extend = |prefix: &Vec<u8>| {
            let prefix = prefix.clone();
            let with = |value: &&End| {
                let mut extended = prefix.clone();
                extended.extend(value.key(field.direction()));
                extended
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        prefixes = prefixes.iter().flat_map(extend).collect();
    }
    prefixes.sort();
    prefixes.dedup();
    Some(prefixes)
}

/// The conjuncts that are not proven.
pub(super) fn residual(filter: &Filter, proven: &[bool]) -> Option<Arc<Filter>> {
    let conjuncts = filter.conjuncts().iter().zip(proven);
    joined(
        conjuncts
            .filter(|(_, proven)| !**proven)
            .map(|(part, _)| part.clone())
            .collect(),
    )
}

/// A walk over a whole index, because the client asked for that index.
pub(super) fn whole_index(index: &Arc<Index>, query: &QuerySpec) -> Candidate {
    let bounds = vec![FieldBounds::all(); index.spec.key.len()];
    let residual = (!matches!(*query.filter, Filter::Always)).then(|| query.filter.clone());
    let (entries, residual) = entry_use(index, query, residual);
    let access = IndexAccess {
        index: index.clone(),
        bounds,
        within: None,
        order: Order::Forward,
        entries,
        text: None,
        first_of: None,
    };
    Candidate {
        access: Access::Index(access),
        residual,
        is_selective: false,
    }
}

/// The entries of a whole index that lie within bounds of their keys, in the order that the query asks for if they give it.
pub(super) fn keys_within(index: &Arc<Index>, query: &QuerySpec, within: ByteRange) -> Candidate {
    let mut candidate = whole_index(index, query);
    candidate.is_selective = true;
    if let Access::Index(access) = &mut candidate.access {
        let sort = query.sort.as_deref();
        let order = sort.and_then(|sort| index_order(access, sort));
        access.order = order.unwrap_or(Order::Forward);
        access.within = Some(within);
    }
    candidate
}

/// The documents whose `_id` is within bounds, which are asked for beside the filter.
pub(super) fn ids_within(query: &QuerySpec, bounds: FieldBounds) -> Candidate {
    let residual = (!matches!(*query.filter, Filter::Always)).then(|| query.filter.clone());
    let access = PrimaryAccess {
        bounds,
        order: primary_order(query).unwrap_or(Order::Forward),
    };
    Candidate {
        access: Access::Primary(access),
        residual,
        is_selective: true,
    }
}
