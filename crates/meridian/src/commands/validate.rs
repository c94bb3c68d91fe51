//! `validate`: verifies a collection's documents against its indexes.

use super::arguments::{Arguments, truth};
use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{Code, Error, Namespace, Result};
use meridian_wire::DocumentWriter;

const KNOWN: &[&str] = &[
    "full",
    "background",
    "metadata",
    "repair",
    "scandata",
    "fixMultikey",
    "enforceFastCount",
    "checkBSONConformance",
    "checkBSONConsistency",
];

/// What MongoDB refuses together, in the order in which it asks.
const EXCLUSIVE: &[(&str, &str)] = &[
    ("background", "full"),
    ("background", "enforceFastCount"),
    ("background", "repair"),
    ("enforceFastCount", "repair"),
];

/// Verifies, and answers with what was found.
///
/// Documents and indexes are always compared as a whole, on a snapshot: `full`, `scandata`,
/// `enforceFastCount` and the checks of BSON are always on, and `background` is how it always runs.
/// An index that is not marked multikey and holds arrays is an error. One that is marked and holds
/// none any more stays so, where MongoDB (`fixMultikey`) unsets the mark: a reader on an older
/// snapshot may still meet the arrays.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.known_arguments("validate", KNOWN)?;
    check_combination(&arguments)?;
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    if is_on(&arguments, "metadata") {
        return write_metadata(context, &namespace, reply);
    }
    let report = context
        .engine()
        .validate(&namespace)
        .map_err(|error| match error.code {
            Code::NamespaceNotFound => missing(&namespace),
            Code::CommandNotSupportedOnView => Error::new(error.code, "Cannot validate a view"),
            _ => error,
        })?;
    let valid = report.error_count == 0;
    reply.string("ns", &namespace.to_string());
    reply.int32("nInvalidDocuments", 0);
    reply.count("nNonCompliantDocuments", report.invalid_documents);
    reply.count("nrecords", report.documents);
    reply.count(
        "nIndexes",
        report.indexes.len().try_into().unwrap_or(i64::MAX),
    );
    {
        let mut keys = reply.document("keysPerIndex");
        for index in &report.indexes {
            keys.count(&index.name, index.keys);
        }
    }
    {
        let mut details = reply.document("indexDetails");
        // By name, as MongoDB has them.
        let names: std::collections::BTreeSet<_> =
            report.indexes.iter().map(|index| &index.name).collect();
        for name in names {
            details.document(name).boolean("valid", valid);
        }
    }
    let is_compliant = !report.refuses_invalid;
    reply
        .boolean("valid", valid && is_compliant)
        .boolean("repaired", false);
    let not_compliant = "Detected one or more documents not compliant with the collection's schema";
    let not_repaired = "Repairs are not implemented: drop the index and create it again";
    let unbuilt = report.unbuilt.iter();
    let unbuilt: Vec<String> = unbuilt
        .map(|name| format!("The index '{name}' is listed but not built"))
        .collect();
    let warnings = [
        (report.invalid_documents > 0 && is_compliant).then_some(not_compliant),
        (!valid && is_on(&arguments, "repair")).then_some(not_repaired),
    ];
    let warnings = warnings.into_iter().flatten();
    let warnings = warnings.chain(unbuilt.iter().map(String::as_str));
    write_texts(reply, "warnings", warnings);
    let errors = report.errors.iter().map(String::as_str);
    let refused = (!is_compliant).then_some(not_compliant);
    write_texts(reply, "errors", errors.chain(refused));
    write_empty(
        reply,
        &["extraIndexEntries", "missingIndexEntries", "corruptRecords"],
    );
    Ok(())
}

/// Whether an option is on: MongoDB takes any value but false, 0 and null for yes here.
fn is_on(arguments: &Arguments<'_>, name: &str) -> bool {
    arguments
        .get(name)
        .is_some_and(|value| truth(value).unwrap_or(true))
}

fn check_combination(arguments: &Arguments<'_>) -> Result<()> {
    let on = |name: &str| is_on(arguments, name);
    let refused = |message: String| Err(Error::new(Code::InvalidOptions, message));
    if let Some((one, other)) = EXCLUSIVE.iter().find(|(one, other)| on(one) && on(other)) {
        return refused(format!(
            "Running the validate command with both {{ {one}: true }} and {{ {other}: true }} is \
             not supported."
        ));
    }
    let others = ["full", "background", "enforceFastCount", "repair"];
    if on("metadata") && others.into_iter().any(on) {
        return refused(
            "Running the validate command with { metadata: true } is not supported with any other \
             options"
                .to_owned(),
        );
    }
    Ok(())
}

/// The definitions alone: those that cannot be read stop the start, so all that are here are valid.
fn write_metadata(
    context: &Context<'_>,
    namespace: &Namespace,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    if !context.exists(namespace) {
        return Err(missing(namespace));
    }
    reply.string("ns", &namespace.to_string());
    reply.boolean("valid", true).boolean("repaired", false);
    write_empty(
        reply,
        &[
            "warnings",
            "errors",
            "extraIndexEntries",
            "missingIndexEntries",
            "corruptRecords",
        ],
    );
    Ok(())
}

fn missing(namespace: &Namespace) -> Error {
    Error::new(
        Code::NamespaceNotFound,
        format!("Collection '{namespace}' does not exist to validate."),
    )
}

fn write_empty(reply: &mut DocumentWriter<'_>, fields: &[&str]) {
    for empty in fields {
        drop(reply.array(empty));
    }
}

fn write_texts<'t>(
    reply: &mut DocumentWriter<'_>,
    field: &str,
    texts: impl Iterator<Item = &'t str>,
) {
    let mut list = reply.array(field);
    for text in texts {
        list.push(RawBsonRef::String(text));
    }
}
