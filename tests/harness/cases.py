"""One differential case: documents, indexes, commands; run on both servers, replies compared.

A table is a list of `Case`s. Strings `COLL` in commands stand for the case's own collection,
`OTHER` for a second one. Replies are compared whole, after `normalise` took away what must
differ (cluster time, cursor ids, UUIDs, timings).
"""

import dataclasses
import re
from typing import Any, Callable, Optional

import bson

from . import canonical
from .canonical import Doc

DATABASE = "diff"

# Stages whose output has no defined order.
LOSES_ORDER = {"$group", "$sample", "$bucket", "$sortByCount"}

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")

# Parts of messages that show mongod's inside and that nobody acts on: its parse tree, its index builder.
MESSAGE_NOISE = re.compile(
    r"ns=\S*?Tree: .*? (?=planner returned error)"
    r"|Index build failed: <uuid>: Collection \S+ \( <uuid> \) :: caused by :: "
    r"|index build on empty collection failed: <uuid> :: caused by :: "
    r"|Caught exception during index builder .*? initialization on namespace.*?First index spec: .*? :: caused by :: "
    r"| in element with field name '[^']*'",
    re.DOTALL,
)

# Reply fields that say nothing about the answer.
VOLATILE = {"operationTime", "$clusterTime", "electionId", "opTime", "lastCommittedOpTime", "$gleStats"}


@dataclasses.dataclass
class Case:
    """What to set up, what to ask, and how strictly to compare."""

    name: str
    commands: list  # command documents, or one
    docs: list = dataclasses.field(default_factory=list)
    indexes: list = dataclasses.field(default_factory=list)  # specs for createIndexes, or bare keys
    options: dict = dataclasses.field(default_factory=dict)  # options of `create`
    fixture: Optional[str] = None  # the name of a shared, read-only collection instead of `docs`
    ordered: Optional[bool] = None  # None: ordered exactly when a sort is asked for
    sets: tuple = ()  # dotted reply paths of arrays whose order means nothing
    ignore: tuple = ()  # dotted reply paths left out of the comparison
    message_differs: Optional[str] = None  # the reason why errmsg may differ
    rewrite: Optional[Callable] = None  # applied to both replies before they are compared
    database: str = DATABASE
    xfail: Optional[str] = None  # a known gap: must fail, with the reason
    leave: tuple = ()  # databases to drop afterwards

    def __post_init__(self):
        if isinstance(self.commands, dict):
            self.commands = [self.commands]

    @property
    def collection(self):
        return "c_" + re.sub(r"[^a-zA-Z0-9]+", "_", self.name)[:60]


class Mismatch(AssertionError):
    """The two servers answered differently."""


