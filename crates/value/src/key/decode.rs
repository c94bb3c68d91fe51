//! Stepping over encoded values, and reading them back.

use super::bytes::Reader;
use super::type_bits::TypeBitsReader;
use super::*;
use bson::{Binary, Bson, DateTime, Document, Timestamp, oid::ObjectId};

/// Nesting beyond what any accepted document has: bytes that claim more are corrupt.
const DEPTH_MAX: u32 = 250;

/// The length of the first encoded value; `None` when the bytes are corrupt.
#[inline]
pub fn skip(bytes: &[u8], direction: Direction) -> Option<usize> {
    match direction {
        Direction::Ascending => skip_one::<0>(bytes),
        Direction::Descending => skip_one::<0xFF>(bytes),
    }
}

#[inline]
fn skip_one<const MASK: u8>(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::<MASK>::new(bytes);
    let head = reader.byte().ok()?;
    skip_rest(head, &mut reader, 0).ok()?;
    Some(reader.position())
}

fn skip_rest<const MASK: u8>(head: u8, reader: &mut Reader<'_, MASK>, depth: u32) -> KeyResult<()> {
    match head {
        MIN_KEY | UNDEFINED | NULL | FALSE | TRUE | MAX_KEY => {}
        number::NAN..=number::POSITIVE_LARGE => number::skip(head, reader)?,
        DATE | TIMESTAMP | CELL => {
            reader.take(8)?;
        }
        OBJECT_ID => {
            reader.take(12)?;
        }
        STRING | SORT_KEY | CODE => {
            reader.until_zero()?;
        }
        BINARY => {
            let length = read_binary_length(reader)?;
            let subtype = reader.byte()?;
            reader.take(inner_length(length, subtype)?)?;
        }
        REGEX => {
            reader.until_zero()?;
            reader.until_zero()?;
        }
        DB_POINTER => {
            let length = reader.unsigned(4)?;
            reader.take(length as usize)?;
        }
        CODE_WITH_SCOPE => {
            reader.until_zero()?;
            skip_document(reader, depth + 1)?;
        }
        DOCUMENT => skip_document(reader, depth + 1)?,
        ARRAY => {
            check_depth(depth)?;
            loop {
                match reader.byte()? {
                    END => break,
                    head => skip_rest(head, reader, depth + 1)?,
                }
            }
        }
        _ => return Err(KeyError::Corrupt),
    }
    Ok(())
}

fn skip_document<const MASK: u8>(reader: &mut Reader<'_, MASK>, depth: u32) -> KeyResult<()> {
    check_depth(depth)?;
    loop {
        let bracket = reader.byte()?;
        if bracket == END {
            return Ok(());
        }
        reader.until_zero()?;
        let head = head_of_field(bracket, reader)?;
        skip_rest(head, reader, depth)?;
    }
}

/// The type byte of a field's value: its bracket, or for numbers and booleans the next byte.
fn head_of_field<const MASK: u8>(bracket: u8, reader: &mut Reader<'_, MASK>) -> KeyResult<u8> {
    match bracket {
        NUMBER_BRACKET | BOOLEAN_BRACKET => reader.byte(),
        head => Ok(head),
    }
}

fn check_depth(depth: u32) -> KeyResult<()> {
    if depth > DEPTH_MAX {
        Err(KeyError::Corrupt)
    } else {
        Ok(())
    }
}

fn read_binary_length<const MASK: u8>(reader: &mut Reader<'_, MASK>) -> KeyResult<u64> {
    match reader.byte()? {
        LONG_BINARY => reader.unsigned(4),
        short => Ok(u64::from(short)),
    }
}

/// The bytes that follow; the encoded length counts the inner length of subtype 2.
fn inner_length(length: u64, subtype: u8) -> KeyResult<usize> {
    let inner = if subtype == 2 {
        length.checked_sub(4)
    } else {
        Some(length)
    };
    inner.map(|length| length as usize).ok_or(KeyError::Corrupt)
}

/// Reads the first encoded value, exactly as it was, and tells how many bytes it took.
///
/// An S2 cell comes back as an int64.
///
/// # Errors
/// [`KeyError::Corrupt`] when the bytes, or `types`, are not what [`encode`] wrote, and for a text by a collation.
pub fn decode(
    bytes: &[u8],
    direction: Direction,
    types: &mut TypeBitsReader<'_>,
) -> Result<(Bson, usize), KeyError> {
    if direction == Direction::Ascending {
        let mut reader = Reader::<0>::new(bytes);
        let head = reader.byte()?;
        let value = decode_rest(head, &mut reader, types, 0)?;
        return Ok((value, reader.position()));
    }
    let length = skip(bytes, direction).ok_or(KeyError::Corrupt)?;
    let ascending: Vec<u8> = bytes[..length].iter().map(|byte| !byte).collect();
    decode(&ascending, Direction::Ascending, types)
}

