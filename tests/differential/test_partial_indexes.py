"""Partial indexes: of plain collections beside NaN, and of time series by what their measurements have."""

import datetime
import random

import pytest
from bson import BSON
from harness import canonical
from test_random_query import SEED
from test_timeseries import SERIES, at, named, same, servers  # noqa: F401

DATABASE = "series"
NAN = float("nan")
VALUES = [NAN, float("-inf"), 1, 3.5, 5, 7, float("inf"), None, "a"]
CONDITIONS = [{operator: value} for operator in ("$eq", "$lt", "$lte", "$gt", "$gte") for value in (NAN, 5)] + [{"$in": [NAN, 3.5]}, {"$in": [1, 7]}, {"$exists": True}]
DAY = datetime.datetime(2024, 1, 1)

# fmt: off
PARTIALS = [
    {"v": {"$gt": 5}}, {"v": 5}, {"v": {"$lte": 5}}, {"v": {"$gte": 3, "$lt": 7}}, {"v": {"$lt": "b"}}, {"t": {"$gte": at(3000)}}, {"t": {"$lt": at(3000)}}, {"m": 1, "v": {"$gt": 3}}, {"$and": [{"v": {"$gt": 1}}, {"v": {"$lt": 9}}]},
    {"$or": [{"v": 1}, {"m": 2}]}, {"v": {"$exists": True}}, {"v": {"$in": [1, 2]}}, {"w.a": {"$gt": 5}}, {"t": {"$exists": True}}, {"t": {"$in": [at(3000)]}}, {"_id": 5}, {"v": {"$gt": NAN}}, {"v": True}, {"m": {"$type": "int"}},
    {"p": {"$geoWithin": {"$centerSphere": [[0, 0], 1]}}},
    # Refused.
    {"v": {"$type": "int"}}, {"v": {"$exists": False}}, {"v": None}, {"v": {"$gt": None}}, {"v": {"a": 1}}, {"v": [1]}, {"t": 5}, {"v": {"$regex": "a"}}, {"$or": [{"v": 1}, {"w": None}]}, {"v": {"$ne": 5}}, {"v": {"$in": [None, 1]}},
    {"v": {"$bad": 1}}, {"v": {"$in": [[1]]}},
]
QUERIES = [
    {"v": {"$gt": 6}}, {"v": {"$gt": 5}}, {"v": 5}, {"v": {"$lt": 2}}, {"v": NAN}, {"v": {"$lte": NAN}}, {"v": "a"}, {"v": {"$in": [1, 2]}}, {"v": 1}, {"v": {"$gt": 6}, "m": 1}, {"m": 2}, {"m": 1}, {"v": {"$gte": 4, "$lt": 6}, "m": {"$gt": 0}},
    {"t": {"$gte": at(4000)}}, {"t": {"$lt": at(2000)}, "m": 1}, {"t": at(3000)}, {"w.a": {"$gt": 6}}, {"v": True}, {"v": {"$exists": True}}, {"v": None}, {"v": {"$type": "string"}}, {"_id": 5}, {"_id": {"$lt": 9}},
]
# fmt: on


@pytest.mark.parametrize("partial", CONDITIONS, ids=named)
def test_conditions_beside_nan(servers, partial):  # noqa: F811
    """Where NaN is ordered it is less than all numbers, where it is compared it is equal to itself alone."""
    documents = [{"_id": number, "x": value, "y": 1} for number, value in enumerate(VALUES)]
    same(servers, {"insert": "n", "documents": [*documents, {"_id": 99, "y": 1}]})
    for name in ("x", "y"):
        same(servers, {"createIndexes": "n", "indexes": [{"key": {name: 1}, "name": name, "partialFilterExpression": {"x": partial}}]})
        for condition in CONDITIONS:
            same(servers, {"find": "n", "filter": {"x": condition, "y": 1}, "sort": {"_id": 1}})
            same(servers, {"count": "n", "query": {"x": condition, "y": 1}})
        same(servers, {"dropIndexes": "n", "index": name})


def measurements():
    choice = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(400):
        # Values of one type for each series, in most.
        series = choice.randrange(6)
        value = choice.choice([[1, 2, 5, 6.5], [4, 5, 8, NAN], ["a", "c"], [True, None], [3, "b", 7], [9]][series])
        one = {"t": at(number * 20), "m": series, "_id": number, "v": value, "w": {"a": choice.randrange(10)}}
        if choice.random() < 0.2:
            del one["v"]
        yield one


