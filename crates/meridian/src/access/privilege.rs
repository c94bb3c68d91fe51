//! Privileges: actions on resources.
//!
//! In: documents of roles, and what a command is about to do. Out: whether somebody may.

use super::action::ActionSet;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use indexmap::IndexMap;
use meridian_engine::{Code, Error, Result};

/// What actions are done to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The server.
    Cluster,
    /// Everything.
    Any,
    /// The buckets of time-series collections, of one database and collection or (empty) of all.
    SystemBuckets(String, String),
    /// A database and a collection. An empty collection stands for all of the database that are not `system.`'s, an
    /// empty database for all but `local` and `config` where the collection is empty too.
    Collection(String, String),
}

/// Actions on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// On what.
    pub resource: Resource,
    /// What may be done.
    pub actions: ActionSet,
}

/// What somebody may do: one privilege a resource, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges(IndexMap<Resource, ActionSet>);

impl Resource {
    /// A whole database.
    pub fn database(database: &str) -> Self {
        Self::Collection(database.to_owned(), String::new())
    }

    /// Whether a privilege on this resource is one on `target`, which is the cluster, a database or a collection.
    ///
    /// The rules are those of `buildResourceSearchList` of MongoDB 6.0.
    fn covers(&self, target: &Self) -> bool {
        match (self, target) {
            (Self::Any, _) => true,
            (Self::Collection(database, collection), Self::Collection(of, name)) => {
                let is_plain = !name.starts_with("system.");
                match (database.is_empty(), collection.is_empty()) {
                    (true, true) => is_plain && !matches!(of.as_str(), "local" | "config"),
                    (true, false) => collection == name,
                    (false, true) => database == of && is_plain,
                    (false, false) => database == of && collection == name,
                }
            }
            (Self::SystemBuckets(database, collection), Self::Collection(of, name)) => {
                name.strip_prefix("system.buckets.").is_some_and(|buckets| {
                    (database.is_empty() || database == of)
                        && (collection.is_empty() || collection == buckets)
                })
            }
            _ => self == target,
        }
    }

    /// Parses `{cluster: true}`, `{anyResource: true}` and `{db: ..., collection: ...}`.
    fn parse(document: &RawDocument) -> Result<Self> {
        let (mut database, mut collection) = (None, None);
        let (mut cluster, mut any, mut buckets) = (false, false, None);
        for (name, value) in document.iter().flatten() {
            match (name.as_str(), value) {
                ("db", RawBsonRef::String(name)) => database = Some(name.to_owned()),
                ("collection", RawBsonRef::String(name)) => collection = Some(name.to_owned()),
                ("system_buckets", RawBsonRef::String(name)) => buckets = Some(name.to_owned()),
                ("cluster", RawBsonRef::Boolean(flag)) => cluster = flag,
                ("anyResource", RawBsonRef::Boolean(flag)) => any = flag,
                (name @ ("db" | "collection" | "system_buckets"), other) => {
                    return Err(wrong_type(name, other, "string"));
                }
                (name @ ("cluster" | "anyResource"), other) => {
                    return Err(wrong_type(name, other, "bool"));
                }
                _ => {}
            }
        }
        let kinds = usize::from(cluster)
            + usize::from(any)
            + usize::from(buckets.is_some())
            + usize::from(buckets.is_none() && (database.is_some() || collection.is_some()));
        if kinds != 1 {
            return Err(failed_to_parse(
                "resource must have exactly db and collection set, or have only cluster set  or have only \
                 anyResource set",
            ));
        }
        match (buckets, database, collection) {
            (Some(buckets), database, _) => {
                Ok(Self::SystemBuckets(database.unwrap_or_default(), buckets))
            }
            (None, Some(database), Some(collection)) => Ok(Self::Collection(database, collection)),
            (None, None, None) if cluster => Ok(Self::Cluster),
            (None, None, None) => Ok(Self::Any),
            _ => Err(failed_to_parse(
                "resource must set both db and collection or neither, but not exactly one.",
            )),
        }
    }

    fn to_document(&self) -> RawDocumentBuf {
        match self {
            Self::Cluster => rawdoc! { "cluster": true },
            Self::Any => rawdoc! { "anyResource": true },
            Self::SystemBuckets(database, buckets) if database.is_empty() => {
                rawdoc! { "system_buckets": buckets.as_str() }
            }
            Self::SystemBuckets(database, buckets) => {
                rawdoc! { "db": database.as_str(), "system_buckets": buckets.as_str() }
            }
            Self::Collection(database, collection) => {
                rawdoc! { "db": database.as_str(), "collection": collection.as_str() }
            }
        }
    }
}

fn failed_to_parse(message: impl Into<String>) -> Error {
    Error::new(Code::FailedToParse, message)
}

fn wrong_type(name: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = meridian_engine::types::type_name(value.element_type());
    Error::type_mismatch(format!(
        "wrong type for '{name}' field, expected {expected}, found {found}"
    ))
}

