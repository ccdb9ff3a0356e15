"""Takes what a session's two streams say into its folder, while it lives and what they hold at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from antiphon.broker.client import Broker
from antiphon.recorder_service.job import Job
from antiphon.recorder_service.session_folder import SessionFolder
from antiphon.recorder_service.timeline import SIDES, Side

_UNREAD_LIMIT = 64
"""Entries held in memory per stream; beyond that they are read from Redis again."""


class Intake:
    """`on_recorded` is told of each entry that is on disk, by the time it was said (Redis-clock ms)."""

    def __init__(self, broker: Broker, job: Job, on_recorded: Callable[[float], None]) -> None:
        self._broker = broker
        self._job = job
        self._on_recorded = on_recorded
        keys = broker.keys
        self._keys: dict[Side, str] = {"in": keys.inbound(job.sid), "out": keys.outbound(job.sid)}

    async def run(self, folder: SessionFolder, settled: Awaitable[None]) -> None:
        """Until the session is over and has settled. Raises OSError and BrokerUnavailable."""
        tasks = [asyncio.create_task(self._follow(folder, side)) for side in SIDES]
        over = asyncio.ensure_future(settled)
        try:
            done, _ = await asyncio.wait([*tasks, over], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, over):
                task.cancel()
            await asyncio.gather(*tasks, over, return_exceptions=True)
        for side in SIDES:
            await self._drain(folder, side)

    async def _follow(self, folder: SessionFolder, side: Side) -> None:
        subscribe = self._broker.reader.subscribe
        while True:  # a disk that fell behind: go on from where it stands
            after = folder.position(side)
            async with subscribe(self._keys[side], after, limit=_UNREAD_LIMIT) as entries:
                async for position, entry in entries:
                    await asyncio.to_thread(folder.add, side, position, entry)
                    self._on_recorded(entry.at)

    async def _drain(self, folder: SessionFolder, side: Side) -> None:
        after = folder.position(side)
        history = self._broker.streams.history(self._keys[side], self._job.ticket, after)
        async for position, entry in history:
            await asyncio.to_thread(folder.add, side, position, entry)
            self._on_recorded(entry.at)
