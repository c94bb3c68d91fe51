//! The like of [`crate::client`] for PostgreSQL: prepared statements over a plain socket.
//!
//! In: parameters in binary. Out: rows as bytes, looked at only where asked. It
//! speaks version 3 of the protocol as far as prepared statements go. Deliberately
//! absent: TLS, passwords, COPY, notices. For those there is the `postgres` crate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::client::explain_timeout;

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 196_608;
/// A message's type byte and its length.
const HEAD_BYTES: usize = 5;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;

/// Whom to connect to as whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainAddress {
    /// `host:port`.
    pub address: String,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
}

impl PlainAddress {
    /// Reads a URI or `name=value` parameters.
    ///
    /// # Errors
    /// For what a plain client cannot do: passwords, sockets.
    pub fn of(parameters: &str) -> anyhow::Result<Self> {
        let config: postgres::Config = parameters.parse()?;
        ensure!(
            config.get_password().is_none(),
            "passwords are not supported by the plain client"
        );
        let host = match config.get_hosts() {
            [postgres::config::Host::Tcp(host)] => host,
            _ => bail!("the plain client connects to one host by TCP"),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let user = config.get_user().unwrap_or("postgres");
        Ok(Self {
            address: format!("{host}:{port}"),
            user: user.to_owned(),
            database: config.get_dbname().unwrap_or(user).to_owned(),
        })
    }
}

/// One connection.
pub struct PostgresClient {
    stream: TcpStream,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl PostgresClient {
    /// Connects; the server must trust us.
    ///
    /// # Errors
    /// When nobody listens there, or the server wants a password.
    pub fn connect(to: &PlainAddress, timeout: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&to.address)
            .with_context(|| format!("cannot connect to {}", to.address))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut client = Self {
            stream,
            message: Vec::new(),
            reply: Vec::new(),
        };
        client.message.extend_from_slice(&[0; 4]);
        client.message.extend_from_slice(&PROTOCOL.to_be_bytes());
        for text in ["user", &to.user, "database", &to.database, ""] {
            put_text(text, &mut client.message);
        }
        let length = client.message.len() as i32;
        client.message[..4].copy_from_slice(&length.to_be_bytes());
        client.exchange()?;
        Ok(client)
    }

    /// Prepares a statement; the server finds its parameters' types.
    ///
    /// # Errors
    /// The server's.
    pub fn prepare(&mut self, name: &str, statement: &str) -> anyhow::Result<()> {
        self.message.clear();
        put_message(b'P', &mut self.message, |out| {
            put_text(name, out);
            put_text(statement, out);
            out.extend_from_slice(&[0; 2]);
        });
        put_message(b'S', &mut self.message, |_| ());
        self.exchange()
    }

    /// Makes the message that executes a prepared statement; [`PostgresClient::exchange`] sends it.
    pub fn encode_execute(&mut self, name: &str, parameters: &[&[u8]]) {
        self.message.clear();
        put_message(b'B', &mut self.message, |out| {
            put_text("", out);
            put_text(name, out);
            // All parameters are binary.
            out.extend_from_slice(&[0, 1, 0, 1]);
            out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
            for parameter in parameters {
                out.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
                out.extend_from_slice(parameter);
            }
            // So is what comes back.
            out.extend_from_slice(&[0, 1, 0, 1]);
        });
        put_message(b'E', &mut self.message, |out| {
            put_text("", out);
            out.extend_from_slice(&[0; 4]);
        });
        put_message(b'S', &mut self.message, |_| ());
    }

