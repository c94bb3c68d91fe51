//! The distinct values of a field from the entries of an index: from each value straight to the next.

use super::Context;
use super::key_runs::{EntryWalk, FieldEntries};
use crate::error::Result;
use crate::plan::FieldRanges;
use crate::rank::ReadView;
use bson::Bson;
use meridian_value::key::ABOVE_ALL;

/// Hands the values of a field to `visit`, in the order of its entries: of values that are equal the first there.
///
/// # Errors
/// Storage failures, time limits, what `visit` answers.
pub fn distinct_values(
    field: &FieldRanges,
    view: &ReadView,
    context: &Context,
    visit: &mut dyn FnMut(&Bson) -> Result<()>,
) -> Result<()> {
    let entries = FieldEntries::new(field);
    view.end_counts();
    let mut walk = EntryWalk::new(&entries, view.snapshot(), context);
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
    Ok(())
}
