//! One worker's connection: questions encoded before they are sent, replies not decoded while measured.

use std::time::Duration;

use anyhow::Context;
use bson::RawDocument;
use serde::{Deserialize, Serialize};

use super::encode::{boolean, ewkb, geojson, place_of_ewkb};
use super::place::{EARTH_RADIUS_M, Place};
use super::requests::{Equality, PAGE, Request, Wanted};
use super::restaurant::{CUISINES, PRICINGS};
use super::{document, postgres};
use crate::client::{Client, check_ok, write_command};
use crate::encode::{double, int32, string};
use crate::postgres_client::{PlainAddress, PostgresClient};

/// A request that takes longer has failed. Hundreds of workers that connect at once to a server of a process each
/// take more than ten seconds on a small machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(120);
/// PostGIS's sphere: the mean of WGS 84's half axes.
const POSTGIS_RADIUS_M: f64 = 6_371_008.771_415_059;

/// How a server is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Access {
    /// By MongoDB's protocol.
    Documents {
        /// `host:port`.
        address: String,
        /// Whether each question names its index.
        hints: bool,
    },
    /// By PostgreSQL's.
    Postgres(PlainAddress),
}

impl Access {
    /// A new connection, ready to ask.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses a statement.
    pub fn connect(&self) -> anyhow::Result<Box<dyn Asker>> {
        Ok(match self {
            Self::Documents { address, hints } => {
                let client = Client::connect(address)?;
                client.set_timeout(TIMEOUT)?;
                Box::new(DocumentAsker {
                    client,
                    message: Vec::new(),
                    hints: *hints,
                })
            }
            Self::Postgres(address) => {
                let mut client = PostgresClient::connect(address, TIMEOUT)?;
                for setting in postgres::SETTINGS {
                    client.prepare("", setting)?;
                    client.encode_execute("", &[]);
                    client.exchange()?;
                }
                for (name, statement) in postgres::statements() {
                    client.prepare(name, &statement)?;
                }
                Box::new(PostgresAsker { client })
            }
        })
    }
}

/// Asks questions.
pub trait Asker: Send {
    /// Makes the message of a question.
    fn encode(&mut self, request: &Request);

    /// Sends the message made last and waits until the reply is whole.
    ///
    /// # Errors
    /// When the server refuses, is gone, or takes too long.
    fn exchange(&mut self) -> anyhow::Result<()>;

    /// Asks and reads the places of what was found, in order.
    ///
    /// # Errors
    /// As [`Asker::exchange`], and when the reply is not as it should be.
    fn ask(&mut self, request: &Request) -> anyhow::Result<Vec<Place>>;
}

struct DocumentAsker {
    client: Client,
    message: Vec<u8>,
    hints: bool,
}

impl DocumentAsker {
    fn reply(&mut self) -> anyhow::Result<&RawDocument> {
        let reply = self.client.call(&self.message)?;
        check_ok(reply)?;
        Ok(reply)
    }
}

impl Asker for DocumentAsker {
    fn encode(&mut self, request: &Request) {
        let hints = self.hints;
        write_command(&mut self.message, |out| {
            crate::encode::document(out, |out| find(request, hints, out));
        });
    }

