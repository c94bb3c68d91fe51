//! `$out` and `$merge`: what they ask for. The engine does the writing.

use crate::error::{Code, Error, Result};
use crate::expression::value::{Value, corrupt};
use crate::expression::{Expression, VariableScope, Variables, check_user_name, parse_field_path};
use crate::types::type_name;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// A parsed `$out`: the collection that the result replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Out {
    /// The database, where it is not the command's.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

impl Out {
    /// Parses the operand of `$out`.
    ///
    /// # Errors
    /// 16990, 16994, 13111.
    pub fn parse(raw: RawBsonRef<'_>) -> Result<Self> {
        match raw {
            RawBsonRef::String(collection) => Ok(Self {
                database: None,
                collection: collection.to_owned(),
            }),
            RawBsonRef::Document(document) => {
                let field = |name: &str| match document.get(name) {
                    Ok(Some(RawBsonRef::String(text))) => Ok(Some(text.to_owned())),
                    Ok(Some(other)) => Err(Error::location(
                        13111,
                        format!(
                            "wrong type for field ({name}) {} != string",
                            type_name(other.element_type())
                        ),
                    )),
                    _ => Ok(None),
                };
                match (field("db")?, field("coll")?, document.iter().count()) {
                    (Some(database), Some(collection), 2) => Ok(Self {
                        database: Some(database),
                        collection,
                    }),
                    _ => Err(Error::location(
                        16994,
                        "If an object is passed to $out it must have exactly 2 fields: 'db' and \
                         'coll'",
                    )),
                }
            }
            other => Err(Error::location(
                16990,
                format!(
                    "$out only supports a string or object argument, but found {}",
                    type_name(other.element_type())
                ),
            )),
        }
    }
}

/// What `$merge` does with a document that is already there.
#[derive(Debug, Clone)]
pub enum WhenMatched {
    /// Replaces it.
    Replace,
    /// Leaves it.
    KeepExisting,
    /// Sets the new document's fields in it.
    Merge,
    /// Fails.
    Fail,
    /// Updates it by these stages, which see the new document as `$$new`.
    Pipeline(Vec<RawDocumentBuf>),
}

/// What `$merge` does with a document that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// Inserts it.
    Insert,
    /// Drops it.
    Discard,
    /// Fails.
    Fail,
}

/// A parsed `$merge`.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The database, where it is not the command's.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
    /// The fields that tell whether a document is there; none is `_id`.
    pub on: Option<Vec<String>>,
    /// What to do where it is.
    pub when_matched: WhenMatched,
    /// What to do where it is not.
    pub when_not_matched: WhenNotMatched,
    variables: Option<RawDocumentBuf>,
}

impl Merge {
    /// Parses the operand of `$merge`.
    ///
    /// # Errors
    /// MongoDB's: types (14, 51178 to 51199), unknown fields (40415), modes that do not go
    /// together (51181).
    pub fn parse(raw: RawBsonRef<'_>) -> Result<Self> {
        let mut merge = Self {
            database: None,
            collection: String::new(),
            on: None,
            when_matched: WhenMatched::Merge,
            when_not_matched: WhenNotMatched::Insert,
            variables: None,
        };
        match raw {
            RawBsonRef::String(_) => merge.set_target(raw)?,
            RawBsonRef::Document(document) => merge.parse_options(document)?,
            other => {
                return Err(Error::type_mismatch(format!(
                    "$merge requires a string or object argument, but found {}",
                    type_name(other.element_type())
                )));
            }
        }
        merge.check_modes()?;
        Ok(merge)
    }

