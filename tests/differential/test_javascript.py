"""JavaScript on the server beside mongod's: values, functions, `$where`, `$function`, `$accumulator`, mapReduce.

A table names groups of commands; every command of a group is asked, and the failure names all that differ. What
mongod does by mistake is not asked: globals that outlive a query, slashes behind returned regular expressions,
`emit` in reduce (it crashes), calls that maxTimeMS does not end.
"""

import os
import re
import struct
import threading
import time

import pymongo
import pytest
from bson import SON, Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from datetime import datetime
from harness import canonical, cases, raw, servers
from harness.canonical import Doc
from harness.cases import Case, Mismatch

DATABASE = "javascript"


# -- messages

# The engine's own words: SpiderMonkey says "TypeError: this.a is undefined" where another says it differently.
ENGINE_ERROR = re.compile(r"\b((?:Type|Reference|Syntax|Range|Internal|URI|Eval)Error)\b.*", re.DOTALL)
# Where it happened: lines `name@file:line:column` behind the message.
STACK = re.compile(r" :\n.*", re.DOTALL)


def without_engine(value):
    """The reply with messages that end where the engine's own words or its stack begin."""
    if isinstance(value, Doc):
        return Doc((key, shortened(item) if key in ("errmsg", "errorMessage") else without_engine(item)) for key, item in value)
    if isinstance(value, list):
        return [without_engine(item) for item in value]
    return value


def plain(value):
    """The reply, in which documents are called objects: mongod's are "[object BSON]"."""
    if isinstance(value, Doc):
        return Doc((key, plain(item)) for key, item in without_engine(value))
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.replace("[object BSON]", "[object Object]") if isinstance(value, str) else value


def shortened(message):
    return ENGINE_ERROR.sub(r"\1", STACK.sub("", message)) if isinstance(message, str) else message


# -- asking


@pytest.fixture(scope="module")
def _documents(_subject, _oracle):
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})
        for name, documents in COLLECTIONS.items():
            reply = server.run(DATABASE, {"insert": name, "documents": documents})
            assert reply.get("n") == f"int32({len(documents)})", canonical.text(reply)
    yield
    for server in (_subject, _oracle):
        server.run(DATABASE, {"dropDatabase": 1})


@pytest.fixture
def same(pair, _documents):
    return Same(pair)


class Same:
    """Asks commands that change nothing, all of them; names every one that is answered differently."""

    def __init__(self, pair):
        self.pair = pair

    def __call__(self, commands, rewrite=None):
        case = Case("read", [], database=DATABASE, rewrite=rewrite or without_engine, sets=("results",))
        failures = []
        for command in commands:
            try:
                cases.compare_command(self.pair.subject, self.pair.oracle, case, command)
            except Mismatch as mismatch:
                failures.append((command, mismatch))
        if failures:
            others = "\n".join(f"also: {cases.show(command)[:300]}" for command, _ in failures[1:])
            raise Mismatch(f"{failures[0][1]}\n{len(failures)} of {len(commands)} differ\n{others}")

    def parts(self, commands, paths):
        """Of the replies only what the dotted paths name."""
        self(commands, lambda reply: Doc((path, part(without_engine(reply), path)) for path in paths))


def part(reply, path):
    for name in path.split("."):
        reply = reply.get(name, "missing") if isinstance(reply, Doc) else "missing"
    return reply


def run(pair, name, commands, docs=(), **options):
    """A case with a collection of its own, for commands that write."""
    pair.run_case(Case(name, commands, list(docs), database=DATABASE, rewrite=without_engine, sets=("results",), **options))


def find(condition, collection="people", **options):
    return {"find": collection, "filter": condition, "sort": {"_id": 1}, **options}


def where(code, collection="people", **options):
    return find({"$where": code}, collection, projection={"_id": 1}, **options)


def aggregate(*pipeline, collection="people", **options):
    return {"aggregate": collection, "pipeline": list(pipeline), "cursor": {}, **options}


def function(body, *arguments, **changes):
    return {"$function": {"body": body, "args": list(arguments), "lang": "js", **changes}}


def compute(expression, collection="one", **options):
    return aggregate({"$sort": {"_id": 1}}, {"$project": {"r": expression}}, collection=collection, **options)


def returns(expression, *arguments, collection="one"):
    """The value of a JavaScript expression."""
    return compute(function("function(){return %s}" % expression, *arguments), collection)


def together(bodies, size=5, collection="one"):
    """Functions that fail nowhere, several to a command: each command costs mongod a new scope."""
    for start in range(0, len(bodies), size):
        fields = {f"r{start + number}": function(body) for number, body in enumerate(bodies[start : start + size])}
        yield aggregate({"$project": fields}, collection=collection)


def runs(statements, *arguments, collection="one"):
    return compute(function("function(x){%s}" % statements, *arguments), collection)


def document(*elements):
    """A document of raw elements (type, name, content), also of those that no driver writes."""
    body = b"".join(bytes([kind]) + name.encode() + b"\0" + content for kind, name, content in elements)
    return RawBSONDocument(struct.pack("<i", len(body) + 5) + body + b"\0")


def int32(name, value):
    return 0x10, name, struct.pack("<i", value)


# fmt: off
VALUES = {
    "int32": 5, "int64": Int64(5), "int64_negative": Int64(-3), "int64_large": Int64(2**53 + 1), "double": 1.5, "double_whole": 5.0, "nan": float("nan"), "infinity": float("inf"), "minus_zero": -0.0,
    "decimal": Decimal128("1.50"), "object_id": ObjectId("0123456789abcdef01234567"), "timestamp": Timestamp(7, 9), "binary": b"abc", "uuid": Binary(bytes(range(16)), 4),
    "uuid_legacy": Binary(bytes(range(16)), 3), "binary_user": Binary(b"xy", 128), "binary_empty": b"", "regex": Regex("^a"), "regex_options": Regex("a/b", "im"), "code": Code("function(){return 1}"),
    "symbol": raw.Symbol("sy"), "pointer": raw.Pointer("db.c"), "null": None, "true": True, "false": False, "document": SON([("b", 1), ("a", Int64(2)), ("d", 3), ("c", 4)]), "array": [1, Int64(2), "x", [None]],
    "empty": {}, "empty_array": [], "reference": SON([("$ref", "c"), ("$id", 5)]), "reference_database": SON([("$ref", "c"), ("$id", 5), ("$db", "d")]), "string": "aé€😀\0b", "string_empty": "",
    "min_key": MinKey(), "max_key": MaxKey(),
}
NESTED = SON([("_id", 1), ("a", 1), ("b", SON([("c", 5), ("l", Int64(7))])), ("arr", [1, 2, {"q": 1}]), ("d", 1)])
COLLECTIONS = {
    "one": [{"_id": 1, "a": 1}],
    "values": [{"_id": name, "v": value} for name, value in VALUES.items()],
    "dates": [{"_id": 1, "v": datetime(2020, 1, 2, 3, 4, 5, 678000)}, {"_id": 2, "v": datetime(1970, 1, 1)}, {"_id": 3, "v": datetime(1, 1, 1)}],
    "nested": [NESTED],
    "odd": [
        document(int32("_id", 1), int32("a", 1), int32("b", 3), int32("a", 2)),  # a field twice
        document(int32("_id", 2), (0x06, "u", b""), (0x04, "a", document((0x06, "0", b""), int32("1", 2)).raw)),  # undefined
        document(int32("_id", 3), (0x04, "a", document(int32("5", 1), int32("x", 2)).raw)),  # an array's names
        {"_id": 4, "a": Code("function(){return x}", {"x": 1})},
    ],
    "flagged": [{"_id": 1, "r": Regex("a", "x")}],
    "people": [{"_id": 1, "a": 1, "k": "x", "t": ["p", "q"]}, {"_id": 2, "a": 5, "k": "y", "t": ["q"], "s": "x"}, {"_id": 3, "a": 7, "k": "x", "b": {"c": Int64(7)}}, {"_id": 4, "a": Int64(9), "k": "y"}, {"_id": 5, "k": "z"}],
    "many": [{"_id": number, "g": number % 3} for number in range(300)],
}
# fmt: on


# -- values

# How a value of BSON looks: asked of every value, with the errors of the expression in place of its result.
LOOKS = {
    "kind": ["typeof x", "x.constructor.name", "Array.isArray(x)", "x instanceof Object"],
    "text": ["'' + x", "String(x)", "JSON.stringify(x)", "tojson(x)", "tojsononeline(x)"],
    "fields": ["Object.keys(x).join()", "Object.keys({v: x}).join()", "isNumber(x)", "isString(x)", "isObject(x)"],
    "arithmetic": ["x + 1", "x == 5", "x === 5", "x > 1", "x == x.valueOf()", "typeof x.valueOf()", "!x"],
    "back": ["x", "{v: x}", "[x]", "[[x]]", "{a: {b: x}}"],
}


@pytest.mark.parametrize("name", LOOKS)
def test_values(same, name):
    attempt = "try {return %s} catch (e) {return 'throws ' + e.name}"
    # Of an object literal's braces nobody shall think that they are a block.
    commands = [compute(function("function(x){%s}" % (attempt % expression), "$v"), "values") for expression in LOOKS[name]]
    if name == "back":
        # At the top mongod adds a slash to patterns, and makes documents of pointers.
        commands[0]["pipeline"].insert(0, {"$match": {"_id": {"$nin": ["regex", "regex_options", "pointer"]}}})
    same(commands, plain)


