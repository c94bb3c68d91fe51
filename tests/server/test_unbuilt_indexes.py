"""Indexes of kinds that are not there: refused, or listed without being built where the server was told so."""

import subprocess

import pymongo
import pytest
from harness.servers import MERIDIAN, Meridian

OPTION = "--accept-unbuilt-indexes"
# As mongodump writes them down.
TEXT = {"v": 2, "key": {"_fts": "text", "_ftsx": 1}, "name": "title_text", "weights": {"title": 10, "body": 1}, "default_language": "english", "language_override": "language", "textIndexVersion": 2}
HAWAIIAN = {"v": 2, "key": {"city": 1}, "name": "all", "collation": {"locale": "haw"}}
EMOJI = {"v": 2, "key": {"mood": 1}, "name": "below", "collation": {"locale": "en@collation=emoji"}}
COLLATED = {"v": 2, "key": {"name": 1}, "name": "german", "collation": {"locale": "de@collation=search", "strength": 2}}
PLAIN = {"v": 2, "key": {"a": 1}, "name": "a_1"}
KINDS = {"text": TEXT, "hawaiian": HAWAIIAN, "emoji": EMOJI, "collated": COLLATED}
UNBUILT = [TEXT, HAWAIIAN, EMOJI, COLLATED]


def create(server, *indexes, **more):
    return server.client["db"].command({"createIndexes": "c", "indexes": list(indexes), **more})


def listed(server, name="c"):
    return [dict(index) for index in server.client["db"][name].list_indexes()]


def refusal(action):
    with pytest.raises(pymongo.errors.OperationFailure) as refused:
        action()
    return refused.value


@pytest.fixture
def server(tmp_path):
    with Meridian(tmp_path / "server", [OPTION]) as server:
        server.client["db"]["c"].insert_many([{"_id": i, "a": i, "name": str(i), "title": "x"} for i in range(20)])
        yield server


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_they_are_refused_by_name(subject, kind):
    error = refusal(lambda: create(subject, KINDS[kind]))
    assert error.code == 238 and "not implemented" in error.details["errmsg"]
    subject.client.drop_database("db")


def test_they_are_listed_as_they_came_and_survive_a_start(server):
    reply = create(server, TEXT, PLAIN, HAWAIIAN, EMOJI, COLLATED)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 6)
    assert all(index["name"] in reply["note"] for index in UNBUILT) and "a_1" not in reply["note"]
    expected = [PLAIN, *UNBUILT]
    assert listed(server)[1:] == expected
    assert [list(index) for index in listed(server)[1:]] == [list(index) for index in expected]
    again = create(server, TEXT, HAWAIIAN)
    assert again["note"] == "all indexes already exist" and again["numIndexesAfter"] == 6
    assert "title_text" in server.log.read_text() and "not built" in server.log.read_text()
    server.disconnect()
    assert server.terminate() == 0
    checked = server.tool("check")
    assert checked.returncode == 0 and "index title_text: 0 entries (not built)" in checked.stdout
    # Without the option too: what was accepted stays.
    server.arguments.remove(OPTION)
    server.start()
    assert listed(server)[1:] == expected
    assert refusal(lambda: create(server, {**TEXT, "name": "another"})).code == 238
    server.client["db"].command("dropIndexes", "c", index="title_text")
    assert listed(server)[1:] == [PLAIN, *UNBUILT[1:]]


