//! Indexes whose entries carry fields (`include`) or documents (`clustering`): definitions, plans, and
//! that what is carried follows every change.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Document, doc, rawdoc};
use meridian_engine::index::{ExistingIndex, IndexSpec};
use meridian_engine::{
    Code, Engine, ExplainRequest, FindRequest, InsertOptions, Namespace, UpdateStatement, Verbosity,
};
use std::sync::Arc;

fn namespace() -> Namespace {
    Namespace::new("test", "carrying").unwrap()
}

#[test]
fn definitions_are_listed_as_given_and_nonsense_is_refused() {
    let spec = |options: Document| {
        let mut spec = doc! { "key": { "a": 1, "b.c": 1 }, "name": "n" };
        spec.extend(options);
        IndexSpec::parse(&RawDocumentBuf::try_from(&spec).unwrap())
    };
    for options in [
        doc! { "clustering": true },
        doc! { "include": ["d", "b.e"] },
    ] {
        let parsed = spec(options.clone()).unwrap();
        let listed = Document::try_from(parsed.listing()).unwrap();
        for (name, value) in options {
            assert_eq!(listed.get(&name), Some(&value), "{listed}");
        }
        let again = IndexSpec::parse(parsed.listing()).unwrap();
        assert_eq!(
            again.compare_with([&parsed]).unwrap(),
            ExistingIndex::Identical
        );
        let plain = spec(doc! {}).unwrap();
        assert!(
            plain.compare_with([&parsed]).is_err(),
            "same name, other entries"
        );
    }
    assert!(
        spec(doc! { "clustering": false })
            .unwrap()
            .listing()
            .get("clustering")
            .unwrap()
            .is_none()
    );
    let refusals = [
        (doc! { "include": [] }, "must name at least one field"),
        (doc! { "include": "d" }, "must be an array of field names"),
        (doc! { "include": [1] }, "must be an array of field names"),
        (doc! { "include": ["_id"] }, "must not name '_id'"),
        (
            doc! { "include": ["d", "d.e"] },
            "the index has 'd' already",
        ),
        (doc! { "include": ["a"] }, "the index has 'a' already"),
        (doc! { "include": ["b"] }, "the index has 'b.c' already"),
        (doc! { "include": ["$d"] }, "no path of a field"),
        (doc! { "include": ["d."] }, "no path of a field"),
        (doc! { "include": ["d"], "clustering": true }, "cannot mix"),
        (
            doc! { "key": { "a": "hashed" }, "include": ["d"] },
            "a hashed index cannot",
        ),
        (
            doc! { "key": { "_id": 1 }, "clustering": true },
            "'clustering' is not valid for an _id index",
        ),
    ];
    for (options, expected) in refusals {
        let error = spec(options.clone()).unwrap_err();
        assert!(
            error.message.contains(expected),
            "{options}: {}",
            error.message
        );
        let code = error.code;
        assert!(matches!(
            code,
            Code::CannotCreateIndex | Code::InvalidIndexSpecificationOption
        ));
    }
}

fn engine(index: RawDocumentBuf) -> Arc<Engine> {
    let engine = Engine::in_memory().unwrap();
    let documents: Vec<RawDocumentBuf> = (0..50)
        .map(|id| rawdoc! { "_id": id, "pad": "x".repeat(100), "l": [id % 3, id % 5], "k": id % 10, "v": { "w": id, "z": "z" } })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &[&index], &mut |_| ())
        .unwrap();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    engine
}

fn find(engine: &Engine, request: &FindRequest<'_>) -> Vec<Document> {
    let mut found = Vec::new();
    let mut query = engine.find(&namespace(), request).unwrap();
    let mut push = |row: &RawDocument| found.push(Document::try_from(row).unwrap());
    query.fill(None, usize::MAX, &mut push).unwrap();
    found
}

/// The stages of the plan, root first, and the documents that it read.
fn explain(engine: &Engine, request: &FindRequest<'_>) -> (Vec<String>, Document, i32) {
    let request = ExplainRequest::Find(request.clone());
    let answer = engine
        .explain(&namespace(), &request, Verbosity::ExecutionStats)
        .unwrap();
    let answer = Document::try_from(&*answer).unwrap();
    let stats = answer.get_document("executionStats").unwrap();
    let mut node = stats.get_document("executionStages").unwrap();
    let mut stages = vec![node.get_str("stage").unwrap().to_owned()];
    while let Ok(input) = node.get_document("inputStage") {
        node = input;
        stages.push(node.get_str("stage").unwrap().to_owned());
    }
    (
        stages,
        node.clone(),
        stats.get_i32("totalDocsExamined").unwrap(),
    )
}

fn update(engine: &Engine, filter: &RawDocument, update: &RawDocument) {
    let statement = UpdateStatement::new(filter, update);
    engine.update(&namespace(), &statement).unwrap();
}

