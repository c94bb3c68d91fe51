//! Strings and names that are not valid UTF-8, at the edge.
//!
//! In: the documents of a message, which [`crate::check`] has found to hold such strings; out: the same documents in the
//! form of [`meridian_value::text`], which everything inside reads. And back: a reply's document in that form becomes the
//! one that the client is sent. All kinds of text are rewritten: strings, symbols, code, patterns and their options,
//! the namespace of a DBPointer, and names. Lengths follow.
//!
//! A message grows, at most to six times its length, and is refused beyond the longest message. A reply shrinks, in place.
//! Both are rare, so this is a second pass over the bytes; the usual message pays one search for the mark.

use crate::error::{InvalidDocument, InvalidKind};
use crate::frame::MESSAGE_BYTES_MAX;
use meridian_value::text::{escape, is_marked, restore_within};

/// Appends a document that was checked, in the form that is valid UTF-8.
///
/// # Errors
/// [`InvalidKind::TooLarge`] once `out` is longer than a message may be.
pub(crate) fn escape_document(document: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidDocument> {
    out.reserve(document.len());
    let mut escaper = Escaper {
        rest: document,
        out,
    };
    let within = rewrite_document(&mut escaper).is_some() && out.len() <= MESSAGE_BYTES_MAX;
    within.then_some(()).ok_or_else(|| InvalidDocument {
        kind: InvalidKind::TooLarge,
        reason: format!(
            "a message with strings that are not valid UTF-8 takes up to six times its length, and may not \
             exceed {MESSAGE_BYTES_MAX} bytes"
        ),
        path: String::new(),
    })
}

/// Gives the document at the end of `out` its original bytes back. It begins at `start`.
pub(crate) fn restore_document(out: &mut Vec<u8>, start: usize) {
    if !is_marked(&out[start..]) {
        return;
    }
    let mut restorer = Restorer {
        buffer: out,
        read: start,
        write: start,
    };
    let whole = rewrite_document(&mut restorer);
    debug_assert!(whole.is_some(), "a reply is BSON");
    let end = restorer.write;
    out.truncate(end);
}

/// What a document is read from and written to.
trait Rewriter {
    /// What was not read yet.
    fn rest(&self) -> &[u8];
    /// Takes so many bytes over as they are; none if there are fewer.
    fn copy(&mut self, count: usize) -> Option<()>;
    /// Takes a text of so many bytes over in its other form.
    fn text(&mut self, count: usize) -> Option<()>;
    /// How far the output reaches.
    fn written(&self) -> usize;
    /// Replaces the four bytes at a place of the output.
    fn set(&mut self, at: usize, number: i32);
}

struct Escaper<'a> {
    rest: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Rewriter for Escaper<'_> {
    fn rest(&self) -> &[u8] {
        self.rest
    }

    fn copy(&mut self, count: usize) -> Option<()> {
        let (copied, rest) = self.rest.split_at_checked(count)?;
        self.out.extend_from_slice(copied);
        self.rest = rest;
        Some(())
    }

    fn text(&mut self, count: usize) -> Option<()> {
        let (text, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        escape(text, MESSAGE_BYTES_MAX, self.out)
    }

    fn written(&self) -> usize {
        self.out.len()
    }

    fn set(&mut self, at: usize, number: i32) {
        self.out[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
}

/// Writes behind what it reads, since nothing becomes longer.
struct Restorer<'a> {
    buffer: &'a mut [u8],
    read: usize,
    write: usize,
}

impl Rewriter for Restorer<'_> {
    fn rest(&self) -> &[u8] {
        &self.buffer[self.read..]
    }

    fn copy(&mut self, count: usize) -> Option<()> {
        self.rest().get(..count)?;
        let end = self.read + count;
        self.buffer.copy_within(self.read..end, self.write);
        self.read = end;
        self.write += count;
        Some(())
    }

    fn text(&mut self, count: usize) -> Option<()> {
        self.rest().get(..count)?;
        let end = self.read + count;
        self.write = restore_within(self.buffer, self.read..end, self.write);
        self.read = end;
        Some(())
    }

    fn written(&self) -> usize {
        self.write
    }

    fn set(&mut self, at: usize, number: i32) {
        self.buffer[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
}

fn rewrite_document(io: &mut impl Rewriter) -> Option<()> {
    let start = io.written();
    io.copy(4)?;
    loop {
        let kind = *io.rest().first()?;
        io.copy(1)?;
        if kind == 0 {
            return close(io, start, 0);
        }
        rewrite_cstring(io)?;
        rewrite_value(io, kind)?;
    }
}

/// Fills in how long the output became from `start` on, but for these bytes, which the length does not count.
fn close(io: &mut impl Rewriter, start: usize, uncounted: usize) -> Option<()> {
    let length = i32::try_from(io.written() - start - uncounted).ok()?;
    io.set(start, length);
    Some(())
}

/// The kinds are those that the check knows.
fn rewrite_value(io: &mut impl Rewriter, kind: u8) -> Option<()> {
    match kind {
        0x02 | 0x0d | 0x0e => rewrite_string(io),
        0x03 | 0x04 => rewrite_document(io),
        0x05 => {
            let length = length_at(io)?;
            io.copy(5 + length)
        }
        0x06 | 0x0a | 0x7f | 0xff => Some(()),
        0x08 => io.copy(1),
        0x07 => io.copy(12),
        0x0b => {
            rewrite_cstring(io)?;
            rewrite_cstring(io)
        }
        0x0c => {
            rewrite_string(io)?;
            io.copy(12)
        }
        0x0f => {
            let start = io.written();
            io.copy(4)?;
            rewrite_string(io)?;
            rewrite_document(io)?;
            close(io, start, 0)
        }
        0x10 => io.copy(4),
        0x13 => io.copy(16),
        0x01 | 0x09 | 0x11 | 0x12 => io.copy(8),
        _ => None,
    }
}

fn rewrite_string(io: &mut impl Rewriter) -> Option<()> {
    let text = length_at(io)?.checked_sub(1)?;
    let start = io.written();
    io.copy(4)?;
    io.text(text)?;
    io.copy(1)?;
    close(io, start, 4)
}

fn rewrite_cstring(io: &mut impl Rewriter) -> Option<()> {
    let length = io.rest().iter().position(|&byte| byte == 0)?;
    io.text(length)?;
    io.copy(1)
}

fn length_at(io: &impl Rewriter) -> Option<usize> {
    let prefix = io.rest().first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*prefix)).ok()
}
