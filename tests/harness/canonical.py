"""Raw BSON to a value that compares and prints exactly.

In: the bytes of a document. Out: `Doc` (an ordered list of fields), lists, and one string for
each scalar that names its type: `int32(1)`, `double(1.0)` and `decimal(1)` differ, as do a
symbol and a string. PyMongo's own decoding forgets such differences; drivers do not.
"""

import datetime
import struct
import uuid

import bson
from bson.decimal128 import Decimal128


class Doc(list):
    """A document: its fields in order, as (name, value) pairs."""

    def get(self, name, default=None):
        return next((value for key, value in self if key == name), default)

    def without(self, *names):
        return Doc((key, value) for key, value in self if key not in names)

    def replace(self, name, value):
        return Doc((key, value if key == name else old) for key, old in self)

    def names(self):
        return [key for key, _ in self]


def decode(raw):
    """The canonical value of a BSON document's bytes."""
    document, end = _document(raw, 0)
    if end != len(raw):
        raise ValueError(f"{len(raw) - end} bytes after the document")
    return document


def encode(document):
    """The canonical value of a Python document: what the server would see."""
    return decode(bson.encode(document))


def text(value, indent=0):
    """One readable rendering, one field a line where nested, for messages and comparison."""
    flat = _flat(value)
    if not isinstance(value, list) or (len(flat) + indent < 110 and "\n" not in flat):
        return flat
    pad = "\n" + " " * (indent + 2)
    if isinstance(value, Doc):
        return "{" + ",".join(f"{pad}{key}: {text(item, indent + 2)}" for key, item in value) + "}"
    return "[" + ",".join(pad + text(item, indent + 2) for item in value) + "]"


def _flat(value):
    """The rendering on one line."""
    if isinstance(value, Doc):
        return "{" + ", ".join(f"{key}: {_flat(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flat(item) for item in value) + "]"
    return value


def _cstring(raw, at):
    end = raw.index(b"\0", at)
    return raw[at:end].decode("utf-8", "backslashreplace"), end + 1


def _string(raw, at):
    (length,) = struct.unpack_from("<i", raw, at)
    return raw[at + 4 : at + 3 + length].decode("utf-8", "backslashreplace"), at + 4 + length


def _document(raw, at):
    (length,) = struct.unpack_from("<i", raw, at)
    end = at + length
    at += 4
    fields = Doc()
    while raw[at] != 0:
        kind = raw[at]
        name, at = _cstring(raw, at + 1)
        value, at = _value(raw, at, kind)
        fields.append((name, value))
    if at + 1 != end:
        raise ValueError("a document's length does not match its fields")
    return fields, end


def _date(milliseconds):
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
        return f"date({moment.isoformat()})"
    except OverflowError:
        return f"date({milliseconds} ms)"


def _value(raw, at, kind):
    if kind == 0x01:
        (number,) = struct.unpack_from("<d", raw, at)
        return ("double(NaN)" if number != number else f"double({number!r})"), at + 8
    if kind == 0x02:
        value, at = _string(raw, at)
        return f'"{value}"', at
    if kind == 0x03:
        return _document(raw, at)
    if kind == 0x04:
        fields, at = _document(raw, at)
        return [value for _, value in fields], at
    if kind == 0x05:
        (length,) = struct.unpack_from("<i", raw, at)
        subtype = raw[at + 4]
        data = raw[at + 5 : at + 5 + length]
        return f"binary({subtype}, {data.hex()})", at + 5 + length
    if kind == 0x06:
        return "undefined", at
    if kind == 0x07:
        return f"oid({raw[at:at + 12].hex()})", at + 12
    if kind == 0x08:
        return ("true" if raw[at] else "false"), at + 1
    if kind == 0x09:
        return _date(struct.unpack_from("<q", raw, at)[0]), at + 8
    if kind == 0x0A:
        return "null", at
    if kind == 0x0B:
        pattern, at = _cstring(raw, at)
        options, at = _cstring(raw, at)
        return f"regex(/{pattern}/{options})", at
    if kind == 0x0C:
        namespace, at = _string(raw, at)
        return f"dbpointer({namespace}, {raw[at:at + 12].hex()})", at + 12
    if kind == 0x0D:
        code, at = _string(raw, at)
        return f"code({code})", at
    if kind == 0x0E:
        value, at = _string(raw, at)
        return f"symbol({value})", at
    if kind == 0x0F:
        code, scope_at = _string(raw, at + 4)
        scope, end = _document(raw, scope_at)
        return f"codewithscope({code}, {text(scope)})", end
    if kind == 0x10:
        return f"int32({struct.unpack_from('<i', raw, at)[0]})", at + 4
    if kind == 0x11:
        increment, seconds = struct.unpack_from("<II", raw, at)
        return f"timestamp({seconds}, {increment})", at + 8
    if kind == 0x12:
        return f"int64({struct.unpack_from('<q', raw, at)[0]})", at + 8
    if kind == 0x13:
        return f"decimal({Decimal128.from_bid(raw[at:at + 16])})", at + 16
    if kind == 0x7F:
        return "maxkey", at
    if kind == 0xFF:
        return "minkey", at
    raise ValueError(f"unknown BSON type {kind:#x}")


def uuid_text(binary):
    """The UUID in a canonical `binary(4, …)`, or None."""
    if isinstance(binary, str) and binary.startswith("binary(4, "):
        return str(uuid.UUID(binary[10:-1]))
    return None
