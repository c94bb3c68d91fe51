"""Daily work with PyMongo: what an application does, and what makes drivers stumble."""

import datetime
import json
import threading
import warnings

import bson
import pymongo
import pytest
from bson import Decimal128, Int64, ObjectId
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, CursorNotFound, DuplicateKeyError, ExecutionTimeout, OperationFailure, WriteError


def test_connects_without_warnings(subject):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pymongo.MongoClient(subject.uri) as client:
            assert client.admin.command("ping") == {"ok": 1.0}
            assert client.server_info()["versionArray"][0] >= 5
            assert client.is_primary
            assert client.topology_description.topology_type_name == "Single"


def test_insert_and_find(database):
    c = database["c"]
    result = c.insert_one({"a": 1})
    assert isinstance(result.inserted_id, ObjectId)
    assert c.find_one({"_id": result.inserted_id})["a"] == 1
    many = c.insert_many([{"n": i} for i in range(1000)])
    assert len(many.inserted_ids) == 1000
    assert [d["n"] for d in c.find({"n": {"$gte": 0}}).sort("n", -1).limit(3)] == [999, 998, 997]
    assert c.count_documents({"n": {"$lt": 10}}) == 10
    assert c.estimated_document_count() == 1001
    assert sorted(c.distinct("n", {"n": {"$lt": 5}})) == [0, 1, 2, 3, 4]


def test_types_come_back_as_they_were(database):
    document = {
        "_id": 1, "int": 1, "long": Int64(1), "double": 1.0, "decimal": Decimal128("1.10"), "string": "ä",
        "date": datetime.datetime(2017, 12, 24, 1, 2, 3, 456000), "nothing": None, "bytes": b"abc",
        "list": [1, [2, {"x": 3}]], "object": {"z": 1, "a": 2}, "regex": bson.Regex("^a", "i"), "min": bson.MinKey(),
        "timestamp": bson.Timestamp(5, 6), "uuid": bson.Binary(bytes(16), 4), "code": bson.Code("x"),
    }  # fmt: skip
    database["c"].insert_one(document)
    raw = database.get_collection("c", bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument)).find_one()
    assert raw.raw == bson.encode(document)


def test_updates_and_deletes(database):
    c = database["c"]
    c.insert_many([{"_id": i, "n": i % 3} for i in range(9)])
    result = c.update_many({"n": 1}, {"$inc": {"n": 10}})
    assert (result.matched_count, result.modified_count) == (3, 3)
    result = c.update_one({"_id": 77}, {"$set": {"x": 1}}, upsert=True)
    assert result.upserted_id == 77
    assert c.replace_one({"_id": 0}, {"new": True}).modified_count == 1
    assert c.find_one({"_id": 0}) == {"_id": 0, "new": True}
    assert c.delete_one({"n": 2}).deleted_count == 1
    assert c.delete_many({}).deleted_count == 9
    assert c.find_one() is None


def test_find_and_modify(database):
    c = database["c"]
    c.insert_one({"_id": 1, "n": 1})
    assert c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})["n"] == 1
    after = pymongo.ReturnDocument.AFTER
    assert c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, return_document=after)["n"] == 3
    assert c.find_one_and_replace({"_id": 2}, {"x": 1}, upsert=True, return_document=after) == {"_id": 2, "x": 1}
    assert c.find_one_and_delete({"_id": 2}) == {"_id": 2, "x": 1}
    assert c.find_one_and_delete({"_id": 2}) is None


def test_bulk_write(database):
    c = database["c"]
    result = c.bulk_write(
        [InsertOne({"_id": 1}), InsertOne({"_id": 2}), UpdateOne({"_id": 1}, {"$set": {"x": 1}}), UpdateMany({}, {"$set": {"y": 1}}),
         ReplaceOne({"_id": 9}, {"z": 1}, upsert=True), DeleteOne({"_id": 2}), DeleteMany({"zzz": 1})]
    )  # fmt: skip
    assert (result.inserted_count, result.modified_count, result.upserted_count, result.deleted_count) == (2, 3, 1, 1)
    assert result.upserted_ids == {4: 9}


