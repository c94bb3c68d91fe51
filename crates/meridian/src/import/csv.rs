//! CSV and TSV: header, sample, then rows straight into BSON.

use std::io::Read;
use std::sync::Arc;

use anyhow::{Context, bail};
use csv::{ByteRecord, Reader, ReaderBuilder};

use super::ImportArgs;
use super::arguments::Format;
use super::columns::{Column, RowPlan, typed, untyped};
use super::infer::{SAMPLE_ROWS, infer};
use super::outcome::Outcome;
use super::statement::Writer;

/// Rows between two looks at the progress.
const PROGRESS_ROWS: u64 = 4096;

/// Converts all rows.
///
/// # Errors
/// When the header cannot be used, or reading or sending fails.
pub fn import(
    args: &ImportArgs,
    format: Format,
    input: impl Read,
    mut writer: Writer,
    outcome: &Arc<Outcome>,
) -> anyhow::Result<()> {
    let mut reader = reader(format, input);
    let mut columns = columns(args, &mut reader)?;
    let inferred = !args.columns_have_types;
    let mut sample = Vec::new();
    if inferred {
        sample = read_sample(&mut reader)?;
        infer(&mut columns, &sample);
    }
    let plan = RowPlan::new(&columns, inferred, args.ignore_blanks)?;
    for row in &sample {
        if outcome.is_stopped() {
            break;
        }
        writer.add(line(row), outcome, |out| plan.write(row, out))?;
    }
    drop(sample);
    let mut row = ByteRecord::new();
    let mut rows = 0;
    while !outcome.is_stopped() && reader.read_byte_record(&mut row)? {
        writer.add(line(&row), outcome, |out| plan.write(&row, out))?;
        rows += 1;
        if rows % PROGRESS_ROWS == 0 {
            outcome.read_to(reader.position().byte());
        }
    }
    writer.finish()
}

fn reader<R: Read>(format: Format, input: R) -> Reader<R> {
    let mut builder = ReaderBuilder::new();
    builder
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(1 << 20);
    if format == Format::Tsv {
        builder.delimiter(b'\t').quoting(false);
    }
    builder.from_reader(input)
}

fn line(row: &ByteRecord) -> u64 {
    row.position().map_or(0, csv::Position::line)
}

fn columns<R: Read>(args: &ImportArgs, reader: &mut Reader<R>) -> anyhow::Result<Vec<Column>> {
    let specifications: Vec<String> = match &args.fields {
        Some(fields) => fields.split(',').map(str::to_owned).collect(),
        None => {
            let mut header = ByteRecord::new();
            if !reader.read_byte_record(&mut header)? {
                bail!("the input is empty: there is no header line");
            }
            header
                .iter()
                .map(header_name)
                .collect::<anyhow::Result<_>>()?
        }
    };
    let specifications = specifications.iter().map(String::as_str);
    if args.columns_have_types {
        typed(specifications)
    } else {
        Ok(untyped(specifications))
    }
}

fn header_name(name: &[u8]) -> anyhow::Result<String> {
    // Spreadsheets put a byte order mark before the first name.
    let name = name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name);
    Ok(std::str::from_utf8(name)
        .context("a column's name is not UTF-8")?
        .to_owned())
}

fn read_sample<R: Read>(reader: &mut Reader<R>) -> anyhow::Result<Vec<ByteRecord>> {
    let mut sample = Vec::new();
    let mut row = ByteRecord::new();
    while sample.len() < SAMPLE_ROWS && reader.read_byte_record(&mut row)? {
        sample.push(row.clone());
    }
    Ok(sample)
}
