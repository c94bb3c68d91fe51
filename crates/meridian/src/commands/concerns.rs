//! `readConcern` and `writeConcern`, which every command may carry, and what each makes of them.

use super::arguments::{Arguments, elements, field, integer, type_name, wrong_type};
use super::table::{Command, ReadConcerns};
use bson::cstr;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::text::{document_text, element};
use meridian_engine::{Code, Error, Result};
use meridian_value::number::Number;

const PROVENANCES: [&str; 5] = [
    "clientSupplied",
    "implicitDefault",
    "customDefault",
    "getLastErrorDefaults",
    "internalWriteDefault",
];
const MODE_MAX: i64 = 50;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidOptions, message)
}

/// What a `readConcern` says, as far as a standalone tells them apart.
struct ReadConcern<'a> {
    level: Option<&'a str>,
    after_cluster_time: bool,
    at_cluster_time: bool,
    after_op_time: bool,
}

/// Checks a `readConcern`. One server that acknowledges what it has: `local`, `available` and `majority` are the same.
///
/// # Errors
/// MongoDB's, by field; where the command does not support it.
pub fn check_read_concern(value: RawBsonRef<'_>, command: &Command) -> Result<()> {
    let Some(written) = value.as_document() else {
        let is_absent = matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
        return Err(match command.name == "aggregate" && !is_absent {
            true => wrong_type("aggregate.readConcern", value, &["object"]),
            false => Error::failed_to_parse("readConcern field should be an object"),
        });
    };
    let concern = parse_read_concern(written)?;
    let level = concern.level.unwrap_or("local");
    let name = command.alias_of.unwrap_or(command.name);
    let is_supported = match command.read_concerns {
        ReadConcerns::Local => level == "local",
        ReadConcerns::LocalAndAvailable => matches!(level, "local" | "available"),
        ReadConcerns::AllButSnapshot => level != "snapshot",
        ReadConcerns::All => true,
    };
    if !is_supported {
        let shown = document_text(&as_shown(written));
        let which = match command.read_concerns {
            ReadConcerns::AllButSnapshot => "read concern snapshot",
            _ => "read concern",
        };
        return Err(invalid(format!(
            "Command {name} does not support {{ readConcern: {shown} }} :: caused by :: {which} not supported"
        )));
    }
    let needs_member = |what: &str| {
        let message = format!("node needs to be a replica set member to use {what}");
        Err(Error::new(Code::NotAReplicaSet, message))
    };
    let is_for_itself = matches!(
        name,
        "currentOp" | "dbHash" | "getMore" | "mapReduce" | "ping" | "serverStatus" | "validate"
    );
    if concern.after_cluster_time && is_for_itself {
        return Err(invalid("afterClusterTime is not allowed for this command"));
    }
    if concern.after_cluster_time && level != "snapshot" {
        return Err(Error::new(
            Code::IllegalOperation,
            "Cannot specify afterClusterTime readConcern without replication enabled",
        ));
    }
    if concern.at_cluster_time || level == "snapshot" {
        return needs_member("readConcern: snapshot");
    }
    if concern.after_op_time || level == "linearizable" {
        return needs_member("read concern");
    }
    Ok(())
}

