"""Who may ask what of the lease: one table. Pure.

A bearer token's scope opens the call; the lease token, where one is needed, says whose claim it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from bodyd.contract.lease import Scope
from bodyd.errors import Forbidden


class Call(StrEnum):
    STATUS = "status"
    WATCH = "watch"
    ACQUIRE = "acquire"
    ACQUIRE_AS_PERSON = "acquire_as_person"
    RENEW = "renew"
    RELEASE = "release"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RELEASE_ALL = "recover step 1"
    RECONNECT = "recover step 2"
    RESTART_DISPLAY = "recover step 3"
    REVOKE = "revoke"
    TAKE_OVER = "takeover"
    HAND_BACK = "handback"
    RESUME_WITHOUT_TOKEN = "resume without the lease token"
    RESUME_BODY = "resume a stopped body"


RECOVER = {1: Call.RELEASE_ALL, 2: Call.RECONNECT, 3: Call.RESTART_DISPLAY}

NEEDS: Mapping[Call, Scope] = {
    Call.STATUS: Scope.VIEWER,
    Call.WATCH: Scope.VIEWER,
    Call.ACQUIRE: Scope.DRIVER,
    Call.RENEW: Scope.DRIVER,
    Call.RELEASE: Scope.DRIVER,
    Call.PAUSE: Scope.DRIVER,
    Call.RESUME: Scope.DRIVER,
    Call.STOP: Scope.DRIVER,
    Call.RELEASE_ALL: Scope.DRIVER,
    Call.RECONNECT: Scope.DRIVER,
    # policy lets a person do what no agent may, so a driver's token must not make one
    Call.ACQUIRE_AS_PERSON: Scope.OWNER,
    Call.RESTART_DISPLAY: Scope.OWNER,
    Call.REVOKE: Scope.OWNER,
    Call.TAKE_OVER: Scope.OWNER,
    Call.HAND_BACK: Scope.OWNER,
    Call.RESUME_WITHOUT_TOKEN: Scope.OWNER,
    Call.RESUME_BODY: Scope.OWNER,
}


def require(scope: Scope, call: Call) -> None:
    """Let *call* pass.

    Raises:
        Forbidden: a token of this scope may not make it.
    """
    if not scope.covers(NEEDS[call]):
        raise Forbidden(
            f"{call.value} needs a token of scope {NEEDS[call].value}; this one is of {scope.value}"
        )
