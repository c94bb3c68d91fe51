"""Maintenance and what a standalone says of replication, shards and connections: compact, dbHash, filemd5 and others."""

import re

import pytest
from bson import Binary
from harness import cases

API = {"version": "1", "strict": True}
# fmt: off
COMMANDS = [
    *({"compact": collection} for collection in ("t", "none", 1, "", "v", None)),
    *({"reIndex": collection} for collection in ("t", "u", "none", 1, "", "v", None)),
    *({"compact": "t", **more} for more in ({"force": True}, {"force": "x"}, {"comment": "x"}, {"foo": 1})),
    *({"dbHash": 1, **more} for more in ({}, {"collections": ["t"]}, {"collections": ["none"]}, {"collections": 1}, {"collections": []}, {"foo": 1}, {"collections": ["u", "t"]})),
    {"dbHash": "x"}, {"dbhash": 1},
    *({"filemd5": file, **more} for file in (1, 2, 4, 5, 9, None) for more in ({}, {"root": "fs"}, {"root": ""}, {"root": 1}, {"root": "none"}, {"foo": 1})),
    *({"validateDBMetadata": 1, **more} for more in (
        {}, {"apiParameters": 1}, {"apiParameters": {}}, {"apiParameters": {"version": "1"}}, {"apiParameters": {"version": "1", "strict": False}}, {"apiParameters": {"version": 1}},
        {"apiParameters": {"version": "1", "foo": 1}}, {"apiParameters": API, "db": "maintained"}, {"apiParameters": API, "db": 1}, {"apiParameters": API, "db": "maintained", "collection": "u"},
        {"apiParameters": API, "db": "maintained", "collection": "t"}, {"apiParameters": API, "db": "none"}, {"apiParameters": API, "foo": 1})),
    *({name: 1} for name in ("connPoolStats", "connPoolSync", "getLastError", "dropConnections", "lockInfo", "logRotate", "shardingState", "getFreeMonitoringStatus", "replSetGetConfig")),
]
ADMIN = [
    *({name: 1} for name in (
        "appendOplogNote", "getDefaultRWConcern", "setDefaultRWConcern", "lockInfo", "logRotate", "shardingState", "getFreeMonitoringStatus", "dropConnections", "connPoolStats",
        "replSetAbortPrimaryCatchUp", "replSetFreeze", "replSetGetConfig", "replSetGetRBID", "replSetInitiate", "replSetMaintenance", "replSetReconfig", "replSetResizeOplog", "replSetStepDown",
        "replSetStepUp", "replSetSyncFrom", "replSetGetStatus", "setFeatureCompatibilityVersion")),
    *({"setFeatureCompatibilityVersion": version, **more} for version, more in (("6.0", {}), ("4.4", {}), ("x", {}), ("6.0", {"foo": 1}))),
    *({"logRotate": log} for log in (1, True, "server", "x")),
    *({"dropConnections": 1, "hostAndPort": hosts} for hosts in ([], ["a:1"], [1], 1)),
    {"getFreeMonitoringStatus": 1, "foo": 1},
]
# fmt: on


@pytest.fixture(scope="module")
def maintained(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("maintained", {"dropDatabase": 1})
        for name, count in {"t": 50, "u": 1}.items():
            server.run("maintained", {"insert": name, "documents": [{"_id": i, "a": i, "b": "x" * i} for i in range(count)]})
        server.run("maintained", {"create": "empty"})
        server.run("maintained", {"createIndexes": "u", "indexes": [{"key": {"a": 1}, "name": "s", "sparse": True}, {"key": {"l": "2dsphere"}, "name": "l"}, {"key": {"m": "2d"}, "name": "m"}]})
        chunks = [{"_id": n, "files_id": 1, "n": n, "data": Binary(bytes([n]) * 100)} for n in range(5)]
        chunks += [{"_id": 10, "files_id": 4, "n": 1, "data": Binary(b"x")}, {"_id": 11, "files_id": 5, "n": 0, "data": "x"}, {"_id": 12, "files_id": 9, "n": 0}]
        server.run("maintained", {"insert": "fs.chunks", "documents": chunks})
        server.run("maintained", {"createIndexes": "fs.chunks", "indexes": [{"key": {"files_id": 1, "n": 1}, "name": "chunks", "unique": True}]})
        server.run("views_maintained", {"create": "v", "viewOn": "t"})
    return _subject, _oracle


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:80]


def compare(servers, database, command):
    case = cases.Case(name="maintenance", commands=[], database=database, ignore=("host", "uuids", "timeMillis", "bytesFreed"))
    cases.compare_command(*servers, case, command)


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_command(maintained, command):
    compare(maintained, "maintained", command)


@pytest.mark.parametrize("command", ADMIN, ids=named)
def test_admin_command(maintained, command):
    compare(maintained, "admin", command)


def test_views_are_not_compacted(maintained):
    compare(maintained, "views_maintained", {"compact": "v"})


def test_hashes_follow_the_documents(maintained):
    """Equal data has equal hashes on both servers, in whichever order it was written; other data has others."""
    for server in maintained:
        server.run("hashed", {"dropDatabase": 1})
    for number, order in enumerate(([1, 2, 3], [3, 1, 2])):
        for server in maintained:
            server.run("hashed", {"drop": "c"})
            server.run("hashed", {"insert": "c", "documents": [{"_id": i, "v": "x" * i} for i in order]})
        compare(maintained, "hashed", {"dbHash": 1})
        hashes = [server.client.hashed.command("dbHash")["collections"]["c"] for server in maintained]
        assert hashes[0] == hashes[1]
        if number:
            assert hashes[0] == before
        before = hashes[0]
    for server in maintained:
        server.run("hashed", {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"v": "y"}}}]})
    compare(maintained, "hashed", {"dbHash": 1})
    assert maintained[0].client.hashed.command("dbHash")["collections"]["c"] != before


def test_compact_frees_what_was_deleted(_subject):
    for _ in range(3):
        _subject.client.maintained.large.insert_many([{"fill": "%d" % i * 500} for i in range(20_000)])
        _subject.client.maintained.large.delete_many({})
    _subject.client.maintained.large.insert_many([{"_id": i} for i in range(10)])
    reply = _subject.client.maintained.command("compact", "large")
    assert reply["bytesFreed"] >= 0
    assert _subject.client.maintained.command("validate", "large")["valid"]
    assert _subject.client.maintained.large.count_documents({}) == 10
