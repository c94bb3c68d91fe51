//! `killCursors`: closes cursors that nobody will read to the end.

use super::arguments::{array_values, collection_name};
use super::context::Context;
use super::get_more::cursor_namespace;
use bson::raw::RawBsonRef;
use meridian_engine::{Code, KillOutcome, Result};
use meridian_wire::DocumentWriter;

/// Answers with which were closed and which were not there.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("killCursors", &["cursors"])?;
    let cursors = arguments
        .array("cursors")?
        .ok_or_else(|| arguments.missing("cursors"))?;
    let collection = collection_name(context.value(), Code::BadValue)?;
    let namespace = cursor_namespace(context.generic.database, collection)?;
    let (mut killed, mut not_found) = (Vec::new(), Vec::new());
    let ids = array_values(cursors).enumerate();
    for (index, value) in ids.filter(|(_, value)| *value != RawBsonRef::Null) {
        let RawBsonRef::Int64(id) = value else {
            return Err(arguments.wrong_type(&format!("cursors.{index}"), value, &["long"]));
        };
        match context.engine().cursors().kill(id, &namespace) {
            KillOutcome::Killed => killed.push(id),
            KillOutcome::NotFound => not_found.push(id),
        }
    }
    write_ids(reply, "cursorsKilled", &killed);
    write_ids(reply, "cursorsNotFound", &not_found);
    write_ids(reply, "cursorsAlive", &[]);
    write_ids(reply, "cursorsUnknown", &[]);
    Ok(())
}

fn write_ids(reply: &mut DocumentWriter<'_>, field: &str, ids: &[i64]) {
    let mut list = reply.array(field);
    for id in ids {
        list.push(RawBsonRef::Int64(*id));
    }
}
