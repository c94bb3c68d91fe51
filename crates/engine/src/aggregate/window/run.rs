//! A `$setWindowFields` at work on documents that come partition by partition, each in its order.
//!
//! In: documents, one at a time. Out: the same documents with the functions' values, as soon as the windows of a document
//! are there. Documents that wait for that are spilled where they outgrow the memory; what functions keep is not.

use super::super::accumulator::as_value;
use super::super::group_key;
use super::super::keeping::Kept;
use super::SetWindowFields;
use super::bounds::Window;
use super::frame::WindowFrame;
use super::function::{FunctionKind, WindowFunction};
use super::linear_fill::LinearFill;
use crate::error::{Error, Result};
use crate::expression::value::{corrupt, field_name, within_levels};
use crate::expression::{EvaluationContext, Value, Variables, prefetch};
use crate::operation;
use crate::operation::memory::Reservation;
use crate::query::projection::Rest;
use crate::sorter::{Limits, SpillSort, SpillSpace, Spillable, SpilledRows};
use bson::{RawBson, RawDocument, RawDocumentBuf};
use meridian_value::field;
use meridian_value::key::Direction;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// So many documents come out for one that comes in, so that a large partition does not come out at once.
const OUT_FOR_ONE: usize = 16;

/// What a function takes in a partition before it has seen a document.
const FUNCTION_BYTES: usize = size_of::<Run>() + size_of::<WindowFrame>();

/// A short name and a number.
const NEW_FIELD_BYTES: usize = 24;

/// So many new fields are looked for in each document, one by one.
const NEW_FIELDS_MAX: usize = 4;

/// A `$setWindowFields` at work.
pub struct Windows {
    stage: Arc<SetWindowFields>,
    /// The last is the one whose documents arrive; those before it are complete, and on their way out.
    partitions: VecDeque<Partition>,
    /// The key of the document at hand.
    key: Vec<u8>,
    /// The `n` of each function, once it is asked for.
    counts: Option<Vec<Option<usize>>>,
    memory: Reservation,
    limits: Limits,
}

struct Partition {
    key: Vec<u8>,
    documents: DocumentQueue,
    runs: Vec<Run>,
    is_complete: bool,
}

/// A function at work.
enum Run {
    Frame(Box<WindowFrame>),
    LinearFill(Box<LinearFill>),
}

impl Windows {
    /// No document yet.
    pub fn new(stage: Arc<SetWindowFields>, limits: &Limits) -> Self {
        Self {
            stage,
            partitions: VecDeque::new(),
            key: Vec::new(),
            counts: None,
            memory: Reservation::none(),
            limits: limits.clone(),
        }
    }

