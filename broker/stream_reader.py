"""Reads the streams of many sessions, 8 per blocking connection, and delivers entries to subscribers.

One blocking XREAD serves the streams of a connection, so a thousand idle sessions cost 125
connections and no polling. A new subscriber interrupts the read in progress with CLIENT UNBLOCK.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any, Generic, Self

import structlog

from antiphon.broker.connections.client import BlockingConnection, RedisClient, StreamEntries
from antiphon.broker.connections.pool import LONGEST_BLOCK_MS
from antiphon.broker.errors import BrokerError, BrokerUnavailable
from antiphon.broker.keys import EntryT, StreamKey
from antiphon.broker.single_consumer_queue import SingleConsumerQueue
from antiphon.shared_schemas.entries import StreamPosition, UnreadableEntry, unpack

log = structlog.get_logger()

STREAMS_PER_READ = 8
"""Redis registers each read with all its streams and removes it again, so few cost less CPU time."""
_COUNT = 16
_WAKE_RETRY_S = 0.005
_RETRY_S = (0.05, 1.0)


class Subscription(Generic[EntryT]):
    """One stream's entries, in order, for one consumer; bounded by `limit` unread entries.

    Iterate over it once. It ends when the consumer falls more than `limit` behind (`overflowed`). It
    raises BrokerUnavailable after `patience_s` in which Redis answers calls but not the reads of this
    stream, and BrokerError when the stream cannot be read.
    """

    def __init__(
        self, key: StreamKey[EntryT], after: StreamPosition, limit: int, patience_s: float
    ) -> None:
        self.key = key
        self.after = after
        self.overflowed = False
        self.first_round = 0
        """The number of the first XREAD that was made for this subscription."""
        self.patience_s = patience_s
        self.unread_since: float | None = None
        """When its reads began to fail; None while they work, or while Redis does not answer at all."""
        self._ends_before = StreamPosition.before(after.ticket + 1)
        self._entries: SingleConsumerQueue[tuple[StreamPosition, EntryT] | None] = (
            SingleConsumerQueue()
        )
        """None at the end."""
        self._limit = limit
        self._failure: BaseException | None = None

    def deliver(self, position: StreamPosition, data: dict[bytes, bytes]) -> None:
        """Queue one entry. Positions only grow, so an older epoch cannot occur."""
        self.after = position
        if position >= self._ends_before or self.overflowed:
            return
        if len(self._entries.items) >= self._limit:
            self.overflowed = True
            self._entries.put_nowait(None)
            return
        try:
            entry = unpack(data, self.key.entries)
        except UnreadableEntry:
            log.exception("stream_entry_unreadable", key=self.key, id=position.id())
            return
        self._entries.put_nowait((position, entry))

    def fail(self, error: BaseException) -> None:
        """End with an error, after the entries that were delivered."""
        if self._failure is None:
            self._failure = error
            self._entries.put_nowait(None)

    @property
    def unread(self) -> int:
        return len(self._entries.items)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[StreamPosition, EntryT]:
        item = await self._entries.get()
        if item is not None:
            return item
        self._entries.put_nowait(None)
        if isinstance(self._failure, BrokerUnavailable):
            raise BrokerUnavailable(str(self._failure)) from self._failure
        if self._failure is not None:
            raise BrokerError(f"{self.key} cannot be read: {self._failure}") from self._failure
        raise StopAsyncIteration


class StreamReader:
    """Shares blocking reads among subscriptions; adds and removes connections on demand.

    With a pause between reads, one reply has the entries of many streams. A read costs more CPU time
    than an entry. A reader that is behind does not pause.
    """

    def __init__(self, redis: RedisClient, pause_s: float) -> None:
        self._redis = redis
        self._pause_s = pause_s
        self._reads: list[_SharedRead] = []
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def subscribe(
        self,
        key: StreamKey[EntryT],
        after: StreamPosition,
        *,
        limit: int = 256,
        patience_s: float = float("inf"),
    ) -> AsyncIterator[Subscription[EntryT]]:
        """Entries of `key` after a position, for the session whose ticket the position names."""
        subscription = Subscription(key, after, limit, patience_s)
        read = self._read_with_room(key)
        read.add(subscription)
        try:
            yield subscription
        finally:
            read.remove(subscription)
            if not read.streams and read in self._reads:
                self._retire(read)

    async def close(self) -> None:
        """Close every connection; to be called when all subscriptions have ended."""
        for read in list(self._reads):
            self._retire(read)
        await asyncio.gather(*self._closing)

    def _read_with_room(self, key: str) -> "_SharedRead":
        group = self._redis.group(key)
        for read in self._reads:
            if read.group == group and read.works and len(read.streams) < STREAMS_PER_READ:
                return read
        read = _SharedRead(self._redis, key, group, self._pause_s)
        self._reads.append(read)
        return read

    def _retire(self, read: "_SharedRead") -> None:
        """Accept no further subscribers, and close in the background: the last subscriber does not wait."""
        self._reads.remove(read)
        task = asyncio.create_task(read.close(), name="stream-read-close")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Stream:
    """The subscriptions of one stream, and the id after which the next read begins."""

    def __init__(self) -> None:
        self.subscriptions: list[Subscription[Any]] = []
        self.after: str | bytes = ""

    def add(self, subscription: Subscription[Any]) -> None:
        self.subscriptions.append(subscription)
        self.after = min(each.after for each in self.subscriptions).id()

    def deliver(self, entries: StreamEntries, round_: int) -> None:
        """To the subscribers the read was made for: a newer one may need entries from before these."""
        for entry_id, data in entries:
            position = StreamPosition.parse(entry_id)
            for subscription in self.subscriptions:
                if subscription.first_round <= round_ and position > subscription.after:
                    subscription.deliver(position, data)
            if len(self.subscriptions) > 1 or position != self.subscriptions[0].after:
                self.after = min(each.after for each in self.subscriptions).id()
            else:
                self.after = entry_id


class _SharedRead:
    """Up to 8 streams of one group behind one blocking connection."""

    def __init__(self, redis: RedisClient, key: str, group: Hashable, pause_s: float) -> None:
        """`key`: one of the group."""
        self.group = group
        self._redis = redis
        self._pause_s = pause_s
        self.streams: dict[str, _Stream] = {}
        self._blocking: BlockingConnection = redis.connect_blocking(key)
        self._round = 0
        self._needed_round = 0
        self._reading = asyncio.Event()
        self._waker: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._run(), name="stream-read")
        self._task.add_done_callback(self._report_failure)

    @property
    def works(self) -> bool:
        """False once reading has failed permanently."""
        return not self._task.done()

    def add(self, subscription: Subscription[Any]) -> None:
        self._needed_round = subscription.first_round = self._round + 1
        self.streams.setdefault(subscription.key, _Stream()).add(subscription)
        if self._waker is None or self._waker.done():
            self._waker = asyncio.create_task(self._wake(), name="stream-read-wake")

    def remove(self, subscription: Subscription[Any]) -> None:
        stream = self.streams[subscription.key]
        stream.subscriptions.remove(subscription)
        if not stream.subscriptions:
            del self.streams[subscription.key]

    async def close(self) -> None:
        tasks = [task for task in (self._task, self._waker) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._blocking.aclose()

    async def _wake(self) -> None:
        """Repeat until the next read has started: an unblock that precedes the block is lost."""
        while True:
            await self._reading.wait()
            if self._round >= self._needed_round:
                return
            try:
                await self._blocking.interrupt()
            except BrokerUnavailable as error:
                log.warning("stream_wake_failed", error=str(error))
                await asyncio.sleep(_RETRY_S[0])
            await asyncio.sleep(_WAKE_RETRY_S)

    async def _run(self) -> None:
        delay = _RETRY_S[0]
        while self.streams:
            try:
                while self.streams:
                    up_to_date = await self._read_once()
                    if delay > _RETRY_S[0]:
                        delay = _RETRY_S[0]
                        self._count_failure(None)
                    if self._pause_s and up_to_date:
                        await asyncio.sleep(self._pause_s)
            except BrokerUnavailable as error:
                log.warning("stream_read_failed", error=str(error), retry_s=round(delay, 2))
                self._count_failure(error if await self._answers() else None)
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                delay = min(delay * 2, _RETRY_S[1])

    async def _answers(self) -> bool:
        """Whether Redis answers other calls, on connections that are open.

        It may accept no new ones: it has `maxclients`, or its socket is gone.
        """
        key = next(iter(self.streams), None)
        if key is None:
            return False
        try:
            await self._redis.call_pipelined("XRANGE", key, "+", "+")
        except BrokerUnavailable:
            return False
        return True

    def _count_failure(self, error: BrokerUnavailable | None) -> None:
        """End the subscriptions whose reads have failed for too long. None: the failures are over."""
        now = asyncio.get_running_loop().time()
        for subscription in self._subscriptions():
            if error is None:
                subscription.unread_since = None
            elif subscription.unread_since is None:
                subscription.unread_since = now
            elif now - subscription.unread_since > subscription.patience_s:
                subscription.fail(error)

    def _subscriptions(self) -> list[Subscription[Any]]:
        return [each for stream in self.streams.values() for each in stream.subscriptions]

    async def _read_once(self) -> bool:
        """False if a stream may have more entries than the reply."""
        head = ("XREAD", "COUNT", _COUNT, "BLOCK", LONGEST_BLOCK_MS, "STREAMS")
        after = [stream.after for stream in self.streams.values()]
        self._round += 1
        self._reading.set()
        try:
            reply = await self._blocking.read(*head, *self.streams, *after)
        finally:
            self._reading.clear()
        for key, entries in reply.items():
            if stream := self.streams.get(key.decode()):
                stream.deliver(entries, self._round)
        return all(len(entries) < _COUNT for entries in reply.values())

    def _report_failure(self, task: asyncio.Task[None]) -> None:
        """It must not die silently: its subscriptions fail."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("stream_reader_failed", streams=len(self.streams), exc_info=error)
        for subscription in self._subscriptions():
            subscription.fail(error)
