"""`{$meta: ...}`: the distance and the place that `$near` and `$geoNear` know, and what asks in vain."""

import pytest
from harness.cases import Case

DISTANCE = {"$meta": "geoNearDistance"}
POINT = {"$meta": "geoNearPoint"}
NEAR = {"loc": {"$near": [0, 0]}}
HERE = {"type": "Point", "coordinates": [0.5, 0.25]}

PLANE_DOCS = [
    {"_id": 1, "loc": [1, 2], "a": 1, "tags": ["x", "y"]},
    {"_id": 2, "loc": {"x": 3, "y": 4}, "a": 0, "tags": []},
    {"_id": 3, "loc": [[5, 5], [6, 7]], "a": 2, "s": {"d": 9, "e": 1}},
    {"_id": 4, "loc": [9, 9, 1], "a": 5, "s": [{"d": 1}, 2]},
    {"_id": 5, "a": 6},
]
SPHERE_DOCS = [
    {"_id": 1, "loc": {"type": "Point", "coordinates": [1, 2]}, "a": 1},
    {"_id": 2, "loc": [3, 4], "a": 0},
    {"_id": 3, "loc": {"type": "LineString", "coordinates": [[5, 5], [6, 7]]}, "a": 2},
    {"_id": 4, "loc": {"type": "Polygon", "coordinates": [[[8, 8], [9, 8], [9, 9], [8, 8]]]}, "a": 3},
]

