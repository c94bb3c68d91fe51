"""Every built-in role against every command and many targets: who may do what is what a real mongod with --auth says."""

import bson
import pymongo
import pytest
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument
from harness.servers import Meridian, Mongod

ADMIN = {"username": "root", "password": "secret", "authSource": "admin"}

OF_DATABASES = ["read", "readWrite", "dbAdmin", "userAdmin", "dbOwner", "enableSharding"]
OF_ADMIN = [
    "backup", "clusterAdmin", "clusterManager", "clusterMonitor", "dbAdminAnyDatabase", "hostManager", "readAnyDatabase",
    "readWriteAnyDatabase", "restore", "root", "userAdminAnyDatabase", "__queryableBackup", "__system",
]  # fmt: skip

# Roles of our own, each by its privileges.
OWN = {
    "finder": [({"db": "test", "collection": "c"}, ["find"])],
    "inserter": [({"db": "test", "collection": "c"}, ["insert"])],
    "updater": [({"db": "test", "collection": "c"}, ["update"])],
    "remover": [({"db": "test", "collection": "c"}, ["remove"])],
    "output": [({"db": "test", "collection": "c"}, ["find"]), ({"db": "test", "collection": "out"}, ["insert", "remove"])],
    "merger": [({"db": "test", "collection": "c"}, ["find"]), ({"db": "test", "collection": "out"}, ["insert", "update"])],
    "renamer": [({"db": "test", "collection": ""}, ["renameCollectionSameDB"])],
    "changer": [({"db": "test", "collection": ""}, ["changeOwnPassword", "changeOwnCustomData"])],
    "granter": [({"db": "test", "collection": ""}, ["grantRole", "revokeRole", "viewRole"])],
    "anything": [({"anyResource": True}, ["anyAction"])],
    "system": [({"db": "", "collection": "system.users"}, ["find", "insert"])],
}


