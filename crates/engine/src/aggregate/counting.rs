//! Groups that only count documents, by a key that comes from one field.
//!
//! In: a `$group` (`$bucket` and `$sortByCount` are one too). Out: a [`CountingGroup`], if every field of
//! it counts (`{$sum: 1}`, `$count`) and its key reads one path in ways that are constant over key_runs
//! of the field's values: the value itself, `$dateTrunc` and the parts of a date, comparisons with
//! constants. Whoever holds the field's values in order, by their encoded keys, may then take a key run
//! at once instead of every document. Deliberately absent: where the values are (see `exec`).

use super::accumulator::Accumulator;
use super::group::Group;
use crate::error::Result;
use crate::expression::time::bins::LocalBins;
use crate::expression::time::{Unit, Zone};
use crate::expression::value::Value;
use crate::expression::{ComparisonOperator, Node, TruncatePlan, Variables};
use bson::raw::{CString, RawBson, RawBsonRef, RawDocumentBuf};
use bson::{Bson, DateTime, Timestamp, oid::ObjectId};
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits, encode};
use meridian_value::with_raw;
use std::sync::Arc;

/// A `$group` that counts by one field.
#[derive(Debug, Clone)]
pub struct CountingGroup {
    /// The group.
    pub group: Arc<Group>,
    path: String,
    readings: Vec<FieldReading>,
}

/// A way in which the key reads the field.
#[derive(Debug, Clone)]
enum FieldReading {
    /// The value itself.
    Itself,
    /// `$dateTrunc`.
    Truncated(TruncatePlan),
    /// Parts of a date, which are constant in these bins.
    Parts(LocalBins),
    /// A comparison, which changes just below the values that equal the constant, or just above them.
    Cut { constant: RawBson, below: bool },
}

impl CountingGroup {
    /// The group, if it only counts by one field.
    pub fn new(group: &Arc<Group>) -> Option<Self> {
        if !group.accumulators.iter().all(Accumulator::counts) {
            return None;
        }
        let mut found = KeyFields::default();
        for node in group.key_nodes() {
            found.read(node, ValueUse::Kept)?;
        }
        Some(Self {
            group: group.clone(),
            path: found.path?,
            readings: found.readings,
        })
    }

    /// The dotted path of the field.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The document whose only field is the group's, with this value; without it when it is missing.
    pub fn document(&self, value: Option<&Bson>) -> RawDocumentBuf {
        match value {
            None => RawDocumentBuf::new(),
            Some(value) => with_raw(value, |raw| nested(&self.path, raw)),
        }
    }

    /// Whether documents without the field are in another group than those where it is null.
    ///
    /// # Errors
    /// Those of the key's expressions.
    pub fn tells_missing_from_null(&self, variables: &Variables) -> Result<bool> {
        let key = |document: &RawDocumentBuf| {
            let mut key = Vec::new();
            self.group
                .encode_key(document, variables, &mut key)
                .map(|()| key)
        };
        let (missing, null) = (self.document(None), self.document(Some(&Bson::Null)));
        Ok(key(&missing)? != key(&null)?)
    }

    /// The key runs of the field's values, encoded in a direction.
    pub fn key_runs(&self, direction: Direction) -> KeyRunEnds<'_> {
        let cut = |reading: &FieldReading| match reading {
            FieldReading::Cut { constant, below } => Some(cut(constant, *below, direction)),
            _ => None,
        };
        let mut cuts: Vec<Vec<u8>> = self.readings.iter().filter_map(cut).collect();
        cuts.sort_unstable();
        let is_cut = |reading: &&FieldReading| !matches!(reading, FieldReading::Cut { .. });
        KeyRunEnds {
            others: self.readings.iter().filter(is_cut).collect(),
            cuts,
            direction,
        }
    }
}

/// Where key runs of one key end, among the field's encoded values.
#[derive(Debug)]
pub struct KeyRunEnds<'g> {
    /// Where comparisons change, ascending.
    cuts: Vec<Vec<u8>>,
    others: Vec<&'g FieldReading>,
    direction: Direction,
}

