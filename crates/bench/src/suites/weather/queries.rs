//! The questions as MongoDB's language says them: collection, indexes, filters, roll-ups.

use anyhow::Context;
use bson::{Bson, DateTime, Document, doc};
use serde::Serialize;

use super::dataset::Between;
use super::encode::Key;
use super::rectangle::Rectangle;

/// The collection that is measured.
pub const EVENTS: &str = "events";

/// `create` with the validator: all fields required, with their types.
pub fn create_events(name: &str, key: Key) -> Document {
    let mut properties = doc! {
        "indexnum": { "bsonType": "int" },
        "startdatetime": { "bsonType": "date" },
        "enddatetime": { "bsonType": "date" },
        "location": { "bsonType": "object" },
        "name": { "bsonType": "string" },
        "lastupdatedatetime": { "bsonType": "date" },
        "timezoneoffset": { "bsonType": "int" },
        "permitid": { "bsonType": "int" },
        "reading": { "bsonType": "double" },
    };
    if key == Key::Indexnum {
        properties.remove("indexnum");
        properties.insert("_id", doc! { "bsonType": "int" });
    }
    let required: Vec<Bson> = properties
        .keys()
        .map(|name| Bson::from(name.as_str()))
        .collect();
    doc! {
        "create": name,
        "validator": { "$jsonSchema": { "bsonType": "object", "required": required, "properties": properties } },
    }
}

/// The name of the number field.
pub fn number_field(key: Key) -> &'static str {
    match key {
        Key::ObjectId => "indexnum",
        Key::Indexnum => "_id",
    }
}

/// `createIndexes` with the five secondary indexes (four when the number is the key).
pub fn create_indexes(name: &str, key: Key) -> Document {
    let ascending = [
        "startdatetime",
        "enddatetime",
        "lastupdatedatetime",
        "indexnum",
    ];
    let kept = ascending
        .into_iter()
        .filter(|field| !(key == Key::Indexnum && *field == "indexnum"));
    let mut indexes = vec![doc! { "key": { "location": "2dsphere" }, "name": "location_2dsphere" }];
    indexes.extend(kept.map(|field| doc! { "key": { field: 1 }, "name": format!("{field}_1") }));
    doc! { "createIndexes": name, "indexes": indexes }
}

/// The area filter.
pub fn in_area(zoom: &Rectangle) -> Document {
    doc! { "location": { "$geoIntersects": { "$geometry": zoom.polygon() } } }
}

/// A count's filter in the client's first way: text, parsed for each request.
///
/// # Errors
/// Never for the texts made here.
pub fn parse_filter(text: &str) -> anyhow::Result<Document> {
    let json: serde_json::Value = serde_json::from_str(text)?;
    match Bson::try_from(json)? {
        Bson::Document(filter) => Ok(filter),
        _ => None.context("a filter is a JSON object"),
    }
}

/// The text of a date range's filter.
pub fn date_text(field: &str, between: Between) -> String {
    format!(
        r#"{{"{field}": {{"$gt": {{"$date": {{"$numberLong": "{}"}}}}, "$lt": {{"$date": {{"$numberLong": "{}"}}}}}}}}"#,
        between.above, between.below
    )
}

/// The text of a number range's filter.
pub fn number_text(field: &str, between: Between) -> String {
    format!(
        r#"{{"{field}": {{"$gt": {}, "$lt": {}}}}}"#,
        between.above, between.below
    )
}

/// The client's second way: a document, built.
pub fn date_document(field: &str, between: Between) -> Document {
    doc! { field: { "$gt": DateTime::from_millis(between.above), "$lt": DateTime::from_millis(between.below) } }
}

/// The same of a number range.
pub fn number_document(field: &str, between: Between) -> Document {
    doc! { field: { "$gt": between.above as i32, "$lt": between.below as i32 } }
}

/// The client's third way: a typed helper that writes the wire's bytes directly.
#[derive(Debug, Serialize)]
pub struct Range<T> {
    /// Excluded lower end.
    #[serde(rename = "$gt")]
    pub above: T,
    /// Excluded upper end.
    #[serde(rename = "$lt")]
    pub below: T,
}

/// The typed helper's filter on the date.
#[derive(Debug, Serialize)]
pub struct DateFilter {
    /// The range.
    pub startdatetime: Range<DateTime>,
}

impl DateFilter {
    /// The filter as a document for the driver.
    ///
    /// # Errors
    /// Never for this type.
    pub fn document(between: Between) -> anyhow::Result<Document> {
        let range = Range {
            above: DateTime::from_millis(between.above),
            below: DateTime::from_millis(between.below),
        };
        Ok(bson::serialize_to_document(&Self {
            startdatetime: range,
        })?)
    }
}

/// The typed helper's filter on the number.
///
/// # Errors
/// Never for this type.
pub fn typed_number(field: &str, between: Between) -> anyhow::Result<Document> {
    let range = Range {
        above: between.above as i32,
        below: between.below as i32,
    };
    Ok(doc! { field: bson::serialize_to_bson(&range)? })
}

/// Roll-ups, each from the finer one: collection read, collection written, pipeline.
pub fn roll_ups() -> [(&'static str, &'static str, Vec<Document>); 3] {
    let daily = vec![
        doc! { "$group": {
            "_id": { "day": { "$dateTrunc": { "date": "$startdatetime", "unit": "day" } }, "name": "$name" },
            "events": { "$sum": 1 },
            "total": { "$sum": "$reading" },
            "least": { "$min": "$reading" },
            "greatest": { "$max": "$reading" },
        } },
        doc! { "$set": { "mean": { "$divide": ["$total", "$events"] } } },
        doc! { "$merge": { "into": "daily", "on": "_id", "whenMatched": "replace", "whenNotMatched": "insert" } },
    ];
    [
        (EVENTS, "daily", daily),
        (
            "daily",
            "monthly",
            coarser(
                "day",
                "month",
                doc! { "$merge": { "into": "monthly", "whenMatched": "replace" } },
            ),
        ),
        (
            "monthly",
            "yearly",
            coarser("month", "year", doc! { "$out": "yearly" }),
        ),
    ]
}

fn coarser(from: &str, to: &str, last: Document) -> Vec<Document> {
    vec![
        doc! { "$group": {
            "_id": { to: { "$dateTrunc": { "date": format!("$_id.{from}"), "unit": to } }, "name": "$_id.name" },
            "events": { "$sum": "$events" },
            "total": { "$sum": "$total" },
            "least": { "$min": "$least" },
            "greatest": { "$max": "$greatest" },
        } },
        doc! { "$set": { "mean": { "$divide": ["$total", "$events"] } } },
        last,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_client_forms_ask_the_same() {
        let dates = Between {
            above: 1_513_987_200_000,
            below: 1_514_160_000_000,
        };
        let built = date_document("startdatetime", dates);
        assert_eq!(
            parse_filter(&date_text("startdatetime", dates)).expect("parses"),
            built
        );
        assert_eq!(DateFilter::document(dates).expect("serialises"), built);
        let numbers = Between {
            above: 10,
            below: 20,
        };
        let built = number_document("indexnum", numbers);
        assert_eq!(
            parse_filter(&number_text("indexnum", numbers)).expect("parses"),
            built
        );
        assert_eq!(
            typed_number("indexnum", numbers).expect("serialises"),
            built
        );
    }
}
