//! TLS: settings to a configuration, and a stream that is either plain or encrypted.
//!
//! In: certificate and key files, in PEM. Out: a [`Stream`] for each connection, on which frames travel as
//! on a plain socket. The handshake happens with the first read, on a thread that serves it then.
//! Deliberately absent: users; that a client's certificate is good says that its owner may connect, and who it is.

use super::client_certificate::ClientVerifier;
use crate::cli::{Settings, TlsMode};
use anyhow::Context as _;
use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A TLS record of a handshake begins so (RFC 8446, 5.1). A MongoDB message that began with these bytes would
/// be one of more than 65,000 bytes, which no client's first message is.
pub(super) const HANDSHAKE_RECORD: [u8; 2] = [0x16, 0x03];

/// How soon, and for how long, the second of the first bytes is looked for again.
const NEXT_BYTE: Duration = Duration::from_millis(5);
const NEXT_BYTES_MAX: Duration = Duration::from_secs(10);

/// How connections are encrypted.
#[derive(Debug, Clone)]
pub struct Tls {
    /// For connections that begin now.
    config: Arc<RwLock<Arc<ServerConfig>>>,
    /// Certificate and key.
    key_file: PathBuf,
    /// Who signs clients' certificates.
    ca_file: Option<PathBuf>,
    /// Plain connections are served too.
    allows_plain: bool,
}

impl Tls {
    /// What the settings ask for; none when TLS is off.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no certificate or key; settings that do not go together.
    pub fn from_settings(settings: &Settings) -> anyhow::Result<Option<Self>> {
        if settings.tls_mode == TlsMode::Disabled {
            return Ok(None);
        }
        let key_file = settings.tls_certificate_key_file.clone();
        let key_file = key_file.context("TLS needs tls-certificate-key-file")?;
        let ca_file = settings.tls_ca_file.clone();
        let config = configure(&key_file, ca_file.as_deref())?;
        Ok(Some(Self {
            config: Arc::new(RwLock::new(Arc::new(config))),
            key_file,
            ca_file,
            allows_plain: settings.tls_mode == TlsMode::Allow,
        }))
    }

    /// Reads the files again: connections that begin from now on have what is in them. Where they are not as they
    /// should be, all stays as it was.
    ///
    /// # Errors
    /// As [`Self::from_settings`].
    pub fn reload(&self) -> anyhow::Result<()> {
        let config = configure(&self.key_file, self.ca_file.as_deref())?;
        *self.config.write() = Arc::new(config);
        Ok(())
    }
}

fn configure(key_file: &Path, ca_file: Option<&Path>) -> anyhow::Result<ServerConfig> {
    let certificates = certificates(key_file)?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .with_context(|| format!("cannot read a private key from {}", key_file.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("no TLS version is usable")?;
    let builder = match ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path)? {
                roots
                    .add(certificate)
                    .with_context(|| path.display().to_string())?;
            }
            let roots = Arc::new(roots);
            let algorithms = provider.signature_verification_algorithms;
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider).build();
            let webpki =
                verifier.with_context(|| format!("cannot verify clients by {}", path.display()))?;
            builder.with_client_cert_verifier(Arc::new(ClientVerifier {
                webpki,
                roots,
                algorithms,
            }))
        }
    };
    builder
        .with_single_cert(certificates, key)
        .with_context(|| format!("certificate and key do not fit in {}", key_file.display()))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || -> Result<Vec<_>, _> { CertificateDer::pem_file_iter(path)?.collect() };
    let certificates = read().with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        !certificates.is_empty(),
        "{} holds no certificate",
        path.display()
    );
    Ok(certificates)
}

/// A connection's bytes.
pub enum Stream {
    /// As they are.
    Plain(Socket),
    /// Encrypted on the way.
    Encrypted(Box<StreamOwned<ServerConnection, Socket>>),
}

/// A socket that the registry shares.
pub struct Socket(Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

impl Stream {
    /// The stream that the settings, and where they leave the choice the client's first bytes, ask for.
    ///
    /// # Errors
    /// The socket's.
    pub fn new(socket: Arc<TcpStream>, tls: Option<&Tls>) -> io::Result<Self> {
        match tls {
            None => Ok(Self::Plain(Socket(socket))),
            Some(tls) if tls.allows_plain && !begins_handshake(&socket)? => {
                Ok(Self::Plain(Socket(socket)))
            }
            Some(tls) => {
                let connection = ServerConnection::new(Arc::clone(&tls.config.read()));
                let connection = connection.map_err(io::Error::other)?;
                Ok(Self::Encrypted(Box::new(StreamOwned::new(
                    connection,
                    Socket(socket),
                ))))
            }
        }
    }

    /// The certificate that the client has shown, once something was read.
    pub fn client_certificate(&self) -> Option<&CertificateDer<'_>> {
        match self {
            Self::Plain(_) => None,
            Self::Encrypted(stream) => stream.conn.peer_certificates()?.first(),
        }
    }

    /// Whether more of what the client sent can be read without asking the system.
    pub fn has_more(&mut self) -> bool {
        match self {
            Self::Plain(_) => false,
            // An error is met by whoever reads on.
            Self::Encrypted(stream) => match stream.conn.process_new_packets() {
                Ok(state) => state.plaintext_bytes_to_read() > 0,
                Err(_) => true,
            },
        }
    }
}

/// Whether the client's first bytes are TLS; a client that says nothing is waited for, as between two
/// frames.
fn begins_handshake(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0; HANDSHAKE_RECORD.len()];
    let deadline = Instant::now() + NEXT_BYTES_MAX;
    loop {
        match socket.peek(&mut first) {
            Ok(0) => return Ok(false),
            Ok(length) if first[..length] != HANDSHAKE_RECORD[..length] => return Ok(false),
            Ok(length) if length == first.len() => return Ok(true),
            // One byte that fits: the next is on its way, or never comes.
            Ok(_) if Instant::now() < deadline => std::thread::sleep(NEXT_BYTE),
            Ok(_) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Encrypted(stream) => match stream.read(buffer) {
                // Many clients close without saying so in TLS; a frame's length tells whether it is whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
