//! What every command may carry, checked in one place: the database, the session, read and
//! write concern, the time limit, the API version.

use super::aggregate::has_output;
use super::arguments::{
    Arguments, INTEGERS, below_minimum, elements, integer, present, type_name, wrong_type,
};
use super::concerns::{WriteConcern, check_read_concern, parse_write_concern};
use super::privileges::Needs;
use super::read_preference::check_read_preference;
use super::strict_api;
use super::table::Command;
use crate::access::EXTERNAL;
use crate::cli::Settings;
use crate::service::OperationClass;
use bson::raw::{RawBsonRef, RawDocument};
use bson::spec::BinarySubtype;
use meridian_engine::check_database_name;
use meridian_engine::{Code, Error, Result};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// So many names are compared one by one.
const FEW_NAMES: usize = 16;
/// So many are remembered: a message holds millions, and a command that has more than it knows refuses them anyway.
const NAMES_MAX: usize = 4_096;
/// A user in a session's name is a SHA-256.
const USER_DIGEST_BYTES: usize = 32;

/// The checked values.
#[derive(Debug, Clone)]
pub struct Generic<'a> {
    /// The database to run against.
    pub database: &'a str,
    /// The session's identifier.
    pub session: Option<[u8; 16]>,
    /// When `maxTimeMS` will have passed.
    pub deadline: Option<Instant>,
    /// What is asked of writes.
    pub write_concern: WriteConcern,
}

impl<'a> Generic<'a> {
    /// For requests that have no such fields: the legacy hello.
    pub fn legacy(database: &'a str) -> Self {
        Self {
            database,
            session: None,
            deadline: None,
            write_concern: WriteConcern::default(),
        }
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// MongoDB's, by field.
    pub fn parse(command: &Command, body: &'a RawDocument, settings: &Settings) -> Result<Self> {
        let fields = Fields::collect(body)?;
        let database = parse_database(fields.database, command)?;
        if command.admin_only && database != "admin" {
            let message = format!(
                "{} may only be run against the admin database.",
                command.name
            );
            return Err(Error::new(Code::Unauthorized, message));
        }
        if fields.max_time_ms_of_operation.is_some() {
            let message = "Can not specify maxTimeMSOpOnly for non internal clients";
            return Err(Error::new(Code::InvalidOptions, message));
        }
        if check_api_version(&fields, command)? {
            strict_api::check(command.name, body)?;
        }
        let lsid = fields.lsid.and_then(present);
        let session = lsid.map(parse_session).transpose()?;
        refuse_transactions(&fields, command)?;
        fields.operation_key.map(check_operation_key).transpose()?;
        fields
            .read_preference
            .map(check_read_preference)
            .transpose()?;
        let write_concern = match fields.write_concern {
            None => WriteConcern::default(),
            Some(concern) => parse_write_concern(concern, command, settings.journal)?,
        };
        let deadline = match fields.max_time_ms {
            None => None,
            Some(limit) => parse_max_time(limit, command)?,
        };
        if let Some(concern) = fields.read_concern {
            check_read_concern(concern, command)?;
        }
        // Reads that have no limit of their own; the next batch of a cursor has what was left of the first.
        let default = settings.default_max_time.filter(|_| {
            command.class == OperationClass::Read
                && command.name != "getMore"
                && fields.max_time_ms.is_none()
                && !has_output(command.name, body)
        });
        let deadline = deadline.or(default.and_then(|limit| Instant::now().checked_add(limit)));
        Ok(Self {
            database,
            session,
            deadline,
            write_concern,
        })
    }
}

/// Whether any command may have a field of this name.
pub fn is_generic(name: &str) -> bool {
    matches!(
        name,
        "$db"
            | "lsid"
            | "txnNumber"
            | "autocommit"
            | "startTransaction"
            | "$clusterTime"
            | "$readPreference"
            | "$audit"
            | "$client"
            | "$configServerState"
            | "$configTime"
            | "$oplogQueryData"
            | "$queryOptions"
            | "$replData"
            | "$topologyTime"
            | "readConcern"
            | "writeConcern"
            | "apiVersion"
            | "apiStrict"
            | "apiDeprecationErrors"
            | "comment"
            | "maxTimeMS"
            | "maxTimeMSOpOnly"
            | "allowImplicitCollectionCreation"
            | "clientOperationKey"
            | "coordinator"
            | "stmtId"
            | "databaseVersion"
            | "shardVersion"
            | "mayBypassWriteBlocking"
    )
}

#[derive(Default)]
struct Fields<'a> {
    database: Option<RawBsonRef<'a>>,
    lsid: Option<RawBsonRef<'a>>,
    txn_number: Option<RawBsonRef<'a>>,
    autocommit: Option<RawBsonRef<'a>>,
    start_transaction: Option<RawBsonRef<'a>>,
    read_preference: Option<RawBsonRef<'a>>,
    read_concern: Option<RawBsonRef<'a>>,
    write_concern: Option<RawBsonRef<'a>>,
    api_version: Option<RawBsonRef<'a>>,
    api_strict: Option<RawBsonRef<'a>>,
    api_deprecation_errors: Option<RawBsonRef<'a>>,
    max_time_ms: Option<RawBsonRef<'a>>,
    max_time_ms_of_operation: Option<RawBsonRef<'a>>,
    coordinator: Option<RawBsonRef<'a>>,
    operation_key: Option<RawBsonRef<'a>>,
}

