"""A flipped bit in a table file: nothing wrong is ever answered, the damage is named, and `check` finds it."""

import os
import random

import pymongo
import pytest
from harness.servers import Meridian
from test_crash import SEED

FLIPS = int(os.environ.get("MERIDIAN_FLIPS", "4"))
DOCUMENTS = 4_000


def answers(collection):
    """What is asked, and what is true; several ways to the documents and to their entries."""
    return {
        "all": (lambda: sorted(document["_id"] for document in collection.find({})), list(range(DOCUMENTS))),
        "whole": (lambda: sum(len(document["fill"]) for document in collection.find({})), 200 * DOCUMENTS),
        "by n": (lambda: [document["_id"] for document in collection.find({"n": 7}).sort("_id", 1)], list(range(7, DOCUMENTS, 100))),
        "covered": (lambda: [row["n"] for row in collection.find({"n": {"$gte": 0}}, {"n": 1, "_id": 0})], sorted(at % 100 for at in range(DOCUMENTS))),
        "one": (lambda: collection.find_one({"_id": 1234})["n"], 34),
        "count": (lambda: collection.count_documents({"n": {"$lt": 50}}), DOCUMENTS // 2),
    }


def is_told(text):
    """Whether the damage is named: what cannot be read, or which file."""
    return any(word in text for word in ("orruption", "checksum", "damaged", ".sst", "cannot be read", "cannot read"))


@pytest.mark.parametrize("flip", range(FLIPS))
def test_a_flipped_bit_in_a_table_file_is_told(tmp_path, flip):
    choice = random.Random(SEED * 1000 + flip)
    server = Meridian(tmp_path / "server", encrypted=flip % 2 == 1).start()
    try:
        collection = server.client["flip"]["c"]
        collection.create_index("n")
        for first in range(0, DOCUMENTS, 500):
            collection.insert_many([{"_id": at, "n": at % 100, "fill": f"{at:08}" * 25} for at in range(first, first + 500)])
        server.terminate()
        server.disconnect()
        tables = [path for path in server.data.rglob("*.sst") if path.stat().st_size > 0]
        table = choice.choices(sorted(tables), weights=[path.stat().st_size for path in sorted(tables)])[0]
        content = bytearray(table.read_bytes())
        # Half of the time at the end, where the indexes of the file are.
        first = 0 if choice.random() < 0.5 else len(content) * 9 // 10
        at = choice.randrange(first, len(content))
        content[at] ^= 1 << choice.randrange(8)
        table.write_bytes(content)
        where = f"seed {SEED}, flip {flip}: byte {at} of {len(content)} of {table.name}"
        print(where)
        checked = server.tool("check")
        print(checked.stdout[-500:], checked.stderr[-500:])
        assert checked.returncode == 0 or is_told(checked.stdout + checked.stderr), where
        try:
            server.start()
        except RuntimeError as refused:
            assert is_told(str(refused) + server.log_tail()), f"{where}: {refused}"
            return
        faults = 0
        for name, (ask, truth) in answers(server.client["flip"]["c"]).items():
            try:
                assert ask() == truth, f"{where}: {name}"
            except pymongo.errors.OperationFailure as failure:
                faults += 1
                assert is_told(str(failure)), f"{where}: {name}: {failure}"
            server.ensure_alive()
        print(f"{faults} of the answers were refused")
        # Filters and statistics of a table may be damaged: no answer comes from them alone.
        assert checked.returncode != 0 or faults == 0, where
        # A merge that met the damage ends writing; reading goes on.
        try:
            server.client["flip"]["other"].insert_one({"_id": 1})
        except pymongo.errors.OperationFailure as failure:
            assert is_told(str(failure)), f"{where}: {failure}"
        server.client["flip"]["other"].count_documents({})
    finally:
        server.close()
