"""Speech of one session: a context that lasts for a turn, and the codes of its text.

A unit of full duplex has one second of codes. A written answer has as many as the model draws.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    PENALTY_CODES,
    CodeRow,
    DecodeCodes,
    DecodeSpeech,
    SpeechCondition,
    SpeechSettings,
    Steps,
)

TOKENS_PER_CONDITION = 10
"""Tokens of a written answer that are spoken at a time."""

MAX_CONDITION_CODES = 500
"""Codes of one condition of a written answer; the model draws an end code before that."""

MIN_TEXT_CODES, MAX_TEXT_CODES = 50, 2048
"""Codes of a whole text that is spoken at once."""

MAX_WHOLE_TOKENS = 256
"""Texts up to this length are spoken at once. Longer ones may need more than `MAX_TEXT_CODES`."""

CODES_PER_SECOND = 25
MAX_DRAWS = CODES_PER_SECOND + 1
"""Draws per unit of full duplex. The last one is never used."""

ANSWER_SPEECH = SpeechSettings(top_k=25, top_p=0.85)
"""How the reference draws the codes of a written answer."""


@dataclass(slots=True, kw_only=True)
class SpeechContext:
    """The speech model's context of a session; `position` 0 is the start of a turn. How many codes are
    drawn at a time does not change them.
    """

    slot: int
    capacity: int
    end_code: int
    settings: SpeechSettings
    rng: random.Random = field(default_factory=random.Random)
    codes_per_step: int = CODES_PER_STEP
    position: int = 0
    _unused: list[float] = field(default_factory=list, init=False)

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
        yield from self.draw_codes(condition, codes.append, held=held, draws=MAX_DRAWS)
        return codes[: MAX_DRAWS - 1]

    def draw_codes(
        self,
        condition: Tensor,
        take: Callable[[int], None],
        *,
        draws: int,
        held: int = 0,
        recent: Sequence[int] = (),
        stopped: Callable[[], bool] = lambda: False,
    ) -> Steps[None]:
        """Draw up to `draws` codes for a condition, until the model ends; `take` gets each one.

        The model cannot end in the first `held` draws. `recent` are the codes before, for the
        repetition penalty. The last code is not fed if the model did not end.
        """
        row = CodeRow(self.settings, tuple(recent), held <= 0, self._uniforms(1)[0])
        code: int = yield DecodeSpeech(self.slot, self.position, condition, row)
        self.position += len(condition)
        known, left = list(recent), draws - 1
        while code != self.end_code:
            take(code)
            known.append(code)
            if not left or stopped():
                return
            uniforms = self._uniforms(self.codes_per_step)
            row = CodeRow(self.settings, tuple(known), may_end=True)
            drawn: list[int] = yield DecodeCodes(
                self.slot, self.position, code, row, uniforms, max(0, held - (draws - left))
            )
            drawn = drawn[:left]
            if self.end_code in drawn:
                drawn = drawn[: drawn.index(self.end_code) + 1]
            self._unused = [*uniforms[len(drawn) :], *self._unused]
            self.position += len(drawn)
            left -= len(drawn)
            *others, code = drawn
            known += others
            for other in others:
                take(other)

    def _uniforms(self, count: int) -> tuple[float, ...]:
        """Draws in [0, 1). Those that an end left unused come first."""
        while len(self._unused) < count:
            self._unused.append(self.rng.random())
        taken, self._unused = self._unused[:count], self._unused[count:]
        return tuple(taken)

    def make_room(self, condition: int, most: int = MAX_CONDITION_CODES) -> int:
        """How many codes may follow a condition of this length, at most `most`. A context that is too
        full for them begins again.
        """
        wanted = min(most, self.capacity // 2)
        if self.position + condition + wanted > self.capacity:
            self.reset()
        return min(most, self.capacity - self.position - condition)

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
    """Speaks a written answer while it is generated.

    Ten tokens at a time are a condition, for which codes are drawn until the model ends. The last
    condition also has the mark for the end of the text, so ten tokens wait for the next one.

    `on_codes` gets each second of codes, and the rest with True. `stopped` ends the speech at once.
    """

    speech: SpeechContext
    on_codes: Callable[[list[int], bool], None]
    stopped: Callable[[], bool] = lambda: False
    _words: list[int] = field(default_factory=list)
    _states: list[Tensor] = field(default_factory=list)
    _recent: list[int] = field(default_factory=list)
    _second: list[int] = field(default_factory=list)

    def continue_text(self) -> Steps[None]:
        """Speak the waiting tokens if they are ten. Call it when another token follows them."""
        if len(self._words) == TOKENS_PER_CONDITION:
            yield from self._speak(text_ends=False)

    def add_token(self, token: int, state: Tensor) -> None:
        self._words.append(token)
        self._states.append(state)

    def finish(self, *, text_ends: bool) -> Steps[None]:
        """Speak the remaining tokens. `text_ends` is False for an answer that was cut."""
        if self._words:
            yield from self._speak(text_ends=text_ends)
        self.on_codes(self._second, True)
        self.speech.reset()

    def speak_text(self, tokens: list[int], states: list[Tensor]) -> Steps[None]:
        """Speak a whole text, which is one separate condition. A text that is too long for one is
        spoken ten tokens at a time.
        """
        if len(tokens) <= min(MAX_WHOLE_TOKENS, self.speech.capacity // 8):
            self._words, self._states = tokens, states
            if tokens:
                yield from self._speak(text_ends=True, least=MIN_TEXT_CODES, most=MAX_TEXT_CODES)
        else:
            for token, state in zip(tokens, states, strict=True):
                yield from self.continue_text()
                self.add_token(token, state)
        yield from self.finish(text_ends=True)

    def _speak(
        self, *, text_ends: bool, least: int = 0, most: int = MAX_CONDITION_CODES
    ) -> Steps[None]:
        speech = self.speech
        condition = yield SpeechCondition(self._words, self._states, text_ends=text_ends)
        self._words, self._states = [], []
        room = speech.make_room(len(condition), most)
        if self.stopped():
            return
        yield from speech.draw_codes(
            condition,
            self._add_code,
            draws=room,
            held=least,
            recent=self._recent,
            stopped=self.stopped,
        )

    def _add_code(self, code: int) -> None:
        self._recent = [*self._recent, code][-PENALTY_CODES:]
        self._second.append(code)
        if len(self._second) == CODES_PER_SECOND:
            self.on_codes(self._second, False)
            self._second = []
