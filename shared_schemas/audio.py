"""PCM audio: sample rates, formats, and conversions between bytes and arrays."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

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
