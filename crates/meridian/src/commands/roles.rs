//! Roles: made, changed, listed and dropped.

use super::arguments::{Arguments, array_values};
use super::context::Context;
use super::privileges::Request;
use super::users::{
    append_restrictions, check_exist, may_grant_roles, may_revoke_any, own_name, parse_roles,
    role_array, roles_argument, with_field,
};
use crate::access::store::{self, Kind, Resolved, Role};
use crate::access::{
    BuiltinRole, Privilege, Privileges, Resource, RoleName, builtin_role, builtin_roles,
};
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

const FIELDS: &[&str] = &["privileges", "roles", "authenticationRestrictions"];

/// Makes a role.
pub fn create(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("createRole", FIELDS)?;
    let name = name(context, "createRole")?;
    let privileges = arguments.documents("privileges")?;
    let privileges = privileges.ok_or_else(|| arguments.missing("privileges"))?;
    let roles = arguments
        .array("roles")?
        .ok_or_else(|| arguments.missing("roles"))?;
    if name.role.is_empty() {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    match name.database.as_str() {
        "local" => {
            return Err(Error::bad_value(
                "Cannot create roles in the local database",
            ));
        }
        "$external" => {
            return Err(Error::bad_value(
                "Cannot create roles in the $external database",
            ));
        }
        _ => {}
    }
    if builtin_role(&name.role, &name.database).is_some() {
        return Err(Error::bad_value(
            "Cannot create roles with the same name as a built-in role",
        ));
    }
    let roles = parse_roles(roles, &name.database)?;
    let privileges = parse_privileges(&privileges, &name)?;
    let mut document = rawdoc! {
        "_id": name.id(),
        "role": name.role.as_str(),
        "db": name.database.as_str(),
    };
    document.append(cstr!("privileges"), privileges.to_array());
    document.append(cstr!("roles"), role_array(&roles));
    append_restrictions(&arguments, &mut document)?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    check_grantable(context, &name, &roles)?;
    if !store::insert(engine, Kind::Roles, &document)? {
        let message = format!("Role \"{name}\" already exists");
        return Err(Error::location(51002, message));
    }
    access.changed();
    Ok(())
}

/// Changes what is given of a role.
pub fn update(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("updateRole", FIELDS)?;
    let name = name(context, "updateRole")?;
    let privileges = arguments.documents("privileges")?;
    let roles = arguments.array("roles")?;
    let restricts = arguments.array("authenticationRestrictions")?.is_some();
    if privileges.is_none() && roles.is_none() && !restricts {
        return Err(Error::bad_value(
            "Must specify at least one field to update in updateRole",
        ));
    }
    let privileges = privileges
        .map(|all| parse_privileges(&all, &name))
        .transpose()?;
    let roles = roles
        .map(|roles| parse_roles(roles, &name.database))
        .transpose()?;
    if builtin_role(&name.role, &name.database).is_some() {
        return Err(Error::new(
            Code::RoleNotFound,
            format!("Role {name} not found"),
        ));
    }
    change(context, &name, |context, document| {
        check_grantable(context, &name, roles.as_deref().unwrap_or_default())?;
        let mut changed = document.to_owned();
        if let Some(privileges) = &privileges {
            changed = with_field(&changed, "privileges", &privileges.to_array());
        }
        if let Some(roles) = &roles {
            changed = with_field(&changed, "roles", &role_array(roles));
        }
        if restricts {
            let mut others = RawDocumentBuf::new();
            for (field, value) in changed.iter().flatten() {
                if field.as_str() != "authenticationRestrictions" {
                    others.append(field, value);
                }
            }
            append_restrictions(&arguments, &mut others)?;
            changed = others;
        }
        Ok(changed)
    })
}

/// Adds privileges to a role.
pub fn grant_privileges(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, privileges) = name_and_privileges(context, "grantPrivilegesToRole")?;
    change(context, &name, |_, document| {
        let mut own = store::own_privileges(document);
        own.extend(&privileges);
        Ok(with_field(document, "privileges", &own.to_array()))
    })
}

/// Takes privileges from a role.
pub fn revoke_privileges(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, privileges) = name_and_privileges(context, "revokePrivilegesFromRole")?;
    change(context, &name, |_, document| {
        let mut own = store::own_privileges(document);
        own.remove(&privileges);
        Ok(with_field(document, "privileges", &own.to_array()))
    })
}

