"""Query operators over every BSON type, by scan and by every kind of index.

Every filter runs as `find` and as `count` on each variant of the fixture `values`.
"""

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from fixtures import COMPOSITES, INF, NAN, OID, VALUES, date

COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]


def generated():
    """Each comparison with each value, on a plain and on a nested path."""
    for name, value in VALUES:
        if isinstance(value, Regex):
            continue  # a regular expression as a value is a match: see the table below
        for operator in COMPARISONS:
            yield f"{operator}_{name}", {"a": {operator: value}}
        yield f"implicit_{name}", {"a": value}
        yield f"in_{name}", {"a": {"$in": [value, 5]}}
        yield f"nin_{name}", {"a": {"$nin": [value]}}
        yield f"nested_eq_{name}", {"a.b": value}
        yield f"not_gt_{name}", {"a": {"$not": {"$gt": value}}}
        yield f"nested_gte_{name}", {"a.b": {"$gte": value}}
        yield f"nested_lt_{name}", {"a.b": {"$lt": value}}
        yield f"nested_ne_{name}", {"a.b": {"$ne": value}}
        yield f"all_{name}", {"a": {"$all": [value]}}
    for name, value in COMPOSITES:
        yield f"elem_eq_{name}", {"a": {"$elemMatch": {"$eq": value}}}


ALL_TYPES = [
    "double", "string", "object", "array", "binData", "undefined", "objectId", "bool", "date", "null", "regex",
    "dbPointer", "javascript", "symbol", "javascriptWithScope", "int", "timestamp", "long", "decimal", "minKey",
    "maxKey", "number",
]  # fmt: skip

