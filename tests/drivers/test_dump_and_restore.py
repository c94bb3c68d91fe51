"""What mongodump and mongorestore send, sent by PyMongo: to mongod, which shows that it is right, and to Meridian.

The tools themselves are not to be had from the registries that the tests install from. This
follows their version 100: which commands, in which order, by users with the roles `backup` and `restore`.
"""

import datetime
import types

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument
from harness.servers import Meridian, Mongod

ROOT = {"username": "root", "password": "secret", "authSource": "admin"}
SPECIAL = {"system.users", "system.roles", "system.version"}
DOCUMENTS = [
    {"_id": 1, "text": "größer", "nested": {"list": [1, 2.5, bson.Int64(3), None]}},
    {"_id": bson.ObjectId(b"x" * 12), "at": datetime.datetime(2024, 2, 29), "number": bson.Decimal128("1.50")},
    {"_id": "three", "place": {"type": "Point", "coordinates": [8.5, 47.4]}, "bytes": b"\0\1", "least": bson.MinKey()},
]
INDEXES = [
    pymongo.IndexModel([("text", 1), ("number", -1)]),
    pymongo.IndexModel([("number", 1)], unique=True, sparse=True, name="own name"),
    pymongo.IndexModel([("at", 1)], expireAfterSeconds=10**9, partialFilterExpression={"at": {"$exists": True}}),
    pymongo.IndexModel([("place", "2dsphere")]),
]


# -- mongodump


def dump_collection(database, name):
    """The raw documents of a collection, with the commands that are sent besides."""
    list(database.list_collections(filter={"name": name}))
    database.command("collStats", name)
    database.command("count", name)
    raw = bson.CodecOptions(document_class=RawBSONDocument)
    return [document.raw for document in database.get_collection(name, raw).find({})]


def dump(client):
    """A whole server but for its `local` and `config`."""
    client.admin.command("buildInfo")
    client.admin.command("ping")
    found = types.SimpleNamespace(collections={}, special={})
    for name in client.list_database_names():
        if name in ("local", "config"):
            continue
        database = client[name]
        for info in database.list_collections():
            collection = info["name"]
            if name == "admin" and collection in SPECIAL:
                database.command("count", collection)
                found.special[collection] = dump_collection(database, collection)
            elif not collection.startswith("system."):
                database.command("count", collection)
                indexes = list(database.command("listIndexes", collection)["cursor"]["firstBatch"])
                found.collections[name, collection] = (info["options"], indexes, dump_collection(database, collection))
    return found


# -- mongorestore


def check_versions(client, dumped):
    """It refuses users of another version: what that of a dump is, it reads in the dump."""
    versions = [bson.decode(raw) for raw in dumped.special.get("system.version", [])]
    of_dump = [version["currentVersion"] for version in versions if version["_id"] == "authSchema"]
    of_server = client.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"]
    assert of_server == 5
    assert of_dump == [5], "error getting auth version from dump"


def insert_raw(database, name, documents):
    if documents:
        raw = [RawBSONDocument(document) for document in documents]
        result = database.command("insert", name, documents=raw, ordered=False, writeConcern={"w": "majority"})
        assert "writeErrors" not in result, result


def restore_documents(client, dumped):
    client.admin.command("buildInfo")
    for (name, collection), (options, indexes, documents) in dumped.collections.items():
        database = client[name]
        list(database.list_collections())
        own = {key: value for key, value in next(index for index in indexes if index["name"] == "_id_").items() if key != "v"}
        database.command("create", collection, **options, idIndex={**own, "ns": f"{name}.{collection}"})
        insert_raw(database, collection, documents)


def restore_users(client, dumped):
    """Into collections that are not kept, from which the server takes them over."""
    admin = client.admin
    list(admin.list_collections())
    insert_raw(admin, "tempusers", dumped.special["system.users"])
    insert_raw(admin, "temproles", dumped.special["system.roles"])
    merge = {"tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles", "drop": False, "db": ""}
    try:
        admin.command("_mergeAuthzCollections", 1, **merge, writeConcern={"w": "majority"})
    finally:
        admin.drop_collection("temproles")
        admin.drop_collection("tempusers")


