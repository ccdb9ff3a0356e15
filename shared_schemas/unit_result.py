"""What an engine reports: the result of a unit with its memo, and the tokens that it read and generated."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Annotated, Any, Protocol

import msgspec

from antiphon.shared_schemas.audio import SILENCE, Samples
from antiphon.shared_schemas.states import SessionKind

TimedText = tuple[float, str]
"""A millisecond of audio, and the text that begins there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitResult:
    """One step of a duplex session: listen, or speak `text` with up to a second of `audio`.

    Durations are milliseconds. `audio` is float32 mono at 24 kHz and empty while listening.
    `memo` is the engine's data for recovery: it is stored with the result and passed to
    `DuplexView.replay`. Its `user`, if any, is the transcript of the user. Its `word_times` are the words
    of `text`, each with the millisecond of `audio` at which it begins. Both are recorded, and sent to
    clients that ask for them. `goodbye` is true if the answer to a goodbye ends and the client asked for
    it. Nothing else of it leaves the engine.

    `interim_user_text` is what the user has said so far of the utterance that continues, empty if none
    does. None unless the session asks for it. It is neither recorded nor replayed.
    """

    is_listen: bool
    text: str = ""
    audio: Samples = field(default_factory=SILENCE.copy, repr=False)
    end_of_turn: bool = False
    current_time: int = 0
    cost_llm_ms: float = 0.0
    cost_tts_prep_ms: float = 0.0
    cost_tts_ms: float = 0.0
    cost_token2wav_ms: float = 0.0
    cost_all_ms: float = 0.0
    n_tokens: int = 0
    n_tts_tokens: int = 0
    kv_cache_length: int = 0
    vision_slices: int = 0
    vision_tokens: int = 0
    simulated: bool = False
    interim_user_text: str | None = None
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAudio:
    """Marks the entry with the first audio of an answer, so that the user's wait for it can be measured.

    `asked_at` is the Redis-clock ms at which the user stopped speaking, or a chat request was appended.
    """

    asked_at: float
    kind: SessionKind
    engine: str


Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that a model read (`input_…`) and generated (`output_…`).

    An entry has the tokens since the last entry with a count. None in place of a count means that
    the engine does not count. A new worker reads finished units and turns again without counting.
    """

    input_text: Count = 0
    input_audio: Count = 0
    input_vision: Count = 0
    output_text: Count = 0
    output_audio: Count = 0

    @property
    def read(self) -> int:
        return self.input_text + self.input_audio + self.input_vision

    @property
    def generated(self) -> int:
        return self.output_text + self.output_audio

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, earlier: TokenUsage) -> TokenUsage:
        return TokenUsage(
            *(max(0, now - then) for now, then in zip(astuple(self), astuple(earlier), strict=True))
        )


class HasMemo(Protocol):
    """A result: as the engine reports it, or as an entry of a stream."""

    @property
    def memo(self) -> Mapping[str, Any]: ...


def user_transcript(entry: HasMemo) -> str | None:
    """What the user said up to this unit or in this turn, if there is a transcript."""
    text = entry.memo.get("user")
    return text if isinstance(text, str) else None


def spoken_ms(entry: HasMemo) -> tuple[float, float] | None:
    """How long before the end of a unit the user's words in it began and ended, if the engine tells."""
    match entry.memo.get("spoken_ms"):
        case [int() | float() as began_ms, int() | float() as ended_ms]:
            return float(began_ms), float(ended_ms)
    return None


def word_times(entry: HasMemo) -> list[TimedText] | None:
    """The words of a unit's text, each with the millisecond of its audio at which it begins, if known."""
    match entry.memo.get("word_times"):
        case [_, *_] as words if all(map(_is_timed_text, words)):
            return [(float(at_ms), text) for at_ms, text in words]
    return None


def _is_timed_text(word: object) -> bool:
    match word:
        case [int() | float(), str()]:
            return True
    return False
