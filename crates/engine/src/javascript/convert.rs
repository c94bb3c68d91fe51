//! BSON to values of JavaScript and back.
//!
//! In: a BSON value. Out: what a function sees of it, and the other way around. Types that JavaScript lacks are objects
//! that say their type (`prelude.js`). What a function returns is a new value: numbers are doubles, whatever they were.

use super::instance::read;
use crate::error::{Code, Error, Result};
use base64::Engine as _;
use bson::oid::ObjectId;
use bson::raw::{CString, RawBson, RawBsonRef, RawDocumentBuf};
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, DateTime, Decimal128, RawArrayBuf, RawDocument, Timestamp};
use meridian_value::{DocumentBuilder, field};
use rquickjs::{Array, BigInt, Ctx, FromJs, Function, IntoJs, Object, Symbol, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::str::FromStr;

/// Levels of what a function returns, as in mongod.
const LEVELS_MAX: usize = 150;

/// The documents of which a function sees objects, by the numbers that these objects have: so numbers that were not
/// changed keep their types.
#[derive(Default)]
pub(super) struct Originals {
    documents: HashMap<u64, RawDocumentBuf>,
    next: u64,
}

impl Originals {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.documents.clear();
    }

    fn add(&mut self, document: &RawDocument) -> u64 {
        self.next += 1;
        self.documents.insert(self.next, document.to_owned());
        self.next
    }
}

/// What `prelude.js` gives, and the documents of the call.
pub(super) struct Types<'js, 'o> {
    pub object: Object<'js>,
    pub originals: &'o RefCell<Originals>,
}

