//! Where a stream's literals and words go.

use crate::packer::Word;

/// Words of a block, at most: their number less one has four bits.
const BLOCK_WORDS_MAX: u8 = 16;

/// The bytes of a stream; the last block may take further words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink {
    pub bytes: Vec<u8>,
    /// Where the last block's control byte is, where it can take words.
    control_at: Option<usize>,
    /// In interleaved mode: where literals and blocks end, and the rows before that.
    pub parts: Option<Vec<Part>>,
    rows: u64,
}

/// A literal or a block is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub end: usize,
    pub rows: u64,
}

impl Sink {
    /// One that appends to these bytes.
    pub fn after(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// One that notes its parts.
    pub fn in_parts() -> Self {
        Self {
            parts: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Appends a word to the last block, or to one that begins, of this control byte's high nibble.
    #[inline]
    pub fn word(&mut self, control: u8, word: Word) {
        let open = self
            .control_at
            .filter(|at| self.bytes[*at] & 0xF0 == control);
        let at = match open {
            Some(at) => {
                self.bytes[at] += 1;
                at
            }
            None => {
                self.end_block();
                self.bytes.push(control);
                self.bytes.len() - 1
            }
        };
        self.control_at = Some(at);
        self.bytes.extend_from_slice(&word.bits.to_le_bytes());
        self.rows += u64::from(word.rows);
        if self.bytes[at] & 15 == BLOCK_WORDS_MAX - 1 {
            self.end_block();
        }
    }

    /// Appends a value.
    pub fn literal(&mut self, kind: u8, value: &[u8]) {
        self.end_block();
        self.bytes.extend_from_slice(&[kind, 0]);
        self.bytes.extend_from_slice(value);
        self.rows += 1;
        self.end_part();
    }

    /// Has the next word begin a block.
    pub fn end_block(&mut self) {
        if self.control_at.take().is_some() {
            self.end_part();
        }
    }

    fn end_part(&mut self) {
        if let Some(parts) = &mut self.parts {
            parts.push(Part {
                end: self.bytes.len(),
                rows: self.rows,
            });
        }
    }
}
