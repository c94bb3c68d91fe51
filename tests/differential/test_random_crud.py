"""Random sequences of writes on both servers; after each sequence the collections are equal.

Each collection has a few indexes, so every write also moves index entries; at the end every
index is walked by hint and `validate` is asked.
"""

import os
import random
import time

import pytest
from bson import Decimal128, Int64
from fixtures import date
from harness import cases

SEED = int(os.environ.get("MERIDIAN_RANDOM_SEED", time.time_ns() % 1_000_000))
SEQUENCES = int(os.environ.get("MERIDIAN_RANDOM_SEQUENCES", "40"))
STEPS = 60

INDEX_SETS = [
    [{"key": {"n": 1}}],
    [{"key": {"n": 1, "s": -1}}, {"key": {"l": 1}}],
    [{"key": {"u": 1}, "unique": True, "sparse": True}, {"key": {"l": 1, "n": 1}}],
    [{"key": {"p": "2dsphere"}}, {"key": {"n": "hashed"}}],
    [{"key": {"n": 1}, "partialFilterExpression": {"s": "x"}}, {"key": {"o.k": 1}}],
    [{"key": {"n": 1, "u": 1}, "unique": True, "partialFilterExpression": {"u": {"$exists": True}}}],
    [],
]

# mongod's validate unsets "multikey" of an index whose last array is gone, and says so in these
# fields. Here an index stays multikey: a reader on an older snapshot may still meet the arrays.
MULTIKEY_ADJUSTED = (
    "repaired", "warnings", "numDocumentsMovedToLostAndFound", "numInsertedMissingIndexEntries",
    "numOutdatedMissingIndexEntry", "numRemovedCorruptRecords", "numRemovedExtraIndexEntries",
)  # fmt: skip


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        return self.random.choice([0, 1, 2, 3, 7, -1, Int64(1), Int64(5), 1.5, 2.0, Decimal128("3.0"), None])

    def document(self, identity=None):
        document = {} if identity is None else {"_id": identity}
        choose = self.random.random
        if choose() < 0.9:
            document["n"] = self.number()
        if choose() < 0.7:
            document["s"] = self.random.choice(["x", "y", "z", date(2020, 1, 1)])
        if choose() < 0.6:
            document["l"] = [self.random.randint(0, 5) for _ in range(self.random.randint(0, 4))]
        if choose() < 0.3:
            document["u"] = self.random.randint(0, 12)
        if choose() < 0.5:
            document["p"] = {"type": "Point", "coordinates": [self.random.randint(-170, 170), self.random.randint(-80, 80)]}
        if choose() < 0.5:
            document["o"] = {"k": self.number(), "m": [{"v": self.random.randint(0, 3)} for _ in range(2)]}
        return document

    def condition(self):
        choose = self.random.choice
        return choose([
            {"_id": self.random.randint(0, 40)},
            {"_id": {"$in": [self.random.randint(0, 40) for _ in range(4)]}},
            {"n": choose([0, 1, 2, None])},
            {"n": {"$gte": choose([0, 1, 2])}},
            {"s": choose(["x", "y"])},
            {"l": self.random.randint(0, 5)},
            {"o.k": choose([1, 2])},
            {"u": {"$exists": True}},
            {"s": "x", "n": {"$lt": 3}},
        ])  # fmt: skip

    def change(self):
        choose, number = self.random.choice, self.random.randint
        return choose([
            {"$set": {"n": self.number()}}, {"$inc": {"k": choose([1, 1.5, Int64(2)])}}, {"$unset": {choose(["n", "s", "l", "o.k"]): 1}},
            {"$push": {"l2": number(0, 5)}}, {"$addToSet": {"l2": {"$each": [number(0, 5), number(0, 5)]}}}, {"$pull": {"l": number(0, 5)}},
            {"$pop": {"l": choose([1, -1])}}, {"$set": {"l": [number(0, 5) for _ in range(number(0, 3))]}}, {"$rename": {"s": "s2"}},
            {"$rename": {"s2": "s"}}, {"$min": {"n": choose([0, 1])}}, {"$max": {"n": choose([3, 9])}}, {"$mul": {"k": 2}},
            {"$set": {"o.m.$[].v": number(0, 9)}}, {"$set": {"u": number(0, 12)}}, {"$set": {"s": choose(["x", "y", "z"])}},
            {"$set": {"p": {"type": "Point", "coordinates": [number(-170, 170), number(-80, 80)]}}}, {"$setOnInsert": {"new": True}},
            [{"$set": {"k": {"$add": [{"$ifNull": ["$k", 0]}, 1]}, "s": {"$ifNull": ["$s", "x"]}}}], {"$bit": {"b": {"or": number(0, 7)}}},
        ])  # fmt: skip

    def command(self):
        kind = self.random.random()
        if kind < 0.35:
            documents = [self.document(self.random.randint(0, 40)) for _ in range(self.random.randint(1, 4))]
            return {"insert": "COLL", "documents": documents, "ordered": self.random.choice([True, False])}
        if kind < 0.65:
            statement = {"q": self.condition(), "u": self.change(), "multi": self.random.random() < 0.5}
            if self.random.random() < 0.2:
                statement |= {"q": {"_id": self.random.randint(0, 60)}, "upsert": True}
            return {"update": "COLL", "updates": [statement], "ordered": False}
        if kind < 0.75:
            identity = self.random.randint(0, 40)
            return {"update": "COLL", "updates": [{"q": {"_id": identity}, "u": self.document(), "upsert": self.random.random() < 0.3}]}
        if kind < 0.88:
            return {"delete": "COLL", "deletes": [{"q": self.condition(), "limit": 0}]}
        command = {"findAndModify": "COLL", "query": self.condition(), "sort": {"_id": self.random.choice([1, -1])}}
        if self.random.random() < 0.3:
            return {**command, "remove": True}
        return {**command, "update": self.change(), "new": self.random.random() < 0.5}


