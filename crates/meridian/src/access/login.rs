//! Who is logged in: on the server, and on one connection.

use super::connections::{UserConnection, UserConnections};
use super::names::{RoleName, UserName};
use super::privilege::{Privilege, Privileges, Resource};
use super::restriction::parse_restrictions;
use super::scram::{ClientFirst, Conversation, Keys, Mechanism, failed};
use super::store::{self, Kind, Resolved};
use super::{ActionSet, EXTERNAL, scram};
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_engine::{Code, Engine, Error, Result};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Users whose privileges are remembered.
const USERS_MAX: usize = 10_000;
/// Addresses whose failures are remembered.
const ADDRESSES_MAX: usize = 10_000;
/// So many failures cost an address nothing.
const FREE_FAILURES: u32 = 3;
/// The first of those that do; each further one costs twice as much as the one before.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(2);
/// After so long without a failure an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Access control of the server.
#[derive(Debug)]
pub struct Access {
    /// Whether commands need privileges.
    pub is_enabled: bool,
    /// For the keys of users that there are not.
    secret: [u8; 32],
    /// Counts the changes of users and roles.
    generation: AtomicU64,
    users: Mutex<HashMap<UserName, Arc<User>>>,
    /// Held by whoever changes users or roles.
    changes: Mutex<()>,
    has_users: AtomicBool,
    failures: Mutex<HashMap<IpAddr, Failures>>,
    connections: Arc<UserConnections>,
}

/// Failed logins from an address.
#[derive(Debug)]
struct Failures {
    count: u32,
    latest: Instant,
}

/// Somebody who has logged in.
#[derive(Debug)]
pub struct User {
    /// Its name.
    pub name: UserName,
    /// The roles that it was granted, and all that these inherit.
    pub roles: Vec<RoleName>,
    /// What it may do.
    pub privileges: Privileges,
    generation: u64,
}

impl Access {
    /// Of a server that begins.
    pub fn new(is_enabled: bool, max_connections_per_user: Option<u32>) -> Self {
        let mut secret = [0; 32];
        rand::fill(&mut secret);
        Self {
            is_enabled,
            secret,
            generation: AtomicU64::new(1),
            users: Mutex::default(),
            changes: Mutex::new(()),
            has_users: AtomicBool::new(false),
            failures: Mutex::default(),
            connections: UserConnections::new(max_connections_per_user),
        }
    }

    /// Users and roles do not change by anybody else's command while it lives; [`Self::changed`] is called before it goes.
    pub fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    /// Users or roles were changed: what everybody may do is looked up again.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Somebody as of now; `None` if there is no such user any more.
    pub fn user(&self, engine: &Engine, name: &UserName) -> Result<Option<Arc<User>>> {
        let generation = self.generation.load(Ordering::Acquire);
        if let Some(known) = self.users.lock().get(name)
            && known.generation == generation
        {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(document) = store::find_one(engine, Kind::Users, &name.id())? else {
            return Ok(None);
        };
        let resolved = store::resolve(engine, &store::granted(&document))?;
        let user = Arc::new(User {
            name: name.clone(),
            roles: resolved.roles,
            privileges: resolved.privileges,
            generation,
        });
        let mut users = self.users.lock();
        if users.len() >= USERS_MAX {
            users.clear();
        }
        users.insert(name.clone(), Arc::clone(&user));
        Ok(Some(user))
    }

    /// Whether there is any user at all.
    pub fn has_users(&self, engine: &Engine) -> Result<bool> {
        if !self.has_users.load(Ordering::Acquire) {
            let found = store::has_any(engine, Kind::Users)?;
            self.has_users.store(found, Ordering::Release);
        }
        Ok(self.has_users.load(Ordering::Acquire))
    }

    /// Has an address wait that failed often.
    fn delay(&self, address: IpAddr) {
        let count = match self.failures.lock().get(&address) {
            Some(failures) if failures.latest.elapsed() < FORGOTTEN_AFTER => failures.count,
            _ => 0,
        };
        if let Some(beyond) = count.checked_sub(FREE_FAILURES) {
            let delay = FIRST_DELAY.saturating_mul(1 << beyond.min(10));
            std::thread::sleep(delay.min(DELAY_MAX));
        }
    }

    fn note_failure(&self, address: IpAddr) {
        let mut all = self.failures.lock();
        if all.len() >= ADDRESSES_MAX {
            all.retain(|_, failures| failures.latest.elapsed() < FORGOTTEN_AFTER);
        }
        if all.len() >= ADDRESSES_MAX {
            all.clear();
        }
        let now = Instant::now();
        let failures = all.entry(address).or_insert(Failures {
            count: 0,
            latest: now,
        });
        if failures.latest.elapsed() >= FORGOTTEN_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.latest = now;
    }
}

/// The login of a connection.
#[derive(Debug)]
pub struct Login {
    peer: Option<SocketAddr>,
    /// The address of the server that the client has connected to.
    server: IpAddr,
    /// That of the client's certificate, once it is known whether it has one.
    subject: Option<Option<String>>,
    user: Option<Arc<User>>,
    /// There when somebody is logged in and connections of users are counted.
    connection: Option<UserConnection>,
    attempt: Option<(UserName, &'static str)>,
    under_way: Option<UnderWay>,
    conversations: i32,
}

#[derive(Debug)]
struct UnderWay {
    id: i32,
    name: UserName,
    /// None once the proof was good, and only an empty message is to come.
    conversation: Option<Conversation>,
    skips_empty: bool,
}

/// What the server says in a login.
#[derive(Debug)]
pub struct Answer {
    /// Which login.
    pub conversation: i32,
    /// Whether it has ended.
    pub is_done: bool,
    /// The message.
    pub payload: Vec<u8>,
}

impl Login {
    /// Nobody yet.
    pub fn new(peer: &str, server: IpAddr) -> Self {
        Self {
            peer: peer.parse().ok(),
            server,
            subject: None,
            user: None,
            connection: None,
            attempt: None,
            under_way: None,
            conversations: 0,
        }
    }

