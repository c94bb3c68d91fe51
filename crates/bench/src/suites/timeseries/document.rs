//! The suite on a server that speaks MongoDB's protocol.

use bson::{Document, doc, rawdoc};

use super::generator::{DOCUMENT_BYTES, Readings};
use super::layout::Layout;
use super::questions::READINGS;
use super::{DATABASE, TimeseriesTarget};
use crate::load::{self, Load, ahead, insert_messages, unwatched};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::document::DocumentServer;

impl TimeseriesTarget for DocumentServer {
    fn create(&mut self, layout: Layout, _: &Readings) -> anyhow::Result<()> {
        let mut create = doc! { "create": READINGS };
        if layout == Layout::TimeSeries {
            // MongoDB's manual: the unit that is nearest to the time between two readings of a sensor.
            let series =
                doc! { "timeField": "at", "metaField": "sensor", "granularity": "minutes" };
            create.insert("timeseries", series);
        }
        self.command(DATABASE, create)?;
        self.command(
            DATABASE,
            doc! { "createIndexes": READINGS, "indexes": indexes(layout) },
        )?;
        Ok(())
    }

    fn load(&mut self, readings: &Readings) -> anyhow::Result<Load> {
        let body = rawdoc! { "insert": READINGS, "ordered": false, "$db": DATABASE };
        let total = readings.total();
        let made = readings.clone();
        let encode = move |number: &u32, out: &mut Vec<u8>| made.document(*number, out);
        let batches = insert_messages(0..total, body, DOCUMENT_BYTES, encode);
        load::insert(self, ahead(batches), total.into(), "load", unwatched)
    }

    fn settle(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_collection(self, DATABASE, READINGS, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

/// By sensor and time, and by place; a plain collection can have place and time in one index.
fn indexes(layout: Layout) -> [Document; 2] {
    let by_sensor = doc! { "key": { "sensor.id": 1, "at": -1 }, "name": "sensor_at" };
    let mut by_place = doc! { "sensor.location": "2dsphere" };
    if layout == Layout::Plain {
        by_place.insert("at", 1);
    }
    [by_sensor, doc! { "key": by_place, "name": "location" }]
}
