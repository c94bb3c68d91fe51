//! One connection: receive a frame, have it answered, send the reply; until the end.
//!
//! Between two requests a connection may be served by no thread (see [`super::pool`]); what a thread needs to
//! serve one, it brings.

use super::client_certificate;
use super::receive::{ReceiveBuffer, ReceiveError};
use super::registry::Registry;
use super::tls::{Stream, Tls};
use crate::commands;
use crate::service::{Client, Service};
use meridian_wire::{
    BrokenFrame, COMPRESSION_HEADER_BYTES, Compressor, DocumentWriter, Frame, HEADER_BYTES, Header,
    OpCode, ReplyFrame, Request, RequestError,
};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Above this a send buffer is given back after the reply.
const SEND_KEEP_BYTES_MAX: usize = 256 * 1024;

/// Why a connection ended.
pub enum End {
    Closed,
    Io(io::Error),
    Broken(BrokenFrame),
    /// The client speaks TLS, which is not spoken here.
    Handshake,
    /// All memory for requests was taken for long; so many bytes were wanted.
    NoMemory(usize),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BrokenFrame> for End {
    fn from(error: BrokenFrame) -> Self {
        Self::Broken(error)
    }
}

/// What a thread serves connections with, one after the other.
#[derive(Default)]
pub struct Buffers {
    receive: ReceiveBuffer,
    send: Vec<u8>,
    decompressed: Vec<u8>,
    rewritten: Vec<u8>,
}

/// A connection, whether or not a thread serves it.
pub struct Peer {
    socket: Arc<TcpStream>,
    /// None until the client speaks for the first time.
    stream: Option<Stream>,
    client: Client,
    next_request_id: i32,
}

impl Peer {
    /// A connection that was just accepted.
    pub fn new(socket: Arc<TcpStream>, client: Client, service: &Service) -> Self {
        service.register(&client.activity);
        service.counters.connections_current.add(1);
        Self {
            socket,
            stream: None,
            client,
            next_request_id: 0,
        }
    }

    /// Which one.
    pub fn id(&self) -> i32 {
        self.client.connection_id
    }

    pub fn socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.socket)
    }

    /// Answers requests until the client is silent, or until the thread `may_stay` no longer and all that has
    /// come is answered. The error is the connection's end.
    pub fn serve(
        &mut self,
        buffers: &mut Buffers,
        tls: Option<&Tls>,
        service: &Service,
        registry: &Registry,
        may_stay: &dyn Fn() -> bool,
    ) -> Result<(), End> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => Stream::new(Arc::clone(&self.socket), tls)?,
        };
        let Buffers {
            receive,
            send,
            decompressed,
            rewritten,
        } = buffers;
        let mut connection = Connection {
            stream: self.stream.insert(stream),
            client: &mut self.client,
            service,
            send,
            decompressed,
            rewritten,
            next_request_id: &mut self.next_request_id,
        };
        let served = connection.run(receive, registry, may_stay);
        // After an end there may be bytes left, which are no other client's.
        receive.clear();
        served
    }

    /// Takes leave of it.
    pub fn end(self, end: End, service: &Service, registry: &Registry) {
        let (id, peer) = (self.id(), &self.client.peer);
        service.counters.connections_current.add(-1);
        service.unregister(&self.client.activity);
        match end {
            End::Closed => tracing::debug!(connection = id, peer, "connection closed"),
            End::Io(error) => tracing::info!(connection = id, peer, %error, "connection lost"),
            End::Broken(error) => {
                tracing::warn!(connection = id, peer, %error, "connection closed: broken frame");
            }
            End::NoMemory(bytes) => tracing::warn!(
                connection = id,
                peer,
                bytes,
                "connection closed: other requests, statements and cursors hold the memory for its request"
            ),
            End::Handshake => tracing::warn!(
                connection = id,
                peer,
                "connection closed: the client began a TLS handshake, and connections are not encrypted here \
                 (see --tls-certificate-key-file)"
            ),
        }
        registry.remove(id);
    }
}

/// Answers the first request with the reason, whatever it was.
pub fn refuse(socket: Arc<TcpStream>, tls: Option<&Tls>, open: usize) {
    let mut receive = ReceiveBuffer::default();
    let Ok(mut stream) = Stream::new(socket, tls) else {
        return;
    };
    let Ok(header) = receive.receive(&mut stream, &|| false) else {
        return;
    };
    let mut out = Vec::new();
    let reply = match header.op_code {
        OpCode::Query => ReplyFrame::begin_legacy(&mut out),
        _ => ReplyFrame::begin_message(&mut out),
    };
    let message = format!("connection refused because there are too many open connections: {open}");
    DocumentWriter::new(&mut out)
        .double("ok", 0.0)
        .string("errmsg", &message)
        .int32("code", 6)
        .string("codeName", "HostUnreachable");
    if reply.finish(&mut out, 1, header.request_id, None).is_ok() {
        let _ = stream.write_all(&out).and_then(|()| stream.flush());
    }
}

struct Connection<'a> {
    stream: &'a mut Stream,
    client: &'a mut Client,
    service: &'a Service,
    send: &'a mut Vec<u8>,
    decompressed: &'a mut Vec<u8>,
    rewritten: &'a mut Vec<u8>,
    next_request_id: &'a mut i32,
}

