//! A find by `_id` alone takes a shorter way; `{_id: {$eq: …}}`, which is planned, must agree with it.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Bson, DateTime, doc, oid::ObjectId};
use meridian_engine::{Engine, FindRequest, InsertOptions, Namespace};

fn find(engine: &Engine, filter: &RawDocument) -> Vec<RawDocumentBuf> {
    let namespace = Namespace::new("test", "ids").unwrap();
    let mut query = engine.find(&namespace, &FindRequest::new(filter)).unwrap();
    let mut found = Vec::new();
    let mut keep = |row: &RawDocument| found.push(row.to_owned());
    assert!(query.fill(None, usize::MAX, &mut keep).unwrap());
    assert!(query.next_document().unwrap().is_none());
    found
}

fn binary(bytes: &[u8], subtype: BinarySubtype) -> Bson {
    let bytes = bytes.to_vec();
    Bson::Binary(bson::Binary { subtype, bytes })
}

#[test]
fn it_finds_what_a_plan_finds() {
    let stored = [
        Bson::Int32(1),
        Bson::Double(1.5),
        Bson::Double(f64::NAN),
        Bson::Int64(1 << 60),
        Bson::String("one".into()),
        Bson::DateTime(DateTime::from_millis(1)),
        Bson::ObjectId(ObjectId::from_bytes([7; 12])),
        Bson::Boolean(true),
        Bson::Null,
        Bson::Document(doc! { "a": 1 }),
        binary(b"one", BinarySubtype::Generic),
    ];
    let others = [
        Bson::Double(1.0),
        Bson::Int64(1),
        Bson::Int32(2),
        Bson::Double(-0.0),
        Bson::String("on".into()),
        Bson::DateTime(DateTime::from_millis(2)),
        Bson::ObjectId(ObjectId::from_bytes([8; 12])),
        binary(b"one", BinarySubtype::Uuid),
        Bson::Document(doc! { "a": 1.0 }),
        Bson::Document(doc! { "$gt": 0 }),
        Bson::Boolean(false),
    ];
    let engine = Engine::in_memory().unwrap();
    let namespace = Namespace::new("test", "ids").unwrap();
    let raw = |value: &Bson| RawDocumentBuf::try_from(&doc! { "_id": value.clone() }).unwrap();
    let documents: Vec<RawDocumentBuf> = stored.iter().map(raw).collect();
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let options = InsertOptions {
        ordered: true,
        bypass_validation: false,
        ..InsertOptions::default()
    };
    engine.insert(&namespace, &documents, &options).unwrap();
    let mut found_in_all = 0;
    for value in stored.iter().chain(&others) {
        let short = find(&engine, &raw(value));
        let planned = match value {
            Bson::Document(operator) if operator.contains_key("$gt") => operator.clone(),
            value => doc! { "$eq": value.clone() },
        };
        let planned = find(&engine, &raw(&Bson::Document(planned)));
        assert_eq!(short, planned, "{value:?}");
        found_in_all += short.len();
    }
    assert!(found_in_all >= stored.len() + 2, "{found_in_all}");
    let nowhere = Namespace::new("test", "nowhere").unwrap();
    let filter = raw(&Bson::Int32(1));
    let mut query = engine.find(&nowhere, &FindRequest::new(&filter)).unwrap();
    assert!(query.next_document().unwrap().is_none());
}
