//! A plan as MongoDB's `explain` shows it, with what Meridian adds.

use super::access::{Access, Branch, GeoAccess, IndexAccess, NearAccess, PrimaryAccess};
use super::entry_use::joined;
use super::{CountBy, EntryUse, Method, Plan, QuerySpec, RowSource};
use crate::catalog::Index;
use crate::index::IndexField;
use crate::index::bounds::FieldBounds;
use crate::query::Filter;
use crate::sorter::STAGE_BYTES_MAX;
use crate::storage::Order;
use crate::text::document_text;
use bson::raw::{CString, RawArrayBuf, RawDocumentBuf};
use bson::{RawBsonRef, cstr, rawdoc};

/// What is known of the number of entries that an access path walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This many, by the rank index.
    Exact(u64),
    /// About this many, by a coarse covering of the area and the rank index.
    Estimated(u64),
    /// The rank index is still being built.
    Building,
    /// There is no such number.
    None,
}

/// Tells the amounts of access paths.
pub type Amounts<'a> = dyn Fn(&Access) -> Amount + 'a;

/// The tree of stages, root first.
pub fn plan_document(plan: &Plan, amounts: &Amounts<'_>) -> RawDocumentBuf {
    let query = &plan.query;
    let mut node = access_document(&plan.access, plan.residual.as_deref(), amounts);
    if let Some(sort) = &plan.sort {
        let mut stage = rawdoc! { "stage": "SORT" };
        stage.append(cstr!("sortPattern"), sort.to_document());
        stage.append(cstr!("memLimit"), amount(STAGE_BYTES_MAX as u64));
        if let Some(limit) = query.limit {
            stage.append(
                cstr!("limitAmount"),
                amount(limit.saturating_add(query.skip)),
            );
        }
        stage.append(cstr!("type"), "simple");
        node = above(stage, node);
    }
    if query.skip > 0 {
        let mut stage = rawdoc! { "stage": "SKIP" };
        stage.append(cstr!("skipAmount"), amount(query.skip));
        node = above(stage, node);
    }
    if query.return_key {
        node = above(rawdoc! { "stage": "RETURN_KEY" }, node);
    } else if let Some(stage) = projection(plan) {
        node = above(stage, node);
    }
    if let (Some(limit), None) = (query.limit, &plan.sort) {
        let mut stage = rawdoc! { "stage": "LIMIT" };
        stage.append(cstr!("limitAmount"), amount(limit));
        node = above(stage, node);
    }
    planned_by_branches(query, node)
}

/// The stages below MongoDB's stage for an `$or` whose branches are planned each by itself.
fn planned_by_branches(query: &QuerySpec, node: RawDocumentBuf) -> RawDocumentBuf {
    match (&*query.filter, &query.hint) {
        (Filter::Or(_), None) => above(rawdoc! { "stage": "SUBPLAN" }, node),
        _ => node,
    }
}

impl Plan {
    /// The plan in few words, as MongoDB's profiler has it: `IXSCAN { a: 1 }`.
    pub fn summary(&self) -> String {
        let (scan, is_count) = match &self.method {
            Method::Count(CountBy::Metadata) => return "RECORD_STORE_FAST_COUNT".to_owned(),
            Method::Count(_) if self.counts_by_entries() => ("COUNT_SCAN", true),
            Method::SkipScan(_) | Method::CountGroups(..) => ("DISTINCT_SCAN", false),
            _ => ("IXSCAN", false),
        };
        match &self.access {
            Access::Collection(_) if is_count => "COUNT".to_owned(),
            access => access_summary(access, scan),
        }
    }
}