impl KeyRunEnds<'_> {
    /// Appends to `out` bytes that lie behind `field`, which encodes `value`: the values up to there (but
    /// not including them) have the same group's key; null stands for a missing field as well.
    /// Without such bytes nothing is appended: all that lie behind have the same key.
    pub fn end(&self, field: &[u8], value: Option<&Bson>, out: &mut Vec<u8>) {
        let at = out.len();
        let next = self.cuts.partition_point(|cut| cut.as_slice() <= field);
        if let Some(cut) = self.cuts.get(next) {
            out.extend_from_slice(cut);
        }
        for reading in &self.others {
            match self.edge(reading, value) {
                Some(edge) if out.len() == at || edge.as_slice() < &out[at..] => {
                    out.truncate(at);
                    out.extend_from_slice(&edge);
                }
                Some(_) => {}
                None => {
                    // Nothing is nearer than the end of the keys with this very value.
                    out.truncate(at);
                    out.extend_from_slice(field);
                    out.push(ABOVE_ALL);
                    return;
                }
            }
        }
    }

    /// Where dates end that a reading gives the same for; `None` when only this very value is known to.
    fn edge(&self, reading: &FieldReading, value: Option<&Bson>) -> Option<Vec<u8>> {
        let millis = match value? {
            Bson::DateTime(date) => date.timestamp_millis(),
            Bson::Timestamp(stamp) => i64::from(stamp.time) * 1000,
            Bson::ObjectId(id) => id.timestamp().timestamp_millis(),
            _ => return None,
        };
        let begins = self.direction == Direction::Descending;
        let instant = match (reading, begins) {
            (FieldReading::Truncated(plan), false) => plan.end(millis),
            (FieldReading::Truncated(plan), true) => plan.begin(millis),
            (FieldReading::Parts(bins), false) => bins.end(millis),
            (FieldReading::Parts(bins), true) => bins.begin(millis),
            _ => None,
        }?;
        let first = first_at(value?, instant)?;
        let mut edge = encoded(&first, self.direction);
        if begins {
            edge.push(ABOVE_ALL);
        }
        Some(edge)
    }
}

/// The least value of the same type that is not before an instant.
fn first_at(kind: &Bson, millis: i64) -> Option<Bson> {
    let seconds =
        || u32::try_from(millis.div_euclid(1000) + i64::from(millis.rem_euclid(1000) > 0)).ok();
    Some(match kind {
        Bson::DateTime(_) => Bson::DateTime(DateTime::from_millis(millis)),
        Bson::Timestamp(_) => Bson::Timestamp(Timestamp {
            time: seconds()?,
            increment: 0,
        }),
        Bson::ObjectId(_) => {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&seconds()?.to_be_bytes());
            Bson::ObjectId(ObjectId::from_bytes(bytes))
        }
        _ => return None,
    })
}

fn encoded(value: &Bson, direction: Direction) -> Vec<u8> {
    let mut key = Vec::new();
    with_raw(value, |raw| {
        encode(raw, direction, &mut key, &mut TypeBits::new());
    });
    key
}

/// The first bytes behind a cut: below the constant's own values, or above them.
fn cut(constant: &RawBson, below: bool, direction: Direction) -> Vec<u8> {
    let mut key = Vec::new();
    let raw = constant.as_raw_bson_ref();
    encode(raw, direction, &mut key, &mut TypeBits::new());
    if below == (direction == Direction::Descending) {
        key.push(ABOVE_ALL);
    }
    key
}

/// A document with one value at a dotted path.
fn nested(path: &str, value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Ok(name) = CString::try_from(name) {
        match rest {
            "" => document.append(&*name, value),
            rest => document.append(&*name, nested(rest, value)),
        }
    }
    document
}

/// What the parts of a key were found to read.
#[derive(Default)]
struct KeyFields {
    path: Option<String>,
    readings: Vec<FieldReading>,
}

/// What becomes of an expression's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueUse {
    /// It becomes a part of the key, where numbers that are equal are one whatever their type.
    Kept,
    /// An operator works with it.
    Operand,
}

