"""Opus for calls: `libopus` of PyAV, mono."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from av import AudioFrame, AudioResampler, CodecContext, FFmpegError
from av.audio.codeccontext import AudioCodecContext
from av.packet import Packet
from numpy.typing import NDArray

from antiphon.edge.webrtc.rtp import CLOCK_RATE
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, without_zeros

FRAME_SAMPLES = OUTPUT_RATE // 50
"""Of one frame that is sent: 20 ms."""

SILENCE = bytes.fromhex("fb03fffefffefffe")
"""A packet of three frames of silence (RFC 6716: CELT, 20 ms, mono)."""

SILENCE_FRAMES = 3

_BIT_RATE = 32_000
_OPTIONS = {
    "application": "voip",
    "compression_level": "2",
    "fec": "1",
    "packet_loss": "10",
}
"""Complexity 2 as in recordings, and with what a receiver needs to conceal a lost packet."""

_FRAME_MS = {
    **{config: (10, 20, 40, 60)[config % 4] for config in range(12)},
    **{config: (10, 20)[config % 2] for config in range(12, 16)},
    **{config: (2.5, 5, 10, 20)[config % 4] for config in range(16, 32)},
}
"""Length of a frame for the first five bits of a packet (RFC 6716, table 2)."""

_MOST_MS = 120


def packet_samples(packet: bytes) -> int | None:
    """Length of a packet at CLOCK_RATE; None if it is no Opus packet."""
    code = packet[0] & 0x03
    if code == 3 and len(packet) < 2:
        return None
    frames = packet[1] & 0x3F if code == 3 else min(code + 1, 2)
    length_ms = frames * _FRAME_MS[packet[0] >> 3]
    return int(length_ms * CLOCK_RATE / 1000) if 0 < length_ms <= _MOST_MS else None


class OpusDecoder:
    """Decodes one stream to 16-bit PCM at INPUT_RATE."""

    def __init__(self) -> None:
        codec = CodecContext.create("libopus", "r")
        assert isinstance(codec, AudioCodecContext)
        codec.layout = "mono"
        codec.sample_rate = CLOCK_RATE
        codec.format = "s16"
        self._codec = codec
        self._resampler = AudioResampler(format="s16", layout="mono", rate=INPUT_RATE)

    def decode(self, pieces: Sequence[bytes | int]) -> bytes:
        """Packets, and samples of silence at CLOCK_RATE. A packet that cannot be decoded is silence too."""
        parts: list[NDArray[np.int16]] = []
        for piece in pieces:
            if isinstance(piece, int):
                parts.append(np.zeros(piece, np.int16))
                continue
            try:
                parts += [frame.to_ndarray()[0] for frame in self._codec.decode(Packet(piece))]
            except FFmpegError:
                parts.append(np.zeros(packet_samples(piece) or 0, np.int16))
        sound = AudioFrame.from_ndarray(np.concatenate(parts)[None], format="s16", layout="mono")
        sound.sample_rate = CLOCK_RATE
        resampled = self._resampler.resample(sound)
        return b"".join(
            frame.to_ndarray()[0].astype("<i2", copy=False).tobytes() for frame in resampled
        )


class OpusEncoder:
    """Encodes one stream of PCM at OUTPUT_RATE in frames of FRAME_SAMPLES."""

    def __init__(self) -> None:
        codec = CodecContext.create("libopus", "w")
        assert isinstance(codec, AudioCodecContext)
        codec.layout = "mono"
        codec.sample_rate = OUTPUT_RATE
        codec.format = "s16"
        codec.bit_rate = _BIT_RATE
        codec.options = _OPTIONS
        codec.time_base = Fraction(1, OUTPUT_RATE)
        self._codec = codec
        self._at = 0

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """One frame as one packet."""
        frame = AudioFrame.from_ndarray(without_zeros(samples)[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = OUTPUT_RATE, self._at
        frame.time_base = Fraction(1, OUTPUT_RATE)
        self._at += FRAME_SAMPLES
        return b"".join(map(bytes, self._codec.encode(frame)))
