//! The threads that serve the connections, and the connections that none serves.
//!
//! A connection that waits for its client's next request costs no thread: it is parked here, and the
//! system tells when the client has spoken. Some thread then takes the connection and serves it with
//! blocking reads and writes. While there are few connections a thread stays with the one that it took,
//! which saves asking the system; silence ends that. When there are many, a thread goes back after every
//! reply and takes who spoke first: a few threads, whose stacks and buffers are in the processor's caches,
//! serve thousands in the order of their requests.
//!
//! A thread that waits for the next to speak has to be there always. Whoever leaves none behind starts one;
//! in a crowd there are a few for each core, and more only for those that are held up
//! ([`Pool::watch`]). Those that are not needed any more end.

use super::connection::{Buffers, End, Peer};
use super::registry::Registry;
use super::tls::Tls;
use crate::service::Service;
use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Up to so many connections for each core have a thread each, as long as they are not silent.
const STAY_MAX_PER_CORE: usize = 64;
/// Threads that serve a crowd, for each core, while none is held up. Some of them wait for the disk.
const CROWD_THREADS_PER_CORE: usize = 4;
/// A thread that is not needed ends after this long.
const SURPLUS: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};
/// While clients have spoken that nobody serves, it is looked so often who is held up.
const LOOK: Duration = Duration::from_millis(5);
/// A thread is held up that has served one client for so many looks. (One that only waits for a processor
/// may seem to be, but not for so long.)
const HELD_UP_LOOKS: usize = 20;
/// When all are held up, this part of them is added at once.
const ADDED_PART: usize = 4;
/// What a thread notes that serves nobody.
const SERVES_NOBODY: usize = 0;

/// See the module.
pub struct Pool {
    epoll: OwnedFd,
    parked: Mutex<HashMap<i32, Box<Peer>>>,
    /// Since which look each thread serves its client.
    serving: Mutex<Vec<Arc<AtomicUsize>>>,
    /// How many there are of them.
    threads: AtomicUsize,
    /// Those that wait for a client to speak.
    waiting: AtomicUsize,
    /// Clients taken so far.
    taken: AtomicUsize,
    /// Looks so far.
    looks: AtomicUsize,
    cores: usize,
    service: Arc<Service>,
    registry: Arc<Registry>,
    tls: Option<Tls>,
}