impl<'a> Fields<'a> {
    /// # Errors
    /// A field that is there twice, whatever its name.
    fn collect(body: &'a RawDocument) -> Result<Self> {
        let mut fields = Self::default();
        let mut names = SeenNames::default();
        for (number, (name, value)) in elements(body).enumerate() {
            if !names.is_new(name) {
                let message =
                    format!("BSON field 'APIParametersFromClient.{name}' is a duplicate field");
                return Err(Error::location(40413, message));
            }
            if number == 0 {
                continue;
            }
            let field = match name {
                "$db" => &mut fields.database,
                "lsid" => &mut fields.lsid,
                "txnNumber" => &mut fields.txn_number,
                "autocommit" => &mut fields.autocommit,
                "startTransaction" => &mut fields.start_transaction,
                "$readPreference" => &mut fields.read_preference,
                "readConcern" => &mut fields.read_concern,
                "writeConcern" => &mut fields.write_concern,
                "apiVersion" => &mut fields.api_version,
                "apiStrict" => &mut fields.api_strict,
                "apiDeprecationErrors" => &mut fields.api_deprecation_errors,
                "maxTimeMS" => &mut fields.max_time_ms,
                "maxTimeMSOpOnly" => &mut fields.max_time_ms_of_operation,
                "coordinator" => &mut fields.coordinator,
                "clientOperationKey" => &mut fields.operation_key,
                _ => continue,
            };
            *field = Some(value);
        }
        Ok(fields)
    }
}

/// Names of fields, few of them mostly.
#[derive(Default)]
struct SeenNames<'a> {
    few: SmallVec<[&'a str; FEW_NAMES]>,
    many: HashSet<&'a str>,
}

impl<'a> SeenNames<'a> {
    fn is_new(&mut self, name: &'a str) -> bool {
        if self.few.len() < FEW_NAMES {
            let is_new = !self.few.contains(&name);
            self.few.push(name);
            return is_new;
        }
        let is_known = self.few.contains(&name) || self.many.contains(name);
        if !is_known && self.many.len() < NAMES_MAX {
            self.many.insert(name);
        }
        !is_known
    }
}

fn parse_database<'a>(value: Option<RawBsonRef<'a>>, command: &Command) -> Result<&'a str> {
    let Some(value) = value else {
        return Err(Error::location(
            40571,
            "OP_MSG requests require a $db argument",
        ));
    };
    let Some(name) = value.as_str() else {
        let message = format!("wrong type for field ($db) {} != string", type_name(value));
        return Err(Error::location(13111, message));
    };
    if name.contains('.') {
        let message = format!("'.' is an invalid character in the database name: {name}");
        return Err(Error::new(Code::InvalidNamespace, message));
    }
    match name {
        EXTERNAL if command.is_about_users => Ok(name),
        _ => check_database_name(name).map(|()| name),
    }
}

