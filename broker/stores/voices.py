"""Uploaded reference voices, shared by all edges."""

from __future__ import annotations

import orjson
from pydantic import TypeAdapter

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import VoicesFull
from antiphon.broker.keys import Keys
from antiphon.broker.malformed_rows import call_on_row, read_row, read_rows
from antiphon.shared_schemas.voices import Voice

_UNLISTED_TTL_S = 60
"""Lifetime of audio that is not listed yet: an edge that dies in between leaves nothing behind."""


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
        if int(count) > at_most:
            await self.remove(voice.id)
            raise VoicesFull(at_most)
        await self._redis.call("PERSIST", sound)

    async def all(self) -> list[Voice]:
        """Every voice, oldest first."""
        rows = await call_on_row(self._redis, "HGETALL", self._keys.ref_audio) or {}
        pairs = ((key, (key, value)) for key, value in rows.items())
        voices = read_rows("ref_audio", pairs, lambda pair: _unpack(pair[0].decode(), pair[1]))
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


def _pack(voice: Voice) -> bytes:
    return orjson.dumps(
        {"name": voice.name, "duration_ms": voice.duration_ms, "created_at": voice.created_at}
    )


def _unpack(voice_id: str, row: bytes) -> Voice:
    return _VOICE.validate_python({**orjson.loads(row), "id": voice_id})
