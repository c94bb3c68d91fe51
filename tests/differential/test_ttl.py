"""What TTL indexes delete and what they leave: both servers get the same documents and the same index, and must
be left with the same documents once their monitors have passed over them."""

import datetime
import time

import bson
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

NOW = datetime.datetime.now(datetime.timezone.utc)
OLD = NOW - datetime.timedelta(days=40)
LATER = NOW + datetime.timedelta(days=40)
DAY = 86400
PASSES = 3

DOCUMENTS = [
    {"d": OLD},
    {"d": NOW},
    {"d": LATER},
    {"d": datetime.datetime(1969, 1, 1, tzinfo=datetime.timezone.utc)},
    {"d": [OLD, LATER]},
    {"d": [LATER, OLD]},
    {"d": [LATER]},
    {"d": [OLD, "text"]},
    {"d": [[OLD]]},
    {"d": []},
    {"d": [{"d": OLD}]},
    {"d": "text"},
    {"d": None},
    {"d": 5},
    {"d": OLD.timestamp() * 1000},
    {"d": bson.Timestamp(1, 1)},
    {"d": bson.ObjectId.from_datetime(OLD)},
    {"d": {"x": OLD}},
    {"d": {"x": [OLD, LATER]}},
    {"d": [{"x": OLD}, {"x": LATER}]},
    {"d": [{"x": LATER}, 3, {"x": None}]},
    {"d": bson.MinKey()},
    {"d": bson.MaxKey()},
    {"x": OLD},
    {},
]  # fmt: skip
# Each shape three times: inside and outside of the partial filters, and without the field they ask for.
DOCUMENTS = [
    {"_id": number * 3 + part, **document, **extra}
    for number, document in enumerate(DOCUMENTS)
    for part, extra in enumerate([{"verified": False}, {"verified": True, "n": 3}, {"n": 9}])
]

IN_D = {"d": 1}
INDEXES = {
    "plain": (IN_D, {}),
    "descending": ({"d": -1}, {}),
    "wordy_direction": ({"d": 1.5}, {}),
    "month": (IN_D, {"expireAfterSeconds": 30 * DAY}),
    "months": (IN_D, {"expireAfterSeconds": 60 * DAY}),
    "float": (IN_D, {"expireAfterSeconds": 0.9}),
    "float_month": (IN_D, {"expireAfterSeconds": 30 * DAY + 0.5}),
    "long": (IN_D, {"expireAfterSeconds": Int64(30 * DAY)}),
    "decimal": (IN_D, {"expireAfterSeconds": bson.Decimal128("3")}),
    "largest": (IN_D, {"expireAfterSeconds": 2**31 - 1}),
    "too_large": (IN_D, {"expireAfterSeconds": 2**31}),
    "huge": (IN_D, {"expireAfterSeconds": 1e300}),
    "infinite": (IN_D, {"expireAfterSeconds": float("inf")}),
    "minus_infinite": (IN_D, {"expireAfterSeconds": float("-inf")}),
    "nan": (IN_D, {"expireAfterSeconds": float("nan")}),
    "decimal_nan": (IN_D, {"expireAfterSeconds": bson.Decimal128("NaN")}),
    "negative": (IN_D, {"expireAfterSeconds": -1}),
    "slightly_negative": (IN_D, {"expireAfterSeconds": -0.5}),
    "true": (IN_D, {"expireAfterSeconds": True}),
    "null": (IN_D, {"expireAfterSeconds": None}),
    "sparse": (IN_D, {"sparse": True}),
    "unique_sparse_on_x": ({"u": 1}, {"sparse": True, "unique": True}),
    "hidden": (IN_D, {"hidden": True}),
    "partial": (IN_D, {"partialFilterExpression": {"verified": False}}),
    "partial_descending": ({"d": -1}, {"partialFilterExpression": {"verified": False}}),
    "partial_hidden": (IN_D, {"partialFilterExpression": {"verified": False}, "hidden": True}),
    "partial_range": (IN_D, {"partialFilterExpression": {"n": {"$gt": 5}}}),
    "partial_exists": (IN_D, {"partialFilterExpression": {"verified": {"$exists": True}}}),
    "partial_and": (IN_D, {"partialFilterExpression": {"verified": True, "n": {"$lt": 5}}}),
    "partial_or": (IN_D, {"partialFilterExpression": {"$or": [{"verified": False}, {"n": 9}]}}),
    "partial_own_field": (IN_D, {"partialFilterExpression": {"d": {"$type": "date"}}}),
    "partial_own_dates": (IN_D, {"partialFilterExpression": {"d": {"$gt": NOW - datetime.timedelta(days=50)}}}),
    "partial_empty": (IN_D, {"partialFilterExpression": {}}),
    "partial_sparse": (IN_D, {"partialFilterExpression": {"verified": False}, "sparse": True}),
    "dotted": ({"d.x": 1}, {}),
    "dotted_partial": ({"d.x": 1}, {"partialFilterExpression": {"verified": False}}),
    "position": ({"d.0": 1}, {}),
    "compound": ({"d": 1, "x": 1}, {}),
    "hashed": ({"d": "hashed"}, {}),
    "id": ({"_id": 1}, {}),
}  # fmt: skip


