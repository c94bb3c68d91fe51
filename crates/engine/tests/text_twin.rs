//! Searches in a text index against their plain twin: every document's words looked at. The same documents come, with the
//! same scores, and as many are counted, whatever was written before. Seeds are printed.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_engine::textsearch::{
    Language, Sensitivity, TextIndexDefinition, TextIndexSpec, TextQuery,
};
use meridian_engine::{
    CountRequest, DeleteStatement, Engine, FindRequest, InsertOptions, Namespace, UpdateStatement,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const DOCUMENTS: i32 = 1_500;
const QUERIES: usize = 100;
const WORDS: [&str; 14] = [
    "coffee", "Coffees", "tea", "the", "black", "Café", "shop", "shops", "running", "RUN", "été",
    "x", "ß", "日本",
];

fn namespace() -> Namespace {
    Namespace::new("test", "texts").unwrap()
}

fn text(random: &mut ChaCha8Rng, words_max: usize) -> String {
    let count = random.random_range(0..=words_max);
    let words: Vec<&str> = (0..count).map(|_| *WORDS.choose(random).unwrap()).collect();
    words.join([" ", ", "].choose(random).unwrap())
}

fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let mut document = rawdoc! { "_id": id, "title": text(random, 3) };
    if random.random_ratio(4, 5) {
        document.append(cstr!("kind"), random.random_range(0..4));
    }
    if random.random_ratio(1, 2) {
        let notes: RawArrayBuf = (0..random.random_range(0..3))
            .map(|_| rawdoc! { "note": text(random, 8) })
            .collect();
        document.append(cstr!("notes"), notes);
    }
    if random.random_ratio(1, 8) {
        document.append(
            cstr!("language"),
            *["fr", "none", "english"].choose(random).unwrap(),
        );
    }
    if random.random_ratio(1, 8) {
        // A name with a dot.
        document.append(cstr!("notes.note"), text(random, 3));
    }
    document.append(cstr!("rank"), random.random_range(0..20));
    document
}

struct Index {
    definition: RawDocumentBuf,
    has_prefix: bool,
}

fn indexes() -> [Index; 3] {
    let index = |key: RawDocumentBuf, has_prefix| {
        let mut definition = rawdoc! { "key": key, "name": "words" };
        definition.append(cstr!("weights"), rawdoc! { "title": 5 });
        Index {
            definition,
            has_prefix,
        }
    };
    [
        index(rawdoc! { "title": "text", "notes.note": "text" }, false),
        index(rawdoc! { "kind": 1, "$**": "text" }, true),
        index(
            rawdoc! { "kind": -1, "title": "text", "notes.note": "text", "rank": 1 },
            true,
        ),
    ]
}

fn spec(index: &Index) -> TextIndexSpec {
    let definition = TextIndexDefinition {
        key: index.definition.get_document("key").unwrap(),
        weights: index.definition.get("weights").unwrap(),
        default_language: None,
        language_override: None,
        version: None,
    };
    definition.read().unwrap()
}

struct Question {
    search: String,
    sensitivity: Sensitivity,
    kind: Option<i32>,
    rank_below: Option<i32>,
}

impl Question {
    fn new(random: &mut ChaCha8Rng, has_prefix: bool) -> Self {
        let mut search = String::new();
        for _ in 0..random.random_range(1..4) {
            let word = WORDS.choose(random).unwrap();
            match random.random_range(0..8) {
                0 => search += &format!("-{word} "),
                1 => search += &format!("\"{word} {}\" ", WORDS.choose(random).unwrap()),
                _ => search += &format!("{word} "),
            }
        }
        Self {
            search,
            sensitivity: Sensitivity {
                case: random.random_ratio(1, 5),
                diacritics: random.random_ratio(1, 5),
            },
            kind: has_prefix.then(|| random.random_range(0..4)),
            rank_below: random
                .random_ratio(1, 3)
                .then(|| random.random_range(0..20)),
        }
    }

