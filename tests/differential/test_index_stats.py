"""`$indexStats`: each statement that uses an index counts once."""

import time

import pytest
from harness.canonical import Doc
from harness.servers import Meridian
from test_monitoring import number

DATABASE = "diff_index_stats"
INDEXES = [
    {"key": {"a": 1}, "name": "a_1"},
    {"key": {"b": 1}, "name": "b_1"},
    {"key": {"b": 1, "c": -1}, "name": "b_c"},
    {"key": {"g": "2dsphere"}, "name": "g"},
    {"key": {"p": "2d"}, "name": "p"},
    {"key": {"tags": 1}, "name": "tags"},
    {"key": {"h": "hashed"}, "name": "h"},
    {"key": {"e": 1}, "name": "e", "expireAfterSeconds": 10_000, "sparse": True},
]
POINT = {"type": "Point", "coordinates": [1, 1]}
DOCUMENTS = [
    {"_id": i, "a": i, "b": i % 5, "c": i % 7, "g": {"type": "Point", "coordinates": [i % 90, i % 80]}, "p": [i % 9, i % 8], "tags": [i, i + 1], "s": "x", "h": i}
    for i in range(200)
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(_subject, _oracle):
    for server in (_subject, _oracle):
        server.ensure_alive()
        server.run(DATABASE, {"dropDatabase": 1})
        server.run(DATABASE, {"insert": "c", "documents": DOCUMENTS})
        server.run(DATABASE, {"createIndexes": "c", "indexes": INDEXES})
        server.run(DATABASE, {"insert": "o", "documents": [{"_id": i} for i in range(20)]})
    yield _subject, _oracle
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})


def rows(server, collection="c"):
    reply = server.run(DATABASE, {"aggregate": collection, "pipeline": [{"$indexStats": {}}], "cursor": {}})
    return {row.get("name").strip('"'): row for row in reply.get("cursor").get("firstBatch")}


def uses(server, collection="c"):
    return {name: number(row.get("accesses").get("ops")) for name, row in rows(server, collection).items()}


def used(server, command, collection="c"):
    before = uses(server, collection)
    server.run(DATABASE, command)
    after = uses(server, collection)
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def find(filter, **more):
    return {"find": "c", "filter": filter, **more}


def aggregate(*stages):
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}}


