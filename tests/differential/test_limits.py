"""MongoDB's limits, at the limit and one past it."""

import bson
import pytest
from harness.cases import Case, run_case

MIB = 1024 * 1024


def document_of(size, **fields):
    """A document of exactly so many bytes."""
    fields = {"_id": 1, **fields, "s": ""}
    fields["s"] = "x" * (size - len(bson.encode(fields)))
    assert len(bson.encode(fields)) == size
    return fields


def nested(levels):
    """A document with so many levels: {a: {a: … {a: 1}}}."""
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def nested_arrays(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def insert(*documents):
    return {"insert": "COLL", "documents": list(documents)}


def update(change, query=None, **more):
    return {"update": "COLL", "updates": [{"q": query or {"_id": 1}, "u": change, **more}]}


COUNT = {"count": "COLL"}
CASES = [
    Case("document_16_mib", [insert(document_of(16 * MIB)), COUNT]),
    Case("document_16_mib_1", [insert(document_of(16 * MIB + 1)), COUNT]),
    Case("update_to_16_mib", [insert({"_id": 1, "s": ""}), update({"$set": {"s": document_of(16 * MIB)["s"]}}), COUNT]),
    Case("update_past_16_mib", [insert(document_of(16 * MIB)), update({"$set": {"t": 1}}), COUNT]),
    Case("push_past_16_mib", [insert(document_of(16 * MIB - 50, a=[])), update({"$push": {"a": "y" * 100}}), COUNT]),
    Case("upsert_past_16_mib", [update({"$set": {"s": "x" * (16 * MIB)}}, upsert=True), COUNT]),
    *(Case(f"nesting_{levels}", [insert({"_id": 1, "o": nested(levels)}), COUNT]) for levels in (98, 99, 100, 150, 170, 178, 179, 180, 181, 199, 200, 201)),
    *(Case(f"nesting_arrays_{levels}", [insert({"_id": 1, "o": nested_arrays(levels)}), COUNT]) for levels in (99, 100, 179, 180, 181)),
    *(Case(f"nesting_update_{levels}", [insert({"_id": 1}), update({"$set": {"o": nested(levels)}}), COUNT]) for levels in (98, 99, 100, 120, 150, 180)),
    *(Case(f"nesting_set_path_{levels}", [insert({"_id": 1}), update({"$set": {".".join(["a"] * levels): 1}}), COUNT]) for levels in (99, 100, 101, 150, 200, 201)),
    *(Case(f"nesting_filter_and_{levels}", [{"find": "COLL", "filter": filter_}]) for levels, filter_ in (
        (levels, __import__("functools").reduce(lambda inner, _: {"$and": [inner]}, range(levels), {"a": 1})) for levels in (40, 49, 50, 51, 80, 95)
    )),
    *(Case(f"batch_{count}", [{"update": "COLL", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}] * count}]) for count in (100_001,)),
    *(Case(f"deletes_{count}", [{"delete": "COLL", "deletes": [{"q": {"_id": 1}, "limit": 1}] * count}]) for count in (100_000, 100_001)),
    Case("inserts_100000", [{"insert": "COLL", "documents": [{"_id": i} for i in range(100_000)]}, COUNT]),
    Case("inserts_100001", [{"insert": "COLL", "documents": [{"_id": i} for i in range(100_001)]}, COUNT]),
    Case("index_key_long_string", [insert({"_id": 1, "k": "x" * 5000}), {"find": "COLL", "filter": {"k": "x" * 5000}, "projection": {"_id": 1}}], indexes=[{"key": {"k": 1}}]),
    Case("index_key_megabyte", [insert({"_id": 1, "k": "x" * MIB}), {"count": "COLL", "query": {"k": {"$gte": "x"}}}], indexes=[{"key": {"k": 1}}]),
    Case("id_long_string", [insert({"_id": "x" * 100_000}), {"count": "COLL", "query": {"_id": "x" * 100_000}}]),
    Case("many_keys", [insert({"_id": 1, "k": list(range(20_000))}), {"count": "COLL", "query": {"k": {"$gte": 5}}}], indexes=[{"key": {"k": 1}}]),
    Case("field_name_long", [insert({"_id": 1, "n" * 10_000: 1}), {"find": "COLL"}]),
    Case("in_list_10000", [insert(*[{"_id": i, "k": i} for i in range(100)]), {"count": "COLL", "query": {"k": {"$in": list(range(10_000))}}}], indexes=[{"key": {"k": 1}}]),
    Case("or_list_1000", [insert(*[{"_id": i, "k": i} for i in range(100)]), {"count": "COLL", "query": {"$or": [{"k": i} for i in range(1000)]}}], indexes=[{"key": {"k": 1}}]),
    Case("result_document_past_16_mib", [insert(document_of(9 * MIB)), {"aggregate": "COLL", "pipeline": [{"$project": {"a": "$s", "b": "$s"}}], "cursor": {}}]),
    Case("regex_too_long", [{"find": "COLL", "filter": {"a": {"$regex": "x" * 40_000}}}]),
    Case("sort_in_memory_past_limit", [insert(*[{"_id": i, "s": "x" * MIB, "k": -i} for i in range(20)]), {"find": "COLL", "sort": {"k": 1}, "projection": {"k": 1}}]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_limit(subject, oracle, case):
    run_case(subject, oracle, case)


def test_group_past_16_mib_is_an_error(subject):
    """mongod 6.0.5 closes the connection here; an error reply is what a client can act on."""
    subject.run("diff", {"drop": "wide"})
    for number in range(20):
        subject.run("diff", {"insert": "wide", "documents": [{"_id": number, "s": "x" * MIB}]})
    pipeline = [{"$group": {"_id": None, "all": {"$push": "$s"}}}]
    reply = subject.run("diff", {"aggregate": "wide", "pipeline": pipeline, "cursor": {}})
    assert reply.get("ok") == "double(0.0)"
    subject.run("diff", {"drop": "wide"})


def test_message_past_48_mb_closes_the_connection(subject):
    """A frame that lies about its size, or is too large, ends the connection and nothing else."""
    import socket
    import struct

    for length in (48_000_000 + 16 * 1024 + 1, 2**31 - 1, 15, 0, -1):
        with socket.create_connection(("127.0.0.1", subject.port), timeout=10) as connection:
            connection.sendall(struct.pack("<iiii", length, 1, 0, 2013))
            try:
                assert connection.recv(1) == b"", length
            except ConnectionResetError:
                pass
    assert subject.run("admin", {"ping": 1}).get("ok") == "double(1.0)"


