//! What a stage may hold in memory, and what becomes of what outgrows it.

use super::spill::SpillSpace;
use crate::error::{Code, Error, Result};
use crate::operation::memory::Reservation;

/// What the stages that keep documents may hold in memory, and what becomes of those that outgrow it.
#[derive(Clone)]
pub struct Limits {
    /// For each stage.
    pub memory_bytes: usize,
    /// Whether the client allowed to use the disk.
    pub allow_disk_use: bool,
    /// Where stages spill to.
    space: Option<SpillSpace>,
}

/// What MongoDB allows a stage in memory.
pub const STAGE_BYTES_MAX: usize = 100 << 20;

impl Limits {
    /// MongoDB's limit, without a place to spill to.
    pub fn new(allow_disk_use: bool) -> Self {
        Self {
            memory_bytes: STAGE_BYTES_MAX,
            allow_disk_use,
            space: None,
        }
    }

    /// The same limits, where stages spill to this space if the client allowed it.
    #[must_use]
    pub fn with_space(self, space: SpillSpace) -> Self {
        Self {
            space: Some(space),
            ..self
        }
    }

    /// The same limits with so many bytes for each stage.
    #[must_use]
    pub fn with_memory(self, memory_bytes: usize) -> Self {
        Self {
            memory_bytes,
            ..self
        }
    }

    /// Where stages may spill to.
    pub(crate) fn disk(&self) -> Option<SpillSpace> {
        self.space.clone().filter(|_| self.allow_disk_use)
    }

    /// Whether a stage may hold so many bytes, for which memory is taken. A stage to which that is denied
    /// spills to what this returns.
    ///
    /// # Errors
    /// `QueryExceededMemoryLimitNoDiskUseAllowed` with MongoDB's message where it cannot spill and has reached its own
    /// limit; `ExceededMemoryLimit` where all statements together have reached theirs.
    #[inline]
    pub(crate) fn hold(
        &self,
        memory: &mut Reservation,
        bytes: usize,
        message: impl FnOnce(usize) -> String,
    ) -> Result<Option<&SpillSpace>> {
        if bytes <= self.memory_bytes && memory.try_grow(bytes) {
            return Ok(None);
        }
        match &self.space {
            Some(space) if self.allow_disk_use => Ok(Some(space)),
            _ if bytes <= self.memory_bytes => memory.grow(bytes).map(|()| None),
            _ => Err(Error::new(
                Code::QueryExceededMemoryLimitNoDiskUseAllowed,
                message(self.memory_bytes),
            )),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(false)
    }
}
