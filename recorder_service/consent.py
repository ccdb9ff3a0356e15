"""Whether a session may be recorded: its client says so before anything else, with `record`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from broker.client import Broker
from broker.retry import persist
from recorder_service.job import Job
from shared_schemas.stream_entries import (
    ChatIn,
    HalfPrepareIn,
    PrepareIn,
    StreamEntry,
    StreamPosition,
)


async def has_consent(broker: Broker, job: Job, settled: Awaitable[None]) -> bool:
    """Wait until the client has said what it wants, or until the session is over without a word.

    Where that entry is lost, the worker's note of it in the session's row counts.
    """
    stated = asyncio.create_task(_heard(broker, job))
    over = asyncio.ensure_future(settled)
    try:
        await asyncio.wait([stated, over], return_when=asyncio.FIRST_COMPLETED)
        wish = (
            stated.result()
            if stated.done()
            else await persist(lambda: _found(broker, job), "read what a client wants")
        )
    finally:
        for task in (stated, over):
            task.cancel()
        await asyncio.gather(stated, over, return_exceptions=True)
    if wish is None:
        wish = await persist(lambda: _noted(broker, job), "read a session's settings")
    return wish


async def _heard(broker: Broker, job: Job) -> bool | None:
    """From the live stream; None when its beginning is lost."""
    key, start = broker.keys.inbound(job.sid), StreamPosition.before(job.ticket)
    async with broker.reader.subscribe(key, start) as entries:
        async for position, entry in entries:
            wish = _wish(entry)
            if wish is not None or position.n > 1:
                return wish
    return None


async def _found(broker: Broker, job: Job) -> bool | None:
    """From what the stream still holds."""
    key = broker.keys.inbound(job.sid)
    async for _, entry in broker.streams.history(key, job.ticket):
        wish = _wish(entry)
        if wish is not None:
            return wish
    return None


async def _noted(broker: Broker, job: Job) -> bool:
    row = await broker.sessions.get(job.sid)
    ours = row is not None and row.recording == job.recording
    return not (row is not None and ours and row.config.get("record") is False)


def _wish(entry: StreamEntry) -> bool | None:
    match entry:
        case PrepareIn(config=config) | HalfPrepareIn(config=config):
            return config.record
        case ChatIn(options=options):
            return options.record
    return None