def wait_for_passes(server):
    """Whole passes after what was done before: the one under way may have begun earlier."""

    def passes():
        return server.client.admin.command("serverStatus")["metrics"]["ttl"]["passes"]

    before, deadline = passes(), time.monotonic() + 60
    while passes() < before + PASSES:
        assert time.monotonic() < deadline, f"{server.name} makes no TTL passes"
        time.sleep(0.1)


def create(collection, key, options):
    """Whether the index was made, or the error's code."""
    command = {"createIndexes": collection.name, "indexes": [{"key": key, "name": "i", **options}]}
    try:
        collection.database.command(command)
    except OperationFailure as error:
        return error.code
    return True


def left(collection):
    return sorted(document["_id"] for document in collection.find({}, {"_id": 1}))


def compare(pair, names, prepare):
    """Makes one collection a name on each server, lets the monitors pass, and compares what is left of each."""
    made, remaining = {}, {}
    for server in (pair.subject, pair.oracle):
        database = server.client["diff_ttl"]
        for name in names:
            database[name].drop()
            made[server.name, name] = prepare(database[name], name)
    for server in (pair.subject, pair.oracle):
        wait_for_passes(server)
        for name in names:
            remaining[server.name, name] = left(server.client["diff_ttl"][name])
        server.client.drop_database("diff_ttl")
    differing = [
        f"{name}: index {made['meridian', name]} ({made['mongod', name]}), deleted here only "
        f"{sorted(set(theirs) - set(own))}, there only {sorted(set(own) - set(theirs))}"
        for name in names
        for own, theirs in [(remaining["meridian", name], remaining["mongod", name])]
        if (own, made["meridian", name]) != (theirs, made["mongod", name])
    ]
    assert not differing, "\n".join(differing)
    return remaining


def test_indexes_of_every_kind(pair):
    def prepare(collection, name):
        key, options = INDEXES[name]
        collection.insert_many(DOCUMENTS)
        return create(collection, key, {"expireAfterSeconds": 0, **options})

    remaining = compare(pair, list(INDEXES), prepare)
    assert len(remaining["meridian", "plain"]) < len(remaining["meridian", "partial"]) < len(DOCUMENTS)


def test_more_than_a_batch_outside_of_the_partial_filter(pair):
    """The report's case: half of 1,500 old documents are outside of the filter, and stay."""

    def prepare(collection, _):
        collection.insert_many([{"_id": i, "d": OLD, "verified": bool(i % 2)} for i in range(1500)])
        return create(collection, IN_D, {"expireAfterSeconds": 0, "partialFilterExpression": {"verified": False}})

    remaining = compare(pair, ["many"], prepare)
    assert remaining["meridian", "many"] == list(range(1, 1500, 2))


CHANGES = {
    "sooner": 0,
    "later": 60 * DAY,
    "float": 30.7 * DAY,
    "negative": -1,
    "infinite": float("inf"),
    "minus_infinite": float("-inf"),
    "largest": 2**31 - 1,
    "too_large": 2**31,
    "huge": 2**63 - 1,
    "string": "off",
    "null": None,
    "bool": True,
    "decimal": bson.Decimal128("5"),
}  # fmt: skip