USES = {
    "id": find({"_id": 1}),
    "id_projected": find({"_id": 1}, projection={"a": 1}),
    "id_missing": find({"_id": -1}),
    "id_range": find({"_id": {"$gt": 100}}),
    "id_in": find({"_id": {"$in": [1, 2]}}),
    "id_sort": find({}, sort={"_id": 1}),
    "id_sort_back": find({"s": "x"}, sort={"_id": -1}),
    "id_hint": find({}, hint="_id_"),
    "id_hint_key": find({}, hint={"_id": 1}),
    "id_distinct": {"distinct": "c", "key": "_id"},
    "id_count": {"count": "c", "query": {"_id": 3}},
    "id_count_hint": {"count": "c", "hint": "_id_"},
    "all": find({}),
    "natural": find({"a": 1}, hint={"$natural": 1}),
    "scan": find({"s": "x"}),
    "equal": find({"a": 3}),
    "range": find({"a": {"$gt": 190}}),
    "in": find({"a": {"$in": [1, 2, 3]}}),
    "covered": find({"a": {"$gt": 190}}, projection={"_id": 0, "a": 1}),
    "sorted": find({}, sort={"a": 1}, limit=3),
    "hint": find({}, hint="a_1"),
    "hint_beside": find({"b": 1}, hint="a_1"),
    "hint_unknown": find({}, hint="nope"),
    "or": find({"$or": [{"a": 3}, {"tags": 9}]}),
    "or_twice_the_same": find({"$or": [{"a": 3}, {"a": {"$gt": 190}}]}),
    "or_with_id": find({"$or": [{"a": 3}, {"_id": 7}]}),
    "array": find({"tags": {"$elemMatch": {"$gt": 5, "$lt": 8}}}),
    "hashed": find({"h": 3}),
    "compound": find({"b": 1, "c": {"$gt": 3}}, hint="b_c"),
    "sparse": find({"e": {"$gt": 3}}),
    "within": find({"g": {"$geoWithin": {"$centerSphere": [[10, 10], 0.1]}}}),
    "near": find({"g": {"$near": {"$geometry": POINT}}}, limit=3),
    "plane": find({"p": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}}),
    "never": find({"$alwaysFalse": 1}),
    "batch_of_none": find({"a": {"$gt": 1}}, batchSize=0, singleBatch=True),
    "explain": {"explain": find({"a": 3}), "verbosity": "executionStats"},
    "count": {"count": "c", "query": {"a": {"$gt": 3}}},
    "count_all": {"count": "c"},
    "count_hint": {"count": "c", "hint": "a_1"},
    "distinct": {"distinct": "c", "key": "a"},
    "distinct_filter": {"distinct": "c", "key": "a", "query": {"a": {"$gt": 100}}},
    "distinct_scan": {"distinct": "c", "key": "s"},
    "update": {"update": "c", "updates": [{"q": {"a": 3}, "u": {"$set": {"z": 1}}}]},
    "update_several": {"update": "c", "updates": [{"q": {"a": 3}, "u": {"$set": {"z": 2}}}, {"q": {"a": {"$gt": 190}}, "u": {"$set": {"z": 2}}, "multi": True}, {"q": {"_id": 1}, "u": {"$set": {"z": 2}}}]},
    "update_none": {"update": "c", "updates": [{"q": {"a": -3}, "u": {"$set": {"z": 2}}}]},
    "update_explain": {"explain": {"update": "c", "updates": [{"q": {"a": 3}, "u": {"$set": {"z": 3}}}]}, "verbosity": "executionStats"},
    "upsert": {"update": "c", "updates": [{"q": {"a": 1005}, "u": {"$set": {"q": 1}}, "upsert": True}]},
    "delete": {"delete": "c", "deletes": [{"q": {"a": 199}, "limit": 1}]},
    "delete_id": {"delete": "c", "deletes": [{"q": {"_id": 198}, "limit": 1}]},
    "find_and_modify": {"findAndModify": "c", "query": {"a": 5}, "update": {"$set": {"q": 1}}},
    "find_and_modify_sorted": {"findAndModify": "c", "sort": {"a": -1}, "update": {"$set": {"q": 1}}},
    "find_and_remove": {"findAndModify": "c", "query": {"_id": 197}, "remove": True},
    "insert": {"insert": "c", "documents": [{"_id": 9000}]},
    "insert_refused": {"insert": "c", "documents": [{"_id": 1}]},
    "match": aggregate({"$match": {"a": 3}}),
    "match_count": aggregate({"$match": {"a": {"$gt": 3}}}, {"$count": "n"}),
    "match_group": aggregate({"$match": {"a": {"$gte": 0}}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}),
    "sort_id": aggregate({"$sort": {"_id": -1}}),
    "geo_near": aggregate({"$geoNear": {"near": POINT, "distanceField": "d", "key": "g"}}, {"$limit": 2}),
    "sample": aggregate({"$sample": {"size": 3}}),
    "aggregate_explain": {"aggregate": "c", "pipeline": [{"$match": {"a": 3}}], "explain": True},
    "out": aggregate({"$match": {"a": {"$lt": 3}}}, {"$out": "made"}),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_uses(filled, name):
    own, mongods = (used(server, USES[name]) for server in filled)
    assert own == mongods


def test_merge_looks_each_document_up(filled):
    merge = aggregate({"$match": {"a": {"$lt": 5}}}, {"$merge": "o"})
    own, mongods = (used(server, merge, "o") for server in filled)
    assert own == mongods == {"_id_": 5}


def test_batches_of_a_cursor_count_once(filled):
    counts = []
    for server in filled:
        before = uses(server)["a_1"]
        assert len(list(server.client[DATABASE]["c"].find({"a": {"$gte": 0}}, batch_size=10))) > 100
        counts.append(uses(server)["a_1"] - before)
    assert counts == [1, 1]


