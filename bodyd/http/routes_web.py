"""The owner's page at `/` and its files, and the modules that other pages may embed; all static.

Nothing of the body is in them. A page of a configured origin may load the modules, and nothing else:
no other answer of this server says so to a browser (CORS), so that no page ever needs a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from quart import Response, request

from .routing import PUBLIC, Api

WEB = Path(__file__).parent / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}

MODULES = ("view.js", "bodyd-view.js")
"""What a page of another origin imports to show the body."""


def add(api: Api) -> None:
    api.get("/", PUBLIC)(_static(WEB / "index.html"))
    for name in ("console.css", "console.js", "panels.js", "words.js", "api.js", *MODULES):
        api.get(f"/{name}", PUBLIC)(_static(WEB / name))


def _static(path: Path) -> Callable[[], Awaitable[Response]]:
    content, kind = path.read_bytes(), TYPES[path.suffix]

    async def view() -> Response:
        headers = {**HEADERS, "content-type": kind}
        if path.name in MODULES:
            headers |= _lent(request.headers.get("origin"))
        return Response(content, headers=headers)

    return view


def _lent(origin: str | None) -> dict[str, str]:
    """Lets the page that asks run a module. Its origin is a configured one, or the gate had refused it."""
    allowed = {} if origin is None else {"access-control-allow-origin": origin}
    return {"vary": "origin", **allowed}
