"""Memory that is freed is kept for the next request.

A request with a picture takes and frees a dozen blocks of megabytes. glibc gives each back to the kernel,
which has to clear every page when it is asked for again: 3,400 page faults and 8 ms for a picture of 2 MB, as
much as everything else that is done with it. Kept are at most some tens of megabytes.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""
KEPT = 32 * 1024 * 1024
LARGEST = 16 * 1024 * 1024
"""Bytes of one block; larger ones come from the kernel and go back."""


def keep_freed() -> bool:
    """For this whole process; whether its C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT) and mallopt(M_MMAP_THRESHOLD, LARGEST))
