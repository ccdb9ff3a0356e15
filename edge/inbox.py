"""What waits to be appended to one session's input stream: in order, bounded, patient in an outage."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from broker.client import Broker
from broker.retry import persist
from broker.streams import StreamWriter
from shared_schemas.errors import ErrorCode, InvalidInput
from shared_schemas.stream_entries import ChunkIn, DiagnosticIn, InEntry

MAX_WAITING = 32
"""Chunks and diagnostics that may wait for Redis; a client's few other messages always may."""


class Inbox:
    """Entries go in without waiting; one task appends them."""

    def __init__(self, broker: Broker, sid: str, ticket: int, patience_s: float) -> None:
        self._broker = broker
        self._sid = sid
        self._ticket = ticket
        self._patience_s = patience_s
        self._entries: asyncio.Queue[InEntry] = asyncio.Queue()

    def put(self, entry: InEntry) -> None:
        """Queue an entry. Raises InvalidInput with `input_backpressure` when too many wait."""
        if isinstance(entry, ChunkIn | DiagnosticIn) and self._entries.qsize() >= MAX_WAITING:
            text = "the server cannot take more input just now; message refused"
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        self._entries.put_nowait(entry)

    async def flush(self, within_s: float) -> bool:
        """Wait until everything is in the stream; False when it took too long."""
        try:
            async with asyncio.timeout(within_s):
                await self._entries.join()
        except TimeoutError:
            return False
        return True

    async def run(self) -> NoReturn:
        """Append for ever. Raises BrokerUnavailable after the patience, or StaleFence."""
        writer = await self._open()
        while True:
            entry = await self._entries.get()
            await self._append(writer, entry)
            self._entries.task_done()

    async def _open(self) -> StreamWriter:
        return await persist(
            lambda: self._broker.streams.input_writer(self._sid, self._ticket),
            "open a session's input",
            patience_s=self._patience_s,
        )

    async def _append(self, writer: StreamWriter, entry: InEntry) -> None:
        await persist(
            lambda: writer.append(entry), "append a client's input", patience_s=self._patience_s
        )
