//! Users: made, changed, granted roles, listed and dropped.

use super::arguments::{Arguments, array_values};
use super::context::Context;
use super::privileges::Request;
use super::sasl::strings;
use crate::access;
use crate::access::scram::Mechanism;
use crate::access::store::{self, Kind};
use crate::access::{ActionSet, EXTERNAL, Resource, RoleName, UserName, parse_restrictions};
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_engine::query::Filter;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

const FIELDS: &[&str] = &[
    "pwd",
    "customData",
    "roles",
    "digestPassword",
    "mechanisms",
    "authenticationRestrictions",
];

/// Makes a user.
pub fn create(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("createUser", FIELDS)?;
    let name = name(context, "createUser")?;
    let roles = arguments.array("roles")?;
    let roles = roles.ok_or_else(|| arguments.missing("roles"))?;
    let password = arguments.string("pwd")?;
    if name.user.is_empty() {
        return Err(Error::bad_value(
            "User document needs 'user' field to be non-empty",
        ));
    }
    check_database(&name, password)?;
    let roles = parse_roles(roles, &name.database)?;
    let mut document = store::new_user(&name, &credentials(&arguments, &name, password)?);
    if let Some(data) = arguments.document("customData")? {
        document.append(cstr!("customData"), data);
    }
    document.append(cstr!("roles"), role_array(&roles));
    append_restrictions(&arguments, &mut document)?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    check_exist(context, &roles)?;
    if !store::insert(engine, Kind::Users, &document)? {
        let message = format!("User \"{name}\" already exists");
        return Err(Error::location(51003, message));
    }
    access.changed();
    Ok(())
}

/// Changes what is given of a user.
pub fn update(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("updateUser", FIELDS)?;
    let name = name(context, "updateUser")?;
    let password = arguments.string("pwd")?;
    let roles = arguments.array("roles")?;
    let roles = roles
        .map(|roles| parse_roles(roles, &name.database))
        .transpose()?;
    let data = arguments.document("customData")?;
    let mechanisms = strings(&arguments, "mechanisms")?;
    let restricts = arguments.array("authenticationRestrictions")?.is_some();
    if password.is_none() && roles.is_none() && data.is_none() && mechanisms.is_none() && !restricts
    {
        return Err(Error::bad_value(
            "Must specify at least one field to update in updateUser",
        ));
    }
    if let Some(password) = password {
        check_database(&name, Some(password))?;
    }
    change(context, &name, &not_found(&name), |context, document| {
        check_exist(context, roles.as_deref().unwrap_or_default())?;
        let mut changed = RawDocumentBuf::new();
        for (field, value) in document.iter().flatten() {
            match (field.as_str(), password, data, &roles) {
                ("credentials", Some(_), ..) => {
                    changed.append(field, credentials(&arguments, &name, password)?);
                }
                ("credentials", None, ..) if mechanisms.is_some() => {
                    let kept = fewer_mechanisms(document, mechanisms.as_deref())?;
                    changed.append(field, kept);
                }
                ("customData", _, Some(_), _) => {}
                ("authenticationRestrictions", ..) if restricts => {}
                ("roles", _, _, Some(roles)) => changed.append(field, role_array(roles)),
                _ => changed.append(field, value),
            }
        }
        if let Some(data) = data {
            changed.append(cstr!("customData"), data);
        }
        append_restrictions(&arguments, &mut changed)?;
        Ok(changed)
    })
}

/// Grants roles to a user.
pub fn grant_roles(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, roles) = name_and_roles(context, "grantRolesToUser")?;
    change(
        context,
        &name,
        &could_not_find(&name),
        |context, document| {
            check_exist(context, &roles)?;
            let mut granted = store::granted(document);
            for role in &roles {
                if !granted.contains(role) {
                    granted.push(role.clone());
                }
            }
            Ok(with_field(document, "roles", &role_array(&granted)))
        },
    )
}

