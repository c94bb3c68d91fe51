"""Every kind of index: what it accepts, what it refuses and how, and what it answers."""

import pytest
from bson import Decimal128, Int64
from fixtures import date
from harness.cases import Case

DOCS = [
    {"_id": 0, "a": 1, "b": "x", "l": [1, 2]},
    {"_id": 1, "a": 2, "b": "y", "l": [2, 3]},
    {"_id": 2, "a": 3, "b": "x", "l": []},
    {"_id": 3, "b": "z", "l": None},
    {"_id": 4, "a": None, "b": "x"},
]
LIST = {"listIndexes": "COLL"}
READ = {"find": "COLL", "sort": {"_id": 1}}


def create(*specs, **more):
    return {"createIndexes": "COLL", "indexes": list(specs), **more}


def spec(key, name="i", **more):
    return {"key": key, "name": name, **more}


# One createIndexes each; then what listIndexes shows.
CREATIONS = {
    "single": spec({"a": 1}),
    "descending": spec({"a": -1}),
    "double_direction": spec({"a": 1.0}),
    "long_direction": spec({"a": Int64(-1)}),
    "direction_5": spec({"a": 5}),
    "direction_0": spec({"a": 0}),
    "direction_string": spec({"a": "foo"}),
    "direction_true": spec({"a": True}),
    "direction_null": spec({"a": None}),
    "direction_object": spec({"a": {}}),
    "compound": spec({"a": 1, "b": -1}),
    "nested": spec({"a.b.c": 1}),
    "multikey": spec({"l": 1}),
    "multikey_compound": spec({"l": 1, "b": 1}),
    "unique": spec({"_id": 1, "a": 1}, unique=True),
    "unique_duplicates": spec({"b": 1}, unique=True),
    "unique_null_duplicates": spec({"a": 1}, unique=True),
    "unique_sparse_null": spec({"a": 1}, unique=True, sparse=True),
    "unique_partial": spec({"b": 1}, unique=True, partialFilterExpression={"a": {"$gt": 1}}),
    "unique_false": spec({"b": 1}, unique=False),
    "unique_number": spec({"_id": 1, "b": 1}, unique=1),
    "unique_string": spec({"b": 1}, unique="yes"),
    "sparse": spec({"a": 1}, sparse=True),
    "sparse_false": spec({"a": 1}, sparse=False),
    "partial": spec({"a": 1}, partialFilterExpression={"b": "x"}),
    "partial_exists": spec({"a": 1}, partialFilterExpression={"a": {"$exists": True}}),
    "partial_and": spec({"a": 1}, partialFilterExpression={"$and": [{"a": {"$gt": 1}}, {"b": {"$lt": "z"}}]}),
    "partial_in": spec({"a": 1}, partialFilterExpression={"b": {"$in": ["x", "y"]}}),
    "partial_or": spec({"a": 1}, partialFilterExpression={"$or": [{"a": 1}, {"b": "x"}]}),
    "partial_ne": spec({"a": 1}, partialFilterExpression={"a": {"$ne": 1}}),
    "partial_not_exists": spec({"a": 1}, partialFilterExpression={"a": {"$exists": False}}),
    "partial_regex": spec({"a": 1}, partialFilterExpression={"b": {"$regex": "x"}}),
    "partial_not_object": spec({"a": 1}, partialFilterExpression=5),
    "partial_unknown": spec({"a": 1}, partialFilterExpression={"a": {"$foo": 1}}),
    "partial_type": spec({"a": 1}, partialFilterExpression={"a": {"$type": "int"}}),
    "partial_sparse": spec({"a": 1}, sparse=True, partialFilterExpression={"b": "x"}),
    "ttl": spec({"a": 1}, expireAfterSeconds=3600),
    "ttl_zero": spec({"a": 1}, expireAfterSeconds=0),
    "ttl_negative": spec({"a": 1}, expireAfterSeconds=-1),
    "ttl_huge": spec({"a": 1}, expireAfterSeconds=2**31),
    "ttl_string": spec({"a": 1}, expireAfterSeconds="1"),
    "ttl_double": spec({"a": 1}, expireAfterSeconds=1.5),
    "ttl_compound": spec({"a": 1, "b": 1}, expireAfterSeconds=10),
    "ttl_on_id": spec({"_id": 1}, expireAfterSeconds=10),
    "hashed": spec({"a": "hashed"}),
    "hashed_compound": spec({"b": 1, "a": "hashed"}),
    "hashed_two": spec({"b": "hashed", "a": "hashed"}),
    "hashed_unique": spec({"a": "hashed"}, unique=True),
    "hashed_array": spec({"l": "hashed"}),
    "hashed_sparse": spec({"a": "hashed"}, sparse=True),
    "sphere": spec({"p": "2dsphere"}),
    "sphere_version": spec({"p": "2dsphere"}, **{"2dsphereIndexVersion": 3}),
    "sphere_version_bad": spec({"p": "2dsphere"}, **{"2dsphereIndexVersion": 9}),
    "sphere_compound": spec({"a": 1, "p": "2dsphere", "b": -1}),
    "sphere_two": spec({"p": "2dsphere", "q": "2dsphere"}),
    "sphere_on_number": spec({"a": "2dsphere"}),
    "sphere_unique": spec({"p": "2dsphere"}, unique=True),
    "hidden": spec({"a": 1}, hidden=True),
    "hidden_id": spec({"_id": 1}, name="_id_", hidden=True),
    "id": spec({"_id": 1}, name="_id_"),
    "id_other_name": spec({"_id": 1}, name="foo"),
    "id_descending": spec({"_id": -1}),
    "id_unique": spec({"_id": 1}, name="_id_", unique=True),
    "id_sparse": spec({"_id": 1}, name="_id_", sparse=True),
    "id_partial": spec({"_id": 1}, name="_id_", partialFilterExpression={"a": 1}),
    "version_2": spec({"a": 1}, v=2),
    "version_1": spec({"a": 1}, v=1),
    "version_0": spec({"a": 1}, v=0),
    "version_9": spec({"a": 1}, v=9),
    "background": spec({"a": 1}, background=True),
    "collation_simple": spec({"a": 1}, collation={"locale": "simple"}),
    "unknown_option": spec({"a": 1}, foo=1),
    "unknown_kind": spec({"a": "2dcube"}),
    "no_name": {"key": {"a": 1}},
    "no_key": {"name": "i"},
    "empty_name": {"key": {"a": 1}, "name": ""},
    "star_name": {"key": {"a": 1}, "name": "*"},
    "name_number": {"key": {"a": 1}, "name": 5},
    "name_nul": {"key": {"a": 1}, "name": "a\0b"},
    "key_empty": {"key": {}, "name": "i"},
    "key_not_object": {"key": 5, "name": "i"},
    "key_empty_field": spec({"": 1}),
    "key_dollar": spec({"$a": 1}),
    "key_dollar_inside": spec({"a.$b": 1}),
    "key_trailing_dot": spec({"a.": 1}),
    "key_leading_dot": spec({".a": 1}),
    "key_dbref": spec({"a.$id": 1}),
    "key_repeated": spec({"a": 1, "a.b": 1}),
    "long_name": spec({"a": 1}, name="n" * 500),
    "many_fields": spec({f"f{i}": 1 for i in range(32)}),
    "too_many_fields": spec({f"f{i}": 1 for i in range(33)}),
    "not_object": 5,
    "storage_engine": spec({"a": 1}, storageEngine={}),
    "storage_engine_null": spec({"a": 1}, storageEngine=None),
    "storage_engine_no_document": spec({"a": 1}, storageEngine={"rocks": 5}),
    "min_max_ignored": spec({"a": 1}, min=1, max=2),
    "ns_field": spec({"a": 1}, ns="diff.x"),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_creation(pair, name):
    pair.run_case(Case(f"create_{name}", [create(CREATIONS[name]), LIST], DOCS))


@pytest.mark.parametrize("name", ["single", "unique", "ttl", "sphere", "hashed", "partial", "ttl_string", "unknown_kind"])
def test_creation_on_missing_collection(pair, name):
    pair.run_case(Case(f"create_missing_{name}", [create(CREATIONS[name]), LIST, READ]))


def insert(*documents, **more):
    return {"insert": "COLL", "documents": list(documents), **more}


def update(query, change, **more):
    return {"update": "COLL", "updates": [{"q": query, "u": change, **more}]}


CASES = [
    Case("again_same", [create(spec({"a": 1})), create(spec({"a": 1})), LIST], DOCS),
    Case("again_other_options", [create(spec({"a": 1})), create(spec({"a": 1}, sparse=True)), LIST], DOCS),
    Case("again_other_name", [create(spec({"a": 1})), create(spec({"a": 1}, name="j")), LIST], DOCS),
    Case("again_other_key", [create(spec({"a": 1})), create(spec({"b": 1}))], DOCS),
    Case("again_unique", [create(spec({"b": 1, "_id": 1})), create(spec({"b": 1, "_id": 1}, unique=True))], DOCS),
    Case("same_key_partial_differs", [create(spec({"a": 1})), create(spec({"a": 1}, name="j", partialFilterExpression={"b": "x"})), LIST], DOCS),
    Case("same_key_sparse_differs", [create(spec({"a": 1})), create(spec({"a": 1}, name="j", sparse=True)), LIST], DOCS),
    Case("two_at_once", [create(spec({"a": 1}), spec({"b": 1}, name="j")), LIST], DOCS),
    Case("two_one_bad", [create(spec({"a": 1}), spec({"b": 0}, name="j")), LIST], DOCS),
    Case("two_same_name", [create(spec({"a": 1}), spec({"b": 1})), LIST], DOCS),
    Case("none", [create()], DOCS),
    Case("indexes_not_array", [{"createIndexes": "COLL", "indexes": 1}], DOCS),
    Case("no_indexes", [{"createIndexes": "COLL"}], DOCS),
    Case("unknown_command_option", [create(spec({"a": 1}), foo=1)], DOCS),
    Case("commit_quorum", [create(spec({"a": 1}), commitQuorum=1)], DOCS),
    Case("write_concern", [create(spec({"a": 1}), writeConcern={"w": 1}), LIST], DOCS),
    Case("sixty_four", [create(*[spec({f"f{i}": 1}, name=f"i{i}") for i in range(63)]), create(spec({"last": 1}, name="last"))], DOCS),
    # drop
    Case("drop_name", [create(spec({"a": 1})), {"dropIndexes": "COLL", "index": "i"}, LIST], DOCS),
    Case("drop_key", [create(spec({"a": 1})), {"dropIndexes": "COLL", "index": {"a": 1}}, LIST], DOCS),
    Case("drop_star", [create(spec({"a": 1}), spec({"b": 1}, name="j")), {"dropIndexes": "COLL", "index": "*"}, LIST], DOCS),
    Case("drop_list", [create(spec({"a": 1}), spec({"b": 1}, name="j")), {"dropIndexes": "COLL", "index": ["i", "j"]}, LIST], DOCS),
    Case("drop_list_unknown", [create(spec({"a": 1})), {"dropIndexes": "COLL", "index": ["i", "zzz"]}, LIST], DOCS),
    Case("drop_unknown", [{"dropIndexes": "COLL", "index": "zzz"}], DOCS),
    Case("drop_unknown_key", [{"dropIndexes": "COLL", "index": {"zzz": 1}}], DOCS),
    Case("drop_id", [{"dropIndexes": "COLL", "index": "_id_"}], DOCS),
    Case("drop_id_key", [{"dropIndexes": "COLL", "index": {"_id": 1}}], DOCS),
    Case("drop_no_collection", [{"dropIndexes": "COLL", "index": "*"}]),
    Case("drop_no_index", [{"dropIndexes": "COLL"}], DOCS),
    Case("drop_number", [{"dropIndexes": "COLL", "index": 5}], DOCS),
    Case("delete_indexes", [create(spec({"a": 1})), {"deleteIndexes": "COLL", "index": "i"}], DOCS),
    Case("list_no_collection", [LIST]),
    Case("list_batch", [create(spec({"a": 1}), spec({"b": 1}, name="j")), {"listIndexes": "COLL", "cursor": {"batchSize": 2}}], DOCS),
    # unique
    Case("unique_insert", [insert({"_id": 9, "a": 1})], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_insert_null_twice", [insert({"_id": 8}), insert({"_id": 9, "a": None}), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_insert_number_types", [insert({"_id": 9, "a": 1.0}), insert({"_id": 10, "a": Int64(2)})], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_compound", [insert({"_id": 9, "a": 1, "b": "y"}), insert({"_id": 10, "a": 1, "b": "x"})], DOCS[:3], [{"key": {"a": 1, "b": 1}, "unique": True}]),
    Case("unique_nested", [insert({"_id": 9, "o": {"p": 1}}), insert({"_id": 10, "o": {"p": 1}})], [], [{"key": {"o.p": 1}, "unique": True}]),
    Case("unique_array", [insert({"_id": 9, "l": [5, 1]}), insert({"_id": 10, "l": [7, 7]}), insert({"_id": 11, "l": [7]})], DOCS[:1], [{"key": {"l": 1}, "unique": True}]),
    Case("unique_sparse", [insert({"_id": 9}), insert({"_id": 10}), insert({"_id": 11, "a": None}), insert({"_id": 12, "a": None})], DOCS[:3], [{"key": {"a": 1}, "unique": True, "sparse": True}]),
    Case("unique_sparse_compound", [insert({"_id": 9}), insert({"_id": 10}), insert({"_id": 11, "b": "k"}), insert({"_id": 12, "b": "k"})], DOCS[:3], [{"key": {"a": 1, "b": 1}, "unique": True, "sparse": True}]),
    Case("unique_partial", [insert({"_id": 9, "b": "x", "a": 0}), insert({"_id": 10, "b": "x", "a": 9}), READ], DOCS[1:2], [{"key": {"b": 1}, "unique": True, "partialFilterExpression": {"a": {"$gt": 1}}}]),
    Case("unique_update", [update({"_id": 0}, {"$set": {"a": 2}}), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_update_self", [update({"_id": 0}, {"$set": {"a": 1, "z": 1}}), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_update_many", [update({}, {"$inc": {"a": 10}}, multi=True), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_upsert", [update({"_id": 50}, {"$set": {"a": 1}}, upsert=True), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_descending", [insert({"_id": 9, "a": 1, "b": "x"})], DOCS[:3], [{"key": {"a": -1, "b": 1}, "unique": True}]),
    Case("unique_string", [insert({"_id": 9, "b": "x"})], DOCS[:1], [{"key": {"b": 1}, "unique": True}]),
    Case("unique_object", [insert({"_id": 9, "o": {"x": 1, "y": [1]}}), insert({"_id": 10, "o": {"x": 1, "y": [1]}})], [], [{"key": {"o": 1}, "unique": True}]),
    Case("unique_date", [insert({"_id": 9, "d": date(2020, 1, 1)}), insert({"_id": 10, "d": date(2020, 1, 1)})], [], [{"key": {"d": 1}, "unique": True}]),
    Case("unique_same_batch", [insert({"_id": 9, "a": 77}, {"_id": 10, "a": 77}, {"_id": 11, "a": 78}), READ], DOCS[:1], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_same_batch_unordered", [insert({"_id": 9, "a": 77}, {"_id": 10, "a": 77}, {"_id": 11, "a": 78}, ordered=False), READ], DOCS[:1], [{"key": {"a": 1}, "unique": True}]),
    Case("unique_freed_by_delete", [{"delete": "COLL", "deletes": [{"q": {"a": 1}, "limit": 1}]}, insert({"_id": 9, "a": 1}), READ], DOCS[:3], [{"key": {"a": 1}, "unique": True}]),
    Case("id_duplicate", [insert({"_id": 0})], DOCS),
    Case("id_duplicate_double", [insert({"_id": 0.0})], DOCS),
    Case("id_object_duplicate", [insert({"_id": {"a": 1, "b": 2}}), insert({"_id": {"a": 1.0, "b": 2}}), insert({"_id": {"b": 2, "a": 1}})]),
    # arrays
    Case("parallel_arrays_insert", [insert({"_id": 9, "a": [1], "l": [2]}), insert({"_id": 10, "a": [], "l": []})], DOCS[:1], [{"key": {"a": 1, "l": 1}}]),
    Case("parallel_arrays_build", [create(spec({"a": 1, "l": 1}))], [{"_id": 1, "a": [1], "l": [2]}]),
    Case("parallel_arrays_update", [update({"_id": 0}, {"$set": {"a": [1, 2]}}), READ], DOCS[:1], [{"key": {"a": 1, "l": 1}}]),
    Case("hashed_array_insert", [insert({"_id": 9, "a": [1]})], DOCS[:1], [{"key": {"a": "hashed"}}]),
    Case("hashed_array_update", [update({"_id": 0}, {"$set": {"a": [1]}})], DOCS[:1], [{"key": {"a": "hashed"}}]),
    Case("hashed_find", [{"find": "COLL", "filter": {"a": 2}}, {"find": "COLL", "filter": {"a": 2.0}}, {"find": "COLL", "filter": {"a": {"$in": [1, 3]}}}, {"find": "COLL", "filter": {"a": None}}, {"find": "COLL", "filter": {"a": {"$gt": 1}}}], DOCS, [{"key": {"a": "hashed"}}]),
    Case("array_numeric_path", [insert({"_id": 9, "a": [{"0": 1}]}), insert({"_id": 10, "a": [[5]]})], [], [{"key": {"a.0": 1}}]),
    Case("multikey_updates", [update({"_id": 0}, {"$push": {"l": 7}}), {"find": "COLL", "filter": {"l": 7}}, update({"_id": 0}, {"$pull": {"l": 1}}), {"find": "COLL", "filter": {"l": 1}}, {"count": "COLL", "query": {"l": {"$gte": 2}}}], DOCS, [{"key": {"l": 1}}]),
    Case("multikey_bounds", [{"find": "COLL", "filter": {"l": {"$gt": 1, "$lt": 3}}}, {"find": "COLL", "filter": {"l": {"$elemMatch": {"$gt": 2}}}}, {"find": "COLL", "filter": {"l": []}}, {"find": "COLL", "filter": {"l": None}}, {"find": "COLL", "filter": {"l": {"$size": 2}}}], DOCS, [{"key": {"l": 1}}]),
    # sparse and partial answer fully without a hint
    Case("sparse_not_used", [{"find": "COLL", "filter": {"a": None}}, {"count": "COLL"}, {"find": "COLL", "sort": {"a": 1, "_id": 1}}], DOCS, [{"key": {"a": 1}, "sparse": True}]),
    Case("sparse_hint", [{"find": "COLL", "filter": {}, "hint": {"a": 1}, "sort": {"_id": 1}}, {"count": "COLL", "hint": {"a": 1}}, {"find": "COLL", "filter": {"a": None}, "hint": {"a": 1}}], DOCS, [{"key": {"a": 1}, "sparse": True}]),
    Case("partial_used", [{"find": "COLL", "filter": {"a": {"$gt": 1}, "b": "x"}}, {"find": "COLL", "filter": {"a": {"$gt": 1}}}, {"count": "COLL", "query": {"b": "x"}}], DOCS, [{"key": {"a": 1}, "partialFilterExpression": {"b": "x"}}]),
    Case("partial_hint", [{"find": "COLL", "filter": {"a": {"$gte": 1}}, "hint": {"a": 1}}], DOCS, [{"key": {"a": 1}, "partialFilterExpression": {"b": "x"}}]),
    Case("partial_membership_changes", [update({"_id": 1}, {"$set": {"b": "x"}}), update({"_id": 0}, {"$set": {"b": "q"}}), {"find": "COLL", "filter": {"a": {"$gte": 1}, "b": "x"}}, {"validate": "COLL"}], DOCS, [{"key": {"a": 1}, "partialFilterExpression": {"b": "x"}}], ignore=("advice", "uuid")),
    # hidden
    Case("hidden_hint", [{"find": "COLL", "filter": {"a": 1}, "hint": {"a": 1}}, {"find": "COLL", "filter": {"a": 1}}], DOCS, [{"key": {"a": 1}, "hidden": True}]),
    Case("hide_and_show", [{"collMod": "COLL", "index": {"name": "a_1", "hidden": True}}, LIST, {"collMod": "COLL", "index": {"keyPattern": {"a": 1}, "hidden": False}}, LIST], DOCS, [{"key": {"a": 1}}]),
    Case("hide_id", [{"collMod": "COLL", "index": {"name": "_id_", "hidden": True}}], DOCS),
    Case("hide_unknown", [{"collMod": "COLL", "index": {"name": "zzz", "hidden": True}}], DOCS),
    # TTL
    Case("ttl_modify", [{"collMod": "COLL", "index": {"keyPattern": {"d": 1}, "expireAfterSeconds": 50000}}, LIST], DOCS, [{"key": {"d": 1}, "expireAfterSeconds": 90000}]),
    Case("ttl_add", [{"collMod": "COLL", "index": {"keyPattern": {"d": 1}, "expireAfterSeconds": 50000}}, LIST], DOCS, [{"key": {"d": 1}}]),
    Case("ttl_modify_negative", [{"collMod": "COLL", "index": {"keyPattern": {"d": 1}, "expireAfterSeconds": -1}}], DOCS, [{"key": {"d": 1}, "expireAfterSeconds": 90000}]),
    Case("ttl_modify_compound", [{"collMod": "COLL", "index": {"keyPattern": {"d": 1, "a": 1}, "expireAfterSeconds": 10}}], DOCS, [{"key": {"d": 1, "a": 1}}]),
    # 2dsphere values
    *(
        Case(f"2dsphere_{name}", [insert({"_id": 9, "p": value}), {"find": "COLL"}], [], [{"key": {"p": "2dsphere"}}])
        for name, value in {
            "point": {"type": "Point", "coordinates": [1, 2]},
            "legacy_pair": [1, 2],
            "legacy_object": {"lng": 1, "lat": 2},
            "null": None,
            "empty_array": [],
            "string": "here",
            "number": 5,
            "bad_type": {"type": "Dot", "coordinates": [1, 2]},
            "out_of_range": {"type": "Point", "coordinates": [200, 2]},
            "out_of_range_latitude": {"type": "Point", "coordinates": [20, 95]},
            "short": {"type": "Point", "coordinates": [1]},
            "strings": {"type": "Point", "coordinates": ["a", "b"]},
            "array_of_points": [{"type": "Point", "coordinates": [1, 2]}, {"type": "Point", "coordinates": [3, 4]}],
            "line": {"type": "LineString", "coordinates": [[1, 2], [3, 4]]},
            "line_one_point": {"type": "LineString", "coordinates": [[1, 2]]},
            "line_same_points": {"type": "LineString", "coordinates": [[1, 2], [1, 2]]},
            "polygon": {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]]},
            "polygon_open": {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4]]]},
            "polygon_crossing": {"type": "Polygon", "coordinates": [[[0, 0], [4, 4], [4, 0], [0, 4], [0, 0]]]},
            "polygon_hole": {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], [[2, 2], [2, 4], [4, 4], [4, 2], [2, 2]]]},
            "polygon_hole_outside": {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], [[20, 2], [20, 4], [24, 4], [24, 2], [20, 2]]]},
            "polygon_repeated_vertex": {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 0], [4, 4], [0, 0]]]},
            "polygon_two_vertices": {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 0]]]},
            "polygon_empty": {"type": "Polygon", "coordinates": []},
            "multi_point": {"type": "MultiPoint", "coordinates": [[0, 0], [4, 0]]},
            "multi_line": {"type": "MultiLineString", "coordinates": [[[0, 0], [4, 0]], [[1, 1], [2, 2]]]},
            "multi_polygon": {"type": "MultiPolygon", "coordinates": [[[[0, 0], [4, 0], [4, 4], [0, 0]]], [[[10, 10], [14, 10], [14, 14], [10, 10]]]]},
            "collection": {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}, {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}]},
            "collection_nested": {"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": []}]},
            "extra_fields": {"type": "Point", "coordinates": [1, 2], "extra": 1},
            "no_coordinates": {"type": "Point"},
            "three_coordinates": {"type": "Point", "coordinates": [1, 2, 3]},
            "nan": {"type": "Point", "coordinates": [float("nan"), 2]},
            "crs": {"type": "Point", "coordinates": [1, 2], "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}},
            "crs_bad": {"type": "Point", "coordinates": [1, 2], "crs": {"type": "name", "properties": {"name": "EPSG:9999"}}},
            "pole": {"type": "Point", "coordinates": [77, 90]},
            "antimeridian": {"type": "LineString", "coordinates": [[179, 2], [-179, 4]]},
        }.items()
    ),
    Case("2dsphere_compound_missing", [insert({"_id": 9, "a": 1}), {"find": "COLL", "filter": {"a": 1}}], [], [{"key": {"a": 1, "p": "2dsphere"}}]),
    Case("2dsphere_compound_query", [
        {"find": "COLL", "filter": {"a": 1, "p": {"$geoWithin": {"$centerSphere": [[1, 1], 0.1]}}}},
        {"count": "COLL", "query": {"a": {"$gte": 1}, "p": {"$geoIntersects": {"$geometry": {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]]}}}}},
    ], [{"_id": i, "a": i % 3, "p": {"type": "Point", "coordinates": [i, i]}} for i in range(12)], [{"key": {"a": 1, "p": "2dsphere"}}]),
    Case("2dsphere_build_bad", [create(spec({"p": "2dsphere"}))], [{"_id": 1, "p": {"type": "Point", "coordinates": [500, 2]}}]),
]  # fmt: skip


