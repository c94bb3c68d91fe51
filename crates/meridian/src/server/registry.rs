//! The open connections: counted against the limit, and reachable for the shutdown.

use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every open connection's socket by its number.
#[derive(Debug, Default)]
pub struct Registry {
    open: Mutex<HashMap<i32, Arc<TcpStream>>>,
    one_closed: Condvar,
    stopping: AtomicBool,
}

impl Registry {
    /// Adds a connection, unless `limit` are open; returns how many there are then.
    pub fn add(&self, id: i32, socket: &Arc<TcpStream>, limit: usize) -> Result<usize, usize> {
        let mut open = self.open.lock();
        if open.len() >= limit || self.is_stopping() {
            return Err(open.len());
        }
        open.insert(id, Arc::clone(socket));
        Ok(open.len())
    }

    /// Removes a connection that has ended.
    pub fn remove(&self, id: i32) {
        self.open.lock().remove(&id);
        self.one_closed.notify_all();
    }

    /// Whether the server is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Lets every connection finish what it is doing and no more; returns how many had not
    /// finished when the time was over.
    pub fn stop(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut open = self.open.lock();
        // Under the lock, so that no connection is added that would not be told.
        self.stopping.store(true, Ordering::Relaxed);
        for socket in open.values() {
            // A reader that waits sees the end; a reply that is being made can still be sent.
            let _ = socket.shutdown(Shutdown::Read);
        }
        while !open.is_empty() {
            if self.one_closed.wait_until(&mut open, deadline).timed_out() {
                break;
            }
        }
        open.len()
    }
}
