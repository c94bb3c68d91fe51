//! The receive buffer: bytes from a socket until a frame is complete, in place.

use super::listener::SILENCES_MAX;
use super::tls::HANDSHAKE_RECORD;
use meridian_engine::memory::RequestMemory;
use meridian_wire::{
    BrokenFrame, COMPRESSION_HEADER_BYTES, Compressor, HEADER_BYTES, Header, OpCode,
};
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

/// What is read at once.
const READ_BYTES: usize = 8 * 1024;
/// Room for a longer frame is made at once up to here, and beyond as its bytes come: who announces much
/// and sends nothing is given nothing.
const TRUSTED_BYTES: usize = 1024 * 1024;
/// How many times as much room as what has come.
const GROWTH: usize = 4;
/// Above this a buffer is given back when its message has been answered.
const KEEP_BYTES_MAX: usize = 256 * 1024;
/// Requests up to this size are received whatever others hold.
const FREE_BYTES: usize = 64 * 1024;
/// A larger one waits for so long for memory, ...
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(30);
/// ... and looks for it so often.
const MEMORY_WAIT_STEP: Duration = Duration::from_millis(2);

/// Bytes received and not yet consumed, in one reusable allocation.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// Initialised in full; received bytes are `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Time-outs since the last byte came.
    silences: u32,
    /// For a large frame, and what it decompresses to.
    memory: RequestMemory,
}

/// Why there is no further frame.
#[derive(Debug)]
pub enum ReceiveError {
    /// Nothing came for as long as the socket waits, between two frames.
    Silent,
    /// The other end closed between two frames.
    Closed,
    /// The other end stopped in the middle of a frame, or the network failed.
    Io(io::Error),
    /// What arrived is not a frame.
    Broken(BrokenFrame),
    /// What arrived is not a frame but the beginning of a TLS handshake.
    Handshake,
    /// There was no memory for so many bytes for as long as a request waits.
    NoMemory(usize),
}

impl Default for ReceiveBuffer {
    /// An empty buffer.
    fn default() -> Self {
        Self {
            bytes: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            silences: 0,
            memory: RequestMemory::none(),
        }
    }
}

impl ReceiveBuffer {
    /// Reads until a frame is complete. In a frame silence is an error only the third time. A large one is
    /// read when there is memory for it, or until it `may_wait` no longer.
    pub fn receive(
        &mut self,
        socket: &mut impl Read,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<Header, ReceiveError> {
        loop {
            let received = &self.bytes[self.start..self.end];
            let mut missing = HEADER_BYTES;
            if received.len() >= HEADER_BYTES {
                let header =
                    Header::parse(received).map_err(|broken| not_a_frame(received, broken))?;
                let is_complete = received.len() >= header.length;
                // A short frame may decompress to a long one: it waits too.
                missing = match request_bytes(header, received) {
                    Some(bytes) => {
                        self.reserve(bytes, may_wait)?;
                        header.length
                    }
                    None => HEADER_BYTES + COMPRESSION_HEADER_BYTES,
                };
                if is_complete {
                    return Ok(header);
                }
            }
            self.make_room(missing);
            self.read_some(socket)?;
        }
    }

    /// The frame that [`Self::receive`] announced.
    pub fn frame(&self, header: Header) -> &[u8] {
        &self.bytes[self.start..self.start + header.length]
    }

    /// Forgets the frame.
    pub fn consume(&mut self, header: Header) {
        self.start += header.length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEEP_BYTES_MAX {
                self.bytes = vec![0; READ_BYTES];
            }
            self.memory.give_back();
        }
    }

    /// Waits for memory for a request of so many bytes.
    fn reserve(&mut self, bytes: usize, may_wait: &dyn Fn() -> bool) -> Result<(), ReceiveError> {
        let begun = Instant::now();
        while bytes > FREE_BYTES && !self.memory.try_take(bytes) {
            if begun.elapsed() >= MEMORY_WAIT_MAX || !may_wait() {
                return Err(ReceiveError::NoMemory(bytes));
            }
            thread::sleep(MEMORY_WAIT_STEP);
        }
        Ok(())
    }

