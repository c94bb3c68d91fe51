"""Many clients, and clients that do not behave: limits, slow readers, half-open peers, long statements."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import threading

import bson
import pymongo
import pytest
from harness import wire
from harness.servers import Meridian

LOOKS = 6_000
LOOK_AGAIN_SECONDS = 0.01
# A find that would take minutes: each of the documents costs about a millisecond.
ENDLESS = {"$expr": {"$lt": [{"$sum": {"$map": {"input": {"$range": [0, 2000]}, "in": {"$multiply": ["$$this", 2]}}}}, 0]}}


class FewFiles(Meridian):
    """A server that may have few descriptors."""

    files = 256

    def command_line(self):
        return ["bash", "-c", f'ulimit -n {self.files} && exec "$0" "$@"', *super().command_line()]


class Peer:
    """A plain connection that sends what it is told to and reads when it is told to."""

    def __init__(self, server, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", server.port))

    def send(self, command, database="db"):
        self.socket.sendall(wire.message(1, database, command))

    def reply(self):
        (length,) = struct.unpack("<i", self._read(4))
        body = self._read(length - 4)
        (size,) = struct.unpack_from("<i", body, 17)
        return bson.decode(body[17 : 17 + size])

    def ask(self, command, database="db"):
        self.send(command, database)
        return self.reply()

    def _read(self, count):
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(min(count - len(data), 65536))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return bytes(data)

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def peers(server, count, **options):
    opened = []
    try:
        for _ in range(count):
            opened.append(Peer(server, **options))
        yield opened
    finally:
        for peer in opened:
            peer.close()


def eventually(condition):
    """The first true answer; the last one if there is none."""
    for _ in range(LOOKS):
        answer = condition()
        if answer:
            return answer
        threading.Event().wait(LOOK_AGAIN_SECONDS)
    return condition()


def status(server, section):
    return server.client.admin.command("serverStatus")[section]


def memory_mib(server, what):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", text).group(1)) / 1024


def count_in(server, directory):
    return len(os.listdir(f"/proc/{server.process.pid}/{directory}"))


def logged(server, words):
    return server.log.read_text(errors="replace").count(words)


# -- limits


def test_who_comes_over_the_limit_is_told_and_comes_in_when_others_leave(tmp_path):
    with Meridian(tmp_path / "server", ["--max-connections", "5"]) as server:
        # The connection that looked for the port may still count.
        inside = [eventually(lambda: admitted(server)) for _ in range(5)]
        connections = inside[0].ask({"serverStatus": 1})["connections"]
        assert (connections["current"], connections["available"]) == (5, 0)
        refused = Peer(server).ask({"ping": 1})
        assert (refused["code"], refused["codeName"]) == (6, "HostUnreachable")
        assert "too many open connections: 5" in refused["errmsg"]
        with pytest.raises(pymongo.errors.PyMongoError, match="too many open connections"):
            server.connect(serverSelectionTimeoutMS=2_000).admin.command("ping")
        assert inside[0].ask({"serverStatus": 1})["connections"]["rejected"] >= 2
        inside.pop().close()
        inside.append(eventually(lambda: admitted(server)))
        for peer in inside:
            assert peer.ask({"ping": 1})["ok"] == 1.0
            peer.close()


def admitted(server):
    """A connection that is served, or none."""
    peer = Peer(server)
    if pings(peer):
        return peer
    peer.close()
    return None


def pings(peer):
    try:
        return peer.ask({"ping": 1})["ok"] == 1.0
    except OSError:
        return False


def test_connections_leave_descriptors_to_the_storage(tmp_path):
    with FewFiles(tmp_path / "server") as server:
        connections = status(server, "connections")
        limit = connections["current"] + connections["available"]
        assert limit == FewFiles.files // 5 * 4
        assert logged(server, "the limit of open files is low") == 1
        with peers(server, limit + 20) as opened:
            answers = [answer_of(peer) for peer in opened]
            assert sum(answer == 1.0 for answer in answers) >= limit - 10
            assert "refused" in answers
            collection = server.client["db"]["c"]
            collection.insert_many([{"_id": number, "a": number} for number in range(1_000)])
            collection.create_index("a")
            server.client.admin.command("fsync")
            assert collection.count_documents({"a": {"$lt": 500}}) == 500
        assert eventually(lambda: pings(Peer(server)))


def answer_of(peer):
    """1.0, or how the connection was refused: with words, or closed when too many are refused at once."""
    try:
        answer = peer.ask({"ping": 1})
    except OSError:
        return "closed"
    return answer["ok"] or ("refused" if "too many open connections" in answer["errmsg"] else answer)


def test_without_a_free_descriptor_clients_wait_until_others_leave(tmp_path):
    with Meridian(tmp_path / "server") as server, peers(server, 30) as opened:
        assert all(pings(peer) for peer in opened)
        eventually(lambda: status(server, "connections")["current"] == 30 + 2)
        highest = max(map(int, os.listdir(f"/proc/{server.process.pid}/fd")))
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (highest + 1, hard))
        # Descriptors below the highest may be free.
        with peers(server, 60) as waiting:
            for peer in waiting:
                peer.send({"ping": 1})
            assert eventually(lambda: logged(server, "cannot accept connections"))
            assert all(pings(peer) for peer in opened)
            for peer in opened:
                peer.close()
            assert waiting[0].reply()["ok"] == 1.0
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
            assert all(peer.reply()["ok"] == 1.0 for peer in waiting[1:])
        # Said once for each time that descriptors ran out, not for each try.
        assert logged(server, "cannot accept connections") <= 60


def test_clients_that_connect_all_at_once_wait_to_be_accepted(tmp_path):
    backlog = int(pathlib.Path("/proc/sys/net/core/somaxconn").read_text())
    with Meridian(tmp_path / "server") as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            with peers(server, min(1_000, backlog)) as waiting:
                for peer in waiting:
                    peer.send({"ping": 1})
                server.process.send_signal(signal.SIGCONT)
                assert all(peer.reply()["ok"] == 1.0 for peer in waiting)
        finally:
            server.process.send_signal(signal.SIGCONT)


def test_clients_are_refused_until_the_data_is_open(tmp_path):
    """A pipe in the place of a file of the storage makes opening wait for as long as we like."""
    server = Meridian(tmp_path / "server")
    os.mkfifo(server.data / "CURRENT")
    with open(server.log, "ab") as log:
        server.process = subprocess.Popen(server.command_line(), stdout=log, stderr=log)
    try:
        assert eventually(lambda: someone_reads(server.data / "CURRENT"))
        with pytest.raises(ConnectionRefusedError):
            Peer(server)
        assert server.alive()
    finally:
        server.kill()


def someone_reads(pipe):
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


# -- slow readers


def test_who_does_not_read_harms_nobody(tmp_path):
    documents, size, readers = 64, 1_000_000, 100
    with Meridian(tmp_path / "server") as server:
        collection = server.client["db"]["large"]
        for number in range(documents):
            collection.insert_one({"_id": number, "bytes": os.urandom(size)})
        everything = {"find": "large", "batchSize": documents}
        Peer(server).ask(everything)
        before = memory_mib(server, "VmRSS")
        queries = status(server, "opcounters")["query"]
        with peers(server, readers, receive_bytes=4096) as deaf:
            for peer in deaf:
                for _ in range(5):
                    peer.send(everything)
            eventually(lambda: status(server, "opcounters")["query"] >= queries + readers)
            eventually(lambda: status(server, "connections")["active"] == 1)
            # 16 MB each would be 1,600; the rest is what connections and the storage take.
            assert memory_mib(server, "VmRSS") - before < 800
            for number in range(200):
                assert collection.find_one({"_id": number % documents}, {"_id": 1}) is not None
            slow = Peer(server, receive_bytes=128 * 1024)
            assert sorted(read_all(slow, everything)) == list(range(documents))
            slow.close()
            assert server.terminate(60) == 0
        assert logged(server, "still busy after the grace period") == 0


def read_all(peer, find):
    """The identifiers of all documents, through as many batches as it takes."""
    cursor = peer.ask(find)["cursor"]
    found = [document["_id"] for document in cursor["firstBatch"]]
    while cursor["id"]:
        cursor = peer.ask({"getMore": cursor["id"], "collection": find["find"]})["cursor"]
        found += [document["_id"] for document in cursor["nextBatch"]]
    return found


def test_batches_are_as_large_as_ever_when_nobody_is_slow(tmp_path):
    with Meridian(tmp_path / "server") as server:
        server.client["db"]["large"].insert_many([{"_id": number, "bytes": bytes(1_000_000)} for number in range(20)])
        peer = Peer(server)
        for _ in range(40):
            cursor = peer.ask({"find": "large", "batchSize": 20})["cursor"]
            assert len(cursor["firstBatch"]) == 16
            assert peer.ask({"killCursors": "large", "cursors": [bson.Int64(cursor["id"])]})["cursorsKilled"]
        # A single batch cannot be continued.
        single = peer.ask({"find": "large", "limit": 12, "singleBatch": True})["cursor"]
        assert (len(single["firstBatch"]), single["id"]) == (12, 0)


# -- half-open peers


def test_half_open_peers_cost_little_and_are_forgotten(tmp_path):
    with Meridian(tmp_path / "server") as server:
        client = server.client
        client.admin.command("ping")
        threads, virtual, resident = count_in(server, "task"), memory_mib(server, "VmSize"), memory_mib(server, "VmRSS")
        announced = struct.pack("<iiii", 48_000_000, 1, 0, 2013)
        with peers(server, 1_000) as opened:
            for number, peer in enumerate(opened):
                # Most announce much; some stop in the header, in a message, or say nothing.
                part = [announced, announced, announced + bytes(100), announced[:7], b""][number % 5]
                peer.socket.sendall(part)
            assert eventually(lambda: status(server, "connections")["current"] > 1_000)
            assert client["db"]["c"].insert_one({"_id": 1}).acknowledged
            # Stacks are virtual memory too: 2 MiB each. What was announced would be 27 GiB.
            assert memory_mib(server, "VmSize") - virtual < 1_000 * 2 + 4_096
            assert memory_mib(server, "VmRSS") - resident < 200
        assert eventually(lambda: status(server, "connections")["current"] < 10)
        assert eventually(lambda: count_in(server, "task") <= threads + 5)


def test_a_peer_that_vanished_is_noticed_by_the_system(tmp_path):
    """The kernel asks after silent peers: every connection has its timer (proc(5), /proc/net/tcp)."""
    with Meridian(tmp_path / "server") as server, peers(server, 3) as opened:
        assert all(pings(peer) for peer in opened)
        local = f":{server.port:04X}"
        own = {f":{peer.socket.getsockname()[1]:04X}" for peer in opened}
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        timers = [row[5].split(":")[0] for row in rows if row[1].endswith(local) and row[2][-5:] in own]
        assert timers == ["02"] * 3


# -- idle clients


def test_idle_connections_give_back_what_their_last_command_used(tmp_path):
    with Meridian(tmp_path / "server") as server:
        collection = server.client["db"]["c"]
        collection.insert_many([{"_id": number, "a": number, "text": "x" * 100} for number in range(5_000)])
        collection.create_index("a")
        before = memory_mib(server, "VmRSS")
        with peers(server, 1_000) as opened:
            for peer in opened:
                assert len(peer.ask({"find": "c", "filter": {"a": {"$gte": 5}}, "limit": 1_000})["cursor"]["firstBatch"]) == 101
                group = [{"$group": {"_id": {"$mod": ["$a", 10]}, "n": {"$sum": "$a"}}}]
                assert len(peer.ask({"aggregate": "c", "pipeline": group, "cursor": {}})["cursor"]["firstBatch"]) == 10
            kib = 1024 / len(opened)
            assert eventually(lambda: (memory_mib(server, "VmRSS") - before) * kib < 70), (memory_mib(server, "VmRSS") - before) * kib
            assert all(pings(peer) for peer in opened)


def test_a_crowd_is_served_by_few_threads(tmp_path):
    with Meridian(tmp_path / "server") as server:
        server.client["db"]["c"].insert_many([{"_id": number} for number in range(100)])
        threads = count_in(server, "task")
        with peers(server, 1_000) as opened:
            for turn in range(3):
                for number, peer in enumerate(opened):
                    peer.send({"find": "c", "filter": {"_id": (number + turn) % 100}})
                for number, peer in enumerate(opened):
                    assert peer.reply()["cursor"]["firstBatch"] == [{"_id": (number + turn) % 100}]
            # Up to 64 a core had a thread each while there were few.
            assert eventually(lambda: count_in(server, "task") <= threads + 4 * len(os.sched_getaffinity(0)) + 5)
            assert all(pings(peer) for peer in opened)


def test_requests_that_come_together_are_all_answered_in_a_crowd(tmp_path):
    """What has come with a request is answered before the connection waits for its client to speak."""
    with Meridian(tmp_path / "server") as server, peers(server, 300) as opened:
        for peer in opened:
            peer.socket.sendall(b"".join(wire.message(number, "db", {"ping": 1}) for number in range(5)))
        for peer in opened:
            assert [peer.reply()["ok"] for _ in range(5)] == [1.0] * 5
        # Also when the last of them is cut, and when the rest comes later.
        message = wire.message(1, "db", {"ping": 1})
        for peer in opened:
            peer.socket.sendall(message + message[:30])
        for peer in opened:
            assert peer.reply()["ok"] == 1.0
        for peer in opened:
            peer.socket.sendall(message[30:])
        for peer in opened:
            assert peer.reply()["ok"] == 1.0


def test_whoever_speaks_is_served_while_hundreds_hold_threads_up(tmp_path):
    """Hundreds that stop in the middle of a message hold a thread each; who then asks does not wait for them."""
    with Meridian(tmp_path / "server") as server, peers(server, 400) as held, peers(server, 20) as others:
        message = wire.message(1, "db", {"ping": 1})
        for peer in held:
            peer.socket.sendall(message[:30])
        assert all(pings(peer) for peer in others)
        for peer in held:
            peer.socket.sendall(message[30:])
        for peer in held:
            assert peer.reply()["ok"] == 1.0


# -- long statements


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    with Meridian(tmp_path_factory.mktemp("busy") / "server") as server:
        collection = server.client["db"]["c"]
        for first in range(0, 200_000, 10_000):
            collection.insert_many([{"_id": number, "a": number % 1000, "b": number * 7919 % 10_007} for number in range(first, first + 10_000)])
        yield server


class Clients:
    """Clients that do the same again and again until they are told to stop."""

    def __init__(self, server, works):
        self.stopped, self.failures, self.done = threading.Event(), [], [0] * len(works)
        self.connections = [server.connect() for _ in works]
        self.threads = [threading.Thread(target=self._run, args=each) for each in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def _run(self, number, work):
        while not self.stopped.is_set():
            try:
                work(self.connections[number]["db"])
                self.done[number] += 1
            except pymongo.errors.OperationFailure as failure:
                if failure.code != 11601:
                    self.failures.append(failure)
                return

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive()
        for connection in self.connections:
            connection.close()
        assert self.failures == []


def long_works():
    group = [{"$match": {"b": {"$gte": 0}}}, {"$group": {"_id": {"$mod": ["$a", 7]}, "n": {"$sum": "$b"}}}]
    sort = [{"$sort": {"b": 1, "a": -1}}, {"$limit": 10}]
    yield lambda database: list(database["c"].aggregate(group))
    yield lambda database: list(database["c"].aggregate(sort))
    yield lambda database: list(database["c"].find({"b": -1}))
    yield lambda database: database["c"].count_documents({"$expr": {"$eq": ["$a", "$b"]}})


def build_and_drop(database):
    database["c"].create_index([("b", 1), ("a", 1)], name="built")
    database["c"].drop_index("built")


def change_many(database):
    database["c"].update_many({"a": 7}, {"$inc": {"c": 1}})


def test_short_requests_go_on_beside_long_ones_and_an_index_build(busy):
    works = [*list(long_works()) * 4, build_and_drop, change_many]
    clients = Clients(busy, works)
    endless = Clients(busy, [lambda database: list(database["c"].find(ENDLESS))])
    seen = eventually(lambda: running(busy, {"op": "query", "command.filter.$expr": {"$exists": True}}))
    assert eventually(lambda: running(busy, {"command.createIndexes": "c"}))
    for number in range(200):
        assert busy.client["db"]["c"].find_one({"_id": number})["_id"] == number
        busy.client["db"]["short"].update_one({"_id": number}, {"$set": {"a": 1}}, upsert=True)
    assert [row["opid"] for row in running(busy, {"opid": seen[0]["opid"]})] == [seen[0]["opid"]]
    # Everyone gets on: who stands in line has its turn.
    assert eventually(lambda: all(clients.done)), clients.done
    busy.client.admin.command("killOp", op=seen[0]["opid"])
    endless.stop()
    clients.stop()
    assert busy.client["db"]["c"].count_documents({}) == 200_000


def running(server, wanted):
    return server.client.admin.command({"currentOp": 1, **wanted})["inprog"]


def test_few_long_statements_run_at_once(busy):
    """However many there are: the others' threads sleep, and wake to be killed."""
    endless = Clients(busy, [lambda database: list(database["c"].find(ENDLESS))] * 40)
    assert eventually(lambda: len(running(busy, {"op": "query"})) == 40)
    limit = 2 * len(os.sched_getaffinity(0))
    try:
        # At first some have not computed for long enough to be long; two are handing their turns on.
        assert eventually(lambda: max(computing(busy) for _ in range(50)) <= limit + 2)
    finally:
        for row in running(busy, {"op": "query"}):
            busy.client.admin.command("killOp", op=row["opid"])
        endless.stop()
    assert running(busy, {"op": "query"}) == []


