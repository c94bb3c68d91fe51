//! The layouts of a Simple-8b word.
//!
//! ```text
//! bits 0..4   selector
//! 1..=14      slots of equal width from bit 4 on; 7 and 8 with bits 4..8 zero, slots from bit 8 on
//! 7, bits 4..8 = 1..=9     slots of a value and 4 bits: by how many bits it is shifted left
//! 8, bits 4..8 = 1..=7     slots of a value and 4 bits: by how many nibbles
//! 8, bits 4..8 = 8..=13    slots of a value and 5 bits: by how many nibbles (for 128-bit values)
//! 15          a run: the last value again, (bits 4..8 + 1) * 120 times
//! ```
//!
//! A slot of all ones is a missing value, so the widest value of a slot is one less.

/// Rows of a run are counted in this unit.
pub(crate) const RUN_UNIT: u32 = 120;
/// Units of one run, at most.
pub(crate) const RUN_UNITS_MAX: u32 = 16;
/// The selector of a run.
pub(crate) const RUN: u64 = 15;

/// A way to lay out slots: how shifts are stored, and the widths there are.
#[derive(Debug)]
pub(crate) struct Family {
    /// The low bits of a slot that hold the shift.
    pub shift_bits: u32,
    /// Bits that one unit of the shift stands for.
    pub shift_unit: u32,
    /// The greatest shift, in bits.
    pub shift_max: u32,
    /// Bits of a word for slots.
    pub data_bits: u32,
    /// A value takes so many bits at least.
    pub value_bits_min: u32,
    /// The low four bits of its words; 0 where those are the layout's selector.
    base_selector: u64,
    /// The layouts, the one with the most slots first.
    pub layouts: &'static [Layout],
}

/// The slots of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    selector: u64,
    /// How many.
    pub slots: u32,
    /// Bits of each, with those of the shift.
    pub width: u32,
}

const fn layout(selector: u64, slots: u32, width: u32) -> Layout {
    Layout {
        selector,
        slots,
        width,
    }
}

/// In the order in which a writer tries them.
pub(crate) const FAMILIES: [Family; 4] = [
    Family {
        shift_bits: 0,
        shift_unit: 0,
        shift_max: 0,
        data_bits: 60,
        value_bits_min: 1,
        base_selector: 0,
        layouts: &[
            layout(1, 60, 1),
            layout(2, 30, 2),
            layout(3, 20, 3),
            layout(4, 15, 4),
            layout(5, 12, 5),
            layout(6, 10, 6),
            layout(7, 8, 7),
            layout(8, 7, 8),
            layout(9, 6, 10),
            layout(10, 5, 12),
            layout(11, 4, 15),
            layout(12, 3, 20),
            layout(13, 2, 30),
            layout(14, 1, 60),
        ],
    },
    Family {
        shift_bits: 4,
        shift_unit: 1,
        shift_max: 15,
        data_bits: 56,
        value_bits_min: 2,
        base_selector: 7,
        layouts: &[
            layout(1, 9, 6),
            layout(2, 8, 7),
            layout(3, 7, 8),
            layout(4, 6, 9),
            layout(5, 5, 11),
            layout(6, 4, 14),
            layout(7, 3, 18),
            layout(8, 2, 28),
            layout(9, 1, 56),
        ],
    },
    Family {
        shift_bits: 4,
        shift_unit: 4,
        shift_max: 60,
        data_bits: 56,
        value_bits_min: 4,
        base_selector: 8,
        layouts: &[
            layout(1, 7, 8),
            layout(2, 6, 9),
            layout(3, 5, 11),
            layout(4, 4, 14),
            layout(5, 3, 18),
            layout(6, 2, 28),
            layout(7, 1, 56),
        ],
    },
    Family {
        shift_bits: 5,
        shift_unit: 4,
        shift_max: 124,
        data_bits: 56,
        value_bits_min: 4,
        base_selector: 8,
        layouts: &[
            layout(8, 6, 9),
            layout(9, 5, 11),
            layout(10, 4, 14),
            layout(11, 3, 18),
            layout(12, 2, 28),
            layout(13, 1, 56),
        ],
    },
];

