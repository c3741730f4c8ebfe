"""The owner's page: its headers, its source, and itself in a real browser."""

from __future__ import annotations

import html
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

from bodyd.client import BodyClient
from bodyd.config import Config, HttpConfig
from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.listener import Bound
from bodyd.http.routes_web import WEB
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens

from .fake_body import FakeBody

CHROMIUM = Path("/usr/bin/chromium")


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "text/html"), ("/console.js", "text/javascript"), ("/console.css", "text/css")]
)
async def test_files_are_served_with_a_strict_policy(services: Services, path: str, kind: str):
    """Only our own script and style; no frames, no forms, no referrer, no sniffing."""
    response = await create_app(services).test_client().get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


ELSEWHERE = Services(
    body=FakeBody(),
    tokens=Tokens.fresh(),
    config=Config(http=HttpConfig(allowed_origins=("https://app.example",))),
)


@pytest.mark.parametrize("path", ["/view.js", "/bodyd-view.js"])
async def test_the_modules_are_lent_to_pages_of_allowed_origins(path: str):
    """Each origin is named by itself, never `*`; others are refused, and no browser shows them why."""
    client = create_app(ELSEWHERE).test_client()
    own = await client.get(path)
    assert own.status_code == 200
    assert own.headers["content-type"].startswith("text/javascript")
    assert own.headers["vary"] == "origin"
    assert own.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in own.headers
    lent = await client.get(path, headers={"origin": "https://app.example"})
    assert (lent.status_code, lent.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert "access-control-allow-credentials" not in lent.headers
    for origin in ("https://evil.example", "http://app.example", "null"):
        refused = await client.get(path, headers={"origin": origin})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize("path", ["/", "/console.js", "/v1/status", "/v1/tickets/stream", "/healthz"])
async def test_nothing_else_is_lent_to_any_page(path: str):
    """A page of an allowed origin that had a token could do nothing with it: no CORS, and no preflight."""
    client = create_app(ELSEWHERE).test_client()
    headers = {
        "origin": "https://app.example",
        "authorization": f"Bearer {ELSEWHERE.tokens.token(Scope.OWNER)}",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    for method in ("GET", "POST", "OPTIONS"):
        answer = await client.open(path, method=method, headers=headers)
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control-")]
        assert method != "OPTIONS" or answer.status_code >= 400


@pytest.mark.parametrize(
    "name", ["console.js", "panels.js", "words.js", "api.js", "view.js", "bodyd-view.js"]
)
def test_the_scripts_have_no_way_to_make_markup_of_text(name: str):
    """Nothing parses a string as HTML or runs one."""
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|DOMParser",
        (WEB / name).read_text(),
    )


def test_the_source_has_no_way_to_make_markup_of_text():
    """No inline script or style, nothing from elsewhere, and nothing that parses a string as HTML."""
    page, script = (WEB / "index.html").read_text(), (WEB / "console.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", script)
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", page)
    for name in ("index.html", "console.js", "console.css"):
        assert not re.search(r"https?://", (WEB / name).read_text())


async def visit(url: str, profile: Path) -> str:
    """The page's DOM once it has settled, as a real browser has it."""
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--window-size=390,844",
        "--virtual-time-budget=4000",
        "--dump-dom",
        url,
    ]
    run = partial(trio.run_process, command, capture_stdout=True, stderr=subprocess.DEVNULL)
    with trio.fail_after(60):
        return (await run()).stdout.decode()


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here")
async def test_the_page_in_a_browser(client: BodyClient, bound: Bound, tmp_path: Path):
    """A link opens it: the lease, the health and a picture are shown, hostile titles are only text."""
    await client.acquire("conv-<b>1</b>")
    for attempt in range(3):  # the browser's virtual time does not wait for an image to be decoded
        link = await client.console_link(f"http://localhost:{bound.port}")
        dom = await visit(link, tmp_path / str(attempt))
        if "blob:" in dom and "onerror" in dom:
            break
    text = html.unescape(re.sub(r"<[^>]*>", " ", dom))
    assert "being driven" in text
    assert "conv-<b>1</b>" in text
    assert "Everything answers." in text
    assert '<img src=x onerror="alert(1)">' in text
    assert re.search(r'<img id="picture"[^>]*src="blob:', dom)
    assert "ticket" not in dom


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here")
async def test_the_page_without_a_link(bound: Bound, tmp_path: Path):
    """It says how to get one, and shows nothing of the body."""
    dom = await visit(f"http://localhost:{bound.port}/", tmp_path)
    assert "bodyd token link" in dom
    assert "signed out" in dom
