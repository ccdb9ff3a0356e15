"""Signals of a service process as a stop event."""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals(again: asyncio.Event | None = None) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, for the running loop. A second signal sets `again`."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set() and again is not None:
            again.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
