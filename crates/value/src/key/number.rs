//! Numbers in keys; see the drawing in the parent module.

use super::bytes::Reader;
use super::type_bits::{TypeBits, TypeBitsReader};
use super::{KeyError, KeyResult};
use crate::number::Decimal;
use crate::number::exact::truncate_to_double;
use bson::Bson;

/// NaN.
pub(super) const NAN: u8 = 0x18;
/// |x| >= 2^63, negative.
const NEGATIVE_LARGE: u8 = mirrored(POSITIVE_LARGE);
/// Zero; the classes of negative numbers lie mirrored below it.
const ZERO: u8 = 0x23;
/// 0 < x < 1.
const POSITIVE_FRACTION: u8 = 0x24;
/// 1 <= x < 2^63, a whole part of one byte (of 8 bytes: 7 above).
const POSITIVE_1: u8 = 0x25;
const POSITIVE_8: u8 = POSITIVE_1 + 7;
/// x >= 2^63.
pub(super) const POSITIVE_LARGE: u8 = 0x2D;

/// The class byte of `-x` from that of `x`.
const fn mirrored(class: u8) -> u8 {
    2 * ZERO - class
}

const TYPE_INT32: u128 = 0;
const TYPE_INT64: u128 = 1;
const TYPE_DOUBLE: u128 = 2;
const TYPE_DECIMAL: u128 = 3;

/// The bits of the NaN that a key without type bits means.
const NAN_BITS: u64 = 0x7FF8_0000_0000_0000;
/// 2^63 as the bits of a double.
const TWO_63_BITS: u64 = 0x43E0_0000_0000_0000;
/// Added to the decimal exponent in a continuation, so that it is unsigned.
const EXPONENT_BIAS: i32 = 0x2000;

/// Appends an int32 or int64.
#[inline]
pub(super) fn encode_integer(value: i64, is_int32: bool, out: &mut Vec<u8>, types: &mut TypeBits) {
    if is_int32 || i32::try_from(value).is_err() && value != i64::MIN {
        types.push_zero();
    } else {
        push_type(TYPE_INT64, types);
    }
    if value == 0 {
        out.push(ZERO);
    } else if value == i64::MIN {
        write_eight(NEGATIVE_LARGE, !(TWO_63_BITS << 1), out);
    } else {
        write_whole(value.unsigned_abs() << 1, value < 0, out);
    }
}

/// Appends a double.
#[inline]
pub(super) fn encode_double(value: f64, out: &mut Vec<u8>, types: &mut TypeBits) {
    let bits = value.to_bits();
    let negative = bits >> 63 == 1;
    let magnitude = bits & !(1 << 63);
    let complement = if negative { u64::MAX } else { 0 };
    let class = |positive: u8| {
        if negative {
            mirrored(positive)
        } else {
            positive
        }
    };
    match magnitude {
        0 => {
            push_type(TYPE_DOUBLE, types);
            types.push(u128::from(negative), 1);
            out.push(ZERO);
        }
        1..0x3FF0_0000_0000_0000 => {
            types.push_zero();
            write_eight(class(POSITIVE_FRACTION), (magnitude << 2) ^ complement, out);
        }
        0x3FF0_0000_0000_0000..TWO_63_BITS => {
            let power = (magnitude >> 52) as u32 - 1023;
            let mantissa = magnitude & ((1 << 52) - 1) | 1 << 52;
            let fraction_bits = 52u32.saturating_sub(power);
            let whole = if power <= 52 {
                mantissa >> fraction_bits
            } else {
                mantissa << (power - 52)
            };
            let fraction = mantissa & ((1 << fraction_bits) - 1);
            if fraction == 0 {
                push_type(TYPE_DOUBLE, types);
                write_whole(whole << 1, negative, out);
            } else {
                types.push_zero();
                write_whole(whole << 1 | 1, negative, out);
                write_fraction(fraction, power, false, complement, out);
            }
        }
        TWO_63_BITS..=0x7FF0_0000_0000_0000 => {
            types.push_zero();
            write_eight(class(POSITIVE_LARGE), (magnitude << 1) ^ complement, out);
        }
        _ => {
            if bits == NAN_BITS {
                types.push_zero();
            } else {
                push_type(TYPE_DOUBLE, types);
                types.push(u128::from(bits), 64);
            }
            out.push(NAN);
        }
    }
}

