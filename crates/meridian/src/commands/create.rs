//! `create`: makes a collection with its options.

use super::arguments::elements;
use super::context::Context;
use super::generic::is_generic;
use bson::RawDocumentBuf;
use meridian_engine::{CollectionOptions, Result};
use meridian_wire::DocumentWriter;

/// Creates it. Which options exist is the engine's to know, since it keeps them.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace()?;
    let mut bytes = Vec::new();
    let mut own = DocumentWriter::new(&mut bytes);
    for (name, value) in elements(context.body)
        .skip(1)
        .filter(|(name, _)| !is_generic(name))
    {
        own.value(name, value);
    }
    drop(own);
    let options = RawDocumentBuf::from_bytes(bytes).expect("just written");
    context
        .engine()
        .create_collection(&namespace, CollectionOptions::parse(&options)?)
}
