//! What scripts ask of the host: what the engine cannot do, or not as MongoDB does it.

// A type of the library asks for an unsafe trait.
#![allow(unsafe_code)]

use super::convert::{Originals, Types, base64, unbase64};
use super::watch::Watch;
use crate::error::{Code, Error, Result};
use crate::operation::memory::Reservation;
use bson::raw::RawDocumentBuf;
use rquickjs::{Ctx, Exception, Function, JsLifetime, Object, Value};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// What a pair that is emitted takes besides its bytes.
const EMIT_BYTES_MIN: usize = 128;

/// What functions of the host work on.
#[derive(Default)]
pub(super) struct Host {
    pub watch: Rc<Watch>,
    pub originals: RefCell<Originals>,
    /// What the map function emits, while one runs.
    pub emits: RefCell<Option<Emits>>,
}

#[derive(Default)]
pub(super) struct Emits {
    pub pairs: Vec<RawDocumentBuf>,
    bytes: usize,
    memory: Reservation,
}

/// The last error of the host that a client's code got.
#[derive(Default)]
pub(super) struct Refusals(RefCell<Option<(String, Code)>>);

// SAFETY: it refers to nothing of the engine.
unsafe impl JsLifetime<'_> for Refusals {
    type Changed<'to> = Self;
}

impl Refusals {
    fn add(&self, message: String, number: i32) {
        let code = match number {
            2 => Code::BadValue,
            9 => Code::FailedToParse,
            50 => Code::MaxTimeMSExpired,
            207 => Code::InvalidUUID,
            292 => Code::ExceededMemoryLimit,
            11601 => Code::Interrupted,
            other => Code::Location(other),
        };
        self.0.replace(Some((message, code)));
    }

    /// The code of the error with this message, if it is the host's own.
    pub fn code_of(&self, message: &str) -> Option<Code> {
        let last = self.0.borrow();
        let own = last.as_ref().filter(|(own, _)| own == message);
        own.map(|(_, code)| *code)
    }
}

/// The object `native` of the prelude.
pub(super) fn native<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    add_values(ctx, &native)?;
    add_host(ctx, &native, host)?;
    native.set("version", Function::new(ctx.clone(), || "6.0.5")?)?;
    Ok(native)
}

/// Functions of their arguments alone.
fn add_values<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> rquickjs::Result<()> {
    let add = |name: &str, function: rquickjs::Result<Function<'js>>| native.set(name, function?);
    add(
        "decimal",
        Function::new(ctx.clone(), |text: String| {
            let parsed: std::result::Result<bson::Decimal128, _> = text.parse();
            parsed.ok().map(|number| number.to_string())
        }),
    )?;
    let object_id = || bson::oid::ObjectId::new().to_hex();
    add("objectId", Function::new(ctx.clone(), object_id))?;
    add(
        "uuid",
        Function::new(ctx.clone(), || hex(&rand::random::<[u8; 16]>())),
    )?;
    add(
        "lengthOfBase64",
        Function::new(ctx.clone(), |text: String| match unbase64(&text) {
            _ if !text.len().is_multiple_of(4) => -1,
            Some(bytes) => bytes.len() as i64,
            None => -2,
        }),
    )?;
    add(
        "hexOfBase64",
        Function::new(ctx.clone(), |text: String| {
            hex(&unbase64(&text).unwrap_or_default())
        }),
    )?;
    add(
        "base64OfHex",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| {
            unhex(&text)
                .map(|bytes| base64(&bytes))
                .ok_or_else(|| Exception::throw_message(&ctx, "invalid hex string"))
        }),
    )?;
    add(
        "md5",
        Function::new(ctx.clone(), |text: String| {
            use md5::Digest;
            hex(&md5::Md5::digest(text.as_bytes()))
        }),
    )?;
    Ok(())
}

/// Functions that reach the statement.
fn add_host<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<Host>) -> rquickjs::Result<()> {
    let add = |name: &str, function: rquickjs::Result<Function<'js>>| native.set(name, function?);
    add(
        "print",
        Function::new(ctx.clone(), |text: String| {
            tracing::debug!(text, "printed by a script")
        }),
    )?;
    let refused = |ctx: Ctx<'js>, message: String, number: i32| {
        if let Some(refusals) = ctx.userdata::<Refusals>() {
            refusals.add(message, number);
        }
    };
    add("refused", Function::new(ctx.clone(), refused))?;
    let own = host.clone();
    let sleep = Function::new(ctx.clone(), move |ctx: Ctx<'js>, ms: f64| {
        match own.watch.sleep(ms) {
            true => Ok(()),
            false => Err(Exception::throw_internal(&ctx, "interrupted")),
        }
    });
    add("sleep", sleep)?;
    let own = host.clone();
    let emit = move |ctx: Ctx<'js>, types: Object<'js>, key: Value<'js>, value: Value<'js>| {
        let types = Types::new(types, &own.originals);
        let emitted = own.emit(&ctx, &types, &key, &value).err();
        emitted.map_or(Ok(()), |error| {
            types.make("refuse", (error.message, error.code.number()))
        })
    };
    add("emit", Function::new(ctx.clone(), emit))?;
    Ok(())
}

impl Host {
    fn emit<'js>(
        &self,
        ctx: &Ctx<'js>,
        types: &Types<'js, '_>,
        key: &Value<'js>,
        value: &Value<'js>,
    ) -> Result<()> {
        let pair = types.emitted(ctx, key, value)?;
        let mut emits = self.emits.borrow_mut();
        let refuse = |message: String| Err(Error::location(31292, message));
        let Some(emits) = emits.as_mut() else {
            return refuse("emit may be called by the map function only".to_owned());
        };
        let bytes_max = super::EMIT_BYTES_MAX.load(Ordering::Relaxed);
        emits.bytes += pair.as_bytes().len() + EMIT_BYTES_MIN;
        if emits.bytes > usize::try_from(bytes_max).unwrap_or(0) {
            return refuse(format!(
                "Size of emitted values exceeds the set size limit of {bytes_max} bytes"
            ));
        }
        emits.pairs.push(pair);
        emits.memory.grow(emits.bytes)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hex =
        text.len().is_multiple_of(2) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_hex.then(|| (0..text.len()).step_by(2).filter_map(pair).collect())
}
