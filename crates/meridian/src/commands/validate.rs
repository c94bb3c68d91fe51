//! `validate`: verifies a collection's documents against its indexes.

use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

const KNOWN: &[&str] = &[
    "full",
    "background",
    "metadata",
    "repair",
    "enforceFastCount",
    "checkBSONConformance",
    "checkBSONConsistency",
];

/// Verifies, and answers with what was found. `full` and the like are always on.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("validate", KNOWN)?;
    arguments.refuse_flags(&["background", "metadata", "repair"])?;
    for included in [
        "full",
        "enforceFastCount",
        "checkBSONConformance",
        "checkBSONConsistency",
    ] {
        arguments.flag(included)?;
    }
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let report = context
        .engine()
        .validate(&namespace)
        .map_err(|error| match error.code {
            Code::NamespaceNotFound => Error::new(
                Code::NamespaceNotFound,
                format!("Collection '{namespace}' does not exist to validate."),
            ),
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
        for index in &report.indexes {
            details.document(&index.name).boolean("valid", valid);
        }
    }
    reply.boolean("valid", valid).boolean("repaired", false);
    let not_compliant = "Detected one or more documents not compliant with the collection's schema";
    let warnings = if report.invalid_documents > 0 {
        &[not_compliant][..]
    } else {
        &[]
    };
    write_texts(reply, "warnings", warnings.iter().copied());
    write_texts(reply, "errors", report.errors.iter().map(String::as_str));
    for empty in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        drop(reply.array(empty));
    }
    Ok(())
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
