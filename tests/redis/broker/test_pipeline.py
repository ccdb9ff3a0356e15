"""The connection of many callers, on both event loops, against a real Redis behind a proxy."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.broker.connections.client import RedisNode
from antiphon.broker.connections.pipeline import COPIED_BYTES, LONG_BYTES, Pipeline
from antiphon.broker.connections.pool import RedisConnection, shared_pool
from antiphon.broker.errors import BrokerUnavailable, MasterChanged
from antiphon.broker.redis_address import RedisAddress
from antiphon.broker.settings import BrokerSettings
from support.ports import free_port
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy
from support.tcp_server import tcp_server

pytestmark = pytest.mark.one_redis

HUGE = 32 * 2**20


@dataclass
class Wire:
    """A pipeline behind a proxy, and another client of the same Redis."""

    pipeline: Pipeline
    proxy: TcpProxy
    raw: Redis

    def start(self, *command: str | bytes | float) -> asyncio.Task[Any]:
        return asyncio.create_task(self.pipeline.call(*command))

    async def block(self, key: str) -> asyncio.Task[Any]:
        """A call that Redis answers when the key has an element; the replies after it wait, too."""
        before = await self._blocked()
        task = self.start("BLPOP", key, 0)

        async def is_blocked() -> bool:
            return await self._blocked() > before

        await until(is_blocked)
        return task

    async def _blocked(self) -> int:
        return int((await self.raw.info("clients"))["blocked_clients"])


def pipeline_to(url: str, timeout_s: float = 30.0, *, in_pieces: bool = False) -> Pipeline:
    settings = BrokerSettings(redis_url=url, redis_timeout_s=timeout_s)
    pool = shared_pool(settings, RedisAddress.parse(url), only_master=True)
    return Pipeline(pool.new_connection, timeout_s, in_pieces=in_pieces)


@asynccontextmanager
async def opened(redis_url: str, timeout_s: float, *, in_pieces: bool) -> AsyncIterator[Wire]:
    async with (
        tcp_proxy(urlsplit(redis_url).port or 0) as proxy,
        Redis.from_url(redis_url) as raw,
    ):
        pipeline = pipeline_to(proxy.url, timeout_s, in_pieces=in_pieces)
        try:
            yield Wire(pipeline, proxy, raw)
        finally:
            await pipeline.aclose()


def on_both_loops(
    test: Callable[[Wire], Awaitable[None]] | None = None,
    *,
    timeout_s: float = 30.0,
    in_pieces: bool = False,
) -> Any:
    def decorate(test: Callable[[Wire], Awaitable[None]]) -> Callable[..., None]:
        async def run(redis_url: str) -> None:
            async with opened(redis_url, timeout_s, in_pieces=in_pieces) as wire:
                await test(wire)

        @pytest.mark.parametrize("loop", [asyncio, uvloop], ids=lambda module: module.__name__)
        def on_a_loop(loop: Any, redis_url: str) -> None:
            loop.run(run(redis_url))

        return on_a_loop

    return decorate(test) if test else decorate


async def outcomes(*tasks: asyncio.Task[Any]) -> list[type]:
    async with asyncio.timeout(90):
        return [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)]


@on_both_loops
async def test_callers_share_one_connection_and_get_their_own_replies(wire: Wire) -> None:
    replies = await asyncio.gather(*(wire.pipeline.call("ECHO", f"{i}") for i in range(300)))
    assert replies == [b"%d" % i for i in range(300)]
    assert wire.proxy.accepted == 1


@on_both_loops
async def test_replies_that_arrive_in_pieces_are_joined(wire: Wire) -> None:
    for size in (1, 3, 7):
        wire.proxy.piece_bytes = size
        await wire.pipeline.aclose()  # the proxy uses the size for what it reads next
        texts = [f"{i}" * i for i in range(20)]
        replies = await asyncio.gather(
            *(wire.pipeline.call("ECHO", text) for text in texts), wire.pipeline.call("TIME")
        )
        assert [reply.decode() for reply in replies[:-1]] == texts
        assert len(replies[-1]) == 2


@on_both_loops
async def test_a_huge_command_and_a_huge_reply_arrive_whole(wire: Wire) -> None:
    data = bytes(range(256)) * (HUGE // 256)
    key = f"huge-{free_port()}"
    assert await wire.pipeline.call("SET", key, data, "EX", 60) == b"OK"
    whole, after = await asyncio.gather(
        wire.pipeline.call("GET", key), wire.pipeline.call("ECHO", "after")
    )
    assert whole == data
    assert after == b"after"
    await wire.raw.delete(key)


@on_both_loops
async def test_parts_of_every_length_arrive_as_they_were_sent(wire: Wire) -> None:
    sizes = (0, COPIED_BYTES, COPIED_BYTES + 1, 1, 64_000, 64_000)
    values: list[Any] = [
        *(bytes([size % 256]) * size for size in sizes),
        5,
        "\u00fc" * COPIED_BYTES,
    ]
    expected = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    name = f"parts-{free_port()}"
    keys = [f"{name}-{number}" for number in range(len(values))]
    pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
    for long in (False, True):
        assert await wire.pipeline.call("MSET", *pairs, long=long) == b"OK"
        assert await wire.pipeline.call("MGET", *keys, long=long) == expected
        assert await wire.pipeline.call("DEL", *keys, long=long) == len(keys)


class ObservedTransport:
    """Notes the size of each write."""

    def __init__(self, transport: Any) -> None:
        self.sizes: list[int] = []
        self._transport = transport

    def write(self, data: bytes | memoryview) -> None:
        self.sizes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@on_both_loops(in_pieces=True)
async def test_no_write_gets_a_long_command_whole(wire: Wire) -> None:
    name = f"long-{free_port()}"
    values: list[Any] = [
        *(b"", b"x" * LONG_BYTES, b"y" * (LONG_BYTES + 1), bytes(range(256)) * 40_000),
        *(5, -1.5, "\u00fc" * 1000, b"z" * 100_000, b"z" * 100_000, b"z" * 100_000),
    ]
    keys = [f"{name}-{number}" for number in range(len(values))]
    await wire.pipeline.call("PING")
    link = wire.pipeline._link
    assert link
    observed = ObservedTransport(link.transport)
    link.transport = observed  # type: ignore[assignment]
    pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
    first, after = await asyncio.gather(
        wire.pipeline.call("MSET", *pairs), wire.pipeline.call("ECHO", "after")
    )
    assert (first, after) == (b"OK", b"after")
    assert max(observed.sizes) <= LONG_BYTES + 100_100, "short parts are packed together"
    expected = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    assert await wire.pipeline.call("MGET", *keys) == expected
    await wire.raw.delete(*keys)


@on_both_loops(in_pieces=True)
async def test_a_long_command_whose_caller_is_cancelled_is_sent_whole(wire: Wire) -> None:
    key = f"cancelled-{free_port()}"
    await wire.pipeline.call("PING")
    wire.proxy.freeze()
    task = wire.start("SET", key, bytes(HUGE), "EX", 60)
    after = wire.start("STRLEN", key)
    await asyncio.sleep(0)
    task.cancel()
    assert await outcomes(task) == [asyncio.CancelledError]
    wire.proxy.thaw()
    assert await after == HUGE
    await wire.raw.delete(key)


@on_both_loops(in_pieces=True)
async def test_a_reset_within_a_long_command_fails_it_and_what_waits_behind_it(wire: Wire) -> None:
    await wire.pipeline.call("PING")
    wire.proxy.freeze()
    tasks = wire.start("SET", "never", bytes(HUGE)), wire.start("ECHO", "x")
    await asyncio.sleep(0)
    wire.proxy.thaw()
    wire.proxy.reset()
    assert await outcomes(*tasks) == [RedisConnectionError] * 2
    assert await wire.pipeline.call("ECHO", "next") == b"next"


@on_both_loops
async def test_a_short_command_does_not_wait_for_a_long_one(wire: Wire) -> None:
    settings = BrokerSettings(redis_url=wire.proxy.url, redis_timeout_s=30.0)
    node = RedisNode(shared_pool(settings, RedisAddress.parse(wire.proxy.url), only_master=True))
    try:
        wire.proxy.request_bytes_per_s = 100_000
        key, data = f"slow-{free_port()}", bytes(8 * LONG_BYTES)
        slow = asyncio.create_task(node.call_pipelined("SET", key, data, "EX", 60))
        for number in range(20):
            assert await node.call_pipelined("ECHO", number) == b"%d" % number
        assert not slow.done()
        wire.proxy.request_bytes_per_s = math.inf
        assert await slow == b"OK"
        await wire.raw.delete(key)
    finally:
        await node.aclose()


@on_both_loops
async def test_a_reset_fails_every_call_in_progress_and_the_next_one_connects(wire: Wire) -> None:
    for _ in range(3):
        first = await wire.block("never")
        others = [wire.start("ECHO", "x") for _ in range(5)]
        await asyncio.sleep(0)
        wire.proxy.reset()
        assert set(await outcomes(first, *others)) == {RedisConnectionError}
        assert await wire.pipeline.call("ECHO", "next") == b"next"


@on_both_loops
async def test_a_reset_within_a_reply_loses_that_call_only(wire: Wire) -> None:
    key = f"large-{free_port()}"
    await wire.raw.set(key, bytes(2**20), ex=60)
    assert await wire.pipeline.call("ECHO", "before") == b"before"
    wire.proxy.piece_bytes = 1024
    reading = wire.start("GET", key)
    await until_pieces(wire)
    wire.proxy.reset()
    assert await outcomes(reading) == [RedisConnectionError]
    assert await wire.pipeline.call("ECHO", "next") == b"next"


async def until_pieces(wire: Wire) -> None:
    """Wait until a part of a reply has arrived."""

    async def has_part() -> bool:
        link = wire.pipeline._link
        return link is not None and link._replies.len() > 0

    await until(has_part)


@on_both_loops
async def test_a_cancelled_caller_does_not_shift_the_replies_of_others(wire: Wire) -> None:
    key = f"list-{free_port()}"
    blocked = await wire.block(key)
    second, third = wire.start("ECHO", "second"), wire.start("ECHO", "third")
    await asyncio.sleep(0)
    blocked.cancel()
    second.cancel()
    assert await outcomes(blocked, second) == [asyncio.CancelledError] * 2
    await wire.raw.rpush(key, "pushed")
    assert await third == b"third"
    assert await wire.raw.exists(key) == 0, "the command of a cancelled caller was sent"
    assert wire.proxy.accepted == 1


@on_both_loops
async def test_a_caller_cancelled_while_connecting_leaves_the_others(wire: Wire) -> None:
    wire.proxy.freeze()
    first, second = wire.start("ECHO", "first"), wire.start("ECHO", "second")
    await asyncio.sleep(0.05)
    first.cancel()
    assert await outcomes(first) == [asyncio.CancelledError]
    wire.proxy.thaw()
    assert await second == b"second"
    assert wire.proxy.accepted == 1


@on_both_loops
async def test_a_half_open_connection_fails_every_call_at_its_deadline(wire: Wire) -> None:
    patient = Pipeline(wire.pipeline._new_connection, 30.0)
    await wire.pipeline._open()
    wire.pipeline._timeout_s = 0.5
    wire.proxy.freeze()
    calls = [wire.start("ECHO", f"{i}") for i in range(20)]
    assert set(await outcomes(*calls)) == {RedisTimeoutError}
    wire.proxy.thaw()
    assert await patient.call("ECHO", "y") == b"y"
    await patient.aclose()


@on_both_loops(timeout_s=0.5)
async def test_callers_share_one_attempt_to_connect_and_its_failure(wire: Wire) -> None:
    wire.proxy.freeze()
    calls = [wire.start("ECHO", "x") for _ in range(20)]
    assert set(await outcomes(*calls)) <= {TimeoutError, RedisTimeoutError}
    assert wire.proxy.accepted == 1


@on_both_loops
async def test_closing_ends_an_attempt_to_connect(wire: Wire) -> None:
    wire.proxy.freeze()
    call = wire.start("ECHO", "x")
    await asyncio.sleep(0.05)
    await wire.pipeline.aclose()
    assert await outcomes(call) == [BrokerUnavailable]
    wire.proxy.thaw()
    assert await wire.pipeline.call("ECHO", "again") == b"again"


@on_both_loops
async def test_a_command_is_sent_only_to_the_server_that_its_caller_knows(wire: Wire) -> None:
    key = f"text-{free_port()}"
    known = await wire.pipeline.server_id()
    with pytest.raises(MasterChanged):
        await wire.pipeline.call("SET", key, "x", "EX", 60, server=b"another")
    assert await wire.raw.get(key) is None
    wire.pipeline.disconnect()
    assert await wire.pipeline.call("SET", key, "y", "EX", 60, server=known) == b"OK"
    assert wire.proxy.accepted == 2


@on_both_loops
async def test_an_error_reply_is_the_error_of_its_caller(wire: Wire) -> None:
    key = f"text-{free_port()}"
    await wire.raw.set(key, "text", ex=60)
    calls = [
        wire.start("LPUSH", key, "x"),
        wire.start("ECHO", "fine"),
        wire.start("EVALSHA", "0" * 40, 0),
    ]
    assert await outcomes(*calls) == [ResponseError, bytes, NoScriptError]
    assert wire.proxy.accepted == 1


@on_both_loops
async def test_a_reply_that_is_not_of_redis_fails_the_call(wire: Wire) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with tcp_server(answer) as port:
        address = RedisAddress.parse(f"redis://127.0.0.1:{port}")
        pool = shared_pool(BrokerSettings(), address, only_master=True)

        def without_handshake() -> RedisConnection:
            connection = pool.new_connection()
            connection.redis_connect_func = lambda _: None
            return connection

        other = Pipeline(without_handshake, 30.0)
        call = asyncio.create_task(other.call("ECHO", "x"))
        assert await outcomes(call) == [RedisConnectionError]
        await other.aclose()
    assert wire.proxy.accepted == 0
