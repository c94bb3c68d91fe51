//! `planCacheClear` and the index filters: `planCacheSetFilter`, `planCacheListFilters`, `planCacheClearFilters`.
//!
//! Plans are not cached: what is cleared is the record of shapes that `$planCacheStats` shows. Filters are honoured by the
//! planner.

use super::arguments::field;
use super::context::Context;
use bson::RawDocumentBuf;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Result, ShapedStatement, collation};
use meridian_wire::DocumentWriter;

/// Forgets shapes.
pub fn clear(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let statement = optional_statement(context.body)?;
    let engine = context.engine();
    engine.clear_plan_cache(&namespace, statement.as_ref())
}

/// Which filters there are.
pub fn list_filters(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let listed = context.engine().index_filters(&namespace)?;
    let mut filters = reply.array("filters");
    for filter in &listed {
        filters.push_document(filter);
    }
    Ok(())
}

/// Ends filters.
pub fn clear_filters(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    let statement = optional_statement(context.body)?;
    let engine = context.engine();
    engine.clear_index_filters(&namespace, statement.as_ref())
}

/// Sets a filter.
pub fn set_filter(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    // A view is refused as such.
    context.engine().index_filters(&namespace)?;
    if !context.exists(&namespace) {
        return Err(Error::bad_value("no such collection"));
    }
    let (keys, names) = indexes(context.body)?;
    let statement = statement(context.body)?;
    let engine = context.engine();
    engine.set_index_filter(&namespace, &statement, keys, names)
}

/// The statement whose shape is meant; none where all are.
fn optional_statement(body: &RawDocument) -> Result<Option<ShapedStatement<'_>>> {
    if field(body, "query").is_some() {
        return statement(body).map(Some);
    }
    let others = ["sort", "projection", "collation"];
    match others.iter().any(|name| field(body, name).is_some()) {
        true => Err(Error::bad_value(
            "sort, projection, or collation provided without query",
        )),
        false => Ok(None),
    }
}

fn statement(body: &RawDocument) -> Result<ShapedStatement<'_>> {
    let query = match field(body, "query") {
        Some(RawBsonRef::Document(query)) => query,
        Some(_) => return Err(Error::bad_value("required field query must be an object")),
        None => return Err(Error::bad_value("required field query missing")),
    };
    let optional = |name: &str| match field(body, name) {
        None => Ok(None),
        Some(RawBsonRef::Document(document)) => Ok(Some(document)),
        Some(_) => Err(Error::bad_value(format!(
            "optional field {name} must be an object"
        ))),
    };
    let (sort, projection) = (optional("sort")?, optional("projection")?);
    let written = optional("collation")?;
    if written.is_some_and(RawDocument::is_empty) {
        return Err(Error::bad_value(
            "optional field collation cannot be an empty object",
        ));
    }
    let collation = written.map(|written| collation::parse("collation", written));
    Ok(ShapedStatement {
        query,
        sort,
        projection,
        collation: collation.transpose()?,
    })
}

/// The indexes of a filter: key patterns and names, each in their order and once.
fn indexes(body: &RawDocument) -> Result<(Vec<RawDocumentBuf>, Vec<String>)> {
    let array = match field(body, "indexes") {
        Some(RawBsonRef::Array(array)) => array,
        Some(_) => return Err(Error::bad_value("required field indexes must be an array")),
        None => return Err(Error::bad_value("required field indexes missing")),
    };
    let (mut keys, mut names) = (Vec::<RawDocumentBuf>::new(), Vec::new());
    for item in array.into_iter().flatten() {
        match item {
            RawBsonRef::Document(key) if key.is_empty() => {
                return Err(Error::bad_value("index specification cannot be empty"));
            }
            RawBsonRef::Document(key) => keys.push(key.to_owned()),
            RawBsonRef::String(name) => names.push(name.to_owned()),
            _ => {
                return Err(Error::bad_value(
                    "each item in indexes must be an object or string",
                ));
            }
        }
    }
    if keys.is_empty() && names.is_empty() {
        return Err(Error::bad_value(
            "required field indexes must contain at least one index",
        ));
    }
    keys.sort_by(|one, other| meridian_value::compare_documents(one, other));
    keys.dedup();
    names.sort();
    names.dedup();
    Ok((keys, names))
}
