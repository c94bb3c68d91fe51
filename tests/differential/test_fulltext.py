"""Text indexes and $text: whole replies beside mongod's.

Each case is a list of commands that both servers get one after the other. Documents that nothing sorts are
compared as a set, each with its score: mongod gives them in the order of a hash table. MERIDIAN_RANDOM_SEED repeats
the random texts.
"""

import random
import re

import pytest
from bson import SON, Decimal128, Int64
from harness import canonical
from test_random_query import SEED

DATABASE = "fulltext"
SCORE = {"$meta": "textScore"}


@pytest.fixture
def servers(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
    return _subject, _oracle


def text(reply):
    fields = []
    for key, value in reply:
        if key == "cursor" and "firstBatch" in dict(value):
            batch = sorted(canonical.text(document) for document in dict(value)["firstBatch"])
            fields.append(f"cursor: {batch}")
        else:
            fields.append(f"{key}: {canonical.text(value)}")
    shown = "\n".join(fields)
    # Their message shows what was parsed, in their words, and a unique id of the build.
    shown = re.sub(r"error processing query: (ns=.*? )?planner returned error", "planner returned error", shown, flags=re.DOTALL)
    shown = re.sub(r"Index build failed: \S+ :: caused by :: ", "", shown)
    shown = re.sub(r"index build on empty collection failed: \S+ :: caused by :: ", "", shown)
    shown = re.sub(r"Index build failed: \S+: Collection \S+ \( \S+ \) :: caused by :: ", "", shown)
    shown = re.sub(r"Error in specification \{.*\} :: caused by :: Index type 'text' does not", "Index type 'text' does not", shown)
    return re.sub(r'version: \\?"[\d.]+\\?"|ObjectId\(.*?\)', "", shown)


def same(servers, commands, show=text):
    subject, oracle = servers
    for command in commands:
        actual, expected = (show(server.run(DATABASE, command)) for server in (subject, oracle))
        assert actual == expected, f"{str(command)[:300]}\nMeridian {actual}\nmongod   {expected}"


def index(key=None, name="t", collection="c", **options):
    return {"createIndexes": collection, "indexes": [{"key": key or {"a": "text"}, "name": name, **options}]}


def insert(*documents, collection="c", **options):
    return {"insert": collection, "documents": list(documents), **options}


def search(words, **options):
    return {"$text": {"$search": words, **options}}


def find(filter=None, collection="c", **options):
    return {"find": collection, "filter": search("tea") if filter is None else filter, **options}


def aggregate(*stages, collection="c", **options):
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}, **options}


def match(filter=None):
    return {"$match": search("tea") if filter is None else filter}


DROP = {"drop": "c"}
LIST = {"listIndexes": "c"}
DRINKS = [
    index(),
    index({"k": 1}, "k"),
    insert({"_id": 1, "a": "tea tea milk", "k": 1}, {"_id": 2, "a": "tea", "k": 2}, {"_id": 3, "a": "milk", "k": 3}, {"_id": 4, "a": "Coffees, black", "k": 4}),
]


NAN, INFINITY = float("nan"), float("inf")
COMPOUND = SON([("x", 1), ("a", "text"), ("y", -1)])
STORED = SON([("_fts", "text"), ("_ftsx", 1)])