def shape(row):
    """The row without what the server chooses: its name, the time."""
    spec = Doc(sorted(row.get("spec"), key=lambda field: field[0]))
    return row.replace("host", row.get("host").split(":")[0]).replace("accesses", row.get("accesses").names()).replace("spec", spec)


def test_rows(filled):
    own, mongods = (rows(server) for server in filled)
    assert {name: shape(row) for name, row in own.items()} == {name: shape(row) for name, row in mongods.items()}
    for server, found in zip(filled, (own, mongods)):
        for row in found.values():
            assert row.get("host") == f'"{row.get("host")[1:-1].split(":")[0]}:{server.port}"'
            assert row.get("accesses").get("ops").startswith("int64(") and row.get("accesses").get("since").startswith("date(")


@pytest.mark.parametrize("pipeline", [
    [{"$indexStats": {"x": 1}}], [{"$indexStats": 1}], [{"$indexStats": []}], [{"$match": {}}, {"$indexStats": {}}],
    [{"$indexStats": {}}, {"$match": {"name": "a_1"}}, {"$project": {"name": 1, "key": 1}}],
], ids=str)  # fmt: skip
def test_pipelines(filled, pipeline):
    replies = [server.run(DATABASE, {"aggregate": "c", "pipeline": pipeline, "cursor": {}}) for server in filled]
    assert replies[0] == replies[1]


def test_a_collection_without_rows(filled):
    for server in filled:
        server.run(DATABASE, {"drop": "clustered"})
        server.run(DATABASE, {"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        server.run(DATABASE, {"insert": "clustered", "documents": [{"_id": 1}]})
    for name in ("nowhere", "clustered"):
        replies = [rows(server, name) for server in filled]
        assert replies[0] == replies[1] == {}


CHANGES = {
    "hide": {"collMod": "changed", "index": {"name": "v", "hidden": True}},
    "not_hidden": {"collMod": "changed", "index": {"name": "v", "hidden": False}},
    "expiry": {"collMod": "changed", "index": {"name": "v", "expireAfterSeconds": 20_000}},
    "same_expiry": {"collMod": "changed", "index": {"name": "v", "expireAfterSeconds": 10_000}},
    "validator": {"collMod": "changed", "validator": {"x": {"$exists": False}}},
    "create_again": {"createIndexes": "changed", "indexes": [{"key": {"v": 1}, "name": "v", "expireAfterSeconds": 10_000}]},
    "create_another": {"createIndexes": "changed", "indexes": [{"key": {"w": 1}, "name": "w"}]},
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changes(filled, change):
    """What a change does to the numbers, and to the time since when they are counted."""
    kept = []
    for server in filled:
        server.run(DATABASE, {"drop": "changed"})
        server.run(DATABASE, {"insert": "changed", "documents": [{"_id": 1}]})
        server.run(DATABASE, {"createIndexes": "changed", "indexes": [{"key": {"v": 1}, "name": "v", "expireAfterSeconds": 10_000}]})
        server.run(DATABASE, {"find": "changed", "filter": {"v": 1}})
        server.run(DATABASE, {"find": "changed", "filter": {"_id": 1}})
        before = rows(server, "changed")
        time.sleep(0.01)
        server.run(DATABASE, CHANGES[change])
        after = rows(server, "changed")
        kept.append({name: (number(after[name].get("accesses").get("ops")), after[name].get("accesses") == before[name].get("accesses")) for name in before})
    assert kept[0] == kept[1]


def test_a_rename_keeps_them_and_a_start_begins_anew():
    with Meridian() as server:
        server.run(DATABASE, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        server.run(DATABASE, {"find": "c", "filter": {"a": 1}})
        before = rows(server)["a_1"].get("accesses")
        server.run("admin", {"renameCollection": f"{DATABASE}.c", "to": f"{DATABASE}.d"})
        assert rows(server, "d")["a_1"].get("accesses") == before
        server.disconnect()
        server.terminate()
        server.start()
        after = rows(server, "d")["a_1"].get("accesses")
        assert after.get("ops") == "int64(0)" and after.get("since") > before.get("since")