/// Takes roles from a user.
pub fn revoke_roles(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, roles) = name_and_roles(context, "revokeRolesFromUser")?;
    change(
        context,
        &name,
        &could_not_find(&name),
        |context, document| {
            check_exist(context, &roles)?;
            let mut granted = store::granted(document);
            granted.retain(|role| !roles.contains(role));
            Ok(with_field(document, "roles", &role_array(&granted)))
        },
    )
}

/// Drops a user.
pub fn drop_user(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("dropUser", &[])?;
    let name = name(context, "dropUser")?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    if store::remove(engine, Kind::Users, &rawdoc! { "_id": name.id() })? == 0 {
        let message = format!("User '{name}' not found");
        return Err(Error::new(Code::UserNotFound, message));
    }
    access.changed();
    Ok(())
}

/// Drops all users of a database.
pub fn drop_all(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("dropAllUsersFromDatabase", &[])?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    let dropped = store::remove(
        engine,
        Kind::Users,
        &rawdoc! { "db": context.generic.database },
    )?;
    access.changed();
    reply.int32("n", dropped);
    Ok(())
}

/// Has everybody's privileges be looked up again.
pub fn invalidate_cache(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("invalidateUserCache", &[])?;
    context.service.access.changed();
    Ok(())
}

/// Lists users.
pub fn info(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "showPrivileges",
        "showCredentials",
        "showCustomData",
        "showAuthenticationRestrictions",
        "filter",
    ];
    let arguments = context.arguments("usersInfo", &known)?;
    let which = Which::parse(context.value(), context.generic.database)?;
    let details =
        arguments.flag("showPrivileges")? || arguments.flag("showAuthenticationRestrictions")?;
    if details && !matches!(which, Which::Named(_)) {
        return Err(Error::new(
            Code::IllegalOperation,
            "Privilege or restriction details require exact-match usersInfo queries",
        ));
    }
    let filter = arguments
        .document("filter")?
        .map(Filter::parse)
        .transpose()?;
    let found = which.find(context)?;
    let mut users = reply.array("users");
    for document in &found {
        let shown = show(context, document, &arguments)?;
        if filter
            .as_ref()
            .is_none_or(|filter| filter.matches(&shown).unwrap_or(false))
        {
            users.push_document(&shown);
        }
    }
    Ok(())
}

/// The users that a `usersInfo` is about.
enum Which {
    OfDatabase(String),
    All,
    Named(Vec<UserName>),
}

impl Which {
    fn parse(value: RawBsonRef<'_>, database: &str) -> Result<Self> {
        let for_all = |document: &RawDocument| document.get_bool("forAllDBs").unwrap_or(false);
        Ok(match value {
            RawBsonRef::Int32(1) | RawBsonRef::Int64(1) => Self::OfDatabase(database.to_owned()),
            RawBsonRef::Double(1.0) => Self::OfDatabase(database.to_owned()),
            RawBsonRef::Document(document) if for_all(document) => Self::All,
            RawBsonRef::Array(names) => {
                let names = array_values(names).map(|name| UserName::parse(name, database));
                Self::Named(names.collect::<Result<_>>()?)
            }
            one => Self::Named(vec![UserName::parse(one, database)?]),
        })
    }

    fn find(&self, context: &Context<'_>) -> Result<Vec<RawDocumentBuf>> {
        let engine = context.engine();
        match self {
            Self::OfDatabase(database) => {
                store::find(engine, Kind::Users, &rawdoc! { "db": database.as_str() })
            }
            Self::All => store::find(engine, Kind::Users, &rawdoc! {}),
            Self::Named(names) => {
                let mut ids: Vec<String> = names.iter().map(UserName::id).collect();
                ids.sort();
                ids.dedup();
                let found = ids
                    .iter()
                    .map(|id| store::find_one(engine, Kind::Users, id));
                found.filter_map(Result::transpose).collect()
            }
        }
    }
}

