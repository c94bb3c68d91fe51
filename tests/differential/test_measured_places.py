"""2dsphere indexes on the measurements of time series, and $geoNear over them: beside mongod, with the index and without."""

import datetime
import random
import re

import bson
import pytest
from harness import canonical, cases

START = datetime.datetime(2026, 1, 1)
DATABASE = "measured_places"
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]]}
REGIONS = {
    "square": {"$geoWithin": {"$geometry": SQUARE}}, "intersects": {"$geoIntersects": {"$geometry": SQUARE}}, "cap": {"$geoWithin": {"$centerSphere": [[5, 2], 0.05]}}, "small": {"$geoWithin": {"$centerSphere": [[2, 1], 0.001]}},
    "point": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [5, 2]}}}, "nowhere": {"$geoWithin": {"$centerSphere": [[-120, -60], 0.01]}}, "far": {"$geoWithin": {"$centerSphere": [[5, 2], 3]}},
    "line": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [20, 20]]}}}, "not": {"$not": {"$geoWithin": {"$geometry": SQUARE}}},
}  # fmt: skip
KEYS = [
    {"loc": "2dsphere", "v": 1}, {"m": 1, "loc": "2dsphere"}, {"m": "2dsphere", "loc": "2dsphere"}, {"loc": "2dsphere", "b": "2dsphere"}, {"t": "2dsphere"}, {"a.b": "2dsphere"}, {"v": -1, "loc": "2dsphere"}, {"m.x": "2dsphere"}, {"loc": "2dsphere_bucket"},
    {"data.q": "2dsphere_bucket"}, {"loc": "2d"}, {"loc": "2dsphere", "m": 1, "t": -1},
]  # fmt: skip
VALUES = [
    5, "x", None, {}, [], [1, 2], {"type": "Point", "coordinates": [500, 1]}, {"type": "Point"}, {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, [[1, 2], [3, 4]], {"x": 1, "y": 2}, {"type": "Point", "coordinates": [1, 2]}, [200, 1],
    [{"type": "Point", "coordinates": [1, 1]}, {"type": "Point", "coordinates": [2, 2]}], True, START, {"type": "Polygon", "coordinates": SQUARE["coordinates"]}, {"type": "Nothing", "coordinates": [1, 2]},
]  # fmt: skip


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:60]


def run(servers, command):
    for server in servers:
        assert server.run(DATABASE, command).get("ok") == "double(1.0)", command


def compare(servers, command, **options):
    case = cases.Case(name=DATABASE, commands=[], database=DATABASE, **options)
    cases.compare_command(*servers, case, command)


def readings(count, seed=7):
    numbers = random.Random(seed)
    for number in range(count):
        # Some sensors stay, some wander, one is everywhere.
        sensor = number % 7
        spread = [0.0, 0.0, 0.5, 2.0, 8.0, 20.0, 150.0][sensor]
        place = {"type": "Point", "coordinates": [sensor * 2 + numbers.uniform(-spread, spread), sensor + numbers.uniform(-spread, spread) / 2]}
        reading = {"_id": number, "t": START + datetime.timedelta(seconds=number), "m": sensor, "v": number % 11, "loc": place, "a": {"b": place}}
        if number % 13 == 0:
            del reading["loc"]
        yield reading


