"""Requests that ask for much memory: the process stays within its cache and an allowance, and others are served.

Each attack takes gigabytes from a server that does not bound what it asks for. Here the kernel's account of the
process decides: the most memory that it ever had during the attack (limits of address space say nothing about an
allocator that reserves more than it uses). While an attack runs, another connection finds documents by `_id`.
"""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading

import bson
import pymongo
import pytest
from harness import bystander as bystander_script
from harness.servers import Meridian

CACHE_MIB = 128
ALLOWANCE_MIB = 400
MEBIBYTE = 1024 * 1024
KIBIBYTE_TEXT = "x" * 1024
# What an attack may be told: too much memory, no disk, too large a document, string or buffer, too many bytes for `$facet`.
REFUSALS = {146, 292, 10334, 16493, 13548, 17419, 4031700}
CLIENTS = 8
# Documents of a megabyte each.
TEXTS = 150
# The long form has the sizes that once took gigabytes; the short one has what shows the same in a few minutes.
IS_LONG = os.environ.get("MERIDIAN_ATTACKS") == "long"


def size(short, long):
    return long if IS_LONG else short


class SmallCache(Meridian):
    """A server with a small cache."""

    def command_line(self):
        return [f"{CACHE_MIB}MiB" if argument == "256MiB" else argument for argument in super().command_line()]


def peak_mib(server):
    """The most memory that the process had since it was forgotten, from the kernel's account."""
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


def forget_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as clear:
        clear.write("5")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with SmallCache(tmp_path_factory.mktemp("attacks") / "server") as server:
        server.client["attack"]["bystander"].insert_many([{"_id": number} for number in range(1000)])
        yield server


@pytest.fixture
def server(running):
    """The server under an attack, with the bounds that hold for it."""
    running.ensure_alive()
    forget_peak(running)
    with bystander(running) as failures:
        yield running
    assert running.alive(), running.log_tail()
    assert not failures, failures
    peak = peak_mib(running)
    print(f"peak {peak:.0f} MiB")
    for name in running.client["attack"].list_collection_names():
        if name not in ("bystander", "kept"):
            running.client["attack"].drop_collection(name)
    assert peak < CACHE_MIB + ALLOWANCE_MIB, f"{peak:.0f} MiB with a cache of {CACHE_MIB} MiB"


