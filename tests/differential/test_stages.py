"""Aggregation stages and accumulators, the roll-ups of evaluation 1, $out and $merge, and their errors."""

import pytest
from bson import Decimal128, Int64
from fixtures import date
from harness.cases import Case

PIPELINES = {
    "empty": [],
    "match": [{"$match": {"age": {"$gt": 10}}}],
    "match_expr": [{"$match": {"$expr": {"$gt": ["$age", 10]}}}],
    "match_bad": [{"$match": 1}],
    "match_text": [{"$match": {"$where": "1"}}],
    "match_then_match": [{"$match": {"city": "Paris"}}, {"$match": {"age": {"$lt": 12}}}],
    "project": [{"$project": {"name": 1, "twice": {"$multiply": ["$age", 2]}}}],
    "project_exclude": [{"$project": {"grades": 0, "address": 0, "_id": 0}}],
    "project_nested": [{"$project": {"address.zip": 1, "grades.grade": 1}}],
    "project_empty": [{"$project": {}}],
    "project_mixed": [{"$project": {"a": 1, "b": 0}}],
    "project_remove": [{"$project": {"x": {"$cond": [{"$gt": ["$age", 10]}, "$age", "$$REMOVE"]}}}],
    "project_not_object": [{"$project": 1}],
    "project_sub_array": [{"$project": {"tags.x": {"$literal": 1}}}],
    "project_collision": [{"$project": {"a": 1, "a.b": 1}}],
    "project_id_expression": [{"$project": {"_id": "$name"}}],
    "set": [{"$set": {"x": "$age", "address.zip": "none"}}],
    "set_array_path": [{"$set": {"grades.extra": 1}}],
    "set_object": [{"$set": {"address": {"extra": 1}}}],
    "set_remove": [{"$set": {"address": "$$REMOVE"}}],
    "set_empty": [{"$set": {}}],
    "set_not_object": [{"$set": 5}],
    "set_sequence": [{"$set": {"x": 1}}, {"$set": {"y": {"$add": ["$x", 1]}}}],
    "add_fields": [{"$addFields": {"x": {"$concat": ["$name", "!"]}}}],
    "add_fields_overwrite": [{"$addFields": {"age": {"$add": ["$age", 100]}}}],
    "unset": [{"$unset": "grades"}],
    "unset_many": [{"$unset": ["grades", "address.street", "tags"]}],
    "unset_bad": [{"$unset": 5}],
    "unset_empty": [{"$unset": []}],
    "replace_root": [{"$replaceRoot": {"newRoot": "$address"}}],
    "replace_root_expr": [{"$replaceRoot": {"newRoot": {"$mergeObjects": [{"n": "$name"}, "$address.street"]}}}],
    "replace_root_bad": [{"$replaceRoot": {"newRoot": "$age"}}],
    "replace_root_missing": [{"$replaceRoot": {"newRoot": "$zzz"}}],
    "replace_root_no_new_root": [{"$replaceRoot": {}}],
    "replace_with": [{"$replaceWith": "$address.street"}],
    "sort": [{"$sort": {"age": -1, "_id": 1}}],
    "sort_limit": [{"$sort": {"age": -1, "_id": 1}}, {"$limit": 7}],
    "sort_skip_limit": [{"$sort": {"city": 1, "_id": -1}}, {"$skip": 5}, {"$limit": 7}],
    "sort_empty": [{"$sort": {}}],
    "sort_bad": [{"$sort": {"a": 5}}],
    "sort_not_object": [{"$sort": 1}],
    "limit": [{"$sort": {"_id": 1}}, {"$limit": 3}],
    "limit_0": [{"$limit": 0}],
    "limit_negative": [{"$limit": -1}],
    "limit_string": [{"$limit": "1"}],
    "limit_fraction": [{"$limit": 1.5}],
    "skip": [{"$sort": {"_id": 1}}, {"$skip": 55}],
    "skip_0": [{"$sort": {"_id": 1}}, {"$skip": 0}],
    "skip_negative": [{"$skip": -1}],
    "skip_string": [{"$skip": "1"}],
    "count": [{"$match": {"age": {"$gt": 3}}}, {"$count": "n"}],
    "count_none": [{"$match": {"age": 999}}, {"$count": "n"}],
    "count_empty_name": [{"$count": ""}],
    "count_dollar": [{"$count": "$n"}],
    "count_dot": [{"$count": "a.b"}],
    "count_number": [{"$count": 1}],
    "unwind": [{"$unwind": "$tags"}],
    "unwind_object": [{"$unwind": {"path": "$grades", "includeArrayIndex": "at"}}],
    "unwind_preserve": [{"$unwind": {"path": "$nick", "preserveNullAndEmptyArrays": True}}],
    "unwind_missing": [{"$unwind": "$zzz"}],
    "unwind_scalar": [{"$unwind": "$age"}],
    "unwind_nested": [{"$unwind": "$address.street"}],
    "unwind_null": [{"$unwind": {"path": "$score", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "at"}}],
    "unwind_no_dollar": [{"$unwind": "tags"}],
    "unwind_bad_option": [{"$unwind": {"path": "$tags", "foo": 1}}],
    "unwind_bad_index": [{"$unwind": {"path": "$tags", "includeArrayIndex": "$x"}}],
    "unwind_number": [{"$unwind": 1}],
    "unwind_empty": [{"$unwind": {"path": ""}}],
    "group_null": [{"$group": {"_id": None, "n": {"$sum": 1}}}],
    "group_city": [{"$group": {"_id": "$city", "n": {"$sum": 1}, "ages": {"$avg": "$age"}}}],
    "group_missing_key": [{"$group": {"_id": "$nick", "n": {"$count": {}}}}],
    "group_null_key": [{"$group": {"_id": "$score", "n": {"$sum": 1}}}],
    "group_object_key": [{"$group": {"_id": {"c": "$city", "odd": {"$mod": ["$age", 2]}}, "n": {"$sum": 1}}}],
    "group_object_missing": [{"$group": {"_id": {"k": "$nick", "z": "$zzz"}, "n": {"$sum": 1}}}],
    "group_object_one_missing": [{"$group": {"_id": {"k": "$nick"}, "n": {"$sum": 1}}}],
    "group_object_one_below": [{"$group": {"_id": {"k": {"l": "$nick"}}, "n": {"$sum": 1}}}],
    "group_object_one_in_facet": [{"$facet": {"x": [{"$group": {"_id": {"k": "$nick"}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]}}],
    "group_array_key": [{"$group": {"_id": "$tags", "n": {"$sum": 1}}}],
    "group_expression_key": [{"$group": {"_id": {"$substrCP": ["$name", 0, 6]}, "n": {"$sum": 1}}}],
    "group_sum_mixed": [{"$group": {"_id": "$city", "s": {"$sum": "$score"}, "b": {"$sum": "$big"}}}],
    "group_min_max": [{"$group": {"_id": "$city", "low": {"$min": "$score"}, "high": {"$max": "$born"}}}],
    "group_avg_none": [{"$group": {"_id": None, "a": {"$avg": "$zzz"}, "s": {"$sum": "$zzz"}, "m": {"$min": "$zzz"}}}],
    "group_first_last": [{"$sort": {"_id": 1}}, {"$group": {"_id": "$city", "f": {"$first": "$name"}, "l": {"$last": "$nick"}}}, {"$sort": {"_id": 1}}],
    "group_push": [{"$sort": {"_id": 1}}, {"$group": {"_id": "$city", "p": {"$push": "$age"}, "n": {"$push": "$nick"}}}, {"$sort": {"_id": 1}}],
    "group_push_object": [{"$sort": {"_id": 1}}, {"$group": {"_id": "$city", "p": {"$push": {"a": "$age", "n": "$nick"}}}}, {"$sort": {"_id": 1}}],
    "group_std": [{"$group": {"_id": "$city", "p": {"$stdDevPop": "$age"}, "s": {"$stdDevSamp": "$age"}}}],
    "group_merge_objects": [{"$sort": {"_id": 1}}, {"$group": {"_id": "$city", "m": {"$mergeObjects": "$address"}}}, {"$sort": {"_id": 1}}],
    "group_first_n": [{"$sort": {"_id": 1}}, {"$group": {"_id": "$city", "f": {"$firstN": {"input": "$age", "n": 2}}, "l": {"$lastN": {"input": "$age", "n": 2}}}}, {"$sort": {"_id": 1}}],
    "group_max_n": [{"$group": {"_id": "$city", "f": {"$maxN": {"input": "$age", "n": 2}}, "l": {"$minN": {"input": "$age", "n": 2}}}}],
    "group_top": [{"$group": {"_id": "$city", "t": {"$top": {"sortBy": {"age": -1, "_id": 1}, "output": "$name"}}}}],
    "group_bottom_n": [{"$group": {"_id": "$city", "t": {"$bottomN": {"n": 2, "sortBy": {"age": -1, "_id": 1}, "output": "$name"}}}}],
    "group_no_id": [{"$group": {"n": {"$sum": 1}}}],
    "group_not_object": [{"$group": 1}],
    "group_unknown": [{"$group": {"_id": None, "n": {"$foo": 1}}}],
    "group_not_accumulator": [{"$group": {"_id": None, "n": 1}}],
    "group_two_accumulators": [{"$group": {"_id": None, "n": {"$sum": 1, "$avg": 2}}}],
    "group_dotted": [{"$group": {"_id": None, "a.b": {"$sum": 1}}}],
    "group_dollar": [{"$group": {"_id": None, "$a": {"$sum": 1}}}],
    "group_count_bad": [{"$group": {"_id": None, "n": {"$count": 1}}}],
    "group_sum_strings": [{"$group": {"_id": None, "n": {"$sum": "$name"}}}],
    "group_expression_accumulator": [{"$group": {"_id": "$city", "n": {"$sum": {"$cond": [{"$gt": ["$age", 10]}, 1, 0]}}}}],
    "group_then_match": [{"$group": {"_id": "$city", "n": {"$sum": 1}}}, {"$match": {"n": {"$gt": 5}}}],
    "group_root": [{"$match": {"_id": {"$lt": 3}}}, {"$sort": {"_id": 1}}, {"$group": {"_id": None, "r": {"$push": "$$ROOT"}}}],
    "unwind_group": [{"$unwind": "$grades"}, {"$group": {"_id": "$grades.subject", "best": {"$max": "$grades.grade"}, "n": {"$sum": 1}}}],
    "sort_by_count": [{"$sortByCount": "$city"}, {"$sort": {"count": -1, "_id": 1}}],
    "sort_by_count_bad": [{"$sortByCount": "city"}],
    "sample_0": [{"$sample": {"size": 0}}],
    "sample_all_count": [{"$sample": {"size": 1000}}, {"$count": "n"}],
    "sample_some_count": [{"$sample": {"size": 7}}, {"$count": "n"}],
    "sample_negative": [{"$sample": {"size": -1}}],
    "sample_string": [{"$sample": {"size": "a"}}],
    "sample_no_size": [{"$sample": {}}],
    "sample_number": [{"$sample": 5}],
    "unknown": [{"$foo": 1}],
    "two_fields": [{"$match": {}, "$limit": 1}],
    "empty_stage": [{}],
    "not_object": [1],
    "out_not_last": [{"$out": "x"}, {"$match": {}}],
    "merge_not_last": [{"$merge": {"into": "x"}}, {"$match": {}}],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline(pair, name):
    pair.on_variants(
        "people",
        lambda collection: [{"aggregate": collection, "pipeline": PIPELINES[name], "cursor": {"batchSize": 1000}}],
        variants=["none", "city_age", "tags"],
    )


def test_add_to_set(pair):
    pipeline = [{"$unwind": "$tags"}, {"$group": {"_id": "$city", "t": {"$addToSet": "$tags"}}}]
    pair.on_variants(
        "people",
        lambda collection: [{"aggregate": collection, "pipeline": pipeline, "cursor": {}}],
        variants=["none"],
        sets=("cursor.firstBatch.*.t",),
    )


# Grouping over every BSON type: which values are the same key.
GROUPS = {
    "key": [{"$match": {"a": {"$not": {"$type": "number"}}}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}],
    "type": [{"$group": {"_id": {"$type": "$a"}, "n": {"$sum": 1}}}],
    "numbers": [{"$match": {"a": {"$type": "number"}}}, {"$sort": {"_id": 1}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}],
    "min_max": [{"$group": {"_id": None, "low": {"$min": "$a"}, "high": {"$max": "$a"}}}],
    "unwind": [{"$unwind": "$a"}, {"$project": {"a": 1}}],
    "unwind_preserve": [{"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}}, {"$project": {"a": 1, "i": 1}}],
    "replace": [{"$match": {"a": {"$type": "object"}}}, {"$replaceRoot": {"newRoot": {"$mergeObjects": [{"b": 0}, "$a"]}}}],
    "set_nested": [{"$set": {"a.b": 5}}],
    "unset_nested": [{"$unset": "a.b"}],
    "project_nested": [{"$project": {"a": {"b": "$n"}}}],
}


@pytest.mark.parametrize("name", GROUPS)
def test_over_values(pair, name):
    pair.on_variants(
        "values",
        lambda collection: [{"aggregate": collection, "pipeline": GROUPS[name], "cursor": {"batchSize": 1000}}],
        variants=["none"],
    )


def rollup(unit, **extra):
    return [
        {"$group": {
            "_id": {"name": "$name", "period": {"$dateTrunc": {"date": "$startdatetime", "unit": unit, **extra}}},
            "events": {"$sum": 1}, "low": {"$min": "$reading"}, "high": {"$max": "$reading"}, "mean": {"$avg": "$reading"},
            "total": {"$sum": "$reading"},
        }},
        {"$sort": {"_id.period": 1, "_id.name": 1}},
    ]  # fmt: skip


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "quarter", "year"])
def test_rollup(pair, unit):
    pair.on_variants(
        "events",
        lambda collection: [
            {"aggregate": collection, "pipeline": rollup(unit), "cursor": {"batchSize": 1000}},
            {"aggregate": collection, "pipeline": rollup(unit, timezone="Europe/Paris"), "cursor": {"batchSize": 1000}},
            {
                "aggregate": collection,
                "pipeline": [{"$match": {"startdatetime": {"$gte": date(2017, 12, 20), "$lt": date(2018, 1, 15)}}}, *rollup(unit)],
                "cursor": {"batchSize": 1000},
            },
        ],
    )


# Groups that an index on their field answers without documents: beside the collection without indexes.
NUMBERS = [1, 1.0, Int64(1), 2.5, Decimal128("2.5"), -3, 0, float("nan"), "1", "a", None, True, {"x": 1}, {"x": 1.0}]
COUNTED = [
    {
        "_id": number,
        **({"d": date(2024, 1 + number % 12, 1 + number % 28, number % 24)} if number % 7 else {} if number % 2 else {"d": None}),
        "day": date(2024, 3, 29 + number % 3, number % 24),
        **({"v": NUMBERS[number % len(NUMBERS)]} if number % 5 else {}),
        "k": number % 3,
    }
    for number in range(120)
]
BY_ID = {"$sort": {"_id": 1}}


def grouped(key, *more):
    return [*more, {"$group": {"_id": key, "n": {"$sum": 1}, "m": {"$count": {}}, "two": {"$sum": 2.0}}}, BY_ID]


def truncated(field, **options):
    return {"$dateTrunc": {"date": field, **options}}


COUNTED_PIPELINES = {
    "month": grouped(truncated("$d", unit="month")),
    "two_weeks": grouped(truncated("$d", unit="week", binSize=2, startOfWeek="tue")),
    "day_in_zone": grouped(truncated("$day", unit="day", timezone="Europe/Berlin")),
    "hour_in_zone": grouped(truncated("$day", unit="hour", binSize=5, timezone="America/New_York")),
    "in_document": grouped({"day": truncated("$d", unit="quarter", timezone="+03:30")}),
    "parts": grouped({"y": {"$year": "$day"}, "m": {"$month": "$day"}, "d": {"$dayOfMonth": {"date": "$day", "timezone": "Europe/Paris"}}}),
    "text": grouped({"$dateToString": {"date": "$d", "format": "%Y-%m"}}),
    "text_on_null": grouped({"$dateToString": {"date": "$d", "format": "%H", "onNull": "never"}}),
    "not_a_date": grouped(truncated("$k", unit="day")),
    "range": grouped(truncated("$day", unit="day"), {"$match": {"day": {"$gte": date(2024, 3, 30), "$lt": date(2024, 3, 31)}}}),
    "prefix": grouped(truncated("$d", unit="month"), {"$match": {"k": 1}}),
    "values": grouped("$v"),
    "values_in_document": grouped({"v": "$v"}),
    "values_of_a_range": grouped("$v", {"$match": {"v": {"$gt": 0}}}),
    "condition": grouped({"$cond": [{"$lt": ["$v", 2]}, "low", {"$ifNull": ["$v", "none"]}]}),
    "sort_by_count": [{"$sortByCount": "$k"}, {"$sort": {"count": 1, "_id": 1}}],
    "bucket": [{"$bucket": {"groupBy": "$v", "boundaries": [-3, 0, 2.5, 9], "default": "other"}}],
    "bucket_dates": [{"$bucket": {"groupBy": "$day", "boundaries": [date(2024, 3, 29), date(2024, 3, 30), date(2024, 4, 1)]}}],
    "bucket_outside": [{"$facet": {"x": [{"$bucket": {"groupBy": "$k", "boundaries": [0, 2]}}]}}],
    "values_below": grouped({"a": {"v": "$v"}}),
    "values_twice": grouped({"v": "$v", "w": "$v"}),
    "facet": [{"$facet": {
        "days": grouped(truncated("$day", unit="day")),
        "ones": [{"$match": {"k": 1}}, {"$count": "n"}],
        "none": [{"$match": {"k": 9}}, {"$count": "n"}],
        "v": [{"$sortByCount": "$k"}, {"$sort": {"_id": 1}}, {"$limit": 2}],
    }}],
}  # fmt: skip
COUNTED_INDEXES = [{"d": 1}, {"day": -1}, {"v": 1}, {"k": 1, "d": 1}]


@pytest.mark.parametrize("indexed", [False, True], ids=["walked", "counted"])
@pytest.mark.parametrize("name", COUNTED_PIPELINES)
def test_counted(pair, name, indexed):
    indexes = [{"key": key, "name": "_".join(key)} for key in COUNTED_INDEXES]
    create = [{"createIndexes": "COLL", "indexes": indexes}] if indexed else []
    command = {"aggregate": "COLL", "pipeline": COUNTED_PIPELINES[name], "cursor": {}}
    distinct = [{"distinct": "COLL", "key": key} for key in ("d", "day", "v", "k")] if name == "values" else []
    pair.run_case(Case(f"counted_{name}", [*create, command, *distinct], COUNTED))


SMALL = [{"_id": number, "k": number % 3, "v": number * 10} for number in range(6)]
READ_OTHER = {"find": "OTHER", "sort": {"_id": 1}}


def into(stage, *more, before=()):
    return [*before, {"aggregate": "COLL", "pipeline": [stage], "cursor": {}}, READ_OTHER, *more]


OTHER_DOCS = {"insert": "OTHER", "documents": [{"_id": 0, "old": 1}, {"_id": 9, "old": 9}]}
WRITING = [
    Case("out", into({"$out": "OTHER"}), SMALL),
    Case("out_replaces", into({"$out": "OTHER"}, before=[OTHER_DOCS]), SMALL),
    Case("out_database", into({"$out": {"db": "diff", "coll": "OTHER"}}), SMALL),
    Case("out_bad", into({"$out": 5}), SMALL),
    Case("out_keeps_indexes", [OTHER_DOCS, {"createIndexes": "OTHER", "indexes": [{"key": {"v": 1}, "name": "v_1"}]}, *into({"$out": "OTHER"}), {"listIndexes": "OTHER"}], SMALL),
    Case("out_unique_fails", [OTHER_DOCS, {"createIndexes": "OTHER", "indexes": [{"key": {"k": 1}, "name": "k_1", "unique": True}]}, *into({"$out": "OTHER"})], SMALL, message_differs="mongod names its temporary collection"),
    Case("out_group", [{"aggregate": "COLL", "pipeline": [{"$group": {"_id": "$k", "v": {"$sum": "$v"}}}, {"$out": "OTHER"}], "cursor": {}}, READ_OTHER], SMALL),
    Case("merge", into({"$merge": {"into": "OTHER"}}, before=[OTHER_DOCS]), SMALL),
    Case("merge_string", into({"$merge": "OTHER"}, before=[OTHER_DOCS]), SMALL),
    Case("merge_database", into({"$merge": {"into": {"db": "diff", "coll": "OTHER"}}}), SMALL),
    Case("merge_on_missing_index", into({"$merge": {"into": "OTHER", "on": "k"}}), SMALL),
    Case("merge_bad_mode", into({"$merge": {"into": "OTHER", "whenMatched": "foo"}}), SMALL),
    Case("merge_unknown", into({"$merge": {"into": "OTHER", "foo": 1}}), SMALL),
    Case("merge_pipeline", into({"$merge": {"into": "OTHER", "whenMatched": [{"$set": {"seen": True, "new": "$$new.v"}}]}}, before=[OTHER_DOCS]), SMALL),
    Case("merge_pipeline_let", into({"$merge": {"into": "OTHER", "let": {"x": "$v"}, "whenMatched": [{"$set": {"x": "$$x"}}]}}, before=[OTHER_DOCS]), SMALL),
    Case("merge_on_unique", [OTHER_DOCS, {"createIndexes": "OTHER", "indexes": [{"key": {"v": 1}, "name": "v_1", "unique": True}]}, *into({"$merge": {"into": "OTHER", "on": "v", "whenMatched": "fail"}})], SMALL),
    *(
        Case(f"merge_{matched}_{not_matched}", into({"$merge": {"into": "OTHER", "whenMatched": matched, "whenNotMatched": not_matched}}, before=[OTHER_DOCS]), SMALL)
        for matched in ("replace", "keepExisting", "merge", "fail")
        for not_matched in ("insert", "discard", "fail")
    ),
    Case("rollup_merge", [
        {"aggregate": "COLL", "pipeline": [{"$group": {"_id": "$k", "v": {"$sum": "$v"}}}, {"$merge": {"into": "OTHER", "whenMatched": "replace"}}], "cursor": {}},
        {"insert": "COLL", "documents": [{"_id": 100, "k": 1, "v": 1}]},
        {"aggregate": "COLL", "pipeline": [{"$group": {"_id": "$k", "v": {"$sum": "$v"}}}, {"$merge": {"into": "OTHER", "whenMatched": "replace"}}], "cursor": {}},
        READ_OTHER,
    ], SMALL),
]  # fmt: skip


@pytest.mark.parametrize("case", WRITING, ids=lambda case: case.name)
def test_writing(pair, case):
    pair.run_case(case)


SHAPES = {
    "no_cursor": {"pipeline": []},
    "no_pipeline": {"cursor": {}},
    "pipeline_not_array": {"pipeline": {}, "cursor": {}},
    "batch_size_2": {"pipeline": [{"$sort": {"_id": 1}}], "cursor": {"batchSize": 2}},
    "batch_size_0": {"pipeline": [{"$sort": {"_id": 1}}], "cursor": {"batchSize": 0}},
    "batch_size_negative": {"pipeline": [], "cursor": {"batchSize": -1}},
    "cursor_number": {"pipeline": [], "cursor": 1},
    "unknown_option": {"pipeline": [], "cursor": {}, "foo": 1},
    "let": {"pipeline": [{"$match": {"$expr": {"$eq": ["$age", "$$x"]}}}], "cursor": {}, "let": {"x": 5}},
    "allow_disk": {"pipeline": [{"$sort": {"_id": 1}}, {"$limit": 2}], "cursor": {}, "allowDiskUse": True},
    "hint": {"pipeline": [{"$match": {"age": 5}}], "cursor": {}, "hint": "_id_"},
    "hint_unknown": {"pipeline": [{"$match": {"age": 5}}], "cursor": {}, "hint": "zzz"},
    "collation_simple": {"pipeline": [{"$limit": 1}], "cursor": {}, "collation": {"locale": "simple"}},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_shape(pair, shape):
    pair.on_variants("people", lambda collection: [{"aggregate": collection, **shape}], variants=["none"])
