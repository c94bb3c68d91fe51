"""Limits that protect a server from its clients, and users made without one."""

import subprocess
import time

import bson
import pymongo
import pytest
from harness import wire
from harness.servers import MERIDIAN, Meridian


def test_reads_without_a_limit_have_the_default(tmp_path):
    with Meridian(tmp_path / "server", ["--default-max-time-ms", "100"]) as server:
        collection = server.client.test.c
        collection.insert_many([{"a": number, "text": "x" * 100} for number in range(200_000)])
        slow = {"$expr": {"$gt": [{"$size": {"$filter": {"input": {"$range": [0, 2000]}, "cond": {"$gt": ["$$this", "$a"]}}}}, 5000]}}

        def code_of(work):
            with pytest.raises(pymongo.errors.OperationFailure) as failure:
                work()
            return failure.value.code

        assert code_of(lambda: list(collection.find(slow))) == 50
        assert code_of(lambda: list(collection.aggregate([{"$match": slow}]))) == 50
        assert code_of(lambda: collection.count_documents(slow)) == 50
        assert code_of(lambda: collection.distinct("a", slow)) == 50
        assert code_of(lambda: list(collection.find(slow).max_time_ms(300))) == 50
        # Said to have no limit, and what is no read, goes on.
        narrow = {"$and": [{"_id": {"$exists": True}}, slow]}
        assert server.client.test.command("count", "c", query={"a": {"$lt": 300}, **narrow}, maxTimeMS=0)["n"] == 0
        assert collection.update_many({"a": {"$lt": 150_000}}, {"$set": {"b": 1}}).modified_count == 150_000


def lets_in(server):
    """Whether one more connection is answered, which then stays open."""
    connection = wire.Connection(server.port, 10)
    try:
        answer = bson.decode(connection.command("admin", {"ping": 1}))
    except OSError:
        return None
    if answer["ok"] != 1.0:
        assert "too many open connections" in answer["errmsg"], answer
        connection.close()
        return None
    return connection


def test_connections_of_a_user_are_limited(tmp_path):
    with Meridian(tmp_path / "server", ["--auth", "on", "--max-connections-per-user", "3"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])

        def login(user="ann"):
            client = server.connect(username=user, password="secret", authSource="test", maxPoolSize=1)
            client.test.c.find_one()
            return client

        with server.connect(username="root", password="secret", maxPoolSize=1) as root:
            for user in ("ann", "bob"):
                root.test.command("createUser", user, pwd="secret", roles=["readWrite"])
            clients = [login() for _ in range(3)]
            with pytest.raises(pymongo.errors.OperationFailure, match="as many as a user may have") as refused:
                login()
            assert refused.value.code == 18
            # Those that are there go on, and others are not concerned.
            assert [client.test.c.find_one() for client in clients] == [None] * 3
            login("bob").close()
            clients.pop().close()
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    clients.append(login())
                    break
                except pymongo.errors.OperationFailure:
                    time.sleep(0.05)
            assert len(clients) == 3, "a place that was left is given to another"
            # A user that was dropped leaves its places once its connections notice.
            root.test.command("dropUser", "ann")
            for client in clients:
                with pytest.raises(pymongo.errors.OperationFailure):
                    client.test.c.find_one()
            root.test.command("createUser", "ann", pwd="secret", roles=["readWrite"])
            login().close()
            [client.close() for client in clients]


