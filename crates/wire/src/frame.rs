//! One frame: sixteen bytes of header, then a body by operation code.

use crate::error::{BrokenFrame, RequestError};
use crate::message::{self, Request};

/// The size of a header.
pub const HEADER_BYTES: usize = 16;
/// The largest frame in either direction, header included: MongoDB's `MaxMessageSizeBytes`.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// 1: the reply to [`OpCode::Query`].
    Reply,
    /// 2004: a query of MongoDB before 5.1; drivers still open with one.
    Query,
    /// 2012: another frame, compressed.
    Compressed,
    /// 2013: everything else.
    Message,
}

impl OpCode {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::Reply => 1,
            Self::Query => 2004,
            Self::Compressed => 2012,
            Self::Message => 2013,
        }
    }

    pub(crate) fn parse(number: i32) -> Result<Self, BrokenFrame> {
        match number {
            1 => Ok(Self::Reply),
            2004 => Ok(Self::Query),
            2012 => Ok(Self::Compressed),
            2013 => Ok(Self::Message),
            other => Err(BrokenFrame::OpCode(other)),
        }
    }
}

/// The first sixteen bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The frame's size in bytes, header included; between [`HEADER_BYTES`] and
    /// [`MESSAGE_BYTES_MAX`].
    pub length: usize,
    /// Chosen by the sender; a reply repeats it in `response_to`.
    pub request_id: i32,
    /// The request that this frame answers, or 0.
    pub response_to: i32,
    /// How to read the body.
    pub op_code: OpCode,
}

impl Header {
    /// Reads a header from the first sixteen bytes of `bytes`.
    ///
    /// # Errors
    /// [`BrokenFrame::Length`] and [`BrokenFrame::OpCode`]; [`BrokenFrame::Truncated`] if
    /// there are fewer than sixteen bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, BrokenFrame> {
        let length = read_i32(bytes, 0, "header")?;
        let bounded = usize::try_from(length)
            .ok()
            .filter(|length| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(length))
            .ok_or(BrokenFrame::Length(length))?;
        Ok(Self {
            length: bounded,
            request_id: read_i32(bytes, 4, "header")?,
            response_to: read_i32(bytes, 8, "header")?,
            op_code: OpCode::parse(read_i32(bytes, 12, "header")?)?,
        })
    }
}

/// A complete frame in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its header, as [`Header::parse`] read it.
    pub header: Header,
    /// All of its bytes, header included.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads the frame as a request whose documents borrow from it, or from `rewritten`: documents with strings that
    /// are not valid UTF-8 are rewritten there, and [`crate::ReplyFrame`] turns replies back.
    ///
    /// A compressed frame must be decompressed first ([`crate::Compressor::decompress`]).
    ///
    /// # Errors
    /// [`RequestError::Frame`] must close the connection, [`RequestError::Document`] must not.
    pub fn parse(self, rewritten: &'a mut Vec<u8>) -> Result<Request<'a>, RequestError> {
        if self.bytes.len() != self.header.length {
            return Err(BrokenFrame::Truncated("body").into());
        }
        match self.header.op_code {
            OpCode::Message => message::parse_message(self.bytes, rewritten).map(Request::Message),
            OpCode::Query => message::parse_query(self.body(), rewritten).map(Request::Query),
            other => Err(BrokenFrame::OpCode(other.number()).into()),
        }
    }

    /// What follows the header.
    pub fn body(self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }
}

pub(crate) fn read_i32(bytes: &[u8], at: usize, what: &'static str) -> Result<i32, BrokenFrame> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|chunk| i32::from_le_bytes(*chunk))
        .ok_or(BrokenFrame::Truncated(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(length: i32, op_code: i32) -> Vec<u8> {
        [length, 5, 6, op_code]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }

    #[test]
    fn length_is_bounded_at_both_ends() {
        assert_eq!(Header::parse(&header(16, 2013)).map(|h| h.length), Ok(16));
        assert_eq!(
            Header::parse(&header(48_000_000, 2013)).map(|h| h.length),
            Ok(48_000_000)
        );
        for length in [-1, 0, 15, 48_000_001] {
            assert_eq!(
                Header::parse(&header(length, 2013)),
                Err(BrokenFrame::Length(length))
            );
        }
    }

    #[test]
    fn legacy_writes_are_refused() {
        assert_eq!(
            Header::parse(&header(16, 2002)),
            Err(BrokenFrame::OpCode(2002))
        );
    }
}
