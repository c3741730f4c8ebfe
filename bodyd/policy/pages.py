"""Pages: what kind they are by title and address, and what their owner says of them. Pure.

Titles are the page's own claim; addresses are the browser's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from bodyd.contract.elements import Target
from bodyd.contract.ports import Verdict

from .normal import all_readings, split_names
from .packs import Book, Chapter, Kind
from .scene import Finding, Scene

STRICTNESS = (Verdict.ALLOW, Verdict.APPROVE, Verdict.PERSON)
_PARTS = re.compile(r"\s+[-–—|·•:»]\s+|[|·•…]|\.\.\.")


def host_of(url: str) -> str:
    """Its host in lower case; "" where there is none, or where two readers may see two."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    return "" if "@" in parts.netloc or "\\" in url else host.removesuffix(".")


def covers(match: str, host: str) -> bool:
    """Whether a host is *match*, or is below it where that begins with "*."."""
    return host.endswith(match[1:]) if match.startswith("*.") else host == match


def is_at(place: str, url: str) -> bool:
    """Whether a document is at "host" or "host/path", or below."""
    match, slash, path = place.partition("/")
    if not covers(match, host_of(url)):
        return False
    return not slash or f"{urlsplit(url).path}/".startswith(f"/{path}/")


def addresses(target: Target | None) -> tuple[str, ...]:
    """Of the documents around a target, innermost first."""
    if target is None:
        return ()
    return target.frames or ((target.page.url,) if target.page else ())


def kinds(book: Book, scene: Scene) -> tuple[Chapter, ...]:
    """The chapters that the page or window of a scene belongs to."""
    titles = [scene.window_title]
    if scene.target is not None and scene.target.page is not None:
        titles.append(scene.target.page.title)
    whole = all_readings(titles)
    parts = all_readings(part for title in titles for part in _PARTS.split(title))
    urls = addresses(scene.target)
    said = all_readings(split_names(text) for url in urls for text in _texts(url))
    return tuple(
        chapter
        for chapter in book.chapters
        if any(chapter.lists["titles"].among(r, chapter.lists["unless"]) for r in whole)
        or any(chapter.lists["exact_titles"].is_all(r, ()) for r in parts)
        or any(any(chapter.lists["urls"].spans(r)) for r in said)
        or any(framed(chapter, url) for url in urls)
    )


def is_captcha(chapter: Chapter, scene: Scene) -> bool:
    """Whether all of a page is a CAPTCHA, by the chapter."""
    page = scene.target.page if scene.target else None
    parts = all_readings(_PARTS.split(page.title if page else scene.window_title))
    return chapter.kind is Kind.CAPTCHA and any(chapter.lists["exact_titles"].is_all(r, ()) for r in parts)


def _texts(url: str) -> Iterator[str]:
    """What is written in an address: host, path, query, fragment."""
    try:
        parts = urlsplit(url)
        yield parts.hostname or ""
    except ValueError:
        return
    yield from (unquote(part) for part in (parts.path, parts.query, parts.fragment))


def framed(chapter: Chapter, url: str) -> bool:
    return any(is_at(place, url) for place in chapter.section.frames)


def settle(book: Book, finding: Finding, target: Target | None) -> Verdict:
    """What an owner's domains make of a verdict.

    Loosened only where every document around the target is of such a domain, and all of it was read: else a
    page that frames a trusted one, or is framed by it, would have its trust. Made stricter where any is.
    """
    hosts = [host_of(url) for url in addresses(target)]
    whole = target is not None and target.complete
    said = [*_said(book, finding, hosts, whole=whole)]
    return max(said, key=STRICTNESS.index) if said else finding.verdict


def _said(book: Book, finding: Finding, hosts: list[str], *, whole: bool) -> Iterator[Verdict]:
    for domain in book.domains:
        says = domain.verdict(finding.kind)
        if says is None:
            continue
        inside = [covers(domain.match, host) for host in hosts]
        stricter = STRICTNESS.index(says) >= STRICTNESS.index(finding.verdict)
        if any(inside) if stricter else (whole and bool(inside) and all(inside)):
            yield says
