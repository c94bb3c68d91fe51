"""What monitors read: after known work the totals of both servers have grown by the same."""

import threading
import time

import pytest
from bson.int64 import Int64

DATABASE = "diff_monitoring"
# Matches nothing, and takes long to find that out.
HEAVY = {"$expr": {"$gt": [{"$sum": {"$range": [0, {"$add": [3000, {"$mod": ["$_id", 2]}]}]}}, 1e12]}}
TOTALS = ("opcounters", "opLatencies", "metrics.commands", "metrics.document", "metrics.cursor.open", "metrics.operation.scanAndOrder")
# What was examined depends on the plan; here both servers look at the same.
EXAMINED = ("metrics.queryExecutor",)


def number(text):
    return float(text[text.index("(") + 1 : -1])


def flat(document, prefix=""):
    """Every number of a canonical document by its dotted path."""
    numbers = {}
    for name, value in document:
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, list):
            numbers.update(flat(value, path) if value and isinstance(value[0], tuple) else {})
        elif isinstance(value, str) and value.startswith(("int32(", "int64(", "double(")):
            numbers[path] = number(value)
    return numbers


def totals(server, prefixes):
    status = flat(server.run("admin", {"serverStatus": 1}))
    return {path: value for path, value in status.items() if path.startswith(prefixes) and not path.endswith(".latency")}


def growth(server, commands, prefixes):
    before = totals(server, prefixes)
    for command in commands:
        server.run(DATABASE, command(server) if callable(command) else command)
    after = totals(server, prefixes)
    return {path: value - before.get(path, 0) for path, value in after.items() if value != before.get(path, 0)}


@pytest.fixture
def filled(pair):
    for server in (pair.subject, pair.oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        documents = [{"_id": i, "a": i, "b": i % 5, "s": "x"} for i in range(200)]
        server.run(DATABASE, {"insert": "c", "documents": documents})
        server.run(DATABASE, {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    yield pair
    for server in (pair.subject, pair.oracle):
        server.run(DATABASE, {"dropDatabase": 1})


def read_on(**more):
    """A find in two batches, the second of which is closed or read to its end."""

    def command(server):
        reply = server.run(DATABASE, {"find": "c", "filter": {}, "batchSize": 5, **more})
        cursor = Int64(int(reply.get("cursor").get("id")[6:-1]))
        server.run(DATABASE, {"getMore": cursor, "collection": "c", "batchSize": 5})
        return {"killCursors": "c", "cursors": [cursor]}

    return command


WORK = {
    "insert": [{"insert": "c", "documents": [{"_id": 1000 + i} for i in range(7)]}],
    "insert_refused": [{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 2000}], "ordered": False}, {"insert": "c", "documents": [{"_id": 3000}, {"_id": 2}, {"_id": 3001}]}],
    "find": [{"find": "c", "filter": {"a": {"$lt": 9}}}, {"find": "c", "filter": {"_id": 3}}, {"find": "missing"}],
    "find_sorted": [{"find": "c", "sort": {"s": 1}, "limit": 3}, {"find": "c", "filter": {"a": {"$gt": 5}}, "sort": {"a": 1}}],
    "batches": [read_on()],
    "batches_kept": [lambda server: {"find": "c", "batchSize": 2, "noCursorTimeout": True}],
    "count": [{"count": "c", "query": {"a": {"$gt": 4}}}, {"count": "c"}, {"distinct": "c", "key": "b"}],
    "aggregate": [{"aggregate": "c", "pipeline": [{"$match": {"a": {"$gt": 180}}}, {"$sort": {"s": 1}}], "cursor": {}}],
    "update": [{"update": "c", "updates": [{"q": {"a": {"$lt": 9}}, "u": {"$set": {"z": 1}}, "multi": True}, {"q": {"_id": 1}, "u": {"$set": {"z": 1}}}, {"q": {"_id": 9}, "u": {"$inc": {"s": 1}}}]}],
    "upsert": [{"update": "c", "updates": [{"q": {"_id": 5000}, "u": {"$set": {"z": 1}}, "upsert": True}]}],
    "delete": [{"delete": "c", "deletes": [{"q": {"a": {"$gt": 190}}, "limit": 0}, {"q": {"a": -1}, "limit": 1}]}],
    "find_and_modify": [
        {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"q": 1}}},
        {"findandmodify": "c", "query": {"_id": 1}, "update": {"$set": {"q": 1}}},
        {"findAndModify": "c", "query": {"_id": 2}, "remove": True},
        {"findAndModify": "c", "query": {"_id": 6000}, "update": {"$set": {"q": 1}}, "upsert": True},
        {"findAndModify": "c", "query": {"_id": 7000}, "remove": True},
        {"findAndModify": "c", "query": {"_id": 3}, "update": {"$inc": {"s": 1}}},
    ],
    "refused": [{"find": "c", "filter": {"$foo": 1}}, {"find": "c", "unknown": 1}, {"noSuchCommand": 1}, {"noSuchCommand": 1}],
    "by_other_names": [{"ismaster": 1}, {"isMaster": 1}, {"hello": 1}, {"buildinfo": 1}, {"collstats": "c"}, {"dbstats": 1}, {"deleteIndexes": "c", "index": "a_1"}],
    "administration": [{"create": "d"}, {"listCollections": 1}, {"listIndexes": "c"}, {"drop": "d"}, {"ping": 1}],
    "explain": [{"explain": {"find": "c", "filter": {"a": 3}}, "verbosity": "executionStats"}, {"explain": {"update": "c", "updates": [{"q": {"a": 3}, "u": {"$set": {"y": 1}}}]}, "verbosity": "executionStats"}],
}  # fmt: skip
WRITES = {
    "out": [{"aggregate": "c", "pipeline": [{"$match": {"a": {"$lt": 9}}}, {"$out": "o"}], "cursor": {}}],
    "merge": [{"aggregate": "c", "pipeline": [{"$match": {"a": {"$lt": 9}}}, {"$merge": "o"}], "cursor": {}}] * 2,
}


