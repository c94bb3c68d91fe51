//! A row of the city's files, and the columns that it comes from.
//!
//! The columns are those of the data dictionaries for yellow (`tpep_`) and green
//! (`lpep_`) taxis, of the files of 2009 and 2010, which kept other names and
//! times as text, and of the records by medallion of 2010 to 2013. Names are
//! compared without regard to case. Other columns are not read.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::suites::taxi::generator::{draw_medallion, medallion_name};
use crate::suites::taxi::trip::{Name, Trip};

/// What a row says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    pickup_ms: Option<i64>,
    dropoff_ms: Option<i64>,
    /// Which taxi.
    pub medallion: Option<Name>,
    hack_license: Option<Name>,
    passengers: Option<i32>,
    seconds: Option<i32>,
    miles: Option<f64>,
    pickup_longitude: Option<f64>,
    pickup_latitude: Option<f64>,
    dropoff_longitude: Option<f64>,
    dropoff_latitude: Option<f64>,
    pickup_zone: Option<i32>,
    dropoff_zone: Option<i32>,
    fare: Option<f64>,
    surcharge: Option<f64>,
    tip: Option<f64>,
    tolls: Option<f64>,
    total: Option<f64>,
}

impl Record {
    /// The trip, with what must be drawn; `None` when a time is missing.
    pub fn trip(&self, random: &mut ChaCha8Rng) -> Option<Trip> {
        let drawn = medallion_name(draw_medallion(random));
        let sampling_key = random.random();
        let (pickup_ms, dropoff_ms) = (self.pickup_ms?, self.dropoff_ms?);
        let on_the_way = || i32::try_from((dropoff_ms - pickup_ms) / 1000).ok();
        Some(Trip {
            medallion: self.medallion.unwrap_or(drawn),
            pickup_ms,
            dropoff_ms,
            random: sampling_key,
            hack_license: self.hack_license,
            passengers: self.passengers,
            seconds: self.seconds.or_else(on_the_way),
            miles: self.miles,
            pickup: self.pickup_longitude.zip(self.pickup_latitude),
            dropoff: self.dropoff_longitude.zip(self.dropoff_latitude),
            pickup_zone: self.pickup_zone,
            dropoff_zone: self.dropoff_zone,
            fare: self.fare,
            surcharge: self.surcharge,
            tip: self.tip,
            tolls: self.tolls,
            total: self.total,
        })
    }
}

/// Where a value of a record is.
pub type Place<T> = fn(&mut Record) -> &mut Option<T>;

/// What a column holds, and where it goes.
#[derive(Clone, Copy)]
pub enum Target {
    /// Times, milliseconds since 1970.
    Time(Place<i64>),
    /// Whole numbers.
    Integer(Place<i32>),
    /// Numbers.
    Number(Place<f64>),
    /// Texts.
    Name(Place<Name>),
}

/// A column.
pub struct Column {
    /// What it is called, or was.
    pub names: &'static [&'static str],
    /// Whether there are no trips without it.
    pub required: bool,
    /// Where its values go.
    pub target: Target,
}

/// The column of the medallions.
pub const MEDALLION: &str = "medallion";

/// All that are read.
pub static COLUMNS: [Column; 18] = [
    required(
        &[
            "tpep_pickup_datetime",
            "lpep_pickup_datetime",
            "pickup_datetime",
            "trip_pickup_datetime",
        ],
        Target::Time(|record| &mut record.pickup_ms),
    ),
    required(
        &[
            "tpep_dropoff_datetime",
            "lpep_dropoff_datetime",
            "dropoff_datetime",
            "trip_dropoff_datetime",
        ],
        Target::Time(|record| &mut record.dropoff_ms),
    ),
    required(
        &["trip_distance"],
        Target::Number(|record| &mut record.miles),
    ),
    optional(&[MEDALLION], Target::Name(|record| &mut record.medallion)),
    optional(
        &["hack_license"],
        Target::Name(|record| &mut record.hack_license),
    ),
    optional(
        &["passenger_count"],
        Target::Integer(|record| &mut record.passengers),
    ),
    optional(
        &["trip_time_in_secs"],
        Target::Integer(|record| &mut record.seconds),
    ),
    optional(
        &["pickup_longitude", "start_lon"],
        Target::Number(|record| &mut record.pickup_longitude),
    ),
    optional(
        &["pickup_latitude", "start_lat"],
        Target::Number(|record| &mut record.pickup_latitude),
    ),
    optional(
        &["dropoff_longitude", "end_lon"],
        Target::Number(|record| &mut record.dropoff_longitude),
    ),
    optional(
        &["dropoff_latitude", "end_lat"],
        Target::Number(|record| &mut record.dropoff_latitude),
    ),
    optional(
        &["pulocationid"],
        Target::Integer(|record| &mut record.pickup_zone),
    ),
    optional(
        &["dolocationid"],
        Target::Integer(|record| &mut record.dropoff_zone),
    ),
    optional(
        &["fare_amount", "fare_amt"],
        Target::Number(|record| &mut record.fare),
    ),
    optional(
        &["surcharge", "extra"],
        Target::Number(|record| &mut record.surcharge),
    ),
    optional(
        &["tip_amount", "tip_amt"],
        Target::Number(|record| &mut record.tip),
    ),
    optional(
        &["tolls_amount", "tolls_amt"],
        Target::Number(|record| &mut record.tolls),
    ),
    optional(
        &["total_amount", "total_amt"],
        Target::Number(|record| &mut record.total),
    ),
];

const fn required(names: &'static [&'static str], target: Target) -> Column {
    Column {
        names,
        required: true,
        target,
    }
}

const fn optional(names: &'static [&'static str], target: Target) -> Column {
    Column {
        names,
        required: false,
        target,
    }
}
