//! Regular expressions: PCRE as MongoDB's users write it, run by the `regex` crate.
//!
//! In: a pattern and options `imsxu`. Out: a compiled matcher with linear run time. Look-around,
//! back-references and the other constructs that need backtracking are errors that name them.

use crate::error::{Error, Result};
use crate::operation::memory::Reservation;
use meridian_value::text::is_utf8;
use regex::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

/// A compiled regular expression with the text it came from.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    options: Box<str>,
    compiled: Regex,
    /// What the compiled program may take.
    _memory: Arc<Reservation>,
}

/// Compiled programs larger than the last of these are refused. How large a program is, the `regex` crate
/// does not say; so each size is tried, and the first that is enough is counted.
const COMPILED_BYTES: [usize; 7] = [
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
];
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
    /// 51108 for an unknown option, 51091 for a broken pattern, `NotImplemented` for a construct
    /// that needs backtracking.
    pub fn new(source: &str, options: &str) -> Result<Self> {
        if source.contains('\0') {
            return Err(Error::bad_value(
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        if !is_utf8(source) {
            return Err(Error::location(
                51091,
                "Regular expression is invalid: invalid UTF-8 string",
            ));
        }
        if source.len() > PATTERN_BYTES_MAX {
            return Err(Error::location(
                51091,
                "Regular expression is invalid: regular expression is too large",
            ));
        }
        let mut flags = Flags::default();
        for option in options.chars() {
            match option {
                'i' => flags.ignore_case = true,
                'm' => flags.multi_line = true,
                's' => flags.dot_all = true,
                'x' => flags.extended = true,
                'u' => {}
                other => {
                    return Err(Error::location(
                        51108,
                        format!(" invalid flag in regex options: {other}"),
                    ));
                }
            }
        }
        let translated = Translator::new(source, &flags).run()?;
        let (compiled, memory) = compile(&translated, &flags)?;
        Ok(Self {
            source: source.into(),
            options: options.into(),
            compiled,
            _memory: Arc::new(memory),
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

    /// The compiled expression, for those who need what it captures.
    pub fn regex(&self) -> &Regex {
        &self.compiled
    }

    /// Whether the text has a match anywhere.
    #[inline]
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }

    /// The literals one of which every match starts with, when all alternatives are `^literal...` and case
    /// matters: what index ranges can be built from. `true` beside one whose alternative is nothing else.
    pub fn prefixes(&self) -> Option<Vec<(String, bool)>> {
        if !matches!(&*self.options, "" | "s" | "u") {
            return None;
        }
        if !self.source.contains('|') {
            return Some(vec![literal_prefix(self.source.strip_prefix('^')?)?]);
        }
        let mut found = Vec::new();
        for alternative in alternatives(&self.source)? {
            add_prefixes(alternative.strip_prefix('^')?, &mut found)?;
        }
        (found.len() <= PREFIXES_MAX).then_some(found)
    }
}

/// Expressions with more alternatives than this have no prefixes: each becomes a range, which takes memory.
const PREFIXES_MAX: usize = 100;

/// Adds what matches of an alternative behind its `^` begin with: a literal, or one of several in a group.
fn add_prefixes(body: &str, found: &mut Vec<(String, bool)>) -> Option<()> {
    if !body.starts_with('(') {
        found.push(literal_prefix(body)?);
        return Some(());
    }
    let (group, rest) = leading_group(body)?;
    // The group may be absent.
    if rest.starts_with(['*', '?', '{']) {
        return None;
    }
    for alternative in alternatives(group)? {
        let (prefix, is_all) = literal_prefix(alternative)?;
        found.push((prefix, is_all && rest.is_empty()));
    }
    Some(())
}

/// The literal that a text without bars outside of groups begins with, and whether it is nothing else.
fn literal_prefix(body: &str) -> Option<(String, bool)> {
    let mut prefix = String::new();
    let mut chars = body.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => match chars.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                _ => return some_prefix(prefix),
            },
            '*' | '?' | '{' => {
                prefix.pop();
                return some_prefix(prefix);
            }
            '+' | '.' | '[' | '(' | ')' | '$' | '^' => return some_prefix(prefix),
            literal => prefix.push(literal),
        }
    }
    (!prefix.is_empty()).then_some((prefix, true))
}

/// The parts of a text between its bars outside of groups; `None` where these are not easily found.
fn alternatives(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, character) in structure(text)? {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    (depth == 0).then_some(found)
}

/// What is in the group that a text begins with, and what follows it.
fn leading_group(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, character) in structure(text)? {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            let group = &text[1..at];
            return Some((group.strip_prefix("?:").unwrap_or(group), &text[at + 1..]));
        }
    }
    None
}

