//! From an encoded value straight to the bytes that it has in a document.

use super::bytes::Reader;
use super::decode::{decode, read_date};
use super::type_bits::TypeBitsReader;
use super::*;
use crate::with_raw;
use bson::Bson;
use bson::raw::{RawDocumentBuf, cstr};
use bson::spec::ElementType;

/// Appends the first encoded value to `out` as BSON has it behind a field's name, and tells its type
/// and how many encoded bytes it took. [`decode`] and writing the value out do the same, but slower.
///
/// # Errors
/// [`KeyError::Corrupt`] when the bytes, or `types`, are not what [`encode`] wrote.
pub fn transcode(
    bytes: &[u8],
    direction: Direction,
    types: &mut TypeBitsReader<'_>,
    out: &mut Vec<u8>,
) -> Result<(ElementType, usize), KeyError> {
    let copied = match direction {
        Direction::Ascending => copy::<0>(bytes, types, out)?,
        Direction::Descending => copy::<0xFF>(bytes, types, out)?,
    };
    if let Some(copied) = copied {
        return Ok(copied);
    }
    let (value, length) = decode(bytes, direction, types)?;
    Ok((write(&value, out), length))
}

/// A value of the types that most keys are of; of others nothing is read.
#[inline]
fn copy<const MASK: u8>(
    bytes: &[u8],
    types: &mut TypeBitsReader<'_>,
    out: &mut Vec<u8>,
) -> KeyResult<Option<(ElementType, usize)>> {
    let mut reader = Reader::<MASK>::new(bytes);
    let kind = match reader.byte()? {
        NULL => ElementType::Null,
        STRING => {
            let text = reader.until_zero()?;
            if memchr::memchr(ESCAPE ^ MASK, text).is_some() {
                return Ok(None);
            }
            out.extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
            append::<MASK>(text, out);
            out.push(0);
            match types.read_one() {
                true => ElementType::Symbol,
                false => ElementType::String,
            }
        }
        DATE => {
            out.extend_from_slice(&read_date(&mut reader)?.to_le_bytes());
            ElementType::DateTime
        }
        OBJECT_ID => {
            append::<MASK>(reader.take(12)?, out);
            ElementType::ObjectId
        }
        class @ number::NAN..=number::POSITIVE_LARGE => {
            write(&number::decode(class, &mut reader, types)?, out)
        }
        _ => return Ok(None),
    };
    Ok(Some((kind, reader.position())))
}

#[inline]
fn append<const MASK: u8>(bytes: &[u8], out: &mut Vec<u8>) {
    match MASK {
        0 => out.extend_from_slice(bytes),
        _ => out.extend(bytes.iter().map(|byte| byte ^ MASK)),
    }
}

fn write(value: &Bson, out: &mut Vec<u8>) -> ElementType {
    match value {
        Bson::Int32(value) => out.extend_from_slice(&value.to_le_bytes()),
        Bson::Int64(value) => out.extend_from_slice(&value.to_le_bytes()),
        Bson::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
        other => {
            let mut document = RawDocumentBuf::new();
            with_raw(other, |raw| document.append(cstr!(""), raw));
            let bytes = document.as_bytes();
            // Before it stand the document's length, the type and the end of the name, behind it a zero.
            out.extend_from_slice(&bytes[6..bytes.len() - 1]);
        }
    }
    value.element_type()
}
