//! How trips are laid out, and one trip in each layout, as BSON and as a row.
//!
//! A, B and C are the published layouts. A keeps dates as dates in time order; B
//! keeps them as milliseconds and stores a random number with each trip, to
//! sort by; C is B in shuffled order, so that the order of `_id` is random.
//! Meridian's own is A: it samples an index range by rank and needs no such help.

use super::trip::{Trip, medallion_name};
use crate::encode::{
    copy_field, copy_row, document, double, int32, int64, object_id, postgres_time, string,
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
    let medallion = medallion_name(trip.medallion);
    let medallion = std::str::from_utf8(&medallion).expect("names are letters and digits");
    document(out, |out| {
        object_id(position, out);
        string(b"\x02medallion\0", medallion, out);
        string(b"\x02hack_license\0", &trip.hack_license.to_string(), out);
        if layout.has_dates() {
            int64(b"\x09pickup_datetime\0", trip.pickup_ms, out);
            int64(b"\x09dropoff_datetime\0", trip.dropoff_ms, out);
        } else {
            int64(b"\x12pickup_datetime\0", trip.pickup_ms, out);
            int64(b"\x12dropoff_datetime\0", trip.dropoff_ms, out);
        }
        int32(b"\x10passenger_count\0", trip.passengers, out);
        int32(b"\x10trip_time\0", trip.seconds, out);
        double(b"\x01trip_distance\0", trip.miles, out);
        double(b"\x01pickup_longitude\0", trip.pickup.0, out);
        double(b"\x01pickup_latitude\0", trip.pickup.1, out);
        double(b"\x01dropoff_longitude\0", trip.dropoff.0, out);
        double(b"\x01dropoff_latitude\0", trip.dropoff.1, out);
        double(b"\x01fare\0", trip.fare, out);
        double(b"\x01surcharge\0", trip.surcharge, out);
        double(b"\x01tip\0", trip.tip, out);
        double(b"\x01tolls\0", trip.tolls, out);
        double(b"\x01total\0", trip.total(), out);
        if !layout.has_dates() {
            double(b"\x01random\0", trip.random, out);
        }
    });
}

/// The columns of a table, as SQL declares them.
pub fn columns(layout: Layout) -> String {
    let (time, random) = if layout.has_dates() {
        ("timestamptz", "")
    } else {
        ("bigint", ", random double precision NOT NULL")
    };
    format!(
        "(id integer NOT NULL, medallion text COLLATE \"C\" NOT NULL, hack_license text NOT NULL, \
         pickup_datetime {time} NOT NULL, dropoff_datetime {time} NOT NULL, passenger_count integer NOT NULL, \
         trip_time integer NOT NULL, trip_distance double precision NOT NULL, \
         pickup_longitude double precision NOT NULL, pickup_latitude double precision NOT NULL, \
         dropoff_longitude double precision NOT NULL, dropoff_latitude double precision NOT NULL, \
         fare double precision NOT NULL, surcharge double precision NOT NULL, tip double precision NOT NULL, \
         tolls double precision NOT NULL, total double precision NOT NULL{random})"
    )
}

/// Appends the trip as a row whose id is its `position` in the load.
pub fn row(trip: &Trip, position: u32, layout: Layout, out: &mut Vec<u8>) {
    let time = |unix_ms: i64| {
        if layout.has_dates() {
            postgres_time(unix_ms)
        } else {
            unix_ms.to_be_bytes()
        }
    };
    copy_row(if layout.has_dates() { 17 } else { 18 }, out);
    copy_field(&position.to_be_bytes(), out);
    copy_field(&medallion_name(trip.medallion), out);
    copy_field(trip.hack_license.to_string().as_bytes(), out);
    copy_field(&time(trip.pickup_ms), out);
    copy_field(&time(trip.dropoff_ms), out);
    copy_field(&trip.passengers.to_be_bytes(), out);
    copy_field(&trip.seconds.to_be_bytes(), out);
    let numbers = [
        trip.miles,
        trip.pickup.0,
        trip.pickup.1,
        trip.dropoff.0,
        trip.dropoff.1,
        trip.fare,
        trip.surcharge,
        trip.tip,
        trip.tolls,
        trip.total(),
    ];
    for number in numbers {
        copy_field(&number.to_be_bytes(), out);
    }
    if !layout.has_dates() {
        copy_field(&trip.random.to_be_bytes(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::taxi::trip::Trips;

    #[test]
    fn layouts_differ_in_their_times_and_the_random_number() {
        let trip = Trips::new(10, 1).trip(3);
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
            row(&trip, 3, layout, &mut bytes);
            assert_eq!(bytes[1], expected as u8);
            assert!(bytes.len() < ROW_BYTES, "{}", bytes.len());
        }
    }
}
