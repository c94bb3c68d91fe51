//! All samples as JSON.

use std::path::Path;

use anyhow::Context;

use super::Report;

/// Writes the report, samples and all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    let mut value = serde_json::to_value(report)?;
    value["losses"] = report.losses().into();
    let text = serde_json::to_string_pretty(&value)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
