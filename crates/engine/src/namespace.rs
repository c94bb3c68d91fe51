//! A database and a collection name, checked once with MongoDB's rules.

use crate::error::{Code, Error, Result};
use std::fmt;

/// Longest database name in bytes.
pub const DATABASE_NAME_BYTES_MAX: usize = 63;
/// Longest `database.collection` in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 255;

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
        let whole = format!("{database}.{collection}");
        let bad = collection.is_empty()
            || collection.starts_with('.')
            || collection.ends_with('.')
            || collection.contains('\0');
        if bad {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid namespace specified '{whole}'"),
            ));
        }
        if collection.contains('$') {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Invalid collection name: {collection}"),
            ));
        }
        if whole.len() > NAMESPACE_BYTES_MAX {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!(
                    "Fully qualified namespace is too long. Namespace: {whole} Max: {NAMESPACE_BYTES_MAX}"
                ),
            ));
        }
        Ok(Self {
            database: database.to_owned(),
            collection: collection.to_owned(),
        })
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
            ("d", "c."),
            ("d", "$c"),
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
        assert!(Namespace::new("d", "system.views.x").is_ok());
    }
}
