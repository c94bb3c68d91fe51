//! Buckets beside what was put into them, their bounds, and the words of indexes there and back.

use super::{
    Granularity, Measurement, MeasurementBucket, MeasurementReader, Timeseries, UnpackBucket,
};
use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, doc, rawdoc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ops::ControlFlow;

fn series() -> Timeseries {
    Timeseries {
        time_field: "t".to_owned(),
        meta_field: Some("m".to_owned()),
        granularity: Granularity::Seconds,
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn read<'d>(series: &Timeseries, document: &'d RawDocumentBuf) -> Measurement<'d> {
    MeasurementReader::new(series).read(document).unwrap()
}

fn unpacked(bucket: &RawDocumentBuf) -> Vec<Document> {
    let mut documents = Vec::new();
    let unpack = UnpackBucket::of(&series());
    let flow = unpack.apply(bucket, &mut |document| {
        documents.push(Document::try_from(document).unwrap());
        Ok(ControlFlow::Continue(()))
    });
    assert!(flow.unwrap().is_continue());
    documents
}

fn sorted(document: &Document) -> Vec<(String, Bson)> {
    let mut fields: Vec<_> = document.clone().into_iter().collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}

fn random_value(random: &mut StdRng, depth: usize) -> Bson {
    match random.random_range(0..if depth < 3 { 9 } else { 6 }) {
        0 => Bson::Int32(random.random_range(-5..5)),
        1 => Bson::Double(random.random_range(-5.0..5.0)),
        2 => Bson::String("x".repeat(random.random_range(0..4))),
        3 => Bson::Null,
        4 => Bson::Boolean(random.random()),
        5 => Bson::Int64(random.random_range(-5..5)),
        6 | 7 => {
            let names = ["a", "b", "c"];
            let fields = names
                .into_iter()
                .filter(|_| random.random())
                .collect::<Vec<_>>();
            Bson::Document(
                fields
                    .into_iter()
                    .map(|name| (name.to_owned(), random_value(random, depth + 1)))
                    .collect(),
            )
        }
        _ => Bson::Array(
            (0..random.random_range(0..3))
                .map(|_| random_value(random, depth + 1))
                .collect(),
        ),
    }
}

fn random_measurement(random: &mut StdRng) -> Document {
    let time = DateTime::from_millis(1_700_000_000_000 + random.random_range(0..4_000_000));
    let mut fields = vec![("t", Bson::DateTime(time)), ("m", Bson::Int32(1))];
    for name in ["u", "v", "0", "meta", "data"] {
        if random.random_range(0..3) > 0 {
            fields.push((name, random_value(random, if name == "u" { 0 } else { 3 })));
        }
    }
    let at = random.random_range(0..fields.len());
    fields.rotate_left(at);
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// One as sensors send them.
fn steady_measurement(random: &mut StdRng, number: i64) -> Document {
    let late = random.random_range(-3_000..3_000);
    let mut measured = doc! {
        "t": DateTime::from_millis(1_700_000_000_000 + 2_000 * number + late), "m": 1,
        "v": f64::from(random.random_range(200..300)) / 10.0, "0": "on", "data": [number, 5],
    };
    if random.random() {
        measured.insert("u", number);
    }
    measured
}

/// What goes into buckets comes out of them, stored and read anew now and then; each bucket has the extremes of one that is
/// filled at once.
#[test]
fn buckets_give_back_what_was_put_into_them() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let series = series();
    let mut compressions = 0;
    for round in 0..300 {
        let measurement = |number| match round % 3 {
            0 => steady_measurement(&mut random, number),
            _ => random_measurement(&mut random),
        };
        let documents: Vec<Document> = (0..60).map(measurement).collect();
        let mut open: Option<MeasurementBucket<'_>> = None;
        let mut done: Vec<(RawDocumentBuf, Vec<Document>)> = Vec::new();
        let mut held = Vec::new();
        for document in &documents {
            let stored = raw(document);
            let measurement = read(&series, &stored);
            if let Some(bucket) = open.take_if(|bucket| !bucket.takes(&measurement)) {
                done.push((bucket.encode(), std::mem::take(&mut held)));
            }
            let mut bucket = open
                .take()
                .unwrap_or_else(|| MeasurementBucket::new(&series, &measurement));
            bucket.push(&measurement);
            held.push(document.clone());
            if random.random_range(0..4) == 0 {
                let stored = bucket.encode();
                bucket = MeasurementBucket::decode(&series, &stored)
                    .unwrap()
                    .unwrap();
            }
            open = Some(bucket);
        }
        done.push((open.unwrap().encode(), held));
        for (bucket, held) in done {
            let there: Vec<_> = unpacked(&bucket).iter().map(sorted).collect();
            assert_eq!(
                there,
                held.iter().map(sorted).collect::<Vec<_>>(),
                "seed {seed}"
            );
            assert_eq!(series.measurements_of(&bucket), held.len());
            check_extremes(&bucket, &held);
            if let Some(smaller) = series.compressed(&bucket).unwrap() {
                compressions += 1;
                assert!(smaller.as_bytes().len() < bucket.as_bytes().len());
                let mut by_time = held.clone();
                by_time
                    .sort_by_key(|document| document.get_datetime("t").unwrap().timestamp_millis());
                let there: Vec<_> = unpacked(&smaller).iter().map(sorted).collect();
                assert_eq!(
                    there,
                    by_time.iter().map(sorted).collect::<Vec<_>>(),
                    "seed {seed}"
                );
                assert_eq!(series.measurements_of(&smaller), held.len());
                assert!(
                    MeasurementBucket::decode(&series, &smaller)
                        .unwrap()
                        .is_none()
                );
                assert!(series.compressed(&smaller).unwrap().is_none());
            }
        }
    }
    assert!(compressions > 50, "{compressions} buckets were compressed");
}

