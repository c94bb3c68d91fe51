//! Which documents are changed while an index is built from a snapshot.
//!
//! Every commit notes the `_id`s of its documents for every build that watches its collection, under the
//! collection's write lock: what was committed before a build began to watch, or to count anew, is in a
//! snapshot taken then; everything else is in its list. Where writers are faster than a build that works
//! the list off, they wait for it.

use crate::error::Result;
use crate::operation;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a writer that waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Those who watch a collection.
#[derive(Default)]
pub struct ChangeCapture(Mutex<Vec<Weak<CapturedIds>>>);

/// The documents that were changed since they were asked for last: `tree ++ encoded _id`, with repeats.
pub struct CapturedIds {
    ids: Mutex<Vec<Vec<u8>>>,
    /// How many were noted since [`Self::count_anew`].
    noted: AtomicU64,
    /// Writers wait when so many were noted.
    noted_max: AtomicU64,
}

impl ChangeCapture {
    /// A list that is kept from now on until it is dropped. The caller holds the collection's write lock.
    pub fn watch(&self) -> Arc<CapturedIds> {
        let list = Arc::new(CapturedIds {
            ids: Mutex::default(),
            noted: AtomicU64::new(0),
            noted_max: AtomicU64::new(u64::MAX),
        });
        self.0.lock().push(Arc::downgrade(&list));
        list
    }

    /// Notes documents that are about to be changed. The caller holds the collection's write lock.
    pub fn note<'k>(&self, ids: impl Iterator<Item = &'k [u8]> + Clone) {
        self.0.lock().retain(|list| {
            let list = list.upgrade();
            if let Some(list) = &list {
                list.note(ids.clone());
            }
            list.is_some()
        });
    }

    /// Returns when no list is too long. Called before the write lock is taken.
    ///
    /// # Errors
    /// When the statement is to end.
    pub fn wait_for_room(&self) -> Result<()> {
        while self.is_full() {
            operation::check()?;
            // The build that makes room may be waiting for a ticket.
            operation::release_ticket();
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let mut lists = self.0.lock();
        lists.retain(|list| list.strong_count() > 0);
        let is_full = |list: &Weak<CapturedIds>| list.upgrade().is_some_and(|list| list.is_full());
        lists.iter().any(is_full)
    }
}

impl CapturedIds {
    /// The list, which is then empty.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ids.lock())
    }

    /// Starts to count: writers will wait when about `noted_max` documents were changed since. The
    /// caller holds the collection's write lock.
    pub fn count_anew(&self, noted_max: u64) {
        self.noted.store(0, Ordering::Release);
        self.noted_max.store(noted_max, Ordering::Release);
    }

    fn note<'k>(&self, ids: impl Iterator<Item = &'k [u8]>) {
        let mut list = self.ids.lock();
        let before = list.len();
        list.extend(ids.map(<[u8]>::to_vec));
        let added = (list.len() - before) as u64;
        self.noted.fetch_add(added, Ordering::AcqRel);
    }

    fn is_full(&self) -> bool {
        self.noted.load(Ordering::Acquire) >= self.noted_max.load(Ordering::Acquire)
    }
}
