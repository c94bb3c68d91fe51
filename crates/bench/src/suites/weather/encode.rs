//! One event as BSON, as a row of PostgreSQL's binary COPY and as a CSV line.
//!
//! All three are written byte by byte into a caller's buffer: encoding is the
//! client's cost and must not be what is measured.

use std::io::Write;

use super::generator::Event;
use crate::encode::{
    copy_field, document, double, extended_well_known_binary, int32, int64, object_id, point,
    postgres_time, string,
};

/// The columns of the CSV file, in order.
pub const CSV_HEADER: &str = "indexnum,startdatetime,enddatetime,location,name,lastupdatedatetime,timezoneoffset,permitid,reading";
/// The same with mongoimport's types, for `--columnsHaveTypes`.
pub const CSV_TYPED_HEADER: &str = "indexnum.int32(),startdatetime.date(2006-01-02 15:04:05),enddatetime.date(2006-01-02 15:04:05),location.point(),name.string(),lastupdatedatetime.date(2006-01-02 15:04:05),timezoneoffset.int32(),permitid.int32(),reading.double()";

/// What a document's `_id` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Key {
    /// An ObjectId, as drivers make it, beside `indexnum`.
    ObjectId,
    /// `indexnum` itself, which saves one index.
    Indexnum,
}

/// Appends the event as a BSON document, `_id` first.
pub fn bson(event: &Event, key: Key, out: &mut Vec<u8>) {
    document(out, |out| elements(event, key, out));
}

/// The same with a field `expirationDate`, `lifetime_ms` after the last update.
pub fn bson_with_expiration(event: &Event, key: Key, lifetime_ms: i64, out: &mut Vec<u8>) {
    document(out, |out| {
        elements(event, key, out);
        let expiration_ms = event.last_update_ms + lifetime_ms;
        int64(b"\x09expirationDate\0", expiration_ms, out);
    });
}

fn elements(event: &Event, key: Key, out: &mut Vec<u8>) {
    match key {
        Key::ObjectId => {
            object_id(event.indexnum as u32, out);
            int32(b"\x10indexnum\0", event.indexnum, out);
        }
        Key::Indexnum => int32(b"\x10_id\0", event.indexnum, out),
    }
    int64(b"\x09startdatetime\0", event.start_ms, out);
    int64(b"\x09enddatetime\0", event.end_ms, out);
    point(b"\x03location\0", event.longitude, event.latitude, out);
    string(b"\x02name\0", event.name, out);
    int64(b"\x09lastupdatedatetime\0", event.last_update_ms, out);
    int32(b"\x10timezoneoffset\0", event.timezone_offset, out);
    int32(b"\x10permitid\0", event.permit_id, out);
    double(b"\x01reading\0", event.reading, out);
}

/// Appends the event as one row of a binary COPY.
pub fn copy_row(event: &Event, out: &mut Vec<u8>) {
    crate::encode::copy_row(9, out);
    copy_field(&event.indexnum.to_be_bytes(), out);
    copy_field(&postgres_time(event.start_ms), out);
    copy_field(&postgres_time(event.end_ms), out);
    let place = extended_well_known_binary(event.longitude, event.latitude);
    copy_field(&place, out);
    copy_field(event.name.as_bytes(), out);
    copy_field(&postgres_time(event.last_update_ms), out);
    copy_field(&event.timezone_offset.to_be_bytes(), out);
    copy_field(&event.permit_id.to_be_bytes(), out);
    copy_field(&event.reading.to_be_bytes(), out);
}

/// Writes the event as one CSV line.
///
/// # Errors
/// When writing fails.
pub fn csv_line(event: &Event, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{},{},{},POINT({} {}),{},{},{},{},{}",
        event.indexnum,
        timestamp(event.start_ms),
        timestamp(event.end_ms),
        event.longitude,
        event.latitude,
        event.name,
        timestamp(event.last_update_ms),
        event.timezone_offset,
        event.permit_id,
        event.reading,
    )
}

fn timestamp(unix_ms: i64) -> impl std::fmt::Display {
    chrono::DateTime::from_timestamp_millis(unix_ms)
        .expect("the generator's times lie within chrono's range")
        .format("%Y-%m-%d %H:%M:%S")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::weather::generator::Generator;
    use bson::RawDocument;

    #[test]
    fn the_document_has_the_nine_fields_with_their_types() {
        let event = Generator::new(1, 1).next().expect("one event");
        let mut bytes = Vec::new();
        bson(&event, Key::ObjectId, &mut bytes);
        let document = RawDocument::from_bytes(&bytes).expect("a document");
        assert_eq!(document.get_i32("indexnum").ok(), Some(event.indexnum));
        let start = document.get_datetime("startdatetime").expect("a date");
        assert_eq!(start.timestamp_millis(), event.start_ms);
        let location: bson::Document = document
            .get_document("location")
            .expect("location")
            .try_into()
            .expect("valid");
        assert_eq!(
            location,
            bson::doc! { "type": "Point", "coordinates": [event.longitude, event.latitude] }
        );
        assert_eq!(document.get_str("name").ok(), Some(event.name));
        assert_eq!(document.get_f64("reading").ok(), Some(event.reading));
        assert_eq!(document.iter().count(), 10);
    }

    #[test]
    fn the_csv_line_is_the_published_row() {
        let event = Generator::new(1, 1).next().expect("one event");
        let mut line = Vec::new();
        csv_line(&event, &mut line).expect("writes");
        let line = String::from_utf8(line).expect("text");
        assert_eq!(line.split(',').count(), CSV_HEADER.split(',').count());
        assert!(line.contains(&format!("POINT({} {})", event.longitude, event.latitude)));
    }
}
