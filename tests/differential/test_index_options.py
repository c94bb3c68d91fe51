"""Options and forms of createIndexes, dropIndexes, listIndexes and collMod at their edges, and making an index unique later."""

import pytest
from bson import Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp
from harness.cases import Case
from test_indexes import DOCS, LIST, READ, create, insert, spec, update

NAN = float("nan")
CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
FRENCH = {"locale": "fr"}

# -- values of the options of one index, for several kinds of index

KINDS = {"ascending": {"z": 1}, "2d": {"z": "2d"}, "2dsphere": {"z": "2dsphere"}, "id": {"_id": 1}}
GEO = {"2d": {"bits", "min", "max", "bucketSize", "collation", "sparse"}, "2dsphere": {"2dsphereIndexVersion", "finestIndexedLevel", "coarsestIndexedLevel", "unique", "min"}}
VALUES = {
    "unique": [True, False, 2.5, "x", None],
    "sparse": [True, False, "x"],
    "hidden": [True, 0, "x"],
    "background": [True, 0, "x"],
    "prepareUnique": [True, False, 1, "x", None],
    "dropDups": [True, 1, "x", None, {}],
    "clustered": [True, False, 1, "x"],
    "ns": ["q.c", 5],
    "v": [2.0, Decimal128("2"), 1, 0, 1.5, "x", None],
    "bits": [26, 1, 32, 33, 0, -1, 5.7, "x"],
    "min": [-180, 180, "x", NAN],
    "max": [180, -180, "x", NAN],
    "bucketSize": [1],
    "2dsphereIndexVersion": [2, 3, 0, 4, 2.5, "x"],
    "finestIndexedLevel": [5, "x"],
    "coarsestIndexedLevel": [5, "x", None],
    "expireAfterSeconds": [0, 1.5, float("inf"), -1, Int64(2**31), "x", None, True],
    "partialFilterExpression": [{}, {"b": "x"}, "x", {"a": {"$exists": False}}, {"a": {"$in": [1, Regex("x")]}}, {"a": None}, {"$expr": {"$gt": ["$a", 1]}}],
    "collation": [FRENCH, {"locale": "simple"}, {"locale": "xx"}, {}, 5],
    "_id": [1],
    "foo": [1],
}  # fmt: skip


OPTIONS = [(option, kind) for option in VALUES for kind in KINDS if kind not in GEO or option in GEO[kind]]


@pytest.mark.parametrize("option, kind", OPTIONS)
def test_option(pair, option, kind):
    """Each value by itself; the index, if it was made, is dropped before the next."""
    key, name = KINDS[kind], "_id_" if kind == "id" else "i"
    commands = []
    for value in VALUES[option]:
        commands += [create(spec(key, name, **{option: value})), LIST, {"dropIndexes": "COLL", "index": "*"}]
    commands += [create(spec(key, name, **{option: VALUES[option][-1]}), ignoreUnknownIndexOptions=True)]
    pair.run_case(Case(f"option_{option}_{kind}", [{"create": "COLL"}, *commands], DOCS))


KEY_VALUES = [
    0, -0.0, NAN, "", None, Decimal128("1"), Decimal128("0"), Decimal128("NaN"), Decimal128("-1"), True, {}, [], [1], ObjectId("0" * 24), Regex("x"), Timestamp(1, 1), MinKey(),
    b"x", Int64(2**40), float("inf"), float("-inf"), 0.5, -0.5, "Hashed", "geoHaystack", "s2", "btree", "columnstore",
]  # fmt: skip


@pytest.mark.parametrize("value", KEY_VALUES, ids=repr)
def test_key_value(pair, value):
    specs = [spec({"z": value}), spec({"b": 1, "z": value}, "j"), spec({"z": value}, "k", v=1), spec({"_id": value}, "_id_"), spec({"_id": value}, "l")]
    pair.run_case(Case(f"key_value_{value!r}", [*(create(each) for each in specs), LIST], DOCS))


# -- one index after another: the same, another, or a conflict

VARIANTS = [
    {}, dict(sparse=True), dict(partialFilterExpression={"b": "x"}), dict(partialFilterExpression={"b": {"$eq": "x"}}), dict(collation=FRENCH), dict(hidden=True), dict(expireAfterSeconds=5),
    dict(v=1), dict(min=5.0), dict(unique=True), dict(prepareUnique=True),
]  # fmt: skip


