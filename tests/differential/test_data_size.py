"""dataSize of ranges and up to limits, beside mongod."""

import re

import pytest
from bson.min_key import MinKey
from harness import cases

RANGES = [
    {}, {"keyPattern": {"a": 1}, "min": {"a": 1}, "max": {"a": 3}}, {"keyPattern": {"_id": 1}, "min": {"_id": 10}, "max": {"_id": 20}}, {"min": {"a": 1}, "max": {"a": 3}}, {"min": {"_id": 10}, "max": {"_id": 20}}, {"keyPattern": {"a": 1}},
    {"keyPattern": {"b": 1}, "min": {"b": 1}, "max": {"b": 3}}, {"keyPattern": {"a": 1}, "min": {"a": 3}, "max": {"a": 1}}, {"keyPattern": {"a": 1}, "min": {"a": 1}}, {"keyPattern": {"a": 1}, "max": {"a": 1}}, {"keyPattern": {"a": 1}, "min": {"b": 1}, "max": {"b": 2}},
    {"min": 1}, {"keyPattern": 1}, {"keyPattern": {}, "min": {}, "max": {}}, {"min": {"a": 1, "b": 1}, "max": {"a": 3, "b": 1}}, {"min": {"zz": 1}, "max": {"zz": 2}}, {"min": {"a": 1}, "max": {"_id": 2}}, {"keyPattern": {"a": 1.0}, "min": {"a": 1}, "max": {"a": 3}},
    {"keyPattern": {"a": -1}, "min": {"a": 1}, "max": {"a": 3}}, {"min": {"_id": MinKey()}, "max": {"_id": 5}}, {"min": {}, "max": {}}, {"min": None}, {"keyPattern": {"a": 1}, "min": {"a": "x"}, "max": {"a": "y"}}, {"min": {"c": 3}, "max": {"c": 30}},
    {"keyPattern": {"c": 1, "d": -1}, "min": {"c": 3, "d": 1}, "max": {"c": 30, "d": 1}}, {"keyPattern": {"c": 1}, "min": {"c": 50}, "max": {"c": 51}}, {"keyPattern": {"s": 1}, "min": {"s": 1}, "max": {"s": 3}}, {"keyPattern": {"m": 1}, "min": {"m": 1}, "max": {"m": 3}},
]  # fmt: skip
LIMITS = [{}, {"maxSize": 100}, {"maxObjects": 3}, {"maxSize": 0}, {"maxObjects": 10_000}, {"estimate": True}, {"estimate": True, "maxObjects": 3}, {"maxSize": 100.5}, {"estimate": 1}, {"maxSize": -1}]


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:80]


@pytest.fixture(scope="module")
def sized(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("sized", {"dropDatabase": 1})
        server.run("sized", {"insert": "t", "documents": [{"_id": i, "a": i % 5, "c": i, "d": i % 3, "m": [i], "s": i, "text": "x" * (i % 7)} for i in range(100)]})
        indexes = [{"key": {"a": 1}, "name": "a_1"}, {"key": {"c": 1, "d": -1}, "name": "c_d"}, {"key": {"m": 1}, "name": "m_1"}, {"key": {"s": 1}, "name": "s_1", "sparse": True}]
        server.run("sized", {"createIndexes": "t", "indexes": indexes})
    return _subject, _oracle


@pytest.mark.parametrize("limit", LIMITS, ids=named)
@pytest.mark.parametrize("range", RANGES, ids=named)
def test_ranges(sized, range, limit):
    # (mongod tells the estimate beside some errors, too.)
    for collection in ("sized.t", "sized.none"):
        case = cases.Case(name="sized", commands=[], database="sized", ignore=("millis", "estimate"))
        cases.compare_command(*sized, case, {"dataSize": collection, **range, **limit})
