"""The Redis server changes its role, loses its data, or is replaced while sessions run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.keys import Keys
from support.fault_stack import FaultStack, fault_stack, talkers
from support.redis_server import RedisServer, demote, promote, redis_binaries, replicates
from support.stack import until

ON_EVERY_SERVER = pytest.mark.parametrize(
    "binary", redis_binaries(), ids=lambda path: path.parent.name
)


async def start(faults: FaultStack) -> None:
    await faults.edge()
    await faults.worker(slots=4)
    await faults.recorder()


async def replicated(faults: FaultStack, replica: RedisServer) -> None:
    await demote(replica, faults.stack.redis)
    await replicates(replica, Keys(faults.stack.prefix).events)


@ON_EVERY_SERVER
async def test_sessions_continue_on_the_new_master(tmp_path: Path, binary: Path) -> None:
    """REPLICAOF of a living master, as Sentinel and managed services send it."""
    with RedisServer(tmp_path / "new", binary=binary) as new:
        async with fault_stack(tmp_path / "stack", binary=binary) as faults:
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
                    await client.wire.expect("stopped")
            assert faults.all_alive()
            faults.stack.redis.port = new.port  # where the checks look
            await faults.no_slot_leaked()


@ON_EVERY_SERVER
async def test_a_coordinated_failover_ends_no_session(tmp_path: Path, binary: Path) -> None:
    """FAILOVER waits for the replica and swaps the roles."""
    with RedisServer(tmp_path / "new", binary=binary) as new:
        async with fault_stack(tmp_path / "stack", binary=binary) as faults:
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
            await faults.no_slot_leaked()


@ON_EVERY_SERVER
@pytest.mark.parametrize("command", ["FLUSHALL", "DEL"])
async def test_lost_data_ends_no_process_and_no_later_session(
    tmp_path: Path, binary: Path, command: str
) -> None:
    """FLUSHALL ends the running sessions with an error; losing the transitions alone ends none."""
    async with fault_stack(tmp_path, binary=binary) as faults:
        await start(faults)
        async with talkers(faults, 3) as clients:
            await asyncio.gather(*(client.talk(2) for client in clients))
            async with Redis.from_url(faults.stack.redis.url) as raw:
                events = Keys(faults.stack.prefix).events
                await raw.execute_command(
                    *([command] if command == "FLUSHALL" else [command, events])
                )
            if command == "FLUSHALL":
                codes = await asyncio.gather(*(client.wire.closed() for client in clients))
                assert set(codes) == {1013}
            else:
                await asyncio.gather(*(client.talk(2) for client in clients))
        await faults.no_slot_leaked()
        await asyncio.sleep(1.5)  # the recorder's next read
        async with talkers(faults, 3) as clients:
            await asyncio.gather(*(client.talk(2) for client in clients))
            for client in clients:
                client.check()
        assert faults.all_alive()
        await faults.no_slot_leaked()