# fmt: off
MEMBERS = {
    "int64": [returns(f"NumberLong({value}).{member}") for value in ("5", "'9007199254740993'", "-3") for member in ("toNumber()", "toString()", "valueOf()", "floatApprox", "top", "bottom", "exactValueString", "tojson()", "compare(NumberLong(4))", "compare(NumberLong('5'))", "compare(5)")],
    "int64_arithmetic": [returns(f"NumberLong(5) {rest}") for rest in ("+ NumberLong(6)", "+ 'x'", "> 4", "== 5", "=== 5", "== NumberLong(5)", "* 2", "instanceof NumberLong")] + [returns(text) for text in ("-NumberLong(5)", "Math.max(NumberLong(5), 3)", "`${NumberLong(5)}`", "Number(NumberLong(5))", "isNaN(NumberLong(5))", "new NumberLong(5)", "[NumberLong(3), NumberLong(20)].sort()")],
    "int32": [returns(f"NumberInt(5){rest}") for rest in ("", " + 1", " == 5", " === 5", ".toString()", ".toNumber()", ".valueOf()", ".tojson()")] + [returns("typeof NumberInt(5)"), returns("JSON.stringify({a: NumberInt(5)})")],
    "decimal": [returns(f"NumberDecimal('1.10'){rest}") for rest in ("", ".toString()", ".tojson()", " + 1", " == NumberDecimal('1.10')")] + [returns("JSON.stringify(NumberDecimal('1'))"), returns("typeof NumberDecimal('1')")],
    "object_id": [returns(f"ObjectId('0123456789abcdef01234567'){rest}") for rest in ("", ".str", ".toString()", ".valueOf()", ".getTimestamp()", ".isObjectId", ".equals(ObjectId('0123456789ABCDEF01234567'))", " == ObjectId('0123456789abcdef01234567')", ".tojson()")] + [returns("ObjectId().str.length"), returns("ObjectId.fromDate(new Date(1e12))"), returns("ObjectId() instanceof ObjectId")],
    "timestamp": [returns(f"Timestamp(1, 2){rest}") for rest in ("", ".t", ".i", ".getTime()", ".getInc()", ".toString()", ".tojson()", " < Timestamp(1, 3)")] + [returns("Timestamp()"), returns("Timestamp(1.7, 2)"), returns("Timestamp(4294967295, 4294967295)")],
    "binary": [returns(f"{value}{rest}") for value in ("BinData(0, 'YWJj')", "BinData(0, 'YR==')", "BinData(0, 'YWJ')", "BinData(0, 'YW=j')", "BinData(0, '====')", "BinData(0, 'YW\\u00e4j')", "UUID('01234567-89ab-cdef-0123-456789abcdef')", "HexData(5, '0123')") for rest in ("", ".hex()", ".base64()", ".length()", ".subtype()", ".len", ".type", ".toString()", ".tojson()")],
    "binary_of_any": [returns(text) for text in ("UUID().subtype()", "UUID().length()", "MD5('0123456789abcdef0123456789abcdef')", "HexData(4, '0123456789abcdef0123456789abcdef')", "BinData(3, 'YWJj')", "BinData(128, '')")],
    "reference": [returns(f"DBRef('c', 1, 'd'){rest}") for rest in ("", ".getRef()", ".getId()", ".getDb()", ".getCollection()", ".$ref", ".toString()", ".tojson()")] + [returns("DBRef('c', 1).getDb()"), returns("DBRef('c', null)"), returns("{v: DBRef('c', ObjectId('0123456789abcdef01234567'))}")],
    "code": [returns(text) for text in ("Code('x').code", "Code('x').scope", "Code('x', {a: 1}).scope", "tojson(Code('x', {a: 1}))", "{v: Code('return 1')}", "{v: Code('function(){return x}', {x: 1})}", "{v: new Code('1')}", "[Code('1')]")],
    "keys": [returns(text) for text in ("MinKey", "MaxKey", "MinKey()", "new MaxKey()", "MinKey === MinKey()", "typeof MinKey", "MinKey.toString()", "MaxKey().tojson()", "{v: [MinKey, MaxKey]}", "JSON.stringify([MinKey, MaxKey])")],
    "json": [returns("JSON.stringify([Timestamp(1, 2), ObjectId('0123456789abcdef01234567'), BinData(0, 'YQ=='), new Date(0), /a/g, DBRef('c', 1), undefined])")],
    "constructors": [returns(text) for text in ("NumberLong()", "NumberLong(true)", "NumberLong(null)", "NumberLong('-9223372036854775808')", "NumberLong(NumberLong(7))", "NumberInt()", "NumberInt(2147483648)", "NumberInt(1e20)", "NumberInt(NaN)", "NumberInt('12.7')", "NumberInt('abc')", "NumberInt(5.7)", "NumberInt(NumberLong(5))", "NumberInt(true)",
                                             "NumberDecimal()", "NumberDecimal(1.1)", "NumberDecimal(5)", "NumberDecimal(0.1)", "NumberDecimal(1e300)", "NumberDecimal(123456789012345678)", "NumberDecimal('1E6144')", "NumberDecimal('NaN')", "NumberDecimal(NumberLong(5))", "NumberDecimal(NumberDecimal('2'))")],
    "dates": [returns(text) for text in ("ISODate('2020-01-02')", "ISODate('2020-01-02T03:04')", "ISODate('2020-01-02T03:04:05+02:00')", "ISODate('2020-01-02T03:04:05.1234Z')", "ISODate('20200102T030405Z')", "ISODate('2020-13-02')", "ISODate('2020-02-30')", "ISODate('2020-01-02T24:00:00Z')", "ISODate('0000-01-01T00:00:00Z')", "ISODate('9999-12-31T23:59:59.999Z')", "typeof ISODate()",
                                      "new Date(2020, 0, 1)", "new Date('2020-01-02T03:04:05')", "new Date(0).getTimezoneOffset()", "Date.UTC(2020, 1, 1)", "tojson(new Date(1))", "new Date(0).toISOString()", "new Date(0).tojson()")],
    "dates_stored": [compute(function("function(x){return %s}" % text, "$v"), "dates") for text in ("x", "[x]", "x.getTime()", "typeof x", "x instanceof Date", "tojson(x)", "JSON.stringify(x)", "x.getFullYear()", "new Date(x.getTime() + 1)")],
    "date_text": [returns("typeof String(new Date(0))"), returns("typeof Date()")],
}
RETURNED = {
    "numbers": ["1", "-1", "2147483648", "1.5", "-0", "NaN", "Infinity", "-Infinity", "1e300", "9007199254740993", "NumberInt(5)", "NumberInt(-1)", "NumberLong(5)", "NumberLong('9223372036854775807')", "NumberDecimal('1.5')"],
    "scalars": ["true", "false", "null", "undefined", "'x'", "''", "'a\\u0000b'", "'\\ud800'", "'\\ud83d\\ude00'", "'a\\udc00b'", "'é€'", "new Date(5)", "new Date(5.7)", "new Date(NaN)", "new Date(8.64e15)", "new Date(-8.64e15)", "ObjectId('0123456789abcdef01234567')", "Timestamp(1, 2)", "BinData(0, 'YWJj')", "MinKey", "MaxKey"],
    "functions": ["function(){return 1}", "(x)=>x+1", "class A{}", "Math.max", "(function*(){yield 1})", "(async function(){})"],
    "objects": ["({})", "({b:1,a:2,10:3,2:4})", "({z:1,_id:2})", "({a:{z:1,_id:2}})", "({$a:1})", "({'a.b':1})", "({'':1})", "({'é':1})", "({'\\ud800':1})", "({a:undefined,b:null,c:[undefined,null]})", "({[Symbol('q')]:1,a:2})", "({get a(){return 5}})", "({toJSON(){return 5}})", "({toBSON(){return 5},a:1})", "({a:function(){},b:{c:x=>x}})", "Object.create(null)", "Object.create({inherited:1})",
                "Object.create({inherited:1},{own:{value:2,enumerable:true},hidden:{value:3}})", "new (class{constructor(){this.x=1} m(){return 2} get g(){return 3}})()", "new Proxy({a:1},{})", "new Proxy({a:1},{get(){return 7}})", "(function(){var a={x:1};return {p:a,q:a}})()"],
    "built_in_objects": ["new Number(5)", "new Boolean(true)", "new String('q')", "new Error('boo')", "new Set([1,2])", "new WeakMap()", "Promise.resolve(1)", "new Uint8Array([1,2])", "new Float64Array([1.5])", "new ArrayBuffer(3)", "Math", "JSON", "(function*(){yield 1})()", "(async function(){return 1})()", "(function(){return arguments})(1,2)", "Object(Symbol('x'))", "Object(10n)"],
    "arrays": ["[]", "[1,2]", "['a',['b',[1]]]", "[undefined]", "[[undefined,null]]", "new Array(3).fill(0)", "[1,2].map(x=>x*2)", "Array.from({length:2},(_,i)=>i)"],
    "deep": ["(function(){var o=%s;for(var i=0;i<%d;i++){o=%s};return o})()" % (first, depth, step) for first, step in (("{}", "{a:o}"), ("[]", "[o]")) for depth in (100, 146)],
}
NESTED_ONLY = ["/a/", "/a/gim", "/\\//", "new RegExp('')", "Code('x')", "DBPointer('db.c',ObjectId('0123456789abcdef01234567'))", "[1,,3]", "new Array(2)", "Object.assign([1,2],{x:3})"]
REFUSED = {
    "kinds": [returns(text) for text in ("10n", "Symbol('x')", "{a:10n}", "{a:Symbol('x')}", "[1,Symbol('x')]", "{a:{b:[10n]}}")],
    "names": [returns("{'a\\u0000b':1}"), returns("{v:{'\\u0000':1}}")],
    "cycles": [returns(f"(function(){{{text}}})()") for text in ("var o={};o.o=o;return o", "var o=[];o.push(o);return o", "var o={a:[]};o.a.push(o);return {v:o}")],
    "depth": [compute({"$type": function("function(){var o=%s;for(var i=0;i<%d;i++){o=%s};return o}" % (first, depth, step))}) for first, step in (("{}", "{a:o}"), ("[]", "[o]")) for depth in (149, 150, 151, 300)],
    "size": [compute({"$type": function("function(){return %s}" % text)}) for text in ("{a:'x'.repeat(16*1024*1024-20)}",)],
}
# What operators make of what a function returned: of every type that has bytes of its own.
OF_BYTES = ("BinData(0, 'YWJj')", "/b/i", "Code('return 1')", "Code('x', {a: 1})", "'text'", "DBPointer('db.c', ObjectId('0123456789abcdef01234567'))", "ObjectId('0123456789abcdef01234567')", "Timestamp(1, 2)")
MADE = {"$arrayElemAt": ["$$made", 0]}
OPERATORS = [{"$type": MADE}, {"$binarySize": MADE}, {"$strLenBytes": MADE}, {"$concat": [MADE, "x"]}, {"$toUpper": MADE}, {"$toString": MADE}, {"$eq": [MADE, MADE]}, {"$eq": [{"$arrayElemAt": [{"$concatArrays": ["$$made", "$$made"]}, 1]}, MADE]}, {"$cmp": [MADE, "u"]}, {"$cmp": [MADE, b"abd"]},
             {"$regexMatch": {"input": "abc", "regex": MADE}}, {"$regexFind": {"input": MADE, "regex": "t"}}, {"$cond": [MADE, 1, 2]}, {"$setUnion": ["$$made", "$$made"]}, {"$in": [MADE, "$$made"]}, {"$mergeObjects": [{"a": MADE}, {"b": MADE}]}, {"$add": [MADE, 1]}, {"$switch": {"branches": [{"case": {"$eq": [MADE, 1]}, "then": MADE}], "default": MADE}}]
# fmt: on


def test_operators_of_what_was_returned(same):
    same([compute({"$let": {"vars": {"made": function("function(){return [%s]}" % text)}, "in": operator}}) for text in OF_BYTES for operator in OPERATORS])


@pytest.mark.parametrize("name", MEMBERS)
def test_members(same, name):
    same(MEMBERS[name])


@pytest.mark.parametrize("name", RETURNED)
def test_returned(same, name):
    forms = ("%s", "{v: %s}", "[%s]")
    same(list(together(["function(){return %s}" % (form % expression) for expression in RETURNED[name] for form in forms], 6)))


def test_returned_in_document(same):
    same([returns(form % expression) for expression in NESTED_ONLY for form in ("{v: %s}", "[%s]")])


@pytest.mark.parametrize("name", REFUSED)
def test_not_returned(same, name):
    same(REFUSED[name])


