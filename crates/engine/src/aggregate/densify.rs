//! `$densify`: documents where there are none, at even steps of a number or a date.
//!
//! In: documents in the order of the field, within their partitions where each has bounds of its own: a `$sort` before
//! this stage sees to that. Out: the same documents, and between them new ones, which have the fields that part
//! documents and the one that is densified.

use super::accumulator::item_bytes;
use super::group_key;
use super::keeping::Kept;
use super::stage::Stage;
use super::stage_options::StageOptions;
use crate::error::{Error, Result};
use crate::expression::time::{self, Unit, Zone};
use crate::expression::value::{Value, corrupt, field_name};
use crate::expression::{
    EvaluationContext, Expression, FieldSet, VariableScope, Variables, named_unit, parse_field_path,
};
use crate::operation;
use crate::operation::memory::Reservation;
use crate::query::Sort;
use crate::query::projection::{FieldAction, FieldTree, Rest};
use crate::sorter::{Limits, Spillable};
use ahash::{AHashMap, AHashSet};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::number::Number;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// MongoDB's `internalQueryMaxAllowedDensifyDocs`.
const GENERATED_MAX: u64 = 500_000;

/// A parsed `$densify`, for documents that come in its order.
#[derive(Debug)]
pub struct Densify {
    field: Box<[Box<str>]>,
    partition: Vec<Box<[Box<str>]>>,
    step: Number,
    unit: Option<Unit>,
    bounds: DensifyBounds,
    /// The new documents: the values that part documents are the first variables, the field's is the last one. None
    /// where one of these fields lies in another one.
    tree: Option<FieldTree>,
}

/// Between which values there are to be documents.
#[derive(Debug, Clone, Copy)]
enum DensifyBounds {
    /// The least and the greatest of all documents.
    Full,
    /// Those of each partition.
    Partition,
    /// From one to before another.
    Between(Place, Place),
}

/// A value of the field.
#[derive(Debug, Clone, Copy)]
enum Place {
    Number(Number),
    /// Milliseconds since 1970.
    Date(i64),
}

impl Place {
    fn of(raw: RawBsonRef<'_>) -> Option<Self> {
        match raw {
            RawBsonRef::DateTime(date) => Some(Self::Date(date.timestamp_millis())),
            raw => Number::from_raw(raw).map(Self::Number),
        }
    }

    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.compare(other),
            (Self::Date(one), Self::Date(other)) => one.cmp(&other),
            (Self::Number(_), Self::Date(_)) => Ordering::Less,
            (Self::Date(_), Self::Number(_)) => Ordering::Greater,
        }
    }

    /// The same in a type that holds sums with a step.
    fn as_wide_as(self, step: Number) -> Self {
        match self {
            Self::Number(number) => {
                let nothing = match step {
                    // With its digits behind the point.
                    Number::Decimal(_) if !step.is_infinite() => step.multiply(Number::Int32(0)),
                    Number::Decimal(_) => Number::Decimal(Number::Int32(0).to_decimal()),
                    Number::Double(_) => Number::Double(0.0),
                    Number::Int64(_) => Number::Int64(0),
                    Number::Int32(_) => Number::Int32(0),
                };
                Self::Number(number.add(nothing))
            }
            date => date,
        }
    }

    fn is_before(self, other: Self) -> bool {
        self.compare(other).is_lt()
    }

    fn to_value(self) -> Value<'static> {
        match self {
            Self::Number(number) => crate::expression::arithmetic::from_number(number),
            Self::Date(millis) => Value::date(millis),
        }
    }
}