@pytest.mark.parametrize("first", VARIANTS, ids=str)
def test_conflict(pair, first):
    """Then each of the others, under the same name and under another."""
    commands = [create(spec({"t": 1}, **first)), LIST]
    for second in VARIANTS:
        commands += [create(spec({"t": 1}, **second)), create(spec({"t": 1}, "j", **second)), {"dropIndexes": "COLL", "index": "j"}]
    pair.run_case(Case(f"conflict_{first}", commands))


PAIRS = [
    ({"a": 1}, {"a": -1}), ({"a": 1}, {"a": 1.0}), ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": "hashed"}), ({"a": 1, "b": 1}, {"b": 1, "a": 1}), ({"a": 1}, {"a": 1}),
    ({"a": 1}, {"a": Decimal128("1")}), ({"a": "2d"}, {"a": "2dsphere"}), ({"a": "2d"}, {"a": "2d"}),
]  # fmt: skip


@pytest.mark.parametrize("documents", [[], [{"_id": 1}]], ids=["missing", "filled"])
@pytest.mark.parametrize("keys", PAIRS, ids=str)
def test_two(pair, keys, documents):
    """Two keys under one name and under two, in one command and in two."""
    first, second = keys
    names = ("_id_", "j") if "_id" in first else ("i", "i")
    for number, commands in enumerate([
        [create(spec(first, names[0]), spec(second, names[1])), LIST],
        [create(spec(first, names[0]), spec(second, "k")), LIST],
        [create(spec(first, names[0])), create(spec(second, names[1])), create(spec(second, "k")), LIST],
    ]):  # fmt: skip
        pair.run_case(Case(f"two_{keys}_{len(documents)}_{number}", commands, documents))


# -- forms


def drop(index, **more):
    return {"dropIndexes": "COLL", "index": index, **more}


def modify(index, **more):
    return {"collMod": "COLL", "index": index, **more}


MADE = [create(spec({"a": 1}, "i"), spec({"b": -1}, "j"))]
DROPS = [
    "*", "i", "zzz", "", ["i", "j"], [], ["*"], ["i", "*"], ["i", "_id_"], ["i", "zzz"], ["i", "i"], [5], [{"a": 1}], [None], ["i", 5], {"a": 1}, {"a": 1.0}, {"a": -1}, {"b": 1}, {"_id": 1},
    {}, {"a": 1, "b": -1}, {"a": "x"}, 5, None, True, Regex("i"),
]  # fmt: skip
CURSORS = [{}, {"batchSize": 0}, {"batchSize": 1}, {"batchSize": -1}, {"batchSize": 1.5}, {"batchSize": None}, 5, None, []]
LISTS = [dict(includeBuildUUIDs="x"), dict(foo=1), dict(readConcern={"level": "local"})]
QUORUMS = [0, 1, 2, -1, 51, "majority", "votingMembers", "foo", "", None, {}, [], True, Regex("x")]
LISTED = [[], 5, None, {}, [5], [None], [[]], [{}], [spec({"z": 1}), 5], [spec({"z": 1}), spec({"y": 1})]]
NAMES = ["system.foo", "", 5]

