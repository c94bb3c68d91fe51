"""`notablescan`: which statements find no plan without going through all documents.

A reply is compared whole where both answer; of refusals the code, and the reason behind what mongod parsed.
"""

import re

import pytest
from harness import canonical

DATABASE = "unscanned"
# fmt: off
COMMANDS = [
    *({"find": "c", "filter": condition} for condition in ({}, {"b": 1}, {"a": 1}, {"_id": 1}, {"a": 1, "b": 1}, {"$or": [{"a": 1}, {"b": 1}]}, {"$expr": {"$eq": ["$b", 1]}}, {"a": {"$ne": 3}}, {"a": {"$gte": 0}})),
    {"find": "c", "sort": {"$natural": 1}}, {"find": "c", "hint": {"$natural": 1}}, {"find": "c", "filter": {"b": 1}, "hint": {"$natural": 1}}, {"find": "c", "filter": {"b": 1}, "sort": {"$natural": -1}},
    {"find": "c", "filter": {"b": 1}, "hint": "a_1"}, {"find": "c", "filter": {"b": 1}, "sort": {"a": 1}}, {"find": "c", "sort": {"b": 1}}, {"find": "c", "filter": {"b": 1}, "sort": {"_id": 1}}, {"find": "c", "filter": {"b": 1}, "hint": "_id_"},
    {"count": "c", "query": {"b": 1}}, {"count": "c", "query": {"$or": [{"a": 1}, {"_id": 2}]}}, {"count": "c"}, {"count": "c", "query": {"a": {"$gt": 1}}}, {"distinct": "c", "key": "b"}, {"distinct": "c", "key": "b", "query": {"b": 1}}, {"distinct": "c", "key": "a"},
    {"aggregate": "c", "pipeline": [], "cursor": {}}, {"aggregate": "c", "pipeline": [{"$match": {"b": 1}}], "cursor": {}}, {"aggregate": "c", "pipeline": [{"$group": {"_id": "$b"}}, {"$sort": {"_id": 1}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "x"}}], "cursor": {}},
    {"update": "c", "updates": [{"q": {"b": 1}, "u": {"$set": {"x": 1}}}]}, {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]}, {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"x": 2}}}]},
    {"delete": "c", "deletes": [{"q": {"b": 9}, "limit": 0}]}, {"delete": "c", "deletes": [{"q": {"_id": 4}, "limit": 1}]}, {"findAndModify": "c", "query": {"b": 1}, "update": {"$set": {"x": 2}}}, {"findAndModify": "c", "query": {"a": 1}, "update": {"$set": {"x": 2}}},
    {"find": "nope", "filter": {"b": 1}}, {"find": "capped", "filter": {"a": 1}}, {"find": "capped", "filter": {"a": 1}, "tailable": True}, {"find": "series", "filter": {"m": 1}}, {"find": "series"}, {"find": "view"}, {"find": "system.views", "filter": {"x": 1}},
    {"explain": {"find": "c", "filter": {"b": 1}}}, {"mapReduce": "c", "map": "function(){emit(1,1)}", "reduce": "function(a,b){return 1}", "out": {"inline": 1}, "query": {"b": 1}},
]
# fmt: on


@pytest.fixture(scope="module")
def unscanned(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        database = server.client[DATABASE]
        database.c.insert_many({"_id": number, "a": number, "b": number} for number in range(5))
        database.c.create_index("a")
        database.create_collection("capped", capped=True, size=10_000)
        database.capped.insert_one({"_id": 1, "a": 1})
        database.command({"create": "series", "timeseries": {"timeField": "t", "metaField": "m"}})
        database.command({"create": "view", "viewOn": "c", "pipeline": [{"$match": {"b": 1}}]})
        server.run("admin", {"setParameter": 1, "notablescan": True})
    yield _subject, _oracle
    for server in (_subject, _oracle):
        server.run("admin", {"setParameter": 1, "notablescan": False})
        server.run(DATABASE, {"dropDatabase": 1})


def told(reply):
    """Without what mongod's errors say of the statement that it parsed, and the numbers of cursors."""
    text = re.sub(r"ns=unscanned\..*?planner returned", "planner returned", canonical.text(reply), flags=re.DOTALL)
    return re.sub(r"\s+", "", re.sub(r"\bid: int64\(\d+\)", "id", text))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: re.sub(r"[^a-zA-Z0-9$]+", "_", str(command))[:80])
def test_what_needs_an_index(unscanned, command):
    actual, expected = (told(server.run(DATABASE, command)) for server in unscanned)
    assert actual == expected
