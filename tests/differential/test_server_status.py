"""`serverStatus`: what it counts of statements and of the catalogue, by how much it grows on both servers."""

import pytest

DATABASE = "status"


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.client.drop_database(DATABASE)
        server.client[DATABASE]["c"].insert_many([{"_id": i, "a": i, "l": [i, 1], "s": "text"} for i in range(5)])
        server.client[DATABASE]["c"].create_index([("l", "2d")])
        server.client[DATABASE]["c"].create_index([("s", "text")])
    return _subject, _oracle


def flat(document, before=""):
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        elif isinstance(value, (int, float)):
            yield before + name, value


def counts(server, *sections):
    status = server.client.admin.command("serverStatus")
    for section in sections:
        found = status
        for name in section.split("."):
            found = found[name]
        yield from flat(found, f"{section}:")


def growth(server, sections, act):
    before = dict(counts(server, *sections))
    act(server.client[DATABASE])
    after = dict(counts(server, *sections))
    return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}


def same(servers, sections, act):
    subject, oracle = (growth(server, sections, act) for server in servers)
    assert subject == oracle
    return subject


X, A = {"$literal": 1}, "$a"
PIPELINES = {
    "match": [{"$match": {"a": 1}}],
    "match_many": [{"$match": {"a": {"$gt": 1, "$lte": 4, "$ne": 3}, "b": {"$exists": False}, "$or": [{"a": {"$in": [1, 2]}}, {"s": "x"}], "$expr": {"$eq": [A, {"$add": [1, 2]}]}}}],
    "regex": [{"$match": {"s": {"$regex": "x", "$options": "i"}, "t": {"$not": {"$size": 1}}, "u": {"$type": "int"}, "v": {"$mod": [2, 1]}, "w": {"$all": [1]}, "x": {"$elemMatch": {"$gt": 1}}}}],
    "bits": [{"$match": {"a": {"$bitsAllSet": 1, "$bitsAnyClear": 2}, "$nor": [{"a": 7}], "$comment": "x", "$alwaysTrue": 1}}],
    "schema": [{"$match": {"$jsonSchema": {"required": ["a"]}, "$sampleRate": 1.0}}],
    "geo": [{"$match": {"l": {"$geoWithin": {"$box": [[0, 0], [2, 2]]}}}}],
    "text": [{"$match": {"$text": {"$search": "text"}}}],
    "expressions": [{"$project": {"x": {"$cond": [{"$gt": [A, 1]}, {"$toString": A}, {"$concat": ["a", "b"]}]}, "y": {"$map": {"input": [1], "in": {"$multiply": ["$$this", 2]}}}, "z": {"$ifNull": [A, {"$switch": {"branches": [{"case": True, "then": 1}], "default": 2}}]}}}],
    "group": [{"$group": {"_id": A, "n": {"$sum": 1}, "m": {"$max": A}, "p": {"$push": {"$abs": A}}}}, {"$sort": {"_id": 1}}, {"$limit": 2}, {"$skip": 1}],
    "sugar": [{"$sortByCount": A}], "bucket": [{"$bucket": {"groupBy": A, "boundaries": [0, 10]}}], "bucket_auto": [{"$bucketAuto": {"groupBy": A, "buckets": 2, "output": {"n": {"$avg": A}}}}],
    "set": [{"$set": {"x": 1}}, {"$addFields": {"y": 1}}, {"$unset": "x"}, {"$replaceWith": {"a": 1}}, {"$count": "n"}],
    "facet": [{"$facet": {"x": [{"$match": {"a": 1}}, {"$count": "n"}], "y": [{"$sample": {"size": 1}}]}}],
    "lookup": [{"$lookup": {"from": "c", "let": {"q": A}, "pipeline": [{"$match": {"$expr": {"$lt": [A, "$$q"]}}}, {"$project": {"x": {"$subtract": [A, "$$q"]}}}], "as": "o"}}],
    "lookup_by_field": [{"$lookup": {"from": "c", "localField": "a", "foreignField": "_id", "as": "o"}}, {"$unwind": "$o"}],
    "windows": [{"$setWindowFields": {"sortBy": {"a": 1}, "output": {"r": {"$rank": {}}, "s": {"$sum": A, "window": {"documents": ["unbounded", "current"]}}, "t": {"$shift": {"output": A, "by": 1}}}}}],
    "near": [{"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "l", "query": {"a": 1}}}], "index_stats": [{"$indexStats": {}}],
    "accumulators": [{"$group": {"_id": None, "a": {"$topN": {"n": 1, "sortBy": {"a": 1}, "output": A}}, "b": {"$firstN": {"n": 1, "input": A}}, "c": {"$addToSet": A}, "d": {"$count": {}}, "e": {"$stdDevPop": A}}}],
    "union": [{"$unionWith": {"coll": "c", "pipeline": [{"$limit": 1}]}}], "redact": [{"$redact": "$$KEEP"}], "dates": [{"$set": {"y": {"$year": "$$NOW"}, "d": {"$dateToString": {"date": "$$NOW"}}}}],
}
OPERATORS = ("metrics.aggStageCounters", "metrics.operatorCounters")


@pytest.mark.parametrize("name", PIPELINES)
def test_operators_of_pipelines(servers, name):
    grown = same(servers, OPERATORS, lambda database: list(database["c"].aggregate(PIPELINES[name])))
    assert grown


STATEMENTS = {
    "find": lambda database: list(database["c"].find({"a": {"$gt": 1}, "b": None})),
    "near": lambda database: list(database["c"].find({"l": {"$near": [0, 0]}})),
    "count": lambda database: database["c"].count_documents({"a": {"$gte": 1}}),
    "update": lambda database: database["c"].update_one({"a": {"$lt": 0}}, [{"$set": {"b": {"$add": [A, 1]}}}]),
    "delete": lambda database: database["c"].delete_one({"a": {"$lt": 0}}),
    "find_and_modify": lambda database: database["c"].find_one_and_update({"a": {"$lt": 0}}, {"$set": {"b": 1}}), "find_and_remove": lambda database: database["c"].find_one_and_delete({"a": {"$lt": 0}}),
    "update_many": lambda database: database["c"].update_many({"a": {"$lt": 3, "$gt": 0}}, {"$set": {"b": 1}}),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_operators_of_statements(servers, name):
    same(servers, OPERATORS, STATEMENTS[name])


CATALOGUE = {
    "plain": lambda database: database.create_collection("p"), "capped": lambda database: database.create_collection("cap", capped=True, size=10000),
    "clustered": lambda database: database.command({"create": "cl", "clusteredIndex": {"key": {"_id": 1}, "unique": True}}),
    "timeseries": lambda database: database.command({"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}}),
    "view": lambda database: database.command({"create": "v", "viewOn": "p", "pipeline": []}),
    **{name: (lambda database, options=options, key=key: database["p"].create_index(key, **options)) for name, key, options in [
        ("single", "a", {}), ("compound", [("a", 1), ("b", 1)], {}), ("unique", "u", {"unique": True}), ("sparse", "s", {"sparse": True}), ("partial", "pa", {"partialFilterExpression": {"x": 1}}),
        ("ttl", "ttl", {"expireAfterSeconds": 100}), ("text", [("t", "text")], {}), ("hashed", [("h", "hashed")], {}), ("2d", [("l", "2d")], {}), ("2dsphere", [("g", "2dsphere")], {}),
        ("wildcard", [("w.$**", 1)], {}), ("collation", "c", {"collation": {"locale": "en"}}), ("compound_geo", [("g2", "2dsphere"), ("z", 1)], {})]},
    "series_index": lambda database: database["ts"].create_index([("m.a", 1), ("t", 1)]), "series_places": lambda database: database["ts"].create_index([("g", "2dsphere")]),
    "use": lambda database: list(database["p"].find({"u": 1})), "drop_index": lambda database: database["p"].drop_index("u_1"), "drop": lambda database: database["cap"].drop(),
    "drop_view": lambda database: database["v"].drop(),
}


def test_catalogue(servers):
    for name, act in CATALOGUE.items():
        subject, oracle = (growth(server, ("catalogStats", "indexStats"), act) for server in servers)
        if name.startswith("drop"):
            # (Uses of an index go with it here.)
            subject = {name: value for name, value in subject.items() if not name.endswith(".accesses")}
        assert subject == oracle, name


def test_sections_and_their_fields(servers):
    """Sections that both have, have the same fields of numbers, but for what one of them alone does."""
    subject, oracle = (server.client.admin.command("serverStatus") for server in servers)
    for name in ("activeIndexBuilds", "asserts", "batchedDeletes", "catalogStats", "electionMetrics", "extra_info", "flowControl", "freeMonitoring", "globalLock", "indexStats", "opLatencies", "opcounters", "opcountersRepl",
                 "tenantMigrations", "trafficRecording", "transactions", "twoPhaseCommitCoordinator", "mem"):
        assert [*dict(flat(subject[name]))] == [*dict(flat(oracle[name]))], name
    order = [name for name in oracle if name in subject]
    assert [name for name in subject if name in oracle] == order
    without = servers[0].client.admin.command({"serverStatus": 1, "catalogStats": 0, "locks": 0})
    assert "catalogStats" not in without and "locks" not in without and "indexStats" in without
