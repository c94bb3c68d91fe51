"""explain: mongod's shape, and the plan that the bounds call for."""

import pytest

VERBOSITIES = ["queryPlanner", "executionStats", "allPlansExecution"]


def stages(plan):
    """The names of the stages from the top of a winning plan down."""
    names = []
    while plan is not None:
        names.append(plan.get("stage").strip('"'))
        plan = plan.get("inputStage")
    return names


def explain(server, name, command, verbosity="executionStats"):
    return server.run("shared", {"explain": command, "verbosity": verbosity})


FINDS = {
    "collscan": ("none", {"filter": {"a": 1}}),
    "ixscan": ("a", {"filter": {"a": {"$gte": 1, "$lt": 3}}}),
    "id": ("none", {"filter": {"_id": 5}}),
    "id_range": ("none", {"filter": {"_id": {"$gt": 5}}}),
    "sort": ("none", {"sort": {"n": 1}}),
    "sort_by_index": ("n_a", {"filter": {"n": {"$gt": 5}}, "sort": {"n": 1}}),
    "covered": ("n_a", {"filter": {"n": {"$gt": 5}}, "projection": {"_id": 0, "n": 1}}),
    "limit": ("none", {"filter": {"n": 5}, "limit": 1}),
    "skip": ("a", {"filter": {"a": 1}, "skip": 1}),
    "equality_compound": ("a_n", {"filter": {"a": 1, "n": {"$gt": 3}}}),
    "in": ("a", {"filter": {"a": {"$in": [1, 2]}}}),
}


@pytest.mark.parametrize("name", FINDS)
def test_find(pair, name):
    """The top fields are mongod's, and so are the numbers of what is returned."""
    variant, options = FINDS[name]
    collection = pair.shared.collection("values", variant)
    command = {"find": collection, **options}
    expected, actual = (explain(server, collection, command) for server in (pair.oracle, pair.subject))
    assert actual.get("ok") == "double(1.0)", actual.get("errmsg")
    for field in ("namespace", "parsedQuery"):
        if field == "parsedQuery" and name == "sort":
            continue
        assert actual.get("queryPlanner").get(field) == expected.get("queryPlanner").get(field), field
    wanted, got = expected.get("executionStats"), actual.get("executionStats")
    assert got.get("executionSuccess") == "true"
    assert got.get("nReturned") == wanted.get("nReturned")
    assert set(wanted.names()) - {"allPlansExecution"} <= set(got.names())
    assert "serverInfo" in actual.names()
    assert actual.get("command") is not None


PLANS = {
    "collscan": ("none", {"filter": {"a": 1}}, "COLLSCAN"),
    "ixscan": ("a", {"filter": {"a": {"$gte": 1}}}, "IXSCAN"),
    "compound": ("a_n", {"filter": {"a": 1}}, "IXSCAN"),
    "sorted_by_index": ("n_a", {"sort": {"n": 1}}, "IXSCAN"),
    "partial_unusable": ("a_partial", {"filter": {"a": 1}}, "COLLSCAN"),
    "sparse_unusable": ("a_sparse", {"filter": {"a": None}}, "COLLSCAN"),
}


@pytest.mark.parametrize("name", PLANS)
def test_access(pair, name):
    """Where there is one sensible plan, both choose it."""
    variant, options, access = PLANS[name]
    collection = pair.shared.collection("values", variant)
    for server in (pair.oracle, pair.subject):
        reply = explain(server, collection, {"find": collection, **options}, "queryPlanner")
        assert access in str(reply.get("queryPlanner").get("winningPlan")), server.name


def test_no_sort_stage_when_the_index_gives_the_order(pair):
    collection = pair.shared.collection("values", "n_a")
    for server in (pair.oracle, pair.subject):
        reply = explain(server, collection, {"find": collection, "filter": {"n": {"$gt": 3}}, "sort": {"n": -1}}, "queryPlanner")
        assert '"SORT"' not in str(reply.get("queryPlanner").get("winningPlan")), server.name


def test_covered_examines_no_document(pair):
    collection = pair.shared.collection("values", "n_a")
    command = {"find": collection, "filter": {"n": {"$gte": 10, "$lt": 20}}, "projection": {"_id": 0, "n": 1}}
    for server in (pair.oracle, pair.subject):
        statistics = explain(server, collection, command).get("executionStats")
        assert statistics.get("totalDocsExamined") == "int32(0)", server.name
        assert statistics.get("nReturned") == "int32(10)", server.name