impl KeyFields {
    /// Notes how an expression reads the field; `None` where it cannot be told.
    fn read(&mut self, node: &Node, place: ValueUse) -> Option<()> {
        match node {
            Node::Constant(_) | Node::Now => Some(()),
            Node::Field { path, .. } if place == ValueUse::Kept => {
                self.note(path, FieldReading::Itself)
            }
            Node::Object(fields) => fields
                .iter()
                .try_for_each(|(_, node)| self.read(node, place)),
            Node::IfNull(nodes) => nodes.iter().try_for_each(|node| self.read(node, place)),
            Node::And(nodes) | Node::Or(nodes) => nodes
                .iter()
                .try_for_each(|node| self.read(node, ValueUse::Operand)),
            Node::Condition(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.read(condition, ValueUse::Operand)?;
                self.read(then, place)?;
                self.read(otherwise, place)
            }
            Node::Switch { branches, default } => {
                for (case, then) in branches {
                    self.read(case, ValueUse::Operand)?;
                    self.read(then, place)?;
                }
                default
                    .as_ref()
                    .map_or(Some(()), |node| self.read(node, place))
            }
            Node::Compare {
                comparison,
                operands,
            } => self.read_comparison(*comparison, operands),
            Node::DateTruncate { date, plan } => match &**date {
                Node::Field { path, .. } => self.note(path, FieldReading::Truncated(plan.clone())),
                _ => None,
            },
            Node::Call {
                operator,
                arguments,
            } => match (arguments.first(), part_unit(operator.name)) {
                (Some(Node::Field { path, .. }), Some(unit)) => {
                    let bins = LocalBins::single(unit, known_zone(arguments.get(1))?);
                    self.note(path, FieldReading::Parts(bins))
                }
                _ => arguments
                    .iter()
                    .try_for_each(|node| self.read(node, ValueUse::Operand)),
            },
            Node::Named {
                operator,
                arguments,
            } => match (operator.name, &**arguments) {
                ("$dateToString", [Some(Node::Field { path, .. }), format, timezone, on_null]) => {
                    let is_known = on_null.as_ref().is_none_or(Node::is_known_part);
                    let unit = text_unit(format.as_ref()).filter(|_| is_known)?;
                    let bins = LocalBins::single(unit, known_zone(timezone.as_ref())?);
                    self.note(path, FieldReading::Parts(bins))
                }
                _ => arguments
                    .iter()
                    .flatten()
                    .try_for_each(|node| self.read(node, ValueUse::Operand)),
            },
            // Fields that an operator takes as they are, whole documents, chance, variables.
            _ => None,
        }
    }

    fn read_comparison(
        &mut self,
        comparison: ComparisonOperator,
        operands: &[Node; 2],
    ) -> Option<()> {
        let (path, constant, reversed) = match operands {
            [Node::Field { path, .. }, other] => (path, other.constant()?, false),
            [other, Node::Field { path, .. }] => (path, other.constant()?, true),
            [a, b] => {
                self.read(a, ValueUse::Operand)?;
                return self.read(b, ValueUse::Operand);
            }
        };
        let constant = cutting(&constant)?;
        // Whether the constant itself is on the side of what is above it, below it, or neither.
        let (below, above) = match comparison {
            ComparisonOperator::Less | ComparisonOperator::GreaterOrEqual => (!reversed, reversed),
            ComparisonOperator::LessOrEqual | ComparisonOperator::Greater => (reversed, !reversed),
            ComparisonOperator::Equal
            | ComparisonOperator::NotEqual
            | ComparisonOperator::Order => (true, true),
        };
        for (is_cut, below) in [(below, true), (above, false)] {
            if is_cut {
                let constant = constant.clone();
                self.note(path, FieldReading::Cut { constant, below })?;
            }
        }
        Some(())
    }

    fn note(&mut self, path: &[Box<str>], reading: FieldReading) -> Option<()> {
        let path = path.join(".");
        if self.path.get_or_insert_with(|| path.clone()) != &path {
            return None;
        }
        self.readings.push(reading);
        Some(())
    }
}

/// A constant that divides the values of a field. A missing field compares as undefined and null as
/// itself, but entries have one key for both: nothing that lies between them may be told apart.
fn cutting(constant: &Value<'_>) -> Option<RawBson> {
    let raw = constant.to_raw().ok().flatten()?;
    let is_low = matches!(raw, RawBson::MinKey | RawBson::Undefined | RawBson::Null);
    (!is_low).then_some(raw)
}

