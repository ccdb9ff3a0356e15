"""Turns a stream of audio into what the user said and when: detector, endpoint, recogniser."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_MS, STEP_SAMPLES, SpeechDetector
from antiphon.inference_worker.engines.local.asr import Recogniser
from antiphon.inference_worker.engines.local.endpoint import (
    Endpoint,
    EndpointDetector,
    EndpointRules,
)
from antiphon.shared_schemas.audio import SILENCE, Samples

_PRE_ROLL = 6
"""Frames kept before the first voiced one: the detector is late on soft consonants."""

_POST_ROLL = 1
"""More silence than this on either side makes the recogniser worse."""

_SEGMENT_PAUSE = 6
_SEGMENT_MIN = round(5_000 / STEP_MS)
_SEGMENT_MAX = round(14_000 / STEP_MS)
"""A long utterance is transcribed piece by piece while it lasts: at a pause of _SEGMENT_PAUSE
frames once a piece has _SEGMENT_MIN, and at _SEGMENT_MAX anyway."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one unit of audio brought.

    `text` holds the utterances that ended in it, "" if none did; the last was recognised as ended
    `until` samples into the audio. `voiced_ms` is the longest speech it found going on, and
    `talking_ms` the speech still going on at its end.
    """

    text: str
    until: int
    voiced_ms: float
    talking_ms: float


@dataclass(slots=True)
class _Tape:
    """The audio that may still be needed, addressed by frame number."""

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


class Ear:
    """One session's hearing."""

    def __init__(self, recogniser: Recogniser, rules: EndpointRules) -> None:
        self._recogniser = recogniser
        self._detector = SpeechDetector()
        self._endpoints = EndpointDetector(rules)
        self._tape = _Tape()
        self._fed_samples = 0
        self._pieces: list[str] = []
        self._piece_start: int | None = None
        self._last_read: tuple[Endpoint, str] | None = None

    def feed(self, audio: Samples) -> Heard:
        """Hear `audio` (16 kHz, any length), which follows all audio fed before."""
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
        return Heard(" ".join(texts), until, voiced_ms, self._endpoints.voiced_ms)

    def likely_utterance(self) -> str:
        """What the user will have said if they go on saying nothing; "" while they talk.

        The recogniser's work for it is not done again when the utterance has really ended.
        """
        endpoint = self._endpoints.likely
        return self._read(endpoint) if endpoint is not None else ""

    def _utterance(self, endpoint: Endpoint) -> str:
        """The text of the utterance that ended; "" for a noise or words nobody can make out."""
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
