//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use super::Value;
use crate::error::{Code, Error, Result};
use crate::pattern::{CapturedGroups, Pattern, take_failure};
use bson::RawBsonRef;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexOperator {
    /// Whether there is a match.
    Match,
    /// The first match.
    Find,
    /// Every match.
    FindAll,
}

impl RegexOperator {
    /// The operator of a name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "$regexMatch" => RegexOperator::Match,
            "$regexFind" => RegexOperator::Find,
            "$regexFindAll" => RegexOperator::FindAll,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            RegexOperator::Match => "$regexMatch",
            RegexOperator::Find => "$regexFind",
            RegexOperator::FindAll => "$regexFindAll",
        }
    }

    fn nothing<'a>(self) -> Value<'a> {
        match self {
            RegexOperator::Match => Value::boolean(false),
            RegexOperator::Find => Value::NULL,
            RegexOperator::FindAll => Value::array(Vec::new()),
        }
    }
}

/// A compiled pattern; none where the pattern was null.
pub type Compiled = Option<Box<Pattern>>;

/// Compiles the `regex` and `options` arguments; none where they cannot be known yet.
pub fn compile(name: &str, arguments: &[Option<Value<'_>>]) -> Result<Option<Compiled>> {
    let [Some(pattern), options] = arguments else {
        return Ok(None);
    };
    compiled(name, pattern, options.as_ref()).map(Some)
}

fn compiled(name: &str, pattern: &Value<'_>, options: Option<&Value<'_>>) -> Result<Compiled> {
    let is_pattern = matches!(pattern.raw(), Some(RawBsonRef::RegularExpression(_)));
    if !is_pattern && !pattern.is_nullish() && pattern.as_str().is_none() {
        return Err(Error::location(
            51105,
            format!("{name} needs 'regex' to be of type string or regex"),
        ));
    }
    let options = match options {
        None => None,
        Some(options) if options.is_nullish() => None,
        Some(options) => Some(options.as_str().ok_or_else(|| {
            Error::location(
                51106,
                format!("{name} needs 'options' to be of type string"),
            )
        })?),
    };
    if pattern.is_nullish() {
        Pattern::new("", options.unwrap_or_default()).map_err(|error| rephrase(name, error))?;
        return Ok(None);
    }
    let (source, inner) = match pattern.raw() {
        Some(RawBsonRef::RegularExpression(regex)) => {
            (regex.pattern.as_str(), regex.options.as_str())
        }
        _ => (pattern.as_str().unwrap_or_default(), ""),
    };
    if !inner.is_empty() && options.is_some() {
        return Err(Error::location(
            51107,
            format!("{name}: found regex option(s) specified in both 'regex' and 'option' fields"),
        ));
    }
    if source.contains('\0') {
        return Err(Error::location(
            51109,
            format!("{name}: regular expression cannot contain an embedded null byte"),
        ));
    }
    let options = options.unwrap_or(inner);
    let pattern = Pattern::new(source, options).map_err(|error| rephrase(name, error))?;
    Ok(Some(Box::new(pattern)))
}

/// A query's error about a pattern in the words of an expression.
fn rephrase(name: &str, error: Error) -> Error {
    match error.code {
        Code::Location(51108) => Error::location(51108, format!("{name}{}", error.message)),
        Code::Location(51091) => {
            let reason = error
                .message
                .trim_start_matches("Regular expression is invalid: ");
            Error::location(51111, format!("Invalid Regex in {name}: {reason}"))
        }
        Code::Location(51156) => {
            let message = error.message.replacen("$regex", name, 1);
            let (message, _) = message.rsplit_once(": ").unwrap_or((&message, ""));
            Error::location(51156, message)
        }
        _ => error,
    }
}

/// The operator with a pattern only known now.
pub fn evaluate<'a>(name: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let kind = RegexOperator::of(name).expect("one of the three names");
    let pattern = arguments[1].take().expect("a required argument");
    let input = arguments[0].take().expect("a required argument");
    check_input(name, &input)?;
    let pattern = compiled(name, &pattern, arguments[2].as_ref())?;
    run(kind, &input, &pattern)
}

fn check_input(name: &str, input: &Value<'_>) -> Result<()> {
    if input.is_nullish() || input.as_str().is_some() {
        return Ok(());
    }
    Err(Error::location(
        51104,
        format!("{name} needs 'input' to be of type string"),
    ))
}

/// The operator over one input.
pub fn run<'a>(kind: RegexOperator, input: &Value<'a>, pattern: &Compiled) -> Result<Value<'a>> {
    check_input(kind.name(), input)?;
    let (Some(text), Some(pattern)) = (input.as_str(), pattern) else {
        return Ok(kind.nothing());
    };
    find(kind, text, pattern).map_err(|error| rephrase(kind.name(), error))
}

fn find<'a>(kind: RegexOperator, text: &str, pattern: &Pattern) -> Result<Value<'a>> {
    match kind {
        RegexOperator::Match => {
            let is_match = pattern.is_match(text);
            take_failure()?;
            Ok(Value::boolean(is_match))
        }
        RegexOperator::Find => Ok(match pattern.find_at(text, 0)? {
            Some(groups) => {
                let points = points(text, &groups);
                found_value(text, &groups, points)
            }
            None => Value::NULL,
        }),
        RegexOperator::FindAll => find_all(text, pattern),
    }
}

/// All matches that do not overlap. As in MongoDB, an empty one may follow another at once; the search ends where the text does.
fn find_all<'a>(text: &str, pattern: &Pattern) -> Result<Value<'a>> {
    let (mut found, mut start) = (Vec::new(), 0);
    // Where the last match begins, in bytes and in code points: the next is counted from there.
    let mut counted = (0, 0);
    while let Some(groups) = pattern.find_at(text, start)? {
        let Some(Some(whole)) = groups.first() else {
            break;
        };
        start = match whole.is_empty() {
            true => text.ceil_char_boundary(whole.end + 1),
            false => whole.end,
        };
        counted = match text.get(counted.0..whole.start) {
            Some(between) => (whole.start, counted.1 + between.chars().count()),
            None => (whole.start, points(text, &groups)),
        };
        found.push(found_value(text, &groups, counted.1));
        if start >= text.len() {
            break;
        }
        crate::operation::memory::check_values()?;
        crate::operation::check()?;
    }
    Ok(Value::array(found))
}

/// Where a match begins, in code points.
fn points(text: &str, groups: &CapturedGroups) -> usize {
    let start = groups[0].as_ref().map_or(0, |whole| whole.start);
    text[..start].chars().count()
}

fn found_value<'a>(text: &str, groups: &CapturedGroups, points: usize) -> Value<'a> {
    let whole = groups[0].clone().unwrap_or_default();
    let captures = groups[1..].iter().map(|group| match group {
        Some(group) => Value::string(&text[group.clone()]),
        None => Value::NULL,
    });
    Value::document(vec![
        ("match".into(), Value::string(&text[whole])),
        ("idx".into(), Value::int_or_long(points as i64)),
        ("captures".into(), Value::array(captures.collect())),
    ])
}
