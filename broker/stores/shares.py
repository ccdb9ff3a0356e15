"""Share links: tokens that open one recording until they expire or are revoked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from antiphon.broker.connections.client import RedisClient, RedisClock
from antiphon.broker.errors import SharesFull
from antiphon.broker.keys import Keys
from antiphon.broker.malformed_rows import call_on_row, read_row, read_rows
from antiphon.broker.scripts import Scripts, control_script
from antiphon.shared_schemas.ids import new_share_token

MOST_SHARES = 100
"""Links that one recording may have at the same time."""

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Share:
    """A link to one recording. `expires_at` is Redis-clock ms; None until the link is revoked."""

    token: str
    expires_at: int | None


@control_script
def _share(reply: int, token: str, recording: str, life_ms: int | None, most: int) -> Share:
    if not reply:
        raise SharesFull(most)
    return Share(token, None if reply == _NEVER else reply)


@control_script
def _unshare(reply: int, recording: str, token: str) -> int:
    return reply


class ShareStore:
    """The share links of all recordings."""

    def __init__(self, redis: RedisClient, keys: Keys, scripts: Scripts, clock: RedisClock) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._clock = clock

    async def make(self, recording: str, life_s: float | None = None) -> Share:
        """A new link, for `life_s` or until it is revoked. Raises SharesFull."""
        life_ms = None if life_s is None else round(life_s * 1000)
        args = (new_share_token(), recording, life_ms, MOST_SHARES)
        return await self._scripts.run(_share, *args)

    async def recording(self, token: str) -> str | None:
        """The recording that a link opens; None when there is no such link."""
        found: bytes | None = await call_on_row(self._redis, "GET", self._keys.share(token))
        return read_row("share", found.decode) if found else None

    async def of(self, recording: str) -> list[Share]:
        """The links of a recording, those that expire first in front."""
        now = round(self._clock.now_ms())
        head = ("ZRANGEBYSCORE", self._keys.shares(recording), f"({now}", "+inf", "WITHSCORES")
        flat = await call_on_row(self._redis, *head) or []
        rows = ((b"shares", pair) for pair in zip(flat[::2], flat[1::2], strict=True))
        return list(
            read_rows("share", rows, lambda row: Share(row[0].decode(), _expiry(float(row[1]))))
        )

    async def revoke(self, recording: str, token: str) -> bool:
        """Revoke one of a recording's links; False when it has no such link."""
        return await self._scripts.run(_unshare, recording, token) == 1

    async def forget(self, recording: str) -> int:
        """Revoke all links of a recording; returns how many."""
        return await self._scripts.run(_unshare, recording, "")


def _expiry(score: float) -> int | None:
    return None if math.isinf(score) else int(score)
