//! One stream of values, encoded.
//!
//! A value goes into the block as a difference to the one before where both are of one type and the difference fits a
//! word, else it is a literal. A block of doubles has one scale. Where a double needs a greater one, what waits is
//! rescaled or, where that would take another word, written; a word that is full begins the search for the scale anew.

use crate::arithmetic::{Class, narrow_of, unzigzag, wide_of, zigzag, zigzag_wide};
use crate::double::{self, BITS_SCALE, CONTROLS};
use crate::packer::Packer;
use crate::sink::Sink;

/// The state of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub sink: Sink,
    /// The type of the value before; 0 where there is none.
    kind: u8,
    class: Class,
    /// Its bytes, of types that are no integers of 64 bits, ...
    last: Vec<u8>,
    /// ... its integer of 64 bits, of a double its bits, ...
    narrow: i64,
    /// ... its difference to the value before it, where that is used, ...
    difference: i64,
    /// ... and its integer of 128 bits, if it has one.
    wide: Option<i128>,
    /// The scale of what waits, ...
    scale: usize,
    /// ... the last double as an integer of that scale, ...
    scaled: i64,
    /// ... and the last double before what waits.
    written: f64,
    packer: Packer<u64>,
    wide_packer: Option<Box<Packer<u128>>>,
}

impl Stream {
    /// A stream that writes there.
    pub fn new(sink: Sink) -> Self {
        Self {
            sink,
            kind: 0,
            class: Class::Repeat,
            last: Vec::new(),
            narrow: 0,
            difference: 0,
            wide: None,
            scale: BITS_SCALE,
            scaled: 0,
            written: 0.0,
            packer: Packer::default(),
            wide_packer: None,
        }
    }

    /// Appends a value. Its bytes are of its type.
    #[inline]
    pub fn push(&mut self, kind: u8, value: &[u8]) {
        let is_packed = kind == self.kind
            && match self.class {
                Class::Delta => self.push_delta(value),
                Class::DeltaOfDelta => self.push_delta_of_delta(value),
                Class::Double => self.push_double(value),
                Class::Wide => self.push_wide(value),
                Class::Repeat => value == self.last && self.pack(0),
            };
        if !is_packed {
            self.push_literal(kind, value);
        }
    }

    /// Appends a row without a value.
    pub fn skip(&mut self) {
        let before = self.sink.bytes.len();
        let control = self.control();
        let sink = &mut self.sink;
        if self.class == Class::Wide {
            self.wide_packer
                .get_or_insert_default()
                .skip(&mut |word| sink.word(control, word));
            return;
        }
        self.packer.skip(&mut |word| sink.word(control, word));
        if self.class == Class::Double && before != self.sink.bytes.len() {
            self.note_written();
            // The scale may change only where no difference of the old one waits.
            if self.packer.waits_for_zeros_only() {
                (self.scaled, self.scale) = double::encode_least(self.written, 0);
            }
        }
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        let control = self.control();
        let sink = &mut self.sink;
        match (&mut self.wide_packer, self.class) {
            (Some(packer), Class::Wide) => packer.flush(&mut |word| sink.word(control, word)),
            _ => self.packer.flush(&mut |word| sink.word(control, word)),
        }
    }

    /// Goes on from a value that is known without a literal.
    pub fn start_from(&mut self, kind: u8, value: &[u8]) {
        self.kind = kind;
        self.class = Class::of(kind);
        self.scale = BITS_SCALE;
        self.difference = 0;
        self.narrow = narrow_of(kind, value);
        match self.class {
            Class::Wide => {
                self.wide = wide_of(kind, value);
                self.wide_packer.get_or_insert_default().reset();
            }
            _ => self.packer.reset(),
        }
        if self.class == Class::Double {
            self.written = f64::from_bits(self.narrow as u64);
            (self.scaled, self.scale) = double::encode_least(self.written, 0);
        }
        self.last.clear();
        self.last.extend_from_slice(value);
    }

    fn push_literal(&mut self, kind: u8, value: &[u8]) {
        self.flush();
        self.sink.literal(kind, value);
        self.start_from(kind, value);
    }

    #[inline]
    fn control(&self) -> u8 {
        match self.class {
            Class::Double => CONTROLS[self.scale],
            _ => CONTROLS[BITS_SCALE],
        }
    }

    /// Appends an integer; false where no word can hold it.
    #[inline]
    fn pack(&mut self, value: u64) -> bool {
        let control = self.control();
        let sink = &mut self.sink;
        self.packer
            .push(value, &mut |word| sink.word(control, word))
    }

    #[inline]
    fn push_delta(&mut self, value: &[u8]) -> bool {
        let narrow = narrow_of(self.kind, value);
        let delta = narrow.wrapping_sub(self.narrow);
        self.narrow = narrow;
        self.pack(zigzag(delta))
    }

    #[inline]
    fn push_delta_of_delta(&mut self, value: &[u8]) -> bool {
        // An ObjectId of another process has no difference.
        if self.kind == 0x07 && value[4..9] != self.last[4..9] {
            return false;
        }
        let narrow = narrow_of(self.kind, value);
        let difference = narrow.wrapping_sub(self.narrow);
        let delta = difference.wrapping_sub(self.difference);
        self.narrow = narrow;
        self.difference = difference;
        self.pack(zigzag(delta))
    }

