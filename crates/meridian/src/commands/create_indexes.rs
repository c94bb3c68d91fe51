//! `createIndexes`: builds indexes, on existing documents too.

use super::arguments::{Arguments, elements};
use super::context::Context;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::{Code, Error, Result};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;
use std::sync::Arc;

/// The options of MongoDB 6.0 that `ignoreUnknownIndexOptions` leaves, whether Meridian has them or refuses them.
const INDEX_OPTIONS: &[&str] = &[
    "v",
    "key",
    "name",
    "ns",
    "unique",
    "sparse",
    "background",
    "hidden",
    "dropDups",
    "partialFilterExpression",
    "expireAfterSeconds",
    "collation",
    "prepareUnique",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
    "wildcardProjection",
    "storageEngine",
];

/// Builds them, and answers with how many there were and are.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["indexes", "ignoreUnknownIndexOptions", "commitQuorum", "v"];
    let arguments = context.arguments("createIndexes", &known)?;
    if let Some(quorum) = arguments.get("commitQuorum") {
        return Err(refused_quorum(&arguments, quorum));
    }
    let none = || {
        Err(Error::bad_value(
            "Must specify at least one index to create",
        ))
    };
    match arguments.get_even_null("indexes") {
        Some(RawBsonRef::Null) => {
            let message = "invalid parameter: expected an object (indexes)";
            return Err(Error::location(10065, message));
        }
        // As good as nothing, in mongod too.
        Some(RawBsonRef::Array(list))
            if list
                .into_iter()
                .flatten()
                .all(|one| one == RawBsonRef::Null) =>
        {
            return none();
        }
        _ => {}
    }
    let mut indexes = context.documents(&arguments, "indexes")?;
    if indexes.is_empty() {
        return none();
    }
    let pruned: Vec<RawDocumentBuf>;
    if arguments.flag("ignoreUnknownIndexOptions")? {
        pruned = indexes
            .iter()
            .map(|index| without_unknown_options(index))
            .collect();
        indexes = pruned.iter().map(AsRef::as_ref).collect();
    }
    let namespace = context.write_namespace()?;
    let activity = Arc::clone(&context.client.activity);
    let mut report = |progress| activity.report(progress);
    let engine = context.engine();
    let outcome = engine.create_indexes(&namespace, &indexes, &mut report)?;
    reply
        .int32("numIndexesBefore", outcome.before)
        .int32("numIndexesAfter", outcome.after);
    if outcome.before != outcome.after || outcome.created_collection {
        reply.boolean("createdCollectionAutomatically", outcome.created_collection);
    }
    if outcome.before == outcome.after {
        reply.string("note", "all indexes already exist");
    } else if outcome.existing > 0 && outcome.unbuilt.is_empty() {
        reply.string("note", "index already exists");
    }
    if !outcome.unbuilt.is_empty() {
        let names = outcome.unbuilt.join(", ");
        reply.string(
            "note",
            &format!("listed but not built, so that no query uses them: {names}"),
        );
    }
    Ok(())
}

/// A server that is no replica set has no quorum; what is none at all is told so.
fn refused_quorum(arguments: &Arguments<'_>, quorum: RawBsonRef<'_>) -> Error {
    let whole = Number::from_raw(quorum).map(|number| number.to_i64_truncated());
    match (quorum, whole) {
        (RawBsonRef::String(""), _) => {
            Error::failed_to_parse("commitQuorum can't be an empty string")
        }
        (_, Some(Some(0..=50))) | (RawBsonRef::String(_), _) => {
            Error::bad_value("Standalones can't specify commitQuorum")
        }
        (_, Some(_)) => Error::failed_to_parse(
            "commitQuorum has to be a non-negative number and not greater than 50",
        ),
        _ => {
            let expected = ["long", "int", "decimal", "double", "string"];
            arguments.wrong_type("commitQuorum", quorum, &expected)
        }
    }
}

/// For `ignoreUnknownIndexOptions`, which mongorestore sets to restore what old versions let in.
fn without_unknown_options(index: &RawDocument) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    let mut known = DocumentWriter::new(&mut bytes);
    for (name, value) in elements(index).filter(|(name, _)| INDEX_OPTIONS.contains(name)) {
        known.value(name, value);
    }
    drop(known);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}

/// `reIndex`: builds the secondary indexes anew; documents lie in the order of `_id` themselves.
pub fn rebuild(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let activity = Arc::clone(&context.client.activity);
    let mut report = |progress| activity.report(progress);
    let engine = context.engine();
    engine.rebuild_indexes(&namespace, &mut report)?;
    let indexes = engine.list_indexes(&namespace)?;
    let number = i32::try_from(indexes.len()).unwrap_or(i32::MAX);
    reply.int32("nIndexesWas", number).int32("nIndexes", number);
    let mut listed = reply.array("indexes");
    for index in &indexes {
        listed.push_document(index);
    }
    Ok(())
}
