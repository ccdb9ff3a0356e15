"""The simulated engine's timing model and its only sound."""

from __future__ import annotations

import functools

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples

_TONE_HZ = 220.0
_TONE_LEVEL = 0.05


class SimulatedOptions(BaseModel):
    """What each step costs in milliseconds, and how much of the time a session speaks.

    A duplex session listens and speaks in cycles of `cycle_units` units, `speak_ratio` of each
    spoken. An answer to a turn or a chat has `answer_pieces` pieces, each a word and `speak_ms` in
    the making.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(default=4, ge=1, le=4096)
    load_ms: float = Field(default=0.0, ge=0.0)
    prepare_ms: float = Field(default=100.0, ge=0.0)
    prefill_ms: float = Field(default=60.0, ge=0.0)
    listen_ms: float = Field(default=40.0, ge=0.0)
    speak_ms: float = Field(default=250.0, ge=0.0)
    finalize_ms: float = Field(default=30.0, ge=0.0)
    speak_ratio: float = Field(default=0.5, ge=0.0, le=1.0)
    cycle_units: int = Field(default=10, ge=1, le=1000)
    answer_pieces: int = Field(default=8, ge=0, le=1000)
    context_tokens: int = Field(default=8192, ge=1)

    @property
    def listen_units(self) -> int:
        """Units of each cycle that listen; they come first."""
        return self.cycle_units - round(self.cycle_units * self.speak_ratio)


@functools.lru_cache(maxsize=8)
def tone(samples: int) -> Samples:
    """`samples` of a quiet 220 Hz tone at 24 kHz."""
    time_s = np.arange(samples, dtype=np.float32) / OUTPUT_RATE
    return (_TONE_LEVEL * np.sin(2 * np.pi * _TONE_HZ * time_s)).astype(np.float32)
