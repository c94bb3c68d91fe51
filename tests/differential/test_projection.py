"""Projections: inclusion, exclusion, nested, positional, $slice, $elemMatch, expressions, errors."""

import pytest
from bson import Int64, Regex

PROJECTIONS = {
    "include": {"a": 1},
    "include_true": {"a": True},
    "include_double": {"a": 2.5},
    "include_long": {"a": Int64(1)},
    "include_no_id": {"a": 1, "_id": 0},
    "include_two": {"n": 1, "a": 1},
    "include_nested": {"a.b": 1},
    "include_nested_no_id": {"a.b": 1, "_id": 0},
    "include_deep": {"a.b.c": 1},
    "include_siblings": {"a.b": 1, "a.c": 1},
    "include_object": {"a": {"b": 1}},
    "include_object_deep": {"a": {"b": {"c": 1}}},
    "include_missing": {"zzz": 1},
    "include_index_path": {"a.0": 1},
    "include_id_only": {"_id": 1},
    "exclude": {"a": 0},
    "exclude_false": {"a": False},
    "exclude_id": {"_id": 0},
    "exclude_id_and_a": {"_id": 0, "a": 0},
    "exclude_nested": {"a.b": 0},
    "exclude_deep": {"a.b.c": 0},
    "exclude_object": {"a": {"b": 0}},
    "exclude_keep_id": {"a": 0, "_id": 1},
    "mixed": {"a": 1, "n": 0},
    "mixed_other_way": {"a": 0, "n": 1},
    "collision": {"a": 1, "a.b": 1},
    "collision_reverse": {"a.b": 1, "a": 1},
    "empty": {},
    "null": {"a": None},
    "string": {"a": "x"},
    "field_path": {"x": "$n"},
    "field_path_and_include": {"a": 1, "x": "$n"},
    "literal": {"x": {"$literal": 1}},
    "expression": {"x": {"$add": ["$n", 1]}},
    "expression_nested": {"x.y": {"$add": ["$n", 1]}},
    "expression_with_exclusion": {"a": 0, "x": {"$add": ["$n", 1]}},
    "expression_array": {"x": ["$n", 1]},
    "expression_unknown": {"x": {"$foo": 1}},
    "root_variable": {"x": "$$ROOT.n"},
    "slice": {"a": {"$slice": 1}},
    "slice_negative": {"a": {"$slice": -1}},
    "slice_pair": {"a": {"$slice": [1, 1]}},
    "slice_pair_negative": {"a": {"$slice": [-2, 1]}},
    "slice_zero": {"a": {"$slice": 0}},
    "slice_large": {"a": {"$slice": 100}},
    "slice_inclusion": {"n": 1, "a": {"$slice": 1}},
    "slice_exclusion": {"n": 0, "a": {"$slice": 1}},
    "slice_nested": {"a.b": {"$slice": 1}},
    "slice_string": {"a": {"$slice": "x"}},
    "slice_bad_pair": {"a": {"$slice": [1, -1]}},
    "slice_three": {"a": {"$slice": ["$a", 0, 1]}},
    "slice_empty_array": {"a": {"$slice": []}},
    "elem_match": {"a": {"$elemMatch": {"b": 1}}},
    "elem_match_value": {"a": {"$elemMatch": {"$gt": 1}}},
    "elem_match_include": {"n": 1, "a": {"$elemMatch": {"b": {"$gte": 1}}}},
    "elem_match_exclude": {"n": 0, "a": {"$elemMatch": {"b": 1}}},
    "elem_match_nested_path": {"a.b": {"$elemMatch": {"$gt": 1}}},
    "elem_match_not_object": {"a": {"$elemMatch": 1}},
    "positional_without_query": {"a.$": 1},
    "meta_text": {"x": {"$meta": "textScore"}},
    "meta_unknown": {"x": {"$meta": "foo"}},
    "dollar_field": {"$a": 1},
    "dotted_trailing": {"a.": 1},
    "dotted_leading": {".a": 1},
    "empty_name": {"": 1},
    "id_nested": {"_id.x": 1},
    "exclude_id_nested": {"_id.x": 0},
    "empty_object_value": {"a": {}},
    "regex_value": {"x": Regex("a")},
}

