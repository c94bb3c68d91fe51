//! Inserts into a time series: measurements go into buckets, each batch in one commit.
//!
//! Without a lock the documents are read. Under the write lock of the collection of buckets each measurement is given to
//! the open bucket of its series, or begins one; the changed buckets are written whole. Where that were much to write for
//! little, they wait in the delta store (`super::delta`).

use super::changes::{BATCH_BYTES_MAX, CollectionChanges};
use super::commit::Locked;
use super::delta::are_to_wait;
use super::insert::gone;
use super::prepare::{DOCUMENT_BYTES_MAX, check_insertable};
use super::{InsertOptions, InsertOutcome, WriteError, Writer};
use crate::catalog::{Collection, Index, OpenBuckets, WriteState};
use crate::error::{Code, Error, Result, corrupt_document};
use crate::exec::parallel;
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::Family;
use crate::timeseries::{Measurement, MeasurementBucket, MeasurementReader, Timeseries};
use ahash::{AHashMap, AHashSet};
use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use meridian_value::{Collation, DocumentBuilder};
use std::borrow::Cow;
use std::sync::Arc;

/// Measurements up to this size fit into a bucket with all that it needs besides: at most six times as much, for fields of
/// one letter without a value.
const SAFE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A stored bucket up to this size takes further measurements, however few they are, ...
const REWRITTEN_BYTES_MIN: usize = 6 * 1024;
/// ... and a larger one if it is at most so many times as large as what it gets.
const REWRITTEN_SHARE_MAX: usize = 2;

/// So many measurements are worth a second core.
const ROWS_FOR_TWO_CORES: usize = 128;

/// A commit that has read so many bytes of open buckets reads no more of them, and begins others: rows of a delta store
/// become buckets in one commit, however large the buckets of their series are.
const OPEN_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A measurement, and where its document stands in the request.
pub(super) struct PlacedMeasurement<'d> {
    pub measurement: Measurement<'d>,
    pub position: usize,
}

/// A bucket that a batch changes.
struct ChangedBucket<'t> {
    bucket: MeasurementBucket<'t>,
    before: Option<RawDocumentBuf>,
    /// Where its new measurements stand in the request.
    positions: Vec<usize>,
    bytes: usize,
    /// It takes no more: its series goes on in another.
    is_closed: bool,
}

/// What is to be stored of a bucket, and what was.
struct StoredBucket {
    id: ObjectId,
    before: Option<RawDocumentBuf>,
    after: RawDocumentBuf,
    /// Where its new measurements stand in the request.
    positions: Vec<usize>,
}

/// What comes of measurements before it is known which buckets are refused.
struct FilledPart<'m> {
    seen: usize,
    open: Vec<(&'m [u8], ObjectId)>,
    buckets: Vec<StoredBucket>,
}

/// The buckets that a batch changes.
struct ChangedBuckets<'t, 'm> {
    buckets: Vec<ChangedBucket<'t>>,
    /// The one that is open for a series.
    open: AHashMap<&'m [u8], usize>,
}

/// What comes of the measurements of a batch.
pub(super) struct Filled<'m> {
    /// How many there were.
    seen: usize,
    /// The open bucket of each series.
    pub open: Vec<(&'m [u8], ObjectId)>,
    pub refused: Vec<RefusedBucket>,
}

/// A bucket that cannot be stored, and where the measurements stand that were added to it.
pub(super) struct RefusedBucket {
    pub error: Error,
    positions: Vec<usize>,
}

