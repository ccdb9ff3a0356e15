"""Share links: which recording they open, until when, and after a restart."""

import asyncio

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.errors import SharesFull
from antiphon.broker.stores import MOST_SHARES
from antiphon.shared_schemas.ids import is_share_token, new_recording_id

pytestmark = pytest.mark.on_cluster


async def test_a_link_opens_its_recording_until_it_is_revoked(broker: Broker) -> None:
    one, other = new_recording_id(), new_recording_id()
    share = await broker.shares.create(one)
    assert is_share_token(share.token)
    assert share.expires_at is None
    assert await broker.shares.recording(share.token) == one
    assert not await broker.shares.revoke(other, share.token)
    assert await broker.shares.recording(share.token) == one
    assert await broker.shares.revoke(one, share.token)
    assert await broker.shares.recording(share.token) is None
    assert not await broker.shares.revoke(one, share.token)
    assert await broker.shares.of(one) == []


async def test_a_link_expires(broker: Broker, raw: Redis) -> None:
    recording = new_recording_id()
    brief = await broker.shares.create(recording, 0.05)
    long = await broker.shares.create(recording, 3600)
    assert brief.expires_at is not None
    assert long.expires_at is not None
    assert 3_500_000 < long.expires_at - brief.expires_at < 3_700_000
    await asyncio.sleep(0.1)
    assert await broker.shares.recording(brief.token) is None
    assert await broker.shares.of(recording) == [long]
    assert await raw.pttl(broker.keys.share(long.token)) > 3_500_000


async def test_expired_links_leave_no_keys(broker: Broker, raw: Redis) -> None:
    recording = new_recording_id()
    listed = broker.keys.shares(recording)
    await broker.shares.create(recording, 60)
    assert 0 < await raw.pttl(listed) <= 60_000
    await broker.shares.create(recording, 120)
    assert 60_000 < await raw.pttl(listed) <= 120_000
    await broker.shares.create(recording)
    assert await raw.pttl(listed) == -1
    assert await broker.shares.forget(recording) == 3
    assert await raw.keys(f"*{broker.keys.share('*')}") == []
    assert await raw.exists(listed) == 0


async def test_links_are_listed_in_the_order_of_their_expiry(broker: Broker) -> None:
    recording = new_recording_id()
    shares = [await broker.shares.create(recording, life) for life in (None, 60, 30)]
    await broker.shares.create(new_recording_id())
    assert await broker.shares.of(recording) == shares[::-1]


async def test_the_number_of_links_of_a_recording_is_limited(broker: Broker) -> None:
    recording = new_recording_id()
    await broker.shares.create(recording, 0.02)
    for _ in range(MOST_SHARES - 1):
        await broker.shares.create(recording)
    await asyncio.sleep(0.05)
    last = await broker.shares.create(recording)  # replaces the one that expired
    with pytest.raises(SharesFull, match="revoke one first"):
        await broker.shares.create(recording)
    assert await broker.shares.revoke(recording, last.token)
    await broker.shares.create(recording)
