"""Buckets of time series that are full: the same bytes as mongod's, and what is read of them.

MERIDIAN_RANDOM_SEED repeats the random measurements.
"""

import random

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from harness import canonical
from pymongo.errors import OperationFailure
from test_random_query import SEED
from test_timeseries import DATABASE, at, batch, make, named, same, servers, sorted_fields  # noqa: F401

# What sensors send, and what nobody should: a value for the measurement of this number.
VALUES = {
    "temperature": lambda chance, number: round(20 + number % 97 / 10 + chance.random(), 1),
    "counter": lambda chance, number: number,
    "constant": lambda chance, number: 7.5,
    "mixed numbers": lambda chance, number: chance.choice([1, Int64(2), 3.5, Decimal128("4.25")]),
    "doubles": lambda chance, number: chance.uniform(-1e9, 1e9),
    "missing": lambda chance, number: number if chance.random() < 0.5 else ...,
    "texts": lambda chance, number: chance.choice(["on", "off", "a much longer text that no integer holds"]),
    "names": lambda chance, number: ObjectId(f"{0x65920080 + number:08x}5f1e2d3c4b{number:06x}"),
    "dates": lambda chance, number: at(number * 3 + chance.randrange(2)),
    "flags": lambda chance, number: number % 7 == 0,
    "documents": lambda chance, number: {"x": number, "y": {"z": number / 4, "w": "w"}},
    "uneven documents": lambda chance, number: {key: number for key in "abc" if chance.random() < 0.7},
    "arrays": lambda chance, number: [number, number * 2, "x"],
    "binaries": lambda chance, number: Binary(bytes([number % 256]) * chance.choice([4, 4, 20])),
    "rare types": lambda chance, number: Timestamp(number, 1),
    "patterns": lambda chance, number: Regex("^a", "i"),
    "nothing": lambda chance, number: None,
    "greatest": lambda chance, number: MaxKey(),
}


# What is taken column by column.
COLUMNS = {"least": {"$min": "$v"}, "greatest": {"$max": "$v"}, "n": {"$sum": 1}, "until": {"$max": "$t"}, "none": {"$min": "$w"}, "series": {"$min": "$m"}}


def measurements(kind, count=1_300):
    chance = random.Random(f"{SEED} {kind}")
    for number in range(count):
        value = VALUES[kind](chance, number)
        late = chance.randrange(-3, 3) if number % 11 == 0 else 0
        yield {"t": at(2 * number + 10 + late), "m": number % 2, "_id": number, **({"v": value} if value is not ... else {})}


def stored(server):
    """The buckets, without their names."""
    buckets = batch(server.run(DATABASE, {"find": "system.buckets.x", "batchSize": 1_000}))
    return sorted(canonical.text(sorted_fields(canonical.Doc(field for field in bucket if field[0] != "_id"))) for bucket in buckets)