def statements():
    """Database, command: harmless when it may run, on things that are there or not."""
    for database in ("test", "other"):
        c = "c"
        yield database, {"find": c}
        yield database, {"find": "system.js"}
        yield database, {"count": c}
        yield database, {"distinct": c, "key": "a"}
        yield database, {"insert": c, "documents": [{"a": 1}]}
        yield database, {"insert": c, "documents": [{"a": 1}], "bypassDocumentValidation": True}
        yield database, {"update": c, "updates": [{"q": {"a": 9}, "u": {"$set": {"b": 1}}}]}
        yield database, {"update": c, "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}, "upsert": True}]}
        yield database, {"delete": c, "deletes": [{"q": {"a": 9}, "limit": 0}]}
        yield database, {"findAndModify": c, "query": {"a": 9}, "update": {"$set": {"b": 1}}}
        yield database, {"findAndModify": c, "query": {"a": 1}, "update": {"$set": {"b": 1}}, "upsert": True}
        yield database, {"findAndModify": c, "query": {"a": 9}, "remove": True}
        yield database, {"aggregate": c, "pipeline": [], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$match": {"a": 1}}, {"$out": "out"}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$merge": "out"}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$merge": {"into": "out", "whenMatched": "fail"}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$merge": {"into": "out", "whenNotMatched": "discard"}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$merge": {"into": {"db": "other", "coll": "out"}}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$indexStats": {}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$facet": {"a": [{"$match": {}}]}}], "cursor": {}}
        yield database, {"convertToCapped": "none", "size": 4096}
        yield database, {"cloneCollectionAsCapped": "none", "toCollection": "none2", "size": 4096}
        yield database, {"cloneCollectionAsCapped": c, "toCollection": c, "size": 4096}
        yield database, {"reIndex": "none"}
        yield database, {"profile": -1}
        yield database, {"profile": 0}
        yield database, {"find": "system.profile"}
        yield database, {"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}}
        yield database, {"aggregate": 1, "pipeline": [{"$listLocalSessions": {"allUsers": True}}], "cursor": {}}
        for other in ("c", "d", "system.users"):
            yield database, {"aggregate": c, "pipeline": [{"$lookup": {"from": other, "localField": "a", "foreignField": "a", "as": "r"}}], "cursor": {}}
            yield database, {"aggregate": c, "pipeline": [{"$unionWith": other}], "cursor": {}}
            inner = [{"$unionWith": {"coll": other, "pipeline": [{"$match": {"a": 1}}]}}]
            yield database, {"aggregate": c, "pipeline": [{"$lookup": {"from": "c", "pipeline": inner, "as": "r"}}], "cursor": {}}
            yield database, {"aggregate": c, "pipeline": [{"$facet": {"a": inner}}], "cursor": {}}
        graph = {"from": "d", "startWith": "$a", "connectFromField": "a", "connectToField": "a", "as": "r"}
        yield database, {"aggregate": c, "pipeline": [{"$graphLookup": graph}], "cursor": {}}
        for first in ({"$collStats": {"count": {}}}, {"$indexStats": {}}):
            yield database, {"aggregate": c, "pipeline": [{"$unionWith": {"coll": "d", "pipeline": [first]}}], "cursor": {}}
        own = [{"$documents": [{"a": 1}]}]
        yield database, {"aggregate": c, "pipeline": [{"$unionWith": {"pipeline": own}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$unionWith": {"coll": "d", "pipeline": own}}], "cursor": {}}
        yield database, {"aggregate": c, "pipeline": [{"$lookup": {"pipeline": own, "as": "r"}}], "cursor": {}}
        yield database, {"aggregate": 1, "pipeline": own, "cursor": {}}
        yield database, {"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}, {"$unionWith": "c"}], "cursor": {}}
        yield database, {"explain": {"find": c}}
        yield database, {"explain": {"update": c, "updates": [{"q": {}, "u": {"$set": {"b": 1}}}]}}
        yield database, {"explain": {"delete": c, "deletes": [{"q": {}, "limit": 0}]}}
        yield database, {"create": c}
        for command in ("create", "collMod"):
            yield database, {command: "a_view", "viewOn": c}
            yield database, {command: "a_view", "viewOn": c, "pipeline": [{"$unionWith": "d"}]}
        yield database, {"find": "a_view"}
        yield database, {"drop": "a_view"}
        yield database, {"createIndexes": c, "indexes": [{"key": {"a": 1}, "name": "a_1"}]}
        yield database, {"dropIndexes": c, "index": "none"}
        yield database, {"collMod": c}
        yield database, {"drop": "none"}
        yield database, {"listIndexes": c}
        yield database, {"listCollections": 1}
        yield database, {"listCollections": 1, "nameOnly": True, "authorizedCollections": True}
        yield database, {"collStats": c}
        yield database, {"dbStats": 1}
        yield database, {"validate": c}
        yield database, {"dataSize": f"{database}.{c}"}
        yield database, {"profile": -1}
        yield database, {"killCursors": c, "cursors": [Int64(1)]}
        yield database, {"usersInfo": 1}
        yield database, {"usersInfo": "somebody"}
        yield database, {"rolesInfo": 1}
        yield database, {"rolesInfo": "read"}
        yield database, {"createUser": "somebody", "pwd": "x", "roles": []}
        yield database, {"createUser": "somebody", "pwd": "x", "roles": ["read"]}
        yield database, {"updateUser": "somebody", "pwd": "y"}
        yield database, {"updateUser": "somebody", "customData": {"a": 1}}
        yield database, {"updateUser": "somebody", "roles": ["read"]}
        yield database, {"grantRolesToUser": "somebody", "roles": ["read"]}
        yield database, {"revokeRolesFromUser": "somebody", "roles": ["read"]}
        yield database, {"createRole": "some", "privileges": [], "roles": []}
        yield database, {
            "createRole": "some",
            "privileges": [{"resource": {"db": database, "collection": "c"}, "actions": ["find"]}],
            "roles": ["read"],
        }
        yield database, {"updateRole": "some", "roles": []}
        yield database, {"grantRolesToRole": "some", "roles": ["read"]}
        yield database, {"revokeRolesFromRole": "some", "roles": ["read"]}
        yield database, {
            "grantPrivilegesToRole": "some",
            "privileges": [{"resource": {"db": database, "collection": "c"}, "actions": ["find"]}],
        }
        yield database, {
            "revokePrivilegesFromRole": "some",
            "privileges": [{"resource": {"db": database, "collection": "c"}, "actions": ["find"]}],
        }
    yield "scratch", {"dropDatabase": 1}
    yield "scratch", {"dropUser": "nobody"}
    yield "scratch", {"dropRole": "nothing"}
    yield "scratch", {"dropAllUsersFromDatabase": 1}
    yield "scratch", {"dropAllRolesFromDatabase": 1}
    for database in ("admin", "local", "config"):
        yield database, {"find": "c"}
        yield database, {"listCollections": 1}
        yield database, {"dbStats": 1}
    yield "admin", {"find": "system.users"}
    yield "admin", {"find": "system.roles"}
    yield "admin", {"find": "system.version"}
    yield "admin", {"count": "system.users"}
    yield "admin", {"listDatabases": 1, "nameOnly": True}
    yield "admin", {"listDatabases": 1, "nameOnly": True, "authorizedDatabases": False}
    yield "admin", {"usersInfo": {"forAllDBs": True}}
    yield "admin", {"createUser": "somebody", "pwd": "x", "roles": [{"role": "read", "db": "test"}]}
    yield "admin", {"invalidateUserCache": 1}
    yield "admin", {"serverStatus": 1}
    yield "test", {"serverStatus": 1}
    yield "admin", {"hostInfo": 1}
    yield "admin", {"getCmdLineOpts": 1}
    yield "admin", {"getLog": "global"}
    yield "admin", {"getParameter": 1, "ttlMonitorSleepSecs": 1}
    yield "admin", {"setParameter": 1, "ttlMonitorSleepSecs": 1}
    yield "admin", {"fsync": 1}
    yield "admin", {"top": 1}
    yield "admin", {"currentOp": 1}
    yield "admin", {"currentOp": 1, "$ownOps": True}
    yield "admin", {"killOp": 1, "op": 123456789}
    yield "admin", {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}
    for temporary in ("admin.tempusers", "test.c"):
        for drop in (False, True):
            yield "admin", {"_mergeAuthzCollections": 1, "tempUsersCollection": temporary, "db": "not there", "drop": drop}
    yield "admin", {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True}}], "cursor": {}}
    yield "admin", {"rotateCertificates": 1}
    yield "admin", {"replSetGetStatus": 1}
    yield "admin", {"getDiagnosticData": 1}
    yield "admin", {"renameCollection": "test.none", "to": "test.none2"}
    yield "admin", {"renameCollection": "test.none", "to": "test.c", "dropTarget": True}
    yield "admin", {"renameCollection": "test.none", "to": "other.none"}
    for command in ("ping", "hello", "buildInfo", "connectionStatus", "listCommands", "whatsmyuri", "startSession"):
        yield "admin", {command: 1}
    yield "admin", {"endSessions": []}
    yield "admin", {"refreshSessions": []}
    yield "admin", {"killSessions": []}
    yield "admin", {"killAllSessions": []}
    yield "admin", {"killAllSessionsByPattern": []}
    for options in ({}, {"allUsers": True}, {"users": [{"user": "x", "db": "y"}]}, {"users": []}):
        yield "admin", {"aggregate": 1, "pipeline": [{"$listLocalSessions": options}], "cursor": {}}
        yield "config", {"aggregate": "system.sessions", "pipeline": [{"$listSessions": options}], "cursor": {}}
    yield "admin", {"setFreeMonitoring": 1, "action": "disable"}
    yield "admin", {"getFreeMonitoringStatus": 1}
    for command in ("features", "availableQueryOptions", "driverOIDTest"):
        yield "test", {command: 1}
    session = Binary(bytes(16), 4)
    yield "admin", {"endSessions": [{"id": session}]}


def users():
    for database in ("test", "admin"):
        for role in OF_DATABASES:
            yield f"{role}-{database}", [{"role": role, "db": database}]
    for role in OF_ADMIN:
        if role not in ("__queryableBackup", "__system"):
            yield role, [{"role": role, "db": "admin"}]
    for role in OWN:
        yield role, [{"role": role, "db": "admin"}]
    yield "nobody", []


USERS = dict(users())


def prepare(server):
    first = server.connect()
    first.admin.command("createUser", "root", pwd="secret", roles=["root"])
    root = server.connect(**ADMIN)
    for database in ("test", "other"):
        root[database].c.insert_one({"a": 1})
    for role, privileges in OWN.items():
        listed = [{"resource": resource, "actions": actions} for resource, actions in privileges]
        root.admin.command("createRole", role, privileges=listed, roles=[])
    for user, roles in USERS.items():
        root.test.command("createUser", user, pwd="secret", roles=roles, mechanisms=["SCRAM-SHA-1"])
    return root


@pytest.fixture(scope="module")
def closed():
    """Both servers with access control, and the same users."""
    with Mongod(arguments=["--auth"]) as oracle, Meridian(arguments=["--auth", "on"]) as subject:
        roots = prepare(oracle), prepare(subject)
        yield oracle, subject
        for root in roots:
            root.close()


def is_refused(client, database, command):
    try:
        client[database].command(command)
    except pymongo.errors.OperationFailure as error:
        return error.code == 13
    return False


@pytest.mark.parametrize("user", [*USERS, None])
def test_who_may_do_what(closed, user):
    login = {"username": user, "password": "secret", "authSource": "test", "authMechanism": "SCRAM-SHA-1"} if user else {}
    oracle, subject = (server.connect(**login) for server in closed)
    more, less = [], []
    for database, command in statements():
        theirs, ours = (is_refused(client, database, dict(command)) for client in (oracle, subject))
        if theirs and not ours:
            more.append((database, command))
        if ours and not theirs:
            less.append((database, command))
    oracle.close(), subject.close()
    assert not more, f"{user} may do here what it may not in mongod: {more}"
    assert not less, f"{user} may not do here what it may in mongod: {less}"


def test_there_are_enough_combinations():
    assert (len(USERS) + 1) * sum(1 for _ in statements()) >= 1_500


def doubled(*fields):
    """A document with fields that come twice, which no driver makes."""
    encoded = b"".join(bson.encode({name: value})[4:-1] for name, value in fields)
    return RawBSONDocument((len(encoded) + 5).to_bytes(4, "little") + encoded + b"\0")


DOUBLED = {
    "union": [doubled(("$unionWith", doubled(("coll", "c"), ("coll", "secret"))))],
    "join": [doubled(("$lookup", doubled(("from", "c"), ("from", "secret"), ("pipeline", []), ("as", "r"))))],
    "inner": [doubled(("$lookup", doubled(("from", "c"), ("pipeline", []), ("pipeline", [{"$unionWith": "secret"}]), ("as", "r"))))],
    "nested": [{"$facet": {"a": [doubled(("$unionWith", doubled(("coll", "c"), ("coll", "secret"))))]}}],
    "graph": [doubled(("$graphLookup", doubled(("from", "c"), ("from", "secret"), ("startWith", "$a"), ("connectFromField", "a"), ("connectToField", "a"), ("as", "r"))))],
    "merge": [doubled(("$merge", doubled(("into", "mine"), ("into", "secret"))))],
    "merge_elsewhere": [doubled(("$merge", doubled(("into", doubled(("db", "test"), ("db", "other"), ("coll", "c"))))))],
    "merge_otherwise": [doubled(("$merge", doubled(("into", "mine"), ("whenMatched", "fail"), ("whenMatched", "replace"))))],
    "operations": [doubled(("$currentOp", doubled(("allUsers", False), ("allUsers", True))))],
    "operations_too": [doubled(("$currentOp", doubled(("allUsers", True), ("allUsers", False))))],
    "sessions": [doubled(("$listLocalSessions", doubled(("allUsers", False), ("allUsers", True))))],
    "sessions_of_others": [doubled(("$listLocalSessions", doubled(("users", []), ("users", [{"user": "root", "db": "admin"}]))))],
}


@pytest.mark.parametrize("name", DOUBLED)
def test_fields_given_twice_show_nothing(closed, name):
    """Who checks what a command needs and who runs it must not read different ones of them."""
    _, subject = closed
    root = subject.connect(**ADMIN)
    root.test.secret.drop()
    root.test.secret.insert_one({"a": 1, "is": "secret"})
    privileges = [({"db": "test", "collection": "c"}, ["find"]), ({"db": "test", "collection": "mine"}, ["insert", "update"])]
    if not root.test.command("usersInfo", "narrow")["users"]:
        root.test.command("createRole", "narrow", privileges=[{"resource": resource, "actions": actions} for resource, actions in privileges], roles=[])
        root.test.command("createUser", "narrow", pwd="secret", roles=["narrow"], mechanisms=["SCRAM-SHA-1"])
    before = root.test.secret.find_one(), root.other.c.count_documents({})
    client = subject.connect(username="narrow", password="secret", authSource="test", authMechanism="SCRAM-SHA-1")
    about_server = name.startswith(("operations", "sessions"))
    database, target = ("admin", 1) if about_server else ("test", "c")
    with pytest.raises(pymongo.errors.OperationFailure) as caught:
        client[database].command("aggregate", target, pipeline=DOUBLED[name], cursor={})
    assert caught.value.code in (13, 40413), caught.value
    assert (root.test.secret.find_one(), root.other.c.count_documents({})) == before
    client.close(), root.close()
