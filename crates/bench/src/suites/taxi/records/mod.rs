//! The city's published trip records instead of generated trips.
//!
//! In: Parquet files of yellow and green taxis, of any year (`record` lists
//! the columns). Out: the same trips every time, batch by batch, in the order of
//! the files or shuffled (`shuffle`); neither holds them in memory. What the
//! files have is taken as it is, and what they lack is left out. Only the
//! medallions, which one question is about, are drawn by the seed where the
//! files have none.
//!
//! All files are read once at the start, so that what is wrong with them shows
//! before a server is started.

mod column;
mod file;
mod record;
mod shuffle;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::file::RecordFile;
use super::TRIPS_MAX;
use super::period::{Month, Period};
use super::trip::{FieldCounts, KnownField, Name, Trip};
use crate::progress;
use crate::report::grouped;

/// Which of the seed's streams choose trips, draw what they lack, and shuffle.
const CHOICE: u64 = 0;
const DRAWS: u64 = 1;
const SHUFFLE: u64 = 2;

/// The trips of some files.
pub struct Records {
    files: Vec<Arc<RecordFile>>,
    rows: u64,
    chosen: u64,
    seed: u64,
    directory: PathBuf,
    survey: Survey,
    failure: Failure,
}

impl Records {
    /// The trips of these files, at most `limit` of them, chosen by the seed. Temporary files go
    /// to `directory`.
    ///
    /// # Errors
    /// Which file cannot be read, which column is missing, or which row is wrong.
    pub fn open(
        paths: &[PathBuf],
        limit: Option<u32>,
        seed: u64,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let files = paths
            .iter()
            .map(|path| RecordFile::open(path).map(Arc::new));
        let files: Vec<_> = files.collect::<anyhow::Result<_>>()?;
        let [first, ..] = files.as_slice() else {
            anyhow::bail!("no file was given");
        };
        for file in &files {
            ensure!(
                file.has_medallions() == first.has_medallions(),
                "of {} and {} only one has medallions: they are not trips of the same taxis",
                first.path().display(),
                file.path().display()
            );
        }
        let rows: u64 = files.iter().map(|file| file.rows()).sum();
        let chosen = limit.map_or(rows, |limit| rows.min(limit.into()));
        ensure!(
            chosen <= TRIPS_MAX.into(),
            "the files have {} rows, and at most {} can be loaded: give --trips",
            grouped(rows as f64, 0),
            grouped(f64::from(TRIPS_MAX), 0)
        );
        let mut records = Self {
            files,
            rows,
            chosen,
            seed,
            directory: directory.to_owned(),
            survey: Survey::default(),
            failure: Failure::default(),
        };
        records.survey = Survey::of(records.read(), chosen)?;
        ensure!(records.survey.trips > 0, "the files have no trips");
        Ok(records)
    }

    /// How many trips there are.
    pub fn total(&self) -> u32 {
        self.survey.trips
    }

    /// What the questions are about.
    ///
    /// # Errors
    /// None, as there are trips.
    pub fn period(&self) -> anyhow::Result<Period> {
        Period::of(&self.survey.months)
    }

    /// The medallion of the first trip, when the files have them.
    pub fn medallion_asked(&self) -> Option<Name> {
        let of_the_files = self.files[0].has_medallions();
        self.survey.first_medallion.filter(|_| of_the_files)
    }

    /// The fields that trips have.
    pub fn known_fields(&self) -> Vec<KnownField> {
        self.survey.fields.known(self.survey.trips)
    }

