"""What the proxy answers when it does not connect: one page for a person, no use to a script. Pure.

To the page that asked, an answer over plain HTTP looks like one of the origin it named. So it carries
nothing that could act there: no script, no cookie, nothing cached, a sandbox without an origin, and no other
origin may embed or read it. A browser shows it for plain HTTP; of a refused CONNECT it shows an error of its
own, and command-line clients show this.
"""

from __future__ import annotations

from html import escape

_NAMES = {
    400: ("Bad Request", "This request can't be passed on"),
    403: ("Forbidden", "This desktop may not go there"),
    502: ("Bad Gateway", "The server can't be reached"),
    503: ("Service Unavailable", "Too many connections"),
}
_STYLE = "body{font:16px sans-serif;margin:15vh auto;max-width:34em;color:#222}h1{font-size:1.4em}"
_HEADERS = (
    "Content-Type: text/html; charset=utf-8",
    "Connection: close",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Cross-Origin-Resource-Policy: same-origin",
    "Content-Security-Policy: sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy: no-referrer",
)


def answer(status: int, reason: str, *, host: str = "", hint: str = "", body: bool = True) -> bytes:
    """The whole answer, head and page.

    Args:
        host: Shown as what was asked for.
        hint: What can be done about it.
        body: False for a HEAD request.
    """
    name, title = _NAMES[status]
    lines = [f"<p><b>{escape(host)}</b>: {escape(reason)}.</p>" if host else f"<p>{escape(reason)}.</p>"]
    if hint:
        lines.append(f"<p>{escape(hint)}</p>")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{''.join(lines)}<p><small>bodyd {status}</small></p></html>\n"
    ).encode()
    head = [f"HTTP/1.1 {status} {name}", *_HEADERS, f"Content-Length: {len(page)}", "", ""]
    return "\r\n".join(head).encode("ascii") + (page if body else b"")
