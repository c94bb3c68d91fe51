//! What commands are recorded in the audit log, and as what.

use super::arguments::elements;
use super::generic::is_generic;
use super::table::Command;
use crate::access::UserName;
use crate::service::{Client, Service, without_secrets};
use bson::raw::RawDocument;
use bson::{Document, doc};
use meridian_engine::{Code, Result};

/// MongoDB's name of the event; none where a command is recorded only when it is refused.
fn kind(command: &str) -> Option<&'static str> {
    Some(match command {
        "create" => "createCollection",
        "drop" => "dropCollection",
        "createIndexes" => "createIndex",
        "dropIndexes" | "deleteIndexes" => "dropIndex",
        "createUser" => "createUser",
        "dropUser" => "dropUser",
        "dropAllUsersFromDatabase" => "dropAllUsersFromDatabase",
        "updateUser" => "updateUser",
        "grantRolesToUser" => "grantRolesToUser",
        "revokeRolesFromUser" => "revokeRolesFromUser",
        "createRole" => "createRole",
        "updateRole" => "updateRole",
        "dropRole" => "dropRole",
        "dropAllRolesFromDatabase" => "dropAllRolesFromDatabase",
        "grantRolesToRole" => "grantRolesToRole",
        "revokeRolesFromRole" => "revokeRolesFromRole",
        "grantPrivilegesToRole" => "grantPrivilegesToRole",
        "revokePrivilegesFromRole" => "revokePrivilegesFromRole",
        "dropDatabase" => "dropDatabase",
        "renameCollection" => "renameCollection",
        "collMod" => "collMod",
        "setParameter" => "setParameter",
        "logout" => "logout",
        _ => return None,
    })
}

/// Records a command that has ended.
pub fn record(
    service: &Service,
    client: &Client,
    command: &Command,
    (database, body): (&str, &RawDocument),
    outcome: &Result<()>,
) {
    let Some(audit) = &service.audit else {
        return;
    };
    let result = outcome
        .as_ref()
        .err()
        .map_or(0, |error| error.code.number());
    if result == Code::Unauthorized.number() {
        let param = doc! {
            "command": command.name,
            "ns": namespace(database, body),
            "args": shown(body),
        };
        audit.write("authCheck", Some(client), param, result);
    } else if let Some(kind) = kind(command.alias_of.unwrap_or(command.name)) {
        audit.write(
            kind,
            Some(client),
            param(command.name, database, body),
            result,
        );
    }
}

/// Records a login.
pub fn record_login(
    service: &Service,
    client: &Client,
    name: Option<&UserName>,
    mechanism: &str,
    outcome: &Result<()>,
) {
    let (Some(audit), Some(name)) = (&service.audit, name) else {
        return;
    };
    let result = outcome
        .as_ref()
        .err()
        .map_or(0, |error| error.code.number());
    let param = doc! { "user": &name.user, "db": &name.database, "mechanism": mechanism };
    audit.write("authenticate", Some(client), param, result);
}

fn shown(body: &RawDocument) -> Document {
    Document::try_from(without_secrets(body)).unwrap_or_default()
}

fn namespace(database: &str, body: &RawDocument) -> String {
    let value = elements(body).next().and_then(|(_, value)| value.as_str());
    value.map_or_else(|| database.to_owned(), |name| format!("{database}.{name}"))
}

fn param(command: &str, database: &str, body: &RawDocument) -> Document {
    let value = elements(body).next().and_then(|(_, value)| value.as_str());
    let mut param = match command {
        _ if command.ends_with("User") => doc! { "user": value, "db": database },
        _ if command.ends_with("Role") => doc! { "role": value, "db": database },
        "renameCollection" => doc! { "old": value },
        _ if command.ends_with("Database") || matches!(command, "logout" | "setParameter") => {
            doc! { "db": database }
        }
        _ => doc! { "ns": namespace(database, body) },
    };
    for (name, value) in shown(body).into_iter().skip(1) {
        if !is_generic(&name) {
            let name = if command == "renameCollection" && name == "to" {
                "new".to_owned()
            } else {
                name
            };
            param.insert(name, value);
        }
    }
    param
}