    fn filter(&self) -> RawDocumentBuf {
        let mut filter = rawdoc! { "$text": {
            "$search": self.search.as_str(),
            "$caseSensitive": self.sensitivity.case,
            "$diacriticSensitive": self.sensitivity.diacritics,
        } };
        if let Some(kind) = self.kind {
            filter.append(cstr!("kind"), kind);
        }
        if let Some(rank) = self.rank_below {
            filter.append(cstr!("rank"), rawdoc! { "$lt": rank });
        }
        filter
    }

    /// What the twin says: the score of each document that matches.
    fn answer(
        &self,
        spec: &TextIndexSpec,
        documents: &BTreeMap<i32, RawDocumentBuf>,
    ) -> BTreeMap<i32, u64> {
        let query = TextQuery::parse(&self.search, Language::English, self.sensitivity);
        let score = |document: &RawDocument| {
            let is_wanted = self
                .kind
                .is_none_or(|kind| document.get_i32("kind").ok() == Some(kind))
                && self
                    .rank_below
                    .is_none_or(|rank| document.get_i32("rank").unwrap() < rank);
            let scores = spec.scores(document).unwrap();
            let own: Vec<f64> = query
                .index_terms
                .iter()
                .filter_map(|term| scores.get(term).copied())
                .collect();
            let matches = is_wanted
                && !own.is_empty()
                && query.matches(&spec.texts(document).unwrap()).unwrap();
            matches.then(|| {
                own.into_iter()
                    .reduce(|sum, one| sum + one)
                    .unwrap()
                    .to_bits()
            })
        };
        let found = documents
            .iter()
            .filter_map(|(id, document)| Some((*id, score(document)?)));
        found.collect()
    }
}

fn run(engine: &Engine, request: &FindRequest<'_>) -> Vec<RawDocumentBuf> {
    let mut query = engine.find(&namespace(), request).unwrap();
    let mut found = Vec::new();
    while let Some(document) = query.next_document().unwrap() {
        found.push(document.to_owned());
    }
    found
}

fn count_of(filter: &RawDocument) -> CountRequest<'_> {
    CountRequest {
        collation: None,
        filter,
        skip: 0,
        limit: None,
        hint: None,
    }
}

fn check(
    engine: &Engine,
    index: &Index,
    documents: &BTreeMap<i32, RawDocumentBuf>,
    random: &mut ChaCha8Rng,
) {
    let spec = spec(index);
    let projection = rawdoc! { "_id": 1, "score": { "$meta": "textScore" } };
    let by_score = rawdoc! { "score": { "$meta": "textScore" }, "_id": 1 };
    let only_score = rawdoc! { "score": { "$meta": "textScore" } };
    for _ in 0..QUERIES {
        let question = Question::new(random, index.has_prefix);
        let (filter, expected) = (question.filter(), question.answer(&spec, documents));
        let request = FindRequest {
            projection: Some(&projection),
            sort: Some(&by_score),
            ..FindRequest::new(&filter)
        };
        let found = run(engine, &request);
        let scored: Vec<(i32, u64)> = found
            .iter()
            .map(|one| {
                (
                    one.get_i32("_id").unwrap(),
                    one.get_f64("score").unwrap().to_bits(),
                )
            })
            .collect();
        let mut sorted: Vec<(i32, u64)> =
            expected.iter().map(|(id, score)| (*id, *score)).collect();
        sorted.sort_by(|(id, score), (other, other_score)| {
            f64::from_bits(*other_score)
                .total_cmp(&f64::from_bits(*score))
                .then(id.cmp(other))
        });
        assert_eq!(scored, sorted, "{filter:?}");
        // By the score alone, which entries may tell.
        let best = FindRequest {
            limit: Some(random.random_range(1..40)),
            projection: Some(&projection),
            sort: Some(&only_score),
            ..FindRequest::new(&filter)
        };
        let scores =
            |found: &[(i32, u64)]| found.iter().map(|(_, score)| *score).collect::<Vec<_>>();
        let found: Vec<(i32, u64)> = run(engine, &best)
            .iter()
            .map(|one| {
                (
                    one.get_i32("_id").unwrap(),
                    one.get_f64("score").unwrap().to_bits(),
                )
            })
            .collect();
        let kept = sorted.len().min(best.limit.unwrap() as usize);
        assert_eq!(scores(&found), scores(&sorted[..kept]), "{filter:?}");
        assert!(
            found
                .iter()
                .all(|(id, score)| expected.get(id) == Some(score)),
            "{filter:?}"
        );
        let plain = run(engine, &FindRequest::new(&filter));
        let mut ids: Vec<i32> = plain
            .iter()
            .map(|one| one.get_i32("_id").unwrap())
            .collect();
        ids.sort_unstable();
        assert_eq!(
            ids,
            expected.keys().copied().collect::<Vec<_>>(),
            "{filter:?}"
        );
        let counted = engine.count(&namespace(), &count_of(&filter)).unwrap();
        assert_eq!(counted, ids.len() as i64, "{filter:?}");
    }
}

