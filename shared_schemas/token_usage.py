"""Token counts of a model, by kind, as entries and recordings carry them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, NonNegativeInt


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
