"""Which argument of an operator decides, where one is null, one of no use to it and one fails: all combinations.

mongod looks at an argument of most operators before it evaluates the next, so that `{$add: ["$null", {$divide: [1, 0]}]}`
is null; others evaluate all of theirs first. Its optimizer joins known arguments and, where order does not matter, puts
them last, which shows in what fails first and in the last digit of a product; updates are not optimized.
"""

import datetime
import itertools
import os
import random

import bson
import pytest
from harness import cases

SEED = int(os.environ.get("MERIDIAN_SEED", "26"))
FAILS = {"$divide": [1, "$zero"]}
DOCUMENT = {
    "_id": 1, "zero": 0, "one": 1, "two": 2, "s": "abc", "d": datetime.datetime(2020, 1, 1), "a": [1, 2], "b": [2, 3], "wrong": True,
    "null": None, "o": {"x": 1}, "unit": "day", "format": "%Y", "zone": "UTC", "letter": "b", "int": "int", "text": "2020-01-01", "true": True,
}  # fmt: skip
IN_A_ROW = {
    "$add": [["$one", "$two"], ["$one", "$d", "$two"]], "$subtract": [["$one", "$two"], ["$d", "$one"], ["$d", "$d"]],
    "$multiply": [["$one", "$two"], ["$one", "$two", "$one"]], "$divide": [["$one", "$two"]], "$mod": [["$one", "$two"]],
    "$log": [["$one", "$two"]], "$pow": [["$one", "$two"]], "$round": [["$one", "$two"]], "$trunc": [["$one", "$two"]],
    "$atan2": [["$one", "$two"]], "$sum": [["$one", "$two"]], "$avg": [["$one", "$two"]], "$min": [["$one", "$two"]],
    "$max": [["$one", "$two"]], "$stdDevPop": [["$one", "$two"]], "$concat": [["$s", "$s", "$s"]],
    "$substrBytes": [["$s", "$one", "$two"]], "$substrCP": [["$s", "$one", "$two"]], "$strcasecmp": [["$s", "$s"]],
    "$indexOfBytes": [["$s", "$s"], ["$s", "$s", "$one"], ["$s", "$s", "$one", "$two"]],
    "$indexOfCP": [["$s", "$s"], ["$s", "$s", "$one"], ["$s", "$s", "$one", "$two"]], "$split": [["$s", "$s"]],
    "$arrayElemAt": [["$a", "$one"]], "$slice": [["$a", "$one"], ["$a", "$one", "$two"]], "$concatArrays": [["$a", "$b", "$a"]],
    "$in": [["$one", "$a"]], "$indexOfArray": [["$a", "$two"], ["$a", "$two", "$one"], ["$a", "$two", "$one", "$two"]],
    "$range": [["$one", "$two"], ["$one", "$two", "$one"]], "$mergeObjects": [["$o", "$o", "$o"]], "$setUnion": [["$a", "$b", "$a"]],
    "$setIntersection": [["$a", "$b", "$a"]], "$setDifference": [["$a", "$b"]], "$setEquals": [["$a", "$b", "$a"], ["$a", "$a"]],
    "$setIsSubset": [["$a", "$b"]], "$eq": [["$one", "$two"]], "$cmp": [["$one", "$two"]], "$ifNull": [["$one", "$two", "$one"]],
    "$and": [["$true", "$true", "$true"]], "$or": [["$zero", "$zero", "$zero"]],
}  # fmt: skip
BY_NAME = {
    "$trim": {"input": "$s", "chars": "$s"}, "$replaceOne": {"input": "$s", "find": "$s", "replacement": "$s"},
    "$regexMatch": {"input": "$s", "regex": "$letter", "options": "$letter"}, "$regexFindAll": {"input": "$s", "regex": "$letter"},
    "$firstN": {"n": "$one", "input": "$a"}, "$maxN": {"n": "$one", "input": "$a"},
    "$dateAdd": {"startDate": "$d", "unit": "$unit", "amount": "$one", "timezone": "$zone"},
    "$dateSubtract": {"startDate": "$d", "unit": "$unit", "amount": "$one"},
    "$convert": {"input": "$one", "to": "$int", "onError": "$s", "onNull": "$s"},
    "$dateToString": {"date": "$d", "format": "$format", "timezone": "$zone", "onNull": "$s"},
    "$dateFromString": {"dateString": "$text", "format": "%Y-%m-%d", "timezone": "$zone", "onNull": "$s", "onError": "$s"},
    "$dateToParts": {"date": "$d", "timezone": "$zone", "iso8601": "$true"},
    "$dateTrunc": {"date": "$d", "unit": "$unit", "binSize": "$one", "timezone": "$zone"},
    "$dateDiff": {"startDate": "$d", "endDate": "$d", "unit": "$unit", "timezone": "$zone"},
    "$year": {"date": "$d", "timezone": "$zone"}, "$dateFromParts": {"year": "$one", "month": "$one", "day": "$one", "timezone": "$zone"},
    "$filter": {"input": "$a", "cond": "$true", "limit": "$one"}, "$map": {"input": "$a", "in": "$one"},
    "$reduce": {"input": "$a", "initialValue": "$one", "in": "$two"}, "$setField": {"field": "q", "input": "$o", "value": "$one"},
    "$getField": {"field": "x", "input": "$o"},
}  # fmt: skip


