"""RTP packets of one track in their order: what comes late is awaited, and what is lost is known."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

CLOCK_RATE = 48_000
"""Hz of the timestamps of Opus."""

MOST_WAIT = CLOCK_RATE * 3 // 25
"""For a missing packet, in later sound: 120 ms."""

_MOST_STORED = 100
_FAR = 1000
"""Packets. A stream that is further away begins again."""

_HEADER = struct.Struct("!BBHII")


@dataclass(frozen=True, slots=True)
class RtpPacket:
    """`timestamp` in samples at CLOCK_RATE."""

    payload_type: int
    number: int
    timestamp: int
    source: int
    payload: bytes


def read_packet(data: bytes) -> RtpPacket | None:
    """None for what is no RTP packet, or has no payload."""
    if len(data) < _HEADER.size:
        return None
    flags, kind, number, timestamp, source = _HEADER.unpack_from(data)
    start = _HEADER.size + 4 * (flags & 0x0F)
    end = len(data)
    if flags & 0x10:
        if len(data) < start + 4:
            return None
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4])
    if flags & 0x20:
        end -= data[-1]
    if flags >> 6 != 2 or start >= end:
        return None
    return RtpPacket(kind & 0x7F, number, timestamp, source, data[start:end])


def packet_bytes(packet: RtpPacket, *, first: bool) -> bytes:
    """`first`: the first packet after silence."""
    kind = packet.payload_type | (0x80 if first else 0)
    header = _HEADER.pack(0x80, kind, packet.number, packet.timestamp, packet.source)
    return header + packet.payload


@dataclass(frozen=True, slots=True)
class Arrived:
    """A packet's payload, and the samples at CLOCK_RATE that are missing before it."""

    lost: int
    payload: bytes


class PacketOrder:
    """Puts the packets of one sender in order. It is pure."""

    def __init__(self) -> None:
        self._source: int | None = None
        self._next = 0
        self._time = 0
        """Where the sound up to here ends, at CLOCK_RATE; the origin is that of the first packet."""
        self._newest = 0
        self._waiting: dict[int, tuple[int, int, bytes]] = {}
        self._origin = 0

    def add(self, packet: RtpPacket, samples: int) -> Iterator[Arrived]:
        """What can be played now. `samples`: the length of the packet at CLOCK_RATE."""
        distance = _signed(packet.number - self._next, 16)
        if packet.source != self._source or abs(distance) > _FAR:
            self._begin(packet)
            distance = 0
        if distance < 0 or len(self._waiting) >= _MOST_STORED:
            return
        at = self._time + _signed(packet.timestamp - (self._origin + self._time), 32)
        self._waiting[self._next + distance & 0xFFFF] = (at, samples, packet.payload)
        self._newest = max(self._newest, at)
        yield from self._take()

    def _begin(self, packet: RtpPacket) -> None:
        self._source, self._next = packet.source, packet.number
        self._origin = packet.timestamp
        self._time = self._newest = 0
        self._waiting.clear()

    def _take(self) -> Iterator[Arrived]:
        while self._waiting:
            found = self._waiting.pop(self._next, None)
            if found is None:
                if self._newest - self._time < MOST_WAIT:
                    return
                self._next = min(self._waiting, key=lambda each: _signed(each - self._next, 16))
                continue
            at, samples, payload = found
            self._next = self._next + 1 & 0xFFFF
            lost, self._time = max(0, at - self._time), max(self._time, at) + samples
            yield Arrived(lost, payload)


def _signed(value: int, bits: int) -> int:
    """The difference of two numbers that wrap around."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
