//! `$lookup`: an array of the documents of another collection that belong to a document.

use super::{Foreign, ForeignDocuments, SubPipeline};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::stage::Stage;
use crate::aggregate::unwind::{Unwind, set_at};
use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{
    Expression, FieldSet, VariableScope, Variables, check_user_name, parse_field_path,
};
use crate::operation::memory::Reservation;
use crate::query::{Filter, ParseContext};
use crate::sorter::STAGE_BYTES_MAX;
use crate::text;
use crate::types::type_name;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::path::{self, LeafArrays, Path};
use std::ops::ControlFlow;

/// A parsed `$lookup`.
#[derive(Debug, Clone)]
pub struct Lookup {
    collection: Option<String>,
    /// Fields that must be equal, here and there.
    fields: Option<(Path, String)>,
    variables: Vec<(String, Expression)>,
    pipeline: SubPipeline,
    array: Box<[Box<str>]>,
    /// A `$unwind` of the array right behind: the array is not made then.
    unwind: Option<Unwind>,
}

/// The operand's fields, as they stand there.
#[derive(Default)]
struct LookupOptions<'a> {
    from: Option<&'a str>,
    local: Option<&'a str>,
    foreign: Option<&'a str>,
    array: Option<&'a str>,
    variables: Option<&'a RawDocument>,
    pipeline: Option<Vec<RawDocumentBuf>>,
}

impl Lookup {
    /// Parses the operand.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch` and 51047, those of field paths and of the pipeline.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::failed_to_parse(format!(
                "the $lookup stage specification must be an object, but found {}",
                type_name(raw.element_type())
            )));
        };
        let options = LookupOptions::parse(document)?;
        let failed = |text: &str| Err(Error::failed_to_parse(text));
        if options.from.is_none() && options.pipeline.is_none() {
            return failed("must specify 'pipeline' when 'from' is empty");
        }
        let Some(array) = options.array else {
            return failed("must specify 'as' field for a $lookup");
        };
        let has_fields = options.local.is_some() && options.foreign.is_some();
        if options.variables.is_some() && options.pipeline.is_none() {
            return failed("$lookup with a 'let' argument must also specify 'pipeline'");
        }
        if !has_fields
            && (options.pipeline.is_none() || options.local.is_some() || options.foreign.is_some())
        {
            return failed(
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified",
            );
        }
        let fields = match (options.local, options.foreign) {
            (Some(local), Some(foreign)) => {
                parse_field_path(local)?;
                parse_field_path(foreign)?;
                Some((Path::parse(local), foreign.to_owned()))
            }
            _ => None,
        };
        let mut inner = scope.clone();
        let mut variables = Vec::new();
        for entry in options.variables.into_iter().flat_map(RawDocument::iter) {
            let (name, value) = entry.map_err(corrupt)?;
            check_user_name(name.as_str())?;
            let expression = Expression::parse(value, scope)?;
            inner = inner.with_unknown(name.as_str());
            variables.push((name.as_str().to_owned(), expression));
        }
        let pipeline = SubPipeline::parse(options.pipeline.unwrap_or_default(), &inner)?;
        if let Some(output) = pipeline.output() {
            return Err(Error::location(
                51047,
                format!(
                    "{} is not allowed within a $lookup's sub-pipeline",
                    output.name()
                ),
            ));
        }
        if options.from.is_none() && !pipeline.brings_documents() {
            return failed(
                "$lookup stage without explicit collection must have a pipeline with $documents as first stage",
            );
        }
        Ok(Self {
            collection: options.from.map(str::to_owned),
            fields,
            variables,
            pipeline,
            array: parse_field_path(array)?,
            unwind: None,
        })
    }

    /// The other collection.
    pub fn collection(&self) -> Option<&str> {
        self.collection.as_deref()
    }

    /// Whether it unwinds what it finds.
    pub fn unwinds(&self) -> bool {
        self.unwind.is_some()
    }

    /// Takes in a `$unwind` that follows; whether it unwinds what this makes.
    pub fn take_unwind(&mut self, unwind: &Unwind) -> bool {
        let takes = self.unwind.is_none() && unwind.path() == &*self.array;
        if takes {
            self.unwind = Some(unwind.clone());
        }
        takes
    }

    /// The fields of the input that are read.
    pub fn needs(&self) -> FieldSet {
        let mut set = FieldSet::none();
        if let Some((local, _)) = &self.fields {
            set.add(local.as_str());
        }
        for (_, expression) in &self.variables {
            set.merge(expression.dependencies());
        }
        set
    }

    /// Gives `emit` the document with what belongs to it: once, or with a `$unwind` taken in once for each.
    ///
    /// # Errors
    /// 4568 for an array that is too large; those of the pipeline, of the storage and of `emit`.
    pub fn apply(
        &self,
        document: &RawDocument,
        foreign: &dyn Foreign,
        variables: &Variables,
        emit: &mut dyn FnMut(RawDocumentBuf) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let found = self.found(document, foreign, variables)?;
        match &self.unwind {
            None => {
                let array = self.array_of(found)?;
                emit(set_at(
                    document,
                    &self.array,
                    Some(RawBsonRef::Array(&array)),
                )?)
            }
            Some(unwind) => unwind.apply_items(document, found, emit),
        }
    }

    fn found(
        &self,
        document: &RawDocument,
        foreign: &dyn Foreign,
        variables: &Variables,
    ) -> Result<ForeignDocuments> {
        let mut pipeline = self.pipeline_for(document, variables)?;
        if let Some((local, there)) = &self.fields {
            let filter =
                Filter::parse_with(&equal(document, local, there), &ParseContext::default())?;
            // Documents that the pipeline brings along are matched behind it.
            let place = usize::from(self.pipeline.brings_documents());
            pipeline.stages.insert(place, Stage::Match(filter));
        }
        foreign.run(self.collection.as_deref(), pipeline, variables)
    }

    fn pipeline_for(&self, document: &RawDocument, variables: &Variables) -> Result<Pipeline> {
        if self.variables.is_empty() {
            return Ok(self.pipeline.parsed().clone());
        }
        let mut values = VariableScope::default();
        for (name, expression) in &self.variables {
            let value = expression.evaluate_value(document, variables)?;
            values = values.with(name, &value)?;
        }
        self.pipeline.with_values(values)
    }

    fn array_of(&self, found: ForeignDocuments) -> Result<RawArrayBuf> {
        let mut array = RawArrayBuf::new();
        let mut memory = Reservation::none();
        for document in found {
            array.push(document?);
            let bytes = array.as_bytes().len();
            // Once more for the document that gets it.
            memory.grow(2 * bytes)?;
            if bytes > STAGE_BYTES_MAX {
                return Err(Error::location(
                    4568,
                    format!(
                        "Total size of documents in {} matching pipeline's $lookup stage exceeds {STAGE_BYTES_MAX} bytes",
                        self.collection.as_deref().unwrap_or_default()
                    ),
                ));
            }
        }
        Ok(array)
    }
}

