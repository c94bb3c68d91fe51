"""Where documents come from: `min` and `max`, `returnKey`, `showRecordId`, and the `$meta` that tell it.

On a capped collection, whose record ids are mongod's. What the planner chooses freely is hinted.
"""

import re

import pytest
from bson import Int64, MaxKey, MinKey
from harness import canonical

DATABASE = "origin"
ENDS = [{"_id": 100 + i, "e": value} for i, value in enumerate([1, 2, 3, MaxKey(), MinKey(), "x", None])]
DOCUMENTS = [{"_id": i, "a": i % 4, "b": -i, "s": {"x": i}, "arr": [i, i + 1]} for i in (5, 3, 8, 1, 2)] + [{"_id": 20}]
INDEXES = [
    {"a": 1}, {"a": 1, "b": -1}, {"arr": 1}, {"a": -1}, {"a": "hashed"}, {"s.x": 1}, {"h": 1}, {"p": 1}, {"t": 1, "a": -1}, {"e": 1}, {"e": -1}, {"g": "2dsphere"},
]


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        database = server.client[DATABASE]
        server.client.drop_database(DATABASE)
        database.create_collection("c", capped=True, size=100_000)
        database["c"].insert_many(DOCUMENTS + ENDS)
        for key in INDEXES:
            options = {"h": {"sparse": True}, "p": {"partialFilterExpression": {"a": 1}}}.get(next(iter(key)), {})
            database["c"].create_index(list(key.items()), name="_".join(f"{path}_{kind}" for path, kind in key.items()), **options)
        database["plain"].insert_many(DOCUMENTS)
        database["texts"].insert_many([{"_id": i, "t": text} for i, text in enumerate("bACc")])
        database["texts"].create_index("t", collation={"locale": "en"})
        database.command({"create": "v", "viewOn": "c", "pipeline": []})
    return _subject, _oracle


def text(reply):
    own = re.sub(r"int64\(\d{16,}\)", "a cursor", canonical.text(reply))
    # Theirs names what was parsed.
    return re.sub(r"(error processing query: )?(ns=\S*Tree: .*?(?=planner))?", "", own, flags=re.DOTALL)


def same(servers, command):
    actual, expected = (text(server.run(DATABASE, command)) for server in servers)
    assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


def meta(part, **others):
    return dict(projection={"k": {"$meta": part}, **others})


A, AB, ARR, ID = dict(hint={"a": 1}), dict(hint={"a": 1, "b": -1}), dict(hint={"arr": 1}), dict(hint={"_id": 1})

