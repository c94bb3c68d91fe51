"""Kills under writers of every kind at once, on several collections; counts, samples and groups compared with walks.

Commits of several writers reach the write-ahead log as one record, so what a count is after a kill depends on
who wrote beside whom: one writer, or one collection, shows nothing. MERIDIAN_CRASH_SEED repeats a run (the
instants still vary); MERIDIAN_MANY_KILLS sets the kills (`make torture`: 200).
"""

import hashlib
import os
import random
import subprocess
import sys
import time

import pytest
from harness.servers import Meridian
from test_crash import SEED

import many_writers

KILLS = int(os.environ.get("MERIDIAN_MANY_KILLS", "20"))


def prepare(server):
    database = server.client[many_writers.DATABASE]
    choice = random.Random(SEED)
    for name in ("updated", "mixed", "grown", "unique"):
        collection = database[name]
        collection.create_index("n")
        collection.create_index([("tags", 1), ("n", -1)])
        collection.create_index([("p", "2dsphere")])
        collection.create_index([("$**", 1)])
        collection.create_index([("n", 1), ("words", "text"), ("u", -1)])
        collection.create_index([("n", 1), ("u", 1)], storageEngine={"meridian": {"compression": "none"}})
        if name != "unique":
            collection.insert_many([many_writers.document(choice, at) for at in range(many_writers.DOCUMENTS)])
    database["unique"].create_index("u", unique=True)
    series = server.client[many_writers.SERIES]
    series.create_collection("measured", timeseries={"timeField": "t", "metaField": "m"})
    series["measured"].create_index("m.s", partialFilterExpression={"v": {"$gt": 1.5}})
    series.create_collection("passing", timeseries={"timeField": "t"})
    logged = database.create_collection("logged", capped=True, size=1_000_000, max=many_writers.LOGGED_MAX)
    logged.create_index("n")
    logged.create_index([("tags", 1), ("n", -1)])
    # Its entries stay in their places and get other values.
    database["updated"].create_index("tags", name="clustering", clustering=True)
    database["expiring"].create_index("at", expireAfterSeconds=0)
    database["expiring"].create_index("n")
    database["ledger"].create_index("n")
    database["large"].create_index("n", clustering=True)


def wait_for_ledger(log, writer, seconds_max=60):
    """Returns once the new writers have got something acknowledged."""
    size, deadline = log.stat().st_size, time.monotonic() + seconds_max
    while log.stat().st_size == size:
        assert writer.poll() is None, writer.stderr.read().decode()
        assert time.monotonic() < deadline, "the writers got nothing acknowledged"
        time.sleep(0.01)


def walked(collection, query):
    return sum(1 for _ in collection.find(query, {"_id": 1}, hint=[("$natural", 1)]))


def compare_users(server, lines, where):
    """Each user is as it was acknowledged last, or as what was begun since would make it."""
    possible = {}
    for event, name, number in lines:
        if event == "done":
            possible[name] = {number}
        else:
            possible.setdefault(name, {"none"}).add(number)
    users = server.client[many_writers.DATABASE].command("usersInfo", 1)["users"]
    there = {user["user"]: str(user["customData"]["number"]) for user in users}
    for name, numbers in possible.items():
        assert there.get(name, "none") in numbers, f"{where}: {name} is {there.get(name)}, not one of {numbers}"
    stored = server.client.admin["system.users"]
    assert len(users) == stored.count_documents({}) == stored.count_documents({"user": {"$gte": ""}}, hint="user_1_db_1"), where
    # A kill may come before there are any.
    there = server.client.admin.list_collection_names()
    for name in {"system.users", "system.roles"}.intersection(there):
        report = server.client.admin.command("validate", name, full=True)
        assert report["valid"], f"{where}: {name}: {report['errors']}"


def compare_series(server, acknowledged, where):
    """Each acknowledged measurement is there once, and bounds of the time find what a walk finds."""
    database = server.client[many_writers.SERIES]
    measured = list(database["measured"].find())
    ids = [document["id"] for document in measured if "id" in document]
    assert len(ids) == len(set(ids)), f"{where}: measurements are there twice"
    lost = set(acknowledged) - set(ids)
    assert not lost, f"{where}: {len(lost)} acknowledged measurements are lost: {list(lost)[:5]}"
    times = sorted(document["t"] for document in measured)
    for low, high in ((0, 1), (0.3, 0.4), (0.5, 0.501), (0.9, 1)):
        start, end = (times[int(share * (len(times) - 1))] for share in (low, high))
        there = sum(start <= document["t"] < end and document["m"]["s"] < 7 for document in measured)
        found = database["measured"].count_documents({"t": {"$gte": start, "$lt": end}, "m.s": {"$lt": 7}})
        assert found == there, f"{where}: {found} measurements found from {start} to {end}, {there} there"
    area = {"$geoWithin": {"$box": [[-30, -30], [30, 30]]}}
    there = sum("p" in document and all(abs(part) <= 30 for part in document["p"]) for document in measured)
    found = database["measured"].count_documents({"p": area})
    assert found == there, f"{where}: {found} measurements found in an area, {there} there"
    there = sum(document["m"]["s"] < 7 and document.get("v") == 2.5 for document in measured)
    found = database["measured"].count_documents({"m.s": {"$lt": 7}, "v": {"$gt": 2}})
    assert found == there, f"{where}: {found} measurements of more than 2 found, {there} there"
    for name in database.list_collection_names(filter={"type": "timeseries"}):
        report = database.command("validate", f"system.buckets.{name}", full=True)
        assert report["valid"], f"{where}: {name}: {report['errors']}"


