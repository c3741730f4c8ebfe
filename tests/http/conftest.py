"""A fake body behind the real app, behind the real listener, on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bodyd.client import BodyClient
from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.listener import Bound, listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens

from .fake_body import FakeBody


@pytest.fixture
def body() -> FakeBody:
    return FakeBody()


@pytest.fixture
def services(body: FakeBody) -> Services:
    return Services(body=body, tokens=Tokens.fresh())


@pytest.fixture
async def bound(services: Services, tmp_path: Path) -> AsyncIterator[Bound]:
    async with listen(create_app(services), port=0, unix_path=tmp_path / "api.sock") as where:
        yield where


@pytest.fixture
async def client(services: Services, bound: Bound) -> AsyncIterator[BodyClient]:
    async with BodyClient(socket_path=bound.unix_path, token=services.tokens.token(Scope.OWNER)) as client:
        yield client


@pytest.fixture
def bearer(services: Services) -> Callable[[Scope], dict[str, str]]:
    """Headers that authorise a scope, for `wire.head`."""
    return lambda scope: {"authorization": f"Bearer {services.tokens.token(scope)}"}
