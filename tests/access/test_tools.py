"""`meridian import` and `meridian export` log in."""

import subprocess
from urllib.parse import quote

import pytest
from harness.servers import MERIDIAN, Meridian

PASSWORD = "p@ss:/wörd?"


@pytest.fixture(scope="module")
def closed():
    with Meridian(arguments=["--auth", "on"]) as server:
        server.connect().admin.command("createUser", "root", pwd="secret", roles=["root"])
        with server.connect(username="root", password="secret") as root:
            for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
                root.test.command("createUser", f"a,b=c@{mechanism}", pwd=PASSWORD, roles=["readWrite"], mechanisms=[mechanism])
            root.admin.command("createUser", "reader", pwd=PASSWORD, roles=[{"role": "read", "db": "test"}])
        yield server


def tool(name, *arguments, **options):
    return subprocess.run([str(MERIDIAN), name, *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize("way", ["flags", "URI", "both"])
def test_documents_come_and_go_by_one_who_may(closed, tmp_path, mechanism, way):
    user, password_file = f"a,b=c@{mechanism}", tmp_path / "password"
    password_file.write_text(PASSWORD + "\n")
    login = {
        "flags": ["--port", closed.port, "--db", "test", "--username", user, "--passwordFile", password_file, "--authenticationDatabase", "test"],
        "URI": ["--uri", f"mongodb://{quote(user, safe='')}:{quote(PASSWORD, safe='')}@127.0.0.1:{closed.port}/test"],
        "both": ["--uri", f"mongodb://{quote(user, safe='')}@127.0.0.1:{closed.port}/test?authSource=test", "--passwordFile", password_file],
    }[way]
    rows = tmp_path / "rows.json"
    rows.write_text("".join(f'{{"_id": {at}}}\n' for at in range(1000)))
    imported = tool("import", *login, "--collection", "c", "--drop", "-j", 3, rows)
    assert imported.returncode == 0, imported
    exported = tool("export", *login, "--collection", "c")
    assert exported.returncode == 0 and len(exported.stdout.splitlines()) == 1000, exported.stderr


def test_others_are_refused(closed, tmp_path):
    rows, password_file = tmp_path / "rows.json", tmp_path / "password"
    rows.write_text('{"_id": 1}\n')
    into = ["--port", closed.port, "--collection", "c"]
    nobody = tool("import", *into, rows)
    assert nobody.returncode != 0 and "requires authentication" in nobody.stderr, nobody
    password_file.write_text("wrong")
    wrong = tool("import", *into, "--username", "reader", "--passwordFile", password_file, rows)
    assert wrong.returncode != 0 and "cannot log in as reader@admin" in wrong.stderr and "Authentication failed" in wrong.stderr, wrong
    password_file.write_text(PASSWORD)
    reader = tool("import", *into, "--username", "reader", "--passwordFile", password_file, rows)
    assert reader.returncode != 0 and "not authorized on test to execute command" in reader.stderr, reader
    asked = tool("export", *into, "--username", "reader", stdin=subprocess.DEVNULL, start_new_session=True)
    assert asked.returncode != 0 and "--passwordFile" in asked.stderr, asked
