//! `$group`: parse, and the table of groups.
//!
//! One pass reads every field that the key and the accumulators need; the key's bytes are
//! built in a buffer that is used again, so that a document of a known group allocates
//! nothing.

use super::accumulator::{Accumulator, AccumulatorKind, AccumulatorState};
use super::group_buckets::BucketKeys;
use super::group_key;
use crate::error::{Code, Error, Result};
use crate::expression::FieldSet;
use crate::expression::value::{
    Value, build_document, corrupt, field_name, raw_size_bytes, within_levels,
};
use crate::expression::{EvaluationContext, Expression, Node, VariableScope, Variables, prefetch};
use crate::operation::memory::Reservation;
use crate::sorter::{Limits, SpillSort, SpillSpace, SpilledRows};
use crate::timeseries::TimeRange;
use ahash::RandomState;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::number::Number;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A parsed `$group`.
#[derive(Debug, Clone)]
pub struct Group {
    key: TableKey,
    /// The computed fields, in order.
    pub accumulators: Vec<Accumulator>,
    /// Top-level fields read in one pass.
    pub(super) fields: Vec<Box<str>>,
    specification: RawDocumentBuf,
}

#[derive(Debug, Clone)]
enum TableKey {
    /// A document of expressions, encoded part by part without being built.
    Parts(Box<[(Box<str>, Node)]>),
    /// Any other expression.
    Whole(Node),
}

impl Group {
    /// Parses the operand of `$group`.
    ///
    /// # Errors
    /// 15947, 15948, 15955, and those of accumulators and expressions.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                15947,
                "a group's fields must be specified in an object",
            ));
        };
        let mut key = None;
        let mut accumulators = Vec::new();
        for entry in document.iter() {
            let (name, raw) = entry.map_err(corrupt)?;
            if name.as_str() == "_id" {
                if key.is_some() {
                    return Err(Error::location(
                        15948,
                        "a group's _id may only be specified once",
                    ));
                }
                key = Some(parse_key(raw, scope)?);
            } else {
                accumulators.push(Accumulator::parse(name.as_str(), raw, scope)?);
            }
        }
        let Some(key) = key else {
            return Err(Error::location(
                15955,
                "a group specification must include an _id",
            ));
        };
        Ok(Self::new(key, accumulators, document.to_owned()))
    }

    fn new(
        mut key: TableKey,
        mut accumulators: Vec<Accumulator>,
        specification: RawDocumentBuf,
    ) -> Self {
        let mut fields = Vec::new();
        match &mut key {
            TableKey::Parts(parts) => parts
                .iter_mut()
                .for_each(|(_, node)| node.bind_fields(&mut fields)),
            TableKey::Whole(node) => node.bind_fields(&mut fields),
        }
        for accumulator in &mut accumulators {
            accumulator.argument.bind_fields(&mut fields);
        }
        Self {
            key,
            accumulators,
            fields,
            specification,
        }
    }

    /// The operand as it was given.
    pub fn specification(&self) -> &RawDocument {
        &self.specification
    }

    /// Whether it puts all documents into one group and only counts them.
    pub fn counts_all(&self) -> bool {
        let is_constant = |node: &Node| matches!(node, Node::Constant(_));
        let counts = self.accumulators.iter().all(Accumulator::counts);
        counts && self.key_nodes().into_iter().all(is_constant)
    }

    /// The field by which it groups, where it keeps of each group nothing but what the first document has.
    pub fn first_of(&self) -> Option<String> {
        let TableKey::Whole(Node::Field { path, .. }) = &self.key else {
            return None;
        };
        let mut kinds = self.accumulators.iter().map(|accumulator| accumulator.kind);
        kinds
            .all(|kind| kind == AccumulatorKind::First)
            .then(|| path.join("."))
    }

    /// The expressions that the key is made of.
    pub(super) fn key_nodes(&self) -> Vec<&Node> {
        match &self.key {
            TableKey::Parts(parts) => parts.iter().map(|(_, node)| node).collect(),
            TableKey::Whole(node) => vec![node],
        }
    }

    /// Appends the bytes by which the groups of documents are told apart.
    ///
    /// # Errors
    /// Those of the key's expressions.
    pub(super) fn encode_key(
        &self,
        document: &RawDocument,
        variables: &Variables,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut context = EvaluationContext::new(document, variables);
        prefetch(&self.fields, &mut context)?;
        self.encode_key_in(&mut context, out)
    }

    fn encode_key_in<'c>(
        &'c self,
        context: &mut EvaluationContext<'c>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match &self.key {
            TableKey::Parts(parts) => {
                for (_, node) in parts {
                    let value = part_of_key(node.evaluate(context)?, parts.len());
                    group_key::encode(&value, context.variables.collation(), out)?;
                }
                Ok(())
            }
            TableKey::Whole(node) => {
                let value = part_of_key(node.evaluate(context)?, 1);
                group_key::encode(&value, context.variables.collation(), out)
            }
        }
    }

    /// The fields read.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        match &self.key {
            TableKey::Parts(parts) => parts
                .iter()
                .for_each(|(_, node)| node.add_dependencies(&mut set)),
            TableKey::Whole(node) => node.add_dependencies(&mut set),
        }
        for accumulator in &self.accumulators {
            accumulator.add_dependencies(&mut set);
        }
        set
    }
}

