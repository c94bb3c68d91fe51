//! What commands need: each row of the table says so ([`Needs`]), and a command runs only for who has it.
//!
//! The rules are those of MongoDB 6.0.5, which a differential test asks with every built-in role.

use super::arguments::{array_values, elements, field};
use super::table::Command;
use super::{context::Context, table};
use crate::access::{ActionSet, Login, Privileges, Resource, RoleName, UserName};
use crate::service::{Service, without_secrets};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Result};
use meridian_wire::Sequence;

/// What a command needs.
#[derive(Clone, Copy)]
pub enum Needs {
    /// Nobody has said: it is refused to everybody.
    Unstated,
    /// Nothing, not even a login.
    Nothing,
    /// A login.
    Login,
    /// Actions on the server.
    Server(ActionSet),
    /// Actions on the database.
    Database(ActionSet),
    /// Actions on the collection that is the command's value.
    Collection(ActionSet),
    /// What a function says.
    Special(fn(&Request<'_>) -> bool),
}

/// A command that is about to run.
pub struct Request<'a> {
    /// The database.
    pub database: &'a str,
    /// Its document.
    pub body: &'a RawDocument,
    /// Documents that travel beside it.
    pub sequences: &'a [Sequence<'a>],
    /// What whoever asks may do.
    pub privileges: &'a Privileges,
    /// Who asks.
    pub user: Option<&'a UserName>,
    /// The roles that it has, inherited ones too.
    pub roles: &'a [RoleName],
    /// The server.
    pub service: &'a Service,
}

/// Whether a command may run for whoever asks.
///
/// # Errors
/// `Unauthorized`.
pub fn check(command: &Command, context: &mut Context<'_>) -> Result<()> {
    let service = context.service;
    let (access, engine) = (&service.access, &*service.engine);
    if !access.is_enabled || matches!(command.needs, Needs::Nothing) {
        return Ok(());
    }
    let user = context.client.login.user(access, engine)?.cloned();
    let first;
    let privileges = match &user {
        Some(user) => &user.privileges,
        None if context.client.login.is_local() && !access.has_users(engine)? => {
            first = Login::first_privileges();
            &first
        }
        None => {
            let message = format!("command {} requires authentication", command.name);
            return Err(Error::new(Code::Unauthorized, message));
        }
    };
    let request = Request {
        database: context.generic.database,
        body: context.body,
        sequences: context.sequences,
        privileges,
        user: user.as_ref().map(|user| &user.name),
        roles: user.as_ref().map_or(&[], |user| &user.roles),
        service,
    };
    match request.is_allowed(command) && (user.is_some() || !matches!(command.needs, Needs::Login))
    {
        true => Ok(()),
        false => Err(not_authorized(context.generic.database, context.body)),
    }
}

/// MongoDB's words, without secrets.
pub fn not_authorized(database: &str, body: &RawDocument) -> Error {
    let text = meridian_engine::text::document_text(&without_secrets(body));
    let message = format!("not authorized on {database} to execute command {text}");
    Error::new(Code::Unauthorized, message)
}

impl<'a> Request<'a> {
    fn is_allowed(&self, command: &Command) -> bool {
        match command.needs {
            Needs::Unstated => false,
            Needs::Nothing | Needs::Login => true,
            Needs::Server(actions) => self.on(&Resource::Cluster, actions),
            Needs::Database(actions) => self.on(&Resource::database(self.database), actions),
            Needs::Collection(actions) => self.on(&self.collection(), actions),
            Needs::Special(is_allowed) => is_allowed(self),
        }
    }

    /// Whether actions are allowed.
    pub fn on(&self, resource: &Resource, actions: ActionSet) -> bool {
        self.privileges.allow(resource, &actions)
    }

    /// Whether one action is.
    pub fn may(&self, resource: &Resource, action: &str) -> bool {
        let action = ActionSet::parse(action);
        action.is_some_and(|action| self.on(resource, action))
    }

    /// The collection that is the command's value; the database where it is none.
    pub fn collection(&self) -> Resource {
        let value = elements(self.body).next().map(|(_, value)| value);
        let name = value.and_then(|value| value.as_str()).unwrap_or_default();
        self.named(name)
    }

    fn named(&self, collection: &str) -> Resource {
        Resource::Collection(self.database.to_owned(), collection.to_owned())
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<RawBsonRef<'a>> {
        let found = elements(self.body).find(|(own, _)| *own == name);
        found.map(|(_, value)| value)
    }

