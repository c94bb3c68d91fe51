//! One JavaScript engine with the functions of a statement: its globals live as long as it does.

// An engine is used by one thread at a time, and may move to another, which its library cannot tell.
#![allow(unsafe_code)]

use super::ScriptParts;
use super::allocator::BudgetAllocator;
use super::convert::Types;
use super::host::{Emits, Host, Refusals, native};
use crate::error::{Code, Error, Result, malformed};
use crate::operation;
use crate::text::element;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{
    CatchResultExt, CaughtError, Coerced, Context, Ctx, Function, Object, Persistent, Runtime,
    Value, qjs,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Stack that scripts may use of the thread's own.
const STACK_BYTES_MAX: usize = 1 << 20;
/// Scripts that stay compiled: a pipeline within another may be read again for each document.
const SCRIPTS_MAX: usize = 1_000;

/// An engine with the globals of a statement, and the scripts that were called in it.
pub(super) struct Instance {
    scripts: RefCell<HashMap<u64, Vec<Persistent<Function<'static>>>>>,
    /// Whether the globals that come with a script are there.
    has_scope: Cell<bool>,
    /// Whether those that the database keeps are there.
    has_stored: Cell<bool>,
    types: Persistent<Object<'static>>,
    host: Rc<Host>,
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
    /// Whether `this` is the global `obj`, too.
    pub is_global: bool,
    /// The arguments.
    pub arguments: &'a [RawBsonRef<'a>],
}