fn show(
    context: &Context<'_>,
    document: &RawDocument,
    arguments: &Arguments<'_>,
) -> Result<RawDocumentBuf> {
    let shows_credentials = arguments.flag("showCredentials")?;
    let shows_data =
        arguments.get("showCustomData").is_none() || arguments.flag("showCustomData")?;
    let shows_restrictions = arguments.flag("showAuthenticationRestrictions")?;
    let mut shown = RawDocumentBuf::new();
    for (name, value) in document.iter().flatten() {
        match name.as_str() {
            "credentials" if !shows_credentials => {}
            "customData" if !shows_data => {}
            "authenticationRestrictions" => {}
            _ => shown.append(name, value),
        }
    }
    let mut mechanisms = RawArrayBuf::new();
    store::mechanisms(document)
        .into_iter()
        .for_each(|name| mechanisms.push(name));
    shown.append(cstr!("mechanisms"), mechanisms);
    if shows_restrictions {
        let mut restrictions = RawArrayBuf::new();
        store::restrictions(document)
            .into_iter()
            .for_each(|one| restrictions.push(one));
        shown.append(cstr!("authenticationRestrictions"), restrictions);
    }
    if shows_restrictions || arguments.flag("showPrivileges")? {
        let resolved = store::resolve(context.engine(), &store::granted(document))?;
        shown.append(cstr!("inheritedRoles"), role_array(&resolved.roles));
        shown.append(cstr!("inheritedPrivileges"), resolved.privileges.to_array());
        let mut inherited = RawArrayBuf::new();
        for restriction in resolved.restrictions {
            inherited.push(restriction);
        }
        shown.append(cstr!("inheritedAuthenticationRestrictions"), inherited);
    }
    Ok(shown)
}

/// Reads a user, and writes what `make` makes of it.
fn change(
    context: &Context<'_>,
    name: &UserName,
    missing: &Error,
    make: impl FnOnce(&Context<'_>, &RawDocument) -> Result<RawDocumentBuf>,
) -> Result<()> {
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    let found = store::find_one(engine, Kind::Users, &name.id())?;
    let document = found.ok_or_else(|| missing.clone())?;
    let changed = make(context, &document)?;
    store::replace(engine, Kind::Users, &changed)?;
    access.changed();
    Ok(())
}

fn not_found(name: &UserName) -> Error {
    Error::new(Code::UserNotFound, format!("User {name} not found"))
}

fn could_not_find(name: &UserName) -> Error {
    let message = format!(
        "Could not find user \"{}\" for db \"{}\"",
        name.user, name.database
    );
    Error::new(Code::UserNotFound, message)
}

/// The user that is a command's value.
fn name(context: &Context<'_>, scope: &'static str) -> Result<UserName> {
    Ok(UserName {
        user: own_name(context, scope)?,
        database: context.generic.database.to_owned(),
    })
}

/// The name of a user or a role that is a command's value.
pub fn own_name(context: &Context<'_>, scope: &'static str) -> Result<String> {
    match context.value() {
        RawBsonRef::String(name) if name.contains('\0') => Err(Error::new(
            Code::InvalidNamespace,
            "namespaces cannot have embedded null characters",
        )),
        RawBsonRef::String(name) => Ok(name.to_owned()),
        other => Err(super::arguments::wrong_type(
            &format!("{scope}.{scope}"),
            other,
            &["string"],
        )),
    }
}

fn name_and_roles(context: &Context<'_>, scope: &'static str) -> Result<(UserName, Vec<RoleName>)> {
    let name = name(context, scope)?;
    let roles = roles_argument(context, scope)?;
    Ok((name, roles))
}

/// The roles that are granted or revoked.
pub fn roles_argument(context: &Context<'_>, scope: &'static str) -> Result<Vec<RoleName>> {
    let arguments = context.arguments(scope, &["roles"])?;
    let roles = arguments
        .array("roles")?
        .ok_or_else(|| arguments.missing("roles"))?;
    let roles = parse_roles(roles, context.generic.database)?;
    match roles.is_empty() {
        true => Err(Error::bad_value(format!(
            "{scope} command requires a non-empty \"roles\" array"
        ))),
        false => Ok(roles),
    }
}

fn check_database(name: &UserName, password: Option<&str>) -> Result<()> {
    match (name.database.as_str(), password) {
        ("local", _) => Err(Error::bad_value(
            "Cannot create users in the local database",
        )),
        (EXTERNAL, Some(_)) => Err(Error::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        )),
        (EXTERNAL, None) | (_, Some(_)) => Ok(()),
        (_, None) => Err(Error::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's \
             source db",
        )),
    }
}

