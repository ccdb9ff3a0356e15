"""Waiting until a freshly started stack can be talked to, and telling how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.stack import Stack
from antiphon.shared_schemas.registry import WorkerRow
from antiphon.shared_schemas.states import WorkerState

_POLL_S = 0.1
_NOT_YET = (WorkerState.LOADING, WorkerState.ERROR, WorkerState.OFFLINE, WorkerState.DRAINING)

Progress = Callable[[str, str], None]
"""Told (service, what it is doing) whenever that changes."""


class NotReady(Exception):
    """The stack did not come up; the message says what is missing."""


async def wait_until_ready(stack: Stack, progress: Progress, timeout_s: float) -> WorkerRow:
    """Return this stack's worker once it and the edge take sessions. Raises NotReady."""
    settings = BrokerSettings(redis_url=stack.redis_url)
    try:
        async with asyncio.timeout(timeout_s), open_broker(settings) as broker:
            row = await _worker_ready(stack, broker, progress)
            await _edge_ready(stack, progress)
            return row
    except TimeoutError:
        raise NotReady(f"the stack was not ready after {timeout_s:.0f} s") from None
    except BrokerError as error:
        raise NotReady(str(error)) from error


async def _worker_ready(stack: Stack, broker: Broker, progress: Progress) -> WorkerRow:
    shown = ""
    began = time.monotonic()
    while True:
        row = await _own_worker(stack, broker)
        stage = _stage(row)
        if row is not None and row.state not in _NOT_YET:
            progress("worker", f"ready after {time.monotonic() - began:.1f} s: {row.model}")
            return row
        if stage != shown:
            progress("worker", stage)
            shown = stage
        await asyncio.sleep(_POLL_S)


async def _own_worker(stack: Stack, broker: Broker) -> WorkerRow | None:
    """The row of the worker started here; a shared Redis may know others."""
    mark = f"-{stack.services['worker'].pid}-"
    rows = (await broker.queue.snapshot()).workers
    return next((row for row in rows if mark in row.id), None)


def _stage(row: WorkerRow | None) -> str:
    if row is None:
        return "starting"
    return f"{row.state}: {row.detail}" if row.detail else str(row.state)


async def _edge_ready(stack: Stack, progress: Progress) -> None:
    url = f"{stack.plan.http_url}/health"
    while True:
        if await asyncio.to_thread(answers, url):
            break
        await asyncio.sleep(_POLL_S)
    progress("edge", f"ready: {stack.plan.edge_url}")


def answers(url: str) -> bool:
    """True when a GET of this address on our own machine succeeds (no proxy is asked)."""
    try:
        with build_opener(ProxyHandler({})).open(Request(url), timeout=2.0) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (URLError, OSError):
        return False