    fn exchange(&mut self) -> anyhow::Result<()> {
        self.reply().map(|_| ())
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<Vec<Place>> {
        self.encode(request);
        let cursor = self.reply()?.get_document("cursor")?;
        let mut places = Vec::with_capacity(PAGE);
        for found in cursor.get_array("firstBatch")? {
            let found = found?.as_document().context("a batch holds documents")?;
            let coordinates = found.get_document("location")?.get_array("coordinates")?;
            places.push(Place {
                longitude: coordinates.get_f64(0)?,
                latitude: coordinates.get_f64(1)?,
            });
        }
        Ok(places)
    }
}

/// Appends the elements of a `find`.
fn find(request: &Request, hints: bool, out: &mut Vec<u8>) {
    string(b"\x02find\0", document::COLLECTION, out);
    out.extend_from_slice(b"\x03filter\0");
    crate::encode::document(out, |out| {
        out.extend_from_slice(b"\x03location\0");
        crate::encode::document(out, |out| near(request, out));
        if let Wanted::Filtered(equality) = request.wanted {
            equals(equality, out);
        }
    });
    int32(b"\x10limit\0", PAGE as i32, out);
    if request.wanted == Wanted::NextPage {
        int32(b"\x10skip\0", PAGE as i32, out);
    }
    if hints {
        string(b"\x02hint\0", document::index_for(request.wanted), out);
    }
    string(b"\x02$db\0", document::DATABASE, out);
}

fn near(request: &Request, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x03$nearSphere\0");
    crate::encode::document(out, |out| {
        out.extend_from_slice(b"\x03$geometry\0");
        geojson(request.centre, out);
        double(b"\x01$maxDistance\0", request.radius_m, out);
    });
}

fn equals(equality: Equality, out: &mut Vec<u8>) {
    match equality {
        Equality::Cuisine(cuisine) => string(b"\x02Cuisine\0", CUISINES[usize::from(cuisine)], out),
        Equality::Rating(rating) => int32(b"\x10Rating\0", rating.into(), out),
        Equality::Pricing(pricing) => string(b"\x02Pricing\0", PRICINGS[usize::from(pricing)], out),
        Equality::OutsideArea(outside) => boolean(b"\x08Outside_area\0", outside, out),
    }
}

struct PostgresAsker {
    client: PostgresClient,
}

impl Asker for PostgresAsker {
    fn encode(&mut self, request: &Request) {
        let centre = ewkb(request.centre);
        // The same angle on the smaller sphere.
        let radius_m = (request.radius_m * POSTGIS_RADIUS_M / EARTH_RADIUS_M).to_be_bytes();
        let name = postgres::statement_for(request.wanted);
        let client = &mut self.client;
        match request.wanted {
            Wanted::Nearest | Wanted::NextPage => {
                client.encode_execute(name, &[&centre, &radius_m])
            }
            Wanted::Filtered(Equality::Cuisine(cuisine)) => {
                let cuisine = CUISINES[usize::from(cuisine)].as_bytes();
                client.encode_execute(name, &[&centre, &radius_m, cuisine]);
            }
            Wanted::Filtered(Equality::Rating(rating)) => {
                client.encode_execute(
                    name,
                    &[&centre, &radius_m, &i32::from(rating).to_be_bytes()],
                );
            }
            Wanted::Filtered(Equality::Pricing(pricing)) => {
                let pricing = PRICINGS[usize::from(pricing)].as_bytes();
                client.encode_execute(name, &[&centre, &radius_m, pricing]);
            }
            Wanted::Filtered(Equality::OutsideArea(outside)) => {
                client.encode_execute(name, &[&centre, &radius_m, &[outside.into()]]);
            }
        }
    }

    fn exchange(&mut self) -> anyhow::Result<()> {
        self.client.exchange()
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<Vec<Place>> {
        self.encode(request);
        self.exchange()?;
        let rows = self.client.rows()?;
        let place = |row: &Vec<&[u8]>| place_of_ewkb(row.last()?);
        rows.iter()
            .map(|row| place(row).context("a row ends with a point"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::{Requests, Split};
    use super::*;

    #[test]
    fn questions_are_valid_bson() {
        let mut requests = Requests::new(1, 1, Split([1, 2, 2]));
        for _ in 0..100 {
            let request = requests.draw();
            let mut bytes = Vec::new();
            crate::encode::document(&mut bytes, |out| find(&request, true, out));
            let raw = RawDocument::from_bytes(&bytes).expect("a document");
            let find = bson::Document::try_from(raw).expect("valid");
            let filter = find.get_document("filter").expect("a filter");
            assert_eq!(filter.len(), if request.wanted.kind() == 1 { 2 } else { 1 });
            assert_eq!(
                find.get_i32("skip").is_ok(),
                request.wanted == Wanted::NextPage
            );
            let near = filter
                .get_document("location")
                .and_then(|of| of.get_document("$nearSphere"));
            assert_eq!(
                near.expect("near").get_f64("$maxDistance").ok(),
                Some(request.radius_m)
            );
        }
    }
}