fn parse_key(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<TableKey> {
    if let RawBsonRef::Document(document) = raw {
        let dotted = document
            .iter()
            .flatten()
            .find(|(key, _)| key.as_str().contains('.'));
        let is_inclusion = |value: RawBsonRef<'_>| {
            matches!(value, RawBsonRef::Boolean(_)) || Number::from_raw(value).is_some()
        };
        let first = document.iter().flatten().next();
        let is_operator = first.is_some_and(|(key, _)| key.as_str().starts_with('$'));
        let includes = |(_, value)| is_inclusion(value);
        if dotted.is_some() || (!is_operator && document.iter().flatten().any(includes)) {
            return Err(Error::location(
                17390,
                "$group does not support inclusion-style expressions",
            ));
        }
    }
    Ok(match Expression::parse(raw, scope)?.node {
        Node::Object(parts) => TableKey::Parts(parts),
        node => TableKey::Whole(node),
    })
}

/// The groups met so far. Where they outgrow their memory they are spilled, each by its key, and begin anew;
/// at the end what belongs to one group is merged, in the order in which it was met.
pub struct Groups {
    pub(super) group: Arc<Group>,
    pub(super) table: GroupTable,
    pub(super) key: Vec<u8>,
    memory: Reservation,
    spilled: Option<SpillSort>,
    /// How often groups were spilled.
    spills: u64,
    limits: Limits,
    /// Where measurements of buckets come: what is known of their keys.
    pub(super) buckets: Option<Arc<BucketKeys>>,
    /// The group of the latest measurement, and from when until when those of its bucket are in it.
    pub(super) run: Option<(usize, TimeRange)>,
}

/// What tells a group from others; that of a number or a short text lies in the table itself.
type KeyBytes = SmallVec<[u8; 16]>;

// There are as many as groups, times fields.
const _: () = assert!(size_of::<AccumulatorState>() <= 56);

#[derive(Default)]
pub(super) struct GroupTable {
    places: HashMap<KeyBytes, u32, RandomState>,
    ids: Vec<RawBson>,
    /// The states of all groups, one after the other.
    pub(super) states: Vec<AccumulatorState>,
    pub(super) bytes: usize,
}

impl Groups {
    /// No group yet.
    pub fn new(group: Arc<Group>, limits: &Limits) -> Self {
        Self {
            group,
            table: GroupTable::default(),
            key: Vec::new(),
            memory: Reservation::none(),
            spilled: None,
            spills: 0,
            limits: limits.clone(),
            buckets: None,
            run: None,
        }
    }

    /// Takes one more document.
    ///
    /// # Errors
    /// 292 where the groups outgrow their memory and cannot be spilled, and those of expressions.
    pub fn push(&mut self, document: &RawDocument, variables: &Variables) -> Result<()> {
        self.update(document, variables, None, |state, accumulator, value| {
            state.add(accumulator, value, document)
        })?;
        Ok(())
    }

    /// Takes so many documents at once, all of which have `document`'s key. For accumulators that only
    /// count, see [`super::CountingGroup`].
    ///
    /// # Errors
    /// As [`Groups::push`].
    pub fn push_times(
        &mut self,
        document: &RawDocument,
        times: u64,
        variables: &Variables,
    ) -> Result<()> {
        self.update(document, variables, None, |state, _, value| {
            state.add_times(value, times);
            Ok(0)
        })?;
        Ok(())
    }

    /// Whether the groups of parts of the input can be merged, see [`Groups::merge`].
    pub fn merges(&self) -> bool {
        self.group.accumulators.iter().all(Accumulator::merges)
    }

    /// Whether there is one group, whose documents are only counted.
    pub fn counts_all(&self) -> bool {
        self.group.counts_all()
    }

