//! What whoever connects should be told, known since the start.

use crate::cli::Settings;
use bson::DateTime;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// One sentence of it.
#[derive(Debug, Clone)]
pub struct StartupWarning {
    at: DateTime,
    id: i32,
    /// In words.
    pub message: String,
}

impl StartupWarning {
    /// The warnings that these settings deserve, for a server at this address.
    pub fn all(settings: &Settings, address: SocketAddr) -> Vec<Self> {
        // MongoDB's words, which operators look for.
        let mut messages = Vec::new();
        if !settings.auth {
            messages.push((
            22120,
            "Access control is not enabled for the database. Read and write access to data and \
             configuration is unrestricted"
                .to_owned(),
            ));
        }
        if !address.ip().is_loopback() && !settings.auth {
            let message = format!(
                "This server listens on {address}, beyond this machine: whoever can reach the address can read \
                 and change everything"
            );
            messages.push((22121, message));
        }
        if !settings.journal {
            let message = "The journal is off: a crash loses the latest writes".to_owned();
            messages.push((22122, message));
        }
        if let Some(mode) = mode_for_others(&settings.data) {
            let message = format!(
                "The data directory {} has mode {mode:04o}, so that other users of this machine can open it: \
                 chmod 700 ends that",
                settings.data.display()
            );
            messages.push((22123, message));
        }
        let at = DateTime::now();
        let warning = |(id, message)| Self { at, id, message };
        messages.into_iter().map(warning).collect()
    }

    /// In the shape of MongoDB's log lines, which shells parse.
    pub fn line(&self) -> String {
        let line = serde_json::json!({
            "t": { "$date": self.at.try_to_rfc3339_string().unwrap_or_default() },
            "s": "W",
            "c": "CONTROL",
            "id": self.id,
            "ctx": "initandlisten",
            "msg": self.message,
            "tags": ["startupWarnings"],
        });
        format!("{line}\n")
    }
}

/// A directory's mode, if it lets anybody in but its owner.
fn mode_for_others(directory: &Path) -> Option<u32> {
    let mode = std::fs::metadata(directory).ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}