/// Whether only what is in the version is wanted.
fn check_api_version(fields: &Fields<'_>, command: &Command) -> Result<bool> {
    let strict = boolean(fields.api_strict, "APIParametersFromClient.apiStrict")?;
    let errors = fields.api_deprecation_errors;
    boolean(errors, "APIParametersFromClient.apiDeprecationErrors")?;
    let Some(version) = fields.api_version.and_then(present) else {
        if strict.is_some() || errors.and_then(present).is_some() {
            let message =
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            return Err(Error::location(4_886_600, message));
        }
        return Ok(false);
    };
    let Some(version) = version.as_str() else {
        return Err(wrong_type(
            "APIParametersFromClient.apiVersion",
            version,
            &["string"],
        ));
    };
    if version != "1" {
        let message = match version.parse::<i32>() {
            Ok(_) => format!("Cannot accept API version {version}"),
            Err(_) => "API version must be \"1\"".to_owned(),
        };
        return Err(Error::new(Code::APIVersionError, message));
    }
    if strict == Some(true) && !command.stable_api {
        let message = format!(
            "Provided apiStrict:true, but the command {} is not in API Version 1. Information on \
             supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api",
            command.name
        );
        return Err(Error::new(Code::APIStrictError, message));
    }
    Ok(strict == Some(true))
}

/// A boolean and nothing else; null is absent.
fn boolean(value: Option<RawBsonRef<'_>>, path: &str) -> Result<Option<bool>> {
    match value.and_then(present) {
        None => Ok(None),
        Some(RawBsonRef::Boolean(value)) => Ok(Some(value)),
        Some(other) => Err(wrong_type(path, other, &["bool"])),
    }
}

fn parse_session(value: RawBsonRef<'_>) -> Result<[u8; 16]> {
    const SCOPE: &str = "OperationSessionInfo.lsid";
    let Some(lsid) = value.as_document() else {
        return Err(wrong_type(SCOPE, value, &["object"]));
    };
    let invalid = |message: &str| Err(Error::new(Code::InvalidOptions, message));
    let known = ["id", "uid", "txnNumber", "txnUUID"];
    let arguments = Arguments::parse(SCOPE, lsid, &known)?;
    let id = arguments.get("id").ok_or_else(|| arguments.missing("id"))?;
    let id = uuid(&arguments, "id", id)?;
    if let Some(uid) = arguments.get("uid") {
        let binary = uid.as_binary();
        let binary = binary.ok_or_else(|| arguments.wrong_type("uid", uid, &["binData"]))?;
        if binary.bytes.len() != USER_DIGEST_BYTES {
            let message = format!(
                "Unsupported SHA256Block hash length: {}",
                binary.bytes.len()
            );
            return Err(Error::new(Code::UnsupportedFormat, message));
        }
    }
    let number = arguments.get("txnNumber");
    if let Some(number) = number
        && !matches!(number, RawBsonRef::Int64(_))
    {
        return Err(arguments.wrong_type("txnNumber", number, &["long"]));
    }
    if let Some(value) = arguments.get("txnUUID") {
        uuid(&arguments, "txnUUID", value)?;
        return invalid("Internal sessions are not supported outside of transactions");
    }
    if number.is_some() {
        return invalid("Cannot specify txnNumber in lsid without specifying txnUUID");
    }
    Ok(id)
}

fn uuid(arguments: &Arguments<'_>, name: &str, value: RawBsonRef<'_>) -> Result<[u8; 16]> {
    let binary = value.as_binary();
    let binary = binary.ok_or_else(|| arguments.wrong_type(name, value, &["binData"]))?;
    if binary.subtype != BinarySubtype::Uuid {
        return Err(Error::type_mismatch(format!(
            "BSON field 'OperationSessionInfo.lsid.{name}' is the wrong binData type '{}', expected type 'UUID'",
            subtype_name(binary.subtype)
        )));
    }
    binary.bytes.try_into().map_err(|_| not_a_uuid())
}

/// MongoDB's name of a kind of binary data.
fn subtype_name(subtype: BinarySubtype) -> &'static str {
    match subtype {
        BinarySubtype::Generic => "general",
        BinarySubtype::Function => "function",
        BinarySubtype::BinaryOld => "general(deprecated)",
        BinarySubtype::UuidOld => "UUID(deprecated)",
        BinarySubtype::Md5 => "MD5",
        BinarySubtype::Encrypted => "encrypt",
        BinarySubtype::Column => "column",
        BinarySubtype::Sensitive => "sensitive",
        _ => "Custom",
    }
}