@contextlib.contextmanager
def bystander(server):
    """Another client that finds documents by `_id` all the time; prints how long 99 % of them took at most."""
    failures = []
    arguments = [f"mongodb://127.0.0.1:{server.port}/?directConnection=true", "attack", "bystander", "1000"]
    process = subprocess.Popen(
        [sys.executable, bystander_script.__file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield failures
    finally:
        outcome = json.loads(process.communicate(timeout=60)[0])
        failures += outcome["failures"]
        times = sorted(outcome["milliseconds"]) or [0]
        print(f"others' finds: {len(times)}, 99 % within {times[len(times) * 99 // 100]:.1f} ms, longest {times[-1]:.1f} ms")


def refused_or_answered(call, *arguments, **named):
    """Whatever comes back, but for a refusal that has nothing to do with memory."""
    try:
        return call(*arguments, **named)
    except pymongo.errors.OperationFailure as failure:
        assert failure.code in REFUSALS, failure
        return failure


def at_once(server, clients, work):
    """Runs `work(client, number)` on several connections at once."""
    outcomes = [None] * clients

    def run(number):
        client = server.connect()
        try:
            outcomes[number] = refused_or_answered(work, client, number)
        except Exception as failure:  # noqa: BLE001: handed to the caller's thread
            outcomes[number] = failure
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, pymongo.errors.OperationFailure):
            raise outcome
    return outcomes


def doubled(times, operator="$concat", start=KIBIBYTE_TEXT):
    """A value that is doubled so many times."""
    return {"$reduce": {"input": {"$range": [0, times]}, "initialValue": start, "in": {operator: ["$$value", "$$value"]}}}


def test_documents_that_an_update_makes_large(server):
    """A commit is cut by what the documents become, not by what they were."""
    collection = server.client["attack"]["grow"]
    documents = size(100, 500)
    collection.insert_many([{"_id": number} for number in range(documents)])
    text = "y" * (4 * MEBIBYTE)
    assert collection.update_many({}, {"$set": {"text": text}}).modified_count == documents
    assert collection.count_documents({"$expr": {"$eq": [{"$strLenBytes": "$text"}, len(text)]}}) == documents
    outcome = collection.update_many({}, [{"$set": {"text": {"$concat": ["$text", "z"]}}}])
    assert outcome.modified_count == documents


def test_arrays_that_are_filled_with_nulls_under_an_index(server):
    # The long form writes and merges gigabytes.
    collection = server.connect(socketTimeoutMS=600_000)["attack"]["sparse"]
    collection.create_index("arr")
    documents = size(20, 100)
    collection.insert_many([{"_id": number, "arr": [1]} for number in range(documents)])
    outcome = refused_or_answered(collection.update_many, {}, {"$set": {"arr.1400000": 5}})
    if not isinstance(outcome, Exception):
        assert collection.count_documents({"arr": 5}) == documents


EXPRESSIONS = {
    "a string that doubles": ({"$strLenBytes": doubled(24)}, {16493}),
    "an array that doubles": ({"$size": doubled(26, "$concatArrays", [1])}, {146}),
    "an array of itself": (doubled(26, "$concatArrays", [KIBIBYTE_TEXT]), {146, 13548}),
    "ranges in a range": (
        {"$size": {"$map": {"input": {"$range": [0, 5000]}, "in": {"$range": [0, {"$add": ["$$this", 100_000]}]}}}},
        {146},
    ),
    "long strings in a range": (
        {"$size": {"$map": {"input": {"$range": [0, 5000]}, "as": "n", "in": {"$concat": [doubled(12), {"$toString": "$$n"}]}}}},
        {146},
    ),
    "a text that replaces each character": (
        {"$strLenBytes": {"$replaceAll": {"input": doubled(10), "find": "x", "replacement": doubled(10)}}},
        {13548},
    ),
    "a zip of many arrays": (
        {"$size": {"$zip": {"inputs": [{"$range": [{"$multiply": ["$_id", 0]}, 1_000_000]}] * 100, "useLongestLength": True}}},
        {146},
    ),
    "a text that is split": ({"$size": {"$split": [doubled(13), "x"]}}, {146}),
    "one text many times": (
        {"$map": {"input": {"$range": [0, 100_000]}, "in": {"$literal": KIBIBYTE_TEXT}}},
        {146, 13548},
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_are_refused_while_they_are_made(server, name):
    expression, codes = EXPRESSIONS[name]
    collection = server.client["attack"]["values"]
    collection.insert_one({"_id": 1})
    computed = {"$cond": [{"$eq": ["$_id", 1]}, expression, None]}
    for pipeline in ([{"$set": {"n": computed}}], [{"$group": {"_id": computed}}]):
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            list(collection.aggregate(pipeline))
        assert failure.value.code in codes | {10334}, failure.value
    # What is compared need not be built as a whole.
    refused_or_answered(lambda: list(collection.aggregate([{"$match": {"$expr": {"$eq": [computed, 1]}}}])))
    with pytest.raises(pymongo.errors.OperationFailure):
        collection.update_one({}, [{"$set": {"n": computed}}])


@pytest.fixture(scope="module")
def texts(running):
    """A collection of documents of a megabyte."""
    collection = running.client["attack"]["kept"]
    for first in range(0, TEXTS, 10):
        collection.insert_many([{"_id": number, "s": f"{number:05}" * (MEBIBYTE // 5)} for number in range(first, first + 10)])
    return collection


def test_what_spills_is_right(texts, server):
    """Sorts, groups and buckets of more than their memory."""
    ids = [document["_id"] for document in texts.find({}, {"_id": 1}).sort("s", -1)]
    assert ids == list(range(TEXTS - 1, -1, -1))
    sizes = texts.aggregate([{"$set": {"m": {"$mod": ["$_id", 7]}}}, {"$sort": {"m": 1, "s": -1}}, {"$set": {"s": {"$strLenBytes": "$s"}}}])
    expected = sorted(range(TEXTS), key=lambda number: (number % 7, -number))
    assert [(row["_id"], row["s"]) for row in sizes] == [(number, 5 * (MEBIBYTE // 5)) for number in expected]
    first = texts.aggregate([{"$sort": {"_id": 1}}, {"$group": {"_id": {"$mod": ["$_id", TEXTS // 2]}, "texts": {"$push": "$s"}, "n": {"$sum": 1}}}])
    seen = {row["_id"]: ([text[:5] for text in row["texts"]], row["n"]) for row in first}
    assert seen == {number: ([f"{number:05}", f"{number + TEXTS // 2:05}"], 2) for number in range(TEXTS // 2)}
    buckets = list(texts.aggregate([{"$bucketAuto": {"groupBy": "$s", "buckets": 3, "output": {"ids": {"$push": "$_id"}}}}]))
    assert [bucket["ids"] for bucket in buckets] == [list(range(first, first + TEXTS // 3)) for first in range(0, TEXTS, TEXTS // 3)]
    drawn = [row["_id"] for row in texts.aggregate([{"$set": {"y": 1}}, {"$sample": {"size": 140}}])]
    assert len(set(drawn)) == 140


def test_what_must_not_spill_is_refused(texts, server):
    for pipeline in (
        [{"$sort": {"s": 1}}],
        [{"$set": {"y": 1}}, {"$sort": {"s": 1, "y": 1}}],
        [{"$group": {"_id": "$s"}}],
        [{"$bucketAuto": {"groupBy": "$s", "buckets": 3}}],
    ):
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            list(texts.aggregate(pipeline, allowDiskUse=False))
        assert failure.value.code in (292, 146), failure.value
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        list(texts.find().sort("s", 1).allow_disk_use(False))
    assert failure.value.code in (292, 146)
    admin = texts.database.client.admin
    assert admin.command({"setParameter": 1, "allowDiskUseByDefault": False})["was"] is True
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        list(texts.aggregate([{"$group": {"_id": "$s"}}]))
    assert failure.value.code in (292, 146)
    assert admin.command({"setParameter": 1, "allowDiskUseByDefault": True})["was"] is False


def test_arrays_that_a_group_pushes(texts, server):
    for accumulator in ("$push", "$addToSet"):
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            list(texts.aggregate([{"$group": {"_id": None, "all": {accumulator: "$s"}}}]))
        assert failure.value.code == 146


def test_facets_of_many_sorts(texts, server):
    documents = size(60, 90)
    pipeline = [{"$match": {"_id": {"$lt": documents}}}, {"$sort": {"s": 1}}, {"$count": "n"}]
    facets = {f"f{number}": pipeline for number in range(size(9, 40))}
    # Much is written and read again.
    client = server.connect(socketTimeoutMS=600_000)
    texts = client["attack"]["kept"]
    outcome = refused_or_answered(lambda: list(texts.aggregate([{"$set": {"y": 1}}, {"$facet": facets}])))
    if not isinstance(outcome, Exception):
        assert outcome == [{name: [{"n": documents}] for name in facets}]
    outcome = refused_or_answered(lambda: list(texts.aggregate([{"$facet": {"all": [{"$match": {}}]}}])))
    assert isinstance(outcome, pymongo.errors.OperationFailure)


def test_many_errors_of_large_documents(server):
    """Messages and further fields of a batch of errors are kept up to a megabyte."""
    database = server.client["attack"]
    database.create_collection("checked", validator={"n": {"$type": "int"}})
    database["checked"].insert_one({"_id": 0, "n": 1})
    update = [{"$set": {"n": doubled(13)}}]
    updates = [{"q": {"_id": 0}, "u": update} for _ in range(size(100, 400))]
    reply = database.command("update", "checked", updates=updates, ordered=False)
    assert len(reply["writeErrors"]) == len(updates)
    assert {error["code"] for error in reply["writeErrors"]} == {121}
    assert len(bson.encode(reply)) < 20 * MEBIBYTE


def test_upserts_of_large_identifiers(server):
    """A reply does not hold all of them; what it cannot report is refused before it is written."""
    update = [{"$set": {"_id": {"$concat": [doubled(12), {"$toString": "$k"}]}}}]
    updates = [{"q": {"k": number}, "u": update, "upsert": True} for number in range(size(100, 280))]
    reply = server.client["attack"].command("update", "upserts", updates=updates, ordered=False)
    written, refused = reply["upserted"], reply["writeErrors"]
    assert len(written) + len(refused) == len(updates) and len(written) >= 4
    assert {error["code"] for error in refused} == {10334}
    assert server.client["attack"]["upserts"].estimated_document_count() == len(written)


def test_many_large_regular_expressions(server):
    collection = server.client["attack"]["regex"]
    collection.insert_many([{"a": "abc" * 10} for _ in range(100)])
    letters = size(20, 100)
    large = [{"a": {"$regex": f"({number}\\p{{L}}{{{letters}}}){{1,3}}"}} for number in range(3000)]
    # What is too large for the linear engine is PCRE2's, which takes less: they are answered, or refused for want of memory.
    answered = refused_or_answered(lambda: list(collection.find({"$or": large})))
    assert answered == [] or isinstance(answered, pymongo.errors.OperationFailure)
    small = [re.compile(f"^{number}a") for number in range(3000)]
    assert list(collection.find({"a": {"$in": small}})) == []


def test_many_groups_at_once(texts, server):
    def group(client, number):
        pipeline = [{"$group": {"_id": {"$concat": ["$s", str(number)]}, "n": {"$sum": 1}}}, {"$project": {"n": 1, "_id": {"$substrBytes": ["$_id", 0, 5]}}}]
        return len(list(client["attack"]["kept"].aggregate(pipeline, allowDiskUse=True)))

    assert [outcome for outcome in at_once(server, CLIENTS, group) if outcome != TEXTS] == []


def test_joins_of_large_documents(texts, server):
    """Each document with all others: as an array, one by one, within another join, and what a join keeps, on several connections."""
    all_others = {"$lookup": {"from": "kept", "pipeline": [], "as": "j"}}
    by_field = {"$lookup": {"from": "kept", "localField": "none", "foreignField": "none", "as": "j"}}
    shapes = [
        [all_others],
        [all_others, {"$unwind": "$j"}],
        [by_field, {"$unwind": "$j"}],
        [{"$lookup": {"from": "kept", "pipeline": [{"$limit": 20}, all_others], "as": "k"}}],
        [{"$unionWith": {"coll": "kept", "pipeline": [all_others, {"$unwind": "$j"}]}}],
        [{"$graphLookup": {"from": "kept", "startWith": {"$range": [0, TEXTS]}, "connectFromField": "none", "connectToField": "_id", "as": "j"}}],
    ]

    def join(client, number):
        pipeline = [{"$limit": 3}, *shapes[number % len(shapes)], {"$project": {"_id": 1}}]
        kept = client["attack"]["kept"]
        try:
            list(kept.aggregate(pipeline))
            return sum(1 for _ in kept.aggregate(pipeline[:-1]))
        except pymongo.errors.OperationFailure as failure:
            # An array of too much.
            if failure.code not in (4568, 40099):
                raise
            return failure.code

    at_once(server, size(len(shapes), 3 * len(shapes)), join)


def test_idle_cursors_over_groups(texts, server):
    """Cursors at rest hold little: what they have not handed out lies on disk."""
    pipeline = [{"$match": {"_id": {"$lt": 50}}}, {"$group": {"_id": "$s"}}]
    cursors = [texts.aggregate(pipeline, batchSize=1) for _ in range(size(20, 60))]
    assert sum(1 for _ in cursors[-1]) == 50
    for cursor in cursors:
        cursor.close()


def test_long_lists_at_once(server):
    collection = server.client["attack"]["lists"]
    collection.insert_many([{"_id": number, "a": number} for number in range(1000)])
    collection.create_index("a")

    def find(client, number):
        values = list(range(0, 1_000_000, 2))
        field = "_id" if number % 2 else "a"
        return sum(1 for _ in client["attack"]["lists"].find({field: {"$in": values}}))

    for outcome in at_once(server, CLIENTS, find):
        assert outcome == 500 or isinstance(outcome, pymongo.errors.OperationFailure), outcome


def test_large_requests_at_once(server):
    """Requests wait for memory before they are read; who has sent one and says no more holds none of it."""
    clients = []

    def insert(client, number):
        documents = [{"_id": number * 100 + place, "text": "z" * MEBIBYTE} for place in range(40)]
        client["attack"]["requests"].insert_many(documents)
        clients.append(server.connect())
        clients[-1]["attack"]["requests"].find_one({"_id": number, "text": "z" * (10 * MEBIBYTE)})

    outcomes = at_once(server, size(6, 16), insert)
    assert [outcome for outcome in outcomes if outcome is not None] == []
    assert server.client["attack"]["requests"].estimated_document_count() == 40 * size(6, 16)
    for client in clients:
        client.close()


def test_idle_cursors_over_large_documents(texts, server):
    """A cursor reads the document that did not fit again; where it cannot, what it holds is bounded."""
    texts.update_many({}, {"$set": {"kind": 1}})
    texts.create_index("kind")
    asked = [
        lambda: texts.find({}, batch_size=2),
        lambda: texts.find({"kind": 1}, batch_size=2).limit(TEXTS - 10),
        lambda: texts.find({}, {"kind": 0}, batch_size=2).sort("_id", -1),
        lambda: texts.aggregate([{"$set": {"y": 1}}], batchSize=2),
    ]
    cursors = [[], [], [], []]
    for number in range(size(240, 600)):
        found = asked[number % 4]
        opened = refused_or_answered(lambda found=found: (cursor := found(), next(cursor))[0])
        if not isinstance(opened, Exception):
            cursors[number % 4].append(opened)
    print("cursors:", [len(opened) for opened in cursors])
    assert all(len(opened) == size(60, 150) for opened in cursors[:3]) and len(cursors[3]) > 20
    for opened, expected in zip(cursors, (range(1, TEXTS), range(1, TEXTS - 10), range(TEXTS - 2, -1, -1), range(1, TEXTS))):
        assert [document["_id"] for document in opened[-1]] == list(expected)
    cursors = [cursor for opened in cursors for cursor in opened]
    for cursor in cursors:
        cursor.close()


def test_idle_cursors_that_shaped_large_documents(server):
    """A cursor that waits for its client does not keep the last document that it made."""
    collection = server.client["attack"]["shaped"]
    for number in range(4):
        collection.insert_one({"_id": number, "kind": 1, "text": "x" * (12 * MEBIBYTE)})
    collection.create_index("kind")
    finds = [
        lambda: collection.find({}, {"kind": 0}, batch_size=1),
        lambda: collection.find({"kind": 1}, batch_size=1),
        lambda: collection.find({"kind": 1}, {"kind": 0}, batch_size=1),
    ]
    cursors = []
    for number in range(size(60, 150)):
        cursors.append(finds[number % 3]())
        assert len(next(cursors[-1])["text"]) == 12 * MEBIBYTE
    for cursor in cursors[:3]:
        assert [document["_id"] for document in cursor] == [1, 2, 3]
    for cursor in cursors:
        cursor.close()


def test_idle_cursors_beside_writes(server):
    """What a cursor reads while it waits must not keep in memory what others write meanwhile."""
    collection = server.client["attack"]["written"]
    collection.create_index("s")
    collection.create_index("n")
    any_text = {"s": {"$gte": ""}}
    finds = [
        lambda: collection.find({}, {"n": 1}, batch_size=2),
        lambda: collection.find(any_text, {"n": 1}, batch_size=2),
        lambda: collection.find(any_text, {"_id": 0, "s": 1}, batch_size=2),
        lambda: collection.find({"$or": [any_text, {"n": {"$gte": 0}}]}, {"n": 1}, batch_size=2),
        lambda: collection.find({"$or": [{"s": {"$gt": "a"}}, {"s": {"$lt": "c"}}]}, {"n": 1}, batch_size=2).sort("s", 1),
        lambda: collection.aggregate([{"$match": any_text}, {"$set": {"m": 1}}], batchSize=2),
    ]
    cursors = []
    for round_number in range(size(36, 60)):
        for base in range(round_number * 20_000, (round_number + 1) * 20_000, 2_000):
            numbers = range(base, base + 2_000)
            collection.insert_many([{"_id": n, "n": n, "s": f"{n * 7919 % 1_000_003:07}" + "x" * 900} for n in numbers])
        cursors.append(finds[round_number % len(finds)]())
        next(cursors[-1])
    for number, cursor in enumerate(cursors):
        assert sum(1 for _ in itertools.islice(cursor, 5_000)) == 5_000, number % len(finds)
        cursor.close()