/// Has a role inherit others.
pub fn grant_roles(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, roles) = name_and_roles(context, "grantRolesToRole")?;
    change(context, &name, |context, document| {
        check_grantable(context, &name, &roles)?;
        let mut granted = store::granted(document);
        for role in &roles {
            if !granted.contains(role) {
                granted.push(role.clone());
            }
        }
        Ok(with_field(document, "roles", &role_array(&granted)))
    })
}

/// Has a role inherit others no longer.
pub fn revoke_roles(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let (name, roles) = name_and_roles(context, "revokeRolesFromRole")?;
    change(context, &name, |_, document| {
        let mut granted = store::granted(document);
        granted.retain(|role| !roles.contains(role));
        Ok(with_field(document, "roles", &role_array(&granted)))
    })
}

/// Drops a role, and takes it from whoever has it.
pub fn drop_role(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("dropRole", &[])?;
    let name = name(context, "dropRole")?;
    check_not_builtin(&name)?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    if store::find_one(engine, Kind::Roles, &name.id())?.is_none() {
        return Err(not_found(&name));
    }
    let is_it = |role: &RoleName| *role == name;
    take_from_all(context, &is_it)?;
    store::remove(engine, Kind::Roles, &rawdoc! { "_id": name.id() })?;
    access.changed();
    Ok(())
}

/// Drops all roles of a database that are not built in.
pub fn drop_all(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("dropAllRolesFromDatabase", &[])?;
    let database = context.generic.database;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    let is_it =
        |role: &RoleName| role.database == database && builtin_role(&role.role, database).is_none();
    take_from_all(context, &is_it)?;
    let dropped = store::remove(engine, Kind::Roles, &rawdoc! { "db": database })?;
    access.changed();
    reply.int32("n", dropped);
    Ok(())
}

/// Takes roles from all users and roles.
fn take_from_all(context: &Context<'_>, is_it: &dyn Fn(&RoleName) -> bool) -> Result<()> {
    for kind in [Kind::Users, Kind::Roles] {
        for document in store::find(context.engine(), kind, &rawdoc! {})? {
            let mut granted = store::granted(&document);
            let before = granted.len();
            granted.retain(|role| !is_it(role));
            if granted.len() < before {
                let changed = with_field(&document, "roles", &role_array(&granted));
                store::replace(context.engine(), kind, &changed)?;
            }
        }
    }
    Ok(())
}

/// Lists roles.
pub fn info(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "showPrivileges",
        "showBuiltinRoles",
        "showAuthenticationRestrictions",
    ];
    let arguments = context.arguments("rolesInfo", &known)?;
    let database = context.generic.database;
    let as_fragment = match arguments.get("showPrivileges") {
        Some(RawBsonRef::String("asUserFragment")) => true,
        Some(RawBsonRef::String(other)) => {
            return Err(Error::bad_value(format!(
                "Failed to parse 'showPrivileges'. 'showPrivileges' should either be a boolean or the string \
                 'asUserFragment', given: {other}"
            )));
        }
        _ => false,
    };
    let show = Show {
        privileges: !as_fragment && arguments.flag("showPrivileges")?,
        restrictions: arguments.flag("showAuthenticationRestrictions")?,
    };
    let engine = context.engine();
    let Some(names) = named(context.value(), database)? else {
        if as_fragment {
            return Err(Error::new(
                Code::IllegalOperation,
                "Cannot get user fragment for all roles in a database",
            ));
        }
        let mut roles = reply.array("roles");
        for document in store::find(engine, Kind::Roles, &rawdoc! { "db": database })? {
            roles.push_document(&show.stored(context, &document)?);
        }
        if arguments.flag("showBuiltinRoles")? {
            for role in builtin_roles(database) {
                roles.push_document(&show.builtin(role, database));
            }
        }
        return Ok(());
    };
    if as_fragment {
        let resolved = store::resolve(engine, &names)?;
        let mut fragment = rawdoc! {};
        fragment.append(cstr!("roles"), role_array(&names));
        append_inherited(&mut fragment, &resolved);
        fragment.append(cstr!("inheritedPrivileges"), resolved.privileges.to_array());
        reply.embed("userFragment", &fragment);
        return Ok(());
    }
    let mut roles = reply.array("roles");
    for name in &names {
        match store::role(engine, name)? {
            None => {}
            Some(Role::Builtin(role)) => {
                roles.push_document(&show.builtin(role, &name.database));
            }
            Some(Role::Stored(document)) => {
                roles.push_document(&show.stored(context, &document)?);
            }
        }
    }
    Ok(())
}

