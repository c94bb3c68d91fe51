//! A client that costs next to nothing: pre-encoded `OP_MSG` over a plain socket.
//!
//! In: whole messages. Out: replies as bytes, decoded only where asked. It
//! exists so that a benchmark measures the server and not the client, and so
//! that an import spends its time on converting rows. Deliberately absent:
//! TLS, authentication, compression, retries, server selection. For those there
//! is the official driver.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail};
use bson::{RawArray, RawDocument, RawDocumentBuf, rawdoc};

use crate::encode::document;

/// A frame: length, request id, response to, operation code.
const HEADER_BYTES: usize = 16;
/// `OP_MSG`.
const OPERATION_MESSAGE: i32 = 2013;
/// What a message starts with: a header to be filled in, no flags, the mark of a body.
const MESSAGE_START: [u8; SECTIONS_AT + 1] = {
    let mut start = [0; SECTIONS_AT + 1];
    let operation = OPERATION_MESSAGE.to_le_bytes();
    (start[12], start[13]) = (operation[0], operation[1]);
    start
};
/// The most that a server sends or takes in one message.
const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// Where flags end and sections start.
const SECTIONS_AT: usize = HEADER_BYTES + 4;

/// More than a cursor's reply has: a batch holds 16 MiB of documents at most.
pub const REPLY_BYTES: usize = 17 << 20;

/// What a connection's buffer holds before a longer reply comes.
const BUFFER_BYTES: usize = 16 << 10;

/// One connection to a server that speaks MongoDB's protocol.
pub struct Client {
    stream: TcpStream,
    /// The reply that was lent last, and what was read after it.
    buffer: Vec<u8>,
    lent_bytes: usize,
    filled_bytes: usize,
}

impl Client {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(address: &str) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            lent_bytes: 0,
            filled_bytes: 0,
        })
    }

    /// Fails a read or write that takes longer than `timeout`.
    ///
    /// # Errors
    /// When the operating system refuses the option.
    pub fn set_timeout(&self, timeout: Duration) -> anyhow::Result<()> {
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))?;
        Ok(())
    }

    /// Has memory for replies of so many bytes, as a connection that has seen such replies has.
    pub fn make_room(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            // Written to, so that the pages are there before a reply comes.
            self.buffer.resize(bytes, 0);
        }
    }

    /// Sends one encoded message and does not wait.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, message: &[u8]) -> anyhow::Result<()> {
        self.stream
            .write_all(message)
            .context("the server closed the connection while a message was sent")
    }

    /// Receives one reply and returns the whole frame undecoded. A short one costs one read.
    ///
    /// # Errors
    /// When the connection is gone or the frame is malformed.
    pub fn receive(&mut self) -> anyhow::Result<&[u8]> {
        self.buffer
            .copy_within(self.lent_bytes..self.filled_bytes, 0);
        self.filled_bytes -= self.lent_bytes;
        self.lent_bytes = 0;
        loop {
            let length = frame_bytes(&self.buffer[..self.filled_bytes])?;
            if let Some(length) = length {
                if length <= self.filled_bytes {
                    self.lent_bytes = length;
                    return Ok(&self.buffer[..length]);
                }
                if length > self.buffer.len() {
                    self.buffer.resize(length, 0);
                }
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> anyhow::Result<()> {
        match self.stream.read(&mut self.buffer[self.filled_bytes..]) {
            Ok(0) if self.filled_bytes == 0 => {
                bail!("the server closed the connection instead of replying")
            }
            Ok(0) => bail!("the server closed the connection within a reply"),
            Ok(bytes) => self.filled_bytes += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(explain_timeout(error)).context("a reply could not be read");
            }
        }
        Ok(())
    }

    /// Sends a message and returns the reply's document, borrowed.
    ///
    /// # Errors
    /// As [`Client::send`] and [`Client::receive`].
    pub fn call(&mut self, message: &[u8]) -> anyhow::Result<&RawDocument> {
        self.send(message)?;
        reply_document(self.receive()?)
    }

    /// Runs a command; a reply that is not ok is an error with the server's message.
    ///
    /// # Errors
    /// As [`Client::call`], and when the command failed.
    pub fn command(&mut self, body: &RawDocument) -> anyhow::Result<RawDocumentBuf> {
        let reply = self.call(&command_message(body))?;
        check_ok(reply)?;
        Ok(reply.to_owned())
    }

    /// Runs a command that opens a cursor, and the cursor to its end: `each` gets the documents batch by batch.
    ///
    /// # Errors
    /// As [`Client::command`], and what `each` returns.
    pub fn each_batch(
        &mut self,
        command: &RawDocument,
        mut each: impl FnMut(&RawArray) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut message = command_message(command);
        let mut field = "firstBatch";
        loop {
            let reply = self.call(&message)?;
            check_ok(reply)?;
            let cursor = reply.get_document("cursor")?;
            each(cursor.get_array(field)?)?;
            let id = cursor.get_i64("id")?;
            if id == 0 {
                return Ok(());
            }
            let namespace = cursor.get_str("ns")?.split_once('.');
            let (database, collection) = namespace.context("a cursor without a namespace")?;
            message = command_message(
                &rawdoc! { "getMore": id, "collection": collection, "$db": database },
            );
            field = "nextBatch";
        }
    }
}

/// A socket's timeout, in words: the operating system calls it "temporarily unavailable".
pub fn explain_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "no reply came in time")
        }
        _ => error,
    }
}

