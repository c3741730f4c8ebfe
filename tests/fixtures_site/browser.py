"""A real Chromium showing the site, driven over its debugging pipe: for tests of the site and of eyes.

It stands in for the whole body where a test is about the page or about its pictures alone. The site's
unix socket is reached through a loopback port, as the body reaches it through the egress proxy.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from bodyd_fixtures_site import HOST, URL, Site, serve

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox --no-first-run --no-default-browser-check --disable-gpu --disable-dev-shm-usage "
    "--disable-background-networking --disable-component-update --disable-sync --password-store=basic "
    "--hide-scrollbars --disable-features=Translate,OptimizationHints,MediaRouter"
).split()


class Page:
    """One tab."""

    def __init__(self, send: Any, session: str) -> None:
        self._send, self._session = send, session

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._send(method, params, self._session)

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def show(self, site: Site, *, seed: int, panel_open: bool = False) -> None:
        """Start a new run and return once its page is painted."""
        site.reset(seed=seed, panel_open=panel_open)
        await self.call("Page.navigate", url=URL)
        with trio.fail_after(30):
            await site.until_shown()

    async def evaluate(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Return once a JavaScript expression is true; looked at before every frame."""
        loop = f"const look = () => ({condition}) ? done() : requestAnimationFrame(look); look();"
        with trio.fail_after(30):
            await self.call(
                "Runtime.evaluate", expression=f"new Promise(done => {{ {loop} }})", awaitPromise=True
            )

    async def painted(self) -> None:
        """Return once what was done before is on the screen: two frames later."""
        frames = "requestAnimationFrame(() => requestAnimationFrame(done))"
        await self.call("Runtime.evaluate", expression=f"new Promise(done => {frames})", awaitPromise=True)

    async def offset(self) -> tuple[int, int]:
        """Where the page's corner is on the screen, for a window with a frame as wide below as beside."""
        side = await self.evaluate("(window.outerWidth - window.innerWidth) / 2")
        x, y = await self.evaluate(
            "[window.screenX, window.screenY + window.outerHeight - window.innerHeight]"
        )
        return round(x + side), round(y - side)

    async def rectangle(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, right, bottom in CSS pixels of the viewport."""
        box = await self.evaluate(
            f"(r => [r.left, r.top, r.right, r.bottom])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        return tuple(box)

    async def centre(self, selector: str) -> tuple[int, int]:
        left, top, right, bottom = await self.rectangle(selector)
        return round((left + right) / 2), round((top + bottom) / 2)

    async def screenshot(self) -> bytes:
        """The viewport as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    async def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
            )

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def select_all(self) -> None:
        await self.call("Input.dispatchKeyEvent", type="rawKeyDown", key="a", code="KeyA", modifiers=2,
                        windowsVirtualKeyCode=65, commands=["selectAll"])  # fmt: skip


@asynccontextmanager
async def browsing(
    folder: Path, *, size: tuple[int, int] = (1280, 800), display: str | None = None
) -> AsyncIterator[tuple[Site, Page]]:
    """A site and a page of a Chromium that reaches it; headless unless *display* names an X server."""
    async with trio.open_nursery() as nursery:
        site = await nursery.start(partial(serve, folder / "site.sock", seed=0))
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        await nursery.start(trio.serve_listeners, partial(_forward, folder / "site.sock"), listeners)
        flags = [
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--host-resolver-rules=MAP {HOST}:80 127.0.0.1:{port}",
            f"--window-size={size[0]},{size[1]}",
            "--window-position=0,0",
            "--remote-debugging-pipe",
            "about:blank",
            *(("--headless",) if display is None else ()),
        ]
        async with _chromium(flags, display, folder) as (reading, writing):
            page = await _attach(nursery, reading, writing)
            await page.call("Page.enable")
            if display is None:
                await page.resize(*size)
            yield site, page
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _chromium(flags: list[str], display: str | None, folder: Path) -> AsyncIterator[Any]:
    to_chrome, our_write = os.pipe()
    our_read, from_chrome = os.pipe()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    if display is not None:
        environment["DISPLAY"] = display
    redirect = f'exec "$0" "$@" 3<&{to_chrome} 4>&{from_chrome}'
    process = await trio.lowlevel.open_process(
        ["/bin/bash", "-c", redirect, CHROMIUM, *flags],
        pass_fds=(to_chrome, from_chrome),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_chrome)
    os.close(from_chrome)
    try:
        yield trio.lowlevel.FdStream(our_read), trio.lowlevel.FdStream(our_write)
    finally:
        process.terminate()
        with trio.move_on_after(10, shield=True):
            await process.wait()
        if process.returncode is None:
            process.kill()


async def _attach(nursery: trio.Nursery, reading: Any, writing: Any) -> Page:
    answers: dict[int, tuple[trio.Event, list[dict[str, Any]]]] = {}
    lock = trio.Lock()

    async def read() -> None:
        pending = b""
        async for chunk in reading:
            *messages, pending = (pending + chunk).split(b"\0")
            for message in map(json.loads, messages):
                if message.get("id") in answers:
                    event, slot = answers.pop(message["id"])
                    slot.append(message)
                    event.set()

    counter = iter(range(1, 10**9))

    async def send(method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        number = next(counter)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        answers[number] = event, slot = trio.Event(), []
        async with lock:
            await writing.send_all(json.dumps(message).encode() + b"\0")
        with trio.fail_after(60):
            await event.wait()
        assert "error" not in slot[0], slot[0]
        return slot[0]["result"]

    nursery.start_soon(read)
    targets = (await send("Target.getTargets", {}))["targetInfos"]
    target = next(t["targetId"] for t in targets if t["type"] == "page")
    session = (await send("Target.attachToTarget", {"targetId": target, "flatten": True}))["sessionId"]
    return Page(send, session)


async def _forward(path: Path, stream: trio.SocketStream) -> None:
    """Pump one loopback connection to the unix socket *path*."""
    async with stream, await trio.open_unix_socket(str(path)) as inner, trio.open_nursery() as nursery:
        nursery.start_soon(_pump, stream, inner)
        nursery.start_soon(_pump, inner, stream)


async def _pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    try:
        async for chunk in source:
            await sink.send_all(chunk)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