impl Writer {
    /// Inserts documents into a time series with this collection of buckets.
    ///
    /// # Errors
    /// Storage failures; `NamespaceNotFound` where it is dropped meanwhile. What is wrong with single documents is in the
    /// outcome.
    pub fn insert_measurements(
        &self,
        buckets: &Namespace,
        documents: &[&RawDocument],
        options: &InsertOptions,
    ) -> Result<InsertOutcome> {
        let (mut outcome, mut errors) = (InsertOutcome::default(), Vec::new());
        let collection = self.catalog.get(buckets).ok_or_else(|| gone(buckets))?;
        let timeseries = collection.options.timeseries.as_ref();
        let timeseries = timeseries.ok_or_else(|| gone(buckets))?;
        let mut measured = measure(timeseries, documents, options.ordered, &mut errors);
        if are_to_wait(&measured) {
            let seen = self.insert_into_delta(buckets, &measured)?;
            outcome.inserted += seen;
            measured.drain(..seen);
        }
        if !options.ordered || refuses_nothing(&collection, timeseries, &measured) {
            by_series(&mut measured);
        }
        let mut attempt = measured.len();
        while !measured.is_empty() {
            operation::check()?;
            let count = attempt.clamp(1, measured.len());
            let (seen, refused) = self.insert_batch_measured(buckets, &measured[..count])?;
            outcome.inserted += seen;
            measured.drain(..seen);
            attempt = match refused.is_empty() {
                true => measured.len(),
                false => leave_out(&mut measured, refused, options.ordered, &mut errors),
            };
        }
        errors.sort_by_key(|error| error.index);
        errors.into_iter().for_each(|error| outcome.fail(error));
        Ok(outcome)
    }

    /// Inserts as many of the first measurements as a commit holds; returns how many are stored, none where buckets are
    /// refused, and those.
    fn insert_batch_measured(
        &self,
        buckets: &Namespace,
        measured: &[PlacedMeasurement<'_>],
    ) -> Result<(usize, Vec<RefusedBucket>)> {
        loop {
            let collection = self.catalog.get(buckets).ok_or_else(|| gone(buckets))?;
            let timeseries = collection.options.timeseries.clone();
            let timeseries = timeseries.ok_or_else(|| gone(buckets))?;
            self.wait_for_room(&collection)?;
            let mut writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                continue;
            }
            self.flush_rows_locked(&collection, &mut writing)?;
            let mut changes = CollectionChanges::new(&collection);
            let filled = self.fill_buckets(
                &timeseries,
                measured,
                &mut writing,
                &mut changes,
                BATCH_BYTES_MAX,
            )?;
            if !filled.refused.is_empty() {
                return Ok((0, filled.refused));
            }
            changes.sort();
            let changes = &changes;
            self.commit(&mut [Locked {
                changes,
                writing: &mut writing,
            }])?;
            for (series, id) in filled.open {
                writing.open_buckets.set(series, id);
            }
            return Ok((filled.seen, Vec::new()));
        }
    }

