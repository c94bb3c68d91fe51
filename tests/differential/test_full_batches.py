"""When a cursor stays open: a batch that is full tells nothing of what comes, unless the plan knows its end. Beside mongod."""

import datetime

import bson
import pytest
from harness import cases

DATABASE = "full_batches"
FINDS = [
    {}, {"filter": {"_id": 1}}, {"filter": {"_id": 99}}, {"filter": {"_id": {"$in": [1]}}}, {"filter": {"a": 1}}, {"filter": {"a": 9}},
    {"filter": {"_id": None}}, {"sort": {"b": 1}}, {"skip": 1}, {"skip": 9}, {"filter": {"_id": 1}, "sort": {"b": 1}}, {"filter": {"_id": 1}, "skip": 1},
    {"filter": {"_id": 1}, "projection": {"a": 1}}, {"hint": {"$natural": 1}}, {"filter": {"_id": 1}, "hint": {"_id": 1}},
    {"filter": {"_id": 1}, "collation": {"locale": "en"}}, {"singleBatch": True},
]  # fmt: skip
PIPELINES = [
    [], [{"$match": {"a": 1}}], [{"$match": {"a": 9}}], [{"$limit": 2}], [{"$limit": 6}], [{"$limit": 10}], [{"$group": {"_id": "$a"}}], [{"$unwind": "$b"}],
    [{"$unwind": "$b"}, {"$limit": 2}], [{"$project": {"x": {"$add": ["$a", 1]}}}], [{"$limit": 2}, {"$project": {"x": {"$add": ["$a", 1]}}}], [{"$count": "n"}],
    [{"$skip": 1}], [{"$facet": {"x": [{"$limit": 1}]}}], [{"$lookup": {"from": "plain", "localField": "a", "foreignField": "a", "as": "z"}}], [{"$unionWith": "plain"}],
    [{"$sort": {"b": 1}}, {"$limit": 2}],
]  # fmt: skip
COLLECTIONS = ["plain", "capped", "empty", "nope", "clustered"]


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    documents = [{"_id": number, "a": number % 3, "b": [number, number + 1]} for number in range(6)]
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.run(DATABASE, {"create": "capped", "capped": True, "size": 10_000})
        server.run(DATABASE, {"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        server.run(DATABASE, {"create": "empty"})
        server.run(DATABASE, {"create": "view", "viewOn": "plain", "pipeline": [{"$match": {"a": {"$gte": 0}}}]})
        server.run(DATABASE, {"create": "series", "timeseries": {"timeField": "t"}})
        server.run(DATABASE, {"insert": "series", "documents": [{"t": datetime.datetime(2020, 1, 1, hour), "a": hour} for hour in range(4)]})
        for name in ("plain", "capped", "clustered"):
            server.run(DATABASE, {"insert": name, "documents": documents})
    return _subject, _oracle


def batches(server, command, batch_size):
    """How many documents each batch has, and whether the cursor is open behind it."""
    reply = bson.decode(server._wire.command(DATABASE, command))
    assert reply["ok"], reply
    seen = [(len(reply["cursor"]["firstBatch"]), reply["cursor"]["id"] != 0)]
    while seen[-1][1] and len(seen) < 5:
        more = {"getMore": reply["cursor"]["id"], "collection": reply["cursor"]["ns"].split(".", 1)[1]}
        reply = bson.decode(server._wire.command(DATABASE, more | ({"batchSize": batch_size} if batch_size else {})))
        assert reply["ok"], reply
        seen.append((len(reply["cursor"]["nextBatch"]), reply["cursor"]["id"] != 0))
    return seen


def compare(servers, command, batch_size):
    for server in servers:
        server.run(DATABASE, {"ping": 1})
    actual, expected = (batches(server, command, batch_size) for server in servers)
    return [] if actual == expected else [f"{command}, then {batch_size}: {actual}, in mongod {expected}"]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_find(servers, collection):
    broken = []
    for options in FINDS:
        # mongod sorts the one document, and so does not know that it is the last.
        if collection == "clustered" and "sort" in options and "filter" in options:
            continue
        for first in (None, 0, 1, 2, 6):
            for limit in (None, 1, 2, 6, 10):
                command = {"find": collection, **options} | ({"limit": limit} if limit else {}) | ({} if first is None else {"batchSize": first})
                for then in (None, 1, 2):
                    broken += compare(servers, command, then)
    assert not broken, "\n".join(broken[:10])


@pytest.mark.parametrize("collection", [*COLLECTIONS, "view", "series"])
def test_pipeline(servers, collection):
    broken = []
    for pipeline in PIPELINES:
        for first in (None, 0, 1, 2, 3, 6):
            cursor = {} if first is None else {"batchSize": first}
            # What a later batch knows of a limit depends on how much of the pipeline the plan has taken in.
            then = (None, 1, 2, 3) if "$limit" not in str(pipeline) else (None,)
            for batch_size in then:
                broken += compare(servers, {"aggregate": collection, "pipeline": pipeline, "cursor": cursor}, batch_size)
    assert not broken, "\n".join(broken[:10])


@pytest.mark.parametrize("field", [1.5, "x", None, -1, {}, bson.Decimal128("1.5"), bson.Decimal128("NaN"), float("nan"), float("inf"), True], ids=str)
@pytest.mark.parametrize("command", [{"find": "plain"}, {"aggregate": "plain", "pipeline": []}, {"listIndexes": "plain"}, {"listCollections": 1}], ids=lambda one: next(iter(one)))
def test_batch_sizes_of_any_type(servers, command, field):
    command = command | ({"batchSize": field} if "find" in command else {"cursor": {"batchSize": field}})
    case = cases.Case(name="batch", commands=[], database=DATABASE, ordered=False, ignore=("cursor.firstBatch",))
    cases.compare_command(*servers, case, command)