@pytest.mark.parametrize("ordered", [True, False])
def test_bulk_write_errors(database, ordered):
    c = database["c"]
    c.create_index("u", unique=True, sparse=True)
    with pytest.raises(BulkWriteError) as caught:
        c.bulk_write(
            [InsertOne({"_id": 1, "u": 1}), InsertOne({"_id": 2, "u": 1}), UpdateOne({"_id": 1}, {"$set": {"_id": 5}}), InsertOne({"_id": 3})],
            ordered=ordered,
        )
    errors = caught.value.details["writeErrors"]
    assert [(e["index"], e["code"]) for e in errors] == ([(1, 11000)] if ordered else [(1, 11000), (2, 66)])
    assert errors[0]["keyPattern"] == {"u": 1} and errors[0]["keyValue"] == {"u": 1}
    assert c.count_documents({}) == (1 if ordered else 2)


def test_errors_have_their_classes(database):
    c = database["c"]
    c.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as caught:
        c.insert_one({"_id": 1})
    assert caught.value.code == 11000
    with pytest.raises(WriteError):
        c.update_one({"_id": 1}, {"$set": {"_id": 2}})
    with pytest.raises(OperationFailure) as caught:
        list(c.find({"a": {"$foo": 1}}))
    assert caught.value.code == 2
    with pytest.raises(OperationFailure) as caught:
        database.command("noSuchCommand")
    assert caught.value.code == 59
    assert c.find_one() == {"_id": 1}  # an error reply never closes the connection


def test_validator_error_has_details(database):
    database.create_collection("v", validator={"$jsonSchema": {"required": ["a"], "properties": {"a": {"bsonType": "int"}}}})
    with pytest.raises(WriteError) as caught:
        database["v"].insert_one({"_id": 1, "a": "x"})
    assert caught.value.code == 121
    assert caught.value.details["errInfo"]["details"]["operatorName"] == "$jsonSchema"


def test_cursor_over_many_batches(database):
    c = database["c"]
    c.insert_many([{"_id": i} for i in range(2500)])
    assert [d["_id"] for d in c.find({}, batch_size=7).sort("_id", 1)] == list(range(2500))
    cursor = c.find({}, batch_size=10)
    next(cursor)
    identity, address = cursor.cursor_id, cursor.address
    assert identity
    cursor.close()
    with pytest.raises(CursorNotFound):
        c.database.command("getMore", Int64(identity), collection="c")
    assert address


def test_aggregate(database):
    c = database["c"]
    c.insert_many([{"city": f"c{i % 4}", "n": i} for i in range(100)])
    pipeline = [{"$match": {"n": {"$gte": 20}}}, {"$group": {"_id": "$city", "total": {"$sum": "$n"}}}, {"$sort": {"_id": 1}}]
    assert [d["_id"] for d in c.aggregate(pipeline)] == ["c0", "c1", "c2", "c3"]
    c.aggregate([{"$group": {"_id": "$city", "n": {"$sum": 1}}}, {"$out": "sums"}])
    assert database["sums"].count_documents({"n": 25}) == 4
    assert len(list(c.aggregate([{"$sample": {"size": 10}}]))) == 10


def test_indexes(database):
    c = database["c"]
    c.insert_many([{"a": i, "p": {"type": "Point", "coordinates": [i, i]}} for i in range(50)])
    assert c.create_index([("a", pymongo.ASCENDING)]) == "a_1"
    assert c.create_index([("p", pymongo.GEOSPHERE)]) == "p_2dsphere"
    assert c.create_index([("a", pymongo.HASHED)]) == "a_hashed"
    assert set(c.index_information()) == {"_id_", "a_1", "p_2dsphere", "a_hashed"}
    area = {"type": "Polygon", "coordinates": [[[9.5, 9], [20.5, 9], [20.5, 21], [9.5, 21], [9.5, 9]]]}
    assert c.count_documents({"p": {"$geoWithin": {"$geometry": area}}}) == 11
    c.drop_index("a_1")
    with pytest.raises(OperationFailure):
        c.drop_index("a_1")
    c.drop_indexes()
    assert list(c.index_information()) == ["_id_"]


