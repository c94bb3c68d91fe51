//! JavaScript of clients: `$where`, `$function`, `$accumulator` and `mapReduce`, run by QuickJS.
//!
//! In: texts of functions and BSON values. Out: what the functions return. A statement's functions share an engine, and
//! its globals, for as long as the statement lasts; nothing is left for the next one. Memory, stack and time are
//! bounded, and a function ends where its statement has to.

mod allocator;
mod convert;
mod host;
mod instance;
mod source;
mod watch;

use crate::error::Result;
use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use instance::Instance;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

pub use instance::Call;

/// Whether clients may have the server run JavaScript.
static IS_ENABLED: AtomicBool = AtomicBool::new(true);

/// Says whether clients may have the server run JavaScript, for the whole process.
pub fn enable(is_enabled: bool) {
    IS_ENABLED.store(is_enabled, Ordering::Relaxed);
}

/// Whether clients may have the server run JavaScript.
pub fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}

/// The most that one call may take, in milliseconds; mongod's parameter has this name.
static CALL_MILLIS_MAX: AtomicI32 = AtomicI32::new(60_000);
/// The most that the map function may emit for one document, in bytes.
static EMIT_BYTES_MAX: AtomicI32 = AtomicI32::new(100 << 20);
/// The most memory that an engine may take, in MiB, while the process's budget has it.
static HEAP_MEBIBYTES_MAX: AtomicI32 = AtomicI32::new(64);

/// `internalQueryJavaScriptHeapSizeLimitMB` and `jsHeapLimitMB`.
pub fn heap_mebibytes_max() -> &'static AtomicI32 {
    &HEAP_MEBIBYTES_MAX
}

/// `internalQueryJavaScriptFnTimeoutMillis`.
pub fn call_millis_max() -> &'static AtomicI32 {
    &CALL_MILLIS_MAX
}

/// `internalQueryMaxJsEmitBytes`.
pub fn emit_bytes_max() -> &'static AtomicI32 {
    &EMIT_BYTES_MAX
}

/// The global variables that functions of a statement share: they live as long as it does.
#[derive(Clone, Default)]
pub struct Globals(Arc<Mutex<Vec<Instance>>>);

impl std::fmt::Debug for Globals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Globals")
    }
}

/// Functions that are called by their positions.
#[derive(Debug, Clone)]
pub struct Script {
    parts: Arc<ScriptParts>,
    /// Engines that no thread uses just now: as many as threads have worked at once.
    globals: Globals,
}

#[derive(Debug)]
struct ScriptParts {
    /// By it an engine finds what it has compiled.
    id: u64,
    sources: Vec<Box<str>>,
    scope: Option<RawDocumentBuf>,
    /// Whether functions may emit.
    emits: bool,
    /// Whether what the database keeps for functions is there for them, in every statement.
    is_condition: bool,
}

impl ScriptParts {
    fn new(sources: Vec<Box<str>>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            sources,
            scope: None,
            emits: false,
            is_condition: false,
        }
    }
}

impl Script {
    /// Functions by their texts. They are compiled when one is called first.
    pub fn new(sources: Vec<Box<str>>, globals: &Globals) -> Self {
        Self::of(ScriptParts::new(sources), globals)
    }

    /// The function of a `$where`, with globals of its own.
    pub fn condition(source: Box<str>) -> Self {
        let parts = ScriptParts {
            is_condition: true,
            ..ScriptParts::new(vec![source])
        };
        Self::of(parts, &Globals::default())
    }

    /// A function, and a document whose fields are globals.
    pub fn with_scope(source: Box<str>, scope: Option<&RawDocument>, globals: &Globals) -> Self {
        let parts = ScriptParts {
            scope: scope.map(RawDocument::to_owned),
            ..ScriptParts::new(vec![source])
        };
        Self::of(parts, globals)
    }

    /// As [`Self::with_scope`], a function that emits.
    pub fn emitting(source: Box<str>, scope: Option<&RawDocument>, globals: &Globals) -> Self {
        let parts = ScriptParts {
            scope: scope.map(RawDocument::to_owned),
            emits: true,
            ..ScriptParts::new(vec![source])
        };
        Self::of(parts, globals)
    }

    fn of(parts: ScriptParts, globals: &Globals) -> Self {
        Self {
            parts: Arc::new(parts),
            globals: globals.clone(),
        }
    }