PROJECTIONS = {
    "distance": {"d": DISTANCE},
    "point": {"d": POINT},
    "both": {"_id": 1, "d": DISTANCE, "p": POINT},
    "included": {"a": 1, "d": DISTANCE},
    "excluded": {"a": 0, "d": DISTANCE},
    "excluded_later": {"d": DISTANCE, "a": 0},
    "without_id": {"_id": 0, "d": DISTANCE},
    "without_id_included": {"d": DISTANCE, "_id": 0, "a": 1},
    "without_place": {"loc": 0, "d": DISTANCE, "p": POINT},
    "in_place": {"loc": POINT},
    "in_place_included": {"loc": POINT, "a": 1},
    "in_place_excluded": {"loc": DISTANCE, "a": 0},
    "as_id": {"_id": DISTANCE},
    "as_id_included": {"_id": DISTANCE, "a": 1},
    "below": {"s.d": DISTANCE},
    "below_excluded": {"s.d": DISTANCE, "a": 0},
    "below_object": {"s": {"d": DISTANCE, "q": POINT}},
    "below_array": {"loc.d": DISTANCE},
    "computed": {"d": {"$add": [DISTANCE, 1]}},
    "nested": {"x": [POINT, {"y": DISTANCE}]},
    "condition": {"d": {"$cond": [{"$gt": [DISTANCE, 5]}, "far", "near"]}},
    "mapped": {"d": {"$map": {"input": [1, 2], "in": {"$add": ["$$this", DISTANCE]}}}},
    "beside_computed": {"d": DISTANCE, "e": {"$add": [1, 1]}},
    "literal": {"d": {"$literal": DISTANCE}},
    "score": {"d": {"$meta": "textScore"}},
    "unknown": {"d": {"$meta": "foo"}},
    "number": {"d": {"$meta": 1}},
    "array": {"d": {"$meta": ["geoNearDistance"]}},
    "two_operators": {"d": {"$meta": "geoNearDistance", "x": 1}},
    "collision": {"d": DISTANCE, "d.e": POINT},
}
FIND_ONLY = {"sliced": {"d": DISTANCE, "tags": {"$slice": 1}}, "two_operators": PROJECTIONS["two_operators"]}
STAGES = {
    **{f"project_{name}": [{"$project": shape}] for name, shape in PROJECTIONS.items() if name not in FIND_ONLY},
    "set": [{"$addFields": {"d": DISTANCE, "loc": POINT}}],
    "set_unknown": [{"$addFields": {"d": {"$meta": "foo"}}}],
    "after_match": [{"$match": {"a": {"$gt": 0}}}, {"$set": {"d": DISTANCE}}],
    "after_sort": [{"$sort": {"a": 1}}, {"$project": {"d": DISTANCE}}],
    "after_sort_limit": [{"$sort": {"a": -1}}, {"$limit": 2}, {"$project": {"d": DISTANCE, "p": POINT}}],
    "after_limit_skip": [{"$limit": 2}, {"$skip": 1}, {"$project": {"d": DISTANCE}}],
    "after_unset": [{"$unset": "loc"}, {"$project": {"d": DISTANCE, "p": POINT}}],
    "after_project": [{"$project": {"a": 1}}, {"$project": {"d": DISTANCE, "p": POINT}}],
    "after_root": [{"$replaceRoot": {"newRoot": {"z": DISTANCE}}}, {"$set": {"d": DISTANCE}}],
    "after_unwind": [{"$unwind": "$tags"}, {"$project": {"d": DISTANCE}}],
    "after_sample": [{"$sample": {"size": 100}}, {"$sort": {"_id": 1}}, {"$project": {"d": DISTANCE}}],
    "after_group": [{"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}, {"$project": {"d": DISTANCE}}],
    "after_count": [{"$count": "n"}, {"$project": {"d": DISTANCE}}],
    "group": [{"$group": {"_id": DISTANCE}}, {"$sort": {"_id": 1}}],
    "group_unknown": [{"$group": {"_id": {"$meta": "foo"}}}],
    "sum": [{"$group": {"_id": None, "s": {"$sum": DISTANCE}, "far": {"$max": DISTANCE}}}],
    "push": [{"$sort": {"a": -1}}, {"$group": {"_id": None, "s": {"$push": POINT}}}],
    "bucket": [{"$bucket": {"groupBy": DISTANCE, "boundaries": [0, 5, 1e9]}}],
    "bucket_auto": [{"$bucketAuto": {"groupBy": "$a", "buckets": 2, "output": {"s": {"$push": DISTANCE}}}}],
    "bucket_auto_by": [{"$bucketAuto": {"groupBy": DISTANCE, "buckets": 2}}],
    "facet": [{"$facet": {"x": [{"$project": {"d": DISTANCE}}], "y": [{"$sort": {"a": 1}}, {"$limit": 1}, {"$set": {"p": DISTANCE}}]}}],
    "facet_then": [{"$facet": {"x": [{"$limit": 1}]}}, {"$project": {"d": DISTANCE}}],
    "match": [{"$match": {"$expr": {"$gt": [DISTANCE, 3]}}}],
    "match_later": [{"$limit": 2}, {"$match": {"$expr": {"$gt": [DISTANCE, 3]}}}],
    "sort": [{"$sort": {"d": DISTANCE}}],
    "sort_project": [{"$sort": {"d": DISTANCE}}, {"$project": {"a": 1, "d": DISTANCE}}, {"$limit": 2}],
    "sort_after_project": [{"$project": {"a": 1}}, {"$sort": {"d": DISTANCE}}],
    "sort_second": [{"$sort": {"a": 1, "d": DISTANCE}}],
    "sort_first": [{"$sort": {"d": DISTANCE, "a": -1}}],
    "sort_arrays": [{"$sort": {"tags": 1, "d": DISTANCE}}],
    "sort_point": [{"$sort": {"d": POINT}}],
    "sort_score": [{"$sort": {"d": {"$meta": "textScore"}}}],
    "sort_number": [{"$sort": {"d": {"$meta": 5}}}],
    "sort_more": [{"$sort": {"d": {"$meta": "geoNearDistance", "x": 1}}}],
    "sort_dollar": [{"$sort": {"$a": DISTANCE}}],
}
SORTS = {
    "distance": {"d": DISTANCE},
    "distance_then": {"d": DISTANCE, "a": 1},
    "second": {"a": 1, "d": DISTANCE},
    "identifier": {"_id": DISTANCE},
    "arrays": {"tags": 1, "d": DISTANCE},
    "field": {"a": 1},
    "point": {"d": POINT},
    "score": {"d": {"$meta": "textScore"}},
}
# Which of several parts that are missing is named first is mongod's own affair.
SEVERAL = {"both", "without_place", "below_object", "nested", "collision", "set", "after_sort_limit", "after_unset", "after_project"}
VAIN_PROJECTIONS = sorted({*PROJECTIONS, *FIND_ONLY} - SEVERAL)
VAIN_STAGES = sorted(name for name in STAGES if name.removeprefix("project_") not in SEVERAL)
INDEXES = {"plane": (PLANE_DOCS, {"loc": "2d"}), "sphere": (SPHERE_DOCS, {"loc": "2dsphere"})}
NEARS = {
    "plane": [NEAR, {"loc": {"$near": [4, 4], "$maxDistance": 6}, "a": {"$lt": 5}}],
    "sphere": [{"loc": {"$near": {"$geometry": HERE}}}, {"loc": {"$nearSphere": [0.5, 0.25]}}],
}
GEO_NEARS = {
    "plane": {"near": [0, 0], "distanceField": "dd"},
    "sphere": {"near": HERE, "distanceField": "dd", "spherical": True, "distanceMultiplier": 0.001, "includeLocs": "l"},
}


def check(pair, kind, name, commands, ordered=True):
    docs, index = INDEXES[kind]
    pair.run_case(Case(name=f"meta_{kind}_{name}", docs=docs, indexes=[index], commands=commands, ordered=ordered))


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("name", {**PROJECTIONS, **FIND_ONLY})
def test_projection(pair, kind, name):
    shape = {**PROJECTIONS, **FIND_ONLY}[name]
    commands = [{"find": "COLL", "filter": near, "projection": shape, "batchSize": 2} for near in NEARS[kind]]
    check(pair, kind, name, [*commands, {"find": "COLL", "filter": NEARS[kind][0], "projection": shape, "skip": 1, "limit": 1}])


@pytest.mark.parametrize("name", VAIN_PROJECTIONS)
def test_projection_in_vain(pair, name):
    shape = {**PROJECTIONS, **FIND_ONLY}[name]
    commands = [{"find": target, "filter": {"a": 1}, "projection": shape} for target in ("COLL", "OTHER")]
    check(pair, "plane", "vain_" + name, commands)


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("name", STAGES)
def test_stages(pair, kind, name):
    pipeline = [{"$geoNear": GEO_NEARS[kind]}, *STAGES[name]]
    check(pair, kind, name, [{"aggregate": "COLL", "pipeline": pipeline, "cursor": {}}])


@pytest.mark.parametrize("name", VAIN_STAGES)
def test_stages_in_vain(pair, name):
    check(pair, "plane", "vain_" + name, [{"aggregate": "COLL", "pipeline": STAGES[name], "cursor": {}}])


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("name", SORTS)
def test_sort(pair, kind, name):
    commands = [{"find": "COLL", "filter": near, "sort": SORTS[name], "projection": {"a": 1, "d": DISTANCE}} for near in NEARS[kind]]
    limited = {"find": "COLL", "filter": NEARS[kind][0], "sort": SORTS[name], "limit": 2}
    check(pair, kind, "sort_" + name, [*commands, limited, {"find": "COLL", "filter": {}, "sort": SORTS[name]}])


def test_selective_index(pair):
    """Where another index leaves few documents, they are sorted by distance; the distance is told all the same."""
    docs = [{"_id": n, "loc": [n % 17, n / 9], "a": n} for n in range(300)]
    find = {"find": "COLL", "filter": {"loc": {"$near": [3.1, 4.2]}, "a": {"$in": [7, 90]}}, "projection": {"_id": 0, "d": DISTANCE, "a": 1}}
    pair.run_case(Case(name="meta_selective", docs=docs, indexes=[{"loc": "2d"}, {"a": 1}], commands=[find], ordered=True))


def test_covered(pair):
    """The place is not asked for, but measured to."""
    docs = [{"_id": n, "loc": {"type": "Point", "coordinates": [n / 7, n / 9]}, "a": n % 3, "b": "x" * 100} for n in range(50)]
    find = {"find": "COLL", "filter": {"loc": {"$near": {"$geometry": HERE}}}, "projection": {"_id": 0, "a": 1, "d": DISTANCE}, "limit": 5}
    pair.run_case(Case(name="meta_covered", docs=docs, indexes=[{"loc": "2dsphere", "a": 1}], commands=[find], ordered=True))


@pytest.mark.parametrize(
    "command",
    [
        {"find": "COLL", "filter": {"$expr": {"$gt": [DISTANCE, 1]}}},
        {"update": "COLL", "updates": [{"q": NEAR, "u": [{"$set": {"d": DISTANCE}}]}]},
        {"findAndModify": "COLL", "query": NEAR, "update": {"$set": {"z": 1}}, "fields": {"d": DISTANCE}},
    ],
    ids=["filter", "update", "find_and_modify"],
)
def test_places_that_know_of_nothing(pair, command):
    pair.run_case(Case(name="meta_nowhere", docs=PLANE_DOCS, indexes=[{"loc": "2d"}], commands=[command], ordered=True))
