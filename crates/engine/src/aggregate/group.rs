//! `$group`: parse, and the table of groups.
//!
//! One pass reads every field that the key and the accumulators need; the key's bytes are
//! built in a buffer that is used again, so that a document of a known group allocates
//! nothing.

use super::accumulator::{Accumulator, State, key_document};
use super::dependencies::FieldSet;
use super::executor::Limits;
use super::expression::{
    Context, Expression, Node, VariableScope, Variables, prefetch, several_count,
};
use super::group_key;
use super::value::{Value, build_document, corrupt, field_name, raw_size_bytes, within_levels};
use crate::error::{Code, Error, Result};
use ahash::RandomState;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use std::collections::HashMap;
use std::sync::Arc;

/// A parsed `$group`.
#[derive(Debug, Clone)]
pub struct Group {
    key: Key,
    /// The computed fields, in order.
    pub accumulators: Vec<Accumulator>,
    /// Top-level fields read in one pass.
    fields: Vec<Box<str>>,
    specification: RawDocumentBuf,
}

#[derive(Debug, Clone)]
enum Key {
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
        mut key: Key,
        mut accumulators: Vec<Accumulator>,
        specification: RawDocumentBuf,
    ) -> Self {
        let mut fields = Vec::new();
        match &mut key {
            Key::Parts(parts) => parts
                .iter_mut()
                .for_each(|(_, node)| node.bind_fields(&mut fields)),
            Key::Whole(node) => node.bind_fields(&mut fields),
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

    /// The expressions that the key is made of.
    pub(super) fn key_nodes(&self) -> Vec<&Node> {
        match &self.key {
            Key::Parts(parts) => parts.iter().map(|(_, node)| node).collect(),
            Key::Whole(node) => vec![node],
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
        let mut context = Context::new(document, variables);
        prefetch(&self.fields, &mut context)?;
        self.encode_key_in(&mut context, out)
    }

    fn encode_key_in<'c>(&'c self, context: &mut Context<'c>, out: &mut Vec<u8>) -> Result<()> {
        match &self.key {
            Key::Parts(parts) => {
                for (_, node) in parts {
                    let value = node.evaluate(context)?;
                    group_key::encode(&part_of_key(value, parts.len()), out)?;
                }
                Ok(())
            }
            Key::Whole(node) => group_key::encode(&part_of_key(node.evaluate(context)?, 1), out),
        }
    }

    /// The fields read.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        match &self.key {
            Key::Parts(parts) => parts
                .iter()
                .for_each(|(_, node)| node.add_dependencies(&mut set)),
            Key::Whole(node) => node.add_dependencies(&mut set),
        }
        for accumulator in &self.accumulators {
            accumulator.argument.add_dependencies(&mut set);
            for field in accumulator.sort.iter().flat_map(|sort| sort.fields()) {
                set.add(field.path.as_str());
            }
        }
        set
    }
}