/// The stages of a `$densify`.
///
/// # Errors
/// MongoDB's: 40414, 40415 and `TypeMismatch` for its shape, 5733401 to 5733410, 5876900, 5946800, 5946802 and 6586400
/// for its range, and those of field paths.
pub(super) fn parse_densify(
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    let options = StageOptions {
        stage: "$densify",
        names: &[
            ("field", &["string"]),
            ("partitionByFields", &["array"]),
            ("range", &["object"]),
        ],
        required: &["field", "range"],
    };
    let fields = options.parse(raw)?;
    let range = fields[2].and_then(RawBsonRef::as_document);
    let empty = RawDocumentBuf::new();
    let range = DensifyRange::parse(range.unwrap_or(&empty))?;
    let name = fields[0].and_then(RawBsonRef::as_str).unwrap_or_default();
    let mut partition = match fields[1] {
        Some(RawBsonRef::Array(array)) => options.texts("partitionByFields", array)?,
        _ => Vec::new(),
    };
    // Each once.
    let mut seen = AHashSet::new();
    partition.retain(|path| seen.insert(*path));
    let field = parse_field_path(name)?;
    if matches!(range.bounds, DensifyBounds::Partition) && partition.is_empty() {
        return Err(Error::location(
            5_733_408,
            "One cannot specify the bounds as 'partition' without specifying a non-empty array of partitionByFields. \
             You may have meant to specify 'full' bounds.",
        ));
    }
    let mut order = RawDocumentBuf::new();
    if !matches!(range.bounds, DensifyBounds::Full) {
        let others = partition.iter().filter(|path| **path != name);
        for path in others {
            order.append(field_name(path)?, 1);
        }
    }
    order.append(field_name(name)?, 1);
    let paths: Result<Vec<_>> = partition
        .iter()
        .map(|path| parse_field_path(path))
        .collect();
    let partition = paths?;
    let tree = tree_of(&partition, &field);
    out.push(Stage::Sort {
        order: Sort::parse_with(&order, scope)?,
        limit: None,
    });
    out.push(Stage::Densify(Arc::new(Densify {
        field,
        partition,
        step: range.step,
        unit: range.unit,
        bounds: range.bounds,
        tree,
    })));
    Ok(())
}

fn tree_of(partition: &[Box<[Box<str>]>], field: &[Box<str>]) -> Option<FieldTree> {
    let mut tree = FieldTree::default();
    let compute = |slot| FieldAction::Compute(Box::new(Expression::variable(slot)));
    for (slot, path) in partition.iter().enumerate() {
        tree.insert(path, compute(slot)).ok()?;
    }
    tree.insert(field, compute(partition.len())).ok()?;
    Some(tree)
}

/// The `range` of a `$densify`.
struct DensifyRange {
    step: Number,
    unit: Option<Unit>,
    bounds: DensifyBounds,
}

impl DensifyRange {
    fn parse(range: &RawDocument) -> Result<Self> {
        let options = StageOptions {
            stage: "$densify.range",
            names: &[
                ("step", &["int", "decimal", "double", "long"]),
                ("bounds", &[]),
                ("unit", &["string"]),
            ],
            required: &["step", "bounds"],
        };
        let fields = options.parse_document(range)?;
        let unit = match fields[2] {
            Some(RawBsonRef::String(name)) => Some(named_unit(name)?),
            _ => None,
        };
        let raw_step = fields[0].unwrap_or(RawBsonRef::Null);
        let step = Number::from_raw(raw_step).filter(|step| !step.is_zero() && !step.is_nan());
        let Some(step) = step.filter(|step| !step.is_negative()) else {
            return Err(Error::location(
                5_733_401,
                "The step parameter in a range statement must be a strictly positive numeric value",
            ));
        };
        if unit.is_some() && step.to_i64_exact().is_none() {
            return Err(Error::location(
                6_586_400,
                "The step parameter in a range statement must be a whole number when densifying a date range",
            ));
        }
        let bounds = match fields[1].unwrap_or(RawBsonRef::Null) {
            RawBsonRef::String("full") => DensifyBounds::Full,
            RawBsonRef::String("partition") => DensifyBounds::Partition,
            RawBsonRef::String(_) => {
                return Err(Error::location(
                    5_946_802,
                    "Bounds string must either be 'full' or 'partition'",
                ));
            }
            RawBsonRef::Array(array) => {
                let items: std::result::Result<Vec<_>, _> = array.into_iter().take(3).collect();
                between(&items.map_err(corrupt)?, raw_step, unit)?
            }
            _ => {
                return Err(Error::location(
                    5_733_404,
                    "The bounds in a range statement must be the string 'full', 'partition', or an ascending array of \
                     two numbers or two dates",
                ));
            }
        };
        Ok(Self { step, unit, bounds })
    }
}

