"""How a response ends that has begun and can't go on: our code, in OpenAI's words.

Pure. `code` is of OpenAI's closed list, `type` is ours and is documented in docs/reference/gateway.md.
Bugs are told as `internal`, without their text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bodyd.errors import BodydError

Json = dict[str, Any]

_CODES = {"upstream_refused": "invalid_prompt"}
CLOSED = frozenset(
    "server_error rate_limit_exceeded invalid_prompt vector_store_timeout invalid_image invalid_image_format "
    "invalid_base64_image invalid_image_url image_too_large image_too_small image_parse_error "
    "image_content_policy_violation invalid_image_mode image_file_too_large unsupported_image_media_type "
    "empty_image_file failed_to_download_image image_file_not_found".split()
)
"""The codes that clients' types know."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a response ended: completed, incomplete (`reason`), failed (`error`) or cancelled."""

    status: str
    reason: str | None = None
    error: Json | None = None

    @property
    def event(self) -> str:
        """The last event's type; there is none for cancelled, which clients' unions lack."""
        return f"response.{'failed' if self.status == 'cancelled' else self.status}"


COMPLETED = Ending("completed")
OUT_OF_ROUNDS = Ending("incomplete", reason="max_messages")
OUT_OF_TOKENS = Ending("incomplete", reason="max_output_tokens")


def failed(type: str, message: str, *, code: str = "server_error") -> Ending:
    return Ending("failed", error={"code": code, "message": message, "type": type, "param": None})


def of_error(exc: BodydError) -> Ending:
    """*exc*, which ended a response."""
    told = exc.details.get("upstream_code")
    code = str(told) if told in CLOSED else _CODES.get(exc.code, "server_error")
    return failed(exc.code, exc.message, code=code)


INTERNAL = failed("internal", "bodyd failed on this response; its log says why")
OUT_OF_TIME = failed("wall_time_exceeded", "the response took longer than gateway.max_wall_ms")
RESTARTED = failed("daemon_restarted", "the daemon was restarted while the response was being made")
CANCELLED = Ending("cancelled")
