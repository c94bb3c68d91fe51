//! One request on its way through a command.

use super::arguments::{Arguments, collection_name, elements, field, present};
use super::generic::{self, Generic};
use crate::access::{Privileges, UserName};
use crate::service::{Client, Service, SessionName};
use bson::cstr;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::text::document_text;
use meridian_engine::{Code, CursorOwner, Engine, Error, Namespace, Result};
use meridian_wire::Sequence;

/// What a command's function is given.
pub struct Context<'a> {
    /// Shared with all requests.
    pub service: &'a Service,
    /// Who asks.
    pub client: &'a mut Client,
    /// The request's document.
    pub body: &'a RawDocument,
    /// Documents that travel beside it.
    pub sequences: &'a [Sequence<'a>],
    /// What every command may carry, checked.
    pub generic: Generic<'a>,
    /// `ok` is a 32-bit integer in the reply: mongod makes that of a view's pipeline.
    pub is_ok_integer: bool,
}

impl<'a> Context<'a> {
    /// The database engine.
    pub fn engine(&self) -> &'a Engine {
        &self.service.engine
    }

    /// Whose the cursors are that are opened now.
    pub fn cursor_owner(&self) -> CursorOwner {
        CursorOwner {
            session: self.generic.session.map(|id| self.session(id).key()),
            user: self.client.login.name().map(UserName::id),
            api: self.api_parameters(),
        }
    }

    /// What the command says of API versions, as messages show it.
    pub fn api_parameters(&self) -> String {
        let mut said = RawDocumentBuf::new();
        for name in [
            cstr!("apiVersion"),
            cstr!("apiStrict"),
            cstr!("apiDeprecationErrors"),
        ] {
            if let Some(value) = field(self.body, name.as_str()).and_then(present) {
                said.append(name, value);
            }
        }
        match said.is_empty() {
            true => String::new(),
            false => document_text(&said),
        }
    }

    /// What whoever asks may do; `None` where everything is allowed.
    ///
    /// # Errors
    /// Those of reading users.
    pub fn privileges(&mut self) -> Result<Option<Privileges>> {
        let access = &self.service.access;
        if !access.is_enabled {
            return Ok(None);
        }
        let user = self.client.login.user(access, &self.service.engine)?;
        let privileges = user.map(|user| user.privileges.clone());
        Ok(Some(privileges.unwrap_or_default()))
    }

    /// A session of this user: another's with the same identifier is another.
    pub fn session(&self, id: [u8; 16]) -> SessionName {
        SessionName {
            id,
            user: self.client.login.name().cloned(),
        }
    }

    /// Remembers that the command's session is used.
    pub fn note_session(&mut self) {
        if let Some(id) = self.generic.session {
            let (login, noted) = (&self.client.login, &mut self.client.noted_session);
            self.service.sessions.note(id, login.name(), noted);
        }
    }

    /// The value of the first field, whose name is the command's.
    pub fn value(&self) -> RawBsonRef<'a> {
        elements(self.body)
            .next()
            .map_or(RawBsonRef::Null, |(_, value)| value)
    }

    /// The first field's name, the command's.
    pub fn command_name(&self) -> &'a str {
        elements(self.body).next().map_or("", |(name, _)| name)
    }

    /// The command's own fields: neither its name nor what every command may carry.
    pub fn arguments(&self, scope: &'static str, known: &[&str]) -> Result<Arguments<'a>> {
        let own = elements(self.body)
            .skip(1)
            .filter(|(name, _)| !generic::is_generic(name));
        Arguments::collect(scope, own, known)
    }

    /// As [`Self::arguments`], for commands whose other fields MongoDB does not look at.
    pub fn known_arguments(&self, scope: &'static str, known: &[&str]) -> Result<Arguments<'a>> {
        let own = elements(self.body).skip(1);
        Arguments::collect(scope, own.filter(|(name, _)| known.contains(name)), known)
    }

    /// The collection that the command's value names.
    ///
    /// # Errors
    /// `BadValue` if it is not a string, `InvalidNamespace` if the name is refused.
    pub fn namespace(&self) -> Result<Namespace> {
        self.namespace_or(Code::BadValue)
    }

    /// [`Self::namespace`] for the commands that answer a wrong type with another code.
    pub fn namespace_or(&self, wrong_type: Code) -> Result<Namespace> {
        Namespace::new(
            self.generic.database,
            collection_name(self.value(), wrong_type)?,
        )
    }

    /// [`Self::namespace`] for commands that write to the collection.
    pub fn write_namespace(&self) -> Result<Namespace> {
        let namespace = self.namespace()?;
        namespace.check_writable()?;
        Ok(namespace)
    }

    /// [`Self::namespace`] for `find`, `count` and `distinct`, which word a `$` in it differently.
    pub fn read_namespace(&self) -> Result<Namespace> {
        // A find is told otherwise.
        let code = match self.command_name() {
            "count" | "distinct" => Code::InvalidNamespace,
            _ => Code::BadValue,
        };
        let collection = collection_name(self.value(), code)?;
        let database = self.generic.database;
        match Namespace::new(database, collection) {
            Err(_) if collection.contains('$') => {
                // MongoDB's message lacks the closing quote too.
                let message = format!("Invalid collection name specified '{database}.{collection}");
                Err(Error::new(Code::InvalidNamespace, message))
            }
            other => other,
        }
    }

    /// Whether a collection exists.
    pub fn exists(&self, namespace: &Namespace) -> bool {
        self.engine().has_collection(namespace)
    }

    /// The documents of a field that may be an array in the body or a document sequence.
    pub fn documents(&self, arguments: &Arguments<'a>, name: &str) -> Result<Vec<&'a RawDocument>> {
        let inline = arguments.documents(name)?;
        match (
            inline,
            self.sequences
                .iter()
                .find(|sequence| sequence.identifier == name),
        ) {
            (None, Some(sequence)) => Ok(sequence.documents().collect()),
            (Some(documents), None) => Ok(documents),
            (None, None) => Err(arguments.missing(name)),
            (Some(_), Some(_)) => Err(Error::location(
                40413,
                format!("Duplicate field between body and document sequence {name}"),
            )),
        }
    }
}
