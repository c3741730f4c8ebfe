"""The errors that bodyd answers with: one small tree, each leaf with a stable code.

A message says what was wrong, with what value, and what to do; never a secret, a typed text or
pixels. Bugs stay builtin exceptions and surface as `internal` (500). The HTTP shape is made in
http/errors.py, the one mapper; every code here is documented in docs/reference/errors.md.
"""

from __future__ import annotations

from typing import ClassVar


class BodydError(Exception):
    """Root of every expected failure.

    Attributes:
        code: Stable machine-readable name, snake_case.
        status: HTTP status.
        retryable: The same request may succeed later without being changed.
        param: The request field at fault, if one is.
        details: Extra JSON-able facts (`epoch`, `screenshot`, …), never secrets.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, param: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.details = details

    def to_json(self) -> dict[str, object]:
        """The `error` object of the wire: {message, type, param, code, retryable, …details}."""
        return {
            "message": self.message,
            "type": _kind(self.status),
            "param": self.param,
            "code": self.code,
            "retryable": self.retryable,
            **self.details,
        }


def _kind(status: int) -> str:
    if status in (401, 403):
        return "permission_error"
    return "invalid_request_error" if status < 500 else "server_error"


# -- the request itself --------------------------------------------------------------------------


class InvalidRequest(BodydError):
    """The request does not fit the documented shape; nothing was done."""

    code, status = "invalid_request", 400


class TooLarge(InvalidRequest):
    code, status = "too_large", 413


class HeadTooLarge(TooLarge):
    """Request line and headers are over the limit."""

    code, status = "head_too_large", 431


class RequestTimeout(BodydError):
    """The request did not arrive in time; nothing was done."""

    code, status, retryable = "request_timeout", 408, True


class NotFound(BodydError):
    code, status = "not_found", 404


class MethodNotAllowed(BodydError):
    code, status = "method_not_allowed", 405


class UnknownKey(InvalidRequest):
    """A key name that contract/keys.py does not have: the whole chord is refused."""

    code = "unknown_key"


class UnknownAction(InvalidRequest):
    """An action type that is preserved on the wire but never executed."""

    code = "unknown_action"


class OutOfBounds(InvalidRequest):
    """A coordinate outside the image that the screenshot id names: refused, never clamped."""

    code = "out_of_bounds"


# -- who asks ------------------------------------------------------------------------------------


class Unauthorized(BodydError):
    code, status = "unauthorized", 401


class Forbidden(BodydError):
    """The token's scope, the Host or the Origin does not allow this."""

    code, status = "forbidden", 403


class PersonDriving(BodydError):
    """A person has the body: agents and viewers see nothing until it is handed back."""

    code, status, retryable = "person_driving", 409, True


# -- the lease -----------------------------------------------------------------------------------


class LeaseError(BodydError):
    status = 409


class Busy(LeaseError):
    """Another driver holds the lease; wait (`wait_ms`) or come back."""

    code, retryable = "busy", True


class QueueFull(LeaseError):
    code, retryable = "queue_full", True


class LeaseRequired(LeaseError):
    """The call needs the header `bodyd-lease`."""

    code, status = "lease_required", 401


class StaleLease(LeaseError):
    """The lease token is not (or no longer) that of the current claim."""

    code = "stale_lease"


class StaleEpoch(LeaseError):
    """The claim has moved to a new epoch; read the new one and take a fresh screenshot."""

    code = "stale_epoch"


class LeaseLapsed(LeaseError):
    """The ttl ran out; the same token renews it until another driver takes the body."""

    code, retryable = "lease_lapsed", True


class LeasePaused(LeaseError):
    code, retryable = "lease_paused", True


class BodyStopped(LeaseError):
    """The owner stopped the body; only the owner resumes it."""

    code = "stopped"


class Draining(LeaseError):
    """A hand-over is under way; quiescence is not yet proved."""

    code, retryable = "draining", True


