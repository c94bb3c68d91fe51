//! What is not in API version 1 within the commands that are: options, stages, kinds of indexes. Clients that ask for
//! `apiStrict` are refused it.

use super::arguments::{array_values, elements, field};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::text::document_text;
use meridian_engine::{Code, Error, Result};

/// Options by command, and what MongoDB calls the command's fields.
const OPTIONS: &[(&str, &str, &[&str])] = &[
    ("aggregate", "aggregate", &["explain", "isMapReduceCommand"]),
    ("collMod", "collMod", &["dryRun", "recordPreImages"]),
    (
        "create",
        "create",
        &[
            "autoIndexId",
            "changeStreamPreAndPostImages",
            "flags",
            "indexOptionDefaults",
            "max",
            "recordPreImages",
            "size",
            "storageEngine",
            "temp",
        ],
    ),
    (
        "createIndexes",
        "createIndexes",
        &["ignoreUnknownIndexOptions"],
    ),
    (
        "find",
        "FindCommandRequest",
        &[
            "allowSpeculativeMajorityRead",
            "awaitData",
            "max",
            "min",
            "noCursorTimeout",
            "ntoreturn",
            "oplogReplay",
            "readOnce",
            "returnKey",
            "showRecordId",
            "tailable",
            "term",
        ],
    ),
    (
        "listIndexes",
        "listIndexes",
        &["includeBuildUUIDs", "includeIndexBuildInfo"],
    ),
];

/// Stages.
const STAGES: &[&str] = &[
    "$_internalInhibitOptimization",
    "$_internalSplitPipeline",
    "$currentOp",
    "$fill",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
];

/// Refuses what is not in API version 1 of a command that is.
///
/// # Errors
/// `APIStrictError`.
pub fn check(command: &str, body: &RawDocument) -> Result<()> {
    let own = OPTIONS.iter().find(|(name, ..)| *name == command);
    if let Some((_, scope, options)) = own {
        let mut names = elements(body).skip(1).map(|(name, _)| name);
        if let Some(name) = names.find(|name| options.contains(name)) {
            let message =
                format!("BSON field '{scope}.{name}' is not allowed with apiStrict:true.");
            return Err(refused(message));
        }
    }
    match (command, elements(body).next()) {
        ("aggregate" | "create" | "collMod", _) => check_pipeline(field(body, "pipeline")),
        ("createIndexes", _) => check_indexes(field(body, "indexes")),
        ("explain", Some((_, RawBsonRef::Document(explained)))) => {
            let name = elements(explained).next().map_or("", |(name, _)| name);
            check(name, explained)
        }
        _ => Ok(()),
    }
}

/// What is no pipeline is refused where it is parsed.
fn check_pipeline(pipeline: Option<RawBsonRef<'_>>) -> Result<()> {
    let stages = pipeline.and_then(|pipeline| pipeline.as_array());
    let stages = stages.into_iter().flat_map(array_values);
    for stage in stages.filter_map(|stage| stage.as_document()) {
        let Some((name, options)) = elements(stage).next() else {
            continue;
        };
        if STAGES.contains(&name) {
            let message = format!("{name} is not allowed with 'apiStrict: true' in API Version 1");
            return Err(refused(message));
        }
        let RawBsonRef::Document(options) = options else {
            continue;
        };
        match name {
            "$collStats" if elements(options).any(|(name, _)| name != "count") => {
                let message = "only the 'count' option to $collStats is supported in API Version 1";
                return Err(refused(message.to_owned()));
            }
            "$lookup" | "$unionWith" => check_pipeline(field(options, "pipeline"))?,
            "$facet" => {
                elements(options).try_for_each(|(_, pipeline)| check_pipeline(Some(pipeline)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_indexes(indexes: Option<RawBsonRef<'_>>) -> Result<()> {
    let indexes = indexes.and_then(|indexes| indexes.as_array());
    let indexes = indexes.into_iter().flat_map(array_values);
    for index in indexes.filter_map(|index| index.as_document()) {
        let key = field(index, "key").and_then(|key| key.as_document());
        let mut kinds = key.into_iter().flat_map(elements);
        if kinds.any(|(_, kind)| kind == RawBsonRef::String("text")) {
            let message = format!(
                "Error in specification {} :: caused by :: text indexes cannot be created with apiStrict: true",
                document_text(index)
            );
            return Err(refused(message));
        }
    }
    Ok(())
}

fn refused(message: String) -> Error {
    Error::new(Code::APIStrictError, message)
}
