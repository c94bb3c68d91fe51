"""Texts as dates: `$dateFromString` without a format and with a zone in it, against mongod.

A table of what timelib's documentation describes and of what people store, with their errors; seeded random
texts of the same pieces; and texts longer than any date, which are refused without being read.

MERIDIAN_DATES_SEED repeats a run, MERIDIAN_DATES_TEXTS changes its size.
"""

import os
import random
import re
import time

import pytest
from harness.cases import Case, compare_command

SEED = int(os.environ.get("MERIDIAN_DATES_SEED", "20221"))
TEXTS = int(os.environ.get("MERIDIAN_DATES_TEXTS", "6000"))

# Not here: `+9999999999999999999-02-24`, a year beyond 64 bits, which mongod reads as the year -1 (and refuses for
# one digit less).
SHAPES = [
    "2022-02-24T14:13:00,5Z", "2022-02-24T14:13:00+25:00", "2022-02-24T14:13:00+24:00", "2022-02-24T14:13:00+24:59",
    "2022-02-24T14:13:00+9", "Thu, 24 Feb 2022 14:13:00 +0100", "Thu, 24 Feb 2022 14:13:00 GMT",
    "Thu Feb 24 14:13:00 2022", "Thu Feb 24 14:13:00 UTC 2022", "Thu Feb  4 14:13:00 2022",
    "Mon, 24 Feb 2022 14:13:00 +0100", "24/Feb/2022:14:13:00 +0100", "2022-Feb-24", "Feb-24-2022", "24-Feb-2022",
    "24-Feb-22", "2/24/22", "2/24/2022", "2/24", "2/24/22 14:13", "2022.055", "2022055", "2022-055",
    "2022-02-24 2:13 PM", "2022-02-24 2:13:00 p.m.", "2022-02-24 2pm", "24.2.2022", "24.2.22", "24.02.22 14:13",
    "24-2-2022", "22-02-24", "022-02-24", "2022-2-4", "2022/2/4", "2022/02/24/", "20220224", "20220224T141300",
    "20220224T141300Z", "20220224T14:13:00", "20220224t1413", "2022-02-24T14", "2022-02-24T14Z", "2022-02-24T14:13",
    "2022-02-24 14:13Z", "2022-02-24T14:13:00.123456789Z", "2022-02-24T14:13:00.1", "2022-02-24T14:13:00.123456 +01",
    "2022:02:24 14:13:00", "2022W084", "2022-W08-4", "2022-W08", "2022W08T14:13", "@1645712000", "@-5",
    "@1645712000.123456", "@1645712000.5", "Feb 2022", "February 24, 2022", "24 II 2022", "24 February 2022",
    "24th of February 2022", "2022 Feb", "2022 February 24", "2022", "2022-02", "14:13", "tomorrow", "now",
    "2022-02-24 tomorrow", "2022-02-24 +1 day", "2022-02-24 1 month ago", "2022-02-24 noon",
    "first day of February 2022", "last day of feb 2022", "last day of 2022-02", "Monday 2022-02-24",
    "2022-02-24 next monday", "2022-02-24T24:00:00", "2022-02-24T14:13:60", "2022-02-24T14:60", "2022-02-30",
    "2022-13-01", "2022-00-10", "2022-02-00", "Thu Feb 24 2022 14:13:00 GMT+0100 (Central European Standard Time)",
    "Thu Feb 24 2022 14:13:00 GMT+0100 (CET)", "2022-02-24T14:13:00 Europe/Berlin", "2022-02-24T14:13:00 CET",
    "2022-02-24T14:13:00 (CET)", "2022-02-24T14:13:00 EST", "2022-02-24T14:13:00 EDT", "2022-02-24T14:13:00 A",
    "2022-02-24T14:13:00 IST", "2022-02-24T14:13:00 JST", "2022-02-24T14:13:00 XYZ", "2022-02-24T14:13:00Z+1",
    "2022-02-24T14:13:00ZZ", "2022-02-24 14.13.00", "+2022-02-24", "-2022-02-24", "12022-02-24",
    "+012022-02-24T00:00:00Z", "2022-02-24T14:13:00.Z", "2022-02-24T14:13:00 +01:00:00", "2022-02-24T14:13:00-0",
    "2022-02-24T14:13:00GMT-5", "2022-02-24 back of 7pm", "third friday of february 2022",
    "2022-02-24 14:13 2022-02-24", "2022-02-24 14:13 15:15", "24 Feb", "Feb 24", "Feb 24 14:13",
    "Feb 24, 2022 2:13 PM", "Feb 24 2022 2:13:00:500PM", "2:13:00.500PM 2022-02-24", "  2022-02-24  ", "2022-02-24\n",
    "2022-02-24,14:13", "2022-02-24;14:13", "2022-02-24_14:13", "xx", "yesterday?", "weekdays",
    "2022-02-24 +2 weekdays", "2022-02-24 next month", "2022-02-24 sat", "2022-02-24 this week",
    "2022-02-24 last day", "2022-02-24 eighth day", "00:00:00 2022-02-24", "1413 2022-02-24", "2022-02-24 1413",
    "2022-02-24 141300", "2022-02-24 14", "Feb 2022 14:13", "sept 5 2022", "5 sept. 2022", "Sep 2022", "5 V 2022",
    "1/2/3", "1/2/99", "1/2/70", "1/2/69", "0/0/00", "32/1/2022", "2022-366", "2020-366", "2020366", "2020.366",
    "2022000", "12:13:14:155am 2022-02-24", "2022-02-24T14:13:00.123Z", "2022-02-24T14:13:00Z",
    "2022-02-24T14:13:00.123+01:00", "2022-02-24T14:13:00.123+0100", "2022-02-24t14:13:00z", "2022-02-24 14:13:00 PM",
    "13pm 2022-02-24", "2022-02-24 12am", "2022-02-24 12 a.m", "2022-02-24 midnight", "today 2022-02-24",
    "2022-02-24 now", "May-09-78", "78-Dec-22", "1814-MAY-17", "5/17/2006", "30-6-2008", "22.12.78", "22\t12.78",
    "30 June 2008", "22DEC78", "14 III 1879", "June 2008", "DEC1978", "March 1879", "July 1st, 2008",
    "April 17, 1790", "May.9,78", "July 1st,", "Apr 17", "1 July", "17 Apr", "9.May", "May", "2008 June", "1978",
    "08-06-30", "+1978-04-17", "1978-W01-3", "08:37 am 2022-02-24", "0408 2022-02-24", "t0222 2022-02-24",
    "020000 2022-02-24", "04:08:37,81412 2022-02-24", "04:08:37:81412am 2022-02-24", "noon 2022-02-24",
    "2022-02-24T14:13:00.123 UTC", "2022-02-24T14:13:00.123 utc", "Thu, 24-Feb-22 14:13:00 GMT",
    "Thursday, 24-Feb-22 14:13:00 UTC", "2022-02-24 00:00:00.000000000 +0000 UTC", "1e3", "12345", "1234567",
    "123456789", "12345678901", "1645712000000", "2022-02-24T14:13:00.000-00:00", "12.12.12", "12.12.2012 12.12",
    "12-12-12", "2022-02-24T", "T14:13", "2022-1", "20221", "202202", "2022-02-24T14:13:00 PST", "PDT 2022-02-24",
    "2022-02-24Z", "2022-02-24 Z", "2022-02-24+01:00", "2022-02-24 +01:00", "2022-02-24 -0500", "2022-02-24 +010000",
    "2022-02-24 +01:00:30", "2022-02-24 +1:0:0", "2022-02-24 +123", "2022-02-24 +12345", "2022-02-24 +1:3",
    "2022-02-24 +25", "2022-02-24 +01:", "2022-02-24 \x00 x", "2022-02-24 1 µs ago", "2022-02-24 2 ms ago", "@5.0012",
    "@5 +1 hour", "@-5.25", "@5 2022-02-24", "2022-02-24 99999999999999 days", "2022-02-24 9999999999999 days",
    "2022-02-24 999999 years", "+99999999-02-24", "@99999999999999999999999999", "@9223372036854775807",
    "@9999999999999", "@99999999999999999", "2022-02-24 GMT", "2022-02-24 (GMT+1)", "2022-02-24 gmt+1", "", "   ",
    "\n", "24 Feb 29", "29 Feb 2021", "2022-02-24 14:13 CET CEST", "2022-02-24 14:13 CET CEST EST PST",
    "2022-02-30 25:00", "2022-02-24 24:00 24:00", "2022-02-30 ?", "2022-01-31 +1 month", "2022-01-31 +1 month ago",
    "2020-02-29 +1 year", "2020-02-29 -1 years", "2022-02-24 -3 weekdays", "2022-02-26 2 weekdays ago",
    "2022-02-24 fortnight", "2022-02-24 2 fortnights", "2022-02-24 +1 monday", "2022-02-24 -2 monday",
    "2022-02-24 monday ago", "2022-02-24 last friday of", "last friday of february 2022",
    "first monday of january 2023", "monday next week 2022-02-24", "2022-02-24 last week",
    "2022-02-24 sunday this week", "2022-02-27 this week", "2022-02-24 + 1 day", "2022-02-24 +-+1 day",
    "2022-02-24 1.5 days", "2022-02-24 twelfth month", "first day of next month 2022-02-24",
    "last day of 2020-02 14:13", "2022-02-24 front of 7pm", "2022-02-24 back of 23", "2022-02-24 Back of 7",
    "2022-02-24T14:13:00.5+01:00 CET", "Sun Feb 27 2022 10:00:00 GMT-0800", "2022-02-24T14:13:00.999999999",
    "2022-02-24T14:13:00.9999999", "2022-02-24T14:13:00.0005Z", "0000-01-01", "0001-01-01",
    "9999-12-31T23:59:59.999Z", "1900-02-29", "2000-02-29", "Feb 24 14:13:00 CET", "Feb 24 2:13pm",
    "Feb 24 2:13:00pm 2022", "Feb 24 14.13.00 2022", "14:13:00.500 24 Feb 2022", "2022-02-24 00:00:00 +0000",
    "2022-02-24 00:00:00 +0000 (UTC)", "Thu, 24 Feb 2022 14:13:00 +0100 (CET)", "Thu, 24 Feb 22 14:13:00 EST",
    "Thursday, 24 February 2022 14:13:00 UTC", "2022-02-24T14:13:00z", "20220224T141300.500Z", "2022/02/24 14:13:00",
    "24/02/2022", "02/24/2022 02:13 PM", "02-24-2022", "2022.02.24", "2022.2.24", "24. Feb 2022", "Feb. 24 2022",
    "24th Feb 2022", "2nd January 2022", "Jan 2nd", "1st of May 2022", "2022-02-24T14:13:00 +01:00 +02:00",
    "2022-02-24T14:13:00.+01:00", "2022-W60", "2022-W00", "2022W537", "2022-W08-9", "2022-02-24 at 14:13",
    "2022-02-24 14h13", "24 févr. 2022", "２０２２-02-24", "2022−02−24", "+24 hours", "2022-02-24 -24 hours",
    "T24:00 2022-02-24", "2022-02-24T23:59:60Z", "22/2/24", "2022/2", "1/1/1", "12/31/1969", "31/12/1969",
    "noon tomorrow 2022-02-24", "2022-02-24 noon noon", "2022-02-24 14:13 noon", "2022-02-24 eighth day ago",
    "2022-02-24 first day", "2022-02-24 next year", "2022-02-24 previous month", "2022-02-24 this month",
]  # fmt: skip

