"""Connections to Redis that are reset, delayed or frozen while sessions run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from support.fault_stack import fault_stack, talkers

RESETS = 12


async def test_resets_of_all_connections_cost_a_retry(tmp_path: Path) -> None:
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker(slots=8)
        await faults.recorder()
        async with talkers(faults, 8) as clients:
            talking = [asyncio.create_task(client.talk(16, every_s=0.25)) for client in clients]
            for _ in range(RESETS):
                await asyncio.sleep(0.3)
                assert faults.reset_all() > 8
            await asyncio.gather(*talking)
            await asyncio.gather(*(client.talk(2) for client in clients))
            for client in clients:
                client.check()
                await client.wire.send(type="stop")
                await client.wire.expect("stopped")
        assert faults.all_alive()
        await faults.no_slot_leaked()


async def test_new_sessions_start_right_after_a_reset(tmp_path: Path) -> None:
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
            await faults.no_slot_leaked()
        assert faults.all_alive()
