//! `create`: makes a collection with its options.

use super::arguments::{array_values, elements, integer, truth, wrong_type};
use super::context::Context;
use super::generic::is_generic;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::{Code, CollectionOptions, Error, Namespace, Result};
use meridian_value::Collation;
use meridian_wire::DocumentWriter;

/// Creates it. Which options exist is the engine's to know, since it keeps them.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = context.namespace()?;
    namespace.check_creatable()?;
    let view = ViewOptions::parse(context)?;
    check_timeseries(context, &namespace)?;
    let (mut bytes, mut id_index) = (Vec::new(), None);
    let mut own = DocumentWriter::new(&mut bytes);
    for (name, value) in elements(context.body)
        .skip(1)
        .filter(|(name, _)| !is_generic(name))
    {
        match name {
            "idIndex" => id_index = Some(check_id_index(value)?),
            "viewOn" | "pipeline" => {}
            _ => {
                own.value(name, value);
            }
        }
    }
    drop(own);
    let options = RawDocumentBuf::from_bytes(bytes).expect("just written");
    let options = CollectionOptions::parse(&options)?;
    check_id_collation(id_index, &options.collation)?;
    check_auto_index_id(context, &namespace, reply)?;
    if let Some(view) = view {
        return view.create(context, &namespace);
    }
    if options.validator.is_some() {
        namespace.check_validatable()?;
    }
    context.engine().create_collection(&namespace, options)
}

/// Every collection has an index on `_id`; that it is asked for is listed.
fn check_auto_index_id(
    context: &Context<'_>,
    namespace: &Namespace,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let said = elements(context.body).find(|(name, _)| *name == "autoIndexId");
    match said.and_then(|(_, value)| truth(value)) {
        None => {}
        Some(true) => {
            let note =
                "The autoIndexId option is deprecated and will be removed in a future release";
            reply.string("note", note);
        }
        Some(false) => {
            let message = format!(
                "autoIndexId:false is not allowed for collection {namespace} because it can be replicated"
            );
            return Err(Error::location(50001, message));
        }
    }
    Ok(())
}

/// What a time series may not have besides, in the order in which MongoDB looks.
const NOT_OF_TIMESERIES: [&str; 9] = [
    "capped",
    "autoIndexId",
    "idIndex",
    "validator",
    "validationLevel",
    "validationAction",
    "viewOn",
    "recordPreImages",
    "changeStreamPreAndPostImages",
];

fn check_timeseries(context: &Context<'_>, namespace: &Namespace) -> Result<()> {
    // Drivers send `capped: false`.
    let is_given = |name: &str, value| name != "capped" || truth(value).unwrap_or(false);
    let has = |wanted: &str| {
        let is_null = |value| value == RawBsonRef::Null;
        elements(context.body)
            .any(|(name, value)| name == wanted && !is_null(value) && is_given(name, value))
    };
    if !has("timeseries") {
        return Ok(());
    }
    if has("encryptedFields") {
        let message = "Encrypted fields cannot be used with views or timeseries collections";
        return Err(Error::location(6_346_401, message));
    }
    let mut unsupported = NOT_OF_TIMESERIES.into_iter();
    let refused = unsupported.find(|name| has(name));
    let refused = refused.or_else(|| has("clusteredIndex").then_some("clusteredIndex"));
    match refused {
        Some(name) => Err(Error::new(
            Code::InvalidOptions,
            format!("{namespace}: 'timeseries' is not allowed with '{name}'"),
        )),
        None => Ok(()),
    }
}

/// Restore tools name the index that every collection has; any other is refused.
fn check_id_index(value: RawBsonRef<'_>) -> Result<&RawDocument> {
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
        true => Ok(index),
        false => Err(Error::bad_value(
            "The field 'key' for an _id index must be {_id: 1}",
        )),
    }
}

