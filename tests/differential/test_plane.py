"""`$geoWithin` on 2d indexes: forms, refusals and plans by table, and seeded random shapes.

MERIDIAN_PLANE_SEED repeats a run, MERIDIAN_PLANE_DOCUMENTS and MERIDIAN_PLANE_SHAPES change its size.
Meridian must answer by the index, and as mongod does; where mongod's answer by index is not its own answer
by scan, the scan's is right.
"""

import math
import os
import random

import pytest
from harness.cases import Case

SEED = int(os.environ.get("MERIDIAN_PLANE_SEED", "20260704"))
DOCUMENTS = int(os.environ.get("MERIDIAN_PLANE_DOCUMENTS", "3000"))
SHAPES = int(os.environ.get("MERIDIAN_PLANE_SHAPES", "400"))

PAIRS = [
    [1, 2], [1, 2, 3], {"x": 1, "y": 2}, {"x": 4, "y": 2, "z": 3}, [[1, 2], [3, 4]], [{"x": 1, "y": 2}, [5, 6]], [180, 0],
    [-180, 0], [179.999999, 90], [0, 180], [0.5, -7.25], [10, 10], [-10, 10], [10, -10], None, "x", 5, True, [], [[]], {},
    [[3, 3], [3.0000000001, 3]], [4, 4], [0, 0],
]  # fmt: skip
DOCS = [{"_id": n, "loc": value, "a": n % 3} for n, value in enumerate(PAIRS)] + [{"_id": 100}, {"_id": 101, "loc": [2, 2], "a": [1, 7]}]
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [5, 0], [5, 5], [0, 5], [0, 0]]]}


def within(**shape):
    return {"loc": {"$geoWithin": {f"${name}": value for name, value in shape.items()}}}


# What a 2d index answers.
AREAS = {
    "box": within(box=[[0, 0], [4, 4]]),
    "box_turned": within(box=[[4, 4], [0, 0]]),
    "box_crossed": within(box=[[0, 4], [4, 0]]),
    "box_names": within(box=[{"x": 0, "y": 0}, {"x": 4, "y": 4}]),
    "box_around": within(box=[[-500, -500], [500, 500]]),
    "box_outside": within(box=[[300, 300], [500, 500]]),
    "box_of_one": within(box=[[1, 2], [1, 2]]),
    "center": within(center=[[1, 2], 3]),
    "center_zero": within(center=[[1, 2], 0]),
    "center_border": within(center=[[0, 0], 5]),
    "center_outside": within(center=[[1000, 2], 3]),
    "center_huge": within(center=[[0, 0], 1e9]),
    "center_infinite": within(center=[[0, 0], math.inf]),
    "sphere": within(centerSphere=[[1, 2], 0.1]),
    "sphere_zero": within(centerSphere=[[1, 2], 0]),
    "sphere_half": within(centerSphere=[[0, 0], 1.6]),
    "sphere_all": within(centerSphere=[[0, 0], 4]),
    "sphere_antimeridian": within(centerSphere=[[179, 2], 0.1]),
    "sphere_pole": within(centerSphere=[[0, 89], 0.1]),
    "polygon": within(polygon=[[0, 0], [5, 0], [5, 5]]),
    "polygon_names": within(polygon=[{"a": 0, "b": 0}, {"a": 5, "b": 0}, {"a": 5, "b": 5}]),
    "polygon_crossed": within(polygon=[[0, 0], [4, 4], [4, 0], [0, 4]]),
    "polygon_flat": within(polygon=[[0, 0], [4, 4], [2, 2]]),
    "polygon_around": within(polygon=[[-900, -900], [900, -900], [900, 900]]),
    "old_name": {"loc": {"$within": {"$box": [[0, 0], [4, 4]]}}},
    "unique": {"loc": {"$within": {"$box": [[0, 0], [4, 4]], "$uniqueDocs": True}}},
    "and_other": {**within(box=[[0, 0], [4, 4]]), "a": 1},
    "and_array": {**within(box=[[0, 0], [4, 4]]), "a": 7},
    "and_range": {**within(center=[[1, 2], 3]), "a": {"$gt": 0}},
    "and_area": {"$and": [within(box=[[0, 0], [4, 4]]), within(center=[[3, 4], 1.5])]},
    "and_expression": {**within(box=[[0, 0], [4, 4]]), "$expr": {"$eq": ["$a", 1]}},
}  # fmt: skip
# What it does not, or what is refused.
OTHERS = {
    "geojson": within(geometry=SQUARE),
    "intersects": {"loc": {"$geoIntersects": {"$geometry": SQUARE}}},
    "intersects_pair": {"loc": {"$geoIntersects": {"$geometry": [1, 2]}}},
    "intersects_sphere": {"loc": {"$geoIntersects": {"$centerSphere": [[1, 2], 0.1]}}},
    "intersects_box": {"loc": {"$geoIntersects": {"$box": [[0, 0], [4, 4]]}}},
    "not": {"loc": {"$not": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}}}},
    "element": {"loc": {"$elemMatch": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}}}},
    "nor": {"$nor": [within(box=[[0, 0], [4, 4]])]},
    "infinite": within(box=[[-math.inf, 0], [4, 4]]),
    "nan": within(polygon=[[0, 0], [math.nan, 4], [4, 0]]),
    "negative": within(center=[[1, 2], -1]),
    "two_corners": within(polygon=[[0, 0], [4, 4]]),
    "off_the_sphere": within(centerSphere=[[1, 200], 0.1]),
    "text": within(box="x"),
    "sibling": {"loc": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}, "$exists": True}},
    "sibling_first": {"loc": {"$exists": True, "$within": {"$box": [[0, 0], [4, 4]]}}},
    "sibling_intersects": {"loc": {"$geoIntersects": {"$geometry": SQUARE}, "$ne": 3}},
    "sibling_in_not": {"loc": {"$not": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}, "$exists": True}}},
    "or": {"$or": [within(box=[[0, 0], [4, 4]]), within(center=[[10, 10], 1.5])]},
    "other_field": {"a": 1},
    "pair": {"loc": [1, 2]},
}  # fmt: skip
HINTED = ["box", "center", "sphere", "polygon", "and_other", "geojson", "intersects", "intersects_pair", "not", "other_field"]
FILTERS = {**AREAS, **OTHERS}


