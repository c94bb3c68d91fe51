//! PCRE's way of writing a pattern in that of the `regex` crate.

use super::backtracking::PatternOptions;
use std::iter::Peekable;
use std::str::Chars;

/// The pattern as the `regex` crate writes it; none where it needs backtracking, or may be broken.
pub fn linear(source: &str, options: PatternOptions) -> Option<String> {
    Translator::new(source, options).run()
}

/// Rewrites what PCRE and the `regex` crate write differently.
struct Translator<'a> {
    chars: Peekable<Chars<'a>>,
    out: String,
    multi_line: bool,
    extended: bool,
    /// Whether a quantifier was written last.
    after_quantifier: bool,
    /// Whether what was written last can be repeated.
    is_repeatable: bool,
    /// Groups that are open.
    depth: usize,
}

impl<'a> Translator<'a> {
    fn new(source: &'a str, options: PatternOptions) -> Self {
        // Verbs such as (*UTF8) may only stand at the start.
        let mut source = source;
        for verb in ["(*UTF8)", "(*UTF)", "(*UCP)"] {
            source = source.strip_prefix(verb).unwrap_or(source);
        }
        Self {
            chars: source.chars().peekable(),
            out: String::with_capacity(source.len() + 16),
            multi_line: options.multi_line,
            extended: options.extended,
            after_quantifier: false,
            is_repeatable: false,
            depth: 0,
        }
    }