impl Instance {
    /// Starts an engine.
    ///
    /// # Errors
    /// `ExceededMemoryLimit`.
    pub(super) fn new() -> Result<Self> {
        let memory = || {
            let message = "no memory for a JavaScript engine";
            Error::new(Code::ExceededMemoryLimit, message)
        };
        let host = Rc::new(Host::default());
        let allocator = BudgetAllocator::new(host.watch.clone()).ok_or_else(memory)?;
        let runtime = Runtime::new_with_alloc(allocator).map_err(|_| memory())?;
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        let watch = host.watch.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || watch.is_over())));
        let context = Context::full(&runtime).map_err(|_| memory())?;
        here(&context);
        let types =
            context.with(|ctx| Ok::<_, Error>(Persistent::save(&ctx, prelude(&ctx, &host)?)))?;
        Ok(Self {
            scripts: RefCell::default(),
            has_scope: Cell::new(false),
            has_stored: Cell::new(false),
            types,
            host,
            is_spent: Cell::new(false),
            context,
            _runtime: runtime,
        })
    }

    /// Whether it was stopped amid a function, so that its state may be anything.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// Compiles the functions of a script.
    ///
    /// # Errors
    /// `JSInterpreterFailure` where one does not compile; why the statement had to end.
    pub(super) fn compile(&self, script: &ScriptParts) -> Result<()> {
        self.guarded(|ctx, types| self.compiled(ctx, types, script))
    }

    /// Calls a function; none where it returns nothing that BSON has a type for.
    ///
    /// # Errors
    /// As [`Self::compile`], and `JSInterpreterFailure` with what it threw.
    pub(super) fn call(
        &self,
        script: &ScriptParts,
        function: usize,
        call: &Call<'_>,
    ) -> Result<Option<RawBson>> {
        let outcome = self.guarded(|ctx, types| {
            let value = self.run(ctx, types, script, function, call)?;
            types.returned(ctx, &value)
        });
        outcome.map_err(interrupted_call)
    }

    /// Calls a function and tells whether what it returns is true in JavaScript's sense.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(super) fn holds(
        &self,
        script: &ScriptParts,
        function: usize,
        call: &Call<'_>,
    ) -> Result<bool> {
        self.guarded(|ctx, types| {
            let value = self.run(ctx, types, script, function, call)?;
            let truth: Coerced<bool> = read(ctx, value.get())?;
            Ok(truth.0)
        })
    }

    /// Calls a function and returns what it has given to `emit`: `{k, v}` each.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(super) fn emitted(
        &self,
        script: &ScriptParts,
        function: usize,
        call: &Call<'_>,
    ) -> Result<Vec<RawDocumentBuf>> {
        self.host.emits.replace(Some(Emits::default()));
        let outcome =
            self.guarded(|ctx, types| self.run(ctx, types, script, function, call).map(drop));
        let emits = self.host.emits.take().unwrap_or_default();
        outcome.map(|()| emits.pairs).map_err(interrupted_call)
    }

    /// Lets clients' code run, for as long as it may.
    fn guarded<T>(
        &self,
        work: impl for<'js> FnOnce(&Ctx<'js>, &Types<'js, '_>) -> Result<T>,
    ) -> Result<T> {
        here(&self.context);
        self.host.originals.borrow_mut().clear();
        self.host.watch.begin();
        let outcome = self.context.with(|ctx| {
            let object = read(&ctx, self.types.clone().restore(&ctx))?;
            work(&ctx, &Types::new(object, &self.host.originals))
        });
        // A cursor may wait for its client for long.
        self.host.originals.borrow_mut().clear();
        match self.host.watch.finish() {
            Some(ended) => {
                self.is_spent.set(true);
                Err(ended)
            }
            None => outcome,
        }
    }

    fn compiled<'js>(
        &self,
        ctx: &Ctx<'js>,
        types: &Types<'js, '_>,
        script: &ScriptParts,
    ) -> Result<()> {
        if self.scripts.borrow().contains_key(&script.id) {
            return Ok(());
        }
        if let Some(scope) = &script.scope
            && !self.has_scope.replace(true)
        {
            let names = scope.iter().flatten().filter(|(name, _)| *name != "emit");
            for (name, value) in names {
                let value = read(ctx, types.value(ctx, value))?;
                read(ctx, ctx.globals().set(name.as_str(), value))?;
            }
        }
        self.add_stored(ctx, types, script)?;
        if script.emits {
            read(ctx, types.make::<_, ()>("allowEmit", ()))?;
        }
        let functions: Result<Vec<_>> = script
            .sources
            .iter()
            .map(|source| Ok(Persistent::save(ctx, define(ctx, source)?)))
            .collect();
        let functions = functions?;
        let mut scripts = self.scripts.borrow_mut();
        if scripts.len() >= SCRIPTS_MAX {
            scripts.clear();
        }
        scripts.insert(script.id, functions);
        Ok(())
    }

    /// Makes what the database keeps for functions global, where the script is to find it.
    fn add_stored<'js>(
        &self,
        ctx: &Ctx<'js>,
        types: &Types<'js, '_>,
        script: &ScriptParts,
    ) -> Result<()> {
        let operation = operation::current();
        let stored = operation.as_ref().and_then(|operation| operation.stored());
        let stored = stored.filter(|stored| stored.for_all || script.is_condition);
        let Some(stored) = stored.filter(|_| !self.has_stored.replace(true)) else {
            return Ok(());
        };
        stored.each(&mut |document| {
            let field = |name: &str| document.get(name).map_err(malformed);
            let id = field("_id")?.unwrap_or(RawBsonRef::Null);
            let RawBsonRef::String(name) = id else {
                let message = format!("name has to be a string: {}", element("_id", id));
                return Err(Error::location(10209, message));
            };
            let value = field("value")?;
            let value = value.ok_or_else(|| Error::location(10210, "value has to be set"))?;
            read(
                ctx,
                ctx.globals().set(name, read(ctx, types.value(ctx, value))?),
            )
        })
    }

    fn run<'js>(
        &self,
        ctx: &Ctx<'js>,
        types: &Types<'js, '_>,
        script: &ScriptParts,
        function: usize,
        call: &Call<'_>,
    ) -> Result<Value<'js>> {
        self.compiled(ctx, types, script)?;
        let function = self.scripts.borrow()[&script.id][function].clone();
        let function = read(ctx, function.restore(ctx))?;
        let mut arguments = Args::new(ctx.clone(), call.arguments.len());
        if let Some(document) = call.this {
            let this = read(ctx, types.given(ctx, RawBsonRef::Document(document)))?;
            if call.is_global {
                for name in ["obj", "fullObject"] {
                    read(ctx, ctx.globals().set(name, this.clone()))?;
                }
            }
            read(ctx, arguments.this(this))?;
        }
        for argument in call.arguments {
            let argument = read(ctx, types.given(ctx, *argument))?;
            read(ctx, arguments.push_arg(argument))?;
        }
        read(ctx, function.call_arg(arguments))
    }
}

