"""Stages that bring documents along or read other collections: $documents, $unionWith, $lookup, $graphLookup; and $redact.

MERIDIAN_RANDOM_SEED repeats the random joins; MERIDIAN_RANDOM_QUERIES changes their number.
"""

import re

import pytest
from harness import cases
from test_random_query import QUERIES, SEED, Generator

DOCUMENTS = {
    "c": [
        {"_id": 1, "a": 1, "b": 1, "arr": [1, 2], "x": {"y": 1}, "re": 1},
        {"_id": 2, "a": 2, "b": 2, "x": [{"y": 2}, {"y": 3}]},
        {"_id": 3, "a": None, "arr": [], "x": {"y": [1, [2]]}, "level": 1, "in": [{"level": 3, "v": 1}, {"level": 2, "v": [{"level": 3}, 5, [{"level": 3}, {"level": 1}]]}]},
        {"_id": 4, "b": 4, "arr": [[1, 2], 3]},
    ],
    "d": [{"_id": 1, "a": 1, "b": 1}, {"_id": 2, "a": 1, "b": 2, "arr": [1, 2]}, {"_id": 3, "a": [2, 3], "b": 3, "arr": []}, {"_id": 4, "b": 5}, {"_id": 5, "a": None}],
    "m": [{"_id": 1, "a": [{"0": 7}, {"c": 1}]}, {"_id": 7, "a": 5}],
    "q": [{"_id": 1, "v": 7}, {"_id": 2}, {"_id": 3, "v": None}, {"_id": 4, "v": {"0": 7}, "k": None}, {"_id": 5, "k": []}, {"_id": 6, "k": [None]}, {"_id": 7, "n": {"x": 1}}],
    "g": [{"_id": number, "n": number, "to": [number + 1, number * 2], "ok": number % 2} for number in range(1, 7)],
}