/// The zone of an argument that is known and a string, or is not given.
fn known_zone(argument: Option<&Node>) -> Option<Zone> {
    match argument {
        None => Some(Zone::Utc),
        Some(node) => Zone::parse(node.constant()?.as_str()?),
    }
}

/// The unit in which a part of a date is constant.
fn part_unit(operator: &str) -> Option<Unit> {
    Some(match operator {
        "$year" => Unit::Year,
        "$month" => Unit::Month,
        "$dayOfMonth" | "$dayOfWeek" | "$dayOfYear" | "$week" | "$isoWeek" | "$isoWeekYear"
        | "$isoDayOfWeek" => Unit::Day,
        "$hour" => Unit::Hour,
        "$minute" => Unit::Minute,
        "$second" => Unit::Second,
        "$millisecond" => Unit::Millisecond,
        _ => return None,
    })
}

/// The unit in which a date's text is constant.
fn text_unit(format: Option<&Node>) -> Option<Unit> {
    let Some(format) = format else {
        return Some(Unit::Millisecond);
    };
    let format = format.constant()?;
    let mut rest = format.as_str()?.chars();
    let mut finest = Unit::Year;
    while let Some(character) = rest.next() {
        if character != '%' {
            continue;
        }
        let unit = match rest.next()? {
            '%' | 'Y' | 'z' | 'Z' => Unit::Year,
            'm' => Unit::Month,
            'd' | 'j' | 'w' | 'u' | 'U' | 'V' | 'G' => Unit::Day,
            'H' => Unit::Hour,
            'M' => Unit::Minute,
            'S' => Unit::Second,
            'L' => Unit::Millisecond,
            _ => return None,
        };
        if unit.millis() < finest.millis() {
            finest = unit;
        }
    }
    Some(finest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::VariableScope;
    use bson::rawdoc;

    fn path(group: &RawDocumentBuf) -> Option<String> {
        let group = Group::parse(RawBsonRef::Document(group), &VariableScope::default()).unwrap();
        CountingGroup::new(&Arc::new(group)).map(|counting| counting.path().to_owned())
    }

    #[test]
    fn groups_that_count_by_one_field_are_told_from_others() {
        let n = || rawdoc! { "$sum": 1 };
        let counting = [
            rawdoc! { "_id": "$a.b", "n": n(), "m": { "$count": {} }, "k": { "$sum": 2.0 } },
            rawdoc! { "_id": { "day": { "$dateTrunc": { "date": "$a.b", "unit": "day" } } }, "n": n() },
            rawdoc! { "_id": { "y": { "$year": "$a.b" }, "m": { "$month": { "date": "$a.b", "timezone": "Europe/Berlin" } } } },
            rawdoc! { "_id": { "$dateToString": { "date": "$a.b", "format": "%Y-%m" } }, "n": n() },
            rawdoc! { "_id": { "$cond": [{ "$gt": ["$a.b", 5] }, "many", "$a.b"] }, "n": n() },
            rawdoc! { "_id": { "$concat": ["in ", { "$toString": { "$year": "$a.b" } }] }, "n": n() },
        ];
        for group in &counting {
            assert_eq!(path(group).as_deref(), Some("a.b"), "{group:?}");
        }
        let others = [
            rawdoc! { "_id": "$a", "n": { "$sum": "$x" } },
            rawdoc! { "_id": "$a", "n": { "$sum": 0.5 } },
            rawdoc! { "_id": { "a": "$a", "b": "$b" }, "n": n() },
            rawdoc! { "_id": { "$type": "$a" }, "n": n() },
            rawdoc! { "_id": { "$gt": ["$a", null] }, "n": n() },
            rawdoc! { "_id": { "$dateTrunc": { "date": "$a", "unit": "$unit" } }, "n": n() },
            rawdoc! { "_id": { "$rand": {} }, "n": n() },
            rawdoc! { "_id": null, "n": n() },
            rawdoc! { "_id": "$$ROOT", "n": n() },
        ];
        for group in &others {
            assert_eq!(path(group), None, "{group:?}");
        }
    }
}
