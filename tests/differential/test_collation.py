"""Collations: of collections, indexes, statements, views and joins; the order of the words of all locales; kills."""

import random
import re
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from bson import Decimal128, Int64
from harness import cases
from harness.servers import Meridian
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError

NOCASE = {"locale": "en", "strength": 2}
BASE = {"locale": "en", "strength": 1}
FRENCH = {"locale": "fr"}
NUMBERS = {"locale": "en", "numericOrdering": True}

WORDS = ["a", "A", "á", "Á", "b", "B", "ab", "aB", "a b", "a-b", "", "1", "2", "10", "ä", "ö", "ß", "ss", "côte", "coté", "cote"]
DOCUMENTS = [
    {"_id": 1, "a": "a", "n": 1, "t": ["x", "X"], "d": {"s": "k"}}, {"_id": 2, "a": "A", "n": 2, "t": ["y"], "d": {"s": "K"}},
    {"_id": 3, "a": "á", "n": 3, "t": "x", "d": {"s": "l"}}, {"_id": 4, "a": "b", "n": 4, "t": ["Z", ["q"]], "d": {"s": "L", "u": 1}},
    {"_id": 5, "a": "B", "n": 5, "t": [], "d": "k"}, {"_id": 6, "a": 5, "n": 6}, {"_id": 7, "a": None, "n": 7}, {"_id": 8, "n": 8},
    {"_id": 9, "a": ["a", "C"], "n": 9, "t": {"s": "x"}}, {"_id": "x", "a": "10", "n": 10}, {"_id": "Y", "a": "9", "n": 11}, {"_id": "z", "a": {"b": "A"}, "n": 12},
]


def aggregate(name, *pipeline, **options):
    return {"aggregate": name, "pipeline": list(pipeline), "cursor": {}, **options}