# What a function does to its document, and how the document comes back.
TOUCHED = [
    "x.a=2", "x.n=1", "delete x.a", "x.b.c=9", "x.b.l=9", "x.b.z=9", "x.arr.push(3)", "x.arr[0]=8", "x.arr[2].q=5", "delete x.b.c", "x.a=2.5", "x.a=true", "x.a='s'", "x.a=undefined", "x.a=null", "x.a=2147483648",
    "x.a=-0", "x.a=NaN", "x.b={c:1,l:2}", "x.b.l=NumberLong(1)", "x.a", "for(var k in x){}", "x._id=7", "x.b.c=6;x.a=3", "x[5]=1;x.zz=2;x[3]=1", "x.arr.length=1",
    "x.a=NumberInt(3)", "x.a=NumberLong(3)", "x.a+=1", "x.b.c++", "x.arr=x.arr.concat([4])", "x.b=x.arr", "x.n={}; x.n.m=x.b", "x.hasOwnProperty('a')", "'use strict';x.a=2",
]  # fmt: skip
READ = [
    "[x._id, x.zz, x['b'].c]", "x.b", "x.arr", "x.b.l", "{k:x.b}", "{a:x.a}", "{b:x.b}", "[1,2,x]", "[x,x]", "JSON.parse(JSON.stringify(x))", "tojson(x)", "Object.keys(x)", "Object.keys(x.b)", "'a' in x", "x.hasOwnProperty('b')", "x===x",
    "x.b===x.b", "x.constructor===Object", "x instanceof Object", "x.arr instanceof Array", "x.arr.length", "x.arr.map(y=>typeof y)", "x.propertyIsEnumerable('a')", "(function(){var n=[];for(var k in x)n.push(k);return n})()", "delete x.a && !('a' in x)", "(x.zz=1,Object.keys(x))",
    "(function(y){y.a=5;return x.a})(x)", "x.arr.indexOf(2)", "x.arr.concat(x.b.c)",
]  # fmt: skip


def test_touched_documents(same):
    same([compute(function("function(x){%s; return x}" % text, "$$ROOT"), "nested") for text in TOUCHED])


def test_read_documents(same):
    same([compute(function("function(x){return %s}" % text, "$$ROOT"), "nested") for text in READ])


def test_documents_stay(same):
    change = function("function(x,y){x.a=5; x.b.c=6; delete x.d; return [x,y]}", "$$ROOT", "$$ROOT")
    same([compute(change, "nested"), find({}, "nested"), where("this.a=77; this.zz=1; return this.zz==1", "nested"), find({"$where": "this.a=77; return true"}, "nested")])


def test_odd_documents(same):
    bodies = ["return x", "return Object.keys(x)", "return x.a", "return tojson(x)", "x.b=5; return x", "delete x.a; return x", "return [typeof x.u, 'u' in x, x.u===undefined]"]
    same(
        [compute(function("function(x){%s}" % body, "$$ROOT"), "odd") for body in bodies]
        + [where("this.a==1", "odd"), where("this.a==2", "odd"), where("'u' in this", "odd"), where("this._id==1", "flagged")]
        + [compute(function("function(u){return [typeof u, u===null]}", argument), "odd") for argument in ("$u", "$missing", None, "$$REMOVE")]
    )


# -- functions

BODIES = [
    "function(){return 1}", "function (){return 1}", "function named(){return 1}", "  function(){return 1}  ", "function(){return 1};", "function(){return 1} ; ", "\nfunction(){return 1}\n", "/*c*/ function(){return 1}", "// c\nfunction(){return 1}",
    "()=>1", "x=>x", "(a,b)=>a", "async function(){return 1}", "function*(){yield 1}", "(function(){return 1})", "(function(){return 1})()", "return 1", "return 5;", "1", "1+1", "1;2", "5 ; ", "'a'", "({a:1})", "{a:1}", "var x=1; x", "var x=1; return x",
    "let x=5; x", "if(true){return 3}", "for(;;){break}", "class A{}", "function f(){return 1} f()", "function f(){return 1}; return f()", "arguments[0]", "return arguments.length", "return function(){}", "'use strict'; return 1", "1 /* c */", "return 1 /* c */", "null", "undefined", "true",
    "Math.max", "function(x){return x}.bind(null)", "throw 1", "let f = x=>x; return f(arguments[0])", "function(a,b=2,...c){return [a,b,c]}", "function(x){return `a${1+x}b`}", "function({a}){return a}",
    "function(", "function(){", "@", "return return", "missing", "functional", "functionx(){return 1}", "function(){return 1} function(){return 2}",
]  # fmt: skip
THROWN = {
    "primitives": ["1", "'abc'", "''", "null", "undefined", "true", "10n", "1.5", "'two\\nlines'"],
    "objects": ["[1,2]", "NumberLong(5)", "function(){}", "({toString(){return 'mine'}})", "ObjectId('0123456789abcdef01234567')"],
    "errors": ["new Error('e1')", "new Error('é€')", "Error('without new')", "(function(){var e=new Error('x');e.code=11000;return e})()", "(function(){class E extends Error{};return new E('mine')})()"],
    "engine_errors": ["new TypeError('t1')", "new RangeError('r')", "new SyntaxError('s')", "Symbol('x')"],
}
ENGINE_ERRORS = [
    "missing.y", "null.x", "undefined.x", "missing()", "var a=1; a()", "this.a.b", "({}).x.y", "[].reduce((a,b)=>a)", "new Array(-1)", "'x'.repeat(-1)", "eval('1+')", "JSON.parse('{')", "new RegExp('(')", "const q=1; q=2", "decodeURIComponent('%')",
    "(1).toFixed(1000)", "let a; let a;", "'use strict'; undeclared=5", "x.y.z",
]  # fmt: skip
CAUGHT = [
    "try{null.x}catch(e){return [e.name, e instanceof TypeError, e instanceof Error]}", "try{throw 5}catch(e){return e}", "try{missing}catch(e){return e.name}", "try{ObjectId('x')}catch(e){return [e.name,e.message,e.code,e.toString(),e instanceof Error]}",
    "try{NumberLong('x')}catch(e){return [e.message,e.code]}", "try{return 1}finally{x.y}", "return new Error('x').toString()", "return typeof new Error('x').stack",
]  # fmt: skip
WRONG_CALLS = {
    "numbers": ["NumberLong('x')", "NumberLong('')", "NumberLong('1.5')", "NumberLong('0x10')", "NumberLong('9223372036854775808')", "NumberLong(1.9)", "NumberLong(1e19)", "NumberLong(NaN)", "NumberLong(1,2)", "NumberInt(1,2)", "NumberDecimal('x')"],
    "object_id": ["ObjectId('zz')", "ObjectId(5)", "ObjectId(null)", "ObjectId('0123456789abcdef0123456g')"],
    "timestamp": ["Timestamp(1)", "Timestamp('1',2)", "Timestamp(-1,1)", "Timestamp(4294967296,1)"],
    "binary": ["BinData()", "BinData(-1,'')", "BinData(300,'')", "BinData('0','')", "BinData(0,5)", "BinData(0,'*')", "BinData(0,'YWJ')", "HexData(0)", "HexData(0,'616')", "HexData(0,'zz')", "MD5('x')", "UUID('x')", "UUID(5)"],
    "others": ["DBRef()", "DBRef(1,2)", "DBRef('c',1,5)", "DBPointer(1)", "Code(1)", "Code('x',5)", "ISODate('x')", "ISODate(5)", "ISODate('10000-01-01')", "sleep('x')", "sleep()", "hex_md5()", "hex_md5(5)", "Array.sum(5)", "Array.contains('x',2)", "tojson(Symbol('x'))", "tojson(10n)"],
}  # fmt: skip


def test_bodies(same):
    same([compute(function(body, "$a")) for body in BODIES])


def test_bodies_of_where(same):
    same([where(body, "one") for body in BODIES])


@pytest.mark.parametrize("name", THROWN)
def test_thrown(same, name):
    same([runs(f"throw {value}") for value in THROWN[name]] + [where(f"throw {value}", "one") for value in THROWN[name]])


def test_engine_errors(same):
    same([runs(text) for text in ENGINE_ERRORS] + [where(text, "one") for text in ENGINE_ERRORS[:6]])


def test_caught(same):
    same([runs(text) for text in CAUGHT])


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls(same, name):
    same([runs(f"return {text}") for text in WRONG_CALLS[name]])


