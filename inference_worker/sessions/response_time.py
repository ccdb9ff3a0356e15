"""When the user of a full-duplex session stopped speaking: the wait for the answer begins there."""

from __future__ import annotations

from collections import deque

import numpy as np

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.unit_result import UnitResult

_FRAME_SAMPLES = INPUT_RATE // 50
_QUIET = 1e-5
"""A power of -50 dBFS: nothing below it is a voice."""
_ABOVE_NOISE = 16.0
"""12 dB above the quietest frame of the last _NOISE_UNITS units."""
_NOISE_UNITS = 5
_MIN_VOICED_FRAMES = 3
"""Fewer loud frames in a unit are a click."""
_LONGEST_S = 30.0
"""The model spoke of its own accord if the user has been silent for longer."""


class VoiceLevel:
    """Finds the end of a voice by its level, for engines that do not detect speech.

    It takes every sound above the noise for a voice.
    """

    def __init__(self) -> None:
        self._quietest: deque[float] = deque(maxlen=_NOISE_UNITS)
        self._silence_ms = 0.0

    def feed(self, samples: Samples) -> float:
        """Add a unit of audio (16 kHz). How long there has been no voice at its end, in ms."""
        count = len(samples) // _FRAME_SAMPLES
        self._silence_ms += len(samples) * 1000 / INPUT_RATE
        if count:
            frames = samples[: count * _FRAME_SAMPLES].reshape(count, _FRAME_SAMPLES)
            powers = np.einsum("ij,ij->i", frames, frames) / _FRAME_SAMPLES
            self._quietest.append(float(powers.min()))
            voiced = np.flatnonzero(powers > max(_QUIET, _ABOVE_NOISE * min(self._quietest)))
            if len(voiced) >= _MIN_VOICED_FRAMES:
                after = len(samples) - (int(voiced[-1]) + 1) * _FRAME_SAMPLES
                self._silence_ms = after * 1000 / INPUT_RATE
        return self._silence_ms


class ResponseTimer:
    """Finds the units in which an answer to the user begins to be heard.

    What the user says while the model speaks counts only if the model stops for it: an echo of the
    model's voice is no question.
    """

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._in_answer = False

    def reset(self) -> None:
        """Forget what the user said, as in a pause."""
        self._asked_at, self._in_answer = None, False

    def add(
        self, result: UnitResult, arrived_at: float, silence_ms: float, length_ms: float
    ) -> float | None:
        """Add a unit of `length_ms` that had arrived at `arrived_at` and ends with `silence_ms` of silence.

        If its result is the first audio of an answer: when the user stopped speaking, by the same clock.
        """
        spoke = silence_ms < length_ms
        if spoke and (result.is_listen or not self._in_answer):
            self._asked_at = arrived_at - silence_ms
        begins = len(result.audio) > 0 and not (result.is_listen or self._in_answer)
        self._in_answer = (begins or self._in_answer) and not (
            result.is_listen or result.end_of_turn
        )
        if not begins:
            return None
        asked_at, self._asked_at = self._asked_at, None
        answers = asked_at is not None and arrived_at - asked_at <= _LONGEST_S * 1000
        return asked_at if answers else None