impl<'js> Types<'js, '_> {
    fn make<A: rquickjs::function::IntoArgs<'js>>(
        &self,
        what: &str,
        arguments: A,
    ) -> rquickjs::Result<Value<'js>> {
        self.object.get::<_, Function>(what)?.call(arguments)
    }

    /// A value as functions see it.
    pub(super) fn value(
        &self,
        ctx: &Ctx<'js>,
        value: RawBsonRef<'_>,
    ) -> rquickjs::Result<Value<'js>> {
        match value {
            RawBsonRef::Double(number) => Ok(Value::new_number(ctx.clone(), number)),
            RawBsonRef::Int32(number) => Ok(Value::new_int(ctx.clone(), number)),
            RawBsonRef::Boolean(value) => Ok(Value::new_bool(ctx.clone(), value)),
            RawBsonRef::Null => Ok(Value::new_null(ctx.clone())),
            RawBsonRef::Undefined => Ok(Value::new_undefined(ctx.clone())),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => text.into_js(ctx),
            RawBsonRef::Document(document) => self.document(ctx, document),
            RawBsonRef::Array(array) => {
                let made = Array::new(ctx.clone())?;
                for (at, item) in array.into_iter().flatten().enumerate() {
                    made.set(at, self.value(ctx, item)?)?;
                }
                made.into_js(ctx)
            }
            RawBsonRef::Int64(number) => {
                self.make("long", (BigInt::from_i64(ctx.clone(), number)?,))
            }
            RawBsonRef::Decimal128(number) => self.make("decimal", (number.to_string(),)),
            RawBsonRef::ObjectId(id) => self.make("objectId", (id.to_hex(),)),
            RawBsonRef::DateTime(time) => self.make("date", (time.timestamp_millis() as f64,)),
            RawBsonRef::Timestamp(stamp) => self.make(
                "timestamp",
                (f64::from(stamp.time), f64::from(stamp.increment)),
            ),
            RawBsonRef::Binary(binary) => {
                let text = base64(binary.bytes);
                self.make("binary", (i32::from(u8::from(binary.subtype)), text))
            }
            RawBsonRef::RegularExpression(regex) => self.make(
                "regex",
                (regex.pattern.as_str(), flags(regex.options.as_str())),
            ),
            RawBsonRef::JavaScriptCode(code) => self.code(ctx, code),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                let scope = self.document(ctx, code.scope)?;
                self.make("code", (code.code, scope))
            }
            RawBsonRef::DbPointer(_) => self.pointer(value),
            RawBsonRef::MinKey => self.make("minKey", ()),
            RawBsonRef::MaxKey => self.make("maxKey", ()),
        }
    }

    fn pointer(&self, value: RawBsonRef<'_>) -> rquickjs::Result<Value<'js>> {
        // The namespace of a pointer cannot be read otherwise.
        let mut holder = RawDocumentBuf::new();
        holder.append(bson::raw::cstr!(""), value);
        let bytes = holder.as_bytes();
        // length | type | "" | length of the text | text | 0 | id | 0
        let (id, text) = (
            &bytes[bytes.len() - 13..bytes.len() - 1],
            &bytes[10..bytes.len() - 14],
        );
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.make(
            "dbPointer",
            (String::from_utf8_lossy(text).into_owned(), hex),
        )
    }

    /// A function, where the text is one; else its text.
    fn code(&self, ctx: &Ctx<'js>, code: &str) -> rquickjs::Result<Value<'js>> {
        let made = self.make("function", (code,));
        match made {
            Ok(value) if value.is_function() => Ok(value),
            _ => {
                ctx.catch();
                self.make("code", (code,))
            }
        }
    }

    /// A document as functions see it.
    pub(super) fn document(
        &self,
        ctx: &Ctx<'js>,
        document: &RawDocument,
    ) -> rquickjs::Result<Value<'js>> {
        let made = Object::new(ctx.clone())?;
        for (name, value) in document.iter().flatten() {
            made.set(name.as_str(), self.value(ctx, value)?)?;
        }
        let number = self.originals.borrow_mut().add(document);
        self.make("from", (made, number as f64))
    }

    /// What a function returned; none for `undefined`.
    ///
    /// # Errors
    /// `BadValue` for what BSON has no type for, and those of what lies within.
    pub(super) fn returned(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Option<RawBson>> {
        if value.is_big_int() || value.is_symbol() {
            return Err(Error::bad_value("unable to get type"));
        }
        let found = self.bson(ctx, value, None, 0)?;
        Ok(found.map(|value| match value {
            RawBson::Document(document) => RawBson::Document(id_first(document)),
            value => value,
        }))
    }

    /// A value; `before` is what its place held before the function ran. None for `undefined` and what BSON has no type for.
    fn bson(
        &self,
        ctx: &Ctx<'js>,
        value: &Value<'js>,
        before: Option<RawBsonRef<'_>>,
        levels: usize,
    ) -> Result<Option<RawBson>> {
        if let Some(number) = value.as_number() {
            let was_integer = matches!(before, Some(RawBsonRef::Int32(_)));
            let is_integer = number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX);
            return Ok(Some(match was_integer && is_integer {
                true => RawBson::Int32(number as i32),
                false => RawBson::Double(number),
            }));
        }
        if let Some(value) = value.as_bool() {
            return Ok(Some(RawBson::Boolean(value)));
        }
        if value.is_null() {
            return Ok(Some(RawBson::Null));
        }
        if let Some(text) = value.as_string() {
            return Ok(Some(RawBson::String(read(ctx, text.to_string())?)));
        }
        let Some(object) = value.as_object() else {
            return Ok(None);
        };
        if levels >= LEVELS_MAX {
            return Err(Error::location(
                17279,
                "Exceeded depth limit of 150 when converting js object to BSON. Do you have a cycle?",
            ));
        }
        let kind: Symbol = read(ctx, self.object.get("kind"))?;
        if let Some(kind) = read(ctx, object.get::<_, Option<String>>(kind))? {
            return self.special(ctx, &kind, object, levels).map(Some);
        }
        if value.is_function() {
            let text: String = read(ctx, call_method(object, "toString"))?;
            return Ok(Some(RawBson::JavaScriptCode(text)));
        }
        self.object(ctx, object, levels + 1).map(Some)
    }

    fn object(&self, ctx: &Ctx<'js>, object: &Object<'js>, levels: usize) -> Result<RawBson> {
        if let Some(array) = object.as_array() {
            let mut items = RawArrayBuf::new();
            for (at, item) in array.iter::<Value>().enumerate() {
                let item = read(ctx, item)?;
                let item = self.nested(ctx, &item, || at.to_string(), None, levels)?;
                items.push(item);
            }
            return Ok(RawBson::Array(items));
        }
        let is = |class: &str| {
            let constructor = ctx.globals().get::<_, Object>(class);
            constructor.is_ok_and(|constructor| object.is_instance_of(&constructor))
        };
        if is("Date") {
            let time: f64 = read(ctx, call_method(object, "getTime"))?;
            return Ok(RawBson::DateTime(DateTime::from_millis(time as i64)));
        }
        if is("RegExp") {
            let source: String = read(ctx, object.get("source"))?;
            let options: String = read(ctx, object.get("flags"))?;
            return Ok(RawBson::RegularExpression(bson::Regex {
                pattern: name(&source)?,
                options: name(&options)?,
            }));
        }
        self.fields(ctx, object, levels).map(RawBson::Document)
    }

    /// A value within another; what is undefined is so in BSON.
    ///
    /// # Errors
    /// 16662 for what BSON has no type for, and those of what lies within.
    pub(super) fn nested(
        &self,
        ctx: &Ctx<'js>,
        value: &Value<'js>,
        name: impl Fn() -> String,
        before: Option<RawBsonRef<'_>>,
        levels: usize,
    ) -> Result<RawBson> {
        if value.is_big_int() || value.is_symbol() {
            let message = format!(
                "unable to convert JavaScript property to mongo element {}",
                name()
            );
            return Err(Error::location(16662, message));
        }
        let found = self.bson(ctx, value, before, levels)?;
        Ok(found.unwrap_or(RawBson::Undefined))
    }

    /// The fields of an object that are enumerable. Those of one that was a document, and is unchanged, are as they were.
    fn fields(
        &self,
        ctx: &Ctx<'js>,
        object: &Object<'js>,
        levels: usize,
    ) -> Result<RawDocumentBuf> {
        let original: Symbol = read(ctx, self.object.get("original"))?;
        let number: Option<f64> = read(ctx, object.get(original))?;
        let before = number.and_then(|number| {
            let originals = self.originals.borrow();
            originals.documents.get(&(number as u64)).cloned()
        });
        if let Some(before) = &before
            && self.is_unchanged(ctx, object, before)?
        {
            return Ok(before.clone());
        }
        let mut document = RawDocumentBuf::new();
        for field in object.props::<String, Value>() {
            let (field, value) = read(ctx, field)?;
            let before = before
                .as_ref()
                .and_then(|before| before.get(&field).ok().flatten());
            let value = self.nested(ctx, &value, || field.clone(), before, levels)?;
            document.append(name(&field)?, value);
        }
        Ok(document)
    }

    /// Whether an object still has just the fields of the document that it was made of.
    fn is_unchanged(
        &self,
        ctx: &Ctx<'js>,
        object: &Object<'js>,
        before: &RawDocument,
    ) -> Result<bool> {
        let mut fields = before.iter().flatten();
        let count = before.iter().count();
        if object.len() != count {
            return Ok(false);
        }
        for field in object.props::<String, Value>() {
            let (_, value) = read(ctx, field)?;
            let Some((_, before)) = fields.next() else {
                return Ok(false);
            };
            if !self.is_same(ctx, &value, before)? {
                return Ok(false);
            }
        }
        Ok(object.keys::<String>().flatten().eq(before
            .iter()
            .flatten()
            .map(|(name, _)| name.as_str().to_owned())))
    }

    fn is_same(&self, ctx: &Ctx<'js>, value: &Value<'js>, before: RawBsonRef<'_>) -> Result<bool> {
        Ok(match before {
            RawBsonRef::Int32(number) => value.as_number() == Some(f64::from(number)),
            RawBsonRef::Double(number) => value
                .as_number()
                .is_some_and(|own| own.to_bits() == number.to_bits()),
            RawBsonRef::String(text) => match value.as_string() {
                Some(own) => read(ctx, own.to_string())? == text,
                None => false,
            },
            RawBsonRef::Undefined => value.is_undefined(),
            RawBsonRef::Document(document) => match value.as_object() {
                Some(object) => !object.is_array() && self.is_unchanged(ctx, object, document)?,
                None => false,
            },
            RawBsonRef::Array(items) => match value.as_array() {
                Some(array) => {
                    let mut same = array.len() == items.into_iter().count();
                    for (own, item) in array.iter::<Value>().zip(items.into_iter().flatten()) {
                        same = same && self.is_same(ctx, &read(ctx, own)?, item)?;
                    }
                    same
                }
                None => false,
            },
            _ => self
                .bson(ctx, value, None, LEVELS_MAX - 2)?
                .is_some_and(|own| own.as_raw_bson_ref() == before),
        })
    }

    fn special(
        &self,
        ctx: &Ctx<'js>,
        kind: &str,
        object: &Object<'js>,
        levels: usize,
    ) -> Result<RawBson> {
        let text = || read::<String>(ctx, object.get("$value"));
        let broken = |error: String| Error::new(Code::JSInterpreterFailure, error);
        Ok(match kind {
            "long" => {
                let number: BigInt = read(ctx, object.get("$value"))?;
                RawBson::Int64(read(ctx, number.to_i64())?)
            }
            "int" => RawBson::Int32(read(ctx, object.get("$value"))?),
            "decimal" => RawBson::Decimal128(
                Decimal128::from_str(&text()?).map_err(|error| broken(error.to_string()))?,
            ),
            "objectId" => RawBson::ObjectId(
                ObjectId::parse_str(text()?).map_err(|error| broken(error.to_string()))?,
            ),
            "timestamp" => RawBson::Timestamp(Timestamp {
                time: read::<f64>(ctx, object.get("t"))? as u32,
                increment: read::<f64>(ctx, object.get("i"))? as u32,
            }),
            "binary" => RawBson::Binary(Binary {
                subtype: BinarySubtype::from(read::<i32>(ctx, object.get("type"))? as u8),
                bytes: unbase64(&text()?).ok_or_else(|| broken("invalid base64".to_owned()))?,
            }),
            "minKey" => RawBson::MinKey,
            "maxKey" => RawBson::MaxKey,
            "code" => {
                let code = read(ctx, object.get("code"))?;
                let scope: Value = read(ctx, object.get("scope"))?;
                match scope.as_object() {
                    None => RawBson::JavaScriptCode(code),
                    Some(scope) => {
                        RawBson::JavaScriptCodeWithScope(bson::raw::RawJavaScriptCodeWithScope {
                            code,
                            scope: self.fields(ctx, scope, levels)?,
                        })
                    }
                }
            }
            "dbPointer" => {
                let ns: String = read(ctx, object.get("ns"))?;
                let id: Object = read(ctx, object.get("id"))?;
                pointer(&ns, &read::<String>(ctx, id.get("$value"))?).map_err(broken)?
            }
            other => return Err(broken(format!("an object says that it is a {other}"))),
        })
    }
}

