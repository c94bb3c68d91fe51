"""What runs can be seen and ended: currentOp, killOp, top."""

import threading

import pymongo
import pytest
from harness.servers import Meridian

# A count that would take minutes: each of the documents costs about a millisecond.
ENDLESS = {"$expr": {"$lt": [{"$sum": {"$map": {"input": {"$range": [0, 2000]}, "in": {"$multiply": ["$$this", 2]}}}}, 0]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Meridian(tmp_path_factory.mktemp("operations") / "server") as running:
        collection = running.client["db"]["c"]
        collection.insert_many([{"_id": number, "a": number % 1000} for number in range(200_000)])
        yield running


class Started:
    """A command in a thread of its own, with what came of it."""

    def __init__(self, server, command, client=None):
        self.failure, self.reply = None, None
        self.client, self.own = client or server.connect(), client is None
        self.thread = threading.Thread(target=self._run, args=(command,))
        self.thread.start()

    def _run(self, command):
        try:
            self.reply = self.client["db"].command(command)
        except pymongo.errors.OperationFailure as failure:
            self.failure = failure

    def end(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.own:
            self.client.close()


def running(server, **wanted):
    """The first operation that looks so, as soon as there is one; none if 10,000 looks find none."""
    for _ in range(10_000):
        found = server.client.admin.command({"currentOp": 1, "ns": "db.c", **wanted})["inprog"]
        if found:
            return found[0]
    return None


@pytest.mark.parametrize("command", [
    {"count": "c", "query": ENDLESS},
    {"find": "c", "filter": ENDLESS},
    {"aggregate": "c", "pipeline": [{"$match": ENDLESS}, {"$group": {"_id": "$a"}}], "cursor": {}},
    {"update": "c", "updates": [{"q": ENDLESS, "u": {"$set": {"x": 1}}, "multi": True}]},
    {"delete": "c", "deletes": [{"q": ENDLESS, "limit": 0}]},
], ids=lambda command: next(iter(command)))  # fmt: skip
def test_kill(server, command):
    name = next(iter(command))
    started = Started(server, command)
    seen = running(server, **{f"command.{name}": "c"})
    assert seen["active"] and seen["command"][name] == "c" and seen["microsecs_running"] >= 0
    assert seen["op"] == {"find": "query", "update": "update", "delete": "remove"}.get(name, "command")
    other = server.client.admin.command("killOp", op=seen["opid"] + 1_000_000)
    assert other == {"info": "attempting to kill op", "ok": 1.0}
    server.client.admin.command("killOp", op=seen["opid"])
    started.end()
    assert (started.failure.code, started.failure.details["codeName"]) == (11601, "Interrupted")
    assert server.client["db"]["c"].count_documents({}) == 200_000


def test_kill_of_a_later_batch(server):
    """The first batch knows of a second document; the batch after it looks for a third."""
    client = server.connect()
    found = client["db"].command({"find": "c", "filter": {"$or": [{"_id": {"$in": [0, 1]}}, ENDLESS]}, "batchSize": 1})
    cursor = found["cursor"]["id"]
    assert cursor != 0 and found["cursor"]["firstBatch"][0]["_id"] == 0
    # A cursor belongs to its session, which the client takes again.
    started = Started(server, {"getMore": cursor, "collection": "c"}, client)
    seen = running(server, op="getmore")
    server.client.admin.command("killOp", op=seen["opid"])
    started.end()
    assert started.failure.code == 11601
    with pytest.raises(pymongo.errors.OperationFailure) as gone:
        client["db"].command({"getMore": cursor, "collection": "c"})
    assert gone.value.code == 43
    client.close()


def test_index_build_shows_how_far_it_is_and_can_be_killed(server):
    """A build may be over before it is seen; then it is built again."""
    for _ in range(20):
        started = Started(server, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        seen = running(server, progress={"$exists": True}, **{"command.createIndexes": "c"})
        if seen is not None:
            break
        started.end()
        server.client["db"]["c"].drop_indexes()
    assert 0 < seen["progress"]["done"] <= seen["progress"]["total"] == 200_000
    assert seen["msg"].startswith("Index Build: ")
    server.client.admin.command("killOp", op=seen["opid"])
    started.end()
    listed = [index["name"] for index in server.client["db"]["c"].list_indexes()]
    if started.failure is None:
        assert listed == ["_id_", "a"], "it was complete before the kill reached it"
    else:
        assert started.failure.code == 11601 and listed == ["_id_"]


def test_top_counts_uses_by_collection(server):
    collection = server.client["db"]["used"]
    collection.insert_one({"_id": 1})
    collection.update_one({"_id": 1}, {"$set": {"a": 1}})
    list(collection.find())
    collection.delete_one({"_id": 1})
    used = server.client.admin.command("top")["totals"]["db.used"]
    counts = {kind: used[kind]["count"] for kind in used}
    assert counts == {
        "total": 4, "readLock": 1, "writeLock": 3, "queries": 1, "getmore": 0,
        "insert": 1, "update": 1, "remove": 1, "commands": 0,
    }  # fmt: skip
    assert used["total"]["time"] == used["readLock"]["time"] + used["writeLock"]["time"]
