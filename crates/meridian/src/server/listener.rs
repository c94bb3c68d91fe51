//! Accepts connections up to the limit and hands them to the pool.

use super::connection::{self, Peer};
use super::pool::Pool;
use super::registry::{Limits, Registry};
use super::tls::Tls;
use crate::service::{Client, Service};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A half-open peer is noticed after about 3 minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_RETRIES: u32 = 3;
/// Clients that may wait to be accepted; the system may allow fewer. Many connect at once when a pool starts.
const BACKLOG: i32 = 4096;
/// Accepting is tried again so soon when there is no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// A client that says nothing is idle after this long.
const IDLE: Duration = Duration::from_secs(20);
/// A peer that stops in the middle of a frame is dropped when it was silent so many times as long as that, ...
pub(super) const SILENCES_MAX: u32 = 3;
/// ... and one that stops reading after this long.
const STALL: Duration = Duration::from_secs(60);
/// How many refused clients are told why at the same time; others are just closed.
const REFUSALS_MAX: usize = 32;
const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);

/// A bound socket, which listens once that is asked for.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    registry: Arc<Registry>,
    tls: Option<Tls>,
}

/// Stops a [`Listener`] from another thread.
#[derive(Debug, Clone)]
pub struct ShutdownHandle {
    listener: Arc<TcpListener>,
    registry: Arc<Registry>,
}

impl Listener {
    /// Binds the address, for encrypted connections if there is `tls`; port 0 picks a free one. Until
    /// [`Self::listen`] is called clients are refused by the system.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn bind(address: SocketAddr, tls: Option<Tls>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        let socket = TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok(Self {
            socket,
            address,
            registry: Arc::default(),
            tls,
        })
    }

    /// Lets clients connect; they are accepted by [`Self::run`] and served by the pool.
    ///
    /// # Errors
    /// If another process began to listen on the address meanwhile, or the system has no thread left.
    pub fn listen(&self, service: &Arc<Service>) -> io::Result<Arc<Pool>> {
        let (service, registry) = (Arc::clone(service), Arc::clone(&self.registry));
        let pool = Pool::start(service, registry, self.tls.clone())?;
        SockRef::from(&self.socket).listen(BACKLOG)?;
        Ok(pool)
    }

    /// The address, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn shutdown_handle(&self) -> io::Result<ShutdownHandle> {
        let listener = Arc::new(self.socket.try_clone()?);
        Ok(ShutdownHandle {
            listener,
            registry: Arc::clone(&self.registry),
        })
    }

    /// Serves until the handle stops it.
    pub fn run(&self, pool: &Pool) {
        let service = pool.service();
        let refusing = Arc::new(AtomicUsize::new(0));
        let mut next_id = 0_i32;
        let mut was_exhausted = false;
        loop {
            let accepted = self.socket.accept();
            if self.registry.is_stopping() {
                return;
            }
            match accepted {
                Ok((socket, peer)) => {
                    was_exhausted = false;
                    next_id = next_id.checked_add(1).unwrap_or(1);
                    let server = socket
                        .local_addr()
                        .map_or(service.address.ip(), |own| own.ip());
                    let memory = &service.reply_memory;
                    let client = Client::new(next_id, peer.to_string(), server, memory);
                    self.admit(socket, client, pool, &refusing);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of file descriptors, mostly: accepting again at once would spin. Clients wait until
                    // others leave.
                    if !std::mem::replace(&mut was_exhausted, true) {
                        tracing::error!(%error, "cannot accept connections; trying on");
                    }
                    thread::sleep(EXHAUSTED);
                }
            }
        }
    }

    fn admit(&self, socket: TcpStream, client: Client, pool: &Pool, refusing: &Arc<AtomicUsize>) {
        let service = pool.service();
        let socket = Arc::new(socket);
        if let Err(error) = configure(&socket) {
            tracing::warn!(%error, peer = client.peer, "cannot configure a connection");
            return;
        }
        let (id, peer) = (client.connection_id, client.peer.clone());
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let limits = Limits {
            all: count(service.settings.max_connections),
            of_address: service.settings.max_connections_per_address.map(count),
        };
        match self.registry.add(&socket, &client.activity, limits) {
            Ok(open) => tracing::debug!(connection = id, peer, open, "connection accepted"),
            Err(open) => return self.refuse(socket, client, open, service, refusing),
        }
        service.counters.connections_created.add(1);
        pool.admit(Box::new(Peer::new(socket, client, service)));
    }

    /// Tells a client over the limit why it is refused, from a thread of its own so that a slow
    /// one cannot hold up the others.
    fn refuse(
        &self,
        socket: Arc<TcpStream>,
        client: Client,
        open: usize,
        service: &Service,
        refusing: &Arc<AtomicUsize>,
    ) {
        let peer = client.peer;
        service.counters.connections_refused.add(1);
        tracing::warn!(peer, open, "connection refused: too many open connections");
        if refusing.fetch_add(1, Ordering::Relaxed) >= REFUSALS_MAX
            || socket.set_read_timeout(Some(REFUSAL_PATIENCE)).is_err()
        {
            refusing.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let counter = Arc::clone(refusing);
        let tls = self.tls.clone();
        let thread = thread::Builder::new().name("refuse".to_owned());
        let spawned = thread.spawn(move || {
            connection::refuse(socket, tls.as_ref(), open);
            counter.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            refusing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl ShutdownHandle {
    /// The address that is listened on.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts no more, lets running commands finish for at most `patience`, and returns how
    /// many connections were still busy then.
    pub fn stop(&self, patience: Duration) -> usize {
        let busy = self.registry.stop(patience);
        // On Linux this wakes a thread that waits in accept.
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        busy
    }
}

fn configure(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(IDLE))?;
    socket.set_write_timeout(Some(STALL))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}
