"""Detects the utterances of a half-duplex session from speech probabilities and a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES, SileroStream
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import VadConfig

WINDOW_SAMPLES = 2 * STEP_SAMPLES
"""The window of the API document. The network scores each half, and the window has the higher score,
so that silence in one half does not hide a syllable in the other."""

WINDOW_MS = WINDOW_SAMPLES * 1000 / INPUT_RATE
HYSTERESIS = 0.15
MAX_UTTERANCE_S = 60.0
"""A longer utterance is ended at this length, as if the user had paused."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user speaks since this sample of the stream."""

    sample: int


@dataclass(frozen=True, slots=True, eq=False)
class SpeechEnded:
    """An utterance is complete. `audio` includes the padding, `speech_ms` does not."""

    audio: Samples = field(repr=False)
    speech_ms: int


VadEvent = SpeechStarted | SpeechEnded


@dataclass(frozen=True, slots=True)
class Span:
    """An utterance in windows since the last reset; `stop` is exclusive."""

    start: int
    stop: int


class SpeechPolicy:
    """Finds utterances in window probabilities.

    Speech begins at `threshold` and continues while the probability stays within HYSTERESIS of it.
    It is announced when its voiced windows reach `min_speech_duration_ms`; shorter speech is ignored
    as noise. It ends after `min_silence_duration_ms` without a voiced window.
    """

    def __init__(self, config: VadConfig) -> None:
        self._config = config
        self.reset()

    def reset(self) -> None:
        self.window = 0
        self.start: int | None = None
        self.announced = False
        self._stop = 0
        self._voiced = 0

    def feed(self, probability: float) -> Span | bool:
        """Add one window. Returns the utterance that it ends, or whether speech is announced at it."""
        index = self.window
        self.window += 1
        if self.start is None:
            if probability < self._config.threshold:
                return False
            self.start, self._voiced = index, 0
        if probability >= self._config.threshold - HYSTERESIS:
            self._stop = self.window
            self._voiced += 1
        return self._ended(self.start) or self._announce()

    def _announce(self) -> bool:
        enough = self._voiced * WINDOW_MS >= self._config.min_speech_duration_ms
        if self.start is None or self.announced or not enough:
            return False
        self.announced = True
        return True

    def _ended(self, start: int) -> Span | None:
        silence_ms = (self.window - self._stop) * WINDOW_MS
        too_long = (self.window - start) * WINDOW_SAMPLES >= MAX_UTTERANCE_S * INPUT_RATE
        if silence_ms < self._config.min_silence_duration_ms and not too_long:
            return None
        span = Span(start, self._stop) if self.announced else None
        self.start, self.announced = None, False
        return span


class StreamingVAD:
    """Turns one audio stream into speech events. It stores at most MAX_UTTERANCE_S of audio."""

    def __init__(
        self, config: VadConfig, probability: Callable[[Samples], float] | None = None
    ) -> None:
        """`probability` replaces the network; it scores STEP_SAMPLES samples."""
        self._policy = SpeechPolicy(config)
        self._silero = SileroStream()
        self._step = probability or self._silero.step
        self._pad = config.speech_pad_ms * INPUT_RATE // 1000
        self.reset()

    def reset(self) -> None:
        """Start a new stream; sample numbers begin at 0."""
        self._policy.reset()
        self._silero.reset()
        self._tape: Samples = SILENCE
        self._tape_start = 0

    def feed(self, samples: Samples) -> list[VadEvent]:
        """Add any number of samples at 16 kHz; returns the events in them."""
        self._tape = np.concatenate([self._tape, samples])
        events: list[VadEvent] = []
        while len(self._tape) >= self._now - self._tape_start + WINDOW_SAMPLES:
            if event := self._window():
                events.append(event)
            self._forget()
        return events

    @property
    def _now(self) -> int:
        return self._policy.window * WINDOW_SAMPLES

    def _window(self) -> VadEvent | None:
        begin = self._now - self._tape_start
        halves = self._tape[begin : begin + WINDOW_SAMPLES].reshape(2, STEP_SAMPLES)
        decision = self._policy.feed(max(self._step(half) for half in halves))
        if isinstance(decision, Span):
            return self._utterance(decision)
        if decision and self._policy.start is not None:
            return SpeechStarted(self._policy.start * WINDOW_SAMPLES)
        return None

    def _utterance(self, span: Span) -> SpeechEnded:
        start, stop = span.start * WINDOW_SAMPLES, span.stop * WINDOW_SAMPLES
        begin = max(0, start - self._pad - self._tape_start)
        audio = self._tape[begin : stop + self._pad - self._tape_start].copy()
        return SpeechEnded(audio, round((stop - start) * 1000 / INPUT_RATE))

    def _forget(self) -> None:
        start = self._policy.start
        needed = self._now if start is None else start * WINDOW_SAMPLES
        count = max(0, needed - self._pad - self._tape_start)
        self._tape = self._tape[count:]
        self._tape_start += count