    fn run(mut self) -> Option<String> {
        while let Some(next) = self.chars.next() {
            let was_quantifier = std::mem::take(&mut self.after_quantifier);
            let was_repeatable = std::mem::replace(&mut self.is_repeatable, true);
            match next {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '$' => self.dollar(),
                // What may not be repeated, PCRE2 says.
                '*' | '+' | '?' | '{' if !was_repeatable && !was_quantifier => return None,
                '{' => self.brace(was_quantifier)?,
                '*' | '+' | '?' => self.quantifier(next, was_quantifier)?,
                ')' => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.out.push(')');
                }
                '^' | '|' => {
                    self.is_repeatable = false;
                    self.out.push(next);
                }
                '#' if self.extended => self.line_comment(),
                other => self.out.push(other),
            }
        }
        Some(self.out)
    }

    /// PCRE's `$` also matches before a newline that ends the text.
    fn dollar(&mut self) {
        self.is_repeatable = false;
        self.out
            .push_str(if self.multi_line { "$" } else { r"(?:\n?\z)" });
    }

    fn quantifier(&mut self, symbol: char, was_quantifier: bool) -> Option<()> {
        // Behind another one it makes that one lazy, or possessive, or is an error.
        if was_quantifier && symbol != '?' {
            return None;
        }
        self.is_repeatable = false;
        self.out.push(symbol);
        self.after_quantifier = !was_quantifier;
        Some(())
    }

    /// `{2}`, `{2,}`, `{2,5}` repeat; any other brace is a brace.
    fn brace(&mut self, was_quantifier: bool) -> Option<()> {
        let rest: String = self.chars.clone().take_while(|next| *next != '}').collect();
        let (low, high) = rest.split_once(',').unwrap_or((&rest, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let closed = self.chars.clone().any(|next| next == '}');
        if low.is_empty() || !digits(low) || !digits(high) || !closed {
            self.out.push_str(r"\{");
            return Some(());
        }
        if was_quantifier {
            return None;
        }
        self.is_repeatable = false;
        if [low, high].iter().any(|bound| bound.len() > 4) {
            return None;
        }
        self.out.push('{');
        self.out.push_str(&rest);
        self.out.push('}');
        self.chars.nth(rest.len());
        self.after_quantifier = true;
        Some(())
    }

    fn line_comment(&mut self) {
        while self.chars.next_if(|next| *next != '\n').is_some() {}
    }

    fn group(&mut self) -> Option<()> {
        self.is_repeatable = false;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        if self.chars.peek() == Some(&'*') {
            return None;
        }
        if self.chars.next_if_eq(&'?').is_none() {
            self.out.push('(');
            return Some(());
        }
        match self.chars.peek().copied() {
            Some('=' | '!') => None,
            Some('>') => None,
            Some('(') => None,
            Some('|') => None,
            Some('R' | '&' | '0'..='9' | '+') => None,
            Some('#') => {
                self.depth -= 1;
                self.chars.by_ref().find(|next| *next == ')')?;
                Some(())
            }
            Some('<') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('=' | '!') => None,
                    _ => {
                        self.out.push_str("(?P<");
                        Some(())
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
                Some(())
            }
            Some('P') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('=') => None,
                    Some('>') => None,
                    _ => {
                        self.out.push_str("(?P");
                        Some(())
                    }
                }
            }
            _ => {
                self.inline_flags();
                Some(())
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

    fn escape(&mut self) -> Option<()> {
        let next = self.chars.next()?;
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
            'N' if self.chars.peek() == Some(&'{') => return None,
            'N' => self.out.push_str(r"[^\n]"),
            'X' => self.out.push_str(r"(?:\P{M}\p{M}*)"),
            'b' | 'B' => {
                self.is_repeatable = false;
                self.out.push_str(&format!(r"(?-u:\{next})"));
            }
            'Z' => self.out.push_str(r"(?:\n?\z)"),
            'A' | 'z' => {
                self.out.push('\\');
                self.out.push(next);
            }
            'G' | 'K' | 'C' | 'g' | 'k' | '1'..='9' => return None,
            'Q' => self.quoted(),
            'E' => {}
            'p' | 'P' => self.property(next),
            other => self.character_escape(other)?,
        }
        Some(())
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
    fn character_escape(&mut self, escaped: char) -> Option<()> {
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
                self.chars.next_if_eq(&'}')?;
                code
            }
            'x' => self.digits(16, 2),
            'o' if self.chars.next_if_eq(&'{').is_some() => {
                let code = self.digits(8, 11);
                self.chars.next_if_eq(&'}')?;
                code
            }
            'c' => self
                .chars
                .next()
                .map(|control| control.to_ascii_uppercase() as u32 ^ 64)?,
            other if other.is_ascii_alphanumeric() => {
                return None;
            }
            other => {
                self.literal(other);
                return Some(());
            }
        };
        self.out.push_str(&format!("\\x{{{code:X}}}"));
        Some(())
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
    fn class(&mut self) -> Option<()> {
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        // A class by name that stands outside of one.
        if matches!(self.chars.peek(), Some(':' | '.' | '=')) {
            return None;
        }
        let mut first = true;
        loop {
            let next = self.chars.next()?;
            match next {
                ']' if !first => break,
                '[' if self.posix_class()? => {}
                '\\' => self.class_escape()?,
                '-' => self.class_dash(first),
                other => self.literal(other),
            }
            first = false;
        }
        self.out.push(']');
        Some(())
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
    /// A class by name, if one stands here. What is no name of one is left to PCRE2.
    fn posix_class(&mut self) -> Option<bool> {
        let ahead: String = self.chars.clone().take(12).collect();
        let Some(end) = ahead.strip_prefix(':').and_then(|rest| rest.find(":]")) else {
            return if ahead.starts_with([':', '.', '=']) {
                None
            } else {
                Some(false)
            };
        };
        let name = ahead[1..=end].trim_start_matches('^');
        if !POSIX_CLASSES.contains(&name) {
            return None;
        }
        self.out.push('[');
        self.out.push_str(&ahead[..end + 3]);
        self.chars.nth(end + 2);
        Some(true)
    }

    fn class_escape(&mut self) -> Option<()> {
        let next = self.chars.next()?;
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
        Some(())
    }
}

/// Groups within groups that PCRE takes.
const DEPTH_MAX: usize = 250;
const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];
const HORIZONTAL_SPACE: &str =
    r"[\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]";
const VERTICAL_SPACE: &str = r"[\n\x0B\f\r\x{85}\x{2028}\x{2029}]";
