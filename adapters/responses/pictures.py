"""Pictures leave the items: kept once by hash, put back for those who read them, newest first upstream.

Pure. In a stored item a data URL stands as `bodyd-image:<sha256>;<media type>`. What is kept and hashed is
the base64 itself: pictures come as base64 and leave as base64, and turning 2 MB there and back would cost
more than all the rest. http URLs are left as they are; nothing here decodes a picture or fetches one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from bodyd.contract.screenshots import MAX_IMAGE_BYTES
from bodyd.errors import InvalidRequest, TooLarge

from .notes import with_note

Json = dict[str, Any]

SCHEME = "bodyd-image:"
FILE = "img_"
"""Prefix of the file id that a picture is told by, where it is told by reference."""
LEFT_OUT = "[An older image was left out to save space.]"
SCREEN_LEFT_OUT = "An older screenshot was left out here to save space."
PLACEHOLDER = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQ"
    "AAAABJRU5ErkJggg=="
)
"""One grey pixel: some servers refuse a screenshot without a valid picture."""

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

_SLICE = 64 * 1024
_PLAIN = re.compile(r"[A-Za-z0-9.+/;=-]*")
"""Media types that stand in JSON as they are."""

Put = Callable[[str], str]


class Recent:
    """Hashes of base64 that was read lately and is sound: clients send a history's pictures every turn."""

    MOST = 4096

    def __init__(self) -> None:
        self._hashes: dict[str, None] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self._hashes

    def add(self, digest: str) -> None:
        if len(self._hashes) >= self.MOST:
            del self._hashes[next(iter(self._hashes))]
        self._hashes[digest] = None


class Spliced(str):
    """A reference to a picture, which has the data URL to be put in its place: see dumping.py."""

    __slots__ = ("pieces",)
    pieces: tuple[bytes, bytes]


def take(item: Json, images: dict[str, bytes], *, param: str = "input", recent: Recent | None = None) -> Json:
    """*item* with its data URLs replaced; the bytes are added to *images* by hash.

    Args:
        recent: What need not be read a second time; grows.
    Raises:
        InvalidRequest: a data URL that is not base64.
        TooLarge: a picture over 16 MiB.
    """

    def kept(url: str) -> str:
        if not url.startswith("data:"):
            return url
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InvalidRequest(f"{param}: a data URL must be base64", param=param)
        if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
            raise TooLarge(f"{param}: the image is over {MAX_IMAGE_BYTES} bytes", param=param)
        raw = data.encode("ascii", "replace")
        digest = sha256(raw).hexdigest()
        if recent is None or digest not in recent:
            if not _is_base64(raw):
                raise InvalidRequest(f"{param}: the image is not base64", param=param)
            if recent is not None:
                recent.add(digest)
        images[digest] = raw
        return f"{SCHEME}{digest};{head[5:].removesuffix(';base64') or 'image/png'}"

    return _mapped(item, kept, named=True)


def hashes(item: Json) -> list[str]:
    """The hashes of the pictures in a stored item, in order."""
    return [_hash(url) for url in _urls(item) if url.startswith(SCHEME)]


def put_back(item: Json, images: Mapping[str, bytes], *, spliced: bool = False) -> Json:
    """A stored item with its pictures as data URLs; one that is gone is told by its file id.

    Args:
        spliced: Leave the URLs to dumping.py, which copies them once.
    """

    def shown(url: str) -> str:
        if not url.startswith(SCHEME):
            return url
        digest, _, kind = url.removeprefix(SCHEME).partition(";")
        data = images.get(digest)
        if data is None:
            return url
        if not (spliced and _PLAIN.fullmatch(kind)):
            return f"data:{kind};base64,{data.decode('ascii')}"
        made = Spliced(url)
        made.pieces = (f"data:{kind};base64,".encode(), data)
        return made

    return by_reference(_mapped(item, shown))