@pytest.mark.parametrize("work", WORK)
def test_totals(filled, work):
    grown = [growth(server, WORK[work], TOTALS) for server in (filled.subject, filled.oracle)]
    assert grown[0] == grown[1]


@pytest.mark.parametrize("work", WRITES)
def test_totals_of_output(filled, work):
    """mongod says that documents that `$out` and `$merge` wrote were returned: nobody got them."""
    grown = [growth(server, WRITES[work], TOTALS) for server in (filled.subject, filled.oracle)]
    grown[1].pop("metrics.document.returned")
    assert grown[0] == grown[1]


def test_cursors_are_counted(filled):
    names = ("metrics.cursor.totalOpened", "metrics.cursor.moreThanOneBatch")
    grown = [growth(server, [read_on(), {"find": "c", "batchSize": 2, "singleBatch": True}], names) for server in (filled.subject, filled.oracle)]
    assert grown[0] == grown[1] == {"metrics.cursor.totalOpened": 1, "metrics.cursor.moreThanOneBatch": 1}


@pytest.mark.parametrize("command", [
    {"find": "c", "filter": {"a": {"$gt": 180}}},
    {"find": "c", "filter": {"a": {"$gt": 180}}, "projection": {"_id": 0, "a": 1}},
    {"find": "c", "filter": {"s": "y"}, "batchSize": 1000},
    {"find": "c", "filter": {"_id": 3}},
    {"find": "c", "filter": {"_id": -1}},
    {"find": "c", "filter": {"_id": 3, "a": 3}},
    {"update": "c", "updates": [{"q": {"a": {"$gt": 180}}, "u": {"$set": {"y": 1}}, "multi": True}]},
    {"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]},
    {"findAndModify": "c", "query": {"a": 12}, "update": {"$set": {"y": 1}}},
    {"aggregate": "c", "pipeline": [{"$match": {"a": {"$gt": 180}}}, {"$set": {"z": 1}}], "cursor": {}},
    {"explain": {"find": "c", "filter": {"a": 3}}, "verbosity": "executionStats"},
], ids=lambda command: next(iter(command)))  # fmt: skip
def test_what_was_examined(filled, command):
    grown = [growth(server, [command], EXAMINED) for server in (filled.subject, filled.oracle)]
    assert grown[0] == grown[1]


def test_latencies_are_those_of_the_commands(filled):
    """A command that takes long adds at least as long to its class, and nothing to the others."""
    server = filled.subject
    server.run(DATABASE, {"insert": "slow", "documents": [{"_id": i} for i in range(3000)]})
    for command, name in [({"find": "slow", "filter": HEAVY}, "reads"), ({"delete": "slow", "deletes": [{"q": HEAVY, "limit": 0}]}, "writes")]:
        before = flat(server.run("admin", {"serverStatus": 1}).get("opLatencies"))
        started = time.monotonic()
        server.run(DATABASE, command)
        took = (time.monotonic() - started) * 1e6
        after = flat(server.run("admin", {"serverStatus": 1}).get("opLatencies"))
        grown = {path: after[path] - before[path] for path in after}
        assert 0.5 * took < grown[f"{name}.latency"] <= took, (grown, took)
        assert grown["reads.ops" if name == "writes" else "writes.ops"] == 0
        assert grown["transactions.ops"] == 0


def test_write_conflicts_are_counted(filled):
    server = filled.subject
    server.run(DATABASE, {"insert": "hot", "documents": [{"_id": 1, "n": 0}]})
    before = totals(server, ("metrics.operation",))["metrics.operation.writeConflicts"]

    def increment():
        collection = server.client[DATABASE]["hot"]
        for _ in range(400):
            collection.update_one({"_id": 1}, {"$inc": {"n": 1}})

    threads = [threading.Thread(target=increment) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert server.client[DATABASE]["hot"].find_one()["n"] == 3200
    assert totals(server, ("metrics.operation",))["metrics.operation.writeConflicts"] > before




@pytest.mark.parametrize("command,who", [
    ({"findAndModify": "busy", "query": HEAVY, "update": {"$set": {"x": 1}}}, "writers"),
    ({"update": "busy", "updates": [{"q": HEAVY, "u": {"$set": {"x": 1}}}]}, "writers"),
    ({"aggregate": "busy", "pipeline": [{"$match": HEAVY}, {"$out": "out"}], "cursor": {}}, "writers"),
    ({"aggregate": "busy", "pipeline": [{"$match": HEAVY}, {"$merge": "out"}], "cursor": {}}, "writers"),
    ({"aggregate": "busy", "pipeline": [{"$match": HEAVY}], "cursor": {}}, "readers"),
    ({"find": "busy", "filter": HEAVY}, "readers"),
], ids=["findAndModify", "update", "out", "merge", "aggregate", "find"])  # fmt: skip
def test_active_clients(filled, command, who):
    server = filled.subject
    server.run(DATABASE, {"insert": "busy", "documents": [{"_id": i} for i in range(5000)]})
    seen = []
    done = threading.Event()

    def watch():
        client = server.connect()
        while not done.is_set():
            lock = client.admin.command("serverStatus")["globalLock"]
            seen.append((lock["activeClients"]["writers"] + lock["currentQueue"]["writers"], lock["activeClients"]["readers"]))
        client.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not seen:
        time.sleep(0.01)
    server.run(DATABASE, command)
    done.set()
    watcher.join()
    most_writers, most_readers = (max(column) for column in zip(*seen))
    # The one that asks is a reader itself, and so is now and then the driver's monitor.
    assert most_writers == (who == "writers") and most_readers >= (1 if who == "writers" else 2)


def test_long_statements_in_line_are_queued(filled):
    server = filled.subject
    server.run(DATABASE, {"insert": "busy", "documents": [{"_id": i} for i in range(1000)]})
    clients = [server.connect() for _ in range(24)]
    threads = [threading.Thread(target=lambda client=client: list(client[DATABASE]["busy"].find(HEAVY))) for client in clients]
    [thread.start() for thread in threads]
    queued = 0
    while any(thread.is_alive() for thread in threads):
        queue = server.client.admin.command("serverStatus")["globalLock"]["currentQueue"]
        assert queue["total"] == queue["readers"] and queue["writers"] == 0
        queued = max(queued, queue["total"])
    [client.close() for client in clients]
    assert queued > 0
    assert server.client.admin.command("serverStatus")["globalLock"]["currentQueue"]["total"] == 0


@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_bytes_before_and_after_compression(filled, compressor):
    """Requests and replies are counted as they are and as they travel; drivers are left to say how."""
    grown = []
    for server in (filled.subject, filled.oracle):
        with server.connect(compressors=compressor) as client:
            client.admin.command("ping")
            before = flat(server.run("admin", {"serverStatus": 1}).get("network"))
            client[DATABASE].command("insert", "z", documents=[{"_id": i, "s": "x" * 1000} for i in range(100)])
            client[DATABASE].command("find", "z", batchSize=100)
            after = flat(server.run("admin", {"serverStatus": 1}).get("network"))
        server.run(DATABASE, {"drop": "z"})
        grown.append({path: after[path] - before[path] for path in after if path in before})
    for network in grown:
        for way in ("In", "Out"):
            assert network[f"bytes{way}"] > 100_000 and network[f"bytes{way}"] - network[f"physicalBytes{way}"] > 50_000
    own, mongods = ([network[f"compression.{compressor}.decompressor.{way}"] for way in ("bytesIn", "bytesOut")] for network in grown)
    assert abs(own[0] - mongods[0]) < 500 and abs(own[1] - mongods[1]) < 500
    assert grown[0][f"compression.{compressor}.compressor.bytesIn"] > 100_000
    assert grown[0][f"compression.{compressor}.compressor.bytesOut"] < 50_000


def test_diagnostic_data(pair):
    """The Prometheus exporter asks for this and nothing else; `mongod` has the same fields, a second old."""
    reply = pair.subject.client.admin.command("getDiagnosticData", "1")["data"]
    status = pair.subject.client.admin.command("serverStatus")
    assert set(status) - set(reply["serverStatus"]) == set()
    assert set(reply["serverStatus"]) - set(status) == {"start", "end"}
    assert reply["start"] <= reply["serverStatus"]["start"] <= reply["serverStatus"]["end"] <= reply["end"]
    refused = [server.run(DATABASE, {"getDiagnosticData": 1}) for server in (pair.subject, pair.oracle)]
    assert refused[0] == refused[1]


def mongostat_columns(new, old, seconds):
    """The columns that mongostat prints, as its `status/readers.go` reads them."""
    per_second = lambda section, name: int((new[section][name] - old[section][name]) / seconds)  # noqa: E731
    columns = {name: per_second("opcounters", name) for name in ("insert", "query", "update", "delete", "getmore", "command")}
    columns["command|repl"] = per_second("opcountersRepl", "command")
    columns["vsize"], columns["res"] = new["mem"]["virtual"], new["mem"]["resident"]
    columns["qrw"] = tuple(new["globalLock"]["currentQueue"][who] for who in ("readers", "writers"))
    columns["arw"] = tuple(new["globalLock"]["activeClients"][who] for who in ("readers", "writers"))
    columns["net"] = per_second("network", "bytesIn"), per_second("network", "bytesOut")
    columns["conn"] = new["connections"]["current"]
    if new["storageEngine"]["name"] == "wiredTiger":
        columns["dirty"] = new["wiredTiger"]["cache"]["tracked dirty bytes in the cache"]
    assert "mongos" not in new["process"] and isinstance(new["mem"]["supported"], bool)
    assert int(new["uptime"]) == new["uptime"]  # it is read as a whole number
    return columns


def test_as_mongostat_reads(filled):
    server = filled.subject
    old = server.client.admin.command("serverStatus")
    for _ in range(50):
        server.client[DATABASE]["c"].find_one({"_id": 3})
    new = server.client.admin.command("serverStatus")
    columns = mongostat_columns(new, old, 1)
    assert columns["query"] == 50 and columns["insert"] == 0 and columns["conn"] >= 1
    assert columns["vsize"] >= columns["res"] > 0 and columns["arw"][0] >= 1
    assert "dirty" not in columns and new["locks"] == {}
