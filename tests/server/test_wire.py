"""Frames as bytes: what every driver sends first, and what no driver would send."""

import socket
import struct
import threading

import bson
import pytest
from harness import wire

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013


@pytest.fixture
def connection(subject):
    with socket.create_connection(("127.0.0.1", subject.port), timeout=20) as opened:
        yield opened


def read(connection):
    """(response_to, opcode, body) of one reply."""
    head = b""
    while len(head) < 16:
        part = connection.recv(16 - len(head))
        if not part:
            raise ConnectionError("closed")
        head += part
    length, _, response_to, opcode = struct.unpack("<iiii", head)
    body = b""
    while len(body) < length - 16:
        body += connection.recv(length - 16 - len(body))
    return response_to, opcode, body


def frame(opcode, body, number=7):
    return struct.pack("<iiii", len(body) + 16, number, 0, opcode) + body


def legacy_query(command, collection="admin.$cmd", limit=-1):
    return frame(OP_QUERY, struct.pack("<i", 0) + collection.encode() + b"\0" + struct.pack("<ii", 0, limit) + bson.encode(command))


def message(command, flags=0, tail=b""):
    return frame(OP_MSG, struct.pack("<I", flags) + b"\0" + bson.encode(command) + tail)


def reply_of(connection):
    response_to, opcode, body = read(connection)
    assert (response_to, opcode) == (7, OP_MSG)
    (size,) = struct.unpack_from("<i", body, 5)  # a checksum may follow
    return bson.decode(body[5 : 5 + size])


def closes(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("name", ["isMaster", "ismaster", "hello"])
def test_legacy_hello(connection, name):
    connection.sendall(legacy_query({name: 1, "helloOk": True}))
    response_to, opcode, body = read(connection)
    assert (response_to, opcode) == (7, OP_REPLY)
    flags, cursor, start, count = struct.unpack_from("<iqii", body)
    assert (flags & 2, cursor, start, count) == (0, 0, 0, 1)
    document = bson.decode(body[20:])
    assert document["helloOk"] is True
    assert document["ok"] == 1.0
    assert document["maxWireVersion"] >= 17
    assert document.get("ismaster", document.get("isWritablePrimary")) is True


def test_checksum_is_checked_or_accepted(connection):
    """A right checksum is accepted; a wrong one is an error, not an answer."""
    good = message({"ping": 1, "$db": "admin"}, flags=1, tail=b"\0\0\0\0")
    connection.sendall(good[:-4] + struct.pack("<I", crc32c(good[:-4])))
    assert reply_of(connection)["ok"] == 1.0
    connection.sendall(good)
    try:
        assert reply_of(connection)["ok"] == 0.0
    except (ConnectionError, OSError):
        pass


def crc32c(data):
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def test_more_to_come_is_not_answered(connection, subject):
    connection.sendall(message({"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": 0}, "$db": "quiet"}, flags=2))
    connection.sendall(message({"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": 0}, "$db": "quiet"}, flags=2))
    connection.sendall(message({"count": "c", "$db": "quiet"}))
    assert reply_of(connection)["n"] == 1
    subject.run("quiet", {"dropDatabase": 1})


def test_pipelined_requests_are_answered_in_order(connection):
    requests = [wire.message(number, "admin", {"ping": 1, "comment": number}) for number in range(1, 101)]
    connection.sendall(b"".join(requests))
    assert [read(connection)[0] for _ in range(100)] == list(range(1, 101))


def test_a_request_in_small_pieces(connection):
    for byte in message({"ping": 1, "$db": "admin"}):
        connection.sendall(bytes([byte]))
    assert reply_of(connection)["ok"] == 1.0


def test_document_sequence(connection, subject):
    documents = b"".join(bson.encode({"_id": number}) for number in range(1000))
    payload = b"documents\0" + documents
    connection.sendall(message({"insert": "c", "$db": "sequence"}, tail=b"\x01" + struct.pack("<i", len(payload) + 4) + payload))
    assert reply_of(connection) == {"n": 1000, "ok": 1.0}
    subject.run("sequence", {"dropDatabase": 1})


def test_sequence_given_twice_is_an_error(connection):
    payload = b"documents\0" + bson.encode({"_id": 1})
    sequence = b"\x01" + struct.pack("<i", len(payload) + 4) + payload
    connection.sendall(message({"insert": "c", "documents": [{"_id": 2}], "$db": "sequence"}, tail=sequence))
    try:
        assert reply_of(connection)["ok"] == 0.0
    except ConnectionError:
        pass


def test_unknown_required_flag(connection):
    connection.sendall(message({"ping": 1, "$db": "admin"}, flags=1 << 5))
    try:
        assert reply_of(connection)["ok"] == 0.0
    except (ConnectionError, OSError):
        pass


