//! The evaluation on a server that speaks MongoDB's protocol.

use bson::{Document, doc, rawdoc};

use super::ask::Access;
use super::index::Indexing;
use super::requests::{Equality, Wanted};
use super::{Plan, RestaurantsTarget, encode};
use crate::load::{self, Load, ahead, insert_messages};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::document::{DocumentServer, server_words};

/// The database.
pub const DATABASE: &str = "meridian_bench_restaurants";
/// The collection.
pub const COLLECTION: &str = "restaurants";
const FILTERED: [&str; 4] = ["Cuisine", "Rating", "Pricing", "Outside_area"];

impl RestaurantsTarget for DocumentServer {
    fn load(&mut self, plan: &Plan) -> anyhow::Result<Load> {
        self.command(DATABASE, doc! { "create": COLLECTION })?;
        let body = rawdoc! { "insert": COLLECTION, "ordered": true, "$db": DATABASE };
        let batches = insert_messages(plan.generate(), body, encode::DOCUMENT_BYTES, encode::bson);
        load::insert(
            self,
            ahead(batches),
            plan.total.into(),
            "load",
            load::unwatched,
        )
    }

    fn build_indexes(&mut self, indexing: Indexing) -> anyhow::Result<Result<(), String>> {
        let create = doc! { "createIndexes": COLLECTION, "indexes": indexes(indexing) };
        match self.command(DATABASE, create) {
            Ok(_) => Ok(Ok(())),
            Err(error) if indexing == Indexing::Clustering => Ok(Err(server_words(&error))),
            Err(error) => Err(error),
        }
    }

    fn access(&self, indexing: Indexing) -> anyhow::Result<Access> {
        Ok(Access::Documents {
            address: self.address.clone(),
            hints: indexing == Indexing::PerFilter,
        })
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_collection(self, DATABASE, COLLECTION, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

fn indexes(indexing: Indexing) -> Vec<Document> {
    let on_location = |further: &[&str], name: &str| {
        let mut key = doc! { "location": "2dsphere" };
        key.extend(further.iter().map(|field| ((*field).to_owned(), 1.into())));
        doc! { "key": key, "name": name }
    };
    let plain = || on_location(&[], "location");
    match indexing {
        Indexing::Plain => vec![plain()],
        Indexing::Clustering => {
            let mut index = plain();
            index.insert("clustering", true);
            vec![index]
        }
        Indexing::Compound => vec![on_location(&FILTERED, "location")],
        Indexing::PerFilter => {
            let filtered = FILTERED.iter().map(|field| on_location(&[field], field));
            std::iter::once(plain()).chain(filtered).collect()
        }
    }
}

/// The index of [`Indexing::PerFilter`] that answers.
pub fn index_for(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Nearest | Wanted::NextPage => "location",
        Wanted::Filtered(Equality::Cuisine(_)) => FILTERED[0],
        Wanted::Filtered(Equality::Rating(_)) => FILTERED[1],
        Wanted::Filtered(Equality::Pricing(_)) => FILTERED[2],
        Wanted::Filtered(Equality::OutsideArea(_)) => FILTERED[3],
    }
}
