"""Strings that are not valid UTF-8: byte for byte over a socket, over a restart, compressed, and within the limits."""

import socket
import struct
import subprocess
import zlib

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from harness import canonical, raw, wire
from harness.servers import MERIDIAN, Meridian

OP_MSG, OP_COMPRESSED, ZLIB = 2013, 2012, 2
LATIN = raw.text(b"a\xffb\xc3")
MARK = "\U0010ffff\xff"
DOCUMENT = {"_id": LATIN, LATIN: [MARK, {MARK: LATIN}], "c": bson.Code(LATIN, {LATIN: 1}), "b": b"\xf4\x8f\xbf\xbf\xff"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Meridian(tmp_path_factory.mktemp("text") / "server") as running:
        yield running


@pytest.fixture
def database(server):
    server.run("text", {"dropDatabase": 1})
    return lambda command: server.run("text", command)


def test_raw_documents_come_and_go_as_a_restore_sends_them(server):
    options = CodecOptions(document_class=RawBSONDocument)
    collection = server.client["text"].get_collection("raw", codec_options=options)
    collection.drop()
    documents = [raw.encode({**DOCUMENT, "_id": number}) for number in range(1000)]
    collection.insert_many([RawBSONDocument(document) for document in documents])

    def check():
        found = server.client["text"].get_collection("raw", codec_options=options).find(sort=[("_id", 1)], batch_size=100)
        assert [document.raw for document in found] == documents

    check()
    server.client.close()
    server.disconnect()
    server.terminate()
    server.start()
    check()
    report = server.client["text"].command("validate", "raw")
    assert report["valid"] and report["nrecords"] == 1000


def receive(connection):
    head = connection.recv(16, socket.MSG_WAITALL)
    length, _, _, opcode = struct.unpack("<iiii", head)
    return opcode, connection.recv(length - 16, socket.MSG_WAITALL)


def test_compressed(server, database):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for command in ({"insert": "z", "documents": [DOCUMENT]}, {"find": "z", "filter": {"_id": LATIN}}):
            plain = wire.message(1, "text", command)[16:]
            body = struct.pack("<iiB", OP_MSG, len(plain), ZLIB) + zlib.compress(plain)
            connection.sendall(struct.pack("<iiii", len(body) + 16, 1, 0, OP_COMPRESSED) + body)
            opcode, body = receive(connection)
            assert opcode == OP_COMPRESSED
            reply = canonical.decode(zlib.decompress(body[9:])[5:])
    assert reply.get("cursor").get("firstBatch") == [canonical.decode(raw.encode(DOCUMENT))]


@pytest.mark.parametrize("command", [{"hello": 1, "comment": LATIN}, {"isMaster": 1, LATIN: LATIN}])
def test_legacy_hello(server, command):
    query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + raw.encode(command)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(struct.pack("<iiii", len(query) + 16, 1, 0, 2004) + query)
        opcode, _ = receive(connection)
    assert opcode == 1


REFUSED = {
    "find": {"find": LATIN},
    "insert": {"insert": LATIN, "documents": [{}]},
    "create": {"create": LATIN},
    "out": {"aggregate": "c", "pipeline": [{"$out": LATIN}], "cursor": {}},
    "merge": {"aggregate": "c", "pipeline": [{"$merge": LATIN}], "cursor": {}},
    "index": {"createIndexes": LATIN, "indexes": [{"key": {"a": 1}, "name": "a"}]},
}


@pytest.mark.parametrize("name", REFUSED)
def test_names_of_collections_and_databases_are_text(server, database, name):
    database({"insert": "c", "documents": [{"_id": 1}]})
    reply = database(REFUSED[name])
    assert reply.get("code") == "int32(73)" and "valid UTF-8" in reply.get("errmsg"), reply
    reply = server.run(LATIN, {"find": "c"})
    assert reply.get("code") == "int32(73)"
    names = [found["name"] for found in server.client["text"].list_collections()]
    assert names == ["c"]


def test_what_grows_too_large_is_refused(server, database):
    """A byte takes six inside. What fits then is stored, documents beyond 16 MiB and messages beyond 48 MB are not."""
    fits, large = raw.text(b"\xff" * 2_700_000), raw.text(b"\xff" * 2_900_000)
    assert database({"insert": "c", "documents": [{"_id": 1, "s": fits}]}).get("n") == "int32(1)"
    found = database({"find": "c"}).get("cursor").get("firstBatch")
    assert len(found) == 1 and found[0].get("s") == canonical.encode({"s": "\\xff" * 2_700_000}).get("s")
    (error,) = database({"insert": "c", "documents": [{"_id": 2, "s": large}]}).get("writeErrors")
    assert "too large" in error.get("errmsg"), error
    reply = database({"insert": "c", "documents": [{"_id": number, "s": fits} for number in range(2, 6)]})
    assert reply.get("code") == "int32(10334)" and reply.get("codeName") == '"BSONObjectTooLarge"', reply
    assert database({"count": "c"}).get("n") == "int32(1)"


def test_malformed_documents_are_refused_as_before(server, database):
    message = bytearray(wire.message(1, "text", {"insert": "c", "documents": [{"_id": LATIN}]}))
    message[message.index(b"a\xffb") + 4] = 7  # the string's end
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(message)
        _, body = receive(connection)
    reply = canonical.decode(body[5:])
    assert reply.get("code") == "int32(22)", reply
    assert database({"count": "c"}).get("n") == "int32(0)"


def test_the_log_stays_text(server, database):
    database({"insert": "c", "documents": [{"_id": 1}], "comment": LATIN})
    server.client.admin.command({"hello": 1})
    server.run("text", {LATIN: 1})
    server.log.read_text(encoding="utf-8")
    log = server.client.admin.command("getLog", "global")["log"]
    assert all(isinstance(line, str) for line in log)


@pytest.mark.parametrize("identity", (7, LATIN))
def test_an_export_names_what_is_no_text(server, database, identity):
    """JSON and CSV are text: nothing is replaced silently."""
    database({"insert": "c", "documents": [{"_id": identity, "s": LATIN}]})
    arguments = [MERIDIAN, "export", "--uri", f"{server.uri}text", "-c", "c"]
    ended = subprocess.run([str(argument) for argument in arguments], capture_output=True)
    assert ended.returncode != 0 and ended.stdout == b""
    shown = "_id 7" if identity == 7 else "_id that is not text"
    assert shown in ended.stderr.decode() and "UTF-8" in ended.stderr.decode()
