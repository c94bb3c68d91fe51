//! `ping`: answers.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers `{ok: 1}`.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("ping", &[]).map(drop)
}
