"""The one mapper from what was raised to what is answered: status, headers, body.

Used by the app for requests, and by the accept loop for bytes that never became a request. A body
is always {"error": {message, type, param, code, retryable, …}}; an unexpected exception says
nothing of itself but the request id that the log has it under.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import dataclass
from http import HTTPStatus

from bodyd.errors import (
    BodydError,
    HeadTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    TooLarge,
    Unauthorized,
)

log = logging.getLogger("bodyd.http")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, before any framework has it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def to_bytes(self) -> bytes:
        """As HTTP/1.1 that ends its connection (RFC 9112)."""
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"content-length: {len(self.body)}", "connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


def new_request_id() -> str:
    """A name for one request, for `x-request-id` and the log."""
    return f"req_{secrets.token_hex(12)}"


def answer(error: BodydError, request_id: str) -> Answer:
    """What *error* is answered with. A permanent refusal tells the OpenAI SDKs not to retry."""
    headers = [("content-type", "application/json"), ("x-request-id", request_id)]
    if not error.retryable:
        headers.append(("x-should-retry", "false"))
    if isinstance(error, Unauthorized):
        headers.append(("www-authenticate", 'Bearer realm="bodyd"'))
    body = json.dumps({"error": error.to_json()}, ensure_ascii=False).encode("utf-8", "replace")
    return Answer(error.status, tuple(headers), body)


def unexpected(exc: BaseException, request_id: str) -> Answer:
    """The answer to a bug: logged whole, told not at all."""
    log.error("request %s failed unexpectedly", request_id, exc_info=exc)
    return answer(BodydError(f"bodyd failed on this request; its log has it as {request_id}"), request_id)


def of_status(status: int, *, allowed: str | None = None) -> BodydError:
    """The error for a bare HTTP status, as frameworks and parsers report one."""
    match status:
        case 404:
            return NotFound("no such route; docs/reference/http-api.md lists them")
        case 405:
            return MethodNotAllowed(f"this route takes {allowed or 'other methods'}")
        case 408:
            return RequestTimeout("the request did not arrive in time; send it again")
        case 413:
            return TooLarge("the body is over [http] max_body_bytes; nothing was done")
        case 431:
            return HeadTooLarge("the request line and headers are over the limit of 32 KiB")
        case _ if 400 <= status < 500:
            return InvalidRequest("this is not a well-formed HTTP/1.1 request; nothing was done")
        case _:
            return BodydError("bodyd failed on this request")
