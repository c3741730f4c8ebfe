"""A request to the model's server as JSON, its pictures spliced in.

Pure. Megabytes of base64 are copied once: made a string, searched for characters to escape and encoded again,
they would cost more than all the rest of a round. Counterpart: pictures.Spliced.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from .pictures import Spliced


def dump(body: dict[str, Any], mark: str) -> bytes:
    """*body* as `to_json` has it; NaN and infinities become null.

    Args:
        mark: ASCII that nobody can guess: it stands for the pictures meanwhile.
    """
    found: list[Spliced] = []

    def bare(value: Any) -> Any:  # noqa: ANN401 (JSON)
        if isinstance(value, Spliced):
            found.append(value)
            return mark
        if isinstance(value, dict):
            return {name: bare(part) for name, part in value.items()}
        return [bare(part) for part in value] if isinstance(value, list) else value

    first, *others = to_json(bare(body), inf_nan_mode="null").split(mark.encode())
    pieces = [first]
    for url, after in zip(found, others, strict=True):
        pieces += (*url.pieces, after)
    return b"".join(pieces)
