//! BSON elements and fields of PostgreSQL's binary COPY, byte by byte into a caller's buffer.
//!
//! Encoding is the client's cost and must not be what is measured; hence no
//! value is built in between. A BSON `head` is the element's type byte, its name
//! and the terminator, as one literal: `b"\x10passengers\0"`.

/// What a binary COPY starts with: signature, flags, extension length.
pub const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What a binary COPY ends with.
pub const COPY_TRAILER: &[u8] = &[0xff, 0xff];
/// 2000-01-01T00:00:00Z in milliseconds since 1970: where PostgreSQL's times start.
const POSTGRES_EPOCH_MS: i64 = 946_684_800_000;
/// Little-endian point with a reference system, then 4326 (WGS 84).
const EWKB_POINT_HEADER: [u8; 9] = [1, 1, 0, 0, 0x20, 0xe6, 0x10, 0, 0];

/// Appends a BSON document whose elements `elements` appends.
pub fn document(out: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    elements(out);
    out.push(0);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a 32-bit integer.
pub fn int32(head: &[u8], value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 64-bit integer, or a date in milliseconds since 1970.
pub fn int64(head: &[u8], value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a double.
pub fn double(head: &[u8], value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a string.
pub fn string(head: &[u8], value: &str, out: &mut Vec<u8>) {
    int32(head, value.len() as i32 + 1, out);
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// Appends `_id` as an ObjectId like a driver's: seconds, five bytes of its process, a counter;
/// ascending with `number`.
pub fn object_id(number: u32, out: &mut Vec<u8>) {
    let seconds = 0x6000_0000u32 + (number >> 15);
    out.extend_from_slice(b"\x07_id\0");
    out.extend_from_slice(&seconds.to_be_bytes());
    out.extend_from_slice(b"\x8e\x41\xd0\x37\xba");
    out.extend_from_slice(&number.to_be_bytes()[1..]);
}

/// Appends an embedded GeoJSON point: `{type: "Point", coordinates: [longitude, latitude]}`.
/// `head` is the element's type byte, name and terminator.
pub fn point(head: &[u8], longitude: f64, latitude: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    out.extend_from_slice(
        b"\x3d\0\0\0\x02type\0\x06\0\0\0Point\0\x04coordinates\0\x1b\0\0\0\x010\0",
    );
    out.extend_from_slice(&longitude.to_le_bytes());
    out.extend_from_slice(b"\x011\0");
    out.extend_from_slice(&latitude.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// Starts a row of a binary COPY with so many fields.
pub fn copy_row(fields: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&fields.to_be_bytes());
}

/// Appends a field of a binary COPY.
pub fn copy_field(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends an empty field of a binary COPY.
pub fn copy_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i32).to_be_bytes());
}

/// A time as PostgreSQL's `timestamptz` has it in binary.
pub fn postgres_time(unix_ms: i64) -> [u8; 8] {
    ((unix_ms - POSTGRES_EPOCH_MS) * 1000).to_be_bytes()
}

/// A position as PostGIS's geometry takes it in binary.
pub fn extended_well_known_binary(longitude: f64, latitude: f64) -> [u8; 25] {
    let mut bytes = [0u8; 25];
    bytes[..9].copy_from_slice(&EWKB_POINT_HEADER);
    bytes[9..17].copy_from_slice(&longitude.to_le_bytes());
    bytes[17..].copy_from_slice(&latitude.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocument, doc};

    #[test]
    fn what_is_written_is_bson() {
        let mut bytes = Vec::new();
        document(&mut bytes, |out| {
            object_id(70_000, out);
            int32(b"\x10n\0", -1, out);
            int64(b"\x09when\0", 1_512_086_400_000, out);
            double(b"\x01x\0", 0.5, out);
            string(b"\x02s\0", "text", out);
        });
        let written: bson::Document = RawDocument::from_bytes(&bytes)
            .expect("a document")
            .try_into()
            .expect("valid");
        let id = bson::oid::ObjectId::from_bytes(*b"\x60\0\0\x02\x8e\x41\xd0\x37\xba\x01\x11\x70");
        assert_eq!(
            written,
            doc! { "_id": id, "n": -1, "when": bson::DateTime::from_millis(1_512_086_400_000), "x": 0.5, "s": "text" }
        );
    }

    #[test]
    fn ids_ascend() {
        let id = |number| {
            let mut bytes = Vec::new();
            object_id(number, &mut bytes);
            bytes
        };
        for number in [0, 1, 32_767, 32_768, (1 << 24) - 1, 1 << 24, 100_000_000] {
            assert!(id(number) < id(number + 1), "{number}");
        }
    }
}