TABLE = {
    # logical
    "empty": {},
    "and": {"$and": [{"a": {"$gt": 0}}, {"a": {"$lt": 2}}]},
    "and_empty": {"$and": []},
    "and_not_array": {"$and": {"a": 1}},
    "and_not_objects": {"$and": [1]},
    "or": {"$or": [{"a": 1}, {"a": "abc"}, {"n": 3}]},
    "or_empty": {"$or": []},
    "or_same_field": {"$or": [{"a": {"$lt": 0}}, {"a": {"$gt": 100}}]},
    "or_and": {"n": {"$gte": 5}, "$or": [{"a": 1}, {"a": None}]},
    "or_nested": {"$or": [{"$and": [{"a": 1}, {"n": {"$lt": 10}}]}, {"$or": [{"a": 2}, {"a": 5}]}]},
    "or_two_fields": {"$or": [{"a": {"$gte": 1}, "n": {"$lt": 20}}, {"n": 3, "a": {"$ne": 1}}, {"a.b": {"$gt": 0}}]},
    "or_twice": {"$and": [{"$or": [{"a": {"$lt": 5}}, {"n": 3}]}, {"$or": [{"n": {"$gt": 10}}, {"a": 1}]}]},
    "or_nested_and_range": {"n": {"$lt": 40}, "$or": [{"a": 1, "$or": [{"n": {"$gt": 3}}, {"a": None}]}, {"_id": {"$lt": 9}}]},
    "nor": {"$nor": [{"a": 1}, {"a": None}]},
    "nor_empty": {"$nor": []},
    "not": {"a": {"$not": {"$gt": 1}}},
    "not_eq": {"a": {"$not": {"$eq": 1}}},
    "not_regex": {"a": {"$not": Regex("^a")}},
    "not_regex_operator": {"a": {"$not": {"$regex": "^a"}}},
    "not_empty": {"a": {"$not": {}}},
    "not_value": {"a": {"$not": 1}},
    "not_in": {"a": {"$not": {"$in": [1, 2]}}},
    "not_not": {"a": {"$not": {"$not": {"$eq": 1}}}},
    "not_elem": {"a": {"$not": {"$elemMatch": {"$gt": 1}}}},
    "range": {"a": {"$gt": 0, "$lt": 10}},
    "range_inclusive": {"a": {"$gte": 1, "$lte": 2}},
    "range_empty": {"a": {"$gt": 10, "$lt": 0}},
    "range_mixed_types": {"a": {"$gt": 0, "$lt": "z"}},
    "range_minkey_maxkey": {"a": {"$gt": MinKey(), "$lt": MaxKey()}},
    "range_gte_minkey": {"a": {"$gte": MinKey()}},
    "range_null": {"a": {"$gte": None}},
    "range_dates": {"a": {"$gte": date(1969, 1, 1), "$lt": date(2021, 1, 1)}},
    "range_strings": {"a": {"$gte": "a", "$lt": "b"}},
    "range_nan": {"a": {"$gte": NAN, "$lte": NAN}},
    "range_inf": {"a": {"$gt": -INF, "$lt": INF}},
    "multi_fields": {"a": {"$gte": 0}, "n": {"$lt": 30}, "s": {"$ne": "int_1"}},
    "duplicate_operator_ne": {"a": {"$ne": 1, "$nin": [2]}},
    # in
    "in_empty": {"a": {"$in": []}},
    "nin_empty": {"a": {"$nin": []}},
    "in_many": {"a": {"$in": [1, "abc", None, date(2020, 1, 1), OID, True]}},
    "in_null": {"a": {"$in": [None]}},
    "nin_null": {"a": {"$nin": [None]}},
    "nin_null_1": {"a": {"$nin": [None, 1]}},
    "in_regex": {"a": {"$in": [Regex("^a"), 5]}},
    "nin_regex": {"a": {"$nin": [Regex("^a")]}},
    "in_arrays": {"a": {"$in": [[1, 2], [2, 1]]}},
    "in_array_empty": {"a": {"$in": [[]]}},
    "in_not_array": {"a": {"$in": 5}},
    "in_operator_inside": {"a": {"$in": [{"$gt": 5}]}},
    "nin_not_array": {"a": {"$nin": 5}},
    "in_duplicates": {"a": {"$in": [1, 1.0, Int64(1), 1]}},
    "in_minkey": {"a": {"$in": [MinKey(), MaxKey()]}},
    "in_nested": {"a.b": {"$in": [1, 5, None]}},
    # element
    "exists_true": {"a": {"$exists": True}},
    "exists_false": {"a": {"$exists": False}},
    "exists_1": {"a": {"$exists": 1}},
    "exists_0": {"a": {"$exists": 0}},
    "exists_null": {"a": {"$exists": None}},
    "exists_string": {"a": {"$exists": "x"}},
    "exists_nested_true": {"a.b": {"$exists": True}},
    "exists_nested_false": {"a.b": {"$exists": False}},
    "exists_index": {"a.0": {"$exists": True}},
    "exists_and_null": {"a": {"$exists": True, "$eq": None}},
    "not_exists_or": {"$or": [{"a": {"$exists": False}}, {"a": 1}]},
    "type_unknown": {"a": {"$type": "nothing"}},
    "type_number_unknown": {"a": {"$type": 99}},
    "type_fraction": {"a": {"$type": 1.5}},
    "type_list": {"a": {"$type": ["string", "null"]}},
    "type_list_empty": {"a": {"$type": []}},
    "type_list_numbers": {"a": {"$type": [2, 16]}},
    "type_object": {"a": {"$type": {}}},
    "type_minus_1": {"a": {"$type": -1}},
    "type_127": {"a": {"$type": 127}},
    "type_0": {"a": {"$type": 0}},
    "type_nested": {"a.b": {"$type": "int"}},
    "type_nested_array": {"a.b": {"$type": "array"}},
    "type_not": {"a": {"$not": {"$type": "string"}}},
    # arrays
    "all": {"a": {"$all": [1, 2]}},
    "all_empty": {"a": {"$all": []}},
    "all_not_array": {"a": {"$all": 1}},
    "all_nested_array": {"a": {"$all": [[1, 2]]}},
    "all_regex": {"a": {"$all": [Regex("^a")]}},
    "all_null": {"a": {"$all": [None]}},
    "all_elem_match": {"a": {"$all": [{"$elemMatch": {"b": 1}}, {"$elemMatch": {"b": 2}}]}},
    "all_elem_match_mixed": {"a": {"$all": [{"$elemMatch": {"b": 1}}, 1]}},
    "all_operator": {"a": {"$all": [{"$gt": 1}]}},
    "all_dotted": {"a.b": {"$all": [1, 2]}},
    "size_0": {"a": {"$size": 0}},
    "size_2": {"a": {"$size": 2}},
    "size_2_double": {"a": {"$size": 2.0}},
    "size_long": {"a": {"$size": Int64(2)}},
    "size_fraction": {"a": {"$size": 1.5}},
    "size_negative": {"a": {"$size": -1}},
    "size_string": {"a": {"$size": "2"}},
    "size_nested": {"a.b": {"$size": 2}},
    "elem_range": {"a": {"$elemMatch": {"$gt": 4, "$lt": 10}}},
    "elem_object": {"a": {"$elemMatch": {"b": 1}}},
    "elem_object_two": {"a": {"$elemMatch": {"b": {"$gte": 1}, "c": {"$exists": False}}}},
    "elem_empty": {"a": {"$elemMatch": {}}},
    "elem_not_object": {"a": {"$elemMatch": 1}},
    "elem_and": {"a": {"$elemMatch": {"$and": [{"b": 1}, {"b": {"$lt": 5}}]}}},
    "elem_or": {"a": {"$elemMatch": {"$or": [{"b": 1}, {"c": 2}]}}},
    "elem_nested": {"a": {"$elemMatch": {"b": {"$elemMatch": {"c": 1}}}}},
    "elem_dotted": {"a.b": {"$elemMatch": {"$gte": 3}}},
    "elem_not": {"a": {"$elemMatch": {"$not": {"$gt": 1}}}},
    "elem_in": {"a": {"$elemMatch": {"$in": [1, 3]}}},
    "elem_ne": {"a": {"$elemMatch": {"$ne": 1}}},
    "elem_regex": {"a": {"$elemMatch": {"$regex": "^x"}}},
    "elem_array_index": {"a": {"$elemMatch": {"0": 1}}},
    "elem_unknown": {"a": {"$elemMatch": {"$foo": 1}}},
    # paths
    "index_0": {"a.0": 1},
    "index_1": {"a.1": 2},
    "index_0_gt": {"a.0": {"$gt": 0}},
    "index_0_b": {"a.0.b": 1},
    "index_1_b": {"a.1.b": 2},
    "index_b_c": {"a.b.c": 1},
    "index_b_0": {"a.b.0": 1},
    "index_b_0_c": {"a.b.0.c": 1},
    "index_0_0": {"a.0.0": 1},
    "index_b_c_gt": {"a.b.c": {"$gt": 1}},
    "index_99": {"a.99": None},
    "nested_null": {"a.b": None},
    "nested_ne_null": {"a.b": {"$ne": None}},
    "nested_not_null_exists": {"a.b": {"$exists": True, "$ne": None}},
    "deep_null": {"a.b.c": None},
    "nested_null_in": {"a.b": {"$in": [None, 1]}},
    "path_empty": {"": 1},
    "path_dollar": {"$foo": 1},
    "path_trailing_dot": {"a.": 1},
    "path_leading_dot": {".a": 1},
    "path_double_dot": {"a..b": 1},
    "id": {"_id": 5},
    "id_in": {"_id": {"$in": [1, 5, 99]}},
    "id_range": {"_id": {"$gte": 3, "$lt": 8}},
    "id_and_a": {"_id": {"$lt": 40}, "a": {"$gt": 1}},
    "id_null": {"_id": None},
    "id_double": {"_id": 5.0},
    # evaluation
    "mod": {"a": {"$mod": [2, 1]}},
    "mod_zero_remainder": {"a": {"$mod": [2, 0]}},
    "mod_negative": {"a": {"$mod": [2, -1]}},
    "mod_double": {"a": {"$mod": [2.7, 1.9]}},
    "mod_by_zero": {"a": {"$mod": [0, 1]}},
    "mod_short": {"a": {"$mod": [2]}},
    "mod_empty": {"a": {"$mod": []}},
    "mod_long_list": {"a": {"$mod": [2, 1, 3]}},
    "mod_not_array": {"a": {"$mod": 2}},
    "mod_string": {"a": {"$mod": ["a", 1]}},
    "mod_remainder_string": {"a": {"$mod": [2, "a"]}},
    "mod_nan": {"a": {"$mod": [NAN, 1]}},
    "mod_inf": {"a": {"$mod": [INF, 1]}},
    "mod_long": {"a": {"$mod": [Int64(4294967296), 0]}},
    "mod_min_by_minus_1": {"a": {"$mod": [-1, 0]}},
    "mod_decimal": {"a": {"$mod": [Decimal128("2"), Decimal128("1")]}},
    "regex": {"a": {"$regex": "b"}},
    "regex_prefix": {"a": {"$regex": "^a"}},
    "regex_prefix_more": {"a": {"$regex": "^ab"}},
    "regex_prefix_i": {"a": {"$regex": "^a", "$options": "i"}},
    "regex_literal": {"a": Regex("^abc$")},
    "regex_value": {"a": Regex("^a", "i")},
    "regex_eq_value": {"a": {"$eq": Regex("^a", "i")}},
    "regex_ne_value": {"a": {"$ne": Regex("^a", "i")}},
    "regex_gt": {"a": {"$gt": Regex("^a")}},
    "regex_multiline": {"a": {"$regex": "^second", "$options": "m"}},
    "regex_dotall": {"a": {"$regex": "first.second", "$options": "s"}},
    "regex_no_dotall": {"a": {"$regex": "first.second"}},
    "regex_extended": {"a": {"$regex": "a b c # comment", "$options": "x"}},
    "regex_utf8": {"a": {"$regex": "^.bc$"}},
    "regex_class": {"a": {"$regex": "^[a-c]+$"}},
    "regex_lookahead": {"a": {"$regex": "^(?=a)abc"}},
    "regex_backreference": {"a": {"$regex": "(.)\\1"}},
    "regex_alternation": {"a": {"$regex": "^abc|^xyz"}},
    "regex_alternation_whole": {"a": {"$regex": "^abc$|^int_1$|^5"}},
    "regex_alternation_group": {"a": {"$regex": "^(abc|b|x)"}},
    "regex_alternation_group_rest": {"a": {"$regex": "^(?:a|first)(b|\\W)"}},
    "regex_alternation_optional": {"a": {"$regex": "^(x|y)?a"}},
    "regex_alternation_escaped": {"a": {"$regex": "^a\\|b|^abc"}},
    "regex_alternation_quoted": {"a": {"$regex": "^\\Qa|^b\\E|^abc"}},
    "regex_alternation_class": {"a": {"$regex": "^[x|y]|^abc"}},
    "regex_alternation_options": {"a": {"$regex": "^x(?i)|^ABC"}},
    "regex_alternation_loose": {"a": {"$regex": "^x|bc"}},
    "regex_alternation_empty": {"a": {"$regex": "^x|"}},
    "regex_alternation_in": {"a": {"$in": [Regex("^x$|^abc$"), 5]}},
    "regex_empty": {"a": {"$regex": ""}},
    "regex_invalid": {"a": {"$regex": "("}},
    "regex_bad_option": {"a": {"$regex": "a", "$options": "q"}},
    "regex_options_only": {"a": {"$options": "i"}},
    "regex_number": {"a": {"$regex": 5}},
    "regex_options_both": {"a": {"$regex": Regex("a", "i"), "$options": "m"}},
    "regex_options_override": {"a": {"$regex": Regex("^A", ""), "$options": "i"}},
    "regex_nested": {"a.b": {"$regex": "^a"}},
    "regex_nul": {"a": {"$regex": "a\\x00b"}},
    "regex_anchor_end": {"a": {"$regex": "c$"}},
    "regex_start_A": {"a": {"$regex": "\\Aab"}},
    "regex_quoted": {"a": {"$regex": "^\\Qab\\E"}},
    "regex_unicode_property": {"a": {"$regex": "^\\p{L}+$"}},
    "regex_symbol": {"a": {"$regex": "^abc$"}},
    "bits_all_set": {"a": {"$bitsAllSet": 1}},
    "bits_all_set_positions": {"a": {"$bitsAllSet": [0, 1]}},
    "bits_all_set_0": {"a": {"$bitsAllSet": 0}},
    "bits_any_set": {"a": {"$bitsAnySet": 6}},
    "bits_all_clear": {"a": {"$bitsAllClear": [0]}},
    "bits_any_clear": {"a": {"$bitsAnyClear": [0, 5]}},
    "bits_binary": {"a": {"$bitsAllSet": Binary(b"a", 0)}},
    "bits_any_binary": {"a": {"$bitsAnySet": Binary(b"\xff\xff", 0)}},
    "bits_far_position": {"a": {"$bitsAllClear": [200]}},
    "bits_far_set": {"a": {"$bitsAnySet": [63]}},
    "bits_negative": {"a": {"$bitsAllSet": -1}},
    "bits_negative_position": {"a": {"$bitsAllSet": [-1]}},
    "bits_fraction": {"a": {"$bitsAllSet": 1.5}},
    "bits_string": {"a": {"$bitsAllSet": "a"}},
    "bits_string_position": {"a": {"$bitsAllSet": ["a"]}},
    "bits_double": {"a": {"$bitsAllSet": 2.0}},
    "bits_huge_double": {"a": {"$bitsAllSet": 1e30}},
    "expr_true": {"$expr": True},
    "expr_false": {"$expr": False},
    "expr_field": {"$expr": "$a"},
    "expr_gt": {"$expr": {"$gt": ["$a", 1]}},
    "expr_eq": {"$expr": {"$eq": ["$a", "abc"]}},
    "expr_eq_null": {"$expr": {"$eq": ["$a", None]}},
    "expr_lt_date": {"$expr": {"$lt": ["$a", date(2020, 1, 1)]}},
    "expr_in_and": {"$and": [{"n": {"$lt": 20}}, {"$expr": {"$gte": ["$n", 10]}}]},
    "expr_unknown": {"$expr": {"$foo": 1}},
    "expr_nested_in_elem": {"a": {"$elemMatch": {"$expr": True}}},
    "expr_under_field": {"a": {"$expr": True}},
    "comment": {"a": 1, "$comment": "why"},
    "comment_in_operator": {"a": {"$gt": 1, "$comment": "why"}},
    "always_true": {"$alwaysTrue": 1},
    "always_false": {"$alwaysFalse": 1},
    "always_true_bad": {"$alwaysTrue": 2},
    "where": {"$where": "true"},
    "text": {"$text": {"$search": "a"}},
    "unknown_top": {"$foo": 1},
    "unknown_operator": {"a": {"$foo": 1}},
    "mixed_operator_field": {"a": {"$gt": 1, "b": 2}},
    "mixed_field_operator": {"a": {"b": 2, "$gt": 1}},
    "dbref_fields": {"a": {"$ref": "c", "$id": 1}},
    "json_schema": {"$jsonSchema": {"required": ["a"], "properties": {"a": {"bsonType": "int"}}}},
    "json_schema_not_object": {"$jsonSchema": 1},
    "json_schema_range": {"$jsonSchema": {"properties": {"a": {"minimum": 1}}}},
    "eq_undefined_like": {"a": {"$eq": None}},
    "code": {"a": Code("function() {}")},
    "timestamp_gt": {"a": {"$gt": Timestamp(0, 1)}},
    "oid_range": {"a": {"$gte": ObjectId("000000000000000000000000")}},
    "binary_range": {"a": {"$gte": Binary(b"", 0)}},
    "bool_range": {"a": {"$gte": False}},
    "object_range": {"a": {"$gt": {"b": 0}}},
    "array_range": {"a": {"$gt": [1]}},
    "array_range_lte": {"a": {"$lte": [1, 2]}},
    "sample_rate_1": {"$sampleRate": 1.0},
    "sample_rate_0": {"$sampleRate": 0.0},
    "sample_rate_bad": {"$sampleRate": 2},
    # keywords inside internal places
    "eq_operator_object": {"a": {"$eq": {"$gt": 1}}},
    "near": {"a": {"$nin": [MinKey()]}},
}

