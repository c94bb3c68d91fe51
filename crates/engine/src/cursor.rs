//! Results that are fetched batch by batch.
//!
//! A [`Query`] is a running plan; between batches it waits in the [`CursorRegistry`] under the id that the client knows.
//! One that tails a capped collection stays open at its end, and may wait there for what comes next. A cursor belongs to
//! its namespace, may belong to a session, and is closed when nobody asked for ten minutes.

use crate::catalog::Collection;
use crate::error::{Code, Error, Result};
use crate::exec::{Rows, SUSPENDED_BYTES_FREE};
use crate::namespace::Namespace;
use crate::operation;
use crate::operation::memory::Reservation;
use bson::raw::{RawDocument, RawDocumentBuf};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Cursors that may be open at once; opening one more is refused.
pub const CURSORS_MAX: usize = 100_000;
/// How long a batch waits for documents where the client does not say it, as in MongoDB, ...
pub const AWAIT_DEFAULT: Duration = Duration::from_secs(1);
/// ... how long at most, whatever the client says, ...
pub const AWAIT_MAX: Duration = Duration::from_mins(1);
/// ... and how often it looks whether `killOp` has ended it; whoever closes the cursor wakes it.
const AWAIT_STEP: Duration = Duration::from_millis(500);
/// How long an unused cursor lives unless another time is set: MongoDB's `cursorTimeoutMillis`.
pub const CURSOR_LIFETIME: Duration = Duration::from_mins(10);

/// What a query yields documents from.
pub(crate) enum Source {
    Rows(Box<dyn Rows>),
    Documents(Box<dyn Documents>),
}

/// Documents that are made as they are asked for.
pub(crate) trait Documents: Send {
    /// The next document; `None` at the end.
    ///
    /// # Errors
    /// Storage failures, evaluation errors, memory and time limits.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>>;

    /// See [`Rows::suspend`].
    ///
    /// # Errors
    /// As there.
    fn suspend(&mut self) -> Result<()>;
}

/// Documents that are all there.
struct HeldDocuments {
    left: std::vec::IntoIter<RawDocumentBuf>,
    /// For those that wait for the client.
    memory: Reservation,
}

impl Documents for HeldDocuments {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Ok(self.left.next())
    }

    fn suspend(&mut self) -> Result<()> {
        let left = self.left.as_slice().iter();
        let bytes: usize = left.map(|document| document.as_bytes().len()).sum();
        self.memory.shrink(0);
        if bytes > SUSPENDED_BYTES_FREE {
            self.memory = Reservation::for_suspended(bytes)?;
        }
        Ok(())
    }
}

/// In the place of documents that are gone.
struct Killed(Error);