/// The extremes of scalars are the least and the greatest of the column, by the order of values.
fn check_extremes(bucket: &RawDocumentBuf, held: &[Document]) {
    let bucket = Document::try_from(bucket.clone()).unwrap();
    let control = bucket.get_document("control").unwrap();
    for name in ["0", "meta", "data"] {
        let values = held.iter().filter_map(|document| document.get(name));
        let by_order = |one: &&Bson, other: &&Bson| meridian_value::compare_bson(one, other);
        for (end, wanted) in [
            ("min", values.clone().min_by(by_order)),
            ("max", values.clone().max_by(by_order)),
        ] {
            let kept = control.get_document(end).unwrap().get(name);
            assert_eq!(kept.is_some(), wanted.is_some());
            if let (Some(kept), Some(wanted)) = (kept, wanted) {
                assert!(
                    meridian_value::compare_bson(kept, wanted).is_eq(),
                    "{end} {name}: {kept} {wanted}"
                );
            }
        }
    }
}

#[test]
fn a_bucket_takes_a_thousand_measurements_of_its_span() {
    let series = series();
    let at = |millis: i64| raw(&doc! { "t": DateTime::from_millis(millis), "m": 1 });
    let first = at(90_000);
    let mut bucket = MeasurementBucket::new(&series, &read(&series, &first));
    for (millis, takes) in [
        (59_999, false),
        (60_000, true),
        (3_659_999, true),
        (3_660_000, false),
        (i64::MAX, false),
        (i64::MIN, false),
    ] {
        let document = at(millis);
        assert_eq!(bucket.takes(&read(&series, &document)), takes, "{millis}");
    }
    for _ in 0..1_000 {
        assert!(bucket.takes(&read(&series, &first)));
        bucket.push(&read(&series, &first));
    }
    assert!(!bucket.takes(&read(&series, &first)));
}

#[test]
fn a_bucket_takes_so_many_bytes() {
    let series = series();
    let sized =
        |bytes: usize| raw(&doc! { "t": DateTime::from_millis(0), "m": 1, "v": "x".repeat(bytes) });
    for (bytes, rows) in [(1_000, 123), (20_000, 10), (1_000_000, 10), (5_000_000, 1)] {
        let document = sized(bytes);
        let measurement = read(&series, &document);
        let mut bucket = MeasurementBucket::new(&series, &measurement);
        let mut taken = 0;
        while bucket.takes(&measurement) {
            bucket.push(&measurement);
            taken += 1;
        }
        assert_eq!(taken, rows, "{bytes}");
    }
}

