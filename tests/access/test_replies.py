"""What the commands on users and roles answer is what a real mongod answers."""

import pymongo
import pytest
from harness.servers import Meridian, Mongod

ROOT = {"username": "root", "password": "secret", "authSource": "admin"}
FIND = [{"resource": {"db": "test", "collection": "c"}, "actions": ["find", "insert"]}]


@pytest.fixture(scope="module")
def clients():
    with Mongod(arguments=["--auth"]) as oracle, Meridian(arguments=["--auth", "on"]) as subject:
        for server in (oracle, subject):
            server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        with oracle.connect(**ROOT) as theirs, subject.connect(**ROOT) as ours:
            yield theirs, ours


def reply(client, database, command):
    try:
        answer = client[database].command(command)
    except pymongo.errors.OperationFailure as error:
        answer = error.details
    return plain(answer)


def plain(value):
    """Without what differs by chance, and without the order in which mongod's hash tables list roles."""
    if isinstance(value, dict):
        chance = ("userId", "salt", "storedKey", "serverKey", "topologyVersion")
        listed = {name: plain(item) for name, item in value.items() if name not in chance}
        for name in ("roles", "inheritedRoles"):
            if name in listed:
                listed[name] = sorted(listed[name], key=str)
        before, found, names = listed.get("errmsg", "").partition("Could not find roles: ")
        if found:
            listed["errmsg"] = before + found + ", ".join(sorted(names.split(", ")))
        if "inheritedPrivileges" in listed:
            listed["inheritedPrivileges"] = merged(listed["inheritedPrivileges"])
        return listed
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def merged(privileges):
    by_resource = {}
    for privilege in privileges:
        by_resource.setdefault(str(privilege["resource"]), set()).update(privilege["actions"])
    return by_resource


