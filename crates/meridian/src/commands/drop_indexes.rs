//! `dropIndexes`: removes indexes by name, by key, or all but the one on `_id`.

use super::arguments::{array_values, wrong_type};
use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{DropIndexes, Error, Result};
use meridian_wire::DocumentWriter;

const EXPECTED: &[&str] = &["string", "object"];

/// Drops them, and answers with how many there were.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("dropIndexes", &["index", "collectionUUID"])?;
    arguments.refuse_fields(&["collectionUUID"])?;
    let which = arguments
        .get_even_null("index")
        .ok_or_else(|| arguments.missing("index"))?;
    let which = parse(which)?;
    let namespace = context.namespace()?;
    if namespace.collection == "system.views" {
        let message = "Modifications to system.views must take an exclusive lock";
        return Err(Error::location(51070, message));
    }
    let all = matches!(which, DropIndexes::All);
    let count = context.engine().drop_indexes(&namespace, &which)?;
    reply.int32("nIndexesWas", count);
    if all {
        reply.string("msg", "non-_id indexes dropped for collection");
    }
    Ok(())
}

fn parse(which: RawBsonRef<'_>) -> Result<DropIndexes> {
    match which {
        RawBsonRef::String("*") => Ok(DropIndexes::All),
        RawBsonRef::String(name) => Ok(DropIndexes::Names(vec![name.to_owned()])),
        RawBsonRef::Document(key) => Ok(DropIndexes::Key(key.to_owned())),
        RawBsonRef::Array(names) => {
            // By its first element mongod knows an array of names.
            let wrong = |at: usize, value: RawBsonRef<'_>| match at {
                0 => Error::type_mismatch(
                    "BSON field 'dropIndexes.index' is the wrong type 'array', expected types '[string']",
                ),
                _ => wrong_type(&format!("dropIndexes.index.{at}"), value, &["string"]),
            };
            let name = |(at, value): (usize, RawBsonRef<'_>)| {
                let name = value.as_str().map(str::to_owned);
                name.ok_or_else(|| wrong(at, value))
            };
            let names = array_values(names).enumerate().map(name);
            let names = names.collect::<Result<Vec<_>>>()?;
            Ok(match names.as_slice() {
                [only] if only == "*" => DropIndexes::All,
                _ => DropIndexes::Names(names),
            })
        }
        other => Err(wrong_type("dropIndexes.index", other, EXPECTED)),
    }
}
