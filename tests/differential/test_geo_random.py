"""Random shapes over random documents of every GeoJSON type: counts and ids must be mongod's.

MERIDIAN_GEO_SEED repeats a run, MERIDIAN_GEO_DOCUMENTS and MERIDIAN_GEO_SHAPES change its size.
Shapes are stars, many-vertex rings, holes, rings over the antimeridian and around the poles,
rings through existing points, and the legacy shapes; the documents are points (clustered around
places, on grids, on edges and vertices of shapes), lines, polygons, multi-geometries and collections.
"""

import math
import os
import random
import time

import pytest

SEED = int(os.environ.get("MERIDIAN_GEO_SEED", "20171201"))
DOCUMENTS = int(os.environ.get("MERIDIAN_GEO_DOCUMENTS", "100000"))
SHAPES = int(os.environ.get("MERIDIAN_GEO_SHAPES", "2000"))
# Lines and polygons are costly for both servers: most documents are points, as in practice.
SHARES = [("point", 78), ("line", 7), ("polygon", 6), ("multi_point", 3), ("multi_line", 2), ("multi_polygon", 2), ("collection", 2)]
# Kinds of shapes and how often. mongod answers the planar ones by reading everything: few of those.
KINDS = {
    "ring": 2, "star": 2, "many": 2, "hole": 2, "rectangle": 2, "through": 2, "multi": 1, "big": 0.3, "pole": 1,
    "antimeridian": 2, "line": 1, "point": 1, "multi_point": 1, "collection": 1, "centerSphere": 2, "box": 0.3,
    "center": 0.3, "polygon": 0.3,
}  # fmt: skip
PLACES = 60
COLLECTION = "geo_random"


def wrap(lon, lat):
    """The same place with both coordinates in range."""
    lat = max(-90.0, min(90.0, lat))
    lon = (lon + 180.0) % 360.0 - 180.0
    return [lon, lat]


