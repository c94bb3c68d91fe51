//! The trips of a run: generated, or from the city's records.

use std::path::{Path, PathBuf};

use super::generator::{Generator, MEDALLION_ASKED, medallion_name};
use super::period::{Month, Period};
use super::records::Records;
use super::trip::{FieldCounts, KnownField, Name, Trip};

/// Where trips come from.
pub enum Trips {
    /// The generator.
    Generated(Generator),
    /// Files.
    Recorded(Records),
}

/// Trips, one after the other.
pub type EachTrip = Box<dyn Iterator<Item = Trip> + Send>;

impl Trips {
    /// `total` trips of 2013 from `seed`.
    pub fn generated(total: u32, seed: u64) -> Self {
        Self::Generated(Generator::new(total, seed))
    }

    /// The trips of files; see [`Records::open`].
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn recorded(
        paths: &[PathBuf],
        limit: Option<u32>,
        seed: u64,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        Records::open(paths, limit, seed, directory).map(Self::Recorded)
    }

    /// How many.
    pub fn total(&self) -> u32 {
        match self {
            Self::Generated(generator) => generator.total,
            Self::Recorded(records) => records.total(),
        }
    }

    /// What the questions are about.
    ///
    /// # Errors
    /// None, where there are trips.
    pub fn period(&self) -> anyhow::Result<Period> {
        let of_2013 = |month| Month { year: 2013, month };
        match self {
            Self::Generated(_) => Period::new(of_2013(1), of_2013(12), of_2013(2)),
            Self::Recorded(records) => records.period(),
        }
    }

    /// The medallion that one question is about.
    pub fn medallion_asked(&self) -> Name {
        let of_the_files = match self {
            Self::Generated(_) => None,
            Self::Recorded(records) => records.medallion_asked(),
        };
        of_the_files.unwrap_or_else(|| medallion_name(MEDALLION_ASKED))
    }

    /// The fields that trips have.
    pub fn known_fields(&self) -> Vec<KnownField> {
        match self {
            Self::Generated(generator) => {
                let mut counts = FieldCounts::default();
                counts.add(&generator.trip(0));
                counts.known(1)
            }
            Self::Recorded(records) => records.known_fields(),
        }
    }

    /// All of them: generated ones in time order, recorded ones as they lie in the files. They end
    /// early where a file cannot be read, which [`Self::check_read`] tells.
    pub fn in_order(&self) -> EachTrip {
        match self {
            Self::Generated(generator) => Box::new(generator.in_time_order()),
            Self::Recorded(records) => Box::new(records.in_order()),
        }
    }

    /// All of them shuffled, the same way every time; as [`Self::in_order`] otherwise.
    ///
    /// # Errors
    /// When a file fails.
    pub fn shuffled(&self) -> anyhow::Result<EachTrip> {
        Ok(match self {
            Self::Generated(generator) => Box::new(generator.shuffled()),
            Self::Recorded(records) => Box::new(records.shuffled()?),
        })
    }

    /// The pick-up times and medallions of all, without the rest where that is less work.
    pub fn keys(&self) -> Box<dyn Iterator<Item = (i64, Name)> + '_> {
        match self {
            Self::Generated(generator) => Box::new((0..generator.total).map(|number| {
                let (pickup_ms, medallion) = generator.keys(number);
                (pickup_ms, medallion_name(medallion))
            })),
            Self::Recorded(records) => {
                let key = |trip: Trip| (trip.pickup_ms, trip.medallion);
                Box::new(records.in_order().map(key))
            }
        }
    }

    /// Fails when trips ended early since they could not be read.
    ///
    /// # Errors
    /// Why they could not.
    pub fn check_read(&self) -> anyhow::Result<()> {
        match self {
            Self::Generated(_) => Ok(()),
            Self::Recorded(records) => records.check_read(),
        }
    }

    /// What a reader of the report must know of them.
    ///
    /// # Errors
    /// None, where there are trips.
    pub fn remarks(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Generated(_) => Ok(Vec::new()),
            Self::Recorded(records) => records.remarks(),
        }
    }
}
