"""$setWindowFields with every function, $fill and $densify: whole replies beside mongod's.

MERIDIAN_RANDOM_SEED repeats the random windows.
"""

import datetime
import itertools
import random
import re

import pytest
from bson import SON, Decimal128, Int64
from harness import cases
from test_random_query import SEED

START = datetime.datetime(2020, 1, 31)
MIXED = [1, 2.5, None, "s", Int64(7), Decimal128("3.1"), True, [1, 2], {"z": 1}, -3, 2**31 - 1, Int64(2**40), -4, 5, 6, 7]
SPECIAL = [1.5, float("nan"), 2, float("inf"), 3, Int64(4), float("-inf"), 5, Decimal128("NaN"), 6, 7, 8]
STEPS = [(3, 1), (1, 1), (4, 2), (1.5, 2), (9, 2), (2.6, 5), (5, 6), (3, 6)]

DOCUMENTS = {
    # One value of each kind, and one that is not there.
    "mixed": [{"_id": i, "i": i, **({} if i == 8 else {"v": v})} for i, v in enumerate(MIXED)],
    "special": [{"_id": i, "i": i, "v": v} for i, v in enumerate(SPECIAL)],
    "plain": [
        {"_id": i, "i": i, "j": j, "v": v, "w": v * v + i, "g": "ab"[i % 2], "d": START + datetime.timedelta(hours=i * i)}
        for i, (v, j) in enumerate(STEPS)
    ],
    "gaps": [
        {"_id": i, "i": i * 2, "g": "ab"[i % 2], "h": i % 3, "v": v, "w": w, "d": START + datetime.timedelta(hours=3 * i)}
        for i, (v, w) in enumerate([(1, None), (None, "x"), (4, None), (None, 3), (None, None), (9, 2)])
    ] + [{"_id": 9, "i": 20, "g": "a"}],
    "twice": [{"_id": i, "i": i // 2, "v": v} for i, v in enumerate([1, None, None, 4, None, 6, None])],
    "keys": [{"_id": 1, "k": None}, {"_id": 2}, {"_id": 3, "k": 1}, {"_id": 4, "k": 1.0}, {"_id": 5, "k": "a"}, {"_id": 6, "k": "A"}, {"_id": 7, "k": {"z": 1}}],
    "array": [{"_id": 1, "v": [1, 2], "k": [1], "i": 1}, {"_id": 2, "v": {"a": [{"b": 1}]}, "i": 2}],
    "months": [{"_id": 1, "d": START}, {"_id": 2, "d": datetime.datetime(2020, 7, 1)}],
    "decimals": [{"_id": 1, "v": Decimal128("1")}, {"_id": 2, "v": Decimal128("2.5")}],
    "kinds": [{"_id": 1, "v": 1}, {"_id": 2, "v": START}],
}  # fmt: skip


@pytest.fixture(scope="module")
def windows(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("windows", {"dropDatabase": 1})
        for name, documents in DOCUMENTS.items():
            server.run("windows", {"insert": name, "documents": documents})
        server.run("windows", {"create": "empty"})
    return _subject, _oracle


def compare(windows, collection, *stages, ordered=True, **options):
    case = cases.Case(name="windows", commands=[], database="windows", ordered=ordered)
    command = {"aggregate": collection, "pipeline": list(stages), "cursor": {"batchSize": 100_000}, **options}
    cases.compare_command(*windows, case, command)


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:90]


def window(function, **stage):
    return {"$setWindowFields": {**stage, "output": {"x": function}}}


BOUNDS = [
    [-1, 1], [1, -1], ["unbounded", "current"], ["current", "unbounded"], ["unbounded", "unbounded"], ["current", "current"], ["unbounded", -1],
    ["a", 1], [1.5, 2], [1.0, 2], [Int64(1), 2], [Decimal128("1"), 2], [None, 1], [-1], [1, 2, 3], [], 1, None, {}, [1, "current"], ["current", -1],
    ["unbounded", "foo"], [2**31, 2**32], [-(2**40), 2**40], [{}, 1], [1e20, 1e21], [float("nan"), 1], [True, 1], ["current", 1], ["$v", 1],
    [{"$add": [1, 1]}, 3], [0.5, 0.25], [Decimal128("3"), 1.5],
]  # fmt: skip

SHAPES = [
    1, {}, {"output": {}}, {"output": 1}, {"output": None}, {"output": {"x": 1}}, {"output": {"x": {}}}, {"output": {"x": {"$sum": 1}}, "foo": 1},
    {"foo": 1, "output": 1}, {"output": {"x": {"$foo": 1}}}, {"output": {"x": {"$sum": 1, "foo": 1}}}, {"output": {"x": {"$sum": 1, "$avg": 1}}},
    {"output": {"x": {"window": {}}}}, {"output": {"x": {"window": {}, "$sum": 1}}}, {"output": {"x": {"window": {}, "foo": 1}}}, {"output": {"x": {"foo": 1}}},
    {"output": {"$x": {"$sum": 1}}}, {"output": {"": {"$sum": 1}}}, {"output": {"a.": {"$sum": 1}}}, {"output": {"a.b": {"$sum": 1}}},
    {"output": SON([("a.b", {"$sum": 1}), ("a", {"$sum": 1})])}, {"output": SON([("a", {"$sum": 1}), ("a.b", {"$sum": 1})])},
    {"output": SON([("a.b", {"$sum": 1}), ("ab", {"$sum": 2}), ("a", {"$sum": 2})])}, {"output": {"a.$b": {"$sum": 1}}}, {"output": {"_id": {"$sum": 1}}},
    {"output": {"$x": 1}}, {"output": {"$x": {"$foo": 1}}}, {"output": SON([("a", {"$sum": 1}), ("a.b", {"$foo": 1})])}, {"output": {"v": {"$sum": "$v"}}},
    *({"partitionBy": key, "output": {"x": {"$sum": 1}}} for key in (
        1, "g", None, {"$foo": 1}, "$g", {"g": "$g"}, ["$g"], {"$literal": [1]}, "$$ROOT", "$$NOW.a", [1], {"$add": [1, 2]}, {"$toInt": "$i"}, "$$ROOT.g",
        "$$CURRENT.g", "$$CURRENT", "$$NOW", "$$REMOVE", "$foo.", "$$foo", {"$divide": [1, 0]}, "$v", "$k", {"$toUpper": "$g"})),
    *({"sortBy": key, "output": {"x": {"$sum": 1}}} for key in (
        1, {}, None, {"v": 2}, {"$v": 1}, {"v": {"$meta": "textScore"}}, SON([("v", 1), ("i", -1)]), {"$natural": 1}, {f"a{i}": 1 for i in range(33)})),
    {"partitionBy": "$g", "sortBy": {"g": -1}, "output": {"x": {"$documentNumber": {}}}},
    {"partitionBy": "$g", "sortBy": SON([("g", -1), ("i", -1)]), "output": {"x": {"$sum": "$i", "window": {"documents": ["unbounded", "current"]}}}},
    {"partitionBy": {"$foo": 1}, "sortBy": {"i": 2}, "output": {"x": 1}}, {"sortBy": {"i": 2}, "output": {"x": 1}},
    *({"sortBy": {"i": 1}, "output": {"x": {"$sum": "$v", "window": window}}} for window in (
        {"documents": [-1, 1], "range": [-1, 1]}, {"unit": "day"}, {"documents": [-1, 1], "unit": "day"}, {"foo": 1}, {"documents": [-1, 1], "foo": 1},
        {"range": [0, 1], "foo": 1}, None, [], "x", 1)),
]  # fmt: skip


@pytest.mark.parametrize("stage", SHAPES, ids=named)
@pytest.mark.parametrize("collection", ["plain", "empty", "array"])
def test_shape(windows, collection, stage):
    compare(windows, collection, {"$setWindowFields": stage}, {"$project": {"x": 1, "a": 1, "v": 1}})


@pytest.mark.parametrize("bounds", BOUNDS, ids=named)
@pytest.mark.parametrize("kind", ["documents", "range"])
def test_bounds(windows, kind, bounds):
    for sort in ({}, {"sortBy": {"i": 1}}, {"sortBy": {"d": 1}}, {"sortBy": {"i": -1}}, {"sortBy": SON([("i", 1), ("d", 1)])}, {"sortBy": {"zz": 1}}):
        compare(windows, "plain", window({"$sum": "$v", "window": {kind: bounds}}, **sort))
        if kind == "range":
            compare(windows, "plain", window({"$sum": "$v", "window": {kind: bounds, "unit": "hour"}}, **sort))


@pytest.mark.parametrize("unit", [1, "", "foo", "days", "DAY", "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", None, {}], ids=named)
def test_units(windows, unit):
    for bounds in ([-1, 0], [-1, 1], ["unbounded", 1], [1, 3], [-40, -1]):
        compare(windows, "plain", window({"$push": "$i", "window": {"range": bounds, "unit": unit}}, sortBy={"d": 1}))
    for name in ("$derivative", "$integral"):
        function = {name: {"input": "$v", "unit": unit}, "window": {"documents": [-1, 1]}}
        compare(windows, "plain", window(function, sortBy={"d": 1}))
        compare(windows, "plain", window(function, sortBy={"i": 1}))


# Windows whose sums of squares keep their digits: beside others MongoDB rounds otherwise than is right.
WINDOWS = [
    None, {"documents": [-1, 1]}, {"documents": [-2, -1]}, {"documents": [1, 2]}, {"documents": [0, 0]}, {"documents": ["unbounded", "current"]},
    {"documents": ["unbounded", 1]}, {"documents": ["unbounded", -1]}, {"documents": ["current", "unbounded"]}, {"documents": [-100, 100]}, {"documents": [1000, 2000]},
]  # fmt: skip
RANGES = [
    {"range": [-1, 0]}, {"range": [-1, 1]}, {"range": ["unbounded", "current"]}, {"range": ["unbounded", 0]}, {"range": ["current", "unbounded"]}, {"range": [0, 0]},
    {"range": ["current", "current"]}, {"range": ["current", 1]}, {"range": [-1, "current"]}, {"range": [3, 4]}, {"range": [-4, -3]}, {"range": [-0.5, 1.5]},
]  # fmt: skip
UNARY = ["$sum", "$avg", "$min", "$max", "$first", "$last", "$push"]
SEVERAL = {
    **{name: {"n": 2, "input": "$v"} for name in ("$minN", "$maxN", "$firstN", "$lastN")},
    **{name: {"output": "$v", "sortBy": {"w": -1}} for name in ("$top", "$bottom")},
    **{name: {"n": 2, "output": ["$v", "$i"], "sortBy": {"w": -1, "i": 1}} for name in ("$topN", "$bottomN")},
}
FUNCTIONS = {**{name: "$v" for name in UNARY}, **SEVERAL, "$count": {}}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("collection", ["plain", "mixed", "special"])
def test_accumulators(windows, collection, name):
    for bounds in WINDOWS:
        function = {name: FUNCTIONS[name], **({"window": bounds} if bounds else {})}
        compare(windows, collection, window(function, sortBy={"i": 1}))
    if collection == "plain":
        for bounds in RANGES:
            compare(windows, collection, window({name: FUNCTIONS[name], "window": bounds}, sortBy={"j": 1}))
        compare(windows, collection, window({name: FUNCTIONS[name]}))
        compare(windows, collection, window({name: FUNCTIONS[name], "window": {"documents": [-1, 0]}}, partitionBy="$g", sortBy={"i": -1}))


@pytest.mark.parametrize("name", ["$stdDevPop", "$stdDevSamp", "$covariancePop", "$covarianceSamp"])
def test_spreads(windows, name):
    # Rounded to ten digits: the last ones depend on what was in the window before.
    argument = ["$v", "$w"] if "covariance" in name else "$v"
    for bounds in [*WINDOWS, *RANGES]:
        function = {name: argument, **({"window": bounds} if bounds else {})}
        sort = {"j": 1} if "range" in (bounds or {}) else {"i": 1}
        compare(windows, "plain", window(function, sortBy=sort), {"$set": {"x": {"$round": ["$x", 10]}}})
    for wrong in ("$i", ["$v"], ["$v", "$w", "$i"], {}, 1, [1, 2], {"a": 1}, ["$v", "x"]):
        compare(windows, "plain", window({name: wrong}, sortBy={"i": 1}))


def test_sets(windows):
    for bounds in WINDOWS:
        function = {"$addToSet": "$v", **({"window": bounds} if bounds else {})}
        ordered = {"$set": {"x": {"$sortArray": {"input": "$x", "sortBy": 1}}}}
        compare(windows, "plain", window(function, sortBy={"i": 1}), ordered)
        compare(windows, "mixed", window(function, sortBy={"i": 1}), ordered)


ARGUMENTS = [
    *({name: argument} for name in [*UNARY, "$addToSet", "$count", "$mergeObjects", "$accumulator"] for argument in ({}, None, ["$v"], {"$add": ["$i", 1]}, [], "$$foo", {"$foo": 1})),
    *({name: argument} for name in ("$minN", "$maxN", "$firstN", "$lastN") for argument in (
        1, {}, {"n": 2}, {"input": "$v"}, {"n": 2, "input": "$v", "foo": 1}, {"n": 0, "input": "$v"}, {"n": -1, "input": "$v"}, {"n": "a", "input": "$v"}, {"n": "$v", "input": "$v"},
        {"n": {"$add": [1, 1]}, "input": "$v"}, {"n": 1.5, "input": "$v"})),
    *({name: argument} for name in ("$top", "$bottom", "$topN", "$bottomN") for argument in (
        1, {}, {"n": 2}, {"output": "$v"}, {"n": 2, "output": "$v", "sortBy": 1}, {"n": 2, "output": "$v", "sortBy": {"v": 1}, "foo": 1}, {"n": "$v", "output": "$v", "sortBy": {"v": 1}})),
    *({name: argument, **more} for name in ("$rank", "$denseRank", "$documentNumber") for argument, more in (
        ({}, {}), (1, {}), (None, {}), ({"a": 1}, {}), ([], {}), ({}, {"window": {"documents": ["unbounded", "current"]}}), ({}, {"window": {}}), ({}, {"foo": 1}), ({}, {"$sum": 1}))),
    *({"$shift": argument} for argument in (
        1, {}, {"output": "$v"}, {"by": 1}, {"output": "$v", "by": 1}, {"output": "$v", "by": -1}, {"output": "$v", "by": 0}, {"output": "$v", "by": -1, "default": "none"},
        {"output": "$v", "by": 1, "default": "$v"}, {"output": "$v", "by": 1, "default": {"$add": [1, 2]}}, {"output": "$v", "by": "a"}, {"output": "$v", "by": 1.5}, {"output": "$v", "by": 1.0},
        {"output": "$v", "by": 2**31}, {"output": "$v", "by": 1, "foo": 1}, {"output": "$v", "by": Decimal128("1")}, {"output": "$zz", "by": 1, "default": 5}, {"output": "$v", "by": 100},
        {"output": "$v", "by": 1, "default": "$$REMOVE"})),
    {"$shift": {"output": "$v", "by": 1}, "window": {"documents": [0, 1]}}, {"$shift": {"output": "$v", "by": 1}, "foo": 1}, {"$shift": {"output": "$v", "by": 1}, "$sum": 1},
    *({"$expMovingAvg": argument} for argument in (
        1, {}, {"input": "$v"}, {"input": "$v", "N": 2}, {"input": "$v", "alpha": 0.5}, {"input": "$v", "alpha": 0.5, "N": 2}, {"input": "$v", "N": 0}, {"input": "$v", "N": -1},
        {"input": "$v", "N": 1.5}, {"input": "$v", "N": "a"}, {"input": "$v", "N": 1.0}, {"input": "$v", "N": Int64(2)}, {"input": "$v", "N": 2**40}, {"input": "$v", "alpha": 0},
        {"input": "$v", "alpha": 1}, {"input": "$v", "alpha": 2}, {"input": "$v", "alpha": "a"}, {"input": "$v", "alpha": Decimal128("0.5")}, {"input": "$v", "foo": 1}, {"N": 2},
        {"input": "$v", "N": Decimal128("3")}, {"input": "$v", "alpha": float("nan")}, {"input": "$v", "alpha": -0.1}, {"input": "$v", "alpha": 0.3})),
    {"$expMovingAvg": {"input": "$v", "N": 2}, "window": {"documents": [0, 1]}}, {"$expMovingAvg": {"input": "$v", "N": 2}, "foo": 1},
    *({name: argument, **({"window": bounds} if bounds else {})} for name in ("$derivative", "$integral")
        for argument in (1, {}, {"input": "$w"}, {"unit": "day"}, {"input": "$w", "foo": 1}, {"input": 1}, {"input": "$w", "unit": "week"})
        for bounds in (None, {"documents": [-1, 0]}, {"documents": ["unbounded", "current"]}, {"documents": [2, 3]}, {"documents": [0, 0]}, {"range": [-2, 0]}, {"range": [-2, 0], "unit": "hour"})),
    {"$derivative": {"input": "$v"}, "foo": 1}, {"$derivative": {"input": "$v"}, "$sum": 1}, {"$minN": {"n": 1, "input": "$v"}, "foo": 1}, {"$minN": {"n": 1, "input": "$v"}, "$sum": 1},
    {"$count": {}, "foo": 1}, {"$count": {}, "$sum": 1}, {"$linearFill": "$v", "$sum": 1}, {"$locf": "$v", "$sum": 1}, {"$covariancePop": ["$v", "$i"], "$sum": 1},
    *({name: argument} for name in ("$linearFill", "$locf") for argument in (1, {}, "$v", {"$add": ["$i", 1]}, None, [], ["$v"], {"$literal": 3})),
    {"$linearFill": "$v", "window": {"documents": [0, 1]}}, {"$locf": "$v", "window": {}}, {"$locf": "$v", "foo": 1},
]  # fmt: skip
SORTS = [{}, {"sortBy": {"i": 1}}, {"sortBy": {"i": -1}}, {"sortBy": {"d": 1}}, {"sortBy": SON([("i", 1), ("d", 1)])}, {"sortBy": {"zz": 1}}, {"sortBy": {"v": 1, "i": 1}}]


@pytest.mark.parametrize("function", ARGUMENTS, ids=named)
def test_arguments(windows, function):
    ordered = {"$set": {"x": {"$cond": [{"$isArray": "$x"}, {"$sortArray": {"input": {"$ifNull": ["$x", []]}, "sortBy": 1}}, "$x"]}}}
    stages = [ordered] if "$addToSet" in function else []
    for sort in SORTS:
        compare(windows, "plain", window(function, **sort), *stages)
    compare(windows, "mixed", window(function, sortBy={"i": 1}), *stages)
    compare(windows, "empty", window(function, sortBy={"i": 1}))


def test_ranks_tell_missing_from_null(windows):
    for name, direction in itertools.product(("$rank", "$denseRank", "$documentNumber"), (1, -1)):
        compare(windows, "keys", window({name: {}}, sortBy={"k": direction}), {"$project": {"x": 1}})


@pytest.mark.parametrize("collation", [{}, {"collation": {"locale": "en", "strength": 1}}], ids=named)
def test_partitions(windows, collation):
    for key in ("$k", {"$ifNull": ["$k", "$q"]}, {"k": "$k"}, {"$type": "$k"}):
        compare(windows, "keys", window({"$push": "$_id"}, partitionBy=key, sortBy={"_id": 1}), **collation)
        compare(windows, "keys", window({"$max": "$k", "window": {"documents": [-2, 0]}}, partitionBy=key, sortBy={"_id": 1}), **collation)
    compare(windows, "keys", window({"$rank": {}}, sortBy={"k": 1}), {"$project": {"x": 1}}, **collation)
    compare(windows, "array", window({"$push": "$_id"}, partitionBy="$k"))


def test_values_go_where_addfields_would_put_them(windows):
    nested = {"$set": {"arr": [{"a": 1}, {"b": 2}, 5], "v": {"a": 1}}}
    compare(windows, "plain", nested, {"$setWindowFields": {"output": {"arr.a": {"$sum": 1}}}}, {"$limit": 2})
    compare(windows, "plain", nested, {"$setWindowFields": {"output": {"arr.c.d": {"$sum": 1}}}}, {"$limit": 2})
    compare(windows, "plain", nested, {"$setWindowFields": {"output": {"v.a.b": {"$sum": 1}}}}, {"$limit": 2})
    # A value that is missing takes the field away.
    for path in ("v", "v.a", "zz", "arr.a"):
        compare(windows, "plain", nested, {"$setWindowFields": {"sortBy": {"i": 1}, "output": {path: {"$first": "$zz"}}}}, {"$limit": 2})


FILLS = [
    1, {}, {"output": {}}, {"output": 1}, {"output": {"v": 1}}, {"output": {"v": {}}}, {"output": {"v": {"value": 1}}}, {"output": {"v": {"method": "locf"}}},
    {"output": {"v": {"method": "linear"}}}, {"output": {"v": {"method": "foo"}}, "sortBy": {"i": 1}}, {"output": {"v": {"method": 1}}, "sortBy": {"i": 1}},
    {"output": {"v": {"method": "locf", "value": 1}}, "sortBy": {"i": 1}}, {"output": {"v": {"foo": 1}}}, {"output": {"v": {"value": 1, "foo": 1}}},
    *({"output": {"v": {"method": method}}, "sortBy": sort} for method in ("linear", "locf") for sort in (
        {"i": 1}, {"i": -1}, SON([("i", 1), ("g", 1)]), {"d": 1}, {"d": -1}, {"g": 1}, {"missing": 1}, {"v": 1, "i": 1}, 1, {}, {"i": 2}, None)),
    {"output": {"w": {"method": "linear"}}, "sortBy": {"i": 1}}, {"output": {"i": {"method": "linear"}}, "sortBy": {"i": 1}},
    *({"output": {"v": {"method": "linear"}}, "sortBy": {"i": 1}, **partition} for partition in (
        {"partitionBy": "$g"}, {"partitionBy": {"g": "$g"}}, {"partitionBy": {"$toUpper": "$g"}}, {"partitionBy": 1}, {"partitionBy": None}, {"partitionByFields": ["g"]},
        {"partitionByFields": ["g", "h"]}, {"partitionByFields": []}, {"partitionByFields": ["$g"]}, {"partitionByFields": [1]}, {"partitionByFields": 1}, {"partitionByFields": ["g.x"]},
        {"partitionByFields": ["g"], "partitionBy": {"g": "$g"}})),
    {"output": {"v": {"value": 1}}, "partitionByFields": ["g"], "partitionBy": {"g": "$g"}},
    {"output": {"v": {"value": "$i"}}}, {"output": {"v": {"value": {"$add": ["$i", 1]}}}}, {"output": {"v": {"value": {"$foo": 1}}}}, {"output": {"v": {"value": None}}},
    {"output": {"v": {"value": None, "method": "locf"}}}, {"output": {"v": {"method": "locf"}}, "foo": 1}, {"output": {"$v": {"value": 1}}}, {"output": {"a.b": {"value": 1}}},
    {"output": SON([("v", {"value": 1}), ("v.a", {"value": 1})])}, {"output": {"": {"value": 1}}}, {"output": {"a.b": {"method": "locf"}}}, {"output": {"a.$b": {"method": "locf"}}},
    {"output": SON([("v", {"method": "linear"}), ("w", {"value": "none"})]), "sortBy": {"i": 1}, "partitionBy": {"g": "$g"}}, {"sortBy": {"i": 1}},
]  # fmt: skip


@pytest.mark.parametrize("fill", FILLS, ids=named)
def test_fill(windows, fill):
    for collection in ("gaps", "twice", "empty"):
        compare(windows, collection, {"$fill": fill})


DENSIFIED = [
    1, {}, {"field": "i"}, {"range": {"step": 1, "bounds": "full"}}, {"field": 1, "range": {"step": 1, "bounds": "full"}}, {"field": "i", "range": 1}, {"field": "i", "range": {}},
    {"field": "i", "range": {"step": 1}}, {"field": "i", "range": {"bounds": "full"}}, {"field": "i", "range": {"step": 1, "bounds": "full"}, "foo": 1}, {"field": "i", "range": None},
    {"field": None, "range": {"step": 1, "bounds": "full"}},
    *({"field": "i", "range": {"step": 1, "bounds": bounds}} for bounds in (
        "foo", 1, [1], [1, 2, 3], [2, 1], [1, 1], ["a", 1], [1, START], [START, START], [None, 2], ["unbounded", 1], "partition", [], None)),
    *({"field": "i", "range": {"step": step, "bounds": "full"}} for step in (0, -1, "a", None, float("nan"), float("inf"), 1, 3, 0.5, Int64(3), Decimal128("0.7"), 1.5, 0.1)),
    *({"field": "i", "range": {"step": 1, "bounds": "full", **more}} for more in ({"unit": "foo"}, {"unit": 1}, {"unit": None}, {"foo": 1}, {"unit": "hour"})),
    {"field": "i", "range": {"step": 1, "bounds": [1, 2], "unit": "day"}}, {"field": "d", "range": {"step": 1.5, "bounds": "full", "unit": "day"}}, {"field": "d", "range": {"step": 1, "bounds": "full"}},
    {"field": "d", "range": {"step": 2**40, "bounds": "full", "unit": "hour"}}, {"field": "d", "range": {"step": Decimal128("1"), "bounds": "full", "unit": "hour"}},
    *({"field": "i", "partitionByFields": names, "range": {"step": 1, "bounds": "partition"}} for names in ([], 1, [1], ["i"], ["i.a"], ["$g"], ["g"], ["g", "h"], ["g", "g"], ["zz"])),
    {"field": "i.a", "partitionByFields": ["i"], "range": {"step": 1, "bounds": "partition"}},
    *({"field": name, "range": {"step": 1, "bounds": bounds}} for name in ("$i", "", "i.", "z.y", "g", "i.a") for bounds in ("full", [0, 3])),
    *({"field": "i", "range": {"step": step, "bounds": bounds}} for step, bounds in itertools.product(
        (1, 3, Int64(1), 1.0), ([0, 4], [3, 5], [-2, 3], [7, 12], [20, 22], [21, 25], [-5, -2], [1.5, 6], [Int64(0), 3], [0.0, 3.0], [Int64(0), Int64(3)]))),
    *({"field": "d", "range": {"step": step, "bounds": bounds, "unit": unit}} for unit, step in (
        ("hour", 1), ("hour", 2), ("minute", 90), ("day", 1), ("month", 1), ("year", 1), ("second", 5400), ("millisecond", 3600000), ("week", 1), ("quarter", 1))
        for bounds in ("full", [START + datetime.timedelta(hours=2), START + datetime.timedelta(hours=5)], [START, START])),
    *({"field": "v", "range": {"step": step, "bounds": "full"}} for step in (1, 0.5, Decimal128("0.5"))),
    {"field": "i", "range": {"step": 0.000001, "bounds": "full"}},
]  # fmt: skip


@pytest.mark.parametrize("densify", DENSIFIED, ids=named)
def test_densify(windows, densify):
    for collection in ("gaps", "array", "months", "decimals", "kinds", "empty"):
        compare(windows, collection, {"$densify": densify}, {"$limit": 1000})


def test_densify_is_bounded(windows):
    for upper in (499_999, 500_000, 500_001, 500_005, 500_006, 500_007, 500_000_000):
        compare(windows, "gaps", {"$densify": {"field": "i", "range": {"step": 1, "bounds": [0, upper]}}}, {"$count": "n"})


def test_densify_comes_a_batch_at_a_time(windows):
    """Of a gap only what is asked for is made: the rest may be more than memory holds, or than is allowed."""
    for server in windows:
        server.run("windows", {"insert": "wide", "documents": [{"_id": 1, "x": 0, "p": "p" * 1_000_000}, {"_id": 2, "x": 300, "p": "p" * 1_000_000}]})
        server.run("windows", {"insert": "far", "documents": [{"_id": 1, "x": 0}, {"_id": 2, "x": 10**9}]})
        for collection, partition in (("wide", {"partitionByFields": ["p"]}), ("far", {})):
            stage = {"$densify": {"field": "x", **partition, "range": {"step": 1, "bounds": "full"}}}
            reply = server.client.windows.command({"aggregate": collection, "pipeline": [stage, {"$project": {"x": 1}}], "cursor": {"batchSize": 3}})
            assert [document["x"] for document in reply["cursor"]["firstBatch"]] == [0, 1, 2]
            assert reply["cursor"]["id"] != 0
            reply = server.client.windows.command({"getMore": reply["cursor"]["id"], "collection": collection, "batchSize": 2})
            assert [document["x"] for document in reply["cursor"]["nextBatch"]] == [3, 4]
            server.client.windows.command({"killCursors": collection, "cursors": [reply["cursor"]["id"]]})
        server.run("windows", {"drop": "wide"})


def test_specifications_are_bounded(_subject):
    """As long as a message may be: answered or refused, and the connection lives on."""
    database = _subject.client.windows
    output = {f"a{number}": {"$sum": 1} for number in range(300_000)}
    reply = database.command({"aggregate": "plain", "pipeline": [{"$setWindowFields": {"output": output}}, {"$count": "n"}], "cursor": {}}, check=False)
    assert reply.get("code") in (146, 5414201, 5643011), reply
    names = [f"p{number}" for number in range(500_000)]
    for bounds, code in (("full", None), ("partition", 13103), ([0, 3], 13103)):
        stage = {"$densify": {"field": "i", "partitionByFields": names, "range": {"step": 1, "bounds": bounds}}}
        reply = database.command({"aggregate": "empty", "pipeline": [stage, {"$count": "n"}], "cursor": {}}, check=False)
        assert reply.get("code") == code, reply
    fill = {"$fill": {"partitionByFields": names, "sortBy": {"i": 1}, "output": {"v": {"method": "locf"}}}}
    assert database.command({"aggregate": "empty", "pipeline": [fill], "cursor": {}}, check=False)["ok"] in (0, 1)
    assert database.plain.count_documents({}) == len(STEPS)


def test_densify_in_a_row(windows):
    for stages in (
        [{"$densify": {"field": "h", "range": {"step": 1, "bounds": [0, 3]}}}],
        [{"$unwind": {"path": "$i", "preserveNullAndEmptyArrays": True}}, {"$densify": {"field": "h", "range": {"step": 1, "bounds": [0, 3]}}}],
        [{"$limit": 7}],
        [{"$facet": {"a": [{"$densify": {"field": "h", "range": {"step": 1, "bounds": [0, 3]}}}], "b": [{"$limit": 2}]}}],
        [{"$group": {"_id": None, "n": {"$sum": 1}}}],
    ):
        compare(windows, "gaps", {"$densify": {"field": "i", "range": {"step": 1, "bounds": "full"}}}, *stages)


def test_fields_that_are_added_keep_their_places(windows):
    """Whatever index the pipeline is read from."""
    for server in windows:
        server.run("windows", {"drop": "ordered"})
        server.run("windows", {"insert": "ordered", "documents": [{"_id": 1, "b": 2, "d": 3, "e": 4}, {"_id": 2, "b": 1, "d": 5, "e": 6}]})
        keys = [{"b": 1, "_id": 1}, {"e": 1, "b": 1, "d": 1}]
        server.run("windows", {"createIndexes": "ordered", "indexes": [{"key": key, "name": "_".join(key)} for key in keys]})
    added = [{"$set": {"z": {"$add": ["$b", 1]}}}, window({"$sum": "$b"}, sortBy={"b": 1}), {"$set": {"b": {"$add": ["$b", 1]}}}, {"$unset": "b"}]
    for stage, match in itertools.product(added, ({"b": {"$gt": 0}}, {"e": {"$gt": 0}})):
        for last in ({"$project": {"b": 1, "z": 1, "x": 1}}, {"$project": {"_id": 0, "b": 1, "d": 1, "e": 1, "z": 1}}, {"$group": {"_id": "$b", "z": {"$sum": "$z"}, "e": {"$max": "$e"}}}):
            compare(windows, "ordered", {"$match": match}, {"$sort": {"b": 1}}, stage, last, {"$sort": {"_id": 1}} if "$group" in last else {"$limit": 5})


def test_random_densify(windows):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for _ in range(60):
        keys = [0, 1, "x", None]
        documents = [
            {"_id": i, "g": chance.choice(keys), "v": chance.choice([chance.randint(-20, 20), chance.randint(-40, 40) / 2 + 0.25, None])}
            for i in range(chance.randint(1, 14))
        ]  # fmt: skip
        for server in windows:
            server.run("windows", {"drop": "random"})
            server.run("windows", {"insert": "random", "documents": documents})
        step = chance.choice([1, 2, 3, 5, 0.5, 7, 100])
        known = [document["v"] for document in documents if document["v"] is not None]
        # Partitions that lie below the bounds as a whole: MongoDB 6.0 leaves them out, but for the first one.
        lower = type(step)(min(known, default=0) // 1)
        bounds = [lower, lower + type(step)(chance.choice([1, 5, 30]))]
        order = {"$sort": {"g": 1, "v": 1, "_id": 1}}
        compare(windows, "random", {"$densify": {"field": "v", "range": {"step": step, "bounds": "full"}}})
        for chosen in ("full", "partition", bounds):
            compare(windows, "random", {"$densify": {"field": "v", "partitionByFields": ["g"], "range": {"step": step, "bounds": chosen}}}, order)


def test_partitions_below_the_bounds_are_densified_too(_subject):
    """Unlike in MongoDB 6.0, which leaves out all but the first of them, and counts its steps from its last document."""
    _subject.run("windows", {"drop": "below"})
    _subject.run("windows", {"insert": "below", "documents": [{"g": 0, "v": -16}, {"g": 1, "v": 9.5}, {"g": 2, "v": 21}]})
    stage = {"$densify": {"field": "v", "partitionByFields": ["g"], "range": {"step": 2, "bounds": [19, 24]}}}
    documents = _subject.client.windows.below.aggregate([stage, {"$sort": {"g": 1, "v": 1}}])
    found = [(document["g"], document["v"]) for document in documents]
    assert found == [(0, -16), (0, 19), (0, 21), (0, 23), (1, 9.5), (1, 19), (1, 21), (1, 23), (2, 19), (2, 21), (2, 23)]


def random_bound(chance):
    ends = ["unbounded", "current", *range(-5, 6)]
    while True:
        lower, upper = chance.choice(ends), chance.choice(ends)
        numbers = [0 if end == "current" else end for end in (lower, upper)]
        if "unbounded" in numbers or numbers[0] <= numbers[1]:
            return [lower, upper]


@pytest.mark.timeout(900)
def test_random_windows(windows):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for _ in range(25):
        count = chance.randint(1, 60)
        documents = [
            {"_id": i, "s": chance.randint(0, 2), "x": chance.randint(0, 30), "d": START + datetime.timedelta(days=chance.randint(0, 400)),
             "v": chance.choice([chance.randint(-9, 9), chance.randint(-99, 99) / 4, Int64(chance.randint(-9, 9)), None, "t"]), "w": chance.randint(0, 9)}
            for i in range(count)
        ]  # fmt: skip
        for server in windows:
            server.run("windows", {"drop": "random"})
            server.run("windows", {"insert": "random", "documents": documents})
            if chance.random() < 0.5:
                server.run("windows", {"createIndexes": "random", "indexes": [{"key": {"s": 1, "x": 1, "_id": 1}, "name": "i"}]})
        for _ in range(30):
            # Which of values that are equal stands for them is not told.
            name = chance.choice([name for name in FUNCTIONS if name not in ("$minN", "$maxN")])
            partition = chance.choice([{}, {"partitionBy": "$s"}, {"partitionBy": {"$mod": ["$s", 2]}}])
            if chance.random() < 0.5:
                bounds, sort = {"documents": random_bound(chance)}, {"x": chance.choice([1, -1]), "_id": 1}
            else:
                unit = chance.choice([None, "day", "week", "month", "quarter", "year"])
                bounds, sort = {"range": random_bound(chance)}, {"x": 1}
                if unit:
                    bounds, sort = {**bounds, "unit": unit}, {"d": 1}
            # Documents at one place have no order of their own.
            needs_order = len(sort) == 1 and ("current" in bounds["range"] or name in ("$first", "$last", "$push", "$firstN", "$lastN", *SEVERAL))
            argument = "$w" if name in ("$sum", "$avg") and chance.random() < 0.5 else FUNCTIONS[name]
            if not needs_order:
                compare(windows, "random", window({name: argument, "window": bounds}, **partition, sortBy=sort), {"$sort": {"_id": 1}})


def test_documents_beyond_memory(windows):
    """The documents of a partition are spilled; what a function keeps is not."""
    for server in windows:
        server.run("windows", {"drop": "large"})
        for batch in range(10):
            documents = [{"_id": batch * 1000 + i, "g": i % 2, "fill": "x" * 16_000} for i in range(1000)]
            server.run("windows", {"insert": "large", "documents": documents})
    last = {"$group": {"_id": "$g", "n": {"$sum": 1}, "x": {"$sum": "$x"}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}}}
    functions = [{"$sum": "$_id"}, {"$sum": "$_id", "window": {"documents": ["current", "unbounded"]}}, {"$max": "$_id", "window": {"documents": [-5000, 5000]}}]
    for function, partition in itertools.product(functions, ({}, {"partitionBy": "$g"})):
        compare(windows, "large", window(function, **partition, sortBy={"_id": 1}), last, {"$sort": {"_id": 1}})
    for function, options in itertools.product([functions[0], {"$push": "$fill"}], ({}, {"allowDiskUse": False})):
        command = {"aggregate": "large", "pipeline": [window(function), last], "cursor": {}, **options}
        for server in windows:
            reply = server.client.windows.command(command, check=False)
            # All statements together have less memory in these tests than MongoDB gives one stage.
            assert bool(reply["ok"]) == (function == functions[0] and not options), reply
            assert reply.get("code") in (None, 5643011, 5414201, 146), reply
    for server in windows:
        server.run("windows", {"drop": "large"})
