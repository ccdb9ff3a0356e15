"""Words, clauses with their audio, and the queue between a reply and its units."""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is shown, with punctuation, and its number of model tokens.

    `spoken` is what a voice of the session's language says for it: any number of words without digits and
    signs. `glued`: no space before it, as in Chinese.
    """

    text: str
    tokens: int
    spoken: str
    glued: bool = False

    @property
    def continuing(self) -> str:
        """The text after the words before."""
        return self.text if self.glued else f" {self.text}"


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that are synthesised together."""

    words: tuple[Word, ...]
    ends_sentence: bool

    @property
    def text(self) -> str:
        return "".join(word.continuing for word in self.words).removeprefix(" ")

    @property
    def spoken(self) -> tuple[str, ...]:
        """What is said for each word."""
        return tuple(word.spoken for word in self.words)


@dataclass(frozen=True, slots=True)
class SpokenClause:
    """A clause, or a part of one, and its audio (float32 mono at 24 kHz).

    `starts` and `phonemes` have the sample at which each word and each phoneme begins, ascending. `more`:
    another part of the clause follows.
    """

    words: tuple[Word, ...]
    audio: Samples
    starts: tuple[int, ...]
    phonemes: tuple[int, ...]
    more: bool = False


def joined(parts: Iterable[SpokenClause]) -> SpokenClause:
    """One clause of consecutive parts."""
    parts = list(parts)
    begins = list(accumulate((len(part.audio) for part in parts), initial=0))
    return SpokenClause(
        tuple(word for part in parts for word in part.words),
        np.concatenate([SILENCE, *(part.audio for part in parts)]),
        _shifted(begins, [part.starts for part in parts]),
        _shifted(begins, [part.phonemes for part in parts]),
    )


def _shifted(begins: Sequence[int], places: Sequence[Sequence[int]]) -> tuple[int, ...]:
    pairs = zip(begins, places, strict=False)
    return tuple(begin + place for begin, part in pairs for place in part)


class TimedWord(NamedTuple):
    """A word with the space before it, if there is one, and the millisecond of audio at which it begins."""

    at_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class UnitSpeech:
    """One unit's part of a reply: at most the unit's duration of audio, and the words in it.

    If the unit continues a turn, its first piece also begins with a space. `last` ends the reply.
    """

    pieces: tuple[TimedWord, ...]
    audio: Samples
    tokens: int
    phonemes: int
    last: bool

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def sound_ms(self) -> float:
        return milliseconds(len(self.audio))


def milliseconds(samples: int) -> float:
    """Duration of `samples` at 24 kHz."""
    return round(samples * 1000 / OUTPUT_RATE, 1)


class SpeechQueue:
    """The thread that makes a reply pushes clauses; the session takes units.

    A clause without audio is text only. `continues`: the turn began before this queue, so a space comes
    before its first word, unless that is glued.
    """

    def __init__(self, *, continues: bool = False) -> None:
        self._changed = threading.Condition()
        self._finished = False
        self._more = False
        self._untouched = True
        self._continues = continues
        self._audio: Samples = SILENCE
        self._words: list[tuple[int, Word]] = []
        self._phonemes: list[int] = []

    def push(self, clause: SpokenClause) -> None:
        with self._changed:
            self._untouched = False
            self._more = clause.more
            shift = len(self._audio)
            self._words += [
                (shift + start, word)
                for start, word in zip(clause.starts, clause.words, strict=True)
            ]
            self._phonemes += [shift + start for start in clause.phonemes]
            self._audio = np.concatenate([self._audio, clause.audio])
            self._changed.notify_all()

    def finish(self) -> None:
        """Declare that no clause follows."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def wait(self, samples: int, tokens: int, deadline: float) -> None:
        """Wait until a whole unit or the end of the reply is ready, at most until `deadline`.

        `deadline` is a value of time.perf_counter().
        """
        with self._changed:
            while not self._has_unit(samples, tokens):
                remaining = deadline - time.perf_counter()
                if remaining <= 0 or not self._changed.wait(remaining):
                    return

    def may_begin(self, samples: int) -> bool:
        """Whether there is a whole unit, or no part of a clause is missing.

        The next unit may be due much later than the end of a short first one.
        """
        with self._changed:
            return len(self._audio) >= samples or self._finished or not self._more

    def take(self, samples: int, tokens: int) -> UnitSpeech:
        """Remove one unit: up to `samples` of audio and the words that begin in it.

        The text has at most `tokens` tokens, but at least one word. If that limit applies, the audio
        ends before the first word that is left out.
        """
        with self._changed:
            due = self._due_words(samples, tokens)
            stop = min(samples, len(self._audio))
            if due < len(self._words):
                stop = min(stop, self._words[due][0])
            return self._remove(due, stop)

    def remaining(self) -> tuple[list[Word], bool] | None:
        """The words that are not in any unit yet, and whether a clause may follow them.

        None if no clause was pushed yet.
        """
        with self._changed:
            words = [word for _, word in self._words]
            return None if self._untouched else (words, not self._finished)

    @property
    def exhausted(self) -> bool:
        """True if the reply is complete and all of it was taken."""
        with self._changed:
            return self._is_over()

    def _is_over(self) -> bool:
        return self._finished and not self._words and not len(self._audio)

    def _has_unit(self, samples: int, tokens: int) -> bool:
        ready_tokens = sum(word.tokens for _, word in self._words)
        return self._finished or len(self._audio) > samples or ready_tokens > tokens

    def _due_words(self, samples: int, tokens: int) -> int:
        spent = 0
        for index, (start, word) in enumerate(self._words):
            spent += word.tokens
            if start >= samples or (spent > tokens and index > 0):
                return index
        return len(self._words)

    def _remove(self, due: int, stop: int) -> UnitSpeech:
        words = [word for _, word in self._words[:due]]
        pieces = tuple(self._piece(start, word) for start, word in self._words[:due])
        audio, self._audio = self._audio[:stop], self._audio[stop:]
        phonemes = sum(start < stop for start in self._phonemes)
        self._phonemes = [start - stop for start in self._phonemes[phonemes:]]
        self._words = [(start - stop, word) for start, word in self._words[due:]]
        return UnitSpeech(pieces, audio, sum(w.tokens for w in words), phonemes, self._is_over())

    def _piece(self, start: int, word: Word) -> TimedWord:
        text, self._continues = word.continuing if self._continues else word.text, True
        return TimedWord(milliseconds(start), text)
