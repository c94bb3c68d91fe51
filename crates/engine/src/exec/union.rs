//! The rows of several inputs, each document once: `$or` over several indexes.

use super::seen::SeenIds;
use super::{Row, Rows, SUSPENDED_BYTES_FREE};
use crate::error::Result;
use crate::operation::memory::Reservation;
use crate::query::Sort;
use bson::raw::RawDocumentBuf;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// All rows of the first input, then those of the next that have not been seen, and so on.
pub struct UnionRows {
    inputs: Vec<Box<dyn Rows>>,
    current: usize,
    seen: SeenIds,
}

impl UnionRows {
    /// The union of `inputs`.
    pub fn new(inputs: Vec<Box<dyn Rows>>) -> Self {
        Self {
            inputs,
            current: 0,
            seen: SeenIds::new(),
        }
    }
}

impl Rows for UnionRows {
    fn advance(&mut self) -> Result<bool> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            while input.advance()? {
                if self.seen.insert(input.row().id)? {
                    return Ok(true);
                }
            }
            self.current += 1;
        }
        Ok(false)
    }

    /// What has been seen does not come again.
    fn suspend(&mut self, _: bool) -> Result<bool> {
        if let Some(input) = self.inputs.get_mut(self.current) {
            input.suspend(false)?;
        }
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        self.inputs[self.current].row()
    }
}

/// The rows of inputs that are each in the order of a sort pattern, in that order.
pub struct MergedRows {
    inputs: Vec<Box<dyn Rows>>,
    sort: Arc<Sort>,
    /// The sort keys of the inputs' next rows, the least first; of equal ones that of the first input.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// Copies of next rows whose inputs have none while they rest.
    copies: Vec<Option<(Vec<u8>, RawDocumentBuf)>>,
    memory: Reservation,
    /// Inputs that must be advanced before the next row is known.
    passed: Vec<usize>,
    current: usize,
    key: Vec<u8>,
    /// The documents with the current sort key: wherever else one of them comes up, it has that key too.
    seen: SeenIds,
}

impl MergedRows {
    /// Merges `inputs`.
    pub fn new(inputs: Vec<Box<dyn Rows>>, sort: Arc<Sort>) -> Self {
        Self {
            passed: (0..inputs.len()).collect(),
            copies: vec![None; inputs.len()],
            memory: Reservation::none(),
            inputs,
            sort,
            heads: BinaryHeap::new(),
            current: 0,
            key: Vec::new(),
            seen: SeenIds::new(),
        }
    }
}

impl Rows for MergedRows {
    fn advance(&mut self) -> Result<bool> {
        loop {
            while let Some(number) = self.passed.pop() {
                self.copies[number] = None;
                let input = &mut self.inputs[number];
                if input.advance()? {
                    let key = self.sort.key(input.row().document)?;
                    self.heads.push(Reverse((key, number)));
                }
            }
            let Some(Reverse((key, number))) = self.heads.pop() else {
                return Ok(false);
            };
            self.passed.push(number);
            self.current = number;
            if key != self.key {
                self.seen.clear();
                self.key = key;
            }
            if self
                .seen
                .insert(next_row(&self.inputs, &self.copies, number).id)?
            {
                return Ok(true);
            }
        }
    }

    /// The next rows come again, or wait as copies.
    fn suspend(&mut self, _: bool) -> Result<bool> {
        for number in &self.passed {
            self.copies[*number] = None;
            self.inputs[*number].suspend(false)?;
        }
        for Reverse((key, number)) in std::mem::take(&mut self.heads) {
            if self.copies[number].is_none() {
                let row = self.inputs[number].row();
                let copy = (row.id.to_vec(), row.document.to_owned());
                if self.inputs[number].suspend(true)? {
                    self.passed.push(number);
                    continue;
                }
                self.copies[number] = Some(copy);
            }
            self.heads.push(Reverse((key, number)));
        }
        self.memory.shrink(0);
        let copies = self.copies.iter().flatten();
        let bytes = copies
            .map(|(id, document)| id.len() + document.as_bytes().len())
            .sum();
        if bytes > SUSPENDED_BYTES_FREE {
            self.memory = Reservation::for_suspended(bytes)?;
        }
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        next_row(&self.inputs, &self.copies, self.current)
    }
}

/// The row that an input comes to next, which may wait as a copy.
fn next_row<'a>(
    inputs: &'a [Box<dyn Rows>],
    copies: &'a [Option<(Vec<u8>, RawDocumentBuf)>],
    number: usize,
) -> Row<'a> {
    match &copies[number] {
        Some((id, document)) => Row { id, document },
        None => inputs[number].row(),
    }
}
