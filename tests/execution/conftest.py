"""Whatever a test here starts is gone when it ends."""

from __future__ import annotations

from tests.desktop.conftest import nothing_left

__all__ = ["nothing_left"]
