"""What the user says, as text: one network for all sessions.

The text is corrected where the recogniser writes old spellings, other words for numbers, or loops.
The recogniser does not tell when a word was said, so the times of words are estimates.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.barge_in import SPEECH_LEVEL, Words
from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES, SileroStream
from antiphon.inference_worker.engines.local.chinese.script import continuation
from antiphon.inference_worker.engines.local.hearing.moonshine import WIDTH, Moonshine
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.whisper import Whisper
from antiphon.inference_worker.engines.local.spoken_text.numerals import TENS, UNITS
from antiphon.inference_worker.engines.types import (
    Delta,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.content import TranscribedSegment, TranscribedWord

_TARGET_PEAK = 0.6
_MAX_GAIN = 10.0
_LEAD: Samples = np.zeros(INPUT_RATE // 5, dtype=np.float32)
_TAIL: Samples = np.zeros(INPUT_RATE * 2 // 5, dtype=np.float32)
"""Silence around the speech, which saves half of the wrong words of natural voices (docs/performance.md)."""

_CREDITS = "©"
"""The recogniser writes credits of subtitles for some laughs."""

_SHARE_IN_PASSING = 0.4
"""Of the time, at most, that all sessions together spend on texts that may be left out."""


class Recogniser:
    """Transcribes one utterance at a time. All sessions share it."""

    def __init__(self, language: str = "en") -> None:
        """Raises EngineLoadError if the weights are missing or broken."""
        self._network = Whisper() if language == "zh" else Moonshine()
        self._lock = threading.Lock()
        self._rests_until = 0.0

    def transcribe(self, speech: Samples) -> Transcript:
        """What is said in `speech` (16 kHz)."""
        with self._lock:
            return self._transcribe(speech)

    def words_in(self, speech: Samples) -> Words:
        """What is said in a piece of `speech` (16 kHz), and how probable that is."""
        transcript = self.transcribe(speech)
        return Words(transcript.text, transcript.certainty)

    def transcribe_in_passing(self, *parts: Samples) -> list[str] | None:
        """The texts of parts of a speech, which may be left out.

        None while the recogniser is busy, and for some time after each call (see _SHARE_IN_PASSING).
        """
        if time.monotonic() < self._rests_until or not self._lock.acquire(blocking=False):
            return None
        began = time.monotonic()
        try:
            return [self._transcribe(part, width=1).text if len(part) else "" for part in parts]
        finally:
            now = time.monotonic()
            self._rests_until = now + (now - began) * (1 / _SHARE_IN_PASSING - 1)
            self._lock.release()

    def _transcribe(self, speech: Samples, width: int = WIDTH) -> Transcript:
        padded = np.concatenate([_LEAD, _normalised(speech), _TAIL])
        transcript = self._network.transcribe(padded, width)
        has_words = any(character.isalnum() for character in transcript.text)
        if is_loop(transcript.text) or _CREDITS in transcript.text:
            return Transcript()
        return transcript.written(corrected(transcript.text)) if has_words else Transcript()


def _normalised(speech: Samples) -> Samples:
    """`speech` at the loudness that the model expects."""
    peak = float(np.max(np.abs(speech), initial=0.0))
    gain = min(_MAX_GAIN, _TARGET_PEAK / peak) if peak > 0 else 1.0
    return speech * np.float32(gain)


_PIECE_MIN = 6 * INPUT_RATE
_PIECE_MAX = 14 * INPUT_RATE
_HOP = INPUT_RATE // 20
_LEAST_GAP_S = 1.0
"""Between two subtitles of a piece."""


def transcribe(
    recogniser: Recogniser,
    speech: Samples,
    cancelled: Callable[[], bool] = lambda: False,
    on_progress: ProgressCallback = no_progress,
) -> Transcript:
    """What is said in `speech` (16 kHz) of any length.

    The speech is transcribed in pieces. `cancelled` is called before each piece; if it returns True
    the rest is left out.
    """
    transcripts: list[Transcript] = []
    done = 0
    for piece in pieces_of(speech):
        if cancelled():
            break
        if _voiced_steps(piece).any():
            transcripts.append(recogniser.transcribe(piece))
        done += len(piece)
        on_progress(done / len(speech))
    return Transcript().after(transcripts)


def transcribed_segments(
    recogniser: Recogniser, speech: Samples, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Delta]:
    """What is said in `speech` (16 kHz), divided where the speaker pauses, each part with its time."""
    begin = 0
    said = ""
    for piece in pieces_of(speech):
        if cancelled():
            return
        voiced = _voiced_steps(piece)
        text = recogniser.transcribe(piece).text if voiced.any() else ""
        for words in between_pauses(timed_words(text, voiced, begin / INPUT_RATE)):
            part = " ".join(word.word for word in words)
            segment = TranscribedSegment(words[0].start, words[-1].end, part, tuple(words))
            yield Delta(text=continuation(said, part) if said else part, segment=segment)
            said = part
        begin += len(piece)


def between_pauses(words: Iterable[TranscribedWord]) -> list[list[TranscribedWord]]:
    """`words` in groups, with a pause of at least _LEAST_GAP_S between two."""
    groups: list[list[TranscribedWord]] = []
    for word in words:
        if groups and word.start - groups[-1][-1].end < _LEAST_GAP_S:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _voiced_steps(piece: Samples) -> NDArray[np.bool_]:
    """Which steps have speech. Without any, the recogniser would find a word, mostly "You"."""
    network, piece = SileroStream(), _normalised(piece)
    frames = piece[: len(piece) // STEP_SAMPLES * STEP_SAMPLES].reshape(-1, STEP_SAMPLES)
    return np.array([network.step(frame) >= SPEECH_LEVEL for frame in frames], dtype=np.bool_)


def pieces_of(speech: Samples) -> Iterator[Samples]:
    """`speech` in pieces of 6 to 14 s, cut where it is quietest. The last may be shorter."""
    while len(speech) > _PIECE_MAX:
        hops = speech[_PIECE_MIN:_PIECE_MAX].reshape(-1, _HOP)
        quietest = int(np.argmin(np.square(hops).sum(axis=1)))
        cut = _PIECE_MIN + quietest * _HOP + _HOP // 2
        yield speech[:cut]
        speech = speech[cut:]
    if len(speech):
        yield speech


_STEP_S = STEP_SAMPLES / INPUT_RATE
_PAUSE_STEPS = 6
"""A pause between words takes 0.2 s; within a word, before a plosive, less."""
_EDGE_LETTERS = 1
"""A word takes as long as this and its letters."""


def timed_words(text: str, voiced: NDArray[np.bool_], begin_s: float) -> Iterator[TranscribedWord]:
    """The words of `text`, in proportion to their letters within the `voiced` steps, which begin at `begin_s`.

    A boundary between two words moves to the pause that is nearest to it.
    """
    words, steps = text.split(), np.flatnonzero(voiced)
    if not words or not len(steps):
        return
    lengths = np.array([len(word) + _EDGE_LETTERS for word in words], dtype=np.float64)
    bounds = np.concatenate([[0.0], np.cumsum(lengths)]) / lengths.sum() * len(steps)
    pauses = np.flatnonzero(np.diff(steps) > _PAUSE_STEPS) + 1
    for pause in pauses:  # each is between two words, so it fixes one boundary
        if len(words) > 1:
            nearest = 1 + int(np.argmin(np.abs(bounds[1:-1] - pause)))
            bounds[nearest] = np.clip(pause, bounds[nearest - 1], bounds[nearest + 1])
    for word, first, last in zip(words, bounds[:-1], bounds[1:], strict=True):
        start = steps[min(int(first), len(steps) - 1)] + first % 1
        end = steps[min(max(int(np.ceil(last)) - 1, 0), len(steps) - 1)] + (last % 1 or 1.0)
        yield TranscribedWord(
            round(begin_s + float(start) * _STEP_S, 3),
            round(begin_s + max(float(end), float(start)) * _STEP_S, 3),
            word,
        )


_OLD_SPELLING = re.compile(r"\b(to)-(day|night|morrow)\b", re.IGNORECASE)

_NUMBERS = {"to": "two", "too": "two", "for": "four", "won": "one", "ate": "eight"}
_NUMBER = "|".join(_NUMBERS)
_OPERATOR = r"(?:plus|minus|times|divided by|multiplied by)"
_JOINED = re.compile(rf"\b(plus|minus|times)(?=(?:{_NUMBER}|two|one|four)\b)", re.IGNORECASE)
_BEFORE = re.compile(rf"\b({_NUMBER}),? (?={_OPERATOR}\b)", re.IGNORECASE)
_AFTER = re.compile(rf"\b({_OPERATOR}),? ({_NUMBER})\b(?=[.,!?]|$| {_OPERATOR}\b)", re.IGNORECASE)
"""A number is the last word, or another operator follows."""

_WORD_LOOP = re.compile(r"\b([\w']+)(?:[\s,]+\1\b){3,}", re.IGNORECASE)
_PHRASE_LOOP = re.compile(r"\b([\w']+(?:[\s,]+[\w']+){1,2})(?:[\s,]+\1\b){2,}", re.IGNORECASE)
"""A word four times in a row, or a few words three times. The recogniser writes that for noise."""

_NUMERIC = re.compile(
    rf"(?:(?:(?:a|and)[\s,]+)*(?:{'|'.join((*UNITS, *TENS))}|hundred|thousand|million|point|\d\w*"
    rf"|{_OPERATOR})\b[\s,]*)+",
    re.IGNORECASE,
)
"""A number or a part of a sum, which users do repeat: "two plus two plus two plus two"."""

_LONGEST_SUM = 30
"""Words."""

_LOOP = re.compile(r"(.*?)\b([\w']+(?:[\s,]+[\w']+){0,3}?)(?:[\s,.]+\2\b){5,}", re.IGNORECASE)
_CALLS = frozenset(
    ("no", "yes", "stop", "wait", "go", "please", "ha", "hey", "hello", "help", "very")
)
"""Words that people repeat."""


def is_loop(text: str) -> bool:
    """Whether a word or a phrase, said six times or more, is most of `text`. No user says that."""
    found = _LOOP.match(text)
    if found is None or found[2].lower() in _CALLS:
        return False
    words = len(re.findall(r"[\w']+", found[0]))
    may_be_said = _NUMERIC.fullmatch(found[2]) and words <= _LONGEST_SUM
    return not may_be_said and len(found[1]) < len(text) / 2


def corrected(text: str) -> str:
    """`text` as it was probably said."""
    text = _JOINED.sub(r"\1 ", _OLD_SPELLING.sub(r"\1\2", text))
    text = _BEFORE.sub(lambda found: f"{_number(found[1])} ", text)
    text = _AFTER.sub(lambda found: f"{found[1]} {_number(found[2])}", text)
    return _PHRASE_LOOP.sub(_once, _WORD_LOOP.sub(_once, text))


def _once(loop: re.Match[str]) -> str:
    return loop[0] if _NUMERIC.fullmatch(loop[1]) else loop[1]


def _number(word: str) -> str:
    return _NUMBERS[word.lower()]
