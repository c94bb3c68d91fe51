"""Nearest-first queries on 2dsphere and 2d indexes: forms, errors and commands by table, and seeded random searches.

MERIDIAN_NEAR_SEED repeats a run, MERIDIAN_NEAR_DOCUMENTS and MERIDIAN_NEAR_QUERIES change its size.
Distances must be mongod's to 1e-9. Where several documents are equally far, mongod gives them in any
order (Meridian by `_id`), so there only the set is compared.
"""

import math
import os
import random
import time

import pytest
from harness.cases import Case
from test_geo_random import Generator, wrap

SEED = int(os.environ.get("MERIDIAN_NEAR_SEED", "20180401"))
DOCUMENTS = int(os.environ.get("MERIDIAN_NEAR_DOCUMENTS", "2500"))
QUERIES = int(os.environ.get("MERIDIAN_NEAR_QUERIES", "2400"))
RADIUS = 6_378_100.0


def point(lon, lat):
    return {"type": "Point", "coordinates": [lon, lat]}


HERE = point(0.5, 0.5)
LINE = {"type": "LineString", "coordinates": [[3, 3], [4, 5]]}
DOCS = [
    {"_id": 0, "loc": point(0, 0), "a": 0, "s": "x0"},
    {"_id": 1, "loc": point(1, 1), "a": 1, "s": "x1"},
    {"_id": 2, "loc": point(2, 2), "a": 0, "s": "x2"},
    {"_id": 3, "loc": point(-170, 5), "a": 1},
    {"_id": 4, "loc": point(179, -89), "a": 0},
    {"_id": 10, "loc": LINE},
    {"_id": 11, "loc": {"type": "Polygon", "coordinates": [[[5, 5], [7, 5], [7, 7], [5, 7], [5, 5]]]}},
    {"_id": 12, "x": 1},
    {"_id": 14, "loc": [9.5, -3.25], "a": 1},
]
NEAR = {"$near": {"$geometry": HERE}}
NUMBERS = {"negative": -1, "text": "x", "nan": math.nan, "inf": math.inf, "null": None, "zero": 0, "long_way": 1e12}

