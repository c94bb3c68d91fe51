"""Geo operators by table: every GeoJSON type against every kind of area, borders, errors.

Each query runs without an index, on a 2dsphere index, and on a compound one.
"""

import pytest
from bson import Int64
from harness.cases import Case


def point(lon, lat):
    return {"type": "Point", "coordinates": [lon, lat]}


def polygon(*rings):
    return {"type": "Polygon", "coordinates": [list(map(list, ring)) for ring in rings]}


def box(west, south, east, north):
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


SHAPES = [
    point(0, 0), point(5, 5), point(10, 10), point(5, 0), point(0, 5), point(10, 5), point(-5, -5), point(180, 0),
    point(-180, 0), point(179.5, 1), point(-179.5, 1), point(0, 90), point(45, 90), point(0, -90), point(5, 5.0000001),
    point(0, 89.5), point(90, 89.5), point(2.5, 46.5), point(5, 10), point(7, 3), point(3, 7), point(120, 45),
    {"type": "LineString", "coordinates": [[1, 1], [9, 9]]},
    {"type": "LineString", "coordinates": [[-5, 5], [15, 5]]},
    {"type": "LineString", "coordinates": [[0, 0], [10, 0]]},
    {"type": "LineString", "coordinates": [[170, 10], [-170, 10]]},
    {"type": "LineString", "coordinates": [[0, 80], [180, 80]]},
    {"type": "LineString", "coordinates": [[20, 20], [30, 30], [40, 20]]},
    polygon(box(1, 1, 3, 3)), polygon(box(-5, -5, 5, 5)), polygon(box(0, 0, 10, 10)), polygon(box(20, 20, 30, 30)),
    polygon(box(0, 0, 10, 10), box(4, 4, 6, 6)), polygon(box(175, -5, -175, 5)), polygon(box(-20, -20, 40, 40)),
    polygon([[0, 80], [90, 80], [180, 80], [-90, 80], [0, 80]]),
    {"type": "MultiPoint", "coordinates": [[1, 1], [2, 2]]},
    {"type": "MultiPoint", "coordinates": [[1, 1], [50, 50]]},
    {"type": "MultiLineString", "coordinates": [[[1, 1], [2, 2]], [[3, 3], [4, 4]]]},
    {"type": "MultiLineString", "coordinates": [[[1, 1], [2, 2]], [[30, 3], [40, 4]]]},
    {"type": "MultiPolygon", "coordinates": [[box(1, 1, 2, 2)], [box(3, 3, 4, 4)]]},
    {"type": "MultiPolygon", "coordinates": [[box(1, 1, 2, 2)], [box(33, 3, 44, 4)]]},
    {"type": "GeometryCollection", "geometries": [point(1, 1), {"type": "LineString", "coordinates": [[2, 2], [3, 3]]}]},
    {"type": "GeometryCollection", "geometries": [point(1, 1), polygon(box(30, 30, 35, 35))]},
    [5, 5], [0, 0], [-179.9, 10], {"x": 3, "y": 4}, {"lng": 7, "lat": 8},
    None, [],
]  # fmt: skip
# What no 2dsphere index accepts: in the collection without an index only.
NOT_INDEXED = [
    "somewhere", 5, {"type": "Point"}, {"type": "Dot", "coordinates": [1, 1]}, point(200, 5), point(5, 95), ["a", "b"], [1],
    [point(1, 1), point(50, 50)], [[1, 1], [60, 60]], {"a": 1}, {"type": "Polygon", "coordinates": [[[0, 0], [4, 4], [4, 0], [0, 4], [0, 0]]]}, [1000, 2000], True,
]  # fmt: skip