@pytest.mark.parametrize("kind", VALUES)
def test_full_buckets_have_mongods_bytes(servers, kind):  # noqa: F811
    """Series are filled by thousands, and closed by a measurement of a later hour."""
    print(f"MERIDIAN_RANDOM_SEED={SEED}")
    make(servers)
    for server in servers:
        own = server.client[DATABASE].x
        own.insert_many(measurements(kind))
        own.insert_many({"t": at(90_000), "m": meta, "_id": -1 - meta} for meta in range(2))
    ours, theirs = (stored(server) for server in servers)
    assert ours == theirs
    assert kind == "greatest" or sum('"version": int32(2)' in bucket or "version" in bucket and "int32(2)" in bucket for bucket in ours) > 0
    for command in ({"find": "x", "batchSize": 5_000}, {"find": "x", "filter": {"t": {"$gte": at(100), "$lt": at(500)}}, "batchSize": 5_000}, {"find": "x", "filter": {"v": {"$gt": 3}}, "batchSize": 5_000},
                    {"aggregate": "x", "pipeline": [{"$group": {"_id": "$m", "n": {"$sum": 1}, "v": {"$max": "$v"}}}], "cursor": {}}, {"count": "x", "query": {"t": {"$lt": at(700)}}},
                    {"aggregate": "x", "pipeline": [{"$match": {"t": {"$gt": at(300)}}}, {"$count": "n"}], "cursor": {}},
                    {"aggregate": "x", "pipeline": [{"$match": {"t": {"$gte": at(100), "$lt": at(500)}}}, {"$group": {"_id": "$m", **COLUMNS}}], "cursor": {}},
                    {"aggregate": "x", "pipeline": [{"$group": {"_id": {"m": "$m", "t": {"$dateTrunc": {"date": "$t", "unit": "minute", "binSize": 7}}}, **COLUMNS}}, {"$sort": {"_id": 1}}], "cursor": {"batchSize": 500}},
                    {"update": "x", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 3}}, "multi": True}]}, {"delete": "x", "deletes": [{"q": {"m": 3}, "limit": 0}]}, {"find": "x", "batchSize": 5_000}):  # fmt: skip
        same(servers, command)


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != "greatest"])
def test_buckets_of_mongod_are_restored(servers, kind):  # noqa: F811
    """As mongorestore does it: buckets go into the collection of buckets as they are."""
    subject, oracle = (server.client[DATABASE] for server in servers)
    make(servers)
    oracle.x.insert_many(measurements(kind))
    oracle.x.insert_many({"t": at(90_000), "m": meta, "_id": -1 - meta} for meta in range(2))
    subject["system.buckets.x"].insert_many(oracle["system.buckets.x"].find())
    same(servers, {"find": "x", "batchSize": 5_000})
    same(servers, {"insert": "x", "documents": [{"t": at(90_001), "m": 0, "_id": 9}]})
    same(servers, {"find": "x", "batchSize": 5_000})


def test_series_that_come_row_by_row_are_compressed_too(servers):  # noqa: F811
    subject = servers[0].client[DATABASE]
    make(servers)
    for number in range(700):
        documents = [{"t": at(number), "m": {"sensor": sensor}, "v": number / 2, "w": "w" * 20} for sensor in range(3)]
        subject.x.insert_many(documents, ordered=False)
    versions = [(bucket["control"]["version"], bucket["meta"]["sensor"]) for bucket in subject["system.buckets.x"].find()]
    assert all(sum(one == (version, sensor) for one in versions) >= 1 for version in (1, 2) for sensor in range(3)), versions
    for sensor in range(3):
        assert [one["v"] for one in subject.x.find({"m.sensor": sensor}, sort=[("t", 1)])] == [number / 2 for number in range(700)]
    assert subject.command("validate", "system.buckets.x", full=True)["valid"]


def test_compressed_measurements_are_in_the_order_of_their_times(servers):  # noqa: F811
    """Readers stop behind the last time that is asked for."""
    subject = servers[0].client[DATABASE]
    make(servers)
    subject.x.insert_many(measurements("temperature"))
    subject.x.insert_many({"t": at(90_000), "m": meta} for meta in range(2))
    buckets = subject["system.buckets.x"]
    bucket = buckets.find_one({"control.version": 2})
    buckets.delete_many({})
    # A column is literals and blocks of differences, and a zero at its end.
    column = bytes(bucket["data"]["t"])
    bucket["data"]["t"] = Binary(column[:-1] + column, 7)
    with pytest.raises(OperationFailure, match="in the order of their times"):
        buckets.insert_one(bucket)
    assert buckets.count_documents({}) == 0


def damaged(column):
    yield from (column[:9], column[:30], b"", b"\0", b"\xf1" + column, b"\x80" * 40 + b"\0")