def test_each_branch_of_an_or_has_its_best_index(pair):
    """The index made first has bounds for the first branch too, and reads half the collection."""
    keys = {"first": {"p": 1, "k": 1}, "second": {"c": 1, "p": 1, "k": 1}}
    indexes = [{"key": key, "name": name} for name, key in keys.items()]
    documents = [{"_id": i, "c": i % 100, "p": i // 10, "k": i} for i in range(2000)]
    command = {"find": "branches", "filter": {"$or": [{"c": 50, "p": {"$gt": 100}}, {"c": {"$gt": 98}}]}, "limit": 1000}
    for server in (pair.oracle, pair.subject):
        server.run("diff", {"drop": "branches"})
        server.run("diff", {"insert": "branches", "documents": documents})
        server.run("diff", {"createIndexes": "branches", "indexes": indexes})
        statistics = server.run("diff", {"explain": command, "verbosity": "executionStats"}).get("executionStats")
        assert statistics.get("nReturned") == "int32(30)", server.name
        assert statistics.get("totalKeysExamined") in ("int32(30)", "int32(31)", "int32(32)"), server.name
        server.run("diff", {"drop": "branches"})


def test_count_by_area_reads_no_document(pair):
    """What Meridian exists for: the 2dsphere index alone answers a count."""
    server = pair.subject
    server.run("diff", {"drop": "area"})
    documents = [{"_id": i, "p": {"type": "Point", "coordinates": [i % 50 / 10, i // 50 / 10]}} for i in range(2000)]
    server.run("diff", {"insert": "area", "documents": documents})
    server.run("diff", {"createIndexes": "area", "indexes": [{"key": {"p": "2dsphere"}, "name": "p"}]})
    area = {"type": "Polygon", "coordinates": [[[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]]]}
    command = {"count": "area", "query": {"p": {"$geoIntersects": {"$geometry": area}}}}
    reply = server.run("diff", {"explain": command, "verbosity": "executionStats"})
    assert reply.get("executionStats").get("totalDocsExamined") == "int32(0)"
    server.run("diff", {"drop": "area"})


COMMANDS = {
    "count": lambda name: {"count": name, "query": {"n": {"$gt": 5}}},
    "distinct": lambda name: {"distinct": name, "key": "n"},
    "aggregate": lambda name: {"aggregate": name, "pipeline": [{"$match": {"n": 5}}], "cursor": {}},
    "aggregate_group": lambda name: {"aggregate": name, "pipeline": [{"$group": {"_id": "$n"}}], "cursor": {}},
    "update": lambda name: {"update": name, "updates": [{"q": {"n": 5}, "u": {"$set": {"x": 1}}}]},
    "delete": lambda name: {"delete": name, "deletes": [{"q": {"n": 5}, "limit": 1}]},
    "findAndModify": lambda name: {"findAndModify": name, "query": {"n": 5}, "update": {"$set": {"x": 1}}},
}


@pytest.mark.parametrize("verbosity", VERBOSITIES)
@pytest.mark.parametrize("name", COMMANDS)
def test_command(pair, name, verbosity):
    """Every explainable command at every verbosity; explaining writes changes nothing."""
    collection = pair.shared.collection("values", "n_a")
    reply = explain(pair.subject, collection, COMMANDS[name](collection), verbosity)
    assert reply.get("ok") == "double(1.0)", reply.get("errmsg")
    assert pair.subject.run("shared", {"count": collection, "query": {"x": 1}}).get("n") == "int32(0)"


ERRORS = {
    "unknown_verbosity": {"explain": {"find": "c"}, "verbosity": "loud"},
    "unknown_command": {"explain": {"foo": 1}},
    "not_object": {"explain": 5},
    "not_explainable": {"explain": {"insert": "c", "documents": [{"_id": 1}]}},
    "bad_filter": {"explain": {"find": "c", "filter": {"$foo": 1}}},
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(pair, name):
    expected, actual = (server.run("shared", ERRORS[name]) for server in (pair.oracle, pair.subject))
    assert actual.get("code") == expected.get("code"), actual.get("errmsg")
    assert actual.get("errmsg") == expected.get("errmsg")
