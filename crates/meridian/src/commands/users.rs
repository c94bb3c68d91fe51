//! Users and roles: there are none yet. Lists are empty, logging in is refused.

use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Refuses `authenticate`, `saslStart` and `saslContinue`.
pub fn authenticate(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::new(
        Code::AuthenticationFailed,
        "Authentication failed: Meridian has no users yet; connect without a user name",
    ))
}

/// Answers `logout`.
pub fn logout(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Ok(())
}

/// Answers `usersInfo`.
pub fn users_info(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    drop(reply.array("users"));
    Ok(())
}

/// Answers `rolesInfo`.
pub fn roles_info(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    drop(reply.array("roles"));
    Ok(())
}
