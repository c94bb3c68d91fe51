//! Interleaved mode: puts the rows' documents together of the streams of their fields.

use crate::bytes::{DEPTH_MAX, check, elements, is_empty};
use crate::decode::Stream;
use crate::error::{ColumnError, Result};
use crate::value::{Bytes, ColumnValue};

/// Streams, at most: each takes some hundred bytes of memory, and a scalar may take two in a column.
const STREAMS_MAX: usize = 100_000;
/// A stream of any row takes a block of one word, at least.
const STREAM_BYTES_MIN: usize = 9;

/// A step of writing a document.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// A document within begins; whether it stays where it is empty.
    Enter {
        kind: u8,
        name: &'a [u8],
        stays: bool,
    },
    /// A field of the next stream.
    Field { name: &'a [u8] },
    /// It ends.
    Leave,
}

/// The reference document, as steps, and the streams of its scalars.
#[derive(Debug, Clone)]
pub(crate) struct Interleaved<'a> {
    kind: u8,
    steps: Vec<Step<'a>>,
    streams: Vec<Stream<'a>>,
    /// Where the documents start that are being written, and whether they stay where they are empty.
    open: Vec<(usize, usize, bool)>,
    /// The row that is being written.
    out: Vec<u8>,
}

impl<'a> Interleaved<'a> {
    /// Reads the control byte and the reference document at `at`; returns the first byte after them, too.
    ///
    /// # Errors
    /// Malformed documents, and those without scalars.
    pub fn begin(column: &'a [u8], at: usize) -> Result<(Self, usize)> {
        let wrong = |what| ColumnError::new(what, at);
        let rest = &column[at + 1..];
        let kind = if column[at] == 0xF2 { 0x04 } else { 0x03 };
        let length = crate::bytes::value_length(kind, rest);
        let length = length.ok_or_else(|| wrong("a reference document with a wrong length"))?;
        let reference = &rest[..length];
        check(kind, reference, at)?;
        let mut own = Self {
            kind,
            steps: Vec::new(),
            streams: Vec::new(),
            open: Vec::new(),
            out: Vec::new(),
        };
        let enters_arrays = column[at] != 0xF0;
        let streams_max = STREAMS_MAX.min(rest.len() / STREAM_BYTES_MIN);
        own.plan(reference, enters_arrays, DEPTH_MAX, streams_max);
        match own.streams.len() {
            0 => Err(wrong("a reference document without scalars")),
            count if count > streams_max => {
                Err(wrong("a reference document with too many scalars"))
            }
            _ => Ok((own, at + 1 + length)),
        }
    }

    /// Bytes that it holds in memory.
    pub fn memory_bytes(&self) -> usize {
        self.streams.len() * size_of::<Stream<'_>>()
            + self.steps.len() * size_of::<Step<'_>>()
            + self.out.capacity()
    }

    /// Notes the steps of writing a document; it was checked to be no deeper than `depth`.
    fn plan(&mut self, document: &'a [u8], enters_arrays: bool, depth: usize, streams_max: usize) {
        for element in elements(document) {
            if self.streams.len() > streams_max {
                return;
            }
            if depth > 0 && (element.kind == 0x03 || element.kind == 0x04 && enters_arrays) {
                self.steps.push(Step::Enter {
                    kind: element.kind,
                    name: element.name,
                    stays: is_empty(element.value),
                });
                self.plan(element.value, enters_arrays, depth - 1, streams_max);
                self.steps.push(Step::Leave);
            } else {
                let mut stream = Stream::default();
                stream.set_literal(element.kind, element.value);
                self.streams.push(stream);
                self.steps.push(Step::Field { name: element.name });
            }
        }
    }

    /// The next row, `Some(None)` a missing one; `None` at the end of the mode. `at` moves behind what is read.
    ///
    /// # Errors
    /// Those of the streams, and an end in the middle of a row.
    pub fn next(
        &mut self,
        column: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<Option<ColumnValue<'a>>>> {
        // The end stands where the first stream would read on.
        if self.streams.first().is_some_and(|first| !first.has_more())
            && column.get(*at) == Some(&0)
        {
            *at += 1;
            return Ok(None);
        }
        let out = &mut self.out;
        out.clear();
        out.extend_from_slice(&[0; 4]);
        self.open.clear();
        let mut streams = self.streams.iter_mut();
        for step in &self.steps {
            match *step {
                Step::Enter { kind, name, stays } => {
                    let before = out.len();
                    begin_field(out, kind, name);
                    self.open.push((before, out.len(), stays));
                    out.extend_from_slice(&[0; 4]);
                }
                Step::Field { name } => {
                    let value = streams.next().map(|stream| field(stream, column, at));
                    if let Some(value) = value.transpose()?.flatten() {
                        begin_field(out, value.kind(), name);
                        out.extend_from_slice(value.bytes());
                    }
                }
                Step::Leave => {
                    let (before, start, stays) = self.open.pop().unwrap_or_default();
                    if out.len() == start + 4 && !stays {
                        out.truncate(before);
                    } else {
                        end_document(out, start);
                    }
                }
            }
        }
        if out.len() == 4 {
            return Ok(Some(None));
        }
        end_document(out, 0);
        let bytes = Bytes::Built(out.as_slice().into());
        Ok(Some(Some(ColumnValue::new(self.kind, bytes))))
    }
}

/// The value of a stream in this row.
fn field<'a>(
    stream: &mut Stream<'a>,
    column: &'a [u8],
    at: &mut usize,
) -> Result<Option<ColumnValue<'a>>> {
    if let Some(value) = stream.next()? {
        return Ok(value);
    }
    let is_literal = column.get(*at).is_some_and(|control| *control < 0x20);
    *at = stream.load(column, *at)?;
    if is_literal {
        return Ok(Some(stream.last()));
    }
    let empty = || ColumnError::new("a block without values", *at);
    stream.next()?.ok_or_else(empty)
}

fn begin_field(out: &mut Vec<u8>, kind: u8, name: &[u8]) {
    out.push(kind);
    out.extend_from_slice(name);
    out.push(0);
}

/// Writes a document's end, and its length at its start.
fn end_document(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
