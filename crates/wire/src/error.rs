//! Who must act when bytes do not parse: a broken frame closes the connection, since its
//! end can no longer be trusted; an invalid document only earns an error reply.

use thiserror::Error;

/// The frame's own structure is wrong. The connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BrokenFrame {
    /// The length in the header is impossible.
    #[error("message length {0} is not between 16 and 48000000")]
    Length(i32),
    /// An operation that nobody has sent since MongoDB 5.1.
    #[error("operation code {0} is not supported")]
    OpCode(i32),
    /// A field would reach past the end of its frame or section.
    #[error("the message ends inside its {0}")]
    Truncated(&'static str),
    /// One of the flag bits 0 to 15 that a receiver must understand is unknown.
    #[error("unknown required flag bits {0:#x}")]
    Flags(u32),
    /// The CRC-32C at the end does not match the bytes before it.
    #[error("the message's checksum is {found:#010x} and should be {expected:#010x}")]
    Checksum {
        /// What the bytes add up to.
        expected: u32,
        /// What the message says.
        found: u32,
    },
    /// A section kind other than 0 and 1.
    #[error("Unknown section kind {0}")]
    SectionKind(u8),
    /// No command document, or two.
    #[error("a message must have exactly one body section")]
    Body,
    /// The same sequence twice, or one that is also a field of the body.
    #[error("Duplicate document sequence: '{0}'")]
    DuplicateSequence(String),
    /// A name that must be UTF-8 is not.
    #[error("the {0} is not valid UTF-8")]
    Utf8(&'static str),
    /// A compressor that was not negotiated or does not exist.
    #[error("unknown compressor id {0}")]
    Compressor(u8),
    /// Compressed bytes that do not decompress to what was announced.
    #[error("the compressed message is corrupt: {0}")]
    Compressed(String),
    /// Bytes after the last field.
    #[error("{0} bytes follow the message's last field")]
    Trailing(usize),
}

/// The BSON in an intact frame is wrong. Answered with an error reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}{}", describe_place(.path))]
pub struct InvalidDocument {
    /// Which of MongoDB's errors it is.
    pub kind: InvalidKind,
    /// What is wrong.
    pub reason: String,
    /// The dotted path of the element where it is wrong; empty for the document itself.
    pub path: String,
}

/// Which of MongoDB's errors an [`InvalidDocument`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidKind {
    /// `InvalidBSON` (22).
    Malformed,
    /// `Overflow` (15): more than [`crate::NESTING_LEVELS_MAX`] levels.
    TooDeep,
    /// `BSONObjectTooLarge` (10334): larger than a message may be, once its strings are UTF-8.
    TooLarge,
}

fn describe_place(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" in element with field name '{path}' in object with unknown _id"),
    }
}

/// Why a frame did not become a [`crate::Request`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Close the connection.
    #[error(transparent)]
    Frame(#[from] BrokenFrame),
    /// Reply with an error.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
}
