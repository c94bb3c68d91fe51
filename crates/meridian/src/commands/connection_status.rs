//! `connectionStatus`: who is logged in on this connection.

use super::context::Context;
use bson::rawdoc;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with the user, its roles and, if asked for, its privileges.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("connectionStatus", &["showPrivileges"])?;
    let service = context.service;
    let login = &mut context.client.login;
    let user = login.user(&service.access, &service.engine)?.cloned();
    let mut info = reply.document("authInfo");
    let mut users = info.array("authenticatedUsers");
    if let Some(user) = &user {
        let name = &user.name;
        users.push_document(&rawdoc! { "user": name.user.as_str(), "db": name.database.as_str() });
    }
    drop(users);
    let mut roles = info.array("authenticatedUserRoles");
    for role in user.iter().flat_map(|user| &user.roles) {
        roles.push_document(&role.to_document());
    }
    drop(roles);
    if arguments.flag("showPrivileges")? {
        let mut privileges = info.array("authenticatedUserPrivileges");
        for privilege in user.iter().flat_map(|user| user.privileges.all()) {
            privileges.push_document(&privilege.to_document());
        }
    }
    Ok(())
}
