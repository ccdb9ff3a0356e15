from collections import Counter

import pytest
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from antiphon.broker.keys import STREAM_SHARDS, Keys, shard_tag
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    PastSteps,
    PrepareIn,
    StopIn,
    StoppedOut,
    UnreadableEntry,
    pack,
    unpack,
)

SIDS = ["adx_1", "omni_x", "a", "-", "Z" * 64]


@pytest.fixture(params=["antiphon", "a.b-c_9"])
def keys(request: pytest.FixtureRequest) -> Keys:
    return Keys(request.param)


def test_all_keys_of_a_script_are_in_one_slot(keys: Keys) -> None:
    built = [keys.session(sid) for sid in SIDS] + [keys.worker(sid) for sid in SIDS]
    everything = [*keys.script_keys(), *built, keys.recorded(7)]
    assert len({key_slot(key.encode()) for key in everything}) == 1


def test_a_sessions_streams_share_a_separate_slot(keys: Keys) -> None:
    slots = [key_slot(keys.inbound(sid).encode()) for sid in SIDS]
    assert slots == [key_slot(keys.outbound(sid).encode()) for sid in SIDS]
    for sid, slot in zip(SIDS, slots, strict=True):
        assert {key_slot(key.encode()) for key in keys.streams(sid)} == {slot}
        assert slot * 128 // 16384 == key_slot(sid.encode()) * 128 // 16384
    assert len(set(slots)) == len(SIDS)


def test_no_two_keys_are_the_same(keys: Keys) -> None:
    made = [*keys.script_keys(), keys.recorded(1), keys.recorded(11)]
    for sid in SIDS:
        made += [keys.session(sid), keys.worker(sid), keys.inbound(sid), keys.outbound(sid)]
    assert len(set(made)) == len(made)


def test_the_documented_key_names() -> None:
    keys = Keys()
    assert keys.queue == "{antiphon}:queue"
    assert keys.session("adx_1") == "{antiphon}:session:adx_1"
    assert keys.inbound("adx_1") == "antiphon:in:{s356}:adx_1"
    assert keys.outbound("adx_1") == "antiphon:out:{s356}:adx_1"


def test_a_stream_key_decodes_only_the_entries_of_its_stream(keys: Keys) -> None:
    past = PastSteps(last_input="1-0", last_output="1-0", count=1, steps=[])
    prepare = PrepareIn(system_prompt="", config=DuplexConfig())
    streams = {
        keys.inbound("s"): {StopIn, PrepareIn},
        keys.outbound("s"): {StoppedOut},
        keys.past("s"): {PastSteps, PrepareIn},
    }
    for key, allowed in streams.items():
        for entry in (StopIn(), StoppedOut(), past, prepare):
            flat = pack(entry)
            data = dict(zip(flat[::2], flat[1::2], strict=True))
            if type(entry) in allowed:
                assert unpack(data, key.entries) == entry
            else:
                with pytest.raises(UnreadableEntry, match="does not belong"):
                    unpack(data, key.entries)


MANY_SIDS = [f"adx_{number}" for number in range(64 * STREAM_SHARDS)]


def master_of(key: str, masters: int) -> int:
    """The owner of a key's slot when masters have equal and contiguous ranges of slots."""
    return key_slot(key.encode()) * masters // REDIS_CLUSTER_HASH_SLOTS


def test_there_are_as_many_tags_as_shards_and_each_is_in_another_slot() -> None:
    tags = {shard_tag(sid) for sid in MANY_SIDS}
    assert len(tags) == STREAM_SHARDS
    assert len({key_slot(tag.encode()) for tag in tags}) == STREAM_SHARDS


@pytest.mark.parametrize("masters", [1, 2, 3, 4, 6, 8])
def test_each_master_gets_an_equal_share_of_shards_and_sessions(masters: int) -> None:
    tags = {shard_tag(sid) for sid in MANY_SIDS}
    shards = Counter(master_of(f"{{{tag}}}", masters) for tag in tags)
    assert max(shards.values()) - min(shards.values()) <= 1
    sessions = Counter(master_of(Keys().inbound(sid), masters) for sid in MANY_SIDS)
    assert len(sessions) == masters
    assert max(sessions.values()) < 1.05 * len(MANY_SIDS) / masters


def test_the_tags_stay_the_same() -> None:
    """Other tags need a new version of the keys."""
    sids = ("adx_1", "omni_x", "a", "-", "Z" * 64)
    assert [shard_tag(sid) for sid in sids] == ["s356", "s57", "s366", "s313", "s48"]