# fmt: off
LANGUAGE = {
    "syntax": [
        "(x=>x+1)(1)", "(()=>{let a=1; const b=2; return a+b})()", "`a${1}b`", "[...[1,2],3]", "({...{a:1},b:2})", "(({a,...r})=>r)({a:1,b:2})", "((a,b=2,...c)=>[a,b,c])(1,undefined,3)", "2**3", "null?.x", "({a:{b:1}}).a?.b", "null ?? 5", "(()=>{let x=null; x??=5; return x})()", "1_000",
        "[...(function*(){yield 1; yield 2})()]", "new (class{static s=1; f=2; get g(){return this.f}})().g", "(()=>{class A{m(){return 1}} class B extends A{m(){return super.m()+1}} return new B().m()})()", "(()=>{label: for(;;){break label} return 1})()", "(()=>{for(const x of [1,2]) if(x==2) return x})()", "typeof Symbol.iterator", "typeof 10n", "(10n+5n).toString()",
        "eval('1+1')", "new Function('return 4')()", "(function(){with({z:1}){return z}})()", "(function(){return typeof arguments.callee})()", "(function(){return 010})()", "(function(){undeclared=5; return undeclared})()", "typeof async function(){}",
    ],
    "library": [
        "[1,2].includes(1)", "[[1]].flat()", "[1].flatMap(x=>[x,x])", "Object.fromEntries([['a',1]])", "Object.entries({a:1})", "Object.values({a:1})", "Object.assign({},{a:1})", "'aa'.replaceAll('a','b')", "'abc'.at(-1)", "'a'.padStart(3,'-')", "'abc'.startsWith('a')", "'a,b'.split(',')", "' a '.trim()", "'é'.length", "'aXb'.toLowerCase()",
        "/(?<y>a)/.exec('a').groups.y", "'xa'.replace(/(?<=x)a/,'b')", "[...'abab'.matchAll(/a/g)].length", "/a.b/s.test('a\\nb')", "/^a/im.flags", "JSON.parse('{\"a\":[1,null]}')", "JSON.stringify({a:undefined,b:[undefined]})", "new Set([1,1]).size", "Array.from(new Set([1,1,2]))", "typeof Proxy", "typeof Promise", "typeof WeakMap", "Math.trunc(1.5)", "Math.hypot(3,4)", "Math.round(2.5)", "parseInt('08')", "parseFloat('1.5x')",
        "Number('12abc')", "(25).toString(36)", "(1.005).toFixed(2)", "1e21+''", "0.1+0.2", "1/3", "[3,1,2].sort()", "[10,9,1].sort()", "[1,2,3].reduce((a,b)=>a+b)", "encodeURIComponent('é b')", "escape('é')", "new Uint8Array([257])[0]", "Number.MAX_SAFE_INTEGER", "isNaN('x')", "String(Symbol('x'))", "''+[1,[2,3]]", "''+{}", "[1,2,3].toString()", "(function ( a ) { return a }).toString()",
    ],
    "scope": ["typeof this", "this===globalThis", "typeof globalThis", "Object.keys(this)", "typeof db", "typeof emit", "typeof obj", "typeof require", "typeof console", "typeof setTimeout", "typeof load", "typeof Mongo", "typeof process", "typeof __proto__", "(function(){return typeof this})()"],
    "globals": [f"typeof {name}" for name in ("sleep", "gc", "print", "printjson", "printjsononeline", "version", "BinData", "HexData", "MD5", "UUID", "Code", "DBPointer", "DBRef", "MaxKey", "MinKey", "NumberInt", "NumberLong", "NumberDecimal", "ObjectId", "Timestamp", "ISODate", "tojson", "tojsononeline", "tojsonObject", "isString", "isNumber", "isObject", "hex_md5")],
}
HELPERS = {
    "arrays": ["Array.sum([1,2,3])", "Array.sum([])", "Array.sum([NumberLong(1),NumberLong(2)])", "Array.sum(['a','b'])", "Array.sum([undefined])", "Array.sum([null,1])", "Array.avg([1,2])", "Array.avg([])", "Array.stdDev([1,2,3])", "Array.contains([1,2],2)", "Array.contains([1,2],3)", "Array.unique([1,1,2])", "Array.tojson([1,2])", "Array.shuffle([1])"],
    "tests": ["isString('x')", "isString(new String('x'))", "isNumber(NumberLong(1))", "isNumber(1)", "isNumber()", "isObject({})", "isObject([])", "isObject(null)"],
    "text": ["hex_md5('abc')", "hex_md5('é')", "hex_md5('')", "'abc'.pad(5)", "'abc'.pad(5,true,'x')", "' abc '.ltrim()", "' abc '.rtrim()", "(5).zeroPad(3)", "(0.5).toPercentStr()", "RegExp.escape('a.b')", "Object.keySet({a:1,b:2})", "Object.extend({a:1},{b:2})", "Object.merge({a:1},{b:2})"],
    "effects": ["print('a','b')", "printjson({a:1})", "typeof sleep(1)", "typeof gc()", "version()"],
    "tojson": [f"tojson({text})" for text in (
        "1", "-0", "1.5", "NaN", "'a\"b\\n'", "null", "undefined", "true", "[]", "[1,[2,3]]", "{}", "{a:1}", "{a:{b:[1,{c:2}]},d:'x'}", "{a:1,b:'01234567890123456789012345678901234567890123456789012345678901234567890123456789'}", "{a:undefined,b:function(){},c:/x/g,d:NaN,'e f':1,'1':2}", "function(){return 1}", "new Date(0)", "new Date(1)", "NumberLong(5)",
        "{a:NumberLong('9007199254740993'),b:NumberInt(5),c:NumberDecimal('1.5')}", "[undefined,null,function(){}]", "{a:{b:{c:{d:1}}}},'',true", "{a:{b:1}},'',false", "[1,2],'',true", "{tojson(){return 'MINE'}}", "{toString(){return 'x'}}", "new Set([1])", "new Error('x')", "Math", "Object.create({x:1})",
        "{a:ObjectId('0123456789abcdef01234567'),b:BinData(0,''),c:Timestamp(1,2),d:MinKey,e:UUID('01234567-89ab-cdef-0123-456789abcdef'),f:DBRef('a',1),g:Code('x')}", "[{a:1},{b:[]}]", "{a:[],b:{}}", "'é\\u0001\\u2028'")],
    "tojsononeline": [f"tojsononeline({text})" for text in ("{a:{b:[1,2]}}", "[]", "{a:'x'}", "{}", "5", "{a:1,b:'01234567890123456789012345678901234567890123456789012345678901234567890123456789'}")],
}
# fmt: on


@pytest.mark.parametrize("name", LANGUAGE)
def test_language(same, name):
    same(list(together(["function(){return %s}" % text for text in LANGUAGE[name]])))


@pytest.mark.parametrize("name", HELPERS)
def test_helpers(same, name):
    same(list(together(["function(){return %s}" % text for text in HELPERS[name]])))


def test_globals_live_through_a_query(same):
    count = "n = typeof n == 'undefined' ? 1 : n + 1; return n"
    same([
        compute(function("function(){%s}" % count), "people"),
        compute(function("function(){%s}" % count), "people"),
        aggregate({"$sort": {"_id": 1}}, {"$project": {"p": function("function(){q=1; return q}"), "r": function("function(){return typeof q}")}}),
        where("m = typeof m == 'undefined' ? 1 : m + 1; return m == 2"),
        aggregate({"$sort": {"_id": 1}}, {"$project": {"r": function("function(){return typeof m}")}}),
    ])  # fmt: skip


# -- $where

TRUTHS = [
    "true", "false", "1", "0", "-1", "-0", "NaN", "''", "'x'", "null", "undefined", "[]", "({})", "new Date(0)", "NumberLong(0)", "NumberInt(0)", "NumberDecimal('0')", "0n", "5n", "Symbol('x')", "/a/", "new Boolean(false)", "MinKey", "this", "obj", "Infinity", "return", "return true", "return this.a", "this.a",
    "function(){}", "function(){return true}", "()=>false",
]  # fmt: skip
CONDITIONS = [
    "this.a > 1", "obj.a > 1", "this.a>1;", "var q=this.a; return q==1", "function(){return this.a==1}", "function(){return obj.a==1}", "function(x){return typeof x=='undefined'}", "return arguments.length==0", "this instanceof Object", "this.b && this.b.c==7", "this.b && this.b.c===7", "if(this.a) return true; else return false",
    "this.a==9", "this.a===9", "hex_md5(this.s||'')==hex_md5('x')", "this._id==2", "isNumber(this.a)", "'a' in this", "this.hasOwnProperty('s')", "Object.keys(this).length==3", "this.t && this.t.indexOf('q')>=0", "this.t?.length == 2", "this.a ?? true", "[1,5].includes(this.a)", "/x/.test(this.k)", "this.k.localeCompare('y')==0",
    "let {a,...r}=this; return a==1", "obj=5; true", "this.k=='X'", "sleep(1)", "print('x')", "tojson(this.t)=='[ \"q\" ]'", "this.t == 'q'", "this.missing == null", "this.missing === null", "this.missing === undefined", "return typeof emit=='undefined' && typeof db=='undefined'",
]  # fmt: skip
FAILING = ["this.a.b.c", "throw 'x'", "throw new Error('x')", "missing()", "db.x", "emit(1,2)", "if(this._id==3) throw 'third'; return true"]
MISTYPED = [5, 1.5, True, None, {}, [], Regex("a"), ObjectId("0123456789abcdef01234567"), raw.Symbol("true"), Code("this.a==k", {"k": 1}), Code("this.a==1", {}), Code("syntax(", {}), "", "syntax(", "function(", "return await 1", Code(""), Code("this.a==1"), Code("function(){return this.a==1}"), Code("syntax(")]
ONE = {"$where": "this.a==1"}


def test_truths(same):
    same([where(code, "one") for code in TRUTHS])


def test_conditions(same):
    same([where(code) for code in CONDITIONS])


def test_where_fails(same):
    same([where(code) for code in FAILING])


@pytest.mark.parametrize("collection", ["people", "none"])
def test_where_mistyped(same, collection):
    same([where(code, collection) for code in MISTYPED])


WITHIN = [
    {"$nor": [ONE]}, {"$or": [ONE, {"_id": 2}]}, {"$and": [ONE, {"_id": 1}]}, {"$and": [ONE, {"$where": "this._id==2"}]}, {"$where": "true", "a": 1}, {"a": 1, "$where": "true"}, {"$where": "true", "$nor": [{"$where": "false"}]}, {"$comment": "x", **ONE}, {"_id": 99, "$where": "this.a.b.c"}, {"_id": 99, "$where": "syntax("}, {"$or": [{"a": 1}, {"$where": "this.a.b.c"}]},
    {"a": {"$elemMatch": ONE}}, {"b": {"$all": [{"$elemMatch": ONE}]}}, {"a": ONE}, {"a": {"$not": ONE}}, {"$not": ONE}, {"$expr": {"$where": "1"}}, {"$jsonSchema": ONE}, {"a.$where": "1"}, {"t": {"$elemMatch": {"$where": "syntax("}}},
]  # fmt: skip


def test_where_within(same):
    same([find(condition) for condition in WITHIN])


