"""Sessions and what the server tells of itself in pipelines: `$currentOp`, `$listLocalSessions`, `$listSessions`."""

import re
import time
import uuid

import pytest
from bson import Binary, Int64, ObjectId
from harness import canonical
from pymongo.errors import OperationFailure

DATABASE = "sessions"
LOCAL, LISTED, CURRENT = "$listLocalSessions", "$listSessions", "$currentOp"
ID, UID = Binary(b"a" * 16, 4), Binary(b"x" * 32, 0)


def run(stages, database="admin", collection=1, **options):
    return {"aggregate": collection, "pipeline": stages, "cursor": {}, **options}, database


def of_sessions(stages):
    return run(stages, "config", "system.sessions")


NONE = {"$match": {"x": 1}}
USERS = [None, 5, [], [5], [{}], [{"user": "x"}], [{"db": "x"}], [{"user": 5, "db": "y"}], [{"user": "x", "db": 5}], [{"user": "x", "db": "y", "z": 1}], [{"user": "x", "db": "y"}]]
SHOWN = {"$group": {"_id": {"$type": "$_id.id"}, "uid": {"$first": "$_id.uid"}, "last": {"$first": {"$type": "$lastUse"}}}}

PIPELINES = {
    "current_op_flags": [run([{CURRENT: {name: value}}, NONE]) for name in ("allUsers", "idleConnections", "idleCursors", "idleSessions", "localOps", "truncateOps", "backtrace", "targetAllNodes", "foo")
                         for value in (True, False, 1, "x", None)],
    "current_op_options": [run([{CURRENT: value}]) for value in (5, "x", None, [])],
    "current_op_places": [run([{CURRENT: {}}], "t"), run([{CURRENT: {}}], collection="x"), run([{"$match": {}}, {CURRENT: {}}]), run([{"$match": {}}, {CURRENT: {}}], collection="x"),
                          run([{"$facet": {"a": [{CURRENT: {}}]}}]), run([{"$facet": {"a": [{CURRENT: {}}]}}], collection="x"), run([{CURRENT: {}}, NONE]), run([{CURRENT: {}}, {CURRENT: {}}]),
                          run([{CURRENT: {}}, {"$out": "x"}]), run([{CURRENT: {}}, {"$nope": 1}]), run([{CURRENT: {}}, {"$group": {"_id": None, "n": {"$sum": 0}}}]),
                          run([{"$lookup": {"from": "x", "pipeline": [{CURRENT: {}}], "as": "r"}}], "t", "c"), run([{"$unionWith": {"coll": "x", "pipeline": [{CURRENT: {}}]}}], "t", "c"),
                          ({"create": "v", "viewOn": "c", "pipeline": [{CURRENT: {}}]}, "t")],
    "local_options": [run([{LOCAL: value}, NONE]) for value in (5, None, {}, {"foo": 1}, {"allUsers": "x"}, {"allUsers": 1}, {"allUsers": True}, {"allUsers": True, "users": [{"user": "x", "db": "y"}]}, {"allUsers": True, "users": []},
                                                                {"allUsers": False, "users": []})],
    "local_users": [run([{LOCAL: {"users": users}}, NONE]) for users in USERS],
    "local_places": [run([{LOCAL: {}}], "t", "c"), run([{"$match": {}}, {LOCAL: {}}]), run([{"$match": {}}, {LOCAL: {}}], collection="x"), run([{LOCAL: {}}, NONE], "t"), run([{"$facet": {"a": [{LOCAL: {}}]}}]),
                     run([{"$facet": {"a": [{LOCAL: {}}]}}], collection="x"), run([{LOCAL: {}}, SHOWN]), run([{LOCAL: {"allUsers": True}}, SHOWN], "t"), run([{LOCAL: {"users": [{"user": "x", "db": "y"}]}}]),
                     run([{"$lookup": {"from": "x", "pipeline": [{LOCAL: {}}], "as": "r"}}], "t", "c"), ({"create": "v", "viewOn": "c", "pipeline": [{LOCAL: {}}]}, "t")],
    "listed_options": [of_sessions([{LISTED: value}, NONE]) for value in (5, None, {}, {"foo": 1}, {"allUsers": "x"}, {"allUsers": True}, {"allUsers": True, "users": [{"user": "x", "db": "y"}]})],
    "listed_users": [of_sessions([{LISTED: {"users": users}}, NONE]) for users in USERS],
    "listed_places": [run([{LISTED: {}}], "t", "c"), run([{LISTED: {}}]), of_sessions([{"$match": {}}, {LISTED: {}}]), of_sessions([{"$facet": {"a": [{LISTED: {}}]}}]),
                      ({"create": "v", "viewOn": "c", "pipeline": [{LISTED: {}}]}, "t")],
}

