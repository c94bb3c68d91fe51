"""What commands and stages take at their edges, and what they refuse: faults that an attack with mongod beside found."""

import datetime
import re

import pytest
from bson import Decimal128, Int64, Regex
from bson.son import SON
from harness import canonical

DATABASE = "edges"
LONG = 2**62
INF = float("inf")
NOON = datetime.datetime(2020, 1, 1, 12)


def find(**options):
    return {"find": "c", "limit": 1, **options}


def aggregate(*stages, target="c"):
    return {"aggregate": target, "pipeline": list(stages), "cursor": {}}


def over(documents, *stages):
    return aggregate({"$documents": documents}, *stages, target=1)


def compute(expression):
    return over([{"a": 1, "v": [1, LONG]}], {"$project": {"x": expression}})


def parsed(text, form):
    return over([{"v": text}], {"$project": {"x": {"$dateFromString": {"dateString": "$v", "format": form}}}})


def merge(document, **options):
    """Two documents are there, {_id: 1, k: 1} and {_id: 2, k: 2}; k is unique."""
    return [{"delete": "m", "deletes": [{"q": {}, "limit": 0}]}, {"insert": "m", "documents": [{"_id": 1, "k": 1}, {"_id": 2, "k": 2}]}, over([document], {"$merge": {"into": "m", **options}}), {"find": "m", "sort": {"_id": 1}}]


def update(**statement):
    return {"update": "c", "updates": [{"q": {"_id": 99}, **statement}]}


def modify(**options):
    return {"findAndModify": "c", "query": {"_id": 99}, **options}


def explain(command):
    return {"explain": command, "verbosity": "queryPlanner"}


def index(key, **options):
    return [{"drop": "i"}, {"createIndexes": "i", "indexes": [{"key": key, "name": "n", **options}]}]


def create(**options):
    return [{"drop": "made"}, {"create": "made", **options}]


