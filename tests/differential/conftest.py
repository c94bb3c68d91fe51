"""The pair of servers and the shared collections of the differential tests."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from fixtures import Shared  # noqa: E402
from harness import cases  # noqa: E402


@pytest.fixture(scope="session")
def _shared(_subject, _oracle):
    return Shared((_subject, _oracle))


class Pair:
    """Both servers, and the way to ask them the same thing."""

    def __init__(self, subject, oracle, shared):
        self.subject, self.oracle, self.shared = subject, oracle, shared

    def run_case(self, case):
        cases.run_case(self.subject, self.oracle, case)

    def on_variants(self, fixture, command_for, variants=None, **options):
        """Asks the same of every index variant of a fixture; names all variants that differ.

        mongod sometimes disagrees with itself (a sparse index hides documents from a range): where
        its answer by index is not its answer by scan, the scan's is right too.
        """
        from fixtures import INDEXES

        broken, first = [], None
        for variant in variants or INDEXES[fixture]:
            name = self.shared.collection(fixture, variant)
            case = cases.Case(name=variant, commands=[], database=Shared.database, **options)
            for command in command_for(name):
                try:
                    cases.compare_command(self.subject, self.oracle, case, command)
                except cases.Mismatch as mismatch:
                    scanned = self.shared.collection(fixture, "none")
                    if variant != "none" and cases.as_by_scan(self.subject, self.oracle, case, command, scanned):
                        continue
                    broken.append(variant)
                    first = first or mismatch
                    break
        if first is not None:
            raise cases.Mismatch(f"{first}\nvariants that differ: {', '.join(broken)}")


@pytest.fixture
def pair(subject, oracle, _shared):
    return Pair(subject, oracle, _shared)
