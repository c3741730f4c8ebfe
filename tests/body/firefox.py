"""Debian's Firefox, driven on its own debugging port by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/)."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import trio
from websockets.trio.client import ClientConnection, connect

FIREFOX = shutil.which("firefox-esr")
START_SECONDS, ANSWER_SECONDS, PATIENCE_SECONDS, LOOK_SECONDS = 90, 60, 60, 0.05
WIDTH, HEIGHT = 1500, 1000
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "app.update.enabled": False,
}
_LISTENING = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")


class Failed(Exception):
    """What the browser answered instead."""


class Tab:
    """One tab, and what its page has complained of."""

    def __init__(self, wire: ClientConnection) -> None:
        self._wire = wire
        self._ids = count(1)
        self._context = ""
        self.errors: list[str] = []

    async def open(self) -> None:
        await self._ask("session.new", capabilities={})
        await self._ask("session.subscribe", events=["log.entryAdded"])
        tree = await self._ask("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]
        await self._ask(
            "browsingContext.setViewport", **self._here(), viewport={"width": WIDTH, "height": HEIGHT}
        )

    async def goto(self, url: str) -> None:
        """Returns once the page has loaded."""
        await self._ask("browsingContext.navigate", **self._here(), url=url, wait="complete")

    async def evaluate(self, script: str) -> Any:
        """The value of a script, which has to be a string, a number, a boolean or null."""
        told = await self._ask(
            "script.evaluate", expression=script, target=self._here(), awaitPromise=True, userActivation=True
        )
        if told["type"] == "exception":
            raise Failed(told["exceptionDetails"]["text"])
        return told["result"].get("value")

    async def until(self, condition: str) -> None:
        """Until a script's value is true."""
        for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
            if await self.evaluate(condition):
                return
            await trio.sleep(LOOK_SECONDS)
        raise AssertionError(f"never came true: {condition}; errors: {self.errors}")

    async def box(self, element: str) -> tuple[float, float, float, float]:
        """Left, top, width and height in the viewport of what *element*, a script, evaluates to; it shows."""
        script = f"""(() => {{
          const element = {element};
          element.scrollIntoView({{ block: "nearest" }});
          const {{ x, y, width, height }} = element.getBoundingClientRect();
          return [x, y, width, height].join();
        }})()"""
        x, y, width, height = map(float, (await self.evaluate(script)).split(","))
        return x, y, width, height

    async def click(self, element: str) -> None:
        """In its middle."""
        x, y, width, height = await self.box(element)
        await self.click_at(x + width / 2, y + height / 2)

    async def click_at(self, x: float, y: float) -> None:
        """At a place of the viewport, in CSS pixels."""
        at = {"type": "pointerMove", "x": math.floor(x), "y": math.floor(y)}
        steps = [at, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        await self._act({"type": "pointer", "id": "mouse", "actions": steps})

    async def type(self, text: str) -> None:
        """Key by key."""
        steps = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        await self._act({"type": "key", "id": "keyboard", "actions": steps})

    async def _act(self, source: dict[str, Any]) -> None:
        await self._ask("input.performActions", **self._here(), actions=[source])

    def _here(self) -> dict[str, str]:
        return {"context": self._context}

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        with trio.fail_after(ANSWER_SECONDS):
            await self._wire.send(json.dumps({"id": number, "method": method, "params": params}))
            while True:
                told = json.loads(await self._wire.recv())
                if told.get("id") == number:
                    break
                if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                    self.errors.append(told["params"]["text"])
        if told["type"] == "error":
            raise Failed(f"{method}: {told['error']}: {told['message']}")
        result: dict[str, Any] = told["result"]
        return result


@asynccontextmanager
async def firefox(place: Path) -> AsyncIterator[Tab]:
    """A browser with a fresh profile in *place*, and its one tab."""
    assert FIREFOX is not None
    home = place / "home"
    (profile := place / "profile").mkdir()
    home.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    command = [
        FIREFOX,
        "--headless",
        "--no-remote",
        "--profile",
        str(profile),
        "--remote-debugging-port",
        "0",
    ]
    environment = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "MOZ_CRASHREPORTER_DISABLE": "1",
    }
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        process: trio.Process = await nursery.start(run)
        try:
            with trio.fail_after(START_SECONDS):
                url = await _where(process)
            nursery.start_soon(_drain, process)
            async with connect(f"{url}/session", max_size=None, compression=None) as wire:
                tab = Tab(wire)
                await tab.open()
                yield tab
        finally:
            process.terminate()
        nursery.cancel_scope.cancel(reason="the browser is not needed any more")


async def _where(process: trio.Process) -> str:
    """Where it listens, which it says on stderr."""
    assert process.stderr is not None
    said = b""
    while (found := _LISTENING.search(said)) is None:
        more = await process.stderr.receive_some()
        assert more, said.decode(errors="replace")
        said += more
    return found[1].decode()


async def _drain(process: trio.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.receive_some():
        pass
