"""A Redis Cluster moves slots and loses masters while sessions talk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from support.failover.talk import Talk, TalkingStack, talking_stack
from support.redis_cluster import ClusterNode, RedisCluster, redis_cluster

CLIENTS = 16
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def talking(
    tmp_path_factory: pytest.TempPathFactory, cluster: RedisCluster
) -> Iterator[TalkingStack]:
    with talking_stack(tmp_path_factory.mktemp("stack"), cluster) as running:
        yield running


async def kill(talking: TalkingStack, cluster: RedisCluster, master: ClusterNode) -> None:
    async def lose(_: Talk) -> None:
        master.kill()
        await asyncio.to_thread(cluster.wait_until_ok)

    report = await talking.talk_through(lose, clients=CLIENTS)
    master.start()
    await asyncio.to_thread(cluster.wait_until_ok)
    report.check()


async def test_f7_slots_move_while_sessions_talk(
    talking: TalkingStack, cluster: RedisCluster
) -> None:
    """The slots of all streams of the clients, and that of the control keys."""

    async def move(talk: Talk) -> None:
        slots = {talking.control_slot, *map(talking.stream_slot, talk.sessions)}
        await asyncio.to_thread(move_all, slots)

    def move_all(slots: set[int]) -> None:
        masters = cluster.masters
        for slot in slots:
            place = masters.index(cluster.master_of(slot))
            cluster.move_slot(slot, masters[(place + 1) % len(masters)])

    report = await talking.talk_through(move, clients=CLIENTS)
    report.check()


async def test_f7_the_master_of_the_control_keys_is_killed(
    talking: TalkingStack, cluster: RedisCluster
) -> None:
    await kill(talking, cluster, cluster.master_of(talking.control_slot))


async def test_f7_a_master_of_streams_is_killed(
    talking: TalkingStack, cluster: RedisCluster
) -> None:
    control = cluster.master_of(talking.control_slot)
    await kill(talking, cluster, next(node for node in cluster.masters if node is not control))