fn parse_read_concern(written: &RawDocument) -> Result<ReadConcern<'_>> {
    let mut concern = ReadConcern {
        level: None,
        after_cluster_time: false,
        at_cluster_time: false,
        after_op_time: false,
    };
    let mut has_null_time = false;
    let expected = |name: &str, kind: &str, value: RawBsonRef<'_>| {
        let found = type_name(value);
        let message = format!("\"{name}\" had the wrong type. Expected {kind}, found {found}");
        Error::type_mismatch(message)
    };
    for (name, value) in elements(written) {
        match (name, value) {
            ("afterClusterTime", RawBsonRef::Timestamp(time)) => {
                concern.after_cluster_time = true;
                has_null_time |= time.time == 0 && time.increment == 0;
            }
            ("atClusterTime", RawBsonRef::Timestamp(_)) => concern.at_cluster_time = true,
            ("afterClusterTime" | "atClusterTime", other) => {
                return Err(expected(name, "timestamp", other));
            }
            ("afterOpTime", RawBsonRef::Document(time)) => {
                check_op_time(time)?;
                concern.after_op_time = true;
            }
            ("afterOpTime", other) => return Err(expected(name, "object", other)),
            ("level", RawBsonRef::String(level)) => concern.level = Some(check_level(level)?),
            ("level", other) => return Err(expected(name, "string", other)),
            ("provenance", value) => check_provenance("ReadConcernArgs::parse", value)?,
            _ => {
                return Err(invalid(format!(
                    "Unrecognized option in readConcern: {name}"
                )));
            }
        }
    }
    if concern.after_cluster_time && concern.after_op_time {
        return Err(invalid(
            "Can not specify both afterClusterTime and afterOpTime",
        ));
    }
    if concern.at_cluster_time && concern.after_cluster_time {
        return Err(invalid(
            "Specifying a timestamp for readConcern snapshot in a causally consistent session is not allowed. See \
             https://docs.mongodb.com/manual/core/read-isolation-consistency-recency/#causal-consistency",
        ));
    }
    let level = concern.level.unwrap_or("local");
    if concern.after_cluster_time && !matches!(level, "majority" | "local" | "snapshot") {
        return Err(invalid(
            "afterClusterTime field can be set only if level is equal to majority, local, or snapshot",
        ));
    }
    if has_null_time {
        return Err(invalid("afterClusterTime cannot be a null timestamp"));
    }
    if concern.after_op_time && level == "snapshot" {
        return Err(invalid(
            "afterOpTime field cannot be set if level is equal to snapshot",
        ));
    }
    if concern.at_cluster_time && level != "snapshot" {
        return Err(invalid(
            "atClusterTime field can be set only if level is equal to snapshot",
        ));
    }
    Ok(concern)
}

fn check_level(level: &str) -> Result<&str> {
    match level {
        "local" | "available" | "majority" | "linearizable" | "snapshot" => Ok(level),
        _ => Err(Error::failed_to_parse(
            "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'",
        )),
    }
}

fn check_op_time(time: &RawDocument) -> Result<()> {
    for (name, kind) in [("ts", "timestamp"), ("t", "long")] {
        let found = elements(time).find(|(own, _)| *own == name);
        match (kind, found.map(|(_, value)| value)) {
            (_, None) => {
                let message = format!("Missing expected field \"{name}\"");
                return Err(Error::new(Code::NoSuchKey, message));
            }
            ("timestamp", Some(RawBsonRef::Timestamp(_))) => {}
            ("long", Some(value)) if Number::from_raw(value).is_some() => {}
            (kind, Some(value)) => {
                let found = type_name(value);
                return Err(Error::type_mismatch(format!(
                    "\"{name}\" had the wrong type. Expected {kind}, found {found}"
                )));
            }
        }
    }
    Ok(())
}

fn check_provenance(scope: &str, value: RawBsonRef<'_>) -> Result<()> {
    let path = format!("{scope}.provenance");
    let Some(provenance) = value.as_str() else {
        return Err(wrong_type(&path, value, &["string"]));
    };
    match PROVENANCES.contains(&provenance) {
        true => Ok(()),
        false => Err(Error::bad_value(format!(
            "Enumeration value '{provenance}' for field '{path}' is not a valid value."
        ))),
    }
}

/// As MongoDB shows it: in its own order, and it says where it came from.
fn as_shown(written: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, key) in [
        ("level", cstr!("level")),
        ("afterOpTime", cstr!("afterOpTime")),
        ("afterClusterTime", cstr!("afterClusterTime")),
        ("atClusterTime", cstr!("atClusterTime")),
        ("provenance", cstr!("provenance")),
    ] {
        match field(written, name) {
            Some(value) => shown.append(key, value),
            None if name == "provenance" => shown.append(key, "clientSupplied"),
            None => {}
        }
    }
    shown
}

/// What a `writeConcern` asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteConcern {
    /// The write is to be on disk before the reply.
    pub is_synced: bool,
    /// Nobody wants to know what came of it.
    pub is_unacknowledged: bool,
}

