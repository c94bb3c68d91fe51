//! The rows of several inputs, each document once: `$or` over several indexes.

use super::{Row, Rows};
use crate::error::Result;
use ahash::AHashSet;

/// All rows of the first input, then those of the next that have not been seen, and so on.
pub struct UnionRows {
    inputs: Vec<Box<dyn Rows>>,
    current: usize,
    seen: AHashSet<Vec<u8>>,
}

impl UnionRows {
    /// The union of `inputs`.
    pub fn new(inputs: Vec<Box<dyn Rows>>) -> Self {
        Self {
            inputs,
            current: 0,
            seen: AHashSet::new(),
        }
    }
}

impl Rows for UnionRows {
    fn advance(&mut self) -> Result<bool> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            while input.advance()? {
                let id = input.row().id;
                if !self.seen.contains(id) {
                    self.seen.insert(id.to_vec());
                    return Ok(true);
                }
            }
            self.current += 1;
        }
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        self.inputs[self.current].row()
    }
}
