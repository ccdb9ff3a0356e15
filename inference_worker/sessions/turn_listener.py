"""Hears the user while a half-duplex answer is made and played."""

import time
from collections.abc import Callable

import numpy as np

from antiphon.inference_worker.engines.common.barge_in import (
    PAUSE_MS,
    BargeInGuard,
    UserVoice,
    Words,
)
from antiphon.shared_schemas.audio import SILENCE, Samples


class TurnListener:
    """Decides whether the user takes the turn, and keeps what was said since then."""

    def __init__(self, words: Callable[[Samples], Words | None] | None) -> None:
        """`words` recognises what is said in a piece of speech (16 kHz)."""
        self._guard = BargeInGuard(words)
        self._voice = UserVoice.NONE
        self._open = self._taken = False
        self._rest: Samples = SILENCE
        self._until, self._asks = 0.0, False

    @property
    def is_playing(self) -> bool:
        """Whether the answer is played now, after it was made."""
        return time.monotonic() < self._until

    @property
    def is_open(self) -> bool:
        """Whether it hears the user: from the begin of an answer until `said`."""
        return self._open

    @property
    def holds_voice(self) -> bool:
        """Whether it has a part of what the user says."""
        return self._open and (self._taken or self._guard.voiced_ms > 0)

    def open(self, question: Samples | None) -> None:
        """An answer to `question` begins; None: the greeting."""
        self._open = True
        if question is not None:
            self._guard.learn(question)

    def answer_ends_at(self, at: float, *, asks: bool) -> None:
        """When a client has played the answer (monotonic). `asks`: it ends with a question."""
        self._until, self._asks = at, asks

    def feed(self, samples: Samples) -> bool:
        """Add audio. Whether the user has taken the turn."""
        if self._taken:
            self._rest = np.concatenate([self._rest, samples])
            return True
        self._voice = self._guard.feed(samples)
        self._taken = self._voice is UserVoice.SPEECH
        return self._taken

    def said(self) -> Samples:
        """What was said and may belong to the next utterance. Ends the listening."""
        listens = self._voice is UserVoice.NONE and self._guard.voiced_ms >= PAUSE_MS
        kept = SILENCE if listens and not (self._taken or self._asks) else self._guard.speech
        said = np.concatenate([kept, self._rest])
        self._voice, self._open, self._taken = UserVoice.NONE, False, False
        self._rest, self._until, self._asks = SILENCE, 0.0, False
        self._guard.restart()
        return said
