"""PCM audio: sample rates, formats, conversions between bytes and arrays, and the peaks of a waveform."""

import wave
from enum import StrEnum
from typing import BinaryIO, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, Field

INPUT_RATE = 16_000
"""Hz of everything a client sends (float32 mono on the wire)."""

OUTPUT_RATE = 24_000
"""Hz of everything an engine sends (float32 mono on the wire)."""

_FULL_SCALE = np.float32(32767.0)
"""The same in both directions, so that 16-bit audio is recorded unchanged."""

Samples = NDArray[np.float32]
"""Mono PCM, shape (n,), values nominally in [-1, 1]."""

SILENCE: Samples = np.zeros(0, dtype=np.float32)


class PcmFormat(StrEnum):
    """Sample encoding of a byte string; both are little-endian."""

    F32 = "f32"
    S16 = "s16"

    width: int
    """Bytes of one sample."""

    def __new__(cls, value: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.width = 4 if value == "f32" else 2
        return member


def samples_from_bytes(data: bytes, pcm_format: PcmFormat) -> Samples:
    """Decode PCM bytes to float32, shape (n,). Raises ValueError on a partial sample or a NaN/Inf."""
    if len(data) % pcm_format.width:
        raise ValueError(f"{len(data)} bytes is not a whole number of {pcm_format} samples")
    if pcm_format is PcmFormat.S16:
        return np.frombuffer(data, dtype="<i2").astype(np.float32) / _FULL_SCALE
    samples = np.frombuffer(data, dtype="<f4")
    if not np.isfinite(samples).all():
        raise ValueError("audio holds NaN or infinite samples")
    return samples.astype(np.float32, copy=False)


def float_bytes(samples: Samples) -> bytes:
    """Encode float32 samples as little-endian bytes, 4 per sample."""
    return samples.astype("<f4", copy=False).tobytes()


def to_pcm16(samples: Samples) -> NDArray[np.int16]:
    """Round float32 samples to the 16-bit scale that recordings use (full scale is 32767)."""
    scaled: Samples = np.rint(samples * _FULL_SCALE)
    return np.clip(scaled, -32768, 32767).astype(np.int16)


def pcm16_bytes(samples: Samples) -> bytes:
    """Encode float32 samples as 16-bit little-endian bytes, rounded as in `to_pcm16`."""
    return to_pcm16(samples).astype("<i2", copy=False).tobytes()


def without_zeros(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    """Sets the lowest bit of each sample, which nobody hears.

    libopus takes up to ten times as long for digital silence, which decays to denormal numbers in its filters.
    """
    return samples | np.int16(1)


PEAKS_PER_S = 25
_PEAK_SCALE = 32768
_PEAK_LEVELS = 255


class WaveformPeaks(BaseModel):
    """The loudest sample of each 1/`per_second` s of the merged replay, from 0 to 255 (full scale).

    The lists are equally long, and begin with the first sample of the replay.
    """

    per_second: int = PEAKS_PER_S
    user: list[int] = Field(default_factory=list)
    model: list[int] = Field(default_factory=list)

    @classmethod
    def of_wav(cls, file: BinaryIO) -> Self:
        """Of a stereo 16-bit WAV, read a second at a time. Raises ValueError for any other file."""
        peaks = cls()
        try:
            with wave.open(file) as source:
                if (source.getnchannels(), source.getsampwidth()) != (2, 2):
                    raise ValueError("not a WAV file with two channels of 16 bits")
                while data := source.readframes(source.getframerate()):
                    peaks._add(data, source.getframerate() // peaks.per_second)
        except (wave.Error, EOFError) as error:
            raise ValueError(f"not a complete WAV file: {error}") from None
        return peaks

    def encode(self) -> bytes:
        return orjson.dumps(self.model_dump())

    def _add(self, data: bytes, bucket: int) -> None:
        """Samples of at most one second; its last bucket may be shorter than the others."""
        samples = np.frombuffer(data[: len(data) // 4 * 4], dtype="<i2").reshape(-1, 2)
        loudness = np.abs(samples.astype(np.int32))
        loudest = np.maximum.reduceat(loudness, np.arange(0, len(samples), bucket), axis=0)
        levels = -(-loudest * _PEAK_LEVELS // _PEAK_SCALE)  # a sound is never drawn as silence
        self.user.extend(levels[:, 0].tolist())
        self.model.extend(levels[:, 1].tolist())