impl Documents for Killed {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Err(self.0.clone())
    }

    fn suspend(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a query tails.
pub(crate) struct Tail {
    pub collection: Arc<Collection>,
    /// Whether there was any document to go on behind.
    pub has_begun: Arc<AtomicBool>,
    /// Whether a batch waits for documents where there are none.
    pub awaits_data: bool,
}

/// A running plan.
pub struct Query {
    source: Source,
    /// The document that `Source::Documents` yielded last, or a copy of a row that waits.
    current: Option<RawDocumentBuf>,
    /// The current row has not been handed out: it did not fit into the last batch.
    held: bool,
    exhausted: bool,
    /// How many documents have been handed out.
    handed_out: u64,
    /// After how many of them the plan knows that there are no more, if it does.
    ends_after: Option<u64>,
    /// Whether the first batch leaves it open when it is full, whatever is known.
    opens_with_first_batch: bool,
    /// Set where more may come behind the end.
    tail: Option<Tail>,
    /// What MongoDB puts before an error that running the plan met.
    error_context: &'static str,
    /// For the document that has not been handed out.
    memory: Reservation,
}

impl Query {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            current: None,
            held: false,
            exhausted: false,
            handed_out: 0,
            ends_after: None,
            opens_with_first_batch: false,
            tail: None,
            error_context: "",
            memory: Reservation::none(),
        }
    }

    /// The same query whose errors while running are introduced by this.
    #[must_use]
    pub(crate) fn with_error_context(mut self, context: &'static str) -> Self {
        self.error_context = context;
        self
    }

    /// The same query, whose plan knows that there are no more documents after so many.
    #[must_use]
    pub(crate) fn ending_after(mut self, documents: Option<u64>) -> Self {
        self.ends_after = documents;
        self
    }

    /// The same query as that of a pipeline, whose first batch leaves it open when it is full.
    #[must_use]
    pub(crate) fn of_pipeline(mut self) -> Self {
        self.opens_with_first_batch = true;
        self
    }

    /// The same query, which stays open at its end.
    #[must_use]
    pub(crate) fn tailing(self, tail: Tail) -> Self {
        Self {
            tail: Some(tail),
            ..self
        }
    }

    pub(crate) fn from_rows(rows: Box<dyn Rows>) -> Self {
        Self::new(Source::Rows(rows))
    }

    /// A query that has found one document.
    pub(crate) fn from_document(document: RawDocumentBuf) -> Self {
        Self {
            current: Some(document),
            held: true,
            ..Self::from_documents(Vec::new())
        }
    }

    /// A query that is over.
    pub(crate) fn empty() -> Self {
        Self {
            exhausted: true,
            ..Self::from_documents(Vec::new())
        }
    }

    /// Whether it is known that there are no more documents. A client's cursor stays open behind a full batch when it is not,
    /// as in MongoDB: nobody looks ahead.
    pub fn is_over(&self) -> bool {
        !self.held && (self.exhausted || self.ends_after == Some(self.handed_out))
    }

    /// A query over documents that are there already.
    pub fn from_documents(documents: Vec<RawDocumentBuf>) -> Self {
        Self::new(Source::Documents(Box::new(HeldDocuments {
            left: documents.into_iter(),
            memory: Reservation::none(),
        })))
    }

    /// Hands out documents until there are `count_max` of them, or one more would exceed `bytes_max`
    /// (one is always handed out). Returns whether the query is over, as far as it is known ([`Self::is_over`]).
    ///
    /// # Errors
    /// What the plan's nodes return; the query is at its end then.
    pub fn fill(
        &mut self,
        count_max: Option<usize>,
        bytes_max: usize,
        sink: &mut dyn FnMut(&RawDocument),
    ) -> Result<bool> {
        self.fill_while(count_max, &mut |bytes| bytes <= bytes_max, sink)
    }

    /// As [`Self::fill`]; `fits` tells whether the documents handed out may be so many bytes together.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn fill_while(
        &mut self,
        count_max: Option<usize>,
        fits: &mut dyn FnMut(usize) -> bool,
        sink: &mut dyn FnMut(&RawDocument),
    ) -> Result<bool> {
        let count_max = count_max.unwrap_or(usize::MAX);
        let (mut count, mut bytes) = (0, 0);
        loop {
            if count == count_max {
                if self.tail.is_some() {
                    // One without any document to go on behind is over.
                    self.held = self.held || (count == 0 && self.advance()?);
                    return Ok(self.exhausted && !self.held);
                }
                let is_left_open = std::mem::take(&mut self.opens_with_first_batch);
                return Ok(self.is_over() && !is_left_open);
            }
            if !self.held && !self.advance()? {
                return Ok(self.exhausted);
            }
            self.held = true;
            let document = self.document();
            let size = document.as_bytes().len();
            if count > 0 && !fits(bytes + size) {
                self.opens_with_first_batch = false;
                return Ok(false);
            }
            sink(document);
            self.held = false;
            self.handed_out += 1;
            count += 1;
            bytes += size;
        }
    }

    /// As [`Self::fill_while`]; a query that awaits data waits for it until then, as long as `may_wait`.
    fn fill_waiting(
        &mut self,
        count_max: Option<usize>,
        fits: &mut dyn FnMut(usize) -> bool,
        until: Instant,
        may_wait: &dyn Fn() -> Result<()>,
        sink: &mut dyn FnMut(&RawDocument),
    ) -> Result<bool> {
        loop {
            let collection = self.tail.as_ref().filter(|tail| tail.awaits_data);
            let collection = collection.map(|tail| tail.collection.clone());
            let arrivals = collection.as_ref().map(|own| own.state.arrivals());
            let seen = arrivals.map(|arrivals| arrivals.commits());
            let mut is_empty = true;
            let is_exhausted = self.fill_while(count_max, fits, &mut |document| {
                is_empty = false;
                sink(document);
            })?;
            self.suspend()?;
            let (Some(arrivals), Some(seen), true, false) =
                (arrivals, seen, is_empty, is_exhausted)
            else {
                return Ok(is_exhausted);
            };
            loop {
                operation::check()?;
                may_wait()?;
                let now = Instant::now();
                if now >= until {
                    return Ok(false);
                }
                if arrivals.commits() != seen {
                    break;
                }
                operation::release_ticket();
                arrivals.wait(seen, until.min(now + AWAIT_STEP));
            }
        }
    }

    /// Has the query hold little while it waits for the client. A document that did not fit into the last batch is
    /// read again later if it is large, or else memory is taken for it.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when waiting cursors hold so much that there is none left.
    fn suspend(&mut self) -> Result<()> {
        let bytes = match self.held {
            true => self.document().as_bytes().len(),
            false => 0,
        };
        let is_large = bytes > SUSPENDED_BYTES_FREE;
        match &mut self.source {
            Source::Rows(rows) if self.current.is_none() => {
                let copy = self.held.then(|| rows.row().document.to_owned());
                match rows.suspend(self.held && is_large)? {
                    true => self.held = false,
                    false => self.current = copy,
                }
            }
            Source::Rows(_) => {}
            Source::Documents(documents) => documents.suspend()?,
        }
        self.memory.shrink(0);
        if is_large && self.held {
            self.memory = Reservation::for_suspended(bytes)?;
        }
        Ok(())
    }

    /// The next document, or none at the end.
    ///
    /// # Errors
    /// What the plan's nodes return.
    pub fn next_document(&mut self) -> Result<Option<&RawDocument>> {
        if self.held || self.advance()? {
            self.held = false;
            return Ok(Some(self.document()));
        }
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.exhausted {
            return Ok(false);
        }
        let advanced = match &mut self.source {
            Source::Rows(rows) => {
                self.current = None;
                rows.advance()
            }
            Source::Documents(documents) => documents.next().map(|next| {
                self.current = next;
                self.current.is_some()
            }),
        };
        self.exhausted = match (&advanced, &self.tail) {
            (Ok(false), Some(tail)) => !tail.has_begun.load(Ordering::Relaxed),
            (advanced, _) => !matches!(advanced, Ok(true)),
        };
        advanced.map_err(|error| match error.code {
            Code::CappedPositionLost | Code::QueryPlanKilled => error,
            _ => error.within(self.error_context),
        })
    }

    fn document(&self) -> &RawDocument {
        match (&self.current, &self.source) {
            (Some(document), _) => document,
            (None, Source::Rows(rows)) => rows.row().document,
            (None, Source::Documents(_)) => unreachable!("advance has set the document"),
        }
    }
}

