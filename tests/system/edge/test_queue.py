"""The queue: places, estimates, leaving, and the operator's commands."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import StopIn, StoppedOut
from antiphon.shared_schemas.states import EndReason, SessionState
from antiphon.shared_schemas.wire import Stopped
from support.edge_harness import (
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    ended,
    played_worker,
    running_edge,
)
from support.raw_client import Wire
from support.redis_server import RedisServer
from support.stack import until


async def _place(client: Wire) -> tuple[int, int]:
    """The newest place that the client has received."""
    message = await client.message()
    assert message["type"] in ("queued", "queue_update"), message
    assert message.get("eta_seconds") == message.get("estimated_wait_s")
    return message["position"], message["queue_length"]


async def _reaches(client: Wire, position: int, length: int) -> None:
    while await _place(client) != (position, length):
        pass


async def _stop(client: Wire, session: PlayedSession) -> None:
    await client.send("stop")
    await session.expect(StopIn)
    await session.publish(StoppedOut())
    await session.end(EndReason.STOPPED)
    await client.expect("stopped")


async def test_first_come_first_served_with_places(edge: RunningEdge, broker: Broker) -> None:
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(1, 5):
            client = await stack.enter_async_context(edge.client(f"adx_{number}"))
            first = await client.expect("queued")
            assert (first["position"], first["queue_length"]) == (number, number)
            assert first["ticket_id"].isdecimal()
            clients.append(client)

        async with played_worker(broker) as worker:
            for number, client in enumerate(clients, start=1):
                session = await worker.claim()
                assert session.claim.sid == f"adx_{number}"
                await client.expect("queue_done", skip=("queue_update",))
                for place, behind in enumerate(clients[number:], start=1):
                    await _reaches(behind, place, len(clients) - number)
                await _stop(client, session)


async def test_stop_leaves_the_queue(edge: RunningEdge, broker: Broker) -> None:
    async with edge.client("adx_first") as first:
        await first.expect("queued")
        async with edge.client("adx_second") as second:
            await second.expect("queued")
            await first.send("stop")
            stopped = await first.expect("stopped", skip=("queue_update",))
            assert stopped["session_id"] == "adx_first"
            assert set(stopped) == {"type", *Stopped.__slots__}
            assert await first.close_code() == 1000
            await _reaches(second, 1, 1)
        assert (await ended(broker, "adx_first")).reason is EndReason.STOPPED


async def test_a_client_that_leaves_frees_its_place(edge: RunningEdge, broker: Broker) -> None:
    async with edge.client("adx_stays") as remaining:
        await remaining.expect("queued")
        for how in ("close", "abort"):
            async with edge.client(f"adx_{how}") as leaving:
                await leaving.expect("queued")
                await _reaches(remaining, 1, 2)
                await (leaving.abort() if how == "abort" else leaving.socket.close())
                row = await ended(broker, f"adx_{how}", within_s=2)
            assert row.reason is EndReason.CLIENT_GONE
            await _reaches(remaining, 1, 1)


async def test_f9_a_client_that_disconnects_in_any_state_frees_its_worker(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    """Assigned, preparing, active, paused: one slot serves them all, one after the other."""
    for state in ("assigned", "preparing", "active", "paused"):
        async with edge.client(f"adx_{state}") as client:
            session = await worker.claim()
            await client.expect("queue_done")
            if state != "assigned":
                await client.send("prepare")
            if state in ("active", "paused"):
                await session.prepare()
                await client.expect("prepared")
            if state == "paused":
                await client.send("pause")
            await client.abort()
            row = await ended(broker, f"adx_{state}", within_s=2)
            assert row.reason is EndReason.CLIENT_GONE
    assert (await broker.queue.snapshot()).workers[0].used == 0


async def test_an_end_that_a_failover_has_lost_is_repeated(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker, raw: Redis
) -> None:
    """The new master still has the sessions of clients that have left."""
    keys = broker.keys
    held, queued = keys.session("adx_held"), keys.session("adx_queued")
    async with AsyncExitStack() as sockets:
        client = await sockets.enter_async_context(edge.client("adx_held"))
        await worker.claim()
        await client.expect("queue_done")
        waiting = await sockets.enter_async_context(edge.client("adx_queued"))
        await waiting.expect("queued")
        rows = {key: await raw.dump(key) for key in (held, queued)}
        places = await raw.zrange(keys.queue, 0, -1, withscores=True)
    for sid in ("adx_held", "adx_queued"):
        await ended(broker, sid)
    worker.held.clear()
    for key, row in rows.items():
        await raw.restore(key, 0, row, replace=True)
    await raw.zadd(keys.queue, dict(places))
    await raw.zadd(keys.leases, {"adx_held": 1})
    await worker.claim()
    for sid in ("adx_held", "adx_queued"):
        assert (await ended(broker, sid)).reason is EndReason.CLIENT_GONE
    assert (await broker.queue.snapshot()).workers[0].used == 0


async def test_a_disconnect_around_the_grant_frees_the_slot(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    """The client leaves while its grant is in flight; the next one gets the slot."""
    for number in range(20):
        async with edge.client(f"adx_{number}") as client:
            claiming = asyncio.create_task(worker.claim())
            await asyncio.sleep(0.001 * (number % 5))
            await client.abort()
        claiming.cancel()
        await asyncio.wait([claiming])
        await ended(broker, f"adx_{number}", within_s=2)
    async with edge.client("adx_next") as client:
        await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))


async def test_a_client_that_stops_and_leaves_counts_as_stopped(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    """Browsers send `stop` and close at once."""
    async with edge.client("adx_1") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        await client.send("stop")
        await client.socket.close()
        await session.expect(StopIn)
        assert (await ended(broker, "adx_1")).reason is EndReason.STOPPED


async def test_a_live_id_is_taken(
    edge: RunningEdge, settings: BrokerSettings, broker: Broker
) -> None:
    async with running_edge(settings) as other, edge.client("adx_1") as client:
        await client.expect("queued")
        for each in (edge, other):
            async with each.client("adx_1") as same_id:
                await same_id.expect_error("session_exists", "session_id")
                assert await same_id.close_code() == 1008
        row = await broker.sessions.get("adx_1")
        assert row is not None
        assert row.state is SessionState.QUEUED
        await client.send("stop")
        await client.expect("stopped", skip=("queue_update",))
        await ended(broker, "adx_1")
        async with edge.client("adx_1") as again:
            await again.expect("queued")


@pytest.mark.edge(max_queue_size=1)
async def test_a_full_queue_is_reported(edge: RunningEdge) -> None:
    async with edge.client("adx_1") as client:
        await client.expect("queued")
        async with edge.client("adx_2") as late:
            error = await late.expect_error("queue_full")
            assert error["retryable"] is True
            assert await late.close_code() == 1013


async def test_a_redis_that_is_nearly_full_takes_no_new_session(redis_server: RedisServer) -> None:
    """A running session keeps the rest of the memory."""
    settings = BrokerSettings(redis_url=redis_server.url)
    async with (
        running_edge(settings) as edge,
        open_broker(settings) as broker,
        played_worker(broker) as worker,
        Redis.from_url(redis_server.url) as raw,
        edge.client("adx_1") as running,
    ):
        session = await worker.claim()
        await running.expect("queue_done", skip=("queued", "queue_update"))
        await raw.setrange("ballast", 32 * 2**20, "x")  # connections take less than what is left
        used = (await raw.info("memory"))["used_memory"]
        await raw.config_set("maxmemory", int(used / 0.85))

        async def refuses() -> bool:
            async with edge.client("adx_2") as late:
                message = await late.message()
                return bool(message.get("code") == "store_full" and message["retryable"])

        await until(refuses)
        await running.send("prepare")
        await session.prepare()
        await running.expect("prepared")
        await raw.config_set("maxmemory", 0)

        async def accepts() -> bool:
            async with edge.client("adx_3") as late:
                return bool((await late.message())["type"].startswith("queue"))

        await until(accepts)


async def test_an_operator_lists_and_cancels_tickets(
    http: httpx.AsyncClient, edge: RunningEdge
) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(edge.client("adx_1"))
        ticket = (await client.expect("queued"))["ticket_id"]
        other = await stack.enter_async_context(edge.client("omni_2"))
        await other.expect("queued", skip=("queue_update",))

        queue = (await http.get("/api/queue")).json()
        assert queue["queue_length"] == 2
        assert [item["session_id"] for item in queue["items"]] == ["adx_1", "omni_2"]
        assert [item["request_type"] for item in queue["items"]] == ["audio_duplex", "omni_duplex"]
        seen = (await http.get(f"/api/queue/{ticket}")).json()
        assert seen["found"] is True
        assert seen["ticket"]["position"] == 1

        assert (await http.delete(f"/api/queue/{ticket}")).json() == {"success": True}
        error = await client.expect("error", skip=("queue_update",))
        assert (error["code"], error["retryable"]) == ("cancelled", False)
        assert await client.close_code() == 1008
        await _reaches(other, 1, 1)

        assert (await http.get(f"/api/queue/{ticket}")).json()["found"] is False
        assert (await http.delete(f"/api/queue/{ticket}")).json() == {"success": False}
        assert (await http.delete("/api/queue/nonsense")).json() == {"success": False}


async def test_a_ticket_of_a_running_session_is_not_cancelled(
    worker: PlayedWorker, http: httpx.AsyncClient, edge: RunningEdge
) -> None:
    async with edge.client("adx_1") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        answer = await http.delete(f"/api/queue/{session.claim.ticket}")
        assert answer.json() == {"success": False}
        status = (await http.get("/api/queue")).json()
        assert [task["worker_id"] for task in status["running_tasks"]] == ["w1"]


async def test_a_grant_without_its_event_is_found(
    edge: RunningEdge, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events can be trimmed while an edge is disconnected; the next snapshot of the queue has the grant."""
    async with edge.client("adx_1") as client:
        await client.expect("queued")
        monkeypatch.setattr(edge.edge.events, "_dispatch", list)
        async with played_worker(broker) as worker:
            await worker.claim()
            await client.expect("queue_done", skip=("queue_update",))


async def test_two_edges_share_one_queue(settings: BrokerSettings, broker: Broker) -> None:
    async def join(edge: RunningEdge, sid: str, stack: AsyncExitStack) -> Wire:
        client = await stack.enter_async_context(edge.client(sid))
        await client.expect("queued")
        return client

    async with (
        running_edge(settings) as left,
        running_edge(settings) as right,
        AsyncExitStack() as stack,
    ):
        first = await join(left, "adx_1", stack)
        second = await join(right, "adx_2", stack)
        await first.socket.close()
        await _reaches(second, 1, 1)
