"""Encryption at rest: nothing that was written can be read from the directory, and only the master key opens it."""

import os
import random
import shutil
import subprocess
import threading
import time

import pymongo
import pytest
from harness.servers import MERIDIAN, Meridian, master_key

KNOWN = "a text that is known"
SEED = random.randrange(1_000_000)


def known_in(directory):
    """Files, also those that last for a moment, in which the known text stands."""
    found = []
    for path in directory.rglob("*"):
        try:
            if path.is_file() and path.name != "reserve" and KNOWN.encode() in path.read_bytes():
                found.append(path)
        except FileNotFoundError:
            pass
    return found


def fill(server, documents=20_000):
    # Every document has it as a value, in its key and in an index, and a name of a field and of a collection are it.
    for first in range(0, documents, 5_000):
        server.client[KNOWN.replace(" ", "_")][KNOWN].insert_many(
            [{"_id": f"{KNOWN} {at}", "n": at, "s": f"{KNOWN} {at % 7}", KNOWN: f"{os.urandom(500).hex()} {KNOWN}"} for at in range(first, first + 5_000)]
        )


def collection(server):
    return server.client[KNOWN.replace(" ", "_")][KNOWN]


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_known_texts_are_in_no_file(tmp_path, encrypted):
    """The plain twin shows that they would be found."""
    server = Meridian(tmp_path, encrypted=encrypted).start()
    try:
        fill(server, 60_000)
        status = server.client.admin.command("serverStatus").get("encryptionAtRest")
        assert status == ({"encryptionEnabled": True, "encryptionCipherMode": "AES256-CTR"} if encrypted else None)
        found, ended = set(known_in(server.data)), threading.Event()

        def look():
            while not ended.is_set():
                found.update(known_in(server.data))
                time.sleep(0.01)

        looking = threading.Thread(target=look)
        looking.start()
        collection(server).create_index("s")
        # More than is sorted in memory.
        ordered = collection(server).aggregate([{"$sort": {KNOWN: 1}}], allowDiskUse=True, batchSize=10)
        assert KNOWN in next(ordered)
        assert list(server.data.glob("scratch/*/*")), "nothing was spilled: the test proves too little"
        found.update(known_in(server.data / "scratch"))
        server.client.admin.command("fsync")
        collection(server).update_many({"n": {"$lt": 5_000}}, {"$set": {"again": KNOWN}})
        server.kill()
        ended.set()
        looking.join()
        server.disconnect()
        found.update(known_in(server.data))
        server.start()
        assert collection(server).count_documents({"s": {"$gte": KNOWN}}) == 60_000
        server.terminate()
        found.update(known_in(server.data))
        assert bool(found) != encrypted, found
        if not encrypted:
            assert {".log", ".sst"} <= {path.suffix for path in found}
    finally:
        server.close()


def test_a_flipped_byte_of_any_file_is_told(tmp_path):
    print(f"seed {SEED}")
    choice = random.Random(SEED)
    server = Meridian(tmp_path / "server", encrypted=True).start()
    fill(server)
    server.client.admin.command("fsync")
    server.terminate()
    server.disconnect()
    server.start()
    collection(server).update_many({"n": {"$lt": 100}}, {"$set": {"again": 1}})
    server.kill()
    server.disconnect()
    whole = tmp_path / "whole"
    shutil.copytree(server.data, whole)
    files = [path for path in whole.rglob("*") if path.is_file() and path.name not in ("LOCK", "reserve") and path.stat().st_size]
    kinds = {path.name.split("-")[0] if "-" in path.name else path.suffix or path.name for path in files}
    assert {"CURRENT", "ENCRYPTION", "MANIFEST", ".log", ".sst"} <= kinds, kinds
    for path in files:
        # The library's own log is written, not read; of its settings and its identity it reads nothing that it needs.
        if path.name.startswith(("LOG", "OPTIONS", "IDENTITY")) or path.parent.name == "archive":
            continue
        length = path.stat().st_size
        for at in {choice.randrange(0, min(length, 64)), choice.randrange(min(length - 1, 64), length)}:
            shutil.rmtree(server.data)
            shutil.copytree(whole, server.data)
            content = bytearray(path.read_bytes())
            content[at] ^= 1 << choice.randrange(8)
            (server.data / path.relative_to(whole)).write_bytes(content)
            checked = server.tool("check")
            where = f"seed {SEED}: byte {at} of {length} of {path.name}: {checked.stdout} {checked.stderr}"
            assert checked.returncode != 0 or "0 errors" in checked.stdout, where
            # A merge's inputs are removed at the next start. A table's filters may change; nothing wrong is answered for it.
            is_used = (server.data / path.relative_to(whole)).exists() or path.suffix != ".sst"
            assert checked.returncode != 0 or not is_used or (path.suffix == ".sst" and at >= 4096), where


def refusal(server):
    with pytest.raises(RuntimeError) as refused:
        server.start()
    return str(refused.value)