fn between(
    items: &[RawBsonRef<'_>],
    step: RawBsonRef<'_>,
    unit: Option<Unit>,
) -> Result<DensifyBounds> {
    let fail = |code, message: &str| Err(Error::location(code, message));
    let [lower, upper] = items else {
        return fail(
            5_733_403,
            "A bounding array in a range statement must have exactly two elements",
        );
    };
    if meridian_value::Collation::SIMPLE
        .compare(*lower, *upper)
        .is_gt()
    {
        return fail(
            5_733_402,
            "A bounding array must be an ascending array of either two dates or two numbers",
        );
    }
    let (Some(low), Some(high)) = (Place::of(*lower), Place::of(*upper)) else {
        return fail(5_946_800, "Explicit bounds must be numeric or dates");
    };
    match (low, high, unit) {
        (Place::Number(_), Place::Number(_), Some(_)) => {
            return fail(5_733_409, "Numeric bounds may not have unit parameter");
        }
        (Place::Date(_), Place::Date(_), None) => {
            return fail(5_733_410, "A bounding array of dates must specify a unit");
        }
        (Place::Number(_), Place::Number(_), None) => {
            let types = [*lower, *upper].map(|bound| bound.element_type());
            if types != [step.element_type(); 2] {
                return fail(
                    5_876_900,
                    "Upper bound, lower bound, and step must all have the same type",
                );
            }
        }
        (Place::Date(_), Place::Date(_), Some(_)) => {}
        _ => {
            return fail(
                5_733_406,
                "A bounding array must contain either both dates or both numeric types",
            );
        }
    }
    Ok(DensifyBounds::Between(low, high))
}

impl Densify {
    /// The fields that are read.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        for path in self.partition.iter().chain([&self.field]) {
            set.add(path.join("."));
        }
        set
    }

    /// Whether there is to be a document at one value.
    fn has_equal_bounds(&self) -> bool {
        matches!(self.bounds, DensifyBounds::Between(lower, upper) if lower.compare(upper).is_eq())
    }

    /// The bytes by which a document's partition is told from others.
    fn partition_key(&self, document: &RawDocument, variables: &Variables) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        for path in &self.partition {
            let value = below(document, path).map_or(Value::Missing, Value::Raw);
            group_key::encode(&value, variables.collation(), &mut key)?;
        }
        Ok(key)
    }

    /// The field's value in a document; none where it is null or missing.
    fn place(&self, document: &RawDocument) -> Result<Option<Place>> {
        let raw = match below(document, &self.field) {
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(None),
            Some(raw) => raw,
        };
        let place = Place::of(raw).ok_or_else(|| {
            Error::location(5_733_201, "Densify field type must be numeric or a date")
        })?;
        let kinds = match (place, self.unit) {
            (Place::Date(_), None) => "date densify value in collection when step does not have",
            (Place::Number(_), Some(_)) => "numeric densify value in collection when step has",
            _ => return Ok(Some(place)),
        };
        Err(Error::location(
            6_053_600,
            format!("Encountered {kinds} a date unit."),
        ))
    }

    /// The next step behind a value.
    fn after(&self, place: Place) -> Place {
        match (place, self.unit) {
            (Place::Number(number), _) => {
                let next = number.add(self.step);
                // A step that is lost in rounding leads nowhere.
                let is_lost = next.compare(number).is_le();
                Place::Number(if is_lost {
                    Number::Double(f64::INFINITY)
                } else {
                    next
                })
            }
            (Place::Date(millis), unit) => {
                let amount = self.step.to_i64_truncated().unwrap_or(i64::MAX);
                let unit = unit.unwrap_or(Unit::Millisecond);
                let moved = time::add(millis, unit, amount, &Zone::Utc);
                // Behind all dates there is nothing to come.
                Place::Date(moved.unwrap_or(i64::MAX))
            }
        }
    }
}

/// What lies at a path through documents.
fn below<'a>(document: &'a RawDocument, path: &[Box<str>]) -> Option<RawBsonRef<'a>> {
    let (name, rest) = path.split_first()?;
    let value = document.get(&**name).ok()??;
    match value {
        _ if rest.is_empty() => Some(value),
        RawBsonRef::Document(inner) => below(inner, rest),
        _ => None,
    }
}

/// A `$densify` at work.
pub struct Densified {
    stage: Arc<Densify>,
    places: AHashMap<Box<[u8]>, usize>,
    /// In the order in which they were met.
    partitions: Vec<DensifiedPartition>,
    /// The one of the last document.
    current: Option<usize>,
    /// The least and the greatest value so far.
    extent: Option<(Place, Place)>,
    generated: u64,
    /// What was pushed and has not come out.
    waiting: VecDeque<Kept>,
    waiting_bytes: usize,
    /// The document before which others are made.
    at_hand: Option<(Kept, DensifyGap)>,
    bytes: usize,
    memory: Reservation,
    memory_bytes: usize,
}

