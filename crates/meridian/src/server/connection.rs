//! One connection: receive a frame, have it answered, send the reply; until the end.

use super::idle;
use super::receive::{ReceiveBuffer, ReceiveError};
use super::registry::Registry;
use super::tls::{Stream, Tls};
use crate::commands::{self, Client, Service};
use meridian_wire::{
    BrokenFrame, Compressor, DocumentWriter, Frame, Header, OpCode, ReplyFrame, Request,
    RequestError,
};
use std::io::{self, Write};
use std::net::TcpStream;

/// Above this a send buffer is given back after the reply.
const SEND_KEEP_BYTES_MAX: usize = 1024 * 1024;

/// Why a connection ended.
enum End {
    Closed,
    Io(io::Error),
    Broken(BrokenFrame),
}

impl From<ReceiveError> for End {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Closed => Self::Closed,
            ReceiveError::Io(error) => Self::Io(error),
            ReceiveError::Broken(error) => Self::Broken(error),
        }
    }
}

impl From<BrokenFrame> for End {
    fn from(error: BrokenFrame) -> Self {
        Self::Broken(error)
    }
}

/// Serves a connection until it ends.
pub fn serve(
    socket: &TcpStream,
    tls: Option<&Tls>,
    client: Client,
    service: &Service,
    registry: &Registry,
) {
    let (id, peer) = (client.connection_id, client.peer.clone());
    let activity = std::sync::Arc::clone(&client.activity);
    service.register(&activity);
    service.counters.connections_current.add(1);
    let end = match Stream::new(socket, tls) {
        Ok(stream) => Connection::new(stream, client, service).run(registry),
        Err(error) => End::Io(error),
    };
    service.counters.connections_current.add(-1);
    service.unregister(&activity);
    match end {
        End::Closed => tracing::debug!(connection = id, peer, "connection closed"),
        End::Io(error) => tracing::info!(connection = id, peer, %error, "connection lost"),
        End::Broken(error) => {
            tracing::warn!(connection = id, peer, %error, "connection closed: broken frame");
        }
    }
}

/// Answers the first request with the reason, whatever it was.
pub fn refuse(socket: &TcpStream, tls: Option<&Tls>, open: usize) {
    let mut receive = ReceiveBuffer::new();
    let Ok(mut stream) = Stream::new(socket, tls) else {
        return;
    };
    let Ok(header) = receive.receive(&mut stream, || false) else {
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
    stream: Stream<'a>,
    client: Client,
    service: &'a Service,
    send: Vec<u8>,
    decompressed: Vec<u8>,
    next_request_id: i32,
}

impl<'a> Connection<'a> {
    fn new(stream: Stream<'a>, client: Client, service: &'a Service) -> Self {
        let (send, decompressed) = (Vec::new(), Vec::new());
        Self {
            stream,
            client,
            service,
            send,
            decompressed,
            next_request_id: 0,
        }
    }

    fn run(&mut self, registry: &Registry) -> End {
        let mut receive = ReceiveBuffer::new();
        loop {
            let (send, decompressed) = (&mut self.send, &mut self.decompressed);
            let mut is_idle = false;
            let received = receive.receive(&mut self.stream, || {
                if !std::mem::replace(&mut is_idle, true) {
                    (*send, *decompressed) = (Vec::new(), Vec::new());
                    idle::give_back();
                }
                !registry.is_stopping()
            });
            if is_idle {
                idle::take_again();
            }
            let header = match received {
                Ok(header) => header,
                Err(error) => return error.into(),
            };
            self.service.counters.bytes_in.add_size(header.length);
            if let Err(end) = self.handle(header, receive.frame(header)) {
                return end;
            }
            receive.consume(header);
            if registry.is_stopping() {
                return End::Closed;
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
        let mut plain = std::mem::take(&mut self.decompressed);
        let (compressor, header) = Compressor::decompress(frame, &mut plain)?;
        self.answer(
            Frame {
                header,
                bytes: &plain,
            },
            Some(compressor),
        )?;
        if plain.capacity() <= SEND_KEEP_BYTES_MAX {
            self.decompressed = plain;
        }
        Ok(())
    }

    fn answer(&mut self, frame: Frame<'_>, compressor: Option<Compressor>) -> Result<(), End> {
        let Self {
            client,
            service,
            send,
            ..
        } = self;
        let mut checksum = false;
        let reply = match frame.parse() {
            Ok(Request::Message(message)) => {
                let reply = ReplyFrame::begin_message(send);
                commands::answer_message(service, client, &message, send);
                if message.more_to_come {
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
        self.next_request_id = self.next_request_id.wrapping_add(1);
        let request_id = self.next_request_id;
        match (compressor, checksum) {
            (None, true) => reply.finish_with_checksum(&mut self.send, request_id, response_to),
            (compressor, _) => {
                reply.finish(&mut self.send, request_id, response_to, compressor)?;
            }
        }
        self.client.reply_share.take(self.send.len());
        self.stream.write_all(&self.send).map_err(End::Io)?;
        self.stream.flush().map_err(End::Io)?;
        self.client.reply_share.give_back();
        self.service.counters.bytes_out.add_size(self.send.len());
        if self.send.capacity() > SEND_KEEP_BYTES_MAX {
            self.send = Vec::new();
        }
        Ok(())
    }
}
