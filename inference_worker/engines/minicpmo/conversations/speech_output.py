"""Speech of one session: a context that lasts for a turn, and the codes of its text.

A unit of full duplex has one second of codes. A written answer has as many as the model draws.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    PENALTY_CODES,
    CodeRow,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    DecodeCodes,
    DecodeSpeech,
    SpeechCondition,
    Steps,
)

TOKENS_PER_CONDITION = 10
"""Tokens of a written answer that are spoken at a time."""

LEAD_SECONDS = 4.0
"""Seconds that the codes of a written answer may be ahead of playback at the cost of other sessions."""

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


REMEMBERED = 2
"""Pieces of speech that are fed again when a context is full in the middle of a turn."""


@dataclass(frozen=True, slots=True, eq=False)
class SpokenPiece:
    """Text tokens with their states, and the codes that were fed after their condition."""

    tokens: list[int]
    states: list[Tensor]
    codes: list[int]

    @property
    def length(self) -> int:
        """Positions of the condition, which has one more row, and of the codes."""
        return len(self.tokens) + 1 + len(self.codes)


@dataclass(slots=True, kw_only=True)
class SpeechContext:
    """The speech model's context of a session; `position` 0 is the start of a turn. How many codes are
    drawn at a time does not change them.

    A context that is full in the middle of a turn begins again with the last pieces of speech:
    `fed_again` is their number in the last unit.
    """

    slot: int
    capacity: int
    end_code: int
    settings: SpeechSettings
    rng: random.Random = field(default_factory=random.Random)
    codes_per_step: int = CODES_PER_STEP
    position: int = 0
    fed_again: int = field(default=0, init=False)
    _unused: list[float] = field(default_factory=list, init=False)
    _last: list[SpokenPiece] = field(default_factory=list, init=False)

    def reset(self) -> None:
        """Begin a new turn."""
        self.position = 0
        self._last = []

    def generate_codes(
        self, tokens: list[int], states: list[Tensor], *, may_end: bool
    ) -> Steps[list[int]]:
        """Audio codes for the text tokens of a unit and their states: 25, or fewer if it `may_end`.

        The first unit of a turn may always end early.
        """
        condition = yield SpeechCondition(tokens, states)
        # Decided before the context may begin again, which is not the start of a turn.
        held = 0 if may_end or self.position == 0 else MAX_DRAWS
        self.fed_again = 0
        if self.position + len(condition) + MAX_DRAWS > self.capacity:
            self.fed_again = yield from self._begin_again(len(condition) + MAX_DRAWS)
        codes: list[int] = []
        yield from self.draw_codes(condition, codes.append, held=held, draws=MAX_DRAWS)
        codes = codes[: MAX_DRAWS - 1]
        self.remember(SpokenPiece(tokens, states, codes))
        return codes

    def remember(self, piece: SpokenPiece) -> None:
        """Keep a piece of speech that is in the context."""
        self._last = [*self._last, piece][-REMEMBERED:]

    def _begin_again(self, needed: int) -> Steps[int]:
        """Feed the last pieces of speech as the first of the context, as many as leave `needed`
        positions free; returns their number.
        """
        room, pieces = self.capacity - needed, list[SpokenPiece]()
        for piece in reversed(self._last):
            room -= piece.length
            if room < 0:
                break
            pieces.insert(0, piece)
        self.reset()
        for piece in pieces:
            yield from self.append_codes(piece)
        return len(pieces)

    def draw_codes(
        self,
        condition: Tensor,
        take: Callable[[int], None],
        *,
        draws: int,
        held: int = 0,
        recent: Sequence[int] = (),
        stopped: Callable[[], bool] = lambda: False,
        due: Callable[[], float] = lambda: 0.0,
    ) -> Steps[None]:
        """Draw up to `draws` codes for a condition, until the model ends; `take` gets each one. `due` is
        when the next ones begin to be urgent.

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
                self.slot,
                self.position,
                code,
                row,
                uniforms,
                held=max(0, held - (draws - left)),
                due=due(),
                stopped=stopped,
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

    def make_room(self, condition: int, most: int = MAX_CONDITION_CODES) -> Steps[int]:
        """How many codes may follow a condition of this length, at most `most`. A context that is too
        full for them begins again.
        """
        wanted = min(most, self.capacity // 2)
        if self.position + condition + wanted > self.capacity:
            yield from self._begin_again(condition + wanted)
        return min(most, self.capacity - self.position - condition)

    def append_codes(self, spoken: SpokenPiece) -> Steps[None]:
        """Append existing speech: its condition and its codes in one piece."""
        piece = yield SpeechCondition(spoken.tokens, spoken.states, tuple(spoken.codes))
        yield DecodeSpeech(
            self.slot, self.position, piece, CodeRow(self.settings, (), may_end=True)
        )
        self.position += len(piece)
        self.remember(spoken)


@dataclass(slots=True)
class AnswerSpeech:
    """Speaks a written answer while it is generated.

    Ten tokens at a time are a condition, for which codes are drawn until the model ends. The last
    condition also has the mark for the end of the text, so ten tokens wait for the next one.

    `on_codes` gets each second of codes, and the rest with True. `stopped` ends the speech at once.

    Playback needs a second of codes each second, but they are drawn faster. When they are LEAD_SECONDS
    ahead of it, the codes and steps of other sessions go first. `clock` is that of the engine.
    """

    speech: SpeechContext
    on_codes: Callable[[list[int], bool], None]
    stopped: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    _played_from: float | None = None
    _seconds: int = 0
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
        speech, tokens, states = self.speech, self._words, self._states
        condition = yield SpeechCondition(tokens, states, text_ends=text_ends)
        self._words, self._states = [], []
        room = yield from speech.make_room(len(condition), most)
        if self.stopped():
            return
        codes: list[int] = []

        def take(code: int) -> None:
            codes.append(code)
            self._add_code(code)

        began = speech.position
        yield from speech.draw_codes(
            condition,
            take,
            draws=room,
            held=least,
            recent=self._recent,
            stopped=self.stopped,
            due=self._due,
        )
        fed = speech.position - began - len(condition)  # the last code may not be
        if not text_ends:
            speech.remember(SpokenPiece(tokens, states, codes[:fed]))

    def _due(self) -> float:
        """When playback, which begins with the first second, is LEAD_SECONDS behind the codes."""
        if self._played_from is None:
            return 0.0
        return self._played_from + self._seconds - LEAD_SECONDS

    def _add_code(self, code: int) -> None:
        self._recent = [*self._recent, code][-PENALTY_CODES:]
        self._second.append(code)
        if len(self._second) == CODES_PER_SECOND:
            if self._played_from is None:
                self._played_from = self.clock()
            self._seconds += 1
            self.on_codes(self._second, False)
            self._second = []