def filled(arguments):
    """The arguments with each in turn of use, null, wrong, failing or, where they are few, a known null."""
    kinds = [lambda argument: argument, lambda _: "$null", lambda _: "$wrong", lambda _: FAILS]
    kinds += [lambda _: None] if len(arguments) < 4 else []
    for chosen in itertools.product(kinds, repeat=len(arguments)):
        yield [kind(argument) for kind, argument in zip(chosen, arguments)]


def expressions(name):
    for arguments in IN_A_ROW.get(name, []):
        yield from ({name: each} for each in filled(arguments))
    if name in BY_NAME:
        parameters = BY_NAME[name]
        yield from ({name: dict(zip(parameters, each))} for each in filled(list(parameters.values())))


def asked(expression):
    yield {"aggregate": "COLL", "pipeline": [{"$project": {"v": expression}}], "cursor": {}}
    yield {"findAndModify": "COLL", "query": {}, "update": [{"$set": {"v": expression}}], "fields": {"v": 1}, "new": True}


@pytest.mark.parametrize("name", sorted({*IN_A_ROW, *BY_NAME}))
def test_which_argument_decides(pair, name):
    commands = [command for expression in expressions(name) for command in asked(expression)]
    pair.run_case(cases.Case(f"decides {name}", commands, docs=[DOCUMENT]))


ARRANGED = [
    {"$add": [None, "$wrong"]}, {"$add": ["$one", 1, "x"]}, {"$add": ["$one", "x"]}, {"$add": [1, "$d", 2]},
    {"$add": ["$one", {"$add": ["$null", FAILS]}]}, {"$add": ["$one", {"$add": ["$two", "x"]}, 1]}, {"$multiply": [2, "$wrong", None]},
    {"$concat": ["a", "b", "$null", FAILS]}, {"$concat": [1, 2, "$s"]}, {"$concat": ["$s", 1]}, {"$concatArrays": [[1], [2], "$a", [3], [4]]},
    {"$concatArrays": [1, "$a"]}, {"$setUnion": [[3], "$a", [1]]}, {"$setUnion": [None, "$wrong"]}, {"$setIntersection": [[1], "$a", [1, 2]]},
    {"$mergeObjects": [{"a": 1}, {"b": 1}, "$o", {"a": 2}, {"x": 2}]}, {"$mergeObjects": [1, {}, "$o"]}, {"$min": [3, "$two", 1]},
    {"$max": [3, "$a", 1]}, {"$sum": [{"$sum": "$a"}, 1, 2]}, {"$sum": [{"$sum": ["$a", 1]}, 2]}, {"$sum": [[1, 2], "$one", 3]}, {"$min": [{"$min": "$a"}, 5]},
    {"$and": [FAILS, False]}, {"$and": [FAILS, True]}, {"$or": [FAILS, True]}, {"$or": [FAILS, 0]}, {"$and": ["$one", {"$or": ["$wrong", 1]}]},
    {"$setEquals": ["$a", 1]}, {"$setIsSubset": ["$a", 1]}, {"$setIsSubset": [1, "$a"]}, {"$ifNull": [None, FAILS]}, {"$ifNull": ["$null", None, FAILS]},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ARRANGED)))
def test_known_arguments_are_arranged(pair, number):
    expression = ARRANGED[number]
    commands = [
        *asked(expression),
        {"find": "COLL", "filter": {"$expr": expression}},
        {"find": "COLL", "projection": {"v": expression}},
        {"aggregate": "OTHER", "pipeline": [{"$project": {"v": expression}}], "cursor": {}},
    ]
    pair.run_case(cases.Case(f"arranged {number}", commands, docs=[DOCUMENT]))


def test_products_and_sums_have_the_same_last_digit(pair):
    print(f"seed {SEED}")
    choose = random.Random(SEED)
    commands = []
    for _ in range(300):
        numbers = [choose.random() * 10 ** choose.randint(-3, 3) for _ in range(4)]
        operators = ["$add", "$multiply", "$sum", "$avg"]
        if choose.random() < 0.2:
            # Sums of doubles and decimals agree to 33 digits.
            numbers[1] = bson.Decimal128(str(round(numbers[1], 5)))
            operators = ["$multiply"]
        operands = [*numbers, "$x", "$y"]
        choose.shuffle(operands)
        inner = {choose.choice(operators): operands[3:]}
        commands += asked({choose.choice(operators): [*operands[:3], inner]})
        mixed = [choose.randint(-9, 9), bson.Int64(choose.randint(-(2**50), 2**50)), *(choose.random() for _ in range(9))]
        choose.shuffle(mixed)
        commands += asked({choose.choice(["$sum", "$avg"]): {"$slice": [mixed, choose.randint(2, 9)]}})
    pair.run_case(cases.Case("digits", commands, docs=[{"_id": 1, "x": 3.3, "y": 0.7}]))
