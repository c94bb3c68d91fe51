"""findAndModify and bulk writes in depth: what comes back, and which of several errors is reported."""

import pytest
from bson import Int64, Regex
from harness.cases import Case

READ = {"find": "COLL", "sort": {"_id": 1}}
DOCS = [{"_id": i, "n": i % 3, "v": i * 10, "a": [i, i + 1], "g": [{"k": i}, {"k": i + 1}]} for i in range(5)]
UNIQUE = [{"key": {"v": 1}, "unique": True}]
TEXT_ONLY = {"validator": {"s": {"$type": "string"}}}


def modify(**fields):
    return {"findAndModify": "COLL", **fields}


def update(*updates, **more):
    return {"update": "COLL", "updates": list(updates), **more}


def insert(*documents, **more):
    return {"insert": "COLL", "documents": list(documents), **more}


def delete(*deletes, **more):
    return {"delete": "COLL", "deletes": list(deletes), **more}


# What becomes of document 1, asked for before and after.
CHANGES = {
    "set": {"$set": {"x": 1}},
    "nothing": {"$set": {"n": 1}},
    "replacement": {"r": 1},
    "replacement_same_id": {"_id": 1, "r": 1},
    "replacement_other_id": {"_id": 2, "r": 1},
    "empty": {},
    "pipeline": [{"$set": {"x": {"$add": ["$v", 1]}}}, {"$unset": "n"}],
    "pipeline_empty": [],
    "pipeline_id": [{"$set": {"_id": 9}}],
    "pipeline_stage_not_allowed": [{"$match": {}}],
    "pipeline_stage_unknown": [{"$foo": {}}],
    "pipeline_fails": [{"$set": {"x": {"$divide": ["$v", "s"]}}}],
    "several": {"$inc": {"v": 1}, "$push": {"a": 7}, "$unset": {"n": ""}, "$rename": {"g": "h"}},
    "unknown": {"$foo": {"a": 1}},
    "wrong_type": {"$inc": {"a": 1}},
    "blocked": {"$set": {"n.x": 1}},
    "immutable": {"$set": {"_id": 5}},
    "conflict": {"$set": {"n": 1}, "$inc": {"n": 1}},
    "all_elements": {"$inc": {"a.$[]": 10}},
    "no_filter": {"$set": {"a.$[i]": 1}},
    "no_position": {"$set": {"a.$": 1}},
}


