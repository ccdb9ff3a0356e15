"""Speaks a written answer while it is written: a second of sound for every few words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.inference_worker.engines.minicpmo.speaking import Speaker
from antiphon.inference_worker.engines.minicpmo.speech_sampler import MAX_DRAWS
from antiphon.inference_worker.engines.minicpmo.steps import Steps

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 10
"""Words that one second of speech is given."""

MAX_TAIL = 30
"""Seconds that may follow the last words before the speech is cut."""


@dataclass(slots=True)
class Narrator:
    """Uses the speech model as duplex does, a unit at a time.

    `on_codes` is told each unit's codes, and at the end that there are no more.
    """

    speaker: Speaker
    on_codes: Callable[[list[int], bool], None]
    _words: list[int] = field(default_factory=list)
    _states: list[Tensor] = field(default_factory=list)

    def word(self, token: int, state: Tensor) -> Steps[None]:
        """Take in a token and its state; speak when there are enough."""
        self._words.append(token)
        self._states.append(state)
        if len(self._words) == GROUP:
            yield from self._speak(may_end=False)

    def end(self, stopped: Callable[[], bool]) -> Steps[None]:
        """Speak what is left, until the model has said it all, and begin a new turn."""
        for _ in range(MAX_TAIL):
            spoken = yield from self._speak(may_end=True)
            if spoken < MAX_DRAWS - 1 or stopped():
                break
        self.on_codes([], True)
        self.speaker.reset()

    def _speak(self, *, may_end: bool) -> Steps[int]:
        codes = yield from self.speaker.speak(self._words, self._states, may_end=may_end)
        self._words, self._states = [], []
        self.on_codes(codes, False)
        return len(codes)
