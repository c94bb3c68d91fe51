//! The receive buffer: bytes from a socket until a frame is complete, in place.

use meridian_wire::{BrokenFrame, HEADER_BYTES, Header};
use std::io::{self, Read};

/// What an idle connection keeps.
const IDLE_BYTES: usize = 8 * 1024;
/// Above this a buffer is given back once a small message follows.
const KEEP_BYTES_MAX: usize = 1024 * 1024;

/// Bytes received and not yet consumed, in one reusable allocation.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// Initialised in full; received bytes are `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// Why there is no further frame.
#[derive(Debug)]
pub enum ReceiveError {
    /// The other end closed between two frames.
    Closed,
    /// The other end stopped in the middle of a frame, or the network failed.
    Io(io::Error),
    /// What arrived is not a frame.
    Broken(BrokenFrame),
}

impl ReceiveBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; IDLE_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Reads until a frame is complete. A time-out between two frames is not an error, it is
    /// an idle client; `keep_waiting` decides whether to go on.
    pub fn receive(
        &mut self,
        socket: &mut impl Read,
        keep_waiting: impl Fn() -> bool,
    ) -> Result<Header, ReceiveError> {
        loop {
            let received = &self.bytes[self.start..self.end];
            let mut missing = HEADER_BYTES;
            if received.len() >= HEADER_BYTES {
                let header = Header::parse(received).map_err(ReceiveError::Broken)?;
                if received.len() >= header.length {
                    return Ok(header);
                }
                missing = header.length;
            }
            self.make_room(missing);
            self.read_some(socket, &keep_waiting)?;
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
            if self.bytes.len() > KEEP_BYTES_MAX && header.length < IDLE_BYTES {
                self.bytes = vec![0; IDLE_BYTES];
            }
        }
    }

    /// Ensures that a frame of this length fits behind `start`.
    fn make_room(&mut self, length: usize) {
        if self.start + length <= self.bytes.len() {
            return;
        }
        if length <= self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            // A fresh allocation comes zeroed from the system; growing would zero by hand.
            let mut larger = vec![0; length.max(IDLE_BYTES)];
            larger[..self.end - self.start].copy_from_slice(&self.bytes[self.start..self.end]);
            self.bytes = larger;
        }
        (self.start, self.end) = (0, self.end - self.start);
    }

    fn read_some(
        &mut self,
        socket: &mut impl Read,
        keep_waiting: &impl Fn() -> bool,
    ) -> Result<(), ReceiveError> {
        match socket.read(&mut self.bytes[self.end..]) {
            Ok(0) if self.start == self.end => Err(ReceiveError::Closed),
            Ok(0) => Err(ReceiveError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if is_timeout(&error) && self.start == self.end => match keep_waiting() {
                true => Ok(()),
                false => Err(ReceiveError::Closed),
            },
            Err(error) => Err(ReceiveError::Io(error)),
        }
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
            IDLE_BYTES - 16,
            IDLE_BYTES,
            3_000_000,
            30,
        ];
        let stream: Vec<u8> = lengths.iter().flat_map(|length| frame(*length)).collect();
        for step in [1000, 4096, stream.len()] {
            let mut buffer = ReceiveBuffer::new();
            let mut socket = Trickle(&stream, step);
            for length in lengths {
                let header = buffer.receive(&mut socket, || true).expect("a frame");
                assert_eq!(buffer.frame(header), frame(length));
                buffer.consume(header);
            }
            let end = buffer.receive(&mut socket, || true);
            assert!(matches!(end, Err(ReceiveError::Closed)));
        }
    }

    #[test]
    fn an_end_inside_a_frame_is_an_error() {
        let bytes = frame(100);
        let mut buffer = ReceiveBuffer::new();
        let outcome = buffer.receive(&mut Trickle(&bytes[..60], 60), || true);
        assert!(matches!(outcome, Err(ReceiveError::Io(_))));
    }

    #[test]
    fn a_large_buffer_is_given_back_after_a_small_message() {
        let stream = [frame(3_000_000), frame(16)].concat();
        let mut socket = Trickle(&stream, stream.len());
        let mut buffer = ReceiveBuffer::new();
        for _ in 0..2 {
            let header = buffer.receive(&mut socket, || true).expect("a frame");
            buffer.consume(header);
        }
        assert_eq!(buffer.bytes.len(), IDLE_BYTES);
    }
}
