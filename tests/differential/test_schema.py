"""Validators: every keyword of $jsonSchema, query validators, levels and actions, error 121's details."""

import pytest
from bson import Decimal128, Int64, ObjectId
from fixtures import date
from harness.cases import Case

# keyword -> (schema, documents to try)
P = "properties"
SCHEMAS = {
    "bson_type": ({P: {"a": {"bsonType": "int"}}}, [{"a": 1}, {"a": "x"}, {"a": 1.0}, {"a": Int64(1)}, {}]),
    "bson_type_list": ({P: {"a": {"bsonType": ["int", "string"]}}}, [{"a": 1}, {"a": "x"}, {"a": True}]),
    "bson_type_number": ({P: {"a": {"bsonType": "number"}}}, [{"a": Decimal128("1")}, {"a": "x"}]),
    "bson_type_unknown": ({P: {"a": {"bsonType": "foo"}}}, [{}]),
    "type": ({P: {"a": {"type": "number"}}}, [{"a": 1}, {"a": "x"}]),
    "type_integer": ({P: {"a": {"type": "integer"}}}, [{"a": 1}]),
    "type_list": ({P: {"a": {"type": ["string", "null", "object"]}}}, [{"a": None}, {"a": {}}, {"a": []}]),
    "type_and_bson_type": ({P: {"a": {"type": "string", "bsonType": "int"}}}, [{}]),
    "required": ({"required": ["a", "b"]}, [{"a": 1, "b": 2}, {"a": 1}, {}]),
    "required_empty": ({"required": []}, [{}]),
    "required_duplicates": ({"required": ["a", "a"]}, [{}]),
    "required_not_array": ({"required": "a"}, [{}]),
    "required_nested": ({P: {"o": {"bsonType": "object", "required": ["x"]}}}, [{"o": {"x": 1}}, {"o": {}}, {"o": 5}, {}]),
    "properties_nested": ({P: {"o": {P: {"x": {"bsonType": "int"}}}}}, [{"o": {"x": 1}}, {"o": {"x": "s"}}, {"o": 1}]),
    "properties_not_object": ({P: 1}, [{}]),
    "minimum": ({P: {"a": {"minimum": 5}}}, [{"a": 5}, {"a": 4}, {"a": "x"}, {"a": 4.999}]),
    "maximum": ({P: {"a": {"maximum": 5}}}, [{"a": 5}, {"a": 6}, {"a": Decimal128("5.1")}]),
    "exclusive_minimum": ({P: {"a": {"minimum": 5, "exclusiveMinimum": True}}}, [{"a": 5}, {"a": 6}]),
    "exclusive_maximum": ({P: {"a": {"maximum": 5, "exclusiveMaximum": True}}}, [{"a": 5}, {"a": 4}]),
    "exclusive_without": ({P: {"a": {"exclusiveMinimum": True}}}, [{}]),
    "minimum_string": ({P: {"a": {"minimum": "5"}}}, [{}]),
    "multiple_of": ({P: {"a": {"multipleOf": 3}}}, [{"a": 9}, {"a": 10}, {"a": "x"}, {"a": 4.5}]),
    "multiple_of_fraction": ({P: {"a": {"multipleOf": 0.5}}}, [{"a": 1.5}, {"a": 1.25}]),
    "multiple_of_zero": ({P: {"a": {"multipleOf": 0}}}, [{}]),
    "multiple_of_decimal": ({P: {"a": {"multipleOf": Decimal128("0.1")}}}, [{"a": Decimal128("0.3")}, {"a": 1}]),
    "min_length": ({P: {"a": {"minLength": 2}}}, [{"a": "ab"}, {"a": "ä"}, {"a": 5}]),
    "max_length": ({P: {"a": {"maxLength": 2}}}, [{"a": "ab"}, {"a": "äöü"}]),
    "min_length_negative": ({P: {"a": {"minLength": -1}}}, [{}]),
    "pattern": ({P: {"a": {"pattern": "^x"}}}, [{"a": "xy"}, {"a": "yx"}, {"a": 1}]),
    "pattern_bad": ({P: {"a": {"pattern": "("}}}, [{}]),
    "min_items": ({P: {"a": {"minItems": 2}}}, [{"a": [1, 2]}, {"a": [1]}, {"a": 1}]),
    "max_items": ({P: {"a": {"maxItems": 2}}}, [{"a": [1, 2]}, {"a": [1, 2, 3]}]),
    "unique_items": ({P: {"a": {"uniqueItems": True}}}, [{"a": [1, 2]}, {"a": [1, 1]}, {"a": [1, 1.0]}, {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]}]),
    "items": ({P: {"a": {"items": {"bsonType": "int"}}}}, [{"a": [1, 2]}, {"a": [1, "x"]}, {"a": "x"}, {"a": []}]),
    "items_list": ({P: {"a": {"items": [{"bsonType": "int"}, {"bsonType": "string"}]}}}, [{"a": [1, "x"]}, {"a": ["x"]}, {"a": [1, "x", True]}]),
    "additional_items": ({P: {"a": {"items": [{"bsonType": "int"}], "additionalItems": False}}}, [{"a": [1]}, {"a": [1, 2]}]),
    "additional_items_schema": ({P: {"a": {"items": [{}], "additionalItems": {"bsonType": "string"}}}}, [{"a": [1, "x"]}, {"a": [1, 2]}]),
    "additional_properties": ({P: {"_id": {}, "a": {}}, "additionalProperties": False}, [{"a": 1}, {"a": 1, "b": 2}]),
    "additional_properties_schema": ({P: {"_id": {}, "a": {}}, "additionalProperties": {"bsonType": "int"}}, [{"b": 1}, {"b": "x"}]),
    "additional_properties_no_id": ({P: {"a": {}}, "additionalProperties": False}, [{"a": 1}]),
    "pattern_properties": ({"patternProperties": {"^n": {"bsonType": "int"}}}, [{"n1": 1}, {"n1": "x"}, {"a": "x"}]),
    "pattern_and_additional": ({P: {"_id": {}}, "patternProperties": {"^n": {"bsonType": "int"}}, "additionalProperties": False}, [{"n": 1}, {"n": "x"}, {"q": 1}]),
    "min_properties": ({"minProperties": 3}, [{"a": 1}, {"a": 1, "b": 2}]),
    "max_properties": ({"maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}]),
    "min_properties_nested": ({P: {"o": {"minProperties": 1}}}, [{"o": {}}, {"o": {"a": 1}}, {"o": 1}]),
    "dependencies": ({"dependencies": {"a": ["b", "c"]}}, [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1}, {"b": 1}]),
    "dependencies_schema": ({"dependencies": {"a": {P: {"b": {"bsonType": "int"}}, "required": ["b"]}}}, [{"a": 1, "b": 1}, {"a": 1}, {"a": 1, "b": "x"}]),
    "enum": ({P: {"a": {"enum": [1, "x", None, {"y": 1}]}}}, [{"a": 1}, {"a": 1.0}, {"a": "z"}, {"a": {"y": 1}}, {"a": None}]),
    "enum_empty": ({P: {"a": {"enum": []}}}, [{}]),
    "enum_duplicates": ({P: {"a": {"enum": [1, 1]}}}, [{}]),
    "all_of": ({"allOf": [{P: {"a": {"bsonType": "int"}}}, {P: {"a": {"minimum": 5}}}]}, [{"a": 6}, {"a": 1}, {"a": "x"}]),
    "any_of": ({"anyOf": [{P: {"a": {"bsonType": "int"}}}, {"required": ["b"]}]}, [{"a": 6}, {"a": "x"}, {"a": "x", "b": 1}]),
    "any_of_nested": ({P: {"a": {"anyOf": [{"bsonType": "int"}, {"bsonType": "string", "minLength": 3}]}}}, [{"a": 6}, {"a": "x"}, {"a": "xxx"}]),
    "one_of": ({P: {"a": {"oneOf": [{"minimum": 5}, {"maximum": 10}]}}}, [{"a": 1}, {"a": 7}, {"a": 20}]),
    "not": ({P: {"a": {"not": {"bsonType": "int"}}}}, [{"a": "x"}, {"a": 1}, {}]),
    "not_top": ({"not": {"required": ["a"]}}, [{}, {"a": 1}]),
    "title_description": ({"title": "T", "description": "D", P: {"a": {"title": "t", "description": "d", "bsonType": "int"}}}, [{"a": "x"}]),
    "description_number": ({"description": 5}, [{}]),
    "unknown_keyword": ({"foo": 1}, [{}]),
    "default_keyword": ({P: {"a": {"default": 1}}}, [{}]),
    "ref_keyword": ({"$ref": "x"}, [{}]),
    "format_keyword": ({P: {"a": {"format": "date"}}}, [{}]),
    "definitions_keyword": ({"definitions": {}}, [{}]),
    "empty": ({}, [{}]),
    "not_schema_object": ({P: {"a": 5}}, [{}]),
    "deep": ({P: {"o": {P: {"p": {P: {"q": {"bsonType": "array", "items": {"bsonType": "object", "required": ["r"]}}}}}}}}, [{"o": {"p": {"q": [{"r": 1}]}}}, {"o": {"p": {"q": [{"r": 1}, {}]}}}]),
    "dotted_name": ({P: {"a.b": {"bsonType": "int"}}}, [{"a": {"b": "x"}}]),
    "top_bson_type": ({"bsonType": "object", "required": ["a"]}, [{}, {"a": 1}]),
    "top_not_object_type": ({"bsonType": "array"}, [{}]),
    "two_failures": ({"required": ["x"], P: {"a": {"bsonType": "int", "minimum": 5}, "b": {"bsonType": "string"}}}, [{"a": "s", "b": 5}, {"a": 3, "b": 5}]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_keyword(pair, name):
    """As a validator (with the details of each refusal), and as a filter over the same documents."""
    schema, documents = SCHEMAS[name]
    commands = [{"create": "COLL", "validator": {"$jsonSchema": schema}}]
    commands += [
        {"insert": "COLL", "documents": [{"_id": number, **document}]} for number, document in enumerate(documents)
    ]
    commands += [{"find": "COLL", "sort": {"_id": 1}}]
    commands += [
        {"insert": "OTHER", "documents": [{"_id": number, **document} for number, document in enumerate(documents)]},
        {"find": "OTHER", "filter": {"$jsonSchema": schema}, "sort": {"_id": 1}},
        {"count": "OTHER", "query": {"$nor": [{"$jsonSchema": schema}]}},
    ]
    pair.run_case(Case(f"schema_{name}", commands))


TYPES = ["double", "string", "object", "array", "binData", "objectId", "bool", "date", "null", "regex", "javascript", "int", "timestamp", "long", "decimal", "minKey", "maxKey", "number"]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_type_of_every_value(pair, kind):
    pair.on_variants(
        "values",
        lambda name: [{"find": name, "filter": {"$jsonSchema": {P: {"a": {"bsonType": kind}}}}, "projection": {"_id": 1}, "batchSize": 1000}],
        variants=["none", "a"],
    )


WEATHER = {
    "bsonType": "object",
    "required": ["indexnum", "startdatetime", "enddatetime", "location", "name", "lastupdatedatetime", "timezoneoffset", "permitid", "reading"],
    P: {
        "indexnum": {"bsonType": "int"},
        "startdatetime": {"bsonType": "date"},
        "enddatetime": {"bsonType": "date"},
        "location": {"bsonType": "object", "required": ["type", "coordinates"], P: {"type": {"enum": ["Point"]}, "coordinates": {"bsonType": "array", "items": {"bsonType": "double"}}}},
        "name": {"bsonType": "string"},
        "lastupdatedatetime": {"bsonType": "date"},
        "timezoneoffset": {"bsonType": "int"},
        "permitid": {"bsonType": "int"},
        "reading": {"bsonType": "double"},
    },
}  # fmt: skip
EVENT = {
    "indexnum": 1, "startdatetime": date(2017, 12, 1), "enddatetime": date(2017, 12, 10),
    "location": {"type": "Point", "coordinates": [2.5, 46.5]}, "name": "Flood", "lastupdatedatetime": date(2017, 12, 1),
    "timezoneoffset": 1, "permitid": 2, "reading": 1.5,
}  # fmt: skip


@pytest.mark.parametrize("field", [*EVENT, "none"])
def test_weather(pair, field):
    """Evaluation 1's validator: each field missing, and each of a wrong type."""
    without = {key: value for key, value in EVENT.items() if key != field}
    wrong = {**EVENT, field: ObjectId("5f0000000000000000000001")} if field != "none" else EVENT
    pair.run_case(
        Case(
            f"weather_{field}",
            [
                {"insert": "COLL", "documents": [{"_id": 1, **without}]},
                {"insert": "COLL", "documents": [{"_id": 2, **wrong}, {"_id": 3, **EVENT}], "ordered": False},
                {"find": "COLL", "sort": {"_id": 1}},
            ],
            options={"validator": {"$jsonSchema": WEATHER}},
        )
    )


GOOD, BAD = {"a": 5}, {"a": "x"}
V = {"$jsonSchema": {P: {"a": {"bsonType": "int"}}}}
QUERY_VALIDATORS = {
    "eq": {"a": 5},
    "gt": {"a": {"$gt": 3}},
    "range": {"a": {"$gt": 3, "$lt": 9}},
    "type": {"a": {"$type": "int"}},
    "exists": {"b": {"$exists": True}},
    "in": {"a": {"$in": [1, 5]}},
    "nin": {"a": {"$nin": ["x"]}},
    "ne": {"a": {"$ne": "x"}},
    "regex": {"a": {"$regex": "^y"}},
    "or": {"$or": [{"a": 5}, {"b": 1}]},
    "and": {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 9}}]},
    "nor": {"$nor": [{"a": "x"}]},
    "not": {"a": {"$not": {"$type": "string"}}},
    "size": {"a": {"$size": 2}},
    "all": {"a": {"$all": [5]}},
    "elem_match": {"a": {"$elemMatch": {"$gt": 1}}},
    "mod": {"a": {"$mod": [5, 0]}},
    "bits": {"a": {"$bitsAllSet": 5}},
    "expr": {"$expr": {"$eq": ["$a", 5]}},
    "two_fields": {"a": 5, "b": {"$exists": False}},
    "schema_and_query": {"$and": [V, {"a": {"$gt": 3}}]},
    "schema_beside_query": {"$jsonSchema": V["$jsonSchema"], "b": {"$exists": False}},
    "geo": {"a": {"$geoWithin": {"$centerSphere": [[1, 1], 0.1]}}},
    "near_refused": {"a": {"$near": [1, 1]}},
    "text_refused": {"$text": {"$search": "x"}},
    "where_refused": {"$where": "1"},
    "unknown": {"a": {"$foo": 1}},
    "not_object": 5,
    "empty": {},
}


