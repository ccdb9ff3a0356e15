"""The environment of processes that tests start, and whether they end."""

import os
import time

import psutil

ANY_PORTS = {
    f"ANTIPHON_{name}PORT": "0"
    for name in ("", "HEALTH_", "EDGE_HEALTH_", "RECORDER_HEALTH_", "CLEANUP_HEALTH_")
}
"""Each service listens on a free port."""


def without_settings() -> dict[str, str]:
    """The environment of the tests without settings of Antiphon."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}


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
