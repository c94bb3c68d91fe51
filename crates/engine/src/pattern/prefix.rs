//! What every match of a pattern begins with: what index ranges can be built from.

use super::Pattern;

impl Pattern {
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
pub(super) const PREFIXES_MAX: usize = 100;

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

fn some_prefix(prefix: String) -> Option<(String, bool)> {
    (!prefix.is_empty()).then_some((prefix, false))
}