# fmt: off
BY_ID = {"$sort": {"n": 1}}
FILTERS = [
    {"a": "A"}, {"a": {"$gt": "a"}}, {"a": {"$gte": "á"}}, {"a": {"$lt": "B"}}, {"a": {"$lte": "a"}}, {"a": {"$ne": "A"}}, {"a": {"$in": ["B", "a", "á"]}}, {"a": {"$nin": ["B", 5]}}, {"a": {"$in": ["a", re.compile("^B")]}},
    {"a": re.compile("^a")}, {"a": re.compile("A", re.IGNORECASE)}, {"a": {"$exists": True}}, {"a": {"$type": "string"}}, {"a": None}, {"a": 5}, {"a": {"$gt": 4}}, {"a": {"b": "a"}}, {"a": ["A", "c"]}, {"a": {"$gt": ["A"]}}, {"a": {"$not": {"$gt": "a"}}},
    {"t": "X"}, {"t": {"$all": ["x", "X"]}}, {"t": {"$elemMatch": {"$gt": "x", "$lt": "z"}}}, {"t": {"$elemMatch": {"$eq": "Y"}}}, {"d.s": "k"}, {"d": {"s": "K"}}, {"d": {"$lt": {"s": "L"}}}, {"_id": "X"}, {"_id": {"$gt": "x"}}, {"_id": {"$in": ["y", 3]}}, {"_id": 3},
    {"$or": [{"a": "A"}, {"a": "b"}]}, {"$or": [{"a": "A"}, {"n": 4}]}, {"$nor": [{"a": "A"}]}, {"$expr": {"$eq": ["$a", "A"]}}, {"$expr": {"$lt": ["$a", "b"]}}, {"$expr": {"$in": ["$a", ["A", "B"]]}}, {"a": {"$mod": [5, 0]}}, {"a": {"$size": 2}}, {"h": "H"}, {"h": {"$in": ["h", 1]}}, {"h": {"$gt": "H"}},
    {"$jsonSchema": {"properties": {"a": {"enum": ["A"]}}, "required": ["a"]}}, {"a": {"$gt": "a", "$lt": "c"}}, {"a": "A", "n": {"$gt": 1}},
]
EXPRESSIONS = [
    {"$eq": ["$a", "A"]}, {"$cmp": ["$a", "á"]}, {"$ne": ["$a", "A"]}, {"$gt": ["$d", {"s": "K"}]}, {"$in": ["A", ["$a", "q"]]}, {"$indexOfArray": [["x", "$a"], "A"]}, {"$setUnion": [["a", "A", "b"], ["B"]]}, {"$setIntersection": [["a", "b"], ["B"]]},
    {"$setDifference": [["a", "b", "C"], ["B"]]}, {"$setEquals": [["a", "A"], ["a"]]}, {"$setIsSubset": [["A"], ["a", "b"]]}, {"$min": ["b", "A", "$a"]}, {"$max": ["b", "B", "$a"]}, {"$sortArray": {"input": ["b", "A", "a", "B"], "sortBy": 1}},
    {"$sortArray": {"input": [{"k": "b"}, {"k": "A"}, {"k": "a"}], "sortBy": {"k": -1}}}, {"$minN": {"n": 2, "input": ["b", "A", "a"]}}, {"$maxN": {"n": 1, "input": ["b", "B", "a"]}}, {"$strcasecmp": ["$a", "A"]}, {"$indexOfCP": ["xA", "a"]},
    {"$switch": {"branches": [{"case": {"$eq": ["$a", "A"]}, "then": 1}], "default": 2}}, {"$filter": {"input": ["a", "A", "b"], "cond": {"$eq": ["$$this", "A"]}}}, {"$eq": ["a", "A"]}, {"$let": {"vars": {"x": "A"}, "in": {"$eq": ["$$x", "$a"]}}}, {"$reduce": {"input": ["a", "B"], "initialValue": "A", "in": {"$max": ["$$this", "$$value"]}}},
]
STAGES = [
    [{"$group": {"_id": "$a", "n": {"$sum": 1}}}], [{"$group": {"_id": {"x": "$a", "y": "$d.s"}, "n": {"$sum": 1}}}], [{"$group": {"_id": {"$toUpper": "$d.s"}, "n": {"$sum": 1}}}], [{"$sortByCount": "$d.s"}],
    [{"$sort": {"n": 1}}, {"$group": {"_id": None, "lo": {"$min": "$a"}, "hi": {"$max": "$a"}, "set": {"$addToSet": "$a"}, "two": {"$minN": {"n": 2, "input": "$a"}}, "top": {"$top": {"sortBy": {"a": 1, "n": 1}, "output": "$n"}}, "bottom": {"$bottomN": {"n": 3, "sortBy": {"a": -1, "n": 1}, "output": "$a"}}}}],
    [{"$match": {"a": {"$type": "string"}}}, {"$bucket": {"groupBy": "$a", "boundaries": ["A", "b", "z"], "default": "0"}}], [{"$bucket": {"groupBy": "$a", "boundaries": ["a", "B", "b"], "default": "0"}}], [{"$bucket": {"groupBy": "$a", "boundaries": ["a", "B"], "default": "A"}}],
    [{"$match": {"a": {"$type": "string"}}}, {"$sort": {"n": 1}}, {"$bucketAuto": {"groupBy": "$a", "buckets": 3}}], [{"$sort": {"a": 1, "n": 1}}], [{"$sort": {"a": -1, "n": 1}}, {"$limit": 4}], [{"$sort": {"n": 1}}, {"$facet": {"x": [{"$match": {"a": "A"}}], "y": [{"$group": {"_id": "$d.s"}}, {"$sort": {"_id": 1}}]}}],
    [BY_ID, {"$lookup": {"from": "plain", "localField": "a", "foreignField": "a", "as": "o", "pipeline": [{"$sort": {"n": 1}}, {"$project": {"n": 1}}]}}], [BY_ID, {"$lookup": {"from": "nocase", "let": {"x": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$x"]}}}, {"$sort": {"n": 1}}, {"$project": {"n": 1}}], "as": "o"}}],
    [{"$match": {"n": {"$lt": 3}}}, BY_ID, {"$graphLookup": {"from": "plain", "startWith": "$a", "connectFromField": "d.s", "connectToField": "a", "as": "o"}}, {"$project": {"o": {"$sortArray": {"input": "$o.n", "sortBy": 1}}}}], [{"$unionWith": {"coll": "plain", "pipeline": [{"$match": {"a": "A"}}]}}, {"$group": {"_id": "$n", "c": {"$sum": 1}}}],
    [BY_ID, {"$redact": {"$cond": [{"$eq": ["$s", "k"]}, "$$PRUNE", "$$DESCEND"]}}], [BY_ID, {"$set": {"e": {"$cond": [{"$eq": ["$a", "A"]}, 1, 0]}}}], [BY_ID, {"$project": {"t": {"$elemMatch": {"$eq": "X"}}}}], [{"$group": {"_id": "$d"}}], [{"$group": {"_id": "$t"}}], [{"$unwind": "$t"}, {"$group": {"_id": "$t", "n": {"$sum": 1}}}],
    [BY_ID, {"$lookup": {"from": "nocase_view", "localField": "a", "foreignField": "a", "as": "o", "pipeline": [{"$sort": {"n": 1}}]}}], [{"$unionWith": "nocase_view"}, BY_ID], [{"$match": {"a": "A"}}, {"$count": "n"}], [{"$match": {"$expr": {"$eq": ["$a", "$$x"]}}}, {"$count": "n"}],
]
UPDATES = [
    {"q": {"a": "A"}, "u": {"$set": {"f": 1}}, "multi": True}, {"q": {"n": 1}, "u": {"$addToSet": {"t": "Y"}}}, {"q": {"n": 1}, "u": {"$addToSet": {"t": {"$each": ["x", "w", "W"]}}}}, {"q": {"n": 1}, "u": {"$pull": {"t": "X"}}}, {"q": {"n": 1}, "u": {"$pull": {"t": {"$in": ["X"]}}}}, {"q": {"n": 1}, "u": {"$pullAll": {"t": ["X"]}}},
    {"q": {"n": 1}, "u": {"$min": {"a": "A"}}}, {"q": {"n": 1}, "u": {"$max": {"a": "á"}}}, {"q": {"n": 1}, "u": {"$push": {"t": {"$each": ["w", "W", "X"], "$sort": 1}}}}, {"q": {"n": 4}, "u": {"$set": {"t.$[e]": "new"}}, "arrayFilters": [{"e": "z"}]}, {"q": {"t": "X"}, "u": {"$set": {"t.$": "hit"}}},
    {"q": {"n": 1}, "u": [{"$set": {"e": {"$eq": ["$a", "A"]}}}]}, {"q": {"a": "NEW"}, "u": {"$set": {"n": 99}}, "upsert": True}, {"q": {"_id": "Q"}, "u": {"$set": {"n": 98}}, "upsert": True}, {"q": {"_id": "X"}, "u": {"$set": {"e": 1}}}, {"q": {"_id": "X"}, "u": {"_id": "X", "e": 1}}, {"q": {"a": "B"}, "u": {"$set": {"a": "q"}}, "hint": "a_1"},
]
SPECIFICATIONS = [
    {}, {"locale": 5}, {"strength": 2}, {"locale": None}, {"locale": ""}, {"locale": "xx"}, {"locale": "en-US"}, {"locale": "EN"}, {"locale": "sr_Latn_BA"}, {"locale": "en@foo=bar"}, {"locale": "en\0x"}, {"locale": "x" * 2000}, {"locale": "simple"}, {"locale": "simple", "strength": 1}, {"locale": "simple", "strength": 9}, {"locale": "simple", "foo": 1},
    *({"locale": "en", "strength": strength} for strength in (0, 6, 2.0, 2.5, "x", 1 << 40, -1, 4, 5, None)), *({"locale": "en", name: value} for name in ("caseLevel", "numericOrdering", "normalization", "backwards") for value in (True, False, 1, "x", None)),
    *({"locale": "en", name: value} for name in ("caseFirst", "alternate", "maxVariable") for value in ("x", "upper", "lower", "off", "shifted", "non-ignorable", "punct", "space", "symbol", True, None)),
    {"locale": "en", "caseFirst": "upper", "strength": 2}, {"locale": "en", "caseFirst": "upper", "strength": 1, "caseLevel": True}, {"locale": "fr", "backwards": True, "strength": 1}, {"locale": "fr_CA", "strength": 1}, {"locale": "fr_CA", "backwards": False}, {"locale": "en", "backwards": True, "strength": 2},
    {"locale": "en", "version": "57.1"}, {"locale": "en", "version": "58"}, {"locale": "en", "version": 5}, {"locale": "en", "foo": 1}, {"locale": "de@collation=phonebook"}, {"locale": "sv@collation=reformed"}, {"locale": "zh_TW"},
]
DEFINITIONS = [
    {"create": "c", "collation": NOCASE}, {"create": "p"}, {"create": "c"}, {"create": "k", "clusteredIndex": {"key": {"_id": 1}, "unique": True}, "collation": NOCASE}, {"create": "w", "validator": {"a": "x"}, "collation": NOCASE}, {"listIndexes": "k"},
    {"insert": "w", "documents": [{"_id": 1, "a": "X"}, {"_id": 2, "a": "y"}]}, {"create": "w2", "validator": {"a": {"$in": ["x", "y"]}, "b": {"$not": {"$gt": "m"}}, "$expr": {"$ne": ["$a", "$b"]}}, "collation": NOCASE},
    *({"insert": "w2", "documents": [{"_id": 1, **document}]} for document in ({"a": "X", "b": "Z"}, {"a": "q"}, {"a": "X", "b": "x"}, {"a": "Y", "b": "y"}, {"a": "Y", "b": "L"}, {"a": "X", "b": "x", "c": 1})), {"insert": "c", "documents": [{"_id": "a", "x": "a"}, {"_id": "b", "x": "B"}]}, {"insert": "c", "documents": [{"_id": "A", "x": "q"}]}, {"insert": "k", "documents": [{"_id": "a"}, {"_id": "A"}]}, {"insert": "p", "documents": [{"_id": "a", "x": "a"}, {"_id": "b", "x": "B"}]},
    *({"createIndexes": name, "indexes": [{"key": index["key"], "name": f"i{number}", **index}]} for name in ("c", "p") for number, index in enumerate([
        {"key": {"x": 1}, "unique": True}, {"key": {"x": 1}, "collation": {"locale": "simple"}}, {"key": {"x": 1}, "collation": FRENCH}, {"key": {"x": 1}, "collation": BASE, "name": "i0"}, {"key": {"x": 1}, "collation": FRENCH, "name": "other"}, {"key": {"x": 1}, "collation": NOCASE},
        {"key": {"_id": 1}, "name": "_id_", "collation": FRENCH}, {"key": {"_id": 1}, "name": "_id_", "collation": NOCASE}, {"key": {"_id": 1}, "name": "_id_"}, {"key": {"z": "2d"}}, {"key": {"z": "2d"}, "collation": {"locale": "simple"}}, {"key": {"y": "2dsphere"}}, {"key": {"h": "hashed"}}, {"key": {"h": "hashed", "w": 1}, "collation": FRENCH},
        {"key": {"z": 1}, "collation": {"locale": "xx"}}, {"key": {"z": 1}, "collation": {"locale": "en", "strength": 7}}, {"key": {"z": 1}, "collation": {"foo": 1}}, {"key": {"z": 1}, "collation": {}}, {"key": {"z": 1}, "collation": 5}, {"key": {"z": 1}, "v": 1, "collation": NOCASE},
        {"key": {"f": 1}, "partialFilterExpression": {"x": {"$gt": "A"}}}, {"key": {"s": 1}, "sparse": True, "expireAfterSeconds": 1000}, {"key": {"x": -1, "y": 1}, "unique": True}])),
    *({"create": f"id{number}", "idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 2, **index}, **options} for number, (index, options) in enumerate([
        ({}, {"collation": NOCASE}), ({"collation": NOCASE}, {"collation": NOCASE}), ({"collation": NOCASE}, {}), ({"collation": FRENCH}, {"collation": NOCASE}), ({"collation": {"locale": "xx"}}, {}), ({"collation": {"locale": "simple"}}, {}), ({"collation": {"locale": "simple"}}, {"collation": NOCASE})])),
    {"listIndexes": "id0"}, {"listIndexes": "id1"}, {"collMod": "c", "index": {"keyPattern": {"x": 1}, "hidden": True}},
    {"listIndexes": "c"}, {"listIndexes": "p"}, {"insert": "c", "documents": [{"_id": 5, "x": "A"}]}, {"insert": "c", "documents": [{"_id": 6, "x": ["A", 1]}]}, {"find": "c", "hint": {"x": 1}}, {"find": "c", "hint": "i2", "sort": {"_id": 1}}, {"dropIndexes": "c", "index": {"x": 1}},
    {"create": "v", "viewOn": "c", "pipeline": []}, {"create": "vc", "viewOn": "c", "pipeline": [], "collation": NOCASE}, {"create": "vp", "viewOn": "p", "pipeline": [], "collation": NOCASE}, {"create": "vv", "viewOn": "vc", "pipeline": []}, {"create": "vv2", "viewOn": "vc", "pipeline": [], "collation": NOCASE}, {"create": "vf", "viewOn": "vc", "collation": FRENCH},
    {"create": "vb", "viewOn": "vc", "collation": {"locale": "xx"}}, {"create": "vs", "viewOn": "c", "collation": {"locale": "simple"}}, {"create": "v5", "viewOn": "c", "collation": 5}, {"create": "vj", "viewOn": "p", "pipeline": [{"$lookup": {"from": "vc", "localField": "x", "foreignField": "x", "as": "o"}}]},
    {"listCollections": 1, "filter": {"name": {"$in": ["c", "k", "w", "v", "vc", "vs"]}}}, {"find": "system.views", "sort": {"_id": 1}}, *({command: "vc", **options, "collation": collation} for command, options in (("find", {}), ("count", {}), ("distinct", {"key": "x"}), ("aggregate", {"pipeline": [], "cursor": {}})) for collation in (NOCASE, FRENCH, {"locale": "simple"}, {})),
    {"find": "v", "collation": NOCASE}, {"find": "v", "collation": {"locale": "simple"}, "sort": {"x": 1}}, {"distinct": "vp", "key": "x"}, {"count": "vp", "query": {"x": "A"}}, {"find": "vp", "filter": {"x": "b"}}, {"explain": {"find": "vc", "collation": FRENCH}}, aggregate("p", {"$facet": {"a": [{"$unionWith": "vc"}]}}),
    {"collMod": "vc", "viewOn": "p", "pipeline": []}, {"collMod": "vv2", "viewOn": "v", "pipeline": []}, {"collMod": "vc", "viewOn": "v", "pipeline": []}, {"collMod": "c", "collation": NOCASE}, {"collMod": "vc", "collation": NOCASE},
    aggregate("c", {"$merge": {"into": "p", "on": "_id"}}), aggregate("c", {"$merge": {"into": "p", "on": "_id"}}, collation={"locale": "simple"}), aggregate("p", {"$merge": {"into": "c", "on": "x"}}, collation=NOCASE), aggregate("p", {"$merge": {"into": "c", "on": "x"}}), aggregate("c", {"$merge": {"into": "c2"}}), aggregate("c", {"$out": "c3"}), {"listIndexes": "c2"}, {"listIndexes": "c3"},
    {"update": "c", "updates": [{"q": {}, "u": {"a": 1}, "collation": {"locale": "xx"}}, {"q": {"x": "zzz"}, "u": {"$set": {"a": 1}}}], "ordered": False}, {"delete": "c", "deletes": [{"q": {}, "limit": 1, "collation": {"locale": 5}}]}, {"update": "c", "updates": [{"q": {}, "u": {"a": 1}, "collation": 5}]}, {"findAndModify": "c", "remove": True, "collation": {"locale": "xx"}},
    {"delete": "c", "deletes": [{"q": {"_id": "A"}, "limit": 1}]}, {"delete": "c", "deletes": [{"q": {"_id": "B"}, "limit": 0, "collation": {"locale": "simple"}}]}, {"find": "c", "sort": {"_id": 1}}, ("admin", {"renameCollection": "collation2.c", "to": "collation2.r"}), {"listIndexes": "r"},
]
# fmt: on
COLLATIONS = [None, {"locale": "simple"}, NOCASE, BASE, FRENCH, NUMBERS, {"locale": "en", "strength": 2, "caseLevel": True}, {"locale": "en", "caseFirst": "upper"}, {"locale": "en", "alternate": "shifted"}, {"locale": "fr_CA"}]


def name_of(command):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(command))[:100]


def fill(servers, database):
    for server in servers:
        server.client.drop_database(database)
        into = server.client[database]
        into.create_collection("plain")
        into.create_collection("nocase", collation=NOCASE)
        into.create_collection("indexed", collation=NOCASE)
        for name in ("plain", "nocase", "indexed"):
            into[name].insert_many([{**one, "h": "Hh"[one["n"] % 2]} for one in DOCUMENTS])
        into["indexed"].create_index("a")
        into["indexed"].create_index([("d.s", 1), ("a", -1)])
        into["indexed"].create_index([("t", 1)], collation=BASE)
        into["indexed"].create_index([("h", "hashed")])
        into["indexed"].create_index([("n", 1)], collation={"locale": "simple"})
        into.command("create", "nocase_view", viewOn="plain", pipeline=[], collation=NOCASE)


@pytest.fixture(scope="module")
def filled(_subject, _oracle):
    fill((_subject, _oracle), "collation")
    return _subject, _oracle


def compare(servers, command, database, **options):
    if {"count", "distinct", "listCollections"} & set(command if isinstance(command, dict) else ()):
        # mongod answers counts and distinct values of views with an integer of 1.
        options = {**options, "ignore": (*options.get("ignore", ()), "ok"), "sets": ("cursor.firstBatch", "values")}
    case = cases.Case(name="collation", commands=[], database=database, ordered=True, **options)
    cases.compare_command(*servers, case, command)


def compare_all(servers, commands, database, **options):
    failures = []
    for command in commands:
        try:
            compare(servers, command, database, **options)
        except cases.Mismatch as mismatch:
            failures.append(f"{str(command)[:400]}: {mismatch}")
    assert not failures, f"{len(failures)} of {len(commands)}:\n" + "\n".join(failures[:20])


def with_collation(command, collation):
    return command if collation is None else {**command, "collation": collation}


@pytest.mark.parametrize("collation", COLLATIONS, ids=name_of)
@pytest.mark.parametrize("collection", ["plain", "nocase", "indexed"])
def test_reads(filled, collection, collation):
    commands = []
    for condition in FILTERS:
        commands.append({"find": collection, "filter": condition, "sort": {"n": 1}})
        commands.append({"count": collection, "query": condition})
    for field in ("a", "t", "d.s", "_id", "n"):
        commands.append({"find": collection, "sort": {field: 1, "n": 1}, "projection": {field: 1}})
        commands.append({"find": collection, "sort": {field: -1, "n": 1}, "projection": {field: 1, "_id": 0}})
        commands.append({"find": collection, "filter": {field: {"$gt": "A"}}, "sort": {field: 1, "n": 1}})
    for condition in ({}, {"a": {"$lt": "z"}}, {"d.s": "K"}):
        commands.append({"find": collection, "filter": condition, "projection": {"a": 1, "_id": 0}, "sort": {"n": 1}})
        commands.append({"find": collection, "filter": condition, "projection": {"d.s": 1, "a": 1}, "sort": {"n": 1}})
    commands.append({"find": collection, "sort": {"n": 1}, "projection": {"t": {"$elemMatch": {"$eq": "X"}}}})
    commands.append({"find": collection, "filter": {"t": "X"}, "sort": {"n": 1}, "projection": {"t.$": 1}})
    commands.extend(aggregate(collection, BY_ID, {"$project": {"e": expression}}) for expression in EXPRESSIONS)
    compare_all(filled, [with_collation(command, collation) for command in commands], "collation")


@pytest.mark.parametrize("collation", COLLATIONS, ids=name_of)
@pytest.mark.parametrize("collection", ["plain", "nocase", "indexed"])
def test_pipelines(filled, collection, collation):
    commands = [aggregate(collection, *stages, let={"x": "A"}) for stages in STAGES]
    failures = []
    for command in commands:
        replies = [groups(server, with_collation(command, collation)) for server in filled]
        if replies[0] != replies[1]:
            failures.append(f"{command['pipeline']}:\n  {replies[0]}\n  {replies[1]}")
    assert not failures, "\n".join(failures[:20])


def groups(server, command):
    try:
        batch = server.client["collation"].command(command)["cursor"]["firstBatch"]
    except OperationFailure as error:
        return error.code, error.details["errmsg"]
    stages = command["pipeline"]
    # Which text stands for a group depends on the order in which they are read.
    by_group = any("$group" in stage or "$sortByCount" in stage for stage in stages)
    lowered = [lower(document) for document in batch] if by_group else batch
    return sorted(map(str, lowered)) if by_group else lowered


def lower(value):
    if isinstance(value, str):
        return value.lower().replace("á", "a").replace(" ", "").replace("-", "")
    if isinstance(value, dict):
        return {name: lower(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted((lower(inner) for inner in value), key=str)
    return value


def test_writes_of_pipelines(_subject, _oracle):
    """The target says which documents are the same, not the pipeline."""
    matched = ["replace", "keepExisting", "merge", "fail", [{"$set": {"y": {"$eq": ["$_id", "A"]}}}]]
    for source, target in (("nocase", "plain"), ("plain", "nocase")):
        for when_matched in matched:
            for when_not_matched in ("insert", "discard", "fail"):
                for collation in (None, NOCASE, {"locale": "simple"}):
                    for server in (_subject, _oracle):
                        server.client.drop_database("collation5")
                        database = server.client["collation5"]
                        database.create_collection("plain")
                        database.create_collection("nocase", collation=NOCASE)
                        database[source].insert_one({"_id": "a", "x": 1})
                        database[target].insert_one({"_id": "A", "x": 2})
                    stage = {"$merge": {"into": target, "whenMatched": when_matched, "whenNotMatched": when_not_matched}}
                    replies = []
                    for server in (_subject, _oracle):
                        database = server.client["collation5"]
                        try:
                            reply = database.command(with_collation(aggregate(source, stage), collation))["ok"]
                        except OperationFailure as error:
                            reply = error.code
                        replies.append((reply, list(database[target].find(sort=[("_id", 1)]))))
                    assert replies[0] == replies[1], (source, target, when_matched, when_not_matched, collation)


@pytest.mark.parametrize("collation", [NOCASE, None], ids=name_of)
def test_what_lies_behind_a_text_in_an_entry_is_read_from_the_document(_subject, _oracle, collation):
    documents = [{"_id": identifier, "a": text, "b": other, "d": {"x": 1}} for identifier, text, other in
                 ((1, "B", None), (5.0, "c", 1), (Int64(7), "C", 2.5), ("k", "b", Int64(1)), (2.5, "x", "Y"), (Decimal128("3"), None, 1.0))]  # fmt: skip
    for keys in (["a"], ["a", "b"], ["b", "a"], ["a", "_id"], ["b", "a", "_id"]):
        for server in (_subject, _oracle):
            server.client.drop_database("collation6")
            collection = server.client["collation6"]["c"]
            collection.insert_many(documents)
            collection.create_index([(key, 1) for key in keys], name="i", collation=NOCASE)
        commands = [
            {"find": "c", "filter": condition, "projection": shape, "sort": {"_id": 1}, "hint": "i"}
            for condition in ({}, {"a": "C"}, {"a": {"$gt": "A"}}, {"b": {"$gt": 0}}, {"a": "C", "_id": {"$gt": 0}}, {"b": 1, "a": "c"})
            for shape in ({"_id": 1}, {"b": 1}, {"b": 1, "_id": 0}, {"a": 1, "_id": 0}, {})
        ]
        commands += [{"count": "c", "query": {"a": "C", "_id": {"$gt": 0}}, "hint": "i"}, {"distinct": "c", "key": "b", "query": {"a": {"$gt": "A"}}}]
        compare_all((_subject, _oracle), [with_collation(command, collation) for command in commands], "collation6")
        collection = _subject.client["collation6"]["c"]
        collection.drop_index("i")
        # Beyond MongoDB, entries that carry fields.
        collection.create_index([(key, 1) for key in keys], name="i", collation=NOCASE, include=["d.x"])
        options = {"collation": collation} if collation else {}
        found = list(collection.find({"a": {"$gt": "A"}}, {"d.x": 1, "_id": 0}, hint="i", **options))
        assert found == [{"d": {"x": 1}}] * len(found) and len(found) == 5


@pytest.mark.parametrize("collection", ["plain", "nocase", "indexed"])
@pytest.mark.parametrize("collation", COLLATIONS[:5], ids=name_of)
def test_writes(_subject, _oracle, collection, collation):
    for update in UPDATES:
        fill((_subject, _oracle), "collation3")
        commands = [
            {"update": collection, "updates": [with_collation(update, collation)]},
            {"find": collection, "sort": {"n": 1}, "projection": {"_id": 0}},
        ]
        compare_all((_subject, _oracle), commands, "collation3", ignore=("upserted.0._id",))
    fill((_subject, _oracle), "collation3")
    modify = {"findAndModify": collection, "query": {"a": "A", "n": {"$lt": 9}}, "sort": {"a": 1, "n": -1}}
    commands = [
        with_collation({**modify, "update": {"$set": {"hit": 1}}, "new": True}, collation),
        with_collation({**modify, "remove": True}, collation),
        {"delete": collection, "deletes": [with_collation({"q": {"a": "B"}, "limit": 0}, collation)]},
        {"delete": collection, "deletes": [with_collation({"q": {"_id": "X"}, "limit": 1}, collation)]},
        {"find": collection, "sort": {"n": 1}},
    ]
    compare_all((_subject, _oracle), commands, "collation3")


def test_definitions(_subject, _oracle):
    for server in (_subject, _oracle):
        server.client.drop_database("collation2")
    # Keys of an index with a collation are shown in hexadecimal; our rules are newer than mongod's.
    hexadecimal = ("writeErrors.0.errmsg", "writeErrors.0.keyValue")
    compare_all((_subject, _oracle), DEFINITIONS, "collation2", ignore=hexadecimal)


def test_specifications(_subject, _oracle):
    for server in (_subject, _oracle):
        server.client.drop_database("collation4")
        server.client["collation4"].create_collection("c")
    commands = []
    for number, specification in enumerate(SPECIFICATIONS):
        commands.append({"create": f"c{number}", "collation": specification})
        commands.append({"listIndexes": f"c{number}"})
        commands.append({"find": "c", "collation": specification})
        commands.append({"count": "c", "collation": specification})
        commands.append({"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "collation": specification}]})
    for specification in (5, "x", None, [1]):
        commands.append({"create": "d", "collation": specification})
        commands.append({"find": "c", "collation": specification})
        commands.append(aggregate("c", collation=specification))
        commands.append({"count": "c", "collation": specification})
        commands.append({"distinct": "c", "key": "a", "collation": specification})
        commands.append({"delete": "c", "deletes": [{"q": {}, "limit": 1, "collation": specification}]})
        commands.append({"findAndModify": "c", "remove": True, "collation": specification})
    compare_all((_subject, _oracle), commands, "collation4")


# Letters that came into Unicode, or got another place in it, between the rules of mongod (ICU 57) and ours.
NEWER = "ՠٵٶٷٸ丗丽丬丑丷ຆຉຌຎຏຐຑຒຓຘຠຨຩຬ"
NEWER_IN = {"da": "œŒ", "lv": "āĀēĒģĢīĪiyijĳĲņŅǭǬōŌƦšŠūŪ"}
SCRIPTS = [
    (0x20, 0x7F), (0xA1, 0x180), (0x1CD, 0x1F0), (0x218, 0x21C), (0x386, 0x3CF), (0x400, 0x460), (0x490, 0x4F0), (0x531, 0x587), (0x5D0, 0x5EB), (0x621, 0x64B), (0x66E, 0x6D3), (0x905, 0x93A), (0x985, 0x9B9), (0xA05, 0xA3A),
    (0xA85, 0xABA), (0xB05, 0xB3A), (0xB85, 0xBBA), (0xC05, 0xC3A), (0xC85, 0xCBA), (0xD05, 0xD3A), (0xD85, 0xDC7), (0xE01, 0xE2F), (0xE81, 0xEB0), (0xF40, 0xF6D), (0x1000, 0x102B), (0x10D0, 0x10FB), (0x1200, 0x1240), (0x13A0, 0x13F0),
    (0x1780, 0x17B4), (0x1E80, 0x1EF9), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x4E40), (0xAC00, 0xAC20),
]  # fmt: skip
DIGRAPHS = "ch cz ci cs dz dž dzs gy lj ll nj ny nz ng rr sz th ty zs zh aa ab oe ue ss ph ff dd ij iy å ä ö ø æ ð þ côte coté cote Côte co-op coop".split()
LOCALES = """af am ar ar@collation=compat as az be bg bn bn@collation=traditional bo bs bs_Cyrl ca chr cs cy da de de_AT de@collation=phonebook de_AT@collation=phonebook dsb dz ee el en en_US en_US_POSIX eo es es@collation=traditional
et fa fa_AF fi fi@collation=traditional fil fo fr fr_CA ga gl gu ha he hi hr hsb hu hy id ig is it ja ja@collation=unihan ka kk km kn kn@collation=traditional ko ko@collation=unihan kok ky lb ln lo lt lv mk ml mn mr ms mt my nb ne nl nn
om or pa pl ps pt ro ru si si@collation=dictionary sk sl sq sr sr_Latn sv sv@collation=standard sw ta te th to tr ug uk ur vi vi@collation=traditional wae yo zh zh@collation=stroke zh@collation=zhuyin zh@collation=unihan zh_Hant
zh_Hant@collation=pinyin zh_Hant@collation=zhuyin zh_Hant@collation=unihan zu""".split()


@pytest.fixture(scope="module")
def words(_subject, _oracle):
    letters = [chr(code) for first, behind in SCRIPTS for code in range(first, behind) if unicodedata.category(chr(code))[0] in "LNPSZ"]
    documents = [{"_id": number, "w": word} for number, word in enumerate([*letters, *DIGRAPHS]) if word not in NEWER]
    for server in (_subject, _oracle):
        server.client.drop_database("words")
        server.client["words"]["c"].insert_many(documents)
    return _subject, _oracle


@pytest.mark.parametrize("locale", LOCALES)
def test_order_of_a_locale(words, locale):
    newer = NEWER_IN.get(locale, "")

    def ordered(server):
        found = server.client["words"]["c"].find(sort=[("w", 1), ("_id", 1)], collation={"locale": locale})
        return [document["w"] for document in found if document["w"] not in newer]

    ours, theirs = map(ordered, words)
    assert ours == theirs


def test_order_and_equality_by_all_options(_subject, _oracle):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chosen = random.Random(seed)
    texts = ["".join(chosen.choices(WORDS, k=chosen.randint(1, 3))) for _ in range(300)]
    documents = [{"_id": number, "w": text} for number, text in enumerate(texts)]
    for server in (_subject, _oracle):
        server.client.drop_database("options")
        server.client["options"]["c"].insert_many(documents)
    for _ in range(60):
        collation = {
            "locale": chosen.choice(["en", "fr", "de", "sv", "fr_CA", "es"]),
            "strength": chosen.randint(1, 5),
            "caseLevel": chosen.random() < 0.3,
            "numericOrdering": chosen.random() < 0.3,
            "alternate": chosen.choice(["shifted", "non-ignorable"]),
            "maxVariable": chosen.choice(["punct", "space"]),
            "normalization": chosen.random() < 0.3,
        }
        if collation["strength"] > 2:
            collation["caseFirst"] = chosen.choice(["off", "upper", "lower"])
        elif collation["locale"] == "fr_CA":
            collation["strength"] = 2
        one, other = chosen.choices(texts, k=2)
        commands = [
            {"find": "c", "sort": {"w": 1, "_id": 1}, "batchSize": 1000},
            {"find": "c", "sort": {"w": -1, "_id": 1}, "batchSize": 1000},
            {"count": "c", "query": {"w": one}},
            {"count": "c", "query": {"w": {"$gt": one, "$lte": other}}},
            aggregate("c", {"$group": {"_id": "$w"}}, {"$count": "n"}),
        ]
        plain = [with_collation(command, collation) for command in commands]
        compare_all((_subject, _oracle), plain, "options")
        # The plain twin of an index: the same answers with it.
        collection = _subject.client["options"]["c"]
        before = [_subject.client["options"].command(command) for command in plain]
        collection.create_index("w", collation=collation)
        after = [_subject.client["options"].command(command) for command in plain]
        plans = [_subject.client["options"].command({"explain": plain[number]}) for number in (2, 0)]
        assert "'w_1" in str(plans[0]) and "COLLSCAN" not in str(plans[0]), plans[0]
        collection.drop_indexes()
        assert before == after, f"{collation}"


@pytest.fixture
def server(tmp_path):
    with Meridian(tmp_path) as server:
        yield server


def test_an_index_is_used_only_where_collations_agree(server):
    collection = server.client["agree"]["c"]
    collection.insert_many([{"a": text, "n": number} for number, text in enumerate(["x", "X", "y", "Y"] * 50)])
    collection.create_index("a", name="nocase", collation=NOCASE)

    def stages(condition, **options):
        planned = server.client["agree"].command("explain", {"find": "c", "filter": condition, **options})
        return str(planned["queryPlanner"]["winningPlan"])

    assert "IXSCAN" in stages({"a": "x"}, collation=NOCASE)
    assert "COLLSCAN" in stages({"a": "x"})
    assert "COLLSCAN" in stages({"a": "x"}, collation=BASE)
    assert "COLLSCAN" in stages({"a": {"$in": [1, "x"]}})
    # Without a text it does not matter who compares.
    assert "IXSCAN" in stages({"a": 5})
    assert "IXSCAN" in stages({"a": {"$gt": 5}}, sort={"a": 1}) and "SORT" not in stages({"a": {"$gt": 5}}, sort={"a": 1})
    assert "SORT" in stages({}, sort={"a": 1}) and "SORT" not in stages({}, sort={"a": 1}, collation=NOCASE)
    # Texts cannot be read back from the index.
    assert "FETCH" in stages({"a": "x"}, projection={"a": 1, "_id": 0}, collation=NOCASE)
    assert collection.count_documents({"a": "x"}, collation=NOCASE) == 100
    assert collection.count_documents({"a": "x"}) == 50
    assert sorted(collection.distinct("a", collation=NOCASE)) == ["x", "y"]
    with pytest.raises(OperationFailure, match="planner returned error"):
        list(collection.find({"a": "x"}, hint={"b": 1}))


def test_documents_expire_as_the_partial_filter_compares(tmp_path):
    with Meridian(tmp_path) as server:
        collection = server.client["expiry"]["c"]
        long_ago = datetime(2001, 1, 1)
        options = {"expireAfterSeconds": 1, "partialFilterExpression": {"a": {"$eq": "gone"}}, "collation": NOCASE}
        collection.create_index("t", **options)
        collection.insert_many([{"a": "GONE", "t": long_ago} for _ in range(1200)] + [{"a": "kept", "t": long_ago}])
        deadline = time.monotonic() + 60
        while collection.count_documents({}) > 1 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert [one["a"] for one in collection.find()] == ["kept"]


def test_six_writers_then_a_kill(tmp_path):
    """Ids and unique keys that a collation finds equal are one, whoever writes, and after a kill."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with Meridian(tmp_path) as server:
        database = server.client["kill"]
        database.create_collection("c", collation=NOCASE)
        database["c"].create_index("u", unique=True)
        database["c"].create_index([("w", -1)], collation=BASE)
        acknowledged = [set() for _ in range(6)]

        def write(number):
            chosen = random.Random(seed + number)
            for _ in range(400):
                text = "".join(chosen.choice("aAáÁbB") for _ in range(4))
                kind = chosen.random()
                try:
                    if kind < 0.6:
                        database["c"].insert_one({"_id": text, "u": text[::-1], "w": text, "by": number})
                        acknowledged[number].add(text)
                    elif kind < 0.8:
                        database["c"].update_many({"w": text}, {"$set": {"w": text[:2]}}, collation=BASE)
                    elif kind < 0.9:
                        database["c"].update_one({"_id": text}, {"$set": {"u": text[1:]}})
                    else:
                        database["c"].find_one({"u": text[::-1]})
                except (DuplicateKeyError, BulkWriteError):
                    pass
                except PyMongoError:
                    return

        with ThreadPoolExecutor(7) as pool:
            running = [pool.submit(write, number) for number in range(6)]
            running[0].result(timeout=120)
            server.kill()
            for one in running[1:]:
                one.result(timeout=120)
        server.start()
        server.disconnect()
        collection = server.client["kill"]["c"]
        documents = list(collection.find())
        ids = {document["_id"] for document in documents}
        assert set().union(*acknowledged) <= ids
        assert len({text.lower() for text in ids}) == len(ids)
        assert len({document["u"].lower() for document in documents}) == len(documents)
        assert server.client["kill"].command("validate", "c", full=True)["valid"]
        for document in documents[:50]:
            assert collection.find_one({"_id": document["_id"].swapcase()})["_id"] == document["_id"]
            same = [one for one in documents if plain(one["w"]) == plain(document["w"])]
            assert collection.count_documents({"w": document["w"].upper()}, collation=BASE) == len(same)


def plain(text):
    return text.lower().replace("á", "a")


def test_bounds(server):
    """Long texts, long names of locales, many values."""
    collection = server.client["bounds"]["c"]
    collection.create_index("a", collation=BASE)
    long = "Äb" * 2_000_000
    collection.insert_many([{"_id": 1, "a": long}, {"_id": 2, "a": "\0\x01" * 1000}, {"_id": 3, "a": ""}])
    assert [one["_id"] for one in collection.find({"a": long.replace("Ä", "a")}, {"_id": 1}, collation=BASE)] == [1]
    # The control characters count for nothing.
    assert collection.count_documents({"a": ""}, collation=BASE) == 2
    for bytes_of_name in (156, 157, 1_000_000):
        with pytest.raises(OperationFailure, match="Field 'locale' is (invalid|not valid) in"):
            collection.find_one(collation={"locale": "x" * bytes_of_name})
    many = [f"value {number}" for number in range(60_000)]
    assert collection.count_documents({"a": {"$in": [*many, "AB" * 2_000_000]}}, collation=BASE) == 1
    assert collection.count_documents({"a": {"$nin": many}}, collation=BASE) == 3
