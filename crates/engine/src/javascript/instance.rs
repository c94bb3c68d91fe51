//! One JavaScript engine with the functions of a statement: its globals live as long as it does.

// An engine is used by one thread at a time, and may move to another, which its library cannot tell.
#![allow(unsafe_code)]

use super::allocator::BudgetAllocator;
use super::convert::{Originals, Types, base64, unbase64};
use crate::error::{Code, Error, Result};
use crate::operation;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use parking_lot::Mutex;
use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Object, Persistent, Runtime,
    Value,
};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Stack that scripts may use of the thread's own.
const STACK_BYTES_MAX: usize = 1 << 20;
/// Pairs that the map function of one document may emit.
const EMITS_MAX: usize = 1_000_000;

/// An engine in which a statement's functions are defined.
pub(super) struct Instance {
    functions: Vec<Persistent<Function<'static>>>,
    types: Persistent<Object<'static>>,
    originals: RefCell<Originals>,
    /// Why the statement had to end while a function ran.
    interruption: Arc<Mutex<Option<Error>>>,
    is_spent: Cell<bool>,
    context: Context,
    _runtime: Runtime,
}

// SAFETY: everything that refers to the engine (reference counts without atomics) is in here and moves with it, and
// only a thread that owns the value uses it.
unsafe impl Send for Instance {}

/// What a function is called with.
pub struct Call<'a> {
    /// `this`.
    pub this: Option<&'a RawDocument>,
    /// The arguments.
    pub arguments: &'a [RawBsonRef<'a>],
}

impl Instance {
    /// Starts an engine and defines the functions in it.
    ///
    /// # Errors
    /// `JSInterpreterFailure` where one does not compile; `ExceededMemoryLimit`.
    pub(super) fn new(sources: &[Box<str>], scope: Option<&RawDocument>) -> Result<Self> {
        let memory = |_| {
            Error::new(
                Code::ExceededMemoryLimit,
                "no memory for a JavaScript engine",
            )
        };
        let runtime = Runtime::new_with_alloc(BudgetAllocator::new()).map_err(memory)?;
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        let interruption = Arc::new(Mutex::new(None));
        let noted = interruption.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let ended = operation::yield_if_due().err();
            let is_ended = ended.is_some();
            if is_ended {
                *noted.lock() = ended;
            }
            is_ended
        })));
        let context = Context::full(&runtime).map_err(memory)?;
        let (types, functions) = context.with(|ctx| {
            let types = prelude(&ctx)?;
            let originals = RefCell::default();
            let made = Types {
                object: types.clone(),
                originals: &originals,
            };
            for (name, value) in scope.into_iter().flat_map(|scope| scope.iter().flatten()) {
                let value = read(&ctx, made.value(&ctx, value))?;
                read(&ctx, ctx.globals().set(name.as_str(), value))?;
            }
            let functions: Result<Vec<_>> = sources
                .iter()
                .map(|source| Ok(Persistent::save(&ctx, define(&ctx, source)?)))
                .collect();
            Ok::<_, Error>((Persistent::save(&ctx, types), functions?))
        })?;
        Ok(Self {
            functions,
            types,
            originals: RefCell::default(),
            interruption,
            is_spent: Cell::new(false),
            context,
            _runtime: runtime,
        })
    }

    /// Whether it was stopped amid a function, so that its state may be anything.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// Calls a function; none where it returns nothing that BSON has a type for.
    ///
    /// # Errors
    /// `JSInterpreterFailure` with what it threw; why the statement had to end.
    pub(super) fn call(&self, function: usize, call: &Call<'_>) -> Result<Option<RawBson>> {
        self.run(function, call, |ctx, types, value| {
            types.returned(ctx, &value)
        })
    }

    /// Calls a function and tells whether what it returns is true in JavaScript's sense.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(super) fn holds(&self, function: usize, call: &Call<'_>) -> Result<bool> {
        self.run(function, call, |ctx, _, value| {
            let boolean: Function = read(ctx, ctx.globals().get("Boolean"))?;
            read(ctx, boolean.call((value,)))
        })
    }

    /// Calls a function and returns what it has given to `emit`: `{k, v}` each.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(super) fn emitted(&self, function: usize, call: &Call<'_>) -> Result<Vec<RawDocumentBuf>> {
        self.run(function, call, |ctx, types, _| {
            let emitted: Function = read(ctx, types.object.get("emitted"))?;
            let pairs: Vec<Vec<Value>> = read(ctx, emitted.call(()))?;
            pairs.iter().map(|pair| emit_of(ctx, types, pair)).collect()
        })
    }

    fn run<T>(
        &self,
        function: usize,
        call: &Call<'_>,
        finish: impl for<'js> FnOnce(&Ctx<'js>, &Types<'js, '_>, Value<'js>) -> Result<T>,
    ) -> Result<T> {
        let outcome = self.context.with(|ctx| {
            self.originals.borrow_mut().clear();
            let types = Types {
                object: read(&ctx, self.types.clone().restore(&ctx))?,
                originals: &self.originals,
            };
            let function = read(&ctx, self.functions[function].clone().restore(&ctx))?;
            let mut arguments = Args::new(ctx.clone(), call.arguments.len());
            if let Some(document) = call.this {
                let this = read(&ctx, types.document(&ctx, document))?;
                read(&ctx, ctx.globals().set("obj", this.clone()))?;
                read(&ctx, arguments.this(this))?;
            }
            for argument in call.arguments {
                let argument = read(&ctx, types.value(&ctx, *argument))?;
                read(&ctx, arguments.push_arg(argument))?;
            }
            let value = read(&ctx, function.call_arg(arguments))?;
            finish(&ctx, &types, value)
        });
        match self.interruption.lock().take() {
            Some(interruption) => {
                self.is_spent.set(true);
                Err(interruption)
            }
            None => outcome,
        }
    }
}