/// Appends a decimal.
pub(super) fn encode_decimal(value: bson::Decimal128, out: &mut Vec<u8>, types: &mut TypeBits) {
    push_type(TYPE_DECIMAL, types);
    types.push(u128::from_le_bytes(value.bytes()), 128);
    let decimal = Decimal::from_bson(value);
    let negative = decimal.is_negative();
    let complement = if negative { u64::MAX } else { 0 };
    let class = |positive: u8| {
        if negative {
            mirrored(positive)
        } else {
            positive
        }
    };
    if decimal.is_nan() {
        return out.push(NAN);
    }
    if decimal.is_zero() {
        return out.push(ZERO);
    }
    let Some((coefficient, exponent)) = decimal.normalized() else {
        let bits = f64::INFINITY.to_bits() << 1;
        return write_eight(class(POSITIVE_LARGE), bits ^ complement, out);
    };
    let inexact = match split_decimal(coefficient, exponent) {
        Split::Whole(whole) => {
            write_whole(whole << 1, negative, out);
            false
        }
        Split::Mixed { whole, rest, unit } => {
            write_whole(whole << 1 | 1, negative, out);
            let power = whole.ilog2();
            let (fraction, inexact) = binary_fraction(rest, unit, 52u32.saturating_sub(power));
            write_fraction(fraction, power, inexact, complement, out);
            inexact
        }
        Split::Fraction => {
            let (base, inexact) = truncate_to_double(decimal);
            let bits = base.to_bits() << 2 | u64::from(inexact);
            write_eight(class(POSITIVE_FRACTION), bits ^ complement, out);
            inexact
        }
        Split::Large => {
            let (base, inexact) = truncate_to_double(decimal);
            let bits = base.to_bits() << 1 | u64::from(inexact);
            write_eight(class(POSITIVE_LARGE), bits ^ complement, out);
            inexact
        }
    };
    if inexact {
        write_continuation(coefficient, exponent, complement as u8, out);
    }
}

/// A positive decimal by the class of its key.
enum Split {
    /// A whole number below 2^63.
    Whole(u64),
    /// `whole + rest / unit`, 1 <= whole < 2^63, 0 < rest < unit.
    Mixed { whole: u64, rest: u128, unit: u128 },
    /// Below 1.
    Fraction,
    /// 2^63 or above.
    Large,
}

fn split_decimal(coefficient: u128, exponent: i32) -> Split {
    let bounded = |whole: u128| u64::try_from(whole).ok().filter(|whole| *whole < 1 << 63);
    if exponent >= 0 {
        let scaled = 10u128
            .checked_pow(exponent as u32)
            .and_then(|unit| unit.checked_mul(coefficient));
        return scaled.and_then(bounded).map_or(Split::Large, Split::Whole);
    }
    let Some(unit) = 10u128.checked_pow(exponent.unsigned_abs()) else {
        return Split::Fraction;
    };
    match bounded(coefficient / unit) {
        None => Split::Large,
        Some(0) => Split::Fraction,
        // The coefficient has no trailing zeros and the exponent is negative: rest > 0.
        Some(whole) => Split::Mixed {
            whole,
            rest: coefficient % unit,
            unit,
        },
    }
}

/// The first `bits` binary digits of `rest / unit`, and whether any follow.
fn binary_fraction(mut rest: u128, unit: u128, bits: u32) -> (u64, bool) {
    let mut fraction = 0u64;
    for _ in 0..bits {
        rest *= 2; // rest < unit <= 10^34
        fraction = fraction << 1 | u64::from(rest >= unit);
        rest -= if rest >= unit { unit } else { 0 };
    }
    (fraction, rest != 0)
}

fn push_type(number_type: u128, types: &mut TypeBits) {
    types.push(1 | number_type << 1, 3);
}

