"""What real clients are tested against: a whole body, the daemon's gateway, one beside it, and a model.

The daemon's own gateway carries out `computer` and `shell` in its body. The other, `bodyd gateway` with
nothing configured, leaves every call to the client, whose computer is the same body, reached over its API.
Both are tapped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import openresponses_types
import trio
from bodyd_fixtures_site import EGRESS, TASK, URL, Site, Verdict, serve
from openai.types.responses import Response

from bodyd.client import BodyClient
from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token
from tests.adapters.responses.streams import faults
from tests.body.world import World, folder, running_world

from . import kits
from .mind import Mind
from .tap import Exchange, Tap

Json = dict[str, Any]
T = TypeVar("T")

OWNERS = ["client", "body"]
RUN_SECONDS = 300  # a client's whole task on a busy machine
START_SECONDS = 60
SHOWN_SECONDS = 30
NOWHERE = "http://127.0.0.1:9"
_RESPONSES = re.compile(r"/v1/responses(/resp_\w+)?(\?|$)")
CLOSED = {"message", "function_call", "function_call_output", "reasoning", "compaction"}
"""The items that Open Responses' types know; their union is closed."""


class Clients:
    """The world of these tests. Its parts run in a thread of their own; everything here blocks."""

    def __init__(self, body: World, parts: Parts, keys: dict[str, str]) -> None:
        self.body = body
        self._parts = parts
        self._keys = keys
        self.mind = parts.mind
        self.task = TASK

    def fresh(self, *answers: Any) -> None:
        """A body that nobody has, and a model with these answers; without them, a new run of the site."""
        self._parts.call(partial(self._parts.vacate, self._owner))
        self.mind.forget()
        for tap in self._parts.taps.values():
            tap.forget()
        self.mind.answers += answers
        if not answers:
            self._parts.call(partial(self._parts.reload, self._owner))

    def run(self, kit: str, owner: str, mode: str = "", **more: Any) -> Json:
        """Run a kit's client to its end: what it printed last, as JSON.

        Args:
            owner: Who carries calls out, "client" or "body".
            more: What else the client is told.
        """
        told = {
            "base_url": self.url(owner),
            "key": self._keys[owner],
            "body": {"url": self.body.url, "token": self._keys["body"]},
            "root": str(kits.ROOT),
            "mode": mode,
            "task": TASK,
            "headers": {},
            **more,
        }
        return json.loads(self.launch([*kits.command(kit), json.dumps(told)]).splitlines()[-1])

    def launch(self, words: list[str], **env: str) -> str:
        """Run a command as a client without the internet, in a folder of its own; its standard output."""
        with tempfile.TemporaryDirectory(prefix="bodyd-client-") as home:
            offline = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}
            whole = {"PATH": os.environ["PATH"], "HOME": home, **offline, **env}
            done = subprocess.run(
                words,
                env=whole,
                cwd=home,
                capture_output=True,
                text=True,
                check=False,
                timeout=RUN_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def url(self, owner: str) -> str:
        return f"http://127.0.0.1:{self._parts.taps[owner].port}/v1"

    def key(self, owner: str) -> str:
        return self._keys[owner]

    def verdict(self) -> Verdict:
        """The site's own judgement: a click that was carried out twice fails it."""
        return self._parts.call(self._parts.grade)

    def was_done(self, owner: str, result: Json) -> None:
        """The task is done, by the client if it is the owner and else without it: so says the site, too."""
        assert self.verdict().success, self.verdict().reasons
        assert "penguin in the search box, where I can see it" in result["final"]
        wanted = [kind for kind in self.mind.actions() if kind != "screenshot"] if owner == "client" else []
        assert [one for one in result["executed"] if one != "screenshot"] == wanted
        assert self.exchanges(owner)

    def epoch(self) -> int:
        """How often the body has been taken."""
        return int(self._parts.call(partial(self._parts.status, self._owner))["lease"]["epoch"])

    def exchanges(self, owner: str) -> list[Exchange]:
        """What clients sent to a gateway to make or read responses, each answer judged by the oracles."""
        made = [one for one in self._parts.taps[owner].exchanges() if _RESPONSES.match(one.path)]
        for one in made:
            assert one.status == 200, one.answer
            if one.events is not None and not _was_left(one):
                assert faults(one.events) == []
                _judge(one.events[-1]["response"])
            elif one.answer is not None:
                _judge(one.answer)
        return made

    def _owner(self) -> BodyClient:
        return self.body.client(Scope.OWNER)


def _was_left(one: Exchange) -> bool:
    """A background response needs nobody to read its stream to the end."""
    assert one.events is not None
    return bool(one.request.get("background")) and one.events[-1]["type"] != "response.completed"


def _judge(response: Json) -> None:
    """Both oracles take the response; Open Responses' gets the items and tools that it knows."""
    Response.model_validate(response)
    known = {
        **response,
        "output": [item for item in response["output"] if item["type"] in CLOSED],
        "tools": [tool for tool in response["tools"] if tool["type"] == "function"],
    }
    openresponses_types.ResponseResource.model_validate(known)


class Parts:
    """The site, the model's server and the taps, in a thread with a Trio loop."""

    def __init__(self, site_socket: Path) -> None:
        self._socket = site_socket
        self.mind = Mind()
        self.taps: dict[str, Tap] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        ready = threading.Event()
        thread = threading.Thread(target=trio.run, args=(self._main, ready), name="parts")
        thread.start()
        assert ready.wait(START_SECONDS)
        try:
            yield
        finally:
            self.call(self._end)
            thread.join()

    def call(self, what: Callable[[], Any]) -> Any:
        """What an async function returns that runs there."""
        return trio.from_thread.run(what, trio_token=self._token)

    async def _main(self, ready: threading.Event) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery, self._token = nursery, trio.lowlevel.current_trio_token()
            self.site: Site = await nursery.start(partial(serve, self._socket, seed=1))
            listeners = await nursery.start(partial(trio.serve_tcp, self.mind.handle, 0, host="127.0.0.1"))
            self.mind.port = listeners[0].socket.getsockname()[1]
            ready.set()

    async def _end(self) -> None:
        self._nursery.cancel_scope.cancel(reason="the tests are over")

    async def tap(self, owner: str, port: int) -> None:
        self.taps[owner] = await self._nursery.start(Tap(port).serve)

    async def vacate(self, client: Callable[[], BodyClient]) -> None:
        async with client() as owner:
            await owner.revoke(reason="the last client is gone")

    async def reload(self, client: Callable[[], BodyClient]) -> None:
        self.site.reset()
        with trio.fail_after(SHOWN_SECONDS):
            async with client() as owner:
                lease = await owner.acquire("reload", wait_ms=10_000)
                await lease.screenshot()
                await lease.input([{"type": "keypress", "keys": ["F5"]}], binding="none")
                await lease.release()
            await self.site.until_shown()

    async def grade(self) -> Verdict:
        with trio.move_on_after(3):
            await self.site.until_success()
        return self.site.verdict()

    async def status(self, client: Callable[[], BodyClient]) -> Json:
        async with client() as owner:
            return await owner.status()


@contextmanager
def running_clients() -> Iterator[Clients]:
    """All of it; takes as long as a body takes to start."""
    with folder() as root:
        parts = Parts(root / "site.sock")
        with parts.running():
            upstream = {"kind": "responses", "url": parts.mind.url, "native_tools": ["computer", "shell"]}
            sections: dict[str, dict[str, object]] = {
                "desktop": {"start_url": URL},
                "egress": {"local": {EGRESS: str(root / "site.sock")}},
                "shell": {"enabled": True, "policy": {"default": "allow"}},
                "gateway": {"computer": "body", "shell": "body", "upstream": upstream},
            }
            with running_world(root, **sections) as body, _gateway(root, body, parts.mind.url) as (port, key):
                parts.call(partial(parts.tap, "client", port))
                parts.call(partial(parts.tap, "body", int(body.url.rpartition(":")[2])))
                mine = read_token(body.config.state / "private", Scope.DRIVER)
                yield Clients(body, parts, {"client": key, "body": mine})


@contextmanager
def _gateway(root: Path, body: World, upstream: str) -> Iterator[tuple[int, str]]:
    """`bodyd gateway` with nothing configured but the model's server: its port, and a driver's token."""
    state, config, token = root / "alone", root / "alone.toml", root / "token"
    config.write_text(
        f'state_dir = "{state}"\nrun_dir = "{root}/alone-run"\n[http]\nport = 0\n[gateway.upstream]\n'
        f'kind = "responses"\nurl = "{upstream}"\nnative_tools = ["computer", "shell"]\n'
    )
    token.write_text(read_token(body.config.state / "private", Scope.DRIVER))
    words = ["gateway", "--body", str(body.config.api_socket), "--token-file", str(token)]
    with subprocess.Popen(
        [sys.executable, "-m", "bodyd", "--config", str(config), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("serving on "), line
            process.stdout.readline()
            yield (
                int(line.split()[2].split(":")[2].split("/")[0]),
                read_token(state / "gateway", Scope.DRIVER),
            )
        finally:
            process.terminate()
            process.wait(START_SECONDS)
