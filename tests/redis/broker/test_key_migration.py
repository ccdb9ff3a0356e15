"""Keys of version 1, under the names that this version gave them, are migrated to version 2."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import IncompatibleRedis, ServicesRunning
from antiphon.broker.key_migration import migrate_keys
from antiphon.broker.keys import Keys
from antiphon.broker.settings import BrokerSettings
from support.control_plane import report, waiting
from support.recorder_conversations import (
    LiveTalk,
    assert_undisturbed,
    journal_lines,
    until,
    until_finished,
)
from support.recorder_process import in_process, quick
from support.redis_cluster import RedisCluster

pytestmark = pytest.mark.one_redis
STREAMS_1 = ("in", "out", "told", "begun")


@pytest.fixture
def brief(settings: BrokerSettings) -> BrokerSettings:
    """The heartbeat of a stopped service expires soon."""
    return settings.model_copy(update={"heartbeat_ttl_s": 0.5})


async def to_version_1(raw: Redis, keys: Keys, *sids: str) -> None:
    for sid in sids:
        for key in keys.streams(sid):
            name = key.split(":")[1]
            if await raw.exists(key):
                assert name in STREAMS_1
                await raw.rename(key, f"{keys.prefix}:{name}:{{{sid}}}")
        await raw.hdel(keys.session(sid), "shard")
    await raw.delete(keys.config)
    await raw.hset(keys.config, "contract", "1")


async def version(raw: Redis, keys: Keys) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = await raw.hgetall(keys.config)
    return found


async def test_a_recording_that_is_not_complete_is_finished(
    broker: Broker, raw: Redis, brief: BrokerSettings, tmp_path: Path
) -> None:
    quickly = quick(brief, tmp_path / "data")
    talk = await LiveTalk.begin(broker)
    async with in_process(quickly):
        for seed in range(6):
            await talk.exchange(seed)
        await until(lambda: journal_lines(quickly.data_dir, talk) >= 8, "it is being recorded")
    for seed in range(6, 12):
        await talk.exchange(seed)
    await talk.end()
    await to_version_1(raw, broker.keys, talk.sid)
    assert (await migrate_keys(brief)).streams == 2
    async with in_process(quickly):
        await until_finished(quickly.data_dir, talk)
    assert_undisturbed(quickly.data_dir, talk)


async def test_a_live_session_continues(broker: Broker, raw: Redis, brief: BrokerSettings) -> None:
    talk = await LiveTalk.begin(broker)
    queued = await LiveTalk.queue(broker)
    await talk.exchange(1)
    said = await talk.script()
    row = await raw.hgetall(broker.keys.session(talk.sid))
    await to_version_1(raw, broker.keys, talk.sid, queued.sid)
    await migrate_keys(brief)
    assert await talk.script() == said
    assert await raw.hgetall(broker.keys.session(talk.sid)) == row
    assert await raw.hget(broker.keys.session(queued.sid), "shard")
    assert await waiting(broker) == [queued.sid]
    assert await raw.ttl(broker.keys.inbound(talk.sid)) > 0
    await talk.exchange(2)  # the same writers and positions
    assert len(await talk.script()) == len(said) + 2
    async with open_broker(brief):
        pass


async def test_it_is_refused_while_services_run(
    broker: Broker, raw: Redis, brief: BrokerSettings, tmp_path: Path
) -> None:
    talk = await LiveTalk.queue(broker)
    await broker.streams.input_writer(talk.sid, talk.ticket)
    async with in_process(quick(brief, tmp_path / "data")):
        while not await raw.xinfo_groups(broker.keys.events):
            await asyncio.sleep(0.02)
        await to_version_1(raw, broker.keys, talk.sid)
        await broker.registry.worker_beat("w7", 0, report())
        await broker.registry.edge_beat("e7", [])
        patient = brief.model_copy(update={"heartbeat_ttl_s": 600.0})
        with pytest.raises(ServicesRunning, match=r": edge e1, edge e7, worker w7, recorder recor"):
            await migrate_keys(patient, patience_s=0.2)
    assert await version(raw, broker.keys) == {b"contract": b"1"}
    assert await raw.exists(f"{brief.key_prefix}:in:{{{talk.sid}}}")


async def test_no_service_starts_before_the_migration_or_after_an_interrupted_one(
    broker: Broker, raw: Redis, brief: BrokerSettings
) -> None:
    talks = [await LiveTalk.begin(broker) for _ in range(3)]
    said = [await talk.script() for talk in talks]
    await to_version_1(raw, broker.keys, *(talk.sid for talk in talks))
    with pytest.raises(IncompatibleRedis, match=r"version 1 .* run `antiphon migrate-keys`"):
        async with open_broker(brief):
            pass
    # What an interruption after the first stream leaves:
    await raw.hset(broker.keys.config, "contract", "1 to 2")
    first = broker.keys.inbound(talks[0].sid)
    await raw.rename(f"{brief.key_prefix}:in:{{{talks[0].sid}}}", first)
    with pytest.raises(IncompatibleRedis, match=r"version 1 to 2 .* run `antiphon migrate-keys`"):
        async with open_broker(brief):
            pass
    assert (await migrate_keys(brief)).streams == 5
    assert [await talk.script() for talk in talks] == said
    assert await version(raw, broker.keys) == {b"contract": b"2", b"shards": b"128"}


async def test_there_is_nothing_to_migrate(raw: Redis, brief: BrokerSettings) -> None:
    assert (await migrate_keys(brief)).found is None
    async with open_broker(brief):
        pass
    assert (await migrate_keys(brief)).found == "2"
    await raw.hset(Keys(brief.key_prefix).config, "contract", "999")
    with pytest.raises(IncompatibleRedis, match=r"version 999 cannot be migrated"):
        await migrate_keys(brief)


async def test_a_cluster_is_refused(settings: BrokerSettings, cluster: RedisCluster) -> None:
    config = Keys(settings.key_prefix).config
    on_cluster = settings.model_copy(update={"redis_url": cluster.url})
    admin = cluster.master_of(config).admin
    admin.hset(config, "contract", "1")
    with pytest.raises(IncompatibleRedis, match="migrate them on the single server"):
        await migrate_keys(on_cluster)
    assert admin.hgetall(config) == {"contract": "1"}
