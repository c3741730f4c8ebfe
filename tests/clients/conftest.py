"""One body for all clients: it is started at the first of these tests, and gone after the last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .world import Clients, running_clients


@pytest.fixture(scope="package")
def clients() -> Iterator[Clients]:
    with running_clients() as made:
        yield made
