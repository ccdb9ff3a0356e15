"""The stream of session transitions: watched by edges and workers, processed by recorders."""

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog
from redis.exceptions import ResponseError

from antiphon.broker.connections.client import BlockingConnection, RedisClient, StreamEntries
from antiphon.broker.connections.pool import LONGEST_BLOCK_MS
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.keys import Keys
from antiphon.broker.retry import retry_until_available
from antiphon.broker.service.logs import LogLimit
from antiphon.shared_schemas.registry import SessionEvent, UnreadableEvent

log = structlog.get_logger()

_GROUP_BLOCK_MS = 1_000
_COUNT = 100
_HISTORY_PAGE = 1000
_MAX_PENDING = 100_000
_RELEASED_IDLE_MS = 86_400_000
_RETRY_S = 0.5
_LOG_LIMIT = LogLimit()

T = TypeVar("T")


class EventWatch:
    """Follows the transitions after an event id. Each `read` blocks for up to two seconds."""

    def __init__(self, blocking: BlockingConnection, keys: Keys, after: str) -> None:
        self._redis = blocking
        self._key = keys.events
        self._after = after

    async def read(self) -> list[SessionEvent]:
        """The next transitions, oldest first; empty after a timeout."""
        head = ("XREAD", "COUNT", _COUNT, "BLOCK", LONGEST_BLOCK_MS, "STREAMS")
        reply = await self._redis.read(*head, self._key, self._after)
        if not reply:
            return []
        (entries,) = reply.values()
        self._after = entries[-1][0].decode()
        return _parse(entries)

    async def follow(self) -> AsyncIterator[list[SessionEvent]]:
        """Endless batches of transitions; an outage yields an empty batch and is retried."""
        while True:
            try:
                yield await self.read()
            except BrokerUnavailable as error:
                log.warning("event_watch_interrupted", error=str(error))
                await asyncio.sleep(_RETRY_S)
                yield []

    async def close(self) -> None:
        await self._redis.aclose()


class EventGroup:
    """A consumer group: each transition goes to one of the replicas, until it is acked."""

    def __init__(self, redis: RedisClient, keys: Keys, group: str, consumer: str) -> None:
        self._redis = redis
        self._blocking = redis.connect_blocking(keys.events)
        self._key = keys.events
        self._group = group
        self._consumer = consumer

    async def create(self) -> None:
        """Create the group at the oldest transition, unless it exists."""
        try:
            await self._redis.call("XGROUP", "CREATE", self._key, self._group, "0", "MKSTREAM")
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def read(self) -> list[SessionEvent]:
        """New transitions for this consumer; blocks for a random time of at most a second.

        Redis serves waiting consumers in order. A random block time shuffles them; otherwise, with two
        transitions per session, one of two consumers would get every first transition.
        """
        block_ms = random.randint(1, _GROUP_BLOCK_MS)  # noqa: S311 - not a secret
        head = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", _COUNT)
        tail = ("BLOCK", block_ms, "STREAMS", self._key, ">")
        reply = await self._try(self._blocking.read(*head, *tail))
        return [event for entries in (reply or {}).values() for event in _parse(entries)]

    async def reclaim(self, idle_ms: int) -> list[SessionEvent]:
        """Take over transitions that a consumer received `idle_ms` ago and has not acked."""
        found: list[SessionEvent] = []
        cursor = b"0-0"
        while True:
            command = ("XAUTOCLAIM", self._key, self._group, self._consumer, idle_ms, cursor)
            reply = await self._try(self._redis.call(*command, "COUNT", _COUNT))
            if reply is None:
                return found
            found += _parse([entry for entry in reply[1] if entry and entry[1]])
            cursor = reply[0]
            if cursor == b"0-0":
                return found

    async def touch(self, event_ids: Sequence[str]) -> set[str]:
        """Keep transitions from being reclaimed; returns those another consumer has taken over.

        Transitions that no consumer has pending (acked, or trimmed) are not among them.
        """
        mine = set(await self._pending(self._consumer)) & set(event_ids)
        await self._claim(mine)
        missing = set(event_ids) - mine
        return missing & set(await self._pending()) if missing else set()

    async def release(self) -> None:
        """Make the pending transitions of this consumer available to `reclaim` at once."""
        mine = set(await self._pending(self._consumer))
        await self._claim(mine, "IDLE", _RELEASED_IDLE_MS)

    async def restart_timers(self, *, longest_idle_ms: float = math.inf) -> None:
        """Let all consumers count as active now: Redis' clock was set since they received transitions.

        `longest_idle_ms`: only for transitions that seem to be idle for at most this long. Redis
        states 0 for a time in the future.
        """
        owned = defaultdict(set)
        for row in await self._pending_rows():
            if row["time_since_delivered"] <= longest_idle_ms:
                owned[row["consumer"].decode()].add(row["message_id"].decode())
        for consumer, event_ids in owned.items():
            await self._claim(event_ids, consumer=consumer)

    async def _pending(self, *consumer: str) -> list[str]:
        """Ids that one consumer (by default: any) has received and not acked."""
        return [row["message_id"].decode() for row in await self._pending_rows(*consumer)]

    async def _pending_rows(self, *consumer: str) -> list[dict[str, Any]]:
        head = ("XPENDING", self._key, self._group, "-", "+", _MAX_PENDING)
        rows = await self._try(self._redis.call(*head, *consumer, parse_detail=True))
        return rows or []

    async def _claim(self, event_ids: set[str], *options: str | int, consumer: str = "") -> None:
        if event_ids:
            head = ("XCLAIM", self._key, self._group, consumer or self._consumer, 0)
            tail = (*sorted(event_ids), *options, "JUSTID")
            await self._try(self._redis.call(*head, *tail, parse_justid=True))

    async def _try(self, call: Awaitable[T]) -> T | None:
        """Run a command on the group. Returns None and creates the group when Redis has lost it."""
        try:
            return await call
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            await self.create()
            return None

    async def ack(self, *event_ids: str) -> None:
        if event_ids:
            await self._redis.call("XACK", self._key, self._group, *event_ids)

    async def close(self) -> None:
        await self._blocking.aclose()