/// The roles that a `rolesInfo` names; `None` for all of the database.
fn named(value: RawBsonRef<'_>, database: &str) -> Result<Option<Vec<RoleName>>> {
    Ok(match value {
        RawBsonRef::Int32(1) | RawBsonRef::Int64(1) | RawBsonRef::Double(1.0) => None,
        RawBsonRef::Array(names) => {
            let names = array_values(names).map(|name| RoleName::parse(name, database));
            Some(names.collect::<Result<_>>()?)
        }
        one => Some(vec![RoleName::parse(one, database)?]),
    })
}

/// What is shown of roles.
struct Show {
    privileges: bool,
    restrictions: bool,
}

impl Show {
    fn stored(&self, context: &Context<'_>, document: &RawDocument) -> Result<RawDocumentBuf> {
        let granted = store::granted(document);
        let inherited = store::resolve(context.engine(), &granted)?;
        let own = store::own_privileges(document);
        let mut shown = RawDocumentBuf::new();
        for (name, value) in document.iter().flatten() {
            match name.as_str() {
                "privileges" if !self.privileges => {}
                "authenticationRestrictions" => {}
                _ => shown.append(name, value),
            }
        }
        if self.restrictions {
            let mut restrictions = RawArrayBuf::new();
            store::restrictions(document)
                .into_iter()
                .for_each(|one| restrictions.push(one));
            shown.append(cstr!("authenticationRestrictions"), restrictions);
        }
        append_inherited(&mut shown, &inherited);
        if self.privileges {
            let mut all = own;
            all.extend(&inherited.privileges);
            shown.append(cstr!("inheritedPrivileges"), all.to_array());
        }
        if self.restrictions {
            let mut all = RawArrayBuf::new();
            inherited
                .restrictions
                .into_iter()
                .for_each(|one| all.push(one));
            shown.append(cstr!("inheritedAuthenticationRestrictions"), all);
        }
        shown.append(cstr!("isBuiltin"), false);
        Ok(shown)
    }

    fn builtin(&self, role: &BuiltinRole, database: &str) -> RawDocumentBuf {
        let mut shown = rawdoc! { "db": database, "role": role.name, "isBuiltin": true };
        shown.append(cstr!("roles"), RawArrayBuf::new());
        shown.append(cstr!("inheritedRoles"), RawArrayBuf::new());
        if self.privileges {
            let mut privileges = RawArrayBuf::new();
            for privilege in role.privileges(database) {
                privileges.push(privilege.to_document());
            }
            shown.append(cstr!("privileges"), privileges.clone());
            shown.append(cstr!("inheritedPrivileges"), privileges);
        }
        if self.restrictions {
            shown.append(cstr!("authenticationRestrictions"), RawArrayBuf::new());
            shown.append(
                cstr!("inheritedAuthenticationRestrictions"),
                RawArrayBuf::new(),
            );
        }
        shown
    }
}

fn append_inherited(document: &mut RawDocumentBuf, resolved: &Resolved) {
    document.append(cstr!("inheritedRoles"), role_array(&resolved.roles));
}

