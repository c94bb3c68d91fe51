//! The bounds of each predicate, by mongod's rules.
//!
//! Source: `IndexBoundsBuilder::translate` of MongoDB 6.0, and its answers to `explain`.

use super::Tightness::{Covered, Exact, Fetch};
use super::{End, FieldBounds, Interval, Tightness};
use crate::index::{IndexField, hash_value};
use crate::pattern::Pattern;
use crate::query::{Comparison, InList, Operand, Predicate};
use crate::types::TypeSet;
use bson::raw::{CString, RawBson, RawDocument};
use bson::spec::{BinarySubtype, ElementType};
use bson::{
    Binary, Bson, DateTime, JavaScriptCodeWithScope, RawBsonRef, Timestamp, doc, oid::ObjectId,
};
use meridian_value::number::Number;
use meridian_value::{Collation, holds_text, with_raw};

/// What bounds depend on besides the predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldContext<'c> {
    /// How the index keeps the field.
    pub field: IndexField,
    /// Whether the field's values may come from arrays.
    pub multikey: bool,
    /// Whether documents without the field may have no entry.
    pub sparse: bool,
    /// By what the index orders texts.
    pub collation: &'c Collation,
}

impl From<IndexField> for FieldContext<'_> {
    /// A field without arrays in an index that has all documents.
    fn from(field: IndexField) -> Self {
        FieldContext {
            field,
            multikey: false,
            sparse: false,
            collation: &Collation::SIMPLE,
        }
    }
}

impl FieldBounds {
    /// The bounds of a predicate; `None` when an index on the field does not help at all.
    pub fn from_predicate<'c>(
        predicate: &Predicate,
        context: impl Into<FieldContext<'c>>,
    ) -> Option<FieldBounds> {
        let context = context.into();
        match context.field {
            IndexField::Ascending | IndexField::Descending => by_value(predicate, context),
            IndexField::Hashed => by_hash(predicate, context.collation),
            IndexField::Sphere2d
            | IndexField::SphereBucket
            | IndexField::Plane2d
            | IndexField::Wildcard
            | IndexField::Text => None,
        }
    }
}

fn by_value(predicate: &Predicate, context: FieldContext<'_>) -> Option<FieldBounds> {
    let bounds = match predicate {
        Predicate::Compare(_, operand) if !context.orders(operand) => return None,
        Predicate::Compare(Comparison::Eq, operand) => equal(owned(operand.value())?, context),
        Predicate::Compare(comparison, operand) => {
            compare(*comparison, &owned(operand.value())?, context)
        }
        Predicate::In(list) if !context.orders_all(list) => return None,
        Predicate::In(list) => within(list, context)?,
        Predicate::Exists(true) if context.sparse => FieldBounds::all(),
        Predicate::Exists(false) if !context.sparse => point(Bson::Null).at_most(Fetch),
        Predicate::Type(types) => of_types(*types),
        // What begins alike need not be neighbours.
        Predicate::Regex(_) if !context.collation.is_simple() => return None,
        Predicate::Regex(pattern) => regex(pattern),
        Predicate::Mod(_) => numbers().at_most(Covered),
        Predicate::ElemMatchValue(parts) => parts
            .iter()
            .map(|part| of_element(part, context))
            .reduce(|all, next| all.intersect(&next))
            .unwrap_or_else(FieldBounds::all)
            .at_most(Fetch),
        Predicate::Not(inner) => not(inner, context),
        Predicate::And(parts) if !context.multikey => parts
            .iter()
            .map(|part| by_value(part, context).unwrap_or_else(unhelpful))
            .reduce(|all, next| all.intersect(&next))
            .unwrap_or_else(FieldBounds::all),
        Predicate::Exists(_) | Predicate::Size(_) | Predicate::Bits(_) | Predicate::And(_) => {
            unhelpful()
        }
        _ => return None,
    };
    // A decoded key is one element of an array; the predicate may ask about the whole. A text by a collation
    // cannot be decoded.
    let is_decoded = !context.multikey && context.collation.is_simple();
    let loose = !is_decoded && bounds.tightness() == Covered;
    Some(if loose { bounds.at_most(Fetch) } else { bounds })
}

