"""A client that leaves while its session is being admitted leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.edge.edge_context import EdgeContext, open_edge
from antiphon.edge.session import admission
from antiphon.edge.session.admission import (
    ConnectOptions,
    ResumeRequest,
    SessionRequest,
    admit,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.control_plane import join, waiting
from support.edge_harness import ended
from support.stack import until
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.one_redis

SID = "chat_1"
WANTED = SessionRequest(SessionKind.CHAT, "test", [SID])


@pytest.fixture
async def edge(settings: BrokerSettings, proxy: TcpProxy) -> AsyncIterator[EdgeContext]:
    """Its connections lead through the proxy."""
    own = settings.model_dump() | {"redis_url": proxy.url, "edge_health_port": 0}
    async with open_edge(EdgeSettings(**own)) as opened:
        yield opened


async def _admit(edge: EdgeContext, options: ConnectOptions) -> None:
    async with admit(edge, WANTED, options):
        raise AssertionError("it was to be cancelled before")


async def test_a_session_whose_join_is_cancelled_is_withdrawn(
    edge: EdgeContext, broker: Broker, proxy: TcpProxy
) -> None:
    await join(broker, "first")  # Redis knows the script now
    proxy.freeze_replies()
    joining = asyncio.create_task(_admit(edge, ConnectOptions()))

    async def is_queued() -> bool:
        return await waiting(broker) == ["first", SID]

    await until(is_queued)
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    proxy.thaw()
    await edge.terminator.wait_until_done(60.0)
    assert await waiting(broker) == ["first"]
    assert (await ended(broker, SID)).reason is EndReason.CLIENT_GONE
    await broker.sessions.end("first", EndReason.STOPPED)


async def test_a_session_whose_resume_is_cancelled_is_detached(
    edge: EdgeContext, broker: Broker, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with admit(edge, WANTED, ConnectOptions(resume=True)) as admitted:
        assert admitted.resume is not None
    loading = asyncio.Event()

    async def load_forever(*_: object) -> None:
        loading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(admission, "load_missed_messages", load_forever)
    resumed = ResumeRequest(admitted.resume.token, 0)
    resuming = asyncio.create_task(_admit(edge, ConnectOptions(resume=True, resumed=resumed)))
    await loading.wait()
    key = broker.keys.session(SID)
    assert not await raw.hexists(key, "left")
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    await edge.terminator.wait_until_done(60.0)
    assert await raw.hexists(key, "left")
    await broker.sessions.end(SID, EndReason.STOPPED)