@pytest.fixture(scope="module", params=[False, True], ids=["unindexed", "indexed"])
def places(_subject, _oracle, request):
    servers = _subject, _oracle
    run(servers, {"dropDatabase": 1})
    run(servers, {"create": "x", "timeseries": {"timeField": "t", "metaField": "m"}})
    measured = list(readings(2_000))
    run(servers, {"insert": "x", "documents": measured[:500]})
    if request.param:
        run(servers, {"createIndexes": "x", "indexes": [{"key": {"loc": "2dsphere"}, "name": "loc_2dsphere"}, {"key": {"m": 1, "a.b": "2dsphere"}, "name": "of_series"}]})
    for start in range(500, 2_000, 500):
        run(servers, {"insert": "x", "documents": measured[start : start + 500]})
    return servers


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("path", ["loc", "a.b", "nothing"])
@pytest.mark.parametrize("beside", [{}, {"m": 4}, {"v": {"$gt": 7}}, {"m": {"$in": [1, 6]}, "t": {"$lt": START + datetime.timedelta(hours=1)}}], ids=named)
def test_regions(places, region, path, beside):
    condition = {path: REGIONS[region], **beside}
    compare(places, {"find": "x", "filter": condition, "batchSize": 2_000, "projection": {"_id": 1}}, ordered=False)
    compare(places, {"aggregate": "x", "pipeline": [{"$match": condition}, {"$group": {"_id": "$m", "n": {"$sum": 1}}}], "cursor": {}}, ordered=False)