    /// The same stage without any document.
    pub fn fresh(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            ..Self::new(self.group.clone(), &self.limits)
        }
    }

    /// Takes the groups of documents that come behind all that were pushed here.
    ///
    /// # Errors
    /// 292 where the groups outgrow their memory together and cannot be spilled.
    pub fn merge(&mut self, mut later: Self) -> Result<()> {
        if let (Some(spilled), Some(space)) = (later.spilled.take(), self.limits.disk()) {
            self.spill(&space)?;
            let mut rows = spilled.finish()?;
            let (own, spills) = (&mut self.spilled, &mut self.spills);
            let mut push = |key: &[u8], value: &[u8]| {
                *spills += 1;
                own.as_mut()
                    .map_or(Ok(()), |own| own.push(key, *spills - 1, value))
            };
            while rows.next_with(&mut push)?.is_some() {}
        }
        let GroupTable {
            places,
            ids,
            states,
            ..
        } = later.table;
        let mut keys = vec![KeyBytes::new(); ids.len()];
        for (key, place) in places {
            keys[place as usize] = key;
        }
        let width = self.group.accumulators.len();
        let mut states = states.into_iter();
        for (key, id) in keys.into_iter().zip(ids) {
            let group = states.by_ref().take(width);
            match self.table.places.get(&key) {
                None => {
                    self.table.states.extend(group);
                    self.table.insert(key, id, width)?;
                }
                Some(place) => {
                    let first = *place as usize * width;
                    let own = &mut self.table.states[first..first + width];
                    merge_states(own, group, &self.group)?;
                }
            }
        }
        self.hold()
    }

    /// Takes memory for the groups, or spills them.
    #[inline]
    pub(super) fn hold(&mut self) -> Result<()> {
        let held = self
            .limits
            .hold(&mut self.memory, self.table.bytes, too_large)?;
        match held.cloned() {
            None => Ok(()),
            Some(space) => self.spill(&space),
        }
    }

    /// Spills all groups: `{i: _id, "": state, ...}` by the length of the key (u32 BE) and the key.
    #[cold]
    fn spill(&mut self, space: &SpillSpace) -> Result<()> {
        let spilled = self.spilled.get_or_insert_with(|| SpillSort::new(space));
        let GroupTable {
            places,
            ids,
            states,
            ..
        } = std::mem::take(&mut self.table);
        let mut keys = vec![KeyBytes::new(); ids.len()];
        for (key, place) in places {
            keys[place as usize] = key;
        }
        let mut states = states.into_iter();
        let mut bytes = Vec::new();
        for (key, id) in keys.into_iter().zip(ids) {
            let mut value = RawDocumentBuf::new();
            value.append(bson::raw::cstr!("i"), id);
            for state in states.by_ref().take(self.group.accumulators.len()) {
                value.append(bson::raw::cstr!(""), state.encode()?);
            }
            bytes.clear();
            // With its length in front no key is the beginning of another.
            bytes.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(&key);
            spilled.push(&bytes, self.spills, value.as_bytes())?;
        }
        self.spills += 1;
        self.run = None;
        self.memory.shrink(0);
        Ok(())
    }

    /// Has `add` change each state of the document's group, which may be known, given its argument; it tells by how
    /// many bytes the state has grown. Returns the group's place, unless the groups were spilled.
    pub(super) fn update(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
        known: Option<usize>,
        add: impl Fn(&mut AccumulatorState, &Accumulator, &Value<'_>) -> Result<usize>,
    ) -> Result<Option<usize>> {
        let Self {
            group, table, key, ..
        } = self;
        let mut context = EvaluationContext::new(document, variables);
        prefetch(&group.fields, &mut context)?;
        let place = match known {
            Some(place) => place,
            None => table.place(group, key, &mut context)?,
        };
        let width = group.accumulators.len();
        let states = &mut table.states[place * width..(place + 1) * width];
        for (state, accumulator) in states.iter_mut().zip(&group.accumulators) {
            let value = accumulator.argument.evaluate(&mut context)?;
            table.bytes += add(state, accumulator, &value)?;
        }
        drop(context);
        let spills = self.spills;
        self.hold()?;
        Ok((self.spills == spills).then_some(place))
    }

    /// The groups as documents, in the order they were first met, or in any order where some were spilled.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(
        mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>> {
        if let (Some(_), Some(space)) = (&self.spilled, self.limits.disk()) {
            self.spill(&space)?;
        }
        let (group, memory) = (self.group, self.memory);
        if let Some(spilled) = self.spilled {
            let mut merged = MergedGroups {
                group,
                rows: spilled.finish()?,
                memory,
            };
            return Ok(Box::new(std::iter::from_fn(move || {
                merged.next().transpose()
            })));
        }
        let mut states = self.table.states.into_iter();
        Ok(Box::new(self.table.ids.into_iter().map(move |id| {
            // Held until the last is handed out.
            let _ = &memory;
            finished(id, states.by_ref(), &group)
        })))
    }
}

/// The document of a group, whose states come next.
fn finished(
    id: RawBson,
    states: impl Iterator<Item = AccumulatorState>,
    group: &Group,
) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!("_id"), id);
    for (accumulator, state) in group.accumulators.iter().zip(states) {
        document.append(
            field_name(&accumulator.field)?,
            state.finish_group(accumulator)?,
        );
    }
    within_levels(document)
}