    /// The texts.
    pub fn sources(&self) -> &[Box<str>] {
        &self.parts.sources
    }

    /// Compiles the functions.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn compile(&self) -> Result<()> {
        self.within(|instance| instance.compile(&self.parts))
    }

    /// Calls a function by its position; none where it returns nothing that BSON has a type for.
    ///
    /// # Errors
    /// `JSInterpreterFailure` with what it threw, or why it does not compile; `ExceededMemoryLimit`; those of
    /// `operation::check`.
    pub fn call(&self, function: usize, call: &Call<'_>) -> Result<Option<RawBson>> {
        self.within(|instance| instance.call(&self.parts, function, call))
    }

    /// Whether what a function returns for a document, which is its `this`, is true in JavaScript's sense.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn holds(&self, function: usize, document: &RawDocument) -> Result<bool> {
        let call = Call {
            this: Some(document),
            is_global: true,
            arguments: &[],
        };
        self.within(|instance| instance.holds(&self.parts, function, &call))
    }

    /// What a function emits for a document, which is its `this`: `{k, v}` each.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn emitted(&self, function: usize, document: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
        let call = Call {
            this: Some(document),
            is_global: false,
            arguments: &[],
        };
        self.within(|instance| instance.emitted(&self.parts, function, &call))
    }

    fn within<T>(&self, work: impl FnOnce(&Instance) -> Result<T>) -> Result<T> {
        let idle = self.globals.0.lock().pop();
        let instance = match idle {
            Some(instance) => instance,
            None => Instance::new()?,
        };
        let outcome = work(&instance);
        if !instance.is_spent() {
            self.globals.0.lock().push(instance);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::operation::Operation;
    use std::time::{Duration, Instant};

    fn returned(source: &str) -> Result<Option<RawBson>> {
        let script = Script::new(vec![source.into()], &Globals::default());
        script.call(
            0,
            &Call {
                this: None,
                is_global: false,
                arguments: &[],
            },
        )
    }

    #[test]
    fn a_function_ends_with_its_statement() {
        for body in [
            "while (true) {}",
            "try { while (true) {} } catch (e) { return 1 } finally { while (true) {} }",
            "for (;;) try { sleep(1e9) } catch (e) {}",
            "return 'a'.repeat(8 << 20).indexOf('a'.repeat(4 << 20) + 'b')",
            "throw {toString() { for (;;); }}",
            "return new Proxy({}, {ownKeys() { for (;;); }})",
        ] {
            let operation = Operation::new(Some(Instant::now() + Duration::from_millis(50)));
            let error = operation.run(|| returned(&format!("function() {{ {body} }}")));
            assert_eq!(error.unwrap_err().code, Code::MaxTimeMSExpired, "{body}");
        }
    }

    #[test]
    fn what_clients_do_to_globals_and_to_values_is_theirs_alone() {
        for (body, expected) in [
            (
                "Date.prototype.getTime = null; return new Date(5)",
                Some(RawBson::DateTime(bson::DateTime::from_millis(5))),
            ),
            (
                "Boolean = String = Symbol = Object = null; return true",
                Some(RawBson::Boolean(true)),
            ),
            (
                "Object.prototype.a = 1; return 'x'",
                Some(RawBson::String("x".to_owned())),
            ),
            (
                "return '\\ud800'",
                Some(RawBson::String("\u{fffd}".to_owned())),
            ),
        ] {
            assert_eq!(
                returned(&format!("function() {{ {body} }}")).unwrap(),
                expected,
                "{body}"
            );
        }
        for (body, code) in [
            ("var a = []; a.length = 4294967295; return a", 17260),
            ("var o = {}; o.o = o; return o", 17279),
            (
                "var o = {}; for (var i = 0; i < 60; i++) o = {a: o, b: o}; return o",
                17260,
            ),
            (
                "var p = Proxy.revocable({}, {}); p.revoke(); return p.proxy",
                139,
            ),
            (
                "throw Object.assign(new Error('x'), {code: 50, $code: 50})",
                139,
            ),
            ("NumberLong('x')", 2),
            ("for (var s = 'x', a = []; ; a.push(s += s + 'y'));", 139),
        ] {
            let error = returned(&format!("function() {{ {body} }}")).unwrap_err();
            assert_eq!(error.code.number(), code, "{body}: {}", error.message);
        }
    }
}
