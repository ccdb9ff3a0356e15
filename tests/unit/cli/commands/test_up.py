"""The signals that stop `antiphon up`."""

from __future__ import annotations

import asyncio
import signal

import pytest

from antiphon.cli.commands.up import _on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_stop_it(number: signal.Signals) -> None:
    stopped = asyncio.Event()
    before = signal.signal(number, signal.SIG_DFL)  # under nohup SIGHUP is ignored
    _on_signals(stopped.set)
    try:
        signal.raise_signal(number)
        async with asyncio.timeout(30):
            await stopped.wait()
    finally:
        for added in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(added)
        signal.signal(number, before)


async def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _on_signals(lambda: None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for added in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(added)
        signal.signal(signal.SIGHUP, before)
