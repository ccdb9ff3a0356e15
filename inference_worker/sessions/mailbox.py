"""A session's unread input, and what an answer does with it.

When a client is faster than the engine, the oldest audio is dropped. During an answer, `stop` and
`break` act at once.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from msgspec import structs

from antiphon.broker.stream_reader import Subscription
from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DiagnosticIn,
    InEntry,
    StopIn,
    StreamPosition,
)

SPEECH_BACKLOG_CHUNKS = 1000
"""Speech is never skipped to catch up: the detector is a hundred times faster than speech."""


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """One input entry, when it was read (`time.monotonic`), and the chunks skipped before it."""

    position: StreamPosition
    entry: InEntry
    read_s: float
    skipped: tuple[int, ...] = ()


class SessionMailbox:
    """Reads a session's input stream and returns the entries one by one.

    If more than `limit` chunks wait, the oldest chunk is dropped. One of less than a second counts its
    part of it, so a client with short chunks may be late by the same time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[QueuedInput] = deque()
        self._waiting = 0.0
        self._arrived = asyncio.Event()
        self._failure: BaseException | None = None

    async def next(self, timeout_s: float | None) -> QueuedInput | None:
        """The oldest entry, or None after `timeout_s`. Raises the error that ended the reading."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return None
        if self._failure is not None:
            raise self._failure
        item = self._items.popleft()
        if isinstance(item.entry, ChunkIn):
            self._waiting -= _weight(item.entry)
        if not self._items:
            self._arrived.clear()
        return item

    async def fill(self, subscription: Subscription[InEntry]) -> None:
        """Read the stream until the session ends. `next` raises a failure of the reading."""
        try:
            async for position, entry in subscription:
                if isinstance(entry, DiagnosticIn):
                    continue  # only the recorder needs those
                self._items.append(QueuedInput(position, entry, time.monotonic()))
                if isinstance(entry, ChunkIn):
                    self._waiting += _weight(entry)
                    while self._waiting > self._limit:
                        self._drop_oldest()
                self._arrived.set()
            self._failure = BufferError("input arrived faster than the worker could read it")
        except Exception as error:  # noqa: BLE001 - raised by `next`
            self._failure = error
        self._arrived.set()

    def _drop_oldest(self) -> None:
        """Drop the oldest chunk. The next chunk keeps its number and its `force_listen`."""
        places = [i for i, item in enumerate(self._items) if isinstance(item.entry, ChunkIn)]
        dropped, following = self._items[places[0]], self._items[places[1]]
        assert isinstance(dropped.entry, ChunkIn)
        assert isinstance(following.entry, ChunkIn)
        entry = following.entry
        if dropped.entry.force_listen and not entry.force_listen:
            entry = structs.replace(entry, force_listen=True)
        skipped = (*dropped.skipped, dropped.position.n, *following.skipped)
        self._items[places[1]] = replace(following, entry=entry, skipped=skipped)
        del self._items[places[0]]
        self._waiting -= _weight(dropped.entry)


def _weight(chunk: ChunkIn) -> float:
    """Between a 64th and 1: powers of two, whose sums have no error. Empty chunks count too."""
    seconds = len(chunk.audio) / chunk.pcm.width / INPUT_RATE
    return max(1, min(64, math.ceil(64 * seconds))) / 64


@asynccontextmanager
async def open_mailbox(
    context: WorkerContext, sid: str, after: StreamPosition, backlog_chunks: int
) -> AsyncIterator[SessionMailbox]:
    """Follow `in:{sid}` from the position `after` until the context exits.

    `next` raises BrokerUnavailable after `broker_patience_s` in which Redis answers, but not these reads.
    """
    mailbox = SessionMailbox(backlog_chunks)
    broker, patience_s = context.broker, context.settings.broker_patience_s
    key = broker.keys.inbound(sid)
    async with broker.reader.subscribe(key, after, patience_s=patience_s) as subscription:
        reading = asyncio.create_task(mailbox.fill(subscription), name=f"mailbox:{sid}")
        try:
            yield mailbox
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class InterruptWatcher:
    """Forwards `stop` and `break` to the engine and discards all other input.

    `last` is the position of the last input read. `taken` is set when the user takes the turn.
    """

    def __init__(
        self,
        last: StreamPosition,
        on_break: Callable[[], None],
        view: SessionView,
        takes_turn: Callable[[ChunkIn], Awaitable[bool]] | None = None,
    ) -> None:
        """`takes_turn` is asked with each chunk of audio, also after it has returned True."""
        self.last = last
        self.taken = asyncio.Event()
        self._takes_turn = takes_turn
        self.stopped = False
        self.broken = False
        self._on_break = on_break
        self._view = view

    @property
    def interrupted(self) -> bool:
        """True if the client no longer wants the answer."""
        return self.stopped or self.broken

    @asynccontextmanager
    async def watch(self, mailbox: SessionMailbox) -> AsyncIterator[None]:
        """Read the mailbox until the context exits. Raises the error of `takes_turn`, which stops the answer.

        An error of the mailbox is not raised here: its next call raises it again.
        """
        watching = asyncio.create_task(self._read(mailbox), name="interrupts")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if not watching.cancelled():
            watching.result()

    async def _read(self, mailbox: SessionMailbox) -> None:
        while not self.stopped:
            try:
                item = await mailbox.next(None)
            except Exception:  # noqa: BLE001 - the next call raises it again
                return
            assert item is not None
            self.last = item.position
            self.stopped = isinstance(item.entry, StopIn)
            self.broken = self.broken or isinstance(item.entry, BreakIn)
            if isinstance(item.entry, ChunkIn) and await self._is_taken(item.entry):
                self.broken = True
                self.taken.set()
            self.resend()

    async def _is_taken(self, chunk: ChunkIn) -> bool:
        if self._takes_turn is None:
            return False
        try:
            return await self._takes_turn(chunk)
        except Exception:
            self.stopped = True
            self.resend()
            raise

    def resend(self) -> None:
        """Repeat the request: an engine ignores one that arrives before generation begins."""
        if self.stopped:
            self._view.stop()
        elif self.broken:
            self._on_break()
