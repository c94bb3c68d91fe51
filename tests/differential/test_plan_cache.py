"""Index filters (planCacheSetFilter and its like), and $planCacheStats: beside mongod."""

import re

import pytest
from bson import SON
from harness import cases

COMMANDS = ["planCacheClear", "planCacheListFilters", "planCacheClearFilters", "planCacheSetFilter"]
FIELDS = [
    {}, {"foo": 1}, {"query": 1}, {"query": {"a": 1}}, {"sort": {"a": 1}}, {"projection": {"a": 1}}, {"collation": {"locale": "fr"}}, {"query": {"$foo": 1}},
    {"query": {"a": 1}, "collation": 1}, {"query": {"a": 1}, "sort": 1}, {"query": {"a": 1}, "projection": 1}, {"query": {"a": 1}, "collation": {"locale": "xx"}},
    {"query": {"a": 1}, "sort": {"a": 2}}, {"query": {"a": 1}, "projection": {"a": {"$foo": 1}}}, {"query": {}}, {"query": {"a": 1}, "comment": "x"}, {"query": {"a": 1}, "collation": {}},
]  # fmt: skip
INDEXES = [[], 1, ["x"], [1], [{}], [{"b": 1}], ["b_1", {"a": 1}], [""], [{"a": 1}, {"a": 1}], {"a": 1}, None, [None], ["a_1", {}]]
QUERIES = [
    {"a": 1}, {"a": "x"}, {"a": None}, {"a": {"$in": [1]}}, {"a": {"$in": [1, 2]}}, {"a": {"$gt": 1}}, {"a": {"$gt": 5, "$lt": 9}}, {"a": {"$lt": 9, "$gt": 5}}, {"a": 1, "b": 2}, {"b": 1, "a": 2},
    {"$and": [{"a": 1}, {"b": 2}]}, {"$or": [{"a": 1}, {"b": 2}]}, {"$or": [{"b": 1}, {"a": 2}]}, {"a": {"$ne": 1}}, {"a": {"$exists": True}}, {"a": {"$exists": False}},
    {"a": {"$elemMatch": {"$gt": 1}}}, {"c": 1}, {},
]  # fmt: skip


