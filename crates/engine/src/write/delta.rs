//! The delta store of time series: inserts of few rows of many series each are appended to it as they are, and a
//! partition of it at a time is put into buckets, so that a bucket is written anew for many rows and not for each.
//!
//! Whoever reads a time series puts all rows into buckets before (`Engine::open_view`), and a version of the collection
//! changes only when no row waits: what the version took when the row came, it takes when its bucket is written.

use super::Writer;
use super::changes::CollectionChanges;
use super::commit::Locked;
use super::insert::gone;
use super::timeseries::{PlacedMeasurement, by_series};
use crate::catalog::{Collection, DELTA_PARTITIONS, DeltaStore, WriteState, delta_partition_range};
use crate::error::{Code, Error, Result, corrupt_document};
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::{Family, Order, TreeKey};
use crate::timeseries::{MeasurementReader, Timeseries};
use ahash::AHashSet;
use bson::raw::RawDocument;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A row of more than this many bytes, on average, does not wait: its bucket is not much larger than it is.
const ROW_BYTES_MAX: usize = 4 * 1024;
/// Nor do rows that are at least so many for each of their series.
const ROWS_PER_SERIES_MAX: usize = 16;
/// So many bytes are appended in a commit, about.
const COMMIT_BYTES: usize = 1024 * 1024;
/// Rows wait so long when no others come.
const IDLE: Duration = Duration::from_secs(1);