READING = {
    "find": lambda condition: [find(condition), find(condition, collation={"locale": "en", "strength": 1}), find(condition, limit=1, skip=1), find(condition, "none"), find(condition, apiVersion="1", apiStrict=True)],
    "count": lambda condition: [{"count": "people", "query": condition}, {"count": "people", "query": condition, "limit": 1}, *([] if condition["$where"] == "syntax(" else [{"count": "none", "query": condition}])],
    "distinct": lambda condition: [{"distinct": "people", "key": "k", "query": condition}, {"distinct": "none", "key": "k", "query": condition}],
    "projection": lambda condition: [find({}, projection={"t": {"$elemMatch": condition}}), find({}, projection={"q": condition})],
    "aggregate": lambda condition: [
        aggregate({"$match": condition}), aggregate({"$project": {"a": 1}}, {"$match": condition}), aggregate({"$facet": {"x": [{"$match": condition}]}}), aggregate({"$match": condition}, collection="none"),
        aggregate({"$lookup": {"from": "people", "as": "q", "pipeline": [{"$match": condition}]}}), aggregate({"$unionWith": {"coll": "people", "pipeline": [{"$match": condition}]}}),
        aggregate({"$graphLookup": {"from": "people", "startWith": "$a", "connectFromField": "a", "connectToField": "a", "as": "q", "restrictSearchWithMatch": condition}}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("condition", [ONE, {"$where": "this.a.b.c"}, {"$where": "syntax("}, {"$where": 5}], ids=["right", "throws", "syntax", "mistyped"])
@pytest.mark.parametrize("verb", READING)
def test_where_read(same, verb, condition):
    same(READING[verb](condition))


def test_where_explained(same):
    conditions = [ONE, {"$where": Code("this.a==1")}, {"$where": "function(){return 1}"}, {"a": 1, **ONE}, {**ONE, "a": 1}, {"$or": [ONE, {"a": 2}]}, {"$nor": [ONE]}, {"_id": 1, **ONE}, {"$where": "syntax("}]
    parsed = [{"explain": {"find": "people", "filter": condition}, "verbosity": "queryPlanner"} for condition in conditions]
    # What is filtered; the plan's own fields are test_explain.py's matter.
    same.parts(parsed, ("queryPlanner.parsedQuery", "ok", "errmsg", "code", "codeName"))


SMALL = [{"_id": 1, "a": 1, "b": [1, 2]}, {"_id": 2, "a": 5}, {"_id": 3, "a": 7}]
ALL = {"find": "COLL", "sort": {"_id": 1}}


def update(condition, change, collection="COLL", **options):
    return {"update": collection, "updates": [{"q": condition, "u": change, **options}]}


@pytest.mark.parametrize("code", ["this.a>1", "this.a.b.c", "syntax("], ids=["right", "throws", "syntax"])
def test_where_writes(pair, code):
    condition = {"$where": code}
    run(pair, "where_writes", [
        update(condition, {"$set": {"z": 1}}), ALL, update(condition, {"$inc": {"z": 1}}, multi=True), ALL, update({"_id": 77, **condition}, {"$set": {"z": 1}}, upsert=True), update({"_id": 1, **condition}, {"$set": {"y": 1}}), ALL,
        {"findAndModify": "COLL", "query": condition, "sort": {"_id": 1}, "update": {"$set": {"q": 1}}, "new": True}, {"findAndModify": "COLL", "query": condition, "sort": {"_id": -1}, "remove": True},
        {"delete": "COLL", "deletes": [{"q": condition, "limit": 1}]}, ALL, {"delete": "COLL", "deletes": [{"q": condition, "limit": 0}]}, ALL,
        update(condition, {"$set": {"z": 1}}, "OTHER"), {"delete": "OTHER", "deletes": [{"q": condition, "limit": 0}]}, {"findAndModify": "OTHER", "query": condition, "remove": True},
    ], SMALL)  # fmt: skip


def test_where_refused(pair):
    run(pair, "where_refused", [
        {"create": "OTHER", "validator": ONE}, {"create": "OTHER", "validator": {"$and": [ONE]}}, {"collMod": "COLL", "validator": ONE}, {"create": "OTHER", "viewOn": "COLL", "pipeline": [{"$match": ONE}]},
        {"createIndexes": "COLL", "indexes": [{"key": {"q": 1}, "name": "q", "partialFilterExpression": ONE}]}, update({}, {"$set": {"b.$[e]": 1}}, arrayFilters=[ONE]), update({}, {"$set": {"b.$[e]": 1}}, arrayFilters=[{"e": ONE}]),
        update({}, {"$pull": {"b": ONE}}), ALL,
        {"create": "OTHER", "viewOn": "COLL", "pipeline": [{"$match": {"_id": {"$lt": 3}}}]}, {"find": "OTHER", "filter": ONE}, {"count": "OTHER", "query": ONE}, {"distinct": "OTHER", "key": "a", "query": ONE}, aggregate({"$match": ONE}, collection="OTHER"),
    ], SMALL)  # fmt: skip


def test_stored_functions(pair):
    stored = [{"_id": "addOne", "value": Code("function(x){return x+1}")}, {"_id": "five", "value": 5}]
    run(pair, "stored_functions", [
        {"insert": "system.js", "documents": stored}, {"find": "COLL", "filter": {"$where": "addOne(this.a)==2"}}, {"find": "COLL", "filter": {"$where": "this.a==five"}}, map_reduce("COLL", map="function(){emit(five, addOne(this.a))}"),
        compute(function("function(){return typeof addOne + typeof five}"), "COLL"), compute(function("function(){return addOne(1)}"), "COLL"), accumulated(accumulator(init="function(){return addOne(1)}"), collection="COLL"),
        update({"_id": "five"}, {"$set": {"value": 7}}, "system.js"), {"find": "COLL", "filter": {"$where": "this.a==five"}},
        {"delete": "system.js", "deletes": [{"q": {}, "limit": 0}]}, {"find": "COLL", "filter": {"$where": "addOne(this.a)==2"}},
    ], SMALL)  # fmt: skip


def test_stored_functions_without_a_name_or_value(pair):
    removed = {"delete": "system.js", "deletes": [{"q": {}, "limit": 0}]}
    for document in ({"_id": 5, "value": 1}, {"_id": "novalue"}, {"_id": {"a": 1}, "value": 1}):
        run(pair, "stored_faults", [removed, {"insert": "system.js", "documents": [document]}, {"find": "COLL", "filter": {"$where": "this.a==1"}}, removed], SMALL)


def test_stored_functions_beyond_the_heap(subject):
    """They are read into the engine's memory, which is bounded."""
    subject.client.drop_database("stored_heap")
    database = subject.client["stored_heap"]
    database["c"].insert_one({"_id": 1})
    for number in range(3):
        database["system.js"].insert_one({"_id": f"n{number}", "value": "x" * 12_000_000})
    assert list(database["c"].find({"$where": "n2.length == 12000000"})) == [{"_id": 1}]
    for number in range(3, 8):
        database["system.js"].insert_one({"_id": f"n{number}", "value": "x" * 12_000_000})
    with pytest.raises(pymongo.errors.OperationFailure, match="Out of memory"):
        list(database["c"].find({"$where": "true"}))
    subject.client.drop_database("stored_heap")


# -- $function

ARGUMENTS = [
    5, None, {}, "x", "$a", True, "$$NOW", [], [1, 2], {"$concatArrays": [[1], [2]]}, {"$literal": [1, "$a"]}, ["$a", "$$ROOT"], ["$missing", "$a"], [{"q": "$missing", "w": "$a", "e": [1, "$missing"]}], ["$$REMOVE"], [{"$add": [1, 2]}], [Int64(2**63 - 1)], [[Int64(2**63 - 1)]], ["$$nope"],
    [function("function(){return {a:1}}")],
]  # fmt: skip
SPECIFICATIONS = [
    {}, {"body": "function(){}"}, {"body": "function(){}", "args": []}, {"args": [], "lang": "js"}, {"body": "function(){}", "lang": "js"}, {"body": "function(){}", "args": [], "lang": "js", "x": 1}, {"x": 1}, {"Body": "x"}, 5, "x", [], None, [{"body": "function(){}", "args": [], "lang": "js"}],
    *({"body": "function(){return 1}", "args": [], "lang": lang} for lang in ("JS", "python", "", 5, None, {}, "$a", {"$concat": ["j", "s"]}, {"$literal": "js"})),
    *({"body": body, "args": [5], "lang": "js"} for body in (Code("function(){return 1}"), Code("return 1"), Code("function(){return x}", {"x": 3}), 5, None, {}, [], True, "$a", "$$ROOT", {"$concat": ["a", "b"]}, {"$literal": "function(){return 9}"}, {"$literal": Code("return 9")}, raw.Symbol("return 1"), "$$nope")),
    {"body": 5, "args": 5, "lang": 5}, {"lang": 5, "args": 5, "body": 5}, {"body": "$a"}, {"lang": "python", "body": "function(){}"},
]  # fmt: skip
IS_ONE = function("function(a){return a==1}", "$a")
FAILS = function("function(a){return a.b.c}", "$a")
BROKEN = function("function(", "$a")
PEOPLE = {"$sort": {"_id": 1}}
FUNCTION_PLACES = {
    "match": [aggregate(PEOPLE, {"$match": {"$expr": expression}}) for expression in (IS_ONE, FAILS, BROKEN)],
    "find": [find({"$expr": IS_ONE}), find({"$expr": FAILS}), find({"$expr": BROKEN}), find({}, projection={"q": IS_ONE}), find({}, projection={"q": FAILS}), {"count": "people", "query": {"$expr": IS_ONE}}, {"count": "people", "query": {"$expr": FAILS}}, {"distinct": "people", "key": "a", "query": {"$expr": IS_ONE}}, find({"$expr": IS_ONE}, apiVersion="1", apiStrict=True)],
    "none": [aggregate({"$project": {"q": BROKEN}}, collection="none"), find({"$expr": BROKEN}, "none"), aggregate({"$match": {"a": 99}}, {"$project": {"q": FAILS}})],
    "stages": [
        aggregate(PEOPLE, {"$addFields": {"q": IS_ONE}}), aggregate({"$group": {"_id": function("function(a){return a>3}", "$a"), "n": {"$sum": 1}}}, PEOPLE), aggregate({"$group": {"_id": None, "n": {"$sum": function("function(a){return a||0}", "$a")}}}), aggregate(PEOPLE, {"$redact": {"$cond": [IS_ONE, "$$KEEP", "$$PRUNE"]}}),
        aggregate({"$lookup": {"from": "people", "let": {"z": function("function(a){return a}", "$a")}, "pipeline": [{"$match": {"$expr": {"$eq": ["$a", "$$z"]}}}, {"$project": {"_id": 1}}], "as": "o"}}, PEOPLE, {"$project": {"o": 1}}),
        aggregate({"$lookup": {"from": "people", "let": {"z": "$a"}, "pipeline": [{"$match": {"$expr": function("function(a,b){return a==b}", "$a", "$$z")}}, {"$project": {"_id": 1}}], "as": "o"}}, PEOPLE, {"$project": {"o": 1}}),
        aggregate({"$match": {"_id": 1}}, {"$facet": {"a": [{"$project": {"q": IS_ONE}}]}}), aggregate({"$match": {"_id": 1}}, {"$unionWith": {"coll": "people", "pipeline": [{"$match": {"_id": 2}}, {"$project": {"q": IS_ONE}}]}}),
        aggregate({"$graphLookup": {"from": "people", "startWith": function("function(a){return a}", "$a"), "connectFromField": "zz", "connectToField": "a", "as": "o", "restrictSearchWithMatch": {"$expr": IS_ONE}}}, PEOPLE),
        aggregate({"$setWindowFields": {"partitionBy": function("function(a){return a>3}", "$a"), "sortBy": {"_id": 1}, "output": {"n": {"$sum": function("function(a){return 2}", "$a"), "window": {"documents": ["unbounded", "current"]}}}}}, PEOPLE),
        aggregate({"$bucket": {"groupBy": function("function(a){return a||0}", "$a"), "boundaries": [0, 4, 20]}}, PEOPLE), aggregate(PEOPLE, {"$fill": {"output": {"a": {"value": function("function(a){return 42}", "$a")}}}}),
    ],
    "expressions": [
        compute({"$map": {"input": [1, 2], "in": function("function(a){return a*2}", "$$this")}}), compute({"$cond": [True, 1, FAILS]}), compute({"$cond": [function("function(){return 'x'}"), 1, 2]}), compute({"$add": [function("function(){return 'x'}"), 1]}), compute({"$type": function("function(){}")}), compute({"$ifNull": [function("function(){}"), "was null"]}),
        compute(function("function(){return {$const:1}}")), compute(function("function(d){return d.a}", function("function(d){return {a:d}}", "$a"))), compute(function("function(d){return d}", "$$v"), let={"v": 7}), compute({"$type": function("function(d){return d}", "$$NOW")}),
        aggregate({"$replaceWith": function("function(d){d.z=1;return d}", "$$ROOT")}, collection="one"), aggregate({"$replaceWith": function("function(d){return 5}", "$$ROOT")}, collection="one"), find({}, "one", sort={"x": {"$function": {}}}),
    ],
}  # fmt: skip


def test_function_arguments(same):
    same([compute(function("function(){return [].slice.call(arguments)}", args=given)) for given in ARGUMENTS])


def test_function_specifications(same):
    same([compute({"$function": specification}) for specification in SPECIFICATIONS])


@pytest.mark.parametrize("name", FUNCTION_PLACES)
def test_function(same, name):
    same(FUNCTION_PLACES[name])


def test_function_writes(pair):
    view = {"create": "OTHER", "viewOn": "COLL", "pipeline": [{"$project": {"q": IS_ONE}}]}
    run(pair, "function_writes", [
        update({}, [{"$set": {"q": IS_ONE}}], multi=True), ALL, update({}, [{"$set": {"q": FAILS}}], multi=True), update({"$expr": IS_ONE}, {"$set": {"z": 1}}, multi=True), update({"$expr": FAILS}, {"$set": {"z": 1}}, multi=True), ALL, update({"_id": 9}, [{"$set": {"q": function("function(){return 5}")}}], upsert=True),
        {"findAndModify": "COLL", "query": {"_id": 1}, "update": [{"$set": {"q": FAILS}}]}, {"findAndModify": "COLL", "query": {"_id": 1}, "update": [{"$set": {"w": IS_ONE}}], "new": True}, {"delete": "COLL", "deletes": [{"q": {"$expr": FAILS}, "limit": 0}]}, {"delete": "COLL", "deletes": [{"q": {"$expr": IS_ONE}, "limit": 0}]}, ALL,
        {"create": "OTHER", "validator": {"$expr": IS_ONE}}, {"create": "OTHER", "validator": {"a": 1, "$or": [{"$expr": IS_ONE}]}}, {"collMod": "COLL", "validator": {"$expr": IS_ONE}}, {"createIndexes": "COLL", "indexes": [{"key": {"q": 1}, "name": "q", "partialFilterExpression": {"$expr": IS_ONE}}]},
        update({}, {"$set": {"b.$[e]": 1}}, arrayFilters=[{"$expr": IS_ONE}]), view, {"find": "OTHER", "sort": {"_id": 1}}, {"find": "OTHER", "filter": {"$expr": function("function(q){return !q}", "$q")}, "sort": {"_id": 1}}, {"drop": "OTHER"},
        aggregate({"$merge": {"into": "OTHER", "whenMatched": [{"$set": {"q": IS_ONE}}]}}, collection="COLL"), aggregate({"$merge": {"into": "OTHER", "whenMatched": [{"$set": {"q": IS_ONE}}]}}, collection="COLL"), {"find": "OTHER", "sort": {"_id": 1}},
    ], SMALL)  # fmt: skip


def test_function_explained(same):
    expressions = [IS_ONE, function("function(){return 1+1}")]
    same.parts([{"explain": {"find": "people", "filter": {"$expr": expression}}, "verbosity": "queryPlanner"} for expression in expressions], ["queryPlanner.parsedQuery"])


# -- $accumulator

SUM = {"init": "function(){return 0}", "accumulate": "function(s,v){return s+(v||0)}", "accumulateArgs": ["$a"], "merge": "function(x,y){return x+y}", "lang": "js"}
SHOW = "function(){return tojson([].slice.call(arguments))}"


def accumulator(*without, **changes):
    specification = {**SUM, **changes}
    return {"$accumulator": {name: value for name, value in specification.items() if name not in without}}


def accumulated(expression, key="$k", collection="people", **options):
    return aggregate({"$sort": {"_id": 1}}, {"$group": {"_id": key, "r": expression}}, {"$sort": {"_id": 1}}, collection=collection, **options)


GIVEN = [5, None, "$a", [], {}, "", "syntax(", Code("function(){return 3}"), Code("function(){return 3}", {"x": 1}), "return 7", {"$concat": ["function(){return ", "8}"]}]
STATES = ["undefined", "null", "NumberInt(3)", "NumberLong(3)", "{a:undefined}", "function(){}", "10n", "new Date(0)", "{}", "[1,2]", "{a:NumberInt(1),b:[1]}", "'x'", "true"]


def is_odd(name, given):
    """Whether ODDITIES have it."""
    return (name.endswith("Args") and isinstance(given, Code)) or (name, given) in (("merge", "syntax("), ("finalize", ""))


GROUPS = {
    "sums": [accumulated(accumulator()), accumulated(accumulator(), None), accumulated(accumulator(finalize="function(s){return {s}}")), accumulated(accumulator(initArgs=[])), accumulated(accumulator(), collection="none"), accumulated(accumulator(), None, collection="none"), accumulated(accumulator(init="syntax("), collection="none")],
    "init_arguments": [
        accumulated(accumulator(init=SHOW, initArgs=arguments), key)
        for key in ("$k", {"z": "$k"}, {"z": ["$k"]}, None)
        for arguments in (["$z", "$k", 1, {"$add": [1, 2]}], ["$$ROOT"], "$z", ["$z.y"], [{"q": "$z"}], ["$missing"], 5)
    ],
    "arguments": [accumulated(accumulator(init="function(){return ''}", accumulate=SHOW, accumulateArgs=arguments)) for arguments in ([], ["$a", "$missing", {"$add": ["$_id", 1]}], "$a", "$t", {"$literal": [1, 2]}, {"$ifNull": ["$t", []]}, {"$concatArrays": [[1], ["$a"]]}, [{"q": "$missing"}])],
    "documents": [accumulated(accumulator(init="function(){return ''}", accumulate="function(s,d){return s+typeof d+tojson(d)}", accumulateArgs=["$$ROOT"]))],
    "objects": [
        accumulated(accumulator(init="function(){return {n:0,l:[]}}", accumulate="function(s,v){s.n++;s.l.push(v);return s}", finalize="function(s){return s}")), accumulated(accumulator(init="function(){return []}", accumulate="function(s,v){s.push(v);return s}")),
        accumulated(accumulator(init="function(){return {n:0}}", accumulate="function(s,v){s.n++}")), accumulated(accumulator(accumulate="function(s,v){}")), accumulated(accumulator(init="function(){n = typeof n=='undefined' ? 1 : n+1; return n}", accumulate="function(s){return s}")),
    ],
    "states": [accumulated(accumulator(init="function(){return %s}" % state, accumulate="function(s,v){return s}")) for state in STATES],
    "finalized": [accumulated(accumulator(finalize="function(){return %s}" % state)) for state in STATES],
    "missing": [accumulated(accumulator(name)) for name in ("init", "accumulate", "accumulateArgs", "merge", "lang")],
    "not_objects": [accumulated({"$accumulator": given}) for given in (5, "x", [], None, {})] + [accumulated(accumulator(unknown=1)), accumulated(accumulator(Init=1)), accumulated(accumulator("init", unknown=1)), accumulated({"$accumulator": {"lang": 5, "init": 5}}), accumulated({"$accumulator": {"init": 5, "lang": 5}})],
    **{name: [accumulated(accumulator(**{name: given})) for given in GIVEN if not is_odd(name, given)] for name in ("init", "accumulate", "accumulateArgs", "merge", "finalize", "initArgs", "lang")},
    "languages": [accumulated(accumulator(lang=lang)) for lang in ("py", "JS", {"$literal": "js"})],
    "throws": [accumulated(accumulator(**{name: body})) for name in ("init", "accumulate", "merge", "finalize") for body in ("function(){throw new Error('boo')}", "function(){throw 'boo'}", "function(a){return a.x.y}")],
    "several": [aggregate({"$group": {"_id": "$k", "r": accumulator(), "q": accumulator(init="function(){return 100}"), "n": {"$sum": 1}}}, PEOPLE), accumulated(accumulator(merge="function(a,b){throw 'merge'}"), allowDiskUse=True)],
    "many_documents": [aggregate({"$group": {"_id": "$g", "r": accumulator(accumulateArgs=["$_id"])}}, PEOPLE, collection="many"), aggregate({"$group": {"_id": None, "r": accumulator(accumulateArgs=["$_id"], finalize="function(s){return NumberLong(s)}")}}, collection="many")],
    "bucket": [
        aggregate({"$bucket": {"groupBy": "$a", "boundaries": [0, 6, 20], "default": "o", "output": {"r": accumulator()}}}), aggregate({"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {"r": accumulator()}}}), aggregate({"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {"r": accumulator(initArgs=["$min"])}}}),
        aggregate({"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {"r": accumulator(init="function(){return {n:0}}", accumulate="function(s){s.n+=1;return s}", merge="function(a,b){return {n:a.n+b.n}}")}}}),
    ],
    "elsewhere": [
        aggregate({"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": accumulator()}}}), aggregate({"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": {**accumulator(), "window": {"documents": [-1, 0]}}}}}), aggregate({"$project": {"r": accumulator()}}), find({"$expr": accumulator()}),
        accumulated({"$push": accumulator()}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_accumulator(same, name):
    same(GROUPS[name])


# -- mapReduce

MAP, REDUCE = "function(){emit(this.k, this.a)}", "function(k,v){return Array.sum(v)}"
LIST = "function(k,v){return {k:k,v:v}}"


def map_reduce(collection="people", *without, **changes):
    command = {"mapReduce": collection, "map": MAP, "reduce": REDUCE, "out": {"inline": 1}, **changes}
    return {name: value for name, value in command.items() if name not in without}


def emits(statements, **changes):
    """Of two of the five documents."""
    return map_reduce(map="function(){if (this._id == 1 || this._id == 4) {%s}}" % statements, reduce=LIST, **changes)


EMITTED = {
    "keys": ["undefined", "null", "NaN", "{a:1,b:2}", "[1]", "[]", "{}", "/a/", "this", "this._id", "this.k", "this.t", "NumberLong(5)", "NumberInt(5)", "5", "-0", "'a\\u0000b'", "function(){}", "MinKey", "new Date(0)", "{_id:1,b:2}", "{$a:1}", "{a:undefined}", "[undefined]", "ObjectId('0123456789abcdef01234567')", "true", "new Number(5)", "10n", "Symbol('x')"],
    "values": ["undefined", "null", "this", "this.t", "this.a", "NumberLong(6)", "NumberInt(6)", "1.5", "MaxKey", "new Date(1)", "{_id:5}", "{a:undefined,b:[1,,2]}", "{'$b':1,'c.d':2}", "function(){return 1}", "/b/g", "[[1],{a:NumberInt(1)}]", "'x'", "10n", "Symbol('x')"],
}  # fmt: skip
EMITTING = [
    "emit()", "emit(1)", "emit(1,2,3)", "return 5", "for(var i=0;i<3;i++) emit(i,i)", "for(var i=0;i<3;i++) emit('one',i)", "(this.t||[]).forEach(t=>emit(t,1))", "var e=emit; e(1,1)", "emit.call(null,1,1)", "emit=5; emit(1,1)", "return emit(1,2)", "emit(1,typeof emit(2,3))", "emit('k',arguments.length)", "emit('k',typeof obj)", "emit('x',this===globalThis)",
    "this.a=100; emit(this.a,this)", "throw 'x'", "throw new Error('x')", "missing()", "this.a.b.c", "if(this._id==4) throw 'fourth'; emit(1,1)",
]  # fmt: skip
MAP_REDUCES = {
    "shapes": [map_reduce(), map_reduce(verbose=True), map_reduce(verbose=False), map_reduce(jsMode=True), map_reduce(jsMode=False), map_reduce(comment="c"), map_reduce(maxTimeMS=10000), map_reduce(readConcern={"level": "local"}), {"mapreduce": "people", "map": MAP, "reduce": REDUCE, "out": {"inline": 1}}, map_reduce(map=Code(MAP), reduce=Code(REDUCE), finalize=Code("function(k,v){return v}"))],
    "finalize": [map_reduce(finalize=body) for body in ("function(k,v){return {k,v}}", "function(k,v){}", "function(k,v){return null}", "function(k,v){return NumberInt(v)}", "function(k,v){return [typeof k,typeof v,arguments.length]}", "function(k,v){return {_id:5,value:6}}", "function(k,v){k='zz';return v}", "function(k,v){return 10n}", "function(k,v){throw typeof k}", "return 5", "function(k,v){return Object.keys(this)}")],
    "reduce": [map_reduce(reduce=body) for body in ("function(k,v){return {k:k,v:v}}", "function(k,v){}", "function(k,v){return null}", "function(k,v){return [1,2]}", "function(k,v){return NumberInt(5)}", "function(k,v){return NumberLong(5)}", "function(k,v){return 10n}", "function(k,v){return function(){}}", "function(k,v){return 'x'}", "function(k,v){return [typeof k,Array.isArray(v),v.length,arguments.length]}", "function(k,v){return this._id}", "function(k,v){throw new Error(k.length)}", "return 5", "arguments[0]", "x=>x")],
    "order": [map_reduce("many", map="function(){emit(this.g,this._id)}", reduce="function(k,v){return tojson(v)}", sort={"_id": 1}, limit=20), map_reduce("many", map="function(){emit(this.g,this._id)}"), map_reduce("many", map="function(){emit(this._id,1)}")],
    "query": [map_reduce(query=query) for query in ({"k": "x"}, {"k": "nope"}, {"$expr": {"$eq": ["$k", "x"]}}, {}, None, 5, {"k": {"$foo": 1}}, {"$where": "true"}, {"$or": []})],
    "sort_and_limit": [map_reduce(**changes) for changes in ({"sort": {"a": -1}, "limit": 2}, {"sort": {"_id": 1}, "limit": 1}, {"sort": {}}, {"sort": 5}, {"sort": None}, {"sort": {"a": 2}}, {"sort": {"a": 1, "b": "x"}}, {"sort": {"_id": 1}, "limit": 2.7}, {"limit": 0}, {"limit": -1}, {"limit": "x"}, {"limit": None}, {"limit": Int64(3), "sort": {"_id": 1}})],
    "scope": [
        map_reduce(scope={"f": 10}, map="function(){emit(this.k,f)}"), map_reduce(scope={"f": {"n": 1}}, map="function(){f.n++; emit(this.k,f.n)}", sort={"_id": 1}), map_reduce(scope={"f": Code("function(z){return z*2}")}, map="function(){emit(this.k,f(this.a))}"), map_reduce(scope={"f": 0}, map="function(){f++; emit(this.k,f)}", finalize="function(k,v){return [v,f]}", sort={"_id": 1}),
        map_reduce(scope={"f": 5}, reduce="function(k,v){return f}"), map_reduce(scope={"hex_md5": 5}, map="function(){emit(1,hex_md5)}"), map_reduce(scope={"f": [1, Int64(2)]}, map="function(){emit(1,f[1])}"), map_reduce(scope=5), map_reduce(scope="x"), map_reduce(scope=None), map_reduce(scope={}),
        map_reduce(map="function(){g = typeof g=='undefined' ? 1 : g+1; emit(this.k,g)}", finalize="function(k,v){return [v,typeof g]}", sort={"_id": 1}),
    ],
    "missing": [map_reduce("people", name) for name in ("map", "reduce", "out")] + [{"mapReduce": "people"}],
    "functions": [map_reduce(**{name: body}) for name in ("map", "reduce", "finalize") for body in ("syntax(", "function(", 5, None, {}, [], True, raw.Symbol("x"), Code("function(){}", {"x": 1}), Code(MAP, {}) if name == "map" else Code(REDUCE, {}))] + [map_reduce(map="emit(this.k,1)"), map_reduce(map="return emit(this.k,1);"), map_reduce(map="()=>emit(1,1)")],
    "options": [map_reduce(**{name: value}) for name, value in (
        ("unknown", 1), ("verbose", 5), ("verbose", "x"), ("jsMode", 5), ("bypassDocumentValidation", True), ("bypassDocumentValidation", 1), ("collation", {"locale": "xx"}), ("collation", 5), ("maxTimeMS", -1), ("maxTimeMS", "x"), ("let", {"a": 1}), ("keeptemp", True), ("allowDiskUse", True), ("hint", {"_id": 1}), ("cursor", {}), ("splitInfo", 5),
    )] + [map_reduce(apiVersion="1", apiStrict=True)],
    "collation": [map_reduce(collation={"locale": "en", "strength": 1}, query={"k": "X"}), map_reduce(collation={"locale": "en", "strength": 1}, map="function(){emit(this._id%2?'a':'A',1)}", sort={"_id": 1})],
    "collections": [map_reduce(name) for name in ("none", "system.js", "system.profile", "")] + [map_reduce(5), map_reduce("none", map="syntax(")],
    "out": [map_reduce(out=out) for out in (
        5, None, [], True, "", {}, {"inline": 0}, {"inline": True}, {"inline": "x"}, {"inline": {}}, {"inline": 2}, {"inline": 1.0}, {"inline": 1, "replace": "o"}, {"inline": 1, "db": "x"}, {"inline": 1, "sharded": True}, {"replace": ""}, {"replace": 5}, {"merge": 5}, {"reduce": None}, {"foo": "o"}, {"normal": "o"}, {"replace": "o", "merge": "o"}, {"replace": "o", "foo": 1}, {"replace": "o", "sharded": False},
        {"replace": "o", "sharded": True}, {"replace": "o", "nonAtomic": False}, {"replace": "o", "nonAtomic": "x"}, {"replace": "system.foo"}, {"replace": "system.js"}, {"merge": "system.foo"}, {"reduce": "system.foo"}, {"replace": "a$b"}, {"replace": "o", "db": ""}, {"replace": "o", "db": 5}, {"replace": "o", "db": "a b"}, {"replace": "o", "db": "admin"}, {"merge": "o", "db": "config"},
    )],
}  # fmt: skip


@pytest.mark.parametrize("name", EMITTED)
def test_emitted(same, name):
    same([emits(f"emit({text},1)" if name == "keys" else f"emit(1,{text})") for text in EMITTED[name]])


def test_emitting(same):
    same([emits(text, sort={"_id": 1}) for text in EMITTING])


@pytest.mark.parametrize("name", MAP_REDUCES)
def test_map_reduce(same, name):
    same(MAP_REDUCES[name])


OLD = {"insert": "OTHER", "documents": [{"_id": "x", "value": 100, "more": 1}, {"_id": "old", "value": 1}, {"_id": "z", "other": 1}]}
LETTERS = [{"_id": 1, "a": 1, "k": "x"}, {"_id": 2, "a": 5, "k": "y"}, {"_id": 3, "a": 7, "k": "x"}, {"_id": 4, "k": "z"}]
READ_OTHER = {"find": "OTHER", "sort": {"_id": 1}}


def writes(out, before=(OLD,), **changes):
    return [*before, map_reduce("COLL", out=out, sort={"_id": 1}, **changes), READ_OTHER, {"drop": "OTHER"}]


OUTPUTS = {
    "name": writes("OTHER"), "replace": writes({"replace": "OTHER"}), "merge": writes({"merge": "OTHER"}), "reduce": writes({"reduce": "OTHER"}), "new": [step for mode in ("replace", "merge", "reduce") for step in writes({mode: "OTHER"}, before=())],
    "reduce_shows": writes({"reduce": "OTHER"}, reduce="function(k,v){return tojson(v)}"), "reduce_finalizes": writes({"reduce": "OTHER"}, finalize="function(k,v){return 'F'+v}"),
    "not_atomic": [step for mode in ("replace", "merge", "reduce") for step in writes({mode: "OTHER", "nonAtomic": True})],
    "fails": [*writes("OTHER", map="function(){throw 'x'}"), *writes({"merge": "OTHER"}, reduce="function(){throw 'x'}"), *writes("OTHER", map="syntax(")],
    "itself": [map_reduce("COLL", out="COLL"), ALL, {"insert": "COLL", "documents": [{"_id": 9, "a": 3, "k": "w"}]}, map_reduce("COLL", out={"merge": "COLL"}, query={"a": 3}), ALL],
    "from_none": [map_reduce("OTHER", out="COLL"), ALL],
    "keys": [step for key in ("/a/", "{$a:1}", "{a:undefined}") for mode in ("replace", "merge") if (key, mode) != ("{$a:1}", "merge") for step in writes({mode: "OTHER"}, before=(), map="function(){emit(%s,1)}" % key)],
    "dollar_values": writes("OTHER", before=(), map="function(){emit('a',{'$b':1})}", reduce="function(k,v){return {$c:v[0],'d.e':1}}"),
    "indexes": writes("OTHER", before=[OLD, {"createIndexes": "OTHER", "indexes": [{"key": {"value": 1}, "name": "v"}]}])[:-1] + [{"listIndexes": "OTHER"}],
    "validated": [{"create": "OTHER", "validator": {"value": {"$lt": 0}}}, map_reduce("COLL", out={"merge": "OTHER"}, query={"_id": 1}), READ_OTHER, map_reduce("COLL", out="OTHER", query={"_id": 1}), map_reduce("COLL", out={"merge": "OTHER"}, bypassDocumentValidation=True), READ_OTHER],
    "capped": [{"create": "OTHER", "capped": True, "size": 5000}, map_reduce("COLL", out="OTHER"), map_reduce("COLL", out={"merge": "OTHER"}), READ_OTHER],
    "views": [{"create": "OTHER", "viewOn": "COLL", "pipeline": []}, map_reduce("OTHER"), *(map_reduce("COLL", out={mode: "OTHER"}) for mode in ("replace", "merge", "reduce"))],
    "time_series": [{"create": "OTHER", "timeseries": {"timeField": "t"}}, map_reduce("OTHER"), map_reduce("COLL", out="OTHER")],
    "databases": [step for mode in ("replace", "merge", "reduce") for step in (map_reduce("COLL", out={mode: "OTHER", "db": "javascript2"}), ("javascript2", READ_OTHER))],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_map_reduce_writes(pair, name):
    run(pair, f"map_reduce_{name}", OUTPUTS[name], LETTERS, leave=("javascript2",))


def test_map_reduce_explained(same):
    commands = [
        map_reduce(), map_reduce(finalize="function(k,v){return v}", query={"k": "x"}, sort={"a": 1}, limit=3), map_reduce(out="o"), map_reduce(out={"merge": "o"}), map_reduce(out={"reduce": "o"}), map_reduce(out={"reduce": "o"}, finalize="function(k,v){return v}"),
        map_reduce(out={"merge": "o", "db": "p"}), map_reduce("none"), map_reduce(map=5),
    ]  # fmt: skip
    # The first stage is the cursor's plan.
    explained = [{"explain": command, "verbosity": "queryPlanner"} for command in commands]
    same(explained, lambda reply: Doc((name, value[1:] if name == "stages" else value) for name, value in without_engine(reply) if name not in ("serverInfo", "serverParameters")))


# -- limits

LOOP = "while(true){}"
INTERRUPTED = {
    "where": {"find": "people", "filter": {"$where": LOOP}}, "where_count": {"count": "people", "query": {"$where": LOOP}}, "where_update": update({"$where": LOOP}, {"$set": {"x": 1}}, "people"),
    "where_sleeps": {"find": "people", "filter": {"$where": "sleep(50000)"}}, "where_catches": {"find": "people", "filter": {"$where": "try{while(1){}}catch(e){return true}"}}, "where_at_last": {"find": "people", "filter": {"$where": "try{while(1){}}finally{return true}"}},
    "where_matches": {"find": "people", "filter": {"$where": "/(a+)+$/.test('%sb')" % ("a" * 32)}},
}  # fmt: skip
CALLS = {
    "function": compute(function("function(){while(1){}}"), "people"), "function_in_find": {"find": "people", "filter": {"$expr": function("function(){while(1){}}")}}, "accumulator": accumulated(accumulator(init="function(){for(;;){}}")), "map": map_reduce(map="function(){while(1){}}"),
    "reduce": map_reduce(reduce="function(k,v){while(1){}}"), "finalize": map_reduce(finalize="function(k,v){while(1){}}"), "function_sleeps": compute(function("function(){sleep(50000)}"), "people"),
}  # fmt: skip


@pytest.mark.parametrize("name", INTERRUPTED)
def test_time_is_up(same, name):
    same([{**INTERRUPTED[name], "maxTimeMS": 150}])


@pytest.mark.parametrize("name", {**INTERRUPTED, **CALLS})
def test_killed(pair, _documents, name):
    command = {**INTERRUPTED, **CALLS}[name]
    replies = []
    for server in (pair.subject, pair.oracle):
        killer = threading.Thread(target=kill, args=(server,))
        killer.start()
        replies.append(canonical.text(cases.normalise(without_engine(server.run(DATABASE, command)), Case(name, []), True)))
        killer.join()
    assert replies[0] == replies[1]


def kill(server):
    """Ends what runs on the collection, once it runs."""
    deadline = time.monotonic() + 20
    with server.connect() as client:
        while time.monotonic() < deadline:
            time.sleep(0.1)
            for operation in client.admin.command("currentOp")["inprog"]:
                if operation.get("ns") == f"{DATABASE}.people":
                    client.admin.command("killOp", op=operation["opid"])
                    return


TIMEOUT = "internalQueryJavaScriptFnTimeoutMillis"


def test_one_call_takes_too_long(pair, same):
    servers_of = (pair.subject, pair.oracle)
    try:
        same([("admin", {"setParameter": 1, TIMEOUT: 100})])
        same([INTERRUPTED["where"], INTERRUPTED["where_sleeps"], INTERRUPTED["where_catches"], *CALLS.values()])
    finally:
        for server in servers_of:
            server.run("admin", {"setParameter": 1, TIMEOUT: 60000})


PARAMETERS = {TIMEOUT: [0, -1, "x", None, 60000, 60000.5], "internalQueryMaxJsEmitBytes": [0, -1, "x", 104857600]}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(same, name):
    same([("admin", {"getParameter": 1, name: 1}), *(("admin", {"setParameter": 1, name: value}) for value in PARAMETERS[name]), ("admin", {"getParameter": 1, name: 1})])


def test_emitted_bytes(pair, same):
    try:
        same([("admin", {"setParameter": 1, "internalQueryMaxJsEmitBytes": 1000})])
        same([map_reduce(map="function(){emit(1,'x'.repeat(%d))}" % length, reduce="function(k,v){return v.length}") for length in (500, 900, 1100)] + [map_reduce(map="function(){for(var i=0;i<20;i++) emit(i,'x'.repeat(100))}")])
    finally:
        for server in (pair.subject, pair.oracle):
            server.run("admin", {"setParameter": 1, "internalQueryMaxJsEmitBytes": 104857600})


# -- without JavaScript

# How a server is told to have none.
DISABLED = {servers.Mongod: ["--noscripting"], servers.Meridian: ["--javascript", "off"]}


@pytest.fixture(scope="module")
def without_javascript():
    kind = servers.Mongod if os.environ.get("MERIDIAN_TEST_PEER") == "mongod" else servers.Meridian
    with kind(arguments=DISABLED[kind]) as subject, servers.Mongod(arguments=DISABLED[servers.Mongod]) as oracle:
        for server in (subject, oracle):
            server.run(DATABASE, {"insert": "people", "documents": COLLECTIONS["people"]})
        yield subject, oracle


def test_without_javascript(without_javascript):
    code = ["true", "", 5, Code("x", {"a": 1}), "syntax("]
    commands = [
        *(find({"$where": given}) for given in code), find(ONE, "none"), find({"a": {"$elemMatch": ONE}}), find({"a": ONE}), {"count": "people", "query": ONE}, {"distinct": "people", "key": "a", "query": ONE}, update(ONE, {"$set": {"z": 1}}, "people"), {"delete": "people", "deletes": [{"q": ONE, "limit": 1}]},
        {"findAndModify": "people", "query": ONE, "remove": True}, {"explain": {"find": "people", "filter": ONE}, "verbosity": "queryPlanner"}, aggregate({"$match": ONE}),
        compute(IS_ONE, "people"), compute(IS_ONE, "none"), compute({"$function": {}}, "people"), compute({"$function": 5}, "people"), aggregate({"$match": {"$expr": IS_ONE}}), find({"$expr": IS_ONE}), find({}, projection={"q": IS_ONE}), update({}, [{"$set": {"q": IS_ONE}}], "people"), {"create": "v", "validator": {"$expr": IS_ONE}},
        accumulated(accumulator()), accumulated(accumulator(), collection="none"), accumulated({"$accumulator": {}}), map_reduce(), map_reduce("none"), map_reduce(out="o"), map_reduce(map=5), {"mapReduce": "people"}, {"create": "w", "viewOn": "people", "pipeline": [{"$project": {"q": IS_ONE}}]}, {"find": "w"},
        {"insert": "o", "documents": [{"_id": 1, "c": Code("x")}]}, {"find": "o"},
    ]  # fmt: skip
    case = Case("none", [], database=DATABASE, rewrite=without_engine)
    for command in commands:
        cases.compare_command(*without_javascript, case, command)


# -- what mongod does and nobody relies on

# Each with what Meridian answers: the values of `r`, or an error's code.
ODDITIES = {
    # mongod keeps the order of fields whose names are numbers; in the language these come first.
    "number_names": (compute(function("function(x){return Object.keys(x)}", {"$literal": SON([("b", 1), ("10", 2), ("2", 3)])})), [["2", "10", "b"]]),
    # mongod: [object BSON].
    "class_of_documents": (compute(function("function(x){return Object.prototype.toString.call(x)}", "$$ROOT")), ["[object Object]"]),
    # mongod puts a slash behind the pattern, makes documents of what it has other names for, and leaves holes out.
    "regex_at_top": (returns("/a/g"), ["regex(/a/g)"]),
    "pointer_at_top": (returns("DBPointer('c', ObjectId('0123456789abcdef01234567'))"), ["dbpointer(c, 0123456789abcdef01234567)"]),
    # mongod makes doubles of the elements of arrays that were read; here what was not changed is as it was.
    "array_read": (compute({"$type": {"$first": {"$getField": {"field": "arr", "input": function("function(x){x.arr; return x}", "$$ROOT")}}}}, "nested"), ["int"]),
    # mongod refuses an option `x` of a pattern when the field is read; here it is left out.
    "option_x": (where("this.r.source == 'a'", "flagged"), 1),
    # Comments at the end of a body are refused by mongod.
    "comment_behind_return": (compute(function("return 1 // c")), ["double(1.0)"]),
    "comment_behind_expression": (compute(function("1 // c")), ["double(1.0)"]),
    # "TypeError: parseTree.body[lastStatement] is undefined"
    "empty_body": (compute(function("")), "int32(139)"),
    "blank_body": (where(" "), "int32(139)"),
    # mongod says "uncaught exception: [object Object]" in $where only.
    "object_thrown": (where("throw {a:1}", "one"), "int32(139)"),
    "error_without_words": (runs("throw new Error('')"), "int32(139)"),
    # A getter that throws is code 1 in mongod, as an error of its own.
    "getter_throws": (returns("{get a(){throw new Error('g')}}"), "int32(139)"),
    # The engine's name of the error: mongod's is InternalError.
    "recursion": (runs("try{function f(){return f()+1}; f()}catch(e){return e.name}"), ["RangeError"]),
    "recursion_uncaught": (runs("(function f(){f()})()"), "int32(139)"),
    # The message does not say how large it is.
    "too_large": (compute({"$type": function("function(){return {a:'x'.repeat(17*1024*1024)}}")}), "int32(17260)"),
    # mongod adds " (UTC)".
    "date_text": (returns("String(new Date(0))"), ["Thu Jan 01 1970 00:00:00 GMT+0000"]),
    "decimal_too_large": (returns("NumberDecimal('1E9999')"), "int32(2)"),
    # Helpers of mongod's tests and shell that are not here.
    "helpers": (returns("[typeof buildInfo, typeof bsonWoCompare, typeof bsonUnorderedFieldsCompare, typeof bsonBinaryEqual, typeof bsonObjToArray, typeof tostrictjson, typeof assert, typeof doassert, typeof sortDoc, typeof getJSHeapLimitMB, typeof Object.bsonsize]"), [["undefined"] * 11]),
    # Constant arguments are computed when the pipeline is parsed: only the error's prefix is another one.
    "constant_fails": (compute(function("function(x){return x}", {"$divide": [1, 0]})), "int32(2)"),
    # A bad merge function is noticed though nothing is merged.
    "merge_syntax": (accumulated(accumulator(merge="syntax(")), "int32(139)"),
    "finalize_empty": (accumulated(accumulator(finalize="")), "int32(139)"),
    "code_as_arguments": (accumulated(accumulator(accumulateArgs=Code("function(){return 3}"))), "int32(4544712)"),
    "accumulator_within": (aggregate({"$project": {"r": {"$sum": accumulator()}}}), "int32(168)"),
    "map_empty": (map_reduce(map=""), "int32(139)"),
    # mongod does not read the filter of a count where there is no collection.
    "count_none": ({"count": "none", "query": {"$where": "syntax("}}, "int32(139)"),
    # As $merge says it everywhere: mongod's message names the field.
    "key_null": (map_reduce(out={"merge": "o"}, map="function(){emit(null,1)}"), "int32(51132)"),
    # In mongod the query by which $merge finds what is there takes the key for an operator.
    "key_with_dollar": (map_reduce(out={"merge": "o"}, map="function(){emit({$a: 1},1)}"), "int32(52)"),
    "bad_target": (map_reduce(out={"merge": "$a"}), "int32(20)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODDITIES)
def test_oddity(pair, _documents, name):
    command, expected = ODDITIES[name]
    reply = pair.subject.run(DATABASE, command)
    if isinstance(expected, str):
        assert reply.get("code") == expected, canonical.text(reply)
        return
    batch = reply.get("cursor").get("firstBatch")
    found = len(batch) if isinstance(expected, int) else [plain_value(row.get("r")) for row in batch]
    assert found == expected, canonical.text(reply)


def plain_value(value):
    """A canonical value in which texts have no quotes."""
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value.strip('"') if isinstance(value, str) else value
