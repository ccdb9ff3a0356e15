"""The UDP socket of a call: on a port that the operator has opened, announced under its addresses."""

import asyncio
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aioice import Candidate, Connection
from aioice.candidate import candidate_foundation, candidate_priority
from aioice.ice import CandidatePair, StunProtocol, get_host_addresses
from aioice.stun import Message
from aiortc import RTCIceGatherer

from antiphon.edge.access.limits import TokenBucket
from antiphon.edge.calls import NoFreePort

_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
_BUFFER_BYTES = 256 * 1024
_FIRST_OF_RTP = 20
"""First byte of a datagram from which it is not STUN (RFC 7983)."""

_MOST_ADDRESSES = 32
"""From which a client may send checks at once: a check is sent to each."""

_ADDRESSES_PER_S = 0.1
"""Further ones. A NAT gives a client another port now and then."""

_MOST_UNREAD = 256
"""Datagrams."""


@dataclass(frozen=True, slots=True)
class UdpPlaces:
    """Where calls listen. `ports`: first and last, or None for any; `announced`: () for the bound address."""

    host: str
    ports: tuple[int, int] | None
    announced: Sequence[str]

    def candidates(self) -> Iterator[int]:
        """Ports to try, from a random one on."""
        if self.ports is None:
            yield 0
            return
        first, last = self.ports
        count = last - first + 1
        start = secrets.randbelow(count)
        for number in range(count):
            yield first + (start + number) % count

    def hosts(self) -> list[str]:
        """Addresses to bind. A socket for all of them would answer under another one than it was sent to."""
        if self.host not in _WILDCARDS:
            return [self.host]
        if self.announced:
            return ["0.0.0.0"]  # noqa: S104 - as the edge
        return [*get_host_addresses(use_ipv4=True, use_ipv6=False), "127.0.0.1"]


class CallIce(Connection):
    """Waits for the checks of the client, and answers those only.

    The candidates of the offer are not used: a client could name other people's addresses, to which this edge
    would send.
    """

    def __init__(self, places: UdpPlaces) -> None:
        super().__init__(ice_controlling=False)
        self._places = places
        self.announced: list[tuple[str, int]] = []
        self._clock = asyncio.get_running_loop().time
        self._addresses = TokenBucket(_MOST_ADDRESSES, _ADDRESSES_PER_S, self._clock())

    async def get_component_candidates(
        self,
        component: int,
        addresses: list[str],  # noqa: ARG002 - those that aioice has found
        timeout: int = 5,  # noqa: ARG002, ASYNC109 - of servers that are not asked
    ) -> list[Candidate]:
        self._protocols = await self._bind_free_port()
        for protocol in self._protocols:
            host, port, *_ = protocol.transport.get_extra_info("sockname")
            protocol.local_candidate = Candidate(
                foundation=candidate_foundation("host", "udp", host),
                component=component,
                transport="udp",
                priority=candidate_priority(component, "host"),
                host=host,
                port=port,
                type="host",
            )
            self.announced += [(address, port) for address in self._places.announced or [host]]
        return [protocol.local_candidate for protocol in self._protocols]

    async def _bind_free_port(self) -> list[StunProtocol]:
        """Raises NoFreePort."""
        problem = OSError()
        for port in self._places.candidates():
            try:
                return await self._bind(port)
            except OSError as error:
                problem = error
        raise NoFreePort(f"no UDP port is free for a call: {problem.strerror or problem}")

    async def _bind(self, port: int) -> list[StunProtocol]:
        """On each address. Raises OSError if the port is not free on all of them."""
        loop, protocols = asyncio.get_running_loop(), list[StunProtocol]()
        try:
            for host in self._places.hosts():
                transport, protocol = await loop.create_datagram_endpoint(
                    self._protocol, local_addr=(host, port)
                )
                protocols.append(protocol)
                udp = transport.get_extra_info("socket")
                udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        except BaseException:
            for protocol in protocols:
                protocol.transport.close()
            raise
        return protocols

    def _protocol(self) -> StunProtocol:
        return _MediaProtocol(self)

    def is_client(self, addr: tuple[str, int]) -> bool:
        """Whether the client has proved that it receives at this address."""
        succeeded = CandidatePair.State.SUCCEEDED
        return bool(self._nominated) and any(
            pair.remote_addr == addr and pair.state is succeeded for pair in self._check_list
        )

    def check_incoming(
        self, message: Message, addr: tuple[str, int], protocol: StunProtocol
    ) -> None:
        known = [(each.host, each.port) for each in self._remote_candidates]
        if addr in known or self._addresses.take(1, self._clock()):
            super().check_incoming(message, addr, protocol)

    def data_received(self, data: bytes, component: int) -> None:
        """Drops what cannot be read, and what comes faster than it is read."""
        if data and data[0] >= _FIRST_OF_RTP and self._queue.qsize() < _MOST_UNREAD:
            super().data_received(data, component)


class _MediaProtocol(StunProtocol):
    """Does not try to read sound as STUN, and takes it from the client only."""

    receiver: CallIce

    def datagram_received(self, data: bytes | str, addr: tuple[Any, ...]) -> None:
        if not (data and isinstance(data, bytes) and data[0] >= _FIRST_OF_RTP):
            super().datagram_received(data, addr)
        elif self.receiver.is_client((addr[0], addr[1])):
            self.receiver.data_received(data, 1)


class CallGatherer(RTCIceGatherer):
    """An ICE gatherer of `aiortc` with a CallIce."""

    def __init__(self, places: UdpPlaces) -> None:
        super().__init__(iceServers=[])
        self._connection: CallIce = CallIce(places)

    @property
    def announced(self) -> list[tuple[str, int]]:
        return self._connection.announced
