"""Whether a session may be recorded: its client says so with `record`, where it says what it wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing

from antiphon.broker.client import Broker
from antiphon.broker.retry import persist
from antiphon.recorder_service.job import Job
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.stream_entries import (
    ChatIn,
    DiagnosticIn,
    ErrorOut,
    HalfPrepareIn,
    PrepareIn,
    StopIn,
    StreamEntry,
    StreamPosition,
)

_AT_ANY_TIME = (DiagnosticIn, StopIn)
"""What a client may send before it has said what it wants."""


async def has_consent(broker: Broker, job: Job, settled: Awaitable[None]) -> bool:
    """Wait until a worker has done what the client wants, or until the session is over.

    Not only until the client has said it: one whose `prepare` fails may ask for something else. One
    refusal is enough. Where Redis has let go of what was said, the worker's note of it in the
    session's row counts; a client that is not known to have said anything is not recorded.
    """
    await _one_of(_answered(broker, job), settled)
    wishes, whole = await persist(lambda: _stated(broker, job), "read what a client wants")
    if not all(wishes):
        return False
    if wishes and whole:
        return True
    noted = await persist(lambda: _noted(broker, job), "read a session's settings")
    return bool(wishes) if noted is None else noted


async def _one_of(*events: Awaitable[None]) -> None:
    """Wait for the first of them; the others are given up. Raises what it raises."""
    tasks = [asyncio.ensure_future(event) for event in events]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answered(broker: Broker, job: Job) -> None:
    """A worker has said something else than that it cannot; a chat cannot be asked anew."""
    is_chat = job.kind is SessionKind.CHAT
    key = (broker.keys.inbound if is_chat else broker.keys.outbound)(job.sid)
    after = StreamPosition.before(job.ticket)
    while True:  # it may fall behind: go on from where it stands
        async with broker.reader.subscribe(key, after) as entries:
            async for position, entry in entries:
                if not isinstance(entry, ErrorOut):
                    return
                after = position


async def _stated(broker: Broker, job: Job) -> tuple[list[bool], bool]:
    """Every wish that the stream still holds, and whether it holds all entries up to the last one.

    None comes after the conversation has begun, so no more than its beginning is read.
    """
    wishes: list[bool] = []
    whole, n = True, 0
    async with aclosing(broker.streams.history(broker.keys.inbound(job.sid), job.ticket)) as past:
        async for position, entry in past:
            whole, n = whole and position.n == n + 1, position.n
            wish = _wish(entry)
            if wish is not None:
                wishes.append(wish)
            elif not isinstance(entry, _AT_ANY_TIME):
                break
    return wishes, whole


async def _noted(broker: Broker, job: Job) -> bool | None:
    """What the worker that prepared the session last noted; None when no worker has, or it is gone."""
    row = await broker.sessions.get(job.sid)
    if row is None or row.recording != job.recording:
        return None
    noted: bool | None = row.config.get("record")
    return noted


def _wish(entry: StreamEntry) -> bool | None:
    match entry:
        case PrepareIn(config=config) | HalfPrepareIn(config=config):
            return config.record
        case ChatIn(options=options):
            return options.record
    return None
