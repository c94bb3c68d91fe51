//! One published version of a collection, and the state all its versions share.

use super::grow_only::GrowOnly;
use super::index_filters::IndexFilters;
use super::plan_cache::PlanCache;
use super::{
    Accesses, Arrivals, ChangeCapture, CollectionOptions, DeltaStore, OpenBuckets, UnbuiltIndex,
};
use crate::error::{Code, Error, Result};
use crate::index::{CollectionKeys, EntryLayout, IndexSpec, KeyGenerator, Multikey};
use crate::namespace::Namespace;
use crate::rank::{CollectionRanks, RangeCache};
use crate::storage::{Family, TreeKey};
use bson::raw::RawDocument;
use meridian_value::Collation;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A secondary index: what it is, how it makes keys, where its entries are.
#[derive(Clone)]
pub struct Index {
    /// What the user asked for.
    pub spec: IndexSpec,
    /// Makes entries from documents.
    pub keys: Arc<KeyGenerator>,
    /// Reads entries.
    pub layout: Arc<EntryLayout>,
    /// Where the entries are.
    pub tree: TreeKey,
    /// Whether all documents have their entries; until then only its build writes and reads it.
    pub ready: bool,
    /// Of one path of a wildcard index: where documents have arrays, at the path and on the way to it.
    pub arrays: Vec<String>,
    /// How often statements used it.
    pub accesses: Arc<Accesses>,
    /// Which fields gave, or once gave, some document more than one entry.
    multikey: Arc<GrowOnly>,
}

impl Index {
    /// Whether a field of its key pattern is this path.
    pub fn has_path(&self, path: &str) -> bool {
        self.spec.key.iter().any(|(own, _)| own == path)
    }

    /// An index that is being built.
    ///
    /// # Errors
    /// What the key generator refuses.
    pub fn new(spec: IndexSpec, tree: TreeKey) -> Result<Self> {
        let keys = Arc::new(KeyGenerator::new(&spec)?);
        let layout = Arc::new(EntryLayout::new(&spec));
        Ok(Self {
            spec,
            keys,
            layout,
            tree,
            ready: false,
            arrays: Vec::new(),
            accesses: Arc::default(),
            multikey: Arc::default(),
        })
    }

    /// The same index with another visibility or expiry; its uses are counted anew.
    #[must_use]
    pub fn with_spec(&self, spec: IndexSpec) -> Self {
        Self {
            spec,
            accesses: Arc::default(),
            ..self.clone()
        }
    }

    /// A wildcard index as one on a path: its entries are those `{$_path: 1, path: 1}` would have.
    ///
    /// # Errors
    /// Those of [`KeyGenerator::new`].
    pub fn at_path(&self, path: &str, arrays: Vec<String>) -> Result<Self> {
        let spec = self.spec.at_path(path);
        let mut multikey = Multikey::NONE;
        if !arrays.is_empty() {
            // The path is the first field, its value the second.
            multikey.set_field(1);
        }
        Ok(Self {
            layout: Arc::new(EntryLayout::new(&spec)),
            spec,
            multikey: Arc::new(GrowOnly::stored_as(multikey.bits())),
            arrays,
            ..self.clone()
        })
    }

    /// The same index, now with the entries of all documents.
    #[must_use]
    pub fn built(&self) -> Self {
        Self {
            ready: true,
            ..self.clone()
        }
    }

    /// Which fields may give a document more than one entry.
    pub fn multikey(&self) -> Multikey {
        Multikey::from_bits(self.multikey.get())
    }

    /// Adds what a document that is about to be committed shows.
    pub fn note_multikey(&self, met: Multikey) {
        self.multikey.add_bits(met.bits());
    }

    /// The same index, multikey as it was stored.
    #[must_use]
    pub(super) fn with_stored_multikey(self, multikey: Multikey) -> Self {
        Self {
            multikey: Arc::new(GrowOnly::stored_as(multikey.bits())),
            ..self
        }
    }
}

/// One published version of a collection.
#[derive(Clone)]
pub struct Collection {
    /// Its name.
    pub namespace: Namespace,
    /// Its identity, which renames keep.
    pub uuid: [u8; 16],
    /// Whether the server made it to fill it and then give it a name, as `$out` does: it is removed when
    /// the server starts again. Renaming ends that.
    pub temporary: bool,
    /// Where its documents are.
    pub documents: TreeKey,
    /// Of a collection of buckets: where rows wait for their buckets. None in those of earlier releases.
    pub delta: Option<TreeKey>,
    /// Validator and other options.
    pub options: Arc<CollectionOptions>,
    /// Its indexes, in the order of creation. That on `_id` is the first in a capped collection, and in others there is none.
    pub indexes: Vec<Arc<Index>>,
    /// Indexes that are listed and not built.
    pub unbuilt: Vec<UnbuiltIndex>,
    /// Makes the entries of all of them in one pass; set when a version is published.
    pub(super) keys: CollectionKeys,
    /// What all versions share.
    pub state: Arc<CollectionState>,
}

