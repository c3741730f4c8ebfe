"""Real sandboxes, as in tests/desktop: a place and uids of its own for each test, and nothing left."""

from tests.desktop.conftest import configure, nothing_left, place

__all__ = ["configure", "nothing_left", "place"]
