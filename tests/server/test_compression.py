"""Compression chosen for a collection or an index: accepted, shown, kept, and worth its bytes."""

import random

import pymongo
import pytest
from harness.servers import Meridian

SEED = 11
DOCUMENTS = 5_000


def engine(**options):
    return {"meridian": options}


CHOICES = {
    "none": engine(compression="none"),
    "lz4": engine(compression="lz4"),
    "zstd": engine(compression="zstd"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Meridian(tmp_path_factory.mktemp("compression") / "server") as running:
        yield running


def documents():
    """Half of each text repeats; the other half only a better code makes smaller."""
    choice = random.Random(SEED)
    words = ["place ", "time ", "event ", "station ", "morning "]
    for identity in range(DOCUMENTS):
        repeating = "".join(choice.choice(words) for _ in range(40))
        yield {"_id": identity, "s": "".join(choice.choices("abcdefghijklmnop", k=240)) + repeating}


def listed(database, name):
    return next(iter(database.list_collections(filter={"name": name})))["options"]


def statistics(database, name):
    return database.command("collStats", name)


def test_sizes_follow_the_choice_and_everything_is_kept_over_a_restart(server):
    database = server.client["sizes"]
    for name, choice in CHOICES.items():
        collection = database.create_collection(name, storageEngine=choice)
        # Half of the entries are loaded past the log, half are written.
        collection.insert_many(list(documents()))
        collection.create_index("s", name="built", storageEngine=choice)
        written = database.create_collection(f"{name}_written", indexOptionDefaults={"storageEngine": choice})
        written.create_index("s", name="s")
        written.insert_many(list(documents()))
    server.client.admin.command("fsync")

    def check():
        database = server.client["sizes"]
        for sizes in (
            [statistics(database, name)["storageSize"] for name in CHOICES],
            [statistics(database, name)["indexSizes"]["built"] for name in CHOICES],
            [statistics(database, f"{name}_written")["indexSizes"]["s"] for name in CHOICES],
        ):
            none, lz4, zstd = sizes
            assert none > DOCUMENTS * 480, sizes
            assert lz4 < 0.8 * none and zstd < 0.8 * lz4, f"seed {SEED}: {sizes}"
        for name, choice in CHOICES.items():
            shown = {"compression": name, **({"compressionLevel": 3} if name == "zstd" else {})}
            upper = {"upperLevels": {"compression": "zstd", "compressionLevel": 1}} if name == "zstd" else {}
            reply = statistics(database, name)
            assert reply["meridian"] == reply["indexDetails"]["_id_"] == {**shown, **upper}
            assert reply["indexDetails"]["built"] == {**shown, **upper}
            assert listed(database, name) == {"storageEngine": choice}
            assert database[name].index_information()["built"]["storageEngine"] == choice
            written = f"{name}_written"
            assert statistics(database, written)["indexDetails"]["s"] == {**shown, **upper}
            assert "storageEngine" not in database[written].index_information()["s"]
            assert listed(database, written) == {"indexOptionDefaults": {"storageEngine": choice}}
            assert database[name].count_documents({}, hint="built") == DOCUMENTS
            assert database.command("validate", name, full=True)["valid"]

    check()
    server.terminate()
    server.disconnect()
    server.start()
    check()


def test_the_default_is_reported_as_it_is(server):
    database = server.client["default"]
    database["c"].insert_one({})
    both = {"compression": "zstd", "compressionLevel": 3, "upperLevels": {"compression": "lz4"}}
    reply = statistics(database, "c")
    assert reply["meridian"] == both and reply["indexDetails"] == {"_id_": both}


def test_an_index_overrides_its_collection_and_a_rename_keeps_both(server):
    database = server.client["names"]
    options = {"storageEngine": CHOICES["zstd"], "indexOptionDefaults": {"storageEngine": CHOICES["none"]}}
    collection = database.create_collection("before", **options)
    collection.create_index("a")
    collection.create_index("b", storageEngine=engine(compression="zstd", compressionLevel=22))
    collection.insert_many([{"a": number, "b": -number} for number in range(100)])
    collection.rename("after")
    details = statistics(database, "after")["indexDetails"]
    assert details["_id_"]["compressionLevel"] == 3
    assert details["a_1"] == {"compression": "none"}
    assert details["b_1"]["compressionLevel"] == 22
    assert listed(database, "after") == options
    # What replaces a collection is stored as the collection was.
    list(database["after"].aggregate([{"$match": {"a": {"$lt": 50}}}, {"$out": "after"}]))
    assert statistics(database, "after")["indexDetails"] == details
    assert database["after"].count_documents({"b": {"$lte": 0}}, hint="b_1") == 50
    assert listed(database, "after") == options


def test_indexes_that_differ_only_in_compression_conflict(server):
    collection = server.client["conflicts"]["c"]
    collection.create_index("a", storageEngine=CHOICES["lz4"])
    collection.create_index("a", storageEngine=CHOICES["lz4"])
    for name, text in {"a_1": "with the same name but different options", "b": "with a different name and options"}.items():
        for choice in ({"storageEngine": CHOICES["none"]}, {}):
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                collection.create_index("a", name=name, **choice)
            assert refused.value.code == 85 and f"An equivalent index already exists {text}" in refused.value.details["errmsg"]
    assert len(collection.index_information()) == 2


REFUSED = {
    "engine": ({"wiredTiger": {"configString": "block_compressor=zstd"}}, 72, "wiredTiger is not a registered storage engine for this server"),
    "second_engine": ({**CHOICES["none"], "rocks": {}}, 72, "rocks is not a registered storage engine for this server"),
    "no_document": ({"meridian": 5}, 2, "'storageEngine.meridian' has to be an embedded document."),
    "option": (engine(compressor="zstd"), 72, "'compressor' is not a supported option."),
    "algorithm": (engine(compression="snappy"), 2, "has to be 'none', 'lz4' or 'zstd', not 'snappy'"),
    "algorithm_type": (engine(compression=1), 14, "'storageEngine.meridian.compression' is the wrong type 'int', expected type 'string'"),
    "level_zero": (engine(compression="zstd", compressionLevel=0), 2, "has to be a whole number from 1 to 22, not 0"),
    "level_high": (engine(compression="zstd", compressionLevel=23), 2, "has to be a whole number from 1 to 22, not 23"),
    "level_part": (engine(compression="zstd", compressionLevel=1.5), 2, "has to be a whole number from 1 to 22, not 1.5"),
    "level_type": (engine(compression="zstd", compressionLevel="9"), 14, "compressionLevel' is the wrong type 'string', expected type 'int'"),
    "level_of_lz4": (engine(compression="lz4", compressionLevel=3), 72, "'compressionLevel' requires compression: 'zstd'"),
    "level_alone": (engine(compressionLevel=3), 72, "'compressionLevel' requires compression: 'zstd'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(server, case):
    options, code, text = REFUSED[case]
    database = server.client["refused"]
    for command in (
        {"create": case, "storageEngine": options},
        {"create": case, "indexOptionDefaults": {"storageEngine": options}},
        {"createIndexes": case, "indexes": [{"key": {"a": 1}, "name": "a", "storageEngine": options}]},
    ):
        with pytest.raises(pymongo.errors.OperationFailure) as refused:
            database.command(command)
        assert refused.value.code == code and text in refused.value.details["errmsg"]
    assert case not in database.list_collection_names()


def test_the_id_index_has_no_compression_of_its_own(server):
    database = server.client["refused"]
    for command in (
        {"create": "c", "idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 2, "storageEngine": CHOICES["none"]}},
        {"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "_id_", "storageEngine": CHOICES["none"]}]},
    ):
        with pytest.raises(pymongo.errors.OperationFailure) as refused:
            database.command(command)
        assert refused.value.code == 197
