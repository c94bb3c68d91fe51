//! Documents as values.

use super::Value;
use super::convert::display;
use super::evaluate::descend;
use super::hash::hash_value;
use super::node::Node;
use super::parse::ExpressionParser;
use super::table::{Arity, Function, Operator};
use crate::error::{Error, Result};
use crate::expression::value::{Fields, build_document, compare, corrupt};
use bson::{RawBson, RawBsonRef};
use meridian_value::{ByName, Collation};
use std::borrow::Cow;

/// Fields in the making.
type Building<'a> = ByName<Cow<'a, str>, Value<'a>>;

/// Sets a field where it stands, or at the end.
fn set_field<'a>(fields: &mut Fields<'a>, name: Cow<'a, str>, value: Value<'a>) {
    match fields.iter_mut().find(|(key, _)| *key == name) {
        Some((_, old)) => *old = value,
        None => fields.push((name, value)),
    }
}

/// `$mergeObjects`.
pub fn merge<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut merged = Building::default();
    let merge_one = |merged: &mut Building<'a>, value: &Value<'a>| {
        if value.is_nullish() {
            return Ok(());
        }
        let Some(fields) = value.fields()? else {
            return Err(Error::location(
                40400,
                format!(
                    "{name} requires object inputs, but input {} is of type {}",
                    display(value),
                    value.type_name()
                ),
            ));
        };
        for (key, value) in fields.iter() {
            merged.set(key.clone(), value.clone());
        }
        Ok(())
    };
    // As for `$sum` and its like, one operand that is an array stands for its items.
    let items = match &*arguments {
        [only] => only.items()?,
        _ => None,
    };
    let operands = items.as_ref().map_or(&*arguments, |items| items.as_slice());
    for argument in operands {
        merge_one(&mut merged, argument)?;
    }
    Ok(Value::document(merged.into_entries()))
}

/// `$objectToArray`.
pub fn to_array<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(fields) = arguments[0].fields()? else {
        return Err(Error::location(
            40390,
            format!(
                "$objectToArray requires a document input, found: {}",
                arguments[0].type_name()
            ),
        ));
    };
    let pair = |(key, value): &(Cow<'a, str>, Value<'a>)| {
        let key = Value::string(&**key);
        Value::document(vec![("k".into(), key), ("v".into(), value.clone())])
    };
    Ok(Value::array(fields.iter().map(pair).collect()))
}

/// `$arrayToObject`.
pub fn from_array<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = arguments[0].items()? else {
        return Err(Error::location(
            40386,
            format!(
                "$arrayToObject requires an array input, found: {}",
                arguments[0].type_name()
            ),
        ));
    };
    let mut built = Building::default();
    let arrays = items.first().is_some_and(Value::is_array);
    for item in items.iter() {
        let (key, value) = if arrays {
            pair_of_array(item)?
        } else {
            pair_of_object(item)?
        };
        built.set(Cow::Owned(key), value);
    }
    Ok(Value::document(built.into_entries()))
}

fn pair_of_array<'a>(item: &Value<'a>) -> Result<(String, Value<'a>)> {
    let Some(pair) = item.items()? else {
        return Err(Error::location(
            40396,
            format!(
                "$arrayToObject requires a consistent input format. Elements mustall be arrays or \
                 all be objects. Array was detected, now found: {}",
                item.type_name()
            ),
        ));
    };
    if pair.len() != 2 {
        return Err(Error::location(
            40397,
            format!(
                "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
                pair.len()
            ),
        ));
    }
    let Some(key) = pair[0].as_str() else {
        return Err(Error::location(
            40395,
            format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of \
                 type string. Found key type: {}",
                pair[0].type_name()
            ),
        ));
    };
    Ok((checked_key(key, 4_940_400)?, pair[1].clone()))
}

