"""Clustered collections: their cluster key by its name, and that `_id` has no index beside it. Beside mongod."""

import re

import pytest
from harness import cases

CLUSTERED = {"own": {"key": {"_id": 1}, "unique": True}, "named": {"key": {"_id": 1}, "unique": True, "name": "foo"}, "flag": True}
COMMANDS = [
    {"insert": "c", "documents": [{"_id": 1}]}, {"listIndexes": "c"}, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_"}]}, {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "foo"}]}, {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "foo", "clustered": True, "unique": True}]},
    {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "bar", "clustered": True, "unique": True}, {"key": {"b": 1}, "name": "b_1"}]}, {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "foo", "clustered": False, "unique": True}]},
    {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "foo", "clustered": True}]}, {"dropIndexes": "c", "index": "_id_"}, {"dropIndexes": "c", "index": "foo"}, {"dropIndexes": "c", "index": {"_id": 1}}, {"dropIndexes": "c", "index": "*"}, {"dropIndexes": "c", "index": "nope"},
    {"find": "c", "hint": "_id_"}, {"find": "c", "hint": "foo"}, {"find": "c", "hint": {"_id": 1}}, {"find": "c", "hint": "nope"}, {"count": "c", "query": {"_id": {"$gt": 1}}, "hint": "foo"}, {"distinct": "c", "key": "a"}, {"aggregate": "c", "pipeline": [], "cursor": {}, "hint": "foo"},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}, "upsert": True}]}, {"update": "c", "updates": [{"q": {"a": 9}, "u": {"$set": {"_id": 1}}, "upsert": True}]}, {"collMod": "c", "index": {"name": "_id_", "hidden": True}},
    {"collMod": "c", "index": {"name": "foo", "hidden": True}}, {"collMod": "c", "index": {"keyPattern": {"_id": 1}, "hidden": True}}, {"find": "c", "min": {"_id": 1}, "hint": {"_id": 1}}, {"find": "c", "filter": {"_id": {"$gt": 0}}, "sort": {"_id": -1}},
    {"aggregate": "c", "pipeline": [{"$indexStats": {}}, {"$project": {"name": 1, "key": 1}}], "cursor": {}}, {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1, "hint": "foo"}]}, {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"z": 1}}, "hint": "foo"},
]  # fmt: skip


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:80]


@pytest.fixture(scope="module", params=CLUSTERED)
def clustered(_subject, _oracle, request):
    servers = _subject, _oracle
    for server in servers:
        server.run("clustered", {"dropDatabase": 1})
        server.run("clustered", {"create": "c", "clusteredIndex": CLUSTERED[request.param]})
        server.run("clustered", {"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]})
    return servers


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_commands(clustered, command):
    case = cases.Case(name="clustered", commands=[], database="clustered", message_differs="mongod shows its parse tree" if "hint" in command else None)
    cases.compare_command(*clustered, case, command)


def test_figures(clustered):
    def figures(server):
        stats, database, report = (server.run("clustered", command) for command in ({"collStats": "c"}, {"dbStats": 1}, {"validate": "c"}))
        return stats.get("nindexes"), stats.get("indexSizes").names(), database.get("indexes"), report.get("nIndexes"), report.get("keysPerIndex"), report.get("valid")

    assert figures(clustered[0]) == figures(clustered[1])