FORMS = {
    **{f"drop_{index}": [*MADE, drop(index), LIST] for index in DROPS},
    **{f"list_cursor_{cursor}": [*MADE, {"listIndexes": "COLL", "cursor": cursor}] for cursor in CURSORS},
    **{f"list_{options}": [*MADE, {"listIndexes": "COLL", **options}] for options in LISTS},
    **{f"quorum_{quorum}": [create(spec({"z": 1}), commitQuorum=quorum)] for quorum in QUORUMS},
    **{f"indexes_{number}": [{"createIndexes": "COLL", "indexes": indexes}, LIST] for number, indexes in enumerate(LISTED)},
    **{f"name_{name!r}": [{"dropIndexes": name, "index": "*"}, {"listIndexes": name}, {"createIndexes": name, "indexes": [spec({"z": 1})]}] for name in NAMES},
    "id_named_star": [create(spec({"_id": 1}, "*"))],
    "modify": [*MADE, *(modify(index) for index in (
        {}, 5, {"hidden": True}, {"name": "i"}, {"name": 5, "hidden": True}, {"keyPattern": 5, "hidden": True}, {"name": "i", "foo": 1}, {"name": "i", "keyPattern": {"a": 1}, "hidden": True},
        {"name": "zz", "hidden": True}, {"keyPattern": {"zz": 1}, "hidden": True}, {"name": "i", "hidden": "x"}, {"name": "i", "hidden": None}, {"name": "i", "hidden": 1})), LIST],
    "hidden_hints": [
        create(spec({"a": 1}, "i", hidden=True)), *({"find": "COLL", "filter": {"a": 1}, "hint": hint} for hint in ("i", {"a": 1})), {"count": "COLL", "query": {"a": 1}, "hint": "i"},
        {"aggregate": "COLL", "pipeline": [], "cursor": {}, "hint": "i"}, {"delete": "COLL", "deletes": [{"q": {}, "limit": 0, "hint": "i"}]}, update({}, {"$set": {"x": 1}}, hint="i"),
        {"findAndModify": "COLL", "query": {}, "remove": True, "hint": "i"}, {"find": "COLL", "min": {"a": 1}, "hint": "i"}],
    "same_key_dropped": [create(spec({"a": 1})), create(spec({"a": 1}, "j", sparse=True)), create(spec({"a": 1}, "k", collation=FRENCH)), drop({"a": 1}), drop("k"), drop({"a": 1}), drop("j"), drop({"a": 1}), LIST],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_form(pair, name):
    pair.run_case(Case(f"form_{name}", FORMS[name], DOCS))


SIXTY_FOUR = [spec({f"f{number}": 1}, f"i{number}") for number in range(65)]
ELSEWHERE = [
    Case("clustered_drops", [create(spec({"a": 1})), drop("_id_"), drop({"_id": 1}), drop("*"), LIST], options=CLUSTERED),
    Case("clustered_sixty_four", [create(*SIXTY_FOUR[:64]), create(SIXTY_FOUR[64])], options=CLUSTERED),
    Case("too_many", [create(*SIXTY_FOUR[:62]), create(*SIXTY_FOUR[62:64]), create(SIXTY_FOUR[62]), create(SIXTY_FOUR[0], SIXTY_FOUR[63]), create(SIXTY_FOUR[0])]),
    *(Case(f"2d_bounds_{number}", [create(spec({"p": "2d"}, **bounds)), LIST, insert(*({"_id": i, "p": [i * 25, i * 25]} for i in range(-8, 9)), ordered=False),
                                   {"find": "COLL", "filter": {"p": {"$geoWithin": {"$box": [[-60, -60], [60, 60]]}}}, "sort": {"_id": 1}}, {"find": "COLL", "filter": {"p": {"$near": [500, 0]}}}, {"validate": "COLL"}])
      for number, bounds in enumerate([dict(bits=1), dict(min=0, max=100), dict(min=-1, max=1, bits=3), dict(min=0, max=0), dict(min=1, max=-1), dict(min=-200, max=200)])),
]  # fmt: skip


@pytest.mark.parametrize("case", ELSEWHERE, ids=lambda case: case.name)
def test_elsewhere(pair, case):
    pair.run_case(case)


# -- prepareUnique, then unique

PREPARE, MAKE = modify({"name": "i", "prepareUnique": True}), modify({"name": "i", "unique": True})
TRY = modify({"name": "i", "unique": True}, dryRun=True)
TWICE = [{"_id": 1, "a": 1}, {"_id": 2, "a": 1}, {"_id": 3, "a": 2}]
PREPARED = create(spec({"a": 1}, prepareUnique=True))
VIOLATING = [*({"_id": number, "a": value} for number, value in enumerate([1, 1, 2, 2, 2.0, 3, None, [5, 6], [6, 7], [7, 8], "x"])), {"_id": "missing"}, {"_id": Int64(99), "a": "x"}]
WRITES = [
    insert({"_id": 4, "a": 2}), insert({"_id": 5, "a": 9}), insert({"_id": 6, "a": 9}, {"_id": 7, "a": 10}, ordered=False), update({"_id": 3}, {"$set": {"a": 1}}),
    update({"_id": 1}, {"$set": {"z": 1}}), update({"_id": 1}, {"$set": {"a": 1, "b": 1}}), update({"_id": 2}, {"$set": {"a": 2}}), update({"_id": 50}, {"$set": {"a": 1}}, upsert=True),
    {"findAndModify": "COLL", "query": {"_id": 3}, "update": {"$set": {"a": 1}}}, READ,
]  # fmt: skip
FOUR = [{"_id": number, "a": value, "b": 1, "l": [1, number]} for number, value in enumerate(["x", "X", "x", "y"])] + [{"_id": 5}, {"_id": 6}, {"_id": 7, "b": 1}]
UNIQUE = {
    "by_create": [PREPARED, LIST, *WRITES, MAKE, TRY, {"delete": "COLL", "deletes": [{"q": {"_id": 2}, "limit": 1}]}, TRY, LIST, MAKE, LIST, MAKE, PREPARE, insert({"_id": 9, "a": 1})],
    "by_modify": [*MADE, MAKE, TRY, PREPARE, PREPARE, LIST, *WRITES, modify({"name": "i", "prepareUnique": False}), modify({"name": "i", "prepareUnique": False}), LIST, insert({"_id": 9, "a": 1}), MAKE],
    "not_unique": [*MADE, modify({"name": "i", "unique": False}), PREPARE, modify({"name": "i", "unique": False}), modify({"name": "i", "unique": None})],
    "combined": [*MADE, modify({"name": "i", "unique": True, "prepareUnique": True}), modify({"name": "i", "prepareUnique": True, "hidden": True}), modify({"name": "i", "prepareUnique": True, "expireAfterSeconds": 5}),
                 modify({"name": "i", "prepareUnique": True}, validationLevel="moderate"), LIST, drop("i"), {"delete": "COLL", "deletes": [{"q": {"_id": 2}, "limit": 1}]}, PREPARED,
                 modify({"name": "i", "unique": True, "prepareUnique": False}), modify({"name": "i", "unique": True, "hidden": True, "expireAfterSeconds": 500000000}), LIST],
    "combined_same": [{"delete": "COLL", "deletes": [{"q": {"_id": 2}, "limit": 1}]}, PREPARED, modify({"name": "i", "unique": True, "prepareUnique": True}), LIST],
    "dry_run": [*MADE, {"collMod": "COLL", "dryRun": True}, {"collMod": "COLL", "validationLevel": "off", "dryRun": True}, modify({"name": "i", "hidden": True}, dryRun=True), modify({"name": "i", "prepareUnique": True}, dryRun=True),
                modify({"name": "i", "unique": True}, dryRun="x"), PREPARE, modify({"name": "i", "unique": True, "hidden": True}, dryRun=True), modify({"name": "i", "unique": True}, dryRun=True, validationLevel="off"), TRY, LIST],
    "unique_already": [create(spec({"_id": 1, "a": 1}, unique=True)), PREPARE, modify({"name": "i", "prepareUnique": False}), MAKE, TRY, LIST],
    "of_id": [modify({"name": "_id_", "prepareUnique": True}), modify({"keyPattern": {"_id": 1}, "unique": True}), modify({"name": "_id_", "unique": True}, dryRun=True), LIST],
    "both_options": [create(spec({"a": 1}, unique=True, prepareUnique=True)), LIST],
    "types": [*MADE, *(modify({"name": "i", field: value}) for field in ("prepareUnique", "unique") for value in ("x", None, {}, [], 1, 0, 2.5)), LIST],
    "again": [create(spec({"a": 1}, prepareUnique=True, sparse=True, hidden=True)), LIST, create(spec({"a": 1}, sparse=True)), create(spec({"a": 1}, sparse=True, prepareUnique=True)),
              create(spec({"a": 1}, "q", sparse=True, prepareUnique=True)), create(spec({"a": 1}, sparse=True, unique=True)), LIST],
}  # fmt: skip


@pytest.mark.parametrize("name", UNIQUE)
def test_unique_later(pair, name):
    pair.run_case(Case(f"unique_later_{name}", UNIQUE[name], TWICE))


def test_violations(pair):
    """All groups, in the order of the keys; a document with several keys stands in several."""
    pair.run_case(Case("violations", [PREPARED, MAKE, TRY, LIST], VIOLATING))


PREPARED_KINDS = [
    ({"a": "hashed"}, {}), ({"a": 1, "b": -1}, {}), ({"a": 1}, dict(sparse=True)), ({"a": 1}, dict(partialFilterExpression={"b": 1})), ({"a": 1}, dict(hidden=True)), ({"l": 1}, {}),
    ({"a": 1}, dict(expireAfterSeconds=5)), ({"a": 1}, dict(v=1)), ({"a": 1}, dict(collation={"locale": "en", "strength": 2})), ({"q": "2d"}, {}), ({"q": "2dsphere"}, {}),
]  # fmt: skip


@pytest.mark.parametrize("kind", PREPARED_KINDS, ids=str)
def test_prepared_kind(pair, kind):
    key, options = kind
    commands = [create(spec(key, prepareUnique=True, **options)), *(insert(document) for document in FOUR), MAKE, LIST, READ, {"validate": "COLL"}]
    # (the sort keys of the two versions of the collations' data differ)
    message = "the value is shown as its sort key" if "collation" in options else None
    ignore = ("writeErrors.*.keyValue",) if "collation" in options else ()
    pair.run_case(Case(f"prepared_{kind}", commands, message_differs=message, ignore=ignore))