# fmt: off
PIPELINES = [
    (1, [{"$documents": [{"a": 1}, {"a": 2}]}]),
    (1, [{"$documents": 5}]),
    (1, [{"$documents": [1]}]),
    (1, [{"$documents": []}]),
    (1, [{"$documents": {"$map": {"input": [1, 2], "in": {"x": "$$this"}}}}]),
    (1, [{"$documents": "$a"}]),
    (1, [{"$documents": "$$NOW"}]),
    ("c", [{"$documents": [{"a": 1}]}]),
    (1, [{"$documents": [{"a": 1}]}, {"$documents": [{"a": 1}]}]),
    (1, [{"$match": {}}, {"$documents": [{"a": 1}]}]),
    (1, [{"$documents": [{"a": {"$add": [1, 2]}}, {"b": "$$x"}]}]),
    (1, [{"$documents": [{"a": 1}, None]}]),
    (1, [{"$documents": {"a": 1}}]),
    (1, [{"$documents": [{"a": "$b"}]}]),
    (1, [{"$documents": [[{"a": 1}]]}]),
    (1, [{"$documents": [{"a": 1}]}, {"$out": "o1"}]),
    ("c", [{"$facet": {"a": [{"$documents": [{"a": 1}]}]}}]),
    (1, [{"$documents": [{"a": 1}]}, {"$facet": {"x": [{"$match": {"a": 1}}]}}]),
    ("c", [{"$unionWith": {"pipeline": [{"$documents": [{"z": 1}]}]}}, {"$sort": {"_id": 1}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$documents": [{"z": 1}]}]}}]),
    ("c", [{"$unionWith": "d"}]),
    ("c", [{"$unionWith": {"coll": "d"}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": []}}]),
    ("c", [{"$unionWith": {}}]),
    ("c", [{"$unionWith": 5}]),
    ("c", [{"$unionWith": ""}]),
    ("c", [{"$unionWith": {"coll": 5}}]),
    ("c", [{"$unionWith": {"coll": "d", "x": 1}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": 5}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [5]}}]),
    ("c", [{"$unionWith": {"pipeline": []}}]),
    ("c", [{"$unionWith": {"pipeline": [{"$match": {}}]}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$out": "x"}]}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$merge": "x"}]}}]),
    ("c", [{"$unionWith": {"coll": "none"}}]),
    ("none", [{"$unionWith": {"coll": "d"}}]),
    ("c", [{"$unionWith": {"coll": "c"}}, {"$count": "n"}]),
    ("c", [{"$limit": 1}, {"$unionWith": {"coll": "d", "pipeline": [{"$limit": 1}]}}]),
    ("c", [{"$unionWith": {"coll": "d"}}, {"$limit": 2}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$unionWith": "c"}]}}, {"$count": "n"}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$v"]}}}]}}], {"let": {"v": 1}}),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$collStats": {"count": {}}}, {"$project": {"count": 1}}]}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$indexStats": {}}, {"$project": {"name": 1}}, {"$sort": {"name": 1}}]}}]),
    ("c", [{"$unionWith": {"coll": "a$b"}}]),
    ("c", [{"$unionWith": {"coll": "system.x"}}]),
    ("c", [{"$facet": {"a": [{"$unionWith": "d"}, {"$count": "n"}]}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a"}}]),
    ("c", [{"$lookup": {"localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": 5}]),
    ("c", [{"$lookup": {}}]),
    ("c", [{"$lookup": {"from": 5, "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": 5, "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": 5, "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": 5}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "$a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "$a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "$r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "", "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": ""}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r", "x": 1}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r", "let": {}}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r", "let": {"x": 1}}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": 5, "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [5], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [], "let": 5, "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$out": "x"}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$merge": "x"}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$facet": {"a": [{"$merge": "x"}]}}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$bad": 1}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$x"]}}}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"X": "$a"}, "pipeline": [], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"1x": "$a"}, "pipeline": [], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"ROOT": "$a"}, "pipeline": [], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$y"]}}}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": {"$size": "$a"}}, "pipeline": [], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": "$q"}, "pipeline": [{"$project": {"v": {"$type": "$$x"}}}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "let": {"b": "$b"}, "pipeline": [{"$match": {"$expr": {"$gt": ["$b", "$$b"]}}}], "as": "r"}}]),
    ("c", [{"$lookup": {"pipeline": [{"$documents": [{"z": 1}, {"z": 2}]}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$documents": [{"z": 1}]}], "as": "r"}}]),
    ("c", [{"$lookup": {"pipeline": [{"$match": {}}], "as": "r"}}]),
    ("c", [{"$lookup": {"pipeline": [{"$documents": [{"z": 1}, {"z": 2}]}, {"$match": {"z": 2}}], "localField": "a", "foreignField": "z", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "none", "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "arr", "foreignField": "a", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "arr", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "x.y", "foreignField": "a", "as": "p.r"}}, {"$set": {"p.r": {"$sortArray": {"input": "$p.r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "none", "foreignField": "none", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "re", "foreignField": "re", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "arr.0", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r"}}, {"$unwind": "$r"}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r"}}, {"$unwind": {"path": "$r", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}}]),
    ("c", [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r"}}, {"$unwind": "$r"}, {"$match": {"r.b": {"$gt": 1}}}]),
    ("c", [{"$lookup": {"from": {"db": "x", "coll": "d"}, "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "a$b", "localField": "a", "foreignField": "a", "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": "$a"}, "pipeline": [{"$lookup": {"from": "c", "let": {"y": "$a"}, "pipeline": [{"$match": {"$expr": {"$and": [{"$eq": ["$a", "$$y"]}, {"$eq": ["$a", "$$x"]}]}}}, {"$project": {"xx": "$$x", "yy": "$$y"}}], "as": "in"}}], "as": "r"}}]),
    ("c", [{"$facet": {"f": [{"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "r"}}]}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$sample": {"size": 1}}, {"$count": "n"}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "p"}}], "as": "r"}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$collStats": {"count": {}}}, {"$project": {"host": 0, "localTime": 0}}], "as": "r"}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "maxDepth": 1, "depthField": "dd"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "maxDepth": 0}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "restrictSearchWithMatch": {"ok": 1}}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": ["$a", 2], "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "none", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$zz", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": 5}]),
    ("c", [{"$graphLookup": {}}]),
    ("c", [{"$graphLookup": {"from": "g"}}]),
    ("c", [{"$graphLookup": {"from": 5}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": 5, "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "$to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "maxDepth": -1}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "maxDepth": 1.5}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "maxDepth": "x"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "restrictSearchWithMatch": 5}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "x": 5}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r", "depthField": 5}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n"}}]),
    ("c", [{"$graphLookup": {"from": "g", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectToField": "n", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "r"}}, {"$unwind": "$r"}, {"$sort": {"_id": 1, "r._id": 1}}]),
    ("c", [{"$graphLookup": {"from": "g", "startWith": "$a", "connectFromField": "to", "connectToField": "n", "as": "p.q", "depthField": "x.y"}}, {"$set": {"p.q": {"$sortArray": {"input": "$p.q", "sortBy": {"_id": 1}}}}}]),
    ("c", [{"$redact": {"$cond": [{"$eq": ["$a", 1]}, "$$PRUNE", "$$DESCEND"]}}]),
    ("c", [{"$redact": "$$KEEP"}]),
    ("c", [{"$redact": "$$PRUNE"}]),
    ("c", [{"$redact": "$a"}]),
    ("c", [{"$redact": "keep"}]),
    ("c", [{"$redact": {"$cond": [{"$eq": ["$$ROOT.a", 1]}, "$$KEEP", "$$PRUNE"]}}]),
    ("c", [{"$redact": {"$cond": [{"$gt": [{"$size": {"$ifNull": ["$arr", []]}}, 1]}, "$$PRUNE", "$$DESCEND"]}}]),
    ("c", [{"$redact": "$$BAD"}]),
    ("c", [{"$redact": "$$DESCEND.x"}]),
    ("c", [{"$project": {"x": "$$KEEP"}}]),
    ("c", [{"$redact": {"$let": {"vars": {"CURRENT": "$x"}, "in": {"$cond": [{"$eq": ["$y", 2]}, "$$PRUNE", "$$DESCEND"]}}}}]),
    ("c", [{"$redact": 5}]),
    ("c", [{"$redact": {"$cond": [{"$eq": ["$level", 3]}, "$$PRUNE", "$$DESCEND"]}}]),
    ("m", [{"$lookup": {"from": "q", "localField": "a.0", "foreignField": "v", "as": "r"}}, {"$project": {"r._id": 1}}]),
    ("m", [{"$lookup": {"from": "q", "localField": "a.c", "foreignField": "v", "as": "r"}}, {"$project": {"r._id": 1}}]),
    ("m", [{"$graphLookup": {"from": "m", "startWith": 1, "connectFromField": "a.0", "connectToField": "_id", "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r._id", "sortBy": 1}}}}]),
    *[
        ("m", [{"$limit": 1}, {"$graphLookup": {"from": "q", "startWith": start, "connectFromField": "zz", "connectToField": to, "as": "r"}}, {"$set": {"r": {"$sortArray": {"input": "$r._id", "sortBy": 1}}}}])
        for start in (None, [None], ["$nope"], "$nope") for to in ("k", "n.k", "v", "n.x")
    ],
    ("g", [{"$graphLookup": {"from": "g", "startWith": 1, "connectFromField": "to", "connectToField": "n", "as": "r", "restrictSearchWithMatch": {"$expr": {"$lt": ["$_id", "$$cv"]}}}}, {"$set": {"r": {"$sortArray": {"input": "$r._id", "sortBy": 1}}}}], {"let": {"cv": 4}}),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$out": "x"}, {"$match": {}}], "as": "r"}}]),
    ("c", [{"$unionWith": {"coll": "d", "pipeline": [{"$merge": "x"}, {"$match": {}}]}}]),
    ("c", [{"$lookup": {"from": "d", "pipeline": [{"$group": {"_id": None, "n": {"$sum": "$b"}}}], "as": "r"}}, {"$unwind": "$r"}]),
    ("c", [{"$lookup": {"from": "d", "let": {"x": "$a"}, "pipeline": [{"$lookup": {"from": "g", "pipeline": [{"$match": {"$expr": {"$eq": ["$n", "$$x"]}}}], "as": "in"}}], "as": "r"}}]),
]
# fmt: on


@pytest.fixture(scope="module", params=["walked", "indexed"])
def joined(_subject, _oracle, request):
    for server in (_subject, _oracle):
        server.run("joins", {"dropDatabase": 1})
        for name, documents in DOCUMENTS.items():
            server.run("joins", {"insert": name, "documents": documents})
        if request.param == "indexed":
            for name, key in {"c": "a", "d": "a", "g": "n"}.items():
                server.run("joins", {"createIndexes": name, "indexes": [{"key": {key: 1}, "name": "i"}]})
    return _subject, _oracle


def compare(joined, command, ordered=True):
    case = cases.Case(name="join", commands=[], database="joins", ordered=ordered)
    cases.compare_command(*joined, case, command)


@pytest.mark.parametrize("number", range(len(PIPELINES)), ids=lambda number: re.sub(r"[^a-zA-Z0-9$]+", "_", str(PIPELINES[number][1]))[:100])
def test_pipeline(joined, number):
    collection, pipeline, *options = PIPELINES[number]
    compare(joined, {"aggregate": collection, "pipeline": pipeline, "cursor": {}, **(options[0] if options else {})})


def nested(depth, stage):
    for _ in range(depth):
        stage = {"$lookup": {"from": "d", "pipeline": [{"$limit": 1}, stage], "as": "r"}}
    return stage


@pytest.mark.parametrize("depth", [1, 19, 20, 21, 50])
def test_depth_is_bounded(joined, depth):
    compare(joined, {"aggregate": "c", "pipeline": [{"$limit": 1}, nested(depth, {"$project": {"_id": 1}})], "cursor": {}})


def test_arrays_are_as_large_as_a_document(joined):
    for server in joined:
        server.run("joins", {"drop": "large"})
        for number in range(20):
            server.run("joins", {"insert": "large", "documents": [{"_id": number, "fill": "x" * 1_000_000}]})
    lookup = {"$lookup": {"from": "large", "pipeline": [], "as": "r"}}
    compare(joined, {"aggregate": "c", "pipeline": [lookup], "cursor": {}})
    compare(joined, {"aggregate": "c", "pipeline": [lookup, {"$unwind": "$r"}, {"$count": "n"}], "cursor": {}})
    within = {"$lookup": {"from": "large", "pipeline": [{"$limit": 1}, lookup], "as": "s"}}
    compare(joined, {"aggregate": "c", "pipeline": [{"$limit": 1}, within, {"$project": {"n": {"$size": "$s"}}}], "cursor": {}})
    graph = {"$graphLookup": {"from": "large", "startWith": "$b", "connectFromField": "_id", "connectToField": "_id", "as": "r"}}
    compare(joined, {"aggregate": "c", "pipeline": [graph, {"$project": {"n": {"$size": "$r"}}}], "cursor": {}})


@pytest.mark.timeout(900)
def test_random_joins(_subject, _oracle):
    print(f"seed {SEED}")
    generator = Generator(SEED)
    choice = generator.random
    servers = (_subject, _oracle)
    for round_number in range(4):
        documents = {name: [generator.document(number) for number in range(25)] for name in ("left", "right")}
        for server in servers:
            for name in documents:
                server.run("joins", {"drop": name})
                server.run("joins", {"insert": name, "documents": documents[name]})
            if round_number % 2:
                server.run("joins", {"createIndexes": "right", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"b": 1}, "name": "b"}]})
        for _ in range(QUERIES // 40):
            local, foreign = (choice.choice(["a", "b", "c", "a.b", "a.c", "b.c", "_id"]) for _ in range(2))
            lookup = {"from": "right", "localField": local, "foreignField": foreign, "as": "r"}
            shape = choice.randrange(4)
            if shape == 1:
                lookup["pipeline"] = [{"$match": {"$expr": {"$lte": ["$_id", "$$mine"]}}}]
                lookup["let"] = {"mine": f"${choice.choice(['a', 'b', '_id'])}"}
            if shape == 2:
                lookup = {"from": "right", "let": {"x": f"${local}"}, "pipeline": [{"$match": {"$expr": {choice.choice(["$eq", "$lt", "$gte"]): [f"${foreign}", "$$x"]}}}], "as": "r"}
            stages = [{"$lookup": lookup}]
            if shape == 3:
                stages.append({"$unwind": {"path": "$r", "preserveNullAndEmptyArrays": choice.random() < 0.5}})
            else:
                stages.append({"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"_id": 1}}}}})
            stages.append({"$project": {"r._id": 1}})
            command = {"aggregate": "left", "pipeline": stages, "cursor": {"batchSize": 10_000}}
            try:
                compare(servers, command, ordered=shape == 0)
            except cases.Mismatch as mismatch:
                raise cases.Mismatch(f"seed {SEED}: {mismatch}") from None
