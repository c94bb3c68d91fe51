//! The distinct values of a field from the entries of an index: from each value straight to the next.

use super::Context;
use super::key_runs::{FieldEntries, Walk};
use crate::catalog::Collection;
use crate::error::Result;
use crate::plan::Access;
use crate::rank::ReadView;
use bson::Bson;
use meridian_value::key::ABOVE_ALL;

/// Hands the values at `path` to `visit`, in the order of the access path: of values that are equal the
/// first there. False, and nothing done, when the entries do not lie in the
/// order of the field, must be tested or de-duplicated.
///
/// # Errors
/// Storage failures, time limits, what `visit` answers.
pub fn distinct_values(
    access: &Access,
    path: &str,
    collection: &Collection,
    view: &ReadView,
    context: &Context,
    visit: &mut dyn FnMut(&Bson) -> Result<()>,
) -> Result<bool> {
    let Some(entries) = FieldEntries::new(access, path, collection) else {
        return Ok(false);
    };
    view.end_counts();
    let mut walk = Walk::new(&entries, view.snapshot(), context);
    while walk.find_entry()? {
        let (key, value) = walk.entry();
        let field = entries.field(key, value)?;
        let mut limit = [&key[..field.bytes.end], &[ABOVE_ALL]].concat();
        match &field.value {
            // Null stands among documents without the field: each entry must be looked at.
            None => walk.step()?,
            Some(value) => {
                visit(value)?;
                walk.clamp(&mut limit);
                walk.pass(&limit)?;
            }
        }
    }
    Ok(true)
}