@pytest.mark.parametrize("name", QUERY_VALIDATORS)
def test_query_validator(pair, name):
    commands = [
        {"create": "COLL", "validator": QUERY_VALIDATORS[name]},
        {"insert": "COLL", "documents": [{"_id": 1, **BAD}]},
        {"insert": "COLL", "documents": [{"_id": 2, **GOOD}]},
        {"insert": "COLL", "documents": [{"_id": 3}]},
        {"find": "COLL", "sort": {"_id": 1}},
    ]
    pair.run_case(Case(f"validator_{name}", commands))


def update(query, change, **more):
    return {"update": "COLL", "updates": [{"q": query, "u": change, **more}]}


LIST = {"listCollections": 1, "filter": {"name": "COLL"}}
BEHAVIOUR = [
    Case("update", [update({"_id": 1}, {"$set": {"a": "bad"}}), update({"_id": 1}, {"$set": {"a": 6}}), {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("update_many", [update({}, {"$set": {"a": "bad"}}, multi=True), {"find": "COLL", "sort": {"_id": 1}}], [{"_id": 1, "a": 5}, {"_id": 2, "a": 6}], options={"validator": V}),
    Case("replace", [update({"_id": 1}, {"a": "bad"}), update({"_id": 1}, {"a": 7}), {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("upsert", [update({"_id": 2}, {"$set": {"a": "bad"}}, upsert=True), {"find": "COLL"}], options={"validator": V}),
    Case("find_and_modify", [{"findAndModify": "COLL", "query": {"_id": 1}, "update": {"$set": {"a": "bad"}}}, {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("unordered", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}, {"_id": 2, "a": 1}, {"_id": 3, "a": []}], "ordered": False}, {"find": "COLL"}], options={"validator": V}),
    Case("ordered", [{"insert": "COLL", "documents": [{"_id": 0, "a": 1}, {"_id": 1, "a": "x"}, {"_id": 2, "a": 1}]}, {"find": "COLL"}], options={"validator": V}),
    Case("bypass_insert", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}], "bypassDocumentValidation": True}, {"find": "COLL"}], options={"validator": V}),
    Case("bypass_update", [{**update({"_id": 1}, {"$set": {"a": "bad"}}), "bypassDocumentValidation": True}, {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("bypass_find_and_modify", [{"findAndModify": "COLL", "query": {"_id": 1}, "update": {"$set": {"a": "bad"}}, "bypassDocumentValidation": True}, {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("bypass_out", [{"aggregate": "COLL", "pipeline": [{"$set": {"a": "x"}}, {"$merge": {"into": "COLL"}}], "cursor": {}, "bypassDocumentValidation": True}, {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("merge_checked", [{"aggregate": "COLL", "pipeline": [{"$set": {"a": "x"}}, {"$merge": {"into": "COLL"}}], "cursor": {}}, {"find": "COLL"}], [{"_id": 1, "a": 5}], options={"validator": V}),
    Case("action_warn", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}]}, {"find": "COLL"}], options={"validator": V, "validationAction": "warn"}),
    Case("action_unknown", [{"create": "COLL", "validator": V, "validationAction": "shout"}]),
    Case("level_off", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}]}, {"find": "COLL"}], options={"validator": V, "validationLevel": "off"}),
    Case("level_unknown", [{"create": "COLL", "validator": V, "validationLevel": "foo"}]),
    Case("level_moderate", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}], "bypassDocumentValidation": True}, update({"_id": 1}, {"$set": {"b": 1}}), update({"_id": 1}, {"$set": {"a": 3}}), update({"_id": 1}, {"$set": {"a": "y"}}), {"insert": "COLL", "documents": [{"_id": 2, "a": "x"}]}, {"find": "COLL", "sort": {"_id": 1}}], options={"validator": V, "validationLevel": "moderate"}),
    Case("level_strict_existing", [{"insert": "COLL", "documents": [{"_id": 1, "a": "x"}], "bypassDocumentValidation": True}, update({"_id": 1}, {"$set": {"b": 1}}), {"find": "COLL"}], options={"validator": V}),
    Case("added_later", [{"collMod": "COLL", "validator": V}, LIST, {"insert": "COLL", "documents": [{"_id": 3, "a": "x"}]}, {"find": "COLL", "sort": {"_id": 1}}], [{"_id": 1, "a": "old"}]),
    Case("removed", [{"collMod": "COLL", "validator": {}}, LIST, {"insert": "COLL", "documents": [{"_id": 3, "a": "x"}]}], options={"validator": V}),
    Case("changed_level", [{"collMod": "COLL", "validationLevel": "moderate", "validationAction": "warn"}, LIST], options={"validator": V}),
    Case("collmod_bad", [{"collMod": "COLL", "validator": {"$foo": 1}}, {"collMod": "COLL", "validationLevel": "x"}, {"collMod": "COLL", "validator": 5}], options={"validator": V}),
    Case("listed", [LIST], options={"validator": V, "validationLevel": "moderate", "validationAction": "warn"}),
    Case("multi_bad_array_details", [{"insert": "COLL", "documents": [{"_id": {"x": 1}, "a": [1, {"b": 2}]}]}], options={"validator": V}),
]  # fmt: skip


@pytest.mark.parametrize("case", BEHAVIOUR, ids=lambda case: case.name)
def test_behaviour(pair, case):
    pair.run_case(case)


