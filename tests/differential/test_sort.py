"""Sort: every type in order, arrays by their smallest or largest element, by scan and by index."""

import pytest

SORTS = {
    "a": {"a": 1, "_id": 1},
    "a_desc": {"a": -1, "_id": 1},
    "a_b": {"a.b": 1, "_id": 1},
    "a_b_desc": {"a.b": -1, "_id": 1},
    "a_0": {"a.0": 1, "_id": 1},
    "deep": {"a.b.c": -1, "_id": -1},
    "missing": {"zzz": 1, "_id": -1},
    "id_desc": {"_id": -1},
    "n": {"n": 1},
    "n_desc": {"n": -1},
    "s": {"s": 1},
    "double_direction": {"n": 1.0},
    "bad_direction": {"n": 2},
    "zero": {"n": 0},
    "string_direction": {"n": "1"},
    "null_direction": {"n": None},
    "meta": {"n": {"$meta": "textScore"}},
    "meta_random": {"n": {"$meta": "randVal"}},
    "empty_name": {"": 1},
    "dollar": {"$n": 1},
    "natural": {"$natural": 1},
    "natural_desc": {"$natural": -1},
    "trailing_dot": {"a.": 1},
    "parallel": {"a": 1, "a.b": 1, "_id": 1},
    "true_direction": {"n": True},
}


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS.keys())
def test_sort(pair, sort):
    pair.on_variants("values", lambda name: [{"find": name, "sort": sort, "projection": {"_id": 1}, "batchSize": 1000}])


LIMITED = {
    "top": ({}, {"age": 1, "_id": 1}, 0, 5),
    "top_desc": ({}, {"age": -1, "_id": 1}, 0, 5),
    "skip": ({}, {"city": 1, "age": -1, "_id": 1}, 7, 9),
    "filtered": ({"age": {"$gt": 10}}, {"age": -1, "_id": -1}, 0, 10),
    "city": ({"city": "Paris"}, {"age": -1, "_id": 1}, 0, 4),
    "city_range": ({"city": {"$gte": "L"}}, {"city": -1, "age": 1, "_id": 1}, 2, 20),
    "score": ({}, {"score": 1, "_id": 1}, 0, 20),
    "nick": ({}, {"nick": -1, "_id": 1}, 0, 60),
    "tags": ({}, {"tags": 1, "_id": 1}, 0, 30),
    "grades": ({"grades.grade": {"$gte": 2}}, {"grades.grade": -1, "_id": 1}, 0, 25),
    "born": ({}, {"born": -1}, 0, 3),
    "nested": ({}, {"address.street.name": 1, "address.zip": -1, "_id": 1}, 0, 10),
    "in_and_sort": ({"city": {"$in": ["Paris", "Tours"]}}, {"age": 1, "_id": 1}, 0, 12),
}


@pytest.mark.parametrize("condition,sort,skip,limit", LIMITED.values(), ids=LIMITED.keys())
def test_limited(pair, condition, sort, skip, limit):
    pair.on_variants(
        "people",
        lambda name: [
            {"find": name, "filter": condition, "sort": sort, "skip": skip, "limit": limit},
            {"aggregate": name, "pipeline": [{"$match": condition}, {"$sort": sort}, {"$skip": skip}, {"$limit": limit}], "cursor": {}},
        ],
    )