@pytest.mark.parametrize("new", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
def test_find_and_modify(pair, change, new):
    command = modify(query={"_id": 1}, update=CHANGES[change], new=new)
    pair.run_case(Case(f"famx_{change}_{new}", [command, READ], DOCS))


@pytest.mark.parametrize("change", CHANGES)
def test_find_and_modify_upserts(pair, change):
    command = modify(query={"_id": 50, "q": 1}, update=CHANGES[change], upsert=True, new=True)
    pair.run_case(Case(f"famu_{change}", [command, READ], DOCS))


CASES = [
    # findAndModify: choosing and shaping
    Case("famd_sort_ties", [modify(query={"n": {"$gte": 0}}, sort={"n": -1, "v": 1}, remove=True), READ], DOCS),
    Case("famd_sort_missing", [modify(sort={"zzz": 1, "_id": -1}, update={"$set": {"x": 1}}), READ], DOCS),
    Case("famd_sort_bad", [modify(sort={"v": 5}, remove=True), READ], DOCS),
    Case("famd_fields_nested", [modify(query={"_id": 2}, update={"$set": {"x": 1}}, fields={"g.k": 1}, new=True)], DOCS),
    Case("famd_fields_slice", [modify(query={"_id": 2}, update={"$push": {"a": 9}}, fields={"a": {"$slice": -1}}, new=True)], DOCS),
    Case("famd_fields_expression", [modify(query={"_id": 2}, remove=True, fields={"s": {"$add": ["$v", 1]}})], DOCS),
    Case("famd_fields_mixed", [modify(query={"_id": 2}, remove=True, fields={"a": 1, "v": 0}), READ], DOCS),
    Case("famd_position", [modify(query={"g.k": 3}, update={"$set": {"g.$.k": 99}}, sort={"_id": 1}, new=True)], DOCS),
    Case("famd_filters", [modify(query={"_id": 3}, update={"$set": {"g.$[e].k": 0}}, arrayFilters=[{"e.k": {"$gt": 3}}], new=True)], DOCS),
    Case("famd_filters_unused", [modify(query={"_id": 3}, update={"$set": {"x": 0}}, arrayFilters=[{"e": 1}])], DOCS),
    Case("famd_let_update", [modify(query={"_id": 1}, update=[{"$set": {"x": "$$y"}}], let={"y": 7}, new=True)], DOCS),
    Case("famd_let_undefined", [modify(query={"_id": 1}, update=[{"$set": {"x": "$$y"}}])], DOCS),
    Case("famd_again", [modify(query={"v": 20}, update={"$inc": {"v": 1}}), modify(query={"v": 20}, update={"$inc": {"v": 1}}), READ], DOCS),
    # findAndModify: constraints
    Case("famc_duplicate_upsert", [modify(query={"_id": 60}, update={"$set": {"v": 20}}, upsert=True), READ], DOCS, UNIQUE),
    Case("famc_validator", [modify(query={"_id": 1}, update={"$set": {"s": 1}}), READ], [{"_id": 1, "s": "x"}], options=TEXT_ONLY),
    Case("famc_validator_upsert", [modify(query={"_id": 2}, update={"$set": {"s": 1}}, upsert=True), READ], [{"_id": 1, "s": "x"}], options=TEXT_ONLY),
    Case("famc_validator_bypassed", [modify(query={"_id": 1}, update={"$set": {"s": 1}}, bypassDocumentValidation=True), READ], [{"_id": 1, "s": "x"}], options=TEXT_ONLY),
    Case("famc_upsert_expr", [modify(query={"$expr": {"$eq": ["$v", 10]}}, update={"$set": {"x": 1}}, upsert=True)], DOCS),
    Case("famc_upsert_twice", [modify(query={"k": 1, "$and": [{"k": 2}]}, update={"$set": {"x": 1}}, upsert=True)], DOCS),
    # bulk writes: which statement failed, what the others did
    Case("bulk_insert_errors", [insert({"_id": 9}, {"_id": 9}, {"_id": [1]}, {"_id": 8}, ordered=False), READ]),
    Case("bulk_insert_stops", [insert({"_id": 9}, {"_id": Regex("x")}, {"_id": 8}), READ]),
    Case("bulk_insert_unique", [insert({"_id": 70, "v": 10}, {"_id": 71, "v": 71}, {"_id": 72, "v": 20}, ordered=False), READ], DOCS, UNIQUE),
    Case("bulk_insert_validator", [insert({"_id": 2}, {"_id": 3, "s": "y"}, {"_id": 4, "s": 5}, ordered=False), READ], options=TEXT_ONLY),
    Case("bulk_update_mixed", [update({"q": {"n": 0}, "u": {"$inc": {"v": 1}}, "multi": True}, {"q": {"_id": 1}, "u": {"v": 5}}, {"q": {"_id": 80}, "u": {"$set": {"v": Int64(3)}}, "upsert": True}), READ], DOCS),
    Case("bulk_update_errors", [update({"q": {"_id": 0}, "u": {"$foo": {}}}, {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}, {"q": {"_id": 2}, "u": {"$set": {"ok": 1}}}, {"q": {"$foo": 1}, "u": {"$set": {"ok": 1}}}, ordered=False), READ], DOCS),
    Case("bulk_update_stops", [update({"q": {"_id": 0}, "u": {"$set": {"ok": 1}}}, {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}, {"q": {"_id": 2}, "u": {"$set": {"ok": 1}}}), READ], DOCS),
    Case("bulk_update_upserts", [update(*[{"q": {"_id": 90 + i}, "u": {"$setOnInsert": {"i": i}, "$inc": {"c": 1}}, "upsert": True} for i in (0, 1, 0, 1)]), READ], DOCS),
    Case("bulk_update_unique", [update({"q": {"_id": 1}, "u": {"$set": {"v": 20}}}, {"q": {"_id": 2}, "u": {"$set": {"v": 21}}}, ordered=False), READ], DOCS, UNIQUE),
    Case("bulk_update_multi_replacement", [update({"q": {}, "u": {"x": 1}, "multi": True}), READ], DOCS),
    Case("bulk_update_constants", [update({"q": {"_id": 1}, "u": [{"$set": {"x": "$$c"}}], "c": {"c": "$v"}}, {"q": {"_id": 2}, "u": {"$set": {"x": 1}}, "c": {"c": 1}}), READ], DOCS),
    Case("bulk_update_let", [update({"q": {"$expr": {"$gt": ["$v", "$$least"]}}, "u": [{"$set": {"x": "$$least"}}], "multi": True}, let={"least": 15}), READ], DOCS),
    Case("bulk_delete_mixed", [delete({"q": {"n": 0}, "limit": 1}, {"q": {"n": 1}, "limit": 0}, {"q": {"_id": 99}, "limit": 1}), READ], DOCS),
    Case("bulk_delete_errors", [delete({"q": {"_id": 0}, "limit": 1}, {"q": {"v": {"$foo": 1}}, "limit": 0}, {"q": {"_id": 2}, "limit": 1}, ordered=False), READ], DOCS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(pair, case):
    pair.run_case(case)
