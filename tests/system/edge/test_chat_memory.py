"""The memory of an edge that chats in the queue use."""

import asyncio
import gc
import json
from typing import Any

import pybase64
import pytest
from websockets.frames import Frame

from antiphon.broker.client import Broker
from antiphon.shared_schemas.entries import ChatIn
from antiphon.shared_schemas.registry import Claim
from support.edge_harness import WITHIN_S, PlayedWorker, RunningEdge, ended, picture
from support.raw_client import Wire
from support.stack import until

MIB = 1024 * 1024
LARGE = 4 * MIB
"""Larger than any other test's picture, because those may still be in this process."""


def _request(size: int) -> dict[str, Any]:
    data = pybase64.b64encode_as_string(picture() + bytes(size))
    return {"messages": [{"role": "user", "content": [{"type": "image", "data": data}]}]}


async def _ask(client: Wire, size: int) -> None:
    await client.socket.send(json.dumps(_request(size)))


def _held(kind: type[Any]) -> list[Any]:
    return [thing for thing in gc.get_objects() if type(thing) is kind]


def _media() -> list[bytes]:
    """The large byte strings of all requests in memory, each once."""
    blobs = [blob for request in _held(ChatIn) for blob in request.blobs if len(blob) > LARGE]
    return list({id(blob): blob for blob in blobs}.values())


async def _empty(edge: RunningEdge) -> None:
    await until(lambda: not edge.edge.chat_budget.held)


async def test_only_the_media_of_a_waiting_request_are_kept(
    edge: RunningEdge, broker: Broker
) -> None:
    async with edge.open("/ws/chat") as client:
        await _ask(client, LARGE)
        await client.expect("queued")
        assert all(len(frame.data) < MIB for frame in _held(Frame)), "the received text is released"
        assert len(_media()) == 1, "there is no copy"
        [waiting] = (await broker.queue.snapshot()).waiting
    await ended(broker, waiting.sid)
    await _empty(edge)
    await until(lambda: not _media())  # the task of the connection ends a little later


async def test_a_request_that_a_worker_has_is_released(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with edge.open("/ws/chat") as client:
        await _ask(client, LARGE)
        async with asyncio.timeout(WITHIN_S):
            while (claim := await broker.leases.claim(worker.id)) is None:
                await asyncio.sleep(0.01)
            while _media() or not await _arrived(broker, claim):
                await asyncio.sleep(0.01)


async def _arrived(broker: Broker, claim: Claim) -> bool:
    """True if the session's input stream has an entry with content."""
    return bool(await broker._redis.call("XLEN", broker.keys.inbound(claim.sid)))


@pytest.mark.edge(max_chats_bytes=MIB)
async def test_the_memory_of_all_requests_is_limited(edge: RunningEdge) -> None:
    async with edge.open("/ws/chat") as first:
        await _ask(first, 2 * MIB)
        await first.expect("queued")
        async with edge.open("/ws/chat") as second:
            await _ask(second, 2 * MIB)
            message = await second.expect("error")
            assert (message["code"], message["retryable"]) == ("queue_full", True)
            assert "1 MiB of chat requests already" in message["message"]
            assert await second.close_code() == 1013
        async with edge.http() as http:
            answer = await http.post("/api/chat", json=_request(2 * MIB))
        assert (answer.status_code, answer.json()["code"]) == (503, "queue_full")
    await _empty(edge)
    async with edge.open("/ws/chat") as third:
        await _ask(third, 1000)
        await third.expect("queued")
