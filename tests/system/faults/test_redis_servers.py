"""The Redis server changes its role, loses its data, or is replaced while sessions run."""

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis
from websockets.exceptions import ConnectionClosed

from antiphon.broker.client import open_broker
from antiphon.broker.keys import Keys
from support.fault_stack import FaultStack, Talker, fault_stack, talkers
from support.redis_server import RedisServer, demote, promote, replicates
from support.stack import until


async def start(faults: FaultStack) -> None:
    await faults.edge()
    await faults.worker(slots=4)
    await faults.recorder()


async def replicated(faults: FaultStack, replica: RedisServer) -> None:
    await demote(replica, faults.stack.redis)
    await replicates(replica, faults.stack.redis, Keys(faults.stack.prefix).events)


async def test_f7_sessions_continue_on_the_new_master(tmp_path: Path) -> None:
    """REPLICAOF of a living master, as Sentinel and managed services send it."""
    with RedisServer(tmp_path / "new") as new:
        async with fault_stack(tmp_path / "stack") as faults:
            await start(faults)
            async with talkers(faults, 4) as clients:
                await asyncio.gather(*(client.talk(3) for client in clients))
                await replicated(faults, new)
                await promote(new)
                await demote(faults.stack.redis, new)
                talking = [asyncio.create_task(client.talk(3)) for client in clients]
                await asyncio.sleep(1)
                faults.redirect(new.port)
                await asyncio.gather(*talking)
                for client in clients:
                    client.check()
                    await client.wire.send(type="stop")
                    await client.wire.until("stopped")
            assert faults.all_alive()
            faults.stack.redis.port = new.port  # where the checks look
            await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f7_a_coordinated_failover_ends_no_session(tmp_path: Path) -> None:
    """FAILOVER waits for the replica and swaps the roles."""
    with RedisServer(tmp_path / "new") as new:
        async with fault_stack(tmp_path / "stack") as faults:
            await start(faults)
            async with talkers(faults, 4) as clients:
                await asyncio.gather(*(client.talk(2) for client in clients))
                await replicated(faults, new)
                talking = [asyncio.create_task(client.talk(12, every_s=0.25)) for client in clients]
                async with Redis.from_url(faults.stack.redis.url) as raw:
                    await raw.execute_command("FAILOVER", "TO", "127.0.0.1", new.port)
                async with Redis.from_url(new.url) as raw:

                    async def is_master() -> bool:
                        return bool((await raw.execute_command("ROLE"))[0] == b"master")

                    await until(is_master)
                faults.redirect(new.port)
                await asyncio.gather(*talking)
                for client in clients:
                    client.check()
            assert faults.all_alive()
            faults.stack.redis.port = new.port
            await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f7_a_failover_that_loses_the_last_writes_doubles_no_slot(tmp_path: Path) -> None:
    """The replica misses the last two seconds: results, and a session that has taken the last slot."""
    with RedisServer(tmp_path / "new") as new:
        async with fault_stack(tmp_path / "stack") as faults:
            await start(faults)
            async with talkers(faults, 3) as clients:
                await asyncio.gather(*(client.talk(2) for client in clients))
                await replicated(faults, new)
                await promote(new)  # what is written from here on is lost
                await asyncio.gather(*(client.talk(2) for client in clients))
                async with talkers(faults, 1, first=3) as (late,):
                    await late.talk(1)
                    faults.stack.redis.kill()
                    faults.redirect(new.port)
                    faults.stack.redis.port = new.port  # where the checks look
                    ends = await asyncio.gather(
                        *(talk_or_end(client) for client in (*clients, late))
                    )
            assert set(ends) <= {"continues", "reported"}
            assert faults.all_alive()
            await faults.stack.no_session_left()
            async with talkers(faults, 4) as clients:
                await asyncio.gather(*(client.talk(2) for client in clients))
                for client in clients:
                    client.check()
                async with open_broker(faults.stack.settings) as broker:
                    snapshot = await broker.queue.snapshot()
                assert (
                    [worker.used for worker in snapshot.workers] == [len(snapshot.running)] == [4]
                )


async def talk_or_end(client: Talker) -> str:
    """Whether the session continues, or its client got an error. Raises TimeoutError in silence."""
    try:
        await client.talk(2)
    except (AssertionError, ConnectionClosed):
        await client.wire.close_code_after_all()
        return "reported"
    client.check()
    return "continues"


@pytest.mark.parametrize("command", ["FLUSHALL", pytest.param("DEL", marks=pytest.mark.extended)])
async def test_f6_lost_data_ends_no_process_and_no_later_session(
    tmp_path: Path, command: str
) -> None:
    """FLUSHALL ends the running sessions with an error; losing the transitions alone ends none."""
    async with fault_stack(tmp_path) as faults:
        await start(faults)
        async with talkers(faults, 3) as clients:
            await asyncio.gather(*(client.talk(2) for client in clients))
            async with Redis.from_url(faults.stack.redis.url) as raw:
                events = Keys(faults.stack.prefix).events
                await raw.execute_command(
                    *([command] if command == "FLUSHALL" else [command, events])
                )
            if command == "FLUSHALL":
                codes = await asyncio.gather(
                    *(client.wire.close_code_after_all() for client in clients)
                )
                assert set(codes) == {1013}
            else:
                await asyncio.gather(*(client.talk(2) for client in clients))
        await faults.stack.no_session_left()
        await asyncio.sleep(1.5)  # the recorder's next read
        async with talkers(faults, 3) as clients:
            await asyncio.gather(*(client.talk(2) for client in clients))
            for client in clients:
                client.check()
        assert faults.all_alive()
        await faults.stack.no_session_left()
