//! Sessions: an identifier that a client makes up or asks for. All that a standalone keeps
//! under it are cursors, which end with it.

use super::arguments::{Arguments, array_values, type_name, wrong_type};
use super::context::Context;
use super::hello::SESSION_TIMEOUT_MINUTES;
use crate::access::UserName;
use crate::service::SessionName;
use bson::spec::BinarySubtype;
use bson::{RawArray, RawBinaryRef, RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;
use std::collections::HashSet;

/// Answers `startSession` with a random identifier.
pub fn start(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let bytes = bson::Uuid::new().bytes();
    note(context, bytes);
    let id = RawBinaryRef {
        subtype: BinarySubtype::Uuid,
        bytes: &bytes,
    };
    reply.document("id").value("id", RawBsonRef::Binary(id));
    reply.int32("timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    Ok(())
}

/// Answers `endSessions`.
pub fn end(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("endSessions", &[])?;
    let list = list(context, "endSessions.endSessions")?;
    for id in identifiers(context, list, "endSessions.endSessionsFromClient")? {
        close(context, &context.session(id));
    }
    Ok(())
}

/// Answers `refreshSessions`.
pub fn refresh(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("refreshSessions", &[])?;
    let list = list(context, "refreshSessions.refreshSessions")?;
    for id in identifiers(context, list, "refreshSessions.refreshSessionsFromClient")? {
        note(context, id);
    }
    Ok(())
}

/// Answers `killSessions`.
pub fn kill(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let list = list(context, "KillSessionsCmd.killSessions")?;
    for id in identifiers(context, list, "KillSessionsCmd.killSessions")? {
        close(context, &context.session(id));
    }
    Ok(())
}

/// Answers `killAllSessions`: those of some users, or of all.
pub fn kill_all(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    const SCOPE: &str = "KillAllSessionsCmd.killAllSessions";
    let mut users = HashSet::new();
    for element in documents(list(context, SCOPE)?, SCOPE) {
        users.insert(parse_user(SCOPE, element?)?);
    }
    for user in &users {
        let (access, engine) = (&context.service.access, context.engine());
        if access.user(engine, user)?.is_none() {
            let message = format!(
                "Could not find user \"{}\" for db \"{}\"",
                user.user, user.database
            );
            return Err(Error::new(Code::UserNotFound, message));
        }
    }
    close_where(context, &|name| {
        users.is_empty() || name.user.as_ref().is_some_and(|own| users.contains(own))
    });
    Ok(())
}

/// Answers `killAllSessionsByPattern`: those of one name or of one user, or all.
pub fn kill_by_pattern(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    const SCOPE: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern";
    let mut patterns = HashSet::new();
    for element in documents(list(context, SCOPE)?, SCOPE) {
        let known = ["lsid", "uid", "users", "roles"];
        let fields = Arguments::parse(SCOPE, element?, &known)?;
        let impersonates = fields.get("users").or(fields.get("roles")).is_some();
        if impersonates && context.service.access.is_enabled {
            let message = "Not authorized to impersonate in killAllSessionsByPattern";
            return Err(Error::new(Code::Unauthorized, message));
        }
        let lsid = fields.document("lsid")?;
        let lsid = lsid.map(parse_named_session).transpose()?;
        let uid = fields.get("uid");
        let uid = uid.map(|uid| binary(SCOPE, "uid", uid, BinarySubtype::Generic));
        patterns.insert(match (lsid, uid.transpose()?) {
            (Some((id, uid)), _) => Pattern::Session(id, uid),
            (None, Some(uid)) => Pattern::User(uid),
            (None, None) => Pattern::All,
        });
    }
    let is_all = patterns.is_empty() || patterns.contains(&Pattern::All);
    close_where(context, &|name| {
        let digest = name.user_digest();
        is_all
            || patterns.contains(&Pattern::Session(&name.id, &digest))
            || patterns.contains(&Pattern::User(&digest))
    });
    Ok(())
}

/// Which sessions are meant; users are told by their digests.
#[derive(PartialEq, Eq, Hash)]
enum Pattern<'a> {
    All,
    User(&'a [u8]),
    Session(&'a [u8], &'a [u8]),
}

fn parse_named_session(lsid: &RawDocument) -> Result<(&[u8], &[u8])> {
    const SCOPE: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern.lsid";
    let fields = Arguments::parse(SCOPE, lsid, &["id", "uid", "txnNumber", "txnUUID"])?;
    let id = fields.get("id").ok_or_else(|| fields.missing("id"))?;
    let uid = fields.get("uid").ok_or_else(|| fields.missing("uid"))?;
    Ok((
        binary(SCOPE, "id", id, BinarySubtype::Uuid)?,
        binary(SCOPE, "uid", uid, BinarySubtype::Generic)?,
    ))
}

/// A user's name, as `{user: ..., db: ...}`.
pub fn parse_user(scope: &'static str, user: &RawDocument) -> Result<UserName> {
    let fields = Arguments::parse(scope, user, &["user", "db"])?;
    let text = |name| match fields.string(name)? {
        Some(text) => Ok(text.to_owned()),
        None => Err(fields.missing(name)),
    };
    Ok(UserName {
        user: text("user")?,
        database: text("db")?,
    })
}

/// The documents in a list, one after the other.
pub fn documents<'a>(
    list: &'a RawArray,
    scope: &'static str,
) -> impl Iterator<Item = Result<&'a RawDocument>> {
    array_values(list).enumerate().map(move |(place, element)| {
        let document = element.as_document();
        document.ok_or_else(|| wrong_type(&format!("{scope}.{place}"), element, &["object"]))
    })
}

