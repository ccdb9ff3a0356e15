"""The utterances in the audio of a full-duplex session, as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from antiphon.inference_worker.engines.common.endpointing import (
    AudioBuffer,
    Endpoint,
    EndpointDetector,
    EndpointRules,
)
from antiphon.inference_worker.engines.common.silero import STEP_MS, STEP_SAMPLES, SpeechDetector
from antiphon.inference_worker.engines.local.completeness import LATEST, NORMAL
from antiphon.inference_worker.engines.local.interim import InterimText
from antiphon.inference_worker.engines.local.transcription import SPEECH_LEVEL, Recogniser
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

SILENCE_LEVEL = 0.35
"""A frame between this and SPEECH_LEVEL continues speech but does not begin it."""

MIN_SPEECH_MS = 224.0
MIN_SPEECH_FLOOR_MS = 96.0
END_SILENCE_FLOOR_MS = 192.0

LIKELY_SILENCE_MS = 128.0
"""Longer than the silence before any plosive consonant."""

BARGE_IN_MS = 224.0
"""Clear voice after which the input counts as speech that interrupts. Independent of settings."""

CLEAR_LEVEL = 0.85
"""A frame of a clear voice. Few coughs have BARGE_IN_MS of them. Words are no evidence: the recogniser
finds some in every cough."""

FILLERS = frozenset(
    (
        "ah",
        "hm",
        "hmm",
        "huh",
        "mhm",
        "mm",
        "mm-h",
        "mm-hmm",
        "oh",
        "uh",
        "uh-hu",
        "uh-huh",
        "um",
        "you",
    )
)
"""What the recogniser most often finds in coughs and in noise."""

LONG_VOICE_MS = 800.0
"""Voiced time after which the input interrupts although it is not clear, as in noise."""


def endpoint_rules(end_silence_ms: float, listen_prob_scale: float) -> EndpointRules:
    """Both durations times `listen_prob_scale`, with minimums so that 0 is usable.

    At 0.5 the engine answers after half the silence, at 2 after twice. At 100 it needs 48 s of
    silence after 22 s of speech, so it practically never answers.
    """
    return EndpointRules(
        frame_ms=STEP_MS,
        speech_level=SPEECH_LEVEL,
        voiced_level=SPEECH_LEVEL,
        silence_level=SILENCE_LEVEL,
        end_silence_ms=max(END_SILENCE_FLOOR_MS, end_silence_ms * listen_prob_scale),
        min_speech_ms=max(MIN_SPEECH_FLOOR_MS, MIN_SPEECH_MS * listen_prob_scale),
    )


_PRE_ROLL = 6
"""Frames to keep before the first voiced one: the detector is late for soft consonants."""

_POST_ROLL = 1
"""Frames to keep after the last voiced one. The recogniser adds silence to both ends."""

_SEGMENT_PAUSE = 6
_SEGMENT_MIN = round(5_000 / STEP_MS)
_SEGMENT_MAX = round(14_000 / STEP_MS)
"""A long utterance is transcribed in pieces while it continues. A piece ends at a pause of
_SEGMENT_PAUSE frames if it has _SEGMENT_MIN frames, and always at _SEGMENT_MAX."""


@dataclass(frozen=True, slots=True)
class UnitTranscription:
    """The speech in one unit of audio.

    `text` has the utterances that ended in the unit, empty if none did. The end of the last one was
    detected `until` samples into the unit. `voiced_ms` is the longest voiced time in the unit and
    `clear_ms` the longest time of a clear voice, `talking_ms` the voiced time of the speech that
    continues at its end.
    """

    text: str
    until: int
    voiced_ms: float
    clear_ms: float
    talking_ms: float

    @property
    def interrupts(self) -> bool:
        return self.clear_ms >= BARGE_IN_MS or self.voiced_ms >= LONG_VOICE_MS

    @property
    def is_noise(self) -> bool:
        """Whether the utterances are probably coughs: only fillers, without a clear voice."""
        words = re.findall(r"[\w'-]+", self.text.lower())
        return not self.interrupts and bool(words) and FILLERS.issuperset(words)


class SpeechInput:
    """Detects and transcribes the utterances of one session."""

    def __init__(
        self, recogniser: Recogniser, rules: EndpointRules, pool: Executor | None = None
    ) -> None:
        """`pool` makes interim texts."""
        self._recogniser = recogniser
        self._detector = SpeechDetector()
        self._endpoints = EndpointDetector(rules)
        self._end_silence_ms = rules.end_silence_ms
        self._buffer = AudioBuffer()
        self._fed_samples = 0
        self._pieces: list[str] = []
        self._piece_start: int | None = None
        self._last_read: tuple[Endpoint, str] | None = None
        self._patience: tuple[Endpoint, float] | None = None
        self._clear_frames = 0
        self._interim = InterimText(recogniser, pool)

    def feed(
        self, audio: Samples, patience: Callable[[str], float] | None = None
    ) -> UnitTranscription:
        """Add `audio` (16 kHz, any length).

        `patience` says by which factor the silence after a text must be longer than usual, at most
        LATEST. It is asked once per silence, at the end of `audio`: nothing can be answered before.
        """
        longest = LATEST if patience else NORMAL
        self._endpoints.longest_silence_ms = self._end_silence_ms * longest
        self._buffer.append(audio)
        texts: list[str] = []
        until, voiced_ms, clear_ms = 0, 0.0, 0.0
        for probability in self._detector.feed(audio):
            endpoint = self._endpoints.feed(probability)
            in_speech = self._endpoints.start is not None
            self._clear_frames += in_speech and probability >= CLEAR_LEVEL
            voiced_ms = max(voiced_ms, self._endpoints.voiced_ms)
            clear_ms = max(clear_ms, self._clear_frames * STEP_MS)
            if endpoint is None:
                self._cut_piece()
            elif text := self._utterance(endpoint):
                texts.append(text)
                until = self._endpoints.frame * STEP_SAMPLES - self._fed_samples
            if not in_speech:
                self._clear_frames = 0
        if patience and (text := self._end_early(patience)):
            texts.append(text)
            until = self._endpoints.frame * STEP_SAMPLES - self._fed_samples
        self._fed_samples += len(audio)
        self._forget()
        talking_ms = self._endpoints.voiced_ms
        return UnitTranscription(" ".join(texts), until, voiced_ms, clear_ms, talking_ms)

    @property
    def silence_ms(self) -> float:
        """How long the user had been silent at the end of the audio that was fed."""
        unread = self._fed_samples - self._endpoints.frame * STEP_SAMPLES
        return self._endpoints.silent_frames * STEP_MS + unread * 1000 / INPUT_RATE

    def likely_utterance(self) -> str:
        """The text of the utterance that ends if the silence continues.

        Empty during speech, and in the middle of a sentence. The transcription is reused if the utterance
        really ends there.
        """
        endpoint = self._endpoints.utterance_after(LIKELY_SILENCE_MS)
        if endpoint is None or (self._patience == (endpoint, LATEST)):
            return ""
        return self._read(endpoint)

    def words_so_far(self, patience_s: float = 0.0) -> str:
        """What the user has said of the utterance that continues; empty if none does.

        The newest words may be missing (see InterimText).
        """
        endpoint = self._endpoints.utterance_after(0.0)
        if endpoint is None:
            return ""
        return self._after_pieces(self._interim.read(*self._open_speech(endpoint), patience_s))

    def _end_early(self, patience: Callable[[str], float]) -> str:
        """The text of an utterance after which the user has been silent long enough; empty for none."""
        likely = self._endpoints.utterance_after(LIKELY_SILENCE_MS)
        if likely is None:
            return ""
        if self._patience is None or self._patience[0] != likely:
            clear_ms = self._clear_frames * STEP_MS
            said = UnitTranscription(
                self._read(likely), 0, self._endpoints.voiced_ms, clear_ms, 0.0
            )
            counts = said.text and not said.is_noise
            self._patience = (likely, patience(said.text) if counts else NORMAL)
        silence_ms = max(END_SILENCE_FLOOR_MS, self._end_silence_ms * self._patience[1])
        if self._endpoints.end_after(silence_ms) is None:
            return ""
        self._clear_frames = 0
        return self._utterance(likely)

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
        begin, speech = self._open_speech(endpoint)
        text = self._recogniser.transcribe(speech) if len(speech) else ""
        self._interim.learn(begin, speech, text)
        return self._after_pieces(text)

    def _open_speech(self, endpoint: Endpoint) -> tuple[int, Samples]:
        """The speech after the pieces that were transcribed, with the sample at which it begins."""
        start = self._piece_start
        if start is None:
            start = endpoint.start - _PRE_ROLL
        stop = endpoint.stop + _POST_ROLL if start < endpoint.stop else start
        return start * STEP_SAMPLES, self._cut(start, stop)

    def _after_pieces(self, text: str) -> str:
        return " ".join(piece for piece in (*self._pieces, text) if piece)

    def _cut_piece(self) -> None:
        if self._endpoints.start is None:
            return
        now, pause = self._endpoints.frame, self._endpoints.pause_frames
        start = self._piece_start
        if start is None:
            start = self._endpoints.start - _PRE_ROLL
        elif now - pause <= start:  # the pause before the piece continues
            start = self._piece_start = max(start, now - _PRE_ROLL)
        likely = self._endpoints.utterance_after(LIKELY_SILENCE_MS)
        if likely and pause >= _SEGMENT_PAUSE and now - start >= _SEGMENT_MIN:
            self._pieces = [self._read(likely)]
        elif now - start >= _SEGMENT_MAX:
            self._pieces.append(self._recogniser.transcribe(self._cut(start, now - pause // 2)))
        else:
            return
        self._piece_start = now

    def _cut(self, start: int, stop: int) -> Samples:
        """The audio of these frames."""
        return self._buffer.cut(start * STEP_SAMPLES, stop * STEP_SAMPLES)

    def _forget(self) -> None:
        needed = self._endpoints.frame
        if self._piece_start is not None:
            needed = self._piece_start
        elif self._endpoints.start is not None:
            needed = self._endpoints.start
        self._buffer.forget_before((needed - _PRE_ROLL) * STEP_SAMPLES)