fn pair_of_object<'a>(item: &Value<'a>) -> Result<(String, Value<'a>)> {
    let Some(fields) = item.fields()? else {
        let (code, text) = if item.is_array() {
            (
                40391,
                "$arrayToObject requires a consistent input format. Elements mustall be arrays or \
                 all be objects. Object was detected, now found: array"
                    .to_owned(),
            )
        } else {
            (
                40398,
                format!(
                    "Unrecognised input type format for $arrayToObject: {}",
                    item.type_name()
                ),
            )
        };
        return Err(Error::location(code, text));
    };
    if fields.len() != 2 {
        return Err(Error::location(
            40392,
            format!(
                "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of \
                 keys:{}",
                fields.len()
            ),
        ));
    }
    let (key, value) = (item.field("k")?, item.field("v")?);
    if key.is_missing() || value.is_missing() {
        return Err(Error::location(
            40393,
            format!(
                "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both \
                 keys from: {}",
                display(item)
            ),
        ));
    }
    let Some(key) = key.as_str() else {
        return Err(Error::location(
            40394,
            format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' \
                 must be of type string. Found type: {}",
                key.type_name()
            ),
        ));
    };
    Ok((checked_key(key, 4_940_401)?, value))
}

fn checked_key(key: &str, code: i32) -> Result<String> {
    if key.contains('\0') {
        return Err(Error::location(
            code,
            "Key field cannot contain an embedded null byte",
        ));
    }
    Ok(key.to_owned())
}

/// `$bsonSize`.
pub fn bson_size<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let size = match &arguments[0] {
        value if value.is_nullish() => return Ok(Value::NULL),
        Value::Raw(RawBsonRef::Document(document)) => document.as_bytes().len(),
        Value::Document(fields) => {
            arguments[0].check_for_document()?;
            build_document(fields)?.as_bytes().len()
        }
        other => {
            return Err(Error::location(
                31393,
                format!(
                    "{name} requires a document input, found: {}",
                    other.type_name()
                ),
            ));
        }
    };
    Ok(Value::int_or_long(size as i64))
}

static HASHED_INDEX_KEY: Operator = Operator {
    name: "$toHashedIndexKey",
    arity: Arity::Exactly(1),
    function: Function::Plain(hash_of),
};

/// `$toHashedIndexKey`: an array is its argument, and no list of them.
pub fn hashed_index_key(
    parser: &mut ExpressionParser<'_>,
    _: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    Ok(Node::Call {
        operator: &HASHED_INDEX_KEY,
        arguments: Box::new([parser.operand(raw)?]),
    })
}

/// By no collation.
fn hash_of<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let value = arguments[0].to_raw()?.unwrap_or(RawBson::Null);
    let hash = hash_value(value.as_raw_bson_ref(), &Collation::SIMPLE);
    Ok(Value::int64(hash))
}

/// `$binarySize`.
pub fn binary_size<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let value = &arguments[0];
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let size = match value.raw() {
        Some(RawBsonRef::Binary(binary)) => binary.bytes.len(),
        _ => match value.as_str() {
            Some(text) => text.len(),
            None => {
                return Err(Error::location(
                    51276,
                    format!(
                        "{name} requires a string or BinData argument, found: {}",
                        value.type_name()
                    ),
                ));
            }
        },
    };
    Ok(Value::int_or_long(size as i64))
}

static GET_FIELD: Operator = Operator {
    name: "$getField",
    arity: Arity::Exactly(2),
    function: Function::Plain(get_field),
};
static SET_FIELD: Operator = Operator {
    name: "$setField",
    arity: Arity::Exactly(3),
    function: Function::Plain(assign_field),
};

/// `$getField`, in both forms.
pub fn parse_get_field(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let (field, input) = match raw {
        RawBsonRef::Document(document)
            if !document
                .iter()
                .flatten()
                .next()
                .is_some_and(|(key, _)| key.as_str().starts_with('$')) =>
        {
            let (mut field, mut input) = (None, None);
            for entry in document.iter() {
                let (key, raw) = entry.map_err(corrupt)?;
                match key.as_str() {
                    "field" => field = Some(raw),
                    "input" => input = Some(parser.operand(raw)?),
                    other => {
                        return Err(Error::location(
                            3_041_701,
                            format!("{name} found an unknown argument: {other}"),
                        ));
                    }
                }
            }
            let field = field.ok_or_else(|| {
                Error::location(
                    3_041_702,
                    format!("{name} requires 'field' to be specified"),
                )
            })?;
            let input = input.ok_or_else(|| {
                Error::location(
                    3_041_703,
                    format!("{name} requires 'input' to be specified"),
                )
            })?;
            (field, input)
        }
        other => (other, Node::Root),
    };
    let field = constant_field(parser, name, field, [5_654_600, 5_654_601, 5_654_602])?;
    Ok(Node::Call {
        operator: &GET_FIELD,
        arguments: Box::new([field, input]),
    })
}

