"""Detects utterances: in speech probabilities, and in the audio of a half-duplex session."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES, SileroStream
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import VadConfig

WINDOW_SAMPLES = 2 * STEP_SAMPLES
"""Clients set `vad.threshold` for windows of 1024 samples. The network scores each half, and the
window has the higher score, so that silence in one half does not hide a syllable in the other."""

WINDOW_MS = WINDOW_SAMPLES * 1000 / INPUT_RATE
HYSTERESIS = 0.15
LEAST_LEVEL = 0.01
"""The network scores silence after speech lower."""
SHORTEST_PAUSE_MS = 192.0
"""Silence in half duplex after which an utterance may end early."""

MAX_UTTERANCE_S = 60.0
"""A longer utterance is ended at this length, as if the user had paused."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user speaks since this sample of the stream."""

    sample: int


@dataclass(frozen=True, slots=True, eq=False)
class SpeechEnded:
    """An utterance is complete. `audio` includes the padding, `speech_ms` does not.

    It ended `silence_ms` before the end of the samples that were fed.
    """

    audio: Samples = field(repr=False)
    speech_ms: int
    silence_ms: int


VadEvent = SpeechStarted | SpeechEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """When speech begins, continues and ends in a stream of frames of `frame_ms` each.

    Speech begins at the probability `speech_level` and continues while it is at least
    `silence_level`. Frames of at least `voiced_level` are voiced. Speech ends after `end_silence_ms`
    or `max_ms`, and is an utterance if it has `min_speech_ms` of voiced frames.
    """

    frame_ms: float
    speech_level: float
    voiced_level: float
    silence_level: float
    end_silence_ms: float
    min_speech_ms: float
    max_ms: float = math.inf

    @classmethod
    def of(cls, config: VadConfig) -> Self:
        threshold = max(config.threshold, LEAST_LEVEL)
        level = max(threshold - HYSTERESIS, threshold / 2, LEAST_LEVEL)
        return cls(
            frame_ms=WINDOW_MS,
            speech_level=threshold,
            voiced_level=level,
            silence_level=level,
            end_silence_ms=config.min_silence_duration_ms,
            min_speech_ms=config.min_speech_duration_ms,
            max_ms=MAX_UTTERANCE_S * 1000,
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The end of a speech segment. `start` and `stop` are frame numbers, `stop` is exclusive."""

    start: int
    stop: int
    is_utterance: bool


class EndpointDetector:
    """Finds utterances in one stream of frame probabilities."""

    def __init__(self, rules: EndpointRules) -> None:
        self._rules = rules
        self.longest_silence_ms = rules.end_silence_ms
        """Ends an utterance. `end_silence_ms` of the rules ends speech that is too short for one."""
        self.reset()

    def reset(self) -> None:
        """Start a new stream; frame numbers begin at 0."""
        self.frame = 0
        self.start: int | None = None
        self.is_utterance = False
        """True if the current speech is long enough."""
        self._stop = 0
        self._voiced = 0

    @property
    def voiced_ms(self) -> float:
        """Voiced time of the current speech, 0 in silence."""
        return self._voiced * self._rules.frame_ms if self.start is not None else 0.0

    @property
    def pause_frames(self) -> int:
        """Frames since the last one with speech, 0 in silence."""
        return self.frame - self._stop if self.start is not None else 0

    @property
    def pause_ms(self) -> float:
        return self.pause_frames * self._rules.frame_ms

    @property
    def silent_frames(self) -> int:
        """Frames since the last one with speech, or since the start of the stream."""
        return self.frame - self._stop

    def utterance_after(self, pause_ms: float) -> Endpoint | None:
        """The utterance that ends here if the current silence, at least `pause_ms` long, continues."""
        if self.start is None or self.pause_ms < pause_ms:
            return None
        return Endpoint(self.start, self._stop, is_utterance=True) if self.is_utterance else None

    def feed(self, probability: float) -> Endpoint | None:
        """Add one frame; returns the endpoint that it completes."""
        rules = self._rules
        self.frame += 1
        if self.start is None:
            if probability < rules.speech_level:
                return None
            self.start, self._voiced = self.frame - 1, 0
        if probability >= rules.silence_level:
            self._stop = self.frame
        self._voiced += probability >= rules.voiced_level
        too_long = (self.frame - self.start) * rules.frame_ms >= rules.max_ms
        silence_ms = self.longest_silence_ms if self.is_utterance else rules.end_silence_ms
        if too_long or self.pause_ms >= silence_ms:
            return self._end(self.start)
        self.is_utterance = self.voiced_ms >= rules.min_speech_ms
        return None

    def end_after(self, silence_ms: float) -> Endpoint | None:
        """End the utterance if the current silence has this length."""
        if self.utterance_after(silence_ms) is None or self.start is None:
            return None
        return self._end(self.start)

    def _end(self, start: int) -> Endpoint:
        endpoint = Endpoint(start, self._stop, self.is_utterance)
        self.start, self.is_utterance = None, False
        return endpoint


@dataclass(slots=True)
class AudioBuffer:
    """The end of a stream of audio, addressed by the sample numbers of the stream."""

    start: int = 0
    samples: Samples = field(default_factory=lambda: SILENCE, repr=False)

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)

    def append(self, audio: Samples) -> None:
        self.samples = np.concatenate([self.samples, audio])

    def cut(self, start: int, stop: int) -> Samples:
        return self.samples[max(0, start - self.start) : max(0, stop - self.start)]

    def forget_before(self, sample: int) -> None:
        if sample > self.start:
            self.samples = self.samples[sample - self.start :]
            self.start = sample


class StreamingVAD:
    """Turns one audio stream into speech events. It stores at most MAX_UTTERANCE_S of audio.

    Speech is announced when it is long enough to be an utterance; shorter speech is ignored as noise.
    """

    def __init__(
        self,
        config: VadConfig,
        probability: Callable[[Samples], float] | None = None,
        longest: float = 1.0,
    ) -> None:
        """`probability` replaces the network; it scores STEP_SAMPLES samples.

        The silence that ends an utterance is `longest` times that of `config`, and `end_early` may end it
        before. A silence below SHORTEST_PAUSE_MS is taken as it is.
        """
        self._rules = EndpointRules.of(config)
        self._detector = EndpointDetector(self._rules)
        if self._rules.end_silence_ms >= SHORTEST_PAUSE_MS:
            self._detector.longest_silence_ms *= longest
        self._silero = SileroStream()
        self._step = probability or self._silero.step
        self._pad = config.speech_pad_ms * INPUT_RATE // 1000
        self.reset()

    def reset(self) -> None:
        """Start a new stream; sample numbers begin at 0."""
        self._detector.reset()
        self._silero.reset()
        self._buffer = AudioBuffer()

    def feed(self, samples: Samples) -> list[VadEvent]:
        """Add any number of samples at 16 kHz; returns the events in them."""
        self._buffer.append(samples)
        events: list[VadEvent] = []
        while self._buffer.stop >= self._now + WINDOW_SAMPLES:
            if event := self._window():
                events.append(event)
            start = self._detector.start
            needed = self._now if start is None else start * WINDOW_SAMPLES
            self._buffer.forget_before(needed - self._pad)
        return events

    def speech_so_far(self) -> tuple[int, Samples]:
        """The utterance that continues, and the sample of the stream at which it begins; empty if none does."""
        endpoint = self._detector.utterance_after(0.0)
        if endpoint is None:
            return self._now, SILENCE
        begin, stop = endpoint.start * WINDOW_SAMPLES, endpoint.stop * WINDOW_SAMPLES
        return begin, self._buffer.cut(begin - self._pad, stop + self._pad)

    def paused(self) -> tuple[Endpoint, Samples] | None:
        """The utterance that ends if the current silence continues, after SHORTEST_PAUSE_MS; with its audio."""
        endpoint = self._detector.utterance_after(SHORTEST_PAUSE_MS)
        return (endpoint, self._audio(endpoint)) if endpoint is not None else None

    def end_early(self, patience: float) -> SpeechEnded | None:
        """End the utterance if the silence is `patience` times that of the configuration."""
        silence_ms = max(SHORTEST_PAUSE_MS, self._rules.end_silence_ms * patience)
        endpoint = self._detector.end_after(silence_ms)
        return self._utterance(endpoint) if endpoint is not None else None

    @property
    def _now(self) -> int:
        return self._detector.frame * WINDOW_SAMPLES

    def _window(self) -> VadEvent | None:
        detector, announced = self._detector, self._detector.is_utterance
        halves = self._buffer.cut(self._now, self._now + WINDOW_SAMPLES).reshape(2, STEP_SAMPLES)
        endpoint = detector.feed(max(self._step(half) for half in halves))
        if endpoint is not None:
            return self._utterance(endpoint) if endpoint.is_utterance else None
        if detector.is_utterance and not announced and detector.start is not None:
            return SpeechStarted(detector.start * WINDOW_SAMPLES)
        return None

    def _utterance(self, endpoint: Endpoint) -> SpeechEnded:
        start, stop = endpoint.start * WINDOW_SAMPLES, endpoint.stop * WINDOW_SAMPLES
        speech_ms = round((stop - start) * 1000 / INPUT_RATE)
        silence_ms = round((self._buffer.stop - stop) * 1000 / INPUT_RATE)
        return SpeechEnded(self._audio(endpoint), speech_ms, silence_ms)

    def _audio(self, endpoint: Endpoint) -> Samples:
        start, stop = endpoint.start * WINDOW_SAMPLES, endpoint.stop * WINDOW_SAMPLES
        return self._buffer.cut(start - self._pad, stop + self._pad).copy()