fn parse_key(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Key> {
    if let RawBsonRef::Document(document) = raw {
        let dotted = document
            .iter()
            .flatten()
            .find(|(key, _)| key.as_str().contains('.'));
        if dotted.is_some() {
            return Err(Error::location(
                17390,
                "$group does not support inclusion-style expressions",
            ));
        }
    }
    Ok(match Expression::parse(raw, scope)?.node {
        Node::Object(parts) => Key::Parts(parts),
        node => Key::Whole(node),
    })
}

/// The groups met so far.
pub struct Groups {
    group: Arc<Group>,
    table: Table,
    key: Vec<u8>,
    limits: Limits,
}

#[derive(Default)]
struct Table {
    places: HashMap<Box<[u8]>, u32, RandomState>,
    ids: Vec<RawBson>,
    /// The states of all groups, one after the other.
    states: Vec<State>,
    bytes: usize,
}

impl Groups {
    /// No group yet.
    pub fn new(group: Arc<Group>, limits: &Limits) -> Self {
        Self {
            group,
            table: Table::default(),
            key: Vec::new(),
            limits: limits.clone(),
        }
    }

    /// Takes one more document.
    ///
    /// # Errors
    /// 292 where the groups outgrow their memory, and those of expressions.
    pub fn push(&mut self, document: &RawDocument, variables: &Variables) -> Result<()> {
        self.update(document, variables, |state, accumulator, value| {
            state.add(accumulator, value, document)
        })
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
        self.update(document, variables, |state, _, value| {
            state.add_times(value, times);
            Ok(0)
        })
    }

    /// Whether the groups of parts of the input can be merged, see [`Groups::merge`].
    pub fn merges(&self) -> bool {
        self.group.accumulators.iter().all(Accumulator::merges)
    }

    /// The same stage without any document.
    pub fn fresh(&self) -> Self {
        Self::new(self.group.clone(), &self.limits)
    }

    /// Takes the groups of documents that come behind all that were pushed here.
    ///
    /// # Errors
    /// 292 where the groups outgrow their memory together.
    pub fn merge(&mut self, later: Self) -> Result<()> {
        let Table {
            places,
            ids,
            states,
            ..
        } = later.table;
        let mut keys = vec![Box::default(); ids.len()];
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
                    for ((own, more), accumulator) in
                        own.iter_mut().zip(group).zip(&self.group.accumulators)
                    {
                        own.merge(accumulator.kind, more)?;
                    }
                }
            }
        }
        self.limits.check(self.table.bytes, too_large)
    }

    /// Has `add` change each state of the document's group, given its argument; it tells by how many bytes
    /// the state has grown.
    fn update(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
        add: impl Fn(&mut State, &Accumulator, &Value<'_>) -> Result<usize>,
    ) -> Result<()> {
        let Self {
            group,
            table,
            key,
            limits,
        } = self;
        let mut context = Context::new(document, variables);
        let place = table.place(group, key, &mut context)?;
        let width = group.accumulators.len();
        let states = &mut table.states[place * width..(place + 1) * width];
        for (state, accumulator) in states.iter_mut().zip(&group.accumulators) {
            let value = accumulator.argument.evaluate(&mut context)?;
            table.bytes += add(state, accumulator, &value)?;
        }
        limits.check(table.bytes, too_large)
    }

    /// The groups as documents, in the order they were first met.
    pub fn into_documents(self) -> impl Iterator<Item = Result<RawDocumentBuf>> + Send {
        let group = self.group;
        let mut states = self.table.states.into_iter();
        self.table.ids.into_iter().map(move |id| {
            let mut document = RawDocumentBuf::new();
            document.append(bson::raw::cstr!("_id"), id);
            for accumulator in &group.accumulators {
                let state = states.next().expect("a state for each field of each group");
                document.append(
                    field_name(&accumulator.field)?,
                    state.finish(accumulator.kind)?,
                );
            }
            within_levels(document)
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

fn too_large() -> String {
    "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in."
        .into()
}

impl Table {
    /// The place of a document's group, which may be new.
    fn place<'c>(
        &mut self,
        group: &'c Group,
        key: &mut Vec<u8>,
        context: &mut Context<'c>,
    ) -> Result<usize> {
        prefetch(&group.fields, context)?;
        key.clear();
        group.encode_key_in(context, key)?;
        match self.places.get(&key[..]) {
            Some(place) => Ok(*place as usize),
            None => self.begin(group, key, context),
        }
    }

    /// A new group.
    fn begin<'c>(
        &mut self,
        group: &'c Group,
        key: &[u8],
        context: &mut Context<'c>,
    ) -> Result<usize> {
        let id = match &group.key {
            Key::Parts(parts) => {
                let mut fields = Vec::with_capacity(parts.len());
                for (name, node) in parts {
                    let value = part_of_key(node.evaluate(context)?, parts.len());
                    fields.push(((&**name).into(), value));
                }
                RawBson::Document(build_document(&fields)?)
            }
            Key::Whole(node) => node.evaluate(context)?.to_raw()?.unwrap_or(RawBson::Null),
        };
        for accumulator in &group.accumulators {
            let count = match &accumulator.count {
                None => None,
                Some(count) => {
                    let document = key_document(&id);
                    let mut context = Context::new(&document, context.variables);
                    Some(several_count(&count.evaluate(&mut context)?)?)
                }
            };
            self.states.push(accumulator.begin(count));
        }
        self.insert(key.into(), id, group.accumulators.len())
    }

    /// Notes a new group, whose states were added.
    fn insert(&mut self, key: Box<[u8]>, id: RawBson, width: usize) -> Result<usize> {
        let place = self.ids.len();
        self.bytes +=
            key.len() + raw_size_bytes(id.as_raw_bson_ref()) + 64 + width * size_of::<State>();
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