/// The parentheses and bars of an expression, with their positions; `None` where it has what may hide or
/// change others: classes, quotations, control characters, options within (which hold for the alternatives
/// behind them, too) and verbs.
fn structure(text: &str) -> Option<Vec<(usize, char)>> {
    let mut found = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        let rest = &text[at + character.len_utf8()..];
        match character {
            '\\' => {
                let (_, escaped) = characters.next()?;
                if matches!(escaped, 'Q' | 'c') {
                    return None;
                }
            }
            '[' => return None,
            '(' if rest.starts_with('*') => return None,
            '(' if rest.starts_with('?') && !rest.starts_with("?:") => return None,
            '(' | ')' | '|' => found.push((at, character)),
            _ => {}
        }
    }
    Some(found)
}

fn compile(translated: &str, flags: &Flags) -> Result<(Regex, Reservation)> {
    let mut bytes = COMPILED_BYTES.into_iter().peekable();
    while let Some(size) = bytes.next() {
        // Its program is there forwards and backwards, its states for each thread that uses it.
        let memory = Reservation::exactly(2 * size + states_bytes(size) / 8)?;
        let built = RegexBuilder::new(translated)
            .case_insensitive(flags.ignore_case)
            .multi_line(flags.multi_line)
            .dot_matches_new_line(flags.dot_all)
            .ignore_whitespace(flags.extended)
            .size_limit(size)
            .dfa_size_limit(states_bytes(size))
            .build();
        match built {
            Err(regex::Error::CompiledTooBig(_)) if bytes.peek().is_some() => {}
            Err(error) => return Err(invalid(&error.to_string())),
            Ok(compiled) => return Ok((compiled, memory)),
        }
    }
    unreachable!("the last size answers")
}

fn some_prefix(prefix: String) -> Option<(String, bool)> {
    (!prefix.is_empty()).then_some((prefix, false))
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.options == other.options
    }
}

#[derive(Default)]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
}

fn invalid(reason: &str) -> Error {
    // The first lines of the crate's message draw the pattern; the last says what is wrong.
    let reason = reason.trim_end().lines().last().unwrap_or(reason);
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let reason = if reason == "unclosed group" {
        "missing )"
    } else {
        reason
    };
    Error::location(51091, format!("Regular expression is invalid: {reason}"))
}

fn unsupported(what: &str) -> Error {
    Error::not_implemented(format!("$regex with {what}"))
}

/// Rewrites what PCRE and the `regex` crate write differently.
struct Translator<'a> {
    chars: Peekable<Chars<'a>>,
    out: String,
    multi_line: bool,
    extended: bool,
    /// Whether the last thing written can be repeated, so that a quantifier may follow.
    after_quantifier: bool,
}

impl<'a> Translator<'a> {
    fn new(source: &'a str, flags: &Flags) -> Self {
        // Verbs such as (*UTF8) may only stand at the start.
        let mut source = source;
        for verb in ["(*UTF8)", "(*UTF)", "(*UCP)"] {
            source = source.strip_prefix(verb).unwrap_or(source);
        }
        Self {
            chars: source.chars().peekable(),
            out: String::with_capacity(source.len() + 16),
            multi_line: flags.multi_line,
            extended: flags.extended,
            after_quantifier: false,
        }
    }

    fn run(mut self) -> Result<String> {
        while let Some(next) = self.chars.next() {
            let was_quantifier = std::mem::take(&mut self.after_quantifier);
            match next {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '$' => self.dollar(),
                '{' => self.brace(was_quantifier)?,
                '*' | '+' | '?' => self.quantifier(next, was_quantifier)?,
                '#' if self.extended => self.line_comment(),
                other => self.out.push(other),
            }
        }
        Ok(self.out)
    }

    /// PCRE's `$` also matches before a newline that ends the text.
    fn dollar(&mut self) {
        self.out
            .push_str(if self.multi_line { "$" } else { r"(?:\n?\z)" });
    }

