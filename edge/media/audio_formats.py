"""Sound as OpenAI's voice APIs and telephones send it: 16-bit PCM at 16 or 24 kHz, and G.711 at 8 kHz.

Decoders and encoders keep their state over the chunks of one stream, so no seam is audible. As many
samples come out as went in, at the other rate.
"""

import math
from enum import StrEnum
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
    to_pcm16,
)

TELEPHONE_RATE = 8_000
"""Hz of G.711."""

_HALF_WIDTH = 16
"""Periods of the lower rate on each side of a sample that its filter reads: 1 to 2 ms of delay."""

_PASSED = 0.94
"""Part of the lower rate's band below the filter's half-amplitude point."""

_ULAW_BIAS, _ULAW_CLIP = 132, 32_635


class AudioFormat(StrEnum):
    """A format on the wire, mono. PCM is little-endian."""

    PCM_16K = "pcm16 at 16 kHz", INPUT_RATE, 2
    PCM_24K = "pcm16 at 24 kHz", OUTPUT_RATE, 2
    PCMU = "G.711 mu-law", TELEPHONE_RATE, 1
    PCMA = "G.711 A-law", TELEPHONE_RATE, 1

    rate: int
    width: int
    """Bytes of one sample."""

    def __new__(cls, text: str, rate: int, width: int) -> Self:
        member = str.__new__(cls, text)
        member._value_ = text
        member.rate, member.width = rate, width
        return member


class StreamResampler:
    """Converts one stream of chunks between two rates.

    `soxr.ResampleStream` computes in blocks, which delays sound by 20 to 115 ms between these rates. This
    filter delays it by 1 to 2 ms.
    """

    def __init__(self, rate: int, to_rate: int) -> None:
        divisor = math.gcd(rate, to_rate)
        self._up, self._down = to_rate // divisor, rate // divisor
        before = _filter_phases(self._up, self._down).shape[1] - 1
        self._before: Samples = np.zeros(before, dtype=np.float32)
        self._skip = 0
        """Samples at the common multiple of both rates before the next one that is kept."""

    def resample(self, samples: Samples) -> Samples:
        """The next chunk, shape (n,)."""
        up, down, skip, before = self._up, self._down, self._skip, self._before
        if up == down or not len(samples):
            return samples
        weights = _cycle_filter(up, down, skip)
        width = weights.shape[1]
        read = np.concatenate((before, samples, np.zeros(width, dtype=np.float32)))
        count = -(-(up * len(samples) - skip) // down)
        cycles = -(-count // up)
        step = read.itemsize
        windows = np.ndarray((cycles, width), read.dtype, read, strides=(down * step, step))
        kept = np.empty((cycles, up), dtype=np.float32)
        for number in range(up):  # not `matmul`, whose threads wait for a processor when it is busy
            np.einsum("ij,j->i", windows, weights[number], out=kept[:, number])
        self._skip = (skip - up * len(samples)) % down
        self._before = read[len(samples) : len(samples) + len(before)].copy()
        return kept.ravel()[:count]


@cache
def _filter_phases(up: int, down: int) -> NDArray[np.float32]:
    """A low-pass filter (windowed sinc), one row for each of the `up` samples made of one."""
    factor = max(up, down)
    taps = 2 * _HALF_WIDTH * factor + 1
    cutoff = _PASSED / factor
    at = np.arange(taps) - taps // 2
    window = np.sinc(cutoff * at) * np.kaiser(taps, 7.0)
    columns = -(-taps // up)
    padded = np.zeros(columns * up)
    padded[:taps] = window * up / window.sum()
    return np.ascontiguousarray(padded.reshape(columns, up).T, dtype=np.float32)


@cache
def _cycle_filter(up: int, down: int, skip: int) -> NDArray[np.float32]:
    """The weights of the input for `up` samples, after which the phases repeat; shape (`up`, inputs)."""
    phases = _filter_phases(up, down)
    taps = phases.shape[1]
    places = [divmod(skip + number * down, up) for number in range(up)]
    weights = np.zeros((up, places[-1][0] + taps), dtype=np.float32)
    for number, (start, phase) in enumerate(places):
        weights[number, start : start + taps] = phases[phase][::-1]
    return weights


class FormatDecoder:
    """Decodes one stream of a client to PCM at 16 kHz, or at `rate`."""

    def __init__(self, audio_format: AudioFormat, rate: int = INPUT_RATE) -> None:
        self.format = audio_format
        self._resampler = StreamResampler(audio_format.rate, rate)

    def decode(self, data: bytes) -> Samples:
        """The samples of one chunk. Raises ValueError on a partial sample."""
        if self.format.width == 1:
            codes = np.frombuffer(data, dtype=np.uint8)
            data = _expansion(self.format)[codes].tobytes()
        return self._resampler.resample(samples_from_bytes(data, PcmFormat.S16))


class FormatEncoder:
    """Encodes one stream of PCM at 24 kHz, or at `rate`, for a client."""

    def __init__(self, audio_format: AudioFormat, rate: int = OUTPUT_RATE) -> None:
        self.format = audio_format
        self._resampler = StreamResampler(rate, audio_format.rate)

    def encode(self, samples: Samples) -> bytes:
        """One chunk, as bytes."""
        pcm = to_pcm16(self._resampler.resample(samples))
        if self.format.width == 1:
            return _compression(self.format)[pcm.view(np.uint16)].tobytes()
        return pcm.astype("<i2", copy=False).tobytes()


@cache
def _compression(audio_format: AudioFormat) -> NDArray[np.uint8]:
    """The code of each 16-bit sample, by its bits."""
    pcm = np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32)
    codes = _to_ulaw(pcm) if audio_format is AudioFormat.PCMU else _to_alaw(pcm)
    return codes.astype(np.uint8)


@cache
def _expansion(audio_format: AudioFormat) -> NDArray[np.int16]:
    """The 16-bit sample of each code."""
    codes = np.arange(256, dtype=np.int32)
    pcm = _from_ulaw(codes) if audio_format is AudioFormat.PCMU else _from_alaw(codes)
    return pcm.astype("<i2")


def _to_ulaw(pcm: NDArray[np.int32]) -> NDArray[np.int32]:
    size = np.minimum(np.abs(pcm), _ULAW_CLIP) + _ULAW_BIAS
    segment = np.log2(size).astype(np.int32) - 7
    codes: NDArray[np.int32] = ~(
        np.where(pcm < 0, 0x80, 0) | segment << 4 | size >> segment + 3 & 0x0F
    )
    return codes & 0xFF


def _from_ulaw(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    inverted = ~codes & 0xFF
    size = ((inverted & 0x0F) << 3) + _ULAW_BIAS << (inverted >> 4 & 7)
    return np.where(inverted & 0x80, _ULAW_BIAS - size, size - _ULAW_BIAS)


def _to_alaw(pcm: NDArray[np.int32]) -> NDArray[np.int32]:
    """The sign of A-law is set for positive samples, and every second bit is inverted."""
    size = np.where(pcm < 0, ~pcm, pcm) >> 3
    segment = np.maximum(np.log2(np.maximum(size, 1)).astype(np.int32) - 4, 0)
    codes: NDArray[np.int32] = segment << 4 | size >> np.maximum(segment, 1) & 0x0F
    return codes ^ np.where(pcm < 0, 0x55, 0xD5)


def _from_alaw(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    plain = codes ^ 0x55
    segment, step = plain >> 4 & 7, (plain & 0x0F) << 4
    low, high = step + 8, step + 0x108 << np.maximum(segment - 1, 0)
    size = np.where(segment == 0, low, high)
    return np.where(plain & 0x80, size, -size)
