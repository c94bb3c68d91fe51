//! The commands of a script: a verb, a collection, and JSON documents.
//!
//! ```text
//! create COLL {options}            index COLL {spec} ...       drop-index COLL "name"
//! insert COLL {document} ...       update COLL {filter} {update} [{multi, upsert, arrayFilters, hint}]
//! delete COLL {filter} ["one"]     modify COLL {filter} {update} [{new, upsert, sort}]
//! remove COLL {filter}             rename COLL "other"         drop COLL
//! find COLL {filter} [{sort, skip, limit, projection, hint}]
//! count COLL {filter} [{skip, limit, hint}]
//! aggregate COLL {stage} ...           distinct COLL "path" [{filter}]
//! ```

use crate::batches::Trees;
use crate::plans;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, Document};
use meridian_engine::storage::{MemoryOptions, Recording};
use meridian_engine::{
    AggregateRequest, AggregateTarget, CollectionOptions, CountRequest, DeleteStatement,
    DistinctRequest, DropIndexes, Engine, Error, ExplainRequest, FindAndModifyAction,
    FindAndModifyRequest, FindRequest, InsertOptions, Namespace, UpdateStatement, Verbosity,
};
use std::fmt::Write;
use std::sync::Arc;

type Outcome = Result<String, Error>;

/// One engine with what has been written to its store.
pub struct Session {
    engine: Arc<Engine>,
    recording: Recording,
    trees: Trees,
}

/// A command's arguments after the collection.
struct Arguments(Vec<Bson>);

impl Arguments {
    fn parse(text: &str) -> Self {
        let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let bson =
            |value: serde_json::Result<serde_json::Value>| Bson::try_from(value.unwrap()).unwrap();
        Self(values.map(bson).collect())
    }

    fn documents(&self) -> Vec<RawDocumentBuf> {
        (0..self.0.len())
            .map(|position| self.document(position))
            .collect()
    }

    /// The document at a position; an empty one when there is none.
    fn document(&self, position: usize) -> RawDocumentBuf {
        match self.0.get(position) {
            Some(Bson::Document(document)) => RawDocumentBuf::try_from(document).unwrap(),
            None => RawDocumentBuf::new(),
            Some(other) => panic!("a document is wanted, not {other}"),
        }
    }

    fn text(&self, position: usize) -> Option<&str> {
        self.0.get(position).and_then(Bson::as_str)
    }
}

fn namespace(collection: &str) -> Namespace {
    Namespace::new("test", collection).unwrap()
}

/// A message without the UUIDs in it, which are random.
fn without_uuid(message: &str) -> String {
    let uuid = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    uuid.replace_all(message, "UUID").into_owned()
}

fn flag(options: &RawDocument, name: &str) -> bool {
    options.get_bool(name).unwrap_or(false)
}

fn number(options: &RawDocument, name: &str) -> Option<u64> {
    options
        .get_i32(name)
        .ok()
        .map(|number| u64::try_from(number).unwrap())
}

fn part<'d>(options: &'d RawDocument, name: &str) -> Option<&'d RawDocument> {
    options.get_document(name).ok()
}

fn value<'d>(options: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
    options.get(name).unwrap()
}

fn array_filters(options: &RawDocument) -> Vec<&RawDocument> {
    let filters = options.get_array("arrayFilters").ok();
    let each = filters.into_iter().flat_map(|array| array.into_iter());
    each.map(|filter| filter.unwrap().as_document().unwrap())
        .collect()
}

impl Session {
    pub fn new() -> Self {
        let recording = Recording::default();
        let options = MemoryOptions {
            recording: Some(recording.clone()),
            ..MemoryOptions::default()
        };
        Self::over(options, recording)
    }

    /// A session whose store takes no value of so many bytes whole; what is written is not shown.
    pub fn limited(value_bytes_max: usize) -> Self {
        let mut options = MemoryOptions::default();
        options.capabilities.value_bytes_max = value_bytes_max;
        Self::over(options, Recording::default())
    }

    fn over(options: MemoryOptions, recording: Recording) -> Self {
        Self {
            engine: Engine::in_memory_with(options).unwrap(),
            recording,
            trees: Trees::default(),
        }
    }

