//! Changes of single indexes by `collMod`: visibility, expiry, uniqueness.

use super::CollModRequest;
use super::definition::{conflicting, has_key, is_id_key};
use crate::catalog::{Collection, Index, UnbuiltIndex};
use crate::error::{Code, Error, Result};
use crate::index::{IndexChange, IndexSpec};
use crate::operation;
use crate::storage::{Family, Order, Snapshot, TreeKey};
use crate::text::document_text;
use crate::types::type_name;
use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::number::Number;
use std::sync::Arc;

/// So many documents of one key are listed at most.
const GROUP_MAX: usize = 100_000;
/// Violations behind these bytes are not listed.
const VIOLATIONS_BYTES_MAX: usize = 8 << 20;

/// The seconds of a `collMod`: rounded towards zero and, as in mongod, cut to the largest there is. mongod
/// takes NaN for 0 here, which would delete everything with a date at once: it is refused.
fn changed_expiry(value: bson::raw::RawBsonRef<'_>) -> Result<i64> {
    let Some(number) = meridian_value::number::Number::from_raw(value) else {
        let found = crate::types::type_name(value.element_type());
        return Err(Error::type_mismatch(format!(
            "BSON field 'collMod.index.expireAfterSeconds' is the wrong type '{found}', expected types \
             '[long, int, decimal, double']"
        )));
    };
    let seconds = number.to_f64();
    if seconds.is_nan() {
        return Err(Error::new(
            Code::InvalidOptions,
            "TTL index 'expireAfterSeconds' option cannot be NaN",
        ));
    }
    let seconds = number.to_i64_truncated().unwrap_or(match seconds {
        seconds if seconds < 0.0 => i64::MIN,
        _ => i64::MAX,
    });
    if seconds < 0 {
        return Err(Error::new(
            Code::InvalidOptions,
            "TTL index 'expireAfterSeconds' option cannot be less than 0",
        ));
    }
    Ok(seconds.min(i32::MAX.into()))
}

/// Changes an index.
///
/// # Errors
/// MongoDB's; `CannotConvertIndexToUnique` where documents have the same fields.
pub(super) fn modify_index(
    collection: &mut Collection,
    change: &RawDocument,
    request: &CollModRequest,
    snapshot: &Snapshot,
    reply: &mut RawDocumentBuf,
) -> Result<()> {
    let hides = matches!(change.get("hidden"), Ok(Some(_)));
    if let (Some(name), true) = (collection.cluster_name(), hides)
        && is_of_id(change, name)
    {
        let message = "The 'hidden' option is not supported for a clusteredIndex";
        return Err(Error::location(6_011_800, message));
    }
    if is_id_index(change) && hides && collection.cluster_name().is_none() {
        return Err(Error::bad_value("can't hide _id index"));
    }
    if is_id_index(change) && collection.options.clustered_index.is_none() {
        return check_id_index_change(collection, change);
    }
    refuse_unbuilt(collection, change)?;
    let position = find_index(collection, change)?;
    let index = collection.indexes[position].clone();
    let is_capped = collection.options.capped.is_some();
    let mut wanted = IndexChange::default();
    for element in change {
        let (key, value) =
            element.map_err(|error| Error::new(Code::InvalidBSON, error.to_string()))?;
        // As good as absent, in mongod too.
        if value != RawBsonRef::Null {
            read_change(
                &index.spec,
                key.as_str(),
                value,
                is_capped,
                &mut wanted,
                reply,
            )?;
        }
    }
    if let Some(hidden) = wanted.hidden {
        reply.append(cstr!("hidden_old"), index.spec.hidden);
        reply.append(cstr!("hidden_new"), hidden);
    }
    let validates = request.validation_level.is_some() || request.validation_action.is_some();
    check_together(&wanted, validates, request.dry_run)?;
    if wanted.unique == Some(true) {
        check_convertible(collection, &index, &wanted, snapshot)?;
        if request.dry_run {
            return Ok(());
        }
    }
    if wanted.expire_after_seconds.is_some() && index.spec.text.is_some() {
        let message = "TTL indexes are single-field indexes, compound indexes do not support TTL";
        return Err(Error::new(Code::InvalidOptions, message));
    }
    append_uniqueness(&index.spec, &wanted, reply);
    let spec = index.spec.modified(&wanted).map_err(not_modified)?;
    let changes_uniqueness =
        spec.unique != index.spec.unique || spec.prepare_unique != index.spec.prepare_unique;
    if wanted.expire_after_seconds.is_some()
        || spec.hidden != index.spec.hidden
        || changes_uniqueness
    {
        collection.indexes[position] = Arc::new(index.with_spec(spec));
    }
    Ok(())
}

