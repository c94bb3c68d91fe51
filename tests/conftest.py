"""Fixtures of all tests from outside, and the summary of failures by area."""

import collections
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from harness import servers  # noqa: E402

GAPS_FILE = pathlib.Path(__file__).parent / "known-gaps.txt"


@pytest.fixture(scope="session")
def _subject():
    server = servers.start_subject()
    yield server
    server.close()


@pytest.fixture(scope="session")
def _oracle():
    server = servers.start_oracle()
    yield server
    server.close()


@pytest.fixture
def subject(_subject):
    """Meridian, alive: brought up again if an earlier test crashed it."""
    _subject.ensure_alive()
    yield _subject
    if not _subject.alive():
        pytest.fail(f"the server died:\n{_subject.log_tail()}")


@pytest.fixture
def oracle(_oracle):
    """The real mongod."""
    _oracle.ensure_alive()
    return _oracle


# -- known gaps: expected failures with their reason, never skipped


def known_gaps():
    """Lines `test id = reason` of known-gaps.txt; a test id may end in `*`."""
    gaps = {}
    if GAPS_FILE.exists():
        for line in GAPS_FILE.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                identity, reason = line.split(" = ", 1)
                gaps[identity.strip()] = reason.strip()
    return gaps


def pytest_collection_modifyitems(items):
    gaps = known_gaps()
    wild = {identity[:-1]: reason for identity, reason in gaps.items() if identity.endswith("*")}
    for item in items:
        identity = short_identity(item.nodeid)
        reason = gaps.get(identity)
        if reason is None:
            reason = next((reason for prefix, reason in wild.items() if identity.startswith(prefix)), None)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


# -- failures by area

AREAS = {
    "query": "query", "projection": "query", "sort": "query", "schema": "query", "random_query": "query",
    "expressions": "aggregate", "stages": "aggregate", "accumulators": "aggregate", "rollup": "aggregate",
    "update": "update", "random_crud": "core", "geo": "geo", "geo_random": "geo", "geo_table": "geo",
    "values": "value", "indexes": "core", "writes": "core", "explain": "core", "limits": "server",
    "commands": "server", "handshake": "server", "wire": "server", "lifecycle": "server",
}  # fmt: skip

_failures = collections.defaultdict(list)


def area_of(nodeid, message=""):
    # A read that is right by scan and wrong by index is the planner's or the executor's matter.
    variants = message.rsplit("variants that differ: ", 1)[1] if "variants that differ: " in message else "none"
    if "none" not in variants:
        return "core"
    stem = pathlib.Path(nodeid.split("::", 1)[0]).stem.removeprefix("test_")
    if stem == "indexes" and "2dsphere" in nodeid:
        return "geo"
    return AREAS.get(stem, "core")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and call.excinfo is not None:
        message = str(call.excinfo.value)
        _failures[area_of(item.nodeid, message)].append((item.nodeid, message))


def short_identity(nodeid):
    """The name that known-gaps.txt uses: the file and the test."""
    path, test = nodeid.split("::", 1)
    return path.rsplit("/", 1)[-1] + "::" + test


_outcomes = {}


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome == "failed":
        message = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message or "")
        failed = report.outcome == "failed" and "[XPASS(strict)]" not in str(report.longrepr)
        expected_to_fail = report.outcome == "skipped" and hasattr(report, "wasxfail")
        _outcomes[short_identity(report.nodeid)] = (failed or expected_to_fail, message)


def rewrite_known_gaps():
    """Drops gaps that closed, keeps the others' reasons, adds what failed anew with what it said."""
    head = [line for line in GAPS_FILE.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    gaps = {identity: reason for identity, reason in known_gaps().items() if _outcomes.get(identity, (True, ""))[0]}
    for identity, (failed, message) in _outcomes.items():
        if failed and identity not in gaps:
            gaps[identity] = message.removeprefix("harness.cases.Mismatch: ").split("\n", 1)[0][:200] or "fails"
    lines = head + [f"{identity} = {reason}" for identity, reason in sorted(gaps.items())]
    GAPS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pytest_sessionfinish():
    if os.environ.get("MERIDIAN_GAPS") == "rewrite":
        rewrite_known_gaps()


def pytest_terminal_summary(terminalreporter):
    if not _failures:
        return
    terminalreporter.section("failures by area")
    for area, failures in sorted(_failures.items(), key=lambda pair: -len(pair[1])):
        kinds = collections.Counter(message.split("\n", 1)[0].split(" ", 1)[0] for _, message in failures)
        counted = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(6))
        terminalreporter.write_line(f"{area:10} {len(failures):5}   {counted}")
    directory = os.environ.get("MERIDIAN_TRIAGE")
    if directory:
        write_triage(pathlib.Path(directory))


def write_triage(directory):
    """One file an area with every failure and its reproduction; the commonest kinds first."""
    directory.mkdir(parents=True, exist_ok=True)
    for area, failures in _failures.items():
        groups = collections.defaultdict(list)
        for identity, message in failures:
            groups[message.split("\n", 1)[0][:160]].append((identity, message))
        with open(directory / f"failures-{area}.md", "w", encoding="utf-8") as out:
            out.write(f"# {len(failures)} failures in {area}\n")
            out.write("\nRun one again: `PYTEST -k '<name>'` as in `make differential ARGS=\"-k …\"`.\n")
            for heading, members in sorted(groups.items(), key=lambda pair: -len(pair[1])):
                out.write(f"\n## {len(members)} × {heading}\n")
                for identity, message in members[:6]:
                    out.write(f"\n### {identity}\n```\n{message[:2500]}\n```\n")
                if len(members) > 6:
                    out.write("\nalso: " + ", ".join(identity.split('::', 1)[1] for identity, _ in members[6:]) + "\n")
