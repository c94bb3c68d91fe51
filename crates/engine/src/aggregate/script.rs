//! `$accumulator`, and `$_internalJsReduce`, which is the reduce function of `mapReduce`.

use super::accumulator::key_document;
use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{
    EvaluationContext, Expression, FieldSet, Node, Value, VariableScope, Variables,
    check_script_enabled, folded_function_text, function_text,
};
use crate::javascript::{Call, Script};
use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf};
use std::collections::VecDeque;
use std::sync::Arc;

/// The functions of an accumulator, by their places in the script.
const INIT: usize = 0;
const ACCUMULATE: usize = 1;
const MERGE: usize = 2;
const FINALIZE: usize = 3;

/// What a client's functions do with a group.
#[derive(Debug, Clone)]
pub struct ScriptAccumulator {
    script: Script,
    /// The arguments of `init`, from the group's key.
    initial: Node,
    /// Whether they depend on the key.
    reads_key: bool,
    finalizes: bool,
}

impl ScriptAccumulator {
    /// `{init, initArgs, accumulate, accumulateArgs, merge, finalize, lang}`, and the arguments of `accumulate`.
    ///
    /// # Errors
    /// 4544701 to 4544710.
    pub(super) fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<(Node, Arc<Self>)> {
        let RawBsonRef::Document(document) = raw else {
            let found = crate::types::type_name(raw.element_type());
            let message = format!("$accumulator expects an object as an argument; found: {found}");
            return Err(Error::location(4_544_703, message));
        };
        let mut functions: [Option<Box<str>>; 4] = Default::default();
        let (mut initial, mut arguments) = (None, None);
        for field in document.iter() {
            let (name, value) = field.map_err(corrupt)?;
            match name.as_str() {
                "init" => functions[INIT] = Some(function("init", value, scope)?),
                "accumulate" => functions[ACCUMULATE] = Some(function("accumulate", value, scope)?),
                "merge" => functions[MERGE] = Some(function("merge", value, scope)?),
                "finalize" => functions[FINALIZE] = Some(function("finalize", value, scope)?),
                "initArgs" => initial = Some(Expression::parse(value, scope)?),
                "accumulateArgs" => arguments = Some(Expression::parse(value, scope)?.node),
                "lang" => check_language(value)?,
                other => {
                    let message = format!("$accumulator got an unexpected field: {other}");
                    return Err(Error::location(4_544_706, message));
                }
            }
        }
        // As in mongod an empty text is none.
        let is_missing = |text: &Option<Box<str>>| text.as_ref().is_none_or(|text| text.is_empty());
        let missing = |code, name: &str| {
            Error::location(
                code,
                format!("$accumulator missing required argument '{name}'"),
            )
        };
        for (place, code, name) in [
            (INIT, 4_544_707, "init"),
            (ACCUMULATE, 4_544_708, "accumulate"),
        ] {
            if is_missing(&functions[place]) {
                return Err(missing(code, name));
            }
        }
        let arguments = arguments.ok_or_else(|| missing(4_544_710, "accumulateArgs"))?;
        if is_missing(&functions[MERGE]) {
            return Err(missing(4_544_709, "merge"));
        }
        let finalizes = functions[FINALIZE].is_some();
        let accumulator = Self {
            script: Script::new(functions.into_iter().flatten().collect(), scope.globals()),
            reads_key: initial.as_ref().is_some_and(|initial| {
                !matches!(initial.dependencies(), FieldSet::Paths(read) if read.is_empty())
            }),
            initial: match initial {
                Some(initial) => initial.node,
                None => Node::known(&Value::array(Vec::new()))?,
            },
            finalizes,
        };
        Ok((arguments, Arc::new(accumulator)))
    }

    /// `{data, eval, scope}` of a reduce function, and what it reduces.
    ///
    /// # Errors
    /// 31242 to 31245.
    pub(super) fn parse_reduce(
        raw: RawBsonRef<'_>,
        scope: &VariableScope,
    ) -> Result<(Node, Arc<Self>)> {
        let fields = raw.as_document().ok_or_else(|| {
            let found = crate::types::type_name(raw.element_type());
            let message =
                format!("$_internalJsReduce requires an object as an argument, found: {found}");
            Error::location(31326, message)
        })?;
        let given = |name: &str| fields.get(name).ok().flatten();
        let missing = |code, what: &str| {
            Error::location(
                code,
                format!("$_internalJsReduce requires '{what}' argument"),
            )
        };
        let data = given("data").ok_or_else(|| missing(31349, "data"))?;
        let text = given("eval").and_then(function_text);
        let text = text.ok_or_else(|| missing(31245, "eval"))?;
        let globals = given("scope").and_then(|scope| scope.as_document());
        let accumulator = Self {
            script: Script::with_scope(text, globals, scope.globals()),
            initial: Node::known(&Value::NULL)?,
            reads_key: false,
            finalizes: false,
        };
        Ok((Expression::parse(data, scope)?.node, Arc::new(accumulator)))
    }