/// Reads a `writeConcern`.
///
/// # Errors
/// MongoDB's, by field; where the command takes none.
pub fn parse_write_concern(
    value: RawBsonRef<'_>,
    command: &Command,
    journal: bool,
) -> Result<WriteConcern> {
    if !command.writes {
        return Err(invalid("Command does not support writeConcern"));
    }
    let name = command.alias_of.unwrap_or(command.name);
    let Some(concern) = value.as_document() else {
        let says_itself = matches!(
            name,
            "aggregate" | "findAndModify" | "createUser" | "updateUser"
        );
        let is_absent = matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
        let found = type_name(value);
        return Err(match says_itself && !is_absent {
            true => wrong_type(&format!("{name}.writeConcern"), value, &["object"]),
            false => Error::type_mismatch(format!(
                "\"writeConcern\" had the wrong type. Expected object, found {found}"
            )),
        });
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
    let (synced, flushed) = (arguments.flag("j")?, arguments.flag("fsync")?);
    let acknowledged = parse_w(arguments.get_even_null("w"))?;
    // What is no number is no limit.
    let timeout = arguments.get("wtimeout").and_then(integer);
    if timeout.is_some_and(|timeout| i32::try_from(timeout).is_err()) {
        return Err(Error::failed_to_parse("wtimeout must be a 32-bit integer"));
    }
    if let Some(provenance) = arguments.get("provenance") {
        check_provenance("WriteConcernOptions", provenance)?;
    }
    if synced && flushed {
        return Err(Error::failed_to_parse(
            "fsync and j options cannot be used together",
        ));
    }
    if (synced || flushed) && !journal {
        let message = "cannot use 'j' option when a host does not have journaling enabled";
        return Err(Error::bad_value(message));
    }
    let is_none = matches!(acknowledged, Acknowledged::Members(0));
    let is_majority = acknowledged.check()?;
    let explicitly_not = arguments.get("j").is_some() && !synced;
    Ok(WriteConcern {
        is_synced: journal && (synced || flushed || (is_majority && !explicitly_not)),
        is_unacknowledged: is_none && !synced && !flushed,
    })
}

/// How many members are to acknowledge a write.
enum Acknowledged<'a> {
    Majority,
    Mode(&'a str),
    Tags,
    Members(i64),
}

impl Acknowledged<'_> {
    /// Whether it is the majority; refuses what one server alone cannot do.
    fn check(self) -> Result<bool> {
        match self {
            Self::Majority => Ok(true),
            Self::Mode(mode) => Err(Error::bad_value(format!(
                "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
            ))),
            Self::Members(2..) => Err(Error::bad_value(
                "cannot use 'w' > 1 when a host is not replicated",
            )),
            Self::Members(_) | Self::Tags => Ok(false),
        }
    }
}

fn parse_w(value: Option<RawBsonRef<'_>>) -> Result<Acknowledged<'_>> {
    let Some(value) = value else {
        return Ok(Acknowledged::Members(1));
    };
    match value {
        RawBsonRef::String("majority") => Ok(Acknowledged::Majority),
        RawBsonRef::String(mode) => Ok(Acknowledged::Mode(mode)),
        RawBsonRef::Null | RawBsonRef::Undefined => Ok(Acknowledged::Mode("")),
        RawBsonRef::Document(tags) if tags.is_empty() => {
            Err(Error::failed_to_parse("tagged write concern requires tags"))
        }
        RawBsonRef::Document(tags) => {
            for (name, value) in elements(tags) {
                if Number::from_raw(value).is_none() {
                    return Err(Error::failed_to_parse(format!(
                        "tags must be a single level document with only number values; found: {}",
                        element(name, value)
                    )));
                }
            }
            Ok(Acknowledged::Tags)
        }
        value => match integer(value) {
            Some(members @ 0..=MODE_MAX) => Ok(Acknowledged::Members(members)),
            Some(members) => Err(Error::failed_to_parse(format!(
                "w has to be a non-negative number and not greater than {MODE_MAX}; found: {members}"
            ))),
            None => Err(Error::failed_to_parse(format!(
                "w has to be a number, string, or object; found: {}",
                type_name(value)
            ))),
        },
    }
}