fn emit_of<'js>(
    ctx: &Ctx<'js>,
    types: &Types<'js, '_>,
    pair: &[Value<'js>],
) -> Result<RawDocumentBuf> {
    let mut emit = RawDocumentBuf::new();
    let key = types.nested(ctx, &pair[0], || "0".to_owned(), None, 1)?;
    // A key that is undefined is null.
    let key = if key == RawBson::Undefined {
        RawBson::Null
    } else {
        key
    };
    emit.append(bson::raw::cstr!("k"), key);
    emit.append(
        bson::raw::cstr!("v"),
        types.nested(ctx, &pair[1], || "1".to_owned(), None, 1)?,
    );
    Ok(emit)
}

/// A function of its text: `function(...) {...}`, `(a) => a`, or the body of one.
fn define<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Function<'js>> {
    let mut refusal = None;
    for reading in super::source::readings(source) {
        let mut options = EvalOptions::default();
        options.strict = false;
        options.backtrace_barrier = true;
        let made = read(ctx, ctx.eval_with_options::<Value, _>(reading, options));
        match made {
            Ok(made) if made.is_function() => return read(ctx, Function::from_value(made)),
            Ok(_) => {}
            Err(error) => refusal = Some(error),
        }
    }
    let refused = || Error::new(Code::JSInterpreterFailure, "the text is no function");
    Err(refusal.unwrap_or_else(refused))
}

fn prelude<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let define: Function = read(ctx, ctx.eval(include_str!("prelude.js")))?;
    let native = read(ctx, native(ctx))?;
    read(ctx, define.call((native,)))
}

/// What only the host can do.
fn native<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let add = |name: &str, function: rquickjs::Result<Function<'js>>| native.set(name, function?);
    add(
        "decimal",
        Function::new(ctx.clone(), |text: String| {
            let parsed: std::result::Result<bson::Decimal128, _> = text.parse();
            parsed.ok().map(|number| number.to_string())
        }),
    )?;
    add(
        "objectId",
        Function::new(ctx.clone(), || bson::oid::ObjectId::new().to_hex()),
    )?;
    add(
        "uuid",
        Function::new(ctx.clone(), || hex(&rand::random::<[u8; 16]>())),
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
    add(
        "print",
        Function::new(ctx.clone(), |text: String| {
            tracing::debug!(text, "printed by a script")
        }),
    )?;
    add("version", Function::new(ctx.clone(), || "6.0.5"))?;
    add("sleep", Function::new(ctx.clone(), sleep))?;
    native.set("emitsMax", EMITS_MAX)?;
    Ok(native)
}

/// Sleeps as long as the statement may.
fn sleep(ctx: Ctx<'_>, ms: f64) -> rquickjs::Result<()> {
    let end =
        std::time::Instant::now() + std::time::Duration::from_millis(ms.clamp(0.0, 1e9) as u64);
    while std::time::Instant::now() < end {
        if let Err(error) = operation::check() {
            return Err(Exception::throw_message(&ctx, &error.message));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
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

/// What the engine answered, or what was thrown in it as an error of ours.
///
/// # Errors
/// `JSInterpreterFailure`.
pub(super) fn read<'js, T>(ctx: &Ctx<'js>, answer: rquickjs::Result<T>) -> Result<T> {
    answer.catch(ctx).map_err(|caught| match caught {
        CaughtError::Exception(exception) => thrown(&exception),
        CaughtError::Value(value) => {
            let string = ctx.globals().get::<_, Function>("String");
            let text = string.and_then(|string| string.call::<_, String>((value.clone(),)));
            let text = text.unwrap_or_default();
            match value.is_object() {
                true => failure(format!("{text} :\nundefined")),
                false => Error::new(Code::UnknownError, format!("uncaught exception: {text}")),
            }
        }
        CaughtError::Error(error) => failure(error.to_string()),
    })
}

fn failure(message: String) -> Error {
    Error::new(Code::JSInterpreterFailure, message)
}

/// An error object that was thrown: the host's own have MongoDB's codes.
fn thrown(exception: &Exception<'_>) -> Error {
    let message = exception.message().unwrap_or_default();
    let stack = exception.stack().unwrap_or_default();
    if let Ok(Some(code)) = exception.get::<_, Option<i32>>("$code") {
        let code = match code {
            2 => Code::BadValue,
            9 => Code::FailedToParse,
            207 => Code::InvalidUUID,
            other => Code::Location(other),
        };
        return Error::new(code, format!("{message} :\n{stack}"));
    }
    let name: Option<String> = exception.get("name").ok();
    let name = name.unwrap_or_else(|| "Error".to_owned());
    if name == "InternalError" && message == "out of memory" {
        return failure("Out of memory".to_owned());
    }
    failure(format!("{name}: {message} :\n{stack}"))
}