impl Connection<'_> {
    fn run(
        &mut self,
        receive: &mut ReceiveBuffer,
        registry: &Registry,
        may_stay: &dyn Fn() -> bool,
    ) -> Result<(), End> {
        loop {
            let header = match receive.receive(self.stream, &|| !registry.is_stopping()) {
                Ok(header) => header,
                Err(ReceiveError::Silent) if !registry.is_stopping() => return Ok(()),
                Err(ReceiveError::Silent | ReceiveError::Closed) => return Err(End::Closed),
                Err(ReceiveError::Io(error)) => return Err(End::Io(error)),
                Err(ReceiveError::Broken(error)) => return Err(End::Broken(error)),
                Err(ReceiveError::Handshake) => return Err(End::Handshake),
                Err(ReceiveError::NoMemory(bytes)) => return Err(End::NoMemory(bytes)),
            };
            self.service
                .counters
                .physical_bytes_in
                .add_size(header.length);
            let certificate = || client_certificate::subject(self.stream.client_certificate()?);
            self.client.login.know_subject(certificate);
            self.handle(header, receive.frame(header))?;
            receive.consume(header);
            if registry.is_stopping() {
                return Err(End::Closed);
            }
            if receive.is_empty() && !may_stay() && !self.stream.has_more() {
                return Ok(());
            }
        }
    }

    /// Answers one frame.
    fn handle(&mut self, header: Header, bytes: &[u8]) -> Result<(), End> {
        let frame = Frame { header, bytes };
        if header.op_code != OpCode::Compressed {
            return self.answer(frame, None);
        }
        // Taken out for as long as the request borrows from it.
        let mut plain = std::mem::take(self.decompressed);
        let (compressor, header) = Compressor::decompress(frame, &mut plain)?;
        if let Some((_, requests)) = self.service.counters.compression.of(compressor) {
            let compressed = bytes
                .len()
                .saturating_sub(HEADER_BYTES + COMPRESSION_HEADER_BYTES);
            requests.add(compressed, plain.len() - HEADER_BYTES);
        }
        self.answer(
            Frame {
                header,
                bytes: &plain,
            },
            Some(compressor),
        )?;
        if plain.capacity() <= SEND_KEEP_BYTES_MAX {
            *self.decompressed = plain;
        }
        Ok(())
    }

    fn answer(&mut self, frame: Frame<'_>, compressor: Option<Compressor>) -> Result<(), End> {
        let Self {
            client,
            service,
            send,
            rewritten,
            ..
        } = self;
        let mut checksum = false;
        service.counters.bytes_in.add_size(frame.header.length);
        let reply = match frame.parse(rewritten) {
            Ok(Request::Message(message)) => {
                let reply = ReplyFrame::begin_message(send);
                commands::answer_message(service, client, &message, send);
                if message.more_to_come {
                    self.give_back();
                    return Ok(());
                }
                checksum = message.checksum;
                reply
            }
            Ok(Request::Query(query)) => {
                let reply = ReplyFrame::begin_legacy(send);
                commands::answer_query(service, client, &query, send);
                reply
            }
            Err(RequestError::Document(invalid)) => {
                let reply = match frame.header.op_code {
                    OpCode::Query => ReplyFrame::begin_legacy(send),
                    _ => ReplyFrame::begin_message(send),
                };
                commands::answer_invalid_document(service, &invalid, send);
                reply
            }
            Err(RequestError::Frame(broken)) => return Err(End::Broken(broken)),
        };
        self.finish(reply, frame.header.request_id, compressor, checksum)
    }

    fn finish(
        &mut self,
        reply: ReplyFrame,
        response_to: i32,
        compressor: Option<Compressor>,
        checksum: bool,
    ) -> Result<(), End> {
        *self.next_request_id = self.next_request_id.wrapping_add(1);
        let request_id = *self.next_request_id;
        let plain_bytes = self.send.len();
        match (compressor, checksum) {
            (None, true) => reply.finish_with_checksum(self.send, request_id, response_to),
            (compressor, _) => {
                reply.finish(self.send, request_id, response_to, compressor)?;
            }
        }
        self.client.reply_share.take(self.send.len());
        // Before it is sent: whoever has the reply finds it counted.
        self.count_sent(plain_bytes, compressor);
        self.stream.write_all(self.send).map_err(End::Io)?;
        self.stream.flush().map_err(End::Io)?;
        self.give_back();
        Ok(())
    }

    /// Counts the reply in the buffer, which was of this size before it was compressed.
    fn count_sent(&self, plain_bytes: usize, compressor: Option<Compressor>) {
        let counters = &self.service.counters;
        counters.bytes_out.add_size(plain_bytes);
        counters.physical_bytes_out.add_size(self.send.len());
        if let Some((replies, _)) = compressor.and_then(|own| counters.compression.of(own)) {
            let compressed = self
                .send
                .len()
                .saturating_sub(HEADER_BYTES + COMPRESSION_HEADER_BYTES);
            replies.add(plain_bytes - HEADER_BYTES, compressed);
        }
    }

    /// Gives back what a reply has taken, whether it was sent or nobody wanted it.
    fn give_back(&mut self) {
        self.client.reply_share.give_back();
        for buffer in [&mut *self.send, &mut *self.rewritten] {
            if buffer.capacity() > SEND_KEEP_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}
