//! `_mergeAuthzCollections`: takes users and roles over from collections that `mongorestore` has filled.

use super::arguments::Arguments;
use super::context::Context;
use super::privileges::Request;
use crate::access::store::{self, Kind};
use crate::access::{ActionSet, Resource};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_engine::{Code, Engine, Error, FindRequest, Namespace, Result};
use meridian_wire::DocumentWriter;
use std::collections::HashSet;

const FIELDS: &[&str] = &["tempUsersCollection", "tempRolesCollection", "db", "drop"];

/// What is to be taken over.
struct Merge<'a> {
    users: &'a str,
    roles: &'a str,
    /// Of this database alone, unless it is empty.
    database: &'a str,
    /// Whether those that are not among the new ones go.
    drops: bool,
}

impl<'a> Merge<'a> {
    fn parse(arguments: &Arguments<'a>) -> Result<Self> {
        Ok(Self {
            users: arguments.string("tempUsersCollection")?.unwrap_or_default(),
            roles: arguments.string("tempRolesCollection")?.unwrap_or_default(),
            database: arguments
                .string("db")?
                .ok_or_else(|| arguments.missing("db"))?,
            drops: arguments.boolean_or("drop", false)?,
        })
    }
}

/// Takes them over.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("_mergeAuthzCollections", FIELDS)?;
    let merge = Merge::parse(&arguments)?;
    if merge.users.is_empty() && merge.roles.is_empty() {
        return Err(Error::bad_value(
            "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\"",
        ));
    }
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    let mut both = [(Kind::Users, merge.users), (Kind::Roles, merge.roles)].into_iter();
    let taken = both.try_for_each(|(kind, from)| match from {
        "" => Ok(()),
        from => take_over(engine, kind, from, &merge),
    });
    // Whatever became of it: some may have changed.
    access.changed();
    taken
}

fn take_over(engine: &Engine, kind: Kind, from: &str, merge: &Merge<'_>) -> Result<()> {
    let (database, collection) = from.split_once('.').ok_or_else(|| {
        Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{from}'"),
        )
    })?;
    let filter = match merge.database {
        "" => rawdoc! {},
        database => rawdoc! { "db": database },
    };
    let mut leaving: HashSet<String> = match merge.drops {
        true => ids(store::find(engine, kind, &filter)?).collect(),
        false => HashSet::new(),
    };
    let namespace = Namespace::new(database, collection)?;
    let mut found = engine.find(&namespace, &FindRequest::new(&filter))?;
    while let Some(document) = found.next_document()? {
        check(kind, document)?;
        let id = document.get_str("_id").unwrap_or_default();
        if leaving.remove(id) {
            store::replace(engine, kind, document)?;
        } else if !store::insert(engine, kind, document)? {
            tracing::warn!(id, "not taken over: it is there already");
        }
    }
    for id in leaving {
        store::remove(engine, kind, &rawdoc! { "_id": id })?;
    }
    Ok(())
}

fn ids(documents: Vec<RawDocumentBuf>) -> impl Iterator<Item = String> {
    documents
        .into_iter()
        .filter_map(|document| document.get_str("_id").ok().map(str::to_owned))
}

/// Refuses what is no user or no role.
fn check(kind: Kind, document: &RawDocument) -> Result<()> {
    let fields: &[&str] = match kind {
        Kind::Users => &["user", "db", "credentials", "roles"],
        Kind::Roles => &["role", "db", "privileges", "roles"],
    };
    let has = |name: &&str| matches!(document.get(*name), Ok(Some(_)));
    let names_itself = || {
        let name = document.get_str(fields[0]).ok()?;
        let expected = format!("{}.{name}", document.get_str("db").ok()?);
        Some(document.get_str("_id").ok()? == expected)
    };
    let has_credentials = kind == Kind::Roles || document.get_document("credentials").is_ok();
    let has_roles = document
        .get_array("roles")
        .is_ok_and(|roles| roles.into_iter().all(|role| role.is_ok_and(is_role)));
    let is_whole = fields.iter().all(has) && has_credentials && has_roles;
    match is_whole && names_itself() == Some(true) {
        true => Ok(()),
        false => Err(Error::location(
            10065,
            "invalid parameter: expected an object ()",
        )),
    }
}

fn is_role(value: RawBsonRef<'_>) -> bool {
    let RawBsonRef::Document(role) = value else {
        return false;
    };
    role.get_str("role").is_ok() && role.get_str("db").is_ok()
}

/// Whoever may make users and roles anywhere, and read those collections.
pub(super) fn is_allowed(request: &Request<'_>) -> bool {
    let mut needed = ActionSet::of(&["createUser", "createRole", "grantRole", "revokeRole"]);
    if request.flag("drop") {
        needed = needed.and(ActionSet::of(&["dropUser", "dropRole"]));
    }
    let anywhere = Resource::Collection(String::new(), String::new());
    let may_read = |field: &str| {
        let name = request.get(field).and_then(|value| value.as_str());
        let (database, collection) = name
            .and_then(|name| name.split_once('.'))
            .unwrap_or_default();
        database.is_empty()
            || request.may(
                &Resource::Collection(database.to_owned(), collection.to_owned()),
                "find",
            )
    };
    request.on(&anywhere, needed)
        && may_read("tempUsersCollection")
        && may_read("tempRolesCollection")
}
