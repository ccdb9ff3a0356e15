"""The order of RTP packets, whatever a network does to them."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.webrtc.rtp import Arrived, PacketOrder, RtpPacket, packet_bytes, read_packet

FRAME = 960


def packet(n: int, *, number: int = 0, timestamp: int = 0, source: int = 1) -> RtpPacket:
    """The `n`th. `number` and `timestamp`: of the first."""
    payload = n.to_bytes(4)
    return RtpPacket(111, number + n & 0xFFFF, timestamp + n * FRAME & 0xFFFFFFFF, source, payload)


def arrivals(packets: list[RtpPacket]) -> list[Arrived]:
    order = PacketOrder()
    return [arrived for each in packets for arrived in order.add(each, FRAME)]


def numbers(arrived: list[Arrived]) -> list[int]:
    return [int.from_bytes(each.payload) for each in arrived]


def test_a_packet_is_read_as_it_was_written() -> None:
    sent = packet(5, number=65_534, timestamp=2**32 - 1)
    assert read_packet(packet_bytes(sent, first=True)) == sent


def test_extensions_sources_and_padding_are_skipped() -> None:
    sent = packet(5)
    data = bytearray(packet_bytes(sent, first=False))
    data[0] = 0x80 | 0x20 | 0x10 | 1
    data[12:12] = bytes(4) + bytes.fromhex("bede0001") + bytes(4)
    data += bytes([0, 0, 3])
    assert read_packet(bytes(data)) == sent


@given(st.binary(max_size=40))
def test_other_bytes_are_no_packet_or_have_a_payload(data: bytes) -> None:
    found = read_packet(data)
    assert found is None or found.payload


@given(st.integers(0, 65_535), st.integers(0, 2**32 - 1), st.randoms())
def test_packets_within_100_ms_come_in_order(
    number: int, timestamp: int, chance: random.Random
) -> None:
    sent = [packet(n, number=number, timestamp=timestamp) for n in range(60)]
    shuffled = sorted(range(1, 60), key=lambda n: n + chance.uniform(0, 5))
    arrived = arrivals([sent[0], *(sent[n] for n in shuffled)])
    assert numbers(arrived) == sorted(numbers(arrived))
    assert len(arrived) >= 60 - 6
    assert not any(each.lost for each in arrived)


def test_a_lost_packet_is_awaited_and_then_counted() -> None:
    sent = [packet(n) for n in range(20) if n not in (7, 8)]
    arrived = arrivals(sent)
    assert numbers(arrived) == [n for n in range(20) if n not in (7, 8)]
    assert [each.lost for each in arrived if each.lost] == [2 * FRAME]


def test_a_packet_that_comes_twice_or_too_late_is_dropped() -> None:
    sent = [packet(n) for n in range(20) if n != 7]
    arrived = arrivals([*sent, packet(7), packet(19)])
    assert numbers(arrived) == [n for n in range(20) if n != 7]


def test_a_pause_of_the_sender_is_silence() -> None:
    later = [replace(packet(n), timestamp=(n + 50) * FRAME) for n in range(3, 6)]
    arrived = arrivals([*(packet(n) for n in range(3)), *later])
    assert [each.lost for each in arrived] == [0, 0, 0, 50 * FRAME, 0, 0]


def test_another_sender_begins_again() -> None:
    others = [packet(n, number=40_000, timestamp=1, source=2) for n in range(3)]
    arrived = arrivals([*(packet(n) for n in range(3)), *others])
    assert numbers(arrived) == [0, 1, 2, 0, 1, 2]
    assert not any(each.lost for each in arrived)
