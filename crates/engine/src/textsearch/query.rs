//! A search: `$text: {$search: "coffee -\"black tea\""}`.

use super::{FieldText, Language, Sensitivity, tokens};
use std::collections::BTreeSet;

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
    pub fn matches(&self, texts: &[FieldText<'_>]) -> bool {
        (self.sensitivity.is_none() || self.has_term(&self.terms, texts))
            && (self.negated_terms.is_empty() || !self.has_term(&self.negated_terms, texts))
            && self
                .phrases
                .iter()
                .all(|phrase| self.has_phrase(phrase, texts))
            && !self
                .negated_phrases
                .iter()
                .any(|phrase| self.has_phrase(phrase, texts))
    }

    /// True when the terms of the index do not say all of whether a document matches.
    pub fn needs_document(&self) -> bool {
        !(self.sensitivity.is_none()
            && self.negated_terms.is_empty()
            && self.phrases.is_empty()
            && self.negated_phrases.is_empty())
    }

    fn has_term(&self, terms: &BTreeSet<String>, texts: &[FieldText<'_>]) -> bool {
        texts.iter().any(|field| {
            tokens(field.text, field.language, self.sensitivity).any(|term| terms.contains(&term))
        })
    }

    fn has_phrase(&self, phrase: &str, texts: &[FieldText<'_>]) -> bool {
        texts.iter().any(|field| {
            let fold = |text| self.sensitivity.fold(text, field.language);
            fold(field.text).contains(&fold(phrase))
        })
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

fn pieces(search: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut position = 0;
    let mut after_white_space = true;
    loop {
        let rest = &search[position..];
        let trimmed = rest.trim_start_matches(is_white_space);
        after_white_space |= trimmed.len() < rest.len();
        let start = position + rest.len() - trimmed.len();
        let Some(first) = trimmed.chars().next() else {
            return pieces;
        };
        let length = if is_sign(first) {
            1
        } else {
            let end = trimmed.find(|c| is_sign(c) || is_white_space(c));
            end.unwrap_or(trimmed.len())
        };
        pieces.push(Piece {
            text: &trimmed[..length],
            start,
            after_white_space,
        });
        position = start + length;
        after_white_space = false;
    }
}

fn is_sign(c: char) -> bool {
    matches!(c, '-' | '"')
}

/// The tab is part of a text for mongod's reader of searches.
fn is_white_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\u{b}' | '\u{c}')
}
