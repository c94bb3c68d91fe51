"""Capped collections and tailable cursors: whole replies beside mongod's, and the documents that stay.

Each case is a list of commands that both servers get one after the other. What documents a capped collection
holds, and in which order, is part of the replies. MERIDIAN_RANDOM_SEED repeats the random writes.
"""

import random
import re
import threading
import time

import pymongo
import pytest
from bson import SON, Decimal128, Int64
from harness import canonical
from pymongo.cursor import CursorType
from pymongo.errors import OperationFailure
from test_random_query import SEED

DATABASE = "capped"
CURSOR = Int64(-1)  # stands for the cursor that the case opened last


@pytest.fixture
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
    return _subject, _oracle


class Session:
    """The commands of a case on one server, and the cursor that they opened last."""

    def __init__(self, server):
        self.server = server
        self.cursor = Int64(0)

    def run(self, command, database=DATABASE):
        if command.get("getMore") == CURSOR:
            command = SON(command, getMore=self.cursor)
        if command.get("cursors") == [CURSOR]:
            command = SON(command, cursors=[self.cursor])
        reply = self.server.run(database, command)
        for key, value in reply:
            if key == "cursor" and "firstBatch" in dict(value):
                self.cursor = Int64(re.search(r"\((-?\d+)\)", dict(value)["id"])[1])
        return self.text(reply)

    @staticmethod
    def text(reply):
        text = canonical.text(reply)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID", text)
        text = re.sub(r"binary\(4, [0-9a-f]{32}\)", "UUID", text)
        text = re.sub(r'host: ".*?"|timeMillis: int32\(\d+\)', "", text)
        text = re.sub(r"cursor id -?\d+", "cursor id N", text)
        text = re.sub(r"int64\(-?[1-9]\d{16,}\)", "a number", text)
        # One in thousands is shorter.
        text = re.sub(r"\bid: int64\(-?[1-9]\d*\)", "id: a number", text)
        # Theirs names what was parsed, and has another version of the collations' data.
        text = re.sub(r"error processing query: ns=\S*Tree: .*?Proj: {}\s+", "", text, flags=re.DOTALL)
        text = re.sub(r'"(0x)?[0-9a-f]{6,}"', '"a sort key"', text)
        return text


def find(name="c", **options):
    return {"find": name, **options}


def more(name="c", **options):
    return {"getMore": CURSOR, "collection": name, **options}


def tail(name="c", **options):
    return find(name, tailable=True, **options)


def insert(name, *documents, **options):
    return {"insert": name, "documents": [document if isinstance(document, dict) else {"_id": document} for document in documents], **options}


def capped(name="c", size=4096, **options):
    return {"create": name, "capped": True, "size": size, **options}


def options(name="c"):
    return {"listCollections": 1, "filter": {"name": name}}


def large(number, length):
    return {"_id": number, "x": "a" * length}


def same(servers, commands):
    subject, oracle = (Session(server) for server in servers)
    for command in commands:
        database = DATABASE
        if isinstance(command, tuple):
            command, database = command
        actual, expected = subject.run(command, database), oracle.run(command, database)
        assert actual == expected, f"{str(command)[:300]}\nMeridian {actual}\nmongod   {expected}"


CREATE = {
    "no_size": [dict(capped=True), dict(capped=True, max=5), dict(capped=True, size=None)],
    "sizes": [dict(capped=True, size=size) for size in (1, 255, 256, 257, 4096, 4097, 5000.5, Decimal128("5000"), Int64(9999))],
    "no_such_size": [dict(capped=True, size=size) for size in (0, -1, "x", float("nan"), Int64(2**50 + 1), Int64(2**62), {}, [])],
    "largest_size": [dict(capped=True, size=Int64(2**50)), dict(capped=True, size=2.0**50)],
    "max": [dict(capped=True, size=1000, max=number) for number in (1, 5, 1.7, 2**31 - 1, None, Decimal128("3.9"))],
    "max_of_any": [dict(capped=True, size=1000, max=number) for number in (0, -1, Int64(-(2**40)))],
    "no_such_max": [dict(capped=True, size=1000, max=number) for number in (Int64(2**31), Int64(2**40), "a", {}, True)],
    "capped_of_types": [dict(capped=value, size=5000) for value in (True, 1, 1.5, Int64(1), 0, False, "x", None, {})],
    "not_capped": [dict(capped=False), dict(capped=None), dict(size=5000), dict(max=4), dict(size=0), dict(capped=0)],
    "order_of_options": [dict(max=3, size=1000, capped=True), dict(validator={"a": 1}, size=1000, capped=True, validationLevel="strict")],
    "auto_index_id": [dict(capped=True, size=1000, autoIndexId=value) for value in (True, False, None, 1, 0, "x")],
    "auto_index_id_alone": [dict(autoIndexId=value) for value in (True, False, None, 1, 0, "x")],
    "flags": [dict(capped=True, size=1000, flags=value) for value in (1, 0, 2.5, "x")],
    "id_index": [dict(capped=True, size=1000, idIndex={"key": {"_id": 1}, "name": "_id_", "v": 2})],
    "collation": [dict(capped=True, size=1000, collation={"locale": "fr"})],
    "other_kinds": [
        dict(capped=True, size=1000, timeseries={"timeField": "t"}),
        dict(capped=True, size=1000, clusteredIndex={"key": {"_id": 1}, "unique": True}),
        dict(capped=True, size=1000, expireAfterSeconds=5),
        dict(capped=True, size=1000, temp=True),
    ],
}


