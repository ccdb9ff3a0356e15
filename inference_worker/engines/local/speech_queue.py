"""Between the thread that makes a reply and the units that speak it."""

from __future__ import annotations

import threading
import time

import numpy as np

from antiphon.inference_worker.engines.local.speech import (
    Piece,
    SpokenClause,
    UnitSpeech,
    Word,
    milliseconds,
)
from antiphon.shared_schemas.audio import SILENCE, Samples


class SpeechQueue:
    """Takes clauses in, gives units out; a clause without audio is text only.

    `continues` says that the turn began before this queue, so that its text starts with a space.
    """

    def __init__(self, *, continues: bool = False) -> None:
        self._changed = threading.Condition()
        self._finished = False
        self._continues = continues
        self._audio: Samples = SILENCE
        self._words: list[tuple[int, Word]] = []
        self._phonemes: list[int] = []

    def push(self, clause: SpokenClause) -> None:
        """Append `clause` to what is to be said."""
        with self._changed:
            shift = len(self._audio)
            self._words += [
                (shift + start, word)
                for start, word in zip(clause.starts, clause.words, strict=True)
            ]
            self._phonemes += [shift + start for start in clause.phonemes]
            self._audio = np.concatenate([self._audio, clause.audio])
            self._changed.notify_all()

    def finish(self) -> None:
        """Nothing more will be pushed."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def wait(self, samples: int, tokens: int, deadline: float) -> None:
        """Return when a whole unit is ready or the reply is, at the latest at `deadline`.

        `deadline` is a value of time.perf_counter().
        """
        with self._changed:
            while not self._has_unit(samples, tokens):
                remaining = deadline - time.perf_counter()
                if remaining <= 0 or not self._changed.wait(remaining):
                    return

    def take(self, samples: int, tokens: int) -> UnitSpeech:
        """Remove one unit: up to `samples` of audio and the words beginning in it.

        At most `tokens` tokens of text, but one word at least; a limit that binds ends the
        audio before the first word left out.
        """
        with self._changed:
            due = self._due_words(samples, tokens)
            stop = min(samples, len(self._audio))
            if due < len(self._words):
                stop = min(stop, self._words[due][0])
            return self._remove(due, stop)

    def remaining(self) -> list[Word]:
        """The words not yet begun."""
        with self._changed:
            return [word for _, word in self._words]

    @property
    def finished(self) -> bool:
        """True when nothing more will be pushed."""
        with self._changed:
            return self._finished

    @property
    def exhausted(self) -> bool:
        """True when the reply is over and everything has been taken."""
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

    def _piece(self, start: int, word: Word) -> Piece:
        space, self._continues = " " if self._continues else "", True
        return Piece(milliseconds(start), f"{space}{word.text}")
