//! Every operator by name: how many arguments it takes and what computes it.

use super::node::Node;
use super::parse::ExpressionParser;
use super::{
    Value, arithmetic, array, convert, date, date_math, object, regex, script, set, special,
    string, trigonometry,
};
use crate::error::{Code, Error, Result};
use crate::operation::NameCounts;
use bson::RawBsonRef;
use meridian_value::Collation;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Computes an operator from the values of its arguments.
#[derive(Debug, Clone, Copy)]
pub enum Function {
    /// Without comparing any.
    Plain(for<'a> fn(&'static str, &mut [Value<'a>]) -> Result<Value<'a>>),
    /// Compares values by the collation.
    Comparing(for<'a> fn(&'static str, &mut [Value<'a>], &Collation) -> Result<Value<'a>>),
}

/// Computes an operator from the values of its named arguments, in the order of its
/// parameters; none where an argument was not given.
#[derive(Debug, Clone, Copy)]
pub enum NamedFunction {
    /// Without comparing any.
    Plain(for<'a> fn(&'static str, &mut [Option<Value<'a>>]) -> Result<Value<'a>>),
    /// Compares values by the collation.
    Comparing(for<'a> fn(&'static str, &mut [Option<Value<'a>>], &Collation) -> Result<Value<'a>>),
}

impl Function {
    /// The operator's value.
    #[inline]
    pub fn call<'a>(
        self,
        name: &'static str,
        values: &mut [Value<'a>],
        collation: &Collation,
    ) -> Result<Value<'a>> {
        match self {
            Self::Plain(function) => function(name, values),
            Self::Comparing(function) => function(name, values, collation),
        }
    }
}

impl NamedFunction {
    /// The operator's value.
    pub fn call<'a>(
        self,
        name: &'static str,
        values: &mut [Option<Value<'a>>],
        collation: &Collation,
    ) -> Result<Value<'a>> {
        match self {
            Self::Plain(function) => function(name, values),
            Self::Comparing(function) => function(name, values, collation),
        }
    }
}

/// Parses an operator that is a node of its own.
pub type SpecialParser = fn(&mut ExpressionParser<'_>, &str, RawBsonRef<'_>) -> Result<Node>;

/// How many arguments an operator takes.
#[derive(Debug, Clone, Copy)]
pub enum Arity {
    /// Any number.
    Any,
    /// So many.
    Exactly(usize),
    /// Between the two, both included.
    Between(usize, usize),
    /// One, with the error of `$toInt` and its like.
    Conversion,
    /// One, with the error of `$year` and its like.
    Date,
    /// Two or more, with the error of `$setEquals`.
    SetEquality,
}

/// An operator that takes its arguments in a row.
#[derive(Debug)]
pub struct Operator {
    /// With its dollar.
    pub name: &'static str,
    /// How many arguments.
    pub arity: Arity,
    /// What computes it.
    pub function: Function,
}

/// An operator that takes its arguments by name.
#[derive(Debug)]
pub struct Named {
    /// With its dollar.
    pub name: &'static str,
    /// The arguments.
    pub parameters: &'static [Parameter],
    /// The error for an argument it does not know.
    pub unknown: Complaint,
    /// The error for an operand that is no object.
    pub not_object: Complaint,
    /// What computes it.
    pub function: NamedFunction,
}

/// One named argument.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The error for its absence; none where it may be left out.
    pub missing: Option<Complaint>,
}

/// An error's code and text, in which `{op}`, `{arg}` and `{type}` are filled in.
#[derive(Debug)]
pub struct Complaint(pub i32, pub &'static str);

impl Complaint {
    /// The error.
    pub fn error(&self, operator: &str, argument: &str, found: &str) -> Error {
        let text = self
            .1
            .replace("{op}", operator)
            .replace("{arg}", argument)
            .replace("{type}", found);
        match self.0 {
            9 => Error::new(Code::FailedToParse, text),
            code => Error::location(code, text),
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub enum NameEntry {
    /// Arguments in a row.
    Call(&'static Operator),
    /// Arguments by name.
    Named(&'static Named),
    /// A node of its own.
    Special(SpecialParser),
    /// MongoDB has it, we do not.
    Absent,
}

/// Whether MongoDB has an operator of this name.
pub fn is_operator(name: &str) -> bool {
    find(name).is_some()
}

/// How often each operator was written; `$const` is what stages make of their own values.
pub static USED: NameCounts = NameCounts::of(|| {
    let entries = entries().iter();
    let present =
        entries.filter(|(name, entry)| **name != "$const" && !matches!(entry, NameEntry::Absent));
    present.map(|(name, _)| *name).collect()
});

/// What an operator's name stands for.
pub fn find(name: &str) -> Option<NameEntry> {
    entries().get(name).copied()
}

fn entries() -> &'static HashMap<&'static str, NameEntry> {
    static ENTRIES: OnceLock<HashMap<&'static str, NameEntry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let calls = CALLS
            .iter()
            .chain(COMPARING_CALLS)
            .map(|operator| (operator.name, NameEntry::Call(operator)));
        let named = NAMED
            .iter()
            .map(|operator| (operator.name, NameEntry::Named(operator)));
        let special = SPECIAL
            .iter()
            .map(|(name, parse)| (*name, NameEntry::Special(*parse)));
        let absent = ABSENT.iter().map(|name| (*name, NameEntry::Absent));
        calls.chain(named).chain(special).chain(absent).collect()
    })
}

const ABSENT: [&str; 1] = ["$_testApiVersion"];

const SPECIAL: &[(&str, SpecialParser)] = &[
    ("$literal", special::literal),
    ("$const", special::literal),
    ("$rand", special::random),
    ("$meta", special::metadata),
    ("$toHashedIndexKey", object::hashed_index_key),
    ("$function", script::function),
    ("$_internalJsEmit", script::emit),
    ("$eq", special::comparison),
    ("$ne", special::comparison),
    ("$lt", special::comparison),
    ("$lte", special::comparison),
    ("$gt", special::comparison),
    ("$gte", special::comparison),
    ("$cmp", special::comparison),
    ("$and", special::and),
    ("$or", special::or),
    ("$cond", special::condition),
    ("$ifNull", special::if_null),
    ("$switch", special::switch),
    ("$let", special::bind),
    ("$map", special::map),
    ("$filter", special::filter),
    ("$reduce", special::reduce),
    ("$zip", special::zip),
    ("$sortArray", array::parse_sort_array),
    ("$getField", object::parse_get_field),
    ("$setField", object::parse_set_field),
    ("$unsetField", object::parse_set_field),
    ("$year", date::parse_part),
    ("$month", date::parse_part),
    ("$dayOfMonth", date::parse_part),
    ("$dayOfWeek", date::parse_part),
    ("$dayOfYear", date::parse_part),
    ("$hour", date::parse_part),
    ("$minute", date::parse_part),
    ("$second", date::parse_part),
    ("$millisecond", date::parse_part),
    ("$week", date::parse_part),
    ("$isoWeek", date::parse_part),
    ("$isoWeekYear", date::parse_part),
    ("$isoDayOfWeek", date::parse_part),
    ("$dateFromParts", date::parse_from_parts),
];

macro_rules! calls {
    ($(($name:literal, $arity:expr, $function:path)),+ $(,)?) => {
        calls!(Plain, $(($name, $arity, $function)),+)
    };
    ($kind:ident, $(($name:literal, $arity:expr, $function:path)),+ $(,)?) => {
        &[$(Operator { name: $name, arity: $arity, function: Function::$kind($function) }),+]
    };
}

use Arity::{Any, Between, Conversion, Exactly, SetEquality};

/// Operators with arguments in a row.
pub static CALLS: &[Operator] = calls![
    ("$add", Any, arithmetic::add),
    ("$subtract", Exactly(2), arithmetic::subtract),
    ("$multiply", Any, arithmetic::multiply),
    ("$divide", Exactly(2), arithmetic::divide),
    ("$mod", Exactly(2), arithmetic::modulo),
    ("$abs", Exactly(1), arithmetic::abs),
    ("$ceil", Exactly(1), arithmetic::ceil),
    ("$floor", Exactly(1), arithmetic::floor),
    ("$exp", Exactly(1), arithmetic::exp),
    ("$ln", Exactly(1), arithmetic::ln),
    ("$log", Exactly(2), arithmetic::log),
    ("$log10", Exactly(1), arithmetic::log10),
    ("$sqrt", Exactly(1), arithmetic::sqrt),
    ("$pow", Exactly(2), arithmetic::pow),
    ("$round", Between(1, 2), arithmetic::round),
    ("$trunc", Between(1, 2), arithmetic::round),
    ("$sin", Exactly(1), trigonometry::of_angle),
    ("$cos", Exactly(1), trigonometry::of_angle),
    ("$tan", Exactly(1), trigonometry::of_angle),
    ("$asin", Exactly(1), trigonometry::of_angle),
    ("$acos", Exactly(1), trigonometry::of_angle),
    ("$atan", Exactly(1), trigonometry::of_angle),
    ("$sinh", Exactly(1), trigonometry::of_angle),
    ("$cosh", Exactly(1), trigonometry::of_angle),
    ("$tanh", Exactly(1), trigonometry::of_angle),
    ("$asinh", Exactly(1), trigonometry::of_angle),
    ("$acosh", Exactly(1), trigonometry::of_angle),
    ("$atanh", Exactly(1), trigonometry::of_angle),
    ("$degreesToRadians", Exactly(1), trigonometry::of_angle),
    ("$radiansToDegrees", Exactly(1), trigonometry::of_angle),
    ("$atan2", Exactly(2), trigonometry::atan2),
    ("$not", Exactly(1), convert::not),
    ("$isNumber", Exactly(1), convert::is_number),
    ("$type", Exactly(1), convert::type_of),
    ("$toBool", Conversion, convert::shorthand),
    ("$toInt", Conversion, convert::shorthand),
    ("$toLong", Conversion, convert::shorthand),
    ("$toDouble", Conversion, convert::shorthand),
    ("$toDecimal", Conversion, convert::shorthand),
    ("$toString", Conversion, convert::shorthand),
    ("$toDate", Conversion, convert::shorthand),
    ("$toObjectId", Conversion, convert::shorthand),
    ("$concat", Any, string::concat),
    ("$toLower", Exactly(1), string::to_lower),
    ("$toUpper", Exactly(1), string::to_upper),
    ("$substr", Exactly(3), string::substring_bytes),
    ("$substrBytes", Exactly(3), string::substring_bytes),
    ("$substrCP", Exactly(3), string::substring_points),
    ("$strcasecmp", Exactly(2), string::compare_ignoring_case),
    ("$strLenBytes", Exactly(1), string::length_bytes),
    ("$strLenCP", Exactly(1), string::length_points),
    ("$indexOfBytes", Between(2, 4), string::index_of_bytes),
    ("$indexOfCP", Between(2, 4), string::index_of_points),
    ("$split", Exactly(2), string::split),
    ("$size", Exactly(1), array::size),
    ("$arrayElemAt", Exactly(2), array::element_at),
    ("$first", Exactly(1), array::first_or_last),
    ("$last", Exactly(1), array::first_or_last),
    ("$slice", Between(2, 3), array::slice),
    ("$concatArrays", Any, array::concat),
    ("$range", Between(2, 3), array::range),
    ("$reverseArray", Exactly(1), array::reverse),
    ("$isArray", Exactly(1), array::is_array),
    ("$arrayToObject", Exactly(1), object::from_array),
    ("$objectToArray", Exactly(1), object::to_array),
    ("$mergeObjects", Any, object::merge),
    ("$bsonSize", Exactly(1), object::bson_size),
    ("$binarySize", Exactly(1), object::binary_size),
    ("$anyElementTrue", Exactly(1), set::any_element_true),
    ("$allElementsTrue", Exactly(1), set::all_elements_true),
    ("$tsSecond", Exactly(1), date::timestamp_part),
    ("$tsIncrement", Exactly(1), date::timestamp_part),
];

/// Those that compare values.
pub static COMPARING_CALLS: &[Operator] = calls![
    Comparing,
    ("$sum", Any, arithmetic::accumulate),
    ("$avg", Any, arithmetic::accumulate),
    ("$min", Any, arithmetic::accumulate),
    ("$max", Any, arithmetic::accumulate),
    ("$stdDevPop", Any, arithmetic::accumulate),
    ("$stdDevSamp", Any, arithmetic::accumulate),
    ("$in", Exactly(2), array::contains),
    ("$indexOfArray", Between(2, 4), array::index_of),
    ("$setUnion", Any, set::union),
    ("$setIntersection", Any, set::intersection),
    ("$setDifference", Exactly(2), set::difference),
    ("$setEquals", SetEquality, set::equals),
    ("$setIsSubset", Exactly(2), set::is_subset),
];

/// MongoDB looks at an argument of these before it evaluates the next: what it answers to one that is null or of no use
/// to the operator, it answers though a later one would fail.
const IN_TURN: &[&str] = &[
    "$add",
    "$multiply",
    "$round",
    "$trunc",
    "$atan2",
    "$concat",
    "$indexOfBytes",
    "$indexOfCP",
    "$indexOfArray",
    "$concatArrays",
    "$mergeObjects",
    "$setUnion",
    "$setIntersection",
    "$setEquals",
    "$setField",
    "$year",
    "$month",
    "$dayOfMonth",
    "$dayOfWeek",
    "$dayOfYear",
    "$hour",
    "$minute",
    "$second",
    "$millisecond",
    "$week",
    "$isoWeek",
    "$isoWeekYear",
    "$isoDayOfWeek",
    "$trim",
    "$ltrim",
    "$rtrim",
    "$firstN",
    "$lastN",
    "$minN",
    "$maxN",
    "$convert",
    "$dateAdd",
    "$dateSubtract",
    "$dateDiff",
    "$dateFromParts",
    "$dateFromString",
    "$dateToParts",
    "$dateToString",
    "$dateTrunc",
];

/// Whether MongoDB looks at the arguments before this place before it evaluates the one there.
pub fn looks_in_turn(name: &str, place: usize) -> bool {
    match name {
        // The first two are evaluated together.
        "$slice" | "$range" => place > 1,
        _ => IN_TURN.contains(&name),
    }
}

/// How MongoDB's optimizer rearranges the arguments of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Known ones side by side become one.
    Neighbours,
    /// All known ones become one, at the end.
    AtTheEnd,
}

/// How the arguments of this operator are rearranged; none where they stay as they are.
pub fn arrangement(name: &str) -> Option<Arrangement> {
    match name {
        "$add" | "$multiply" | "$setUnion" | "$setIntersection" | "$sum" | "$min" | "$max" => {
            Some(Arrangement::AtTheEnd)
        }
        "$concat" | "$concatArrays" => Some(Arrangement::Neighbours),
        _ => None,
    }
}

const fn optional(name: &'static str) -> Parameter {
    Parameter {
        name,
        missing: None,
    }
}

const fn required(name: &'static str, code: i32, text: &'static str) -> Parameter {
    Parameter {
        name,
        missing: Some(Complaint(code, text)),
    }
}

macro_rules! trim {
    ($name:literal) => {
        Named {
            name: $name,
            parameters: &[
                required("input", 50695, "{op} requires an 'input' field"),
                optional("chars"),
            ],
            unknown: Complaint(50694, "{op} found an unknown argument: {arg}"),
            not_object: Complaint(
                50696,
                "{op} only supports an object as an argument, found {type}",
            ),
            function: NamedFunction::Plain(string::trim),
        }
    };
}

macro_rules! replace {
    ($name:literal) => {
        Named {
            name: $name,
            parameters: &[
                required("input", 51749, "{op} requires 'input' to be specified"),
                required("find", 51748, "{op} requires 'find' to be specified"),
                required(
                    "replacement",
                    51747,
                    "{op} requires 'replacement' to be specified",
                ),
            ],
            unknown: Complaint(51750, "{op} found an unknown argument: {arg}"),
            not_object: Complaint(
                51751,
                "{op} requires an object as an argument, found: {type}",
            ),
            function: NamedFunction::Plain(string::replace),
        }
    };
}

macro_rules! regular {
    ($name:literal) => {
        Named {
            name: $name,
            parameters: &[
                required("input", 31022, "{op} requires 'input' parameter"),
                required("regex", 31023, "{op} requires 'regex' parameter"),
                optional("options"),
            ],
            unknown: Complaint(31024, "{op} found an unknown argument: {arg}"),
            not_object: Complaint(
                51103,
                "{op} expects an object of named arguments but found: {type}",
            ),
            function: NamedFunction::Plain(regex::evaluate),
        }
    };
}

macro_rules! several {
    ($name:literal) => {
        several!($name, 5_787_801)
    };
    ($name:literal, $not_object:literal) => {
        Named {
            name: $name,
            parameters: &[
                required("n", 5_787_906, "Missing value for 'n'"),
                required("input", 5_787_907, "Missing value for 'input'"),
            ],
            unknown: Complaint(5_787_901, "Unknown argument for 'n' operator: {arg}"),
            not_object: Complaint($not_object, "specification must be an object; found {arg}"),
            function: NamedFunction::Comparing(array::several),
        }
    };
}

macro_rules! date_math {
    ($name:literal) => {
        Named {
            name: $name,
            parameters: &[
                required("startDate", 5_166_402, DATE_MATH_MISSING),
                required("unit", 5_166_402, DATE_MATH_MISSING),
                required("amount", 5_166_402, DATE_MATH_MISSING),
                optional("timezone"),
            ],
            unknown: Complaint(
                5_166_401,
                "Unrecognized argument to {op}: {arg}. Expected arguments are startDate, unit, \
                 amount, and optionally timezone.",
            ),
            not_object: Complaint(5_166_400, "{op} expects an object as its argument"),
            function: NamedFunction::Plain(date_math::add),
        }
    };
}

const DATE_MATH_MISSING: &str = "{op} requires startDate, unit, and amount to be present";

/// Operators with arguments by name.
pub static NAMED: &[Named] = &[
    trim!("$trim"),
    trim!("$ltrim"),
    trim!("$rtrim"),
    replace!("$replaceOne"),
    replace!("$replaceAll"),
    regular!("$regexMatch"),
    regular!("$regexFind"),
    regular!("$regexFindAll"),
    several!("$firstN"),
    several!("$lastN"),
    several!("$minN", 5_787_900),
    several!("$maxN", 5_787_900),
    date_math!("$dateAdd"),
    date_math!("$dateSubtract"),
    Named {
        name: "$convert",
        parameters: &[
            required("input", 9, "Missing 'input' parameter to $convert"),
            required("to", 9, "Missing 'to' parameter to $convert"),
            optional("onError"),
            optional("onNull"),
        ],
        unknown: Complaint(9, "$convert found an unknown argument: {arg}"),
        not_object: Complaint(
            9,
            "$convert expects an object of named arguments but found: {type}",
        ),
        function: NamedFunction::Plain(convert::convert),
    },
    Named {
        name: "$dateToString",
        parameters: &[
            required("date", 18628, "Missing 'date' parameter to $dateToString"),
            optional("format"),
            optional("timezone"),
            optional("onNull"),
        ],
        unknown: Complaint(18534, "Unrecognized argument to $dateToString: {arg}"),
        not_object: Complaint(
            18629,
            "$dateToString only supports an object as its argument",
        ),
        function: NamedFunction::Plain(date::to_string),
    },
    Named {
        name: "$dateFromString",
        parameters: &[
            required(
                "dateString",
                40542,
                "Missing 'dateString' parameter to $dateFromString",
            ),
            optional("format"),
            optional("timezone"),
            optional("onNull"),
            optional("onError"),
        ],
        unknown: Complaint(40541, "Unrecognized argument to $dateFromString: {arg}"),
        not_object: Complaint(
            40540,
            "$dateFromString only supports an object as an argument, found: {type}",
        ),
        function: NamedFunction::Plain(date::from_string),
    },
    Named {
        name: "$dateToParts",
        parameters: &[
            required("date", 40522, "Missing 'date' parameter to $dateToParts"),
            optional("timezone"),
            optional("iso8601"),
        ],
        unknown: Complaint(40520, "Unrecognized argument to $dateToParts: {arg}"),
        not_object: Complaint(
            40524,
            "$dateToParts only supports an object as its argument",
        ),
        function: NamedFunction::Plain(date::to_parts),
    },
    Named {
        name: "$dateTrunc",
        parameters: &[
            required("date", 5_439_009, "Missing 'date' parameter to $dateTrunc"),
            required("unit", 5_439_010, "Missing 'unit' parameter to $dateTrunc"),
            optional("binSize"),
            optional("timezone"),
            optional("startOfWeek"),
        ],
        unknown: Complaint(
            5_439_008,
            "Unrecognized argument to $dateTrunc: {arg}. Expected arguments are date, unit, and \
             optionally, binSize, timezone, startOfWeek",
        ),
        not_object: Complaint(
            5_439_007,
            "$dateTrunc only supports an object as its argument",
        ),
        function: NamedFunction::Plain(date_math::truncate),
    },
    Named {
        name: "$dateDiff",
        parameters: &[
            required(
                "startDate",
                5_166_303,
                "Missing 'startDate' parameter to $dateDiff",
            ),
            required(
                "endDate",
                5_166_304,
                "Missing 'endDate' parameter to $dateDiff",
            ),
            required("unit", 5_166_305, "Missing 'unit' parameter to $dateDiff"),
            optional("timezone"),
            optional("startOfWeek"),
        ],
        unknown: Complaint(5_166_302, "Unrecognized argument to $dateDiff: {arg}"),
        not_object: Complaint(
            5_166_301,
            "$dateDiff only supports an object as its argument",
        ),
        function: NamedFunction::Plain(date_math::difference),
    },
];
