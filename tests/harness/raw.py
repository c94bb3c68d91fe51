"""BSON from Python values whose strings and names need not be UTF-8, which no driver encodes.

A string holds a byte 0xNN that is no UTF-8 as the lone surrogate U+DCNN (Python's `surrogateescape`): see `text`.
"""

import struct

import bson


def text(raw):
    """The string that stands for these bytes."""
    return raw.decode("utf-8", "surrogateescape")


def encode(document):
    """The bytes of a document. What PyMongo encodes, it encodes."""
    try:
        return bson.encode(document)
    except (UnicodeEncodeError, bson.errors.InvalidDocument):
        return _document(document.items())


def _document(items):
    body = b"".join(_element(name, value) for name, value in items)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(name, value):
    kind, content = _value(value)
    return kind + _bytes(name) + b"\0" + content


def _value(value):
    if isinstance(value, bson.Code):  # a kind of str
        return _code(value)
    if isinstance(value, str):
        return b"\x02", _string(value)
    if isinstance(value, (dict, bson.SON)):
        return b"\x03", _document(value.items())
    if isinstance(value, (list, tuple)):
        return b"\x04", _document((str(number), item) for number, item in enumerate(value))
    if isinstance(value, bson.Regex):
        flags = "".join(letter for letter, flag in (("i", 2), ("m", 8), ("s", 16), ("x", 64)) if value.flags & flag)
        return b"\x0b", _bytes(value.pattern) + b"\0" + flags.encode() + b"\0"
    if isinstance(value, Symbol):
        return b"\x0e", _string(value.value)
    if isinstance(value, Pointer):
        return b"\x0c", _string(value.namespace) + bytes(12)
    plain = bson.encode({"": value})
    return plain[4:5], plain[6:-1]


def _code(code):
    if code.scope is None:
        return b"\x0d", _string(code)
    content = _string(code) + _document(code.scope.items())
    return b"\x0f", struct.pack("<i", len(content) + 4) + content


def _string(value):
    content = _bytes(value)
    return struct.pack("<i", len(content) + 1) + content + b"\0"


def _bytes(value):
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


class Symbol:
    """BSON's symbol, which PyMongo reads and does not write."""

    def __init__(self, value):
        self.value = value


class Pointer:
    """BSON's DBPointer, to an identifier of zeros."""

    def __init__(self, namespace):
        self.namespace = namespace
