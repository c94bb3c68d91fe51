"""What depends on the order or the time of evaluation: `a.$` projections, constants in branches, names in `_id`."""

import os
import random

import pytest
from harness import cases

SEED = int(os.environ.get("MERIDIAN_SEED", "26"))
SWEEP = 200
BAD = {"$add": [1, "x"]}

DOCUMENT = {
    "_id": 1,
    "members": ["al", "bob", "cy", "bob"],
    "n": [3, 1, 2, 1],
    "msgs": [{"k": 1}, {"k": 3}, {"k": 2}, {"k": 3}],
    "z": [0, 1, 2, 3],
}

CONDITIONS = [
    {"members": "bob"},
    {"members": {"$in": ["cy", "al"]}},
    {"members": {"$regex": "^c"}},
    {"members": {"$all": ["cy", "bob"]}},
    {"members": {"$exists": True}},
    {"members": {"$size": 4}},
    {"n": 2},
    {"n": {"$gt": 2}},
    {"n": {"$gt": 1, "$lt": 3}},
    {"n": {"$lt": 3, "$gte": 3}},
    {"n": {"$mod": [2, 0]}},
    {"n": {"$ne": 9}},
    {"n": {"$not": {"$gt": 5}}},
    {"n": {"$elemMatch": {"$lt": 2}}},
    {"msgs": {"$elemMatch": {"k": 3}}},
    {"msgs.k": 2},
    {"msgs.k": {"$gte": 2}},
    {"_id": 1},
]


def condition(choose):
    """One condition, at times below a logical operator."""
    chosen = choose.choice(CONDITIONS)
    kind = choose.random()
    if kind < 0.1:
        return {"$or": [chosen, choose.choice(CONDITIONS)]}
    if kind < 0.15:
        return {"$or": [chosen]}
    if kind < 0.3:
        return {"$and": [chosen, choose.choice(CONDITIONS)]}
    if kind < 0.35:
        return {"$nor": [{"n": 77}]}
    return chosen


def conjunction(choose):
    """Two or three conditions, side by side where their names differ."""
    parts = [condition(choose) for _ in range(choose.choice((2, 3)))]
    names = [name for part in parts for name in part]
    if len(set(names)) < len(names):
        return {"$and": parts}
    return {name: value for part in parts for name, value in part.items()}


def test_positional_projections_of_several_array_conditions(pair):
    print(f"seed {SEED}")
    choose = random.Random(SEED)
    filters = [{"members": "bob", "msgs": {"$elemMatch": {"k": 3}}}]
    filters += [conjunction(choose) for _ in range(SWEEP)]
    failed = []
    for number, query in enumerate(filters):
        commands = [
            {"find": "COLL", "filter": query, "projection": {f"{path}.$": 1}} for path in ("z", "msgs")
        ]
        modify = {"findAndModify": "COLL", "query": query, "update": {"$set": {"w": number}}}
        commands.append({**modify, "fields": {"z.$": 1}})
        try:
            pair.run_case(cases.Case(f"positional {number}", commands, docs=[DOCUMENT]))
        except cases.Mismatch as mismatch:
            failed.append(f"{query}: {mismatch}")
    assert not failed, f"seed {SEED}: {len(failed)} differ\n" + "\n".join(failed[:5])


@pytest.mark.parametrize("upsert", (False, True))
@pytest.mark.parametrize("new", (False, True))
def test_positional_projections_of_find_and_modify(pair, new, upsert):
    command = {"findAndModify": "COLL", "query": {"n": 2}, "update": {"$set": {"w": 1}}}
    command |= {"fields": {"n.$": 1}, "new": new, "upsert": upsert}
    pair.run_case(cases.Case(f"fam {new} {upsert}", command, docs=[DOCUMENT]))