fn change(
    context: &Context<'_>,
    name: &RoleName,
    make: impl FnOnce(&Context<'_>, &RawDocument) -> Result<RawDocumentBuf>,
) -> Result<()> {
    check_not_builtin(name)?;
    let (access, engine) = (&context.service.access, context.engine());
    let _changing = access.begin_change();
    let found = store::find_one(engine, Kind::Roles, &name.id())?;
    let document = found.ok_or_else(|| not_found(name))?;
    let changed = make(context, &document)?;
    store::replace(engine, Kind::Roles, &changed)?;
    access.changed();
    Ok(())
}

fn not_found(name: &RoleName) -> Error {
    Error::new(Code::RoleNotFound, format!("Could not find role: {name}"))
}

fn check_not_builtin(name: &RoleName) -> Result<()> {
    match builtin_role(&name.role, &name.database) {
        None => Ok(()),
        Some(_) => Err(Error::bad_value(format!(
            "{name} is a built-in role and cannot be modified"
        ))),
    }
}

fn name(context: &Context<'_>, scope: &'static str) -> Result<RoleName> {
    Ok(RoleName {
        role: own_name(context, scope)?,
        database: context.generic.database.to_owned(),
    })
}

fn name_and_roles(context: &Context<'_>, scope: &'static str) -> Result<(RoleName, Vec<RoleName>)> {
    let name = name(context, scope)?;
    let roles = roles_argument(context, scope)?;
    Ok((name, roles))
}

fn name_and_privileges(
    context: &Context<'_>,
    scope: &'static str,
) -> Result<(RoleName, Privileges)> {
    let arguments: Arguments<'_> = context.arguments(scope, &["privileges"])?;
    let name = name(context, scope)?;
    let privileges = arguments.documents("privileges")?;
    let privileges = privileges.ok_or_else(|| arguments.missing("privileges"))?;
    if privileges.is_empty() {
        return Err(Error::bad_value(format!(
            "{scope} command requires a non-empty \"privileges\" array"
        )));
    }
    let privileges = parse_privileges(&privileges, &name)?;
    Ok((name, privileges))
}

/// Privileges that a role of this name may have: those of other databases than `admin` stay within their own.
fn parse_privileges(all: &[&RawDocument], name: &RoleName) -> Result<Privileges> {
    let mut privileges = Privileges::default();
    for one in all {
        let privilege = Privilege::parse(one)?;
        if let Resource::Collection(database, _) = &privilege.resource
            && database.contains('\0')
        {
            let message = format!("{database} is not a valid database name");
            return Err(Error::new(Code::FailedToParse, message));
        }
        let is_own = match &privilege.resource {
            Resource::Collection(database, _) | Resource::SystemBuckets(database, _) => {
                *database == name.database
            }
            Resource::Cluster | Resource::Any => false,
        };
        if name.database != "admin" && !is_own {
            return Err(Error::new(
                Code::InvalidRoleModification,
                format!(
                    "Roles on the '{}' database cannot be granted privileges that target other databases or the \
                     cluster",
                    name.database
                ),
            ));
        }
        privileges.add(privilege);
    }
    Ok(privileges)
}

/// Refuses roles that this one may not inherit: itself, what inherits it, and those of other databases.
fn check_grantable(context: &Context<'_>, name: &RoleName, roles: &[RoleName]) -> Result<()> {
    let refused = |message| Err(Error::new(Code::InvalidRoleModification, message));
    for role in roles {
        if role == name {
            return refused(format!("Cannot grant role {name} to itself."));
        }
        if name.database != "admin" && role.database != name.database {
            return refused(format!(
                "Roles on the '{}' database cannot be granted roles from other databases",
                name.database
            ));
        }
    }
    check_exist(context, roles).map_err(|mut error| {
        let before = format!("Cannot grant roles to '{name}': ");
        error.message.insert_str(0, &before);
        error
    })?;
    let inherited = store::resolve(context.engine(), roles)?;
    match inherited.roles.contains(name) {
        true => refused(format!(
            "Granting roles to {name} would introduce a cycle in the role graph"
        )),
        false => Ok(()),
    }
}

/// Whether somebody may give privileges away: each at its database.
fn may_grant_privileges(request: &Request<'_>, action: &str) -> bool {
    let all = request.get("privileges").and_then(|value| value.as_array());
    let mut parsed = all
        .into_iter()
        .flat_map(array_values)
        .filter_map(|one| Privilege::parse(one.as_document()?).ok());
    parsed.all(|privilege| match privilege.resource {
        Resource::Collection(database, _) | Resource::SystemBuckets(database, _)
            if !database.is_empty() =>
        {
            request.may(&Resource::database(&database), action)
        }
        _ => request.may(&Resource::database("admin"), action),
    })
}

pub(super) fn may_create(request: &Request<'_>) -> bool {
    let own = Resource::database(request.database);
    let restricts = request.get("authenticationRestrictions").is_some();
    request.may(&own, "createRole")
        && may_grant_roles(request)
        && may_grant_privileges(request, "grantRole")
        && (!restricts || request.may(&own, "setAuthenticationRestriction"))
}

pub(super) fn may_update(request: &Request<'_>) -> bool {
    let own = Resource::database(request.database);
    let restricts = request.get("authenticationRestrictions").is_some();
    may_revoke_any(request)
        && may_grant_roles(request)
        && may_grant_privileges(request, "grantRole")
        && (!restricts || request.may(&own, "setAuthenticationRestriction"))
}

pub(super) fn may_grant_own(request: &Request<'_>) -> bool {
    may_grant_privileges(request, "grantRole")
}

pub(super) fn may_revoke_own(request: &Request<'_>) -> bool {
    may_grant_privileges(request, "revokeRole")
}

pub(super) fn may_list(request: &Request<'_>) -> bool {
    let first = request.body.iter().flatten().next();
    let value = first.map_or(RawBsonRef::Null, |(_, value)| value);
    match named(value, request.database) {
        Ok(None) => request.may(&Resource::database(request.database), "viewRole"),
        Ok(Some(names)) => names
            .iter()
            // Everybody may look at its own.
            .all(|name| {
                request.roles.contains(name)
                    || request.may(&Resource::database(&name.database), "viewRole")
            }),
        Err(_) => true,
    }
}
