"""Appends a client's input to Redis: in order, bounded, with retries."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from antiphon.broker.retry import retry_until_available
from antiphon.broker.single_consumer_queue import SingleConsumerQueue
from antiphon.broker.streams import StreamWriter
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.session.admission import AdmittedSession
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    InEntry,
    PlaybackIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

MAX_WAITING = 32
"""Frequent inputs are rejected beyond this length of the queue; the others are always accepted."""

MAX_KEPT = 16
"""Frequent inputs that are kept for a session that still waits for its worker."""

_FREQUENT = (ChunkIn, DiagnosticIn, PlaybackIn)


class InputWriter:
    """`put` queues without waiting; one task writes. `granted`: a worker has had the session."""

    def __init__(
        self, context: EdgeContext, admitted: AdmittedSession, granted: asyncio.Event
    ) -> None:
        self._broker = context.broker
        self._sid = admitted.sid
        self._ticket = admitted.ticket.number
        self._seconds = context.metrics.append
        self._granted = granted
        self._kept = 0
        self._trace = admitted.trace
        self._retry = partial(
            retry_until_available,
            what="append a client's input",
            patience_s=context.settings.broker_patience_s,
        )
        self._queue: SingleConsumerQueue[Callable[[], Awaitable[None]]] = SingleConsumerQueue()
        self._inputs: StreamWriter | None = None

    def take_over(self, inputs: StreamWriter) -> None:
        """Continue the stream of the previous connection."""
        self._inputs = inputs
        self._kept = inputs.last.n

    def put(self, entry: InEntry, *, checked: bool = True) -> None:
        """If `checked`, raises InvalidInput with `input_backpressure` when too many inputs wait."""
        if checked and isinstance(entry, _FREQUENT):
            self._check_space()
        self._queue.put_nowait(partial(self.append, entry, time.perf_counter()))

    def _check_space(self) -> None:
        """What waits for a worker is put at once with the grant, at any length of the queue."""
        if self._granted.is_set():
            text = "the server cannot take more input just now; message refused"
            full = len(self._queue.items) >= MAX_WAITING
        else:
            text = f"at most {MAX_KEPT} messages are kept while the session waits"
            full = self._kept >= MAX_KEPT
            self._kept += 1
        if full:
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)

    async def flush(self, within_s: float) -> None:
        """Wait until everything is written, but no longer than this."""
        written = asyncio.Event()

        async def write_nothing() -> None:
            written.set()

        self._queue.put_nowait(write_nothing)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await written.wait()

    def discard(self) -> None:
        """Free what is not written: tracebacks keep a closed session until the next garbage collection."""
        self._queue.items.clear()

    async def run(self) -> NoReturn:
        """Raises StaleFence, or BrokerUnavailable after `patience_s` without Redis."""
        while True:
            write = await self._queue.get()
            await write()
            del write  # frees its entry, which the next `get` would keep in memory

    async def append(self, entry: InEntry, put_at: float) -> None:
        """Write an entry that arrived at `put_at`. Raises what `run` raises."""
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