def commands(filter, **more):
    return [
        {"find": "COLL", "filter": filter, "sort": {"_id": 1}, "projection": {"_id": 1}, **more},
        {"count": "COLL", "query": filter, **more},
        {"aggregate": "COLL", "pipeline": [{"$match": filter}, {"$count": "n"}], "cursor": {}, **more},
    ]


@pytest.mark.parametrize("name", FILTERS)
def test_filter(pair, name):
    pair.run_case(Case(name="plane_" + name, docs=DOCS, indexes=[{"loc": "2d"}], commands=commands(FILTERS[name])))


@pytest.mark.parametrize("name", FILTERS)
def test_compound(pair, name):
    pair.run_case(Case(name="plane_compound_" + name, docs=DOCS, indexes=[{"loc": "2d", "a": 1}], commands=commands(FILTERS[name])))


@pytest.mark.parametrize("name", HINTED)
def test_hint(pair, name):
    asked = commands(FILTERS[name], hint="loc_2d") + commands(FILTERS[name], hint={"$natural": 1})
    pair.run_case(Case(name="plane_hint_" + name, docs=DOCS, indexes=[{"loc": "2d"}], commands=asked))


@pytest.mark.parametrize("bits", [1, 13, 26, 32])
def test_bounds(pair, bits):
    pairs = [[0, 0], [10, 5], [5, 10], [10, 10], [10.0001, 5], [-0.0001, 5], [9.9999, 9.5], [3, 4.5]]
    asked = [{"insert": "COLL", "documents": [{"_id": n, "loc": value}]} for n, value in enumerate(pairs)]
    for area in (within(box=[[3, 4], [10, 10]]), within(center=[[5, 5], 5]), within(box=[[-5, -5], [50, 50]]), within(centerSphere=[[5, 5], 0.08])):
        asked += commands(area)
    spec = {"key": {"loc": "2d"}, "name": "loc", "min": 0, "max": 10, "bits": bits}
    pair.run_case(Case(name=f"plane_bounds_{bits}", indexes=[spec], commands=asked))


def test_writes(pair):
    asked = [
        {"update": "COLL", "updates": [{"q": within(box=[[0, 0], [4, 4]]), "u": {"$set": {"loc": [7, 7]}}, "multi": True}]},
        {"delete": "COLL", "deletes": [{"q": within(center=[[10, 10], 1]), "limit": 0}]},
        *commands(within(box=[[0, 0], [20, 20]])),
        {"distinct": "COLL", "key": "a", "query": within(center=[[7, 7], 1])},
    ]
    pair.run_case(Case(name="plane_writes", docs=DOCS, indexes=[{"loc": "2d"}], commands=asked))


def leaf(server, filter, **more):
    """The lowest stage of the winning plan."""
    reply = server.run("diff", {"explain": {"find": "plane_plan", "filter": filter, **more}, "verbosity": "queryPlanner"})
    stage = reply.get("queryPlanner").get("winningPlan")
    while stage.get("inputStage"):
        stage = stage.get("inputStage")
    return stage.get("stage"), stage.get("indexName")