/// The index compares as the collection does, if it says how.
fn check_id_collation(index: Option<&RawDocument>, collation: &Collation) -> Result<()> {
    let said = index.and_then(|index| index.get_document("collation").ok());
    let own = said.map(|written| meridian_engine::collation::parse("collation", written));
    match own.transpose()? {
        Some(own) if own != *collation => Err(Error::bad_value(
            "'idIndex' must have the same collation as the collection.",
        )),
        _ => Ok(()),
    }
}

/// The fields of a `create` that makes a view.
struct ViewOptions<'a> {
    view_on: &'a str,
    collation: Collation,
    pipeline: Vec<RawDocumentBuf>,
}

impl<'a> ViewOptions<'a> {
    /// Reads them; `None` where a collection is to be made.
    fn parse(context: &Context<'a>) -> Result<Option<Self>> {
        let get = |name: &str| {
            let found = elements(context.body).find(|(own, _)| *own == name);
            found.map(|(_, value)| value)
        };
        let pipeline = match get("pipeline") {
            Some(value) => Some(view_pipeline("create", value)?),
            None => None,
        };
        let invalid = |message: String| Err(Error::new(Code::InvalidOptions, message));
        let view_on = match (get("viewOn"), &pipeline) {
            (None | Some(RawBsonRef::Null), None) => return Ok(None),
            (None | Some(RawBsonRef::Null), Some(_)) => {
                return invalid("'pipeline' requires 'viewOn' to also be specified".to_owned());
            }
            (Some(RawBsonRef::String(view_on)), _) => view_on,
            (Some(other), _) => return Err(wrong_type("create.viewOn", other, &["string"])),
        };
        if get("idIndex").is_some() {
            let index = get("idIndex").and_then(|index| index.as_document());
            let index = index.map(meridian_engine::text::document_text);
            let index = index.unwrap_or_default();
            return invalid(format!("'idIndex' is not allowed with 'viewOn': {index}"));
        }
        if get("timeseries").is_some() {
            let namespace = context.namespace()?;
            return invalid(format!(
                "{namespace}: 'timeseries' is not allowed with 'viewOn'"
            ));
        }
        if get("clusteredIndex").is_some() {
            let message = "The 'clusteredIndex' option is not supported with views";
            return Err(Error::location(6_026_500, message));
        }
        let collation = match get("collation") {
            Some(RawBsonRef::Document(written)) => {
                meridian_engine::collation::parse("create.collation", written)?
            }
            Some(RawBsonRef::Null) | None => Collation::SIMPLE,
            Some(other) => return Err(wrong_type("create.collation", other, &["object"])),
        };
        Ok(Some(Self {
            collation,
            view_on,
            pipeline: pipeline.unwrap_or_default(),
        }))
    }

    fn create(self, context: &Context<'_>, namespace: &Namespace) -> Result<()> {
        if namespace.collection == "system.views" {
            let message =
                "Cannot create a view called 'system.views': this is a reserved system namespace";
            return Err(Error::new(Code::InvalidNamespace, message));
        }
        if namespace.collection.starts_with("system.") {
            let message =
                "View name cannot start with 'system.', which is reserved for system namespaces";
            return Err(Error::new(Code::InvalidNamespace, message));
        }
        let engine = context.engine();
        engine.create_view(namespace, self.view_on, self.pipeline, self.collation)
    }
}

/// The stages of a view, in this field of a command.
pub fn view_pipeline(command: &str, value: RawBsonRef<'_>) -> Result<Vec<RawDocumentBuf>> {
    let stages = match value {
        RawBsonRef::Array(stages) => stages,
        RawBsonRef::Null => {
            let message = "invalid parameter: expected an object (pipeline)";
            return Err(Error::location(10065, message));
        }
        other => {
            return Err(wrong_type(
                &format!("{command}.pipeline"),
                other,
                &["array"],
            ));
        }
    };
    let stage = |(place, stage): (usize, RawBsonRef<'_>)| match stage.as_document() {
        Some(stage) => Ok(stage.to_owned()),
        None => {
            let path = format!("{command}.pipeline.{place}");
            Err(wrong_type(&path, stage, &["object"]))
        }
    };
    array_values(stages).enumerate().map(stage).collect()
}