# A zone in the text, with a format and beside a zone as an argument.
ZONES = [
    "+", "+25:00", "XX", "Europe/Berlin", "CEST", "(CET)", "+12345", "+1", "-1:30", "Z", "z", "+01:00x", " +01", "+99:99",
    "+9999", "GMT+2", "GMT", "gmt-1", "UTC", "utc", "EST", "pdt", "A", "j", "IST", "BST", "(+01:00)", "+01:00:30", "+010030",
]  # fmt: skip


def milliseconds(options):
    return {"$toLong": {"$dateFromString": options}}


def ask_all(pair, texts, expression):
    """One expression of each text's document by itself, so that errors are compared too."""
    for server in (pair.subject, pair.oracle):
        server.client["dates"]["shapes"].drop()
        server.client["dates"]["shapes"].insert_many([{"_id": number, "text": text} for number, text in enumerate(texts)])
    different = []
    for number, text in enumerate(texts):
        # mongod shows single bytes of characters beyond ASCII: its message is not UTF-8.
        differs = None if text.isascii() else "characters beyond ASCII"
        case = Case(name="text", commands=[], database="dates", message_differs=differs)
        pipeline = [{"$match": {"_id": number}}, {"$project": {"date": expression}}]
        try:
            compare_command(pair.subject, pair.oracle, case, {"aggregate": "shapes", "pipeline": pipeline, "cursor": {}})
        except AssertionError as mismatch:
            different.append(f"{text!r}: {mismatch}")
    assert not different, "\n".join([f"{len(different)} differ", *different])