impl<'a> LookupOptions<'a> {
    fn parse(document: &'a RawDocument) -> Result<Self> {
        let mut options = Self::default();
        for entry in document.iter() {
            let (name, value) = entry.map_err(corrupt)?;
            let place = match name.as_str() {
                "pipeline" => {
                    options.pipeline = Some(stages(value)?);
                    continue;
                }
                "let" => {
                    let RawBsonRef::Document(variables) = value else {
                        return Err(Error::failed_to_parse(format!(
                            "$lookup argument '{}' must be an object, is type {}",
                            text::element("let", value),
                            type_name(value.element_type())
                        )));
                    };
                    options.variables = Some(variables);
                    continue;
                }
                "from" => {
                    options.from = Some(from(value)?);
                    continue;
                }
                "localField" => &mut options.local,
                "foreignField" => &mut options.foreign,
                "as" => &mut options.array,
                unknown => match value {
                    RawBsonRef::String(_) => {
                        return Err(Error::failed_to_parse(format!(
                            "unknown argument to $lookup: {unknown}"
                        )));
                    }
                    other => return Err(no_string(unknown, other)),
                },
            };
            match value {
                // As if it were not there.
                RawBsonRef::String(text) => *place = Some(text).filter(|text| !text.is_empty()),
                other => return Err(no_string(name.as_str(), other)),
            }
        }
        Ok(options)
    }
}

fn from(value: RawBsonRef<'_>) -> Result<&str> {
    match value {
        RawBsonRef::String(name) => Ok(name),
        RawBsonRef::Document(named) => {
            let text = |name| named.get_str(name).unwrap_or_default();
            Err(Error::failed_to_parse(format!(
                "$lookup with syntax {{from: {{db:<>, coll:<>}},..}} is not supported for db: {} and coll: {}",
                text("db"),
                text("coll")
            )))
        }
        other => Err(Error::failed_to_parse(format!(
            "$lookup 'from' field must be a string, but found {}",
            type_name(other.element_type())
        ))),
    }
}

fn no_string(name: &str, value: RawBsonRef<'_>) -> Error {
    Error::failed_to_parse(format!(
        "$lookup argument '{name}' must be a string, found {}: {}",
        text::element(name, value),
        type_name(value.element_type())
    ))
}

fn stages(value: RawBsonRef<'_>) -> Result<Vec<RawDocumentBuf>> {
    let RawBsonRef::Array(array) = value else {
        return Err(Error::type_mismatch(
            "'pipeline' option must be specified as an array",
        ));
    };
    array
        .into_iter()
        .map(|stage| match stage.map_err(corrupt)? {
            RawBsonRef::Document(stage) => Ok(stage.to_owned()),
            _ => Err(Error::type_mismatch(
                "Each element of the 'pipeline' array must be an object",
            )),
        })
        .collect()
}

/// The condition that a field there is equal to a field here: to one of the values, where there are several, and to
/// null, where there is none.
fn equal(document: &RawDocument, local: &Path, there: &str) -> RawDocumentBuf {
    let mut values = RawArrayBuf::new();
    let (mut count, mut has_pattern) = (0, false);
    let mut add = |value: RawBsonRef<'_>| {
        values.push(value);
        count += 1;
        has_pattern |= matches!(value, RawBsonRef::RegularExpression(_));
    };
    let _ = path::visit(document, local, LeafArrays::Keep, &mut |visited| {
        match visited.value {
            // An array stands for its elements.
            Some(RawBsonRef::Array(items)) => items.into_iter().flatten().for_each(&mut add),
            Some(value) => add(value),
            None => {}
        }
        ControlFlow::Continue(())
    });
    if count == 0 {
        values.push(RawBsonRef::Null);
    }
    let field = there.to_owned();
    let mut filter = RawDocumentBuf::new();
    if has_pattern {
        let mut branches = RawArrayBuf::new();
        for value in values.into_iter().flatten() {
            let mut branch = RawDocumentBuf::new();
            append(&mut branch, &field, rawdoc! { "$eq": value });
            branches.push(branch);
        }
        filter.append(cstr!("$or"), branches);
    } else {
        append(&mut filter, &field, rawdoc! { "$in": values });
    }
    filter
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawDocumentBuf) {
    let name = crate::expression::value::field_name(name).expect("a field path has no null byte");
    document.append(name, value);
}
