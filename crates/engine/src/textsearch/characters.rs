//! Characters of a text: which separate words, which are the same letter.

use super::Language;
use super::character_tables::{BASES, CAPITALS, DELIMITERS, DIACRITICS};
use std::sync::LazyLock;

/// mongod's reader of UTF-8 drops this one, the byte order mark, wherever it stands.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The characters of a text that count.
pub(super) fn characters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|&c| c != BYTE_ORDER_MARK)
}

/// True for what stands between words. The apostrophe is part of English words.
pub(super) fn is_delimiter(c: char, language: Language) -> bool {
    if c == '\'' {
        return language != Language::English;
    }
    if c.is_ascii_alphanumeric() {
        return false;
    }
    is_in(DELIMITERS, c)
}

/// The small letter of a capital, and one letter for all forms of it (σ for ς). Only 1 : 1, as mongod's.
pub(super) fn fold_case(c: char, language: Language) -> char {
    match c {
        'I' if language == Language::Turkish => 'ı',
        'İ' if language == Language::Turkish => 'i',
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        _ => small_letter(c).unwrap_or(c),
    }
}

fn small_letter(c: char) -> Option<char> {
    let code = c as u32;
    let after = CAPITALS.partition_point(|run| run.0 <= code);
    let (first, last, step, distance) = *CAPITALS.get(after.checked_sub(1)?)?;
    let is_capital = code <= last && (code - first).is_multiple_of(step);
    let small = code.checked_add_signed(distance).filter(|_| is_capital)?;
    char::from_u32(small)
}

/// The letter without its diacritics; nothing for a character that is one itself.
pub(super) fn strip_diacritics(c: char) -> Option<char> {
    if c.is_ascii_alphanumeric() || c == ' ' {
        return Some(c);
    }
    if is_in(DIACRITICS, c) {
        return None;
    }
    static BASE_OF: LazyLock<Vec<(char, char)>> = LazyLock::new(bases);
    match BASE_OF.binary_search_by_key(&c, |(letter, _)| *letter) {
        Ok(found) => Some(BASE_OF[found].1),
        Err(_) => Some(c),
    }
}

/// Each letter with diacritics and what it is without them, sorted.
fn bases() -> Vec<(char, char)> {
    let mut bases = Vec::new();
    for line in BASES.lines() {
        let mut letters = line.chars();
        let base = letters.next().expect("no line of the table is empty");
        bases.extend(letters.map(|letter| (letter, base)));
    }
    bases.sort_unstable();
    bases
}

fn is_in(ranges: &[(u32, u32)], c: char) -> bool {
    let code = c as u32;
    let after = ranges.partition_point(|range| range.0 <= code);
    after
        .checked_sub(1)
        .is_some_and(|index| code <= ranges[index].1)
}
