"""What a unit records so that another worker can rebuild the context."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field


class UnitMemo(BaseModel):
    """Tokens of one unit: those fed while generating, its terminator, its ordinary words, those sampled.

    `greeting_left` is the number of tokens of the greeting that later units speak.

    For its speech: how many of the last `fed` tokens it covers (None without speech), its codes,
    and the length of the speech context after the unit.
    """

    model_config = ConfigDict(extra="ignore")

    fed: list[int] = Field(default_factory=list)
    terminator: int | None = None
    words: list[int] = Field(default_factory=list)
    chosen: list[int] = Field(default_factory=list)
    turn_open: bool = False
    greeting_left: int = 0
    spoken: int | None = None
    codes: list[int] = Field(default_factory=list)
    speech_length: int = 0
    max_slices: int = 1

    @property
    def speech_start(self) -> int:
        """The position of the unit's condition in the speech context."""
        return self.speech_length - (self.spoken or 0) - 1 - len(self.codes)

    @property
    def restarts_voice(self) -> bool:
        """Whether a forced listen ended an open turn: its end was fed, and nothing was sampled."""
        return bool(self.fed) and not self.chosen


def speech_context_start(memos: Sequence[UnitMemo], capacity: int) -> int:
    """Index of the first unit whose speech is in the context at the end; `len(memos)` if there is none."""
    if not memos or not 0 < memos[-1].speech_length <= capacity:
        return len(memos)
    for index in reversed(range(len(memos))):
        memo = memos[index]
        if memo.spoken is not None and memo.speech_start == 0:
            return index
        if memo.speech_length == 0:
            break
    return len(memos)


def unfinished_turn_codes(memos: Sequence[UnitMemo]) -> list[list[int]]:
    """Codes of the unfinished turn, unit by unit."""
    codes: list[list[int]] = []
    for memo in reversed(memos):
        if memo.restarts_voice or (memo.spoken is not None and memo.speech_length == 0):
            break
        if memo.spoken is not None:
            codes.insert(0, memo.codes)
    return codes