FINDS = {
    "record_id": [dict(), dict(projection={"a": 1}), dict(projection={"_id": 0, "a": 1}), dict(filter={"a": 1}), dict(projection={"_id": 0, "a": 1}, filter={"a": {"$gte": 0}}, **A), dict(sort={"b": 1}), dict(filter={"_id": 3}),
                  dict(filter={"_id": 77}), dict(returnKey=True), dict(projection={"x": {"$add": [1, "$a"]}}, limit=1), dict(sort={"$natural": -1}, limit=2), dict(skip=2), dict(tailable=True, batchSize=3),
                  dict(filter={"$or": [{"a": 1}, {"b": -8}]}), meta("recordId")],
    "record_id_asked_for": [meta("recordId"), meta("recordId", _id=1), meta("recordId", a=0), dict(projection={"x": {"$add": [{"$meta": "recordId"}, 100]}}), dict(sort={"r": {"$meta": "recordId"}}),
                            dict(**meta("recordId"), sort={"b": 1})],
    "index_key": [meta("indexKey"), dict(**meta("indexKey"), **A), dict(**meta("indexKey", _id=1), filter={"a": 1}, **A), dict(sort={"r": {"$meta": "indexKey"}}), dict(**meta("indexKey"), sort={"_id": -1})],
    "other_metadata": [meta("randVal"), meta("searchScore"), meta("searchHighlights"), meta("nope"), meta("textScore"), meta(5), dict(sort={"r": {"$meta": "randVal"}}, projection={"_id": 1}),
                       dict(sort={"r": {"$meta": "randVal"}, "b": 1}), dict(sort={"r": {"$meta": "searchScore"}}), dict(sort={"r": {"$meta": "sortKey"}})],
    "return_key": [dict(), A, dict(filter={"a": 1}, **A), AB, dict(filter={"arr": 5}), dict(filter={"_id": 3}), dict(sort={"s": 1}), dict(projection={"a": 1}), dict(projection={"b": 1}, **A),
                   dict(limit=1, skip=1, **A), dict(sort={"a": 1, "s": 1}, hint={"$natural": 1}), dict(hint={"a": "hashed"}), dict(filter={"b": {"$lt": -2}}, **A), dict(projection={"_id": 0}, **ARR),
                   dict(hint={"s.x": 1}), dict(hint={"s.x": 1}, filter={"s.x": {"$gt": 2}}), dict(filter={"arr": {"$gte": 3}}, **ARR), dict(filter={"arr": {"$gte": 3}}, sort={"b": 1}, **ARR),
                   dict(sort={"_id": -1}, limit=2), dict(sort={"_id": -1}, hint={"$natural": 1}, limit=2), dict(hint={"h": 1}), dict(projection={"s": {"$meta": "textScore"}}), dict(tailable=True),
                   dict(filter={"a": {"$in": [1, 3]}}, sort={"b": 1}, **AB), dict(filter={"nope": 1}), dict(filter={"arr": {"$elemMatch": {"$gt": 2, "$lt": 5}}}, **ARR)],
    "min": [dict(min={"a": 1}), dict(min={"a": 1}, **A), dict(min={"a": 1}, hint="a_1"), dict(min={"a": 1}, hint="nope"), dict(min={"a": 1}, hint={"$natural": 1}), dict(min={}, **A), dict(min={}),
            dict(min={"a": 1, "b": -1}, **AB), dict(min={"a": 1}, **AB), dict(min={"b": 1}, **A), dict(min={"a": 1, "c": 1}, **A), dict(min={"b": 1, "a": 1}, **AB), dict(min={"_id": 3}, **ID),
            dict(min={"a": "x"}, **A), dict(min={"a": None}, **A), dict(min={"a": {"$gt": 1}}, **A), dict(min={"arr": 3}, **ARR), dict(min={"a": 1}, hint={"a": "hashed"}), dict(min={"h": 1}, hint={"h": 1}),
            dict(min={"p": None}, hint={"p": 1}), dict(min="x", **A), dict(min={"a.b": 1}, **A), dict(min={"$a": 1}, **A), dict(min={"a": 3}, hint={"a": -1}), dict(min={"s.x": 2}, hint={"s.x": 1}),
            dict(min={"a": float("nan")}, **A), dict(min={"a": [1]}, **A), dict(min={"t": None, "a": 2}, hint={"t": 1, "a": -1})],
    "last_values": [dict(min={"e": 2}, hint={"e": 1}), dict(min={"e": 2}, hint={"e": -1}), dict(max={"e": 2}, hint={"e": 1}), dict(max={"e": 2}, hint={"e": -1}), dict(min={"e": MaxKey()}, hint={"e": 1}),
                    dict(min={"e": MinKey()}, hint={"e": 1}), dict(max={"e": MaxKey()}, hint={"e": 1}), dict(min={"e": 2}, max={"e": MaxKey()}, hint={"e": 1})],
    "sorted_arrays": [dict(sort={"arr": -1}, returnKey=True, **ARR), dict(sort={"arr": 1}, returnKey=True, **ARR)],
    "collated_bounds": [dict(min={"a": value}, collation={"locale": "en"}, **A) for value in (1, {"b": 2}, [1], None, MinKey(), "x")],
    "max": [dict(max={"a": 2}, **A), dict(max={"_id": 5}, **ID), dict(max={"a": 2, "b": -2}, **AB), dict(max={"a": 1}), dict(max={"arr": 3}, **ARR), dict(max={"a": 1}, hint={"a": -1})],
    "both": [dict(min={"a": 1}, max={"a": 3}, **A), dict(min={"a": 3}, max={"a": 1}, **A), dict(min={"a": 1}, max={"a": 1}, **A), dict(min={"a": 1}, max={"b": 1}, **A), dict(min={"a": 1}, max={}, **A),
             dict(min={"a": 3}, max={"a": 1}, hint={"a": -1}), dict(min={"a": 1}, max={"a": 3}, hint={"a": -1}), dict(min={"a": 2.0}, max={"a": Int64(3)}, **A), dict(min={"arr": 3}, max={"arr": 6}, **ARR),
             dict(min={"a": 1, "b": 1}, max={"a": 1}, **AB), dict(min={"a": 1, "b": 1}, max={"b": 1, "a": 3}, **AB), dict(min={"_id": 3}, max={"_id": 8}, sort={"_id": -1}, hint="_id_"),
             dict(min={"a": 1, "b": -1}, max={"a": 1, "b": -5}, **AB), dict(min={"a": 1, "b": -5}, max={"a": 1, "b": -1}, **AB), dict(min={"_id": 8}, max={"_id": 3}, **ID)],
    "bounds_and_more": [dict(min={"a": 1}, filter={"b": {"$lt": -2}}, **A), dict(min={"a": 1}, sort={"a": -1}, **A), dict(min={"a": 1}, sort={"b": 1}, **A), dict(min={"a": 1}, filter={"a": 1}, **A),
                        dict(min={"a": 1}, projection={"_id": 0, "a": 1}, **A), dict(min={"a": 1}, limit=2, skip=1, **A), dict(min={"a": 1}, returnKey=True, **A), dict(min={"arr": 3}, returnKey=True, **ARR),
                        dict(min={"a": 1}, filter={"$or": [{"a": 1}, {"b": -5}]}, **A), dict(min={"a": 1}, collation={"locale": "fr"}, **A), dict(min={"a": "x"}, collation={"locale": "fr"}, **A),
                        dict(min={"a": 1}, max={"a": 3}, sort={"b": 1}, limit=1, **A), dict(min={"a": 1}, tailable=True, batchSize=2, **A)],
}