struct DensifiedPartition {
    values: Vec<Option<RawBson>>,
    /// The next step, where a document is to be made unless there is one.
    next: Place,
    /// Whether a document was met that does not lie below the upper bound.
    is_beyond: bool,
}

/// What is made before a document.
#[derive(Clone, Copy)]
struct DensifyGap {
    partition: usize,
    end: Place,
    /// Whether the end is part of it.
    inclusive: bool,
    /// Where the document lies.
    place: Place,
}

impl Densified {
    /// No document yet.
    pub fn new(stage: Arc<Densify>, limits: &Limits) -> Self {
        Self {
            stage,
            places: AHashMap::new(),
            partitions: Vec::new(),
            current: None,
            extent: None,
            generated: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            at_hand: None,
            bytes: 0,
            memory: Reservation::none(),
            memory_bytes: limits.memory_bytes,
        }
    }

    /// Takes one more document.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` where too many wait.
    pub fn push(&mut self, document: Kept) -> Result<()> {
        self.waiting_bytes += document.size_bytes();
        self.waiting.push_back(document);
        self.memory.grow(self.bytes + self.waiting_bytes)
    }

    /// Whether there is more to come of the documents that were pushed.
    pub fn is_pending(&self) -> bool {
        self.at_hand.is_some() || !self.waiting.is_empty()
    }

    /// The next document: one that is made before the first that waits, or that one itself. One at a time, since a gap
    /// may have many.
    ///
    /// # Errors
    /// 5733201 and 6053600 for values of the field that are not of its kind, 5733306, and 5897900 past
    /// [`GENERATED_MAX`].
    pub fn next(&mut self, variables: &Variables) -> Result<Option<Kept>> {
        let (found, gap) = match self.at_hand.take() {
            Some(at_hand) => at_hand,
            None => {
                let Some(found) = self.waiting.pop_front() else {
                    return Ok(None);
                };
                self.waiting_bytes -= found.size_bytes();
                match self.gap_before(&found.document, variables)? {
                    Some(gap) => (found, gap),
                    None => return Ok(Some(found)),
                }
            }
        };
        let document = Some(&*found.document);
        if let Some(made) = self.make(gap.partition, gap.end, gap.inclusive, document, variables)? {
            self.at_hand = Some((found, gap));
            return Ok(Some(Kept::from(made)));
        }
        // A document on a step is that step, and gives the ones behind it its type.
        let partition = &mut self.partitions[gap.partition];
        if partition.next.compare(gap.place).is_eq() {
            partition.next = self.stage.after(gap.place);
        }
        Ok(Some(found))
    }

