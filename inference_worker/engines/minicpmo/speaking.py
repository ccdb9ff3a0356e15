"""How one session speaks: a speech context that runs on through a turn, a second per unit."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.inference_worker.engines.minicpmo.speech_sampler import (
    MAX_DRAWS,
    CodeRow,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.steps import Condition, Steps, Utter

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True, kw_only=True)
class Speaker:
    """The speech model's context of one session; `position` 0 is the start of a turn."""

    slot: int
    capacity: int
    end_code: int
    settings: SpeechSettings
    rng: random.Random = field(default_factory=random.Random)
    position: int = 0

    def reset(self) -> None:
        """Begin a new turn."""
        self.position = 0

    def speak(self, tokens: list[int], states: list[Tensor], *, may_end: bool) -> Steps[list[int]]:
        """Audio codes for a unit's text tokens and their states: 25, or fewer where it `may_end`.

        A turn's first unit may end early in any case.
        """
        condition = yield Condition(tokens, states)
        if self.position + len(condition) + MAX_DRAWS > self.capacity:
            self.reset()
        held = 0 if may_end or self.position == 0 else MAX_DRAWS
        codes: list[int] = []
        feed: Tensor | int = condition
        for draw in range(MAX_DRAWS):
            row = CodeRow(self.settings, tuple(codes), draw >= held, self.rng.random())
            start = self.position + (0 if draw == 0 else len(condition) + draw - 1)
            code: int = yield Utter(self.slot, start, feed, row)
            if code == self.end_code or draw == MAX_DRAWS - 1:
                break
            codes.append(code)
            feed = code
        self.position += len(condition) + len(codes)
        return codes

    def recite(self, tokens: list[int], states: list[Tensor], codes: list[int]) -> Steps[None]:
        """Append a unit's speech that was made before: its condition and its codes in one piece."""
        piece = yield Condition(tokens, states, tuple(codes))
        yield Utter(self.slot, self.position, piece, CodeRow(self.settings, (), may_end=True))
        self.position += len(piece)