/// The bounds of a predicate on the elements of an array.
fn of_element(predicate: &Predicate, context: FieldContext<'_>) -> FieldBounds {
    match predicate {
        // An array within an array is one key, its elements have none.
        Predicate::ElemMatchValue(_) => unhelpful(),
        _ => by_value(predicate, context).unwrap_or_else(unhelpful),
    }
}

/// Everything, proving nothing.
fn unhelpful() -> FieldBounds {
    FieldBounds::all().at_most(Fetch)
}

fn owned(value: RawBsonRef<'_>) -> Option<Bson> {
    Bson::try_from(value).ok()
}

impl FieldContext<'_> {
    /// Whether the values that compare with the operand as asked lie together.
    fn orders(&self, operand: &Operand) -> bool {
        operand.collation() == self.collation || !holds_text(operand.value())
    }

    fn orders_all(&self, list: &InList) -> bool {
        let mut values = list.values().iter();
        let is_plain = self.collation.is_simple() || list.patterns().is_empty();
        let holds_text = |value: &RawBson| holds_text(value.as_raw_bson_ref());
        is_plain && (list.collation() == self.collation || !values.any(holds_text))
    }

    fn point(&self, value: Bson) -> FieldBounds {
        FieldBounds::new(vec![Interval::point(value, self.collation)], Exact)
    }

    fn interval(
        &self,
        low: Bson,
        low_inclusive: bool,
        high: Bson,
        high_inclusive: bool,
    ) -> FieldBounds {
        let interval = Interval::new(
            End::new(low, low_inclusive, self.collation),
            End::new(high, high_inclusive, self.collation),
        );
        FieldBounds::new(vec![interval], Exact)
    }
}

/// A value without a text in it.
fn point(value: Bson) -> FieldBounds {
    FieldContext::from(IndexField::Ascending).point(value)
}

/// Ends without a text in them; the empty one is below all others by every collation.
fn interval(low: Bson, low_inclusive: bool, high: Bson, high_inclusive: bool) -> FieldBounds {
    FieldContext::from(IndexField::Ascending).interval(low, low_inclusive, high, high_inclusive)
}

fn compare(comparison: Comparison, operand: &Bson, context: FieldContext<'_>) -> FieldBounds {
    let inclusive = matches!(comparison, Comparison::Gte | Comparison::Lte);
    let upwards = matches!(comparison, Comparison::Gt | Comparison::Gte);
    match (comparison, operand) {
        (Comparison::Eq, _) => equal(operand.clone(), context),
        (_, Bson::Null | Bson::Undefined) if inclusive => equal(operand.clone(), context),
        (_, Bson::Null | Bson::Undefined) => FieldBounds::none(),
        (_, Bson::Array(elements)) => beyond_array(upwards, operand, elements, context),
        (_, Bson::MinKey | Bson::MaxKey) => beyond_extreme(upwards, inclusive, operand, context),
        _ if is_nan(operand) && inclusive => point(operand.clone()),
        _ if is_nan(operand) => FieldBounds::none(),
        _ => one_sided(upwards, inclusive, operand, context),
    }
}

fn is_nan(value: &Bson) -> bool {
    Number::from_bson(value).is_some_and(Number::is_nan)
}

/// From the operand to the end of its type bracket, or from its beginning.
fn one_sided(
    upwards: bool,
    inclusive: bool,
    operand: &Bson,
    context: FieldContext<'_>,
) -> FieldBounds {
    let Bracket {
        low,
        high,
        high_inclusive,
    } = bracket(operand.element_type());
    let low = if Number::from_bson(operand).is_some() {
        Bson::Double(f64::NEG_INFINITY)
    } else {
        low
    };
    if upwards {
        context.interval(operand.clone(), inclusive, high, high_inclusive)
    } else {
        context.interval(low, true, operand.clone(), inclusive)
    }
}

/// MinKey and MaxKey compare with values of all types.
fn beyond_extreme(
    upwards: bool,
    inclusive: bool,
    operand: &Bson,
    context: FieldContext<'_>,
) -> FieldBounds {
    let bounds = if upwards {
        interval(operand.clone(), inclusive, Bson::MaxKey, true)
    } else {
        interval(Bson::MinKey, true, operand.clone(), inclusive)
    };
    // An array matches as a whole although its only element may be the extreme itself.
    let elements_hide = context.multikey && !inclusive && !bounds.is_empty();
    if elements_hide { unhelpful() } else { bounds }
}

