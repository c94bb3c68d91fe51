//! Requests: OP_MSG with its sections, and the legacy OP_QUERY.

use crate::check::{Text, as_document, check_structure, split_document};
use crate::error::{BrokenFrame, InvalidDocument, RequestError};
use crate::frame::{HEADER_BYTES, read_i32};
use crate::text::escape_document;
use bson::raw::RawDocument;
use meridian_value::text::is_marked;

const FLAG_CHECKSUM: u32 = 1;
const FLAG_MORE_TO_COME: u32 = 1 << 1;
/// Bits 0 to 15 must be understood; the upper half (`exhaustAllowed` among them) is optional.
const FLAGS_REQUIRED: u32 = 0xffff;
const SECTION_BODY: u8 = 0;
const SECTION_SEQUENCE: u8 = 1;

/// What a client asked, borrowed from the receive buffer.
#[derive(Debug)]
pub enum Request<'a> {
    /// OP_MSG.
    Message(Message<'a>),
    /// OP_QUERY.
    Query(LegacyQuery<'a>),
}

/// OP_MSG: a command, and the documents that travel beside it.
#[derive(Debug)]
pub struct Message<'a> {
    /// The command document.
    pub body: &'a RawDocument,
    /// The document sequences, each standing for an array field of the command.
    pub sequences: Vec<Sequence<'a>>,
    /// The sender wants no reply.
    pub more_to_come: bool,
    /// The sender sent a checksum, so a reply carries one too.
    pub checksum: bool,
}

impl<'a> Message<'a> {
    /// The sequence with this identifier.
    pub fn sequence(&self, identifier: &str) -> Option<&Sequence<'a>> {
        self.sequences
            .iter()
            .find(|sequence| sequence.identifier == identifier)
    }
}

/// A document sequence: well-formed documents back to back.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// The name of the array field that it stands for.
    pub identifier: &'a str,
    /// How many documents there are.
    pub count: usize,
    bytes: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// The documents in order, borrowed from the receive buffer.
    pub fn documents(&self) -> SequenceDocuments<'a> {
        SequenceDocuments {
            rest: self.bytes,
            left: self.count,
        }
    }
}

/// Iterates a [`Sequence`].
#[derive(Debug, Clone)]
pub struct SequenceDocuments<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for SequenceDocuments<'a> {
    type Item = &'a RawDocument;

    fn next(&mut self) -> Option<Self::Item> {
        let (document, rest) = split_document(self.rest).ok()?;
        self.rest = rest;
        self.left -= 1;
        Some(RawDocument::from_bytes(document).expect("checked when the sequence was parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SequenceDocuments<'_> {}

/// OP_QUERY: only its namespace and document matter today.
#[derive(Debug)]
pub struct LegacyQuery<'a> {
    /// `database.collection`; a command if the collection is `$cmd`.
    pub namespace: &'a str,
    /// The query or command.
    pub document: &'a RawDocument,
}

pub(crate) fn parse_message<'a>(
    frame: &'a [u8],
    rewritten: &'a mut Vec<u8>,
) -> Result<Message<'a>, RequestError> {
    let flags = read_i32(frame, HEADER_BYTES, "flags")?.cast_unsigned();
    let unknown = flags & FLAGS_REQUIRED & !(FLAG_CHECKSUM | FLAG_MORE_TO_COME);
    if unknown != 0 {
        return Err(BrokenFrame::Flags(unknown).into());
    }
    let checksum = flags & FLAG_CHECKSUM != 0;
    let end = if checksum {
        check_crc(frame)?
    } else {
        frame.len()
    };
    let sections = frame
        .get(HEADER_BYTES + 4..end)
        .ok_or(BrokenFrame::Truncated("sections"))?;
    let Sections { body, sequences } = Sections::parse_checked(sections, rewritten)?;
    let body = as_document(body)?;
    let more_to_come = flags & FLAG_MORE_TO_COME != 0;
    Ok(Message {
        body,
        sequences,
        more_to_come,
        checksum,
    })
}

/// Verifies the last four bytes; returns where the sections end.
fn check_crc(frame: &[u8]) -> Result<usize, BrokenFrame> {
    let end = frame.len().saturating_sub(4).max(HEADER_BYTES + 4);
    let found = read_i32(frame, end, "checksum")?.cast_unsigned();
    let expected = crc32c::crc32c(&frame[..end]);
    if found != expected {
        return Err(BrokenFrame::Checksum { expected, found });
    }
    Ok(end)
}

/// A message's sections, of which only the lengths of body and sequences were looked at.
struct Sections<'a> {
    body: &'a [u8],
    sequences: Vec<Sequence<'a>>,
}

