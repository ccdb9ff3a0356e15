"""Decides which recordings to delete: by age, then by total size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

DAY_S = 86_400
GIB = 1024**3


class Rule(StrEnum):
    """Why a recording is deleted."""

    AGE = "age"
    SIZE = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """One session directory. Times are Unix seconds.

    `busy`: its recorder has not finished it. `serving`: Redis says that the session is live.
    """

    name: str
    size: int
    created: float
    last_used: float
    last_written: float
    busy: bool
    serving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits; a negative `max_age_s` or `max_bytes` switches that rule off.

    `wanted_bytes`: what the disk lacks, to be freed by the rule of size.
    """

    max_age_s: float
    max_bytes: float
    orphan_s: float
    wanted_bytes: float = 0.0

    def is_live(self, stored: StoredSession, now: float) -> bool:
        """True while the session is live, or a recorder may still write or merge there."""
        return stored.serving or (stored.busy and now - stored.last_written < self.orphan_s)


def decide(
    sessions: Sequence[StoredSession], policy: Policy, now: float
) -> list[tuple[StoredSession, Rule]]:
    """What to delete, in order. Live sessions are never deleted, but their size counts."""
    idle = [stored for stored in sessions if not policy.is_live(stored, now)]
    aged = [stored for stored in idle if 0 <= policy.max_age_s < now - stored.created]
    gone = {stored.name for stored in aged}
    kept = [stored for stored in idle if stored.name not in gone]
    total = sum(stored.size for stored in sessions if stored.name not in gone)
    wanted = policy.wanted_bytes - sum(stored.size for stored in aged)
    surplus = max(total - policy.max_bytes, wanted) if policy.max_bytes >= 0 else 0.0
    return [
        *((stored, Rule.AGE) for stored in sorted(aged, key=lambda s: s.created)),
        *((stored, Rule.SIZE) for stored in _least_used(kept, surplus)),
    ]


def _least_used(candidates: Iterable[StoredSession], surplus: float) -> Iterable[StoredSession]:
    """The least recently used, until `surplus` bytes are freed."""
    for stored in sorted(candidates, key=lambda s: (s.last_used, s.name)):
        if surplus <= 0:
            return
        surplus -= stored.size
        yield stored
