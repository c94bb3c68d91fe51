//! JSON: documents found in a stream, one by one, and read as extended JSON.

use std::io::BufRead;
use std::sync::Arc;

use anyhow::bail;
use bson::{Bson, RawDocumentBuf};

use super::ImportArgs;
use super::outcome::Outcome;
use super::statement::Writer;

/// No document's text is longer; canonical extended JSON is a few times its BSON.
const TEXT_BYTES_MAX: usize = 128 << 20;

/// Converts all documents.
///
/// # Errors
/// When reading or sending fails, or a JSON array is none.
pub fn import(
    args: &ImportArgs,
    mut input: impl BufRead,
    mut writer: Writer,
    outcome: &Arc<Outcome>,
) -> anyhow::Result<()> {
    let mut splitter = Splitter::new(args.json_array);
    let mut read_bytes = 0;
    let mut found = Vec::new();
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() || outcome.is_stopped() {
            break;
        }
        splitter.feed(chunk, &mut found);
        let length = chunk.len();
        input.consume(length);
        read_bytes += length as u64;
        outcome.read_to(read_bytes);
        write_found(&mut found, &mut writer, outcome)?;
    }
    if !outcome.is_stopped() {
        let end = splitter.finish(&mut found);
        write_found(&mut found, &mut writer, outcome)?;
        if let Err(reason) = end {
            writer.finish()?;
            bail!(reason);
        }
    }
    writer.finish()
}

