"""Update operators over every shape of document: results, counts, errors."""

import pytest
from bson import Decimal128, Int64, MaxKey, Regex, Timestamp
from fixtures import NAN, VALUES, date
from harness.cases import Case

BASE = {
    "_id": 1, "n": 5, "d": 1.5, "l": Int64(7), "m": Decimal128("2.50"), "s": "abc", "z": None, "b": True,
    "t": date(2020, 1, 1), "o": {"x": 1, "y": {"z": 2}}, "a": [1, 5, 3, 5], "e": [],
    "g": [{"k": 1, "v": 10}, {"k": 2, "v": 20}, {"k": 3, "v": 5}], "deep": [{"i": [1, 2]}, {"i": [3]}],
}  # fmt: skip


def update(change, query=None, **more):
    return {"update": "COLL", "updates": [{"q": {"_id": 1} if query is None else query, "u": change, **more}]}


READ = {"find": "COLL", "sort": {"_id": 1}}

OPERATORS = {
    # $set
    "set": {"$set": {"n": 6}},
    "set_same": {"$set": {"n": 5}},
    "set_same_other_type": {"$set": {"n": 5.0}},
    "set_new": {"$set": {"new": 1}},
    "set_new_order": {"$set": {"q": 1, "c": 2, "aa": 3, "10": 1, "9": 1}},
    "set_nested": {"$set": {"o.x": 2}},
    "set_nested_new": {"$set": {"o.q.r": 2}},
    "set_deep_new": {"$set": {"p.q.r": 1}},
    "set_through_scalar": {"$set": {"n.x": 1}},
    "set_through_null": {"$set": {"z.x": 1}},
    "set_array_element": {"$set": {"a.1": 99}},
    "set_array_append": {"$set": {"a.4": 99}},
    "set_array_gap": {"$set": {"a.6": 99}},
    "set_array_huge_gap": {"$set": {"a.2000000": 99}},
    "set_array_field": {"$set": {"a.x": 99}},
    "set_array_nested": {"$set": {"g.1.v": 99}},
    "set_array_new_object": {"$set": {"g.4.v": 99}},
    "set_array_leading_zero": {"$set": {"a.01": 1}},
    "set_id_same": {"$set": {"_id": 1}},
    "set_id_other": {"$set": {"_id": 2}},
    "set_id_nested": {"$set": {"_id.x": 2}},
    "set_empty": {"$set": {}},
    "set_not_object": {"$set": 5},
    "set_empty_path": {"$set": {"": 1}},
    "set_trailing_dot": {"$set": {"a.": 1}},
    "set_leading_dot": {"$set": {".a": 1}},
    "set_dollar_field": {"$set": {"$x": 1}},
    "set_dollar_value": {"$set": {"o": {"$x": 1}}},
    "set_positional_no_match": {"$set": {"a.$": 1}},
    "set_conflict": {"$set": {"o.x": 1, "o": 2}},
    "set_conflict_across": {"$set": {"n": 1}, "$inc": {"n": 1}},
    "set_conflict_nested": {"$set": {"o.y": 1}, "$unset": {"o.y.z": 1}},
    "set_many": {"$set": {"n": 1, "o.y.z": 5, "g.0.k": 7}, "$unset": {"s": ""}, "$inc": {"l": 1}},
    "set_null": {"$set": {"n": None}},
    "set_object": {"$set": {"n": {"a": [1, {"b": 2}]}}},
    "set_on_insert_update": {"$setOnInsert": {"n": 9}},
    # $unset
    "unset": {"$unset": {"n": ""}},
    "unset_many": {"$unset": {"n": 1, "o.x": 1, "zzz": 1}},
    "unset_array_element": {"$unset": {"a.1": 1}},
    "unset_array_nested": {"$unset": {"g.0.v": 1}},
    "unset_missing_nested": {"$unset": {"o.q.r": 1}},
    "unset_through_scalar": {"$unset": {"n.x": 1}},
    "unset_id": {"$unset": {"_id": 1}},
    # $inc and $mul
    "inc": {"$inc": {"n": 2}},
    "inc_negative": {"$inc": {"n": -7}},
    "inc_double": {"$inc": {"n": 0.5}},
    "inc_long": {"$inc": {"n": Int64(1)}},
    "inc_decimal": {"$inc": {"n": Decimal128("0.10")}},
    "inc_decimal_field": {"$inc": {"m": 1}},
    "inc_overflow": {"$inc": {"n": 2147483647}},
    "inc_long_overflow": {"$inc": {"l": Int64(9223372036854775807)}},
    "inc_missing": {"$inc": {"new": 3}},
    "inc_null": {"$inc": {"z": 1}},
    "inc_string": {"$inc": {"s": 1}},
    "inc_by_string": {"$inc": {"n": "1"}},
    "inc_by_null": {"$inc": {"n": None}},
    "inc_array": {"$inc": {"a": 1}},
    "inc_array_element": {"$inc": {"a.0": 1}},
    "inc_zero": {"$inc": {"n": 0}},
    "inc_zero_double": {"$inc": {"n": 0.0}},
    "inc_nan": {"$inc": {"d": NAN}},
    "inc_nested_new": {"$inc": {"o.q.c": 1}},
    "inc_id": {"$inc": {"_id": 1}},
    "mul": {"$mul": {"n": 3}},
    "mul_double": {"$mul": {"n": 0.5}},
    "mul_missing": {"$mul": {"new": 3}},
    "mul_missing_long": {"$mul": {"new": Int64(3)}},
    "mul_missing_double": {"$mul": {"new": 1.5}},
    "mul_overflow": {"$mul": {"n": 1000000000}},
    "mul_string": {"$mul": {"s": 2}},
    "mul_by_string": {"$mul": {"n": "2"}},
    "mul_one": {"$mul": {"n": 1}},
    # $min and $max
    "min_lower": {"$min": {"n": 1}},
    "min_higher": {"$min": {"n": 100}},
    "min_missing": {"$min": {"new": 1}},
    "min_type": {"$min": {"n": None}},
    "min_equal_type": {"$min": {"n": 5.0}},
    "max_higher": {"$max": {"n": 100}},
    "max_lower": {"$max": {"n": 1}},
    "max_type": {"$max": {"n": "x"}},
    "max_maxkey": {"$max": {"n": MaxKey()}},
    "max_date": {"$max": {"t": date(2021, 1, 1)}},
    # $rename
    "rename": {"$rename": {"n": "renamed"}},
    "rename_over": {"$rename": {"n": "s"}},
    "rename_nested": {"$rename": {"o.x": "o.w"}},
    "rename_out": {"$rename": {"o.y.z": "top"}},
    "rename_into_new": {"$rename": {"n": "q.r"}},
    "rename_missing": {"$rename": {"zzz": "q"}},
    "rename_same": {"$rename": {"n": "n"}},
    "rename_not_string": {"$rename": {"n": 5}},
    "rename_array_path": {"$rename": {"a.0": "q"}},
    "rename_into_array": {"$rename": {"n": "a.0"}},
    "rename_id": {"$rename": {"_id": "q"}},
    "rename_to_id": {"$rename": {"n": "_id"}},
    "rename_swap": {"$rename": {"n": "s", "s": "n"}},
    "rename_prefix": {"$rename": {"o": "o.x"}},
    "rename_empty": {"$rename": {"n": ""}},
    "rename_dollar": {"$rename": {"n": "$x"}},
    # $currentDate: only its errors are comparable
    "current_date_bad": {"$currentDate": {"t": 5}},
    "current_date_bad_type": {"$currentDate": {"t": {"$type": "foo"}}},
    "current_date_bad_object": {"$currentDate": {"t": {"foo": 1}}},
    # $bit
    "bit_and": {"$bit": {"n": {"and": 4}}},
    "bit_or": {"$bit": {"n": {"or": 8}}},
    "bit_xor": {"$bit": {"n": {"xor": 1}}},
    "bit_two": {"$bit": {"n": {"and": 4, "or": 1}}},
    "bit_long": {"$bit": {"n": {"or": Int64(4294967296)}}},
    "bit_missing": {"$bit": {"new": {"or": 3}}},
    "bit_double": {"$bit": {"d": {"and": 1}}},
    "bit_by_double": {"$bit": {"n": {"and": 1.0}}},
    "bit_unknown": {"$bit": {"n": {"nand": 1}}},
    "bit_not_object": {"$bit": {"n": 1}},
    "bit_empty": {"$bit": {"n": {}}},
    # $push
    "push": {"$push": {"a": 9}},
    "push_missing": {"$push": {"new": 9}},
    "push_nested": {"$push": {"o.list": 9}},
    "push_array": {"$push": {"a": [7, 8]}},
    "push_scalar_field": {"$push": {"n": 9}},
    "push_null_field": {"$push": {"z": 9}},
    "push_each": {"$push": {"a": {"$each": [7, 8]}}},
    "push_each_empty": {"$push": {"a": {"$each": []}}},
    "push_each_not_array": {"$push": {"a": {"$each": 7}}},
    "push_position": {"$push": {"a": {"$each": [7, 8], "$position": 1}}},
    "push_position_negative": {"$push": {"a": {"$each": [7], "$position": -1}}},
    "push_position_far": {"$push": {"a": {"$each": [7], "$position": 100}}},
    "push_position_string": {"$push": {"a": {"$each": [7], "$position": "x"}}},
    "push_slice": {"$push": {"a": {"$each": [7, 8], "$slice": 3}}},
    "push_slice_negative": {"$push": {"a": {"$each": [7, 8], "$slice": -3}}},
    "push_slice_zero": {"$push": {"a": {"$each": [7], "$slice": 0}}},
    "push_slice_string": {"$push": {"a": {"$each": [7], "$slice": "x"}}},
    "push_sort": {"$push": {"a": {"$each": [4], "$sort": 1}}},
    "push_sort_down": {"$push": {"a": {"$each": [4], "$sort": -1}}},
    "push_sort_field": {"$push": {"g": {"$each": [{"k": 0, "v": 15}], "$sort": {"v": -1}}}},
    "push_sort_two": {"$push": {"g": {"$each": [], "$sort": {"v": 1, "k": -1}}}},
    "push_sort_bad": {"$push": {"a": {"$each": [1], "$sort": 5}}},
    "push_sort_slice": {"$push": {"g": {"$each": [{"k": 9, "v": 7}], "$sort": {"v": 1}, "$slice": 2}}},
    "push_everything": {"$push": {"a": {"$each": [9, 0], "$position": 0, "$sort": 1, "$slice": -4}}},
    "push_unknown_modifier": {"$push": {"a": {"$each": [1], "$foo": 1}}},
    "push_modifier_without_each": {"$push": {"a": {"$slice": 1}}},
    "push_dollar_object": {"$push": {"a": {"$foo": 1}}},
    "push_all_elements": {"$push": {"deep.$[].i": 9}},
    "push_element": {"$push": {"deep.0.i": 9}},
    "push_no_value": {"$push": {}},
    # $addToSet
    "add_to_set": {"$addToSet": {"a": 9}},
    "add_to_set_there": {"$addToSet": {"a": 5}},
    "add_to_set_there_type": {"$addToSet": {"a": 5.0}},
    "add_to_set_each": {"$addToSet": {"a": {"$each": [5, 9, 9, 10]}}},
    "add_to_set_each_empty": {"$addToSet": {"a": {"$each": []}}},
    "add_to_set_object": {"$addToSet": {"g": {"k": 1, "v": 10}}},
    "add_to_set_object_order": {"$addToSet": {"g": {"v": 10, "k": 1}}},
    "add_to_set_missing": {"$addToSet": {"new": 1}},
    "add_to_set_missing_each": {"$addToSet": {"new": {"$each": [1, 1, 2]}}},
    "add_to_set_scalar": {"$addToSet": {"n": 1}},
    "add_to_set_unknown": {"$addToSet": {"a": {"$each": [1], "$slice": 1}}},
    "add_to_set_each_bad": {"$addToSet": {"a": {"$each": 1}}},
    # $pop
    "pop_last": {"$pop": {"a": 1}},
    "pop_first": {"$pop": {"a": -1}},
    "pop_empty": {"$pop": {"e": 1}},
    "pop_missing": {"$pop": {"new": 1}},
    "pop_scalar": {"$pop": {"n": 1}},
    "pop_zero": {"$pop": {"a": 0}},
    "pop_string": {"$pop": {"a": "x"}},
    "pop_fraction": {"$pop": {"a": 1.5}},
    "pop_double": {"$pop": {"a": -1.0}},
    # $pull
    "pull": {"$pull": {"a": 5}},
    "pull_double": {"$pull": {"a": 5.0}},
    "pull_condition": {"$pull": {"a": {"$gte": 3}}},
    "pull_in": {"$pull": {"a": {"$in": [1, 3]}}},
    "pull_object": {"$pull": {"g": {"k": 2}}},
    "pull_object_condition": {"$pull": {"g": {"v": {"$gt": 7}}}},
    "pull_object_two": {"$pull": {"g": {"k": 1, "v": 10}}},
    "pull_elem_match": {"$pull": {"g": {"$elemMatch": {"k": 1}}}},
    "pull_or": {"$pull": {"g": {"$or": [{"k": 1}, {"v": 5}]}}},
    "pull_regex": {"$pull": {"a": Regex("x")}},
    "pull_missing": {"$pull": {"new": 1}},
    "pull_scalar": {"$pull": {"n": 5}},
    "pull_null": {"$pull": {"a": None}},
    "pull_array": {"$pull": {"a": [1, 5]}},
    "pull_nested": {"$pull": {"deep.0.i": 1}},
    "pull_all_positional": {"$pull": {"deep.$[].i": {"$lt": 3}}},
    "pull_bad": {"$pull": {"a": {"$foo": 1}}},
    "pull_all": {"$pullAll": {"a": [1, 5]}},
    "pull_all_objects": {"$pullAll": {"g": [{"k": 1, "v": 10}]}},
    "pull_all_missing": {"$pullAll": {"new": [1]}},
    "pull_all_scalar": {"$pullAll": {"n": [1]}},
    "pull_all_not_array": {"$pullAll": {"a": 1}},
    # positional all
    "all_elements_inc": {"$inc": {"a.$[]": 10}},
    "all_elements_set": {"$set": {"g.$[].v": 0}},
    "all_elements_nested": {"$mul": {"deep.$[].i.$[]": 2}},
    "all_elements_scalar": {"$set": {"n.$[]": 1}},
    "all_elements_missing": {"$set": {"new.$[]": 1}},
    # shapes
    "empty": {},
    "unknown": {"$foo": {"a": 1}},
    "mixed": {"$set": {"n": 1}, "x": 1},
    "mixed_other": {"x": 1, "$set": {"n": 1}},
    "not_object": 5,
    "array_of_numbers": [5],
    "set_twice_same_value_types": {"$set": {"n": Int64(5)}},
    # replacement
    "replace": {"x": 1, "y": [2]},
    "replace_same_id": {"_id": 1, "x": 1},
    "replace_other_id": {"_id": 2, "x": 1},
    "replace_id_last": {"x": 1, "_id": 1},
    "replace_dollar_nested": {"x": {"$y": 1}},
    "replace_timestamp": {"x": {"nested": Timestamp(5, 5)}},
    # pipeline
    "pipeline_set": [{"$set": {"n": {"$add": ["$n", 1]}, "sum": {"$sum": "$a"}}}],
    "pipeline_unset": [{"$unset": ["s", "o.x"]}],
    "pipeline_replace": [{"$replaceWith": {"_id": "$_id", "only": "$n"}}],
    "pipeline_project": [{"$project": {"n": 1}}],
    "pipeline_several": [{"$set": {"q": 1}}, {"$set": {"r": {"$add": ["$q", 1]}}}, {"$unset": "q"}],
    "pipeline_match": [{"$match": {}}],
    "pipeline_empty": [],
    "pipeline_id": [{"$set": {"_id": 5}}],
    "pipeline_now_type": [{"$set": {"k": {"$type": "$$NOW"}}}],
    "pipeline_bad_expression": [{"$set": {"n": {"$foo": 1}}}],
    "pipeline_error": [{"$set": {"n": {"$add": ["$s", 1]}}}],
    "pipeline_unknown_stage": [{"$foo": 1}],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(pair, name):
    change = OPERATORS[name]
    pair.run_case(Case(f"op_{name}", [update(change), READ], [BASE]))


@pytest.mark.parametrize("name", OPERATORS)
def test_multi_and_upsert(pair, name):
    """The same update on several documents, then where nothing matches."""
    change = OPERATORS[name]
    pair.run_case(
        Case(
            f"mu_{name}",
            [update(change, {}, multi=True), READ, update(change, {"_id": 77, "kind": "new"}, upsert=True), READ],
            [{**BASE, "_id": 10}, {**BASE, "_id": 11, "n": 6}],
        )
    )


OVER_VALUES = {
    "set": {"$set": {"a": 1}},
    "set_nested": {"$set": {"a.b": 1}},
    "set_index": {"$set": {"a.0": 1}},
    "inc": {"$inc": {"a": 1}},
    "inc_nested": {"$inc": {"a.b": 1}},
    "mul": {"$mul": {"a": 2}},
    "min": {"$min": {"a": 1}},
    "max": {"$max": {"a": 1}},
    "push": {"$push": {"a": 1}},
    "add_to_set": {"$addToSet": {"a": 1}},
    "pull": {"$pull": {"a": 1}},
    "pull_object": {"$pull": {"a": {"b": 1}}},
    "pop": {"$pop": {"a": 1}},
    "unset_nested": {"$unset": {"a.b": 1}},
    "rename": {"$rename": {"a": "q"}},
    "bit": {"$bit": {"a": {"or": 1}}},
    "pull_all": {"$pullAll": {"a": [1, None]}},
    "all_positional": {"$set": {"a.$[]": 7}},
}


@pytest.mark.parametrize("name", OVER_VALUES)
def test_over_values(pair, name):
    """Each operator on a field of every BSON type."""
    documents = [{"_id": number, "a": value} for number, (_, value) in enumerate(VALUES)] + [{"_id": 1000}]
    commands = [update(OVER_VALUES[name], {"_id": document["_id"]}) for document in documents]
    pair.run_case(Case(f"ov_{name}", [*commands, READ], documents))


MATCHED = [
    Case("positional", [update({"$set": {"a.$": 99}}, {"a": 5}), READ], [BASE]),
    Case("positional_condition", [update({"$set": {"a.$": 99}}, {"a": {"$gt": 1}}), READ], [BASE]),
    Case("positional_field", [update({"$set": {"g.$.v": 99}}, {"g.k": 2}), READ], [BASE]),
    Case("positional_elem_match", [update({"$inc": {"g.$.v": 1}}, {"g": {"$elemMatch": {"k": {"$gt": 1}, "v": {"$lt": 10}}}}), READ], [BASE]),
    Case("positional_twice", [update({"$set": {"g.$.v": 1, "g.$.w": 2}}, {"g.v": 20}), READ], [BASE]),
    Case("positional_unset", [update({"$unset": {"a.$": 1}}, {"a": 3}), READ], [BASE]),
    Case("positional_no_array_in_query", [update({"$set": {"a.$": 1}}, {"n": 5}), READ], [BASE]),
    Case("positional_or", [update({"$set": {"a.$": 99}}, {"$or": [{"a": 3}, {"a": 700}]}), READ], [BASE]),
    Case("positional_nested_twice", [update({"$set": {"deep.$.i.$": 99}}, {"deep.i": 3})], [BASE]),
    Case("positional_upsert", [update({"$set": {"a.$": 1}}, {"a": 12345}, upsert=True)], [BASE]),
    Case("positional_multi", [update({"$set": {"a.$": 99}}, {"a": 5}, multi=True), READ], [BASE, {"_id": 2, "a": [5]}, {"_id": 3, "a": [1]}]),
    # array filters
    Case("filters", [update({"$set": {"a.$[x]": 0}}, arrayFilters=[{"x": {"$gte": 3}}]), READ], [BASE]),
    Case("filters_field", [update({"$set": {"g.$[x].v": 0}}, arrayFilters=[{"x.k": {"$in": [1, 3]}}]), READ], [BASE]),
    Case("filters_nested", [update({"$inc": {"deep.$[x].i.$[y]": 100}}, arrayFilters=[{"x.i": 1}, {"y": {"$gt": 1}}]), READ], [BASE]),
    Case("filters_and", [update({"$set": {"g.$[x].v": 0}}, arrayFilters=[{"$and": [{"x.k": {"$gt": 1}}, {"x.v": {"$gt": 5}}]}]), READ], [BASE]),
    Case("filters_or", [update({"$set": {"g.$[x].v": 0}}, arrayFilters=[{"$or": [{"x.k": 1}, {"x.v": 5}]}]), READ], [BASE]),
    Case("filters_unused", [update({"$set": {"n": 0}}, arrayFilters=[{"x": 1}])], [BASE]),
    Case("filters_missing", [update({"$set": {"a.$[x]": 0}})], [BASE]),
    Case("filters_duplicate", [update({"$set": {"a.$[x]": 0}}, arrayFilters=[{"x": 1}, {"x": 2}])], [BASE]),
    Case("filters_two_names", [update({"$set": {"a.$[x]": 0}}, arrayFilters=[{"x": 1, "y": 2}])], [BASE]),
    Case("filters_bad_name", [update({"$set": {"a.$[X]": 0}}, arrayFilters=[{"X": 1}])], [BASE]),
    Case("filters_empty", [update({"$set": {"a.$[x]": 0}}, arrayFilters=[{}])], [BASE]),
    Case("filters_not_array", [update({"$set": {"a.$[x]": 0}}, arrayFilters=5)], [BASE]),
    Case("filters_replacement", [update({"x": 1}, arrayFilters=[{"x": 1}])], [BASE]),
    Case("filters_pipeline", [update([{"$set": {"x": 1}}], arrayFilters=[{"x": 1}])], [BASE]),
    Case("filters_unset", [update({"$unset": {"g.$[x].v": 1}}, arrayFilters=[{"x.k": 2}]), READ], [BASE]),
    Case("filters_none_match", [update({"$set": {"a.$[x]": 0}}, arrayFilters=[{"x": 1000}]), READ], [BASE]),
    Case("filters_on_scalar", [update({"$set": {"n.$[x]": 0}}, arrayFilters=[{"x": 1}])], [BASE]),
    # upsert
    Case("upsert_equality", [update({"$set": {"x": 1}}, {"k": 5, "o.p": 6}, upsert=True), {"find": "COLL", "projection": {"_id": 0}}], ignore=("upserted.*._id",)),
    Case("upsert_id", [update({"$set": {"x": 1}}, {"_id": "mine", "k": {"$gt": 5}}, upsert=True), READ]),
    Case("upsert_eq", [update({"$set": {"x": 1}}, {"_id": 3, "k": {"$eq": 5}}, upsert=True), READ]),
    Case("upsert_and", [update({"$set": {"x": 1}}, {"$and": [{"_id": 3}, {"k": 5}]}, upsert=True), READ]),
    Case("upsert_or_one", [update({"$set": {"x": 1}}, {"_id": 3, "$or": [{"k": 5}]}, upsert=True), READ]),
    Case("upsert_or_two", [update({"$set": {"x": 1}}, {"_id": 3, "$or": [{"k": 5}, {"k": 6}]}, upsert=True), READ]),
    Case("upsert_in_one", [update({"$set": {"x": 1}}, {"_id": 3, "k": {"$in": [5]}}, upsert=True), READ]),
    Case("upsert_all_one", [update({"$set": {"x": 1}}, {"_id": 3, "k": {"$all": [5]}}, upsert=True), READ]),
    Case("upsert_conflict", [update({"$set": {"x": 1}}, {"_id": 3, "k": 1, "k.z": 2}, upsert=True), READ]),
    Case("upsert_twice_same", [update({"$set": {"x": 1}}, {"$and": [{"_id": 3}, {"k": 1}, {"k": 2}]}, upsert=True), READ]),
    Case("upsert_set_on_insert", [update({"$setOnInsert": {"c": 1}, "$set": {"x": 1}}, {"_id": 3}, upsert=True), update({"$setOnInsert": {"c": 2}, "$set": {"x": 2}}, {"_id": 3}, upsert=True), READ]),
    Case("upsert_replacement", [update({"x": 1}, {"_id": 3, "k": 5}, upsert=True), READ]),
    Case("upsert_replacement_id", [update({"_id": 4, "x": 1}, {"k": 5}, upsert=True), READ]),
    Case("upsert_replacement_id_conflict", [update({"_id": 4, "x": 1}, {"_id": 3}, upsert=True), READ]),
    Case("upsert_inc", [update({"$inc": {"c": 1}}, {"_id": 3, "c": 5}, upsert=True), READ]),
    Case("upsert_push", [update({"$push": {"c": 1}}, {"_id": 3}, upsert=True), READ]),
    Case("upsert_pipeline", [update([{"$set": {"x": {"$ifNull": ["$x", "new"]}}}], {"_id": 3, "k": 1}, upsert=True), READ]),
    Case("upsert_many", [update({"$set": {"x": 1}}, {"_id": 3}, upsert=True, multi=True), READ]),
    Case("upsert_null_id", [update({"$set": {"x": 1}}, {"_id": None}, upsert=True), READ]),
    Case("upsert_nested_id", [update({"$set": {"x": 1}}, {"_id.a": 1, "_id.b": 2}, upsert=True), READ]),
    Case("upsert_order", [update({"$set": {"a": 1, "z.b": 2}}, {"m": 1, "_id": 3, "b": 2}, upsert=True), READ]),
    Case("multi_replacement", [update({"x": 1}, {}, multi=True)], [BASE]),
    Case("multi_none", [update({"$set": {"x": 1}}, {"n": 777}, multi=True)], [BASE]),
    Case("multi_partial_error", [update({"$inc": {"v": 1}}, {}, multi=True), READ], [{"_id": 1, "v": 1}, {"_id": 2, "v": "x"}, {"_id": 3, "v": 3}]),
    Case("let", [{"update": "COLL", "updates": [{"q": {"$expr": {"$eq": ["$n", "$$x"]}}, "u": [{"$set": {"r": "$$x"}}]}], "let": {"x": 5}}, READ], [BASE]),
    Case("constants", [update([{"$set": {"r": "$$c"}}], c={"c": 9}), READ], [BASE]),
    Case("grow_past_16_mib", [update({"$set": {"big": "x" * (16 * 1024 * 1024 - 100)}}), {"find": "COLL", "projection": {"n": 1}}], [BASE]),
]  # fmt: skip


@pytest.mark.parametrize("case", MATCHED, ids=lambda case: case.name)
def test_matched(pair, case):
    pair.run_case(case)


def test_current_date(pair):
    """The server's clock is the server's; the type and the nearness are what counts."""
    import datetime

    for server in (pair.subject, pair.oracle):
        collection = server.client["diff"]["current_date"]
        collection.drop()
        collection.insert_one({"_id": 1})
        collection.update_one({"_id": 1}, {"$currentDate": {"a": True, "b": {"$type": "timestamp"}, "c.d": {"$type": "date"}}})
        document = collection.find_one()
        assert list(document) == ["_id", "a", "b", "c"], server.name
        assert isinstance(document["b"], Timestamp), server.name
        for moment in (document["a"], document["c"]["d"], document["b"].as_datetime().replace(tzinfo=None)):
            assert abs((datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - moment).total_seconds()) < 60
        collection.drop()
