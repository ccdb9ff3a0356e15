"""The sound of calls both ways: Opus, what is lost, pace, reports and interruption."""

import numpy as np
import pytest

from antiphon.edge.protocols.openai_realtime.track import PlaybackReport, TrackOrder
from antiphon.edge.webrtc.opus import (
    FRAME_SAMPLES,
    SILENCE,
    SILENCE_FRAMES,
    OpusDecoder,
    OpusEncoder,
    packet_samples,
)
from antiphon.edge.webrtc.rtp import RtpPacket, packet_bytes
from antiphon.edge.webrtc.sound import CallPlayer, SoundReceiver
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE

FRAME = 960
PAYLOAD_TYPE = 111
SECOND = 2 * INPUT_RATE


def tone(seconds: float) -> np.ndarray:
    at = np.arange(int(seconds * OUTPUT_RATE)) / OUTPUT_RATE
    return (10_000 * np.sin(2 * np.pi * 440 * at)).astype(np.int16)


def encoded(samples: np.ndarray) -> list[bytes]:
    encoder = OpusEncoder()
    frames = samples.reshape(-1, FRAME_SAMPLES)
    return [encoder.encode(frame) for frame in frames]


def test_digital_silence_is_encoded_as_the_faintest_sound() -> None:
    """libopus takes three times as long for zeros."""
    silent, faint = np.zeros(OUTPUT_RATE, np.int16), np.ones(OUTPUT_RATE, np.int16)
    assert encoded(silent) == encoded(faint)


def loudness(pcm: bytes) -> float:
    return float(np.abs(np.frombuffer(pcm, "<i2")).mean())


class Heard:
    """A receiver, and what it has put out."""

    def __init__(self) -> None:
        self.pcm = b""
        self.receiver = SoundReceiver(PAYLOAD_TYPE, self._put, 0.0)

    def _put(self, pcm: bytes) -> None:
        self.pcm += pcm

    def send(
        self, packets: list[bytes], *, at: float = 0.0, first: int = 0, kind: int = 111
    ) -> None:
        for n, payload in enumerate(packets, first):
            data = packet_bytes(RtpPacket(kind, n & 0xFFFF, n * FRAME, 1, payload), first=False)
            self.receiver.receive(data, at + (n - first) * 0.02)


