//! BSON to values of JavaScript and back.
//!
//! In: a BSON value. Out: what a function sees of it, and the other way around. Types that JavaScript lacks are objects
//! that say their type (`prelude.js`). What a function returns is a new value: numbers are doubles, whatever they were.

// The class of an object is told by its library only.
#![allow(unsafe_code)]

use super::instance::read;
use crate::error::{Code, Error, Result, malformed};
use base64::Engine as _;
use bson::oid::ObjectId;
use bson::raw::{CString, RawBson, RawBsonRef, RawDocumentBuf};
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, DateTime, Decimal128, RawArrayBuf, RawDocument, Timestamp};
use meridian_value::{DocumentBuilder, field};
use rquickjs::function::IntoArgs;
use rquickjs::object::Property;
use rquickjs::{Array, Atom, BigInt, Ctx, FromJs, Function, IntoJs, Object, Symbol, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;

/// Levels of what a function returns, as in mongod.
const LEVELS_MAX: usize = 150;

/// The most that a function may return, as a document may have.
const BYTES_MAX: usize = (16 << 20) + (16 << 10);

/// The documents of which functions see objects, by the numbers that these objects have: so numbers that were not
/// changed keep their types.
#[derive(Default)]
pub(super) struct Originals {
    /// What the call got, each in a document of its own.
    given: Vec<Rc<RawDocumentBuf>>,
    /// Documents within: in which given one, and where.
    places: Vec<(usize, Range<usize>)>,
    /// The number of the first place: numbers of earlier calls mean nothing.
    first: usize,
}

impl Originals {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.first += self.places.len();
        self.places.clear();
        self.given.clear();
    }

    /// The number of a document that lies within the last given one.
    fn add(&mut self, document: &RawDocument) -> Option<usize> {
        let given = self.given.last()?.as_bytes();
        let bytes = document.as_bytes();
        let start = (bytes.as_ptr() as usize).checked_sub(given.as_ptr() as usize)?;
        let place = start..start + bytes.len();
        given.get(place.clone())?;
        self.places.push((self.given.len() - 1, place));
        Some(self.first + self.places.len() - 1)
    }

    fn get(&self, number: f64) -> Option<(Rc<RawDocumentBuf>, Range<usize>)> {
        let (given, place) = self
            .places
            .get((number as usize).checked_sub(self.first)?)?;
        Some((self.given[*given].clone(), place.clone()))
    }
}

/// What `prelude.js` gives, and the documents of the call.
pub(super) struct Types<'js, 'o> {
    object: Object<'js>,
    originals: &'o RefCell<Originals>,
    /// What the value that is being converted may still take.
    bytes_left: Cell<usize>,
}

impl<'js, 'o> Types<'js, 'o> {
    pub(super) fn new(object: Object<'js>, originals: &'o RefCell<Originals>) -> Self {
        Self {
            object,
            originals,
            bytes_left: Cell::new(BYTES_MAX),
        }
    }

    /// Calls a function of `prelude.js`.
    pub(super) fn make<A: IntoArgs<'js>, T: FromJs<'js>>(
        &self,
        what: &str,
        arguments: A,
    ) -> rquickjs::Result<T> {
        self.object.get::<_, Function>(what)?.call(arguments)
    }