impl Collection {
    /// A new collection without documents.
    pub fn create(
        namespace: Namespace,
        documents: TreeKey,
        options: CollectionOptions,
        temporary: bool,
        range_cache: Arc<RangeCache>,
    ) -> Self {
        Self {
            namespace,
            uuid: random_uuid(),
            temporary,
            documents,
            delta: None,
            options: Arc::new(options),
            indexes: Vec::new(),
            unbuilt: Vec::new(),
            keys: CollectionKeys::default(),
            state: Arc::new(CollectionState::new(0, 0, 0, range_cache)),
        }
    }

    /// The version with its key generators compiled.
    pub(super) fn compiled(mut self) -> Self {
        let numbered = self.indexes.iter().enumerate();
        let ready = numbered.filter(|(_, index)| index.ready);
        self.keys =
            CollectionKeys::numbered(ready.map(|(number, index)| (number, index.keys.clone())));
        self
    }

    /// Makes the entries of all ready indexes in one pass; positions are those of `indexes`.
    pub fn keys(&self) -> &CollectionKeys {
        &self.keys
    }

    /// The index with this name.
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.spec.name == name)
    }

    /// By what the documents lie in the order of their `_id`s; `None` where they lie in that in which they came, each
    /// under its record number.
    pub fn id_order(&self) -> Option<&Collation> {
        self.options
            .capped
            .is_none()
            .then_some(&self.options.collation)
    }

    /// The index on `_id`, where the documents do not lie in that order.
    pub fn id_index(&self) -> Option<&Arc<Index>> {
        self.options.capped.and(self.indexes.first())
    }

    /// All indexes but that on `_id`.
    pub fn secondary_indexes(&self) -> &[Arc<Index>] {
        &self.indexes[usize::from(self.id_index().is_some())..]
    }

    /// How often statements used the index on `_id`, or that documents lie in its order.
    pub fn id_accesses(&self) -> &Accesses {
        match self.id_index() {
            Some(index) => &index.accesses,
            None => &self.state.id_accesses,
        }
    }

    /// Why statements end that read it, or are about to change what they found in it: it was dropped.
    pub fn dropped(&self) -> Error {
        let uuid = bson::Uuid::from_bytes(self.uuid);
        Error::new(
            Code::QueryPlanKilled,
            format!("collection dropped. UUID {uuid}"),
        )
    }

    /// As [`Self::dropped`]: it has another name.
    pub fn renamed(&self, to: &Namespace) -> Error {
        let (from, uuid) = (&self.namespace, bson::Uuid::from_bytes(self.uuid));
        let message = format!("collection renamed from '{from}' to '{to}'. UUID {uuid}");
        Error::new(Code::QueryPlanKilled, message)
    }

    /// The definitions of all secondary indexes by name, those that are not built last.
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &RawDocument)> {
        let built = self.secondary_indexes().iter().map(|index| &index.spec);
        let built = built.map(|spec| (spec.name.as_str(), spec.listing()));
        let unbuilt = self.unbuilt.iter();
        built.chain(unbuilt.map(|index| (index.name.as_str(), &*index.original)))
    }

    /// All of its trees, those of unready indexes as well.
    pub fn trees(&self) -> Vec<(Family, TreeKey)> {
        let indexes = self.indexes.iter();
        let mut trees: Vec<_> = indexes.map(|one| (Family::Indexes, one.tree)).collect();
        trees.push((Family::Documents, self.documents));
        trees.extend(self.delta.map(|delta| (Family::Documents, delta)));
        trees
    }

    /// The trees that have a rank index: that of the documents and those of ready indexes.
    pub fn counted_trees(&self) -> Vec<(Family, TreeKey)> {
        let ready = self.ready_indexes();
        let mut trees: Vec<_> = ready.map(|index| (Family::Indexes, index.tree)).collect();
        trees.push((Family::Documents, self.documents));
        trees
    }

    /// The name of the cluster key of a collection that was created with one: `_id` has no index beside it.
    pub fn cluster_name(&self) -> Option<&str> {
        if self.options.timeseries.is_some() {
            return None;
        }
        let clustered = self.options.clustered_index.as_ref()?;
        Some(clustered.get_str("name").unwrap_or("_id_"))
    }

    /// Whether the store has what documents have shown of indexes and buckets.
    pub fn is_stored(&self) -> bool {
        let mut indexes = self.ready_indexes();
        indexes.all(|index| index.multikey.is_stored()) && self.state.longest_bucket.is_stored()
    }

    /// Notes that it has.
    pub fn note_stored(&self) {
        let indexes = self.ready_indexes();
        indexes.for_each(|index| index.multikey.note_stored());
        self.state.longest_bucket.note_stored();
    }

    /// The indexes that queries may use.
    pub fn ready_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.ready)
    }
}