SET, ON = {"$set": {"x": 1}}, {"$merge": {}}
COMMANDS = {
    "natural_order": [command for hint in ("_id_", {"a": 1}, {"$natural": 1}, {"$natural": -1}) for way in (1, -1) for command in (
        find(sort={"$natural": way}, hint=hint, projection={"_id": 1}), modify(sort={"$natural": way}, hint=hint, update=SET))],
    "orders": [command for way in ("1.5", "0.6", "0.5", "-1.4", "-1.5") for command in (find(sort={"a": Decimal128(way)}), aggregate({"$sort": {"a": Decimal128(way)}}, {"$limit": 1}))],
    "filters": [find(filter={"a": condition}) for condition in (
        SON([("$options", ""), ("$regex", Regex("A", "i"))]), SON([("$options", "m"), ("$regex", Regex("A", "i"))]), SON([("$regex", Regex("A", "i")), ("$options", "")]), {"$size": 2**31 - 1}, {"$size": 2**31}, {"$size": 2.0**31},
        {"$not": {"$size": Int64(2**40)}}, {"$size": Decimal128("2147483648")})] + [find(filter={"$jsonSchema": schema}) for schema in (
        {"bsonType": "integer"}, {"properties": {"a": {"multipleOf": INF}}}, {"properties": {"a": {"multipleOf": Decimal128("Infinity")}}}, {"properties": {"a": {"bsonType": "integer"}}})],
    "let": [command for name in ("NOW", "CLUSTER_TIME", "JS_SCOPE", "IS_MR", "ROOT", "Q") for command in (find(let={name: 1}), {**aggregate({"$limit": 1}), "let": {name: 1}}, {"delete": "c", "deletes": [{"q": {"_id": 99}, "limit": 1}], "let": {name: 1}})],
    "updates": [update(u={"_id": 1}, arrayFilters=[{"e": 1}, {"e": 2}]), update(u={"x": 1}, arrayFilters=[{"$expr": 1}]), update(u={"x": 1}, arrayFilters=[{"e": 1}]), update(u=SET, arrayFilters=None), update(u=[SET], arrayFilters=[]),
                *(update(u=[SET], c={name: 1}) for name in ("ROOT", "NOW", "REMOVE", "CURRENT", "Q", "q")), modify(update=[SET], arrayFilters=[]), modify(update=SET, arrayFilters=None), modify(update=SET, batchSize=-1, singleBatch=True)],
    "explained_changes": [explain(update(**statement)) for statement in (
        dict(u={"$set": {"a.$[x]": 1}}, arrayFilters=[{"x": 1}, {"x": 2}]), dict(u={"$set": {"a": 1, "a.b": 1}}), dict(u={"$set": {"": 1}}), dict(u=SET, c={"q": 1}), dict(u={"$bad": 1}), dict(u={"a": 1}, multi=True), dict(u=[{"$match": {}}]))] + [
        explain(modify(**options)) for options in (dict(update={"$set": {"a": 1, "a.b": 1}}), dict(update=SET, fields={"a": 1, "b": 0}), dict(update={"$bad": 1}), dict(update=[{"$match": {}}]))] + [explain({**aggregate(), "explain": False})],
    "sums": [compute({operator: values}) for operator in ("$add", "$sum", "$avg") for values in (
        [Decimal128("1"), Int64(LONG), Int64(LONG)], [Int64(2**53 + 1), -21], [Int64(2**53 + 1), Decimal128("0")], [Int64(LONG), Int64(LONG), 1.5])] + [over([{"v": Int64(2**53 + 1)}, {"v": -21}], {"$group": {"_id": None, "x": {"$avg": "$v"}}})],
    "numbers": [compute(expression) for expression in (
        {"$multiply": [0, -3, 1.5]}, {"$multiply": [0, -3]}, {"$multiply": [-0.0, 5]}, {"$add": [NOON, Decimal128("1.5")]}, {"$add": [NOON, Decimal128("2.5")]}, {"$subtract": [NOON, Decimal128("1.5")]}, {"$substrBytes": ["abcdef", Decimal128("1.5"), 2]},
        {"$toHashedIndexKey": "a"}, {"$toHashedIndexKey": 1.5}, {"$toHashedIndexKey": "$missing"}, {"$toHashedIndexKey": {"a": [1, "$a"]}}, {"$toHashedIndexKey": [1, 2]}, {"$hour": {"date": NOON, "timezone": "Z"}})],
    "dates": [parsed("14/05/1986 10:2", "%d/%m/%Y %H:%M"), parsed("14/05/1986 1:02", "%d/%m/%Y %H:%M"), parsed("2020-01-01 5:04:3", "%Y-%m-%d %H:%M:%S"), parsed("2020-01-01 05:04:03.000000", "%Y-%m-%d %H:%M:%S.%L"),
              parsed("2020-01-01 05:04:03.12", "%Y-%m-%d %H:%M:%S.%L"), parsed("x", "%d %b"), parsed("x", "%d %"), parsed("x", "%d %j"), parsed("x", "%Q")],
    "stages": [
        aggregate({"$limit": "x"}, {"$nope": 1}), aggregate({"$limit": "x"}, {}), aggregate({"$facet": {"a": [1]}}), aggregate({"$facet": {"a": [None]}}), aggregate({"$facet": {"": 1}}), aggregate({"$group": {"_id": 1, "n": {"a": 1}}}), aggregate({"$group": {"_id": 1, "n": {"a": 1, "b": 1}}}),
        over([{"a": 1}], {"$bucket": {"groupBy": {}, "boundaries": [0, 1]}}), over([{"a": 1}], {"$bucket": {"groupBy": {"v": {"$gt": 1}}, "boundaries": [0, 1]}}), over([{"a": 1}], {"$densify": {"field": "a", "range": {"step": 1, "bounds": "full"}, "partitionByFields": None}}),
        over([{"a": 1}], {"$fill": {"output": {"q": {"value": 1}}, "partitionByFields": None}}), over([{"n": 1e300}, {"n": 1e300}], {"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}}),
        aggregate({"$unionWith": ".a"}), aggregate({"$unionWith": {"coll": "c", "pipeline": [None]}}, {"$count": "n"}), aggregate({"$unionWith": {"coll": "c", "pipeline": None}}), aggregate({"$unionWith": {"coll": None}}),
        aggregate({"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "$x"}}), aggregate({"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "a."}}), aggregate({"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "a..b"}}),
        *(over([{"a": 1}, {"a": 2}], {"$setWindowFields": {"sortBy": {}, "output": {"x": function}}}) for function in (
            {"$sum": "$a", "window": {"documents": ["unbounded", "current"]}}, {"$shift": {"output": "$a", "by": 1}}, {"$expMovingAvg": {"input": "$a", "N": 2}}, {"$derivative": {"input": "$a"}})),
    ],
    "undefined": [aggregate({"$match": {"_id": "u"}}, {"$lookup": {"from": "c", "localField": "u", "foreignField": "b", "as": "r"}})],
    "merge": [command for on in ("k", "_id") for document in ({"_id": 5}, {"_id": 5, "k": [1]}, {"_id": 5, "k": None}, {"_id": 5, "k": {"a": 1}}) for mode in ("fail", "merge", "replace", "keepExisting") if on == "k" or document.get("k") != [1] for command in merge(document, on=on, whenMatched=mode)],
    "merge_stages": [command for stage in ({"$match": {}}, {"$limit": 1}, {"$group": {"_id": 1}}, {"$out": "z"}, {"$lookup": {"from": "c", "pipeline": [], "as": "o"}}, {"$redact": "$$KEEP"}, {"$unset": "q"}) for command in merge({"_id": 1, "k": 1}, whenMatched=[stage])],
    "merge_variables": [command for own in ({"q": 1}, {"new": 1}, {}, None, {"new": "$$ROOT"}, {"q": "$k"}, {"Q": 1}) for mode in ("insert", "discard", "fail") for command in merge({"_id": 1, "k": 7}, let=own, whenMatched=[{"$set": {"a": "$$new.k"}}], whenNotMatched=mode)],
    "merge_targets": [over([{"_id": 1}], {"$merge": {"into": into}}) for into in ({"db": None, "coll": "m"}, {"db": "", "coll": "m"}, {"coll": None}, {"coll": ""}, {"x": 1})],
    "system_collections": [
        {"create": "v", "viewOn": "c", "pipeline": []}, {"insert": "system.js", "documents": [{"_id": "a", "value": 1}]}, {"drop": "system.js"}, {"dropIndexes": "system.views", "index": "*"}, {"listCollections": 1, "nameOnly": True, "filter": {"name": {"$in": ["v", "system.js"]}}},
        {"find": "system.js"}, {"delete": "system.js", "deletes": [{"q": {}, "limit": 0}]}],
    "names_only": [{"listCollections": 1, "nameOnly": True, "filter": {"name": "c", **condition}} for condition in ({"options.capped": True}, {"options": {"$exists": False}}, {"info.readOnly": False}, {"type": "collection"})],
    "indexes": [command for key, options in (
        ({"_id": 1.5}, {}), ({"_id": -1}, {}), ({"_id": 1.0}, {}), ({"x": 1}, {"partialFilterExpression": {"$alwaysTrue": 1}}), ({"x": 1}, {"partialFilterExpression": {"$alwaysFalse": 1}}), ({"g": "2dsphere"}, {"coarsestIndexedLevel": -1}), ({"g": "2dsphere"}, {"coarsestIndexedLevel": 16}),
        ({"g": "2dsphere"}, {"coarsestIndexedLevel": 17}), ({"g": "2dsphere"}, {"finestIndexedLevel": 1}), ({"g": "2dsphere"}, {"finestIndexedLevel": 2}), ({"g": "2dsphere"}, {"finestIndexedLevel": 31}), ({"g": "2dsphere"}, {"finestIndexedLevel": 6.5}), ({"g": "2dsphere"}, {"coarsestIndexedLevel": 5, "finestIndexedLevel": 5}))
        for command in index(key, **options)] + [*index({"t": "text"}), {"collMod": "i", "index": {"name": "n", "expireAfterSeconds": 5}}],
    "clustered": [command for options in ({"size": 1}, {"max": 1}, {"capped": True}, {"capped": True, "size": 5000}) for command in create(clusteredIndex={"key": {"_id": 1}, "unique": True}, **options)] + [
        command for own in ({"v": 1}, {"v": 2.0}, {"v": "x"}, {"v": None}, {"unique": "x"}, {"unique": None}, {"unique": Decimal128("1")}, {"unique": 0}, {"name": None}) for command in create(clusteredIndex={"key": {"_id": 1}, "unique": True, **own})],
    "options": [command for options in (
        {"collation": {"locale": "en", "bogus": None}}, {"collation": {"locale": "en", "strength": None}}, {"timeseries": {"timeField": "t", "metaField": None, "granularity": None, "bucketMaxSpanSeconds": None}}, {"timeseries": {"timeField": None}},
        {"timeseries": {"timeField": "t"}, "validator": None}, {"timeseries": {"timeField": "t"}, "expireAfterSeconds": Decimal128("99.5")}, {"capped": Decimal128("1"), "size": 5000}, {"capped": Decimal128("1")}) for command in [*create(**options), {"listCollections": 1, "filter": {"name": "made"}}]],
    "nulls": [
        {"insert": "n", "documents": [None, {"_id": 1}]}, {"insert": "n", "documents": [None]}, {"insert": "n", "documents": None}, {"insert": "n", "documents": [{"_id": 2}, {"_id": 3}, None]}, {"update": "n", "updates": [None, {"q": {"_id": 1}, "u": SET}]},
        {"update": "n", "updates": None}, {"delete": "n", "deletes": [{"q": {"_id": 2}, "limit": 1}, None]}, {"delete": "n", "deletes": None}, {"find": "n", "sort": {"_id": 1}}],
    "diagnostics": [{"dbStats": "x"}, {"dbStats": 1, "scale": 0}, {"dbStats": 1, "scale": "x"}, {"dataSize": "edges.none"}, {"listIndexes": "c", "includeBuildUUIDs": True}, {"getMore": Int64(1), "collection": ""}, {"killCursors": "c", "cursors": [None]}, {"killCursors": "c", "cursors": None}],
    "admin": [{"dropDatabase": 1}, {"rotateCertificates": 1}, {"renameCollection": 1}, {"hello": 1, "maxAwaitTimeMS": 10}, {"hello": 1, "compression": ["bad", 1]}, {"createUser": "edges", "pwd": "x", "roles": [], "authenticationRestrictions": [{}]},
              {"create": "made", "validator": {"a": 1}}, {"convertToCapped": "system.version", "size": 0}],
}  # fmt: skip


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.client.drop_database(DATABASE)
        database = server.client[DATABASE]
        database["c"].insert_many([{"_id": i, "a": i, "s": "A"} for i in range(5)])
        database["c"].create_index("a", name="a")
        database.command({"insert": "c", "documents": [{"_id": "u"}]})
        database["m"].create_index("k", unique=True, name="k")
    return _subject, _oracle


def text(reply):
    """Identities are each server's own."""
    own = re.sub(r"(uuid.{0,12})binary\([^)]*\)", r"\1a uuid", canonical.text(reply), flags=re.IGNORECASE)
    own = re.sub(r" with UUID [-0-9a-f]{36}", "", own)
    own = re.sub(r"millis: int\d+\(\d+\)", "millis", own)
    # Theirs names where it is.
    return re.sub(r"(Plan executor error during findAndModify :: caused by :: )|(\$merge (failed due to a DuplicateKey error|with whenMatched: fail found .*? fields|found another document with the same unique key) ?(:: caused by ::)? ?)", "", own)


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands(servers, kind):
    database = "admin" if kind == "admin" else DATABASE
    for command in COMMANDS[kind]:
        actual, expected = (text(server.run(database, command)) for server in servers)
        assert actual == expected, f"{command}\nMeridian {actual}\nmongod   {expected}"


def test_a_capped_copy_of_views_is_none(servers):
    """The views of a database are not replaced by their copy."""
    for server in servers:
        server.client[DATABASE].command({"create": "seen", "viewOn": "c", "pipeline": []})
        reply = server.run(DATABASE, {"convertToCapped": "system.views", "size": 4096})
        assert "int32(2)" in canonical.text(reply), reply
        assert server.client[DATABASE]["seen"].count_documents({}) > 0
        assert "int32(72)" in text(server.run("admin", {"create": "made", "validator": {"a": 1}}))


def test_validate_tells_what_a_validator_refuses(servers):
    for level, action in ((level, action) for level in ("strict", "moderate", "off") for action in ("error", "warn")):
        replies = []
        for server in servers:
            database = server.client[DATABASE]
            database.drop_collection("checked")
            database["checked"].insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
            database.command({"collMod": "checked", "validator": {"a": {"$exists": True}}, "validationLevel": level, "validationAction": action})
            reply = database.command({"validate": "checked"})
            replies.append((reply["valid"], reply["nNonCompliantDocuments"], len(reply["errors"]), len(reply["warnings"])))
        assert replies[0] == replies[1], (level, action)