    /// The stages of its pipeline.
    fn stages(&self) -> Vec<&'a RawDocument> {
        let stages = self.get("pipeline").and_then(|value| value.as_array());
        let stages = stages.into_iter().flat_map(array_values);
        stages.filter_map(|stage| stage.as_document()).collect()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_true)
    }

    /// The documents of a field, in the body or beside it.
    fn documents(&self, name: &str) -> Vec<&'a RawDocument> {
        let inline = self.get(name).and_then(|value| value.as_array());
        let inline = inline.into_iter().flat_map(array_values);
        let beside = self.sequences.iter().filter(|own| own.identifier == name);
        inline
            .filter_map(|value| value.as_document())
            .chain(beside.flat_map(Sequence::documents))
            .collect()
    }

    pub fn bypasses(&self, resource: &Resource) -> bool {
        !self.flag("bypassDocumentValidation") || self.may(resource, "bypassDocumentValidation")
    }
}

fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(flag) => flag,
        RawBsonRef::Int32(number) => number != 0,
        RawBsonRef::Int64(number) => number != 0,
        RawBsonRef::Double(number) => number != 0.0,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        _ => true,
    }
}

pub(super) fn insert(request: &Request<'_>) -> bool {
    let collection = request.collection();
    request.may(&collection, "insert") && request.bypasses(&collection)
}

pub(super) fn update(request: &Request<'_>) -> bool {
    let collection = request.collection();
    let updates = request.documents("updates");
    let upserts = |update: &&RawDocument| field(update, "upsert").is_some_and(is_true);
    request.may(&collection, "update")
        && (!updates.iter().any(upserts) || request.may(&collection, "insert"))
        && request.bypasses(&collection)
}

pub(super) fn find_and_modify(request: &Request<'_>) -> bool {
    let collection = request.collection();
    let change = match request.flag("remove") {
        true => request.may(&collection, "remove"),
        false => request.may(&collection, "update"),
    };
    request.may(&collection, "find")
        && change
        && (!request.flag("upsert") || request.may(&collection, "insert"))
        && request.bypasses(&collection)
}

pub(super) fn create(request: &Request<'_>) -> bool {
    let collection = request.collection();
    let may_create = request.may(&collection, "createCollection");
    let is_view = request.get("viewOn").is_some();
    match request.flag("capped") {
        _ if is_view => may_create && view(request),
        true => may_create && request.may(&collection, "convertToCapped"),
        false => may_create || request.may(&collection, "insert"),
    }
}

pub(super) fn clone_as_capped(request: &Request<'_>) -> bool {
    let to = request.get("toCollection");
    let to = request.named(to.and_then(|value| value.as_str()).unwrap_or_default());
    let mut needed = ["insert", "createIndex", "convertToCapped"].into_iter();
    request.may(&request.collection(), "find") && needed.all(|action| request.may(&to, action))
}

pub(super) fn coll_mod(request: &Request<'_>) -> bool {
    request.may(&request.collection(), "collMod") && view(request)
}

/// Who may read a view may define it only over what it may read as well.
fn view(request: &Request<'_>) -> bool {
    let view_on = request.get("viewOn").and_then(|value| value.as_str());
    match view_on {
        Some(view_on) if request.may(&request.collection(), "find") => {
            pipeline(request, &request.named(view_on), &request.stages())
        }
        _ => true,
    }
}

/// `filemd5` reads the chunks of a file.
pub(super) fn file_md5(request: &Request<'_>) -> bool {
    let chunks = super::maintenance::chunks_of(request.database, request.body);
    chunks.is_ok_and(|chunks| request.may(&request.named(&chunks.collection), "find"))
}

pub(super) fn aggregate(request: &Request<'_>) -> bool {
    pipeline(request, &request.collection(), &request.stages())
}

fn pipeline(request: &Request<'_>, collection: &Resource, stages: &[&RawDocument]) -> bool {
    let first = stages.first().and_then(|stage| elements(stage).next());
    let reads = match first {
        Some(("$collStats", _)) => request.may(collection, "collStats"),
        Some(("$indexStats", _)) => request.may(collection, "indexStats"),
        Some(("$planCacheStats", _)) => request.may(collection, "planCacheRead"),
        Some(("$listCatalog", _)) => {
            let listing = ActionSet::of(&["listCollections", "listIndexes"]);
            match collection {
                Resource::Collection(_, name) if name.is_empty() => {
                    let everything = Resource::Collection(String::new(), String::new());
                    request.may(&Resource::Cluster, "listDatabases")
                        && request.on(&everything, listing)
                }
                one => request.on(one, listing),
            }
        }
        Some(("$currentOp", options)) => {
            let options = options.as_document().into_iter().flat_map(elements);
            let mut all = options.filter(|(name, _)| *name == "allUsers");
            !all.any(|(_, value)| is_true(value)) || request.may(&Resource::Cluster, "inprog")
        }
        Some(("$listLocalSessions" | "$listSessions", options)) => {
            let asks = |name| options.as_document().and_then(|own| field(own, name));
            let of_others = asks("allUsers").is_some_and(is_true)
                || asks("users").is_some_and(|users| names_others(request, users));
            !of_others || request.may(&Resource::Cluster, "listSessions")
        }
        _ => request.may(collection, "find"),
    };
    reads && stages.iter().all(|own| stage(request, own))
}

