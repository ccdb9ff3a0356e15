"""The broker as a service uses it: one object, opened at start-up and closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from antiphon.broker.connections.client import RedisClient, connect
from antiphon.broker.connections.clock import RedisClock
from antiphon.broker.connections.server_version import check_server
from antiphon.broker.errors import StoreFull
from antiphon.broker.eta import EtaStore
from antiphon.broker.events import EventLog
from antiphon.broker.keys import Keys
from antiphon.broker.queue import Queue
from antiphon.broker.registry import Registry
from antiphon.broker.resume_registry import ResumeRegistry
from antiphon.broker.schema_version import check_schema_version
from antiphon.broker.scripts import Scripts
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.sessions import Leases, Sessions
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.stores.apps import AppSwitches
from antiphon.broker.stores.orphaned_keys import OrphanedKeys
from antiphon.broker.stores.recorder_progress import RecorderProgress
from antiphon.broker.stores.shares import ShareStore
from antiphon.broker.stores.voices import VoiceStore
from antiphon.broker.stream_reader import StreamReader
from antiphon.broker.streams import SessionStreams


class Broker:
    """The shared state in Redis, by concern."""

    def __init__(
        self, redis: RedisClient, settings: BrokerSettings, metrics: BrokerMetrics
    ) -> None:
        self._redis = redis
        self.keys = Keys(settings.key_prefix)
        self.clock = RedisClock(redis)
        scripts = Scripts(redis, self.keys, metrics)
        self.queue = Queue(scripts, settings)
        self.leases = Leases(scripts, settings)
        self.sessions = Sessions(redis, self.keys, scripts, settings)
        self.resume_registry = ResumeRegistry(redis, self.keys, scripts, settings)
        self.registry = Registry(scripts, settings, metrics)
        self.eta = EtaStore(redis, self.keys)
        self.apps = AppSwitches(redis, self.keys)
        self.voices = VoiceStore(redis, self.keys)
        self.shares = ShareStore(redis, self.keys, scripts, self.clock)
        self.orphaned_keys = OrphanedKeys(redis, self.keys, scripts, self.clock, settings)
        self.streams = SessionStreams(redis, self.clock, settings, self.keys, scripts, metrics)
        self.reader = StreamReader(redis)
        self.events = EventLog(redis, self.keys)
        self.recorder_progress = RecorderProgress(redis, self.keys, settings.session_row_ttl_s)
        self._max_memory_share = settings.max_redis_memory_share
        self._memory_share = 0.0

    async def ping(self) -> None:
        """Raises BrokerUnavailable when Redis does not answer."""
        await self._redis.call("PING")

    async def measure_memory(self) -> None:
        """Ask Redis how full its fullest server is. Raises BrokerUnavailable."""
        infos = [await node.call("INFO", "memory") for node in self._redis.masters()]
        limits = [(int(info["used_memory"]), int(info["maxmemory"])) for info in infos]
        self._memory_share = max(used / limit if limit else 0.0 for used, limit in limits)

    def check_memory(self) -> None:
        """Raises StoreFull if the last measurement leaves no room for a new session."""
        if self._memory_share > self._max_memory_share:
            raise StoreFull(self._memory_share)


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, metrics: BrokerMetrics | None = None
) -> AsyncIterator[Broker]:
    """Connect, check the versions of the server and of the keys, and set the clock.

    Raises BrokerUnavailable or IncompatibleRedis.
    """
    redis = connect(settings)
    try:
        await check_server(redis)
        broker = Broker(redis, settings, metrics or BrokerMetrics(CollectorRegistry()))
        await check_schema_version(redis, broker.keys)
        await broker.clock.sync()
        try:
            yield broker
        finally:
            await broker.reader.close()
    finally:
        await redis.aclose()