@pytest.mark.parametrize("name", FINDS)
def test_find(servers, name):
    own = {"record_id": dict(showRecordId=True), "return_key": dict(returnKey=True)}.get(name, {})
    for find in FINDS[name]:
        same(servers, {"find": "c", **own, **find})


OTHERS = {
    "nowhere": [{"find": "nope", "min": {"a": 1}}, {"find": "nope", "min": {"a": 1}, **A}, {"find": "nope", "returnKey": True}, {"find": "nope", "showRecordId": True}],
    "views": [{"find": "v", "min": {"a": 1}}, {"find": "v", "returnKey": True}, {"find": "v", "showRecordId": True}, {"find": "v", "max": {"a": 1}, **A}],
    "other_commands": [{"count": "c", "min": {"a": 1}}, {"distinct": "c", "key": "a", "min": {"a": 1}}, {"update": "c", "updates": [{"q": {}, "u": {"$set": {"z": 1}}, "min": {"a": 1}}]}],
    "plain": [{"find": "plain", "returnKey": True, "sort": {"_id": 1}}, {"find": "plain", "returnKey": True, "filter": {"_id": {"$gt": 3}}}, {"find": "plain", "min": {"_id": 3}, "max": {"_id": 8}, **ID},
              {"find": "plain", "min": {"_id": 3}, **ID, "sort": {"_id": -1}}, {"find": "plain", "max": {"_id": 3}, **ID}, {"find": "plain", "min": {"_id": 8}, "max": {"_id": 3}, **ID}],
    "collations": [{"find": "texts", "min": {"t": "b"}, "hint": "t_1"}, {"find": "texts", "min": {"t": "b"}, "hint": "t_1", "collation": {"locale": "en"}},
                   {"find": "texts", "max": {"t": "b"}, "hint": "t_1", "collation": {"locale": "en"}}, {"find": "texts", "min": {"t": 5}, "hint": "t_1"}],
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(servers, name):
    for command in OTHERS[name]:
        same(servers, command)


def test_record_ids_of_plain_collections(servers):
    """They are what documents lie under, as in a clustered collection of mongod: each its own."""
    found = list(servers[0].client[DATABASE]["plain"].find({}, show_record_id=True))
    ids = [document["$recordId"] for document in found]
    assert len(set(ids)) == len(DOCUMENTS) and all(isinstance(one, bytes) for one in ids)
    asked = servers[0].client[DATABASE]["plain"].find({}, {"r": {"$meta": "recordId"}})
    assert [document["r"] for document in asked] == ids


@pytest.mark.parametrize("find", [dict(returnKey=True, filter={"g": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [5, 5]}}}}), dict(min={"g": 1}, hint={"g": "2dsphere"}),
                                  dict(min={"a": 1}, filter={"g": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}}, **A)])
