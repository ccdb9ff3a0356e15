"""Runs all cases, in several calls at once."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from antiphon.cli.evaluate.call import (
    ConnectedCall,
    DuplexCall,
    Punctuality,
    duplex_call,
    half_duplex_call,
)
from antiphon.cli.evaluate.plan import Script
from antiphon.cli.evaluate.scripts import Spent, run
from antiphon.cli.evaluate.tracks import Case, Kind
from antiphon.client.options import ClientOptions

_TRIES = 3

ReportCases = Callable[[str, float, float], None]
OpenCall = Callable[[], AbstractAsyncContextManager[ConnectedCall]]


class CallFailed(Exception):
    """A case could not be tried; the message says why."""


@dataclass(slots=True)
class Evaluation:
    """All cases that were tried, in the order of their ends."""

    cases: list[Case] = field(default_factory=list)
    punctuality: Punctuality = field(default_factory=Punctuality)
    errors: Counter[str] = field(default_factory=Counter)
    simulated: bool = False
    chunk_s: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where to call, and how. `chunk_ms` None: what suits the engine."""

    url: str
    how: ClientOptions
    chunk_ms: int | None = None

    def opener(self, kind: Kind) -> OpenCall:
        if kind is Kind.HALF_DUPLEX:
            return partial(half_duplex_call, self.url, self.how)
        return partial(duplex_call, self.url, self.how, self.chunk_ms)


async def evaluate(
    line: Line,
    calls: Sequence[Sequence[Script]],
    at_once: int,
    report: ReportCases = lambda _stage, _done, _total: None,
) -> Evaluation:
    """Make these calls, `at_once` at a time. Raises ClientError or CallFailed."""
    found, left, began = Evaluation(), deque(calls), time.monotonic()
    total = sum(len(call) for call in calls)

    async def take_calls() -> None:
        while left:
            for_one_call = left.popleft()
            await _make_call(
                line, for_one_call, found, lambda: report("cases", len(found.cases), total)
            )

    report("cases", 0, total)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(take_calls())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    found.seconds = time.monotonic() - began
    return found


async def _make_call(
    line: Line, scripts: Sequence[Script], found: Evaluation, report: Callable[[], None]
) -> None:
    """In another call where one ends. A case whose call is lost is tried again."""
    left, tries = deque(scripts), 0
    while left:
        async with line.opener(left[0].kind)() as call:
            is_fresh, is_over = True, False
            while left:
                try:
                    case = await run(call, left[0])
                except Spent:
                    tries += is_fresh
                    break
                if is_over := call.over:
                    tries += 1
                    break
                found.cases.append(case)
                left.popleft()
                tries, is_fresh = 0, False
                report()
        _note(found, call)
        if tries >= _TRIES:
            cause = "the server ended the session" if is_over else "the model does not fall silent"
            why = call.errors[-1] if call.errors else cause
            raise CallFailed(
                f"the case {left[0].kind} ({left[0].text}) was lost {tries} times: {why}"
            )


def _note(found: Evaluation, call: ConnectedCall) -> None:
    found.punctuality.add(call.punctuality)
    found.errors.update(call.errors)
    found.simulated |= call.simulated
    if isinstance(call, DuplexCall):
        found.chunk_s = call.chunk_s
