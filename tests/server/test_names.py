"""What clients call things is not kept for ever, forges no line of the log, and breaks no reply."""

import json
import socket
import struct
import time

import bson
import pymongo
import pytest
from harness.servers import Meridian
from pymongo.errors import OperationFailure

NAME_BYTES_MAX = 255 - len("db.")
LARGE = 10_000_000
GROWTH_BYTES_MAX = 100 << 20
LINE_BYTES_MAX = 10_000


@pytest.fixture
def server(tmp_path):
    with Meridian(tmp_path / "server") as running:
        yield running


def memory(server):
    """The process's resident bytes."""
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def totals(server):
    return {name for name in server.client.admin.command("top")["totals"] if name != "note"}


def ask(server, command, database="db"):
    """Runs it whatever comes of it; the error's message, if it has one."""
    try:
        server.client[database].command(bson.SON(command))
    except OperationFailure as error:
        return error.details["errmsg"]
    return None


def commands_about(name):
    yield {"find": name}
    yield {"count": name}
    yield {"insert": name, "documents": []}
    yield {"update": name, "updates": []}
    yield {"delete": name, "deletes": []}
    yield {"aggregate": name, "pipeline": 7}
    yield {"getMore": bson.Int64(5), "collection": name}
    yield {"drop": name}
    yield {"collStats": name}
    yield {"createIndexes": name, "indexes": []}
    yield {"renameCollection": f"db.{name}", "to": "db.other"}
    yield {"getLog": name}
    yield {"ping": name}


REFUSED = ["", ".", "$", "a$b", "a\0b", "\0", "absent", "x" * (NAME_BYTES_MAX + 1), "x" * (NAME_BYTES_MAX * 1000)]


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: ascii(name[:8]))
def test_top_knows_only_collections_that_exist(server, name):
    server.client["db"]["kept"].insert_one({})
    for command in commands_about(name):
        ask(server, command)
        assert totals(server) <= {"db.kept"}, command


def test_top_at_the_longest_name(server):
    longest = "x" * NAME_BYTES_MAX
    server.client["db"][longest].insert_one({})
    assert f"db.{longest}" in totals(server)


def test_top_forgets_what_is_dropped_and_renamed(server):
    database, other = server.client["db"], server.client["db2"]
    for collection in (database["a"], database["b"], database["c"], other["a"]):
        collection.insert_one({})
    assert {"db.a", "db.b", "db.c", "db2.a"} <= totals(server)
    database["a"].drop()
    assert not {"db.a"} & totals(server)
    database["b"].rename("d")
    assert not {"db.a", "db.b"} & totals(server)
    database["d"].insert_one({})
    database["c"].rename("d", dropTarget=True)
    assert not {"db.b", "db.c", "db.d"} & totals(server)
    database["d"].insert_one({})
    server.client.drop_database("db")
    assert totals(server) == {"db2.a"}


def test_a_thousand_collections_come_and_go(server):
    database = server.client["db"]
    for number in range(300):
        database[f"c{number}"].insert_one({})
        database[f"c{number}"].drop()
    assert totals(server) == set()


def test_large_names_are_not_kept(server):
    """Ten megabytes of name, in every place for a name: the server forgets them."""
    large = "y" * LARGE
    for command in [*commands_about(large), {large: 1}]:
        ask(server, command)
    before = memory(server)
    for _ in range(4):
        for command in [*commands_about(large), {large: 1}]:
            message = ask(server, command)
            assert message is None or len(message) <= 64 * 1024
    assert memory(server) - before < GROWTH_BYTES_MAX
    lines = server.client.admin.command("getLog", "global")["log"]
    assert max(map(len, lines)) <= LINE_BYTES_MAX
    assert server.log.stat().st_size < 1 << 20


EVIL = "a\n2026-01-01T00:00:00Z ERROR the disk is full\r\x1b[2J\x9b31m\u202e\u2028"


@pytest.mark.parametrize("format", ["text", "json"])
def test_names_forge_no_line_of_the_log(tmp_path, format):
    with Meridian(tmp_path / "server", ["--log-format", format]) as server:
        collection = server.client["db"][EVIL]
        collection.insert_many([{"_id": number} for number in range(20)])
        # Long enough to be logged as slow, on any machine: until a second has passed.
        looped = {"$filter": {"input": {"$range": [0, 300_000]}, "cond": {"$eq": [{"$mod": ["$$this", 7]}, -1]}}}
        begun = time.monotonic()
        while time.monotonic() - begun < 1:
            list(collection.aggregate([{"$project": {"n": {"$size": looped}}}]))
        kept = server.client.admin.command("getLog", "global")["log"]
        written = server.log.read_bytes().decode().split("\n")
        slow_ones = [line for line in kept if "slow command" in line]
        assert slow_ones and all("the disk is full" in line for line in slow_ones)
        for line in [*kept, *written]:
            assert not line.startswith("2026-01-01T00:00:00Z")
            assert not any(ord(character) < 32 or character in "\x7f\x9b\u202e\u2028" for character in line), ascii(line)
        if format == "json":
            lines = [json.loads(line) for line in written if line.startswith("{")]
            own = [line for line in lines if line["message"] == "slow command"]
            assert own[0]["collection"] == EVIL.replace("\x9b", "\\u{9b}").replace("\u202e", "\\u{202e}").replace("\u2028", "\\u{2028}")
            assert own[0]["level"] == "INFO" and own[0]["took_ms"] >= 100 and own[0]["timestamp"].endswith("Z")


def test_client_metadata_is_not_kept(server):
    before = memory(server)
    for _ in range(20):
        metadata = {"driver": {"name": "n" * 2_000_000, "version": "\x1b\n"}, "application": {"name": "a" * 2_000_000}}
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            body = bson.encode({"hello": 1, "client": metadata, "$db": "admin"})
            connection.sendall(struct.pack("<iiiiiB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
            assert connection.recv(100)
    assert memory(server) - before < GROWTH_BYTES_MAX
    assert pymongo.MongoClient(server.uri).admin.command("ping")["ok"] == 1