for _type in ALL_TYPES:
    TABLE[f"type_{_type}"] = {"a": {"$type": _type}}
for _number in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]:
    TABLE[f"type_number_{_number}"] = {"a": {"$type": _number}}

FILTERS = list(TABLE.items()) + list(generated())

# Filters that only scans answer the same: an index of this kind is not asked.
NOT_ASKED = {}


@pytest.mark.parametrize("condition", [f for _, f in FILTERS], ids=[name for name, _ in FILTERS])
def test_filter(pair, condition):
    pair.on_variants(
        "values",
        lambda name: [
            {"find": name, "filter": condition, "projection": {"_id": 1}, "batchSize": 1000},
            {"count": name, "query": condition},
        ],
        ignore=("planCacheKey",),
    )


HINTED = [
    ("range", {"a": {"$gte": 1, "$lt": 10}}),
    ("null", {"a": None}),
    ("exists_false", {"a": {"$exists": False}}),
    ("ne", {"a": {"$ne": 1}}),
    ("empty", {}),
    ("nested", {"a.b": {"$gt": 0}}),
    ("n", {"n": {"$lt": 20}}),
    ("type", {"a": {"$type": "string"}}),
]
VARIANT_HINTS = {
    "a": {"a": 1},
    "a_desc": {"a": -1},
    "a_b": {"a.b": 1},
    "a_n": {"a": 1, "n": 1},
    "n_a": {"n": 1, "a": -1},
    "a_sparse": {"a": 1},
    "a_partial": {"a": 1},
}


