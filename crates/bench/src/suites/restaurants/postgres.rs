//! The evaluation on PostgreSQL with PostGIS, as an expert there would do it.
//!
//! Places are `geography` points under GiST, which both bounds (`ST_DWithin`) and
//! orders (`<->`) by index. Distances are those on the sphere, as MongoDB's are; on the
//! spheroid they would cost more. Statements are prepared.

use super::ask::Access;
use super::index::Indexing;
use super::requests::{Equality, Wanted};
use super::{Plan, RestaurantsTarget, encode};
use crate::load::{self, Load, ahead, copy_pieces};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::postgres::PostgresServer;

const SCHEMA: &str = "meridian_bench_restaurants";
const TABLE: &str = "meridian_bench_restaurants.restaurants";
const COLUMNS: &str = "id int4 NOT NULL, name text NOT NULL, city text NOT NULL, cuisine text NOT NULL, \
     opened timestamptz NOT NULL, rating int4 NOT NULL, reviews int4 NOT NULL, pricing text NOT NULL, \
     outside_area bool NOT NULL, location geography(Point, 4326) NOT NULL";
/// What each connection sets.
pub const SETTINGS: [&str; 1] = ["SET plan_cache_mode = force_generic_plan"];

impl RestaurantsTarget for PostgresServer {
    fn load(&mut self, plan: &Plan) -> anyhow::Result<Load> {
        let create = format!("CREATE SCHEMA {SCHEMA}; CREATE TABLE {TABLE} ({COLUMNS})");
        self.client.batch_execute(&create)?;
        let pieces = copy_pieces(plan.generate(), encode::ROW_BYTES, encode::row);
        let statement = format!("COPY {TABLE} FROM STDIN (FORMAT binary)");
        let what = format!("{}: load", self.name);
        load::copy_at_once(
            &mut self.client,
            &statement,
            ahead(pieces),
            plan.total.into(),
            &what,
        )
    }

    fn build_indexes(&mut self, indexing: Indexing) -> anyhow::Result<Result<(), String>> {
        let columns = match indexing {
            Indexing::Plain => "location",
            Indexing::Compound => "location, cuisine, rating, pricing, outside_area",
            Indexing::Clustering | Indexing::PerFilter => {
                return Ok(Err("PostgreSQL has no such indexes".into()));
            }
        };
        self.client.batch_execute(&format!(
            "CREATE EXTENSION IF NOT EXISTS btree_gist; ALTER TABLE {TABLE} ADD PRIMARY KEY (id); \
             CREATE INDEX ON {TABLE} USING gist ({columns})"
        ))?;
        Ok(Ok(()))
    }

    fn access(&self, _: Indexing) -> anyhow::Result<Access> {
        Ok(Access::Postgres(self.plain_address()?))
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_table(self, TABLE, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_schema(SCHEMA)
    }
}

/// The statements to prepare, with their names. `$1` is the centre, `$2` the radius, `$3` what a field equals.
pub fn statements() -> Vec<(&'static str, String)> {
    let select = |condition: &str, page: &str| {
        format!(
            "SELECT * FROM {TABLE} WHERE ST_DWithin(location, $1::geography, $2::float8, false) {condition} \
             ORDER BY location <-> $1::geography {page}"
        )
    };
    let filtered = |condition: &str| select(&format!("AND {condition}"), "LIMIT 10");
    vec![
        ("nearest", select("", "LIMIT 10")),
        ("next_page", select("", "LIMIT 10 OFFSET 10")),
        ("cuisine", filtered("cuisine = $3::text")),
        ("rating", filtered("rating = $3::int4")),
        ("pricing", filtered("pricing = $3::text")),
        ("outside_area", filtered("outside_area = $3::bool")),
    ]
}

/// The name of the statement that answers.
pub fn statement_for(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Nearest => "nearest",
        Wanted::NextPage => "next_page",
        Wanted::Filtered(Equality::Cuisine(_)) => "cuisine",
        Wanted::Filtered(Equality::Rating(_)) => "rating",
        Wanted::Filtered(Equality::Pricing(_)) => "pricing",
        Wanted::Filtered(Equality::OutsideArea(_)) => "outside_area",
    }
}
