"""The shards of the streams: where a Redis Cluster stores the streams of each session.

All streams of a shard have one hash tag, so they are in one slot and one XREAD can read them. The slots
of the shards are spread evenly over the slots, so masters with equal ranges of slots get equal numbers
of shards.
"""

from __future__ import annotations

import functools
import itertools

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

STREAM_SHARDS = 128
"""Stored beside the version of the keys. Another number moves the streams to other keys."""


def shard_tag(sid: str) -> str:
    """The hash tag of a session's streams: that of the shard whose range has the slot of the id."""
    return _tags()[_shard_of(sid)]


def _shard_of(text: str) -> int:
    return key_slot(text.encode()) * STREAM_SHARDS // REDIS_CLUSTER_HASH_SLOTS


@functools.cache
def _tags() -> dict[int, str]:
    """For each shard the first of `s0`, `s1`, … whose slot is in its range of slots."""
    tags: dict[int, str] = {}
    numbers = itertools.count()
    while len(tags) < STREAM_SHARDS:
        tag = f"s{next(numbers)}"
        tags.setdefault(_shard_of(tag), tag)
    return tags
