//! Trips of the taxi evaluation, each joined to its medallion in the city's register by an index.

use std::collections::HashMap;
use std::sync::Arc;

use bson::doc;

use super::part::{Contents, Index, Table};
use crate::encode::{copy_field, copy_row, document, int32, string};
use crate::questions::answer::{Answer, Column, Kind, Row, column};
use crate::questions::{OWN, Question, Sql, aggregate};
use crate::seeded::Size;
use crate::suites::taxi::generator::{Generator, medallion_name};
use crate::suites::taxi::layout::{self, Layout};
use crate::suites::taxi::trip::Trip;
use crate::suites::taxi::trips::Trips;

/// Trips at full size.
const TRIPS: u32 = 100_000;
/// Medallions in the register, some without trips; at every size.
const MEDALLIONS: u32 = 14_000;
/// Fleets that they belong to.
const FLEETS: u32 = 140;
/// A trip with its medallion: who and when, and whose taxi it is.
const JOINED: &[Column] = &[
    column("pickup_datetime", Kind::Time),
    column("medallion", Kind::Text),
    column("taxi.0.owner", Kind::Text),
];
const TOTALS: &[Column] = &[
    column("_id", Kind::Whole),
    column("trips", Kind::Whole),
    column("seconds", Kind::Whole),
];

/// The part.
pub fn contents(size: Size) -> Contents {
    let trips = Generator::new(size.of(TRIPS, 100), size.seed);
    Contents {
        questions: vec![each_trip(&trips), by_fleet(&trips)],
        tables: vec![medallions_table(), trips_table(trips)],
    }
}

/// Taxis of a fleet have numbers far apart.
fn fleet(medallion: u32) -> u32 {
    medallion * 37 % FLEETS
}

fn owner(medallion: u32) -> String {
    format!("owner {}", medallion * 7 % 9_001)
}

fn year(medallion: u32) -> u32 {
    2000 + medallion % 14
}

fn medallions_table() -> Table {
    Table {
        name: "medallions",
        count: MEDALLIONS,
        document_bytes: 120,
        document: Arc::new(|number, out| {
            document(out, |out| {
                int32(b"\x10_id\0", *number as i32, out);
                string(b"\x02medallion\0", &medallion_name(*number), out);
                string(b"\x02owner\0", &owner(*number), out);
                int32(b"\x10fleet\0", fleet(*number) as i32, out);
                int32(b"\x10year\0", year(*number) as i32, out);
            });
        }),
        row: Arc::new(|number, out| {
            copy_row(5, out);
            copy_field(&number.to_be_bytes(), out);
            copy_field(medallion_name(*number).as_bytes(), out);
            copy_field(owner(*number).as_bytes(), out);
            copy_field(&fleet(*number).to_be_bytes(), out);
            copy_field(&year(*number).to_be_bytes(), out);
        }),
        columns: "(number integer PRIMARY KEY, medallion text COLLATE \"C\" NOT NULL, owner text NOT NULL, \
                  fleet integer NOT NULL, year integer NOT NULL)"
            .into(),
        loaded: "",
        index: Some(Index {
            key: doc! { "medallion": 1 },
            unique: true,
            sql: "(medallion)",
        }),
    }
}

fn trips_table(trips: Generator) -> Table {
    let fields = Trips::Generated(trips.clone()).known_fields();
    let columns = layout::columns(Layout::A, &fields);
    let count = trips.total;
    let for_rows = trips.clone();
    Table {
        name: "trips",
        count,
        document_bytes: layout::DOCUMENT_BYTES,
        document: Arc::new(move |number, out| {
            layout::bson(&trips.trip(*number), *number, Layout::A, out);
        }),
        row: Arc::new(move |number, out| {
            layout::row(&for_rows.trip(*number), *number, Layout::A, &fields, out);
        }),
        columns,
        loaded: "",
        index: None,
    }
}

fn lookup() -> bson::Document {
    doc! { "$lookup": { "from": "medallions", "localField": "medallion", "foreignField": "medallion", "as": "taxi" } }
}

/// The trips, each with the number of its medallion.
fn numbered(trips: &Generator) -> impl Iterator<Item = (Trip, u32)> {
    (0..trips.total).map(|number| (trips.trip(number), trips.keys(number).1))
}

fn each_trip(trips: &Generator) -> Question {
    let row = |(trip, medallion): (Trip, u32)| {
        let row = Row::new().whole(trip.pickup_ms).text(&trip.medallion);
        row.text(&owner(medallion))
    };
    Question {
        label: "every trip with its medallion",
        command: aggregate("trips", vec![lookup()]),
        sql: Sql {
            settings: OWN,
            select: "SELECT * FROM {schema}.trips JOIN {schema}.medallions USING (medallion)"
                .into(),
            cells: "(extract(epoch FROM pickup_datetime) * 1000)::bigint, medallion, owner",
        },
        columns: JOINED,
        expected: numbered(trips).map(row).collect(),
    }
}

fn by_fleet(trips: &Generator) -> Question {
    let mut totals: HashMap<u32, (i64, i64)> = HashMap::new();
    for (trip, medallion) in numbered(trips) {
        let total = totals.entry(fleet(medallion)).or_default();
        total.0 += 1;
        total.1 += i64::from(trip.seconds.unwrap_or_default());
    }
    let row = |(fleet, (trips, seconds)): (u32, (i64, i64))| {
        Row::new().whole(fleet.into()).whole(trips).whole(seconds)
    };
    let expected: Answer = totals.into_iter().map(row).collect();
    let group = doc! { "$group": {
        "_id": "$taxi.fleet", "trips": { "$sum": 1 }, "seconds": { "$sum": "$trip_time" },
    } };
    Question {
        label: "trips and seconds of each fleet",
        command: aggregate("trips", vec![lookup(), doc! { "$unwind": "$taxi" }, group]),
        sql: Sql {
            settings: OWN,
            select: "SELECT fleet, count(*) AS trips, sum(trip_time) AS seconds \
                     FROM {schema}.trips JOIN {schema}.medallions USING (medallion) GROUP BY fleet"
                .into(),
            cells: "fleet::bigint, trips, seconds::bigint",
        },
        columns: TOTALS,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::taxi::generator;
    use std::collections::HashSet;

    #[test]
    fn the_register_has_every_medallion_once_and_more_than_trips_have() {
        let names: HashSet<_> = (0..MEDALLIONS).map(medallion_name).collect();
        assert_eq!(names.len(), MEDALLIONS as usize);
        const { assert!(generator::MEDALLIONS < MEDALLIONS) };
        let fleets: HashSet<_> = (0..MEDALLIONS).map(fleet).collect();
        assert_eq!(fleets.len(), FLEETS as usize);
    }

    #[test]
    fn every_trip_is_joined_once() {
        let trips = Generator::new(300, 1);
        assert_eq!(each_trip(&trips).expected.rows, 300);
        assert!((50..=140).contains(&by_fleet(&trips).expected.rows));
    }
}