fn write_found(
    found: &mut Vec<Found>,
    writer: &mut Writer,
    outcome: &Arc<Outcome>,
) -> anyhow::Result<()> {
    for Found { line, text } in found.drain(..) {
        if outcome.is_stopped() {
            break;
        }
        writer.add(line, outcome, |out| {
            out.extend_from_slice(document(&text?)?.as_bytes());
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads relaxed or canonical extended JSON.
fn document(text: &[u8]) -> Result<RawDocumentBuf, String> {
    let json: serde_json::Value =
        serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match Bson::try_from(json).map_err(|error| error.to_string())? {
        Bson::Document(document) => {
            RawDocumentBuf::try_from(&document).map_err(|error| error.to_string())
        }
        _ => Err("not a document".into()),
    }
}

/// A document's text, or why there is none, and the line it starts in.
struct Found {
    line: u64,
    text: Result<Vec<u8>, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between documents.
    Between,
    /// Within a document, outside a string.
    Inside,
    /// Within a string.
    Text,
    /// Behind a backslash within a string.
    Escape,
    /// Within something that is no document: until the end of the line.
    Garbage,
}

/// Finds the outermost `{…}` in a stream of bytes.
///
/// A document that is cut off costs only itself: a line that starts with `{` while another
/// document is still open ends that one as failed (documents within documents are indented
/// wherever JSON is written over several lines).
struct Splitter {
    is_array: bool,
    array_opened: bool,
    array_closed: bool,
    place: Place,
    depth: u32,
    line: u64,
    started_in: u64,
    at_line_start: bool,
    text: Vec<u8>,
}

impl Splitter {
    fn new(is_array: bool) -> Self {
        Self {
            is_array,
            array_opened: false,
            array_closed: false,
            place: Place::Between,
            depth: 0,
            line: 1,
            started_in: 1,
            at_line_start: true,
            text: Vec::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8], found: &mut Vec<Found>) {
        for &byte in bytes {
            self.step(byte, found);
            self.at_line_start = byte == b'\n';
            self.line += u64::from(byte == b'\n');
        }
    }

    fn step(&mut self, byte: u8, found: &mut Vec<Found>) {
        if byte == b'{' && self.at_line_start && self.depth > 0 && !self.is_array {
            self.fail(
                "the document is cut off: another starts before it ends",
                found,
            );
        }
        match self.place {
            Place::Between => self.between(byte, found),
            Place::Garbage if byte == b'\n' => self.place = Place::Between,
            Place::Garbage => {}
            Place::Inside => self.inside(byte, found),
            Place::Text | Place::Escape => {
                self.text.push(byte);
                self.place = match (self.place, byte) {
                    (Place::Text, b'"') => Place::Inside,
                    (Place::Text, b'\\') => Place::Escape,
                    _ => Place::Text,
                };
            }
        }
        if self.text.len() > TEXT_BYTES_MAX {
            self.fail("the document is too long, or cut off", found);
        }
    }

    fn between(&mut self, byte: u8, found: &mut Vec<Found>) {
        match byte {
            b'{' => {
                self.started_in = self.line;
                self.depth = 1;
                self.place = Place::Inside;
                self.text.push(byte);
            }
            b' ' | b'\t' | b'\r' | b'\n' | b',' | 0xef | 0xbb | 0xbf => {}
            b'[' if self.is_array && !self.array_opened => self.array_opened = true,
            b']' if self.is_array && self.array_opened => self.array_closed = true,
            _ => {
                self.started_in = self.line;
                let hint = if byte == b'[' {
                    " (an array? --jsonArray)"
                } else {
                    ""
                };
                self.fail(
                    &format!("{:?} where a document should start{hint}", char::from(byte)),
                    found,
                );
                self.place = Place::Garbage;
            }
        }
    }

    fn inside(&mut self, byte: u8, found: &mut Vec<Found>) {
        self.text.push(byte);
        match byte {
            b'"' => self.place = Place::Text,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    found.push(Found {
                        line: self.started_in,
                        text: Ok(std::mem::take(&mut self.text)),
                    });
                    self.place = Place::Between;
                }
            }
            _ => {}
        }
    }

    fn fail(&mut self, reason: &str, found: &mut Vec<Found>) {
        found.push(Found {
            line: self.started_in,
            text: Err(reason.to_owned()),
        });
        self.text.clear();
        self.depth = 0;
        self.place = Place::Between;
    }

    fn finish(&mut self, found: &mut Vec<Found>) -> Result<(), String> {
        if self.depth > 0 {
            self.fail(
                "the document is cut off: the input ends before it does",
                found,
            );
        }
        if self.is_array && !(self.array_opened && self.array_closed) {
            return Err("the input is not a JSON array: its [ or ] is missing".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    /// Each document, or why there is none, with the line it starts in.
    type Documents = Vec<(u64, Result<bson::Document, String>)>;

    fn split(text: &str, is_array: bool) -> (Documents, Result<(), String>) {
        let mut splitter = Splitter::new(is_array);
        let mut found = Vec::new();
        // Byte by byte: pieces may end anywhere.
        text.as_bytes()
            .chunks(1)
            .for_each(|chunk| splitter.feed(chunk, &mut found));
        let end = splitter.finish(&mut found);
        let read = |found: Found| {
            let document = found.text.and_then(|text| document(&text));
            (
                found.line,
                document.map(|raw| (&raw).try_into().expect("valid")),
            )
        };
        (found.into_iter().map(read).collect(), end)
    }

    #[test]
    fn documents_are_found_on_one_line_and_on_several() {
        let (found, end) = split(
            "{\"a\": 1} {\"a\": \"}{\\\"\"}\n\n{\n  \"a\": {\n    \"b\": [1]\n  }\n}\n",
            false,
        );
        assert_eq!(
            found,
            [
                (1, Ok(doc! { "a": 1 })),
                (1, Ok(doc! { "a": "}{\"" })),
                (3, Ok(doc! { "a": { "b": [1] } })),
            ]
        );
        assert_eq!(end, Ok(()));
    }

    #[test]
    fn extended_json_keeps_types() {
        let (found, _) = split(
            r#"{"d": {"$date": "1970-01-01T00:00:01Z"}, "l": {"$numberLong": "5"}}"#,
            false,
        );
        let expected = doc! { "d": bson::DateTime::from_millis(1000), "l": 5i64 };
        assert_eq!(found, [(1, Ok(expected))]);
    }

    #[test]
    fn a_broken_document_costs_only_itself() {
        let (found, _) = split(
            "{\"a\": 1\n{\"a\": 2}\nnonsense\n{\"a\": }\n{\"a\": 3}\n{\"a\":",
            false,
        );
        let numbers: Vec<(u64, bool)> = found
            .iter()
            .map(|(line, result)| (*line, result.is_ok()))
            .collect();
        assert_eq!(
            numbers,
            [
                (1, false),
                (2, true),
                (3, false),
                (4, false),
                (5, true),
                (6, false)
            ]
        );
    }

    #[test]
    fn an_array_must_be_one() {
        let (found, end) = split("[{\"a\": 1},\n{\"a\": 2}]", true);
        assert_eq!(found.len(), 2);
        assert_eq!(end, Ok(()));
        assert!(split("{\"a\": 1}", true).1.is_err());
        assert!(split("[{\"a\": 1}", true).1.is_err());
        let (found, _) = split("[{\"a\": 1}]", false);
        assert!(
            found[0]
                .1
                .as_ref()
                .expect_err("refused")
                .contains("--jsonArray")
        );
    }
}
