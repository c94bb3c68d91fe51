//! Fills the cache's free room, so that not every block's first reader waits for it to be read and
//! decompressed.
//!
//! As long as there is much room, flushes and merges put what they write into the cache. Other files have
//! blocks that no cache holds: after a restart, a load, or from when there was no room. They are read while
//! writes rest, indexes first, then documents, one after the other, each once, at low priority, until the
//! cache is nearly full or writes begin again.
//!
//! In: once a second, how full the cache is, whether writes rest, and whether files are still being made.
//! Out: whether flushes and merges fill the cache, and when files are to be read; then, from the database,
//! all that are new.

use super::families::{ColumnFamily, Database, Families};
use crate::storage::Family;
use rocksdb::{LiveFile, ReadOptions};
use std::collections::HashSet;

/// The cache is filled up to so many percent; the rest is for what is asked for.
pub(super) const FILLED_PERCENT: usize = 75;
/// Below so many percent, flushes and merges fill it again.
const ROOMY_PERCENT: usize = 50;
/// Files are taken as they are once none was made for so many seconds.
const CALM_SECONDS: u32 = 2;
/// Bytes that are read from a file at once.
const READAHEAD_BYTES: usize = 1 << 20;
/// Entries between two looks whether to stop.
const STEPS_BETWEEN_LOOKS: usize = 64;

/// Whether flushes and merges fill the cache, where they did and it is so full.
pub(super) fn fills(did: bool, percent: usize) -> bool {
    percent < if did { FILLED_PERCENT } else { ROOMY_PERCENT }
}

/// What is known of the files.
#[derive(Debug, Default)]
pub(super) struct Warming {
    /// Those that have been read.
    read: HashSet<String>,
    /// Whether files have been made since.
    is_due: bool,
    calm_seconds: u32,
}

impl Warming {
    /// To be told once a second: whether writes rest, and whether files are being made. True when it is
    /// time to read those that are new.
    pub(super) fn second(&mut self, is_idle: bool, grows: bool) -> bool {
        if !is_idle || grows {
            self.is_due = true;
            self.calm_seconds = 0;
            return false;
        }
        self.calm_seconds = (self.calm_seconds + 1).min(CALM_SECONDS);
        self.calm_seconds == CALM_SECONDS && std::mem::take(&mut self.is_due)
    }

    /// Reads the files that have not been read, of indexes first, as long as it may; how many.
    pub(super) fn read_new(
        &mut self,
        database: &Database,
        families: &Families,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<usize, rocksdb::Error> {
        let mut files = database.live_files()?;
        let unread = self.unread(files.iter().map(|file| file.name.clone()));
        files.retain(|file| unread.contains(&file.name));
        let family = |file: &LiveFile| families.by_name(&file.column_family_name);
        files.sort_by_key(|file| family(file).map(|one| one.family != Family::Indexes));
        let mut count = 0;
        for file in files {
            let Some(family) = family(&file) else {
                continue;
            };
            if !read_through(database, family, &file, may_go_on) {
                break;
            }
            self.read.insert(file.name);
            count += 1;
        }
        Ok(count)
    }

    /// Those of the present files that have not been read; the others are forgotten.
    fn unread(&mut self, present: impl Iterator<Item = String>) -> HashSet<String> {
        let present: HashSet<String> = present.collect();
        self.read.retain(|name| present.contains(name));
        present.difference(&self.read).cloned().collect()
    }
}

/// Reads a file from end to end, so that its blocks come into the cache; false when that was stopped.
fn read_through(
    database: &Database,
    family: &ColumnFamily,
    file: &LiveFile,
    may_go_on: &dyn Fn() -> bool,
) -> bool {
    let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else {
        return true;
    };
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(first.as_slice());
    options.set_iterate_upper_bound([last, &[0][..]].concat());
    options.set_readahead_size(READAHEAD_BYTES);
    let mut iterator = database.raw_iterator_cf_opt(&family.handle, options);
    iterator.seek_to_first();
    for step in 0_usize.. {
        if step.is_multiple_of(STEPS_BETWEEN_LOOKS) && !may_go_on() {
            return false;
        }
        // What cannot be read is reported to whoever asks for it.
        if !iterator.valid() {
            break;
        }
        iterator.next();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_filled_again_when_there_is_much_room() {
        let percents = [0, 60, 74, 75, 60, 50, 49, 60];
        let steps = percents.iter().scan(true, |did, percent| {
            *did = fills(*did, *percent);
            Some(*did)
        });
        let expected = [true, true, true, false, false, false, true, true];
        assert_eq!(steps.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn new_files_are_read_once_when_all_is_calm() {
        let mut warming = Warming::default();
        let seconds = [
            (false, false),
            (true, true),
            (true, true),
            (true, false),
            (true, false),
            (true, false),
            (true, true),
            (true, false),
            (true, false),
            (true, false),
        ];
        let due: Vec<bool> = seconds
            .into_iter()
            .map(|(is_idle, grows)| warming.second(is_idle, grows))
            .collect();
        let at: Vec<usize> = (0..due.len()).filter(|at| due[*at]).collect();
        assert_eq!(at, [4, 8]);
    }

    #[test]
    fn each_file_is_read_once() {
        let mut warming = Warming::default();
        let names = |names: &[&str]| -> HashSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(
            warming.unread(names(&["a", "b"]).into_iter()),
            names(&["a", "b"])
        );
        warming.read.insert("a".into());
        assert_eq!(
            warming.unread(names(&["a", "b"]).into_iter()),
            names(&["b"])
        );
        // A file that is gone is forgotten.
        assert_eq!(warming.unread(names(&["b"]).into_iter()), names(&["b"]));
        assert_eq!(
            warming.unread(names(&["a", "b"]).into_iter()),
            names(&["a", "b"])
        );
    }
}
