//! The evaluation on a server that speaks MongoDB's protocol.

use anyhow::{Context, ensure};
use bson::{Document, RawDocument, doc, rawdoc};

use super::drive::EntityClient;
use super::encode::{self, COLLECTION, DATABASE};
use super::generator::{CREATED_S, Entities, Entity, Key};
use super::{Counted, EntitiesTarget, Setting, Sizes};
use crate::client::{Client, check_ok};
use crate::load::{ahead, insert, insert_messages, unwatched};
use crate::storage;
use crate::targets::document::{DocumentServer, raw_number};

impl EntitiesTarget for DocumentServer {
    fn fill(&mut self, entities: Entities, size: u32, setting: Setting) -> anyhow::Result<()> {
        self.drop_all()?;
        self.command(DATABASE, doc! { "create": COLLECTION })?;
        let body = rawdoc! { "insert": COLLECTION, "ordered": true, "$db": DATABASE };
        let all = (0..size).map(move |number| entities.entity(number));
        let batches = insert_messages(all, body, encode::ENTITY_BYTES, encode::bson);
        insert(self, ahead(batches), size.into(), "load", unwatched)?;
        let indexes: Vec<Document> = setting.indexes().iter().map(|parts| index(parts)).collect();
        if !indexes.is_empty() {
            self.command(
                DATABASE,
                doc! { "createIndexes": COLLECTION, "indexes": indexes },
            )?;
        }
        // Written out now, so that no case pays for it.
        self.command("admin", doc! { "fsync": 1 })?;
        Ok(())
    }

    fn sizes(&mut self) -> anyhow::Result<Sizes> {
        let [data, indexes] = storage::settle(self, DATABASE, COLLECTION)?;
        Ok(Sizes {
            data: data.context("collStats has no storageSize")?,
            indexes: indexes.context("collStats has no totalIndexSize")?,
        })
    }

    fn client(&self) -> anyhow::Result<Box<dyn EntityClient>> {
        Ok(Box::new(DocumentClient {
            client: self.plain_client()?,
            message: Vec::new(),
        }))
    }

    fn count(&mut self, counted: Counted) -> anyhow::Result<u64> {
        let query = match counted {
            Counted::All => doc! {},
            Counted::Modified => doc! { "modDate": { "$gt": CREATED_S } },
        };
        self.count_documents(DATABASE, COLLECTION, query)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

fn index(parts: &[&str]) -> Document {
    let paths = parts.iter().map(|part| format!("_id.{part}"));
    let key: Document = paths.map(|path| (path, bson::Bson::Int32(1))).collect();
    doc! { "key": key, "name": parts.join("_") }
}

/// Ready-made messages over a plain connection.
struct DocumentClient {
    client: Client,
    message: Vec<u8>,
}

impl EntityClient for DocumentClient {
    fn find(&mut self, key: &Key) -> anyhow::Result<Option<i32>> {
        encode::find(key, &mut self.message);
        let reply = self.client.call(&self.message)?;
        check_ok(reply)?;
        let mut batch = reply
            .get_document("cursor")?
            .get_array("firstBatch")?
            .into_iter();
        let Some(entity) = batch.next() else {
            return Ok(None);
        };
        ensure!(batch.next().is_none(), "more than one entity has {key:?}");
        let entity = entity?.as_document().context("a batch holds documents")?;
        check_key(entity, key)?;
        Ok(Some(entity.get_i32("modDate")?))
    }

    fn insert(&mut self, entity: &Entity) -> anyhow::Result<()> {
        encode::insert(entity, &mut self.message);
        let reply = self.client.call(&self.message)?;
        check_ok(reply)?;
        ensure!(
            raw_number(reply, "n") == Some(1),
            "the entity was not inserted: {reply:?}"
        );
        Ok(())
    }

    fn update(&mut self, key: &Key, value: &str, modified_s: i32) -> anyhow::Result<()> {
        encode::update(key, value, modified_s, &mut self.message);
        let reply = self.client.call(&self.message)?;
        check_ok(reply)?;
        ensure!(
            raw_number(reply, "nModified") == Some(1),
            "the entity was not updated: {reply:?}"
        );
        Ok(())
    }
}

fn check_key(entity: &RawDocument, key: &Key) -> anyhow::Result<()> {
    let id = entity.get_document("_id")?;
    ensure!(
        id.get_str("id")? == key.id
            && id.get_str("type")? == key.kind
            && id.get_str("servicePath")? == key.service_path,
        "asked for {key:?}, the server returned {id:?}"
    );
    Ok(())
}
