"""A day's work of ODMs and drivers, on Meridian and on mongod: what they see must be equal.

Each is a program `PROGRAM URI` of named steps, each of them in a database of its own. For a step it prints a line of
extended JSON, `{"step": NAME, "result": VALUE}`, or `"failed"` with the stack. A step is a test; the program runs once.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from harness import cases
from harness.servers import CACHE

HERE = pathlib.Path(__file__).parent
BUILT = CACHE / "drivers"
NODE = CACHE / "node" / "node_modules"

# Short runs need no good compiler.
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", f"{BUILT}/java/classes:{BUILT}/java/dependency/*"]

# By program: how it is called, and its steps.
PROGRAMS = {
    "mongoose": (
        ["node", HERE / "node" / "mongoose_work.js"],
        "validation populate discriminators middleware aggregations geo reading writing indexing timestamps versions collations timeseries capped types sessions",
    ),
    "mongoengine": (
        [sys.executable, "-W", "error", HERE / "python" / "mongoengine_work.py"],
        "documents references querying updating geo indexing aggregating inheritance collections files",
    ),
    "beanie": (
        [sys.executable, "-W", "error", HERE / "python" / "beanie_work.py"],
        "documents links querying updating aggregating indexing revisions series_and_views several_kinds geo sessions",
    ),
    "go": ([BUILT / "go" / "work"], "crud structs bulk cursors aggregation indexes geo types sessions collections timeseries files"),
    "java": ([*JAVA, "work.DriverWork"], "crud records bulk cursors aggregation indexes geo types sessions collections timeseries files"),
    "spring": ([*JAVA, "work.SpringWork"], "crud repositories aggregations geo indexing locking bulk references collections timeseries"),
}
STEPS = [(program, step) for program, (_, steps) in PROGRAMS.items() for step in steps.split()]


def run(program, uri):
    command = [*map(str, PROGRAMS[program][0]), uri]
    environment = {**os.environ, "NODE_PATH": str(NODE), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def outcomes_of(result):
    """What a program printed, by step."""
    assert result.returncode == 0 and result.stderr == "", result.stdout[-2000:] + result.stderr
    return {outcome.pop("step"): outcome for outcome in map(json.loads, result.stdout.splitlines())}


@pytest.fixture(scope="session")
def outcomes(_subject, _oracle):
    """What a program saw of Meridian and of mongod; it runs at both at once, and once only."""
    running = {}

    def of(program):
        if program not in running:
            running[program] = [pool.submit(run, program, server.uri) for server in (_subject, _oracle)]
        return [outcomes_of(one.result()) for one in running[program]]

    with concurrent.futures.ThreadPoolExecutor() as pool:
        yield of


def normalise(value):
    """The value without what must differ: identifiers in messages, and the sort keys of collations."""
    if isinstance(value, dict):
        return {name: normalise(field) for name, field in value.items()}
    if isinstance(value, list):
        return [normalise(item) for item in value]
    if not isinstance(value, str):
        return value
    return re.sub(r'"0x[0-9a-f]+"', '"<sort key>"', cases.MESSAGE_NOISE.sub("", cases.UUID.sub("<uuid>", value)))


def differences(expected, actual, path=""):
    """Lines that say where two values differ, the deepest place of each."""
    if expected == actual and json.dumps(expected) == json.dumps(actual):
        return []
    if isinstance(expected, dict) and isinstance(actual, dict) and list(expected) == list(actual):
        pairs = [(f"{path}.{name}", expected[name], actual[name]) for name in expected]
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = [(f"{path}[{index}]", *pair) for index, pair in enumerate(zip(expected, actual))]
    else:
        return [f"{path or 'all'}\n  mongod:   {json.dumps(expected)}\n  Meridian: {json.dumps(actual)}"]
    return [line for place, *pair in pairs for line in differences(*pair, place)]


@pytest.mark.parametrize("program, step", STEPS, ids=[f"{program}-{step}" for program, step in STEPS])
def test_at_work(subject, oracle, outcomes, program, step):
    actual, expected = outcomes(program)
    assert "result" in expected[step], expected[step]["failed"][-3000:]
    assert "result" in actual[step], actual[step]["failed"][-3000:]
    found = differences(normalise(expected[step]["result"]), normalise(actual[step]["result"]))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_steps_are_asked(outcomes, program):
    assert sorted(outcomes(program)[1]) == sorted(PROGRAMS[program][1].split())