@pytest.mark.timeout(600)
def test_random_writes(subject, oracle):
    print(f"seed {SEED}")
    failures = []
    for sequence in range(SEQUENCES):
        generator = Generator(SEED * 1000 + sequence)
        indexes = generator.random.choice(INDEX_SETS)
        commands = [generator.command() for _ in range(STEPS)]
        unique = any(index.get("unique") for index in indexes)
        for command in commands:
            for statement in command.get("updates", []):
                make_definite(statement, unique, generator.random)
        commands += [{"find": "COLL", "sort": {"_id": 1}}, {"count": "COLL"}]
        for index in indexes:
            # A number's value decides its place, so equal numbers may come in either order.
            if not index.get("sparse") and not index.get("partialFilterExpression") and "2dsphere" not in index["key"].values():
                commands.append({"find": "COLL", "hint": index["key"], "projection": {"_id": 1}, "batchSize": 1000})
        commands.append({"validate": "COLL"})
        case = cases.Case(f"rc_{sequence}", commands, indexes=indexes, ignore=("uuid", "advice", "indexDetails", *MULTIKEY_ADJUSTED), options={"validator": {}})
        try:
            cases.run_case(subject, oracle, case)
        except cases.Mismatch as mismatch:
            failures.append(f"CRUD seed {SEED}, sequence {sequence}: {mismatch}")
    assert not failures, f"CRUD {len(failures)} of {SEQUENCES} sequences differ\n" + "\n\n".join(failures[:6])


def make_definite(statement, unique, choice):
    """Where the outcome would depend on the order of documents, which is the server's choice, asks by _id."""
    may_fail = unique or "$[]" in str(statement["u"])
    if may_fail and statement["q"].get("_id", {}).__class__ is not int:
        statement["q"] = {"_id": choice.randint(0, 40)}
        statement["multi"] = False
    if not statement.get("multi") and "_id" not in statement["q"]:
        statement["multi"] = not is_replacement(statement["u"])


def is_replacement(change):
    return isinstance(change, dict) and not any(key.startswith("$") for key in change)