FILTERS = {
    "geojson": {"loc": NEAR},
    "within": {"loc": {"$near": {"$geometry": HERE, "$minDistance": 100000, "$maxDistance": 400000}}},
    "sphere_geojson": {"loc": {"$nearSphere": {"$geometry": HERE, "$maxDistance": 100000}}},
    "sphere_pair": {"loc": {"$nearSphere": [0.5, 0.5], "$minDistance": 0.0001, "$maxDistance": 0.02}},
    "sphere_three": {"loc": {"$nearSphere": [0.5, 0.5, 0.02]}},
    "sphere_four": {"loc": {"$nearSphere": [0.5, 0.5, 0.02, 1]}},
    "sphere_names": {"loc": {"$nearSphere": {"x": 0.5, "y": 0.5}}},
    "old_geojson": {"loc": {"$near": HERE, "$maxDistance": 100000}},
    "old_sphere_geojson": {"loc": {"$nearSphere": HERE, "$maxDistance": 100000}},
    "planar": {"loc": {"$near": [0.5, 0.5]}},
    "planar_limit": {"loc": {"$near": [0.5, 0.5], "$maxDistance": 1}},
    "geo_near": {"loc": {"$geoNear": {"$geometry": HERE}}},
    "geo_near_pair": {"loc": {"$geoNear": [0.5, 0.5]}},
    "unique": {"loc": {"$near": HERE, "$uniqueDocs": True}},
    "and": {"$and": [{"loc": NEAR}, {"a": 1}]},
    "and_and": {"$and": [{"$and": [{"loc": NEAR}]}, {"a": 1}]},
    "expr": {"loc": NEAR, "$expr": {"$eq": ["$a", 1]}},
    "or_single": {"$or": [{"loc": NEAR}]},
    "with_or": {"loc": NEAR, "$or": [{"a": 1}, {"_id": 0}]},
    "by_id": {"loc": NEAR, "_id": 2},
    "in_area": {"$and": [{"loc": NEAR}, {"loc": {"$geoWithin": {"$centerSphere": [[0, 0], 0.02]}}}]},
    "nothing_between": {"loc": {"$near": {"$geometry": HERE, "$minDistance": 200000, "$maxDistance": 100000}}},
    "at_zero": {"loc": {"$near": {"$geometry": point(1, 1), "$maxDistance": 0}}},
    # errors
    "outside_max": {"loc": {"$near": {"$geometry": HERE}, "$maxDistance": 1}},
    "outside_unknown": {"loc": {"$near": {"$geometry": HERE}, "$foo": 1}},
    "sibling": {"loc": {"$near": {"$geometry": HERE}, "$exists": True}},
    "sibling_old": {"loc": {"$near": HERE, "$exists": True}},
    "sibling_first": {"loc": {"$exists": True, "$near": HERE}},
    "inside_unknown": {"loc": {"$near": {"$geometry": HERE, "$foo": 1}}},
    "line": {"loc": {"$near": {"$geometry": LINE}}},
    "empty": {"loc": {"$near": {}}},
    "number": {"loc": {"$near": 5}},
    "text": {"loc": {"$near": "x"}},
    "empty_array": {"loc": {"$near": []}},
    "one": {"loc": {"$near": [1]}},
    "geometry_pair": {"loc": {"$near": {"$geometry": [0, 0]}}},
    "geometry_number": {"loc": {"$near": {"$geometry": 5}}},
    "no_geometry": {"loc": {"$near": {"$maxDistance": 5}}},
    "out_of_bounds": {"loc": {"$near": {"$geometry": point(200, 0)}}},
    "out_of_bounds_pair": {"loc": {"$nearSphere": [200, 0]}},
    "out_of_bounds_old": {"loc": {"$near": point(200, 0)}},
    "no_coordinates": {"loc": {"$near": {"$geometry": {"type": "Point"}}}},
    "text_coordinates": {"loc": {"$near": {"$geometry": {"type": "Point", "coordinates": ["a", 1]}}}},
    "text_pair": {"loc": {"$near": ["a", 1]}},
    "or": {"$or": [{"loc": NEAR}, {"a": 1}]},
    "or_below": {"$and": [{"$or": [{"loc": NEAR}, {"x": 1}]}, {"a": 1}]},
    "nor": {"$nor": [{"loc": NEAR}]},
    "not": {"loc": {"$not": NEAR}},
    "element": {"loc": {"$elemMatch": NEAR}},
    "element_object": {"locs": {"$elemMatch": {"p": NEAR}}},
    "twice": {"$and": [{"loc": NEAR}, {"loc": NEAR}]},
    "all": {"loc": {"$all": [NEAR]}},
    "no_index": {"nope": NEAR},
    **{f"max_{name}": {"loc": {"$near": {"$geometry": HERE, "$maxDistance": value}}} for name, value in NUMBERS.items()},
    **{f"min_{name}": {"loc": {"$near": {"$geometry": HERE, "$minDistance": value}}} for name, value in NUMBERS.items()},
    **{f"old_max_{name}": {"loc": {"$nearSphere": [0.5, 0.5], "$maxDistance": value}} for name, value in NUMBERS.items()},
    **{f"old_min_{name}": {"loc": {"$nearSphere": [0.5, 0.5], "$minDistance": value}} for name, value in NUMBERS.items()},
    "three_negative": {"loc": {"$nearSphere": [0.5, 0.5, -1]}},
}  # fmt: skip