fn access_summary(access: &Access, scan: &str) -> String {
    let by_key =
        |stage: &str, index: &Index| format!("{stage} {}", document_text(index.spec.key_pattern()));
    match access {
        Access::Nothing => "EOF".to_owned(),
        Access::Collection(_) => "COLLSCAN".to_owned(),
        Access::Primary(own) if own.bounds.is_single_point() => "IDHACK".to_owned(),
        Access::Primary(_) => "CLUSTERED_IXSCAN".to_owned(),
        Access::Index(own) if own.is_id_look_up() => "IDHACK".to_owned(),
        Access::Index(own) if own.first_of.is_some() => by_key("DISTINCT_SCAN", &own.index),
        Access::Index(own) => by_key(scan, &own.index),
        Access::Geo(own) => by_key(scan, &own.index),
        Access::Near(own) => {
            let plane = own.index.spec.key[own.position].1 == IndexField::Plane2d;
            let stage = if plane {
                "GEO_NEAR_2D"
            } else {
                "GEO_NEAR_2DSPHERE"
            };
            by_key(stage, &own.index)
        }
        Access::Ranked(own) => access_summary(&own.branch.access, scan),
        Access::Union(own) => {
            let branches = own.branches.iter();
            let parts = branches.map(|branch| access_summary(&branch.access, scan));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The stage that gives rows their shape.
fn projection(plan: &Plan) -> Option<RawDocumentBuf> {
    let covered = match plan.access.entry_use() {
        Some(EntryUse {
            rows: Some(rows), ..
        }) if !rows.is_whole() => Some(rows.paths()),
        _ => None,
    };
    let (name, shape) = match (&plan.query.projection, &plan.query.projection_source) {
        (_, Some(source)) if plan.query.show_record_id => ("PROJECTION_DEFAULT", source.clone()),
        (Some(_), Some(source)) if covered.is_some() => ("PROJECTION_COVERED", source.clone()),
        (Some(projection), Some(source)) if projection.is_inclusion() => {
            ("PROJECTION_SIMPLE", source.clone())
        }
        (Some(_), Some(source)) => ("PROJECTION_DEFAULT", source.clone()),
        _ => ("PROJECTION_COVERED", inclusion(covered?)),
    };
    let mut stage = rawdoc! { "stage": name };
    stage.append(cstr!("transformBy"), shape);
    Some(stage)
}

/// The projection that keeps these paths and no other.
fn inclusion(paths: &[String]) -> RawDocumentBuf {
    let mut shape = RawDocumentBuf::new();
    for path in paths.iter().filter(|path| *path != "_id") {
        append(&mut shape, path, true);
    }
    let has_id = paths.iter().any(|path| path == "_id");
    shape.append(cstr!("_id"), has_id);
    shape
}

/// The stages of a count: entries alone where they prove enough.
pub fn count_document(plan: &Plan, stage: RawDocumentBuf, amounts: &Amounts<'_>) -> RawDocumentBuf {
    let input = if plan.counts_by_entries() {
        counted_document("COUNT_SCAN", &plan.access, amounts)
    } else {
        access_document(&plan.access, plan.residual.as_deref(), amounts)
    };
    above(stage, planned_by_branches(&plan.query, input))
}

/// An access path whose entries alone are used, by a stage of this name where it is an index.
pub fn counted_document(name: &str, access: &Access, amounts: &Amounts<'_>) -> RawDocumentBuf {
    match access {
        Access::Index(own) => with_amount(index_scan(name, own), amounts(access)),
        Access::Geo(own) => with_amount(geo_scan(name, own), amounts(access)),
        access => access_document(access, None, amounts),
    }
}

fn with_amount(mut stage: RawDocumentBuf, amount: Amount) -> RawDocumentBuf {
    match amount {
        Amount::Exact(entries) => stage.append(cstr!("exactEntries"), signed(entries)),
        Amount::Estimated(entries) => stage.append(cstr!("estimatedEntries"), signed(entries)),
        Amount::Building => stage.append(cstr!("rankIndex"), "building"),
        Amount::None => {}
    }
    stage
}

/// `stage` over `input`.
pub fn above(mut stage: RawDocumentBuf, input: RawDocumentBuf) -> RawDocumentBuf {
    stage.append(cstr!("inputStage"), input);
    stage
}

/// One access path with the test that follows it.
pub fn access_document(
    access: &Access,
    residual: Option<&Filter>,
    amounts: &Amounts<'_>,
) -> RawDocumentBuf {
    let counted = |stage: RawDocumentBuf| with_amount(stage, amounts(access));
    match access {
        Access::Nothing => rawdoc! { "stage": "EOF" },
        Access::Collection(order) => {
            let mut stage = rawdoc! { "stage": "COLLSCAN" };
            append_filter(&mut stage, residual);
            stage.append(cstr!("direction"), direction(*order));
            stage
        }
        Access::Primary(own) if own.bounds.is_single_point() => id_look_up(residual),
        Access::Primary(own) => counted(primary(own, residual)),
        Access::Index(own) if own.is_id_look_up() => id_look_up(residual),
        Access::Index(own) if own.text.is_some() => {
            text_match(own, counted(index_scan("IXSCAN", own)), residual)
        }
        Access::Index(own) => {
            let scan = if own.first_of.is_some() {
                "DISTINCT_SCAN"
            } else {
                "IXSCAN"
            };
            fetch(counted(index_scan(scan, own)), &own.entries, residual)
        }
        Access::Geo(own) => fetch(counted(geo_scan("IXSCAN", own)), &own.entries, residual),
        Access::Near(own) => fetch(near_scan(own), &own.entries, residual),
        Access::Ranked(own) => {
            let branch = &own.branch;
            let input = access_document(&branch.access, branch.residual.as_deref(), amounts);
            let path = own.nearest.path.as_str();
            above(rawdoc! { "stage": "SORT_BY_DISTANCE", "path": path }, input)
        }
        Access::Union(union) => {
            let mut inputs = RawArrayBuf::new();
            for Branch { access, residual } in &union.branches {
                inputs.push(access_document(access, residual.as_deref(), amounts));
            }
            let mut stage = match &union.merged_by {
                Some(sort) => {
                    rawdoc! { "stage": "SORT_MERGE", "sortPattern": sort.to_document() }
                }
                None => rawdoc! { "stage": "OR" },
            };
            append_filter(&mut stage, residual);
            stage.append(cstr!("inputStages"), inputs);
            stage
        }
    }
}

fn fetch(input: RawDocumentBuf, entries: &EntryUse, residual: Option<&Filter>) -> RawDocumentBuf {
    if entries.reading() != RowSource::Documents {
        return input;
    }
    let mut stage = rawdoc! { "stage": "FETCH" };
    append_filter(&mut stage, residual);
    above(stage, input)
}

/// A search in a text index: what the terms do not settle of it is tested in the stage that MongoDB has for it, other
/// conditions behind that.
fn text_match(
    access: &IndexAccess,
    scan: RawDocumentBuf,
    residual: Option<&Filter>,
) -> RawDocumentBuf {
    let input = fetch(scan, &access.entries, None);
    let (Some(text), Some(search)) = (&access.index.spec.text, &access.text) else {
        return input;
    };
    let mut stage = rawdoc! { "stage": "TEXT_MATCH" };
    let mut prefix = RawDocumentBuf::new();
    let key = access.index.spec.key_pattern();
    for (path, kind) in key.iter().flatten().take(text.prefix.len()) {
        prefix.append(path, kind);
    }
    stage.append(cstr!("indexPrefix"), prefix);
    stage.append(cstr!("indexName"), access.index.spec.name.as_str());
    if let Some(query) = search.condition.query() {
        let list = |texts: &mut dyn Iterator<Item = &String>| -> RawArrayBuf {
            texts.map(String::as_str).collect()
        };
        let mut parsed = RawDocumentBuf::new();
        parsed.append(cstr!("terms"), list(&mut query.terms.iter()));
        parsed.append(cstr!("negatedTerms"), list(&mut query.negated_terms.iter()));
        parsed.append(cstr!("phrases"), list(&mut query.phrases.iter()));
        let negated = list(&mut query.negated_phrases.iter());
        parsed.append(cstr!("negatedPhrases"), negated);
        stage.append(cstr!("parsedTextQuery"), parsed);
    }
    stage.append(cstr!("textIndexVersion"), 3);
    if search.best_first {
        stage.append(cstr!("bestFirst"), true);
    }
    let matched = above(stage, input);
    let others = residual.map_or(&[][..], Filter::conjuncts);
    let others = others.iter().filter(|part| part.text().is_none());
    match joined(others.cloned().collect()) {
        None => matched,
        Some(rest) => {
            let mut stage = rawdoc! { "stage": "FETCH" };
            append_filter(&mut stage, Some(&rest));
            above(stage, matched)
        }
    }
}

fn append_filter(stage: &mut RawDocumentBuf, residual: Option<&Filter>) {
    if let Some(residual) = residual {
        stage.append(cstr!("filter"), residual.to_document());
    }
}

fn id_look_up(residual: Option<&Filter>) -> RawDocumentBuf {
    let mut stage = rawdoc! { "stage": "IDHACK" };
    append_filter(&mut stage, residual);
    stage
}

fn primary(access: &PrimaryAccess, residual: Option<&Filter>) -> RawDocumentBuf {
    let mut stage =
        rawdoc! { "stage": "CLUSTERED_IXSCAN", "keyPattern": { "_id": 1 }, "indexName": "_id_" };
    append_filter(&mut stage, residual);
    stage.append(cstr!("direction"), direction(access.order));
    let mut bounds = RawDocumentBuf::new();
    bounds.append(
        cstr!("_id"),
        texts(&access.bounds, access.order == Order::Backward),
    );
    stage.append(cstr!("indexBounds"), bounds);
    stage
}

fn index_scan(name: &str, access: &IndexAccess) -> RawDocumentBuf {
    let mut stage = index_facts(name, &access.index, &access.entries);
    stage.append(cstr!("direction"), direction(access.order));
    let mut bounds = RawDocumentBuf::new();
    let fields = access.index.spec.key.iter().zip(&access.bounds);
    // As in MongoDB, which shows no bounds of whole keys.
    for ((path, field), own) in fields.filter(|_| access.within.is_none()) {
        let descending = field.direction() == meridian_value::key::Direction::Descending;
        let reversed = descending != (access.order == Order::Backward);
        append(&mut bounds, path, texts(own, reversed));
    }
    stage.append(cstr!("indexBounds"), bounds);
    stage
}

fn geo_scan(name: &str, access: &GeoAccess) -> RawDocumentBuf {
    let mut stage = index_facts(name, &access.index, &access.entries);
    stage.append(cstr!("direction"), "forward");
    let mut bounds = RawDocumentBuf::new();
    for (position, (path, _)) in access.index.spec.key.iter().enumerate() {
        match access.bounds.get(position) {
            Some(own) => append(&mut bounds, path, texts(own, false)),
            None if position == access.position => {
                let ranges = access.cover(crate::geo::CoverLimits::default());
                let mut list = RawArrayBuf::new();
                ranges
                    .iter()
                    .for_each(|range| list.push(format!("[{}, {}]", range.first, range.last)));
                append(&mut bounds, path, list);
            }
            None => append(&mut bounds, path, texts(&FieldBounds::all(), false)),
        }
    }
    stage.append(cstr!("indexBounds"), bounds);
    stage
}

/// The leading fields have bounds; how far the search goes shows only when it runs.
fn near_scan(access: &NearAccess) -> RawDocumentBuf {
    let name = match access.index.spec.key[access.position].1 {
        IndexField::Plane2d => "GEO_NEAR_2D",
        _ => "GEO_NEAR_2DSPHERE",
    };
    let mut stage = index_facts(name, &access.index, &access.entries);
    let mut bounds = RawDocumentBuf::new();
    for ((path, _), own) in access.index.spec.key.iter().zip(&access.bounds) {
        append(&mut bounds, path, texts(own, false));
    }
    if !bounds.is_empty() {
        stage.append(cstr!("indexBounds"), bounds);
    }
    stage
}

fn index_facts(name: &str, index: &Index, entries: &EntryUse) -> RawDocumentBuf {
    let spec = &index.spec;
    let mut stage = rawdoc! { "stage": name };
    append_filter(
        &mut stage,
        entries.filter.as_ref().map(|tested| &*tested.filter),
    );
    stage.append(cstr!("keyPattern"), spec.key_pattern().to_owned());
    stage.append(cstr!("indexName"), spec.name.as_str());
    if let Some(collation) = crate::collation::listing(&spec.collation) {
        stage.append(cstr!("collation"), collation);
    }
    stage.append(cstr!("isMultiKey"), index.multikey().is_multikey());
    if spec.text.is_none() {
        stage.append(cstr!("multiKeyPaths"), multikey_paths(index));
    }
    stage.append(cstr!("isUnique"), spec.unique);
    stage.append(cstr!("isSparse"), spec.sparse);
    stage.append(cstr!("isPartial"), spec.partial_filter.is_some());
    if spec.clustering {
        stage.append(cstr!("isClustering"), true);
    }
    stage.append(cstr!("indexVersion"), 2);
    stage
}

/// The paths that lead through arrays, for each field.
fn multikey_paths(index: &Index) -> RawDocumentBuf {
    let mut paths = RawDocumentBuf::new();
    for (position, (path, _)) in index.spec.key.iter().enumerate() {
        let mut arrays = RawArrayBuf::new();
        if position > 0 && !index.arrays.is_empty() {
            index
                .arrays
                .iter()
                .for_each(|path| arrays.push(path.as_str()));
        } else if index.multikey().field(position) {
            arrays.push(path.as_str());
        }
        append(&mut paths, path, arrays);
    }
    paths
}

fn texts(bounds: &FieldBounds, reversed: bool) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for text in bounds.texts(reversed) {
        array.push(text);
    }
    array
}

fn append(document: &mut RawDocumentBuf, path: &str, value: impl bson::raw::BindRawBsonRef) {
    if let Ok(name) = CString::try_from(path) {
        document.append(&*name, value);
    }
}

fn direction(order: Order) -> &'static str {
    match order {
        Order::Forward => "forward",
        Order::Backward => "backward",
    }
}

/// A number of the smallest integer type that has it.
fn amount(number: u64) -> RawBsonRef<'static> {
    match i32::try_from(number) {
        Ok(number) => RawBsonRef::Int32(number),
        Err(_) => RawBsonRef::Int64(signed(number)),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
