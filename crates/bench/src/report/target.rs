//! What one target did: the column that all reports show.

use anyhow::ensure;
use serde::Serialize;

use crate::measure::{Measure, Series};
use crate::targets::ResourceUse;

/// What one target did.
#[derive(Debug, Serialize)]
pub struct TargetReport {
    /// How the column is called.
    pub name: String,
    /// What it is.
    pub version: String,
    /// How it was set.
    pub settings: Vec<(String, String)>,
    /// Which server of the command line it is: columns of one server are not compared.
    pub server: usize,
    /// What was measured.
    pub measures: Vec<Measure>,
    /// What was measured again and again as the run went on.
    pub series: Vec<Series>,
    /// How many answers were compared with the generator's and found equal.
    pub answers_checked: u32,
}

impl TargetReport {
    /// An empty column.
    pub fn new(name: &str, version: String, settings: Vec<(String, String)>) -> Self {
        Self {
            name: name.into(),
            version,
            settings,
            server: 0,
            measures: Vec::new(),
            series: Vec::new(),
            answers_checked: 0,
        }
    }

    /// Adds a row.
    pub fn add(&mut self, measure: Measure) {
        self.measures.push(measure);
    }

    /// The middle of a row's samples.
    pub fn median(&self, group: &str, name: &str) -> Option<f64> {
        let row = self
            .measures
            .iter()
            .find(|measure| measure.group == group && measure.name == name)?;
        row.spread().map(|spread| spread.median)
    }

    /// Checks an answer. A wrong one ends the run: its time would mean nothing.
    ///
    /// # Errors
    /// When the answer is wrong.
    pub fn answer(&mut self, what: &str, found: u64, expected: u64) -> anyhow::Result<()> {
        ensure!(
            found == expected,
            "{}: {what}: answered {found}, right is {expected}",
            self.name
        );
        self.answers_checked += 1;
        Ok(())
    }

    /// Adds what the data takes on disk.
    pub fn storage(&mut self, data_bytes: u64, index_bytes: u64, seen: Option<ResourceUse>) {
        self.add(Measure::megabytes("Storage", "data", data_bytes));
        self.add(Measure::megabytes("Storage", "indexes", index_bytes));
        self.add(Measure::megabytes(
            "Storage",
            "data + indexes",
            data_bytes + index_bytes,
        ));
        if let Some(seen) = seen {
            let directory = Measure::megabytes("Storage", "data directory (du)", seen.disk_bytes);
            self.add(directory.noted("with journal and free space in files"));
        }
    }

    /// Adds the most memory that the server ever had until a load's end.
    pub fn peak_during_load(&mut self, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            let name = "most memory until the load's end";
            self.add(Measure::megabytes("Storage", name, bytes));
        }
    }
}