/// Arrays are not in the index, their elements are, and arrays within arrays: a loose bound
/// holds both. (mongod overlooks the latter where the first element is of a later type.)
fn beyond_array(
    upwards: bool,
    operand: &Bson,
    elements: &[Bson],
    context: FieldContext<'_>,
) -> FieldBounds {
    let Some(first) = elements.first() else {
        let nothing_below = context.interval(Bson::MinKey, true, operand.clone(), true);
        return if upwards {
            unhelpful()
        } else {
            nothing_below.at_most(Fetch)
        };
    };
    let order = with_raw(first, |first| {
        with_raw(operand, |operand| context.collation.compare(first, operand))
    });
    let (lower, upper) = if order.is_lt() {
        (first, operand)
    } else {
        (operand, first)
    };
    let bounds = if upwards {
        context.interval(lower.clone(), true, Bson::MaxKey, true)
    } else {
        context.interval(Bson::MinKey, true, upper.clone(), true)
    };
    bounds.at_most(Fetch)
}

fn equal(operand: Bson, context: FieldContext<'_>) -> FieldBounds {
    match operand {
        Bson::Null | Bson::Undefined if context.sparse => unhelpful(),
        Bson::Null => point(Bson::Undefined)
            .union(point(Bson::Null))
            .at_most(Fetch),
        Bson::Undefined => point(Bson::Undefined).at_most(Fetch),
        // Within another array, the array itself is an element.
        Bson::Array(elements) => {
            let first = elements.first().cloned().unwrap_or(Bson::Undefined);
            let whole = context.point(Bson::Array(elements));
            context.point(first).union(whole).at_most(Fetch)
        }
        value => context.point(value),
    }
}

/// Lists of more values than this have an interval for several neighbours.
const POINTS_MAX: usize = 50_000;
/// ... so that there are about so many intervals. Each takes some hundred bytes, more than once.
const GROUPS: usize = 10_000;

fn within(list: &InList, context: FieldContext<'_>) -> Option<FieldBounds> {
    let neighbours = match list.values().len() {
        0..=POINTS_MAX => 1,
        values => values.div_ceil(GROUPS),
    };
    let mut intervals = Vec::with_capacity(list.values().len().min(POINTS_MAX));
    let mut tightness = Exact;
    let patterns = list.patterns().iter().map(regex);
    let mut add = |bounds: FieldBounds| {
        tightness = tightness.max(bounds.tightness());
        intervals.extend_from_slice(bounds.intervals());
    };
    for values in list.values().chunks(neighbours) {
        match values {
            [first, .., last] if values.iter().all(is_plain) => {
                let end = |value: &RawBson| {
                    let value = owned(value.as_raw_bson_ref())?;
                    Some(End::new(value, true, context.collation))
                };
                let (low, high) = (end(first)?, end(last)?);
                // What lies between them has to be tested.
                let proves = if context.multikey { Fetch } else { Covered };
                add(FieldBounds::new(vec![Interval::new(low, high)], proves));
            }
            _ => {
                for value in values {
                    add(equal(owned(value.as_raw_bson_ref())?, context));
                }
            }
        }
    }
    patterns.for_each(&mut add);
    Some(FieldBounds::new(intervals, tightness))
}

/// Whether a key of the value is the value, and nothing else matches it.
fn is_plain(value: &RawBson) -> bool {
    !matches!(
        value,
        RawBson::Null | RawBson::Undefined | RawBson::Array(_) | RawBson::Document(_)
    )
}

fn not(inner: &Predicate, context: FieldContext<'_>) -> FieldBounds {
    if is_null(inner) {
        return not_null(context);
    }
    // A sparse index lacks documents without the field, and those match any other negation.
    if context.sparse || !is_negated_by_bounds(inner) {
        return unhelpful();
    }
    if matches!(inner, Predicate::Exists(true)) {
        return point(Bson::Null).at_most(Fetch);
    }
    let bounds = by_value(
        inner,
        FieldContext {
            multikey: false,
            ..context
        },
    );
    match bounds.filter(FieldBounds::is_exact) {
        // `[1, 2]` has a key other than 1, and still does not match `$ne: 1`.
        Some(bounds) if context.multikey => bounds.negate().at_most(Fetch),
        Some(bounds) => bounds.negate(),
        None => unhelpful(),
    }
}

