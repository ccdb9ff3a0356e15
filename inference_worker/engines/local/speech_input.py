"""Turns a session's audio into the text that the user said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_MS, STEP_SAMPLES, SpeechDetector
from antiphon.inference_worker.engines.local.transcription import Recogniser
from antiphon.shared_schemas.audio import SILENCE, Samples

SPEECH_LEVEL = 0.5
SILENCE_LEVEL = 0.35
"""A frame between the two levels does not change the state."""

MIN_SPEECH_MS = 224.0
MIN_SPEECH_FLOOR_MS = 96.0
END_SILENCE_FLOOR_MS = 192.0

_LIKELY_SILENCE_MS = 128.0
"""Longer than the silence before any plosive consonant."""

BARGE_IN_MS = 224.0
"""Voiced time after which the input counts as speech that interrupts. Independent of settings."""


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """The silence that ends an utterance, and the minimum voiced time of an utterance."""

    end_silence_ms: float
    min_speech_ms: float

    @classmethod
    def scaled(cls, end_silence_ms: float, listen_prob_scale: float) -> Self:
        """Both durations times `listen_prob_scale`, with minimums so that 0 is usable.

        At 0.5 the engine answers after half the silence, at 2 after twice. At 100 it needs 48 s of
        silence after 22 s of speech, so it practically never answers.
        """
        return cls(
            max(END_SILENCE_FLOOR_MS, end_silence_ms * listen_prob_scale),
            max(MIN_SPEECH_FLOOR_MS, MIN_SPEECH_MS * listen_prob_scale),
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
        self.frame = 0
        self.start: int | None = None
        self._stop = 0
        self._voiced = 0

    @property
    def voiced_ms(self) -> float:
        """Voiced time of the current speech, 0 in silence."""
        return self._voiced * STEP_MS if self.start is not None else 0.0

    @property
    def pause_frames(self) -> int:
        """Frames since the last voiced one during speech, 0 in silence."""
        return self.frame - self._stop if self.start is not None else 0

    @property
    def likely(self) -> Endpoint | None:
        """The utterance that will end here if the current silence continues."""
        if self.pause_frames * STEP_MS < _LIKELY_SILENCE_MS:
            return None
        endpoint = self._endpoint()
        return endpoint if endpoint is not None and endpoint.is_utterance else None

    def feed(self, probability: float) -> Endpoint | None:
        """Add one frame; returns the endpoint that it completes."""
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


_PRE_ROLL = 6
"""Frames to keep before the first voiced one: the detector is late for soft consonants."""

_POST_ROLL = 1
"""More silence than this on either side makes the recogniser worse."""

_SEGMENT_PAUSE = 6
_SEGMENT_MIN = round(5_000 / STEP_MS)
_SEGMENT_MAX = round(14_000 / STEP_MS)
"""A long utterance is transcribed in pieces while it continues. A piece ends at a pause of
_SEGMENT_PAUSE frames if it has _SEGMENT_MIN frames, and always at _SEGMENT_MAX."""


@dataclass(frozen=True, slots=True)
class UnitTranscription:
    """The speech in one unit of audio.

    `text` has the utterances that ended in the unit, empty if none did. The end of the last one was
    detected `until` samples into the unit. `voiced_ms` is the longest voiced time in the unit,
    `talking_ms` the voiced time of the speech that continues at its end.
    """

    text: str
    until: int
    voiced_ms: float
    talking_ms: float


@dataclass(slots=True)
class _Tape:
    """The audio that may still be transcribed, addressed by frame number."""

    first_frame: int = 0
    samples: Samples = field(default_factory=lambda: SILENCE)

    def append(self, audio: Samples) -> None:
        self.samples = np.concatenate([self.samples, audio])

    def cut(self, start: int, stop: int) -> Samples:
        begin = max(0, start - self.first_frame) * STEP_SAMPLES
        return self.samples[begin : max(0, stop - self.first_frame) * STEP_SAMPLES]

    def forget_before(self, frame: int) -> None:
        if frame > self.first_frame:
            self.samples = self.samples[(frame - self.first_frame) * STEP_SAMPLES :]
            self.first_frame = frame


class SpeechInput:
    """Detects and transcribes the utterances of one session."""

    def __init__(self, recogniser: Recogniser, rules: EndpointRules) -> None:
        self._recogniser = recogniser
        self._detector = SpeechDetector()
        self._endpoints = EndpointDetector(rules)
        self._tape = _Tape()
        self._fed_samples = 0
        self._pieces: list[str] = []
        self._piece_start: int | None = None
        self._last_read: tuple[Endpoint, str] | None = None

    def feed(self, audio: Samples) -> UnitTranscription:
        """Add `audio` (16 kHz, any length)."""
        self._tape.append(audio)
        texts: list[str] = []
        until, voiced_ms = 0, 0.0
        for probability in self._detector.feed(audio):
            endpoint = self._endpoints.feed(probability)
            voiced_ms = max(voiced_ms, self._endpoints.voiced_ms)
            if endpoint is None:
                self._cut_piece()
            elif text := self._utterance(endpoint):
                texts.append(text)
                until = self._endpoints.frame * STEP_SAMPLES - self._fed_samples
        self._fed_samples += len(audio)
        self._forget()
        return UnitTranscription(" ".join(texts), until, voiced_ms, self._endpoints.voiced_ms)

    def likely_utterance(self) -> str:
        """The text of the utterance that ends if the silence continues; empty during speech.

        The transcription is reused if the utterance really ends there.
        """
        endpoint = self._endpoints.likely
        return self._read(endpoint) if endpoint is not None else ""

    def _utterance(self, endpoint: Endpoint) -> str:
        """The text of the utterance that ended; empty for noise or unintelligible words."""
        text = self._read(endpoint) if endpoint.is_utterance else ""
        self._pieces, self._piece_start = [], None
        return text

    def _read(self, endpoint: Endpoint) -> str:
        if self._last_read is None or self._last_read[0] != endpoint:
            self._last_read = (endpoint, self._recognise(endpoint))
        return self._last_read[1]

    def _recognise(self, endpoint: Endpoint) -> str:
        pieces, start = list(self._pieces), self._piece_start
        if start is None:
            start = endpoint.start - _PRE_ROLL
        if start < endpoint.stop:
            pieces.append(self._transcribe(start, endpoint.stop + _POST_ROLL))
        return " ".join(piece for piece in pieces if piece)

    def _cut_piece(self) -> None:
        if self._endpoints.start is None:
            return
        start = self._piece_start
        if start is None:
            start = self._endpoints.start - _PRE_ROLL
        now, pause, likely = (
            self._endpoints.frame,
            self._endpoints.pause_frames,
            self._endpoints.likely,
        )
        if likely and pause >= _SEGMENT_PAUSE and now - start >= _SEGMENT_MIN:
            self._pieces = [self._read(likely)]
        elif now - start >= _SEGMENT_MAX:
            self._pieces.append(self._transcribe(start, now - pause // 2))
        else:
            return
        self._piece_start = now

    def _transcribe(self, start: int, stop: int) -> str:
        return self._recogniser.transcribe(self._tape.cut(start, stop))

    def _forget(self) -> None:
        needed = self._endpoints.frame
        if self._piece_start is not None:
            needed = self._piece_start
        elif self._endpoints.start is not None:
            needed = self._endpoints.start
        self._tape.forget_before(needed - _PRE_ROLL)
