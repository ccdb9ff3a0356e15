"""Conversations survive the loss of workers and of Redis; lost clients and edges free their slots."""

import asyncio

import httpx
import pytest

from antiphon.broker.client import open_broker
from antiphon.cli.commands.admin import ask_to_drain
from antiphon.shared_schemas.states import SessionState
from support.ports import free_port
from support.raw_client import Wire, open_wire
from support.stack import Stack, until


async def talk(wire: Wire, seconds: int) -> list[int]:
    """Sends seconds of audio, each after the previous answer; returns every `current_time`.

    A client that waits for another worker for long enough gets its place before the answer.
    """
    times = []
    for _ in range(seconds):
        await wire.send_second()
        times.append((await wire.until("result"))["current_time"])
    return times


async def test_f1_a_killed_worker_is_replaced_and_the_client_only_sees_a_pause(
    stack: Stack,
) -> None:
    stack.edge()
    first = stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        assert await talk(wire, 2) == [1000, 2000]
        second = stack.worker()
        first.kill()
        assert await talk(wire, 2) == [3000, 4000]
        assert "session_recovered" in second.log
        async with open_broker(stack.settings) as broker:
            row = await broker.sessions.get("adx_1")
            assert row is not None
            assert (row.epoch, row.attempt, row.state) == (2, 2, SessionState.ACTIVE)
        await wire.send(type="stop")
        await wire.expect("stopped")


async def test_f2_a_stalled_worker_sends_nothing_after_it_wakes_up(stack: Stack) -> None:
    stack.edge()
    first = stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await talk(wire, 1)
        second = stack.worker()
        first.freeze()
        assert await talk(wire, 2) == [2000, 3000]
        first.thaw()
        await until(lambda: "session_lost" in first.log or "session_dropped" in first.log)
        assert await talk(wire, 2) == [4000, 5000]
        assert first.process.poll() is None
        assert second.process.poll() is None


async def test_f3_a_long_step_of_the_engine_loses_no_lease(stack: Stack) -> None:
    """One step takes longer than a lease and than the time after which a worker counts as dead.

    Both are longer than a pause of a busy machine.
    """
    port = free_port()
    quick = {"lease_s": 4.0, "heartbeat_ttl_s": 4.0}
    stack.edge(**quick)
    engine = '{"prepare_ms":1,"prefill_ms":1,"listen_ms":7000,"finalize_ms":1}'
    stack.worker(slots=1, engine_options=engine, health_port=port, **quick)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await wire.send_second()
        await wire.expect("result")
        async with open_broker(stack.settings) as broker:
            row = await broker.sessions.get("adx_1")
            assert row is not None
            assert (row.attempt, row.epoch) == (1, 1)

    def counted() -> bool:  # once the result has been published
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        return "antiphon_worker_deadline_misses_total 1.0" in metrics

    await until(counted)


async def test_f5_a_stopped_worker_hands_over_its_sessions(stack: Stack) -> None:
    stack.edge()
    first = stack.worker(drain_s=0.5)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await talk(wire, 1)
        stack.worker()
        assert await asyncio.to_thread(first.stop) == 0
        assert await talk(wire, 1) == [2000]


async def test_f5_a_worker_drained_by_an_operator_hands_over_its_sessions_and_exits(
    stack: Stack,
) -> None:
    stack.edge()
    first = stack.worker(drain_s=0.5)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await talk(wire, 1)
        stack.worker()
        async with open_broker(stack.settings) as broker:
            row = await broker.sessions.get("adx_1")
            assert row is not None
            assert await ask_to_drain(broker, row.worker, wait=True) is None
        assert await talk(wire, 1) == [2000]
        await until(lambda: first.process.poll() is not None)
        assert first.process.returncode == 0


@pytest.mark.parametrize("empty", [False, True], ids=["with its data", "empty"])
async def test_f6_an_outage_of_redis_for_three_seconds(stack: Stack, empty: bool) -> None:
    """With persistence the conversation continues, otherwise it ends with an error. No process restarts."""
    edge, worker = stack.edge(), stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await talk(wire, 1)
        stack.redis.kill()
        await asyncio.sleep(3)  # the test is about the length of the outage
        stack.redis.start(empty=empty)
        if empty:
            assert (await wire.message())["type"] == "error"
            await wire.close_code_after_all()
        else:
            assert await talk(wire, 2) == [2000, 3000]
            await wire.send(type="stop")
            await wire.expect("stopped")
    async with open_wire(stack.ws_url, "adx_2") as wire:
        await wire.begin()
        assert await talk(wire, 1) == [1000]
    assert edge.process.poll() is None
    assert worker.process.poll() is None