/// How long the frame is that `bytes` starts with; nothing before that can be told.
fn frame_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(0);
    if !(SECTIONS_AT..=MESSAGE_BYTES_MAX).contains(&length) {
        bail!("the server sent a frame of {length} bytes");
    }
    Ok(Some(length))
}

/// The body document of a reply frame.
///
/// # Errors
/// When the frame is not an `OP_MSG` with a body section.
pub fn reply_document(frame: &[u8]) -> anyhow::Result<&RawDocument> {
    let operation = i32::from_le_bytes(frame[12..16].try_into().expect("four bytes"));
    if operation != OPERATION_MESSAGE || frame.get(SECTIONS_AT) != Some(&0) {
        bail!("the server replied with operation {operation}, not with a plain OP_MSG");
    }
    RawDocument::from_bytes(&frame[SECTIONS_AT + 1..]).context("the reply is not a BSON document")
}

/// Fails unless the reply says `ok: 1` and lists no write errors.
///
/// # Errors
/// With the server's own message.
pub fn check_ok(reply: &RawDocument) -> anyhow::Result<()> {
    let ok = match reply.get("ok")? {
        Some(bson::RawBsonRef::Double(ok)) => ok == 1.0,
        Some(bson::RawBsonRef::Int32(ok)) => ok == 1,
        _ => false,
    };
    if !ok {
        bail!(
            "the server refused: {} (code {})",
            reply.get_str("errmsg").unwrap_or("no message"),
            reply.get_i32("code").unwrap_or(0)
        );
    }
    if let Ok(Some(bson::RawBsonRef::Array(errors))) = reply.get("writeErrors")
        && let Some(Ok(bson::RawBsonRef::Document(first))) = errors.into_iter().next()
    {
        bail!(
            "a write failed: {}",
            first.get_str("errmsg").unwrap_or("no message")
        );
    }
    Ok(())
}

/// Encodes a command, which must contain `$db`, as one message.
pub fn command_message(body: &RawDocument) -> Vec<u8> {
    let mut message = start_message(body, body.as_bytes().len());
    finish_message(&mut message);
    message
}

/// Encodes a command into `message`, whose room is used again; `body` appends the document, which must contain `$db`.
pub fn write_command(message: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    message.clear();
    message.extend_from_slice(&MESSAGE_START);
    body(message);
    finish_message(message);
}

/// A command with a document sequence (`insert`'s `documents`, `update`'s `updates`, `delete`'s
/// `deletes`) under construction: documents are appended as raw bytes.
pub struct SequenceMessage {
    message: Vec<u8>,
    sequence_at: usize,
    count: usize,
}

impl SequenceMessage {
    /// Starts a command whose body (with `$db`, without the sequence called `name`) is given.
    pub fn new(body: &RawDocument, name: &str, capacity_bytes: usize) -> Self {
        let mut message = start_message(body, capacity_bytes);
        message.push(1);
        let sequence_at = message.len();
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(name.as_bytes());
        message.push(0);
        Self {
            message,
            sequence_at,
            count: 0,
        }
    }

