"""A Redis Cluster moves slots and loses masters while clients of all protocols talk, and others wait."""

import asyncio
from collections.abc import Iterator

import pytest

from support.failover.faults import kill, move_slots
from support.failover.talk import LOAD, TalkingStack, talking_stack
from support.redis_cluster import RedisCluster, redis_cluster

pytestmark = [pytest.mark.extended, pytest.mark.speech]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def talking(
    tmp_path_factory: pytest.TempPathFactory, cluster: RedisCluster
) -> Iterator[TalkingStack]:
    folder = tmp_path_factory.mktemp("stack")
    with talking_stack(folder, cluster, slots=LOAD.slots) as running:
        yield running


async def test_f7_slots_move_while_sessions_talk(
    talking: TalkingStack, cluster: RedisCluster
) -> None:
    report = await talking.talk_through(move_slots(cluster, talking), LOAD)
    report.check()


async def test_f7_the_master_with_the_queue_is_killed(
    talking: TalkingStack, cluster: RedisCluster
) -> None:
    master = cluster.master_of(talking.control_slot)
    report = await talking.talk_through(kill(cluster, master), LOAD)
    master.start()
    await asyncio.to_thread(cluster.wait_until_ok)
    report.check()