/// Class byte and the whole part with its fraction flag, in as few bytes as it needs.
#[inline]
fn write_whole(body: u64, negative: bool, out: &mut Vec<u8>) {
    let length = 8 - body.leading_zeros() as usize / 8;
    let aligned = body << (64 - 8 * length);
    let class = POSITIVE_1 + length as u8 - 1;
    let mut buffer = [0; 9];
    if negative {
        buffer[0] = mirrored(class);
        buffer[1..].copy_from_slice(&(!aligned).to_be_bytes());
    } else {
        buffer[0] = class;
        buffer[1..].copy_from_slice(&aligned.to_be_bytes());
    }
    out.extend_from_slice(&buffer[..=length]);
}

#[inline]
fn write_eight(class: u8, body: u64, out: &mut Vec<u8>) {
    let mut buffer = [class; 9];
    buffer[1..].copy_from_slice(&body.to_be_bytes());
    out.extend_from_slice(&buffer);
}

/// How many bytes the fraction takes behind a whole part of `power + 1` bits: what a
/// double's 53 bits leave, and one for the flag.
#[inline]
fn fraction_length(power: u32) -> usize {
    (52u32.saturating_sub(power) as usize + 1).div_ceil(8)
}

#[inline]
fn write_fraction(fraction: u64, power: u32, continued: bool, complement: u64, out: &mut Vec<u8>) {
    let length = fraction_length(power);
    let fraction_bits = 52u32.saturating_sub(power);
    let body = fraction << (8 * length as u32 - fraction_bits) | u64::from(continued);
    let aligned = (body << (64 - 8 * length)) ^ complement;
    out.extend_from_slice(&aligned.to_be_bytes()[..length]);
}

/// The decimal itself, for numbers that no double and no int64 equals: the exponent of its
/// first digit, then its digits in pairs.
fn write_continuation(coefficient: u128, exponent: i32, complement: u8, out: &mut Vec<u8>) {
    let digits = coefficient.ilog10() as i32 + 1;
    let biased = (exponent + digits + EXPONENT_BIAS) as u16;
    out.extend(biased.to_be_bytes().map(|byte| byte ^ complement));
    let mut rest = if digits % 2 == 1 {
        coefficient * 10
    } else {
        coefficient
    };
    let mut unit = 100u128.pow((digits as u32).div_ceil(2) - 1);
    loop {
        let pair = (rest / unit) as u8;
        rest %= unit;
        out.push((pair << 1 | u8::from(unit > 1)) ^ complement);
        if unit == 1 {
            return;
        }
        unit /= 100;
    }
}

/// What the bytes of a number say, without its type bits.
struct Plain {
    negative: bool,
    kind: PlainKind,
    continued: bool,
}

enum PlainKind {
    Zero,
    NaN,
    Whole(u64),
    Double(f64),
}

/// Steps over a number whose class byte has been read.
#[inline]
pub(super) fn skip<const MASK: u8>(
    class: u8,
    reader: &mut Reader<'_, MASK>,
) -> Result<(), KeyError> {
    read_plain(class, reader).map(|_| ())
}

/// Reads a number whose class byte has been read.
pub(super) fn decode<const MASK: u8>(
    class: u8,
    reader: &mut Reader<'_, MASK>,
    types: &mut TypeBitsReader<'_>,
) -> Result<Bson, KeyError> {
    let plain = read_plain(class, reader)?;
    if !types.read_one() {
        return if plain.continued {
            Err(KeyError::Corrupt)
        } else {
            Ok(plain.suggested())
        };
    }
    Ok(match types.read(2) {
        TYPE_INT32 => Bson::Int32(plain.to_i64()?.try_into().map_err(|_| KeyError::Corrupt)?),
        TYPE_INT64 => Bson::Int64(plain.to_i64()?),
        TYPE_DOUBLE => Bson::Double(match plain.kind {
            PlainKind::Zero => {
                if types.read_one() {
                    -0.0
                } else {
                    0.0
                }
            }
            PlainKind::NaN => f64::from_bits(types.read(64) as u64),
            _ => plain.to_f64(),
        }),
        _ => Bson::Decimal128(bson::Decimal128::from_bytes(types.read(128).to_le_bytes())),
    })
}

