"""Strings and names that are not valid UTF-8: stored, found and given back byte for byte, as by mongod."""

import bson
import pytest
from harness import cases, raw

LATIN = raw.text(b"a\xffb")
CUT = raw.text(b"\xc3")
SURROGATE = raw.text(b"\xed\xa0\x80")
MARK = "\U0010ffff"
TEXTS = [
    LATIN, CUT, SURROGATE, MARK, MARK + "\xff", raw.text(b"\xf4\x8f\xbf"), raw.text(b"\xf4\x8f\xbf\xbf\xff"),
    raw.text(b"\x80"), raw.text(b"\xc3("), "\xff", "a\xe9z", "", raw.text(b"\x00\xff\x00"), raw.text(b"\xf0\x9f\x98"),
]  # fmt: skip
DOCS = [{"_id": number, "s": text} for number, text in enumerate(TEXTS)]
KINDS = {
    "_id": LATIN, "code": bson.Code(LATIN), "scope": bson.Code(CUT, {LATIN: CUT}), "symbol": raw.Symbol(LATIN),
    "pointer": raw.Pointer(LATIN), "pattern": bson.Regex(LATIN, "im"), LATIN: {LATIN: [{LATIN: [LATIN, 1, CUT]}]},
    "bytes": b"\xf4\x8f\xbf\xbf\xff", "s": SURROGATE,
}  # fmt: skip


def update(query, change, **more):
    return {"update": "COLL", "updates": [{"q": query, "u": change, **more}]}


def aggregate(*stages):
    return {"aggregate": "COLL", "pipeline": list(stages), "cursor": {}}


def value_of(expression):
    return aggregate({"$match": {"s": LATIN}}, {"$project": {"v": expression}})


