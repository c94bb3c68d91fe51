//! JavaScript of clients: `$where`, `$function`, `$accumulator` and `mapReduce`, run by QuickJS.
//!
//! In: texts of functions and BSON values. Out: what the functions return. A statement's functions share an engine, and
//! its globals, for as long as the statement lasts; nothing is left for the next one. Memory, stack and time are
//! bounded, and a function ends where its statement has to.

mod allocator;
mod convert;
mod instance;
mod source;

use crate::error::{Error, Result};
use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use instance::Instance;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The functions of a statement that share globals.
#[derive(Clone)]
pub struct Script(Arc<Shared>);

struct Shared {
    sources: Vec<Box<str>>,
    scope: Option<RawDocumentBuf>,
    /// Engines that no thread uses just now: as many as threads have worked at once.
    idle: Mutex<Vec<Instance>>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Script")
            .field(&self.0.sources)
            .finish()
    }
}

impl Script {
    /// Functions by their texts, and a document whose fields are globals. They are compiled when one is called first.
    pub fn new(sources: Vec<Box<str>>, scope: Option<RawDocumentBuf>) -> Self {
        Self(Arc::new(Shared {
            sources,
            scope,
            idle: Mutex::default(),
        }))
    }

    /// The texts.
    pub fn sources(&self) -> &[Box<str>] {
        &self.0.sources
    }

    /// Compiles the functions.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn compile(&self) -> Result<()> {
        self.within(|_| Ok(()))
    }

    /// Calls a function by its position; none where it returns nothing that BSON has a type for.
    ///
    /// # Errors
    /// `JSInterpreterFailure` with what it threw, or why it does not compile; `ExceededMemoryLimit`; those of
    /// `operation::check`.
    pub fn call(&self, function: usize, call: &Call<'_>) -> Result<Option<RawBson>> {
        self.within(|instance| instance.call(function, call))
    }

    /// Whether what a function returns for a document, which is its `this`, is true in JavaScript's sense.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn holds(&self, function: usize, document: &RawDocument) -> Result<bool> {
        let call = Call {
            this: Some(document),
            arguments: &[],
        };
        self.within(|instance| instance.holds(function, &call))
    }

    /// What a function emits for a document, which is its `this`: `{k, v}` each.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn emitted(&self, function: usize, document: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
        let call = Call {
            this: Some(document),
            arguments: &[],
        };
        self.within(|instance| instance.emitted(function, &call))
    }

    fn within<T>(&self, work: impl FnOnce(&Instance) -> Result<T>) -> Result<T> {
        let idle = self.0.idle.lock().pop();
        let instance = match idle {
            Some(instance) => instance,
            None => Instance::new(&self.0.sources, self.0.scope.as_deref())?,
        };
        let outcome = work(&instance);
        if !instance.is_spent() {
            self.0.idle.lock().push(instance);
        }
        outcome
    }
}

/// The error where JavaScript is switched off.
pub fn disabled() -> Error {
    Error::bad_value("server-side JavaScript execution is disabled")
}
