//! Which sessions clients use: for `$listLocalSessions`, and for those who end them.
//!
//! A session is an identifier that a client makes up, together with the user who uses it. All that a standalone keeps under
//! it are cursors. It is forgotten when nobody has used it for half an hour.

use crate::access::UserName;
use bson::DateTime;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a session that nobody uses is known, as in MongoDB.
const SESSION_LIFETIME: Duration = Duration::from_mins(30);
/// So many are known at once; further ones work as well, and are not listed.
const SESSIONS_MAX: usize = 100_000;
/// A client that uses its session again and again notes it so often.
const NOTE_STEP: Duration = Duration::from_millis(100);

/// A session of a user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionName {
    /// What the client calls it: a UUID.
    pub id: [u8; 16],
    /// Whose it is, where users log in.
    pub user: Option<UserName>,
}

/// A session, and when it was used last.
#[derive(Debug, Clone)]
pub struct UsedSession {
    pub name: SessionName,
    pub last_use: DateTime,
}

/// All sessions that are known.
#[derive(Debug, Default)]
pub struct Sessions {
    known: Mutex<Known>,
    /// How often one was forgotten that connections may have noted.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    used: HashMap<SessionName, Instant>,
    /// When those that nobody uses any more were looked for.
    expired: Option<Instant>,
}

/// The session that a connection noted last, and when: it need not be noted for every command.
#[derive(Debug, Default)]
pub struct NotedSession(Option<(SessionName, Instant, u64)>);

impl SessionName {
    /// What MongoDB tells users by in the name of a session: the SHA-256 of `user@database`, of nothing for nobody.
    pub fn user_digest(&self) -> [u8; 32] {
        user_digest(self.user.as_ref())
    }

    /// The session that the cursors' registry knows by this key.
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let (id, user) = key.split_first_chunk::<16>()?;
        let user = std::str::from_utf8(user).ok()?;
        // A database's name has no dot.
        let user = user.split_once('.').map(|(database, user)| UserName {
            user: user.to_owned(),
            database: database.to_owned(),
        });
        Some(Self { id: *id, user })
    }

    /// As the cursors' registry knows it.
    pub fn key(&self) -> Vec<u8> {
        let user = self.user.as_ref().map(UserName::id);
        [&self.id[..], user.unwrap_or_default().as_bytes()].concat()
    }
}

/// See [`SessionName::user_digest`].
fn user_digest(user: Option<&UserName>) -> [u8; 32] {
    let name = user.map(|user| format!("{}@{}", user.user, user.database));
    Sha256::digest(name.unwrap_or_default().as_bytes()).into()
}

impl Sessions {
    /// A connection uses a session.
    pub fn note(&self, id: [u8; 16], user: Option<&UserName>, noted: &mut NotedSession) {
        let now = Instant::now();
        let forgotten = self.forgotten.load(Ordering::Acquire);
        if let Some((name, at, then)) = &noted.0
            && *then == forgotten
            && name.id == id
            && name.user.as_ref() == user
            && now.duration_since(*at) < NOTE_STEP
        {
            return;
        }
        let name = SessionName {
            id,
            user: user.cloned(),
        };
        noted.0 = Some((name.clone(), now, forgotten));
        let mut known = self.known.lock();
        known.forget_unused(now);
        if known.used.len() < SESSIONS_MAX || known.used.contains_key(&name) {
            known.used.insert(name, now);
        }
    }

    /// All that are known, in no order.
    pub fn list(&self) -> Vec<UsedSession> {
        let now = Instant::now();
        let mut known = self.known.lock();
        known.expired = None;
        known.forget_unused(now);
        let used = known.used.iter();
        let listed = used.map(|(name, at)| {
            let since = now.duration_since(*at).as_millis();
            let since = i64::try_from(since).unwrap_or(i64::MAX);
            let last_use = DateTime::now().timestamp_millis().saturating_sub(since);
            UsedSession {
                name: name.clone(),
                last_use: DateTime::from_millis(last_use),
            }
        });
        listed.collect()
    }

    /// How many are known; some of them may have been out of use for up to a minute too long.
    pub fn count(&self) -> usize {
        let mut known = self.known.lock();
        known.forget_unused(Instant::now());
        known.used.len()
    }

    /// A session has ended.
    pub fn forget(&self, name: &SessionName) {
        self.known.lock().used.remove(name);
        self.forgotten.fetch_add(1, Ordering::Release);
    }
}

impl Known {
    /// Forgets those that nobody uses any more, once in a while.
    fn forget_unused(&mut self, now: Instant) {
        let is_due = |at: Instant| now.duration_since(at) >= Duration::from_mins(1);
        if self.expired.is_none_or(is_due) {
            self.expired = Some(now);
            self.used
                .retain(|_, at| now.duration_since(*at) < SESSION_LIFETIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_by_their_users_and_forgotten() {
        let (sessions, mut noted) = (Sessions::default(), NotedSession::default());
        let user = UserName {
            user: "a".to_owned(),
            database: "b".to_owned(),
        };
        sessions.note([1; 16], None, &mut noted);
        sessions.note([1; 16], Some(&user), &mut noted);
        sessions.note([1; 16], Some(&user), &mut noted);
        let digests: std::collections::HashSet<_> = sessions
            .list()
            .iter()
            .map(|session| session.name.user_digest())
            .collect();
        assert_eq!(digests.len(), 2);
        assert_eq!(
            user_digest(None)[..4],
            [0xe3, 0xb0, 0xc4, 0x42],
            "the SHA-256 of nothing"
        );
        sessions.forget(&SessionName {
            id: [1; 16],
            user: None,
        });
        assert_eq!(sessions.list().len(), 1);
        let mut known = sessions.known.lock();
        known.expired = None;
        known.forget_unused(Instant::now() + SESSION_LIFETIME);
        assert!(known.used.is_empty());
    }
}
