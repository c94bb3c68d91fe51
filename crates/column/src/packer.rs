//! Packs integers into Simple-8b words, in MongoDB's order of choices, so that the words are the same.
//!
//! Values wait until one comes that does not fit into one word with them. Then as many of them as fill a layout are
//! written. A value equal to the last one written, with none waiting, starts a run.

use crate::selector::{FAMILIES, Family, Layout, Packed, RUN, RUN_UNIT, RUN_UNITS_MAX};

/// More values than a word has slots.
const PENDING_MAX: usize = 64;
/// The number of bits of a value that a family cannot hold.
const TOO_WIDE: u32 = 255;

/// A word and how many rows it stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub bits: u64,
    pub rows: u32,
}

/// The values that wait, and the run.
#[derive(Debug, Clone)]
pub(crate) struct Packer<T> {
    values: [T; PENDING_MAX],
    /// Which of them are missing values.
    skips: u64,
    pending: u32,
    /// The first family that may still hold what waits, ...
    family: usize,
    /// ... the one that did when the last value came, ...
    family_fit: usize,
    /// ... and the bits that the widest value takes in the former.
    value_bits: u32,
    /// Rows of the run.
    run: u32,
    /// What a run would repeat: a value or a missing value; `None` where no run can start.
    last: Option<Option<T>>,
}

impl<T: Packed> Default for Packer<T> {
    fn default() -> Self {
        Self {
            values: [T::default(); PENDING_MAX],
            skips: 0,
            pending: 0,
            family: 0,
            family_fit: 0,
            value_bits: FAMILIES[0].value_bits_min,
            run: 0,
            last: Some(Some(T::default())),
        }
    }
}

impl<T: Packed> Packer<T> {
    /// Forgets what waits and what was written. The family of the last word stays: MongoDB's does, and shows where the
    /// next word begins with missing values.
    pub fn reset(&mut self) {
        self.skips = 0;
        self.pending = 0;
        self.start_word();
        self.run = 0;
        self.last = Some(Some(T::default()));
    }

    /// One that goes on after the same words; what waits in this one is to be pushed again.
    ///
    /// No run starts there at once: MongoDB does not remember what the last word ended with, either.
    pub fn successor(&self) -> Self {
        Self {
            last: None,
            ..Self::default()
        }
    }

    /// The same as pushing what waits to a successor.
    pub fn restart(&mut self) {
        if let Some(value) = self.succeed_but_one() {
            return self.push_or_skip(value);
        }
        let mut successor = self.successor();
        self.waiting()
            .for_each(|value| successor.push_or_skip(value));
        *self = successor;
    }

    /// Becomes its successor, where a single value waits, and returns that.
    pub fn succeed_but_one(&mut self) -> Option<Option<T>> {
        let value = match (self.run, self.pending) {
            (1, 0) => self.last.flatten(),
            (0, 1) => self.at(0),
            _ => return None,
        };
        self.reset_to(None);
        Some(value)
    }

    /// Becomes a new one where nothing waits.
    pub fn renew_if_empty(&mut self) -> bool {
        let is_empty = self.run == 0 && self.pending == 0;
        if is_empty {
            let zero = Some(T::default());
            self.reset_to(Some(zero));
        }
        is_empty
    }

    fn reset_to(&mut self, last: Option<Option<T>>) {
        self.reset();
        self.family_fit = 0;
        self.last = last;
    }

    /// Appends what has waited together before, so that no word is written.
    fn push_or_skip(&mut self, value: Option<T>) {
        match value {
            Some(value) => {
                self.push(value, &mut |_| {});
            }
            None => self.skip(&mut |_| {}),
        }
    }

    /// Appends a value; false where no word can hold it.
    #[inline]
    pub fn push(&mut self, value: T, write: &mut impl FnMut(Word)) -> bool {
        if self.pending == 0 {
            if self.last == Some(Some(value)) {
                self.run += 1;
                return true;
            }
            self.end_run(write);
        }
        self.append(Some(value), true, write)
    }

    /// Appends a missing value.
    pub fn skip(&mut self, write: &mut impl FnMut(Word)) {
        if self.pending == 0 {
            if self.last == Some(None) {
                self.run += 1;
                return;
            }
            self.end_run(write);
        }
        self.append(None, true, write);
    }

    /// Writes all that waits.
    pub fn flush(&mut self, write: &mut impl FnMut(Word)) {
        self.end_run(write);
        if self.pending == 0 {
            return;
        }
        while self.pending > 0 {
            self.write_word(write);
        }
        self.start_word();
        self.last = Some(Some(T::default()));
    }