@pytest.mark.parametrize("condition", [f for _, f in HINTED], ids=[name for name, _ in HINTED])
@pytest.mark.parametrize("variant", VARIANT_HINTS)
def test_hinted(pair, condition, variant):
    pair.on_variants(
        "values",
        lambda name: [
            {"find": name, "filter": condition, "projection": {"_id": 1}, "hint": VARIANT_HINTS[variant]},
            {"count": name, "query": condition, "hint": VARIANT_HINTS[variant]},
            {"find": name, "filter": condition, "projection": {"_id": 1}, "hint": {"$natural": 1}},
        ],
        variants=[variant],
    )


# Top-level shapes of `find` that are not filters.
FIND_SHAPES = {
    "skip": {"skip": 5, "sort": {"_id": 1}},
    "limit": {"limit": 5, "sort": {"_id": 1}},
    "skip_limit": {"skip": 5, "limit": 3, "sort": {"_id": -1}},
    "skip_past": {"skip": 10_000},
    "skip_negative": {"skip": -1},
    "limit_negative": {"limit": -3},
    "limit_0": {"limit": 0},
    "limit_double": {"limit": 2.0, "sort": {"_id": 1}},
    "limit_fraction": {"limit": 2.7, "sort": {"_id": 1}},
    "limit_string": {"limit": "2"},
    "skip_string": {"skip": "2"},
    "single_batch": {"batchSize": 2, "singleBatch": True, "sort": {"_id": 1}},
    "batch_0": {"batchSize": 0},
    "batch_2": {"batchSize": 2, "sort": {"_id": 1}},
    "batch_negative": {"batchSize": -2},
    "default_batch": {"sort": {"_id": 1}},
    "max_time": {"maxTimeMS": 10_000, "sort": {"_id": 1}, "limit": 1},
    "max_time_negative": {"maxTimeMS": -1},
    "max_time_string": {"maxTimeMS": "1"},
    "min": {"min": {"n": 5}, "hint": {"n": 1}},
    "return_key": {"returnKey": True, "limit": 1, "sort": {"_id": 1}},
    "show_record_id_false": {"showRecordId": False, "limit": 1, "sort": {"_id": 1}},
    "let": {"let": {"x": 5}, "filter": {"$expr": {"$eq": ["$n", "$$x"]}}},
    "let_unused": {"let": {"x": 5}, "limit": 1, "sort": {"_id": 1}},
    "filter_not_object": {"filter": 1},
    "filter_null": {"filter": None, "limit": 1, "sort": {"_id": 1}},
    "filter_array": {"filter": []},
    "sort_not_object": {"sort": 1},
    "projection_not_object": {"projection": 1},
    "hint_unknown": {"hint": {"zzz": 1}},
    "hint_unknown_name": {"hint": "zzz_1"},
    "hint_natural": {"hint": {"$natural": -1}, "limit": 3, "sort": {}},
    "hint_id": {"hint": "_id_", "limit": 2, "sort": {"_id": 1}},
    "hint_number": {"hint": 5},
    "collation_simple": {"collation": {"locale": "simple"}, "limit": 1, "sort": {"_id": 1}},
    "unknown_option": {"foo": 1},
    "comment": {"comment": "why", "limit": 1, "sort": {"_id": 1}},
    "read_concern_local": {"readConcern": {"level": "local"}, "limit": 1, "sort": {"_id": 1}},
    "read_concern_unknown": {"readConcern": {"level": "foo"}},
    "tailable": {"tailable": True},
    "await_data": {"awaitData": True},
    "allow_disk_use": {"allowDiskUse": True, "limit": 1, "sort": {"a": 1, "_id": 1}},
    "no_cursor_timeout": {"noCursorTimeout": True, "limit": 1, "sort": {"_id": 1}},
    "duplicate_let_name": {"let": {"1x": 5}},
}


