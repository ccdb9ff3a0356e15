"""What a service holds of the broker: one object, opened at start-up and closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from broker.apps import AppSwitches
from broker.connection import RedisClock, call, check_server, connect, connect_blocking
from broker.eta import EtaStore
from broker.keys import Keys
from broker.leases import Leases
from broker.lifecycle import EventGroup, EventWatch, history, latest_event_id
from broker.progress import RecordingProgress
from broker.queue import Queue
from broker.registry import Registry
from broker.scripts import Scripts
from broker.sessions import Sessions
from broker.settings import BrokerSettings
from broker.stream_reader import StreamReader
from broker.streams import Streams
from broker.voices import VoiceStore
from shared_schemas.lifecycle import SessionEvent


class Broker:
    """The pipeline's shared state, by concern."""

    def __init__(self, redis: Redis, settings: BrokerSettings) -> None:
        self._redis = redis
        self._settings = settings
        self.keys = Keys(settings.key_prefix)
        self.clock = RedisClock(redis)
        scripts = Scripts(redis, self.keys)
        self.queue = Queue(scripts, settings)
        self.leases = Leases(scripts, settings)
        self.sessions = Sessions(redis, self.keys, scripts, settings)
        self.registry = Registry(scripts, settings)
        self.eta = EtaStore(redis, self.keys)
        self.apps = AppSwitches(redis, self.keys)
        self.voices = VoiceStore(redis, self.keys)
        self.streams = Streams(redis, self.clock, settings, self.keys, scripts)
        self.reader = StreamReader(redis, lambda: connect_blocking(settings))
        self.progress = RecordingProgress(redis, self.keys, settings.session_row_ttl_s)

    async def watch_events(self) -> EventWatch:
        """A watch over transitions from now on."""
        after = await latest_event_id(self._redis, self.keys)
        return EventWatch(connect_blocking(self._settings), self.keys, after)

    def past_events(self, after: str) -> AsyncIterator[SessionEvent]:
        """Transitions after an event id, as far as they are still held; for rare look-ups."""
        return history(self._redis, self.keys, after)

    async def event_group(self, group: str, consumer: str) -> EventGroup:
        """This consumer's part in a group; the group is made if it is missing."""
        blocking = connect_blocking(self._settings)
        members = EventGroup(self._redis, blocking, self.keys, group, consumer)
        await members.create()
        return members

    async def ping(self) -> None:
        """Raises BrokerUnavailable when Redis does not answer."""
        await call(self._redis, "PING")


@asynccontextmanager
async def open_broker(settings: BrokerSettings) -> AsyncIterator[Broker]:
    """Connect, check the server's version, set the clock.

    Raises BrokerUnavailable or IncompatibleRedis.
    """
    redis = connect(settings)
    try:
        await check_server(redis)
        broker = Broker(redis, settings)
        await broker.clock.sync()
        try:
            yield broker
        finally:
            await broker.reader.close()
    finally:
        await redis.aclose()