EXPRESSIONS = {
    "cond_false": {"$cond": [False, BAD, 3]},
    "cond_true": {"$cond": [True, 3, BAD]},
    "cond_taken": {"$cond": [True, BAD, 3]},
    "cond_field": {"$cond": ["$no", BAD, 3]},
    "cond_constant_test": {"$cond": [{"$eq": [1, 2]}, BAD, 3]},
    "cond_nested": {"$concat": ["x", {"$cond": [False, BAD, "y"]}]},
    "cond_conversion": {"$cond": [False, {"$toInt": "x"}, 3]},
    "cond_division": {"$cond": [{"$eq": ["$_id", 0]}, {"$divide": [1, 0]}, 3]},
    "cond_pattern": {"$cond": [False, {"$regexMatch": {"input": "a", "regex": "("}}, 3]},
    "switch_dropped": {"$switch": {"branches": [{"case": False, "then": BAD}, {"case": True, "then": 3}]}},
    "switch_after": {"$switch": {"branches": [{"case": True, "then": 3}, {"case": BAD, "then": 4}]}},
    "switch_default": {"$switch": {"branches": [{"case": True, "then": 3}], "default": BAD}},
    "switch_field": {"$switch": {"branches": [{"case": "$no", "then": BAD}], "default": 3}},
    "switch_none": {"$switch": {"branches": [{"case": False, "then": 3}]}},
    "switch_later": {"$switch": {"branches": [{"case": "$_id", "then": 3}, {"case": BAD, "then": 4}]}},
    "and_false": {"$and": [False, BAD]},
    "and_behind": {"$and": [BAD, False]},
    "and_field": {"$and": ["$no", BAD]},
    "or_true": {"$or": [True, BAD]},
    "or_false": {"$or": [False, BAD]},
    "if_null": {"$ifNull": [3, BAD]},
    "if_null_taken": {"$ifNull": [None, BAD]},
    "map_empty": {"$map": {"input": [], "in": BAD}},
    "filter_empty": {"$filter": {"input": [], "cond": BAD}},
    "reduce_empty": {"$reduce": {"input": [], "initialValue": 0, "in": BAD}},
    "let_loops": {"$let": {"vars": {"a": "$_id", "b": {"$sum": {"$map": {"input": "$z", "in": {"$add": ["$$this", 7]}}}}}, "in": ["$$a", "$$b"]}},
    "let_reduces": {
        "$let": {
            "vars": {name: {"$reduce": {"input": "$z", "initialValue": name, "in": {"$concat": ["$$value", "+"]}}} for name in "abc"},
            "in": ["$$a", "$$b", "$$c"],
        }
    },
    "let_in_let": {"$let": {"vars": {"a": "$_id", "b": {"$let": {"vars": {"c": 5, "d": "$_id"}, "in": {"$add": ["$$c", "$$d"]}}}}, "in": ["$$a", "$$b"]}},
    "let_in_map": {"$map": {"input": "$z", "as": "x", "in": {"$let": {"vars": {"p": "$$x", "q": {"$filter": {"input": "$n", "cond": {"$gt": ["$$this", "$$x"]}}}}, "in": ["$$p", "$$q", "$$x"]}}}},
    "let_unused": {"$let": {"vars": {"x": BAD}, "in": 3}},
    "convert_unused": {"$convert": {"input": "1", "to": "int", "onError": BAD}},
    "convert_taken": {"$convert": {"input": "x", "to": "int", "onError": BAD}},
    "date_unused": {"$dateFromString": {"dateString": "2020-01-01", "onError": BAD}},
    "zip_unused": {"$zip": {"inputs": [[1], [2]], "useLongestLength": True, "defaults": [BAD, 1]}},
    "plain": BAD,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_constants_in_branches(pair, name):
    expression = EXPRESSIONS[name]
    update = {"q": {"_id": 1}, "u": [{"$set": {"w": expression}}]}
    commands = [
        {"aggregate": "COLL", "pipeline": [{"$project": {"w": expression}}], "cursor": {}},
        {"find": "COLL", "filter": {"$expr": expression}},
        {"find": "COLL", "projection": {"w": expression}},
        {"update": "COLL", "updates": [{**update, "q": {"_id": 77}}]},
        {"update": "COLL", "updates": [update]},
        {"findAndModify": "COLL", "query": {}, "update": update["u"], "new": True},
        {"find": "COLL"},
    ]
    pair.run_case(cases.Case(f"constant {name}", commands, docs=[DOCUMENT]))


IDS = [
    {"a": {"$x": 1}},
    {"$x": 1},
    {"a": [{"$x": 1}]},
    {"a": [[{"b": {"$": 1}}]]},
    {"$ref": "c", "$id": 1},
    {"$ref": "c", "$id": {"$x": 1}, "$db": "d", "z": 1},
    {"a": {"$ref": "c", "$id": 1}},
    {"$ref": 1, "$id": 1},
    {"$ref": "c"},
    {"$id": 1, "$ref": "c"},
    {"z": 1, "$ref": "c", "$id": 1},
    {"$ref": "c", "$id": 1, "$db": 1},
    {"$ref": "c", "$id": 1, "z": {"$x": 1}},
    {"a": {"a.b": 1}},
]


@pytest.mark.parametrize("number", range(len(IDS)))
def test_names_inside_identifiers(pair, number):
    stored = IDS[number]
    upsert = {"q": {"w": 1}, "u": {"$setOnInsert": {"_id": stored}}, "upsert": True}
    for kind, command in (
        ("insert", {"insert": "COLL", "documents": [{"_id": stored}]}),
        ("upsert", {"update": "COLL", "updates": [upsert]}),
    ):
        pair.run_case(cases.Case(f"id {number} {kind}", [command, {"find": "COLL"}]))
