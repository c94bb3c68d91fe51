"""$collStats with every option of every type, on every kind of collection: errors and fields beside mongod's; and stages that a
standalone refuses."""

import datetime

import bson
import pytest
from harness import cases

DATABASE = "collection_stats"
VALUES = [None, 1, 0, "x", True, False, [], {}, {"x": 1}, 1.5, bson.Int64(3), bson.Regex("a")]
OPTIONS = [
    {}, {"x": 1}, {"latencyStats": {"histograms": True}}, {"latencyStats": {"histograms": False}}, {"storageStats": {"scale": 10}},
    {"count": {}, "storageStats": {}, "latencyStats": {}, "queryExecStats": {}}, {"latencyStats": {"x": 1}},
    *({name: value} for name in ("count", "storageStats", "latencyStats", "queryExecStats") for value in VALUES),
    *({"latencyStats": {"histograms": value}} for value in VALUES),
    *({"storageStats": {name: value}} for name in ("scale", "verbose", "waitForLock", "numericOnly") for value in VALUES),
]  # fmt: skip
# What lies beneath is another engine.
OWN = ("meridian", "wiredTiger", "indexDetails")


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.run(DATABASE, {"insert": "plain", "documents": [{"_id": number, "a": "x" * 100} for number in range(50)]})
        server.run(DATABASE, {"create": "view", "viewOn": "plain", "pipeline": []})
        server.run(DATABASE, {"create": "empty"})
        server.run(DATABASE, {"create": "capped", "capped": True, "size": 4096, "max": 10})
        server.run(DATABASE, {"create": "series", "timeseries": {"timeField": "t"}})
        server.run(DATABASE, {"insert": "series", "documents": [{"t": datetime.datetime(2020, 1, 1)}]})
    return _subject, _oracle


def shape(value, depth=0):
    """Names and types, of counts the counts; a histogram has what it has."""
    if isinstance(value, dict):
        inner = {name: shape(own, depth + 1) for name, own in value.items() if name not in OWN and name != "timeseries"}
        return {name: [] if name == "histogram" else own for name, own in inner.items()}
    if isinstance(value, list):
        return [shape(item, depth + 1) for item in value[:1]]
    return type(value).__name__


def ask(server, collection, options):
    server.run(DATABASE, {"ping": 1})
    reply = bson.decode(server._wire.command(DATABASE, {"aggregate": collection, "pipeline": [{"$collStats": options}], "cursor": {}}))
    if not reply["ok"]:
        return reply["code"], reply["errmsg"]
    rows = reply["cursor"]["firstBatch"]
    return [{**shape(row), **({"count": row["count"]} if "count" in row else {})} for row in rows], [row["ns"] for row in rows]


@pytest.mark.parametrize("collection", ["plain", "view", "empty", "capped", "series", "nope"])
def test_options(servers, collection):
    for options in OPTIONS:
        actual, expected = (ask(server, collection, options) for server in servers)
        assert actual == expected, options


def test_figures_follow_what_is_done(_subject):
    """Latencies and scans are counted by collection; a histogram has as many operations as were counted."""
    database = _subject.client[DATABASE]
    database.followed.drop()
    database.followed.insert_one({"_id": 1})
    stats = lambda: next(database.followed.aggregate([{"$collStats": {"latencyStats": {"histograms": True}, "queryExecStats": {}}}]))  # noqa: E731
    before = stats()
    for _ in range(3):
        list(database.followed.find({"a": 1}))
        database.followed.update_one({"_id": 1}, {"$inc": {"n": 1}})
    after = stats()
    for kind, added in (("reads", 4), ("writes", 3)):
        own = after["latencyStats"][kind]
        assert own["ops"] - before["latencyStats"][kind]["ops"] == added
        assert sum(bucket["count"] for bucket in own["histogram"]) == own["ops"]
    scans = [figures["queryExecStats"]["collectionScans"]["nonTailable"] for figures in (before, after)]
    assert scans[1] - scans[0] == 3


STAGES = ["$changeStream", "$operationMetrics", "$shardedDataDistribution", "$listCachedAndActiveUsers", "$queue", "$_internalDensify", "$search", "$searchMeta", "$backupCursor", "$nope"]


@pytest.mark.parametrize("stage", STAGES)
def test_refused_stages(servers, stage):
    for value in [{}, None, 1, "x", []]:
        case = cases.Case(name="refused", commands=[], database=DATABASE)
        cases.compare_command(*servers, case, {"aggregate": "plain", "pipeline": [{stage: value}], "cursor": {}})
