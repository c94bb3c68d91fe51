//! A database and a collection name, checked once with MongoDB's rules.

use crate::error::{Code, Error, Result};
use meridian_value::text::is_marked;
use std::fmt;

/// Longest database name in bytes.
pub const DATABASE_NAME_BYTES_MAX: usize = 63;
/// Longest `database.collection` in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 255;

/// The change log of the master/slave replication that MongoDB 4.0 has given up: the one name with a `$` that is
/// valid. Tools look for it, and for `local.oplog.rs`, to see whether there is one. Nobody can create it.
const MASTER_OPLOG: (&str, &str) = ("local", "oplog.$main");

/// `database.collection`, both valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The database's name.
    pub database: String,
    /// The collection's name; may contain dots.
    pub collection: String,
}

impl Namespace {
    /// The namespace of these two names.
    ///
    /// # Errors
    /// `InvalidNamespace` (73) for names MongoDB refuses.
    pub fn new(database: &str, collection: &str) -> Result<Self> {
        check_database_name(database)?;
        let whole = || format!("{database}.{collection}");
        if collection.starts_with('.') {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Collection names cannot start with '.': {collection}"),
            ));
        }
        // Names are shown in more places than values are, and by tools that expect text.
        if is_marked(collection.as_bytes()) {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Collection names must be valid UTF-8: {collection}"),
            ));
        }
        let bad = collection.is_empty() || collection.contains('\0');
        if bad {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid namespace specified '{}'", whole()),
            ));
        }
        if collection.contains('$') && (database, collection) != MASTER_OPLOG {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid collection name: {collection}"),
            ));
        }
        if database.len() + 1 + collection.len() > NAMESPACE_BYTES_MAX {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!(
                    "Fully qualified namespace is too long. Namespace: {} Max: {NAMESPACE_BYTES_MAX}",
                    whole()
                ),
            ));
        }
        Ok(Self {
            database: database.to_owned(),
            collection: collection.to_owned(),
        })
    }
}

/// What `system.` collections users may create themselves: source is `userAllowedCreateNS` of
/// MongoDB 6.0, without what only replica sets and shards have.
const SYSTEM_COLLECTIONS: &[&str] = &[
    "system.js",
    "system.profile",
    "system.users",
    "system.views",
];

impl Namespace {
    /// Checks that users may create this collection.
    ///
    /// # Errors
    /// `InvalidNamespace` for a collection under `system.` that is not theirs, and for one with a `$`.
    pub fn check_creatable(&self) -> Result<()> {
        let name = self.collection.as_str();
        if name.contains('$') {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid collection name: {name}"),
            ));
        }
        if name.contains(".system.") {
            return Err(Error::bad_value(format!("Invalid namespace: {self}")));
        }
        let theirs = SYSTEM_COLLECTIONS.contains(&name)
            || name
                .strip_prefix("system.buckets.")
                .is_some_and(|series| !series.is_empty());
        if self.is_system() && !theirs && !(self.database == "admin" && name == "system.version") {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid system namespace: {self}"),
            ));
        }
        Ok(())
    }

    /// Checks that users may write to this collection.
    ///
    /// # Errors
    /// As [`Self::check_creatable`]; also for what the server itself writes.
    pub fn check_writable(&self) -> Result<()> {
        self.check_creatable()?;
        if matches!(self.collection.as_str(), "system.profile" | "system.views") {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("cannot write to {self}"),
            ));
        }
        Ok(())
    }

    /// Checks that users may drop this collection.
    ///
    /// # Errors
    /// `IllegalOperation` for what the server keeps of its users and for its functions.
    pub fn check_droppable(&self) -> Result<()> {
        let name = self.collection.as_str();
        let is_made_anew = matches!(name, "system.profile" | "system.views")
            || name.starts_with("system.buckets.");
        if !self.is_system() || is_made_anew {
            return Ok(());
        }
        Err(Error::new(
            Code::IllegalOperation,
            format!("can't drop system collection {self}"),
        ))
    }

    /// Checks that the collection may have a validator.
    ///
    /// # Errors
    /// `InvalidOptions` in the server's own databases.
    pub fn check_validatable(&self) -> Result<()> {
        let database = self.database.as_str();
        if !matches!(database, "admin" | "config" | "local") {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidOptions,
            format!(
                "Document validators are not allowed on collection {self} in the {database} internal database"
            ),
        ))
    }

    /// Whether it is a name that MongoDB gives change logs.
    pub fn is_oplog(&self) -> bool {
        self.database == "local" && self.collection.starts_with("oplog.")
    }

    /// Whether the collection's name begins with `system.`.
    pub fn is_system(&self) -> bool {
        self.collection.starts_with("system.")
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.database, self.collection)
    }
}

/// Checks a database's name.
///
/// # Errors
/// `InvalidNamespace` (73).
pub fn check_database_name(database: &str) -> Result<()> {
    let bad = database.is_empty()
        || database.len() > DATABASE_NAME_BYTES_MAX
        || is_marked(database.as_bytes())
        || database.contains(['/', '\\', '.', ' ', '"', '$', '\0']);
    if bad {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid database name: '{database}'"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_as_mongod_refuses_them() {
        for (database, collection) in [
            ("", "c"),
            ("a.b", "c"),
            ("a b", "c"),
            ("d", ""),
            ("d", ".c"),
            ("d", "$c"),
            ("d", "c\u{10ffff}\u{ff}"),
            ("d\u{10ffff}\u{ff}", "c"),
            ("d", "oplog.$main"),
            ("local", "oplog.$mai"),
            ("local", "oplog.$main.x"),
            ("local", "x.oplog.$main"),
            ("local", "$main"),
        ] {
            let error = Namespace::new(database, collection).unwrap_err();
            assert_eq!(
                error.code,
                Code::InvalidNamespace,
                "{database} {collection}"
            );
        }
        let longest = "c".repeat(NAMESPACE_BYTES_MAX - 2);
        assert!(Namespace::new("d", &longest).is_ok());
        assert!(Namespace::new("d", &format!("{longest}c")).is_err());
        assert!(Namespace::new("d", "c.").is_ok());
    }

    #[test]
    fn system_collections_are_the_servers() {
        let check = |database, name| {
            let namespace = Namespace::new(database, name).unwrap();
            (
                namespace.check_creatable().is_ok(),
                namespace.check_writable().is_ok(),
            )
        };
        assert_eq!(check("d", "system.foo"), (false, false));
        assert_eq!(check("d", "a.system.b"), (false, false));
        assert_eq!(check("d", "system.views"), (true, false));
        assert_eq!(check("d", "system.js"), (true, true));
        assert_eq!(check("admin", "system.version"), (true, true));
        assert_eq!(check("d", "systems"), (true, true));
        assert_eq!(check("local", "oplog.$main"), (false, false));
        assert_eq!(check("local", "oplog.rs"), (true, true));
    }
}
