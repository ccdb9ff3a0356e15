"""A UDP relay that loses datagrams and delays the others.

The delay of sound counts from its own pace. When a busy machine stops the sender, the packets come at once, and
another delay for each of them would put them in an order that no network makes.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

_CLOCK_RATE = 48_000
_RTP_TIMESTAMP = slice(4, 8)
_RTCP_TYPES = range(192, 224)

_CANDIDATE = re.compile(r"(a=candidate:\S+ 1 udp \d+) (\S+) (\d+) typ host\r\n")


@dataclass
class LossyRelay:
    """Between a client and the edge. Drops one of `each` datagrams, and delays the others."""

    each: int
    jitter_s: float
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    dropped: int = 0
    _sent: Counter[str] = field(default_factory=Counter)
    _earliest_s: dict[str, float] = field(default_factory=dict)
    """Least difference of the arrival of sound and its timestamp."""
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
        self._pass("edge", data, lambda: self._far and self._far.sendto(data, self._edge))

    def from_edge(self, data: bytes) -> None:
        self._pass("client", data, lambda: self._near and self._near.sendto(data, self._client))

    def _pass(self, to: str, data: bytes, send: Any) -> None:
        self._sent[to] += 1
        if self._sent[to] % self.each == 0:
            self.dropped += 1
            return
        loop = asyncio.get_running_loop()
        delay_s = self.chance.uniform(0, self.jitter_s)
        if data[0] >> 6 == 2 and data[1] not in _RTCP_TYPES:
            difference = loop.time() - int.from_bytes(data[_RTP_TIMESTAMP]) / _CLOCK_RATE
            earliest = self._earliest_s[to] = min(self._earliest_s.get(to, difference), difference)
            delay_s -= difference - earliest
        loop.call_later(max(0.0, delay_s), send)


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