def substitute(value, names):
    """The value with COLL and OTHER replaced in every string and name."""
    if isinstance(value, str):
        for token, name in names.items():
            value = value.replace(token, name)
        return value
    if isinstance(value, bson.SON):
        return bson.SON((substitute(k, names), substitute(v, names)) for k, v in value.items())
    if type(value) is dict:
        return {substitute(k, names): substitute(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [substitute(item, names) for item in value]
    if isinstance(value, tuple):  # (database, command)
        return tuple(substitute(item, names) for item in value)
    return value


def index_spec(index):
    """A full index specification from a bare key or a specification without a name."""
    spec = dict(index) if "key" in index else {"key": index}
    if "name" not in spec:
        spec["name"] = "_".join(f"{path}_{direction}" for path, direction in spec["key"].items())
    return spec


# -- running


def run_case(subject, oracle, case, fixtures=None):
    """Runs the case on both servers; raises `Mismatch` on the first difference."""
    collection = fixtures.collection(case.fixture) if case.fixture else case.collection
    names = {"COLL": collection, "OTHER": case.collection + "_other"}
    try:
        if not case.fixture:
            for server in (subject, oracle):
                set_up(server, case, names)
        for number, command in enumerate(case.commands):
            compare_command(subject, oracle, case, substitute(command, names), number)
    finally:
        if not case.fixture:
            for server in (subject, oracle):
                tear_down(server, case, names)


def set_up(server, case, names):
    """Creates the collection with its documents, then its indexes; a failure here is a mismatch too."""
    name = names["COLL"]
    if case.options:
        must(server, case, {"create": name, **substitute(case.options, names)})
    if case.docs:
        must(server, case, {"insert": name, "documents": case.docs})
    if case.indexes:
        must(server, case, {"createIndexes": name, "indexes": [index_spec(index) for index in case.indexes]})


def must(server, case, command):
    reply = server.run(case.database, command)
    if reply.get("ok") != "double(1.0)" or reply.get("writeErrors"):
        raise Mismatch(f"set-up failed on {server.name}: {show(command)}\n{canonical.text(reply)}")


def tear_down(server, case, names):
    for name in names.values():
        server.run(case.database, {"drop": name})
    for database in case.leave:
        server.run(database, {"dropDatabase": 1})


def compare_command(subject, oracle, case, command, number=0):
    database = case.database
    if isinstance(command, tuple):  # (database, command)
        database, command = command
    if callable(command):
        command(subject)
        command(oracle)
        return
    expected = oracle.run(database, command)
    actual = subject.run(database, command)
    ordered = is_ordered(command) if case.ordered is None else case.ordered
    expected_text, actual_text = (
        canonical.text(normalise(reply, case, ordered)) for reply in (expected, actual)
    )
    if expected_text == actual_text:
        return
    raise Mismatch(describe(case, command, number, expected, actual, expected_text, actual_text))


def is_ordered(command):
    """Whether a command's reply has a defined order: a sort was asked for."""
    target = command.get("explain", command) if isinstance(command.get("explain"), dict) else command
    if target.get("sort"):
        return True
    pipeline = target.get("pipeline")
    ordered = False
    for stage in pipeline if isinstance(pipeline, list) else []:
        if isinstance(stage, dict):
            ordered = "$sort" in stage or (ordered and not LOSES_ORDER.intersection(stage))
    return ordered


def as_by_scan(subject, oracle, case, command, scanned):
    """Whether Meridian answers by index what mongod answers by scanning the collection `scanned`.

    mongod disagrees with itself at times: a sparse index hides documents from a range, nested
    arrays escape their bounds, a covered projection shows a missing field as null.
    """
    verb = next(iter(command))
    if "hint" in command or verb not in {"find", "count", "distinct", "aggregate"}:
        return False
    ordered = is_ordered(command)
    replies = oracle.run(case.database, {**command, verb: scanned}), subject.run(case.database, command)
    texts = [canonical.text(drop_path(normalise(reply, case, ordered), ["cursor", "ns"])) for reply in replies]
    return texts[0] == texts[1]


# -- comparing


def normalise(reply, case, ordered):
    """The reply without what must differ between two servers."""
    reply = reply.without(*VOLATILE)
    if case.rewrite:
        reply = case.rewrite(reply)
    if isinstance(case.ignore, (tuple, list)):
        for path in case.ignore:
            reply = drop_path(reply, path.split("."))
    if case.message_differs:
        reply = drop_path(reply, ["errmsg"])
        reply = drop_path(reply, ["writeErrors", "*", "errmsg"])
    cursor = reply.get("cursor")
    if isinstance(cursor, Doc):
        if cursor.get("id") not in (None, "int64(0)"):
            cursor = cursor.replace("id", "int64(open)")
        for batch in ("firstBatch", "nextBatch"):
            items = cursor.get(batch)
            if items is not None and not ordered:
                cursor = cursor.replace(batch, sorted(items, key=canonical.text))
        # (mongod itself orders these fields one way for a missing collection and another for the rest)
        reply = reply.replace("cursor", Doc(sorted(cursor, key=lambda pair: pair[0])))
    for field in ("keysPerIndex", "indexSizes"):
        if isinstance(reply.get(field), Doc):
            reply = reply.replace(field, Doc(sorted(reply.get(field), key=lambda pair: pair[0])))
    if not ordered and isinstance(reply.get("values"), list):
        reply = reply.replace("values", sorted(reply.get("values"), key=canonical.text))
    for path in case.sets:
        reply = sort_path(reply, path.split("."))
    # Field order matters inside documents, not at the top of a reply.
    return Doc(sorted(((key, hide_uuids(value)) for key, value in reply), key=lambda pair: pair[0]))


def hide_uuids(value):
    """UUIDs of collections (also inside messages) are the server's choice; that one is there counts."""
    if isinstance(value, Doc):
        return Doc((key, "uuid" if key == "uuid" and canonical.uuid_text(item) else hide_uuids(item)) for key, item in value)
    if isinstance(value, list):
        return [hide_uuids(item) for item in value]
    return MESSAGE_NOISE.sub("", UUID.sub("<uuid>", value))


def at_path(value, path, change):
    """The value with `change` applied to what the path names; `*` stands for every element or field."""
    if not path:
        return change(value)
    head, rest = path[0], path[1:]
    if isinstance(value, Doc):
        fields = Doc()
        for key, item in value:
            if key == head or head == "*":
                item = at_path(item, rest, change)
                if item is None:
                    continue
            fields.append((key, item))
        return fields
    if isinstance(value, list):
        if head == "*" or head.isdigit():
            items = [
                at_path(item, rest, change) if head in ("*", str(position)) else item
                for position, item in enumerate(value)
            ]
            return [item for item in items if item is not None]
        return [at_path(item, path, change) for item in value]
    return value


def drop_path(value, path):
    return at_path(value, path, lambda _: None)


def sort_path(value, path):
    return at_path(value, path, lambda item: sorted(item, key=canonical.text) if isinstance(item, list) else item)


def describe(case, command, number, expected, actual, expected_text, actual_text):
    """A message that names what differs first, and says how to ask again by hand."""
    lines = [f"{kind_of_difference(expected, actual)}", f"command {number}: {show(command)}"]
    if case.fixture:
        lines.append(f"fixture: {case.fixture}")
    if case.indexes:
        lines.append(f"indexes: {case.indexes}")
    if case.options:
        lines.append(f"options: {show(case.options)}")
    if case.docs:
        shown = ", ".join(show(document) for document in case.docs[:8])
        lines.append(f"docs: [{shown}{', …' if len(case.docs) > 8 else ''}]"[:2000])
    lines += difference(expected_text, actual_text)
    return "\n".join(lines)


def error_of(reply):
    if reply.get("ok") == "double(0.0)":
        return reply
    errors = reply.get("writeErrors")
    return errors[0] if errors else None


def kind_of_difference(expected, actual):
    """The heading a failure is grouped by."""
    wanted, got = error_of(expected), error_of(actual)
    if got and "not implemented" in str(got.get("errmsg")):
        return f"NOT IMPLEMENTED {got.get('errmsg')}"
    if wanted and not got:
        return f"NO ERROR, expected {wanted.get('code')} {wanted.get('errmsg')}"
    if got and not wanted:
        return f"ERROR {got.get('code')} {got.get('errmsg')}"
    if wanted and got:
        if wanted.get("code") != got.get("code"):
            return f"CODE {got.get('code')} ({got.get('errmsg')}), expected {wanted.get('code')} ({wanted.get('errmsg')})"
        if wanted.get("errmsg") != got.get("errmsg"):
            return f"MESSAGE {got.get('errmsg')}, expected {wanted.get('errmsg')}"
        return "ERROR FIELDS"
    return "ANSWER"


def difference(expected, actual, lines_max=40):
    """The lines that differ, as mongod's (-) and Meridian's (+)."""
    import difflib

    left, right = expected.replace(", ", ",\n").splitlines(), actual.replace(", ", ",\n").splitlines()
    lines = [line for line in difflib.unified_diff(left, right, "mongod", "meridian", lineterm="", n=2)]
    if len(lines) > lines_max:
        lines = lines[:lines_max] + [f"… {len(lines) - lines_max} more lines"]
    return lines


def show(value: Any) -> str:
    """A command as text to paste into Python."""
    shown = repr(value)
    return shown if len(shown) < 1500 else shown[:1500] + " …"