@pytest.mark.parametrize("name", CREATE)
def test_create(servers, name):
    commands = []
    for number, given in enumerate(CREATE[name]):
        commands += [{"create": f"c{number}", **given}, options(f"c{number}")]
    same(servers, commands)


THREE = [capped(max=3), insert("c", 5, 1, 9)]

CASES = {
    "again": [capped(), capped(), {"create": "c"}, capped(size=9999)],
    "order": [capped(), insert("c", 5, 1, 9, 2), insert("c", 7), find(), find(sort={"$natural": -1}), find(sort={"_id": 1}), find(sort={"_id": -1})],
    "max": [*THREE, insert("c", 2), find(), insert("c", 7, 8, 20, 30, 4), find(), {"count": "c"}],
    "one": [capped(max=1), insert("c", 1, 2), find(), insert("c", 3), find()],
    "size": [capped(), insert("c", *(large(i, 1000) for i in range(10))), find(projection={"_id": 1}), {"count": "c"}],
    "size_to_the_byte": [capped(), *(step for n in range(4066, 4080) for step in (insert("c", large(1000 + n, n)), insert("c", n), find(projection={"_id": 1})))],
    "larger_than_all": [capped(), insert("c", 1, 2), insert("c", large(3, 9000)), find(projection={"_id": 1}), insert("c", 4), find(projection={"_id": 1})],
    "larger_amid_others": [capped(), insert("c", large(1, 1000), large(2, 9000), 3, ordered=False), find(projection={"_id": 1})],
    "duplicate_of_the_oldest": [*THREE, insert("c", 5, 6), find(), insert("c", 6, 5, ordered=False), find()],
    "again_once_it_is_gone": [*THREE, insert("c", 6, 5), find(), insert("c", 10, 11, 12, 13, 10, 12, ordered=False), find()],
    "gone_within_one_insert": [*THREE, insert("c", 40, 41, 42, 43, 44, 41), find(), insert("c", 50, 51, 52, 50), find()],
    "failing_insert_removes_none": [*THREE, insert("c", 9), find(), insert("c", {"_id": [1]}), find()],
    "validator": [capped(max=2, validator={"a": {"$gt": 0}}), insert("c", {"_id": 1, "a": 1}, {"_id": 2, "a": 0}, {"_id": 3, "a": 2}, ordered=False), find(),
                  insert("c", {"_id": 4, "a": 0}, bypassDocumentValidation=True), find()],
    "unique": [capped(max=3), {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": True}]},
               insert("c", {"_id": 1, "a": 1}, {"_id": 2, "a": 2}, {"_id": 3, "a": 3}), insert("c", {"_id": 4, "a": 1}), find(),
               insert("c", {"_id": 4, "a": 4}, {"_id": 5, "a": 1}, {"_id": 6, "a": 2}), find(),
               insert("c", {"_id": 7, "a": 9}, {"_id": 8, "a": 8}, {"_id": 9, "a": 9}, {"_id": 10, "a": 4}, {"_id": 11, "a": 7}, ordered=False), find()],
    "unique_of_arrays": [capped(max=2), {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": True}]},
                         insert("c", {"_id": 1, "a": [1, 2]}, {"_id": 2, "a": [3, 4]}, {"_id": 3, "a": [1, 5]}, {"_id": 4, "a": 4}), find(),
                         insert("c", {"_id": 5, "a": [5, 9]}), insert("c", {"_id": 6, "a": [3, 4]}), find()],
    "deletes": [*THREE, {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, find(), insert("c", 2, 3), find(),
                {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}, find(), {"findAndModify": "c", "query": {}, "sort": {"$natural": -1}, "remove": True},
                {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}, find(), insert("c", 1), find()],
    "updates": [*THREE, {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": "x" * 100}}}]}, find(),
                {"update": "c", "updates": [{"q": {"_id": 77}, "u": {"z": 1}, "upsert": True}]}, find(),
                {"update": "c", "updates": [{"q": {}, "u": {"$set": {"n": 1}}, "multi": True}]}, find(),
                {"update": "c", "updates": [{"q": {}, "u": {"$set": {"n": 2}}, "hint": {"$natural": -1}}]}, find(),
                {"findAndModify": "c", "query": {"_id": 301}, "update": {"$inc": {"a": 1}}, "new": True, "upsert": True}, find()],
    "grown_by_updates": [capped(), insert("c", 1, 2, 3), {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"b": "x" * 9000}}}]},
                         find(projection={"_id": 1}), insert("c", 1), find(projection={"_id": 1}), insert("c", 4), find(projection={"_id": 1})],
    "merge": [capped(max=3), insert("p", 1, 2, 3, 4, 5), {"aggregate": "p", "pipeline": [{"$merge": "c"}], "cursor": {}}, find(),
              {"aggregate": "p", "pipeline": [{"$match": {"_id": {"$lt": 4}}}, {"$merge": {"into": "c", "whenMatched": "replace"}}], "cursor": {}}, find()],
    "out": [*THREE, insert("p", 1), {"aggregate": "p", "pipeline": [{"$out": "c"}], "cursor": {}}, find(), {"aggregate": "c", "pipeline": [{"$out": "p"}], "cursor": {}},
            options("p"), find("p", sort={"_id": 1})],
    "indexes": [*THREE, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}, {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_"}]},
                {"listIndexes": "c"}, {"dropIndexes": "c", "index": "_id_"}, {"dropIndexes": "c", "index": {"_id": 1}}, {"dropIndexes": "c", "index": "*"}, {"listIndexes": "c"},
                {"createIndexes": "c", "indexes": [{"key": {"t": 1}, "name": "t", "expireAfterSeconds": 5}]},
                {"createIndexes": "c", "indexes": [{"key": {"t": 1}, "name": "t"}]}, {"collMod": "c", "index": {"name": "t", "expireAfterSeconds": 5}},
                *({"collMod": "c", "index": {"keyPattern": {"_id": 1}, **change}} for change in (dict(hidden=True), dict(unique=True), dict(prepareUnique=True), dict(expireAfterSeconds=5), dict(expireAfterSeconds=-5), {})),
                insert("p", 1), *({"collMod": "p", "index": {"name": "_id_", **change}} for change in (dict(hidden=True), dict(unique=True), dict(prepareUnique=True), dict(expireAfterSeconds=5), dict(expireAfterSeconds=-5), {})), {"collMod": "c", "index": {"name": "t", "hidden": True}}],
    "index_statistics": [*THREE, find(filter={"_id": 1}), find(sort={"_id": 1}), find(), {"aggregate": "c", "pipeline": [{"$indexStats": {}}, {"$project": {"name": 1, "key": 1, "ops": "$accesses.ops"}}], "cursor": {}}],
    "coll_mod": [*THREE, *(step for change in (dict(cappedSize=8192), dict(cappedSize=100), dict(cappedSize=0), dict(cappedSize=-5), dict(cappedSize="x"), dict(cappedSize=8193.5),
                 dict(cappedSize=Int64(2**50)), dict(cappedSize=Int64(2**51)), dict(cappedMax=2), dict(cappedMax=0), dict(cappedMax=-1), dict(cappedMax="x"), dict(cappedMax=Int64(2**31)),
                 dict(cappedMax=1.5), dict(cappedSize=4096, cappedMax=5), dict(validator={"a": 1}), dict(cappedSize=None)) for step in ({"collMod": "c", **change}, options()))],
    # Not of a view: mongod 6.0.5 ends then.
    "coll_mod_of_others": [insert("p", 1), {"collMod": "p", "cappedSize": 5000}, {"collMod": "p", "cappedMax": 5000}, {"collMod": "nope", "cappedMax": 5}],
    "smaller_at_the_next_insert": [capped(size=100_000), insert("c", *(large(i, 100) for i in range(20))), {"collMod": "c", "cappedMax": 5}, {"count": "c"}, insert("c", 99),
                                   find(projection={"_id": 1}), {"collMod": "c", "cappedSize": 256}, {"count": "c"}, insert("c", 100), find(projection={"_id": 1})],
    "rename": [*THREE, ({"renameCollection": "capped.c", "to": "capped.d"}, "admin"), options("d"), insert("d", 2), find("d")],
    "collation": [capped(collation={"locale": "en", "strength": 2}), insert("c", "b", "A", "c"), insert("c", "a"), insert("c", "B", "d", ordered=False), find(), find(sort={"_id": 1}),
                  find(filter={"_id": "a"}), find(filter={"_id": "a"}, collation={"locale": "simple"}), {"distinct": "c", "key": "_id"}, {"listIndexes": "c"}],
    "ids": [capped(), insert("c", 5, 1.5, "x", {"_id": {"a": 1}}, {"_id": None}, {"_id": Int64(9)}, {"_id": True}), insert("c", 5.0, "x", {"_id": {"a": 1}}, {"_id": None}, ordered=False),
            find(), find(sort={"_id": 1}), find(filter={"_id": {"$gt": 1}}), find(filter={"_id": {"$in": ["x", 5, None]}}), find(projection={"_id": 1}, sort={"_id": -1}),
            find(filter={"_id": {"$gt": 1}}, projection={"_id": 1}), {"distinct": "c", "key": "_id"}, {"count": "c", "query": {"_id": {"$lt": 9}}},
            {"aggregate": "c", "pipeline": [{"$group": {"_id": "$_id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$gt": 1}}}, {"$count": "n"}], "cursor": {}}, find(filter={"_id": 5}), find(filter={"_id": Int64(5)})],
    "statements": [capped(), insert("c", *({"_id": i, "a": i % 3, "b": i} for i in (6, 4, 8, 1, 3, 2))), find(limit=2), find(skip=2, limit=2), find(sort={"$natural": -1}, limit=2),
                   find(hint={"$natural": -1}), find(hint={"$natural": 1}, filter={"_id": {"$gt": 2}}), find(filter={"b": {"$gt": 2}}, sort={"$natural": -1}), find(sort={"a": 1}),
                   find(hint="_id_"), find(hint={"_id": 1}), find(hint={"_id": 1}, filter={"b": {"$gt": 2}}), {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
                   find(filter={"a": {"$gte": 1}}), find(sort={"a": 1}), find(sort={"a": -1}), find(filter={"a": 1}),
                   find(filter={"a": 1}, projection={"_id": 1, "a": 1}), find(filter={"a": 1}, projection={"_id": 0, "a": 1}), {"distinct": "c", "key": "a"}, {"count": "c", "hint": {"$natural": -1}},
                   {"aggregate": "c", "pipeline": [{"$match": {"a": {"$gt": 0}}}, {"$limit": 2}], "cursor": {}},
                   {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a", "first": {"$first": "$b"}, "all": {"$push": "$b"}}}, {"$sort": {"_id": 1}}], "cursor": {}},
                   {"aggregate": "c", "pipeline": [{"$lookup": {"from": "c", "localField": "a", "foreignField": "_id", "as": "j"}}], "cursor": {}},
                   {"aggregate": "c", "pipeline": [{"$lookup": {"from": "c", "localField": "_id", "foreignField": "a", "as": "j"}}], "cursor": {}},
                   {"create": "v", "viewOn": "c", "pipeline": []}, find("v"), find("v", sort={"$natural": -1}), find("v", filter={"_id": 4})],
    "validate": [*THREE, {"validate": "c"}, {"dbHash": 1, "collections": ["c"]}],
    "convert": [{"create": "c"}, insert("c", *(large(i, 100) for i in range(1, 6))), {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x"}]},
                *({"convertToCapped": "c", **given} for given in ({}, dict(size="x"), dict(size=0), dict(size=-1), dict(size=None), dict(size=Int64(2**51)), dict(size=float("nan")))),
                {"convertToCapped": "c", "size": 10000.5}, options(), find(), {"listIndexes": "c"}, {"convertToCapped": "c", "size": 300}, options(), find(projection={"_id": 1}),
                insert("c", 5, 9), insert("c", 9), find(projection={"_id": 1})],
    "convert_capped": [capped(size=100_000), insert("c", *(large(i, 100) for i in (5, 3, 9, 1, 7))), {"convertToCapped": "c", "size": 300}, options(), find(projection={"_id": 1})],
    "convert_others": [{"convertToCapped": "nope", "size": 300}, {"convertToCapped": "", "size": 300}, {"convertToCapped": 5, "size": 300}, {"convertToCapped": "system.users", "size": 300},
                       {"create": "c"}, {"create": "v", "viewOn": "c", "pipeline": []}, {"convertToCapped": "v", "size": 300}, {"create": "ts", "timeseries": {"timeField": "t"}},
                       {"convertToCapped": "ts", "size": 300}, {"create": "o", "validator": {"a": 1}, "collation": {"locale": "fr"}}, insert("o", {"_id": 1, "a": 1}),
                       {"convertToCapped": "o", "size": 300, "writeConcern": {"w": 1}}, options("o"), {"create": "e"}, {"convertToCapped": "e", "size": 300, "comment": 1}, options("e"), find("e")],
    "clone": [capped("q", 100_000), insert("q", *(large(i, 100) for i in (5, 3, 9, 1, 7))), *({"cloneCollectionAsCapped": "q", **given} for given in ({}, dict(toCollection="q2"),
              dict(toCollection="q2", size="x"), dict(toCollection="q2", size=0), dict(toCollection=5, size=100), dict(toCollection="", size=100), dict(toCollection="q2", size=300),
              dict(toCollection="q2", size=300), dict(toCollection="q", size=300), dict(toCollection="a$b", size=300), dict(toCollection="system.x", size=300), dict(toCollection="q3", size=99999))),
              options("q2"), find("q2", projection={"_id": 1}), options("q3"), find("q3"), find("q", projection={"_id": 1}), {"cloneCollectionAsCapped": "nope", "toCollection": "n", "size": 300},
              {"cloneCollectionAsCapped": 3, "toCollection": "n", "size": 300}, {"create": "v", "viewOn": "q", "pipeline": []}, {"cloneCollectionAsCapped": "v", "toCollection": "n", "size": 300},
              {"cloneCollectionAsCapped": "q", "toCollection": "v", "size": 300}, {"create": "ts", "timeseries": {"timeField": "t"}},
              {"cloneCollectionAsCapped": "ts", "toCollection": "n", "size": 300}, {"cloneCollectionAsCapped": "q", "toCollection": "ts", "size": 300}],
}

TAILS = {
    "kinds": [*THREE, *(tail(**given) for given in (dict(awaitData=True), dict(sort={"a": 1}), dict(sort={"$natural": 1}), dict(sort={"$natural": -1}), dict(sort={}), dict(hint={"_id": 1}),
              dict(hint={"$natural": 1}), dict(hint={"$natural": -1}), dict(singleBatch=True), dict(skip=1), dict(limit=1), dict(filter={"_id": 1}), dict(filter={"_id": {"$gt": 1}}),
              dict(batchSize=0), dict(batchSize=2), dict(projection={"_id": 0}), dict(filter={"a": 77}), dict(noCursorTimeout=True), dict(maxTimeMS=1000), dict(collation={"locale": "fr"}),
              dict(filter={"$or": [{"_id": 1}, {"_id": 5}]}), dict(filter={"a": {"$near": [1, 1]}}), dict(filter={"$alwaysFalse": 1}), dict(filter={"$expr": False}), dict(oplogReplay=True))),
              find(awaitData=True), find(filter={"a": {"$near": [1, 1]}}, awaitData=True)],
    "flags": [*THREE, *(find(**{name: value}) for name in ("tailable", "awaitData", "singleBatch", "noCursorTimeout", "allowDiskUse", "allowPartialResults") for value in (1, 0, None, "x"))],
    "of_others": [capped("empty"), tail("empty"), tail("empty", batchSize=0), tail("empty", batchSize=0, awaitData=True), tail("nope"), tail("nope", awaitData=True), insert("p", 1), tail("p"),
                  tail("p", awaitData=True), tail("p", sort={"a": 1}), {"create": "v", "viewOn": "p", "pipeline": []}, tail("v"), tail("v", awaitData=True), find("v", awaitData=True)],
    "goes_on": [*THREE[:1], insert("c", 3, 1), tail(), more(), insert("c", 50), more(), more(), more(batchSize=1), more(maxTimeMS=100), insert("c", 51), more()],
    "batches": [capped(), insert("c", *range(9)), tail(batchSize=2), more(batchSize=3), more(batchSize=4), more(batchSize=1), insert("c", *range(20, 29)), more(batchSize=5), more(), more()],
    "filter": [capped(), insert("c", *({"_id": i, "a": i % 2} for i in range(6))), tail(filter={"a": 1}), more(), insert("c", {"_id": 10, "a": 0}), more(), insert("c", {"_id": 11, "a": 1}), more()],
    "projection": [capped(), insert("c", {"_id": 1, "a": 5, "b": 6}), tail(projection={"b": 1, "_id": 0}), insert("c", {"_id": 2, "b": 7}), more()],
    "limit": [capped(), insert("c", 1, 2, 3), tail(limit=5), more(), insert("c", 4), more(), insert("c", 5, 6), more(), more(), insert("c", 7), more()],
    "skip": [capped(), insert("c", 1, 2, 3), tail(skip=4), more(), insert("c", 4, 5, 6), more(), more()],
    "backwards": [capped(), insert("c", 1, 2, 3), tail(hint={"$natural": -1}), insert("c", 4), more(), more()],
    "large": [capped(size=100_000_000), insert("c", large(1, 9_000_000), large(2, 9_000_000)), tail(), more(), insert("c", large(3, 9_000_000), 4), more(), more(), more()],
    "lost_at_the_end": [*THREE, tail(), insert("c", 10, 11, 12), more(), more()],
    "lost_between": [*THREE, tail(batchSize=2), insert("c", 10, 11, 12), more(), more()],
    "lost_after_none_matched": [*THREE, tail(filter={"x": 1}), insert("c", 10, 11, 12), more(), more()],
    "lost_by_deletes": [*THREE, tail(), {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}, more(), insert("c", 1), more()],
    "not_lost": [*THREE, tail(), insert("c", 10, 11), more(), insert("c", 12, 13), more()],
    "deletes_beside": [*THREE, tail(batchSize=2), {"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 0}]}, more(), {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 0}]}, insert("c", 7), more()],
    "updates_beside": [*THREE, tail(batchSize=2), {"update": "c", "updates": [{"q": {}, "u": {"$set": {"n": 1}}, "multi": True}]}, more(), insert("c", 7), more()],
    "waits": [*THREE, tail(awaitData=True), more(maxTimeMS=50), more(maxTimeMS=0), insert("c", 7), more(maxTimeMS=10_000), more(maxTimeMS=-1), more(maxTimeMS=1.5), more(maxTimeMS=50)],
    "dropped": [*THREE, tail(), {"drop": "c"}, more(), more()],
    "dropped_and_made_again": [*THREE, tail(), {"drop": "c"}, *THREE, more(), more()],
    "renamed": [*THREE, tail(), ({"renameCollection": "capped.c", "to": "capped.d"}, "admin"), more(), more("d")],
    "converted": [*THREE, tail(), {"convertToCapped": "c", "size": 9999}, more(), more()],
    "replaced": [*THREE, insert("d", 1), tail(), ({"renameCollection": "capped.d", "to": "capped.c", "dropTarget": True}, "admin"), more(), more()],
    "database_dropped": [*THREE, tail(), {"dropDatabase": 1}, more(), more()],
    "redefined": [*THREE, tail(), {"collMod": "c", "cappedMax": 10}, more(), {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}, more(), {"dropIndexes": "c", "index": "a"}, more(),
                  insert("c", 7), more()],
    "killed": [*THREE, tail(), {"killCursors": "c", "cursors": [CURSOR]}, more()],
    "plain_dropped": [insert("p", *range(9)), find("p", batchSize=2), {"drop": "p"}, more("p"), more("p"), insert("p", *range(9)),
                      {"aggregate": "p", "pipeline": [{"$match": {"_id": {"$gt": 0}}}], "cursor": {"batchSize": 2}}, {"drop": "p"}, more("p"), more("p")],
    "plain_renamed": [insert("p", *range(9)), find("p", batchSize=2), ({"renameCollection": "capped.p", "to": "capped.q"}, "admin"), more("p"), more("p")],
    "plain_replaced": [insert("p", *range(9)), insert("q", 1), find("p", batchSize=2), {"aggregate": "q", "pipeline": [{"$out": "p"}], "cursor": {}}, more("p"), more("p")],
}


@pytest.mark.parametrize("name", CASES)
def test_case(servers, name):
    same(servers, CASES[name])


@pytest.mark.parametrize("name", TAILS)
def test_tail(servers, name):
    same(servers, TAILS[name])


EXPLAINED = {
    "all": {},
    "backwards": dict(sort={"$natural": -1}),
    "tailable": dict(tailable=True),
    "tailable_id": dict(tailable=True, filter={"_id": 1}),
    "awaiting": dict(tailable=True, awaitData=True),
    "id": dict(filter={"_id": 1}),
    "filter": dict(filter={"b": 1}),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explain(servers, name):
    def plan(server):
        server.run(DATABASE, capped())
        server.run(DATABASE, insert("c", *range(5)))
        explained = server.client[DATABASE].command({"explain": find(**EXPLAINED[name]), "verbosity": "queryPlanner"})
        return explained["queryPlanner"]["winningPlan"]

    actual, expected = map(plan, servers)
    assert actual == expected


def test_statistics(servers):
    def figures(server):
        server.run(DATABASE, capped(size=10_000, max=7))
        server.run(DATABASE, insert("c", *range(5)))
        stats = server.client[DATABASE].command("collStats", "c", scale=1024)
        own = server.client[DATABASE].command("aggregate", "c", pipeline=[{"$collStats": {"storageStats": {}}}], cursor={})
        own = own["cursor"]["firstBatch"][0]["storageStats"]
        names = ("ns", "size", "count", "avgObjSize", "capped", "max", "maxSize", "nindexes", "scaleFactor")
        return {name: stats.get(name) for name in names}, {name: own.get(name) for name in names if name not in ("ns", "scaleFactor")}, list(stats["indexSizes"])

    actual, expected = map(figures, servers)
    assert actual == expected


@pytest.mark.parametrize("round", range(6))
def test_random_writes(servers, round):
    """Whatever is written, both hold the same documents in the same order, and answer bounds by indexes alike."""
    print(f"MERIDIAN_RANDOM_SEED={SEED}")
    chance = random.Random(SEED * 1000 + round)
    size, most = chance.choice([300, 1000, 5000, 100_000]), chance.choice([None, 1, 3, 20, 200])
    made = capped(size=size, **({"max": most} if most else {}))
    commands = [made, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"u": 1}, "name": "u", "unique": True, "sparse": True}]}]

    def document():
        own = {"_id": chance.randrange(60), "a": chance.randrange(5), "x": "x" * chance.choice([0, 5, 60, 400])}
        if chance.random() < 0.3:
            own["u"] = chance.randrange(12)
        if chance.random() < 0.05:
            own["x"] = "x" * 3000
        return own

    for _ in range(60):
        kind = chance.randrange(10)
        if kind < 6:
            commands.append(insert("c", *(document() for _ in range(chance.choice([1, 2, 7, 40]))), ordered=chance.random() < 0.5))
        elif kind == 6:
            commands.append({"delete": "c", "deletes": [{"q": {"a": chance.randrange(5)}, "limit": chance.randrange(2)}]})
        elif kind == 7:
            commands.append({"update": "c", "updates": [{"q": {"a": chance.randrange(5)}, "u": {"$set": {"x": "y" * chance.choice([1, 200]), "a": chance.randrange(5)}}, "multi": True}]})
        elif kind == 8:
            commands.append({"update": "c", "updates": [{"q": {"_id": chance.randrange(60)}, "u": {"$set": {"a": 9}}, "upsert": True}]})
        else:
            commands.append({"collMod": "c", "cappedMax": chance.choice([1, 2, 5, 50, 0])})
        commands += [find(batchSize=1000), {"count": "c", "query": {"a": {"$gte": 2}}}, find(filter={"a": {"$lt": 3}}, batchSize=1000), find(filter={"_id": {"$gt": 30}}, batchSize=1000)]
    commands.append({"validate": "c"})
    same(servers, commands)


def test_tailing_driver(_subject):
    """A driver's tailing cursor meets every document once, in the order of the inserts of several writers."""
    database = _subject.client[DATABASE]
    database.drop_collection("log")
    database.create_collection("log", capped=True, size=64 * 1024 * 1024)
    database.log.insert_one({"_id": "first"})
    writers, each = 4, 300

    def write(writer):
        with pymongo.MongoClient("127.0.0.1", _subject.port) as client:
            for number in range(each):
                client[DATABASE].log.insert_one({"_id": f"{writer}.{number}", "writer": writer, "number": number})

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    seen, until = [], time.monotonic() + 60
    cursor = database.log.find({}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(200)
    for thread in threads:
        thread.start()
    while len(seen) < writers * each + 1 and time.monotonic() < until:
        seen.extend(cursor)
        assert cursor.alive
    for thread in threads:
        thread.join()
    cursor.close()
    assert [document["_id"] for document in seen] == [document["_id"] for document in database.log.find()]
    for writer in range(writers):
        assert [document["number"] for document in seen if document.get("writer") == writer] == list(range(each))


def test_waiting_ends_at_once(_subject):
    """Whoever awaits data is woken by a document, by killCursors and by a drop, long before the time is over."""
    database = _subject.client[DATABASE]

    def waiting(act):
        database.drop_collection("log")
        database.create_collection("log", capped=True, size=4096)
        database.log.insert_one({"_id": 1})
        with pymongo.MongoClient("127.0.0.1", _subject.port) as client:
            opened = client[DATABASE].command("find", "log", tailable=True, awaitData=True)["cursor"]["id"]
            timer = threading.Timer(0.5, act, [opened])
            timer.start()
            begun = time.monotonic()
            try:
                reply = client[DATABASE].command("getMore", Int64(opened), collection="log", maxTimeMS=30_000)
                outcome = reply["cursor"]["nextBatch"]
            except OperationFailure as error:
                outcome = error.code
            timer.join()
            return outcome, time.monotonic() - begun

    outcome, seconds = waiting(lambda _: database.log.insert_one({"_id": 2}))
    assert outcome == [{"_id": 2}] and 0.4 < seconds < 10
    outcome, seconds = waiting(lambda cursor: database.command("killCursors", "log", cursors=[Int64(cursor)]))
    assert outcome == 237 and 0.4 < seconds < 10
    outcome, seconds = waiting(lambda _: database.drop_collection("log"))
    assert outcome == 175 and 0.4 < seconds < 10
    outcome, seconds = waiting(lambda _: database["log"].rename("other", dropTarget=True))
    assert outcome == 175 and 0.4 < seconds < 10


REPLACED = {
    "converted": lambda database: database.command("convertToCapped", "c", size=1 << 20),
    "renamed": lambda database: database["other"].rename("c", dropTarget=True),
    "made_again": lambda database: (database.drop_collection("c"), database["other"].rename("c", dropTarget=True)),
    "out": lambda database: database["other"].aggregate([{"$out": "c"}]),
}


@pytest.mark.parametrize("kind", ["capped", "plain"])
@pytest.mark.parametrize("replaced", REPLACED)
def test_changes_end_with_their_collection(_subject, kind, replaced):
    """What was found in a collection is not changed in another one that has taken its name, nor twice in what was made of it."""
    if (kind, replaced) == ("capped", "out"):
        pytest.skip("refused")
    database, documents, wait = _subject.client[DATABASE], 20_000, 0.02
    kinds = {"capped": True, "size": 100 << 20} if kind == "capped" else {}
    for statement in ("update", "delete"):
        for attempt in range(5):
            for name in ("c", "other"):
                database.drop_collection(name)
                database.create_collection(name, **kinds)
                database[name].insert_many([{"_id": number, "n": 0, "k": 1, "from": name} for number in range(documents)])
            database["c"].create_index([("k", 1), ("_id", -1)])
            changes = {"update": lambda: database["c"].update_many({"k": 1}, {"$inc": {"n": 1}}, hint=[("k", 1), ("_id", -1)]),
                       "delete": lambda: database["c"].delete_many({"k": 1}, hint=[("k", 1), ("_id", -1)])}
            codes = []

            def change():
                try:
                    changes[statement]()
                except OperationFailure as error:
                    codes.append(error.code)

            changing = threading.Thread(target=change)
            changing.start()
            time.sleep(wait)
            REPLACED[replaced](database)
            changing.join()
            there = list(database["c"].find())
            if replaced != "converted":
                assert len(there) == documents and all(document["n"] == 0 for document in there)
            assert all(document["n"] <= 1 for document in there)
            assert codes in ([], [175]), codes
            if codes:
                break
            wait = wait / 2
