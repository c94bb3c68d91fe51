//! A search: `$text: {$search: "coffee -\"black tea\""}`.

use super::{FieldText, Language, Sensitivity, any_of, tokens};
use crate::Result;
use crate::operation;
use std::collections::BTreeSet;

/// What a text takes beside its letters, in a list or a set.
const TEXT_BYTES: usize = 48;

/// What a search asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextQuery {
    /// The language of the search.
    pub language: Language,
    /// How exactly words are compared.
    pub sensitivity: Sensitivity,
    /// Terms to look up in the index: any of them makes a candidate, and the scores of all that a document
    /// has are its score.
    pub index_terms: BTreeSet<String>,
    /// Terms of which a document has at least one; those of the index unless the search is sensitive.
    pub terms: BTreeSet<String>,
    /// Terms of which a document has none.
    pub negated_terms: BTreeSet<String>,
    /// Phrases that a document has all of, as written.
    pub phrases: Vec<String>,
    /// Phrases of which a document has none, as written.
    pub negated_phrases: Vec<String>,
}

impl TextQuery {
    /// Reads what `$search` says. Every text is a search.
    pub fn parse(search: &str, language: Language, sensitivity: Sensitivity) -> TextQuery {
        let sentences = Sentences::read(search);
        let terms = |sentence: &str, sensitivity| {
            // mongod splits C strings.
            let sentence = sentence.split('\0').next().unwrap_or_default();
            tokens(sentence, language, sensitivity)
                .without_stop_words()
                .collect()
        };
        TextQuery {
            language,
            sensitivity,
            index_terms: terms(&sentences.wanted, Sensitivity::default()),
            terms: terms(&sentences.wanted, sensitivity),
            negated_terms: terms(&sentences.negated, sensitivity),
            phrases: sentences.phrases,
            negated_phrases: sentences.negated_phrases,
        }
    }

    /// True when a document with these texts, which has one of the index terms, matches.
    ///
    /// # Errors
    /// Those of a statement that has to end.
    pub fn matches(&self, texts: &[FieldText<'_>]) -> Result<bool> {
        Ok(
            (self.sensitivity.is_none() || self.has_term(&self.terms, texts)?)
                && (self.negated_terms.is_empty() || !self.has_term(&self.negated_terms, texts)?)
                && self.has_phrases(texts)?,
        )
    }

    /// The memory that it takes, roughly.
    pub fn size_bytes(&self) -> usize {
        let terms = [&self.index_terms, &self.terms, &self.negated_terms];
        let terms = terms.into_iter().flatten();
        let phrases = self.phrases.iter().chain(&self.negated_phrases);
        terms
            .chain(phrases)
            .map(|text| TEXT_BYTES + text.len())
            .sum()
    }

    /// True when the terms of the index do not say all of whether a document matches.
    pub fn needs_document(&self) -> bool {
        !(self.sensitivity.is_none()
            && self.negated_terms.is_empty()
            && self.phrases.is_empty()
            && self.negated_phrases.is_empty())
    }

    fn has_term(&self, terms: &BTreeSet<String>, texts: &[FieldText<'_>]) -> Result<bool> {
        for field in texts {
            let words = tokens(field.text, field.language, self.sensitivity);
            if any_of(words, |term| Ok(terms.contains(term)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether all phrases are there that should be, and no other.
    fn has_phrases(&self, texts: &[FieldText<'_>]) -> Result<bool> {
        let wanted = self.phrases.iter().map(|phrase| (phrase, true));
        let negated = self.negated_phrases.iter().map(|phrase| (phrase, false));
        let mut folded: Option<Vec<(String, Language)>> = None;
        for (phrase, is_wanted) in wanted.chain(negated) {
            let texts = folded.get_or_insert_with(|| {
                let fold = |field: &FieldText<'_>| {
                    let text = self.sensitivity.fold(field.text, field.language);
                    (text, field.language)
                };
                texts.iter().map(fold).collect()
            });
            let mut is_there = false;
            for (text, language) in texts {
                operation::check()?;
                // In mongod a text of nothing but diacritics has not even the empty phrase.
                if !text.is_empty() && text.contains(&self.sensitivity.fold(phrase, *language)) {
                    is_there = true;
                    break;
                }
            }
            if is_there != is_wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a search says, before its words are looked at.
#[derive(Default)]
struct Sentences {
    wanted: String,
    negated: String,
    phrases: Vec<String>,
    negated_phrases: Vec<String>,
}

/// A piece of a search: a sign, or text up to the next sign or white space.
struct Piece<'a> {
    text: &'a str,
    start: usize,
    after_white_space: bool,
}

impl Sentences {
    /// A `-` after white space negates what follows, to the next white space; a phrase can be negated, but
    /// not a word in it. Words of a phrase are wanted too, unless it is negated. Quotes that are not closed
    /// make no phrase; their words are wanted as others are.
    fn read(search: &str) -> Sentences {
        let mut sentences = Sentences::default();
        let mut is_negated = false;
        let mut phrase_start = None;
        for piece in pieces(search) {
            match (piece.text, phrase_start) {
                ("-", None) if piece.after_white_space => is_negated = true,
                ("-", _) => {}
                ("\"", Some(start)) => {
                    sentences.add_phrase(&search[start..piece.start], is_negated);
                    phrase_start = None;
                }
                ("\"", None) => {
                    phrase_start = Some(piece.start + 1);
                    is_negated &= !piece.after_white_space;
                }
                (text, None) => {
                    is_negated &= !piece.after_white_space;
                    sentences.add_text(text, is_negated);
                }
                (text, Some(_)) if !is_negated => sentences.add_text(text, false),
                _ => {}
            }
        }
        sentences
    }

    fn add_phrase(&mut self, phrase: &str, is_negated: bool) {
        let phrases = if is_negated {
            &mut self.negated_phrases
        } else {
            &mut self.phrases
        };
        phrases.push(phrase.to_owned());
    }

    fn add_text(&mut self, text: &str, is_negated: bool) {
        let sentence = if is_negated {
            &mut self.negated
        } else {
            &mut self.wanted
        };
        sentence.push_str(text);
        sentence.push(' ');
    }
}

fn pieces(search: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = &search[position..];
        let trimmed = rest.trim_start_matches(is_white_space);
        let start = position + rest.len() - trimmed.len();
        let first = trimmed.chars().next()?;
        let length = if is_sign(first) {
            1
        } else {
            let end = trimmed.find(|c| is_sign(c) || is_white_space(c));
            end.unwrap_or(trimmed.len())
        };
        let after_white_space = position == 0 || start > position;
        position = start + length;
        Some(Piece {
            text: &trimmed[..length],
            start,
            after_white_space,
        })
    })
}

fn is_sign(c: char) -> bool {
    matches!(c, '-' | '"')
}

/// The tab is part of a text for mongod's reader of searches.
fn is_white_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\u{b}' | '\u{c}')
}