impl Privilege {
    /// Parses `{resource: {...}, actions: [...]}`.
    ///
    /// # Errors
    /// `FailedToParse` for its shape, `BadValue` for actions that there are not.
    pub fn parse(document: &RawDocument) -> Result<Self> {
        let resource = match document.get("resource") {
            Ok(Some(RawBsonRef::Document(resource))) => resource,
            Ok(None) => return Err(failed_to_parse("missing resource field")),
            _ => return Err(failed_to_parse("resource must be an object")),
        };
        let names = match document.get("actions") {
            Ok(Some(RawBsonRef::Array(names))) => names,
            Ok(None) => return Err(failed_to_parse("missing actions field")),
            _ => return Err(failed_to_parse("actions must be an array")),
        };
        let mut actions = ActionSet::default();
        let mut unknown = Vec::new();
        for name in names.into_iter().flatten() {
            let Some(name) = name.as_str() else {
                return Err(wrong_type("actions", name, "string"));
            };
            match ActionSet::parse(name) {
                Some(action) => actions = actions.and(action),
                None => unknown.push(name),
            }
        }
        match unknown.as_slice() {
            [] if actions.is_empty() => return Err(failed_to_parse("missing actions field")),
            [] => {}
            [one] => return Err(Error::bad_value(format!("Unrecognized action: {one}"))),
            many => {
                let message = format!("Unrecognized actions: {}", many.join(","));
                return Err(Error::bad_value(message));
            }
        }
        Ok(Self {
            resource: Resource::parse(resource)?,
            actions,
        })
    }

    /// As MongoDB's documents of roles have it.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut actions = RawArrayBuf::new();
        for name in self.actions.names() {
            actions.push(name);
        }
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("resource"), self.resource.to_document());
        document.append(cstr!("actions"), actions);
        document
    }
}

impl Privileges {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Privilege> {
        self.0.iter().map(|(resource, actions)| Privilege {
            resource: resource.clone(),
            actions: *actions,
        })
    }

    /// Whether all these actions may be done to the target.
    pub fn allow(&self, target: &Resource, actions: &ActionSet) -> bool {
        let mut missing = *actions;
        for (resource, own) in &self.0 {
            if resource.covers(target) {
                missing = missing.without(*own);
            }
        }
        missing.is_empty()
    }

    /// Whether there is any action on any resource of a database.
    pub fn touch_database(&self, database: &str) -> bool {
        let is_special = matches!(database, "local" | "config");
        self.0.keys().any(|resource| match resource {
            Resource::Cluster => false,
            Resource::Any => true,
            Resource::Collection(of, collection) if of.is_empty() && collection.is_empty() => {
                !is_special
            }
            Resource::SystemBuckets(of, _) | Resource::Collection(of, _) => {
                of.is_empty() || of == database
            }
        })
    }

    /// Whether there is any action on a collection.
    pub fn touch_collection(&self, database: &str, collection: &str) -> bool {
        let target = Resource::Collection(database.to_owned(), collection.to_owned());
        self.0.keys().any(|resource| resource.covers(&target))
    }

    /// Adds a privilege to those on the same resource.
    pub fn add(&mut self, privilege: Privilege) {
        let own = self.0.entry(privilege.resource).or_default();
        *own = own.and(privilege.actions);
    }

    /// Takes actions on resources away.
    pub fn remove(&mut self, others: &Self) {
        for (resource, actions) in &others.0 {
            if let Some(own) = self.0.get_mut(resource) {
                *own = own.without(*actions);
            }
        }
        self.0.retain(|_, own| !own.is_empty());
    }

    /// Adds all of the others'.
    pub fn extend(&mut self, others: &Self) {
        others.all().for_each(|other| self.add(other));
    }

    /// As an array of documents.
    pub fn to_array(&self) -> RawArrayBuf {
        let mut array = RawArrayBuf::new();
        self.all().for_each(|own| array.push(own.to_document()));
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(database: &str, collection: &str) -> Resource {
        Resource::Collection(database.to_owned(), collection.to_owned())
    }

    #[test]
    fn resources_cover_what_mongodb_says() {
        let any = collection("", "");
        assert!(any.covers(&collection("d", "c")) && any.covers(&collection("d", "")));
        for special in [("local", "c"), ("config", ""), ("d", "system.users")] {
            assert!(
                !any.covers(&collection(special.0, special.1)),
                "{special:?}"
            );
            assert!(Resource::Any.covers(&collection(special.0, special.1)));
        }
        assert!(collection("local", "").covers(&collection("local", "c")));
        assert!(!collection("d", "").covers(&collection("d", "system.js")));
        assert!(collection("", "system.js").covers(&collection("d", "system.js")));
        assert!(!collection("d", "c").covers(&collection("d", "")));
        assert!(!any.covers(&Resource::Cluster) && Resource::Any.covers(&Resource::Cluster));
        let buckets = Resource::SystemBuckets(String::new(), String::new());
        assert!(buckets.covers(&collection("d", "system.buckets.c")));
        assert!(!buckets.covers(&collection("d", "c")));
    }

    #[test]
    fn actions_may_come_from_several_privileges() {
        let mut privileges = Privileges::default();
        let find = ActionSet::of(&["find"]);
        let insert = ActionSet::of(&["insert"]);
        privileges.add(Privilege {
            resource: collection("d", ""),
            actions: find,
        });
        privileges.add(Privilege {
            resource: collection("d", "c"),
            actions: insert,
        });
        assert!(privileges.allow(&collection("d", "c"), &find.and(insert)));
        assert!(!privileges.allow(&collection("d", "e"), &find.and(insert)));
        let mut removed = Privileges::default();
        removed.add(Privilege {
            resource: collection("d", "c"),
            actions: insert,
        });
        privileges.remove(&removed);
        assert_eq!(privileges.all().count(), 1);
    }
}
