//! `$bucket`, which becomes a `$group` and a `$sort`, and `$bucketAuto`.

use super::accumulator::{Accumulator, AccumulatorState};
use super::group::Group;
use super::keeping::Kept;
use super::preferred_numbers::PreferredNumbers;
use super::stage::Stage;
use crate::error::{Error, Result};
use crate::expression::FieldSet;
use crate::expression::value::{corrupt, field_name, within_levels};
use crate::expression::{EvaluationContext, Expression, Value, VariableScope, Variables, display};
use crate::query::Sort;
use crate::sorter::{InOrder, Limits, Spillable, TopSorter, sort_too_large};
use crate::text;
use crate::types::type_name;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits};
use meridian_value::number::Number;
use std::cmp::Ordering;
use std::sync::Arc;

/// Parses `$bucket` into the `$group` and the `$sort` that it stands for.
///
/// # Errors
/// 40190 to 40202, and those of expressions and accumulators.
pub(super) fn parse_bucket(
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            40201,
            format!(
                "Argument to $bucket stage must be an object, but found type: {}.",
                type_name(raw.element_type())
            ),
        ));
    };
    let (mut group_by, mut boundaries, mut default, mut output) = (None, None, None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match (key.as_str(), raw) {
            ("groupBy", raw) if is_operation(raw) => group_by = Some(raw),
            ("groupBy", raw) => {
                return Err(Error::location(
                    40202,
                    format!(
                        "The $bucket 'groupBy' field must be defined as a $-prefixed path or an \
                         expression, but found: {}.",
                        text::text(raw)
                    ),
                ));
            }
            ("boundaries", raw) => boundaries = Some(parse_boundaries(raw, scope)?),
            ("default", raw) => default = Some(parse_default(raw, scope)?),
            ("output", RawBsonRef::Document(fields)) => output = Some(fields),
            ("output", raw) => {
                return Err(Error::location(
                    40196,
                    format!(
                        "The $bucket 'output' field must be an object, but found type: {}.",
                        type_name(raw.element_type())
                    ),
                ));
            }
            (other, _) => {
                return Err(Error::location(
                    40197,
                    format!("Unrecognized option to $bucket: {other}."),
                ));
            }
        }
    }
    let (Some(group_by), Some(boundaries)) = (group_by, boundaries) else {
        return Err(Error::location(
            40198,
            "$bucket requires 'groupBy' and 'boundaries' to be specified.",
        ));
    };
    check_default(&boundaries, default.as_ref(), scope.collation())?;
    let switch = bucket_switch(group_by, &boundaries, default.as_ref());
    push_group_and_sort(switch, output, scope, out)
}

fn push_group_and_sort(
    switch: RawDocumentBuf,
    output: Option<&RawDocument>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    let mut group = RawDocumentBuf::new();
    group.append(bson::raw::cstr!("_id"), switch);
    match output {
        None => group.append(bson::raw::cstr!("count"), rawdoc! { "$sum": 1 }),
        Some(fields) => {
            for entry in fields.iter() {
                let (key, raw) = entry.map_err(corrupt)?;
                group.append(key, raw);
            }
        }
    }
    out.push(Stage::Group(Arc::new(Group::parse(
        RawBsonRef::Document(&group),
        scope,
    )?)));
    out.push(Stage::Sort {
        order: Sort::parse_with(&rawdoc! { "_id": 1 }, scope)?,
        limit: None,
    });
    Ok(())
}

fn is_expression(raw: RawBsonRef<'_>) -> bool {
    match raw {
        RawBsonRef::String(path) => path.starts_with('$'),
        RawBsonRef::Document(_) => true,
        _ => false,
    }
}

/// As a `$bucketAuto` has it, which takes no document of expressions.
fn is_operation(raw: RawBsonRef<'_>) -> bool {
    match raw {
        RawBsonRef::Document(document) => {
            let first = document.iter().flatten().next();
            first.is_some_and(|(name, _)| name.as_str().starts_with('$'))
        }
        other => is_expression(other),
    }
}

