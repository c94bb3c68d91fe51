"""Local times that do not exist or come twice, in all date operators, against mongod.

mongod itself says when the clocks of a zone change. Around each change local times are read back, instants
are moved, cut to bins, counted and written, a few thousand in each command. Where mongod is surprising
(Havana's clocks are set back to midnight, and of that hour, which comes twice, it takes the second), it is
surprising by the same rule as elsewhere, so no zone is left out.
"""

import datetime


import pytest

MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# Both sides of Greenwich and of the equator; half hours (Lord Howe, St Johns, Tehran); midnights skipped
# (Beirut, Sao Paulo, Asuncion, Santiago, Gaza, Amman) and whole days (Apia); clocks set back for a month of
# summer (Casablanca) or by two hours (Troll); an offset changed for good (Moscow, Istanbul, Caracas).
ZONES = [
    "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "Europe/Istanbul", "America/New_York",
    "America/Los_Angeles", "America/St_Johns", "America/Sao_Paulo", "America/Santiago", "America/Asuncion",
    "America/Caracas", "Asia/Beirut", "Asia/Amman", "Asia/Gaza", "Asia/Tehran", "Africa/Cairo", "Africa/Casablanca",
    "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Auckland", "Pacific/Apia", "Antarctica/Troll",
    "America/Havana", "America/Godthab", "America/Port-au-Prince", "Atlantic/Azores", "Atlantic/Stanley",
]  # fmt: skip
# Later changes depend on the edition of the zone database that each server brings along.
BEGIN_MS, END_MS = 1_262_304_000_000, 1_577_836_800_000  # 2010 to 2019

AROUND_MINUTES = [-1500, -180, -120, -90, -60, -45, -30, -1, 0, 1, 15, 30, 59, 60, 61, 90, 120, 180, 1500]


def compute(server, documents, fields):
    """Fields computed from documents, in their order."""
    collection = server.client["zones"]["instants"]
    collection.drop()
    collection.insert_many([{**document, "_id": number} for number, document in enumerate(documents)])
    return list(collection.aggregate([{"$sort": {"_id": 1}}, {"$project": fields}]))


def moments(millis):
    return {"$toDate": {"$toLong": millis}}


def offsets(server, instants):
    offset = {"$dateToString": {"date": moments("$at"), "timezone": "$zone", "format": "%Z"}}
    rows = compute(server, [{"zone": zone, "at": at} for zone, at in instants], {"minutes": {"$toInt": offset}})
    return [row["minutes"] * MINUTE_MS for row in rows]


@pytest.fixture(scope="module")
def changes(_oracle):
    """(zone, first instant of the new offset, old offset, new offset), found by bisection, all at once."""
    starts = range(BEGIN_MS, END_MS, 4 * DAY_MS)
    instants = [(zone, at) for zone in ZONES for at in starts]
    found = offsets(_oracle, instants)
    open_ranges = [
        [zone, at, at + 4 * DAY_MS, old, new]
        for (zone, at), (other, _), old, new in zip(instants, instants[1:], found, found[1:])
        if zone == other and old != new
    ]
    while any(high - low > MINUTE_MS for _, low, high, _, _ in open_ranges):
        middles = [(low + high) // 2 // MINUTE_MS * MINUTE_MS for _, low, high, _, _ in open_ranges]
        measured = offsets(_oracle, [(entry[0], middle) for entry, middle in zip(open_ranges, middles)])
        for entry, middle, offset in zip(open_ranges, middles, measured):
            entry[1 if offset == entry[3] else 2] = middle
    assert len(open_ranges) > 300
    return [(zone, high, old, new) for zone, _, high, old, new in open_ranges]


def compare(subject, oracle, documents, fields):
    """Both answers to thousands of expressions; a few of those that differ, and how many."""
    expected, actual = (compute(server, documents, fields) for server in (oracle, subject))
    different = [
        f"{documents[number]}, {name}: mongod {theirs.get(name)}, here {ours.get(name)}"
        for number, (theirs, ours) in enumerate(zip(expected, actual))
        for name in fields
        if theirs.get(name) != ours.get(name)
    ]
    assert len(expected) == len(actual) == len(documents)
    assert not different, "\n".join([f"{len(different)} differ", *different[:10]])


def civil(local):
    """The parts of a local time, as documents of `$dateFromParts` and `$dateFromString` want them."""
    parts = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=local)
    names = ("year", "month", "day", "hour", "minute", "second")
    return {name: getattr(parts, name) for name in names} | {"text": parts.strftime("%Y-%m-%dT%H:%M:%S")}


