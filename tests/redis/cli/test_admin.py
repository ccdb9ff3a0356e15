"""`antiphon queue cancel` and `worker drain` with the response of a worker."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.commands.admin import ask_to_drain, cancel_waiting
from antiphon.shared_schemas.registry import WorkerCommand
from antiphon.shared_schemas.states import EndReason
from support.control_plane import claim, join, report, serve, waiting
from support.fork_server import fork_server, run_antiphon


async def antiphon(settings: BrokerSettings, *args: str) -> tuple[int, str]:
    """Returns the exit status, and the output followed by the errors."""
    done = await asyncio.to_thread(
        run_antiphon,
        *args,
        folder=Path.cwd(),
        environment=os.environ | {"ANTIPHON_KEY_PREFIX": settings.key_prefix},
    )
    return done.returncode, done.stdout + done.stderr


async def test_a_waiting_session_is_cancelled_by_its_id(
    broker: Broker, settings: BrokerSettings
) -> None:
    await join(broker, "adx_a")
    await join(broker, "adx_b")
    status, output = await antiphon(
        settings, "queue", "cancel", "adx_a", "--redis-url", settings.redis_url
    )
    assert (status, output) == (0, "adx_a is out of the queue\n")
    assert await waiting(broker) == ["adx_b"]
    row = await broker.sessions.get("adx_a")
    assert row is not None
    assert row.reason is EndReason.CANCELLED


async def test_a_waiting_session_is_cancelled_by_its_ticket(broker: Broker) -> None:
    await join(broker, "adx_a")
    ticket = await join(broker, "adx_b")
    assert await cancel_waiting(broker, str(ticket.number))
    assert await waiting(broker) == ["adx_a"]


async def test_a_running_session_is_not_cancelled(broker: Broker, settings: BrokerSettings) -> None:
    await serve(broker)
    await join(broker, "adx_a")
    held = await claim(broker)
    assert not await broker.sessions.cancel("adx_a", held.ticket)
    status, output = await antiphon(
        settings, "queue", "--redis-url", settings.redis_url, "cancel", "adx_a"
    )
    assert status == 1
    assert "no session adx_a waits" in output


async def test_a_drain_reaches_the_worker_with_its_next_heartbeat(broker: Broker) -> None:
    await serve(broker, "w1")
    await serve(broker, "w2")
    assert await broker.registry.command_worker("w1", WorkerCommand.DRAIN)
    assert await broker.registry.worker_beat("w1", report()) is WorkerCommand.DRAIN
    assert await broker.registry.worker_beat("w2", report()) is None


async def test_an_unknown_command_is_ignored(broker: Broker, raw: Redis) -> None:
    await serve(broker, "w1")
    await raw.hset(broker.keys.worker("w1"), "asked", "sing")
    assert await broker.registry.worker_beat("w1", report()) is None


async def test_draining_an_unknown_worker_lists_the_known_ones(
    broker: Broker, settings: BrokerSettings
) -> None:
    await serve(broker, "w1")
    status, output = await antiphon(
        settings, "worker", "drain", "w7", "--redis-url", settings.redis_url
    )
    assert status == 1
    assert "no worker w7; alive are: w1" in output
    assert await broker.registry.worker_beat("w1", report()) is None


async def test_waiting_for_a_worker_to_exit(broker: Broker) -> None:
    await serve(broker, "w1")
    leaving = asyncio.create_task(ask_to_drain(broker, "w1", wait=True))
    while await broker.registry.worker_beat("w1", report()) is None:
        await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(leaving)
    await broker.registry.worker_gone("w1")
    async with asyncio.timeout(60):
        assert await leaving is None


async def test_ctrl_c_while_waiting_for_a_worker_to_exit_is_no_success(
    broker: Broker, settings: BrokerSettings, tmp_path: Path
) -> None:
    await serve(broker, "w1")
    process = fork_server().start(
        "antiphon.cli.main",
        *("worker", "drain", "w1", "--wait", "--redis-url", settings.redis_url),
        folder=tmp_path,
        environment=os.environ | {"ANTIPHON_KEY_PREFIX": settings.key_prefix},
        output=tmp_path / "output",
    )
    async with asyncio.timeout(60):
        while await broker.registry.worker_beat("w1", report()) is None:
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(process.wait, timeout=60) == 130
    assert (tmp_path / "output").read_text() == ""