fn constant(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Option<RawBson>> {
    let expression = Expression::parse(raw, scope)?;
    match expression.constant() {
        Some(value) => value.to_raw(),
        None => Ok(None),
    }
}

fn parse_boundaries(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Vec<RawBson>> {
    let RawBsonRef::Array(array) = raw else {
        return Err(Error::location(
            40200,
            format!(
                "The $bucket 'boundaries' field must be an array, but found type: {}.",
                type_name(raw.element_type())
            ),
        ));
    };
    let mut boundaries: Vec<RawBson> = Vec::new();
    for item in array {
        let item = item.map_err(corrupt)?;
        let boundary = constant(item, scope)?.ok_or_else(|| {
            Error::location(
                40191,
                format!(
                    "The $bucket 'boundaries' field must be an array of constant values, but found \
                     value: {}.",
                    text::text(item)
                ),
            )
        })?;
        boundaries.push(boundary);
    }
    if boundaries.len() < 2 {
        return Err(Error::location(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                boundaries.len()
            ),
        ));
    }
    for (index, pair) in boundaries.windows(2).enumerate() {
        let (lower, upper) = (pair[0].as_raw_bson_ref(), pair[1].as_raw_bson_ref());
        if meridian_value::canonical_type(lower) != meridian_value::canonical_type(upper) {
            return Err(Error::location(
                40193,
                format!(
                    "All values in the the 'boundaries' option to $bucket must have the same type. \
                     Found conflicting types {} and {}.",
                    type_name(lower.element_type()),
                    type_name(upper.element_type())
                ),
            ));
        }
        if scope.collation().compare(lower, upper).is_ge() {
            return Err(Error::location(
                40194,
                format!(
                    "The 'boundaries' option to $bucket must be sorted, but elements {index} and {} \
                     are not in ascending order ({} is not less than {}).",
                    index + 1,
                    display(&Value::Raw(lower)),
                    display(&Value::Raw(upper))
                ),
            ));
        }
    }
    Ok(boundaries)
}

fn parse_default(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<RawBson> {
    constant(raw, scope)?.ok_or_else(|| {
        Error::location(
            40195,
            format!(
                "The $bucket 'default' field must be a constant expression, but found: {}.",
                text::text(raw)
            ),
        )
    })
}

fn check_default(
    boundaries: &[RawBson],
    default: Option<&RawBson>,
    collation: &Collation,
) -> Result<()> {
    let (Some(default), [lowest, .., highest]) = (default, boundaries) else {
        return Ok(());
    };
    let default = default.as_raw_bson_ref();
    let (lowest, highest) = (lowest.as_raw_bson_ref(), highest.as_raw_bson_ref());
    let same_type =
        meridian_value::canonical_type(default) == meridian_value::canonical_type(lowest);
    let inside =
        collation.compare(default, lowest).is_ge() && collation.compare(default, highest).is_lt();
    if same_type && inside {
        return Err(Error::location(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or \
             equal to the highest boundary.",
        ));
    }
    Ok(())
}

/// The `$switch` that gives a value the lower boundary of its bucket.
fn bucket_switch(
    group_by: RawBsonRef<'_>,
    boundaries: &[RawBson],
    default: Option<&RawBson>,
) -> RawDocumentBuf {
    let literal = |value: &RawBson| {
        let mut literal = RawDocumentBuf::new();
        literal.append(bson::raw::cstr!("$const"), value.as_raw_bson_ref());
        literal
    };
    let comparison = |operator: &'static str, boundary: &RawBson| {
        let mut operands = RawArrayBuf::new();
        operands.push(group_by);
        operands.push(literal(boundary));
        let mut comparison = RawDocumentBuf::new();
        if let Ok(operator) = field_name(operator) {
            comparison.append(operator, operands);
        }
        comparison
    };
    let mut branches = RawArrayBuf::new();
    for pair in boundaries.windows(2) {
        let mut both = RawArrayBuf::new();
        both.push(comparison("$gte", &pair[0]));
        both.push(comparison("$lt", &pair[1]));
        branches.push(rawdoc! { "case": { "$and": both }, "then": literal(&pair[0]) });
    }
    let mut switch = RawDocumentBuf::new();
    switch.append(bson::raw::cstr!("branches"), branches);
    if let Some(default) = default {
        switch.append(bson::raw::cstr!("default"), literal(default));
    }
    rawdoc! { "$switch": switch }
}

/// A parsed `$bucketAuto`.
#[derive(Debug, Clone)]
pub struct BucketAuto {
    group_by: Expression,
    buckets: usize,
    granularity: Option<PreferredNumbers>,
    accumulators: Vec<Accumulator>,
}

impl BucketAuto {
    /// Parses the operand of `$bucketAuto`.
    ///
    /// # Errors
    /// 40239 to 40246, 40257, 40261, and those of expressions and accumulators.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            let found = type_name(raw.element_type());
            let message =
                format!("The argument to $bucketAuto must be an object, but found type: {found}");
            return Err(Error::location(40240, message));
        };
        let (mut group_by, mut buckets, mut accumulators) = (None, None, None);
        let mut granularity = None;
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match (key.as_str(), raw) {
                ("groupBy", raw) if is_operation(raw) => {
                    group_by = Some(Expression::parse(raw, scope)?);
                }
                ("groupBy", raw) => {
                    return Err(Error::location(
                        40239,
                        format!(
                            "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or \
                             an expression object, but found: {}",
                            text::text(raw)
                        ),
                    ));
                }
                ("buckets", raw) => buckets = Some(parse_bucket_count(raw)?),
                ("output", RawBsonRef::Document(fields)) => {
                    accumulators = Some(parse_output(fields, scope)?);
                }
                ("output", raw) => {
                    return Err(Error::location(
                        40244,
                        format!(
                            "The $bucketAuto 'output' field must be an object, but found type: {}",
                            type_name(raw.element_type())
                        ),
                    ));
                }
                ("granularity", raw) => granularity = Some(PreferredNumbers::parse(raw)?),
                (other, _) => {
                    return Err(Error::location(
                        40245,
                        format!("Unrecognized option to $bucketAuto: {other}"),
                    ));
                }
            }
        }
        let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
            return Err(Error::location(
                40246,
                "$bucketAuto requires 'groupBy' and 'buckets' to be specified",
            ));
        };
        let accumulators = match accumulators {
            Some(accumulators) if !accumulators.is_empty() => accumulators,
            _ => parse_output(&rawdoc! { "count": { "$sum": 1 } }, scope)?,
        };
        if accumulators.iter().any(Accumulator::reads_key) {
            let message = "Can't refer to the group key in $bucketAuto";
            return Err(Error::location(4_544_714, message));
        }
        Ok(Self {
            group_by,
            buckets,
            granularity,
            accumulators,
        })
    }

    /// The fields read.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = self.group_by.dependencies();
        for accumulator in &self.accumulators {
            accumulator.add_dependencies(&mut set);
        }
        set
    }
}

