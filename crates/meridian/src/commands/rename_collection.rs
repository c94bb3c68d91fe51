//! `renameCollection`: gives a collection another name, in the same or another database.

use super::arguments::type_name;
use super::context::Context;
use meridian_engine::{Code, Error, Namespace, Result};
use meridian_wire::DocumentWriter;

/// Renames it.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["to", "dropTarget", "stayTemp", "collectionUUID"];
    let arguments = context.arguments("renameCollection", &known)?;
    arguments.refuse_flags(&["stayTemp"])?;
    arguments.refuse_fields(&["collectionUUID"])?;
    let Some(from) = context.value().as_str() else {
        let found = type_name(context.value());
        return Err(Error::bad_value(format!(
            "collection name has invalid type {found}"
        )));
    };
    let to = arguments
        .string("to")?
        .ok_or_else(|| arguments.missing("to"))?;
    let drop_target = arguments.boolean_or("dropTarget", false)?;
    let (from, to) = (parse("source", from)?, parse("target", to)?);
    if from.is_oplog() != to.is_oplog() {
        let message = "If either the source or target of a rename is an oplog name, both must be";
        return Err(Error::new(Code::IllegalOperation, message));
    }
    for (which, namespace) in [("source", &from), ("target", &to)] {
        namespace
            .check_writable()
            .map_err(|error| refused(which, &error))?;
    }
    if from.database == "admin" && from.collection == "system.version" {
        let message =
            format!("renaming the server configuration collection ({from}) is not allowed");
        return Err(Error::new(Code::IllegalOperation, message));
    }
    if drop_target && context.exists(&to) {
        to.check_droppable()?;
    }
    context
        .engine()
        .rename_collection(&from, &to, drop_target)?;
    for renamed in [&from, &to] {
        context.service.usage.forget(renamed);
    }
    Ok(())
}

fn parse(which: &str, full_name: &str) -> Result<Namespace> {
    let Some((database, collection)) = full_name.split_once('.') else {
        let message = format!("Invalid {which} namespace: {full_name}");
        return Err(Error::new(Code::InvalidNamespace, message));
    };
    Namespace::new(database, collection).map_err(|error| match collection.contains('$') {
        true => refused(which, &error),
        false => error,
    })
}

/// A name that only the server may write to.
fn refused(which: &str, error: &Error) -> Error {
    let message = format!("error with {which} namespace: {}", error.message);
    Error::new(Code::IllegalOperation, message)
}