def computing(server):
    """Threads of connections that have, or want, a processor."""
    count = 0
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{server.process.pid}/task/{task}/stat").read_text()
            name, state = re.match(r"\d+ \((.*)\) (.)", stat).groups()
            count += name.startswith("conn") and state == "R"
    return count


# -- many at once


def test_a_thousand_busy_connections_are_all_answered(tmp_path):
    with Meridian(tmp_path / "server") as server:
        collection = server.client["db"]["c"]
        collection.insert_many([{"_id": number, "a": number % 100} for number in range(10_000)])
        collection.create_index("a")
        threads, files, resident = count_in(server, "task"), count_in(server, "fd"), memory_mib(server, "VmRSS")
        requests = [
            {"find": "c", "filter": {"_id": 77}},
            {"find": "c", "filter": {"a": 5}, "limit": 20},
            {"count": "c", "query": {"a": {"$lt": 50}}},
            {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$inc": {"n": 1}}}]},
            {"update": "c", "updates": [{"q": {"_id": 4}, "u": {"$inc": {"n": 1}}}], "writeConcern": {"j": True}},
        ]
        with peers(server, 1_000) as opened:
            for turn in range(10):
                for number, peer in enumerate(opened):
                    peer.send(requests[(number + turn) % len(requests)])
                for number, peer in enumerate(opened):
                    reply = peer.reply()
                    assert reply["ok"] == 1.0 and not reply.get("writeErrors"), reply
            assert status(server, "connections")["current"] > 1_000
            assert memory_mib(server, "VmRSS") - resident < 400
        for updated in (3, 4):
            assert collection.find_one({"_id": updated})["n"] == 10 * 1_000 // len(requests)
        assert eventually(lambda: count_in(server, "task") <= threads + 5)
        assert eventually(lambda: count_in(server, "fd") <= files + 5)
        assert eventually(lambda: status(server, "connections")["current"] <= 5)