    /// Runs one command; what came of it, as lines.
    pub fn run(&mut self, command: &str) -> String {
        let mut words = command.splitn(3, ' ');
        let (verb, collection) = (words.next().unwrap(), words.next().unwrap());
        let arguments = Arguments::parse(words.next().unwrap_or_default());
        let outcome = match verb {
            "create" => self.create(collection, &arguments),
            "index" => self.index(collection, &arguments),
            "drop-index" => self.drop_index(collection, &arguments),
            "drop" => self
                .engine
                .drop_collection(&namespace(collection))
                .map(|_| String::new()),
            "rename" => self.rename(collection, &arguments),
            "insert" => self.insert(collection, &arguments),
            "update" => self.update(collection, &arguments),
            "modify" => self.modify(collection, &arguments),
            "remove" => self.modify(collection, &arguments),
            "delete" => self.delete(collection, &arguments),
            "find" => self.find(collection, &arguments),
            "count" => self.count(collection, &arguments),
            "aggregate" => self.aggregate(collection, &arguments),
            "distinct" => self.distinct(collection, &arguments),
            other => panic!("unknown command {other}"),
        };
        let mut shown = outcome.unwrap_or_else(|error| {
            format!(
                "error {} {}\n",
                error.code.number(),
                without_uuid(&error.message)
            )
        });
        for batch in self.recording.take() {
            shown.push_str(&self.trees.show(&batch));
        }
        shown
    }

    /// Checks every document against every index, both ways.
    pub fn check(&self) {
        for collection in self.engine.list_collections("test").unwrap() {
            let report = self.engine.validate(&namespace(&collection.name)).unwrap();
            assert!(
                report.errors.is_empty(),
                "{}: {:?}",
                collection.name,
                report.errors
            );
        }
    }

    fn create(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let options = CollectionOptions::parse(&arguments.document(0))?;
        self.engine
            .create_collection(&namespace(collection), options)?;
        Ok(String::new())
    }

    fn index(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let specs = arguments.documents();
        let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
        let outcome = self
            .engine
            .create_indexes(&namespace(collection), &specs, &mut |_| {})?;
        Ok(format!("indexes {} -> {}\n", outcome.before, outcome.after))
    }

    fn drop_index(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let names = DropIndexes::Names(vec![arguments.text(0).unwrap().to_owned()]);
        self.engine.drop_indexes(&namespace(collection), &names)?;
        Ok(String::new())
    }

    fn rename(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let to = namespace(arguments.text(0).unwrap());
        self.engine
            .rename_collection(&namespace(collection), &to, false)?;
        Ok(String::new())
    }

    fn insert(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let documents = arguments.documents();
        let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
        let options = InsertOptions {
            ordered: false,
            bypass_validation: false,
            ..InsertOptions::default()
        };
        let outcome = self
            .engine
            .insert(&namespace(collection), &documents, &options)?;
        let mut shown = format!("inserted {}\n", outcome.inserted);
        for failure in outcome.errors {
            let (code, message) = (failure.error.code.number(), failure.error.message);
            writeln!(shown, "error at {}: {code} {message}", failure.index).unwrap();
        }
        Ok(shown)
    }

    fn update(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let (filter, options) = (arguments.document(0), arguments.document(2));
        let update = bson::RawBson::try_from(arguments.0[1].clone()).unwrap();
        let statement = UpdateStatement {
            collation: None,
            filter: &filter,
            update: update.as_raw_bson_ref(),
            multi: flag(&options, "multi"),
            upsert: flag(&options, "upsert"),
            array_filters: array_filters(&options),
            hint: value(&options, "hint"),
            variables: None,
            constants: None,
            bypass_validation: false,
        };
        let explain = ExplainRequest::Update(statement.clone());
        let plan = self.plan(collection, &explain)?;
        let outcome = self.engine.update(&namespace(collection), &statement)?;
        let mut shown = format!(
            "{plan}matched {}, modified {}\n",
            outcome.matched, outcome.modified
        );
        if let Some(id) = outcome.upserted_id {
            writeln!(shown, "upserted {}", id.into_relaxed_extjson()).unwrap();
        }
        Ok(shown)
    }

