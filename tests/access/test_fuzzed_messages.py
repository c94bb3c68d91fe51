"""Fuzzed logins and fuzzed commands: nobody gets in, nobody gets more than its roles allow, and nothing crashes.

MERIDIAN_FUZZED_MESSAGES sets how many are sent (`make torture`: a million), MERIDIAN_FUZZ_SEED repeats a run.
"""

import base64
import hashlib
import hmac
import os
import random
import socket
import struct
import time

import bson
import pytest
from bson import Binary, Int64, ObjectId
from bson.codec_options import CodecOptions
from harness.servers import Meridian
from harness.wire import message

MESSAGES = int(os.environ.get("MERIDIAN_FUZZED_MESSAGES", "40000"))
SEED = int(os.environ.get("MERIDIAN_FUZZ_SEED", time.time_ns() % 1_000_000))
BATCH = 40
# An address waits after so many failed logins: then the next one comes from elsewhere on this machine.
FAILURES_FREE = 3
DENIED = 13
FAILED = 18
NONCE = "rOprNGfwEbeRWgbNEkqO"
PASSWORD = "secret"
LENIENT = CodecOptions(unicode_decode_error_handler="replace")


class Peer:
    """A connection of bytes, from an address of its own on this machine."""

    def __init__(self, port, choice):
        self.socket = socket.socket()
        self.socket.bind((f"127.{choice.randrange(1, 255)}.{choice.randrange(1, 255)}.{choice.randrange(1, 255)}", 0))
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.failures = 0

    def send(self, messages):
        """The replies, until the server ends the connection over one that is malformed."""
        replies = []
        try:
            self.socket.sendall(b"".join(messages))
            for _ in messages:
                replies.append(self.reply())
        except (ConnectionError, BrokenPipeError):
            self.close()
        return replies

    def reply(self):
        length = struct.unpack("<i", self.read(4))[0]
        rest = self.read(length - 4)
        document = bson.decode(rest[17:], LENIENT)
        self.failures += document.get("code") == FAILED
        return document

    def read(self, count):
        while len(self.buffer) < count:
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError
            self.buffer += part
        result, self.buffer = self.buffer[:count], self.buffer[count:]
        return result

    def command(self, database, command):
        replies = self.send([message(1, database, command)])
        return replies[0] if replies else None

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def log_in(peer, user):
    """SCRAM-SHA-256 by hand; returns the messages that were sent, which must not serve again."""
    first = f"n={user},r={NONCE}"
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(f"n,,{first}".encode()), "options": {"skipEmptyExchange": True}}
    begun = peer.command("test", start)
    server_first = bytes(begun["payload"]).decode()
    parts = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    without = f"c=biws,r={parts['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{server_first},{without}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    last = {"saslContinue": 1, "conversationId": begun["conversationId"], "payload": Binary(f"{without},p={proof}".encode())}
    assert peer.command("test", last)["done"]
    return [start, last]


def logins(recorded):
    """What is said when somebody logs in, right as far as it goes without the password."""
    starts = []
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1", "MONGODB-X509", "PLAIN", "GSSAPI"):
        for user in ("reader", "root", "nobody", "", "__system"):
            starts.append({"saslStart": 1, "mechanism": mechanism, "payload": Binary(f"n,,n={user},r={NONCE}".encode()), "autoAuthorize": 1})
    speculative = {"hello": 1, "speculativeAuthenticate": {**starts[0], "db": "test"}, "saslSupportedMechs": "test.reader"}
    last = Binary(f"c=biws,r={NONCE},p={base64.b64encode(bytes(32)).decode()}".encode())
    return [
        *starts,
        *recorded,
        speculative,
        {"saslContinue": 1, "conversationId": 1, "payload": last},
        {"saslContinue": 1, "conversationId": 1, "payload": Binary(b"")},
        {"authenticate": 1, "mechanism": "MONGODB-X509", "user": "CN=root"},
        {"authenticate": 1, "user": "reader", "nonce": "00", "key": "00"},
        {"logout": 1},
        {"getnonce": 1},
    ]


def commands():
    """What a reader of `test` may not do, each in its right form."""
    return [
        {"insert": "c", "documents": [{"fuzz": 1}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"fuzz": 1}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
        {"findAndModify": "c", "query": {}, "update": {"$set": {"fuzz": 1}}},
        {"aggregate": "c", "pipeline": [{"$out": "stolen"}], "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$merge": {"into": "c"}}], "cursor": {}},
        {"explain": {"aggregate": "c", "pipeline": [{"$out": "stolen"}], "cursor": {}}},
        {"create": "stolen"},
        {"drop": "c"},
        {"dropDatabase": 1},
        {"renameCollection": "test.c", "to": "test.stolen"},
        {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
        {"collMod": "c", "validator": {"a": 1}},
        {"createUser": "reader2", "pwd": "x", "roles": ["root"]},
        {"updateUser": "reader", "roles": [{"role": "root", "db": "admin"}]},
        {"grantRolesToUser": "reader", "roles": ["dbOwner"]},
        {"createRole": "stolen", "privileges": [], "roles": ["dbOwner"]},
        {"grantRolesToRole": "read", "roles": ["dbOwner"]},
        {"dropAllUsersFromDatabase": 1},
        {"usersInfo": {"forAllDBs": True}, "showCredentials": True},
        {"find": "system.users", "filter": {}, "$db": "admin"},
        {"aggregate": "system.users", "pipeline": [], "cursor": {}},
        {"insert": "system.users", "documents": [{"_id": "admin.me", "user": "me", "db": "admin", "roles": ["root"]}]},
        {"shutdown": 1},
        {"setParameter": 1, "logLevel": 5},
        {"killOp": 1, "op": 1},
        {"killAllSessions": []},
        {"getMore": Int64(1), "collection": "c"},
        {"rotateCertificates": 1},
    ]