    fn parse_options(&mut self, document: &RawDocument) -> Result<()> {
        let mut target = None;
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match (key.as_str(), raw) {
                ("into", raw) => target = Some(raw),
                ("on", raw) => self.on = Some(parse_on(raw)?),
                ("let", RawBsonRef::Document(variables)) => {
                    check_variables(variables)?;
                    self.variables = Some(variables.to_owned());
                }
                ("let", RawBsonRef::Null) => {}
                ("let", other) => {
                    return Err(Error::type_mismatch(format!(
                        "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
                        type_name(other.element_type())
                    )));
                }
                ("whenMatched", raw) => self.when_matched = parse_when_matched(raw)?,
                ("whenNotMatched", raw) => self.when_not_matched = parse_when_not_matched(raw)?,
                (other, _) => {
                    return Err(Error::location(
                        40415,
                        format!("BSON field '$merge.{other}' is an unknown field."),
                    ));
                }
            }
        }
        let Some(target) = target else {
            return Err(Error::location(
                40414,
                "BSON field '$merge.into' is missing but a required field",
            ));
        };
        self.set_target(target)
    }

    fn set_target(&mut self, raw: RawBsonRef<'_>) -> Result<()> {
        match raw {
            RawBsonRef::String("") => {
                return Err(Error::location(
                    5_786_800,
                    "$merge 'into' field cannot be an empty string",
                ));
            }
            RawBsonRef::String(collection) => self.collection = collection.to_owned(),
            RawBsonRef::Document(document) => {
                for entry in document.iter() {
                    let (key, raw) = entry.map_err(corrupt)?;
                    match (key.as_str(), raw) {
                        ("db", RawBsonRef::Null | RawBsonRef::String("")) => {}
                        ("coll", RawBsonRef::Null) => {}
                        ("db", RawBsonRef::String(name)) => self.database = Some(name.to_owned()),
                        ("coll", RawBsonRef::String(name)) => self.collection = name.to_owned(),
                        ("db" | "coll", other) => {
                            return Err(Error::type_mismatch(format!(
                                "BSON field 'into.{}' is the wrong type '{}', expected type 'string'",
                                key.as_str(),
                                type_name(other.element_type())
                            )));
                        }
                        (other, _) => {
                            return Err(Error::location(
                                40415,
                                format!("BSON field 'into.{other}' is an unknown field."),
                            ));
                        }
                    }
                }
            }
            other => {
                return Err(Error::location(
                    51178,
                    format!(
                        "$merge 'into' field  must be either a string or an object, but found {}",
                        type_name(other.element_type())
                    ),
                ));
            }
        }
        if self.collection.is_empty() {
            return Err(Error::location(
                5_786_801,
                "$merge 'into' field must specify a 'coll' that is not empty, null or undefined",
            ));
        }
        Ok(())
    }

    fn check_modes(&self) -> Result<()> {
        let matched = match &self.when_matched {
            WhenMatched::Replace => "replace",
            WhenMatched::KeepExisting => "keepExisting",
            WhenMatched::Merge => "merge",
            WhenMatched::Fail => "fail",
            WhenMatched::Pipeline(_) => "pipeline",
        };
        if self.variables.is_some() && matched != "pipeline" {
            return Err(Error::location(
                51199,
                format!("Cannot use 'let' variables with 'whenMatched: {matched}' mode"),
            ));
        }
        let not_matched = match self.when_not_matched {
            WhenNotMatched::Insert => return Ok(()),
            WhenNotMatched::Discard => "discard",
            WhenNotMatched::Fail => "fail",
        };
        if matches!(matched, "keepExisting" | "fail") {
            return Err(Error::location(
                51181,
                format!(
                    "Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: \
                     {not_matched}' is not supported"
                ),
            ));
        }
        Ok(())
    }

    /// The variables that the pipeline of `whenMatched` sees for one new document: those of `let`, and `$$new` where that
    /// is not given or documents are inserted.
    ///
    /// # Errors
    /// Those of the expressions of `let`.
    pub fn scope(&self, new: &RawDocument, variables: &Variables) -> Result<VariableScope> {
        let outer = VariableScope::new(variables.collation().clone());
        let mut scope = outer.clone();
        if self.variables.is_none() || self.when_not_matched == WhenNotMatched::Insert {
            scope = scope.with("new", &Value::Raw(RawBsonRef::Document(new)))?;
        }
        for entry in self.variables.iter().flat_map(|variables| variables.iter()) {
            let (name, raw) = entry.map_err(corrupt)?;
            let expression = Expression::parse(raw, &outer)?;
            scope = scope.with(name.as_str(), &expression.evaluate_value(new, variables)?)?;
        }
        Ok(scope)
    }
}

