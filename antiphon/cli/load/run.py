"""Lets all users in, lets them begin together, and measures while they talk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from antiphon.cli.load.ledger import Ledger, Moment
from antiphon.cli.load.material import Material
from antiphon.cli.load.plan import LoadPlan, Times
from antiphon.cli.load.usage import Usage
from antiphon.cli.load.users import User
from antiphon.client.errors import ClientError
from antiphon.client.link import Connecting

_ARRIVAL_S = 0.02
"""Between two users who come in: a crowd at a door is not what is measured."""

_BREATH_S = 0.2


class NobodyServed(Exception):
    """No user was served, so there is nothing to measure; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A load that has run."""

    plan: LoadPlan
    times: Times
    ledger: Ledger
    moments: list[Moment]
    unserved: int
    before: Usage
    after: Usage


class Gate:
    """Users wait here once they are served; it opens when all are, or have left, or are out of patience."""

    def __init__(self, plan: LoadPlan, ledger: Ledger) -> None:
        self.served: set[int] = set()
        self._left: set[int] = set()
        self._plan = plan
        self.ledger = ledger
        self._settled = asyncio.Event()
        self._opened = asyncio.Event()

    async def pass_through(self, number: int) -> None:
        """Return when the load begins."""
        self.served.add(number)
        self._look()
        await self._opened.wait()

    def leave(self, number: int) -> None:
        """A user will not be served any more."""
        self._left.add(number)
        self._look()

    async def open(self) -> Times | None:
        """Write down what is due from now on, and let everyone begin; None where nobody is there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._plan.patience_s):
                await self._settled.wait()
        if not self.served:
            return None
        times = Times.of(self._plan, time.monotonic() + _BREATH_S)
        self.ledger.write_down(self._plan, times)
        self._opened.set()
        return times

    def _look(self) -> None:
        if len(self.served | self._left) == self._plan.sessions:
            self._settled.set()


async def run_load(
    url: str, how: Connecting, plan: LoadPlan, material: Material, usage: Callable[[], Usage]
) -> Outcome:
    """Put the load on an edge. Raises NobodyServed."""
    ledger = Ledger()
    gate = Gate(plan, ledger)
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(plan.sessions):
            ready = _door(gate, number)
            user = User(number, plan.kind_of(number), url, how, material, ledger, ready)
            tasks.append(group.create_task(_live(user, gate)))
            await asyncio.sleep(_ARRIVAL_S)
        times = await gate.open()
        for number in set(range(plan.sessions)) - gate.served:
            tasks[number].cancel()  # one who came in now would be behind from the start
        if times is not None:
            before, after = await _measure(times, usage)
            await asyncio.wait(tasks, timeout=plan.grace_s)
        for task in tasks:
            task.cancel()
    if times is None:
        why = "; ".join(ledger.failures)
        raise NobodyServed(why or f"nobody had a turn within {plan.patience_s:g} s")
    unserved = plan.sessions - len(gate.served)
    return Outcome(plan, times, ledger, ledger.measured(times), unserved, before, after)


def _door(gate: Gate, number: int) -> Callable[[], Coroutine[None, None, None]]:
    """The gate for one user, who has just begun to connect."""
    came_at = time.monotonic()

    async def ready() -> None:
        gate.ledger.opened_ms.append((time.monotonic() - came_at) * 1000)
        await gate.pass_through(number)

    return ready


async def _live(user: User, gate: Gate) -> None:
    """A user whose session fails leaves what was still due undone, and says why."""
    try:
        await user.live()
    except* ClientError as group:
        for error in _leaves(group):
            user.ledger.failures[f"{user.kind}: {error}"] += 1
    finally:
        gate.leave(user.number)


def _leaves(group: BaseExceptionGroup[ClientError]) -> list[ClientError]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


async def _measure(times: Times, usage: Callable[[], Usage]) -> tuple[Usage, Usage]:
    await asyncio.sleep(times.measure - time.monotonic())
    before = usage()
    await asyncio.sleep(times.stop - time.monotonic())
    return before, usage()
