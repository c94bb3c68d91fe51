//! `currentOp`: the commands that run at this moment, with their connections.

use super::context::Context;
use super::table::COMMANDS;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Lists them; `$all: true` also lists idle connections. No other filter exists yet.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("currentOp", &["$all", "$ownOps"])?;
    let idle_too = arguments.flag("$all")?;
    arguments.refuse_flags(&["$ownOps"])?;
    let mut operations = reply.array("inprog");
    for activity in context.service.activities() {
        let running = activity.running();
        if running.is_none() && !idle_too {
            continue;
        }
        let mut row = operations.document();
        row.string("type", "op")
            .string("host", &context.service.host);
        row.string("desc", &format!("conn{}", activity.connection_id));
        row.int32("connectionId", activity.connection_id)
            .string("client", &activity.peer);
        row.boolean("active", running.is_some());
        if let Some((command, micros)) = running {
            row.string("op", "command")
                .int64("secs_running", micros / 1_000_000);
            row.int64("microsecs_running", micros);
            row.document("command").int32(COMMANDS[command].name, 1);
        }
    }
    Ok(())
}
