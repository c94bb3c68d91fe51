//! One Parquet file: its columns found, its rows read batch by batch.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::column::LocatedColumn;
use super::record::{COLUMNS, Column, MEDALLION, Record};

/// Rows read at once.
const BATCH_ROWS: usize = 1024;

/// A file whose columns have been found.
pub struct RecordFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    columns: Vec<LocatedColumn>,
}

impl RecordFile {
    /// Opens it and finds its columns.
    ///
    /// # Errors
    /// Why it cannot be read, or which column is missing or holds something else.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let file = File::open(path).with_context(named)?;
        let reader = SerializedFileReader::new(file)
            .with_context(|| format!("{}: not a Parquet file that can be read", named()))?;
        let columns = locate(&reader).with_context(named)?;
        Ok(Self {
            path: path.to_owned(),
            reader,
            columns,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name without the directory.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Rows in it.
    pub fn rows(&self) -> u64 {
        (0..self.reader.num_row_groups())
            .map(|group| self.rows_of_group(group) as u64)
            .sum()
    }

    /// Whether it says which taxi made a trip.
    pub fn has_medallions(&self) -> bool {
        let is_medallion = |column: &LocatedColumn| column.is(MEDALLION);
        self.columns.iter().any(is_medallion)
    }

    /// Its rows in order, up to one that cannot be read.
    pub fn records(self: Arc<Self>) -> Rows {
        Rows {
            file: self,
            next_group: 0,
            readers: Vec::new(),
            left_in_group: 0,
            row: 0,
            batch: Vec::new().into_iter(),
            failed: false,
        }
    }

    fn rows_of_group(&self, group: usize) -> usize {
        let rows = self.reader.metadata().row_group(group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    fn open_group(&self, group: usize) -> anyhow::Result<Vec<ColumnReader>> {
        let group = self.reader.get_row_group(group)?;
        let reader = |column: &LocatedColumn| Ok(group.get_column_reader(column.index)?);
        self.columns.iter().map(reader).collect()
    }
}

fn locate(reader: &SerializedFileReader<File>) -> anyhow::Result<Vec<LocatedColumn>> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let position = |name: &&str| {
        let is_it = |index: &usize| {
            let path = schema.column(*index);
            path.path().parts().len() == 1 && path.name().eq_ignore_ascii_case(name)
        };
        (0..schema.num_columns()).find(is_it)
    };
    let mut located = Vec::new();
    for column in &COLUMNS {
        match column.names.iter().find_map(position) {
            Some(index) => located.push(LocatedColumn::new(index, column, &schema.column(index))?),
            None => check_optional(column)?,
        }
    }
    Ok(located)
}

fn check_optional(column: &Column) -> anyhow::Result<()> {
    let name = column.names[0];
    ensure!(
        !column.required,
        "no column {name}: not trip records of yellow or green taxis"
    );
    Ok(())
}

/// The rows of a file.
pub struct Rows {
    file: Arc<RecordFile>,
    next_group: usize,
    /// One a located column, of the group that is being read.
    readers: Vec<ColumnReader>,
    left_in_group: usize,
    /// Rows read so far.
    row: u64,
    batch: std::vec::IntoIter<Record>,
    failed: bool,
}

impl Rows {
    /// Reads the next batch, which is left empty at the end.
    fn read_batch(&mut self) -> anyhow::Result<()> {
        while self.left_in_group == 0 {
            if self.next_group == self.file.reader.num_row_groups() {
                return Ok(());
            }
            self.left_in_group = self.file.rows_of_group(self.next_group);
            self.readers = self.file.open_group(self.next_group)?;
            self.next_group += 1;
        }
        let mut records = vec![Record::default(); self.left_in_group.min(BATCH_ROWS)];
        for (column, reader) in self.file.columns.iter().zip(&mut self.readers) {
            column
                .read(reader, self.row, &mut records)
                .with_context(|| format!("column {}", column.name))?;
        }
        if self.file.has_medallions() {
            self.check_medallions(&records)?;
        }
        self.left_in_group -= records.len();
        self.row += records.len() as u64;
        self.batch = records.into_iter();
        Ok(())
    }

    fn check_medallions(&self, records: &[Record]) -> anyhow::Result<()> {
        match (1..).zip(records).find(|(_, r)| r.medallion.is_none()) {
            Some((row, _)) => bail!("column {MEDALLION}: row {} has none", self.row + row),
            None => Ok(()),
        }
    }
}

impl Iterator for Rows {
    type Item = anyhow::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.len() == 0
            && !self.failed
            && let Err(error) = self.read_batch()
        {
            self.failed = true;
            return Some(Err(error.context(self.file.path.display().to_string())));
        }
        self.batch.next().map(Ok)
    }
}