class Generator:
    """Documents and shapes from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        special = [(180, 0), (-179.9, 10), (0, 89.5), (30, -89.8), (0, 0), (2.5, 46.2)]
        self.places = special + [
            (self.random.uniform(-180, 180), math.degrees(math.asin(self.random.uniform(-1, 1)))) for _ in range(PLACES)
        ]
        self.on_shapes = []  # vertices and edge points of shapes, to be documents too

    def near(self, spread):
        lon, lat = self.random.choice(self.places)
        return wrap(lon + self.random.gauss(0, spread) / max(0.05, math.cos(math.radians(lat))), lat + self.random.gauss(0, spread))

    # -- documents

    def coordinates(self):
        kind = self.random.random()
        if kind < 0.6:
            return self.near(1.5)
        if kind < 0.75:
            return [round(value) + 0.0 for value in self.near(5)]  # a grid: shared coordinates
        if kind < 0.85 and self.on_shapes:
            return self.random.choice(self.on_shapes)
        return wrap(self.random.uniform(-180, 180), math.degrees(math.asin(self.random.uniform(-1, 1))))

    def walk(self, count, step):
        """A line's vertices: neighbours differ, so that the line is valid."""
        vertices = [self.coordinates()]
        while len(vertices) < count:
            lon, lat = vertices[-1]
            following = wrap(lon + self.random.gauss(0, step), lat + self.random.gauss(0, step))
            if following != vertices[-1]:
                vertices.append(following)
        return vertices

    def geometry(self, kind):
        if kind == "point":
            return {"type": "Point", "coordinates": self.coordinates()}
        if kind == "line":
            return {"type": "LineString", "coordinates": self.walk(self.random.randint(2, 6), 0.7)}
        if kind == "polygon":
            return {"type": "Polygon", "coordinates": [self.ring(self.coordinates(), self.random.uniform(0.01, 1.5), 3, 9)]}
        if kind == "multi_point":
            return {"type": "MultiPoint", "coordinates": [self.coordinates() for _ in range(self.random.randint(1, 4))]}
        if kind == "multi_line":
            return {"type": "MultiLineString", "coordinates": [self.walk(3, 0.5) for _ in range(2)]}
        if kind == "multi_polygon":
            rings = []
            for _ in range(2):
                rings.append([self.ring(self.near(3), self.random.uniform(0.01, 0.2), 3, 6)])
            return {"type": "MultiPolygon", "coordinates": rings}
        return {"type": "GeometryCollection", "geometries": [self.geometry("point"), self.geometry(self.random.choice(["line", "polygon", "point"]))]}

    def document(self, number):
        (kind,) = self.random.choices([k for k, _ in SHARES], [w for _, w in SHARES])
        return {"_id": number, "p": self.geometry(kind)}

    # -- shapes

    def ring(self, center, radius, least, most, star=None):
        """A simple ring around a center, counter-clockwise; a star's radii vary wildly.

        Directions are taken in the plane that touches the sphere, so that no two edges cross,
        whatever the latitude.
        """
        count = self.random.randint(least, most)
        angles = sorted(self.random.uniform(0, 2 * math.pi) for _ in range(count))
        # No gap of half a turn or more, or the center would lie outside: spread evenly then.
        gaps = [(angles[(i + 1) % count] - angles[i]) % (2 * math.pi) for i in range(count)]
        if count < 3 or max(gaps) > 2.8 or min(gaps) < 1e-4:
            angles = [2 * math.pi * (i + self.random.uniform(0, 0.5)) / count for i in range(count)]
        vertices = []
        for position, angle in enumerate(angles):
            stretch = self.random.uniform(0.35, 1) if star is None else (1.0 if position % 2 else star)
            vertices.append(self.offset(center, radius * stretch, angle))
        return vertices + vertices[:1]

    @staticmethod
    def offset(center, degrees, angle):
        """The point so many degrees from the center in a direction, on the sphere."""
        lon, lat = map(math.radians, center)
        distance = math.radians(degrees)
        # The center and two directions that touch the sphere there; east is defined at a pole too.
        out = (math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat))
        east = (-math.sin(lon), math.cos(lon), 0.0)
        north = (-math.sin(lat) * math.cos(lon), -math.sin(lat) * math.sin(lon), math.cos(lat))
        x, y, z = (
            o * math.cos(distance) + (e * math.cos(angle) + n * math.sin(angle)) * math.sin(distance)
            for o, e, n in zip(out, east, north)
        )
        return wrap(math.degrees(math.atan2(y, x)), math.degrees(math.asin(max(-1.0, min(1.0, z)))))

    def radius(self):
        return 10 ** self.random.uniform(-2.5, 1.5)

    def center(self):
        return self.near(2) if self.random.random() < 0.8 else self.coordinates()

    def shape(self):
        """A condition for `p`, and what kind it is."""
        (kind,) = self.random.choices(list(KINDS), KINDS.values())
        operator = self.random.choice(["$geoWithin", "$geoIntersects"])
        center, radius = self.center(), self.radius()
        if kind == "ring":
            return kind, {operator: {"$geometry": self.polygon(self.ring(center, radius, 3, 12))}}
        if kind == "star":
            return kind, {operator: {"$geometry": self.polygon(self.ring(center, radius, 10, 40, star=self.random.uniform(0.1, 0.6)))}}
        if kind == "many":
            return kind, {operator: {"$geometry": self.polygon(self.even_ring(center, radius, self.random.choice([200, 500, 1500])))}}
        if kind == "hole":
            outer = self.even_ring(center, radius, self.random.randint(6, 60))
            inner = self.even_ring(center, radius * self.random.uniform(0.1, 0.5), self.random.randint(4, 30), jitter=0.2)
            return kind, {operator: {"$geometry": self.polygon(outer, inner)}}
        if kind == "rectangle":
            return kind, {operator: {"$geometry": self.polygon(self.rectangle())}}
        if kind == "through":
            vertices = [round(value) + 0.0 for value in self.near(3)]
            west, south = min(vertices[0], 175.0), max(-85.0, min(vertices[1], 80.0))
            size = float(self.random.randint(1, 4))
            ring = [[west, south], [west + size, south], [west + size, south + size], [west, south + size], [west, south]]
            return kind, {operator: {"$geometry": self.polygon(ring)}}
        if kind == "multi":
            first, second = (self.ring(self.offset(center, 3 * radius * side, 0.3), radius, 4, 9) for side in (0, 1))
            return kind, {operator: {"$geometry": {"type": "MultiPolygon", "coordinates": [[first], [second]]}}}
        if kind == "big":
            return kind, {operator: {"$geometry": self.polygon(self.even_ring(center, self.random.uniform(30, 80), 24))}}
        if kind == "pole":
            pole = [self.random.uniform(-180, 180), self.random.choice([90.0, -90.0, 89.9, -89.9])]
            return kind, {operator: {"$geometry": self.polygon(self.even_ring(pole, self.random.uniform(0.2, 15), 16))}}
        if kind == "antimeridian":
            place = wrap(180 + self.random.gauss(0, 1), self.random.uniform(-60, 60))
            return kind, {operator: {"$geometry": self.polygon(self.ring(place, self.random.uniform(0.5, 10), 4, 16))}}
        if kind in ("line", "point", "multi_point", "collection"):
            return kind, {"$geoIntersects": {"$geometry": self.geometry(kind)}}
        planar = [max(-170.0, min(170.0, center[0])), max(-80.0, min(80.0, center[1]))]
        if kind == "box":
            return kind, {"$geoWithin": {"$box": [[planar[0] - radius, planar[1] - radius], [planar[0] + radius, planar[1] + radius / 2]]}}
        if kind == "center":
            return kind, {"$geoWithin": {"$center": [planar, radius]}}
        if kind == "polygon":
            count = self.random.randint(3, 12)
            ring = [
                [planar[0] + radius * self.random.uniform(0.3, 1) * math.cos(2 * math.pi * i / count),
                 planar[1] + radius * self.random.uniform(0.3, 1) * math.sin(2 * math.pi * i / count)]
                for i in range(count)
            ]  # fmt: skip
            return kind, {"$geoWithin": {"$polygon": ring}}
        return kind, {"$geoWithin": {"$centerSphere": [center, math.radians(radius)]}}

    def even_ring(self, center, radius, count, jitter=0.4):
        vertices = []
        for position in range(count):
            angle = 2 * math.pi * (position + self.random.uniform(0, 0.5)) / count
            vertices.append(self.offset(center, radius * self.random.uniform(1 - jitter, 1), angle))
        return vertices + vertices[:1]

    def rectangle(self):
        lon, lat = self.near(2)
        width, height = self.radius(), min(20.0, self.radius())
        west, south = max(-179.0, min(lon, 178.0 - width)), max(-85.0, min(lat, 84.0 - height))
        return [[west, south], [west + width, south], [west + width, south + height], [west, south + height], [west, south]]

    def polygon(self, *rings):
        """A GeoJSON polygon; some of its vertices and edge points become documents."""
        if len(self.on_shapes) < 4000:
            outer = rings[0]
            self.on_shapes.append(outer[0])
            (west, south), (east, north) = outer[0], outer[1]
            if abs(east - west) < 90:
                self.on_shapes.append([(west + east) / 2, (south + north) / 2])
        return {"type": "Polygon", "coordinates": list(rings)}


