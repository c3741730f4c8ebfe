"""Who may ask what of the lease."""

from __future__ import annotations

import pytest

from bodyd.contract.lease import Scope
from bodyd.errors import Forbidden
from bodyd.lease.scopes import NEEDS, RECOVER, Call, require

VIEWER = {Call.STATUS, Call.WATCH}
DRIVER = VIEWER | {
    Call.ACQUIRE,
    Call.RENEW,
    Call.RELEASE,
    Call.PAUSE,
    Call.RESUME,
    Call.STOP,
    Call.RELEASE_ALL,
    Call.RECONNECT,
}


@pytest.mark.parametrize(
    ("scope", "allowed"), [(Scope.VIEWER, VIEWER), (Scope.DRIVER, DRIVER), (Scope.OWNER, set(Call))]
)
def test_each_scope_may_do_what_the_design_says(scope, allowed):
    """Viewers look, drivers drive and stop, owners do everything."""
    for call in Call:
        if call in allowed:
            require(scope, call)
        else:
            with pytest.raises(Forbidden, match="needs a token of scope"):
                require(scope, call)


def test_the_table_is_whole():
    """Every call has a scope, and every step of recovery a call."""
    assert set(NEEDS) == set(Call)
    assert set(RECOVER) == {1, 2, 3}
