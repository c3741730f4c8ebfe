"""What every test shares: a deterministic hypothesis profile, and how often to repeat.

Nothing here starts anything; X servers, sandboxes and daemons belong to the folders that use them.
"""

from __future__ import annotations

import os
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

SOAK = bool(os.environ.get("BODYD_SOAK"))

settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile("soak" if SOAK else "ci")


class Times(Protocol):
    def __call__(self, full: int, share: int = 10) -> int: ...


@pytest.fixture
def times() -> Times:
    """How often to do something that `make soak` does *full* times: once in *share* in `make test`."""
    return lambda full, share=10: full if SOAK else max(1, full // share)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a soak, tests that scale with `times` are part of it."""
    for item in items if SOAK else ():
        if "times" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.soak)
