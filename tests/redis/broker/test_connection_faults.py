"""Connections to a real Redis that are reset, frozen, or lead to a server that became a replica."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvloop
from redis.asyncio import Redis

from antiphon.broker import stream_reader
from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from support.redis_server import RedisServer, demote, each_server, promote, replicates
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.one_redis

SID = "adx_1"
TICKET = 1_700_000_000_000
START = StreamPosition.before(TICKET)


@pytest.fixture
async def proxied(settings: BrokerSettings, proxy: TcpProxy) -> AsyncIterator[Broker]:
    """A broker behind the proxy; `broker` reaches the same keys without it."""
    async with open_broker(settings.model_copy(update={"redis_url": proxy.url})) as opened:
        yield opened


async def pings(broker: Broker, count: int = 8) -> None:
    await asyncio.gather(*(broker.ping() for _ in range(count)))


async def test_a_new_connection_reads_no_files(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst of calls opens many, and each look-up of redis-py's version takes 2 ms."""
    read = list[str]()
    monkeypatch.setattr("redis.utils.get_lib_version", lambda: read.append("version") or "0")
    async with open_broker(settings) as broker:
        await pings(broker)
    assert not read


async def test_idle_connections_that_were_reset_are_replaced_before_use(
    proxied: Broker, proxy: TcpProxy
) -> None:
    for _ in range(3):
        await pings(proxied)
        assert proxy.reset() >= 8
        await asyncio.sleep(0.05)
        await pings(proxied)


def test_a_reset_during_calls_raises_broker_unavailable_on_uvloop(settings: BrokerSettings) -> None:
    """The services run on uvloop, whose closed transports raise RuntimeError."""

    async def run() -> list[BaseException]:
        async with tcp_proxy(urlsplit(settings.redis_url).port or 0) as proxy:
            behind = settings.model_copy(update={"redis_url": proxy.url})
            async with open_broker(behind) as broker:
                failures: list[BaseException] = []
                for _ in range(20):
                    calls = [asyncio.create_task(broker.ping()) for _ in range(16)]
                    await asyncio.sleep(0.001)
                    proxy.reset()
                    outcomes = await asyncio.gather(*calls, return_exceptions=True)
                    failures += [o for o in outcomes if o is not None]
                await broker.ping()
                return failures

    failures = uvloop.run(run())
    assert failures, "no call was in flight"
    assert {type(failure) for failure in failures} == {BrokerUnavailable}


async def test_a_subscription_continues_after_resets(
    broker: Broker, proxied: Broker, proxy: TcpProxy
) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    async with proxied.reader.subscribe(broker.keys.inbound(SID), START) as subscription:
        for number in range(1, 6):
            await writer.append(ChunkIn(audio=bytes(4)))
            position, _ = await anext(subscription)
            assert position.n == number
            assert proxy.reset() > 0


async def test_a_frozen_connection_is_noticed_within_five_seconds(
    broker: Broker, proxied: Broker, proxy: TcpProxy
) -> None:
    """Five seconds of the reader's event loop: on a busy machine its timers are as late as this count."""
    writer = await broker.streams.input_writer(SID, TICKET)
    async with proxied.reader.subscribe(broker.keys.inbound(SID), START) as subscription:
        await writer.append(ChunkIn(audio=bytes(4)))
        await anext(subscription)
        before = proxy.accepted
        proxy.freeze()
        for _ in range(5 * 50):
            if proxy.accepted > before:
                break
            await asyncio.sleep(1 / 50)
        assert proxy.accepted > before
        proxy.thaw()
        await writer.append(ChunkIn(audio=bytes(4)))
        assert (await anext(subscription))[0].n == 2


@pytest.mark.parametrize("binary", each_server())
async def test_a_role_change_is_an_outage_that_ends_at_the_new_master(
    settings: BrokerSettings, tmp_path: Path, binary: Path
) -> None:
    """The address leads to the new master, as a virtual address or a DNS name does."""
    with (
        RedisServer(tmp_path / "one", binary=binary) as old,
        RedisServer(tmp_path / "two", binary=binary) as new,
    ):
        await demote(new, old)
        async with tcp_proxy(old.port) as proxy:
            behind = settings.model_copy(update={"redis_url": proxy.url})
            async with open_broker(behind) as broker:
                writer = await broker.streams.input_writer(SID, TICKET)
                key = broker.keys.inbound(SID)
                watch = await broker.events.watch()
                async with broker.reader.subscribe(key, START) as subscription:
                    await writer.append(ChunkIn(audio=b"\0\0\0\1"))
                    await anext(subscription)
                    await replicates(new, old, key)
                    watching = asyncio.create_task(watch.read())
                    await asyncio.sleep(0.1)
                    await promote(new)
                    await demote(old, new)
                    with pytest.raises(BrokerUnavailable):
                        await writer.append(ChunkIn(audio=b"\0\0\0\2"))
                    with pytest.raises(BrokerUnavailable):
                        await watching
                    proxy.target = new.port
                    await retry_until_available(
                        lambda: writer.append(ChunkIn(audio=b"\0\0\0\2")), "append"
                    )
                    async with asyncio.timeout(60):
                        position, entry = await anext(subscription)
                    assert position.n == 2
                    assert isinstance(entry, ChunkIn)
                    assert entry.audio == b"\0\0\0\2"
                await watch.close()


async def _connections(raw: Redis) -> int:
    return len(await raw.client_list())


async def test_connections_of_a_burst_are_closed_when_they_are_idle(
    redis_server: RedisServer,
) -> None:
    """A few stay, and those that are in use stay, too."""
    settings = BrokerSettings(redis_url=redis_server.url, redis_idle_s=0.2)
    async with Redis.from_url(redis_server.url) as raw, open_broker(settings) as broker:
        before = await _connections(raw)
        for _ in range(2):
            await pings(broker, 50)
            assert await _connections(raw) > 30
            busy = asyncio.create_task(_keep_busy(broker, 10))
            await until(lambda: _has_at_most(raw, before + 16))
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
            await until(lambda: _has_at_most(raw, before + 4))
        await pings(broker, 50)


async def _has_at_most(raw: Redis, connections: int) -> bool:
    return await _connections(raw) <= connections


async def _keep_busy(broker: Broker, count: int) -> None:
    while True:
        await pings(broker, count)


async def test_a_user_that_may_not_ask_for_the_role_can_read(
    settings: BrokerSettings, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A managed Redis may forbid ROLE. The reader asks for it after each read without entries."""
    monkeypatch.setattr(stream_reader, "LONGEST_BLOCK_MS", 20)
    async with Redis.from_url(redis_server.url) as raw:
        await raw.execute_command(
            "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-role"
        )
    url = f"redis://limited:secret@127.0.0.1:{redis_server.port}/0"
    async with open_broker(settings.model_copy(update={"redis_url": url})) as broker:
        key = broker.keys.inbound(SID)
        async with broker.reader.subscribe(key, START) as subscription:
            await asyncio.sleep(0.2)  # several reads without entries
            writer = await broker.streams.input_writer(SID, TICKET)
            await writer.append(ChunkIn(audio=bytes(4)))
            async with asyncio.timeout(60):
                assert (await anext(subscription))[0].n == 1
