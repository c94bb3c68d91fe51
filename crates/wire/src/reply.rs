//! Replies, written where they will be sent from: begin, write one document, finish.
//!
//! Finishing turns strings that are not valid UTF-8 back into what the client once sent (`text`).

use crate::compress::Compressor;
use crate::error::BrokenFrame;
use crate::frame::{HEADER_BYTES, OpCode};
use crate::text::restore_document;

/// Room was made for a header; [`ReplyFrame::finish`] fills it in.
///
/// Between the two calls exactly one document is appended to the same buffer.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct ReplyFrame {
    op_code: OpCode,
}

/// flags, cursor id, starting from, number returned = 1
const LEGACY_PREFIX: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
/// no flags, one body section
const MESSAGE_PREFIX: [u8; 5] = [0; 5];

impl ReplyFrame {
    /// Clears the buffer and begins an OP_MSG.
    pub fn begin_message(out: &mut Vec<u8>) -> Self {
        Self::begin(out, OpCode::Message, &MESSAGE_PREFIX)
    }

    /// Clears the buffer and begins an OP_REPLY, the answer to an OP_QUERY.
    pub fn begin_legacy(out: &mut Vec<u8>) -> Self {
        Self::begin(out, OpCode::Reply, &LEGACY_PREFIX)
    }

    fn begin(out: &mut Vec<u8>, op_code: OpCode, prefix: &[u8]) -> Self {
        out.clear();
        out.resize(HEADER_BYTES, 0);
        out.extend_from_slice(prefix);
        Self { op_code }
    }

    /// Where the reply's document begins in the buffer.
    pub fn document_start(&self) -> usize {
        match self.op_code {
            OpCode::Reply => HEADER_BYTES + LEGACY_PREFIX.len(),
            _ => HEADER_BYTES + MESSAGE_PREFIX.len(),
        }
    }

    /// Appends a CRC-32C, to answer a request that had one. Call before [`Self::finish`],
    /// with the same numbers.
    pub fn finish_with_checksum(self, out: &mut Vec<u8>, request_id: i32, response_to: i32) {
        restore_document(out, self.document_start());
        out[HEADER_BYTES] |= 1;
        let length = out.len() + 4;
        self.write_header(out, length, request_id, response_to);
        let checksum = crc32c::crc32c(out);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Writes the header, and compresses the frame if the request was compressed.
    ///
    /// # Errors
    /// Only if a compressor fails.
    pub fn finish(
        self,
        out: &mut Vec<u8>,
        request_id: i32,
        response_to: i32,
        compressor: Option<Compressor>,
    ) -> Result<(), BrokenFrame> {
        restore_document(out, self.document_start());
        let length = out.len();
        self.write_header(out, length, request_id, response_to);
        match compressor {
            Some(compressor) => compressor.compress(out),
            None => Ok(()),
        }
    }

    fn write_header(self, out: &mut [u8], length: usize, request_id: i32, response_to: i32) {
        let length = i32::try_from(length).expect("a reply is far below 2 GiB");
        let numbers = [length, request_id, response_to, self.op_code.number()];
        for (slot, number) in out.chunks_exact_mut(4).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
    }
}