/// A document with its `_id` in front.
fn id_first(document: RawDocumentBuf) -> RawDocumentBuf {
    let is_first = document
        .iter()
        .flatten()
        .next()
        .is_none_or(|(name, _)| name == "_id");
    let Some(id) = field::find(&document, b"_id").filter(|_| !is_first) else {
        return document;
    };
    let mut ordered = DocumentBuilder::default();
    ordered.copy(&id);
    field::fields(&document)
        .filter(|field| field.name() != b"_id")
        .for_each(|field| ordered.copy(&field));
    ordered.finish()
}

/// A pointer, which cannot be made otherwise than of its bytes.
fn pointer(ns: &str, id: &str) -> std::result::Result<RawBson, String> {
    let id = ObjectId::parse_str(id).map_err(|error| error.to_string())?;
    let mut value = (ns.len() as u32 + 1).to_le_bytes().to_vec();
    value.extend_from_slice(ns.as_bytes());
    value.push(0);
    value.extend_from_slice(&id.bytes());
    let mut holder = DocumentBuilder::default();
    holder.field(ElementType::DbPointer, b"", &value);
    let holder = holder.finish();
    let first = holder.iter().next();
    let first = first.and_then(|entry| entry.ok());
    first
        .map(|(_, value)| value.into())
        .ok_or_else(|| "no pointer".to_owned())
}

/// The flags of JavaScript that stand for options of PCRE.
fn flags(options: &str) -> String {
    options
        .chars()
        .filter(|option| "imsu".contains(*option))
        .collect()
}

fn name(text: &str) -> Result<CString> {
    CString::try_from(text.to_owned()).map_err(|_| {
        Error::new(
            Code::JSInterpreterFailure,
            "cannot convert JavaScript object to BSON: a name holds a zero byte",
        )
    })
}

fn call_method<'js, T: FromJs<'js>>(object: &Object<'js>, method: &str) -> rquickjs::Result<T> {
    let function: Function = object.get(method)?;
    function.call((rquickjs::function::This(object.clone()),))
}

/// The standard alphabet, padded.
pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(super) fn unbase64(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
