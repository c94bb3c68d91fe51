//! `meridian check DIR`: verifies a data directory at rest.

use super::encryption::KeyArguments;
use anyhow::{Context as _, bail};
use clap::Args;
use meridian_engine::{MasterKey, ValidationReport};
use std::path::{Path, PathBuf};

/// Flags of `meridian check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The data directory; no server may be using it
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

/// Verifies, prints what was found, and fails if anything is wrong.
pub fn run(arguments: &CheckArguments) -> anyhow::Result<()> {
    verify(&arguments.data, arguments.key.master_key()?)
}

/// The same for a directory.
pub fn verify(data: &Path, key: Option<MasterKey>) -> anyhow::Result<()> {
    let report = meridian_engine::check_directory(data, key, &mut print)
        .map_err(|error| anyhow::anyhow!("{}", error.message))
        .with_context(|| format!("cannot check {}", data.display()))?;
    match report.error_count() {
        0 => {
            println!("{} collections, no errors", report.collections.len());
            Ok(())
        }
        errors => bail!("{} has {errors} errors", data.display()),
    }
}

fn print(collection: &ValidationReport) {
    println!(
        "{}: {} documents, {} bytes, {} errors",
        collection.namespace, collection.documents, collection.bytes, collection.error_count
    );
    for index in &collection.indexes {
        let not_built = match collection.unbuilt.contains(&index.name) {
            true => " (not built)",
            false => "",
        };
        println!("  index {}: {} entries{not_built}", index.name, index.keys);
    }
    if collection.invalid_documents > 0 {
        println!(
            "  {} documents do not pass the validator",
            collection.invalid_documents
        );
    }
    for error in &collection.errors {
        println!("  error: {error}");
    }
}