    /// Takes one more document, and hands those that are finished to `emit`.
    ///
    /// # Errors
    /// Those of expressions and functions; 5414201 and 5643011 where the windows outgrow their memory.
    pub fn push(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
        emit: &mut dyn FnMut(Kept) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let stage = self.stage.clone();
        let mut context = EvaluationContext::new(document, variables);
        prefetch(&stage.fields, &mut context)?;
        self.key.clear();
        stage.partition_key(&mut context, &mut self.key)?;
        let last = self.partitions.back();
        if last.is_none_or(|last| last.key != self.key) {
            if let Some(last) = self.partitions.back_mut() {
                last.is_complete = true;
            }
            // (Before it is made: there may be very many functions.)
            self.hold(stage.functions.len() * FUNCTION_BYTES)?;
            let key = self.key.clone();
            let partition = Partition::new(key, &stage, self.counts(variables)?);
            self.partitions.push_back(partition);
        }
        if let Some(partition) = self.partitions.back_mut() {
            partition.push(&stage, &mut context)?;
            partition.documents.push(Kept {
                document: with_room(document, stage.functions.len())?,
                metadata: variables.metadata().cloned(),
            });
        }
        self.hold(0)?;
        for _ in 0..OUT_FOR_ONE {
            let Some(finished) = self.next(variables)? else {
                break;
            };
            if emit(finished)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Says that there are no more documents; those that are left.
    ///
    /// # Errors
    /// Those of the functions' `n`.
    pub fn into_documents(
        mut self,
        variables: Variables,
    ) -> Result<impl Iterator<Item = Result<Kept>> + Send> {
        self.counts(&variables)?;
        if let Some(last) = self.partitions.back_mut() {
            last.is_complete = true;
        }
        Ok(std::iter::from_fn(move || {
            let next = operation::check().and_then(|()| self.next(&variables));
            next.transpose()
        }))
    }

    /// The `n` of each function that has one.
    fn counts(&mut self, variables: &Variables) -> Result<&[Option<usize>]> {
        let counts = match self.counts.take() {
            Some(counts) => counts,
            None => {
                let empty = RawDocumentBuf::new();
                let mut context = EvaluationContext::new(&empty, variables);
                let functions = self.stage.functions.iter();
                let counts: Result<_> = functions.map(|one| one.count(&mut context)).collect();
                counts?
            }
        };
        Ok(self.counts.insert(counts))
    }

    /// The next document whose windows are there.
    fn next(&mut self, variables: &Variables) -> Result<Option<Kept>> {
        loop {
            let Some(first) = self.partitions.front_mut() else {
                return Ok(None);
            };
            if !first.documents.is_empty() {
                return first.next(&self.stage, variables);
            }
            if !first.is_complete {
                return Ok(None);
            }
            self.partitions.pop_front();
        }
    }

    /// Takes memory for what waits and what functions keep, and so many bytes that they will keep besides; or spills
    /// documents.
    fn hold(&mut self, coming: usize) -> Result<()> {
        let documents: usize = self.partitions.iter().map(|one| one.documents.bytes).sum();
        let kept: usize = self.partitions.iter().map(Partition::kept_bytes).sum();
        let kept = kept + coming;
        let bytes = documents + kept;
        if bytes <= self.limits.memory_bytes && self.memory.try_grow(bytes) {
            return Ok(());
        }
        let Some(space) = self.limits.disk() else {
            if bytes <= self.limits.memory_bytes {
                return self.memory.grow(bytes);
            }
            return Err(Error::location(
                5_643_011,
                "Exceeded max memory. Set 'allowDiskUse: true' to spill to disk",
            ));
        };
        for partition in &mut self.partitions {
            partition.documents.spill(&space)?;
        }
        if kept > self.limits.memory_bytes {
            return Err(Error::location(
                5_414_201,
                format!(
                    "Exceeded memory limit in DocumentSourceSetWindowFields, used {kept} bytes but max allowed is {}",
                    self.limits.memory_bytes
                ),
            ));
        }
        self.memory.shrink(kept);
        self.memory.grow(kept)
    }
}

impl Partition {
    fn new(key: Vec<u8>, stage: &SetWindowFields, counts: &[Option<usize>]) -> Self {
        let functions = stage.functions.iter().zip(counts);
        let runs = functions.map(|(function, count)| match function.kind {
            FunctionKind::LinearFill => Run::LinearFill(Box::default()),
            _ => Run::Frame(Box::new(WindowFrame::new(function, *count))),
        });
        Self {
            key,
            documents: DocumentQueue::default(),
            runs: runs.collect(),
            is_complete: false,
        }
    }

    /// Gives the functions what they need of a document.
    fn push<'a>(
        &mut self,
        stage: &'a SetWindowFields,
        context: &mut EvaluationContext<'a>,
    ) -> Result<()> {
        let position = match &stage.position {
            Some(position) => position.evaluate(context)?,
            None => Value::Missing,
        };
        for (function, run) in stage.functions.iter().zip(&mut self.runs) {
            let key = match &function.window {
                Window::Documents { .. } => None,
                Window::Range(_) if !stage.is_ascending() => {
                    return Err(Error::location(
                        5_429_404,
                        "Missing _sortExpr with range-based bounds",
                    ));
                }
                Window::Range(range) => Some(range.key(&position)?),
            };
            let input = function.input(context, &position)?;
            match run {
                Run::Frame(frame) => frame.push(function, input, key)?,
                Run::LinearFill(fill) => fill.push(input),
            }
        }
        Ok(())
    }

    /// The first document with the functions' values, if all its windows are there.
    fn next(&mut self, stage: &SetWindowFields, variables: &Variables) -> Result<Option<Kept>> {
        for (function, run) in stage.functions.iter().zip(&mut self.runs) {
            if !run.is_ready(function, self.is_complete)? {
                return Ok(None);
            }
        }
        let Some(kept) = self.documents.pop()? else {
            return Ok(None);
        };
        let metadata = kept.metadata;
        let runs = stage.functions.iter().zip(&mut self.runs);
        if let Some(names) = stage.new_fields(&kept.document) {
            let mut document = kept.document;
            let mut nests = false;
            for ((function, run), name) in runs.zip(names) {
                if let Some(value) = run.next(function)? {
                    nests |= matches!(value, RawBson::Document(_) | RawBson::Array(_));
                    document.append(field_name(name)?, value);
                }
            }
            if nests {
                document = within_levels(document)?;
            }
            return Ok(Some(Kept { document, metadata }));
        }
        let values: Result<Vec<_>> = runs.map(|(function, run)| run.next(function)).collect();
        let values = values?;
        let mut context = EvaluationContext::new(&kept.document, variables);
        for (slot, value) in values.iter().enumerate() {
            context.set(slot, as_value(value.as_ref()))?;
        }
        let document = stage.tree.apply_in(Rest::Keep, &mut context)?;
        Ok(Some(Kept { document, metadata }))
    }

    /// What the functions keep.
    fn kept_bytes(&self) -> usize {
        let of_runs: usize = self.runs.iter().map(Run::size_bytes).sum();
        of_runs + self.key.len() + size_of::<Self>()
    }
}

impl Run {
    fn is_ready(&mut self, function: &WindowFunction, all: bool) -> Result<bool> {
        match self {
            Self::Frame(frame) => frame.is_ready(function, all),
            Self::LinearFill(fill) => Ok(fill.is_ready(all)),
        }
    }