/// The roles of an array, as `"name"` or `{role: ..., db: ...}`.
pub fn parse_roles(array: &bson::raw::RawArray, database: &str) -> Result<Vec<RoleName>> {
    let roles = array_values(array).map(|role| RoleName::parse(role, database));
    let mut parsed: Vec<RoleName> = roles.collect::<Result<_>>()?;
    let mut seen = std::collections::HashSet::new();
    parsed.retain(|role| seen.insert(role.clone()));
    Ok(parsed)
}

/// Refuses roles that there are not.
pub fn check_exist(context: &Context<'_>, roles: &[RoleName]) -> Result<()> {
    let mut missing = Vec::new();
    for name in roles {
        if store::role(context.engine(), name)?.is_none() {
            missing.push(name.to_string());
        }
    }
    let message = match missing.as_slice() {
        [] => return Ok(()),
        [one] => format!("Could not find role: {one}"),
        many => format!("Could not find roles: {}", many.join(", ")),
    };
    Err(Error::new(Code::RoleNotFound, message))
}

/// Roles as an array of documents.
pub fn role_array(roles: &[RoleName]) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    roles.iter().for_each(|role| array.push(role.to_document()));
    array
}

/// A document with another array in a field.
pub fn with_field(document: &RawDocument, field: &str, array: &RawArrayBuf) -> RawDocumentBuf {
    let mut changed = RawDocumentBuf::new();
    for (name, value) in document.iter().flatten() {
        match name.as_str() == field {
            true => changed.append(name, array.clone()),
            false => changed.append(name, value),
        }
    }
    changed
}

/// Appends `authenticationRestrictions`, if the command has them, and they can be understood.
pub fn append_restrictions(arguments: &Arguments<'_>, document: &mut RawDocumentBuf) -> Result<()> {
    let Some(all) = arguments.documents("authenticationRestrictions")? else {
        return Ok(());
    };
    parse_restrictions(all.iter().copied())?;
    let mut array = RawArrayBuf::new();
    all.into_iter().for_each(|one| array.push(one.to_owned()));
    document.append(cstr!("authenticationRestrictions"), array);
    Ok(())
}

fn wanted_mechanisms(named: Option<&[&str]>) -> Result<Vec<Mechanism>> {
    let Some(named) = named else {
        return Ok(Mechanism::ALL.to_vec());
    };
    if named.is_empty() {
        return Err(Error::bad_value("mechanisms field must not be empty"));
    }
    let parse = |name: &&str| {
        let parsed = Mechanism::parse(name);
        parsed.ok_or_else(|| Error::bad_value(format!("Unknown auth mechanism '{name}'")))
    };
    named.iter().map(parse).collect()
}

/// What is kept of the command's password, for each mechanism.
fn credentials(
    arguments: &Arguments<'_>,
    name: &UserName,
    password: Option<&str>,
) -> Result<RawDocumentBuf> {
    let named = strings(arguments, "mechanisms")?;
    let Some(password) = password else {
        return Ok(rawdoc! { "external": true });
    };
    let wanted = wanted_mechanisms(named.as_deref())?;
    let is_digested = !arguments.boolean_or("digestPassword", true)?;
    access::credentials(&name.user, password, &wanted, is_digested)
}

