//! `rotateCertificates`: reads the files of certificates again, for connections that begin from now on.

use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Reads them, if there are any; where they are not as they should be, all stays as it was.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("rotateCertificates", &["message"])?;
    let message = arguments.string("message")?;
    let Some(rotate) = &context.service.rotate_certificates else {
        return Ok(());
    };
    tracing::info!(message, "certificates are read again");
    rotate().map_err(|error| {
        Error::new(
            Code::OperationFailed,
            format!("Could not rotate certificates: {error:#}"),
        )
    })
}
