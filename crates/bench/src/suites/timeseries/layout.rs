//! How readings are laid out.

use clap::ValueEnum;

use crate::targets::TargetName;

/// A layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A time-series collection with the sensor as its metaField
    TimeSeries,
    /// A plain collection
    Plain,
    /// One PostgreSQL table with a BRIN index on the time
    Brin,
    /// A PostgreSQL table partitioned by the time
    Partitioned,
}

impl Layout {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeSeries => "time series",
            Self::Plain => "plain",
            Self::Brin => "BRIN",
            Self::Partitioned => "partitioned",
        }
    }

    /// Whether a server has such a layout.
    pub fn fits(self, target: &TargetName) -> bool {
        let is_postgres = matches!(target, TargetName::Postgres | TargetName::PostgresUri(_));
        match self {
            Self::TimeSeries | Self::Plain => !is_postgres,
            Self::Brin | Self::Partitioned => is_postgres,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_two_layouts() {
        for target in ["meridian", "mongod", "postgres", "postgres://localhost"] {
            let target: TargetName = target.parse().expect("a target");
            let layouts = Layout::value_variants().iter();
            assert_eq!(layouts.filter(|layout| layout.fits(&target)).count(), 2);
        }
    }
}
