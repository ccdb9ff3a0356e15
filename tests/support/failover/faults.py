"""What happens to the servers of a Redis while clients talk."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from antiphon.shared_schemas.recording import META_FILE
from support.failover.resumes import ResumingSession
from support.failover.talk import Talk, TalkingStack
from support.redis_cluster import RedisCluster
from support.redis_sentinel import RedisSentinel
from support.redis_server import RedisServer, allow_replication, stop_replication
from support.stack import until

Fault = Callable[[Talk], Awaitable[None]]


def kill(redis: RedisCluster | RedisSentinel, master: RedisServer) -> Fault:
    """SIGKILL. Another server is the master afterwards."""

    async def fault(_: Talk) -> None:
        master.kill()
        await asyncio.to_thread(redis.wait_until_ok)

    return fault


def freeze(redis: RedisCluster | RedisSentinel, master: RedisServer) -> Fault:
    """SIGSTOP until another server is the master; connections stay open."""

    async def fault(_: Talk) -> None:
        master.freeze()
        await asyncio.to_thread(redis.wait_until_ok)
        master.thaw()

    return fault


def freeze_while_clients_resume(redis: RedisSentinel) -> Fault:
    """Connections break before SIGSTOP, while another master is elected, and after SIGCONT."""

    async def fault(talk: Talk) -> None:
        clients = [session for session in talk.sessions if isinstance(session, ResumingSession)]

        async def all_resume() -> None:
            seen = [(client, client.resumes) for client in clients]

            def have_resumed() -> bool:
                return all(one.outcome is not None or one.resumes > count for one, count in seen)

            await until(have_resumed, within_s=60)

        for client in clients:
            client.breaks.set()
        await all_resume()
        master = redis.master
        master.freeze()
        await asyncio.to_thread(redis.wait_until_ok)
        master.thaw()
        await all_resume()
        for client in clients:
            client.breaks.clear()
        await asyncio.to_thread(redis.wait_until_ok)

    return fault


def lose_writes(redis: RedisSentinel, *, late_clients: int, recordings: Path) -> Fault:
    """No replica has the sessions of the late clients, nor the newest entries of the others.

    The recorder has begun all recordings: later, it would never learn of the late clients.
    """

    async def fault(talk: Talk) -> None:
        master, replicas = redis.master, redis.replicas
        for replica in replicas:
            stop_replication(master, replica)
        late = talk.start(late_clients)
        await talk.get_results(2)
        await until(lambda: all((recordings / one.recording / META_FILE).exists() for one in late))
        master.kill()
        for replica in replicas:
            allow_replication(replica)
        await asyncio.to_thread(redis.wait_until_ok)

    return fault


def move_slots(cluster: RedisCluster, talking: TalkingStack) -> Fault:
    """Those of all streams of the clients, and that of the control keys, each to the next master."""

    def move(slots: set[int]) -> None:
        masters = cluster.masters
        for slot in slots:
            place = masters.index(cluster.master_of(slot))
            cluster.move_slot(slot, masters[(place + 1) % len(masters)])

    async def fault(talk: Talk) -> None:
        slots = {talking.control_slot, *map(talking.stream_slot, talk.sessions)}
        await asyncio.to_thread(partial(move, slots))

    return fault
