"""When the user of a half-duplex session speaks, and what: a network's probabilities and a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from antiphon.inference_worker.session.silero import STEP_SAMPLES, SileroStream
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import VadConfig

WINDOW_SAMPLES = 2 * STEP_SAMPLES
"""The document's window. The network looks at each half; the window counts as its louder half, so
that a syllable which fills only one of them is not diluted by the silence in the other."""

WINDOW_MS = WINDOW_SAMPLES * 1000 / INPUT_RATE
HYSTERESIS = 0.15
MAX_UTTERANCE_S = 60.0
"""An utterance that lasts longer is ended here, as if the user had paused."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Enough speech was heard to count; it began at this sample of the stream."""

    sample: int


@dataclass(frozen=True, slots=True, eq=False)
class SpeechEnded:
    """An utterance is over. `audio` holds it with its padding, `speech_ms` is its length without."""

    audio: Samples = field(repr=False)
    speech_ms: int


VadEvent = SpeechStarted | SpeechEnded


@dataclass(frozen=True, slots=True)
class Span:
    """An utterance in windows since the last reset, `stop` exclusive."""

    start: int
    stop: int


class SpeechPolicy:
    """Decides over window probabilities; knows neither audio nor network.

    Speech begins at `threshold` and goes on down to HYSTERESIS below it. It is announced once its
    voiced windows make `min_speech_duration_ms`; what stays shorter is noise and never told. It
    ends after `min_silence_duration_ms` without a voiced window.
    """

    def __init__(self, config: VadConfig) -> None:
        self._config = config
        self.reset()

    def reset(self) -> None:
        """Begin a new stream in silence."""
        self.window = 0
        self.start: int | None = None
        self.announced = False
        self._stop = 0
        self._voiced = 0

    def feed(self, probability: float) -> Span | bool:
        """Take one window: the utterance it ends, or whether speech is to be announced at it."""
        index = self.window
        self.window += 1
        if self.start is None:
            if probability < self._config.threshold:
                return False
            self.start, self._voiced = index, 0
        if probability >= self._config.threshold - HYSTERESIS:
            self._stop = self.window
            self._voiced += 1
        return self._ended(self.start) or self._is_news()

    def _is_news(self) -> bool:
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
    """One stream's detector: audio in, speech events out. Its audio is bounded by MAX_UTTERANCE_S."""

    def __init__(
        self, config: VadConfig, probability: Callable[[Samples], float] | None = None
    ) -> None:
        """`probability` replaces the network: speech probability of STEP_SAMPLES samples."""
        self._policy = SpeechPolicy(config)
        self._silero = SileroStream() if probability is None else None
        self._step = probability or self._network_step
        self._pad = config.speech_pad_ms * INPUT_RATE // 1000
        self.reset()

    def reset(self) -> None:
        """Forget everything heard; sample numbers begin at 0 again."""
        self._policy.reset()
        if self._silero is not None:
            self._silero.reset()
        self._tape: Samples = SILENCE
        self._tape_start = 0

    def feed(self, samples: Samples) -> list[VadEvent]:
        """Hear `samples` (16 kHz, any number), which follow those fed before; what came of it."""
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
        told = self._policy.feed(max(self._step(half) for half in halves))
        if isinstance(told, Span):
            return self._utterance(told)
        if told and self._policy.start is not None:
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

    def _network_step(self, samples: Samples) -> float:
        assert self._silero is not None
        return self._silero.step(samples)