    /// What is to be made before a document; none where nothing is.
    fn gap_before(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<DensifyGap>> {
        let stage = self.stage.clone();
        let key = stage.partition_key(document, variables)?;
        let known = self.places.get(&key[..]).copied();
        if known.is_some_and(|known| self.partitions[known].is_beyond) {
            return Ok(None);
        }
        let Some(place) = stage.place(document)? else {
            return Ok(None);
        };
        self.extent = match self.extent {
            None => Some((place, place)),
            Some((least, greatest)) if greatest.is_before(place) => Some((least, place)),
            known => known,
        };
        let partition = match known {
            Some(known) => known,
            None => self.begin_partition(key, document, place)?,
        };
        self.current = Some(partition);
        let end = match stage.bounds {
            DensifyBounds::Between(lower, _) if place.is_before(lower) => return Ok(None),
            DensifyBounds::Between(_, upper) if !place.is_before(upper) => {
                // As in MongoDB, what comes behind the bounds may be anything.
                self.partitions[partition].is_beyond = stage.partition.is_empty();
                upper
            }
            _ => place,
        };
        Ok(Some(DensifyGap {
            partition,
            end,
            inclusive: stage.has_equal_bounds() && end.is_before(place),
            place,
        }))
    }

    /// Says that there are no more documents; those that are still to come.
    pub fn into_documents(
        mut self,
        variables: Variables,
    ) -> impl Iterator<Item = Result<Kept>> + Send {
        let mut ends = None;
        std::iter::from_fn(move || {
            if self.is_pending() {
                return self.next(&variables).transpose();
            }
            let left = ends.get_or_insert_with(|| self.ends());
            while let Some((partition, end, inclusive)) = left.last().copied() {
                match self.make(partition, end, inclusive, None, &variables) {
                    Ok(None) => {
                        left.pop();
                    }
                    made => return made.map(|made| made.map(Kept::from)).transpose(),
                }
            }
            None
        })
    }

    /// The partitions that are not complete, the last one first, with their ends and whether these are part of them.
    fn ends(&mut self) -> Vec<(usize, Place, bool)> {
        let (end, inclusive) = match (self.stage.bounds, self.extent) {
            (DensifyBounds::Between(lower, upper), _) => {
                if self.partitions.is_empty() {
                    self.partitions.push(DensifiedPartition {
                        values: vec![None; self.stage.partition.len()],
                        next: lower,
                        is_beyond: false,
                    });
                }
                (upper, self.stage.has_equal_bounds())
            }
            (DensifyBounds::Full, Some((_, greatest))) => (greatest, true),
            _ => return Vec::new(),
        };
        let last = self.current;
        let others = (0..self.partitions.len())
            .rev()
            .filter(|place| Some(*place) != last);
        let mut ends: Vec<_> = others.map(|place| (place, end, inclusive)).collect();
        ends.extend(last.map(|place| (place, end, inclusive)));
        ends
    }

    /// The place of a new partition, that of a document.
    fn begin_partition(
        &mut self,
        key: Vec<u8>,
        document: &RawDocument,
        place: Place,
    ) -> Result<usize> {
        let stage = &self.stage;
        let next = match (stage.bounds, self.extent) {
            (DensifyBounds::Between(lower, _), _) => lower.as_wide_as(stage.step),
            (DensifyBounds::Full, Some((least, _))) => least.as_wide_as(stage.step),
            _ => place,
        };
        let number = self.partitions.len();
        let values = stage.partition.iter().map(|path| below(document, path));
        let values: Vec<Option<RawBson>> = values.map(|value| value.map(RawBson::from)).collect();
        let held = values.iter().flatten().map(item_bytes);
        self.bytes += 2 * key.len() + held.sum::<usize>() + 128;
        if self.bytes > self.memory_bytes {
            return Err(Error::location(
                6_007_200,
                format!(
                    "$densify exceeded memory limit of {} bytes: its partitions take {} bytes",
                    self.memory_bytes, self.bytes
                ),
            ));
        }
        self.memory.grow(self.bytes + self.waiting_bytes)?;
        self.places.insert(key.into(), number);
        self.partitions.push(DensifiedPartition {
            values,
            next,
            is_beyond: false,
        });
        Ok(number)
    }

    /// The document of a partition's next step, if that lies before `end`. Of values that are equal it has those of
    /// `found`, the document that it is made before, if there is one.
    fn make(
        &mut self,
        partition: usize,
        end: Place,
        inclusive: bool,
        found: Option<&RawDocument>,
        variables: &Variables,
    ) -> Result<Option<RawDocumentBuf>> {
        let DensifiedPartition { values, next, .. } = &self.partitions[partition];
        let place = *next;
        let order = place.compare(end);
        if order.is_gt() || (order.is_eq() && !inclusive) {
            return Ok(None);
        }
        operation::check()?;
        self.generated += 1;
        if self.generated > GENERATED_MAX {
            return Err(Error::location(
                5_897_900,
                format!(
                    "Generated {} documents in $densify, which is over the limit of {GENERATED_MAX}. Increase the \
                     'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents",
                    self.generated
                ),
            ));
        }
        let tree = self.stage.tree.as_ref().ok_or_else(|| {
            Error::location(
                5_733_306,
                "DocGenerator cannot include field that is being densified",
            )
        })?;
        let empty = RawDocumentBuf::new();
        let mut context = EvaluationContext::new(&empty, variables);
        for (slot, value) in values.iter().enumerate() {
            let value = match found {
                Some(found) => below(found, &self.stage.partition[slot]),
                None => value.as_ref().map(RawBson::as_raw_bson_ref),
            };
            context.set(slot, value.map_or(Value::Missing, Value::Raw))?;
        }
        context.set(values.len(), place.to_value())?;
        let made = tree.apply_in(Rest::Keep, &mut context)?;
        drop(context);
        let next = self.stage.after(place);
        self.partitions[partition].next = next;
        Ok(Some(made))
    }
}