/// Reads one field of a change.
fn read_change(
    spec: &IndexSpec,
    name: &str,
    value: RawBsonRef<'_>,
    is_capped: bool,
    wanted: &mut IndexChange,
    reply: &mut RawDocumentBuf,
) -> Result<()> {
    match name {
        "name" | "keyPattern" => {}
        "expireAfterSeconds" if is_capped => {
            let message = "TTL indexes are not supported for capped collections.";
            return Err(Error::new(Code::InvalidOptions, message));
        }
        "expireAfterSeconds" => {
            let seconds = changed_expiry(value)?;
            if let Some(old) = spec.expire_after_seconds {
                reply.append(cstr!("expireAfterSeconds_old"), old);
            }
            reply.append(cstr!("expireAfterSeconds_new"), seconds);
            wanted.expire_after_seconds = Some(seconds);
        }
        "hidden" => {
            let hidden = truth(name, value)?;
            wanted.hidden = Some(hidden).filter(|hidden| *hidden != spec.hidden);
        }
        "unique" => wanted.unique = Some(truth(name, value)?),
        "prepareUnique" => wanted.prepare_unique = Some(truth(name, value)?),
        other => {
            return Err(Error::location(
                40415,
                format!("BSON field 'collMod.index.{other}' is an unknown field."),
            ));
        }
    }
    Ok(())
}

fn truth(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    let number = || Number::from_raw(value).map(|number| !number.is_zero());
    value.as_bool().or_else(number).ok_or_else(|| {
        let found = type_name(value.element_type());
        Error::type_mismatch(format!(
            "BSON field 'collMod.index.{name}' is the wrong type '{found}', expected types '[bool, long, int, decimal, double']"
        ))
    })
}

/// Refuses changes that may not come together.
fn check_together(wanted: &IndexChange, validates: bool, dry_run: bool) -> Result<()> {
    let invalid = |message| Err(Error::new(Code::InvalidOptions, message));
    let has_others = wanted.hidden.is_some() || wanted.expire_after_seconds.is_some() || validates;
    let makes_unique = wanted.unique == Some(true);
    if dry_run && !makes_unique {
        return invalid("dry run mode requires an index modification with unique: true.");
    }
    if dry_run && has_others {
        return invalid(
            "unique: true cannot be combined with any other modification in dry run mode.",
        );
    }
    let unprepares = makes_unique && wanted.prepare_unique == Some(false);
    if unprepares || (wanted.prepare_unique.is_some() && has_others) {
        return invalid("prepareUnique cannot be combined with any other modification.");
    }
    match wanted.unique {
        Some(false) => Err(Error::bad_value("Cannot make index non-unique")),
        _ => Ok(()),
    }
}

/// Refuses to make an index unique that is not prepared for it, or in which documents share their fields.
fn check_convertible(
    collection: &Collection,
    index: &Index,
    wanted: &IndexChange,
    snapshot: &Snapshot,
) -> Result<()> {
    if index.spec.unique {
        return Ok(());
    }
    if !index.spec.prepare_unique {
        return Err(Error::new(
            Code::InvalidOptions,
            "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
        ));
    }
    // What no unique index may be.
    index.spec.modified(wanted).map_err(not_modified)?;
    let violations = violations(collection, index, snapshot)?;
    if violations.is_empty() {
        return Ok(());
    }
    let message = "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.";
    let mut fields = RawDocumentBuf::new();
    fields.append(cstr!("violations"), violations);
    Err(Error::new(Code::CannotConvertIndexToUnique, message).with_fields(fields))
}

