"""Groups over ranges of an index that two cores share: around the most entries and the most bytes of keys that are shared."""

import pymongo

ENTRIES_MAX = 16_384
KEYS_BYTES_MAX = 1 << 20
LONG_IDS = 3_000


def groups(collection, bound, **filters):
    pipeline = [{"$match": {"a": {"$lt": bound}, **filters}}, {"$group": {"_id": "$g", "n": {"$sum": 1}, "sum": {"$sum": "$v"}, "first": {"$first": "$a"}}}, {"$sort": {"_id": 1}}]
    return list(collection.aggregate(pipeline, hint="a"))


def expected(bound):
    rows = {}
    for i in range(bound):
        row = rows.setdefault(i % 7, {"_id": i % 7, "n": 0, "sum": 0, "first": i})
        row["n"] += 1
        row["sum"] += 3 * i
    return [rows[group] for group in sorted(rows)]


def test_groups_of_ranges_around_the_bounds(subject):
    database = subject.client["shared_ranges"]
    subject.client.drop_database("shared_ranges")
    count = 3 * ENTRIES_MAX
    collection = database["short"]
    collection.create_index([("a", pymongo.ASCENDING)], name="a")
    collection.insert_many([{"_id": i, "a": i, "g": i % 7, "v": 3 * i} for i in range(count)])
    for bound in (1, 255, 256, 257, ENTRIES_MAX - 1, ENTRIES_MAX, ENTRIES_MAX + 1, ENTRIES_MAX + 2, count):
        assert groups(collection, bound) == expected(bound), bound
    # Keys of about 600 bytes each.
    collection = database["long"]
    collection.create_index([("a", pymongo.ASCENDING)], name="a")
    collection.insert_many([{"_id": f"{i:0600}", "a": i, "g": i % 7, "v": 3 * i} for i in range(LONG_IDS)])
    middle = KEYS_BYTES_MAX // 607
    for bound in (*range(middle - 12, middle + 12), LONG_IDS):
        assert groups(collection, bound) == expected(bound), bound
