//! Sensors with places, and their readings: one a minute from each.
//!
//! A reading is made from its number alone. Readings are numbered as they arrive: first one of every sensor, then
//! the second of every sensor, and so on. Values have one decimal, as sensors send them.

use std::f64::consts::TAU;
use std::sync::Arc;

use rand::Rng;

use crate::encode::{
    copy_field, copy_row, document, double, extended_well_known_binary, int32, int64, object_id,
    point, postgres_time, string,
};
use crate::seeded::{RandomByNumber, Size};

/// Sensors at full size.
const SENSORS: u32 = 10_000;
/// Fewer would leave questions without an answer worth the name.
const SENSORS_MIN: u32 = 20;
/// Readings of each sensor, at every size.
pub const READINGS_EACH: u32 = 2_000;
/// 2025-01-01T00:00:00Z in milliseconds.
pub const START_MS: i64 = 1_735_689_600_000;
const MINUTE_MS: i64 = 60_000;
/// A sensor reports at its own second of a minute, and up to so much later.
const JITTER_MS: i64 = 5_000;
/// Minutes of a day, as the daily wave counts them.
const DAY_MINUTES: f64 = 1_440.0;
/// Sensors stand in a square of so many degrees, whose corner this is.
const DEGREES: u32 = 10;
const WEST: u32 = 5;
const SOUTH: u32 = 45;
/// How near to a whole degree a sensor may stand. The edges of an area lie there, and servers differ by a
/// thousandth of a degree in how they curve.
const MARGIN: f64 = 0.01;
const MODELS: [&str; 4] = ["TH-100", "TH-100 outdoor", "TH-220", "mast 3 with TH-220"];
/// What a battery loses: one percent in so many minutes.
const MINUTES_A_PERCENT: u32 = 240;

/// About what one document takes.
pub const DOCUMENT_BYTES: usize = 210;
/// What one row takes in a binary COPY.
pub const ROW_BYTES: usize = 54;

/// A sensor.
#[derive(Debug)]
pub struct Sensor {
    /// Its number.
    pub id: i32,
    /// What it is.
    pub model: &'static str,
    /// Where it stands.
    pub longitude: f64,
    /// Where it stands.
    pub latitude: f64,
    /// Mean of its temperatures, in degrees.
    mean: f64,
    /// Half of the difference between its day and its night.
    swing: f64,
    /// Share of a day by which its day is late.
    late: f64,
    /// Percent in its battery when it begins.
    battery: i32,
    /// Itself as an element of a document.
    element: Vec<u8>,
}

/// One reading.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    /// Place of its sensor among the sensors.
    pub sensor: u32,
    /// When it was taken.
    pub at_ms: i64,
    /// Tenths of a degree.
    pub temperature_tenths: i32,
    /// Tenths of a percent.
    pub humidity_tenths: i32,
    /// Whole percent.
    pub battery: i32,
}

impl Reading {
    /// The temperature as it is stored.
    pub fn temperature(&self) -> f64 {
        degrees(self.temperature_tenths)
    }

    /// The humidity as it is stored.
    pub fn humidity(&self) -> f64 {
        degrees(self.humidity_tenths)
    }
}

/// The double nearest to so many tenths.
pub fn degrees(tenths: i32) -> f64 {
    f64::from(tenths) / 10.0
}

/// All readings of one size and seed.
#[derive(Debug, Clone)]
pub struct Readings {
    sensors: Arc<Vec<Sensor>>,
    random: RandomByNumber,
}

impl Readings {
    /// Makes the sensors.
    pub fn new(size: Size) -> Self {
        let random = size.random("sensors");
        let sensors = 0..size.of(SENSORS, SENSORS_MIN);
        Self {
            sensors: Arc::new(sensors.map(|id| sensor(id, &random)).collect()),
            random: size.random("readings"),
        }
    }

    /// All sensors.
    pub fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    /// How many readings there are.
    pub fn total(&self) -> u32 {
        self.sensors.len() as u32 * READINGS_EACH
    }

    /// When the last reading is over.
    pub fn end_ms(&self) -> i64 {
        START_MS + i64::from(READINGS_EACH) * MINUTE_MS
    }

    /// The reading with that number.
    pub fn reading(&self, number: u32) -> Reading {
        let sensors = self.sensors.len() as u32;
        let (minute, place) = (number / sensors, number % sensors);
        let sensor = &self.sensors[place as usize];
        let random = &mut self.random.of(number);
        let own_ms = i64::from(place) * (MINUTE_MS - JITTER_MS) / i64::from(sensors);
        let wave = ((f64::from(minute) / DAY_MINUTES - sensor.late) * TAU).sin();
        let temperature = sensor.mean + sensor.swing * wave + random.random_range(-0.2..0.2);
        let humidity = 65.0 - 20.0 * wave + random.random_range(-0.4..0.4);
        Reading {
            sensor: place,
            at_ms: START_MS
                + i64::from(minute) * MINUTE_MS
                + own_ms
                + random.random_range(0..JITTER_MS),
            temperature_tenths: (temperature * 10.0).round() as i32,
            humidity_tenths: (humidity * 10.0).round() as i32,
            battery: sensor.battery - (minute / MINUTES_A_PERCENT) as i32,
        }
    }

    /// Appends the reading with that number as a document.
    pub fn document(&self, number: u32, out: &mut Vec<u8>) {
        let reading = self.reading(number);
        document(out, |out| {
            object_id(number, out);
            int64(b"\x09at\0", reading.at_ms, out);
            out.extend_from_slice(&self.sensors[reading.sensor as usize].element);
            double(b"\x01temperature\0", reading.temperature(), out);
            double(b"\x01humidity\0", reading.humidity(), out);
            int32(b"\x10battery\0", reading.battery, out);
        });
    }

