//! Doubles as integers: times a power of ten where that is exact, else their bits.

/// The factors, the smallest one first.
const FACTORS: [f64; 5] = [1.0, 10.0, 100.0, 10_000.0, 100_000_000.0];
/// The scale of integers that are a double's bits.
pub(crate) const BITS_SCALE: usize = 5;
/// The high nibble of a block's control byte, by the scale.
pub(crate) const CONTROLS: [u8; 6] = [0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0x80];
/// Up to this, 2^53, every integer is a double.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// More than the relative error of a product with the rounding of the quotient before, 2^-50.
const PRODUCT_ERROR_MAX: f64 = 1.0 / EASY_MAX;
/// Below this, 2^50, adding a half and truncating finds the integer that a double stands for.
const EASY_MAX: f64 = 1_125_899_906_842_624.0;

/// The scale of a block with this control byte.
pub(crate) fn scale_of(control: u8) -> Option<usize> {
    CONTROLS.iter().position(|high| *high == control & 0xF0)
}

/// The integer that stands for the double at this scale; `None` where none does exactly.
#[inline]
pub(crate) fn encode(value: f64, scale: usize) -> Option<i64> {
    let Some(factor) = FACTORS.get(scale) else {
        return Some(value.to_bits() as i64);
    };
    let scaled = value * factor;
    let size = scaled.abs();
    let integer = if size < EASY_MAX {
        (scaled + 0.5_f64.copysign(scaled)) as i64
    } else if size <= INTEGER_MAX {
        scaled.round() as i64
    } else {
        return None;
    };
    // The quotient is exact only where the product was about as near as products can be: that is checked faster.
    if (scaled - integer as f64).abs() > size * PRODUCT_ERROR_MAX {
        return None;
    }
    (decode(integer, scale).to_bits() == value.to_bits()).then_some(integer)
}

/// The double of an integer.
#[inline]
pub(crate) fn decode(integer: i64, scale: usize) -> f64 {
    match FACTORS.get(scale) {
        Some(1.0) => integer as f64,
        Some(factor) => integer as f64 / factor,
        None => f64::from_bits(integer as u64),
    }
}

/// The integer at the least scale, of those from `least` on, that has one.
#[inline]
pub(crate) fn encode_least(value: f64, least: usize) -> (i64, usize) {
    let mut scales = least..BITS_SCALE;
    let found = scales.find_map(|scale| Some((encode(value, scale)?, scale)));
    found.unwrap_or((value.to_bits() as i64, BITS_SCALE))
}

/// The integer that stands for the double, where its sign may be lost: a reader has to take zero and minus zero for
/// one, since what was computed before may be either.
pub(crate) fn encode_lossy(value: f64, scale: usize) -> Option<i64> {
    if value == 0.0 && scale < BITS_SCALE {
        return Some(0);
    }
    encode(value, scale)
}
