"""The speech of clauses that are said again and again: greetings, farewells, "I do not know"."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.shared_schemas.audio import OUTPUT_RATE

_MOST_KEYS = 2000
"""Clauses that are known to have been said."""

_MOST_SAMPLES = 60 * OUTPUT_RATE
"""Of the audio that is kept: 6 MB."""


class SaidBefore:
    """Keeps what was said twice, the newest at most. Most clauses of a language model are said once.

    Safe to use from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: OrderedDict[int, None] = OrderedDict()
        self._kept: OrderedDict[Hashable, SpokenClause] = OrderedDict()
        self._samples = 0

    def find(self, key: Hashable, clause: Clause) -> SpokenClause | None:
        """The speech of `clause`, if it is kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        return replace(found, words=clause.words)

    def add(self, key: Hashable, spoken: SpokenClause) -> None:
        """`spoken` was computed, because it was not kept."""
        with self._lock:
            number = hash(key)
            if number in self._said and key not in self._kept and len(spoken.audio):
                # The audio is a part of what the network computed. Without a copy, all of it stays.
                self._kept[key] = replace(spoken, audio=spoken.audio.copy())
                self._samples += len(spoken.audio)
            self._said[number] = None
            self._said.move_to_end(number)
            if len(self._said) > _MOST_KEYS:
                self._said.popitem(last=False)
            while self._samples > _MOST_SAMPLES:
                _, oldest = self._kept.popitem(last=False)
                self._samples -= len(oldest.audio)