/// Whose a cursor is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CursorOwner {
    /// The session that it ends with.
    pub session: Option<Vec<u8>>,
    /// The user who opened it.
    pub user: Option<String>,
    /// What the statement said of API versions, as messages show it; nothing where that is nothing.
    pub api: String,
}

struct OpenCursor {
    query: Arc<Mutex<Query>>,
    namespace: Namespace,
    owner: CursorOwner,
    no_timeout: bool,
    /// What it tails.
    tailed: Option<Arc<Collection>>,
    awaits_data: bool,
    /// Whether its second batch was handed out.
    went_on: bool,
    last_used: Instant,
    /// What is left of the time limit of the statement that opened it: waiting for the client is free.
    time_left: Option<Duration>,
}

impl OpenCursor {
    /// Has a batch that waits for documents look whether it still may.
    fn wake(&self) {
        if let Some(tailed) = &self.tailed {
            tailed.state.arrivals().tell();
        }
    }
}

/// A cursor that waits for its client.
#[derive(Debug, Clone)]
pub struct IdleCursor {
    /// What the client calls it.
    pub id: i64,
    /// What it reads.
    pub namespace: Namespace,
    /// The user who opened it.
    pub user: Option<String>,
    /// When it was asked for a batch.
    pub last_used: bson::DateTime,
    /// Whether it stays however long nobody asks.
    pub no_timeout: bool,
    /// Whether it stays open at its end.
    pub tails: bool,
    /// Whether a batch waits for documents.
    pub awaits_data: bool,
}

/// What `killCursors` did with one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillOutcome {
    /// It is closed now.
    Killed,
    /// There is no such cursor in that namespace.
    NotFound,
}

/// All open cursors.
pub struct CursorRegistry {
    cursors: Mutex<HashMap<i64, OpenCursor>>,
    opened: AtomicI64,
    continued: AtomicI64,
    timed_out: AtomicI64,
    /// How long an unused cursor lives.
    lifetime_ms: AtomicI64,
}

impl Default for CursorRegistry {
    fn default() -> Self {
        let lifetime_ms = i64::try_from(CURSOR_LIFETIME.as_millis()).unwrap_or(i64::MAX);
        Self {
            cursors: Mutex::default(),
            opened: AtomicI64::new(0),
            continued: AtomicI64::new(0),
            timed_out: AtomicI64::new(0),
            lifetime_ms: AtomicI64::new(lifetime_ms),
        }
    }
}