/// Whether a list of users has others than who asks.
fn names_others(request: &Request<'_>, users: RawBsonRef<'_>) -> bool {
    let users = users.as_array().into_iter().flat_map(array_values);
    let mut names = users.filter_map(|user| {
        let user = user.as_document()?;
        let text = |name| field(user, name).and_then(|value| value.as_str());
        Some((text("user")?, text("db")?))
    });
    names.any(|(user, database)| {
        request
            .user
            .is_none_or(|own| own.user != user || own.database != database)
    })
}

/// What a stage reads or writes beside the pipeline's own collection.
fn stage(request: &Request<'_>, stage: &RawDocument) -> bool {
    let Some((name, options)) = elements(stage).next() else {
        return true;
    };
    let text = |name| {
        options
            .as_document()
            .and_then(|own| field(own, name)?.as_str())
    };
    match name {
        "$out" => {
            let target = target(request, options);
            request.on(&target, ActionSet::of(&["insert", "remove"])) && request.bypasses(&target)
        }
        "$merge" => {
            let into = options.as_document().and_then(|own| field(own, "into"));
            let target = target(request, into.unwrap_or(options));
            let needed = match (text("whenMatched"), text("whenNotMatched")) {
                (_, Some("fail" | "discard")) => ActionSet::of(&["update"]),
                (Some("fail"), _) => ActionSet::of(&["insert"]),
                _ => ActionSet::of(&["insert", "update"]),
            };
            request.on(&target, needed) && request.bypasses(&target)
        }
        "$graphLookup" => text("from").is_none_or(|from| request.may(&request.named(from), "find")),
        "$lookup" => joined(request, text("from"), options),
        "$unionWith" => joined(request, options.as_str().or_else(|| text("coll")), options),
        "$facet" => {
            let facets = options.as_document().into_iter().flat_map(elements);
            let mut pipelines = facets.filter_map(|(_, stages)| stages.as_array());
            pipelines.all(|stages| {
                let mut inner = array_values(stages).filter_map(|stage| stage.as_document());
                inner.all(|inner| self::stage(request, inner))
            })
        }
        _ => true,
    }
}

/// What the pipeline within a `$lookup` or a `$unionWith` reads, of its collection and of others.
fn joined(request: &Request<'_>, from: Option<&str>, options: RawBsonRef<'_>) -> bool {
    let inner = options
        .as_document()
        .and_then(|own| field(own, "pipeline")?.as_array());
    let stages: Vec<&RawDocument> = inner
        .into_iter()
        .flat_map(array_values)
        .filter_map(|stage| stage.as_document())
        .collect();
    // MongoDB calls it so where there is no collection, and asks for `find` on it.
    pipeline(
        request,
        &request.named(from.unwrap_or("$cmd.aggregate")),
        &stages,
    )
}

/// The collection of `$out` and `$merge`: `"name"` or `{db: ..., coll: ...}`.
fn target(request: &Request<'_>, value: RawBsonRef<'_>) -> Resource {
    match value.as_document() {
        Some(named) => {
            let text = |name| field(named, name).and_then(|value| value.as_str());
            Resource::Collection(
                text("db").unwrap_or(request.database).to_owned(),
                text("coll").unwrap_or_default().to_owned(),
            )
        }
        None => request.named(value.as_str().unwrap_or_default()),
    }
}

/// That of the command inside.
pub(super) fn explain(request: &Request<'_>) -> bool {
    let value = elements(request.body).next().map(|(_, value)| value);
    let Some(body) = value.and_then(|value| value.as_document()) else {
        return true;
    };
    let name = elements(body).next().map_or("", |(name, _)| name);
    let inner = Request {
        body,
        ..Request { ..*request }
    };
    // One that there is not, or that cannot be explained, is refused as such.
    table::find(name).is_none_or(|command| inner.is_allowed(command))
}