LISTS = [[], 5, "x", None, [5], [{}], [{"x": 1}], [{"user": "a", "db": "b"}], [{"user": 5, "db": "b"}], [{"user": "a"}], [{"lsid": {"id": ID}}], [{"lsid": {"id": ID, "uid": UID}}], [{"lsid": 5}], [{"lsid": {"id": 5, "uid": UID}}],
         [{"id": ID}], [{"id": Binary(b"x", 0)}], [{"id": 5}], [{"id": ID, "uid": UID}], [{"uid": UID}], [{"uid": 5}], [{"uid": ID}], [{"users": [{"user": "a", "db": "b"}]}], [{"roles": [{"role": "a", "db": "b"}]}], [{"id": ID}, 5]]

OTHERS = [({"features": 1}, "admin"), ({"availableQueryOptions": 1}, "t"), ({"driverOIDTest": 1}, "t"), ({"driverOIDTest": ObjectId("0123456789abcdef01234567")}, "t"), ({"setFreeMonitoring": 1}, "admin"),
          ({"setFreeMonitoring": 1, "action": "x"}, "admin"), ({"setFreeMonitoring": 1, "action": "disable"}, "admin"), ({"setFreeMonitoring": 1, "action": "disable"}, "t"), ({"setParameter": 1}, "admin"), ({"setParameter": 1, "nope": 1}, "admin")]


def same(servers, command, database):
    def text(server):
        found = canonical.text(server.run(database, command))
        return re.sub(r"oidMachine: int(32|64)\(-?\d+\)", "oidMachine", found)

    actual, expected = map(text, servers)
    assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


@pytest.fixture
def servers(_subject, _oracle):
    return _subject, _oracle


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(servers, name):
    for command, database in PIPELINES[name]:
        # When mongod has written its sessions down, each few minutes, it lists none until one is used.
        for left in reversed(range(10)):
            try:
                same(servers, command, database)
                break
            except AssertionError:
                if left == 0:
                    raise
                time.sleep(0.3)
                for server in servers:
                    with server.client.start_session() as session:
                        server.client.admin.command("ping", session=session)


@pytest.mark.parametrize("name", ["killAllSessions", "killAllSessionsByPattern", "killSessions", "endSessions", "refreshSessions"])
def test_lists(servers, name):
    for value in LISTS:
        same(servers, {name: value}, "admin")


def test_other_commands(servers):
    for command, database in OTHERS:
        same(servers, command, database)


def listed(server, stage=LOCAL):
    target = ("config", "system.sessions") if stage == LISTED else ("admin", 1)
    reply = server.client[target[0]].command("aggregate", target[1], pipeline=[{stage: {}}, {"$limit": 100_000}], cursor={"batchSize": 100_000})
    return {row["_id"]["id"].as_uuid() for row in reply["cursor"]["firstBatch"]}


@pytest.mark.parametrize("ending", ["endSessions", "killSessions", "killAllSessions", "killAllSessionsByPattern", "pattern of its name", "pattern of its user"])
def test_sessions_end_with_their_cursors(_subject, ending):
    database = _subject.client[DATABASE]
    database.drop_collection("c")
    database["c"].insert_many([{"_id": number} for number in range(100)])
    session = _subject.client.start_session()
    cursor = database.command({"find": "c", "batchSize": 2}, session=session)["cursor"]["id"]
    lsid = {"id": session.session_id["id"]}
    assert lsid["id"].as_uuid() in listed(_subject) and lsid["id"].as_uuid() in listed(_subject, LISTED)
    nobody = Binary(bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), 0)
    commands = {"endSessions": {"endSessions": [lsid]}, "killSessions": {"killSessions": [lsid]}, "killAllSessions": {"killAllSessions": []}, "killAllSessionsByPattern": {"killAllSessionsByPattern": []},
                "pattern of its name": {"killAllSessionsByPattern": [{"lsid": {**lsid, "uid": nobody}}]}, "pattern of its user": {"killAllSessionsByPattern": [{"uid": nobody}]}}
    _subject.client.admin.command({"killAllSessionsByPattern": [{"lsid": {**lsid, "uid": UID}}]})
    assert lsid["id"].as_uuid() in listed(_subject), "it is another user's that was named"
    _subject.client.admin.command(commands[ending])
    with pytest.raises(OperationFailure) as caught:
        database.command({"getMore": Int64(cursor), "collection": "c"}, session=session)
    assert caught.value.code == 43
    _subject.client.admin.command({"endSessions": [lsid]})
    assert lsid["id"].as_uuid() not in listed(_subject)