    /// Appends the reading with that number as a row: time, sensor, battery, temperature, humidity.
    pub fn row(&self, number: u32, out: &mut Vec<u8>) {
        let reading = self.reading(number);
        copy_row(5, out);
        copy_field(&postgres_time(reading.at_ms), out);
        copy_field(&self.sensors[reading.sensor as usize].id.to_be_bytes(), out);
        copy_field(&reading.battery.to_be_bytes(), out);
        copy_field(&reading.temperature().to_be_bytes(), out);
        copy_field(&reading.humidity().to_be_bytes(), out);
    }
}

impl Sensor {
    /// Appends the sensor as a row: number, model, place.
    pub fn row(&self, out: &mut Vec<u8>) {
        copy_row(3, out);
        copy_field(&self.id.to_be_bytes(), out);
        copy_field(self.model.as_bytes(), out);
        copy_field(
            &extended_well_known_binary(self.longitude, self.latitude),
            out,
        );
    }
}

fn sensor(id: u32, random: &RandomByNumber) -> Sensor {
    let random = &mut random.of(id);
    let mut coordinate = |corner: u32| {
        let degree = corner + random.random_range(0..DEGREES);
        let within = random.random_range(MARGIN..1.0 - MARGIN);
        // Receivers of satellites tell about a metre.
        ((f64::from(degree) + within) * 1e5).round() / 1e5
    };
    let (longitude, latitude) = (coordinate(WEST), coordinate(SOUTH));
    let model = MODELS[random.random_range(0..MODELS.len())];
    let mut element = b"\x03sensor\0".to_vec();
    document(&mut element, |out| {
        int32(b"\x10id\0", id as i32, out);
        string(b"\x02model\0", model, out);
        point(b"\x03location\0", longitude, latitude, out);
    });
    Sensor {
        id: id as i32,
        model,
        longitude,
        latitude,
        mean: random.random_range(4.0..16.0),
        swing: random.random_range(3.0..8.0),
        late: random.random_range(0.3..0.4),
        battery: random.random_range(40..=100),
        element,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(seed: u64) -> Readings {
        Readings::new(Size { seed, scale: 0.002 })
    }

    #[test]
    fn readings_are_made_from_their_number_and_the_seed() {
        let (one, same, other) = (readings(1), readings(1), readings(2));
        assert_eq!(one.total(), 20 * READINGS_EACH);
        assert_eq!(one.reading(777), same.reading(777));
        assert_ne!(one.reading(777), other.reading(777));
        assert_ne!(one.sensors()[3].longitude, other.sensors()[3].longitude);
        let full = Size {
            seed: 1,
            scale: 1.0,
        };
        assert_eq!(Readings::new(full).total(), 20_000_000);
    }

    #[test]
    fn every_sensor_reports_once_a_minute_about_in_the_order_of_time() {
        let readings = readings(1);
        let mut latest_ms = START_MS;
        for number in 0..readings.total() {
            let reading = readings.reading(number);
            let minute = i64::from(number / 20);
            assert_eq!(reading.sensor, number % 20);
            assert_eq!((reading.at_ms - START_MS) / MINUTE_MS, minute);
            assert!(reading.at_ms > latest_ms - JITTER_MS);
            latest_ms = latest_ms.max(reading.at_ms);
        }
        assert!((readings.end_ms() - MINUTE_MS..readings.end_ms()).contains(&latest_ms));
    }

    #[test]
    fn neighbours_in_time_are_close_and_days_differ_from_nights() {
        let readings = readings(1);
        let of_one: Vec<Reading> = (0..READINGS_EACH)
            .map(|minute| readings.reading(minute * 20 + 7))
            .collect();
        let temperatures = of_one.iter().map(|reading| reading.temperature_tenths);
        let (least, most) = (temperatures.clone().min(), temperatures.max());
        assert!(
            most.zip(least)
                .is_some_and(|(most, least)| most > least + 50)
        );
        for pair in of_one.windows(2) {
            assert!(
                pair[0]
                    .temperature_tenths
                    .abs_diff(pair[1].temperature_tenths)
                    <= 6
            );
            assert!((0..=1).contains(&(pair[0].battery - pair[1].battery)));
            assert!((400..=900).contains(&pair[0].humidity_tenths));
        }
    }

    #[test]
    fn sensors_stand_away_from_whole_degrees() {
        for sensor in readings(1).sensors() {
            for degrees in [sensor.longitude, sensor.latitude] {
                assert!((degrees - degrees.round()).abs() >= MARGIN - 1e-5);
            }
        }
    }

    #[test]
    fn a_reading_is_a_document_with_its_sensor_and_a_row_without_its_place() {
        let readings = readings(1);
        let reading = readings.reading(47);
        let sensor = &readings.sensors()[7];
        let mut bytes = Vec::new();
        readings.document(47, &mut bytes);
        assert!(bytes.len() <= DOCUMENT_BYTES, "{}", bytes.len());
        let written = bson::RawDocument::from_bytes(&bytes).expect("a document");
        let mut written: bson::Document = written.try_into().expect("valid");
        assert!(written.get_object_id("_id").is_ok());
        written.remove("_id");
        let expected = bson::doc! {
            "at": bson::DateTime::from_millis(reading.at_ms),
            "sensor": { "id": 7, "model": sensor.model, "location": {
                "type": "Point", "coordinates": [sensor.longitude, sensor.latitude],
            } },
            "temperature": reading.temperature(),
            "humidity": reading.humidity(),
            "battery": reading.battery,
        };
        assert_eq!(written, expected);
        let mut row = Vec::new();
        readings.row(47, &mut row);
        assert_eq!(row.len(), ROW_BYTES);
    }
}
