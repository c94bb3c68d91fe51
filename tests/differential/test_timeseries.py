"""Time-series collections: whole replies beside mongod's, and answers beside those of a plain collection.

In which order a measurement's fields come is chance in mongod, so it is left out of the comparison.
MERIDIAN_RANDOM_SEED repeats the random measurements.
"""

import datetime
import random
import re

import pytest
from bson import SON, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from harness import canonical
from pymongo.errors import BulkWriteError, ExecutionTimeout, OperationFailure
from test_random_query import SEED

DATABASE = "series"
PLAIN = {"timeField": "t"}
SERIES = {"timeField": "t", "metaField": "m"}


def at(seconds=0, year=2024):
    return datetime.datetime(year, 1, 1) + datetime.timedelta(seconds=seconds)


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value).replace("datetime.datetime", ""))[:80]


@pytest.fixture
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
    return _subject, _oracle


def sorted_fields(value, depth=0):
    """Documents with their fields in the order of names; what lies within measurements keeps its order."""
    if isinstance(value, canonical.Doc):
        fields = ((key, sorted_fields(item, depth + 1) if depth < 4 else item) for key, item in value)
        return canonical.Doc(sorted(fields, key=lambda field: field[0]))
    return [sorted_fields(item, depth) for item in value] if isinstance(value, list) else value


def batch(reply):
    """The documents of a reply's first batch."""
    return dict(dict(reply)["cursor"])["firstBatch"]


def reply_text(reply, ordered=False):
    fields = []
    # mongod's counts of views have another number in `ok`.
    for key, value in (field for field in reply if field[0] != "ok"):
        if key == "cursor":
            documents = [canonical.text(sorted_fields(document)) for document in dict(value)["firstBatch"]]
            fields.append(("documents", "\n".join(documents if ordered else sorted(documents))))
            value = canonical.Doc(item for item in value if item[0] != "firstBatch")
        elif key == "values":
            value = sorted(canonical.text(item) for item in value)
        fields.append((key, value))
    text = canonical.text(sorted_fields(canonical.Doc(fields)))
    # Theirs names what was parsed.
    text = re.sub(r"ns=series\.\S*Tree: .*?planner returned", "planner returned", text, flags=re.DOTALL)
    text = re.sub(r"ObjectId\(['\"]?[0-9a-f]{24}['\"]?\)", "ObjectId", text)
    text = re.sub(r"\s+Command request: .*?(false|}) }", "", text, flags=re.DOTALL)
    # What remains may have been broken into lines for its length.
    return re.sub(r"\s+", "", text)


def same(servers, command, database=DATABASE, ordered=False):
    actual, expected = (reply_text(server.run(database, command), ordered) for server in servers)
    assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


def make(servers, documents=(), name="x", **series):
    for server in servers:
        server.client[DATABASE].command({"create": name, "timeseries": {**SERIES, **series}})
        if documents:
            reply = server.client[DATABASE].command({"insert": name, "documents": list(documents)})
            assert reply["n"] == len(documents), reply