    /// Whether the first state depends on the group's key.
    pub(super) fn reads_key(&self) -> bool {
        self.reads_key
    }

    /// What a group with this key begins with.
    ///
    /// # Errors
    /// 4544711 where the arguments are no array; what the function throws.
    pub(super) fn begin(&self, id: &RawBson, variables: &Variables) -> Result<RawBson> {
        let document = key_document(id);
        let mut context = EvaluationContext::new(&document, variables);
        let value = self.initial.evaluate(&mut context)?;
        let arguments = arguments(&value, 4_544_711, "initArgs")?;
        self.call(INIT, &arguments)
    }

    /// The state with one more document, of which these are the arguments.
    ///
    /// # Errors
    /// 4544712 where they are no array; what the function throws.
    pub(super) fn add(&self, state: RawBson, value: &Value<'_>) -> Result<RawBson> {
        let mut all = vec![state];
        all.extend(arguments(value, 4_544_712, "accumulateArgs")?);
        self.call(ACCUMULATE, &all)
    }

    /// The state of two parts of a group.
    ///
    /// # Errors
    /// What the function throws.
    pub(super) fn merge(&self, state: RawBson, later: RawBson) -> Result<RawBson> {
        self.call(MERGE, &[state, later])
    }

    /// The group's value.
    ///
    /// # Errors
    /// What the function throws.
    pub(super) fn finish(&self, state: RawBson) -> Result<RawBson> {
        match self.finalizes {
            true => self.call(FINALIZE, &[state]),
            false => Ok(state),
        }
    }

    /// What the reduce function makes of the `{k, v}` of one key. As in mongod it gets the last value first, and is
    /// called for a single one too.
    ///
    /// # Errors
    /// What the function throws.
    pub(super) fn reduce(&self, pairs: VecDeque<RawBson>) -> Result<RawBson> {
        let (mut key, mut values) = (RawBson::Null, bson::RawArrayBuf::new());
        for pair in pairs.into_iter().rev() {
            let RawBson::Document(pair) = pair else {
                return Err(Error::location(
                    31251,
                    "$_internalJsReduce data must be a document",
                ));
            };
            let field = |name| pair.get(name).ok().flatten().map(RawBson::from);
            key = field("k").unwrap_or(RawBson::Null);
            values.push(field("v").unwrap_or(RawBson::Undefined));
        }
        self.call(0, &[key, RawBson::Array(values)])
    }

    fn call(&self, function: usize, arguments: &[RawBson]) -> Result<RawBson> {
        let arguments: Vec<RawBsonRef<'_>> = arguments
            .iter()
            .map(|argument| argument.as_raw_bson_ref())
            .collect();
        check_script_enabled()?;
        let this = RawDocumentBuf::new();
        let call = Call {
            this: Some(&this),
            is_global: false,
            arguments: &arguments,
        };
        Ok(self.script.call(function, &call)?.unwrap_or(RawBson::Null))
    }
}

fn function(name: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Box<str>> {
    let text = folded_function_text(raw, scope)?.ok_or_else(|| {
        let message = format!("$accumulator '{name}' must be a constant expression");
        Error::location(4_544_701, message)
    })?;
    text.ok_or_else(|| {
        let message = format!("$accumulator '{name}' must be a String or Code");
        Error::location(4_544_702, message)
    })
}

fn check_language(value: RawBsonRef<'_>) -> Result<()> {
    match value {
        RawBsonRef::String("js") => Ok(()),
        RawBsonRef::String(_) => Err(Error::location(
            4_544_705,
            "$accumulator only supports lang: 'js'",
        )),
        other => {
            let found = crate::types::type_name(other.element_type());
            let message = format!("$accumulator lang must be a string; found: {found}");
            Err(Error::location(4_544_704, message))
        }
    }
}

fn arguments(value: &Value<'_>, code: i32, name: &str) -> Result<Vec<RawBson>> {
    let Some(items) = value.items()? else {
        let shown = match value.to_raw()? {
            None => "MISSING".to_owned(),
            Some(raw) => crate::text::text(raw.as_raw_bson_ref()),
        };
        let message = format!("$accumulator {name} must evaluate to an array: {shown}");
        return Err(Error::location(code, message));
    };
    let items = items
        .iter()
        .map(|item| Ok(item.to_raw()?.unwrap_or(RawBson::Null)));
    items.collect()
}