POSITIONAL = {
    "value": ({"a": {"$gt": 1}}, {"a.$": 1}),
    "value_and_field": ({"a": {"$gt": 1}}, {"n": 1, "a.$": 1}),
    "elem_match": ({"a": {"$elemMatch": {"b": 2}}}, {"a.$": 1}),
    "nested_field": ({"a.b": 2}, {"a.$": 1}),
    "nested_path": ({"a.b": 2}, {"a.$.b": 1}),
    "no_array_condition": ({"n": {"$gte": 0}}, {"a.$": 1}),
    "and": ({"$and": [{"a": 1}, {"a": 2}]}, {"a.$": 1}),
    "in": ({"a": {"$in": [2, 3]}}, {"a.$": 1}),
    "twice": ({"a": 1}, {"a.$": 1, "b.$": 1}),
    "exclusion": ({"a": 1}, {"a.$": 0}),
    "not_leaf_first": ({"a": 1}, {"$": 1}),
    "two_arrays": ({"a": 1, "s": {"$exists": True}}, {"a.$": 1}),
    "or": ({"$or": [{"a": 2}, {"a": 9}]}, {"a.$": 1}),
    "with_slice": ({"a": 1}, {"a.$": 1, "b": {"$slice": 1}}),
}


@pytest.mark.parametrize("projection", PROJECTIONS.values(), ids=PROJECTIONS.keys())
def test_projection(pair, projection):
    pair.on_variants("values", lambda name: [{"find": name, "projection": projection, "batchSize": 1000}], variants=["none"])


@pytest.mark.parametrize("condition,projection", POSITIONAL.values(), ids=POSITIONAL.keys())
def test_positional(pair, condition, projection):
    pair.on_variants(
        "values",
        lambda name: [{"find": name, "filter": condition, "projection": projection, "batchSize": 1000}],
        variants=["none", "a"],
    )


# Projections an index can answer alone; the type of every number must come back exactly.
COVERED = {
    "a_n": ({"a": {"$gte": 0}}, {"_id": 0, "a": 1, "n": 1}, "a_n"),
    "a_n_all": ({"a": {"$gte": None}}, {"_id": 0, "a": 1}, "a_n"),
    "n_a": ({"n": {"$lt": 60}}, {"_id": 0, "n": 1, "a": 1}, "n_a"),
    "people_age": ({"age": {"$gte": 5}}, {"_id": 0, "age": 1}, "age"),
    "people_city": ({"city": "Paris"}, {"_id": 0, "city": 1, "age": 1}, "city_age"),
    "people_city_id": ({"city": "Paris"}, {"city": 1, "age": 1}, "city_age"),
    "score": ({"score": {"$gt": -5}}, {"_id": 0, "score": 1}, "score_sparse"),
}


@pytest.mark.parametrize("condition,projection,variant", COVERED.values(), ids=COVERED.keys())
def test_covered(pair, condition, projection, variant):
    fixture = "values" if variant in ("a_n", "n_a") else "people"
    pair.on_variants(
        fixture,
        lambda name: [{"find": name, "filter": condition, "projection": projection, "batchSize": 1000}],
        variants=[variant],
    )


PEOPLE = {
    "nested": {"address.street.name": 1},
    "nested_exclude": {"address.street.number": 0, "grades.grade": 0},
    "array_of_objects": {"grades.subject": 1},
    "array_elem": {"grades": {"$elemMatch": {"grade": {"$gte": 3}}}, "name": 1},
    "order_kept": {"city": 1, "name": 1, "age": 1},
    "computed": {"name": 1, "older": {"$gt": ["$age", 10]}},
    "computed_nested": {"address": {"city": "$city"}},
    "slice_and_more": {"tags": {"$slice": 1}, "grades": {"$slice": -1}, "big": 0},
}


@pytest.mark.parametrize("projection", PEOPLE.values(), ids=PEOPLE.keys())
def test_people(pair, projection):
    pair.on_variants(
        "people", lambda name: [{"find": name, "projection": projection, "sort": {"_id": 1}}], variants=["none", "tags"]
    )
