"""An app of your own that shows the body in its page: it has the token, its pages only get tickets.

    BODYD_TOKEN=$(bodyd token owner) python examples/embed/host.py --body http://127.0.0.1:7310 --port 8080

The body's configuration lets this page in: `[http] allowed_origins = ["http://localhost:8080"]`.
Everybody who opens `/` may watch; `/drive` lets them take over: put your own sign-in before both.
Python's standard library alone.
"""

from __future__ import annotations

import argparse
import html
import json
import os
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The desk</title>
<link rel="icon" href="data:,">
<script type="module" src="{body}/bodyd-view.js"></script>
<h1>The desk</h1>
<bodyd-view label="The desk's screen" ticket-url="{ticket_url}" controls{drive}></bodyd-view>
</html>
"""

POLICY = (
    "default-src 'none'; script-src {body}; connect-src 'self' {socket}; img-src blob: data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SCOPES = {"/ticket": "viewer", "/ticket/drive": "owner"}
"""What each address hands out. Whoever may not drive must not reach the second."""


class Host(BaseHTTPRequestHandler):
    """Two pages and their tickets."""

    def __init__(self, body: str, token: str, *args: object) -> None:
        self.body, self.token = body.rstrip("/"), token
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path not in ("/", "/drive"):
            self.answer(404, "text/plain", "There is nothing here.")
            return
        driving = self.path == "/drive"
        page = PAGE.format(
            body=html.escape(self.body),
            ticket_url="/ticket/drive" if driving else "/ticket",
            drive=" drive" if driving else "",
        )
        self.answer(200, "text/html; charset=utf-8", page)

    def do_POST(self) -> None:
        scope = SCOPES.get(self.path)
        if scope is None:
            self.answer(404, "text/plain", "There is nothing here.")
        elif self.headers["sec-fetch-site"] != "same-origin":
            self.answer(403, "text/plain", "Only pages of this site get tickets.")
        else:
            self.answer_with_ticket(scope)

    def answer_with_ticket(self, scope: str) -> None:
        asked = Request(
            f"{self.body}/v1/tickets/stream",
            data=json.dumps({"scope": scope}).encode(),
            headers={"authorization": f"Bearer {self.token}", "content-type": "application/json"},
        )
        try:
            with urlopen(asked) as answer:
                ticket = json.load(answer)["ticket"]
        except (HTTPError, URLError) as error:
            self.log_error("the body gave no ticket: %s", error)
            self.answer(502, "text/plain", "The body gave no ticket.")
            return
        self.answer(200, "application/json", json.dumps({"ticket": ticket}))

    def answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        socket = "ws" + self.body.removeprefix("http")
        self.send_header("content-security-policy", POLICY.format(body=self.body, socket=socket))
        self.send_header("content-type", kind)
        self.send_header("cache-control", "no-store")
        content = text.encode()
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(description="Show a body in a page of your own.")
    parser.add_argument("--body", default="http://127.0.0.1:7310", help="the body, as browsers reach it")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    handler = partial(Host, options.body, os.environ["BODYD_TOKEN"])
    with ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
        print(f"http://localhost:{server.server_port}/ and /drive", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