def test_unknown_optional_flag(connection):
    connection.sendall(message({"ping": 1, "$db": "admin"}, flags=1 << 20))
    assert reply_of(connection)["ok"] == 1.0


def test_no_database(connection):
    connection.sendall(message({"ping": 1}))
    reply = reply_of(connection)
    assert reply["ok"] == 0.0 and reply["code"] == 40571


@pytest.mark.parametrize("opcode", [1, 1000, 2001, 2002, 2005, 2006, 2007, 9999])
def test_other_opcodes(connection, subject, opcode):
    """Legacy writes and nonsense end the connection (or are ignored), and hurt nobody else."""
    connection.settimeout(2)
    connection.sendall(frame(opcode, b"\0" * 20))
    try:
        closes(connection)
    except TimeoutError:
        pass
    assert subject.run("admin", {"ping": 1}).get("ok") == "double(1.0)"


BROKEN_BODIES = {
    "empty": b"",
    "no_section": struct.pack("<I", 0),
    "unknown_section": struct.pack("<I", 0) + b"\x07" + bson.encode({"ping": 1}),
    "length_too_long": struct.pack("<I", 0) + b"\0" + struct.pack("<i", 1000) + b"\0",
    "length_negative": struct.pack("<I", 0) + b"\0" + struct.pack("<i", -5) + b"\0",
    "not_terminated": struct.pack("<I", 0) + b"\0" + bson.encode({"ping": 1})[:-1] + b"\x01",
    "unknown_type": struct.pack("<I", 0) + b"\0" + struct.pack("<i", 8) + b"\x55a\0\0",
    "bad_string": struct.pack("<I", 0) + b"\0" + struct.pack("<i", 17) + b"\x02ping\0" + struct.pack("<i", 99) + b"a\0\0",
    "sequence_past_end": struct.pack("<I", 0) + b"\0" + bson.encode({"insert": "c", "$db": "d"}) + b"\x01" + struct.pack("<i", 5000) + b"documents\0",
    "two_bodies": struct.pack("<I", 0) + b"\0" + bson.encode({"ping": 1, "$db": "d"}) + b"\0" + bson.encode({"ping": 1, "$db": "d"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_BODIES)
def test_broken_bodies(connection, subject, name):
    """An error or a closed connection; never an answer, never a crash."""
    connection.sendall(frame(OP_MSG, BROKEN_BODIES[name]))
    try:
        assert reply_of(connection)["ok"] == 0.0
    except (ConnectionError, OSError):
        pass
    assert subject.run("admin", {"ping": 1}).get("ok") == "double(1.0)"


def test_broken_compression(connection, subject):
    for compressor in (1, 2, 3, 99):
        with socket.create_connection(("127.0.0.1", subject.port), timeout=10) as other:
            other.sendall(frame(2012, struct.pack("<iiB", OP_MSG, 1_000_000, compressor) + b"not compressed at all"))
            assert closes(other), compressor
    assert subject.run("admin", {"ping": 1}).get("ok") == "double(1.0)"


def test_random_bytes(subject):
    import random

    choice = random.Random(7)
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", subject.port), timeout=10) as other:
            other.sendall(choice.randbytes(choice.randint(1, 300)))
    for _ in range(60):
        body = bytearray(struct.pack("<I", 0) + b"\0" + bson.encode({"find": "c", "filter": {"a": {"$gt": [1, "x", None]}}, "$db": "d"}))
        for _ in range(choice.randint(1, 5)):
            body[choice.randrange(len(body))] = choice.randrange(256)
        with socket.create_connection(("127.0.0.1", subject.port), timeout=10) as other:
            other.sendall(frame(OP_MSG, bytes(body)))
    assert subject.run("admin", {"ping": 1}).get("ok") == "double(1.0)"


def test_many_connections(subject):
    """Hundreds of idle connections beside a busy one; all can be used, and all go away."""
    opened = [socket.create_connection(("127.0.0.1", subject.port), timeout=20) for _ in range(300)]
    try:
        for connection in opened:
            connection.sendall(message({"ping": 1, "$db": "admin"}))
        for connection in opened:
            assert reply_of(connection)["ok"] == 1.0
    finally:
        for connection in opened:
            connection.close()


def test_disconnect_during_a_reply(subject):
    """Clients that vanish in the middle of a large reply do not disturb the rest."""
    subject.run("gone", {"insert": "c", "documents": [{"_id": i, "s": "x" * 10_000} for i in range(500)]})

    def vanish():
        with socket.create_connection(("127.0.0.1", subject.port), timeout=20) as connection:
            connection.sendall(message({"find": "c", "batchSize": 500, "$db": "gone"}))
            connection.recv(1000)

    threads = [threading.Thread(target=vanish) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert subject.run("gone", {"count": "c"}).get("n") == "int32(500)"
    subject.run("gone", {"dropDatabase": 1})
