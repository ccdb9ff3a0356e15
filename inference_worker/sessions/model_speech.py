"""Full duplex in time: what the user hears of the model, and when the user stopped speaking."""

from collections import deque
from dataclasses import replace

import numpy as np

from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.unit_result import UnitResult


class ModelSpeech:
    """Follows the results of one session, in the time of its input.

    A client plays a unit when it arrives, so playback ends a unit later than the speech.
    """

    def __init__(self) -> None:
        self.interrupted = False
        """The newest result cut an answer."""
        self._in_turn = False
        self._now_ms = 0.0
        self._played_until_ms = 0.0
        self._held: list[UnitResult] = []

    @property
    def is_playing(self) -> bool:
        return self._in_turn or self._now_ms < self._played_until_ms

    def resume(self, last: PastUnit, now_ms: float) -> None:
        """Another worker ran the units before."""
        self._in_turn, self._now_ms = not (last.is_listen or last.end_of_turn), now_ms

    def add(
        self, result: UnitResult, now_ms: float, *, forced: bool = False, holds: bool = False
    ) -> UnitResult:
        """The result to publish for the unit that ends at `now_ms` of the input.

        `forced`: the user or the client made the model listen. With `holds`, what the model says waits for
        the next unit: the user may be about to speak.
        """
        cut = self._in_turn or (forced and self.is_playing)
        self._now_ms = now_ms
        self.interrupted = result.is_listen and cut
        self._in_turn = not (result.is_listen or result.end_of_turn)
        if result.is_listen:
            self._held.clear()
            if self.interrupted:
                self._played_until_ms = now_ms
            return result
        if holds and self._in_turn:
            self._held.append(result)
            return replace(result, text="", audio=SILENCE)
        result = self._with_held(result)
        begins_ms = max(now_ms, self._played_until_ms)
        self._played_until_ms = begins_ms + len(result.audio) * 1000 / OUTPUT_RATE
        return result

    def _with_held(self, result: UnitResult) -> UnitResult:
        held, self._held = self._held, []
        if not held:
            return result
        units = (*held, result)
        audio = np.concatenate([unit.audio for unit in units])
        return replace(result, text="".join(unit.text for unit in units), audio=audio)


_FRAME_SAMPLES = INPUT_RATE // 50
_QUIET = 1e-5
"""A power of -50 dBFS: nothing below it is a voice."""
_ABOVE_NOISE = 16.0
"""12 dB above the quietest frame of the last _NOISE_SAMPLES."""
_NOISE_SAMPLES = 5 * INPUT_RATE
_MIN_VOICED_FRAMES = 3
"""Fewer loud frames in a unit are a click."""
_LONGEST_S = 30.0
"""The model spoke by itself if the user has been silent for longer."""


class VoiceLevel:
    """Finds the end of a voice by its level, for engines that do not detect speech.

    It takes every sound above the noise for a voice.
    """

    def __init__(self) -> None:
        self._quietest: deque[tuple[int, float]] = deque()
        """The end of each unit, and the power of its quietest frame."""
        self._end = 0
        self._silence_ms = 0.0

    def feed(self, samples: Samples) -> float:
        """Add a unit of audio (16 kHz). How long there has been no voice at its end, in ms."""
        count = len(samples) // _FRAME_SAMPLES
        self._silence_ms += len(samples) * 1000 / INPUT_RATE
        if count:
            frames = samples[: count * _FRAME_SAMPLES].reshape(count, _FRAME_SAMPLES)
            powers = np.einsum("ij,ij->i", frames, frames) / _FRAME_SAMPLES
            self._end += len(samples)
            self._quietest.append((self._end, float(powers.min())))
            while self._quietest[0][0] <= self._end - _NOISE_SAMPLES:
                self._quietest.popleft()
            noise = min(power for _, power in self._quietest)
            voiced = np.flatnonzero(powers > max(_QUIET, _ABOVE_NOISE * noise))
            if len(voiced) >= _MIN_VOICED_FRAMES:
                after = len(samples) - (int(voiced[-1]) + 1) * _FRAME_SAMPLES
                self._silence_ms = after * 1000 / INPUT_RATE
        return self._silence_ms


class ResponseTimer:
    """Finds the units in which an answer to the user begins to sound.

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
