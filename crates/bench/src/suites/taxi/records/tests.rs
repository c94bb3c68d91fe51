//! Small Parquet files, written here in the schemas of the city's, are read as they should be.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::Int96;
use rand::Rng;
use tempfile::TempDir;

use super::written::{Cells, MINUTE_MS, TextColumn, YEAR_2023_MS, least, write, yellow};
use super::*;
use crate::suites::taxi::period::days;
use crate::suites::taxi::trip::FIELDS;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, columns: &[TextColumn]) -> PathBuf {
        let path = self.path(name);
        write(&path, columns, Compression::SNAPPY, 100_000);
        path
    }

    fn open(&self, paths: &[PathBuf], limit: Option<u32>, seed: u64) -> anyhow::Result<Records> {
        Records::open(paths, limit, seed, self.0.path())
    }

    /// What is wrong with a file of these columns.
    fn error(&self, columns: &[TextColumn]) -> String {
        let path = self.write("trips.parquet", columns);
        error(self.open(&[path], None, 1))
    }
}

fn error(records: anyhow::Result<Records>) -> String {
    format!("{:#}", records.err().expect("an error"))
}

fn remarks(records: &Records) -> String {
    let remarks = records.remarks().expect("there are trips");
    remarks.join("\n")
}

fn trips(records: &Records) -> Vec<Trip> {
    let trips = records.in_order().collect();
    records.check_read().expect("all can be read");
    trips
}

#[test]
fn trips_of_today_are_taken_as_they_are() {
    let files = Files::new();
    let path = files.write("yellow.parquet", &yellow(2000));
    let records = files.open(&[path], None, 1).expect("it can be read");
    let trips = trips(&records);
    assert_eq!((records.total(), trips.len()), (2000, 2000));
    let trip = trips[1234];
    assert_eq!(trip.pickup_ms, YEAR_2023_MS + 1234 * 60 * MINUTE_MS);
    assert_eq!(trip.dropoff_ms, trip.pickup_ms + 7 * MINUTE_MS);
    assert_eq!(trip.seconds, Some(420));
    assert_eq!((trip.passengers, trips[0].passengers), (Some(2), None));
    assert_eq!(trip.miles, Some(123.4));
    assert_eq!((trip.pickup, trip.dropoff), (None, None));
    assert_eq!((trip.pickup_zone, trip.dropoff_zone), (Some(183), Some(35)));
    assert_eq!((trip.fare, trip.surcharge), (Some(311.5), Some(1.0)));
    assert_eq!(
        (trip.tip, trip.tolls, trip.total),
        (Some(4.0), Some(0.0), Some(314.0))
    );
    let period = records.period().expect("a period");
    assert_eq!(days(period.month), "2023-02-01 to 2023-02-28");
    assert_eq!(days(period.all), "2023-01-01 to 2023-03-31");
}

#[test]
fn only_medallions_are_drawn_and_the_report_says_what_is_not_there() {
    let files = Files::new();
    let path = files.write("yellow.parquet", &yellow(2000));
    let records = files
        .open(std::slice::from_ref(&path), None, 1)
        .expect("it can be read");
    let medallions = |seed| -> Vec<Name> {
        let records = files
            .open(std::slice::from_ref(&path), None, seed)
            .expect("it can be read");
        trips(&records).iter().map(|trip| trip.medallion).collect()
    };
    assert_eq!(medallions(1), medallions(1));
    assert_ne!(medallions(1), medallions(2));
    let different: std::collections::HashSet<Name> = medallions(1).into_iter().collect();
    assert!(
        (1000..2000).contains(&different.len()),
        "{}",
        different.len()
    );
    assert_eq!(records.medallion_asked(), None);
    let known: Vec<(&str, bool)> = records
        .known_fields()
        .iter()
        .map(|known| (known.field.name(), known.optional))
        .collect();
    assert_eq!(known.len(), FIELDS.len() - 5);
    assert_eq!(known[0], ("passenger_count", true));
    assert_eq!(known[1], ("trip_time", false));
    let told = remarks(&records);
    for words in [
        "the city's records in yellow.parquet",
        "medallions are not in the files",
        "left out: hack_license, pickup_longitude, pickup_latitude, dropoff_longitude, dropoff_latitude",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("chosen"), "{told}");
}

#[test]
fn another_month_stands_in_for_february_and_the_report_says_so() {
    let files = Files::new();
    let told = |rows| {
        let path = files.write("yellow.parquet", &yellow(rows));
        remarks(&files.open(&[path], None, 1).expect("it can be read"))
    };
    assert!(told(500).contains("no February is in the files: January 2023 stands in for it"));
    assert!(!told(1000).contains("stands in"));
}

