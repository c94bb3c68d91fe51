"""Shared, read-only collections: every BSON type, nested arrays, nulls and missing fields.

A fixture is a list of documents and the variants it is loaded in: the same documents once
without an index and once under each index, so that a filter is asked by scan and by index.
"""

import datetime
import struct

import bson
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument

UTC = datetime.timezone.utc


def date(*parts):
    return datetime.datetime(*parts, tzinfo=UTC)


OID = ObjectId("5f0000000000000000000001")
NAN = float("nan")
INF = float("inf")

# One of each kind, and the neighbours that comparison must tell apart.
SCALARS = [
    ("null", None),
    ("minkey", MinKey()),
    ("maxkey", MaxKey()),
    ("true", True),
    ("false", False),
    ("int_0", 0),
    ("int_1", 1),
    ("int_2", 2),
    ("int_neg", -3),
    ("int_max", 2**31 - 1),
    ("long_1", Int64(1)),
    ("long_2_53", Int64(2**53)),
    ("long_2_53_1", Int64(2**53 + 1)),
    ("long_max", Int64(2**63 - 1)),
    ("long_min", Int64(-(2**63))),
    ("double_1", 1.0),
    ("double_1_5", 1.5),
    ("double_neg_0", -0.0),
    ("double_tiny", 5e-324),
    ("double_2_53", float(2**53)),
    ("double_2_63", float(2**63)),
    ("nan", NAN),
    ("inf", INF),
    ("neg_inf", -INF),
    ("decimal_1", Decimal128("1")),
    ("decimal_1_50", Decimal128("1.50")),
    ("decimal_0_1", Decimal128("0.1")),
    ("double_0_1", 0.1),
    ("decimal_big", Decimal128("1E+400")),
    ("decimal_nan", Decimal128("NaN")),
    ("decimal_inf", Decimal128("Infinity")),
    ("string_empty", ""),
    ("string_a", "a"),
    ("string_abc", "abc"),
    ("string_upper", "ABC"),
    ("string_umlaut", "äbc"),
    ("string_nul", "a\0b"),
    ("string_lines", "first\nsecond"),
    ("date", date(2020, 1, 1)),
    ("date_old", date(1969, 12, 31, 23, 59, 59)),
    ("timestamp", Timestamp(1577836800, 1)),
    ("oid", OID),
    ("binary", Binary(b"abc", 0)),
    ("binary_longer", Binary(b"abcd", 0)),
    ("binary_user", Binary(b"abc", 0x80)),
    ("uuid", Binary(bytes(range(16)), 4)),
    ("regex", Regex("^a", "i")),
    ("code", Code("function() {}")),
    ("code_scope", Code("function() {}", {"x": 1})),
]

COMPOSITES = [
    ("empty_object", {}),
    ("object", {"b": 1}),
    ("object_2", {"b": 1, "c": 2}),
    ("object_swapped", {"c": 2, "b": 1}),
    ("object_null", {"b": None}),
    ("object_deep", {"b": {"c": 1}}),
    ("object_array", {"b": [1, 2]}),
    ("object_string", {"b": "abc"}),
    ("empty_array", []),
    ("array_1", [1]),
    ("array_null", [None]),
    ("array_12", [1, 2]),
    ("array_21", [2, 1]),
    ("array_mixed", [1, "a", None, {"b": 1}]),
    ("array_nested", [[1, 2], [3]]),
    ("array_nested_empty", [[]]),
    ("array_objects", [{"b": 1}, {"b": 2}]),
    ("array_objects_missing", [{"b": 1}, {"c": 2}]),
    ("array_objects_arrays", [{"b": [1, 2]}, {"b": [3]}]),
    ("array_objects_null", [{"b": None}, {"b": 5}]),
    ("array_deep", [{"b": [{"c": 1}, {"c": 2}]}, {"b": {"c": 3}}]),
    ("array_in_array_object", [[{"b": 1}]]),
    ("array_strings", ["abc", "xyz", "äöü"]),
    ("array_numbers", [1, 5, 9, 15]),
    ("array_nan", [NAN, 3]),
    ("object_numeric_key", {"0": 1, "1": {"b": 2}}),
    ("array_of_numeric_key", [{"0": 7}, {"1": 8}]),
]

VALUES = SCALARS + COMPOSITES


def raw_document(identity, kind, payload):
    """{_id: identity, a: <a value of a deprecated type that PyMongo cannot write>, n: identity}."""
    body = b"\x10_id\0" + struct.pack("<i", identity)
    body += bytes([kind]) + b"a\0" + payload
    body += b"\x10n\0" + struct.pack("<i", identity)
    return RawBSONDocument(struct.pack("<i", len(body) + 5) + body + b"\0")


def bson_string(value):
    data = value.encode() + b"\0"
    return struct.pack("<i", len(data)) + data