ZERO = "a\0b"
SCRIPTS = {
    "indexes": [
        ("test", {"createUser": "u", "pwd": "p", "roles": []}),
        ("test", {"createRole": "r", "privileges": [], "roles": []}),
        ("admin", {"listIndexes": "system.users"}),
        ("admin", {"listIndexes": "system.roles"}),
    ],
    "names": [
        ("test", {"createUser": ZERO, "pwd": "p", "roles": []}),
        ("test", {"updateUser": ZERO, "pwd": "p"}),
        ("test", {"dropUser": ZERO}),
        ("test", {"createRole": ZERO, "privileges": [], "roles": []}),
        ("test", {"updateRole": ZERO, "privileges": []}),
        ("test", {"dropRole": ZERO}),
        ("test", {"grantRolesToUser": ZERO, "roles": ["read"]}),
        ("test", {"grantRolesToRole": ZERO, "roles": ["read"]}),
        ("test", {"usersInfo": ZERO}),
        ("test", {"rolesInfo": ZERO}),
        ("test", {"createUser": "u", "pwd": ZERO, "roles": []}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [{"role": ZERO, "db": "test"}]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [{"role": "read", "db": ZERO}]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [{"role": "read", "db": "x.y"}]}),
        ("test", {"createRole": "r", "privileges": [{"resource": {"db": ZERO, "collection": ""}, "actions": ["find"]}], "roles": []}),
        ("test", {"createUser": "u", "pwd": "p", "roles": ["n1", "n2"]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": ["read"]}),
        ("test", {"grantRolesToUser": "u", "roles": ["n1", "read", "n2", "n3"]}),
        ("test", {"revokeRolesFromUser": "u", "roles": ["n1", "n2"]}),
        ("test", {"createRole": "a", "privileges": [], "roles": ["n1", "n2"]}),
        ("test", {"createRole": "a", "privileges": [], "roles": []}),
        ("test", {"createRole": "b", "privileges": [], "roles": ["a"]}),
        ("test", {"createRole": "c", "privileges": [], "roles": ["b"]}),
        ("test", {"grantRolesToRole": "a", "roles": ["c", "read"]}),
        ("test", {"updateRole": "a", "roles": ["b"]}),
        ("test", {"updateRole": "a", "roles": ["a"]}),
    ],
    "users": [
        ("test", {"createUser": "", "pwd": "p", "roles": []}),
        ("test", {"createUser": "u", "pwd": "p"}),
        ("test", {"createUser": "u", "roles": []}),
        ("test", {"createUser": "u", "pwd": 5, "roles": []}),
        ("test", {"createUser": 5, "pwd": "p", "roles": []}),
        ("test", {"createUser": "u", "pwd": "p", "roles": ["none"]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [{"role": "read"}]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [1]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [], "none": 1}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [], "mechanisms": ["NONE"]}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [], "mechanisms": []}),
        ("test", {"createUser": "u", "pwd": "p", "roles": [], "digestPassword": False}),
        ("test", {"createUser": "u", "pwd": "p", "roles": ["read", {"role": "readWrite", "db": "other"}], "customData": {"a": 1}}),
        ("test", {"createUser": "u", "pwd": "p", "roles": []}),
        ("test", {"createUser": "w", "pwd": "p", "roles": [], "mechanisms": ["SCRAM-SHA-256"]}),
        ("local", {"createUser": "u", "pwd": "p", "roles": []}),
        ("$external", {"createUser": "CN=x", "roles": []}),
        ("$external", {"createUser": "CN=y", "pwd": "x", "roles": []}),
        ("test", {"usersInfo": 1}),
        ("test", {"usersInfo": "u", "showCredentials": True}),
        ("test", {"usersInfo": "u", "showPrivileges": True}),
        ("test", {"usersInfo": "u", "showCustomData": False}),
        ("test", {"usersInfo": {"user": "u", "db": "test"}}),
        ("test", {"usersInfo": ["w", "u", {"user": "root", "db": "admin"}]}),
        ("test", {"usersInfo": {"forAllDBs": True}}),
        ("test", {"usersInfo": 1, "filter": {"user": "w"}}),
        ("test", {"usersInfo": 1, "showPrivileges": True}),
        ("test", {"usersInfo": True}),
        ("test", {"usersInfo": "none"}),
        ("test", {"updateUser": "u"}),
        ("test", {"updateUser": "none", "pwd": "x"}),
        ("test", {"updateUser": "u", "pwd": "q", "roles": ["readWrite"], "customData": {"b": 2}}),
        ("test", {"updateUser": "u", "mechanisms": ["SCRAM-SHA-256"]}),
        ("test", {"updateUser": "u", "mechanisms": ["SCRAM-SHA-1"]}),
        ("test", {"usersInfo": "u"}),
        ("test", {"grantRolesToUser": "u", "roles": ["dbAdmin", {"role": "read", "db": "x"}]}),
        ("test", {"grantRolesToUser": "u", "roles": ["dbAdmin", "none"]}),
        ("test", {"grantRolesToUser": "u", "roles": []}),
        ("test", {"grantRolesToUser": "none", "roles": ["dbAdmin"]}),
        ("test", {"revokeRolesFromUser": "u", "roles": ["dbAdmin", "read"]}),
        ("test", {"usersInfo": "u", "showPrivileges": True}),
        ("test", {"dropUser": "none"}),
        ("test", {"dropUser": "w"}),
        ("test", {"dropAllUsersFromDatabase": 1}),
        ("test", {"dropAllUsersFromDatabase": 1}),
    ],
    "roles": [
        ("test", {"createRole": "r", "privileges": FIND, "roles": ["read"]}),
        ("test", {"createRole": "r", "privileges": [], "roles": []}),
        ("test", {"createRole": "read", "privileges": [], "roles": []}),
        ("test", {"createRole": "q", "roles": []}),
        ("test", {"createRole": "q", "privileges": []}),
        ("test", {"createRole": "q", "privileges": [], "roles": ["none"]}),
        ("test", {"createRole": "q", "privileges": [], "roles": [{"role": "read", "db": "other"}]}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"db": "test", "collection": "c"}, "actions": ["none"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"db": "other", "collection": "c"}, "actions": ["find"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"cluster": True}, "actions": ["find"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"db": "x"}, "actions": ["find"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {}, "actions": ["find"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"actions": ["find"]}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"db": "test", "collection": "c"}}], "roles": []}),
        ("test", {"createRole": "q", "privileges": [{"resource": {"db": "test", "collection": "c"}, "actions": []}], "roles": []}),
        ("admin", {"createRole": "cl", "privileges": [{"resource": {"cluster": True}, "actions": ["serverStatus", "inprog"]}, {"resource": {"anyResource": True}, "actions": ["anyAction"]}], "roles": [{"role": "r", "db": "test"}]}),
        ("admin", {"createRole": "self", "privileges": [], "roles": ["self"]}),
        ("admin", {"rolesInfo": 1}),
        ("admin", {"rolesInfo": 1, "showPrivileges": True}),
        ("admin", {"rolesInfo": "cl", "showPrivileges": True}),
        ("test", {"rolesInfo": ["r", "read", {"role": "cl", "db": "admin"}]}),
        ("test", {"rolesInfo": "r", "showPrivileges": "asUserFragment"}),
        ("test", {"rolesInfo": "none"}),
        ("test", {"updateRole": "r"}),
        ("test", {"updateRole": "none", "roles": []}),
        ("test", {"updateRole": "read", "roles": []}),
        ("test", {"updateRole": "r", "roles": ["r"]}),
        ("test", {"updateRole": "r", "privileges": [{"resource": {"db": "test", "collection": ""}, "actions": ["find"]}]}),
        ("test", {"grantPrivilegesToRole": "r", "privileges": [{"resource": {"db": "test", "collection": "d"}, "actions": ["find"]}, {"resource": {"db": "test", "collection": ""}, "actions": ["insert"]}]}),
        ("test", {"revokePrivilegesFromRole": "r", "privileges": [{"resource": {"db": "test", "collection": "d"}, "actions": ["find"]}]}),
        ("test", {"grantRolesToRole": "r", "roles": ["readWrite"]}),
        ("test", {"grantRolesToRole": "r", "roles": [{"role": "cl", "db": "admin"}]}),
        ("test", {"revokeRolesFromRole": "r", "roles": ["readWrite"]}),
        ("test", {"rolesInfo": "r", "showPrivileges": True}),
        ("test", {"dropRole": "none"}),
        ("test", {"dropRole": "read"}),
        ("admin", {"createUser": "z", "pwd": "p", "roles": [{"role": "r", "db": "test"}]}),
        ("test", {"dropRole": "r"}),
        ("admin", {"usersInfo": "z"}),
        ("admin", {"rolesInfo": "cl"}),
        ("test", {"dropAllRolesFromDatabase": 1}),
        ("admin", {"dropAllRolesFromDatabase": 1}),
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_users_and_roles(clients, script):
    different = []
    for database, command in SCRIPTS[script]:
        theirs, ours = (reply(client, database, dict(command)) for client in clients)
        if theirs != ours:
            different.append(f"{database} {command}\n  mongod   {theirs}\n  meridian {ours}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("database", ["admin", "test"])
def test_built_in_roles_have_mongods_privileges(clients, database):
    def roles(client):
        listed = client[database].command("rolesInfo", 1, showBuiltinRoles=True, showPrivileges=True)["roles"]
        shown = {}
        for role in listed:
            privileges = [(str(privilege["resource"]), privilege["actions"]) for privilege in role["privileges"]]
            shown[role["role"]] = sorted(privileges)
        return shown

    theirs, ours = map(roles, clients)
    # A role of sharded clusters, without privileges, whose name later versions gave away.
    theirs.pop("directShardOperations", None), ours.pop("directShardOperations", None)
    assert ours == theirs