def test_a_tone_survives_the_codec() -> None:
    packets = encoded(tone(1.0))
    assert {packet_samples(packet) for packet in packets} == {FRAME}
    pcm = OpusDecoder().decode(packets)
    samples = np.frombuffer(pcm, "<i2")[INPUT_RATE // 10 :]
    spectrum = np.abs(np.fft.rfft(samples))
    assert spectrum.argmax() * INPUT_RATE / len(samples) == pytest.approx(440, abs=3)
    assert len(pcm) == pytest.approx(SECOND, abs=100)


def test_the_packet_of_silence_is_silent() -> None:
    assert packet_samples(SILENCE) == SILENCE_FRAMES * FRAME
    assert loudness(OpusDecoder().decode([SILENCE])) == 0.0


@pytest.mark.parametrize("garbage", [b"\xff", b"\xff\x3f", b"\x03\x00\x00", b"\x00" * 200])
def test_packets_that_are_no_opus_are_silence_or_dropped(garbage: bytes) -> None:
    length = packet_samples(garbage)
    if length is not None:
        assert loudness(OpusDecoder().decode([garbage, FRAME])) < 100


def test_a_lost_packet_is_silence_and_keeps_the_time() -> None:
    packets = encoded(tone(2.0))
    whole, holed = Heard(), Heard()
    whole.send(packets)
    for first in range(0, 100, 20):  # one in 20 is lost
        holed.send(packets[first : first + 19], at=first * 0.02, first=first)
    assert len(whole.pcm) == pytest.approx(2 * SECOND, abs=SECOND // 5)
    assert len(holed.pcm) == pytest.approx(2 * SECOND, abs=SECOND // 5)
    assert loudness(holed.pcm) == pytest.approx(loudness(whole.pcm), rel=0.15)


def test_a_client_that_stops_sending_is_silent() -> None:
    heard = Heard()
    heard.send(encoded(tone(1.0)))
    before = len(heard.pcm)
    for tick in range(200):
        heard.receiver.fill(1.0 + tick * 0.06)
    assert len(heard.pcm) - before == pytest.approx(10 * SECOND, abs=SECOND)
    assert loudness(heard.pcm[before + SECOND :]) < 1
    silent = len(heard.pcm)
    late = [RtpPacket(PAYLOAD_TYPE, n, (n + 600) * FRAME, 1, SILENCE) for n in range(50, 60)]
    for packet in late:
        heard.receiver.receive(packet_bytes(packet, first=False), 13.0)
    assert len(heard.pcm) - silent < 3 * SECOND  # the silence is not counted twice


def test_packets_of_other_types_are_dropped() -> None:
    heard = Heard()
    heard.send(encoded(tone(1.0)), kind=0)
    assert heard.pcm == b""


def test_sound_far_ahead_of_real_time_is_dropped() -> None:
    heard = Heard()
    packets = encoded(tone(1.0)) * 20
    for n, payload in enumerate(packets):
        data = packet_bytes(RtpPacket(PAYLOAD_TYPE, n, n * FRAME, 1, payload), first=False)
        heard.receiver.receive(data, 0.0)
    assert len(heard.pcm) <= 6 * SECOND


class Played:
    """A player, and its reports."""

    def __init__(self) -> None:
        self.reports: list[PlaybackReport] = []
        self.player = CallPlayer(self.reports.append)

    def put(self, order: str, response: str = "r", item: str = "i", seconds: float = 0.0) -> None:
        pcm = tone(seconds).tobytes()
        self.player.obey(
            TrackOrder(order=order, response_id=response, item_id=item, pcm=pcm)  # type: ignore[arg-type]
        )

    def packets(self, count: int) -> list[tuple[bytes, int]]:
        return [self.player.next_packet() for _ in range(count)]

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(report.event, report.response_id) for report in self.reports]


def test_an_answer_is_played_between_silence() -> None:
    played = Played()
    assert played.packets(2) == [(SILENCE, SILENCE_FRAMES)] * 2
    played.put("play", seconds=0.1)
    played.put("play", seconds=0.05)
    played.put("end")
    packets = played.packets(12)
    assert [frames for _, frames in packets] == [1] * 9 + [SILENCE_FRAMES] * 3
    assert played.told == [("started", "r"), ("stopped", "r")]
    assert played.reports[-1].played_ms == 150
    pcm = OpusDecoder().decode([payload for payload, _ in packets[:8]])
    assert loudness(pcm) > 1000


def test_a_gap_in_an_answer_is_not_its_end() -> None:
    played = Played()
    played.put("play", seconds=0.02)
    played.packets(3)
    played.put("play", seconds=0.02)
    played.packets(3)
    assert played.told == [("started", "r")]
    played.put("end")
    played.packets(1)
    assert played.told[-1] == ("stopped", "r")


def test_clearing_stops_at_once_and_names_what_was_heard() -> None:
    played = Played()
    played.put("play", seconds=2.0)
    played.packets(50)
    played.put("clear")
    cleared = played.reports[-1]
    assert (cleared.event, cleared.item_id, cleared.played_ms) == ("cleared", "i", 1000)
    assert [frames for _, frames in played.packets(2)] == [1, SILENCE_FRAMES]  # the encoder's rest
    played.put("play", seconds=1.0)  # the rest of the answer, which was on its way
    played.put("end")
    assert played.player.seconds == 0.0
    played.put("play", response="next", item="j", seconds=0.02)
    played.packets(1)
    assert played.told == [("started", "r"), ("cleared", "r"), ("started", "next")]


def test_clearing_silence_says_nothing() -> None:
    played = Played()
    played.put("clear")
    assert played.reports == []


def test_an_answer_that_waits_for_its_turn_is_cleared_unheard() -> None:
    played = Played()
    played.put("play", seconds=1.0)
    played.put("clear")
    assert (played.reports[-1].event, played.reports[-1].played_ms) == ("cleared", 0)
