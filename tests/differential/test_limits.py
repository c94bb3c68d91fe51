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


def path(parts):
    return ".".join(["a"] * parts)


def aggregate(*stages):
    return {"aggregate": "COLL", "pipeline": list(stages), "cursor": {}}


def nesting(operator, levels):
    """An expression that puts the field `a` into so many arrays or documents, one a round."""
    return {"$reduce": {"input": {"$range": [0, levels]}, "initialValue": "$a", "in": operator}}


def pipelines(count):
    """Every place in which a list of stages may stand, with so many of them."""
    return {
        "unwind": aggregate(*[{"$unwind": "$a"}] * count),
        "match": aggregate(*[{"$match": {}}] * count),
        "facet": aggregate({"$facet": {"x": [{"$skip": 0}] * count}}),
        "update": update([{"$set": {"q": 1}}] * count),
        "modify": {"findAndModify": "COLL", "query": {"_id": 1}, "update": [{"$set": {"q": 1}}] * count},
    }


def expression_paths(parts):
    """Every place in which an expression names a field."""
    return {
        "field": aggregate({"$set": {"x": "$" + path(parts)}}),
        "root": aggregate({"$set": {"x": "$$ROOT." + path(parts)}}),
        "variable": aggregate({"$set": {"x": {"$let": {"vars": {"v": 1}, "in": "$$v." + path(parts)}}}}),
        "group": aggregate({"$group": {"_id": "$" + path(parts)}}),
        "bucket_auto": aggregate({"$bucketAuto": {"groupBy": "$" + path(parts), "buckets": 2}}),
        "expr": {"find": "COLL", "filter": {"$expr": {"$eq": ["$" + path(parts), 1]}}},
    }


def named_paths(parts):
    """Every place in which a path is a name."""
    return {
        "find_keep": {"find": "COLL", "projection": {path(parts): 1}},
        "find_drop": {"find": "COLL", "projection": {path(parts): 0}},
        "find_compute": {"find": "COLL", "projection": {path(parts): "$b"}},
        "find_slice": {"find": "COLL", "projection": {path(parts): {"$slice": 1}}},
        "sort": {"find": "COLL", "sort": {path(parts): 1}},
        "distinct": {"distinct": "COLL", "key": path(parts)},
        "set": aggregate({"$set": {path(parts): 1}}),
        "project": aggregate({"$project": {path(parts): 1}}),
        "project_drop": aggregate({"$project": {path(parts): 0}}),
        "unset": aggregate({"$unset": path(parts)}),
        "sort_stage": aggregate({"$sort": {path(parts): 1}}),
        "update_set": update([{"$set": {path(parts): 1}}]),
        "update_unset": update([{"$unset": path(parts)}]),
    }


def filter_paths(parts):
    """Every place in which a filter stands."""
    return {
        "find": {"find": "COLL", "filter": {path(parts): 1}},
        "operators": {"find": "COLL", "filter": {path(parts): {"$gt": 1}}},
        "or": {"find": "COLL", "filter": {"$or": [{path(parts): 1}, {"x": 1}]}},
        "element": {"find": "COLL", "filter": {"x": {"$elemMatch": {path(parts): 1}}}},
        "count": {"count": "COLL", "query": {path(parts): 1}},
        "match": aggregate({"$match": {path(parts): 1}}),
        "delete": {"delete": "COLL", "deletes": [{"q": {path(parts): 1}, "limit": 1}]},
        "upsert": update({"$set": {"x": 1}}, {path(parts): 1, "_id": 2}, upsert=True),
        "array_filter": update({"$set": {"b.$[x]": 1}}, arrayFilters=[{"x." + path(parts - 1): 1}]),
        "pull": update({"$pull": {"b": {path(parts): 1}}}),
    }


def deep_values(levels):
    """Values that get so deep while they are computed, in documents that then have a level more."""
    return {
        "arrays": aggregate({"$project": {"x": nesting(["$$value"], levels)}}),
        "documents": aggregate({"$project": {"x": nesting({"b": "$$value"}, levels)}}),
        "root": aggregate({"$replaceWith": nesting({"b": "$$value"}, levels + 1)}),
        "group": aggregate({"$group": {"_id": nesting(["$$value"], levels)}}),
        "measured": aggregate({"$project": {"x": {"$size": nesting(["$$value"], levels)}}}),
        "compared": aggregate({"$project": {"x": {"$eq": [nesting(["$$value"], levels)] * 2}}}),
        "set": aggregate({"$project": {"x": {"$size": {"$setUnion": [[nesting(["$$value"], levels)]] * 2}}}}),
        "find": {"find": "COLL", "projection": {"x": nesting(["$$value"], levels)}},
        "pushed": aggregate({"$set": {path(levels - 1): 1}}, {"$group": {"_id": 1, "x": {"$push": "$$ROOT"}}}),
        "facet": aggregate({"$set": {path(levels - 1): 1}}, {"$facet": {"x": [{"$skip": 0}]}}),
    }


def at(kind, sizes):
    """A case for each place of a kind at each of the sizes."""
    document = {"_id": 1, "a": 1}
    return [Case(f"{kind.__name__}_{name}_{size}", command, docs=[document]) for size in sizes for name, command in kind(size).items()]


COUNT = {"count": "COLL"}
CASES = [
    *at(pipelines, (1000, 1001, 2000)),
    *at(expression_paths, (199, 200, 5000)),
    *at(named_paths, (200, 201, 5000)),
    *at(filter_paths, (180, 181, 5000)),
    *at(deep_values, (198, 199, 200, 250)),
    *(Case(f"index_path_{parts}", {"createIndexes": "COLL", "indexes": [{"key": {path(parts): 1}, "name": "x"}]}, docs=[{"_id": 1}]) for parts in (200, 1000, 1018, 1019, 1020, 5000)),
    *(Case(f"nested_project_{parts}", aggregate({"$project": {path(parts): {path(parts): 1}}}), docs=[{"_id": 1}]) for parts in (100, 101, 200)),
    *(Case(f"nested_projection_{parts}", {"find": "COLL", "projection": {path(parts): {path(parts): 1}}}, docs=[{"_id": 1}]) for parts in (100, 101, 200)),
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