def test_damaged_columns_are_errors(servers):  # noqa: F811
    subject = servers[0].client[DATABASE]
    make(servers)
    subject.x.insert_many(measurements("temperature"))
    subject.x.insert_many({"t": at(90_000), "m": meta} for meta in range(2))
    buckets = subject["system.buckets.x"]
    name, column = next((one["_id"], one["data"]["v"]) for one in buckets.find({"control.version": 2}))
    for bytes_ in damaged(bytes(column)):
        buckets.update_one({"_id": name}, {"$set": {"data.v": Binary(bytes_, 7)}})
        with pytest.raises(OperationFailure) as refused:
            list(subject.x.find())
        assert "column" in str(refused.value), bytes_
    buckets.update_one({"_id": name}, {"$set": {"data.v": 5}})
    with pytest.raises(OperationFailure):
        list(subject.x.find())
    buckets.update_one({"_id": name}, {"$set": {"data.v": column}})
    assert len(list(subject.x.find())) == 1_302


def test_a_column_that_claims_billions_of_rows_ends_in_time(servers):  # noqa: F811
    """A megabyte of runs, each of 1,920 times that are the same."""
    subject = servers[0].client[DATABASE]
    make(servers)
    subject.x.create_index([("m", 1), ("t", -1)])
    name, start = ObjectId(int((at(128) - at(0, 1970)).total_seconds()).to_bytes(4, "big") + b"1" * 8), at(128)
    millis = int((start - at(0, 1970)).total_seconds() * 1_000)
    run = (15 + (15 << 4)).to_bytes(8, "little")
    times = b"\x09\0" + millis.to_bytes(8, "little") + (b"\x8f" + run * 16) * 60_000 + b"\0"
    bucket = {"_id": name, "control": {"version": 2, "min": {"t": start}, "max": {"t": at(3_000)}, "count": 5}, "meta": 1, "data": {"t": Binary(times, 7)}}
    with pytest.raises(OperationFailure, match="must have 'control.count' measurements"):
        subject["system.buckets.x"].insert_one(bucket)
    rows = bucket["control"]["count"] = 1 + 60_000 * 16 * 16 * 120
    subject["system.buckets.x"].insert_one(bucket)
    assert list(subject.x.aggregate([{"$count": "n"}], maxTimeMS=300)) == [{"n": rows}]
    for stages in ([{"$sample": {"size": 3}}], [{"$match": {"t": {"$gt": at(1_000)}}}], [{"$group": {"_id": None, "v": {"$min": "$v"}}}], [{"$match": {"v": {"$ne": None}}}], [{"$sort": {"m": 1, "t": -1}}, {"$group": {"_id": "$m", "t": {"$first": "$t"}}}]):
        with pytest.raises(OperationFailure) as refused:
            list(subject.x.aggregate(stages, maxTimeMS=300))
        assert refused.value.code == 50, (stages, refused.value)


def test_columns_of_very_many_fields_take_counted_memory(servers):  # noqa: F811
    """A bucket of 15 MB whose decoders would hold hundreds: refused, not read."""
    subject = servers[0].client[DATABASE]
    make(servers)
    fields, start = 100_000, at()
    reference = (2 * fields + 5).to_bytes(4, "little") + b"\x0a\x00" * fields + b"\0"
    run = b"\x80" + (0x0F).to_bytes(8, "little")
    column = Binary(b"\xf1" + reference + run * fields + b"\0\0", 7)
    seconds = int((start - at(0, 1970)).total_seconds())
    times = Binary(b"\x09\0" + (1_000 * seconds).to_bytes(8, "little") + run + b"\0", 7)
    data = {"t": times, **{f"c{number}": column for number in range(13)}}
    bucket = {"_id": ObjectId(seconds.to_bytes(4, "big") + b"1" * 8), "control": {"version": 2, "min": {"t": start}, "max": {"t": start}, "count": 121}, "meta": 1, "data": data}
    subject["system.buckets.x"].insert_one(bucket)
    with pytest.raises(OperationFailure) as refused:
        list(subject.x.aggregate([{"$project": {name: {"$type": f"${name}"} for name in data}}]))
    assert refused.value.code == 146
    # One of them fits.
    assert next(subject.x.aggregate([{"$project": {"c0": {"$type": "$c0"}}}, {"$limit": 1}]))["c0"] == "object"