#[test]
fn a_clustering_index_answers_without_documents_and_follows_changes() {
    let engine = engine(rawdoc! { "key": { "k": 1 }, "name": "k", "clustering": true });
    let plain = rawdoc! { "key": { "k": 1 }, "name": "plain" };
    engine
        .create_indexes(&namespace(), &[&plain], &mut |_| ())
        .unwrap();
    let filter = rawdoc! { "k": { "$gte": 3, "$lt": 5 }, "v.w": { "$gt": 20 } };
    let order = rawdoc! { "v.w": -1 };
    let request = FindRequest {
        sort: Some(&order),
        ..FindRequest::new(&filter)
    };
    let (stages, scan, documents) = explain(&engine, &request);
    assert_eq!(stages, ["SORT", "IXSCAN"]);
    assert_eq!(
        scan.get_str("indexName").unwrap(),
        "k",
        "not the plain one on the same field"
    );
    assert!(scan.get_bool("isClustering").unwrap() && scan.contains_key("filter"));
    assert_eq!(documents, 0);
    update(
        &engine,
        &filter,
        &rawdoc! { "$set": { "pad": "new" }, "$inc": { "v.w": 100 } },
    );
    let found = find(&engine, &request);
    let numbers: Vec<i32> = found
        .iter()
        .map(|row| row.get_document("v").unwrap().get_i32("w").unwrap())
        .collect();
    assert_eq!(numbers, [144, 143, 134, 133, 124, 123]);
    assert!(found.iter().all(|row| row.get_str("pad").unwrap() == "new"));
    assert_eq!(engine.validate(&namespace()).unwrap().error_count, 0);
}

#[test]
fn a_clustering_index_carries_documents_in_each_of_their_entries() {
    let engine = engine(rawdoc! { "key": { "l": 1 }, "name": "l", "clustering": true });
    let filter = rawdoc! { "l": { "$gte": 1 }, "_id": { "$lt": 9 } };
    let hint = Some(RawBsonRef::String("l"));
    let request = FindRequest {
        hint,
        ..FindRequest::new(&filter)
    };
    assert_eq!(explain(&engine, &request).2, 0);
    update(
        &engine,
        &rawdoc! { "_id": 4 },
        &rawdoc! { "$set": { "k": 77 } },
    );
    let found = find(&engine, &request);
    assert_eq!(found.len(), 8, "each once, but for 0 whose list is [0, 0]");
    let changed: Vec<_> = found
        .iter()
        .filter(|row| row.get_i32("k").unwrap() == 77)
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(engine.validate(&namespace()).unwrap().error_count, 0);
}

#[test]
fn included_fields_cover_and_filter_and_follow_changes() {
    let engine = engine(rawdoc! { "key": { "k": 1 }, "name": "k", "include": ["v.w", "l"] });
    let filter = rawdoc! { "k": 3, "v.w": { "$gt": 20 } };
    let shape = rawdoc! { "l": 1, "v.w": 1 };
    let request = FindRequest {
        projection: Some(&shape),
        ..FindRequest::new(&filter)
    };
    let (stages, scan, documents) = explain(&engine, &request);
    assert_eq!(stages, ["PROJECTION_COVERED", "IXSCAN"]);
    assert!(scan.contains_key("filter"));
    assert_eq!(documents, 0);
    update(
        &engine,
        &rawdoc! { "_id": 23 },
        &rawdoc! { "$set": { "v.w": 500_i64 }, "$unset": { "l": 1 } },
    );
    assert_eq!(
        find(&engine, &request)[0],
        doc! { "_id": 23, "v": { "w": 500_i64 } }
    );
    let whole = FindRequest::new(&filter);
    let (stages, scan, documents) = explain(&engine, &whole);
    assert_eq!(stages, ["FETCH", "IXSCAN"]);
    assert!(
        scan.contains_key("filter"),
        "tested before documents are read"
    );
    assert_eq!(documents, 3);
    assert_eq!(engine.validate(&namespace()).unwrap().error_count, 0);
}

#[test]
fn areas_are_covered_with_the_points_themselves() {
    let engine = Engine::in_memory().unwrap();
    let spec = rawdoc! { "key": { "p": "2dsphere", "k": 1 }, "name": "p" };
    engine
        .create_indexes(&namespace(), &[&spec], &mut |_| ())
        .unwrap();
    let documents: Vec<RawDocumentBuf> = (0..100)
        .map(|id| {
            let (lon, lat) = (f64::from(id % 10) + 0.1, f64::from(id / 10) / 3.0);
            rawdoc! { "_id": id, "k": id % 4, "p": { "type": "Point", "coordinates": [lon, lat] } }
        })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    let area =
        rawdoc! { "type": "Polygon", "coordinates": [[[2, 1], [5, 1], [5, 3], [2, 3], [2, 1]]] };
    let filter = rawdoc! { "p": { "$geoWithin": { "$geometry": area } }, "k": { "$mod": [2, 1] } };
    let shape = rawdoc! { "_id": 0, "p": 1, "k": 1 };
    let request = FindRequest {
        projection: Some(&shape),
        ..FindRequest::new(&filter)
    };
    let (stages, _, documents) = explain(&engine, &request);
    assert_eq!(
        (stages, documents),
        (vec!["PROJECTION_COVERED".into(), "IXSCAN".into()], 0)
    );
    let natural = rawdoc! { "$natural": 1 };
    let plain = FindRequest {
        hint: Some(RawBsonRef::Document(&natural)),
        ..request.clone()
    };
    let sorted = |request: &FindRequest<'_>| {
        let mut rows: Vec<String> = find(&engine, request)
            .into_iter()
            .map(|row| format!("{:?} {:?}", row.get("p"), row.get("k")))
            .collect();
        rows.sort();
        rows
    };
    assert!(!sorted(&request).is_empty());
    assert_eq!(sorted(&request), sorted(&plain));
}
