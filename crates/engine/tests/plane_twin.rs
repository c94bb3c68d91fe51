//! Areas on 2d indexes against their plain twin: whatever the index, `$geoWithin` finds and counts what a
//! walk over all documents does, and the index is what the plan uses. Seeds are printed on failure.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_engine::{
    CountRequest, DeleteStatement, Engine, EngineOptions, ExplainRequest, FindRequest,
    InsertOptions, Namespace, UpdateStatement, Verbosity,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const DOCUMENTS: i32 = 2_000;
const QUERIES: usize = 80;
const INDEXES: [&str; 2] = ["plain", "followed"];

fn namespace() -> Namespace {
    Namespace::new("test", "plane").unwrap()
}

/// A plane, and what documents have in it.
#[derive(Clone, Copy)]
struct World {
    min: f64,
    max: f64,
    has_lists: bool,
}

impl World {
    fn size(&self) -> f64 {
        self.max - self.min
    }

    fn coordinate(&self, random: &mut ChaCha8Rng) -> f64 {
        let coordinate = match random.random_range(0..6) {
            // A cluster, a grid, the border of the plane, anywhere.
            0..3 => self.min + self.size() * random.random_range(0.4..0.42),
            3 => self.min + self.size() * f64::from(random.random_range(0..=16)) / 16.0,
            4 if random.random_ratio(1, 8) => *[self.min, self.max].choose(random).unwrap(),
            _ => random.random_range(self.min..=self.max),
        };
        coordinate.clamp(self.min, self.max)
    }

    fn pair(&self, random: &mut ChaCha8Rng) -> RawArrayBuf {
        let mut pair = RawArrayBuf::new();
        pair.push(self.coordinate(random));
        pair.push(self.coordinate(random));
        if random.random_ratio(1, 20) {
            pair.push(7);
        }
        pair
    }

    fn place(&self, random: &mut ChaCha8Rng) -> bson::RawBson {
        if self.has_lists && random.random_ratio(1, 3) {
            let mut list = RawArrayBuf::new();
            for _ in 0..random.random_range(0..4) {
                let (x, y) = (self.coordinate(random), self.coordinate(random));
                list.push(rawdoc! { "x": x, "y": y });
                if random.random_ratio(1, 4) {
                    // So near that both lie in one cell.
                    list.push(rawdoc! { "x": x, "y": (y + self.size() * 1e-12).min(self.max) });
                }
            }
            return bson::RawBson::Array(list);
        }
        bson::RawBson::Array(self.pair(random))
    }

    fn document(&self, random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
        let mut document = rawdoc! { "_id": id, "a": random.random_range(0..5) };
        if !random.random_ratio(1, 30) {
            document.append(cstr!("at"), self.place(random));
        }
        document
    }

    fn area(&self, random: &mut ChaCha8Rng) -> RawDocumentBuf {
        let size = self.size() * 10_f64.powf(random.random_range(-3.0..0.2));
        let (x, y) = (self.coordinate(random), self.coordinate(random));
        match random.random_range(0..4) {
            0 => rawdoc! { "$box": [[x, y], [x + size, y + size / 2.0]] },
            1 => rawdoc! { "$center": [[x, y], size] },
            2 => {
                let (lon, lat) = (x.clamp(-180.0, 180.0), y.clamp(-90.0, 90.0));
                rawdoc! { "$centerSphere": [[lon, lat], size.to_radians()] }
            }
            _ => {
                rawdoc! { "$polygon": [[x, y], [x + size, y], [x, y + size], [x - size, y + size / 3.0]] }
            }
        }
    }

    fn filter(&self, random: &mut ChaCha8Rng) -> RawDocumentBuf {
        let operator = *[cstr!("$geoWithin"), cstr!("$within")]
            .choose(random)
            .unwrap();
        let mut condition = RawDocumentBuf::new();
        condition.append(operator, self.area(random));
        let mut filter = rawdoc! { "at": condition };
        match random.random_range(0..4) {
            0 => filter.append(cstr!("a"), random.random_range(0..5)),
            1 => filter.append(cstr!("a"), rawdoc! { "$gte": 2 }),
            _ => {}
        }
        filter
    }
}

fn found(engine: &Engine, filter: &RawDocument, hint: bson::RawBsonRef<'_>) -> Vec<i32> {
    let request = FindRequest {
        hint: Some(hint),
        ..FindRequest::new(filter)
    };
    let mut query = engine.find(&namespace(), &request).unwrap();
    let mut ids = Vec::new();
    let mut keep = |row: &RawDocument| ids.push(row.get_i32("_id").unwrap());
    assert!(query.fill(None, usize::MAX, &mut keep).unwrap());
    ids.sort_unstable();
    ids
}