fn parse_bucket_count(raw: RawBsonRef<'_>) -> Result<usize> {
    let Some(number) = meridian_value::number::Number::from_raw(raw) else {
        return Err(Error::location(
            40241,
            format!(
                "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}",
                type_name(raw.element_type())
            ),
        ));
    };
    let whole = number
        .to_i64_exact()
        .and_then(|whole| i32::try_from(whole).ok());
    let Some(whole) = whole else {
        return Err(Error::location(
            40242,
            format!(
                "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but \
                 found {}",
                display(&Value::Raw(raw))
            ),
        ));
    };
    if whole <= 0 {
        return Err(Error::location(
            40243,
            format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {whole}"),
        ));
    }
    Ok(whole.unsigned_abs() as usize)
}

fn parse_output(fields: &RawDocument, scope: &VariableScope) -> Result<Vec<Accumulator>> {
    fields
        .iter()
        .map(|entry| {
            let (key, raw) = entry.map_err(corrupt)?;
            Accumulator::parse(key.as_str(), raw, scope)
        })
        .collect()
}

/// The documents a `$bucketAuto` has gathered.
pub struct Bucketed {
    stage: BucketAuto,
    sorter: TopSorter<KeptWithKey>,
    total: u64,
}

/// The buckets of a `$bucketAuto`, made one by one.
pub struct AutoBuckets {
    stage: BucketAuto,
    variables: Variables,
    sorted: InOrder<KeptWithKey>,
    /// The first document of the next bucket.
    next: Option<KeptWithKey>,
    /// Documents of a bucket, but for equal keys.
    even: u64,
    made: usize,
    /// The boundary behind the last one.
    max: Option<RawBson>,
}