    /// Sends the message made last and waits until the server is ready again.
    ///
    /// # Errors
    /// The server's, and when the connection is gone.
    pub fn exchange(&mut self) -> anyhow::Result<()> {
        self.stream
            .write_all(&self.message)
            .context("the server closed the connection while a message was sent")?;
        self.reply.clear();
        let mut at = 0;
        let mut error = None;
        loop {
            while let Some(message) = message_at(&self.reply, at)? {
                match message.kind {
                    b'E' => error = error.or_else(|| Some(error_text(message.body))),
                    b'R' if message.body != [0; 4] => {
                        bail!("passwords are not supported by the plain client")
                    }
                    b'Z' => {
                        return error.map_or(Ok(()), |text| bail!("the server refused: {text}"));
                    }
                    _ => {}
                }
                at = message.end;
            }
            self.read()
                .with_context(|| error.take().unwrap_or_else(|| "no reply".into()))?;
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let before = self.reply.len();
        self.reply.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.reply[before..]);
        self.reply
            .truncate(before + read.as_ref().copied().unwrap_or(0));
        let bytes = read.map_err(explain_timeout)?;
        ensure!(bytes > 0, "the server closed the connection");
        Ok(())
    }

    /// The rows of the last reply, each as its fields.
    ///
    /// # Errors
    /// When a row is malformed.
    pub fn rows(&self) -> anyhow::Result<Vec<Vec<&[u8]>>> {
        let mut rows = Vec::new();
        let mut at = 0;
        while let Some(message) = message_at(&self.reply, at)? {
            if message.kind == b'D' {
                rows.push(fields(message.body).context("a row is cut off")?);
            }
            at = message.end;
        }
        Ok(rows)
    }
}

struct Message<'a> {
    kind: u8,
    body: &'a [u8],
    end: usize,
}

/// The message at a position, when it is there whole.
fn message_at(reply: &[u8], at: usize) -> anyhow::Result<Option<Message<'_>>> {
    let Some(head) = reply.get(at..at + HEAD_BYTES) else {
        return Ok(None);
    };
    let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    ensure!(length >= 4, "the server sent a message of {length} bytes");
    let end = at + 1 + length as usize;
    Ok(reply.get(at + HEAD_BYTES..end).map(|body| Message {
        kind: head[0],
        body,
        end,
    }))
}

/// The fields of a row; an empty one for a null.
fn fields(row: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = row.split_first_chunk::<2>()?;
    let mut fields = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (field, after) = after.split_at_checked(length)?;
        fields.push(field);
        rest = after;
    }
    Some(fields)
}

/// The text of an error: the field `M`.
fn error_text(body: &[u8]) -> String {
    let mut parts = body.split(|byte| *byte == 0);
    let text = parts
        .find_map(|part| part.strip_prefix(b"M"))
        .unwrap_or(b"no message");
    String::from_utf8_lossy(text).into_owned()
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn put_message(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_from_parameters_and_uris_and_passwords_are_refused() {
        let expected = PlainAddress {
            address: "127.0.0.1:5433".into(),
            user: "postgres".into(),
            database: "places".into(),
        };
        let of = |text| PlainAddress::of(text).ok();
        assert_eq!(
            of("host=127.0.0.1 port=5433 user=postgres dbname=places"),
            Some(expected.clone())
        );
        assert_eq!(
            of("postgres://postgres@127.0.0.1:5433/places"),
            Some(expected)
        );
        assert_eq!(of("postgres://me:secret@127.0.0.1/places"), None);
    }

    #[test]
    fn messages_are_taken_when_they_are_whole() {
        let mut bytes = Vec::new();
        put_message(b'D', &mut bytes, |out| {
            out.extend_from_slice(b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\x01c");
        });
        for short in 0..bytes.len() {
            assert!(message_at(&bytes[..short], 0).expect("no error").is_none());
        }
        let message = message_at(&bytes, 0).expect("no error").expect("whole");
        assert_eq!((message.kind, message.end), (b'D', bytes.len()));
        let expected: Vec<&[u8]> = vec![b"ab", b"", b"c"];
        assert_eq!(fields(message.body), Some(expected));
        assert_eq!(
            error_text(b"SERROR\0C42601\0Msyntax error\0\0"),
            "syntax error"
        );
    }
}
