"""The signals that stop `antiphon up`, and the table that it shows."""

import asyncio
import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.cli.commands.background import KILL_SIGNAL
from antiphon.cli.commands.up import TerminalView, _Run, plan_from, status_table
from antiphon.cli.stack.stack import StackPlan, open_stack
from antiphon.cli.terminal import Terminal
from antiphon.shared_schemas.registry import WorkerRow
from antiphon.shared_schemas.states import WorkerState

WORKER = WorkerRow(
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
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Under nohup SIGHUP is ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class SlowStack:
    """Stops when `may_end` is set. Its services ignore everything else but `kill`."""

    def __init__(self, folder: Path) -> None:
        self.plan = StackPlan(data_dir=folder, host="127.0.0.1", port=0)
        self.stopping, self.may_end = asyncio.Event(), asyncio.Event()
        self.kills = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        guard = asyncio.create_task(asyncio.sleep(3600))
        try:
            yield guard
        finally:
            self.stopping.set()
            await self.may_end.wait()
            guard.cancel()

    async def wait_until_ready(self, _report: object) -> None:
        await asyncio.sleep(3600)

    def kill(self) -> None:
        self.kills += 1
        self.may_end.set()


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", SIGNALS[:3])
@pytest.mark.parametrize("at_once", [signal.SIGINT, signal.SIGQUIT])
async def test_signals_stop_it_and_two_of_them_kill(
    number: signal.Signals, at_once: signal.Signals, tmp_path: Path
) -> None:
    stack = SlowStack(tmp_path)
    view = TerminalView()
    run = asyncio.create_task(_Run(stack, view, lambda: None).run())  # type: ignore[arg-type]
    async with asyncio.timeout(90):
        await asyncio.sleep(0)
        signal.raise_signal(number)
        await stack.stopping.wait()
        for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, at_once):
            signal.raise_signal(again)
        assert await run == 0
    assert stack.kills == 1


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
async def test_the_signal_of_down_now_stops_it_at_once(
    before: signal.Handlers, tmp_path: Path
) -> None:
    """A program that a shell script starts in the background ignores it at first."""
    signal.signal(KILL_SIGNAL, before)
    stack = SlowStack(tmp_path)
    view = TerminalView()
    run = asyncio.create_task(_Run(stack, view, lambda: None).run())  # type: ignore[arg-type]
    async with asyncio.timeout(90):
        await asyncio.sleep(0)
        signal.raise_signal(KILL_SIGNAL)
        assert await run == 0
    assert stack.kills == 1


@pytest.mark.usefixtures("default_signals")
async def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stack = SlowStack(tmp_path)
    view = TerminalView()
    run = asyncio.create_task(_Run(stack, view, lambda: None).run())  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    stack.may_end.set()
    signal.raise_signal(signal.SIGTERM)
    assert await run == 0


def test_the_table_does_not_show_the_password_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_REDIS_URL", "redis+cluster://anna:secret@a,b:1")
    with open_stack(plan_from(redis_url=None, redis_port=0), lambda *_: None) as stack:
        table = status_table(stack, WORKER)
    shown = io.StringIO()
    Terminal(file=shown, width=200).print(table)
    assert "redis+cluster://***@a,b:1" in shown.getvalue()
    assert "secret" not in shown.getvalue()


class FullDisk(io.StringIO):
    """Refuses what is written to it while `full`."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_output_to_a_full_disk_does_not_end_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = FullDisk()
    monkeypatch.setattr(sys, "stdout", output)
    view = TerminalView()
    plan = StackPlan(data_dir=tmp_path, host="127.0.0.1", port=1)
    with open_stack(replace(plan, redis_url="redis://h"), lambda *_: None) as stack:
        view.greet(stack, WORKER)
    view.take("edge", "lost line")
    view.say("lost word")
    view.failed(ValueError("lost error"))
    output.full = False
    view.take("edge", "kept line")
    assert output.getvalue().splitlines() == ["edge     │ kept line"]


PROGRAM = """
import asyncio, signal, sys
from pathlib import Path
from antiphon.cli.commands.up import TerminalView, _Run
from cli.commands.test_up import SlowStack

async def main():
    stack = SlowStack(Path("."))
    stack.may_end.set()
    if sys.argv[1] == "SIGTERM":
        asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGTERM)
    return await _Run(stack, view, lambda: None).run()

view = TerminalView()
status = asyncio.run(main())
view.close()
sys.stdout.flush()
sys.exit(status)
"""


def run_with_output(output: int, argument: str, folder: Path) -> tuple[int, str]:
    """The exit status and stderr of a stack whose stdout is this file descriptor."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        timeout=90,
    )
    return ended.returncode, ended.stderr


@pytest.mark.usefixtures("default_signals")
def test_a_reader_that_has_ended_stops_the_stack_in_order(tmp_path: Path) -> None:
    """As in `antiphon up | tee up.log`, where Ctrl-C ends `tee` as well."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        assert run_with_output(write_end, "", tmp_path) == (0, "")
    finally:
        os.close(write_end)


def test_a_stop_with_a_full_disk_is_no_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        assert run_with_output(full.fileno(), "SIGTERM", tmp_path) == (0, "")
