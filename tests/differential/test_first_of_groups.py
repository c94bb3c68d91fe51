"""`$sort` and `$group` with nothing but `$first`, by leaps along an index: beside mongod, and beside a scan of all.

MERIDIAN_RANDOM_SEED repeats the random documents.
"""

import datetime
import itertools
import random

import pytest
from bson import Decimal128, Int64
from harness import canonical
from test_random_query import SEED
from test_timeseries import at, batch

DATABASE = "first"
KEYS = [{"a": 1, "b": -1}, {"a": 1, "b": 1}, {"a": -1, "b": -1, "c": 1}, {"c": 1, "a": 1, "b": -1}, {"d.e": 1, "b": -1}]
SORTS = [{"a": 1, "b": -1}, {"a": -1, "b": -1}, {"b": -1}, {"b": 1}, {"a": 1, "b": 1}, {"d.e": 1, "b": -1}, {"b": -1, "a": 1}]
FILTERS = [{}, {"c": 1}, {"a": {"$gte": 2}}, {"c": 2, "a": {"$lt": 5}}, {"b": {"$lt": 300}}, {"c": 1, "b": {"$gt": 100}}, {"a": {"$in": [1, 3, "x"]}}]
FIRST = {"b": {"$first": "$b"}, "all": {"$first": "$$ROOT"}}


def values(chance):
    numbers = [1, 2, Int64(2), 3.0, 2.5, Decimal128("3"), Int64(7)]
    return chance.choice([*numbers, *numbers, "x", "y", None, True, {"e": 1}, at(5), ...])


def documents(chance, count):
    order = chance.sample(range(count), count)
    for number in range(count):
        fields = {"_id": number, "b": order[number], "c": chance.randrange(1, 3), "a": values(chance), "d": {"e": values(chance)}}
        fields["d"] = {key: value for key, value in fields["d"].items() if value is not ...}
        yield {key: value for key, value in fields.items() if value is not ...}


def groups(server, pipeline, collection="x", **options):
    command = {"aggregate": collection, "pipeline": pipeline, "cursor": {"batchSize": 10_000}, **options}
    return sorted(canonical.text(document) for document in batch(server.run(DATABASE, command)))


def stages_of(value):
    """The names of the stages of an explanation."""
    if isinstance(value, dict):
        yield from ([value["stage"]] if "stage" in value else [])
        yield from itertools.chain.from_iterable(map(stages_of, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(stages_of, value))


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_first_of_each_group_is_found_by_leaps(_subject, _oracle, key):
    chance = random.Random(f"{SEED} {key}")
    print(f"MERIDIAN_RANDOM_SEED={SEED}")
    stored = list(documents(chance, 600))
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.client[DATABASE].x.insert_many(stored)
        server.client[DATABASE].x.create_index(list(key.items()))
    leaps = 0
    for sort, condition, by in itertools.product(SORTS, FILTERS, ("$a", "$d.e", "$c")):
        pipeline = [{"$match": condition}, {"$sort": sort}, {"$group": {"_id": by, **FIRST}}]
        ours, theirs = (groups(server, pipeline) for server in (_subject, _oracle))
        assert ours == theirs, pipeline
        assert ours == groups(_subject, pipeline, hint={"$natural": 1}), pipeline
        plan = _subject.client[DATABASE].command("explain", {"aggregate": "x", "pipeline": pipeline, "cursor": {}}, verbosity="queryPlanner")
        leaps += "DISTINCT_SCAN" in stages_of(plan)
    assert leaps >= 2, leaps


@pytest.mark.parametrize("count", [255, 257, 3_000, 20_000])
def test_groups_of_an_index_range_are_shared_by_two_cores(_subject, _oracle, count):
    """What is first and last of each group stays, however many documents an index range has."""
    stored = [{"_id": number * 7 % count if count % 7 else number, "a": number // 3, "c": number % 5, "x": number / 8} for number in range(count)]
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.client[DATABASE].x.create_index([("a", 1)])
        server.client[DATABASE].x.insert_many(stored)
    group = {"n": {"$sum": 1}, "first": {"$first": "$x"}, "last": {"$last": "$x"}, "mean": {"$avg": "$x"}, "all": {"$max": "$_id"}}
    for condition in ({"a": {"$gte": 0}}, {"a": {"$gte": 0}, "x": {"$gt": count / 16}}, {"a": {"$lt": count // 9}}):
        for sort in ([], [{"$sort": {"a": 1}}], [{"$sort": {"a": -1}}]):
            pipeline = [{"$match": condition}, *sort, {"$group": {"_id": "$c", **group}}]
            ours, theirs = (groups(server, pipeline, hint={"a": 1}) for server in (_subject, _oracle))
            assert ours == theirs, pipeline


def test_arrays_are_groups_as_wholes(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.client[DATABASE].x.create_index([("a", 1), ("b", -1)])
        server.client[DATABASE].x.insert_many({"_id": number, "a": [1, 2] if number % 3 else 1, "b": number} for number in range(20))
    pipeline = [{"$sort": {"a": 1, "b": -1}}, {"$group": {"_id": "$a", **FIRST}}]
    ours, theirs = (groups(server, pipeline) for server in (_subject, _oracle))
    assert ours == theirs and len(ours) == 2


@pytest.mark.parametrize("indexed", [True, False])
def test_the_last_reading_of_each_sensor(_subject, _oracle, indexed):
    """Over buckets that are compressed and some that are open, with readings that came late."""
    chance = random.Random(f"{SEED} {indexed}")
    print(f"MERIDIAN_RANDOM_SEED={SEED}")
    readings = [{"_id": number, "t": at(number * 7 + chance.randrange(-900, 900)) + datetime.timedelta(milliseconds=number % 1000), "m": {"s": number % 9, "k": "k"}, "v": number} for number in range(6_000)]
    readings.append({"_id": -1, "t": at(1), "v": 5})
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.client[DATABASE].command({"create": "x", "timeseries": {"timeField": "t", "metaField": "m"}})
        if indexed:
            server.client[DATABASE].x.create_index([("m.s", 1), ("t", -1)])
        for start in range(0, len(readings), 500):
            server.client[DATABASE].x.insert_many(readings[start : start + 500])
    for sort in ({"m.s": 1, "t": -1}, {"t": -1}, {"m.s": 1, "t": 1}):
        for condition in ({}, {"m.s": {"$gt": 3}}, {"t": {"$lt": at(9_000)}}, {"v": {"$lt": 3_000}}):
            pipeline = [{"$match": condition}, {"$sort": sort}, {"$group": {"_id": "$m.s", "t": {"$first": "$t"}, "v": {"$first": "$v"}}}]
            ours, theirs = (groups(server, pipeline) for server in (_subject, _oracle))
            assert ours == theirs, pipeline
