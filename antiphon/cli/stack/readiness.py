"""Waits until a newly started stack accepts sessions, and reports its progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.common import READY_TIMEOUT_S
from antiphon.cli.stack.stack import Stack
from antiphon.shared_schemas.registry import WorkerRow
from antiphon.shared_schemas.states import WorkerState

_POLL_S = 0.1
_NOT_YET = (WorkerState.LOADING, WorkerState.ERROR, WorkerState.OFFLINE, WorkerState.DRAINING)

ReportProgress = Callable[[str, str], None]
"""Called with (service, its stage) whenever the stage changes."""


class NotReady(Exception):
    """The stack did not start; the message says what is missing."""


def no_report(_service: str, _stage: str) -> None:
    """No-op progress callback."""


async def wait_until_ready(stack: Stack, report: ReportProgress = no_report) -> WorkerRow:
    """Return this stack's worker once it and the edge accept sessions. Raises NotReady."""
    settings = BrokerSettings(redis_url=stack.redis_url)
    try:
        async with asyncio.timeout(READY_TIMEOUT_S), open_broker(settings) as broker:
            row = await _worker_ready(stack, broker, report)
            await _edge_ready(stack, report)
            return row
    except TimeoutError:
        raise NotReady(f"the stack was not ready after {READY_TIMEOUT_S:.0f} s") from None
    except BrokerError as error:
        raise NotReady(str(error)) from error


async def _worker_ready(stack: Stack, broker: Broker, report: ReportProgress) -> WorkerRow:
    shown = ""
    began = time.monotonic()
    while True:
        row = await _own_worker(stack, broker)
        stage = _stage(row)
        if row is not None and row.state not in _NOT_YET:
            report("worker", f"ready after {time.monotonic() - began:.1f} s: {row.model}")
            return row
        if stage != shown:
            report("worker", stage)
            shown = stage
        await asyncio.sleep(_POLL_S)


async def _own_worker(stack: Stack, broker: Broker) -> WorkerRow | None:
    """The worker of this stack; a shared Redis may have others."""
    mark = f"-{stack.services['worker'].pid}-"
    rows = (await broker.queue.snapshot()).workers
    return next((row for row in rows if mark in row.id), None)


def _stage(row: WorkerRow | None) -> str:
    if row is None:
        return "starting"
    return f"{row.state}: {row.detail}" if row.detail else str(row.state)


async def _edge_ready(stack: Stack, report: ReportProgress) -> None:
    url = f"{stack.plan.http_url}/health"
    while True:
        if await asyncio.to_thread(serves_http, url):
            break
        await asyncio.sleep(_POLL_S)
    report("edge", f"ready: {stack.plan.edge_url}")


def serves_http(url: str) -> bool:
    """True if a GET of this address on this machine succeeds (without a proxy)."""
    try:
        with build_opener(ProxyHandler({})).open(Request(url), timeout=2.0) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (URLError, OSError):
        return False