/// A document with one field of another one, whichever of the two has it.
fn with_one_of(old: &RawDocument, fresh: &RawDocument, random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let names = ["title", "notes", "notes.note", "language", "kind", "rank"];
    let name = *names.choose(random).unwrap();
    let kept = old.iter().flatten().filter(|(own, _)| own.as_str() != name);
    let taken = fresh
        .iter()
        .flatten()
        .filter(|(own, _)| own.as_str() == name);
    let mut mixed = RawDocumentBuf::new();
    kept.chain(taken)
        .for_each(|(own, value)| mixed.append(own, value));
    mixed
}

/// Changes documents at random, in the engine and beside it.
fn change(engine: &Engine, documents: &mut BTreeMap<i32, RawDocumentBuf>, random: &mut ChaCha8Rng) {
    for _ in 0..200 {
        let id = random.random_range(0..DOCUMENTS);
        let filter = rawdoc! { "_id": id };
        if random.random_ratio(1, 3) {
            let statement = DeleteStatement {
                limit_one: true,
                ..DeleteStatement::new(&filter)
            };
            engine.delete(&namespace(), &statement).unwrap();
            documents.remove(&id);
            continue;
        }
        let fresh = document(random, id);
        let replacement = match documents.get(&id) {
            // Keys are made anew only where what they depend on has changed.
            Some(old) if random.random_ratio(2, 3) => with_one_of(old, &fresh, random),
            _ => fresh,
        };
        let statement = UpdateStatement {
            multi: false,
            upsert: true,
            ..UpdateStatement::new(&filter, &replacement)
        };
        engine.update(&namespace(), &statement).unwrap();
        documents.insert(id, replacement);
    }
}

fn twin(index: &Index, built_first: bool, seed: u64) {
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = Engine::in_memory().unwrap();
    let mut documents = BTreeMap::new();
    for id in 0..DOCUMENTS {
        documents.insert(id, document(&mut random, id));
    }
    let build = || {
        engine
            .create_indexes(&namespace(), &[&index.definition], &mut |_| {})
            .unwrap();
    };
    if built_first {
        build();
    }
    let borrowed: Vec<&RawDocument> = documents.values().map(AsRef::as_ref).collect();
    engine
        .insert(&namespace(), &borrowed, &InsertOptions::default())
        .unwrap();
    if !built_first {
        build();
    }
    check(&engine, index, &documents, &mut random);
    change(&engine, &mut documents, &mut random);
    check(&engine, index, &documents, &mut random);
}

#[test]
fn searches_find_and_score_as_a_walk_over_all_texts_does() {
    for (number, index) in indexes().iter().enumerate() {
        for built_first in [true, false] {
            twin(index, built_first, 29 + number as u64);
        }
    }
}
