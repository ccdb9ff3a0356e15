"""What an engine reports: the result of a unit, and the tokens that it read and generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt

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


class FirstAudio(BaseModel):
    """Marks the entry with the first audio of an answer, so that the user's wait for it can be measured.

    `asked_at` is the Redis-clock ms at which the user stopped speaking, or a chat request was appended.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    asked_at: float
    kind: SessionKind
    engine: str


class TokenUsage(BaseModel):
    """Tokens that a model read (`input_…`) and generated (`output_…`).

    An entry has the tokens since the last entry with a count. None in place of a count means that
    the engine does not count. A new worker reads finished units and turns again without counting.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    input_text: NonNegativeInt = 0
    input_audio: NonNegativeInt = 0
    input_vision: NonNegativeInt = 0
    output_text: NonNegativeInt = 0
    output_audio: NonNegativeInt = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = self.model_dump(), other.model_dump()
        return TokenUsage(**{kind: mine[kind] + theirs[kind] for kind in mine})

    def __sub__(self, earlier: TokenUsage) -> TokenUsage:
        mine, theirs = self.model_dump(), earlier.model_dump()
        return TokenUsage(**{kind: max(0, mine[kind] - theirs[kind]) for kind in mine})
