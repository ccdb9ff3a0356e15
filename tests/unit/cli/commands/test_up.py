"""The signals that stop `antiphon up`, and the table that it shows."""

import asyncio
import io
import signal

import pytest

from antiphon.cli.commands.up import _on_signals, plan_from, status_table
from antiphon.cli.stack.stack import open_stack
from antiphon.cli.terminal import Terminal
from antiphon.shared_schemas.registry import WorkerRow
from antiphon.shared_schemas.states import WorkerState


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_stop_it(number: signal.Signals) -> None:
    stopped = asyncio.Event()
    before = signal.signal(number, signal.SIG_DFL)  # under nohup SIGHUP is ignored
    _on_signals(stopped.set)
    try:
        signal.raise_signal(number)
        async with asyncio.timeout(90):
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


def test_the_table_does_not_show_the_password_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_REDIS_URL", "redis+cluster://anna:secret@a,b:1")
    worker = WorkerRow(
        id="w1",
        engine="test",
        model="none",
        kinds=frozenset(),
        slots=1,
        used=0,
        state=WorkerState.IDLE,
        device="cpu",
        address="127.0.0.1:1",
        beat_at=0,
        open=True,
        detail="",
        counters={},
        memory=None,
        latency={},
    )
    with open_stack(plan_from(redis_url=None, redis_port=0), lambda *_: None) as stack:
        table = status_table(stack, worker)
    shown = io.StringIO()
    Terminal(file=shown, width=200).print(table)
    assert "redis+cluster://***@a,b:1" in shown.getvalue()
    assert "secret" not in shown.getvalue()