/// The chunks of a partition.
struct Chunks {
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

/// Whether it is cheaper that rows wait than to write their buckets now.
pub(super) fn are_to_wait(measured: &[PlacedMeasurement<'_>]) -> bool {
    let series: AHashSet<&[u8]> = measured
        .iter()
        .map(|one| one.measurement.series())
        .collect();
    let bytes = measured.iter().map(|one| one.measurement.size_bytes());
    let bytes: usize = bytes.sum();
    measured.len() < ROWS_PER_SERIES_MAX * series.len() && bytes <= ROW_BYTES_MAX * measured.len()
}

impl Writer {
    /// Appends rows that no bucket refuses to the delta store; how many of them, the first ones. The version of the
    /// collection is the current one, which its write lock keeps.
    ///
    /// # Errors
    /// Storage failures; nothing is appended then, unless the outcome is unknown.
    pub(super) fn append_rows(
        &self,
        collection: &Arc<Collection>,
        delta: TreeKey,
        measured: &[PlacedMeasurement<'_>],
        writing: &mut WriteState,
    ) -> Result<usize> {
        self.learn_delta(collection, writing)?;
        let Some(mut store) = writing.delta.take() else {
            return Err(gone(&collection.namespace));
        };
        let mut chunks: Vec<(usize, Vec<u8>)> = vec![(0, Vec::new()); DELTA_PARTITIONS];
        let (mut bytes, mut count) = (0, 0);
        for one in measured {
            if bytes > COMMIT_BYTES {
                break;
            }
            let (rows, chunk) = &mut chunks[store.partition_of(one.measurement.series())];
            *rows += 1;
            chunk.extend_from_slice(one.measurement.document().as_bytes());
            bytes += one.measurement.size_bytes();
            count += 1;
        }
        let mut batch = self.store.batch();
        for (partition, (rows, chunk)) in chunks.iter().enumerate() {
            if *rows > 0 {
                let key = store.next_chunk(delta, partition);
                batch.put(Family::Documents, &key, chunk);
            }
        }
        collection.state.set_has_delta_rows(true);
        // After a failure it is not known which of them are stored.
        self.store.write(batch)?;
        for (partition, (rows, chunk)) in chunks.iter().enumerate() {
            if *rows > 0 {
                store.note_appended(partition, *rows, chunk.len());
            }
        }
        writing.delta = Some(store);
        Ok(count)
    }

    /// Puts the fullest partition into buckets, if it is full. The rows are stored already: a failure is told, and tried
    /// again.
    pub(super) fn flush_fullest(&self, collection: &Arc<Collection>, writing: &mut WriteState) {
        let series = writing.open_buckets.series();
        let fullest = writing
            .delta
            .as_ref()
            .and_then(|store| store.fullest(series));
        if let Some(partition) = fullest
            && let Err(error) = self.flush_partition(collection, writing, partition)
        {
            tracing::warn!(namespace = %collection.namespace, %error, "rows of a time series could not be put into buckets yet");
        }
    }

    /// Puts all rows that wait into buckets, so that everything that was inserted before can be read.
    ///
    /// # Errors
    /// Storage failures; the rows wait on.
    pub fn flush_rows(&self, buckets: &Namespace) -> Result<()> {
        self.flush_rows_where(buckets, |_| true)
    }

    /// As [`Self::flush_rows`], where no row has come for a while.
    ///
    /// # Errors
    /// As [`Self::flush_rows`].
    pub fn flush_idle_rows(&self, buckets: &Namespace) -> Result<()> {
        let now = Instant::now();
        let is_idle = |store: &DeltaStore| now.saturating_duration_since(store.appended) >= IDLE;
        self.flush_rows_where(buckets, is_idle)
    }

    /// The lock is given back between partitions.
    fn flush_rows_where(
        &self,
        buckets: &Namespace,
        is_wanted: impl Fn(&DeltaStore) -> bool,
    ) -> Result<()> {
        let mut partitions = None;
        loop {
            operation::check()?;
            let Some(collection) = self.catalog.get(buckets) else {
                return Ok(());
            };
            if !collection.state.has_delta_rows() {
                return Ok(());
            }
            let mut writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                continue;
            }
            self.learn_delta(&collection, &mut writing)?;
            let Some(store) = writing.delta.as_ref().filter(|store| is_wanted(store)) else {
                return Ok(());
            };
            // Those that are filled again meanwhile do not concern who asked.
            let left = partitions.get_or_insert_with(|| store.waiting());
            match left.pop() {
                Some(partition) => self.flush_partition(&collection, &mut writing, partition)?,
                None => return Ok(()),
            }
        }
    }

    /// As [`Self::flush_rows`], for who holds the write lock and keeps it.
    ///
    /// # Errors
    /// As [`Self::flush_rows`].
    pub(super) fn flush_rows_locked(
        &self,
        collection: &Arc<Collection>,
        writing: &mut WriteState,
    ) -> Result<()> {
        if !collection.state.has_delta_rows() {
            return Ok(());
        }
        self.learn_delta(collection, writing)?;
        let waiting = writing.delta.as_ref().map(DeltaStore::waiting);
        for partition in waiting.into_iter().flatten() {
            self.flush_partition(collection, writing, partition)?;
        }
        Ok(())
    }

    /// Makes the delta store known: what waits in it since an earlier start is put into buckets.
    fn learn_delta(&self, collection: &Arc<Collection>, writing: &mut WriteState) -> Result<()> {
        if writing.delta.is_some() {
            return Ok(());
        }
        for partition in 0..DELTA_PARTITIONS {
            self.flush_partition(collection, writing, partition)?;
        }
        writing.delta = Some(DeltaStore::default());
        collection.state.set_has_delta_rows(false);
        Ok(())
    }

    /// Puts the rows of a partition into buckets, in one commit.
    fn flush_partition(
        &self,
        collection: &Arc<Collection>,
        writing: &mut WriteState,
        partition: usize,
    ) -> Result<()> {
        let (Some(delta), Some(timeseries)) = (collection.delta, &collection.options.timeseries)
        else {
            return Ok(());
        };
        let Chunks { keys, values } = self.chunks(delta, partition)?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut measured = rows_of(timeseries, &values)?;
        by_series(&mut measured);
        let mut changes = CollectionChanges::new(collection);
        changes.take_from_delta(keys);
        let filled = self.fill_buckets(timeseries, &measured, writing, &mut changes, usize::MAX)?;
        if let Some(refused) = filled.refused.into_iter().next() {
            return Err(refused.error);
        }
        changes.sort();
        let changes = &changes;
        let committed = self.commit(&mut [Locked { changes, writing }]);
        if let Err(error) = committed {
            // It may have been committed.
            writing.delta = None;
            return Err(error);
        }
        for (series, id) in filled.open {
            writing.open_buckets.set(series, id);
        }
        if let Some(store) = &mut writing.delta {
            store.note_flushed(partition);
            collection.state.set_has_delta_rows(store.has_rows());
        }
        Ok(())
    }

    fn chunks(&self, delta: TreeKey, partition: usize) -> Result<Chunks> {
        let (start, end) = delta_partition_range(delta, partition);
        let snapshot = self.store.snapshot();
        let mut scan = snapshot.scan(Family::Documents, &start, &end, Order::Forward);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while scan.advance()? {
            let (key, value) = scan.entry();
            keys.push(key.to_vec());
            values.push(value.to_vec());
        }
        Ok(Chunks { keys, values })
    }
}

/// The rows of chunks, in the order in which they came.
fn rows_of<'c>(
    timeseries: &Timeseries,
    chunks: &'c [Vec<u8>],
) -> Result<Vec<PlacedMeasurement<'c>>> {
    let (mut rows, mut reader) = (Vec::new(), MeasurementReader::new(timeseries));
    for chunk in chunks {
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            let length = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let own = length.and_then(|length| rest.split_at_checked(length as usize));
            let (own, behind) = own.ok_or_else(|| {
                Error::new(
                    Code::InternalError,
                    "rows of a time series that wait for their buckets are cut short",
                )
            })?;
            rest = behind;
            let document = RawDocument::from_bytes(own).map_err(corrupt_document)?;
            rows.push(PlacedMeasurement {
                measurement: reader.read(document)?,
                position: rows.len(),
            });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, CollectionOptions};
    use crate::index::IndexSpec;
    use crate::storage::{CommitFault, MemoryOptions, Store};
    use crate::timeseries::{UnpackBucket, buckets_of};
    use crate::write::InsertOptions;
    use bson::raw::RawDocumentBuf;
    use bson::{DateTime, rawdoc};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    const SERIES: i64 = 50;