def test_refused_by_name(servers, find):
    server = servers[0]
    wide = {"type": "Polygon", "coordinates": [[[0, 0], [20, 0], [20, 20], [0, 20], [0, 0]]]}
    server.client[DATABASE]["c"].update_one({"_id": 1}, {"$set": {"g": wide}})
    reply = dict(server.run(DATABASE, {"find": "c", **find}))
    server.client[DATABASE]["c"].update_one({"_id": 1}, {"$unset": {"g": 1}})
    assert "not implemented by Meridian" in reply["errmsg"]


WITHIN = {"$geoWithin": {"$centerSphere": [[10, 10], 0.5]}}


@pytest.mark.parametrize("asked", [{"returnKey": True}, meta("indexKey"), meta("indexKey", _id=1)], ids=str)
@pytest.mark.parametrize("condition", [{"g": WITHIN}, {"g": WITHIN, "a": 2}, {"a": {"$in": [1, 3]}, "g": WITHIN}, {"g": WITHIN, "b": {"$gt": 30}}], ids=str)
def test_keys_of_places(servers, asked, condition):
    """A place is one cell of the sphere, the same as mongod's."""
    for server in servers:
        places = server.client[DATABASE]["places"]
        places.drop()
        places.create_index([("a", 1), ("g", "2dsphere"), ("b", -1)] if "a" in condition else [("g", "2dsphere")])
        points = [{"type": "Point", "coordinates": [number * 37 % 50 - 7.25, number * 11 % 40 - 3.5]} for number in range(60)]
        places.insert_many({"_id": number, "a": number % 5, "b": number, "g": point if number % 4 else point["coordinates"]} for number, point in enumerate(points))
    command = {"find": "places", "filter": condition, "batchSize": 100, **asked}
    ours, theirs = (sorted(map(canonical.text, dict(dict(server.run(DATABASE, command))["cursor"])["firstBatch"])) for server in servers)
    assert ours == theirs and len(ours) > 2


PARTS = ["indexKey", "sortKey", "randVal", "searchScore", "searchHighlights", "searchScoreDetails", "timeseriesBucketMinTime", "textScore", "geoNearDistance", "nope", 5]
# With an index, and the order of its entries: the planner has no choice.
FROM_A = [{"$match": {"a": {"$gte": 1}}}, {"$sort": {"a": 1, "b": -1}}]


