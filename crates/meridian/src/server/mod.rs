//! The server: sockets on one side, commands on the other.
//!
//! What comes in are connections; what goes out are replies, one write a reply. A thread
//! serves one connection with blocking reads: a request's work (a scan, a commit) is
//! synchronous anyway, idle threads cost a few KiB each, and there is no scheduler between a
//! request and its core. Deliberately absent: command fields.
//!
//! ```text
//! accept -> [connection thread: (TLS ->) receive buffer -> frame -> commands -> send buffer -> write]
//! ```

mod connection;
mod idle;
mod listener;
mod receive;
mod registry;
mod tls;

pub use listener::Listener;
pub use tls::Tls;