    fn name() -> Namespace {
        Namespace::new("db", "readings").unwrap()
    }

    fn writer(store: &Store) -> Writer {
        let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
        Writer::new(store.clone(), catalog, 1 << 20)
    }

    fn create(store: &Store) -> Writer {
        let writer = writer(store);
        let options = rawdoc! { "timeseries": { "timeField": "at", "metaField": "m" } };
        let options = CollectionOptions::parse(&options).unwrap();
        let own = options
            .of_buckets(options.timeseries.as_ref().unwrap())
            .unwrap();
        writer
            .create_timeseries(&buckets_of(&name()), &name(), own)
            .unwrap();
        writer
    }

    fn reading(number: i64) -> RawDocumentBuf {
        let (series, at) = (number % SERIES, DateTime::from_millis(number * 1_000));
        rawdoc! { "at": at, "m": { "s": series }, "n": number, "v": [number, 1_i32] }
    }

    /// Inserts readings in one statement; whether that was acknowledged.
    fn insert(writer: &Writer, numbers: std::ops::Range<i64>) -> bool {
        let readings: Vec<_> = numbers.map(reading).collect();
        let readings: Vec<&RawDocument> = readings.iter().map(|one| &**one).collect();
        let buckets = buckets_of(&name());
        let inserted = writer.insert_measurements(&buckets, &readings, &InsertOptions::default());
        inserted.is_ok_and(|outcome| outcome.inserted == readings.len())
    }

    fn collection(writer: &Writer) -> Arc<Collection> {
        writer.catalog.get(&buckets_of(&name())).unwrap()
    }

    fn entries(writer: &Writer, tree: TreeKey) -> Vec<Vec<u8>> {
        let (start, end) = tree.range();
        let snapshot = writer.store.snapshot();
        let mut scan = snapshot.scan(Family::Documents, &start, &end, Order::Forward);
        let mut values = Vec::new();
        while scan.advance().unwrap() {
            values.push(scan.entry().1.to_vec());
        }
        values
    }

    /// The numbers of the readings in buckets, none of them twice; totals are those of the buckets.
    fn in_buckets(writer: &Writer) -> BTreeSet<i64> {
        let collection = collection(writer);
        let stage = UnpackBucket::of(collection.options.timeseries.as_ref().unwrap());
        let buckets = entries(writer, collection.documents);
        let mut numbers = BTreeSet::new();
        for bucket in &buckets {
            let bucket = RawDocument::from_bytes(bucket).unwrap();
            let unpacked = stage.apply(bucket, &mut |reading| {
                let number = reading.get_i64("n").unwrap();
                assert_eq!(
                    reading.get_document("m").unwrap().get_i64("s").unwrap(),
                    number % SERIES
                );
                assert!(numbers.insert(number), "{number} is there twice");
                Ok(ControlFlow::Continue(()))
            });
            assert!(unpacked.unwrap().is_continue());
        }
        let bytes: usize = buckets.iter().map(Vec::len).sum();
        let totals = (collection.state.documents(), collection.state.bytes());
        assert_eq!(totals, (buckets.len() as i64, bytes as i64));
        numbers
    }

