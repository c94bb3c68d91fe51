//! Regular expressions: PCRE as MongoDB's users write it.
//!
//! In: a pattern and options `imsxu`. Out: a compiled matcher. What can be matched in linear time is run by the
//! `regex` crate; look-around, back-references and what else needs backtracking by PCRE2, with bounds.

mod backtracking;
mod prefix;
mod translate;

use crate::error::{Error, Result};
use crate::operation::memory::Reservation;
pub use backtracking::CapturedGroups;
use backtracking::{Backtracking, PatternOptions};
use meridian_value::text::is_utf8;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::sync::Arc;

/// A compiled regular expression with the text it came from.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    options: Box<str>,
    program: Arc<Program>,
}

#[derive(Debug)]
enum Program {
    Linear {
        regex: Regex,
        /// What it may take.
        _memory: Reservation,
    },
    Backtracking(Backtracking),
}

thread_local! {
    /// Why the last search of this thread that had no room for an error ended without an answer.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Programs of the `regex` crate larger than the last of these are PCRE2's: a search may take a step for each of its
/// states and each byte of the text. How large a program is, the crate does not say; so each size is tried, and the
/// first that is enough is counted.
const COMPILED_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Memory in which a program of this size keeps states at run time.
fn states_bytes(compiled_bytes: usize) -> usize {
    (8 * compiled_bytes).clamp(64 << 10, 2 << 20)
}

/// MongoDB's limit on the length of a pattern.
const PATTERN_BYTES_MAX: usize = 32764;

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 51108 for an unknown option, 51091 for a broken pattern, `ExceededMemoryLimit`.
    pub fn new(source: &str, options: &str) -> Result<Self> {
        if source.contains('\0') {
            return Err(Error::bad_value(
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        if !is_utf8(source) {
            return Err(invalid("invalid UTF-8 string"));
        }
        if source.len() > PATTERN_BYTES_MAX {
            return Err(invalid("regular expression is too large"));
        }
        Ok(Self {
            source: source.into(),
            options: options.into(),
            program: Arc::new(compile(source, parse_options(options)?)?),
        })
    }

    /// The pattern as given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The options as given.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the text has a match anywhere. A search that fails, or that ends with its statement, finds none, and
    /// [`take_failure`] says why.
    #[inline]
    pub fn is_match(&self, text: &str) -> bool {
        match &*self.program {
            Program::Linear { regex, .. } => regex.is_match(text),
            Program::Backtracking(program) => program.is_match(text).unwrap_or_else(|error| {
                FAILURE.set(Some(error));
                false
            }),
        }
    }

    /// The first match that begins at `start` or behind, and what its groups captured.
    ///
    /// # Errors
    /// 51156 where a search takes too long or too much memory; those of `operation::check`.
    pub fn find_at(&self, text: &str, start: usize) -> Result<Option<CapturedGroups>> {
        match &*self.program {
            Program::Linear { regex, .. } => Ok(regex.captures_at(text, start).map(|found| {
                found
                    .iter()
                    .map(|group| group.map(|group| group.range()))
                    .collect()
            })),
            Program::Backtracking(program) => program.find_at(text, start),
        }
    }
}

/// What went wrong in a search of this thread that answered without it.
///
/// # Errors
/// Those of [`Pattern::find_at`].
#[inline]
pub fn take_failure() -> Result<()> {
    FAILURE.with_borrow_mut(|failure| failure.take().map_or(Ok(()), Err))
}

fn parse_options(options: &str) -> Result<PatternOptions> {
    let mut found = PatternOptions::default();
    for option in options.chars() {
        match option {
            'i' => found.ignore_case = true,
            'm' => found.multi_line = true,
            's' => found.dot_all = true,
            'x' => found.extended = true,
            'u' => {}
            other => {
                let message = format!(" invalid flag in regex options: {other}");
                return Err(Error::location(51108, message));
            }
        }
    }
    Ok(found)
}

fn compile(source: &str, options: PatternOptions) -> Result<Program> {
    if let Some(translated) = translate::linear(source, options)
        && let Some(program) = compile_linear(&translated, options)?
    {
        return Ok(program);
    }
    Backtracking::new(source, options).map(Program::Backtracking)
}

/// The program of the `regex` crate; none where it cannot run the pattern, or only with too much memory.
fn compile_linear(translated: &str, options: PatternOptions) -> Result<Option<Program>> {
    for size in COMPILED_BYTES {
        // Its program is there forwards and backwards, its states for each thread that uses it.
        let memory = Reservation::exactly(2 * size + states_bytes(size) / 8)?;
        let built = RegexBuilder::new(translated)
            .case_insensitive(options.ignore_case)
            .multi_line(options.multi_line)
            .dot_matches_new_line(options.dot_all)
            .ignore_whitespace(options.extended)
            .size_limit(size)
            .dfa_size_limit(states_bytes(size))
            .build();
        match built {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Ok(None),
            Ok(regex) => {
                return Ok(Some(Program::Linear {
                    regex,
                    _memory: memory,
                }));
            }
        }
    }
    Ok(None)
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.options == other.options
    }
}

fn invalid(reason: &str) -> Error {
    Error::location(51091, format!("Regular expression is invalid: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::prefix::PREFIXES_MAX;
    use super::*;

    #[test]
    fn pcre_is_read_as_pcre() {
        for (pattern, options, text, expected) in [
            ("a$", "", "a\n", true),
            ("a$", "", "a\nb", false),
            ("a$", "m", "a\nb", true),
            ("^b", "m", "a\nb", true),
            (r"\d", "", "٣", false),
            (r"\w+$", "", "é", false),
            (r"\bfoo\b", "", "a foo b", true),
            (r"\Boo", "", "foo", true),
            (r"a\/b", "", "a/b", true),
            (r"\<a\>", "", "<a>", true),
            ("a{,2}", "", "a{,2}", true),
            ("x{2}", "", "xx", true),
            ("[]a]+", "", "]a]", true),
            ("[[a]", "", "[", true),
            ("[a&&b]", "", "&", true),
            ("[a-]", "", "-", true),
            (r"[\w-.]", "", "-", true),
            ("[[:alpha:]]+", "", "abc", true),
            (r"\Qa.b\E", "", "a.b", true),
            (r"\Qa.b\E", "", "axb", false),
            (r"\x41", "", "A", true),
            (r"\x{e9}", "", "é", true),
            (r"\h", "", "\t", true),
            ("a b", "x", "ab", true),
            ("[a b]", "x", " ", true),
            ("a # comment", "x", "a", true),
            ("a(?#comment)b", "", "ab", true),
            ("(?i)ABC", "", "abc", true),
            ("É", "i", "é", true),
            ("a.b", "s", "a\nb", true),
            ("a.b", "", "a\nb", false),
            (r"a\Z", "", "a\n", true),
            ("(?<year>[0-9]+)", "", "2020", true),
        ] {
            let compiled = Pattern::new(pattern, options).unwrap();
            assert_eq!(
                compiled.is_match(text),
                expected,
                "/{pattern}/{options} on {text:?}"
            );
        }
    }

    #[test]
    fn prefixes_of_anchored_literals() {
        for (pattern, options, expected) in [
            ("^abc", "", &[("abc", true)][..]),
            ("^ab.c", "", &[("ab", false)]),
            ("^abc*", "", &[("ab", false)]),
            (r"^a\.b", "", &[("a.b", true)]),
            ("^abc", "i", &[]),
            ("abc", "", &[]),
            ("^", "", &[]),
            ("^A$|^B", "", &[("A", false), ("B", true)]),
            ("^(A|B)", "", &[("A", true), ("B", true)]),
            (
                "^(?:A|B)C|^D",
                "s",
                &[("A", false), ("B", false), ("D", true)],
            ),
            ("^(A|B)+", "", &[("A", false), ("B", false)]),
            ("^(A(x|y)|B)", "", &[("A", false), ("B", true)]),
            ("^A(x|y)", "", &[("A", false)]),
            (r"^A\|x|^B", "", &[("A|x", true), ("B", true)]),
            ("^ab|c", "", &[]),
            ("^ab|", "", &[]),
            ("^(A|)", "", &[]),
            ("^(A|B)?", "", &[]),
            ("^(A|B){0}", "", &[]),
            ("^A?|^B", "", &[]),
            ("^A|^B", "m", &[]),
            ("^A(?i)|^B", "", &[]),
            ("^A[|]|^B", "", &[]),
            (r"^A\Q|\E|^B", "", &[]),
        ] {
            let found = Pattern::new(pattern, options).unwrap().prefixes();
            let owned = |(text, exact): &(&str, bool)| ((*text).to_owned(), *exact);
            let expected: Vec<(String, bool)> = expected.iter().map(owned).collect();
            assert_eq!(found.unwrap_or_default(), expected, "/{pattern}/{options}");
        }
        for (alternatives, expected) in [(PREFIXES_MAX, true), (PREFIXES_MAX + 1, false)] {
            let pattern = vec!["^a"; alternatives].join("|");
            let found = Pattern::new(&pattern, "").unwrap().prefixes();
            assert_eq!(found.is_some(), expected);
        }
    }
}
