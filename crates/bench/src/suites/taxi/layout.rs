//! How trips are laid out, and one trip in each layout, as BSON and as a row.
//!
//! A, B and C are the published layouts. A keeps dates as dates in time order; B
//! keeps them as milliseconds and stores a random number with each trip, to
//! sort by; C is B in shuffled order, so that the order of `_id` is random.
//! Meridian's own is A: it samples an index range by rank and needs no such help.

use super::trip::{FIELDS, KnownField, Trip, Value};
use crate::encode::{
    copy_field, copy_null, copy_row, document, double, int32, int64, object_id, postgres_time,
    string,
};

/// A layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum Layout {
    /// Dates as dates, in time order
    A,
    /// Milliseconds and a random number to sort by, in time order
    B,
    /// As B, in shuffled order
    C,
}

impl Layout {
    /// All.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Its letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    /// Whether times are dates, and no random number is stored.
    pub fn has_dates(self) -> bool {
        self == Self::A
    }
}

/// About what one document takes.
pub const DOCUMENT_BYTES: usize = 410;
/// About what one row takes in a binary COPY.
pub const ROW_BYTES: usize = 210;

/// Appends the trip as a document whose `_id` is the `position`-th of the load.
pub fn bson(trip: &Trip, position: u32, layout: Layout, out: &mut Vec<u8>) {
    document(out, |out| {
        object_id(position, out);
        string(b"\x02medallion\0", &trip.medallion, out);
        if layout.has_dates() {
            int64(b"\x09pickup_datetime\0", trip.pickup_ms, out);
            int64(b"\x09dropoff_datetime\0", trip.dropoff_ms, out);
        } else {
            int64(b"\x12pickup_datetime\0", trip.pickup_ms, out);
            int64(b"\x12dropoff_datetime\0", trip.dropoff_ms, out);
        }
        for field in &FIELDS {
            match (field.of)(trip) {
                Some(Value::Integer(value)) => int32(field.head, value, out),
                Some(Value::Number(value)) => double(field.head, value, out),
                Some(Value::Name(value)) => string(field.head, &value, out),
                None => {}
            }
        }
        if !layout.has_dates() {
            double(b"\x01random\0", trip.random, out);
        }
    });
}

/// The columns of a table of trips with these fields, as SQL declares them.
pub fn columns(layout: Layout, fields: &[KnownField]) -> String {
    let time = if layout.has_dates() {
        "timestamptz"
    } else {
        "bigint"
    };
    let mut columns = format!(
        "(id integer NOT NULL, medallion text COLLATE \"C\" NOT NULL, \
         pickup_datetime {time} NOT NULL, dropoff_datetime {time} NOT NULL"
    );
    for KnownField { field, optional } in fields {
        let null = if *optional { "" } else { " NOT NULL" };
        columns += &format!(", {} {}{null}", field.name(), field.sql);
    }
    if !layout.has_dates() {
        columns += ", random double precision NOT NULL";
    }
    columns + ")"
}

/// Appends the trip as a row of such a table whose id is its `position` in the load.
pub fn row(trip: &Trip, position: u32, layout: Layout, fields: &[KnownField], out: &mut Vec<u8>) {
    let time = |unix_ms: i64| {
        if layout.has_dates() {
            postgres_time(unix_ms)
        } else {
            unix_ms.to_be_bytes()
        }
    };
    let random = u16::from(!layout.has_dates());
    copy_row(4 + fields.len() as u16 + random, out);
    copy_field(&position.to_be_bytes(), out);
    copy_field(trip.medallion.as_bytes(), out);
    copy_field(&time(trip.pickup_ms), out);
    copy_field(&time(trip.dropoff_ms), out);
    for KnownField { field, .. } in fields {
        match (field.of)(trip) {
            Some(Value::Integer(value)) => copy_field(&value.to_be_bytes(), out),
            Some(Value::Number(value)) => copy_field(&value.to_be_bytes(), out),
            Some(Value::Name(value)) => copy_field(value.as_bytes(), out),
            None => copy_null(out),
        }
    }
    if !layout.has_dates() {
        copy_field(&trip.random.to_be_bytes(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::taxi::trip::FieldCounts;
    use crate::suites::taxi::trips::Trips;

    #[test]
    fn layouts_differ_in_their_times_and_the_random_number() {
        let trips = Trips::generated(10, 1);
        let trip = trips.in_order().nth(3).expect("a trip");
        for layout in Layout::ALL {
            let mut bytes = Vec::new();
            bson(&trip, 3, layout, &mut bytes);
            assert!(
                (340..DOCUMENT_BYTES).contains(&bytes.len()),
                "{}",
                bytes.len()
            );
            let document = bson::RawDocument::from_bytes(&bytes).expect("a document");
            let dated = document.get_datetime("pickup_datetime").is_ok();
            assert_eq!(dated, layout == Layout::A);
            assert_eq!(document.get_f64("random").is_ok(), layout != Layout::A);
            let expected = if layout == Layout::A { 17 } else { 18 };
            assert_eq!(document.iter().count(), expected);
            let mut bytes = Vec::new();
            row(&trip, 3, layout, &trips.known_fields(), &mut bytes);
            assert_eq!(bytes[1], expected as u8);
            assert!(bytes.len() < ROW_BYTES, "{}", bytes.len());
        }
    }

    #[test]
    fn what_a_trip_lacks_is_left_out_of_documents_and_null_in_rows() {
        let trips = Trips::generated(10, 1);
        let whole = trips.in_order().next().expect("a trip");
        let trip = Trip {
            passengers: None,
            pickup: None,
            ..whole
        };
        let mut bytes = Vec::new();
        bson(&trip, 0, Layout::A, &mut bytes);
        let document = bson::RawDocument::from_bytes(&bytes).expect("a document");
        for field in ["passenger_count", "pickup_longitude", "pickup_latitude"] {
            assert_eq!(document.get(field).expect("valid"), None, "{field}");
        }
        let fields = trips.known_fields();
        let length = |trip: &Trip| {
            let mut bytes = Vec::new();
            row(trip, 0, Layout::A, &fields, &mut bytes);
            assert_eq!(bytes[1], 17);
            bytes.len()
        };
        assert_eq!(length(&trip), length(&whole) - 4 - 8 - 8);

        let mut counts = FieldCounts::default();
        counts.add(&whole);
        counts.add(&trip);
        let declared = columns(Layout::B, &counts.known(2));
        assert!(declared.contains(", passenger_count integer, trip_time integer NOT NULL"));
        assert!(declared.ends_with(", random double precision NOT NULL)"));
        assert!(!declared.contains("zone"), "{declared}");
    }
}