# Forms that few send; the index, if it was made, is dropped before the next.
EDGES = {
    "descending_id": [spec({"_id": Decimal128("-1")}), spec({"_id": Decimal128("-1")}, "_id_"), spec({"_id": 1}, "*"), spec({"_id": 1}, "_id_", expireAfterSeconds="x"), spec({"_id": 1}, "_id_", expireAfterSeconds=-1)],
    "truth_values": [spec({"z": 1}, dropDups=value) for value in (True, 1, "x", None, {})] + [spec({"z": "2dsphere"}, **{level: value}) for level in ("finestIndexedLevel", "coarsestIndexedLevel") for value in (5, "x", None)],
    "clustered": [spec({"z": 1}, clustered=value) for value in (True, False, 1, "x")],
    "dropped_id": [spec({"z": 1}, _id=1)],
    "numbers_of_no_plane": [spec({"z": 1}, min=float("nan")), spec({"z": 1}, max=5, bits=3)],
    "version_1": [spec({"a": True}, v=1), spec({"a": None}, v=1)],
    "hashed_twice": [spec({"a": "hashed", "b": "hashed"}, unique=True), spec({"a": "hashed"}, unique=True), spec({"a": "hashed", "b": "hashed"})],
    "plane_with_collation": [spec({"a": "2d"}, collation={"locale": "fr"})],
}
# Pairs of definitions, one after the other under one name and under two.
AGAIN = [
    ({}, {"min": 5.0}), ({"bits": 3}, {"bits": 4}), ({"partialFilterExpression": {"b": "x"}}, {"partialFilterExpression": {"b": {"$eq": "x"}}}), ({"hidden": True}, {"sparse": True}),
    ({"hidden": True, "unique": True}, {"unique": True, "sparse": True}), ({}, {"sparse": True, "background": True, "expireAfterSeconds": 5}), ({}, {"expireAfterSeconds": 5, "background": True}),
]  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edge(pair, name):
    commands = [command for one in EDGES[name] for command in (create(one), LIST, {"dropIndexes": "COLL", "index": "*"})]
    pair.run_case(Case(f"edge_{name}", [{"create": "COLL"}, *commands], DOCS))