@pytest.mark.parametrize("part", range(8))
def test_shapes(pair, part):
    ask_all(pair, SHAPES[part::8], milliseconds({"dateString": "$text"}))


@pytest.mark.parametrize("name", ["argument", "format", "to_date", "on_error"])
def test_zones_in_texts(pair, name):
    ask_all(pair, [f"2022-02-24 {zone}" for zone in ZONES], {
        "argument": milliseconds({"dateString": "$text", "timezone": "America/New_York"}),
        "format": milliseconds({"dateString": "$text", "format": "%Y-%m-%d %z"}),
        "to_date": {"$toLong": {"$toDate": "$text"}},
        "on_error": {"$dateFromString": {"dateString": "$text", "onError": "refused"}},
    }[name])  # fmt: skip


def random_text(chance):
    digits = lambda low, high: str(chance.randint(low, high))  # noqa: E731
    month = lambda: chance.choice(["Jan", "february", "MAR", "Sept", "oct", "December", "V", "XII", "may"])  # noqa: E731
    two = lambda high: f"{chance.randint(0, high):02}"  # noqa: E731
    dates = [
        lambda: f"{digits(1900, 2100)}-{two(13)}-{two(32)}",
        lambda: f"{digits(1, 13)}/{digits(1, 32)}/{digits(0, 2100)}",
        lambda: f"{digits(0, 32)}{chance.choice(['.', '-', ' ', '', '/'])}{month()}{chance.choice(['.', '-', ' ', ''])}{digits(0, 2100)}",
        lambda: f"{month()}{chance.choice([' ', '.', '-', ''])}{digits(1, 32)}{chance.choice(['st', 'th,', ', ', ' '])}{digits(0, 2100)}",
        lambda: f"{digits(1900, 2100)}{chance.choice(['-', ''])}W{two(54)}{chance.choice(['', '-3', '7'])}",
        lambda: f"{digits(1900, 2100)}{two(12)}{two(31)}",
        lambda: f"{digits(0, 32)}.{digits(0, 13)}.{digits(0, 2100)}",
        lambda: f"@{chance.choice(['', '-'])}{digits(0, 2_000_000_000)}",
        lambda: f"{digits(0, 31)}/{month()[:3]}/{digits(1990, 2030)}:{two(24)}:{two(60)}:{two(60)} +0{digits(0, 9)}00",
        lambda: f"{month()} {digits(0, 2100)}",
        lambda: f"{digits(1900, 2100)}{chance.choice(['.', '-', ''])}{two(36)}{digits(0, 9)}",
    ]
    times = [
        lambda: f"{digits(0, 25)}:{two(60)}",
        lambda: f"{two(24)}:{two(60)}:{two(61)}{chance.choice(['', '.5', '.123456789', ',5', ':250'])}",
        lambda: f"{digits(0, 13)}{chance.choice(['', ':30', '.15.20'])}{chance.choice([' ', ''])}{chance.choice(['am', 'PM', 'p.m.', 'a.m'])}",
        lambda: f"T{two(24)}{chance.choice(['', ':'])}{two(60)}",
        lambda: f"{two(24)}{two(59)}{two(59)}",
        lambda: chance.choice(["noon", "midnight", "today", "now", "tomorrow", "back of 7pm", "front of 5"]),
    ]
    zones = [
        lambda: chance.choice(["Z", "UTC", "CET", "(EST)", "pst", "Q", "XYZ", "Europe/Berlin", "GMT+1", "GMT-0330"]),
        lambda: f"{chance.choice('+-')}{chance.choice(['1', '02', '0330', '04:30', '5:45', '25', '061500', '07:15:30', '24:00'])}",
    ]
    steps = [
        lambda: f"{chance.choice(['+', '-', '', '+ ', '--'])}{digits(0, 40)} {chance.choice(UNITS)}{chance.choice(['', 's'])}",
        lambda: f"{chance.choice(COUNTS)} {chance.choice(UNITS)}",
        lambda: chance.choice(["ago", "monday", "Sat", "tuesday", "weekday", "this week", "next week", "first day of", "last day of"]),
        lambda: f"{chance.choice(COUNTS)} {chance.choice(['fri', 'sunday', 'Mon'])} of",
    ]
    kinds = [dates, dates, times, times, zones, steps, steps]
    pieces = [chance.choice(dates)()] + [chance.choice(chance.choice(kinds[2:]))() for _ in range(chance.choice([0, 1, 1, 2, 2, 3]))]
    if chance.random() < 0.15:
        chance.shuffle(pieces)
    text = "".join(piece + chance.choice([" ", " ", " ", " ", ", ", "T", "", "\t"]) for piece in pieces)
    return text.rstrip() if chance.random() < 0.9 else text + chance.choice(["?", "x", "\n", ".", "-", "  "])