@pytest.mark.parametrize("before", ["ttl", "none", "partial"])
def test_coll_mod(pair, before):
    options = {"none": {}, "partial": {"partialFilterExpression": {"verified": False}}}.get(before, {})
    if before != "none":
        options = {**options, "expireAfterSeconds": 100 * 365 * DAY // 2}

    def prepare(collection, name):
        collection.insert_many(DOCUMENTS)
        made = create(collection, IN_D, options)
        change = {"keyPattern": IN_D, "expireAfterSeconds": CHANGES[name]}
        try:
            collection.database.command({"collMod": collection.name, "index": change})
        except OperationFailure as error:
            return made, error.code
        return made, [index.get("expireAfterSeconds") for index in collection.list_indexes()]

    compare(pair, list(CHANGES), prepare)


CLUSTERED = {"zero": 0, "month": 30 * DAY, "months": 60 * DAY, "then_off": 60 * DAY, "then_month": 10_000 * DAY}


def test_clustered_collections(pair):
    def prepare(collection, name):
        clustered = {"key": {"_id": 1}, "unique": True}
        collection.database.command(
            {"create": collection.name, "clusteredIndex": clustered, "expireAfterSeconds": CLUSTERED[name]}
        )
        change = {"then_off": "off", "then_month": 30 * DAY}.get(name)
        if change is not None:
            collection.database.command({"collMod": collection.name, "expireAfterSeconds": change})
        ids = [OLD, NOW, LATER, "text", 5, None, {"x": OLD}, bson.ObjectId("0" * 24), bson.Timestamp(1, 1)]
        collection.insert_many([{"_id": value} for value in ids if value is not None])
        return None

    def names(collection):
        return sorted(str(document["_id"]) for document in collection.find({}, {"_id": 1}))

    global left
    original, left = left, names
    try:
        compare(pair, list(CLUSTERED), prepare)
    finally:
        left = original


@pytest.mark.parametrize("seconds", [-1, 2**31, 2**40, 1.5, float("inf"), float("-inf")], ids=str)
def test_expiry_of_clustered_collections(pair, seconds):
    outcomes = []
    for server in (pair.subject, pair.oracle):
        database = server.client["diff_ttl"]
        own = []
        for command in ({"create": "c", "expireAfterSeconds": seconds}, {"create": "c"}):
            database.drop_collection("c")
            for each in ({**command, "clusteredIndex": {"key": {"_id": 1}, "unique": True}}, {"collMod": "c", "expireAfterSeconds": seconds}):
                try:
                    database.command(each)
                    own.append(next(database.list_collections())["options"].get("expireAfterSeconds"))
                except OperationFailure as error:
                    own.append((error.code, error.details["errmsg"]))
        server.client.drop_database("diff_ttl")
        outcomes.append(own)
    assert outcomes[0] == outcomes[1]


def test_nan_deletes_nothing(pair):
    """mongod's collMod and clustered collections take NaN for 0 seconds, which deletes all there is: not here."""
    database, nan = pair.subject.client["diff_ttl"], float("nan")
    database.drop_collection("c")
    database["c"].insert_many(DOCUMENTS)
    create(database["c"], IN_D, {"expireAfterSeconds": nan})
    for change in ({"index": {"keyPattern": IN_D, "expireAfterSeconds": nan}}, {"expireAfterSeconds": nan}):
        with pytest.raises(OperationFailure, match="NaN"):
            database.command({"collMod": "c", **change})
    with pytest.raises(OperationFailure, match="NaN"):
        database.command({"create": "d", "clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": nan})
    wait_for_passes(pair.subject)
    assert len(left(database["c"])) == len(DOCUMENTS)
    pair.subject.client.drop_database("diff_ttl")


def test_two_indexes_on_one_field(pair):
    """Each index deletes by its own filter and age."""

    def prepare(collection, _):
        collection.insert_many(DOCUMENTS)
        first = create(collection, {"d": 1}, {"expireAfterSeconds": 0, "partialFilterExpression": {"verified": False}})
        key = {"d": -1}
        second = {"key": key, "name": "j", "expireAfterSeconds": 45 * DAY, "partialFilterExpression": {"n": 9}}
        collection.database.command({"createIndexes": collection.name, "indexes": [second]})
        return first

    compare(pair, ["two"], prepare)


@pytest.mark.parametrize("change", ["dropIndexes", "collMod", "off"])
def test_a_sweep_ends_with_its_index(_subject, change):
    """Whoever takes the index away, or gives it another expiry, while documents expire keeps what is left."""
    database = _subject.client["swept"]
    for attempt in range(5):
        database.drop_collection("c")
        kinds = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": 10**9} if change == "off" else {}
        database.create_collection("c", **kinds)
        first = datetime.datetime(2001, 1, 1)
        ids = [first + datetime.timedelta(milliseconds=number) for number in range(60_000)]
        for start in range(0, len(ids), 20_000):
            database["c"].insert_many([{"_id": date, "t": date} for date in ids[start : start + 20_000]])
        if change == "off":
            database.command("collMod", "c", expireAfterSeconds=10)
        else:
            database["c"].create_index("t", expireAfterSeconds=10)
        until = time.monotonic() + 30
        while database["c"].estimated_document_count() == len(ids):
            assert time.monotonic() < until, "nothing expires"
            time.sleep(0.002)
        if change == "off":
            database.command("collMod", "c", expireAfterSeconds="off")
        elif change == "collMod":
            database.command("collMod", "c", index={"name": "t_1", "expireAfterSeconds": 2**31 - 1})
        else:
            database["c"].drop_index("t_1")
        # One batch may have been under way.
        time.sleep(0.5)
        left = database["c"].count_documents({})
        time.sleep(2.5)
        assert database["c"].count_documents({}) == left
        if left:
            return
    pytest.fail("all had expired before the change, five times")
