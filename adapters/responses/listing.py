"""Pages of items, as the SDKs turn them: `limit`, `order`, `after`, `include`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bodyd.errors import InvalidRequest

from . import notes, pictures

Json = dict[str, Any]

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Page:
    """What is asked for."""

    limit: int = DEFAULT_LIMIT
    descending: bool = True
    after: str | None = None
    include: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: Mapping[str, tuple[str, ...]]) -> Page:
        """From query parameters.

        Raises:
            InvalidRequest: a limit or order that there is not.
        """
        limit = query.get("limit", (str(DEFAULT_LIMIT),))[-1]
        if not limit.isdigit() or not 1 <= int(limit) <= MAX_LIMIT:
            raise InvalidRequest(f"limit must be 1 to {MAX_LIMIT}", param="limit")
        order = query.get("order", ("desc",))[-1]
        if order not in ("asc", "desc"):
            raise InvalidRequest("order must be asc or desc", param="order")
        after = query.get("after", ("",))[-1] or None
        return cls(int(limit), order == "desc", after, included(query))

    def answer(self, items: Sequence[Json], *, more: bool) -> Json:
        shown = [notes.public(pictures.by_reference(item)) for item in items]
        return {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
            "has_more": more,
        }


def included(query: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """`include`, however the client writes a list in a query."""
    return tuple(query.get("include[]", ()) + query.get("include", ()))


def cut(items: Sequence[Json], wanted: Page) -> tuple[list[Json], bool]:
    """The items of one page, and whether there are more behind it.

    Raises:
        InvalidRequest: `after` names none of them.
    """
    ordered = list(reversed(items)) if wanted.descending else list(items)
    start = 0
    if wanted.after is not None:
        places = [index for index, item in enumerate(ordered) if item["id"] == wanted.after]
        if not places:
            raise InvalidRequest("`after` names no item of this list", param="after")
        start = places[0] + 1
    found = ordered[start : start + wanted.limit]
    return found, start + len(found) < len(ordered)