/// Whether the predicate asks for null and nothing else.
fn is_null(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Compare(Comparison::Eq, operand) => operand.as_null().is_some(),
        Predicate::In(list) => {
            list.has_null() && list.values().len() == 1 && list.patterns().is_empty()
        }
        _ => false,
    }
}

/// Whether mongod turns the negation of this predicate into bounds.
fn is_negated_by_bounds(inner: &Predicate) -> bool {
    match inner {
        Predicate::Compare(..) | Predicate::Exists(true) => true,
        Predicate::In(list) => list.patterns().is_empty(),
        _ => false,
    }
}

/// Everything but null and undefined, the latter being an empty array, which is not null.
fn not_null(context: FieldContext<'_>) -> FieldBounds {
    if context.multikey {
        return unhelpful();
    }
    interval(Bson::MinKey, true, Bson::Undefined, false).union(interval(
        Bson::Null,
        false,
        Bson::MaxKey,
        true,
    ))
}

fn of_types(types: TypeSet) -> FieldBounds {
    if types.contains(ElementType::Array) {
        return unhelpful();
    }
    let bounds = |kind: ElementType| {
        let Bracket {
            low,
            high,
            high_inclusive,
        } = bracket(kind);
        interval(low, true, high, high_inclusive).at_most(type_tightness(kind, types))
    };
    types
        .kinds()
        .map(bounds)
        .reduce(FieldBounds::union)
        .unwrap_or_else(FieldBounds::none)
}

/// A bracket that holds several types proves the type only if the set has them all.
fn type_tightness(kind: ElementType, types: TypeSet) -> Tightness {
    match kind {
        ElementType::Null | ElementType::Undefined => Fetch,
        ElementType::String | ElementType::Symbol => Covered,
        ElementType::Int32 | ElementType::Int64 | ElementType::Double | ElementType::Decimal128 => {
            let all = TypeSet::NUMBER.kinds().all(|kind| types.contains(kind));
            if all { Exact } else { Covered }
        }
        _ => Exact,
    }
}

/// Every number, NaN included.
fn numbers() -> FieldBounds {
    interval(
        Bson::Double(f64::NAN),
        true,
        Bson::Double(f64::INFINITY),
        true,
    )
}

/// Strings that may match, and the same expression as a value.
fn regex(pattern: &Pattern) -> FieldBounds {
    let beginning_with = |(prefix, is_all): (String, bool)| {
        let (high, low) = (after_prefix(&prefix), Bson::String(prefix));
        let tightness = if is_all { Exact } else { Covered };
        interval(low, true, high, false).at_most(tightness)
    };
    let prefixes = pattern.prefixes().into_iter().flatten();
    let strings = match prefixes.map(beginning_with).reduce(FieldBounds::union) {
        Some(strings) => strings,
        None => {
            let Bracket {
                low,
                high,
                high_inclusive,
            } = bracket(ElementType::String);
            interval(low, true, high, high_inclusive).at_most(Covered)
        }
    };
    let text = |part: &str| CString::try_from(part).expect("an expression holds no NUL");
    let own = Bson::RegularExpression(bson::Regex {
        pattern: text(pattern.source()),
        options: text(pattern.options()),
    });
    strings.union(point(own))
}

/// The least value above every string that begins so.
fn after_prefix(prefix: &str) -> Bson {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // The surrogates between U+D7FF and U+E000 are no characters.
        let next = if last == '\u{D7FF}' {
            Some('\u{E000}')
        } else {
            char::from_u32(last as u32 + 1)
        };
        if let Some(next) = next {
            characters.push(next);
            return Bson::String(characters.into_iter().collect());
        }
    }
    Bson::Document(doc! {})
}

/// The least and greatest values of a type's bracket.
struct Bracket {
    low: Bson,
    high: Bson,
    high_inclusive: bool,
}