impl Family {
    /// The layout with the most slots that `pending` values fill.
    pub fn layout_for(&self, pending: u32) -> Layout {
        let filled = self.layouts.iter().find(|layout| layout.slots <= pending);
        *filled.unwrap_or(&self.layouts[self.layouts.len() - 1])
    }

    /// The word without its slots.
    pub fn head(&self, layout: Layout) -> u64 {
        match self.base_selector {
            0 => layout.selector,
            base => base | layout.selector << 4,
        }
    }
}

impl Layout {
    /// The bit of the first slot in a word with these low bits.
    pub const fn first_bit(word_low: u64) -> u32 {
        if matches!(word_low & 15, 7 | 8) { 8 } else { 4 }
    }

    /// A slot of all ones.
    pub fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }
}

/// How the slots of a word are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordLayout {
    /// The bit of the first slot.
    pub first_bit: u32,
    /// How many slots there are.
    pub slots: u32,
    /// Bits of each.
    pub width: u32,
    /// The low bits of a slot that hold the shift.
    pub shift_bits: u32,
    /// Bits that one unit of the shift stands for.
    pub shift_unit: u32,
    /// The greatest shift, in bits.
    pub shift_max: u32,
}

/// By the low eight bits of a word that is no run; none where there is no such selector.
static LAYOUTS: [Option<WordLayout>; 256] = {
    let mut all = [None; 256];
    let mut low = 0;
    while low < all.len() {
        all[low] = word_layout(low as u64);
        low += 1;
    }
    all
};

const fn word_layout(low: u64) -> Option<WordLayout> {
    let (selector, extension) = ((low & 15) as usize, (low >> 4 & 15) as usize);
    let (family, index) = match (selector, extension) {
        (7, 1..=9) => (1, extension - 1),
        (8, 1..=7) => (2, extension - 1),
        (8, 8..=13) => (3, extension - 8),
        (7 | 8, 14..) | (7, 10..) | (0 | 15, _) => return None,
        _ => (0, selector - 1),
    };
    let family = &FAMILIES[family];
    let layout = &family.layouts[index];
    Some(WordLayout {
        first_bit: Layout::first_bit(low),
        slots: layout.slots,
        width: layout.width,
        shift_bits: family.shift_bits,
        shift_unit: family.shift_unit,
        shift_max: family.shift_max,
    })
}

/// The layout of a word that is no run; `None` where there is no such selector.
#[inline]
pub(crate) fn layout_of(word: u64) -> Option<&'static WordLayout> {
    LAYOUTS[(word & 255) as usize].as_ref()
}

/// An integer that words hold: 64 or 128 bits.
pub(crate) trait Packed: Copy + Eq + Default + std::ops::Shr<u32, Output = Self> {
    /// How many bits it has.
    const BITS: u32;
    /// The bits that a slot of it takes, where all ones are no value; `None` where it would have to be wider.
    fn bits(self) -> u32;
    /// The zero bits at its low end; zero has none.
    fn trailing_zeros(self) -> u32;
    /// Its low 64 bits.
    fn low(self) -> u64;
    /// A slot's value, shifted.
    fn shifted(value: u64, shift: u32) -> Self;
}

impl Packed for u64 {
    const BITS: u32 = 64;

    #[inline]
    fn bits(self) -> u32 {
        // The greatest has no slot at all.
        self.checked_add(1)
            .map_or(65, |next| 64 - next.leading_zeros())
    }

    #[inline]
    fn trailing_zeros(self) -> u32 {
        if self == 0 {
            0
        } else {
            u64::trailing_zeros(self)
        }
    }

    #[inline]
    fn low(self) -> u64 {
        self
    }

    #[inline]
    fn shifted(value: u64, shift: u32) -> Self {
        value << shift
    }
}

impl Packed for u128 {
    const BITS: u32 = 128;

    #[inline]
    fn bits(self) -> u32 {
        match u64::try_from(self) {
            Ok(low) => Packed::bits(low),
            Err(_) => 128 - self.leading_zeros(),
        }
    }

    #[inline]
    fn trailing_zeros(self) -> u32 {
        if self == 0 {
            0
        } else {
            u128::trailing_zeros(self)
        }
    }

    #[inline]
    fn low(self) -> u64 {
        self as u64
    }

    #[inline]
    fn shifted(value: u64, shift: u32) -> Self {
        u128::from(value) << shift
    }
}