/// Merges states with those of the same group that come later; returns by how many bytes they grew.
fn merge_states(
    own: &mut [AccumulatorState],
    later: impl Iterator<Item = AccumulatorState>,
    group: &Group,
) -> Result<usize> {
    let mut grown = 0;
    for ((own, more), accumulator) in own.iter_mut().zip(later).zip(&group.accumulators) {
        grown += own.merge(accumulator, more)?;
    }
    Ok(grown)
}

/// Groups that were spilled, put together again one by one.
struct MergedGroups {
    group: Arc<Group>,
    rows: SpilledRows,
    memory: Reservation,
}

/// What was spilled of a group at once.
struct GroupPart {
    key: Box<[u8]>,
    id: RawBson,
    states: Vec<AccumulatorState>,
}

impl MergedGroups {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(mut whole) = self.read()? else {
            return Ok(None);
        };
        let mut bytes: usize = whole.states.iter().map(AccumulatorState::size_bytes).sum();
        while let Some(part) = self.read()? {
            if part.key != whole.key {
                // It is not kept: a cursor may wait here for long.
                self.rows.unread()?;
                break;
            }
            bytes += merge_states(&mut whole.states, part.states.into_iter(), &self.group)?;
            self.memory.grow(bytes)?;
        }
        self.memory.shrink(bytes);
        finished(whole.id, whole.states.into_iter(), &self.group).map(Some)
    }

    fn read(&mut self) -> Result<Option<GroupPart>> {
        let accumulators = &self.group.accumulators;
        self.rows.next_with(|key, value| {
            let document = RawDocument::from_bytes(value).map_err(corrupt)?;
            let mut fields = document.iter();
            let mut field = || match fields.next() {
                Some(field) => field.map(|(_, value)| value).map_err(corrupt),
                None => Err(corrupt("a spilled group has too few fields")),
            };
            let id = field()?.into();
            let mut states = Vec::with_capacity(accumulators.len());
            for accumulator in accumulators {
                states.push(AccumulatorState::decode(accumulator, field()?)?);
            }
            let key = key.into();
            Ok(GroupPart { key, id, states })
        })
    }
}

/// A missing value is null where it is all that the key is made of, but not beside others: so does
/// `DocumentSourceGroup::computeId` of MongoDB 6.0.
fn part_of_key(value: Value<'_>, parts: usize) -> Value<'_> {
    if parts == 1 && value.is_missing() {
        Value::NULL
    } else {
        value
    }
}

fn too_large(_: usize) -> String {
    "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in."
        .into()
}

impl GroupTable {
    /// The place of a document's group, which may be new.
    pub(super) fn place<'c>(
        &mut self,
        group: &'c Group,
        key: &mut Vec<u8>,
        context: &mut EvaluationContext<'c>,
    ) -> Result<usize> {
        match self.find(group, key, context)? {
            Some(place) => Ok(place),
            None => self.begin(group, key, context),
        }
    }

    /// The place of a document's group, where that is known; `key` becomes what tells the group from others.
    pub(super) fn find<'c>(
        &self,
        group: &'c Group,
        key: &mut Vec<u8>,
        context: &mut EvaluationContext<'c>,
    ) -> Result<Option<usize>> {
        key.clear();
        group.encode_key_in(context, key)?;
        Ok(self.places.get(&key[..]).map(|place| *place as usize))
    }

    /// A new group.
    fn begin<'c>(
        &mut self,
        group: &'c Group,
        key: &[u8],
        context: &mut EvaluationContext<'c>,
    ) -> Result<usize> {
        let id = match &group.key {
            TableKey::Parts(parts) => {
                let mut fields = Vec::with_capacity(parts.len());
                for (name, node) in parts {
                    let value = part_of_key(node.evaluate(context)?, parts.len());
                    fields.push(((&**name).into(), value));
                }
                RawBson::Document(build_document(&fields)?)
            }
            TableKey::Whole(node) => node.evaluate(context)?.to_raw()?.unwrap_or(RawBson::Null),
        };
        for accumulator in &group.accumulators {
            let state = accumulator.begin_group(&id, context.variables)?;
            self.states.push(state);
        }
        self.insert(key.into(), id, group.accumulators.len())
    }

    /// Notes a new group, whose states were added.
    fn insert(&mut self, key: KeyBytes, id: RawBson, width: usize) -> Result<usize> {
        let place = self.ids.len();
        // Lists grow by half of what they hold, in the mean.
        let own = 64 + size_of::<RawBson>() + width * size_of::<AccumulatorState>();
        self.bytes += key.len() + raw_size_bytes(id.as_raw_bson_ref()) + own + own / 2;
        self.ids.push(id);
        let number = u32::try_from(place).map_err(|_| {
            Error::new(
                Code::ExceededMemoryLimit,
                "$group has more than 2^32 groups",
            )
        })?;
        self.places.insert(key, number);
        Ok(place)
    }
}