class RecoveryRequired(LeaseError):
    """An effect or a stop could not be proved; `recover` comes first."""

    code = "recovery_required"


class WrongState(LeaseError):
    """The lease's state does not admit this step."""

    code = "wrong_state"


# -- the door ------------------------------------------------------------------------------------


class StaleScreenshot(BodydError):
    """The screen that the input was meant for is gone; take a fresh screenshot. Nothing was sent."""

    code, status = "stale_screenshot", 409


class RequestConflict(BodydError):
    """The request id was already used with another body."""

    code, status = "request_conflict", 409


class TooManyUiCalls(InvalidRequest):
    """One call of the code tool has used all of its `ui` calls; go on in another."""

    code = "too_many_ui_calls"


class NotDelivered(BodydError):
    """An input of code's was not carried out in full; the message says how far it came."""

    code, status = "not_delivered", 409


class SnapshotExists(BodydError):
    """A snapshot of that name is there; delete it first, or choose another name."""

    code, status = "snapshot_exists", 409


class PolicyRefused(BodydError):
    """A person-only step or a denied action; nothing was sent."""

    code, status = "policy_refused", 403


class ApprovalRequired(BodydError):
    """Someone must approve first; post the same request id again afterwards."""

    code, status = "approval_required", 403


# -- the gateway ---------------------------------------------------------------------------------


class UnsupportedTool(InvalidRequest):
    """A tool that is known, but can't be offered here; the message names what can."""

    code = "unsupported_tool"


class UnknownType(InvalidRequest):
    """A tool or item type that this gateway does not know: refused, never dropped in silence."""

    code = "unknown_type"


class CallMismatch(InvalidRequest):
    """A call without its output, or an output without its call; the message names the call_id."""

    code = "call_mismatch"


class PreviousResponseNotFound(InvalidRequest):
    """`previous_response_id` names no response that is kept for this token."""

    code = "previous_response_not_found"


class ConversationBusy(BodydError):
    """Another response of the same conversation is still being made."""

    code, status = "conversation_busy", 409


class UpstreamRefused(BodydError):
    """The model's server refused the request as it is; sending it again changes nothing."""

    code, status = "upstream_refused", 400


class UpstreamFailed(BodydError):
    """The model's server broke off or gave an answer that makes no sense."""

    code, status = "upstream_failed", 502


# -- the world -----------------------------------------------------------------------------------


class Unavailable(BodydError):
    """A part of the body does not answer; /readyz says which."""

    code, status, retryable = "unavailable", 503, True


class UpstreamUnavailable(Unavailable):
    """The model's server can't be reached, or is overloaded; nothing was executed."""

    code = "upstream_unavailable"


class TooManyConnections(Unavailable):
    """Every connection that this listener keeps is in use."""

    code = "too_many_connections"


class NotRunning(Unavailable):
    """Raised by the client: nothing answers where the daemon should be."""

    code = "not_running"


class DisplayUnavailable(Unavailable):
    code = "display_unavailable"


class AccessibilityUnavailable(Unavailable):
    """What needs the apps' structure can't be had: accessibility is off, down, or the app does not answer."""

    code = "accessibility_unavailable"


class HomeFull(BodydError):
    """The home folder is over `limits.home_bytes`; free some, or raise the limit."""

    code, status = "home_full", 507


class DiskFull(BodydError):
    """There is no room for a copy of the home; nothing was changed."""

    code, status = "disk_full", 507


class JournalUnavailable(Unavailable):
    """The journal cannot be written: no input is accepted unjournalled."""

    code = "journal_unavailable"


class EndNotRecorded(JournalUnavailable):
    """Commands or code have run, and their end could not be written down: asked again, they run again."""

    code, retryable = "end_not_recorded", False


class IsolationUnavailable(BodydError):
    """The wall can't be built here; `bodyd doctor` says the fix. There is no fallback."""

    code, status = "isolation_unavailable", 503


class ConfigError(BodydError):
    """The configuration is wrong; the start is refused."""

    code, status = "config_error", 500
