//! Sorting: in memory while there is enough of it, and else on disk.
//!
//! - [`external`]: entries of bytes, more than memory holds: those of index builds, and those that stages spill.
//! - [`spill`]: what a stage puts on disk.
//! - [`top`]: values by a key, all or the first so many: every sort of a statement.
//! - [`limits`]: what a stage may hold in memory.

mod external;
mod limits;
mod spill;
mod top;

pub(crate) use external::{Sorted, Sorter};
pub use limits::{Limits, STAGE_BYTES_MAX};
pub use spill::SpillSpace;
pub(crate) use spill::{SpillSort, SpilledRows};
pub(crate) use top::{InOrder, Spillable, TopSorter, sort_too_large};
