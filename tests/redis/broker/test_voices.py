"""Uploaded voices, shared by all edges."""

import asyncio

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import VoicesFull
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.voices import Voice, new_voice_id

pytestmark = pytest.mark.on_cluster


def voice(name: str = "Anna", created_at: int = 1) -> Voice:
    return Voice(id=new_voice_id(), name=name, duration_ms=1500, created_at=created_at)


async def test_a_voice_is_stored_and_listed_for_all_edges(
    broker: Broker, settings: BrokerSettings, raw: Redis
) -> None:
    anna, ben = voice("Anna", 2), voice("Bén", 1)
    async with open_broker(settings) as other:
        await broker.voices.add(anna, b"\x01\x02", at_most=5)
        await broker.voices.add(ben, b"\x03\x04", at_most=5)
        assert await other.voices.all() == [ben, anna]
        assert await other.voices.get(anna.id) == anna
        assert await other.voices.sound(anna.id) == b"\x01\x02"
    assert await raw.ttl(broker.keys.voice(anna.id)) == -1


async def test_a_removed_voice_leaves_no_keys(broker: Broker, raw: Redis) -> None:
    anna = voice()
    await broker.voices.add(anna, b"\x01\x02", at_most=5)
    assert await broker.voices.remove(anna.id)
    assert not await broker.voices.remove(anna.id)
    assert await broker.voices.all() == []
    assert await broker.voices.get(anna.id) is None
    assert await broker.voices.sound(anna.id) is None
    assert not await raw.exists(broker.keys.voice(anna.id))


async def test_the_limit_applies_to_concurrent_uploads(broker: Broker, raw: Redis) -> None:
    voices = [voice(str(number)) for number in range(12)]
    outcomes = await asyncio.gather(
        *(broker.voices.add(one, b"\0\0", at_most=4) for one in voices), return_exceptions=True
    )
    assert all(outcome is None or isinstance(outcome, VoicesFull) for outcome in outcomes)
    listed = await broker.voices.all()
    assert len(listed) <= 4
    assert len(listed) == outcomes.count(None)
    sounds = [key async for key in raw.scan_iter(f"{broker.keys.prefix}:voice:*")]
    assert len(sounds) == len(listed)
    while len(await broker.voices.all()) < 4:
        await broker.voices.add(voice(), b"\0\0", at_most=4)
    with pytest.raises(VoicesFull, match="4 uploaded voices"):
        await broker.voices.add(voice(), b"\0\0", at_most=4)


async def test_audio_that_was_never_listed_expires(
    broker: Broker, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge dies after it stored the audio and before it lists the voice."""
    anna = voice()
    monkeypatch.setattr(broker._redis, "call_all", _dies)
    with pytest.raises(asyncio.CancelledError):
        await broker.voices.add(anna, b"\0\0", at_most=4)
    assert 0 < await raw.ttl(broker.keys.voice(anna.id)) <= 60
    assert await broker.voices.all() == []


async def test_a_voice_that_is_listed_and_has_lost_its_audio_does_not_count(
    broker: Broker, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge dies after it listed the voice and before it keeps the audio."""
    anna, ben = voice("Anna", 1), voice("Ben", 2)
    call = broker._redis.call
    with monkeypatch.context() as patch:
        patch.setattr(
            broker._redis, "call", lambda *args: _dies() if args[0] == "PERSIST" else call(*args)
        )
        for one in (anna, ben):
            with pytest.raises(asyncio.CancelledError):
                await broker.voices.add(one, b"\0\0", at_most=2)
    assert await broker.voices.all() == [anna, ben]  # their audio exists for a minute
    await raw.delete(broker.keys.voice(anna.id))
    carl = voice("Carl", 3)
    await broker.voices.add(carl, b"\0\0", at_most=2)
    assert set(await raw.hkeys(broker.keys.ref_audio)) == {ben.id.encode(), carl.id.encode()}
    await raw.delete(broker.keys.voice(ben.id))
    assert await broker.voices.all() == [carl]
    assert await raw.hkeys(broker.keys.ref_audio) == [carl.id.encode()]


async def _dies(*_: object) -> None:
    raise asyncio.CancelledError
