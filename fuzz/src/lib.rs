//! Fuzz targets: each takes bytes and must neither panic nor break its promise.
//!
//! What comes in are bytes from a seeded generator ([`run`]); what goes out is nothing, or a
//! [`Failure`] with the input that repeats it. There is no coverage guidance (that needs a
//! nightly compiler): inputs are mutated examples and documents built from a vocabulary of
//! operators, which is what reaches the parsers' depths. Any target is also a plain
//! `fn(&[u8])`, ready for a coverage-guided fuzzer.
//!
//! `cargo run --release -p meridian-fuzz -- filter --seconds 600` runs one for long; the test
//! beside this crate runs all of them for a few seconds each.

mod source;
mod targets;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub use targets::{TARGETS, Target};

/// The longest input a run generates.
const INPUT_BYTES_MAX: usize = 2048;

/// An input that made a target panic.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The input, in hexadecimal: `replay` takes it back.
    pub input: String,
    /// What the panic said.
    pub message: String,
}

/// Runs a target on generated inputs for so long; returns how many inputs it took.
///
/// # Errors
/// The first [`Failure`].
pub fn run(target: &Target, seed: u64, duration: Duration) -> Result<u64, Failure> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let deadline = Instant::now() + duration;
    let mut inputs = 0;
    while Instant::now() < deadline {
        let input = generate(target, &mut random);
        attempt(target, &input)?;
        inputs += 1;
    }
    Ok(inputs)
}

/// Runs a target on one input.
///
/// # Errors
/// The [`Failure`], if it panics.
pub fn attempt(target: &Target, input: &[u8]) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| Failure {
        target: target.name,
        input: hexadecimal(input),
        message: panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default(),
    })
}

/// Half of the inputs are mutated examples, half are random bytes.
fn generate(target: &Target, random: &mut ChaCha8Rng) -> Vec<u8> {
    let examples = (target.examples)();
    if examples.is_empty() || random.random_bool(0.5) {
        let mut input = vec![0; random.random_range(0..INPUT_BYTES_MAX / 8)];
        random.fill_bytes(&mut input);
        return input;
    }
    let mut input = examples[random.random_range(0..examples.len())].clone();
    for _ in 0..random.random_range(0..6) {
        mutate(&mut input, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// One small change: a byte, a bit, an interesting number, a cut, a repetition.
fn mutate(input: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    if input.is_empty() {
        input.push(random.random());
        return;
    }
    let at = random.random_range(0..input.len());
    match random.random_range(0..6) {
        0 => input[at] = random.random(),
        1 => input[at] ^= 1 << random.random_range(0..8),
        2 => {
            let number = [0, -1, 1, i32::MAX, i32::MIN, 4, 5, 255][random.random_range(0..8)];
            for (byte, new) in input[at..].iter_mut().zip(number.to_le_bytes()) {
                *byte = new;
            }
        }
        3 => input.truncate(at),
        4 => input.insert(at, random.random()),
        _ => {
            let end = (at + random.random_range(1..32)).min(input.len());
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
    }
}

/// Bytes as text for a report.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a report.
pub fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