/// The `_id`s of documents with the same fields, in a group for each key. The collection's write lock is held, and
/// nothing that is committed is not in the snapshot.
fn violations(collection: &Collection, index: &Index, snapshot: &Snapshot) -> Result<RawArrayBuf> {
    let (start, end) = index.tree.range();
    let mut scan = snapshot.scan(Family::Indexes, &start, &end, Order::Forward);
    let (mut groups, mut bytes) = (RawArrayBuf::new(), 0);
    let (mut fields, mut keys): (Vec<u8>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let mut close = |keys: &mut Vec<Vec<u8>>| -> Result<()> {
        let shared = std::mem::take(keys);
        if shared.len() < 2 {
            return Ok(());
        }
        let mut ids = RawArrayBuf::new();
        for key in &shared {
            let stored = collection.documents.key(key);
            let id = snapshot.get(Family::Documents, &stored, |bytes| {
                let document = RawDocument::from_bytes(bytes).ok()?;
                let id = document.get("_id").ok().flatten()?;
                Some(RawBson::from(id))
            })?;
            ids.push(id.flatten().unwrap_or(RawBson::Null));
        }
        bytes += ids.as_bytes().len();
        if bytes > VIOLATIONS_BYTES_MAX {
            return Ok(());
        }
        groups.push(rawdoc! { "ids": ids });
        Ok(())
    };
    while scan.advance()? {
        operation::check()?;
        let key = TreeKey::strip(scan.entry().0);
        let id_at = index.layout.fields_length(key);
        let id_at = id_at.ok_or_else(|| Error::internal("an index entry cannot be read"))?;
        if key[..id_at] != fields[..] {
            close(&mut keys)?;
            fields = key[..id_at].to_vec();
        }
        if keys.len() < GROUP_MAX {
            keys.push(key[id_at..].to_vec());
        }
    }
    close(&mut keys)?;
    Ok(groups)
}

/// What was changed about whether the index is unique.
fn append_uniqueness(spec: &IndexSpec, wanted: &IndexChange, reply: &mut RawDocumentBuf) {
    let prepared = wanted.prepare_unique.filter(|_| !spec.unique);
    if let Some(prepared) = prepared.filter(|prepared| *prepared != spec.prepare_unique) {
        reply.append(cstr!("prepareUnique_old"), spec.prepare_unique);
        reply.append(cstr!("prepareUnique_new"), prepared);
    }
    if wanted.unique == Some(true) && !spec.unique {
        reply.append(cstr!("unique_new"), true);
    }
}

/// The index on `_id` stays as it is, and is unique already.
fn check_id_index_change(collection: &Collection, change: &RawDocument) -> Result<()> {
    let expiry = change.get("expireAfterSeconds").ok().flatten();
    let Some(expiry) = expiry.filter(|value| *value != bson::raw::RawBsonRef::Null) else {
        return Ok(());
    };
    let message = match collection.options.capped {
        Some(_) => "TTL indexes are not supported for capped collections.",
        None => {
            changed_expiry(expiry)?;
            "the _id field does not support TTL indexes"
        }
    };
    Err(Error::new(Code::InvalidOptions, message))
}

/// Refuses a change of an index that is listed and not built.
fn refuse_unbuilt(collection: &Collection, change: &RawDocument) -> Result<()> {
    let (name, key) = (change.get_str("name"), change.get_document("keyPattern"));
    let is_meant = |index: &&UnbuiltIndex| match (&name, &key) {
        (Ok(name), _) => index.name == *name,
        (_, Ok(key)) => index.has_key(key),
        _ => false,
    };
    match collection.unbuilt.iter().find(is_meant) {
        None => Ok(()),
        Some(index) => Err(Error::not_implemented(format!(
            "collMod of the index '{}', which is listed but not built",
            index.name
        ))),
    }
}

/// Whether a change names the index that every collection has.
fn is_id_index(change: &RawDocument) -> bool {
    is_of_id(change, "_id_")
}

/// Whether the index of `_id` is meant, which has this name.
fn is_of_id(change: &RawDocument, name: &str) -> bool {
    change.get_str("name").is_ok_and(|own| own == name)
        || change.get_document("keyPattern").is_ok_and(is_id_key)
}

/// `collMod` refuses what `createIndexes` refuses, with another code and without the definition.
fn not_modified(error: Error) -> Error {
    match error.message.split_once(". Index spec: ") {
        Some((reason, _)) if error.code == Code::CannotCreateIndex => {
            Error::new(Code::InvalidOptions, reason)
        }
        _ => error,
    }
}

fn find_index(collection: &Collection, change: &RawDocument) -> Result<usize> {
    let not_found = |what: String| {
        Error::new(
            Code::IndexNotFound,
            format!("cannot find index {what} for ns {}", collection.namespace),
        )
    };
    if let Ok(name) = change.get_str("name") {
        let found = collection
            .indexes
            .iter()
            .position(|index| index.spec.name == name && !index.spec.is_id_index());
        return found.ok_or_else(|| not_found(name.to_owned()));
    }
    let key = change.get_document("keyPattern").map_err(|_| {
        Error::new(
            Code::InvalidOptions,
            "must specify either index name or key pattern",
        )
    })?;
    let mut matching = (0..collection.indexes.len())
        .filter(|position| !collection.indexes[*position].spec.is_id_index())
        .filter(|position| has_key(collection.indexes[*position].spec.listing(), key));
    let first = matching
        .next()
        .ok_or_else(|| not_found(document_text(key)))?;
    match matching.count() {
        0 => Ok(first),
        others => Err(Error::new(
            Code::AmbiguousIndexKeyPattern,
            format!(
                "index keyPattern {} matches {} indexes, must use index name. Conflicting indexes:{}",
                document_text(key),
                others + 1,
                conflicting(collection, key)
            ),
        )),
    }
}