AREAS = {
    "box": polygon(box(0, 0, 10, 10)),
    "box_clockwise": polygon(box(0, 0, 10, 10)[::-1]),
    "box_hole": polygon(box(0, 0, 10, 10), box(4, 4, 6, 6)),
    "box_hole_clockwise": polygon(box(0, 0, 10, 10), box(4, 4, 6, 6)[::-1]),
    "large": polygon(box(-60, -60, 60, 60)),
    "antimeridian": polygon(box(170, -10, -170, 20)),
    "north_pole": polygon([[0, 70], [90, 70], [180, 70], [-90, 70], [0, 70]]),
    "south_pole": polygon([[0, -70], [-90, -70], [180, -70], [90, -70], [0, -70]]),
    "triangle": polygon([[0, 0], [10, 0], [5, 10], [0, 0]]),
    "star": polygon([[5, 10], [4, 6], [0, 5], [4, 4], [5, 0], [6, 4], [10, 5], [6, 6], [5, 10]]),
    "tiny": polygon(box(4.9999999, 4.9999999, 5.0000001, 5.0000001)),
    "thin": polygon(box(-20, 4.999999, 20, 5.000001)),
    "multi": {"type": "MultiPolygon", "coordinates": [[box(0, 0, 4, 4)], [box(6, 6, 10, 10)]]},
    "multi_hole": {"type": "MultiPolygon", "coordinates": [[box(0, 0, 10, 10), box(2, 2, 8, 8)], [box(4, 4, 6, 6)]]},
}
THINGS = {
    "point": point(5, 5),
    "point_vertex": point(10, 10),
    "point_edge": point(5, 0),
    "line": {"type": "LineString", "coordinates": [[-5, 5], [15, 5]]},
    "line_far": {"type": "LineString", "coordinates": [[100, 50], [110, 55]]},
    "line_antimeridian": {"type": "LineString", "coordinates": [[175, 5], [-175, 5]]},
    "line_meridian": {"type": "LineString", "coordinates": [[0, -90], [0, 90]]},
    "multi_point": {"type": "MultiPoint", "coordinates": [[5, 5], [0, 0]]},
    "multi_line": {"type": "MultiLineString", "coordinates": [[[0, 0], [10, 10]], [[20, 20], [40, 20]]]},
    "collection": {"type": "GeometryCollection", "geometries": [point(5, 5), polygon(box(20, 20, 25, 25))]},
}
LEGACY = {
    "box": {"$box": [[0, 0], [10, 10]]},
    "box_reversed": {"$box": [[10, 10], [0, 0]]},
    "box_point": {"$box": [[5, 5], [5, 5]]},
    "box_objects": {"$box": [{"x": 0, "y": 0}, {"x": 5, "y": 5}]},
    "box_wide": {"$box": [[-1000, -1000], [3000, 3000]]},
    "polygon": {"$polygon": [[0, 0], [10, 0], [5, 10]]},
    "polygon_closed": {"$polygon": [[0, 0], [10, 0], [5, 10], [0, 0]]},
    "polygon_star": {"$polygon": [[5, 10], [4, 6], [0, 5], [4, 4], [5, 0], [6, 4], [10, 5], [6, 6]]},
    "polygon_crossing": {"$polygon": [[0, 0], [10, 10], [10, 0], [0, 10]]},
    "polygon_object": {"$polygon": {"a": [0, 0], "b": [10, 0], "c": [5, 10]}},
    "center": {"$center": [[5, 5], 3]},
    "center_border": {"$center": [[5, 5], 5]},
    "center_zero": {"$center": [[5, 5], 0]},
    "center_object": {"$center": [{"x": 5, "y": 5}, 5]},
    "center_sphere": {"$centerSphere": [[5, 5], 0.1]},
    "center_sphere_small": {"$centerSphere": [[5, 5], 1e-9]},
    "center_sphere_zero": {"$centerSphere": [[5, 5], 0]},
    "center_sphere_half": {"$centerSphere": [[0, 0], 1.5707963267948966]},
    "center_sphere_huge": {"$centerSphere": [[0, 0], 3.0]},
    "center_sphere_all": {"$centerSphere": [[0, 0], 3.2]},
    "center_sphere_pole": {"$centerSphere": [[0, 90], 0.05]},
    "center_sphere_antimeridian": {"$centerSphere": [[180, 0], 0.1]},
    "center_sphere_geojson": {"$centerSphere": [point(5, 5), 0.1]},
}
ERRORS = {
    "within_point": {"$geoWithin": {"$geometry": point(1, 1)}},
    "within_line": {"$geoWithin": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}}},
    "within_nothing": {"$geoWithin": {}},
    "within_number": {"$geoWithin": 5},
    "within_unknown": {"$geoWithin": {"$circle": [[0, 0], 1]}},
    "within_two": {"$geoWithin": {"$box": [[0, 0], [1, 1]], "$center": [[0, 0], 1]}},
    "within_bare_geometry": {"$geoWithin": polygon(box(0, 0, 1, 1))},
    "intersects_box": {"$geoIntersects": {"$box": [[0, 0], [1, 1]]}},
    "intersects_nothing": {"$geoIntersects": {}},
    "intersects_number": {"$geoIntersects": 5},
    "intersects_bad_type": {"$geoIntersects": {"$geometry": {"type": "Dot", "coordinates": [0, 0]}}},
    "intersects_no_type": {"$geoIntersects": {"$geometry": {"coordinates": [0, 0]}}},
    "polygon_open": {"$geoWithin": {"$geometry": polygon([[0, 0], [4, 0], [4, 4], [0, 4]])}},
    "polygon_short": {"$geoWithin": {"$geometry": polygon([[0, 0], [4, 0], [0, 0]])}},
    "polygon_crossing": {"$geoWithin": {"$geometry": polygon([[0, 0], [4, 4], [4, 0], [0, 4], [0, 0]])}},
    "polygon_empty": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": []}}},
    "polygon_empty_ring": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[]]}}},
    "polygon_no_coordinates": {"$geoWithin": {"$geometry": {"type": "Polygon"}}},
    "polygon_number": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": 5}}},
    "polygon_strings": {"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[["a", "b"]]]}}},
    "polygon_out_of_range": {"$geoWithin": {"$geometry": polygon(box(0, 0, 200, 10))}},
    "polygon_hole_outside": {"$geoWithin": {"$geometry": polygon(box(0, 0, 4, 4), box(10, 10, 12, 12))}},
    "polygon_holes_touching": {"$geoWithin": {"$geometry": polygon(box(0, 0, 10, 10), box(1, 1, 5, 5), box(4, 4, 8, 8))}},
    "polygon_same_points": {"$geoWithin": {"$geometry": polygon([[1, 1], [1, 1], [1, 1], [1, 1]])}},
    "polygon_repeated": {"$geoWithin": {"$geometry": polygon([[0, 0], [4, 0], [4, 0], [4, 4], [0, 0]])}},
    "polygon_spike": {"$geoWithin": {"$geometry": polygon([[0, 0], [4, 0], [8, 0], [4, 0], [4, 4], [0, 0]])}},
    "point_short": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [1]}}},
    "point_out_of_range": {"$geoIntersects": {"$geometry": point(181, 0)}},
    "line_short": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0]]}}},
    "line_same": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [0, 0]]}}},
    "line_antipodal": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [180, 0]]}}},
    "collection_empty": {"$geoIntersects": {"$geometry": {"type": "GeometryCollection", "geometries": []}}},
    "multi_point_empty": {"$geoIntersects": {"$geometry": {"type": "MultiPoint", "coordinates": []}}},
    "center_negative": {"$geoWithin": {"$center": [[0, 0], -1]}},
    "center_sphere_negative": {"$geoWithin": {"$centerSphere": [[0, 0], -1]}},
    "center_short": {"$geoWithin": {"$center": [[0, 0]]}},
    "center_string": {"$geoWithin": {"$center": [[0, 0], "a"]}},
    "center_number": {"$geoWithin": {"$center": 5}},
    "center_long": {"$geoWithin": {"$center": [[0, 0], 1, 2]}},
    "center_sphere_out_of_range": {"$geoWithin": {"$centerSphere": [[200, 0], 0.1]}},
    "box_short": {"$geoWithin": {"$box": [[0, 0]]}},
    "box_long": {"$geoWithin": {"$box": [[0, 0], [1, 1], [2, 2]]}},
    "box_strings": {"$geoWithin": {"$box": [["a", "b"], ["c", "d"]]}},
    "polygon_two": {"$geoWithin": {"$polygon": [[0, 0], [1, 1]]}},
    "polygon_flat_strings": {"$geoWithin": {"$polygon": ["a", "b", "c"]}},
    "crs_84": {"$geoWithin": {"$geometry": {**polygon(box(0, 0, 4, 4)), "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}}}},
    "crs_4326": {"$geoWithin": {"$geometry": {**polygon(box(0, 0, 4, 4)), "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}}}},
    "crs_unknown": {"$geoWithin": {"$geometry": {**polygon(box(0, 0, 4, 4)), "crs": {"type": "name", "properties": {"name": "EPSG:1"}}}}},
    "unique_docs": {"$geoWithin": {"$box": [[0, 0], [4, 4]], "$uniqueDocs": True}},
    "long_coordinates": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [Int64(5), Int64(5)]}}},
    "not_within": {"$not": {"$geoWithin": {"$box": [[0, 0], [4, 4]]}}},
    "within_old_name": {"$within": {"$box": [[0, 0], [4, 4]]}},
}  # fmt: skip

CONDITIONS = {}
for _name, _area in AREAS.items():
    CONDITIONS[f"within_{_name}"] = {"$geoWithin": {"$geometry": _area}}
    CONDITIONS[f"intersects_{_name}"] = {"$geoIntersects": {"$geometry": _area}}
for _name, _thing in THINGS.items():
    CONDITIONS[f"intersects_{_name}"] = {"$geoIntersects": {"$geometry": _thing}}
for _name, _shape in LEGACY.items():
    CONDITIONS[f"legacy_{_name}"] = {"$geoWithin": _shape}
for _name, _condition in ERRORS.items():
    CONDITIONS[f"error_{_name}"] = _condition

VARIANTS = {
    "geo_none": (SHAPES + NOT_INDEXED, None),
    "geo_sphere": (SHAPES, {"p": "2dsphere"}),
    "geo_compound": (SHAPES, {"k": 1, "p": "2dsphere"}),
}


@pytest.fixture(scope="module")
def loaded(_subject, _oracle):
    """The shapes, loaded into both servers under each variant."""
    for server in (_subject, _oracle):
        for name, (shapes, key) in VARIANTS.items():
            server.run("shared", {"drop": name})
            documents = [{"_id": number, "k": number % 2, "p": shape} for number, shape in enumerate(shapes)]
            documents.append({"_id": 1000, "k": 0})
            reply = server.run("shared", {"insert": name, "documents": documents})
            assert not reply.get("writeErrors"), reply
            if key:
                index = {"key": key, "name": "i"}
                reply = server.run("shared", {"createIndexes": name, "indexes": [index]})
                assert reply.get("ok") == "double(1.0)", (server.name, reply)
    return True


@pytest.mark.parametrize("name", CONDITIONS)
def test_geo(pair, loaded, name):
    from harness import cases

    broken, first = [], None
    for variant in VARIANTS:
        condition = {"p": CONDITIONS[name]}
        if variant == "geo_compound":
            condition = {"k": 1, **condition}
        case = Case(name=variant, commands=[], database="shared", fixture=variant)
        for command in (
            {"find": variant, "filter": condition, "projection": {"_id": 1}, "batchSize": 1000},
            {"count": variant, "query": condition},
        ):
            try:
                cases.compare_command(pair.subject, pair.oracle, case, command)
            except cases.Mismatch as mismatch:
                broken.append(variant)
                first = first or mismatch
                break
    if first is not None:
        raise cases.Mismatch(f"{first}\nvariants that differ: {', '.join(broken)}")