    /// All trips in the order of the files; they end early where reading fails, which
    /// [`Self::check_read`] tells.
    pub fn in_order(&self) -> impl Iterator<Item = Trip> + Send + 'static {
        self.failure.until(self.read()).flatten()
    }

    /// All trips shuffled, the same way every time; as [`Self::in_order`] otherwise.
    ///
    /// # Errors
    /// When the files or a temporary one fail.
    pub fn shuffled(&self) -> anyhow::Result<impl Iterator<Item = Trip> + Send + 'static> {
        let spinner = progress::spinner("shuffling the trips");
        let shuffled = shuffle::shuffled(
            self.in_order(),
            self.total(),
            shuffle::BUCKET_TRIPS,
            stream(self.seed, SHUFFLE),
            &self.directory,
        )?;
        spinner.finish_and_clear();
        self.check_read()?;
        Ok(self.failure.until(shuffled))
    }

    /// Fails when trips ended early since they could not be read.
    ///
    /// # Errors
    /// Why they could not.
    pub fn check_read(&self) -> anyhow::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// What a reader of the report must know of these trips.
    ///
    /// # Errors
    /// None, as there are trips.
    pub fn remarks(&self) -> anyhow::Result<Vec<String>> {
        let names: Vec<String> = self.files.iter().map(|file| file.name()).collect();
        let number = |count: u64| grouped(count as f64, 0);
        let mut remarks = vec![format!(
            "trips are the city's records in {}, in their order there; times are the city's local ones, as they are written there",
            names.join(", ")
        )];
        if self.chosen < self.rows {
            remarks.push(format!(
                "{} of the {} trips in the files were chosen by the seed",
                number(self.chosen),
                number(self.rows)
            ));
        }
        if self.medallion_asked().is_none() {
            remarks.push(
                "medallions are not in the files: they were drawn by the seed, with the heavy tail of the generated trips"
                    .to_owned(),
            );
        }
        let unknown = self.survey.fields.unknown();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            remarks.push(format!("not in the files, and left out: {unknown}"));
        }
        if self.survey.timeless > 0 {
            remarks.push(format!(
                "left out: {} trips whose pick-up or drop-off time is missing",
                number(self.survey.timeless)
            ));
        }
        let month = self.period()?.month_asked;
        if !month.is_february() {
            remarks.push(format!(
                "no February is in the files: {} {} stands in for it, about which nothing was published",
                month.name(),
                month.year
            ));
        }
        Ok(remarks)
    }

    /// Every chosen trip; `None` for one without its times.
    fn read(&self) -> impl Iterator<Item = anyhow::Result<Option<Trip>>> + Send + 'static {
        let mut choice = Choice {
            rows_left: self.rows,
            wanted: self.chosen,
            random: stream(self.seed, CHOICE),
        };
        let mut random = stream(self.seed, DRAWS);
        self.files
            .clone()
            .into_iter()
            .flat_map(RecordFile::records)
            .filter(move |record| record.is_err() || choice.takes_next())
            .map(move |record| Ok(record?.trip(&mut random)))
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

/// Chooses so many of so many rows, each set of them with the same probability (Knuth's
/// algorithm S).
struct Choice {
    rows_left: u64,
    wanted: u64,
    random: ChaCha8Rng,
}

impl Choice {
    fn takes_next(&mut self) -> bool {
        let takes = self.wanted == self.rows_left
            || self.random.random_range(0..self.rows_left) < self.wanted;
        self.rows_left -= 1;
        self.wanted -= u64::from(takes);
        takes
    }
}

/// What is learnt by reading all trips once.
#[derive(Default)]
struct Survey {
    trips: u32,
    /// Rows without a pick-up or drop-off time.
    timeless: u64,
    months: BTreeMap<Month, u64>,
    fields: FieldCounts,
    first_medallion: Option<Name>,
}

impl Survey {
    fn of(
        trips: impl Iterator<Item = anyhow::Result<Option<Trip>>>,
        rows: u64,
    ) -> anyhow::Result<Self> {
        let bar = progress::bar(rows, "reading the trip records");
        let mut survey = Self::default();
        for trip in bar.wrap_iter(trips) {
            match trip? {
                Some(trip) => survey.add(&trip)?,
                None => survey.timeless += 1,
            }
        }
        bar.finish_and_clear();
        Ok(survey)
    }

    fn add(&mut self, trip: &Trip) -> anyhow::Result<()> {
        let month = Month::of(trip.pickup_ms).context("a time beyond the calendar")?;
        *self.months.entry(month).or_default() += 1;
        self.trips += 1;
        self.fields.add(trip);
        self.first_medallion.get_or_insert(trip.medallion);
        Ok(())
    }
}

/// Why reading ended early, told by whoever reads, perhaps on another thread.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<anyhow::Error>>>);

impl Failure {
    /// The same items until one fails.
    fn until<T>(
        &self,
        items: impl Iterator<Item = anyhow::Result<T>> + Send + 'static,
    ) -> impl Iterator<Item = T> + Send + 'static {
        let failure = self.clone();
        items.map_while(move |item| item.map_err(|error| failure.set(error)).ok())
    }

    fn set(&self, error: anyhow::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take(&self) -> Option<anyhow::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