    /// The values that are in no word yet, the first one first.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = Option<T>> + '_ {
        let run = (0..self.run).map(|_| self.last.flatten());
        run.chain((0..self.pending as usize).map(|at| self.at(at)))
    }

    /// Whether what waits are only missing values and zeros.
    pub fn waits_for_zeros_only(&self) -> bool {
        self.waiting()
            .all(|value| value.unwrap_or_default() == T::default())
    }

    #[inline]
    fn at(&self, index: usize) -> Option<T> {
        (self.skips >> index & 1 == 0).then_some(self.values[index])
    }

    #[inline]
    fn append(&mut self, value: Option<T>, starts_run: bool, write: &mut impl FnMut(Word)) -> bool {
        // In a word that has not begun a missing value fits always.
        let fits = (value.is_none() && self.pending == 0) || self.fits(value);
        if !fits {
            if !value.is_none_or(fits_any_word) {
                return false;
            }
            let last = self.at(self.pending as usize - 1);
            loop {
                self.write_word(write);
                self.start_word();
                if self.fits(value) {
                    break;
                }
            }
            if value.is_none() {
                self.family_fit = 0;
            }
            if starts_run && self.pending == 0 && last == value {
                self.run = 1;
                self.last = Some(last);
                // The value is in no word, but the families that cannot hold it stay out of the choice.
                self.value_bits = FAMILIES[self.family].value_bits_min;
                return true;
            }
        }
        self.wait_for(value);
        true
    }

    #[inline]
    fn wait_for(&mut self, value: Option<T>) {
        let at = self.pending as usize;
        self.values[at] = value.unwrap_or_default();
        self.skips |= u64::from(value.is_none()) << at;
        self.pending += 1;
    }

    /// Whether a value fits into a word with those that wait. Where it does, it counts as one of them.
    #[inline]
    fn fits(&mut self, value: Option<T>) -> bool {
        let slots = self.pending + 1;
        while let Some(family) = FAMILIES.get(self.family) {
            let bits = value.map_or(0, |value| bits_in(value, self.family));
            let bits = bits.max(self.value_bits);
            if (bits + family.shift_bits) * slots <= family.data_bits {
                self.family_fit = self.family;
                self.value_bits = bits;
                return true;
            }
            self.family += 1;
            self.measure(slots);
        }
        false
    }

    /// Finds the bits that the widest value that waits takes in the family.
    fn measure(&mut self, slots: u32) {
        let Some(family) = FAMILIES.get(self.family) else {
            return;
        };
        self.value_bits = family.value_bits_min;
        if (self.value_bits + family.shift_bits) * slots > family.data_bits {
            return;
        }
        for at in 0..self.pending as usize {
            let bits = self.at(at).map_or(0, |value| bits_in(value, self.family));
            self.value_bits = self.value_bits.max(bits);
        }
    }

    /// Begins the choice of a family anew.
    fn start_word(&mut self) {
        self.family = 0;
        self.measure(0);
    }

    fn write_word(&mut self, write: &mut impl FnMut(Word)) {
        let family = &FAMILIES[self.family_fit];
        let layout = family.layout_for(self.pending);
        let mut bits = family.head(layout);
        let mut at = Layout::first_bit(bits);
        for index in 0..layout.slots as usize {
            let slot = self
                .at(index)
                .map_or(layout.mask(), |value| slot_of(value, family));
            bits |= slot << at;
            at += layout.width;
        }
        let slots = layout.slots as usize;
        self.values.copy_within(slots..self.pending as usize, 0);
        self.skips >>= layout.slots;
        self.pending -= layout.slots;
        let rows = layout.slots;
        write(Word { bits, rows });
    }

    /// Writes the run as far as its units go; the rest waits.
    #[inline]
    fn end_run(&mut self, write: &mut impl FnMut(Word)) {
        if self.run > 0 {
            self.write_run(write);
        }
    }

    #[cold]
    fn write_run(&mut self, write: &mut impl FnMut(Word)) {
        let mut units = self.run / RUN_UNIT;
        while units > 0 {
            let count = units.min(RUN_UNITS_MAX);
            units -= count;
            let bits = RUN | u64::from(count - 1) << 4;
            let rows = count * RUN_UNIT;
            write(Word { bits, rows });
        }
        let rest = self.run % RUN_UNIT;
        self.run = 0;
        let last = self.last.flatten();
        for _ in 0..rest {
            self.append(last, false, write);
        }
    }
}

/// The bits that a value takes in a family, without those of its shift.
#[inline]
fn bits_in<T: Packed>(value: T, family: usize) -> u32 {
    let bits = value.bits();
    if family == 0 {
        return bits;
    }
    let family = &FAMILIES[family];
    let zeros = value.trailing_zeros();
    // All ones with the greatest shift would be a missing value.
    if zeros == family.shift_max {
        return (value >> zeros).bits();
    }
    bits.checked_sub(shift_of(zeros, family))
        .unwrap_or(TOO_WIDE)
}

/// The bits that a family shifts a value with so many zeros at its low end by.
#[inline]
fn shift_of(zeros: u32, family: &Family) -> u32 {
    zeros.min(family.shift_max) / family.shift_unit * family.shift_unit
}

fn slot_of<T: Packed>(value: T, family: &Family) -> u64 {
    if family.shift_bits == 0 {
        return value.low();
    }
    let shift = shift_of(value.trailing_zeros(), family);
    (value >> shift).low() << family.shift_bits | u64::from(shift / family.shift_unit)
}

/// Whether there is a layout with one slot that holds the value.
fn fits_any_word<T: Packed>(value: T) -> bool {
    let mut families = FAMILIES.iter().enumerate();
    families.any(|(index, family)| bits_in(value, index) + family.shift_bits <= family.data_bits)
}
