//! `createIndexes`: builds indexes, on existing documents too.

use super::arguments::elements;
use super::context::Context;
use bson::{RawDocument, RawDocumentBuf};
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;
use std::sync::Arc;

/// The options of MongoDB 6.0, whether Meridian has them or refuses them.
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
    "clustered",
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
    "bucketSize",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
    "wildcardProjection",
    "columnstoreProjection",
    "storageEngine",
];

/// Builds them, and answers with how many there were and are.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["indexes", "ignoreUnknownIndexOptions", "commitQuorum", "v"];
    let arguments = context.arguments("createIndexes", &known)?;
    if arguments.get("commitQuorum").is_some() {
        let message = "Standalones can't specify commitQuorum";
        return Err(Error::bad_value(message));
    }
    let mut indexes = context.documents(&arguments, "indexes")?;
    if indexes.is_empty() {
        return Err(Error::bad_value(
            "Must specify at least one index to create",
        ));
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
    if outcome.before == outcome.after && !outcome.created_collection {
        reply.string("note", "all indexes already exist");
    } else {
        reply.boolean("createdCollectionAutomatically", outcome.created_collection);
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
    context.arguments("reIndex", &[])?;
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