def insert(server, documents):
    """Inserts documents one batch at a time; returns the ids each server's index refused."""
    refused = set()
    for start in range(0, len(documents), 5000):
        batch = documents[start : start + 5000]
        reply = server.run("diff", {"insert": COLLECTION, "documents": batch, "ordered": False})
        assert reply.get("ok") == "double(1.0)", reply.get("errmsg")
        for error in reply.get("writeErrors") or []:
            refused.add(batch[int(error.get("index")[6:-1])]["_id"])
    return refused


def answers(server, shapes):
    """For each shape: the count, or the error code and message."""
    for _, condition in shapes:
        reply = server.run("diff", {"count": COLLECTION, "query": {"p": condition}})
        yield reply.get("n") if reply.get("ok") == "double(1.0)" else (reply.get("code"), reply.get("errmsg"))


def ids(server, condition):
    reply = server.run("diff", {"find": COLLECTION, "filter": {"p": condition}, "projection": {"_id": 1}, "batchSize": 10_000_000})
    return {document.get("_id") for document in reply.get("cursor").get("firstBatch")}


@pytest.mark.timeout(1500)
def test_random_shapes(subject, oracle):
    generator = Generator(SEED)
    shapes = [generator.shape() for _ in range(SHAPES)]
    documents = [generator.document(number) for number in range(DOCUMENTS)]
    print(f"seed {SEED}: {len(shapes)} shapes over {len(documents)} documents")
    refused = []
    for server in (subject, oracle):
        started = time.monotonic()
        server.run("diff", {"drop": COLLECTION})
        server.run("diff", {"createIndexes": COLLECTION, "indexes": [{"key": {"p": "2dsphere"}, "name": "p_2dsphere"}]})
        refused.append(insert(server, documents))
        print(f"{server.name}: loaded in {time.monotonic() - started:.1f} s, {len(refused[-1])} refused")
    assert refused[0] == refused[1], f"seed {SEED}: documents that only one index refused: {sorted(refused[0] ^ refused[1])[:20]}"
    started = time.monotonic()
    actual = list(answers(subject, shapes))
    print(f"{subject.name}: {time.monotonic() - started:.1f} s")
    started = time.monotonic()
    expected = list(answers(oracle, shapes))
    print(f"{oracle.name}: {time.monotonic() - started:.1f} s")
    different = [number for number in range(len(shapes)) if expected[number] != actual[number]]
    lines = [f"GEO seed {SEED}: {len(different)} of {len(shapes)} shapes differ"]
    for number in different[:10]:
        kind, condition = shapes[number]
        lines.append(f"shape {number} ({kind}): mongod {expected[number]}, meridian {actual[number]}: {str(condition)[:600]}")
        if isinstance(expected[number], str) and isinstance(actual[number], str):
            wrong = ids(oracle, condition) ^ ids(subject, condition)
            for identity in sorted(wrong)[:3]:
                lines.append(f"   document {documents[int(identity[6:-1])]}"[:400])
    for server in (subject, oracle):
        server.run("diff", {"drop": COLLECTION})
    assert not different, "\n".join(lines)
    matched = sum(isinstance(answer, str) for answer in expected)
    assert matched > 0.9 * len(shapes), "too many shapes are refused by both: the generator is broken"
