"""An edge whose process may open no more files."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from support.fault_stack import SIMULATED
from support.raw_client import open_wire
from support.stack import Stack, until


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
