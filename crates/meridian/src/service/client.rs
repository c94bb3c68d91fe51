//! Who asks: what commands know of the connection that a request came over.

use super::reply_memory::{ReplyMemory, Share};
use super::sessions::NotedSession;
use crate::access::{Login, User};
use bson::RawDocument;
use meridian_engine::{BuildProgress, Operation};
use meridian_wire::Compressor;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

/// One connection, as commands see it.
#[derive(Debug)]
pub struct Client {
    /// Counts up from 1 for each accepted connection.
    pub connection_id: i32,
    /// `address:port` of the other end.
    pub peer: String,
    /// What the latest hello with a list agreed on.
    pub compressors: Vec<Compressor>,
    /// What it is doing now, for `currentOp`.
    pub activity: Arc<Activity>,
    /// What the reply that is being made or sent has taken.
    pub reply_share: Share,
    /// Who is logged in.
    pub login: Login,
    /// The session that it used last.
    pub noted_session: NotedSession,
}

impl Client {
    /// A connection that has said nothing yet.
    pub fn new(
        connection_id: i32,
        peer: String,
        server: IpAddr,
        memory: &Arc<ReplyMemory>,
    ) -> Self {
        let activity = Arc::new(Activity::new(connection_id, peer.clone()));
        let login = Login::new(&peer, server);
        Self {
            login,
            noted_session: NotedSession::default(),
            connection_id,
            peer,
            compressors: Vec::new(),
            activity,
            reply_share: Share::of(memory),
        }
    }
}

/// A command's document is shown by `currentOp` up to this size; of a larger one, its first field.
const SHOWN_BYTES_MAX: usize = 4 * 1024;

/// The command that a connection is running, readable from other threads.
#[derive(Debug)]
pub struct Activity {
    /// As in [`Client`].
    pub connection_id: i32,
    /// As in [`Client`].
    pub peer: String,
    running: Mutex<Option<Running>>,
    /// Kept between commands, so that noting one allocates nothing.
    spare: Mutex<Vec<u8>>,
}

/// One command on its way.
#[derive(Debug, Clone)]
pub struct Running {
    /// What `killOp` calls it.
    pub operation_id: i32,
    /// Its row of the command table.
    pub command: usize,
    /// Whether it is to write documents.
    pub writes: bool,
    /// When it began.
    pub started: Instant,
    /// What ends it.
    pub operation: Arc<Operation>,
    /// How far it is, if it says so.
    pub progress: Option<BuildProgress>,
    /// Who runs it.
    pub user: Option<Arc<User>>,
    /// Its document, or none when that is too large to be kept.
    body: Vec<u8>,
}

impl Running {
    /// Its document, if it was small enough to be kept.
    pub fn body(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.body).ok()
    }
}

impl Activity {
    fn new(connection_id: i32, peer: String) -> Self {
        Self {
            connection_id,
            peer,
            running: Mutex::default(),
            spare: Mutex::default(),
        }
    }

    /// Notes the command with this index in the table as running from now; it `writes` documents or reads. Its document
    /// is given if others may see it.
    pub fn begin(
        &self,
        command: usize,
        writes: bool,
        body: Option<&RawDocument>,
        user: Option<Arc<User>>,
        operation: Arc<Operation>,
    ) {
        static NEXT_ID: AtomicI32 = AtomicI32::new(1);
        let mut kept = std::mem::take(&mut *self.spare.lock());
        kept.clear();
        let shown = body.filter(|body| body.as_bytes().len() <= SHOWN_BYTES_MAX);
        kept.extend_from_slice(shown.map_or(&[], |body| body.as_bytes()));
        *self.running.lock() = Some(Running {
            operation_id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            command,
            writes,
            started: Instant::now(),
            operation,
            progress: None,
            user,
            body: kept,
        });
    }

    /// Notes that nothing is running.
    pub fn end(&self) {
        if let Some(ended) = self.running.lock().take() {
            *self.spare.lock() = ended.body;
        }
    }

    /// Notes how far the running command is.
    pub fn report(&self, progress: BuildProgress) {
        if let Some(running) = &mut *self.running.lock() {
            running.progress = Some(progress);
        }
    }

    /// Asks the running command to end, if it is the one with this number.
    pub fn kill(&self, operation_id: i32) {
        if let Some(running) = &*self.running.lock()
            && running.operation_id == operation_id
        {
            running.operation.kill();
        }
    }

    /// The running command.
    pub fn running(&self) -> Option<Running> {
        self.running.lock().clone()
    }
}
