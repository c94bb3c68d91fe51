//! Names of users and roles: each belongs to a database.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_engine::{Code, Error, Result};
use std::fmt;

/// A user's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName {
    /// Its own.
    pub user: String,
    /// The database that it logs in at.
    pub database: String,
}

/// A role's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoleName {
    /// Its own.
    pub role: String,
    /// The database it belongs to.
    pub database: String,
}

impl UserName {
    /// Parses `"name"`, of a database, or `{user: ..., db: ...}`.
    ///
    /// # Errors
    /// `BadValue` for anything else.
    pub fn parse(value: RawBsonRef<'_>, database: &str) -> Result<Self> {
        match value {
            RawBsonRef::String(user) => Ok(Self {
                user: user.to_owned(),
                database: database.to_owned(),
            }),
            RawBsonRef::Document(document) => {
                let [user, database] = pair(document, ["user", "db"], "UserName")?;
                Ok(Self { user, database })
            }
            _ => Err(Error::bad_value(
                "UserName must be either a string or an object",
            )),
        }
    }

    /// The `_id` of its document.
    pub fn id(&self) -> String {
        format!("{}.{}", self.database, self.user)
    }
}

impl RoleName {
    /// Parses `"name"`, of a database, or `{role: ..., db: ...}`.
    ///
    /// # Errors
    /// `BadValue` for anything else.
    pub fn parse(value: RawBsonRef<'_>, database: &str) -> Result<Self> {
        match value {
            RawBsonRef::String(role) => Ok(Self {
                role: role.to_owned(),
                database: database.to_owned(),
            }),
            RawBsonRef::Document(document) => {
                let [role, database] = pair(document, ["role", "db"], "RoleName")?;
                check_database(&database)?;
                Ok(Self { role, database })
            }
            _ => Err(Error::bad_value(
                "Role name must be either a document or string",
            )),
        }
    }

    /// The `_id` of its document.
    pub fn id(&self) -> String {
        format!("{}.{}", self.database, self.role)
    }

    /// As a document.
    pub fn to_document(&self) -> RawDocumentBuf {
        rawdoc! { "role": self.role.as_str(), "db": self.database.as_str() }
    }
}

/// Refuses what cannot be the name of a database, in MongoDB's words.
fn check_database(database: &str) -> Result<()> {
    let refused = |message| Err(Error::new(Code::InvalidNamespace, message));
    match database.find(['\0', '.']) {
        None => Ok(()),
        Some(at) if database[at..].starts_with('.') => refused(format!(
            "'.' is an invalid character in the database name: {database}"
        )),
        Some(_) => refused("namespaces cannot have embedded null characters".to_owned()),
    }
}

fn pair(document: &RawDocument, names: [&str; 2], what: &str) -> Result<[String; 2]> {
    let text = |name: &str| match document.get(name) {
        Ok(Some(RawBsonRef::String(text))) => Ok(text.to_owned()),
        Ok(None) => Err(Error::bad_value(format!(
            "{what} must contain a field named: {name}"
        ))),
        _ => Err(Error::bad_value(format!(
            "{what} must contain a string field named: {name}"
        ))),
    };
    Ok([text(names[0])?, text(names[1])?])
}

impl fmt::Display for UserName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.user, self.database)
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.role, self.database)
    }
}
