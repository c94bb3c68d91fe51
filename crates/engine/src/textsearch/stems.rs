//! Stems as mongod 6.0.5 makes them: it has Snowball stemmers of 2014, and two of them have changed since.

use super::Language;
use rust_stemmers::Stemmer;
use std::borrow::Cow;

/// A consonant that no word has and no stemmer knows.
const UNKNOWN_CONSONANT: &str = "\u{e000}";

/// The stem of a word by this stemmer of this language.
pub(super) fn stem<'a>(stemmer: &Stemmer, language: Language, word: &'a str) -> Cow<'a, str> {
    match language {
        Language::Hungarian => hungarian(stemmer, word),
        Language::Portuguese => portuguese(stemmer, word),
        _ => stemmer.stem(word),
    }
}

/// The Hungarian stemmer of that time was written for Latin-1 and took õ for ő and û for ű; ő and ű were letters
/// like any other.
fn hungarian<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    if !word.contains(['ő', 'ű', 'õ', 'û']) {
        return stemmer.stem(word);
    }
    Cow::Owned(exchange_accents(&stemmer.stem(&exchange_accents(word))))
}

fn exchange_accents(word: &str) -> String {
    let exchanged = word.chars().map(|c| match c {
        'ő' => 'õ',
        'õ' => 'ő',
        'ű' => 'û',
        'û' => 'ű',
        other => other,
    });
    exchanged.collect()
}

/// The Portuguese stemmer of that time cut the Spanish endings -ución and -uciones where it now cuts -ução and
/// -uções.
fn portuguese<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    for (old, new) in [("ción", "ção"), ("ciones", "ções")] {
        if let Some(rest) = word.strip_suffix(old).filter(|rest| rest.ends_with('u')) {
            let is_cut = stemmer.stem(&format!("{rest}{new}")) == rest;
            return if is_cut {
                rest.into()
            } else {
                stemmer.stem(word)
            };
        }
        if let Some(rest) = word.strip_suffix(new).filter(|rest| rest.ends_with('u')) {
            let ending = new.replacen('ç', UNKNOWN_CONSONANT, 1);
            let hidden = format!("{rest}{ending}");
            return Cow::Owned(stemmer.stem(&hidden).replace(UNKNOWN_CONSONANT, "ç"));
        }
    }
    stemmer.stem(word)
}