/// The credentials of a user for some of its mechanisms.
fn fewer_mechanisms(document: &RawDocument, named: Option<&[&str]>) -> Result<RawDocumentBuf> {
    let wanted = wanted_mechanisms(named)?;
    let own = document
        .get_document("credentials")
        .map_err(|error| Error::new(Code::UnsupportedFormat, error.to_string()))?;
    let mut kept = RawDocumentBuf::new();
    for mechanism in wanted {
        if !matches!(own.get(mechanism.name()), Ok(Some(_))) {
            return Err(Error::bad_value(
                "mechanisms field must be a subset of previously set mechanisms",
            ));
        }
    }
    for (name, value) in own.iter().flatten() {
        if named.is_some_and(|named| named.contains(&name.as_str())) {
            kept.append(name, value);
        }
    }
    Ok(kept)
}

/// Whether somebody may do an action with the command's roles: each at its database.
fn may_with_roles(request: &Request<'_>, action: &str) -> bool {
    let roles = request.get("roles").and_then(|value| value.as_array());
    let mut names = roles.into_iter().flat_map(array_values);
    names.all(|role| match RoleName::parse(role, request.database) {
        Ok(role) => request.may(&Resource::database(&role.database), action),
        // The command refuses what is no name.
        Err(_) => true,
    })
}

pub(super) fn may_grant_roles(request: &Request<'_>) -> bool {
    may_with_roles(request, "grantRole")
}

pub(super) fn may_revoke_roles(request: &Request<'_>) -> bool {
    may_with_roles(request, "revokeRole")
}

pub(super) fn may_create(request: &Request<'_>) -> bool {
    let own = Resource::database(request.database);
    let restricts = request.get("authenticationRestrictions").is_some();
    request.may(&own, "createUser")
        && may_grant_roles(request)
        && (!restricts || request.may(&own, "setAuthenticationRestriction"))
}

pub(super) fn may_update(request: &Request<'_>) -> bool {
    let own = Resource::database(request.database);
    let value = bson_value(request);
    let is_self = request
        .user
        .is_some_and(|user| Some(user.user.as_str()) == value && user.database == request.database);
    let may_self = |any: &str, self_only: &str| {
        request.may(&own, any) || (is_self && request.may(&own, self_only))
    };
    (request.get("pwd").is_none() || may_self("changePassword", "changeOwnPassword"))
        && (request.get("customData").is_none()
            || may_self("changeCustomData", "changeOwnCustomData"))
        && (request.get("roles").is_none() || (may_revoke_any(request) && may_grant_roles(request)))
        && (request.get("authenticationRestrictions").is_none()
            || request.may(&own, "setAuthenticationRestriction"))
}

/// Which roles are taken away is not known: the right to take any is needed.
pub(super) fn may_revoke_any(request: &Request<'_>) -> bool {
    let any = Resource::Collection(String::new(), String::new());
    request.on(&any, ActionSet::of(&["revokeRole"]))
}

fn bson_value<'a>(request: &Request<'a>) -> Option<&'a str> {
    let first = request.body.iter().flatten().next();
    first.and_then(|(_, value)| value.as_str())
}

pub(super) fn may_list(request: &Request<'_>) -> bool {
    let first = request.body.iter().flatten().next();
    let value = first.map_or(RawBsonRef::Null, |(_, value)| value);
    match Which::parse(value, request.database) {
        Ok(Which::All) => request.may(&Resource::Cluster, "viewUser"),
        Ok(Which::OfDatabase(database)) => request.may(&Resource::database(&database), "viewUser"),
        Ok(Which::Named(names)) => names.iter().all(|name| {
            // Everybody may look at itself.
            request.user == Some(name)
                || request.may(&Resource::database(&name.database), "viewUser")
        }),
        Err(_) => true,
    }
}
