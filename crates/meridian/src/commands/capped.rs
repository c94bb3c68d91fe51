//! `convertToCapped` and `cloneCollectionAsCapped`: capped collections from the newest documents of others.

use super::arguments::Arguments;
use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{Capped, Code, Error, Namespace, Result, whole};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;

/// The largest `size`.
const SIZE_MAX: i64 = 1 << 50;

/// Makes a collection capped.
pub fn convert(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.known_arguments("convertToCapped", &["size"])?;
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let size = size(&arguments)?;
    if namespace.is_system() && context.exists(&namespace) {
        // (mongod's words, without the name that the copy has meanwhile.)
        return Err(Error::bad_value(format!("Invalid namespace: {namespace}")));
    }
    context.engine().convert_to_capped(&namespace, size)?;
    context.service.usage.forget(&namespace);
    Ok(())
}

/// Copies a collection to a new one, which is capped.
pub fn clone(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["toCollection", "size", "temp"];
    let arguments = context.known_arguments("cloneCollectionAsCapped", &known)?;
    let name = |name: &str, value: Option<RawBsonRef<'_>>| match value {
        Some(RawBsonRef::String(text)) => Ok(text.to_owned()),
        _ => Err(Error::type_mismatch(format!(
            "'{name}' must be of type String"
        ))),
    };
    let from = name("cloneCollectionAsCapped", Some(context.value()))?;
    let to = name("toCollection", arguments.get("toCollection"))?;
    let invalid = |what: &str, name: &str| {
        let message = format!("Invalid {what} collection name: {name}");
        Error::new(Code::InvalidNamespace, message)
    };
    let database = context.generic.database;
    let from = Namespace::new(database, &from).map_err(|_| invalid("source", &from))?;
    let to = match to.contains('$') {
        true => return Err(invalid("target", &to)),
        false => Namespace::new(database, &to).map_err(|_| invalid("target", &to))?,
    };
    let size = size(&arguments)?;
    arguments.refuse_flags(&["temp"])?;
    if !context.engine().has_collection(&to) {
        to.check_creatable()?;
    }
    context.engine().clone_as_capped(&from, &to, size)
}

/// The `size`, which both must say.
fn size(arguments: &Arguments<'_>) -> Result<Capped> {
    let size = arguments.get("size").and_then(Number::from_raw);
    match size.map_or(0, whole) {
        ..0 => Err(Error::bad_value("size has to be >= 0")),
        0 => Err(Error::without_code("invalid command spec")),
        1..=SIZE_MAX => Ok(Capped::holding(size.map_or(0, whole))),
        _ => Err(Error::bad_value("size cannot exceed 1 PB")),
    }
}
