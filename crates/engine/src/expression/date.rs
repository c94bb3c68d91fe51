//! Dates: their parts, and dates as text.

use super::Value;
use super::control::number;
use super::convert::display;
use super::node::Node;
use super::parse::ExpressionParser;
use super::table::{Arity, Complaint, Function, Named, NamedFunction, Operator, Parameter};
use crate::error::{Code, Error, Result};
use crate::expression::time::{self, Civil, DAY_MS, Zone, days_from_iso_week};
use crate::expression::time::{parse as time_parse, text as time_text};
use crate::expression::value::corrupt;
use bson::RawBsonRef;
use meridian_value::number::Number;

/// A date in ISO 8601 as `$dateToString` writes it when it is not told how.
pub fn iso(millis: i64) -> Result<String> {
    time_text::format(millis, ISO_FORMAT, &Zone::Utc)
}

const ISO_FORMAT: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// A text as a date, for `$toDate`.
pub fn parse_text(text: &str, zone: Option<&Zone>, format: Option<&str>) -> Result<i64> {
    time_parse::parse(text, zone, format)
}

/// The milliseconds of a date, a timestamp or an ObjectId.
pub fn date_millis(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Raw(RawBsonRef::DateTime(date)) => Some(date.timestamp_millis()),
        Value::Raw(RawBsonRef::Timestamp(stamp)) => Some(i64::from(stamp.time) * 1000),
        Value::Raw(RawBsonRef::ObjectId(id)) => Some(id.timestamp().timestamp_millis()),
        _ => None,
    }
}

fn coerced(value: &Value<'_>) -> Result<i64> {
    date_millis(value).ok_or_else(|| {
        Error::location(
            16006,
            format!("can't convert from BSON type {} to Date", value.type_name()),
        )
    })
}

/// The zone of an optional argument; none where it is null.
pub fn zone(argument: Option<&Value<'_>>) -> Result<Option<Zone>> {
    let Some(value) = argument else {
        return Ok(Some(Zone::Utc));
    };
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(text) = value.as_str() else {
        return Err(Error::location(
            40517,
            format!(
                "timezone must evaluate to a string, found {}",
                value.type_name()
            ),
        ));
    };
    named_zone(text).map(Some)
}

fn named_zone(text: &str) -> Result<Zone> {
    Zone::parse(text).ok_or_else(|| {
        Error::location(
            40485,
            format!("unrecognized time zone identifier: \"{text}\""),
        )
    })
}

static PARTS: [Operator; 13] = {
    const fn part(name: &'static str) -> Operator {
        Operator {
            name,
            arity: Arity::Date,
            function: Function::Plain(part_of),
        }
    }
    [
        part("$year"),
        part("$month"),
        part("$dayOfMonth"),
        part("$dayOfWeek"),
        part("$dayOfYear"),
        part("$hour"),
        part("$minute"),
        part("$second"),
        part("$millisecond"),
        part("$week"),
        part("$isoWeek"),
        part("$isoWeekYear"),
        part("$isoDayOfWeek"),
    ]
};

/// `$year` and its like: a date, or `{date, timezone}`.
pub fn parse_part(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let operator = PARTS
        .iter()
        .find(|operator| operator.name == name)
        .expect("the table names only these");
    let arguments = match raw {
        RawBsonRef::Document(document)
            if !document
                .iter()
                .flatten()
                .next()
                .is_some_and(|(key, _)| key.as_str().starts_with('$')) =>
        {
            let (mut date, mut timezone) = (None, None);
            for entry in document.iter() {
                let (key, raw) = entry.map_err(corrupt)?;
                match key.as_str() {
                    "date" => date = Some(parser.operand(raw)?),
                    "timezone" => timezone = Some(parser.operand(raw)?),
                    other => {
                        return Err(Error::location(
                            40535,
                            format!("unrecognized option to {name}: \"{other}\""),
                        ));
                    }
                }
            }
            let Some(date) = date else {
                let provided = crate::text::element(name, raw);
                return Err(Error::location(
                    40539,
                    format!("missing 'date' argument to {name}, provided: {provided}"),
                ));
            };
            std::iter::once(date).chain(timezone).collect()
        }
        RawBsonRef::Array(_) => {
            let arguments = parser.arguments(raw)?;
            if arguments.len() != 1 {
                return Err(Error::location(
                    40536,
                    format!(
                        "{name} accepts exactly one argument if given an array, but was given {}",
                        arguments.len()
                    ),
                ));
            }
            arguments
        }
        other => vec![parser.operand(other)?],
    };
    Ok(Node::Call {
        operator,
        arguments: arguments.into(),
    })
}

