"""Small registries: uploaded voices, disabled pages, share links, and the progress of recorders."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import orjson
from pydantic import TypeAdapter

from antiphon.broker.clock import RedisClock
from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import SharesFull, VoicesFull
from antiphon.broker.keys import OPEN_SESSION_TTL_S, Keys
from antiphon.broker.rows import call_on_row, read_row, read_rows, whole_number
from antiphon.broker.scripts import Scripts, control_script
from antiphon.shared_schemas.ids import new_share_token
from antiphon.shared_schemas.voices import Voice

_UNLISTED_TTL_S = 60
"""Lifetime of audio until its voice is stored. If an edge dies before that, `_rows` removes the row."""


_VOICE = TypeAdapter(Voice)


class VoiceStore:
    """The list is one small hash; the audio of each voice (16-bit mono PCM) has a separate key."""

    def __init__(self, redis: RedisClient, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def add(self, voice: Voice, pcm: bytes, *, at_most: int) -> None:
        """Store a new voice. Raises VoicesFull when there are `at_most` already."""
        sound = self._keys.voice(voice.id)
        await self._redis.call("SET", sound, pcm, "EX", _UNLISTED_TTL_S)
        _, count = await self._redis.call_all(
            ("HSET", self._keys.ref_audio, voice.id, _pack(voice)),
            ("HLEN", self._keys.ref_audio),
        )
        if int(count) > at_most and len(await self._rows()) > at_most:
            await self.remove(voice.id)
            raise VoicesFull(at_most)
        await self._redis.call("PERSIST", sound)

    async def all(self) -> list[Voice]:
        """Every voice, oldest first."""
        rows = (await self._rows()).items()
        voices = read_rows("ref_audio", rows, lambda key, row: _unpack(key.decode(), row))
        return sorted(voices, key=lambda voice: (voice.created_at, voice.id))

    async def get(self, voice_id: str) -> Voice | None:
        row = await call_on_row(self._redis, "HGET", self._keys.ref_audio, voice_id)
        return read_row(f"ref_audio:{voice_id}", lambda: _unpack(voice_id, row)) if row else None

    async def sound(self, voice_id: str) -> bytes | None:
        """16-bit PCM at 16 kHz, or None when the id is unknown."""
        pcm: bytes | None = await self._redis.call("GET", self._keys.voice(voice_id))
        return pcm

    async def remove(self, voice_id: str) -> bool:
        """Delete a voice; False when there was none. Sessions that use it continue."""
        listed = await self._redis.call("HDEL", self._keys.ref_audio, voice_id)
        await self._redis.call("DEL", self._keys.voice(voice_id))
        return int(listed) == 1

    async def _rows(self) -> dict[bytes, bytes]:
        """The rows of voices with audio. Removes the others: their edge died before it kept the audio."""
        rows = await call_on_row(self._redis, "HGETALL", self._keys.ref_audio) or {}
        sounds = {key: self._keys.voice(key.decode(errors="replace")) for key in rows}
        lost = [key for key in rows if not await self._redis.call("EXISTS", sounds[key])]
        if lost:
            await self._redis.call("HDEL", self._keys.ref_audio, *lost)
        return {key: row for key, row in rows.items() if key not in lost}


def _pack(voice: Voice) -> bytes:
    return orjson.dumps(
        {"name": voice.name, "duration_ms": voice.duration_ms, "created_at": voice.created_at}
    )


def _unpack(voice_id: str, row: bytes) -> Voice:
    return _VOICE.validate_python({**orjson.loads(row), "id": voice_id})


class AppSwitches:
    """The `apps` hash. A page without an entry is enabled."""

    def __init__(self, redis: RedisClient, keys: Keys) -> None:
        self._redis = redis
        self._key = keys.apps

    async def disabled(self) -> frozenset[str]:
        names = await call_on_row(self._redis, "HKEYS", self._key) or ()
        return frozenset(name.decode(errors="replace") for name in names)

    async def is_disabled(self, app_id: str) -> bool:
        return bool(await call_on_row(self._redis, "HEXISTS", self._key, app_id))

    async def switch(self, app_id: str, *, enabled: bool) -> None:
        """Takes effect with the next connection to any edge; running sessions continue."""
        if enabled:
            await self._redis.call("HDEL", self._key, app_id)
        else:
            await self._redis.call("HSET", self._key, app_id, "off")


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

    async def create(self, recording: str, life_s: float | None = None) -> Share:
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
        rows = zip(repeat(b"shares"), flat[::2], flat[1::2])  # a log line has no token
        return list(read_rows("share", rows, _read_share))

    async def revoke(self, recording: str, token: str) -> bool:
        """Revoke one of a recording's links; False when it has no such link."""
        return await self._scripts.run(_unshare, recording, token) == 1

    async def forget(self, recording: str) -> int:
        """Revoke all links of a recording; returns how many."""
        return await self._scripts.run(_unshare, recording, "")


def _read_share(_name: bytes, token: bytes, score: bytes) -> Share:
    expires_at = float(score)
    return Share(token.decode(), None if math.isinf(expires_at) else int(expires_at))


_AT_ONCE = 200
"""Sessions per script, so that no script holds Redis up."""


@control_script
def _save_progress(reply: None, ttl_s: int, progress: Mapping[str, bytes]) -> None:
    """Nothing to decode."""


class RecorderProgress:
    """The `recorded:<ticket>` hash: one JSON value per session."""

    def __init__(self, redis: RedisClient, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def load(self, ticket: int) -> dict[str, Any] | None:
        """The last saved progress; None without one, or if it is malformed."""
        raw = await call_on_row(self._redis, "HGET", self._keys.recorded(ticket), "progress")
        return read_row(f"recorded:{ticket}", lambda: _read(raw)) if raw else None

    async def save(self, progress: Mapping[int, Mapping[str, Any]]) -> None:
        """Save progress by ticket. Everything that it covers must be on disk."""
        values = [(str(ticket), orjson.dumps(value)) for ticket, value in progress.items()]
        for part in (values[i : i + _AT_ONCE] for i in range(0, len(values), _AT_ONCE)):
            await self._scripts.run(_save_progress, OPEN_SESSION_TTL_S, dict(part))

    async def clear(self, ticket: int) -> None:
        await self._redis.call("DEL", self._keys.recorded(ticket))


def _read(raw: bytes) -> dict[str, Any]:
    progress: dict[str, Any] = orjson.loads(raw)
    whole_number(progress["at"])
    return progress
