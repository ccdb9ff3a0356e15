"""A UDP relay that loses datagrams and delays the others."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

_CANDIDATE = re.compile(r"(a=candidate:\S+ 1 udp \d+) (\S+) (\d+) typ host\r\n")


@dataclass
class LossyRelay:
    """Between a client and the edge. Drops one of `each` datagrams, and delays the others."""

    each: int
    jitter_s: float
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    dropped: int = 0
    _sent: Counter[str] = field(default_factory=Counter)
    _edge: tuple[str, int] = ("", 0)
    _client: tuple[Any, ...] | None = None
    _near: asyncio.DatagramTransport | None = None
    _far: asyncio.DatagramTransport | None = None

    def rewrite(self, answer: str) -> str:
        """The answer with the relay in place of the edge."""
        candidates = _CANDIDATE.findall(answer)
        self._edge = "127.0.0.1", int(candidates[0][2])
        assert self._near is not None
        port = self._near.get_extra_info("sockname")[1]
        once = iter([rf"\1 127.0.0.1 {port} typ host\r\n"])
        return "".join(
            _CANDIDATE.sub(next(once, "") if "candidate" in line else r"\g<0>", line)
            for line in answer.splitlines(keepends=True)
        )

    def from_client(self, data: bytes, address: tuple[Any, ...]) -> None:
        self._client = address
        self._pass("edge", lambda: self._far and self._far.sendto(data, self._edge))

    def from_edge(self, data: bytes) -> None:
        self._pass("client", lambda: self._near and self._near.sendto(data, self._client))

    def _pass(self, to: str, send: Any) -> None:
        self._sent[to] += 1
        if self._sent[to] % self.each == 0:
            self.dropped += 1
            return
        asyncio.get_running_loop().call_later(self.chance.uniform(0, self.jitter_s), send)


class _Side(asyncio.DatagramProtocol):
    def __init__(self, received: Any) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._received(data, addr)


@asynccontextmanager
async def lossy_relay(each: int, jitter_s: float) -> AsyncIterator[LossyRelay]:
    relay, loop = LossyRelay(each, jitter_s), asyncio.get_running_loop()
    local = ("127.0.0.1", 0)
    relay._near, _ = await loop.create_datagram_endpoint(
        lambda: _Side(relay.from_client), local_addr=local
    )
    relay._far, _ = await loop.create_datagram_endpoint(
        lambda: _Side(lambda data, _: relay.from_edge(data)), local_addr=local
    )
    try:
        yield relay
    finally:
        await asyncio.sleep(2 * jitter_s)  # the end of the call is still on its way
        near, far = relay._near, relay._far
        relay._near = relay._far = None
        near.close()
        far.close()
