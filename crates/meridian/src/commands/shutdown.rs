//! `shutdown`: ends the server as SIGTERM does.

use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;
use signal_hook::consts::SIGTERM;

/// Ends the server: running commands may finish, this one among them.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("shutdown", &["force", "timeoutSecs"])?;
    arguments.flag("force")?;
    arguments.integer("timeoutSecs")?;
    if !context.service.access.is_enabled && !context.client.login.is_local() {
        let message = "shutdown must run from localhost when running db without auth";
        return Err(Error::new(Code::Unauthorized, message));
    }
    signal_hook::low_level::raise(SIGTERM).map_err(|error| {
        let message = format!("the server could not be asked to end: {error}");
        Error::new(Code::InternalError, message)
    })
}
