"""The database profiler: its settings in mongod's words, and what it records of statements in `system.profile`."""

import json
import threading

import pymongo
import pytest
from harness import canonical

DATABASE = "profiled"
# What depends on chance, or is told of mongod's insides; `_id`, which mongod leaves out there.
UNSTEADY = {"_id", "ts", "millis", "client", "cursorid", "locks", "flowControl", "execStats", "queryFramework", "storage", "keysInserted", "keysDeleted", "responseLength"}
# How many entries a statement reads where Meridian counts or skips otherwise.
EXAMINED = {"keysExamined", "docsExamined"}


@pytest.fixture
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"profile": 0, "slowms": 100, "sampleRate": 1.0, "filter": "unset"})
        server.run(DATABASE, {"dropDatabase": 1})
        database = server.client[DATABASE]
        database["c"].insert_many([{"_id": number, "a": number % 5, "b": -number} for number in range(200)])
        database["c"].create_index("a")
    yield _subject, _oracle
    for server in (_subject, _oracle):
        server.run(DATABASE, {"profile": 0, "slowms": 100, "sampleRate": 1.0, "filter": "unset"})


def same(servers, command, database=DATABASE):
    actual, expected = (canonical.text(server.run(database, command)) for server in servers)
    assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


def test_settings(servers):
    for value in (dict(profile=1, slowms=200), dict(profile=-1), dict(profile=3), dict(profile=-1), dict(profile="x"), dict(profile=None), dict(profile=0, sampleRate=0.5), dict(profile=0, sampleRate=2),
                  dict(profile=0, sampleRate=-0.1), dict(profile=0, sampleRate="x"), dict(profile=0, slowms="x"), dict(profile=0, filter={"op": "query"}), dict(profile=-1), dict(profile=1), dict(profile=0, filter="unset"),
                  dict(profile=0, filter="x"), dict(profile=0, filter={"$nope": 1}), dict(profile=1.9), dict(profile=-1), dict(profile=0, slowms=100, sampleRate=1.0), dict(profile=-5), dict(profile=0, filter=None),
                  dict(profile=0, slowms=-1), dict(profile=-1), dict(profile=0, slowms=1.7), dict(profile=0, slowms=100)):
        same(servers, value)
    same(servers, {"insert": "system.profile", "documents": [{"a": 1}]})
    same(servers, {"delete": "system.profile", "deletes": [{"q": {}, "limit": 0}]})
    same(servers, {"profile": 2})
    same(servers, {"profile": -1}, "another")
    same(servers, {"drop": "system.profile"})
    same(servers, {"profile": 0})
    same(servers, {"collMod": "system.profile", "cappedSize": 10_000})


STATEMENTS = [
    {"find": "c", "filter": {"a": 1}, "batchSize": 5}, {"find": "c", "filter": {"a": 1}}, {"find": "c", "filter": {"_id": 5}}, {"find": "c"}, {"find": "c", "filter": {"b": 1}}, {"find": "c", "sort": {"b": 1}, "limit": 2},
    {"insert": "c", "documents": [{"_id": 1000}]}, {"insert": "c", "documents": [{"_id": 1000}]}, {"update": "c", "updates": [{"q": {"_id": 1000}, "u": {"$set": {"b": 1}}}]},
    {"update": "c", "updates": [{"q": {"a": 2}, "u": {"$inc": {"z": 1}}, "multi": True}]}, {"update": "c", "updates": [{"q": {"b": 77}, "u": {"$inc": {"z": 1}}, "upsert": True}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1000}, "limit": 1}]}, {"aggregate": "c", "pipeline": [{"$match": {"a": 3}}, {"$group": {"_id": "$b"}}], "cursor": {}}, {"count": "c"}, {"count": "c", "query": {"a": 1}},
    {"distinct": "c", "key": "b", "query": {"a": 1}}, {"collStats": "c"}, {"find": "c", "filter": {"$nope": 1}}, {"createIndexes": "c", "indexes": [{"key": {"q": 1}, "name": "q"}]}, {"dropIndexes": "c", "index": "q"},
    {"create": "n"}, {"drop": "n"}, {"ping": 1}, {"listCollections": 1}, {"find": "c", "filter": {"x": "x" * 60_000}},
]


