"""When an utterance begins and ends: pure policy over frame probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from antiphon.inference_worker.engines.common.silero import STEP_MS

SPEECH_LEVEL = 0.5
SILENCE_LEVEL = 0.35
"""Between the two levels a frame continues whatever was going on."""

MIN_SPEECH_MS = 224.0
MIN_SPEECH_FLOOR_MS = 96.0
END_SILENCE_FLOOR_MS = 192.0

_LIKELY_SILENCE_MS = 128.0
"""Longer than the closure before any consonant."""

BARGE_IN_MS = 224.0
"""Voiced time after which the user is talking, not coughing; no setting makes it longer."""


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """Silence that ends an utterance, and voiced time that an utterance worth an answer has."""

    end_silence_ms: float
    min_speech_ms: float

    @classmethod
    def scaled(cls, end_silence_ms: float, listen_prob_scale: float) -> Self:
        """Both durations times `listen_prob_scale`, so a reluctant engine waits longer.

        At 0.5 it answers after half the silence, at 2 after twice; at 100 it would take 48 s of
        silence after 22 s of speech, which is as good as never. Floors keep 0 usable.
        """
        return cls(
            max(END_SILENCE_FLOOR_MS, end_silence_ms * listen_prob_scale),
            max(MIN_SPEECH_FLOOR_MS, MIN_SPEECH_MS * listen_prob_scale),
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The end of a stretch of speech; `start` and `stop` are frame numbers, stop exclusive."""

    start: int
    stop: int
    is_utterance: bool


class EndpointDetector:
    """Follows one stream of frame probabilities."""

    def __init__(self, rules: EndpointRules) -> None:
        self._rules = rules
        self.frame = 0
        self.start: int | None = None
        self._stop = 0
        self._voiced = 0

    @property
    def voiced_ms(self) -> float:
        """Voiced time of the speech that is going on, 0 in silence."""
        return self._voiced * STEP_MS if self.start is not None else 0.0

    @property
    def pause_frames(self) -> int:
        """Frames since the last voiced one, while speech is going on."""
        return self.frame - self._stop if self.start is not None else 0

    @property
    def likely(self) -> Endpoint | None:
        """The utterance that will have ended if the silence goes on, once there is some."""
        if self.pause_frames * STEP_MS < _LIKELY_SILENCE_MS:
            return None
        endpoint = self._endpoint()
        return endpoint if endpoint is not None and endpoint.is_utterance else None

    def feed(self, probability: float) -> Endpoint | None:
        """Take one frame; returns the endpoint that it completes, if any."""
        index = self.frame
        self.frame += 1
        if probability >= SPEECH_LEVEL:
            self._voice(index)
        elif self.start is not None and probability > SILENCE_LEVEL:
            self._stop = self.frame
        return self._ended()

    def _voice(self, index: int) -> None:
        if self.start is None:
            self.start, self._voiced = index, 0
        self._voiced += 1
        self._stop = index + 1

    def _ended(self) -> Endpoint | None:
        if self.pause_frames * STEP_MS < self._rules.end_silence_ms:
            return None
        endpoint = self._endpoint()
        self.start = None
        return endpoint

    def _endpoint(self) -> Endpoint | None:
        if self.start is None:
            return None
        long_enough = self.voiced_ms >= self._rules.min_speech_ms
        return Endpoint(self.start, self._stop, is_utterance=long_enough)