/// A document, and the value by which it is grouped.
struct KeptWithKey {
    key: RawBson,
    key_bytes: usize,
    document: Kept,
}

impl Bucketed {
    /// Nothing gathered yet.
    pub fn new(stage: BucketAuto, limits: &Limits) -> Self {
        Self {
            stage,
            sorter: TopSorter::new(None, limits, sort_too_large),
            total: 0,
        }
    }

    /// Takes one more document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory and cannot be spilled, and those of expressions.
    pub(super) fn push(&mut self, document: Kept, variables: &Variables) -> Result<()> {
        let group_by = &self.stage.group_by;
        let value = group_by.evaluate_value(&document.document, variables)?;
        let key = value.to_raw()?.unwrap_or(RawBson::Null);
        let key_bytes = value.size_bytes();
        drop(value);
        if let Some(granularity) = &self.stage.granularity {
            granularity.check(key.as_raw_bson_ref())?;
        }
        self.total += 1;
        let (mut encoded, mut types) = (Vec::new(), TypeBits::new());
        variables.collation().encode(
            key.as_raw_bson_ref(),
            Direction::Ascending,
            &mut encoded,
            &mut types,
        );
        self.sorter.push(encoded, || KeptWithKey {
            key,
            key_bytes,
            document,
        })
    }

    /// The buckets as documents: as even as equal keys allow.
    ///
    /// # Errors
    /// Storage failures; the iterator gives those of the accumulators' expressions.
    pub fn finish(self, variables: &Variables) -> Result<AutoBuckets> {
        let even = (self.total as f64 / self.stage.buckets as f64).round() as u64;
        let mut sorted = self.sorter.finish()?;
        Ok(AutoBuckets {
            stage: self.stage,
            variables: variables.clone(),
            next: sorted.next().transpose()?,
            sorted,
            even: even.max(1),
            made: 0,
            max: None,
        })
    }
}

/// On disk: `{"": key}`, document.
impl Spillable for KeptWithKey {
    fn size_bytes(&self) -> usize {
        self.key_bytes + self.document.size_bytes()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut key = RawDocumentBuf::new();
        key.append(bson::raw::cstr!(""), self.key.as_raw_bson_ref());
        bytes.extend_from_slice(key.as_bytes());
        self.document.encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let too_short = || corrupt("a spilled document is too short");
        let length = bytes.first_chunk().ok_or_else(too_short)?;
        let key_bytes = u32::from_le_bytes(*length) as usize;
        let (key, document) = bytes.split_at_checked(key_bytes).ok_or_else(too_short)?;
        let key = RawDocument::from_bytes(key).map_err(corrupt)?;
        let key = key.get("").map_err(corrupt)?.ok_or_else(too_short)?;
        Ok(Self {
            key: key.into(),
            key_bytes,
            document: Kept::decode(document)?,
        })
    }
}

