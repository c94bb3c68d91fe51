"""A disk that fills up: writes are refused with OutOfDiskSpace, reads go on, and writes resume by themselves."""

import time

import disks
import pymongo
import pytest
from harness.servers import Meridian

DISK_MEBIBYTES = 160
BALLAST_BYTES = 90 << 20
OUT_OF_DISK_SPACE = 14031


def fill_up(server):
    """Inserts until the disk is full; how many documents were acknowledged."""
    collection = server.client["full"]["c"]
    acknowledged, deadline = 0, time.monotonic() + 120
    while time.monotonic() < deadline:
        documents = [{"_id": acknowledged + at, "n": (acknowledged + at) * 7919 % 10_007, "fill": f"{acknowledged + at:x}" * 100} for at in range(200)]
        try:
            collection.insert_many(documents)
        except pymongo.errors.PyMongoError as error:
            codes = {each["code"] for each in (error.details or {}).get("writeErrors", [])} or {error.code}
            assert codes == {OUT_OF_DISK_SPACE}, error
            return collection.count_documents({})
        acknowledged += len(documents)
    raise AssertionError("the disk was never full")


def fill_the_rest(path):
    try:
        with open(path, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass  # there is no room left


def wait_until_writes_resume(server, seconds_max=60):
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            server.client["full"]["resumed"].insert_one({})
            return
        except pymongo.errors.PyMongoError as error:
            assert time.monotonic() < deadline, f"writes did not resume: {error}\n{server.log_tail()}"
            time.sleep(0.2)


def compare(server, documents):
    collection = server.client["full"]["c"]
    for hint in ("n_1", [("$natural", 1)]):
        assert collection.count_documents({"n": {"$gte": 0}}, hint=hint) == documents
    assert server.client["full"].command("validate", "c", full=True)["valid"]


@disks.needs_root
def test_writes_resume_when_there_is_room_again(tmp_path):
    with disks.in_memory(tmp_path / "disk", DISK_MEBIBYTES) as disk:
        # Something else takes most of the disk, and goes.
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        with Meridian(disk.path) as server:
            server.client["full"]["c"].create_index("n")
            server.client["full"]["other"].insert_one({})
            documents = fill_up(server)
            assert documents > 1_000
            compare(server, documents)
            # What makes room is not refused.
            server.client["full"]["c"].drop_index("n_1")
            server.client["full"]["other"].drop()
            ballast.unlink()
            wait_until_writes_resume(server)
            server.client["full"]["c"].create_index("n")
            compare(server, documents)
            server.client["full"]["c"].insert_many([{"n": number} for number in range(1_000)])
            log = server.log.read_text()
            assert "disk" in log and "resume" in log, log
            server.terminate()
        result = server.tool("check")
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


@disks.needs_root
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_directory_on_a_full_disk_can_be_opened_and_read(tmp_path, encrypted):
    with disks.in_memory(tmp_path / "disk", DISK_MEBIBYTES) as disk:
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        with Meridian(disk.path, encrypted=encrypted) as server:
            server.client["full"]["c"].create_index("n")
            documents = fill_up(server)
            server.kill()
            server.disconnect()
            fill_the_rest(disk.path / "left")
            server.start()
            compare(server, documents)
            ballast.unlink()
            wait_until_writes_resume(server)
            compare(server, documents)
