//! `create`: makes a collection with its options.

use super::arguments::{elements, integer, wrong_type};
use super::context::Context;
use super::generic::is_generic;
use bson::{RawBsonRef, RawDocumentBuf};
use meridian_engine::{Code, CollectionOptions, Error, Result};
use meridian_wire::DocumentWriter;

/// Creates it. Which options exist is the engine's to know, since it keeps them.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace()?;
    namespace.check_creatable()?;
    let mut bytes = Vec::new();
    let mut own = DocumentWriter::new(&mut bytes);
    for (name, value) in elements(context.body)
        .skip(1)
        .filter(|(name, _)| !is_generic(name))
    {
        match name {
            "idIndex" => check_id_index(value)?,
            _ => {
                own.value(name, value);
            }
        }
    }
    drop(own);
    let options = RawDocumentBuf::from_bytes(bytes).expect("just written");
    context
        .engine()
        .create_collection(&namespace, CollectionOptions::parse(&options)?)
}

/// Restore tools name the index that every collection has; any other is refused.
fn check_id_index(value: RawBsonRef<'_>) -> Result<()> {
    let Some(index) = value.as_document() else {
        return Err(wrong_type("create.idIndex", value, &["object"]));
    };
    if elements(index).any(|(name, _)| name == "storageEngine") {
        return Err(Error::new(
            Code::InvalidIndexSpecificationOption,
            "The field 'storageEngine' is not valid for an _id index specification; documents lie in the order \
             of _id, and are compressed as the storageEngine of the collection says",
        ));
    }
    let key = elements(index)
        .find(|(name, _)| *name == "key")
        .map(|(_, key)| key);
    let on_id = key.and_then(|key| key.as_document()).is_some_and(|key| {
        elements(key).all(|(name, order)| name == "_id" && integer(order) == Some(1))
    });
    match on_id {
        true => Ok(()),
        false => Err(Error::bad_value(
            "The field 'key' for an _id index must be {_id: 1}",
        )),
    }
}