impl Plain {
    fn suggested(&self) -> Bson {
        match self.kind {
            PlainKind::Zero => Bson::Int32(0),
            PlainKind::Whole(_) => {
                let value = self.to_i64().expect("a whole part is below 2^63");
                i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
            }
            PlainKind::NaN | PlainKind::Double(_) => Bson::Double(self.to_f64()),
        }
    }

    fn to_f64(&self) -> f64 {
        let magnitude = match self.kind {
            PlainKind::Zero => 0.0,
            PlainKind::NaN => return f64::from_bits(NAN_BITS),
            PlainKind::Whole(whole) => whole as f64,
            PlainKind::Double(double) => double,
        };
        if self.negative { -magnitude } else { magnitude }
    }

    fn to_i64(&self) -> Result<i64, KeyError> {
        match self.kind {
            PlainKind::Zero => Ok(0),
            PlainKind::Whole(whole) if self.negative => Ok(-(whole as i64)),
            PlainKind::Whole(whole) => Ok(whole as i64),
            PlainKind::Double(_) if self.to_f64() == i64::MIN as f64 => Ok(i64::MIN),
            _ => Err(KeyError::Corrupt),
        }
    }
}

#[inline]
fn read_plain<const MASK: u8>(class: u8, reader: &mut Reader<'_, MASK>) -> KeyResult<Plain> {
    let negative = class < ZERO;
    let flip = if negative { u64::MAX } else { 0 };
    let plain = |kind, continued| Plain {
        negative,
        kind,
        continued,
    };
    Ok(
        match if negative && class != NAN {
            mirrored(class)
        } else {
            class
        } {
            ZERO => plain(PlainKind::Zero, false),
            NAN => Plain {
                negative: false,
                kind: PlainKind::NaN,
                continued: false,
            },
            POSITIVE_FRACTION => {
                let body = reader.unsigned(8)? ^ flip;
                read_continuation(body, flip, reader)?;
                plain(PlainKind::Double(f64::from_bits(body >> 2)), body & 1 == 1)
            }
            POSITIVE_LARGE => {
                let body = reader.unsigned(8)? ^ flip;
                read_continuation(body, flip, reader)?;
                plain(PlainKind::Double(f64::from_bits(body >> 1)), body & 1 == 1)
            }
            class @ POSITIVE_1..=POSITIVE_8 => {
                let length = usize::from(class - POSITIVE_1) + 1;
                let body = (reader.unsigned(length)? ^ flip) & (u64::MAX >> (64 - 8 * length));
                let whole = body >> 1;
                if whole == 0 {
                    return Err(KeyError::Corrupt);
                }
                if body & 1 == 0 {
                    return Ok(plain(PlainKind::Whole(whole), false));
                }
                let power = whole.ilog2();
                let length = fraction_length(power);
                let tail = (reader.unsigned(length)? ^ flip) & (u64::MAX >> (64 - 8 * length));
                read_continuation(tail, flip, reader)?;
                let fraction_bits = 52u32.saturating_sub(power);
                let fraction = tail >> (8 * length as u32 - fraction_bits);
                // Exact: the whole part has power + 1 bits and the fraction 52 - power.
                let value = whole as f64 + fraction as f64 / (1u64 << fraction_bits) as f64;
                plain(PlainKind::Double(value), tail & 1 == 1)
            }
            _ => return Err(KeyError::Corrupt),
        },
    )
}

/// Steps over a continuation if the flag in `body` announces one.
#[inline]
fn read_continuation<const MASK: u8>(
    body: u64,
    flip: u64,
    reader: &mut Reader<'_, MASK>,
) -> Result<(), KeyError> {
    if body & 1 == 0 {
        return Ok(());
    }
    reader.take(2)?;
    while (reader.byte()? ^ flip as u8) & 1 == 1 {}
    Ok(())
}
