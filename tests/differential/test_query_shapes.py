"""queryHash and planCacheKey of explain, which are equal for statements of one shape: mongod's own, to the last digit."""

import re

import pytest
from bson import Regex
from bson.max_key import MaxKey
from bson.min_key import MinKey
from harness import canonical

INDEXES = [
    {"key": {"a": 1}, "name": "a_1"}, {"key": {"sp": 1}, "name": "sp_1", "sparse": True}, {"key": {"pa": 1}, "name": "pa_1", "partialFilterExpression": {"pa": {"$gt": 5}}},
    {"key": {"t": "text"}, "name": "t_text"}, {"key": {"g": "2dsphere"}, "name": "g_2dsphere"}, {"key": {"h": "hashed"}, "name": "h_hashed"}, {"key": {"w.$**": 1}, "name": "w_wild"},
    {"key": {"fr": 1}, "name": "fr_1", "collation": {"locale": "fr"}}, {"key": {"x": 1, "y": -1}, "name": "x_1_y_-1"}, {"key": {"p": "2d"}, "name": "p_2d"},
]  # fmt: skip
POINT = {"type": "Point", "coordinates": [1, 2]}
RING = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
VALUES = [
    1, None, "x", {}, {"z": 1}, [], [1], MinKey(), MaxKey(), Regex("a"), Regex("a", "i"), Regex("^a", "ix"), {"$gt": 1}, {"$gte": 1}, {"$lt": 1}, {"$lte": 1}, {"$gte": None}, {"$gt": MinKey()}, {"$lt": MaxKey()},
    {"$gte": MinKey()}, {"$lte": MaxKey()}, {"$gt": MaxKey()}, {"$ne": 1}, {"$ne": None}, {"$in": [1]}, {"$in": [1, 2]}, {"$in": [None, 1]}, {"$in": [1, Regex("a", "i"), Regex("b", "x")]}, {"$in": [Regex("a"), 1]}, {"$nin": [1]},
    {"$nin": [1, 2]}, {"$nin": [None]}, {"$exists": True}, {"$exists": False}, {"$type": 2}, {"$type": ["int", "string"]}, {"$mod": [2, 1]}, {"$size": 1}, {"$bitsAllSet": 1}, {"$bitsAllClear": 1}, {"$bitsAnySet": 1}, {"$bitsAnyClear": 1},
    {"$elemMatch": {"x": 1}}, {"$elemMatch": {"$gt": 1}}, {"$elemMatch": {"$gt": 1, "$lt": 5}}, {"$elemMatch": {"x": 1, "y": 2}}, {"$not": {"$gt": 1}}, {"$not": Regex("a")}, {"$not": {"$gt": 1, "$lt": 5}}, {"$not": {"$exists": True}}, {"$not": {"$size": 1}},
    {"$not": {"$mod": [2, 1]}}, {"$not": {"$type": 2}}, {"$not": {"$elemMatch": {"x": 1}}}, {"$not": {"$in": [1, 2]}}, {"$not": {"$bitsAllSet": 1}}, {"$not": {"$gte": None}}, {"$not": {"$lt": 1}}, {"$not": {"$lte": "x"}}, {"$all": [1, 2]}, {"$gt": 1, "$lt": 5}, {"$in": ["x", 1]},
    {"$gt": "x"}, {"$gte": {"z": 1}}, {"$in": [{"z": 1}]}, {"$eq": Regex("a")}, {"$not": {"$not": {"$gt": 1}}},
]  # fmt: skip
PATHS = ["b", "a", "sp", "pa", "h", "w.q", "w", "fr", "x", "y", "_id", "t", "a.b", "b[", "b-c/d", "é"]
FILTERS = [
    {}, {"b": 1, "c": 2}, {"c": 2, "b": {"$gt": 1}}, {"$or": [{"b": 1}, {"c": 2}]}, {"$or": [{"a": 1}, {"b": 2}, {"c": 3}]}, {"$nor": [{"b": 1}, {"c": 2}]}, {"$and": [{"$or": [{"a": 1}, {"b": 2}]}, {"c": 1}]}, {"$where": "true"}, {"$expr": True},
    {"$expr": {"$gt": ["$a", "$b"]}}, {"$alwaysFalse": 1}, {"$text": {"$search": "x"}}, {"$text": {"$search": "x"}, "b": 1}, {"g": {"$geoWithin": {"$centerSphere": [[0, 0], 1]}}}, {"p": {"$geoWithin": {"$center": [[0, 0], 1]}}},
    {"p": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}}, {"p": {"$geoWithin": {"$polygon": [[0, 0], [1, 1], [1, 0]]}}}, {"g": {"$geoWithin": {"$geometry": RING}}}, {"g": {"$geoIntersects": {"$geometry": POINT}}}, {"g": {"$geoIntersects": {"$geometry": RING}}},
    {"g": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}}}}, {"g": {"$geoIntersects": {"$geometry": {"type": "MultiPoint", "coordinates": [[0, 0], [1, 1]]}}}},
    {"g": {"$geoIntersects": {"$geometry": {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]]]}}}}, {"g": {"$geoIntersects": {"$geometry": {"type": "MultiPolygon", "coordinates": [RING["coordinates"]]}}}},
    {"g": {"$geoIntersects": {"$geometry": {"type": "GeometryCollection", "geometries": [POINT]}}}}, {"g": {"$near": {"$geometry": POINT}}}, {"g": {"$nearSphere": {"$geometry": POINT}}}, {"p": {"$near": [0, 0]}}, {"p": {"$nearSphere": [0, 0]}}, {"$comment": "x", "b": 1},
    {"_id": {"$in": [1, 2]}}, {"_id": {"$gt": 1}}, {"pa": 9, "b": 1}, {"pa": {"$gte": 6}}, {"$or": [{"pa": 9}, {"pa": 8}]}, {"a": {"$gt": 1, "$lt": 3}, "b": {"$exists": True}, "c": {"$in": [1, 2]}}, {"$nor": [{"a": 1}]}, {"$nor": [{"a": {"$gt": 1}, "b": 1}]},
]  # fmt: skip
OPTIONS = [
    {"sort": {"b": 1}}, {"sort": {"b": -1, "c": 1}}, {"sort": {"b[": 1.0}}, {"sort": {"$natural": 1}}, {"sort": {}}, {"projection": {"b": 1}}, {"projection": {"b": 1, "a": 1}}, {"projection": {"b": 1, "_id": 0}}, {"projection": {"b": 0}},
    {"projection": {"b": "$c"}}, {"projection": {"b": "x", "_id": 0}}, {"projection": {"b": "x"}}, {"projection": {"b.c": 1, "b.d": 1}}, {"projection": {"b": {"$slice": 1}}}, {"projection": {"b": {"$elemMatch": {"c": 1}}}}, {"projection": {"a": 1, "b": {"$elemMatch": {"c": 1}}}}, {"projection": {"b": {"$slice": 1}, "a": 1}}, {"projection": {"a.$": 1}}, {"projection": {"_id": 1}}, {"projection": {"_id": 0}},
    {"projection": {}}, {"projection": {"b": {"$add": ["$c", "$d.e"]}, "f": 1}}, {"projection": {"a-b": 1}}, {"collation": {"locale": "fr"}}, {"collation": {"locale": "simple"}}, {"collation": {"locale": "de", "strength": 1, "caseLevel": True, "numericOrdering": True}},
    {"collation": {"locale": "en_US", "caseFirst": "upper", "alternate": "shifted", "maxVariable": "space", "normalization": True}}, {"collation": {"locale": "fr_CA", "caseFirst": "lower", "backwards": True}}, {"limit": 5}, {"skip": 5}, {"hint": "a_1"}, {"hint": {"$natural": 1}},
    {"sort": {"c": 1}, "projection": {"d": 1, "_id": 0}}, {"returnKey": True}, {"showRecordId": True}, {"min": {"a": 1}, "hint": "a_1"}, {"batchSize": 1}, {"singleBatch": True}, {"comment": "x"}, {"projection": {"b": 1}, "sort": {"c": 1}},
]  # fmt: skip
STATEMENTS = [
    {"count": "t"}, {"count": "t", "query": {"a": 1}}, {"count": "t", "query": {"b": 1}}, {"count": "t", "query": {}}, {"count": "none"}, {"count": "none", "query": {"a": 1}}, {"distinct": "t", "key": "a"}, {"distinct": "t", "key": "b", "query": {"a": 1}}, {"distinct": "none", "key": "a"},
    {"distinct": "t", "key": "b.c"}, {"update": "t", "updates": [{"q": {"_id": 1}, "u": {"$set": {"z": 1}}}]}, {"update": "t", "updates": [{"q": {"a": 1}, "u": {"$set": {"z": 1}}}]}, {"update": "none", "updates": [{"q": {"a": 1}, "u": {"$set": {"z": 1}}}]},
    {"update": "t", "updates": [{"q": {"_id": {"$gt": 1}}, "u": {"$set": {"z": 1}}, "multi": True}]}, {"delete": "t", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, {"delete": "t", "deletes": [{"q": {}, "limit": 0}]}, {"delete": "none", "deletes": [{"q": {}, "limit": 0}]},
    {"findAndModify": "t", "query": {"_id": 1}, "remove": True}, {"findAndModify": "t", "query": {"a": 1}, "remove": True}, {"findAndModify": "t", "query": {"a": 1}, "sort": {"b": 1}, "update": {"$set": {"z": 1}}}, {"findAndModify": "none", "query": {"a": 1}, "remove": True},
    {"find": "none", "filter": {"a": 1}}, {"find": "none"},
]  # fmt: skip
PIPELINES = [
    [], [{"$match": {"a": 1}}], [{"$match": {"a": 1}}, {"$project": {"b": 1}}], [{"$match": {"a": 1}}, {"$sort": {"b": 1}}], [{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}], [{"$match": {"a": 1}}, {"$group": {"_id": "$b", "s": {"$sum": "$c"}}}],
    [{"$match": {"a": 1}}, {"$count": "n"}], [{"$match": {"a": 1}}, {"$limit": 3}], [{"$match": {"a": 1}}, {"$match": {"b": {"$gt": 3}}}], [{"$match": {"a": 1}}, {"$unwind": "$b"}], [{"$match": {"a": 1}}, {"$project": {"x": {"$add": ["$b", "$c"]}}}],
    [{"$sort": {"a": 1}}, {"$limit": 2}], [{"$match": {"a": 1}}, {"$addFields": {"q": 1}}], [{"$match": {"a": 1}}, {"$project": {"_id": 0, "b": 1}}, {"$sort": {"b": 1}}], [{"$match": {"a": 1}}, {"$sort": {"c": 1}}, {"$project": {"b": 1}}], [{"$match": {"a": 1}}, {"$replaceRoot": {"newRoot": "$b"}}],
    [{"$match": {"a": 1}}, {"$unset": "b"}], [{"$group": {"_id": None, "n": {"$sum": 1}}}], [{"$match": {"a": 1}}, {"$bucket": {"groupBy": "$b", "boundaries": [0, 9]}}], [{"$match": {"a": 1}}, {"$sortByCount": "$b"}], [{"$match": {"$or": [{"a": 1}, {"b": 2}]}}, {"$unwind": "$c"}],
]  # fmt: skip


@pytest.fixture(scope="module")
def shaped(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("shaped", {"dropDatabase": 1})
        server.run("shaped", {"insert": "t", "documents": [{"_id": i, "a": i, "t": "x"} for i in range(5)]})
        reply = server.run("shaped", {"createIndexes": "t", "indexes": INDEXES})
        assert reply.get("ok") == "double(1.0)", reply
    return _subject, _oracle


def planner(server, command):
    """What explain says of a query beside its plans, or the code of its error."""
    reply = server.run("shaped", {"explain": command, "verbosity": "queryPlanner"})
    if reply.get("code") is not None:
        return canonical.Doc([("code", reply.get("code"))])
    found = reply.get("queryPlanner") or reply.get("stages")[0].get("$cursor").get("queryPlanner")
    # How much of a pipeline is planned as one query differs.
    whole = ("optimizedPipeline",) if command.get("pipeline") else ()
    return found.without("winningPlan", "rejectedPlans", "parsedQuery", *whole)


def compare(shaped, command):
    subject, oracle = (canonical.text(planner(server, command)) for server in shaped)
    assert subject == oracle, command


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:80]


@pytest.mark.parametrize("path", PATHS, ids=named)
@pytest.mark.parametrize("value", VALUES, ids=named)
def test_conditions(shaped, path, value):
    compare(shaped, {"find": "t", "filter": {path: value}})


@pytest.mark.parametrize("filter", FILTERS, ids=named)
def test_filters(shaped, filter):
    compare(shaped, {"find": "t", "filter": filter})


@pytest.mark.parametrize("options", OPTIONS, ids=named)
@pytest.mark.parametrize("filter", [{}, {"b": 1}, {"a": "x"}], ids=named)
def test_options(shaped, options, filter):
    compare(shaped, {"find": "t", "filter": filter, **options})


@pytest.mark.parametrize("statement", STATEMENTS, ids=named)
def test_statements(shaped, statement):
    compare(shaped, statement)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=named)
