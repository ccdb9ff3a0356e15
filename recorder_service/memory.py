"""Returns memory that nothing uses to the operating system."""

from __future__ import annotations

import ctypes
import gc


def return_unused_memory() -> None:
    """Free the cycles that finished work leaves, and what glibc keeps of the memory of threads.

    An idle process would keep both: it allocates too little to start a full collection.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