#[test]
fn the_schemas_of_other_years_and_colours_are_known() {
    let files = Files::new();
    let nanos = Cells::Int64(vec![Some(YEAR_2023_MS * 1_000_000), None]);
    let green = files.write(
        "green.parquet",
        &[
            (
                "INT64 lpep_pickup_datetime/(TIMESTAMP(NANOS,false))",
                nanos.clone(),
            ),
            (
                "INT64 lpep_dropoff_datetime/(TIMESTAMP(NANOS,false))",
                nanos,
            ),
            (
                "DOUBLE trip_distance/",
                Cells::Double(vec![Some(1.5), Some(f64::NAN)]),
            ),
            ("INT32 PULocationID/", Cells::Int32(vec![Some(74), None])),
            ("INT64 passenger_count/", Cells::Int64(vec![Some(6), None])),
        ],
    );
    let of_2009 = files.write(
        "2009.parquet",
        &least(&[
            ("DOUBLE Start_Lon/", Cells::Double(vec![Some(-73.99), None])),
            ("DOUBLE Start_Lat/", Cells::Double(vec![Some(40.7), None])),
            (
                "DOUBLE Fare_Amt/",
                Cells::Double(vec![Some(8.9), Some(2.5)]),
            ),
            ("DOUBLE surcharge/", Cells::Double(vec![Some(0.5), None])),
        ]),
    );
    let mut julian = Int96::new();
    // 2010-01-01 is day 2,455,198; 10 seconds in nanoseconds.
    julian.set_data(1_410_065_408, 2, 2_455_198);
    let julian = Cells::Int96(vec![Some(julian); 2]);
    let of_2010 = files.write(
        "2010.parquet",
        &[
            ("INT96 pickup_datetime/", julian.clone()),
            ("INT96 dropoff_datetime/", julian),
            (
                "DOUBLE trip_distance/",
                Cells::Double(vec![Some(1.0), Some(2.0)]),
            ),
        ],
    );
    let records = files
        .open(&[green, of_2009, of_2010], None, 1)
        .expect("they can be read");
    let trips = trips(&records);
    assert_eq!(trips.len(), 5, "one of six has no time");
    assert_eq!(trips[0].pickup_ms, YEAR_2023_MS);
    assert_eq!(
        (trips[0].pickup_zone, trips[0].passengers),
        (Some(74), Some(6))
    );
    assert_eq!(trips[1].pickup_ms, 1_231_037_520_000);
    assert_eq!(trips[1].seconds, Some(630));
    assert_eq!(trips[1].pickup, Some((-73.99, 40.7)));
    assert_eq!(trips[2].pickup, None);
    assert_eq!((trips[1].fare, trips[1].surcharge), (Some(8.9), Some(0.5)));
    assert_eq!(trips[3].pickup_ms, 1_262_304_010_000);
    let told = remarks(&records);
    assert!(
        told.contains("in green.parquet, 2009.parquet, 2010.parquet"),
        "{told}"
    );
    assert!(
        told.contains("left out: 1 trips whose pick-up or drop-off time"),
        "{told}"
    );
}

#[test]
fn medallions_in_the_files_are_taken() {
    let files = Files::new();
    let sums = [
        "89D227B655E5C82AECF13C3F540D4CF4",
        "0BD7C8F5BA12B88E0B67BED28BEA73D8",
    ];
    let columns = least(&[
        ("BYTE_ARRAY medallion/", Cells::text(&sums)),
        (
            "INT32 hack_license/",
            Cells::Int32(vec![Some(5_296_319), None]),
        ),
        (
            "INT32 trip_time_in_secs/",
            Cells::Int32(vec![Some(600), None]),
        ),
    ]);
    let path = files.write("trips.parquet", &columns);
    let records = files.open(&[path], None, 1).expect("it can be read");
    let trips = trips(&records);
    assert_eq!(
        trips
            .iter()
            .map(|trip| trip.medallion.to_string())
            .collect::<Vec<_>>(),
        sums
    );
    assert_eq!(records.medallion_asked().as_deref(), Some(sums[0]));
    assert_eq!(trips[0].hack_license.as_deref(), Some("5296319"));
    assert_eq!((trips[0].seconds, trips[1].seconds), (Some(600), Some(630)));
    assert!(!remarks(&records).contains("medallions are not"));
}

