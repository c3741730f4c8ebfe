"""Scopes include those below them, and no other."""

from __future__ import annotations

import pytest

from bodyd.contract.lease import Scope

ORDER = [Scope.VIEWER, Scope.DRIVER, Scope.OWNER]


@pytest.mark.parametrize("held", ORDER)
@pytest.mark.parametrize("needed", ORDER)
def test_a_scope_covers_itself_and_the_lesser(held: Scope, needed: Scope) -> None:
    """Owner covers all, driver covers viewer, viewer covers looking alone."""
    assert held.covers(needed) == (ORDER.index(held) >= ORDER.index(needed))
