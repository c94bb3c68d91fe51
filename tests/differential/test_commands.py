"""Replies of commands about collections, databases, cursors and the server itself."""

import itertools
import random

import pymongo
import pytest
from bson import Decimal128, Int64
from harness.cases import Case
from harness.servers import Meridian

DOCS = [{"_id": i, "n": i % 3, "v": i * 10} for i in range(6)]
MANY = [{"_id": i, "n": i % 7} for i in range(500)]
READ = {"find": "COLL", "sort": {"_id": 1}}
LIST = {"listCollections": 1, "filter": {"name": "COLL"}}


def admin(command):
    return ("admin", command)


CASES = [
    # create
    Case("create", [{"create": "COLL"}, LIST, {"listIndexes": "COLL"}]),
    Case("create_twice", [{"create": "COLL"}, {"create": "COLL"}]),
    Case("create_twice_other_options", [{"create": "COLL"}, {"create": "COLL", "validator": {"a": 1}}]),
    Case("create_clustered", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, LIST, {"listIndexes": "COLL"}, {"insert": "COLL", "documents": DOCS}, {"find": "COLL", "filter": {"_id": {"$gte": 2, "$lt": 5}}}]),
    Case("create_clustered_name", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "mine"}}, LIST, {"listIndexes": "COLL"}]),
    Case("create_clustered_not_unique", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": False}}]),
    Case("create_clustered_no_unique", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}}}]),
    Case("create_clustered_other_key", [{"create": "COLL", "clusteredIndex": {"key": {"a": 1}, "unique": True}}]),
    Case("create_clustered_descending", [{"create": "COLL", "clusteredIndex": {"key": {"_id": -1}, "unique": True}}]),
    Case("create_clustered_true", [{"create": "COLL", "clusteredIndex": True}]),
    Case("create_clustered_unknown", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True, "foo": 1}}]),
    Case("create_clustered_ttl", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": 3600}, LIST]),
    Case("create_clustered_drop_index", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, {"dropIndexes": "COLL", "index": "_id_"}]),
    Case("create_clustered_duplicate", [{"create": "COLL", "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, {"insert": "COLL", "documents": [{"_id": 1}]}, {"insert": "COLL", "documents": [{"_id": 1.0}]}]),
    Case("create_ttl_not_clustered", [{"create": "COLL", "expireAfterSeconds": 10}]),
    Case("create_capped_no_size", [{"create": "COLL", "capped": True}]),
    Case("create_unknown", [{"create": "COLL", "foo": 1}]),
    *(Case(f"create_storage_engine_{name}", [{"create": "COLL", "storageEngine": value}, LIST]) for name, value in (
        ("empty", {}), ("null", None), ("number", 5), ("text", "x"), ("no_document", {"rocks": 5}),
    )),
    Case("create_storage_engine_unknown", [{"create": "COLL", "storageEngine": {"rocks": {}}}, LIST], message_differs="ours says what may stand there"),
    *(Case(f"create_index_defaults_{name}", [{"create": "COLL", "indexOptionDefaults": value}, LIST]) for name, value in (
        ("empty", {}), ("null", None), ("number", 5), ("unknown", {"foo": 1}), ("engine_empty", {"storageEngine": {}}), ("engine_number", {"storageEngine": 5}),
    )),
    Case("create_index_defaults_engine_unknown", [{"create": "COLL", "indexOptionDefaults": {"storageEngine": {"rocks": {}}}}, LIST], message_differs="ours says what may stand there"),
    Case("create_bad_name", [{"create": "a$b"}]),
    Case("create_empty_name", [{"create": ""}]),
    Case("create_number", [{"create": 5}]),
    Case("create_system", [{"create": "system.foo"}]),
    *(Case(f"create_{name.replace('.', '_')}", [{"create": name}, {"drop": name}]) for name in (
        "system.version", "system.healthlog", "a.system.b", ".a", "trailing.", "two..dots", "systems",
    )),
    *(Case(f"write_{name.replace('.', '_')}", [
        {"insert": name, "documents": [{"_id": 1}]},
        {"update": name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}]},
        {"delete": name, "deletes": [{"q": {}, "limit": 0}]},
        {"findAndModify": name, "query": {"_id": 1}, "update": {"$set": {"a": 1}}, "upsert": True},
        {"createIndexes": name, "indexes": [{"key": {"a": 1}, "name": "a"}]},
        {"find": name}, {"count": name},
    ]) for name in ("system.foo", "system.views", "system.profile", "a.system.b", ".a")),
    *(Case(f"validator_random_{name}", [{"create": "COLL", "validator": validator}]) for name, validator in (
        ("sample_rate", {"$sampleRate": 0.5}), ("expr", {"$or": [{"a": 1}, {"$expr": {"$lt": [{"$rand": {}}, 0.5]}}]}),
    )),
    Case("list_collections_batch", [{"create": "COLL"}, {"listCollections": 1, "filter": {"name": "COLL"}, "cursor": {"batchSize": 0}}]),
    Case("create_long_name", [{"create": "c" * 252}]),
    Case("create_id_index", [{"create": "COLL", "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, {"listIndexes": "COLL"}]),
    Case("create_collation_simple", [{"create": "COLL", "collation": {"locale": "simple"}}, LIST]),
    Case("create_write_concern", [{"create": "COLL", "writeConcern": {"w": "majority"}}, LIST]),
    # drop
    Case("drop", [{"drop": "COLL"}, LIST, {"drop": "COLL"}], DOCS),
    Case("drop_with_indexes", [{"drop": "COLL"}], DOCS, [{"key": {"n": 1}}, {"key": {"v": 1}}]),
    Case("drop_recreate", [{"drop": "COLL"}, {"insert": "COLL", "documents": [{"_id": 0}]}, READ, {"listIndexes": "COLL"}], DOCS, [{"key": {"n": 1}}]),
    Case("drop_database", [{"insert": "COLL", "documents": DOCS}, {"dropDatabase": 1}, {"listCollections": 1}, {"dropDatabase": 1}], database="diff_dropped"),
    Case("drop_database_2", [{"dropDatabase": 2}], database="diff_dropped"),
    # rename
    Case("rename", [admin({"renameCollection": "diff.COLL", "to": "diff.OTHER"}), {"find": "OTHER", "sort": {"_id": 1}}, {"find": "COLL"}, {"listIndexes": "OTHER"}], DOCS, [{"key": {"n": 1}}]),
    Case("rename_existing", [{"create": "OTHER"}, admin({"renameCollection": "diff.COLL", "to": "diff.OTHER"})], DOCS),
    Case("rename_drop_target", [{"insert": "OTHER", "documents": [{"_id": 99}]}, admin({"renameCollection": "diff.COLL", "to": "diff.OTHER", "dropTarget": True}), {"find": "OTHER", "sort": {"_id": 1}}], DOCS),
    Case("rename_missing", [{"create": "OTHER"}, admin({"renameCollection": "diff.COLL", "to": "diff.OTHER"})]),
    Case("rename_same", [admin({"renameCollection": "diff.COLL", "to": "diff.COLL"})], DOCS),
    Case("rename_other_database", [admin({"renameCollection": "diff.COLL", "to": "diff_two.COLL"}), ("diff_two", READ)], DOCS, leave=("diff_two",)),
    Case("rename_not_admin", [{"renameCollection": "diff.COLL", "to": "diff.OTHER"}], DOCS),
    Case("rename_bad_target", [admin({"renameCollection": "diff.COLL", "to": "nodot"})], DOCS),
    Case("rename_no_to", [admin({"renameCollection": "diff.COLL"})], DOCS),
    # listCollections, listDatabases
    Case("list_collections", [{"listCollections": 1, "filter": {"name": {"$in": ["COLL", "OTHER"]}}}], DOCS),
    Case("list_collections_name_only", [{"listCollections": 1, "nameOnly": True, "filter": {"name": "COLL"}}], DOCS),
    Case("list_collections_filter_type", [{"listCollections": 1, "filter": {"type": "view", "name": "COLL"}}], DOCS),
    Case("list_collections_authorized", [{"listCollections": 1, "nameOnly": True, "authorizedCollections": True, "filter": {"name": "COLL"}}], DOCS),
    Case("list_collections_bad_filter", [{"listCollections": 1, "filter": {"$foo": 1}}], DOCS),
    Case("list_collections_empty_database", [("diff_nothing", {"listCollections": 1})]),
    Case("list_collections_unknown", [{"listCollections": 1, "foo": 1}]),
    Case("list_databases_name_only", [{"insert": "COLL", "documents": DOCS}, admin({"listDatabases": 1, "nameOnly": True, "filter": {"name": "diff_listed"}})], database="diff_listed", leave=("diff_listed",)),
    Case("list_databases", [{"insert": "COLL", "documents": DOCS}, admin({"listDatabases": 1, "filter": {"name": "diff_listed"}})], database="diff_listed", leave=("diff_listed",), ignore=("databases.*.sizeOnDisk", "totalSize", "totalSizeMb")),
    # What admin, config and local hold is the server's own; that they are there is what tools ask.
    Case("list_databases_built_in", [admin({"listDatabases": 1, "nameOnly": True, "filter": {"name": {"$in": ["admin", "config", "local"]}}})]),
    *(Case(f"list_databases_built_in_{name}", [admin({"listDatabases": 1, "filter": {"name": name}})], ignore=("databases.*.sizeOnDisk", "databases.*.empty", "totalSize", "totalSizeMb")) for name in ("admin", "config", "local")),
    Case("list_databases_name_only_filter_sees_names", [{"insert": "COLL", "documents": DOCS}, admin({"listDatabases": 1, "nameOnly": True, "filter": {"name": "diff_listed", "sizeOnDisk": {"$gte": 0}}}), admin({"listDatabases": 1, "nameOnly": True, "filter": {"name": "diff_listed", "empty": {"$exists": False}}})], database="diff_listed", leave=("diff_listed",)),
    Case("list_databases_authorized", [{"insert": "COLL", "documents": DOCS}, admin({"listDatabases": 1, "nameOnly": True, "authorizedDatabases": True, "filter": {"name": "diff_listed"}})], database="diff_listed", leave=("diff_listed",)),
    *(Case(f"no_oplog_{name}", [("local", {"find": collection}), ("local", {"find": collection, "sort": {"$natural": -1}, "limit": 1}), ("local", {"count": collection}), ("local", {"listCollections": 1, "filter": {"name": collection}})]) for name, collection in (("rs", "oplog.rs"), ("main", "oplog.$main"))),
    Case("list_databases_not_admin", [{"listDatabases": 1}]),
    # collMod
    Case("collmod_nothing", [{"collMod": "COLL"}], DOCS),
    Case("collmod_missing", [{"collMod": "COLL", "validator": {}}]),
    Case("collmod_unknown", [{"collMod": "COLL", "foo": 1}], DOCS),
    Case("collmod_index_unknown", [{"collMod": "COLL", "index": {"keyPattern": {"zzz": 1}, "expireAfterSeconds": 5}}], DOCS),
    Case("collmod_index_nothing", [{"collMod": "COLL", "index": {"name": "_id_"}}], DOCS),
    Case("collmod_index_two", [{"collMod": "COLL", "index": {"name": "n_1", "keyPattern": {"n": 1}, "hidden": True}}], DOCS, [{"key": {"n": 1}}]),
    Case("collmod_index_empty", [{"collMod": "COLL", "index": {}}], DOCS),
    # statistics: the fields, not the sizes
    Case("validate", [{"validate": "COLL"}], DOCS, [{"key": {"n": 1}}, {"key": {"v": 1}}], ignore=("uuid", "advice", "indexDetails")),
    Case("validate_full", [{"validate": "COLL", "full": True}], DOCS, [{"key": {"n": 1}}], ignore=("uuid", "advice", "indexDetails", "warnings")),
    Case("validate_missing", [{"validate": "COLL"}]),
    Case("validate_metadata_missing", [{"validate": "COLL", "metadata": True}]),
    # Repairs of what is in order, and every option with values that count as on and as off.
    *(Case(f"validate_{option}_{number}", [{"validate": "COLL", option: value}], DOCS, [{"key": {"n": 1}}], ignore=("uuid", "advice", "indexDetails", "warnings"))
      for option in ("full", "scandata", "background", "fixMultikey", "repair", "metadata", "enforceFastCount", "checkBSONConformance")
      for number, value in enumerate((True, False, None, 0, 2, "x"))),
    *(Case("validate_" + "_".join(options), [{"validate": "COLL", **dict.fromkeys(options, True)}], DOCS, [{"key": {"n": 1}}], ignore=("uuid", "advice", "indexDetails", "warnings"))
      for size in (2, 3) for options in itertools.combinations(("full", "scandata", "background", "fixMultikey", "repair", "metadata", "enforceFastCount", "checkBSONConformance"), size)),
    *(Case(f"delete_bypassing_{number}", [{"delete": "COLL", "deletes": [{"q": {"n": 1}, "limit": 0}], "bypassDocumentValidation": value}, READ], DOCS) for number, value in enumerate((True, False, 1, None, "x"))),
    Case("explain_delete_bypassing", [{"explain": {"delete": "COLL", "deletes": [{"q": {"n": 1}, "limit": 0}], "bypassDocumentValidation": "x"}}], DOCS),
    *(Case(f"explain_aggregate_write_concern_{number}", [{"explain": {"aggregate": "COLL", "pipeline": [], "cursor": {}, "writeConcern": concern}}, {"aggregate": "COLL", "pipeline": [], "explain": True, "writeConcern": concern}, {"aggregate": "COLL", "pipeline": [{"$match": {"_id": -1}}], "cursor": {}, "writeConcern": concern}], DOCS) for number, concern in enumerate(({"w": 1}, {"w": "majority"}, {"j": True}))),
    # cursors
    Case("get_more_not_found", [{"getMore": Int64(12345), "collection": "COLL"}], DOCS),
    Case("get_more_int32_id", [{"getMore": 12345, "collection": "COLL"}], DOCS),
    Case("get_more_no_collection", [{"getMore": Int64(12345)}], DOCS),
    Case("get_more_batch_negative", [{"getMore": Int64(12345), "collection": "COLL", "batchSize": -1}], DOCS),
    Case("kill_cursors_unknown", [{"killCursors": "COLL", "cursors": [Int64(12345)]}], DOCS),
    Case("kill_cursors_none", [{"killCursors": "COLL", "cursors": []}], DOCS),
    Case("kill_cursors_no_list", [{"killCursors": "COLL"}], DOCS),
    # unknown and malformed
    Case("unknown_command", [{"fooBar": 1}]),
    Case("unknown_command_case", [{"FIND": "COLL"}]),
    Case("find_number", [{"find": 5}]),
    Case("find_empty", [{"find": ""}]),
    Case("find_bad_name", [{"find": "a$b"}]),
    Case("database_bad_name", [("bad name", {"find": "c"})], message_differs=None),
    Case("database_long_name", [("d" * 64, {"insert": "c", "documents": [{"_id": 1}]})]),
    Case("database_dollar", [("a$b", {"insert": "c", "documents": [{"_id": 1}]})], leave=("a$b",)),
    Case("database_case_differs", [{"insert": "COLL", "documents": [{"_id": 1}]}, ("DIFF_case", {"insert": "c", "documents": [{"_id": 1}]})], database="diff_case", leave=("diff_case",)),
    Case("find_missing_collection", [READ, {"count": "COLL"}, {"distinct": "COLL", "key": "a"}, {"aggregate": "COLL", "pipeline": [{"$match": {}}], "cursor": {}}]),
    Case("count_missing_group", [{"aggregate": "COLL", "pipeline": [{"$group": {"_id": None, "n": {"$sum": 1}}}], "cursor": {}}, {"aggregate": "COLL", "pipeline": [{"$count": "n"}], "cursor": {}}]),
    Case("ping", [admin({"ping": 1}), {"ping": 1}]),
    Case("end_sessions", [admin({"endSessions": []})]),
    Case("admin_only", [{"getParameter": 1, "featureCompatibilityVersion": 1}, {"getLog": "startupWarnings"}]),
    Case("get_parameter", [admin({"getParameter": 1, "featureCompatibilityVersion": 1})]),
    Case("get_parameter_unknown", [admin({"getParameter": 1, "noSuchThing": 1})]),
    *(Case(f"get_parameter_{name}", [admin(command)]) for name, command in (
        ("auth_schema", {"getParameter": 1, "authSchemaVersion": 1}),
        ("two", {"getParameter": 1, "featureCompatibilityVersion": 1, "authSchemaVersion": 1}),
        ("two_other_order", {"getParameter": 1, "authSchemaVersion": 1, "featureCompatibilityVersion": 1}),
        ("known_and_unknown", {"getParameter": 1, "authSchemaVersion": 1, "noSuchThing": 1}),
        ("text", {"getParameter": "x", "authSchemaVersion": 1}),
        ("text_alone", {"getParameter": "x"}),
        *((name, {"getParameter": 1, name: 1}) for name in (
            "allowDiskUseByDefault", "clusterAuthMode", "enableLocalhostAuthBypass", "internalDocumentSourceDensifyMaxMemoryBytes", "internalDocumentSourceGroupMaxMemoryBytes",
            "internalDocumentSourceSetWindowFieldsMaxMemoryBytes", "internalLookupStageIntermediateDocumentMaxSizeBytes", "internalPipelineLengthLimit", "internalQueryMaxBlockingSortMemoryUsageBytes",
            "maxBSONDepth", "processUmask", "saslHostName", "scramIterationCount", "scramSHA256IterationCount", "sslMode", "storageGlobalParams.directoryperdb", "timeseriesBucketMaxCount",
            "timeseriesBucketMaxSize", "tlsMode",
        )),
        ("none", {"getParameter": 1}),
        ("comment", {"getParameter": 1, "comment": "x"}),
        ("details", {"getParameter": {"showDetails": True}, "authSchemaVersion": 1, "featureCompatibilityVersion": 1, "ttlMonitorSleepSecs": 1}),
        ("details_off", {"getParameter": {"showDetails": False}, "authSchemaVersion": 1}),
        ("details_alone", {"getParameter": {"showDetails": True}}),
        ("details_wrong_type", {"getParameter": {"showDetails": "x"}, "authSchemaVersion": 1}),
        ("all_wrong_type", {"getParameter": {"allParameters": "x"}}),
        ("all_off", {"getParameter": {"allParameters": False}}),
        ("unknown_option", {"getParameter": {"other": True}, "authSchemaVersion": 1}),
    )),
    Case("disk_use_by_default", [admin({"setParameter": 1, "allowDiskUseByDefault": value}) for value in (False, 1, "x", 0, None, True)] + [admin({"getParameter": 1, "allowDiskUseByDefault": 1})]),
    Case("kill_op_nowhere", [admin({"killOp": 1, "op": 99_999_999}), admin({"killOp": 1, "op": -3}), admin({"killOp": 1, "op": 5.0, "other": 1})]),
    *(Case(f"kill_op_{name}", [admin({"killOp": 1, **fields})]) for name, fields in (
        ("without", {}), ("text", {"op": "x"}), ("fraction", {"op": 1.5}), ("wide", {"op": 2**40}), ("null", {"op": None}),
    )),
    Case("kill_op_and_top_need_admin", [{"killOp": 1, "op": 1}, {"top": 1}]),
    Case("get_log_list", [admin({"getLog": "*"})]),
    Case("get_log_unknown", [admin({"getLog": "foo"})]),
    Case("connection_status", [admin({"connectionStatus": 1}), admin({"connectionStatus": 1, "showPrivileges": True})]),
    Case("transaction_number_on_standalone", [{"insert": "COLL", "documents": [{"_id": 1}], "txnNumber": Int64(1)}]),
    Case("read_concern_majority", [{"find": "COLL", "readConcern": {"level": "majority"}}], DOCS),
    Case("read_concern_snapshot", [{"find": "COLL", "readConcern": {"level": "snapshot"}}], DOCS),
    Case("read_concern_linearizable", [{"find": "COLL", "readConcern": {"level": "linearizable"}}], DOCS),
    Case("coll_stats_missing", [{"collStats": "COLL"}], ignore=("scaleFactor", "wiredTiger")),
]  # fmt: skip


OPLOG = "oplog.$main"
# On the one name with a `$` that is valid: reads find nothing, and nothing can be made of it.
OPLOG_COMMANDS = {
    "find": {"find": OPLOG, "filter": {"a": 1}, "sort": {"ts": -1}},
    "count": {"count": OPLOG},
    "distinct": {"distinct": OPLOG, "key": "a"},
    "aggregate": {"aggregate": OPLOG, "pipeline": [], "cursor": {}},
    "index_stats": {"aggregate": OPLOG, "pipeline": [{"$indexStats": {}}], "cursor": {}},
    "insert": {"insert": OPLOG, "documents": [{"_id": 1}]},
    "upsert": {"update": OPLOG, "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}]},
    "delete": {"delete": OPLOG, "deletes": [{"q": {}, "limit": 0}]},
    "find_and_modify": {"findAndModify": OPLOG, "query": {}, "update": {"$set": {"a": 1}}, "upsert": True},
    "create": {"create": OPLOG},
    "create_indexes": {"createIndexes": OPLOG, "indexes": [{"key": {"a": 1}, "name": "a"}]},
    "list_indexes": {"listIndexes": OPLOG},
    "drop_indexes": {"dropIndexes": OPLOG, "index": "*"},
    "drop": {"drop": OPLOG},
    "validate": {"validate": OPLOG},
    "out": {"aggregate": "x", "pipeline": [{"$out": OPLOG}], "cursor": {}},
    "merge": {"aggregate": "x", "pipeline": [{"$merge": OPLOG}], "cursor": {}},
}
RENAMES = [
    ("local.oplog.$main", "diff.y"), ("diff.x", "local.oplog.$main"), ("local.oplog.$main", "local.oplog.y"), ("diff.x", "local.oplog.rs"),
    ("diff.x", "diff.system.foo"), ("diff.x", "diff.system.views"), ("diff.x", "diff.system.profile"), ("diff.x", "diff.a.system.b"), ("diff.x", "diff.a$b"),
    ("diff.system.foo", "diff.y"), ("diff.a$b", "diff.y"), ("diff.nope", "diff.system.foo"),
]  # fmt: skip


@pytest.mark.parametrize("name", OPLOG_COMMANDS)
def test_oplog_name(pair, name):
    pair.run_case(Case(f"oplog_{name}", [("local", OPLOG_COMMANDS[name]), ("local", {"listCollections": 1, "filter": {"name": OPLOG}})]))


@pytest.mark.parametrize("source,target", RENAMES)
def test_renames_of_the_servers_names(pair, source, target):
    pair.run_case(Case("servers_rename", [("diff", {"insert": "x", "documents": [{"_id": 1}]}), ("admin", {"renameCollection": source, "to": target}), ("diff", {"drop": "x"})]))


@pytest.mark.parametrize("verb", ["find", "count", "insert", "create", "createIndexes"])
@pytest.mark.parametrize("database,name", [("local", "oplog.$mai"), ("local", "oplog.$main.x"), ("local", "x.oplog.$main"), ("local", "$main"), ("diff", "oplog.$main"), ("diff", "a$b")])
def test_other_names_with_a_dollar(pair, verb, database, name):
    more = {"insert": {"documents": [{"_id": 1}]}, "createIndexes": {"indexes": [{"key": {"a": 1}, "name": "a"}]}}.get(verb, {})
    pair.run_case(Case("dollar", [(database, {verb: name, **more})]))


@pytest.mark.parametrize("stage", ["$out", "$merge"])
@pytest.mark.parametrize("target", [*({"db": database, "coll": "y"} for database in ("local", "admin", "config")), "system.foo", "system.views", {"db": "diff", "coll": "system.js"}], ids=str)
def test_pipelines_do_not_write_where_only_the_server_does(pair, stage, target):
    pipeline = [{"$match": {}}, {stage: {"into": target} if stage == "$merge" else target}]
    commands = [{"aggregate": "COLL", "pipeline": pipeline, "cursor": {}}, {"aggregate": "COLL", "pipeline": pipeline, "explain": True}]
    pair.run_case(Case("output", commands, docs=DOCS))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_command(pair, case):
    pair.run_case(case)


def names_and_types(document, fields):
    """The type of each field named: what a strict driver sees."""
    kinds = {field: str(document.get(field)).split("(")[0] for field in fields}
    return {field: "string" if kind.startswith('"') else kind for field, kind in kinds.items()}


SHAPES = {
    "collStats": ({"collStats": "shape"}, ["ns", "size", "count", "avgObjSize", "storageSize", "totalIndexSize", "totalSize", "nindexes", "capped", "scaleFactor", "ok"]),
    "collStats_scaled": ({"collStats": "shape", "scale": 1024}, ["size", "storageSize", "totalIndexSize", "scaleFactor"]),
    "dbStats": ({"dbStats": 1}, ["db", "collections", "views", "objects", "avgObjSize", "dataSize", "storageSize", "indexes", "indexSize", "totalSize", "scaleFactor", "fsUsedSize", "fsTotalSize", "ok"]),
    "hello": ({"hello": 1}, ["isWritablePrimary", "maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "localTime", "logicalSessionTimeoutMinutes", "connectionId", "minWireVersion", "readOnly", "ok"]),
    "isMaster": ({"isMaster": 1}, ["ismaster", "maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "localTime", "minWireVersion", "maxWireVersion", "readOnly", "ok"]),
    "buildInfo": ({"buildInfo": 1}, ["version", "gitVersion", "modules", "versionArray", "bits", "debug", "maxBsonObjectSize", "ok"]),
    "whatsmyuri": ({"whatsmyuri": 1}, ["you", "ok"]),
    "explain": ({"explain": {"find": "shape", "filter": {"v": 10}}, "verbosity": "executionStats"}, ["explainVersion", "command", "serverInfo", "ok"]),
}  # fmt: skip
ADMIN_SHAPES = {
    "hostInfo": ({"hostInfo": 1}, ["system", "os", "ok"]),
    "serverStatus": ({"serverStatus": 1}, ["host", "version", "process", "pid", "uptime", "uptimeMillis", "localTime", "ok"]),
    "listCommands": ({"listCommands": 1}, ["ok"]),
    "listDatabases": ({"listDatabases": 1}, ["totalSize", "totalSizeMb", "ok"]),
    "getLog": ({"getLog": "startupWarnings"}, ["totalLinesWritten", "ok"]),
}


@pytest.mark.parametrize("name", [*SHAPES, *ADMIN_SHAPES])
def test_reply_types(pair, name):
    """The reply has mongod's fields with mongod's types; sizes and times are the server's own."""
    command, fields = SHAPES.get(name) or ADMIN_SHAPES[name]
    database = "diff_shape" if name in SHAPES else "admin"
    for server in (pair.subject, pair.oracle):
        server.run("diff_shape", {"drop": "shape"})
        server.run("diff_shape", {"insert": "shape", "documents": DOCS})
        server.run("diff_shape", {"createIndexes": "shape", "indexes": [{"key": {"v": 1}, "name": "v_1"}]})
    expected, actual = (server.run(database, command) for server in (pair.oracle, pair.subject))
    assert names_and_types(actual, fields) == names_and_types(expected, fields)


# What monitors read in the reply to serverStatus, by section. Read by mongostat: m, by the Prometheus MongoDB exporter
# (it flattens the whole reply): p, by Datadog's agent: d.
MONITORED = {
    "asserts": ("mpd", ["regular", "warning", "msg", "user", "tripwire", "rollovers"]),
    "connections": ("mpd", ["current", "available", "totalCreated", "active", "threaded", "exhaustIsMaster", "exhaustHello", "awaitingTopologyChanges"]),
    "extra_info": ("mpd", ["note", "page_faults", "page_reclaims"]),
    "globalLock": ("mpd", ["totalTime", *(f"{group}.{who}" for group in ("currentQueue", "activeClients") for who in ("total", "readers", "writers"))]),
    "network": ("mpd", ["bytesIn", "bytesOut", "physicalBytesIn", "physicalBytesOut", "numRequests", *(f"compression.{name}.{way}.{side}" for name in ("snappy", "zstd", "zlib") for way in ("compressor", "decompressor") for side in ("bytesIn", "bytesOut"))]),
    "opLatencies": ("pd", [f"{what}.{field}" for what in ("reads", "writes", "commands", "transactions") for field in ("latency", "ops")]),
    "opcounters": ("mpd", ["insert", "query", "update", "delete", "getmore", "command"]),
    "opcountersRepl": ("mpd", ["insert", "query", "update", "delete", "getmore", "command"]),
    "mem": ("mpd", ["bits", "resident", "virtual", "supported"]),
    "metrics": ("pd", [
        *(f"commands.{name}.{field}" for name in ("count", "createIndexes", "delete", "findAndModify", "insert", "update", "find", "isMaster") for field in ("failed", "total")),
        *(f"cursor.{field}" for field in ("moreThanOneBatch", "timedOut", "totalOpened", "open.noTimeout", "open.pinned", "open.total")),
        *(f"document.{field}" for field in ("deleted", "inserted", "returned", "updated")),
        *(f"operation.{field}" for field in ("scanAndOrder", "writeConflicts")),
        *(f"queryExecutor.{field}" for field in ("scanned", "scannedObjects", "collectionScans.nonTailable", "collectionScans.total")),
        "commands.<UNKNOWN>", "ttl.deletedDocuments", "ttl.passes",
    ]),
    "storageEngine": ("mp", ["name", "persistent", "supportsCommittedReads"]),
}  # fmt: skip


@pytest.mark.parametrize("section", MONITORED)
def test_what_monitors_read(pair, section):
    expected, actual = (server.run("admin", {"serverStatus": 1}).get(section) for server in (pair.oracle, pair.subject))
    for path in MONITORED[section][1]:
        one, other = expected, actual
        *parents, last = path.split(".")
        for parent in parents:
            one, other = one.get(parent), other.get(parent)
        assert names_and_types(other, [last]) == names_and_types(one, [last]), path


SETTINGS = [
    *[{"getParameter": 1, name: 1} for name in ("cursorTimeoutMillis", "ttlMonitorEnabled", "authenticationMechanisms", "localLogicalSessionTimeoutMinutes")],
    *[{"setParameter": 1, "cursorTimeoutMillis": value} for value in (1000, 5.7, Int64(7), "9", "x", 0, -1, None, True, {}, 1e30, -1e30, float("nan"), float("inf"), Decimal128("5"), 2**40, 600_000)],
    *[{"setParameter": 1, "ttlMonitorEnabled": value} for value in (False, True, 0, 1, "x", "", None, 2.5, {}, [], True)],
    *[{"setParameter": 1, "ttlMonitorSleepSecs": value} for value in (5, "7", 0, -1, 1.5, 0.5, None, True, 3e9, 2**31 - 1, 2**31, float("nan"), 1)],
    {"setParameter": 1, "cursorTimeoutMillis": 7, "ttlMonitorEnabled": True},
    {"setParameter": 1, "ttlMonitorEnabled": True, "cursorTimeoutMillis": 8},
    {"setParameter": 1, "ttlMonitorSleepSecs": 5, "cursorTimeoutMillis": "x"},
    {"setParameter": 1, "ttlMonitorSleepSecs": "x", "cursorTimeoutMillis": 9},
    {"setParameter": 1, "ttlMonitorEnabled": True, "nope": 1},
    {"setParameter": 1, "authSchemaVersion": 5},
    {"setParameter": 1, "localLogicalSessionTimeoutMinutes": 5, "ttlMonitorEnabled": False},
    {"getParameter": 1, "cursorTimeoutMillis": 1, "ttlMonitorEnabled": 1, "ttlMonitorSleepSecs": 1},
    {"setParameter": 1, "cursorTimeoutMillis": 600_000},
    *[{"setParameter": 1, "logLevel": value} for value in (0, 1, 5, 6, -1, 2.7, "3", True, None, {"a": 1}, 10**12, Decimal128("2"), 0)],
    *[{"setParameter": 1, "quiet": value} for value in (True, False, 1, 0, 2.5, "x", None, {"a": 1}, [], False)],
    {"setParameter": 1, "logLevel": 1, "quiet": True}, {"getParameter": 1, "logLevel": 1, "quiet": 1}, {"setParameter": 1, "logLevel": 0, "quiet": 0},
]  # fmt: skip


def test_setting_parameters(pair):
    """One after the other: each reply tells what was."""
    for server in (pair.oracle, pair.subject):
        server.run("admin", {"setParameter": 1, "ttlMonitorSleepSecs": 1})
    for command in SETTINGS:
        expected, actual = (server.run("admin", command) for server in (pair.oracle, pair.subject))
        assert actual == expected, command


def test_getting_all_parameters(pair):
    """`*` and allParameters are the same, and what both servers have is told in the same shape."""
    asked = ("*", {"allParameters": True}, {"allParameters": True, "showDetails": True})
    expected, actual = ([server.run("admin", {"getParameter": value}) for value in asked] for server in (pair.oracle, pair.subject))
    assert actual[0].names() == actual[1].names() == actual[2].names()
    own = {"storageEngineCacheBytes"}
    assert set(actual[0].names()) - own <= set(expected[0].names())
    for name in ("authSchemaVersion", "featureCompatibilityVersion", "enableTestCommands", "logLevel", "notablescan", "quiet", "ttlMonitorSleepSecs", "cursorTimeoutMillis", "ttlMonitorEnabled"):
        assert actual[0].get(name) == expected[0].get(name), name
        assert actual[2].get(name).names() == expected[2].get(name).names(), name
        assert actual[2].get(name).get("value") == expected[2].get(name).get("value"), name


def test_sizes_before_the_first_flush(pair):
    """A collection that no file holds yet is not of size 0."""
    pair.subject.run("diff_unflushed", {"drop": "c"})
    pair.subject.run("diff_unflushed", {"insert": "c", "documents": [{"_id": i, "text": "x" * 1000} for i in range(100)]})
    assert number(pair.subject.run("diff_unflushed", {"collStats": "c"}).get("storageSize")) >= 100_000
    assert number(pair.subject.run("diff_unflushed", {"dbStats": 1}).get("storageSize")) >= 100_000
    listed = pair.subject.run("admin", {"listDatabases": 1, "filter": {"name": "diff_unflushed"}})
    assert number(listed.get("totalSize")) >= 100_000
    pair.subject.run("diff_unflushed", {"dropDatabase": 1})


def test_sizes_of_large_documents(pair):
    """They lie in files apart from the others' (those of a clustering index too), and count all the same."""
    pair.subject.run("diff_large", {"drop": "c"})
    collection = pair.subject.client["diff_large"]["c"]
    collection.create_index("n", name="n")
    collection.create_index([("n", 1), ("m", 1)], name="whole", clustering=True)
    mebibyte = 1024 * 1024
    collection.insert_many([{"_id": i, "n": i, "bytes": random.randbytes(2 * mebibyte)} for i in range(10)])
    pair.subject.client.admin.command("fsync")
    statistics = pair.subject.run("diff_large", {"collStats": "c"})
    assert 20 * mebibyte <= number(statistics.get("storageSize")) < 22 * mebibyte
    indexes = statistics.get("indexSizes")
    assert 20 * mebibyte <= number(indexes.get("whole")) < 22 * mebibyte
    assert number(indexes.get("n")) < mebibyte
    pair.subject.run("diff_large", {"dropDatabase": 1})


def sizes_of(server):
    return server.client["diff_sized"].command("collStats", "sized")["indexSizes"]


@pytest.mark.parametrize("documents", [0, 1, 999, 1000, 1001, 5000])
def test_index_sizes_before_the_first_flush(documents):
    """Indexes that no file holds yet are as large as their entries, and so are the sums."""
    with Meridian() as server:
        collection = server.client["diff_sized"]["sized"]
        collection.create_indexes([pymongo.IndexModel("text"), pymongo.IndexModel("n")])
        if documents:
            collection.insert_many([{"_id": i, "text": f"{i:06}" + "x" * 100, "n": i} for i in range(documents)])
        sizes = sizes_of(server)
        # A prefix, the value, the identifier.
        assert documents * 106 <= sizes["text_1"] <= documents * 150, sizes
        assert documents * 5 <= sizes["n_1"] <= documents * 40, sizes
        stats = server.client["diff_sized"].command("collStats", "sized")
        assert stats["totalIndexSize"] == server.client["diff_sized"].command("dbStats")["indexSize"] == sum(sizes.values())
        total = server.client.admin.command("listDatabases", filter={"name": "diff_sized"})["totalSize"]
        assert total >= sum(sizes.values()) + documents * 106
        server.client.admin.command("fsync")
        flushed = sizes_of(server)
        assert (flushed["text_1"] > 0) == (documents > 0) and flushed["text_1"] <= sizes["text_1"] + 4096


def number(text):
    """The number in an exact value, such as `int64(5)`."""
    return float(text[text.index("(") + 1 : -1])


def test_limits_in_hello_are_mongods(pair):
    expected, actual = (server.run("admin", {"hello": 1}) for server in (pair.oracle, pair.subject))
    for field in ("maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "logicalSessionTimeoutMinutes", "minWireVersion"):
        assert actual.get(field) == expected.get(field), field
    assert int(actual.get("maxWireVersion")[6:-1]) >= 17
    assert actual.get("topologyVersion") is None  # or drivers would wait for changes


def test_counts_in_statistics(pair):
    for server in (pair.subject, pair.oracle):
        server.run("diff_shape", {"drop": "counted"})
        server.run("diff_shape", {"insert": "counted", "documents": DOCS})
        server.run("diff_shape", {"createIndexes": "counted", "indexes": [{"key": {"v": 1}, "name": "v_1"}]})
    expected, actual = (server.run("diff_shape", {"collStats": "counted"}) for server in (pair.oracle, pair.subject))
    for field in ("ns", "count", "size", "avgObjSize", "nindexes", "capped"):
        assert actual.get(field) == expected.get(field), field
    assert actual.get("indexSizes").names() == expected.get("indexSizes").names()


# -- cursors over several batches


@pytest.mark.parametrize("first,more", [(None, None), (0, None), (1, 1), (7, 100), (100, 7), (499, 1), (500, 1), (501, 1)])
def test_batches(pair, first, more):
    """Every batch has mongod's size. (mongod may need one empty batch more to notice the end.)"""
    shapes = []
    for server in (pair.subject, pair.oracle):
        server.run("diff", {"drop": "batches"})
        server.run("diff", {"insert": "batches", "documents": MANY})
        command = {"find": "batches", "sort": {"_id": 1}}
        if first is not None:
            command["batchSize"] = first
        reply = server.run("diff", command).get("cursor")
        sizes, ids = [len(reply.get("firstBatch"))], []
        while reply.get("id") != "int64(0)":
            request = {"getMore": Int64(int(reply.get("id")[6:-1])), "collection": "batches"}
            if more is not None:
                request["batchSize"] = more
            reply = server.run("diff", request).get("cursor")
            sizes.append(len(reply.get("nextBatch")))
            ids += [document.get("_id") for document in reply.get("nextBatch")]
        assert len(ids) == len(set(ids))
        shapes.append(sizes[:-1] if sizes[-1] == 0 and len(sizes) > 1 else sizes)
        server.run("diff", {"drop": "batches"})
    assert shapes[0] == shapes[1]


def test_batches_by_size(pair):
    """A batch ends before 16 MiB."""
    shapes = []
    for server in (pair.subject, pair.oracle):
        collection = server.client["diff"]["big_batches"]
        collection.drop()
        collection.insert_many([{"_id": i, "s": "x" * 1_000_000} for i in range(40)])
        reply = server.run("diff", {"find": "big_batches", "projection": {"_id": 1, "s": 1}}).get("cursor")
        sizes = [len(reply.get("firstBatch"))]
        while reply.get("id") != "int64(0)":
            cursor = Int64(int(reply.get("id")[6:-1]))
            reply = server.run("diff", {"getMore": cursor, "collection": "big_batches"}).get("cursor")
            sizes.append(len(reply.get("nextBatch")))
        shapes.append(sizes)
        collection.drop()
    assert sum(shapes[0]) == sum(shapes[1]) == 40
    assert shapes[0] == shapes[1]


def test_killed_cursor_is_gone(pair):
    replies = []
    for server in (pair.subject, pair.oracle):
        server.run("diff", {"drop": "killed"})
        server.run("diff", {"insert": "killed", "documents": MANY})
        cursor = Int64(int(server.run("diff", {"find": "killed", "batchSize": 2}).get("cursor").get("id")[6:-1]))
        wrong = server.run("diff", {"getMore": cursor, "collection": "other"})
        kill = server.run("diff", {"killCursors": "killed", "cursors": [cursor]})
        again = server.run("diff", {"getMore": cursor, "collection": "killed"})
        replies.append(
            (
                wrong.get("code"),
                len(kill.get("cursorsKilled")),
                kill.get("cursorsNotFound"),
                again.get("code"),
                again.get("errmsg").replace(str(cursor), "ID"),
            )
        )
        server.run("diff", {"drop": "killed"})
    assert replies[0] == replies[1]


def test_cursor_survives_writes(pair):
    """A cursor opened before writes and a dropped collection: the same documents, the same end."""
    for server in (pair.subject, pair.oracle):
        collection = server.client["diff"]["moving"]
        collection.drop()
        collection.insert_many(MANY)
        cursor = collection.find({}, batch_size=50).sort("_id", 1)
        first = [next(cursor)["_id"] for _ in range(10)]
        collection.delete_many({"_id": {"$gte": 400}})
        rest = [document["_id"] for document in cursor]
        assert first + rest == sorted(set(first + rest)), server.name
        assert set(range(400)) <= set(first + rest), server.name
        collection.drop()


def test_get_more_takes_no_time_limit_of_its_own(pair):
    """The limit of the statement that opened the cursor goes on; another one is refused, and the cursor stays."""
    replies = []
    for server in (pair.subject, pair.oracle):
        server.client["diff"]["limited"].drop()
        server.client["diff"]["limited"].insert_many(MANY)
        found = server.run("diff", {"find": "limited", "batchSize": 2, "maxTimeMS": 60_000})
        cursor = Int64(int(found.get("cursor").get("id")[6:-1]))
        more = {"getMore": cursor, "collection": "limited", "batchSize": 2}
        refused = server.run("diff", {**more, "maxTimeMS": 1000})
        nowhere = server.run("diff", {**more, "getMore": Int64(1), "maxTimeMS": 1000})
        again = server.run("diff", more)
        replies.append([(reply.get("ok"), reply.get("code"), reply.get("errmsg")) for reply in (refused, nowhere, again)])
        server.run("diff", {"drop": "limited"})
    assert replies[0] == replies[1]


@pytest.mark.parametrize("command", [
    {"update": "slow", "updates": [{"q": {}, "u": [{"$set": {"x": {"$sum": {"$range": [0, 500]}}}}], "multi": True}]},
    {"update": "slow", "updates": [{"q": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 1e9]}}, "u": {"$set": {"x": 1}}}]},
    {"delete": "slow", "deletes": [{"q": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 0]}}, "limit": 0}]},
    {"findAndModify": "slow", "query": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 1e9]}}, "update": {"$set": {"x": 1}}},
    {"count": "slow", "query": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 0]}}},
    {"distinct": "slow", "key": "v", "query": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 0]}}},
    {"aggregate": "slow", "pipeline": [{"$match": {"$expr": {"$gt": [{"$sum": {"$range": [0, 500]}}, 0]}}}, {"$out": "slow_out"}], "cursor": {}},
], ids=lambda command: next(iter(command)))  # fmt: skip
def test_time_limit(pair, command):
    """A statement that takes far longer than its limit ends with the same code, and the command with it."""
    codes = []
    for server in (pair.subject, pair.oracle):
        server.client["diff"]["slow"].drop()
        server.client["diff"]["slow"].insert_many([{"_id": number, "v": number} for number in range(20_000)])
        reply = server.run("diff", {**command, "maxTimeMS": 1})
        codes.append((reply.get("ok"), reply.get("code"), reply.get("codeName")))
        # What stands before depends on where mongod happened to notice.
        assert reply.get("errmsg").endswith('operation exceeded time limit"'), server.name
        server.run("diff", {"drop": "slow"})
    assert codes[0] == codes[1]
    assert codes[0][1] == "int32(50)"
