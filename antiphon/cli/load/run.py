"""Connects all users, starts them together and measures while they talk. Reports the progress."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from rich.progress import BarColumn, Progress, TextColumn

from antiphon.cli.load.plan import LoadLog, LoadPlan, LoadRequest, LoadTimes
from antiphon.cli.load.users import LoadInputs, SimulatedUser
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.cli.terminal import Terminal
from antiphon.client.errors import ClientError
from antiphon.client.options import ClientOptions

ReportStage = Callable[[str, float, float], None]
"""Called with the stage, how much of it is done, and all of it."""

_FRAMES_PER_S = 2
"""Few: the bar shares a CPU with the users that are measured."""


@contextmanager
def progress_bar() -> Iterator[ReportStage]:
    """Bars on stderr until the block ends; nothing if stderr is no terminal."""
    console = Terminal(stderr=True)
    columns = TextColumn("{task.description:<18}"), BarColumn(), TextColumn("{task.fields[count]}")
    with Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=_FRAMES_PER_S,
        disable=not console.is_terminal,
    ) as bars:
        bar = bars.add_task("connecting", total=None, count="")

        def report(stage: str, done: float, total: float) -> None:
            count = f"{done:.0f} of {total:.0f}"
            bars.update(bar, description=stage, completed=done, total=total, count=count)

        yield report


_ARRIVAL_S = 0.02
"""Pause between two connecting users: the load of simultaneous connects is not measured."""

_START_DELAY_S = 0.2
_REPORT_S = 0.5


class NoUserServed(Exception):
    """No user had a turn, so there is nothing to measure; the message says why."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A finished load; `requests` are those of the measured window."""

    plan: LoadPlan
    log: LoadLog
    requests: list[LoadRequest]
    unserved: int
    before: ProcessUsage
    after: ProcessUsage

    @property
    def is_unanswered(self) -> bool:
        """True if there were requests, and none has an answer: users of chats connect with each of them."""
        return bool(self.requests) and all(one.answered_at is None for one in self.requests)


class StartBarrier:
    """Holds users that have a turn until all have one or have failed, or the patience is over."""

    def __init__(self, sessions: int, log: LoadLog, report: ReportStage) -> None:
        self.served: set[int] = set()
        self._sessions = sessions
        self._report = report
        self._unknown = set(range(sessions))
        self._log = log
        self._complete = asyncio.Event()
        self._opened = asyncio.Event()

    async def wait(self, number: int, began: float) -> None:
        """Return when the load starts. The user has a turn, and began to connect at `began`."""
        self._log.opened_ms.append((time.monotonic() - began) * 1000)
        self.served.add(number)
        self._report("users with a turn", len(self.served), self._sessions)
        self.leave(number)
        await self._opened.wait()

    def leave(self, number: int) -> None:
        """This user need not be waited for."""
        self._unknown.discard(number)
        if not self._unknown:
            self._complete.set()

    async def open(self, plan: LoadPlan) -> LoadTimes:
        """Plan the requests and start all users. Raises NoUserServed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(plan.patience_s):
                await self._complete.wait()
        if not self.served:
            why = "; ".join(self._log.failures)
            late = f"no user had a turn and a prepared session within {plan.patience_s:g} s"
            raise NoUserServed(why or f"{late}; --patience waits longer")
        times = LoadTimes.of(plan, time.monotonic() + _START_DELAY_S)
        self._log.plan_requests(plan, times)
        self._opened.set()
        return times


async def run_load(
    url: str,
    how: ClientOptions,
    plan: LoadPlan,
    inputs: LoadInputs,
    usage: Callable[[], ProcessUsage],
    report: ReportStage = lambda _stage, _done, _total: None,
) -> LoadResult:
    """Put the load on an edge. Raises NoUserServed."""
    log = LoadLog()
    barrier = StartBarrier(plan.sessions, log, report)
    tasks: list[asyncio.Task[None]] = []
    try:
        for number in range(plan.sessions):
            ready = partial(barrier.wait, number, time.monotonic())
            user = SimulatedUser(number, plan.kind_of(number), url, how, inputs, log, ready)
            tasks.append(asyncio.create_task(_run_user(user, barrier)))
            await asyncio.sleep(_ARRIVAL_S)
        times = await barrier.open(plan)
        for number in set(range(plan.sessions)) - barrier.served:
            tasks[number].cancel()  # a user that started now would be late from the beginning
        await _report_until(times.measure, "s of warm-up", report)
        before = usage()
        await _report_until(times.stop, "s of measurement", report)
        after = usage()
        await asyncio.wait(tasks, timeout=plan.grace_s)
    finally:
        for task in tasks:
            task.cancel()
        for ending in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ending, Exception):
                raise ending
    unserved = plan.sessions - len(barrier.served)
    return LoadResult(plan, log, log.measured(times), unserved, before, after)


async def _report_until(end: float, stage: str, report: ReportStage) -> None:
    """Wait until this `time.monotonic()`."""
    began = time.monotonic()
    while (now := time.monotonic()) < end:
        report(stage, now - began, end - began)
        await asyncio.sleep(min(_REPORT_S, end - now))


async def _run_user(user: SimulatedUser, barrier: StartBarrier) -> None:
    """Logs the errors of a failed session; its remaining requests are lost."""
    try:
        await user.run()
    except* ClientError as group:
        for error in group.exceptions:
            user.log.failures[f"{user.kind}: {error}"] += 1
    finally:
        barrier.leave(user.number)
