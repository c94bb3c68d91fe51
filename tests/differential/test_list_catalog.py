"""`$listCatalog`: what the catalogue holds of collections and views."""

import re

import pytest
from harness import canonical

DATABASE = "list_catalog"
LIST = {"$listCatalog": {}}
INDEXES = [
    {"key": {"a": 1}, "name": "a"}, {"key": {"x.y": 1, "z": 1}, "name": "xy", "sparse": True}, {"key": {"t": "text"}, "name": "t"}, {"key": {"g": "2dsphere"}, "name": "g"}, {"key": {"h": "hashed"}, "name": "h"}, {"key": {"z": -1, "a": 1}, "name": "za"},
    {"key": {"p": "2d"}, "name": "p"}, {"key": {"u": 1}, "name": "u", "unique": True, "partialFilterExpression": {"u": {"$gt": 3}}}, {"key": {"e": 1}, "name": "e", "expireAfterSeconds": 5}, {"key": {"s": 1}, "name": "s", "collation": {"locale": "fr"}}, {"key": {"w": 1}, "name": "w", "sparse": True, "hidden": True, "unique": True}, {"key": {"w": -1}, "name": "w2", "hidden": True},
]  # fmt: skip
PIPELINES = {
    **{name: [(name, [LIST])] for name in ("c", "v", "same", "series", "system.buckets.series", "clustered", "capped", "system.views", "none")},
    "arguments": [("c", [{"$listCatalog": value}]) for value in (5, None, "x", [], {"a": 1}, True)],
    "places": [("c", [{"$match": {}}, LIST]), ("c", [{"$facet": {"a": [LIST]}}]), (1, [LIST]), ("c", [LIST, LIST])],
    "within": [("c", [{"$lookup": {"from": "c", "pipeline": [LIST, {"$project": {"ns": 1, "type": 1}}], "as": "o"}}]), ("c", [{"$unionWith": {"coll": "capped", "pipeline": [LIST]}}, {"$project": {"ns": 1}}]), ("listed", [{"$project": {"ns": 1}}])],
    "output": [("c", [LIST, {"$project": {"_id": "$name", "type": 1}}, {"$out": "written"}]), ("written", [])],
}  # fmt: skip


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        database = server.client[DATABASE]
        server.client.drop_database(DATABASE)
        database["c"].insert_one({"_id": 1, "a": [1, {"b": 2}], "x": {"y": 1}})
        for command in (
            {"createIndexes": "c", "indexes": INDEXES}, {"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}], "collation": {"locale": "fr"}}, {"create": "same", "viewOn": "c", "pipeline": []},
            {"create": "listed", "viewOn": "c", "pipeline": [LIST]}, {"create": "series", "timeseries": {"timeField": "t", "metaField": "m"}, "expireAfterSeconds": 100}, {"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}},
            {"create": "capped", "capped": True, "size": 4096, "max": 5, "collation": {"locale": "de"}, "validator": {"a": {"$exists": True}}},
        ):  # fmt: skip
            database.command(command)
    return _subject, _oracle


def text(reply):
    """Identities are each server's own."""
    own = re.sub(r'"(index|collection)-[-0-9]+"', "an ident", canonical.text(reply))
    return re.sub(r"(uuid.{0,12})binary\([^)]*\)", r"\1a uuid", own, flags=re.IGNORECASE)


def same(servers, database, command):
    actual, expected = (text(server.run(database, command)) for server in servers)
    assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


@pytest.mark.parametrize("kind", PIPELINES)
def test_pipelines(servers, kind):
    for target, pipeline in PIPELINES[kind]:
        same(servers, DATABASE, {"aggregate": target, "pipeline": pipeline, "cursor": {}})


def test_all_databases(servers):
    own = [LIST, {"$match": {"db": DATABASE}}]
    for rest in ([], [{"$project": {"ident": 0, "md.options.uuid": 0, "idxIdent": 0}}], [{"$group": {"_id": "$type", "n": {"$sum": 1}}}]):
        for server in servers:
            server.client[DATABASE].drop_collection("written")
        same(servers, "admin", {"aggregate": 1, "pipeline": [*own, *rest, {"$sort": {"_id": 1, "name": 1}}], "cursor": {}})


def test_explain(servers):
    for stage in (LIST, {"$indexStats": {}}, {"$collStats": {"count": {}}}, {"$planCacheStats": {}}):
        command = {"explain": {"aggregate": "c", "pipeline": [stage], "cursor": {}}, "verbosity": "queryPlanner"}
        actual, expected = (server.client[DATABASE].command(command)["stages"] for server in servers)
        assert actual == expected, stage
