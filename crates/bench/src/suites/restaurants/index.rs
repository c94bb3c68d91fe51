//! Which indexes the restaurants have.

use clap::ValueEnum;

use crate::targets::TargetName;

/// A setting of indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Indexing {
    /// On the location, with the whole document in each entry (Meridian only)
    Clustering,
    /// On the location alone
    Plain,
    /// On the location and behind it the four fields that requests may name (PostGIS: one GiST with btree_gist)
    Compound,
    /// On the location alone, and one for each of the four fields behind it (not for PostGIS)
    PerFilter,
}

impl Indexing {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Clustering => "clustering",
            Self::Plain => "plain",
            Self::Compound => "compound",
            Self::PerFilter => "per filter",
        }
    }

    /// Those of a target, unless they are given. The first is what Meridian is for, so it comes first.
    pub fn of(target: &TargetName) -> &'static [Self] {
        match target {
            TargetName::Meridian | TargetName::MongodbUri(_) => {
                &[Self::Clustering, Self::Plain, Self::Compound]
            }
            TargetName::Mongod | TargetName::Postgres | TargetName::PostgresUri(_) => {
                &[Self::Plain, Self::Compound]
            }
        }
    }
}
