//! The record of who did what: a line of JSON for each event, in the shape of MongoDB's audit messages.
//!
//! In: events, as they happen. Out: a file that only grows; who moves it away has it begun anew by SIGHUP. What is
//! recorded: logins, what was refused, and changes of users, roles, collections, indexes and databases.
//!
//! ```text
//! {"atype": ..., "ts": {"$date": ...}, "local": {"ip": ..., "port": ...}, "remote": {"ip": ..., "port": ...},
//!  "users": [{"user": ..., "db": ...}], "roles": [{"role": ..., "db": ...}], "param": {...}, "result": code}
//! ```

use super::client::Client;
use anyhow::Context as _;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};
use meridian_engine::query::Filter;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Longer events have no parameters.
const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Where events are recorded.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<File>,
    filter: Option<Filter>,
    is_synced: bool,
    local: SocketAddr,
}

impl AuditLog {
    /// A file that is written on from its end; only events that the filter, a query in JSON, matches. If it is
    /// `synced`, each event is on disk before its reply is sent.
    ///
    /// # Errors
    /// A file that cannot be opened; a filter that is none.
    pub fn open(
        path: &Path,
        filter: Option<&str>,
        is_synced: bool,
        local: SocketAddr,
    ) -> anyhow::Result<Self> {
        let parse = |text: &str| {
            let json: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(text).context("audit-filter is not a JSON object")?;
            let document = Document::try_from(json).context("audit-filter")?;
            let raw = RawDocumentBuf::try_from(&document).context("audit-filter")?;
            Filter::parse(&raw).map_err(|error| anyhow::anyhow!("audit-filter: {}", error.message))
        };
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(open(path)?),
            filter: filter.map(parse).transpose()?,
            is_synced,
            local,
        })
    }

    /// Writes to the file of this name from now on: the one that was written to may have been moved away.
    ///
    /// # Errors
    /// A file that cannot be opened; the one before is then kept.
    pub fn reopen(&self) -> anyhow::Result<()> {
        let file = open(&self.path)?;
        *self.file.lock() = file;
        Ok(())
    }

    /// Records an event of a client, or of the server itself.
    pub fn write(&self, kind: &str, client: Option<&Client>, param: Document, result: i32) {
        let mut event = doc! { "atype": kind, "ts": DateTime::now(), "local": address(self.local) };
        let remote: Option<SocketAddr> = client.and_then(|client| client.peer.parse().ok());
        if let Some(remote) = remote {
            event.insert("remote", address(remote));
        }
        let user = client.and_then(|client| client.login.logged_in());
        let users = user
            .iter()
            .map(|user| Bson::from(doc! { "user": &user.name.user, "db": &user.name.database }));
        let roles = user.iter().flat_map(|user| &user.roles);
        let roles = roles.map(|role| Bson::from(doc! { "role": &role.role, "db": &role.database }));
        event.insert("users", users.collect::<Vec<Bson>>());
        event.insert("roles", roles.collect::<Vec<Bson>>());
        event.insert("param", param);
        event.insert("result", result);
        if let Err(error) = self.append(event) {
            tracing::error!(%error, kind, path = %self.path.display(), "an event could not be written to the audit log");
        }
    }

    fn append(&self, mut event: Document) -> anyhow::Result<()> {
        let mut raw = RawDocumentBuf::try_from(&event)?;
        if raw.as_bytes().len() > EVENT_BYTES_MAX {
            event.insert("param", doc! { "omitted": "too large" });
            raw = RawDocumentBuf::try_from(&event)?;
        }
        let is_wanted = |filter: &Filter| filter.matches(&raw);
        match self.filter.as_ref().map(is_wanted) {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => return Ok(()),
            Some(Err(error)) => anyhow::bail!("the filter: {}", error.message),
        }
        let mut line = Bson::from(event).into_relaxed_extjson().to_string();
        line.push('\n');
        let mut file = self.file.lock();
        file.write_all(line.as_bytes())?;
        if self.is_synced {
            file.sync_data()?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot open the audit log {}", path.display()))
}

fn address(address: SocketAddr) -> Document {
    doc! { "ip": address.ip().to_string(), "port": i32::from(address.port()) }
}

/// A command's document without its secrets, as others may see it; nor those of the command that it explains.
pub fn without_secrets(document: &RawDocument) -> RawDocumentBuf {
    without_own_secrets(document, |explained| {
        without_own_secrets(explained, RawDocument::to_owned)
    })
}

fn without_own_secrets(
    document: &RawDocument,
    explained: impl Fn(&RawDocument) -> RawDocumentBuf,
) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, value) in document.iter().flatten() {
        match (name.as_str(), value) {
            ("pwd" | "payload" | "key", _) => shown.append(name, "xxx"),
            ("explain", RawBsonRef::Document(inner)) => shown.append(name, explained(inner)),
            _ => shown.append(name, value),
        }
    }
    shown
}
