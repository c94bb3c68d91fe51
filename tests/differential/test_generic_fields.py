"""What every command may carry: read and write concern, read preference, time limit, session, API version; of every form.

Whole replies beside mongod's, for commands that take them and commands that do not.
"""

import bson
import pytest
from harness import cases

NOW = bson.Timestamp(1, 1)
SESSION = bson.Binary(b"0123456789abcdef", 4)
LONG = bson.Int64(1)
VALUES = [1, "x", None, [], True, 1.5, bson.Decimal128("1.5"), bson.Int64(5), bson.Regex("a"), {}, {"a": 1}]

LEVELS = ["local", "available", "majority", "linearizable", "snapshot", "foo", "", 1, None, True, {}]
OP_TIME = {"ts": NOW, "t": LONG}
READ_CONCERNS = [
    *({"level": level} for level in LEVELS),
    {"x": 1}, {"level": "local", "x": 1}, {"provenance": "x"}, {"provenance": 1}, {"provenance": "clientSupplied"},
    {"level": "majority", "provenance": "customDefault"}, {"afterClusterTime": 1}, {"afterClusterTime": NOW},
    {"afterClusterTime": bson.Timestamp(0, 0)}, {"afterClusterTime": NOW, "level": "majority"},
    {"afterClusterTime": NOW, "level": "linearizable"}, {"afterClusterTime": NOW, "level": "snapshot"},
    {"atClusterTime": NOW}, {"atClusterTime": 1}, {"atClusterTime": NOW, "level": "snapshot"}, {"afterOpTime": {}},
    {"afterOpTime": 1}, {"afterOpTime": {"ts": NOW}}, {"afterOpTime": OP_TIME}, {"afterOpTime": OP_TIME, "level": "snapshot"},
    {"atClusterTime": NOW, "afterClusterTime": NOW, "level": "snapshot"}, {"afterOpTime": OP_TIME, "afterClusterTime": NOW},
    *VALUES,
]  # fmt: skip
WRITE_CONCERNS = [
    *({"w": w} for w in [0, 1, 2, 50, 51, -1, 1.5, "majority", "x", "", None, {}, {"a": 1}, {"a": "b"}, [], True, LONG, bson.Decimal128("1")]),
    *({"j": value} for value in VALUES), *({"fsync": value} for value in VALUES),
    *({"wtimeout": value} for value in [*VALUES, 2**31, 2**31 - 1, -1, bson.Int64(2**40)]),
    {"j": True, "fsync": True}, {"provenance": "x"}, {"provenance": 1}, {"x": 1}, {"w": 1, "provenance": "customDefault"},
    {"getLastError": 1}, {"w": 1, "wtimeout": 100, "j": False}, {"w": 0, "j": True}, *VALUES,
]  # fmt: skip
READ_PREFERENCES = [
    *({"mode": mode} for mode in ["primary", "secondary", "primaryPreferred", "secondaryPreferred", "nearest", "x", "", 1, None]),
    {}, {"mode": "primary", "tags": [{}]}, {"mode": "primary", "tags": []}, {"mode": "primary", "tags": [{"a": "b"}]},
    {"mode": "secondary", "tags": [{"a": "b"}]}, {"mode": "secondary", "tags": 5}, {"mode": "secondary", "tags": {}},
    {"mode": "secondary", "tags": [1]}, {"mode": "secondary", "maxStalenessSeconds": 5}, {"mode": "secondary", "maxStalenessSeconds": 90},
    {"mode": "secondary", "maxStalenessSeconds": -1}, {"mode": "secondary", "maxStalenessSeconds": "x"},
    {"mode": "primary", "maxStalenessSeconds": 90}, {"mode": "primary", "maxStalenessSeconds": 0}, {"mode": "primary", "hedge": {}},
    {"mode": "nearest", "hedge": {}}, {"mode": "nearest", "hedge": {"enabled": False}}, {"mode": "nearest", "hedge": {"enabled": 1}},
    {"mode": "nearest", "hedge": {"x": 1}}, {"mode": "nearest", "hedge": 1}, {"mode": "primary", "hedge": {"enabled": False}},
    {"mode": "nearest", "x": 1}, *VALUES,
]  # fmt: skip
TIME_LIMITS = ["x", None, [], True, bson.Decimal128("5000.5"), {}, 0, -1, -1.5, 1.5, 2**31 - 1, 2**31, 2**63 - 1, float("inf"), float("-inf"), float("nan"), 1e30]
SESSIONS = [
    *({field: value} for field in ("txnNumber", "autocommit", "startTransaction", "coordinator", "lsid") for value in VALUES),
    *({field: value} for field in ("apiVersion", "apiStrict", "apiDeprecationErrors", "maxTimeMSOpOnly", "clientOperationKey") for value in VALUES),
    *({"apiVersion": "1", field: value} for field in ("apiStrict", "apiDeprecationErrors") for value in VALUES if value is not True),
    *({"lsid": lsid} for lsid in [
        {"id": 1}, {"id": None}, {"id": bson.Binary(b"0123456789abcdef", 0)}, {"id": bson.Binary(b"01234", 4)},
        {"id": SESSION, "uid": 1}, {"id": SESSION, "uid": b"x"}, {"id": SESSION, "x": 1}, {"id": SESSION, "txnNumber": LONG},
        {"id": SESSION, "txnNumber": 1}, {"id": SESSION, "txnUUID": SESSION}, {"id": SESSION, "txnUUID": 1},
        {"id": SESSION, "txnUUID": SESSION, "txnNumber": LONG},
    ]),
    {"lsid": {"id": SESSION}, "txnNumber": LONG}, {"lsid": {"id": SESSION}, "txnNumber": LONG, "autocommit": False},
    {"lsid": {"id": SESSION}, "txnNumber": LONG, "autocommit": False, "startTransaction": True},
    {"lsid": {"id": SESSION}, "autocommit": False}, {"lsid": {"id": SESSION}, "startTransaction": True}, {"txnNumber": LONG},
    {"clientOperationKey": SESSION}, {"stmtId": 1}, {"allowImplicitCollectionCreation": True}, {"apiVersion": "2"}, {"apiVersion": ""},
    {"apiStrict": True},
]  # fmt: skip
FIELDS = {
    "read_concern": [{"readConcern": value} for value in READ_CONCERNS],
    "write_concern": [{"writeConcern": value} for value in WRITE_CONCERNS],
    "read_preference": [{"$readPreference": value} for value in READ_PREFERENCES],
    "time_limit": [{"maxTimeMS": value} for value in TIME_LIMITS],
    "session": SESSIONS,
}
COMMANDS = [
    {"ping": 1}, {"find": "c"}, {"aggregate": "c", "pipeline": [], "cursor": {}}, {"count": "c"}, {"distinct": "c", "key": "a"},
    {"insert": "c", "documents": [{"_id": 1}]}, {"update": "c", "updates": [{"q": {"x": 9}, "u": {"$set": {"a": 1}}}]},
    {"delete": "c", "deletes": [{"q": {"x": 9}, "limit": 0}]}, {"findAndModify": "c", "query": {"x": 9}, "remove": True},
    {"drop": "nope"}, {"listIndexes": "c"}, {"listCollections": 1, "filter": {"name": "zzz"}}, {"collMod": "c"},
    {"getMore": bson.Int64(5), "collection": "c"}, {"reIndex": "nope"}, {"validate": "nope"}, {"planCacheClear": "c"},
    {"mapReduce": "c", "map": "function(){}", "reduce": "function(k, v){}", "out": {"inline": 1}}, {"usersInfo": 1},
    ("admin", {"renameCollection": "t.nope", "to": "t.x"}), ("admin", {"commitTransaction": 1}), ("admin", {"listDatabases": 1, "filter": {"name": "zz"}}),
    ("admin", {"setDefaultRWConcern": 1}), ("admin", {"setFeatureCompatibilityVersion": "6.0"}), ("admin", {"appendOplogNote": 1, "data": {}}),
]  # fmt: skip
NAMES = [next(iter(command[1] if isinstance(command, tuple) else command)) for command in COMMANDS]


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("generic", {"dropDatabase": 1})
        server.run("generic", {"insert": "c", "documents": [{"_id": 1}]})
    return _subject, _oracle


def compare(servers, command, fields):
    database, command = command if isinstance(command, tuple) else ("generic", command)
    case = cases.Case(name="generic", commands=[], database=database)
    cases.compare_command(*servers, case, {**command, **fields})


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_fields(servers, command, kind):
    broken = []
    for fields in FIELDS[kind]:
        # Of two mistakes the other one is named.
        if "stmtId" in fields and "insert" in command:
            continue
        if "readConcern" in fields and "getMore" in command and "snapshot" in str(fields) and "afterClusterTime" in str(fields):
            continue
        try:
            compare(servers, command, fields)
        except cases.Mismatch as mismatch:
            broken.append(str(mismatch))
    if broken:
        raise cases.Mismatch(f"{len(broken)} differ, the first:\n{broken[0]}")


@pytest.mark.parametrize("command", [{"ping": 1}, {"find": "c"}, {"collStats": "c"}], ids=str)
@pytest.mark.parametrize("name", ["comment", "find", "x", "maxTimeMS", "ping"])
def test_a_field_that_is_there_twice(servers, command, name):
    compare(servers, command, {Again(name): 1, Again(name): 1})


class Again(str):
    """A name that a document may have twice."""

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__