    fn quantifier(&mut self, symbol: char, was_quantifier: bool) -> Result<()> {
        if was_quantifier && symbol == '+' {
            return Err(unsupported("possessive quantifiers"));
        }
        self.out.push(symbol);
        self.after_quantifier = !was_quantifier;
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,5}` repeat; any other brace is a brace.
    fn brace(&mut self, was_quantifier: bool) -> Result<()> {
        let rest: String = self.chars.clone().take_while(|next| *next != '}').collect();
        let (low, high) = rest.split_once(',').unwrap_or((&rest, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let closed = self.chars.clone().any(|next| next == '}');
        if low.is_empty() || !digits(low) || !digits(high) || !closed || was_quantifier {
            self.out.push_str(r"\{");
            return Ok(());
        }
        self.out.push('{');
        self.out.push_str(&rest);
        self.out.push('}');
        self.chars.nth(rest.len());
        self.after_quantifier = true;
        Ok(())
    }

    fn line_comment(&mut self) {
        while self.chars.next_if(|next| *next != '\n').is_some() {}
    }

    fn group(&mut self) -> Result<()> {
        if self.chars.peek() == Some(&'*') {
            return Err(unsupported("backtracking control verbs"));
        }
        if self.chars.next_if_eq(&'?').is_none() {
            self.out.push('(');
            return Ok(());
        }
        match self.chars.peek().copied() {
            Some('=' | '!') => Err(unsupported("look-ahead")),
            Some('>') => Err(unsupported("atomic groups")),
            Some('(') => Err(unsupported("conditional groups")),
            Some('|') => Err(unsupported("branch-reset groups")),
            Some('R' | '&' | '0'..='9' | '+') => Err(unsupported("recursion")),
            Some('#') => {
                while self.chars.next().is_some_and(|next| next != ')') {}
                Ok(())
            }
            Some('<') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('=' | '!') => Err(unsupported("look-behind")),
                    _ => {
                        self.out.push_str("(?P<");
                        Ok(())
                    }
                }
            }
            Some('\'') => {
                self.chars.next();
                self.out.push_str("(?P<");
                while let Some(next) = self.chars.next_if(|next| *next != '\'') {
                    self.out.push(next);
                }
                self.chars.next();
                self.out.push('>');
                Ok(())
            }
            Some('P') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('=') => Err(unsupported("back-references")),
                    Some('>') => Err(unsupported("recursion")),
                    _ => {
                        self.out.push_str("(?P");
                        Ok(())
                    }
                }
            }
            _ => {
                self.inline_flags();
                Ok(())
            }
        }
    }

    /// `(?im-s)` and `(?i:`. What they set for the rest of the pattern matters for `$` and `#`.
    fn inline_flags(&mut self) {
        self.out.push_str("(?");
        let mut on = true;
        while let Some(flag) = self
            .chars
            .next_if(|next| next.is_ascii_alphabetic() || *next == '-')
        {
            match flag {
                '-' => on = false,
                'm' => self.multi_line = on,
                'x' => self.extended = on,
                _ => {}
            }
            self.out.push(flag);
        }
    }

    fn escape(&mut self) -> Result<()> {
        let Some(next) = self.chars.next() else {
            return Err(Error::location(
                51091,
                "Regular expression is invalid: \\ at end of pattern",
            ));
        };
        match next {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"[\t\n\x0B\f\r\x20]"),
            'S' => self.out.push_str(r"[^\t\n\x0B\f\r\x20]"),
            'h' => self.out.push_str(HORIZONTAL_SPACE),
            'H' => self.out.push_str(&HORIZONTAL_SPACE.replacen('[', "[^", 1)),
            'v' => self.out.push_str(VERTICAL_SPACE),
            'V' => self.out.push_str(&VERTICAL_SPACE.replacen('[', "[^", 1)),
            'R' => self
                .out
                .push_str(r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])"),
            'N' => self.out.push_str(r"[^\n]"),
            'X' => self.out.push_str(r"(?:\P{M}\p{M}*)"),
            'b' => self.out.push_str(r"(?-u:\b)"),
            'B' => self.out.push_str(r"(?-u:\B)"),
            'Z' => self.out.push_str(r"(?:\n?\z)"),
            'A' | 'z' => {
                self.out.push('\\');
                self.out.push(next);
            }
            'G' => self.out.push_str(r"\A"),
            'K' => return Err(unsupported("\\K")),
            'C' => return Err(unsupported("\\C")),
            'g' | 'k' | '1'..='9' => return Err(unsupported("back-references")),
            'Q' => self.quoted(),
            'E' => {}
            'p' | 'P' => self.property(next),
            other => self.character_escape(other)?,
        }
        Ok(())
    }

    fn quoted(&mut self) {
        while let Some(next) = self.chars.next() {
            if next == '\\' && self.chars.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(next);
        }
    }

    fn property(&mut self, kind: char) {
        self.out.push('\\');
        self.out.push(kind);
        if self.chars.next_if_eq(&'{').is_some() {
            self.out.push('{');
            for next in self.chars.by_ref() {
                self.out.push(next);
                if next == '}' {
                    break;
                }
            }
        }
    }

    /// Escapes that stand for one character, inside and outside classes.
    fn character_escape(&mut self, escaped: char) -> Result<()> {
        let code = match escaped {
            'a' => 7,
            'e' => 0x1B,
            'f' => 0x0C,
            'n' => 0x0A,
            'r' => 0x0D,
            't' => 0x09,
            '0' => self.digits(8, 2),
            'x' if self.chars.next_if_eq(&'{').is_some() => {
                let code = self.digits(16, 8);
                self.chars.next_if_eq(&'}');
                code
            }
            'x' => self.digits(16, 2),
            'o' if self.chars.next_if_eq(&'{').is_some() => {
                let code = self.digits(8, 11);
                self.chars.next_if_eq(&'}');
                code
            }
            'c' => self
                .chars
                .next()
                .map_or(0, |control| control.to_ascii_uppercase() as u32 ^ 64),
            other if other.is_ascii_alphanumeric() => {
                return Err(Error::location(
                    51091,
                    "Regular expression is invalid: unrecognized character follows \\",
                ));
            }
            other => {
                self.literal(other);
                return Ok(());
            }
        };
        self.out.push_str(&format!("\\x{{{code:X}}}"));
        Ok(())
    }

    fn digits(&mut self, radix: u32, count_max: usize) -> u32 {
        let mut code = 0u32;
        for _ in 0..count_max {
            let Some(digit) = self.chars.peek().and_then(|next| next.to_digit(radix)) else {
                break;
            };
            self.chars.next();
            code = code.wrapping_mul(radix).wrapping_add(digit);
        }
        code
    }

    fn literal(&mut self, character: char) {
        if character.is_ascii_punctuation() || character == ' ' || character.is_ascii_control() {
            self.out.push_str(&format!("\\x{{{:X}}}", character as u32));
        } else {
            self.out.push(character);
        }
    }

    /// A bracketed class. The `regex` crate reads set operators, nested classes and (with `x`)
    /// spaces there; PCRE does not.
    fn class(&mut self) -> Result<()> {
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(next) = self.chars.next() else {
                return Err(Error::location(
                    51091,
                    "Regular expression is invalid: missing terminating ] for character class",
                ));
            };
            match next {
                ']' if !first => break,
                '[' if self.posix_class() => {}
                '\\' => self.class_escape()?,
                '-' => self.class_dash(first),
                other => self.literal(other),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// A dash is a range between two characters, else itself.
    fn class_dash(&mut self, first: bool) {
        let at_edge = first || self.chars.peek() == Some(&']');
        let after_class = self.out.ends_with(']') && !self.out.ends_with("\\]");
        let before_class = {
            let mut ahead = self.chars.clone();
            ahead.next() == Some('\\')
                && ahead
                    .next()
                    .is_some_and(|next| "dDwWsShHvVpP".contains(next))
        };
        self.out
            .push_str(if at_edge || after_class || before_class {
                r"\-"
            } else {
                "-"
            });
    }

    fn posix_class(&mut self) -> bool {
        let ahead: String = self.chars.clone().take(12).collect();
        let Some(end) = ahead.strip_prefix(':').and_then(|rest| rest.find(":]")) else {
            return false;
        };
        self.out.push('[');
        self.out.push_str(&ahead[..end + 3]);
        self.chars.nth(end + 2);
        true
    }

    fn class_escape(&mut self) -> Result<()> {
        let Some(next) = self.chars.next() else {
            return Err(Error::location(
                51091,
                "Regular expression is invalid: \\ at end of pattern",
            ));
        };
        match next {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => self.out.push_str(match next {
                'd' => "[0-9]",
                'D' => "[^0-9]",
                'w' => "[0-9A-Za-z_]",
                'W' => "[^0-9A-Za-z_]",
                's' => r"[\t\n\x0B\f\r\x20]",
                _ => r"[^\t\n\x0B\f\r\x20]",
            }),
            'h' => self.out.push_str(HORIZONTAL_SPACE),
            'v' => self.out.push_str(VERTICAL_SPACE),
            'b' => self.out.push_str(r"\x{8}"),
            'p' | 'P' => self.property(next),
            '1'..='7' => {
                let rest = self.digits(8, 2);
                let code = if rest == 0 {
                    next as u32 - 48
                } else {
                    (next as u32 - 48) * 64 + rest
                };
                self.out.push_str(&format!("\\x{{{code:X}}}"));
            }
            other => self.character_escape(other)?,
        }
        Ok(())
    }
}

const HORIZONTAL_SPACE: &str =
    r"[\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]";
const VERTICAL_SPACE: &str = r"[\n\x0B\f\r\x{85}\x{2028}\x{2029}]";

#[cfg(test)]
mod tests {
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
