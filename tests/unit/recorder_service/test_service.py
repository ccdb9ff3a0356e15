"""A burst of sessions leaves no memory behind."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from antiphon.recorder_service.service import return_unused_memory

BLOCKS = 40_000
BLOCK = 4_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_what_threads_have_freed_is_returned() -> None:
    """Every second block is freed last, so that no arena shrinks by itself."""
    kept: list[bytearray] = []

    def allocate() -> None:
        blocks = [bytearray(BLOCK) for _ in range(BLOCKS)]
        kept.extend(blocks[::1000])

    with ThreadPoolExecutor(1) as thread:
        thread.submit(allocate).result()
        before = psutil.Process().memory_info().rss
        return_unused_memory()
        assert psutil.Process().memory_info().rss < before - BLOCK * BLOCKS // 2
    assert kept


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_cycles_of_finished_sessions_are_freed() -> None:
    """An idle process allocates too little to start a full collection by itself."""
    gc.disable()
    try:
        seen = weakref.ref(_Cycle())
        return_unused_memory()
        assert seen() is None
    finally:
        gc.enable()