    /// A value that a function gets, with documents that may come back unchanged.
    pub(super) fn given(
        &self,
        ctx: &Ctx<'js>,
        value: RawBsonRef<'_>,
    ) -> rquickjs::Result<Value<'js>> {
        if !matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_)) {
            return self.value(ctx, value);
        }
        let mut holder = RawDocumentBuf::new();
        holder.append(bson::raw::cstr!(""), value);
        let holder = Rc::new(holder);
        self.originals.borrow_mut().given.push(holder.clone());
        let first = holder.iter().flatten().next();
        self.value(ctx, first.map_or(RawBsonRef::Null, |(_, value)| value))
    }

    /// A value as functions see it.
    pub(super) fn value(
        &self,
        ctx: &Ctx<'js>,
        value: RawBsonRef<'_>,
    ) -> rquickjs::Result<Value<'js>> {
        match value {
            // As a number it could become an integer, which has no -0.
            RawBsonRef::Double(number) => Ok(Value::new_float(ctx.clone(), number)),
            RawBsonRef::Int32(number) => Ok(Value::new_int(ctx.clone(), number)),
            RawBsonRef::Boolean(value) => Ok(Value::new_bool(ctx.clone(), value)),
            RawBsonRef::Null => Ok(Value::new_null(ctx.clone())),
            RawBsonRef::Undefined => Ok(Value::new_undefined(ctx.clone())),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => text.into_js(ctx),
            RawBsonRef::Document(document) => self.document(ctx, document),
            RawBsonRef::Array(array) => {
                let made = Array::new(ctx.clone())?;
                for (at, item) in array.into_iter().flatten().enumerate() {
                    let item = self.value(ctx, item)?;
                    define(&made, Atom::from_u32(ctx.clone(), at as u32)?, item)?;
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
            // As in mongod the function does not see the scope.
            RawBsonRef::JavaScriptCodeWithScope(code) => self.code(ctx, code.code),
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

    /// A function, where the text is one or the body of one; else its text.
    fn code(&self, ctx: &Ctx<'js>, code: &str) -> rquickjs::Result<Value<'js>> {
        match super::instance::define(ctx, code) {
            Ok(function) => function.into_js(ctx),
            Err(_) => self.make("code", (code,)),
        }
    }

    /// A document as functions see it: of names that come twice the first counts.
    pub(super) fn document(
        &self,
        ctx: &Ctx<'js>,
        document: &RawDocument,
    ) -> rquickjs::Result<Value<'js>> {
        let mut names = document.iter().flatten().map(|(name, _)| name);
        let is_reference = names.next().is_some_and(|name| name == "$ref")
            && names.next().is_some_and(|name| name == "$id");
        let made = match is_reference {
            true => self.make("reference", ())?,
            false => Object::new(ctx.clone())?,
        };
        let mut fields = None;
        for (place, (name, value)) in document.iter().flatten().enumerate() {
            let key = Atom::from_str(ctx.clone(), name.as_str())?;
            // A prototype may have the name, too.
            let is_second = made.contains_key(key.clone())?
                && fields.get_or_insert_with(|| by_name(document))[name.as_str()].0 != place;
            if !is_second {
                define(&made, key, self.value(ctx, value)?)?;
            }
        }
        let number = self.originals.borrow_mut().add(document);
        match number {
            Some(number) => self.make("from", (made, number as f64)),
            None => made.into_js(ctx),
        }
    }

    /// What a function returned; none for `undefined`.
    ///
    /// # Errors
    /// `BadValue` for what BSON has no type for, and those of what lies within.
    pub(super) fn returned(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Option<RawBson>> {
        if value.is_big_int() || value.is_symbol() {
            return Err(Error::bad_value("unable to get type"));
        }
        self.bytes_left.set(BYTES_MAX);
        let found = self.bson(ctx, value, None, 0)?;
        Ok(found.map(|value| match value {
            RawBson::Document(document) => RawBson::Document(id_first(document)),
            value => value,
        }))
    }

    /// The `{k, v}` of what was given to `emit`.
    ///
    /// # Errors
    /// Those of [`Self::nested`].
    pub(super) fn emitted(
        &self,
        ctx: &Ctx<'js>,
        key: &Value<'js>,
        value: &Value<'js>,
    ) -> Result<RawDocumentBuf> {
        self.bytes_left.set(BYTES_MAX);
        let key = match self.nested(ctx, key, || "0".to_owned(), None, 0)? {
            RawBson::Undefined => RawBson::Null,
            key => key,
        };
        let mut pair = RawDocumentBuf::new();
        pair.append(bson::raw::cstr!("k"), key);
        pair.append(
            bson::raw::cstr!("v"),
            self.nested(ctx, value, || "1".to_owned(), None, 0)?,
        );
        Ok(pair)
    }

    /// Takes so many bytes of what the result may have.
    fn take(&self, bytes: usize) -> Result<()> {
        let left = self.bytes_left.get().checked_sub(bytes).ok_or_else(|| {
            let message = format!(
                "Converting from JavaScript to BSON failed: Object size exceeds limit of {BYTES_MAX} bytes."
            );
            Error::location(17260, message)
        })?;
        self.bytes_left.set(left);
        Ok(())
    }

    /// The text of a string, in which halves of surrogate pairs are U+FFFD.
    pub(super) fn text(&self, ctx: &Ctx<'js>, text: &rquickjs::String<'js>) -> Result<String> {
        match text.to_string() {
            Err(rquickjs::Error::Utf8(_)) => read(ctx, self.make("wellFormed", (text.clone(),))),
            text => read(ctx, text),
        }
    }

    /// A value; `before` is what its place held before the function ran. None for `undefined` and what BSON has no type for.
    fn bson(
        &self,
        ctx: &Ctx<'js>,
        value: &Value<'js>,
        before: Option<RawBsonRef<'_>>,
        levels: usize,
    ) -> Result<Option<RawBson>> {
        self.take(1)?;
        if let Some(number) = value.as_number() {
            self.take(4)?;
            let was_integer = matches!(before, Some(RawBsonRef::Int32(_)));
            let is_integer = f64::from(number as i32) == number;
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
            let text = self.text(ctx, text)?;
            self.take(text.len())?;
            return Ok(Some(RawBson::String(text)));
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
        // The traps of a proxy are not asked for what the host knows.
        if object.is_proxy() {
            return self
                .fields(ctx, object, None, levels + 1)
                .map(|fields| Some(RawBson::Document(fields)));
        }
        let kind: Symbol = read(ctx, self.object.get("kind"))?;
        let kind: Value = read(ctx, object.get(kind))?;
        if let Some(kind) = kind.as_string() {
            return self
                .special(ctx, &self.text(ctx, kind)?, object, levels)
                .map(Some);
        }
        if value.is_function() {
            let text: rquickjs::String = read(ctx, self.make("sourceOf", (object.clone(),)))?;
            let text = self.text(ctx, &text)?;
            self.take(text.len())?;
            return Ok(Some(RawBson::JavaScriptCode(text)));
        }
        self.object(ctx, object, levels + 1).map(Some)
    }

    fn object(&self, ctx: &Ctx<'js>, object: &Object<'js>, levels: usize) -> Result<RawBson> {
        if object.is_array() {
            return self.array(ctx, object, levels);
        }
        if is_date(object) {
            let time: f64 = read(ctx, self.make("timeOf", (object.clone(),)))?;
            return Ok(RawBson::DateTime(DateTime::from_millis(time as i64)));
        }
        if is_regex(object) {
            let [source, options] = ["source", "flags"].map(|part| {
                let part: rquickjs::String = read(ctx, object.get(part))?;
                self.text(ctx, &part)
            });
            let (source, options) = (source?, options?);
            self.take(source.len() + options.len())?;
            return Ok(RawBson::RegularExpression(bson::Regex {
                pattern: name(&source)?,
                options: name(&options)?,
            }));
        }
        let original: Symbol = read(ctx, self.object.get("original"))?;
        let number: Value = read(ctx, object.get(original))?;
        let original = number
            .as_number()
            .and_then(|number| self.originals.borrow().get(number));
        let Some((given, place)) = original else {
            return self
                .fields(ctx, object, None, levels)
                .map(RawBson::Document);
        };
        let before = RawDocument::from_bytes(&given.as_bytes()[place]).map_err(malformed)?;
        let fields = self.fields(ctx, object, Some(before), levels)?;
        Ok(RawBson::Document(fields))
    }

    fn array(&self, ctx: &Ctx<'js>, array: &Object<'js>, levels: usize) -> Result<RawBson> {
        let length: f64 = read(ctx, array.get("length"))?;
        let mut items = RawArrayBuf::new();
        self.take(5)?;
        // No length is longer than this.
        for at in 0..length as u32 {
            if at % 4096 == 0 {
                crate::operation::check()?;
            }
            self.take(2 + at.checked_ilog10().unwrap_or(0) as usize)?;
            let item: Value = read(ctx, array.get(at))?;
            items.push(self.nested(ctx, &item, || at.to_string(), None, levels)?);
        }
        Ok(RawBson::Array(items))
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

    /// The fields of an object that are enumerable, in the order of the document that it was; those of an unchanged
    /// one are as they were.
    fn fields(
        &self,
        ctx: &Ctx<'js>,
        object: &Object<'js>,
        before: Option<&RawDocument>,
        levels: usize,
    ) -> Result<RawDocumentBuf> {
        crate::operation::check()?;
        let before_fields = before.map(by_name).unwrap_or_default();
        if let Some(before) = before
            && self.is_unchanged(ctx, object, &before_fields)?
        {
            self.take(before.as_bytes().len())?;
            return Ok(before.to_owned());
        }
        let mut keys = Vec::new();
        for key in object.keys::<Atom>() {
            let key = read(ctx, key)?;
            let text = self.text(ctx, &read(ctx, key.to_js_string())?)?;
            let place = before_fields
                .get(&*text)
                .map_or(usize::MAX, |(place, _)| *place);
            keys.push((place, text, key));
        }
        keys.sort_by_key(|(place, ..)| *place);
        let mut document = RawDocumentBuf::new();
        self.take(5)?;
        for (_, text, key) in keys {
            self.take(text.len() + 1)?;
            let value: Value = read(ctx, object.get(key))?;
            let before = before_fields.get(&*text).map(|(_, value)| *value);
            let value = self.nested(ctx, &value, || text.clone(), before, levels)?;
            document.append(name(&text)?, value);
        }
        Ok(document)
    }

    /// Whether an object still has just the fields of the document that it was made of.
    fn is_unchanged(
        &self,
        ctx: &Ctx<'js>,
        object: &Object<'js>,
        before: &HashMap<&str, (usize, RawBsonRef<'_>)>,
    ) -> Result<bool> {
        let mut count = 0;
        for key in object.keys::<Atom>() {
            let key = read(ctx, key)?;
            let text = self.text(ctx, &read(ctx, key.to_js_string())?)?;
            let Some((_, before)) = before.get(&*text) else {
                return Ok(false);
            };
            let value: Value = read(ctx, object.get(key))?;
            if !self.is_same(ctx, &value, *before)? {
                return Ok(false);
            }
            count += 1;
        }
        Ok(count == before.len())
    }

    fn is_same(&self, ctx: &Ctx<'js>, value: &Value<'js>, before: RawBsonRef<'_>) -> Result<bool> {
        Ok(match before {
            RawBsonRef::Int32(number) => value.as_number() == Some(f64::from(number)),
            RawBsonRef::Double(number) => value
                .as_number()
                .is_some_and(|own| own.to_bits() == number.to_bits()),
            RawBsonRef::String(text) => match value.as_string() {
                Some(own) => self.text(ctx, own)? == text,
                None => false,
            },
            RawBsonRef::Undefined => value.is_undefined(),
            RawBsonRef::Document(document) => match value.as_object() {
                Some(object) if !object.is_array() && !object.is_proxy() => {
                    self.is_unchanged(ctx, object, &by_name(document))?
                }
                _ => false,
            },
            RawBsonRef::Array(items) => match value.as_object().filter(|_| value.is_array()) {
                Some(array) => {
                    let length: f64 = read(ctx, array.get("length"))?;
                    let mut is_same = length == items.into_iter().count() as f64;
                    for (at, item) in items.into_iter().flatten().enumerate() {
                        if is_same {
                            let own: Value = read(ctx, array.get(at as u32))?;
                            is_same = self.is_same(ctx, &own, item)?;
                        }
                    }
                    is_same
                }
                None => false,
            },
            // Functions and symbols come back as other types.
            RawBsonRef::JavaScriptCode(_) | RawBsonRef::JavaScriptCodeWithScope(_) => {
                value.is_function()
            }
            RawBsonRef::Symbol(text) => match value.as_string() {
                Some(own) => self.text(ctx, own)? == text,
                None => false,
            },
            _ => {
                let left = self.bytes_left.get();
                let own = self.bson(ctx, value, None, LEVELS_MAX - 2)?;
                self.bytes_left.set(left);
                own.is_some_and(|own| own.as_raw_bson_ref() == before)
            }
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
        self.take(8)?;
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
                bytes: {
                    let text = text()?;
                    self.take(text.len() / 4 * 3)?;
                    unbase64(&text).ok_or_else(|| broken("invalid base64".to_owned()))?
                },
            }),
            "minKey" => RawBson::MinKey,
            "maxKey" => RawBson::MaxKey,
            "code" => {
                let code: rquickjs::String = read(ctx, object.get("code"))?;
                let code = self.text(ctx, &code)?;
                self.take(code.len())?;
                let scope: Value = read(ctx, object.get("scope"))?;
                match scope.as_object() {
                    None => RawBson::JavaScriptCode(code),
                    Some(scope) => {
                        RawBson::JavaScriptCodeWithScope(bson::raw::RawJavaScriptCodeWithScope {
                            code,
                            scope: self.fields(ctx, scope, None, levels + 1)?,
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
        .filter(|option| "dgimsuy".contains(*option))
        .collect()
}

/// Where the fields of a document stand, and what they hold: of names that come twice the first counts.
fn by_name(document: &RawDocument) -> HashMap<&str, (usize, RawBsonRef<'_>)> {
    let mut fields = HashMap::new();
    for (place, (name, value)) in document.iter().flatten().enumerate() {
        fields.entry(name.as_str()).or_insert((place, value));
    }
    fields
}

fn name(text: &str) -> Result<CString> {
    CString::try_from(text.to_owned()).map_err(|_| {
        let message =
            "JavaScript property (name) contains a null char which is not allowed in BSON. ";
        Error::location(16985, message)
    })
}

/// Gives an object a property of its own, whatever the client has done to prototypes.
fn define<'js>(object: &Object<'js>, name: Atom<'js>, value: Value<'js>) -> rquickjs::Result<()> {
    object.prop(
        name,
        Property::from(value).writable().enumerable().configurable(),
    )
}

fn is_date(object: &Object<'_>) -> bool {
    // SAFETY: the value lives as long as the reference to it.
    unsafe { rquickjs::qjs::JS_IsDate(object.as_value().as_raw()) }
}

fn is_regex(object: &Object<'_>) -> bool {
    // SAFETY: the value lives as long as the reference to it.
    unsafe { rquickjs::qjs::JS_IsRegExp(object.as_value().as_raw()) }
}

/// The standard alphabet, padded.
pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// As MongoDB reads it: the bits behind the last byte may be any.
pub(super) fn unbase64(text: &str) -> Option<Vec<u8>> {
    use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    LENIENT.decode(text).ok()
}
