//! `$group` behind buckets of a time series: what measurements of one bucket share is worked out once, and where
//! accumulators take plain fields they are given the columns of a bucket, without a document for each measurement, or what
//! the bucket says of all of them.

use super::accumulator::{Accumulator, AccumulatorKind, AccumulatorState};
use super::group::{Group, Groups};
use crate::error::Result;
use crate::expression::value::Value;
use crate::expression::{EvaluationContext, Node, TruncatePlan, Variables, prefetch};
use crate::operation;
use crate::timeseries::{BucketColumns, BucketSummary, MeasuredValues, TimeRange, UnpackBucket};
use bson::{RawBsonRef, RawDocument};
use meridian_value::field;
use meridian_value::number::{Number, compare_doubles};
use std::sync::Arc;

/// The key of measurements: of one bucket, it changes with the time alone.
pub(super) struct BucketKeys {
    time_field: Box<str>,
    truncations: Vec<TruncatePlan>,
    /// How measurements are taken column by column, where they can be.
    columns: Option<ColumnArguments>,
}

impl BucketKeys {
    /// Of a group behind the stage; none where a key reads more than metadata and the truncated time.
    fn new(group: &Group, unpack: &UnpackBucket) -> Option<Self> {
        let mut truncations = Vec::new();
        for node in group.key_nodes() {
            add_truncations(node, unpack, &mut truncations)?;
        }
        Some(Self {
            time_field: unpack.time_field.as_str().into(),
            truncations,
            columns: ColumnArguments::new(&group.accumulators, unpack),
        })
    }

    /// The times around one for which the key is the same; none where that is not known.
    fn run_around(&self, millis: i64) -> Option<TimeRange> {
        self.truncations
            .iter()
            .try_fold(TimeRange::ALL, |range, plan| {
                let (from, until) = (plan.begin(millis)?, plan.end(millis)? - 1);
                Some(range.and(TimeRange { from, until }))
            })
    }

    /// The time of a measurement.
    fn time_of(&self, document: &RawDocument) -> Option<i64> {
        let time = field::find(document, self.time_field.as_bytes())?.value()?;
        time.as_datetime().map(|time| time.timestamp_millis())
    }
}

