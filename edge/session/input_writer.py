"""Appends a client's input and the session's checkpoints to Redis: in order, bounded, with retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NoReturn

from antiphon.broker.client import Broker
from antiphon.broker.connections.client import retry_until_available
from antiphon.broker.service.metrics import HopSeconds
from antiphon.broker.single_consumer_queue import SingleConsumerQueue
from antiphon.broker.streams import StreamWriter
from antiphon.edge.session.resume import MissedMessages
from antiphon.edge.tracing import SessionTrace
from antiphon.shared_schemas.entries import (
    Checkpoint,
    ChunkIn,
    DiagnosticIn,
    InEntry,
    PlaybackIn,
    StreamPosition,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

MAX_WAITING = 32
"""Frequent inputs are rejected beyond this length of the queue; the others are always accepted."""

_FREQUENT = (ChunkIn, DiagnosticIn, PlaybackIn)


class InputWriter:
    """The methods queue without waiting; one task writes to both streams.

    A checkpoint states how much input was written before it, so both need the same order.
    """

    def __init__(
        self,
        broker: Broker,
        sid: str,
        ticket: int,
        patience_s: float,
        seconds: HopSeconds,
        trace: SessionTrace | None = None,
    ) -> None:
        self._broker = broker
        self._sid = sid
        self._ticket = ticket
        self._seconds = seconds
        self._trace = trace
        self._retry = partial(
            retry_until_available, what="append a client's input", patience_s=patience_s
        )
        self._queue: SingleConsumerQueue[Callable[[], Awaitable[None]]] = SingleConsumerQueue()
        self._inputs: StreamWriter | None = None
        self._checkpoints: StreamWriter | None = None
        self._held: list[StreamPosition] = []

    def take_over(self, missed: MissedMessages) -> None:
        """Continue the streams of the previous connection."""
        self._inputs, self._checkpoints = missed.inputs, missed.writer
        self._held = missed.pending

    def put(self, entry: InEntry) -> None:
        """Raises InvalidInput with `input_backpressure` when too many inputs wait."""
        if isinstance(entry, _FREQUENT) and len(self._queue.items) >= MAX_WAITING:
            text = "the server cannot take more input just now; message refused"
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        self._queue.put_nowait(partial(self._append, entry, time.perf_counter()))

    def hold(self, entry: InEntry) -> None:
        """Store an input that no worker may read yet, in the checkpoint stream."""
        self._queue.put_nowait(partial(self._hold, entry))

    def delete_held(self) -> None:
        """Delete the stored inputs; they have been put."""
        self._queue.put_nowait(self._delete_held)

    def checkpoint(self, checkpoint: Checkpoint, written: Callable[[], None]) -> None:
        """`written` is called as soon as Redis has it."""
        self._queue.put_nowait(partial(self._write_checkpoint, checkpoint, written))

    async def flush(self, within_s: float) -> None:
        """Wait until everything is written, but no longer than this."""
        written = asyncio.Event()

        async def write_nothing() -> None:
            written.set()

        self._queue.put_nowait(write_nothing)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await written.wait()

    async def run(self) -> NoReturn:
        """Raises StaleFence, or BrokerUnavailable after `patience_s` without Redis."""
        while True:
            write = await self._queue.get()
            await write()
            del write  # frees its entry, which the next `get` would keep in memory

    async def _append(self, entry: InEntry, put_at: float) -> None:
        if self._inputs is None:
            open_writer = self._broker.streams.input_writer
            self._inputs = await self._retry(partial(open_writer, self._sid, self._ticket))
        if self._trace is None:
            await self._retry(partial(self._inputs.append, entry))
        else:
            span = self._trace.begin_input(entry, time.perf_counter() - put_at)
            traced = replace(entry, trace=span.context)
            await self._retry(partial(self._inputs.append, traced))
            self._trace.end_input(span)
        self._seconds.observe(time.perf_counter() - put_at)

    async def _hold(self, entry: InEntry) -> None:
        writer = await self._checkpoint_writer()
        self._held.append(await self._retry(partial(writer.append, entry)))

    async def _delete_held(self) -> None:
        held, self._held = self._held, []
        if held:
            await self._retry(partial(self._broker.streams.delete_pending, self._sid, *held))

    async def _write_checkpoint(self, checkpoint: Checkpoint, written: Callable[[], None]) -> None:
        last = self._inputs.last if self._inputs else StreamPosition.before(self._ticket)
        writer = await self._checkpoint_writer()
        await self._retry(partial(writer.append, replace(checkpoint, last_input=last.id())))
        written()

    async def _checkpoint_writer(self) -> StreamWriter:
        if self._checkpoints is None:
            open_writer = self._broker.streams.checkpoint_writer
            self._checkpoints = await self._retry(partial(open_writer, self._sid, self._ticket))
        return self._checkpoints
