"""insert, update, delete and findAndModify: replies, ordered and unordered errors, refused options."""

import pytest
from bson import ObjectId, Regex
from harness.cases import Case

READ = {"find": "COLL", "sort": {"_id": 1}}
DOCS = [{"_id": i, "n": i % 3, "v": i * 10} for i in range(6)]


def insert(*documents, **more):
    return {"insert": "COLL", "documents": list(documents), **more}


def update(*updates, **more):
    return {"update": "COLL", "updates": list(updates), **more}


def delete(*deletes, **more):
    return {"delete": "COLL", "deletes": list(deletes), **more}


def modify(**fields):
    return {"findAndModify": "COLL", **fields}


CASES = [
    # insert
    Case("insert_one", [insert({"_id": 1}), READ]),
    Case("insert_many", [insert(*[{"_id": i} for i in range(300)]), {"count": "COLL"}]),
    Case("insert_id_moved_first", [insert({"a": 1, "_id": 5, "b": 2}), READ]),
    Case("insert_id_generated", [insert({"a": 1}), {"find": "COLL", "filter": {"_id": {"$type": "objectId"}}, "projection": {"_id": 0}}]),
    Case("insert_ordered_error", [insert({"_id": 1}, {"_id": 1}, {"_id": 2}), READ]),
    Case("insert_unordered_errors", [insert({"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 2}, ordered=False), READ]),
    Case("insert_id_array", [insert({"_id": [1]})]),
    Case("insert_id_regex", [insert({"_id": Regex("a")})]),
    Case("insert_id_object", [insert({"_id": {"a": 1}}), READ]),
    Case("insert_id_object_dollar", [insert({"_id": {"$a": 1}})]),
    Case("insert_id_null", [insert({"_id": None}), insert({"_id": None}), READ]),
    Case("insert_id_string", [insert({"_id": "x"}), insert({"_id": "x"})]),
    Case("insert_id_oid", [insert({"_id": ObjectId("5f0000000000000000000001")}), insert({"_id": ObjectId("5f0000000000000000000001")})]),
    Case("insert_dollar_field", [insert({"_id": 1, "$x": 1}), READ]),
    Case("insert_dotted_field", [insert({"_id": 1, "a.b": 1}), READ]),
    Case("insert_nested_dollar", [insert({"_id": 1, "o": {"$x": 1}}), READ]),
    Case("insert_empty_name", [insert({"_id": 1, "": 1}), READ]),
    Case("insert_none", [insert()]),
    Case("insert_not_array", [{"insert": "COLL", "documents": 5}]),
    Case("insert_not_object", [insert(5)]),
    Case("insert_no_documents", [{"insert": "COLL"}]),
    Case("insert_unknown_option", [insert({"_id": 1}, foo=1)]),
    Case("insert_ordered_string", [insert({"_id": 1}, ordered="no")]),
    Case("insert_collection_number", [{"insert": 5, "documents": [{"_id": 1}]}]),
    Case("insert_collection_empty", [{"insert": "", "documents": [{"_id": 1}]}]),
    Case("insert_collection_dollar", [{"insert": "a$b", "documents": [{"_id": 1}]}]),
    Case("insert_collection_dots", [{"insert": ".a", "documents": [{"_id": 1}]}]),
    Case("insert_collection_long", [{"insert": "c" * 300, "documents": [{"_id": 1}]}]),
    Case("insert_system", [{"insert": "system.foo", "documents": [{"_id": 1}]}]),
    Case("insert_write_concern_j", [insert({"_id": 1}, writeConcern={"w": 1, "j": True}), READ]),
    Case("insert_write_concern_majority", [insert({"_id": 1}, writeConcern={"w": "majority"}), READ]),
    Case("insert_write_concern_2", [insert({"_id": 1}, writeConcern={"w": 2})]),
    Case("insert_write_concern_bad", [insert({"_id": 1}, writeConcern={"w": {"a": 5}, "foo": 1})]),
    Case("insert_write_concern_timeout", [insert({"_id": 1}, writeConcern={"w": 1, "wtimeout": 100})]),
    # delete
    Case("delete_one", [delete({"q": {"n": 1}, "limit": 1}), READ], DOCS),
    Case("delete_many", [delete({"q": {"n": 1}, "limit": 0}), READ], DOCS),
    Case("delete_all", [delete({"q": {}, "limit": 0}), READ], DOCS),
    Case("delete_none", [delete({"q": {"n": 99}, "limit": 0})], DOCS),
    Case("delete_several", [delete({"q": {"_id": 1}, "limit": 1}, {"q": {"n": 0}, "limit": 0}), READ], DOCS),
    Case("delete_by_id", [delete({"q": {"_id": 3}, "limit": 0}), READ], DOCS),
    Case("delete_range", [delete({"q": {"v": {"$gte": 20, "$lt": 50}}, "limit": 0}), READ], DOCS, [{"key": {"v": 1}}]),
    Case("delete_hint", [delete({"q": {"n": 1}, "limit": 0, "hint": {"v": 1}}), READ], DOCS, [{"key": {"v": 1}}]),
    Case("delete_hint_unknown", [delete({"q": {"n": 1}, "limit": 0, "hint": {"zzz": 1}}), READ], DOCS),
    Case("delete_limit_2", [delete({"q": {}, "limit": 2})], DOCS),
    Case("delete_no_limit", [delete({"q": {}})], DOCS),
    Case("delete_no_query", [delete({"limit": 0})], DOCS),
    Case("delete_query_number", [delete({"q": 5, "limit": 0})], DOCS),
    Case("delete_bad_query", [delete({"q": {"$foo": 1}, "limit": 0})], DOCS),
    Case("delete_bad_then_good", [delete({"q": {"$foo": 1}, "limit": 0}, {"q": {"_id": 1}, "limit": 1}), READ], DOCS),
    Case("delete_bad_then_good_unordered", [delete({"q": {"$foo": 1}, "limit": 0}, {"q": {"_id": 1}, "limit": 1}, ordered=False), READ], DOCS),
    Case("delete_missing_collection", [delete({"q": {}, "limit": 0})]),
    Case("delete_none_given", [delete()], DOCS),
    Case("delete_unknown_option", [delete({"q": {}, "limit": 0}, foo=1)], DOCS),
    Case("delete_unknown_statement_option", [delete({"q": {}, "limit": 0, "foo": 1})], DOCS),
    Case("delete_let", [delete({"q": {"$expr": {"$eq": ["$n", "$$x"]}}, "limit": 0}, let={"x": 2}), READ], DOCS),
    Case("delete_collation_simple", [delete({"q": {"n": 1}, "limit": 0, "collation": {"locale": "simple"}})], DOCS),
    # update commands (operators have their own table)
    Case("update_reply", [update({"q": {"n": 1}, "u": {"$set": {"x": 1}}}), READ], DOCS),
    Case("update_many_reply", [update({"q": {"n": 1}, "u": {"$set": {"x": 1}}, "multi": True})], DOCS),
    Case("update_several", [update({"q": {"_id": 1}, "u": {"$set": {"x": 1}}}, {"q": {"_id": 50}, "u": {"$set": {"x": 1}}, "upsert": True}, {"q": {"_id": 51}, "u": {"$set": {"x": 1}}, "upsert": True}), READ], DOCS),
    Case("update_error_ordered", [update({"q": {"_id": 1}, "u": {"$set": {"_id": 9}}}, {"q": {"_id": 2}, "u": {"$set": {"x": 1}}}), READ], DOCS),
    Case("update_error_unordered", [update({"q": {"_id": 1}, "u": {"$set": {"_id": 9}}}, {"q": {"_id": 2}, "u": {"$set": {"x": 1}}}, ordered=False), READ], DOCS),
    Case("update_hint", [update({"q": {"n": 1}, "u": {"$inc": {"v": 1}}, "multi": True, "hint": "v_1"}), READ], DOCS, [{"key": {"v": 1}}]),
    Case("update_hint_unknown", [update({"q": {"n": 1}, "u": {"$inc": {"v": 1}}, "hint": "zzz"})], DOCS),
    Case("update_halloween", [update({"q": {"v": {"$gte": 0}}, "u": {"$inc": {"v": 1000}}, "multi": True}), READ], DOCS, [{"key": {"v": 1}}]),
    Case("update_no_q", [update({"u": {"$set": {"x": 1}}})], DOCS),
    Case("update_no_u", [update({"q": {}})], DOCS),
    Case("update_unknown_statement_option", [update({"q": {}, "u": {"$set": {"x": 1}}, "foo": 1})], DOCS),
    Case("update_missing_collection", [update({"q": {"_id": 1}, "u": {"$set": {"x": 1}}})]),
    Case("update_missing_collection_upsert", [update({"q": {"_id": 1}, "u": {"$set": {"x": 1}}, "upsert": True}), READ]),
    Case("update_none", [update()], DOCS),
    Case("update_multi_string", [update({"q": {}, "u": {"$set": {"x": 1}}, "multi": "yes"})], DOCS),
    # findAndModify
    Case("fam_update", [modify(query={"_id": 1}, update={"$set": {"x": 1}}), READ], DOCS),
    Case("fam_new", [modify(query={"_id": 1}, update={"$set": {"x": 1}}, new=True)], DOCS),
    Case("fam_remove", [modify(query={"n": 1}, sort={"v": -1}, remove=True), READ], DOCS),
    Case("fam_remove_none", [modify(query={"n": 99}, remove=True)], DOCS),
    Case("fam_none", [modify(query={"n": 99}, update={"$set": {"x": 1}})], DOCS),
    Case("fam_upsert", [modify(query={"_id": 99, "k": 1}, update={"$set": {"x": 1}}, upsert=True), READ], DOCS),
    Case("fam_upsert_new", [modify(query={"_id": 99, "k": 1}, update={"$set": {"x": 1}}, upsert=True, new=True)], DOCS),
    Case("fam_upsert_replacement", [modify(query={"_id": 99}, update={"x": 1}, upsert=True, new=True)], DOCS),
    Case("fam_sort", [modify(query={"n": 1}, sort={"v": -1}, update={"$set": {"x": 1}}), modify(sort={"v": 1}, update={"$set": {"y": 1}}), READ], DOCS),
    Case("fam_sort_index", [modify(query={"n": 1}, sort={"v": -1}, update={"$inc": {"v": 5}}, new=True), READ], DOCS, [{"key": {"v": 1}}]),
    Case("fam_fields", [modify(query={"_id": 1}, update={"$set": {"x": 1}}, fields={"x": 1}, new=True), modify(query={"_id": 1}, update={"$set": {"x": 2}}, fields={"_id": 0, "v": 0})], DOCS),
    Case("fam_positional_fields", [modify(query={"a": 2}, update={"$inc": {"a.$": 10}}, fields={"a": 1}, new=True)], [{"_id": 1, "a": [1, 2, 3]}]),
    Case("fam_array_filters", [modify(query={"_id": 1}, update={"$set": {"a.$[x]": 0}}, arrayFilters=[{"x": {"$gt": 1}}], new=True)], [{"_id": 1, "a": [1, 2, 3]}]),
    Case("fam_pipeline", [modify(query={"_id": 1}, update=[{"$set": {"x": {"$add": ["$v", 1]}}}], new=True)], DOCS),
    Case("fam_remove_and_update", [modify(query={"_id": 1}, update={"$set": {"x": 1}}, remove=True)], DOCS),
    Case("fam_remove_and_new", [modify(query={"_id": 1}, remove=True, new=True)], DOCS),
    Case("fam_remove_and_upsert", [modify(query={"_id": 1}, remove=True, upsert=True)], DOCS),
    Case("fam_nothing", [modify(query={"_id": 1})], DOCS),
    Case("fam_unknown_option", [modify(query={"_id": 1}, remove=True, foo=1)], DOCS),
    Case("fam_error", [modify(query={"_id": 1}, update={"$inc": {"s": 1}})], [{"_id": 1, "s": "x"}]),
    Case("fam_duplicate", [modify(query={"_id": 1}, update={"$set": {"v": 20}})], DOCS, [{"key": {"v": 1}, "unique": True}]),
    Case("fam_hint", [modify(query={"n": 1}, update={"$set": {"x": 1}}, hint="v_1", sort={"_id": 1})], DOCS, [{"key": {"v": 1}}]),
    Case("fam_hint_unknown", [modify(query={"n": 1}, update={"$set": {"x": 1}}, hint="zzz")], DOCS),
    Case("fam_missing_collection", [modify(query={"n": 1}, update={"$set": {"x": 1}})]),
    Case("fam_lower_case", [{"findandmodify": "COLL", "query": {"_id": 1}, "remove": True}], DOCS),
    Case("fam_let", [modify(query={"$expr": {"$eq": ["$v", "$$x"]}}, update={"$set": {"x": 1}}, let={"x": 20}, new=True)], DOCS),
    Case("fam_query_number", [modify(query=5, remove=True)], DOCS),
    Case("fam_update_number", [modify(query={}, update=5)], DOCS),
    # write commands that do not exist any more, and generic refusals
    Case("collation_refused_by_both_kinds", [{"find": "COLL", "filter": {}, "collation": {"locale": "xx_unknown"}}], DOCS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_write(pair, case):
    pair.run_case(case)


@pytest.mark.parametrize("collation", [{"locale": "haw"}, {"locale": "en@collation=search"}, {"locale": "es", "backwards": True}])
def test_collation_without_rules_is_refused_by_name(subject, collation):
    """Never accept silently: a collation we do not apply must be an error that names it."""
    reply = subject.run("diff", {"find": "c", "filter": {}, "collation": collation})
    assert reply.get("code") == "int32(238)"
    assert "collation" in reply.get("errmsg") and collation["locale"] in reply.get("errmsg")


ABSENT_STAGES = ["$currentOp", "$listLocalSessions", "$listSessions"]


@pytest.mark.parametrize("stage", ABSENT_STAGES)
def test_absent_stages_are_refused_by_name(subject, stage):
    reply = subject.run("diff", {"aggregate": "c", "pipeline": [{stage: {}}], "cursor": {}})
    assert reply.get("ok") == "double(0.0)"
    assert stage in reply.get("errmsg")
