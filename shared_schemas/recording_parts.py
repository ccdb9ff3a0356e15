"""What the recordings of all kinds of sessions are made of."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Record(BaseModel):
    """Base of everything in a session directory's JSON; what a later version adds is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Range(Record):
    """Stream entries `first` to `last` (inclusive, counted from 1).

    `first_chunk`, `last_chunk`: the duplex chunks among them, by index.
    """

    stream: Literal["in", "out"]
    first: int
    last: int
    first_chunk: int | None = None
    last_chunk: int | None = None


class Gap(Range):
    """Entries that were lost: nothing of them could be recorded. `why` says what is known of it."""

    why: str = ""


class Trouble(Record):
    """An outage of the disk. `late`: what it kept back and was written afterwards, from `resumed_at` on."""

    at: AwareDatetime
    error: str
    resumed_at: AwareDatetime | None = None
    late: list[Range] = Field(default_factory=list)


class EventRecord(Record):
    """Anything else that was said: `type` is the stream entry's (prepare, paused, error …)."""

    ts_ms: float
    type: str
    input_n: int | None = None
    chunk: int | None = None
    speaking: bool | None = None
    timeout_s: float | None = None
    elapsed_s: float | None = None
    played_ms: float | None = None
    prompt_length: int | None = None
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    field: str | None = None
    fatal: bool | None = None
