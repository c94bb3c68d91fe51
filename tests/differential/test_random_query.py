"""Random filters, sorts and pipelines over random documents, by scan and by index.

MERIDIAN_RANDOM_SEED repeats a run; MERIDIAN_RANDOM_QUERIES changes its length.
"""

import os
import random
import time

import pytest
from bson import Decimal128, Int64, Regex
from fixtures import date
from harness import cases

SEED = int(os.environ.get("MERIDIAN_RANDOM_SEED", time.time_ns() % 1_000_000))
QUERIES = int(os.environ.get("MERIDIAN_RANDOM_QUERIES", "1500"))

FIELDS = ["a", "b", "c", "a.b", "a.c", "b.c", "a.0", "a.b.c", "a.0.b"]
INDEXES = [
    None, {"a": 1}, {"a": -1}, {"a": 1, "b": 1}, {"a.b": 1}, {"b": 1, "a": -1}, {"a.b": 1, "c": 1}, {"c": 1, "a.b": -1},
    {"b": 1, "c": -1},
]  # fmt: skip


class Generator:
    """Small value domains, so that filters match some documents and equal values abound."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def scalar(self):
        choose = self.random.choice
        return choose(
            [None, True, False, 0, 1, 2, 3, -1, Int64(1), Int64(2), 1.0, 2.0, 1.5, float("nan"), Decimal128("1"),
             Decimal128("1.5"), "", "a", "ab", "b", "A", date(2020, 1, 1), date(2021, 1, 1), -0.0, float("inf")]
        )  # fmt: skip

    def value(self, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.6:
            return self.scalar()
        if kind < 0.8:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
        return {name: self.value(depth + 1) for name in self.random.sample(["b", "c", "d"], self.random.randint(0, 2))}

    def document(self, number):
        # Only `a` may hold arrays at any depth: two array fields in one compound index are refused.
        document = {"_id": number}
        if self.random.random() < 0.9:
            document["a"] = self.value()
        if self.random.random() < 0.8:
            document["b"] = self.random.choice([self.scalar(), {"c": self.scalar()}])
        if self.random.random() < 0.8:
            document["c"] = self.scalar()
        return document

    def leaf(self):
        choose, value = self.random.choice, self.value
        kind = self.random.random()
        if kind < 0.25:
            return value()
        if kind < 0.5:
            return {choose(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]): value()}
        if kind < 0.6:
            return {"$gte": self.scalar(), "$lt": self.scalar()}
        if kind < 0.7:
            return {choose(["$in", "$nin"]): [value() for _ in range(self.random.randint(0, 4))]}
        if kind < 0.75:
            return {"$exists": choose([True, False])}
        if kind < 0.8:
            return {"$type": choose(["int", "string", "array", "object", "null", "number", "double", "date", "bool"])}
        if kind < 0.84:
            return {"$not": {choose(["$gt", "$lte", "$eq"]): self.scalar()}}
        if kind < 0.88:
            return {"$elemMatch": choose([{"$gte": self.scalar()}, {"b": self.scalar()}, {"$in": [self.scalar(), self.scalar()]}])}
        if kind < 0.91:
            return {"$all": [value() for _ in range(self.random.randint(1, 2))]}
        if kind < 0.94:
            return {"$size": self.random.randint(0, 3)}
        if kind < 0.97:
            return {"$regex": choose(["^a", "b", "^a.*", "^(a|b)$"]), "$options": choose(["", "i"])}
        return choose([{"$mod": [2, 1]}, Regex("^a", "i"), {"$bitsAllSet": 1}])

    def condition(self, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.7:
            fields = self.random.sample(FIELDS, self.random.choice([1, 1, 1, 2, 2, 3]))
            return {field: self.leaf() for field in fields}
        if kind < 0.97:
            operator = self.random.choice(["$and", "$or", "$or", "$nor"])
            return {operator: [self.condition(depth + 1) for _ in range(self.random.randint(1, 3))]}
        return {"$expr": {self.random.choice(["$eq", "$gt", "$lt"]): ["$" + self.random.choice(["a", "b", "c"]), self.scalar()]}}

    def command(self, collection):
        """One read: find, count, distinct or aggregate."""
        kind = self.random.random()
        condition = self.condition()
        if kind < 0.3:
            return {"find": collection, "filter": condition, "projection": {"_id": 1}, "batchSize": 1000}
        if kind < 0.45:
            direction = self.random.choice([1, -1])
            sort = {field: direction * self.random.choice([1, 1, -1]) for field in self.random.sample(["a", "b", "c", "a.b"], self.random.randint(1, 2))}
            if "a" in sort and "a.b" in sort:
                del sort["a.b"]
            command = {"find": collection, "filter": condition, "sort": {**sort, "_id": 1}, "batchSize": 1000}
            if self.random.random() < 0.5:
                command["limit"] = self.random.randint(1, 20)
            if self.random.random() < 0.3:
                command["skip"] = self.random.randint(1, 20)
            return command
        if kind < 0.55:
            projection = self.random.choice([{"a": 1}, {"_id": 0, "a": 1, "b": 1}, {"_id": 0, "c": 1}, {"a.b": 0}, {"_id": 0, "b": 1, "c": 1}])
            return {"find": collection, "filter": condition, "projection": projection, "batchSize": 1000}
        if kind < 0.8:
            return {"count": collection, "query": condition}
        if kind < 0.87:
            # (equal numbers of different types are one value: asked over one type only)
            return {"distinct": collection, "key": self.random.choice(["c", "b.c"]), "query": {"c": {"$type": "string"}, "b.c": {"$type": "string"}, **condition}}
        group = {"_id": {"$type": "$" + self.random.choice(["a", "b", "c"])}, "n": {"$sum": 1}, "low": {"$min": "$_id"}, "high": {"$max": "$_id"}}
        return {"aggregate": collection, "pipeline": [{"$match": condition}, {"$group": group}], "cursor": {}}


@pytest.mark.timeout(900)
def test_random_queries(subject, oracle):
    print(f"seed {SEED}")
    generator = Generator(SEED)
    documents = [generator.document(number) for number in range(400)]
    for server in (subject, oracle):
        for number, key in enumerate(INDEXES):
            name = f"random_{number}"
            server.run("diff", {"drop": name})
            if key is not None:
                server.run("diff", {"createIndexes": name, "indexes": [cases.index_spec(key)]})
            reply = server.run("diff", {"insert": name, "documents": documents})
            assert reply.get("n") == "int32(400)", (server.name, reply)
    mismatches = []
    for number in range(QUERIES):
        index = generator.random.randrange(len(INDEXES))
        command = generator.command(f"random_{index}")
        case = cases.Case(f"seed {SEED} query {number}", [], database="diff", fixture=f"random, index {INDEXES[index]}")
        try:
            cases.compare_command(subject, oracle, case, command)
        except cases.Mismatch as mismatch:
            if cases.as_by_scan(subject, oracle, case, command, "random_0"):
                continue
            mismatches.append(f"RANDOM seed {SEED}, query {number}: {mismatch}")
    assert not mismatches, f"RANDOM {len(mismatches)} of {QUERIES} queries differ\n" + "\n\n".join(mismatches[:8])
