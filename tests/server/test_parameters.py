"""Parameters that are set while the server runs do what they say."""

import datetime
import time

import pymongo
import pytest
from harness.servers import Meridian


@pytest.fixture(scope="module")
def server():
    with Meridian() as running:
        yield running


@pytest.fixture
def collection(server):
    collection = server.client["db"]["c"]
    collection.drop()
    yield collection
    server.client.admin.command("setParameter", 1, cursorTimeoutMillis=600_000)
    server.client.admin.command("setParameter", 1, ttlMonitorEnabled=True)


def wait_until(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_unused_cursors_are_closed_after_the_time_that_is_set(server, collection):
    collection.insert_many([{} for _ in range(1_000)])
    cursors = lambda: server.client.admin.command("serverStatus")["metrics"]["cursor"]  # noqa: E731
    before = cursors()["timedOut"]
    kept, closed = collection.find(batch_size=2, no_cursor_timeout=True), collection.find(batch_size=2)
    assert next(kept) and next(closed)
    server.client.admin.command("setParameter", 1, cursorTimeoutMillis=200)
    wait_until(lambda: cursors()["timedOut"] == before + 1)
    with pytest.raises(pymongo.errors.CursorNotFound):
        list(closed)
    assert len(list(kept)) == 999


def test_expired_documents_stay_while_the_monitor_is_off(server, collection):
    server.client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    collection.create_index("t", expireAfterSeconds=0)
    passes = lambda: server.client.admin.command("serverStatus")["metrics"]["ttl"]["passes"]  # noqa: E731
    time.sleep(1.5)
    before = passes()
    collection.insert_many([{"t": datetime.datetime(2020, 1, 1)} for _ in range(10)])
    time.sleep(3)
    assert (passes(), collection.count_documents({})) == (before, 10)
    server.client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    wait_until(lambda: collection.count_documents({}) == 0)


def connections_logged(server):
    lines = server.client.admin.command("getLog", "global")["log"]
    return sum("connection accepted" in line for line in lines)


def test_what_is_logged_follows_the_level_and_the_quiet(server):
    def logged():
        before = connections_logged(server)
        with pymongo.MongoClient(server.uri) as other:
            other.admin.command("ping")
        return connections_logged(server) - before

    set_to = lambda **values: server.client.admin.command("setParameter", 1, **values)  # noqa: E731
    assert logged() == 0
    set_to(logLevel=1)
    assert logged() > 0
    set_to(quiet=True)
    assert logged() == 0
    set_to(quiet=False, logLevel=5)
    assert logged() > 0
    set_to(logLevel=0)
    assert logged() == 0
