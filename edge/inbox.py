"""What waits to be appended to one session's streams: in order, bounded, patient in an outage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from prometheus_client import Histogram

from antiphon.broker.client import Broker
from antiphon.broker.retry import retry_until_available
from antiphon.broker.streams import StreamWriter
from antiphon.edge.recall import Recollection
from antiphon.edge.session_trace import SessionTrace
from antiphon.shared_schemas.entries import Checkpoint, ChunkIn, DiagnosticIn, InEntry, PlaybackIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.stream_position import StreamPosition

MAX_WAITING = 32
"""What comes again and again may wait for Redis up to this; a client's few other messages always may."""

_RECURRING = (ChunkIn, DiagnosticIn, PlaybackIn)

T = TypeVar("T")


class Inbox:
    """Entries go in without waiting; one task appends them: a client's input, and notes on it.

    A note says how much input was written before it, so that both are written here, in one order.
    """

    def __init__(
        self,
        broker: Broker,
        sid: str,
        ticket: int,
        patience_s: float,
        seconds: Histogram,
        trace: SessionTrace | None = None,
    ) -> None:
        self._broker = broker
        self._sid = sid
        self._ticket = ticket
        self._patience_s = patience_s
        self._seconds = seconds
        self._trace = trace
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._inputs: StreamWriter | None = None
        self._notes: StreamWriter | None = None
        self._kept: list[StreamPosition] = []

    def take_over(self, past: Recollection) -> None:
        """Go on with the streams of the connection before."""
        self._inputs, self._notes, self._kept = past.inputs, past.notes, past.kept

    def put(self, entry: InEntry) -> None:
        """Queue an entry. Raises InvalidInput with `input_backpressure` when too many wait."""
        if isinstance(entry, _RECURRING) and self._work.qsize() >= MAX_WAITING:
            text = "the server cannot take more input just now; message refused"
            raise InvalidInput(text, field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        put_at = time.perf_counter()
        self._work.put_nowait(lambda: self._append(entry, put_at))

    def keep(self, entry: InEntry) -> None:
        """Queue an entry that no worker may see yet: it lies among the notes."""
        self._work.put_nowait(lambda: self._keep(entry))

    def forget_kept(self) -> None:
        """What was kept has been put."""
        self._work.put_nowait(self._forget_kept)

    def note(self, mark: Checkpoint, written: Callable[[], None]) -> None:
        """Queue a note; `written` is called as soon as Redis has it."""
        self._work.put_nowait(lambda: self._note(mark, written))

    async def flush(self, within_s: float) -> bool:
        """Wait until everything is in the streams; False when it took too long."""
        try:
            async with asyncio.timeout(within_s):
                await self._work.join()
        except TimeoutError:
            return False
        return True

    async def run(self) -> NoReturn:
        """Append for ever. Raises BrokerUnavailable after the patience, or StaleFence."""
        while True:
            work = await self._work.get()
            await work()
            del work  # with the entry that it holds, however long the next one takes to come
            self._work.task_done()

    async def _append(self, entry: InEntry, put_at: float) -> None:
        if self._inputs is None:
            open_writer = self._broker.streams.input_writer
            self._inputs = await self._persist(lambda: open_writer(self._sid, self._ticket))
        if self._trace is None:
            await self._write(self._inputs, entry)
        else:
            span = self._trace.taken(entry, time.perf_counter() - put_at)
            await self._write(self._inputs, replace(entry, trace=span.context))
            self._trace.appended(span)
        self._seconds.observe(time.perf_counter() - put_at)

    async def _keep(self, entry: InEntry) -> None:
        self._kept.append(await self._write(await self._notes_writer(), entry))

    async def _forget_kept(self) -> None:
        kept, self._kept = self._kept, []
        if kept:
            await self._persist(lambda: self._broker.streams.delete_pending(self._sid, *kept))

    async def _note(self, mark: Checkpoint, written: Callable[[], None]) -> None:
        sent = self._inputs.last if self._inputs else StreamPosition.before(self._ticket)
        await self._write(await self._notes_writer(), replace(mark, last_input=sent.id()))
        written()

    async def _notes_writer(self) -> StreamWriter:
        if self._notes is None:
            open_writer = self._broker.streams.checkpoint_writer
            self._notes = await self._persist(lambda: open_writer(self._sid, self._ticket))
        return self._notes

    async def _write(self, writer: StreamWriter, entry: InEntry | Checkpoint) -> StreamPosition:
        return await self._persist(lambda: writer.append(entry))

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        what = "append a client's input"
        return await retry_until_available(attempt, what, patience_s=self._patience_s)