/// The ends of a type's bracket, as mongod writes them: where a type has no greatest
/// value, the least of the next.
fn bracket(kind: ElementType) -> Bracket {
    let closed = |low, high| Bracket {
        low,
        high,
        high_inclusive: true,
    };
    let open = |low, high| Bracket {
        low,
        high,
        high_inclusive: false,
    };
    let id = |byte| Bson::ObjectId(ObjectId::from_bytes([byte; 12]));
    let code_with_scope = || {
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
            code: String::new(),
            scope: doc! {},
        })
    };
    let code = || Bson::JavaScriptCode(String::new());
    let empty = || CString::try_from("").expect("no NUL");
    let binary = || {
        Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: Vec::new(),
        })
    };
    match kind {
        ElementType::MinKey => closed(Bson::MinKey, Bson::MinKey),
        ElementType::MaxKey => closed(Bson::MaxKey, Bson::MaxKey),
        ElementType::Undefined => closed(Bson::Undefined, Bson::Undefined),
        ElementType::Null => closed(Bson::Null, Bson::Null),
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            closed(Bson::Double(f64::NAN), Bson::Double(f64::INFINITY))
        }
        ElementType::String | ElementType::Symbol => {
            open(Bson::String(String::new()), Bson::Document(doc! {}))
        }
        ElementType::EmbeddedDocument => open(Bson::Document(doc! {}), Bson::Array(Vec::new())),
        ElementType::Array => open(Bson::Array(Vec::new()), binary()),
        ElementType::Binary => open(binary(), id(0)),
        ElementType::ObjectId => closed(id(0), id(0xFF)),
        ElementType::Boolean => closed(Bson::Boolean(false), Bson::Boolean(true)),
        ElementType::DateTime => closed(
            Bson::DateTime(DateTime::from_millis(i64::MIN)),
            Bson::DateTime(DateTime::from_millis(i64::MAX)),
        ),
        ElementType::Timestamp => closed(
            Bson::Timestamp(Timestamp {
                time: 0,
                increment: 0,
            }),
            Bson::Timestamp(Timestamp {
                time: u32::MAX,
                increment: u32::MAX,
            }),
        ),
        ElementType::RegularExpression => open(
            Bson::RegularExpression(bson::Regex {
                pattern: empty(),
                options: empty(),
            }),
            least_db_pointer(),
        ),
        ElementType::DbPointer => open(least_db_pointer(), code()),
        ElementType::JavaScriptCode => open(code(), code_with_scope()),
        ElementType::JavaScriptCodeWithScope => open(code_with_scope(), Bson::MaxKey),
    }
}

/// A DBPointer with an empty name and a zero id. `bson` makes this type from bytes only.
fn least_db_pointer() -> Bson {
    let mut bytes = vec![24, 0, 0, 0, 0x0C, 0, 1, 0, 0, 0, 0];
    bytes.extend_from_slice(&[0; 12]);
    bytes.push(0);
    let document = RawDocument::from_bytes(&bytes).expect("24 bytes");
    let value = document
        .get("")
        .expect("a well-formed element")
        .expect("an element without name");
    Bson::try_from(value).expect("a well-formed DBPointer")
}

fn by_hash(predicate: &Predicate, collation: &Collation) -> Option<FieldBounds> {
    let context = FieldContext {
        collation,
        ..FieldContext::from(IndexField::Hashed)
    };
    let hash = |value: RawBsonRef<'_>| {
        let hash = Bson::Int64(hash_value(value, collation));
        Interval::point(hash, &Collation::SIMPLE)
    };
    let hashed = |value: RawBsonRef<'_>| match value {
        // Hashed indexes hold no arrays.
        RawBsonRef::Array(_) => Vec::new(),
        RawBsonRef::Null => vec![hash(RawBsonRef::Undefined), hash(RawBsonRef::Null)],
        value => vec![hash(value)],
    };
    let intervals = match predicate {
        Predicate::Compare(Comparison::Eq, operand) if context.orders(operand) => {
            hashed(operand.value())
        }
        Predicate::In(list) if list.patterns().is_empty() && context.orders_all(list) => list
            .values()
            .iter()
            .flat_map(|value| hashed(value.as_raw_bson_ref()))
            .collect(),
        _ => return None,
    };
    // Different values may share a hash.
    Some(FieldBounds::new(intervals, Fetch))
}
