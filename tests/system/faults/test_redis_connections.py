"""Connections to Redis that are reset, delayed or frozen while sessions run."""

import asyncio
import math
from pathlib import Path

import httpx
import pytest

from redis import Redis
from support.fault_stack import fault_stack, talkers
from support.ports import free_port
from support.raw_client import open_wire
from support.resuming_client import Resumer
from support.stack import until

RESETS = 6


async def test_f8_resets_of_all_connections_cost_a_retry(tmp_path: Path) -> None:
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker(slots=8)
        await faults.recorder()
        async with talkers(faults, 8) as clients:
            talking = [asyncio.create_task(client.talk(10, every_s=0.25)) for client in clients]
            for _ in range(RESETS):
                await asyncio.sleep(0.3)
                await until(lambda: faults.open_connections > 8)
                faults.reset_all()
            await asyncio.gather(*talking)
            await asyncio.gather(*(client.talk(2) for client in clients))
            for client in clients:
                client.check()
                await client.wire.send(type="stop")
                await client.wire.until("stopped")
        assert faults.all_alive()
        await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f8_new_sessions_start_right_after_a_reset(tmp_path: Path) -> None:
    """The pools hold idle connections that a reset has closed."""
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker(slots=4)
        for _ in range(5):
            async with httpx.AsyncClient(base_url=faults.stack.http_url) as http:
                await asyncio.gather(*(http.get("/status") for _ in range(8)))
                assert faults.reset_all() > 0
                assert (await http.get("/status")).status_code == 200
            faults.reset_all()
            async with talkers(faults, 4) as clients:
                await asyncio.gather(*(client.talk(2) for client in clients))
                for client in clients:
                    client.check()
            await faults.stack.no_session_left()
        assert faults.all_alive()


async def test_f8_a_session_that_redis_has_no_connection_for_gets_an_error(tmp_path: Path) -> None:
    """Redis has `maxclients` connections: those that are open work, and a reader cannot replace its own."""
    async with fault_stack(tmp_path) as faults:
        await faults.edge(broker_patience_s=1)
        await faults.worker(slots=4, broker_patience_s=1)
        url = faults.stack.redis.url
        with Redis.from_url(url, single_connection_client=True) as admin:
            async with open_wire(faults.stack.ws_url, "adx_served") as wire:
                await wire.begin()
                await wire.send_second()
                await wire.until("result")
                admin.config_set("maxclients", 1)
                for client in admin.client_list():
                    if client["cmd"] == "xread":
                        admin.client_kill_filter(_id=client["id"])
                await wire.send_second()
                while (message := await wire.message())["type"] != "error":
                    assert message["type"] in ("result", "queue_update"), message
                assert message["code"] == "broker_unavailable"
                assert message["retryable"]
                assert await wire.close_code_after_all() == 1013
            admin.config_set("maxclients", 1000)
        async with talkers(faults, 2) as clients:
            await asyncio.gather(*(client.talk(2) for client in clients))
        assert faults.all_alive()
        await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f8_a_link_of_a_kilobyte_per_second_loses_no_session(tmp_path: Path) -> None:
    """A second of sound takes a minute on it, so the call to Redis times out and is repeated."""
    async with fault_stack(tmp_path) as faults:
        edge = await faults.edge()
        await faults.worker(slots=1)
        async with talkers(faults, 1) as (active,):
            await active.talk(2)
            async with open_wire(faults.stack.ws_url, "adx_waits") as waiting:
                assert (await waiting.expect("queued"))["position"] == 1
                faults.proxies["edge"].limit(1000.0)
                talking = asyncio.create_task(active.talk(2))
                await until(lambda: edge.log.count("redis_away") > 1)
                assert not talking.done()
                faults.proxies["edge"].limit(math.inf)
                await talking
                await active.talk(2)
                active.check()
                await active.wire.send(type="stop")
                await active.wire.until("stopped")
                await waiting.begin()
                await waiting.send(type="stop")
                await waiting.until("stopped")
        assert faults.all_alive()
        await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f8_an_edge_that_is_cut_off_keeps_its_sessions_and_tickets(tmp_path: Path) -> None:
    """Another edge and the worker still reach Redis and remove the sessions of dead processes.

    A process is dead after two heartbeats: with one, each that is late would count.
    """
    quick = {"heartbeat_ttl_s": 2}
    async with fault_stack(tmp_path) as faults:
        await faults.edge("cut", **quick)
        await faults.worker(slots=1, **quick)
        await faults.edge("other", port=free_port(), **quick)
        async with talkers(faults, 1) as (active,):
            await active.talk(2)
            resumable = Resumer("/ws/duplex/adx_waits")
            async with resumable.connected(faults.stack.ws_url):
                assert (await resumable.message())["position"] == 1
                async with open_wire(faults.stack.ws_url, "adx_waits_too") as waiting:
                    await waiting.expect("queued")
                    faults.proxies["cut"].freeze()
                    await asyncio.sleep(4.5)
                    faults.proxies["cut"].thaw()
                    await active.talk(2)
                    await asyncio.sleep(1.5)  # the next heartbeats and reapers
                    await active.talk(2)
                    active.check()
                    await active.wire.send(type="stop")
                    await active.wire.until("stopped")
                    await resumable.expect("queue_done", skip=("queue_update",))
                    await resumable.send("stop")
                    await waiting.begin()