fn part_of<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let date = &arguments[0];
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let millis = coerced(date)?;
    let zone = match arguments.get(1) {
        None => Zone::Utc,
        Some(zone) if zone.is_nullish() => return Ok(Value::NULL),
        Some(zone) => match zone.as_str() {
            Some(text) => named_zone(text)?,
            None => {
                return Err(Error::location(
                    40533,
                    format!(
                        "{name} requires a string for the timezone argument, but was given a {} \
                         ({})",
                        zone.type_name(),
                        display(zone)
                    ),
                ));
            }
        },
    };
    let civil = Civil::from_millis(zone.to_local(millis));
    Ok(Value::int_or_long(match name {
        "$year" => civil.year,
        "$month" => civil.month,
        "$dayOfMonth" => civil.day,
        "$dayOfWeek" => civil.day_of_week(),
        "$dayOfYear" => civil.day_of_year(),
        "$hour" => civil.hour,
        "$minute" => civil.minute,
        "$second" => civil.second,
        "$millisecond" => civil.millisecond,
        "$week" => civil.week(),
        "$isoWeek" => civil.iso_week().1,
        "$isoWeekYear" => return Ok(Value::int64(civil.iso_week().0)),
        _ => civil.iso_day_of_week(),
    }))
}

/// `$tsSecond` and `$tsIncrement`.
pub fn timestamp_part<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    match &arguments[0] {
        value if value.is_nullish() => Ok(Value::NULL),
        Value::Raw(RawBsonRef::Timestamp(stamp)) => {
            let part = if name == "$tsSecond" {
                stamp.time
            } else {
                stamp.increment
            };
            Ok(Value::int64(i64::from(part)))
        }
        other => Err(Error::location(
            if name == "$tsSecond" {
                5_687_301
            } else {
                5_687_302
            },
            format!(
                " Argument to {name} must be a timestamp, but is {}",
                other.type_name()
            ),
        )),
    }
}

/// `$dateToString`.
pub fn to_string<'a>(_: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let [date, format, timezone, on_null] = arguments else {
        unreachable!("four parameters")
    };
    let null_format = format.as_ref().is_some_and(Value::is_nullish);
    let text = match format {
        None => None,
        Some(_) if null_format => None,
        Some(format) => Some(format.as_str().map(str::to_owned).ok_or_else(|| {
            Error::location(
                18533,
                format!(
                    "$dateToString requires that 'format' be a string, found: {} with value {}",
                    format.type_name(),
                    display(format)
                ),
            )
        })?),
    };
    let zone = zone(timezone.as_ref())?;
    let date = date.as_ref().expect("a required argument");
    if date.is_nullish() {
        return Ok(on_null.take().unwrap_or(Value::NULL));
    }
    let Some(zone) = zone.filter(|_| !null_format) else {
        return Ok(Value::NULL);
    };
    let millis = coerced(date)?;
    // MongoDB 6.0 writes the `Z` at the end whatever the zone is.
    time_text::format(millis, text.as_deref().unwrap_or(ISO_FORMAT), &zone).map(Value::string)
}