UNITS = [
    "day", "week", "month", "year", "hour", "min", "minute", "sec", "second", "ms", "usec", "fortnight", "weekday", "monday",
    "thu", "Friday",
]  # fmt: skip
FAR_STEP = re.compile(r"\d{7,}\s*(?!t\d|z)[a-z]|\d{11}", re.IGNORECASE)
COUNTS = ["first", "second", "third", "eighth", "twelfth", "next", "last", "previous", "this"]


def test_random_texts(pair):
    chance = random.Random(SEED)
    # Eight digits with a unit behind them are a step of thousands of years, and the error of that ends a command.
    texts = [text for text in (random_text(chance) for _ in range(TEXTS)) if not FAR_STEP.search(text)]
    answers = []
    for server in (pair.oracle, pair.subject):
        collection = server.client["dates"]["texts"]
        collection.drop()
        collection.insert_many([{"_id": number, "text": text} for number, text in enumerate(texts)])
        date = {"$dateFromString": {"dateString": "$text", "onError": "refused"}}
        number = {"$cond": [{"$eq": [date, "refused"]}, "refused", {"$subtract": [date, {"$toDate": {"$toLong": 0}}]}]}
        answers.append([row["date"] for row in collection.aggregate([{"$sort": {"_id": 1}}, {"$project": {"date": number}}])])
    different = [
        f"{text!r}: mongod {theirs}, here {ours}" for text, theirs, ours in zip(texts, *answers) if theirs != ours
    ]
    assert sum(answer == "refused" for answer in answers[0]) < 0.8 * len(texts)
    assert not different, "\n".join([f"{len(different)} differ (seed {SEED})", *different[:40]])


@pytest.mark.parametrize("piece", [" ", "1", "1 ", "-", "+1 day ", "Feb ", "x", "2022-02-24 ", "(", "\0", "1.", "é"])
def test_texts_longer_than_any_date(subject, piece):
    """Refused by their length, so their pieces are never looked at; at the limit they are read in no time."""
    collection = subject.client["dates"]["long"]
    for size in (250, 1_000_000):
        collection.drop()
        collection.insert_one({"text": ("2022-02-24" + piece * size)[:size] + "?"})
        started = time.monotonic()
        date = {"$dateFromString": {"dateString": "$text", "onError": "refused"}}
        assert list(collection.aggregate([{"$project": {"_id": 0, "date": date}}])) == [{"date": "refused"}]
        assert time.monotonic() - started < 1
