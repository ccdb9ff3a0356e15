"""Clients learn that no worker can take their session, and when one can."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.cli.load.plan import LoadPlan, UserKind
from antiphon.cli.load.run import NoUserServed, run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.client.assistant import Client as AntiphonClient
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import NoAnswer
from antiphon.client.options import ClientOptions
from antiphon.client.realtime import connect_realtime
from antiphon.shared_schemas.registry import WorkerReport
from antiphon.shared_schemas.states import SessionKind, WorkerState
from support.edge_harness import (
    WITHIN_S,
    PlayedWorker,
    RunningEdge,
    played_worker,
)
from support.raw_client import Wire
from support.stack import until

SECOND = np.zeros(16_000, np.float32)
PATIENCE_S = 5.0
ESTIMATES = {"eta_seconds", "estimated_wait_s"}


def _worker(broker: Broker, *kinds: SessionKind) -> PlayedWorker:
    return PlayedWorker(broker, "w2", 1, frozenset(kinds))


async def _loads(broker: Broker) -> None:
    report = WorkerReport(
        engine="played",
        model="none",
        kinds=frozenset(SessionKind),
        slots=1,
        state=WorkerState.LOADING,
        device="cpu",
        address="",
        open=False,
    )
    await broker.registry.worker_beat("w-loading", report)


async def _has_waited(broker: Broker) -> None:
    """Return when a session has waited for a second, while a worker loads."""

    async def has_waited() -> bool:
        await _loads(broker)
        snapshot = await broker.queue.snapshot()
        return any(snapshot.at - row.queued_at > 1000 for row in snapshot.waiting)

    await until(has_waited)


async def _reason(client: Wire) -> str | None:
    """The reason of the newest place; it has no estimate exactly if it has a reason."""
    place = await client.message()
    assert place["type"] in ("queued", "queue_update"), place
    assert ESTIMATES & place.keys() == (set() if "reason" in place else ESTIMATES)
    reason: str | None = place.get("reason")
    return reason


async def _reaches(client: Wire, reason: str | None) -> None:
    while await _reason(client) != reason:
        pass


async def test_a_place_says_that_no_worker_is_connected(edge: RunningEdge, broker: Broker) -> None:
    """The estimate appears once a worker is busy with another session."""
    async with AsyncExitStack() as clients:
        first = await clients.enter_async_context(edge.client("adx_1"))
        assert await _reason(first) == "no_worker"  # it is in the queue before the second one
        second = await clients.enter_async_context(edge.client("adx_2"))
        await _reaches(second, "no_worker")
        await _loads(broker)
        await _reaches(first, "worker_loading")
        await _reaches(second, "worker_loading")
        async with played_worker(broker) as worker:
            await worker.claim()
            await _reaches(second, None)
            await first.expect("queue_done", skip=("queue_update",))


async def test_a_place_says_that_no_worker_serves_its_kind(
    edge: RunningEdge, broker: Broker, http: httpx.AsyncClient
) -> None:
    async with _worker(broker, SessionKind.AUDIO_DUPLEX), edge.client("omni_1") as client:
        place = await client.expect("queued")
        assert (place["position"], place["reason"]) == (1, "kind_not_served")
        [item] = (await http.get("/api/queue")).json()["items"]
        assert (item["estimated_wait_s"], item["reason"]) == (None, "kind_not_served")


async def _ask(edge: RunningEdge) -> None:
    with pytest.raises(NoAnswer, match="no worker is connected"):
        await AntiphonClient(edge.ws).aask(SECOND, patience_s=PATIENCE_S)


async def _converse(edge: RunningEdge) -> None:
    async with connect_realtime(edge.ws) as session:
        with pytest.raises(NoAnswer, match="no worker"):
            await session.wait_for_turn(no_worker_s=PATIENCE_S)


async def _measure(edge: RunningEdge) -> None:
    """A benchmark reports why it measures nothing."""
    kinds = (UserKind.AUDIO, UserKind.OMNI, UserKind.HALF_DUPLEX)
    plan = LoadPlan(sessions=3, kinds=kinds, seconds=1.0, patience_s=WITHIN_S)
    inputs = LoadInputs.of([SECOND], plan.speak_ratio)
    with pytest.raises(NoUserServed) as refused:
        await run_load(edge.ws, ClientOptions(), plan, inputs, lambda: ProcessUsage.of({}))
    assert set(str(refused.value).split("; ")) == {
        f"{kind}: no worker is connected" for kind in kinds
    }


async def test_programs_give_up_without_a_worker(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.cli.load.users._NO_WORKER_S", PATIENCE_S)
    await asyncio.gather(_ask(edge), _converse(edge), _measure(edge))


async def test_a_client_waits_for_a_worker_that_loads(edge: RunningEdge, broker: Broker) -> None:
    await _loads(broker)
    async with connect_duplex(edge.ws) as session:
        turn = asyncio.create_task(session.wait_for_turn(no_worker_s=PATIENCE_S))
        await _has_waited(broker)
        async with played_worker(broker) as worker:
            await worker.claim()
            await turn


async def test_a_session_that_has_lost_the_only_worker_gets_the_reason(
    edge: RunningEdge, broker: Broker
) -> None:
    async with edge.client("adx_1") as client:
        async with played_worker(broker) as worker:
            await worker.claim()
            await client.expect("queue_done", skip=("queued", "queue_update"))
        await broker.registry.worker_gone("w1")
        await _reaches(client, "no_worker")
        async with played_worker(broker) as worker:
            await worker.claim()
            while (await client.expect("queue_update"))["position"] != 0:
                pass
