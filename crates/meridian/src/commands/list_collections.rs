//! `listCollections`: the collections of a database, as many as a filter lets through.

use super::context::Context;
use super::cursor_reply::write_list;
use super::find::list_options;
use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef, RawDocumentBuf};
use meridian_engine::query::Filter;
use meridian_engine::{CollectionInfo, CollectionKind, Namespace, Result};
use meridian_wire::DocumentWriter;

/// Lists them, in the first batch unless it is to be smaller.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["filter", "nameOnly", "authorizedCollections", "cursor"];
    let arguments = context.arguments("listCollections", &known)?;
    let only_own = arguments.boolean_or("authorizedCollections", false)?;
    let privileges = context.privileges()?.filter(|_| only_own);
    let options = list_options(&arguments, "listCollections.cursor")?;
    let name_only = arguments.boolean_or("nameOnly", false)?;
    let filter = arguments
        .document("filter")?
        .map(Filter::parse)
        .transpose()?;
    let database = context.generic.database;
    let mut rows = Vec::new();
    for info in context.engine().list_collections(database)? {
        let is_seen = privileges
            .as_ref()
            .is_none_or(|privileges| privileges.touch_collection(database, &info.name));
        if !is_seen {
            continue;
        }
        let detail = match name_only {
            true => Detail::NameOnly,
            false => Detail::Full,
        };
        // The filter sees what is returned.
        let row = describe(&info, detail);
        let is_listed = filter.as_ref().map(|filter| filter.matches(&row));
        if is_listed.transpose()?.unwrap_or(true) {
            rows.push(row);
        }
    }
    let namespace = Namespace {
        database: database.to_owned(),
        collection: "$cmd.listCollections".to_owned(),
    };
    write_list(context, rows, namespace, options, reply)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    NameOnly,
    Full,
}

fn describe(info: &CollectionInfo, detail: Detail) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    let mut row = DocumentWriter::new(&mut bytes);
    let kind = match info.kind {
        CollectionKind::Collection { .. } => "collection",
        CollectionKind::View => "view",
        CollectionKind::Timeseries => "timeseries",
    };
    row.string("name", &info.name).string("type", kind);
    if detail == Detail::Full {
        row.embed("options", &info.options);
        describe_kind(&info.kind, &mut row);
    }
    drop(row);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}

fn describe_kind(kind: &CollectionKind, row: &mut DocumentWriter<'_>) {
    match kind {
        CollectionKind::View => {
            row.document("info").boolean("readOnly", true);
        }
        CollectionKind::Timeseries => {
            row.document("info").boolean("readOnly", false);
        }
        CollectionKind::Collection { uuid, id_index } => {
            let uuid = RawBinaryRef {
                subtype: BinarySubtype::Uuid,
                bytes: uuid,
            };
            row.document("info")
                .boolean("readOnly", false)
                .value("uuid", RawBsonRef::Binary(uuid));
            if let Some(index) = id_index {
                row.embed("idIndex", index);
            }
        }
    }
}
