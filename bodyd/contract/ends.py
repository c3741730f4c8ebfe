"""How a loop, an activity or a harness run ends: one enum for all of them."""

from __future__ import annotations

from enum import StrEnum


class End(StrEnum):
    COMPLETED = "completed"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    TOOL_LIMIT = "tool_limit"
    OWNER_REQUIRED = "owner_required"
    UNTRUSTED_CONTENT = "untrusted_content"
    REVOKED = "revoked"
    CANCELLED = "cancelled"
    FAILED = "failed"
