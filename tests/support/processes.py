"""Processes that tests expect to end."""

from __future__ import annotations

import time

import psutil


def all_end(processes: list[psutil.Process], within_s: float = 60.0) -> bool:
    """Whether they end in time.

    A process whose parent died stays as a zombie where process 1 collects none, as in many containers.
    """
    deadline = time.monotonic() + within_s
    while any(map(_runs, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
