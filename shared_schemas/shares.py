"""Links that open one recording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """One link. `expires_at`: Redis-clock ms, None when it opens until it is revoked."""

    token: str
    expires_at: int | None