def by_reference(item: Json) -> Json:
    """A stored item whose pictures are told by file id."""
    if not any(url.startswith(SCHEME) for url in _urls(item)):
        return item
    return _each(item, lambda part: _referred(part) if _is_stored(part) else part)


def within(items: list[Json], sizes: Mapping[str, int], budget: int) -> tuple[list[Json], list[str]]:
    """*items* with no more pictures than *budget* bytes of base64, and the hashes of those that stay.

    The newest stay. *sizes* are of the base64 that is kept; a picture that is gone counts as left out.
    """
    left = budget or (1 << 62)
    stay: list[str] = []
    full = False
    made: list[Json] = []
    for item in reversed(items):
        fits = True
        for digest in reversed(hashes(item)):
            cost = sizes.get(digest, 0)
            full = full or cost > left
            if full or digest not in sizes:
                fits = False
                break
            left -= cost
            stay.append(digest)
        made.append(item if fits else _bare(item))
    made.reverse()
    return made, stay


def _is_base64(data: bytes) -> bool:
    """By its alphabet, length and padding (RFC 4648, 4), a slice at a time: copies of megabytes cost more."""
    end = len(data) - (2 if data.endswith(b"==") else 1 if data.endswith(b"=") else 0)
    if len(data) % 4 or end <= 0:
        return False
    slices = (data[start : min(start + _SLICE, end)] for start in range(0, end, _SLICE))
    return not any(one.translate(None, _ALPHABET) for one in slices)


def _bare(item: Json) -> Json:
    if item["type"] == "computer_call_output":
        output = {key: value for key, value in item["output"].items() if key != "image_url"}
        note = item.get("bodyd_note")
        text = f"{note} {SCREEN_LEFT_OUT}" if note else SCREEN_LEFT_OUT
        return with_note({**item, "output": output}, text)
    told = {"type": "input_text", "text": LEFT_OUT}
    return _each(item, lambda part: told if _is_stored(part) else part)


def _is_stored(part: Json) -> bool:
    url = part.get("image_url")
    return isinstance(url, str) and url.startswith(SCHEME) and not isinstance(url, Spliced)


def _referred(part: Json) -> Json:
    rest = {key: value for key, value in part.items() if key != "image_url"}
    return {**rest, "file_id": FILE + _hash(part["image_url"])}


def _hash(url: str) -> str:
    return url.removeprefix(SCHEME).partition(";")[0]


def _parts(item: Json) -> Iterator[Json]:
    for name in ("content", "output"):
        value = item.get(name)
        if isinstance(value, Mapping):
            yield dict(value)
        elif isinstance(value, list):
            yield from (part for part in value if isinstance(part, dict))


def _urls(item: Json) -> Iterator[str]:
    for part in _parts(item):
        url = part.get("image_url")
        if isinstance(url, str):
            yield url


def _mapped(item: Json, put: Put, *, named: bool = False) -> Json:
    def one(part: Json) -> Json:
        url, file = part.get("image_url"), part.get("file_id")
        if isinstance(url, str):
            replaced = put(url)
            return part if replaced is url else {**part, "image_url": replaced}
        if named and isinstance(file, str) and file.startswith(FILE):
            rest = {key: value for key, value in part.items() if key != "file_id"}
            return {**rest, "image_url": f"{SCHEME}{file.removeprefix(FILE)};image/png"}
        return part

    return _each(item, one)


def _each(item: Json, change: Callable[[Json], Json]) -> Json:
    """*item* with each of its picture places passed through *change*."""
    made = item
    for name in ("content", "output"):
        value = item.get(name)
        if isinstance(value, dict):
            changed: Any = change(value)
        elif isinstance(value, list):
            changed = _list(value, change)
        else:
            continue
        if changed is not value:
            made = {**made, name: changed}
    return made


def _list(values: Iterable[Any], change: Callable[[Json], Json]) -> list[Any]:
    return [change(part) if isinstance(part, dict) else part for part in values]