# fmt: off
DEFINITIONS = [
    *({"timeseries": series} for series in (
        5, "a", {}, {"timeField": 5}, {"timeField": "a.b"}, {"timeField": "_id"}, {"timeField": "t", "metaField": "t"}, {"timeField": "t", "metaField": "_id"},
        {"timeField": "t", "metaField": "a.b"}, {"timeField": "t", "metaField": 5}, {"timeField": "t", "foo": 1},
        *({"timeField": "t", "granularity": granularity} for granularity in ("seconds", "minutes", "hours", "days", 5, "")),
        *({"timeField": "t", **more} for more in (
            {"bucketMaxSpanSeconds": 5}, {"bucketMaxSpanSeconds": 3600}, {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}, {"granularity": "minutes", "bucketMaxSpanSeconds": 86400},
            {"granularity": "hours", "bucketMaxSpanSeconds": 2592000}, {"granularity": "hours", "bucketMaxSpanSeconds": 3600}, {"bucketMaxSpanSeconds": 0}, {"bucketMaxSpanSeconds": "x"},
            {"bucketMaxSpanSeconds": 3600, "bucketRoundingSeconds": 3600}, {"bucketRoundingSeconds": 3600})))),
    *({"timeseries": PLAIN, **more} for more in (
        {"expireAfterSeconds": 5}, {"expireAfterSeconds": -1}, {"expireAfterSeconds": "off"}, {"expireAfterSeconds": 1e18}, {"expireAfterSeconds": 2.7}, {"capped": True, "size": 1000}, {"viewOn": "y"},
        {"viewOn": "y", "pipeline": []}, {"validator": {"a": 1}}, {"validationLevel": "off"}, {"validationAction": "warn"}, {"idIndex": {"key": {"_id": 1}, "name": "_id_"}}, {"autoIndexId": True},
        {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, {"collation": {"locale": "fr"}}, {"indexOptionDefaults": {}}, {"changeStreamPreAndPostImages": {"enabled": True}}, {"size": 5},
        {"max": 5}, {"comment": "x"}, {"encryptedFields": {"fields": []}}, {"temp": True}, {"recordPreImages": True})),
]
INSERTS = [
    *([document] for document in (
        {"t": at(5), "m": {"a": 1, "b": 2}, "v": 1, "_id": 1}, {"v": 2, "_id": 2, "m": {"b": 2, "a": 1}, "t": at(15), "w": "x"}, {"t": at(35), "v": 1}, {"t": at(1), "v": None, "m": None},
        {"t": at(3700), "_id": 9}, {"t": at(1), "$a": 1}, {"t": at(1), "a.b": 1}, {"t": at(1), "m": {"$x": 1}}, {"t": at(1), "m": {"x.y": 1}}, {"t": at(1), "m": [1, {"b": 1, "a": 2}]},
        {"t": at(1), "_id": [1]}, {"t": at(1), "_id": None}, {"t": at(1), "": 7}, {"t": at(1), "_id": Regex("a")}, {"t": at(0, 1960)}, {"t": at(0, 2200)}, {"t": at(0, 1)}, {"t": at(0, 9999)},
        {"t": at(1), "v": {}}, {"t": at(1), "v": []}, {"t": at(1), "v": Decimal128("1.50")}, {"t": at(1), "v": Timestamp(0, 0)}, {"t": at(1), "m": 1.0}, {"t": at(1), "m": Int64(1)})),
    [{"t": at(25), "v": {"p": 1, "q": [1, {"z": 5}]}, "_id": 3}, {"t": at(35), "v": {"p": 3, "q": [0, {"z": 7}, 9]}, "_id": 3}, {"t": at(36), "v": {"p": "x"}}, {"t": at(37), "v": 5}],
    [{"t": at(5), "m": 1}, {"t": at(5), "m": 1.0}, {"t": at(5), "m": Int64(1)}, {"t": at(5), "m": True}, {"t": at(5), "m": {"b": {"z": 1, "y": 2}, "a": 3}}, {"t": at(5), "m": {"a": 3, "b": {"y": 2, "z": 1}}}],
    [{"t": at(3600), "v": 1}, {"t": at(60), "v": 2}, {"t": at(7199), "v": 3}, {"t": at(7200), "v": 4}, {"t": at(3661), "v": 5}],
    [{"t": at(n), "v": n % 7, **({"w": n} if n % 3 else {})} for n in range(2500)],
]
REFUSED = [{"v": 1}, {"t": 5}, {"t": None}, {"t": "x"}, {"t": [at(1)]}, {"t": Timestamp(5, 1)}, {}, {"T": at(1)}]
MEASUREMENTS = [
    {"t": at(5), "m": {"a": 1, "b": 2}, "v": 1, "_id": 1}, {"t": at(6), "m": {"a": 1, "b": 2}, "v": 2, "_id": 2}, {"t": at(7), "m": {"a": 2, "b": [1, 2]}, "v": 3, "_id": 3}, {"t": at(8), "v": 3, "_id": 4},
]
QUERIES = [
    {}, {"m.a": 1}, {"m": {"a": 1, "b": 2}}, {"v": 1}, {"t": at(5)}, {"_id": 1}, {"$or": [{"m.a": 1}, {"m.b": 2}]}, {"$and": [{"m.a": 1}, {"v": 2}]}, {"$expr": {"$eq": ["$m.a", 1]}}, {"m": None},
    {"$nor": [{"m.a": 1}]}, {"m.b": {"$elemMatch": {"$gt": 1}}}, {"m": {"$exists": False}}, {"$where": "true"}, {"mm": 1}, {"m.a": {"$not": {"$gt": 5}}}, {"m.a": {"$in": [1]}}, {"meta": 1}, {"$comment": "x"},
    {"$or": [{"m.a": 1}, {"$expr": True}]}, {"m.a": {"$bad": 1}}, {"$or": 5}, {"$and": [5]}, {"m.": 1},
]
UPDATES = [
    {"u": {"$set": {"m.a": 9}}}, {"u": {"$set": {"m.a": 9}}, "multi": False}, {"u": {"$set": {"v": 9}}}, {"q": {"v": 1}, "u": {"$set": {"m.a": 9}}}, {"q": {}, "u": {"$set": {"m": 7}}}, {"q": {}, "u": {"$unset": {"m": 1}}},
    {"u": {"$inc": {"m.a": 1}}}, {"u": {"m": 5}}, {"u": [{"$set": {"m.a": 1}}]}, {"u": {"$rename": {"m.a": "m.z"}}}, {"u": {"$rename": {"m.a": "v.z"}}}, {"u": {"$rename": {"m": "q"}}}, {"u": {"$set": {"m.a": 9}}, "upsert": True},
    {"u": {"$push": {"m.b": 9}}}, {"q": {"m.b": 1}, "u": {"$set": {"m.b.$": 9}}}, {"q": {"m.b": 1}, "u": {"$set": {"m.b.$[x]": 9}}, "arrayFilters": [{"x": 1}]}, {"u": {"$set": {"m.a": 9}, "$inc": {"t": 1}}},
    {"u": {"$set": {"m.a": 9}}, "hint": {"m": 1}}, {"u": {"$set": {"m.a": 1}}}, {"u": {"$set": {"q.m": 1}}}, {"u": {"$setOnInsert": {"m.a": 1}}}, {"u": {}}, {"u": {"$set": {}}}, {"u": {"$bad": {"m": 1}}},
    {"u": {"$set": {"m.a": 9}}, "c": {"q": 1}}, {"u": {"$set": {"m": {"a": 3}}}}, {"u": {"$set": 5}}, {"u": {"$rename": {"m.a": 5}}},
]
KEYS = [
    {"m": 1}, {"t": 1}, {"t": -1}, {"m": 1, "t": 1}, {"m": -1, "t": -1}, {"m.a": 1, "t": 1}, {"m": "hashed"}, {"m": "2dsphere"}, {"m.loc": "2dsphere"}, {"m.loc": "2d"}, {"loc": "2d"}, {"v": "hashed"}, {"m": "text"},
    {"t": "2dsphere"}, {"t": 1, "m": 1}, {"t": "hashed"}, {"m.a": 1, "m.b": -1}, {"m.loc": "2dsphere", "t": 1}, {"v": 1}, {"v": 1, "t": -1}, {"_id": 1}, {"m": 1, "v": 1}, {"mm": 1}, {"t.x": 1}, {"meta": 1},
    {"control.min.t": 1}, {"m": 0}, {"v": "x"}, {}, 5,
]
OPTIONS = [{"unique": True}, {"unique": False}, {"sparse": True}, {"expireAfterSeconds": 50}, {"partialFilterExpression": {"m": 1}}, {"partialFilterExpression": {"m.a": {"$gt": 1}}}, {"hidden": True}, {"collation": {"locale": "fr"}}, {"v": 2}, {"background": True}]
CHANGES = [
    {"expireAfterSeconds": 10}, {"expireAfterSeconds": "off"}, {"expireAfterSeconds": -5}, {"timeseries": {"granularity": "minutes"}}, {"timeseries": {"granularity": "seconds"}}, {"timeseries": {"granularity": "hours"}},
    {"timeseries": {}}, {"timeseries": {"foo": 1}}, {"timeseries": {"timeField": "x"}}, {"timeseries": {"granularity": "x"}}, {"timeseries": {"bucketMaxSpanSeconds": 50}}, {"timeseries": 5},
    {"index": {"name": "m_1", "hidden": True}}, {"index": {"keyPattern": {"m": 1}, "hidden": False}}, {"index": {"name": "m_1", "expireAfterSeconds": 5}}, {"index": {"keyPattern": {"zz": 1}, "hidden": True}},
    {"validator": {}}, {"validationLevel": "off"}, {"validationAction": "warn"}, {"viewOn": "y", "pipeline": []}, {"pipeline": []}, {"recordPreImages": True}, {"changeStreamPreAndPostImages": {"enabled": True}}, {},
]
OTHERS = [
    {"findAndModify": "x", "query": {"m.a": 1}, "remove": True}, {"findAndModify": "x", "query": {"m.a": 1}, "update": {"$set": {"m.a": 1}}}, {"count": "x"}, {"count": "x", "query": {"v": 3}}, {"distinct": "x", "key": "m.a"},
    {"distinct": "x", "key": "v"}, {"distinct": "x", "key": "m.b", "query": {"v": 3}}, {"compact": "x"}, {"validate": "x"}, {"dataSize": "series.x"}, {"planCacheListFilters": "x"}, {"planCacheClear": "x"}, {"dropIndexes": "x", "index": "*"},
    {"dropIndexes": "x", "index": "zz"}, {"dropIndexes": "x", "index": {"zz": 1}}, {"dropIndexes": "x", "index": {"m": 1}}, {"drop": "system.views"}, {"aggregate": "x", "pipeline": [{"$out": "x"}], "cursor": {}}, {"aggregate": "w", "pipeline": [{"$merge": "x"}], "cursor": {}},
    {"aggregate": "w", "pipeline": [{"$out": "x"}], "cursor": {}}, {"aggregate": "x", "pipeline": [{"$out": {"db": "series", "coll": "w"}}], "cursor": {}}, {"create": "vv", "viewOn": "x", "pipeline": [{"$match": {"v": 3}}]},
    {"aggregate": "x", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}}, {"aggregate": "x", "pipeline": [{"$geoNear": {"near": [0, 0], "distanceField": "d"}}], "cursor": {}}, {"find": "x", "filter": {"m.l": {"$near": [0, 0]}}},
    {"drop": "system.buckets.x"}, {"drop": "x"}, {"create": "x"}, {"create": "x", "timeseries": PLAIN}, {"create": "system.buckets.x"}, {"collMod": "w", "timeseries": {"granularity": "hours"}}, {"find": "x", "hint": "zz"}, {"find": "x", "hint": {"zz": 1}},
    {"find": "x", "sort": {"$natural": -1}}, {"aggregate": "x", "pipeline": [{"$lookup": {"from": "x", "localField": "m", "foreignField": "m", "as": "k"}}, {"$project": {"k.t": 1}}], "cursor": {}},
    {"aggregate": "w", "pipeline": [{"$unionWith": "x"}], "cursor": {}}, {"aggregate": "w", "pipeline": [{"$lookup": {"from": "x", "as": "k", "let": {"a": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$m.a", "$$a"]}}}, {"$count": "n"}]}}], "cursor": {}},
    {"aggregate": "x", "pipeline": [{"$indexStats": {}}], "cursor": {}}, {"insert": "x", "documents": [{"t": at(1)}], "bypassDocumentValidation": True}, {"update": "none", "updates": [{"q": {}, "u": {"$set": {"m": 1}}, "multi": True}]},
    {"explain": {"delete": "x", "deletes": [{"q": {"m": 1}, "limit": 0}]}}, {"explain": {"update": "x", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 1}}, "multi": True}]}}, {"listIndexes": "x"}, {"listIndexes": "system.buckets.x"},
]
ADMIN = [
    {"renameCollection": "series.x", "to": "series.y"}, {"renameCollection": "series.system.buckets.x", "to": "series.y"}, {"renameCollection": "series.w", "to": "series.x"}, {"renameCollection": "series.w", "to": "series.x", "dropTarget": True},
]
# fmt: on


@pytest.mark.parametrize("options", DEFINITIONS, ids=named)
def test_definitions(servers, options):
    same(servers, {"create": "x", **options})
    same(servers, {"listCollections": 1, "filter": {"name": {"$ne": "system.views"}, "type": "timeseries"}})
    same(servers, {"listCollections": 1, "nameOnly": True})
    same(servers, {"find": "x"})


@pytest.mark.parametrize("granularity", ["seconds", "minutes", "hours"])
@pytest.mark.parametrize("documents", INSERTS, ids=named)
def test_inserts(servers, documents, granularity):
    make(servers, granularity=granularity)
    for one in documents if len(documents) < 10 else []:
        same(servers, {"insert": "x", "documents": [one]})
    same(servers, {"insert": "x", "documents": documents})
    same(servers, {"find": "x", "batchSize": 10_000})
    same(servers, {"count": "x"})


@pytest.mark.parametrize("documents", [one for one in INSERTS[:-1] if "" not in one[0]], ids=named)
def test_buckets_are_mongods(servers, documents):
    """What tells buckets apart is the same, and so is what each holds, but for its name and the order of fields."""
    make(servers)
    for one in documents:
        same(servers, {"insert": "x", "documents": [one]})
    kept = []
    for server in servers:
        bare = []
        for bucket in batch(server.run(DATABASE, {"find": "system.buckets.x"})):
            # Where an ObjectId cannot have the time, mongod's wraps around and ours is the nearest.
            is_named = 1970 <= documents[0]["t"].year < 2106
            fields = [(key, str(value)[:12] * is_named if key == "_id" else value) for key, value in bucket]
            bare.append(canonical.text(sorted_fields(canonical.Doc(fields))))
        kept.append(sorted(bare))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("document", REFUSED, ids=named)
@pytest.mark.parametrize("ordered", [True, False])
def test_documents_without_time_are_refused(servers, document, ordered):
    """mongod counts what it refuses among the inserted; here `n` is what is stored."""
    make(servers)
    documents = [{"t": at(1), "v": 1}, document, {"t": at(2), "v": 2}]
    insert = {"insert": "x", "documents": documents, "ordered": ordered}
    actual, expected = (server.client[DATABASE].command(insert) for server in servers)
    assert actual["writeErrors"] == expected["writeErrors"]
    assert actual["n"] == (1 if ordered else 2)
    same(servers, {"find": "x"})


@pytest.mark.parametrize("count", [0, 1, 9, 40])
def test_ordered_inserts_stop_at_what_an_index_refuses(servers, count):
    """Also where it shares its bucket with those before it, and nothing behind it is stored."""
    make(servers)
    same(servers, {"createIndexes": "x", "indexes": [{"key": {"a": 1, "b": 1}, "name": "i"}]})
    documents = [*({"t": at(number), "m": number % 2, "a": 1, "_id": number} for number in range(count)), {"t": at(50), "m": 0, "b": [1]}, {"t": at(51), "m": 0}, {"t": at(52), "m": 1}]
    reply = servers[0].client[DATABASE].command({"insert": "x", "documents": documents})
    assert (reply["n"], [(error["index"], error["code"]) for error in reply["writeErrors"]]) == (count, [(count, 5930501)])
    assert servers[0].client[DATABASE].x.count_documents({}) == count


def test_what_grows_in_its_bucket_is_refused_in_order(servers):
    subject = servers[0].client[DATABASE]
    make(servers)
    wide = {"t": at(1), "m": "B", **{f"{number:04x}": None for number in range(590_000)}}
    documents = [{"t": at(1), "m": "A", "v": "x" * 3_500_000} for _ in range(6)]
    with pytest.raises(BulkWriteError) as refused:
        subject.x.insert_many([documents[0], wide, *documents[1:]])
    assert (refused.value.details["nInserted"], refused.value.details["writeErrors"][0]["index"]) == (1, 1)
    assert subject.x.count_documents({}) == 1


def test_fields_that_come_twice(servers):
    """The first counts, also below."""
    document = b"".join([b"\x09t\0" + (1_600_000_000_000).to_bytes(8, "little"), b"\x10v\0\x05\0\0\0", b"\x02v\0\x02\0\0\0a\0", b"\x10v\0\x09\0\0\0"])
    document = (len(document) + 5).to_bytes(4, "little") + document + b"\0"
    make(servers)
    subject = servers[0].client[DATABASE]
    for _ in range(2):
        # mongod has no v in the second of its measurements.
        assert subject.command({"insert": "x", "documents": [RawBSONDocument(document)]})["n"] == 1
    for condition, count in (({}, 2), ({"v": 5}, 2), ({"v": {"$gt": 3}}, 2), ({"v": "a"}, 0), ({"v": 9}, 0)):
        assert subject.x.count_documents(condition) == count
        assert list(subject.x.find(condition)) == [{"t": datetime.datetime(2020, 9, 13, 12, 26, 40), "v": 5}] * count


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_deletes(servers, query):
    make(servers, MEASUREMENTS)
    same(servers, {"delete": "x", "deletes": [{"q": query, "limit": 0}]})
    same(servers, {"find": "x"})
    same(servers, {"delete": "x", "deletes": [{"q": query, "limit": 1}]})
    same(servers, {"find": "x"})


@pytest.mark.parametrize("update", UPDATES, ids=named)
def test_updates(servers, update):
    make(servers, MEASUREMENTS)
    same(servers, {"update": "x", "updates": [{"q": {"m.a": 1}, "multi": True, **update}]})
    same(servers, {"find": "x"})
    # Measurements go to a bucket whose metadata is theirs.
    same(servers, {"insert": "x", "documents": [{"t": at(9), "m": meta, "v": 5} for meta in ({"a": 1, "b": 2}, {"a": 9, "b": 2})]})
    same(servers, {"find": "x"})


@pytest.mark.parametrize(
    "command",
    [
        {"delete": "x", "deletes": [{"q": {"v": 1}, "limit": 0}]},
        {"delete": "x", "deletes": [{"q": {}, "limit": 0}]},
        {"update": "x", "updates": [{"q": {}, "u": {"$set": {"v": 1}}, "multi": True}]},
        {"update": "x", "updates": [{"q": {}, "u": {"$set": {"v": 1}}, "upsert": True}]},
    ],
    ids=named,
)
def test_without_metadata(servers, command):
    same(servers, {"create": "x", "timeseries": PLAIN})
    same(servers, {"insert": "x", "documents": MEASUREMENTS})
    same(servers, command)
    same(servers, {"find": "x"})


@pytest.mark.parametrize("key", KEYS, ids=named)
def test_indexes(servers, key):
    make(servers, [] if "2d" in str(key) else MEASUREMENTS)
    same(servers, {"createIndexes": "x", "indexes": [{"key": key, "name": "i"}]})
    same(servers, {"listIndexes": "x"})
    same(servers, {"createIndexes": "x", "indexes": [{"key": key, "name": "i"}]})
    same(servers, {"find": "x", "hint": key} if isinstance(key, dict) else {"find": "x", "hint": "i"})
    same(servers, {"dropIndexes": "x", "index": key})
    same(servers, {"listIndexes": "x"})


@pytest.mark.parametrize("options", OPTIONS, ids=named)
@pytest.mark.parametrize("key", [{"m": 1}, {"v": 1}, {"t": 1}], ids=named)
def test_index_options(servers, key, options):
    if key == {"v": 1} and options == {"unique": False}:
        pytest.skip("mongod shows such a key as it was sent, and others as it keeps them")
    make(servers, MEASUREMENTS)
    same(servers, {"createIndexes": "x", "indexes": [{"key": key, "name": "i", **options}]})
    same(servers, {"listIndexes": "x"})


def test_changes(servers):
    make(servers)
    same(servers, {"createIndexes": "x", "indexes": [{"key": {"m": 1}, "name": "m_1"}]})
    for change in CHANGES:
        same(servers, {"collMod": "x", **change})
        same(servers, {"listCollections": 1, "filter": {"type": "timeseries"}})
    same(servers, {"listIndexes": "x"})


@pytest.mark.parametrize("command", OTHERS, ids=named)
def test_other_commands(servers, command):
    make(servers, MEASUREMENTS)
    for server in servers:
        server.run(DATABASE, {"insert": "w", "documents": [{"_id": 1, "a": 1, "t": at(1)}]})
    same(servers, command)
    same(servers, {"find": "x"})
    same(servers, {"find": "vv"})
    same(servers, {"listCollections": 1, "nameOnly": True})


@pytest.mark.parametrize("command", ADMIN, ids=named)
def test_renames(servers, command):
    make(servers, MEASUREMENTS)
    for server in servers:
        server.run(DATABASE, {"insert": "w", "documents": [{"_id": 1}]})
    same(servers, command, "admin")
    same(servers, {"listCollections": 1, "nameOnly": True})


def test_databases_go_with_their_series(servers):
    make(servers, MEASUREMENTS)
    same(servers, {"dropDatabase": 1})
    same(servers, {"listCollections": 1, "nameOnly": True})
    same(servers, {"find": "x"})


@pytest.mark.parametrize(
    "change",
    [
        {"$unset": {"data.t.0": 1, "data.v.0": 1, "data._id.0": 1}},
        {"$unset": {"data.t.1": 1, "data.v.1": 1, "data._id.1": 1}},
        {"$unset": {"data.v.2": 1}},
        {"$set": {"meta": 2}},
        {"$set": {"control.closed": True}},
        {"$set": {"control.version": Int64(1)}},
        {"$set": {"control.max.v": 100}},
        {"$set": {"control.max.t": at(0, 1970)}},
        {"$unset": {"control.min.v": 1}},
        {"$set": {"data.w": {"1": 5}}},
    ],
    ids=named,
)
def test_buckets_that_are_changed_by_hand(servers, change):
    """What was put into a bucket by hand stays what it is when more comes to the series."""
    make(servers, [{"t": at(number), "m": 1, "v": number, "_id": number} for number in range(3)])
    same(servers, {"update": "system.buckets.x", "updates": [{"q": {}, "u": change}]})
    same(servers, {"find": "x"})
    for number in (9, 10):
        same(servers, {"insert": "x", "documents": [{"t": at(number), "m": 1, "v": number, "_id": number, "w": 1}]})
        same(servers, {"find": "x"})


@pytest.mark.parametrize(
    "command",
    [
        *({"collMod": "system.buckets.x", **change} for change in ({"validator": {}}, {"validationLevel": "off"}, {"validationAction": "warn"})),
        {"create": "system.buckets.v", "viewOn": "x", "pipeline": []}, {"create": "system.js", "viewOn": "x"}, {"create": "system.buckets."}, {"insert": "system.buckets.", "documents": [{"a": 1}]},
        *({"find": "x", "filter": {"w": "A"}, "collation": collation} for collation in ({"locale": "en", "strength": 2}, {"locale": "simple"}, {"locale": "x"})),
        {"count": "x", "query": {"m.k": "A"}, "collation": {"locale": "en", "strength": 2}}, {"distinct": "x", "key": "w", "collation": {"locale": "en", "strength": 1}},
        {"aggregate": "x", "pipeline": [{"$group": {"_id": "$m.k", "n": {"$sum": 1}}}], "cursor": {}, "collation": {"locale": "en", "strength": 2}},
        {"aggregate": "x", "pipeline": [{"$lookup": {"from": "x", "localField": "w", "foreignField": "m.k", "as": "k"}}, {"$project": {"k": {"$size": "$k"}}}], "cursor": {}, "collation": {"locale": "en", "strength": 2}},
        {"delete": "x", "deletes": [{"q": {"m.k": "A"}, "limit": 0, "collation": {"locale": "en", "strength": 2}}]}, {"collMod": "x", "timeseries": {"granularity": "hours"}},
    ],
    ids=named,
)  # fmt: skip
@pytest.mark.parametrize("collation", [None, {"locale": "fr", "strength": 1}], ids=named)
def test_collations_and_names(servers, command, collation):
    for server in servers:
        options = {"collation": collation} if collation else {}
        server.client[DATABASE].command({"create": "x", "timeseries": SERIES, **options})
        documents = [{"t": at(number), "m": {"k": key}, "w": other, "_id": number} for number, (key, other) in enumerate(zip("aAbBáa", "AabbaÁ"))]
        server.client[DATABASE].command({"insert": "x", "documents": documents})
    same(servers, {"createIndexes": "x", "indexes": [{"key": {"m.k": 1}, "name": "k"}]})
    same(servers, command)
    same(servers, {"find": "x"})


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("write", [
    {"insert": "system.buckets.x", "documents": [{"a": 1}]}, {"insert": "system.buckets.x", "documents": [{"_id": ObjectId(), "control": {"version": 1}, "data": {}}]},
    {"update": "system.buckets.x", "updates": [{"q": {}, "u": {"$unset": {"control": 1}}}]}, {"update": "system.buckets.x", "updates": [{"q": {"a": 1}, "u": {"$set": {"a": 1}}, "upsert": True}]},
    {"findAndModify": "system.buckets.x", "query": {}, "update": {"$unset": {"data": 1}}},
], ids=named)  # fmt: skip
def test_what_is_no_bucket_never_gets_among_them(servers, write, bypass):
    make(servers, MEASUREMENTS)
    reply = dict(servers[0].run(DATABASE, {**write, "bypassDocumentValidation": bypass}))
    code = dict(reply["writeErrors"][0])["code"] if "writeErrors" in reply else reply["code"]
    assert code == "int32(121)"
    same(servers, {"find": "x"})


def test_a_bucket_that_unpacks_to_far_more_than_it_is_ends_in_time(servers):
    """Written by hand: 20,000 measurements share metadata of 8 MB. What would be kept of them does not fit into memory."""
    make(servers)
    subject = servers[0].client[DATABASE]
    name, times = ObjectId(bytes.fromhex("65920080") + b"1" * 8), {str(number): at() for number in range(20_000)}
    bucket = {"_id": name, "control": {"version": 1, "min": {"t": at()}, "max": {"t": at()}}, "meta": "x" * 8_000_000, "data": {"t": times}}
    subject["system.buckets.x"].insert_one(bucket)
    assert subject.x.count_documents({}) == 20_000
    for stages in ([{"$group": {"_id": "$m", "n": {"$sum": 1}}}], [{"$project": {"m": 1}}, {"$match": {"m": "y"}}]):
        with pytest.raises(ExecutionTimeout):
            list(subject.x.aggregate(stages, maxTimeMS=300))
    with pytest.raises(OperationFailure) as refused:
        list(subject.x.find())
    assert refused.value.code == 146


def test_many_fields_take_time_in_proportion(servers):
    """Quadratic, these would take an hour."""
    subject = servers[0].client[DATABASE]
    make(servers)
    for names in ("abc", "abc", "xyz"):
        fields = {f"{name}{number}": None for name in names for number in range(60_000)}
        assert subject.command({"insert": "x", "documents": [{"t": at(1), "m": 1, **fields}]})["n"] == 1
    for number in range(500):
        fresh = {f"{number} {name}": None for name in range(10)}
        assert subject.command({"insert": "x", "documents": [{"t": at(1), "m": 2, **fresh}]})["n"] == 1
    assert subject.x.count_documents({}) == 503
    # Each of these fits; both do not fit into one bucket.
    large = [{"t": at(1), "m": 3, **{f"{name}{number}": None for number in range(300_000)}} for name in "ab"]
    assert subject.command({"insert": "x", "documents": large})["n"] == 2


def test_expiry(servers):
    """A bucket goes when its last measurement has expired; dates before 1970 have names that come late."""
    subject = servers[0].client[DATABASE]
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    ago = datetime.timedelta
    subject.command({"create": "x", "timeseries": SERIES, "expireAfterSeconds": 3600})
    documents = [
        {"t": now - ago(hours=3), "m": 1}, {"t": now - ago(minutes=90), "m": 2}, {"t": now - ago(minutes=30), "m": 2}, {"t": now - ago(minutes=5), "m": 3},
        {"t": datetime.datetime(1950, 1, 1), "m": 4}, {"t": datetime.datetime(2150, 1, 1), "m": 5},
    ]  # fmt: skip
    assert subject.command({"insert": "x", "documents": documents})["n"] == 6
    deadline = datetime.datetime.now() + ago(seconds=30)
    while datetime.datetime.now() < deadline:
        left = subject.x.distinct("m")
        if sorted(left) == [2, 3, 5]:
            break
    assert sorted(left) == [2, 3, 5]


def random_value(random_):
    return random_.choice([1, 2.5, None, "s", True, Int64(7), Decimal128("3.1"), [1, 5], [7, "x"], {"z": 1}, {"z": "y"}, at(random_.randrange(99)), -3, 0, [], float("nan"), -0.0, [float("nan"), 3], {"z": float("nan")}, {"z": [2, 9]}, {"z": [{"y": 4}, 1]}])


def random_documents(random_, count):
    for number in range(count):
        document = {"t": at(random_.choice([60, 3_000, 9_000, 200_000]) * random_.random())}
        if random_.random() < 0.9:
            document["m"] = random_.choice([1, 2, "a", None, {"s": 1, "k": "x"}, {"s": 2, "k": "y"}, {"k": "x", "s": 1}, [1, 2], {"s": [1, 3]}])
        for name in "uvw":
            if random_.random() < 0.7:
                document[name] = random_value(random_) if name == "u" else random_.randrange(50) if random_.random() < 0.97 else float("nan")
        document["n"] = number
        yield SON(random_.sample(sorted(document.items()), len(document)))


def random_condition(random_, depth=0):
    kind = random_.randrange(9 if depth < 2 else 7)
    time = at(random_.choice([30, 2_000, 8_000, 150_000]) * random_.random())
    compare = random_.choice(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"])
    if kind <= 1:
        return {"t": {compare: time}}
    if kind == 2:
        return {"t": {"$gte": time, "$lt": time + datetime.timedelta(seconds=random_.choice([60, 3600]))}}
    if kind == 3:
        return {random_.choice(["m", "m.s", "m.k", "m.s.0"]): random_.choice([1, 2, "a", "x", None, {"$gt": 1}, {"$exists": True}, {"$in": [1, 2, "y"]}, {"$ne": 1}, {"$type": "object"}, {"k": "x", "s": 1}])}
    if kind == 4:
        return {random_.choice(["u", "v", "w", "u.z", "u.0", "u.z.y", "n", "absent"]): {compare: random_value(random_)}}
    if kind == 5:
        return {"$expr": {compare: [random_.choice(["$t", "$v", "$m.s"]), random_.choice([time, 1, 20])]}}
    if kind == 6:
        return {"t": random_.choice([{"$in": [time]}, {"$exists": True}, {"$type": "date"}, {"$not": {"$gt": time}}, None])}
    return {random_.choice(["$and", "$or", "$nor"]): [random_condition(random_, depth + 1) for _ in range(random_.randrange(1, 4))]}


def random_pipeline(random_):
    pipeline = [{"$match": random_condition(random_)} for _ in range(random_.randrange(3))]
    for _ in range(random_.randrange(3)):
        pipeline.append(
            random_.choice([
                {"$project": {"v": 1, "n": 1}}, {"$project": {"m": 0, "t": 0}}, {"$set": {"x": {"$add": ["$v", 1]}}}, {"$set": {"m": "$v"}}, {"$unset": "m"}, {"$match": random_condition(random_)},
                {"$project": {"_id": 0, "m.s": 1, "n": 1}}, {"$set": {"t": "$n"}}, {"$project": {"_id": 0, "n": 1, "k": "$m.k"}},
            ])  # fmt: skip
        )
    last = random_.choice([
        [], [], [{"$count": "c"}], [{"$group": {"_id": "$m", "s": {"$sum": "$v"}, "a": {"$avg": "$w"}, "c": {"$sum": 1}}}], [{"$sort": {"n": 1}}, {"$limit": 5}],
        [{"$group": {"_id": {"$dateTrunc": {"date": "$t", "unit": "hour"}}, "least": {"$min": "$v"}, "most": {"$max": "$v"}}}],
        [{"$sort": {"n": -1}}, {"$skip": 3}], [{"$group": {"_id": None, "n": {"$sum": "$n"}}}], [{"$sortByCount": "$m.s"}],
    ])  # fmt: skip
    return pipeline + last


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_random_reads(servers, part, indexed):
    """The same of a series as of a plain collection with the same documents, and as of mongod's."""
    random_ = random.Random(f"{SEED} timeseries {part}")
    documents = list(random_documents(random_, 400))
    granularity = random_.choice(["seconds", "minutes"])
    make(servers, granularity=granularity)
    subject = servers[0]
    for start in range(0, len(documents), 37):
        same(servers, {"insert": "x", "documents": documents[start : start + 37]})
        # Of a series, metadata with the same fields is the same.
        plain = ({**one, "m": SON(sorted(one["m"].items()))} if isinstance(one.get("m"), dict) else one for one in documents[start : start + 37])
        subject.run(DATABASE, {"insert": "plain", "documents": [{**one, "_id": one["n"]} for one in plain]})
    if indexed:
        keys = [{"m": 1, "t": 1}, {"t": -1}, {"m.s": 1}, {"m.k": 1, "t": -1}, {"v": 1}]
        same(servers, {"createIndexes": "x", "indexes": [{"key": key, "name": f"i{number}"} for number, key in enumerate(keys)]})
    for number in range(150):
        pipeline = random_pipeline(random_)
        ordered = any("$sort" in stage for stage in pipeline)
        series = {"aggregate": "x", "pipeline": pipeline, "cursor": {"batchSize": 10_000}}
        actual = reply_text(subject.run(DATABASE, series), ordered)
        plain = [*pipeline]
        if not any(next(iter(stage)) in {"$group", "$count", "$sortByCount"} for stage in pipeline):
            plain.append({"$unset": "_id"})
        expected = reply_text(subject.run(DATABASE, {**series, "aggregate": "plain", "pipeline": plain}), ordered)
        assert actual.replace("series.x", "") == expected.replace("series.plain", ""), f"{SEED} {number} {pipeline}"
        if "'$v'" in str(pipeline):
            # mongod leaves measurements without the field out, which are less than all numbers.
            continue
        mongods = reply_text(servers[1].run(DATABASE, series), ordered)
        assert actual == mongods, f"{SEED} {number} {pipeline}\n{actual[:2000]}\n{mongods[:2000]}"
    assert subject.client[DATABASE].x.estimated_document_count() == 400


def test_what_clients_make_large(servers):
    """At the bound, one past it and far beyond: what does not fit is refused by name, what is beside it is stored."""
    make(servers)
    subject = servers[0].client[DATABASE]

    def insert(*documents, **options):
        reply = subject.command({"insert": "x", "documents": list(documents), **options})
        return reply["n"], [(error["index"], error["code"]) for error in reply.get("writeErrors", [])]

    # A bucket holds a value, and twice as much for the extremes.
    assert insert({"t": at(1), "m": 1, "v": "x" * 5_500_000}) == (1, [])
    large = {"t": at(1), "m": 1, "v": "x" * 5_650_000}
    small = {"t": at(2), "m": 2, "v": 1}
    assert insert(large) == (0, [(0, 10334)])
    assert insert(small, large, small) == (1, [(1, 10334)])
    assert insert(small, large, small, ordered=False) == (2, [(1, 10334)])
    assert insert({"t": at(1), "m": "x" * 15_000_000}) == (1, [])
    # Fields, and levels.
    assert insert(*({"t": at(3), "m": 3, **{f"f{number}": number for number in range(50_000)}} for _ in range(3))) == (3, [])
    nested = 1
    for _ in range(80):
        nested = {"a": nested} if random.random() < 0.5 else [nested]
    assert insert(*({"t": at(4), "m": 4, "v": nested} for _ in range(3))) == (3, [])
    assert insert(*({"t": at(5), "m": {"k": nested}, "v": 1} for _ in range(3))) == (3, [])
    # More series than are open at once.
    for start in range(0, 160_000, 40_000):
        assert insert(*({"t": at(6), "m": 10 + start + number} for number in range(40_000)), ordered=False) == (40_000, [])
    assert insert(*({"t": at(7), "m": 10 + number} for number in range(10)), ordered=False) == (10, [])
    assert subject.x.count_documents({"m": {"$gte": 10, "$lt": 20}}) == 20
    assert subject.x.count_documents({}) == 160_000 + 10 + 1 + 3 + 1 + 3 + 3 + 3
    assert subject.x.count_documents({"m": 3, "f49999": 49_999}) == 3
    assert subject.x.find_one({"m": 4})["v"] == nested
    assert subject.command("validate", "system.buckets.x", full=True)["valid"]


GROUPED = {
    "all": {"_id": None, "n": {"$sum": 1}, "high": {"$max": "$v"}, "low": {"$min": "$v"}, "mean": {"$avg": "$v"}},
    "sensors": {"_id": "$m.s", "first": {"$first": "$v"}, "last": {"$last": "$v"}, "sum": {"$sum": "$v"}},
    "hours": {"_id": {"s": "$m.s", "hour": {"$dateTrunc": {"date": "$t", "unit": "hour"}}}, "mean": {"$avg": "$v"}, "n": {"$sum": 1}},
    "rooms": {"_id": "$m.room", "low": {"$min": "$v"}, "high": {"$max": "$v"}, "count": {"$count": {}}},
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPED)
def test_many_buckets_are_grouped_in_parts(_subject, _oracle, group):
    """Series of several hundred sensors: parts of the buckets are unpacked beside each other, and put together in their order."""
    start = datetime.datetime(2026, 3, 1)
    servers = (_subject, _oracle)
    for server in servers:
        database = server.client.grouped
        if "x" not in database.list_collection_names():
            database.create_collection("x", timeseries={"timeField": "t", "metaField": "m"})
            # Whole numbers: sums are the same in any order.
            readings = [{"_id": minute * 1_000 + sensor, "t": start + datetime.timedelta(minutes=20 * minute), "m": {"s": sensor, "room": sensor % 3}, "v": (minute * 37 + sensor * 11) % 101} for minute in range(12) for sensor in range(300)]
            database.x.insert_many(readings, ordered=False)
    for hours in ((0, 4), (1, 2), (2.5, 3.5)):
        times = {"t": {"$gte": start + datetime.timedelta(hours=hours[0]), "$lt": start + datetime.timedelta(hours=hours[1])}}
        # Within a series the order is that of time.
        pipeline = [{"$match": times}, {"$group": GROUPED[group]}]
        found = [sorted(server.client.grouped.x.aggregate(pipeline), key=lambda one: str(one["_id"])) for server in servers]
        assert found[0] == found[1] and found[0], hours
