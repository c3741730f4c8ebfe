"""The owner's page at `/`, and its two files; static, without anything of the body in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from quart import Response

from .routing import PUBLIC, Api

WEB = Path(__file__).parent / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def add(api: Api) -> None:
    for path, name in (
        ("/", "index.html"),
        ("/console.js", "console.js"),
        ("/console.css", "console.css"),
        ("/view.js", "view.js"),
    ):
        api.get(path, PUBLIC)(_static(WEB / name))


def _static(path: Path) -> Callable[[], Awaitable[Response]]:
    content, kind = path.read_bytes(), TYPES[path.suffix]

    async def view() -> Response:
        return Response(content, headers={**HEADERS, "content-type": kind})

    return view
