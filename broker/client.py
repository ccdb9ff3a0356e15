"""The broker as a service uses it: one object, opened at start-up and closed at the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import structlog
from prometheus_client import CollectorRegistry

from antiphon.broker.clock import RedisClock
from antiphon.broker.connections.client import RedisClient, RedisNode
from antiphon.broker.connections.connect import connect
from antiphon.broker.errors import BrokerUnavailable, StoreFull
from antiphon.broker.eta import EtaStore
from antiphon.broker.events import EventLog
from antiphon.broker.keys import Keys
from antiphon.broker.orphaned_keys import OrphanedKeys
from antiphon.broker.queue import Queue
from antiphon.broker.registry import Registry
from antiphon.broker.requirements import check_schema_version, check_server, first_calls
from antiphon.broker.resume_registry import ResumeRegistry
from antiphon.broker.scripts import Scripts
from antiphon.broker.service.logs import LogLimit
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.sessions import Leases, Sessions
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.stores import AppSwitches, RecorderProgress, ShareStore, VoiceStore
from antiphon.broker.stream_reader import StreamReader
from antiphon.broker.streams import SessionStreams
from antiphon.broker.worker_connections import WorkerConnections

log = structlog.get_logger()

_SLOWEST_NODE_S = 1.0
"""A server of a cluster that does not report its memory for this long is left out."""

_FOLLOW_EVERY_S = 0.5
_LAST_EXPIRIES_S = 1.0
"""A process that ends tries for this long to let the streams of its ended sessions expire."""

_LOG_LIMIT = LogLimit()


class Broker:
    """The shared state in Redis, by concern."""

    def __init__(
        self,
        redis: RedisClient,
        settings: BrokerSettings,
        metrics: BrokerMetrics,
        read_pause_s: float,
    ) -> None:
        self._redis = redis
        self.keys = Keys(settings.key_prefix)
        self.clock = RedisClock(redis)
        scripts = Scripts(redis, self.keys, metrics)
        self.queue = Queue(scripts, settings)
        self.leases = Leases(scripts, settings)
        self.streams = SessionStreams(redis, self.clock, settings, self.keys, scripts, metrics)
        self.sessions = Sessions(redis, self.keys, scripts, settings, self.streams)
        self.resume_registry = ResumeRegistry(redis, self.keys, scripts, settings)
        self.registry = Registry(scripts, settings, metrics, self.streams)
        self.worker_connections = WorkerConnections(redis, self.keys, scripts)
        self.eta = EtaStore(redis, self.keys)
        self.apps = AppSwitches(redis, self.keys)
        self.voices = VoiceStore(redis, self.keys)
        self.shares = ShareStore(redis, self.keys, scripts, self.clock)
        self.orphaned_keys = OrphanedKeys(redis, self.keys, scripts, settings)
        self.reader = StreamReader(redis, read_pause_s)
        self.events = EventLog(redis, self.keys)
        self.recorder_progress = RecorderProgress(redis, self.keys, scripts)
        self._max_memory_share = settings.max_redis_memory_share
        self._memory_share = 0.0

    async def ping(self) -> None:
        """Raises BrokerUnavailable when Redis does not answer."""
        await self._redis.call("PING")

    async def measure_memory(self) -> None:
        """Ask every server how full it is. Raises BrokerUnavailable when none answers.

        The heartbeats of an edge wait for this, so one lost server of a cluster must not fail it.
        """
        nodes = await self._redis.masters()
        wait_s = None if len(nodes) == 1 else _SLOWEST_NODE_S
        shares = await asyncio.gather(
            *(_memory_share(node, wait_s) for node in nodes), return_exceptions=True
        )
        measured = [share for share in shares if isinstance(share, float)]
        if not measured:
            raise BrokerUnavailable(f"Redis does not answer: {shares[0]}")
        self._memory_share = max(measured)

    def check_memory(self) -> None:
        """Raises StoreFull if the last measurement leaves no room for a new session."""
        if self._memory_share > self._max_memory_share:
            raise StoreFull(self._memory_share)

    async def follow_failovers(self) -> NoReturn:
        """Repeats what keeps a failover from losing data, also after an unexpected error."""
        streams = self.streams
        while True:
            await asyncio.sleep(_FOLLOW_EVERY_S)
            for step in (
                self._redis.disconnect_former_masters,
                streams.restore,
                streams.expire_ended,
            ):
                try:
                    await step()
                except BrokerUnavailable:
                    continue  # the calls of sessions report it
                except Exception as error:
                    if _LOG_LIMIT.permits(repr(error)):
                        log.exception("failover_upkeep_failed")


async def _memory_share(node: RedisNode, wait_s: float | None) -> float:
    async with asyncio.timeout(wait_s):
        info = await node.call("INFO", "memory")
    limit = int(info["maxmemory"]) or int(info.get("total_system_memory") or 0)
    return int(info["used_memory"]) / limit if limit else 0.0


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, metrics: BrokerMetrics | None = None, *, read_pause_s: float = 0.0
) -> AsyncIterator[Broker]:
    """Connect, check the versions of the server and of the keys, and set the clock.

    `read_pause_s`: time between two reads of the same streams, in which entries accumulate.
    Raises BrokerUnavailable or IncompatibleRedis.
    """
    redis = connect(settings)
    try:
        broker = Broker(
            redis, settings, metrics or BrokerMetrics(CollectorRegistry()), read_pause_s
        )
        with first_calls():
            await check_server(redis, broker.keys)
            await check_schema_version(redis, broker.keys)
            await broker.clock.sync()
        following = asyncio.create_task(broker.follow_failovers(), name="follow-failovers")
        try:
            yield broker
        finally:
            following.cancel()
            await asyncio.wait((following,))
            with suppress(BrokerUnavailable, TimeoutError):
                async with asyncio.timeout(_LAST_EXPIRIES_S):
                    await broker.streams.expire_ended(now=True)
            await broker.reader.close()
    finally:
        await redis.aclose()
