"""The sound of a call in both directions, as RTP packets.

What the client sends becomes 16-bit PCM at 16 kHz, in pieces of 100 ms. What it is sent are answers as they
come, paced in packets, and silence between them.
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from antiphon.edge.access.limits import TokenBucket
from antiphon.edge.protocols.openai_realtime.track import (
    PlaybackEvent,
    PlaybackReport,
    TrackOrder,
)
from antiphon.edge.webrtc.opus import (
    FRAME_SAMPLES,
    SILENCE,
    SILENCE_FRAMES,
    OpusDecoder,
    OpusEncoder,
    packet_samples,
)
from antiphon.edge.webrtc.rtp import CLOCK_RATE, PacketOrder, read_packet
from antiphon.shared_schemas.audio import OUTPUT_RATE

_PIECE = CLOCK_RATE // 10
_MOST_LOST = CLOCK_RATE
"""Silence in place of lost sound is not longer, even if the timestamps say so."""

_PACKETS_PER_S = 150
"""A client with packets of 10 ms sends 100."""

_AHEAD_S = 5
"""How far sound may run ahead of real time."""

_QUIET_AFTER_S = 0.3
_MOST_QUIET_S = 10.0
"""What a client that has stopped sending counts as saying: silence, which ends its turn."""


class SoundReceiver:
    """`put` takes the pieces. Times are those of the event loop."""

    def __init__(self, payload_type: int, put: Callable[[bytes], None], now: float) -> None:
        self._payload_type = payload_type
        self._put = put
        self._order = PacketOrder()
        self._decoder = OpusDecoder()
        self._pieces: list[bytes | int] = []
        self._samples = 0
        self._packets = TokenBucket(2 * _PACKETS_PER_S, _PACKETS_PER_S, now)
        self._sound = TokenBucket(_AHEAD_S * CLOCK_RATE, CLOCK_RATE * 1.02, now)
        self._arrived: float | None = None
        self._quiet_s = 0.0
        """Silence in place of what has not arrived since the last packet."""

    def receive(self, data: bytes, now: float) -> None:
        """One packet as it arrives. Others than those of the track are dropped."""
        packet = read_packet(data)
        if packet is None or packet.payload_type != self._payload_type:
            return
        length = packet_samples(packet.payload)
        if length is None or not self._packets.take(1, now):
            return
        self._arrived = now
        for arrived in self._order.add(packet, length):
            known = int(self._quiet_s * CLOCK_RATE)
            self._quiet_s = 0.0
            self._add(min(max(0, arrived.lost - known), _MOST_LOST), now)
            self._pieces.append(arrived.payload)
            self._count(packet_samples(arrived.payload) or 0, now)

    def fill(self, now: float) -> None:
        """Called every now and then: a client that sends nothing is silent."""
        if self._arrived is None or self._quiet_s >= _MOST_QUIET_S:
            return
        due_s = now - self._arrived - _QUIET_AFTER_S - self._quiet_s
        if due_s >= 0.1:
            self._quiet_s += due_s
            self._add(int(due_s * CLOCK_RATE), now)

    def _add(self, silence: int, now: float) -> None:
        if silence:
            self._pieces.append(silence)
            self._count(silence, now)

    def _count(self, samples: int, now: float) -> None:
        if not self._sound.take(samples, now):
            self._pieces.pop()
            return
        self._samples += samples
        if self._samples >= _PIECE:
            pieces, self._pieces, self._samples = self._pieces, [], 0
            self._put(self._decoder.decode(pieces))


FRAME_S = 0.02


class _Sound:
    """What is left of one piece of an answer. `last`: the answer ends with it."""

    def __init__(self, order: TrackOrder, *, last: bool = False) -> None:
        self.order = order
        self.last = last
        self.samples: NDArray[np.int16] = np.frombuffer(order.pcm, "<i2").astype(
            np.int16, copy=False
        )


class CallPlayer:
    """Makes the next packet when it is due. It is pure."""

    def __init__(self, report: Callable[[PlaybackReport], None]) -> None:
        self._report = report
        self._encoder = OpusEncoder()
        self._queue: deque[_Sound] = deque()
        self._playing: TrackOrder | None = None
        self._played = 0
        """Samples of the item that plays."""
        self._cleared = ""
        """An answer of which nothing is played any more."""
        self._tail = False

    @property
    def seconds(self) -> float:
        """Length of what is not played yet."""
        return sum(len(each.samples) for each in self._queue) / OUTPUT_RATE

    def obey(self, order: TrackOrder) -> None:
        if order.order == "clear":
            self._clear()
        elif order.response_id != self._cleared:
            self._queue.append(_Sound(order, last=order.order == "end"))

    def next_packet(self) -> tuple[bytes, int]:
        """An Opus packet, and how many frames of FRAME_S it has."""
        frame = self._next_frame()
        if frame is None and not self._tail:
            return SILENCE, SILENCE_FRAMES
        self._tail = frame is not None  # the encoder is 6.5 ms behind
        if frame is None:
            frame = np.zeros(FRAME_SAMPLES, np.int16)
        return self._encoder.encode(frame), 1

    def _next_frame(self) -> NDArray[np.int16] | None:
        parts: list[NDArray[np.int16]] = []
        missing = FRAME_SAMPLES
        while missing and self._queue:
            sound = self._queue[0]
            if len(sound.samples):
                self._begin(sound.order)
                part, sound.samples = sound.samples[:missing], sound.samples[missing:]
                self._played += len(part)
                missing -= len(part)
                parts.append(part)
            if not len(sound.samples):
                self._queue.popleft()
                if sound.last:
                    self._end(sound.order)
        if not parts:
            return None
        if missing:
            parts.append(np.zeros(missing, np.int16))
        return np.concatenate(parts)

    def _begin(self, order: TrackOrder) -> None:
        playing = self._playing
        if playing is None or playing.item_id != order.item_id:
            self._played = 0
        if playing is None or playing.response_id != order.response_id:
            self._playing = order
            self._tell("started", order)
        self._playing = order

    def _end(self, order: TrackOrder) -> None:
        if self._playing is not None and self._playing.response_id == order.response_id:
            self._tell("stopped", self._playing)
            self._playing = None

    def _clear(self) -> None:
        """Also what the answer that plays has not sent yet."""
        playing = self._playing
        waiting = next((each.order for each in self._queue if each.order.order == "play"), None)
        cut = playing or waiting
        self._queue.clear()
        self._playing = None
        if cut is not None:
            self._cleared = cut.response_id
            if playing is None:
                self._played = 0
            self._tell("cleared", cut)

    def _tell(self, event: PlaybackEvent, order: TrackOrder) -> None:
        played_ms = self._played * 1000 // OUTPUT_RATE
        self._report(PlaybackReport(event, order.response_id, order.item_id, played_ms))