impl Pool {
    /// A pool with its first thread.
    ///
    /// # Errors
    /// When the system has no descriptor or no thread for it.
    pub fn start(
        service: Arc<Service>,
        registry: Arc<Registry>,
        tls: Option<Tls>,
    ) -> io::Result<Arc<Self>> {
        let pool = Arc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            parked: Mutex::default(),
            serving: Mutex::default(),
            threads: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            looks: AtomicUsize::new(SERVES_NOBODY + 1),
            cores: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            service,
            registry,
            tls,
        });
        pool.add_thread()?;
        let watched = Arc::clone(&pool);
        let watch = thread::Builder::new().name("watch".to_owned());
        watch.spawn(move || watched.watch())?;
        Ok(pool)
    }

    /// What requests are answered with.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Takes a connection that was just accepted.
    pub fn admit(&self, peer: Box<Peer>) {
        let ask = |socket: &TcpStream, data| epoll::add(&self.epoll, socket, data, interest());
        self.keep(peer, ask);
    }

    /// Keeps a connection until its client speaks again.
    fn park(&self, peer: Box<Peer>) {
        let ask = |socket: &TcpStream, data| epoll::modify(&self.epoll, socket, data, interest());
        self.keep(peer, ask);
    }

    /// Keeps a connection, and has the system tell when its client speaks.
    fn keep(&self, peer: Box<Peer>, ask: impl FnOnce(&TcpStream, EventData) -> Result<(), Errno>) {
        let (id, socket) = (peer.id(), peer.socket());
        // First: as soon as the system is asked another thread may take it.
        self.parked.lock().insert(id, peer);
        let data = EventData::new_u64(u64::from(id.unsigned_abs()));
        if let Err(error) = ask(&socket, data)
            && let Some(peer) = self.parked.lock().remove(&id)
        {
            peer.end(End::Io(error.into()), &self.service, &self.registry);
        }
    }

    fn add_thread(self: &Arc<Self>) -> io::Result<()> {
        let pool = Arc::clone(self);
        let number = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        let thread = thread::Builder::new().name(format!("conn{number}"));
        let spawned = thread
            .stack_size(meridian_engine::STACK_BYTES)
            .spawn(move || {
                let member = Member::of(&pool);
                pool.work(&member.serving);
            });
        if spawned.is_err() {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.map(drop)
    }

    /// Takes clients that have spoken, one after the other, until it is not needed any more.
    fn work(self: &Arc<Self>, serving: &AtomicUsize) {
        let mut buffers = Buffers::default();
        while let Some(mut peer) = self.next() {
            serving.store(self.looks.load(Ordering::Relaxed), Ordering::Relaxed);
            let may_stay = || self.has_room() && self.waiting.load(Ordering::Relaxed) > 0;
            let (service, registry) = (&self.service, &self.registry);
            match peer.serve(
                &mut buffers,
                self.tls.as_ref(),
                service,
                registry,
                &may_stay,
            ) {
                Ok(()) => self.park(peer),
                Err(end) => peer.end(end, service, registry),
            }
            serving.store(SERVES_NOBODY, Ordering::Relaxed);
        }
    }

    /// The next client that speaks; none when other threads wait too and nobody has spoken for a while.
    fn next(self: &Arc<Self>) -> Option<Box<Peer>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        loop {
            let mut spoken = [MaybeUninit::uninit(); 1];
            let id = match epoll::wait(&self.epoll, &mut spoken, Some(&SURPLUS)) {
                Ok(([spoken], _)) => {
                    let data = spoken.data;
                    i32::try_from(data.u64()).unwrap_or(0)
                }
                Ok(_) if self.leave_to_others() => return None,
                Ok(_) | Err(Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "cannot wait for clients; trying on");
                    thread::sleep(LOOK);
                    continue;
                }
            };
            let peer = self.parked.lock().remove(&id);
            if let Some(peer) = peer {
                self.taken.fetch_add(1, Ordering::Relaxed);
                if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                    self.leave_one_behind();
                }
                return Some(peer);
            }
        }
    }

    /// Waits no longer, unless it is the last one that does.
    fn leave_to_others(&self) -> bool {
        let leave = |waiting: usize| (waiting > 1).then(|| waiting - 1);
        let left = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
        left.is_ok()
    }

    /// None waits any more.
    fn leave_one_behind(self: &Arc<Self>) {
        if self.has_room() || self.threads.load(Ordering::Relaxed) < self.in_a_crowd() {
            self.try_to_add(1);
        }
    }

    /// Threads that serve a crowd.
    fn in_a_crowd(&self) -> usize {
        CROWD_THREADS_PER_CORE * self.cores
    }

    fn try_to_add(self: &Arc<Self>, threads: usize) {
        for _ in 0..threads {
            if let Err(error) = self.add_thread() {
                // Those that there are serve everybody, if more slowly.
                tracing::error!(%error, "cannot start a thread for connections");
                return;
            }
        }
    }

    /// While clients have spoken that nobody serves, adds threads for those that are held up: by long
    /// statements, by the disk, by peers that stop in the middle of a frame or do not read.
    fn watch(self: &Arc<Self>) {
        loop {
            let mut spoken = [PollFd::new(&self.epoll, PollFlags::IN)];
            if let Err(error) = poll(&mut spoken, None) {
                tracing::debug!(%error, "woken for nothing");
            }
            let taken = self.taken.load(Ordering::Relaxed);
            thread::sleep(LOOK);
            let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if self.waiting.load(Ordering::Relaxed) > 0 {
                continue;
            }
            let missing = match self.taken.load(Ordering::Relaxed) == taken {
                true => self.threads.load(Ordering::Relaxed).div_ceil(ADDED_PART),
                false => self.in_a_crowd().saturating_sub(self.going_on(look)),
            };
            self.try_to_add(missing);
        }
    }

    /// Threads that are not held up.
    fn going_on(&self, look: usize) -> usize {
        let serving = self.serving.lock();
        let is_held_up = |since: usize| since != SERVES_NOBODY && look - since >= HELD_UP_LOOKS;
        let held_up = serving
            .iter()
            .filter(|since| is_held_up(since.load(Ordering::Relaxed)))
            .count();
        let syncing = usize::try_from(self.service.syncing.get()).unwrap_or(0);
        serving.len().saturating_sub(held_up + syncing)
    }

    /// Whether there are so few connections that each may have a thread.
    fn has_room(&self) -> bool {
        let open = self.service.counters.connections_current.get();
        usize::try_from(open).unwrap_or(0) <= STAY_MAX_PER_CORE * self.cores
    }
}

/// What the system is asked to tell, once: that something has come, or that the client has left.
fn interest() -> EventFlags {
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT
}

/// A thread of the pool, until it ends.
struct Member<'p> {
    pool: &'p Pool,
    serving: Arc<AtomicUsize>,
}

impl<'p> Member<'p> {
    fn of(pool: &'p Pool) -> Self {
        let serving = Arc::new(AtomicUsize::new(SERVES_NOBODY));
        pool.serving.lock().push(Arc::clone(&serving));
        Self { pool, serving }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let is_other = |other: &Arc<AtomicUsize>| !Arc::ptr_eq(other, &self.serving);
        self.pool.serving.lock().retain(is_other);
        self.pool.threads.fetch_sub(1, Ordering::Relaxed);
    }
}