ALLOWED = {"near": HERE, "distanceField": "d"}
STAGES = {
    "plain": ALLOWED,
    "spherical": {**ALLOWED, "spherical": True},
    "planar_geojson": {**ALLOWED, "spherical": False},
    "pair": {"near": [0.5, 0.5], "distanceField": "d", "spherical": True},
    "pair_planar": {"near": [0.5, 0.5], "distanceField": "d"},
    "names": {"near": {"x": 0.5, "y": 0.5}, "distanceField": "d", "spherical": True},
    "key": {**ALLOWED, "key": "loc"},
    "key_wrong": {**ALLOWED, "key": "nope"},
    "key_number": {**ALLOWED, "key": 5},
    "key_empty": {**ALLOWED, "key": ""},
    "key_null": {**ALLOWED, "key": None},
    "query": {**ALLOWED, "query": {"a": 1}},
    "query_or": {**ALLOWED, "query": {"$or": [{"a": 1}, {"_id": 0}]}},
    "query_same": {**ALLOWED, "query": {"loc": {"$exists": True}}},
    "query_near": {**ALLOWED, "query": {"loc": {"$near": [0, 0]}}},
    "query_number": {**ALLOWED, "query": 5},
    "multiplier": {**ALLOWED, "distanceMultiplier": 0.001},
    "multiplier_zero": {**ALLOWED, "distanceMultiplier": 0},
    "multiplier_text": {**ALLOWED, "distanceMultiplier": "x"},
    "multiplier_negative": {**ALLOWED, "distanceMultiplier": -1},
    "locations": {**ALLOWED, "includeLocs": "l"},
    "locations_below": {**ALLOWED, "includeLocs": "x.y"},
    "locations_number": {**ALLOWED, "includeLocs": 5},
    "locations_dollar": {**ALLOWED, "includeLocs": "$x"},
    "distance_below": {**ALLOWED, "distanceField": "s.b"},
    "distance_replaces": {**ALLOWED, "distanceField": "loc"},
    "distance_replaces_keeps": {**ALLOWED, "distanceField": "loc", "includeLocs": "l"},
    "distance_number": {**ALLOWED, "distanceField": 5},
    "distance_empty": {**ALLOWED, "distanceField": ""},
    "distance_dollar": {**ALLOWED, "distanceField": "$d"},
    "max": {**ALLOWED, "maxDistance": 200000},
    "min_max": {**ALLOWED, "minDistance": 100000, "maxDistance": 400000},
    "pair_max": {"near": [0.5, 0.5], "distanceField": "d", "spherical": True, "maxDistance": 0.04},
    "max_negative": {**ALLOWED, "maxDistance": -1},
    "max_text": {**ALLOWED, "maxDistance": "x"},
    "max_null": {**ALLOWED, "maxDistance": None},
    "max_nan": {**ALLOWED, "maxDistance": math.nan},
    "max_inf": {**ALLOWED, "maxDistance": math.inf},
    "max_expression": {**ALLOWED, "maxDistance": {"$add": [1, 1]}},
    "min_negative": {**ALLOWED, "minDistance": -1},
    "min_text": {**ALLOWED, "minDistance": "x"},
    "limit": {**ALLOWED, "limit": 1},
    "num": {**ALLOWED, "num": 1},
    "start": {**ALLOWED, "start": 1},
    "unique": {**ALLOWED, "uniqueDocs": True},
    "unknown": {**ALLOWED, "foo": 1},
    "spherical_number": {**ALLOWED, "spherical": 5},
    "no_distance": {"near": HERE},
    "no_near": {"distanceField": "d"},
    "nothing": {},
    "near_number": {"near": 5, "distanceField": "d"},
    "near_text": {"near": "x", "distanceField": "d"},
    "near_path": {"near": "$x", "distanceField": "d"},
    "near_literal": {"near": {"$literal": HERE}, "distanceField": "d"},
    "near_one": {"near": [1], "distanceField": "d"},
    "near_line": {"near": LINE, "distanceField": "d"},
    "near_out": {"near": point(200, 0), "distanceField": "d"},
    "near_out_pair": {"near": [200, 0], "distanceField": "d", "spherical": True},
    "number": 5,
}


def find(filter, **more):
    return {"find": "COLL", "filter": filter, "projection": {"_id": 1}, **more}


def aggregate(*stages, **more):
    return {"aggregate": "COLL", "pipeline": list(stages), "cursor": {}, **more}