def _parse(entries: StreamEntries) -> list[SessionEvent]:
    """The events that this version understands. Others are logged; a rolling upgrade causes them."""
    events: list[SessionEvent] = []
    for entry_id, data in entries:
        try:
            events.append(SessionEvent.parse(entry_id, data))
        except UnreadableEvent as error:
            if _LOG_LIMIT.permits(f"event:{entry_id!r}"):
                log.warning("event_unreadable", id=entry_id.decode(), error=str(error)[:300])
    return events


class EventLog:
    """The stream of transitions: read what it stores, or follow it."""

    def __init__(self, redis: RedisClient, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def watch(self, after: str | None = None) -> EventWatch:
        """Follow the transitions after an event id, by default the future ones."""
        after = after or await self._latest_id()
        return EventWatch(self._redis.connect_blocking(self._keys.events), self._keys, after)

    async def follow(self, after: str | None = None) -> AsyncIterator[list[SessionEvent]]:
        """Endless batches of the transitions after an event id, by default of the future ones.

        An outage yields an empty batch and is retried.
        """
        watch = await retry_until_available(partial(self.watch, after), "watch events")
        try:
            async for events in watch.follow():
                yield events
        finally:
            await watch.close()

    async def join_group(self, group: str, consumer: str) -> EventGroup:
        """Join a consumer group; it is created if it is missing."""
        members = EventGroup(self._redis, self._keys, group, consumer)
        await members.create()
        return members

    async def recent(self, count: int, sid: str | None = None) -> list[SessionEvent]:
        """The newest stored transitions, of all sessions or of one, oldest first.

        For one session this reads the whole stream unless `count` are found before.
        """
        if sid is None:
            newest = await self._redis.call(
                "XREVRANGE", self._keys.events, "+", "-", "COUNT", count
            )
            return _parse(newest[::-1])
        found: list[SessionEvent] = []
        before, limit = "+", ("COUNT", _HISTORY_PAGE)
        while len(found) < count:
            page = await self._redis.call("XREVRANGE", self._keys.events, before, "-", *limit)
            if not page:
                break
            found += [event for event in _parse(page) if event.sid == sid]
            before = f"({page[-1][0].decode()}"
        return found[:count][::-1]

    async def since(self, after: str) -> AsyncIterator[SessionEvent]:
        """The stored transitions after an event id, oldest first; for rare look-ups."""
        key, limit = self._keys.events, ("COUNT", _HISTORY_PAGE)
        while page := await self._redis.call("XRANGE", key, f"({after}", "+", *limit):
            for event in _parse(page):
                yield event
            after = page[-1][0].decode()

    async def _latest_id(self) -> str:
        newest = await self._redis.call("XREVRANGE", self._keys.events, "+", "-", "COUNT", 1)
        return newest[0][0].decode() if newest else "0-0"