def test_started_and_refreshed_sessions_are_listed(_subject):
    started = _subject.client.admin.command("startSession")["id"]["id"].as_uuid()
    refreshed = uuid.uuid4()
    _subject.client.admin.command({"refreshSessions": [{"id": Binary.from_uuid(refreshed)}]})
    assert {started, refreshed} <= listed(_subject)


def test_idle_cursors(_subject):
    database = _subject.client[DATABASE]
    database.drop_collection("idle")
    database["idle"].insert_many([{"_id": number} for number in range(100)])
    cursor = database.command({"find": "idle", "batchSize": 2})["cursor"]["id"]
    rows = list(_subject.client.admin.aggregate([{CURRENT: {"idleCursors": True}}, {"$match": {"type": "idleCursor", "ns": f"{DATABASE}.idle"}}]))
    assert [row["cursor"]["cursorId"] for row in rows] == [cursor]
    assert not list(_subject.client.admin.aggregate([{CURRENT: {}}, {"$match": {"type": "idleCursor"}}]))


def test_sessions_that_only_cursors_know(_subject):
    """A connection that used its session a moment ago notes it again once it was ended, and its cursors end with all others."""
    database = _subject.client[DATABASE]
    database.drop_collection("c")
    database["c"].insert_many([{"_id": number} for number in range(100)])
    session = _subject.client.start_session()
    for _ in range(20):
        database.command("ping", session=session)
        _subject.client.admin.command({"killAllSessions": []})
        cursor = database.command({"find": "c", "batchSize": 2}, session=session)["cursor"]["id"]
        assert session.session_id["id"].as_uuid() in listed(_subject)
        _subject.client.admin.command({"killAllSessions": []})
        with pytest.raises(OperationFailure) as caught:
            database.command({"getMore": Int64(cursor), "collection": "c"}, session=session)
        assert caught.value.code == 43


def test_lists_that_wait_are_bounded(_subject):
    """Cursors over what the server tells of itself take from the memory of waiting cursors."""
    for _ in range(20):
        _subject.client.admin.command({"refreshSessions": [{"id": Binary.from_uuid(uuid.uuid4())} for _ in range(5_000)]})
    refused = 0
    try:
        for _ in range(120):
            _subject.client.admin.command("aggregate", 1, pipeline=[{LOCAL: {"allUsers": True}}], cursor={"batchSize": 2})
    except OperationFailure as error:
        assert error.code == 146, error
        refused = 1
    finally:
        _subject.client.admin.command({"killAllSessions": []})
    assert refused, "120 lists of 100,000 sessions wait"


SESSIONS = {"first": {"lsid": {"id": Binary(bytes([1] * 16), 4)}}, "second": {"lsid": {"id": Binary(bytes([2] * 16), 4)}}, "none": {}}
VERSIONS = {"none": {}, "one": {"apiVersion": "1"}, "strict": {"apiVersion": "1", "apiStrict": True}, "errors": {"apiVersion": "1", "apiDeprecationErrors": False}}


@pytest.mark.parametrize("options", [SESSIONS, VERSIONS], ids=["sessions", "versions"])
def test_cursors_belong_to_their_session_and_version(_subject, _oracle, options):
    """getMore goes on where the session and the version are those of the cursor's statement, and is refused else; the cursor stays."""
    replies = []
    for server in (_subject, _oracle):
        server.run(DATABASE, {"insert": "owned", "documents": [{"x": 1}] * 20})
        own = []
        for opened in options.values():
            for name, asking in options.items():
                cursor = server.run(DATABASE, {"find": "owned", "batchSize": 2, "projection": {"_id": 0}, **opened}).get("cursor").get("id")
                number = cursor[len("int64(") : -1]
                more = {"getMore": Int64(number), "collection": "owned", "batchSize": 2}
                own.append((name, canonical.text(server.run(DATABASE, {**more, **asking})).replace(number, "CURSOR")))
                own.append(canonical.text(server.run(DATABASE, {**more, **opened})).replace(number, "CURSOR"))
                server.run(DATABASE, {"killCursors": "owned", "cursors": [Int64(number)]})
        server.run(DATABASE, {"drop": "owned"})
        replies.append(own)
    assert replies[0] == replies[1]
