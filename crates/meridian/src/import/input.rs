//! The input: a file or standard input.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::Context;

use super::outcome::Outcome;

/// Enough that reading is not noticed.
const BUFFER_BYTES: usize = 1 << 20;

/// A reader of the file, or of standard input.
///
/// # Errors
/// When the file cannot be opened.
pub fn open(path: Option<&Path>, outcome: &Outcome) -> anyhow::Result<BufReader<Box<dyn Read>>> {
    let (reader, bytes): (Box<dyn Read>, Option<u64>) = match path {
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            let metadata = file.metadata()?;
            let bytes = metadata.is_file().then_some(metadata.len());
            (Box::new(file), bytes)
        }
        None => (Box::new(std::io::stdin()), None),
    };
    outcome.set_input_bytes(bytes);
    Ok(BufReader::with_capacity(BUFFER_BYTES, reader))
}
