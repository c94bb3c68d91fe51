//! The evaluation on PostgreSQL, with prepared statements.
//!
//! The parts of the key are columns, since b-trees on columns are smaller than
//! those on expressions and the planner has statistics of them; the attributes,
//! which every type of entity has its own of, are `jsonb`. The primary key is a
//! surrogate, so that the index settings differ as they do elsewhere.

use anyhow::ensure;
use postgres::{Client, Statement};

use super::drive::EntityClient;
use super::encode;
use super::generator::{CREATED_S, Entities, Entity, Key, UPDATED_ATTRIBUTE};
use super::{Counted, EntitiesTarget, Setting, Sizes};
use crate::load::{ahead, copy_at_once, copy_pieces};
use crate::storage;
use crate::targets::postgres::PostgresServer;

const SCHEMA: &str = "meridian_bench_entities";
const TABLE: &str = "meridian_bench_entities.entities";
const COLUMNS: &str = "(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE \"C\" NOT NULL,
    type text COLLATE \"C\" NOT NULL,
    service_path text COLLATE \"C\" NOT NULL,
    attrs jsonb NOT NULL,
    cre_date integer NOT NULL,
    mod_date integer NOT NULL)";
const LOADED: &str = "id, type, service_path, attrs, cre_date, mod_date";
const CONDITION: &str = "id = $1 AND type = $2 AND service_path = $3";

impl EntitiesTarget for PostgresServer {
    fn fill(&mut self, entities: Entities, size: u32, setting: Setting) -> anyhow::Result<()> {
        self.drop_all()?;
        let create = format!("CREATE SCHEMA {SCHEMA}; CREATE TABLE {TABLE} {COLUMNS}");
        self.client.batch_execute(&create)?;
        let all = (0..size).map(move |number| entities.entity(number));
        let pieces = ahead(copy_pieces(all, encode::ROW_BYTES, encode::row));
        let copy = format!("COPY {TABLE} ({LOADED}) FROM STDIN (FORMAT binary)");
        let what = format!("{}: load", self.name);
        copy_at_once(&mut self.client, &copy, pieces, size.into(), &what)?;
        for columns in setting.indexes() {
            let create = format!("CREATE INDEX ON {TABLE} ({})", columns.join(", "));
            self.client.batch_execute(&create)?;
        }
        storage::tidy(self, TABLE)
    }

    fn sizes(&mut self) -> anyhow::Result<Sizes> {
        let [data, indexes] = storage::table_sizes(self, TABLE)?;
        Ok(Sizes { data, indexes })
    }

    fn client(&self) -> anyhow::Result<Box<dyn EntityClient>> {
        Ok(Box::new(PostgresClient::prepare(self.another_client()?)?))
    }

    fn count(&mut self, counted: Counted) -> anyhow::Result<u64> {
        let condition = match counted {
            Counted::All => String::new(),
            Counted::Modified => format!("WHERE mod_date > {CREATED_S}"),
        };
        self.count_rows(TABLE, &condition)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_schema(SCHEMA)
    }
}

/// Prepared statements, each its own commit.
struct PostgresClient {
    client: Client,
    find: Statement,
    insert: Statement,
    update: Statement,
}

impl PostgresClient {
    fn prepare(mut client: Client) -> anyhow::Result<Self> {
        client.batch_execute("SET synchronous_commit = off")?;
        let find = client.prepare(&format!("SELECT {LOADED} FROM {TABLE} WHERE {CONDITION}"))?;
        let insert = client.prepare(&format!(
            "INSERT INTO {TABLE} ({LOADED}) VALUES ($1, $2, $3, $4::text::jsonb, $5, $6)"
        ))?;
        let update = client.prepare(&format!(
            "UPDATE {TABLE} SET mod_date = $5, attrs = jsonb_set(jsonb_set(attrs, \
             '{{{UPDATED_ATTRIBUTE},value}}', to_jsonb($4::text)), '{{{UPDATED_ATTRIBUTE},modDate}}', to_jsonb($5::integer)) \
             WHERE {CONDITION}"
        ))?;
        Ok(Self {
            client,
            find,
            insert,
            update,
        })
    }
}

impl EntityClient for PostgresClient {
    fn find(&mut self, key: &Key) -> anyhow::Result<Option<i32>> {
        let rows = self
            .client
            .query(&self.find, &[&key.id, &key.kind, &key.service_path])?;
        ensure!(rows.len() <= 1, "more than one entity has {key:?}");
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        ensure!(
            row.get::<_, &str>(0) == key.id
                && row.get::<_, &str>(1) == key.kind
                && row.get::<_, &str>(2) == key.service_path,
            "asked for {key:?}, the server returned another entity"
        );
        Ok(Some(row.get(5)))
    }

    fn insert(&mut self, entity: &Entity) -> anyhow::Result<()> {
        let Key {
            id,
            kind,
            service_path,
        } = &entity.key;
        let attributes = encode::attributes_json(entity);
        let (created, modified) = (&entity.created_s, &entity.modified_s);
        let inserted = self.client.execute(
            &self.insert,
            &[id, kind, service_path, &attributes, created, modified],
        )?;
        ensure!(inserted == 1, "{inserted} entities were inserted");
        Ok(())
    }

    fn update(&mut self, key: &Key, value: &str, modified_s: i32) -> anyhow::Result<()> {
        let updated = self.client.execute(
            &self.update,
            &[&key.id, &key.kind, &key.service_path, &value, &modified_s],
        )?;
        ensure!(updated == 1, "{updated} entities were updated");
        Ok(())
    }
}
