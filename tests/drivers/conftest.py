"""One Meridian for all driver tests; each test drops what it made."""

import pytest


@pytest.fixture
def database(subject, request):
    """A fresh database for PyMongo."""
    name = f"drv_{request.node.name[:40]}".replace("[", "_").replace("]", "").replace("-", "_")
    subject.client.drop_database(name)
    yield subject.client[name]
    subject.client.drop_database(name)
