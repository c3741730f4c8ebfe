"""The two HTTP faces of a site: the shop, which the body sees, and the grader's, which it must not."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Protocol

import trio
from quart import Response, request
from quart_trio import QuartTrio

from . import looks, pages
from .grader import Verdict
from .record import BadEvent, Record

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MAX_SEED = 2**63 - 1
HTML = "text/html; charset=utf-8"
CSS = "text/css; charset=utf-8"
JS = "text/javascript; charset=utf-8"
SVG = "image/svg+xml"

Answer = Response | dict[str, Any]


class SiteRecord(Protocol):
    """What the two apps need of a site (site.py)."""

    @property
    def record(self) -> Record: ...

    def next_page(self) -> str: ...

    def take(self, page: str, events: object) -> int: ...

    def verdict(self) -> Verdict: ...

    def reset(self, *, seed: int | None = None, panel_open: bool | None = None) -> None: ...


def shop_app(site: SiteRecord) -> QuartTrio:
    """The shop: `/` and `/filters`, its assets, and `POST /events` for its log.

    `?seed=N` shows the same run in another seed's clothes.
    """
    app = _app("shop")

    def show() -> Response:
        record = site.record
        page = pages.shop(
            seed=_asked_seed(record.seed),
            run=record.run,
            page=site.next_page(),
            panel_open=record.panel_open,
            search=record.search,
        )
        return _text(page, HTML)

    def look() -> Response:
        return _text(looks.stylesheet(looks.look(_asked_seed(site.record.seed))), CSS)

    _get(app, "/", show)
    _get(app, "/filters", show)
    _get(app, "/look.css", look)
    _get(app, "/page.css", lambda: _text(_asset("page.css"), CSS))
    _get(app, "/page.js", lambda: _text(_asset("page.js"), JS))
    _get(app, "/favicon.svg", lambda: _text(pages.FAVICON, SVG))
    _get(app, "/favicon.ico", lambda: Response(b"", status=204))

    @app.post("/events")
    async def events() -> Response:
        return _take(site, await request.get_json(force=True, silent=True))

    return app


def _take(site: SiteRecord, body: object) -> Response:
    match body:
        case {"run": str(run), "page": str(page), "events": events}:
            if run != site.record.run:
                return _text("this page is of another run", status=409)
            try:
                site.take(page, events)
            except BadEvent as exc:
                return _text(str(exc), status=400)
            return Response(b"", status=204)
        case _:
            return _text("expected {run, page, events}", status=400)


def grader_app(site: SiteRecord) -> QuartTrio:
    """`GET /state`, `GET /verdict`, `POST /reset {seed?, panel_open?}`."""
    app = _app("grader")
    _get(app, "/state", lambda: site.record.state())
    _get(app, "/verdict", lambda: site.verdict().to_json())

    @app.post("/reset")
    async def reset() -> Answer:
        wanted = await request.get_json(force=True, silent=True)
        match {} if wanted is None else wanted:
            case dict(fields) if fields.keys() <= {"seed", "panel_open"}:
                seed, panel_open = fields.get("seed"), fields.get("panel_open")
                if (seed is None or _is_seed(seed)) and (panel_open is None or isinstance(panel_open, bool)):
                    site.reset(seed=seed, panel_open=panel_open)
                    return site.record.state()
            case _:
                pass
        return _text("expected {seed?: integer, panel_open?: boolean}", status=400)

    return app


def _app(name: str) -> QuartTrio:
    app = QuartTrio(f"{__package__}.{name}", static_folder=None, root_path=str(files(__package__)))
    app.config["MAX_CONTENT_LENGTH"] = 256 * 1024

    @app.after_request
    async def harden(response: Response) -> Response:
        await trio.lowlevel.checkpoint()
        response.headers["Content-Security-Policy"] = CSP
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    return app


def _get(app: QuartTrio, path: str, answer: Callable[[], Answer]) -> None:
    """Route *path*. Quart would run a plain function in a thread; the record belongs to the loop."""

    async def view() -> Answer:
        await trio.lowlevel.checkpoint()
        return answer()

    app.add_url_rule(path, endpoint=path, view_func=view)


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text()


def _asked_seed(default: int) -> int:
    value = request.args.get("seed", default, type=int)
    return value if _is_seed(value) else default


def _is_seed(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEED


def _text(text: str, mimetype: str = "text/plain; charset=utf-8", *, status: int = 200) -> Response:
    return Response(text, status=status, content_type=mimetype)
