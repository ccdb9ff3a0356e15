"""Writing a session's streams: fenced by stream id, retried without doubling."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

import structlog
from redis.exceptions import ResponseError

from antiphon.broker.clock import RedisClock
from antiphon.broker.connections.client import RedisClient
from antiphon.broker.connections.outages import is_redirection
from antiphon.broker.errors import BrokerUnavailable, MasterChanged, StaleFence
from antiphon.broker.keys import OPEN_SESSION_TTL_S, EntryT, Keys, StreamKey
from antiphon.broker.scripts import Scripts, stream_script
from antiphon.broker.service.metrics import BrokerMetrics, HopSeconds
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import (
    EPOCHS_PER_TICKET,
    StreamEntry,
    StreamPosition,
    UnreadableEntry,
    pack,
    unpack,
)

log = structlog.get_logger()

_RECORDED_S = 60.0
"""A recorder that works has all entries of a session this long after the end."""
_MOST_ENDED = 100_000
"""Ended sessions in line for their expiry; those of more are found by the cleanup job."""
_PAGE = 64
_OPENING_ATTEMPTS = 3
_REPLICATED_S = 1.0
"""A replica has the entries that were older than this when the newest one was written."""
_CREATE = """redis.call('XADD', KEYS[1], unpack(ARGV, 2))
return redis.call('EXPIRE', KEYS[1], ARGV[1])"""
_EXISTS = "equal or smaller"
_WRITER = b"w"
"""Stream field with the writer's token: tells a repeated append from another writer's entry."""


class KeptEntries:
    """The newest entries of a stream, within limits of their number and bytes; older ones are trimmed.

    The entries of earlier writers, the last of which is `before`, are trimmed all at once.
    """

    def __init__(
        self, before: StreamPosition, bytes_before: int, *, max_entries: int, max_bytes: int
    ) -> None:
        self.oldest = StreamPosition(0, 0, 0).id()
        """Entries below this id are trimmed."""
        self._first = before
        self._sizes = deque([bytes_before])
        self._bytes = bytes_before
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    def add(self, size: int) -> None:
        """Count the writer's next entry."""
        self._sizes.append(size)
        self._bytes += size
        while (count := len(self._sizes)) > 1 and (
            self._bytes > self._max_bytes or count > self._max_entries
        ):
            self._bytes -= self._sizes.popleft()
            self._first = self._first.next()
            self.oldest = self._first.id()


class LastNumbers(NamedTuple):
    """Numbers of the last entry of a session in a stream: of all writers, and of earlier ones; 0 for none."""

    all: int
    earlier: int


OpenStream = Callable[[bytes, int | None], Awaitable[LastNumbers]]
"""Opens a stream on the server with this `master_id`. See `lua/open_stream.lua` for the number."""