def test_a_missing_or_wrong_key_is_refused_and_says_so(tmp_path):
    server = Meridian(tmp_path, encrypted=True).start()
    fill(server, 5_000)
    server.terminate()
    server.disconnect()
    key = server.key_arguments
    for arguments, says in [
        ([], "is encrypted: give its master key, with --encryption-key-file or --encryption-key-command"),
        (["--encryption-key-file", str(master_key(tmp_path / "other", b"o"))], "wrong master key"),
        (["--encryption-key-file", str(tmp_path / "nothing")], "cannot read the master key"),
        (["--encryption-key-file", "/dev/zero"], "permissions on /dev/zero are too open"),
        (["--encryption-key-command", "exit 3"], "exit status: 3"),
        (["--encryption-key-command", "echo short"], "32 bytes in base64"),
        (["--encryption-key-command", "yes"], "encryption-key-command print"),
        (["--encryption-key-command", "true", *key], "give one"),
        (["--encryption-key-command", f"cat {tmp_path / 'key'}; sleep 30 &"], "keeps its output open"),
    ]:
        server.key_arguments = arguments
        assert says in refusal(server), arguments
        for tool in ["check"] if arguments else ["check", "repair"]:
            refused = server.tool(tool, *(["--truncate-log"] if tool == "repair" else []))
            assert refused.returncode != 0 and (says in refused.stderr or "cannot be used with" in refused.stderr), refused
    open_file = master_key(tmp_path / "open")
    open_file.chmod(0o640)
    server.key_arguments = ["--encryption-key-file", str(open_file)]
    assert "too open" in refusal(server)
    server.key_arguments = ["--encryption-key-command", f"cat {tmp_path / 'key'}"]
    server.start()
    assert collection(server).count_documents({}) == 5_000
    server.close()
    config = tmp_path / "meridian.toml"
    config.write_text(f"encryption-key-file = '{tmp_path / 'key'}'\n")
    server.key_arguments = ["--config", str(config)]
    server.start()
    assert collection(server).count_documents({}) == 5_000
    server.close()
    (server.data / "ENCRYPTION").unlink()
    for arguments in ([], key):
        server.key_arguments = arguments
        assert "its file ENCRYPTION with the data key is gone" in refusal(server)


def test_the_master_key_is_turned_over_without_rewriting_data(tmp_path):
    server = Meridian(tmp_path, encrypted=True).start()
    fill(server, 5_000)
    new = ["--new-encryption-key-file", str(master_key(tmp_path / "new", b"n"))]
    in_use = server.tool("rekey", *new)
    assert in_use.returncode != 0 and "another process" in in_use.stderr, in_use
    server.terminate()
    server.disconnect()
    before = {path: path.read_bytes() for path in server.data.rglob("*") if path.is_file() and path.name != "ENCRYPTION"}
    old = server.key_arguments
    assert "new master key" in server.tool("rekey").stderr
    turned = server.tool("rekey", *new)
    assert turned.returncode == 0 and "no more by the old one" in turned.stdout, turned
    assert {path: path.read_bytes() for path in before} == before
    again = server.tool("rekey", *new)
    assert again.returncode != 0 and "wrong master key" in again.stderr, again
    assert "wrong master key" in refusal(server)
    server.key_arguments = ["--encryption-key-file", str(tmp_path / "new")]
    assert server.key_arguments != old
    server.start()
    assert collection(server).count_documents({}) == 5_000
    server.close()


def test_a_plain_directory_is_encrypted_on_demand_only(tmp_path):
    server = Meridian(tmp_path).start()
    fill(server)
    collection(server).create_index("s")
    key = ["--encryption-key-file", str(master_key(tmp_path / "key"))]
    in_use = server.tool("encrypt", *key)
    assert in_use.returncode != 0 and "another process" in in_use.stderr, in_use
    # What is in the log alone, too.
    collection(server).insert_one({"_id": "last", "s": KNOWN})
    server.kill()
    server.disconnect()
    assert known_in(server.data)
    for name in ("audit.log", "server.pem", "master.key"):
        (server.data / name).write_text("not the storage's")
    asked = server.tool("encrypt")
    assert asked.returncode != 0 and "--encryption-key-file" in asked.stderr, asked
    server.key_arguments = key
    assert "is not encrypted, and a master key was given: `meridian encrypt` encrypts it" in refusal(server)
    encrypted = server.tool("encrypt")
    assert encrypted.returncode == 0 and "cannot be read without the master key" in encrypted.stdout, encrypted
    assert not known_in(server.data)
    for name in ("audit.log", "server.pem", "master.key"):
        assert (server.data / name).read_text() == "not the storage's"
    again = server.tool("encrypt")
    assert again.returncode != 0 and "encrypted already" in again.stderr, again
    server.start()
    assert collection(server).count_documents({}) == 20_001
    assert collection(server).find_one({"_id": "last"})["s"] == KNOWN
    assert server.client[KNOWN.replace(" ", "_")].command("validate", KNOWN, full=True)["valid"]
    server.terminate()
    assert server.tool("check").returncode == 0
    server.disconnect()
    assert server.tool("encrypt", "--encryption-key-command", "true").returncode != 0


def test_files_are_their_owners(tmp_path):
    for encrypted in (False, True):
        server = Meridian(tmp_path / str(encrypted), encrypted=encrypted).start()
        fill(server, 5_000)
        server.terminate()
        server.disconnect()
        server.data.chmod(0o700)
        assert server.tool("check").returncode == 0
        for path in server.data.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


def test_users_are_made_in_an_encrypted_directory(tmp_path):
    server = Meridian(tmp_path, encrypted=True, arguments=["--auth", "on"]).start()
    server.terminate()
    password = tmp_path / "password"
    password.write_text("secret\n")
    command = [str(MERIDIAN), "user", "add", str(server.data), "ann", "--role", "root", "--password-file", str(password), *server.key_arguments]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    server.start()
    with pymongo.MongoClient(server.uri, username="ann", password="secret") as client:
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
    server.close()
