"""The process stays within its cache plus 250 MiB through a load with indexes and through queries."""

import datetime
import random
import re

from harness.servers import Meridian

CACHE_MIB = 64
ALLOWANCE_MIB = 250
DOCUMENTS = 300_000
SEED = 20


class SmallCache(Meridian):
    """A server whose cache is much smaller than its data."""

    def command_line(self):
        return [f"{CACHE_MIB}MiB" if argument == "256MiB" else argument for argument in super().command_line()]


def peak_mib(process):
    """The most memory that the process ever had, from the kernel's account."""
    status = open(f"/proc/{process.pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


def document(number, choice):
    return {
        "_id": number,
        "at": datetime.datetime(2017, 12, 1) + datetime.timedelta(seconds=choice.randrange(3_456_000)),
        "place": {"type": "Point", "coordinates": [choice.uniform(-2, 7), choice.uniform(44, 48)]},
        "number": choice.randrange(1_000_000),
        "text": "%060x" % choice.getrandbits(240),
    }


def test_memory_stays_within_the_cache_and_an_allowance(tmp_path):
    choice = random.Random(SEED)
    with SmallCache(tmp_path / "server") as server:
        collection = server.client["memory"]["events"]
        collection.create_index("at")
        collection.create_index([("place", "2dsphere")])
        collection.create_index("number")
        for first in range(0, DOCUMENTS, 10_000):
            collection.insert_many([document(first + offset, choice) for offset in range(10_000)])
        collection.create_index("text")
        area = {"place": {"$geoWithin": {"$box": [[-1, 44.5], [5, 47.5]]}}}
        assert collection.count_documents(area, hint="place_2dsphere") > DOCUMENTS / 3
        assert sum(1 for _ in collection.find({"number": {"$lt": 500_000}}).batch_size(5_000)) > DOCUMENTS / 3
        assert len(list(collection.aggregate([{"$sample": {"size": 20_000}}]))) == 20_000
        assert sum(group["n"] for group in collection.aggregate([{"$group": {"_id": {"$hour": "$at"}, "n": {"$sum": 1}}}])) == DOCUMENTS
        peak = peak_mib(server.process)
        assert peak < CACHE_MIB + ALLOWANCE_MIB, f"seed {SEED}: {peak:.0f} MiB with a cache of {CACHE_MIB} MiB"
        assert peak > CACHE_MIB / 2, "so little memory that nothing was tested"


def test_what_functions_return_is_not_kept(tmp_path):
    """30,000 results of 40 kB each would be 1.2 GB."""
    body = "function(n){return [BinData(0, 'QUJD'.repeat(10000)), /x/, Code('return 1'), ObjectId(), 'text', n]}"
    function = {"$function": {"body": body, "args": ["$_id"], "lang": "js"}}
    with SmallCache(tmp_path / "server") as server:
        collection = server.client["memory"]["numbers"]
        collection.insert_many([{"_id": number} for number in range(30_000)])
        pipeline = [{"$set": {"made": function}}, {"$group": {"_id": None, "bytes": {"$sum": {"$binarySize": {"$first": "$made"}}}}}]
        assert collection.aggregate(pipeline).next()["bytes"] == 30_000 * 30_000
        peak = peak_mib(server.process)
        assert peak < CACHE_MIB + ALLOWANCE_MIB, f"{peak:.0f} MiB with a cache of {CACHE_MIB} MiB"