@pytest.fixture(scope="module")
def planned(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run("planned", {"dropDatabase": 1})
        server.run("planned", {"insert": "t", "documents": [{"_id": i, "a": i % 5, "b": i % 7, "c": i} for i in range(200)]})
        keys = [{"a": 1}, {"b": 1}, {"c": 1, "a": 1}]
        server.run("planned", {"createIndexes": "t", "indexes": [{"key": key, "name": "_".join(f"{name}_1" for name in key)} for key in keys]})
        server.run("planned", {"create": "v", "viewOn": "t", "pipeline": []})
        server.run("planned", {"create": "empty"})
    return _subject, _oracle


@pytest.fixture(autouse=True)
def without_filters(planned):
    yield
    for server in planned:
        server.run("planned", {"planCacheClearFilters": "t"})


def compare(planned, command, sets=()):
    case = cases.Case(name="planned", commands=[], database="planned", sets=sets)
    cases.compare_command(*planned, case, command)


def listed(planned):
    compare(planned, {"planCacheListFilters": "t"}, sets=("filters",))


def named(value):
    return re.sub(r"[^a-zA-Z0-9$]+", "_", str(value))[:80]


@pytest.mark.parametrize("name", COMMANDS)
def test_shape(planned, name):
    for collection in ("t", "nope", "v", 1, "", "system.x", None):
        compare(planned, {name: collection})
    for fields in FIELDS:
        compare(planned, {name: "t", **fields})
        if name == "planCacheSetFilter":
            compare(planned, {name: "t", **fields, "indexes": ["a_1"]})
            listed(planned)


@pytest.mark.parametrize("indexes", INDEXES, ids=named)
def test_indexes(planned, indexes):
    compare(planned, SON([("planCacheSetFilter", "t"), ("query", {"a": 1}), ("indexes", indexes)]))
    listed(planned)


def uses(server, statement):
    """Whether a filter has a say in a statement, and which indexes it may use: those of all plans that were weighed."""
    explained = server.client.planned.command("explain", statement, verbosity="queryPlanner")
    planner = explained.get("queryPlanner") or explained["stages"][0]["$cursor"]["queryPlanner"]
    names = re.findall(r"'indexName': '(\w+)'", str([planner["winningPlan"], planner["rejectedPlans"]]))
    return planner["indexFilterSet"], set(names)


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_filters_have_a_say_in_statements_of_their_shape(planned, query):
    subject, oracle = planned
    for indexes in (["a_1"], [{"b": 1}], ["nope"]):
        compare(planned, SON([("planCacheSetFilter", "t"), ("query", query), ("indexes", indexes)]))
        listed(planned)
        allowed = {"a_1"} if indexes == ["a_1"] else {"b_1"} if indexes == [{"b": 1}] else set()
        for other in QUERIES:
            statements = [
                {"find": "t", "filter": other}, {"find": "t", "filter": other, "hint": "c_1_a_1"}, {"find": "t", "filter": other, "limit": 3}, {"find": "t", "filter": other, "sort": {"c": 1}},
                {"find": "t", "filter": other, "projection": {"a": 1}}, {"count": "t", "query": other}, {"distinct": "t", "key": "d", "query": other},
                {"update": "t", "updates": [{"q": other, "u": {"$set": {"z": 1}}}]}, {"delete": "t", "deletes": [{"q": other, "limit": 1}]}, {"findAndModify": "t", "query": other, "remove": True},
                {"aggregate": "t", "pipeline": [{"$match": other}], "cursor": {}}, {"find": "t", "filter": other, "collation": {"locale": "fr"}},
            ]  # fmt: skip
            # (A count of all asks no plan.)
            for statement in statements[: 12 if other == query and query else 2]:
                expected, _ = uses(oracle, statement)
                found, names = uses(subject, statement)
                assert found == expected, statement
                assert not found or names <= allowed, (statement, names)
        find = {"find": "t", "filter": query, "sort": {"_id": 1}}
        compare(planned, find)


def test_filters_belong_to_order_projection_and_collation(planned):
    subject, oracle = planned
    parts = [{}, {"sort": {"b": 1}}, {"sort": {"b": -1}}, {"projection": {"a": 1}}, {"collation": {"locale": "fr"}}, {"sort": {"b": 1}, "projection": {"a": 1}}]
    for number, part in enumerate(parts):
        compare(planned, SON([("planCacheSetFilter", "t"), ("query", {"a": number}), *part.items(), ("indexes", ["b_1"])]))
        listed(planned)
        for other in parts:
            statement = {"find": "t", "filter": {"a": 3}, **other}
            assert uses(subject, statement)[0] == uses(oracle, statement)[0], statement
    compare(planned, {"planCacheClearFilters": "t", "query": {"a": 9}, "sort": {"b": 1}})
    listed(planned)
    compare(planned, {"planCacheClearFilters": "t", "query": {"z": 9}})
    listed(planned)


def test_filters_end_with_the_collection_and_outlive_indexes(planned):
    for server in planned:
        server.run("planned", {"insert": "gone", "documents": [{"_id": 1, "a": 1}]})
        server.run("planned", {"createIndexes": "gone", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    compare(planned, SON([("planCacheSetFilter", "gone"), ("query", {"a": 1}), ("indexes", ["a_1"])]))
    for change in ({"dropIndexes": "gone", "index": "a_1"}, {"insert": "gone", "documents": [{"_id": 2}]}, {"drop": "gone"}, {"insert": "gone", "documents": [{"_id": 2}]}):
        for server in planned:
            server.run("planned", change)
        compare(planned, {"planCacheListFilters": "gone"})


def test_filters_are_bounded_by_memory(planned):
    """What is too much is refused, and what was set before stays; ending filters gives their memory back."""
    database = planned[0].client.planned
    for _ in range(2):
        codes = []
        for number in range(60):
            query = {f"f{number}": "x" * 6_000_000}
            reply = database.command(SON([("planCacheSetFilter", "t"), ("query", query), ("indexes", ["a_1"])]), check=False)
            codes.append(reply.get("code"))
            if codes[-1]:
                break
        assert codes[-1] == 146 and len(codes) > 2
        assert uses(planned[0], {"find": "t", "filter": {"f1": 5}})[0]
        assert database.t.count_documents({"a": 1}) == 40
        assert database.command("planCacheClearFilters", "t")["ok"] == 1
    small = [database.command(SON([("planCacheSetFilter", "t"), ("query", {f"f{number}": 1}), ("indexes", ["a_1"])]), check=False)["ok"] for number in range(3000)]
    assert all(small)
    assert uses(planned[0], {"find": "t", "filter": {"f2999": 5}})[0]


def test_plan_cache_stats(planned):
    for collection in ("t", "nope", "v", "empty"):
        for stages in ([{"$planCacheStats": {}}], [{"$planCacheStats": 1}], [{"$planCacheStats": {"x": 1}}], [{"$match": {}}, {"$planCacheStats": {}}]):
            case = cases.Case(name="planned", commands=[], database="planned", ignore=("cursor.firstBatch",))
            cases.compare_command(*planned, case, {"aggregate": collection, "pipeline": stages, "cursor": {}})


def entries(server, *behind):
    """What $planCacheStats says of shapes; plans and their figures are each server's own."""
    reply = server.run("planned", {"aggregate": "t", "pipeline": [{"$planCacheStats": {}}, {"$sort": {"planCacheKey": 1}}, *behind], "cursor": {}})
    found = []
    for entry in reply.get("cursor").get("firstBatch"):
        assert entry.names()[-1] == "host" and entry.get("version") == '"1"'
        assert len(entry.get("creationExecStats")) == len(entry.get("candidatePlanScores")) > 1
        # (mongod has another shape for what its other engine runs.)
        assert entry.get("cachedPlan").get("slots") or entry.get("cachedPlan").get("queryPlan") or entry.get("cachedPlan").get("stage") == entry.get("creationExecStats")[0].get("executionStages").get("stage")
        assert int(entry.get("works")[6:-1]) > 0 and entry.get("estimatedSizeBytes") and entry.get("timeOfCreation")
        found.append([entry.names(), *(entry.get(name) for name in ("queryHash", "planCacheKey", "isActive", "createdFromQuery", "indexFilterSet"))])
    return found


def test_plan_cache_entries(planned):
    """Statements that had several plans are listed, as soon as they run, till an index changes or they are cleared."""

    def run(command):
        for server in planned:
            assert server.run("planned", command).get("ok") == "double(1.0)", command

    def agree(*behind):
        subject, oracle = (entries(server, *behind) for server in planned)
        assert subject == oracle
        return len(subject)

    run({"planCacheClear": "t"})
    assert agree() == 0
    both = {"a": 1, "b": 2}
    run({"explain": {"find": "t", "filter": both}})
    for unplanned in ({"find": "t", "filter": {"b": 1}}, {"find": "t"}, {"find": "t", "filter": both, "hint": "a_1"}, {"find": "t", "filter": {"_id": 1}}):
        run(unplanned)
    assert agree() == 0
    run({"find": "t", "filter": both})
    assert agree() == 1
    run({"find": "t", "filter": {"b": 3, "a": 1}})
    assert agree({"$match": {"isActive": True}}) == 1
    run({"find": "t", "filter": {"a": 2, "b": 3}, "sort": {"c": -1}})
    run({"find": "t", "filter": {"a": {"$gt": 2}, "b": 3}, "projection": {"a": 1}})
    run({"find": "t", "filter": {"a": 2, "b": 3}, "collation": {"locale": "fr"}})
    run({"distinct": "t", "key": "d", "query": {"a": {"$gt": 2, "$lt": 4}, "b": 3}})
    run({"aggregate": "t", "pipeline": [{"$match": {"a": 1, "b": 1}}, {"$group": {"_id": "$d"}}], "cursor": {}})
    run({"aggregate": "t", "pipeline": [{"$match": {"a": {"$lte": 1}, "b": {"$gte": 1}}}, {"$unwind": "$d"}], "cursor": {}})
    run({"update": "t", "updates": [{"q": {"a": {"$lt": 1}, "b": 2}, "u": {"$set": {"q": 1}}}]})
    run({"findAndModify": "t", "query": {"a": {"$in": [1, 2]}, "b": 2}, "update": {"$set": {"q": 1}}})
    run({"delete": "t", "deletes": [{"q": {"a": 99, "b": {"$in": [2, 3]}}, "limit": 0}]})
    run(SON([("planCacheSetFilter", "t"), ("query", {"a": 1, "b": {"$gt": 1}, "c": 1}), ("indexes", ["a_1", "b_1"])]))
    run({"find": "t", "filter": {"a": 1, "b": {"$gt": 1}, "c": 1}})
    assert agree() == 11
    run({"planCacheClear": "t", "query": {"a": 7, "b": 7}})
    assert agree() == 10
    run({"planCacheClear": "t", "query": {"a": 7, "b": 7}, "sort": {"c": -1}})
    assert agree() == 9
    run({"createIndexes": "t", "indexes": [{"key": {"zz": 1}, "name": "zz_1"}]})
    assert agree() == 0
    run({"find": "t", "filter": both})
    assert agree() == 1
    run({"dropIndexes": "t", "index": "zz_1"})
    assert agree() == 0
    run({"find": "t", "filter": both})
    run({"planCacheClear": "t"})
    assert agree() == 0