FIND = {"find": "COLL", "sort": {"_id": 1}}
COMMANDS = {
    "found": [FIND],
    "equal": [{"find": "COLL", "filter": {"s": text}} for text in TEXTS],
    "counted": [{"count": "COLL", "query": {"s": text}} for text in TEXTS],
    "in": [{"find": "COLL", "filter": {"s": {"$in": TEXTS[:4]}}}, {"find": "COLL", "filter": {"s": {"$nin": TEXTS[:4]}}}],
    "all": [{"find": "COLL", "filter": {"s": {"$ne": LATIN}}}],
    "distinct": [{"distinct": "COLL", "key": "s"}],
    "grouped": [aggregate({"$group": {"_id": "$s", "n": {"$sum": 1}}})],
    "deleted": [*({"delete": "COLL", "deletes": [{"q": {"s": text}, "limit": 0}]} for text in TEXTS[:5]), FIND],
    "set": [update({"s": LATIN}, {"$set": {"s": CUT, CUT: LATIN}}), FIND, update({CUT: LATIN}, {"$unset": {CUT: 1}}), FIND],
    "renamed": [update({"_id": 0}, {"$rename": {"s": LATIN}}), FIND, {"find": "COLL", "filter": {LATIN: LATIN}}],
    "pushed": [
        update({"_id": 0}, {"$set": {"l": [CUT]}}), update({"_id": 0}, {"$push": {"l": LATIN}}),
        update({"_id": 0}, {"$addToSet": {"l": LATIN}}), update({"l": LATIN}, {"$set": {"l.$": SURROGATE}}),
        update({"_id": 0}, {"$pull": {"l": CUT}}), FIND,
    ],
    "pipeline": [update({"s": LATIN}, [{"$set": {f"{LATIN}.{CUT}": "$s", "t": f"${CUT}"}}]), FIND, {"find": "COLL", "filter": {f"{LATIN}.{CUT}": LATIN}}],
    "upserted": [update({"_id": LATIN, CUT: 1}, {"$set": {"s": SURROGATE}}, upsert=True), FIND, {"find": "COLL", "filter": {"_id": LATIN}}],
    "modified": [{"findAndModify": "COLL", "query": {"s": LATIN}, "update": {"$set": {"s": CUT + LATIN}}, "new": True}, FIND],
    "kept_fields": [update({"_id": 0}, {"$set": {LATIN: 1}}), {"find": "COLL", "filter": {"_id": 0}, "projection": {LATIN: 1}}],
    "kinds": [{"insert": "COLL", "documents": [KINDS]}, {"find": "COLL", "filter": {"_id": LATIN}}, {"find": "COLL", "filter": {"code": KINDS["code"]}},
              {"find": "COLL", "filter": {"symbol": KINDS["symbol"]}}, {"find": "COLL", "filter": {f"{LATIN}.{LATIN}.0.{LATIN}": CUT}}],
    "same_identifier": [{"insert": "COLL", "documents": [{"_id": LATIN}, {"_id": LATIN}]}, {"insert": "COLL", "documents": [{"_id": {"x": CUT}}] * 2}],
    "same_key": [
        {"createIndexes": "COLL", "indexes": [{"key": {"s": 1, "t": 1}, "name": "u", "unique": True}]},
        {"insert": "COLL", "documents": [{"_id": 50, "s": LATIN}]}, update({"_id": 1}, {"$set": {"s": LATIN}}),
        {"findAndModify": "COLL", "query": {"_id": 2}, "update": {"$set": {"s": CUT}}},
        {"insert": "COLL", "documents": [{"_id": 51, "s": "x", "t": {CUT: CUT}}, {"_id": 52, "s": "x", "t": {CUT: CUT}}]},
        {"insert": "COLL", "documents": [{"_id": 53, "s": MARK}]},
    ],
    "same_key_when_built": [
        {"insert": "COLL", "documents": [{"_id": 50, "s": LATIN}]},
        {"createIndexes": "COLL", "indexes": [{"key": {"s": 1}, "name": "u", "unique": True}]},
    ],
    "named_index": [
        {"createIndexes": "COLL", "indexes": [{"key": {CUT: 1}, "name": LATIN}]}, {"listIndexes": "COLL"},
        {"find": "COLL", "filter": {CUT: {"$exists": False}}, "hint": LATIN, "comment": LATIN}, {"dropIndexes": "COLL", "index": LATIN},
    ],
    "partial_index": [
        {"createIndexes": "COLL", "indexes": [{"key": {"_id": 1, "s": 1}, "name": "p", "partialFilterExpression": {"s": LATIN}}]},
        {"find": "COLL", "filter": {"s": LATIN}, "hint": "p"}, {"listIndexes": "COLL"},
    ],
    "validated": [
        {"collMod": "COLL", "validator": {"$jsonSchema": {"required": [LATIN], "properties": {LATIN: {"enum": [CUT]}}}}},
        {"insert": "COLL", "documents": [{"_id": 60, LATIN: CUT}]}, FIND,
    ],
    "validator_shown": [{"collMod": "COLL", "validator": {LATIN: CUT}}, {"listCollections": 1, "filter": {"name": "COLL"}}],
    "let": [{**aggregate({"$match": {"$expr": {"$eq": ["$s", "$$x"]}}}), "let": {"x": LATIN}}],
    "concat": [value_of({"$concat": ["x", "$s", CUT]})],
    "upper": [value_of({"$toUpper": "$s"}), value_of({"$toLower": "$s"})],
    "split": [value_of({"$split": ["$s", "b"]}), value_of({"$split": ["$s", raw.text(b"\xff")]})],
    "replace": [value_of({"$replaceAll": {"input": "$s", "find": raw.text(b"\xff"), "replacement": "\xff"}})],
    "trim": [value_of({"$trim": {"input": "$s", "chars": "b"}})],
    "compare": [value_of({"$eq": ["$s", LATIN]}), value_of({"$in": ["$s", [CUT, LATIN]]}), value_of({"$setUnion": [["$s"], [LATIN]]})],
    "fields": [value_of({"$objectToArray": {LATIN: CUT}}), value_of({"$arrayToObject": [[["$s", "$s"]]]}), value_of({"$setField": {"field": LATIN, "input": {}, "value": CUT}})],
    "literal": [value_of({"$literal": {LATIN: [CUT]}}), value_of({"$mergeObjects": [{LATIN: "$s"}]})],
    "cut_inside": [value_of({"$substrCP": ["$s", 1, 1]})],
    "converted": [value_of({"$toInt": "$s"}), value_of({"$convert": {"input": "$s", "to": "int", "onError": CUT}}), value_of({"$toString": "$s"})],
    "patterns": [{"find": "COLL", "filter": {"s": {"$regex": LATIN}}}, {"find": "COLL", "filter": {"s": bson.Regex(CUT)}}, {"find": "COLL", "filter": {"s": {"$regex": MARK}}, "sort": {"_id": 1}, "limit": 1}],
    "wrong": [
        {LATIN: 1}, {"find": "COLL", LATIN: 1}, {"find": "COLL", "filter": {"s": {"$" + LATIN: 1}}},
        aggregate({"$" + LATIN: 1}), value_of({"$" + LATIN: 1}), value_of({"$add": [1, LATIN]}), {"find": "COLL", "hint": LATIN},
    ],
}  # fmt: skip


# The pattern of a mark matches other texts' forms too; the first match is the same.
@pytest.mark.parametrize("indexes", ([], ["s"]), ids=("scan", "index"))
@pytest.mark.parametrize("name", COMMANDS)
def test_text(pair, name, indexes):
    indexes = [{path: 1} for path in indexes]
    pair.run_case(cases.Case(f"text {name} {len(indexes)}", COMMANDS[name], docs=DOCS, indexes=indexes))




def test_batches(pair):
    """What a cursor hands over later, too."""
    documents = [{"_id": number, LATIN: CUT * number} for number in range(300)]
    for server in (pair.subject, pair.oracle):
        server.run("text", {"drop": "c"})
        server.run("text", {"insert": "c", "documents": documents})
    replies = []
    for server in (pair.subject, pair.oracle):
        cursor = server.run("text", {"find": "c", "batchSize": 10}).get("cursor")
        identity = int(cursor.get("id")[6:-1])
        batch = server.run("text", {"getMore": bson.Int64(identity), "collection": "c"}).get("cursor")
        replies.append((cursor.get("firstBatch"), batch.get("nextBatch")))
        server.run("text", {"drop": "c"})
    assert replies[0] == replies[1] and len(replies[0][1]) == 290