def records(server):
    """What was recorded, by command."""
    found = {}
    for record in server.client[DATABASE]["system.profile"].find():
        command = {name: value for name, value in record["command"].items() if name not in ("lsid", "ordered", "$db")}
        text = json.dumps(command, default=str, sort_keys=True)
        kept = {name: value for name, value in record.items() if name not in UNSTEADY and name != "command"}
        found.setdefault(text[:300], []).append(kept)
    return found


def test_records(servers):
    for server in servers:
        server.run(DATABASE, {"profile": 2})
        for statement in STATEMENTS:
            server.run(DATABASE, statement)
        server.run(DATABASE, {"profile": 0})
        server.run(DATABASE, {"find": "c", "filter": {"not": "recorded"}})
    actual, expected = map(records, servers)
    assert {text for text in actual if "$truncated" not in text} == {text for text in expected if "$truncated" not in text}
    assert sum("$truncated" in text for text in actual) == 1
    for text, theirs in expected.items():
        if "$truncated" in text:
            continue
        for own, other in zip(actual[text], theirs, strict=True):
            told = {name for name in own if name in EXAMINED}
            assert {name: value for name, value in own.items() if name not in EXAMINED} == {name: value for name, value in other.items() if name not in EXAMINED}, text
            assert told <= set(other), text
            for name in told:
                assert own[name] <= other[name] + 1, text


def test_slow_ones_and_filters(_subject, servers):
    database = _subject.client[DATABASE]
    database.command("profile", 1, slowms=10_000)
    database["c"].find_one({"a": 1})
    assert not list(database["system.profile"].find())
    database.command("profile", 1, slowms=-1)
    database["c"].find_one({"a": 1})
    assert [record["op"] for record in database["system.profile"].find({"ns": f"{DATABASE}.c"})] == ["query"]
    database.command("profile", 1, slowms=-1, sampleRate=0.0)
    database["c"].find_one({"a": 1})
    assert database["system.profile"].count_documents({"ns": f"{DATABASE}.c"}) == 1
    database.command("profile", 1, filter={"op": "insert"})
    database["c"].find_one({"a": 1})
    database["c"].insert_one({"a": 9})
    assert [record["op"] for record in database["system.profile"].find({"ns": f"{DATABASE}.c"})] == ["query", "insert"]


def test_secrets_are_not_recorded(_subject, servers):
    database = _subject.client[DATABASE]
    database.command("profile", 2)
    database.command("createUser", "someone", pwd="a secret", roles=[])
    database.command("updateUser", "someone", pwd="another secret")
    database.command("dropUser", "someone")
    database.command("profile", 0)
    assert "secret" not in str(list(database["system.profile"].find()))


def test_many_clients_beside_a_drop(_subject, servers):
    """Records are lost with their collection, statements are not: it is made again."""
    database = _subject.client[DATABASE]
    database.command("profile", 2)
    failed = []

    def work():
        with pymongo.MongoClient("127.0.0.1", _subject.port) as client:
            for number in range(300):
                try:
                    client[DATABASE]["c"].update_one({"_id": number % 200}, {"$inc": {"n": 1}})
                    if number % 100 == 50:
                        client[DATABASE].command("profile", 0)
                        client[DATABASE].drop_collection("system.profile")
                        client[DATABASE].command("profile", 2)
                except pymongo.errors.OperationFailure as error:
                    # Another has switched it on in between.
                    if error.code != 20:
                        failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    database["c"].find_one({"a": 1})
    assert list(database["system.profile"].find({"op": "query"}))
    assert database.command("validate", "system.profile")["valid"]