def test_pipelines(shaped, pipeline):
    compare(shaped, {"aggregate": "t", "pipeline": pipeline, "cursor": {}})


OR = {"$or": [{"a": 1}, {"sp": 2}]}
BRANCHED = [
    {"find": "t", "filter": OR}, {"find": "t", "filter": {"$or": [{"a": 1}, {"c": 2}]}}, {"find": "t", "filter": {"$or": [{"c": 1}, {"d": 2}]}}, {"find": "t", "filter": {**OR, "c": {"$gt": 1}}}, {"find": "t", "filter": OR, "sort": {"c": 1}},
    {"find": "t", "filter": OR, "limit": 3}, {"find": "t", "filter": OR, "projection": {"c": 1}}, {"find": "t", "filter": OR, "hint": "a_1"}, {"find": "t", "filter": OR, "hint": {"$natural": 1}}, {"count": "t", "query": OR}, {"distinct": "t", "key": "c", "query": OR},
    {"find": "t", "filter": {"$or": [{"a": 1}, {"a": 2}]}}, {"find": "t", "filter": {"$and": [OR]}}, {"aggregate": "t", "pipeline": [{"$match": OR}, {"$unwind": "$c"}], "cursor": {}}, {"update": "t", "updates": [{"q": OR, "u": {"$set": {"z": 1}}, "multi": True}]},
    {"delete": "t", "deletes": [{"q": OR, "limit": 0}]}, {"find": "none", "filter": OR}, {"find": "t", "filter": {"$nor": [{"a": 1}, {"c": 2}]}},
]  # fmt: skip


@pytest.mark.parametrize("verbosity", ["queryPlanner", "executionStats"])
@pytest.mark.parametrize("command", BRANCHED, ids=named)
def test_branches_are_planned_by_themselves(shaped, command, verbosity):
    """SUBPLAN stands where mongod has it, and not elsewhere."""

    def above(server):
        reply = server.run("shaped", {"explain": command, "verbosity": verbosity})
        cursor = reply if reply.get("queryPlanner") else reply.get("stages")[0].get("$cursor")
        stage = cursor.get("queryPlanner").get("winningPlan") if verbosity == "queryPlanner" else cursor.get("executionStats").get("executionStages")
        names = []
        while stage is not None:
            names.append(stage.get("stage"))
            stage = stage.get("inputStage")
        # Documents are fetched below an OR here.
        return [name for name in names if name not in ('"FETCH"', '"IXSCAN"', '"OR"', '"COLLSCAN"')]

    subject, oracle = map(above, shaped)
    assert subject == oracle
