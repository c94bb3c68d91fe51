//! OP_COMPRESSED: a frame whose body is compressed as a whole.

use crate::error::BrokenFrame;
use crate::frame::{Frame, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode, read_i32};
use std::io::{Read, Write};

/// The compressors that a client may choose from in its hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// 0: the body as it is. Never negotiated, only understood.
    Noop,
    /// 1: Snappy's raw format.
    Snappy,
    /// 2: zlib.
    Zlib,
    /// 3: Zstandard.
    Zstd,
}

/// Of a compressed message, behind its header: original opcode, uncompressed size, compressor id.
pub const COMPRESSION_HEADER_BYTES: usize = 9;

impl Compressor {
    /// The compressor of this name in a hello, if it is one that we speak.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "snappy" => Some(Self::Snappy),
            "zlib" => Some(Self::Zlib),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name in a hello.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    fn from_id(id: u8) -> Result<Self, BrokenFrame> {
        match id {
            0 => Ok(Self::Noop),
            1 => Ok(Self::Snappy),
            2 => Ok(Self::Zlib),
            3 => Ok(Self::Zstd),
            other => Err(BrokenFrame::Compressor(other)),
        }
    }

    fn id(self) -> u8 {
        match self {
            Self::Noop => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
        }
    }

    /// Replaces `out` with the frame inside a compressed one: the same request, uncompressed.
    ///
    /// # Errors
    /// [`BrokenFrame`] if the compressor is unknown, the announced size is past
    /// [`MESSAGE_BYTES_MAX`], or the bytes do not decompress to exactly that size.
    pub fn decompress(frame: Frame<'_>, out: &mut Vec<u8>) -> Result<(Self, Header), BrokenFrame> {
        let body = frame.body();
        let op_code = OpCode::parse(read_i32(body, 0, "compression header")?)?;
        if op_code == OpCode::Compressed {
            return Err(BrokenFrame::OpCode(op_code.number()));
        }
        let announced = read_i32(body, 4, "compression header")?;
        let id = *body
            .get(8)
            .ok_or(BrokenFrame::Truncated("compression header"))?;
        let size = usize::try_from(announced)
            .ok()
            .filter(|size| *size <= MESSAGE_BYTES_MAX - HEADER_BYTES)
            .ok_or(BrokenFrame::Length(announced))?;
        let compressor = Self::from_id(id)?;
        let header = Header {
            length: HEADER_BYTES + size,
            op_code,
            ..frame.header
        };
        out.clear();
        push_header(out, header);
        compressor.inflate(&body[COMPRESSION_HEADER_BYTES..], size, out)?;
        Ok((compressor, header))
    }

    /// How many bytes the body of a compressed message says that it decompresses to; `None` when the number has
    /// not come.
    pub fn announced_bytes(body: &[u8]) -> Option<usize> {
        let announced = read_i32(body, 4, "compression header").ok()?;
        let announced = usize::try_from(announced).unwrap_or(0);
        Some(announced.min(MESSAGE_BYTES_MAX))
    }

    /// Appends exactly `size` decompressed bytes to `out`.
    fn inflate(self, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), BrokenFrame> {
        let start = out.len();
        match self {
            Self::Noop => out.extend_from_slice(input),
            Self::Snappy => {
                let real = snap::raw::decompress_len(input).map_err(corrupt)?;
                if real != size {
                    return Err(corrupt("its size is not what was announced"));
                }
                out.resize(start + size, 0);
                snap::raw::Decoder::new()
                    .decompress(input, &mut out[start..])
                    .map_err(corrupt)?;
            }
            Self::Zlib => read_bounded(flate2::read::ZlibDecoder::new(input), size, out)?,
            Self::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(corrupt)?;
                read_bounded(decoder, size, out)?;
            }
        }
        match out.len() - start == size {
            true => Ok(()),
            false => Err(corrupt("its size is not what was announced")),
        }
    }

    /// Replaces the finished frame at the start of `frame` by its compressed form.
    ///
    /// # Errors
    /// Only if a compressor fails, which it does for want of memory alone.
    pub(crate) fn compress(self, frame: &mut Vec<u8>) -> Result<(), BrokenFrame> {
        let header = Header::parse(frame)?;
        let body = &frame[HEADER_BYTES..];
        let size = i32::try_from(body.len()).map_err(|_| BrokenFrame::Length(i32::MAX))?;
        let compressed = self.deflate(body)?;
        frame.clear();
        let length = HEADER_BYTES + COMPRESSION_HEADER_BYTES + compressed.len();
        push_header(
            frame,
            Header {
                length,
                op_code: OpCode::Compressed,
                ..header
            },
        );
        frame.extend_from_slice(&header.op_code.number().to_le_bytes());
        frame.extend_from_slice(&size.to_le_bytes());
        frame.push(self.id());
        frame.extend_from_slice(&compressed);
        Ok(())
    }

    fn deflate(self, body: &[u8]) -> Result<Vec<u8>, BrokenFrame> {
        match self {
            Self::Noop => Ok(body.to_vec()),
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(body)
                .map_err(corrupt),
            Self::Zlib => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder
                    .write_all(body)
                    .and_then(|()| encoder.finish())
                    .map_err(corrupt)
            }
            Self::Zstd => zstd::bulk::compress(body, 0).map_err(corrupt),
        }
    }
}

/// Reads to the end, or one byte past `size`, so that a bomb is noticed and not inflated.
fn read_bounded(reader: impl Read, size: usize, out: &mut Vec<u8>) -> Result<(), BrokenFrame> {
    out.reserve(size);
    reader
        .take(size as u64 + 1)
        .read_to_end(out)
        .map(drop)
        .map_err(corrupt)
}

pub(crate) fn push_header(out: &mut Vec<u8>, header: Header) {
    let length = i32::try_from(header.length).expect("bounded by MESSAGE_BYTES_MAX");
    for number in [
        length,
        header.request_id,
        header.response_to,
        header.op_code.number(),
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn corrupt(error: impl std::fmt::Display) -> BrokenFrame {
    BrokenFrame::Compressed(error.to_string())
}
