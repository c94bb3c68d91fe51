//! The paths of an update: `a.b.0`, `a.$`, `a.$[]`, `a.$[x].b`.
//!
//! In: a dotted path as the client wrote it. Out: its typed parts, refused with MongoDB's
//! errors where a part is empty or an array part stands where no array can be.

use crate::error::{Code, Error, Result};

/// The parts a path may have. MongoDB counts them in a byte and errs in its own way past it.
const PARTS_MAX: usize = 255;

/// One step of an update path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathPart {
    /// A field's name, or the index of an array element.
    Field(Box<str>),
    /// `$`: the array element that the query matched.
    Matched,
    /// `$[]` (an empty identifier) or `$[identifier]`.
    Elements(Box<str>),
}

/// A parsed update path with at least one part.
#[derive(Debug, Clone)]
pub(super) struct UpdatePath {
    /// The path as written.
    pub text: Box<str>,
    /// Its steps.
    pub parts: Vec<PathPart>,
}

impl UpdatePath {
    /// Parses a dotted path.
    ///
    /// # Errors
    /// `EmptyFieldName` and `BadValue`, with MongoDB's messages.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(
                Code::EmptyFieldName,
                "An empty update path is not valid.",
            ));
        }
        if text.bytes().filter(|byte| *byte == b'.').count() >= PARTS_MAX {
            return Err(Error::new(
                Code::Overflow,
                format!("An update path may not have more than {PARTS_MAX} parts."),
            ));
        }
        let parts = text
            .split('.')
            .map(|part| parse_part(part, text))
            .collect::<Result<Vec<_>>>()?;
        check_array_parts(&parts, text)?;
        Ok(Self {
            text: text.into(),
            parts,
        })
    }

    /// Whether every part is a plain field name.
    pub fn is_static(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, PathPart::Field(_)))
    }
}

fn parse_part(part: &str, path: &str) -> Result<PathPart> {
    if part.is_empty() {
        return Err(Error::new(
            Code::EmptyFieldName,
            format!("The update path '{path}' contains an empty field name, which is not allowed."),
        ));
    }
    if part == "$" {
        return Ok(PathPart::Matched);
    }
    let identifier = part
        .strip_prefix("$[")
        .and_then(|rest| rest.strip_suffix(']'));
    Ok(identifier.map_or_else(
        || PathPart::Field(part.into()),
        |name| PathPart::Elements(name.into()),
    ))
}

fn check_array_parts(parts: &[PathPart], path: &str) -> Result<()> {
    let first = match parts[0] {
        PathPart::Matched => Some("positional (i.e. '$')"),
        PathPart::Elements(_) => Some("array filter identifier (i.e. '$[<id>]')"),
        PathPart::Field(_) => None,
    };
    if let Some(kind) = first {
        return Err(Error::bad_value(format!(
            "Cannot have {kind} element in the first position in path '{path}'"
        )));
    }
    if parts
        .iter()
        .filter(|part| **part == PathPart::Matched)
        .count()
        > 1
    {
        return Err(Error::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        )));
    }
    Ok(())
}

/// The array index a path part stands for: decimal digits of at most 32 bits.
pub(super) fn array_index(name: &str) -> Option<usize> {
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        name.parse::<u32>().ok().map(|index| index as usize)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let path = UpdatePath::parse("a.$[].b.$[x].0.$").unwrap();
        let field = |name: &str| PathPart::Field(name.into());
        let elements = |name: &str| PathPart::Elements(name.into());
        assert_eq!(
            path.parts,
            [
                field("a"),
                elements(""),
                field("b"),
                elements("x"),
                field("0"),
                PathPart::Matched
            ]
        );
        assert!(!path.is_static());
        assert_eq!(UpdatePath::parse("a.$[").unwrap().parts[1], field("$["));
    }

    #[test]
    fn indexes_are_digits_of_32_bits() {
        assert_eq!(array_index("01"), Some(1));
        assert_eq!(array_index("4294967295"), Some(4_294_967_295));
        for name in ["", "-1", "+1", "1 ", "4294967296", "a"] {
            assert_eq!(array_index(name), None, "{name:?}");
        }
    }
}
