//! Entities as BSON and as rows of PostgreSQL's binary COPY, and the commands about them.
//!
//! Commands are what a context broker sends: it looks an entity up by the parts
//! of its key, and never by the whole `_id`.

use std::fmt::Write as _;

use super::generator::{Entity, Key, UPDATED_ATTRIBUTE};
use crate::client::{write_message, write_sequence_message};
use crate::encode::{copy_field, copy_row, document, int32, string};

/// The database of the evaluation.
pub const DATABASE: &str = "meridian_bench_entities";
/// The collection of the evaluation.
pub const COLLECTION: &str = "entities";
/// Bytes of one entity as BSON.
pub const ENTITY_BYTES: usize = 594;
/// About what one row takes in a binary COPY.
pub const ROW_BYTES: usize = 600;

/// Appends the entity: `{_id: {id, type, servicePath}, attrs, creDate, modDate}`.
pub fn bson(entity: &Entity, out: &mut Vec<u8>) {
    document(out, |out| {
        out.extend_from_slice(b"\x03_id\0");
        document(out, |out| {
            string(b"\x02id\0", &entity.key.id, out);
            string(b"\x02type\0", entity.key.kind, out);
            string(b"\x02servicePath\0", entity.key.service_path, out);
        });
        out.extend_from_slice(b"\x03attrs\0");
        document(out, |out| attributes(entity, out));
        int32(b"\x10creDate\0", entity.created_s, out);
        int32(b"\x10modDate\0", entity.modified_s, out);
    });
}

fn attributes(entity: &Entity, out: &mut Vec<u8>) {
    for attribute in &entity.attributes {
        out.push(3);
        out.extend_from_slice(attribute.name.as_bytes());
        out.push(0);
        document(out, |out| {
            string(b"\x02type\0", attribute.kind, out);
            string(b"\x02value\0", &attribute.value, out);
            int32(b"\x10creDate\0", entity.created_s, out);
            int32(b"\x10modDate\0", entity.modified_s, out);
        });
    }
}

/// The attributes as JSON.
pub fn attributes_json(entity: &Entity) -> String {
    let mut out = String::with_capacity(ROW_BYTES);
    let (created, modified) = (entity.created_s, entity.modified_s);
    for attribute in &entity.attributes {
        out.push(if out.is_empty() { '{' } else { ',' });
        // Names and values hold nothing that JSON escapes. Writing to a String cannot fail.
        let _ = write!(
            out,
            r#""{}":{{"type":"{}","value":"{}","creDate":{created},"modDate":{modified}}}"#,
            attribute.name, attribute.kind, attribute.value
        );
    }
    out.push('}');
    out
}

/// Appends the row: id, type, service_path, attrs, cre_date, mod_date.
pub fn row(entity: &Entity, out: &mut Vec<u8>) {
    copy_row(6, out);
    copy_field(entity.key.id.as_bytes(), out);
    copy_field(entity.key.kind.as_bytes(), out);
    copy_field(entity.key.service_path.as_bytes(), out);
    // A jsonb in binary is its version, 1, and the text.
    let attributes = format!("\u{1}{}", attributes_json(entity));
    copy_field(attributes.as_bytes(), out);
    copy_field(&entity.created_s.to_be_bytes(), out);
    copy_field(&entity.modified_s.to_be_bytes(), out);
}

fn condition(key: &Key, out: &mut Vec<u8>) {
    document(out, |out| {
        string(b"\x02_id.id\0", &key.id, out);
        string(b"\x02_id.type\0", key.kind, out);
        string(b"\x02_id.servicePath\0", key.service_path, out);
    });
}

/// Makes `out` a message that looks the entity up.
pub fn find(key: &Key, out: &mut Vec<u8>) {
    write_message(out, |out| {
        string(b"\x02find\0", COLLECTION, out);
        out.extend_from_slice(b"\x03filter\0");
        condition(key, out);
        string(b"\x02$db\0", DATABASE, out);
    });
}

