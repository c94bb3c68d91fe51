"""$bucketAuto with each granularity, over numbers of every type. Whole replies beside mongod's. MERIDIAN_RANDOM_SEED repeats a run."""

import random

import pytest
from bson import Decimal128, Int64
from harness import cases
from test_random_query import SEED

DATABASE = "preferred"
GRANULARITIES = ["R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192", "POWERSOF2"]


def numbers(choice):
    return {
        "doubles": [choice.uniform(0.0001, 1000) for _ in range(60)],
        "magnitudes": [10 ** choice.uniform(-5, 7) for _ in range(60)],
        "integers": [choice.randrange(2000) for _ in range(60)],
        "longs": [Int64(choice.randrange(2**40)) for _ in range(30)],
        "decimals": [Decimal128(str(round(10 ** choice.uniform(-3, 4), 5))) for _ in range(30)],
        "zeros": [0, 0, 0, 0, 1, 2, 3, 4, 5, 6],
        "zero_of_doubles": [0.0, 0.5, 1, 2, 4, 8, 16],
        "powers": [2**exponent for exponent in range(20)],
        "boundaries": [10, 16, 25, 40, 63, 100],
        "mixed": [Decimal128("0"), Decimal128("1.5"), 3, Int64(4), 4.5],
        "zero": [0],
        "equal": [1] * 5,
        "tenths": [0.1 * number for number in range(30)],
        "hundredths": [0.01 * number for number in range(1, 300)],
        "negative": [-1, 2], "text": ["x"], "null": [None], "not_a_number": [float("nan")], "document": [{}], "negative_decimal": [Decimal128("-1")],
    }  # fmt: skip


NUMBERS = numbers(random.Random(SEED))


def compare(servers, pipeline):
    case = cases.Case(name="preferred", commands=[], database=DATABASE, ordered=True)
    cases.compare_command(*servers, case, {"aggregate": "numbers", "pipeline": pipeline, "cursor": {}})


@pytest.mark.parametrize("name", NUMBERS)
def test_boundaries(_subject, _oracle, name):
    print(f"seed {SEED}")
    servers = (_subject, _oracle)
    for server in servers:
        server.run(DATABASE, {"drop": "numbers"})
        server.run(DATABASE, {"insert": "numbers", "documents": [{"_id": at, "v": value} for at, value in enumerate(NUMBERS[name])]})
    for granularity in GRANULARITIES:
        for buckets in (1, 2, 3, 5, 20, 100):
            compare(servers, [{"$bucketAuto": {"groupBy": "$v", "buckets": buckets, "granularity": granularity}}])


@pytest.mark.parametrize("granularity", [1, None, "foo", "", "r5", [], {}], ids=str)
def test_names(_subject, _oracle, granularity):
    compare((_subject, _oracle), [{"$bucketAuto": {"groupBy": "$v", "buckets": 2, "granularity": granularity}}])