def test_again(pair):
    drop = {"dropIndexes": "COLL", "index": "*"}
    commands = [command for one, other in AGAIN for name in ("i", "j") for command in (create(spec({"a": 1}, **one)), create(spec({"a": 1}, name, **other)), drop)]
    pair.run_case(Case("again", [{"create": "COLL"}, *commands], DOCS))


@pytest.mark.parametrize("docs", [[], DOCS], ids=["empty", "with documents"])
def test_several_of_one_command(pair, docs):
    same = [spec({"z": 1}), spec({"z": 1})]
    commands = [create(*same), create(*same), LIST, create(spec({"y": 1}, "y"), spec({"y": 1.0}, "y")), create(spec({"a": 1}), spec({"a": -1})), LIST]
    drops = [create(spec({"x": 1}, "x"), spec({"w": 1}, "w")), *({"dropIndexes": "COLL", "index": index} for index in (["x", "x"], ["nothing"], ["*"], ["*"]))]
    missing = [{"drop": "COLL"}, create(spec({"a": 1}), spec({"a": -1})), {"listIndexes": "COLL"}, create(*same), {"listIndexes": "COLL"}]
    pair.run_case(Case(f"several {bool(docs)}", [{"create": "COLL"}] * (not docs) + commands + drops + missing, docs))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_index(pair, case):
    pair.run_case(case)