/// Notes how an expression truncates the time; none where it reads anything but that and metadata.
fn add_truncations(node: &Node, unpack: &UnpackBucket, out: &mut Vec<TruncatePlan>) -> Option<()> {
    match node {
        Node::Constant(_) => Some(()),
        Node::Field { path, .. } => unpack.is_metadata(&path[0]).then_some(()),
        Node::Object(fields) => fields
            .iter()
            .try_for_each(|(_, node)| add_truncations(node, unpack, out)),
        Node::DateTruncate { date, plan } => match &**date {
            Node::Field { path, .. } if path.len() == 1 && *path[0] == *unpack.time_field => {
                out.push(plan.clone());
                Some(())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Which arguments of accumulators are columns.
struct ColumnArguments {
    columns: Vec<ColumnTakers>,
    /// The accumulators that take the time.
    times: Vec<usize>,
    /// Those whose argument all measurements of a bucket share.
    shared: Vec<usize>,
}

/// A column, and the accumulators that take its values.
struct ColumnTakers {
    name: Box<str>,
    accumulators: Vec<usize>,
    /// Whether one of them takes notice of measurements without a value.
    needs_missing: bool,
}

impl ColumnArguments {
    /// None where an accumulator takes more than a field, or what it keeps grows.
    fn new(accumulators: &[Accumulator], unpack: &UnpackBucket) -> Option<Self> {
        let mut own = Self {
            columns: Vec::new(),
            times: Vec::new(),
            shared: Vec::new(),
        };
        for (number, accumulator) in accumulators.iter().enumerate() {
            if !takes_columns(accumulator.kind) {
                return None;
            }
            match &accumulator.argument {
                Node::Constant(_) => own.shared.push(number),
                Node::Field { path, .. } if unpack.is_metadata(&path[0]) => {
                    own.shared.push(number);
                }
                Node::Field { path, .. } if path.len() == 1 && *path[0] == *unpack.time_field => {
                    own.times.push(number);
                }
                Node::Field { path, .. } if path.len() == 1 => {
                    own.add(&path[0], number, accumulator.kind);
                }
                _ => return None,
            }
        }
        Some(own)
    }

    /// What each accumulator takes of all measurements of a bucket, if that is no more than the least and greatest values of
    /// fields, where these are known: of documents and arrays, and of texts by a collation, they are not, and the least value
    /// may be one that `$min` passes over.
    fn extremes<'b>(
        &self,
        summary: &BucketSummary<'b>,
        accumulators: &[Accumulator],
    ) -> Option<Vec<(usize, Value<'b>)>> {
        let is_short = |rows| (1..=SUMMARY_ROWS_MAX).contains(&rows);
        if !self.times.is_empty() || !summary.rows.is_none_or(is_short) {
            return None;
        }
        let mut extremes = Vec::new();
        for column in &self.columns {
            for number in &column.accumulators {
                let value = match accumulators[*number].kind {
                    AccumulatorKind::Min => summary.least(&column.name),
                    AccumulatorKind::Max => summary.greatest(&column.name),
                    _ => return None,
                };
                match value {
                    None => {}
                    Some(
                        RawBsonRef::Double(_)
                        | RawBsonRef::Int32(_)
                        | RawBsonRef::Int64(_)
                        | RawBsonRef::Decimal128(_)
                        | RawBsonRef::DateTime(_)
                        | RawBsonRef::Boolean(_),
                    ) => extremes.extend(value.map(|value| (*number, Value::Raw(value)))),
                    Some(_) => return None,
                }
            }
        }
        Some(extremes)
    }

    fn add(&mut self, name: &str, number: usize, kind: AccumulatorKind) {
        let needs_missing = matches!(kind, AccumulatorKind::First | AccumulatorKind::Last);
        match self.columns.iter_mut().find(|own| *own.name == *name) {
            Some(own) => {
                own.accumulators.push(number);
                own.needs_missing |= needs_missing;
            }
            None => self.columns.push(ColumnTakers {
                name: name.into(),
                accumulators: vec![number],
                needs_missing,
            }),
        }
    }
}

/// Buckets with more measurements are gone through: an accumulator may take its argument as often as there are some.
const SUMMARY_ROWS_MAX: u64 = 65_536;

/// Whether what an accumulator keeps does not grow with the measurements.
fn takes_columns(kind: AccumulatorKind) -> bool {
    matches!(
        kind,
        AccumulatorKind::Sum
            | AccumulatorKind::Average
            | AccumulatorKind::Min
            | AccumulatorKind::Max
            | AccumulatorKind::First
            | AccumulatorKind::Last
            | AccumulatorKind::Count
            | AccumulatorKind::DeviationPopulation
            | AccumulatorKind::DeviationSample
    )
}

impl Groups {
    /// Has measurements of buckets come from a stage, bucket by bucket.
    pub fn expect_buckets(&mut self, unpack: &UnpackBucket) {
        self.buckets = BucketKeys::new(&self.group, unpack).map(Arc::new);
    }

    /// Whether [`Self::begin_bucket`] and [`Self::push_measurement`] may be used.
    pub fn knows_buckets(&self) -> bool {
        self.buckets.is_some()
    }

    /// Takes the measurements of another bucket, all at once where that can be done; else they are to be given one by one.
    ///
    /// # Errors
    /// As [`Self::push`], and buckets that are malformed.
    pub fn begin_bucket(
        &mut self,
        unpack: &UnpackBucket,
        bucket: &RawDocument,
        variables: &Variables,
    ) -> Result<bool> {
        self.run = None;
        let keys = self.buckets.take();
        let taken = match keys.as_deref() {
            Some(keys) => self.push_columns(keys, unpack, bucket, variables),
            None => Ok(false),
        };
        self.buckets = keys;
        taken
    }

    fn push_columns(
        &mut self,
        keys: &BucketKeys,
        unpack: &UnpackBucket,
        bucket: &RawDocument,
        variables: &Variables,
    ) -> Result<bool> {
        let Some(arguments) = &keys.columns else {
            return Ok(false);
        };
        if let Some(summary) = unpack.summary(bucket)
            && let Some(range) = keys.run_around(summary.times.from)
            && range.holds(summary.times.until)
            && let Some(extremes) = arguments.extremes(&summary, &self.group.accumulators)
            && self.push_summary(arguments, &summary, &extremes, variables)?
        {
            return Ok(true);
        }
        let names = arguments.columns.iter().map(|column| &*column.name);
        let Some(mut columns) = unpack.columns(bucket, names)? else {
            return Ok(false);
        };
        while columns.next_run(|millis| keys.run_around(millis))? {
            operation::check()?;
            self.push_run(arguments, &mut columns, variables)?;
            self.hold()?;
        }
        Ok(true)
    }

    /// Takes the wanted measurements of a bucket, of which accumulators want no more than the summary tells: of a whole
    /// bucket always; of a part of one where its group holds lesser and greater values already. Else returns false.
    fn push_summary(
        &mut self,
        arguments: &ColumnArguments,
        summary: &BucketSummary<'_>,
        extremes: &[(usize, Value<'_>)],
        variables: &Variables,
    ) -> Result<bool> {
        let first = summary.first()?;
        let Some(rows) = summary.rows else {
            return self.is_surpassed(arguments, &first, extremes, variables);
        };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let start = self.push_shared(arguments, &first, rows, variables)?;
        let (table, accumulators) = (&mut self.table, &self.group.accumulators);
        for (number, value) in extremes {
            table.bytes += table.states[start + number].add_value(&accumulators[*number], value)?;
        }
        self.hold()?;
        Ok(true)
    }

    /// Whether measurements of one group, with these extremes and perhaps some between them, change nothing.
    fn is_surpassed(
        &mut self,
        arguments: &ColumnArguments,
        first: &RawDocument,
        extremes: &[(usize, Value<'_>)],
        variables: &Variables,
    ) -> Result<bool> {
        if !arguments.shared.is_empty() {
            return Ok(false);
        }
        let Self {
            group, table, key, ..
        } = self;
        let mut context = EvaluationContext::new(first, variables);
        prefetch(&group.fields, &mut context)?;
        let Some(place) = table.find(group, key, &mut context)? else {
            return Ok(false);
        };
        let states = &table.states[place * group.accumulators.len()..];
        let changes = |(number, value): &(usize, Value<'_>)| {
            states[*number].is_replaced(&group.accumulators[*number], value)
        };
        Ok(!extremes.iter().any(changes))
    }

    /// Takes measurements that are all of one group.
    fn push_run(
        &mut self,
        arguments: &ColumnArguments,
        columns: &mut BucketColumns<'_>,
        variables: &Variables,
    ) -> Result<()> {
        let rows = columns.times().len();
        let start = self.push_shared(arguments, columns.first()?, rows, variables)?;
        let (table, accumulators) = (&mut self.table, &self.group.accumulators);
        let states = &mut table.states[start..];
        let mut grown = 0;
        for number in &arguments.times {
            for millis in columns.times() {
                let value = Value::date(*millis);
                grown += states[*number].add_value(&accumulators[*number], &value)?;
            }
        }
        for (place, column) in arguments.columns.iter().enumerate() {
            columns.read(place, column.needs_missing, &mut |values| {
                for number in &column.accumulators {
                    grown += states[*number].add_measured(&accumulators[*number], &values)?;
                }
                Ok(())
            })?;
        }
        table.bytes += grown;
        Ok(())
    }

    /// Takes what so many measurements of one group share. Returns where the states of the group begin.
    fn push_shared(
        &mut self,
        arguments: &ColumnArguments,
        first: &RawDocument,
        rows: usize,
        variables: &Variables,
    ) -> Result<usize> {
        let Self {
            group, table, key, ..
        } = self;
        let mut context = EvaluationContext::new(first, variables);
        prefetch(&group.fields, &mut context)?;
        let start = table.place(group, key, &mut context)? * group.accumulators.len();
        for number in &arguments.shared {
            let accumulator = &group.accumulators[*number];
            let value = accumulator.argument.evaluate(&mut context)?;
            table.bytes += table.states[start + number].add_rows(accumulator, &value, rows)?;
        }
        Ok(start)
    }

    /// As [`Self::push`], for a measurement of the same bucket as the one before it.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_measurement(
        &mut self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<()> {
        // (Not cloned: the parts of a scan on other cores share it.)
        let keys = self.buckets.as_deref();
        let millis = keys.and_then(|keys| keys.time_of(document));
        let known = match (self.run, millis) {
            (Some((place, range)), Some(millis)) if range.holds(millis) => Some(place),
            _ => None,
        };
        let place = self.update(document, variables, known, |state, accumulator, value| {
            state.add(accumulator, value, document)
        })?;
        if known.is_none() {
            let around = |millis| self.buckets.as_deref()?.run_around(millis);
            self.run = place.zip(millis.and_then(around));
        }
        Ok(())
    }
}

impl AccumulatorState {
    /// As [`Self::add_value`], for so many measurements with this value.
    fn add_rows(
        &mut self,
        accumulator: &Accumulator,
        value: &Value<'_>,
        rows: usize,
    ) -> Result<usize> {
        if accumulator.counts() {
            self.add_times(value, rows as u64);
            return Ok(0);
        }
        (0..rows).try_fold(
            0,
            |grown, _| Ok(grown + self.add_value(accumulator, value)?),
        )
    }

    /// As [`Self::add_value`], for each of these measurements.
    fn add_measured(
        &mut self,
        accumulator: &Accumulator,
        values: &MeasuredValues<'_>,
    ) -> Result<usize> {
        match values {
            MeasuredValues::One(value) => self.add_value(accumulator, &Value::Raw(*value)),
            MeasuredValues::Missing(rows) => self.add_rows(accumulator, &Value::Missing, *rows),
            MeasuredValues::Doubles(doubles) => self.add_doubles(accumulator, doubles),
        }
    }

    fn add_doubles(&mut self, accumulator: &Accumulator, doubles: &[f64]) -> Result<usize> {
        let values = doubles.iter().copied();
        // Of equals the first one stays.
        let extreme = match (&mut *self, accumulator.kind) {
            (Self::Sum(sum), _) => {
                values.for_each(|value| sum.add(Number::Double(value)));
                return Ok(0);
            }
            (_, AccumulatorKind::Min) => values.reduce(|least, value| {
                let is_less = compare_doubles(value, least).is_lt();
                if is_less { value } else { least }
            }),
            (_, AccumulatorKind::Max) => values.reduce(|greatest, value| {
                let is_greater = compare_doubles(value, greatest).is_gt();
                if is_greater { value } else { greatest }
            }),
            _ => {
                let values = values.map(Value::double);
                return values
                    .map(|value| self.add_value(accumulator, &value))
                    .sum();
            }
        };
        let value = extreme.map(Value::double);
        value.map_or(Ok(0), |value| self.add_value(accumulator, &value))
    }
}
