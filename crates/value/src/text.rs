//! Text that need not be UTF-8, in a form that is.
//!
//! MongoDB stores the bytes of a string as they come and gives them back unchanged; here a string is a `str` everywhere.
//! So a byte that is no part of valid UTF-8 is written as two characters: the noncharacter U+10FFFF, and the character
//! whose number the byte is (U+0080 to U+00FF). A U+10FFFF that a client sent is written like that too, byte for byte;
//! so each text has a form of its own, and the form tells the text:
//!
//! ```text
//! text    61 FF 62                            F4 8F BF BF
//! form    61 (F4 8F BF BF C3 BF) 62           (F4 8F BF BF C3 B4) (F4 8F BF BF C2 8F) (.. C2 BF) (.. C2 BF)
//! ```
//!
//! Messages are turned into this form where they arrive, and back where they leave (`meridian_wire`). Nearly all text is
//! its own form. Equality, hashing and indexes work on the form; what looks inside a string (its length, its order among
//! others, regular expressions) sees two characters for such a byte.

use memchr::memmem::Finder;
use std::ops::Range;
use std::sync::LazyLock;

/// What stands before an escaped byte: U+10FFFF.
const MARK: &str = "\u{10ffff}";
/// An escaped byte: the mark, and a character of two bytes.
const ESCAPE_BYTES: usize = MARK.len() + 2;
static MARKS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MARK));

/// Whether the mark occurs in these bytes, so that they may hold escaped bytes.
///
/// ```
/// use meridian_value::text::{escape, is_marked};
///
/// let mut form = Vec::new();
/// escape(b"a\xffb", usize::MAX, &mut form).expect("short");
/// assert_eq!(form, "a\u{10ffff}\u{ff}b".as_bytes());
/// assert!(is_marked(&form) && !is_marked(b"a\xffb"));
/// ```
pub fn is_marked(bytes: &[u8]) -> bool {
    MARKS.find(bytes).is_some()
}

/// Appends the form of a text, or gives up once `out` is longer than `bytes_max`.
pub fn escape(text: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Option<()> {
    for chunk in text.utf8_chunks() {
        let mut parts = chunk.valid().split(MARK);
        out.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        for part in parts {
            escape_bytes(MARK.as_bytes(), out);
            out.extend_from_slice(part.as_bytes());
            within(bytes_max, out)?;
        }
        escape_bytes(chunk.invalid(), out);
        within(bytes_max, out)?;
    }
    Some(())
}

fn within(bytes_max: usize, out: &[u8]) -> Option<()> {
    (out.len() <= bytes_max).then_some(())
}

fn escape_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.extend_from_slice(MARK.as_bytes());
        out.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 2]).as_bytes());
    }
}

/// The text whose form this is.
pub fn restored(form: &str) -> Vec<u8> {
    let mut bytes = form.as_bytes().to_vec();
    let end = restore_within(&mut bytes, 0..form.len(), 0);
    bytes.truncate(end);
    bytes
}

/// Whether the text whose form this is is valid UTF-8.
pub fn is_utf8(form: &str) -> bool {
    !is_marked(form.as_bytes()) || std::str::from_utf8(&restored(form)).is_ok()
}

/// Writes the text whose form lies at `form` to `to`, which must not be behind the form's start; returns its end.
pub fn restore_within(buffer: &mut [u8], form: Range<usize>, to: usize) -> usize {
    let (mut read, mut write) = (form.start, to);
    while read < form.end {
        let rest = &buffer[read..form.end];
        let (taken, byte) = match MARKS.find(rest) {
            None => (rest.len(), None),
            Some(0) => match escaped_byte(rest) {
                // Half of an escape that an expression has cut.
                None => (MARK.len(), None),
                byte => (ESCAPE_BYTES, byte),
            },
            Some(plain) => (plain, None),
        };
        match byte {
            Some(byte) => {
                buffer[write] = byte;
                write += 1;
            }
            None => {
                buffer.copy_within(read..read + taken, write);
                write += taken;
            }
        }
        read += taken;
    }
    write
}

/// The byte that the escape at the start of these bytes stands for.
fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    match bytes.get(MARK.len()..ESCAPE_BYTES) {
        Some([lead @ (0xc2 | 0xc3), low]) => Some((lead & 3) << 6 | low & 0x3f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::HashMap;

    fn form(text: &[u8]) -> String {
        let mut out = Vec::new();
        escape(text, usize::MAX, &mut out).expect("no bound");
        String::from_utf8(out).expect("the form is UTF-8")
    }

    /// Text of the pieces on which the mapping turns.
    fn random_text(random: &mut ChaCha8Rng) -> Vec<u8> {
        const PIECES: &[&[u8]] = &[
            b"a",
            b"\xff",
            b"\xc3",
            b"\xa9",
            b"\xf4",
            b"\x8f",
            b"\xbf",
            b"\xed\xa0\x80",
            "\u{ff}".as_bytes(),
            "\u{80}".as_bytes(),
            MARK.as_bytes(),
        ];
        (0..random.random_range(0..6))
            .flat_map(|_| match random.random_range(0..4) {
                0 => vec![random.random()],
                _ => PIECES[random.random_range(0..PIECES.len())].to_vec(),
            })
            .collect()
    }

    #[test]
    fn every_text_has_a_form_of_its_own_that_gives_it_back() {
        let mut random = ChaCha8Rng::seed_from_u64(26);
        let mut texts = HashMap::new();
        for _ in 0..100_000 {
            let text = random_text(&mut random);
            let form = form(&text);
            assert_eq!(restored(&form), text, "{form:?}");
            assert!(form.len() <= ESCAPE_BYTES * text.len());
            let other = texts.entry(form).or_insert_with(|| text.clone());
            assert_eq!(*other, text);
        }
    }

    #[test]
    fn plain_text_is_its_own_form() {
        for text in ["", "a", "é", "東京", "\u{10fffe}", "\u{ff}\0"] {
            assert_eq!(form(text.as_bytes()), text);
            assert!(!is_marked(text.as_bytes()));
        }
        for text in [&b"\x80"[..], b"a\xff", MARK.as_bytes()] {
            assert!(is_marked(form(text).as_bytes()));
            assert_eq!(is_utf8(&form(text)), std::str::from_utf8(text).is_ok());
        }
    }

    #[test]
    fn half_an_escape_stays_as_it_is() {
        for text in [MARK, "\u{10ffff}a", "\u{10ffff}\u{100}", "\u{10ffff}\u{7f}"] {
            assert_eq!(restored(text), text.as_bytes());
        }
    }

    #[test]
    fn growth_is_bounded() {
        let text = [0xff; 1000];
        for (bytes_max, fits) in [(5999, false), (6000, true)] {
            let mut out = Vec::new();
            assert_eq!(escape(&text, bytes_max, &mut out).is_some(), fits);
            assert!(out.len() <= 6000);
        }
        let mut out = Vec::new();
        assert!(escape(MARK.repeat(1000).as_bytes(), 100, &mut out).is_none());
        assert!(out.len() <= 150);
    }
}
