"""Speech of one session: a context that lasts for a turn, and one second of codes per unit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_DRAWS,
    CodeRow,
    DecodeSpeech,
    SpeechCondition,
    SpeechSettings,
    Steps,
)

TOKENS_PER_UNIT = 10
"""Text tokens per second of speech."""

MAX_TAIL_UNITS = 30
"""Maximum seconds of speech after the last text token."""


@dataclass(slots=True, kw_only=True)
class SpeechContext:
    """The speech model's context of a session; `position` 0 is the start of a turn."""

    slot: int
    capacity: int
    end_code: int
    settings: SpeechSettings
    rng: random.Random = field(default_factory=random.Random)
    position: int = 0

    def reset(self) -> None:
        """Begin a new turn."""
        self.position = 0

    def generate_codes(
        self, tokens: list[int], states: list[Tensor], *, may_end: bool
    ) -> Steps[list[int]]:
        """Audio codes for the text tokens of a unit and their states: 25, or fewer if it `may_end`.

        The first unit of a turn may always end early.
        """
        condition = yield SpeechCondition(tokens, states)
        if self.position + len(condition) + MAX_DRAWS > self.capacity:
            self.reset()
        held = 0 if may_end or self.position == 0 else MAX_DRAWS
        codes: list[int] = []
        feed: Tensor | int = condition
        for draw in range(MAX_DRAWS):
            row = CodeRow(self.settings, tuple(codes), draw >= held, self.rng.random())
            start = self.position + (0 if draw == 0 else len(condition) + draw - 1)
            code: int = yield DecodeSpeech(self.slot, start, feed, row)
            if code == self.end_code or draw == MAX_DRAWS - 1:
                break
            codes.append(code)
            feed = code
        self.position += len(condition) + len(codes)
        return codes

    def append_codes(
        self, tokens: list[int], states: list[Tensor], codes: list[int]
    ) -> Steps[None]:
        """Append the existing speech of a unit: its condition and its codes in one piece."""
        piece = yield SpeechCondition(tokens, states, tuple(codes))
        yield DecodeSpeech(
            self.slot, self.position, piece, CodeRow(self.settings, (), may_end=True)
        )
        self.position += len(piece)


@dataclass(slots=True)
class AnswerSpeech:
    """Speaks a written answer while it is generated, one unit at a time as in duplex.

    `on_codes` gets the codes of each unit, and an empty list with True at the end.
    """

    speech: SpeechContext
    on_codes: Callable[[list[int], bool], None]
    _words: list[int] = field(default_factory=list)
    _states: list[Tensor] = field(default_factory=list)

    def add_token(self, token: int, state: Tensor) -> Steps[None]:
        """Add a token and its state; generate speech when a unit is complete."""
        self._words.append(token)
        self._states.append(state)
        if len(self._words) == TOKENS_PER_UNIT:
            yield from self._speak(may_end=False)

    def finish(self, stopped: Callable[[], bool]) -> Steps[None]:
        """Speak the remaining tokens until the model ends, then begin a new turn."""
        for _ in range(MAX_TAIL_UNITS):
            spoken = yield from self._speak(may_end=True)
            if spoken < MAX_DRAWS - 1 or stopped():
                break
        self.on_codes([], True)
        self.speech.reset()

    def _speak(self, *, may_end: bool) -> Steps[int]:
        codes = yield from self.speech.generate_codes(self._words, self._states, may_end=may_end)
        self._words, self._states = [], []
        self.on_codes(codes, False)
        return len(codes)