impl<'a> Sections<'a> {
    /// The sections, well-formed and with all text in its form.
    fn parse_checked(bytes: &'a [u8], rewritten: &'a mut Vec<u8>) -> Result<Self, RequestError> {
        let mut sections = Self::parse(bytes)?;
        if sections.check()? == Text::Other || is_marked(bytes) {
            sections.rewrite(rewritten)?;
            sections = Self::parse(rewritten)?;
            sections.check()?;
        }
        Ok(sections)
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, BrokenFrame> {
        let mut rest = bytes;
        let mut body = None;
        let mut sequences: Vec<Sequence<'_>> = Vec::new();
        while let Some((&kind, section)) = rest.split_first() {
            rest = match kind {
                SECTION_BODY if body.is_some() => return Err(BrokenFrame::Body),
                SECTION_BODY => {
                    // A body whose length is wrong breaks the frame: what follows cannot be found.
                    let (bytes, after) =
                        split_document(section).map_err(|_| BrokenFrame::Truncated("body"))?;
                    body = Some(bytes);
                    after
                }
                SECTION_SEQUENCE => {
                    let (sequence, after) = parse_sequence(section)?;
                    if sequences
                        .iter()
                        .any(|other| other.identifier == sequence.identifier)
                    {
                        let name = sequence.identifier.to_owned();
                        return Err(BrokenFrame::DuplicateSequence(name));
                    }
                    sequences.push(sequence);
                    after
                }
                other => return Err(BrokenFrame::SectionKind(other)),
            };
        }
        let body = body.ok_or(BrokenFrame::Body)?;
        Ok(Self { body, sequences })
    }

    /// Checks that the documents are well-formed, and counts them.
    fn check(&mut self) -> Result<Text, InvalidDocument> {
        let mut text = check_structure(self.body)?;
        for sequence in &mut self.sequences {
            let (count, found) = check_sequence(sequence.bytes)?;
            sequence.count = count;
            text = text.max(found);
        }
        Ok(text)
    }

    /// Writes the sections with all text in its form.
    fn rewrite(&self, out: &mut Vec<u8>) -> Result<(), InvalidDocument> {
        out.clear();
        out.push(SECTION_BODY);
        escape_document(self.body, out)?;
        for sequence in &self.sequences {
            out.push(SECTION_SEQUENCE);
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(sequence.identifier.as_bytes());
            out.push(0);
            for document in sequence.documents() {
                escape_document(document.as_bytes(), out)?;
            }
            let length = i32::try_from(out.len() - start).expect("bounded as messages are");
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }
}

fn parse_sequence(section: &[u8]) -> Result<(Sequence<'_>, &[u8]), BrokenFrame> {
    let size = usize::try_from(read_i32(section, 0, "document sequence")?)
        .ok()
        .filter(|size| (5..=section.len()).contains(size))
        .ok_or(BrokenFrame::Truncated("document sequence"))?;
    let (section, after) = section.split_at(size);
    let (identifier, bytes) = split_name(&section[4..], "sequence identifier")?;
    Ok((
        Sequence {
            identifier,
            count: 0,
            bytes,
        },
        after,
    ))
}

fn check_sequence(mut rest: &[u8]) -> Result<(usize, Text), InvalidDocument> {
    let (mut count, mut text) = (0, Text::Utf8);
    while !rest.is_empty() {
        let (document, after) = split_document(rest)?;
        text = text.max(check_structure(document)?);
        rest = after;
        count += 1;
    }
    Ok((count, text))
}

pub(crate) fn parse_query<'a>(
    body: &'a [u8],
    rewritten: &'a mut Vec<u8>,
) -> Result<LegacyQuery<'a>, RequestError> {
    let after_flags = body.get(4..).ok_or(BrokenFrame::Truncated("flags"))?;
    let (namespace, rest) = split_name(after_flags, "collection name")?;
    let documents = rest
        .get(8..)
        .ok_or(BrokenFrame::Truncated("skip and limit"))?;
    // A second document may follow: fields to return, which a command has no use for.
    let (mut document, _) =
        split_document(documents).map_err(|_| BrokenFrame::Truncated("query document"))?;
    if check_structure(document)? == Text::Other || is_marked(document) {
        rewritten.clear();
        escape_document(document, rewritten)?;
        document = rewritten;
    }
    Ok(LegacyQuery {
        namespace,
        document: as_document(document)?,
    })
}

fn split_name<'a>(bytes: &'a [u8], what: &'static str) -> Result<(&'a str, &'a [u8]), BrokenFrame> {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .ok_or(BrokenFrame::Truncated(what))?;
    let name = std::str::from_utf8(&bytes[..end]).map_err(|_| BrokenFrame::Utf8(what))?;
    Ok((name, &bytes[end + 1..]))
}
