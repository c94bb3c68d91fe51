//! What is asked of the readings, in both languages.

use bson::{Document, doc};

use super::answers::Answers;
use super::asked::{Area, Asked, DAY, HOUR, SIX_HOURS};
use super::generator::Readings;
use crate::questions::answer::{Answer, Column, Kind, column};
use crate::questions::{BATCH_SIZE, OWN, Question, Sql, aggregate};

/// The collection, or the table.
pub const READINGS: &str = "readings";
const LAST: &[Column] = &[
    column("_id", Kind::Whole),
    column("at", Kind::Time),
    column("temperature", Kind::Number),
];
const WHOLE_READINGS: &[Column] = &[
    column("sensor.id", Kind::Whole),
    column("at", Kind::Time),
    column("temperature", Kind::Number),
    column("humidity", Kind::Number),
    column("battery", Kind::Whole),
];
const AVERAGES: &[Column] = &[
    column("_id", Kind::Time),
    column("average", Kind::Rounded),
    column("readings", Kind::Whole),
];
const DOWNSAMPLED: &[Column] = &[
    column("_id.sensor", Kind::Whole),
    column("_id.hour", Kind::Time),
    column("average", Kind::Rounded),
    column("least", Kind::Number),
    column("greatest", Kind::Number),
];
const HIGHEST: &[Column] = &[column("highest", Kind::Number)];
const COUNT: &[Column] = &[column("n", Kind::Whole)];

/// All questions in the order in which they are asked.
pub fn questions(readings: &Readings) -> Vec<Question> {
    let asked = Asked::of(readings);
    let answers = Answers::of(readings, &asked);
    vec![
        last_of_each(answers.last()),
        day_of_one(asked.sensor, answers.day_of_one),
        averages_in_area(asked.area, answers.averages()),
        downsampling(answers.downsampled()),
        highest_of_hour(answers.highest()),
        count_of_day(answers.count()),
    ]
}

fn sql(select: String, cells: &'static str) -> Sql {
    Sql {
        settings: OWN,
        select,
        cells,
    }
}

fn each_hour() -> Document {
    doc! { "$dateTrunc": { "date": "$at", "unit": "hour" } }
}

/// Cheaper than `date_trunc`, which looks up the time zone.
const EACH_HOUR: &str = "date_bin('1 hour', at, TIMESTAMPTZ '2025-01-01 00:00:00+00')";

fn last_of_each(expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$sort": { "sensor.id": 1, "at": -1 } },
        doc! { "$group": {
            "_id": "$sensor.id", "at": { "$first": "$at" }, "temperature": { "$first": "$temperature" },
        } },
    ];
    Question {
        label: "last reading of each sensor",
        command: aggregate(READINGS, pipeline),
        sql: sql(
            format!(
                "SELECT sensors.id AS sensor, last.at, last.temperature FROM {{schema}}.sensors CROSS JOIN LATERAL \
                 (SELECT at, temperature FROM {{schema}}.{READINGS} WHERE sensor = sensors.id \
                 ORDER BY at DESC LIMIT 1) last"
            ),
            "sensor::bigint, (extract(epoch FROM at) * 1000)::bigint, temperature",
        ),
        columns: LAST,
        expected,
    }
}

fn day_of_one(sensor: u32, expected: Answer) -> Question {
    Question {
        label: "one sensor's readings of a day",
        command: doc! {
            "find": READINGS,
            "filter": { "sensor.id": sensor as i32, "at": DAY.filter() },
            "batchSize": BATCH_SIZE,
        },
        sql: sql(
            format!(
                "SELECT sensor, at, temperature, humidity, battery FROM {{schema}}.{READINGS} \
                 WHERE sensor = {sensor} AND {}",
                DAY.condition()
            ),
            "sensor::bigint, (extract(epoch FROM at) * 1000)::bigint, temperature, humidity, battery::bigint",
        ),
        columns: WHOLE_READINGS,
        expected,
    }
}

fn averages_in_area(area: Area, expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$match": { "sensor.location": area.filter(), "at": DAY.filter() } },
        doc! { "$group": {
            "_id": each_hour(), "average": { "$avg": "$temperature" }, "readings": { "$sum": 1 },
        } },
    ];
    Question {
        label: "hourly averages of a day in an area of the map",
        command: aggregate(READINGS, pipeline),
        sql: sql(
            format!(
                "SELECT {EACH_HOUR} AS hour, avg(temperature) AS average, count(*) AS readings \
                 FROM {{schema}}.sensors JOIN {{schema}}.{READINGS} ON sensor = sensors.id \
                 WHERE {} AND {} GROUP BY hour",
                area.condition(),
                DAY.condition()
            ),
            "(extract(epoch FROM hour) * 1000)::bigint, average, readings",
        ),
        columns: AVERAGES,
        expected,
    }
}

fn downsampling(expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$match": { "at": SIX_HOURS.filter() } },
        doc! { "$group": {
            "_id": { "sensor": "$sensor.id", "hour": each_hour() },
            "average": { "$avg": "$temperature" },
            "least": { "$min": "$temperature" },
            "greatest": { "$max": "$temperature" },
        } },
    ];
    Question {
        label: "six hours downsampled to hours, each sensor",
        command: aggregate(READINGS, pipeline),
        sql: sql(
            format!(
                "SELECT sensor, {EACH_HOUR} AS hour, avg(temperature) AS average, min(temperature) AS least, \
                 max(temperature) AS greatest FROM {{schema}}.{READINGS} WHERE {} GROUP BY sensor, hour",
                SIX_HOURS.condition()
            ),
            "sensor::bigint, (extract(epoch FROM hour) * 1000)::bigint, average, least, greatest",
        ),
        columns: DOWNSAMPLED,
        expected,
    }
}

fn highest_of_hour(expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$match": { "at": HOUR.filter() } },
        doc! { "$group": { "_id": null, "highest": { "$max": "$temperature" } } },
    ];
    Question {
        label: "highest temperature of an hour",
        command: aggregate(READINGS, pipeline),
        sql: sql(
            format!(
                "SELECT max(temperature) AS highest FROM {{schema}}.{READINGS} WHERE {}",
                HOUR.condition()
            ),
            "highest",
        ),
        columns: HIGHEST,
        expected,
    }
}

/// As drivers count.
fn count_of_day(expected: Answer) -> Question {
    let pipeline = vec![
        doc! { "$match": { "at": DAY.filter() } },
        doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } },
    ];
    Question {
        label: "readings of a day, counted",
        command: aggregate(READINGS, pipeline),
        sql: sql(
            format!(
                "SELECT count(*) AS n FROM {{schema}}.{READINGS} WHERE {}",
                DAY.condition()
            ),
            "n",
        ),
        columns: COUNT,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Size;

    #[test]
    fn each_question_has_the_rows_that_it_must() {
        let readings = Readings::new(Size {
            seed: 1,
            scale: 0.002,
        });
        let rows: Vec<u64> = questions(&readings)
            .iter()
            .map(|question| question.expected.rows)
            .collect();
        assert_eq!(rows, [20, 1_440, 24, 6 * 20, 1, 1]);
    }
}