/// A version-4 UUID (RFC 9562).
fn random_uuid() -> [u8; 16] {
    let mut uuid: [u8; 16] = rand::random();
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

/// What all versions of a collection share: the commit critical section and the exact totals.
pub struct CollectionState {
    writing: Mutex<WriteState>,
    documents: AtomicI64,
    bytes: AtomicI64,
    ranks: Arc<CollectionRanks>,
    change_capture: ChangeCapture,
    id_accesses: Accesses,
    index_filters: IndexFilters,
    plan_cache: PlanCache,
    arrivals: Arrivals,
    has_delta_rows: AtomicBool,
    longest_bucket: GrowOnly,
    scans: AtomicI64,
    tailed: AtomicI64,
}

/// What only the holder of the write lock may read or change.
#[derive(Default)]
pub struct WriteState {
    /// The collection is gone; a writer that waited for the lock must look it up again.
    pub dropped: bool,
    /// No document's key greater than this exists, so a greater `_id` needs no look-up, and the next record number is
    /// greater by one. `None`: not known yet.
    pub largest_key: Option<Vec<u8>>,
    /// Of a capped collection: no document lies before this key. `None`: not known yet. From there on the oldest one is
    /// looked for, since what lies before may be a great many that have gone.
    pub oldest_key: Option<Vec<u8>>,
    /// Of a collection of buckets: those that take further measurements.
    pub open_buckets: OpenBuckets,
    /// Of a collection of buckets: the rows that wait for theirs. `None`: not known yet.
    pub delta: Option<DeltaStore>,
}

impl CollectionState {
    pub(super) fn new(
        documents: i64,
        bytes: i64,
        longest_bucket_millis: u64,
        range_cache: Arc<RangeCache>,
    ) -> Self {
        Self {
            writing: Mutex::default(),
            documents: documents.into(),
            bytes: bytes.into(),
            ranks: Arc::new(CollectionRanks::new(range_cache)),
            change_capture: ChangeCapture::default(),
            id_accesses: Accesses::default(),
            index_filters: IndexFilters::default(),
            plan_cache: PlanCache::default(),
            arrivals: Arrivals::default(),
            has_delta_rows: AtomicBool::new(true),
            longest_bucket: GrowOnly::stored_as(longest_bucket_millis),
            scans: AtomicI64::new(0),
            tailed: AtomicI64::new(0),
        }
    }

    /// Enters the commit critical section of the collection.
    pub fn lock(&self) -> MutexGuard<'_, WriteState> {
        self.writing.lock()
    }

    /// The rank indexes of its trees.
    pub fn ranks(&self) -> &Arc<CollectionRanks> {
        &self.ranks
    }

    /// Which indexes may answer statements of some shapes.
    pub fn index_filters(&self) -> &IndexFilters {
        &self.index_filters
    }

    /// Which statements had several plans.
    pub fn plan_cache(&self) -> &PlanCache {
        &self.plan_cache
    }

    /// Who waits for documents of a capped collection.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// How often statements read all documents since the start: in all, and those that were not tailing.
    pub fn scans(&self) -> (i64, i64) {
        let total = self.scans.load(Ordering::Relaxed);
        (total, total - self.tailed.load(Ordering::Relaxed))
    }

    /// Counts a statement that reads all documents.
    pub fn note_scan(&self, is_tailing: bool) {
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.tailed.fetch_add(is_tailing.into(), Ordering::Relaxed);
    }

    /// Whether rows may wait in the delta store: readers put them into buckets first. Set by the holder of the write
    /// lock, before the first of them can be read; at the start nobody knows.
    pub fn has_delta_rows(&self) -> bool {
        self.has_delta_rows.load(Ordering::Acquire)
    }

    /// See [`Self::has_delta_rows`].
    pub fn set_has_delta_rows(&self, has: bool) {
        self.has_delta_rows.store(has, Ordering::Release);
    }

    /// For how many milliseconds a bucket lasts at most, of all that there are and were; none where it is not known.
    pub fn longest_bucket_millis(&self) -> Option<i64> {
        i64::try_from(self.longest_bucket.get()).ok()
    }

    /// Adds for how long one lasts that is about to be committed.
    pub fn note_bucket_millis(&self, millis: u64) {
        self.longest_bucket.raise_to(millis);
    }

    /// The builds that must learn which documents change.
    pub fn change_capture(&self) -> &ChangeCapture {
        &self.change_capture
    }

    /// Number of documents, exact.
    pub fn documents(&self) -> i64 {
        self.documents.load(Ordering::Acquire)
    }

    /// Bytes of BSON in all documents, exact.
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Bytes of a document, about.
    pub fn mean_document_bytes(&self) -> usize {
        usize::try_from(self.bytes() / self.documents().max(1)).unwrap_or(0)
    }

    /// Sets the totals after a commit; the caller holds the write lock.
    pub fn set_totals(&self, documents: i64, bytes: i64) {
        self.documents.store(documents, Ordering::Release);
        self.bytes.store(bytes, Ordering::Release);
    }
}
