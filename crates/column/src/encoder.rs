//! The writer of a column.

use crate::bytes::{check, is_container, is_empty};
use crate::encode::Stream;
use crate::error::{ColumnError, Result};
use crate::merge::{for_scalars, has_empty, has_scalars, has_scalars_at_most, match_up, merge};
use crate::sink::Sink;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Encodes the values of a column, row by row. Its bytes are those of MongoDB 6.0.5.
///
/// Documents and arrays are interleaved: some are gathered to find the fields they have together, then each field is a
/// stream of its own. See [`ColumnDecoder`](crate::ColumnDecoder) for an example.
#[derive(Debug)]
pub struct ColumnEncoder {
    stream: Stream,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    /// Values go to the stream.
    Plain,
    /// Documents are gathered, until their reference is known.
    Gathering {
        kind: u8,
        reference: Vec<u8>,
        /// A row without one is an empty document.
        documents: Vec<Vec<u8>>,
    },
    /// Fields go to a stream each.
    Interleaved {
        kind: u8,
        reference: Vec<u8>,
        fields: Vec<Stream>,
    },
}

/// Streams of interleaved mode, at most: each takes about a kilobyte. Documents with more scalars are literals.
const FIELDS_MAX: usize = 10_000;
/// A document without fields.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

impl Default for ColumnEncoder {
    fn default() -> Self {
        Self::reusing(Vec::new())
    }
}

impl ColumnEncoder {
    /// In memory whose content is not needed any more.
    pub fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self {
            stream: Stream::new(Sink::after(bytes)),
            mode: Mode::Plain,
        }
    }

    /// Appends a row with a value: its type byte, and its bytes as they stand in a document.
    ///
    /// # Errors
    /// Malformed values, and `MinKey` and `MaxKey`, whose type bytes a column has other uses for: MongoDB leaves
    /// buckets with those as they are. The column is as it was before.
    #[inline]
    pub fn push(&mut self, kind: u8, value: &[u8]) -> Result<()> {
        let length = match kind {
            0x01 | 0x09 | 0x11 | 0x12 => 8,
            0x10 => 4,
            _ => return self.push_any(kind, value),
        };
        if value.len() != length {
            return Err(ColumnError::new("a number of a wrong length", 0));
        }
        self.end_documents();
        self.stream.push(kind, value);
        Ok(())
    }

    /// Appends a row without a value.
    #[inline]
    pub fn skip(&mut self) {
        match &mut self.mode {
            Mode::Plain => {}
            // A document that is always there cannot be missing.
            Mode::Gathering { reference, .. } | Mode::Interleaved { reference, .. }
                if has_empty(reference) =>
            {
                self.end_documents();
            }
            Mode::Gathering { documents, .. } => return documents.push(EMPTY.to_vec()),
            Mode::Interleaved { fields, .. } => return fields.iter_mut().for_each(Stream::skip),
        }
        self.stream.skip();
    }

    /// The column's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.end_documents();
        self.stream.flush();
        let mut bytes = self.stream.sink.bytes;
        bytes.push(0);
        bytes
    }

    fn push_any(&mut self, kind: u8, value: &[u8]) -> Result<()> {
        if matches!(kind, 0x7F | 0xFF) {
            return Err(ColumnError::new(
                "a MinKey or MaxKey, which columns cannot hold,",
                0,
            ));
        }
        check(kind, value, 0)?;
        if is_container(kind) && !is_empty(value) {
            self.push_document(kind, value);
        } else {
            self.end_documents();
            self.stream.push(kind, value);
        }
        Ok(())
    }

    fn push_document(&mut self, kind: u8, value: &[u8]) {
        if let Mode::Gathering {
            kind: own,
            reference,
            documents,
        } = &mut self.mode
            && *own == kind
        {
            let mut scalars = 0;
            if !match_up(reference, value, &mut |_, _| scalars += 1) {
                match merge(reference, value)
                    .filter(|merged| has_scalars_at_most(merged, FIELDS_MAX))
                {
                    Some(merged) => *reference = merged,
                    None => return self.restart(kind, value),
                }
            }
            // Enough of them make the reference worth its bytes.
            if scalars * 2 >= documents.len() {
                return documents.push(value.to_vec());
            }
            self.interleave();
        }
        match &mut self.mode {
            Mode::Interleaved {
                kind: own,
                reference,
                fields,
            } if *own == kind => {
                if !push_fields(reference, value, fields) {
                    self.restart(kind, value);
                }
            }
            _ => self.restart(kind, value),
        }
    }

    /// Ends the documents before, and begins others with this one.
    fn restart(&mut self, kind: u8, value: &[u8]) {
        self.end_documents();
        if !has_scalars(value) || !has_scalars_at_most(value, FIELDS_MAX) {
            return self.stream.push(kind, value);
        }
        self.stream.flush();
        let mut sink = std::mem::take(&mut self.stream.sink);
        sink.end_block();
        self.stream = Stream::new(sink);
        self.mode = Mode::Gathering {
            kind,
            reference: value.to_vec(),
            documents: vec![value.to_vec()],
        };
    }

    /// Takes the reference as it is, and distributes the documents that were gathered.
    fn interleave(&mut self) {
        let gathered = match std::mem::replace(&mut self.mode, Mode::Plain) {
            Mode::Gathering {
                kind,
                reference,
                documents,
            } => (kind, reference, documents),
            other => return self.mode = other,
        };
        let (kind, reference, documents) = gathered;
        let out = &mut self.stream.sink.bytes;
        out.push(if kind == 0x04 { 0xF2 } else { 0xF1 });
        out.extend_from_slice(&reference);
        let mut fields = Vec::new();
        for_scalars(&reference, &mut |scalar| {
            let mut field = Stream::new(Sink::in_parts());
            field.start_from(scalar.kind, scalar.value);
            fields.push(field);
        });
        for document in &documents {
            let fits = push_fields(&reference, document, &mut fields);
            debug_assert!(fits, "the reference was merged of the documents");
        }
        self.mode = Mode::Interleaved {
            kind,
            reference,
            fields,
        };
    }

    #[inline]
    fn end_documents(&mut self) {
        if !matches!(self.mode, Mode::Plain) {
            self.write_documents();
        }
    }

    #[cold]
    fn write_documents(&mut self) {
        self.interleave();
        if let Mode::Interleaved { fields, .. } = std::mem::replace(&mut self.mode, Mode::Plain) {
            write_parts(fields, &mut self.stream.sink.bytes);
        }
    }
}

