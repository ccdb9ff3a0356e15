"""The broker on a real cluster: routing, redirections while a slot moves, lost masters."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.connections.client import RedisClient
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.orphaned_keys import RemovedKeys
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from antiphon.shared_schemas.findings import FindingStatus
from support.control_plane import claim, join, serve, waiting
from support.redis_cluster import ClusterNode, RedisCluster, redis_cluster

pytestmark = pytest.mark.extended

TICKET = 1_700_000_000_000
SOON_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def settings(cluster: RedisCluster) -> BrokerSettings:
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    return BrokerSettings(redis_url=cluster.url, key_prefix=prefix, redis_timeout_s=30.0)


@pytest.fixture
async def redis(broker: Broker) -> RedisClient:
    return broker._redis


class MovingSlot:
    """The slot of a key, whose keys are on two servers: those that exist have not moved yet."""

    def __init__(self, cluster: RedisCluster, key: str) -> None:
        self.slot = key_slot(key.encode())
        self.source = cluster.master_of(self.slot)
        self.target = next(node for node in cluster.masters if node is not self.source)

    def begin(self) -> None:
        self.target.cluster("SETSLOT", self.slot, "IMPORTING", self.source.id)
        self.source.cluster("SETSLOT", self.slot, "MIGRATING", self.target.id)

    def move(self, key: str) -> None:
        self.source.admin.execute_command("MIGRATE", "127.0.0.1", self.target.port, key, 0, 10_000)

    def finish(self, *others: ClusterNode) -> None:
        for node in (self.target, self.source, *others):
            node.cluster("SETSLOT", self.slot, "NODE", self.target.id)


async def test_a_session_uses_keys_on_every_master(broker: Broker, cluster: RedisCluster) -> None:
    await serve(broker, slots=40)
    sids = [f"s{number}" for number in range(40)]
    positions: dict[str, StreamPosition] = {}
    for sid in sids:
        ticket = await join(broker, sid)
        assert (await claim(broker)).sid == sid
        writer = await broker.streams.input_writer(sid, ticket.number)
        positions[sid] = await writer.append(ChunkIn(audio=sid.encode()))
    for node in cluster.masters:
        assert node.admin.keys(f"{broker.keys.prefix}:in:*")
    for sid in sids:
        start = StreamPosition.before(positions[sid].ticket)
        async with broker.reader.subscribe(broker.keys.inbound(sid), start) as subscription:
            async with asyncio.timeout(SOON_S):
                position, entry = await anext(subscription)
        assert position == positions[sid]
        assert isinstance(entry, ChunkIn)
        assert entry.audio == sid.encode()
    snapshot = await broker.queue.snapshot()
    assert {row.sid for row in snapshot.running} == set(sids)
    await broker.measure_memory()
    broker.check_memory()


async def test_a_sweep_finds_the_streams_on_every_master(
    broker: Broker, cluster: RedisCluster
) -> None:
    for number in range(40):
        writer = await broker.streams.input_writer(f"s{number}", TICKET)
        await writer.append(ChunkIn(audio=b""))
    await join(broker, "newer")
    assert (await broker.orphaned_keys.sweep(dry_run=True)).streams == 40
    assert (await broker.orphaned_keys.sweep()).streams == 40
    assert await broker.orphaned_keys.sweep() == RemovedKeys(0, 0, 0)


async def test_calls_follow_a_slot_that_has_moved(
    redis: RedisClient, cluster: RedisCluster
) -> None:
    key = f"{uuid.uuid4()}"
    await redis.call("SET", key, "1")
    for _ in range(2):
        moving = MovingSlot(cluster, key)
        cluster.move_slot(moving.slot, moving.target)
        assert await redis.call("INCR", key) > 1
        assert await redis.call_all(("INCR", key), ("PERSIST", key))
        assert await redis.call_pipelined("EXISTS", key) == 1
    assert await redis.call("GET", key) == b"5"


async def test_calls_follow_the_keys_of_a_slot_that_is_being_moved(
    redis: RedisClient, cluster: RedisCluster
) -> None:
    tag = uuid.uuid4()
    there, here, neither = (f"{{{tag}}}:{name}" for name in ("there", "here", "neither"))
    for key in (there, here):
        await redis.call("SET", key, "1")
    moving = MovingSlot(cluster, there)
    moving.begin()
    moving.move(there)
    for key in (there, here):
        assert await redis.call("INCR", key) == 2
        assert await redis.call_pipelined("INCR", key) == 3
    assert await redis.call("HGETALL", neither) == {}
    assert await redis.call("EVAL", "return redis.call('INCR', KEYS[1])", 1, there) == 4
    split = asyncio.create_task(redis.call("MGET", there, here))
    transaction = asyncio.create_task(redis.call_all(("INCR", there), ("INCR", there)))
    await asyncio.sleep(0.1)
    assert not split.done()
    assert not transaction.done()
    moving.move(here)
    moving.finish(*cluster.masters)
    async with asyncio.timeout(SOON_S):
        assert await transaction == [5, 6]
        assert (await split)[1] == b"3"


async def test_scripts_wait_for_the_end_of_a_move_of_the_control_slot(
    broker: Broker, cluster: RedisCluster
) -> None:
    """A script that ran on a part of the keys would stop in the middle."""
    await serve(broker)
    await join(broker, "first")
    keys, raw = broker.keys, broker._redis
    for key in (keys.leases, keys.trials, keys.edges):
        await raw.call("ZADD", key, 9e12, "other")
    for key in (keys.eta, keys.reaper):
        await raw.call("HSET", key, "field", 1)
    moving = MovingSlot(cluster, keys.control)
    moving.begin()
    joining = asyncio.create_task(join(broker, "second"))
    for key in moving.source.cluster("GETKEYSINSLOT", moving.slot, 100):
        await asyncio.sleep(0.05)
        assert not joining.done()
        moving.move(key)
    await asyncio.sleep(0.05)
    assert not joining.done()
    moving.finish(*cluster.masters)
    async with asyncio.timeout(SOON_S):
        assert (await joining).position == 2
    assert await waiting(broker) == ["first", "second"]


async def test_a_reader_follows_a_stream_that_moves(broker: Broker, cluster: RedisCluster) -> None:
    key = broker.keys.inbound("s")
    writer = await broker.streams.input_writer("s", TICKET)
    async with broker.reader.subscribe(key, StreamPosition.before(TICKET)) as subscription:
        for number in range(30):
            await writer.append(ChunkIn(audio=bytes([number])))
            if number % 10 == 5:
                moving = MovingSlot(cluster, key)
                cluster.move_slot(moving.slot, moving.target)
        async with asyncio.timeout(SOON_S):
            received = [(await anext(subscription))[1] for _ in range(30)]
    assert [entry.audio for entry in received if isinstance(entry, ChunkIn)] == [
        bytes([number]) for number in range(30)
    ]


def is_replicated(master: ClusterNode) -> bool:
    """The replica has everything that its master has written."""
    state = master.admin.info("replication")
    return bool(state["slave0"]["offset"] == state["master_repl_offset"])


async def test_a_replica_replaces_a_lost_master(broker: Broker, cluster: RedisCluster) -> None:
    key = broker.keys.inbound("s")
    start = StreamPosition.before(TICKET)
    writer = await broker.streams.input_writer("s", TICKET)
    async with broker.reader.subscribe(key, start) as subscription:
        await writer.append(ChunkIn(audio=b"0"))
        await anext(subscription)
        lost = cluster.master_of(key)
        async with asyncio.timeout(SOON_S):
            while not is_replicated(lost):
                await asyncio.sleep(0.02)
        lost.kill()
        with pytest.raises(BrokerUnavailable):
            await writer.append(ChunkIn(audio=b"1"))
        await retry_until_available(
            lambda: writer.append(ChunkIn(audio=b"1")), "write", patience_s=SOON_S
        )
        async with asyncio.timeout(SOON_S):
            _, entry = await anext(subscription)
        assert isinstance(entry, ChunkIn)
        assert entry.audio == b"1"
        await broker.measure_memory()
    await asyncio.to_thread(lost.start)
    await asyncio.to_thread(cluster.wait_until_ok)


async def test_every_node_gets_the_user_and_the_password(
    cluster: RedisCluster, settings: BrokerSettings, tmp_path: Path
) -> None:
    for node in cluster.nodes:
        node.admin.execute_command("ACL", "SETUSER", "anna", "on", ">word", "~*", "&*", "+@all")
    password = tmp_path / "password"
    password.write_text("word\n")
    url = cluster.url.replace("redis+cluster://", "redis+cluster://anna@")
    named = settings.model_copy(update={"redis_url": url, "redis_password_file": password})
    async with open_broker(named) as broker:
        for node in await broker._redis.masters():
            assert await node.call("ACL", "WHOAMI") == b"anna"
        async with broker.reader.subscribe(
            broker.keys.inbound("s"), StreamPosition.before(TICKET)
        ) as subscription:
            writer = await broker.streams.input_writer("s", TICKET)
            await writer.append(ChunkIn(audio=b"sound"))
            async with asyncio.timeout(SOON_S):
                await anext(subscription)
    password.write_text("other\n")
    with pytest.raises(BrokerUnavailable, match="invalid username-password"):
        async with open_broker(named):
            pass


async def test_doctor_examines_every_server(
    cluster: RedisCluster, settings: BrokerSettings
) -> None:
    async with open_broker(settings):
        pass
    found = {finding.about: finding for finding in await examine_redis(settings)}
    assert found["redis cluster"].verdict is FindingStatus.OK
    assert found["redis cluster"].found == "3 masters, all slots"
    assert found["redis replicas"].verdict is FindingStatus.WARNING
    assert "1 for each master; without min-replicas-to-write" in found["redis replicas"].found
    assert found["redis eviction"].found == "noeviction (all 6 servers)"
    assert found["redis keys"].verdict is FindingStatus.OK
    assert found["redis writes"].verdict is FindingStatus.OK
    full = cluster.masters[1]
    full.admin.config_set("maxmemory", "1")
    writes = {finding.about: finding for finding in await examine_redis(settings)}["redis writes"]
    full.admin.config_set("maxmemory", "0")
    assert writes.verdict is FindingStatus.FAILURE
    assert f"{full.port}: OOM" in writes.found
    single = settings.model_copy(update={"redis_url": full.url})
    refused = {finding.about: finding for finding in await examine_redis(single)}
    assert refused["redis cluster"].found == "this server is one of 3 masters"
    assert "use redis+cluster://" in refused["redis cluster"].remedy
    lost = cluster.replicas[0]
    lost.kill()
    async with asyncio.timeout(SOON_S):
        while "none for" not in found["redis replicas"].found:
            await asyncio.sleep(0.1)
            found = {finding.about: finding for finding in await examine_redis(settings)}
    await asyncio.to_thread(lost.start)
    await asyncio.to_thread(cluster.wait_until_ok)
