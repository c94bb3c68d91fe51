"""The Node.js driver and mongosh, run as programs; any warning is a failure."""

import os
import pathlib
import subprocess

from harness.servers import CACHE, Meridian

HERE = pathlib.Path(__file__).parent / "node"
MODULES = CACHE / "node" / "node_modules"


def run(command, **variables):
    environment = {**os.environ, "NODE_PATH": str(MODULES), "NO_COLOR": "1", **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_driver(subject):
    result = run(["node", str(HERE / "work.js"), subject.uri])
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["ok driver ", "ok driver zlib"]


SHELL_OUTPUT = """
inserted true|found 2|counted 3|updated 1|index n_1|indexes 2|explained true|aggregated 6|distinct 3|collections c
databases true|stats 3|dbstats 1|hello true|version true|status 1|host 1|validate true|modify 1|refused 121|removed 3
dropped true|gone 1
"""


def test_mongosh(subject, tmp_path):
    command = [str(MODULES / ".bin" / "mongosh"), "--quiet", subject.uri, str(HERE / "shell.js")]
    result = run(command, HOME=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split("\n")[:-1] == [line for row in SHELL_OUTPUT.split("\n") if row for line in row.split("|")]
    assert "warn" not in (result.stdout + result.stderr).lower()


def test_mongosh_greets_without_warnings(subject, tmp_path):
    """What a person sees on connecting: mongosh asks for start-up warnings and prints them."""
    command = [str(MODULES / ".bin" / "mongosh"), subject.uri, "--eval", "db.hello().ok"]
    result = run(command, HOME=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    shown = result.stdout + result.stderr
    assert "warn" not in shown.lower() and "error" not in shown.lower(), shown


def test_logins(tmp_path):
    """By the Node.js driver, and by mongosh as a person does it: the first user, then a login."""
    shell = [str(MODULES / ".bin" / "mongosh"), "--quiet"]
    home = {"HOME": str(tmp_path)}
    with Meridian(tmp_path / "server", ["--auth", "on"]) as server:
        script = """
            use_admin = db.getSiblingDB("admin");
            print(use_admin.createUser({user: "root", pwd: "secret", roles: ["root"]}).ok);
            print(use_admin.auth("root", "secret").ok);
            test = db.getSiblingDB("test");
            print(test.createUser({user: "someone", pwd: "pässword", roles: ["readWrite"]}).ok);
            print(test.getUsers().users.map(user => user.user).join(), test.getRole("readWrite").isBuiltin);
            test.createRole({role: "own", privileges: [], roles: ["read"]});
            test.grantRolesToUser("someone", ["own"]);
            print(test.getUser("someone").roles.map(role => role.role).sort().join());
        """
        result = run([*shell, server.uri, "--eval", script], **home)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.split("\n")[:-1] == ["1", "1", "1", "someone true", "own,readWrite"]
        again = [*shell, server.uri, "--username", "root", "--password", "secret", "--eval", "db.getSiblingDB('test').getUsers().users.length"]
        assert run(again, **home).stdout.strip() == "1"
        refused = run([*shell, server.uri, "--username", "root", "--password", "no", "--eval", "1"], **home)
        assert refused.returncode != 0 and "Authentication failed" in refused.stdout + refused.stderr
        result = run(["node", str(HERE / "login.js"), server.uri])
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == ["SCRAM-SHA-1 13", "SCRAM-SHA-256 13", "default 13", "wrong 18"]