def compare_logged(server, lines, where):
    """A capped collection is full, and holds each writer's newest documents, in the order in which it wrote them."""
    there = list(server.client[many_writers.DATABASE]["logged"].find())
    acknowledged = {writer: int(number) for _, writer, number in lines}
    written = sum(number + 1 for number in acknowledged.values())
    assert min(written, many_writers.LOGGED_MAX) <= len(there) <= many_writers.LOGGED_MAX, f"{where}: {len(there)} documents are logged"
    numbers = {}
    for document in there:
        numbers.setdefault(f"{document['seed']}-{document['writer']}", []).append(document["number"])
    for writer, own in numbers.items():
        assert own == list(range(own[0], own[0] + len(own))), f"{where}: {writer} logged {own}"
        assert own[-1] >= acknowledged.get(writer, -1), f"{where}: of {writer} {own[-1]} is the newest, {acknowledged[writer]} was acknowledged"
    newest = lines[-1][1] if lines else None
    assert newest is None or newest in numbers or len(there) == many_writers.LOGGED_MAX, f"{where}: nothing is left of {newest}"


def compare(server, log, where):
    database = server.client[many_writers.DATABASE]
    there = {document["_id"] for document in database["ledger"].find({}, {"_id": 1})}
    lines = log.read_text().split("\n")[:-1]
    lost = {line for line in lines if " " not in line} - there
    assert not lost, f"{where}: {len(lost)} acknowledged documents are lost: {list(lost)[:5]}"
    told = [line.split() for line in lines if " " in line]
    compare_users(server, [line for line in told if line[0] in ("begun", "done")], where)
    compare_logged(server, [line for line in told if line[0] == "logged"], where)
    compare_series(server, [line[1] for line in told if line[0] == "measured"], where)
    for query in ({}, {"n": {"$gte": 0}}):
        for document in database["large"].find(query):
            assert hashlib.sha256(document["content"]).digest() == document["digest"], f"{where}: {query}: {document['_id']}"
    for name in database.list_collection_names():
        collection = database[name]
        for query in ({}, {"_id": {"$gte": 0, "$lt": 400}}, {"n": {"$gte": 100, "$lt": 700}}, {"tags": 3}):
            counted, there = collection.count_documents(query), walked(collection, query)
            assert counted == there, f"{where}: {name}: {query}: {counted} counted, {there} there"
        groups = collection.aggregate([{"$group": {"_id": "$n", "count": {"$sum": 1}}}])
        total, there = sum(group["count"] for group in groups), walked(collection, {})
        assert total == there, f"{where}: {name}: groups of {total}, {there} there"
        sample = [one["_id"] for one in collection.aggregate([{"$match": {"n": {"$gte": 0}}}, {"$sample": {"size": 200}}])]
        assert len(sample) == len(set(sample)), f"{where}: {name}: a sample has duplicates"
        assert len(sample) == min(200, walked(collection, {"n": {"$gte": 0}})), f"{where}: {name}: a sample lacks documents"
        report = database.command("validate", name, full=True)
        assert report["valid"], f"{where}: {name}: {report['errors']}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_counts_of_many_writers_survive_kills(tmp_path, encrypted):
    print(f"seed {SEED}, {KILLS // 2} kills")
    choice = random.Random(SEED)
    log = tmp_path / "acknowledged.log"
    log.touch()
    server = Meridian(tmp_path / "server", encrypted=encrypted).start()
    try:
        prepare(server)
        for kill in range(KILLS // 2):
            where = f"seed {SEED}, kill {kill}"
            server.client.admin.command("fsync")
            arguments = [sys.executable, many_writers.__file__, server.uri, str(log), f"{SEED}-{kill}"]
            writer = subprocess.Popen(arguments, stderr=subprocess.PIPE)
            wait_for_ledger(log, writer)
            time.sleep(choice.uniform(0.2, 1.5))
            server.kill()
            server.disconnect()
            writer.wait(60)
            assert writer.returncode == 0, f"{where}: {writer.stderr.read().decode()}"
            server.start()
            summaries = server.client.admin.command("serverStatus")["rankIndexes"]
            assert summaries["atStart"] in ("caughtUp", "saved"), f"{where}: {summaries}"
            compare(server, log, where)
            audit = server.client.admin.command("serverStatus")["rankIndexes"]["audit"]
            assert audit["disagreements"] == 0, f"{where}: {audit}"
            # Nor may they grow without end.
            for name in ("grown", "unique", "merged"):
                server.client[many_writers.DATABASE][name].delete_many({"n": {"$gte": 100}})
        server.terminate()
        server.disconnect()
        result = server.tool("check")
        assert result.returncode == 0, f"seed {SEED}: {result.stdout}\n{result.stderr}"
    finally:
        server.close()
