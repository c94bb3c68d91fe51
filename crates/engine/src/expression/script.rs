//! `$function`, and `$_internalJsEmit`, which is the map function of `mapReduce`.

use super::Value;
use super::node::{EvaluationContext, Node};
use super::parse::{ExpressionParser, VariableScope};
use super::value::corrupt;
use crate::error::{Error, Result};
use crate::javascript::{self, Call, Script};
use crate::operation::memory;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

/// A function of a client, called for each document.
#[derive(Debug, Clone)]
pub struct ScriptCall {
    script: Script,
    /// The arguments as an array; of an emit, the document.
    operand: Node,
    is_emit: bool,
}

/// `$function: {body, args, lang}`; `mapReduce` adds a `scope`.
pub fn function(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let fields = fields(name, 31260, raw)?;
    let missing =
        |code, what: &str| Error::location(code, format!("The {what} must be specified."));
    let [body, arguments, language] = ["body", "args", "lang"].map(|field| given(fields, field));
    let body = body.ok_or_else(|| missing(31261, "body function"))?;
    let text = match is_literal(body) {
        true => folded_function_text(body, parser.scope())?,
        false => None,
    };
    let text = text
        .ok_or_else(|| Error::location(31432, "The body function must be a constant expression"))?;
    let text = text.ok_or_else(|| {
        Error::location(
            31262,
            "The body function must evaluate to type string or code",
        )
    })?;
    let arguments = arguments.ok_or_else(|| missing(31263, "args field"))?;
    let operand = parser.operand(arguments)?;
    let language = language.ok_or_else(|| missing(31418, "lang field"))?;
    if language != RawBsonRef::String("js") {
        return Err(Error::location(
            31419,
            "Currently the only supported language specifier is 'js'.",
        ));
    }
    let scope = given(fields, "scope").and_then(|scope| scope.as_document());
    let script = Script::with_scope(text, scope, parser.scope().globals());
    Ok(call(script, operand, false))
}

/// `$_internalJsEmit: {eval, this, scope}`: an array of `{k, v}`.
pub fn emit(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
    let fields = fields(name, 31221, raw)?;
    let missing =
        |code, what: &str| Error::location(code, format!("The {what} must be specified."));
    let code = given(fields, "eval").ok_or_else(|| missing(31224, "map function"))?;
    let this = given(fields, "this").ok_or_else(|| missing(31223, "'this' field"))?;
    let text = function_text(code)
        .ok_or_else(|| Error::location(31224, "The map function must be of type string or code"))?;
    let scope = given(fields, "scope").and_then(|scope| scope.as_document());
    let operand = parser.operand(this)?;
    let script = Script::emitting(text, scope, parser.scope().globals());
    Ok(call(script, operand, true))
}

/// Refuses what needs JavaScript where it is switched off.
///
/// # Errors
/// 31264.
pub fn check_enabled() -> Result<()> {
    match javascript::is_enabled() {
        true => Ok(()),
        false => Err(Error::location(
            31264,
            "Cannot run server-side javascript without the javascript engine enabled",
        )),
    }
}

/// The text of a function: a string, or code.
pub fn function_text(value: RawBsonRef<'_>) -> Option<Box<str>> {
    match value {
        RawBsonRef::String(text) | RawBsonRef::JavaScriptCode(text) => Some(text.into()),
        _ => None,
    }
}

/// As [`function_text`] of an expression; the outer none where its value is not known.
pub fn folded_function_text(
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
) -> Result<Option<Option<Box<str>>>> {
    let node = ExpressionParser::new(scope).operand(raw)?;
    Ok(node
        .constant()
        .map(|value| value.raw().and_then(function_text)))
}

/// Whether an operand is a constant as it stands, and no expression whose value is known.
fn is_literal(raw: RawBsonRef<'_>) -> bool {
    match raw {
        RawBsonRef::Document(document) => {
            matches!(document.iter().next(), Some(Ok((name, _))) if name == "$literal" || name == "$const")
        }
        RawBsonRef::Array(_) => false,
        _ => true,
    }
}

fn fields<'a>(name: &str, code: i32, raw: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    raw.as_document().ok_or_else(|| {
        let found = crate::types::type_name(raw.element_type());
        let message = format!("{name} requires an object as an argument, found: {found}");
        Error::location(code, message)
    })
}

fn given<'a>(fields: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    fields.get(name).ok().flatten()
}

fn call(script: Script, operand: Node, is_emit: bool) -> Node {
    Node::Script(Box::new(ScriptCall {
        script,
        operand,
        is_emit,
    }))
}

impl ScriptCall {
    /// What the function returns for the document of the context.
    pub fn evaluate<'a>(&'a self, context: &mut EvaluationContext<'a>) -> Result<Value<'a>> {
        check_enabled()?;
        let operand = self.operand.evaluate(context)?.to_raw()?;
        if self.is_emit {
            let Some(RawBson::Document(this)) = operand else {
                return Err(Error::location(31225, "'this' must be an object."));
            };
            let pairs = self.script.emitted(0, &this)?;
            let pairs = pairs
                .into_iter()
                .map(|pair| returned(RawBson::Document(pair)));
            let pairs = pairs.collect::<Result<Vec<_>>>()?;
            memory::check_values()?;
            return Ok(Value::array(pairs));
        }
        let Some(RawBson::Array(arguments)) = operand else {
            return Err(Error::location(
                31266,
                "The args field must be of type array",
            ));
        };
        let arguments = arguments
            .into_iter()
            .collect::<std::result::Result<Vec<_>, _>>();
        let arguments = arguments.map_err(corrupt)?;
        let this = RawDocumentBuf::new();
        let answer = self.script.call(
            0,
            &Call {
                this: Some(&this),
                is_global: false,
                arguments: &arguments,
            },
        )?;
        memory::check_values()?;
        returned(answer.unwrap_or(RawBson::Null))
    }

    /// What the operand is.
    pub fn operand(&self) -> &Node {
        &self.operand
    }

    /// As [`Self::operand`].
    pub fn operand_mut(&mut self) -> &mut Node {
        &mut self.operand
    }
}

/// A returned value as one of expressions.
fn returned<'a>(value: RawBson) -> Result<Value<'a>> {
    Ok(match value {
        RawBson::Document(document) => {
            let mut fields = Vec::new();
            for field in document.iter() {
                let (name, value) = field.map_err(corrupt)?;
                fields.push((name.as_str().to_owned().into(), returned(value.into())?));
            }
            Value::document(fields)
        }
        RawBson::Array(array) => {
            let items = array
                .into_iter()
                .map(|item| returned(item.map_err(corrupt)?.into()));
            Value::array(items.collect::<Result<_>>()?)
        }
        scalar => Value::owned(scalar),
    })
}
