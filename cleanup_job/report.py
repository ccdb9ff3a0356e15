"""What a sweep did, and why."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict

from antiphon.cleanup_job.retention import Rule


class SweepStatus(StrEnum):
    """`busy`: another sweep was running, nothing was done. `disabled`: both rules are off.

    `stopped`: told to end early; what was done until then is reported.
    """

    DONE = "done"
    STOPPED = "stopped"
    BUSY = "busy"
    DISABLED = "disabled"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class Removal(_Record):
    """One recording that went (in a dry run: would go). `size` in bytes."""

    session: str
    rule: Rule
    size: int
    created_at: AwareDatetime
    last_used_at: AwareDatetime


class Failure(_Record):
    """Something that could not be read or deleted."""

    session: str
    error: str


class RedisReport(_Record):
    """What went (in a dry run: would go) from Redis: see `broker.orphaned_keys`.

    `shares`: links to the recordings that were deleted. `error`: why nothing could be done there.
    """

    streams: int = 0
    rows: int = 0
    consumers: int = 0
    shares: int = 0
    error: str | None = None


class SweepReport(_Record):
    """One sweep. `leftovers` counts what others, interrupted, had left: half-deleted and half-uploaded."""

    status: SweepStatus
    dry_run: bool = False
    scanned: int = 0
    live: int = 0
    removed: list[Removal] = []
    failed: list[Failure] = []
    freed_bytes: int = 0
    remaining: int = 0
    remaining_bytes: int = 0
    leftovers: int = 0
    redis: RedisReport = RedisReport()
