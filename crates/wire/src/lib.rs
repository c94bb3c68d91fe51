//! MongoDB's wire protocol: bytes to messages and messages to bytes.
//!
//! What comes in is one complete frame in a buffer ([`Header::parse`] says how long it is);
//! what goes out is a [`Request`] that borrows from that buffer: documents are checked once
//! and never copied, but for those with strings that are not valid UTF-8. Replies are written straight into the send buffer ([`ReplyFrame`],
//! [`DocumentWriter`]). Deliberately absent: sockets, time-outs and the meaning of commands.
//!
//! All integers are little-endian. A frame, as the protocol's specification draws it:
//!
//! ```text
//! offset  0        4           8            12       16
//!         +--------+-----------+------------+--------+----------------------------+
//!         | length | requestId | responseTo | opCode | body, length - 16 bytes    |
//!         +--------+-----------+------------+--------+----------------------------+
//!
//! OP_MSG (2013) body
//!         +-------+------+----------+------+----------+-- ... --+----------------------+
//!         | flags | kind | section  | kind | section  |         | CRC-32C (flag bit 0) |
//!         +-------+------+----------+------+----------+-- ... --+----------------------+
//!   kind 0: one BSON document, the command (exactly once)
//!   kind 1: size i32 (counts itself) | identifier, NUL-terminated | BSON documents to the end
//!
//! OP_COMPRESSED (2012) body
//!         +----------------+------------------+--------------+----------------------+
//!         | originalOpcode | uncompressedSize | compressorId | compressed body      |
//!         +----------------+------------------+--------------+----------------------+
//!
//! OP_QUERY (2004) body, for the legacy hello only
//!         flags i32 | full collection name, NUL-terminated | skip i32 | return i32 | BSON document
//!
//! OP_REPLY (1) body
//!         flags i32 | cursor id i64 | starting from i32 | number returned i32 | BSON document
//! ```
//!
//! Source: MongoDB's public wire protocol, OP_MSG and OP_COMPRESSED specifications.
//!
//! ```
//! use meridian_wire::{DocumentWriter, Frame, Header, ReplyFrame, Request};
//!
//! let mut bytes = Vec::new();
//! let frame = ReplyFrame::begin_message(&mut bytes);
//! DocumentWriter::new(&mut bytes).int32("ping", 1);
//! frame.finish(&mut bytes, 7, 0, None)?;
//!
//! let (header, mut spare) = (Header::parse(&bytes)?, Vec::new());
//! assert_eq!((header.length, header.request_id), (bytes.len(), 7));
//! let Request::Message(message) = Frame { header, bytes: &bytes }.parse(&mut spare)? else { unreachable!() };
//! assert_eq!(message.body.get_i32("ping")?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod compress;
mod error;
mod frame;
mod message;
mod reply;
mod text;
mod writer;

pub use check::{NESTING_LEVELS_MAX, check_document};
pub use compress::{COMPRESSION_HEADER_BYTES, Compressor};
pub use error::{BrokenFrame, InvalidDocument, InvalidKind, RequestError};
pub use frame::{Frame, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode};
pub use message::{LegacyQuery, Message, Request, Sequence, SequenceDocuments};
pub use reply::ReplyFrame;
pub use writer::{ArrayWriter, DocumentWriter, append_value, is_whole};
