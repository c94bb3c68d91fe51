//! What the questions are about: spans of time, one sensor, an area of the map.

use bson::{DateTime, Document, doc};

use super::generator::{Readings, START_MS, Sensor};

/// An hour in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// The last whole 24 hours.
pub const DAY: Span = Span::hours(9, 33);
/// What is downsampled.
pub const SIX_HOURS: Span = Span::hours(24, 30);
/// One hour within the day.
pub const HOUR: Span = Span::hours(20, 21);

/// A time from one instant until before another.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Its first millisecond.
    pub from_ms: i64,
    /// The first millisecond after it.
    pub until_ms: i64,
}

impl Span {
    /// Whole hours since the first reading.
    pub const fn hours(from: i64, until: i64) -> Self {
        Self {
            from_ms: START_MS + from * HOUR_MS,
            until_ms: START_MS + until * HOUR_MS,
        }
    }

    /// Which of its hours an instant is in.
    pub fn hour(self, at_ms: i64) -> Option<usize> {
        let hour = || ((at_ms - self.from_ms) / HOUR_MS) as usize;
        (self.from_ms..self.until_ms).contains(&at_ms).then(hour)
    }

    /// How many hours it has.
    pub fn hours_within(self) -> usize {
        ((self.until_ms - self.from_ms) / HOUR_MS) as usize
    }

    /// As a condition of a field.
    pub fn filter(self) -> Document {
        let time = DateTime::from_millis;
        doc! { "$gte": time(self.from_ms), "$lt": time(self.until_ms) }
    }

    /// As a condition in SQL.
    pub fn condition(self) -> String {
        let time = |unix_ms: i64| format!("to_timestamp({})", unix_ms / 1000);
        let (from, until) = (time(self.from_ms), time(self.until_ms));
        format!("at >= {from} AND at < {until}")
    }
}

/// A square of one degree.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    west: f64,
    south: f64,
}

impl Area {
    /// The one that a sensor stands in.
    pub fn around(sensor: &Sensor) -> Self {
        Self {
            west: sensor.longitude.floor(),
            south: sensor.latitude.floor(),
        }
    }

    /// Whether a sensor stands in it.
    pub fn contains(self, sensor: &Sensor) -> bool {
        sensor.longitude.floor() == self.west && sensor.latitude.floor() == self.south
    }

    /// As a condition of a field.
    pub fn filter(self) -> Document {
        let Self { west, south } = self;
        let (east, north) = (west + 1.0, south + 1.0);
        let ring = vec![
            vec![west, south],
            vec![east, south],
            vec![east, north],
            vec![west, north],
            vec![west, south],
        ];
        doc! { "$geoWithin": { "$geometry": { "type": "Polygon", "coordinates": [ring] } } }
    }

    /// As a condition in SQL.
    pub fn condition(self) -> String {
        let Self { west, south } = self;
        let (east, north) = (west + 1.0, south + 1.0);
        format!("location && ST_MakeEnvelope({west}, {south}, {east}, {north}, 4326)")
    }
}

/// Which sensor and which area are asked for.
pub struct Asked {
    /// Place of the sensor among the sensors.
    pub sensor: u32,
    /// The area.
    pub area: Area,
}

impl Asked {
    /// The middle sensor, and the area around the first.
    pub fn of(readings: &Readings) -> Self {
        let sensors = readings.sensors();
        Self {
            sensor: sensors.len() as u32 / 2,
            area: Area::around(&sensors[0]),
        }
    }

    /// How many sensors stand in the area.
    pub fn sensors_in_area(&self, readings: &Readings) -> usize {
        let sensors = readings.sensors().iter();
        sensors.filter(|sensor| self.area.contains(sensor)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Size;

    #[test]
    fn spans_begin_with_their_first_instant_and_end_before_their_last() {
        assert_eq!(HOUR.hour(HOUR.from_ms - 1), None);
        assert_eq!(HOUR.hour(HOUR.from_ms), Some(0));
        assert_eq!(HOUR.hour(HOUR.until_ms), None);
        assert_eq!(DAY.hour(DAY.until_ms - 1), Some(23));
        assert_eq!(
            Span::hours(0, 1).condition(),
            "at >= to_timestamp(1735689600) AND at < to_timestamp(1735693200)"
        );
    }

    #[test]
    fn about_one_sensor_in_a_hundred_stands_in_the_area() {
        let readings = Readings::new(Size {
            seed: 1,
            scale: 1.0,
        });
        let sensors = Asked::of(&readings).sensors_in_area(&readings);
        assert!((60..=140).contains(&sensors), "{sensors}");
    }
}