def test_users_and_roles_as_large_as_a_document_go(tmp_path):
    with Meridian(tmp_path / "server", ["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        with server.connect(username="root", password="secret") as root:

            def privileges(count):
                return [{"resource": {"db": f"d{at}", "collection": "c"}, "actions": ["find"]} for at in range(count)]

            root.admin.command("createRole", "wide", privileges=privileges(20_000), roles=[])
            with pytest.raises(pymongo.errors.DocumentTooLarge):
                root.admin.command("createRole", "wider", privileges=privileges(300_000), roles=[])
            # Together too large for a document, which each is not.
            root.admin.command("createRole", "grown", privileges=privileges(120_000), roles=[])
            more = [{"resource": {"db": f"e{at}", "collection": "c" * 30}, "actions": ["find"]} for at in range(80_000)]
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                root.admin.command("grantPrivilegesToRole", "grown", privileges=more)
            assert refused.value.code in (10334, 17419, 17420), refused.value.details
            for depth in range(300):
                root.test.command("createRole", f"r{depth}", privileges=[], roles=[f"r{depth - 1}"] if depth else ["read"])
            long_name = "n" * 1_000_000
            roles = [{"role": "r299", "db": "test"}, {"role": "wide", "db": "admin"}, *[{"role": "read", "db": f"x{at}"} for at in range(10_000)]]
            root.test.command("createUser", long_name, pwd="p" * 1_000_000, roles=roles, mechanisms=["SCRAM-SHA-1"])
            root.test.command("createUser", "u", pwd="secret", roles=roles)
            with server.connect(username="u", password="secret", authSource="test") as client:
                assert client.test.c.find_one() is None
                assert client.d19999.c.find_one() is None
                assert client.x9999.anything.find_one() is None
                with pytest.raises(pymongo.errors.OperationFailure) as refused:
                    client.d20000.c.find_one()
                assert refused.value.code == 13
            info = root.test.command("usersInfo", long_name)["users"][0]
            assert info["user"] == long_name and len(info["roles"]) == len(roles)
            root.test.command("dropAllUsersFromDatabase")


def test_connections_of_an_address_are_limited(tmp_path):
    with Meridian(tmp_path / "server", ["--max-connections-per-address", "3"]) as server:
        connections = [lets_in(server) for _ in range(3)]
        assert all(connections)
        assert lets_in(server) is None
        connections.pop().close()
        deadline = time.monotonic() + 30
        while not (again := lets_in(server)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert again, "a place that was left is given to another"
        assert lets_in(server) is None
        [connection.close() for connection in [*connections, again]]


def user_add(*arguments, **options):
    return subprocess.run([str(MERIDIAN), "user", "add", *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)


def test_users_are_made_without_a_server(tmp_path):
    password = tmp_path / "password"
    password.write_text("sécret\nmore\n")
    with Meridian(tmp_path / "server", ["--auth", "on"]) as server:
        refused = user_add(server.data, "root", "--role", "root", "--password-file", password)
        assert refused.returncode != 0 and "in use" in refused.stderr, refused.stderr
        assert server.terminate() == 0
        server.disconnect()
        made = user_add(server.data, "root", "--role", "root", "--password-file", password)
        assert (made.returncode, made.stdout) == (0, "made the user root@admin\n"), made.stderr
        other = user_add(server.data, "reader", "--database", "test", "--role", "read", "--role", "readWrite@other", "--password-file", password)
        assert other.returncode == 0, other.stderr
        again = user_add(server.data, "root", "--role", "root", "--password-file", password)
        assert again.returncode != 0 and "there is a user root@admin already" in again.stderr
        server.start()
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            with server.connect(username="root", password="sécret", authMechanism=mechanism) as root:
                users = root.admin.command("usersInfo", {"forAllDBs": True})["users"]
                assert [user["_id"] for user in users] == ["admin.root", "test.reader"]
                assert users[1]["roles"] == [{"role": "read", "db": "test"}, {"role": "readWrite", "db": "other"}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "root", "--role", "root"], "there is no directory nowhere"),
        ([".", "root", "--role", "none"], "there is no role none@admin"),
        ([".", "root", "--role", "root", "--password-file", "/nowhere/file"], "cannot read the password"),
        ([".", "root"], "--role"),
    ],
)
def test_what_cannot_be_made_is_said(tmp_path, arguments, said):
    password = tmp_path / "password"
    password.write_text("secret")
    (tmp_path / "data").mkdir()
    if "--password-file" not in arguments:
        arguments = [*arguments, "--password-file", password]
    result = user_add(*arguments, cwd=tmp_path / "data")
    assert result.returncode != 0 and said in result.stderr, result.stderr


def test_a_password_is_asked_for_on_a_terminal_only(tmp_path):
    (tmp_path / "data").mkdir()
    result = user_add(tmp_path / "data", "root", "--role", "root", stdin=subprocess.DEVNULL, start_new_session=True)
    assert result.returncode != 0 and "--password-file" in result.stderr, result.stderr
