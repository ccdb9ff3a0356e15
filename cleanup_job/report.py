"""The report of a sweep: what it deleted, and by which rule."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict

from antiphon.cleanup_job.retention import Rule


class SweepStatus(StrEnum):
    """`busy`: another sweep was running, so nothing was done. `disabled`: both rules are off.

    `stopped`: ended early by a stop; the report covers the work until then.
    """

    DONE = "done"
    STOPPED = "stopped"
    BUSY = "busy"
    DISABLED = "disabled"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class Removal(_Record):
    """One recording that was deleted (in a dry run: would be). `size` in bytes."""

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
    """What was deleted (in a dry run: would be) from Redis: see `broker.stores.orphaned_keys`.

    `shares`: links to the recordings that were deleted. `error`: why Redis could not be swept.
    """

    streams: int = 0
    rows: int = 0
    consumers: int = 0
    shares: int = 0
    error: str | None = None


class SweepReport(_Record):
    """One sweep. `leftovers` counts half-deleted recordings and half-finished uploads."""

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
