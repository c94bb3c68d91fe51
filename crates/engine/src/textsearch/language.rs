//! The languages of texts: their names, stop words and stemmers.

use super::stems;
use crate::{Error, Result};
use ahash::AHashSet;
use rust_stemmers::{Algorithm, Stemmer};
use std::borrow::Cow;
use std::sync::LazyLock;

macro_rules! languages {
    ($($language:ident $name:literal $short:literal),+ $(,)?) => {
        /// A language that MongoDB knows; it decides stop words, stems and delimiters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Language {
            /// No stop words, no stems.
            None,
            $($language,)+
        }

        impl Language {
            /// The name by which MongoDB lists it.
            pub fn name(self) -> &'static str {
                match self {
                    Language::None => "none",
                    $(Language::$language => $name,)+
                }
            }

            /// The language of a name or of a short name (`english`, `en`), in capitals or not.
            fn find(name: &str) -> Option<Language> {
                match name.to_ascii_lowercase().as_str() {
                    "none" => Some(Language::None),
                    $($name | $short => Some(Language::$language),)+
                    _ => None,
                }
            }

            fn stop_words(self) -> Option<&'static AHashSet<&'static str>> {
                match self {
                    Language::None => None,
                    $(Language::$language => {
                        static WORDS: LazyLock<AHashSet<&'static str>> = LazyLock::new(|| {
                            include_str!(concat!("stop_words/", $name, ".txt")).lines().collect()
                        });
                        Some(&WORDS)
                    })+
                }
            }

            fn stemmer(self) -> Option<Stemmer> {
                match self {
                    Language::None => None,
                    $(Language::$language => Some(Stemmer::create(Algorithm::$language)),)+
                }
            }
        }
    };
}

languages! {
    Danish "danish" "da",
    Dutch "dutch" "nl",
    English "english" "en",
    Finnish "finnish" "fi",
    French "french" "fr",
    German "german" "de",
    Hungarian "hungarian" "hu",
    Italian "italian" "it",
    Norwegian "norwegian" "nb",
    Portuguese "portuguese" "pt",
    Romanian "romanian" "ro",
    Russian "russian" "ru",
    Spanish "spanish" "es",
    Swedish "swedish" "sv",
    Turkish "turkish" "tr",
}

impl Language {
    /// The language that a definition, a document or a search names.
    ///
    /// # Errors
    /// `BadValue` for a language that MongoDB does not know.
    pub fn parse(name: &str) -> Result<Language> {
        Language::find(name).ok_or_else(|| {
            Error::bad_value(format!(
                "unsupported language: \"{name}\" for text index version 3"
            ))
        })
    }

    /// True for a word in small letters, with its diacritics, that says nothing of a text.
    pub fn is_stop_word(self, word: &str) -> bool {
        self.stop_words().is_some_and(|words| words.contains(word))
    }

    /// The stem of a word in small letters, with its diacritics.
    pub fn stem(self, word: &str) -> Cow<'_, str> {
        match self.stemmer() {
            Some(stemmer) => stems::stem(&stemmer, self, word),
            None => Cow::Borrowed(word),
        }
    }
}
