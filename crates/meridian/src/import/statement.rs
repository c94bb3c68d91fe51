//! Documents into messages: one `insert`, `update` or `delete` for a batch.

use std::sync::Arc;

use anyhow::Context;
use bson::oid::ObjectId;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use meridian_bench::client::SequenceMessage;

use super::ImportArgs;
use super::arguments::{Mode, Target};
use super::outcome::Outcome;
use super::sender::{Batch, Sender};

/// A message is sent before it grows beyond this, whatever the number of documents.
const MESSAGE_BYTES_MAX: usize = 24 << 20;
/// The largest document that a server stores.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Gathers documents and sends them a batch at a time.
pub struct Writer {
    mode: Mode,
    body: RawDocumentBuf,
    upsert_fields: Vec<String>,
    batch_size: usize,
    message: Option<SequenceMessage>,
    lines: Vec<u64>,
    message_bytes: usize,
    scratch: Vec<u8>,
    sender: Sender,
}

impl Writer {
    /// Documents will go to `target` the way the arguments say.
    pub fn new(args: &ImportArgs, target: &Target, sender: Sender) -> Self {
        let mut body = match args.mode {
            Mode::Insert => rawdoc! { "insert": target.collection.as_str() },
            Mode::Upsert | Mode::Merge => rawdoc! { "update": target.collection.as_str() },
            Mode::Delete => rawdoc! { "delete": target.collection.as_str() },
        };
        body.append(bson::cstr!("$db"), target.database.as_str());
        body.append(bson::cstr!("ordered"), args.stops_on_error());
        if args.bypass_document_validation && args.mode != Mode::Delete {
            body.append(bson::cstr!("bypassDocumentValidation"), true);
        }
        Self {
            mode: args.mode,
            body,
            upsert_fields: args.upsert_fields.clone(),
            batch_size: args.batch_size as usize,
            message: None,
            lines: Vec::with_capacity(args.batch_size as usize),
            message_bytes: 64 << 10,
            scratch: Vec::new(),
            sender,
        }
    }

    /// Adds the document that `write` appends to a buffer; a reason instead of a document is reported.
    ///
    /// # Errors
    /// When sending has failed for a reason that is no row's.
    pub fn add(
        &mut self,
        line: u64,
        outcome: &Arc<Outcome>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> anyhow::Result<()> {
        let message = self.message.get_or_insert_with(|| {
            SequenceMessage::new(
                &self.body,
                sequence_name(self.mode),
                self.message_bytes + self.message_bytes / 8,
            )
        });
        let scratch = &mut self.scratch;
        let (mode, fields) = (self.mode, &self.upsert_fields);
        let appended = message.append(|out| {
            if mode == Mode::Insert {
                let start = out.len();
                write(out)?;
                return check_size(out.len() - start);
            }
            scratch.clear();
            write(scratch)?;
            check_size(scratch.len())?;
            out.extend_from_slice(statement(mode, fields, scratch)?.as_bytes());
            Ok(())
        });
        match appended {
            Ok(()) => self.lines.push(line),
            Err(reason) => outcome.failed(line, &reason),
        }
        if message.count() >= self.batch_size || message.len_bytes() >= MESSAGE_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let Some(message) = self.message.take().filter(|message| message.count() > 0) else {
            return Ok(());
        };
        self.message_bytes = message.len_bytes();
        let lines = std::mem::replace(&mut self.lines, Vec::with_capacity(self.batch_size));
        self.sender.send(Batch {
            message: message.finish(),
            lines,
        })
    }

    /// Sends what is left and waits until everything is acknowledged.
    ///
    /// # Errors
    /// When sending fails.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let flushed = self.flush();
        self.sender.finish()?;
        flushed.context("the last batch was not sent")
    }
}

fn sequence_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Insert => "documents",
        Mode::Upsert | Mode::Merge => "updates",
        Mode::Delete => "deletes",
    }
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(format!(
            "the document has {bytes} bytes; the most is {DOCUMENT_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// One entry of `updates` or `deletes` for a document.
fn statement(mode: Mode, fields: &[String], document: &[u8]) -> Result<RawDocumentBuf, String> {
    let document = RawDocument::from_bytes(document).map_err(|error| error.to_string())?;
    let filter = identifying_filter(fields, document)?;
    Ok(match (mode, filter) {
        (Mode::Delete, Some(filter)) => rawdoc! { "q": filter, "limit": 1 },
        (Mode::Delete, None) => return Err(format!("the document lacks {}", fields.join(", "))),
        (Mode::Merge, Some(filter)) => {
            let set = rawdoc! { "$set": document.to_owned() };
            rawdoc! { "q": filter, "u": set, "upsert": true }
        }
        // Inserts need no statement: their documents go out as they are.
        (Mode::Upsert | Mode::Insert, Some(filter)) => {
            rawdoc! { "q": filter, "u": document.to_owned(), "upsert": true }
        }
        // As mongoimport: what cannot be identified is new. A fresh key makes the upsert an insert.
        (_, None) => {
            let filter = rawdoc! { "_id": ObjectId::new() };
            rawdoc! { "q": filter, "u": document.to_owned(), "upsert": true }
        }
    })
}

/// The document's values of the identifying fields; `None` when it lacks one.
fn identifying_filter(
    fields: &[String],
    document: &RawDocument,
) -> Result<Option<RawDocumentBuf>, String> {
    let mut filter = RawDocumentBuf::new();
    for field in fields {
        let Some(value) = get_path(document, field).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let name =
            bson::raw::CString::try_from(field.as_str()).map_err(|error| error.to_string())?;
        filter.append(&*name, value);
    }
    Ok(Some(filter))
}

fn get_path<'a>(
    document: &'a RawDocument,
    path: &str,
) -> bson::error::Result<Option<RawBsonRef<'a>>> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => match document.get(first)? {
            Some(RawBsonRef::Document(inner)) => get_path(inner, rest),
            _ => Ok(None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    fn entry(
        mode: Mode,
        fields: &[&str],
        document: &bson::Document,
    ) -> Result<bson::Document, String> {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let raw = RawDocumentBuf::try_from(document).expect("encodes");
        statement(mode, &fields, raw.as_bytes()).map(|entry| (&entry).try_into().expect("valid"))
    }

    #[test]
    fn documents_become_statements() {
        let document = doc! { "a": { "b": 1 }, "c": 2 };
        assert_eq!(
            entry(Mode::Upsert, &["a.b"], &document),
            Ok(doc! { "q": { "a.b": 1 }, "u": document.clone(), "upsert": true })
        );
        assert_eq!(
            entry(Mode::Merge, &["c"], &document),
            Ok(doc! { "q": { "c": 2 }, "u": { "$set": document.clone() }, "upsert": true })
        );
        assert_eq!(
            entry(Mode::Delete, &["c"], &document),
            Ok(doc! { "q": { "c": 2 }, "limit": 1 })
        );
        assert!(entry(Mode::Delete, &["_id"], &document).is_err());
        let fresh = entry(Mode::Upsert, &["_id"], &document).expect("an insert");
        assert!(
            fresh
                .get_document("q")
                .expect("filter")
                .get_object_id("_id")
                .is_ok()
        );
    }
}
