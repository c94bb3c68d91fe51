"""Kills the server with SIGKILL at random instants under load; what was acknowledged must be there.

A writer process logs every write before it is sent and when it is acknowledged. After each kill
the server starts again on the same directory, and the model built from the log is compared with
the documents. At the end `meridian check` proves that documents and indexes agree, both ways.

MERIDIAN_CRASH_SEED repeats a run (the instants still vary), MERIDIAN_CRASH_KILLS sets the kills.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pymongo
import pytest
from harness.servers import Meridian

SEED = int(os.environ.get("MERIDIAN_CRASH_SEED", time.time_ns() % 1_000_000))
KILLS = int(os.environ.get("MERIDIAN_CRASH_KILLS", "30"))
WRITER = pathlib.Path(__file__).parent / "writer.py"
DATABASE, COLLECTION = "crash", "c"


def compressed(**options):
    return {"meridian": options}


def indexes(client):
    """Every kind of index, and several of compression, so that a commit touches many trees."""
    collection = client[DATABASE].create_collection(
        COLLECTION, storageEngine=compressed(compression="zstd", compressionLevel=5),
        indexOptionDefaults={"storageEngine": compressed(compression="lz4")},
    )  # fmt: skip
    collection.create_index("n")
    collection.create_index([("tags", 1), ("n", -1)])
    collection.create_index("u", unique=True, sparse=True, storageEngine=compressed(compression="none"))
    collection.create_index([("p", "2dsphere")], storageEngine=compressed(compression="zstd", compressionLevel=5))
    collection.create_index([("s", "hashed")])
    collection.create_index("n", name="part", partialFilterExpression={"n": {"$gt": 500}})


def run_writer(server, log, seed):
    return subprocess.Popen([sys.executable, str(WRITER), server.uri, str(log), str(seed)], stderr=subprocess.PIPE)


def wait_for_acknowledged(log, size_before, writer, seconds_max=60):
    """Returns once the new writer's first write is acknowledged: starting Python takes its time."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline and writer.poll() is None:
        with open(log) as lines:
            lines.seek(size_before)
            if '"event": "done"' in lines.read():
                return
        time.sleep(0.02)
    writer.kill()
    raise AssertionError(f"the writer got nothing acknowledged: {writer.stderr.read().decode()}")


def replay(log):
    """What must be in the collection, and what may be: id -> the versions it may have.

    A version is a document's `n`, or None where it may be absent. An acknowledged write leaves
    exactly one version; a write under way when the server died adds its outcome to them.
    """
    allowed = {}
    pending = {}
    for line in log.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a writer that was cut off
        if entry["event"] == "send":
            pending[entry["number"]] = entry["changes"]
            for identity, version in entry["changes"]:
                allowed.setdefault(identity, {None}).add(version)
        elif entry["event"] == "done":
            for identity, version in pending.pop(entry["number"]):
                allowed[identity] = {version}
    return allowed


def compare(server, allowed, kill):
    found = {document["_id"]: document["n"] for document in server.client[DATABASE][COLLECTION].find({}, {"n": 1})}
    problems = []
    for identity, versions in allowed.items():
        if found.get(identity) not in versions:
            problems.append(f"{identity}: found {found.get(identity)}, acknowledged {versions}")
    unknown = set(found) - set(allowed)
    assert not problems and not unknown, f"seed {SEED}, kill {kill}: {len(problems)} lost or wrong: {problems[:5]}, unknown: {list(unknown)[:5]}"
    return len(found)


def compare_counts(server, kill):
    """What the summaries count is what a walk over the documents counts."""
    collection = server.client[DATABASE][COLLECTION]
    for query in ({"n": {"$gte": 100, "$lt": 700}}, {"n": {"$gte": 0}}, {"_id": {"$gt": 0}}, {"s": {"$exists": True}}):
        counted, walked = collection.count_documents(query), collection.count_documents(query, hint=[("$natural", 1)])
        assert counted == walked, f"seed {SEED}, kill {kill}: {query}: {counted} counted, {walked} there"


