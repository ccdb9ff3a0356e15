"""Connects all users, starts them together and measures while they talk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from antiphon.cli.load.inputs import LoadInputs
from antiphon.cli.load.log import LoadLog, LoadRequest
from antiphon.cli.load.plan import LoadPlan, LoadTimes
from antiphon.cli.load.usage import ProcessUsage
from antiphon.cli.load.users import SimulatedUser
from antiphon.client.errors import ClientError
from antiphon.client.link import ClientOptions

_ARRIVAL_S = 0.02
"""Pause between two connecting users: the load of simultaneous connects is not measured."""

_START_DELAY_S = 0.2


class NobodyServed(Exception):
    """No user had a turn, so there is nothing to measure; the message says why."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A finished load; `requests` are those of the measured window."""

    plan: LoadPlan
    times: LoadTimes
    log: LoadLog
    requests: list[LoadRequest]
    unserved: int
    before: ProcessUsage
    after: ProcessUsage


class StartBarrier:
    """Holds users that have a turn until all have one or have failed, or the patience is over."""

    def __init__(self, plan: LoadPlan, log: LoadLog) -> None:
        self.served: set[int] = set()
        self.log = log
        self._failed: set[int] = set()
        self._plan = plan
        self._complete = asyncio.Event()
        self._opened = asyncio.Event()

    async def wait(self, number: int) -> None:
        """Return when the load starts."""
        self.served.add(number)
        self._check()
        await self._opened.wait()

    def leave(self, number: int) -> None:
        """This user gets no turn."""
        self._failed.add(number)
        self._check()

    async def open(self) -> LoadTimes | None:
        """Plan the requests and start all users; None if no user has a turn."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._plan.patience_s):
                await self._complete.wait()
        if not self.served:
            return None
        times = LoadTimes.of(self._plan, time.monotonic() + _START_DELAY_S)
        self.log.plan_requests(self._plan, times)
        self._opened.set()
        return times

    def _check(self) -> None:
        if len(self.served | self._failed) == self._plan.sessions:
            self._complete.set()


async def run_load(
    url: str,
    how: ClientOptions,
    plan: LoadPlan,
    inputs: LoadInputs,
    usage: Callable[[], ProcessUsage],
) -> LoadResult:
    """Put the load on an edge. Raises NobodyServed."""
    log = LoadLog()
    barrier = StartBarrier(plan, log)
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(plan.sessions):
            ready = _ready(barrier, number)
            user = SimulatedUser(number, plan.kind_of(number), url, how, inputs, log, ready)
            tasks.append(group.create_task(_run_user(user, barrier)))
            await asyncio.sleep(_ARRIVAL_S)
        times = await barrier.open()
        for number in set(range(plan.sessions)) - barrier.served:
            tasks[number].cancel()  # a user that started now would be late from the beginning
        if times is not None:
            before, after = await _measure(times, usage)
            await asyncio.wait(tasks, timeout=plan.grace_s)
        for task in tasks:
            task.cancel()
    if times is None:
        why = "; ".join(log.failures)
        raise NobodyServed(why or f"no user had a turn within {plan.patience_s:g} s")
    unserved = plan.sessions - len(barrier.served)
    return LoadResult(plan, times, log, log.measured(times), unserved, before, after)


def _ready(barrier: StartBarrier, number: int) -> Callable[[], Coroutine[None, None, None]]:
    """The barrier for one user, which starts to connect now."""
    began = time.monotonic()

    async def ready() -> None:
        barrier.log.opened_ms.append((time.monotonic() - began) * 1000)
        await barrier.wait(number)

    return ready


async def _run_user(user: SimulatedUser, barrier: StartBarrier) -> None:
    """Logs the errors of a failed session; its remaining requests are lost."""
    try:
        await user.run()
    except* ClientError as group:
        for error in _leaves(group):
            user.log.failures[f"{user.kind}: {error}"] += 1
    finally:
        barrier.leave(user.number)


def _leaves(group: BaseExceptionGroup[ClientError]) -> list[ClientError]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


async def _measure(
    times: LoadTimes, usage: Callable[[], ProcessUsage]
) -> tuple[ProcessUsage, ProcessUsage]:
    await asyncio.sleep(times.measure - time.monotonic())
    before = usage()
    await asyncio.sleep(times.stop - time.monotonic())
    return before, usage()
