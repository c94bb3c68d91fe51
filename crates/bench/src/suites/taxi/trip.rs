//! One trip, generated or from the city's records, and the fields that it is stored with.
//!
//! A trip always has a medallion, its times and a random number; what else is
//! known of it depends on where it comes from. [`FIELDS`] is the one list of it,
//! from which [`super::layout`] makes documents, rows and tables.

use anyhow::anyhow;
use arrayvec::ArrayString;
use serde::{Deserialize, Serialize};

/// A medallion or a licence. The city's anonymous ones are MD5 sums in hexadecimal.
pub type Name = ArrayString<32>;

/// The text as a name.
///
/// # Errors
/// When it is longer than a name may be.
pub fn name(text: &str) -> anyhow::Result<Name> {
    Name::from(text).map_err(|_| anyhow!("{text:?} is longer than 32 bytes"))
}

/// Longitude and latitude.
pub type Position = (f64, f64);

/// One trip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trip {
    /// Which taxi.
    pub medallion: Name,
    /// Start, milliseconds since 1970.
    pub pickup_ms: i64,
    /// End, milliseconds since 1970.
    pub dropoff_ms: i64,
    /// Random, evenly within 0 and 1: the sampling key that some layouts store.
    pub random: f64,
    /// The driver's licence.
    pub hack_license: Option<Name>,
    /// Passengers.
    pub passengers: Option<i32>,
    /// Seconds on the way.
    pub seconds: Option<i32>,
    /// Miles on the way.
    pub miles: Option<f64>,
    /// The start.
    pub pickup: Option<Position>,
    /// The end.
    pub dropoff: Option<Position>,
    /// The city's number of the taxi zone of the start.
    pub pickup_zone: Option<i32>,
    /// The city's number of the taxi zone of the end.
    pub dropoff_zone: Option<i32>,
    /// Dollars by the meter.
    pub fare: Option<f64>,
    /// Dollars at night and in the evening.
    pub surcharge: Option<f64>,
    /// Dollars.
    pub tip: Option<f64>,
    /// Dollars.
    pub tolls: Option<f64>,
    /// Dollars in all.
    pub total: Option<f64>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i32),
    /// A number.
    Number(f64),
    /// A text.
    Name(Name),
}

/// A field that a trip may have.
pub struct Field {
    /// Its BSON type, its name and the terminator.
    pub head: &'static [u8],
    /// Its type in SQL.
    pub sql: &'static str,
    /// Its value in a trip.
    pub of: fn(&Trip) -> Option<Value>,
}

impl Field {
    /// Its name.
    pub fn name(&self) -> &'static str {
        let name = &self.head[1..self.head.len() - 1];
        std::str::from_utf8(name).expect("names are constants of letters")
    }
}

/// All of them, in the order in which they are stored.
#[rustfmt::skip]
pub static FIELDS: [Field; 15] = [
    Field { head: b"\x02hack_license\0", sql: "text", of: |trip| trip.hack_license.map(Value::Name) },
    Field { head: b"\x10passenger_count\0", sql: "integer", of: |trip| trip.passengers.map(Value::Integer) },
    Field { head: b"\x10trip_time\0", sql: "integer", of: |trip| trip.seconds.map(Value::Integer) },
    Field { head: b"\x01trip_distance\0", sql: DOUBLE, of: |trip| trip.miles.map(Value::Number) },
    Field { head: b"\x01pickup_longitude\0", sql: DOUBLE, of: |trip| trip.pickup.map(longitude) },
    Field { head: b"\x01pickup_latitude\0", sql: DOUBLE, of: |trip| trip.pickup.map(latitude) },
    Field { head: b"\x01dropoff_longitude\0", sql: DOUBLE, of: |trip| trip.dropoff.map(longitude) },
    Field { head: b"\x01dropoff_latitude\0", sql: DOUBLE, of: |trip| trip.dropoff.map(latitude) },
    Field { head: b"\x10pickup_zone\0", sql: "integer", of: |trip| trip.pickup_zone.map(Value::Integer) },
    Field { head: b"\x10dropoff_zone\0", sql: "integer", of: |trip| trip.dropoff_zone.map(Value::Integer) },
    Field { head: b"\x01fare\0", sql: DOUBLE, of: |trip| trip.fare.map(Value::Number) },
    Field { head: b"\x01surcharge\0", sql: DOUBLE, of: |trip| trip.surcharge.map(Value::Number) },
    Field { head: b"\x01tip\0", sql: DOUBLE, of: |trip| trip.tip.map(Value::Number) },
    Field { head: b"\x01tolls\0", sql: DOUBLE, of: |trip| trip.tolls.map(Value::Number) },
    Field { head: b"\x01total\0", sql: DOUBLE, of: |trip| trip.total.map(Value::Number) },
];

const DOUBLE: &str = "double precision";

fn longitude(position: Position) -> Value {
    Value::Number(position.0)
}

fn latitude(position: Position) -> Value {
    Value::Number(position.1)
}

/// How many of some trips have each field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldCounts([u32; FIELDS.len()]);

impl FieldCounts {
    /// Adds a trip.
    pub fn add(&mut self, trip: &Trip) {
        for (field, count) in FIELDS.iter().zip(&mut self.0) {
            *count += u32::from((field.of)(trip).is_some());
        }
    }

    /// The fields that at least one of `total` trips has.
    pub fn known(&self, total: u32) -> Vec<KnownField> {
        self.fields()
            .filter(|(_, count)| *count > 0)
            .map(|(field, count)| KnownField {
                field,
                optional: count < total,
            })
            .collect()
    }

    /// The names of those that none has.
    pub fn unknown(&self) -> Vec<&'static str> {
        let none = self.fields().filter(|(_, count)| *count == 0);
        none.map(|(field, _)| field.name()).collect()
    }

    fn fields(&self) -> impl Iterator<Item = (&'static Field, u32)> {
        FIELDS.iter().zip(self.0)
    }
}

/// A field that at least one trip has.
#[derive(Clone, Copy)]
pub struct KnownField {
    /// Which.
    pub field: &'static Field,
    /// Whether some trip lacks it.
    pub optional: bool,
}