/// Makes `out` a message that inserts the entity.
pub fn insert(entity: &Entity, out: &mut Vec<u8>) {
    let body = |out: &mut Vec<u8>| {
        string(b"\x02insert\0", COLLECTION, out);
        string(b"\x02$db\0", DATABASE, out);
    };
    write_sequence_message(out, body, "documents", |out| bson(entity, out));
}

/// Makes `out` a message that gives the entity's first attribute a value, and says when.
pub fn update(key: &Key, value: &str, modified_s: i32, out: &mut Vec<u8>) {
    let body = |out: &mut Vec<u8>| {
        string(b"\x02update\0", COLLECTION, out);
        string(b"\x02$db\0", DATABASE, out);
    };
    write_sequence_message(out, body, "updates", |out| {
        document(out, |out| {
            out.extend_from_slice(b"\x03q\0");
            condition(key, out);
            out.extend_from_slice(b"\x03u\0");
            document(out, |out| {
                out.extend_from_slice(b"\x03$set\0");
                document(out, |out| {
                    string(&named(2, "value"), value, out);
                    int32(&named(16, "modDate"), modified_s, out);
                    int32(b"\x10modDate\0", modified_s, out);
                });
            });
        });
    });
}

/// The start of an element for a field of the attribute that is updated.
fn named(element_type: u8, field: &str) -> Vec<u8> {
    let mut head = vec![element_type];
    head.extend_from_slice(format!("attrs.{UPDATED_ATTRIBUTE}.{field}\0").as_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::entities::generator::{CREATED_S, Entities};
    use bson::{Document, RawDocument, doc};

    #[test]
    fn an_entity_has_its_size_and_its_fields() {
        for number in 0..1000 {
            let entity = Entities::new(1).entity(number);
            let mut bytes = Vec::new();
            bson(&entity, &mut bytes);
            assert_eq!(bytes.len(), ENTITY_BYTES, "{entity:?}");
            let document: Document = RawDocument::from_bytes(&bytes)
                .expect("a document")
                .try_into()
                .expect("valid");
            let key = doc! { "id": &entity.key.id, "type": entity.key.kind, "servicePath": entity.key.service_path };
            assert_eq!(document.get_document("_id").ok(), Some(&key));
            assert_eq!(document.get_i32("modDate").ok(), Some(CREATED_S));
        }
    }

    #[test]
    fn attributes_as_json_are_those_of_the_document() {
        let entity = Entities::new(1).entity(5);
        let mut bytes = Vec::new();
        bson(&entity, &mut bytes);
        let document = RawDocument::from_bytes(&bytes).expect("a document");
        let document: Document = document
            .get_document("attrs")
            .expect("attrs")
            .try_into()
            .expect("valid");
        let expected = serde_json::to_value(&document).expect("JSON");
        let found: serde_json::Value =
            serde_json::from_str(&attributes_json(&entity)).expect("JSON");
        assert_eq!(found, expected);
    }

    #[test]
    fn messages_are_as_drivers_send_them() {
        let key = Entities::new(1).key(5);
        let mut message = Vec::new();
        update(&key, "20.00", CREATED_S + 1, &mut message);
        let length = i32::from_le_bytes(message[..4].try_into().expect("4"));
        assert_eq!(length as usize, message.len());
        let body_bytes = i32::from_le_bytes(message[21..25].try_into().expect("4")) as usize;
        let sequence_at = 21 + body_bytes;
        assert_eq!(message[sequence_at], 1);
        assert_eq!(&message[sequence_at + 5..sequence_at + 13], b"updates\0");
        let statement = RawDocument::from_bytes(&message[sequence_at + 13..]).expect("a document");
        let statement: Document = statement.try_into().expect("valid");
        let condition =
            doc! { "_id.id": &key.id, "_id.type": key.kind, "_id.servicePath": key.service_path };
        let set = doc! {
            "attrs.temperature.value": "20.00",
            "attrs.temperature.modDate": CREATED_S + 1,
            "modDate": CREATED_S + 1,
        };
        assert_eq!(statement, doc! { "q": condition, "u": { "$set": set } });
    }
}
