"""Pausing a conversation, through every process."""

from __future__ import annotations

import httpx

from support.raw_client import open_wire
from support.stack import Stack, until


async def test_a_conversation_pauses_resumes_and_times_out(stack: Stack) -> None:
    stack.edge()
    stack.worker(slots=1)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await wire.send_second()
        assert (await wire.expect("result"))["current_time"] == 1000
        await wire.send(type="pause")
        assert (await wire.expect("paused"))["timeout"] == 60
        await wire.send_second()
        refused = await wire.expect("error")
        assert refused["code"] == "paused"
        assert "paused" in refused["error"]
        await wire.send(type="resume")
        await wire.expect("resumed")
        await wire.send_second()
        assert (await wire.expect("result"))["current_time"] == 2000
        await wire.send(type="pause", timeout=0.5)
        assert (await wire.expect("paused"))["timeout"] == 0.5
        await wire.expect("timeout")
        assert await wire.closed() == 1000
    await until(lambda: httpx.get(f"{stack.http_url}/status").json()["busy_workers"] == 0)
