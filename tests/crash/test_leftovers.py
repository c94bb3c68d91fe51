"""What a killed server leaves behind of its own making is removed at the next start; what users made stays,
whatever its name."""

import threading
import time

import pymongo
import pytest
from harness.servers import Meridian

PREFIX = "tmp.agg_out."
OBJECT_ID = "65f0c0ffee65f0c0ffee65f0"


@pytest.fixture
def server(tmp_path):
    with Meridian(tmp_path / "server") as running:
        yield running


def restart(server, how):
    getattr(server.process, how)()
    server.process.wait(30)
    server.disconnect()
    server.start()


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_users_collections_with_the_names_of_outputs_stay(server, how):
    database = server.client["db"]
    database[PREFIX + OBJECT_ID].insert_one({"_id": 1})
    database[PREFIX + "mine"].insert_one({"_id": 2})
    database.create_collection(PREFIX + "empty")
    database["other"].insert_one({"_id": 3})
    database["other"].rename(PREFIX + "renamed")
    database["source"].insert_many([{"_id": i} for i in range(10)])
    database["source"].aggregate([{"$out": PREFIX + "output"}])
    database["source"].aggregate([{"$out": "output"}])
    before = sorted(database.list_collection_names())
    for _ in range(2):
        restart(server, how)
        database = server.client["db"]
        assert sorted(database.list_collection_names()) == before
        assert database[PREFIX + "renamed"].find_one() == {"_id": 3}
        assert database[PREFIX + OBJECT_ID].find_one() == {"_id": 1}
        assert database[PREFIX + "output"].count_documents({}) == database["output"].count_documents({}) == 10


def begin_output(server):
    """Runs a `$out` that takes long; returns the name of the collection it fills."""
    database = server.client["db"]
    database["source"].insert_many([{"_id": i, "text": "x" * 200} for i in range(30_000)])
    database["source"].create_index("text")
    database["target"].insert_one({"_id": "old"})
    database["target"].create_index("text")

    def work():
        try:
            stages = [{"$unwind": "$n"}, {"$project": {"_id": 0, "n": 1, "text": 1}}, {"$out": "target"}]
            numbers = {"$addFields": {"n": {"$range": [0, 1000]}}}
            server.connect()["db"]["source"].aggregate([numbers, *stages])
        except pymongo.errors.PyMongoError:
            pass  # The server is killed.

    threading.Thread(target=work, daemon=True).start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for name in database.list_collection_names():
            if name.startswith(PREFIX) and database[name].estimated_document_count() > 1000:
                return name
        time.sleep(0.02)
    raise AssertionError("$out does not fill a collection")


def test_an_interrupted_output_is_removed(server):
    name = begin_output(server)
    restart(server, "kill")
    database = server.client["db"]
    assert sorted(database.list_collection_names()) == ["source", "target"], name
    assert database["target"].find_one() == {"_id": "old"}
    assert name in server.log.read_text(encoding="utf-8", errors="replace")


def test_an_output_under_way_that_a_user_renames_is_the_users(server):
    name = begin_output(server)
    server.client["db"][name].rename("taken")
    # What the output would write next must not make a collection of the old name.
    time.sleep(0.5)
    assert sorted(server.client["db"].list_collection_names()) == ["source", "taken", "target"]
    restart(server, "kill")
    database = server.client["db"]
    assert sorted(database.list_collection_names()) == ["source", "taken", "target"]
    assert database["taken"].estimated_document_count() > 1000