DEFINITIONS = {
    "keys": [dict(), dict(key={"b": "text", "a": "text"}), dict(key=COMPOUND), dict(key=SON([("x", -1), ("b", "text"), ("a", "text"), ("y", 1), ("z", -1)])),
             dict(key={"$**": "text"}), dict(key={"$**": "text", "a": "text"}), dict(key=SON([("x", 1), ("$**", "text"), ("y", 1)])), dict(key={"_id": "text"}),
             dict(key=SON([("x", "text"), ("x.y", "text")])), dict(key=SON([(f"k{i}", "text") for i in range(40)]))],
    "no_such_keys": [dict(key=SON(key)) for key in (
        [("a", "text"), ("x", 1), ("b", "text")], [("a", "text"), ("x", "hashed")], [("x", "2dsphere"), ("a", "text")], [("x", 2), ("b", "text")],
        [("x", 0.5), ("b", "text")], [("", "text")], [("$a", "text")], [("a.$id", "text")], [("a..b", "text")], [("a.$**", "text")], [("a", "TEXT")],
        [*((f"k{i}", 1) for i in range(31)), ("a", "text")])],
    "keys_of_other_numbers": [dict(key=SON([("x", one), ("b", "text")])) for one in (1.0, 1.5, -1.9, Int64(-1), Decimal128("1.4"))],
    "stored_keys": [dict(key=STORED), dict(key=STORED, weights={"a": 2}), dict(key=STORED, weights="$**"), dict(key=STORED, weights={}),
                    dict(key=SON([("a", 1), *STORED.items(), ("b", 1)]), weights={"a": 2}), dict(key=SON([*STORED.items(), ("b", "text")])),
                    dict(key=SON([("_fts", "text"), ("_ftsx", -1)]), weights={"a": 2}), dict(key={"_fts": "text"}), dict(key={"_ftsx": "text"}),
                    dict(key=SON([("_ftsx", 1), ("a", "text")])), dict(key=SON([("a", "text"), ("_ftsx", 1)])), dict(key=SON([("_fts", "text"), ("a", 1)]))],
    "weights": [dict(weights=weights) for weights in (
        {"b": 5}, SON([("z", 2), ("a", 3.7), ("m", Int64(4))]), {"a": 99999}, {"a": 99999.5}, {"a": 1.5}, {}, "$**", {"$**": 5}, {"_fts": 2}, {"a.0": 1}, {"a b": 1},
        {"a": Decimal128("6.5")}, {"a": Decimal128("7.5")})],
    "no_such_weights": [dict(weights=weights) for weights in (
        {"a": 0}, {"a": -5.7}, {"a": 0.5}, {"a": 100000}, {"a": Int64(2**40)}, {"a": NAN}, {"a": INFINITY}, {"a": "x"}, {"a": True}, {"a": None}, "a", 5, None, [1],
        {"": 5}, {"a.": 5}, {".a": 5}, {"a..b": 5}, {"$a": 5}, {"a.$b": 5}, {"x.$**": 5}, SON([("a", 0), ("", 1)]), SON([("b", 0), ("a", "x")]))],
    "languages": [dict(default_language=language) for language in (
        *"danish dutch english finnish french german hungarian italian norwegian portuguese romanian russian spanish swedish turkish none".split(),
        *"da nl en fi fr de hu it nb pt ro ru es sv tr".split(), "FR", "None", "", "klingon", "no", "eng", "porter", 5, None)],
    "overrides": [dict(language_override=field) for field in ("lang", "a", "", "a.b", "$x", ".", 5, None)],
    "versions": [dict(textIndexVersion=version) for version in (3, 3.0, 3.9, Int64(3), Decimal128("3.4"), 0, 4, -1, "3", None, True, NAN, Int64(2**40))],
    "other_options": [dict(unique=True), dict(sparse=True), dict(background=True), dict(hidden=True), dict(expireAfterSeconds=5), dict(partialFilterExpression={"b": 1}),
                      dict(collation={"locale": "fr"}), dict(collation={"locale": "simple"}), dict(v=1), dict(bits=5), dict(wildcardProjection={"a": 1}),
                      dict(key=COMPOUND, unique=True), dict(key=COMPOUND, expireAfterSeconds=5), dict(name="_id_"), dict(name="")],
    "of_other_indexes": [dict(key={"a": 1}, **options) for options in (dict(weights={"a": 1}), dict(default_language="klingon"), dict(language_override="x"), dict(textIndexVersion=3))],
    "which_error_is_first": [dict(default_language="xx", weights={"b": 0}), dict(default_language="x", language_override=""), dict(default_language="x", textIndexVersion=9),
                             dict(language_override="", textIndexVersion=0), dict(weights={"a": 0}, name=""), dict(weights={"a": 0}, sparse=True, partialFilterExpression={"b": 1}),
                             dict(weights={"a": 0}, collation={"locale": "fr"})],
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions(servers, name):
    for definition in DEFINITIONS[name]:
        same(servers, [{"create": "c"}, index(**definition), LIST, DROP])


CONFLICTS = {
    "again": [index(), index(), index({"a": "text"}, "u"), LIST],
    "other_fields": [index(), index({"b": "text"}, "u"), index({"b": "text"})],
    "other_options": [index(), index(weights={"a": 2}), index(default_language="en"), index(default_language="english", weights={"a": 1})],
    "second": [index(), index(COMPOUND, "u")],
    "second_of_one_command": [{"createIndexes": "c", "indexes": [{"key": {"b": "text"}, "name": "x"}, {"key": COMPOUND, "name": "y"}]}, {"create": "c"}, LIST],
    "drop": [index(COMPOUND), {"dropIndexes": "c", "index": {"x": 1, "a": "text"}}, {"dropIndexes": "c", "index": SON([("x", 1), *STORED.items(), ("y", -1)])}, LIST],
    "hide": [*DRINKS, {"collMod": "c", "index": {"keyPattern": {"a": "text"}, "hidden": True}}, {"collMod": "c", "index": {"name": "t", "hidden": True}}, find(),
             {"collMod": "c", "index": {"name": "t", "hidden": False}}, find()],
    "collection_with_collation": [{"create": "c", "collation": {"locale": "fr"}}, index(), index(collation={"locale": "simple"}), LIST],
    "time_series": [{"create": "c", "timeseries": {"timeField": "t"}}, index()],
    "capped": [{"create": "c", "capped": True, "size": 4096}, index(), insert({"_id": 1, "a": "tea"}), find()],
    "unique": [index(unique=True), insert({"_id": 1, "a": "tea"}), insert({"_id": 2, "a": "tea milk"}), insert({"_id": 3, "a": "tea"}), insert({"_id": 4, "a": 5}), insert({"_id": 5, "a": 6})],
    "partial": [index(partialFilterExpression={"k": {"$gt": 1}}), insert({"_id": 1, "a": "tea", "k": 1}, {"_id": 2, "a": "tea", "k": 2}), find(),
                find({**search("tea"), "k": {"$gt": 1}}), find({**search("tea"), "k": 2})],
    "build_of_a_bad_language": [insert({"_id": 1, "a": "x", "language": "zz"}), index(), insert({"_id": 2}), {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, index()],
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_collections(servers, name):
    same(servers, CONFLICTS[name])


DOCUMENTS = {
    "languages": [index(), insert({"_id": 1, "a": "x y", "language": 5}), insert({"_id": 2, "a": "x y", "language": "zz"}), insert({"_id": 3, "language": ""}), insert({"_id": 4, "language": None}),
                  insert({"_id": 5, "b": {"language": 3}}), insert({"_id": 6, "a": [{"language": "zz"}]}), insert({"_id": 7, "a": "les maisons", "language": "fr"}),
                  find(search("maison", **{"$language": "fr"})), find(search("les")), {"update": "c", "updates": [{"q": {"_id": 7}, "u": {"$set": {"language": 1}}}]},
                  {"update": "c", "updates": [{"q": {"_id": 7}, "u": {"$set": {"language": "none"}}}]}, find(search("les", **{"$language": "none"}))],
    "languages_within": [index({"$**": "text"}), insert({"_id": 1, "z": {"language": "xx"}}), insert({"_id": 2, "z": {"language": "german", "b": "die Häuser"}, "c": "the houses"}),
                         find(search("haus", **{"$language": "de"})), find(search("house")), find(search("german"))],
    "another_override": [index(language_override="lang"), insert({"_id": 1, "a": "les maisons", "lang": "fr", "language": 5}), find(search("maison", **{"$language": "fr"}))],
    "arrays": [index({"a": "text", "b.c": "text"}), insert({"_id": 1, "a": ["tea milk", ["coffee"], {"a": "water"}], "b": [{"c": "rum"}, {"c": ["gin", ["ale"]]}]}),
               *(find(search(word)) for word in "tea milk coffee water rum gin ale".split())],
    "arrays_beside_a_path_that_sorts_between": [index({"a-b": "text", "a.b": "text"}), insert({"_id": 1, "a": [{"b": "tea"}]}, {"_id": 2, "a": {"b": "tea"}}), find()],
    "fields_before_and_after": [index(COMPOUND), *(insert({"_id": number, "a": "tea", **rest}) for number, rest in enumerate(
        [{"x": [1]}, {"x": 1, "y": [2]}, {"y": []}, {"x": {"q": 1}}, {"x": 1, "y": 2}, {}, {"x": None}])), insert({"_id": 20, "x": [1]}),
        find({**search("tea"), "x": 1}), find({**search("tea"), "x": None}), find({**search("tea"), "x": {"q": 1}}), find({})],
    "zero_byte": [index(), insert({"_id": 1, "a": "tea\0milk"}), find(), find(search("milk")), find(search("x\0tea"))],
    "changes": [*DRINKS, {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"a": "tea time"}}}]}, find(), {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, find(),
                {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$unset": {"a": 1}}}]}, find(), find(search("milk"))],
    "long_words": [index(unique=True, default_language="none"), *(step for n in (223, 224, 225, 300) for step in (insert({"_id": n, "a": "y" * n}), insert({"_id": -n, "a": "y" * n}))),
                   find(search("y" * 300), projection={"_id": 1})],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(servers, name):
    same(servers, DOCUMENTS[name])


OPERANDS = [
    5, None, [], "tea", {}, {"$search": 5}, {"$search": None}, {"$language": "en"}, {"$foo": 1}, {"$search": "x", "$foo": 1}, {"$search": "tea", "search": 1},
    {"$search": "x", "$language": 5}, {"$search": "x", "$language": "zz"}, {"$search": "tea", "$language": ""}, {"$search": "tea", "$language": "EN"},
    {"$search": "x", "$caseSensitive": 1}, {"$search": "x", "$caseSensitive": None}, {"$search": "x", "$diacriticSensitive": "a"},
    {"$search": "TEA", "$caseSensitive": True}, {"$search": "tea", "$caseSensitive": True}, {"$search": "téa", "$diacriticSensitive": True},
]
SEARCHES = [
    "", "tea", "-tea", "tea -milk", "milk tea", "coffee", "Coffee", '"tea milk"', '"tea"', 'tea "milk"', '-"tea milk" tea', '"tea', "the", "-", '""', 'tea ""', "tea - milk",
    "tea-milk", "-tea-milk coffee", "tea\t-milk", '"Tea Milk"', "coffees black", '"s, b" black', "tea tea TEA",
]


def test_operands(servers):
    same(servers, [*DRINKS, *(find({"$text": operand}) for operand in OPERANDS)])


@pytest.mark.parametrize("options", [{}, {"$caseSensitive": True}, {"$diacriticSensitive": True}, {"$language": "none"}], ids=str)
def test_searches(servers, options):
    filters = [search(words, **options) for words in SEARCHES]
    same(servers, [*DRINKS, *(find(filter) for filter in filters), *(find(filter, projection={"s": SCORE}) for filter in filters)])


PLACES = [
    {"a": search("tea")}, {"a": {"$not": {"$search": "tea"}}}, {"a": {"$elemMatch": search("tea")}}, {"$and": [search("tea"), search("tea")]}, {"$and": [search("tea"), {"k": 2}]},
    {"$or": [search("tea"), {"k": 3}]}, {"$or": [search("tea"), {"a": 3}]}, {"$or": [search("tea"), search("milk")]}, {"$or": [{"k": 3}, {"$and": [search("tea"), {"k": 2}]}]},
    {"$nor": [search("tea")]}, {"$nor": [{"$or": [search("tea")]}]}, {"$expr": {"$text": 1}}, {**search("tea"), "loc": {"$near": [0, 0]}}, {**search("tea"), "a": {"$regex": "^t"}},
    {**search("tea"), "k": {"$gt": 1}}, {"k": {"$in": [1, 3]}, **search("tea milk")},
]
TWO = search("tea milk")
FINDS = {
    "places": [find(filter) for filter in PLACES],
    "hints": [find(hint=hint) for hint in ("t", "k", {"k": 1}, STORED, {"$natural": 1}, "_id_", "none")] + [find({"$or": [search("tea"), {"k": 3}]}, hint="t")],
    "hints_without_text": [find({}, hint="t"), find({"a": "tea"}, hint="t")],
    "options": [find(sort={"$natural": 1}), find(collation={"locale": "fr"}), find(tailable=True), find(returnKey=True), find(limit=1), find(sort={"k": -1}, limit=1), find(min={"k": 1}, max={"k": 5}, hint={"k": 1})],
    "no_index": [find(collection="n"), insert({"_id": 1, "a": "tea"}, collection="n"), find(collection="n")],
    "meta_projections": [find(TWO, projection=projection) for projection in (
        {"s": SCORE}, {"s": SCORE, "a": 1, "_id": 0}, {"s.t": SCORE}, {"a": SCORE}, {"s": {"$meta": "foo"}}, {"s": {"$add": [SCORE, 1]}}, {"s": {"$meta": "searchScore"}})],
    "meta_sorts": [find(TWO, sort=sort, limit=1, projection={"_id": 1}) for sort in (
        {"s": SCORE}, SON([("s", SCORE), ("_id", -1)]), SON([("k", -1), ("s", SCORE)]), {"a.b": SCORE}, {"s": {"$meta": "foo"}}, {"s": {"$meta": 5}}, {"s": {"$meta": "textScore", "x": 1}},
        {"s": {"$meta": "searchScore"}})],
    "meta_without_text": [find({}, projection={"s": SCORE}), find({}, sort={"s": SCORE}), find({"$expr": {"$gt": [SCORE, 1]}}), find({**search("tea"), "$expr": {"$gt": [SCORE, 1]}})],
    "meta_under_or": [find({"$or": [search("tea"), {"k": 3}]}, projection={"s": SCORE}), find({"$or": [search("tea"), {"k": 3}]}, sort={"s": SCORE}, limit=1)],
    "commands": [{"count": "c", "query": search("tea")}, {"distinct": "c", "key": "a", "query": search("tea")}, {"count": "n", "query": search("tea")}, {"distinct": "n", "key": "a", "query": search("tea")},
                 {"update": "c", "updates": [{"q": search("tea"), "u": {"$set": {"z": 1}}, "multi": True}]}, {"update": "n", "updates": [{"q": search("tea"), "u": {"$set": {"z": 1}}}]},
                 {"findAndModify": "c", "query": search("tea"), "sort": {"s": SCORE}, "update": {"$set": {"z": 2}}, "fields": {"x": SCORE}, "new": True},
                 {"findAndModify": "c", "query": {"k": 1}, "sort": {"s": SCORE}, "update": {"$set": {"z": 2}}}, {"findAndModify": "n", "query": search("tea"), "remove": True},
                 {"delete": "n", "deletes": [{"q": search("tea"), "limit": 0}]}, {"delete": "c", "deletes": [{"q": search("tea"), "limit": 0}]}, find({})],
    "not_allowed": [{"create": "v", "validator": search("tea")}, {"collMod": "c", "validator": search("tea")}, index({"q": 1}, "q", partialFilterExpression=search("tea"))],
    "views": [{"create": "v", "viewOn": "c", "pipeline": [match()]}, find({}, "v"), {"create": "w", "viewOn": "c", "pipeline": [match({"k": 1})]}, find(collection="w"),
              find({}, "w", projection={"s": SCORE})],
}


@pytest.mark.parametrize("name", FINDS)
def test_finds(servers, name):
    same(servers, [*DRINKS, *FINDS[name]])


MATCH = match(TWO)
PIPELINES = {
    "places": [[match()], [match(), match()], [match({"k": 1}), match()], [{"$limit": 5}, match()], [{"$sort": {"k": 1}}, match()], [{"$redact": "$$KEEP"}, match()],
               [match({"$or": [search("tea"), {"k": 3}]})], [match({"$nor": [search("tea")]})], [match({"$and": [search("tea")]})], [match(), {"$count": "n"}]],
    "scores": [[MATCH, {"$project": {"s": SCORE}}], [MATCH, {"$addFields": {"s": SCORE}}, {"$sort": {"s": -1, "_id": 1}}], [MATCH, {"$sort": SON([("s", SCORE), ("k", 1)])}, {"$limit": 1}, {"$project": {"s": SCORE}}],
               [MATCH, {"$group": {"_id": None, "m": {"$max": SCORE}}}], [MATCH, {"$group": {"_id": SCORE}}, {"$project": {"s": SCORE}}], [MATCH, {"$unwind": "$a"}, {"$project": {"s": SCORE}}],
               [MATCH, match({"k": 1}), {"$project": {"s": SCORE}}], [MATCH, {"$replaceRoot": {"newRoot": {"s": SCORE}}}], [MATCH, {"$bucketAuto": {"groupBy": SCORE, "buckets": 1}}]],
    "no_scores": [[{"$project": {"s": SCORE}}], [{"$sort": {"s": SCORE}}], [match(), match({"$expr": {"$gt": [SCORE, 1.2]}})]],
    "within": [[{"$lookup": {"from": "c", "pipeline": [match(), {"$project": {"s": SCORE}}, {"$sort": {"_id": 1}}], "as": "q"}}, {"$limit": 1}], [{"$unionWith": {"coll": "c", "pipeline": [match()]}}],
               [{"$facet": {"x": [match()]}}], [match(search("coffee")), {"$facet": {"x": [{"$project": {"s": SCORE}}]}}],
               [{"$graphLookup": {"from": "c", "startWith": 1, "connectFromField": "k", "connectToField": "k", "as": "g", "restrictSearchWithMatch": search("tea")}}]],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(servers, name):
    same(servers, [*DRINKS, *(aggregate(*stages) for stages in PIPELINES[name]), aggregate(match(), hint="t"), aggregate(match(), collection="n")])


PREFIXES = [
    {}, {"x": 1}, {"x": {"$eq": 1}}, {"x": {"$in": [1]}}, {"x": {"$in": [1, 2]}}, {"x": {"$gt": 0}}, {"x": None}, {"x": [1]}, {"x": {"$exists": True}}, {"x": {"$not": {"$ne": 1}}}, {"x": {"$regex": "^a"}},
    {"x": 1, "y": 5}, {"x": 1, "y": {"$gt": 5}}, {"x": 1, "$or": [{"y": 5}, {"y": 7}]}, {"$and": [{"x": 1}, {"x": 2}]}, {"$and": [{"x": 2}, {"x": 1}]}, {"x": "s"},
]


def test_compound(servers):
    documents = insert({"_id": 1, "a": "tea tea milk", "x": 1, "y": 5}, {"_id": 2, "a": "milk"}, {"_id": 3, "a": "tea", "x": None}, {"_id": 4, "x": 1}, {"_id": 5, "a": "tea milk", "x": 1, "y": 7},
                       {"_id": 6, "a": "tea", "x": 2}, {"_id": 7, "a": "tea", "x": "s"})
    filters = [{**search("tea"), **rest} for rest in PREFIXES]
    same(servers, [index(COMPOUND), documents, *(find(filter) for filter in filters), *(find(filter, projection={"s": SCORE}) for filter in filters),
                   find({**search("tea"), "x": "s"}, collation={"locale": "fr"}), find({**search("tea"), "x": 1}, collation={"locale": "fr"}), find({"$or": [{**search("tea"), "x": 1}, {"_id": 2}]})])


def plan(reply):
    """The query planner's part: what was parsed and which plan won."""
    planner = dict(dict(reply).get("queryPlanner", reply))
    return canonical.text([planner.get("parsedQuery"), above_terms(planner.get("winningPlan")), dict(reply).get("errmsg", "")])


def above_terms(stage):
    """The stages to the one that searches: mongod scans an index once for each term, Meridian once for all."""
    if not isinstance(stage, canonical.Doc):
        return stage
    is_search = stage.get("stage") == '"TEXT_MATCH"'
    # Entries tell the scores, so that none are sorted.
    if "textScore" in canonical.text(stage.get("sortPattern", "")):
        return above_terms(stage.get("inputStage"))
    # How a score is sorted by is told in other words.
    left = {"inputStage", "bestFirst"} if is_search else {"sortPattern", "memLimit", "type"}
    return canonical.Doc((field, above_terms(value)) for field, value in stage if field not in left)


EXPLAINED = [
    find(), find(TWO), find(TWO, projection={"s": SCORE}), find(sort={"s": SCORE}, projection={"s": SCORE}), find({**TWO, "k": 1}), find({**TWO, "k": 1}, projection={"s": SCORE}),
    find(TWO, limit=1, skip=1), find(TWO, sort={"k": 1}), find(search('tea "x y" -q -"z z"', **{"$language": "fr", "$caseSensitive": True})),
    find(TWO, returnKey=True), find(TWO, projection={"k": 1, "_id": 0}),
]


def test_explain(servers):
    same(servers, [*DRINKS], text)
    same(servers, [{"explain": command, "verbosity": "queryPlanner"} for command in EXPLAINED], plan)
    same(servers, [DROP, index(COMPOUND)], text)
    compound = [find({**TWO, "x": 1}), find({**TWO, "x": 1, "y": {"$gt": 5}}), find({**TWO, "x": 1, "y": {"$gt": 5}, "q": 1}, projection={"s": SCORE})]
    same(servers, [{"explain": command, "verbosity": "queryPlanner"} for command in compound], plan)


WORDS = "coffee Coffee COFFEE shops tea black house running Running the and for café Café naïve résumé x it's don't l'eau a.b Über straße İstanbul ISTANBUL ılık maisons chiens häuser corriendo бегущие 1984 σας 日本".split()
LANGUAGES = "english french german turkish none es ru hu".split()


def random_value(chance, depth=0):
    kind = chance.random()
    if depth > 3 or kind < 0.6:
        return chance.choice([" ", ", ", "-"]).join(chance.choice(WORDS) for _ in range(chance.choice([0, 1, 1, 2, 5, 20])))
    if kind < 0.65:
        return chance.choice([1, None, 2.5])
    if kind < 0.8:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return random_document(chance, depth + 1)


def random_document(chance, depth=0):
    document = {field: random_value(chance, depth + 1) for field in chance.sample(["a", "b", "c", "a-b", "0"], chance.randrange(5))}
    if chance.random() < 0.3:
        document["language"] = chance.choice(LANGUAGES)
    return document


def random_search(chance):
    pieces = []
    for _ in range(chance.randint(1, 4)):
        piece = chance.choice(WORDS)
        if chance.random() < 0.3:
            piece = f'"{piece}{chance.choice(["", " " + chance.choice(WORDS)])}"'
        pieces.append(chance.choice(["", "", "", "-"]) + piece)
    return search(" ".join(pieces), **{"$language": chance.choice(LANGUAGES), "$caseSensitive": chance.random() < 0.3, "$diacriticSensitive": chance.random() < 0.3})


@pytest.mark.parametrize("number", range(8))
def test_random(servers, number):
    chance = random.Random(f"{SEED} {number}")
    fields = chance.sample(["a", "b", "a.b", "a.c", "b.c", "a-b", "$**"], chance.randint(1, 3))
    definition = {"weights": {chance.choice(fields): chance.randint(1, 20)}, "default_language": chance.choice(LANGUAGES)}
    commands = [index({field: "text" for field in fields}, **definition), LIST]
    commands += [insert(*({"_id": batch * 20 + i, **random_document(chance)} for i in range(20))) for batch in range(4)]
    filters = [random_search(chance) for _ in range(60)]
    commands += [step for filter in filters for step in (find(filter, batchSize=100), find(filter, projection={"s": SCORE}, batchSize=100))]
    same(servers, commands)


def test_texts_of_diacritics_alone(servers):
    """They are an empty term, and without them nothing that a phrase could be in."""
    documents = [{"_id": 1, "c": "\u0301"}, {"_id": 2, "c": "\u0301", "d": ""}, {"_id": 3, "c": "k"}, {"_id": 4, "c": "k", "d": ""}, {"_id": 5, "c": "^"}, {"_id": 6, "c": "k \u0301"}]
    searches = ['"\u0301"', '\u0301 ""', "\u0301", 'k ""', 'k "\u0301"', '\u0301 -""', 'k -"\u0301"', '\u0301 -"\u0301"', '"^"', '^ k "`"', '"k"']
    options = [{"$caseSensitive": case, "$diacriticSensitive": diacritics} for case in (False, True) for diacritics in (False, True)]
    same(servers, [index({"$**": "text"}, default_language="none"), insert(*documents), *(find(search(words, **each)) for words in searches for each in options)])


def test_own_answers(servers):
    """Where mongod refuses, or plans worse than it could."""
    own, _ = servers
    same(servers, [index(SON([("k", 1), ("a", "text")])), insert({"_id": 1, "a": "tea", "k": 1}, {"_id": 2, "a": "milk", "k": 1})])
    union = [match({**search("tea"), "k": 1}), {"$unionWith": "c"}, {"$project": {"s": SCORE}}]
    answers = [
        # Documents of the other collection have no score.
        (aggregate(*union), "['{_id: int32(1), s: double(1.1)}', '{_id: int32(1)}', '{_id: int32(2)}']"),
        # Values that an expression asks for are values, and none at all find nothing.
        (find({**search("tea"), "$expr": {"$eq": ["$k", 1]}}, projection={"_id": 1}), "['{_id: int32(1)}']"),
        (find({**search("tea"), "k": {"$in": []}}), "[]"),
    ]
    for command, expected in answers:
        assert f"cursor: {expected}" in text(own.run(DATABASE, command)), command
