"""Workers that are killed, stalled, slow or stopped, and sessions that break them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.states import EndReason
from support.fault_stack import SIMULATED, Talker, fault_stack, talkers
from support.poisoned_worker import POISON
from support.raw_client import open_wire
from support.stack import Service, Stack


@asynccontextmanager
async def kept_alive(stack: Stack, **settings: object) -> AsyncIterator[list[Service]]:
    """One worker that a client can crash, and that is started again when it dies."""
    started: list[Service] = []

    async def supervise() -> None:
        while True:
            worker = await asyncio.to_thread(
                stack.poisoned_worker, engine_options=SIMULATED, **settings
            )
            started.append(worker)
            while worker.process.poll() is None:
                await asyncio.sleep(0.05)

    supervisor = asyncio.create_task(supervise())
    try:
        yield started
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


async def test_f25_a_session_that_crashes_its_worker_ends_and_its_neighbours_continue(
    tmp_path: Path,
) -> None:
    async with fault_stack(tmp_path) as faults:
        stack = faults.stack
        await faults.edge()
        async with (
            kept_alive(stack, slots=4, lease_s=2, heartbeat_ttl_s=2) as workers,
            talkers(faults, 2) as older,
            open_wire(stack.ws_url, "adx_poison") as poison,
        ):
            await poison.begin()
            async with open_wire(stack.ws_url, "adx_younger") as younger:
                await younger.begin()
                neighbours = [*older, Talker(younger)]
                await asyncio.gather(*(each.talk(2) for each in neighbours))
                talking = [asyncio.create_task(each.talk(10)) for each in neighbours]
                await poison.send_second(POISON)
                assert (await poison.next())["code"] == "worker_lost"
                await asyncio.gather(*talking)
                await asyncio.gather(*(each.talk(2) for each in neighbours))
                for each in neighbours:
                    each.check()
                async with open_broker(stack.settings) as broker:
                    row = await broker.sessions.get("adx_poison")
                    assert row is not None
                    assert row.reason is EndReason.WORKER_LOST
                    for running in (await broker.queue.snapshot()).running:
                        assert running.attempt == 1
        assert len(workers) <= 4