/// Appends a document's scalars to the streams of those of the reference; false, and nothing is appended, where it
/// does not fit.
fn push_fields(reference: &[u8], document: &[u8], fields: &mut [Stream]) -> bool {
    if !match_up(reference, document, &mut |_, _| {}) {
        return false;
    }
    let mut fields = fields.iter_mut();
    match_up(
        reference,
        document,
        &mut |_, own| match (fields.next(), own) {
            (Some(field), Some(own)) => field.push(own.kind, own.value),
            (Some(field), None) => field.skip(),
            (None, _) => {}
        },
    )
}

/// Writes the streams' literals and blocks in the order in which a reader needs them: always that of the stream which
/// has the fewest rows yet, of several the first one's.
fn write_parts(mut fields: Vec<Stream>, out: &mut Vec<u8>) {
    for field in &mut fields {
        field.flush();
        field.sink.end_block();
    }
    let mut next: BinaryHeap<_> = (0..fields.len())
        .map(|field| Reverse((0, field, 0, 0)))
        .collect();
    while let Some(Reverse((_, field, part, start))) = next.pop() {
        let sink = &fields[field].sink;
        let Some(written) = sink.parts.as_ref().and_then(|parts| parts.get(part)) else {
            continue;
        };
        out.extend_from_slice(&sink.bytes[start..written.end]);
        next.push(Reverse((written.rows, field, part + 1, written.end)));
    }
    out.push(0);
}