def test_no_query_uses_them(server):
    create(server, PLAIN, *UNBUILT)
    collection = server.client["db"]["c"]
    for index in UNBUILT:
        for hint in (index["name"], list(index["key"].items())):
            for ask in (lambda: list(collection.find({}).hint(hint)), lambda: collection.count_documents({}, hint=hint), lambda: collection.update_one({}, {"$set": {"z": 1}}, hint=hint)):
                error = refusal(ask)
                assert index["name"] in str(error) and "not built" in str(error), error
    assert refusal(lambda: list(collection.find({"$text": {"$search": "x"}}))).code == 27
    assert [document["_id"] for document in collection.find({"name": "7"})] == [7]
    plan = collection.find({"name": "7"}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "COLLSCAN"


def test_an_index_that_is_built_may_have_the_same_key(server):
    create(server, COLLATED, {"key": {"name": 1}, "name": "name_1"})
    collection = server.client["db"]["c"]
    assert collection.find({"name": "7"}).hint([("name", 1)]).explain()["executionStats"]["totalKeysExamined"] == 1
    assert "not built" in str(refusal(lambda: list(collection.find().hint("german"))))
    error = refusal(lambda: server.client["db"].command("dropIndexes", "c", index={"name": 1}))
    assert "2 indexes found" in str(error)


def test_statistics_and_validation(server):
    create(server, PLAIN, *UNBUILT)
    names = ["_id_", "a_1", *(index["name"] for index in UNBUILT)]
    stats = server.client["db"].command("collStats", "c")
    assert list(stats["indexSizes"]) == names and stats["nindexes"] == 6
    assert all(stats["indexSizes"][index["name"]] == 0 and stats["indexDetails"][index["name"]] == {"unbuilt": True} for index in UNBUILT)
    assert server.client["db"].command("dbStats")["indexes"] == 6
    validated = server.client["db"].validate_collection("c", full=True)
    assert validated["valid"] and validated["nIndexes"] == 6 and list(validated["keysPerIndex"]) == names
    assert len(validated["warnings"]) == 4 and "title_text" in validated["warnings"][0]
    rows = list(server.client["db"]["c"].aggregate([{"$indexStats": {}}]))
    assert [row["name"] for row in rows] == names
    assert [row.get("unbuilt", False) for row in rows] == [False, False, True, True, True, True]
    assert all(row["accesses"]["ops"] == 0 and row["spec"]["name"] == row["name"] for row in rows)


def test_writes_and_renames_go_on(server):
    create(server, PLAIN, *UNBUILT)
    database = server.client["db"]
    database["c"].insert_one({"_id": 100, "name": "7"})
    database["c"].update_many({}, {"$set": {"title": "y"}})
    database["c"].delete_many({"a": {"$gt": 5}})
    database["c"].aggregate([{"$match": {}}, {"$out": "c"}])
    assert listed(server)[1:] == [PLAIN, *UNBUILT]
    database["c"].rename("d")
    assert listed(server, "d")[1:] == [PLAIN, *UNBUILT]
    assert database.command("dropIndexes", "d", index="*")["nIndexesWas"] == 6
    assert listed(server, "d")[1:] == []
    assert database.validate_collection("d")["valid"]


def test_dropping(server):
    create(server, PLAIN, *UNBUILT)
    database = server.client["db"]
    database.command("dropIndexes", "c", index=["all", "a_1"])
    database.command("dropIndexes", "c", index={"_fts": "text", "_ftsx": 1})
    assert listed(server)[1:] == [EMOJI, COLLATED]
    assert refusal(lambda: database.command("dropIndexes", "c", index="all")).code == 27


CONFLICTS = {
    "name_of_a_built_one": ({**TEXT, "name": "a_1"}, 86),
    "name_of_an_unbuilt_one": ({**HAWAIIAN, "name": "title_text"}, 86),
    "built_with_the_name_of_an_unbuilt_one": ({"key": {"b": 1}, "name": "title_text"}, 86),
    "same_key": ({**TEXT, "name": "other"}, 85),
    "other_options": ({**TEXT, "weights": {"title": 1}}, 86),
    "unique": ({"key": {"n": 1}, "name": "n", "collation": {"locale": "de@collation=search"}, "unique": True}, 238),
    "expiry": ({"key": {"n": 1}, "name": "n", "collation": {"locale": "de@collation=search"}, "expireAfterSeconds": 1}, 238),
    "unknown_field": ({"key": {"n": "text"}, "name": "n", "color": "red", "textIndexVersion": 2}, 197),
    "no_name": ({"key": {"n": "text"}, "name": "", "textIndexVersion": 2}, 67),
    "reserved_name": ({"key": {"n": "text"}, "name": "_id_", "textIndexVersion": 2}, 2),
    "key_too_large": ({"key": {"n" * 3000: "text"}, "name": "n", "textIndexVersion": 2}, 67),
    "definition_too_large": ({"key": {"n": "text"}, "name": "n", "weights": {"n" * 70_000: 1}, "textIndexVersion": 2}, 67),
    "haystack": ({"key": {"n": "geoHaystack", "m": 1}, "name": "n", "bucketSize": 1}, 67),
    "unknown_kind": ({"key": {"n": "fulltext"}, "name": "n"}, 67),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_is_refused_all_the_same(server, name):
    create(server, PLAIN, *UNBUILT)
    index, code = CONFLICTS[name]
    assert refusal(lambda: create(server, {"key": {"fine": 1}, "name": "fine"}, index)).code == code
    assert listed(server)[1:] == [PLAIN, *UNBUILT], "all or none"


def test_changes_are_refused_by_name(server):
    create(server, TEXT)
    for index in ({"name": "title_text"}, {"keyPattern": {"_fts": "text", "_ftsx": 1}}):
        error = refusal(lambda: server.client["db"].command({"collMod": "c", "index": {**index, "hidden": True}}))
        assert error.code == 238 and "title_text" in str(error)


def test_there_are_no_more_of_all_kinds_than_mongodbs_limit(server):
    old = {"textIndexVersion": 2}
    create(server, *({"key": {f"f{n}": "text"}, "name": f"t{n}", **old} for n in range(60)))
    error = refusal(lambda: create(server, PLAIN, *({"key": {f"g{n}": "text"}, "name": f"u{n}", **old} for n in range(3))))
    assert error.code == 67 and "too many indexes" in str(error)
    assert create(server, PLAIN, {"key": {"g0": "text"}, "name": "u0", **old}, {"key": {"h": 1}, "name": "h"})["numIndexesAfter"] == 64


def test_a_build_that_fails_lists_none(server):
    server.client["db"]["c"].insert_one({"_id": 500, "a": 1})
    error = refusal(lambda: create(server, TEXT, {"key": {"a": 1}, "name": "a_1", "unique": True}))
    assert error.code == 11000
    assert listed(server)[1:] == []


@pytest.mark.parametrize("arguments,config,accepts", [
    ([OPTION], "", True), ([f"{OPTION}=true"], "", True), ([f"{OPTION}=false"], "accept-unbuilt-indexes = true", False),
    ([], "accept-unbuilt-indexes = true", True), ([], "accept-unbuilt-indexes = false", False),
])  # fmt: skip
def test_the_option(tmp_path, arguments, config, accepts):
    file = tmp_path / "meridian.toml"
    file.write_text(config)
    with Meridian(tmp_path / "server", [*arguments, "--config", str(file)]) as server:
        if accepts:
            assert "title_text" in create(server, TEXT)["note"]
        else:
            assert refusal(lambda: create(server, TEXT)).code == 238


def test_the_help_names_it():
    shown = subprocess.run([str(MERIDIAN), "serve", "--help"], capture_output=True, text=True, timeout=30).stdout
    assert OPTION in shown