    /// Inserts the first measurements into the delta store; how many. Those that a bucket may refuse are left, and those of
    /// series without a bucket: these come in the order in which they are inserted, so that readers find them in it.
    ///
    /// # Errors
    /// Storage failures.
    fn insert_into_delta(
        &self,
        buckets: &Namespace,
        measured: &[PlacedMeasurement<'_>],
    ) -> Result<usize> {
        let mut seen = 0;
        while seen < measured.len() {
            operation::check()?;
            let collection = self.catalog.get(buckets).ok_or_else(|| gone(buckets))?;
            let left = &measured[seen..];
            let timeseries = collection.options.timeseries.as_ref();
            let Some((timeseries, delta)) = timeseries.zip(collection.delta) else {
                break;
            };
            if !refuses_only_metadata(&collection, timeseries, left) {
                break;
            }
            self.wait_for_room(&collection)?;
            let mut writing = collection.state.lock();
            if self.is_current(&collection, &writing) {
                let open = &writing.open_buckets;
                let is_accepted =
                    |one: &PlacedMeasurement<'_>| open.is_accepted(one.measurement.series());
                if !left.iter().all(is_accepted) {
                    break;
                }
                seen += self.append_rows(&collection, delta, left, &mut writing)?;
                self.flush_fullest(&collection, &mut writing);
            }
        }
        Ok(seen)
    }

    /// Gives the measurements to buckets, as many as a commit of so many bytes holds, and makes the changes of these. Those of
    /// a series follow one another, or all stand in the order of the request.
    pub(super) fn fill_buckets<'m>(
        &self,
        timeseries: &Timeseries,
        measured: &'m [PlacedMeasurement<'_>],
        writing: &mut WriteState,
        changes: &mut CollectionChanges<'_>,
        bytes_max: usize,
    ) -> Result<Filled<'m>> {
        let collection = changes.collection().clone();
        let open = &writing.open_buckets;
        let fill = |part: &'m [PlacedMeasurement<'_>], share: usize| {
            let limits = (bytes_max, OPEN_BYTES_MAX / share);
            self.fill_part(timeseries, &collection, open, part, limits)
        };
        let middle = middle_between_series(measured).filter(|_| bytes_max == usize::MAX);
        let parts = match middle {
            None => vec![fill(measured, 1)?],
            Some(middle) => {
                let (low, high) = measured.split_at(middle);
                let (low, high) = parallel::join(|| fill(low, 2), || fill(high, 2));
                vec![low?, high?]
            }
        };
        let mut filled = Filled {
            seen: 0,
            open: Vec::new(),
            refused: Vec::new(),
        };
        for part in parts {
            filled.seen += part.seen;
            filled.open.extend(part.open);
            for bucket in part.buckets {
                let positions = bucket.positions.clone();
                if let Err(error) = bucket.add_to(changes) {
                    filled.refused.push(RefusedBucket { error, positions });
                }
            }
        }
        Ok(filled)
    }

    /// The same without the changes: what is stored of the buckets.
    fn fill_part<'m>(
        &self,
        timeseries: &Timeseries,
        collection: &Collection,
        open: &OpenBuckets,
        measured: &'m [PlacedMeasurement<'_>],
        (bytes_max, open_bytes_max): (usize, usize),
    ) -> Result<FilledPart<'m>> {
        let mut changed = ChangedBuckets {
            buckets: Vec::new(),
            open: AHashMap::new(),
        };
        let mut bytes = 0;
        let mut seen = 0;
        for number in 0..measured.len() {
            if seen > 0 && bytes > bytes_max {
                break;
            }
            let open = (bytes <= open_bytes_max).then_some(open);
            bytes += self.place(
                timeseries,
                collection,
                open,
                &measured[number..],
                &mut changed,
            )?;
            seen += 1;
        }
        let ids = changed.open.iter();
        let ids = ids.map(|(series, number)| (*series, changed.buckets[*number].bucket.id()));
        let open = ids.collect();
        let buckets = changed.buckets.into_iter();
        let buckets = buckets.filter_map(|one| one.stored(timeseries).transpose());
        Ok(FilledPart {
            seen,
            open,
            buckets: buckets.collect::<Result<_>>()?,
        })
    }

    /// Gives the first measurement to a bucket, an open one where these are told; returns the bytes that this adds to the
    /// commit.
    fn place<'t, 'm>(
        &self,
        timeseries: &'t Timeseries,
        collection: &Collection,
        open: Option<&OpenBuckets>,
        measured: &'m [PlacedMeasurement<'_>],
        changed: &mut ChangedBuckets<'t, 'm>,
    ) -> Result<usize> {
        let one = &measured[0];
        let (measurement, series) = (&one.measurement, one.measurement.series());
        let mut bytes = measurement.size_bytes();
        let mut number = changed.open.get(series).copied();
        if number.is_none()
            && let Some(id) = open.and_then(|open| open.get(series))
            && let Some(found) = self.open_bucket(timeseries, collection, id)?
            && found.bucket.is_of(measurement)
        {
            bytes += 2 * found.bytes;
            number = Some(changed.buckets.len());
            changed.buckets.push(found);
        }
        let takes = number.filter(|number| {
            let own = &mut changed.buckets[*number];
            let is_worth_it =
                !own.positions.is_empty() || is_worth_writing_anew(own.bytes, measured);
            own.is_closed = !(is_worth_it && own.bucket.takes(measurement));
            !own.is_closed
        });
        let number = match takes {
            Some(number) => number,
            None => {
                let bucket = self.new_bucket(timeseries, collection, measurement)?;
                changed.buckets.push(ChangedBucket {
                    bucket,
                    before: None,
                    positions: Vec::new(),
                    bytes: 0,
                    is_closed: false,
                });
                changed.buckets.len() - 1
            }
        };
        changed.open.insert(series, number);
        let own = &mut changed.buckets[number];
        own.bucket.push(measurement);
        own.positions.push(one.position);
        Ok(bytes)
    }

    fn open_bucket<'t>(
        &self,
        timeseries: &'t Timeseries,
        collection: &Collection,
        id: ObjectId,
    ) -> Result<Option<ChangedBucket<'t>>> {
        let key = collection.documents.key(&encoded_id(id)?);
        let stored = self.store.get(Family::Documents, &key, <[u8]>::to_vec)?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let stored = RawDocumentBuf::from_bytes(stored).map_err(corrupt_document)?;
        let bucket = MeasurementBucket::decode(timeseries, &stored)?;
        Ok(bucket.map(|bucket| ChangedBucket {
            bucket,
            bytes: stored.as_bytes().len(),
            before: Some(stored),
            positions: Vec::new(),
            is_closed: false,
        }))
    }

    /// A bucket whose `_id` no other has.
    fn new_bucket<'t>(
        &self,
        timeseries: &'t Timeseries,
        collection: &Collection,
        first: &Measurement<'_>,
    ) -> Result<MeasurementBucket<'t>> {
        let mut bucket = MeasurementBucket::new(timeseries, first);
        loop {
            let key = collection.documents.key(&encoded_id(bucket.id())?);
            if self.store.get(Family::Documents, &key, |_| ())?.is_none() {
                return Ok(bucket);
            }
            bucket.rename();
        }
    }
}