/// `$dateFromString`.
pub fn from_string<'a>(_: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let [text, format, timezone, on_null, on_error] = arguments else {
        unreachable!("five parameters")
    };
    let has_zone = timezone.is_some();
    let pattern = match format {
        Some(format) if !format.is_nullish() => {
            Some(format.as_str().map(str::to_owned).ok_or_else(|| {
                Error::location(
                    40684,
                    format!(
                        "$dateFromString requires that 'format' be a string, found: {} with value \
                         {}",
                        format.type_name(),
                        display(format)
                    ),
                )
            })?)
        }
        _ => None,
    };
    let null_format = format.as_ref().is_some_and(Value::is_nullish);
    let zone = zone(timezone.as_ref())?;
    let text = text.as_ref().expect("a required argument");
    if text.is_nullish() {
        return Ok(on_null.take().unwrap_or(Value::NULL));
    }
    let parsed = match text.as_str() {
        None => Err(Error::new(
            Code::ConversionFailure,
            format!(
                "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
                text.type_name(),
                display(text)
            ),
        )),
        Some(_) if zone.is_none() || null_format => return Ok(Value::NULL),
        Some(text) => {
            time_parse::parse(text, zone.as_ref().filter(|_| has_zone), pattern.as_deref())
        }
    };
    match (parsed, on_error.take()) {
        (Ok(millis), _) => Ok(Value::date(millis)),
        (Err(error), Some(fallback)) if error.code == Code::ConversionFailure => Ok(fallback),
        (Err(error), _) => Err(error),
    }
}

/// `$dateToParts`.
pub fn to_parts<'a>(_: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let [date, timezone, iso8601] = arguments else {
        unreachable!("three parameters")
    };
    let Some(zone) = zone(timezone.as_ref())? else {
        return Ok(Value::NULL);
    };
    let iso = match iso8601 {
        None => false,
        Some(Value::Raw(RawBsonRef::Boolean(iso))) => *iso,
        Some(other) if other.is_nullish() => return Ok(Value::NULL),
        Some(other) => {
            return Err(Error::location(
                40521,
                format!(
                    "iso8601 must evaluate to a bool, found {}",
                    other.type_name()
                ),
            ));
        }
    };
    let date = date.as_ref().expect("a required argument");
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let civil = Civil::from_millis(zone.to_local(coerced(date)?));
    let day = if iso {
        let (year, week) = civil.iso_week();
        [
            ("isoWeekYear", year),
            ("isoWeek", week),
            ("isoDayOfWeek", civil.iso_day_of_week()),
        ]
    } else {
        [
            ("year", civil.year),
            ("month", civil.month),
            ("day", civil.day),
        ]
    };
    let time = [
        ("hour", civil.hour),
        ("minute", civil.minute),
        ("second", civil.second),
        ("millisecond", civil.millisecond),
    ];
    let fields = day.into_iter().chain(time);
    Ok(Value::document(
        fields
            .map(|(name, part)| (name.into(), Value::int_or_long(part)))
            .collect(),
    ))
}

const fn part(name: &'static str) -> Parameter {
    Parameter {
        name,
        missing: None,
    }
}

static FROM_PARTS: Named = Named {
    name: "$dateFromParts",
    parameters: &[
        part("hour"),
        part("minute"),
        part("second"),
        part("millisecond"),
        part("timezone"),
        part("year"),
        part("month"),
        part("day"),
        part("isoWeekYear"),
        part("isoWeek"),
        part("isoDayOfWeek"),
    ],
    unknown: Complaint(40518, "Unrecognized argument to $dateFromParts: {arg}"),
    not_object: Complaint(
        40519,
        "$dateFromParts only supports an object as its argument",
    ),
    function: NamedFunction::Plain(from_parts),
};