class StreamWriter:
    """The one writer of a stream under one (ticket, epoch). Not for concurrent use."""

    def __init__(
        self,
        redis: RedisClient,
        clock: RedisClock,
        key: str,
        last: StreamPosition,
        kept: KeptEntries,
        seconds: HopSeconds,
        master: bytes,
        reopen: OpenStream,
        *,
        continues: bool,
    ) -> None:
        """`master`: the server that has opened the stream. `reopen` opens it on another one.

        `continues`: an earlier writer's entries that this one did not know may stay before its own.
        """
        self._redis = redis
        self._clock = clock
        self.key = key
        self._next = last.next()
        """Position of the next entry. `n` counts entries over the session's whole life."""
        self._before = last.n
        """Number of the last entry of the earlier writers."""
        self._continues = continues
        self._kept = kept
        self._token = secrets.token_bytes(6)
        self._seconds = seconds
        self._newest: deque[tuple[float, StreamPosition, list[bytes]]] = deque()
        """When, where and what was written last. A new master may not have it."""
        self.master = master
        self._reopen = reopen
        self._lock = asyncio.Lock()

    @property
    def last(self) -> StreamPosition:
        """Position of the stream's last entry."""
        return self._next._replace(n=self._next.n - 1)

    async def append(self, entry: StreamEntry) -> StreamPosition:
        """Stamp and write one entry.

        Raises StaleFence when a newer writer has this stream, BrokerUnavailable when Redis does not
        answer. A retry with the same entry never duplicates it. A different entry may be appended
        instead; it follows the first one if that was written after all.
        """
        began = time.perf_counter()
        fields = [*pack(entry, **self._clock.stamps()), _WRITER, self._token]
        async with self._lock:
            while True:
                position, found = self._next, None
                try:
                    await self._add(position, fields, self.master)
                except (BrokerUnavailable, ResponseError) as error:
                    position, found = await self._add_again(fields, error)
                self._next = position.next()
                written = fields if found is None else [*pack(found), _WRITER, self._token]
                self._kept.add(sum(map(len, written)))
                now = time.monotonic()
                self._newest.append((now, position, written))
                while self._newest[0][0] < now - _REPLICATED_S:
                    self._newest.popleft()
                if found is None or _same(found, entry):
                    self._seconds.observe(time.perf_counter() - began)
                    return position

    async def _add_again(
        self, fields: list[bytes], error: Exception
    ) -> tuple[StreamPosition, StreamEntry | None]:
        """Add an entry after an error, if another server has the stream now.

        Returns its position, or that of the entry that an earlier attempt of ours wrote, and this entry.
        """
        if _has_moved(error):
            try:
                await self._restore()
                await self._add(self._next, fields, self.master)
            except ResponseError as second:
                error = second
            else:
                return self._next, None
        if _EXISTS not in str(error):
            raise error
        at = self._next.id()
        there = await self._redis.call("XRANGE", self.key, at, at)
        if not there or there[0][1].get(_WRITER) != self._token:
            raise StaleFence(f"{self.key} has a newer writer") from error
        return self._next, unpack(there[0][1])

    async def restore(self) -> None:
        """After a failover, write again what the new master may not have.

        Raises StaleFence or BrokerUnavailable.
        """
        async with self._lock:
            await self._restore()

    async def _restore(self) -> None:
        master = await self._redis.master_id(self.key)
        if master == self.master:
            return
        if self._continues and self._next.n == self._before + 1:
            self._before = max(self._before, (await self._reopen(master, None)).earlier)
            self._next = self._next._replace(n=self._before + 1)
        else:  # readers may have its entries under their numbers
            await self._reopen(master, self._before)
        for _, position, fields in self._newest:
            try:
                await self._add(position, fields, master)
                log.warning("stream_entry_restored", key=self.key, id=position.id())
            except ResponseError as error:
                if _EXISTS not in str(error):
                    raise
        self.master = master

    async def _add(self, position: StreamPosition, fields: list[bytes], master: bytes) -> None:
        """XADD, and create a missing stream."""
        tail = ("MINID", "~", self._kept.oldest, position.id(), *fields)
        head = ("XADD", self.key, "NOMKSTREAM")
        added = await self._redis.call_pipelined(*head, *tail, master=master)
        if not added:
            log.warning("stream_gone", key=self.key, next=position.id())
            # Other connections may lead to another server while the master is replaced.
            create = ("EVAL", _CREATE, 1, self.key, OPEN_SESSION_TTL_S, *tail)
            await self._redis.call_pipelined(*create, master=master)


@stream_script
def _open_stream(
    reply: list[int], stream: str, first: str, ours: str, ttl_s: int, known: int | None
) -> LastNumbers:
    if not reply:
        raise StaleFence(f"{stream} has a newer writer")
    return LastNumbers(*reply)


@stream_script
def expire_stream(reply: int, stream: str, newer: int, ttl_s: int, dry_run: bool) -> int:
    return reply


def _readable(
    key: StreamKey[EntryT], page: Iterable[tuple[bytes, dict[bytes, bytes]]]
) -> Iterator[tuple[StreamPosition, EntryT]]:
    """The entries of a page, without those that this version cannot read."""
    for entry_id, data in page:
        try:
            entry = unpack(data, key.entries)
        except UnreadableEntry:
            log.exception("stream_entry_unreadable", key=key, id=entry_id.decode())
            continue
        yield StreamPosition.parse(entry_id), entry


def _has_moved(error: Exception) -> bool:
    """Another server than before has the stream."""
    return isinstance(error, MasterChanged) or is_redirection(error.__cause__)


