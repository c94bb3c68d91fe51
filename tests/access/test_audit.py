"""The audit log: who did what, what was refused, and what the file survives."""

import json
import os
import signal
import subprocess
import time

import pymongo
import pytest
from harness.servers import MERIDIAN, Meridian

ROOT = {"username": "root", "password": "secret", "authSource": "admin"}


def events(path, kind=None):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in lines if kind in (None, event["atype"])]


def attempt(work):
    try:
        work()
    except pymongo.errors.OperationFailure as error:
        return error.code
    return 0


def test_who_did_what_is_recorded(tmp_path):
    log = tmp_path / "audit.log"
    with Meridian(tmp_path / "server", ["--auth", "on", "--audit-log", str(log), "--audit-sync", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="very secret", roles=["root"], customData={"a": 1})
        assert attempt(lambda: server.connect(username="root", password="wrong").test.c.find_one()) == 18
        with server.connect(username="root", password="very secret") as root:
            root.test.c.insert_one({"a": 1})
            root.test.create_collection("made")
            root.test.c.create_index("a")
            root.test.c.rename("renamed")
            root.test.command("createUser", "reader", pwd="very secret", roles=["read"])
            root.test.command("createRole", "own", privileges=[], roles=["read"])
            with server.connect(username="reader", password="very secret", authSource="test") as reader:
                assert attempt(lambda: reader.test.c.insert_one({"a": 1})) == 13
                assert attempt(lambda: reader.test.command("createUser", "x", pwd="very secret", roles=[])) == 13
                explained = {"createUser": "x", "pwd": "very secret", "roles": []}
                with pytest.raises(pymongo.errors.OperationFailure) as refused:
                    reader.test.command({"explain": explained, "verbosity": "queryPlanner"})
                assert "very secret" not in str(refused.value)
            root.test.command("dropUser", "reader")
            assert attempt(lambda: root.test.command("dropUser", "reader")) == 11
            root.drop_database("test")
        server.kill()
        assert "very secret" not in log.read_text()
        kinds = [event["atype"] for event in events(log)]
        assert kinds[0] == "startup" and kinds[1] == "createUser"
        created = events(log, "createUser")[0]
        assert created["param"] == {"user": "root", "db": "admin", "pwd": "xxx", "roles": ["root"], "customData": {"a": 1}}
        assert created["users"] == [] and created["result"] == 0 and created["remote"]["ip"] == "127.0.0.1"
        assert created["local"] == {"ip": "127.0.0.1", "port": server.port} and "$date" in created["ts"]
        logins = [(event["param"]["user"], event["param"]["mechanism"], event["result"]) for event in events(log, "authenticate")]
        assert ("root", "SCRAM-SHA-256", 18) in logins and ("root", "SCRAM-SHA-256", 0) in logins
        assert ("reader", "SCRAM-SHA-256", 0) in logins
        made = events(log, "createCollection")[0]
        assert made["param"]["ns"] == "test.made" and made["users"] == [{"user": "root", "db": "admin"}]
        assert made["roles"] == [{"role": "root", "db": "admin"}]
        assert events(log, "createIndex")[0]["param"]["ns"] == "test.c"
        assert events(log, "renameCollection")[0]["param"] == {"old": "test.c", "new": "test.renamed"}
        assert events(log, "createRole")[0]["param"]["role"] == "own"
        refused = events(log, "authCheck")
        assert [(event["param"]["command"], event["param"]["ns"]) for event in refused] == [("insert", "test.c"), ("createUser", "test.x"), ("explain", "test")]
        assert all(event["result"] == 13 and event["users"] == [{"user": "reader", "db": "test"}] for event in refused)
        assert [event["result"] for event in events(log, "dropUser")] == [0, 11]
        assert events(log, "dropDatabase")[0]["param"]["db"] == "test"
        # What was there stays when the server starts again.
        before = log.read_text()
        server.disconnect()
        server.start()
        assert server.terminate() == 0
        assert log.read_text().startswith(before)
        assert [event["atype"] for event in events(log)][-2:] == ["startup", "shutdown"]


def test_a_filter_says_what_is_recorded(tmp_path):
    log = tmp_path / "audit.log"
    only = json.dumps({"atype": {"$in": ["dropCollection", "authCheck"]}, "param.ns": {"$regex": "^test\\."}})
    with Meridian(tmp_path / "server", ["--audit-log", str(log), "--audit-filter", only]) as server:
        for database in ("test", "other"):
            server.client[database].c.insert_one({})
            server.client[database].c.create_index("a")
            server.client[database].c.drop()
    assert [event["param"]["ns"] for event in events(log)] == ["test.c"]


def test_the_file_is_begun_anew_after_it_was_moved(tmp_path):
    log = tmp_path / "audit.log"
    with Meridian(tmp_path / "server", ["--audit-log", str(log)]) as server:
        server.client.test.create_collection("one")
        os.rename(log, tmp_path / "old.log")
        server.client.test.create_collection("two")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        server.client.test.create_collection("three")
        names = [event["param"]["ns"] for event in events(tmp_path / "old.log", "createCollection")]
        assert names == ["test.one", "test.two"]
        assert [event["param"]["ns"] for event in events(log, "createCollection")] == ["test.three"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--audit-log", "/nowhere/audit.log"], "cannot open the audit log /nowhere/audit.log"),
        (["--audit-filter", "{}"], "need audit-log"),
        (["--audit-log", "audit.log", "--audit-filter", "nope"], "audit-filter is not a JSON object"),
        (["--audit-log", "audit.log", "--audit-filter", '{"$nope": 1}'], "unknown top level operator: $nope"),
    ],
)
def test_what_cannot_be_recorded_stops_the_start(tmp_path, arguments, said):
    command = [str(MERIDIAN), "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert result.returncode != 0 and said in result.stderr, result.stderr
