//! `$lookup`: an array of the documents of another collection that belong to a document.

use super::hashed::HashedDocuments;
use super::{Foreign, ForeignDocuments, SubPipeline, for_each_value};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::stage::Stage;
use crate::aggregate::unwind::{Unwind, set_at};
use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{
    Expression, FieldSet, VariableScope, Variables, check_user_name, parse_field_path,
};
use crate::operation::memory::Reservation;
use crate::query::Filter;
use crate::sorter::STAGE_BYTES_MAX;
use crate::text;
use crate::types::type_name;
use bson::raw::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::path::Path;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A query by an index costs as much as reading so many documents one after the other.
const QUERY_DOCUMENTS: u64 = 8;

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
        let refusal = (51047, "$lookup");
        let pipeline = SubPipeline::parse(options.pipeline.unwrap_or_default(), &inner, refusal)?;
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

    /// The pipeline that runs on it.
    pub fn pipeline(&self) -> &Pipeline {
        self.pipeline.parsed()
    }

    /// Whether it finds the same for all documents.
    fn is_independent(&self) -> bool {
        self.fields.is_none() && self.variables.is_empty()
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

    fn found(
        &self,
        document: &RawDocument,
        foreign: &dyn Foreign,
        variables: &Variables,
    ) -> Result<ForeignDocuments> {
        let mut pipeline = self.pipeline_for(document, variables)?;
        if let Some((local, there)) = &self.fields {
            let filter = Filter::parse_by(
                &equal(&local_values(document, local), there),
                variables.collation(),
            )?;
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

/// A `$lookup` at work.
pub struct LookupRun {
    lookup: Lookup,
    foreign: Arc<dyn Foreign>,
    /// Documents that it was asked for.
    asked: u64,
    reading: Reading,
}

/// What a pipeline gives that does not depend on the document.
struct KeptAnswer {
    documents: Arc<Vec<RawDocumentBuf>>,
    _memory: Reservation,
}

/// How the other collection is read.
enum Reading {
    /// By a query for each document, so far.
    Queries,
    /// By a query for each document, whatever comes.
    QueriesOnly,
    /// It was read once.
    Hashed(HashedDocuments),
    /// The pipeline gave these, whatever the document.
    Kept(KeptAnswer),
}

impl LookupRun {
    /// At its beginning.
    pub fn new(lookup: Lookup, foreign: Arc<dyn Foreign>) -> Self {
        let is_plain = lookup.fields.is_some()
            && lookup.collection.is_some()
            && lookup.pipeline.parsed().stages.is_empty();
        let reading = match is_plain || lookup.is_independent() {
            true => Reading::Queries,
            false => Reading::QueriesOnly,
        };
        Self {
            lookup,
            foreign,
            asked: 0,
            reading,
        }
    }

    /// Gives `emit` the document with what belongs to it: once, or with a `$unwind` taken in once for each.
    ///
    /// # Errors
    /// 4568 for an array that is too large; those of the pipeline, of the storage and of `emit`.
    pub fn apply(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
        emit: &mut dyn FnMut(RawDocumentBuf) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        self.asked += 1;
        self.read_when_due(variables)?;
        let found = self.found(document, variables)?;
        let lookup = &self.lookup;
        match &lookup.unwind {
            None => {
                let array = lookup.array_of(found)?;
                let array = RawBsonRef::Array(&array);
                emit(set_at(document, &lookup.array, Some(array))?)
            }
            Some(unwind) => unwind.apply_items(document, found, emit),
        }
    }

    /// Reads the other collection as a whole, once as many queries were made as cost that much: with an index one of
    /// them costs as much as reading [`QUERY_DOCUMENTS`], without one as much as reading all.
    fn read_when_due(&mut self, variables: &Variables) -> Result<()> {
        let lookup = &self.lookup;
        if lookup.is_independent() {
            return self.keep_when_due(variables);
        }
        let (Reading::Queries, Some((_, there)), Some(collection)) =
            (&self.reading, &lookup.fields, &lookup.collection)
        else {
            return Ok(());
        };
        if !self.asked.is_power_of_two() || self.asked == 1 {
            return Ok(());
        }
        let (documents, is_indexed) = self.foreign.size(collection, there, variables.collation());
        if is_indexed && self.asked.saturating_mul(QUERY_DOCUMENTS) < documents {
            return Ok(());
        }
        let path = Path::parse(there);
        let read = HashedDocuments::read(&*self.foreign, collection, &path, variables)?;
        self.reading = read.map_or(Reading::QueriesOnly, Reading::Hashed);
        Ok(())
    }

    /// Keeps what the pipeline gives, when it is asked for a second time.
    fn keep_when_due(&mut self, variables: &Variables) -> Result<()> {
        if self.asked != 2 {
            return Ok(());
        }
        let (mut kept, mut memory, mut bytes) = (Vec::new(), Reservation::none(), 0);
        let nothing = RawDocumentBuf::new();
        self.reading = Reading::QueriesOnly;
        for found in self.lookup.found(&nothing, &*self.foreign, variables)? {
            let found = found?;
            bytes += found.as_bytes().len() + size_of::<RawDocumentBuf>();
            if bytes > STAGE_BYTES_MAX || !memory.try_grow(bytes) {
                return Ok(());
            }
            kept.push(found);
        }
        self.reading = Reading::Kept(KeptAnswer {
            documents: Arc::new(kept),
            _memory: memory,
        });
        Ok(())
    }

    fn found(&self, document: &RawDocument, variables: &Variables) -> Result<ForeignDocuments> {
        match (&self.reading, &self.lookup.fields) {
            (Reading::Kept(kept), _) => {
                let documents = Arc::clone(&kept.documents);
                let places = 0..documents.len();
                Ok(Box::new(
                    places.map(move |place| Ok(documents[place].clone())),
                ))
            }
            (Reading::Hashed(hashed), Some((local, there))) => {
                let values = local_values(document, local);
                let filter = || Filter::parse_by(&equal(&values, there), variables.collation());
                hashed.find(values.into_iter().flatten(), filter)
            }
            _ => self.lookup.found(document, &*self.foreign, variables),
        }
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

/// The values of a field here that one there may be equal to: those in an array, and null, where there is none.
fn local_values(document: &RawDocument, local: &Path) -> RawArrayBuf {
    let (mut values, mut count) = (RawArrayBuf::new(), 0);
    let mut add = |value: RawBsonRef<'_>| {
        values.push(value);
        count += 1;
    };
    for_each_value(document, local.parts(), &mut add);
    if count == 0 {
        values.push(RawBsonRef::Null);
    }
    values
}

/// The condition that a field there is equal to one of the values.
fn equal(values: &RawArray, there: &str) -> RawDocumentBuf {
    let is_pattern = |value: &RawBsonRef<'_>| matches!(value, RawBsonRef::RegularExpression(_));
    // Nothing is equal to it, as in mongod.
    let is_defined = |value: &RawBsonRef<'_>| *value != RawBsonRef::Undefined;
    let values = || values.into_iter().flatten().filter(is_defined);
    let mut filter = RawDocumentBuf::new();
    if values().any(|value| is_pattern(&value)) {
        let mut branches = RawArrayBuf::new();
        for value in values() {
            let mut branch = RawDocumentBuf::new();
            append(&mut branch, there, rawdoc! { "$eq": value });
            branches.push(branch);
        }
        filter.append(cstr!("$or"), branches);
    } else {
        let mut list = RawArrayBuf::new();
        values().for_each(|value| list.push(value));
        append(&mut filter, there, rawdoc! { "$in": list });
    }
    filter
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawDocumentBuf) {
    let name = crate::expression::value::field_name(name).expect("a field path has no null byte");
    document.append(name, value);
}
