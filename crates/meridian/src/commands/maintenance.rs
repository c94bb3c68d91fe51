//! Maintenance: `compact`, `dbHash`, `filemd5`, `validateDBMetadata`.

use super::arguments::{Arguments, array_values, field};
use super::context::Context;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Namespace, Result};
use meridian_wire::DocumentWriter;
use std::time::Instant;

/// Writes the files of a collection anew.
pub fn compact(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    if namespace.collection.starts_with("system.") {
        return Err(Error::new(
            Code::IllegalOperation,
            "can't compact a system namespace",
        ));
    }
    let freed = context.engine().compact(&namespace)?;
    reply.count("bytesFreed", freed);
    Ok(())
}

/// The hashes of a database's collections, by which two servers are compared.
pub fn db_hash(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    if let Some(name) = context.value().as_str() {
        let database = context.generic.database;
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid db name: {database}.{name}"),
        ));
    }
    let mut only = Vec::new();
    if let Some(RawBsonRef::Array(names)) = field(context.body, "collections") {
        for name in array_values(names) {
            let name = name.as_str();
            only.push(
                name.ok_or_else(|| Error::bad_value("collections entries have to be strings"))?,
            );
        }
    }
    let started = Instant::now();
    let database = context.generic.database;
    let hashes = context.engine().hashes(database, &only)?;
    reply.string("host", &context.service.host);
    {
        let mut collections = reply.document("collections");
        for one in &hashes.collections {
            collections.string(&one.name, &one.hash);
        }
    }
    {
        let mut capped = reply.array("capped");
        let those = hashes.collections.iter().filter(|one| one.is_capped);
        those.for_each(|one| _ = capped.push(RawBsonRef::String(&one.name)));
    }
    {
        let mut uuids = reply.document("uuids");
        for one in &hashes.collections {
            let uuid = bson::RawBinaryRef {
                subtype: bson::spec::BinarySubtype::Uuid,
                bytes: &one.uuid,
            };
            uuids.value(&one.name, RawBsonRef::Binary(uuid));
        }
    }
    reply.string("md5", &hashes.whole);
    let millis = started.elapsed().as_millis();
    reply.count("timeMillis", i64::try_from(millis).unwrap_or(i64::MAX));
    Ok(())
}

/// The hash of a GridFS file.
pub fn file_md5(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let chunks = chunks_of(context.generic.database, context.body)?;
    if field(context.body, "partialOk")
        .is_some_and(|value| super::arguments::truth(value) == Some(true))
    {
        return Err(Error::not_implemented("the option 'partialOk' of filemd5"));
    }
    let (count, hash) = context.engine().file_hash(&chunks, context.value())?;
    reply.int32("numChunks", count).string("md5", &hash);
    Ok(())
}

/// The chunks that a `filemd5` reads.
///
/// # Errors
/// `InvalidNamespace` for a `root` that is no string.
pub fn chunks_of(database: &str, body: &RawDocument) -> Result<Namespace> {
    let root = match field(body, "root") {
        None | Some(RawBsonRef::String("")) => "fs",
        Some(RawBsonRef::String(root)) => root,
        Some(_) => {
            return Err(Error::new(
                Code::InvalidNamespace,
                "'root' must be of type String",
            ));
        }
    };
    Namespace::new(database, &format!("{root}.chunks"))
}

/// What in the definitions of collections does not belong to a version of the Stable API.
pub fn validate_metadata(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["apiParameters", "db", "collection"];
    let arguments = context.arguments("validateDBMetadata", &known)?;
    let parameters = arguments
        .document("apiParameters")?
        .ok_or_else(|| arguments.missing("apiParameters"))?;
    let (database, collection) = (arguments.string("db")?, arguments.string("collection")?);
    let parameters = Arguments::parse(
        "validateDBMetadata.apiParameters",
        parameters,
        &["version", "strict", "deprecationErrors"],
    )?;
    let version = parameters.string("version")?;
    version.ok_or_else(|| parameters.missing("version"))?;
    let strict = parameters.boolean_or("strict", false)?;
    parameters.boolean_or("deprecationErrors", false)?;
    let mut errors = reply.array("apiVersionErrors");
    if !strict {
        return Ok(());
    }
    let engine = context.engine();
    for (namespace, name) in engine.indexes_beyond_stable_api(database, collection) {
        let mut error = errors.document();
        error
            .string("ns", &namespace.to_string())
            .int32("code", 323)
            .string("codeName", "APIStrictError")
            .string(
                "errmsg",
                &format!("The index with name {name} is not allowed in API version 1."),
            );
    }
    Ok(())
}
