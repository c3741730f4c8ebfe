"""What a request is about to do, as it is kept: every fact of it but the text that it types. Pure.

Counterparts: requests.py stores intents, recovery.py turns unfinished ones into receipts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bodyd.contract import actions as a
from bodyd.contract.atoms import units
from bodyd.contract.keys import Key, chord

_SHORTCUT = frozenset("Control_L Control_R Alt_L Super_L Super_R Hyper_L".split())


@dataclass(frozen=True, slots=True)
class InputSummary:
    """One input: its type, its units (atoms), and its other facts; a text is a length and a digest."""

    type: str
    units: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Intent:
    """One batch, made durable before its first atom.

    Attributes:
        request_id: Unique per body, whoever asks: one id is one act.
        fingerprint: Keyed digest of the whole request body; the same id with another one is refused.
        created_at: Unix milliseconds.
    """

    request_id: str
    fingerprint: str
    epoch: int
    conversation_id: str
    lease_id: str
    screenshot_id: str | None
    binding: str
    inputs: tuple[InputSummary, ...]
    created_at: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Intent:
        """The intent that `to_json` wrote."""
        return cls(**{**raw, "inputs": tuple(InputSummary(**item) for item in raw["inputs"])})


def canonical(value: object) -> str:
    """The one JSON text of *value*: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def make_intent(
    request: a.InputRequest, *, conversation_id: str, lease_id: str, created_at: int, key: bytes
) -> Intent:
    """The intent of *request*. *key* keeps texts and fingerprints from being guessed offline."""
    return Intent(
        request_id=request.request_id,
        fingerprint=fingerprint(request, key),
        epoch=request.epoch,
        conversation_id=conversation_id,
        lease_id=lease_id,
        screenshot_id=request.screenshot_id,
        binding=request.binding,
        inputs=tuple(
            InputSummary(action.type, units(action), _facts(action, key, f"{request.request_id}/{index}"))
            for index, action in enumerate(request.inputs)
        ),
        created_at=created_at,
    )


def fingerprint(request: a.InputRequest, key: bytes) -> str:
    """HMAC-SHA-256 over the canonical JSON of the parsed body, defaults filled in.

    Keyed, since a plain digest of a batch that types six digits is as good as the digits.
    """
    text = canonical(request.model_dump(mode="json"))
    return hmac.new(key, b"fingerprint\0" + text.encode(), hashlib.sha256).hexdigest()


def _facts(action: a.Action, key: bytes, salt: str) -> dict[str, Any]:
    facts = action.model_dump(mode="json", exclude_none=True, exclude={"type", "text", "path", "expect"})
    match action:
        case a.Type(text=text) | a.Paste(text=text):
            facts["text"] = sealed(text, key, salt)
        case a.Keypress(keys=names) | a.Hold(keys=names):
            facts["keys"] = _keys(names, key, salt)
        case a.Drag(path=path):
            facts |= {"points": len(path), "from": [path[0].x, path[0].y], "to": [path[-1].x, path[-1].y]}
        case _:
            pass
    expect = getattr(action, "expect", None)
    if expect is not None:
        facts["expect"] = _expectation(expect, key, salt)
    return facts


def sealed(text: str, key: bytes, salt: str) -> dict[str, Any]:
    """Length and keyed digest; salted, since one digest per letter would be a cipher's alphabet."""
    digest = hmac.new(key, f"text\0{salt}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)
    return {"length": len(text), "digest": digest.hexdigest()}


def _keys(names: Sequence[str], key: bytes, salt: str) -> list[Any]:
    """Key names; a key that writes a character is text, unless it is part of a shortcut."""
    keys = chord(names)
    if any(k.name in _SHORTCUT for k in keys):
        return [k.name for k in keys]
    return [sealed(k.name, key, f"{salt}/{place}") if _writes(k) else k.name for place, k in enumerate(keys)]


def _writes(k: Key) -> bool:
    return 0x20 <= k.keysym <= 0xFF or 0xFFAA <= k.keysym <= 0xFFBD or 0x0100_0000 <= k.keysym < 0x0200_0000


def _expectation(expect: a.Expect, key: bytes, salt: str) -> dict[str, Any]:
    facts = expect.model_dump(mode="json", exclude_none=True, exclude={"equals", "contains"})
    for name in ("equals", "contains"):
        text = getattr(expect, name)
        if text is not None:
            facts[name] = sealed(text, key, f"{salt}/{name}")
    return facts
