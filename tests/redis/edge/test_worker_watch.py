"""An edge reports a worker whose connection was open and is closed, and that sends no heartbeat since."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.edge import upkeep
from antiphon.edge.upkeep import WorkerWatch
from antiphon.shared_schemas.states import SessionState
from support.control_plane import EDGE, claim, join, reap, serve
from support.stack import until


@pytest.fixture
def on_silent() -> AsyncMock:
    return AsyncMock()


@pytest.fixture
def watch(broker: Broker, on_silent: AsyncMock, monkeypatch: pytest.MonkeyPatch) -> WorkerWatch:
    """The first look at a closed connection reports it."""
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 0.0)
    return WorkerWatch(broker, lambda: False, on_silent)


@asynccontextmanager
async def open_connection(broker: Broker) -> AsyncIterator[None]:
    """It closes at the end."""
    keeping = asyncio.create_task(broker.worker_connections.keep_open("w1"))
    await until(_is(broker, is_open=True))
    yield
    keeping.cancel()
    await asyncio.wait([keeping])
    await until(_is(broker, is_open=False))


def _is(broker: Broker, *, is_open: bool) -> Callable[[], object]:
    async def reached() -> bool:
        return (await broker.worker_connections.look()).workers["w1"].is_open is is_open

    return reached


async def is_silent(broker: Broker, ticket: int) -> bool:
    return bool((await broker.registry.edge_beat(EDGE, [("a", ticket, 0)])).silent)


async def test_a_worker_is_reported_once_and_loses_its_sessions_later(
    broker: Broker,
    raw: Redis,
    watch: WorkerWatch,
    on_silent: AsyncMock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await serve(broker)
    ticket = (await join(broker, "a")).number
    await claim(broker)
    await watch._look()
    on_silent.assert_not_called()  # its connection was never open
    async with open_connection(broker):
        await watch._look()
    for _ in range(2):
        await watch._look()
        on_silent.assert_called_once_with()
        assert await is_silent(broker, ticket)
    await reap(broker, raw)  # this reaper has no quiet time any more
    monkeypatch.setattr(upkeep, "LOST_AFTER_S", 0.0)
    await watch._look()
    row = await broker.sessions.get("a")
    assert row is not None
    assert row.state is SessionState.RECOVERING
    await watch._look()
    on_silent.assert_called_once_with()


async def test_a_worker_that_sends_heartbeats_is_not_reported(
    broker: Broker, watch: WorkerWatch, on_silent: AsyncMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not reported later either, before its connection is open again."""
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 3600.0)
    await serve(broker)
    async with open_connection(broker):
        await watch._look()
    await watch._look()  # it is closed, and this is the last heartbeat
    (beat_at,) = [one.beat_at for one in (await broker.worker_connections.look()).workers.values()]

    async def beats_later() -> bool:
        await serve(broker)
        return (await broker.worker_connections.look()).workers["w1"].beat_at > beat_at

    await until(beats_later)
    monkeypatch.setattr(upkeep, "SILENT_AFTER_S", 0.0)
    for _ in range(2):
        await watch._look()
    on_silent.assert_not_called()
    async with open_connection(broker):
        await watch._look()
    await watch._look()
    on_silent.assert_called_once_with()
