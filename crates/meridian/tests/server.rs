//! The server from the outside, over plain sockets: what a driver never sends.
#![allow(clippy::unwrap_used)]

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use meridian_wire::{DocumentWriter, Header, ReplyFrame};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server on a directory and a port of its own.
struct Server {
    process: Child,
    address: SocketAddr,
    _data: tempfile::TempDir,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let mut process = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--cache-size",
                "64MiB",
                "--data",
            ])
            .arg(data.path())
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let out = BufReader::new(process.stdout.take().expect("piped"));
        let banner = out.lines().nth(1).expect("two lines").expect("text");
        let address = banner
            .strip_prefix("Connect with: mongodb://")
            .and_then(|rest| rest.strip_suffix('/'))
            .and_then(|address| address.parse().ok())
            .unwrap_or_else(|| panic!("no address in {banner:?}"));
        Self {
            process,
            address,
            _data: data,
        }
    }

    fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).expect("accepted");
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time-out");
        Client { socket }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(name)
            .arg(self.process.id().to_string())
            .status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client {
    socket: TcpStream,
}

impl Client {
    fn send(&mut self, document: &RawDocumentBuf) {
        let mut bytes = Vec::new();
        let frame = ReplyFrame::begin_message(&mut bytes);
        DocumentWriter::new(&mut bytes).elements(document);
        frame.finish(&mut bytes, 1, 0, None).expect("a frame");
        self.socket.write_all(&bytes).expect("sent");
    }

    fn receive(&mut self) -> Option<Document> {
        let mut header = [0; 16];
        self.socket.read_exact(&mut header).ok()?;
        let header = Header::parse(&header).expect("a header");
        let mut body = vec![0; header.length - 16];
        self.socket.read_exact(&mut body).ok()?;
        // flags and section kind
        let document = RawDocumentBuf::from_bytes(body.split_off(5)).expect("one document");
        Some(Document::try_from(document).expect("valid"))
    }

    fn command(&mut self, document: &RawDocumentBuf) -> Document {
        self.send(document);
        self.receive().expect("a reply")
    }

    fn ping(&mut self) -> Document {
        self.command(&rawdoc! { "ping": 1, "$db": "admin" })
    }
}

#[test]
fn a_broken_frame_closes_its_connection_and_no_other() {
    let server = Server::start(&[]);
    let (mut broken, mut other) = (server.connect(), server.connect());
    assert_eq!(broken.ping(), doc! { "ok": 1.0 });
    broken.socket.write_all(&[0xff; 16]).expect("sent");
    assert_eq!(broken.receive(), None);
    assert_eq!(other.ping(), doc! { "ok": 1.0 });
}

#[test]
fn invalid_bson_is_answered_and_the_connection_lives() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut bytes = rawdoc! { "ping": 1, "$db": "admin" }.into_bytes();
    bytes[4] = 0x55;
    let mut frame = Vec::new();
    let reply = ReplyFrame::begin_message(&mut frame);
    frame.extend_from_slice(&bytes);
    reply.finish(&mut frame, 1, 0, None).expect("a frame");
    client.socket.write_all(&frame).expect("sent");
    let reply = client.receive().expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(22));
    assert_eq!(client.ping(), doc! { "ok": 1.0 });
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 0..50 {
        let command = doc! { format!("unknown{number}"): 1, "$db": "admin" };
        client.send(&RawDocumentBuf::try_from(&command).expect("valid"));
    }
    for number in 0..50 {
        let reply = client.receive().expect("a reply");
        let expected = format!("no such command: 'unknown{number}'");
        assert_eq!(reply.get_str("errmsg").ok(), Some(expected.as_str()));
    }
}

#[test]
fn an_unacknowledged_write_is_done_and_not_answered() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 0..20 {
        let mut frame = Vec::new();
        let message = ReplyFrame::begin_message(&mut frame);
        DocumentWriter::new(&mut frame).elements(&rawdoc! {
            "insert": "c", "$db": "d", "documents": [{ "_id": number }], "writeConcern": { "w": 0 },
        });
        frame[16] |= 2; // more to come
        message.finish(&mut frame, 1, 0, None).expect("a frame");
        client.socket.write_all(&frame).expect("sent");
    }
    let reply = client.command(&rawdoc! { "count": "c", "$db": "d" });
    assert_eq!(reply, doc! { "n": 20, "ok": 1.0 });
}

#[test]
fn connections_past_the_limit_are_told_why() {
    let server = Server::start(&["--max-connections", "2"]);
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.ping(), doc! { "ok": 1.0 });
    assert_eq!(second.ping(), doc! { "ok": 1.0 });
    let mut third = server.connect();
    let reply = third.ping();
    assert_eq!(
        reply.get_str("errmsg").ok(),
        Some("connection refused because there are too many open connections: 2")
    );
    assert_eq!(third.receive(), None);
    drop(second);
    // The server notices the end on its own time.
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.connect().ping() != (doc! { "ok": 1.0 }) {
        assert!(Instant::now() < deadline, "the place was not given back");
    }
}

#[test]
fn a_signal_stops_it_with_connections_open() {
    let mut server = Server::start(&[]);
    let mut idle = server.connect();
    assert_eq!(idle.ping(), doc! { "ok": 1.0 });
    let started = Instant::now();
    server.signal("-TERM");
    assert!(server.process.wait().expect("it ends").success());
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(idle.receive(), None);
}

#[test]
fn what_every_command_may_carry_is_checked() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let session = || rawdoc! { "id": bson::Binary::from(bson::Uuid::new()) };
    let mut code = |command: RawDocumentBuf| client.command(&command).get_i32("code").unwrap_or(0);
    assert_eq!(code(rawdoc! { "ping": 1 }), 40571);
    assert_eq!(code(rawdoc! { "ping": 1, "$db": "a b" }), 73);
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "lsid": session(), "comment": "x" }),
        0
    );
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "lsid": { "id": 1 } }),
        14
    );
    assert_eq!(code(rawdoc! { "ping": 1, "$db": "d", "nope": 1 }), 40415);
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "txnNumber": 1_i64, "lsid": session() }),
        50_889
    );
    assert_eq!(code(rawdoc! { "ping": 1, "$db": "d", "maxTimeMS": -1 }), 2);
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "apiVersion": "2" }),
        322
    );
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "writeConcern": { "w": 1 } }),
        72
    );
    let snapshot = rawdoc! { "level": "snapshot" };
    assert_eq!(
        code(rawdoc! { "ping": 1, "$db": "d", "readConcern": snapshot.clone() }),
        72
    );
    assert_eq!(
        code(rawdoc! { "find": "c", "$db": "d", "readConcern": snapshot }),
        123
    );
    assert_eq!(code(rawdoc! { "listDatabases": 1, "$db": "d" }), 13);
}
