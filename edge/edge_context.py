"""What one edge process shares among its routes and connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

import structlog
from structlog.contextvars import bind_contextvars

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.service.tracing import Tracing, open_tracing
from antiphon.broker.settings import InvalidSettings
from antiphon.edge.access.guards import AccessPolicy
from antiphon.edge.access.http_limits import RequestPace
from antiphon.edge.access.limits import ByteBudget, ConnectionLimiter
from antiphon.edge.admin_feed import AdminFeed
from antiphon.edge.calls import Calls
from antiphon.edge.errors import Draining
from antiphon.edge.media.sound_decoders import SoundDecoders
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.session_events import SessionEvents
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.terminator import SessionTerminator
from antiphon.edge.tracing import SessionTrace
from antiphon.edge.upkeep import Heartbeat, keep_up
from antiphon.shared_schemas.ids import new_process_id
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()

_CLOSE_WITHIN_S = 3.0
_KEY_FILES_S = 2.0
"""How often the files of keys are read."""


class ChatConnections:
    """The connections with `mode=chat`, which have no session between two requests.

    Counts them, so that a shutdown waits for them, and ends their waits for a message.
    """

    def __init__(self) -> None:
        self._open = 0
        self._waits: set[asyncio.Timeout] = set()
        self._closing = False
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count one connection."""
        self._open += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._empty.set()

    @asynccontextmanager
    async def wait(self, limit_s: float) -> AsyncIterator[None]:
        """A wait between two requests. Raises TimeoutError, and Draining once the edge shuts down."""
        if self._closing:
            raise Draining
        try:
            async with asyncio.timeout(limit_s) as limit:
                self._waits.add(limit)
                try:
                    yield
                finally:
                    self._waits.discard(limit)
        except TimeoutError:
            if self._closing:
                raise Draining from None
            raise

    def close(self) -> None:
        """End the waits of all connections, now and from now on."""
        self._closing = True
        now = asyncio.get_running_loop().time()
        for limit in self._waits:
            if not limit.expired():
                limit.reschedule(now)

    async def wait_until_empty(self) -> None:
        """Return once no connection is left."""
        await self._empty.wait()


@dataclass(kw_only=True)
class EdgeContext:
    """Holds no session state: another edge can rebuild all of it from Redis."""

    id: str
    settings: EdgeSettings
    broker: Broker
    events: SessionEvents
    terminator: SessionTerminator
    access: AccessPolicy
    connection_limiter: ConnectionLimiter
    request_limiter: ConnectionLimiter
    request_pace: RequestPace
    chat_budget: ByteBudget
    chats: ChatConnections
    calls: Calls
    sound_decoders: SoundDecoders
    upkeep: asyncio.Task[None]
    """Watches events and sends heartbeats. It ends before the edge only if it fails."""
    metrics: EdgeMetrics
    admin_feed: AdminFeed
    tracing: Tracing | None = None
    draining: bool = False
    status_address: str = ""
    """`host:port` of /health and /metrics, once it is open."""
    refuse_newcomers: Callable[[], None] = lambda: None
    """Closes the listener, once there is one."""

    def trace(self, sid: str, kind: SessionKind, parent: bytes = b"") -> SessionTrace | None:
        """A new connection's span in its session's trace; None if traces are off."""
        if self.tracing is None:
            return None
        return SessionTrace(self.tracing, self.broker.clock, sid, kind, parent)

    async def drain(self) -> None:
        """Accept nothing new, let the sessions run for `drain_s`, then close them."""
        self.draining = True
        self.refuse_newcomers()
        self.events.drain()
        self.chats.close()
        await self.calls.close()
        if await self._emptied(self.settings.drain_s):
            return
        self.events.close()
        await self._emptied(_CLOSE_WITHIN_S)

    async def _emptied(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self.events.wait_until_empty()
                await self.chats.wait_until_empty()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def open_edge(settings: EdgeSettings) -> AsyncIterator[EdgeContext]:
    """Connect to Redis, watch events and send heartbeats.

    Raises BrokerUnavailable, IncompatibleRedis, and what AccessPolicy raises on bad settings.
    """
    access = AccessPolicy(settings, settings.host)
    metrics = EdgeMetrics(edge_id := new_process_id("edge"))
    bind_contextvars(instance=edge_id)
    async with (
        open_tracing("edge", edge_id) as tracing,
        open_broker(settings, metrics.broker) as broker,
    ):
        terminator = SessionTerminator(broker, metrics, edge_id)
        events = SessionEvents(broker, edge_id, terminator.end_unserved)
        metrics.connections.set_function(lambda: len(events.serving()))
        heartbeat = Heartbeat(edge_id, broker, events)
        await heartbeat.beat()
        upkeep = asyncio.create_task(keep_up(broker, events, heartbeat), name="edge-upkeep")
        edge = EdgeContext(
            id=edge_id,
            settings=settings,
            broker=broker,
            events=events,
            terminator=terminator,
            access=access,
            connection_limiter=ConnectionLimiter(
                settings.max_sockets_per_address, settings.max_connects_per_minute
            ),
            request_limiter=ConnectionLimiter(settings.max_sockets_per_address, 0),
            request_pace=RequestPace(),
            chat_budget=ByteBudget(settings.max_chats_bytes),
            chats=ChatConnections(),
            calls=Calls(),
            sound_decoders=SoundDecoders(),
            upkeep=upkeep,
            metrics=metrics,
            admin_feed=AdminFeed(broker, events),
            tracing=tracing,
        )
        key_files = asyncio.create_task(_follow_key_files(edge), name="key-files")
        try:
            yield edge
        finally:
            upkeep.cancel()
            key_files.cancel()
            await asyncio.wait([upkeep, key_files])
            await edge.calls.end()
            await edge.sound_decoders.close()
            await _unregister(edge)


async def _follow_key_files(edge: EdgeContext) -> None:
    """Apply changes of the files. While one cannot be used, the keys stay as they are."""
    settings = edge.settings
    problem = ""
    while settings.api_keys_file or settings.admin_token_file:
        await asyncio.sleep(_KEY_FILES_S)
        try:
            access = await asyncio.to_thread(AccessPolicy, settings, settings.host)
        except InvalidSettings as error:
            if str(error) != problem:
                problem = str(error)
                log.warning("keys_not_reloaded", error=problem)
            continue
        problem = ""
        if access.digests != edge.access.digests:
            edge.access = access
            log.info("keys_reloaded", open_to_everyone=access.open_to_everyone)


async def _unregister(edge: EdgeContext) -> None:
    await edge.terminator.wait_until_done(_CLOSE_WITHIN_S)
    with suppress(BrokerUnavailable):  # the reaper notices the missing heartbeat
        await edge.broker.registry.edge_gone(edge.id)