/// Checks the names of `let`: `new` may stand for the new document alone.
fn check_variables(variables: &RawDocument) -> Result<()> {
    for entry in variables.iter() {
        let (name, value) = entry.map_err(corrupt)?;
        if name == "new" && value != RawBsonRef::String("$$ROOT") {
            return Err(Error::location(
                51273,
                "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'",
            ));
        }
        check_user_name(name.as_str())?;
    }
    Ok(())
}

fn parse_on(raw: RawBsonRef<'_>) -> Result<Vec<String>> {
    let mut fields = Vec::new();
    match raw {
        RawBsonRef::String(field) => fields.push(field.to_owned()),
        RawBsonRef::Array(array) => {
            for item in array {
                match item.map_err(corrupt)? {
                    RawBsonRef::String(field) => {
                        if fields.iter().any(|known| known == field) {
                            return Err(Error::location(
                                31465,
                                format!("Found a duplicate field '{field}'"),
                            ));
                        }
                        fields.push(field.to_owned());
                    }
                    other => {
                        return Err(Error::location(
                            51134,
                            format!(
                                "$merge 'on' array elements must be strings, but found {}",
                                type_name(other.element_type())
                            ),
                        ));
                    }
                }
            }
            if fields.is_empty() {
                return Err(Error::location(
                    51187,
                    "If explicitly specifying $merge 'on', must include at least one field",
                ));
            }
        }
        other => {
            return Err(Error::location(
                51186,
                format!(
                    "$merge 'on' field  must be either a string or an array of strings, but found {}",
                    type_name(other.element_type())
                ),
            ));
        }
    }
    for field in &fields {
        parse_field_path(field)?;
    }
    Ok(fields)
}

fn parse_when_matched(raw: RawBsonRef<'_>) -> Result<WhenMatched> {
    match raw {
        RawBsonRef::String("replace") => Ok(WhenMatched::Replace),
        RawBsonRef::String("keepExisting") => Ok(WhenMatched::KeepExisting),
        RawBsonRef::String("merge") => Ok(WhenMatched::Merge),
        RawBsonRef::String("fail") => Ok(WhenMatched::Fail),
        RawBsonRef::String(other) => Err(Error::bad_value(format!(
            "Enumeration value '{other}' for field 'whenMatched' is not a valid value."
        ))),
        RawBsonRef::Array(array) => {
            let mut stages = Vec::new();
            for stage in array {
                match stage.map_err(corrupt)? {
                    RawBsonRef::Document(document) => stages.push(document.to_owned()),
                    _ => {
                        return Err(Error::new(
                            Code::TypeMismatch,
                            "Each element of the 'pipeline' array must be an object",
                        ));
                    }
                }
            }
            Ok(WhenMatched::Pipeline(stages))
        }
        other => Err(Error::location(
            51191,
            format!(
                "$merge 'whenMatched' field  must be either a string or an array, but found {}",
                type_name(other.element_type())
            ),
        )),
    }
}

fn parse_when_not_matched(raw: RawBsonRef<'_>) -> Result<WhenNotMatched> {
    match raw {
        RawBsonRef::String("insert") => Ok(WhenNotMatched::Insert),
        RawBsonRef::String("discard") => Ok(WhenNotMatched::Discard),
        RawBsonRef::String("fail") => Ok(WhenNotMatched::Fail),
        RawBsonRef::String(other) => Err(Error::bad_value(format!(
            "Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid value."
        ))),
        other => Err(Error::type_mismatch(format!(
            "BSON field '$merge.whenNotMatched' is the wrong type '{}', expected type 'string'",
            type_name(other.element_type())
        ))),
    }
}