def test_local_times_to_instants(subject, oracle, changes):
    """`$dateFromParts`, `$dateFromString` and parts beyond their range."""
    documents = [
        {"zone": zone, **civil(at + offset + minutes * MINUTE_MS + seconds * 1000)}
        for zone, at, old, new in changes
        for offset in {old, new}
        for minutes in AROUND_MINUTES
        for seconds in ((0, 59) if minutes in (-1, 59) else (0,))
    ]
    assert len(documents) > 4500
    names = ("year", "month", "day", "hour", "minute", "second")
    parts = {name: f"${name}" for name in names} | {"timezone": "$zone"}
    later = parts | {"second": {"$add": ["$second", 3 * 3600]}}
    earlier = parts | {"hour": {"$subtract": ["$hour", 25]}, "millisecond": -1}
    text = {"dateString": "$text", "timezone": "$zone"}
    compare(subject, oracle, documents, {
        "parts": {"$dateFromParts": parts},
        "later": {"$dateFromParts": later},
        "earlier": {"$dateFromParts": earlier},
        "text": {"$dateFromString": text},
        "format": {"$dateFromString": text | {"format": "%Y-%m-%dT%H:%M:%S"}},
    })  # fmt: skip


def around(changes):
    return [
        {"zone": zone, "at": at + minutes * MINUTE_MS} for zone, at, _, _ in changes for minutes in AROUND_MINUTES
    ]


def test_adding_up_to_a_change(subject, oracle, changes):
    """From far away to beside a change, and from beside it away."""
    steps = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS, "month": 30 * DAY_MS, "year": 365 * DAY_MS}
    fields, far = {}, {}
    for unit, length in steps.items():
        for amount in (-1, 2):
            date = {"startDate": moments("$at"), "unit": unit, "amount": amount, "timezone": "$zone"}
            fields[f"add_{unit}_{amount}"] = {"$dateAdd": date}
            fields[f"subtract_{unit}_{amount}"] = {"$dateSubtract": date}
            back = moments({"$subtract": ["$at", amount * length]})
            far[f"far_{unit}_{amount}"] = {"$dateAdd": date | {"startDate": back}}
    documents = around(changes)[::2]
    compare(subject, oracle, documents, fields)
    compare(subject, oracle, documents, far)


@pytest.mark.parametrize("bin_size", [1, 2, 5])
def test_bins_at_a_change(subject, oracle, changes, bin_size):
    fields = {
        unit: {"$dateTrunc": {"date": moments("$at"), "unit": unit, "binSize": bin_size, "timezone": "$zone"}}
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    }
    compare(subject, oracle, around(changes), fields)


def test_boundaries_across_a_change(subject, oracle, changes):
    documents = [
        document | {"end": document["at"] + minutes * MINUTE_MS}
        for document in around(changes)[::2]
        for minutes in (-1500, -61, -30, 1, 45, 60, 90, 1440, 500_000)
    ]
    fields = {
        unit: {"$dateDiff": {"startDate": moments("$at"), "endDate": moments("$end"), "unit": unit, "timezone": "$zone"}}
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
    }
    compare(subject, oracle, documents, fields)


def test_instants_to_local_times(subject, oracle, changes):
    date = {"date": moments("$at"), "timezone": "$zone"}
    names = ("year", "dayOfMonth", "dayOfYear", "dayOfWeek", "hour", "minute", "isoWeek", "isoDayOfWeek", "week")
    compare(subject, oracle, around(changes), {
        "text": {"$dateToString": date | {"format": "%Y-%m-%dT%H:%M:%S.%L %z %Z %j %u %V"}},
        "parts": {"$dateToParts": date},
        "iso": {"$dateToParts": date | {"iso8601": True}},
        **{name: {f"${name}": date} for name in names},
    })  # fmt: skip


def test_groups_agree_with_expressions(subject, changes):
    """Groups counted from an index are those of the bins computed for each document."""
    collection = subject.client["zones"]["grouped"]
    collection.drop()
    zones = ("Asia/Beirut", "America/Asuncion", "America/New_York", "Australia/Lord_Howe")
    rows = [entry["at"] for entry in around([change for change in changes if change[0] in zones])]
    collection.insert_many([{"at": at} for at in rows])
    collection.update_many({}, [{"$set": {"at": {"$toDate": {"$toLong": "$at"}}}}])
    collection.create_index("at")
    for zone in zones:
        for unit in ("year", "month", "week", "day", "hour"):
            bins = {"$dateTrunc": {"date": "$at", "unit": unit, "timezone": zone}}
            group = [{"$group": {"_id": bins, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
            counted = list(collection.aggregate(group))
            assert counted == list(collection.aggregate(group, hint={"$natural": 1})), (zone, unit)