/// Says to the engine that it works on this thread from here on: how much of the stack it may use depends on it.
fn here(context: &Context) {
    // SAFETY: the runtime lives as long as its context, and only this thread uses it.
    unsafe { qjs::JS_UpdateStackTop(context.get_runtime_ptr()) }
}

/// As mongod says it of functions in expressions.
fn interrupted_call(error: Error) -> Error {
    match error.code {
        Code::Interrupted => Error::new(Code::Interrupted, "JavaScript execution interrupted"),
        _ => error,
    }
}

/// A function of its text: `function(...) {...}`, `(a) => a`, or the body of one.
pub(super) fn define<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Function<'js>> {
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

fn prelude<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    ctx.store_userdata(Refusals::default())
        .map_err(|_| failure("the engine is set up while it runs".to_owned()))?;
    let define: Function = read(ctx, ctx.eval(include_str!("prelude.js")))?;
    let native = read(ctx, native(ctx, host))?;
    read(ctx, define.call((native,)))
}

/// What the engine answered, or what was thrown in it as an error of ours.
///
/// # Errors
/// `JSInterpreterFailure`; `UnknownError` where a value was thrown that is no object.
pub(super) fn read<'js, T>(ctx: &Ctx<'js>, answer: rquickjs::Result<T>) -> Result<T> {
    answer.catch(ctx).map_err(|caught| match caught {
        CaughtError::Exception(exception) => thrown(ctx, exception.as_object()),
        CaughtError::Value(value) if value.is_object() => {
            failure(format!("{} :\nundefined", text_of(ctx, value)))
        }
        CaughtError::Value(value) if value.is_symbol() => {
            failure("TypeError: can't convert symbol to string".to_owned())
        }
        CaughtError::Value(value) => {
            let message = format!("uncaught exception: {}", text_of(ctx, value));
            Error::new(Code::UnknownError, message)
        }
        CaughtError::Error(rquickjs::Error::Unknown | rquickjs::Error::Allocation) => {
            ctx.catch();
            failure("Out of memory".to_owned())
        }
        CaughtError::Error(error) => {
            // What the engine still says of it concerns nothing that comes later.
            ctx.catch();
            failure(error.to_string())
        }
    })
}

fn failure(message: String) -> Error {
    Error::new(Code::JSInterpreterFailure, message)
}

/// The text of a value, which a client's code may make.
fn text_of<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> String {
    let text: rquickjs::Result<Coerced<String>> = value.get();
    match text {
        Ok(text) => text.0,
        Err(_) => {
            ctx.catch();
            String::new()
        }
    }
}

/// An error object that was thrown: the host's own have MongoDB's codes.
fn thrown<'js>(ctx: &Ctx<'js>, error: &Object<'js>) -> Error {
    let part = |name: &str| match error.get::<_, Value>(name) {
        Ok(value) if !value.is_undefined() => text_of(ctx, value),
        _ => {
            ctx.catch();
            String::new()
        }
    };
    let (message, stack) = (part("message"), part("stack"));
    let refusals = ctx.userdata::<Refusals>();
    let code = refusals.and_then(|refusals| refusals.code_of(&message));
    if let Some(code) = code {
        return Error::new(code, format!("{message} :\n{stack}"));
    }
    if message == "out of memory" {
        return failure("Out of memory".to_owned());
    }
    failure(format!(
        "{} :\n{stack}",
        text_of(ctx, error.as_value().clone())
    ))
}