GEO = {"$geoNear": ALLOWED}
COMMANDS = {
    "sorted": find({"loc": NEAR}, sort={"a": 1, "_id": -1}),
    "sorted_limit": find({"loc": NEAR}, sort={"_id": -1}, limit=2),
    "sorted_natural": find({"loc": NEAR}, sort={"$natural": 1}),
    "skip_limit": find({"loc": NEAR}, skip=2, limit=3),
    "batches": [find({"loc": NEAR}, batchSize=2)],
    "hint_name": find({"loc": NEAR}, hint="loc_2dsphere"),
    "hint_key": find({"loc": NEAR}, hint={"loc": "2dsphere"}),
    "hint_id": find({"loc": NEAR}, hint="_id_"),
    "hint_natural": find({"loc": NEAR}, hint={"$natural": 1}),
    "count": {"count": "COLL", "query": {"loc": NEAR}},
    "count_window": {"count": "COLL", "query": {"loc": NEAR, "a": 1}, "skip": 1, "limit": 1},
    "count_within": {"count": "COLL", "query": {"loc": {"$near": {"$geometry": HERE, "$maxDistance": 400000}}}},
    "distinct": {"distinct": "COLL", "key": "a", "query": {"loc": NEAR}},
    "missing": {"find": "OTHER", "filter": {"loc": NEAR}},
    "match": aggregate({"$match": {"loc": NEAR}}),
    "match_later": aggregate({"$limit": 1}, {"$match": {"loc": NEAR}}),
    "facet_match": aggregate({"$facet": {"a": [{"$match": {"loc": NEAR}}]}}),
    "partial": {"createIndexes": "COLL", "indexes": [{"key": {"z": 1}, "name": "z", "partialFilterExpression": {"loc": NEAR}}]},
    "validator": {"create": "OTHER", "validator": {"loc": NEAR}},
    "project_element": {"find": "COLL", "filter": {}, "projection": {"locs": {"$elemMatch": {"p": NEAR}}}},
    "update_one": [
        {"update": "COLL", "updates": [{"q": {"loc": NEAR}, "u": {"$set": {"u": 1}}}]},
        {"find": "COLL", "filter": {"u": 1}},
    ],
    "update_many": [
        {"update": "COLL", "updates": [{"q": {"loc": {"$near": {"$geometry": HERE, "$maxDistance": 400000}}}, "u": {"$set": {"u": 1}}, "multi": True}]},
        {"find": "COLL", "filter": {"u": 1}, "sort": {"_id": 1}},
    ],
    "upsert": {"update": "COLL", "updates": [{"q": {"_id": 99, "loc": {"$near": {"$geometry": HERE, "$maxDistance": 1}}}, "u": {"$set": {"u": 1}}, "upsert": True}]},
    "delete_one": [
        {"delete": "COLL", "deletes": [{"q": {"loc": NEAR}, "limit": 1}]},
        {"find": "COLL", "filter": {}, "sort": {"_id": 1}},
    ],
    "find_and_modify": {"findAndModify": "COLL", "query": {"loc": NEAR}, "update": {"$set": {"u": 3}}},
    "find_and_modify_sorted": {"findAndModify": "COLL", "query": {"loc": NEAR}, "sort": {"_id": -1}, "update": {"$set": {"u": 3}}},
    "find_and_remove": {"findAndModify": "COLL", "query": {"loc": NEAR, "a": 0}, "remove": True},
    "geo_second": aggregate({"$limit": 1}, GEO),
    "geo_facet": aggregate({"$facet": {"a": [GEO]}}),
    "geo_missing": {"aggregate": "OTHER", "pipeline": [GEO], "cursor": {}},
    "geo_missing_key": {"aggregate": "OTHER", "pipeline": [{"$geoNear": {**ALLOWED, "key": "loc"}}], "cursor": {}},
    "geo_limit": aggregate(GEO, {"$limit": 3}),
    "geo_skip_limit": aggregate(GEO, {"$skip": 2}, {"$limit": 3}),
    "geo_match": aggregate(GEO, {"$match": {"a": 1, "d": {"$lt": 1e6}}}),
    "geo_sort": aggregate(GEO, {"$sort": {"_id": -1}}),
    "geo_count": aggregate(GEO, {"$count": "n"}),
    "geo_group": aggregate(GEO, {"$group": {"_id": None, "n": {"$sum": 1}, "far": {"$max": "$d"}}}),
    "geo_project": aggregate(GEO, {"$project": {"d": 1}}),
    "geo_let": aggregate({"$geoNear": {"near": "$$here", "distanceField": "d"}}, {"$limit": 1}, let={"here": HERE}),
    "geo_let_query": aggregate({"$geoNear": {**ALLOWED, "query": {"$expr": {"$eq": ["$a", "$$v"]}}}}, let={"v": 1}),
    "geo_hint": aggregate(GEO, hint="_id_"),
    "geo_hint_own": aggregate(GEO, {"$limit": 2}, hint="loc_2dsphere"),
}  # fmt: skip

INDEX = [{"loc": "2dsphere"}]