    /// Who is logged in, with the privileges as of now.
    ///
    /// # Errors
    /// Those of reading users.
    pub fn user(&mut self, access: &Access, engine: &Engine) -> Result<Option<&Arc<User>>> {
        if let Some(user) = &self.user
            && user.generation != access.generation.load(Ordering::Acquire)
        {
            self.user = access.user(engine, &user.name)?;
            self.connection.take_if(|_| self.user.is_none());
        }
        Ok(self.user.as_ref())
    }

    /// Who is logged in, as it was when its privileges were last looked up.
    pub fn logged_in(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// Who tried to log in last, and by what.
    pub fn attempt(&self) -> Option<&(UserName, &'static str)> {
        self.attempt.as_ref()
    }

    /// Who logged in last.
    pub fn name(&self) -> Option<&UserName> {
        self.user.as_ref().map(|user| &user.name)
    }

    /// Ends the login at a database.
    pub fn log_out(&mut self, database: &str) {
        if self
            .user
            .take_if(|user| user.name.database == database)
            .is_some()
        {
            self.connection = None;
        }
    }

    /// Whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        self.peer
            .is_some_and(|peer| peer.ip().to_canonical().is_loopback())
    }

    /// What somebody on this machine may do as long as there is no user: make the first.
    pub fn first_privileges() -> Privileges {
        let mut privileges = Privileges::default();
        for database in ["admin", "$external"] {
            privileges.add(Privilege {
                resource: Resource::database(database),
                actions: ActionSet::of(&["createUser", "grantRole"]),
            });
        }
        privileges
    }

    /// Tells the subject of the client's certificate, if it has one; it is asked for once.
    pub fn know_subject(&mut self, subject: impl FnOnce() -> Option<String>) {
        self.subject.get_or_insert_with(subject);
    }

    /// Logs in whom the client's certificate names, who must be the user that is named, if one is.
    ///
    /// # Errors
    /// `AuthenticationFailed`; those of [`Self::log_in`].
    pub fn log_in_by_certificate(
        &mut self,
        access: &Access,
        engine: &Engine,
        named: Option<&str>,
    ) -> Result<UserName> {
        let refused = |message| Err(Error::new(Code::AuthenticationFailed, message));
        let Some(subject) = self.subject.clone().flatten() else {
            return refused("No verified subject name available from client");
        };
        if named.is_some_and(|named| named != subject) {
            return refused("There is no x.509 client certificate matching the user.");
        }
        let name = UserName {
            user: subject,
            database: EXTERNAL.to_owned(),
        };
        self.attempt = Some((name.clone(), "MONGODB-X509"));
        let found = store::find_one(engine, Kind::Users, &name.id())?;
        if !found.is_some_and(|document| store::is_external(&document)) {
            self.refuse(access, &name);
            return Err(failed());
        }
        self.log_in(access, engine, &name)?;
        Ok(name)
    }