def pipelines(part):
    own = {"$meta": part}
    is_missing = {"$match": {"$expr": {"$eq": [{"$type": own}, "missing"]}}}
    show = {"$project": {"k": own}}
    return [
        [*FROM_A, show], [*FROM_A, {"$set": {"k": own}}], [*FROM_A, {"$unwind": "$arr"}, show], [*FROM_A, {"$group": {"_id": own, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
        [*FROM_A, {"$group": {"_id": "$a", "k": {"$push": own}}}, {"$sort": {"_id": 1}}], [*FROM_A, {"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}, show],
        [*FROM_A, {"$unwind": "$arr"}, {"$sort": {"arr": -1, "_id": 1}}, show], [*FROM_A, {"$project": {"b": 1}}, {"$sort": {"b": 1}}, show], [*FROM_A, {"$limit": 2}, show],
        [*FROM_A, {"$replaceWith": {"k": own}}], [*FROM_A, {"$set": {"a": {"$ifNull": ["$nope", {"k": own}]}}}], [*FROM_A, {"$redact": {"$cond": [own, "$$KEEP", "$$PRUNE"]}}, {"$count": "n"}],
        [*FROM_A, {"$facet": {"x": [show]}}], [*FROM_A, {"$bucketAuto": {"groupBy": own, "buckets": 1}}], [*FROM_A, {"$count": "n"}, {"$set": {"k": own}}],
        [*FROM_A, {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": {"$documentNumber": {}}}}}, show], [*FROM_A, {"$densify": {"field": "_id", "range": {"step": 1, "bounds": "full"}}}, show],
        [] if part in ("textScore", "geoNearDistance") else [*FROM_A, {"$lookup": {"from": "plain", "pipeline": [{"$match": {"_id": {"$gt": 7}}}, {"$set": {"k": own}}, {"$project": {"k": 1}}], "as": "o"}}, {"$project": {"o": 1}}],
        [{"$match": {"_id": 3}}, {"$set": {"k": own}}], [{"$match": {"nope": 1}}, {"$set": {"k": own}}], [{"$match": {"b": -8}}, {"$set": {"k": own}}], [{"$sort": {"arr": 1, "_id": 1}}, {"$set": {"k": own}}],
        [{"$match": {"b": -8}}, show], [is_missing, {"$count": "n"}], [*FROM_A, is_missing], [{"$match": {"b": -8}}, {"$group": {"_id": "$a"}}, is_missing], [{"$match": {"b": -8}}, {"$facet": {"x": [is_missing]}}],
        [{"$sample": {"size": 1}}, {"$project": {"_id": 0, "k": {"$type": own}}}] if part != "sortKey" else [], [{"$match": {"b": -8}}, {"$sort": {"x": own}}] if part != "randVal" else [],
    ]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_pipelines(servers, part):
    for pipeline in pipelines(part):
        same(servers, {"aggregate": "c", "pipeline": pipeline, "cursor": {}})
    same(servers, {"aggregate": 1, "pipeline": [{"$documents": [{"x": 1}]}, {"$project": {"k": {"$meta": part}}}], "cursor": {}})
    same(servers, {"update": "c", "updates": [{"q": {"_id": 3}, "u": [{"$set": {"z": {"$meta": part}}}]}]})
    same(servers, {"find": "c", "filter": {"$expr": {"$gt": [{"$meta": part}, 0]}}})
    same(servers, {"aggregate": "v", "pipeline": [*FROM_A, {"$set": {"k": {"$meta": part}}}], "cursor": {}})


def test_record_ids_in_pipelines(servers):
    """Where a `$project` comes right behind the plan they are mongod's; elsewhere mongod has lost them."""
    for pipeline in ([{"$match": {"b": -8}}, {"$project": {"r": {"$meta": "recordId"}}}], [{"$match": {"a": 1}}, {"$project": {"r": {"$meta": "recordId"}, "a": 1}}]):
        same(servers, {"aggregate": "c", "pipeline": pipeline, "cursor": {}})
    collection = servers[0].client[DATABASE]["c"]
    ids = {one["_id"]: one["$recordId"] for one in collection.find({}, show_record_id=True)}
    behind = [{"$unwind": "$arr"}, {"$sort": {"arr": -1}}, {"$group": {"_id": "$_id", "r": {"$first": {"$meta": "recordId"}}}}]
    assert {one["_id"]: one["r"] for one in collection.aggregate(behind)} == {key: ids[key] for key in (5, 3, 8, 1, 2)}


def test_what_is_known_is_spilled_with_documents(servers):
    """Sorted on disk, documents know what they knew in memory."""
    collection = servers[0].client[DATABASE]["large"]
    collection.insert_many([{"_id": i, "a": i % 7, "s": "x" * 100_000} for i in range(1500)])
    collection.create_index("a")
    stages = [{"$match": {"a": {"$gte": 2}}}, {"$sort": {"a": 1}}, {"$set": {"n": {"$mod": [{"$multiply": ["$_id", 7919]}, 10007]}}}, {"$sort": {"n": 1}},
              {"$project": {"index": {"$meta": "indexKey"}, "sort": {"$meta": "sortKey"}, "record": {"$meta": "recordId"}, "a": 1}}]
    found = list(collection.aggregate(stages, allowDiskUse=True))
    assert len(found) == sum(i % 7 >= 2 for i in range(1500))
    assert all(one["index"] == {"a": one["a"]} and one["sort"] == [one["a"]] for one in found)
    assert len({one["record"] for one in found}) == len(found)
    collection.drop()