fn decode_rest(
    head: u8,
    reader: &mut Reader<'_, 0>,
    types: &mut TypeBitsReader<'_>,
    depth: u32,
) -> KeyResult<Bson> {
    Ok(match head {
        MIN_KEY => Bson::MinKey,
        UNDEFINED => Bson::Undefined,
        NULL => Bson::Null,
        FALSE => Bson::Boolean(false),
        TRUE => Bson::Boolean(true),
        MAX_KEY => Bson::MaxKey,
        number::NAN..=number::POSITIVE_LARGE => number::decode(head, reader, types)?,
        DATE => Bson::DateTime(DateTime::from_millis(read_date(reader)?)),
        TIMESTAMP => Bson::Timestamp(Timestamp {
            time: reader.unsigned(4)? as u32,
            increment: reader.unsigned(4)? as u32,
        }),
        CELL => Bson::Int64(reader.unsigned(8)? as i64),
        OBJECT_ID => {
            let bytes = reader.take(12)?.try_into().map_err(|_| KeyError::Corrupt)?;
            Bson::ObjectId(ObjectId::from_bytes(bytes))
        }
        STRING => {
            let text = decode_text(reader)?;
            if types.read_one() {
                Bson::Symbol(text)
            } else {
                Bson::String(text)
            }
        }
        CODE => Bson::JavaScriptCode(decode_text(reader)?),
        BINARY => {
            let length = read_binary_length(reader)?;
            let subtype = reader.byte()?;
            let bytes = reader.take(inner_length(length, subtype)?)?.to_vec();
            Bson::Binary(Binary {
                subtype: subtype.into(),
                bytes,
            })
        }
        REGEX => Bson::RegularExpression(bson::Regex {
            pattern: decode_name(reader)?
                .try_into()
                .map_err(|_| KeyError::Corrupt)?,
            options: decode_name(reader)?
                .try_into()
                .map_err(|_| KeyError::Corrupt)?,
        }),
        DB_POINTER => {
            let length = reader.unsigned(4)? as usize;
            decode_db_pointer(reader.take(length)?)?
        }
        CODE_WITH_SCOPE => Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
            code: decode_text(reader)?,
            scope: decode_document(reader, types, depth + 1)?,
        }),
        DOCUMENT => Bson::Document(decode_document(reader, types, depth + 1)?),
        ARRAY => {
            check_depth(depth)?;
            let mut values = Vec::new();
            loop {
                match reader.byte()? {
                    END => break Bson::Array(values),
                    head => values.push(decode_rest(head, reader, types, depth + 1)?),
                }
            }
        }
        _ => return Err(KeyError::Corrupt),
    })
}

fn decode_document(
    reader: &mut Reader<'_, 0>,
    types: &mut TypeBitsReader<'_>,
    depth: u32,
) -> KeyResult<Document> {
    check_depth(depth)?;
    let mut document = Document::new();
    loop {
        let bracket = reader.byte()?;
        if bracket == END {
            return Ok(document);
        }
        let name = decode_name(reader)?.to_owned();
        let head = head_of_field(bracket, reader)?;
        let value = decode_rest(head, reader, types, depth)?;
        document.insert(name, value);
    }
}

/// Milliseconds since 1970.
#[inline]
pub(super) fn read_date<const MASK: u8>(reader: &mut Reader<'_, MASK>) -> KeyResult<i64> {
    Ok((reader.unsigned(8)? ^ 1 << 63) as i64)
}

fn decode_name<'a>(reader: &mut Reader<'a, 0>) -> KeyResult<&'a str> {
    std::str::from_utf8(reader.until_zero()?).map_err(|_| KeyError::Corrupt)
}

fn decode_text(reader: &mut Reader<'_, 0>) -> KeyResult<String> {
    let escaped = reader.until_zero()?;
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(escape) = memchr::memchr(ESCAPE, rest) {
        bytes.extend_from_slice(&rest[..escape]);
        bytes.push(match rest.get(escape + 1) {
            Some(1) => 0,
            Some(2) => 1,
            _ => return Err(KeyError::Corrupt),
        });
        rest = &rest[escape + 2..];
    }
    bytes.extend_from_slice(rest);
    String::from_utf8(bytes).map_err(|_| KeyError::Corrupt)
}

/// `bson` builds this type only from a document, so the bytes are put into one.
fn decode_db_pointer(value: &[u8]) -> KeyResult<Bson> {
    let mut bytes = (value.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0x0C, 0]);
    bytes.extend_from_slice(value);
    bytes.push(0);
    let document = RawDocument::from_bytes(&bytes).map_err(|_| KeyError::Corrupt)?;
    let value = document.get("").ok().flatten().ok_or(KeyError::Corrupt)?;
    Bson::try_from(value).map_err(|_| KeyError::Corrupt)
}
