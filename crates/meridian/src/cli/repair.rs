//! `meridian repair DIR`: makes a damaged data directory one that can be served again.

use super::check;
use super::encryption::KeyArguments;
use anyhow::{Context as _, bail};
use clap::Args;
use std::path::PathBuf;

/// Flags of `meridian repair`.
#[derive(Debug, Args)]
pub struct RepairArguments {
    /// Give up what follows the first damaged byte of the write-ahead log: those writes are lost. The log as it
    /// was is kept in DIR/damaged-log
    #[arg(long)]
    truncate_log: bool,
    /// The data directory; no server may be using it. Copy it first
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

/// Repairs what was asked for, says what was lost, and verifies the directory.
pub fn run(arguments: &RepairArguments) -> anyhow::Result<()> {
    let data = arguments.data.display();
    if !arguments.truncate_log {
        bail!(
            "say what to repair: --truncate-log gives up what follows a damaged byte of the write-ahead log"
        );
    }
    let key = arguments.key.master_key()?;
    let lost = meridian_engine::truncate_log(&arguments.data, key.clone())
        .map_err(|error| anyhow::anyhow!("{}", error.message))
        .with_context(|| format!("cannot repair {data}"))?;
    if lost.is_empty() {
        println!("the write-ahead log of {data} is not damaged; nothing was changed");
        return Ok(());
    }
    for line in lost {
        println!("{line}");
    }
    check::verify(&arguments.data, key).context(
        "writes that were given up had partly reached the files; drop and create again the indexes named above",
    )
}
