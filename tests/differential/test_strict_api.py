"""`apiStrict`: options, stages and indexes that are not in API version 1 are refused by name, within commands that are."""

import pytest
from harness import canonical

DATABASE = "strict_api"
STRICT = {"apiVersion": "1", "apiStrict": True}
HINTED = {"hint": {"_id": 1}}
FIND_OPTIONS = [
    {"tailable": True}, {"tailable": True, "awaitData": True}, {"max": {"_id": 1}, **HINTED}, {"min": {"_id": 1}, **HINTED}, {"noCursorTimeout": True}, {"oplogReplay": True}, {"returnKey": True},
    {"showRecordId": True}, {"term": 1}, {"readOnce": True}, {"allowSpeculativeMajorityRead": True}, {"ntoreturn": 1}, {"allowPartialResults": True}, {"maxTimeMS": 1000}, {"singleBatch": True}, {"let": {"a": 1}}, {"min": {}, "tailable": True},
]  # fmt: skip
STAGES = [
    {"$collStats": {"count": {}}}, {"$collStats": {"storageStats": {}}}, {"$collStats": {"count": {}, "latencyStats": {}}}, {"$indexStats": {}}, {"$planCacheStats": {}}, {"$listCatalog": {}}, {"$fill": {"output": {"q": {"value": 1}}}},
    {"$lookup": {"from": "c", "pipeline": [{"$indexStats": {}}], "as": "o"}}, {"$unionWith": {"coll": "c", "pipeline": [{"$planCacheStats": {}}]}}, {"$facet": {"a": [{"$indexStats": {}}]}}, {"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}},
    {"$setWindowFields": {"output": {"q": {"$sum": 1}}}}, {"$_internalInhibitOptimization": {}}, {"$_internalSplitPipeline": {}}, {"$sample": {"size": 1}}, {"$facet": 5}, {"$lookup": 5},
]  # fmt: skip
COMMANDS = {
    "find": [{"find": "capped", **options} for options in FIND_OPTIONS],
    "stages": [{"aggregate": "c", "pipeline": [{"$match": {"a": 99}}, stage] if "Stats" not in str(stage) and "list" not in str(stage) else [stage, {"$limit": 0 + 1}, {"$project": {"count": 1}}], "cursor": {}} for stage in STAGES],
    "aggregate": [{"aggregate": "c", "pipeline": [], "cursor": {}, option: True} for option in ("explain", "isMapReduceCommand", "allowDiskUse", "bypassDocumentValidation")] + [{"aggregate": "c", "pipeline": 5, "cursor": {}}, {"aggregate": "c", "pipeline": [5], "cursor": {}}],
    "create": [{"create": "new", **options} for options in (
        {"capped": True, "size": 4096}, {"autoIndexId": True}, {"indexOptionDefaults": {}}, {"storageEngine": {}}, {"flags": 1}, {"temp": True}, {"changeStreamPreAndPostImages": {"enabled": False}}, {"max": 5}, {"recordPreImages": False},
        {"viewOn": "c", "pipeline": [{"$indexStats": {}}]}, {"viewOn": "c", "pipeline": []}, {"validator": {"a": 1}}, {"timeseries": {"timeField": "t"}},
    )],
    "indexes": [{"createIndexes": "i", "indexes": [index]} for index in ({"key": {"t": "text"}, "name": "t"}, {"key": {"t": 1}, "name": "a"}, {"key": {"x": 1, "t": "text"}, "name": "t"}, {"key": {"h": "hashed"}, "name": "h"}, {"key": {"$**": 1}, "name": "w"}, {"key": 5})]
               + [{"createIndexes": "i", "indexes": [{"key": {"k": 1}, "name": "k"}], "ignoreUnknownIndexOptions": True}, {"listIndexes": "c", "includeBuildUUIDs": True}, {"listIndexes": "c", "includeIndexBuildInfo": True}, {"listIndexes": "i", "cursor": {}}],
    "coll_mod": [{"collMod": "c", **options} for options in ({"dryRun": True}, {"recordPreImages": False}, {"validationLevel": "strict"}, {"validator": {}})] + [{"collMod": "v", "viewOn": "c", "pipeline": [{"$listCatalog": {}}]}],
    "explain": [{"explain": {"find": "c", "showRecordId": True}}, {"explain": {"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}}}, {"explain": 5}, {"explain": {"collStats": "c"}}],
    "database": [{"aggregate": 1, "pipeline": [{stage: {}}], "cursor": {}} for stage in ("$currentOp", "$listLocalSessions", "$listCatalog")] + [{"aggregate": "system.sessions", "pipeline": [{"$listSessions": {}}], "cursor": {}}],
}  # fmt: skip


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        database = server.client[DATABASE]
        server.client.drop_database(DATABASE)
        database.create_collection("capped", capped=True, size=100_000)
        database["capped"].insert_one({"_id": 1})
        database["c"].insert_one({"_id": 1, "a": 1, "n": 1})
        database.command({"create": "v", "viewOn": "c", "pipeline": []})
    return _subject, _oracle


@pytest.mark.parametrize("kind", COMMANDS)
def test_command(servers, kind):
    database = {"database": "admin"}.get(kind, DATABASE)
    for command in COMMANDS[kind]:
        for server in servers:
            server.client[DATABASE].drop_collection("new")
        actual, expected = (server.run(database, {**command, **STRICT}) for server in servers)
        if expected.get("ok") and (kind == "explain" or "cursor" in expected):
            # What is not refused is compared elsewhere.
            assert actual.get("ok"), f"{command}\nMeridian {actual}"
            continue
        assert canonical.text(actual) == canonical.text(expected), f"{command}\nMeridian {actual}\nmongod   {expected}"