/// By what a client finds its statement again.
fn check_operation_key(value: RawBsonRef<'_>) -> Result<()> {
    let binary = value.as_binary();
    match binary.is_some_and(|own| own.subtype == BinarySubtype::Uuid && own.bytes.len() == 16) {
        true => Ok(()),
        false => Err(not_a_uuid()),
    }
}

fn not_a_uuid() -> Error {
    let message = "uuid must be a 16-byte binary field with UUID (4) subtype";
    Error::new(Code::InvalidUUID, message)
}

/// A standalone has neither transactions nor retryable writes; MongoDB's says so in these words.
fn refuse_transactions(fields: &Fields<'_>, command: &Command) -> Result<()> {
    const SCOPE: &str = "OperationSessionInfo";
    let invalid = |message: &str| Err(Error::new(Code::InvalidOptions, message));
    let number = fields.txn_number.and_then(present);
    if let Some(value) = number
        && !matches!(value, RawBsonRef::Int64(_))
    {
        return Err(wrong_type(&format!("{SCOPE}.txnNumber"), value, &["long"]));
    }
    let is_bool = |value, name: &str| boolean(value, &format!("{SCOPE}.{name}"));
    let autocommit = is_bool(fields.autocommit, "autocommit")?;
    is_bool(fields.coordinator, "coordinator")?;
    let starts = is_bool(fields.start_transaction, "startTransaction")?;
    let is_for_all = matches!(command.needs, Needs::Nothing);
    if is_for_all && autocommit.is_some() {
        return Err(Error::new(
            Code::OperationNotSupportedInTransaction,
            "This command is not supported in transactions",
        ));
    }
    if is_for_all && number.is_some() {
        let message = "It is illegal to provide a txnNumber for this command";
        return Err(Error::location(50_889, message));
    }
    if number.is_some() {
        if fields.lsid.and_then(present).is_none() {
            return invalid("Transaction number requires a session ID to also be specified");
        }
        let message = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(Error::new(Code::IllegalOperation, message));
    }
    if autocommit.is_some() {
        return invalid("'autocommit' field requires a transaction number to also be specified");
    }
    if starts.is_some() {
        return invalid(
            "'startTransaction' field requires 'autocommit' field to also be specified",
        );
    }
    Ok(())
}

fn parse_max_time(value: RawBsonRef<'_>, command: &Command) -> Result<Option<Instant>> {
    let Some(limit_ms) = integer(value) else {
        if matches!(command.name, "aggregate" | "getMore") && present(value).is_some() {
            let path = format!("{}.maxTimeMS", command.name);
            return Err(wrong_type(&path, value, INTEGERS));
        }
        return Err(Error::bad_value("maxTimeMS must be a number"));
    };
    if command.name == "aggregate" && limit_ms < 0 {
        return Err(below_minimum("maxTimeMS", limit_ms));
    }
    let limit = u32::try_from(limit_ms).ok();
    let Some(limit) = limit.filter(|limit| *limit <= i32::MAX.unsigned_abs()) else {
        let message = format!("{limit_ms} value for maxTimeMS is out of range");
        return Err(Error::bad_value(message));
    };
    if matches!(value, RawBsonRef::Double(written) if written.is_nan() || written.fract() != 0.0) {
        return Err(Error::bad_value("maxTimeMS has non-integral value"));
    }
    match limit {
        0 => Ok(None),
        limit => Ok(Instant::now().checked_add(Duration::from_millis(limit.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At both bounds and beyond: a name that comes again is found, as long as it is remembered.
    #[test]
    fn names_that_come_again_are_found_up_to_a_bound() {
        let names: Vec<String> = (0..3 * NAMES_MAX).map(|name| name.to_string()).collect();
        let remembered = FEW_NAMES + NAMES_MAX;
        for again in [0, FEW_NAMES - 1, FEW_NAMES, remembered - 1, remembered] {
            let mut seen = SeenNames::default();
            assert!(names.iter().all(|name| seen.is_new(name)));
            assert_eq!(seen.is_new(&names[again]), again >= remembered, "{again}");
            assert_eq!(seen.many.len(), NAMES_MAX);
        }
    }
}
