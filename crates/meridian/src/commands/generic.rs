//! What every command may carry, checked in one place: the database, the session, read and
//! write concern, the time limit, the API version.

use super::aggregate::has_output;
use super::arguments::{Arguments, elements, integer, type_name, wrong_type};
use super::table::Command;
use crate::access::EXTERNAL;
use crate::cli::Settings;
use crate::service::OperationClass;
use bson::raw::{RawBsonRef, RawDocument};
use bson::spec::BinarySubtype;
use meridian_engine::check_database_name;
use meridian_engine::{Code, Error, Result};
use meridian_value::number::Number;
use std::time::{Duration, Instant};

/// The checked values.
#[derive(Debug, Clone)]
pub struct Generic<'a> {
    /// The database to run against.
    pub database: &'a str,
    /// The session's identifier.
    pub session: Option<[u8; 16]>,
    /// When `maxTimeMS` will have passed.
    pub deadline: Option<Instant>,
    /// The write must be on disk before the reply (`j: true`, `w: "majority"`).
    pub synced: bool,
}

impl<'a> Generic<'a> {
    /// For requests that have no such fields: the legacy hello.
    pub fn legacy(database: &'a str) -> Self {
        Self {
            database,
            session: None,
            deadline: None,
            synced: false,
        }
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// MongoDB's, by field.
    pub fn parse(command: &Command, body: &'a RawDocument, settings: &Settings) -> Result<Self> {
        let fields = Fields::collect(body);
        let database = parse_database(fields.database, command)?;
        if command.admin_only && database != "admin" {
            let message = format!(
                "{} may only be run against the admin database.",
                command.name
            );
            return Err(Error::new(Code::Unauthorized, message));
        }
        check_api_version(&fields, command)?;
        let session = fields.lsid.map(parse_session).transpose()?;
        refuse_transactions(&fields)?;
        fields
            .read_preference
            .map(check_read_preference)
            .transpose()?;
        fields.read_concern.map(check_read_concern).transpose()?;
        let synced = match fields.write_concern {
            None => false,
            Some(_) if !command.writes => {
                let message = "Command does not support writeConcern";
                return Err(Error::new(Code::InvalidOptions, message));
            }
            Some(concern) => parse_write_concern(concern, settings.journal)?,
        };
        let deadline = fields
            .max_time_ms
            .map(parse_max_time)
            .transpose()?
            .flatten();
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
            synced,
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
            | "coordinator"
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
}

impl<'a> Fields<'a> {
    fn collect(body: &'a RawDocument) -> Self {
        let mut fields = Self::default();
        for (name, value) in elements(body).skip(1) {
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
                _ => continue,
            };
            *field = Some(value);
        }
        fields
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

fn check_api_version(fields: &Fields<'_>, command: &Command) -> Result<()> {
    let Some(version) = fields.api_version else {
        if fields.api_strict.is_some() || fields.api_deprecation_errors.is_some() {
            let message =
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            return Err(Error::location(4_886_600, message));
        }
        return Ok(());
    };
    let Some(version) = version.as_str() else {
        return Err(wrong_type(
            "APIParametersFromClient.apiVersion",
            version,
            &["string"],
        ));
    };
    if version != "1" {
        let message = format!("Cannot accept API version {version}");
        return Err(Error::new(Code::APIVersionError, message));
    }
    let strict = fields
        .api_strict
        .and_then(|value| value.as_bool())
        .unwrap_or(false);
    if strict && !command.stable_api {
        let message = format!(
            "Provided apiStrict:true, but the command {} is not in API Version 1. Information on \
             supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api",
            command.name
        );
        return Err(Error::new(Code::APIStrictError, message));
    }
    Ok(())
}

fn parse_session(value: RawBsonRef<'_>) -> Result<[u8; 16]> {
    let Some(lsid) = value.as_document() else {
        return Err(wrong_type("OperationSessionInfo.lsid", value, &["object"]));
    };
    let known = ["id", "uid", "txnNumber", "txnUUID"];
    let arguments = Arguments::parse("OperationSessionInfo.lsid", lsid, &known)?;
    let id = arguments.get("id").ok_or_else(|| arguments.missing("id"))?;
    let binary = id
        .as_binary()
        .ok_or_else(|| arguments.wrong_type("id", id, &["binData"]))?;
    let bytes = binary.bytes.try_into().ok();
    let uuid = bytes.filter(|_| binary.subtype == BinarySubtype::Uuid);
    uuid.ok_or_else(|| {
        let message = "uuid must be a 16-byte binary field with UUID (4) subtype";
        Error::new(Code::InvalidUUID, message)
    })
}

/// A standalone has neither transactions nor retryable writes; MongoDB's says so in these words.
fn refuse_transactions(fields: &Fields<'_>) -> Result<()> {
    let invalid = |message: &str| Err(Error::new(Code::InvalidOptions, message));
    if fields.txn_number.is_some() {
        if fields.lsid.is_none() {
            return invalid("Transaction number requires a session ID to also be specified");
        }
        let message = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(Error::new(Code::IllegalOperation, message));
    }
    if fields.autocommit.is_some() {
        return invalid("'autocommit' field requires a transaction number to also be specified");
    }
    if fields.start_transaction.is_some() {
        return invalid(
            "'startTransaction' field requires 'autocommit' field to also be specified",
        );
    }
    Ok(())
}

fn check_read_preference(value: RawBsonRef<'_>) -> Result<()> {
    let Some(preference) = value.as_document() else {
        let found = type_name(value);
        let message =
            format!("$readPreference has incorrect type: expected object but got {found}");
        return Err(Error::type_mismatch(message));
    };
    let mode = elements(preference)
        .find(|(name, _)| *name == "mode")
        .map(|(_, value)| value);
    match mode.and_then(|mode| mode.as_str()) {
        Some("primary" | "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest") => {
            Ok(())
        }
        mode => {
            let mode = mode.unwrap_or_default();
            Err(Error::bad_value(format!(
                "Could not parse $readPreference mode '{mode}'. Only the modes 'primary', \
                 'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are \
                 supported. :: caused by :: Enumeration value '{mode}' for field 'mode' is not a \
                 valid value."
            )))
        }
    }
}

/// One server that acknowledges what it has: `local`, `available` and `majority` are the same.
fn check_read_concern(value: RawBsonRef<'_>) -> Result<()> {
    let Some(concern) = value.as_document() else {
        let message = format!(
            "\"readConcern\" had the wrong type. Expected object, found {}",
            type_name(value)
        );
        return Err(Error::type_mismatch(message));
    };
    let known = [
        "level",
        "provenance",
        "afterClusterTime",
        "afterOpTime",
        "atClusterTime",
    ];
    let arguments = Arguments::parse("readConcern", concern, &known)?;
    for time in ["afterClusterTime", "atClusterTime", "afterOpTime"] {
        if arguments.get(time).is_some() {
            let message = format!("readConcern.{time} needs a replica set");
            return Err(Error::new(Code::NotAReplicaSet, message));
        }
    }
    match arguments.string("level")? {
        None | Some("local" | "available" | "majority") => Ok(()),
        Some("linearizable") => Err(Error::new(
            Code::NotAReplicaSet,
            "node needs to be a replica set member to use read concern",
        )),
        Some("snapshot") => Err(Error::new(
            Code::NotAReplicaSet,
            "node needs to be a replica set member to use readConcern: snapshot",
        )),
        Some(_) => Err(Error::failed_to_parse(
            "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', \
             or 'snapshot'",
        )),
    }
}

/// Whether the concern asks for the write to be on disk.
fn parse_write_concern(value: RawBsonRef<'_>, journal: bool) -> Result<bool> {
    let Some(concern) = value.as_document() else {
        let found = type_name(value);
        let message =
            format!("\"writeConcern\" had the wrong type. Expected object, found {found}");
        return Err(Error::type_mismatch(message));
    };
    let known = [
        "w",
        "j",
        "wtimeout",
        "fsync",
        "getLastError",
        "provenance",
        "wElectionId",
        "wOpTime",
    ];
    let arguments = Arguments::parse("WriteConcernOptions", concern, &known)?;
    let journaled = arguments.flag("j")? || arguments.flag("fsync")?;
    if journaled && !journal {
        let message = "cannot use 'j' option when a host does not have journaling enabled";
        return Err(Error::bad_value(message));
    }
    let majority = arguments
        .get("w")
        .map(parse_w)
        .transpose()?
        .unwrap_or(false);
    let explicitly_not = arguments.get("j").is_some() && !arguments.flag("j")?;
    Ok(journal && (journaled || (majority && !explicitly_not)))
}

/// Whether `w` is the majority.
fn parse_w(value: RawBsonRef<'_>) -> Result<bool> {
    match value {
        RawBsonRef::String("majority") => Ok(true),
        RawBsonRef::String(mode) => Err(Error::bad_value(format!(
            "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a \
             replica set"
        ))),
        RawBsonRef::Document(_) => Err(Error::bad_value(
            "cannot use a 'w' of tags when a host is not a member of a replica set",
        )),
        value => match integer(value) {
            Some(0 | 1) => Ok(false),
            Some(nodes @ (..0 | 51..)) => Err(Error::failed_to_parse(format!(
                "w has to be a non-negative number and not greater than 50; found: {nodes}"
            ))),
            Some(_) => Err(Error::bad_value(
                "cannot use 'w' > 1 when a host is not replicated",
            )),
            None => Err(Error::failed_to_parse(format!(
                "w has to be a number, string, or object; found: {}",
                type_name(value)
            ))),
        },
    }
}

fn parse_max_time(value: RawBsonRef<'_>) -> Result<Option<Instant>> {
    let Some(limit_ms) = integer(value) else {
        return Err(Error::bad_value("maxTimeMS must be a number"));
    };
    let is_whole = Number::from_raw(value).is_some_and(|own| own.to_i64_exact().is_some());
    if !is_whole {
        return Err(Error::bad_value("maxTimeMS has non-integral value"));
    }
    let out_of_range =
        || Error::bad_value(format!("{limit_ms} value for maxTimeMS is out of range"));
    match u32::try_from(limit_ms) {
        Ok(0) => Ok(None),
        Ok(limit) if limit <= i32::MAX.unsigned_abs() => {
            Ok(Instant::now().checked_add(Duration::from_millis(limit.into())))
        }
        _ => Err(out_of_range()),
    }
}
