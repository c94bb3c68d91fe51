"""Arguments of statements that are absent, null, of other types or too large; and the order in which mistakes are told.

Whole replies beside mongod's.
"""

import bson
import pytest
from harness import cases

DATABASE = "arguments"
DECIMAL, LONG = bson.Decimal128, bson.Int64
PROJECTIONS = [
    {"a": 1, "a.b": 0}, {"a.b": 1, "a": 0}, {"b.c": 0, "b": None}, {"b.c": 0, "b": {"c": 0}}, {"z": 0, "b": {"$foo": 1}}, {"z": 0, "b": "$$foo"}, {"r": {"x": 1, "x.y": 2}},
    {"a.b": 1, "a.b.c.d": 1}, {"a": 1, "b": 0}, {"b": 0, "a": 1}, {"r": {"$add": [{"$foo": 1}, 1]}}, {"r": {"$foo": 1}}, {"r": [{"$foo": 1}]}, {"r": {"x": {"$foo": 1}}},
    {"r": {"x": {"$add": [{"$foo": 1}]}}}, {"r": {"$cond": [{"$foo": 1}, 1, 2]}}, {"a": 0, "b": {"$add": [1, 2]}}, {"b": {"$add": [1, 2]}, "a": 0}, {"a": {"b": 1, "c": 0}},
    {"a": {"b": 1}, "a.b": 1}, {"a.b": 1, "a": {"c": 1}}, {"a": {"b.c": 1, "b": 1}}, {"a": "x", "b": 0}, {"b": 0, "a": "x"}, {"b": 0, "a": "$x"}, {"b": 0, "a": {"$literal": 1}},
    {"a.b.c": 1, "a.b": 1}, {"a.b": 1, "a.b.c": 1}, {"a": {"b": {"c": 1}}, "a.b": 1}, {"_id": 0, "_id.a": 1},
]  # fmt: skip
VALUES = [None, 1, -1, 1.5, "x", "", {}, [], True, float("nan"), 1e30, LONG(-(2**63)), LONG(2**40), DECIMAL("1.5"), DECIMAL("NaN"), DECIMAL("1E+30")]
FIELDS = {
    "count_limit": lambda value: {"count": "c", "limit": value},
    "count_hint": lambda value: {"count": "c", "hint": value},
    "find_hint": lambda value: {"find": "c", "hint": value},
    "aggregate_hint": lambda value: {"aggregate": "c", "pipeline": [], "cursor": {}, "hint": value},
    "natural": lambda value: {"find": "c", "hint": {"$natural": value}},
    "update_hint": lambda value: {"update": "c", "updates": [{"q": {"zz": 1}, "u": {"$set": {"a": 1}}, "hint": value}]},
    "delete_hint": lambda value: {"delete": "c", "deletes": [{"q": {"zz": 1}, "limit": 0, "hint": value}]},
    "delete_limit": lambda value: {"delete": "c", "deletes": [{"q": {"zz": 1}, "limit": value}]},
    "allow_disk_use": lambda value: {"aggregate": "c", "pipeline": [], "cursor": {}, "allowDiskUse": value},
    "aggregate_explain": lambda value: {"aggregate": "c", "pipeline": [], "explain": value},
    "pipeline": lambda value: {"aggregate": "c", "pipeline": value, "cursor": {}},
    "cursor": lambda value: {"aggregate": "c", "pipeline": [], "cursor": value},
    "limit_stage": lambda value: {"aggregate": "c", "pipeline": [{"$limit": value}], "cursor": {}},
    "skip_stage": lambda value: {"aggregate": "c", "pipeline": [{"$skip": value}], "cursor": {}},
    "group_key": lambda value: {"aggregate": "c", "pipeline": [{"$group": {"_id": {"k": value}}}], "cursor": {}},
    "name_only": lambda value: {"listCollections": 1, "nameOnly": value, "filter": {"name": "c"}},
    "counted": lambda value: {"count": value},
    "distinct_of": lambda value: {"distinct": value, "key": "a"},
    "modulo": lambda value: {"aggregate": "c", "pipeline": [{"$project": {"m": {"$mod": [7, value]}}}], "cursor": {}},
}  # fmt: skip
COMMANDS = [
    {"distinct": "c", "key": "a", "hint": "x"}, {"delete": "c", "deletes": [{}]}, {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_"}, {"key": {"q": 1}, "name": "q"}]},
    {"createIndexes": "c", "indexes": [{"key": {"q": 1}, "name": "q"}, {"key": {"r": 1}, "name": "r"}]}, {"createIndexes": "c", "indexes": [{"key": {"q": 1}, "name": "q"}]},
    {"createIndexes": "d", "indexes": [{"key": {"_id": 1}, "name": "_id_"}]}, *({"collMod": "c", "index": {"name": "q", "hidden": hidden}} for hidden in (True, True, False, False)),
    {"collMod": "c", "index": {"name": "q", "hidden": True, "expireAfterSeconds": 5}}, {"find": "c", "hint": {"$natural": 1, "a": 1}}, {"count": "v"}, {"distinct": "v", "key": "a"},
    {"explain": {"explain": {"find": "c"}}}, {"explain": {"aggregate": "c", "pipeline": []}}, {"explain": {"update": "c", "updates": []}}, {"explain": {"find": "c", "$db": "u"}},
    {"explain": {"aggregate": "c", "pipeline": [], "explain": True}}, {"explain": {"find": 5}}, {"insert": "c", "documents": [{"_id": 77}], "writeConcern": {"w": 0}},
    {"insert": "c", "documents": [{"_id": 77}], "writeConcern": {"w": 0}}, {"update": "c", "updates": [{"q": {"_id": 77}, "u": {"$set": {"a": 1}}}], "writeConcern": {"w": 0}},
    {"delete": "c", "deletes": [{"q": {"_id": 77}, "limit": 1}], "writeConcern": {"w": 0}}, {"startSession": 1, "x": 1}, {"whatsmyuri": 1, "x": 1},
    {"aggregate": "c", "pipeline": [{"$facet": {"x": [{"$planCacheStats": {}}]}}], "cursor": {}}, {"aggregate": "c", "pipeline": [{"$project": {"x": {"$substr": ["a"]}}}], "cursor": {}},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a.b.c": LONG(2**63 - 1)}}}]}, {"aggregate": "c", "pipeline": [{"$bucketAuto": {"groupBy": "$b", "buckets": 1, "output": {}}}], "cursor": {}},
]  # fmt: skip


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.run(DATABASE, {"insert": "c", "documents": [{"_id": 1, "a": {"b": {"c": 1}}, "b": 2}]})
        server.run(DATABASE, {"create": "v", "viewOn": "c", "pipeline": []})
    return _subject, _oracle


def compare(servers, command):
    ignore = ("id.id", "you", "cursor.firstBatch.*.info", "cursor.firstBatch.*.options", "queryPlanner", "stages", "serverInfo", "executionStats", "explainVersion")
    case = cases.Case(name="arguments", commands=[], database=DATABASE, ordered=False, ignore=ignore)
    cases.compare_command(*servers, case, command)


@pytest.mark.parametrize("projection", PROJECTIONS, ids=str)
def test_projections(servers, projection):
    compare(servers, {"find": "c", "projection": projection})
    compare(servers, {"aggregate": "c", "pipeline": [{"$project": projection}], "cursor": {}})
    compare(servers, {"findAndModify": "c", "query": {}, "update": {"$set": {"q": 1}}, "fields": projection})


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("field", FIELDS)
def test_fields(servers, field, value):
    compare(servers, FIELDS[field](value))


def test_commands_one_after_the_other(servers):
    for command in COMMANDS:
        compare(servers, command)


IMAGES = [None, True, False, 1, 0, "x", {}, {"enabled": True}, {"enabled": False}, {"enabled": 1}, {"x": 1}, []]
NULLS = ["timeseries", "expireAfterSeconds", "validator", "validationLevel", "validationAction", "flags", "temp", "collation", "autoIndexId", "storageEngine", "indexOptionDefaults", "capped", "size", "max"]


@pytest.mark.parametrize("option", [*({name: None} for name in NULLS), *({name: value} for name in ("changeStreamPreAndPostImages", "recordPreImages") for value in IMAGES)], ids=str)
def test_options_of_create(servers, option):
    compare(servers, {"create": "created", **option})
    for server in servers:
        server.run(DATABASE, {"ping": 1})
    listed = {"listCollections": 1, "filter": {"name": "created"}}
    case = cases.Case(name="created", commands=[], database=DATABASE, ignore=("cursor.firstBatch.*.info",))
    cases.compare_command(*servers, case, listed)
    for server in servers:
        server.run(DATABASE, {"drop": "created"})