impl AutoBuckets {
    fn next_bucket(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(first) = self.next.take() else {
            return Ok(None);
        };
        self.made += 1;
        let is_last = self.made == self.stage.buckets;
        let mut states = self.begin()?;
        self.add(&mut states, &first.document)?;
        let min = first.key;
        let (mut count, mut max) = (1, min.clone());
        // With a granularity: what is less than this belongs to the bucket too.
        let mut boundary = None;
        while let Some(next) = self.sorted.next().transpose()? {
            if count >= self.even && !is_last {
                let is_beyond = match &self.stage.granularity {
                    None => self.order(&next.key, &max).is_ne(),
                    Some(granularity) => {
                        let boundary = match &mut boundary {
                            Some(boundary) => boundary,
                            none => none.insert(granularity.above(&max)?),
                        };
                        self.order(&next.key, boundary).is_ge()
                    }
                };
                if is_beyond {
                    self.next = Some(next);
                    break;
                }
            }
            self.add(&mut states, &next.document)?;
            (count, max) = (count + 1, next.key);
        }
        let (min, max) = self.bounds(min, max, boundary)?;
        let mut id = RawDocumentBuf::new();
        id.append(bson::raw::cstr!("min"), min);
        id.append(bson::raw::cstr!("max"), max);
        let mut bucket = RawDocumentBuf::new();
        bucket.append(bson::raw::cstr!("_id"), id);
        for (state, accumulator) in states.into_iter().zip(&self.stage.accumulators) {
            bucket.append(
                field_name(&accumulator.field)?,
                state.finish_group(accumulator)?,
            );
        }
        within_levels(bucket).map(Some)
    }

    /// The bounds of a bucket whose least and greatest keys these are. Buckets end where the next begins.
    fn bounds(
        &mut self,
        min: RawBson,
        max: RawBson,
        boundary: Option<RawBson>,
    ) -> Result<(RawBson, RawBson)> {
        let next = self.next.as_ref().map(|next| &next.key);
        let Some(granularity) = &self.stage.granularity else {
            let end = next.cloned();
            return Ok((min, end.unwrap_or(max)));
        };
        let boundary = match boundary {
            Some(boundary) => boundary,
            None => granularity.above(&max)?,
        };
        let is_zero = Number::from_raw(boundary.as_raw_bson_ref()).is_some_and(Number::is_zero);
        // Nothing of a series is 0, and nothing rounds up from it.
        let end = match next {
            Some(next) if is_zero => granularity.below(next)?,
            _ => boundary,
        };
        let begin = match self.max.take() {
            Some(max) => max,
            None => granularity.below(&min)?,
        };
        self.max = Some(end.clone());
        Ok((begin, end))
    }

    fn order(&self, one: &RawBson, other: &RawBson) -> Ordering {
        let (one, other) = (one.as_raw_bson_ref(), other.as_raw_bson_ref());
        self.variables.collation().compare(one, other)
    }

    fn begin(&self) -> Result<Vec<AccumulatorState>> {
        let mut states = Vec::with_capacity(self.stage.accumulators.len());
        for accumulator in &self.stage.accumulators {
            states.push(accumulator.begin_group(&RawBson::Null, &self.variables)?);
        }
        Ok(states)
    }

    fn add(&self, states: &mut [AccumulatorState], kept: &Kept) -> Result<()> {
        let metadata = kept.metadata.clone();
        let known = metadata.map(|metadata| self.variables.knowing(Some(metadata)));
        let variables = known.as_ref().unwrap_or(&self.variables);
        add_to_states(states, &self.stage.accumulators, &kept.document, variables)
    }
}

impl Iterator for AutoBuckets {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_bucket().transpose()
    }
}

fn add_to_states(
    states: &mut [AccumulatorState],
    accumulators: &[Accumulator],
    document: &RawDocument,
    variables: &Variables,
) -> Result<()> {
    let mut context = EvaluationContext::new(document, variables);
    for (state, accumulator) in states.iter_mut().zip(accumulators) {
        let value = accumulator.argument.evaluate(&mut context)?;
        state.add(accumulator, &value, document)?;
    }
    Ok(())
}