def test_unacknowledged_writes(database):
    c = database.get_collection("c", write_concern=pymongo.WriteConcern(w=0))
    for number in range(100):
        c.insert_one({"_id": number})
    c.insert_one({"_id": 5})  # a duplicate: nobody hears of it
    c.update_one({"_id": 7}, {"$set": {"x": 1}})
    c.delete_one({"_id": 8})
    checked = database["c"]
    for _ in range(100):
        if checked.count_documents({}) == 99 and checked.find_one({"_id": 7, "x": 1}):
            break
        threading.Event().wait(0.05)
    assert checked.count_documents({}) == 99


@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_compression(subject, compressor):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pymongo.MongoClient(subject.uri, compressors=compressor) as client:
            hello = client.admin.command("hello", compression=[compressor])
            assert compressor in hello.get("compression", [])
            c = client["drv_compression"][compressor]
            c.drop()
            c.insert_many([{"_id": i, "s": "abc" * 1000} for i in range(500)])
            assert sum(len(d["s"]) for d in c.find()) == 500 * 3000
            c.drop()


def test_sessions(subject, database):
    client = subject.client
    c = database["c"]
    with client.start_session() as session:
        c.insert_one({"_id": 1}, session=session)
        assert c.find_one({"_id": 1}, session=session) == {"_id": 1}
        assert [d["_id"] for d in c.find({}, batch_size=1, session=session)] == [1]
    with client.start_session(causal_consistency=True) as session:
        assert c.count_documents({}, session=session) == 1