@pytest.mark.parametrize("shape", FIND_SHAPES.values(), ids=FIND_SHAPES.keys())
def test_find_shape(pair, shape):
    pair.on_variants("values", lambda name: [{"find": name, **shape}], variants=["none", "n_a"])


DISTINCT = {
    "a": ("a", {}),
    "a_b": ("a.b", {}),
    "a_b_c": ("a.b.c", {}),
    "a_0": ("a.0", {}),
    "a_filtered": ("a", {"n": {"$lt": 30}}),
    "a_range": ("a", {"a": {"$gte": 0}}),
    "id": ("_id", {"n": {"$lt": 5}}),
    "missing": ("zzz", {}),
    "empty": ("", {}),
    "s": ("s", {}),
}


@pytest.mark.parametrize("key,condition", DISTINCT.values(), ids=DISTINCT.keys())
def test_distinct(pair, key, condition):
    # Equal numbers of different types are one value; which of them is shown is the server's choice.
    pair.on_variants(
        "values",
        lambda name: [{"distinct": name, "key": key, "query": condition}],
        variants=["none", "a_n", "a_b"],
    )


def test_distinct_errors(pair):
    for command in [
        {"key": 5}, {"query": {}}, {"key": "a", "query": 5}, {"key": "a", "query": {"$foo": 1}}, {"key": "a", "zzz": 1},
    ]:  # fmt: skip
        pair.on_variants("values", lambda name: [{"distinct": name, **command}], variants=["none"])


COUNT_SHAPES = {
    "all": {},
    "limit": {"limit": 5},
    "limit_negative": {"limit": -5},
    "skip": {"skip": 10},
    "skip_limit": {"skip": 3, "limit": 5, "query": {"n": {"$gt": 5}}},
    "skip_negative": {"skip": -1},
    "fields": {"fields": {"a": 1}},
    "query_null": {"query": None},
    "query_number": {"query": 1},
    "hint": {"query": {"n": {"$gt": 5}}, "hint": "_id_"},
    "hint_unknown": {"hint": "zzz"},
    "unknown_option": {"zzz": 1},
}


@pytest.mark.parametrize("shape", COUNT_SHAPES.values(), ids=COUNT_SHAPES.keys())
def test_count_shape(pair, shape):
    pair.on_variants("values", lambda name: [{"count": name, **shape}], variants=["none", "a_n"])