#[test]
fn times_at_the_ends_of_what_dates_hold_have_buckets() {
    let series = series();
    for millis in [i64::MIN, i64::MAX, -1, 0] {
        let document = raw(&doc! { "t": DateTime::from_millis(millis) });
        let measurement = read(&series, &document);
        let mut bucket = MeasurementBucket::new(&series, &measurement);
        bucket.push(&measurement);
        let stored = bucket.encode();
        assert_eq!(unpacked(&stored).len(), 1);
        series.check_bucket(&stored).unwrap();
    }
}

/// A document that has fields twice is one measurement with the first of them.
#[test]
fn fields_that_come_again_are_left_out() {
    let series = series();
    let mut twice = raw(&doc! { "t": DateTime::from_millis(5), "v": 1 });
    twice.append(bson::cstr!("t"), "x");
    twice.append(bson::cstr!("t"), DateTime::from_millis(7));
    twice.append(bson::cstr!("v"), "y");
    let measurement = read(&series, &twice);
    let mut bucket = MeasurementBucket::new(&series, &measurement);
    for _ in 0..2 {
        bucket.push(&measurement);
    }
    let stored = bucket.encode();
    let one = doc! { "t": DateTime::from_millis(5), "v": 1 };
    assert_eq!(unpacked(&stored), [one.clone(), one]);
    assert!(
        MeasurementBucket::decode(&series, &stored)
            .unwrap()
            .is_some()
    );
}

#[test]
fn keys_of_indexes_go_there_and_back() {
    let series = series();
    let keys = [
        rawdoc! { "m": 1 },
        rawdoc! { "m.a": -1, "t": 1 },
        rawdoc! { "t": -1, "m": "hashed" },
        rawdoc! { "v": 1, "t": -1.0 },
        rawdoc! { "m.p": "2dsphere", "w.x": -1 },
        rawdoc! { "control.min.t": 1 },
        rawdoc! { "meta": 1, "mm": 1 },
    ];
    for key in keys {
        let own = series.bucket_key(&key).unwrap();
        assert_eq!(series.user_key(&own).unwrap(), key, "{own:?}");
    }
    for key in [
        rawdoc! { "_id": 1 },
        rawdoc! { "control.min.t": 1 },
        rawdoc! { "control.min.t": 1, "control.max.v": 1 },
    ] {
        assert!(series.user_key(&key).is_none(), "{key:?}");
    }
}

#[test]
fn what_is_no_bucket_is_an_error() {
    let unpack = UnpackBucket::of(&series());
    let t = || rawdoc! { "0": DateTime::from_millis(0) };
    for document in [
        rawdoc! {},
        rawdoc! { "control": 1 },
        rawdoc! { "control": { "version": 1 } },
        rawdoc! { "control": { "version": 2 }, "data": { "t": t() } },
        rawdoc! { "control": { "version": 1 }, "data": { "t": 1 } },
        rawdoc! { "control": { "version": 1 }, "data": { "t": t(), "v": 1 } },
        rawdoc! { "control": { "version": 1 }, "data": { "t": t(), "v": { "1": 1 } } },
        rawdoc! { "control": { "version": 1 }, "data": { "v": { "0": 1 } } },
    ] {
        let result = unpack.apply(&document, &mut |_| Ok(ControlFlow::Continue(())));
        assert!(result.is_err(), "{document:?}");
    }
}

/// One that was changed by hand would be refused when it is written: its series could not go on.
#[test]
fn a_bucket_that_tells_its_times_wrongly_is_not_compressed() {
    let series = series();
    let bucket = |until: i64| {
        let at = |row: i64| Bson::DateTime(DateTime::from_millis(1_700_000_000_000 + row * 1_000));
        let column = |value: &dyn Fn(i64) -> Bson| -> Document {
            (0..50).map(|row| (row.to_string(), value(row))).collect()
        };
        raw(&doc! {
            "_id": 1, "control": { "version": 1, "min": { "t": at(0) }, "max": { "t": at(until) } }, "meta": 1,
            "data": { "t": column(&at), "v": column(&|_| Bson::Double(1.5)) },
        })
    };
    assert!(series.compressed(&bucket(49)).unwrap().is_some());
    assert!(series.compressed(&bucket(48)).unwrap().is_none());
}