    fn next(&mut self, function: &WindowFunction) -> Result<Option<RawBson>> {
        match self {
            Self::Frame(frame) => frame.next(function),
            Self::LinearFill(fill) => fill.next(),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::Frame(frame) => size_of::<WindowFrame>() + frame.size_bytes(),
            Self::LinearFill(fill) => size_of::<LinearFill>() + fill.size_bytes(),
        }
    }
}

/// Documents, first in, first out; the older ones may be on disk.
#[derive(Default)]
struct DocumentQueue {
    spilled: VecDeque<SpilledRows>,
    held: VecDeque<Kept>,
    /// Of those in memory.
    bytes: usize,
    length: u64,
}

impl DocumentQueue {
    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn push(&mut self, kept: Kept) {
        self.bytes += queued_bytes(&kept);
        self.length += 1;
        self.held.push_back(kept);
    }

    fn pop(&mut self) -> Result<Option<Kept>> {
        while let Some(rows) = self.spilled.front_mut() {
            if let Some(kept) = rows.next_with(|_, value| Kept::decode(value))? {
                self.length -= 1;
                return Ok(Some(kept));
            }
            self.spilled.pop_front();
        }
        let kept = self.held.pop_front();
        if let Some(kept) = &kept {
            self.bytes -= queued_bytes(kept);
            self.length -= 1;
        }
        Ok(kept)
    }

    #[cold]
    fn spill(&mut self, space: &SpillSpace) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut spilled = SpillSort::new(space);
        let mut bytes = Vec::new();
        for (arrival, kept) in self.held.drain(..).enumerate() {
            bytes.clear();
            kept.encode(&mut bytes);
            spilled.push(&[], arrival as u64, &bytes)?;
        }
        self.bytes = 0;
        self.spilled.push_back(spilled.finish()?);
        Ok(())
    }
}

/// A copy of a document to which so many fields are likely to be added.
fn with_room(document: &RawDocument, fields: usize) -> Result<RawDocumentBuf> {
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + fields * NEW_FIELD_BYTES);
    bytes.extend_from_slice(document.as_bytes());
    RawDocumentBuf::from_bytes(bytes).map_err(corrupt)
}

fn queued_bytes(kept: &Kept) -> usize {
    kept.size_bytes() + size_of::<Kept>()
}

impl SetWindowFields {
    /// The bytes by which a document's partition is told from others.
    fn partition_key<'a>(
        &'a self,
        context: &mut EvaluationContext<'a>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(partition_by) = &self.partition_by else {
            return Ok(());
        };
        let value = partition_by.evaluate(context)?;
        if value.is_array() {
            return Err(super::partition_is_array());
        }
        let value = if value.is_nullish() {
            Value::NULL
        } else {
            value
        };
        group_key::encode(&value, context.variables.collation(), key)
    }

    /// The names of the values, where all of them are new fields of the document: these are appended. (Else the tree of
    /// paths makes the same document, more slowly.)
    fn new_fields(&self, document: &RawDocument) -> Option<&[Box<str>]> {
        let names = self.names.as_ref()?;
        let is_new = |name: &str| field::find(document, name.as_bytes()).is_none();
        let all_new = names.len() <= NEW_FIELDS_MAX && names.iter().all(|name| is_new(name));
        all_new.then_some(&names[..])
    }

    fn is_ascending(&self) -> bool {
        let fields = self.sort.as_ref().map(|sort| sort.fields());
        matches!(fields, Some([field]) if field.direction == Direction::Ascending)
    }
}
