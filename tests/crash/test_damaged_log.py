"""A flipped bit in the write-ahead log: the server does not start over it, says so, and shows a way on."""

import os
import random

import pytest
from harness.servers import Meridian
from test_crash import SEED

FLIPS = int(os.environ.get("MERIDIAN_FLIPS", "4"))
DOCUMENTS = 3_000


def newest_log(data):
    return max(data.glob("*.log"), key=lambda path: path.stat().st_size)


def test_a_flipped_bit_stops_the_start_until_the_rest_is_given_up(tmp_path):
    print(f"seed {SEED}, {FLIPS} flips")
    choice = random.Random(SEED)
    for flip in range(FLIPS):
        server = Meridian(tmp_path / f"server{flip}", encrypted=flip % 2 == 1).start()
        try:
            collection = server.client["flip"]["c"]
            collection.create_index("n")
            for first in range(0, DOCUMENTS, 100):
                collection.insert_many([{"_id": at, "n": at % 100, "fill": "." * 100} for at in range(first, first + 100)])
            server.kill()
            server.disconnect()
            log = newest_log(server.data)
            content = bytearray(log.read_bytes())
            at = choice.randrange(len(content) // 4, len(content) * 3 // 4)
            content[at] ^= 1 << choice.randrange(8)
            log.write_bytes(content)
            where = f"seed {SEED}, flip {flip}: byte {at} of {len(content)}"
            with pytest.raises(RuntimeError, match="repair --truncate-log"):
                server.start()
            assert b"is damaged at byte" in server.log.read_bytes()
            assert log.read_bytes() == content, f"{where}: what is damaged is left as it is"
            refused = server.tool("repair")
            assert refused.returncode != 0 and "--truncate-log" in refused.stderr
            result = server.tool("repair", "--truncate-log")
            assert result.returncode == 0, f"{where}: {result.stdout}\n{result.stderr}"
            assert "given up" in result.stdout and (server.data / "damaged-log" / log.name).exists()
            server.start()
            collection = server.client["flip"]["c"]
            there = sorted(document["_id"] for document in collection.find({}, {"_id": 1}, hint=[("$natural", 1)]))
            assert there == list(range(len(there))) and 0 < len(there) < DOCUMENTS, f"{where}: {len(there)} documents"
            assert collection.count_documents({"n": {"$gte": 0}}, hint="n_1") == len(there), where
            again = server.tool("repair", "--truncate-log")
            assert again.returncode != 0, "a server uses the directory"
        finally:
            server.close()


def test_repair_of_a_sound_directory_changes_nothing(tmp_path):
    server = Meridian(tmp_path / "server").start()
    try:
        server.client["flip"]["c"].insert_many([{"_id": at} for at in range(100)])
        server.kill()
        server.disconnect()
        result = server.tool("repair", "--truncate-log")
        assert result.returncode == 0 and "not damaged" in result.stdout, result
        server.start()
        assert server.client["flip"]["c"].count_documents({}) == 100
    finally:
        server.close()
    nothing = Meridian(tmp_path / "nothing").tool("repair", "--truncate-log")
    assert nothing.returncode != 0 and "not a Meridian data directory" in nothing.stderr
