"""Logins: real drivers by every mechanism, what is refused and how, and what a change of users means for who is connected."""

import threading
import time

import bson
import pymongo
import pytest
from bson import Binary
from harness.servers import Meridian, Mongod

ROOT = {"username": "root", "password": "secret", "authSource": "admin"}


@pytest.fixture(scope="module")
def closed():
    with Meridian(arguments=["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        yield server


@pytest.fixture
def root(closed):
    with closed.connect(**ROOT) as client:
        client.test.command("dropAllUsersFromDatabase")
        client.test.command("dropAllRolesFromDatabase")
        yield client


def login(server, user, password, **options):
    options = {"authSource": "test", **options}
    return server.connect(username=user, password=password, **options)


def code_of(work):
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        work()
    return failure.value.code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", None])
@pytest.mark.parametrize(
    ("user", "password"),
    [("plain", "secret"), ("a,b=c", "with,=signs"), ("jürgen", "pässwörd"), ("long" * 30, "x" * 500), ("soft", "I\u00adX")],
)
def test_drivers_log_in(closed, root, mechanism, user, password):
    root.test.command("createUser", user, pwd=password, roles=["readWrite"])
    with login(closed, user, password, **({"authMechanism": mechanism} if mechanism else {})) as client:
        client.test.c.insert_one({"a": 1})
        assert client.test.c.count_documents({}) > 0
        status = client.test.command("connectionStatus", showPrivileges=True)["authInfo"]
        assert status["authenticatedUsers"] == [{"user": user, "db": "test"}]
        assert status["authenticatedUserRoles"] == [{"role": "readWrite", "db": "test"}]
        assert len(status["authenticatedUserPrivileges"]) == 2
        assert code_of(lambda: client.other.c.find_one()) == 13
    root.test.c.drop()


def test_wrong_passwords_and_users_that_there_are_not_look_alike(closed, root):
    root.test.command("createUser", "there", pwd="secret", roles=[])
    for user in ("there", "not there"):
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            with login(closed, user, "wrong", authMechanism=mechanism) as client:
                with pytest.raises(pymongo.errors.OperationFailure) as failure:
                    client.test.command("usersInfo", user)
                assert (failure.value.code, failure.value.details["errmsg"]) == (18, "Authentication failed.")
    # The first message is answered alike too, and always with the same salt.
    with closed.connect() as client:
        def first_answer(user, nonce):
            payload = Binary(f"n,,n={user},r={nonce}".encode())
            return client.test.command("saslStart", mechanism="SCRAM-SHA-256", payload=payload)["payload"].decode()

        shapes = {}
        for user in ("there", "not there"):
            answers = [dict(part.split("=", 1) for part in first_answer(user, nonce).split(",")) for nonce in ("abc", "def")]
            assert answers[0]["s"] == answers[1]["s"] and answers[0]["r"].startswith("abc")
            shapes[user] = (len(answers[0]["s"]), answers[0]["i"], len(answers[0]["r"]))
        assert shapes["there"] == shapes["not there"]
        assert first_answer("there", "x").split("s=")[1] != first_answer("not there", "x").split("s=")[1]
        for user in ("there", "not there"):
            mechanisms = client.admin.command("hello", saslSupportedMechs=f"test.{user}")["saslSupportedMechs"]
            assert sorted(mechanisms) == ["SCRAM-SHA-1", "SCRAM-SHA-256"]


def test_failed_logins_from_an_address_cost_time():
    with Meridian(arguments=["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        took = []
        for _ in range(7):
            begun = time.monotonic()
            with server.connect(**{**ROOT, "password": "wrong"}) as client:
                assert code_of(lambda: client.admin.command("usersInfo", 1)) == 18
            took.append(time.monotonic() - begun)
        assert max(took[-2:]) > 0.3, took
        # Who is logged in, or need not be, does not wait.
        with server.connect() as client:
            begun = time.monotonic()
            client.admin.command("ping")
            assert time.monotonic() - begun < 1


def test_the_first_user_is_made_from_this_machine_and_no_second():
    with Meridian(arguments=["--auth", "on"]) as server:
        with server.connect() as client:
            assert code_of(lambda: client.test.c.insert_one({})) == 13
            assert code_of(lambda: client.admin.command("usersInfo", 1)) == 13
            assert code_of(lambda: client.test.command("createUser", "a", pwd="b", roles=[])) == 13
            client.admin.command("createUser", "a", pwd="b", roles=["root"])
            assert code_of(lambda: client.admin.command("createUser", "b", pwd="b", roles=["root"])) == 13
        server.kill()
        server.disconnect()
        server.start()
        with server.connect() as client:
            assert code_of(lambda: client.admin.command("createUser", "b", pwd="b", roles=["root"])) == 13
        with server.connect(username="a", password="b") as client:
            assert [user["user"] for user in client.admin.command("usersInfo", 1)["users"]] == ["a"]


def test_changes_reach_who_is_connected(closed, root):
    root.test.command("createUser", "someone", pwd="one", roles=["read"])
    with login(closed, "someone", "one") as client:
        client.test.c.find_one()
        assert code_of(lambda: client.test.c.insert_one({})) == 13
        root.test.command("grantRolesToUser", "someone", roles=["readWrite"])
        client.test.c.insert_one({})
        root.test.command("createRole", "own", privileges=[], roles=["readWrite"])
        root.test.command("updateUser", "someone", roles=["own"])
        client.test.c.insert_one({})
        root.test.command("updateRole", "own", roles=["read"])
        assert code_of(lambda: client.test.c.insert_one({})) == 13
        root.test.command("dropRole", "own")
        assert code_of(lambda: client.test.c.find_one()) == 13
        # Also if somebody writes the document by hand.
        root.admin["system.users"].update_one({"_id": "test.someone"}, {"$set": {"roles": [{"role": "read", "db": "test"}]}})
        client.test.c.find_one()
        root.test.command("dropUser", "someone")
        assert code_of(lambda: client.test.c.find_one()) == 13
    root.test.c.drop()


def test_passwords_change(closed, root):
    root.test.command("createUser", "someone", pwd="one", roles=["read"])
    root.test.command("updateUser", "someone", pwd="two")
    with login(closed, "someone", "one") as client:
        assert code_of(lambda: client.test.c.find_one()) == 18
    with login(closed, "someone", "two") as client:
        client.test.c.find_one()
    root.test.command("updateUser", "someone", pwd="three", mechanisms=["SCRAM-SHA-256"])
    with login(closed, "someone", "three", authMechanism="SCRAM-SHA-1") as client:
        assert code_of(lambda: client.test.c.find_one()) == 18
    with login(closed, "someone", "three", authMechanism="SCRAM-SHA-256") as client:
        client.test.c.find_one()


def test_a_connection_is_one_users(closed, root):
    root.test.command("createUser", "someone", pwd="one", roles=["read"])
    with login(closed, "someone", "one", maxPoolSize=1) as client:
        client.test.c.find_one()
        client.test.command("logout")
        assert code_of(lambda: client.test.c.find_one()) == 13
        client.admin.command("ping")


def test_cursors_and_sessions_are_their_users(closed, root):
    root.test.c.insert_many([{"a": number} for number in range(500)])
    for user in ("one", "two"):
        root.test.command("createUser", user, pwd="x", roles=["read"])
    with login(closed, "one", "x") as one, login(closed, "two", "x") as two:
        cursor = one.test.command("find", "c", batchSize=10)["cursor"]["id"]
        assert code_of(lambda: two.test.command("getMore", cursor, collection="c")) == 13
        assert code_of(lambda: two.test.command("killCursors", "c", cursors=[cursor])) == 13
        assert len(one.test.command("getMore", cursor, collection="c", batchSize=10)["cursor"]["nextBatch"]) == 10
        assert root.test.command("killCursors", "c", cursors=[cursor])["cursorsKilled"] == [cursor]
        session = one.start_session()
        cursor = one.test.command("find", "c", batchSize=10, session=session)["cursor"]["id"]
        two.admin.command("killSessions", [session.session_id])
        two.admin.command("endSessions", [session.session_id])
        one.test.command("getMore", cursor, collection="c", batchSize=10, session=session)
        one.admin.command("endSessions", [session.session_id])
        assert code_of(lambda: one.test.command("getMore", cursor, collection="c", batchSize=10)) == 43
    root.test.c.drop()


def test_restrictions_say_from_where(closed, root):
    for user, source in (("here", "127.0.0.0/8"), ("elsewhere", "10.0.0.0/8")):
        restrictions = [{"clientSource": [source]}]
        root.test.command("createUser", user, pwd="x", roles=["read"], authenticationRestrictions=restrictions)
    root.test.command(
        "createRole", "far", privileges=[], roles=[], authenticationRestrictions=[{"serverAddress": ["10.0.0.1"]}]
    )
    root.test.command("createUser", "by role", pwd="x", roles=["read", "far"])
    with login(closed, "here", "x") as client:
        client.test.c.find_one()
    for user in ("elsewhere", "by role"):
        with login(closed, user, "x") as client:
            assert code_of(lambda: client.test.c.find_one()) == 18
    assert code_of(lambda: root.test.command("updateUser", "here", authenticationRestrictions=[{"clientSource": ["?"]}])) == 2


def test_lists_show_what_may_be_seen(closed, root):
    root.test.seen.insert_one({})
    root.test.hidden.insert_one({})
    root.unseen.c.insert_one({})
    root.admin.command(
        "createRole", "looker", privileges=[{"resource": {"db": "test", "collection": "seen"}, "actions": ["find"]}], roles=[]
    )
    root.test.command("createUser", "looker", pwd="x", roles=[{"role": "looker", "db": "admin"}])
    with login(closed, "looker", "x") as client:
        assert client.list_database_names() == ["test"]
        listed = client.test.command("listCollections", nameOnly=True, authorizedCollections=True)
        assert [row["name"] for row in listed["cursor"]["firstBatch"]] == ["seen"]
        assert code_of(lambda: client.test.list_collections()) == 13
    root.admin.command("dropRole", "looker")
    root.drop_database("unseen")
    root.test.seen.drop(), root.test.hidden.drop()


def test_secrets_are_not_shown(closed, root):
    refused = closed.connect()
    root.test.command("createUser", "reader", pwd="x", roles=["read"])
    with login(closed, "reader", "x") as client:
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            client.test.command("createUser", "other", pwd="do not show", roles=[])
    assert failure.value.code == 13 and "do not show" not in str(failure.value) and "xxx" in str(failure.value)
    refused.close()
    assert "do not show" not in closed.log.read_text()
    shown = root.test.command("usersInfo", "reader")["users"][0]
    assert "credentials" not in shown and shown["mechanisms"] == ["SCRAM-SHA-1", "SCRAM-SHA-256"]
    credentials = root.test.command("usersInfo", "reader", showCredentials=True)["users"][0]["credentials"]
    assert {name: keys["iterationCount"] for name, keys in credentials.items()} == {"SCRAM-SHA-1": 10000, "SCRAM-SHA-256": 15000}


def test_users_of_a_mongod_log_in_here(closed, root):
    """mongodump and mongorestore carry them as documents."""
    with Mongod(arguments=["--auth"]) as mongod:
        mongod.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        with mongod.connect(**ROOT) as theirs:
            theirs.test.command("createUser", "moved", pwd="pässword", roles=["readWrite"], customData={"a": 1})
            document = theirs.admin["system.users"].find_one({"_id": "test.moved"})
    root.admin["system.users"].insert_one(document)
    for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        with login(closed, "moved", "pässword", authMechanism=mechanism) as client:
            client.test.c.insert_one({})
    stored = root.admin["system.users"].find_one({"_id": "test.moved"})
    assert stored == document and bson.encode(stored) == bson.encode(document)
    root.test.c.drop()


def test_many_change_roles_at_once(closed, root):
    """No grant is lost, whoever grants beside whom."""
    root.test.command("createUser", "busy", pwd="x", roles=[])
    for number in range(24):
        root.test.command("createRole", f"r{number}", privileges=[], roles=[])

    def grant(numbers):
        with closed.connect(**ROOT) as client:
            for number in numbers:
                client.test.command("grantRolesToUser", "busy", roles=[f"r{number}"])

    threads = [threading.Thread(target=grant, args=(range(first, 24, 4),)) for first in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    roles = root.test.command("usersInfo", "busy")["users"][0]["roles"]
    assert {role["role"] for role in roles} == {f"r{number}" for number in range(24)}


def test_roles_that_would_inherit_themselves_are_refused(closed, root):
    for name in "abc":
        root.test.command("createRole", name, privileges=[], roles=[])
    root.test.command("grantRolesToRole", "a", roles=["b"])
    root.test.command("grantRolesToRole", "b", roles=["c"])
    assert code_of(lambda: root.test.command("grantRolesToRole", "c", roles=["a"])) == 49
    assert code_of(lambda: root.test.command("grantRolesToRole", "a", roles=["a"])) == 49


def test_without_access_control_users_may_log_in_and_need_not():
    with Meridian() as server:
        with server.connect() as client:
            client.test.command("createUser", "someone", pwd="x", roles=["read"])
            client.test.c.insert_one({})
        with login(server, "someone", "x") as client:
            client.test.c.insert_one({})
        with login(server, "someone", "wrong") as client:
            assert code_of(lambda: client.test.c.find_one()) == 18
