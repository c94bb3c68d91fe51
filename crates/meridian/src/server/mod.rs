//! The server: sockets on one side, commands on the other.
//!
//! What comes in are connections; what goes out are replies, one write a reply. A thread
//! serves a connection with blocking reads: a request's work (a scan, a commit) is synchronous
//! anyway, and there is no scheduler between a request and its core. Up to some number of
//! connections have a thread each; the silent ones, and a crowd between its requests, have none
//! (see [`pool`]). Deliberately absent: command fields.
//!
//! ```text
//! accept -> parked -> (client speaks) -> [thread: (TLS ->) receive buffer -> frame -> commands -> send buffer -> write] -> parked
//! ```

mod client_certificate;
mod connection;
mod listener;
mod pool;
mod receive;
mod registry;
mod tls;

pub use listener::Listener;
pub use tls::Tls;