def _major(position: StreamPosition) -> str:
    return position.id().partition("-")[0]


def _same(one: StreamEntry, other: StreamEntry) -> bool:
    """Equal except for the time of the attempt."""
    return pack(one, at=0.0, host_at=0.0) == pack(other, at=0.0, host_at=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class SessionStreams:
    """Opens writers, reads history, removes entries that are no longer needed."""

    _redis: RedisClient
    _clock: RedisClock
    _settings: BrokerSettings
    _keys: Keys
    _scripts: Scripts
    _metrics: BrokerMetrics
    _writers: WeakSet[StreamWriter] = field(default_factory=WeakSet)
    _ended: deque[tuple[float, str, int]] = field(default_factory=lambda: deque(maxlen=_MOST_ENDED))

    async def restore(self) -> None:
        """Restore the streams also of writers that wait: the answer to their last entry may be lost.

        Each server is asked once, not for each of its streams.
        """
        masters: dict[Hashable, bytes] = {}
        for writer in list(self._writers):
            group = self._redis.group(writer.key)
            try:
                if group not in masters:
                    masters[group] = await self._redis.master_id(writer.key)
                if masters[group] != writer.master:
                    await writer.restore()
            except (BrokerUnavailable, StaleFence):
                continue  # its next append reports it
            except ResponseError:
                log.exception("stream_not_restored")

    async def input_writer(self, sid: str, ticket: int, epoch: int = 1) -> StreamWriter:
        """The edge's writer; `epoch` is raised when another edge takes the client over."""
        await self._clock.notice_jump()
        return await self._writer(self._keys.inbound(sid), ticket, epoch, "in", continues=True)

    async def output_writer(self, sid: str, ticket: int, epoch: int) -> StreamWriter:
        """The worker's writer, under the epoch of its claim."""
        await self._clock.notice_jump()
        return await self._writer(self._keys.outbound(sid), ticket, epoch, "out")

    async def past_writer(self, sid: str, ticket: int, epoch: int) -> StreamWriter:
        """The worker's writer of the accepted `prepare` and of older units or turns."""
        return await self._writer(self._keys.past(sid), ticket, epoch, "past")

    async def delete_past(self, sid: str, *positions: StreamPosition) -> None:
        """Delete units or turns that recovery no longer needs. The `prepare` before them stays."""
        await self._redis.call("XDEL", self._keys.past(sid), *(p.id() for p in positions))

    async def _writer(
        self,
        key: str,
        ticket: int,
        epoch: int,
        name: str,
        *,
        continues: bool = False,
    ) -> StreamWriter:
        """Open the stream and shut out older epochs. Raises StaleFence when a newer writer has it."""
        settings = self._settings
        reopen = partial(self._open, key, StreamPosition(ticket, epoch, 0))
        master, numbers = await self._open_first(key, reopen)
        start = StreamPosition(ticket, epoch, numbers.all)
        bytes_before = await self._redis.call("MEMORY", "USAGE", key) if start.n else 0
        limits = {
            "max_entries": settings.stream_max_entries,
            "max_bytes": settings.stream_max_bytes,
        }
        kept = KeptEntries(start, int(bytes_before or 0), **limits)
        seconds = self._metrics.append.labels(name)
        writer = StreamWriter(
            self._redis,
            self._clock,
            key,
            start,
            kept,
            seconds,
            master,
            reopen,
            continues=continues,
        )
        self._writers.add(writer)
        return writer

    async def _open_first(self, key: str, open_on: OpenStream) -> tuple[bytes, LastNumbers]:
        """The server that has opened the stream, and what it has.

        Both come from one server: a former master has neither the newest entries nor a lasting fence.
        """
        for _ in range(_OPENING_ATTEMPTS - 1):
            master = await self._redis.master_id(key)
            try:
                return master, await open_on(master, None)
            except BrokerUnavailable as error:
                if not _has_moved(error):
                    raise
        master = await self._redis.master_id(key)
        return master, await open_on(master, None)

    async def _open(
        self, key: str, start: StreamPosition, master: bytes, known: int | None
    ) -> LastNumbers:
        """Shut out writers of older epochs. Raises StaleFence."""
        majors = (_major(StreamPosition.before(start.ticket)), _major(start))
        return await self._scripts.run_on(
            master, _open_stream, key, *majors, OPEN_SESSION_TTL_S, known
        )

    async def history(
        self, key: StreamKey[EntryT], ticket: int, after: StreamPosition | None = None
    ) -> AsyncGenerator[tuple[StreamPosition, EntryT], None]:
        """Every readable entry of this session that the stream still holds, oldest first."""
        start = (after or StreamPosition.before(ticket)).id()
        end = StreamPosition.before(ticket + 1).id()
        while page := await self._redis.call("XRANGE", key, f"({start}", f"({end}", "COUNT", _PAGE):
            for found in _readable(key, page):
                yield found
            start = page[-1][0].decode()

    async def first(self, key: StreamKey[EntryT], ticket: int) -> EntryT | None:
        """The oldest entry of this session that the stream still holds. Raises UnreadableEntry."""
        bounds = (StreamPosition.before(each).id() for each in (ticket, ticket + 1))
        found = await self._redis.call("XRANGE", key, *(f"({each}" for each in bounds), "COUNT", 1)
        return unpack(found[0][1], key.entries) if found else None

    async def newest(
        self, key: StreamKey[EntryT], ticket: int
    ) -> AsyncGenerator[tuple[StreamPosition, EntryT], None]:
        """Every readable entry of this session that the stream still holds, newest first."""
        start = StreamPosition.before(ticket).id()
        end = StreamPosition.before(ticket + 1).id()
        count = 1
        while page := await self._redis.call(
            "XREVRANGE", key, f"({end}", f"({start}", "COUNT", count
        ):
            for found in _readable(key, page):
                yield found
            end = page[-1][0].decode()
            count = min(4 * count, _PAGE)

    async def seal_output(self, sid: str, ticket: int) -> None:
        """Shut out every worker: entries read after this are all that the session will have."""
        last = StreamPosition(ticket, EPOCHS_PER_TICKET - 1, 0)
        with suppress(StaleFence):  # a newer session with the same id has the stream
            key = self._keys.outbound(sid)
            await self._open_first(key, partial(self._open, key, last))

    async def trim(self, sid: str, inputs: StreamPosition, outputs: StreamPosition) -> None:
        """Remove the input before `inputs` and the output before `outputs`."""
        bounds = (self._keys.inbound(sid), inputs), (self._keys.outbound(sid), outputs)
        trims = (("XTRIM", key, "MINID", position.id()) for key, position in bounds)
        await self._redis.call_all(*trims)

    async def discard(self, sid: str, ticket: int) -> None:
        """Remove a finished session's entries, but not those of a newer session with the same id.

        The empty stream stays until it expires: its last id fences out a late writer.
        """
        bound = StreamPosition.before(ticket + 1).id()
        trims = (("XTRIM", key, "MINID", bound) for key in self._keys.streams(sid))
        await self._redis.call_all(*trims)
        await self.expire(sid, ticket)

    async def expire(self, sid: str, ticket: int) -> None:
        """Let the streams of an ended session expire after `stream_ttl_s`."""
        newer, ttl_s = (ticket + 1) * EPOCHS_PER_TICKET, self._settings.stream_ttl_s
        for key in self._keys.streams(sid):
            await self._scripts.run(expire_stream, key, newer, ttl_s, dry_run=False)

    def expire_later(self, sid: str, ticket: int) -> None:
        """Call `expire` a minute later: until then, no jump of Redis' clock costs the recorder an entry."""
        self._ended.append((time.monotonic() + _RECORDED_S, sid, ticket))

    async def expire_ended(self, *, now: bool = False) -> None:
        """Do what `expire_later` has promised, with `now` at once. Raises BrokerUnavailable."""
        while self._ended and (now or self._ended[0][0] < time.monotonic()):
            try:
                await self.expire(*self._ended[0][1:])
            except BrokerUnavailable:
                self._ended.rotate(-1)  # others may be on a server that answers
                raise
            except ResponseError:
                log.exception("streams_not_expired")
            self._ended.popleft()
