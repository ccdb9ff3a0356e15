"""The real stack with a proxy between each process and Redis, and clients that count what they get."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.raw_client import Wire, open_wire
from support.stack import Service, Stack, new_stack
from support.tcp_proxy import TcpProxy, tcp_proxy

SIMULATED = '{"prepare_ms":1,"prefill_ms":1,"listen_ms":1,"speak_ms":1,"finalize_ms":1}'
"""Engine options of a worker whose time is spent outside the engine."""


@dataclass
class FaultStack:
    """Starts services, each behind a separate proxy."""

    stack: Stack
    _stack: AsyncExitStack
    proxies: dict[str, TcpProxy] = field(default_factory=dict)

    async def _proxy(self, name: str) -> TcpProxy:
        opened = await self._stack.enter_async_context(tcp_proxy(self.stack.redis.port))
        self.proxies[name] = opened
        return opened

    async def edge(self, name: str = "edge", **settings: object) -> Service:
        proxy = await self._proxy(name)
        return await asyncio.to_thread(self.stack.edge, redis_url=proxy.url, **settings)

    async def worker(
        self, name: str = "worker", engine: str = "simulated", **settings: object
    ) -> Service:
        proxy = await self._proxy(name)
        options = {"engine_options": SIMULATED} if engine == "simulated" else {}
        return await asyncio.to_thread(
            self.stack.worker, engine, redis_url=proxy.url, **options | settings
        )

    async def recorder(self, name: str = "recorder", **settings: object) -> Service:
        proxy = await self._proxy(name)
        return self.stack.recorder(redis_url=proxy.url, **settings)

    @property
    def open_connections(self) -> int:
        return sum(proxy.open_connections for proxy in self.proxies.values())

    def reset_all(self) -> int:
        """Reset every connection to Redis; returns how many."""
        return sum(proxy.reset() for proxy in self.proxies.values())

    def redirect(self, port: int) -> None:
        """Lead new connections to another server, as a DNS name or a virtual address does."""
        for proxy in self.proxies.values():
            proxy.target = port

    def all_alive(self) -> bool:
        return all(service.process.poll() is None for service in self.stack.services)


@asynccontextmanager
async def fault_stack(folder: Path) -> AsyncIterator[FaultStack]:
    """At the end no log may hold a traceback."""
    with new_stack(folder, aof=True) as stack:
        async with AsyncExitStack() as closing:
            try:
                yield FaultStack(stack, closing)
            finally:  # the services end their sessions in Redis, so they need the proxies
                await asyncio.to_thread(stack.close)


@dataclass
class Talker:
    """A full-duplex client that does not resume: it sends a second after each result.

    It ignores its places in the queue: its worker may be lost, or late with its heartbeats.
    """

    wire: Wire
    results: list[int] = field(default_factory=list)

    async def talk(self, seconds: int, *, every_s: float = 0.0) -> None:
        """The edge accepts up to 20 s of audio ahead of real time."""
        for _ in range(seconds):
            await asyncio.sleep(every_s)
            await self.wire.send_second()
            while (message := await self.wire.message())["type"] == "queue_update":
                pass
            assert message["type"] == "result", message
            self.results.append(message["current_time"])

    def check(self) -> None:
        """Each second has exactly one result, in order."""
        assert self.results == [1000 * n for n in range(1, len(self.results) + 1)]


@asynccontextmanager
async def talkers(stack: FaultStack, count: int, *, first: int = 0) -> AsyncIterator[list[Talker]]:
    """Clients that are past `prepared`, numbered from `first`."""
    async with AsyncExitStack() as sockets:
        opened = []
        for number in range(first, first + count):
            wire = open_wire(stack.stack.ws_url, f"adx_talker_{number}")
            opened.append(Talker(await sockets.enter_async_context(wire)))
        await asyncio.gather(*(talker.wire.begin() for talker in opened))
        yield opened