    fn modify(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let (filter, options) = (arguments.document(0), arguments.document(2));
        let update = arguments
            .0
            .get(1)
            .map(|update| bson::RawBson::try_from(update.clone()).unwrap());
        let action = match &update {
            None => FindAndModifyAction::Remove,
            Some(update) => FindAndModifyAction::Update {
                update: update.as_raw_bson_ref(),
                array_filters: array_filters(&options),
                upsert: flag(&options, "upsert"),
                return_new: flag(&options, "new"),
            },
        };
        let request = FindAndModifyRequest {
            collation: None,
            filter: &filter,
            sort: part(&options, "sort"),
            action,
            fields: None,
            hint: value(&options, "hint"),
            variables: None,
            bypass_validation: false,
        };
        let plan = self.plan(collection, &ExplainRequest::FindAndModify(request.clone()))?;
        let outcome = self
            .engine
            .find_and_modify(&namespace(collection), &request)?;
        let value = outcome
            .value
            .as_deref()
            .map_or_else(|| "nothing".to_owned(), plans::json);
        Ok(format!("{plan}answers {value}\n"))
    }

    fn delete(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let filter = arguments.document(0);
        let statement = DeleteStatement {
            collation: None,
            filter: &filter,
            limit_one: arguments.text(1) == Some("one"),
            hint: None,
            variables: None,
        };
        let plan = self.plan(collection, &ExplainRequest::Delete(statement))?;
        let deleted = self.engine.delete(&namespace(collection), &statement)?;
        Ok(format!("{plan}deleted {deleted}\n"))
    }

    fn find(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let (filter, options) = (arguments.document(0), arguments.document(1));
        let request = FindRequest {
            projection: part(&options, "projection"),
            sort: part(&options, "sort"),
            skip: number(&options, "skip").unwrap_or(0),
            limit: number(&options, "limit"),
            hint: value(&options, "hint"),
            ..FindRequest::new(&filter)
        };
        let mut shown = self.plan(collection, &ExplainRequest::Find(request.clone()))?;
        let mut query = self.engine.find(&namespace(collection), &request)?;
        while let Some(document) = query.next_document()? {
            writeln!(shown, "{}", plans::json(document)).unwrap();
        }
        Ok(shown)
    }

    fn count(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let (filter, options) = (arguments.document(0), arguments.document(1));
        let request = CountRequest {
            collation: None,
            filter: &filter,
            skip: number(&options, "skip").unwrap_or(0),
            limit: number(&options, "limit"),
            hint: value(&options, "hint"),
        };
        let plan = self.plan(collection, &ExplainRequest::Count(request.clone()))?;
        let count = self.engine.count(&namespace(collection), &request)?;
        Ok(format!("{plan}counted {count}\n"))
    }

    fn aggregate(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let stages = arguments.documents();
        let request = AggregateRequest::new(&stages);
        let mut shown = self.plan(collection, &ExplainRequest::Aggregate(request.clone()))?;
        let target = AggregateTarget::Collection(namespace(collection));
        let mut query = self.engine.aggregate(&target, &request)?;
        while let Some(document) = query.next_document()? {
            writeln!(shown, "{}", plans::json(document)).unwrap();
        }
        Ok(shown)
    }

    fn distinct(&self, collection: &str, arguments: &Arguments) -> Outcome {
        let filter = arguments.0.get(1).map(|_| arguments.document(1));
        let filter = filter.unwrap_or_default();
        let request = DistinctRequest {
            collation: None,
            key: arguments.text(0).unwrap(),
            filter: &filter,
            hint: None,
        };
        let plan = self.plan(collection, &ExplainRequest::Distinct(request.clone()))?;
        let values = self.engine.distinct(&namespace(collection), &request)?;
        let values = plans::json(&bson::rawdoc! { "values": values });
        Ok(format!("{plan}{values}\n"))
    }

    fn plan(&self, collection: &str, request: &ExplainRequest<'_>) -> Outcome {
        let namespace = namespace(collection);
        let explained = self
            .engine
            .explain(&namespace, request, Verbosity::ExecutionStats)?;
        Ok(plans::show(&Document::try_from(&*explained).unwrap()))
    }
}