@pytest.mark.parametrize("name", FILTERS)
def test_filter(pair, name):
    pair.run_case(Case(name="near_" + name, docs=DOCS, indexes=INDEX, commands=[find(FILTERS[name])], ordered=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_command(pair, name):
    pair.run_case(Case(name="near_" + name, docs=DOCS, indexes=INDEX, commands=COMMANDS[name], ordered=True))


@pytest.mark.parametrize("name", STAGES)
def test_stage(pair, name):
    pair.run_case(Case(name="near_" + name, docs=DOCS, indexes=INDEX, commands=[aggregate({"$geoNear": STAGES[name]})], ordered=True))


def test_index_is_needed(pair):
    commands = [find({"loc": NEAR}), aggregate(GEO)]
    pair.run_case(Case(name="near_no_index", docs=DOCS, commands=commands, ordered=True))


def test_several_indexes(pair):
    docs = [{"_id": 1, "a": point(0, 0), "b": point(1, 1)}, {"_id": 2, "a": point(3, 0), "b": point(0, 0)}]
    commands = [aggregate(GEO), aggregate({"$geoNear": {**ALLOWED, "key": "b"}}), find({"b": NEAR})]
    pair.run_case(Case(name="near_several", docs=docs, indexes=[{"a": "2dsphere"}, {"b": "2dsphere"}], commands=commands, ordered=True))


def test_compound(pair):
    docs = [{"_id": n, "a": n % 3, "loc": point(n / 7, -n / 9), "b": n % 5} for n in range(60)]
    commands = [
        find({"loc": NEAR}),
        find({"a": 1, "loc": NEAR}),
        find({"a": {"$in": [0, 2]}, "loc": NEAR}),
        find({"a": {"$gt": 0}, "loc": NEAR}),
        find({"a": 1, "b": {"$lt": 3}, "loc": NEAR}, limit=4),
    ]
    indexes = [{"a": 1, "loc": "2dsphere", "b": 1}]
    pair.run_case(Case(name="near_compound", docs=docs, indexes=indexes, commands=commands, ordered=True))


def test_lists_of_places(pair):
    docs = [
        {"_id": 1, "locs": [{"p": point(1, 1)}, {"p": point(0, 3)}]},
        {"_id": 2, "locs": [{"p": point(0.6, 0.5)}, {"p": point(50, 50)}, {"q": 1}]},
        {"_id": 3, "locs": {"p": LINE}},
        {"_id": 4, "locs": []},
    ]
    stage = {**ALLOWED, "includeLocs": "nearest"}
    commands = [
        find({"locs.p": NEAR}),
        find({"locs.p": {"$near": {"$geometry": HERE, "$minDistance": 100000}}}),
        aggregate({"$geoNear": stage}),
    ]
    pair.run_case(Case(name="near_lists", docs=docs, indexes=[{"locs.p": "2dsphere"}], commands=commands, ordered=True))


# -- 2d indexes

PAIRS = [
    [1, 2], [1, 2, 3], {"x": 1, "y": 2}, {"x": 4, "y": 2, "z": 3}, [[1, 2], [3, 4]], [{"x": 1, "y": 2}, [5, 6]], [180, 0],
    [-180, 0], [179.999999, 90], [0, 180], [0.5, -7.25], [10, 10], [-10, 10], [10, -10], None, "x", 5, True, [], [[]], {},
]  # fmt: skip
PLANE_DOCS = [{"_id": n, "loc": value, "a": n % 3} for n, value in enumerate(PAIRS)] + [{"_id": 100}]
REFUSED = [
    [1], {"x": 1}, [[1, 2], "x"], point(1, 2), [181, 0], [0, -181], ["a", "b"], [1, "b"], {"x": "a", "y": 1},
    [[1, 2], [200, 3]], [[[1, 2], [3, 4]]], [1, None], [None, 1],
]  # fmt: skip
PLANE_COMMANDS = {
    "near": find({"loc": {"$near": [1.1, 2.3]}}),
    "near_max": find({"loc": {"$near": [1.1, 2.3], "$maxDistance": 3}}),
    "near_min": find({"loc": {"$near": [1.1, 2.3], "$minDistance": 3, "$maxDistance": 100}}),
    "near_three": find({"loc": {"$near": [1.1, 2.3, 5]}}),
    "near_names": find({"loc": {"$near": {"lon": 1.1, "lat": 2.3}}}),
    "near_filter": find({"loc": {"$near": [1.1, 2.3]}, "a": 1}),
    "near_limit": find({"loc": {"$near": [9, 9]}}, skip=1, limit=3),
    "near_sphere": find({"loc": {"$nearSphere": [1.1, 2.3]}}),
    "near_sphere_max": find({"loc": {"$nearSphere": [1.1, 2.3], "$maxDistance": 0.2}}),
    "near_geojson": find({"loc": {"$near": {"$geometry": HERE}}}),
    "near_sphere_geojson": find({"loc": {"$nearSphere": {"$geometry": HERE}}}),
    "outside": find({"loc": {"$near": [1000, 2]}}),
    "outside_fraction": find({"loc": {"$near": [1000.5, -2]}}),
    "stage": aggregate({"$geoNear": {"near": [1.1, 2.3], "distanceField": "d", "includeLocs": "l"}}),
    "stage_sphere": aggregate({"$geoNear": {"near": [1.1, 2.3], "distanceField": "d", "spherical": True, "maxDistance": 0.3}}),
    "stage_geojson": aggregate({"$geoNear": {"near": HERE, "distanceField": "d"}}),
    "stage_query": aggregate({"$geoNear": {"near": [1.1, 2.3], "distanceField": "d", "query": {"a": 2}, "distanceMultiplier": 3}}),
    "box": {"find": "COLL", "filter": {"loc": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}}}, "sort": {"_id": 1}},
    "center": {"find": "COLL", "filter": {"loc": {"$geoWithin": {"$center": [[1, 2], 4]}}}, "sort": {"_id": 1}},
    "count": {"count": "COLL", "query": {"loc": {"$near": [1.1, 2.3], "$maxDistance": 20}}},
}  # fmt: skip
PLANE_SPECS = [
    {}, {"bits": 1}, {"bits": 32}, {"bits": 0}, {"bits": 33}, {"bits": "x"}, {"bits": 10.5}, {"bits": 2**40}, {"min": -10, "max": 10},
    {"min": 5, "max": 5}, {"min": 10, "max": 5}, {"min": "x"}, {"max": "x"}, {"unique": True}, {"sparse": True}, {"min": -500},
    {"max": 200}, {"partialFilterExpression": {"a": 1}}, {"min": math.nan}, {"min": 0, "max": math.inf}, {"bucketSize": 1}, {"min": 0.5},
]  # fmt: skip
PLANE_KEYS = [
    {"loc": "2d", "a": 1}, {"a": 1, "loc": "2d"}, {"loc": "2d", "b": "2d"}, {"loc": "2d", "b": "2dsphere"}, {"loc": "2d", "b": "hashed"},
    {"loc": "2d", "a": 1, "b": -1}, {"loc.x": "2d"},
]  # fmt: skip


