"""The live feed of administrators (`GET /api/admin/live`), and the drain of a worker."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import WorkerCommand
from antiphon.shared_schemas.states import EndReason
from support.control_plane import report, serve
from support.edge_harness import (
    WITHIN_S,
    PlayedWorker,
    RunningEdge,
    played_worker,
    prepared_session,
    running_edge,
)
from support.raw_client import open_wire
from support.stack import Stack, until

TOKEN = "a-token-for-the-admin"
PATH = "/api/admin/live"
Message = tuple[str, dict[str, Any]]


async def _messages(response: httpx.Response) -> AsyncGenerator[Message, None]:
    name = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


class Watcher:
    """The state of an admin page, built from the messages."""

    def __init__(self, messages: AsyncIterator[Message]) -> None:
        self._messages = messages
        self.names: list[str] = []
        self.tables: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []

    async def receive(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            name, data = await anext(self._messages)
        self.names.append(name)
        self.events += data.pop("events", [])
        self.tables.update(data)

    async def receive_until(self, true: Any) -> None:
        while not true():
            await self.receive()


@asynccontextmanager
async def watching(edge: RunningEdge) -> AsyncIterator[Watcher]:
    async with edge.http() as http, http.stream("GET", PATH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async with aclosing(_messages(response)) as messages:
            watcher = Watcher(messages)
            await watcher.receive()
            yield watcher


async def test_the_feed_needs_the_admin_token(settings: BrokerSettings) -> None:
    async with running_edge(settings, admin_token=TOKEN) as edge, edge.http() as http:
        assert (await http.get(PATH)).status_code == 401
        wrong = {"Authorization": "Bearer another-token-entirely"}
        assert (await http.get(PATH, headers=wrong)).status_code == 401
        drain = await http.post("/api/admin/workers/w1/drain")
        assert drain.status_code == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        async with http.stream("GET", PATH, headers=right) as response:
            assert response.status_code == 200
    async with running_edge(settings, host="0.0.0.0") as edge, httpx.AsyncClient() as http:
        port = edge.url.rsplit(":", 1)[1]
        assert (await http.get(f"http://127.0.0.1:{port}{PATH}")).status_code == 403


async def test_a_snapshot_precedes_the_changes(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with prepared_session(edge, worker, "adx_before"), watching(edge) as watcher:
        tables = watcher.tables
        assert tables["redis"] is True
        assert tables["workers"]["w1"]["used"] == tables["workers"]["w1"]["slots"] == 1
        assert tables["sessions"]["adx_before"]["worker"] == "w1"
        assert tables["edges"][edge.edge.id]["sessions"] == 1
        assert [event["state"] for event in watcher.events] == [
            *("queued", "assigned", "preparing", "active")
        ]

        async with edge.client("omni_after") as client:
            ticket = (await client.expect("queued"))["ticket_id"]
            await watcher.receive_until(lambda: ticket in tables["queue"])
            assert tables["queue"][ticket]["position"] == 1
            assert tables["queue"][ticket]["kind"] == "omni_duplex"
            async with edge.http() as http:
                assert (await http.delete(f"/api/queue/{ticket}")).json() == {"success": True}
            await watcher.receive_until(lambda: not tables["queue"])
        await watcher.receive_until(lambda: watcher.events[-1]["reason"] == EndReason.CANCELLED)
        assert len({event["id"] for event in watcher.events}) == len(watcher.events) == 6


async def test_an_unchanged_system_is_not_sent_again(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker), watching(edge) as watcher:
        await _refreshed(edge, 2)
        async with edge.client("adx_late") as late:
            await late.expect("queued")
            await watcher.receive_until(lambda: watcher.tables["queue"])
            await watcher.receive_until(lambda: len(watcher.events) == 5)
        # The first snapshot; then in any order the new session's event, its row, and its edge's count.
        assert len(watcher.names) <= 4


async def test_readers_share_one_refresh_and_the_last_one_stops_it(
    edge: RunningEdge, broker: Broker
) -> None:
    async with AsyncExitStack() as stack:
        assert _refreshes(edge) == 0
        watchers = [await stack.enter_async_context(watching(edge)) for _ in range(5)]
        begun, looks = asyncio.get_running_loop().time(), _refreshes(edge)
        await _refreshed(edge, 3)
        seconds = asyncio.get_running_loop().time() - begun
        assert _refreshes(edge) - looks <= seconds + 1
        async with played_worker(broker):
            for watcher in watchers:
                await watcher.receive_until(lambda watcher=watcher: watcher.tables["workers"])
        await stack.aclose()
        await until(lambda: not _is_refreshing())


async def test_a_stopping_edge_closes_the_feed(settings: BrokerSettings) -> None:
    async with AsyncExitStack() as stack:
        edge = await stack.enter_async_context(running_edge(settings))
        watcher = await stack.enter_async_context(watching(edge))
        edge.edge.admin_feed.close()
        with pytest.raises(StopAsyncIteration):
            await watcher.receive_until(lambda: False)


async def test_a_redis_outage(stack: Stack) -> None:
    async with running_edge(stack.settings) as edge, watching(edge) as watcher:
        stack.redis.stop()
        await watcher.receive_until(lambda: watcher.tables["redis"] is False)
        stack.redis.start()
        await watcher.receive_until(lambda: watcher.tables["redis"] is True)


async def test_drain_a_worker(http: httpx.AsyncClient, broker: Broker) -> None:
    await serve(broker, "w1")
    answer = await http.post("/api/admin/workers/w1/drain")
    assert answer.json() == {"success": True}
    assert await broker.registry.worker_beat("w1", report()) is WorkerCommand.DRAIN
    missing = await http.post("/api/admin/workers/w2/drain")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_memory_and_latency_of_a_worker(stack: Stack) -> None:
    stack.worker(slots=1)
    async with (
        running_edge(stack.settings) as edge,
        watching(edge) as watcher,
        open_wire(edge.ws, "adx_1") as client,
    ):
        await client.begin()
        tables = watcher.tables
        for answers in (1, 2):
            await client.send_second()
            await client.expect("result")
            await watcher.receive_until(lambda: _answers(tables) == answers)  # noqa: B023
        assert tables["sessions"]["adx_1"]["latency"]["ms"] > 0
        (worker,) = tables["workers"].values()
        assert 0 < worker["memory"]["used"] < worker["memory"]["total"]
        await client.send(type="stop")
        await client.until("stopped")


def _answers(tables: dict[str, Any]) -> int:
    latency = tables["sessions"].get("adx_1", {}).get("latency")
    return latency["count"] if latency else 0


def _refreshes(edge: RunningEdge) -> float:
    """Number of snapshots: only the feed reads the edges from Redis."""
    name = "antiphon_redis_round_trip_seconds_count"
    found = edge.edge.metrics.registry.collect()
    samples = (sample for family in found for sample in family.samples)
    return sum(s.value for s in samples if s.name == name and s.labels.get("script") == "edges")


async def _refreshed(edge: RunningEdge, times: int) -> None:
    looks = _refreshes(edge)
    await until(lambda: _refreshes(edge) >= looks + times)


def _is_refreshing() -> bool:
    return any(task.get_name() == "admin-feed" for task in asyncio.all_tasks())
