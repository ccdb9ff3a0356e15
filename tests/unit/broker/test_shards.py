"""The shards of the streams are spread evenly over the slots of a cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from antiphon.broker.keys import Keys
from antiphon.broker.shards import STREAM_SHARDS, shard_tag

SIDS = [f"adx_{number}" for number in range(64 * STREAM_SHARDS)]


def master_of(key: str, masters: int) -> int:
    """The owner of a key's slot when masters have equal and contiguous ranges of slots."""
    return key_slot(key.encode()) * masters // REDIS_CLUSTER_HASH_SLOTS


def test_there_are_as_many_tags_as_shards_and_each_is_in_another_slot() -> None:
    tags = {shard_tag(sid) for sid in SIDS}
    assert len(tags) == STREAM_SHARDS
    assert len({key_slot(tag.encode()) for tag in tags}) == STREAM_SHARDS


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 6, 8])
def test_each_master_gets_an_equal_share_of_shards_and_sessions(masters: int) -> None:
    tags = {shard_tag(sid) for sid in SIDS}
    shards = Counter(master_of(f"{{{tag}}}", masters) for tag in tags)
    assert max(shards.values()) - min(shards.values()) <= 1
    sessions = Counter(master_of(Keys().inbound(sid), masters) for sid in SIDS)
    assert len(sessions) == masters
    assert max(sessions.values()) < 1.05 * len(SIDS) / masters


def test_the_tags_stay_the_same() -> None:
    """Other tags need a new version of the keys."""
    sids = ("adx_1", "omni_x", "a", "-", "Z" * 64)
    assert [shard_tag(sid) for sid in sids] == ["s356", "s57", "s366", "s313", "s48"]
