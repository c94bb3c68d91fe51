//! Users and roles as they lie in `admin.system.users` and `admin.system.roles`, in MongoDB's shape.
//!
//! In: names. Out: documents, and what they come to: a role's or a user's privileges with all that they inherit.
//! Documents are written one at a time, under one lock, since each change reads what it changes.

use super::builtin;
use super::names::{RoleName, UserName};
use super::privilege::{Privilege, Privileges};
use super::scram::{Keys, Mechanism};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, cstr, rawdoc};
use meridian_engine::{
    DeleteStatement, Engine, Error, FindRequest, InsertOptions, Namespace, Result, UpdateStatement,
};
use std::collections::HashSet;

/// Where a kind of document lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Users.
    Users,
    /// Roles.
    Roles,
}

impl Kind {
    /// The collection.
    pub fn namespace(self) -> Namespace {
        let name = match self {
            Self::Users => "system.users",
            Self::Roles => "system.roles",
        };
        Namespace::new("admin", name).expect("both names are collections'")
    }

    fn index(self) -> RawDocumentBuf {
        match self {
            Self::Users => {
                rawdoc! { "key": { "user": 1, "db": 1 }, "name": "user_1_db_1", "unique": true }
            }
            Self::Roles => {
                rawdoc! { "key": { "role": 1, "db": 1 }, "name": "role_1_db_1", "unique": true }
            }
        }
    }
}

/// All documents of a kind that match.
pub fn find(engine: &Engine, kind: Kind, filter: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
    let sort = rawdoc! { "_id": 1 };
    let request = FindRequest {
        sort: Some(&sort),
        ..FindRequest::new(filter)
    };
    let mut query = engine.find(&kind.namespace(), &request)?;
    let mut found = Vec::new();
    while let Some(document) = query.next_document()? {
        found.push(document.to_owned());
    }
    Ok(found)
}

/// Whether there is any document of a kind.
pub fn has_any(engine: &Engine, kind: Kind) -> Result<bool> {
    let filter = rawdoc! {};
    let request = FindRequest {
        limit: Some(1),
        ..FindRequest::new(&filter)
    };
    let mut query = engine.find(&kind.namespace(), &request)?;
    Ok(query.next_document()?.is_some())
}

/// The document with this `_id`.
pub fn find_one(engine: &Engine, kind: Kind, id: &str) -> Result<Option<RawDocumentBuf>> {
    let filter = rawdoc! { "_id": id };
    let mut query = engine.find(&kind.namespace(), &FindRequest::new(&filter))?;
    Ok(query.next_document()?.map(ToOwned::to_owned))
}

/// Adds a document; false when there is one with its `_id`.
pub fn insert(engine: &Engine, kind: Kind, document: &RawDocument) -> Result<bool> {
    // As MongoDB has them; nothing is done where they are there.
    engine.create_indexes(&kind.namespace(), &[&kind.index()], &mut |_| ())?;
    insert_versions(engine)?;
    let outcome = engine.insert(&kind.namespace(), &[document], &InsertOptions::default())?;
    match outcome.errors.into_iter().next() {
        None => Ok(true),
        Some(refused) if refused.error.code == meridian_engine::Code::DuplicateKey => Ok(false),
        Some(refused) => Err(refused.error),
    }
}

/// What tools ask a dump and a server for, whether its users are of their kind.
fn insert_versions(engine: &Engine) -> Result<()> {
    let namespace = Namespace::new("admin", "system.version").expect("the name of a collection");
    for document in [
        rawdoc! { "_id": "featureCompatibilityVersion", "version": "6.0" },
        rawdoc! { "_id": "authSchema", "currentVersion": 5 },
    ] {
        let filter = rawdoc! { "_id": document.get_str("_id").map_err(corrupt)? };
        let mut found = engine.find(&namespace, &FindRequest::new(&filter))?;
        if found.next_document()?.is_none() {
            engine.insert(&namespace, &[&document], &InsertOptions::default())?;
        }
    }
    Ok(())
}

/// Puts a document in the place of the one with its `_id`.
pub fn replace(engine: &Engine, kind: Kind, document: &RawDocument) -> Result<()> {
    let id = document.get_str("_id").map_err(corrupt)?;
    let filter = rawdoc! { "_id": id };
    let statement = UpdateStatement {
        multi: false,
        ..UpdateStatement::new(&filter, document)
    };
    engine.update(&kind.namespace(), &statement).map(|_| ())
}

/// Removes what matches; returns how many documents.
pub fn remove(engine: &Engine, kind: Kind, filter: &RawDocument) -> Result<i32> {
    let removed = engine.delete(&kind.namespace(), &DeleteStatement::new(filter))?;
    Ok(i32::try_from(removed).unwrap_or(i32::MAX))
}

fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::new(
        meridian_engine::Code::UnsupportedFormat,
        format!("a document of users or roles is not as it should be: {error}"),
    )
}

/// The beginning of a user's document: who it is, and what is kept of its password.
pub fn new_user(name: &UserName, credentials: &RawDocument) -> RawDocumentBuf {
    let id = bson::Uuid::new().bytes();
    let id = RawBinaryRef {
        subtype: BinarySubtype::Uuid,
        bytes: &id,
    };
    let mut document = rawdoc! { "_id": name.id() };
    document.append(cstr!("userId"), id);
    document.append(cstr!("user"), name.user.as_str());
    document.append(cstr!("db"), name.database.as_str());
    document.append(cstr!("credentials"), credentials.to_owned());
    document
}

/// The names of the roles that a document of a user or a role grants.
pub fn granted(document: &RawDocument) -> Vec<RoleName> {
    let Ok(Some(RawBsonRef::Array(roles))) = document.get("roles") else {
        return Vec::new();
    };
    let roles = roles.into_iter().flatten();
    roles
        .filter_map(|role| RoleName::parse(role, "").ok())
        .collect()
}

/// The privileges that a document of a role has itself.
pub fn own_privileges(document: &RawDocument) -> Privileges {
    let mut privileges = Privileges::default();
    if let Ok(Some(RawBsonRef::Array(own))) = document.get("privileges") {
        let parsed = own.into_iter().flatten().filter_map(|one| match one {
            // What a later version or a hand wrote there allows nothing.
            RawBsonRef::Document(one) => Privilege::parse(one).ok(),
            _ => None,
        });
        parsed.for_each(|privilege| privileges.add(privilege));
    }
    privileges
}

/// What roles come to.
#[derive(Debug, Default, Clone)]
pub struct Resolved {
    /// They and all that they inherit, each once, in the order in which they were come to.
    pub roles: Vec<RoleName>,
    /// All of their privileges.
    pub privileges: Privileges,
    /// Where their owners may log in from and to, as the documents have it.
    pub restrictions: Vec<RawDocumentBuf>,
}

/// A role: built in, or a document.
pub enum Role {
    /// Built in.
    Builtin(&'static builtin::BuiltinRole),
    /// A document.
    Stored(RawDocumentBuf),
}

/// The role of this name.
pub fn role(engine: &Engine, name: &RoleName) -> Result<Option<Role>> {
    if let Some(found) = builtin::find(&name.role, &name.database) {
        return Ok(Some(Role::Builtin(found)));
    }
    Ok(find_one(engine, Kind::Roles, &name.id())?.map(Role::Stored))
}

/// Follows roles to all that they inherit. Roles that there are not are left out.
pub fn resolve(engine: &Engine, roles: &[RoleName]) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    let mut seen = HashSet::new();
    let mut waiting: Vec<RoleName> = roles.iter().rev().cloned().collect();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match role(engine, &name)? {
            None => continue,
            Some(Role::Builtin(found)) => {
                let own = found.privileges(&name.database).into_iter();
                own.for_each(|privilege| resolved.privileges.add(privilege));
            }
            Some(Role::Stored(document)) => {
                resolved.privileges.extend(&own_privileges(&document));
                resolved.restrictions.extend(restrictions(&document));
                waiting.extend(granted(&document).into_iter().rev());
            }
        }
        resolved.roles.push(name);
    }
    Ok(resolved)
}

/// The elements of `authenticationRestrictions`.
pub fn restrictions(document: &RawDocument) -> Vec<RawDocumentBuf> {
    let Ok(Some(RawBsonRef::Array(all))) = document.get("authenticationRestrictions") else {
        return Vec::new();
    };
    let all = all.into_iter().flatten();
    all.filter_map(|one| one.as_document().map(ToOwned::to_owned))
        .collect()
}

/// The keys that a user's document has for a mechanism.
pub fn keys(document: &RawDocument, mechanism: Mechanism) -> Option<Keys> {
    let credentials = document.get_document("credentials").ok()?;
    Keys::from_document(credentials.get_document(mechanism.name()).ok()?)
}

/// Whether a user's document leaves it to a certificate who it is.
pub fn is_external(document: &RawDocument) -> bool {
    let credentials = document.get_document("credentials");
    credentials.is_ok_and(|own| own.get_bool("external").unwrap_or(false))
}

/// The names of the mechanisms that a user's document has.
pub fn mechanisms(document: &RawDocument) -> Vec<String> {
    let Ok(credentials) = document.get_document("credentials") else {
        return Vec::new();
    };
    let mut names: Vec<String> = credentials
        .iter()
        .flatten()
        .map(|(name, _)| name.as_str().to_owned())
        .collect();
    names.sort();
    names
}