#[test]
fn every_codec_and_any_row_groups_give_the_same_trips() {
    let files = Files::new();
    let columns = yellow(2500);
    let trips_of = |compression, group_rows| {
        let path = files.path("trips.parquet");
        write(&path, &columns, compression, group_rows);
        trips(&files.open(&[path], None, 1).expect("it can be read"))
    };
    let plain = trips_of(Compression::UNCOMPRESSED, 2500);
    assert_eq!(plain.len(), 2500);
    assert_eq!(plain, trips_of(Compression::SNAPPY, 1100));
    assert_eq!(plain, trips_of(Compression::GZIP(Default::default()), 1024));
    assert_eq!(plain, trips_of(Compression::ZSTD(ZstdLevel::default()), 90));
}

#[test]
fn a_limit_chooses_so_many_by_the_seed_in_their_order() {
    let files = Files::new();
    let paths = [
        files.write("one.parquet", &yellow(1500)),
        files.write("two.parquet", &yellow(500)),
    ];
    let chosen = |limit, seed| {
        let records = files
            .open(&paths, Some(limit), seed)
            .expect("they can be read");
        let trips = trips(&records);
        assert_eq!(records.total() as usize, trips.len());
        (trips, remarks(&records))
    };
    let pickups = |trips: &[Trip]| trips.iter().map(|trip| trip.pickup_ms).collect::<Vec<_>>();
    let (trips, remarks) = chosen(1000, 1);
    assert_eq!(trips.len(), 1000);
    assert!(
        remarks.contains("1,000 of the 2,000 trips in the files were chosen"),
        "{remarks}"
    );
    assert_eq!(trips, chosen(1000, 1).0);
    assert_ne!(pickups(&trips), pickups(&chosen(1000, 2).0));
    // 750 of the first file are expected, with a standard deviation of 14.
    let second = trips
        .windows(2)
        .position(|pair| pair[0].pickup_ms > pair[1].pickup_ms);
    assert!(
        (650..850).contains(&second.expect("both files")),
        "{second:?}"
    );
    assert_eq!(chosen(5000, 1).0.len(), 2000);
}

#[test]
fn shuffled_trips_are_the_same_ones() {
    let files = Files::new();
    let path = files.write("trips.parquet", &yellow(2000));
    let records = files.open(&[path], Some(1500), 1).expect("it can be read");
    let by_time = |trip: &Trip| trip.pickup_ms;
    let mut shuffled: Vec<Trip> = records.shuffled().expect("it can be read").collect();
    assert!(!shuffled.is_sorted_by_key(by_time));
    shuffled.sort_by_key(by_time);
    assert_eq!(shuffled, trips(&records));
}

#[test]
fn what_is_wrong_is_named_with_file_column_and_row() {
    let files = Files::new();
    let missing = error(files.open(&[files.path("none.parquet")], None, 1));
    assert!(
        missing.contains("none.parquet") && missing.contains("No such file"),
        "{missing}"
    );
    let text = files.path("trips.csv");
    std::fs::write(
        &text,
        "VendorID,tpep_pickup_datetime\n2,2023-01-01 00:32:10\n",
    )
    .expect("written");
    let text = error(files.open(&[text], None, 1));
    assert!(text.contains("trips.csv: not a Parquet file"), "{text}");

    let cases: [(TextColumn, &str); 9] = [
        (
            (
                "BYTE_ARRAY Trip_Pickup_DateTime/",
                Cells::text(&["2009-01-04 02:52:00", "yesterday"]),
            ),
            "column Trip_Pickup_DateTime: row 2: \"yesterday\" is not a time",
        ),
        (
            (
                "INT64 Trip_Pickup_DateTime/",
                Cells::Int64(vec![Some(1), Some(2)]),
            ),
            "column Trip_Pickup_DateTime: INT64 is not a time",
        ),
        (
            (
                "INT64 Trip_Pickup_DateTime/(TIMESTAMP(MILLIS,false))",
                Cells::Int64(vec![Some(i64::MAX); 2]),
            ),
            "column Trip_Pickup_DateTime: row 1: a time beyond",
        ),
        (
            (
                "BYTE_ARRAY Trip_Distance/(STRING)",
                Cells::text(&["1", "2"]),
            ),
            "column Trip_Distance: BYTE_ARRAY (String) is not a number",
        ),
        (
            (
                "INT32 Fare_Amt/(DECIMAL(7,2))",
                Cells::Int32(vec![Some(250); 2]),
            ),
            "column Fare_Amt: INT32 (Decimal",
        ),
        (
            (
                "DOUBLE Passenger_Count/",
                Cells::Double(vec![Some(1.0), Some(1.5)]),
            ),
            "column Passenger_Count: row 2: 1.5 is not a whole number",
        ),
        (
            (
                "INT64 Passenger_Count/",
                Cells::Int64(vec![Some(1 << 40); 2]),
            ),
            "column Passenger_Count: row 1: 1099511627776 is too large",
        ),
        (
            (
                "BYTE_ARRAY medallion/",
                Cells::text(&["9Y64", "a name that is longer than any medallion"]),
            ),
            "column medallion: row 2: \"a name that is longer than any medallion\" is longer than 32",
        ),
        (
            (
                "BYTE_ARRAY medallion/",
                Cells::Text(vec![Some("9Y64".into()), None]),
            ),
            "column medallion: row 2 has none",
        ),
    ];
    for (column, words) in cases {
        let error = files.error(&least(&[column]));
        assert!(
            error.contains("trips.parquet: ") && error.contains(words),
            "{error}"
        );
    }

    let error = files.error(&least(&[])[..2]);
    let words = "trips.parquet: no column trip_distance: not trip records of yellow or green taxis";
    assert!(error.contains(words), "{error}");
    let none: Vec<TextColumn> = least(&[])
        .iter()
        .map(|(column, cells)| (*column, cells.part(0..0)))
        .collect();
    assert_eq!(files.error(&none), "the files have no trips");
}