def value_documents():
    documents = [{"_id": number, "a": value, "n": number, "s": name} for number, (name, value) in enumerate(VALUES)]
    at = len(documents)
    documents.append({"_id": at, "n": at, "s": "missing"})
    documents.append(raw_document(at + 1, 0x06, b""))  # undefined
    documents.append(raw_document(at + 2, 0x0E, bson_string("abc")))  # symbol
    documents.append(raw_document(at + 3, 0x0C, bson_string("db.c") + OID.binary))  # DBPointer
    return documents


def people():
    """Ordinary documents: what applications hold."""
    cities = ["Paris", "Lyon", "Bourges", "Tours", "Orléans"]
    return [
        {
            "_id": number,
            "name": f"name {number % 17:02}",
            "age": number % 23,
            "city": cities[number % 5],
            "score": number * 1.25 - 20 if number % 7 else None,
            "tags": [f"t{number % 3}", f"t{number % 4}"],
            "grades": [{"subject": "maths", "grade": number % 6}, {"subject": "art", "grade": (number * 7) % 6}],
            "address": {"street": {"name": f"street {number % 9}", "number": number}, "zip": f"{18000 + number % 11}"},
            "born": date(1950 + number % 50, 1 + number % 12, 1 + number % 28, number % 24),
            "big": Int64(number * 10**12),
        }
        | ({"nick": f"n{number}"} if number % 3 == 0 else {})
        for number in range(60)
    ]


def events():
    """Time series for roll-ups: the shape of the weather evaluation."""
    start = date(2017, 12, 1)
    names = ["Large Wildfire", "Hurricane Approaching", "Multi-vehicle Accident", "Flood"]
    return [
        {
            "_id": number,
            "indexnum": number + 1,
            "startdatetime": start + datetime.timedelta(minutes=number * 613),
            "name": names[number % 4],
            "reading": (number * 37 % 101) / 4,
            "location": {"type": "Point", "coordinates": [2.0 + (number % 13) / 10, 46.0 + (number % 7) / 10]},
            "permitid": number % 9,
        }
        for number in range(200)
    ]


FIXTURES = {"values": value_documents, "people": people, "events": events}

# Variant name -> the index that the collection has.
INDEXES = {
    "values": {
        "none": None,
        "a": {"key": {"a": 1}},
        "a_desc": {"key": {"a": -1}},
        "a_b": {"key": {"a.b": 1}},
        "a_n": {"key": {"a": 1, "n": 1}},
        "n_a": {"key": {"n": 1, "a": -1}},
        "a_sparse": {"key": {"a": 1}, "sparse": True},
        "a_partial": {"key": {"a": 1}, "partialFilterExpression": {"n": {"$gte": 30}}},
        "a_partial_exists": {"key": {"a": 1}, "partialFilterExpression": {"a": {"$exists": True}}},
    },
    "people": {
        "none": None,
        "age": {"key": {"age": 1}},
        "city_age": {"key": {"city": 1, "age": -1}},
        "tags": {"key": {"tags": 1}},
        "grades": {"key": {"grades.grade": 1, "grades.subject": 1}},
        "name_hashed": {"key": {"name": "hashed"}},
        "score_sparse": {"key": {"score": 1}, "sparse": True},
        "nick_unique": {"key": {"nick": 1}, "unique": True, "sparse": True},
        "partial": {"key": {"age": 1}, "partialFilterExpression": {"city": "Paris"}},
    },
    "events": {"none": None, "start": {"key": {"startdatetime": 1}}},
}


class Shared:
    """Loads a fixture's variant into both servers when first asked for."""

    database = "shared"

    def __init__(self, servers):
        self.servers = servers
        self.loaded = {}

    def collection(self, fixture, variant="none"):
        """The name of the collection, loaded; raises the first load error again on every use."""
        name = f"{fixture}_{variant}"
        if name not in self.loaded:
            try:
                for server in self.servers:
                    self.load(server, name, fixture, variant)
                self.loaded[name] = None
            except Exception as error:
                self.loaded[name] = error
        if self.loaded[name] is not None:
            raise self.loaded[name]
        return name

    def load(self, server, name, fixture, variant):
        from harness.cases import Mismatch, index_spec

        server.run(self.database, {"drop": name})
        reply = server.run(self.database, {"insert": name, "documents": FIXTURES[fixture]()})
        if reply.get("ok") != "double(1.0)" or reply.get("writeErrors"):
            raise Mismatch(f"FIXTURE {name} did not load on {server.name}: {reply}"[:1000])
        index = INDEXES[fixture][variant]
        if index is None:
            return
        reply = server.run(self.database, {"createIndexes": name, "indexes": [index_spec(index)]})
        if reply.get("ok") != "double(1.0)":
            raise Mismatch(f"FIXTURE {name} got no index on {server.name}: {reply}"[:1000])


__all__ = ["Shared", "FIXTURES", "INDEXES", "VALUES", "SCALARS", "COMPOSITES", "date", "OID", "NAN", "INF", "bson"]