/// Reads the documents; those that are refused are among the errors. In order, nothing behind the first error is read.
fn measure<'d>(
    timeseries: &Timeseries,
    documents: &[&'d RawDocument],
    ordered: bool,
    errors: &mut Vec<WriteError>,
) -> Vec<PlacedMeasurement<'d>> {
    let mut reader = MeasurementReader::new(timeseries);
    let mut measured = Vec::with_capacity(documents.len());
    for (position, document) in documents.iter().enumerate() {
        let measurement = check_insertable(document).and_then(|()| reader.read(document));
        match measurement {
            Ok(measurement) => measured.push(PlacedMeasurement {
                measurement,
                position,
            }),
            Err(error) => {
                errors.push(WriteError {
                    index: position,
                    error,
                });
                if ordered {
                    break;
                }
            }
        }
    }
    measured
}

/// Puts the measurements of a series together, so that its bucket is written once for all of them.
pub(super) fn by_series(measured: &mut Vec<PlacedMeasurement<'_>>) {
    let mut places: AHashMap<Box<[u8]>, usize> = AHashMap::new();
    let mut placed: Vec<(usize, PlacedMeasurement<'_>)> = Vec::with_capacity(measured.len());
    for one in measured.drain(..) {
        let (series, next) = (one.measurement.series(), places.len());
        let place = places.get(series).copied().unwrap_or(next);
        if place == next {
            places.insert(series.into(), next);
        }
        placed.push((place, one));
    }
    // Within a series the order stays.
    placed.sort_by_key(|(place, _)| *place);
    measured.extend(placed.into_iter().map(|(_, one)| one));
}

/// Whether no measurement can be refused once its bucket is made, so that the order of the request does not matter: there
/// is no index that refuses values, and all are far from too large.
fn refuses_nothing(
    collection: &Collection,
    timeseries: &Timeseries,
    measured: &[PlacedMeasurement<'_>],
) -> bool {
    let takes_all = |index: &Arc<Index>| takes_all(index, timeseries);
    collection.indexes.iter().all(takes_all) && are_far_from_too_large(measured)
}

/// Whether a measurement is refused for its metadata or not at all, so that those of a series with a bucket are taken.
fn refuses_only_metadata(
    collection: &Collection,
    timeseries: &Timeseries,
    measured: &[PlacedMeasurement<'_>],
) -> bool {
    let is_of_metadata = |path: &str| path == "meta" || path.starts_with("meta.");
    let takes_series = |index: &Arc<Index>| {
        let mut paths = index.spec.key.iter().map(|(path, _)| path.as_str());
        paths.all(|path| is_of_metadata(path) || is_of_time(path, timeseries))
            || takes_all(index, timeseries)
    };
    collection.indexes.iter().all(takes_series) && are_far_from_too_large(measured)
}

fn takes_all(index: &Index, timeseries: &Timeseries) -> bool {
    let key = &index.spec.key;
    let others = key.iter().filter(|(path, _)| !is_of_time(path, timeseries));
    // Two arrays in one key are refused; a time is none.
    others.count() <= 1 && key.iter().all(|(_, field)| field.is_by_value())
}

/// Whether a path of buckets is that of their earliest or latest time.
fn is_of_time(path: &str, timeseries: &Timeseries) -> bool {
    let of_ends = ["control.min.", "control.max."].map(|end| path.strip_prefix(end));
    of_ends.contains(&Some(timeseries.time_field.as_str()))
}

fn are_far_from_too_large(measured: &[PlacedMeasurement<'_>]) -> bool {
    let mut sizes = measured.iter().map(|one| one.measurement.size_bytes());
    sizes.all(|bytes| bytes <= SAFE_BYTES_MAX)
}

/// Takes the measurements of refused buckets out. In order, the first of them alone is refused, and all behind it are left
/// out: where it shares its bucket, fewer measurements are to be tried. Returns how many are to be tried next.
fn leave_out(
    measured: &mut Vec<PlacedMeasurement<'_>>,
    refused: Vec<RefusedBucket>,
    ordered: bool,
    errors: &mut Vec<WriteError>,
) -> usize {
    if ordered {
        let first = refused.into_iter().min_by_key(|bucket| bucket.positions[0]);
        let Some(RefusedBucket { error, positions }) = first else {
            return measured.len();
        };
        let middle = positions[positions.len() / 2];
        if positions.len() > 1 {
            let before = measured.iter().take_while(|one| one.position < middle);
            return before.count();
        }
        measured.retain(|one| one.position < middle);
        errors.retain(|other| other.index < middle);
        errors.push(WriteError {
            index: middle,
            error,
        });
        return measured.len();
    }
    let mut out = AHashSet::new();
    for bucket in refused {
        for index in bucket.positions {
            out.insert(index);
            let error = bucket.error.clone();
            errors.push(WriteError { index, error });
        }
    }
    measured.retain(|one| !out.contains(&one.position));
    measured.len()
}

/// Whether a bucket of so many bytes is written anew for the first measurements, those of one series: a large one is not for
/// a few, so that the bytes that are written stay in proportion to those that are inserted.
fn is_worth_writing_anew(bytes: usize, measured: &[PlacedMeasurement<'_>]) -> bool {
    let series = measured[0].measurement.series();
    let own = measured
        .iter()
        .take_while(|one| one.measurement.series() == series);
    let added: usize = own.map(|one| one.measurement.size_bytes()).sum();
    bytes <= REWRITTEN_BYTES_MIN.max(REWRITTEN_SHARE_MAX * added)
}

impl ChangedBucket<'_> {
    /// As it is stored: compressed where it takes no more and becomes smaller. None where it got nothing and stays as it was.
    fn stored(self, timeseries: &Timeseries) -> Result<Option<StoredBucket>> {
        let id = self.bucket.id();
        let after = match (self.positions.is_empty(), &self.before) {
            (false, _) => {
                let after = self.bucket.encode();
                let compressed = self.is_closed.then(|| timeseries.compressed(&after));
                let compressed = compressed.transpose()?.flatten();
                Some(compressed.unwrap_or(after))
            }
            (true, Some(before)) if self.is_closed => timeseries.compressed(before)?,
            (true, _) => None,
        };
        Ok(after.map(|after| StoredBucket {
            id,
            before: self.before,
            after,
            positions: self.positions,
        }))
    }
}

impl StoredBucket {
    fn add_to(self, changes: &mut CollectionChanges<'_>) -> Result<()> {
        let bytes = self.after.as_bytes().len();
        if bytes > DOCUMENT_BYTES_MAX {
            return Err(Error::new(
                Code::BSONObjectTooLarge,
                format!(
                    "a bucket would take {bytes} bytes, and {DOCUMENT_BYTES_MAX} is the most: it holds each \
                     measurement, and the least and the greatest value of each field, which are as large again in a \
                     bucket of one"
                ),
            ));
        }
        let id = encoded_id(self.id)?;
        let changed = match self.before {
            Some(before) => changes.replace(&id, Cow::Owned(before), self.after, true),
            None => changes.insert(Cow::Owned(self.after), true),
        };
        changed.map_err(|error| match error.code {
            Code::CannotIndexParallelArrays if indexes_measurements(changes.collection()) => {
                let message = format!(
                    "Indexed measurement field contains an array value: {}",
                    error.message
                );
                Error::location(5_930_501, message)
            }
            _ => error,
        })
    }
}

/// Where measurements can be split in halves that share no series, which two cores give to buckets; none where that is not
/// worth it.
fn middle_between_series(measured: &[PlacedMeasurement<'_>]) -> Option<usize> {
    if measured.len() < ROWS_FOR_TWO_CORES {
        return None;
    }
    let series = |place: usize| measured[place].measurement.series();
    let mut places = measured.len() / 2..measured.len();
    let middle = places.find(|place| series(place - 1) != series(*place))?;
    let low: AHashSet<&[u8]> = (0..middle).map(series).collect();
    let is_apart = (middle..measured.len()).all(|place| !low.contains(series(place)));
    is_apart.then_some(middle)
}

/// Whether an index has a field of measurements, the time aside.
fn indexes_measurements(collection: &Collection) -> bool {
    let time = collection.options.timeseries.as_ref();
    let time = time.map(|timeseries| timeseries.time_field.as_str());
    let of_measurements = |path: &String| {
        let path = path.strip_prefix("control.min.");
        path.is_some_and(|path| Some(path) != time)
    };
    let mut keys = collection.indexes.iter().flat_map(|index| &index.spec.key);
    keys.any(|(path, _)| of_measurements(path))
}

/// The key of a bucket within its tree.
fn encoded_id(id: ObjectId) -> Result<Vec<u8>> {
    let mut document = DocumentBuilder::default();
    document.field(ElementType::ObjectId, b"_id", &id.bytes());
    let mut encoded = Vec::new();
    super::encode_id(&document.finish(), &Collation::SIMPLE, &mut encoded)?;
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeseries::Granularity;
    use bson::rawdoc;

    #[test]
    fn halves_share_no_series() {
        let series = Timeseries {
            time_field: "t".to_owned(),
            meta_field: Some("m".to_owned()),
            granularity: Granularity::Seconds,
        };
        let middle = |metas: &[i32]| {
            let at = bson::DateTime::from_millis(0);
            let documents = metas.iter().map(|meta| rawdoc! { "t": at, "m": *meta });
            let documents: Vec<RawDocumentBuf> = documents.collect();
            let mut reader = MeasurementReader::new(&series);
            let measured = documents.iter().enumerate();
            let measured = measured.map(|(position, document)| PlacedMeasurement {
                measurement: reader.read(document).unwrap(),
                position,
            });
            middle_between_series(&measured.collect::<Vec<_>>())
        };
        let sorted = |series: i32| (0..200).map(|row| row * series / 200).collect::<Vec<_>>();
        assert_eq!(middle(&sorted(2)), Some(100));
        assert_eq!(middle(&sorted(3)), Some(134));
        assert_eq!(middle(&sorted(1)), None);
        assert_eq!(middle(&sorted(2)[..ROWS_FOR_TWO_CORES - 1]), None);
        let in_turn: Vec<i32> = (0..200).map(|row| row % 2).collect();
        assert_eq!(middle(&in_turn), None);
    }
}