pub(super) fn get_more(request: &Request<'_>) -> bool {
    let Some(RawBsonRef::Int64(id)) = elements(request.body).next().map(|(_, value)| value) else {
        return true;
    };
    let collection = request.get("collection").and_then(|value| value.as_str());
    let collection = collection.unwrap_or_default();
    let reads = collection.starts_with("$cmd.") || request.may(&request.named(collection), "find");
    reads && owns_cursor(request, id)
}

/// Whether a cursor is the asker's; one that there is not is nobody's.
fn owns_cursor(request: &Request<'_>, id: i64) -> bool {
    let owner = request.service.engine.cursors().owner(id);
    owner.is_none_or(|owner| owner.user == request.user.map(UserName::id))
}

pub(super) fn kill_cursors(request: &Request<'_>) -> bool {
    let cursors = request.get("cursors").and_then(|value| value.as_array());
    let mut ids = cursors.into_iter().flat_map(array_values);
    let owns = |value| !matches!(value, RawBsonRef::Int64(id) if !owns_cursor(request, id));
    ids.all(owns) || request.may(&Resource::Cluster, "killAnyCursor")
}

pub(super) fn list_databases(request: &Request<'_>) -> bool {
    let authorized = request.get("authorizedDatabases");
    authorized.is_none_or(is_true) || request.may(&Resource::Cluster, "listDatabases")
}

pub(super) fn list_collections(request: &Request<'_>) -> bool {
    let whole = Resource::database(request.database);
    request.may(&whole, "listCollections")
        || (request.flag("nameOnly")
            && request.flag("authorizedCollections")
            && request.privileges.touch_database(request.database))
}

pub(super) fn current_op(request: &Request<'_>) -> bool {
    request.flag("$ownOps") || request.may(&Resource::Cluster, "inprog")
}

pub(super) fn kill_op(request: &Request<'_>) -> bool {
    let is_own = || {
        let Some(RawBsonRef::Int32(id)) = request.get("op") else {
            return false;
        };
        let activities = request.service.activities();
        let running = activities.iter().filter_map(|activity| activity.running());
        let mut own = running.filter(|running| running.operation_id == id);
        own.any(|running| running.user.as_ref().map(|user| &user.name) == request.user)
    };
    request.may(&Resource::Cluster, "killop") || is_own()
}

pub(super) fn profile(request: &Request<'_>) -> bool {
    let level = elements(request.body).next().map(|(_, value)| value);
    let only_asks = match level {
        Some(RawBsonRef::Int32(level)) => level < 0,
        Some(RawBsonRef::Int64(level)) => level < 0,
        Some(RawBsonRef::Double(level)) => level < 0.0,
        _ => false,
    };
    let reads = only_asks
        && request.get("slowms").is_none()
        && request.get("sampleRate").is_none()
        && request.may(&request.named("system.profile"), "find");
    reads || request.may(&Resource::database(request.database), "enableProfiler")
}

pub(super) fn data_size(request: &Request<'_>) -> bool {
    let value = elements(request.body).next().map(|(_, value)| value);
    let name = value.and_then(|value| value.as_str()).unwrap_or_default();
    request.may(&whole_name(name), "find")
}

fn whole_name(name: &str) -> Resource {
    let (database, collection) = name.split_once('.').unwrap_or((name, ""));
    Resource::Collection(database.to_owned(), collection.to_owned())
}

pub(super) fn rename_collection(request: &Request<'_>) -> bool {
    let value = elements(request.body).next().map(|(_, value)| value);
    let from = value.and_then(|value| value.as_str()).unwrap_or_default();
    let to = request
        .get("to")
        .and_then(|value| value.as_str())
        .unwrap_or_default();
    let database = |name: &str| name.split_once('.').map_or("", |(own, _)| own).to_owned();
    let (source, target) = (whole_name(from), whole_name(to));
    let drops = !request.flag("dropTarget") || request.may(&target, "dropCollection");
    if database(from) == database(to) {
        // Who may not read it under its old name does not get to read it under the new one.
        let hides = request.may(&source, "find") || !request.may(&target, "find");
        let whole = Resource::database(&database(from));
        return (request.may(&whole, "renameCollectionSameDB") && hides && drops)
            || moves(request, &source, &target) && drops;
    }
    moves(request, &source, &target) && drops
}

fn moves(request: &Request<'_>, source: &Resource, target: &Resource) -> bool {
    request.on(source, ActionSet::of(&["find", "dropCollection"]))
        && request.on(target, ActionSet::of(&["insert", "createIndex"]))
}
