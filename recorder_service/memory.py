"""Returns memory that nothing uses to the operating system."""

from __future__ import annotations

import ctypes


def return_unused_memory() -> None:
    """glibc keeps what its threads have freed. No-op with another C library."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
