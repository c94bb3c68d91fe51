//! `dropDatabase`: removes a database with all collections.

use super::arguments::integer;
use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Drops it; one that is not there is dropped already.
pub fn run(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("dropDatabase", &[])?;
    if integer(context.value()) != Some(1) {
        return Err(Error::location(
            5_255_100,
            "Have to pass 1 as 'drop' parameter",
        ));
    }
    let database = context.generic.database;
    if database == "admin" {
        let message = "Dropping the 'admin' database is prohibited.";
        return Err(Error::new(Code::IllegalOperation, message));
    }
    let dropped = context.engine().drop_database(database);
    // Also after a failure: some may be gone, and the others are only counted anew.
    context.service.usage.forget_database(database);
    dropped.map(drop)
}