    fn push_wide(&mut self, value: &[u8]) -> bool {
        let delta = if self.last == value {
            Some(0)
        } else {
            self.wide_delta(value)
        };
        let (Some(delta), Some(packer)) = (delta, &mut self.wide_packer) else {
            return false;
        };
        self.last.clear();
        self.last.extend_from_slice(value);
        let sink = &mut self.sink;
        packer.push(zigzag_wide(delta), &mut |word| {
            sink.word(CONTROLS[BITS_SCALE], word)
        })
    }

    /// The difference to the value before; `None` where it would not be told from a repetition, too.
    fn wide_delta(&mut self, value: &[u8]) -> Option<i128> {
        // A binary's length and subtype are those of the literal.
        if self.kind == 0x05 && value[..5] != self.last[..5] {
            return None;
        }
        let wide = wide_of(self.kind, value)?;
        if self.wide.is_none() && wide == 0 {
            return None;
        }
        let delta = wide.wrapping_sub(self.wide.unwrap_or(0));
        self.wide = Some(wide);
        (delta != 0).then_some(delta)
    }

    #[inline]
    fn push_double(&mut self, value: &[u8]) -> bool {
        let bits = narrow_of(0x01, value);
        let before = self.sink.bytes.len();
        if bits == self.narrow {
            let is_packed = self.pack(0);
            if before != self.sink.bytes.len() {
                self.note_written();
            }
            return is_packed;
        }
        let last = f64::from_bits(self.narrow as u64);
        self.narrow = bits;
        self.append_double(f64::from_bits(bits as u64), last)
    }

    /// Appends a double that follows `last`.
    #[inline]
    fn append_double(&mut self, value: f64, last: f64) -> bool {
        let (mut scaled, scale) = double::encode_least(value, self.scale);
        if scale != self.scale {
            if self.rescale_waiting(scaled, scale) {
                return true;
            }
            scaled = self.start_scale(value, last, scale);
        }
        let before = self.sink.bytes.len();
        if !self.pack(zigzag(scaled.wrapping_sub(self.scaled))) {
            return false;
        }
        self.scaled = scaled;
        if before != self.sink.bytes.len() {
            self.restart_scale();
        }
        true
    }

    /// Rescales what waits, and appends a value, unless a word would be written.
    #[cold]
    fn rescale_waiting(&mut self, scaled: i64, scale: usize) -> bool {
        let (Some(mut old), Some(mut new)) = (
            double::encode(self.written, self.scale),
            double::encode(self.written, scale),
        ) else {
            return false;
        };
        if self.packer.renew_if_empty() {
            let is_packed = self
                .packer
                .push(zigzag(scaled.wrapping_sub(new)), &mut |_| {});
            if is_packed {
                (self.scaled, self.scale) = (scaled, scale);
            }
            return is_packed;
        }
        let mut packer = Packer::default();
        let mut words = 0;
        for delta in self.packer.waiting() {
            let Some(delta) = delta else {
                packer.skip(&mut |_| words += 1);
                continue;
            };
            old = old.wrapping_add(unzigzag(delta));
            let Some(next) = double::encode(double::decode(old, self.scale), scale) else {
                return false;
            };
            let is_packed = packer.push(zigzag(next.wrapping_sub(new)), &mut |_| words += 1);
            if !is_packed || words > 0 {
                return false;
            }
            new = next;
        }
        let is_packed = packer.push(zigzag(scaled.wrapping_sub(new)), &mut |_| words += 1);
        if !is_packed || words > 0 {
            return false;
        }
        self.packer = packer;
        (self.scaled, self.scale) = (scaled, scale);
        true
    }

    /// Writes what waits and begins a block of a greater scale; returns the value's integer of it.
    #[cold]
    fn start_scale(&mut self, value: f64, last: f64, scale: usize) -> i64 {
        self.flush();
        self.sink.end_block();
        self.written = last;
        // Both the last value and this one need integers of the scale.
        let (_, scale) = double::encode_least(last, scale);
        let (scaled, scale) = double::encode_least(value, scale);
        (self.scaled, self.scale) = double::encode_least(last, scale);
        scaled
    }

    /// Finds the last double before what waits, after a word was written.
    fn note_written(&mut self) {
        let waiting = self.packer.waiting().flatten();
        let written = waiting.fold(self.scaled, |scaled, delta| {
            scaled.wrapping_sub(unzigzag(delta))
        });
        self.written = double::decode(written, self.scale);
    }

    /// After a word was written, appends what waits again, with the least scale that does.
    #[cold]
    fn restart_scale(&mut self) {
        self.note_written();
        let (scale, mut last) = (self.scale, self.written);
        let (least_scaled, least) = double::encode_least(last, 0);
        if least == scale {
            return self.packer.restart();
        }
        (self.scaled, self.scale) = (least_scaled, least);
        let mut scaled = double::encode(last, scale).unwrap_or(0);
        let mut append = |stream: &mut Self, delta: Option<u64>| {
            let Some(delta) = delta else {
                return stream.skip_double();
            };
            scaled = scaled.wrapping_add(unzigzag(delta));
            let value = double::decode(scaled, scale);
            let is_packed = stream.append_double(value, last);
            debug_assert!(is_packed, "the difference was in a word of a greater scale");
            last = value;
        };
        if let Some(delta) = self.packer.succeed_but_one() {
            return append(self, delta);
        }
        let successor = self.packer.successor();
        let packer = std::mem::replace(&mut self.packer, successor);
        packer.waiting().for_each(|delta| append(self, delta));
    }

    fn skip_double(&mut self) {
        let control = self.control();
        let sink = &mut self.sink;
        self.packer.skip(&mut |word| sink.word(control, word));
    }
}
