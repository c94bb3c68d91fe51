//! The words of a text, as an index keeps them and as a search is compared with them.

use super::Language;
use super::characters::{characters, fold_case, is_delimiter, strip_diacritics};
use crate::Result;
use crate::operation;
use md5::{Digest, Md5};
use std::borrow::Cow;

/// What tells two words apart beyond their letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// Capitals differ from small letters (`$caseSensitive`).
    pub case: bool,
    /// Letters with diacritics differ from those without (`$diacriticSensitive`).
    pub diacritics: bool,
}

impl Sensitivity {
    /// True when the terms of an index say all that a search asks for.
    pub fn is_none(self) -> bool {
        self == Sensitivity::default()
    }

    /// A text in the form in which phrases are looked for. Turkish ones are, as in mongod, never sensitive to
    /// case; and the byte order mark is a character here.
    pub(super) fn fold(self, text: &str, language: Language) -> String {
        let keeps_case = self.case && language != Language::Turkish;
        let cased = text.chars().map(|c| match keeps_case {
            true => c,
            false => fold_case(c, language),
        });
        match self.diacritics {
            true => cased.collect(),
            false => cased.filter_map(strip_diacritics).collect(),
        }
    }
}

/// The terms under which an index has a text: stems without case and diacritics, no stop words, in order.
pub fn index_terms(text: &str, language: Language) -> impl Iterator<Item = String> {
    tokens(text, language, Sensitivity::default()).without_stop_words()
}

/// The stems of the words of a text, in order, stop words with them.
///
/// # Examples
/// ```
/// use meridian_engine::textsearch::{Language, Sensitivity, tokens};
/// let words = tokens("Crêpes, eaten!", Language::English, Sensitivity::default());
/// assert_eq!(words.collect::<Vec<_>>(), ["crepes", "eaten"]);
/// ```
pub fn tokens(text: &str, language: Language, sensitivity: Sensitivity) -> Tokens<'_> {
    Tokens {
        characters: Box::new(characters(text)),
        language,
        sensitivity,
        stop_words_too: true,
    }
}

/// Whether one of the words of a text is meant, which is to be found out only as long as the statement may go on.
///
/// # Errors
/// Those of a statement that has to end.
pub fn any_of(
    words: impl Iterator<Item = String>,
    mut is_meant: impl FnMut(&str) -> Result<bool>,
) -> Result<bool> {
    for (number, word) in words.enumerate() {
        if number % WORDS_CHECKED == WORDS_CHECKED - 1 {
            operation::check()?;
        }
        if is_meant(&word)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// After so many words the statement is asked whether it may go on.
const WORDS_CHECKED: usize = 1 << 12;

/// Iterator over the words of a text.
pub struct Tokens<'a> {
    characters: Box<dyn Iterator<Item = char> + 'a>,
    language: Language,
    sensitivity: Sensitivity,
    stop_words_too: bool,
}

impl Tokens<'_> {
    /// The same without stop words.
    #[must_use]
    pub fn without_stop_words(mut self) -> Self {
        self.stop_words_too = false;
        self
    }

    /// The next characters between delimiters.
    fn next_word(&mut self) -> Option<String> {
        let language = self.language;
        let first = self.characters.find(|&c| !is_delimiter(c, language))?;
        let rest = self.characters.by_ref();
        let rest = rest.take_while(|&c| !is_delimiter(c, language));
        Some(std::iter::once(first).chain(rest).collect())
    }

    /// The term of a word; nothing for a stop word that is not wanted.
    ///
    /// Stop words and stemmers know small letters with their diacritics. A search that is sensitive to case has
    /// stems of words as they are written.
    fn term(&self, word: &str) -> Option<String> {
        let lower: String = word.chars().map(|c| fold_case(c, self.language)).collect();
        if !self.stop_words_too && self.language.is_stop_word(&lower) {
            return None;
        }
        let stem = self
            .language
            .stem(if self.sensitivity.case { word } else { &lower });
        if self.sensitivity.diacritics {
            return Some(stem.into_owned());
        }
        Some(stem.chars().filter_map(strip_diacritics).collect())
    }
}

impl Iterator for Tokens<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let word = self.next_word()?;
            if let Some(term) = self.term(&word) {
                return Some(term);
            }
        }
    }
}

/// The most bytes of a term that an index key holds.
const KEY_BYTES_MAX: usize = 224;

/// A term as it is in an index key: of a longer one the first bytes, and the MD5 of all of it.
///
/// mongod cuts at a byte, here the letter that would be cut is left out.
pub fn index_key(term: &str) -> Cow<'_, str> {
    if term.len() <= KEY_BYTES_MAX {
        return Cow::Borrowed(term);
    }
    let mut key = term[..term.floor_char_boundary(KEY_BYTES_MAX)].to_owned();
    for byte in Md5::digest(term) {
        key.push_str(&format!("{byte:02x}"));
    }
    Cow::Owned(key)
}
