"""`peaks.json`: how loud both sides of a merged replay are, for players that draw its waveform."""

from __future__ import annotations

import wave
from typing import BinaryIO, Self

import numpy as np
import orjson
from pydantic import BaseModel, Field

PEAKS_PER_S = 25
_FULL_SCALE = 32768
_LEVELS = 255


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
        levels = -(-loudest * _LEVELS // _FULL_SCALE)  # a sound is never drawn as silence
        self.user.extend(levels[:, 0].tolist())
        self.model.extend(levels[:, 1].tolist())