/// The names of the stages and indexes of the plan.
fn plan(engine: &Engine, filter: &RawDocument) -> String {
    let request = ExplainRequest::Find(FindRequest::new(filter));
    let verbosity = Verbosity::QueryPlanner;
    let shown = engine.explain(&namespace(), &request, verbosity).unwrap();
    let shown = bson::Document::try_from(&shown).unwrap();
    let mut stage = shown.get_document("queryPlanner").unwrap();
    stage = stage.get_document("winningPlan").unwrap();
    while let Ok(input) = stage.get_document("inputStage") {
        stage = input;
    }
    format!(
        "{} {}",
        stage.get_str("stage").unwrap(),
        stage.get_str("indexName").unwrap_or_default()
    )
}

fn check(engine: &Engine, world: World, random: &mut ChaCha8Rng, seed: u64) -> usize {
    let natural = rawdoc! { "$natural": 1 };
    let mut matched = 0;
    for number in 0..QUERIES {
        let filter = world.filter(random);
        let shown = format!("seed {seed}, query {number}: {filter:?}");
        let used = plan(engine, &filter);
        assert!(
            INDEXES.iter().any(|name| used == format!("IXSCAN {name}")),
            "{used} of {shown}"
        );
        let expected = found(engine, &filter, bson::RawBsonRef::Document(&natural));
        for name in INDEXES {
            let ids = found(engine, &filter, bson::RawBsonRef::String(name));
            assert_eq!(ids, expected, "by {name}, {shown}");
            let count = CountRequest {
                collation: None,
                filter: &filter,
                skip: 0,
                limit: None,
                hint: Some(bson::RawBsonRef::String(name)),
            };
            let count = engine.count(&namespace(), &count).unwrap();
            assert_eq!(
                count,
                i64::try_from(ids.len()).unwrap(),
                "count by {name}, {shown}"
            );
        }
        matched += expected.len();
    }
    matched
}

fn twin(engine: &Arc<Engine>, seed: u64, world: World) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS)
        .map(|id| world.document(&mut random, id))
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let (early, late) = documents.split_at(documents.len() / 2);
    let insert = |part: &[&RawDocument]| {
        let options = InsertOptions::default();
        let outcome = engine.insert(&namespace(), part, &options).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    };
    insert(early);
    let specs = [rawdoc! { "at": "2d" }, rawdoc! { "at": "2d", "a": 1 }];
    let specs: Vec<RawDocumentBuf> = INDEXES
        .iter()
        .zip(specs)
        .map(|(name, key)| rawdoc! { "name": *name, "key": key, "min": world.min, "max": world.max, "bits": 20 })
        .collect();
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
    insert(late);
    let mut matched = check(engine, world, &mut random, seed);
    for _ in 0..200 {
        let own = rawdoc! { "_id": random.random_range(0..DOCUMENTS) };
        let set = rawdoc! { "$set": { "at": world.place(&mut random) } };
        engine
            .update(&namespace(), &UpdateStatement::new(&own, &set))
            .unwrap();
        let doomed = rawdoc! { "_id": random.random_range(0..DOCUMENTS) };
        engine
            .delete(&namespace(), &DeleteStatement::new(&doomed))
            .unwrap();
    }
    matched += check(engine, world, &mut random, seed);
    assert!(
        matched > 10 * QUERIES,
        "seed {seed}: {matched} documents in {QUERIES} areas"
    );
    let report = engine.validate(&namespace()).unwrap();
    assert_eq!(report.errors, Vec::<String>::new(), "seed {seed}");
}

const DEGREES: World = World {
    min: -180.0,
    max: 180.0,
    has_lists: false,
};

#[test]
fn areas_of_the_usual_plane_hold_what_a_walk_finds() {
    twin(&Engine::in_memory().unwrap(), 21, DEGREES);
}

#[test]
fn areas_of_other_planes_hold_what_a_walk_finds() {
    for (seed, min, max) in [(22, -3.5, 17.0), (23, -1e9, 4e9), (24, 0.0, 1e-3)] {
        let world = World {
            min,
            max,
            ..DEGREES
        };
        twin(&Engine::in_memory().unwrap(), seed, world);
    }
}

#[test]
fn documents_with_several_places_come_once() {
    let world = World {
        has_lists: true,
        ..DEGREES
    };
    twin(&Engine::in_memory().unwrap(), 25, world);
}

#[test]
fn areas_on_disk_hold_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    twin(&engine, 26, DEGREES);
}