@pytest.mark.parametrize("partial", PARTIALS, ids=named)
def test_of_time_series(servers, partial):  # noqa: F811
    """As many answers with the index as without, on both servers; and it is listed as it was written."""
    subject = servers[0].client[DATABASE]
    same(servers, {"create": "x", "timeseries": SERIES})
    same(servers, {"insert": "x", "documents": list(measurements())})
    same(servers, {"createIndexes": "x", "indexes": [{"key": {"m": 1}, "name": "i", "partialFilterExpression": partial}]})
    same(servers, {"createIndexes": "x", "indexes": [{"key": {"m": 1}, "name": "i", "partialFilterExpression": partial}]})
    same(servers, {"listIndexes": "x"})
    for query in QUERIES:
        found = subject.command({"find": "x", "filter": query, "batchSize": 1000})["cursor"]["firstBatch"]
        plain = subject.command({"find": "x", "filter": query, "batchSize": 1000, "hint": {"$natural": 1}})["cursor"]["firstBatch"]
        assert sorted(one["_id"] for one in found) == sorted(one["_id"] for one in plain), query
    same(servers, {"dropIndexes": "x", "index": "i"})
    same(servers, {"listIndexes": "x"})


def test_filters_of_time_series_are_bounded(servers):  # noqa: F811
    """At the bound, past it and at a thousand times; none keeps the others from being used."""
    subject = servers[0].client[DATABASE]
    subject.command({"create": "x", "timeseries": SERIES})
    subject.x.insert_many(list(measurements()))
    size = 65_536 - len(BSON.encode({"v": {"$gt": ""}}))
    for number, (length, code) in enumerate([(size, None), (size + 1, 2), (1_000 * size // 5, 2)]):
        partial = {"v": {"$gt": "x" * length}}
        reply = subject.command({"createIndexes": "x", "indexes": [{"key": {"m": 1}, "name": f"i{number}", "partialFilterExpression": partial}]}, check=False)
        assert reply.get("code") == code, reply
    # Many small conditions become many times as many.
    partial = {"v": {"$in": list(range(5_900))}}
    assert len(BSON.encode(partial)) < 65_536
    subject.command({"createIndexes": "x", "indexes": [{"key": {"m": -1}, "name": "many", "partialFilterExpression": partial}]})
    assert subject.x.count_documents({"v": 5, "m": {"$gte": 0}}) == sum(one.get("v") == 5 for one in measurements())
    subject.command({"dropIndexes": "x", "index": "*"})


def test_statements_within_a_partial_index_of_a_time_series_use_it(servers):  # noqa: F811
    subject = servers[0].client[DATABASE]
    same(servers, {"create": "x", "timeseries": SERIES})
    subject.x.insert_many(list(measurements()))
    for partial, query, is_within in [
        ({"v": {"$gt": 5}}, {"v": {"$gt": 6}}, True),
        ({"v": {"$gt": 5}}, {"v": {"$gt": 4}}, False),
        ({"v": {"$lt": 5}}, {"v": {"$lt": 3}}, True),
        ({"v": {"$lt": 5}}, {"v": {"$lt": 6}}, False),
        ({"v": {"$in": [1, 2]}}, {"v": 1}, True),
        ({"v": {"$in": [1, 2]}}, {"v": 3}, False),
        ({"t": {"$gte": DAY}}, {"t": {"$gte": DAY + datetime.timedelta(days=1)}}, True),
        ({"t": {"$gte": DAY}}, {"t": {"$lt": DAY}}, False),
        ({"v": {"$exists": True}}, {"v": 5}, True),
        ({"v": {"$exists": True}}, {"w": 5}, False),
    ]:
        subject.command({"createIndexes": "x", "indexes": [{"key": {"m": 1}, "name": "i", "partialFilterExpression": partial}]})
        pipeline = [{"$match": {"m": 1, **query}}]
        shown = canonical.text(servers[0].run(DATABASE, {"explain": {"aggregate": "x", "pipeline": pipeline, "cursor": {}}}))
        assert ('"IXSCAN"' in shown) == is_within, (partial, query, shown)
        subject.command({"dropIndexes": "x", "index": "i"})


def test_written_definitions_are_definitions(servers):  # noqa: F811
    """What an index of buckets keeps as the user's definition is checked as one, wherever it is given."""
    for written in ({"x": 1}, 3, {}, {"key": {"a": 1}}, {"key": {"a": "bad"}, "name": "i"}, {"key": {"a": 1}, "name": "i", "partialFilterExpression": {"a": {"$bad": 1}}}):
        same(servers, {"createIndexes": "plain", "indexes": [{"key": {"a": 1}, "name": "i", "originalSpec": written}]})