/// `$setField` and `$unsetField`.
pub fn parse_set_field(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            4_161_100,
            format!("{name} only supports an object as its argument"),
        ));
    };
    let unset = name == "$unsetField";
    let (mut field, mut input, mut value) = (None, None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match key.as_str() {
            "field" => {
                field = Some(constant_field(
                    parser,
                    name,
                    raw,
                    [4_161_108, 4_161_106, 4_161_107],
                )?);
            }
            "input" => input = Some(parser.operand(raw)?),
            "value" if !unset => value = Some(parser.operand(raw)?),
            other => {
                return Err(Error::location(
                    4_161_101,
                    format!("{name} found an unknown argument: {other}"),
                ));
            }
        }
    }
    let missing = |code, what: &str| {
        Error::location(code, format!("{name} requires '{what}' to be specified"))
    };
    let field = field.ok_or_else(|| missing(4_161_102, "field"))?;
    let value = if unset {
        Node::known(&Value::Missing)?
    } else {
        value.ok_or_else(|| missing(4_161_103, "value"))?
    };
    let input = input.ok_or_else(|| missing(4_161_109, "input"))?;
    Ok(Node::Call {
        operator: &SET_FIELD,
        arguments: Box::new([field, input, value]),
    })
}

/// The name of a field: a string, or a literal that is one. Codes: path, not constant, type.
fn constant_field(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
    codes: [i32; 3],
) -> Result<Node> {
    if let RawBsonRef::String(text) = raw
        && let Some(path) = text.strip_prefix('$')
    {
        let shown = match path.strip_prefix('$') {
            Some(variable) => format!("${variable}"),
            None => format!("$CURRENT.{path}"),
        };
        return Err(Error::location(
            codes[0],
            format!(
                "'{shown}' is a field path reference which is not allowed in this context. Did \
                     you mean {{$literal: '{shown}'}}?"
            ),
        ));
    }
    let literal = match raw {
        RawBsonRef::Array(_) => false,
        RawBsonRef::Document(document) => document
            .iter()
            .flatten()
            .next()
            .is_none_or(|(key, _)| matches!(key.as_str(), "$literal" | "$const")),
        _ => true,
    };
    if !literal {
        return Err(Error::location(
            codes[1],
            format!(
                "{name} requires 'field' to evaluate to a constant, but got a non-constant argument"
            ),
        ));
    }
    let node = parser.operand(raw)?;
    match node.constant() {
        Some(value) if value.as_str().is_some() => {}
        value => {
            let found = value.map_or("missing", |value| value.type_name());
            return Err(Error::location(
                codes[2],
                format!("{name} requires 'field' to evaluate to type String, but got {found}"),
            ));
        }
    }
    Ok(node)
}

fn get_field<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [field, input] = &*arguments else {
        unreachable!("arity 2")
    };
    if input.is_missing() {
        return Ok(Value::Missing);
    }
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    input.field(field.as_str().unwrap_or_default())
}

fn assign_field<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [field, input, value] = arguments else {
        unreachable!("arity 3")
    };
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(fields) = input.fields()? else {
        return Err(Error::location(
            4_161_105,
            format!("{name} requires 'input' to evaluate to type Object"),
        ));
    };
    let mut fields = fields.to_vec();
    let field = field.as_str().unwrap_or_default();
    if value.is_missing() {
        fields.retain(|(key, _)| key != field);
    } else {
        set_field(&mut fields, Cow::Owned(field.to_owned()), value.clone());
    }
    Ok(Value::document(fields))
}

/// What an item sorts by at a path: the least value there where the order ascends, the
/// greatest where it descends; null where there is none.
pub fn sort_key<'a>(
    item: &Value<'a>,
    path: &[Box<str>],
    descending: bool,
    collation: &Collation,
) -> Result<Value<'a>> {
    if path.is_empty() {
        return Ok(item.clone());
    }
    let found = if item.is_document() {
        descend(item.clone(), path)?
    } else {
        Value::Missing
    };
    if let Some(items) = found.items()? {
        let best = if descending {
            items.iter().max_by(|a, b| compare(a, b, collation))
        } else {
            items.iter().min_by(|a, b| compare(a, b, collation))
        };
        // An empty array sorts before null, as undefined does.
        return Ok(best.cloned().unwrap_or(Value::Raw(RawBsonRef::Undefined)));
    }
    Ok(if found.is_missing() {
        Value::NULL
    } else {
        found
    })
}
