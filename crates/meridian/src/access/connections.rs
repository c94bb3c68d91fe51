//! How many connections each user is logged in on.

use super::names::UserName;
use meridian_engine::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Of all users; counted only when there is a limit.
#[derive(Debug)]
pub struct UserConnections {
    max: Option<u32>,
    counts: Mutex<HashMap<UserName, u32>>,
}

/// One of a user's, until it is dropped.
#[derive(Debug)]
pub struct UserConnection {
    name: UserName,
    all: Arc<UserConnections>,
}

impl UserConnections {
    /// With so many for each user.
    pub fn new(max: Option<u32>) -> Arc<Self> {
        let counts = Mutex::default();
        Arc::new(Self { max, counts })
    }

    /// One more of a user.
    ///
    /// # Errors
    /// `AuthenticationFailed` when the user has as many as it may have.
    pub fn add(self: &Arc<Self>, name: &UserName) -> Result<Option<UserConnection>> {
        let Some(max) = self.max else {
            return Ok(None);
        };
        let mut counts = self.counts.lock();
        let count = counts.entry(name.clone()).or_default();
        if *count >= max {
            tracing::warn!(user = %name, max, "a login was refused: the user has as many connections as it may have");
            return Err(Error::new(
                Code::AuthenticationFailed,
                format!("{name} is logged in on {max} connections, as many as a user may have"),
            ));
        }
        *count += 1;
        Ok(Some(UserConnection {
            name: name.clone(),
            all: Arc::clone(self),
        }))
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock();
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}
