"""Share links: tokens that open one recording until they expire or are revoked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from redis.asyncio import Redis

from antiphon.broker.connection import RedisClock, call
from antiphon.broker.errors import SharesFull
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import Scripts
from antiphon.shared_schemas.ids import new_share_token

MOST_SHARES = 100
"""Links that one recording may have at once."""

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Share:
    """A link to one recording. `expires_at` is Redis-clock ms; None until the link is revoked."""

    token: str
    expires_at: int | None


class ShareStore:
    """The links of all recordings, for every edge alike."""

    def __init__(self, redis: Redis, keys: Keys, scripts: Scripts, clock: RedisClock) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._clock = clock

    async def make(self, recording: str, life_s: float | None = None) -> Share:
        """A new link, for `life_s` or until it is revoked. Raises SharesFull."""
        token = new_share_token()
        life_ms = "" if life_s is None else round(life_s * 1000)
        expires = int(await self._scripts.run("share", token, recording, life_ms, MOST_SHARES))
        if not expires:
            raise SharesFull(MOST_SHARES)
        return Share(token, None if expires == _NEVER else expires)

    async def recording(self, token: str) -> str | None:
        """What a link opens; None when it has expired, was revoked, or never was."""
        found: bytes | None = await call(self._redis, "GET", self._keys.share(token))
        return found.decode() if found else None

    async def of(self, recording: str) -> list[Share]:
        """Its links, those that expire first in front."""
        now = round(self._clock.now_ms())
        head = ("ZRANGEBYSCORE", self._keys.shares(recording), f"({now}", "+inf", "WITHSCORES")
        flat = await call(self._redis, *head)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [Share(token.decode(), _expiry(float(at))) for token, at in pairs]

    async def revoke(self, recording: str, token: str) -> bool:
        """Close one of a recording's links; False when it has no such link."""
        return int(await self._scripts.run("unshare", recording, token)) == 1

    async def forget(self, recording: str) -> int:
        """Close all links of a recording; returns how many."""
        return int(await self._scripts.run("unshare", recording, ""))


def _expiry(score: float) -> int | None:
    return None if math.isinf(score) else int(score)