/// The list that is the command's value.
fn list<'a>(context: &Context<'a>, path: &str) -> Result<&'a RawArray> {
    match context.value() {
        RawBsonRef::Array(list) => Ok(list),
        RawBsonRef::Null => {
            let name = path.rsplit('.').next().unwrap_or(path);
            Err(Error::location(
                10065,
                format!("invalid parameter: expected an object ({name})"),
            ))
        }
        other => Err(wrong_type(path, other, &["array"])),
    }
}

/// The identifiers in a list of sessions.
fn identifiers(
    context: &Context<'_>,
    list: &RawArray,
    scope: &'static str,
) -> Result<Vec<[u8; 16]>> {
    let mut found = Vec::new();
    for element in documents(list, scope) {
        let known = ["id", "uid", "txnNumber", "txnUUID"];
        let fields = Arguments::parse(scope, element?, &known)?;
        if let Some(uid) = fields.get("uid") {
            binary(scope, "uid", uid, BinarySubtype::Generic)?;
            if context.service.access.is_enabled {
                let message = "Unauthorized to set user digest in LogicalSessionId";
                return Err(Error::new(Code::Unauthorized, message));
            }
        }
        let id = fields.get("id").ok_or_else(|| fields.missing("id"))?;
        let bytes = binary(scope, "id", id, BinarySubtype::Uuid)?.try_into();
        found.push(bytes.map_err(|_| {
            let message = "uuid must be a 16-byte binary field with UUID (4) subtype";
            Error::new(Code::InvalidUUID, message)
        })?);
    }
    Ok(found)
}

/// Bytes of this subtype.
fn binary<'a>(
    scope: &str,
    name: &str,
    value: RawBsonRef<'a>,
    wanted: BinarySubtype,
) -> Result<&'a [u8]> {
    let text = |subtype: BinarySubtype| match subtype {
        BinarySubtype::Generic => "general",
        BinarySubtype::Function => "function",
        BinarySubtype::BinaryOld => "binary",
        BinarySubtype::UuidOld => "UUID (old)",
        BinarySubtype::Uuid => "UUID",
        BinarySubtype::Md5 => "MD5",
        _ => "other",
    };
    let RawBsonRef::Binary(binary) = value else {
        return Err(Error::type_mismatch(format!(
            "BSON field '{scope}.{name}' is the wrong type '{}', expected type 'binData'",
            type_name(value)
        )));
    };
    if binary.subtype != wanted {
        return Err(Error::type_mismatch(format!(
            "BSON field '{scope}.{name}' is the wrong binData type '{}', expected type '{}'",
            text(binary.subtype),
            text(wanted)
        )));
    }
    Ok(binary.bytes)
}

fn note(context: &mut Context<'_>, id: [u8; 16]) {
    let (login, noted) = (&context.client.login, &mut context.client.noted_session);
    context.service.sessions.note(id, login.name(), noted);
}

/// Ends a session: with it its cursors.
fn close(context: &Context<'_>, name: &SessionName) {
    context.service.sessions.forget(name);
    context.engine().cursors().kill_session(&name.key());
}

/// Ends all sessions that are meant, also those that only a cursor knows of.
fn close_where(context: &Context<'_>, is_meant: &dyn Fn(&SessionName) -> bool) {
    for session in context.service.sessions.list() {
        if is_meant(&session.name) {
            context.service.sessions.forget(&session.name);
        }
    }
    let cursors = context.engine().cursors();
    cursors.kill_sessions(&|key| SessionName::of_key(key).is_some_and(|name| is_meant(&name)));
}
