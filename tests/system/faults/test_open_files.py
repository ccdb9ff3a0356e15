"""Processes that may open no more files."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from support.fault_stack import SIMULATED
from support.raw_client import open_wire
from support.stack import Stack, until

pytestmark = pytest.mark.extended


def may_open(process: int, files: int) -> None:
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (files, hard))


async def test_an_edge_without_spare_descriptors_turns_new_clients_away(stack: Stack) -> None:
    edge = stack.edge(max_sockets_per_address=0, max_connects_per_minute=0)
    stack.worker(engine_options=SIMULATED)
    async with AsyncExitStack() as held, open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        may_open(edge.process.pid, 150)
        for _ in range(150):
            http = await held.enter_async_context(httpx.AsyncClient(base_url=stack.http_url))
            answer = await http.get("/health")
            if answer.status_code != 200:
                break
        assert answer.status_code == 503
        assert answer.json()["code"] == "queue_full"
        assert answer.headers["retry-after"] == "1"
        with pytest.raises(InvalidStatus, match="503"):
            async with open_wire(stack.ws_url, "adx_2"):
                pass
        async with asyncio.timeout(60):
            await wire.send_second()
            await wire.until("result")
    assert '"edge_out_of_descriptors"' in edge.log

    async def answers() -> bool:
        async with httpx.AsyncClient(base_url=stack.http_url) as http:
            return (await http.get("/health")).status_code == 200

    await until(answers)


async def test_a_worker_without_spare_descriptors_keeps_its_sessions(stack: Stack) -> None:
    stack.edge()
    worker = stack.worker(engine_options=SIMULATED, slots=2)
    pid = worker.process.pid
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await wire.send_second()
        await wire.until("result")
        _, before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        may_open(pid, len(list(Path(f"/proc/{pid}/fd").iterdir())))
        for _ in range(2):
            await wire.send_second()
            await wire.until("result")
            await asyncio.sleep(1)  # a heartbeat
        assert worker.process.poll() is None
        may_open(pid, before)
        async with open_wire(stack.ws_url, "adx_2") as other:
            await other.begin()
            await other.send_second()
            await other.until("result")
    assert "session_abandoned" not in worker.log
    assert "worker_cannot_start" not in worker.log
