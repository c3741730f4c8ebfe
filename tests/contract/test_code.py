"""What may be asked of the code tool."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bodyd.contract.code import MAX_CODE_BYTES, CodeRequest, CodeSettings


def test_code_is_bounded_in_bytes() -> None:
    """Not in characters; a lone surrogate counts as what it would take."""
    assert CodeRequest(code="x" * MAX_CODE_BYTES).code
    for long in ("x" * (MAX_CODE_BYTES + 1), "漢" * (MAX_CODE_BYTES // 3 + 1), "\ud800" * MAX_CODE_BYTES):
        with pytest.raises(ValidationError, match="run it in parts"):
            CodeRequest(code=long)


def test_it_is_on_and_within_its_bounds() -> None:
    """By default; no setting raises the minute."""
    assert CodeSettings().enabled
    with pytest.raises(ValidationError):
        CodeSettings(timeout_ms=60_001)