    /// Whether all that has come is consumed.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets whatever is left.
    pub fn clear(&mut self) {
        (self.start, self.end, self.silences) = (0, 0, 0);
        self.memory.give_back();
    }

    /// Ensures that there is room behind what has come of a frame of this length; for all of it only once as
    /// much as there was room for has come.
    fn make_room(&mut self, length: usize) {
        if self.start + length <= self.bytes.len() {
            return;
        }
        let received = self.end - self.start;
        if received < self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            // A fresh allocation comes zeroed from the system; growing would zero by hand.
            let wanted = length.min(TRUSTED_BYTES.max(received * GROWTH));
            let mut larger = vec![0; wanted.max(READ_BYTES)];
            larger[..received].copy_from_slice(&self.bytes[self.start..self.end]);
            self.bytes = larger;
        }
        (self.start, self.end) = (0, received);
    }

    fn read_some(&mut self, socket: &mut impl Read) -> Result<(), ReceiveError> {
        match socket.read(&mut self.bytes[self.end..]) {
            Ok(0) if self.start == self.end => Err(ReceiveError::Closed),
            Ok(0) => Err(ReceiveError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.end += count;
                self.silences = 0;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if is_timeout(&error) && self.is_empty() => Err(ReceiveError::Silent),
            Err(error) if is_timeout(&error) && self.silences + 1 < SILENCES_MAX => {
                self.silences += 1;
                Ok(())
            }
            Err(error) => Err(ReceiveError::Io(error)),
        }
    }
}

/// What a request takes: its frame, decompressed as well, and as much again for what it becomes on its way to
/// the storage. `None` until its compression header is there.
fn request_bytes(header: Header, received: &[u8]) -> Option<usize> {
    let body = &received[HEADER_BYTES..];
    let is_short = header.length < HEADER_BYTES + COMPRESSION_HEADER_BYTES;
    if header.op_code != OpCode::Compressed || is_short {
        return Some(2 * header.length);
    }
    Some(header.length + 2 * Compressor::announced_bytes(body)?)
}