    #[test]
    fn rows_wait_and_come_into_buckets_before_they_are_read() {
        let store = Store::in_memory();
        let own = create(&store);
        // A series' first row begins its bucket.
        assert!(insert(&own, 0..50));
        assert_eq!(in_buckets(&own).len(), 50);
        for batch in 1..8 {
            assert!(insert(&own, batch * 50..(batch + 1) * 50));
        }
        let delta = collection(&own).delta.unwrap();
        assert!(collection(&own).state.has_delta_rows());
        assert!(in_buckets(&own).len() < 400 && !entries(&own, delta).is_empty());
        own.flush_rows(&buckets_of(&name())).unwrap();
        assert_eq!(in_buckets(&own), (0..400).collect());
        assert!(entries(&own, delta).is_empty() && !collection(&own).state.has_delta_rows());
        // Many rows of few series do not wait.
        assert!(insert(&own, 400..2_000));
        assert_eq!(in_buckets(&own), (0..2_000).collect());
        // So much waits at most.
        for number in 2_000..40_000 {
            assert!(insert(&own, number..number + 1));
        }
        let waiting = 40_000 - in_buckets(&own).len();
        assert!((1..64 * 64).contains(&waiting), "{waiting} wait");
        // Nobody knows of what waits after a kill.
        let again = writer(&store);
        assert!(collection(&again).state.has_delta_rows());
        again.flush_rows(&buckets_of(&name())).unwrap();
        assert_eq!(in_buckets(&again), (0..40_000).collect());
        again.drop_collection(&buckets_of(&name())).unwrap();
        assert!(entries(&again, delta).is_empty());
    }

    /// So many at once that two cores give them to buckets: each series goes on in its own.
    #[test]
    fn many_rows_that_wait_come_into_the_buckets_of_their_series() {
        let own = create(&Store::in_memory());
        assert!(insert(&own, 0..SERIES));
        let mut next = SERIES;
        for batch in 0..60 {
            assert!(insert(&own, next..next + 14 * SERIES));
            next += 14 * SERIES;
            if batch % 20 == 19 {
                own.flush_rows(&buckets_of(&name())).unwrap();
                assert_eq!(in_buckets(&own), (0..next).collect());
            }
        }
        // A series has one bucket an hour: none was begun beside one that is open.
        let buckets = entries(&own, collection(&own).documents);
        let hours = next / 3_600 + 1;
        assert!(
            buckets.len() as i64 <= SERIES * (hours + 1),
            "{}",
            buckets.len()
        );
    }

    /// Rows that an index would refuse are in buckets before it is built: it is refused, and they stay.
    #[test]
    fn definitions_change_when_no_row_waits() {
        let own = create(&Store::in_memory());
        for batch in 0..4 {
            assert!(insert(&own, batch * 50..(batch + 1) * 50));
        }
        assert!(in_buckets(&own).len() < 200);
        let key = rawdoc! { "control.min.v": 1_i32, "control.max.v": 1_i32 };
        let spec = IndexSpec::parse(&rawdoc! { "key": key, "name": "v" }).unwrap();
        let buckets = buckets_of(&name());
        let built = own.build_indexes(&buckets, vec![spec], &mut |_| {});
        assert_eq!(built.unwrap_err().code, Code::CannotIndexParallelArrays);
        assert_eq!(in_buckets(&own), (0..200).collect());
        assert!(insert(&own, 200..250) && insert(&own, 250..300));
        own.flush_rows(&buckets).unwrap();
        assert_eq!(in_buckets(&own), (0..300).collect());
    }

    /// Whatever commits come to, what was acknowledged is there once, and nothing is that was not inserted.
    #[test]
    fn nothing_is_lost_or_doubled_when_commits_fail() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut choice = StdRng::seed_from_u64(seed);
        let options = MemoryOptions::default();
        let faults = options.faults.clone();
        let store = Store::in_memory_with(options);
        let mut own = create(&store);
        assert!(insert(&own, 0..50));
        let mut acknowledged: BTreeSet<i64> = (0..50).collect();
        let mut next = 50;
        for _ in 0..400 {
            faults.push(match choice.random_range(0..10) {
                0 => CommitFault::Failed,
                1 => CommitFault::UnknownCommitted,
                2 => CommitFault::UnknownLost,
                _ => CommitFault::None,
            });
            let numbers = next..next + choice.random_range(1..90);
            next = numbers.end;
            if insert(&own, numbers.clone()) {
                acknowledged.extend(numbers);
            }
            if choice.random_ratio(1, 10) {
                // It may fail: the rows wait on.
                _ = own.flush_rows(&buckets_of(&name()));
            }
            if choice.random_ratio(1, 40) {
                own = writer(&store);
            }
        }
        while own.flush_rows(&buckets_of(&name())).is_err() {}
        let there = in_buckets(&own);
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} are lost");
        assert!(there.last() < Some(&next));
        assert!(entries(&own, collection(&own).delta.unwrap()).is_empty());
    }
}
