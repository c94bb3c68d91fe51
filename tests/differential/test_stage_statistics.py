"""What each stage of an executed plan did: the figures of explain's executionStages, stage by stage beside mongod's."""

import bson
import pytest

DATABASE = "stage_statistics"
FIGURES = ("stage", "nReturned", "works", "advanced", "needTime", "isEOF", "docsExamined", "keysExamined", "nCounted", "alreadyHasObj")
STATEMENTS = {
    "all": {"find": "c"}, "filter": {"find": "c", "filter": {"b": {"$gt": 3}}}, "none": {"find": "c", "filter": {"zz": 1}}, "missing": {"find": "nope"},
    "index": {"find": "c", "filter": {"a": 2}}, "index_and_filter": {"find": "c", "filter": {"a": 2, "b": {"$gt": 5}}}, "id": {"find": "c", "filter": {"_id": 3}},
    "sort": {"find": "c", "sort": {"b": 1}}, "top": {"find": "c", "sort": {"b": 1}, "limit": 3}, "index_and_sort": {"find": "c", "filter": {"a": 2}, "sort": {"b": 1}},
    "limit": {"find": "c", "limit": 3}, "limit_not_reached": {"find": "c", "limit": 30}, "index_and_limit": {"find": "c", "filter": {"a": 2}, "limit": 2}, "skip": {"find": "c", "skip": 3},
    "covered": {"find": "c", "filter": {"a": 2}, "projection": {"a": 1, "_id": 0}}, "projection": {"find": "c", "projection": {"b": 1}},
    "count": {"count": "c", "query": {"b": {"$gt": 3}}}, "count_all": {"count": "c"},
    "update": {"update": "c", "updates": [{"q": {"a": 2}, "u": {"$set": {"z": 1}}, "multi": True}]}, "delete": {"delete": "c", "deletes": [{"q": {"a": 2}, "limit": 0}]},
}  # fmt: skip


@pytest.fixture(scope="module")
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        server.run(DATABASE, {"insert": "c", "documents": [{"_id": number, "a": number % 5, "b": number} for number in range(20)]})
        server.run(DATABASE, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    return _subject, _oracle


def figures(stage):
    own = {name: stage[name] for name in FIGURES if name in stage}
    return [own, *(figures(stage["inputStage"]) if "inputStage" in stage else [])]


@pytest.mark.parametrize("name", STATEMENTS)
def test_figures(servers, name):
    def executed(server):
        server.run(DATABASE, {"ping": 1})
        reply = bson.decode(server._wire.command(DATABASE, {"explain": STATEMENTS[name], "verbosity": "executionStats"}))
        statistics = reply["executionStats"]
        return [statistics[total] for total in ("nReturned", "totalKeysExamined", "totalDocsExamined")], figures(statistics["executionStages"]), reply["serverParameters"]

    actual, expected = map(executed, servers)
    assert actual == expected