def restore_indexes(client, dumped):
    for (name, collection), (_, indexes, _) in dumped.collections.items():
        rest = [{key: value for key, value in index.items() if key != "v"} for index in indexes if index["name"] != "_id_"]
        rest = [{**index, "ns": f"{name}.{collection}"} for index in rest]
        if rest:
            client[name].command("createIndexes", collection, indexes=rest, ignoreUnknownIndexOptions=True)


# -- tests


def by_id(documents):
    """They come in no order."""
    return sorted(documents, key=lambda document: repr(document["_id"]))


def begin(make, user, role):
    """A server with `root` and one more user."""
    server = make().start()
    server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
    with server.connect(**ROOT) as root:
        root.admin.command("createUser", user, pwd="secret", roles=[role])
    return server


@pytest.fixture(scope="module", params=["mongod", "meridian"])
def servers(request):
    """The first with documents, indexes, users and roles; the second empty."""
    make = {"mongod": lambda: Mongod(arguments=["--auth"]), "meridian": lambda: Meridian(arguments=["--auth", "on"])}[request.param]
    with begin(make, "dumps", "backup") as first, begin(make, "restores", "restore") as second:
        with first.connect(**ROOT) as root:
            root.things.create_collection("all", validator={"other": {"$exists": False}})
            root.things.all.insert_many(DOCUMENTS)
            root.things.all.create_indexes(INDEXES)
            root.more.many.insert_many([{"_id": number} for number in range(500)])
            privileges = [{"resource": {"db": "things", "collection": "all"}, "actions": ["find"]}]
            root.things.command("createRole", "looks", privileges=privileges, roles=[])
            root.things.command("createUser", "moved", pwd="pässword", roles=["looks"], customData={"a": 1})
        yield types.SimpleNamespace(first=first, second=second)


@pytest.fixture(scope="module")
def dumped(servers):
    with servers.first.connect(username="dumps", password="secret") as client:
        return dump(client)


@pytest.fixture
def restorer(servers):
    with servers.second.connect(username="restores", password="secret") as client:
        yield client


def contents(server):
    """Documents and indexes of what is no system collection, read by the root."""
    with server.connect(**ROOT) as root:
        found = {}
        for name in ("things", "more"):
            for collection in sorted(root[name].list_collection_names()):
                documents = by_id(root[name][collection].find())
                indexes = sorted(root[name][collection].list_indexes(), key=lambda index: index["name"])
                options = root[name][collection].options()
                found[name, collection] = (documents, indexes, options)
        return found


def test_a_dump_is_whole(dumped):
    assert sorted(dumped.collections) == [("more", "many"), ("things", "all")]
    assert by_id(bson.decode(raw) for raw in dumped.collections["things", "all"][2]) == by_id(DOCUMENTS)
    users = {bson.decode(raw)["_id"] for raw in dumped.special["system.users"]}
    assert users == {"admin.root", "admin.dumps", "things.moved"}
    assert [bson.decode(raw)["_id"] for raw in dumped.special["system.roles"]] == ["things.looks"]


def test_documents_and_indexes_are_restored(servers, dumped, restorer):
    restore_documents(restorer, dumped)
    restore_indexes(restorer, dumped)
    assert contents(servers.second) == contents(servers.first)


def test_versions_fit(dumped, restorer):
    check_versions(restorer, dumped)


def test_users_and_roles_are_restored(servers, dumped, restorer):
    restore_users(restorer, dumped)
    with servers.second.connect(**ROOT) as root, servers.first.connect(**ROOT) as source:
        assert root.admin["system.users"].find_one("things.moved") == source.admin["system.users"].find_one("things.moved")
        assert root.admin["system.roles"].find_one("things.looks") == source.admin["system.roles"].find_one("things.looks")
        names = {user["_id"] for user in root.admin["system.users"].find()}
        assert names == {"admin.root", "admin.dumps", "admin.restores", "things.moved"}
        assert not {"tempusers", "temproles"} & set(root.admin.list_collection_names())
    for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        login = {"username": "moved", "password": "pässword", "authSource": "things", "authMechanism": mechanism}
        with servers.second.connect(**login) as client:
            client.things.all.find_one()
            with pytest.raises(pymongo.errors.OperationFailure) as failure:
                client.more.many.find_one()
            assert failure.value.code == 13


def test_who_dumps_may_not_restore(servers, dumped):
    with servers.first.connect(username="dumps", password="secret") as client:
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            insert_raw(client.admin, "tempusers", dumped.special["system.users"])
        assert failure.value.code == 13