@pytest.mark.parametrize("name", PLANE_COMMANDS)
def test_plane(pair, name):
    # Several are equally far, which mongod gives in any order; the random searches compare the order.
    pair.run_case(Case(name="plane_" + name, docs=PLANE_DOCS, indexes=[{"loc": "2d"}], commands=[PLANE_COMMANDS[name]], ordered=False))


def test_plane_compound(pair):
    docs = [{"_id": n, "loc": [n % 11 + n / 100, n // 11], "a": n % 3} for n in range(120)]
    docs += [{"_id": 200, "loc": [1.013, 1], "a": [1, 2]}, {"_id": 201, "loc": [[1, 1.7], [50, 50]], "a": {"b": 1}}]
    commands = [find({"loc": {"$near": [1.3, 1.1]}, "a": 1}, limit=9), find({"loc": {"$near": [7.1, 5.2], "$maxDistance": 3}, "a": {"$gte": 1}})]
    pair.run_case(Case(name="plane_compound", docs=docs, indexes=[{"loc": "2d", "a": 1}], commands=commands, ordered=True))


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_plane_refused(pair, number):
    commands = [{"insert": "COLL", "documents": [{"_id": 1, "loc": REFUSED[number]}]}]
    pair.run_case(Case(name=f"plane_refused_{number}", indexes=[{"loc": "2d"}], commands=commands))


def test_plane_bounds(pair):
    pairs = [[0, 0], [10, 5], [5, 10], [10, 10], [10.0001, 5], [-0.0001, 5], [9.9999, 9.5], [3, 4.5]]
    commands = [{"insert": "COLL", "documents": [{"_id": n, "loc": value}]} for n, value in enumerate(pairs)]
    commands += [find({"loc": {"$near": [5.2, 5.1]}}), find({"loc": {"$near": [50, 50]}})]
    spec = {"key": {"loc": "2d"}, "name": "loc", "min": 0, "max": 10, "bits": 5}
    pair.run_case(Case(name="plane_bounds", indexes=[spec], commands=commands, ordered=True))


@pytest.mark.parametrize("number", range(len(PLANE_SPECS)))
def test_plane_spec(pair, number):
    spec = {"key": {"loc": "2d"}, "name": "loc_2d", **PLANE_SPECS[number]}
    commands = [{"createIndexes": "COLL", "indexes": [spec]}, {"listIndexes": "COLL"}]
    pair.run_case(Case(name=f"plane_spec_{number}", docs=[{"_id": 1}], commands=commands))


@pytest.mark.parametrize("number", range(len(PLANE_KEYS)))
def test_plane_key(pair, number):
    commands = [{"createIndexes": "COLL", "indexes": [{"key": PLANE_KEYS[number], "name": "k"}]}, {"listIndexes": "COLL"}]
    pair.run_case(Case(name=f"plane_key_{number}", docs=[{"_id": 1}], commands=commands))


def test_plane_and_sphere(pair):
    docs = [{"_id": 1, "a": [0, 0], "b": point(1, 1)}, {"_id": 2, "a": [3, 4], "b": point(5, 1)}]
    commands = [
        aggregate(GEO),
        aggregate({"$geoNear": {"near": [0.5, 0.25], "distanceField": "d"}}),
        aggregate({"$geoNear": {"near": [0.5, 0.25], "distanceField": "d", "spherical": True}}),
        find({"b": NEAR}),
    ]
    pair.run_case(Case(name="plane_and_sphere", docs=docs, indexes=[{"a": "2d"}, {"b": "2dsphere"}], commands=commands, ordered=True))


# -- random searches


class Searches(Generator):
    """Documents and nearest-first pipelines from one seed."""

    def document(self, number):
        document = super().document(number)
        document["a"] = self.random.randrange(6)
        document["b"] = self.random.randrange(1000)
        return document

    def plane_document(self, number):
        """Pairs, some on a grid, and now and then several of them."""
        document = self.document(number)
        pairs = [self.coordinates() for _ in range(1 if self.random.random() < 0.9 else 3)]
        document["p"] = pairs[0] if len(pairs) == 1 else pairs
        return document

    def plane_search(self):
        stage, limit = self.search()
        near = stage["near"]["coordinates"] if isinstance(stage["near"], dict) else stage["near"]
        spherical = self.random.random() < 0.4
        unit = 1 if isinstance(stage["near"], list) else RADIUS
        if spherical:
            # mongod does not look beyond the antimeridian and the poles here: it misses what is near there.
            near = [self.random.uniform(-90, 90), self.random.uniform(-50, 50)]
            stage["maxDistance"] = self.random.uniform(0.01, 0.5) * unit
        if not spherical:
            unit = unit * math.pi / 180
        limits = {name: stage[name] / unit for name in ("minDistance", "maxDistance") if name in stage}
        return {**stage, "near": near, "spherical": spherical, **limits}, limit

    def search(self):
        """`(stage, limit)`: the limit keeps most answers short."""
        kind = self.random.random()
        place = self.near(1) if kind < 0.6 else self.coordinates()
        if kind > 0.9:
            place = self.random.choice([[0.0, 90.0], [12.5, -90.0], [180.0, 0.0], [-180.0, 10.0], wrap(180, 89.999)])
        is_pair = self.random.random() < 0.3
        unit = RADIUS if is_pair else 1.0
        stage = {"near": place if is_pair else point(*place), "spherical": True, "distanceField": "d", "key": "p"}
        if self.random.random() < 0.3:
            stage["minDistance"] = 10 ** self.random.uniform(1, 6.8) / unit
        if self.random.random() < 0.4:
            stage["maxDistance"] = 10 ** self.random.uniform(3, 7.3) / unit
        if self.random.random() < 0.1:
            stage["distanceMultiplier"] = self.random.choice([0.001, 2, 6378.1])
        query = self.random.choice([None, None, {"a": 2}, {"a": {"$in": [1, 4]}}, {"b": {"$lt": 300}}, {"a": {"$gte": 3}, "b": {"$gt": 900}}, {"_id": {"$lt": 500}}])
        if query is not None:
            stage["query"] = query
        limit = self.random.choice([1, 5, 10, 10, 20, 50, 200]) if self.random.random() < 0.98 else None
        return stage, limit


def answer(server, stage, limit):
    """The ids by distance, as a list of (distance, id)."""
    pipeline = [{"$geoNear": stage}] + ([{"$limit": limit}] if limit else []) + [{"$project": {"d": 1}}]
    reply = server.run("diff", {"aggregate": "near_random", "pipeline": pipeline, "cursor": {"batchSize": 1_000_000}})
    assert reply.get("ok") == "double(1.0)", f"{stage}: {reply.get('errmsg')}"
    return [(float(doc.get("d")[7:-1]), doc.get("_id")) for doc in reply.get("cursor").get("firstBatch")]


def difference(expected, actual, limit):
    """Why two answers differ; None when they do not. Equal distances may come in any order, and a limit
    may cut through them."""
    if len(expected) != len(actual):
        return f"mongod has {len(expected)} documents, meridian {len(actual)}"
    for place, ((want, _), (got, _)) in enumerate(zip(expected, actual)):
        if not math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-9):
            return f"distance {place}: mongod {want!r}, meridian {got!r}"
    groups = [{}, {}]
    for answers, group in zip((expected, actual), groups):
        last = None
        for distance, identity in answers:
            if last is None or not math.isclose(distance, last, rel_tol=1e-9, abs_tol=1e-9):
                group[len(group)] = set()
            last = distance
            group[len(group) - 1].add(identity)
    for number, (want, got) in enumerate(zip(groups[0].values(), groups[1].values())):
        is_cut = limit and number == len(groups[0]) - 1
        if want != got and not is_cut:
            return f"equally far, group {number}: mongod {sorted(want - got)[:5]}, meridian {sorted(got - want)[:5]}"
    for (first, identity), (second, following) in zip(actual, actual[1:]):
        if first > second or (first == second and int(identity[6:-1]) > int(following[6:-1])):
            return f"meridian's order: {identity} at {first!r} before {following} at {second!r}"
    return None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("indexes", ["plain", "compound", "plane"])
def test_random_searches(subject, oracle, indexes):
    generator = Searches(SEED)
    is_plane = indexes == "plane"
    make, ask = (generator.plane_document, generator.plane_search) if is_plane else (generator.document, generator.search)
    documents = [make(number) for number in range(DOCUMENTS)]
    searches = [ask() for _ in range(QUERIES // 3)]
    print(f"seed {SEED}: {len(searches)} searches over {len(documents)} documents")
    keys = {"plain": [{"p": "2dsphere"}], "compound": [{"p": "2dsphere", "a": 1, "b": 1}, {"b": 1}], "plane": [{"p": "2d"}]}[indexes]
    specs = [{"key": key, "name": f"i{number}"} for number, key in enumerate(keys)]
    for server in (subject, oracle):
        server.run("diff", {"drop": "near_random"})
        server.run("diff", {"createIndexes": "near_random", "indexes": specs})
        for start in range(0, len(documents), 2000):
            server.run("diff", {"insert": "near_random", "documents": documents[start : start + 2000], "ordered": False})
    replies = []
    for server in (subject, oracle):
        started = time.monotonic()
        replies.append([answer(server, *search) for search in searches])
        print(f"{server.name}: {time.monotonic() - started:.1f} s")
    broken = []
    for number, (search, actual, expected) in enumerate(zip(searches, *replies)):
        reason = difference(expected, actual, search[1])
        if reason:
            broken.append(f"search {number} {search}: {reason}")
    for server in (subject, oracle):
        server.run("diff", {"drop": "near_random"})
    assert not broken, f"NEAR seed {SEED}: {len(broken)} of {len(searches)} differ\n" + "\n".join(broken[:10])