/// The cursors in numbers.
#[derive(Debug, Clone, Default)]
pub struct CursorFigures {
    /// Open now.
    pub open: i64,
    /// Of these, cursors that never time out.
    pub no_timeout: i64,
    /// Of these, cursors whose next batch is being made.
    pub pinned: i64,
    /// Opened since the start: results that did not fit into a first batch.
    pub opened: i64,
    /// Of these, cursors that were asked for another batch.
    pub continued: i64,
    /// Closed because nobody used them.
    pub timed_out: i64,
}

impl CursorRegistry {
    /// Keeps a query whose first batch did not exhaust it, and returns the id for the client.
    ///
    /// # Errors
    /// `OperationFailed` when [`CURSORS_MAX`] are open; `ExceededMemoryLimit` when they hold too much.
    pub fn open(
        &self,
        mut query: Query,
        namespace: Namespace,
        owner: CursorOwner,
        no_timeout: bool,
    ) -> Result<i64> {
        query.suspend()?;
        let mut cursors = self.cursors.lock();
        if cursors.len() >= CURSORS_MAX {
            return Err(Error::new(
                Code::OperationFailed,
                format!("{CURSORS_MAX} cursors are open; close some, or read them to their end"),
            ));
        }
        let id = loop {
            let id = rand::random_range(1..i64::MAX);
            if !cursors.contains_key(&id) {
                break id;
            }
        };
        // Errors of later batches belong to the command that asks for them.
        let query = match query.error_context {
            "" => query,
            _ => query.with_error_context("Executor error during getMore"),
        };
        let tailed = query.tail.as_ref().map(|tail| tail.collection.clone());
        let awaits_data = query.tail.as_ref().is_some_and(|tail| tail.awaits_data);
        let time_left = operation::current().and_then(|operation| operation.time_left());
        let query = Arc::new(Mutex::new(query));
        let cursor = OpenCursor {
            query,
            namespace,
            owner,
            no_timeout,
            tailed,
            awaits_data,
            went_on: false,
            last_used: Instant::now(),
            // Whoever awaits data says for each batch how long.
            time_left: time_left.filter(|_| !awaits_data),
        };
        cursors.insert(id, cursor);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Hands out the next batch, see [`Query::fill_while`]; true when the cursor was exhausted and is closed now. One that
    /// awaits data waits for it `until` then.
    ///
    /// # Errors
    /// `CursorNotFound` (43), `Unauthorized` for another namespace; what the query returns, which
    /// closes the cursor.
    pub fn get_more(
        &self,
        id: i64,
        namespace: &Namespace,
        count_max: Option<usize>,
        until: Option<Instant>,
        fits: &mut dyn FnMut(usize) -> bool,
        sink: &mut dyn FnMut(&RawDocument),
    ) -> Result<bool> {
        let (query, time_left) = self.open_query(id, namespace)?;
        let Some(mut running) = query.try_lock() else {
            return Err(Error::new(
                Code::Location(292_0100),
                format!("cursor id {id} is already in use"),
            ));
        };
        let operation = operation::current();
        if let Some(operation) = &operation {
            operation.limit(time_left);
        }
        let now = Instant::now();
        let until = until.unwrap_or(now + AWAIT_DEFAULT).min(now + AWAIT_MAX);
        let may_wait = || {
            let now = self.cursors.lock().get(&id).map(|now| now.query.clone());
            match now {
                Some(now) if Arc::ptr_eq(&now, &query) => Ok(()),
                // Its documents are gone: says why.
                Some(now) => now.lock().advance().map(|_| ()),
                None => Err(Error::new(
                    Code::CursorKilled,
                    "Executor error during getMore :: caused by :: operation was interrupted",
                )),
            }
        };
        let filled = operation::check()
            .and_then(|()| running.fill_waiting(count_max, fits, until, &may_wait, sink));
        drop(running);
        let mut cursors = self.cursors.lock();
        let went_on = |cursor: &mut OpenCursor| std::mem::replace(&mut cursor.went_on, true);
        if filled.is_ok() && cursors.get_mut(&id).map(went_on) == Some(false) {
            self.continued.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(filled, Ok(false)) {
            if let Some(cursor) = cursors.get_mut(&id) {
                cursor.last_used = Instant::now();
                let left = operation.and_then(|operation| operation.time_left());
                cursor.time_left = left.filter(|_| !cursor.awaits_data);
            }
        } else {
            cursors.remove(&id);
        }
        filled
    }

    /// Whether a cursor that is open in a namespace awaits data. Counts as using it.
    ///
    /// # Errors
    /// `CursorNotFound` (43), `Unauthorized` for another namespace.
    pub fn awaits_data(&self, id: i64, namespace: &Namespace) -> Result<bool> {
        self.open_query(id, namespace)?;
        let cursors = self.cursors.lock();
        Ok(cursors.get(&id).is_some_and(|cursor| cursor.awaits_data))
    }

    fn open_query(
        &self,
        id: i64,
        namespace: &Namespace,
    ) -> Result<(Arc<Mutex<Query>>, Option<Duration>)> {
        let mut cursors = self.cursors.lock();
        let cursor = cursors
            .get_mut(&id)
            .ok_or_else(|| Error::new(Code::CursorNotFound, format!("cursor id {id} not found")))?;
        if cursor.namespace != *namespace {
            return Err(Error::new(
                Code::Unauthorized,
                format!(
                    "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                    cursor.namespace
                ),
            ));
        }
        cursor.last_used = Instant::now();
        Ok((cursor.query.clone(), cursor.time_left))
    }

    /// Who opened a cursor; `None` when it is not open.
    pub fn owner(&self, id: i64) -> Option<CursorOwner> {
        let cursors = self.cursors.lock();
        cursors.get(&id).map(|cursor| cursor.owner.clone())
    }

    /// Closes a cursor.
    pub fn kill(&self, id: i64, namespace: &Namespace) -> KillOutcome {
        let mut cursors = self.cursors.lock();
        match cursors.get(&id) {
            Some(cursor) if cursor.namespace == *namespace => {
                let cursor = cursors.remove(&id);
                drop(cursors);
                cursor.iter().for_each(OpenCursor::wake);
                KillOutcome::Killed
            }
            _ => KillOutcome::NotFound,
        }
    }

    /// Closes all cursors of a session.
    pub fn kill_session(&self, session: &[u8]) {
        self.kill_sessions(&|own| own == session);
    }

    /// Closes all cursors of sessions.
    pub fn kill_sessions(&self, is_meant: &dyn Fn(&[u8]) -> bool) {
        let mut killed = Vec::new();
        self.cursors.lock().retain(|_, cursor| {
            let is_killed = cursor.owner.session.as_deref().is_some_and(is_meant);
            if is_killed {
                killed.extend(cursor.tailed.clone());
            }
            !is_killed
        });
        killed
            .iter()
            .for_each(|tailed| tailed.state.arrivals().tell());
    }

    /// The cursors whose next batch nobody makes at the moment.
    pub fn idle(&self) -> Vec<IdleCursor> {
        let (now, cursors) = (Instant::now(), self.cursors.lock());
        let idle = cursors.iter().filter(|(_, one)| !one.query.is_locked());
        let described = idle.map(|(id, cursor)| {
            let unused = now.saturating_duration_since(cursor.last_used).as_millis();
            let unused = i64::try_from(unused).unwrap_or(i64::MAX);
            let last_used = bson::DateTime::now().timestamp_millis();
            IdleCursor {
                id: *id,
                namespace: cursor.namespace.clone(),
                user: cursor.owner.user.clone(),
                last_used: bson::DateTime::from_millis(last_used.saturating_sub(unused)),
                no_timeout: cursor.no_timeout,
                tails: cursor.tailed.is_some(),
                awaits_data: cursor.awaits_data,
            }
        });
        described.collect()
    }

    /// Ends all cursors that read a namespace: the next batch is an error that says why.
    pub(crate) fn kill_namespace(&self, namespace: &Namespace, why: &Error) {
        let mut cursors = self.cursors.lock();
        for cursor in cursors.values_mut() {
            if cursor.namespace == *namespace {
                let query = Query::new(Source::Documents(Box::new(Killed(why.clone()))));
                cursor.query = Arc::new(Mutex::new(query));
                cursor.time_left = None;
                cursor.wake();
            }
        }
    }

    /// After how many milliseconds a cursor that nobody uses is closed.
    pub fn lifetime_ms(&self) -> i64 {
        self.lifetime_ms.load(Ordering::Relaxed)
    }

    /// Sets after how many milliseconds a cursor that nobody uses is closed: up to 0, as soon as it is looked for.
    pub fn set_lifetime_ms(&self, lifetime_ms: i64) {
        self.lifetime_ms.store(lifetime_ms, Ordering::Relaxed);
    }

    /// Closes cursors that nobody has used for long.
    pub fn expire(&self, now: Instant) {
        let lifetime = Duration::from_millis(u64::try_from(self.lifetime_ms()).unwrap_or(0));
        let mut cursors = self.cursors.lock();
        let before = cursors.len();
        cursors.retain(|_, cursor| {
            let unused = now.saturating_duration_since(cursor.last_used);
            cursor.no_timeout || unused < lifetime || cursor.query.is_locked()
        });
        let expired = i64::try_from(before - cursors.len()).unwrap_or(i64::MAX);
        self.timed_out.fetch_add(expired, Ordering::Relaxed);
    }

    /// How many there are and were.
    pub fn figures(&self) -> CursorFigures {
        let cursors = self.cursors.lock();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let those = |is: fn(&&OpenCursor) -> bool| number(cursors.values().filter(is).count());
        CursorFigures {
            open: number(cursors.len()),
            no_timeout: those(|cursor| cursor.no_timeout),
            pinned: those(|cursor| cursor.query.is_locked()),
            opened: self.opened.load(Ordering::Relaxed),
            continued: self.continued.load(Ordering::Relaxed),
            timed_out: self.timed_out(),
        }
    }

    /// Number of open cursors.
    pub fn open_count(&self) -> usize {
        self.cursors.lock().len()
    }

    /// Number of cursors closed because nobody used them.
    pub fn timed_out(&self) -> i64 {
        self.timed_out.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn query(documents: i32) -> Query {
        Query::from_documents(
            (0..documents)
                .map(|number| rawdoc! { "n": number })
                .collect(),
        )
    }

    fn numbers(batch: &mut Vec<i32>) -> impl FnMut(&RawDocument) {
        |document| batch.push(document.get_i32("n").unwrap())
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes_and_lose_nothing() {
        let mut query = query(5);
        let mut batch = Vec::new();
        assert!(
            !query
                .fill(Some(2), usize::MAX, &mut numbers(&mut batch))
                .unwrap()
        );
        assert!(!query.fill(None, 1, &mut numbers(&mut batch)).unwrap());
        assert!(
            query
                .fill(Some(3), usize::MAX, &mut numbers(&mut batch))
                .unwrap()
        );
        assert_eq!(batch, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_full_batch_leaves_a_query_open_unless_its_end_is_known() {
        let fill = |mut query: Query, count| query.fill(Some(count), usize::MAX, &mut |_| ());
        assert!(!fill(query(3), 3).unwrap() && fill(query(3), 4).unwrap());
        assert!(fill(query(3).ending_after(Some(2)), 2).unwrap());
        let mut pipeline = query(3).ending_after(Some(2)).of_pipeline();
        for is_over in [false, true] {
            let filled = pipeline.fill(Some(1), usize::MAX, &mut |_| ());
            assert_eq!(filled.unwrap(), is_over);
        }
        assert!(fill(Query::empty(), 0).unwrap());
    }

    #[test]
    fn cursors_belong_to_their_namespace_and_expire() {
        let registry = CursorRegistry::default();
        let owner = CursorOwner {
            session: Some(vec![1]),
            ..CursorOwner::default()
        };
        let (mine, other) = (
            Namespace::new("d", "a").unwrap(),
            Namespace::new("d", "b").unwrap(),
        );
        let id = registry
            .open(query(3), mine.clone(), owner.clone(), false)
            .unwrap();
        let error = registry
            .get_more(id, &other, None, None, &mut |_| true, &mut |_| ())
            .unwrap_err();
        assert_eq!(error.code, Code::Unauthorized);
        assert_eq!(registry.kill(id, &other), KillOutcome::NotFound);
        assert!(
            !registry
                .get_more(id, &mine, Some(1), None, &mut |_| true, &mut |_| ())
                .unwrap()
        );
        registry.expire(Instant::now() + CURSOR_LIFETIME);
        assert_eq!(
            registry
                .get_more(id, &mine, None, None, &mut |_| true, &mut |_| ())
                .unwrap_err()
                .code,
            Code::CursorNotFound
        );
        assert_eq!((registry.open_count(), registry.timed_out()), (0, 1));
        let id = registry.open(query(3), mine.clone(), owner, true).unwrap();
        registry.expire(Instant::now() + CURSOR_LIFETIME);
        assert_eq!(registry.open_count(), 1);
        registry.kill_session(&[1]);
        assert_eq!(registry.kill(id, &mine), KillOutcome::NotFound);
    }
}
