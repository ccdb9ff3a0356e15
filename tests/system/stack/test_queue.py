"""Twenty clients and one slot: the queue is first in, first out, and clients get estimates."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx

from support.raw_client import Wire, open_wire
from support.stack import Stack

PEOPLE = 20


async def wait_for_turn(wire: Wire, received: list[dict[str, Any]]) -> None:
    while (message := await wire.next())["type"] != "queue_done":
        assert message["type"] == "queue_update", message
        received.append(message)


async def test_twenty_clients_are_served_in_the_order_of_arrival(stack: Stack) -> None:
    stack.edge()
    stack.worker(slots=1)
    served: list[int] = []
    received: list[list[dict[str, Any]]] = [[] for _ in range(PEOPLE)]

    async def one_turn(number: int, wire: Wire) -> None:
        await wait_for_turn(wire, received[number])
        served.append(number)
        await wire.send(type="stop")
        await wire.expect("stopped")

    async with AsyncExitStack() as people:
        first = await people.enter_async_context(open_wire(stack.ws_url, "adx_first"))
        await first.expect("queue_done")  # the queue was empty, so `queued` was not sent
        wires = []
        for number in range(PEOPLE):
            wire = await people.enter_async_context(open_wire(stack.ws_url, f"adx_{number}"))
            place = await wire.until("queued")
            assert place["position"] == number + 1
            assert place["queue_length"] == number + 1
            assert place["eta_seconds"] == place["estimated_wait_s"]
            received[number].append(place)
            wires.append(wire)
        snapshot = httpx.get(f"{stack.http_url}/api/queue").json()
        waits = [item["estimated_wait_s"] for item in snapshot["items"]]
        assert [item["position"] for item in snapshot["items"]] == list(range(1, PEOPLE + 1))
        assert waits == sorted(waits)
        assert 0 <= waits[0] <= 120.0  # the running session is expected to need two minutes
        turns = [asyncio.create_task(one_turn(n, wire)) for n, wire in enumerate(wires)]
        await first.send(type="stop")
        await first.expect("stopped")
        await asyncio.gather(*turns)

    assert served == list(range(PEOPLE))
    for number, messages in enumerate(received):
        positions = [message["position"] for message in messages]
        assert positions[0] == number + 1
        assert positions == sorted(positions, reverse=True)  # no client overtakes another
        assert all(message["eta_seconds"] >= 0 for message in messages)
    status = httpx.get(f"{stack.http_url}/status").json()
    assert (status["queue_length"], status["busy_workers"]) == (0, 0)


async def test_clients_who_leave_free_their_place_in_the_queue(stack: Stack) -> None:
    stack.edge()
    stack.worker(slots=1)
    async with open_wire(stack.ws_url, "adx_busy") as busy:
        await busy.until("queue_done")
        async with AsyncExitStack() as waiting:
            leaving = await waiting.enter_async_context(open_wire(stack.ws_url, "adx_leaver"))
            await leaving.until("queued")
            async with open_wire(stack.ws_url, "adx_stayer") as remaining:
                assert (await remaining.until("queued"))["position"] == 2
                await waiting.aclose()
                assert (await remaining.until("queue_update"))["position"] == 1
