"""What a client receives while its session waits for a worker, or while Redis is unavailable."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.states import SessionState
from support.fault_stack import FaultStack, fault_stack
from support.raw_client import Wire, open_path
from support.resuming_client import Resumer
from support.stack import Service, until

Message = dict[str, Any]

_SLOW_ANSWER = '{"prepare_ms":1,"prefill_ms":1,"listen_ms":1,"speak_ms":200,"finalize_ms":1,"answer_pieces":40}'
_ENDLESS_ANSWER = _SLOW_ANSWER.replace("40", "1000")


async def _is(faults: FaultStack, sid: str, state: SessionState) -> None:
    """Wait until a session has this state."""
    async with open_broker(faults.stack.settings) as broker:

        async def reached() -> bool:
            row = await broker.sessions.get(sid)
            return row is not None and row.state is state

        await until(reached)


async def _begin(wire: Wire, path: str) -> None:
    """Bring a client of any protocol to the point where a worker serves it."""
    if path == "/ws/chat":
        question = [{"role": "user", "content": "Hello, tell me a long story."}]
        await wire.send(messages=question, streaming=True)
        await wire.until("chunk")
    elif path.startswith("/v1/realtime"):
        await wire.until("session.queue_done")
        await wire.send(type="session.update", session={"instructions": "Hi."})
        await wire.until("session.created")
    else:
        await wire.begin()


async def _place(wire: Wire, position: int, *, of: int) -> Message:
    """The next message about this place in a queue of this length; skips other places and answers."""
    while True:
        message = await _skip_answers(wire)
        if (message["position"], message["queue_length"]) == (position, of):
            return message


async def _skip_answers(wire: Wire) -> Message:
    """The next message that is no part of an answer."""
    while (message := await wire.message())["type"] == "chunk":
        pass
    return message


_PATHS = {
    "duplex": "/ws/duplex/adx_1",
    "half-duplex": "/ws/half_duplex/hdx_1",
    "realtime": "/v1/realtime?mode=audio&notices=1",
    "chat": "/ws/chat",
}


async def test_f1_a_client_that_lost_its_worker_gets_its_place(tmp_path: Path) -> None:
    """First it waits, then the next worker serves it."""
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        worker = await faults.worker(engine_options=_SLOW_ANSWER)
        async with open_path(faults.stack.ws_url, "/ws/chat") as wire:
            await _begin(wire, "/ws/chat")
            worker.kill()
            await _place(wire, 1, of=1)
            await faults.worker("next")
            while (again := await _skip_answers(wire))["position"]:
                assert again["type"] == "queue_update"  # a new estimate
            numbers = ("position", "queue_length", "estimated_wait_s", "eta_seconds")
            ticket = {"type": "queue_update", "ticket_id": again["ticket_id"]}
            assert again == {**ticket, **dict.fromkeys(numbers, 0)}
            await wire.until("done")
        await faults.stack.no_session_left()


@pytest.mark.extended
async def test_f1_a_killed_worker_is_reported_before_its_heartbeats_are_late(
    tmp_path: Path,
) -> None:
    """Its connection is closed. With this `heartbeat_ttl_s`, no heartbeat counts as late for an hour."""
    hour = {"lease_s": 3600, "heartbeat_ttl_s": 3600}
    async with fault_stack(tmp_path) as faults, AsyncExitStack() as sockets:
        edge = await faults.edge(**hour)
        worker = await faults.worker(slots=4, engine_options=_ENDLESS_ANSWER, **hour)
        wires = {}
        for name, path in _PATHS.items():
            wires[name] = await sockets.enter_async_context(open_path(faults.stack.ws_url, path))
            await _begin(wires[name], path)
        await _edge_sees_connections(faults, edge)
        worker.kill()
        for position, wire in enumerate(wires.values(), start=1):
            await _place(wire, position, of=4)
        assert "worker_disconnected" in edge.log


async def _edge_sees_connections(faults: FaultStack, edge: Service) -> None:
    """Wait until the edge has seen that the connection of each worker is open."""
    name = 'antiphon_redis_round_trip_seconds_count{script="worker_connections"}'

    async with (
        open_broker(faults.stack.settings) as broker,
        httpx.AsyncClient(base_url=edge.status_url, timeout=90) as http,
    ):

        async def are_open() -> bool:
            seen = await broker.worker_connections.look()
            return all(connection.is_open for connection in seen.workers.values())

        async def looks() -> float:
            lines = (await http.get("/metrics")).text.splitlines()
            return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

        async def has_looked() -> bool:
            return await looks() >= enough

        await until(are_open)
        enough = await looks() + 2  # one of them may have begun before
        await until(has_looked)


@pytest.mark.extended
async def test_f1_a_resumed_client_learns_that_it_waits_and_that_it_is_served(
    tmp_path: Path,
) -> None:
    """Its connection breaks once while it waits, and once more until a worker serves it."""
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        worker = await faults.worker()
        client, url = Resumer("/ws/duplex/adx_1"), faults.stack.ws_url
        async with client.connected(url):
            await client.expect("queue_done")
            await client.send("prepare")
            await client.expect("prepared")
            worker.kill()
            assert (await client.expect("queue_update"))["position"] == 1
            await client.abort()
        async with client.back(url):
            assert (await client.expect("queue_update"))["position"] == 1
            await client.abort()
        await faults.worker("next")
        await _is(faults, "adx_1", SessionState.ACTIVE)
        async with client.back(url):
            while (await client.receive())["position"]:
                pass
            await client.abort()
        async with client.back(url):
            await client.send("stop")
            await client.expect("stopped")
        await faults.stack.no_session_left()


async def test_f6_places_are_stale_while_redis_is_away(tmp_path: Path) -> None:
    async with fault_stack(tmp_path) as faults:
        edge = await faults.edge()
        url = faults.stack.ws_url
        resuming = Resumer("/ws/duplex/adx_2")
        async with AsyncExitStack() as sockets:
            plain = await sockets.enter_async_context(open_path(url, "/ws/duplex/adx_1"))
            await plain.expect("queued")
            path = "/v1/realtime?mode=audio&notices=1"
            realtime = await sockets.enter_async_context(open_path(url, path))
            await realtime.expect("session.queued")
            await sockets.enter_async_context(resuming.connected(url))
            await _place(plain, 1, of=3)
            place = await _place(realtime, 2, of=3)
            while (await resuming.message())["queue_length"] != 3:
                pass
            faults.stack.redis.kill()
            stale = await realtime.expect("session.queue_update")
            assert stale == {**place, "type": "session.queue_update", "stale": True}
            assert (await plain.expect("queue_update"))["stale"] is True
            while "stale" not in (place := await resuming.receive()):
                pass
            assert (place["type"], place["stale"]) == ("queue_update", True)
            faults.stack.redis.start()
            assert "stale" not in await realtime.expect("session.queue_update")
            assert "stale" not in await plain.expect("queue_update")
            assert "stale" not in await resuming.expect("queue_update")
        assert edge.process.poll() is None