/// A client that speaks TLS where nothing is encrypted is told apart: the length that its bytes happen to
/// mean would help nobody.
fn not_a_frame(received: &[u8], broken: BrokenFrame) -> ReceiveError {
    match received.starts_with(&HANDSHAKE_RECORD) {
        true => ReceiveError::Handshake,
        false => ReceiveError::Broken(broken),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let mut bytes = vec![7; length];
        bytes[..4].copy_from_slice(&i32::try_from(length).expect("small").to_le_bytes());
        bytes[12..16].copy_from_slice(&2013_i32.to_le_bytes());
        bytes
    }

    /// Gives at most `step` bytes a read, then the end.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn frames_of_any_size_arrive_whole_however_they_are_cut() {
        let lengths = [
            16,
            17,
            20_000,
            16,
            READ_BYTES - 16,
            READ_BYTES,
            3_000_000,
            48_000_000,
            30,
        ];
        let stream: Vec<u8> = lengths.iter().flat_map(|length| frame(*length)).collect();
        for step in [4096, 1_000_000, stream.len()] {
            let mut buffer = ReceiveBuffer::default();
            let mut socket = Trickle(&stream, step);
            for length in lengths {
                let header = buffer.receive(&mut socket, &|| true).expect("a frame");
                assert_eq!(buffer.frame(header), frame(length));
                buffer.consume(header);
            }
            let end = buffer.receive(&mut socket, &|| true);
            assert!(matches!(end, Err(ReceiveError::Closed)));
        }
    }

    /// Whole at once, and as it comes.
    #[test]
    fn a_short_frame_waits_for_what_it_decompresses_to() {
        let mut bytes = frame(100);
        bytes[12..16].copy_from_slice(&2012_i32.to_le_bytes());
        bytes[20..24].copy_from_slice(&40_000_000_i32.to_le_bytes());
        let mut other = RequestMemory::none();
        while !other.try_take(100_000_000) {
            thread::sleep(MEMORY_WAIT_STEP);
        }
        for step in [7, 100] {
            let mut buffer = ReceiveBuffer::default();
            let outcome = buffer.receive(&mut Trickle(&bytes, step), &|| false);
            assert!(matches!(outcome, Err(ReceiveError::NoMemory(_))), "{step}");
        }
        other.give_back();
        let mut buffer = ReceiveBuffer::default();
        let header = buffer.receive(&mut Trickle(&bytes, 100), &|| true);
        assert_eq!(header.expect("a frame").length, 100);
    }

    #[test]
    fn an_end_inside_a_frame_is_an_error() {
        let bytes = frame(100);
        let mut buffer = ReceiveBuffer::default();
        let outcome = buffer.receive(&mut Trickle(&bytes[..60], 60), &|| true);
        assert!(matches!(outcome, Err(ReceiveError::Io(_))));
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let stream = [frame(16), frame(3_000_000)].concat();
        let mut socket = Trickle(&stream, stream.len());
        let mut buffer = ReceiveBuffer::default();
        for _ in 0..2 {
            let header = buffer.receive(&mut socket, &|| true).expect("a frame");
            buffer.consume(header);
        }
        assert_eq!(buffer.bytes.len(), READ_BYTES);
    }

    #[test]
    fn room_is_made_as_bytes_come() {
        let bytes = frame(48_000_000);
        for (sent, room_max) in [
            (16, READ_BYTES),
            (20_000, TRUSTED_BYTES),
            (3_000_000, 12_000_000),
        ] {
            let mut buffer = ReceiveBuffer::default();
            let _ = buffer.receive(&mut Trickle(&bytes[..sent], 1 << 20), &|| true);
            assert!(
                buffer.bytes.len() <= room_max,
                "{} for {sent}",
                buffer.bytes.len()
            );
        }
    }

    #[test]
    fn a_handshake_is_told_from_a_broken_frame() {
        let receive =
            |bytes: &[u8]| ReceiveBuffer::default().receive(&mut Trickle(bytes, 64), &|| true);
        let mut hello = vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc];
        hello.extend([0x77; 40]);
        assert!(matches!(receive(&hello), Err(ReceiveError::Handshake)));
        hello[1] = 0x04;
        assert!(matches!(receive(&hello), Err(ReceiveError::Broken(_))));
        let mut large = frame(0x0316);
        assert!(
            receive(&large).is_ok(),
            "a frame that begins with these bytes"
        );
        large[12] = 9;
        assert!(matches!(receive(&large), Err(ReceiveError::Handshake)));
    }

    struct Silent;

    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    #[test]
    fn silence_in_a_frame_is_suffered_three_times() {
        let bytes = frame(100);
        let mut buffer = ReceiveBuffer::default();
        for _ in 0..2 {
            buffer.read_some(&mut &bytes[..10]).expect("bytes come");
            for silence in 1..=SILENCES_MAX {
                let outcome = buffer.read_some(&mut Silent);
                assert_eq!(outcome.is_ok(), silence < SILENCES_MAX);
            }
        }
    }

    #[test]
    fn what_a_client_left_is_no_other_clients() {
        let mut buffer = ReceiveBuffer::default();
        let broken = buffer.receive(&mut Trickle(&frame(100)[..60], 60), &|| true);
        assert!(matches!(broken, Err(ReceiveError::Io(_))) && !buffer.is_empty());
        buffer.clear();
        let header = buffer
            .receive(&mut Trickle(&frame(50), 50), &|| true)
            .expect("a frame");
        assert_eq!(buffer.frame(header), frame(50));
        buffer.consume(header);
        let silent = buffer.receive(&mut Silent, &|| true);
        assert!(matches!(silent, Err(ReceiveError::Silent)));
    }
}
