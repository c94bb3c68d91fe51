"""Views: reads through them, on one another and in joins; their definitions and what they refuse; kills and restarts."""

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import cases
from harness.servers import Meridian
from pymongo.errors import OperationFailure

DOCUMENTS = [{"_id": n, "a": n, "b": {"c": n % 2}, "arr": [n, n + 1], "p": [n, n]} for n in range(6)]
LOW = [{"$match": {"a": {"$gt": 1}}}]
VIEWS = {
    "v": ("c", LOW),
    "vv": ("v", [{"$project": {"a": 1}}]),
    "plain": ("c", []),
    "none": ("nowhere", [{"$match": {"a": 1}}]),
    "joined": ("c", [{"$lookup": {"from": "vv", "localField": "a", "foreignField": "a", "as": "q"}}, {"$unwind": "$q"}]),
    "grouped": ("c", [{"$group": {"_id": "$b.c", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]),
    "latest": ("c", [{"$sort": {"a": -1}}, {"$limit": 2}]),
}


def aggregate(name, *pipeline, **options):
    return {"aggregate": name, "pipeline": list(pipeline), "cursor": {}, **options}


# fmt: off
READS = [
    *({"find": name} for name in VIEWS), *({"count": name} for name in VIEWS), *(aggregate(name) for name in VIEWS),
    *({"find": "vv", **options} for options in (
        {"filter": {"a": 2}, "sort": {"a": 1}, "limit": 2, "projection": {"_id": 0}}, {"singleBatch": True}, {"singleBatch": True, "limit": 1}, {"singleBatch": True, "limit": 1.0, "sort": {"a": -1}}, {"singleBatch": True, "limit": 2}, {"limit": -1},
        {"projection": {"a": {"$slice": 1}}}, {"projection": {"a.$": 1}}, {"filter": {"a": 2}, "projection": {"a.$": 1}}, {"projection": {"a": 1, "b": 0}},
        {"projection": {"x": {"$add": ["$a", 1]}}}, {"projection": {"a.b": 1, "a": 1}}, {"projection": {"a": "$$ROOT"}}, {"projection": {"": 1}}, {"projection": {"_id": 0}},
        {"sort": {"$natural": 1}}, {"sort": {"$natural": -1}}, {"sort": {"$natural": -1}, "filter": {"a": {"$gt": 2}}}, {"sort": {"$natural": 1, "a": 1}},
        {"hint": {"$natural": 1}}, {"hint": {"$natural": -1}}, {"hint": "_id_"}, {"hint": "nope"}, {"min": {"a": 1}, "hint": {"a": 1}}, {"max": {"a": 1}, "hint": {"a": 1}},
        {"returnKey": True}, {"showRecordId": True}, {"tailable": True}, {"awaitData": True}, {"noCursorTimeout": True}, {"allowPartialResults": True}, {"readOnce": True},
        {"allowDiskUse": False}, {"let": {"q": 2}, "filter": {"$expr": {"$eq": ["$a", "$$q"]}}}, {"let": {"q": "$a"}}, {"filter": {"a": {"$near": [1, 1]}}}, {"filter": {"$bad": 1}},
        {"sort": {"a": "x"}}, {"sort": {"a": -1}, "skip": 1, "limit": 2}, {"skip": 9}, {"comment": "x"}, {"maxTimeMS": 10000})),
    *({"count": "vv", **options} for options in ({"query": {"a": {"$gte": 2}}, "skip": 1, "limit": 1}, {"limit": -1}, {"hint": "_id_"}, {"query": {"$bad": 1}}, {"skip": 3}, {"skip": -3}, {"query": {"a": {"$near": [0, 0]}}})),
    *({"distinct": name, "key": key} for name in ("v", "none", "joined", "grouped") for key in ("a", "b.c", "arr", "arr.0", "q.a", "n", "", "$a", "a..b", "a.")),
    {"distinct": "v", "key": "arr", "query": {"a": 2}}, {"distinct": "vv", "key": "a", "query": {"$bad": 1}},
    *(aggregate("v", *stages) for stages in (
        [{"$count": "n"}], [{"$match": {"a": 2}}], [{"$indexStats": {}}], [{"$collStats": {"count": {}}}], [{"$geoNear": {"near": [1, 1], "distanceField": "d", "key": "p"}}],
        [{"$facet": {"n": [{"$count": "n"}], "a": [{"$match": {"a": 3}}]}}], [{"$group": {"_id": None, "n": {"$sum": 1}}}], [{"$sort": {"a": -1}}, {"$limit": 1}], [{"$project": {"x": "$$none"}}])),
    aggregate("v", {"$match": {"a": 2}}, hint="_id_"), aggregate("latest", {"$sort": {"a": 1}}), aggregate("latest", {"$match": {"a": 4}}),
    aggregate("v", {"$match": {"$expr": {"$eq": ["$a", "$$q"]}}}, let={"q": 3}),
    *(aggregate("c", {"$match": {"a": 2}}, {"$lookup": {"from": name, "localField": "a", "foreignField": "a", "as": "x"}}) for name in VIEWS),
    *(aggregate("c", {"$match": {"a": 2}}, {"$unionWith": name}) for name in VIEWS),
    *(aggregate("c", {"$match": {"a": 2}}, {"$unionWith": {"coll": name, "pipeline": [{"$count": "n"}]}}) for name in VIEWS),
    *(aggregate("c", {"$match": {"a": 2}}, {"$graphLookup": {"from": name, "startWith": "$a", "connectFromField": "a", "connectToField": "a", "as": "x"}}) for name in VIEWS),
    aggregate("v", {"$lookup": {"from": "joined", "let": {"z": "$a"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$$z", "$a"]}}}, {"$project": {"a": 1}}], "as": "x"}}),
    aggregate("c", {"$lookup": {"from": "v", "pipeline": [{"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "p"}}], "as": "x"}}),
    aggregate("c", {"$out": "v"}), aggregate("c", {"$merge": "v"}),
    {"insert": "v", "documents": [{"a": 1}, {"a": 2}]}, {"insert": "v", "documents": [{"a": 1}, {"a": 2}], "ordered": False},
    {"update": "v", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}, {"q": {}, "u": {"$set": {"a": 1}}}], "ordered": False},
    {"delete": "v", "deletes": [{"q": {}, "limit": 0}, {"q": {}, "limit": 1}]},
    {"findAndModify": "v", "query": {}, "remove": True}, {"findAndModify": "v", "query": {}, "update": {"a": 1}, "upsert": True}, {"findAndModify": "v", "query": {"$bad": 1}, "update": {"a": 1}},
    {"createIndexes": "v", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}, {"dropIndexes": "v", "index": "*"}, {"listIndexes": "v"}, {"collStats": "v"}, {"dataSize": "views.v"}, {"validate": "v"},
    {"insert": "system.views", "documents": [{"_id": "views.x", "viewOn": "c", "pipeline": []}]}, {"delete": "system.views", "deletes": [{"q": {}, "limit": 0}]},
    {"explain": {"update": "v", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}}, {"explain": {"delete": "v", "deletes": [{"q": {}, "limit": 0}]}}, {"explain": {"findAndModify": "v", "query": {}, "remove": True}},
    {"explain": {"find": "v", "singleBatch": True}},
    {"find": "system.views", "sort": {"_id": 1}}, {"listCollections": 1, "filter": {"name": {"$ne": "c"}}}, {"listCollections": 1, "nameOnly": True, "filter": {"type": "view"}},
    {"create": "v"}, {"create": "v", "viewOn": "c"}, {"create": "c", "viewOn": "v"},
    ("admin", {"renameCollection": "views.v", "to": "views.w"}), ("admin", {"renameCollection": "views.c", "to": "views.v"}), ("admin", {"renameCollection": "views.c", "to": "views.v", "dropTarget": True}),
    ("admin", {"renameCollection": "views.system.views", "to": "views.w"}), ("admin", {"renameCollection": "views.c", "to": "views.system.views"}),
]

PIPELINES = [
    [{"$foo": 1}], [{"$out": "x"}], [{"$merge": "x"}], [{"$limit": 1}, {"$out": "x"}], [{"$documents": []}], [{"$project": {"a": "$$foo"}}], [{"$indexStats": {}}], [{"$collStats": {"count": {}}}],
    [{"$sample": {"size": 1}}], [{"$facet": {"a": [{"$out": "x"}]}}], [{"$lookup": {"from": "c", "as": "x", "pipeline": [{"$out": "x"}]}}], [{"$unionWith": {"pipeline": [{"$documents": []}]}}],
    [{"$geoNear": {"near": [0, 0], "distanceField": "d"}}], [{"$limit": 1}] * 1000, [{"$limit": 1}] * 1001, [{"$set": {"t": "$$NOW"}}], [{"$a": 1, "$b": 2}], [{}], [1], {}, None, [{"$match": {"$bad": 1}}],
]
DEFINITIONS = [
    *({"create": f"p{number}", "viewOn": "c", "pipeline": pipeline} for number, pipeline in enumerate(PIPELINES)),
    {"create": "x", "pipeline": []}, {"create": "x", "viewOn": ""}, {"create": "x", "viewOn": 1}, {"create": "x", "viewOn": "a$b"}, {"create": "x", "viewOn": ".ab"}, {"create": "a$b", "viewOn": "c"},
    {"create": "x1", "viewOn": "c.d"}, {"create": "x2", "viewOn": "system.views"}, {"create": "x3", "viewOn": "n" * 200}, {"create": "n" * 250, "viewOn": "c"}, {"create": "system.views", "viewOn": "c"}, {"create": "system.views2", "viewOn": "c"},
    {"create": "y", "viewOn": "c", "foo": 1}, {"create": "y", "viewOn": "c", "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, {"create": "y", "viewOn": "c", "clusteredIndex": {"key": {"_id": 1}, "unique": True}},
    {"create": "y", "viewOn": "c", "timeseries": {"timeField": "t"}}, {"create": "y", "viewOn": "c", "expireAfterSeconds": 10}, {"create": "y1", "viewOn": "c", "validator": {"a": 1}}, {"create": "y2", "viewOn": "c", "capped": False},
    # cycles
    {"create": "self", "viewOn": "self"}, {"create": "cycle1", "viewOn": "cycle2"}, {"create": "cycle2", "viewOn": "cycle1"}, {"create": "cycle2", "viewOn": "c", "pipeline": [{"$unionWith": "cycle1"}]},
    {"create": "cycle3", "viewOn": "c", "pipeline": [{"$lookup": {"from": "cycle1", "as": "x", "pipeline": [{"$unionWith": "cycle3"}]}}]}, {"create": "cycle3", "viewOn": "c", "pipeline": [{"$facet": {"a": [{"$unionWith": "cycle3"}]}}]},
    {"create": "graph", "viewOn": "c", "pipeline": [{"$graphLookup": {"from": "graph", "startWith": "$a", "connectFromField": "a", "connectToField": "a", "as": "x"}}]},
    # depth
    *({"create": f"d{level}", "viewOn": f"d{level - 1}" if level else "c", "pipeline": LOW} for level in range(22)),
    {"find": "d18", "limit": 1}, {"find": "d19", "limit": 1}, {"find": "d20", "limit": 1}, {"find": "c", "limit": 1}, {"collMod": "d0", "viewOn": "cycle1"},
    # size
    *({"create": f"s{level}", "viewOn": f"s{level - 1}" if level else "c", "pipeline": [{"$match": {"x": "y" * 5_000_000}}]} for level in range(4)), {"find": "s2"},
    # changes
    {"create": "m", "viewOn": "c", "pipeline": LOW}, {"collMod": "m"}, {"collMod": "m", "viewOn": "d"}, {"find": "system.views", "filter": {"_id": "views2.m"}}, {"collMod": "m", "pipeline": [{"$limit": 1}]},
    {"find": "system.views", "filter": {"_id": "views2.m"}}, {"collMod": "m", "viewOn": "c", "pipeline": []}, {"find": "m"}, {"collMod": "m", "viewOn": 1}, {"collMod": "m", "pipeline": 1}, {"collMod": "m", "pipeline": None},
    {"collMod": "m", "viewOn": ""}, {"collMod": "m", "viewOn": "a$b"}, {"collMod": "m", "pipeline": [{"$out": "x"}]}, {"collMod": "m", "pipeline": [{"$foo": 1}]}, {"collMod": "m", "validator": {}}, {"collMod": "m", "expireAfterSeconds": 1},
    {"collMod": "m", "dryRun": True}, {"collMod": "m", "validationLevel": "off"}, {"collMod": "m", "index": {"name": "x", "hidden": True}}, {"collMod": "m", "foo": 1}, {"collMod": "m", "viewOn": "m"},
    {"collMod": "c", "viewOn": "x"}, {"collMod": "c", "pipeline": []}, {"collMod": "nope", "viewOn": "x"}, {"find": "m"},
    # the end
    {"drop": "m"}, {"drop": "m"}, {"find": "m"}, {"create": "m"}, {"create": "m", "viewOn": "c"}, {"create": "system.views"}, {"drop": "system.views"}, {"listCollections": 1, "nameOnly": True}, {"find": "d0"},
    {"create": "v", "viewOn": "c"}, {"dropDatabase": 1}, {"listCollections": 1}, {"create": "v", "viewOn": "c"}, {"find": "v"},
]
# fmt: on


def name_of(command):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(command))[:100]


@pytest.fixture(scope="module")
def views(_subject, _oracle):
    for server in (_subject, _oracle):
        database = server.client["views"]
        server.client.drop_database("views")
        database["c"].insert_many(DOCUMENTS)
        database["c"].create_index("a")
        for name, (view_on, pipeline) in VIEWS.items():
            database.command("create", name, viewOn=view_on, pipeline=pipeline)
    return _subject, _oracle


def compare(servers, command, database):
    # mongod answers counts and distinct values of views with an integer of 1.
    ignore = ("ok",) if {"count", "distinct"} & set(command if isinstance(command, dict) else ()) else ()
    sets = ("cursor.firstBatch", "values") if {"listCollections", "distinct"} & set(command if isinstance(command, dict) else ()) else ()
    case = cases.Case(name="views", commands=[], database=database, ordered=True, ignore=ignore, sets=sets)
    cases.compare_command(*servers, case, command)


@pytest.mark.parametrize("command", READS, ids=name_of)
def test_statement_on_a_view(views, command):
    compare(views, command, "views")


def test_definitions(_subject, _oracle):
    for server in (_subject, _oracle):
        server.client.drop_database("views2")
        server.client["views2"]["c"].insert_many(DOCUMENTS)
    for command in DEFINITIONS:
        try:
            compare((_subject, _oracle), command, "views2")
        except cases.Mismatch as mismatch:
            raise cases.Mismatch(f"{str(command)[:300]}: {mismatch}") from None


@pytest.mark.parametrize("inner, outer", [(1, 18), (1, 19), (1, 20), (10, 9), (10, 10), (10, 11), (19, 19), (20, 20)])
def test_pipelines_of_views_are_nested_only_so_deep_together(views, inner, outer):
    answers = []
    for server in views:
        database = server.client["views"]
        for name, depth, below in (("inner", inner, "c"), ("outer", outer, "inner")):
            database[name].drop()
            database.command("create", name, viewOn="c", pipeline=[{"$limit": 1}, nested(depth, below)])
        try:
            answers.append(list(database["outer"].find()))
        except OperationFailure as failure:
            answers.append(failure.code)
        database["inner"].drop()
        database["outer"].drop()
    assert answers[0] == answers[1]


def nested(depth, below):
    stage = {"$lookup": {"from": below, "pipeline": [{"$limit": 1}], "as": "x"}}
    for _ in range(depth - 1):
        stage = {"$lookup": {"from": "c", "pipeline": [{"$limit": 1}, stage], "as": "x"}}
    return stage


def test_views_survive_a_kill_and_use_indexes(tmp_path):
    with Meridian(tmp_path) as server:
        database = server.client["views"]
        database["c"].insert_many(DOCUMENTS)
        database["c"].create_index("a")
        for name, (view_on, pipeline) in VIEWS.items():
            database.command("create", name, viewOn=view_on, pipeline=pipeline)
        database.command("collMod", "plain", viewOn="v")
        database["latest"].drop()
        expected = list(database["vv"].find())
        server.kill()
        server.start()
        server.disconnect()
        database = server.client["views"]
        assert list(database["vv"].find()) == expected
        assert [one["a"] for one in database["plain"].find()] == [2, 3, 4, 5]
        assert "latest" not in database.list_collection_names()
        plan = database.command("explain", {"find": "v", "filter": {"a": 3}}, verbosity="queryPlanner")
        assert "IXSCAN" in str(plan) and "COLLSCAN" not in str(plan)
        plan = database.command("explain", {"count": "v"}, verbosity="executionStats")
        assert "COLLSCAN" not in str(plan)


def test_a_name_is_a_view_or_a_collection_whoever_is_first(tmp_path):
    """Clients make views, collections and cycles of the same names, and change and drop them; then the server is killed."""
    names = [f"n{number}" for number in range(12)]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")

    def work(client, number):
        own, database = random.Random(seed + number), client["raced"]
        for _ in range(150):
            name, other = own.sample(names, 2)
            action = own.choice(["insert", "create", "collMod", "drop", "drop", "rename", "find", "clear"])
            try:
                if action == "insert":
                    database[name].insert_one({"by": number})
                elif action == "drop":
                    database.command("drop", name)
                elif action == "rename":
                    client.admin.command("renameCollection", f"raced.{name}", to=f"raced.{other}")
                elif action == "find":
                    list(database[name].find())
                elif action == "clear" and number == 0 and own.random() < 0.1:
                    database.command("drop", "system.views")
                elif action in ("create", "collMod"):
                    database.command(action, name, viewOn=other, pipeline=[{"$unionWith": own.choice(names)}])
            except OperationFailure as failure:
                # In the way of another, in a circle, too deep, or gone meanwhile; never an inner error.
                assert failure.code in (5, 26, 48, 72, 165, 166, 175, 20, 50, 10107) or "was renamed or dropped" in str(failure), failure

    with Meridian(tmp_path) as server:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda number: work(server.connect(), number), range(6)))
        listed = check_names(server.client["raced"], names)
        server.kill()
        server.disconnect()
        server.start()
        assert check_names(server.client["raced"], names) == listed
        for name in listed:
            list(server.client["raced"][name].find())


def check_names(database, names):
    listed = {one["name"]: one for one in database.list_collections()}
    assert len(listed) == len(list(database.list_collections()))
    views = {name for name, one in listed.items() if one["type"] == "view"}
    assert views <= set(names)
    stored = {one["_id"].removeprefix("raced."): one for one in database["system.views"].find()}
    assert set(stored) == views
    for name in views:
        assert listed[name]["options"] == {key: stored[name][key] for key in ("viewOn", "pipeline")}
    return listed