#[test]
fn files_with_and_without_medallions_are_not_mixed() {
    let files = Files::new();
    let with = least(&[("BYTE_ARRAY medallion/", Cells::text(&["9Y64", "9Y65"]))]);
    let paths = [
        files.write("with.parquet", &with),
        files.write("without.parquet", &least(&[])),
    ];
    let error = error(files.open(&paths, None, 1));
    assert!(
        error.contains("with.parquet") && error.contains("only one has medallions"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_cut_later_ends_the_trips_and_says_so() {
    let files = Files::new();
    let path = files.path("trips.parquet");
    write(&path, &yellow(2000), Compression::SNAPPY, 500);
    let records = files
        .open(std::slice::from_ref(&path), None, 1)
        .expect("it can be read");
    let length = std::fs::metadata(&path).expect("it is there").len();
    let file = File::options()
        .write(true)
        .open(&path)
        .expect("it is there");
    file.set_len(length / 2).expect("it can be cut");
    let left = records.in_order().count();
    assert!((500..2000).contains(&left), "{left}");
    let error = records.check_read().expect_err("it ended early");
    assert!(
        format!("{error:#}").contains("trips.parquet: column "),
        "{error:#}"
    );
    assert!(records.shuffled().is_err());
}

/// The file of the outside tests: synthetic trips of January to March 2023.
fn synthetic() -> Vec<TextColumn> {
    let mut random = stream(1, 0);
    let mut times: Vec<(i64, i64)> = (0..400)
        .map(|_| {
            let start_ms = YEAR_2023_MS + random.random_range(0..90 * 24 * 60) * MINUTE_MS;
            (start_ms, start_ms + random.random_range(3..40) * MINUTE_MS)
        })
        .collect();
    times.sort_unstable();
    // A wrong clock, as there are some in every month: 2002-12-31.
    times[0] = (1_041_292_800_000, 1_041_293_400_000);
    let mut columns = yellow(400);
    columns[1].1 = Cells::Int64(times.iter().map(|(start, _)| Some(start * 1000)).collect());
    columns[2].1 = Cells::Int64(times.iter().map(|(_, end)| Some(end * 1000)).collect());
    columns
}

/// Written again with `MERIDIAN_GOLDEN=rewrite`.
#[test]
fn the_file_of_the_outside_tests_holds_these_trips() {
    // Asked when it runs: checkouts may share what was compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let kept = Path::new(&package).join("../../tests/bench/yellow_tripdata.parquet");
    let level = ZstdLevel::try_new(19).expect("a level");
    if std::env::var("MERIDIAN_GOLDEN").is_ok_and(|value| value == "rewrite") {
        write(&kept, &synthetic(), Compression::ZSTD(level), 400);
    }
    let files = Files::new();
    let fresh = files.write("fresh.parquet", &synthetic());
    let read = |path| trips(&files.open(&[path], None, 1).expect("it can be read"));
    assert_eq!(read(kept), read(fresh));
}