def test_plan(subject, oracle):
    for server in (subject, oracle):
        server.run("diff", {"drop": "plane_plan"})
        server.run("diff", {"createIndexes": "plane_plan", "indexes": [{"key": {"loc": "2d"}, "name": "loc_2d"}]})
        server.run("diff", {"insert": "plane_plan", "documents": DOCS})
        plans = {name: leaf(server, filter) for name, filter in AREAS.items()}
        assert set(plans.values()) == {('"IXSCAN"', '"loc_2d"')}, f"{server.name}: {plans}"
        for name in ("geojson", "intersects", "intersects_pair", "not", "element"):
            assert leaf(server, OTHERS[name])[0] == '"COLLSCAN"', f"{server.name}: {name}"
            assert leaf(server, OTHERS[name], hint="loc_2d") == ('"IXSCAN"', '"loc_2d"'), f"{server.name}: {name}"
        server.run("diff", {"drop": "plane_plan"})


# -- random shapes

GRIDS = [(-180, 180), (-180, 180), (-3.5, 17), (-1000, 3000)]


class Shapes:
    """Documents and shapes in one plane, from one seed."""

    def __init__(self, seed, least, most):
        self.random = random.Random(seed)
        self.least, self.most = least, most
        self.size = most - least

    def coordinate(self):
        kind = self.random.random()
        if kind < 0.5:
            value = self.random.gauss(self.least + self.size * 0.6, self.size / 100)
        elif kind < 0.7:
            value = self.least + self.size * self.random.randrange(33) / 32
        else:
            value = self.random.uniform(self.least, self.most)
        return min(self.most, max(self.least, value))

    def pair(self):
        return [self.coordinate(), self.coordinate()]

    def document(self, number):
        pairs = [self.pair() for _ in range(1 if self.random.random() < 0.9 else 3)]
        return {"_id": number, "p": pairs[0] if len(pairs) == 1 else pairs, "a": self.random.randrange(5)}

    def filter(self):
        (x, y), size = self.pair(), self.size * 10 ** self.random.uniform(-3.5, 0.2)
        kind = self.random.choice(["$box", "$center", "$centerSphere", "$polygon"])
        shape = {
            "$box": [[x, y], [x + size, y - size / 2]],
            "$center": [[x, y], size],
            "$centerSphere": [[max(-180, min(180, x)), max(-90, min(90, y))], math.radians(size)],
            "$polygon": [[x + size * self.random.uniform(-1, 1), y + size * self.random.uniform(-1, 1)] for _ in range(self.random.randint(3, 9))],
        }[kind]
        filter = {"p": {"$geoWithin": {kind: shape}}}
        if self.random.random() < 0.3:
            filter["a"] = self.random.choice([2, {"$gt": 2}, {"$in": [0, 4]}])
        return filter


def ids(server, filter, natural=False):
    command = {"find": "plane_random", "filter": filter, "projection": {"_id": 1}, "batchSize": 1_000_000}
    reply = server.run("diff", {**command, "hint": {"$natural": 1}} if natural else command)
    assert reply.get("ok") == "double(1.0)", f"{filter}: {reply.get('errmsg')}"
    return sorted(document.get("_id") for document in reply.get("cursor").get("firstBatch"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(GRIDS)))
def test_random_shapes(subject, oracle, number):
    shapes = Shapes(SEED + number, *GRIDS[number])
    documents = [shapes.document(identity) for identity in range(DOCUMENTS)]
    filters = [shapes.filter() for _ in range(SHAPES // len(GRIDS))]
    print(f"seed {SEED}, grid {GRIDS[number]}: {len(filters)} shapes over {len(documents)} documents")
    least, most = GRIDS[number]
    key = {"p": "2d", "a": 1} if number == 1 else {"p": "2d"}
    for server in (subject, oracle):
        server.run("diff", {"drop": "plane_random"})
        server.run("diff", {"createIndexes": "plane_random", "indexes": [{"key": key, "name": "p", "min": least, "max": most}]})
        reply = server.run("diff", {"insert": "plane_random", "documents": documents})
        assert reply.get("n") == f"int32({len(documents)})", reply.get("writeErrors")
    broken, found = [], 0
    for place, filter in enumerate(filters):
        actual, scanned = ids(subject, filter), ids(subject, filter, natural=True)
        expected = ids(oracle, filter)
        count = subject.run("diff", {"count": "plane_random", "query": filter}).get("n")
        by_scan = actual == scanned and scanned == ids(oracle, filter, natural=True)
        if not by_scan or (actual != expected and set(actual) <= set(expected)) or count != f"int32({len(actual)})":
            broken.append(f"shape {place} {filter}: mongod {len(expected)}, meridian {len(actual)}, by scan {len(scanned)}, counted {count}")
        found += len(actual)
    for server in (subject, oracle):
        server.run("diff", {"drop": "plane_random"})
    assert not broken, f"PLANE seed {SEED}: {len(broken)} of {len(filters)} differ\n" + "\n".join(broken[:10])
    assert found > 10 * len(filters), "the shapes hold nothing: the generator is broken"