def settle(log, server):
    """What the restarted server holds is now the truth: later kills may not change it."""
    found = {document["_id"]: document["n"] for document in server.client[DATABASE][COLLECTION].find({}, {"n": 1})}
    uncertain = [(identity, found.get(identity)) for identity, versions in replay(log).items() if len(versions) > 1]
    number = f"settled-{time.monotonic_ns()}"
    with open(log, "a") as out:
        out.write(json.dumps({"event": "send", "number": number, "changes": uncertain}) + "\n")
        out.write(json.dumps({"event": "done", "number": number}) + "\n")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_acknowledged_writes_survive_kill_9(tmp_path, encrypted):
    print(f"seed {SEED}, {KILLS // 2} kills")
    choice = random.Random(SEED)
    log = tmp_path / "writes.log"
    log.touch()
    server = Meridian(tmp_path / "server", encrypted=encrypted).start()
    try:
        indexes(server.client)
        for kill in range(KILLS // 2):
            size = log.stat().st_size
            server.client.admin.command("fsync")
            writer = run_writer(server, log, SEED * 1000 + kill)
            wait_for_acknowledged(log, size, writer)
            time.sleep(choice.uniform(0, 0.8))
            server.kill()
            server.disconnect()
            writer.wait(30)
            errors = writer.stderr.read().decode()
            assert writer.returncode == 0, errors
            server.start()
            summaries = server.client.admin.command("serverStatus")["rankIndexes"]
            assert (summaries["atStart"], summaries["beingBuilt"]) == ("caughtUp", 0), f"seed {SEED}, kill {kill}: {summaries}"
            documents = compare(server, replay(log), kill)
            compare_counts(server, kill)
            settle(log, server)
            if kill % 10 == 9:
                server.kill()
                server.disconnect()
                result = server.tool("check")
                assert result.returncode == 0, f"seed {SEED}, kill {kill}: {result.stdout}\n{result.stderr}"
                server.start()
        validation = server.client[DATABASE].command("validate", COLLECTION, full=True)
        assert validation["valid"], f"seed {SEED}: {validation['errors']}"
        assert validation["nrecords"] == documents
        assert documents > 100, "the writer hardly wrote anything: the test proves nothing"
        for name, hint in {"n": "n_1", "tags": "tags_1_n_-1", "s": "s_hashed"}.items():
            assert server.client[DATABASE][COLLECTION].count_documents({name: {"$exists": True}}, hint=hint) == documents
    finally:
        server.close()


def build_indexes(uri):
    """Builds two indexes, until they are done or the server is gone."""
    try:
        with pymongo.MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=3000) as client:
            collection = client[DATABASE][COLLECTION]
            collection.create_index("n")
            collection.create_index("tags", storageEngine=compressed(compression="none"))
    except pymongo.errors.PyMongoError:
        pass


def test_kill_during_index_build(tmp_path):
    """An index that was being built is either there and right, or not there."""
    server = Meridian(tmp_path / "server").start()
    choice = random.Random(SEED)
    try:
        collection = server.client[DATABASE][COLLECTION]
        collection.insert_many([{"_id": i, "n": i * 7919 % 10007, "tags": [i % 5, i % 7]} for i in range(20_000)])
        for _ in range(4):
            builder = threading.Thread(target=build_indexes, args=(server.uri,))
            builder.start()
            time.sleep(choice.uniform(0.02, 0.5))
            server.kill()
            server.disconnect()
            builder.join(60)
            result = server.tool("check")
            assert result.returncode == 0, f"seed {SEED}: {result.stdout}\n{result.stderr}"
            server.start()
            collection = server.client[DATABASE][COLLECTION]
            assert collection.count_documents({}) == 20_000
            for name in set(collection.index_information()) - {"_id_"}:
                assert collection.count_documents({}, hint=name) == 20_000
                collection.drop_index(name)
    finally:
        server.close()


def test_kill_during_drops(tmp_path):
    """Collections that were acknowledged as dropped stay dropped, and their space is no index's."""
    server = Meridian(tmp_path / "server").start()
    try:
        for turn in range(5):
            database = server.client["drops"]
            for number in range(5):
                if number % 2 == 0:
                    database.create_collection(f"c{number}", storageEngine=compressed(compression=["none", "lz4", "zstd"][number // 2]))
                database[f"c{number}"].insert_many([{"_id": i, "n": i} for i in range(500)])
                database[f"c{number}"].create_index("n", storageEngine=compressed(compression="lz4"))
            database.drop_collection("c0")
            database["c1"].drop_index("n_1")
            server.client.admin.command("renameCollection", "drops.c2", to=f"drops.renamed{turn}")
            server.kill()
            server.disconnect()
            result = server.tool("check")
            assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
            server.start()
            database = server.client["drops"]
            names = set(database.list_collection_names())
            assert "c0" not in names and "c2" not in names
            assert f"renamed{turn}" in names
            assert set(database["c1"].index_information()) == {"_id_"}
            assert database[f"renamed{turn}"].count_documents({"n": {"$gte": 0}}, hint="n_1") == 500
            database["c1"].drop()
            database["c3"].drop()
            database["c4"].drop()
    finally:
        server.close()
