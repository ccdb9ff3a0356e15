"""What a unit leaves behind so that another worker can rebuild the context."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class UnitMemo(BaseModel):
    """Tokens of one unit: fed while generating, how it ended, its ordinary words, what was chosen."""

    model_config = ConfigDict(extra="ignore")

    fed: list[int] = Field(default_factory=list)
    terminator: int | None = None
    words: list[int] = Field(default_factory=list)
    chosen: list[int] = Field(default_factory=list)
    turn_open: bool = False
