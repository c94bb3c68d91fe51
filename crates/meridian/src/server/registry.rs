//! The open connections: counted against the limit, and reachable for the shutdown.

use crate::service::Activity;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// At the end a reply has to be sent within one or two of these.
const SENDING: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Open {
    address: Option<IpAddr>,
    socket: Arc<TcpStream>,
    activity: Arc<Activity>,
}

/// How many connections may be open.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all.
    pub all: usize,
    /// Of one address.
    pub of_address: Option<usize>,
}

/// Every open connection by its number.
#[derive(Debug, Default)]
pub struct Registry {
    open: Mutex<HashMap<i32, Open>>,
    one_closed: Condvar,
    stopping: AtomicBool,
}

impl Registry {
    /// Adds a connection, unless too many are open, or too many of its address; returns how many there are then.
    pub fn add(
        &self,
        socket: &Arc<TcpStream>,
        activity: &Arc<Activity>,
        limits: Limits,
    ) -> Result<usize, usize> {
        let address: Option<SocketAddr> = activity.peer.parse().ok();
        let address = address.map(|address| address.ip());
        let mut open = self.open.lock();
        if open.len() >= limits.all || self.is_stopping() {
            return Err(open.len());
        }
        if let Some(limit) = limits.of_address {
            let own = open.values().filter(|one| one.address == address).count();
            if own >= limit {
                return Err(own);
            }
        }
        let (socket, activity) = (Arc::clone(socket), Arc::clone(activity));
        let one = Open {
            address,
            socket,
            activity: Arc::clone(&activity),
        };
        open.insert(activity.connection_id, one);
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

    /// Lets every connection finish the command that it is running and no more; returns how many had not
    /// finished when the time was over. Who does not take its reply is cut off sooner.
    pub fn stop(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut open = self.open.lock();
        // Under the lock, so that no connection is added that would not be told.
        self.stopping.store(true, Ordering::Relaxed);
        for one in open.values() {
            // A reader that waits sees the end; a reply that is being made can still be sent.
            let _ = one.socket.shutdown(Shutdown::Read);
        }
        let mut sending = HashSet::new();
        let mut next_look = Instant::now() + SENDING;
        while !open.is_empty() && Instant::now() < deadline {
            let until = deadline.min(next_look);
            if self.one_closed.wait_until(&mut open, until).timed_out() {
                sending = cut_off(&open, &sending);
                next_look += SENDING;
            }
        }
        open.len()
    }
}

/// Cuts off who was sending before and is sending still; returns who is sending.
fn cut_off(open: &HashMap<i32, Open>, before: &HashSet<i32>) -> HashSet<i32> {
    let is_sending = |one: &&Open| one.activity.running().is_none();
    let mut sending = HashSet::new();
    for one in open.values().filter(is_sending) {
        let id = one.activity.connection_id;
        if before.contains(&id) {
            let _ = one.socket.shutdown(Shutdown::Both);
        }
        sending.insert(id);
    }
    sending
}