def any_value(choice):
    return choice.choice([
        None, True, 0, 1, -1, 2**31 - 1, Int64(2**62), 0.5, float("nan"), "", "test", "admin", "$x", "c", "root", "\0", "x" * 300,
        Binary(b""), Binary(choice.randbytes(40)), ObjectId(), [], {}, [{}], {"$gt": ""}, {"role": "root", "db": "admin"}, [["root"]],
        bson.MaxKey(), bson.MinKey(), bson.Regex(".*"), bson.Timestamp(1, 1),
    ])  # fmt: skip


def changed(choice, document):
    """The document with a field or two of it changed, at any depth."""
    document = dict(document)
    for _ in range(choice.randrange(3)):
        name = choice.choice([*document, "db", "$db", "comment", "lsid", "apiVersion", "mechanism", "roles"])
        value, way = document.get(name), choice.randrange(6)
        if way == 0:
            document.pop(name, None)
        elif way == 1:
            document[name] = any_value(choice)
        elif way == 2 and isinstance(value, dict):
            document[name] = changed(choice, value)
        elif way == 3 and isinstance(value, list) and value:
            document[name] = [changed(choice, item) if isinstance(item, dict) else any_value(choice) for item in value]
        elif way == 4 and isinstance(value, (bytes, str)) and value:
            data = bytearray(value.encode() if isinstance(value, str) else value)
            for _ in range(choice.randrange(1, 4)):
                data[choice.randrange(len(data))] = choice.choice(b",=nrcpavm\0") if choice.random() < 0.5 else choice.randrange(128)
            document[name] = Binary(bytes(data)) if isinstance(value, bytes) else data.decode("ascii", "replace").replace("\0", "0")
        elif way == 5:
            items = list(document.items())
            choice.shuffle(items)
            document = dict(items)
    return document


def fuzzed(choice, templates, database):
    """A message; one in thirty has bytes of it changed, behind its length."""
    document = changed(choice, choice.choice(templates))
    database = document.pop("$db", database)
    database = database if isinstance(database, str) and "\0" not in database and choice.random() < 0.9 else choice.choice(["admin", "local", "$external"])
    try:
        encoded = bytearray(message(1, database, document))
    except (bson.errors.InvalidDocument, ValueError):
        encoded = bytearray(message(1, database, {"hello": 1}))
    if choice.random() < 1 / 30:
        for _ in range(choice.randrange(1, 5)):
            encoded[choice.randrange(16, len(encoded))] = choice.randrange(256)
    # Without a flag that asks for no reply, or for several.
    encoded[16:20] = bytes(4)
    return bytes(encoded)


def state(client):
    """All that must not change."""
    admin = client.admin
    return {
        "databases": sorted(set(client.list_database_names()) - {"local"}),
        "users": list(admin["system.users"].find({}, sort=[("_id", 1)])),
        "roles": list(admin["system.roles"].find({}, sort=[("_id", 1)])),
        "documents": list(client.test.c.find({}, sort=[("_id", 1)])),
        "collections": sorted(client.test.list_collection_names()),
        "indexes": list(client.test.c.index_information()),
    }


@pytest.fixture
def closed():
    with Meridian(arguments=["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        with server.connect(username="root", password=PASSWORD) as root:
            root.test.command("createUser", "reader", pwd=PASSWORD, roles=["read"], mechanisms=["SCRAM-SHA-256"])
            root.test.c.insert_many([{"_id": at, "a": at} for at in range(10)])
            before = state(root)
            yield server
            server_state = state(root)
            assert server_state == before


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("who", [None, "reader"])
def test_nobody_gets_in_or_gets_more(closed, who):
    print(f"seed {SEED}, {MESSAGES // 2} messages")
    choice = random.Random(f"{SEED} {who}")
    templates = (logins(log_in(Peer(closed.port, choice), "reader")) if who is None else []) + commands()
    sent = codes = 0
    seen = {}
    peer = None
    while sent < MESSAGES // 2:
        if peer is None or peer.socket is None or peer.failures >= FAILURES_FREE:
            if peer is not None:
                peer.close()
            peer = Peer(closed.port, choice)
            if who is not None:
                log_in(peer, who)
        replies = peer.send([fuzzed(choice, templates, "test") for _ in range(BATCH)])
        sent += BATCH
        for reply in replies:
            seen[reply.get("code", 0)] = seen.get(reply.get("code", 0), 0) + 1
            codes += reply.get("code") == DENIED
            assert not reply.get("done") or who is not None, f"seed {SEED}: somebody got in: {reply}"
        assert closed.alive(), f"seed {SEED}"
        if peer.socket is not None and (status := peer.command("test", {"connectionStatus": 1})) is not None:
            info = status["authInfo"]
            assert info["authenticatedUsers"] in ([], [{"user": who, "db": "test"}] if who else []), f"seed {SEED}: {info}"
            assert info["authenticatedUserRoles"] in ([], [{"role": "read", "db": "test"}] if who else []), f"seed {SEED}: {info}"
    print(sent, "messages; replies by code:", dict(sorted(seen.items())))
    # The messages reach what they are for: not all are refused as malformed.
    assert codes > sent / 10
    assert who is not None or seen.get(FAILED, 0) > sent / 100