POINTS = {"geojson": {"type": "Point", "coordinates": [5, 2]}, "legacy": [5, 2], "far": {"type": "Point", "coordinates": [-170, -80]}}
NEAR = [
    {}, {"maxDistance": 100_000}, {"minDistance": 100_000}, {"minDistance": 10_000, "maxDistance": 300_000}, {"spherical": True}, {"spherical": True, "maxDistance": 0.05, "distanceMultiplier": 6378.1}, {"maxDistance": 0}, {"maxDistance": 3}, {"distanceMultiplier": 0.001},
    {"distanceField": "d.x"}, {"query": {"m": 5}}, {"includeLocs": "l"}, {"key": "m"}, {"key": None}, {"key": "a.b"}, {"key": "nothing"}, {"key": "t"}, {"maxDistance": -1},
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("options", NEAR, ids=named)
def test_near(places, point, options):
    stage = {"near": POINTS[point], "distanceField": "d", "key": "loc", **options}
    if stage["key"] is None:
        del stage["key"]
    differs = "mongod shows its parse tree" if stage.get("key") == "m" else None
    for behind in ([], [{"$limit": 7}], [{"$match": {"m": 4}}, {"$limit": 3}]):
        # Those that are equally far come in any order.
        pipeline = [{"$geoNear": stage}, *behind, {"$project": {"_id": {"$cond": [{"$gt": ["$m", 1]}, "$_id", 0]}, "d": 1}}]
        compare(places, {"aggregate": "x", "pipeline": pipeline, "cursor": {"batchSize": 2_000}}, message_differs=differs, ordered=True)
    compare(places, {"aggregate": "x", "pipeline": [{"$match": {"v": 1}}, {"$geoNear": stage}], "cursor": {}})


def test_near_metadata(_subject, _oracle):
    servers = _subject, _oracle
    run(servers, {"create": "of_meta", "timeseries": {"timeField": "t", "metaField": "m"}})
    run(servers, {"createIndexes": "of_meta", "indexes": [{"key": {"m.at": "2dsphere"}, "name": "at"}]})
    run(servers, {"insert": "of_meta", "documents": [{"_id": number, "t": START, "m": {"at": [number % 9, number % 7], "n": number % 63}, "v": number} for number in range(126)]})
    for options in ({}, {"maxDistance": 300_000}, {"minDistance": 300_000}):
        stage = {"near": {"type": "Point", "coordinates": [3.3, 2.2]}, "distanceField": "d", "key": "m.at", **options}
        compare(servers, {"aggregate": "of_meta", "pipeline": [{"$geoNear": stage}, {"$project": {"_id": 1}}], "cursor": {"batchSize": 200}}, ordered=False)
        # (mongod loses the distance where buckets are unpacked.)
        found = servers[0].client[DATABASE].of_meta.aggregate([{"$geoNear": stage}])
        distances = [reading["d"] for reading in found]
        assert distances == sorted(distances) and distances
    compare(servers, {"aggregate": "of_meta", "pipeline": [{"$geoNear": {**stage, "query": {"v": 1}}}], "cursor": {}})
    run(servers, {"drop": "of_meta"})


def test_the_index_is_used(places, request):
    """Few buckets are unpacked where the place is small."""
    indexed = "unindexed" not in request.node.name
    for filter, name in (({"loc": REGIONS["small"]}, "loc_2dsphere"), ({"a.b": REGIONS["small"], "m": 1}, "of_series")):
        explained = [bson.decode(server._wire.command(DATABASE, {"explain": {"find": "x", "filter": filter}, "verbosity": "executionStats"})) for server in places]
        cursors = [reply["stages"][0]["$cursor"] for reply in explained]
        assert [name in str(cursor["queryPlanner"]["winningPlan"]) for cursor in cursors] == [indexed, indexed]
        subject, oracle = (cursor["executionStats"]["totalDocsExamined"] for cursor in cursors)
        assert cursors[0]["queryPlanner"]["parsedQuery"] == cursors[1]["queryPlanner"]["parsedQuery"]
        assert cursors[0]["queryPlanner"]["queryHash"] == cursors[1]["queryPlanner"]["queryHash"]
        if indexed:
            buckets = places[0].run(DATABASE, {"count": "system.buckets.x"})
            assert 0 < subject < int(buckets.get("n")[6:-1])


@pytest.fixture
def empty(_subject, _oracle):
    servers = _subject, _oracle
    run(servers, {"drop": "y"}) if any("y" in canonical.text(server.run(DATABASE, {"listCollections": 1, "nameOnly": True, "filter": {"name": "y"}}).get("cursor").get("firstBatch")) for server in servers) else None
    run(servers, {"create": "y", "timeseries": {"timeField": "t", "metaField": "m"}})
    return servers


@pytest.mark.parametrize("key", KEYS, ids=named)
def test_definitions(empty, key):
    compare(empty, {"createIndexes": "y", "indexes": [{"key": key, "name": "place"}]}, message_differs=r"Command request|originalSpec")
    compare(empty, {"listIndexes": "y"}, sets=("cursor.firstBatch",))
    compare(empty, {"dropIndexes": "y", "index": key}, message_differs=True)
    compare(empty, {"listIndexes": "y"}, sets=("cursor.firstBatch",))


@pytest.mark.parametrize("options", [{"sparse": True}, {"hidden": True}], ids=named)
def test_options(empty, options):
    compare(empty, {"createIndexes": "y", "indexes": [{"key": {"loc": "2dsphere"}, "name": "place", **options}]})
    compare(empty, {"listIndexes": "y"}, sets=("cursor.firstBatch",))


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_values(empty, value):
    """What is no point is refused, alone and among others; what is refused when it is there already stops the index."""
    index = {"createIndexes": "y", "indexes": [{"key": {"loc": "2dsphere"}, "name": "place"}]}
    good = [{"_id": number, "t": START, "m": 1, "loc": {"type": "Point", "coordinates": [number, number]}} for number in range(3)]
    run(empty, index)
    compare(empty, {"insert": "y", "documents": [{"_id": 9, "t": START, "m": 0, "loc": value}]})
    run(empty, {"insert": "y", "documents": good})
    compare(empty, {"insert": "y", "documents": [{"_id": 10, "t": START, "m": 1, "loc": value}], "ordered": False})
    compare(empty, {"find": "y", "filter": {"loc": REGIONS["square"]}, "projection": {"_id": 1}}, ordered=False)
    compare(empty, {"delete": "y", "deletes": [{"q": {"m": 0}, "limit": 0}]})
    run(empty, {"dropIndexes": "y", "index": "place"})
    compare(empty, {"insert": "y", "documents": [{"_id": 11, "t": START, "m": 2, "loc": value}]})
    replies = [server.run(DATABASE, index) for server in empty]
    assert replies[0].get("code") == replies[1].get("code"), replies
    compare(empty, {"find": "y", "filter": {"loc": REGIONS["square"]}, "projection": {"_id": 1}}, ordered=False)
    assert empty[0].run(DATABASE, {"validate": "system.buckets.y", "full": True}).get("valid") == "true"