def test_max_time(database):
    c = database["c"]
    c.insert_many([{"n": i, "s": "x" * 100} for i in range(20_000)])
    with pytest.raises(ExecutionTimeout):
        slow = {"$expr": {"$eq": [{"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 0, "in": {"$add": ["$$value", "$n"]}}}, -1]}}
        list(c.find(slow).max_time_ms(50))
    assert c.count_documents({}) == 20_000


def test_write_concerns(database):
    for concern in (pymongo.WriteConcern(w=1), pymongo.WriteConcern(j=True), pymongo.WriteConcern("majority")):
        c = database.get_collection("c", write_concern=concern)
        assert c.insert_one({}).acknowledged


def test_big_documents(database):
    c = database["c"]
    big = {"_id": 1, "s": "x" * (16 * 1024 * 1024 - 100)}
    c.insert_one(big)
    assert c.find_one() == big


def test_large_bulk(database):
    """More than one message: the driver splits at 100,000 writes and 48 MB."""
    c = database["c"]
    result = c.insert_many([{"_id": i} for i in range(150_000)])
    assert len(result.inserted_ids) == 150_000
    assert c.count_documents({}) == 150_000
    assert c.insert_many([{"s": "x" * 1_000_000} for _ in range(60)]).acknowledged


def test_many_clients(subject, database):
    """Threads with connections of their own: every write is there, each counted once."""
    c = database["c"]
    failures = []

    def work(thread):
        try:
            with pymongo.MongoClient(subject.uri) as client:
                mine = client[database.name]["c"]
                for number in range(50):
                    mine.insert_one({"_id": f"{thread}-{number}"})
                    mine.update_one({"_id": "sum"}, {"$inc": {"n": 1}}, upsert=False)
                    mine.find_one({"_id": f"{thread}-{number}"})
        except Exception as error:
            failures.append(error)

    c.insert_one({"_id": "sum", "n": 0})
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert c.find_one({"_id": "sum"})["n"] == 400
    assert c.count_documents({}) == 401


def test_upsert_race_makes_one_document(subject, database):
    c = database["c"]
    c.create_index("k", unique=True)

    def work():
        with pymongo.MongoClient(subject.uri) as client:
            mine = client[database.name]["c"]
            for number in range(50):
                try:
                    mine.update_one({"k": number}, {"$inc": {"n": 1}}, upsert=True)
                except DuplicateKeyError:
                    mine.update_one({"k": number}, {"$inc": {"n": 1}}, upsert=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c.count_documents({}) == 50
    assert c.count_documents({"n": 4}) == 50


@pytest.mark.parametrize("options", [{}, {"scandata": True}, {"full": True}, {"scandata": True, "full": True}, {"background": True}, {"background": False}], ids=lambda options: "_".join(options) or "none")
def test_validate_collection(database, options):
    database["c"].insert_many([{"_id": i, "a": i} for i in range(10)])
    database["c"].create_index("a")
    report = database.validate_collection("c", **options)
    assert report["valid"] and report["nrecords"] == 10 and report["keysPerIndex"] == {"_id_": 10, "a_1": 10}


def test_deletes_that_pass_the_validator(database):
    database["c"].insert_many([{"_id": i} for i in range(4)])
    assert database.command("delete", "c", deletes=[{"q": {"_id": 0}, "limit": 1}], bypassDocumentValidation=True)["n"] == 1
    assert database["c"].count_documents({}) == 3


def test_databases_that_every_server_has(subject, database):
    database["c"].insert_one({})
    names = subject.client.list_database_names()
    assert {"admin", "config", "local", database.name} <= set(names)
    assert names == sorted(names)
    assert subject.client.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"] == 5


def test_documents_that_fail_a_warning_validator_are_logged_as_json(subject, database):
    database.create_collection("warned", validator={"a": {"$type": "int"}}, validationAction="warn")
    database["warned"].insert_one({"_id": 1, "a": "text"})
    line = next(line for line in subject.log_tail(200).splitlines() if "fails validation" in line and database.name in line)
    details, _ = json.JSONDecoder().raw_decode(line[line.index("details=") + len("details=") :])
    assert details["failingDocumentId"] == 1


def test_what_dump_tools_ask(subject, database):
    """mongodump and mongorestore: version, list, scan by _id, restore past the validator."""
    info = subject.client.admin.command("buildInfo")
    assert all(isinstance(part, int) for part in info["versionArray"]) and len(info["versionArray"]) == 4
    database.create_collection("c", validator={"a": {"$exists": True}})
    c = database["c"]
    database.command("insert", "c", documents=[{"_id": i} for i in range(300)], bypassDocumentValidation=True, ordered=False)
    assert [d["_id"] for d in c.find({}, hint={"_id": 1}, batch_size=50)] == list(range(300))
    reply = database.command("listCollections", cursor={"batchSize": 100})
    assert reply["cursor"]["firstBatch"][0]["options"] == {"validator": {"a": {"$exists": True}}}
    assert "uuid" in reply["cursor"]["firstBatch"][0]["info"]
    indexes = database.command("listIndexes", "c")["cursor"]["firstBatch"]
    specs = [{k: v for k, v in index.items() if k != "ns"} for index in indexes if index["name"] != "_id_"] or [{"key": {"a": 1}, "name": "a_1", "v": 2}]
    assert database.command("createIndexes", "c", indexes=specs)["ok"] == 1


def documents_examined(cursor):
    return cursor.explain()["executionStats"]["totalDocsExamined"]


def test_indexes_that_carry_fields_or_documents(database):
    """Meridian's own options pass through the driver, are listed, and can be created again from the listing."""
    c = database["c"]
    c.insert_many([{"_id": i, "k": i % 10, "v": {"w": i, "x": "y"}, "pad": "p" * 50} for i in range(200)])
    c.create_index("k", name="carrying", include=["v.w"])
    c.create_index([("v.w", -1)], name="whole", clustering=True)
    listed = {index["name"]: index for index in c.list_indexes()}
    assert listed["carrying"]["include"] == ["v.w"]
    assert listed["whole"]["clustering"] is True

    covered = c.find({"k": 3, "v.w": {"$gt": 100}}, {"_id": 0, "k": 1, "v.w": 1})
    assert documents_examined(covered.clone()) == 0
    assert list(covered)[0] == {"k": 3, "v": {"w": 103}}
    whole = c.find({"v.w": {"$gte": 190}, "k": {"$ne": 5}})
    assert documents_examined(whole.clone()) == 0
    c.update_many({"v.w": {"$gte": 195}}, {"$set": {"pad": "new"}})
    assert [d["pad"] for d in whole] == ["new"] * 4 + ["p" * 50] * 5

    for name in ("carrying", "whole"):
        c.drop_index(name)
        again = listed[name]
        options = {option: again[option] for option in ("include", "clustering") if option in again}
        c.create_index(list(again["key"].items()), name=name, **options)
    assert {index["name"]: index for index in c.list_indexes()} == listed
    assert database.command("validate", "c")["valid"]
    for options in ({"include": ["k"]}, {"include": ["_id"]}, {"include": ["w"], "clustering": True}):
        with pytest.raises(OperationFailure) as refused:
            c.create_index("k", name="other", **options)
        assert refused.value.code == 67