    /// The first message of a login at a database.
    ///
    /// # Errors
    /// `MechanismUnavailable` for other mechanisms than [`Mechanism::ALL`]; `AuthenticationFailed`.
    pub fn start(
        &mut self,
        access: &Access,
        engine: &Engine,
        database: &str,
        mechanism: &str,
        payload: &[u8],
        skips_empty: bool,
    ) -> Result<Answer> {
        (self.under_way, self.attempt) = (None, None);
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            return Err(Error::new(
                Code::MechanismUnavailable,
                format!("Received authentication for mechanism {mechanism} which is not enabled"),
            ));
        };
        let first = ClientFirst::parse(payload)?;
        let name = UserName {
            user: first.user.clone(),
            database: database.to_owned(),
        };
        self.attempt = Some((name.clone(), mechanism.name()));
        let found = store::find_one(engine, Kind::Users, &name.id())?;
        let keys = match found {
            // Clients go on with what is answered here: one that has other keys must begin anew with those.
            Some(document) => store::keys(&document, mechanism).ok_or_else(failed)?,
            // Whoever asks for a user that there is not gets as far as one who does not know the password.
            None => Keys::of_nobody(mechanism, &access.secret, &name.id()),
        };
        let (conversation, payload) = Conversation::begin(mechanism, &first, keys);
        self.conversations = self.conversations.wrapping_add(1);
        self.under_way = Some(UnderWay {
            id: self.conversations,
            name,
            conversation: Some(conversation),
            skips_empty,
        });
        Ok(Answer {
            conversation: self.conversations,
            is_done: false,
            payload,
        })
    }

    /// A further message of a login.
    ///
    /// # Errors
    /// `ProtocolError` when none is under way, or another; `AuthenticationFailed`.
    pub fn go_on(
        &mut self,
        access: &Access,
        engine: &Engine,
        id: i32,
        payload: &[u8],
    ) -> Result<Answer> {
        let protocol = |message| Err(Error::new(Code::ProtocolError, message));
        let Some(mut under_way) = self.under_way.take() else {
            return protocol("No SASL session state found");
        };
        if under_way.id != id {
            return protocol("Mismatched conversation id");
        }
        let (payload, is_done) = match under_way.conversation.take() {
            Some(conversation) => {
                let payload = self.proven(access, &under_way.name, conversation, payload)?;
                (payload, under_way.skips_empty)
            }
            None if payload.is_empty() => (Vec::new(), true),
            None => return Err(failed()),
        };
        if is_done {
            self.log_in(access, engine, &under_way.name)?;
        } else {
            self.under_way = Some(under_way);
        }
        Ok(Answer {
            conversation: id,
            is_done,
            payload,
        })
    }

    fn proven(
        &self,
        access: &Access,
        name: &UserName,
        conversation: Conversation,
        payload: &[u8],
    ) -> Result<Vec<u8>> {
        if let Some(peer) = self.peer {
            access.delay(peer.ip());
        }
        conversation
            .finish(payload)
            .inspect_err(|_| self.refuse(access, name))
    }

    fn refuse(&self, access: &Access, name: &UserName) {
        if let Some(peer) = self.peer {
            access.note_failure(peer.ip());
        }
        let peer = self.peer.map(|peer| peer.to_string());
        tracing::warn!(user = %name, peer, "a login failed");
    }

    /// Logs somebody in who has proven to be who it says.
    ///
    /// # Errors
    /// `Unauthorized` when somebody else is logged in here; `AuthenticationFailed` where it may not log in from here, or has
    /// as many connections as it may have.
    pub fn log_in(&mut self, access: &Access, engine: &Engine, name: &UserName) -> Result<()> {
        if let Some(user) = &self.user
            && user.name != *name
        {
            return Err(Error::new(
                Code::Unauthorized,
                format!(
                    "Each client connection may only be authenticated once. Previously authenticated as: {}",
                    user.name
                ),
            ));
        }
        let document = store::find_one(engine, Kind::Users, &name.id())?.ok_or_else(failed)?;
        let resolved = store::resolve(engine, &store::granted(&document))?;
        if !self.may_log_in(&document, &resolved) {
            self.refuse(access, name);
            return Err(failed());
        }
        if self.user.is_none() {
            self.connection = access.connections.add(name)?;
        }
        self.user = access.user(engine, name)?;
        let peer = self.peer.map(|peer| peer.to_string());
        tracing::info!(user = %name, peer, "logged in");
        Ok(())
    }

    /// Whether the restrictions of the user and of its roles hold; what cannot be read holds for nobody.
    fn may_log_in(&self, document: &RawDocument, resolved: &Resolved) -> bool {
        let own = store::restrictions(document);
        let all = own.iter().chain(&resolved.restrictions);
        let all: Vec<&RawDocument> = all.map(|one: &RawDocumentBuf| &**one).collect();
        if all.is_empty() {
            return true;
        }
        let (Ok(parsed), Some(peer)) = (parse_restrictions(all), self.peer) else {
            return false;
        };
        let may = |restriction: &super::Restriction| restriction.allows(peer.ip(), self.server);
        parsed.iter().all(may)
    }
}

/// The mechanisms that a user may log in by; those of somebody that there is not are all.
pub fn mechanisms_of(engine: &Engine, name: &UserName) -> Result<Vec<String>> {
    let found = store::find_one(engine, Kind::Users, &name.id())?;
    let known = found.map(|document| store::mechanisms(&document));
    Ok(known.unwrap_or_else(|| {
        let all = scram::Mechanism::ALL.iter();
        all.map(|mechanism| mechanism.name().to_owned()).collect()
    }))
}
