//! Access control: who somebody is, and what they may do.
//!
//! In: a connection's messages of a login, and for each command what it is about to do to what. Out: yes or no.
//! [`scram`] is the login by a password; [`privilege`] is what may be done, made of the built-in roles ([`builtin`]) and
//! of those in the [`store`]. Deliberately absent: what a command needs (its row of the table of commands says so).

/// The database of users who are known elsewhere: by certificates.
pub const EXTERNAL: &str = "$external";

mod action;
mod builtin;
pub mod client;
mod connections;
mod credentials;
mod login;
mod names;
mod privilege;
mod restriction;
pub mod scram;
pub mod store;

pub use action::ActionSet;
pub use builtin::of_database as builtin_roles;
pub use builtin::{BuiltinRole, find as builtin_role};
pub use credentials::credentials;
pub use login::{Access, Answer, Login, User, mechanisms_of};
pub use names::{RoleName, UserName};
pub use privilege::{Privilege, Privileges, Resource};
pub use restriction::{Restriction, parse_restrictions};