/// `$dateFromParts`.
pub fn parse_from_parts(
    parser: &mut ExpressionParser<'_>,
    _: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let RawBsonRef::Document(document) = raw else {
        return Err(FROM_PARTS.not_object.error(FROM_PARTS.name, "", ""));
    };
    let mut arguments: Vec<Option<Node>> = FROM_PARTS.parameters.iter().map(|_| None).collect();
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        let place = FROM_PARTS
            .parameters
            .iter()
            .position(|known| known.name == key.as_str());
        let Some(place) = place else {
            return Err(FROM_PARTS.unknown.error(FROM_PARTS.name, key.as_str(), ""));
        };
        arguments[place] = Some(parser.operand(raw)?);
    }
    let [.., year, _, _, iso_year, _, _] = &arguments[..] else {
        unreachable!("eleven parameters")
    };
    let natural = arguments[5..8].iter().any(Option::is_some);
    let iso = arguments[8..].iter().any(Option::is_some);
    if year.is_none() && iso_year.is_none() {
        return Err(Error::location(
            40516,
            "$dateFromParts requires either 'year' or 'isoWeekYear' to be present",
        ));
    }
    if natural && iso {
        return Err(if year.is_some() {
            Error::location(
                40489,
                "$dateFromParts does not allow mixing natural dates with ISO dates",
            )
        } else {
            Error::location(
                40525,
                "$dateFromParts does not allow mixing ISO dates with natural dates",
            )
        });
    }
    Ok(Node::Named {
        operator: &FROM_PARTS,
        arguments: arguments.into(),
    })
}

/// In the order in which MongoDB looks at the parts: the time, the zone, the day. A null part ends it.
fn from_parts<'a>(_: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    date_of_parts(arguments).map(|millis| millis.map_or(Value::NULL, Value::date))
}

fn date_of_parts(arguments: &[Option<Value<'_>>]) -> Result<Option<i64>> {
    let overflow = || {
        Error::new(
            Code::DurationOverflow,
            "Overflow casting from a lower-precision duration to a higher-precision duration",
        )
    };
    let Some([hour, minute, second, millisecond]) = parts(arguments, [0, 1, 2, 3])? else {
        return Ok(None);
    };
    let Some(zone) = zone(arguments[4].as_ref())? else {
        return Ok(None);
    };
    let first = if arguments[8].is_some() { 8 } else { 5 };
    let Some([year, month, day]) = parts(arguments, [first, first + 1, first + 2])? else {
        return Ok(None);
    };
    check_year(first, year)?;
    let rest = second.checked_mul(1000).ok_or_else(overflow)?;
    let rest = rest.checked_add(millisecond).ok_or_else(overflow)?;
    let days = match first {
        8 => days_from_iso_week(year, month, day),
        _ => time::days_from_civil(year, month, day),
    };
    let local = days * DAY_MS + hour * time::HOUR_MS + minute * time::MINUTE_MS;
    let local = local.checked_add(rest).ok_or_else(overflow)?;
    Ok(Some(zone.to_utc(local, zone.default_clock())))
}

/// The parts at these places in turn; none once one is null.
fn parts<const COUNT: usize>(
    arguments: &[Option<Value<'_>>],
    places: [usize; COUNT],
) -> Result<Option<[i64; COUNT]>> {
    let mut parts = [0; COUNT];
    for (part, place) in parts.iter_mut().zip(places) {
        match &arguments[place] {
            Some(value) if value.is_nullish() => return Ok(None),
            Some(value) => *part = part_at(place, value)?,
            None => {
                *part = match place {
                    5 | 8 => 1970,
                    6.. => 1,
                    _ => 0,
                };
            }
        }
    }
    Ok(Some(parts))
}

fn part_at(place: usize, value: &Value<'_>) -> Result<i64> {
    let name = FROM_PARTS.parameters[place].name;
    let Some(part) = number(value).and_then(Number::to_i64_exact) else {
        return Err(Error::location(
            40515,
            format!(
                "'{name}' must evaluate to an integer, found {} with value {}",
                value.type_name(),
                display(value)
            ),
        ));
    };
    // Seconds, milliseconds and years have bounds of their own.
    if matches!(place, 2 | 3 | 5 | 8) || i16::try_from(part).is_ok() {
        return Ok(part);
    }
    Err(Error::location(
        31034,
        format!(
            "'{name}' must evaluate to a value in the range [-32768, 32767]; value {part} is \
             not in range"
        ),
    ))
}

fn check_year(place: usize, year: i64) -> Result<()> {
    if (1..=9999).contains(&year) {
        return Ok(());
    }
    let name = FROM_PARTS.parameters[place].name;
    Err(Error::location(
        if place == 8 { 31095 } else { 40523 },
        format!("'{name}' must evaluate to an integer in the range 1 to 9999, found {year}"),
    ))
}
