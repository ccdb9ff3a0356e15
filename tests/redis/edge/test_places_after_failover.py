"""A failover gives no waiting client a worse place: workers that live keep their sessions in front of it.

A place rises only if a session that a worker had comes back to the queue, so an edge must not take the
worker of such a session for disconnected.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.edge import upkeep
from antiphon.edge.protocols.machine import QueuePlace
from antiphon.edge.session_events import SessionSubscription, update_places
from antiphon.edge.upkeep import WorkerWatch
from support.control_plane import claim, join, serve
from support.redis_server import RedisServer, demote, promote, replicates
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.one_redis


@dataclass
class Failover:
    """An edge whose connections lead through `proxy`. `new` replaces `old`, and has its data."""

    old: RedisServer
    new: RedisServer
    proxy: TcpProxy
    edge: Broker
    watch: WorkerWatch
    on_silent: AsyncMock
    connection: asyncio.Task[None]
    """The worker's, to `old`."""
    waits: SessionSubscription

    async def look(self) -> None:
        """As `WorkerWatch.run` does."""
        with suppress(BrokerUnavailable):
            await self.watch._look()

    async def elect(self) -> None:
        """New connections lead to `new`. Those to `old` stay open."""
        await replicates(self.new, self.old, self.edge.keys.leases)
        await promote(self.new)
        self.proxy.target = self.new.port

    async def place(self) -> int:
        update_places(await self.edge.queue.snapshot(), {self.waits.sid: self.waits})
        place = await self.waits.next_notice()
        assert isinstance(place, QueuePlace)
        return place.position


@pytest.fixture
async def failover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Failover]:
    """One session is served, and one waits. A worker counts as silent at the first look without it."""
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 0.0)
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        async with AsyncExitStack() as opened:
            proxy = await opened.enter_async_context(tcp_proxy(old.port))
            edge, worker = [
                await opened.enter_async_context(open_broker(BrokerSettings(redis_url=url)))
                for url in (proxy.url, old.url)
            ]
            await serve(worker)
            connection = asyncio.create_task(worker.worker_connections.keep_open("w1"))
            opened.callback(connection.cancel)
            await join(edge, "served")
            await claim(worker)
            waits = SessionSubscription("waits")
            waits.bind((await join(edge, waits.sid)).number)
            await demote(new, old)
            watch = WorkerWatch(edge, lambda: False, on_silent := AsyncMock())
            found = Failover(old, new, proxy, edge, watch, on_silent, connection, waits)

            async def is_open() -> bool:
                await found.look()
                return "w1" in watch._open

            await until(is_open)
            assert await found.place() == 1
            yield found


async def test_a_late_look_at_a_suspended_master(failover: Failover) -> None:
    """It shows the worker's connection, which the new master does not have yet."""
    late = asyncio.create_task(failover.look())
    failover.proxy.freeze_replies()
    await failover.elect()
    failover.edge._redis._pipeline.disconnect()  # type: ignore[attr-defined]
    failover.proxy.thaw()
    await late
    failover.proxy.reset()
    await retry_until_available(failover.edge.ping, "ping", patience_s=30)
    for _ in range(2):
        await failover.look()
    failover.on_silent.assert_not_called()
    assert await failover.place() == 1


async def test_a_connection_that_the_former_master_has_lost(
    failover: Failover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has left for the new master, which becomes the edge's between a look and its report."""
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 3600.0)
    failover.connection.cancel()

    async def is_closed() -> bool:
        await failover.look()
        return "w1" in failover.watch._closed

    await until(is_closed)
    await failover.elect()
    (closed,) = failover.watch._closed.values()
    failover.proxy.reset()
    await retry_until_available(failover.edge.ping, "ping", patience_s=30)
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 0.0)
    with suppress(BrokerUnavailable):
        await failover.watch._judge("w1", closed)
    failover.on_silent.assert_not_called()
    assert await failover.place() == 1