def test_ttl_sweep(pair):
    """Documents past their date go within seconds; others stay. Both forms of evaluation 1."""
    import datetime
    import time

    now = datetime.datetime.now(datetime.timezone.utc)
    long_ago, later = now - datetime.timedelta(days=40), now + datetime.timedelta(days=1)
    documents = [
        {"_id": 1, "d": long_ago},
        {"_id": 2, "d": now},
        {"_id": 3, "d": "text"},
        {"_id": 4},
        {"_id": 5, "d": [later, long_ago]},
        {"_id": 6, "e": long_ago},
        {"_id": 7, "e": later},
        {"_id": 8, "d": None},
    ]
    for server in (pair.subject, pair.oracle):
        collection = server.client["diff"]["ttl_sweep"]
        collection.drop()
        before = server.client.admin.command("serverStatus")["metrics"]["ttl"]["deletedDocuments"]
        collection.create_index("d", expireAfterSeconds=30 * 86400)
        collection.create_index("e", expireAfterSeconds=0)
        collection.insert_many(documents)
        deadline = time.monotonic() + 70
        while time.monotonic() < deadline and collection.count_documents({}) > 5:
            time.sleep(0.2)
        left = sorted(document["_id"] for document in collection.find())
        after = server.client.admin.command("serverStatus")["metrics"]["ttl"]
        assert left == [2, 3, 4, 7, 8], server.name
        assert after["deletedDocuments"] - before == 3, server.name
        assert after["passes"] > 0, server.name
        collection.drop()
