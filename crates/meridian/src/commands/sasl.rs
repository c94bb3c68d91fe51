//! `saslStart`, `saslContinue`, `authenticate`, `logout`, and what `hello` carries of a login.

use super::arguments::{Arguments, array_values, elements};
use super::audited::record_login;
use super::context::Context;
use crate::access::{Answer, UserName, mechanisms_of};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bson::raw::{RawBinaryRef, RawBsonRef, RawDocument};
use bson::spec::BinarySubtype;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;
use std::borrow::Cow;

const START: &[&str] = &["mechanism", "payload", "autoAuthorize", "options", "db"];

/// Begins a login.
pub fn start(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("saslStart", START)?;
    let database = context.generic.database;
    let answer = begin(context, &arguments, database)?;
    write(&answer, reply);
    Ok(())
}

/// Goes on with one.
pub fn go_on(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("saslContinue", &["conversationId", "payload"])?;
    let id = arguments
        .integer("conversationId")?
        .ok_or_else(|| arguments.missing("conversationId"))?;
    let payload = payload(&arguments)?;
    let (access, engine) = (&context.service.access, &*context.service.engine);
    let id = i32::try_from(id).unwrap_or(-1);
    let answer = context.client.login.go_on(access, engine, id, &payload);
    match answer {
        Ok(answer) if !answer.is_done => {
            write(&answer, reply);
            Ok(())
        }
        ended => {
            let (ended, outcome) = match ended {
                Ok(answer) => (Some(answer), Ok(())),
                Err(error) => (None, Err(error)),
            };
            record(context, &outcome);
            ended.iter().for_each(|answer| write(answer, reply));
            outcome
        }
    }
}

/// Records how a login has ended.
fn record(context: &Context<'_>, outcome: &Result<()>) {
    let attempt = context.client.login.attempt();
    let (name, mechanism) = attempt.map_or((None, ""), |(name, by)| (Some(name), *by));
    record_login(context.service, context.client, name, mechanism, outcome);
}

fn begin(context: &mut Context<'_>, arguments: &Arguments<'_>, database: &str) -> Result<Answer> {
    let mechanism = arguments
        .string("mechanism")?
        .ok_or_else(|| arguments.missing("mechanism"))?;
    let payload = payload(arguments)?;
    let options = arguments.document("options")?;
    let skips_empty = options.is_some_and(|options| {
        elements(options)
            .any(|(name, value)| name == "skipEmptyExchange" && value.as_bool() == Some(true))
    });
    let (access, engine) = (&context.service.access, &*context.service.engine);
    let login = &mut context.client.login;
    login.start(access, engine, database, mechanism, &payload, skips_empty)
}

fn payload<'a>(arguments: &Arguments<'a>) -> Result<Cow<'a, [u8]>> {
    match arguments.get("payload") {
        None => Err(arguments.missing("payload")),
        Some(RawBsonRef::Binary(binary)) => Ok(Cow::Borrowed(binary.bytes)),
        Some(RawBsonRef::String(text)) => match BASE64_STANDARD.decode(text) {
            Ok(bytes) => Ok(Cow::Owned(bytes)),
            Err(_) => Err(Error::bad_value("the payload is not base64")),
        },
        Some(other) => Err(arguments.wrong_type("payload", other, &["binData", "string"])),
    }
}

fn write(answer: &Answer, reply: &mut DocumentWriter<'_>) {
    reply
        .int32("conversationId", answer.conversation)
        .boolean("done", answer.is_done);
    let payload = RawBinaryRef {
        subtype: BinarySubtype::Generic,
        bytes: &answer.payload,
    };
    reply.value("payload", RawBsonRef::Binary(payload));
}

/// Ends the login at this database.
pub fn logout(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.client.login.log_out(context.generic.database);
    Ok(())
}

/// Logs in by the certificate of the connection (MONGODB-X509).
pub fn authenticate(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("authenticate", CERTIFICATE)?;
    by_certificate(context, &arguments, reply)
}

const CERTIFICATE: &[&str] = &["mechanism", "user", "db", "nonce", "key"];

fn by_certificate(
    context: &mut Context<'_>,
    arguments: &Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mechanism = arguments.string("mechanism")?.unwrap_or("MONGODB-CR");
    if mechanism != "MONGODB-X509" {
        return Err(Error::new(
            Code::MechanismUnavailable,
            format!("Received authentication for mechanism {mechanism} which is not enabled"),
        ));
    }
    let named = arguments.string("user")?.filter(|user| !user.is_empty());
    let (access, engine) = (&context.service.access, &*context.service.engine);
    let login = &mut context.client.login;
    let outcome = login.log_in_by_certificate(access, engine, named);
    record(context, &outcome.as_ref().map(|_| ()).map_err(Clone::clone));
    let name = outcome?;
    reply
        .string("dbname", &name.database)
        .string("user", &name.user);
    Ok(())
}

/// `saslSupportedMechs` of a `hello`: `"database.user"`.
pub fn write_mechanisms(
    context: &Context<'_>,
    value: RawBsonRef<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let Some((database, user)) = value.as_str().and_then(|name| name.split_once('.')) else {
        return Err(Error::bad_value(
            "UserName must contain a '.' separated database.user pair",
        ));
    };
    let name = UserName {
        user: user.to_owned(),
        database: database.to_owned(),
    };
    let mut list = reply.array("saslSupportedMechs");
    for mechanism in mechanisms_of(&context.service.engine, &name)? {
        list.push(RawBsonRef::String(&mechanism));
    }
    Ok(())
}

/// `speculativeAuthenticate` of a `hello`: the first message of a login. What is wrong with it is not told here: the
/// client begins anew.
pub fn speculate(context: &mut Context<'_>, value: RawBsonRef<'_>, reply: &mut DocumentWriter<'_>) {
    let Some(document) = value.as_document() else {
        return;
    };
    let mut fields = elements(document);
    match fields.next().map(|(name, _)| name) {
        Some("saslStart") => {
            if let Ok(answer) = begin_speculative(context, fields) {
                write(&answer, &mut reply.document("speculativeAuthenticate"));
            }
        }
        Some("authenticate") => {
            let mut bytes = Vec::new();
            let arguments = Arguments::collect("authenticate", fields, CERTIFICATE);
            let mut inner = DocumentWriter::new(&mut bytes);
            let done = arguments.and_then(|own| by_certificate(context, &own, &mut inner));
            drop(inner);
            if let (Ok(()), Ok(answer)) = (done, RawDocument::from_bytes(&bytes)) {
                reply.embed("speculativeAuthenticate", answer);
            }
        }
        _ => {}
    }
}

fn begin_speculative<'a>(
    context: &mut Context<'_>,
    fields: impl Iterator<Item = (&'a str, RawBsonRef<'a>)>,
) -> Result<Answer> {
    let arguments = Arguments::collect("saslStart", fields, START)?;
    let database = arguments
        .string("db")?
        .ok_or_else(|| arguments.missing("db"))?;
    begin(context, &arguments, database)
}

/// The strings of an array.
pub fn strings<'a>(arguments: &Arguments<'a>, name: &str) -> Result<Option<Vec<&'a str>>> {
    let Some(array) = arguments.array(name)? else {
        return Ok(None);
    };
    let mut strings = Vec::new();
    for (index, value) in array_values(array).enumerate() {
        match value.as_str() {
            Some(text) => strings.push(text),
            None => {
                let name = format!("{name}.{index}");
                return Err(arguments.wrong_type(&name, value, &["string"]));
            }
        }
    }
    Ok(Some(strings))
}
