"""Workers that are stopped, and sessions that break them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.registry import SessionRow
from antiphon.shared_schemas.states import EndReason
from support.fault_stack import SIMULATED, Talker, fault_stack, talkers
from support.poisoned_worker import BAD_UNIT, ENDLESS, TOO_LONG, deadly
from support.raw_client import Wire, open_path, open_wire
from support.stack import Service, Stack, until


async def row_of(stack: Stack, sid: str) -> SessionRow:
    async with open_broker(stack.settings) as broker:
        row = await broker.sessions.get(sid)
    assert row is not None
    return row


async def test_f24_a_failure_of_the_engine_ends_only_its_session(tmp_path: Path) -> None:
    """No memory for one more session, and a step that fails as a CUDA error does."""
    async with fault_stack(tmp_path) as faults:
        stack = faults.stack
        stack.expected = "session_failed"
        await faults.edge()
        worker = stack.poisoned_worker(engine_options=SIMULATED, slots=4)
        async with (
            talkers(faults, 2) as (talker, failing),
            open_wire(stack.ws_url, "adx_large") as large,
        ):
            await asyncio.gather(talker.talk(2), failing.talk(2))
            await large.until("queue_done")
            await large.send(type="prepare", system_prompt=TOO_LONG)
            refused = await large.message()
            assert (refused["type"], refused["code"]) == ("error", "inference_error")
            await large.send(type="prepare", system_prompt="shorter")
            await large.until("prepared")
            await failing.wire.send_second(BAD_UNIT)
            error = await failing.wire.message()
            assert (error["type"], error["code"]) == ("error", "inference_error")
            await failing.wire.close_code_after_all()
            await talker.talk(3)
            talker.check()
            assert (await row_of(stack, "adx_talker_1")).reason is EndReason.ERROR
        assert worker.process.poll() is None
        await faults.stack.no_session_left()


async def stop_and_kill(worker: Service) -> None:
    """As a service manager: SIGTERM, then SIGKILL a second after the worker has noticed its deadline."""
    worker.process.terminate()
    await until(lambda: "drain_deadline" in worker.log)
    with contextlib.suppress(TimeoutError):
        await until(lambda: worker.process.poll() is not None, within_s=1)
    worker.kill()


@pytest.mark.extended
async def test_a_worker_with_a_grace_shorter_than_its_drain_hands_its_sessions_over(
    stack: Stack,
) -> None:
    """Although the engine does not finish its step in time."""
    stack.edge()
    first = stack.poisoned_worker(engine_options=SIMULATED, drain_s=60, stop_grace_s=4)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await Talker(wire).talk(1)
        second = stack.worker(engine_options=SIMULATED)
        await wire.send_second(ENDLESS)
        await stop_and_kill(first)
        while (message := await wire.message())["type"] == "queue_update":
            pass
        assert (message["type"], message["current_time"]) == ("result", 2000)
        row = await row_of(stack, "adx_1")
        assert (row.epoch, row.attempt) == (2, 1)
        assert "session_recovered" in second.log


async def test_a_second_sigterm_hands_the_sessions_over_at_once(stack: Stack) -> None:
    stack.edge()
    first = stack.worker(drain_s=60)
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        talker = Talker(wire)
        await talker.talk(1)
        stack.worker()
        first.process.terminate()
        await until(lambda: "worker_draining" in first.log)
        await talker.talk(1)
        assert (await row_of(stack, "adx_1")).epoch == 1
        assert await asyncio.to_thread(first.stop) == 0
        await talker.talk(1)
        talker.check()
        row = await row_of(stack, "adx_1")
        assert (row.epoch, row.attempt) == (2, 1)


@asynccontextmanager
async def kept_alive(stack: Stack, **settings: object) -> AsyncIterator[list[Service]]:
    """One worker that a client can crash, and that is started again when it dies."""
    started: list[Service] = []

    async def supervise() -> None:
        while True:
            worker = await asyncio.to_thread(
                stack.poisoned_worker, engine_options=SIMULATED, **settings
            )
            started.append(worker)
            while worker.process.poll() is None:
                await asyncio.sleep(0.05)

    supervisor = asyncio.create_task(supervise())
    try:
        yield started
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


async def speak_until_lost(wire: Wire) -> None:
    """Speaks all the time, so that input waits at each takeover."""

    async def speak() -> None:
        while True:
            await wire.send_second()
            await asyncio.sleep(1)

    speaking = asyncio.create_task(speak())
    try:
        await until_lost(wire)
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


async def until_lost(wire: Wire) -> None:
    while (message := await wire.message())["type"] != "error":
        pass
    assert message["code"] == "worker_lost", message


Poisons = AsyncIterator[list[Coroutine[Any, Any, None]]]


@asynccontextmanager
async def one_of_each_kind(stack: Stack) -> Poisons:
    async with (
        open_wire(stack.ws_url, "adx_poison") as duplex,
        open_path(stack.ws_url, "/ws/half_duplex/hdx_poison") as half_duplex,
        open_path(stack.ws_url, "/ws/chat") as chat,
    ):
        yield [
            _duplex_poison(duplex, deadly("finalize", 2)),
            _half_duplex_poison(half_duplex),
            _chat_poison(chat),
        ]


async def _duplex_poison(wire: Wire, prompt: str) -> None:
    await wire.begin(system_prompt=prompt)
    await speak_until_lost(wire)


async def _half_duplex_poison(wire: Wire) -> None:
    await wire.until("queue_done")
    prompt = deadly("greet", 0)
    await wire.send(type="prepare", system_prompt=prompt, config={"greeting": "Hello"})
    await until_lost(wire)


async def _chat_poison(wire: Wire) -> None:
    question = {"role": "user", "content": deadly("prefill", 0)}
    await wire.send(messages=[question], streaming=True)
    await until_lost(wire)


@pytest.mark.extended
async def test_f25_sessions_that_crash_their_worker_end_and_their_neighbours_continue(
    tmp_path: Path,
) -> None:
    async with fault_stack(tmp_path) as faults:
        stack = faults.stack
        await faults.edge()
        async with (
            kept_alive(stack, slots=8, lease_s=2, heartbeat_ttl_s=2) as workers,
            one_of_each_kind(stack) as poisons,
            talkers(faults, 2) as neighbours,
        ):
            await asyncio.gather(*(each.talk(2) for each in neighbours))
            killing = asyncio.gather(*poisons)
            while not killing.done():
                await asyncio.gather(*(each.talk(1, every_s=0.5) for each in neighbours))
            await killing
            await asyncio.gather(*(each.talk(2) for each in neighbours))
            for each in neighbours:
                each.check()
            async with open_broker(stack.settings) as broker:
                running = (await broker.queue.snapshot()).running
                assert {row.sid for row in running} == {
                    f"adx_talker_{n}" for n in range(len(neighbours))
                }
        assert len(workers) <= 2 + 3 * len(poisons)
        await faults.stack.no_session_left()
