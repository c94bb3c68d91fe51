"""The program from outside: start, stop, the directory's lock, settings, bad input."""

import json
import subprocess
import time

import pytest
from harness.servers import MERIDIAN, Meridian, free_port


def run(*arguments, **options):
    return subprocess.run([str(MERIDIAN), *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def server(tmp_path):
    with Meridian(tmp_path / "server") as running:
        yield running


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_stops_cleanly(server, signal):
    import signal as signals

    server.client["db"]["c"].insert_one({"_id": 1})
    server.process.send_signal(getattr(signals, signal))
    started = time.monotonic()
    assert server.process.wait(20) == 0
    assert time.monotonic() - started < 10
    server.disconnect()
    server.start()
    assert server.client["db"]["c"].find_one() == {"_id": 1}


def test_stops_by_command(server):
    """As by SIGTERM; only `admin` takes it, and nothing that was acknowledged is lost."""
    client = server.client
    client["db"]["c"].insert_one({"_id": 1})
    for database, command, code in (("db", {"shutdown": 1}, 13), ("admin", {"shutdown": 1, "x": 1}, 40415), ("admin", {"shutdown": 1, "timeoutSecs": "x"}, 14)):
        assert server.run(database, command).get("code") == f"int32({code})"
    assert client.admin.command("shutdown", timeoutSecs=5)["ok"] == 1
    assert server.process.wait(20) == 0
    server.disconnect()
    server.start()
    assert server.client["db"]["c"].find_one() == {"_id": 1}


def test_stops_while_clients_are_busy(server):
    client = server.client
    client["db"]["c"].insert_many([{"_id": i} for i in range(1000)])
    cursor = client["db"]["c"].find({}, batch_size=10)
    next(cursor)
    assert server.terminate(20) == 0


def test_second_process_on_the_directory_is_refused(server):
    result = run("serve", "--data", server.data, "--listen", f"127.0.0.1:{free_port()}")
    assert result.returncode != 0
    message = result.stdout + result.stderr
    assert str(server.data) in message
    assert "lock" in message or "use" in message
    assert server.client.admin.command("ping")["ok"] == 1


def test_check_of_a_directory_in_use_is_refused(server):
    result = run("check", server.data)
    assert result.returncode != 0
    assert server.client.admin.command("ping")["ok"] == 1


def test_check_of_a_stopped_directory(server):
    collection = server.client["db"]["c"]
    collection.insert_many([{"_id": i, "a": [i, i + 1], "p": {"type": "Point", "coordinates": [i % 90, i % 45]}} for i in range(500)])
    collection.create_index("a")
    collection.create_index([("p", "2dsphere")])
    assert server.terminate() == 0
    result = run("check", server.data)
    assert result.returncode == 0, result.stdout + result.stderr


def test_port_in_use_is_a_clear_error(server, tmp_path):
    result = run("serve", "--data", tmp_path / "other", "--listen", f"127.0.0.1:{server.port}")
    assert result.returncode != 0
    assert str(server.port) in result.stdout + result.stderr


def test_restart_keeps_everything(server):
    database = server.client["db"]
    database.create_collection("v", validator={"$jsonSchema": {"required": ["a"]}}, validationLevel="moderate")
    database["c"].insert_many([{"_id": i, "n": i % 10} for i in range(1000)])
    database["c"].create_index("n")
    database["c"].create_index("d", expireAfterSeconds=100_000)
    before = sorted(map(json.dumps, (dict(index) for index in database["c"].list_indexes())))
    server.terminate()
    server.disconnect()
    server.start()
    database = server.client["db"]
    assert sorted(database.list_collection_names()) == ["c", "v"]
    assert sorted(map(json.dumps, (dict(index) for index in database["c"].list_indexes()))) == before
    assert database["c"].count_documents({"n": 3}) == 100
    options = next(database.list_collections(filter={"name": "v"}))["options"]
    assert options["validator"] == {"$jsonSchema": {"required": ["a"]}}
    assert options["validationLevel"] == "moderate"


def test_journal_off(tmp_path):
    with Meridian(tmp_path / "server", ["--journal", "off"]) as server:
        server.client["db"]["c"].insert_many([{"_id": i} for i in range(100)])
        server.terminate()
        server.disconnect()
        server.start()
        assert server.client["db"]["c"].count_documents({}) == 100


def test_config_file(tmp_path):
    port = free_port()
    config = tmp_path / "meridian.toml"
    config.write_text(f'data = "{tmp_path / "data"}"\nlisten = "127.0.0.1:{port}"\ncache-size = "128MiB"\n')
    process = subprocess.Popen([str(MERIDIAN), "serve", "--config", str(config)], stderr=subprocess.DEVNULL)
    try:
        import pymongo

        assert pymongo.MongoClient(port=port, serverSelectionTimeoutMS=15_000).admin.command("ping")["ok"] == 1
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--listen", "nowhere"], ["serve", "--cache-size", "lots"], ["serve", "--journal", "maybe"], ["frobnicate"], ["serve", "--zzz"]],
)
def test_bad_arguments(tmp_path, arguments):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode not in (0, 101)
    assert "panicked" not in result.stderr
    assert result.stderr.strip()


def test_help_names_every_command():
    result = run("--help")
    assert result.returncode == 0
    for command in ("serve", "demo", "bench", "import", "export", "check"):
        assert command in result.stdout


def test_data_directory_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    result = run("serve", "--data", tmp_path / "file", "--listen", f"127.0.0.1:{free_port()}")
    assert result.returncode not in (0, 101)
    assert "panicked" not in result.stderr