    /// Appends one document with `write`, which gets the message's buffer to append to.
    /// When `write` fails nothing is appended.
    ///
    /// # Errors
    /// What `write` returns.
    pub fn append<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.message.len();
        match write(&mut self.message) {
            Ok(()) => {
                self.count += 1;
                Ok(())
            }
            Err(error) => {
                self.message.truncate(before);
                Err(error)
            }
        }
    }

    /// Documents so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes so far.
    pub fn len_bytes(&self) -> usize {
        self.message.len()
    }

    /// The finished message.
    pub fn finish(mut self) -> Vec<u8> {
        let sequence_bytes = (self.message.len() - self.sequence_at) as i32;
        self.message[self.sequence_at..self.sequence_at + 4]
            .copy_from_slice(&sequence_bytes.to_le_bytes());
        finish_message(&mut self.message);
        self.message
    }
}

/// Makes `out` one message, of whose body `elements` appends the elements, `$db` included.
pub fn write_message(out: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    write_command(out, |out| document(out, elements));
}

/// Makes `out` one message with a sequence called `name` of the one document that `one` appends.
pub fn write_sequence_message(
    out: &mut Vec<u8>,
    elements: impl FnOnce(&mut Vec<u8>),
    name: &str,
    one: impl FnOnce(&mut Vec<u8>),
) {
    out.clear();
    out.extend_from_slice(&MESSAGE_START);
    document(out, elements);
    out.push(1);
    let sequence_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    one(out);
    let sequence_bytes = (out.len() - sequence_at) as i32;
    out[sequence_at..sequence_at + 4].copy_from_slice(&sequence_bytes.to_le_bytes());
    finish_message(out);
}

fn start_message(body: &RawDocument, capacity_bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(SECTIONS_AT + 1 + body.as_bytes().len() + capacity_bytes);
    message.extend_from_slice(&MESSAGE_START);
    message.extend_from_slice(body.as_bytes());
    message
}

fn finish_message(message: &mut [u8]) {
    let total = message.len() as i32;
    message[..4].copy_from_slice(&total.to_le_bytes());
    // One request is under way at a time and replies come in order, so the id need not be unique.
    message[4..8].copy_from_slice(&1i32.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn an_insert_message_carries_its_lengths() {
        let body = rawdoc! { "insert": "events", "$db": "weather" };
        let document = rawdoc! { "a": 1 };
        let mut insert = SequenceMessage::new(&body, "documents", 100);
        insert
            .append(|out| {
                out.extend_from_slice(document.as_bytes());
                Ok::<_, ()>(())
            })
            .expect("appends");
        assert!(
            insert
                .append(|out| {
                    out.push(7);
                    Err(())
                })
                .is_err()
        );
        assert_eq!(insert.count(), 1);
        let message = insert.finish();
        assert_eq!(
            i32::from_le_bytes(message[..4].try_into().expect("4")) as usize,
            message.len()
        );
        let sequence_at = SECTIONS_AT + 1 + body.as_bytes().len();
        assert_eq!(message[sequence_at], 1);
        let sequence_bytes = i32::from_le_bytes(
            message[sequence_at + 1..sequence_at + 5]
                .try_into()
                .expect("4"),
        ) as usize;
        assert_eq!(sequence_at + 1 + sequence_bytes, message.len());
        assert!(message.ends_with(document.as_bytes()));
    }

    #[test]
    fn replies_are_told_apart_however_they_arrive() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("address").to_string();
        let replies: Vec<Vec<u8>> = [10, 40_000, 3]
            .map(|length| command_message(&rawdoc! { "ok": 1, "text": "x".repeat(length) }))
            .into();
        let mut bytes = replies.concat();
        bytes.extend_from_slice(&1000i32.to_le_bytes());
        let sender = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepts");
            for piece in bytes.chunks(777) {
                stream.write_all(piece).expect("sends");
            }
        });
        let mut client = Client::connect(&address).expect("connects");
        for reply in &replies {
            assert_eq!(client.receive().expect("a reply"), reply);
        }
        let error = client.receive().expect_err("cut off").to_string();
        assert!(error.contains("within a reply"), "{error}");
        sender.join().expect("sent");
    }

    #[test]
    fn failures_in_replies_are_found() {
        assert!(check_ok(&rawdoc! { "n": 1, "ok": 1.0 }).is_ok());
        let refused = check_ok(&rawdoc! { "ok": 0.0, "errmsg": "no such command", "code": 59 });
        assert!(
            refused
                .expect_err("refused")
                .to_string()
                .contains("no such command")
        );
        assert!(
            check_ok(
                &rawdoc! { "ok": 1.0, "writeErrors": [ { "index": 0, "errmsg": "duplicate" } ] }
            )
            .is_err()
        );
    }
}
